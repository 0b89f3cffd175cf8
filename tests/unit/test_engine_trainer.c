/*
 * test_engine_trainer.c - making trainers, how they describe themselves, their values, predicting.
 */
#include <math.h>

#include "engine/backend.h"
#include "tests/support/engine_drive.h"

TestSuite(engine_trainer, .fini = engine_no_leak, .timeout = 280);

/* ---- Predicting, values ---------------------------------------------------------------------- */

Test(engine_trainer, predicts_without_labels) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    const iter_array data = ARRAY(ITER_DATA, ITER_F64, "", rows_x, 5, 2);
    iter_loader *unlabeled = loader_of(&data, 1, 4, ITER_LAST_KEEP);
    static const char *const backends[] = {"reference", "reference-f64"};
    const double w64[3] = {0.5, -0.25, 0.125};
    const float w32[3] = {0.5f, -0.25f, 0.125f};
    for (int b = 0; b < 2; b++) {
        iter_trainer *trainer =
            trainer_of("dropout:0.5 | dense:1 | mse", loader, backends[b], NULL);
        iter_error err = {0};
        const void *weights = b ? (const void *)w64 : w32,
                   *bias = b ? (const void *)(w64 + 2) : w32 + 2;
        cr_assert_eq(iter_trainer_set(trainer, 0, ITER_VALUE_WEIGHT, weights, b ? 16 : 8, &err),
                     ITER_OK);
        cr_assert_eq(iter_trainer_set(trainer, 1, ITER_VALUE_WEIGHT, bias, b ? 8 : 4, &err),
                     ITER_OK);
        for (int first = 0; first < 5; first += 4) {
            iter_batch *batch = next_batch(unlabeled);
            float out[5] = {7, 7, 7, 7, 7};
            const int n = first ? 1 : 4;
            cr_expect_eq(iter_trainer_predict(trainer, batch, out, (size_t)n - 1, &err),
                         ITER_EINVAL);
            cr_expect(strstr(err.message, "but capacity is"), "%s", err.message);
            cr_assert_eq(iter_trainer_predict(trainer, batch, out, 5, &err), ITER_OK, "%s",
                         err.message);
            for (int i = 0; i < n; i++) {
                const double *x = rows_x[first + i];
                cr_expect_float_eq((double)out[i], 0.5 * x[0] - 0.25 * x[1] + 0.125, 1e-6);
            }
            cr_expect_eq(out[n], 7.0f);
            iter_batch_unref(batch);
        }
        cr_assert_eq(iter_loader_reset(unlabeled, &err), ITER_OK);
        iter_trainer_destroy(trainer);
    }
    iter_loader_unref(unlabeled);
    iter_loader_unref(loader);
}

/* If a value is not finite, no backend may predict something finite from it. */
Test(engine_trainer, predicts_nothing_from_what_is_not_finite) {
    float pixels[4][1][6][5] = {{{{0}}}};
    static const uint8_t labels[4];
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "NCHW", pixels, 4, 1, 6, 5),
                                 ARRAY(ITER_LABEL, ITER_U8, "", labels, 4)};
    FOR_EACH_HOST_BACKEND(name) {
        iter_loader *loader = loader_of(arrays, 2, 4, ITER_LAST_KEEP);
        iter_trainer *trainer = trainer_of("conv2d:3 | relu | maxpool:2 | flatten | dense:2 | "
                                           "softmax-cross-entropy",
                                           loader, *name, NULL);
        iter_error err = {0};
        for (int broken = 1; broken >= 0; broken--) {
            float out[8];
            pixels[2][0][3][3] = broken ? NAN : 1;
            iter_batch *batch = next_batch(loader);
            cr_expect_eq(iter_trainer_predict(trainer, batch, out, 8, &err),
                         broken ? ITER_EFORMAT : ITER_OK, "%s: %s", *name, err.message);
            cr_expect(!broken || strstr(err.message, "Data of row 2 (sample 2) holds a value"),
                      "%s", err.message);
            iter_batch_unref(batch);
            cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
        }
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

Test(engine_trainer, gray_images_are_images_with_one_channel) {
    uint8_t pixels[4][6][5];
    static const uint8_t labels[4] = {0, 1, 1, 0};
    for (int i = 0; i < 120; i++)
        (&pixels[0][0][0])[i] = (uint8_t)(i * 37);
    float out[2][8];
    for (int c = 0; c < 2; c++) {
        iter_array arrays[] = {ARRAY(ITER_DATA, ITER_U8, "NHW", pixels, 4, 6, 5),
                               ARRAY(ITER_LABEL, ITER_U8, "", labels, 4)};
        const iter_array channel = ARRAY(ITER_DATA, ITER_U8, "NCHW", pixels, 4, 1, 6, 5);
        if (c) arrays[0] = channel;
        iter_loader *loader = loader_of(arrays, 2, 4, ITER_LAST_KEEP);
        iter_trainer *trainer = trainer_of("conv2d:3 | relu | flatten | dense:2 | "
                                           "softmax-cross-entropy",
                                           loader, "reference", NULL);
        iter_error err = {0};
        iter_batch *batch = next_batch(loader);
        cr_assert_eq(iter_trainer_predict(trainer, batch, out[c], 8, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_trainer_step(trainer, batch, NULL, &err), ITER_OK, "%s", err.message);
        iter_batch_unref(batch);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
    cr_expect_eq(memcmp(out[0], out[1], sizeof(out[0])), 0);
    cr_expect_neq(out[0][0], out[0][2]);
}

/* Over generated data, in every layout that the loader can give; the same weights and samples give
 * the same outputs. */
Test(engine_trainer, published_networks_fit_their_loaders) {
    static const struct {
        const char *model, *data, *chain;
        uint64_t n_weights;
        bool again; /* the outputs equal those of the row before */
    } cases[] = {
        {"cnn", "synthetic:cifar10?n=2", "to:f32,nchw", 3441592, false},
        {"cnn", "synthetic:cifar10?n=2", "to:f32,nhwc", 3441592, true},
        {"gru", "synthetic:imdb?n=2", "pad-tokens:150", 3818302, false},
        {"gru", "synthetic:imdb?n=2", "pad-tokens:150 | tnc", 3818302, true},
        {"mlp", "synthetic:cs224?n=2", "", 330501, false},
        {"flatten | dense:10 | softmax-cross-entropy", "synthetic:mnist?n=2", "to:f32", 7850,
         false},
    };
    float out[2][20];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        iter_dataset *data;
        iter_chain *chain;
        iter_loader *loader;
        iter_error err = {0};
        opt.batch_size = 2;
        cr_assert_eq(iter_dataset_open(cases[i].data, NULL, &data, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_chain_parse(cases[i].chain, NULL, &chain, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_OK, "%s",
                     err.message);
        iter_trainer *trainer = trainer_of(cases[i].model, loader, NULL, NULL);
        cr_expect_eq(iter_trainer_describe(trainer).n_weights, cases[i].n_weights);
        iter_batch *batch = next_batch(loader);
        cr_assert_eq(iter_trainer_predict(trainer, batch, out[i & 1], 20, &err), ITER_OK, "%s",
                     err.message);
        for (int k = 0; k < 4 && cases[i].again; k++)
            cr_expect_float_eq((double)out[0][k], (double)out[1][k], 1e-5);
        iter_batch_unref(batch);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
        iter_chain_unref(chain);
        iter_dataset_unref(data);
    }
}

Test(engine_trainer, keeps_the_gradient_of_its_input_where_asked) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_trainer *trainer;
    iter_error err = {0};
    opt.backend = "reference-f64";
    opt.keep_input_gradient = 1;
    cr_assert_eq(try_trainer("dense:1 | mse", loader, opt, &trainer, &err), ITER_OK);
    const double w[3] = {0.5, -0.25, 0.125};
    double got[4][2];
    set_f64(trainer, 0, w, 2);
    set_f64(trainer, 1, w + 2, 1);
    cr_expect_eq(iter_trainer_get(trainer, 0, ITER_VALUE_INPUT_GRADIENT, got, sizeof(got), &err),
                 ITER_ESTATE);
    iter_batch *batch = next_batch(loader);
    cr_assert_eq(iter_trainer_step(trainer, batch, NULL, &err), ITER_OK);
    iter_batch_unref(batch);
    cr_assert_eq(iter_trainer_get(trainer, -5, ITER_VALUE_INPUT_GRADIENT, got, sizeof(got), &err),
                 ITER_OK, "%s", err.message);
    for (int i = 0; i < 4; i++) {
        const double d = w[0] * rows_x[i][0] + w[1] * rows_x[i][1] + w[2] - rows_y[i];
        for (int k = 0; k < 2; k++)
            cr_expect_float_eq(got[i][k], 2 * d * w[k] / 4, 1e-12);
    }
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_trainer, values_go_out_and_in) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference", "sgd:momentum=0.9");
    iter_error err = {0};
    float w[2] = {0.1f, -0.3f}, got[2];
    cr_expect_eq(iter_trainer_n_params(trainer), 2);
    cr_expect_str_eq(iter_trainer_param(trainer, 0)->name, "dense0.weight");
    cr_expect_null(iter_trainer_param(trainer, 2));
    cr_expect_null(iter_trainer_param(trainer, -1));
    for (int value = ITER_VALUE_WEIGHT; value <= ITER_VALUE_MOMENT; value += ITER_VALUE_MOMENT) {
        cr_expect_eq(iter_trainer_set(trainer, 0, (iter_value)value, w, sizeof(w), &err), ITER_OK);
        cr_expect_eq(iter_trainer_get(trainer, 0, (iter_value)value, got, sizeof(got), &err),
                     ITER_OK);
        cr_expect_eq(memcmp(w, got, sizeof(w)), 0);
    }
    const struct {
        int32_t param, value;
        size_t bytes;
        iter_status want;
        const char *says;
        bool set;
    } cases[] = {
        {2, ITER_VALUE_WEIGHT, 8, ITER_EINVAL, "there is no parameter 2", false},
        {-1, ITER_VALUE_WEIGHT, 8, ITER_EINVAL, "there is no parameter -1", true},
        {0, ITER_VALUE_WEIGHT, 4, ITER_EINVAL, "dense0.weight: expected 8 bytes, got 4", false},
        {0, ITER_VALUE_WEIGHT, 16, ITER_EINVAL, "dense0.weight: expected 8 bytes, got 16", true},
        {0, ITER_VALUE_MOMENT2, 8, ITER_EINVAL, "this optimizer keeps 1 moment", false},
        {0, ITER_VALUE_MOMENT2, 8, ITER_EINVAL, "this optimizer keeps 1 moment", true},
        {0, ITER_VALUE_GRADIENT, 8, ITER_ESTATE, "no step", false},
        {0, ITER_VALUE_GRADIENT, 8, ITER_EINVAL, "cannot be set", true},
        {0, ITER_VALUE_INPUT_GRADIENT, 32, ITER_EINVAL, "keep_input_gradient", false},
        {0, 5, 8, ITER_EINVAL, "value 5 cannot be read", false},
        {0, -1, 8, ITER_EINVAL, "value -1 cannot be set", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const iter_value value = (iter_value)cases[i].value;
        const iter_status status =
            cases[i].set
                ? iter_trainer_set(trainer, cases[i].param, value, w, cases[i].bytes, &err)
                : iter_trainer_get(trainer, cases[i].param, value, got, cases[i].bytes, &err);
        cr_expect_eq(status, cases[i].want, "case %zu", i);
        cr_expect(strstr(err.message, cases[i].says), "%s", err.message);
    }
    cr_expect_eq(iter_trainer_get(trainer, 0, ITER_VALUE_WEIGHT, NULL, 8, &err), ITER_EINVAL);
    cr_expect_eq(iter_trainer_set(NULL, 0, ITER_VALUE_WEIGHT, w, 8, &err), ITER_EINVAL);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_trainer, weights_begin_by_the_seed_whatever_the_backend) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_error err = {0};
    double w[4][16];
    for (int i = 0; i < 4; i++) {
        iter_trainer *trainer;
        float narrow[16];
        opt.backend = i == 3 ? "reference" : "reference-f64";
        opt.seed = i == 2 ? 8 : 7;
        cr_assert_eq(try_trainer("dense:8 | dense:1 | mse", loader, opt, &trainer, &err), ITER_OK);
        if (i < 3)
            get_f64(trainer, 0, ITER_VALUE_WEIGHT, w[i], 16);
        else
            cr_assert_eq(
                iter_trainer_get(trainer, 0, ITER_VALUE_WEIGHT, narrow, sizeof(narrow), &err),
                ITER_OK);
        for (int k = 0; k < 16 && i == 3; k++)
            w[3][k] = (double)narrow[k];
        iter_trainer_destroy(trainer);
    }
    cr_expect_eq(memcmp(w[0], w[1], sizeof(w[0])), 0);
    cr_expect_eq(memcmp(w[0], w[3], sizeof(w[0])), 0);
    cr_expect_neq(memcmp(w[0], w[2], sizeof(w[0])), 0);
    for (int k = 0; k < 16; k++) /* Glorot, 2 in and 8 out */
        cr_expect(w[0][k] != 0 && fabs(w[0][k]) <= sqrt(6.0 / 10));
    iter_loader_unref(loader);
}

/* ---- Making and describing one --------------------------------------------------------------- */

Test(engine_trainer, says_what_it_is) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_trainer *trainer =
        trainer_of("dense:3 | relu | dense:1 | mse", loader, "reference", "sgd:lr=0.1");
    const iter_trainer_info info = iter_trainer_describe(trainer);
    cr_expect_eq(strncmp(info.backend, "reference: ", 11), 0, "%s", info.backend);
    cr_expect_eq(info.n_weights, 3 * 2 + 3 + 3 + 1);
    cr_expect_geq(info.threads, 1);
    cr_expect_gt(info.n_bytes, info.n_weights * sizeof(float));
    cr_expect_eq(info.n_steps, 0);
    const char *text = iter_trainer_plan_text(trainer);
    static const char *const lines[] = {
        "data: f64 [4, 2] \"NF\"\n",       "dense0: f64 [2] -> f32 [3], 9 weights",
        "relu0: f32 [3] -> f32 [3]\n",     "dense1: f32 [3] -> f32 [1], 4 weights",
        "mse0: f32 [1] and label f64 [4]", "13 weights, sgd:lr=0.1; reference: "};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_expect(strstr(text, lines[i]), "'%s' is not in:\n%s", lines[i], text);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

Test(engine_trainer, leaves_cores_to_the_loaders_workers) {
    static const float x[8][2], y[8];
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", x, 8, 2),
                                 ARRAY(ITER_LABEL, ITER_F32, "", y, 8)};
    uint32_t threads[3];
    static const int32_t workers[] = {0, 1, 64};
    for (int i = 0; i < 3; i++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        opt.batch_size = 2;
        opt.workers = workers[i];
        iter_loader *loader = loader_with(arrays, 2, opt);
        iter_trainer *trainer = trainer_of("dense:1 | mse", loader, "reference", NULL);
        threads[i] = iter_trainer_describe(trainer).threads;
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
    cr_expect_geq(threads[0], 1);
    cr_expect_eq(threads[1], threads[0] > 1 ? threads[0] - 1 : 1);
    cr_expect_eq(threads[2], threads[0] > 64 ? threads[0] - 64 : 1);
}

Test(engine_trainer, backends_are_listed) {
    const char *const *names = iter_engine_backends();
    int n = 0;
    bool has_cpu = false;
    for (; names[n]; n++) {
        cr_expect_str_eq(names[n], iter__backends[n]->name);
        has_cpu |= strcmp(names[n], "cpu") == 0;
    }
    cr_expect_geq(n, 2);
    cr_expect_null(iter__backends[n]);
    if (has_cpu) cr_expect_str_eq(names[0], "cpu");
    const engine_backend_ops *ops;
    iter_error err = {0};
    cr_expect_eq(iter__backend_find(NULL, &ops, &err), ITER_OK);
    cr_expect_eq(ops, iter__backends[0]);
    cr_expect_eq(iter__backend_find("abacus", &ops, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "no backend is called 'abacus'; there are "), "%s", err.message);
    if (has_cpu) return;
    cr_expect_eq(iter__backend_find("cpu", &ops, &err), ITER_EUNSUPPORTED);
    cr_expect(strstr(err.message, "oneDNN"), "%s", err.message);
}

Test(engine_trainer, what_cannot_be_made_is_told) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    const iter_array lone = ARRAY(ITER_DATA, ITER_F64, "", rows_x, 5, 2);
    static const int32_t ids[4][3];
    static const float values[4];
    const iter_array token_arrays[] = {ARRAY(ITER_DATA, ITER_I32, "", ids, 4, 3),
                                       ARRAY(ITER_LABEL, ITER_F32, "", values, 4)};
    iter_loader *unlabeled = loader_of(&lone, 1, 4, ITER_LAST_KEEP);
    iter_loader *tokens = loader_of(token_arrays, 2, 4, ITER_LAST_KEEP);
    const struct {
        const char *model;
        iter_loader *loader;
        iter_trainer_options opt;
        const char *says;
        iter_status want;
    } cases[] = {
        {"dense:1", loader, ITER_TRAINER_OPTIONS_INIT, "trainer: model: it ends with dense0",
         ITER_EINVAL},
        {"dense:1 | mse", unlabeled, ITER_TRAINER_OPTIONS_INIT,
         "trainer: the loader has no field of labels", ITER_EINVAL},
        {"dense:2 | mse", loader, ITER_TRAINER_OPTIONS_INIT, "trainer: mse0: expects values",
         ITER_EINVAL},
        {"dense:1 | mse",
         loader,
         {.struct_size = sizeof(iter_trainer_options), .backend = "abacus"},
         "trainer: backend: no backend is called 'abacus'",
         ITER_EINVAL},
        {"dense:1 | mse",
         loader,
         {.struct_size = sizeof(iter_trainer_options), .optimizer = "sgd:lr=x"},
         "trainer: optimizer: column 5: sgd: lr is 'x'",
         ITER_EINVAL},
        {"dense:1 | mse", loader, {.struct_size = 0}, "struct_size is 0", ITER_EINVAL},
        {"dense:1 | mse", loader, {.struct_size = (size_t)1 << 40}, "struct_size is", ITER_EINVAL},
        {"embedding:5,1 | last-step | mse",
         tokens,
         {.struct_size = sizeof(iter_trainer_options),
          .backend = "reference",
          .keep_input_gradient = 1},
         "token ids have no gradient",
         ITER_EINVAL},
        {"dense:1 | mse",
         loader,
         {.struct_size = sizeof(iter_trainer_options), .threads = 1025},
         "trainer: 1025 threads, at most 1024",
         ITER_EINVAL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_trainer *trainer = NULL;
        iter_error err = {0};
        cr_expect_eq(try_trainer(cases[i].model, cases[i].loader, cases[i].opt, &trainer, &err),
                     cases[i].want, "case %zu", i);
        cr_expect_null(trainer);
        cr_expect(strstr(err.message, cases[i].says), "'%s' does not say '%s'", err.message,
                  cases[i].says);
        cr_expect_eq(try_trainer(cases[i].model, cases[i].loader, cases[i].opt, &trainer, &err),
                     cases[i].want);
    }
    iter_model *empty;
    iter_trainer *trainer;
    iter_error err = {0};
    cr_assert_eq(iter_model_create(&empty, &err), ITER_OK);
    cr_expect_eq(iter_trainer_create(empty, loader, NULL, &trainer, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "model: it has no layers"), "%s", err.message);
    cr_expect_eq(iter_trainer_create(NULL, loader, NULL, &trainer, &err), ITER_EINVAL);
    cr_expect_eq(iter_trainer_create(empty, NULL, NULL, &trainer, &err), ITER_EINVAL);
    cr_expect_eq(iter_trainer_create(empty, loader, NULL, NULL, &err), ITER_EINVAL);
    cr_expect_eq(iter_trainer_step(NULL, NULL, NULL, &err), ITER_EINVAL);
    cr_expect_eq(iter_trainer_epoch(NULL, loader, NULL, NULL, NULL, &err), ITER_EINVAL);
    iter_trainer_destroy(NULL);
    iter_model_unref(empty);
    iter_loader_unref(tokens);
    iter_loader_unref(unlabeled);
    iter_loader_unref(loader);
}

Test(engine_trainer, freezes_its_model) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    iter_model *model;
    iter_trainer *trainer;
    iter_error err = {0};
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    opt.backend = "reference";
    cr_assert_eq(iter_model_parse("dense:1 | mse", &model, &err), ITER_OK);
    cr_assert_eq(iter_trainer_create(model, loader, &opt, &trainer, &err), ITER_OK);
    iter_loader_unref(loader); /* not kept */
    cr_expect_eq(iter_model_add(model, "relu", NULL, 0, &err), ITER_ESTATE);
    iter_model_unref(model); /* the trainer has its own reference */
    iter_trainer_destroy(trainer);
}

Test(engine_trainer, newer_options_are_refused_where_they_are_set) {
    iter_loader *loader = regression(4, ITER_LAST_KEEP);
    struct {
        iter_trainer_options known;
        uint64_t later;
    } opt = {.known = ITER_TRAINER_OPTIONS_INIT};
    iter_model *model;
    iter_trainer *trainer;
    iter_error err = {0};
    opt.known.struct_size = sizeof(opt);
    opt.known.backend = "reference";
    cr_assert_eq(iter_model_parse("dense:1 | mse", &model, &err), ITER_OK);
    cr_expect_eq(iter_trainer_create(model, loader, &opt.known, &trainer, &err), ITER_OK);
    iter_trainer_destroy(trainer);
    opt.later = 1;
    cr_expect_eq(iter_trainer_create(model, loader, &opt.known, &trainer, &err), ITER_EUNSUPPORTED);
    iter_model_unref(model);
    iter_loader_unref(loader);
}

Test(engine_trainer, steps_allocate_nothing) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 20;
    opt.last_batch = ITER_LAST_KEEP;
    FOR_EACH_HOST_BACKEND(name) {
        iter_loader *loader = clouds(opt);
        iter_trainer *trainer = trainer_of("dense:8 | relu | dropout:0.5 | dense:3 | "
                                           "softmax-cross-entropy",
                                           loader, *name, "adam");
        iter_error err = {0};
        const long count = iter__engine_count();
        for (int epoch = 0; epoch < 2; epoch++) {
            cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, NULL, &err), ITER_OK);
            cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
            cr_assert_eq(iter_trainer_evaluate(trainer, loader, NULL, &err), ITER_OK);
        }
        cr_expect_eq(iter__engine_count(), count, "%s", *name);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

static void walk(const char *backend, iter_loader *loader, iter_model *model, long *counter) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    const long live = iter__engine_live(), core_live = iter__alloc_live();
    opt.backend = backend;
    opt.optimizer = "adam:lr=0.01";
    opt.keep_input_gradient = 1;
    for (long n = 0;; n++) {
        iter_trainer *trainer;
        iter_error err = {0};
        *counter = n;
        const iter_status status = iter_trainer_create(model, loader, &opt, &trainer, &err);
        const bool failed = *counter == -1;
        *counter = -1;
        if (!failed) {
            cr_assert_eq(status, ITER_OK, "%s", err.message);
            cr_expect_gt(n, 1);
            iter_trainer_destroy(trainer);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "%s, allocation %ld: %s", backend, n, err.message);
        cr_expect(strstr(err.message, "trainer: "), "%s", err.message);
        cr_expect(strstr(err.message, "memory"), "%s", err.message);
        cr_expect_null(trainer);
        cr_expect_eq(iter__engine_live(), live);
        cr_expect_eq(iter__alloc_live(), core_live);
    }
    cr_expect_eq(iter__engine_live(), live);
}

Test(engine_trainer, every_failed_allocation_is_told) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_model *model;
    iter_error err = {0};
    opt.batch_size = 20;
    iter_loader *loader = clouds(opt);
    cr_assert_eq(iter_model_parse("dense:8 | relu | dropout:0.5 | dense:3 | softmax-cross-entropy",
                                  &model, &err),
                 ITER_OK);
    FOR_EACH_HOST_BACKEND(name) {
        walk(*name, loader, model, &iter__engine_fail_after);
        walk(*name, loader, model, &iter__alloc_fail_after);
    }
    iter_model_unref(model);
    iter_loader_unref(loader);
}
