/*
 * open_blocks.c - see open_blocks.h.
 *
 * The table has a few parts, each with its own lock, so that many readers seldom meet. A part's
 * blocks are found through buckets, and replaced by a clock hand: a block that was found since the
 * hand passed is spared once.
 */
#include "iter/remote/open_blocks.h"

#ifdef ITER_HAVE_REMOTE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/crc32c.h"

#define MAGIC   "iterblk1"
#define PIECE   ITER_BLOCK_PIECE
#define LOOK_MS 1000
#define USED_S  3600 /* a block's time of use is kept this exactly */
#define PARTS   4u
#define SLOTS   1024u /* of all parts */

/* ---- Files ----------------------------------------------------------------------------------- */

static uint32_t sum_of(const iter__block_head *h) {
    return iter__crc32c(&h->n_pieces, sizeof(*h) - offsetof(iter__block_head, n_pieces));
}

iter__block_head iter__block_head_of(const iter__cache_key *key, uint64_t block,
                                     const uint8_t *bytes, size_t n) {
    iter__block_head h = {
        .n_pieces = (uint32_t)((n + PIECE - 1) / PIECE), .block = block, .bytes = n};
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    memcpy(h.key, key->hash, sizeof(h.key));
    for (uint32_t i = 0; i < h.n_pieces; i++)
        h.sums[i] = iter__crc32c(bytes + i * PIECE, iter__min_size(PIECE, n - i * PIECE));
    h.sum = sum_of(&h);
    return h;
}

static bool read_all(int fd, void *out, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(fd, (uint8_t *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static bool head_is_right(const iter__block_head *h, const iter__cache_key *key, uint64_t block) {
    return memcmp(h->magic, MAGIC, 8) == 0 && h->sum == sum_of(h) &&
           memcmp(h->key, key->hash, sizeof(h->key)) == 0 && h->block == block && h->bytes > 0 &&
           h->bytes <= ITER_CACHE_BLOCK && h->n_pieces == (h->bytes + PIECE - 1) / PIECE;
}

static int64_t changed_ns(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int64_t coarse_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Says that the block is used, so that it is not the first to be dropped. */
static void touch(iter__open_block *b, int64_t modified_s) {
    struct stat st;
    if ((int64_t)time(NULL) <= modified_s + USED_S) return;
    if (futimens(b->fd, NULL) == 0 && fstat(b->fd, &st) == 0)
        atomic_store(&b->changed_ns, changed_ns(&st));
}

bool iter__block_open(int dir, const char *name, const iter__cache_key *key, uint64_t block,
                      iter__open_block *out, int64_t *out_bytes) {
    struct stat st = {0};
    *out = (iter__open_block){.fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    *out_bytes = -1;
    if (out->fd < 0) return false;
    if (fstat(out->fd, &st) < 0 || !read_all(out->fd, &out->head, sizeof(out->head), 0) ||
        !head_is_right(&out->head, key, block) ||
        (uint64_t)st.st_size != sizeof(out->head) + out->head.bytes) {
        *out_bytes = (int64_t)st.st_size;
        close(out->fd);
        return false;
    }
    atomic_store(&out->looked_ms, coarse_ms());
    atomic_store(&out->changed_ns, changed_ns(&st));
    touch(out, (int64_t)st.st_mtime);
    return true;
}

bool iter__block_read(iter__open_block *b, size_t at, uint8_t *out, size_t n) {
    const uint64_t checked = atomic_load_explicit(&b->checked, memory_order_relaxed);
    uint8_t piece[PIECE];
    while (n > 0) {
        const size_t i = at / PIECE, inside = at % PIECE;
        size_t some;
        if (checked >> i & 1) {
            size_t end = i + 1;
            while (end * PIECE < at + n && (checked >> end & 1))
                end++;
            some = iter__min_size(n, end * PIECE - at);
            if (!read_all(b->fd, out, some, sizeof(b->head) + at)) return false;
        } else {
            const size_t size = iter__min_size(PIECE, (size_t)b->head.bytes - i * PIECE);
            some = iter__min_size(n, size - inside);
            uint8_t *to = some == size ? out : piece;
            if (!read_all(b->fd, to, size, sizeof(b->head) + i * PIECE) ||
                iter__crc32c(to, size) != b->head.sums[i])
                return false;
            if (to == piece) memcpy(out, piece + inside, some);
            atomic_fetch_or_explicit(&b->checked, (uint64_t)1 << i, memory_order_relaxed);
        }
        out += some;
        at += some;
        n -= some;
    }
    return true;
}

/* Whether the block's file is still there; if it was written to, its sums are to be checked. */
static bool is_there(iter__open_block *b) {
    struct stat st;
    const int64_t now = coarse_ms();
    if (now < atomic_load_explicit(&b->looked_ms, memory_order_relaxed) + LOOK_MS) return true;
    atomic_store_explicit(&b->looked_ms, now, memory_order_relaxed);
    if (fstat(b->fd, &st) < 0 || st.st_nlink == 0 ||
        (uint64_t)st.st_size != sizeof(b->head) + b->head.bytes)
        return false;
    if (changed_ns(&st) != atomic_load(&b->changed_ns)) {
        atomic_store(&b->changed_ns, changed_ns(&st));
        atomic_store(&b->checked, 0);
    }
    touch(b, (int64_t)st.st_mtime);
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct part {
    pthread_mutex_t lock;
    iter__open_block *slots; /* [n]; fd -1 = free */
    bool *was_found;         /* [n], since the hand passed */
    int32_t *buckets;        /* [n]: the first block, or -1 */
    uint32_t n, hand;
} part;

struct iter__open_blocks {
    part parts[PARTS];
};

iter__open_blocks *iter__open_blocks_create(uint64_t most) {
    struct rlimit handles;
    iter__open_blocks *blocks = iter__alloc(1, sizeof(*blocks));
    if (!blocks) return NULL;
    most = iter__min_u64(most, SLOTS);
    if (getrlimit(RLIMIT_NOFILE, &handles) == 0)
        most = iter__min_u64(most, (uint64_t)handles.rlim_cur / 4);
    const uint32_t n = iter__max_u32((uint32_t)most / PARTS, 1);
    bool ok = true;
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &blocks->parts[i];
        pthread_mutex_init(&p->lock, NULL);
        p->slots = iter__alloc(n, sizeof(*p->slots));
        p->was_found = iter__alloc(n, sizeof(*p->was_found));
        p->buckets = iter__alloc(n, sizeof(*p->buckets));
        if (!p->slots || !p->was_found || !p->buckets) {
            ok = false;
            continue;
        }
        p->n = n;
        for (uint32_t k = 0; k < n; k++) {
            p->slots[k].fd = -1;
            p->buckets[k] = -1;
        }
    }
    if (ok) return blocks;
    iter__open_blocks_destroy(blocks);
    return NULL;
}

void iter__open_blocks_destroy(iter__open_blocks *blocks) {
    if (!blocks) return;
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &blocks->parts[i];
        for (uint32_t k = 0; k < p->n; k++)
            if (p->slots[k].fd >= 0) close(p->slots[k].fd);
        pthread_mutex_destroy(&p->lock);
        iter__free(p->slots);
        iter__free(p->was_found);
        iter__free(p->buckets);
    }
    iter__free(blocks);
}

static uint64_t hash_of(const uint8_t key[16], uint64_t block) {
    uint64_t hash;
    memcpy(&hash, key, sizeof(hash));
    return (hash + block) * 0x9e3779b97f4a7c15ull >> 32;
}

static part *part_of(iter__open_blocks *blocks, uint64_t hash) {
    return &blocks->parts[hash % PARTS];
}

static int32_t *bucket_of(part *p, uint64_t hash) {
    return &p->buckets[hash / PARTS % p->n];
}

static iter__open_block *look_up(part *p, uint64_t hash, const uint8_t key[16], uint64_t block) {
    for (int32_t i = *bucket_of(p, hash); i >= 0; i = p->slots[i].next) {
        iter__open_block *b = &p->slots[i];
        if (!b->is_gone && b->head.block == block && memcmp(b->head.key, key, 16) == 0) {
            p->was_found[i] = true;
            return b;
        }
    }
    return NULL;
}

/* Closes a block that has no user. With the part's lock held. */
static void take_out(part *p, iter__open_block *b) {
    int32_t *at = bucket_of(p, hash_of(b->head.key, b->head.block));
    while (&p->slots[*at] != b)
        at = &p->slots[*at].next;
    *at = b->next;
    close(b->fd);
    b->fd = -1;
}

iter__open_block *iter__open_blocks_find(iter__open_blocks *blocks, const iter__cache_key *key,
                                         uint64_t block) {
    const uint64_t hash = hash_of(key->hash, block);
    part *p = part_of(blocks, hash);
    pthread_mutex_lock(&p->lock);
    iter__open_block *b = look_up(p, hash, key->hash, block);
    if (b) b->n_users++;
    pthread_mutex_unlock(&p->lock);
    if (!b || is_there(b)) return b;
    iter__open_blocks_back(blocks, b, true);
    return NULL;
}

void iter__open_blocks_back(iter__open_blocks *blocks, iter__open_block *b, bool is_gone) {
    part *p = part_of(blocks, hash_of(b->head.key, b->head.block));
    pthread_mutex_lock(&p->lock);
    if (is_gone) b->is_gone = true;
    if (--b->n_users == 0 && b->is_gone) take_out(p, b);
    pthread_mutex_unlock(&p->lock);
}

/* A free place, or one whose block has no user and was not found of late. */
static iter__open_block *place_in(part *p) {
    for (uint32_t i = 0; i < 2 * p->n; i++) {
        const uint32_t k = p->hand;
        iter__open_block *b = &p->slots[k];
        p->hand = (p->hand + 1) % p->n;
        if (b->fd < 0) return b;
        if (b->n_users == 0 && !p->was_found[k]) {
            take_out(p, b);
            return b;
        }
        p->was_found[k] = false;
    }
    return NULL;
}

void iter__open_blocks_add(iter__open_blocks *blocks, const iter__open_block *b) {
    const uint64_t hash = hash_of(b->head.key, b->head.block);
    part *p = part_of(blocks, hash);
    pthread_mutex_lock(&p->lock);
    /* Another reader may have opened it meanwhile. */
    iter__open_block *place = look_up(p, hash, b->head.key, b->head.block) ? NULL : place_in(p);
    if (place) {
        *place = *b;
        const int32_t i = (int32_t)(place - p->slots);
        place->n_users = 0;
        place->is_gone = false;
        place->next = *bucket_of(p, hash);
        *bucket_of(p, hash) = i;
        p->was_found[i] = false;
    }
    pthread_mutex_unlock(&p->lock);
    if (!place) close(b->fd);
}

#endif
