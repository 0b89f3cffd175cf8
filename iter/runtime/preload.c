/*
 * preload.c - reads all files of a dataset into memory, once, with many large reads in flight.
 *
 * Files lie behind one another in one mapping of huge pages. Large files are cut into pieces of PIECE bytes; pieces are issued in
 * order, so that a spinning disk sees a sequential scan, with DEPTH of them in flight. A source without an asynchronous
 * side is read by a few threads that take the next piece from a shared counter.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

#define PIECE    ((uint64_t)1 << 20)
#define DEPTH    64
#define READERS  4
#define RETRY_NS 1000000

typedef struct piece {
    iter_read read; /* first: reap() hands it back */
    iter_iovec part;
    bool busy;
} piece;

typedef struct preload {
    const iter_dataset *dataset;
    uint8_t *memory;
    const uint64_t *base;
    pthread_mutex_t lock;  /* guards file, offset, status and path_bytes while threads read */
    uint64_t file, offset; /* the next piece */
    iter_status status;
    iter_error error;
    uint64_t path_bytes[ITER_PATH_COUNT];
} preload;

/* The next piece, or false when all were handed out or an error stopped the run. */
static bool next_piece(preload *p, iter_read *read, iter_iovec *part) {
    const iter_description *desc = &p->dataset->desc;
    while (p->file < desc->n_files && p->offset >= desc->files[p->file].bytes) {
        p->file++;
        p->offset = 0;
    }
    if (p->status < 0 || p->file >= desc->n_files) return false;
    const uint64_t left = desc->files[p->file].bytes - p->offset;
    const uint64_t size = left < PIECE ? left : PIECE;
    *part = (iter_iovec){p->memory + p->base[p->file] + p->offset, size};
    *read = (iter_read){
        .object = p->file, .offset = p->offset, .parts = part, .n_parts = 1, .size = size};
    p->offset += size;
    return true;
}

/* Books a piece that has been read; what failed is asked for once more. */
static void take(preload *p, const iter_source_ops *source, void *state, iter_read *read) {
    if (read->status < 0 || read->done < read->size) {
        *read = (iter_read){.object = read->object,
                            .offset = read->offset,
                            .parts = read->parts,
                            .n_parts = 1,
                            .size = read->size};
        source->read(state, read);
    }
    if (read->path >= 0 && read->path < ITER_PATH_COUNT) p->path_bytes[read->path] += read->done;
    if (p->status < 0 || (read->status == ITER_OK && read->done == read->size)) return;
    const iter_file *file = &p->dataset->desc.files[read->object];
    char reason[128];
    if (read->status < 0) {
        p->status = iter__fail(&p->error, read->status, "preload: %s: offset %llu: %s", file->path,
                               (unsigned long long)read->offset,
                               iter__os_error(read->os_error, reason, sizeof(reason)));
    } else {
        p->status = iter__fail(&p->error, ITER_EIO,
                               "preload: %s: it shrank from %llu bytes to %llu while open",
                               file->path, (unsigned long long)file->bytes,
                               (unsigned long long)(read->offset + read->done));
    }
}

static iter_status read_async(preload *p, const iter_source_ops *source, void *state) {
    piece *pieces = iter__alloc(DEPTH, sizeof(*pieces));
    if (!pieces) return iter__fail(&p->error, ITER_ENOMEM, "preload: out of memory");
    uint32_t in_flight = 0;
    for (;;) {
        bool full = false;
        for (int i = 0; i < DEPTH && !full; i++) {
            piece *slot = &pieces[i];
            if (slot->busy || (!slot->read.size && !next_piece(p, &slot->read, &slot->part)))
                continue;
            full = source->submit(state, &slot->read) == ITER_AGAIN; /* then it keeps its piece */
            slot->busy = !full;
            in_flight += !full;
        }
        if (in_flight == 0 && !full) break;
        source->commit(state);
        iter_read *done[DEPTH];
        int32_t n = source->reap(state, done, DEPTH);
        if (n == 0) {
            source->wait(state, full ? RETRY_NS : -1);
            n = source->reap(state, done, DEPTH);
        }
        for (int32_t i = 0; i < n; i++) {
            piece *slot = (piece *)done[i];
            take(p, source, state, &slot->read);
            *slot = (piece){.busy = false};
            in_flight--;
        }
    }
    iter__free(pieces);
    return p->status;
}

typedef struct reader {
    preload *p;
    const iter_source_ops *source;
    void *state;
    pthread_t thread;
} reader;

static void *read_some(void *arg) {
    reader *r = arg;
    for (;;) {
        iter_read read;
        iter_iovec part;
        pthread_mutex_lock(&r->p->lock);
        const bool more = next_piece(r->p, &read, &part);
        pthread_mutex_unlock(&r->p->lock);
        if (!more) return NULL;
        r->source->read(r->state, &read);
        pthread_mutex_lock(&r->p->lock);
        take(r->p, r->source, r->state, &read);
        pthread_mutex_unlock(&r->p->lock);
    }
}

static iter_status read_threads(preload *p, const iter_source_ops *source, void *state) {
    reader readers[READERS];
    int n = 0;
    for (; n < READERS - 1; n++) {
        readers[n] = (reader){.p = p, .source = source, .state = state};
        if (pthread_create(&readers[n].thread, NULL, read_some, &readers[n]) != 0) break;
    }
    reader own = {.p = p, .source = source, .state = state};
    read_some(&own);
    for (int i = 0; i < n; i++)
        pthread_join(readers[i].thread, NULL);
    return p->status;
}

static iter_status preload_now(iter_dataset *dataset, const iter_source_ops *source, void *state,
                               iter_error *err) {
    const iter_description *desc = &dataset->desc;
    const int64_t start = iter__now_ns();
    iter_preload made = {.bytes = 0};
    made.object_base = iter__alloc(desc->n_files, sizeof(*made.object_base));
    if (!made.object_base) return iter__fail(err, ITER_ENOMEM, "preload: out of memory");
    for (uint64_t i = 0; i < desc->n_files; i++) {
        made.object_base[i] = made.bytes;
        made.bytes += desc->files[i].bytes;
    }
    made.bytes += 64; /* a kernel may load a whole vector at the last sample */
    made.memory = iter__map(made.bytes);
    if (!made.memory) {
        iter__free(made.object_base);
        return iter__fail(err, ITER_ENOMEM, "preload: no memory for %zu bytes", made.bytes);
    }
    preload p = {.dataset = dataset, .memory = made.memory, .base = made.object_base};
    pthread_mutex_init(&p.lock, NULL);
    const iter_status status =
        source->submit ? read_async(&p, source, state) : read_threads(&p, source, state);
    pthread_mutex_destroy(&p.lock);
    if (status < 0) {
        if (err) *err = p.error;
        iter__unmap(made.memory, made.bytes);
        iter__free(made.object_base);
        return status;
    }
    memcpy(made.path_bytes, p.path_bytes, sizeof(made.path_bytes));
    made.seconds = (double)(iter__now_ns() - start) * 1e-9;
    dataset->preload = made;
    return ITER_OK;
}

iter_status iter__dataset_preload(iter_dataset *dataset, const iter_source_ops *source, void *state,
                                  bool *out_now, iter_error *err) {
    pthread_mutex_lock(&dataset->preload_lock);
    const bool there = dataset->preload.memory != NULL;
    const iter_status status = there ? ITER_OK : preload_now(dataset, source, state, err);
    *out_now = !there && status == ITER_OK;
    pthread_mutex_unlock(&dataset->preload_lock);
    return status;
}
