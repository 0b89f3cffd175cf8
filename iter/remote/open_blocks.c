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
#include <sys/uio.h>
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

/* Fills the parts, which it changes. A file system that cannot tell what is in memory counts as
 * cold. */
static iter__cache_answer read_parts(int fd, struct iovec *parts, int n_parts, uint64_t at,
                                     bool may_wait) {
    while (n_parts > 0) {
        if (parts->iov_len == 0) {
            parts++;
            n_parts--;
            continue;
        }
        const ssize_t got = preadv2(fd, parts, n_parts, (off_t)at, may_wait ? 0 : RWF_NOWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && !may_wait && (errno == EAGAIN || errno == EOPNOTSUPP))
            return ITER_CACHE_COLD;
        if (got <= 0) return ITER_CACHE_NONE;
        at += (uint64_t)got;
        for (size_t left = (size_t)got; left > 0;) {
            const size_t some = iter__min_size(left, parts->iov_len);
            parts->iov_base = (uint8_t *)parts->iov_base + some;
            parts->iov_len -= some;
            left -= some;
            if (parts->iov_len == 0 && left > 0) {
                parts++;
                n_parts--;
            }
        }
    }
    return ITER_CACHE_READ;
}

static iter__cache_answer read_all(int fd, void *out, size_t n, uint64_t at, bool may_wait) {
    struct iovec part = {.iov_base = out, .iov_len = n};
    return read_parts(fd, &part, 1, at, may_wait);
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

iter__cache_answer iter__block_open(int dir, const char *name, const iter__cache_key *key,
                                    uint64_t block, bool may_wait, iter__open_block *out,
                                    int64_t *out_bytes) {
    struct stat st = {0};
    /* O_NONBLOCK: another program may have put a FIFO there. */
    *out =
        (iter__open_block){.fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    *out_bytes = -1;
    if (out->fd < 0) return ITER_CACHE_NONE;
    iter__cache_answer answer = ITER_CACHE_NONE;
    if (fstat(out->fd, &st) == 0)
        answer = read_all(out->fd, &out->head, sizeof(out->head), 0, may_wait);
    if (answer == ITER_CACHE_READ && (!head_is_right(&out->head, key, block) ||
                                      (uint64_t)st.st_size != sizeof(out->head) + out->head.bytes))
        answer = ITER_CACHE_NONE;
    if (answer != ITER_CACHE_READ) {
        *out_bytes = (int64_t)st.st_size;
        close(out->fd);
        return answer;
    }
    atomic_store(&out->looked_ms, coarse_ms());
    atomic_store(&out->changed_ns, changed_ns(&st));
    touch(out, (int64_t)st.st_mtime);
    return ITER_CACHE_READ;
}

/* Bits of pieces [first, end). */
static uint64_t bits_of(size_t first, size_t end) {
    return (end < 64 ? ((uint64_t)1 << end) - 1 : UINT64_MAX) & ~(((uint64_t)1 << first) - 1);
}

/* Reads and sums the whole pieces around the bytes. What is wanted of the first and the last one in
 * part is copied. */
static iter__cache_answer read_checked(iter__open_block *b, size_t at, uint8_t *out, size_t n,
                                       bool may_wait) {
    uint8_t ends[2][PIECE];
    const size_t first = at / PIECE, end = (at + n + PIECE - 1) / PIECE;
    const size_t stop = iter__min_size(end * PIECE, (size_t)b->head.bytes);
    const size_t before = at - first * PIECE, after = stop - (at + n);
    const bool one = end - first == 1 && before + after > 0;
    const size_t head = one ? stop - first * PIECE : before ? PIECE : 0;
    const size_t tail = one || !after ? 0 : stop - (end - 1) * PIECE;
    uint8_t *middle = out + (before ? PIECE - before : 0);
    const size_t n_middle = stop - first * PIECE - head - tail;
    struct iovec parts[] = {{ends[0], head}, {middle, n_middle}, {ends[1], tail}};
    const iter__cache_answer answer =
        read_parts(b->fd, parts, 3, sizeof(b->head) + first * PIECE, may_wait);
    if (answer != ITER_CACHE_READ) return answer;
    for (size_t i = first; i < end; i++) {
        const size_t size = iter__min_size(PIECE, (size_t)b->head.bytes - i * PIECE);
        const uint8_t *bytes = i == first && head     ? ends[0]
                               : i == end - 1 && tail ? ends[1]
                                                      : middle + ((i - first) * PIECE - head);
        if (iter__crc32c(bytes, size) != b->head.sums[i]) return ITER_CACHE_NONE;
    }
    if (head) memcpy(out, ends[0] + before, iter__min_size(n, head - before));
    if (tail) memcpy(out + (n - (tail - after)), ends[1], tail - after);
    atomic_fetch_or_explicit(&b->checked, bits_of(first, end), memory_order_relaxed);
    return ITER_CACHE_READ;
}

iter__cache_answer iter__block_read(iter__open_block *b, size_t at, uint8_t *out, size_t n,
                                    bool may_wait) {
    if (n == 0) return ITER_CACHE_READ;
    const uint64_t needed = bits_of(at / PIECE, (at + n + PIECE - 1) / PIECE);
    const uint64_t checked = atomic_load_explicit(&b->checked, memory_order_relaxed);
    if ((checked & needed) == needed)
        return read_all(b->fd, out, n, sizeof(b->head) + at, may_wait);
    return read_checked(b, at, out, n, may_wait);
}

void iter__block_read_ahead(iter__open_block *b) {
    if (!atomic_exchange_explicit(&b->is_ahead, true, memory_order_relaxed))
        (void)posix_fadvise(b->fd, 0, 0, POSIX_FADV_WILLNEED);
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

/* A part that was being changed at the fork is emptied; its handles stay open, unused. */
void iter__open_blocks_adopt(iter__open_blocks *blocks) {
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &blocks->parts[i];
        const bool is_whole = pthread_mutex_trylock(&p->lock) == 0;
        if (!is_whole) {
            pthread_mutex_init(&p->lock, NULL);
            pthread_mutex_lock(&p->lock);
        }
        for (uint32_t k = 0; k < p->n; k++) {
            iter__open_block *b = &p->slots[k];
            b->n_users = 0;
            if (!is_whole) b->fd = p->buckets[k] = -1;
            if (b->fd >= 0 && b->is_gone) take_out(p, b);
        }
        pthread_mutex_unlock(&p->lock);
    }
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
