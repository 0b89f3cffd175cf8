/*
 * ahead.c - see ahead.h.
 *
 * Threads, each with a request that blocks, instead of one thread that drives many: what runs ahead
 * is whatever a format does with a file, and it is written once, for files of this machine as well.
 * They live while a set is opened.
 */
#include "iter/remote/client_state.h"

#ifdef ITER_HAVE_REMOTE

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/thread.h"

#define LOOKS_MAX   ((uint64_t)1 << 16) /* answers that are kept */
#define THREADS_MAX 256u
#define LISTS_MAX   16u /* at a time: S3 grants fewer of them a second than reads */

/* ---- Many at a time -------------------------------------------------------------------------- */

typedef struct each {
    iter__remote *remote;
    uint64_t n;
    iter__remote_task *task;
    void *user;

    pthread_mutex_t lock; /* guards these */
    uint64_t next;
    uint64_t failed; /* the lowest that did; n = none */
    iter_error why;
} each;

static bool claim(each *e, uint64_t *out) {
    pthread_mutex_lock(&e->lock);
    const bool more = e->next < e->n && e->failed == e->n;
    if (more) *out = e->next++;
    pthread_mutex_unlock(&e->lock);
    return more;
}

/* All below the lowest that failed were claimed before it, so they run to their end. */
static void *each_main(void *user) {
    each *e = user;
    iter__remote *place = e->remote;
    iter__remote **before = iter__remote_enter(&place);
    for (uint64_t i; claim(e, &i);) {
        iter_error err = {.status = ITER_OK};
        const iter_status status = e->task(e->user, i, &err);
        if (status >= 0) continue;
        if (!err.message[0]) (void)iter__fail(&err, status, "%s", iter_status_text(status));
        err.status = status;
        pthread_mutex_lock(&e->lock);
        if (i < e->failed) {
            e->failed = i;
            e->why = err;
        }
        pthread_mutex_unlock(&e->lock);
    }
    (void)iter__remote_enter(before);
    return NULL;
}

iter_status iter__remote_each(iter__remote *remote, uint64_t n, uint32_t most,
                              iter__remote_task *task, void *user, iter_error *err) {
    each e = {.remote = remote, .n = n, .task = task, .user = user, .failed = n};
    pthread_t threads[THREADS_MAX];
    uint32_t n_threads = 0;
    pthread_mutex_init(&e.lock, NULL);
    most = iter__min_u32(most, iter__min_u32(remote->connections, THREADS_MAX));
    while (n_threads + 1 < most && n_threads + 1 < n &&
           iter__thread_start(&threads[n_threads], "iter-open", each_main, &e) == 0)
        n_threads++;
    each_main(&e);
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&e.lock);
    return e.failed == n ? ITER_OK : iter__fail(err, e.why.status, "%s", e.why.message);
}

/* ---- Answers to looks ------------------------------------------------------------------------ */

static uint64_t name_of(const char *url) {
    const uint64_t hash = iter__fnv1a_text(ITER_FNV_START, url);
    return hash ? hash : 1;
}

static iter__look *slot_of(iter__look *looks, uint64_t capacity, uint64_t name) {
    uint64_t at = name & (capacity - 1);
    while (looks[at].name && looks[at].name != name)
        at = (at + 1) & (capacity - 1);
    return &looks[at];
}

static bool make_room(iter__ahead *a) {
    if (a->n_looks < a->looks_capacity / 4 * 3) return true;
    if (a->n_looks >= LOOKS_MAX) return false;
    const uint64_t capacity = a->looks_capacity ? 2 * a->looks_capacity : 16;
    iter__look *looks = iter__alloc((size_t)capacity, sizeof(*looks));
    if (!looks) return false;
    for (uint64_t i = 0; i < a->looks_capacity; i++)
        if (a->looks[i].name) *slot_of(looks, capacity, a->looks[i].name) = a->looks[i];
    iter__free(a->looks);
    a->looks = looks;
    a->looks_capacity = capacity;
    return true;
}

bool iter__ahead_look(iter__ahead *a, const char *url, iter__remote_info *out,
                      iter_status *out_status, iter_error *err) {
    pthread_mutex_lock(&a->lock);
    const iter__look *look =
        a->looks_capacity ? slot_of(a->looks, a->looks_capacity, name_of(url)) : NULL;
    const bool found = look && look->name;
    if (found) {
        *out = look->info;
        *out_status = look->status < 0 ? iter__fail(err, look->status, "%s", look->why) : ITER_OK;
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

void iter__ahead_keep_look(iter__ahead *a, const char *url, const iter__remote_info *info,
                           iter_status status, const iter_error *err) {
    char *why = status < 0 ? iter__strdup(err->message) : NULL;
    if (status < 0 && !why) return;
    pthread_mutex_lock(&a->lock);
    iter__look *look =
        !a->ended && make_room(a) ? slot_of(a->looks, a->looks_capacity, name_of(url)) : NULL;
    if (look) {
        a->n_looks += !look->name;
        iter__free(look->why);
        *look = (iter__look){name_of(url), *info, status, why};
        why = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    iter__free(why);
}

typedef struct looks {
    iter__remote *remote;
    const char *const *urls;
} looks;

static iter_status look_at(void *user, uint64_t i, iter_error *err) {
    const looks *l = user;
    iter__remote_info info;
    (void)iter__remote_look(l->remote, l->urls[i], &info, err);
    return ITER_OK; /* an error waits for the question */
}

void iter__remote_look_ahead(iter__remote *remote, const char *const *urls, uint64_t n) {
    looks l = {remote, urls};
    if (remote && n > 1 && n <= LOOKS_MAX)
        (void)iter__remote_each(remote, n, remote->connections, look_at, &l, NULL);
}

void iter__remote_saw(iter__remote *remote, const char *url, uint64_t bytes) {
    char etag[ITER_ETAG_BYTES];
    if (!remote) return;
    iter__remote_version_get(remote, url, etag);
    if (!etag[0]) return; /* a look may tell its time */
    const iter__remote_info info = {.bytes = bytes,
                                    .version = iter__fnv1a_text(ITER_FNV_START, etag)};
    iter__ahead_keep_look(&remote->ahead, url, &info, ITER_OK, NULL);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

void iter__listing_free(iter__listing *l) {
    iter__free(l->url);
    iter__free(l->names);
    iter__free(l->why);
    *l = (iter__listing){.url = NULL};
}

static iter_status add_name(void *user, const char *name, bool is_folder, uint64_t bytes,
                            iter_error *err) {
    iter__listing *l = user;
    const size_t n_name = strlen(name) + 1, n = sizeof(bytes) + 1 + n_name;
    if (l->capacity - l->n < n) {
        const size_t capacity = iter__max_size(l->capacity + l->capacity / 2, l->n + n + 4096);
        char *names = iter__realloc(l->names, capacity);
        if (!names) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", l->url);
        l->names = names;
        l->capacity = capacity;
    }
    memcpy(l->names + l->n, &bytes, sizeof(bytes));
    l->names[l->n + sizeof(bytes)] = (char)is_folder;
    memcpy(l->names + l->n + sizeof(bytes) + 1, name, n_name);
    l->n += n;
    return ITER_OK;
}

iter_status iter__listing_visit(const iter__listing *l, iter__remote_visit *visit, void *user,
                                iter_error *err) {
    if (l->status < 0) return iter__fail(err, l->status, "%s", l->why ? l->why : "no memory");
    for (const char *p = l->names, *end = p + l->n; p < end; p += strlen(p) + 1) {
        uint64_t bytes;
        memcpy(&bytes, p, sizeof(bytes));
        const bool is_folder = p[sizeof(bytes)];
        p += sizeof(bytes) + 1;
        ITER_TRY(visit(user, p, is_folder, bytes, err));
    }
    return ITER_OK;
}

typedef struct lists {
    iter__remote *remote;
    iter__listing *listings;
} lists;

static iter_status list_one(void *user, uint64_t i, iter_error *err) {
    const lists *l = user;
    iter__listing *listing = &l->listings[i];
    listing->status = iter__remote_list(l->remote, listing->url, add_name, listing, err);
    if (listing->status < 0) listing->why = iter__strdup(err->message);
    return ITER_OK;
}

void iter__remote_list_ahead(iter__remote *remote, const char *const *urls, uint64_t n) {
    lists l = {.remote = remote};
    if (!remote || n < 2) return;
    l.listings = iter__alloc((size_t)n, sizeof(*l.listings));
    if (!l.listings) return; /* then each is listed when it is asked for */
    bool named = true;
    for (uint64_t i = 0; i < n && named; i++)
        named = (l.listings[i].url = iter__strdup(urls[i])) != NULL;
    if (named) (void)iter__remote_each(remote, n, LISTS_MAX, list_one, &l, NULL);
    iter__ahead *a = &remote->ahead;
    pthread_mutex_lock(&a->lock);
    iter__listing *old = a->listings;
    const uint64_t n_old = a->n_listings;
    a->listings = named && !a->ended ? l.listings : NULL;
    a->n_listings = a->listings ? n : 0;
    if (a->listings) l.listings = NULL;
    pthread_mutex_unlock(&a->lock);
    for (uint64_t i = 0; i < n_old; i++)
        iter__listing_free(&old[i]);
    for (uint64_t i = 0; l.listings && i < n; i++)
        iter__listing_free(&l.listings[i]);
    iter__free(old);
    iter__free(l.listings);
}

bool iter__ahead_take(iter__ahead *a, const char *url, iter__listing *out) {
    bool found = false;
    pthread_mutex_lock(&a->lock);
    for (uint64_t i = 0; i < a->n_listings && !found; i++) {
        found = a->listings[i].url && strcmp(a->listings[i].url, url) == 0;
        if (!found) continue;
        *out = a->listings[i];
        a->listings[i] = (iter__listing){.url = NULL};
    }
    pthread_mutex_unlock(&a->lock);
    return found;
}

/* ---- The whole ------------------------------------------------------------------------------- */

void iter__ahead_init(iter__ahead *a) {
    *a = (iter__ahead){.ended = false};
    pthread_mutex_init(&a->lock, NULL);
}

void iter__ahead_end(iter__ahead *a) {
    pthread_mutex_lock(&a->lock);
    a->ended = true;
    for (uint64_t i = 0; i < a->looks_capacity; i++)
        iter__free(a->looks[i].why);
    for (uint64_t i = 0; i < a->n_listings; i++)
        iter__listing_free(&a->listings[i]);
    iter__free(a->looks);
    iter__free(a->listings);
    a->looks = NULL;
    a->listings = NULL;
    a->n_looks = a->looks_capacity = a->n_listings = 0;
    pthread_mutex_unlock(&a->lock);
}

void iter__ahead_free(iter__ahead *a) {
    iter__ahead_end(a);
    pthread_mutex_destroy(&a->lock);
}

#endif
