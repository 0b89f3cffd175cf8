/* test_bench_ranks.c - bench/verdict/ranks_verdict.c: what limits a job of ranks, from times that
 * were planted; and what it promises, against jobs that are simulated step by step. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include <iter/rng.h>

#include "bench/verdict/ranks_verdict.h"

#define RANKS 5
#define STEPS 4000

TestSuite(bench_ranks, .timeout = 60);

/* A job of ranks whose times a step are drawn: mean load and compute of each rank, and how much a
 * step differs from the mean (0 to 1). */
typedef struct job {
    double load[RANKS], compute[RANKS], sums, spread;
} job;

typedef struct seen {
    ranks_part parts[RANKS];
    ranks_evidence e;
} seen;

static void simulate(const job *j, seen *out) {
    iter_rng rng = iter_rng_at(7, 0, 0);
    memset(out, 0, sizeof(*out));
    for (int s = 0; s < STEPS; s++) {
        double load[RANKS], compute[RANKS], most = 0;
        for (int r = 0; r < RANKS; r++) {
            const double factor = 1 + j->spread * (2 * (double)iter_rng_uniform(&rng) - 1);
            load[r] = j->load[r] * factor;
            compute[r] = j->compute[r] * factor;
            most = fmax(most, load[r] + compute[r]);
        }
        for (int r = 0; r < RANKS; r++) {
            out->parts[r].load += load[r] / STEPS;
            out->parts[r].compute += compute[r] / STEPS;
            out->parts[r].wait += (most - load[r] - compute[r]) / STEPS;
            out->parts[r].n_slowest += load[r] + compute[r] == most;
        }
        out->e.slowest += most / STEPS;
    }
    out->e.n = RANKS;
    out->e.trains = true;
    out->e.parts = out->parts;
    out->e.sums = j->sums;
    out->e.step = out->e.slowest + j->sums;
    for (int r = 0; r < RANKS; r++)
        strcpy(out->parts[r].host, "here");
}

/* The gain that a job really has by becoming another one. */
static double gain(const job *from, const job *to) {
    seen a, b;
    simulate(from, &a);
    simulate(to, &b);
    return a.e.step / b.e.step - 1;
}

static job even(void) {
    job j = {.sums = 1e-4};
    for (int r = 0; r < RANKS; r++) {
        j.load[r] = 1e-4;
        j.compute[r] = 10e-3;
    }
    return j;
}

Test(bench_ranks, nothing_to_find) {
    seen s;
    const job j = even();
    simulate(&j, &s);
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_COMPUTING, "%s", v.text);
    cr_expect_eq(v.gain, 0);
}

Test(bench_ranks, one_rank_loads_slowly) {
    seen s;
    job j = even();
    j.load[3] = 12e-3;
    j.spread = 0.02;
    simulate(&j, &s);
    strcpy(s.parts[3].stage, "decode");
    s.parts[3].stage_share = 0.8;
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_STRAGGLER, "%s", v.text);
    cr_expect_eq(v.slowest, 3);
    cr_expect(v.by_loading);
    cr_expect(strstr(v.text, "Rank 3 (here)") && strstr(v.text, "80 % of their time in 'decode'"),
              "%s", v.text);
    const job mended = even();
    cr_expect(fabs(v.gain - gain(&j, &mended)) < 0.05 * v.gain, "%g, really %g", v.gain,
              gain(&j, &mended));
}

Test(bench_ranks, one_rank_computes_slowly) {
    seen s;
    job j = even();
    j.compute[0] = 14e-3;
    simulate(&j, &s);
    s.parts[0].no_core = 0.3;
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_STRAGGLER, "%s", v.text);
    cr_expect_eq(v.slowest, 0);
    cr_expect(!v.by_loading);
    cr_expect(strstr(v.text, "no core for 30 %"), "%s", v.text);
}

Test(bench_ranks, sums) {
    seen s;
    job j = even(), mended = even();
    j.sums = 4e-3;
    mended.sums = 0;
    simulate(&j, &s);
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_COMMUNICATION, "%s", v.text);
    cr_expect(fabs(v.gain - gain(&j, &mended)) < 1e-9);
}

Test(bench_ranks, uneven_steps) {
    seen s;
    job j = even(), mended = even();
    j.spread = 0.6;
    simulate(&j, &s);
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_UNEVEN, "%s", v.text);
    cr_expect(fabs(v.gain - gain(&j, &mended)) < 0.05 * v.gain, "%g, really %g", v.gain,
              gain(&j, &mended));
}

Test(bench_ranks, all_of_them_load) {
    seen s;
    job j = even(), mended = even();
    for (int r = 0; r < RANKS; r++) {
        j.load[r] = 6e-3;
        mended.load[r] = 0;
    }
    simulate(&j, &s);
    const ranks_verdict v = ranks_verdict_make(&s.e);
    cr_expect_eq(v.limit, RANKS_LOADING, "%s", v.text);
    cr_expect(fabs(v.gain - gain(&j, &mended)) < 1e-9);
    s.e.trains = false; /* then it is no finding */
    cr_expect_eq(ranks_verdict_make(&s.e).gain, 0);
}

Test(bench_ranks, two_ranks_and_one) {
    ranks_part parts[2] = {{.load = 1e-3, .compute = 5e-3, .wait = 4e-3},
                           {.load = 5e-3, .compute = 5e-3}};
    ranks_evidence e = {
        .n = 2, .trains = true, .parts = parts, .slowest = 10e-3, .sums = 0, .step = 10e-3};
    ranks_verdict v = ranks_verdict_make(&e);
    cr_expect_eq(v.limit, RANKS_STRAGGLER);
    cr_expect_eq(v.slowest, 1);
    cr_expect_float_eq(v.gain, 10.0 / 6 - 1, 1e-9);
    cr_expect_float_eq(v.waiting_share, 0.2, 1e-9);
    e.n = 1;
    e.slowest = e.step = 6e-3;
    parts[0].wait = 0;
    v = ranks_verdict_make(&e);
    cr_expect_eq(v.limit, RANKS_LOADING, "%s", v.text);
}
