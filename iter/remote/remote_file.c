/*
 * remote_file.c - an open file of client.h, and what is kept of one in the cache's folder.
 *
 * A scan goes from head to head. If heads are close together, it reads the whole object, so it pays
 * to ask for much at a time, in ranges that are in flight together. If they are far apart, a small
 * range for each is right. So the first range is small, each one that goes on after the last part
 * is four times as large, and a jump begins anew. With a cache the ranges are its blocks.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

#define BLOCK_BYTES ITER_CACHE_BLOCK /* the most of one range */
#define FIRST_BYTES ((size_t)64 << 10)
#define GROWTH      4u
#define NEAR_BYTES  BLOCK_BYTES /* what lies between is read and left out */
#define RANGES_MAX  16u         /* of one file, in flight together */

struct iter__remote_file {
    iter__remote *remote;
    const char *url;
    uint64_t bytes;
    pthread_mutex_t lock; /* guards all below */
    uint8_t *part;        /* [capacity] */
    size_t capacity, part_n;
    uint64_t part_at;
};

iter_status iter__remote_file_open(iter__remote *remote, const char *url, iter__remote_file **out,
                                   iter__remote_info *out_info, iter_error *err) {
    *out = NULL;
    ITER_TRY(iter__remote_look(remote, url, out_info, err));
    if (out_info->is_folder)
        return iter__fail(err, ITER_EIO, "%s: is a folder, expected a file", url);
    iter__remote_file *file = iter__alloc(1, sizeof(*file));
    if (!file) return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", url);
    file->remote = iter__remote_ref(remote);
    file->url = url;
    file->bytes = out_info->bytes;
    pthread_mutex_init(&file->lock, NULL);
    atomic_fetch_add_explicit(&remote->n_files, 1, memory_order_relaxed);
    *out = file;
    return ITER_OK;
}

void iter__remote_file_close(iter__remote_file *file) {
    if (!file) return;
    atomic_fetch_sub_explicit(&file->remote->n_files, 1, memory_order_relaxed);
    iter__remote_unref(file->remote);
    pthread_mutex_destroy(&file->lock);
    iter__free(file->part);
    iter__free(file);
}

/* How many ranges of this file may be in flight: the files that are open share the connections. */
static uint32_t ranges_of(const iter__remote_file *file) {
    const uint32_t n_files = atomic_load_explicit(&file->remote->n_files, memory_order_relaxed);
    const uint32_t share = file->remote->connections / iter__max_u32(n_files, 1);
    return iter__min_u32(RANGES_MAX, iter__max_u32(share, 1));
}

/* A read that is cut into ranges. With a cache the cuts are those of its blocks. */
typedef struct cut {
    const iter__remote_file *file;
    iter__cache *cache; /* NULL = none */
    iter__cache_key key;
    uint64_t offset;
    uint8_t *out;
    size_t n;
    size_t done[RANGES_MAX]; /* bytes of each range */
    uint64_t first;          /* where range 0 would begin if it were whole */
} cut;

/* Reads a block that is not kept, keeps it, and copies the n bytes at `at` of it. */
static iter_status fetch_block(const cut *c, uint64_t block, size_t at, uint8_t *out, size_t n,
                               size_t *out_done, iter_error *err) {
    const iter__remote_file *file = c->file;
    const uint64_t from = block * BLOCK_BYTES;
    const size_t size = (size_t)iter__min_u64(file->bytes - from, BLOCK_BYTES);
    uint8_t *own = n < size ? iter__alloc(size, 1) : NULL;
    uint8_t *to = n < size ? own : out;
    size_t got = 0;
    if (!to) return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", file->url);
    iter_status status = iter__remote_read(file->remote, file->url, from, to, size, &got, err);
    iter__cache_claim claim;
    if (status == ITER_OK && got == size &&
        iter__cache_claim_block(c->cache, &c->key, block, &claim))
        iter__cache_keep(c->cache, &c->key, block, &claim, to, size);
    *out_done = got > at ? iter__min_size(n, got - at) : 0;
    if (own) memcpy(out, own + at, *out_done);
    iter__free(own);
    return status;
}

static iter_status read_range(void *user, uint64_t i, iter_error *err) {
    cut *c = user;
    const uint64_t whole = c->first + i * BLOCK_BYTES;
    const uint64_t from = iter__max_u64(whole, c->offset);
    const uint64_t to = iter__min_u64(whole + BLOCK_BYTES, c->offset + c->n);
    const size_t n = (size_t)(to - from), at = (size_t)(from - whole);
    uint8_t *out = c->out + (from - c->offset);
    if (!c->cache)
        return iter__remote_read(c->file->remote, c->file->url, from, out, n, &c->done[i], err);
    const uint64_t block = whole / BLOCK_BYTES;
    if (iter__cache_read(c->cache, &c->key, block, at, out, n, true) == ITER_CACHE_READ) {
        c->done[i] = n;
        return ITER_OK;
    }
    return fetch_block(c, block, at, out, n, &c->done[i], err);
}

/* Reads n bytes that the file has, up to RANGES_MAX ranges of it; *out_done < n only if it became
 * shorter. Without the lock, if `out` is not the file's part. */
static iter_status read_cut(const iter__remote_file *file, uint64_t offset, uint8_t *out, size_t n,
                            size_t *out_done, iter_error *err) {
    cut c = {.file = file, .offset = offset, .out = out, .first = offset};
    c.cache = iter__remote_cache(file->remote, file->url, &c.key);
    if (c.cache) c.first = offset / BLOCK_BYTES * BLOCK_BYTES;
    c.n = (size_t)iter__min_u64(n, c.first + RANGES_MAX * BLOCK_BYTES - offset);
    const uint64_t n_ranges = (offset - c.first + c.n + BLOCK_BYTES - 1) / BLOCK_BYTES;
    const iter_status status =
        n_ranges == 1
            ? read_range(&c, 0, err)
            : iter__remote_each(file->remote, n_ranges, ranges_of(file), read_range, &c, err);
    *out_done = 0;
    for (uint64_t i = 0; i < n_ranges && status == ITER_OK; i++) {
        const uint64_t end = iter__min_u64(c.first + (i + 1) * BLOCK_BYTES, offset + c.n);
        *out_done += c.done[i];
        if (offset + *out_done < end) break;
    }
    return status;
}

/* How much to read at `at`, the beginning of the next part. */
static size_t part_bytes(const iter__remote_file *file, uint64_t at, size_t least) {
    const uint64_t end = file->part_at + file->part_n;
    const bool goes_on = file->part_n > 0 && at >= file->part_at && at < end + NEAR_BYTES;
    const size_t most = iter__max_size(ranges_of(file) * BLOCK_BYTES, least);
    const size_t wanted = goes_on ? iter__max_size(file->part_n * GROWTH, least) : least;
    return iter__min_size(wanted, most);
}

/* Reads the part that begins at `offset` or shortly before. With the lock held. */
static iter_status load_part(iter__remote_file *file, uint64_t offset, iter_error *err) {
    if (offset >= file->part_at && offset < file->part_at + file->part_n) return ITER_OK;
    const size_t step = iter__remote_has_cache(file->remote) ? BLOCK_BYTES : FIRST_BYTES;
    const uint64_t at = offset / step * step;
    const size_t wanted = part_bytes(file, at, step);
    size_t n = (size_t)iter__min_u64(file->bytes - at, wanted);
    if (file->capacity < n) {
        iter__free(file->part);
        file->part = iter__alloc(n, 1);
        if (!file->part) { /* less would do */
            n = (size_t)iter__min_u64(file->bytes - at, step);
            file->part = iter__alloc(n, 1);
        }
        file->capacity = file->part ? n : 0;
    }
    file->part_n = 0;
    file->part_at = at;
    if (!file->part) return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", file->url);
    return read_cut(file, at, file->part, n, &file->part_n, err);
}

iter_status iter__remote_file_read(iter__remote_file *file, uint64_t offset, void *out, size_t n,
                                   size_t *out_done, iter_error *err) {
    iter_status status = ITER_OK;
    *out_done = 0;
    if (offset >= file->bytes) return ITER_OK;
    n = (size_t)iter__min_u64(n, file->bytes - offset);
    while (status == ITER_OK && n - *out_done >= BLOCK_BYTES) {
        size_t got = 0;
        status = read_cut(file, offset + *out_done, (uint8_t *)out + *out_done, n - *out_done, &got,
                          err);
        *out_done += got;
        if (got == 0) return status;
    }
    pthread_mutex_lock(&file->lock);
    while (status == ITER_OK && *out_done < n) {
        const uint64_t at = offset + *out_done;
        status = load_part(file, at, err);
        if (status < 0 || at >= file->part_at + file->part_n) break;
        const size_t inside = (size_t)(at - file->part_at);
        const size_t got = iter__min_size(n - *out_done, file->part_n - inside);
        memcpy((uint8_t *)out + *out_done, file->part + inside, got);
        *out_done += got;
    }
    pthread_mutex_unlock(&file->lock);
    return status;
}

/* ---- What is kept ---------------------------------------------------------------------------- */

struct iter__remote_keeping {
    iter__cache *cache;
    iter__cache_claim claim;
};

int iter__remote_kept_open(iter__remote *remote, const char *url, uint64_t what,
                           uint64_t *out_bytes) {
    iter__cache_key key;
    iter__cache *cache = iter__remote_cache(remote, url, &key);
    *out_bytes = 0;
    return cache ? iter__cache_other_open(cache, &key, what, out_bytes) : -1;
}

iter__remote_keeping *iter__remote_keep_begin(iter__remote *remote, const char *url, uint64_t what,
                                              uint64_t bytes, int *out_fd) {
    iter__cache_key key;
    iter__cache *cache = iter__remote_cache(remote, url, &key);
    iter__remote_keeping *keeping = cache ? iter__alloc(1, sizeof(*keeping)) : NULL;
    *out_fd = -1;
    if (!keeping) return NULL;
    keeping->cache = cache;
    if (!iter__cache_other_begin(cache, &key, what, bytes, &keeping->claim)) {
        iter__free(keeping);
        return NULL;
    }
    *out_fd = keeping->claim.fd;
    return keeping;
}

void iter__remote_keep_end(iter__remote_keeping *keeping, bool is_complete) {
    iter__cache_other_end(keeping->cache, &keeping->claim, is_complete);
    iter__free(keeping);
}

#endif
