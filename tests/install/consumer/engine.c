/* engine.c - an outsider's trainer: installed headers, installed libraries, y = 2 x + 1 learnt. */
#include <stdio.h>

#include <iter/engine.h>

#define N_ROWS 64

int main(void) {
    float x[N_ROWS], y[N_ROWS];
    for (int i = 0; i < N_ROWS; i++) {
        x[i] = (float)i / N_ROWS;
        y[i] = 2 * x[i] + 1;
    }
    const iter_array arrays[] = {{"data", ITER_DATA, {ITER_F32, 2, {N_ROWS, 1}, 0, ""}, x, 0},
                                 {"label", ITER_LABEL, {ITER_F32, 1, {N_ROWS}, 0, ""}, y, 0}};
    iter_loader_options options = ITER_LOADER_OPTIONS_INIT;
    options.batch_size = 8;
    options.shuffle = ITER_SHUFFLE_FULL;
    iter_trainer_options with = ITER_TRAINER_OPTIONS_INIT;
    with.optimizer = "adam:lr=0.1";
    iter_error err = {ITER_OK, ""};
    iter_loader *loader = NULL;
    iter_model *model = NULL;
    iter_trainer *trainer = NULL;
    iter_result result = {.loss = 1};
    iter_status s = iter_ndarray_create(arrays, 2, NULL, &options, &loader, &err);
    if (s == ITER_OK) s = iter_model_parse("dense:1 | mse", &model, &err);
    if (s == ITER_OK) s = iter_trainer_create(model, loader, &with, &trainer, &err);
    for (int epoch = 0; s == ITER_OK && epoch < 40; epoch++) {
        s = iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err);
        if (s == ITER_OK) s = iter_loader_reset(loader, &err);
    }
    if (s < 0 || result.loss > 1e-3)
        fprintf(stderr, "loss %g after 40 epochs: %s\n", result.loss, err.message);
    iter_trainer_destroy(trainer);
    iter_model_unref(model);
    iter_loader_unref(loader);
    return s < 0 || result.loss > 1e-3;
}
