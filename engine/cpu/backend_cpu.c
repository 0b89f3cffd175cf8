/*
 * backend_cpu.c - the backend for processors: oneDNN for convolution, pooling and matrix products,
 * our own loops for the rest, on a fixed number of threads.
 *
 * A net becomes a plan once (cpu_plan.h). A run goes forward over its nodes and through the loss;
 * in training it then goes back, and over all parameters. The loss is known before anything is
 * updated. So if the loss is not finite, or if the run fails, the weights stay as they were. Values
 * that such a run left behind are cleared, because rows that a later batch lacks must not be NaN.
 *
 * oneDNN's relu and maxpool treat NaN as a small number, so a net of images may turn NaN data, or
 * an overflow, into a loss that looks normal. We therefore check images before the run and the
 * gradients of convolutions after it. If something is not finite, the loss becomes NaN.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <iter/convert.h>

#include "engine/cpu/cpu_parallel.h"
#include "engine/cpu/cpu_plan.h"
#include "engine/engine_error.h"

/* ---- Runs ------------------------------------------------------------------------------------ */

/* False if images hold a value that is not finite. */
static bool is_sound_data(const cpu_plan *plan) {
    const cpu_place *data = &plan->places[0];
    return data->shape.n_dims != 3 || plan->shared.maps->finite(data->n_elements, data->values);
}

static bool is_sound_gradient(const cpu_plan *plan) {
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        const cpu_node *node = plan->nodes[i];
        if (node->ops->sound && !node->ops->sound(node)) return false;
    }
    return true;
}

static iter_status fail_at(const cpu_node *node, iter_status status, iter_error *err) {
    return iter__engine_fail_in(err, status, "%s", iter__node_layer(node)->name);
}

static iter_status go_forward(cpu_plan *plan, const cpu_run *run, iter_error *err) {
    if (!plan->shared.net->input.ids) {
        const float *data =
            iter__cpu_input(&plan->shared, &plan->places[0], run->batch, plan->staging);
        plan->places[0].values = (float *)(uintptr_t)data; /* no node writes to a `kept` place */
    }
    for (int32_t i = 1; i < plan->n_places; i++)
        if (plan->places[i].alias) plan->places[i].values = plan->places[i].alias->values;
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        const iter_status status = node->ops->forward(node, run, err);
        if (status < 0) return fail_at(node, status, err);
    }
    return ITER_OK;
}

static engine_gradient dense_gradient(const cpu_param *param) {
    return (engine_gradient){.n = param->n_elements, .values = param->gradient};
}

static int32_t n_gradients(const cpu_plan *plan) {
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_nodes; i++)
        n += plan->nodes[i]->n_params;
    return n;
}

/* Hands over the gradients of a node, which no node before it changes. `end` is the number of the
 * first gradient after them. */
static void hand_over(const cpu_node *node, const engine_batch *batch, int32_t end) {
    for (int32_t p = node->n_params - 1; p >= 0 && !node->ops->describe; p--) {
        const engine_gradient gradient = dense_gradient(&node->params[p]);
        batch->ready(batch->user, end - node->n_params + p, &gradient);
    }
}

static iter_status go_backward(cpu_plan *plan, const cpu_run *run, iter_error *err) {
    int32_t end = n_gradients(plan);
    for (int32_t i = plan->n_nodes - 1; i >= 0; i--) {
        cpu_node *node = plan->nodes[i];
        const iter_status status = node->ops->backward(node, run, err);
        if (status < 0) return fail_at(node, status, err);
        if (run->batch->ready) hand_over(node, run->batch, end);
        end -= node->n_params;
    }
    return ITER_OK;
}

static void update(cpu_plan *plan, const cpu_run *run) {
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        if (node->ops->update) {
            node->ops->update(node, run);
            continue;
        }
        for (int32_t p = 0; p < node->n_params; p++)
            iter__node_update(node, &node->params[p], run);
    }
}

static void clear_values(cpu_plan *plan) {
    for (int32_t i = 1; i < plan->n_places; i++)
        if (!plan->places[i].alias)
            memset(plan->places[i].values, 0, (size_t)plan->places[i].n_elements * sizeof(float));
}

/* The loss is a node, which forward and backward run as the others. */
static bool is_tied(const cpu_plan *plan) {
    const engine_net *net = plan->shared.net;
    return net->layers[net->n_layers - 1].kind == ENGINE_TIED_SOFTMAX;
}

/* Forward, through the loss and, in training, backward. */
static iter_status go(cpu_plan *plan, const cpu_run *run, iter_error *err) {
    ENGINE_TRY(go_forward(plan, run, err));
    const bool learns = run->what != ENGINE_RUN_FORWARD && plan->outputs->wants;
    if (!is_tied(plan))
        iter__cpu_loss(&plan->shared, run, plan->outputs->values,
                       learns ? plan->outputs->gradient : NULL, plan->row_losses);
    if (!is_sound_data(plan)) run->out->loss_sum = NAN;
    if (learns && isfinite(run->out->loss_sum)) {
        ENGINE_TRY(go_backward(plan, run, err));
        if (!is_sound_gradient(plan)) run->out->loss_sum = NAN;
    }
    return ITER_OK;
}

static iter_status go_and_update(cpu_plan *plan, const cpu_run *run, iter_error *err) {
    const iter_status status = go(plan, run, err);
    if (status < 0 || !isfinite(run->out->loss_sum))
        clear_values(plan);
    else if (run->what == ENGINE_RUN_TRAIN && run->batch->n_counted > 0)
        update(plan, run);
    return status;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

/* Ids may come in either order; sequences of numbers are stored with the time first. */
static const char *cpu_layout(const engine_net *net, int32_t precision) {
    (void)precision;
    for (int32_t i = 0; i < net->n_layers; i++)
        switch (net->layers[i].kind) {
        case ENGINE_CONV2D: return iter__dnn_order() == CPU_ORDER_NHWC ? "nhwc" : "nchw";
        case ENGINE_MAXPOOL:
        case ENGINE_AVGPOOL:
        case ENGINE_FLATTEN: return "nchw";
        case ENGINE_EMBEDDING: return "nt";
        case ENGINE_GRU:
        case ENGINE_LAST_STEP:
        case ENGINE_MEAN_STEPS: return "tn";
        case ENGINE_DENSE: return "";
        default: break;
        }
    return "";
}

static iter_status cpu_create(void *state, const engine_backend_config *config, iter_error *err) {
    cpu_team team;
    iter__cpu_team_begin(&team, config->threads);
    const iter_status status = iter__cpu_plan_make(state, config, err);
    iter__cpu_team_end(&team);
    return status;
}

static void cpu_destroy(void *state) {
    iter__cpu_plan_drop(state);
}

static iter_status cpu_run_batch(void *state, const engine_batch *batch, engine_run what,
                                 engine_outcome *out, iter_error *err) {
    cpu_plan *plan = state;
    const uint64_t n_converted = plan->shared.n_converted;
    const cpu_run run = {batch, what, out};
    cpu_team team;
    iter__cpu_team_begin(&team, plan->shared.threads);
    const iter_status status = go_and_update(plan, &run, err);
    iter__cpu_team_end(&team);
    if (plan->shared.n_converted > n_converted) plan->shared.n_converted = n_converted + 1;
    return status;
}

static iter_status cpu_gradients(void *state, engine_gradient *out, int32_t *out_n,
                                 iter_error *err) {
    const cpu_plan *plan = state;
    int32_t n = 0;
    (void)err;
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        for (int32_t p = 0; p < node->n_params; p++, n++)
            if (node->ops->describe)
                node->ops->describe(node, p, &out[n]);
            else
                out[n] = dense_gradient(&node->params[p]);
    }
    *out_n = n;
    return ITER_OK;
}

/* The nodes' own gradients give way to the sums for as long as the update takes. */
static iter_status cpu_update_from(void *state, const engine_gradient *sums,
                                   const engine_batch *batch, iter_error *err) {
    cpu_plan *plan = state;
    (void)err;
    const cpu_run run = {batch, ENGINE_RUN_TRAIN, NULL};
    float *own[ENGINE_MAX_PARAMS];
    cpu_team team;
    iter__cpu_team_begin(&team, plan->shared.threads);
    for (int32_t i = 0, n = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        for (int32_t p = 0; p < node->n_params; p++, n++) {
            own[n] = node->params[p].gradient;
            if (node->ops->replace)
                node->ops->replace(node, p, &sums[n]);
            else
                node->params[p].gradient = (float *)(uintptr_t)sums[n].values;
        }
    }
    update(plan, &run);
    for (int32_t i = 0, n = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        for (int32_t p = 0; p < node->n_params; p++, n++) {
            if (node->ops->replace) node->ops->replace(node, p, NULL);
            node->params[p].gradient = own[n];
        }
    }
    iter__cpu_team_end(&team);
    return ITER_OK;
}

/* The node that has the parameter; *which is the parameter's index there. */
static cpu_node *find_param(cpu_plan *plan, int32_t param, int32_t *which) {
    for (int32_t i = 0; i < plan->n_nodes; i++)
        for (int32_t p = 0; p < plan->nodes[i]->n_params; p++)
            if (plan->nodes[i]->params[p].index == param) {
                *which = p;
                return plan->nodes[i];
            }
    assert(false);
    return NULL;
}

static iter_status convert(cpu_plan *plan, int32_t param, iter_value value, cpu_way way,
                           void *canonical, iter_error *err) {
    int32_t which = 0;
    cpu_node *node = find_param(plan, param, &which);
    if (node->ops->convert) {
        cpu_team team;
        iter__cpu_team_begin(&team, plan->shared.threads);
        const iter_status status = node->ops->convert(node, which, value, way, canonical, err);
        iter__cpu_team_end(&team);
        return status;
    }
    float *own = iter__param_at(&node->params[which], value);
    memcpy(way == CPU_OUT ? canonical : own, way == CPU_OUT ? own : canonical,
           (size_t)node->params[which].n_elements * sizeof(float));
    return ITER_OK;
}

/* The first n_rows of [T, batch, F] as dense [n_rows, T, F]. */
static void rows_first(const float *from, int64_t batch, int64_t n_rows, const engine_shape *shape,
                       float *out) {
    const int64_t steps = shape->dims[0], n = shape->dims[1];
    for (int64_t t = 0; t < steps; t++)
        for (int64_t i = 0; i < n_rows; i++)
            memcpy(out + (i * steps + t) * n, from + (t * batch + i) * n,
                   (size_t)n * sizeof(float));
}

/* The data's gradient in the data's own layout. The first place has that layout already, except for
 * sequences whose rows come first. */
static void get_input_gradient(const cpu_plan *plan, float *out) {
    const cpu_place *place = &plan->places[0];
    const engine_net *net = plan->shared.net;
    if (place->shape.n_dims != 2 || iter__net_time_first(net)) {
        memcpy(out, place->gradient, (size_t)place->n_elements * sizeof(float));
        return;
    }
    rows_first(place->gradient, net->batch, net->batch, &place->shape, out);
}

static iter_status cpu_get(void *state, int32_t param, iter_value value, void *out,
                           iter_error *err) {
    cpu_plan *plan = state;
    if (value != ITER_VALUE_INPUT_GRADIENT) return convert(plan, param, value, CPU_OUT, out, err);
    if (!plan->places[0].gradient)
        return iter__engine_fail(err, ITER_EINVAL, "the data's gradient is not kept");
    get_input_gradient(plan, out);
    return ITER_OK;
}

static iter_status cpu_set(void *state, int32_t param, iter_value value, const void *from,
                           iter_error *err) {
    return convert(state, param, value, CPU_IN, (void *)(uintptr_t)from, err);
}

static iter_status cpu_outputs(void *state, int64_t n_rows, void *out, iter_error *err) {
    const cpu_plan *plan = state;
    const cpu_place *place = plan->outputs;
    (void)err;
    if (place->shape.n_dims == 2)
        rows_first(place->values, plan->shared.net->batch, n_rows, &place->shape, out);
    else
        memcpy(out, place->values, (size_t)(n_rows * plan->shared.net->n_outputs) * sizeof(float));
    return ITER_OK;
}

static void cpu_describe(const void *state, engine_backend_info *out) {
    const cpu_plan *plan = state;
    char library[32];
    iter__dnn_text(library, sizeof(library));
    snprintf(out->text, sizeof(out->text), "%s, %s", library, plan->shared.maps->name);
    out->n_bytes = plan->shared.n_bytes;
    out->n_converted = plan->shared.n_converted;
    out->convert_seconds = plan->shared.convert_seconds;
    snprintf(out->convert_text, sizeof(out->convert_text), "%s",
             plan->shared.n_converted ? plan->shared.convert_text : "");
}

/* Joins the texts of all nodes that work on the layer. */
static void cpu_layer_text(const void *state, int32_t layer, char *out, size_t capacity) {
    const cpu_plan *plan = state;
    size_t n = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < plan->n_nodes && n < capacity; i++) {
        const cpu_node *node = plan->nodes[i];
        if (layer < node->first_layer || layer >= node->first_layer + node->n_layers) continue;
        if (!node->ops->text) continue;
        if (n > 0 && n + 2 < capacity) n += (size_t)snprintf(out + n, capacity - n, ", ");
        node->ops->text(node, layer, out + n, capacity - n);
        n += strlen(out + n);
    }
}

const engine_backend_ops iter__backend_cpu = {
    .name = "cpu",
    .help = "oneDNN's convolution, pooling and matrix products, own loops for the rest",
    .real = ITER_F32,
    .state_size = sizeof(cpu_plan),
    .layout = cpu_layout,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .get = cpu_get,
    .set = cpu_set,
    .run = cpu_run_batch,
    .outputs = cpu_outputs,
    .describe = cpu_describe,
    .layer_text = cpu_layer_text,
    .gradients = cpu_gradients,
    .update = cpu_update_from,
};
