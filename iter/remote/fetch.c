/* fetch.c - see fetch.h. A read of a whole block through the cached source keeps the block; where
 * its bytes go to does not matter. */
#include "iter/remote/fetch.h"

#include "iter/core/error.h"

#ifndef ITER_HAVE_REMOTE

iter_status iter__remote_fetch(const iter_file *files, uint64_t n_files,
                               iter__fetch_progress *progress, void *user, iter_error *err) {
    (void)files, (void)n_files, (void)progress, (void)user;
    return iter__fail(err, ITER_EUNSUPPORTED, "fetch: this build reads no URLs");
}

#else

#include <inttypes.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/remote/client_state.h"

#define DEPTH     64u
#define TRIES_MAX 3
#define WAIT_NS   50000000

extern const iter_source_ops iter__source_cached;

typedef struct fetching {
    iter_read read; /* first: reap() hands it back */
    int n_tries;
    bool is_used;
} fetching;

typedef struct filler {
    const iter_file *files;
    uint64_t n_files;
    void *source;
    fetching slots[DEPTH];
    iter_iovec part; /* where all bytes go */
    uint32_t n_busy;
    uint64_t kept, bytes, not_kept;
    bool is_over; /* by an error: what ends now is not asked for again */
    iter__fetch_progress *progress;
    void *user;
} filler;

static size_t block_bytes(const iter_file *file, uint64_t block) {
    return (size_t)iter__min_u64(ITER_CACHE_BLOCK, file->bytes - block * ITER_CACHE_BLOCK);
}

static bool is_cached(const iter_file *file) {
    return iter__remote_has_cache(file->place) && file->bytes != ITER_UNKNOWN;
}

static iter_status tell(filler *f, iter_error *err) {
    if (f->progress(f->user, f->kept, f->bytes)) return ITER_OK;
    return iter__fail(err, ITER_ECANCELED,
                      "fetch: stopped; %" PRIu64 " of %" PRIu64 " bytes are in the cache", f->kept,
                      f->bytes);
}

static iter_status submit(filler *f, fetching *one) {
    one->n_tries++;
    one->read.done = 0;
    one->read.status = ITER_OK;
    for (size_t i = 0; i < sizeof(one->read.reserved) / sizeof(one->read.reserved[0]); i++)
        one->read.reserved[i] = 0;
    return iter__source_cached.submit(f->source, &one->read);
}

static void free_slot(filler *f, fetching *one) {
    one->is_used = false;
    f->n_busy--;
}

static void count(filler *f, const iter_read *read) {
    const iter_file *file = &f->files[read->object];
    iter__cache_key key;
    iter__cache *cache = iter__remote_cache(file->place, file->path, &key);
    if (cache && iter__cache_has(cache, &key, read->offset / ITER_CACHE_BLOCK))
        f->kept += read->size;
    else
        f->not_kept += read->size;
}

/* A read that failed: says why, by one more try. */
static iter_status retry(filler *f, fetching *one, iter_error *err) {
    iter_error why = {.status = ITER_OK};
    const iter_file *file = &f->files[one->read.object];
    if (one->n_tries < TRIES_MAX) {
        one->read.done = 0;
        one->read.why = &why;
        const iter_status status = iter__source_cached.read(f->source, &one->read);
        one->read.why = NULL;
        if (status == ITER_OK && submit(f, one) != ITER_AGAIN) return ITER_OK;
    }
    free_slot(f, one);
    return iter__fail(err, ITER_EIO, "%s: bytes %" PRIu64 "-%" PRIu64 ": %s", file->path,
                      one->read.offset, one->read.offset + one->read.size - 1,
                      why.message[0] ? why.message : "cannot be read");
}

/* Takes what is complete, or waits a moment for it. */
static iter_status take(filler *f, iter_error *err) {
    iter_read *done[DEPTH];
    (void)iter__source_cached.commit(f->source);
    int32_t n = iter__source_cached.reap(f->source, done, DEPTH);
    if (n == 0) {
        (void)iter__source_cached.wait(f->source, WAIT_NS);
        n = iter__source_cached.reap(f->source, done, DEPTH);
    }
    iter_status status = ITER_OK;
    for (int32_t i = 0; i < n; i++) {
        fetching *one = (fetching *)(void *)done[i];
        if (one->read.status < 0 && !f->is_over) {
            status = retry(f, one, err);
            f->is_over = status < 0; /* the first failure is told */
        } else {
            if (one->read.status == ITER_OK) count(f, &one->read);
            free_slot(f, one);
        }
    }
    return status == ITER_OK && !f->is_over ? tell(f, err) : status;
}

static fetching *find_slot(filler *f) {
    for (uint32_t i = 0; i < DEPTH; i++)
        if (!f->slots[i].is_used) return &f->slots[i];
    return NULL;
}

static void count_kept(filler *f, uint64_t object) {
    const iter_file *file = &f->files[object];
    iter__cache_key key;
    if (!is_cached(file)) return;
    f->bytes += file->bytes;
    iter__cache *cache = iter__remote_cache(file->place, file->path, &key);
    for (uint64_t block = 0; cache && block * ITER_CACHE_BLOCK < file->bytes; block++)
        if (iter__cache_has(cache, &key, block)) f->kept += block_bytes(file, block);
}

static iter_status fetch_file(filler *f, uint64_t object, iter_error *err) {
    const iter_file *file = &f->files[object];
    iter__cache_key key;
    if (!is_cached(file)) return ITER_OK;
    iter__cache *cache = iter__remote_cache(file->place, file->path, &key);
    if (!cache)
        return iter__fail(err, ITER_EIO, "%s: the server gives it no ETag, so it is not kept",
                          file->path);
    for (uint64_t block = 0; block * ITER_CACHE_BLOCK < file->bytes; block++) {
        fetching *one;
        if (iter__cache_has(cache, &key, block)) continue;
        while (!(one = find_slot(f)))
            ITER_TRY(take(f, err));
        if (!iter__cache_has_room(cache)) {
            f->not_kept += block_bytes(file, block);
            return ITER_OK;
        }
        *one = (fetching){.read = {.object = object,
                                   .offset = block * ITER_CACHE_BLOCK,
                                   .parts = &f->part,
                                   .n_parts = 1,
                                   .size = block_bytes(file, block)}};
        while (submit(f, one) == ITER_AGAIN)
            ITER_TRY(take(f, err));
        one->is_used = true;
        f->n_busy++;
    }
    return tell(f, err);
}

static iter_status fetch_all(filler *f, iter_error *err) {
    for (uint64_t i = 0; i < f->n_files; i++)
        count_kept(f, i);
    iter_status status = tell(f, err);
    for (uint64_t i = 0; i < f->n_files && status == ITER_OK && f->not_kept == 0; i++)
        status = fetch_file(f, i, err);
    while (f->n_busy > 0 && status == ITER_OK)
        status = take(f, err);
    f->is_over = status < 0;
    if (f->is_over) iter__source_cached.cancel(f->source);
    while (f->n_busy > 0)
        (void)take(f, err);
    if (status == ITER_OK && f->not_kept > 0)
        return iter__fail(err, ITER_EIO,
                          "cache: it is full, or cannot be written: %" PRIu64 " of %" PRIu64
                          " bytes of the set are in it",
                          f->kept, f->bytes);
    if (status < 0) return status;
    f->kept = f->bytes; /* others may have fetched some meanwhile */
    return tell(f, err);
}

iter_status iter__remote_fetch(const iter_file *files, uint64_t n_files,
                               iter__fetch_progress *progress, void *user, iter_error *err) {
    filler *f = iter__alloc(1, sizeof(*f));
    void *source = iter__alloc(1, iter__source_cached.base.state_size);
    uint8_t *bytes = iter__alloc(ITER_CACHE_BLOCK, 1);
    iter_status status = ITER_OK;
    bool has_cache = false;
    for (uint64_t i = 0; i < n_files; i++)
        has_cache = has_cache || iter__remote_has_cache(files[i].place);
    if (!f || !source || !bytes)
        status = iter__fail(err, ITER_ENOMEM, "fetch: no memory");
    else if (!has_cache)
        status = iter__fail(err, ITER_EUNSUPPORTED,
                            "fetch: no file of this set has a cache; a URL's key is cache=DIR");
    if (status == ITER_OK) {
        *f = (filler){.files = files, .n_files = n_files, .progress = progress, .user = user};
        f->part = (iter_iovec){.data = bytes, .size = ITER_CACHE_BLOCK};
        const iter_source_config config = {.files = files, .n_files = n_files, .depth = DEPTH};
        char fallback[160];
        status = iter__source_cached.open(source, &config, fallback, sizeof(fallback), err);
    }
    if (status == ITER_OK) {
        f->source = source;
        status = fetch_all(f, err);
        iter__source_cached.close(source);
    }
    iter__free(bytes);
    iter__free(source);
    iter__free(f);
    return status;
}

#endif
