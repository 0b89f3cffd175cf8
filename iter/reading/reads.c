/*
 * reads.c - from extents to bytes: one source, one lock, one arena of bytes per loader.
 *
 * The thread that claimed a NEW chunk issues its reads. It first tries without blocking: it reads
 * row after row into one small buffer, and makes each row while its bytes are in the L1 cache. So
 * hot files never leave this thread and need no arena. From the first miss on, the rest of the
 * chunk is queued, and tries are switched off for a while. Neighbouring extents are coalesced into
 * one read. When the last read completes, the chunk is READY for the first worker that looks.
 *
 * The arena is a ring of regions, one per chunk, freed in order: a region is reused when it and all
 * older ones are done. A chunk that finds no space stays NEW. It cannot starve, because older
 * chunks need no more space to end.
 *
 * If a read fails or comes short, the worker that claims the chunk reads those rows once more, one
 * by one (settle_row() in rows.c), by the source's blocking read(): a pread also with the ring.
 * This is the only retry, and it finds out which row failed. The reason of the first failure is
 * dropped.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/observe/batch_profile.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

#define REGION_ALIGN  4096
#define COALESCE_MAX  ((size_t)1 << 20)
#define REAP_MAX      64
#define TRY_OFF_READS 64
#define BACKLOG_NS    1000000
#define WAIT_NS       50000000 /* the longest wait in the source */
#define LOST_TRIES    8
#define TIMED_RUNS    8

/* ---- Arena: with reading.lock held ----------------------------------------------------------- */

static size_t whole_blocks(size_t bytes) {
    return iter__align_up_size(bytes, REGION_ALIGN);
}

/* Takes space for `bytes`; false if there is none. Reads past the page cache need whole blocks:
 * each such read has the blocks around it to itself, at the same offset in them as in the file. */
static bool region_take(iter__reading *reading, size_t bytes, uint64_t *out_region,
                        uint8_t **out_data) {
    const size_t need = whole_blocks(bytes);
    if (reading->region_next - reading->region_first == reading->n_regions) return false;
    size_t at = reading->arena_head;
    if (reading->region_first == reading->region_next) {
        at = 0;
        if (need > reading->arena_bytes) return false;
    } else {
        const size_t tail = reading->regions[reading->region_first % reading->n_regions].at;
        if (at > tail) { /* free: [at, end) and [0, tail) */
            if (need > reading->arena_bytes - at) {
                if (need > tail) return false;
                at = 0;
            }
        } else if (need > tail - at) { /* free: [at, tail); at == tail is full */
            return false;
        }
    }
    reading->regions[reading->region_next % reading->n_regions] =
        (iter__region){.at = at, .bytes = need};
    reading->arena_head = at + need;
    *out_region = ++reading->region_next;
    *out_data = reading->arena + at;
    return true;
}

void iter__reading_release(iter_loader *loader, iter__chunk *chunk) {
    iter__reading *reading = &loader->reading;
    if (!chunk->region) return;
    pthread_mutex_lock(&reading->lock);
    atomic_fetch_add_explicit(&reading->releases, 1, memory_order_relaxed);
    if (reading->frames) {
        iter__frames_release(loader, chunk);
        pthread_mutex_unlock(&reading->lock);
        chunk->region = 0;
        return;
    }
    reading->regions[(chunk->region - 1) % reading->n_regions].done = true;
    while (reading->region_first < reading->region_next &&
           reading->regions[reading->region_first % reading->n_regions].done)
        reading->region_first++;
    pthread_mutex_unlock(&reading->lock);
    chunk->region = 0;
}

/* ---- Submission: with reading.lock held ------------------------------------------------------ */

/* A read of a frame has no chunk: other rows may need it. */
static bool is_dropped(const iter__chunk_read *r) {
    return r->chunk && atomic_load(&r->chunk->batch->dropped);
}

/* If a commit did not send all reads, the next call commits again: the kernel may lack memory for a
 * moment. */
void iter__reading_pump(iter__reading *reading) {
    while (reading->backlog) {
        iter__chunk_read *r = reading->backlog;
        if (is_dropped(r)) {
            reading->backlog = r->next;
            r->next = reading->dropped;
            reading->dropped = r;
            continue;
        }
        if (reading->ops->submit(reading->state, &r->read) == ITER_AGAIN) break;
        reading->backlog = r->next;
        r->submitted = true;
        reading->unsent = true;
    }
    if (reading->unsent) reading->unsent = reading->ops->commit(reading->state) != ITER_OK;
}

void iter__reading_drop(iter_loader *loader, iter__chunk *chunk) {
    iter__reading *reading = &loader->reading;
    if (!reading->async || reading->frames) return;
    /* acquire: the chunk's reads are complete as soon as it is WAITING. The thread that queues them
     * later sees in pump() that the batch was dropped. */
    if (atomic_load_explicit(&chunk->state, memory_order_acquire) != CHUNK_WAITING) return;
    iter__chunk_read *reads =
        chunk->batch->reads + (size_t)chunk->first * (size_t)loader->dataset->desc.n_extents;
    pthread_mutex_lock(&reading->lock);
    for (uint32_t i = 0; i < chunk->n_reads && reading->ops->drop; i++) {
        if (reads[i].submitted) reading->ops->drop(reading->state, &reads[i].read);
    }
    iter__reading_pump(reading);
    pthread_mutex_unlock(&reading->lock);
}

void iter__reading_queue(iter__reading *reading, iter__chunk_read *r) {
    r->next = NULL;
    if (reading->backlog) {
        reading->backlog_last->next = r;
    } else {
        reading->backlog = r;
    }
    reading->backlog_last = r;
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* Marks the rows to read once more: those of [first, first + n) that a read of their extent `e` did
 * not fill. */
static void mark_missing(iter_loader *loader, iter_batch *batch, const iter_read *read,
                         uint32_t first, uint32_t n, int32_t e) {
    if (read->status >= 0 && read->done >= read->size) return;
    const int32_t n_extents = loader->dataset->desc.n_extents;
    for (uint32_t row = first; row < first + n; row++) {
        const iter_extent *extent = &batch->extents[(size_t)row * n_extents + e];
        if (extent->offset + extent->size - read->offset > read->done) iter__row_miss(batch, row);
    }
}

/* Books one completed read; true if it was the last one of its chunk. */
static bool complete(iter_loader *loader, iter__chunk_read *r) {
    iter__reading *reading = &loader->reading;
    atomic_fetch_add_explicit(&reading->path_bytes[r->read.path], r->read.done,
                              memory_order_relaxed);
    mark_missing(loader, r->chunk->batch, &r->read, r->first_row, r->n_rows, r->extent);
    atomic_store_explicit(&r->completed, true, memory_order_relaxed);
    /* acq_rel: the thread that makes the chunk READY sees the bytes of all its reads. */
    return atomic_fetch_sub_explicit(&r->chunk->reads_left, 1, memory_order_acq_rel) == 1;
}

/* Tells the profiler that a chunk's reads were issued, or have completed. No other thread may have
 * the chunk yet. */
static void profile_reads(const iter__chunk *chunk, uint32_t name, int64_t start, int64_t end) {
    const iter_batch *batch = chunk->batch;
    const iter__chunk_read *reads =
        batch->reads + (size_t)chunk->first * batch->loader->dataset->desc.n_extents;
    iter__profile_record record = iter__profile_span(batch, name, start, end);
    record.type = name == PROFILE_READ ? ITER_PROFILE_ASYNC : ITER_PROFILE_SPAN;
    record.chunk = (uint32_t)(chunk - batch->chunks);
    record.value = 0;
    for (uint32_t i = 0; i < chunk->n_reads; i++)
        record.value += (int64_t)reads[i].read.size;
    iter__profile_put(&record);
}

/* The chunk's last read has completed: it becomes READY, or DONE if its batch was dropped. */
static void bytes_are_there(iter__worker *worker, iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    if (iter__profiling() && chunk->issued_ns)
        profile_reads(chunk, PROFILE_READ, chunk->issued_ns, iter__now_ns());
    pthread_mutex_lock(&loader->lock);
    const bool dropped = chunk->batch->dropped;
    atomic_store_explicit(&chunk->state, dropped ? CHUNK_DONE : CHUNK_READY, memory_order_release);
    if (!dropped && loader->workers.sleepers) iter__event_wake(&loader->work, 1);
    pthread_mutex_unlock(&loader->lock);
    if (!dropped) return;
    iter__reading_release(loader, chunk);
    loader->reading.calls->end_chunks(worker, chunk->batch, 1);
}

/* Reaps with reading.lock held, releases it to book the reads, and takes it again. Returns how many
 * reads it reaped. */
static int32_t reap(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    iter__reading *reading = &loader->reading;
    iter_read *done[REAP_MAX];
    int32_t n = reading->ops->reap(reading->state, done, REAP_MAX);
    for (int32_t i = 0; i < n; i++)
        ((iter__chunk_read *)done[i])->submitted = false;
    for (; reading->dropped && n < REAP_MAX; reading->dropped = reading->dropped->next) {
        reading->dropped->read.status = ITER_ECANCELED;
        done[n++] = &reading->dropped->read;
    }
    for (; reading->canceled && reading->backlog && n < REAP_MAX;
         reading->backlog = reading->backlog->next) {
        reading->backlog->read.status = ITER_ECANCELED;
        done[n++] = &reading->backlog->read;
    }
    iter__chunk_read *waiters[REAP_MAX]; /* rows whose frame is loaded now */
    for (int32_t i = 0; i < n; i++) {
        iter__chunk_read *r = (iter__chunk_read *)done[i];
        waiters[i] = r->chunk ? NULL : iter__frame_loaded(loader, r);
        if (!r->chunk) done[i] = NULL;
    }
    /* Also if no read completed: a source may refuse a read although it is idle. */
    iter__reading_pump(reading);
    pthread_mutex_unlock(&reading->lock);

    iter__chunk *ended[REAP_MAX];
    int32_t n_ended = 0;
    for (int32_t i = 0; i < n; i++) {
        iter__chunk_read *r = (iter__chunk_read *)done[i];
        iter__chunk *chunk = r ? r->chunk : NULL;
        if (chunk && complete(loader, r)) ended[n_ended++] = chunk;
    }
    if (n) atomic_fetch_sub(&reading->pending, (unsigned)n);
    for (int32_t i = 0; i < n_ended; i++)
        bytes_are_there(worker, ended[i]);
    for (int32_t i = 0; i < n; i++) {
        for (iter__chunk_read *node = waiters[i], *next; node; node = next) {
            iter__chunk *chunk = node->chunk;
            next = node->next; /* after its last read, another thread may use the chunk's nodes */
            if (atomic_fetch_sub_explicit(&chunk->reads_left, 1, memory_order_acq_rel) == 1)
                bytes_are_there(worker, chunk);
        }
    }
    pthread_mutex_lock(&reading->lock);
    return n;
}

void iter__reading_poll(iter__worker *worker) {
    iter_loader *loader = worker->loader;
    iter__reading *reading = &loader->reading;
    if (!reading->async || atomic_load(&reading->pending) == 0) return;
    pthread_mutex_lock(&reading->lock);
    while (reap(worker) == REAP_MAX) {
    }
    /* A reader on its way into wait() may have counted on the wake or the completion that this call
     * consumed. */
    const bool last = reading->canceled || atomic_load(&reading->pending) == 0;
    if (last && atomic_load(&reading->has_reader)) reading->ops->wake(reading->state);
    pthread_mutex_unlock(&reading->lock);
}

static void nap(int64_t ns) {
    const struct timespec pause = {.tv_nsec = ns};
    nanosleep(&pause, NULL);
}

void iter__reading_wait(iter__worker *worker, int64_t timeout_ns) {
    iter_loader *loader = worker->loader;
    iter__reading *reading = &loader->reading;
    pthread_mutex_lock(&reading->lock);
    const bool more = reading->backlog != NULL || reading->unsent;
    pthread_mutex_unlock(&reading->lock);
    /* The limit exists to offer refused reads again, and to notice a cancel() that ran in a signal
     * handler. */
    const int64_t most_ns = more ? BACKLOG_NS : WAIT_NS;
    if (timeout_ns < 0 || timeout_ns > most_ns) timeout_ns = most_ns;
    /* A source that cannot wait is polled. */
    if (reading->ops->wait(reading->state, timeout_ns) < 0) nap(BACKLOG_NS);
    pthread_mutex_lock(&reading->lock);
    atomic_store(&reading->has_reader, false);
    while (reap(worker) == REAP_MAX) {
    }
    pthread_mutex_unlock(&reading->lock);
}

void iter__reading_wake(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    if (!reading->async || !atomic_load(&reading->has_reader)) return;
    pthread_mutex_lock(&reading->lock);
    if (atomic_load(&reading->has_reader)) reading->ops->wake(reading->state);
    pthread_mutex_unlock(&reading->lock);
}

void iter__reading_cancel(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    if (!reading->async) return;
    pthread_mutex_lock(&reading->lock);
    if (!reading->canceled) {
        reading->canceled = true; /* reap() completes reads that were never submitted */
        if (reading->ops->cancel) reading->ops->cancel(reading->state);
    }
    if (atomic_load(&reading->has_reader)) reading->ops->wake(reading->state);
    pthread_mutex_unlock(&reading->lock);
}

bool iter__reading_is_ahead(const iter_loader *loader) {
    return loader->reading.async &&
           atomic_load_explicit(&loader->reading.misses, memory_order_relaxed) > 0;
}

/* ---- Issue ----------------------------------------------------------------------------------- */

/* Whether the extent follows the read directly, or begins in it and ends after it (as the rows of
 * tokens do), and may be coalesced with it. */
static bool joins(const iter__chunk_read *r, const iter_extent *extent) {
    const uint64_t begin = r->read.offset, end = begin + r->read.size;
    return r->read.object == extent->object && extent->offset >= begin && extent->offset <= end &&
           extent->offset + extent->size >= end &&
           extent->offset + extent->size - begin <= COALESCE_MAX;
}

static void new_read(iter__chunk_read *r, iter__chunk *chunk, const iter_extent *extent,
                     uint32_t row, int32_t e) {
    *r = (iter__chunk_read){
        .chunk = chunk, .first_row = row, .extent = e, .sample = chunk->batch->index[row]};
    r->read.object = extent->object;
    r->read.offset = extent->offset;
    r->read.parts = &r->part;
}

/* Bytes of arena that the rows not made yet need at most: if no read is coalesced with another. */
static size_t region_bytes(const iter_loader *loader, const iter__chunk *chunk) {
    const uint32_t n_extents = (uint32_t)loader->dataset->desc.n_extents;
    const iter_extent *extents = chunk->batch->extents + (size_t)chunk->first * n_extents;
    const bool blocks = loader->layout.whole_blocks;
    size_t bytes = 0;
    for (uint32_t i = chunk->n_made * n_extents; i < chunk->n * n_extents; i++) {
        if (extents[i].size > loader->layout.sample_max) continue;
        bytes += blocks ? whole_blocks(extents[i].offset % REGION_ALIGN + extents[i].size)
                        : extents[i].size;
    }
    return bytes ? bytes : 1;
}

/* Ends a read in the arena at a whole block. Returns where the next one may begin. */
static uint8_t *end_blocks(iter__chunk_read *r, uint8_t *data) {
    r->read.room_after = whole_blocks((uintptr_t)data) - (uintptr_t)data;
    return data + r->read.room_after;
}

/* Turns the extents of the chunk's rows that are not made yet into reads; `data` is its region. */
static void build_reads(iter_loader *loader, iter__chunk *chunk, uint8_t *data) {
    iter_batch *batch = chunk->batch;
    const int32_t n_extents = loader->dataset->desc.n_extents;
    iter__chunk_read *reads = batch->reads + (size_t)chunk->first * n_extents;
    const bool blocks = loader->layout.whole_blocks;
    uint32_t n = 0;
    for (int32_t e = 0; e < n_extents; e++) {
        iter__chunk_read *r = NULL;
        for (uint32_t row = chunk->first + chunk->n_made; row < chunk->first + chunk->n; row++) {
            const iter_extent *extent = &batch->extents[(size_t)row * n_extents + e];
            if (extent->size > loader->layout.sample_max) {
                iter__row_fail(loader, batch, row, ITER_EFORMAT, "read",
                               "larger than max_sample_bytes");
                if (r && blocks) data = end_blocks(r, data);
                r = NULL;
                continue;
            }
            if (!r || !joins(r, extent)) {
                if (r && blocks) data = end_blocks(r, data);
                r = &reads[n++];
                new_read(r, chunk, extent, row, e);
                if (blocks) {
                    r->read.room_before = extent->offset % REGION_ALIGN;
                    data += r->read.room_before;
                }
                r->part.data = data;
                r->read.n_parts = 1;
            }
            const size_t before = (size_t)(extent->offset - r->read.offset);
            const size_t more = before + extent->size - r->read.size;
            batch->bytes[(size_t)row * n_extents + e] = (const uint8_t *)r->part.data + before;
            data += more;
            r->part.size += more;
            r->read.size += more;
            r->n_rows++;
        }
        if (r && blocks) data = end_blocks(r, data);
    }
    chunk->n_reads = n;
}

bool iter__reading_try(iter__reading *reading, iter_read *read) {
    if (!reading->ops->try_read) return false;
    const int misses = atomic_load_explicit(&reading->misses, memory_order_relaxed);
    if (misses > 0) {
        if (misses < INT32_MAX)
            atomic_store_explicit(&reading->misses, misses - 1, memory_order_relaxed);
        return false;
    }
    if (reading->ops->try_read(reading->state, read) == ITER_OK) return true;
    const bool never = read->os_error == EOPNOTSUPP;
    read->os_error = 0;
    atomic_store_explicit(&reading->misses, never ? INT32_MAX : TRY_OFF_READS,
                          memory_order_relaxed);
    return false;
}

/* Rows that were not tried. */
static void skip_tries(iter__reading *reading, int n) {
    const int misses = atomic_load_explicit(&reading->misses, memory_order_relaxed);
    if (misses > 0 && misses < INT32_MAX)
        atomic_store_explicit(&reading->misses, misses > n ? misses - n : 0, memory_order_relaxed);
}

/* How many rows from `row` on are neighbours in the file, in every extent, and fit into a worker's
 * buffer together. 0 = the first one does not fit. */
static uint32_t run_of(const iter_loader *loader, const iter_batch *batch, uint32_t row,
                       uint32_t end) {
    const int32_t n_extents = loader->dataset->desc.n_extents;
    const iter_extent *extents = &batch->extents[(size_t)row * n_extents];
    size_t bytes = 0;
    uint32_t n = 0;
    for (; row + n < end; n++, extents += n_extents) {
        for (int32_t e = 0; e < n_extents; e++) {
            const iter_extent *here = &extents[e];
            if (here->size > loader->layout.hot_bytes - bytes ||
                here->size > loader->layout.sample_max)
                return n;
            const iter_extent *before = n ? here - n_extents : NULL;
            if (before &&
                (here->object != before->object || here->offset != before->offset + before->size))
                return n;
            bytes += here->size;
        }
    }
    return n;
}

/* Reads rows [row, row + n), which must be a run, into the worker's buffer; false if that would
 * block. */
static bool try_run(iter__worker *worker, iter_batch *batch, uint32_t row, uint32_t n,
                    iter_read *read, uint64_t path_bytes[ITER_PATH_COUNT]) {
    iter_loader *loader = worker->loader;
    const int32_t n_extents = loader->dataset->desc.n_extents;
    uint8_t *data = worker->hot;
    for (int32_t e = 0; e < n_extents; e++) {
        size_t at = (size_t)row * n_extents + e;
        iter_iovec part = {data, 0};
        read->object = batch->extents[at].object;
        read->offset = batch->extents[at].offset;
        for (uint32_t i = 0; i < n; i++, at += n_extents) {
            batch->bytes[at] = data;
            data += batch->extents[at].size;
        }
        read->size = part.size = (size_t)(data - (uint8_t *)part.data);
        read->parts = &part;
        read->done = 0;
        if (!iter__reading_try(&loader->reading, read)) return false;
        path_bytes[read->path] += read->done;
        mark_missing(loader, batch, read, row, n, e);
    }
    return true;
}

/* Tells the profiler that rows were read and made one after the other: one span, of the stage. */
static void profile_hot(const iter__chunk *chunk, uint32_t n_before, int64_t start, int64_t end) {
    if (chunk->n_made > n_before)
        iter__profile_chunk(chunk, chunk->n_made - n_before, chunk->n_made == chunk->n, start, end);
}

/* Makes the chunk's rows run by run, each while its bytes are in the L1 cache, as long as no read
 * would block. */
static void make_hot(iter__worker *worker, iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    iter_batch *batch = chunk->batch;
    const uint32_t end = chunk->first + chunk->n, n_before = chunk->n_made;
    const int64_t start = iter__now_ns();
    int64_t read_ns = 0;
    uint32_t n_runs = 0, n_timed = 0;
    uint64_t path_bytes[ITER_PATH_COUNT] = {0};
    iter_read read = {.n_parts = 1}; /* one for all runs: it is large to initialise */
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader;
    iter__activity_of(worker, batch, start);
    for (uint32_t row = chunk->first + chunk->n_made, n; row < end; row += n) {
        const bool timed = n_runs++ % TIMED_RUNS == 0;
        const int64_t from = timed ? iter__now_ns() : 0;
        iter__activity_row(worker, ACTIVITY_READ, batch, row);
        if (loader->layout.placed_head) {
            n = iter__placed_run(worker, batch, row, end, path_bytes);
        } else {
            n = run_of(loader, batch, row, end);
            if (n > 0 && !try_run(worker, batch, row, n, &read, path_bytes)) n = 0;
        }
        if (n == 0) break;
        if (timed) read_ns += iter__now_ns() - from;
        n_timed += timed;
        loader->reading.calls->make_rows(worker, batch, row, n);
        chunk->n_made += n;
    }
    iter__in_callback_of = outer;
    for (int i = 0; i < ITER_PATH_COUNT; i++) {
        if (path_bytes[i])
            atomic_fetch_add_explicit(&loader->reading.path_bytes[i], path_bytes[i],
                                      memory_order_relaxed);
    }
    /* Only some of the runs are timed: reading the clock costs a tenth of a run. */
    const int64_t spent = iter__now_ns() - start;
    if (iter__profiling()) profile_hot(chunk, n_before, start, start + spent);
    iter__activity_of(worker, NULL, start + spent);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    if (n_timed) read_ns = read_ns * n_runs / n_timed;
    if (read_ns > spent) read_ns = spent;
    const unsigned long long made = (unsigned long long)(spent - read_ns);
    atomic_fetch_add_explicit(&loader->stats.read_ns, (unsigned long long)read_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->stats.transform_ns, made, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->busy_ns, made, memory_order_relaxed);
}

/* A claimed chunk that found no space becomes NEW again. If its batch was dropped in between, the
 * chunk ends here, because no worker would claim it. */
static int put_back(iter__worker *worker, iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    pthread_mutex_lock(&loader->lock);
    const bool dropped = chunk->batch->dropped;
    atomic_store_explicit(&chunk->state, dropped ? CHUNK_DONE : CHUNK_NEW, memory_order_release);
    pthread_mutex_unlock(&loader->lock);
    if (dropped) loader->reading.calls->end_chunks(worker, chunk->batch, 1);
    return dropped ? 0 : -1;
}

int iter__reading_issue(iter__worker *worker, iter__chunk *chunk) {
    iter_loader *loader = worker->loader;
    iter__reading *reading = &loader->reading;
    uint8_t *data = NULL;
    if (loader->layout.hot_bytes &&
        atomic_load_explicit(&reading->misses, memory_order_relaxed) == 0) {
        make_hot(worker, chunk);
        if (chunk->n_made == chunk->n) return 1;
    }
    if (reading->frames) { /* this calls the sampler and the format */
        if (loader->layout.hot_bytes) skip_tries(reading, (int)chunk->n);
        const iter_loader *outer = iter__in_callback_of;
        iter__in_callback_of = loader;
        iter__activity_begins(worker, ACTIVITY_READ, ITER_UNKNOWN);
        iter__frames_read_ahead(loader);
        chunk->issued_ns = iter__profiling() ? iter__now_ns() : 0;
        const int issued = iter__frames_issue(loader, chunk);
        iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
        iter__in_callback_of = outer;
        return issued < 0 ? put_back(worker, chunk) : issued;
    }
    const size_t bytes = region_bytes(loader, chunk);
    pthread_mutex_lock(&reading->lock);
    const bool got = region_take(reading, bytes, &chunk->region, &data);
    pthread_mutex_unlock(&reading->lock);
    if (!got) return put_back(worker, chunk);
    const int64_t start = iter__now_ns();
    chunk->issued_ns = start;
    iter__activity_of(worker, chunk->batch, start);
    iter__activity_row(worker, ACTIVITY_READ, chunk->batch, chunk->first);
    build_reads(loader, chunk, data);
    iter__chunk_read *reads =
        chunk->batch->reads + (size_t)chunk->first * loader->dataset->desc.n_extents;
    atomic_store(&chunk->reads_left, (int)chunk->n_reads + 1);
    uint32_t queued = 0;
    iter__chunk_read *first = NULL, **last = &first;
    for (uint32_t i = 0; i < chunk->n_reads; i++) {
        iter__chunk_read *r = &reads[i];
        bool done = iter__reading_try(reading, &r->read);
        if (!done && !reading->async) {
            reading->ops->read(reading->state, &r->read);
            done = true;
        }
        if (done) {
            complete(loader, r);
        } else {
            r->next = NULL;
            *last = r;
            last = &r->next;
            queued++;
        }
    }
    /* release: a thread that looks for the cause of a stall sees the reads complete. */
    atomic_store_explicit(&chunk->state, CHUNK_WAITING, memory_order_release);
    if (queued) {
        atomic_fetch_add(&reading->pending, queued);
        pthread_mutex_lock(&reading->lock);
        while (first) {
            iter__chunk_read *r = first;
            first = r->next;
            iter__reading_queue(reading, r);
        }
        iter__reading_pump(reading);
        pthread_mutex_unlock(&reading->lock);
    }
    const int64_t end = iter__now_ns();
    iter__activity_of(worker, NULL, end);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    atomic_fetch_add_explicit(&loader->stats.read_ns, (unsigned long long)(end - start),
                              memory_order_relaxed);
    if (iter__profiling()) profile_reads(chunk, PROFILE_ISSUE, start, end);
    if (atomic_fetch_sub_explicit(&chunk->reads_left, 1, memory_order_acq_rel) != 1) return 0;
    atomic_store_explicit(&chunk->state, CHUNK_CLAIMED, memory_order_relaxed);
    return 1;
}

iter_status iter__reading_row(iter_loader *loader, iter_batch *batch, uint32_t row,
                              iter_read *out_failed, iter_error *why) {
    iter__reading *reading = &loader->reading;
    const int32_t n_extents = loader->dataset->desc.n_extents;
    const iter_source_ops *ops = reading->ops;
    for (int32_t e = 0; e < n_extents; e++) {
        const iter_extent *extent = &batch->extents[(size_t)row * n_extents + e];
        const iter_iovec part = {(void *)batch->bytes[(size_t)row * n_extents + e], extent->size};
        iter_read read = {.object = extent->object,
                          .offset = extent->offset,
                          .parts = &part,
                          .n_parts = 1,
                          .size = extent->size,
                          .why = why};
        iter__error_clear(why);
        atomic_fetch_add_explicit(&reading->retried, 1, memory_order_relaxed);
        const iter_read fresh = read;
        ops->read(reading->state, &read);
        /* The loader is not canceled but the read is: it died with its thread. That is no failure
         * of the file, so it does not use up the one retry. */
        for (int i = 0; i < LOST_TRIES && read.status == ITER_ECANCELED &&
                        !atomic_load(&loader->ending.canceled);
             i++) {
            read = fresh;
            ops->read(reading->state, &read);
        }
        atomic_fetch_add_explicit(&reading->path_bytes[read.path], read.done, memory_order_relaxed);
        if (read.status == ITER_OK && read.done == read.size) continue;
        *out_failed = read;
        const bool lost = read.status == ITER_ECANCELED && !atomic_load(&loader->ending.canceled);
        return read.status < 0 && !lost ? read.status : ITER_EIO;
    }
    return ITER_OK;
}
