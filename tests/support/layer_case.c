/* layer_case.c - see layer_case.h. */
#include "tests/support/layer_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/rng.h>

#include "tests/fake/fake_cuda.h"
#include "tests/fake/fake_library.h"
#include "transforms/pack/half.h"

#define SEED 7

extern const engine_backend_ops iter__backend_reference_f64;

void *layer_alloc(int64_t n, size_t size) {
    const size_t bytes = ((size_t)n * size + 63) / 64 * 64;
    void *block = aligned_alloc(64, bytes ? bytes : 64);
    if (!block) abort();
    memset(block, 0, bytes);
    return block;
}

static void must(iter_status status, const iter_error *err) {
    if (status == ITER_OK) return;
    fprintf(stderr, "%s\n", err->message);
    abort();
}

/* ---- Planning -------------------------------------------------------------------------------- */

static void set_desc(iter_desc *desc, iter_dtype dtype, const char *layout) {
    memset(desc, 0, sizeof(*desc));
    desc->dtype = dtype;
    snprintf(desc->layout, sizeof(desc->layout), "%s", layout);
}

static iter_desc data_desc(const layer_spec *spec, const layer_form *form) {
    iter_desc desc;
    const bool other = form->other_layout;
    const int64_t *d = spec->dims, n = spec->batch;
    const char *layout = spec->n_dims == 3   ? (other ? "NHWC" : "NCHW")
                         : spec->n_dims == 2 ? (other ? "TNF" : "NTF")
                         : spec->n_ids       ? (other ? "TN" : "NT")
                                             : "NF";
    set_desc(&desc, form->data ? form->data : spec->n_ids ? ITER_I32 : ITER_F32, layout);
    desc.n_dims = spec->n_dims + 1;
    for (int32_t i = 0; i < desc.n_dims; i++) {
        switch (layout[i]) {
        case 'N': desc.dims[i] = n; break;
        case 'H': desc.dims[i] = d[1]; break;
        case 'W': desc.dims[i] = d[2]; break;
        case 'F': desc.dims[i] = d[spec->n_dims - 1]; break;
        default: desc.dims[i] = d[0]; break; /* C, T */
        }
    }
    return desc;
}

static iter_desc label_desc(const layer_case *test, const layer_form *form) {
    iter_desc desc;
    const iter_dtype usual = test->classes ? ITER_I32 : ITER_F32;
    set_desc(&desc, form->label ? form->label : usual, "");
    if (test->targets && desc.dtype == ITER_U8) desc.dtype = ITER_I64; /* bytes have no -100 */
    desc.n_dims = test->classes && !test->targets ? 1 : 2;
    desc.dims[0] = test->spec.batch;
    desc.dims[1] = test->n_label;
    return desc;
}

/* The model cut after n_layers layers, with its output turned into features, and classes for a
 * loss. */
static iter_model *cut_model(const char *text, int32_t n_layers) {
    char cut[2048];
    const char *preset = iter_model_preset(text);
    snprintf(cut, sizeof(cut), "%s", preset ? preset : text);
    char *end = cut;
    for (int32_t i = 0; i < n_layers; i++)
        end = strchr(end + 1, '|');
    snprintf(end, sizeof(cut) - (size_t)(end - cut), "%sflatten | softmax-cross-entropy",
             n_layers > 0 ? "| " : "");
    iter_model *model = NULL;
    iter_error err = {0};
    must(iter_model_parse(cut, &model, &err), &err);
    return model;
}

static int64_t count_outputs(const layer_spec *spec, int32_t n_layers) {
    const layer_form form = {0};
    const iter_desc data = data_desc(spec, &form);
    iter_desc label;
    iter_error err = {0};
    engine_net *net = layer_alloc(1, sizeof(*net));
    iter_model *model = cut_model(spec->model, n_layers);
    set_desc(&label, ITER_I32, "N");
    label.n_dims = 1;
    label.dims[0] = spec->batch;
    must(iter__net_plan(model, &data, &label, SEED, net, &err), &err);
    const int64_t n = net->n_outputs;
    iter_model_unref(model);
    free(net);
    return n;
}

static void plan_net(const layer_case *test, const layer_form *form, engine_net *net) {
    iter_error err = {0};
    const iter_desc data = data_desc(&test->spec, form), label = label_desc(test, form);
    must(iter__net_plan(test->model, &data, &label, SEED, net, &err), &err);
    for (int32_t i = 0; i < net->n_layers && test->rng_key; i++)
        net->layers[i].rng_key = test->rng_key;
}

void layer_case_count(layer_case *test) {
    test->n_counted = 0;
    for (int64_t i = 0; i < test->spec.n_rows * test->net.n_targets; i++)
        test->n_counted += test->counts[i / test->net.n_targets] &&
                           !(test->targets && test->label[i] == ENGINE_NO_TARGET);
}

static void take_numbers(layer_case *test) {
    const layer_spec *spec = &test->spec;
    test->n_elements = iter__shape_elements(&test->net.input);
    test->data = layer_alloc(spec->batch * test->n_elements, sizeof(double));
    test->label = layer_alloc(spec->batch * test->n_label, sizeof(double));
    test->counts = layer_alloc(spec->batch, 1);
    for (int64_t row = 0; row < spec->n_rows; row++) {
        const bool out = row < 64 && (spec->rows_out >> row & 1);
        test->counts[row] = !out && (!spec->some_rows || row % 3 != 1);
    }
    layer_case_count(test);
    if (test->net.segments)
        test->segments =
            layer_alloc(spec->batch * test->net.input.dims[0], sizeof(*test->segments));
    for (int32_t p = 0; p < test->net.n_params; p++)
        test->params[p] = layer_alloc(test->net.params[p].n_elements, sizeof(double));
}

bool layer_case_plan(const layer_spec *spec, layer_case *out) {
    const layer_form form = {0};
    iter_error err = {0};
    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    if (out->spec.n_rows == 0) out->spec.n_rows = spec->batch;
    if (out->spec.n_steps == 0) out->spec.n_steps = 1;
    if (spec->n_ids) out->spec.no_input_gradient = true;
    if (!out->spec.optimizer) out->spec.optimizer = LAYER_OPTIMIZER;
    if (iter_model_parse(spec->model, &out->model, &err) < 0) {
        fprintf(stderr, "%s: %s\n", spec->model, err.message);
        return false;
    }
    const char *text = iter_model_text(out->model);
    int32_t n_layers = 0;
    for (const char *at = text; (at = strchr(at, '|')); at++)
        n_layers++;
    out->classes = strstr(text, "softmax") != NULL;
    out->targets = strstr(text, "tied-softmax") != NULL;
    out->n_label = out->targets ? spec->dims[0] : out->classes ? 1 : count_outputs(spec, n_layers);
    must(iter__optimizer_parse(out->spec.optimizer, &out->optimizer, &err), &err);
    plan_net(out, &form, &out->net);
    take_numbers(out);
    return true;
}

static double draw_normal(iter_rng *rng) {
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += iter_rng_uniform(rng);
    return (double)sum;
}

static void fill_params(layer_case *test, uint64_t seed, iter_rng *rng) {
    for (int32_t p = 0; p < test->net.n_params; p++) {
        const engine_param *param = &test->net.params[p];
        float *begin = layer_alloc(param->n_elements, sizeof(*begin));
        iter__param_init(param, seed, begin);
        for (int64_t i = 0; i < param->n_elements; i++)
            test->params[p][i] =
                param->bias ? (double)(float)(0.1 * draw_normal(rng)) : (double)begin[i];
        free(begin);
    }
}

void layer_case_fill(layer_case *test, uint64_t seed) {
    const layer_spec *spec = &test->spec;
    iter_rng rng = iter_rng_at(iter_rng_key(seed, "numbers", 0), 0, 0);
    for (int64_t i = 0; i < spec->batch * test->n_elements; i++)
        test->data[i] = spec->n_ids   ? (double)iter_rng_below(&rng, (uint64_t)spec->n_ids)
                        : spec->bytes ? (double)iter_rng_below(&rng, 256)
                                      : draw_normal(&rng);
    for (int64_t i = 0; i < spec->batch * test->n_label; i++)
        test->label[i] = test->targets && iter_rng_below(&rng, 4) == 0 ? ENGINE_NO_TARGET
                         : test->classes
                             ? (double)iter_rng_below(&rng, (uint64_t)test->net.n_classes)
                             : draw_normal(&rng);
    layer_case_count(test);
    const int64_t steps = test->net.input.dims[0];
    for (int64_t i = 0; test->segments && i < spec->batch * steps; i++)
        test->segments[i] =
            i % steps == 0 ? 1 : (int32_t)(test->segments[i - 1] + (iter_rng_below(&rng, 3) == 0));
    fill_params(test, seed, &rng);
}

void layer_case_free(layer_case *test) {
    iter_model_unref(test->model);
    free(test->data);
    free(test->label);
    free(test->segments);
    free(test->counts);
    for (int32_t p = 0; p < ENGINE_MAX_PARAMS; p++)
        free(test->params[p]);
}

double *layer_case_values(const layer_case *test, int32_t n_layers, int64_t *out_n) {
    layer_case part = *test;
    const layer_form form = {.data = test->spec.n_ids ? 0 : ITER_F64};
    part.model = cut_model(test->spec.model, n_layers);
    part.classes = true;
    part.n_label = 1;
    part.label = layer_alloc(part.spec.batch, sizeof(double));
    plan_net(&part, &form, &part.net);
    layer_machine *m = layer_alloc(1, sizeof(*m));
    if (!layer_machine_open(m, &part, &form, &iter__backend_reference_f64, 1)) abort();
    layer_machine_run(m, ENGINE_RUN_GRADIENT, test->first_step);
    *out_n = m->net.n_outputs;
    double *values = layer_alloc(part.spec.n_rows * *out_n, sizeof(double));
    iter_error err = {0};
    must(m->ops->outputs(m->state, part.spec.n_rows, values, &err), &err);
    layer_machine_close(m);
    free(m);
    free(part.label);
    iter_model_unref(part.model);
    return values;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void store_number(const iter_tensor *tensor, int64_t at, double value) {
    switch (tensor->desc.dtype) {
    case ITER_U8: ((uint8_t *)tensor->data)[at] = (uint8_t)value; break;
    case ITER_I32: ((int32_t *)tensor->data)[at] = (int32_t)value; break;
    case ITER_I64: ((int64_t *)tensor->data)[at] = (int64_t)value; break;
    case ITER_F16: ((uint16_t *)tensor->data)[at] = f16_from_f32((float)value); break;
    case ITER_BF16: ((uint16_t *)tensor->data)[at] = bf16_from_f32((float)value); break;
    case ITER_F32: ((float *)tensor->data)[at] = (float)value; break;
    case ITER_F64: ((double *)tensor->data)[at] = value; break;
    default: abort();
    }
}

/* The index of letter `letter` of element e of a row whose dims are d, in the net's own order. */
static int64_t index_of(char letter, const layer_spec *spec, int64_t row, int64_t e) {
    const int64_t *d = spec->dims;
    switch (letter) {
    case 'N': return row;
    case 'C': return e / (d[1] * d[2]);
    case 'H': return e / d[2] % d[1];
    case 'W': return e % d[2];
    case 'T': return spec->n_dims == 2 ? e / d[1] : e;
    default: return spec->n_dims == 2 ? e % d[1] : e; /* F */
    }
}

static int64_t place_in(const iter_tensor *tensor, const char *layout, const layer_spec *spec,
                        int64_t row, int64_t e) {
    int64_t at = 0;
    for (int32_t i = 0; i < tensor->desc.n_dims; i++)
        at += index_of(layout[i], spec, row, e) * tensor->strides[i];
    return at;
}

/* Allocates a tensor and sets its strides. Gaps are filled with values that are neither ids nor
 * numbers. */
static void *place_tensor(iter_tensor *tensor, const iter_desc *desc, bool strided) {
    int64_t n = 1;
    tensor->desc = *desc;
    for (int32_t i = desc->n_dims - 1; i >= 0; i--) {
        n += strided ? 3 : 0;
        tensor->strides[i] = n;
        n *= desc->dims[i];
    }
    const size_t bytes = (size_t)(n + 1) * iter_dtype_bytes(desc->dtype);
    tensor->data = layer_alloc((int64_t)bytes, 1);
    memset(tensor->data, 0xff, bytes);
    return tensor->data;
}

static void lay_out(layer_machine *m, const layer_form *form) {
    const layer_case *test = m->test;
    const layer_spec *spec = &test->spec;
    iter_desc data = m->net.data, label = m->net.label;
    data.dims[iter__net_batch_dim(&data)] = spec->n_rows;
    label.dims[0] = spec->n_rows;
    m->data_memory = place_tensor(&m->data, &data, form->strided);
    m->label_memory = place_tensor(&m->label, &label, form->strided);
    for (int64_t row = 0; row < spec->n_rows; row++) {
        for (int64_t e = 0; e < test->n_elements; e++)
            store_number(&m->data, place_in(&m->data, data.layout, spec, row, e),
                         test->data[row * test->n_elements + e]);
        for (int64_t f = 0; f < test->n_label; f++)
            store_number(&m->label, row * m->label.strides[0] + (f ? f * m->label.strides[1] : 0),
                         test->label[row * test->n_label + f]);
    }
    if (test->segments) {
        iter_desc segments = {.dtype = ITER_I32, .n_dims = 2, .dims = {spec->n_rows}};
        segments.dims[1] = m->net.input.dims[0];
        m->segments_memory = place_tensor(&m->segments, &segments, form->strided);
        for (int64_t i = 0; i < spec->n_rows * segments.dims[1]; i++)
            store_number(&m->segments,
                         i / segments.dims[1] * m->segments.strides[0] +
                             i % segments.dims[1] * m->segments.strides[1],
                         test->segments[i]);
    }
    m->batch = (engine_batch){.data = &m->data,
                              .label = &m->label,
                              .segments = test->segments ? &m->segments : NULL,
                              .n_rows = spec->n_rows,
                              .counts = test->counts,
                              .n_counted = test->n_counted,
                              .lr = test->optimizer.lr};
}

bool layer_machine_open(layer_machine *m, const layer_case *test, const layer_form *form,
                        const engine_backend_ops *ops, uint32_t threads) {
    iter_error err = {0};
    memset(m, 0, sizeof(*m));
    m->test = test;
    m->ops = ops;
    plan_net(test, form, &m->net);
    const engine_backend_config config = {.net = &m->net,
                                          .optimizer = &test->optimizer,
                                          .threads = threads,
                                          .keep_input_gradient = !test->spec.no_input_gradient,
                                          .precision = form->precision,
                                          .algorithms = form->algorithms};
    m->state = layer_alloc((int64_t)ops->state_size, 1);
    if (ops->create(m->state, &config, &err) < 0) {
        fprintf(stderr, "%s, %s: %s\n", test->spec.model, ops->name, err.message);
        free(m->state);
        m->state = NULL;
        return false;
    }
    for (int32_t p = 0; p < m->net.n_params; p++)
        layer_machine_set(m, p, test->params[p]);
    lay_out(m, form);
    return true;
}

void layer_machine_close(layer_machine *m) {
    if (!m->state) return;
    m->ops->destroy(m->state);
    free(m->state);
    free(m->data_memory);
    free(m->label_memory);
    free(m->segments_memory);
}

engine_outcome layer_machine_run(layer_machine *m, engine_run what, uint64_t step) {
    engine_outcome out = {0};
    iter_error err = {0};
    m->batch.step = step;
    must(m->ops->run(m->state, &m->batch, what, &out, &err), &err);
    if (!out.pending) return out;
    engine_collected found;
    must(m->ops->collect(m->state, &found, &err), &err);
    out.loss_sum = found.trouble == ENGINE_TROUBLE_LOSS ? found.loss : found.loss_sum;
    out.n_correct = found.n_correct;
    return out;
}

void layer_backend_set_fake(bool *out_fake) {
    const fake_library *fake = fake_library_get("libcudnn.so.9", "fake_cudnn_control");
    *out_fake = fake && fake_cuda_get();
    if (!*out_fake) return;
    fake_cuda_machine machine = fake_cuda_get()->machine();
    machine.memory_bytes = (size_t)64 << 20; /* little, for speed: the fake fills new memory */
    machine.capability = 80;                 /* cuBLAS gets less workspace */
    fake_cuda_get()->set_machine(&machine);
    fake->kernels();
}

bool layer_backend_is_there(const engine_backend_ops *ops, bool *out_fake) {
    const layer_spec spec = {"dense:2 | mse", .batch = 2, .n_dims = 1, .dims = {2}};
    layer_case test;
    iter_error err = {0};
    layer_backend_set_fake(out_fake);
    if (!layer_case_plan(&spec, &test)) return false;
    const engine_backend_config config = {.net = &test.net, .optimizer = &test.optimizer};
    void *state = layer_alloc((int64_t)ops->state_size, 1);
    const bool there = ops->create(state, &config, &err) >= 0;
    engine_backend_info info = {.n_bytes = 0};
    if (there) {
        ops->describe(state, &info);
        ops->destroy(state);
    }
    printf("%s%s: %s\n", there ? "" : "skipped: ", ops->name, there ? info.text : err.message);
    free(state);
    layer_case_free(&test);
    return there;
}

/* ---- Values ---------------------------------------------------------------------------------- */

void layer_machine_set(layer_machine *m, int32_t param, const double *from) {
    const int64_t n = m->net.params[param].n_elements;
    iter_error err = {0};
    if (m->ops->real == ITER_F64) {
        must(m->ops->set(m->state, param, ITER_VALUE_WEIGHT, from, &err), &err);
        return;
    }
    float *floats = layer_alloc(n, sizeof(*floats));
    for (int64_t i = 0; i < n; i++)
        floats[i] = (float)from[i];
    must(m->ops->set(m->state, param, ITER_VALUE_WEIGHT, floats, &err), &err);
    free(floats);
}

/* Converts n numbers of the backend's own type to doubles, in place: memory must have room for
 * doubles. */
static void widen(const engine_backend_ops *ops, double *numbers, int64_t n) {
    if (ops->real == ITER_F64) return;
    for (int64_t i = n - 1; i >= 0; i--) {
        float value;
        memcpy(&value, (const char *)numbers + i * (int64_t)sizeof(value), sizeof(value));
        numbers[i] = (double)value;
    }
}

static int64_t value_elements(const layer_machine *m, int32_t param, iter_value value) {
    return value == ITER_VALUE_INPUT_GRADIENT ? m->net.batch * m->test->n_elements
                                              : m->net.params[param].n_elements;
}

void layer_machine_get(layer_machine *m, int32_t param, iter_value value, double *out) {
    iter_error err = {0};
    must(m->ops->get(m->state, param, value, out, &err), &err);
    widen(m->ops, out, value_elements(m, param, value));
}

void layer_machine_input_gradient(layer_machine *m, double *out) {
    const layer_case *test = m->test;
    const int64_t n = test->spec.batch * test->n_elements;
    double *in_layout = layer_alloc(n, sizeof(double));
    iter_tensor dense = iter_tensor_dense(&m->net.data, in_layout);
    layer_machine_get(m, 0, ITER_VALUE_INPUT_GRADIENT, in_layout);
    for (int64_t i = 0; i < n; i++)
        out[i] = in_layout[place_in(&dense, m->net.data.layout, &test->spec, i / test->n_elements,
                                    i % test->n_elements)];
    free(in_layout);
}

/* ---- Results --------------------------------------------------------------------------------- */

static void take_first(layer_result *out, layer_machine *m) {
    const layer_case *test = m->test;
    const int64_t n_outputs = test->spec.n_rows * test->net.n_outputs;
    out->outputs = layer_alloc(n_outputs, sizeof(double));
    iter_error err = {0};
    must(m->ops->outputs(m->state, test->spec.n_rows, out->outputs, &err), &err);
    widen(m->ops, out->outputs, n_outputs);
    if (!test->spec.no_input_gradient) {
        out->input_gradient = layer_alloc(test->spec.batch * test->n_elements, sizeof(double));
        layer_machine_input_gradient(m, out->input_gradient);
    }
    for (int32_t p = 0; p < test->net.n_params; p++) {
        out->gradients[p] = layer_alloc(test->net.params[p].n_elements, sizeof(double));
        layer_machine_get(m, p, ITER_VALUE_GRADIENT, out->gradients[p]);
    }
}

static void take_last(layer_result *out, layer_machine *m) {
    const layer_case *test = m->test;
    const int32_t n_moments = iter__optimizer_n_moments(&test->optimizer);
    for (int32_t p = 0; p < test->net.n_params; p++) {
        const int64_t n = test->net.params[p].n_elements;
        out->weights[p] = layer_alloc(n, sizeof(double));
        layer_machine_get(m, p, ITER_VALUE_WEIGHT, out->weights[p]);
        for (int32_t i = 0; i < n_moments; i++) {
            out->moments[i][p] = layer_alloc(n, sizeof(double));
            layer_machine_get(m, p, i ? ITER_VALUE_MOMENT2 : ITER_VALUE_MOMENT, out->moments[i][p]);
        }
    }
}

bool layer_result_make(layer_result *out, const layer_case *test, const layer_form *form,
                       const engine_backend_ops *ops, uint32_t threads) {
    layer_machine *m = layer_alloc(1, sizeof(*m));
    memset(out, 0, sizeof(*out));
    out->test = test;
    if (!layer_machine_open(m, test, form, ops, threads)) {
        free(m);
        return false;
    }
    for (int32_t i = 0; i < test->spec.n_steps; i++) {
        const engine_outcome outcome =
            layer_machine_run(m, ENGINE_RUN_TRAIN, test->first_step + (uint64_t)i);
        if (i > 0) continue;
        out->outcome = outcome;
        take_first(out, m);
    }
    take_last(out, m);
    layer_machine_close(m);
    free(m);
    return true;
}

void layer_result_free(layer_result *result) {
    free(result->outputs);
    free(result->input_gradient);
    for (int32_t p = 0; p < ENGINE_MAX_PARAMS; p++) {
        free(result->gradients[p]);
        free(result->weights[p]);
        free(result->moments[0][p]);
        free(result->moments[1][p]);
    }
}

double layer_distance(const double *got, const double *want, int64_t n) {
    double apart = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(got[i]) || !isfinite(want[i])) return INFINITY;
        apart = fmax(apart, fabs(got[i] - want[i]));
        top = fmax(top, fabs(want[i]));
    }
    return apart == 0 ? 0 : apart / top;
}

double layer_norm_distance(const double *got, const double *want, int64_t n) {
    double apart = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(got[i]) || !isfinite(want[i])) return INFINITY;
        apart += (got[i] - want[i]) * (got[i] - want[i]);
        all += want[i] * want[i];
    }
    return apart == 0 ? 0 : sqrt(apart / all);
}

/* The largest distance of several tensors, and the tensor's name. */
typedef struct worst_tensor {
    layer_measure measure;
    double distance;
    const char *name;
} worst_tensor;

static void keep_larger(worst_tensor *worst, const double *got, const double *want, int64_t n,
                        const char *of) {
    if (!want && !got) return;
    const double distance = want && got ? worst->measure(got, want, n) : INFINITY;
    if (distance <= worst->distance) return;
    worst->distance = distance;
    worst->name = of;
}

double layer_result_distance(const layer_result *got, const layer_result *want,
                             layer_measure measure, const char **out_name) {
    const layer_case *test = want->test;
    worst_tensor worst = {measure, 0, "nothing"};
    keep_larger(&worst, &got->outcome.loss_sum, &want->outcome.loss_sum, 1, "the loss");
    keep_larger(&worst, got->outputs, want->outputs, test->spec.n_rows * test->net.n_outputs,
                "the outputs");
    keep_larger(&worst, got->input_gradient, want->input_gradient,
                test->spec.batch * test->n_elements, "the input's gradient");
    for (int32_t p = 0; p < test->net.n_params; p++) {
        const engine_param *param = &test->net.params[p];
        keep_larger(&worst, got->weights[p], want->weights[p], param->n_elements,
                    "updated weights");
        for (int i = 0; i < 2; i++)
            keep_larger(&worst, got->moments[i][p], want->moments[i][p], param->n_elements,
                        i ? "a second moment" : "a moment");
        keep_larger(&worst, got->gradients[p], want->gradients[p], param->n_elements,
                    param->public.name);
    }
    *out_name = worst.name;
    return worst.distance;
}

double layer_tolerance(const layer_case *test) {
    for (int32_t i = 0; i < test->net.n_layers; i++) {
        const engine_layer *layer = &test->net.layers[i];
        const int64_t area = layer->options.conv2d.kernel * layer->options.conv2d.kernel;
        if (layer->kind != ENGINE_CONV2D) continue;
        if (layer->in.dims[0] * area >= 1000 || layer->out.dims[0] * area >= 1000 ||
            test->spec.n_rows * layer->out.dims[1] * layer->out.dims[2] >= 1000)
            return 5e-5;
    }
    return 1e-5;
}
