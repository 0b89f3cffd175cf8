/*
 * frames.c - large reads for a block shuffle: aligned windows of the files, shared by the rows that
 * lie in them.
 *
 * The rows of a block shuffle lie scattered over a group of blocks, some MiB wide. Read one by one
 * from a cold disk they are small random reads; so the arena is cut into frames, each holds one
 * window of a file (and, beyond it, as much as one sample may stick out), and a row points into its
 * frame. A frame stays as long as rows of open chunks are in it, and then until it is the one that
 * was not used for the longest time. The sampler answers for any position, so the windows that are
 * wanted a group from now are read ahead, as far as there are frames for both groups.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

#define WINDOW       ((uint64_t)128 << 10)
#define BLOCK        ((uint64_t)4096)
#define FRAMES_MAX   1024
#define SAMPLE_MAX   ((uint64_t)32 << 10) /* larger ones are large reads already */
#define STEP         64
#define ROWS_BLOCK   256 /* the sampler's defaults */
#define BLOCKS_GROUP 16

struct iter_frame {
    iter_chunk_read r; /* first: reap() hands it back */
    uint8_t *data;
    uint64_t window; /* number in its file */
    uint64_t used;   /* tick of the last use */
    uint32_t users;  /* rows of open chunks */
    bool loading;
    iter_chunk_read *waiters; /* rows that wait for it, by `next` */
};

struct iter_frames {
    uint64_t bytes; /* of one frame */
    uint32_t n, n_ahead;
    uint64_t ids[FRAMES_MAX]; /* object << 40 | window, plus 1; 0 = holds nothing */
    iter_frame frames[FRAMES_MAX];
    uint64_t tick;
    uint64_t ahead_rows;       /* how far ahead of the opener; 0 = off */
    atomic_ullong ahead_until; /* row of the endless sequence up to which was read ahead */
    atomic_bool at_it;         /* somebody reads ahead just now */
};

/* ---- Frames: with io.lock held --------------------------------------------------------------- */

static uint64_t id_of(const iter_extent *extent) {
    return (extent->object << 40 | extent->offset / WINDOW) + 1;
}

static iter_frame *find(iter_frames *frames, uint64_t id) {
    for (uint32_t i = 0; i < frames->n; i++) {
        if (frames->ids[i] == id) return &frames->frames[i];
    }
    return NULL;
}

/* Begins to read a window into the frame that was not used for the longest time; NULL where all are
 * in use. */
static iter_frame *load(iter_loader *loader, const iter_extent *extent) {
    iter_io *io = &loader->io;
    iter_frames *frames = io->frames;
    iter_frame *frame = NULL;
    for (uint32_t i = 0; i < frames->n; i++) {
        iter_frame *other = &frames->frames[i];
        if (other->users || other->loading) continue;
        if (!frame || other->used < frame->used) frame = other;
    }
    if (!frame) return NULL;
    const uint64_t window = extent->offset / WINDOW, offset = window * WINDOW;
    const uint64_t file = loader->dataset->desc.files[extent->object].bytes;
    const uint64_t left = ((file > offset ? file - offset : 1) + BLOCK - 1) & ~(BLOCK - 1);
    frames->ids[frame - frames->frames] = id_of(extent);
    frame->window = window;
    frame->loading = true;
    frame->r = (iter_chunk_read){.frame = frame};
    frame->r.part = (iter_iovec){frame->data, left < frames->bytes ? left : frames->bytes};
    frame->r.read = (iter_read){.object = extent->object,
                                .offset = offset,
                                .parts = &frame->r.part,
                                .n_parts = 1,
                                .size = frame->r.part.size};
    atomic_fetch_add(&io->pending, 1);
    iter__io_queue(io, &frame->r);
    return frame;
}

/* Whether a frame that was read lacks bytes of this extent. */
static bool is_missing(const iter_frame *frame, const iter_extent *extent) {
    const iter_read *read = &frame->r.read;
    return read->status < 0 || extent->offset + extent->size - read->offset > read->done;
}

/* Gives back the first `n` rows of a chunk. */
static void leave(iter_loader *loader, iter_chunk *chunk, uint32_t n) {
    const int32_t n_extents = loader->dataset->desc.n_extents;
    iter_chunk_read *nodes = chunk->batch->reads + (size_t)chunk->first * n_extents;
    for (uint32_t i = 0; i < n; i++) {
        if (nodes[i].frame) nodes[i].frame->users--;
    }
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

int iter__frames_issue(iter_loader *loader, iter_chunk *chunk) {
    iter_io *io = &loader->io;
    iter_frames *frames = io->frames;
    iter_batch *batch = chunk->batch;
    const int32_t n_extents = loader->dataset->desc.n_extents;
    const size_t first = (size_t)chunk->first * n_extents;
    const uint32_t n = chunk->n * (uint32_t)n_extents;
    atomic_store(&chunk->reads_left, 1);
    pthread_mutex_lock(&io->lock);
    for (uint32_t i = 0; i < n; i++) { /* all frames first: a chunk has them, or waits for others */
        const iter_extent *extent = &batch->extents[first + i];
        iter_chunk_read *node = &batch->reads[first + i];
        iter_frame *frame = find(frames, id_of(extent));
        if (!frame) frame = load(loader, extent);
        if (!frame) {
            leave(loader, chunk, i);
            iter__io_pump(io);
            pthread_mutex_unlock(&io->lock);
            return -1;
        }
        *node = (iter_chunk_read){.chunk = chunk,
                                  .first_row = chunk->first + i / (uint32_t)n_extents,
                                  .n_rows = 1,
                                  .extent = (int32_t)(i % (uint32_t)n_extents),
                                  .frame = frame};
        frame->users++;
        frame->used = ++frames->tick;
        batch->bytes[first + i] = frame->data + (extent->offset - frame->window * WINDOW);
    }
    for (uint32_t i = 0; i < n; i++) {
        iter_chunk_read *node = &batch->reads[first + i];
        if (!node->frame->loading) { /* it is there, unless the file ended before */
            if (is_missing(node->frame, &batch->extents[first + i]))
                batch->row_status[node->first_row] = ITER_AGAIN;
            continue;
        }
        node->next = node->frame->waiters;
        node->frame->waiters = node;
        atomic_fetch_add(&chunk->reads_left, 1);
    }
    chunk->region = 1;
    iter__io_pump(io);
    pthread_mutex_unlock(&io->lock);
    atomic_store_explicit(&chunk->state, CHUNK_WAITING, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&chunk->reads_left, 1, memory_order_acq_rel) != 1) return 0;
    atomic_store_explicit(&chunk->state, CHUNK_CLAIMED, memory_order_relaxed);
    return 1;
}

void iter__frames_release(iter_loader *loader, iter_chunk *chunk) {
    leave(loader, chunk, chunk->n * (uint32_t)loader->dataset->desc.n_extents);
}

iter_chunk_read *iter__frame_loaded(iter_loader *loader, iter_chunk_read *r) {
    iter_io *io = &loader->io;
    iter_frame *frame = r->frame;
    const iter_read *read = &frame->r.read;
    iter_chunk_read *waiters = frame->waiters;
    frame->waiters = NULL;
    frame->loading = false;
    atomic_fetch_add_explicit(&io->path_bytes[read->path], read->done, memory_order_relaxed);
    if (read->status < 0)
        io->frames->ids[frame - io->frames->frames] = 0; /* who comes next tries again */
    for (iter_chunk_read *node = waiters; node; node = node->next) {
        iter_batch *batch = node->chunk->batch;
        const iter_extent *extent =
            &batch->extents[(size_t)node->first_row * loader->dataset->desc.n_extents +
                            node->extent];
        if (is_missing(frame, extent)) batch->row_status[node->first_row] = ITER_AGAIN;
    }
    return waiters;
}

/* ---- Reading ahead --------------------------------------------------------------------------- */

/* Row of the endless sequence that the opener is at. loader.lock held. */
static uint64_t opener_row(const iter_loader *loader) {
    const bool rolls = loader->cut.last_batch == ITER_LAST_ROLL_OVER;
    return loader->opener.sample + (rolls ? 0 : (uint64_t)loader->opener.epoch * loader->cut.n);
}

/* The next samples to read ahead, at most STEP; 0 = none for now. */
static uint64_t next_ahead(iter_loader *loader, uint64_t indices[STEP], uint64_t *out_from) {
    iter_frames *frames = loader->io.frames;
    pthread_mutex_lock(&loader->lock);
    const uint64_t at = opener_row(loader), until = at + frames->ahead_rows;
    uint64_t from = atomic_load_explicit(&frames->ahead_until, memory_order_relaxed);
    if (from < at || from > until + STEP) from = at; /* the loader went somewhere else */
    const uint64_t position = from % loader->cut.n, epoch = from / loader->cut.n;
    uint64_t n = from < until ? until - from : 0;
    if (n > STEP) n = STEP;
    if (n > loader->cut.n - position) n = loader->cut.n - position;
    const bool past = epoch > UINT32_MAX || (loader->opt.epochs && epoch >= loader->opt.epochs);
    if (past || loader->stopping) n = 0;
    if (n)
        loader->sampler->index(loader->sampler_state, (uint32_t)epoch, position, (uint32_t)n,
                               indices);
    pthread_mutex_unlock(&loader->lock);
    *out_from = from;
    return n;
}

void iter__frames_read_ahead(iter_loader *loader) {
    iter_io *io = &loader->io;
    iter_frames *frames = io->frames;
    bool expected = false;
    if (!frames->ahead_rows || !atomic_compare_exchange_strong(&frames->at_it, &expected, true))
        return;
    uint64_t indices[STEP], from, n;
    while ((n = next_ahead(loader, indices, &from)) > 0) {
        const iter_dataset *dataset = loader->dataset;
        pthread_mutex_lock(&io->lock);
        for (uint64_t i = 0; i < n && !io->canceled; i++) {
            iter_extent extents[ITER_MAX_EXTENTS];
            dataset->format->locate(dataset->state, indices[i], extents);
            for (int32_t e = 0; e < dataset->desc.n_extents; e++) {
                iter_frame *frame = find(frames, id_of(&extents[e]));
                if (!frame) frame = load(loader, &extents[e]);
                if (frame) frame->used = ++frames->tick;
            }
        }
        iter__io_pump(io);
        pthread_mutex_unlock(&io->lock);
        atomic_store_explicit(&frames->ahead_until, from + n, memory_order_relaxed);
    }
    atomic_store(&frames->at_it, false);
}

/* ---- Making ---------------------------------------------------------------------------------- */

size_t iter__frames_bytes(const iter_loader *loader, uint32_t *out_n) {
    const iter_loader_options *opt = &loader->opt;
    const iter_description *desc = &loader->dataset->desc;
    uint64_t sample = 0;
    *out_n = 0;
    for (int32_t e = 0; e < desc->n_extents; e++)
        sample += desc->max_extent_bytes[e];
    const bool block = opt->shuffle == ITER_SHUFFLE_BLOCK && !opt->sampler && !opt->sampler_ops;
    if (!block || sample > SAMPLE_MAX || loader->subset || loader->cut.n == 0 ||
        desc->n_files > 4096)
        return 0;
    const uint64_t blocks = opt->buffer_blocks ? opt->buffer_blocks : BLOCKS_GROUP;
    const uint64_t rows = opt->block ? opt->block : ROWS_BLOCK;
    const uint64_t group = blocks * (rows * sample / WINDOW + 2) * (uint64_t)desc->n_extents;
    const uint64_t n = 2 * group + 8;
    *out_n = n < FRAMES_MAX ? (uint32_t)n : FRAMES_MAX;
    return (size_t)(WINDOW + ((sample + BLOCK - 1) & ~(BLOCK - 1)));
}

iter_status iter__frames_make(iter_loader *loader, iter_error *err) {
    iter_io *io = &loader->io;
    uint32_t n;
    const size_t bytes = iter__frames_bytes(loader, &n);
    if (!bytes || !io->async || io->direct) return ITER_OK;
    const uint32_t fit = (uint32_t)(io->arena_bytes / bytes);
    if (fit < loader->chunk_rows * 2 * (uint32_t)loader->dataset->desc.n_extents)
        return ITER_OK; /* a chunk may want so many */
    io->frames = iter__alloc(1, sizeof(*io->frames));
    if (!io->frames) return iter__fail(err, ITER_ENOMEM, "frames: out of memory");
    io->frames->n = fit < FRAMES_MAX ? fit : FRAMES_MAX;
    io->frames->bytes = bytes;
    for (uint32_t i = 0; i < io->frames->n; i++)
        io->frames->frames[i].data = io->arena + i * bytes;
    const uint64_t group = (uint64_t)(loader->opt.block ? loader->opt.block : ROWS_BLOCK) *
                           (loader->opt.buffer_blocks ? loader->opt.buffer_blocks : BLOCKS_GROUP);
    /* as far ahead as there are frames beside those of the group in use */
    const uint32_t wanted = (n - 8) / 2;
    if (io->frames->n > wanted + 8) {
        const uint64_t spare = io->frames->n - wanted - 8;
        io->frames->ahead_rows = spare >= wanted ? group : 0;
    }
    return ITER_OK;
}
