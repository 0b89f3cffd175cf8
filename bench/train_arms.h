/*
 * train_arms.h - one trainer, any number of loaders in front of it, and rounds in which all of them
 * take turns.
 */
#ifndef BENCH_TRAIN_ARMS_H
#define BENCH_TRAIN_ARMS_H

#include "bench/common/bench_json.h"
#include "bench/common/page.h"
#include "bench/measure/feed.h"
#include "diagnose/words.h"

typedef struct train_arms {
    const bench_options *options;
    iter_dataset *dataset; /* shared by all of them, with its memory */
    bench_options loader;  /* options with that dataset, and with the chain that the model wants */
    bench_arrays arrays;
    bool has_arrays;
    feed_trainer feed;
    bool has_feed;
    bench_arm arms[MEASURE_SIDES_MAX];
    int n_arms;
    uint64_t n_samples; /* per epoch */
    measure_rounds rounds;
    measure_interval rates[MEASURE_SIDES_MAX]; /* by side */
    measure_interval cost[MEASURE_SIDES_MAX];  /* t_side / t_trainer - 1, of the same rounds */
    bool steady; /* false: the machine's speed moved around every round, so none was dropped */
} train_arms;

/**
 * Opens what all arms share: the arrays, if any, the model, the trainer and the batches that it
 * replays.
 *
 *   ndarray  the replayed batches come from an NDArrayIter
 *   arrays   load the arrays for later arms, too; `ndarray` implies it
 *
 * Errors  those of dataset, chain, loader and trainer. train_arms_close() must be called even after
 *         an error.
 */
iter_status train_arms_open(const bench_options *options, bool ndarray, bool arrays,
                            train_arms *out, iter_error *err);
void train_arms_close(train_arms *t);

/** Opens the next of arms[], which feeds the trainer. `options` must live as long as `t`. */
iter_status train_arms_add(train_arms *t, const bench_options *options, bool ndarray,
                           iter_error *err);

/**
 * Measures the sides in turns, for the time that the options give, and sets rounds, rates and cost.
 * sides[trainer] is the trainer alone.
 */
iter_status train_arms_measure(train_arms *t, const measure_side *sides, int n, int trainer,
                               iter_error *err);

/** CPU nanoseconds a sample; NaN without samples. */
double train_cpu_per_sample(uint64_t cpu_ns, uint64_t samples);

/** Share of an arm's time that the trainer waited for a batch; NaN before it ran. */
double train_wait_share(const bench_arm *arm);

/* The common parts of all reports of a training run. */
const char *train_cost_text(const measure_interval *cost, char out[WORDS_PHRASE]);
void train_head_print(const train_arms *t, const page *p);
void train_head_json(const train_arms *t, const char *loader, json_writer *w);
void train_rounds_json(const train_arms *t, json_writer *w);
/** Writes one of arms[] into the open object; `arm` NULL = the trainer alone. */
void train_arm_json(json_writer *w, const train_arms *t, int side, const bench_arm *arm);
/** Writes the report into --json FILE, or stdout. */
iter_status train_report_json(const char *path, void (*write)(const void *user, FILE *out),
                              const void *user, iter_error *err);

#endif
