/*
 * loops.c - does a passive watch find bottlenecks that were planted into training loops?
 *
 *     loops [--seconds 4] [--seed 1] [--only NAME] [--quick]
 *
 * Each loop is an ordinary one over a loader of its own, with a cause of known kind; strengths are
 * drawn from the seed. The watch (<iter/diagnose.h>) knows nothing of the plant. One line a loop:
 * what was planted, what was found, whether that is right, and how sure it is. --quick runs each
 * loop for 0.3 s and judges nothing: it shows that every verdict can be made.
 *
 *     loops --cost [--seconds 30]
 *
 * What the watch costs: a loop over pictures whose loader is the limit, with a watch and without,
 * in slices that take turns. Prints the ratio of the rates with its interval.
 */
#include <iter/diagnose.h>
#include <iter/iter.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "diagnose/interval.h"

#define ROWS       4096
#define WIDTH      256
#define LIMITS_MAX 4

/* ---- Time ------------------------------------------------------------------------------------ */

static double clock_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void rest(double us) {
    struct timespec t = {(time_t)(us * 1e-6), (long)(us * 1e3) % 1000000000};
    while (us > 0 && nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}

/* By the thread's own clock, so that it is the same work if threads share a core. */
static void burn(double us) {
    const double until = clock_us(CLOCK_THREAD_CPUTIME_ID) + us;
    while (clock_us(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
}

/* ---- Loops ----------------------------------------------------------------------------------- */

typedef enum loop_kind { OURS, FILES, ANOTHERS } loop_kind;

/* Times are microseconds: of get() and of the stage a row, of the consumer a batch. */
typedef struct loop {
    const char *name;
    iter_limit limits[LIMITS_MAX]; /* right answers; the rest is 0 unless `none_is_right` */
    int n_limits;
    loop_kind kind;
    int32_t workers, batch, prefetch;
    double get_burn, get_rest, stage_burn, read_rest;
    double consumer_burn, consumer_rest;
    int consumer_threads; /* that burn at once; 0 = 1 */
    int one_at_a_time;    /* get() takes turns */
    int slow_worker;      /* the stage takes its time in worker 0 alone */
    int bursts;           /* get() rests only every so many rows, and then for all of them */
} loop;

#define ONE(a)    {ITER_LIMIT_##a}, 1
#define TWO(a, b) {ITER_LIMIT_##a, ITER_LIMIT_##b}, 2

static const loop loops[] = {
    {"slow-consumer", ONE(CONSUMER), OURS, .workers = 2, .get_burn = 30, .consumer_rest = 8000},
    {"busy-consumer", ONE(CONSUMER), OURS, .workers = 1, .get_burn = 30, .consumer_burn = 8000},
    {"light-loader", TWO(CONSUMER, NONE), OURS, .workers = 0, .get_burn = 2, .consumer_rest = 6000},
    {"slow-stage", ONE(TRANSFORM), OURS, .workers = 2, .stage_burn = 300, .consumer_rest = 1000},
    {"slow-get", ONE(DECODE), OURS, .workers = 2, .get_burn = 300, .consumer_rest = 1000},
    {"slow-get-waits", TWO(WORKERS, DECODE), OURS, .workers = 1, .get_rest = 300,
     .consumer_rest = 1000},
    {"slow-source", ONE(READ), FILES, .workers = 2, .read_rest = 1500, .consumer_rest = 1000},
    {"one-worker", ONE(WORKERS), OURS, .workers = 1, .get_burn = 200, .consumer_rest = 3500},
    {"no-worker", ONE(WORKERS), OURS, .workers = 0, .get_burn = 150, .consumer_rest = 5000},
    {"no-worker-stage", ONE(WORKERS), OURS, .workers = 0, .stage_burn = 150, .consumer_burn = 4000},
    {"small-batch", ONE(BATCH), OURS, .workers = 1, .batch = 1},
    {"one-at-a-time", ONE(TURN), OURS, .workers = 2, .get_rest = 250, .one_at_a_time = 1,
     .consumer_rest = 1000},
    {"slow-worker", ONE(WORKER), OURS, .workers = 2, .stage_burn = 300, .slow_worker = 1,
     .get_burn = 20, .consumer_rest = 300},
    {"crowded", ONE(CPU), OURS, .workers = 2, .get_burn = 250, .consumer_burn = 5000,
     .consumer_threads = 2},
    {"bursts", ONE(PREFETCH), OURS, .workers = 1, .prefetch = 2, .get_rest = 40, .bursts = 512,
     .consumer_rest = 2600},
    {"healthy", ONE(CONSUMER), OURS, .workers = 2, .get_burn = 60, .consumer_rest = 4000},
    {"another-slow", ONE(LOADER), ANOTHERS, .workers = -1, .get_rest = 150, .consumer_rest = 2000},
    {"another-fast", ONE(CONSUMER), ANOTHERS, .workers = -1, .get_burn = 1, .consumer_rest = 5000},
    {"another-inline", ONE(WORKERS), ANOTHERS, .workers = 0, .get_burn = 150,
     .consumer_rest = 3000},
};

/* What callbacks of one loop need. */
typedef struct plant {
    const loop *loop;
    double strength;
    atomic_long rows;
} plant;

static plant *planted; /* of the loop that runs: a stage's table has no user pointer */

/* ---- Its dataset, stage and source ----------------------------------------------------------- */

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = ROWS;
    out->n_fields = 1;
    out->fields[0] =
        (iter_field){.name = "data", .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {WIDTH}}};
    return ITER_OK;
}

static void make_rows(plant *p, uint32_t n) {
    const loop *l = p->loop;
    burn(p->strength * l->get_burn * n);
    if (l->bursts == 0) {
        rest(p->strength * l->get_rest * n);
        return;
    }
    const long before = atomic_fetch_add(&p->rows, (long)n);
    if (before / l->bursts != (before + (long)n) / l->bursts)
        rest(p->strength * l->get_rest * l->bursts);
}

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)state, (void)rng, (void)err;
    for (uint32_t i = 0; i < n; i++)
        memset((char *)rows[0].data + (int64_t)i * rows[0].strides[0], (int)indices[i], WIDTH);
    make_rows(user, n);
    return ITER_OK;
}

static const iter_dataset_ops shared_ops = {.struct_size = sizeof(iter_dataset_ops),
                                            .name = "rows",
                                            .describe = describe,
                                            .get = get,
                                            .parallel = 1};
static const iter_dataset_ops turns_ops = {
    .struct_size = sizeof(iter_dataset_ops), .name = "rows", .describe = describe, .get = get};

static iter_status stage_plan(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    (void)options, (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status stage_apply(void *state, const void *options, const iter_tensor *in,
                               iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    char name[32] = "";
    (void)state, (void)options, (void)rng, (void)scratch, (void)err;
    memcpy(out->data, in->data, iter_desc_bytes(&in->desc));
    if (planted->loop->slow_worker) pthread_getname_np(pthread_self(), name, sizeof(name));
    if (!planted->loop->slow_worker || strstr(name, "-w0") != NULL)
        burn(planted->strength * planted->loop->stage_burn);
    return ITER_OK;
}

static const iter_transform_ops stage = {
    .base = {.struct_size = sizeof(iter_transform_ops), .name = "slow", .help = "takes its time"},
    .role = ITER_DATA,
    .plan = stage_plan,
    .apply = stage_apply,
};

static iter_status source_open(void *state, const iter_source_config *config, char *fallback,
                               size_t capacity, iter_error *err) {
    (void)state, (void)config, (void)capacity, (void)err;
    fallback[0] = '\0';
    return ITER_OK;
}

static void source_close(void *state) {
    (void)state;
}

/* Rows are what the file would hold; only the time is real. */
static iter_status source_read(void *state, iter_read *read) {
    (void)state;
    rest(planted->strength * planted->loop->read_rest);
    for (int32_t i = 0; i < read->n_parts; i++)
        memset(read->parts[i].data, 1, read->parts[i].size);
    read->done = read->size;
    read->status = ITER_OK;
    return ITER_OK;
}

static const iter_source_ops source = {
    .base = {.struct_size = sizeof(iter_source_ops), .name = "slow-disk", .help = "takes its time"},
    .open = source_open,
    .close = source_close,
    .read = source_read};

/* An array file of rows, for the loop whose bytes come from a source. */
static int write_file(const char *path) {
    char header[128];
    static const char zeros[WIDTH];
    FILE *file = fopen(path, "w");
    if (file == NULL) return -1;
    const int n =
        snprintf(header + 10, sizeof(header) - 10,
                 "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }", ROWS, WIDTH);
    memset(header + 10 + n, ' ', sizeof(header) - 10 - (size_t)n);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    header[sizeof(header) - 1] = '\n';
    fwrite(header, 1, sizeof(header), file);
    for (int i = 0; i < ROWS; i++)
        fwrite(zeros, 1, sizeof(zeros), file);
    return fclose(file);
}

/* ---- Consumers ------------------------------------------------------------------------------- */

static void *burn_thread(void *user) {
    burn(*(double *)user);
    return NULL;
}

static void consume(const plant *p) {
    double us = p->strength * p->loop->consumer_burn;
    pthread_t other;
    const int two = p->loop->consumer_threads > 1;
    if (two && pthread_create(&other, NULL, burn_thread, &us) != 0) return;
    if (us > 0) burn(us);
    if (two) pthread_join(other, NULL);
    rest(p->strength * p->loop->consumer_rest);
}

static iter_status run_ours(plant *p, iter_loader *loader, double seconds, iter_error *err) {
    const double until = clock_us(CLOCK_MONOTONIC) + seconds * 1e6;
    while (clock_us(CLOCK_MONOTONIC) < until) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, err);
        if (s == ITER_END) s = iter_loader_reset(loader, err);
        if (s < 0) return s;
        if (batch == NULL) continue;
        consume(p);
        iter_batch_unref(batch);
    }
    return ITER_OK;
}

static void run_anothers(plant *p, iter_diagnose *d, double seconds) {
    const double until = clock_us(CLOCK_MONOTONIC) + seconds * 1e6;
    while (clock_us(CLOCK_MONOTONIC) < until) {
        iter_diagnose_next_begin(d);
        make_rows(p, 32);
        iter_diagnose_next_end(d, 32);
        consume(p);
    }
}

/* ---- One loop -------------------------------------------------------------------------------- */

static iter_status open_loader(plant *p, const char *file, iter_loader **out, iter_error *err) {
    const loop *l = p->loop;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_dataset *data = NULL;
    iter_registry *registry = NULL;
    iter_chain *chain = NULL;
    char spec[600];
    opt.batch_size = l->batch > 0 ? (uint32_t)l->batch : 32;
    opt.workers = l->workers;
    opt.prefetch = (uint32_t)l->prefetch;
    opt.shuffle = ITER_SHUFFLE_FULL;
    if (l->kind == FILES) {
        opt.reading.ops = &source;
        opt.reading.source = ITER_SOURCE_PREAD; /* not once into memory */
    }
    snprintf(spec, sizeof(spec), "npy:%s", file);
    iter_status s =
        l->kind == FILES
            ? iter_dataset_open(spec, NULL, &data, err)
            : iter_dataset_create(l->one_at_a_time ? &turns_ops : &shared_ops, p, &data, err);
    if (s == ITER_OK && l->stage_burn > 0) {
        s = iter_registry_create(&registry, err);
        if (s == ITER_OK) s = iter_registry_add_transform(registry, &stage, err);
        if (s == ITER_OK) s = iter_chain_parse("slow", registry, &chain, err);
    }
    if (s == ITER_OK) s = iter_dataloader_create(data, chain, &opt, out, err);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    iter_registry_destroy(registry);
    return s;
}

static iter_status watch(plant *p, const char *file, double seconds, iter_diagnosis *out,
                         iter_error *err) {
    iter_loader *loader = NULL;
    iter_diagnose *d = NULL;
    iter_diagnose_options how = ITER_DIAGNOSE_OPTIONS_INIT;
    iter_status s;
    planted = p;
    if (p->loop->kind == ANOTHERS) {
        how.workers = p->loop->workers;
        how.knows_workers = p->loop->workers >= 0;
        s = iter_diagnose_start_loop(&how, &d, err);
        if (s == ITER_OK) run_anothers(p, d, seconds);
    } else {
        s = open_loader(p, file, &loader, err);
        if (s == ITER_OK) s = iter_diagnose_start(loader, NULL, &d, err);
        if (s == ITER_OK) s = run_ours(p, loader, seconds, err);
    }
    if (s == ITER_OK) s = iter_diagnose_read(d, out, err);
    iter_diagnose_stop(d);
    iter_loader_unref(loader);
    return s;
}

/* ---- What it costs --------------------------------------------------------------------------- */

/* Batches a second of a slice, watched or not. */
static iter_status cost_slice(iter_loader *loader, bool watched, double seconds, double *out_rate,
                              iter_error *err) {
    iter_diagnose *d = NULL;
    iter_status s = watched ? iter_diagnose_start(loader, NULL, &d, err) : ITER_OK;
    const double start = clock_us(CLOCK_MONOTONIC), until = start + seconds * 1e6;
    double n = 0, now = start;
    for (; s >= 0 && now < until; now = clock_us(CLOCK_MONOTONIC)) {
        iter_batch *batch;
        s = iter_loader_next(loader, &batch, err);
        if (s == ITER_END) s = iter_loader_reset(loader, err);
        if (batch == NULL) continue;
        n++;
        iter_batch_unref(batch);
    }
    *out_rate = n / (now - start) * 1e6;
    iter_diagnose_stop(d);
    return s;
}

static int cost(double seconds) {
    enum { SLICES = 200 };
    double ratios[SLICES];
    iter_error err;
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64, opt.workers = ITER_WORKERS_AUTO, opt.shuffle = ITER_SHUFFLE_FULL;
    iter_status s = iter_dataset_open("synthetic:cifar10", NULL, &data, &err);
    if (s == ITER_OK)
        s = iter_chain_parse("random-crop:32,pad=4 | random-flip | normalize | to:f32,nchw", NULL,
                             &chain, &err);
    if (s == ITER_OK) s = iter_dataloader_create(data, chain, &opt, &loader, &err);
    const double until = clock_us(CLOCK_MONOTONIC) + seconds * 1e6;
    uint32_t n = 0;
    for (; s >= 0 && n < SLICES && clock_us(CLOCK_MONOTONIC) < until; n++) {
        double rate[2];
        const bool first = n % 2 == 0;
        s = cost_slice(loader, first, 0.25, &rate[first], &err);
        if (s >= 0) s = cost_slice(loader, !first, 0.25, &rate[!first], &err);
        ratios[n] = rate[1] / rate[0];
    }
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    const measure_interval ratio = measure_median(ratios, n);
    printf("rate watched / rate not watched: %.4f [%.4f, %.4f], %u pairs of slices\n", ratio.median,
           ratio.low, ratio.high, n);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return s < 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int is_right(const loop *l, int32_t limit) {
    for (int i = 0; i < l->n_limits; i++)
        if ((int32_t)l->limits[i] == limit) return 1;
    return 0;
}

int main(int argc, char **argv) {
    double seconds = 4;
    int quick = 0, n = 0, right = 0, wrong_and_sure = 0;
    unsigned seed = 1;
    const char *only = NULL;
    bool costs = false;
    for (int i = 1; i < argc; i++) {
        const int more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0)
            quick = 1;
        else if (strcmp(argv[i], "--cost") == 0)
            costs = true;
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && more)
            seed = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && more)
            only = argv[++i];
        else
            return fprintf(stderr, "loops [--seconds S] [--seed N] [--only NAME] [--quick]\n"), 2;
    }
    if (costs) return cost(seconds);
    char file[] = "/tmp/iter-loops-XXXXXX.npy";
    const int fd = mkstemps(file, 4);
    if (fd < 0 || close(fd) != 0 || write_file(file) != 0) return perror(file), 1;
    srand(seed);
    int failed = 0;
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]) && !failed; i++) {
        plant p = {.loop = &loops[i], .strength = 0.8 + 0.6 * (double)rand() / RAND_MAX};
        iter_diagnosis v = ITER_DIAGNOSIS_INIT;
        iter_error err = {ITER_OK, ""};
        if (only != NULL && strcmp(only, loops[i].name) != 0) continue;
        failed = watch(&p, file, quick ? 0.3 : seconds, &v, &err) < 0 || v.text[0] == '\0';
        if (failed) fprintf(stderr, "%s: %s\n", loops[i].name, err.message);
        const int good = is_right(&loops[i], v.limit);
        n++;
        right += good;
        wrong_and_sure += !good && v.is_sure;
        if (quick || failed) continue;
        printf("| %s | %s | %s | %s | %s | %.0f %% | %s |\n", loops[i].name,
               iter_limit_text((int32_t)loops[i].limits[0]), v.limit_text, good ? "yes" : "NO",
               v.is_sure ? "high" : "low", 100 * v.share, v.n_changes > 0 ? v.changes[0].text : "");
        if (only != NULL) printf("%s\n", v.text);
        fflush(stdout);
    }
    unlink(file);
    if (!quick && !failed)
        printf("%d of %d right; wrong with high confidence: %d\n", right, n, wrong_and_sure);
    return failed;
}
