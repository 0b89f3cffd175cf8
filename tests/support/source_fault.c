/* source_fault.c - see source_fault.h. */
#include "tests/support/source_fault.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"

#define FAULT_DEPTH_MAX 4096u
#define FAULT_MEMORY    65536u

typedef enum fault_kind {
    ITER_FAULT_EIO_ONCE = 1,
    ITER_FAULT_EIO_ALWAYS,
    ITER_FAULT_LOST,
    ITER_FAULT_INTERRUPTED,
    ITER_FAULT_SHRUNK,
    ITER_FAULT_HANG,
    ITER_FAULT_QUEUE_FULL,
    ITER_FAULT_TRY,
    ITER_FAULT_DELAY
} fault_kind;

typedef struct fault_queued {
    iter_read *read;
    uint64_t due_ns;
} fault_queued;

typedef struct fault_state {
    source_fault_plan plan;
    void *inner;
    int event;
    uint32_t depth;
    const void *arena;
    size_t arena_bytes;
    /* Under the caller's lock. */
    uint32_t n_queued;
    uint64_t order;
    fault_queued *queued; /* [depth] */
    /* read() may run in any number of threads at the same time. */
    atomic_bool canceled;
    atomic_ulong n_waits;
    /* [FAULT_MEMORY] how often a place was tried, by its hash; collisions do no harm */
    _Atomic uint8_t *tries;
} fault_state;

static source_fault_plan next_plan;
static source_fault_counts counts;
static atomic_bool released;

/* ---- Chances --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(const source_fault_plan *plan, fault_kind kind, uint64_t object,
                     uint64_t offset) {
    return mix(mix(mix(plan->seed * 31 + (uint64_t)kind) ^ object) ^ offset);
}

static bool hit(const source_fault_plan *plan, fault_kind kind, int32_t chance, uint64_t object,
                uint64_t offset) {
    return chance > 0 && draw(plan, kind, object, offset) % 1000 < (uint64_t)chance;
}

bool source_fault_fails_always(const source_fault_plan *plan, uint64_t object, uint64_t offset) {
    return hit(plan, ITER_FAULT_EIO_ALWAYS, plan->eio_always, object, offset);
}

bool source_fault_shrinks(const source_fault_plan *plan, uint64_t object, uint64_t offset) {
    return hit(plan, ITER_FAULT_SHRUNK, plan->shrunk, object, offset);
}

/* Returns true the first time that this fault hits this place. */
static bool first_time(fault_state *s, fault_kind kind, const iter_read *read) {
    const uint64_t at = mix(mix(read->object * 16 + (uint64_t)kind) ^ read->offset) % FAULT_MEMORY;
    return atomic_exchange(&s->tries[at], 1) == 0;
}

static bool once(fault_state *s, fault_kind kind, int32_t chance, const iter_read *read) {
    return hit(&s->plan, kind, chance, read->object, read->offset) && first_time(s, kind, read);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* ---- One read -------------------------------------------------------------------------------- */

static bool hangs(fault_state *s, const iter_read *read) {
    return hit(&s->plan, ITER_FAULT_HANG, s->plan.hang, read->object, read->offset) &&
           !atomic_load(&released);
}

static iter_status end_with(iter_read *read, iter_status status, int32_t os_error) {
    read->status = status;
    read->os_error = os_error;
    return status;
}

/* Reads the bytes of [read->done, end) from the inner source, by a new read over the same parts. */
static iter_status take_bytes(fault_state *s, iter_read *read, size_t end) {
    iter_iovec parts[ITER_READ_PARTS_MAX];
    size_t at = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < read->n_parts && at < end; i++) {
        parts[n] = read->parts[i];
        if (parts[n].size > end - at) parts[n].size = end - at;
        at += parts[n++].size;
    }
    iter_read inner = {.object = read->object,
                       .offset = read->offset,
                       .parts = parts,
                       .n_parts = n,
                       .size = end,
                       .done = read->done};
    const iter_status status = s->plan.inner->read(s->inner, &inner);
    read->done = inner.done;
    read->path = inner.path;
    return end_with(read, status, inner.os_error);
}

static iter_status serve(fault_state *s, iter_read *read) {
    const source_fault_plan *plan = &s->plan;
    atomic_fetch_add(&counts.reads, 1);
    const uint64_t chance = draw(plan, ITER_FAULT_INTERRUPTED, read->object, read->offset) >> 10;
    if (source_fault_fails_always(plan, read->object, read->offset) ||
        once(s, ITER_FAULT_EIO_ONCE, plan->eio_once, read)) {
        atomic_fetch_add(&counts.eio, 1);
        return end_with(read, ITER_EIO, EIO);
    }
    if (once(s, ITER_FAULT_LOST, plan->lost, read)) {
        atomic_fetch_add(&counts.lost, 1);
        return end_with(read, ITER_ECANCELED, chance & 1 ? EFAULT : ECANCELED);
    }
    if (source_fault_shrinks(plan, read->object, read->offset) && read->size > 0) {
        atomic_fetch_add(&counts.shrunk, 1);
        const size_t end = (size_t)(chance % read->size);
        return take_bytes(s, read, end > read->done ? end : read->done);
    }
    if (hit(plan, ITER_FAULT_INTERRUPTED, plan->interrupted, read->object, read->offset) &&
        read->size > read->done) {
        atomic_fetch_add(&counts.interrupted, 1);
        const size_t end = read->done + (size_t)(chance % (read->size - read->done));
        const iter_status status = take_bytes(s, read, end);
        if (status < 0 || read->done < end) return status;
    }
    return take_bytes(s, read, read->size);
}

/* ---- The table's functions ------------------------------------------------------------------- */

static void fault_close(void *state) {
    fault_state *s = state;
    if (s->inner != NULL) s->plan.inner->close(s->inner);
    iter__free(s->inner);
    iter__free(s->queued);
    iter__free((void *)s->tries);
    if (s->event >= 0) close(s->event);
}

static iter_status fault_open(void *state, const iter_source_config *config, char *fallback,
                              size_t capacity, iter_error *err) {
    fault_state *s = state;
    s->plan = next_plan;
    s->arena = config->arena;
    s->arena_bytes = config->arena_bytes;
    if (s->plan.inner == NULL) s->plan.inner = &iter__source_null;
    s->depth = config->depth < 1 ? 1 : config->depth;
    if (s->depth > FAULT_DEPTH_MAX) s->depth = FAULT_DEPTH_MAX;
    s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->queued = iter__alloc(s->depth, sizeof *s->queued);
    s->tries = iter__alloc(FAULT_MEMORY, sizeof *s->tries);
    void *inner = iter__alloc(1, s->plan.inner->base.state_size);
    iter_status status = ITER_ENOMEM;
    if (s->event >= 0 && s->queued != NULL && s->tries != NULL && inner != NULL)
        status = s->plan.inner->open(inner, config, fallback, capacity, err);
    if (status == ITER_OK) {
        s->inner = inner;
        return ITER_OK;
    }
    iter__free(inner);
    fault_close(s);
    return status;
}

static uint64_t delay_of(const fault_state *s, const iter_read *read) {
    if (s->plan.delay_ns == 0) return 0;
    return draw(&s->plan, ITER_FAULT_DELAY, read->object, read->offset) % s->plan.delay_ns;
}

static iter_status fault_read(void *state, iter_read *read) {
    fault_state *s = state;
    if (s->arena && (uintptr_t)read->parts[0].data - (uintptr_t)s->arena < s->arena_bytes)
        atomic_fetch_add(&counts.into_arena, 1);
    sleep_ns(delay_of(s, read));
    if (hangs(s, read)) {
        atomic_fetch_add(&counts.hung, 1);
        while (!atomic_load(&released))
            sleep_ns(1000000); /* nothing cancels a thread */
    }
    return serve(s, read);
}

static iter_status fault_try_read(void *state, iter_read *read) {
    fault_state *s = state;
    const source_fault_plan *plan = &s->plan;
    read->os_error = plan->try_errno;
    if (plan->try_errno != 0) return ITER_AGAIN;
    read->os_error = EAGAIN;
    /* If the read must fail or wait, read() or submit() does that. */
    if (hangs(s, read) || delay_of(s, read) > 0) return ITER_AGAIN;
    if (!hit(plan, ITER_FAULT_TRY, plan->try_again, read->object, read->offset))
        return serve(s, read);
    atomic_fetch_add(&counts.try_again, 1);
    if (read->size > 0) {
        const uint64_t chance = draw(plan, ITER_FAULT_TRY, read->object, read->offset) >> 10;
        const size_t end = (size_t)(chance % read->size);
        if (end > read->done) (void)take_bytes(s, read, end);
    }
    read->os_error = EAGAIN;
    return ITER_AGAIN;
}

static iter_status fault_submit(void *state, iter_read *read) {
    fault_state *s = state;
    if (s->n_queued == s->depth) return ITER_AGAIN;
    if (once(s, ITER_FAULT_QUEUE_FULL, s->plan.queue_full, read)) {
        atomic_fetch_add(&counts.queue_full, 1);
        return ITER_AGAIN;
    }
    if (hangs(s, read)) atomic_fetch_add(&counts.hung, 1);
    s->queued[s->n_queued++] = (fault_queued){read, now_ns() + delay_of(s, read)};
    return ITER_PENDING;
}

static iter_status fault_commit(void *state) {
    (void)state;
    return ITER_OK;
}

/* Returns true if the queued read ends now. */
static bool ends(fault_state *s, const fault_queued *queued, uint64_t now) {
    const bool canceled = atomic_load(&s->canceled);
    if (hangs(s, queued->read)) {
        if (!canceled || s->plan.deaf) return false;
        (void)end_with(queued->read, ITER_ECANCELED, ECANCELED);
        return true;
    }
    if (canceled) {
        (void)end_with(queued->read, ITER_ECANCELED, ECANCELED);
        return true;
    }
    if (queued->due_ns > now) return false;
    (void)serve(s, queued->read);
    return true;
}

static int32_t fault_reap(void *state, iter_read **out, int32_t max) {
    fault_state *s = state;
    uint64_t drained;
    while (read(s->event, &drained, sizeof drained) > 0) {
    }
    const uint64_t now = now_ns();
    int32_t n = 0;
    for (uint32_t tried = 0, left = s->n_queued; tried < left && n < max; tried++) {
        /* To reorder, starts at a random place and goes around once. */
        if (s->plan.reorder && s->n_queued > 1) {
            const uint32_t other = (uint32_t)(mix(s->plan.seed + s->order++) % s->n_queued);
            const fault_queued kept = s->queued[0];
            s->queued[0] = s->queued[other];
            s->queued[other] = kept;
        }
        const fault_queued first = s->queued[0];
        memmove(s->queued, s->queued + 1, (s->n_queued - 1) * sizeof *s->queued);
        if (ends(s, &first, now)) {
            s->n_queued--;
            out[n++] = first.read;
        } else {
            s->queued[s->n_queued - 1] = first;
        }
    }
    return n;
}

static iter_status fault_wait(void *state, int64_t timeout_ns) {
    fault_state *s = state;
    const unsigned long call = atomic_fetch_add(&s->n_waits, 1);
    if (s->plan.idle_waits > 0 && mix(s->plan.seed ^ call) % 1000 < (uint64_t)s->plan.idle_waits)
        return ITER_OK;
    struct pollfd event = {.fd = s->event, .events = POLLIN};
    const int timeout_ms = timeout_ns >= 0 && timeout_ns < 1000000 ? 0 : 1;
    (void)poll(&event, 1, timeout_ms); /* a delayed read may end after a millisecond */
    return ITER_OK;
}

static void fault_wake(void *state) {
    fault_state *s = state;
    const uint64_t one = 1;
    ssize_t n;
    do {
        n = write(s->event, &one, sizeof one);
    } while (n < 0 && errno == EINTR);
}

static void fault_cancel(void *state) {
    fault_state *s = state;
    atomic_store(&s->canceled, true);
    fault_wake(s);
}

#define FAULT_BASE                                   \
    .base = {.struct_size = sizeof(iter_source_ops), \
             .name = "fault",                        \
             .help = "for tests",                    \
             .state_size = sizeof(fault_state)},     \
    .open = fault_open, .close = fault_close, .read = fault_read, .try_read = fault_try_read

const iter_source_ops source_fault_sync_ops = {FAULT_BASE};

const iter_source_ops source_fault_ops = {
    FAULT_BASE,         .submit = fault_submit, .commit = fault_commit, .reap = fault_reap,
    .wait = fault_wait, .wake = fault_wake,     .cancel = fault_cancel,
};

void source_fault_set(const source_fault_plan *plan) {
    next_plan = *plan;
    memset(&counts, 0, sizeof counts);
    atomic_store(&released, false);
}

source_fault_counts *source_fault_seen(void) {
    return &counts;
}

void source_fault_release(void) {
    atomic_store(&released, true);
}
