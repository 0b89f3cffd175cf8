/*
 * iterbench.h - the commands of iterbench. Each returns the program's exit status: 0 done, 1
 * failed, 2 usage.
 */
#ifndef ITERBENCH_H
#define ITERBENCH_H

#include "bench/common/bench_options.h"
#include "bench/measure/measure.h"

#define BENCH_DONE   0
#define BENCH_FAILED 1
#define BENCH_USAGE  2

int cmd_run(const bench_options *options);
int cmd_diagnose(const bench_options *options);    /* cmd_run() with a consumer, or --plant */
int cmd_ranks(const bench_options *options);       /* cmd_run() as one rank of several */
int cmd_sweep(const bench_options *options);       /* cmd_run() with --model and --sweep */
int cmd_serve_model(const bench_options *options); /* cmd_serve() with --model */
int cmd_list(const bench_options *options);
int cmd_plan(const bench_options *options);
int cmd_limits(const bench_options *options);
int cmd_compare(const bench_options *options);
int cmd_report(const bench_options *options);
int cmd_doctor(const bench_options *options);
int cmd_fetch(const bench_options *options);
int cmd_generate(const bench_options *options);
int cmd_serve(const bench_options *options);
int cmd_verify(const bench_options *options);
int cmd_versus(const bench_options *options);

/** Writes "iterbench: message" as one line to stderr and returns `status`. */
int bench_say(int status, const iter_error *err);

/** Writes the first batches of a run as .npy files (--dump). */
iter_status bench_dump(const bench_options *options, iter_error *err);

/** Answers 'run N' from stdin until 'quit' or end of input. */
iter_status bench_serve(const measure_side *side, iter_error *err);

/** Checks that a result can be written to `path`, so that a failure shows before the measuring.
 * NULL and "-" always can. Errors: EIO. */
iter_status bench_path_check(const char *path, iter_error *err);
/** Opens FILE of --json for writing; "-" is stdout. Errors: EIO. */
iter_status bench_json_open(const char *path, FILE **out, iter_error *err);
/** Flushes, and closes unless it is stdout. Errors: EIO. */
iter_status bench_json_close(const char *path, FILE *file, iter_error *err);

#endif
