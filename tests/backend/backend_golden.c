/*
 * backend_golden.c - every backend against PyTorch's results (tests/golden/make_layers.py):
 * outputs, losses, gradients, and weights after some steps of each optimiser.
 */
#include "tests/support/expect_layers.h"

#define GOLDEN "tests/golden/layers.txt"

/* A case of the file. The spec must be known before the numbers can be placed, so they are kept
 * here. */
typedef struct golden_case {
    char name[64], model[256], optimizer[128];
    layer_spec spec;
    double *data, *label, *params[8], *output, *input_gradient, *gradients[8], *after[8];
    double *segments;
    double loss, correct;
    unsigned long long key, step;
    int n_params, n_gradients, n_after;
    bool classes;
} golden_case;

static double *read_numbers(FILE *file, int64_t n) {
    double *numbers = layer_alloc(n, sizeof(double));
    for (int64_t i = 0; i < n; i++)
        if (fscanf(file, "%lf", &numbers[i]) != 1) abort();
    return numbers;
}

/* Reads the dimensions on the rest of a line; returns their product. */
static int64_t read_dims(char *words, int64_t dims[4], int32_t *n_dims) {
    int64_t n = 1;
    *n_dims = 0;
    for (char *word = strtok(words, " \n"); word && *n_dims < 4; word = strtok(NULL, " \n")) {
        dims[*n_dims] = strtoll(word, NULL, 10);
        n *= dims[(*n_dims)++];
    }
    return n;
}

static void read_tensor(golden_case *g, FILE *file, const char *head, char *words) {
    int64_t dims[4];
    int32_t n_dims;
    char dtype[8] = "", layout[8] = "";
    int used = 0;
    if (strcmp(head, "data") == 0) {
        if (sscanf(words, "%7s %7s%n", dtype, layout, &used) != 2) abort();
        g->data = read_numbers(file, read_dims(words + used, dims, &n_dims));
        g->spec.batch = dims[0];
        g->spec.n_dims = n_dims - 1;
        memcpy(g->spec.dims, dims + 1, sizeof(g->spec.dims));
        g->spec.n_ids = strcmp(dtype, "i64") == 0 ? 1000 : 0;
    } else if (strcmp(head, "segments") == 0) {
        g->segments = read_numbers(file, read_dims(words, dims, &n_dims));
    } else if (strcmp(head, "label") == 0) {
        if (sscanf(words, "%7s%n", dtype, &used) != 1) abort();
        g->classes = strcmp(dtype, "i64") == 0;
        g->label = read_numbers(file, read_dims(words + used, dims, &n_dims));
    } else {
        char *rest = strchr(words, ' ');
        if (strcmp(head, "after") == 0) {
            g->spec.n_steps = atoi(words);
            rest = strchr(rest + 1, ' ');
        }
        const bool named = strcmp(head, "param") == 0 || strcmp(head, "gradient") == 0 ||
                           strcmp(head, "after") == 0;
        double *numbers = read_numbers(file, read_dims(named ? rest : words, dims, &n_dims));
        if (strcmp(head, "param") == 0) g->params[g->n_params++] = numbers;
        if (strcmp(head, "gradient") == 0) g->gradients[g->n_gradients++] = numbers;
        if (strcmp(head, "after") == 0) g->after[g->n_after++] = numbers;
        if (strcmp(head, "output") == 0) g->output = numbers;
        if (strcmp(head, "input-gradient") == 0) g->input_gradient = numbers;
        if (strcmp(head, "loss") == 0) g->loss = numbers[0];
        if (strcmp(head, "correct") == 0) g->correct = numbers[0];
        if (strcmp(head, "loss") == 0 || strcmp(head, "correct") == 0) free(numbers);
    }
}

/* Reads the next case; returns false at the end of the file. */
static bool read_golden(FILE *file, golden_case *g) {
    char line[512], head[32];
    memset(g, 0, sizeof(*g));
    while (fgets(line, sizeof(line), file)) {
        int used = 0;
        if (sscanf(line, "%31s %n", head, &used) != 1) continue;
        char *words = line + used;
        words[strcspn(words, "\n")] = '\0';
        if (strcmp(head, "end") == 0) return true;
        if (strcmp(head, "case") == 0)
            snprintf(g->name, sizeof(g->name), "%.60s", words);
        else if (strcmp(head, "model") == 0)
            snprintf(g->model, sizeof(g->model), "%.250s", words);
        else if (strcmp(head, "optimizer") == 0)
            snprintf(g->optimizer, sizeof(g->optimizer), "%.120s", words);
        else if (strcmp(head, "key") == 0)
            sscanf(words, "%llu %llu", &g->key, &g->step);
        else
            read_tensor(g, file, head, words);
    }
    return false;
}

static void free_golden(golden_case *g) {
    free(g->data);
    free(g->label);
    free(g->segments);
    free(g->output);
    free(g->input_gradient);
    for (int i = 0; i < 8; i++) {
        free(g->params[i]);
        free(g->gradients[i]);
        free(g->after[i]);
    }
}

static const engine_backend_ops *asked; /* NULL = all but those on a device */

static void check_golden(const golden_case *g, const layer_case *test,
                         const engine_backend_ops *ops, double most) {
    const layer_form form = {.data = g->spec.n_ids ? ITER_I64 : ITER_F64,
                             .label = g->classes ? ITER_I64 : ITER_F64};
    layer_result got, want = {.test = test, .outputs = g->output};
    char how[96];
    if (!EXPECT(layer_result_make(&got, test, &form, ops, 1))) return;
    want.outcome.loss_sum = g->loss;
    want.outcome.n_correct = (int64_t)g->correct;
    want.input_gradient = g->input_gradient;
    for (int p = 0; p < g->n_params; p++) {
        want.gradients[p] = g->gradients[p];
        want.weights[p] = g->after[p];
        for (int i = 0; i < 2; i++)
            want.moments[i][p] = got.moments[i][p]; /* not in the file */
    }
    snprintf(how, sizeof(how), "%s, %s against the golden results", g->name, ops->name);
    expect_near(&got, &want, most, how);
    layer_result_free(&got);
}

static void test_case(golden_case *g) {
    layer_case test;
    g->spec.model = g->model;
    g->spec.optimizer = g->optimizer;
    if (!EXPECT(layer_case_plan(&g->spec, &test))) return;
    test.rng_key = g->key;
    test.first_step = g->step;
    const int64_t n_label = test.spec.batch * test.n_label;
    memcpy(test.data, g->data, (size_t)(test.spec.batch * test.n_elements) * sizeof(double));
    memcpy(test.label, g->label, (size_t)n_label * sizeof(double));
    for (int64_t i = 0; test.segments && i < test.spec.batch * test.net.input.dims[0]; i++)
        test.segments[i] = (int32_t)g->segments[i];
    layer_case_count(&test);
    if (EXPECT_EQ(test.net.n_params, g->n_params)) {
        for (int p = 0; p < g->n_params; p++)
            memcpy(test.params[p], g->params[p],
                   (size_t)test.net.params[p].n_elements * sizeof(double));
        for (int i = 0; iter__backends[i]; i++) {
            const engine_backend_ops *ops = iter__backends[i];
            /* it lacks language models, and a gru that resets before the product */
            if (ops->on_device && (test.targets || strstr(g->model, "reset=before"))) continue;
            if (asked ? ops == asked : !ops->on_device)
                check_golden(g, &test, ops, ops->real == ITER_F64 ? 2e-8 : 1e-5);
        }
    }
    layer_case_free(&test);
}

int main(int argc, char **argv) {
    golden_case g;
    int n = 0;
    bool fake;
    if (argc == 3 && strcmp(argv[1], "--backend") == 0) iter__backend_find(argv[2], &asked, NULL);
    if (asked && asked->on_device && !layer_backend_is_there(asked, &fake)) return 77;
    FILE *file = fopen(GOLDEN, "r");
    if (!EXPECT(file != NULL)) return 1;
    while (read_golden(file, &g)) {
        n++;
        test_case(&g);
        free_golden(&g);
    }
    fclose(file);
    EXPECT_EQ(n, 23);
    return EXPECT_DONE();
}
