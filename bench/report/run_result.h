/*
 * run_result.h - the results of one run of iterbench, and their three forms: a JSON object, five
 * lines, and a table.
 */
#ifndef RUN_RESULT_H
#define RUN_RESULT_H

#include "bench/common/bench_cache.h"
#include "bench/common/bench_json.h"
#include "bench/limits/yardstick.h"
#include "bench/measure/arm.h"
#include "bench/measure/gpu_link.h"
#include "bench/report/bench_failures.h"

#define RUN_FAILURES_MAX 1024

typedef struct run_result {
    const bench_options *options;
    bool interrupted; /* by ^C: there are fewer figures */
    bool has_limits;  /* neither interrupted nor with a hash */
    bench_cache_proof cache;
    uint64_t n_samples; /* ITER_UNKNOWN for a stream */
    int32_t n_classes;
    char split[32];
    double load_s; /* time to load the arrays; NaN if there are none */
    int n_arms;    /* 1, or 2: ndarray, dataloader */
    bench_arm arms[2];
    iter_loader_stats stats[2];
    bench_hash hashes[2];
    shuffle_quality quality; /* of the last arm */
    bool has_figures;
    shuffle_figures figures;
    measure_result pairs; /* of two arms */
    yardstick_rates limits;
    gpu_link_rates link;  /* if batches go to a GPU */
    char limits_why[256]; /* reason why convert and ordered are unknown, or "" */
    uint64_t peak_rss_bytes;
    iter_failure *failures; /* [n_failures] of the last arm, all ranks */
    size_t n_failures;
    bench_reason reasons[BENCH_REASONS_MAX]; /* [n_reasons] of those failures */
    size_t n_reasons;
    iter_part_stats *sources; /* [n_sources] of a mix: the last arm's, all ranks */
    int32_t n_sources;
} run_result;

void run_result_json(const run_result *result, FILE *out);
/** Five lines, and one for each unusual condition. */
void run_result_lines(const run_result *result, FILE *out);
/** Every figure (--verbose). */
void run_result_table(const run_result *result, FILE *out);

/** Writes limits{...}, also for the command `limits`. `link` NULL = there is no GPU. */
void run_limits_json(json_writer *w, const yardstick_rates *limits, const gpu_link_rates *link);
void run_limits_table(const yardstick_rates *limits, const gpu_link_rates *link, const char *why,
                      FILE *out);

/** Measures the link to the GPU that an arm's batches go to, by up to two batches that it takes
 * from the arm. Does nothing if they go to no GPU. */
iter_status run_link(bench_arm *arm, gpu_link_rates *out, iter_error *err);

/** Samples a second, or NaN. */
double arm_rate(const bench_arm *arm);
/** Photos: the time of a sample's bare decode / the CPU time of a sample; else NaN. */
double arm_decode_share(const bench_arm *arm, const yardstick_rates *limits);

#endif
