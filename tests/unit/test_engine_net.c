/*
 * test_engine_net.c - shapes, parameters, names and initial values of a planned net, and what does
 * not fit.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_memory.h"
#include "engine/net.h"
#include "iter/core/alloc.h"

static void no_leak(void) {
    if (iter__alloc_live() != 0 || iter__engine_live() != 0) abort();
}

TestSuite(engine_net, .fini = no_leak, .timeout = 280);

static engine_net net; /* large */

/* "f32 64,3,32,32 NCHW" */
static iter_desc desc_of(const char *text) {
    char dtype[8] = "", dims[64] = "", layout[16] = "";
    iter_desc desc = {.n_dims = 0};
    cr_assert_geq(sscanf(text, "%7s %63s %15s", dtype, dims, layout), 2);
    desc.dtype = iter_dtype_parse(dtype);
    for (char *p = dims; *p; p += strcspn(p, ","), p += *p == ',')
        desc.dims[desc.n_dims++] = atoll(p);
    memcpy(desc.layout, layout, strlen(layout) + 1);
    return desc;
}

static iter_status plan(const char *text, const char *data, const char *label, uint64_t seed,
                        iter_error *err) {
    iter_model *model;
    const iter_desc d = desc_of(data), l = desc_of(label);
    cr_assert_eq(iter_model_parse(text, &model, err), ITER_OK, "%s", err->message);
    const iter_status status = iter__net_plan(model, &d, &l, seed, &net, err);
    iter_model_unref(model);
    return status;
}

static void planned(const char *text, const char *data, const char *label) {
    iter_error err = {0};
    cr_assert_eq(plan(text, data, label, 0, &err), ITER_OK, "%s", err.message);
}

static int64_t n_weights(void) {
    int64_t n = 0;
    for (int32_t i = 0; i < net.n_params; i++)
        n += net.params[i].n_elements;
    return n;
}

static const engine_param *param(const char *name) {
    for (int32_t i = 0; i < net.n_params; i++)
        if (strcmp(net.params[i].public.name, name) == 0) return &net.params[i];
    cr_assert_fail("no parameter is called %s", name);
    return NULL;
}

static bool shape_is(const engine_shape *shape, int32_t n, int64_t a, int64_t b, int64_t c) {
    const int64_t want[3] = {a, b, c};
    return shape->n_dims == n && memcmp(shape->dims, want, (size_t)n * sizeof(int64_t)) == 0;
}

/* Totals of the published networks: the Keras summaries, and cs224's. */
Test(engine_net, presets_have_the_published_number_of_weights) {
    planned("cnn", "f32 64,3,32,32 NCHW", "u8 64 N");
    cr_expect_eq(n_weights(), 3441592);
    cr_expect_eq(param("conv2d0.weight")->n_elements + param("conv2d0.bias")->n_elements, 1400);
    cr_expect_eq(param("conv2d1.weight")->n_elements + param("conv2d1.bias")->n_elements, 22550);
    cr_expect_eq(param("conv2d2.weight")->n_elements + param("conv2d2.bias")->n_elements, 45100);
    cr_expect_eq(param("conv2d3.weight")->n_elements + param("conv2d3.bias")->n_elements, 90100);
    cr_expect_eq(param("dense0.weight")->n_elements + param("dense0.bias")->n_elements, 3277312);
    cr_expect_eq(param("dense1.weight")->n_elements + param("dense1.bias")->n_elements, 5130);
    planned("gru", "i32 64,150 NT", "i32 64");
    cr_expect_eq(n_weights(), 3818302);
    cr_expect_eq(param("embedding0.weight")->n_elements, 3750000);
    planned("mlp", "f32 256,1000 NC", "f32 256");
    cr_expect_eq(n_weights(), 330501);
}

Test(engine_net, shapes_of_the_published_cnn) {
    planned("cnn", "u8 64,32,32,3 NHWC", "i32 64,1");
    cr_expect(shape_is(&net.input, 3, 3, 32, 32));
    cr_expect(shape_is(&net.layers[0].out, 3, 50, 32, 32));
    cr_expect(shape_is(&net.layers[3].out, 3, 50, 16, 16));
    cr_expect(shape_is(&net.layers[6].out, 3, 100, 16, 16));
    cr_expect(shape_is(&net.layers[9].out, 3, 100, 8, 8));
    cr_expect(shape_is(&net.layers[12].out, 1, 6400, 0, 0));
    cr_expect(shape_is(&net.layers[16].out, 1, 10, 0, 0));
    cr_expect_eq(net.n_outputs, 10);
    cr_expect_eq(net.batch, 64);
    cr_expect(iter__net_channels_last(&net) && !iter__net_time_first(&net));
    cr_expect_eq(net.label.n_dims, 1); /* classes [N, 1] are the same as classes [N] */
}

Test(engine_net, windows_at_odd_sizes) {
    planned("conv2d:4,5,stride=2,pad=1 | avgpool:3,stride=2,pad=1 | flatten | dense:2 | "
            "softmax-cross-entropy",
            "f32 2,1,11,8 NCHW", "i64 2");
    cr_expect(shape_is(&net.layers[0].out, 3, 4, 5, 3)); /* (11+2-5)/2+1, (8+2-5)/2+1 */
    cr_expect(shape_is(&net.layers[1].out, 3, 4, 3, 2)); /* (5+2-3)/2+1, (3+2-3)/2+1 */
    cr_expect(shape_is(&net.layers[2].out, 1, 24, 0, 0));
    /* the size is also the stride */
    planned("maxpool:2 | flatten | mse", "f32 2,1,5,5", "f32 2,4");
    cr_expect(shape_is(&net.layers[0].out, 3, 1, 2, 2));
}

Test(engine_net, parameters_have_names_shapes_and_fans) {
    planned("conv2d:50,3,pad=1 | conv2d:7,kernel=5,bias=no | flatten | dense:4 | mse",
            "f32 8,3,9,9", "f32 8,4");
    static const char *const names[] = {"conv2d0.weight", "conv2d0.bias", "conv2d1.weight",
                                        "dense0.weight", "dense0.bias"};
    cr_assert_eq(net.n_params, 5);
    for (int32_t i = 0; i < 5; i++)
        cr_expect_str_eq(net.params[i].public.name, names[i]);
    const engine_param *w = param("conv2d0.weight");
    static const int64_t dims[4] = {50, 3, 3, 3};
    cr_expect(w->public.desc.n_dims == 4 && memcmp(w->public.desc.dims, dims, sizeof(dims)) == 0);
    cr_expect_eq(w->public.desc.dtype, ITER_F32);
    cr_expect(w->fan_in == 27 && w->fan_out == 450 && !w->bias && w->layer == 0);
    cr_expect(param("conv2d0.bias")->bias && param("conv2d0.bias")->n_elements == 50);
    cr_expect(param("conv2d1.weight")->fan_in == 1250 && param("conv2d1.weight")->fan_out == 175);
    cr_expect(param("dense0.weight")->fan_in == 7 * 25 && param("dense0.weight")->fan_out == 4);
    cr_expect(net.layers[1].first_param == 2 && net.layers[1].n_params == 1);
    cr_expect(net.layers[2].n_params == 0);
    cr_expect(net.layers[3].first_param == 3 && net.layers[3].n_params == 2);
}

Test(engine_net, a_gru_has_the_fans_of_one_gate) {
    planned("embedding:1000,12 | gru:5 | gru:4,reset=before | mean-steps | dense:2 | "
            "softmax-cross-entropy",
            "i64 8,20 NT", "u8 8");
    cr_expect(net.input.ids && shape_is(&net.input, 1, 20, 0, 0));
    cr_expect(shape_is(&net.layers[0].out, 2, 20, 12, 0));
    cr_expect(shape_is(&net.layers[1].out, 2, 20, 5, 0));
    cr_expect(shape_is(&net.layers[3].out, 1, 4, 0, 0));
    cr_expect(param("embedding0.weight")->fan_in == 12 &&
              param("embedding0.weight")->fan_out == 1000);
    const engine_param *w = param("gru0.input.weight");
    cr_expect(w->public.desc.dims[0] == 15 && w->public.desc.dims[1] == 12);
    cr_expect(w->fan_in == 12 && w->fan_out == 5);
    cr_expect(param("gru0.recurrent.weight")->fan_in == 5);
    cr_expect(param("gru0.input.bias")->bias && param("gru0.input.bias")->n_elements == 15);
    cr_expect(param("gru0.recurrent.bias")->bias);
    cr_expect(param("gru1.input.weight")->fan_in == 5);
    cr_expect_eq(net.layers[1].first_param + 3, net.n_params - 1 - 2 - 4);
}

Test(engine_net, time_may_come_first) {
    planned("gru", "i32 150,64 TN", "i32 64");
    cr_expect(net.batch == 64 && shape_is(&net.input, 1, 150, 0, 0) && iter__net_time_first(&net));
    planned("gru:3 | last-step | mse", "f32 7,5,2 TNC", "f32 5,3");
    cr_expect(net.batch == 5 && shape_is(&net.input, 2, 7, 2, 0) && iter__net_time_first(&net));
    planned("gru:3 | last-step | mse", "f32 5,7,2", "f32 5,3");
    cr_expect(net.batch == 5 && shape_is(&net.input, 2, 7, 2, 0) && !iter__net_time_first(&net));
    planned("flatten | dense:1 | mse", "f32 5,7,2", "f32 5");
    cr_expect(shape_is(&net.layers[0].out, 1, 14, 0, 0));
}

Test(engine_net, gray_images_and_plain_numbers_get_their_dimension) {
    planned("conv2d:2 | flatten | mse", "u8 4,5,6 NHW", "f32 4,24");
    cr_expect(shape_is(&net.input, 3, 1, 5, 6));
    cr_expect_str_eq(net.data.layout, "NCHW");
    planned("dense:1 | mse", "f64 4", "f64 4");
    cr_expect(shape_is(&net.input, 1, 1, 0, 0));

    float memory[240];
    const iter_desc gray = desc_of("f32 4,5,6 NHW"), line = desc_of("f32 4 N");
    iter_tensor view = iter_tensor_dense(&gray, memory);
    iter__net_view_data(&view);
    cr_expect(view.desc.n_dims == 4 && view.desc.dims[1] == 1 && view.desc.dims[2] == 5 &&
              view.desc.dims[3] == 6);
    cr_expect(view.strides[0] == 30 && view.strides[2] == 6 && view.strides[3] == 1);
    view = iter_tensor_dense(&line, memory);
    view.strides[0] = 3;
    iter__net_view_data(&view);
    cr_expect(view.desc.n_dims == 2 && view.desc.dims[1] == 1 && view.strides[0] == 3);
}

Test(engine_net, what_does_not_fit_is_named) {
    static const struct {
        const char *model, *data, *label, *says;
    } cases[] = {
        {"relu", "f32 4,3", "f32 4", "model: it ends with relu0, which is not a loss"},
        {"dense:3 | conv2d:3 | mse", "f32 4,512", "f32 4",
         "conv2d0: expects an image [C, H, W], got f32 [3]"},
        {"conv2d:3 | mse", "f32 4,512", "f32 4", "got f32 [512]"},
        {"conv2d:3 | dense:3 | mse", "f32 4,1,5,5", "f32 4,3",
         "dense0: expects features [F] (put flatten before it), got f32 [3, 3, 3]"},
        {"dense:3 | mse", "u8 4,1,5,5 NCHW", "f32 4,3", "got u8 [1, 5, 5]"},
        {"conv2d:3,5 | maxpool:2 | maxpool:4 | flatten | mse", "f32 4,1,9,9", "f32 4,3",
         "maxpool1: a window of 4 x 4 with pad 0 is larger than its input, f32 [3, 2, 2]"},
        {"dense:3 | mse", "i32 4,7 NT", "f32 4,3",
         "dense0: expects features [F] (the chain's to:f32 makes ids numbers), got i32 [7] "
         "of "
         "token ids"},
        {"relu | mse", "i32 4,7 NT", "f32 4,3", "relu0: expects numbers"},
        {"flatten | mse", "i64 4,7", "f32 4,7", "flatten0: expects numbers"},
        {"embedding:10,3 | mse", "f32 4,7", "f32 4,3", "embedding0: expects token ids"},
        {"embedding:10,3 | mse", "i32 4,7", "f32 4,3",
         "mse0: expects features [F] (put last-step, mean-steps or flatten before it), got f32 [7, "
         "3]"},
        {"gru:3 | last-step | mse", "f32 4,7", "f32 4,3", "gru0: expects a sequence [T, F]"},
        {"last-step | mse", "f32 4,1,7,7", "f32 4,3", "last-step0: expects a sequence [T, F]"},
        {"dense:3 | softmax-cross-entropy", "f32 4,7", "f32 4",
         "softmax-cross-entropy0: expects class numbers, i32, i64 or u8 [N] as label, got f32 [4]"},
        {"dense:3 | softmax-cross-entropy", "f32 4,7", "i32 4,3", "as label, got i32 [4, 3]"},
        {"dense:3 | mse", "f32 4,7", "f32 4", "mse0: expects values, f32 or f64 [N, 3]"},
        {"dense:3 | l2", "f32 4,7", "i32 4,3", "l20: expects values, f32 or f64 [N, 3]"},
        {"dense:3 | l2", "f32 4,7", "f32 4,2", "as label, got f32 [4, 2]"},
        {"dense:1 | mse", "f32 4,7", "f32 5", "label: its batch has 5 rows, that of the data 4"},
        {"embedding:9,3 | gru:5 | tied-softmax", "i32 4,7", "i32 4,7",
         "tied-softmax0: expects a sequence [T, 3], as wide as embedding0, got f32 [7, 5]"},
        {"embedding:9,3 | gru:3 | tied-softmax", "i32 4,7", "i32 4,6",
         "tied-softmax0: expects an id for each step, i32 or i64 [N, 7], as label, got i32 [4, 6]"},
        {"embedding:9,3 | gru:3 | tied-softmax", "i32 4,7", "u8 4,7", "as label, got u8 [4, 7]"},
        {"embedding:9,3 | gru:3 | last-step | tied-softmax", "i32 4,7", "i32 4,7",
         "tied-softmax0: expects a sequence [T, 3], as wide as embedding0, got f32 [3]"},
        {"gru:3 | tied-softmax", "f32 4,7,3", "i32 4,7",
         "tied-softmax0: takes the weights of an embedding, but the model begins with gru0"},
        {"dense:1 | mse", "i16 4,7", "f32 4",
         "data: expects f32, f16, bf16, f64, u8, or i32 or i64"},
        {"dense:1 | mse", "f32 4,2,2,2,2", "f32 4", "is neither images"},
        {"conv2d:1 | mse", "f32 4,2,2,2 NWHC", "f32 4", "\"NWHC\" is neither images"},
        {"gru", "i32 4,-1 NT", "i32 4", "has no fixed size: give rows one length"},
        {"mse", "f32 0,3", "f32 0", "has no fixed size"},
        {"dense:1048576 | dense:1048576 | dense:1048576 | mse", "f32 4,1048576", "f32 4",
         "as label, got"},
        {"embedding:2147483647,1048576 | last-step | mse", "i32 4,7", "f32 4",
         "embedding0: weight would be f32 [2147483647, 1048576], which is too large"},
        {"embedding:8,1048576 | last-step | mse", "i32 1024,2048", "f32 4",
         "label: its batch has 4 rows"},
        {"embedding:8,1048576 | last-step | mse", "i32 1024,2048", "f32 1024",
         "embedding0: its output is too large"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        cr_expect_eq(plan(cases[i].model, cases[i].data, cases[i].label, 0, &err), ITER_EINVAL,
                     "%s", cases[i].model);
        cr_expect(strstr(err.message, cases[i].says), "'%s' over %s gives '%s'", cases[i].model,
                  cases[i].data, err.message);
    }
}

Test(engine_net, too_many_parameters_are_refused) {
    char text[2048] = "embedding:9,3";
    iter_error err = {0};
    for (int i = 0; i < 41; i++)
        strcat(text, " | gru:3");
    strcat(text, " | last-step | mse");
    cr_expect_eq(plan(text, "i32 4,7", "f32 4,3", 0, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "gru39: a model has at most 160 parameters"), "%s", err.message);
}

/* Keys by an independent computation of FNV-1a over "dropout0#0". */
Test(engine_net, dropouts_have_keys_of_seed_and_name) {
    iter_error err = {0};
    cr_assert_eq(plan("dropout:0.5 | dropout:0.5 | mse", "f32 4,2", "f32 4,2", 5, &err), ITER_OK);
    cr_expect_eq(net.layers[0].rng_key, UINT64_C(0xea02a7aa5111bee));
    cr_expect_eq(net.layers[1].rng_key, UINT64_C(0x180ec17aaaa091e5));
    cr_expect_eq(iter__dropout_threshold(0), 0);
    cr_expect_eq(iter__dropout_threshold(0.25), 16384);
    cr_expect_eq(iter__dropout_threshold(0.5), 32768);
    cr_expect_eq(iter__dropout_threshold(0.3), 19661); /* 19660.8 */
}

static const engine_param small = {.public = {.name = "dense0.weight"},
                                   .n_elements = 6,
                                   .fan_in = 3,
                                   .fan_out = 2,
                                   .init_range = 0.25};

/* By an independent Philox, in Python, from the published constants. */
Test(engine_net, weights_begin_as_another_program_computes_them) {
    static const double want[3][6] = {
        {0.304615223, -0.766636634, 0.289449262, -0.856036795, -0.788355169, -1.01465904},
        {0.453864751, 0.625350798, 0.60483457, 0.495735738, 1.5753621, 0.371659778},
        {0.0695185955, -0.174960074, 0.0660574543, -0.195362776, -0.179916629, -0.231563185},
    };
    for (int32_t init = 0; init < 3; init++) {
        engine_param p = small;
        float got[6];
        p.init = init;
        for (p.n_elements = 5; p.n_elements <= 6; p.n_elements++) { /* odd and even */
            iter__param_init(&p, 7, got);
            for (int64_t i = 0; i < p.n_elements; i++)
                cr_expect_float_eq(got[i], want[init][i], 1e-6, "init %d, %d: %.9g", (int)init,
                                   (int)i, (double)got[i]);
        }
    }
}

Test(engine_net, weights_have_the_moments_asked_for) {
    enum { N = 200000 };
    const double n = N;
    static float got[N];
    engine_param p = small;
    p.n_elements = N;
    p.fan_in = 50;
    p.fan_out = 70;
    static const double variances[3] = {2.0 / 120, 2.0 / 50, 0.25 * 0.25 / 3};
    for (int32_t init = 0; init < 3; init++) {
        double sum = 0, squares = 0, most = 0;
        p.init = init;
        iter__param_init(&p, 1, got);
        for (int i = 0; i < N; i++) {
            sum += (double)got[i];
            squares += (double)got[i] * (double)got[i];
            most = fmax(most, fabs((double)got[i]));
        }
        /* four standard errors */
        cr_expect_lt(fabs(sum / n), 4 * sqrt(variances[init] / n));
        cr_expect_lt(fabs(squares / n / variances[init] - 1), 4 * sqrt(2 / n));
        if (init == ITER_INIT_GLOROT) cr_expect(most <= sqrt(6.0 / 120) * 1.000001);
        if (init == ITER_INIT_UNIFORM) cr_expect(most <= 0.25);
    }
}

Test(engine_net, weights_depend_on_seed_and_name_alone) {
    engine_param p = small;
    float a[6], b[6];
    iter__param_init(&p, 7, a);
    p.layer = 9;
    iter__param_init(&p, 7, b);
    cr_expect_eq(memcmp(a, b, sizeof(a)), 0);
    iter__param_init(&p, 8, b);
    cr_expect_neq(memcmp(a, b, sizeof(a)), 0);
    p.public.name[5] = '1';
    iter__param_init(&p, 7, b);
    cr_expect_neq(memcmp(a, b, sizeof(a)), 0);
    p.bias = true;
    iter__param_init(&p, 7, b);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(b[i], 0.0f);
}
