/*
 * profile.c - the profiler's life: start, pause, resume, dump, stop, and what happens at fork() and
 * at exit.
 *
 * The profiler is the library's one piece of process state, with the names in profile_names.c and
 * the list of threads in profile_ring.c. It must be: a program has one trace for all its loaders,
 * and a hook must see with one load that the profiler is off. Everything is off and empty until a
 * start.
 *
 * Two locks, taken in this order. `control` is held during all of start, stop and clear, so these
 * come one after another. `lock` (profiler.h) guards the session; the writing thread takes it, and
 * each thread for its first event. fork() takes both, so a child finds them free and the session
 * whole. The child drops its copy of the session and never touches the file.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/machine.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/profile/profiler.h"
#include "iter/spec/options.h"

#define DEFAULT_EVENTS    65536
#define EVENTS_LEAST      64
#define EVENTS_MOST       (1u << 28)
#define DEFAULT_PERIOD_MS 1000
#define LONGEST_MS        ((int64_t)1000 * 1000000000)
#define EXIT_WAIT_S       2

atomic_bool iter__profile_on;

static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static iter__profile_session *session; /* guarded by `lock`; read inside */
static atomic_uint number;             /* of the session that takes events; 0 = none does */
static uint32_t last_number;           /* guarded by `control` */
static atomic_bool counts_memory;
static atomic_uint n_loaders;
static atomic_bool asked_environment;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- The lock -------------------------------------------------------------------------------- */

iter__profile_session *iter__profile_lock(void) {
    pthread_mutex_lock(&lock);
    return session;
}

void iter__profile_unlock(void) {
    pthread_mutex_unlock(&lock);
}

bool iter__profile_control_lock(iter_error *err) {
    if (iter__profile_thread_is_calling_back()) {
        const iter_status status =
            iter__fail(err, ITER_ESTATE, "profile: called from a callback of iter_profile_each()");
        return status == ITER_OK;
    }
    pthread_mutex_lock(&control);
    return true;
}

void iter__profile_control_unlock(void) {
    pthread_mutex_unlock(&control);
}

uint32_t iter__profile_number(void) {
    return atomic_load(&number);
}

iter__profile_session *iter__profile_session_now(void) {
    return session;
}

void iter__profile_wake(iter__profile_session *s) {
    if (s->has_thread) pthread_cond_signal(&s->wake);
}

iter_status iter__profile_flush(iter__profile_session *s, iter_error *err) {
    return s->file ? iter__profile_file_append(s->file, s, err) : ITER_OK;
}

/* ---- The thread that writes ------------------------------------------------------------------ */

static void *write_now_and_then(void *arg) {
    iter__profile_session *s = arg;
    iter__profile_thread_small();
    iter__profile_thread("profiler");
    for (bool ends = false; !ends;) {
        struct timespec until;
        iter__profile_memory();
        pthread_mutex_lock(&lock);
        const iter_status status = s->ends ? ITER_OK : iter__profile_flush(s, NULL);
        (void)status; /* the next iter_profile_dump() reports it */
        iter__deadline(s->period_ns, &until);
        if (!s->ends) pthread_cond_timedwait(&s->wake, &lock, &until);
        ends = s->ends;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static iter_status start_thread(iter__profile_session *s, iter_error *err) {
    if (!s->file || s->period_ns < 0) return ITER_OK;
    const int failed = iter__thread_start(&s->thread, "iter-profile", write_now_and_then, s);
    s->has_thread = !failed;
    if (!failed) return ITER_OK;
    char reason[96];
    return iter__fail(err, ITER_ENOMEM, "profile: its thread could not be started: %s",
                      iter__os_error(failed, reason, sizeof(reason)));
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void session_free(iter__profile_session *s) {
    if (!s) return;
    iter__profile_rings_free(s);
    if (s->file) iter__profile_file_close(s->file, true);
    pthread_cond_destroy(&s->wake);
    iter__free(s);
}

/* What else decides the name of a session's file. */
typedef struct naming {
    int64_t rank; /* -1 = not known */
    bool may_rename;
} naming;

static iter_status open_file(const char *pattern, const naming *as, iter__profile_session *s,
                             iter_error *err) {
    char path[PATH_MAX];
    if (!iter__profile_path(pattern, as->rank, getpid(), path, sizeof(path)))
        return iter__fail(err, ITER_EINVAL, "profile: %.300s: the name is too long", pattern);
    return path[0] ? iter__profile_file_open(path, as->may_rename, s, err) : ITER_OK;
}

static iter_status session_make(const iter_profile_options *options, const naming *as,
                                iter__profile_session **out, iter_error *err) {
    iter_profile_options opt;
    ITER_TRY(iter__options_copy(&opt, sizeof(opt), options, sizeof(size_t), err));
    const char *path = opt.filename ? opt.filename : "profile.json";
    if (opt.events_per_thread > EVENTS_MOST || opt.dump_period_ms < -1) {
        return iter__fail(
            err, ITER_EINVAL,
            "profile: events_per_thread is %u, expected at most %u; dump_period_ms is "
            "%lld, expected at least -1",
            opt.events_per_thread, EVENTS_MOST, (long long)opt.dump_period_ms);
    }
    iter__profile_session *s = iter__alloc(1, sizeof(*s));
    if (!s) return iter__fail(err, ITER_ENOMEM, "profile: out of memory");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const uint32_t wanted = opt.events_per_thread ? opt.events_per_thread : DEFAULT_EVENTS;
    for (s->n_events = EVENTS_LEAST; s->n_events < wanted;)
        s->n_events *= 2;
    s->aggregates = !opt.no_aggregate;
    s->counts_memory = !opt.no_memory;
    if (opt.dump_period_ms > LONGEST_MS) opt.dump_period_ms = LONGEST_MS;
    s->period_ns = (opt.dump_period_ms ? opt.dump_period_ms : DEFAULT_PERIOD_MS) * 1000000;
    atomic_store_explicit(&s->generation, 1, memory_order_relaxed);
    s->start_ns = iter__now_ns();
    const iter_status status = open_file(path, as, s, err);
    if (status < 0) {
        session_free(s);
        return status;
    }
    s->has_file = s->file != NULL;
    *out = s;
    return ITER_OK;
}

/* With `control` held. */
static iter_status start(const iter_profile_options *options, const naming *as, iter_error *err) {
    if (session && !session->stopped)
        return iter__fail(err, ITER_ESTATE, "profile: it runs already; stop it first");
    iter__profile_session *s = NULL;
    ITER_TRY(session_make(options, as, &s, err));
    s->number = last_number + 1;
    const iter_status status = start_thread(s, err);
    if (status < 0) {
        session_free(s);
        return status;
    }
    last_number++;
    pthread_mutex_lock(&lock);
    iter__profile_session *old = session;
    session = s;
    atomic_store_explicit(&counts_memory, s->counts_memory, memory_order_relaxed);
    atomic_store(&number, s->number);
    atomic_store(&iter__profile_on, true);
    pthread_mutex_unlock(&lock);
    session_free(old);
    return ITER_OK;
}

/* With `control` held. */
static iter_status stop(iter_error *err) {
    iter__profile_session *s = session;
    if (!s) return iter__fail(err, ITER_ESTATE, "profile: it was never started");
    pthread_mutex_lock(&lock);
    atomic_store(&iter__profile_on, false);
    atomic_store(&number, 0);
    iter__profile_writers_wait();
    s->ends = true;
    const bool has_thread = s->has_thread;
    if (has_thread) pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&lock);
    if (has_thread) pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    s->has_thread = false;
    s->stopped = true;
    const iter_status status = iter__profile_flush(s, err);
    if (s->file) iter__profile_file_close(s->file, true);
    s->file = NULL;
    pthread_mutex_unlock(&lock);
    return status;
}

/* With `control` held. */
static void clear(void) {
    const iter_status status = stop(NULL);
    (void)status; /* iter_profile_stop() is the call that reports it */
    pthread_mutex_lock(&lock);
    iter__profile_session *old = session;
    session = NULL;
    pthread_mutex_unlock(&lock);
    session_free(old);
}

/* ---- fork, exit ------------------------------------------------------------------------------ */

static void before_fork(void) {
    /* A callback of iter_profile_each() runs while its thread holds `control`. */
    if (!iter__profile_thread_is_calling_back()) pthread_mutex_lock(&control);
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
    if (!iter__profile_thread_is_calling_back()) pthread_mutex_unlock(&control);
}

static void in_child(void) {
    atomic_store(&iter__profile_on, false);
    atomic_store(&number, 0);
    if (session && session->file) iter__profile_file_close(session->file, false);
    iter__profile_threads_forget();
    if (session) iter__profile_rings_free(session);
    iter__free(session);
    session = NULL;
    in_parent();
}

/* If a callback of iter_profile_each() never returns, gives up after EXIT_WAIT_S: the program must
 * end. */
static void at_end(void) {
    struct timespec until;
    if (iter__profile_thread_is_calling_back()) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EXIT_WAIT_S;
    if (pthread_mutex_timedlock(&control, &until) != 0) return;
    clear();
    pthread_mutex_unlock(&control);
}

static void hook_process(void) {
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(at_end);
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

void iter__profile_memory(void) {
    if (!iter__profiling() || !atomic_load_explicit(&counts_memory, memory_order_relaxed)) return;
    const int64_t now = iter__now_ns();
    for (int kind = 0; kind < ITER_ALLOC_KINDS; kind++) {
        const iter__alloc_bytes bytes = iter__alloc_held((iter__alloc_kind)kind);
        if (bytes.peak == 0) continue; /* there is none of this kind */
        iter__profile_put(&(iter__profile_record){.name = PROFILE_HOST + (uint32_t)kind,
                                                  .type = ITER_PROFILE_COUNTER,
                                                  .start_ns = now,
                                                  .duration_ns = bytes.peak,
                                                  .value = bytes.now});
    }
}

uint32_t iter__profile_loader_number(void) {
    /* Hooks fork() before the loader adds names, which takes the lock. */
    pthread_once(&once, hook_process);
    return atomic_fetch_add_explicit(&n_loaders, 1, memory_order_relaxed) + 1;
}

static iter_status start_as(const iter_profile_options *options, const naming *as,
                            iter_error *err) {
    pthread_once(&once, hook_process);
    if (!iter__profile_control_lock(err)) return ITER_ESTATE;
    const iter_status status = start(options, as, err);
    iter__profile_control_unlock();
    if (status == ITER_OK) iter__profile_memory();
    return status;
}

void iter__profile_autostart(int64_t rank, char *out_why, size_t capacity) {
    out_why[0] = 0;
    if (atomic_load_explicit(&asked_environment, memory_order_relaxed)) return;
    if (atomic_exchange_explicit(&asked_environment, true, memory_order_relaxed)) return;
    const char *path = secure_getenv("ITER_PROFILE");
    if (!path || !path[0]) return;
    const int64_t launched = iter__launcher_rank();
    const naming as = {.rank = launched >= 0 ? launched : rank, .may_rename = true};
    iter_profile_options options = ITER_PROFILE_OPTIONS_INIT;
    iter_error error;
    options.filename = path;
    const iter_status status = start_as(&options, &as, &error);
    if (status < 0 && status != ITER_ESTATE)
        snprintf(out_why, capacity, "ITER_PROFILE: %.140s", error.message);
    const iter__profile_session *s = iter__profile_lock();
    if (status == ITER_OK && s && s->renamed[0])
        snprintf(out_why, capacity, "ITER_PROFILE: another process writes that file; see %.100s",
                 s->renamed);
    iter__profile_unlock();
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status iter_profile_start(const iter_profile_options *options, iter_error *err) {
    const naming as = {.rank = iter__launcher_rank()};
    return start_as(options, &as, err);
}

static void set_on(bool on) {
    iter__profile_lock();
    if (atomic_load(&number)) atomic_store(&iter__profile_on, on);
    iter__profile_unlock();
}

void iter_profile_pause(void) {
    set_on(false);
}

void iter_profile_resume(void) {
    set_on(true);
}

int32_t iter_profile_is_on(void) {
    return iter__profiling();
}

iter_status iter_profile_dump(iter_error *err) {
    iter__profile_memory();
    iter__profile_session *s = iter__profile_lock();
    const iter_status status = s ? iter__profile_flush(s, err)
                                 : iter__fail(err, ITER_ESTATE, "profile: it was never started");
    iter__profile_unlock();
    return status;
}

iter_status iter_profile_stop(iter_error *err) {
    iter__profile_memory();
    if (!iter__profile_control_lock(err)) return ITER_ESTATE;
    const iter_status status = stop(err);
    iter__profile_control_unlock();
    return status;
}

void iter_profile_clear(void) {
    if (!iter__profile_control_lock(NULL)) return;
    clear();
    iter__profile_control_unlock();
}

uint64_t iter_profile_dropped(void) {
    const iter__profile_session *s = iter__profile_lock();
    const uint64_t n =
        s ? iter__profile_overwritten(s) + atomic_load_explicit(&s->lost, memory_order_relaxed) : 0;
    iter__profile_unlock();
    return n;
}
