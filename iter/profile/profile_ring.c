/*
 * profile_ring.c - one thread's events: its ring, its sums, its open scopes.
 *
 * A thread gets a ring at its first event of a session and gives it back when it ends. Another
 * thread may take the ring over when its events are in the file. profiler.h has the contract
 * between writer and reader.
 *
 * The histogram is that of HdrHistogram (G. Tene): linear within an octave.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/profile/profiler.h"

#define RINGS_ENOUGH 64  /* from then on, rings of ended threads are reused at once */
#define SMALL_EVENTS 256 /* in the ring of a thread that writes little */

#define RELAXED memory_order_relaxed

typedef struct open_scope {
    uint32_t name, session; /* session 0: it began while the profiler was off */
    int64_t start_ns;
} open_scope;

typedef struct thread_state thread_state;

struct thread_state {
    atomic_uint inside; /* 1: it may touch its session's memory */
    uint32_t session;   /* number of the session that `ring` belongs to */
    uint32_t refused;   /* number of a session that had no memory for it */
    iter__profile_ring *ring;
    uint32_t depth; /* of open scopes; those beyond ITER_PROFILE_DEPTH are only counted */
    open_scope open[ITER_PROFILE_DEPTH];
    char name[ITER_PROFILE_TRACK];
    bool small, calls_back;
    /* Guarded by the lock: */
    bool listed;
    thread_state *next;
};

static _Thread_local thread_state self;

/* Every thread that has not ended and has had a ring. Guarded by the lock. */
static thread_state *threads;
static pthread_key_t end_key; /* its destructor runs when a thread ends */
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static bool has_end_key;

/* ---- Threads --------------------------------------------------------------------------------- */

static void thread_ends(void *arg) {
    thread_state *t = arg;
    iter__profile_session *session = iter__profile_lock();
    thread_state **link = &threads;
    while (*link && *link != t)
        link = &(*link)->next;
    if (*link) *link = t->next;
    t->listed = false;
    if (session && session->number == t->session) t->ring->ended = true;
    t->session = 0;
    iter__profile_unlock();
}

static void make_end_key(void) {
    has_end_key = pthread_key_create(&end_key, thread_ends) == 0;
}

static void name_track(const thread_state *t, iter__profile_ring *ring) {
    char name[ITER_PROFILE_TRACK] = "main";
    if (t->name[0]) {
        memcpy(name, t->name, sizeof(name));
    } else if (iter__thread_id() != (int)getpid()) {
        char own[32] = "";
        pthread_getname_np(pthread_self(), own, sizeof(own));
        snprintf(name, sizeof(name), "%s %d", own, iter__thread_id());
    }
    iter__profile_clean(name, ring->name, sizeof(ring->name));
}

/* ---- Rings ----------------------------------------------------------------------------------- */

static size_t words_bytes(uint64_t n_events) {
    return n_events * ITER_PROFILE_WORDS * sizeof(atomic_ullong);
}

static void ring_free(iter__profile_ring *ring) {
    if (!ring) return;
    for (uint32_t i = 0; i < ITER_PROFILE_NAMES; i++)
        iter__free(atomic_load_explicit(&ring->cells[i], RELAXED));
    iter__unmap(ring->words, words_bytes(ring->n_events));
    iter__free(ring);
}

static iter__profile_ring *ring_new(iter__profile_session *session, uint64_t n_events) {
    iter__profile_ring *ring = iter__alloc(1, sizeof(*ring));
    if (!ring) return NULL;
    ring->n_events = n_events;
    ring->words = iter__map(words_bytes(n_events)); /* uses pages as it fills */
    if (!ring->words) {
        ring_free(ring);
        return NULL;
    }
    ring->next = session->rings;
    session->rings = ring;
    session->n_rings++;
    return ring;
}

static uint64_t lost_of(const iter__profile_ring *ring) {
    const uint64_t head = atomic_load_explicit(&ring->head, RELAXED), held = ring->n_events - 1;
    const uint64_t from = head > held ? head - held : 0;
    return from > ring->first ? from - ring->first : 0;
}

/* Finds a ring of an ended thread whose events are in the file. If there is no file and there are
 * many rings, also takes one whose events are then lost. */
static iter__profile_ring *ring_again(iter__profile_session *session, uint64_t n_events) {
    const bool many = session->n_rings >= RINGS_ENOUGH;
    if (many && session->file) {
        const iter_status status = iter__profile_flush(session, NULL);
        (void)status; /* the next iter_profile_dump() reports it */
    }
    iter__profile_ring *found = NULL;
    for (iter__profile_ring *ring = session->rings; ring; ring = ring->next) {
        const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        const bool spent = session->file ? ring->written == head : many;
        if (!ring->ended || !spent || ring->n_events != n_events) continue;
        if (!found || ring->track < found->track) found = ring;
    }
    if (!found) return NULL;
    const uint64_t head = atomic_load_explicit(&found->head, memory_order_acquire);
    if (!session->file) session->overwritten += head - found->first;
    found->first = found->written = head;
    found->ended = found->named = found->said_consumes = false;
    atomic_store_explicit(&found->consumes, false, RELAXED);
    return found;
}

/* Gives this thread a ring of the session that is on now. */
static bool attach(thread_state *t) {
    pthread_once(&end_once, make_end_key);
    if (!has_end_key) return false;
    iter__profile_session *session = iter__profile_lock();
    const uint32_t number = iter__profile_number();
    const uint64_t n_events = session && t->small && session->n_events > SMALL_EVENTS ? SMALL_EVENTS
                              : session ? session->n_events
                                        : 0;
    iter__profile_ring *ring = NULL;
    if (number && t->refused != number) {
        ring = ring_again(session, n_events);
        if (!ring) ring = ring_new(session, n_events);
        if (ring && pthread_setspecific(end_key, t) != 0) {
            ring->ended = true;
            ring = NULL;
        }
    }
    if (ring) {
        ring->track = ++session->n_tracks;
        name_track(t, ring);
        t->ring = ring;
        t->session = number;
        if (!t->listed) {
            t->listed = true;
            t->next = threads;
            threads = t;
        }
    } else if (number) {
        t->refused = number;
        atomic_fetch_add_explicit(&session->lost, 1, RELAXED);
    }
    iter__profile_unlock();
    return ring != NULL;
}

/* ---- Inside ---------------------------------------------------------------------------------- */

/* Enters the session, which is not freed before leave(). NULL = no session takes events. */
static iter__profile_session *enter(thread_state *t) {
    const uint32_t number = iter__profile_number();
    if (!number || (t->session != number && !attach(t))) return NULL;
    /* Both are sequentially consistent: either the thread that ends the session sees this thread
     * inside, or this thread sees that the session has ended. */
    atomic_store(&t->inside, 1);
    if (iter__profile_number() == t->session) return iter__profile_session_now();
    atomic_store_explicit(&t->inside, 0, memory_order_release);
    return NULL;
}

static void leave(thread_state *t) {
    /* release: all accesses inside come before the memory is freed. */
    atomic_store_explicit(&t->inside, 0, memory_order_release);
}

void iter__profile_writers_wait(void) {
    for (thread_state *t = threads; t; t = t->next) {
        while (atomic_load(&t->inside))
            sched_yield();
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint32_t bucket_of(int64_t value) {
    if (value < ITER_PROFILE_SUB) return value < 0 ? 0 : (uint32_t)value;
    const int shift = 58 - __builtin_clzll((unsigned long long)value); /* leaves 32 to 63 */
    if (shift + 1 >= ITER_PROFILE_OCTAVES) return ITER_PROFILE_BUCKETS - 1;
    return (uint32_t)(ITER_PROFILE_SUB * shift + (int)(value >> shift));
}

int64_t iter__profile_bucket_middle(uint32_t bucket) {
    if (bucket < 2 * ITER_PROFILE_SUB) return bucket;
    const uint32_t shift = bucket / ITER_PROFILE_SUB - 1;
    const int64_t low = (int64_t)(bucket % ITER_PROFILE_SUB + ITER_PROFILE_SUB) << shift;
    return low + ((int64_t)1 << shift) / 2;
}

/* Only this thread writes, so no atomic read-modify-write is needed. */
#define ADD(counter, n) \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), RELAXED) + (n), RELAXED)

static void sum_up(iter__profile_session *session, iter__profile_ring *ring, uint32_t name,
                   int64_t value) {
    iter__profile_cell *cell = atomic_load_explicit(&ring->cells[name], RELAXED);
    const uint32_t generation = atomic_load_explicit(&session->generation, RELAXED);
    if (!cell) {
        cell = iter__alloc(1, sizeof(*cell));
        if (!cell) {
            atomic_fetch_add_explicit(&session->lost, 1, RELAXED);
            return;
        }
        atomic_store_explicit(&ring->cells[name], cell, memory_order_release);
    }
    if (atomic_load_explicit(&cell->generation, RELAXED) != generation) {
        atomic_store_explicit(&cell->count, 0, RELAXED);
        atomic_store_explicit(&cell->total, 0, RELAXED);
        atomic_store_explicit(&cell->min, INT64_MAX, RELAXED);
        atomic_store_explicit(&cell->max, INT64_MIN, RELAXED);
        for (uint32_t i = 0; i < ITER_PROFILE_BUCKETS; i++)
            atomic_store_explicit(&cell->buckets[i], 0, RELAXED);
        /* release: a thread that sees the generation also sees the zeros. */
        atomic_store_explicit(&cell->generation, generation, memory_order_release);
    }
    ADD(cell->count, 1);
    ADD(cell->total, value);
    ADD(cell->buckets[bucket_of(value)], 1);
    if (value < atomic_load_explicit(&cell->min, RELAXED))
        atomic_store_explicit(&cell->min, value, RELAXED);
    if (value > atomic_load_explicit(&cell->max, RELAXED))
        atomic_store_explicit(&cell->max, value, RELAXED);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void ring_put(iter__profile_session *session, iter__profile_ring *ring,
                     const iter__profile_record *r) {
    const uint64_t head = atomic_load_explicit(&ring->head, RELAXED);
    atomic_ullong *words = ring->words + (head & (ring->n_events - 1)) * ITER_PROFILE_WORDS;
    const unsigned long long event[ITER_PROFILE_WORDS] = {
        (unsigned long long)r->loader << 32 | (unsigned long long)r->flows << 24 |
            (unsigned long long)r->type << 16 | r->name,
        (unsigned long long)r->start_ns,
        (unsigned long long)r->duration_ns,
        r->batch,
        (unsigned long long)r->epoch << 32 | r->chunk,
        r->serial,
        (unsigned long long)r->value};
    for (int i = 0; i < ITER_PROFILE_WORDS; i++)
        atomic_store_explicit(&words[i], event[i], memory_order_release);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    if ((head & (ring->n_events / 4 - 1)) == ring->n_events / 4 - 1) iter__profile_wake(session);
}

bool iter__profile_ring_get(iter__profile_ring *ring, uint64_t at, iter__profile_record *out) {
    const atomic_ullong *words = ring->words + (at & (ring->n_events - 1)) * ITER_PROFILE_WORDS;
    unsigned long long event[ITER_PROFILE_WORDS];
    for (int i = 0; i < ITER_PROFILE_WORDS; i++)
        event[i] = atomic_load_explicit(&words[i], memory_order_acquire);
    /* The writer may already be writing event `head`. */
    if (atomic_load_explicit(&ring->head, RELAXED) - at >= ring->n_events) return false;
    *out = (iter__profile_record){.name = event[0] & 0xffff,
                                  .type = (uint8_t)(event[0] >> 16),
                                  .flows = (uint8_t)(event[0] >> 24),
                                  .loader = (uint32_t)(event[0] >> 32),
                                  .start_ns = (int64_t)event[1],
                                  .duration_ns = (int64_t)event[2],
                                  .batch = event[3],
                                  .epoch = (uint32_t)(event[4] >> 32),
                                  .chunk = (uint32_t)event[4],
                                  .serial = event[5],
                                  .value = (int64_t)event[6]};
    return true;
}

void iter__profile_put(const iter__profile_record *record) {
    thread_state *t = &self;
    iter__profile_session *session = enter(t);
    if (!session) return;
    ring_put(session, t->ring, record);
    if (session->aggregates && record->type != ITER_PROFILE_INSTANT) {
        const bool valued = record->type == ITER_PROFILE_COUNTER;
        sum_up(session, t->ring, record->name, valued ? record->value : record->duration_ns);
    }
    if (record->name == PROFILE_NEXT) atomic_store_explicit(&t->ring->consumes, true, RELAXED);
    leave(t);
}

/* ---- For the other files --------------------------------------------------------------------- */

void iter__profile_rings_free(iter__profile_session *session) {
    for (iter__profile_ring *ring = session->rings, *next; ring; ring = next) {
        next = ring->next;
        ring_free(ring);
    }
    session->rings = NULL;
}

uint64_t iter__profile_overwritten(const iter__profile_session *session) {
    uint64_t n = session->overwritten;
    for (const iter__profile_ring *ring = session->has_file ? NULL : session->rings; ring;
         ring = ring->next)
        n += lost_of(ring);
    return n;
}

void iter__profile_threads_forget(void) {
    threads = self.listed ? &self : NULL;
    self.next = NULL;
}

void iter__profile_thread(const char *name) {
    snprintf(self.name, sizeof(self.name), "%s", name);
}

void iter__profile_thread_small(void) {
    self.small = true;
}

void iter__profile_thread_calls_back(bool calls_back) {
    self.calls_back = calls_back;
}

bool iter__profile_thread_is_calling_back(void) {
    return self.calls_back;
}

/* ---- Public ---------------------------------------------------------------------------------- */

void iter_profile_scope_begin(const char *name) {
    const bool on = iter__profiling();
    thread_state *t = &self;
    if (!on && t->depth == 0) return;
    if (t->depth < ITER_PROFILE_DEPTH) {
        open_scope *scope = &t->open[t->depth];
        scope->session = on ? iter__profile_number() : 0;
        if (scope->session) {
            scope->name = iter__profile_name(CATEGORY_USER, name);
            scope->start_ns = iter__now_ns();
        }
    }
    t->depth++;
}

void iter_profile_scope_end(void) {
    thread_state *t = &self;
    if (t->depth == 0) return;
    t->depth--;
    if (t->depth >= ITER_PROFILE_DEPTH || !iter__profiling()) return;
    const open_scope *scope = &t->open[t->depth];
    if (!scope->session || scope->session != iter__profile_number()) return;
    iter__profile_put(&(iter__profile_record){.name = scope->name,
                                              .type = ITER_PROFILE_SPAN,
                                              .start_ns = scope->start_ns,
                                              .duration_ns = iter__now_ns() - scope->start_ns});
}

static void put_counter(const char *name, int64_t value, bool adds) {
    if (!iter__profiling()) return;
    const uint32_t number = iter__profile_name(CATEGORY_COUNTER, name);
    atomic_llong *now = iter__profile_name_value(number);
    if (adds) {
        value += atomic_fetch_add_explicit(now, value, RELAXED);
    } else {
        atomic_store_explicit(now, value, RELAXED);
    }
    iter__profile_put(&(iter__profile_record){
        .name = number, .type = ITER_PROFILE_COUNTER, .start_ns = iter__now_ns(), .value = value});
}

void iter_profile_counter_set(const char *name, int64_t value) {
    put_counter(name, value, false);
}

void iter_profile_counter_add(const char *name, int64_t delta) {
    put_counter(name, delta, true);
}

void iter_profile_instant(const char *name) {
    if (!iter__profiling()) return;
    iter__profile_put(&(iter__profile_record){.name = iter__profile_name(CATEGORY_USER, name),
                                              .type = ITER_PROFILE_INSTANT,
                                              .start_ns = iter__now_ns()});
}
