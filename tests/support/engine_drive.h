/*
 * engine_drive.h - small loaders, models and trainers for tests of the engine. If one cannot be
 * made, an assertion fails.
 */
#ifndef TESTS_SUPPORT_ENGINE_DRIVE_H
#define TESTS_SUPPORT_ENGINE_DRIVE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <iter/engine.h>

#include "engine/engine_memory.h"
#include "iter/core/alloc.h"

/* A suite's .fini: an assertion there would not fail the test. */
static inline void engine_no_leak(void) {
    if (iter__alloc_live() != 0 || iter__engine_live() != 0) abort();
}

#define ARRAY(array_role, array_dtype, layout_text, memory, ...)                     \
    {                                                                                \
        .role = array_role, .data = memory, .desc = {                                \
            .dtype = array_dtype,                                                    \
            .n_dims = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
            .dims = {__VA_ARGS__},                                                   \
            .layout = layout_text                                                    \
        }                                                                            \
    }

/* Repeats a test for each backend that needs no GPU. Tests of the cuda backend are
 * tests/backend/backend_cuda_*. */
#define FOR_EACH_HOST_BACKEND(name)                                       \
    for (const char *const *name = iter_engine_backends(); *name; name++) \
        if (strcmp(*name, "cuda") != 0)

static inline iter_loader *loader_with(const iter_array *arrays, int32_t n,
                                       iter_loader_options opt) {
    iter_loader *loader;
    iter_error err = {0};
    cr_assert_eq(iter_ndarray_create(arrays, n, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    return loader;
}

static inline iter_loader *loader_of(const iter_array *arrays, int32_t n, uint32_t batch,
                                     int32_t last) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch;
    opt.last_batch = last;
    return loader_with(arrays, n, opt);
}

static inline iter_status try_trainer(const char *text, iter_loader *loader,
                                      iter_trainer_options opt, iter_trainer **out,
                                      iter_error *err) {
    iter_model *model;
    *out = NULL;
    cr_assert_eq(iter_model_parse(text, &model, err), ITER_OK, "%s", err->message);
    const iter_status status = iter_trainer_create(model, loader, &opt, out, err);
    iter_model_unref(model);
    return status;
}

static inline iter_trainer *trainer_of(const char *text, iter_loader *loader, const char *backend,
                                       const char *optimizer) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_trainer *trainer;
    iter_error err = {0};
    opt.backend = backend;
    opt.optimizer = optimizer;
    cr_assert_eq(try_trainer(text, loader, opt, &trainer, &err), ITER_OK, "%s", err.message);
    return trainer;
}

static inline iter_batch *next_batch(iter_loader *loader) {
    iter_batch *batch;
    iter_error err = {0};
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    return batch;
}

static inline void set_f64(iter_trainer *trainer, int32_t param, const double *values, size_t n) {
    iter_error err = {0};
    cr_assert_eq(
        iter_trainer_set(trainer, param, ITER_VALUE_WEIGHT, values, n * sizeof(*values), &err),
        ITER_OK, "%s", err.message);
}

static inline void get_f64(iter_trainer *trainer, int32_t param, iter_value value, double *out,
                           size_t n) {
    iter_error err = {0};
    cr_assert_eq(iter_trainer_get(trainer, param, value, out, n * sizeof(*out), &err), ITER_OK,
                 "%s", err.message);
}

/* Five rows for a regression. */
static const double rows_x[5][2] = {{1, 2}, {-1, 0.5}, {3, -2}, {0, 1}, {2, 2}};
static const double rows_y[5] = {1, -2, 0.5, 3, -1};

static inline iter_loader *regression(uint32_t batch, int32_t last) {
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F64, "", rows_x, 5, 2),
                                 ARRAY(ITER_LABEL, ITER_F64, "", rows_y, 5)};
    return loader_of(arrays, 2, batch, last);
}

/* One step of SGD on y = w x + b with the mean squared error over rows [first, first + n), by hand.
 * Returns the loss before the step. w[2] is b. */
static inline double step_by_hand(double w[3], int first, int n, double lr) {
    double g[3] = {0}, loss = 0;
    for (int i = first; i < first + n; i++) {
        const double d = w[0] * rows_x[i % 5][0] + w[1] * rows_x[i % 5][1] + w[2] - rows_y[i % 5];
        loss += d * d / n;
        g[0] += 2 * d * rows_x[i % 5][0] / n;
        g[1] += 2 * d * rows_x[i % 5][1] / n;
        g[2] += 2 * d / n;
    }
    for (int k = 0; k < 3; k++)
        w[k] -= lr * g[k];
    return loss;
}

static inline void expect_weights(iter_trainer *trainer, const double want[3]) {
    double got[3];
    get_f64(trainer, 0, ITER_VALUE_WEIGHT, got, 2);
    get_f64(trainer, 1, ITER_VALUE_WEIGHT, got + 2, 1);
    for (int k = 0; k < 3; k++)
        cr_expect_float_eq(got[k], want[k], 1e-12, "weight %d is %.17g, not %.17g", k, got[k],
                           want[k]);
}

/* Three clouds of points around (2, 0), (-2, 1), (0, -3); the third number is noise. */
static inline iter_loader *clouds(iter_loader_options opt) {
    static float cloud_x[96][3]; /* borrowed by the loader */
    static int64_t cloud_y[96];
    static const float centres[3][2] = {{2, 0}, {-2, 1}, {0, -3}};
    iter_rng rng = iter_rng_at(17, 0, 0);
    for (int i = 0; i < 96; i++) {
        cloud_y[i] = i % 3;
        for (int k = 0; k < 3; k++)
            cloud_x[i][k] = (k < 2 ? centres[i % 3][k] : 0) + iter_rng_uniform(&rng) - 0.5f;
    }
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", cloud_x, 96, 3),
                                 ARRAY(ITER_LABEL, ITER_I64, "", cloud_y, 96, 1)};
    return loader_with(arrays, 2, opt);
}

#endif
