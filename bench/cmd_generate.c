/*
 * cmd_generate.c - `iterbench generate cifar10 DIR`: a set in the binary format of CIFAR-10, for
 * machines that have not got it.
 *
 * A record is a label byte and 3 x 32 x 32 pixels. Pixels are a pattern of the class under noise,
 * so that a network has something to learn. The bytes depend on --seed and --n alone: splitmix64
 * (Steele, Lea, Flood 2014), a stream a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_util.h"
#include "iterbench.h"

#define N_CLASSES     10
#define PIXELS        3072
#define RECORD_BYTES  (1 + PIXELS)
#define CHUNK_RECORDS 500

static const char *const file_names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
static const char class_names[] =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

/* ---- Bytes ----------------------------------------------------------------------------------- */

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Soft stripes: colour, width and direction belong to the class. */
static void make_patterns(uint8_t patterns[N_CLASSES][PIXELS]) {
    for (int k = 0; k < N_CLASSES; k++)
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++) {
                    int across = k % 2 == 0 ? x + y * (k / 4) : y + x * (k / 4);
                    int stripe = across * (2 + k % 5) % 32;
                    int shade = stripe < 16 ? stripe : 32 - stripe;
                    patterns[k][(c * 32 + y) * 32 + x] =
                        (uint8_t)(48 + shade * 5 + (k * 23 + c * 41) % 60);
                }
}

static void make_record(uint64_t *state, uint8_t patterns[N_CLASSES][PIXELS], uint8_t *out) {
    uint8_t label = (uint8_t)(splitmix(state) % N_CLASSES);
    const uint8_t *pattern = patterns[label];
    out[0] = label;
    for (int i = 0; i < PIXELS; i += 8) {
        uint64_t noise = splitmix(state);
        for (int k = 0; k < 8; k++) {
            int value = (pattern[i + k] * 3 + (int)(noise >> 8 * k & 0xff)) / 4;
            out[1 + i + k] = (uint8_t)value;
        }
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static iter_status write_all(int file, const void *bytes, size_t size, const char *path,
                             iter_error *err) {
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t n = write(file, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
        at += n;
        size -= (size_t)n;
    }
    return ITER_OK;
}

typedef struct generator {
    const bench_options *options;
    const char *folder;
    uint8_t patterns[N_CLASSES][PIXELS];
    uint8_t chunk[CHUNK_RECORDS * RECORD_BYTES];
} generator;

static iter_status write_records(generator *g, int number, int file, const char *path,
                                 iter_error *err) {
    uint64_t state = g->options->seed + (uint64_t)number * 0x632be59bd9b4e019u;
    iter_status s = ITER_OK;
    for (uint64_t at = 0; s == ITER_OK && at < g->options->n;) {
        uint64_t n = g->options->n - at < CHUNK_RECORDS ? g->options->n - at : CHUNK_RECORDS;
        for (uint64_t i = 0; i < n; i++)
            make_record(&state, g->patterns, g->chunk + i * RECORD_BYTES);
        s = write_all(file, g->chunk, n * RECORD_BYTES, path, err);
        at += n;
    }
    return s;
}

/* A new file, whole or not at all; one that exists is never touched. */
static iter_status write_file(generator *g, const char *name, int number, iter_error *err) {
    char path[4096], part[4096 + 8];
    if (snprintf(path, sizeof(path), "%s/%s", g->folder, name) >= (int)sizeof(path))
        return bench_fail(err, ITER_EINVAL, "%.100s...: the path is too long", g->folder);
    snprintf(part, sizeof(part), "%s.part", path);
    if (access(path, F_OK) == 0) return bench_fail(err, ITER_EINVAL, "%s: exists already", path);
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return bench_fail(err, ITER_EIO, "%s: %s", part, strerror(errno));
    iter_status s = number >= 0 ? write_records(g, number, file, part, err)
                                : write_all(file, class_names, sizeof(class_names) - 1, part, err);
    if (close(file) < 0 && s == ITER_OK)
        s = bench_fail(err, ITER_EIO, "%s: %s", part, strerror(errno));
    if (s == ITER_OK && rename(part, path) < 0)
        s = bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    if (s < 0) unlink(part);
    return s;
}

static iter_status generate(generator *g, iter_error *err) {
    if (mkdir(g->folder, 0755) < 0 && errno != EEXIST)
        return bench_fail(err, ITER_EIO, "%s: %s", g->folder, strerror(errno));
    make_patterns(g->patterns);
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < 6; i++)
        s = write_file(g, file_names[i], i, err);
    return s == ITER_OK ? write_file(g, "batches.meta.txt", -1, err) : s;
}

int cmd_generate(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    if (options->n_words != 2 || strcmp(options->words[0], "cifar10") != 0) {
        bench_fail(&err, ITER_EINVAL, "generate wants: cifar10 DIR [--n N] [--seed N]");
        return bench_say(BENCH_USAGE, &err);
    }
    generator *g = calloc(1, sizeof(*g));
    if (g == NULL) return bench_say(BENCH_FAILED, &err);
    g->options = options;
    g->folder = options->words[1];
    double start = bench_now();
    iter_status s = generate(g, &err);
    free(g);
    if (s < 0) return bench_say(BENCH_FAILED, &err);
    printf("%s: 6 files of %" PRIu64 " records and batches.meta.txt, in %.2f s\n",
           options->words[1], options->n, bench_now() - start);
    return BENCH_DONE;
}
