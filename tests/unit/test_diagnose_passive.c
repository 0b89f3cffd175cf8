/*
 * test_diagnose_passive.c - diagnose/passive.c, guesses.c and the judge on a loop that was only
 * watched. The slices are made up so that the answer follows from their definition.
 */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/passive.h"
#include "diagnose/verdict.h"

TestSuite(diagnose_passive, .timeout = 60);

/* Half a second, 1000 samples in 10 batches; `load` of the workers is spent in the chain. */
static passive_slice slice_of(double next_s, double load, double cpu_s) {
    passive_slice s = {
        .wall_s = 0.5, .next_s = next_s, .samples = 1000, .batches = 10, .cpu_s = cpu_s};
    s.seen.load = (observer_load){.n = 100, .busy = 100 * load, .chain = 100 * load};
    s.seen.worker_cpu_s = cpu_s;
    return s;
}

static passive_run run_of(int n, const passive_slice *slice) {
    passive_run run = {.slice_s = PASSIVE_SLICE_S};
    for (int i = 0; i < n; i++) {
        passive_slice s = *slice;
        s.samples += i % 3; /* slices are never quite alike */
        passive_add(&run, &s);
    }
    return run;
}

static passive_facts facts_of(int64_t workers, int cores) {
    return (passive_facts){.is_loader = true,
                           .workers = workers,
                           .cores = cores,
                           .prefetch = 4,
                           .batch = 100,
                           .epoch = ITER_UNKNOWN};
}

static evidence watched(const passive_run *run, const passive_facts *facts) {
    static evidence e;
    memset(&e, 0, sizeof(e));
    if (facts->is_loader) {
        e.n_stages = 2;
        e.stages[0] = (evidence_stage){"decode", EVIDENCE_OF_DECODE, 0.05};
        e.stages[1] = (evidence_stage){"blur", EVIDENCE_OF_CHAIN, 0.9};
        e.n_workers = facts->workers > 0 ? (int)facts->workers : 1;
        for (int i = 0; i < e.n_workers; i++)
            e.worker[i] = (evidence_worker){.chunks = 100, .busy_s = 0.001};
    }
    passive_evidence(run, facts, &e);
    return e;
}

static verdict judged(const evidence *e, verdict_limit limit, bool high) {
    const verdict v = verdict_make(e);
    cr_assert_eq(v.limit, limit, "%s, not %s: %s", verdict_limit_text(v.limit),
                 verdict_limit_text(limit), v.text);
    cr_assert_eq(v.high, high, "%s: %s", verdict_limit_text(v.limit), v.text);
    return v;
}

/* ---- Loaders of ours ------------------------------------------------------------------------- */

Test(diagnose_passive, a_loop_that_hardly_waits_is_the_limit_itself) {
    const passive_slice slice = slice_of(0.002, 0.3, 0.3);
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 4);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_CONSUMER, true);
    cr_assert_eq(v.n_changes, 0);
    /* 1001 samples in 0.498 s outside next(); the loader at 0.3 of its time */
    cr_assert_float_eq(e.rate[EVIDENCE_CONSUMER].median, 1001 / 0.498, 1);
    cr_assert_float_eq(e.rate[EVIDENCE_LOADER].median, 1001 / 0.5 / 0.3, 1);
    cr_assert(isnan(e.rate[EVIDENCE_DECODE].median) && !e.has[EVIDENCE_DECODE]);
}

Test(diagnose_passive, a_full_loader_is_taken_apart) {
    const passive_slice slice = slice_of(0.4, 1, 0.95);
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 2);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_TRANSFORM, true);
    cr_assert_str_eq(v.stage, "blur");
    cr_assert_float_eq(v.share, 0.8, 0.01);
}

Test(diagnose_passive, free_cores_mean_more_workers) {
    const passive_slice slice = slice_of(0.4, 1, 0.95);
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 16);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_WORKERS, false); /* none was tried */
    /* The consumer needs 0.1 s of 0.5, so five times as many workers and a quarter more. */
    cr_assert_str_eq(v.changes[0].advice, "workers=13");
    cr_assert_float_eq(v.changes[0].gain, 4, 0.05);
}

Test(diagnose_passive, without_a_worker_loader_and_consumer_take_turns) {
    const passive_slice slice = slice_of(0.25, 0.5, 0.25);
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(0, 4);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_WORKERS, true);
    cr_assert_float_eq(v.share, 0.5, 0.01);
    cr_assert_eq(strncmp(v.changes[0].advice, "workers=", 8), 0, "%s", v.changes[0].advice);
    cr_assert_float_eq(v.changes[0].gain, 1, 0.05);
    cr_assert(strstr(v.changes[0].text, "about +100 %") != NULL, "%s", v.changes[0].text);
}

Test(diagnose_passive, threads_that_take_the_cores_from_one_another) {
    passive_slice slice = slice_of(0.05, 0.9, 0.98);
    slice.seen.worker_cpu_s = 0.45;
    slice.seen.worker_delay_s = 0.4; /* of 2 workers x 0.5 s */
    slice.seen.own_delay_s = slice.seen.delay_s = 0.2;
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 2);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_CPU, true);
    cr_assert(strstr(v.says, "take them from one another") != NULL, "%s", v.says);
}

Test(diagnose_passive, another_program_on_the_cores_is_no_limit_of_ours) {
    passive_slice slice = slice_of(0.002, 0.5, 0.2);
    slice.seen.own_delay_s = slice.seen.delay_s = 0.2;
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 2);
    const evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_CONSUMER, false);
    cr_assert(strstr(v.text, "another program") != NULL, "%s", v.text);
}

Test(diagnose_passive, a_gpu_that_holds_slots_is_the_consumer) {
    passive_slice slice = slice_of(0.4, 0.2, 0.1);
    slice.device_s = 0.4;
    const passive_run run = run_of(10, &slice);
    const passive_facts facts = facts_of(2, 8);
    const evidence e = watched(&run, &facts);
    judged(&e, LIMIT_CONSUMER, true);
}

Test(diagnose_passive, a_cost_that_comes_with_each_batch_asks_for_larger_ones) {
    passive_slice slice = slice_of(0.45, 1, 0.5);
    slice.batches = slice.samples = 5000;
    slice.seen.load = (observer_load){.n = 100, .busy = 100, .decode = 20, .other = 80};
    const passive_run run = run_of(10, &slice);
    passive_facts facts = facts_of(1, 2);
    facts.batch = 1;
    facts.epoch = 64;
    evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_BATCH, false);
    cr_assert_str_eq(v.changes[0].advice, "batch_size=64");
    facts.epoch = 63; /* no batch of 64 */
    e = watched(&run, &facts);
    cr_assert(verdict_look(&e) != LIMIT_BATCH);
}

Test(diagnose_passive, tiny_batches_that_come_unevenly_ask_for_larger_ones) {
    passive_slice slice = slice_of(0.2, 0.4, 0.5);
    slice.batches = slice.samples = 5000;
    slice.seen.load = (observer_load){.n = 100, .busy = 40, .decode = 8, .other = 32};
    const passive_run run = run_of(10, &slice);
    passive_facts facts = facts_of(1, 2);
    facts.batch = 1;
    evidence e = watched(&run, &facts);
    const verdict v = judged(&e, LIMIT_BATCH, false);
    cr_assert_str_eq(v.changes[0].advice, "batch_size=64");
    facts.batch = 100; /* no tiny one */
    e = watched(&run, &facts);
    judged(&e, LIMIT_PREFETCH, true);
}

/* ---- Little evidence ------------------------------------------------------------------------- */

Test(diagnose_passive, little_evidence_has_low_confidence) {
    const passive_slice slice = slice_of(0.002, 0.3, 0.3);
    const passive_facts facts = facts_of(2, 4);
    for (int n = 1; n < 6; n++) {
        const passive_run run = run_of(n, &slice);
        const evidence e = watched(&run, &facts);
        const verdict v = verdict_make(&e);
        cr_assert(!v.high && strstr(v.text, "Confidence: low, after") != NULL, "%d: %s", n, v.text);
    }
    passive_slice brief = slice; /* ten slices, but half a second in all */
    brief.wall_s = 0.05;
    brief.next_s = 0.0002;
    const passive_run run = run_of(10, &brief);
    const evidence e = watched(&run, &facts);
    judged(&e, LIMIT_CONSUMER, false);
}

Test(diagnose_passive, many_slices_become_fewer_and_lose_nothing) {
    const passive_slice slice = slice_of(0.1, 0.5, 0.2);
    passive_run run = {.slice_s = PASSIVE_SLICE_S};
    double wall_s = 0;
    uint64_t looks = 0;
    while (wall_s < 500) { /* the longer it takes, the longer slices are */
        passive_slice s = slice;
        s.wall_s = run.slice_s;
        wall_s += s.wall_s;
        looks += s.seen.load.n;
        passive_add(&run, &s);
    }
    const passive_slice sum = passive_sum(&run);
    cr_assert(run.n <= PASSIVE_SLICES && run.n > PASSIVE_SLICES / 2, "%d", run.n);
    cr_assert_eq(run.slice_s, 8 * PASSIVE_SLICE_S); /* 128 slices of 0.5 s are 64 s */
    cr_assert_float_eq(sum.wall_s, wall_s, 1e-6);
    cr_assert_eq(sum.seen.load.n, looks);
}

/* ---- Another's loader ------------------------------------------------------------------------ */

static passive_slice another(double next_s) {
    return (passive_slice){
        .wall_s = 0.5, .next_s = next_s, .samples = 1000, .batches = 10, .cpu_s = 0.3};
}

Test(diagnose_passive, anothers_loader_limits_or_it_does_not) {
    passive_facts facts = {.workers = -1, .cores = 4};
    passive_slice slice = another(0.4);
    passive_run run = run_of(10, &slice);
    evidence e = watched(&run, &facts);
    verdict v = judged(&e, LIMIT_LOADER, true);
    cr_assert_float_eq(v.share, 0.8, 0.01);
    cr_assert(strstr(v.says, "at most 5.00 times as fast") != NULL, "%s", v.says);
    slice = another(0.001);
    run = run_of(10, &slice);
    e = watched(&run, &facts);
    judged(&e, LIMIT_CONSUMER, true);
    slice = another(0.04); /* a small loss need not be a slower loader */
    run = run_of(10, &slice);
    e = watched(&run, &facts);
    v = judged(&e, LIMIT_CONSUMER, false);
    cr_assert(strstr(v.says, "8.0 % of the time") != NULL, "%s", v.says);
    facts.workers = 0;
    slice = another(0.25);
    run = run_of(10, &slice);
    e = watched(&run, &facts);
    v = judged(&e, LIMIT_WORKERS, true);
    cr_assert_float_eq(v.share, 0.5, 0.01);
}
