/*
 * frames.c - large reads for a block shuffle: aligned windows of the files, shared by their rows.
 *
 * The rows of a block shuffle are scattered over a group of blocks, some MiB wide. Read one by one
 * from a cold disk, they would be small random reads. So the arena is cut into frames, each frame
 * holds one window of a file, and a row points into its frame. A block is cut into equal pieces of
 * rows. A window is a piece widened to whole disk blocks, so few bytes are read that no row of the
 * block needs. A piece may be no single stretch of a file: it crosses the end of a file, or its
 * samples are not neighbours, or are larger than most. Such a piece is halved until each part is
 * one.
 *
 * Files at URLs that are read in order are read the same way, as blocks of one window.
 *
 * The sampler can be asked for any position. So the windows that are needed one group later, or
 * some, are read ahead, into frames that are spent: all rows of their group have been made. If a
 * row needs a window now that no frame holds, the least recently used frame is evicted, spent or
 * not. A frame is never evicted while rows of open chunks are in it.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/runtime/loader_state.h"

#define BLOCK ((uint64_t)4096)
#define STEP  64

struct iter__frame {
    iter__chunk_read r; /* first: reap() hands it back */
    uint8_t *data;
    uint64_t used;  /* tick of the last use */
    uint64_t until; /* row of the endless sequence where the group that needs it ends; 0 = none */
    uint32_t users; /* rows of open chunks */
    bool loading;
    int64_t issued_ns;
    iter__chunk_read *waiters; /* rows that wait for it, by `next` */
};

/* The stretch of a file that is read for a row. Two windows may begin at the same disk block and
 * differ in size: the samples of one end in it, and those of the other begin. */
typedef struct window {
    uint64_t object, start, bytes; /* whole disk blocks, up to the end of the file */
} window;

struct iter__frames {
    const iter__frames_layout *cut; /* the loader's */
    uint64_t *ids;                  /* [cut->n] a hash of the window that it holds; 0 = none */
    iter__frame *frames;            /* [cut->n] */
    uint64_t tick;
    /* Rows of the endless sequence, as in `until`. at: where the opener was when a thread last
     * looked. spent: all rows before it have been made. */
    uint64_t at, spent;
    uint64_t held_from, held_at; /* the row that found no spent frame, and where the opener was */
    atomic_ullong ahead_until;   /* row of the endless sequence up to which was read ahead */
    atomic_bool at_it;           /* a thread is reading ahead */
};

/* ---- Windows --------------------------------------------------------------------------------- */

/* Sets *out to the stretch of a file from sample `first` to `end` - 1. False if this is no single
 * stretch with all of `extent` in it, or fits no frame. */
static bool is_one_stretch(const iter_loader *loader, uint64_t first, uint64_t end, int32_t e,
                           const iter_extent *extent, window *out) {
    iter_extent from[ITER_MAX_EXTENTS], to[ITER_MAX_EXTENTS];
    if (!iter__dataset_locate(loader->dataset, first, from) ||
        !iter__dataset_locate(loader->dataset, end - 1, to))
        return false;
    const uint64_t stop = to[e].offset + to[e].size;
    *out = (window){.object = extent->object, .start = iter__align_down_u64(from[e].offset, BLOCK)};
    if (from[e].object != extent->object || to[e].object != extent->object ||
        extent->offset < from[e].offset || extent->offset + extent->size > stop)
        return false;
    out->bytes = iter__align_up_u64(stop, BLOCK) - out->start;
    return out->bytes <= loader->reading.frames->cut->bytes;
}

/* The window of extent `e` of sample `index`: its piece of the block, halved until it is one
 * stretch. A pure function of the sample. */
static window window_of(const iter_loader *loader, uint64_t index, int32_t e,
                        const iter_extent *extent) {
    const iter__frames_layout *cut = loader->reading.frames->cut;
    const uint64_t in_block = index % cut->block_rows, block = index - in_block;
    uint64_t first = index - in_block % cut->piece_rows;
    uint64_t end = iter__min_u64(first + cut->piece_rows, block + cut->block_rows);
    end = iter__min_u64(end, loader->dataset->desc.n_samples);
    window out;
    while (end - first > 1) {
        if (is_one_stretch(loader, first, end, e, extent, &out)) return out;
        const uint64_t middle = first + (end - first) / 2;
        if (index < middle)
            end = middle;
        else
            first = middle;
    }
    out.object = extent->object;
    out.start = iter__align_down_u64(extent->offset, BLOCK);
    out.bytes = iter__align_up_u64(extent->offset + extent->size, BLOCK) - out.start;
    out.bytes = iter__min_u64(iter__max_u64(out.bytes, BLOCK), cut->bytes);
    return out;
}

/* ---- Frames: with reading.lock held ---------------------------------------------------------- */

static uint64_t id_of(const window *w) {
    return ((w->object << 40 ^ w->start / BLOCK << 12 ^ w->bytes / BLOCK) * 0x9e3779b97f4a7c15u) |
           1;
}

static iter__frame *find(iter__frames *frames, const window *w) {
    const uint64_t id = id_of(w);
    for (uint32_t i = 0; i < frames->cut->n; i++) {
        const iter_read *read = &frames->frames[i].r.read;
        if (frames->ids[i] == id && read->object == w->object && read->offset == w->start &&
            read->size == w->bytes)
            return &frames->frames[i];
    }
    return NULL;
}

/* Begins to read a window into the least recently used spent frame. If no frame is spent, and the
 * window is needed now (not `ahead`), takes the least recently used one that no row is in. NULL if
 * there is none. */
static iter__frame *load(iter_loader *loader, const window *w, bool ahead) {
    iter__reading *reading = &loader->reading;
    iter__frames *frames = reading->frames;
    iter__frame *frame = NULL;
    bool spent = false;
    for (uint32_t i = 0; i < frames->cut->n; i++) {
        iter__frame *other = &frames->frames[i];
        const bool other_spent = other->until <= frames->spent;
        if (other->users || other->loading || other_spent < (ahead || spent)) continue;
        if (frame && other_spent == spent && other->used >= frame->used) continue;
        frame = other;
        spent = other_spent;
    }
    if (!frame) return NULL;
    frames->ids[frame - frames->frames] = id_of(w);
    frame->loading = true;
    frame->issued_ns = iter__now_ns();
    frame->r = (iter__chunk_read){.frame = frame};
    frame->r.part = (iter_iovec){frame->data, w->bytes};
    frame->r.read = (iter_read){.object = w->object,
                                .offset = w->start,
                                .parts = &frame->r.part,
                                .n_parts = 1,
                                .size = w->bytes};
    atomic_fetch_add(&reading->pending, 1);
    iter__reading_queue(reading, &frame->r);
    return frame;
}

/* The frame of a window that row `position` of an epoch needs. If no frame holds the window, a read
 * is queued for it. NULL if no frame is free. */
static iter__frame *frame_of(iter_loader *loader, const window *w, uint64_t epoch,
                             uint64_t position, bool ahead) {
    iter__frames *frames = loader->reading.frames;
    iter__frame *frame = find(frames, w);
    if (!frame) {
        frame = load(loader, w, ahead);
        if (!frame) return NULL;
        frame->until = 0;
    }
    uint64_t end = (position / frames->cut->group_rows + 1) * frames->cut->group_rows;
    if (end > loader->cut.n) end = loader->cut.n;
    end += epoch * loader->cut.n;
    if (end > frame->until) frame->until = end;
    frame->used = ++frames->tick;
    return frame;
}

/* The loader went back, so the frames' groups are no longer those that come next. */
static void forget_wishes(iter__frames *frames) {
    for (uint32_t i = 0; i < frames->cut->n; i++)
        frames->frames[i].until = 0;
}

/* Whether a frame that was read lacks bytes of this extent. */
static bool is_missing(const iter__frame *frame, const iter_extent *extent) {
    const iter_read *read = &frame->r.read;
    return read->status < 0 || extent->offset + extent->size - read->offset > read->done;
}

/* Gives back the first `n` rows of a chunk. */
static void leave(iter_loader *loader, iter__chunk *chunk, uint32_t n) {
    const int32_t n_extents = loader->dataset->desc.n_extents;
    iter__chunk_read *nodes = chunk->batch->reads + (size_t)chunk->first * n_extents;
    for (uint32_t i = 0; i < n; i++) {
        if (nodes[i].frame) nodes[i].frame->users--;
    }
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

/* Writes the windows of the chunk's rows into its nodes, except for rows that are made: those have
 * no frame. No lock is held, because it calls the format. */
static void set_nodes(iter_loader *loader, iter__chunk *chunk) {
    const iter_batch *batch = chunk->batch;
    const uint32_t n_extents = (uint32_t)loader->dataset->desc.n_extents;
    const size_t first = (size_t)chunk->first * n_extents;
    for (uint32_t i = 0; i < chunk->n * n_extents; i++) {
        const uint32_t row = chunk->first + i / n_extents;
        const int32_t e = (int32_t)(i % n_extents);
        if (row < chunk->first + chunk->n_made) {
            batch->reads[first + i] = (iter__chunk_read){.frame = NULL};
            continue;
        }
        const window w = window_of(loader, batch->index[row], e, &batch->extents[first + i]);
        batch->reads[first + i] =
            (iter__chunk_read){.read = {.object = w.object, .offset = w.start, .size = w.bytes},
                               .chunk = chunk,
                               .first_row = row,
                               .n_rows = 1,
                               .extent = e,
                               .sample = batch->index[row]};
    }
}

/* Takes a frame for every node. If one node gets none, the chunk gives back all its frames, so that
 * other chunks can proceed, and the result is false. */
static bool take_frames(iter_loader *loader, iter__chunk *chunk) {
    iter_batch *batch = chunk->batch;
    const uint32_t n_extents = (uint32_t)loader->dataset->desc.n_extents;
    const size_t first = (size_t)chunk->first * n_extents;
    for (uint32_t i = chunk->n_made * n_extents; i < chunk->n * n_extents; i++) {
        iter__chunk_read *node = &batch->reads[first + i];
        const window w = {node->read.object, node->read.offset, node->read.size};
        const uint32_t row = node->first_row;
        iter__frame *frame =
            frame_of(loader, &w, batch->row_epoch[row], batch->position[row], false);
        if (!frame) {
            leave(loader, chunk, i);
            return false;
        }
        node->frame = frame;
        frame->users++;
        batch->bytes[first + i] = frame->data + (batch->extents[first + i].offset - w.start);
    }
    return true;
}

int iter__frames_issue(iter_loader *loader, iter__chunk *chunk) {
    iter__reading *reading = &loader->reading;
    iter_batch *batch = chunk->batch;
    const size_t first = (size_t)chunk->first * (size_t)loader->dataset->desc.n_extents;
    const uint32_t n = chunk->n * (uint32_t)loader->dataset->desc.n_extents;
    set_nodes(loader, chunk);
    atomic_store(&chunk->reads_left, 1);
    pthread_mutex_lock(&reading->lock);
    if (!take_frames(loader, chunk)) {
        iter__reading_pump(reading);
        pthread_mutex_unlock(&reading->lock);
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        iter__chunk_read *node = &batch->reads[first + i];
        if (!node->frame) continue;
        if (!node->frame->loading) { /* its bytes are here, unless the file is shorter */
            if (is_missing(node->frame, &batch->extents[first + i]))
                iter__row_miss(batch, node->first_row);
            continue;
        }
        node->next = node->frame->waiters;
        node->frame->waiters = node;
        atomic_fetch_add(&chunk->reads_left, 1);
    }
    chunk->region = 1;
    iter__reading_pump(reading);
    pthread_mutex_unlock(&reading->lock);
    /* release: as in reads.c. */
    atomic_store_explicit(&chunk->state, CHUNK_WAITING, memory_order_release);
    if (atomic_fetch_sub_explicit(&chunk->reads_left, 1, memory_order_acq_rel) != 1) return 0;
    atomic_store_explicit(&chunk->state, CHUNK_CLAIMED, memory_order_relaxed);
    return 1;
}

void iter__frames_release(iter_loader *loader, iter__chunk *chunk) {
    leave(loader, chunk, chunk->n * (uint32_t)loader->dataset->desc.n_extents);
}

iter__chunk_read *iter__frame_loaded(iter_loader *loader, iter__chunk_read *r) {
    iter__reading *reading = &loader->reading;
    iter__frame *frame = r->frame;
    const iter_read *read = &frame->r.read;
    iter__chunk_read *waiters = frame->waiters;
    frame->waiters = NULL;
    frame->loading = false;
    /* A chunk that found no frame may take this one now. */
    atomic_fetch_add_explicit(&reading->releases, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&reading->path_bytes[read->path], read->done, memory_order_relaxed);
    /* After a failure the next row reads the window again. */
    if (read->status < 0) reading->frames->ids[frame - reading->frames->frames] = 0;
    for (iter__chunk_read *node = waiters; node; node = node->next) {
        iter_batch *batch = node->chunk->batch;
        const iter_extent *extent =
            &batch->extents[(size_t)node->first_row * loader->dataset->desc.n_extents +
                            node->extent];
        if (is_missing(frame, extent)) iter__row_miss(batch, node->first_row);
    }
    return waiters;
}

bool iter__frames_awaited(iter_loader *loader, const iter__chunk *chunk, iter__chunk_read *out,
                          int64_t *out_issued_ns) {
    const uint32_t n_extents = (uint32_t)loader->dataset->desc.n_extents;
    iter__chunk_read *nodes = chunk->batch->reads + (size_t)chunk->first * n_extents;
    bool found = false;
    pthread_mutex_lock(&loader->reading.lock);
    for (uint32_t i = 0; i < chunk->n * n_extents && !found; i++) {
        const iter__frame *frame = nodes[i].frame;
        found = frame && frame->loading;
        if (!found) continue;
        out->read.object = frame->r.read.object;
        out->read.offset = frame->r.read.offset;
        out->read.size = frame->r.read.size;
        out->sample = nodes[i].sample;
        *out_issued_ns = frame->issued_ns;
    }
    pthread_mutex_unlock(&loader->reading.lock);
    return found;
}

/* ---- Reading ahead --------------------------------------------------------------------------- */

/* Row of the endless sequence that the opener is at. loader.lock held. */
static uint64_t opener_row(const iter_loader *loader) {
    const bool rolls = loader->cut.last_batch == ITER_LAST_ROLL_OVER;
    const iter__cursor *at = &loader->opener.at;
    return at->sample + (rolls ? 0 : (uint64_t)at->epoch * loader->cut.n);
}

/* Samples to read ahead: rows [from, from + n) of the endless sequence, all of one epoch. */
typedef struct ahead {
    uint64_t from, n;
    uint64_t at; /* where the opener was */
    uint64_t indices[STEP];
    window windows[STEP * ITER_MAX_EXTENTS];
} ahead;

/* The rows to read ahead next, at most STEP. n = 0: none until the opener has moved on. */
static void next_ahead(iter_loader *loader, ahead *out) {
    iter__frames *frames = loader->reading.frames;
    pthread_mutex_lock(&loader->lock);
    const uint64_t at = opener_row(loader), until = at + frames->cut->ahead_rows;
    pthread_mutex_unlock(&loader->lock);
    uint64_t from = atomic_load_explicit(&frames->ahead_until, memory_order_relaxed);
    if (from < at || from > until + STEP) from = at; /* after a seek, reset or restore */
    const uint64_t position = from % loader->cut.n, epoch = from / loader->cut.n;
    uint64_t n = from < until ? until - from : 0;
    if (n > STEP) n = STEP;
    if (n > loader->cut.n - position) n = loader->cut.n - position;
    const bool past = epoch > UINT32_MAX || (loader->opt.epochs && epoch >= loader->opt.epochs);
    const bool held = from == frames->held_from && at == frames->held_at;
    if (past || held || iter__is_canceled(loader)) n = 0;
    if (n && loader->reading.calls->sample_at(loader, (uint32_t)epoch, position, (uint32_t)n,
                                              out->indices, false, NULL) != ITER_OK)
        n = 0;
    out->from = from;
    out->at = at;
    out->n = n;
}

/* Finds their windows. No lock is held, because it calls the format. */
static void locate_ahead(const iter_loader *loader, ahead *a) {
    const iter_dataset *dataset = loader->dataset;
    const int32_t n_extents = dataset->desc.n_extents;
    for (uint64_t i = 0; i < a->n; i++) {
        iter_extent extents[ITER_MAX_EXTENTS];
        if (!iter__dataset_locate(dataset, a->indices[i], extents)) { /* its batch will fail */
            a->n = i;
            return;
        }
        for (int32_t e = 0; e < n_extents; e++) {
            a->windows[i * (uint64_t)n_extents + (uint64_t)e] =
                window_of(loader, a->indices[i], e, &extents[e]);
        }
    }
}

/* Reads ahead for these samples. Returns how many found a frame. reading.lock held. */
static uint64_t load_ahead(iter_loader *loader, const ahead *a) {
    const uint64_t n_extents = (uint64_t)loader->dataset->desc.n_extents;
    const uint64_t epoch = a->from / loader->cut.n, position = a->from % loader->cut.n;
    for (uint64_t i = 0; i < a->n && !loader->reading.canceled; i++) {
        for (uint64_t e = 0; e < n_extents; e++) {
            if (!frame_of(loader, &a->windows[i * n_extents + e], epoch, position + i, true))
                return i;
        }
    }
    return a->n;
}

void iter__frames_read_ahead(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    iter__frames *frames = reading->frames;
    bool expected = false;
    if (!frames->cut->ahead_rows ||
        !atomic_compare_exchange_strong(&frames->at_it, &expected, true))
        return;
    /* The rows of all slots together: every row farther back than that has been made. */
    const uint64_t open_rows = loader->layout.n_slots * loader->cut.global;
    ahead a;
    uint64_t done;
    do {
        next_ahead(loader, &a);
        locate_ahead(loader, &a);
        if (a.n == 0) break;
        pthread_mutex_lock(&reading->lock);
        if (a.at < frames->at) forget_wishes(frames);
        frames->at = a.at;
        frames->spent = a.at > open_rows ? a.at - open_rows : 0;
        done = load_ahead(loader, &a);
        iter__reading_pump(reading);
        pthread_mutex_unlock(&reading->lock);
        if (done < a.n) {
            frames->held_from = a.from + done;
            frames->held_at = a.at;
        }
        atomic_store_explicit(&frames->ahead_until, a.from + done, memory_order_relaxed);
    } while (done == a.n);
    atomic_store(&frames->at_it, false);
}

/* ---- Making ---------------------------------------------------------------------------------- */

size_t iter__frames_books_bytes(uint32_t n) {
    return n ? sizeof(iter__frames) + n * (sizeof(iter__frame) + sizeof(uint64_t)) : 0;
}

iter_status iter__frames_create(iter_loader *loader, iter_error *err) {
    iter__reading *reading = &loader->reading;
    const iter__frames_layout *cut = &loader->layout.frames;
    if (cut->n == 0) return ITER_OK;
    iter__frames *frames = iter__alloc(1, iter__frames_books_bytes(cut->n));
    if (!frames) return iter__fail(err, ITER_ENOMEM, "frames: out of memory");
    frames->cut = cut;
    frames->frames = (iter__frame *)(void *)(frames + 1);
    frames->ids = (uint64_t *)(void *)(frames->frames + cut->n);
    for (uint32_t i = 0; i < cut->n; i++)
        frames->frames[i].data = reading->arena + i * cut->bytes;
    frames->held_from = UINT64_MAX;
    reading->frames = frames;
    return ITER_OK;
}
