/*
 * backend_language.c - properties of language models, on every backend that has them.
 *
 *   - documents packed into rows with segments: the same loss and gradients as each document in a
 *     row of its own, padded
 *   - a label of -100 everywhere: no loss, no gradient, and no update
 *   - rows that do not count are as rows whose labels are all -100
 *   - the same bits in every run; other threads differ by rounding alone
 */
#include <iter/rng.h>

#include "tests/support/expect_layers.h"

#define MODEL  "embedding:23,7 | gru:7,segments=yes | tied-softmax"
#define N_DOCS 7
#define LENGTH 12 /* of a row */
#define N_IDS  23
#define PACKED 3 /* rows */

/* Documents of these lengths, by the row that they are packed into. */
static const struct {
    int row, length;
} documents[N_DOCS] = {{0, 5}, {0, 7}, {1, 1}, {1, 9}, {2, 3}, {2, 4}, {2, 2}};

/* A case of n rows whose every place is padding: id 0, no target, segment 0. */
static bool open_case(layer_case *out, int64_t rows) {
    const layer_spec spec = {MODEL, .batch = rows, .n_dims = 1, .dims = {LENGTH}, .n_ids = N_IDS};
    if (!EXPECT(layer_case_plan(&spec, out))) return false;
    layer_case_fill(out, 5); /* the weights depend on the seed alone */
    for (int64_t i = 0; i < rows * LENGTH; i++) {
        out->data[i] = 0;
        out->label[i] = ENGINE_NO_TARGET;
        out->segments[i] = 0;
    }
    layer_case_count(out);
    return true;
}

static void copy_params(const layer_case *from, layer_case *to) {
    for (int32_t p = 0; p < from->net.n_params; p++)
        memcpy(to->params[p], from->params[p],
               (size_t)from->net.params[p].n_elements * sizeof(double));
}

/* Writes document d from place `at` on; each id but the first is the target of the one before. */
static void put_document(layer_case *test, int64_t at, int d, int segment) {
    iter_rng rng = iter_rng_at(iter_rng_key(9, "document", (uint32_t)d), 0, 0);
    for (int i = 0; i < documents[d].length; i++) {
        const double id = (double)iter_rng_below(&rng, N_IDS);
        test->data[at + i] = id;
        test->segments[at + i] = segment;
        if (i > 0) test->label[at + i - 1] = id;
    }
}

static void fill_packed(layer_case *test) {
    int64_t at = 0;
    for (int d = 0, segment = 0; d < N_DOCS; d++) {
        const bool begins = d == 0 || documents[d].row != documents[d - 1].row;
        if (begins) at = documents[d].row * LENGTH;
        segment = begins ? 1 : segment + 1;
        put_document(test, at, d, segment);
        at += documents[d].length;
    }
    layer_case_count(test);
}

static void fill_padded(layer_case *test) {
    for (int d = 0; d < N_DOCS; d++)
        put_document(test, (int64_t)d * LENGTH, d, 1);
    layer_case_count(test);
}

static const layer_form form = {.data = ITER_I32, .label = ITER_I32};

/* One step with a gradient and an update. */
static bool run_case(layer_result *out, const layer_case *test, const engine_backend_ops *ops,
                     uint32_t threads) {
    return EXPECT(layer_result_make(out, test, &form, ops, threads));
}

static double most_apart(const layer_result *a, const layer_result *b, const layer_case *test) {
    double most = layer_distance(&a->outcome.loss_sum, &b->outcome.loss_sum, 1);
    for (int32_t p = 0; p < test->net.n_params; p++) {
        const int64_t n = test->net.params[p].n_elements;
        const double gradient = layer_distance(a->gradients[p], b->gradients[p], n);
        const double weight = layer_distance(a->weights[p], b->weights[p], n);
        most = gradient > most ? gradient : most;
        most = weight > most ? weight : most;
    }
    return most;
}

static void test_packed(const engine_backend_ops *ops, uint32_t threads) {
    layer_case packed, padded;
    layer_result a = {0}, b = {0};
    if (!open_case(&packed, PACKED)) return;
    if (open_case(&padded, N_DOCS)) {
        copy_params(&packed, &padded);
        fill_packed(&packed);
        fill_padded(&padded);
        EXPECT_EQ(packed.n_counted, padded.n_counted);
        if (run_case(&a, &packed, ops, threads) && run_case(&b, &padded, ops, threads)) {
            const double most = most_apart(&a, &b, &packed);
            if (!EXPECT(most <= (ops->real == ITER_F64 ? 1e-13 : 1e-5)))
                fprintf(stderr, "  %s, %u threads: packed and padded rows are apart by %.3g\n",
                        ops->name, (unsigned)threads, most);
            EXPECT_EQ(a.outcome.n_correct, b.outcome.n_correct);
            EXPECT(a.outcome.loss_sum > 1); /* there is something to compare */
        }
        /* Without the borders the result is another one. */
        layer_result_free(&a);
        memset(packed.segments, 0, PACKED * LENGTH * sizeof(*packed.segments));
        if (run_case(&a, &packed, ops, threads)) EXPECT(most_apart(&a, &b, &packed) > 1e-3);
        layer_case_free(&padded);
    }
    layer_result_free(&a);
    layer_result_free(&b);
    layer_case_free(&packed);
}

static void test_no_target(const engine_backend_ops *ops, uint32_t threads) {
    layer_case test;
    layer_result got;
    if (!open_case(&test, PACKED)) return;
    EXPECT_EQ(test.n_counted, 0);
    if (run_case(&got, &test, ops, threads)) {
        EXPECT(got.outcome.loss_sum == 0);
        EXPECT_EQ(got.outcome.n_correct, 0);
        for (int32_t p = 0; p < test.net.n_params; p++) {
            const int64_t n = test.net.params[p].n_elements;
            for (int64_t i = 0; i < n; i++)
                if (!EXPECT(got.gradients[p][i] == 0)) break;
            EXPECT(layer_distance(got.weights[p], test.params[p], n) == 0);
        }
        layer_result_free(&got);
    }
    layer_case_free(&test);
}

static void test_rows_out(const engine_backend_ops *ops, uint32_t threads) {
    layer_case test;
    layer_result by_count = {0}, by_label = {0};
    if (!open_case(&test, PACKED)) return;
    fill_packed(&test);
    test.counts[1] = 0;
    layer_case_count(&test);
    const int64_t n = test.n_counted;
    if (run_case(&by_count, &test, ops, threads)) {
        test.counts[1] = 1;
        for (int i = 0; i < LENGTH; i++)
            test.label[LENGTH + i] = ENGINE_NO_TARGET;
        layer_case_count(&test);
        EXPECT_EQ(test.n_counted, n);
        if (run_case(&by_label, &test, ops, threads))
            EXPECT(most_apart(&by_count, &by_label, &test) == 0);
    }
    layer_result_free(&by_count);
    layer_result_free(&by_label);
    layer_case_free(&test);
}

static void test_bits(const engine_backend_ops *ops) {
    layer_case test;
    layer_result runs[3] = {{0}};
    if (!open_case(&test, PACKED)) return;
    fill_packed(&test);
    if (run_case(&runs[0], &test, ops, 2) && run_case(&runs[1], &test, ops, 2) &&
        run_case(&runs[2], &test, ops, 1)) {
        EXPECT(most_apart(&runs[0], &runs[1], &test) == 0);
        EXPECT(most_apart(&runs[0], &runs[2], &test) <= 1e-5);
    }
    for (int i = 0; i < 3; i++)
        layer_result_free(&runs[i]);
    layer_case_free(&test);
}

int main(void) {
    for (int i = 0; iter__backends[i]; i++) {
        const engine_backend_ops *ops = iter__backends[i];
        if (ops->on_device) continue; /* it lacks language models, as backend_layers tests */
        for (uint32_t threads = 1; threads <= 3; threads++) {
            test_packed(ops, threads);
            test_no_target(ops, threads);
            test_rows_out(ops, threads);
        }
        test_bits(ops);
    }
    return EXPECT_DONE();
}
