/*
 * test_bench_verdict.c - diagnose/verdict.c: which limit follows from which evidence. The runs
 * are made up so that the answer is known.
 */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/verdict.h"
#include "tests/support/verdict_runs.h"

TestSuite(bench_verdict, .timeout = 280);

static void expect(const evidence *e, verdict_limit limit, bool high) {
    const verdict v = verdict_make(e);
    cr_assert_eq(v.limit, limit, "%s, not %s: %s", verdict_limit_text(v.limit),
                 verdict_limit_text(limit), v.text);
    cr_assert_eq(v.high, high, "%s: %s", verdict_limit_text(v.limit), v.text);
    cr_assert(v.text[0] != '\0' && v.share >= 0 && v.share <= 1, "share %g", v.share);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

Test(bench_verdict, a_slow_consumer_is_the_limit) {
    evidence e = run_of(90000, 80000, 70000, 10000, 9950);
    expect(&e, LIMIT_CONSUMER, true);
    cr_assert_eq(verdict_make(&e).n_changes, 0);
}

Test(bench_verdict, equals_are_no_measurable_bottleneck) {
    evidence e = run_of(90000, 80000, 10100, 10000, 9900);
    expect(&e, LIMIT_NONE, false);
}

Test(bench_verdict, the_loader_is_taken_apart) {
    evidence e = run_of(5000, 4900, 4800, 10000, 4800);
    expect(&e, LIMIT_READ, true);
    e = run_of(90000, 4900, 4800, 10000, 4800);
    expect(&e, LIMIT_DECODE, true);
    cr_assert_str_eq(verdict_make(&e).stage, "decode");
    e = run_of(90000, 80000, 4800, 10000, 4800);
    expect(&e, LIMIT_TRANSFORM, true);
    cr_assert_str_eq(verdict_make(&e).stage, "blur");
}

/* 12,288 bytes a sample over a link of 60 MB/s: 4,883 samples/s. */
Test(bench_verdict, photos_are_taken_apart_by_shares) {
    evidence e = run_of(90000, 0, 1200, 10000, 1200);
    e.by_shares = true;
    e.stages[0].share = 0.7;
    e.stages[1].share = 0.2;
    expect(&e, LIMIT_DECODE, true);
    cr_assert_str_eq(verdict_make(&e).stage, "decode");
    e.stages[0].share = 0.2;
    e.stages[1].share = 0.7;
    expect(&e, LIMIT_TRANSFORM, true);
    cr_assert_str_eq(verdict_make(&e).stage, "blur");
    e.stages[0].share = 0.5; /* nearly equal: not sure */
    e.stages[1].share = 0.45;
    expect(&e, LIMIT_DECODE, false);
    e = run_of(1300, 0, 1200, 10000, 1200); /* and reading can still be the limit on its own */
    e.by_shares = true;
    expect(&e, LIMIT_READ, true);
}

Test(bench_verdict, the_link_to_a_gpu_can_be_the_limit) {
    evidence e = run_of(90000, 80000, 4800, 10000, 4790);
    e.to_device = true;
    e.copy_bytes = e.row_bytes = 12288;
    e.link_bytes_per_s = 60e6;
    set(&e, EVIDENCE_RESIDENT, 10100, 0);
    expect(&e, LIMIT_COPY, true);
    cr_assert_float_eq(verdict_bound(&e).copy, 60e6 / 12288, 1e-6);
    add_change(&e, "finish", 3.9, 1);
    const verdict v = verdict_make(&e);
    cr_assert_eq(v.limit, LIMIT_COPY);
    cr_assert_eq(v.n_changes, 1);
    cr_assert_eq(v.changes[0].next, LIMIT_CONSUMER);
    cr_assert(v.changes[0].gain > 0.9 && v.changes[0].gain < 1.2, "%g", v.changes[0].gain);
}

Test(bench_verdict, a_link_that_is_fast_enough_is_not) {
    evidence e = run_of(90000, 80000, 4800, 10000, 4790);
    e.to_device = true;
    e.copy_bytes = e.row_bytes = 12288;
    e.link_bytes_per_s = 50e9;
    expect(&e, LIMIT_TRANSFORM, true);
    e.link_bytes_per_s = NAN; /* no bytes are transferred */
    expect(&e, LIMIT_TRANSFORM, true);
}

Test(bench_verdict, two_stages_alike_are_not_told_apart_with_confidence) {
    evidence e = run_of(10000, 5000, 4900, 10000, 4900);
    const verdict v = verdict_make(&e);
    cr_assert(v.limit == LIMIT_READ || v.limit == LIMIT_DECODE);
    cr_assert_not(v.high);
}

Test(bench_verdict, a_restless_machine_wants_more) {
    evidence e = run_of(90000, 80000, 8500, 10000, 8400);
    expect(&e, LIMIT_TRANSFORM, true);
    e.steady = false;
    expect(&e, LIMIT_TRANSFORM, false);
    e = run_of(90000, 80000, 4800, 10000, 4800);
    e.steady = false;
    expect(&e, LIMIT_TRANSFORM, true);
    e.rounds = 3;
    expect(&e, LIMIT_TRANSFORM, false);
}

/* Arms that share what a server grants: each looks faster than it is, by what was read ahead of its
 * turn, and more workers have read more ahead. */
Test(bench_verdict, a_server_that_refuses_is_the_limit) {
    evidence e = run_of(430, 400, 560, 10000, 540);
    e.remote = (evidence_remote){.answers = 1000,
                                 .throttled = 0.15,
                                 .again = 0.15,
                                 .bytes = 3073,
                                 .first_s = 5e-4,
                                 .whole_s = 6e-4,
                                 .in_flight = 0.3,
                                 .connections = 64};
    add_change(&e, "workers", 12, 1);
    e.worker[1].busy_s = 0.02;
    expect(&e, LIMIT_READ, true);
    cr_assert_str_eq(verdict_make(&e).stage, "throttled");
    e.consumes = false;
    expect(&e, LIMIT_READ, true);
    e.consumes = true;
    e.remote.throttled = 0.01; /* now and then only */
    e.worker[1].busy_s = e.worker[0].busy_s;
    cr_assert_eq(verdict_make(&e).limit, LIMIT_READ);
    cr_assert_str_eq(verdict_make(&e).stage, "latency");
    e.workers = 0; /* the consumer's thread reads: a worker would read beside it */
    cr_assert_eq(verdict_make(&e).limit, LIMIT_WORKERS);
    e.workers = 2;
    e.rate[EVIDENCE_READ].median = 90000; /* something else is slow */
    e.remote.throttled = 0.15;
    cr_assert_eq(verdict_make(&e).limit, LIMIT_WORKERS);
}

Test(bench_verdict, one_slow_worker_is_named) {
    evidence e = run_of(0, 80000, 5000, 10000, 4000);
    e.worker[1].busy_s = 0.02;
    expect(&e, LIMIT_WORKER, true);
    cr_assert(strstr(verdict_make(&e).stage, "worker 1") != NULL);
    e.in_order = true; /* its samples may be larger */
    expect(&e, LIMIT_WORKER, false);
    cr_assert(strstr(verdict_make(&e).text, "without a shuffle") != NULL);
    e.worker[0].bytes = 16000; /* they are as large: the worker is slow, also in order */
    e.worker[1].bytes = 16400;
    expect(&e, LIMIT_WORKER, true);
    cr_assert(strstr(verdict_make(&e).text, "without a shuffle") == NULL);
    e.worker[1].bytes = 0; /* the bytes of one worker are unknown */
    expect(&e, LIMIT_WORKER, false);
    e.worker[1].bytes = 32000; /* twenty times as long for twice as much: not sure any more */
    expect(&e, LIMIT_WORKER, false);
    e.in_order = false;
    expect(&e, LIMIT_WORKER, true);
}

Test(bench_verdict, larger_samples_are_no_slow_worker) {
    evidence e = run_of(0, 4800, 4700, 10000, 4600);
    e.worker[1].busy_s = 0.003;
    expect(&e, LIMIT_WORKER, true);
    for (int in_order = 0; in_order < 2; in_order++) {
        e.in_order = in_order == 1;
        e.worker[0].bytes = 16 * 50e3;
        e.worker[1].bytes = 16 * 150e3;
        expect(&e, LIMIT_DECODE, true);
        const verdict v = verdict_make(&e);
        cr_assert(strstr(v.text,
                         "Worker 1 takes 3.00 times as long over a chunk as the others, over "
                         "samples that are 3.00 times as large") != NULL,
                  "%s", v.text);
        cr_assert_eq(strstr(v.text, "a shuffle would spread them") != NULL, e.in_order);
    }
    e.worker[1].bytes = 16 * 75e3; /* twice the time that its bytes take: slow, too */
    expect(&e, LIMIT_WORKER, false);
    e.worker[1].bytes = 16 * 20e3; /* smaller samples neither excuse nor accuse a worker */
    e.worker[1].busy_s = 0.0015;
    expect(&e, LIMIT_DECODE, true);
}

Test(bench_verdict, medians_alone_are_not_sure) {
    const struct {
        const char *option;
        double loader, consumer;
        verdict_limit limit;
    } cases[] = {{"workers", 3.2, 1, LIMIT_WORKERS},
                 {"batch", 4, 4, LIMIT_BATCH},
                 {"threads", 1, 1.5, LIMIT_CPU},
                 {"layout", 1, 2, LIMIT_LAYOUT}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        evidence e =
            i == 0 ? run_of(0, 80000, 3000, 10000, 2990) : run_of(0, 80000, 70000, 10000, 9950);
        e.trains = i > 0;
        evidence_change *c = add_change(&e, cases[i].option, cases[i].loader, cases[i].consumer);
        expect(&e, cases[i].limit, true);
        c->loader_low = fmin(0.9, c->loader_ratio); /* it may as well gain nothing */
        c->consumer_low = fmin(0.9, c->consumer_ratio);
        expect(&e, cases[i].limit, false);
        c->loader_low = c->consumer_low = NAN; /* too few rounds */
        expect(&e, cases[i].limit, false);
    }
}

Test(bench_verdict, more_workers_that_help_are_what_is_missing) {
    evidence e = run_of(0, 80000, 3000, 10000, 2990);
    add_change(&e, "workers", 3.2, 1)->overlaps = true;
    expect(&e, LIMIT_WORKERS, true);
    e.changes[0].loader_ratio = 1.02; /* the cores are full: the stage is slow */
    expect(&e, LIMIT_TRANSFORM, true);
}

Test(bench_verdict, without_workers_the_times_add_up) {
    evidence e = run_of(0, 80000, 10000, 10000, 5000);
    e.workers = 0;
    e.n_workers = 1;
    evidence_change *more = add_change(&e, "workers", 1, 1);
    more->overlaps = true;
    expect(&e, LIMIT_WORKERS, true);
    cr_assert_float_eq(verdict_expect(&e, more, NULL), 10000, 1);
    cr_assert_float_eq(verdict_make(&e).changes[0].gain, 1, 0.01);
}

Test(bench_verdict, unevenness_wants_more_batches_ahead) {
    evidence e = run_of(0, 80000, 20000, 10000, 6000);
    evidence_change *deep = add_change(&e, "prefetch", 1, 1);
    deep->deeper = true;
    e.wait_share = 0.4;
    expect(&e, LIMIT_PREFETCH, true);
    cr_assert_float_eq(verdict_expect(&e, deep, NULL), 10000, 1);
    e.wait_share = 0.02; /* each is slower while the other runs, and neither waits for a batch */
    expect(&e, LIMIT_CPU, false);
    cr_assert(strstr(verdict_make(&e).text, "neither waits") != NULL);
}

Test(bench_verdict, an_interval_that_holds_anything_names_nobody) {
    evidence e = run_of(90000, 80000, 8500, 10000, 8400);
    e.both_by_consumer = (measure_interval){0.84, 0.6, 1.1, 9};
    e.loader_by_consumer = (measure_interval){0.85, 0.7, 1.2, 9};
    expect(&e, LIMIT_NONE, false);
    cr_assert(strstr(verdict_make(&e).text, "between 60 % and 110 %") != NULL, "%s",
              verdict_make(&e).text);
    e.loader_by_consumer = (measure_interval){0.85, 0.7, 0.95, 9}; /* slower, and sure */
    expect(&e, LIMIT_NONE, false);
}

Test(bench_verdict, a_worker_without_a_core_is_no_sure_sign) {
    evidence e = run_of(0, 80000, 20000, 10000, 6000);
    e.wait_share = 0.4;
    e.worker[0].runnable = 0.12; /* the cores are mostly idle */
    cr_assert_not(verdict_make(&e).high);
    e.consumer_runnable = 0.35; /* the time went here */
    expect(&e, LIMIT_CPU, true);
}

/* The loader alone makes 265,847 samples/s, the consumer alone 154, together they make 89: the
 * loader cannot be what takes 42 %. */
Test(bench_verdict, a_loader_in_the_consumers_thread_takes_no_more_than_alone) {
    evidence e = run_of(900000, 300000, 265847, 154, 89);
    e.workers = 0;
    e.n_workers = 0;
    e.trains = true;
    e.steady = false;
    evidence_change *more = add_change(&e, "workers", 1.1, 1);
    more->overlaps = true;
    expect(&e, LIMIT_NONE, false);
    verdict v = verdict_make(&e);
    cr_assert(strstr(v.text, "can take under 0.1 % of the time") != NULL, "%s", v.text);
    cr_assert_eq(v.n_changes, 0, "%s", v.changes[0].text);
    e.both_by_consumer.low = e.both_by_consumer.high = NAN; /* too few rounds for an interval */
    v = verdict_make(&e);
    cr_assert(strstr(v.text, "about 58 %") != NULL, "%s", v.text);
    e = run_of(0, 90000, 1000, 1000, 400); /* of 2.5 ms one is the loader's, one the consumer's */
    e.workers = 0;
    e.n_workers = 0;
    expect(&e, LIMIT_TRANSFORM, true);
    cr_assert_float_eq(verdict_make(&e).share, 0.4, 1e-9);
}

Test(bench_verdict, a_restless_machine_is_not_surer_of_the_consumer) {
    evidence e = run_of(90000, 80000, 70000, 10000, 9000);
    e.both_by_consumer = (measure_interval){0.9, 0.75, 1.02, 9};
    e.steady = false;
    expect(&e, LIMIT_CONSUMER, false);
}

Test(bench_verdict, both_faster_than_one_of_them_is_not_believed) {
    evidence e = run_of(0, 90000, 2700, 31000, 5200);
    expect(&e, LIMIT_TRANSFORM, false);
}

Test(bench_verdict, what_a_change_takes_away_is_not_next) {
    evidence e = run_of(2000, 1500, 1400, 10000, 1400);
    verdict_limit next;
    evidence_change *c = add_change(&e, "source", 2, 1);
    verdict_expect(&e, c, &next);
    cr_assert_eq(next, LIMIT_DECODE);
    snprintf(c->option, sizeof(c->option), "loader");
    verdict_expect(&e, c, &next);
    cr_assert_eq(next, LIMIT_TRANSFORM);
}

Test(bench_verdict, full_cores_are_the_limit_of_both) {
    evidence e = run_of(0, 80000, 20000, 10000, 5000);
    e.trains = true;
    e.cores = 2;
    e.cpu[EVIDENCE_CONSUMER] = 0.00036;
    expect(&e, LIMIT_CPU, true);
    e.cores = 16;
    e.wait_share = 0.5;
    expect(&e, LIMIT_PREFETCH, true);
}

Test(bench_verdict, layout_batch_and_threads_are_the_consumers) {
    evidence e = run_of(0, 80000, 70000, 10000, 9950);
    e.convert_s = 0.0032;
    snprintf(e.convert_text, sizeof(e.convert_text), "nhwc to nchw");
    add_change(&e, "layout", 1, 2);
    expect(&e, LIMIT_LAYOUT, true);
    e = run_of(0, 80000, 70000, 10000, 9950);
    e.trains = true;
    add_change(&e, "batch", 4, 4);
    expect(&e, LIMIT_BATCH, true);
    e = run_of(0, 80000, 70000, 10000, 9950);
    e.trains = true;
    add_change(&e, "threads", 1, 1.5);
    expect(&e, LIMIT_CPU, true);
}

Test(bench_verdict, a_loader_alone_is_taken_apart_too) {
    evidence e = run_of(90000, 80000, 5000, 10000, 5000);
    e.consumes = e.has[EVIDENCE_CONSUMER] = e.has[EVIDENCE_BOTH] = false;
    expect(&e, LIMIT_TRANSFORM, true);
}

/* ---- Predictions ----------------------------------------------------------------------------- */

Test(bench_verdict, a_change_gains_until_the_next_term) {
    evidence e = run_of(5000, 4900, 4800, 10000, 4800);
    verdict_limit next;
    evidence_change *c = add_change(&e, "source", 10, 1);
    cr_assert_float_eq(verdict_expect(&e, c, &next), 10000, 1);
    cr_assert_eq(next, LIMIT_CONSUMER);
    c->loader_ratio = 1.5;
    cr_assert_float_eq(verdict_expect(&e, c, &next), 7200, 1);
    c->loader_ratio = 10;
    c->cpu_loader = 0.001; /* on 4 cores 4,000 a second */
    cr_assert_float_eq(verdict_expect(&e, c, &next), 4000, 1);
    cr_assert_eq(next, LIMIT_CPU);
}

Test(bench_verdict, mends_come_before_experiments_and_best_first) {
    evidence e = run_of(90000, 80000, 2000, 10000, 2000);
    add_change(&e, "chain", 30, 1)->experiment = true;
    add_change(&e, "workers", 1.1, 1);
    add_change(&e, "source", 1.6, 1);
    add_change(&e, "prefetch", 1.0, 1); /* no gain: left out */
    const verdict v = verdict_make(&e);
    cr_assert_eq(v.n_changes, 3);
    cr_assert_str_eq(e.changes[v.changes[0].of].option, "source");
    cr_assert_str_eq(e.changes[v.changes[1].of].option, "workers");
    cr_assert_str_eq(e.changes[v.changes[2].of].option, "chain");
}
