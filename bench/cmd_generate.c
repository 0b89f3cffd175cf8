/*
 * cmd_generate.c - `iterbench generate cifar10|photos DIR`: data for machines that have none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "bench/generate/generate.h"
#include "bench/iterbench.h"

static iter_status cifar(const bench_options *options, const char *folder, iter_error *err) {
    double start = bench_now();
    iter_status s = generate_cifar(options, folder, err);
    if (s < 0) return s;
    printf("%s: 6 files of %" PRIu64 " records and batches.meta.txt, in %.2f s\n",
           BENCH_SHOWN(folder), options->n > 0 ? options->n : 10000, bench_now() - start);
    return ITER_OK;
}

static iter_status photos(const bench_options *options, const char *folder, iter_error *err) {
    uint64_t n = options->n > 0 ? options->n : 300, bytes;
    double start = bench_now();
    iter_status s = generate_photos(options, folder, &bytes, err);
    if (s < 0) return s;
    printf("%s: %" PRIu64 " photos in 10 classes, %.0f KB each, in %.2f s\n", BENCH_SHOWN(folder),
           n, (double)bytes / (double)n / 1e3, bench_now() - start);
    return ITER_OK;
}

int cmd_generate(const bench_options *options) {
    static const struct {
        const char *name;
        iter_status (*make)(const bench_options *options, const char *folder, iter_error *err);
    } makers[] = {{"cifar10", cifar}, {"photos", photos}};
    iter_error err;
    for (size_t i = 0; options->n_words == 2 && i < sizeof(makers) / sizeof(makers[0]); i++) {
        if (strcmp(options->words[0], makers[i].name) != 0) continue;
        iter_status s = makers[i].make(options, options->words[1], &err);
        return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
    }
    char hint[BENCH_HINT];
    bench_fail(
        &err, ITER_EINVAL, "generate wants: cifar10|photos DIR [--n N] [--seed N]%s",
        bench_hint(options->n_words == 2 ? options->words[0] : "", "cifar10|photos", "", hint));
    return bench_say(BENCH_USAGE, &err);
}
