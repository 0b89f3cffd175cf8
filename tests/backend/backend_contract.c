/*
 * backend_contract.c - what engine/backend.h and engine/net.h promise of every backend apart from
 * the numbers: what a run may change, which rows count, the dropout mask, ties, memory.
 *
 *     backend_contract [--backend cuda]
 *
 * A backend on a device is tested only if it is named.
 */
#include <math.h>

#include <iter/rng.h>

#include "engine/engine_memory.h"
#include "tests/support/expect_layers.h"

static const layer_form plain_form = {0};

#define CLASSES "dense:7 | tanh | dropout:0.5 | dense:5 | softmax-cross-entropy"
static const layer_spec classes_spec = {CLASSES, .batch = 5, .n_dims = 1, .dims = {9},
                                        .optimizer = "adam:lr=0.01"};
static const layer_spec image_spec = {"conv2d:5,kernel=3 | maxpool:2 | flatten | dense:3 | mse",
                                      .batch = 5, .n_dims = 3, .dims = {3, 8, 8}};

static bool make_case(const layer_spec *spec, layer_case *out) {
    if (!EXPECT(layer_case_plan(spec, out))) return false;
    layer_case_fill(out, 1);
    return true;
}

static layer_machine *open_machine(const layer_case *test, const engine_backend_ops *ops) {
    layer_machine *m = layer_alloc(1, sizeof(*m));
    if (EXPECT(layer_machine_open(m, test, &plain_form, ops, 1))) return m;
    exit(1);
}

static void close_machine(layer_machine *m) {
    layer_machine_close(m);
    free(m);
}

/* Whether all weights are the case's; the backend may use floats or doubles. */
static bool is_untouched(layer_machine *m) {
    bool same = true;
    for (int32_t p = 0; p < m->net.n_params; p++) {
        const int64_t n = m->net.params[p].n_elements;
        double *weights = layer_alloc(n, sizeof(double));
        layer_machine_get(m, p, ITER_VALUE_WEIGHT, weights);
        same = same && layer_distance(weights, m->test->params[p], n) == 0;
        free(weights);
    }
    return same;
}

/* ---- What a run changes ---------------------------------------------------------------------- */

static void test_touches(const engine_backend_ops *ops) {
    layer_case test;
    if (!make_case(&classes_spec, &test)) return;
    layer_machine *m = open_machine(&test, ops);
    const engine_outcome plain = layer_machine_run(m, ENGINE_RUN_FORWARD, 0);
    const engine_outcome later = layer_machine_run(m, ENGINE_RUN_FORWARD, 9);
    EXPECT(plain.loss_sum == later.loss_sum); /* no dropout */
    EXPECT(is_untouched(m));
    const engine_outcome dropped = layer_machine_run(m, ENGINE_RUN_GRADIENT, 0);
    EXPECT(dropped.loss_sum != plain.loss_sum);
    EXPECT(is_untouched(m));
    const engine_outcome trained = layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    EXPECT(dropped.loss_sum == trained.loss_sum);
    EXPECT(!is_untouched(m));
    close_machine(m);
    layer_case_free(&test);
}

/* If the loss is not finite, or no row of a batch counts, nothing is learnt. */
static void test_nothing_learnt(const engine_backend_ops *ops, bool counts) {
    layer_case test;
    if (!make_case(&classes_spec, &test)) return;
    if (counts)
        test.data[4] = NAN;
    else
        memset(test.counts, 0, (size_t)test.spec.batch);
    if (!counts) test.n_counted = 0;
    layer_machine *m = open_machine(&test, ops);
    const engine_outcome out = layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    EXPECT(counts ? !isfinite(out.loss_sum) : out.loss_sum == 0);
    EXPECT(is_untouched(m));
    double *moments = layer_alloc(test.net.params[0].n_elements, sizeof(double));
    layer_machine_get(m, 0, ITER_VALUE_MOMENT, moments);
    for (int64_t i = 0; i < test.net.params[0].n_elements; i++)
        if (!EXPECT(moments[i] == 0)) break;
    free(moments);
    close_machine(m);
    layer_case_free(&test);
}

/* A shorter batch after a full one: missing rows have no gradient, nor do rows that do not
 * count. */
static void test_short_batch(const engine_backend_ops *ops) {
    layer_case test;
    if (!make_case(&image_spec, &test)) return;
    layer_machine *m = open_machine(&test, ops);
    layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    m->data.desc.dims[0] = m->label.desc.dims[0] = 3;
    m->batch.n_rows = 3;
    m->batch.n_counted = 2;
    test.counts[1] = 0;
    layer_machine_run(m, ENGINE_RUN_TRAIN, 1);
    double *gradient = layer_alloc(test.spec.batch * test.n_elements, sizeof(double));
    layer_machine_input_gradient(m, gradient);
    for (int64_t row = 0; row < test.spec.batch; row++) {
        double top = 0;
        for (int64_t i = 0; i < test.n_elements; i++)
            top = fmax(top, fabs(gradient[row * test.n_elements + i]));
        EXPECT_EQ(top > 0, row == 0 || row == 2);
    }
    free(gradient);
    close_machine(m);
    layer_case_free(&test);
}

/* Weights and moments that are copied to another backend's state continue to the same bits. */
static void test_carry_on(const engine_backend_ops *ops) {
    layer_case test;
    if (!make_case(&classes_spec, &test)) return;
    layer_machine *m = open_machine(&test, ops), *other = open_machine(&test, ops);
    iter_error err = {0};
    layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    for (int32_t p = 0; p < test.net.n_params; p++) {
        void *numbers = layer_alloc(test.net.params[p].n_elements, sizeof(double));
        for (int value = ITER_VALUE_WEIGHT; value <= ITER_VALUE_MOMENT2; value++) {
            if (value == ITER_VALUE_GRADIENT) continue;
            EXPECT_OK(ops->get(m->state, p, (iter_value)value, numbers, &err), &err);
            EXPECT_OK(ops->set(other->state, p, (iter_value)value, numbers, &err), &err);
        }
        free(numbers);
    }
    for (uint64_t step = 1; step < 4; step++)
        EXPECT(layer_machine_run(m, ENGINE_RUN_TRAIN, step).loss_sum ==
               layer_machine_run(other, ENGINE_RUN_TRAIN, step).loss_sum);
    for (int32_t p = 0; p < test.net.n_params; p++) {
        const int64_t n = test.net.params[p].n_elements;
        double *a = layer_alloc(n, sizeof(double)), *b = layer_alloc(n, sizeof(double));
        layer_machine_get(m, p, ITER_VALUE_WEIGHT, a);
        layer_machine_get(other, p, ITER_VALUE_WEIGHT, b);
        EXPECT(memcmp(a, b, (size_t)n * sizeof(double)) == 0);
        free(a);
        free(b);
    }
    close_machine(m);
    close_machine(other);
    layer_case_free(&test);
}

/* ---- The dropout mask ------------------------------------------------------------------------ */

/* By engine/net.h, written a second time. */
static double mask_of(const layer_spec *spec, uint64_t key, uint64_t step, int64_t row, int64_t e,
                      double p) {
    int64_t place = e;
    if (spec->n_dims == 3) {
        const int64_t h = spec->dims[1], w = spec->dims[2];
        const int64_t c = e / (h * w), y = e / w % h, x = e % w;
        place = (y * w + x) * ((spec->dims[0] + 15) / 16 * 16) + c;
    }
    uint32_t words[4] = {(uint32_t)(place / 8), (uint32_t)row, (uint32_t)step,
                         (uint32_t)(step >> 32)};
    const uint32_t halves[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    iter_philox4x32(words, halves, words);
    const uint32_t u16 = words[place % 8 / 2] >> (place % 2 * 16) & 0xffff;
    return u16 >= (uint32_t)lround(p * 65536) ? (double)(float)(1 / (1 - p)) : 0;
}

/* There are enough elements that some equal the threshold. */
static void test_mask(const engine_backend_ops *ops, const layer_spec *spec, double p) {
    const uint64_t key = 0x243f6a8885a308d3, step = 3ull << 32 | 11;
    layer_case test;
    if (!make_case(spec, &test)) return;
    test.rng_key = key;
    for (int64_t i = 0; i < spec->batch * test.n_elements; i++)
        test.data[i] = 1;
    layer_machine *m = open_machine(&test, ops);
    layer_machine_run(m, ENGINE_RUN_GRADIENT, step);
    double *wide = layer_alloc(spec->batch * test.n_elements, sizeof(double));
    iter_error err = {0};
    EXPECT_OK(ops->outputs(m->state, spec->batch, wide, &err), &err);
    const float *floats = (const float *)wide;
    int64_t n_wrong = 0, n_met = 0;
    for (int64_t i = 0; i < spec->batch * test.n_elements; i++) {
        const double got = ops->real == ITER_F64 ? wide[i] : (double)floats[i];
        const double want = mask_of(spec, key, step, i / test.n_elements, i % test.n_elements, p);
        n_wrong += got != want;
        n_met += want != mask_of(spec, key, step, i / test.n_elements, i % test.n_elements,
                                 p + 1.0 / 65536) &&
                 want > 0;
    }
    EXPECT_EQ(n_wrong, 0);
    if (spec->batch * test.n_elements > 300000) EXPECT(n_met > 0);
    free(wide);
    close_machine(m);
    layer_case_free(&test);
}

static void test_masks(const engine_backend_ops *ops) {
    const layer_spec rows = {"dropout:0.5 | mse", .batch = 3, .n_dims = 1, .dims = {131075}};
    const layer_spec steps = {"dropout:0.1 | flatten | mse", .batch = 2, .n_dims = 2,
                              .dims = {13, 21}};
    const layer_spec images = {"dropout:0.25 | flatten | mse", .batch = 3, .n_dims = 3,
                               .dims = {17, 83, 79}};
    test_mask(ops, &rows, 0.5);
    test_mask(ops, &steps, 0.1);
    test_mask(ops, &images, 0.25);
}

/* ---- Ties ------------------------------------------------------------------------------------ */

/* If all outputs are equal, the first class is the prediction. */
static void test_equal_outputs(const engine_backend_ops *ops) {
    const layer_spec spec = {"dense:3 | softmax-cross-entropy", .batch = 5, .n_dims = 1,
                             .dims = {4}};
    layer_case test;
    if (!make_case(&spec, &test)) return;
    for (int32_t p = 0; p < 2; p++)
        memset(test.params[p], 0, (size_t)test.net.params[p].n_elements * sizeof(double));
    for (int64_t row = 0; row < 5; row++)
        test.label[row] = (double)(row % 3);
    layer_machine *m = open_machine(&test, ops);
    const engine_outcome out = layer_machine_run(m, ENGINE_RUN_FORWARD, 0);
    EXPECT_EQ(out.n_correct, 2);
    EXPECT(fabs(out.loss_sum - 5 * log(3)) < 1e-5);
    close_machine(m);
    layer_case_free(&test);
}

/* If pixels are equal, the first one gets the gradient, as in PyTorch and oneDNN. */
static void test_equal_pixels(const engine_backend_ops *ops) {
    const layer_spec spec = {"maxpool:2 | flatten | mse", .batch = 2, .n_dims = 3,
                             .dims = {3, 4, 6}};
    layer_case test;
    if (!make_case(&spec, &test)) return;
    const int64_t n = spec.batch * test.n_elements;
    for (int64_t i = 0; i < n; i++)
        test.data[i] = 1;
    layer_machine *m = open_machine(&test, ops);
    double *gradient = layer_alloc(n, sizeof(double));
    layer_machine_run(m, ENGINE_RUN_GRADIENT, 0);
    layer_machine_input_gradient(m, gradient);
    for (int64_t i = 0; i < n; i++)
        if (!EXPECT_EQ(gradient[i] != 0, i % 6 % 2 == 0 && i / 6 % 4 % 2 == 0)) break;
    free(gradient);
    close_machine(m);
    layer_case_free(&test);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Each allocation of create() fails in turn; what was allocated before is freed. */
static void test_allocations(const engine_backend_ops *ops, const layer_spec *spec) {
    layer_case test;
    iter_error err = {0};
    if (!make_case(spec, &test)) return;
    const engine_backend_config config = {.net = &test.net,
                                          .optimizer = &test.optimizer,
                                          .threads = 2,
                                          .keep_input_gradient = spec->n_ids == 0};
    const long live = iter__engine_live();
    bool failed = true;
    int n = 0;
    for (; failed && n < 1000; n++) {
        void *state = layer_alloc((int64_t)ops->state_size, 1);
        iter__engine_fail_after = n;
        const iter_status status = ops->create(state, &config, &err);
        failed = iter__engine_fail_after < 0;
        iter__engine_fail_after = -1;
        if (status == ITER_OK) ops->destroy(state);
        const bool told =
            failed ? EXPECT_ERROR(status, ITER_ENOMEM, &err, "memory") : EXPECT_OK(status, &err);
        free(state);
        if (!told || !EXPECT_EQ(iter__engine_live(), live)) break;
    }
    EXPECT(n > 2 && !failed);
    layer_machine *m = open_machine(&test, ops);
    layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    const long count = iter__engine_count();
    for (uint64_t step = 1; step < 4; step++)
        layer_machine_run(m, ENGINE_RUN_TRAIN, step);
    EXPECT_EQ(iter__engine_count(), count); /* steps allocate no memory */
    close_machine(m);
    layer_case_free(&test);
}

/* ---- The description ------------------------------------------------------------------------- */

static void test_description(const engine_backend_ops *ops) {
    layer_case test;
    engine_backend_info info;
    if (!make_case(&image_spec, &test)) return;
    for (int other = 0; other < 2; other++) {
        const layer_form form = {.other_layout = other != 0};
        layer_machine *m = layer_alloc(1, sizeof(*m));
        if (!EXPECT(layer_machine_open(m, &test, &form, ops, 1))) return;
        layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
        layer_machine_run(m, ENGINE_RUN_FORWARD, 0);
        ops->describe(m->state, &info);
        const bool costs =
            strcmp(ops->layout(&m->net, ITER_PRECISION_F32), other ? "nhwc" : "nchw") != 0;
        EXPECT_EQ(info.n_converted, costs ? 2 : 0);
        EXPECT_EQ(info.convert_seconds > 0, costs);
        EXPECT_EQ(info.convert_text[0] != '\0', costs);
        EXPECT(info.text[0] != '\0' && info.n_bytes > 0);
        close_machine(m);
    }
    layer_case_free(&test);
}

/* Convolutions that prefer their images in different orders. */
static const layer_spec orders_spec = {"conv2d:20,kernel=3 | relu | conv2d:3,kernel=3 | tanh | "
                                       "conv2d:40,kernel=3 | flatten | dense:3 | "
                                       "mse",
                                       .batch = 3, .n_dims = 3, .dims = {3, 9, 9}};

static void test_all(const engine_backend_ops *ops) {
    const layer_spec gru = {"embedding:30,5 | gru:7 | last-step | dense:2 | softmax-cross-entropy",
                            .batch = 5,
                            .n_dims = 1,
                            .dims = {6},
                            .n_ids = 30,
                            .optimizer = "adam:lr=0.01"};
    printf("%s\n", ops->name);
    test_touches(ops);
    test_nothing_learnt(ops, true);
    test_nothing_learnt(ops, false);
    test_short_batch(ops);
    test_carry_on(ops);
    test_masks(ops);
    test_equal_outputs(ops);
    test_equal_pixels(ops);
    test_allocations(ops, &classes_spec);
    test_allocations(ops, &image_spec);
    test_allocations(ops, &orders_spec);
    test_allocations(ops, &gru);
    test_description(ops);
}

int main(int argc, char **argv) {
    const engine_backend_ops *asked = NULL;
    bool fake;
    if (argc == 3 && strcmp(argv[1], "--backend") == 0) iter__backend_find(argv[2], &asked, NULL);
    if (asked && asked->on_device && !layer_backend_is_there(asked, &fake)) return 77;
    for (int i = 0; iter__backends[i]; i++) {
        const engine_backend_ops *ops = iter__backends[i];
        if (asked ? ops == asked : !ops->on_device) test_all(ops);
    }
    return EXPECT_DONE();
}
