/* token_windows.c - see token_windows.h. */
#include "bench/studies/token_windows.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iter/iter.h>

#include "bench/common/bench_util.h"
#include "bench/measure/measure.h"

#define ROUNDS_MAX 101
#define SLOTS      4
#define SLICE      400 /* batches */

typedef enum arm { MAPPED, PREAD, MEMORY, RING, BY_PREAD, ARMS } arm;

static const char *const arm_names[ARMS] = {"loop over a mapping", "loop of pread",
                                            "loader, in memory", "loader, ring", "loader, pread"};
static const int32_t arm_sources[ARMS] = {
    [MEMORY] = ITER_SOURCE_MEMORY, [RING] = ITER_SOURCE_RING, [BY_PREAD] = ITER_SOURCE_PREAD};

typedef struct study {
    uint32_t length, batch;
    int n_fields; /* 1 or 2 */
    const uint16_t *map;
    int fd;
    uint64_t n_rows, at; /* at: of the loops, in the order */
    uint64_t *order;
    iter_convert *convert;
    int32_t *slots[SLOTS][2];
    uint16_t *row; /* for pread */
    iter_loader *loaders[ARMS];
} study;

static _Noreturn void die(const char *what, const iter_error *err) {
    fprintf(stderr, "numbers: %s: %s\n", what, err->message);
    exit(1);
}

/* ---- Loops ----------------------------------------------------------------------------------- */

static const uint16_t *source_of(const study *s, arm which, uint64_t index) {
    const uint64_t first = index * s->length;
    if (which == MAPPED) return s->map + first;
    const size_t bytes = (s->length + 1) * sizeof(uint16_t);
    if (pread(s->fd, s->row, bytes, (off_t)(2 * first)) != (ssize_t)bytes) exit(1);
    return s->row;
}

/* A loop knows the next row, too, and prefetches it as the loader does. */
static void run_loop(study *s, arm which, uint32_t n_batches) {
    const size_t width = s->n_fields == 1 ? s->length + 1 : s->length;
    for (uint32_t b = 0; b < n_batches; b++) {
        int32_t *const *slot = s->slots[b % SLOTS];
        for (uint32_t i = 0; i < s->batch; i++) {
            const uint64_t next = s->at + 1 < s->n_rows ? s->at + 1 : 0;
            const uint16_t *from = source_of(s, which, s->order[s->at]);
            const uint16_t *ahead = which == MAPPED ? s->map + s->order[next] * s->length : NULL;
            iter_convert_run(s->convert, from, slot[0] + i * width, ahead);
            if (s->n_fields == 2) iter_convert_run(s->convert, from + 1, slot[1] + i * width, NULL);
            s->at = next;
        }
    }
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static void run_loader(iter_loader *loader, uint32_t n_batches) {
    iter_error err;
    while (n_batches > 0) {
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s < 0) die("next", &err);
        if (s == ITER_END) {
            if (iter_loader_reset(loader, &err) < 0) die("reset", &err);
            continue;
        }
        iter_batch_unref(batch);
        n_batches--;
    }
}

static iter_loader *open_loader(const study *s, const char *path, int32_t source) {
    char spec[1200];
    iter_error err;
    iter_dataset *data;
    iter_chain *chain;
    iter_loader *loader;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = s->batch;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.last_batch = ITER_LAST_DISCARD;
    opt.reading.source = source;
    snprintf(spec, sizeof(spec), "tokens:\"%s\"?length=%u&label=%d", path, s->length,
             s->n_fields == 2);
    const char *text = s->n_fields == 2 ? "cast:i32 | cast:i32,field=label" : "cast:i32";
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) die(spec, &err);
    if (iter_chain_parse(text, NULL, &chain, &err) < 0) die(text, &err);
    if (iter_dataloader_create(data, chain, &opt, &loader, &err) < 0) die("loader", &err);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return loader;
}

/* The rows of an epoch, in the loader's order. */
static void read_order(study *s) {
    iter_error err;
    iter_batch *batch;
    s->n_rows = 0;
    while (iter_loader_next(s->loaders[MEMORY], &batch, &err) == ITER_OK) {
        const uint32_t n = iter_batch_describe(batch).n_rows;
        memcpy(s->order + s->n_rows, iter_batch_index(batch), n * sizeof(uint64_t));
        s->n_rows += n;
        iter_batch_unref(batch);
    }
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void open_study(study *s, const char *path) {
    iter_error err;
    struct stat st;
    s->fd = open(path, O_RDONLY);
    if (s->fd < 0 || fstat(s->fd, &st) < 0) {
        perror(path);
        exit(1);
    }
    s->map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, s->fd, 0);
    s->order = bench_map(((size_t)st.st_size / 2 / s->length + 1) * sizeof(uint64_t));
    s->row = bench_map((s->length + 1) * sizeof(uint16_t));
    const int64_t width = s->length + (s->n_fields == 1);
    const iter_desc in = {.dtype = ITER_U16, .n_dims = 1, .dims = {width}};
    iter_desc out = in;
    out.dtype = ITER_I32;
    if (iter_convert_prepare(&in, &out, NULL, &s->convert, &err) < 0) die("convert", &err);
    for (int i = 0; i < SLOTS; i++)
        for (int f = 0; f < s->n_fields; f++)
            s->slots[i][f] = bench_map((size_t)s->batch * (size_t)width * sizeof(int32_t));
    for (int a = MEMORY; a < ARMS; a++)
        s->loaders[a] = open_loader(s, path, arm_sources[a]);
    read_order(s);
}

static void run_arm(study *s, arm which) {
    if (s->loaders[which])
        run_loader(s->loaders[which], SLICE);
    else
        run_loop(s, which, SLICE);
}

static void say_ratio(double (*rates)[ROUNDS_MAX], arm of, arm by, uint32_t rounds,
                      const char *clock) {
    double ratios[ROUNDS_MAX];
    for (uint32_t r = 0; r < rounds; r++)
        ratios[r] = rates[of][r] / rates[by][r];
    const measure_interval m = measure_median(ratios, rounds);
    printf("  %-18s of the %-20s %.3f [%.3f, %.3f], by %s\n", arm_names[of], arm_names[by],
           m.median, m.low, m.high, clock);
}

static void run_study(study *s, uint32_t rounds) {
    static double wall[ARMS][ROUNDS_MAX], cpu[ARMS][ROUNDS_MAX];
    const double tokens = (double)SLICE * s->batch * s->length;
    for (uint32_t r = 0; r <= rounds; r++)
        for (int a = 0; a < ARMS; a++) {
            const double start = bench_now();
            const uint64_t cpu_start = bench_cpu_ns();
            run_arm(s, (arm)a);
            if (r == 0) continue; /* warms up */
            wall[a][r - 1] = tokens / (bench_now() - start);
            cpu[a][r - 1] = tokens / ((double)(bench_cpu_ns() - cpu_start) * 1e-9);
        }
    printf("length %u, batch %u, %s, %u rounds\n", s->length, s->batch,
           s->n_fields == 2 ? "inputs and targets" : "one field of length + 1", rounds);
    for (int by = 0; by < 2; by++) {
        say_ratio(by ? wall : cpu, MEMORY, MAPPED, rounds, by ? "time" : "processor");
        say_ratio(by ? wall : cpu, RING, PREAD, rounds, by ? "time" : "processor");
        say_ratio(by ? wall : cpu, BY_PREAD, PREAD, rounds, by ? "time" : "processor");
    }
    for (int a = 0; a < ARMS; a++)
        printf("  %-20s %.3f G tokens/s, %.3f a second of the processor\n", arm_names[a],
               measure_median(wall[a], rounds).median / 1e9,
               measure_median(cpu[a], rounds).median / 1e9);
}

int tokens_warm(const char *path, uint32_t length, uint32_t batch, uint32_t rounds) {
    if (rounds == 0 || rounds > ROUNDS_MAX || length == 0 || batch == 0) return 2;
    for (int n_fields = 2; n_fields >= 1; n_fields--) {
        study s = {.length = length, .batch = batch, .n_fields = n_fields};
        open_study(&s, path);
        run_study(&s, rounds);
        for (int a = MEMORY; a < ARMS; a++)
            iter_loader_unref(s.loaders[a]);
        iter_convert_destroy(s.convert);
    }
    return 0;
}
