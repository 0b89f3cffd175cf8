/*
 * test_activity.c - numbers and names of stages, what a worker is reported to do, loaders that only
 * read, and how long workers waited for a core.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <iter/iter.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"
#include "tests/support/source_fault.h"

#define N 60

TestSuite(activity, .timeout = 60);

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *const fixed[] = {"idle", "wait-bytes", "wait-slot", "wait-turn", "open",
                                    "read", "get",        "decode",    "batch"};

/* The loader's stages must be the fixed ones and then `more`, which ends with NULL. */
static void check_names(const iter_loader *loader, const char *const *more) {
    int32_t n = (int32_t)(sizeof(fixed) / sizeof(fixed[0]));
    for (int32_t i = 0; i < n; i++)
        cr_expect_str_eq(iter_loader_stage_name(loader, i), fixed[i]);
    for (; *more; more++, n++) {
        const char *name = iter_loader_stage_name(loader, n);
        cr_assert_not_null(name, "no stage %d, %s was expected", n, *more);
        cr_expect_str_eq(name, *more);
    }
    cr_expect_eq(iter_loader_n_stages(loader), n);
    cr_expect_null(iter_loader_stage_name(loader, n));
    cr_expect_null(iter_loader_stage_name(loader, -1));
}

static iter_status same_plan(const void *opt, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    (void)opt, (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

static iter_status same(void *state, const void *opt, const iter_tensor *in, iter_tensor *out,
                        iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)opt, (void)rng, (void)scratch, (void)err;
    memcpy(out->data, in->data, iter_desc_bytes(&in->desc));
    return ITER_OK;
}

static const iter_transform_ops same_ops = {
    .base = {sizeof(iter_transform_ops), "same", "copies", NULL, NULL, 0, 0},
    .plan = same_plan,
    .apply = same};

static void names_of(const char *text, const char *const *more) {
    char folder[512];
    drive_cifar(folder, N);
    iter_registry *registry;
    iter_chain *chain = NULL;
    iter_error err;
    cr_assert_eq(iter_registry_create(&registry, &err), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &same_ops, &err), ITER_OK);
    if (text)
        cr_assert_eq(iter_chain_parse(text, registry, &chain, &err), ITER_OK, "%s", err.message);
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, chain, NULL);
    check_names(loader, more);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    iter_registry_destroy(registry);
    make_folder_gone(folder);
}

Test(activity, names) {
    names_of(NULL, (const char *const[]){"copy", NULL});
    names_of("random-crop:size=32,pad=4 | random-flip | normalize:mean=0.5,std=0.2 | to:f32,nchw",
             (const char *const[]){"copy", "random-crop", NULL});
    names_of("random-flip | same | normalize:mean=0.5,std=0.2 | same | same | to:f32,nchw",
             (const char *const[]){"copy", "random-flip", "same", "normalize", "same#2", "same#3",
                                   "to", NULL});
    names_of("normalize:mean=0.5,std=0.2 | cast:field=label,dtype=i32 | to:f32,nchw",
             (const char *const[]){"normalize", "cast", NULL});
}

Test(activity, before_anything) {
    own_dataset own = {.n = N};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader *loader = drive_loader(data, NULL, NULL);
    iter_activity_info info;
    cr_assert_eq(iter_loader_activity(loader, &info, 1), 1);
    cr_expect_eq(iter_loader_activity(loader, NULL, 0), 1);
    cr_expect_str_eq(info.stage, "idle");
    cr_expect_eq(info.sample, ITER_UNKNOWN);
    cr_expect_str_eq(info.file, "");
    cr_expect_eq(iter_loader_stage_now(loader, 0), 0);
    cr_expect_eq(iter_loader_stage_now(loader, 1), -1);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- Options --------------------------------------------------------------------------------- */

Test(activity, options) {
    own_dataset own = {.n = N};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_error err;
    opt.watch.stall_ms = -1;
    cr_expect_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL);
    opt.watch.stall_ms = 0;
    opt.reading.only_reads = 2;
    cr_expect_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "only_reads"), "%s", err.message);
    opt.reading.only_reads = 0;
    opt.watch.stall_ms = INT64_MAX; /* longer than this century */
    cr_assert_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    drive_run(loader, 2);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- only_reads ------------------------------------------------------------------------------ */

/* What one epoch delivered, except for the rows' content. */
typedef struct seen {
    uint64_t order, rows, nonzero, n_bad;
    uint64_t path_bytes[ITER_PATH_COUNT], worker_bytes, failures;
    char first[504];
} seen;

static seen look(iter_dataset *data, iter_chain *chain, const iter_loader_options *opt) {
    seen out = {.order = 0};
    iter_loader *loader = drive_loader(data, chain, opt);
    for (;;) {
        iter_error err = {.status = ITER_OK};
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_END) break;
        out.order = out.order * 31 + (uint64_t)(s + 100);
        if (s < 0) {
            if (!out.n_bad++) memcpy(out.first, err.message, sizeof(out.first));
            continue;
        }
        const uint32_t n = iter_batch_describe(batch).n_rows;
        out.rows += n;
        for (uint32_t i = 0; i < n; i++)
            out.order = out.order * 31 + iter_batch_index(batch)[i];
        for (int32_t f = 0; iter_batch_tensor(batch, f); f++) {
            const iter_tensor *tensor = iter_batch_tensor(batch, f);
            const uint8_t *bytes = tensor->data;
            for (size_t i = 0; i < iter_desc_bytes(&tensor->desc); i++)
                out.nonzero += bytes[i] != 0;
        }
        iter_batch_unref(batch);
    }
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_OK);
    memcpy(out.path_bytes, stats.path_bytes, sizeof(out.path_bytes));
    out.failures = stats.n_failures;
    for (int32_t i = 0; i < ITER_STATS_WORKERS; i++)
        out.worker_bytes += stats.workers[i].bytes;
    iter_loader_unref(loader);
    return out;
}

/* Compares an epoch with and without only_reads: the same samples in the same order by the same
 * reads, but no rows. */
static void compare(const char *what, iter_dataset *data, iter_chain *chain,
                    iter_loader_options opt, bool rows_too) {
    const seen want = look(data, chain, &opt);
    opt.reading.only_reads = 1;
    const seen got = look(data, chain, &opt);
    cr_expect_eq(got.order, want.order, "%s: other samples", what);
    cr_expect_eq(got.rows, want.rows, "%s", what);
    cr_expect_gt(want.nonzero, 0, "%s", what);
    if (!rows_too)
        cr_expect_eq(got.nonzero, 0, "%s: %llu bytes are not zero", what,
                     (unsigned long long)got.nonzero);
    cr_expect_eq(got.n_bad, want.n_bad, "%s", what);
    cr_expect_eq(got.failures, want.failures, "%s", what);
    cr_expect_str_eq(got.first, want.first);
    uint64_t got_all = 0, want_all = 0; /* the path of each read is a matter of timing */
    for (int i = 0; i < ITER_PATH_COUNT; i++) {
        got_all += got.path_bytes[i];
        want_all += want.path_bytes[i];
    }
    cr_expect_eq(got_all, want_all, "%s: %llu bytes read, not %llu", what,
                 (unsigned long long)got_all, (unsigned long long)want_all);
}

static iter_loader_options reading(int32_t workers, int32_t source) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = workers;
    opt.reading.source = source;
    opt.epochs = 1;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 11;
    opt.memory.limit = 64 << 20;
    return opt;
}

Test(activity, only_reads) {
    static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD, ITER_SOURCE_MEMORY};
    static const char *const names[] = {"ring", "pread", "memory"};
    char folder[512];
    drive_cifar(folder, N);
    iter_chain *chain = drive_chain("random-crop:size=32,pad=4 | normalize:mean=0.5,std=0.2 | "
                                    "to:f32,nchw");
    iter_dataset *data = drive_open(folder);
    for (int s = 0; s < 3; s++) {
        for (int32_t workers = 0; workers <= 2; workers += 2) {
            const iter_loader_options opt = reading(workers, sources[s]);
            /* load it once; the loader that loads counts the bytes */
            if (sources[s] == ITER_SOURCE_MEMORY)
                iter_loader_unref(drive_loader(data, chain, &opt));
            compare(names[s], data, chain, opt, false);
        }
    }
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

/* Each stored byte of a chunk's samples is counted by exactly one worker, even if the sample
 * fails. */
Test(activity, workers_count_bytes) {
    static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD, ITER_SOURCE_MEMORY};
    static const uint8_t text[400] = "these are no pictures";
    char folder[512], cifar[512], spec[600], name[32];
    uint64_t total = 0;
    make_folder(folder);
    make_subfolder(folder, "a");
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof(name), "a/%02d.jpg", i);
        make_file(folder, name, text, (size_t)(10 * i));
        total += (uint64_t)(10 * i);
    }
    snprintf(spec, sizeof(spec), "folder:%s", folder);
    drive_cifar(cifar, N);
    iter_dataset *files, *records = drive_open(cifar);
    iter_error err;
    cr_assert_eq(iter_dataset_open(spec, NULL, &files, &err), ITER_OK, "%s", err.message);
    iter_chain *resize = drive_chain("resize:8");
    for (int i = 0; i < 9; i++) {
        iter_loader_options opt = reading(i % 3, sources[i / 3]);
        cr_expect_eq(look(records, NULL, &opt).worker_bytes, (uint64_t)N * 3073, "%d", i);
        opt.faults.on_error = ITER_ON_ERROR_BLANK;
        opt.batch_size = 7; /* the last batch is short */
        const uint64_t got = look(files, resize, &opt).worker_bytes;
        cr_expect_eq(got, total, "%d: %llu bytes, not %llu", i, (unsigned long long)got,
                     (unsigned long long)total);
    }
    own_dataset own = {.n = N};
    iter_dataset *data = own_open(&own, &own_ops);
    const iter_loader_options opt = reading(1, ITER_SOURCE_AUTO);
    cr_expect_eq(look(data, NULL, &opt).worker_bytes, 0); /* made by get() */
    iter_dataset_unref(data);
    iter_dataset_unref(files);
    iter_dataset_unref(records);
    iter_chain_unref(resize);
    make_folder_gone(folder);
    make_folder_gone(cifar);
}

Test(activity, only_reads_fail_alike) {
    char folder[512];
    drive_cifar(folder, N);
    const source_fault_plan plan = {
        .inner = &iter__source_pread, .seed = 11, .eio_always = 100, .eio_once = 100};
    for (int32_t on_error = ITER_ON_ERROR_FAIL; on_error <= ITER_ON_ERROR_BLANK; on_error++) {
        source_fault_set(&plan);
        iter_dataset *data = drive_open(folder);
        iter_loader_options opt = reading(2, ITER_SOURCE_RING);
        opt.reading.ops = &source_fault_ops;
        opt.faults.on_error = on_error;
        opt.reading.only_reads = 1;
        const seen got = look(data, NULL, &opt);
        opt.reading.only_reads = 0;
        const seen want = look(data, NULL, &opt);
        cr_expect_gt(want.failures, 0);
        cr_expect_eq(got.failures, want.failures);
        cr_expect_eq(got.order, want.order);
        cr_expect_eq(got.nonzero, 0);
        cr_expect_str_eq(got.first, want.first);
        iter_dataset_unref(data);
    }
    make_folder_gone(folder);
}

Test(activity, only_reads_of_a_dataset) {
    for (int32_t workers = 0; workers <= 2; workers += 2) {
        own_dataset own = {.n = N}, failing = {.n = N, .fail_modulo = 10};
        own_dataset uneven = {.n = N, .variable = true};
        own_dataset stream = {.n = ITER_UNKNOWN, .stream_n = N};
        iter_chain *chain = drive_chain("cast:dtype=f32 | cast:field=label,dtype=i32");
        iter_chain *pads = drive_chain("cast:field=label,dtype=i32 | pad-batch | lengths");
        iter_dataset *data = own_open(&own, &own_ops), *bad = own_open(&failing, &own_ops);
        iter_dataset *longer = own_open(&uneven, &own_ops);
        iter_dataset *endless = own_open(&stream, &own_ops_stream);
        iter_loader_options opt = reading(workers, ITER_SOURCE_AUTO);
        compare("get()", data, chain, opt, false);
        compare("get() straight into the batch", data, NULL, opt, true);
        compare("get() fails", bad, chain, opt, false);
        compare("rows of different lengths", longer, pads, opt, true);
        opt.shuffle = ITER_SHUFFLE_NONE;
        compare("a stream", endless, chain, opt, false);
        iter_dataset_unref(data);
        iter_dataset_unref(bad);
        iter_dataset_unref(longer);
        iter_dataset_unref(endless);
        iter_chain_unref(chain);
        iter_chain_unref(pads);
    }
}

/* ---- Runnable, but not running --------------------------------------------------------------- */

static iter_status spin_describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = 100000;
    out->n_fields = 1;
    out->fields[0] = (iter_field){.name = "data", .role = ITER_DATA, .desc = {.dtype = ITER_U8}};
    return ITER_OK;
}

static iter_status start(void *user, void **out_state, iter_error *err) {
    (void)err;
    *out_state = user;
    return ITER_OK;
}

static void stop(void *user, void *state) {
    (void)user, (void)state;
}

/* Ten milliseconds of work. */
static iter_status spin(void *user, void *state, uint32_t n, const uint64_t *indices,
                        const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)n, (void)indices, (void)rows, (void)rng, (void)err;
    struct timespec t;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_nsec % 20000000 < 10000000);
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_nsec % 20000000 >= 10000000);
    return ITER_OK;
}

static bool kernel_counts(void) {
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "re");
    const bool is = file && fscanf(file, "%llu %llu", &ran, &waited) == 2 && ran > 0;
    if (file) fclose(file);
    return is;
}

Test(activity, run_delay) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!kernel_counts()) cr_skip("the kernel counts no run-queue time");
    if (2 * cores + 2 > ITER_STATS_WORKERS) cr_skip("more cores than workers can be made busy");
    static const iter_dataset_ops ops = {.struct_size = sizeof(ops),
                                         .name = "spin",
                                         .describe = spin_describe,
                                         .start = start,
                                         .stop = stop,
                                         .get = spin};
    iter_dataset *data;
    cr_assert_eq(iter_dataset_create(&ops, NULL, &data, NULL), ITER_OK);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 1;
    opt.workers = (int32_t)(2 * cores + 2);
    opt.prefetch = 200;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    const struct timespec pause = {.tv_nsec = 300000000};
    nanosleep(&pause, NULL);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_OK);
    uint64_t delay = 0, cpu = 0;
    for (int32_t i = 0; i < opt.workers; i++) {
        delay += stats.workers[i].run_delay_ns;
        cpu += stats.workers[i].cpu_ns;
    }
    /* With twice as many busy threads as cores, they wait about as long as they run. */
    cr_expect_gt(cpu, 0);
    cr_expect_gt(delay, cpu / 10, "delayed %.3f s, ran %.3f s", (double)delay * 1e-9,
                 (double)cpu * 1e-9);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}
