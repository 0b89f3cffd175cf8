/* chaos_run.c - see chaos_run.h. */
#include "tests/support/chaos_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/chaos_watch.h"
#include "tests/support/expect.h"
#include "tests/support/source_fault.h"

/* ---- Signals --------------------------------------------------------------------------------- */

static _Thread_local chaos_run *volatile interruptible;

static void cancel_in_handler(int number) {
    const int before = errno;
    chaos_run *run = interruptible;
    (void)number;
    if (run) {
        atomic_store(&run->dead, true);
        iter_loader_cancel(run->loader);
        CHAOS_COUNT(cancel_in_handler);
    }
    errno = before;
}

static void only_interrupt(int number) {
    (void)number;
    CHAOS_COUNT(signals);
}

void chaos_handle_signals(void) {
    struct sigaction interrupts = {.sa_handler = only_interrupt}, /* without SA_RESTART */
        cancels = {.sa_handler = cancel_in_handler};
    sigaction(SIGUSR1, &interrupts, NULL);
    sigaction(SIGALRM, &interrupts, NULL);
    sigaction(SIGUSR2, &cancels, NULL);
}

void chaos_run_is_mine(chaos_run *run) {
    interruptible = run;
}

/* ---- Ways of running ------------------------------------------------------------------------- */

static void on_stall(void *user, const iter_stall *stall) {
    chaos_run *run = user;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_activity_info activity[16];
    EXPECT(stall->message[0]);
    EXPECT_OK(iter_loader_stats_read(run->loader, &stats, NULL), NULL);
    iter_loader_activity(run->loader, activity, 16);
    CHAOS_COUNT(stalls);
}

/* Large sets are seldom loaded as a whole. */
static int32_t draw_source(const chaos_case *c, uint64_t *rng) {
    static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD, ITER_SOURCE_AUTO,
                                      ITER_SOURCE_MEMORY};
    if (c->zeros) return ITER_SOURCE_NULL;
    return sources[chaos_draw(rng, c->set->large && chaos_draw(rng, 8) ? 2 : 4)];
}

/* Draws how a loader runs, which must not change a bit of its output. */
static void draw_way(chaos_run *run, const chaos_case *c, uint64_t *rng) {
    static const uint64_t limits[] = {0, 24 << 20, 64 << 20, 256 << 20};
    static const uint32_t threads[] = {0, 1, 2, 5};
    const chaos_shape *shape = &c->shapes[run->shape];
    iter_loader_options *opt = &run->opt;
    *opt = c->opt;
    opt->batch_size = shape->batch_size;
    opt->rank = shape->rank;
    opt->ranks = shape->ranks;
    opt->sampler.spec = c->sampler[0] ? c->sampler : NULL;
    opt->workers = chaos_draw(rng, 4) ? (int32_t)chaos_draw(rng, 9) : 0;
    opt->reading.source = draw_source(c, rng);
    if (!c->zeros && chaos_draw(rng, 5) == 0)
        opt->reading.ops = chaos_draw(rng, 2) ? &source_fault_ops : &source_fault_sync_ops;
    opt->memory.limit =
        c->set->photos ? chaos_draw(rng, 2) * (1u << 30) : limits[chaos_draw(rng, 4)];
    opt->prefetch = chaos_draw(rng, 7);
    opt->max_held = 1 + chaos_draw(rng, 6);
    opt->reading.threads = threads[chaos_draw(rng, 4)];
    opt->reading.o_direct = chaos_draw(rng, 4) == 0;
    opt->lookahead = (int32_t)chaos_draw(rng, 2);
    opt->views = (int32_t)chaos_draw(rng, 2);
    opt->memory.share = (int32_t)chaos_draw(rng, 2);
    opt->local_ranks = chaos_draw(rng, 2) ? opt->ranks : 1;
    /* if a thread does not leave by then, it hangs */
    opt->faults.grace_ms = (int64_t)(CHAOS_PATIENCE * 1000);
    opt->faults.timeout_ms = chaos_draw(rng, 5) ? 0 : 1 + chaos_draw(rng, 30);
    opt->watch.stall_ms = chaos_draw(rng, 4) ? 0 : 1 + chaos_draw(rng, 20);
    opt->watch.on_stall = on_stall;
    opt->watch.user = run;
}

static const char *fault_text(const iter_loader_options *opt) {
    if (!opt->reading.ops) return "";
    return opt->reading.ops == &source_fault_ops ? " (faults)" : " (faults, sync)";
}

void chaos_run_print(const chaos_run *run) {
    const iter_loader_options *opt = &run->opt;
    fprintf(
        stderr,
        "shape %u, %s, workers %d, source %d%s, memory_limit %llu, prefetch %u, max_held %u, "
        "read_threads %u, o_direct %d, lookahead %d, share %d, local_ranks %u, timeout_ms %lld, "
        "stall_ms %lld\n",
        run->shape, run->exact ? "exact" : "wild", opt->workers, opt->reading.source,
        fault_text(opt), (unsigned long long)opt->memory.limit, opt->prefetch, opt->max_held,
        opt->reading.threads, opt->reading.o_direct, opt->lookahead, opt->memory.share,
        opt->local_ranks, (long long)opt->faults.timeout_ms, (long long)opt->watch.stall_ms);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void beat(void) {
    chaos_doing("a plain run");
}

static iter_status make(chaos_run *run, const chaos_case *c, iter_error *err) {
    chaos_doing("create");
    const iter_status s =
        chaos_set_loader(c->set, run->data, c->chain, &run->opt, &run->loader, err);
    if (s != ITER_ENOMEM || !run->opt.memory.limit) return s;
    CHAOS_COUNT(refused_memory);
    EXPECT(strstr(err->message, "memory.limit"));
    run->opt.memory.limit = 0;
    chaos_doing("create, without a limit");
    return chaos_set_loader(c->set, run->data, c->chain, &run->opt, &run->loader, err);
}

chaos_run *chaos_run_start(chaos_case *c, uint64_t *rng) {
    iter_error err;
    chaos_run *run = calloc(1, sizeof(*run));
    if (!run) abort();
    atomic_init(&run->refs, 1);
    run->shape = chaos_draw(rng, CHAOS_SHAPES);
    run->exact = chaos_draw(rng, 2);
    chaos_case_expect(c, run->shape, beat);
    draw_way(run, c, rng);
    /* once a dataset is loaded into memory it stays there, for all loaders */
    const bool keeps = run->opt.reading.source == ITER_SOURCE_MEMORY ||
                       run->opt.reading.source == ITER_SOURCE_AUTO;
    chaos_doing("opening");
    run->data = chaos_set_open(c->set, (chaos_draw(rng, 8) == 0) != keeps);
    if (!EXPECT_OK(make(run, c, &err), &err)) {
        chaos_run_drop(run);
        return NULL;
    }
    CHAOS_COUNT(loaders);
    chaos_doing("-");
    return run;
}

void chaos_run_drop(chaos_run *run) {
    if (!run || atomic_fetch_sub(&run->refs, 1) != 1) return;
    iter_dataset_unref(run->data);
    free(run);
}

bool chaos_run_failed(void) {
    return EXPECT_DONE();
}
