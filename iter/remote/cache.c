/*
 * cache.c - see cache.h.
 *
 * In the folder:
 *   ab/abcdef...-12       a block: a head, a checksum of each piece, the bytes
 *   ab/abcdef...-12.part  one that is being written, locked by flock() by the process that does it
 *   ab/abcdef...-8000...   what else is kept of an object: 2^63 and more is no block's number
 *   users                 locked shared by each process that uses the folder, and by the first
 *                         alone while it counts
 *   drop                  locked by the process that drops blocks
 *   bytes                 how many bytes the blocks have, mapped by all
 *
 * A .part whose lock is held for CLAIM_S is unlinked by a process that wants the block: its
 * owner may be stopped, or dead while a child that it forked has the handle still, or a loader
 * without workers whose next() is not called until the other process goes on. If the owner goes
 * on after all, it sees that the name is another's, and keeps nothing.
 *
 * If all blocks fit half of the free memory, one that must be read from the disk is read whole: the
 * rest of it is wanted soon, and the page cache keeps it until then.
 *
 * A block's bytes are counted before it is written. A process that dies meanwhile leaves too many
 * counted, until the next first process counts anew.
 */
#include "iter/remote/cache.h"

#ifdef ITER_HAVE_REMOTE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/machine.h"
#include "iter/core/time.h"
#include "iter/remote/digest.h"
#include "iter/remote/open_blocks.h"

#define SHARDS    256
#define REST_NS   ((int64_t)30 * 1000000000) /* after a drop or a write that did not help */
#define CLAIM_S   5                          /* that another process waits for a block */
#define NAME_HASH 32                         /* digits of a block's name before the '-' */

struct iter__cache {
    int dir, users;
    uint64_t limit, memory;  /* memory: free when it was opened */
    _Atomic uint64_t *bytes; /* mapped: in the folder, of all processes */
    _Atomic int64_t rest_until_ns;
    iter__open_blocks *open;

    pthread_mutex_t lock; /* guards these */
    uint64_t *used;       /* [capacity], a power of 2: the names' first halves; 0 = free */
    uint64_t n_used, capacity;
};

/* ---- Names ----------------------------------------------------------------------------------- */

iter__cache_key iter__cache_key_of(const char *url, const char *etag) {
    uint8_t sum[ITER_SHA256_BYTES];
    iter__cache_key key;
    char text[2048];
    const int n = snprintf(text, sizeof(text), "%s\n%s", url, etag);
    if (n >= 0 && (size_t)n < sizeof(text)) {
        iter__sha256(text, (size_t)n, sum);
    } else { /* a hash of hashes */
        uint8_t both[2 * ITER_SHA256_BYTES];
        iter__sha256(url, strlen(url), both);
        iter__sha256(etag, strlen(etag), both + ITER_SHA256_BYTES);
        iter__sha256(both, sizeof(both), sum);
    }
    memcpy(key.hash, sum, sizeof(key.hash));
    return key;
}

static void name_of(const iter__cache_key *key, uint64_t block, char out[64]) {
    static const char digits[] = "0123456789abcdef";
    char hash[NAME_HASH + 1] = "";
    for (int i = 0; i < NAME_HASH / 2; i++) {
        hash[2 * i] = digits[key->hash[i] >> 4];
        hash[2 * i + 1] = digits[key->hash[i] & 15];
    }
    (void)snprintf(out, 64, "%.2s/%s-%llx", hash, hash, (unsigned long long)block);
}

/* What `used` has of an object. */
static uint64_t id_of(const iter__cache_key *key) {
    uint64_t id;
    memcpy(&id, key->hash, sizeof(id));
    return id ? id : 1;
}

/* The same from a name; 0 = it is no block's. */
static uint64_t id_of_name(const char *name) {
    iter__cache_key key;
    for (int i = 0; i < NAME_HASH; i++) {
        const char c = name[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return 0;
        key.hash[i / 2] = (uint8_t)(i % 2 ? key.hash[i / 2] | digit : digit << 4);
    }
    return name[NAME_HASH] == '-' ? id_of(&key) : 0;
}

/* ---- Objects in use -------------------------------------------------------------------------- */

static uint64_t *slot_of(uint64_t *used, uint64_t capacity, uint64_t id) {
    uint64_t at = id & (capacity - 1);
    while (used[at] && used[at] != id)
        at = (at + 1) & (capacity - 1);
    return &used[at];
}

/* Without memory the object's blocks are dropped like any other's. */
void iter__cache_uses(iter__cache *cache, const iter__cache_key *key) {
    const uint64_t id = id_of(key);
    pthread_mutex_lock(&cache->lock);
    if (cache->n_used >= cache->capacity / 4 * 3) {
        const uint64_t capacity = cache->capacity ? 2 * cache->capacity : 64;
        uint64_t *more = iter__alloc((size_t)capacity, sizeof(*more));
        for (uint64_t i = 0; more && i < cache->capacity; i++)
            if (cache->used[i]) *slot_of(more, capacity, cache->used[i]) = cache->used[i];
        if (more) {
            iter__free(cache->used);
            cache->used = more;
            cache->capacity = capacity;
        }
    }
    if (cache->n_used + 1 < cache->capacity) {
        uint64_t *slot = slot_of(cache->used, cache->capacity, id);
        cache->n_used += *slot == 0;
        *slot = id;
    }
    pthread_mutex_unlock(&cache->lock);
}

static bool is_used(iter__cache *cache, uint64_t id) {
    pthread_mutex_lock(&cache->lock);
    const bool found = cache->capacity && *slot_of(cache->used, cache->capacity, id) == id;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* ---- Walking through the folder -------------------------------------------------------------- */

typedef struct entry {
    int64_t used_s;
    uint64_t id, bytes;
    char name[64]; /* "ab/..." */
} entry;

typedef void visit_entry(void *user, const entry *e, bool is_part);

static void walk(const iter__cache *cache, visit_entry *visit, void *user) {
    for (int i = 0; i < SHARDS; i++) {
        char folder[3];
        (void)snprintf(folder, sizeof(folder), "%02x", (unsigned)i);
        const int fd = openat(cache->dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        if (!dir) {
            if (fd >= 0) close(fd);
            continue;
        }
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this thread's alone */
        for (const struct dirent *d; (d = readdir(dir));) {
            struct stat st;
            const size_t n = strlen(d->d_name);
            entry e = {.id = n < 60 && n > NAME_HASH ? id_of_name(d->d_name) : 0};
            if (!e.id || fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
            e.used_s = (int64_t)st.st_mtime;
            e.bytes = (uint64_t)st.st_size;
            (void)snprintf(e.name, sizeof(e.name), "%s/%.59s", folder, d->d_name);
            visit(user, &e, n > 5 && strcmp(d->d_name + n - 5, ".part") == 0);
        }
        closedir(dir);
    }
}

typedef struct count {
    iter__cache *cache;
    uint64_t bytes;
} count;

static void count_entry(void *user, const entry *e, bool is_part) {
    count *c = user;
    if (is_part)
        (void)unlinkat(c->cache->dir, e->name, 0);
    else
        c->bytes += e->bytes;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_file(const iter__cache *cache, const char *name) {
    return openat(cache->dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

/* Counts if no other process uses the folder, and says that this one does. */
static bool join_users(iter__cache *cache) {
    cache->users = open_file(cache, "users");
    const int fd = open_file(cache, "bytes");
    bool ok = cache->users >= 0 && fd >= 0 && ftruncate(fd, sizeof(uint64_t)) == 0;
    if (ok) {
        void *mapped = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ok = mapped != MAP_FAILED;
        cache->bytes = ok ? mapped : NULL;
    }
    if (fd >= 0) close(fd);
    if (ok && flock(cache->users, LOCK_EX | LOCK_NB) == 0) {
        count c = {.cache = cache};
        walk(cache, count_entry, &c);
        atomic_store(cache->bytes, c.bytes);
    }
    return ok && flock(cache->users, LOCK_SH) == 0;
}

static uint64_t free_bytes(const iter__cache *cache) {
    struct statvfs fs;
    if (fstatvfs(cache->dir, &fs) < 0) return 0;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

iter_status iter__cache_open(const char *folder, uint64_t limit, iter__cache **out,
                             iter_error *err) {
    char why[128];
    const uint64_t least = ITER_CACHE_BLOCK + sizeof(iter__block_head);
    *out = NULL;
    if (limit > 0 && limit < least)
        return iter__fail(err, ITER_EINVAL,
                          "cache-size: %llu bytes hold no block, which takes %llu",
                          (unsigned long long)limit, (unsigned long long)least);
    iter__cache *cache = iter__alloc(1, sizeof(*cache));
    if (!cache) return iter__fail(err, ITER_ENOMEM, "cache: no memory");
    pthread_mutex_init(&cache->lock, NULL);
    cache->users = -1;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
        cache->dir = -1;
    } else {
        cache->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (cache->dir < 0 || !join_users(cache)) {
        iter__os_error(errno, why, sizeof(why));
        iter__cache_close(cache);
        return iter__fail(err, ITER_EIO, "cache: %s: %s", folder, why);
    }
    cache->memory = iter__memory_free("/proc", "/sys/fs/cgroup");
    cache->limit = limit ? limit : atomic_load(cache->bytes) + free_bytes(cache) / 10 * 9;
    /* Blocks that others dropped stay on the disk while they are open here: a quarter at most. */
    cache->open = iter__open_blocks_create(cache->limit / least / 4);
    if (!cache->open) {
        iter__cache_close(cache);
        return iter__fail(err, ITER_ENOMEM, "cache: no memory");
    }
    *out = cache;
    return ITER_OK;
}

void iter__cache_close(iter__cache *cache) {
    if (!cache) return;
    iter__open_blocks_destroy(cache->open);
    if (cache->bytes) munmap((void *)cache->bytes, sizeof(uint64_t));
    if (cache->users >= 0) close(cache->users);
    if (cache->dir >= 0) close(cache->dir);
    pthread_mutex_destroy(&cache->lock);
    iter__free(cache->used);
    iter__free(cache);
}

/* What a thread of the parent may have left half changed is forgotten, and leaks. */
void iter__cache_adopt(iter__cache *cache) {
    if (!cache) return;
    if (pthread_mutex_trylock(&cache->lock) == 0) {
        pthread_mutex_unlock(&cache->lock);
    } else {
        pthread_mutex_init(&cache->lock, NULL);
        cache->used = NULL;
        cache->n_used = cache->capacity = 0;
    }
    iter__open_blocks_adopt(cache->open);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void drop(iter__cache *cache, const char *name, uint64_t bytes) {
    if (unlinkat(cache->dir, name, 0) == 0) atomic_fetch_sub(cache->bytes, bytes);
}

bool iter__cache_has(iter__cache *cache, const iter__cache_key *key, uint64_t block) {
    char name[64];
    name_of(key, block, name);
    return faccessat(cache->dir, name, R_OK, 0) == 0;
}

iter__cache_answer iter__cache_read(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                                    size_t at, void *out, size_t n, bool may_wait) {
    char name[64];
    iter__open_block fresh, *kept = iter__open_blocks_find(cache->open, key, block);
    int64_t bytes;
    if (!kept) {
        name_of(key, block, name);
        const iter__cache_answer opened =
            iter__block_open(cache->dir, name, key, block, may_wait, &fresh, &bytes);
        if (opened == ITER_CACHE_NONE && bytes >= 0) drop(cache, name, (uint64_t)bytes);
        if (opened != ITER_CACHE_READ) return opened;
    }
    iter__open_block *b = kept ? kept : &fresh;
    if (may_wait && atomic_load(cache->bytes) < cache->memory / 2) iter__block_read_ahead(b);
    const bool has = at + n <= b->head.bytes;
    const iter__cache_answer answer =
        has ? iter__block_read(b, at, out, n, may_wait) : ITER_CACHE_NONE;
    const bool wrong = has && answer == ITER_CACHE_NONE;
    if (wrong) {
        name_of(key, block, name);
        drop(cache, name, sizeof(b->head) + b->head.bytes);
    }
    if (kept)
        iter__open_blocks_back(cache->open, kept, wrong);
    else if (wrong)
        close(fresh.fd);
    else
        iter__open_blocks_add(cache->open, &fresh);
    return answer;
}

/* ---- Making room ----------------------------------------------------------------------------- */

typedef struct candidates {
    iter__cache *cache;
    entry *entries;
    size_t n, capacity;
} candidates;

static void add_candidate(void *user, const entry *e, bool is_part) {
    candidates *c = user;
    if (is_part || is_used(c->cache, e->id)) return;
    if (c->n == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 256;
        entry *more = iter__realloc(c->entries, capacity * sizeof(*more));
        if (!more) return;
        c->entries = more;
        c->capacity = capacity;
    }
    c->entries[c->n++] = *e;
}

static int by_use(const void *a, const void *b) {
    const int64_t x = ((const entry *)a)->used_s, y = ((const entry *)b)->used_s;
    return x < y ? -1 : x > y;
}

/* Drops blocks of other objects until a sixteenth of the limit is free. */
static void drop_others(iter__cache *cache) {
    const int fd = open_file(cache, "drop");
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        candidates c = {.cache = cache};
        walk(cache, add_candidate, &c);
        if (c.n) qsort(c.entries, c.n, sizeof(*c.entries), by_use);
        const uint64_t least = ITER_CACHE_BLOCK + sizeof(iter__block_head);
        const uint64_t wanted = cache->limit - iter__max_u64(cache->limit / 16, least);
        for (size_t i = 0; i < c.n && atomic_load(cache->bytes) > wanted; i++)
            drop(cache, c.entries[i].name, c.entries[i].bytes);
        iter__free(c.entries);
    }
    if (fd >= 0) close(fd);
}

static bool fits(const iter__cache *cache, uint64_t n) {
    const uint64_t bytes = atomic_load(cache->bytes);
    return bytes <= cache->limit && cache->limit - bytes >= n;
}

static bool make_room(iter__cache *cache, uint64_t n) {
    if (iter__now_ns() < atomic_load(&cache->rest_until_ns)) return false;
    if (fits(cache, n)) return true;
    drop_others(cache);
    if (fits(cache, n)) return true;
    atomic_store(&cache->rest_until_ns, iter__now_ns() + REST_NS);
    return false;
}

bool iter__cache_has_room(iter__cache *cache) {
    return make_room(cache, ITER_CACHE_BLOCK + sizeof(iter__block_head));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void part_of(const char *name, char out[72]) {
    (void)snprintf(out, 72, "%s.part", name);
}

static int open_part(const iter__cache *cache, const char *part) {
    char folder[3];
    int fd = open_file(cache, part);
    if (fd < 0 && errno == ENOENT) {
        (void)snprintf(folder, sizeof(folder), "%.2s", part);
        (void)mkdirat(cache->dir, folder, 0700);
        fd = open_file(cache, part);
    }
    return fd;
}

/* Whether the open file still has this name. */
static bool has_name(const iter__cache *cache, int fd, const char *part, struct stat *out) {
    struct stat there;
    return fstat(fd, out) == 0 && fstatat(cache->dir, part, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           out->st_ino == there.st_ino && out->st_dev == there.st_dev;
}

bool iter__cache_claim_block(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                             iter__cache_claim *out) {
    char part[72];
    out->fd = -1;
    name_of(key, block, out->name);
    part_of(out->name, part);
    for (int i = 0; i < 3; i++) {
        struct stat st;
        const int fd = open_part(cache, part);
        if (fd < 0) return true;
        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        const bool busy = !locked && errno == EWOULDBLOCK;
        /* Its last holder may have renamed the file meanwhile. */
        const bool named = has_name(cache, fd, part, &st);
        if (locked && named) {
            (void)futimens(fd, NULL); /* the claim begins */
            out->fd = fd;
            return true;
        }
        close(fd);
        if (!locked && !busy) return true;
        if (!busy || !named) continue;
        if (llabs((long long)time(NULL) - (long long)st.st_mtime) <= CLAIM_S) return false;
        (void)unlinkat(cache->dir, part, 0);
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t n, uint64_t at) {
    for (size_t done = 0; done < n;) {
        const ssize_t put = pwrite(fd, (const uint8_t *)bytes + done, n - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

/* False if another process took the claim while it was written. */
static bool write_block(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                        const iter__cache_claim *claim, const uint8_t *bytes, size_t n) {
    char part[72];
    struct stat st;
    const iter__block_head h = iter__block_head_of(key, block, bytes, n);
    part_of(claim->name, part);
    return ftruncate(claim->fd, 0) == 0 && write_all(claim->fd, &h, sizeof(h), 0) &&
           write_all(claim->fd, bytes, n, sizeof(h)) && has_name(cache, claim->fd, part, &st) &&
           renameat(cache->dir, part, cache->dir, claim->name) == 0;
}

void iter__cache_keep(iter__cache *cache, const iter__cache_key *key, uint64_t block,
                      iter__cache_claim *claim, const void *bytes, size_t n) {
    if (claim->fd < 0) return;
    const uint64_t size = sizeof(iter__block_head) + n;
    char part[72];
    struct stat st;
    bool kept = false;
    part_of(claim->name, part);
    if (bytes && n > 0 && n <= ITER_CACHE_BLOCK && make_room(cache, size) &&
        !iter__cache_has(cache, key, block)) {
        if (atomic_fetch_add(cache->bytes, size) + size <= cache->limit) {
            kept = write_block(cache, key, block, claim, bytes, n);
            if (!kept && has_name(cache, claim->fd, part, &st))
                atomic_store(&cache->rest_until_ns, iter__now_ns() + REST_NS);
        }
        if (!kept) atomic_fetch_sub(cache->bytes, size);
    }
    if (!kept && has_name(cache, claim->fd, part, &st)) (void)unlinkat(cache->dir, part, 0);
    close(claim->fd); /* and so the lock ends */
    claim->fd = -1;
}

/* ---- Files of other kinds -------------------------------------------------------------------- */

#define OTHER ((uint64_t)1 << 63)

int iter__cache_other_open(iter__cache *cache, const iter__cache_key *key, uint64_t what,
                           uint64_t *out_bytes) {
    char name[64];
    struct stat st;
    *out_bytes = 0;
    name_of(key, what | OTHER, name);
    const int fd = openat(cache->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -1;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -1;
    }
    (void)futimens(fd, NULL);
    *out_bytes = (uint64_t)st.st_size;
    return fd;
}

bool iter__cache_other_begin(iter__cache *cache, const iter__cache_key *key, uint64_t what,
                             uint64_t bytes, iter__cache_claim *out) {
    out->fd = -1;
    if (!make_room(cache, bytes) || !iter__cache_claim_block(cache, key, what | OTHER, out) ||
        out->fd < 0)
        return false;
    if (ftruncate(out->fd, 0) == 0) return true;
    iter__cache_other_end(cache, out, false);
    return false;
}

void iter__cache_other_end(iter__cache *cache, iter__cache_claim *claim, bool is_complete) {
    char part[72];
    struct stat made, old;
    part_of(claim->name, part);
    const bool had = fstatat(cache->dir, claim->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_complete && fstat(claim->fd, &made) == 0 &&
        renameat(cache->dir, part, cache->dir, claim->name) == 0) {
        atomic_fetch_add(cache->bytes, (uint64_t)made.st_size);
        if (had) atomic_fetch_sub(cache->bytes, (uint64_t)old.st_size);
    } else {
        (void)unlinkat(cache->dir, part, 0);
    }
    close(claim->fd); /* and so the lock ends */
    claim->fd = -1;
}

#endif
