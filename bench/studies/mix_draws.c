/* mix_draws.c - see mix_draws.h. */
#include "bench/studies/mix_draws.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/iter.h>

#include "bench/common/bench_util.h"

#define SOURCES_MAX 500
#define PIECE       500
#define TOKENS      (8u << 20) /* of the whole set */
#define LENGTH      256

static _Noreturn void die(const char *what, const iter_error *err) {
    fprintf(stderr, "numbers: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

/* ---- How even draws are ---------------------------------------------------------------------- */

typedef struct mix {
    uint32_t n;
    iter_part parts[SOURCES_MAX];
    char names[SOURCES_MAX][16], changes[SOURCES_MAX * 48];
    double later[SOURCES_MAX]; /* weights from the middle on */
    uint64_t first[SOURCES_MAX + 1];
} mix;

static void make_mix(mix *m, uint32_t n, uint64_t middle) {
    iter_rng rng = iter_rng_at(iter_rng_key(n, "mix_draws", 0), 0, 0);
    double sum = 0, later_sum = 0;
    char *at = m->changes;
    m->n = n;
    at += sprintf(at, "%" PRIu64, middle);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(m->names[i], sizeof(m->names[i]), "s%u", i);
        const double u = (double)iter_rng_below(&rng, 1u << 30) / (1u << 30);
        const double v = (double)iter_rng_below(&rng, 1u << 30) / (1u << 30);
        m->parts[i] = (iter_part){.name = m->names[i],
                                  .n_samples = 1000 + iter_rng_below(&rng, 100000),
                                  .weight = exp(4 * u)};
        m->later[i] = exp(4 * v);
        m->first[i + 1] = m->first[i] + m->parts[i].n_samples;
        at += sprintf(at, " s%u=%.17g", i, m->later[i]);
        sum += m->parts[i].weight;
        later_sum += m->later[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        m->later[i] /= later_sum;
        m->parts[i].weight /= sum;
    }
}

static uint32_t source_of(const mix *m, uint64_t index) {
    uint32_t low = 0, high = m->n;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (m->first[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

typedef struct found {
    double farthest;
    uint64_t wrong; /* draws of a sample that its source's epoch has had already */
} found;

/* A count is farthest from its share right before and right after a draw of its source. */
static found go_through(const mix *m, const iter_sampler_ops *ops, void *state, uint64_t draws,
                        uint64_t n_epoch, uint64_t middle) {
    found f = {0};
    uint64_t had[SOURCES_MAX] = {0}, since[SOURCES_MAX] = {0}, out[PIECE];
    uint16_t *seen = calloc(m->first[m->n], sizeof(*seen));
    if (!seen) die("memory", NULL);
    for (uint64_t t = 0; t < draws; t += PIECE) {
        ops->index(state, (uint32_t)(t / n_epoch), t % n_epoch, PIECE, out);
        for (uint32_t i = 0; i < PIECE; i++) {
            const uint32_t s = source_of(m, out[i]);
            const bool later = t + i >= middle;
            if (t + i == middle) memcpy(since, had, sizeof(since));
            const double weight = later ? m->later[s] : m->parts[s].weight;
            const uint64_t steps = later ? t + i - middle : t + i;
            const double before = (double)(had[s] - since[s]) - weight * (double)steps;
            f.farthest = fmax(f.farthest, fmax(fabs(before), fabs(before + 1 - weight)));
            f.wrong += seen[out[i]]++ != had[s]++ / m->parts[s].n_samples;
        }
    }
    free(seen);
    return f;
}

int mix_even(uint64_t draws) {
    static const uint32_t sizes[] = {3, 10, 50, 500};
    static mix m;
    const iter_sampler_ops *ops = iter_registry_sampler(NULL, "mix");
    const uint64_t n_epoch = 1000000, middle = draws / 2 / PIECE * PIECE;
    printf("sources  farthest  lost or twice  ms to make  ns a draw  ns at random\n");
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        make_mix(&m, sizes[k], middle);
        const iter_mix_options options = {(int64_t)n_epoch, true, m.changes};
        const iter_sampler_context context = {.n_samples = m.first[m.n],
                                              .seed = 1,
                                              .batch_size = 64,
                                              .ranks = 1,
                                              .parts = m.parts,
                                              .n_parts = (int32_t)m.n};
        iter_error err;
        void *state = calloc(1, ops->base.state_size);
        double start = bench_now();
        if (!state || ops->open(state, &options, &context, &err) < 0) die("mix", &err);
        const double opened = bench_now() - start;
        const found f = go_through(&m, ops, state, draws, n_epoch, middle);
        uint64_t out[64];
        start = bench_now();
        for (uint64_t t = 0; t < 1000000 - 64; t += 64)
            ops->index(state, 0, t, 64, out);
        const double in_turn = (bench_now() - start) * 1e3;
        start = bench_now();
        for (uint64_t i = 0; i < 20000; i++)
            ops->index(state, (uint32_t)(i * 7919 % 9), i * 40503 % 999000, 1, out);
        const double anywhere = (bench_now() - start) / 20000 * 1e9;
        printf("%7u  %8.3f  %13" PRIu64 "  %10.1f  %9.1f  %12.0f\n", m.n, f.farthest, f.wrong,
               opened * 1e3, in_turn, anywhere);
        ops->close(state);
        free(state);
    }
    return 0;
}

/* ---- What sources cost ----------------------------------------------------------------------- */

static uint32_t count_in(const char *folder) {
    uint32_t n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

static uint64_t resident_kib(void) {
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
    if (file) fclose(file);
    return kib;
}

static void write_tokens(const char *path, uint32_t n) {
    static uint16_t piece[1 << 16];
    FILE *file = fopen(path, "wb");
    if (!file) die(path, NULL);
    for (uint32_t i = 0; i < 1 << 16; i++)
        piece[i] = (uint16_t)(i * 40503u);
    for (uint32_t done = 0; done < n; done += 1 << 16)
        fwrite(piece, 2, n - done < 1 << 16 ? n - done : 1 << 16, file);
    fclose(file);
}

static void run_some(iter_loader *loader, int batches) {
    iter_batch *batch;
    iter_error err;
    for (int i = 0; i < batches; i++) {
        if (iter_loader_next(loader, &batch, &err) != ITER_OK) die("next", &err);
        iter_batch_unref(batch);
    }
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Longest and median time of a restore and of the first batch after it. */
static void time_restores(iter_loader *loader, iter_dataset *data, const iter_loader_options *opt) {
    enum { PLACES = 101 };
    double restore[PLACES], batch_s[PLACES];
    iter_error err;
    iter_loader *other;
    if (iter_dataloader_create(data, NULL, opt, &other, &err) < 0) die("loader", &err);
    const uint64_t n = iter_loader_n_batches(loader);
    for (uint32_t i = 0; i < PLACES; i++) {
        uint8_t saved[1024];
        size_t size;
        iter_batch *batch;
        const uint64_t at = i * UINT64_C(7919) % (n - 1) * opt->batch_size;
        if (iter_loader_seek(loader, i % 5, at, &err) < 0) die("seek", &err);
        if (iter_loader_save(loader, saved, sizeof(saved), &size, &err) < 0) die("save", &err);
        const double start = bench_now();
        if (iter_loader_restore(other, saved, size, &err) < 0) die("restore", &err);
        const double restored = bench_now();
        if (iter_loader_next(other, &batch, &err) != ITER_OK) die("next", &err);
        restore[i] = (restored - start) * 1e3;
        batch_s[i] = (bench_now() - start) * 1e3;
        iter_batch_unref(batch);
    }
    qsort(restore, PLACES, sizeof(restore[0]), by_size);
    qsort(batch_s, PLACES, sizeof(batch_s[0]), by_size);
    printf("  restore %.3f ms, at most %.3f; with the next batch %.3f ms, at most %.3f\n",
           restore[PLACES / 2], restore[PLACES - 1], batch_s[PLACES / 2], batch_s[PLACES - 1]);
    iter_loader_unref(other);
}

static void measure_set(const char *name, const char *spec) {
    iter_error err;
    iter_dataset *data;
    iter_loader *loader;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = 2;
    opt.reading.source = ITER_SOURCE_RING;
    const uint64_t before = resident_kib();
    const double start = bench_now();
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) die(name, &err);
    const double opened = bench_now();
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die(name, &err);
    const double made = bench_now();
    run_some(loader, 200);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(loader, &stats, &err) < 0) die(name, &err);
    printf("%s: %u threads, %u open files, %" PRIu64 " KiB resident (%" PRIu64
           " of slots, arena and scratch), open %.1f ms, create %.1f ms\n",
           name, count_in("/proc/self/task"), count_in("/proc/self/fd"), resident_kib() - before,
           (stats.slot_bytes + stats.arena_bytes + stats.scratch_bytes) >> 10,
           (opened - start) * 1e3, (made - opened) * 1e3);
    time_restores(loader, data, &opt);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int mix_sources(const char *folder, uint32_t n) {
    char path[1024];
    char *spec = malloc((size_t)n * 1200 + 100), *at = spec;
    if (!spec || n < 1) return 1;
    at += sprintf(at, "mix:{");
    for (uint32_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/part%03u.bin", folder, i);
        write_tokens(path, TOKENS / n);
        at += sprintf(at, "p%u=%u tokens:%s?length=%d;", i, 1 + i % 7, path, LENGTH);
    }
    sprintf(at, "}");
    char one[1200];
    snprintf(path, sizeof(path), "%s/whole.bin", folder);
    write_tokens(path, TOKENS);
    snprintf(one, sizeof(one), "mix:{all=1 tokens:%s?length=%d}", path, LENGTH);
    measure_set("(first)", one);
    measure_set("one source", one);
    snprintf(path, sizeof(path), "%u sources", n);
    measure_set(path, spec);
    free(spec);
    return 0;
}
