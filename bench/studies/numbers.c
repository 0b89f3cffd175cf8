/*
 * numbers.c - comparisons that iterbench has no options for, each against a straight loop.
 *
 *     numbers own WORKERS DATA CHAIN     serves (as iterbench serve) a user's own dataset: get()
 *                                        copies one record per index from an array
 *     numbers hot DATA                   serves the bare loop for reads from hot files: pread of
 *                                        a record, then the conversion, in the loader's order
 *     numbers first DATA PAIRS           cold: first batch of a loader against O_DIRECT reads of
 *                                        the same files
 *     numbers files DATA PAIRS WORKERS   cold: a set of many small files through a loader against
 *                                        open, read, close in one thread
 *     numbers records-make FILE BYTES N  writes N raw records, and the index beside them
 *     numbers records DATA WORKERS BLOCK BATCH PAIRS
 *                                        warm, in order, batches of BATCH rows, against pread of
 *                                        BLOCK bytes
 *     numbers cold DATA CHAIN WORKERS DEPTH PAIRS [PREFETCH]
 *                                        cold, in random order, against a bare ring
 *     numbers tokens FILE LENGTH BATCH ROUNDS
 *                                        windows of u16 tokens to i32, without a worker, against
 *                                        loops over a mapping and of pread
 *     numbers rows load|view|loop BYTES N BATCH full|none read|free
 *                                        serves rows of an array as they are: NDArrayIter without
 *                                        and with views, or one memcpy() a row; read = the consumer
 *                                        reads a byte of each cache line
 *     numbers mix-even DRAWS             how even the draws of a mix are, and what they cost
 *     numbers mix-sources FOLDER N       threads, files, memory and restores of a mix of N files
 *     numbers opening ROUNDS DATA ...    opens each in turns, after once unmeasured
 *     numbers chains DATA CHAIN DATA CHAIN PAIRS
 *                                        one loader against another, without workers: the same
 *                                        samples, in slices of 4 batches
 *
 * Pairs alternate. Each line is one pair, the last one the median ratio.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_util.h"
#include "bench/limits/bare_read.h"
#include "bench/measure/measure.h"
#include "bench/studies/cold.h"
#include "bench/studies/mix_draws.h"
#include "bench/studies/records.h"
#include "bench/studies/row_copies.h"
#include "bench/studies/token_windows.h"

#define BATCH 64

static _Noreturn void die(const char *what, const iter_error *err) {
    fprintf(stderr, "numbers: %s: %s\n", what, err->message);
    exit(1);
}

static iter_dataset *open_data(const char *spec) {
    iter_error err;
    iter_dataset *data;
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) die(spec, &err);
    return data;
}

static iter_chain *open_chain(const char *text) {
    iter_error err;
    iter_chain *chain = NULL;
    if (text[0] && iter_chain_parse(text, NULL, &chain, &err) < 0) die(text, &err);
    return chain;
}

/* ---- Serving --------------------------------------------------------------------------------- */

/* Answers each "run N" line by n(user, N). */
static int serve(uint64_t (*run)(void *user, uint64_t n), void *user) {
    char line[128];
    while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n") != 0) {
        uint64_t n;
        if (sscanf(line, "run %" SCNu64, &n) != 1) return 2;
        const double start = bench_now();
        const uint64_t samples = run(user, n);
        printf("%" PRIu64 " %.9f\n", samples, bench_now() - start);
        fflush(stdout);
    }
    return 0;
}

static void touch(const iter_batch *batch) {
    static volatile uint8_t sink;
    uint8_t sum = 0;
    for (int32_t f = 0; iter_batch_tensor(batch, f); f++) {
        const iter_tensor *tensor = iter_batch_tensor(batch, f);
        const uint8_t *bytes = tensor->data;
        const size_t n = iter_desc_bytes(&tensor->desc);
        for (size_t i = 0; i < n; i += 64)
            sum = (uint8_t)(sum + bytes[i]);
    }
    sink = sum;
    (void)sink;
}

static uint64_t run_loader(void *user, uint64_t n) {
    iter_loader *loader = user;
    iter_error err;
    uint64_t samples = 0;
    while (n) {
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s < 0) die("next", &err);
        if (s == ITER_END) {
            if (iter_loader_reset(loader, &err) < 0) die("reset", &err);
            continue;
        }
        touch(batch);
        samples += iter_batch_describe(batch).n_rows;
        iter_batch_unref(batch);
        n--;
    }
    return samples;
}

/* ---- own ------------------------------------------------------------------------------------- */

typedef struct own_set {
    iter_description desc;
    const uint8_t *rows[2]; /* data, label */
    size_t bytes[2];
} own_set;

static iter_status own_describe(void *user, iter_description *out, iter_error *err) {
    (void)err;
    *out = ((const own_set *)user)->desc;
    return ITER_OK;
}

static iter_status own_start(void *user, void **out_state, iter_error *err) {
    (void)err;
    *out_state = user;
    return ITER_OK;
}

static void own_stop(void *user, void *state) {
    (void)user;
    (void)state;
}

static iter_status own_get(void *user, void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    const own_set *own = user;
    (void)state, (void)rng, (void)err;
    for (int f = 0; f < 2; f++) {
        uint8_t *to = rows[f].data;
        for (uint32_t i = 0; i < n; i++)
            memcpy(to + i * own->bytes[f], own->rows[f] + indices[i] * own->bytes[f],
                   own->bytes[f]);
    }
    return ITER_OK;
}

static const iter_dataset_ops own_ops = {.struct_size = sizeof(own_ops),
                                         .name = "own",
                                         .describe = own_describe,
                                         .start = own_start,
                                         .stop = own_stop,
                                         .get = own_get};

/* Reads the whole set into arrays, in order. */
static void fill(own_set *own, iter_dataset *data) {
    iter_error err;
    iter_loader *loader;
    iter_batch *batch;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 1000;
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die("loader", &err);
    own->desc.n_samples = iter_loader_n_samples(loader);
    own->desc.n_fields = 2;
    const iter_description *desc = iter_dataset_describe(data);
    for (int f = 0; f < 2; f++) {
        const iter_batch_field *field = iter_loader_field(loader, f);
        for (int32_t i = 0; i < desc->n_fields; i++)
            if (strcmp(desc->fields[i].name, field->name) == 0)
                own->desc.fields[f].desc = desc->fields[i].desc;
        memcpy(own->desc.fields[f].name, field->name, ITER_NAME_MAX);
        own->desc.fields[f].role = field->role;
        own->bytes[f] = iter_desc_bytes(&own->desc.fields[f].desc);
        own->rows[f] = bench_map(own->bytes[f] * own->desc.n_samples);
        if (!own->rows[f]) exit(1);
    }
    uint64_t at = 0;
    while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
        const uint32_t n = iter_batch_describe(batch).n_rows;
        for (int f = 0; f < 2; f++)
            memcpy((uint8_t *)(uintptr_t)own->rows[f] + at * own->bytes[f],
                   iter_batch_tensor(batch, f)->data, n * own->bytes[f]);
        at += n;
        iter_batch_unref(batch);
    }
    iter_loader_unref(loader);
}

static int cmd_own(int workers, const char *spec, const char *chain_text) {
    static own_set own;
    iter_error err;
    iter_dataset *files = open_data(spec), *data;
    fill(&own, files);
    if (iter_dataset_create(&own_ops, &own, &data, &err) < 0) die("own dataset", &err);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = BATCH;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = workers;
    iter_loader *loader;
    if (iter_dataloader_create(data, open_chain(chain_text), &opt, &loader, &err) < 0)
        die("loader", &err);
    const int code = serve(run_loader, loader);
    iter_loader_unref(loader);
    return code;
}

/* ---- hot ------------------------------------------------------------------------------------- */

typedef struct hot_loop {
    uint64_t n, at;
    uint64_t *order;
    int fds[16];
    uint64_t per_file;
    iter_convert *convert;
    uint8_t record[4096];
    float *slot;
    uint8_t labels[BATCH];
} hot_loop;

static uint64_t run_hot(void *user, uint64_t n) {
    hot_loop *hot = user;
    for (uint64_t b = 0; b < n; b++) {
        for (uint32_t i = 0; i < BATCH; i++) {
            const uint64_t index = hot->order[hot->at++ % hot->n];
            if (pread(hot->fds[index / hot->per_file], hot->record, 3073,
                      (off_t)(index % hot->per_file * 3073)) != 3073)
                exit(1);
            hot->labels[i] = hot->record[0];
            iter_convert_run(hot->convert, hot->record + 1, hot->slot + (size_t)i * 3072, NULL);
        }
    }
    return n * BATCH;
}

static int cmd_hot(const char *spec) {
    static hot_loop hot;
    iter_error err;
    iter_dataset *data = open_data(spec);
    const iter_description *desc = iter_dataset_describe(data);
    hot.n = desc->n_samples;
    hot.per_file = hot.n / desc->n_files;
    for (uint64_t i = 0; i < desc->n_files && i < 16; i++)
        hot.fds[i] = open(desc->files[i].path, O_RDONLY);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT; /* for the loader's order */
    opt.batch_size = BATCH;
    opt.shuffle = ITER_SHUFFLE_FULL;
    iter_loader *loader;
    iter_batch *batch;
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die("loader", &err);
    hot.order = bench_map(hot.n * sizeof(uint64_t));
    for (uint64_t at = 0; iter_loader_next(loader, &batch, &err) == ITER_OK;) {
        const uint32_t n = iter_batch_describe(batch).n_rows;
        memcpy(hot.order + at, iter_batch_index(batch), n * sizeof(uint64_t));
        at += n;
        iter_batch_unref(batch);
    }
    iter_loader_unref(loader);
    static const double mean[3] = {0.4914, 0.4822, 0.4465}, std[3] = {0.2470, 0.2435, 0.2616};
    double scale[3], bias[3];
    for (int c = 0; c < 3; c++) {
        scale[c] = 1 / (255 * std[c]);
        bias[c] = -mean[c] / std[c];
    }
    const iter_desc in = {.dtype = ITER_U8, .n_dims = 3, .dims = {3, 32, 32}, .layout = "CHW"};
    iter_desc out = in;
    out.dtype = ITER_F32;
    iter_convert_options options = ITER_CONVERT_OPTIONS_INIT;
    options.scale = scale;
    options.bias = bias;
    options.n_channels = 3;
    if (iter_convert_prepare(&in, &out, &options, &hot.convert, &err) < 0) die("convert", &err);
    hot.slot = bench_map((size_t)BATCH * 3072 * sizeof(float));
    return serve(run_hot, &hot);
}

/* ---- Cold pairs ------------------------------------------------------------------------------ */

static const char **paths_of(const iter_description *desc) {
    const char **paths = malloc(desc->n_files * sizeof(*paths));
    for (uint64_t i = 0; paths && i < desc->n_files; i++)
        paths[i] = desc->files[i].path;
    if (!paths) exit(1);
    return paths;
}

static void say(double *ratios, uint32_t n, const char *what) {
    const measure_interval median = measure_median(ratios, n);
    printf("%s: median %.3f [%.3f, %.3f] of %u pairs\n", what, median.median, median.low,
           median.high, n);
}

static double first_batch(const char *spec, double *out_preload_s) {
    iter_error err;
    iter_loader *loader;
    iter_batch *batch;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = BATCH;
    opt.shuffle = ITER_SHUFFLE_FULL;
    const double start = bench_now();
    iter_dataset *data = open_data(spec);
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die("loader", &err);
    if (iter_loader_next(loader, &batch, &err) != ITER_OK) die("next", &err);
    const double seconds = bench_now() - start;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(loader, &stats, &err) < 0) die("stats", &err);
    *out_preload_s = stats.preload_s;
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return seconds;
}

static int cmd_first(const char *spec, uint32_t pairs) {
    iter_error err;
    iter_dataset *data = open_data(spec);
    const iter_description *desc = iter_dataset_describe(data);
    const char **paths = paths_of(desc);
    double ratios[64];
    for (uint32_t i = 0; i < pairs && i < 64; i++) {
        bare_read_result bare;
        const bare_read_options options = {.ring = true, .direct = true, .depth = 32};
        if (bench_cache_drop(desc, &err) < 0) die("drop", &err);
        double preload;
        const double ours = first_batch(spec, &preload);
        if (bench_cache_drop(desc, &err) < 0) die("drop", &err);
        if (bare_read_files(paths, desc->n_files, &options, &bare, &err) < 0) die("bare", &err);
        ratios[i] = ours / bare.seconds;
        printf("first batch %.1f ms, bare O_DIRECT %.1f ms, ratio %.3f\n", ours * 1e3,
               bare.seconds * 1e3, ratios[i]);
    }
    say(ratios, pairs, "first batch / bare");
    free(paths);
    return 0;
}

static double whole_set(const char *spec, int workers) {
    iter_error err;
    iter_loader *loader;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = BATCH;
    opt.workers = workers;
    opt.reading.source = ITER_SOURCE_RING;
    opt.prefetch = 8;
    const double start = bench_now();
    iter_dataset *data = open_data(spec);
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die("loader", &err);
    run_loader(loader, iter_loader_n_batches(loader));
    const double seconds = bench_now() - start;
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return seconds;
}

static int cmd_files(const char *spec, uint32_t pairs, int workers) {
    iter_error err;
    iter_dataset *data = open_data(spec);
    const iter_description *desc = iter_dataset_describe(data);
    const char **paths = paths_of(desc);
    double ratios[64], preloads[64];
    for (uint32_t i = 0; i < pairs && i < 64; i++) {
        bare_read_result bare;
        const bare_read_options options = {.ring = false};
        if (bench_cache_drop(desc, &err) < 0) die("drop", &err);
        const double ours = whole_set(spec, workers);
        if (bench_cache_drop(desc, &err) < 0) die("drop", &err);
        double preload;
        const double first = first_batch(spec, &preload);
        if (bench_cache_drop(desc, &err) < 0) die("drop", &err);
        if (bare_read_many(paths, desc->n_files, NULL, 1 << 20, &options, &bare, &err) < 0)
            die("bare", &err);
        ratios[i] = bare.seconds / ours;
        preloads[i] = bare.seconds / preload;
        printf("opened, read and tokenised as needed %.2f s; opened and preloaded %.2f s, of which "
               "reading %.2f s; plain open/read/close %.2f s\n",
               ours, first, preload, bare.seconds);
    }
    say(ratios, pairs, "plain / read and tokenised");
    say(preloads, pairs, "plain / reading");
    free(paths);
    return 0;
}

static void open_once(const char *spec, const char *which, double *out_seconds) {
    const double start = bench_now();
    iter_dataset *data = open_data(spec);
    *out_seconds = bench_now() - start;
    const iter_description *desc = iter_dataset_describe(data);
    if (which)
        printf("%s: %s %.4f s, %" PRIu64 " samples, index %.2f bytes a sample\n", spec, which,
               *out_seconds, desc->n_samples, (double)desc->index_bytes / (double)desc->n_samples);
    iter_dataset_unref(data);
}

static int cmd_opening(uint32_t rounds, char **specs, uint32_t n) {
    static double seconds[8][64];
    if (rounds > 64 || n > 8) return 2;
    for (uint32_t i = 0; i < n; i++)
        open_once(specs[i], "first", &seconds[i][0]);
    for (uint32_t r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < n; i++)
            open_once(specs[i], NULL, &seconds[i][r]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const measure_interval median = measure_median(seconds[i], rounds);
        printf("%s: %.4f [%.4f, %.4f] s\n", specs[i], median.median, median.low, median.high);
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct served_rows {
    row_copies *rows;
    bool loops, touches;
} served_rows;

static uint64_t run_rows(void *user, uint64_t n) {
    const served_rows *served = user;
    return (served->loops ? row_copies_loop : row_copies_load)(served->rows, n, served->touches);
}

static int cmd_rows(char **argv) {
    const bool loops = strcmp(argv[0], "loop") == 0, views = strcmp(argv[0], "view") == 0;
    served_rows served = {.loops = loops, .touches = strcmp(argv[5], "read") == 0};
    served.rows = row_copies_open(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10),
                                  (uint32_t)atoi(argv[3]), strcmp(argv[4], "full") == 0, views);
    return serve(run_rows, &served);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static iter_loader *open_loader(const char *spec, const char *text) {
    iter_error err;
    iter_loader *loader;
    iter_dataset *data = open_data(spec);
    iter_chain *chain = open_chain(text);
    iter_loader_options options = ITER_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.workers = 0;
    options.seed = 1;
    if (iter_dataloader_create(data, chain, &options, &loader, &err) < 0) die(spec, &err);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    return loader;
}

static int cmd_chains(char **argv, uint32_t pairs) {
    static double ratios[256];
    iter_loader *loaders[2] = {open_loader(argv[0], argv[1]), open_loader(argv[2], argv[3])};
    double all[2] = {0};
    uint64_t samples = 0;
    if (pairs > 256) return 2;
    for (uint32_t p = 0; p <= pairs; p++) { /* the first one is not measured */
        double seconds[2];
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t k = (i + p) % 2;
            const double start = bench_now();
            const uint64_t n = run_loader(loaders[k], 4);
            seconds[k] = (bench_now() - start) / (double)n;
            if (p == 0) continue;
            samples += n;
            all[k] += seconds[k];
        }
        if (p > 0) ratios[p - 1] = seconds[0] / seconds[1];
    }
    const measure_interval median = measure_median(ratios, pairs);
    printf("%.0f and %.0f samples/s; second / first %.2f [%.2f, %.2f] of %u pairs, %" PRIu64
           " samples\n",
           pairs / all[0], pairs / all[1], median.median, median.low, median.high, pairs, samples);
    for (int i = 0; i < 2; i++)
        iter_loader_unref(loaders[i]);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "own") == 0 && argc == 5) return cmd_own(atoi(argv[2]), argv[3], argv[4]);
    if (strcmp(what, "hot") == 0) return cmd_hot(argv[2]);
    if (strcmp(what, "first") == 0 && argc == 4) return cmd_first(argv[2], (uint32_t)atoi(argv[3]));
    if (strcmp(what, "files") == 0 && argc == 5)
        return cmd_files(argv[2], (uint32_t)atoi(argv[3]), atoi(argv[4]));
    if (strcmp(what, "records-make") == 0 && argc == 5)
        return records_make(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    if (strcmp(what, "records") == 0 && argc == 7)
        return records_warm(argv[2], atoi(argv[3]), strtoull(argv[4], NULL, 10),
                            (uint32_t)atoi(argv[5]), (uint32_t)atoi(argv[6]));
    if (strcmp(what, "cold") == 0 && (argc == 7 || argc == 8))
        return cold_rows(argv[2], argv[3], atoi(argv[4]), (uint32_t)atoi(argv[5]),
                         (uint32_t)atoi(argv[6]), argc > 7 ? (uint32_t)atoi(argv[7]) : 8);
    if (strcmp(what, "tokens") == 0 && argc == 6)
        return tokens_warm(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]),
                           (uint32_t)atoi(argv[5]));
    if (strcmp(what, "rows") == 0 && argc == 8) return cmd_rows(argv + 2);
    if (strcmp(what, "mix-even") == 0 && argc == 3) return mix_even(strtoull(argv[2], NULL, 10));
    if (strcmp(what, "mix-sources") == 0 && argc == 4)
        return mix_sources(argv[2], (uint32_t)atoi(argv[3]));
    if (strcmp(what, "opening") == 0 && argc > 3)
        return cmd_opening((uint32_t)atoi(argv[2]), argv + 3, (uint32_t)argc - 3);
    if (strcmp(what, "chains") == 0 && argc == 7)
        return cmd_chains(argv + 2, (uint32_t)atoi(argv[6]));
    fprintf(stderr, "usage: numbers own WORKERS DATA CHAIN | hot DATA | first DATA PAIRS | files "
                    "DATA PAIRS WORKERS | records-make FILE BYTES N | records DATA WORKERS BLOCK "
                    "BATCH PAIRS | cold DATA CHAIN WORKERS DEPTH PAIRS [PREFETCH] | tokens FILE "
                    "LENGTH BATCH ROUNDS | rows load|view|loop BYTES N BATCH full|none "
                    "read|free | mix-even DRAWS | mix-sources FOLDER N | "
                    "opening ROUNDS DATA ... | chains DATA CHAIN DATA CHAIN PAIRS\n");
    return 2;
}
