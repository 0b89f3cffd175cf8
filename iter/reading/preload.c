/*
 * preload.c - reads a whole dataset into memory, once, with many large reads in flight.
 *
 * If stored rows tile every extent, each field becomes a dense array of rows, and the loader works
 * as over arrays. The files are then read in pieces into staging, and each piece is dealt out to
 * the arrays while the next ones are in flight. Pieces are aligned so that cold files can be read
 * past the page cache, which halves the time.
 *
 * Otherwise the files are stored one after the other, unchanged, for the decoders. Both layouts are
 * one mapping of huge pages.
 *
 * Pieces are issued in order, so a spinning disk sees a sequential scan. If the source has no
 * asynchronous side, a few threads take the next piece in turn. Rows that a format makes from their
 * index, at a cost, are made once by the same threads.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/remote/client.h"
#include "iter/remote/url.h"
#include "iter/runtime/loader_state.h"

#define PIECE          ((uint64_t)1 << 20)
#define BLOCK          ((uint64_t)4096)
#define DEPTH_ROWS     ((int)(ITER_PRELOAD_STAGING / PIECE))
#define DEPTH_FILES    256 /* small files need many reads in flight */
#define READERS        4
#define MADE_ROWS      256 /* that a thread makes before it asks for more */
#define RUNS_MAX       4096
#define SHARED_VERSION 1       /* of the layout of memory that processes share */
#define PATIENCE_MS    30000   /* how long another process may fill it without progress */
#define RETRY_NS       1000000 /* before a piece is offered again to a source that was full */
#define WAIT_NS        50000000

/* A run: neighbouring samples, from `first` on, whose extent `extent` is contiguous in one file. */
typedef struct stretch {
    uint64_t object, offset, bytes;
    uint64_t first;
    int32_t extent;
} stretch;

typedef struct piece {
    iter_read read; /* first: reap() hands it back */
    iter_iovec part;
    uint64_t wanted;    /* bytes that must come; the read may ask for more, up to a block's end */
    const stretch *run; /* NULL = the bytes are read straight to their place */
    uint8_t *staging;
    bool busy;
} piece;

typedef struct preload {
    const iter_dataset *dataset;
    const iter__preload *made;
    iter__share_wish *share;
    uint64_t identity[2]; /* if it is shared */
    stretch *runs;
    uint64_t n_runs;
    pthread_mutex_t lock;  /* guards all members below while threads work */
    uint64_t file, offset; /* the next piece: of a run, or of a file */
    uint64_t sample;       /* the next row to make */
    iter_status status;
    iter_error error;
    uint64_t path_bytes[ITER_PATH_COUNT];
} preload;

/* ---- Rows: an array a field ------------------------------------------------------------------ */

/* Writes the fields of extent `e` to `out`, in the order of their bytes. Returns how many bytes
 * they cover from the extent's start without a gap. */
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

static bool lies_in_file(const iter_dataset *dataset, const iter_extent *extent) {
    const uint64_t bytes = dataset->desc.files[extent->object].bytes;
    return extent->size <= bytes && extent->offset <= bytes - extent->size;
}

/* Finds the runs; false if samples differ in size or are too scattered. If the format locates a
 * sample outside its file, p->status is EINVAL. */
static bool find_runs(preload *p) {
    const iter_dataset *dataset = p->dataset;
    for (int32_t e = 0; e < dataset->desc.n_extents; e++) {
        stretch *last = NULL;
        for (uint64_t i = 0; i < dataset->desc.n_samples; i++) {
            iter_extent all[ITER_MAX_EXTENTS];
            if (!iter__dataset_locate(dataset, i, all) || !lies_in_file(dataset, &all[e])) {
                p->status = iter__dataset_mislocated(dataset, i, &p->error);
                return false;
            }
            if (all[e].size != dataset->desc.max_extent_bytes[e]) return false;
            if (last && last->object == all[e].object &&
                last->offset + last->bytes == all[e].offset) {
                last->bytes += all[e].size;
                continue;
            }
            if (p->n_runs == RUNS_MAX) return false;
            last = &p->runs[p->n_runs++];
            *last = (stretch){all[e].object, all[e].offset, all[e].size, i, e};
        }
    }
    return true;
}

static size_t lay_out_rows(const iter_description *desc, iter__resident *rows, uint8_t *memory) {
    size_t at = 0;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        if (desc->n_extents > 0 && desc->fields[f].extent == ITER_FROM_INDEX) continue;
        const size_t bytes = iter_desc_bytes(&desc->fields[f].desc);
        rows[f] = (iter__resident){memory ? memory + at : NULL, bytes};
        /* + 64: a kernel may load a whole vector at the last row. */
        at += iter__align_up_size(bytes * desc->n_samples + 64, 64);
    }
    return at;
}

/* Deals a piece of a run out to the arrays. Parts of its first and last samples may be in other
 * pieces. */
static void deal_out(const preload *p, const piece *one) {
    const iter_description *desc = &p->dataset->desc;
    const stretch *run = one->run;
    int32_t fields[ITER_MAX_FIELDS], n;
    const uint64_t size = tiles(desc, run->extent, fields, &n);
    const uint64_t begin = one->read.offset > run->offset ? one->read.offset - run->offset : 0;
    const uint64_t end = one->read.offset + one->wanted - run->offset; /* in bytes of the run */
    /* Where byte 0 of the run would be. */
    const uint8_t *from = one->staging - one->read.offset + run->offset;
    for (uint64_t at = begin / size * size; at < end; at += size) {
        const uint64_t sample = run->first + at / size;
        uint64_t field_at = at;
        for (int32_t i = 0; i < n; i++) {
            const iter__resident *rows = &p->made->rows[fields[i]];
            const uint64_t lo = field_at > begin ? field_at : begin;
            const uint64_t hi = field_at + rows->stride < end ? field_at + rows->stride : end;
            if (lo < hi) {
                memcpy((uint8_t *)rows->base + sample * rows->stride + (lo - field_at), from + lo,
                       hi - lo);
            }
            field_at += rows->stride;
        }
    }
}

/* A piece begins at a block and ends at a multiple of PIECE in the file, or with its run. */
static bool next_of_runs(preload *p, piece *out) {
    if (p->file == p->n_runs) return false;
    const stretch *run = &p->runs[p->file];
    const uint64_t at = run->offset + p->offset, last = run->offset + run->bytes;
    const uint64_t begin = at & ~(BLOCK - 1);
    const uint64_t border = (at / PIECE + 1) * PIECE, end = border < last ? border : last;
    const uint64_t size = (end - begin + BLOCK - 1) & ~(BLOCK - 1);
    out->run = run;
    out->wanted = end - begin;
    out->part = (iter_iovec){out->staging, size};
    out->read = (iter_read){
        .object = run->object, .offset = begin, .parts = &out->part, .n_parts = 1, .size = size};
    p->offset = end - run->offset;
    if (p->offset == run->bytes) {
        p->file++;
        p->offset = 0;
    }
    return true;
}

/* ---- Files as they are ----------------------------------------------------------------------- */

static bool next_of_files(preload *p, piece *out) {
    const iter_description *desc = &p->dataset->desc;
    while (p->file < desc->n_files && p->offset >= desc->files[p->file].bytes) {
        p->file++;
        p->offset = 0;
    }
    if (p->file >= desc->n_files) return false;
    const uint64_t left = desc->files[p->file].bytes - p->offset;
    const uint64_t size = left < PIECE ? left : PIECE;
    out->run = NULL;
    out->wanted = size;
    out->part = (iter_iovec){p->made->memory + p->made->object_base[p->file] + p->offset, size};
    out->read = (iter_read){
        .object = p->file, .offset = p->offset, .parts = &out->part, .n_parts = 1, .size = size};
    p->offset += size;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The next piece; false if all were handed out, or after an error. */
static bool next_piece(preload *p, piece *out) {
    if (p->status < 0) return false;
    return p->made->object_base ? next_of_files(p, out) : next_of_runs(p, out);
}

/* Repeats a read that failed or came short, once; then deals its bytes out. */
static void settle(const preload *p, const iter_source_ops *source, void *state, piece *one) {
    iter_read *read = &one->read;
    if (read->status < 0 || read->done < one->wanted) {
        *read = (iter_read){.object = read->object,
                            .offset = read->offset,
                            .parts = &one->part,
                            .n_parts = 1,
                            .size = read->size};
        source->read(state, read);
    }
    if (read->status == ITER_OK && read->done >= one->wanted && one->run) deal_out(p, one);
}

static void book(preload *p, const piece *one) {
    const iter_read *read = &one->read;
    iter__shared_progress(&p->made->shared, read->done);
    if (read->path >= 0 && read->path < ITER_PATH_COUNT) p->path_bytes[read->path] += read->done;
    if (p->status < 0 || (read->status == ITER_OK && read->done >= one->wanted)) return;
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

static void wait_for_some(const iter_source_ops *source, void *state, int64_t timeout_ns) {
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    if (source->wait(state, timeout_ns) < 0) nanosleep(&pause, NULL); /* the source cannot wait */
}

static iter_status read_async(preload *p, const iter_source_ops *source, void *state, piece *pieces,
                              int depth) {
    uint32_t in_flight = 0;
    for (;;) {
        bool full = false;
        for (int i = 0; i < depth && !full; i++) {
            piece *slot = &pieces[i];
            if (slot->busy || (!slot->read.size && !next_piece(p, slot))) continue;
            full = source->submit(state, &slot->read) == ITER_AGAIN; /* then the slot keeps it */
            slot->busy = !full;
            in_flight += !full;
        }
        if (in_flight == 0 && !full) break;
        const bool unsent = source->commit(state) != ITER_OK;
        iter_read *done[8]; /* few, so that new reads are sent while some are dealt out */
        int32_t n = source->reap(state, done, 8);
        if (n == 0) {
            wait_for_some(source, state, full || unsent ? RETRY_NS : WAIT_NS);
            n = source->reap(state, done, 8);
        }
        for (int32_t i = 0; i < n; i++) {
            piece *slot = (piece *)done[i];
            settle(p, source, state, slot);
            book(p, slot);
            slot->busy = false;
            slot->read.size = 0;
            in_flight--;
        }
    }
    return p->status;
}

typedef struct reader {
    preload *p;
    const iter_source_ops *source;
    void *state;
    piece *piece;
    pthread_t thread;
} reader;

static void *read_some(void *arg) {
    reader *r = arg;
    for (;;) {
        pthread_mutex_lock(&r->p->lock);
        const bool more = next_piece(r->p, r->piece);
        pthread_mutex_unlock(&r->p->lock);
        if (!more) return NULL;
        r->source->read(r->state, &r->piece->read);
        settle(r->p, r->source, r->state, r->piece);
        pthread_mutex_lock(&r->p->lock);
        book(r->p, r->piece);
        pthread_mutex_unlock(&r->p->lock);
    }
}

static iter_status read_threads(preload *p, const iter_source_ops *source, void *state,
                                piece *pieces) {
    reader readers[READERS];
    int n = 0;
    for (; n < READERS; n++) {
        readers[n] = (reader){.p = p, .source = source, .state = state, .piece = &pieces[n]};
        if (n < READERS - 1 &&
            iter__thread_start(&readers[n].thread, "iter-load", read_some, &readers[n]) != 0)
            break;
    }
    read_some(&readers[n < READERS ? n : READERS - 1]); /* this thread is the last reader */
    for (int i = 0; i < n && i < READERS - 1; i++)
        pthread_join(readers[i].thread, NULL);
    return p->status;
}

/* ---- Rows made from their index -------------------------------------------------------------- */

static iter_status make_rows(const preload *p, uint64_t first, uint32_t n, iter_error *err) {
    const iter_dataset *dataset = p->dataset;
    uint64_t indices[MADE_ROWS];
    iter_rng rng[MADE_ROWS];                  /* rows that are kept must not depend on them */
    iter__get_rows get = {.lengths = {NULL}}; /* rows that are kept have one length */
    for (uint32_t i = 0; i < n; i++) {
        indices[i] = first + i;
        rng[i] = iter_rng_at(0, 0, first + i);
    }
    for (int32_t f = 0; f < dataset->desc.n_fields; f++) {
        const iter__resident *to = &p->made->rows[f];
        iter_desc desc = dataset->desc.fields[f].desc;
        memmove(desc.dims + 1, desc.dims, (size_t)desc.n_dims * sizeof(desc.dims[0]));
        desc.dims[0] = n;
        desc.n_dims++;
        get.rows[f] = iter_tensor_dense(&desc, (uint8_t *)to->base + first * to->stride);
    }
    return iter__dataset_got(dataset->format->get(dataset->state, n, indices, get.rows, rng, err),
                             err);
}

static void *make_some(void *arg) {
    preload *p = arg;
    const iter_description *desc = &p->dataset->desc;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        const uint64_t first = p->sample;
        p->sample = desc->n_samples - first > MADE_ROWS ? first + MADE_ROWS : desc->n_samples;
        const uint64_t last = p->sample;
        pthread_mutex_unlock(&p->lock);
        if (first == last) return NULL;
        iter_error err = {ITER_OK, ""};
        const iter_status status = make_rows(p, first, (uint32_t)(last - first), &err);
        if (status == ITER_OK) continue;
        pthread_mutex_lock(&p->lock);
        if (p->status == ITER_OK)
            p->status = iter__fail(&p->error, status, "preload: %.400s", err.message);
        p->sample = desc->n_samples;
        pthread_mutex_unlock(&p->lock);
    }
}

static void make_threads(preload *p) {
    pthread_t threads[READERS - 1];
    int n = 0;
    while (n < READERS - 1 && iter__thread_start(&threads[n], "iter-make", make_some, p) == 0)
        n++;
    make_some(p);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

bool iter__description_keeps(const iter_description *desc) {
    if (!desc->keep_rows || desc->n_extents > 0 || desc->n_samples == ITER_UNKNOWN) return false;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const iter_desc *row = &desc->fields[f].desc;
        if (row->n_dims > 0 && row->dims[0] == ITER_VARIABLE) return false;
    }
    return true;
}

uint64_t iter__description_kept_bytes(const iter_description *desc) {
    uint64_t total = 0;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const uint64_t bytes = iter_desc_bytes(&desc->fields[f].desc) + 1; /* 1 for alignment */
        if (desc->n_samples > (ITER_UNKNOWN - total) / bytes) return ITER_UNKNOWN;
        total += bytes * desc->n_samples;
    }
    return total;
}

/* ---- Entry ----------------------------------------------------------------------------------- */

/* Decides the layout of the memory, and how large it is. */
static iter_status lay_out(preload *p, iter__preload *made, iter_error *err) {
    const iter_description *desc = &p->dataset->desc;
    p->runs = iter__alloc(RUNS_MAX, sizeof(*p->runs));
    if (!p->runs) return iter__fail(err, ITER_ENOMEM, "preload: out of memory");
    const bool rows = is_tiled(desc) && find_runs(p);
    if (p->status < 0) return p->status;
    if (rows) {
        made->bytes = lay_out_rows(desc, made->rows, NULL);
    } else {
        made->object_base = iter__alloc(desc->n_files + 1, sizeof(*made->object_base));
        if (!made->object_base) return iter__fail(err, ITER_ENOMEM, "preload: out of memory");
        for (uint64_t i = 0; i < desc->n_files; i++) {
            const uint64_t align = desc->files[i].bytes >= PIECE ? BLOCK : 1;
            made->bytes = (made->bytes + align - 1) & ~(align - 1);
            made->object_base[i] = made->bytes;
            made->bytes += desc->files[i].bytes;
        }
    }
    made->bytes += 64;
    return ITER_OK;
}

static void mix(uint64_t hashes[2], const uint64_t *facts, size_t n) {
    for (int k = 0; k < 2; k++)
        hashes[k] = iter__fnv1a(hashes[k], facts, n * sizeof(*facts));
}

/* Hashes what identifies the files. EUNSUPPORTED if one has changed since it was opened; if it is
 * at a URL, its reads find that out. */
static iter_status identify_files(const iter_description *desc, uint64_t out[2], iter_error *err) {
    for (uint64_t i = 0; i < desc->n_files; i++) {
        struct stat file;
        if (iter__url_is(desc->files[i].path)) {
            uint64_t object[3] = {0, 0, desc->files[i].bytes};
            if (!iter__remote_identity(desc->files[i].place, desc->files[i].path, object))
                return iter__fail(err, ITER_EUNSUPPORTED, "%s has no ETag", desc->files[i].path);
            mix(out, object, sizeof(object) / sizeof(object[0]));
            continue;
        }
        if (stat(desc->files[i].path, &file) != 0 || (uint64_t)file.st_size != desc->files[i].bytes)
            return iter__fail(err, ITER_EUNSUPPORTED, "%s is not the file that was opened",
                              desc->files[i].path);
        const uint64_t facts[] = {(uint64_t)file.st_dev,          (uint64_t)file.st_ino,
                                  (uint64_t)file.st_size,         (uint64_t)file.st_mtim.tv_sec,
                                  (uint64_t)file.st_mtim.tv_nsec, (uint64_t)file.st_ctim.tv_sec,
                                  (uint64_t)file.st_ctim.tv_nsec};
        mix(out, facts, sizeof(facts) / sizeof(facts[0]));
    }
    return ITER_OK;
}

/* Hashes what identifies the whole memory: the files, and where their bytes go. */
static iter_status identify(const preload *p, uint64_t out[2], iter_error *err) {
    const iter_description *desc = &p->dataset->desc;
    const uint64_t begin[] = {SHARED_VERSION, p->made->bytes, p->made->object_base == NULL};
    out[0] = ITER_FNV_START;
    out[1] = ~ITER_FNV_START;
    mix(out, begin, sizeof(begin) / sizeof(begin[0]));
    if (!p->made->object_base) {
        for (uint64_t i = 0; i < p->n_runs; i++) {
            const stretch *run = &p->runs[i];
            const uint64_t facts[] = {run->object, run->offset, run->bytes, run->first,
                                      (uint64_t)run->extent};
            mix(out, facts, sizeof(facts) / sizeof(facts[0]));
        }
        for (int32_t f = 0; f < desc->n_fields; f++) {
            const uint64_t facts[] = {iter_desc_bytes(&desc->fields[f].desc),
                                      desc->fields[f].offset, (uint64_t)desc->fields[f].extent};
            mix(out, facts, sizeof(facts) / sizeof(facts[0]));
        }
    }
    return identify_files(desc, out, err);
}

/* Takes memory that processes share, if that is wanted and possible, else memory of its own. */
static iter_status take_memory(preload *p, iter__preload *made, iter_error *err) {
    iter__share_wish *share = p->share;
    if (share->wanted) {
        iter_status status = identify(p, p->identity, &share->why);
        if (status == ITER_OK)
            status = iter__shared_open(&made->shared, ITER_SHARED_FOLDER, p->identity, made->bytes,
                                       PATIENCE_MS, &share->why);
        if (status == ITER_OK) made->memory = made->shared.memory;
        if (status < 0 && !share->alone_fits)
            return iter__fail(err, ITER_ENOMEM, "it cannot be shared (%s), and a copy does not fit",
                              share->why.message);
    }
    if (!made->memory) made->memory = iter__map(made->bytes);
    if (!made->memory)
        return iter__fail(err, ITER_ENOMEM, "preload: no memory for %zu bytes", made->bytes);
    if (!made->object_base) lay_out_rows(&p->dataset->desc, made->rows, made->memory);
    return ITER_OK;
}

/* Lets other processes use the memory, if the files have not changed while it was filled. */
static iter_status publish(preload *p, iter__preload *made, iter_error *err) {
    uint64_t now[2];
    const bool same =
        identify(p, now, NULL) == ITER_OK && memcmp(now, p->identity, sizeof(now)) == 0;
    if (!same) {
        iter__shared_withdraw(&made->shared);
        return ITER_OK;
    }
    made->memory = NULL;
    ITER_TRY(iter__shared_publish(&made->shared, err));
    made->memory = made->shared.memory;
    if (!made->object_base) lay_out_rows(&p->dataset->desc, made->rows, made->memory);
    return ITER_OK;
}

uint64_t iter__preload_cost(const iter__preload *made, uint32_t local_ranks) {
    return made->shared.memory ? made->bytes / local_ranks : made->bytes;
}

static iter_status read_all(preload *p, const iter_source_ops *source, void *state,
                            iter_error *err) {
    const int depth = p->made->object_base ? DEPTH_FILES : DEPTH_ROWS;
    const size_t staging_bytes = p->made->object_base ? 0 : (size_t)PIECE * DEPTH_ROWS;
    piece *pieces = iter__alloc((size_t)depth, sizeof(*pieces));
    uint8_t *staging = staging_bytes ? iter__map(staging_bytes) : NULL;
    iter_status status = ITER_OK;
    if (!pieces || (staging_bytes && !staging)) {
        status = iter__fail(err, ITER_ENOMEM, "preload: no memory for %zu bytes of staging",
                            staging_bytes);
    } else {
        for (int i = 0; i < depth && staging; i++)
            pieces[i].staging = staging + (size_t)i * PIECE;
        status = source->submit ? read_async(p, source, state, pieces, depth)
                                : read_threads(p, source, state, pieces);
    }
    iter__unmap(staging, staging_bytes);
    iter__free(pieces);
    return status;
}

static iter_status fill(preload *p, iter__preload *made, const iter_source_ops *source, void *state,
                        iter_error *err) {
    ITER_TRY(lay_out(p, made, err));
    ITER_TRY(take_memory(p, made, err));
    if (made->shared.memory && !made->shared.must_fill) return ITER_OK;
    if (source) {
        ITER_TRY(read_all(p, source, state, err));
        return made->shared.memory ? publish(p, made, err) : ITER_OK;
    }
    make_threads(p);
    return p->status;
}

static iter_status preload_now(iter_dataset *dataset, const iter_source_ops *source, void *state,
                               iter__share_wish *share, iter_error *err) {
    const int64_t start = iter__now_ns();
    iter__preload made = {.bytes = 0};
    preload p = {.dataset = dataset, .made = &made, .share = share};
    pthread_mutex_init(&p.lock, NULL);
    const iter_status status = fill(&p, &made, source, state, &p.error);
    pthread_mutex_destroy(&p.lock);
    iter__free(p.runs);
    if (status < 0) {
        if (err) *err = p.error;
        iter__preload_free(&made);
        return status;
    }
    memcpy(made.path_bytes, p.path_bytes, sizeof(made.path_bytes));
    made.seconds = (double)(iter__now_ns() - start) * 1e-9;
    dataset->preload = made;
    atomic_store(&dataset->is_preloaded, true);
    return ITER_OK;
}

bool iter__dataset_is_cold(const iter_dataset *dataset, const iter_source_ops *source,
                           void *state) {
    const iter_description *desc = &dataset->desc;
    uint32_t n_cold = 0, n = 0;
    for (uint64_t i = 0; i < desc->n_files && source->try_read && n < 16; i++) {
        const uint64_t bytes = desc->files[i].bytes;
        if (bytes == ITER_UNKNOWN || bytes < PIECE) return false; /* small files gain nothing */
        for (uint64_t k = 1; k <= 3; k++, n++) {
            uint8_t one;
            const iter_iovec part = {&one, 1};
            iter_read read = {
                .object = i, .offset = bytes / 4 * k, .parts = &part, .n_parts = 1, .size = 1};
            const iter_status status = source->try_read(state, &read);
            n_cold += status == ITER_AGAIN && read.os_error != EOPNOTSUPP;
        }
    }
    return n && 2 * n_cold > n;
}

bool iter__dataset_is_preloaded(iter_dataset *dataset) {
    return atomic_load(&dataset->is_preloaded);
}

iter_status iter__dataset_preload(iter_dataset *dataset, const iter_source_ops *source, void *state,
                                  iter__share_wish *share, bool *out_now, iter_error *err) {
    pthread_mutex_lock(&dataset->preload_lock);
    const bool there = atomic_load(&dataset->is_preloaded);
    const iter_status status = there ? ITER_OK : preload_now(dataset, source, state, share, err);
    *out_now = !there && status == ITER_OK;
    pthread_mutex_unlock(&dataset->preload_lock);
    return status;
}
