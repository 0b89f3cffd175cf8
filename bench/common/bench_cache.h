/* bench_cache.h - makes the page cache hot or cold for a set's files, and proves its state. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include "bench/common/bench_options.h"

/** The result of the proof. */
typedef enum bench_cache_state {
    BENCH_CACHE_UNKNOWN = 0, /* a mixture, or it cannot be known */
    BENCH_CACHE_IS_HOT = 1,
    BENCH_CACHE_IS_COLD = 2,
    BENCH_CACHE_NO_FILES = 3
} bench_cache_state;

typedef struct bench_cache_proof {
    bench_cache_state state;
    uint32_t probes, resident; /* places looked at, and how many of them were in memory */
} bench_cache_proof;

const char *bench_cache_text(bench_cache_state state);

/** Writes dirty pages out and drops all pages of the files. Errors: EIO naming the file. */
iter_status bench_cache_drop(const iter_description *set, iter_error *err);

/**
 * Does what --cache asks for with the files of options->data, then proves it.
 *
 * Errors  EUNSUPPORTED (cold, if the set reads no files or the file system cannot tell, as tmpfs),
 *         EIO, errors of opening the set. Pages that stay in spite of it are no error: see
 *         out->state.
 */
iter_status bench_cache_prepare(const bench_options *options, bench_cache_proof *out,
                                iter_error *err);

#endif
