/*
 * loader_layout.h - how a loader divides its memory: how many slots, how large a chunk, which
 * buffers.
 *
 * Pure arithmetic on options, description and plan, under one memory limit. Decided once, when the
 * loader is created, and read-only afterwards.
 *
 * Rows' bytes come in one of three ways: none are needed; all files lie in memory; or they are read
 * as needed. In the last case the layout chooses one of these paths:
 *
 *     hot      small samples in the page cache: a run of rows into a worker's buffer, made at once
 *     placed   rows stored as they are delivered: heads into that buffer, rows into the slot
 *     arena    everything else: chunks into regions of one ring of memory
 *     frames   the arena as windows of files that rows share: for block shuffles, and for sets at
 *              URLs that are read in order
 */
#ifndef ITER_RUNTIME_LOADER_LAYOUT_H
#define ITER_RUNTIME_LOADER_LAYOUT_H

#include <iter/loader.h>

typedef struct iter__plan iter__plan;

typedef enum iter__bytes {
    BYTES_NONE,   /* rows lie in arrays, or are made by get() */
    BYTES_LOADED, /* files lie in memory as they are */
    BYTES_READ    /* as needed */
} iter__bytes;

/* What the layout depends on. */
typedef struct iter__layout_in {
    const iter_loader_options *opt; /* checked: batch_size, max_held and workers are set */
    const iter_description *desc;
    const iter__plan *plan;
    uint64_t limit;        /* bytes: opt->memory.limit, or a part of the free memory */
    uint64_t loaded_bytes; /* of the loaded set, beside everything else */
    uint32_t one_copy_for; /* processes that share the loaded set; only for the text */
    uint64_t n_rows;       /* of an epoch, or ITER_UNKNOWN */
    uint64_t order_bytes;  /* that the sampler holds */
    iter__bytes bytes;
    bool is_stream;
    bool is_ordered;    /* rows come in the order in which they are stored: reads coalesce */
    bool can_try;       /* the source answers from the page cache without blocking */
    bool one_at_a_time; /* get() runs in one worker at a time */
    bool is_remote;     /* files lie at URLs: a read is a request */
    bool is_cached;     /* and blocks of them are kept on a disk */
    uint64_t block_rows, block_buffer; /* of a block shuffle; 0 = none */
} iter__layout_in;

/* How a block shuffle cuts files into windows, see frames.c. */
typedef struct iter__frames_layout {
    uint32_t n;                      /* 0 = there are none */
    uint64_t a_group;                /* of them, for one group */
    uint64_t in_use, ahead;          /* groups: that rows are made of; to read ahead, as wanted */
    size_t bytes;                    /* of one frame */
    uint64_t block_rows, piece_rows; /* a window holds a piece of a block */
    uint64_t group_rows, ahead_rows; /* rows that are shuffled together; rows read ahead */
} iter__frames_layout;

typedef struct iter__layout {
    iter__bytes bytes;
    uint32_t prefetch, n_slots, queue_capacity;
    uint32_t chunk_rows;   /* rows of a chunk, at most */
    uint32_t rows_a_chunk; /* the same; of a stream all rows of a batch */
    uint32_t max_chunks;   /* of a batch */
    uint32_t most_busy;    /* workers that can be at work at once */
    size_t hot_bytes;      /* of a worker's buffer for rows read without blocking; 0 = none */
    /* Rows that are read straight into the slot: their output; bytes of a sample before the row;
     * bytes per row in the worker's buffer, for what surrounds it. head 0 = there are none. */
    int32_t placed_field;
    size_t placed_head, placed_stride;
    size_t arena_bytes;
    uint32_t n_regions;
    bool whole_blocks; /* reads in the arena extend to whole blocks */
    iter__frames_layout frames;
    uint64_t window_bytes; /* of files at URLs, about; 0 = they have no frames */
    size_t source_bytes;   /* for the source's own buffers */
    uint64_t sample_max;   /* bytes that a sample may have as it is read */
    size_t picture_max;    /* bytes that a growing buffer may have */
    bool picture_share;    /* picture_max is a share of memory_limit */
    size_t decoder_max;    /* bytes that an image decoder's state may hold */
    uint64_t index_bytes, order_bytes, books_bytes;
    uint64_t worker_bytes; /* of each */
    uint64_t fixed_bytes;  /* all except the arena and the loaded set */
} iter__layout;

/* Fails with ENOMEM if the limit is too small; the error says what it must hold, which limit would
 * do, and which options need less. Before that, tries smaller values of prefetch, unless
 * opt->prefetch is set. */
iter_status iter__layout_create(const iter__layout_in *in, iter__layout *out, iter_error *err);

/* The layout as lines of the plan's text. */
void iter__layout_text(const iter__layout_in *in, const iter__layout *layout, char *out,
                       size_t capacity);

/* Bytes of a worker (worker_state.c) and of the bookkeeping of a slot (batch.c). */
size_t iter__worker_bytes(const iter__plan *plan, const iter__layout *layout);
size_t iter__books_bytes(const iter__plan *plan, const iter_description *desc, uint32_t batch_size,
                         const iter__layout *layout);

#endif
