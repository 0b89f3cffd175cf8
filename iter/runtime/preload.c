/*
 * preload.c - reads a whole dataset into memory, once, with many large reads in flight.
 *
 * Where every extent is tiled by rows as they are stored, the reads scatter them into an array a field (readv): each row then
 * lies dense and aligned, and the loader works as over arrays. Else the files lie behind one another as they are, for the
 * decoders. Either way in one mapping of huge pages. Pieces are issued in order, so that a spinning disk sees a sequential scan, with
 * DEPTH of them in flight. A source without an asynchronous side is read by a few threads that take the next piece from a
 * shared counter.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

#define PIECE    ((uint64_t)1 << 20)
#define DEPTH    64
#define READERS  4
#define RETRY_NS 1000000 /* how soon a piece that the full source refused is offered again */
#define ALIGN(n) (((n) + 63) & ~(size_t)63)

typedef struct piece {
    iter_read read; /* first: reap() hands it back */
    iter_iovec parts[ITER_READ_PARTS_MAX];
    bool busy;
} piece;

typedef struct preload {
    const iter_dataset *dataset;
    const iter_preload *made;
    pthread_mutex_t lock;  /* guards the next piece, status and path_bytes while threads read */
    uint64_t file, offset; /* files: the next piece */
    uint64_t sample;       /* rows: the next piece */
    int32_t extent;
    iter_status status;
    iter_error error;
    uint64_t path_bytes[ITER_PATH_COUNT];
} preload;

/* ---- Rows: an array a field ------------------------------------------------------------------------------ */

/* Bytes of extent `e` that rows as they are stored cover, in order and without a gap; *out_n fields in out. */
static size_t tiles(const iter_description *desc, int32_t e, int32_t out[ITER_MAX_FIELDS],
                    int32_t *out_n) {
    size_t covered = 0;
    *out_n = 0;
    for (bool grew = true; grew;) {
        grew = false;
        for (int32_t f = 0; f < desc->n_fields; f++) {
            const iter_field *field = &desc->fields[f];
            const size_t bytes = iter_desc_bytes(&field->desc);
            if (field->extent != e || field->decoder || field->offset != covered || !bytes)
                continue;
            out[(*out_n)++] = f;
            covered += bytes;
            grew = true;
        }
    }
    return covered;
}

static bool is_tiled(const iter_description *desc) {
    for (int32_t f = 0; f < desc->n_fields; f++) {
        if (desc->fields[f].extent != ITER_FROM_INDEX && desc->fields[f].decoder) return false;
    }
    for (int32_t e = 0; e < desc->n_extents; e++) {
        int32_t fields[ITER_MAX_FIELDS], n;
        if (tiles(desc, e, fields, &n) != desc->max_extent_bytes[e]) return false;
    }
    return true;
}

static size_t lay_out_rows(const iter_description *desc, iter_resident *rows, uint8_t *memory) {
    size_t at = 0;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        if (desc->fields[f].extent == ITER_FROM_INDEX) continue;
        const size_t bytes = iter_desc_bytes(&desc->fields[f].desc);
        rows[f] = (iter_resident){memory ? memory + at : NULL, bytes};
        at += ALIGN(bytes * desc->n_samples +
                    64); /* a kernel may load a whole vector at the last row */
    }
    return at;
}

/* Adds a target to a scatter list, joining what lies side by side. */
static void add_part(piece *p, uint8_t *data, size_t size) {
    iter_iovec *last = p->read.n_parts ? &p->parts[p->read.n_parts - 1] : NULL;
    if (last && (uint8_t *)last->data + last->size == data) {
        last->size += size;
    } else {
        p->parts[p->read.n_parts++] = (iter_iovec){data, size};
    }
    p->read.size += size;
}

/* As many samples as lie side by side in a file and fit one read. */
static bool next_rows(preload *p, piece *out) {
    const iter_description *desc = &p->dataset->desc;
    while (p->extent < desc->n_extents && p->sample == desc->n_samples) {
        p->extent++;
        p->sample = 0;
    }
    if (p->extent >= desc->n_extents || desc->n_samples == 0) return false;
    int32_t fields[ITER_MAX_FIELDS], n;
    tiles(desc, p->extent, fields, &n);
    out->read = (iter_read){.parts = out->parts};
    for (; p->sample < desc->n_samples; p->sample++) {
        iter_extent all[ITER_MAX_EXTENTS];
        p->dataset->format->locate(p->dataset->state, p->sample, all);
        const iter_extent *extent = &all[p->extent];
        if (out->read.size == 0) {
            out->read.object = extent->object;
            out->read.offset = extent->offset;
        } else if (out->read.object != extent->object ||
                   out->read.offset + out->read.size != extent->offset ||
                   out->read.size + extent->size > PIECE ||
                   out->read.n_parts + n > ITER_READ_PARTS_MAX) {
            break;
        }
        for (int32_t i = 0; i < n; i++) {
            const iter_resident *rows = &p->made->rows[fields[i]];
            add_part(out, (uint8_t *)rows->base + p->sample * rows->stride, rows->stride);
        }
    }
    return true;
}

/* ---- Files as they are ------------------------------------------------------------------------------------ */

static bool next_bytes(preload *p, piece *out) {
    const iter_description *desc = &p->dataset->desc;
    while (p->file < desc->n_files && p->offset >= desc->files[p->file].bytes) {
        p->file++;
        p->offset = 0;
    }
    if (p->file >= desc->n_files) return false;
    const uint64_t left = desc->files[p->file].bytes - p->offset;
    const uint64_t size = left < PIECE ? left : PIECE;
    out->parts[0] = (iter_iovec){p->made->memory + p->made->object_base[p->file] + p->offset, size};
    out->read = (iter_read){
        .object = p->file, .offset = p->offset, .parts = out->parts, .n_parts = 1, .size = size};
    p->offset += size;
    return true;
}

/* The next piece, or false when all were handed out or an error stopped the run. */
static bool next_piece(preload *p, piece *out) {
    if (p->status < 0) return false;
    return p->made->object_base ? next_bytes(p, out) : next_rows(p, out);
}

/* ---- Reading ------------------------------------------------------------------------------------------------ */

/* Books a piece that has been read; what failed is asked for once more. */
static void take(preload *p, const iter_source_ops *source, void *state, iter_read *read) {
    if (read->status < 0 || read->done < read->size) {
        *read = (iter_read){.object = read->object,
                            .offset = read->offset,
                            .parts = read->parts,
                            .n_parts = read->n_parts,
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
            if (slot->busy || (!slot->read.size && !next_piece(p, slot))) continue;
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
            slot->busy = false;
            slot->read.size = 0;
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
    piece piece;
} reader;

static void *read_some(void *arg) {
    reader *r = arg;
    piece *one = &r->piece;
    for (;;) {
        pthread_mutex_lock(&r->p->lock);
        const bool more = next_piece(r->p, one);
        pthread_mutex_unlock(&r->p->lock);
        if (!more) return NULL;
        r->source->read(r->state, &one->read);
        pthread_mutex_lock(&r->p->lock);
        take(r->p, r->source, r->state, &one->read);
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

/* Where everything will lie. */
static iter_status lay_out(const iter_dataset *dataset, iter_preload *made, iter_error *err) {
    const iter_description *desc = &dataset->desc;
    if (is_tiled(desc)) {
        made->bytes = lay_out_rows(desc, made->rows, NULL);
    } else {
        made->object_base = iter__alloc(desc->n_files, sizeof(*made->object_base));
        if (!made->object_base) return iter__fail(err, ITER_ENOMEM, "preload: out of memory");
        for (uint64_t i = 0; i < desc->n_files; i++) {
            made->object_base[i] = made->bytes;
            made->bytes += desc->files[i].bytes;
        }
    }
    made->bytes += 64;
    made->memory = iter__map(made->bytes);
    if (!made->memory)
        return iter__fail(err, ITER_ENOMEM, "preload: no memory for %zu bytes", made->bytes);
    if (!made->object_base) lay_out_rows(desc, made->rows, made->memory);
    return ITER_OK;
}

static iter_status preload_now(iter_dataset *dataset, const iter_source_ops *source, void *state,
                               iter_error *err) {
    const int64_t start = iter__now_ns();
    iter_preload made = {.bytes = 0};
    preload p = {.dataset = dataset, .made = &made};
    pthread_mutex_init(&p.lock, NULL);
    iter_status status = lay_out(dataset, &made, &p.error);
    if (status == ITER_OK) {
        status = source->submit ? read_async(&p, source, state) : read_threads(&p, source, state);
    }
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
