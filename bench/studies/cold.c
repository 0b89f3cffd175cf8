/*
 * cold.c - see cold.h.
 *
 * Neither side's time includes opening: the bare loop gets its list of reads, and a loader learned
 * it when its dataset was opened. The loader's time includes creating it with its ring and threads;
 * the bare loop's includes making the ring.
 */
#include "bench/studies/cold.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <iter/iter.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_util.h"
#include "bench/limits/bare_read.h"
#include "bench/measure/measure.h"

#define BATCH     64
#define BLOCK     ((uint64_t)4096)
#define PAIRS_MAX 64
#define DRAW      0x9e3779b97f4a7c15u

typedef struct cold_set {
    const char *spec;
    iter_dataset *data;
    iter_chain *chain;
    const char **paths;   /* [n_files], in random order if each is a sample */
    bare_record *records; /* [n_samples] in random order, else NULL */
    uint64_t n_files, n_samples, bytes;
} cold_set;

static iter_status drop(const cold_set *set, iter_error *err) {
    bench_cache_proof proof;
    const bench_options options = {.data = set->spec, .cache = BENCH_CACHE_COLD};
    const iter_status status = bench_cache_prepare(&options, &proof, err);
    if (status < 0 || proof.state == BENCH_CACHE_IS_COLD) return status;
    return bench_fail(err, ITER_EUNSUPPORTED, "%u of %u places stay in the page cache",
                      proof.resident, proof.probes);
}

static uint64_t draw(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return *state = x;
}

static iter_status list(cold_set *set, iter_error *err) {
    const iter_description *desc = iter_dataset_describe(set->data);
    uint64_t state = DRAW;
    set->n_files = desc->n_files;
    set->n_samples = desc->n_samples;
    set->paths = malloc(desc->n_files * sizeof(*set->paths));
    if (!set->paths) return bench_fail(err, ITER_ENOMEM, "no memory");
    for (uint64_t i = 0; i < desc->n_files; i++) {
        set->paths[i] = desc->files[i].path;
        set->bytes += desc->files[i].bytes;
    }
    if (desc->n_files == desc->n_samples) {
        for (uint64_t i = desc->n_files; i > 1; i--) {
            const uint64_t other = draw(&state) % i;
            const char *path = set->paths[i - 1];
            set->paths[i - 1] = set->paths[other];
            set->paths[other] = path;
        }
        return ITER_OK;
    }
    if (desc->n_files != 1 || set->bytes % desc->n_samples != 0)
        return bench_fail(err, ITER_EINVAL,
                          "%s: expected a file per sample, or records of one size", set->spec);
    set->records = malloc(desc->n_samples * sizeof(*set->records));
    if (!set->records) return bench_fail(err, ITER_ENOMEM, "no memory");
    const uint32_t record = (uint32_t)(set->bytes / desc->n_samples);
    for (uint64_t i = 0; i < desc->n_samples; i++) { /* O_DIRECT: whole disk blocks */
        const uint64_t from = i * record / BLOCK * BLOCK;
        uint64_t to = ((i + 1) * record + BLOCK - 1) / BLOCK * BLOCK;
        if (to > set->bytes) to -= BLOCK;
        set->records[i] = (bare_record){0, (uint32_t)(to - from), from};
    }
    for (uint64_t i = desc->n_samples; i > 1; i--) {
        const uint64_t other = draw(&state) % i;
        const bare_record moved = set->records[i - 1];
        set->records[i - 1] = set->records[other];
        set->records[other] = moved;
    }
    return ITER_OK;
}

static iter_status run_loader(const cold_set *set, int workers, uint32_t prefetch,
                              double *out_seconds, iter_error *err) {
    iter_loader *loader;
    iter_batch *batch;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = BATCH;
    opt.workers = workers;
    opt.reading.source = ITER_SOURCE_RING;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.prefetch = prefetch;
    opt.epochs = 1; /* else it would start reading for the next one */
    opt.reading.only_reads = 1;
    opt.reading.o_direct = set->records != NULL;
    const double start = bench_now();
    iter_status status = iter_dataloader_create(set->data, set->chain, &opt, &loader, err);
    if (status < 0) return status;
    while ((status = iter_loader_next(loader, &batch, err)) == ITER_OK)
        iter_batch_unref(batch);
    *out_seconds = bench_now() - start;
    iter_loader_unref(loader);
    return status < 0 ? status : ITER_OK;
}

static iter_status run_bare(const cold_set *set, uint32_t depth, bare_read_result *out,
                            iter_error *err) {
    const bare_read_options options = {
        .ring = true, .direct = set->records != NULL, .depth = depth};
    if (!set->records)
        return bare_read_many(set->paths, set->n_files, NULL, 1 << 20, &options, out, err);
    return bare_read_records(set->paths, set->n_files, set->records, set->n_samples, &options, out,
                             err);
}

/* The loader is first in every other pair. */
static iter_status run_pair(const cold_set *set, int workers, uint32_t prefetch, uint32_t depth,
                            uint32_t number, double *out_ratio, iter_error *err) {
    bare_read_result bare = {0};
    double seconds = 0;
    iter_status status = ITER_OK;
    for (uint32_t side = 0; status == ITER_OK && side < 2; side++) {
        status = drop(set, err);
        if (status < 0) return status;
        status = side == number % 2 ? run_loader(set, workers, prefetch, &seconds, err)
                                    : run_bare(set, depth, &bare, err);
    }
    if (status < 0) return status;
    *out_ratio = bare.seconds / seconds;
    printf("loader %.3f s, %.0f samples/s, %.0f MB/s; bare ring %.3f s; rate of the loader %.3f\n",
           seconds, (double)set->n_samples / seconds, (double)set->bytes / 1e6 / seconds,
           bare.seconds, *out_ratio);
    return ITER_OK;
}

int cold_rows(const char *spec, const char *chain, int workers, uint32_t depth, uint32_t pairs,
              uint32_t prefetch) {
    iter_error err = {0};
    cold_set set = {.spec = spec};
    double ratios[PAIRS_MAX];
    if (pairs > PAIRS_MAX) pairs = PAIRS_MAX;
    iter_status status = iter_dataset_open(spec, NULL, &set.data, &err);
    if (status == ITER_OK && chain[0]) status = iter_chain_parse(chain, NULL, &set.chain, &err);
    if (status == ITER_OK) status = list(&set, &err);
    for (uint32_t i = 0; status == ITER_OK && i < pairs; i++)
        status = run_pair(&set, workers, prefetch, depth, i, &ratios[i], &err);
    if (status < 0) {
        fprintf(stderr, "numbers: %s: %s\n", spec, err.message);
    } else {
        const measure_interval median = measure_median(ratios, pairs);
        printf(
            "%s, workers %d, prefetch %u, depth %u: rate / bare ring: median %.3f [%.3f, %.3f] of "
            "%u pairs\n",
            spec, workers, prefetch, depth, median.median, median.low, median.high, pairs);
    }
    free(set.records);
    free(set.paths);
    iter_chain_unref(set.chain);
    iter_dataset_unref(set.data);
    return status < 0;
}
