/*
 * test_engine_run.c - batches through trainers, on the reference backends: the effect of a step to
 * the last digits of a hand computation, which rows count, what stops a run.
 */
#include <math.h>

#include "tests/support/engine_drive.h"
#include "tests/support/own_dataset.h"

TestSuite(engine_run, .fini = engine_no_leak, .timeout = 280);

/* ---- Steps ----------------------------------------------------------------------------------- */

Test(engine_run, a_shorter_batch_is_a_mean_over_its_rows) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference-f64", "sgd:lr=0.05");
    double w[3] = {0.5, -0.25, 0.125};
    iter_result result;
    iter_error err = {0};
    set_f64(trainer, 0, w, 2);
    set_f64(trainer, 1, w + 2, 1);
    for (int i = 0; i < 2; i++) {
        iter_batch *batch = next_batch(loader);
        cr_assert_eq(iter_trainer_step(trainer, batch, &result, &err), ITER_OK, "%s", err.message);
        iter_batch_unref(batch);
        const double loss = step_by_hand(w, 4 * i, i ? 1 : 4, 0.05);
        cr_expect_float_eq(result.loss, loss, 1e-12);
        cr_expect_eq(result.n_rows, i ? 1 : 4);
        cr_expect_eq(result.n_steps, 1);
        cr_expect_eq(result.n_correct, 0);
        expect_weights(trainer, w);
    }
    cr_expect_eq(iter_trainer_describe(trainer).n_steps, 2);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, padding_counts_in_training_and_not_in_evaluation) {
    iter_loader *loader = regression(4, ITER_LAST_PAD);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference-f64", "sgd:lr=0.05");
    double w[3] = {0.5, -0.25, 0.125}, frozen[3] = {0.5, -0.25, 0.125};
    iter_result result;
    iter_error err = {0};
    set_f64(trainer, 0, w, 2);
    set_f64(trainer, 1, w + 2, 1);
    cr_assert_eq(iter_trainer_evaluate(trainer, loader, &result, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(result.n_rows, 5);
    cr_expect_eq(result.n_steps, 2);
    cr_expect_float_eq(result.loss, step_by_hand(frozen, 0, 5, 0), 1e-12);
    expect_weights(trainer, w);
    /* Rows 4, and 0, 1, 2 again. evaluate() has reset the loader. */
    cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK, "%s",
                 err.message);
    cr_expect_eq(result.n_rows, 8);
    const double first = step_by_hand(w, 0, 4, 0.05), second = step_by_hand(w, 4, 4, 0.05);
    cr_expect_float_eq(result.loss, (first + second) / 2, 1e-12);
    expect_weights(trainer, w);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, rows_that_roll_over_are_real_rows) {
    iter_loader *loader = regression(4, ITER_LAST_ROLL_OVER);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference-f64", NULL);
    double w[3] = {0.5, -0.25, 0.125};
    iter_result result;
    iter_error err = {0};
    set_f64(trainer, 0, w, 2);
    set_f64(trainer, 1, w + 2, 1);
    for (int epoch = 0; epoch < 3; epoch++) { /* rows 0 to 3, then 4 0 1 2, then 3 4 0 1 */
        cr_assert_eq(iter_trainer_evaluate(trainer, loader, &result, &err), ITER_OK, "%s",
                     err.message);
        cr_expect_eq(result.n_rows, 4);
        cr_expect_float_eq(result.loss, step_by_hand(w, 4 * epoch, 4, 0), 1e-12);
    }
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* Samples 1, 4, 7, ... fail; data is {i, i * i mod 1000}, the label i mod 7. */
static iter_loader *failing(own_dataset *own, int32_t on_error) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_chain *chain;
    iter_error err = {0};
    opt.batch_size = 4;
    opt.faults.on_error = on_error;
    iter_dataset *dataset = own_open(own, &own_ops);
    cr_assert_eq(iter_chain_parse("cast:f32", NULL, &chain, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataloader_create(dataset, chain, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_chain_unref(chain);
    iter_dataset_unref(dataset);
    return loader;
}

Test(engine_run, blanked_rows_do_not_count) {
    own_dataset own = {.n = 6, .fail_modulo = 3};
    iter_loader *loader = failing(&own, ITER_ON_ERROR_BLANK);
    iter_trainer *trainer =
        trainer_of("dense:7 | softmax-cross-entropy", loader, "reference-f64", "sgd:lr=0.001");
    iter_result result;
    iter_error err = {0};
    double w[14] = {0}, b[7], gradient[7];
    for (int k = 0; k < 7; k++)
        b[k] = 0.1 * k;
    set_f64(trainer, 0, w, 14);
    set_f64(trainer, 1, b, 7);
    /* With weights of zero, a row's loss is log(sum exp b) - b[label]. */
    double sum = 0;
    for (int k = 0; k < 7; k++)
        sum += exp(b[k]);
    iter_batch *batch = next_batch(loader); /* 0, (1), 2, 3 */
    cr_assert_eq(iter_trainer_step(trainer, batch, &result, &err), ITER_OK, "%s", err.message);
    iter_batch_unref(batch);
    cr_expect_eq(result.n_rows, 3);
    cr_expect_float_eq(result.loss, log(sum) - (b[0] + b[2] + b[3]) / 3, 1e-12);
    get_f64(trainer, 1, ITER_VALUE_GRADIENT, gradient, 7);
    for (int k = 0; k < 7; k++)
        cr_expect_float_eq(gradient[k], exp(b[k]) / sum - (k == 0 || k == 2 || k == 3) / 3.0,
                           1e-12);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, without_a_row_that_counts_nothing_happens) {
    own_dataset own = {.n = 4, .fail_modulo = 2}; /* 1 and 3 */
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    const uint64_t subset[] = {1, 3};
    iter_error err = {0};
    iter_chain *chain;
    iter_loader *loader;
    opt.batch_size = 2;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    opt.sampler.subset = subset;
    opt.sampler.n_subset = 2;
    iter_dataset *dataset = own_open(&own, &own_ops);
    cr_assert_eq(iter_chain_parse("cast:f32", NULL, &chain, &err), ITER_OK);
    cr_assert_eq(iter_dataloader_create(dataset, chain, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_trainer *trainer = trainer_of("dense:7 | softmax-cross-entropy", loader, "reference-f64",
                                       "sgd:lr=1,momentum=0.5,weight-decay=0.1");
    double before[14], after[14], gradient[14];
    iter_result result;
    get_f64(trainer, 0, ITER_VALUE_WEIGHT, before, 14);
    cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK, "%s",
                 err.message);
    cr_expect(result.n_rows == 0 && result.n_steps == 1 && result.loss == 0);
    get_f64(trainer, 0, ITER_VALUE_WEIGHT, after, 14);
    cr_expect_eq(memcmp(before, after, sizeof(before)), 0);
    cr_expect_eq(iter_trainer_describe(trainer).n_steps, 0);
    cr_expect_eq(
        iter_trainer_get(trainer, 0, ITER_VALUE_GRADIENT, gradient, sizeof(gradient), &err),
        ITER_ESTATE);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(dataset);
}

/* w changes by w -= lr 2 (w - y); the rate halves every second epoch. */
Test(engine_run, the_rate_is_that_of_the_batchs_epoch) {
    static const float x[2] = {1, 1}, y[2] = {3, 3};
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", x, 2, 1),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 2)};
    iter_loader *loader = loader_of(arrays, 2, 2, ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of("dense:1,bias=no | mse", loader, "reference-f64",
                                       "sgd:lr=0.125,step=2,factor=0.5");
    iter_error err = {0};
    double w = 0, got;
    set_f64(trainer, 0, &w, 1);
    for (int epoch = 0; epoch < 5; epoch++) {
        cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, NULL, &err), ITER_OK);
        cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
        w -= (epoch < 2 ? 0.125 : epoch < 4 ? 0.0625 : 0.03125) * 2 * (w - 3);
        get_f64(trainer, 0, ITER_VALUE_WEIGHT, &got, 1);
        cr_expect_float_eq(got, w, 1e-14, "epoch %d", epoch);
    }
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void learn(const char *backend) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 20; /* the last one has 16 */
    opt.last_batch = ITER_LAST_KEEP;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.workers = 1;
    iter_loader *loader = clouds(opt);
    iter_trainer *trainer = trainer_of("dense:16 | tanh | dropout:0.1 | dense:3 | "
                                       "softmax-cross-entropy",
                                       loader, backend, "sgd:lr=0.1,momentum=0.9");
    iter_result result, tested;
    iter_error err = {0};
    double first = 0;
    for (int epoch = 0; epoch < 10; epoch++) {
        cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
        cr_expect(result.n_rows == 96 && result.n_steps == 5);
        cr_expect(result.seconds > 0 && result.wait_seconds >= 0 &&
                  result.wait_seconds <= result.seconds);
        if (epoch == 0) first = result.loss;
    }
    cr_expect_lt(result.loss, first / 10, "%s: from %g to %g", backend, first, result.loss);
    cr_assert_eq(iter_trainer_evaluate(trainer, loader, &tested, &err), ITER_OK);
    cr_expect_eq(tested.n_correct, 96);
    cr_expect_eq(iter_trainer_describe(trainer).n_steps, 50);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, learns) {
    FOR_EACH_HOST_BACKEND(name) {
        learn(*name);
    }
}

typedef struct progress_log {
    uint64_t rows[8];
    int n, stop_after;
} progress_log;

static bool log_progress(void *user, const iter_result *so_far) {
    progress_log *log = user;
    log->rows[log->n++] = so_far->n_rows;
    return log->n != log->stop_after;
}

Test(engine_run, progress_looks_at_every_step_and_may_end_it) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 40;
    opt.last_batch = ITER_LAST_KEEP;
    iter_loader *loader = clouds(opt);
    iter_trainer *trainer =
        trainer_of("dense:3 | softmax-cross-entropy", loader, "reference", NULL);
    progress_log log = {.stop_after = 2};
    iter_result result;
    iter_error err = {0};
    uint32_t epoch;
    uint64_t samples;
    cr_expect_eq(iter_trainer_epoch(trainer, loader, log_progress, &log, &result, &err),
                 ITER_AGAIN);
    cr_expect(log.n == 2 && log.rows[0] == 40 && log.rows[1] == 80 && result.n_rows == 80);
    iter_loader_position(loader, &epoch, &samples);
    cr_expect(epoch == 0 && samples == 80);
    cr_expect_eq(iter_trainer_epoch(trainer, loader, log_progress, &log, &result, &err), ITER_OK);
    cr_expect(log.n == 3 && log.rows[2] == 16 && result.n_rows == 16 && result.n_steps == 1);
    cr_expect_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK);
    cr_expect(result.n_steps == 0 && result.loss == 0); /* END until reset */
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, evaluation_may_be_the_loaders_last_epoch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 32;
    opt.epochs = 1;
    iter_loader *loader = clouds(opt);
    iter_trainer *trainer =
        trainer_of("dense:3 | softmax-cross-entropy", loader, "reference", NULL);
    iter_result result;
    iter_error err = {0};
    cr_expect_eq(iter_trainer_evaluate(trainer, loader, &result, &err), ITER_OK);
    cr_expect_eq(result.n_rows, 96);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_run, a_loaders_error_is_the_epochs) {
    own_dataset own = {.n = 12, .fail_modulo = 6}; /* 1 and 7 */
    iter_loader *loader = failing(&own, ITER_ON_ERROR_FAIL);
    iter_trainer *trainer =
        trainer_of("dense:7 | softmax-cross-entropy", loader, "reference", "sgd:lr=0.00001");
    iter_result result;
    iter_error err = {0};
    cr_expect_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_EFORMAT);
    cr_expect(strstr(err.message, "sample 1 is bad on purpose"), "%s", err.message);
    cr_expect_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_EFORMAT);
    cr_expect_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK, "%s",
                 err.message); /* the next call continues */
    cr_expect_eq(result.n_rows, 4);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* ---- What stops a step ----------------------------------------------------------------------- */

/* A step over the first batch must fail, and change no weights. */
static void expect_refusal(iter_trainer *trainer, iter_loader *loader, iter_status want,
                           const char *const *says) {
    double before[64], after[64];
    const size_t n = (size_t)iter_desc_elements(&iter_trainer_param(trainer, 0)->desc);
    iter_error err = {0};
    iter_result result;
    cr_assert_leq(n, 64);
    get_f64(trainer, 0, ITER_VALUE_WEIGHT, before, n);
    iter_batch *batch = next_batch(loader);
    cr_expect_eq(iter_trainer_step(trainer, batch, &result, &err), want);
    cr_expect_eq(err.status, want);
    for (; *says; says++)
        cr_expect(strstr(err.message, *says), "'%s' does not say '%s'", err.message, *says);
    cr_expect_eq(iter_trainer_test(trainer, batch, &result, NULL), want);
    iter_batch_unref(batch);
    get_f64(trainer, 0, ITER_VALUE_WEIGHT, after, n);
    cr_expect_eq(memcmp(before, after, n * sizeof(double)), 0);
    cr_expect_eq(iter_trainer_describe(trainer).n_steps, 0);
}

static void refuse(const char *model, const iter_array arrays[2], iter_status want,
                   const char *const *says) {
    iter_loader *loader = loader_of(arrays, 2, (uint32_t)arrays[1].desc.dims[0], ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of(model, loader, "reference-f64", "sgd:lr=0.1,momentum=0.9");
    expect_refusal(trainer, loader, want, says);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(engine_run, a_loss_that_is_not_finite_stops_with_the_weights_as_they_were) {
    float x[6][2] = {{0}}, y[6] = {0};
    x[4][1] = NAN;
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", x, 6, 2),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 6)};
    refuse("dense:1 | mse", arrays, ITER_EFORMAT,
           SAYS("step 0", "the loss is nan in epoch 0", "samples 0, 1, 2, 3, ...",
                "weights are unchanged", "Data of row 4 (sample 4) holds a value"));
    x[4][1] = 0;
    y[3] = INFINITY;
    refuse("dense:1 | mse", arrays, ITER_EFORMAT,
           SAYS("the loss is infinite", "The label of row 3 (sample 3) holds a value"));
    y[3] = 1e30f; /* its square overflows a float, but not a double */
    iter_loader *loader = loader_of(arrays, 2, 6, ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference-f64", NULL);
    double huge[2] = {1e200, 1e200};
    x[0][0] = 1;
    set_f64(trainer, 0, huge, 2);
    expect_refusal(trainer, loader, ITER_EFORMAT, SAYS("Data and labels are finite", "lower lr"));
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* On every backend of this build; with Adam, whose moments must not change either. */
Test(engine_run, a_bad_batch_changes_no_backend) {
    float x[6][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {NAN, 1}, {2, 3}}, y[6] = {1};
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", x, 6, 2),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 6)};
    FOR_EACH_HOST_BACKEND(name) {
        iter_loader *loader = loader_of(arrays, 2, 3, ITER_LAST_KEEP);
        iter_trainer *trainer = trainer_of("dense:4 | tanh | dense:1 | mse", loader, *name, "adam");
        const size_t bytes = strcmp(*name, "reference-f64") == 0 ? 64 : 32;
        unsigned char before[3][64], after[64], start[64];
        iter_error err = {0};
        cr_assert_eq(iter_trainer_get(trainer, 0, ITER_VALUE_WEIGHT, start, bytes, &err), ITER_OK);
        for (int step = 0; step < 2; step++) {
            iter_batch *batch = next_batch(loader);
            cr_expect_eq(iter_trainer_step(trainer, batch, NULL, &err),
                         step ? ITER_EFORMAT : ITER_OK, "%s: %s", *name, err.message);
            iter_batch_unref(batch);
            for (int value = 0; value < 3; value++) {
                static const iter_value values[] = {ITER_VALUE_WEIGHT, ITER_VALUE_MOMENT,
                                                    ITER_VALUE_MOMENT2};
                cr_assert_eq(iter_trainer_get(trainer, 0, values[value],
                                              step ? after : before[value], bytes, &err),
                             ITER_OK);
                if (step) cr_expect_eq(memcmp(before[value], after, bytes), 0, "%s", *name);
            }
        }
        cr_expect_neq(memcmp(start, before[0], bytes), 0);
        cr_expect(strstr(err.message, "step 1: the loss is nan in epoch 0, over samples 3, 4, 5;"),
                  "%s", err.message);
        cr_expect_eq(iter_trainer_describe(trainer).n_steps, 1);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

/* A relu and a maximum would turn it into a number; it must be found all the same. */
Test(engine_run, a_pixel_that_is_no_number_is_seen) {
    static float x[4][2][6][6];
    int32_t y[4] = {0, 1, 2, 0};
    x[2][1][3][3] = NAN;
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "NCHW", x, 4, 2, 6, 6),
                                 ARRAY(ITER_LABEL, ITER_I32, "", y, 4)};
    FOR_EACH_HOST_BACKEND(name) {
        iter_loader *loader = loader_of(arrays, 2, 4, ITER_LAST_KEEP);
        iter_trainer *trainer = trainer_of(
            "conv2d:4,kernel=3,pad=1 | relu | conv2d:4,kernel=3,pad=1 | maxpool:2 | relu | "
            "flatten | dense:3 | softmax-cross-entropy",
            loader, *name, NULL);
        iter_batch *batch = next_batch(loader);
        iter_error err = {0};
        cr_expect_eq(iter_trainer_step(trainer, batch, NULL, &err), ITER_EFORMAT, "%s", *name);
        cr_expect(strstr(err.message, "row 2 (sample 2)"), "%s: %s", *name, err.message);
        cr_expect_eq(iter_trainer_describe(trainer).n_steps, 0);
        iter_batch_unref(batch);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

Test(engine_run, a_label_outside_the_classes_is_named) {
    static float x[6][2];
    int32_t y[6] = {0, 1, 2, 3, 0, 1};
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", x, 6, 2),
                                 ARRAY(ITER_LABEL, ITER_I32, "", y, 6)};
    refuse("dense:3 | softmax-cross-entropy", arrays, ITER_EINVAL,
           SAYS("step 0", "label of row 3 (sample 3) is 3", "the classes 0 to 2"));
    y[3] = 0;
    y[5] = -1;
    refuse("dense:3 | softmax-cross-entropy", arrays, ITER_EINVAL,
           SAYS("label of row 5 (sample 5) is -1"));
    int64_t wide[6] = {0, (int64_t)1 << 32, 0, 0, 0, 0}; /* 0 in its low half */
    const iter_array wide_arrays[] = {arrays[0], ARRAY(ITER_LABEL, ITER_I64, "", wide, 6)};
    refuse("dense:3 | softmax-cross-entropy", wide_arrays, ITER_EINVAL,
           SAYS("label of row 1 (sample 1) is 4294967296"));
}

Test(engine_run, an_id_outside_the_embedding_is_named) {
    static const float y[4][2];
    int32_t ids[4][3] = {{0, 1, 2}, {3, 4, 5}, {5, 6, 4}, {0, 0, 0}};
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_I32, "NT", ids, 4, 3),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 4, 2)};
    refuse("embedding:6,2 | last-step | mse", arrays, ITER_EINVAL,
           SAYS("step 0", "id 1 of row 2 (sample 2) is 6", "the rows 0 to 5"));
    ids[2][1] = -7;
    refuse("embedding:6,2 | last-step | mse", arrays, ITER_EINVAL,
           SAYS("id 1 of row 2 (sample 2) is -7"));
    int64_t wide[4][3] = {{0}};
    wide[3][2] = (int64_t)1 << 32;
    const iter_array wide_arrays[] = {ARRAY(ITER_DATA, ITER_I64, "", wide, 4, 3), arrays[1]};
    refuse("embedding:6,2 | last-step | mse", wide_arrays, ITER_EINVAL,
           SAYS("id 2 of row 3 (sample 3) is 4294967296"));
}

Test(engine_run, ids_are_checked_with_time_first_too) {
    static const float y[4][2];
    int32_t ids[4][3] = {{0, 1, 2}, {3, 4, 5}, {5, 6, 4}, {0, 0, 0}};
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_I32, "NT", ids, 4, 3),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 4, 2)};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_chain *chain;
    iter_loader *loader;
    iter_error err = {0};
    opt.batch_size = 4;
    cr_assert_eq(iter_chain_parse("tnc", NULL, &chain, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_ndarray_create(arrays, 2, chain, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_trainer *trainer =
        trainer_of("embedding:6,2 | last-step | mse", loader, "reference-f64", NULL);
    expect_refusal(trainer, loader, ITER_EINVAL, SAYS("id 1 of row 2 (sample 2) is 6"));
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
}

Test(engine_run, a_batch_of_another_shape_is_refused) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference-f64", NULL);
    static const float x[6][3], y[6];
    static const double narrow[6][1], values[6];
    static const iter_array others[][2] = {
        {ARRAY(ITER_DATA, ITER_F32, "", x, 6, 2), ARRAY(ITER_LABEL, ITER_F64, "", values, 6)},
        {ARRAY(ITER_DATA, ITER_F64, "", narrow, 6, 1), ARRAY(ITER_LABEL, ITER_F64, "", values, 6)},
        {ARRAY(ITER_DATA, ITER_F64, "", rows_x, 5, 2), ARRAY(ITER_LABEL, ITER_F32, "", y, 5)},
        {ARRAY(ITER_DATA, ITER_F64, "", rows_x, 5, 2), ARRAY(ITER_LABEL, ITER_F64, "", values, 5)},
    };
    static const char *const says[] = {
        "data: the batch has f32 [4, 2] \"NF\", expected f64 [4, 2] \"NF\"",
        "data: the batch has f64 [4, 1]", "label: the batch has f32 [4]",
        "data: the batch has f64 [5, 2] \"NF\", expected f64 [4, 2]"};
    for (int i = 0; i < 4; i++) {
        iter_loader *other = loader_of(others[i], 2, i == 3 ? 5 : 4, ITER_LAST_KEEP);
        expect_refusal(trainer, other, ITER_EINVAL, SAYS(says[i]));
        iter_loader_unref(other);
    }
    iter_loader *bare = loader_of(others[0], 1, 4, ITER_LAST_KEEP);
    expect_refusal(trainer, bare, ITER_EINVAL, SAYS("data: the batch has f32"));
    iter_loader_unref(bare);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}
