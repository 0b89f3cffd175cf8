/*
 * cpu_plan.c - from a net to nodes, places and one piece of memory.
 *
 * Layers become nodes in order. While planning, memory is only counted: each request says where its
 * address must be stored. When everything is counted, one arena is allocated and divided. A
 * gradient of a place is needed only from the node after it to the node before it, so all of them
 * alternate between two buffers.
 */
#include "engine/cpu/cpu_plan.h"

#include <assert.h>
#include <string.h>

#include <iter/convert.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define ALIGNMENT 64
#define MAX_WANTS (8 * (CPU_MAX_NODES + CPU_MAX_PLACES))

typedef struct want {
    void *where; /* address of the pointer to set */
    size_t bytes;
} want;

struct cpu_planner {
    cpu_plan *plan;
    int32_t n_wants;
    want wants[MAX_WANTS];
    size_t scratch_bytes;
    size_t turn_bytes[2];
};

static cpu_make *const makers[ENGINE_N_KINDS] = {
    [ENGINE_CONV2D] = iter__node_conv,
    [ENGINE_MAXPOOL] = iter__node_pool,
    [ENGINE_AVGPOOL] = iter__node_pool,
    [ENGINE_RELU] = iter__node_elementwise,
    [ENGINE_TANH] = iter__node_elementwise,
    [ENGINE_SIGMOID] = iter__node_elementwise,
    [ENGINE_DROPOUT] = iter__node_elementwise,
    [ENGINE_FLATTEN] = iter__node_flatten,
    [ENGINE_DENSE] = iter__node_dense,
    [ENGINE_EMBEDDING] = iter__node_embedding,
    [ENGINE_GRU] = iter__node_gru,
    [ENGINE_LAST_STEP] = iter__node_steps,
    [ENGINE_MEAN_STEPS] = iter__node_steps,
    [ENGINE_TIED_SOFTMAX] = iter__node_tied,
};

/* ---- For nodes ------------------------------------------------------------------------------- */

void iter__plan_memory(cpu_planner *planner, void *where, size_t bytes) {
    assert(planner->n_wants < MAX_WANTS);
    if (bytes > 0) planner->wants[planner->n_wants++] = (want){where, bytes};
}

void iter__plan_scratch(cpu_planner *planner, size_t bytes) {
    if (bytes > planner->scratch_bytes) planner->scratch_bytes = bytes;
}

cpu_shared *iter__plan_shared(const cpu_planner *planner) {
    return &planner->plan->shared;
}

const cpu_node *iter__plan_first(const cpu_planner *planner) {
    return planner->plan->n_nodes > 0 ? planner->plan->nodes[0] : NULL;
}

bool iter__plan_is_data(const cpu_planner *planner, const cpu_place *place) {
    return place == planner->plan->places || place->alias == planner->plan->places;
}

static cpu_place *add_place(cpu_planner *planner, const engine_shape *shape, cpu_order order) {
    cpu_plan *plan = planner->plan;
    assert(plan->n_places < CPU_MAX_PLACES);
    cpu_place *place = &plan->places[plan->n_places++];
    const int64_t batch = plan->shared.net->batch;
    place->shape = *shape;
    place->image = (cpu_image){.n = batch, .order = CPU_ORDER_NCHW};
    place->n_elements = batch * iter__shape_elements(shape);
    if (shape->n_dims != 3) return place;
    place->image = (cpu_image){batch, shape->dims[0], shape->dims[1], shape->dims[2], order};
    place->n_elements = iter__image_elements(&place->image);
    return place;
}

cpu_place *iter__cpu_place_new(cpu_planner *planner, const cpu_place *in, const engine_shape *shape,
                               cpu_order order) {
    cpu_place *place = add_place(planner, shape, order);
    place->wants = in->wants;
    place->turn = !in->turn;
    iter__plan_memory(planner, &place->values, (size_t)place->n_elements * sizeof(float));
    return place;
}

cpu_place *iter__plan_alias(cpu_planner *planner, cpu_place *in, const engine_shape *shape) {
    cpu_place *place = add_place(planner, shape, CPU_ORDER_NCHW);
    assert(place->n_elements == in->n_elements);
    place->wants = in->wants;
    place->kept = in->kept;
    place->turn = in->turn;
    place->alias = in->alias ? in->alias : in;
    return place;
}

iter_status iter__plan_node(cpu_planner *planner, size_t bytes, const cpu_node_ops *ops,
                            int32_t first_layer, int32_t n_layers, cpu_place *in, cpu_place *out,
                            cpu_node **node, iter_error *err) {
    cpu_plan *plan = planner->plan;
    *node = iter__engine_alloc(1, bytes);
    if (!*node) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    **node = (cpu_node){.ops = ops,
                        .shared = &plan->shared,
                        .first_layer = first_layer,
                        .n_layers = n_layers,
                        .in = in,
                        .out = out};
    assert(plan->n_nodes < CPU_MAX_NODES);
    plan->nodes[plan->n_nodes++] = *node;
    plan->shared.n_bytes += bytes;
    return ITER_OK;
}

void iter__plan_param(cpu_planner *planner, cpu_node *node, int32_t index, int64_t n_elements,
                      bool gradient) {
    const int32_t n_moments = iter__optimizer_n_moments(planner->plan->shared.optimizer);
    const size_t bytes = (size_t)n_elements * sizeof(float);
    assert(node->n_params < CPU_NODE_PARAMS);
    cpu_param *param = &node->params[node->n_params++];
    *param = (cpu_param){.index = index, .n_elements = n_elements};
    iter__plan_memory(planner, &param->weight, bytes);
    if (gradient) iter__plan_memory(planner, &param->gradient, bytes);
    for (int32_t i = 0; i < n_moments; i++)
        iter__plan_memory(planner, &param->moment[i], bytes);
    node->out->wants = true;
}

void iter__node_update(cpu_node *node, cpu_param *param, const cpu_run *run) {
    const cpu_shared *shared = node->shared;
    const cpu_update update = iter__cpu_update(shared->optimizer, run->batch->step, run->batch->lr,
                                               shared->net->params[param->index].bias);
    iter__cpu_update_run(shared->kernels, &update, param->n_elements, param->weight,
                         param->gradient, param->moment[0], param->moment[1], shared->threads);
}

float *iter__param_at(const cpu_param *param, iter_value value) {
    switch (value) {
    case ITER_VALUE_WEIGHT: return param->weight;
    case ITER_VALUE_GRADIENT: return param->gradient;
    case ITER_VALUE_MOMENT: return param->moment[0];
    case ITER_VALUE_MOMENT2: return param->moment[1];
    default: return NULL;
    }
}

/* ---- The plan -------------------------------------------------------------------------------- */

static iter_status make_nodes(cpu_planner *planner, bool keep_input_gradient, iter_error *err) {
    cpu_plan *plan = planner->plan;
    const engine_net *net = plan->shared.net;
    const cpu_order order = iter__net_channels_last(net) ? CPU_ORDER_NHWC : CPU_ORDER_NCHW;
    cpu_place *place = add_place(planner, &net->input, order);
    place->kept = true;
    place->wants = keep_input_gradient && !net->input.ids;
    const int32_t last = net->n_layers - 1;
    for (int32_t i = 0, n = 0; i <= last; i += n) {
        cpu_make *make = makers[net->layers[i].kind];
        if (i == last && !make) break; /* iter__cpu_loss() computes it */
        if (!make)
            return iter__engine_fail(err, ITER_EUNSUPPORTED, "%s: the backend cpu lacks this layer",
                                     net->layers[i].name);
        const iter_status status = make(planner, i, place, &place, &n, err);
        if (status < 0) return iter__engine_fail_in(err, status, "%s", net->layers[i].name);
    }
    plan->outputs = place;
    return ITER_OK;
}

/* Requests the plan's own memory. */
static void want_own(cpu_planner *planner) {
    cpu_plan *plan = planner->plan;
    const engine_net *net = plan->shared.net;
    if (!net->input.ids)
        iter__plan_memory(planner, &plan->staging,
                          (size_t)plan->places[0].n_elements * sizeof(float));
    iter__plan_memory(planner, &plan->row_losses, (size_t)net->batch * sizeof(double));
    for (int32_t i = 0; i < plan->n_places; i++) {
        const cpu_place *place = &plan->places[i];
        const size_t bytes = (size_t)place->n_elements * sizeof(float);
        size_t *most = &planner->turn_bytes[place->turn];
        /* The data's gradient is for the caller, and has its own memory. */
        if (place->wants && place != plan->places && bytes > *most) *most = bytes;
    }
}

static iter_status take_memory(cpu_planner *planner, iter_error *err) {
    cpu_plan *plan = planner->plan;
    void *turns[2] = {NULL, NULL};
    iter__plan_memory(planner, &turns[0], planner->turn_bytes[0]);
    iter__plan_memory(planner, &turns[1], planner->turn_bytes[1]);
    iter__plan_memory(planner, &plan->shared.scratch, planner->scratch_bytes);
    if (plan->places[0].wants)
        iter__plan_memory(planner, &plan->places[0].gradient,
                          (size_t)plan->places[0].n_elements * sizeof(float));
    size_t total = 0;
    for (int32_t i = 0; i < planner->n_wants; i++)
        total += (planner->wants[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    plan->arena = iter__engine_alloc(total, 1);
    if (!plan->arena)
        return iter__engine_fail(err, ITER_ENOMEM, "no memory for %zu bytes of values and weights",
                                 total);
    char *at = plan->arena;
    for (int32_t i = 0; i < planner->n_wants; i++) {
        memcpy(planner->wants[i].where, &at, sizeof(at));
        at += (planner->wants[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (int32_t i = 1; i < plan->n_places; i++) {
        cpu_place *place = &plan->places[i];
        if (place->alias) place->values = place->alias->values;
        if (place->alias && place->alias == plan->places)
            place->gradient = plan->places[0].gradient;
        else if (place->wants)
            place->gradient = turns[place->turn];
    }
    plan->shared.n_bytes += total;
    return ITER_OK;
}

static iter_status make(cpu_planner *planner, const engine_backend_config *config,
                        iter_error *err) {
    cpu_plan *plan = planner->plan;
    ENGINE_TRY(iter__dnn_open(&plan->shared.dnn, err));
    ENGINE_TRY(make_nodes(planner, config->keep_input_gradient, err));
    want_own(planner);
    ENGINE_TRY(take_memory(planner, err));
    for (int32_t i = 0; i < plan->n_nodes; i++) {
        cpu_node *node = plan->nodes[i];
        if (node->ops->ready) ENGINE_TRY(node->ops->ready(node, err));
    }
    return ITER_OK;
}

iter_status iter__cpu_plan_make(cpu_plan *plan, const engine_backend_config *config,
                                iter_error *err) {
    plan->shared.net = config->net;
    plan->shared.optimizer = config->optimizer;
    plan->shared.threads = config->threads;
    plan->shared.kernels = iter__cpu_kernels(iter_cpu_level());
    plan->shared.maps = iter__cpu_maps(iter_cpu_level());
    plan->shared.n_bytes = sizeof(*plan);
    cpu_planner *planner = iter__engine_alloc(1, sizeof(*planner));
    if (!planner) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    planner->plan = plan;
    const iter_status status = make(planner, config, err);
    iter__engine_free(planner);
    if (status < 0) iter__cpu_plan_drop(plan);
    return status;
}

void iter__cpu_plan_drop(cpu_plan *plan) {
    for (int32_t i = plan->n_nodes; i > 0; i--) {
        cpu_node *node = plan->nodes[i - 1];
        if (node->ops->close) node->ops->close(node);
        iter__engine_free(node);
    }
    iter__dnn_close(plan->shared.dnn);
    iter__engine_free(plan->arena);
    memset(plan, 0, sizeof(*plan));
}
