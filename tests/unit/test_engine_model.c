/*
 * test_engine_model.c - models from text and by calls, their text, refusals, references.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <iter/engine.h>

#include "engine/engine_memory.h"
#include "engine/model.h"
#include "iter/core/alloc.h"

static void no_leak(void) {
    if (iter__alloc_live() != 0 || iter__engine_live() != 0) abort();
}

TestSuite(engine_model, .fini = no_leak, .timeout = 280);

static iter_model *parsed(const char *text) {
    iter_model *model;
    iter_error err = {0};
    cr_assert_eq(iter_model_parse(text, &model, &err), ITER_OK, "%s: %s", text, err.message);
    return model;
}

Test(engine_model, layers_hold_what_was_said) {
    iter_model *model = parsed(
        "conv2d:50,5,stride=2,pad=1,bias=no,init=uniform,init-range=0.5 | maxpool:3,stride=2 "
        "| avgpool:2 | dropout:0.25 | embedding:30k,8,init=he | gru:7,reset=before | "
        "dense:units=10 | mse");
    cr_assert_eq(iter__model_n_layers(model), 8);
    static const engine_kind kinds[] = {ENGINE_CONV2D,  ENGINE_MAXPOOL,   ENGINE_AVGPOOL,
                                        ENGINE_DROPOUT, ENGINE_EMBEDDING, ENGINE_GRU,
                                        ENGINE_DENSE,   ENGINE_MSE};
    const engine_layer_options *o[8];
    for (int32_t i = 0; i < 8; i++) {
        cr_expect_eq(iter__model_layer(model, i)->kind, kinds[i]);
        o[i] = &iter__model_layer(model, i)->options;
    }
    cr_expect(o[0]->conv2d.channels == 50 && o[0]->conv2d.kernel == 5 && o[0]->conv2d.stride == 2);
    cr_expect(o[0]->conv2d.pad == 1 && !o[0]->conv2d.bias && o[0]->conv2d.init_range == 0.5);
    cr_expect_eq(o[0]->conv2d.init, ITER_INIT_UNIFORM);
    cr_expect(o[1]->pool.size == 3 && o[1]->pool.stride == 2 && o[1]->pool.pad == 0);
    cr_expect(o[2]->pool.size == 2 && o[2]->pool.stride == 0);
    cr_expect_eq(o[3]->dropout.p, 0.25);
    cr_expect(o[4]->embedding.rows == 30000 && o[4]->embedding.units == 8);
    cr_expect_eq(o[4]->embedding.init, ITER_INIT_HE);
    cr_expect(o[5]->gru.units == 7 && o[5]->gru.reset == ITER_GRU_RESET_BEFORE);
    cr_expect(o[6]->dense.units == 10 && o[6]->dense.bias && o[6]->dense.init == 0);
    iter_model_unref(model);
}

Test(engine_model, defaults_are_the_documented_ones) {
    iter_model *model = parsed("conv2d:4 | l2");
    const iter_conv2d_options *o = &iter__model_layer(model, 0)->options.conv2d;
    cr_expect(o->kernel == 3 && o->stride == 1 && o->pad == 0 && o->bias && o->init == 0);
    iter_model_unref(model);
}

Test(engine_model, calls_and_text_agree) {
    const iter_conv2d_options conv = {
        .channels = 50, .kernel = 3, .stride = 1, .pad = 1, .bias = true};
    const iter_dense_options dense = {.units = 10, .bias = false};
    iter_model *model;
    iter_error err = {0};
    cr_assert_eq(iter_model_create(&model, &err), ITER_OK);
    cr_expect_str_eq(iter_model_text(model), "");
    cr_assert_eq(iter_model_add(model, "conv2d", &conv, sizeof(conv), &err), ITER_OK);
    cr_assert_eq(iter_model_add(model, "relu", NULL, 0, &err), ITER_OK);
    cr_assert_eq(iter_model_add(model, "flatten", NULL, 0, &err), ITER_OK);
    cr_assert_eq(iter_model_add(model, "dense", &dense, sizeof(dense), &err), ITER_OK);
    cr_assert_eq(iter_model_add(model, "softmax-cross-entropy", NULL, 0, &err), ITER_OK);
    cr_expect_str_eq(iter_model_text(model), "conv2d:channels=50,pad=1 | relu | flatten | "
                                             "dense:units=10,bias=false | softmax-cross-entropy");
    iter_model_unref(model);
}

Test(engine_model, text_reads_back_to_itself) {
    static const char *const texts[] = {
        "cnn",
        "gru",
        "mlp",
        "tanh|sigmoid|mse",
        "conv2d:1,11,stride=4,pad=2,bias=false,init=he | avgpool:3,stride=2,pad=1 | flatten | l2",
        "embedding:100,8,init=uniform,init-range=0.1 | gru:3,reset=before | mean-steps | mse",
        "dropout:0.30000000000000004 | l2",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        iter_model *first = parsed(texts[i]);
        iter_model *second = parsed(iter_model_text(first));
        cr_expect_str_eq(iter_model_text(first), iter_model_text(second));
        cr_assert_eq(iter__model_n_layers(first), iter__model_n_layers(second));
        for (int32_t l = 0; l < iter__model_n_layers(first); l++)
            cr_expect_eq(memcmp(iter__model_layer(first, l), iter__model_layer(second, l),
                                sizeof(engine_model_layer)),
                         0, "%s, layer %d", texts[i], (int)l);
        iter_model_unref(first);
        iter_model_unref(second);
    }
}

Test(engine_model, presets_are_texts) {
    static const char *const names[] = {"cnn", "gru", "mlp"};
    for (int i = 0; i < 3; i++) {
        iter_model *by_name = parsed(names[i]), *by_text = parsed(iter_model_preset(names[i]));
        cr_expect_str_eq(iter_model_text(by_name), iter_model_text(by_text));
        iter_model_unref(by_name);
        iter_model_unref(by_text);
    }
    cr_expect_null(iter_model_preset("resnet"));
    cr_expect_null(iter_model_preset(NULL));
}

/* The published CNN has its second and fourth relu after the pool, and a third dropout of a
 * half. */
Test(engine_model, the_published_cnn_is_as_published) {
    static const engine_kind kinds[] = {ENGINE_CONV2D,  ENGINE_RELU,  ENGINE_CONV2D,
                                        ENGINE_MAXPOOL, ENGINE_RELU,  ENGINE_DROPOUT,
                                        ENGINE_CONV2D,  ENGINE_RELU,  ENGINE_CONV2D,
                                        ENGINE_MAXPOOL, ENGINE_RELU,  ENGINE_DROPOUT,
                                        ENGINE_FLATTEN, ENGINE_DENSE, ENGINE_RELU,
                                        ENGINE_DROPOUT, ENGINE_DENSE, ENGINE_SOFTMAX_CROSS_ENTROPY};
    iter_model *model = parsed("cnn");
    cr_assert_eq(iter__model_n_layers(model), 18);
    for (int32_t i = 0; i < 18; i++)
        cr_expect_eq(iter__model_layer(model, i)->kind, kinds[i], "layer %d", (int)i);
    cr_expect_eq(iter__model_layer(model, 5)->options.dropout.p, 0.25);
    cr_expect_eq(iter__model_layer(model, 11)->options.dropout.p, 0.25);
    cr_expect_eq(iter__model_layer(model, 15)->options.dropout.p, 0.5);
    iter_model_unref(model);
}

Test(engine_model, refusals_name_layer_and_column) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "model: it has no layers"},
        {"  ", "model: it has no layers"},
        {"relu | conv:3", "model: column 8: no layer is called 'conv'; there are conv2d, maxpool"},
        {"relu |", "model: column 7: the name of a layer is missing"},
        {"relu | conv2d", "model: column 8: conv2d: channels is required"},
        {"conv2d:0", "column 8: conv2d: channels is 0, it may be 1 to 65536"},
        {"conv2d:4,kernel=0", "conv2d: kernel is 0, it may be 1 to 1024"},
        {"conv2d:4,stride=0", "conv2d: stride is 0"},
        {"conv2d:4,pad=-1", "conv2d: pad is -1"},
        {"conv2d:4,init=xavier", "conv2d: init is 'xavier', it must be one of glorot|he|uniform"},
        {"conv2d:4,init=uniform", "conv2d: init=uniform needs init-range above 0"},
        {"conv2d:4,3,2", "conv2d: unnamed argument 3 belongs to no option"},
        {"maxpool", "maxpool: size is required"},
        {"avgpool:2,pad=2", "avgpool: pad is 2, it must be less than size, 2"},
        {"dropout:1", "dropout: p is 1, it must be less"},
        {"dropout:-0.1", "dropout: p is -0.1, it may be 0 to 1"},
        {"dense", "dense: units is required"},
        {"dense:0", "dense: units is 0"},
        {"dense:2000000", "dense: units is 2000000"},
        {"embedding:10", "embedding: units is required"},
        {"embedding:units=3", "embedding: rows is required"},
        {"relu | gru", "gru: units is required"},
        {"gru:4,reset=never", "gru: reset is 'never', it must be one of after|before"},
        {"relu:3", "relu: unnamed argument 1 belongs to no option; it has none"},
        {"mse | relu", "column 7: relu: comes after mse, which is a loss and ends the model"},
        {"dense:3 | softmax-cross-entropy | l2", "l2: comes after softmax-cross-entropy"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        iter_model *model = (iter_model *)&err; /* anything but NULL */
        cr_expect_eq(iter_model_parse(cases[i].text, &model, &err), ITER_EINVAL, "%s",
                     cases[i].text);
        cr_expect_null(model);
        cr_expect_eq(err.status, ITER_EINVAL);
        cr_expect(strstr(err.message, cases[i].says), "'%s' gives '%s'", cases[i].text,
                  err.message);
        cr_expect_eq(iter_model_parse(cases[i].text, &model, NULL), ITER_EINVAL);
    }
    iter_model *model;
    cr_expect_eq(iter_model_parse(NULL, &model, NULL), ITER_EINVAL);
    cr_expect_eq(iter_model_parse("relu", NULL, NULL), ITER_EINVAL);
    cr_expect_eq(iter_model_create(NULL, NULL), ITER_EINVAL);
}

Test(engine_model, what_cannot_be_added_leaves_it_as_it_was) {
    iter_model *model = parsed("dense:3");
    iter_error err = {0};
    iter_dense_options dense = {.units = 2, .bias = true, .init = 7};
    cr_expect_eq(iter_model_add(model, "dense", &dense, sizeof(dense), &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "model: dense: init is 7, expected 0 to 2 (glorot|he|uniform)"),
              "%s", err.message);
    cr_expect_eq(iter_model_add(model, "dense", &dense, sizeof(dense) - 1, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "options_size is"), "%s", err.message);
    cr_expect_eq(iter_model_add(model, "relu", &dense, sizeof(dense), &err), ITER_EINVAL);
    cr_expect_eq(iter_model_add(model, "dense", NULL, sizeof(dense), &err), ITER_EINVAL);
    cr_expect_eq(iter_model_add(model, "dense", NULL, 0, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "units is required"), "%s", err.message);
    cr_expect_eq(iter_model_add(model, "lstm", NULL, 0, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "no layer is called 'lstm'"), "%s", err.message);
    cr_expect_eq(iter_model_add(model, NULL, NULL, 0, &err), ITER_EINVAL);
    cr_expect_eq(iter_model_add(NULL, "relu", NULL, 0, &err), ITER_EINVAL);
    cr_expect_str_eq(iter_model_text(model), "dense:units=3");
    cr_expect_eq(iter__model_n_layers(model), 1);
    iter__model_freeze(model);
    cr_expect_eq(iter_model_add(model, "relu", NULL, 0, &err), ITER_ESTATE);
    iter_model_unref(model);
}

Test(engine_model, has_at_most_so_many_layers) {
    iter_model *model;
    iter_error err = {0};
    cr_assert_eq(iter_model_create(&model, &err), ITER_OK);
    for (int i = 0; i < ENGINE_MAX_LAYERS; i++)
        cr_assert_eq(iter_model_add(model, "relu", NULL, 0, &err), ITER_OK);
    cr_expect_eq(iter_model_add(model, "mse", NULL, 0, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "at most 64 layers"), "%s", err.message);
    iter_model_unref(model);
}

Test(engine_model, lives_until_the_last_reference) {
    iter_model *model = parsed("relu | mse");
    cr_expect_eq(iter_model_ref(model), model);
    iter_model_unref(model);
    cr_expect_str_eq(iter_model_text(model), "relu | mse");
    iter_model_unref(model);
    iter_model_unref(NULL);
}

Test(engine_model, says_which_layout_costs_nothing) {
    static const char *const cases[][2] = {
        {"cnn", "nchw"}, {"relu | conv2d:3 | mse", "nchw"},   {"gru", "nt"},
        {"mlp", ""},     {"flatten | dense:3 | mse", "nchw"}, {"relu | mse", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_model *model = parsed(cases[i][0]);
        cr_expect_str_eq(iter_model_layout(model, "reference", 0), cases[i][1], "%s", cases[i][0]);
        cr_expect_str_eq(iter_model_layout(model, "nosuch", 0), "");
        iter_model_unref(model);
    }
    cr_expect_str_eq(iter_model_layout(NULL, NULL, 0), "");
}

Test(engine_model, tensor_cores_want_channels_last) {
    iter_model *cnn = parsed("cnn"), *gru = parsed("gru");
    cr_expect_str_eq(iter_model_layout(cnn, "cuda", ITER_PRECISION_F32), "nchw");
    cr_expect_str_eq(iter_model_layout(cnn, "cuda", ITER_PRECISION_TF32), "nhwc");
    cr_expect_str_eq(iter_model_layout(cnn, "cuda", ITER_PRECISION_BF16), "nhwc");
    cr_expect_str_eq(iter_model_layout(gru, "cuda", ITER_PRECISION_F16), "nt");
    iter_model_unref(cnn);
    iter_model_unref(gru);
}

Test(engine_model, every_failed_allocation_is_told) {
    for (long n = 0;; n++) {
        iter_model *model;
        iter_error err = {0};
        iter__engine_fail_after = n;
        const iter_status status = iter_model_parse("mlp", &model, &err);
        const bool failed = iter__engine_fail_after == -1;
        iter__engine_fail_after = -1;
        if (!failed) {
            cr_assert_eq(status, ITER_OK);
            cr_expect_geq(n, 7);
            iter_model_unref(model);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "allocation %ld", n);
        cr_expect_null(model);
        cr_expect(strstr(err.message, "memory"), "%s", err.message);
        cr_expect_eq(iter__engine_live(), 0);
    }
    for (long n = 0;; n++) { /* libiter's allocations */
        iter_model *model;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = iter_model_parse("mlp", &model, &err);
        const bool failed = iter__alloc_fail_after == -1;
        iter__alloc_fail_after = -1;
        if (status >= 0) iter_model_unref(model);
        if (!failed) break;
        cr_assert_eq(status, ITER_ENOMEM, "allocation %ld", n);
        cr_expect_eq(iter__engine_live(), 0);
    }
}
