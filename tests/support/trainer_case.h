/*
 * trainer_case.h - for plain programs: small sets, loaders over them, and trainers on these. 50
 * pictures, rows of numbers or lines of ids, in batches of 8.
 */
#ifndef TESTS_SUPPORT_TRAINER_CASE_H
#define TESTS_SUPPORT_TRAINER_CASE_H

#include <stdlib.h>

#include <iter/engine.h>
#include <iter/rng.h>

#include "tests/support/expect.h"

#define CNN                                                                                   \
    "conv2d:4,kernel=3,pad=1 | relu | conv2d:5,kernel=3 | maxpool:2 | relu | dropout:0.25 | " \
    "flatten | dense:7 | relu | dropout:0.5 | dense:3 | softmax-cross-entropy"
#define GRU "embedding:20,5 | gru:6 | last-step | dense:2 | softmax-cross-entropy"
#define MLP "dense:9 | tanh | dense:3 | softmax-cross-entropy"

/* ---- Loaders --------------------------------------------------------------------------------- */

enum { ROWS = 50, BATCH = 8, STEPS = 7, PIXELS = 3 * 8 * 8 }; /* 6 full batches and one of 2 */

static float pictures[ROWS][3][8][8], points[ROWS][6];
static int32_t tokens[ROWS][STEPS];
static int32_t classes[ROWS], halves[ROWS];

static inline void draw_sets(void) {
    iter_rng rng = iter_rng_at(5, 0, 0);
    for (int i = 0; i < ROWS; i++) {
        classes[i] = (int32_t)iter_rng_below(&rng, 3);
        halves[i] = (int32_t)iter_rng_below(&rng, 2);
        for (int k = 0; k < PIXELS; k++)
            (&pictures[i][0][0][0])[k] = iter_rng_uniform(&rng) - 0.5f + 0.3f * (float)classes[i];
        for (int k = 0; k < 6; k++)
            points[i][k] = iter_rng_uniform(&rng) - 0.5f + (k == classes[i] ? 1.0f : 0.0f);
        for (int k = 0; k < STEPS; k++)
            tokens[i][k] = (int32_t)iter_rng_below(&rng, 20);
    }
}

/* The device of loaders made from now on. */
static int32_t loader_device;
static uint32_t loader_held;

static inline iter_loader *open_loader(const char *model, int32_t memory) {
    const bool images = model[0] == 'c', ids = model[0] == 'e';
    iter_array arrays[2] = {{.role = ITER_DATA, .data = points}, {.role = ITER_LABEL}};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_error err = {0};
    iter_desc *data = &arrays[0].desc, *label = &arrays[1].desc;
    data->dtype = ids ? ITER_I32 : ITER_F32;
    data->n_dims = images ? 4 : 2;
    data->dims[0] = label->dims[0] = ROWS;
    data->dims[1] = images ? 3 : ids ? STEPS : 6;
    data->dims[2] = data->dims[3] = 8;
    if (images) arrays[0].data = pictures;
    if (ids) arrays[0].data = tokens;
    label->dtype = ITER_I32;
    label->n_dims = 1;
    arrays[1].data = ids ? halves : classes;
    opt.batch_size = BATCH;
    opt.last_batch = ITER_LAST_KEEP;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 3;
    opt.memory.kind = memory;
    opt.memory.device = loader_device;
    opt.max_held = loader_held;
    if (EXPECT_OK(iter_ndarray_create(arrays, 2, NULL, &opt, &loader, &err), &err)) return loader;
    exit(1);
}

static inline iter_trainer *open_trainer(const char *model_text, iter_loader *loader,
                                         const char *backend, int32_t precision) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_model *model;
    iter_trainer *trainer;
    iter_error err = {0};
    opt.backend = backend;
    opt.optimizer = "adam:lr=0.01,epsilon=0.001";
    opt.seed = 11;
    opt.precision = precision;
    if (!EXPECT_OK(iter_model_parse(model_text, &model, &err), &err)) exit(1);
    const iter_status status = iter_trainer_create(model, loader, &opt, &trainer, &err);
    iter_model_unref(model);
    if (EXPECT_OK(status, &err)) return trainer;
    exit(1);
}

/* Copies the weights to out, one parameter after the other. */
static inline int64_t get_weights(iter_trainer *trainer, float *out, int64_t capacity) {
    int64_t n = 0;
    iter_error err = {0};
    for (int32_t p = 0; p < iter_trainer_n_params(trainer); p++) {
        const size_t bytes = iter_desc_bytes(&iter_trainer_param(trainer, p)->desc);
        if (n + (int64_t)(bytes / 4) > capacity) abort();
        EXPECT_OK(iter_trainer_get(trainer, p, ITER_VALUE_WEIGHT, out + n, bytes, &err), &err);
        n += (int64_t)(bytes / 4);
    }
    return n;
}

enum { MOST_WEIGHTS = 20000 };

#endif
