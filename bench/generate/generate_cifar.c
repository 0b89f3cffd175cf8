/*
 * generate_cifar.c - a set in the binary format of CIFAR-10, for machines without the real one.
 *
 * A record is a label byte and 3 x 32 x 32 pixels. Pixels are a pattern of the class under noise,
 * so that a network has something to learn. The bytes depend only on --seed and --n: each file has
 * its own random stream.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/common/bench_util.h"
#include "bench/generate/generate.h"

#define N_CLASSES     10
#define PIXELS        3072
#define RECORD_BYTES  (1 + PIXELS)
#define CHUNK_RECORDS 500

static const char *const file_names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
static const char class_names[] =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Soft stripes: each class has its own colour, width and direction. */
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
    uint8_t label = (uint8_t)(generate_random(state) % N_CLASSES);
    const uint8_t *pattern = patterns[label];
    out[0] = label;
    for (int i = 0; i < PIXELS; i += 8) {
        uint64_t noise = generate_random(state);
        for (int k = 0; k < 8; k++) {
            int value = (pattern[i + k] * 3 + (int)(noise >> 8 * k & 0xff)) / 4;
            out[1 + i + k] = (uint8_t)value;
        }
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct generator {
    uint64_t n_records, seed;
    const char *folder;
    uint8_t patterns[N_CLASSES][PIXELS];
    uint8_t chunk[CHUNK_RECORDS * RECORD_BYTES];
} generator;

static iter_status write_records(generator *g, int number, int file, const char *path,
                                 iter_error *err) {
    uint64_t state = g->seed + (uint64_t)number * 0x632be59bd9b4e019u;
    iter_status s = ITER_OK;
    for (uint64_t at = 0; s == ITER_OK && at < g->n_records;) {
        uint64_t n = g->n_records - at < CHUNK_RECORDS ? g->n_records - at : CHUNK_RECORDS;
        for (uint64_t i = 0; i < n; i++)
            make_record(&state, g->patterns, g->chunk + i * RECORD_BYTES);
        s = generate_write(file, g->chunk, n * RECORD_BYTES, path, err);
        at += n;
    }
    return s;
}

/* Writes a new file, whole or not at all. If it exists, it is left alone. */
static iter_status write_file(generator *g, const char *name, int number, iter_error *err) {
    char path[4096], part[4096 + 8];
    if (snprintf(path, sizeof(path), "%s/%s", g->folder, name) >= (int)sizeof(path))
        return bench_fail(err, ITER_EINVAL, "%.100s...: the path is too long", g->folder);
    snprintf(part, sizeof(part), "%s.part", path);
    if (access(path, F_OK) == 0) return bench_fail(err, ITER_EINVAL, "%s: exists already", path);
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return bench_fail(err, ITER_EIO, "%s: %s", part, strerror(errno));
    iter_status s = number >= 0
                        ? write_records(g, number, file, part, err)
                        : generate_write(file, class_names, sizeof(class_names) - 1, part, err);
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

iter_status generate_cifar(const bench_options *options, const char *folder, iter_error *err) {
    generator *g = calloc(1, sizeof(*g));
    if (g == NULL) return bench_fail(err, ITER_ENOMEM, "no memory");
    g->n_records = options->n > 0 ? options->n : 10000;
    g->seed = options->seed;
    g->folder = folder;
    iter_status s = generate(g, err);
    free(g);
    return s;
}
