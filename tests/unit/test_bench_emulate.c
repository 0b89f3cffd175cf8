/* test_bench_emulate.c - bench/emulate.c: whatever it costs, its rows are those of the plain
 * loader. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "bench/common/bench_util.h"
#include "bench/emulate.h"
#include "bench/measure/arm.h"

TestSuite(bench_emulate, .timeout = 120);

typedef struct emulate_case {
    char data[64];
    uint64_t batch;
    int64_t workers;
} emulate_case;

static const emulate_case cases[] = {
    {"synthetic:cs224?n=700", 64, 0},  /* parts of a batch, a short last one */
    {"synthetic:cs224?n=512", 256, 1}, /* whole batches, made by a thread of the loader */
    {"synthetic:cifar10?n=300", 17, 0}, {"synthetic:cifar10?n=30", 64, 0}, /* less than a batch */
    {"synthetic:mnist?n=101", 1, 0},
};

static bench_options options_of(const emulate_case *c) {
    return (bench_options){.data = c->data,
                           .batch = c->batch,
                           .workers = c->workers,
                           .ranks = 1,
                           .shuffle = ITER_SHUFFLE_NONE,
                           .last_batch = ITER_LAST_KEEP,
                           .epochs = 2};
}

static uint64_t run(const bench_options *options, uint64_t *out_rows, uint64_t *out_cpu_ns) {
    bench_arm arm;
    bench_hash hash = {0};
    iter_error err;
    uint64_t samples;
    double seconds;
    cr_assert_eq(arm_open(options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    arm.hash = &hash;
    cr_assert_eq(arm_run(&arm, UINT64_MAX, true, &samples, &seconds, &err), ITER_OK, "%s",
                 err.message);
    *out_rows = samples;
    *out_cpu_ns = arm.cpu_ns;
    arm_close(&arm);
    bench_hash_free(&hash);
    return hash.sum;
}

ParameterizedTestParameters(bench_emulate, rows_are_those_of_the_plain_loader) {
    return cr_make_param_array(emulate_case, (emulate_case *)(uintptr_t)cases,
                               sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(const emulate_case *c, bench_emulate, rows_are_those_of_the_plain_loader) {
    bench_options options = options_of(c);
    bench_arrays arrays;
    iter_error err;
    uint64_t rows, got_rows, cpu_ns;
    const uint64_t expected = run(&options, &rows, &cpu_ns);
    cr_assert_eq(bench_arrays_load(&options, UINT64_MAX, &arrays, &err), ITER_OK);
    for (uint32_t mechanisms = 0; mechanisms < 8; mechanisms++) {
        cr_assert_eq(
            emulate_create(&arrays, mechanisms, (uint32_t)c->batch, &options.dataset, &err),
            ITER_OK, "%s", err.message);
        cr_assert_eq(run(&options, &got_rows, &cpu_ns), expected, "%s, mechanisms %u", c->data,
                     mechanisms);
        cr_assert_eq(got_rows, rows);
        iter_dataset_unref(options.dataset);
    }
    bench_arrays_free(&arrays);
}

/* Hashes the labels of an epoch after a reset, which came after `n` batches of the epoch before. */
static uint64_t after_reset(iter_dataset *dataset, uint32_t n, bench_hash *hash) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_batch *batch;
    iter_error err;
    uint64_t rows = 0;
    opt.batch_size = 10;
    cr_assert_eq(iter_dataloader_create(dataset, NULL, &opt, &loader, &err), ITER_OK);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
        iter_batch_unref(batch);
    }
    cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
    while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
        const uint32_t n_rows = iter_batch_describe(batch).n_rows;
        rows += n_rows;
        cr_assert_eq(bench_hash_batch(hash, batch, iter_loader_n_fields(loader), n_rows, &err),
                     ITER_OK);
        iter_batch_unref(batch);
    }
    iter_loader_unref(loader);
    return rows;
}

Test(bench_emulate, an_epoch_that_was_left_begins_anew) {
    const bench_options options = options_of(&(const emulate_case){"synthetic:mnist?n=95", 10, 0});
    bench_arrays arrays;
    iter_dataset *plain, *emulated;
    iter_error err;
    bench_hash expected = {0};
    cr_assert_eq(bench_arrays_load(&options, UINT64_MAX, &arrays, &err), ITER_OK);
    cr_assert_eq(iter_dataset_open(options.data, NULL, &plain, &err), ITER_OK);
    cr_assert_eq(after_reset(plain, 3, &expected), 95);
    for (uint32_t mechanisms = 0; mechanisms < 8; mechanisms++) {
        bench_hash got = {0};
        cr_assert_eq(emulate_create(&arrays, mechanisms, 10, &emulated, &err), ITER_OK);
        cr_assert_eq(after_reset(emulated, 3, &got), 95);
        cr_assert_eq(got.sum, expected.sum, "mechanisms %u", mechanisms);
        bench_hash_free(&got);
        iter_dataset_unref(emulated);
    }
    bench_hash_free(&expected);
    iter_dataset_unref(plain);
    bench_arrays_free(&arrays);
}

Test(bench_emulate, a_dispatch_takes_its_time) {
    bench_options options = options_of(&(const emulate_case){"synthetic:mnist?n=2000", 100, 0});
    bench_arrays arrays;
    iter_error err;
    uint64_t rows, plain_ns, cpu_ns;
    run(&options, &rows, &plain_ns);
    cr_assert_eq(bench_arrays_load(&options, UINT64_MAX, &arrays, &err), ITER_OK);
    cr_assert_eq(emulate_create(&arrays, EMULATE_DISPATCH, 100, &options.dataset, &err), ITER_OK);
    run(&options, &rows, &cpu_ns);
    cr_assert_gt(cpu_ns, rows * 2 * EMULATE_DISPATCH_NS / 2, "%g ns a field",
                 (double)cpu_ns / (double)rows / 2);
    iter_dataset_unref(options.dataset);
    bench_arrays_free(&arrays);
}
