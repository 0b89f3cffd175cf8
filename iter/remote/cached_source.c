/*
 * cached_source.c - the source of files elsewhere that are kept in a folder: the blocks of cache.h
 * before the requests of remote_source.c.
 *
 * A read whose blocks are all kept is served from them. For each missing block there is one fetch,
 * however many reads need it: a request for the whole block, which is then kept. If the folder has
 * no room, a read goes to the server as it is. A block that another process fetches is looked for
 * again every few milliseconds. Kept blocks that are not in the page cache are read by threads of
 * their own (cold_reads.h).
 *
 * submit(), commit(), reap() and cancel() are called under one lock of the loader's, which guards
 * this source's own state; wait() touches the atomic members alone.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/remote/cold_reads.h"

#define FETCHES_MAX 64u
#define FETCHES_MIN 2u
#define LOOK_NS     5000000 /* until a block of another process's is looked for again */
#define REAP        32
#define BLOCKS_MAX  64u /* of one read: bits of a mask */

extern const iter_source_ops iter__source_remote;

typedef enum fetch_state { FETCH_FREE, FETCH_ASKED, FETCH_PARKED } fetch_state;

typedef struct fetch {
    iter_read read;
    iter_iovec part;
    uint8_t *bytes; /* [ITER_CACHE_BLOCK]; made when it is first needed */
    fetch_state state;
    int64_t look_ns; /* while it is parked */
    uint64_t object, block;
    size_t size;
    iter__cache *cache;
    iter__cache_key key;
    iter__cache_claim claim;
} fetch;

/* What a read that waits keeps in `reserved`. */
enum {
    NEXT,    /* of the waiting ones: a pointer */
    MISSING, /* bits of the blocks that are fetched, from the read's first one on */
    COLD,    /* the same of those that are on the disk alone; while it is there, the threads' */
    AT_DISK, /* it is there */
    LINK,    /* cold_reads.h's */
};

/* What the cache calls a file; cache NULL = not known when the source was opened. */
typedef struct cached_file {
    iter__cache *cache;
    iter__cache_key key;
} cached_file;

typedef struct cached_source {
    const iter_file *files;
    cached_file *names; /* of the files */
    void *inner;
    iter__cold_reads *cold;
    iter_read **done; /* [done_capacity], a ring */
    uint32_t done_first, done_capacity;
    atomic_uint n_done, n_parked;
    uint32_t n_taken; /* reads that were submitted and not reaped */
    iter_read *waiting;
    const iter_read *refused;
    bool canceled;
    uint32_t n_fetches, n_free;
    fetch fetches[FETCHES_MAX];
} cached_source;

/* ---- Reads ----------------------------------------------------------------------------------- */

static void push_done(cached_source *s, iter_read *read) {
    const uint32_t n = atomic_load_explicit(&s->n_done, memory_order_relaxed);
    s->done[(s->done_first + n) % s->done_capacity] = read;
    atomic_store(&s->n_done, n + 1);
}

static iter_read *pop_done(cached_source *s) {
    const uint32_t n = atomic_load_explicit(&s->n_done, memory_order_relaxed);
    if (n == 0) return NULL;
    iter_read *read = s->done[s->done_first];
    s->done_first = (s->done_first + 1) % s->done_capacity;
    atomic_store(&s->n_done, n - 1);
    return read;
}

/* Bytes that the read gets if the object is as long as it was. */
static size_t bytes_of(const cached_source *s, const iter_read *read) {
    const uint64_t bytes = s->files[read->object].bytes;
    return read->offset >= bytes ? 0 : (size_t)iter__min_u64(read->size, bytes - read->offset);
}

/* Calls `copy` for each place of the read where bytes of block number `block` go. */
typedef bool copy_part(void *user, size_t inside, void *to, size_t n);

static bool for_parts(const iter_read *read, size_t n_read, uint64_t block, copy_part *copy,
                      void *user) {
    const uint64_t begin = block * ITER_CACHE_BLOCK, end = begin + ITER_CACHE_BLOCK;
    uint64_t at = read->offset;
    const uint64_t last = read->offset + n_read;
    for (int32_t i = 0; i < read->n_parts && at < last; i++) {
        const uint64_t part_end = iter__min_u64(at + read->parts[i].size, last);
        const uint64_t from = iter__max_u64(at, begin), to = iter__min_u64(part_end, end);
        if (from < to && !copy(user, (size_t)(from - begin),
                               (uint8_t *)read->parts[i].data + (from - at), (size_t)(to - from)))
            return false;
        at = part_end;
    }
    return true;
}

typedef struct kept_block {
    iter__cache *cache;
    const iter__cache_key *key;
    uint64_t block;
    bool may_wait;
    iter__cache_answer answer;
} kept_block;

static bool copy_kept(void *user, size_t inside, void *to, size_t n) {
    kept_block *k = user;
    k->answer = iter__cache_read(k->cache, k->key, k->block, inside, to, n, k->may_wait);
    return k->answer == ITER_CACHE_READ;
}

/* The blocks of a read: the first and how many; false = it does not go through the cache. */
static bool blocks_of(const cached_source *s, const iter_read *read, iter__cache **out_cache,
                      iter__cache_key *out_key, uint64_t *out_first, uint32_t *out_n) {
    const iter_file *file = &s->files[read->object];
    const cached_file *name = &s->names[read->object];
    const size_t n = bytes_of(s, read);
    if (n == 0) return false;
    *out_cache = name->cache;
    *out_key = name->key;
    if (!name->cache) *out_cache = iter__remote_cache(file->place, file->path, out_key);
    if (!*out_cache) return false;
    *out_first = read->offset / ITER_CACHE_BLOCK;
    const uint64_t blocks = (read->offset + n - 1) / ITER_CACHE_BLOCK - *out_first + 1;
    *out_n = (uint32_t)iter__min_u64(blocks, BLOCKS_MAX + 1);
    return blocks <= BLOCKS_MAX;
}

/* Copies of blocks `mask` what is kept and in memory. Bits of what is missing, and of what must be
 * read from the disk (NULL = it is read now). */
static uint64_t copy_blocks(const cached_source *s, const iter_read *read, iter__cache *cache,
                            const iter__cache_key *key, uint64_t first, uint64_t mask,
                            uint64_t *out_cold) {
    uint64_t missing = 0, cold = 0;
    for (uint32_t i = 0; i < BLOCKS_MAX && mask >> i; i++) {
        if (!(mask >> i & 1)) continue;
        kept_block k = {
            .cache = cache, .key = key, .block = first + i, .may_wait = out_cold == NULL};
        if (for_parts(read, bytes_of(s, read), first + i, copy_kept, &k)) continue;
        *(k.answer == ITER_CACHE_COLD ? &cold : &missing) |= (uint64_t)1 << i;
    }
    if (out_cold) *out_cold = cold;
    return missing;
}

static uint64_t all_of(uint32_t n) {
    return n < BLOCKS_MAX ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
}

static void end_read(iter_read *read, size_t done, iter_path path) {
    read->done = done;
    read->status = ITER_OK;
    read->os_error = 0;
    read->path = path;
}

/* ---- Fetches --------------------------------------------------------------------------------- */

static bool copy_fetched(void *user, size_t inside, void *to, size_t n) {
    const fetch *f = user;
    if (inside < f->read.done)
        memcpy(to, f->bytes + inside, iter__min_size(n, f->read.done - inside));
    return true;
}

/* Gives a fetch's bytes, or its failure, to a read that waits for it. */
static void give(const cached_source *s, fetch *f, iter_read *read) {
    if (f->read.status < 0) {
        read->status = f->read.status;
        read->os_error = f->read.os_error;
        read->done = 0;
        return;
    }
    (void)for_parts(read, bytes_of(s, read), f->block, copy_fetched, f);
    if (f->read.done == f->size || read->status < 0) return;
    const uint64_t end = f->block * ITER_CACHE_BLOCK + f->read.done;
    const uint64_t has = end > read->offset ? end - read->offset : 0;
    read->done = (size_t)iter__min_u64(read->done, has); /* the object ends earlier */
}

/* Keeps a fetched block, and hands out the reads that waited for it. */
static void finish(cached_source *s, fetch *f) {
    const bool whole = f->read.status == ITER_OK && f->read.done == f->size;
    iter__cache_keep(f->cache, &f->key, f->block, &f->claim, whole ? f->bytes : NULL, f->size);
    for (iter_read **at = &s->waiting, *read; (read = *at);) {
        const uint64_t first = read->offset / ITER_CACHE_BLOCK, i = f->block - first;
        const bool is_his = read->object == f->object && f->block >= first && i < BLOCKS_MAX &&
                            read->reserved[MISSING] >> i & 1;
        if (is_his) {
            give(s, f, read);
            read->reserved[MISSING] &= ~((uint64_t)1 << i);
        }
        iter_read *next = (iter_read *)(uintptr_t)read->reserved[NEXT];
        if (is_his && read->reserved[MISSING] == 0) {
            *at = next;
            if (!read->reserved[AT_DISK]) push_done(s, read);
        } else {
            at = (iter_read **)(void *)&read->reserved[NEXT];
        }
    }
    if (f->state == FETCH_PARKED) atomic_fetch_sub(&s->n_parked, 1);
    f->state = FETCH_FREE;
    s->n_free++;
}

static void fail(cached_source *s, fetch *f, iter_status status, int32_t os_error) {
    f->read.status = status;
    f->read.os_error = os_error;
    finish(s, f);
}

static void park(cached_source *s, fetch *f) {
    f->look_ns = iter__now_ns() + LOOK_NS;
    if (f->state != FETCH_PARKED) atomic_fetch_add(&s->n_parked, 1);
    f->state = FETCH_PARKED;
}

/* Asks for a block, unless another process does, or has it by now. */
static void go_on(cached_source *s, fetch *f) {
    if (f->claim.fd < 0 && !iter__cache_claim_block(f->cache, &f->key, f->block, &f->claim)) {
        park(s, f);
        return;
    }
    f->read.done = 0;
    f->read.status = ITER_OK;
    if (iter__cache_read(f->cache, &f->key, f->block, 0, f->bytes, f->size, true) ==
        ITER_CACHE_READ) {
        f->read.done = f->size;
        iter__cache_keep(f->cache, &f->key, f->block, &f->claim, NULL, 0);
        finish(s, f);
    } else if (iter__source_remote.submit(s->inner, &f->read) == ITER_AGAIN) {
        park(s, f);
    } else {
        if (f->state == FETCH_PARKED) atomic_fetch_sub(&s->n_parked, 1);
        f->state = FETCH_ASKED;
    }
}

static void begin_fetch(cached_source *s, uint64_t object, uint64_t block, iter__cache *cache,
                        const iter__cache_key *key) {
    fetch *f = s->fetches;
    while (f->state != FETCH_FREE)
        f++;
    s->n_free--;
    const uint64_t at = block * ITER_CACHE_BLOCK;
    uint8_t *bytes = f->bytes ? f->bytes : iter__alloc(ITER_CACHE_BLOCK, 1);
    *f = (fetch){.bytes = bytes,
                 .state = FETCH_ASKED,
                 .object = object,
                 .block = block,
                 .cache = cache,
                 .key = *key,
                 .claim.fd = -1};
    f->size = (size_t)iter__min_u64(ITER_CACHE_BLOCK, s->files[object].bytes - at);
    f->part = (iter_iovec){.data = bytes, .size = f->size};
    f->read = (iter_read){
        .object = object, .offset = at, .parts = &f->part, .n_parts = 1, .size = f->size};
    if (bytes)
        go_on(s, f);
    else
        fail(s, f, ITER_ENOMEM, ENOMEM);
}

static bool is_fetched(const cached_source *s, uint64_t object, uint64_t block) {
    for (uint32_t i = 0; i < s->n_fetches; i++) {
        const fetch *f = &s->fetches[i];
        if (f->state != FETCH_FREE && f->object == object && f->block == block) return true;
    }
    return false;
}

static fetch *fetch_of(cached_source *s, const iter_read *read) {
    for (uint32_t i = 0; i < s->n_fetches; i++)
        if (&s->fetches[i].read == read) return &s->fetches[i];
    return NULL;
}

static void look_again(cached_source *s) {
    if (atomic_load_explicit(&s->n_parked, memory_order_relaxed) == 0) return;
    const int64_t now = iter__now_ns();
    for (uint32_t i = 0; i < s->n_fetches; i++) {
        fetch *f = &s->fetches[i];
        if (f->state != FETCH_PARKED) continue;
        if (s->canceled)
            fail(s, f, ITER_ECANCELED, ECANCELED);
        else if (now >= f->look_ns)
            go_on(s, f);
    }
}

/* Fetches blocks that a read waits for, unless that is done already. */
static void fetch_blocks(cached_source *s, iter_read *read, iter__cache *cache,
                         const iter__cache_key *key, uint64_t first, uint64_t missing) {
    read->reserved[MISSING] = missing;
    read->reserved[NEXT] = (uint64_t)(uintptr_t)s->waiting;
    s->waiting = read;
    for (uint32_t i = 0; i < BLOCKS_MAX && missing >> i; i++) {
        if ((missing >> i & 1) && !is_fetched(s, read->object, first + i))
            begin_fetch(s, read->object, first + i, cache, key);
    }
}

/* How many blocks must be fetched that are not. */
static uint32_t n_to_fetch(const cached_source *s, const iter_read *read, uint64_t first,
                           uint64_t missing) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < BLOCKS_MAX && missing >> i; i++)
        n += (missing >> i & 1) && !is_fetched(s, read->object, first + i);
    return n;
}

/* ---- Blocks on the disk ---------------------------------------------------------------------- */

/* In a thread of `cold`: leaves the bits of the blocks that are not right, or gone. */
static void serve_cold(void *user, iter_read *read) {
    const cached_source *s = user;
    iter__cache *cache;
    iter__cache_key key;
    uint64_t first;
    uint32_t n;
    if (blocks_of(s, read, &cache, &key, &first, &n))
        read->reserved[COLD] = copy_blocks(s, read, cache, &key, first, read->reserved[COLD], NULL);
}

static void wake_inner(void *user) {
    const cached_source *s = user;
    iter__source_remote.wake(s->inner);
}

/* A read comes back from the disk. Blocks that were not right there are fetched; without room for
 * that the read fails, and the loader reads its rows one by one. */
static void settle_cold(cached_source *s, iter_read *read) {
    iter__cache *cache;
    iter__cache_key key;
    uint64_t first;
    uint32_t n;
    const uint64_t missing = read->reserved[COLD];
    const bool waits = read->reserved[MISSING] != 0;
    read->reserved[AT_DISK] = 0;
    if (missing && !waits && blocks_of(s, read, &cache, &key, &first, &n) &&
        n_to_fetch(s, read, first, missing) <= s->n_free && !s->canceled) {
        read->path = ITER_PATH_REMOTE;
        fetch_blocks(s, read, cache, &key, first, missing);
        return;
    }
    if (missing) {
        read->status = ITER_EIO;
        read->os_error = EIO;
        read->done = 0;
    }
    if (!waits) push_done(s, read);
}

/* ---- The table ------------------------------------------------------------------------------- */

static void cached_close(void *state) {
    cached_source *s = state;
    iter__cold_reads_destroy(s->cold);
    if (s->inner) iter__source_remote.close(s->inner);
    for (uint32_t i = 0; i < s->n_fetches; i++) {
        if (s->fetches[i].state != FETCH_FREE)
            iter__cache_keep(s->fetches[i].cache, &s->fetches[i].key, 0, &s->fetches[i].claim, NULL,
                             0);
        iter__free(s->fetches[i].bytes);
    }
    iter__free(s->inner);
    iter__free(s->names);
    iter__free(s->done);
}

static iter_status cached_open(void *state, const iter_source_config *config, char *fallback,
                               size_t capacity, iter_error *err) {
    cached_source *s = state;
    s->files = config->files;
    s->done_capacity = iter__max_u32(config->depth, 1) + FETCHES_MAX;
    s->done = iter__alloc(s->done_capacity, sizeof(iter_read *));
    s->cold = iter__cold_reads_create(
        &(iter__cold_calls){.user = s, .serve = serve_cold, .wake = wake_inner}, LINK);
    s->names = iter__alloc((size_t)iter__max_u64(config->n_files, 1), sizeof(*s->names));
    void *inner = iter__alloc(1, iter__source_remote.base.state_size);
    if (!s->done || !s->cold || !s->names || !inner) {
        iter__free(inner);
        cached_close(s);
        return iter__fail(err, ITER_ENOMEM, "no memory for requests");
    }
    const iter_status status = iter__source_remote.open(inner, config, fallback, capacity, err);
    if (status < 0) {
        iter__free(inner);
        cached_close(s);
        return status;
    }
    s->inner = inner;
    const size_t room = config->buffer_bytes / ITER_CACHE_BLOCK;
    s->n_fetches = FETCHES_MAX;
    if (config->buffer_bytes && room < FETCHES_MAX)
        s->n_fetches = iter__max_u32((uint32_t)room, FETCHES_MIN);
    s->n_free = s->n_fetches;
    for (uint64_t i = 0; i < config->n_files; i++) {
        cached_file *name = &s->names[i];
        name->cache = iter__remote_cache(config->files[i].place, config->files[i].path, &name->key);
        if (name->cache) iter__cache_uses(name->cache, &name->key);
    }
    return ITER_OK;
}

/* Serves a read from blocks, which it may wait for or not. */
static bool read_blocks(const cached_source *s, iter_read *read, bool may_wait) {
    iter__cache *cache;
    iter__cache_key key;
    uint64_t first, cold = 0;
    uint32_t n;
    if (!blocks_of(s, read, &cache, &key, &first, &n)) return false;
    if (copy_blocks(s, read, cache, &key, first, all_of(n), may_wait ? NULL : &cold) || cold)
        return false;
    end_read(read, bytes_of(s, read), ITER_PATH_PREAD);
    return true;
}

static iter_status cached_try_read(void *state, iter_read *read) {
    return read_blocks(state, read, false) ? ITER_OK : ITER_AGAIN;
}

static iter_status cached_read(void *state, iter_read *read) {
    const cached_source *s = state;
    if (read->done == 0 && read_blocks(s, read, true)) return ITER_OK;
    return iter__source_remote.read(s->inner, read);
}

static iter_status pass_on(cached_source *s, iter_read *read) {
    const iter_status status = iter__source_remote.submit(s->inner, read);
    if (status != ITER_AGAIN) s->n_taken++;
    return status;
}

static iter_status cached_submit(void *state, iter_read *read) {
    cached_source *s = state;
    iter__cache *cache;
    iter__cache_key key;
    uint64_t first, cold;
    uint32_t n;
    if (s->n_taken + s->n_fetches >= s->done_capacity) return ITER_AGAIN;
    if (s->n_free == 0 && read == s->refused) return ITER_AGAIN;
    if (read->done > 0 || !blocks_of(s, read, &cache, &key, &first, &n)) return pass_on(s, read);
    const uint64_t missing = copy_blocks(s, read, cache, &key, first, all_of(n), &cold);
    if (missing && !iter__cache_has_room(cache)) return pass_on(s, read);
    const uint32_t n_new = n_to_fetch(s, read, first, missing);
    if (n_new > s->n_fetches) return pass_on(s, read);
    if (n_new > s->n_free) {
        s->refused = read;
        return ITER_AGAIN;
    }
    s->refused = NULL;
    s->n_taken++;
    end_read(read, bytes_of(s, read), missing ? ITER_PATH_REMOTE : ITER_PATH_PREAD);
    read->reserved[MISSING] = 0;
    read->reserved[COLD] = cold;
    read->reserved[AT_DISK] = cold != 0;
    if (cold) iter__cold_reads_put(s->cold, read);
    if (missing)
        fetch_blocks(s, read, cache, &key, first, missing);
    else if (!cold)
        push_done(s, read);
    return ITER_PENDING;
}

static iter_status cached_commit(void *state) {
    cached_source *s = state;
    const iter_status status = iter__source_remote.commit(s->inner);
    if (atomic_load(&s->n_done) > 0) iter__source_remote.wake(s->inner);
    return status;
}

static int32_t cached_reap(void *state, iter_read **out, int32_t max) {
    cached_source *s = state;
    int32_t n = 0, n_inner;
    look_again(s);
    do {
        iter_read *got[REAP], *read;
        while ((read = iter__cold_reads_take(s->cold)))
            settle_cold(s, read);
        while (n < max && (read = pop_done(s)))
            out[n++] = read;
        n_inner = iter__source_remote.reap(s->inner, got, max - n < REAP ? max - n : REAP);
        for (int32_t i = 0; i < n_inner; i++) {
            fetch *f = fetch_of(s, got[i]);
            if (f)
                finish(s, f);
            else
                out[n++] = got[i];
        }
    } while (n < max && (n_inner > 0 || atomic_load(&s->n_done) > 0));
    s->n_taken -= (uint32_t)n;
    return n;
}

static iter_status cached_wait(void *state, int64_t timeout_ns) {
    cached_source *s = state;
    if (atomic_load(&s->n_done) > 0 || iter__cold_reads_has(s->cold)) return ITER_OK;
    if (atomic_load(&s->n_parked) > 0 && (timeout_ns < 0 || timeout_ns > LOOK_NS))
        timeout_ns = LOOK_NS;
    return iter__source_remote.wait(s->inner, timeout_ns);
}

static void cached_wake(void *state) {
    cached_source *s = state;
    iter__source_remote.wake(s->inner);
}

static void cached_cancel(void *state) {
    cached_source *s = state;
    s->canceled = true;
    iter__source_remote.cancel(s->inner);
}

const iter_source_ops iter__source_cached = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "cached",
             .help = "requests to servers, whose answers are kept in a folder",
             .state_size = sizeof(cached_source)},
    .open = cached_open,
    .close = cached_close,
    .read = cached_read,
    .try_read = cached_try_read,
    .submit = cached_submit,
    .commit = cached_commit,
    .reap = cached_reap,
    .wait = cached_wait,
    .wake = cached_wake,
    .cancel = cached_cancel,
};

#endif
