/*
 * cpu_sequences.c - layers of sequences: embedding, gru, last-step, mean-steps and flatten.
 *
 * If a gru directly follows an embedding, both are one node: the rows of the table are written
 * where the gru projects them, once per different token, and their gradients come back there. The
 * gru is told if only the last step is read. cpu_gru.h and cpu_embedding.h describe how it
 * computes.
 *
 * A table's gradient has only a few rows, and only these are kept. If the caller asks for all of
 * it, the other rows are zeros. The next run reuses their memory, even in evaluation, so that run
 * first copies them elsewhere. If the loss uses the table's weights, too, every row has a gradient:
 * the loss writes it whole, the tokens' sums are added, and the update is dense.
 */
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_embedding.h"
#include "engine/cpu/cpu_gru.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A node's embedding: its param 0. */
typedef struct table {
    bool time_first;
    bool dense; /* the loss, too, has a gradient for it, in the node's param 0 */
    cpu_embedding *embedding;
    cpu_rows rows;
    const cpu_tokens *tokens; /* of the run */
    /* The gradient of the last run that computed one: row ids[i] is gradient[i * ld]. */
    const int32_t *ids;
    const float *gradient;
    int64_t n, ld;
    int32_t *kept_ids; /* the copies, [tokens] and [tokens, units] */
    float *kept;
} table;

static void table_plan(table *t, cpu_planner *planner, cpu_node *node) {
    const engine_layer *layer = iter__node_layer(node);
    const engine_net *net = node->shared->net;
    const int64_t tokens = net->batch * layer->in.dims[0];
    const int64_t units = layer->options.embedding.units;
    t->time_first = iter__net_time_first(net);
    t->dense = net->layers[net->n_layers - 1].kind == ENGINE_TIED_SOFTMAX;
    iter__plan_param(planner, node, layer->first_param, layer->options.embedding.rows * units,
                     t->dense);
    if (t->dense) return;
    iter__plan_memory(planner, &t->kept_ids, (size_t)tokens * sizeof(*t->kept_ids));
    iter__plan_memory(planner, &t->kept, (size_t)(tokens * units) * sizeof(*t->kept));
}

static iter_status table_ready(table *t, cpu_node *node, iter_error *err) {
    const cpu_shared *shared = node->shared;
    const engine_layer *layer = iter__node_layer(node);
    const iter_embedding_options *o = &layer->options.embedding;
    const cpu_param *param = &node->params[0];
    ENGINE_TRY(iter__cpu_embedding_create(shared->kernels, o->rows, o->units, shared->net->batch,
                                          layer->in.dims[0], shared->threads, &t->embedding, err));
    ENGINE_TRY(iter__cpu_rows_start(&t->rows, shared->kernels, o->rows, o->units, param->weight,
                                    param->moment[0], param->moment[1], shared->threads, err));
    node->shared->n_bytes +=
        iter__cpu_embedding_bytes(t->embedding) + iter__cpu_rows_bytes(&t->rows);
    return ITER_OK;
}

static void table_close(table *t) {
    iter__cpu_rows_stop(&t->rows);
    iter__cpu_embedding_destroy(t->embedding);
}

static void put_by(table *t) {
    const int64_t units = t->rows.units;
    if (t->ids == t->kept_ids || !t->ids) return;
    memcpy(t->kept_ids, t->ids, (size_t)t->n * sizeof(*t->ids));
    for (int64_t i = 0; i < t->n; i++)
        memcpy(t->kept + i * units, t->gradient + i * t->ld, (size_t)units * sizeof(float));
    t->ids = t->kept_ids;
    t->gradient = t->kept;
    t->ld = units;
}

/* Finds the tokens of a run and brings their rows up to date. */
static void table_index(table *t, const cpu_run *run) {
    if (run->what == ENGINE_RUN_FORWARD)
        put_by(t);
    else
        t->ids = NULL;
    t->tokens = iter__cpu_embedding_index(t->embedding, run->batch->data, t->time_first,
                                          run->batch->n_rows);
    iter__cpu_rows_fetch(&t->rows, t->tokens->ids, t->tokens->n_different);
}

static void table_gradient(table *t, cpu_node *node, const float *gradient, int64_t ld) {
    for (int64_t i = 0; t->dense && i < t->tokens->n_different; i++)
        t->rows.kernels->add(t->rows.units, gradient + i * ld,
                             node->params[0].gradient + t->tokens->ids[i] * t->rows.units);
    if (t->dense) return;
    t->ids = t->tokens->ids;
    t->n = t->tokens->n_different;
    t->gradient = gradient;
    t->ld = ld;
}

static void table_update(table *t, cpu_node *node, const cpu_run *run) {
    if (t->dense) {
        iter__node_update(node, &node->params[0], run);
        return;
    }
    const cpu_update update =
        iter__cpu_update(node->shared->optimizer, run->batch->step, run->batch->lr, false);
    iter__cpu_rows_step(&t->rows, &update, t->ids, t->n, t->gradient, t->ld);
}

static void table_describe(const table *t, cpu_node *node, engine_gradient *out) {
    const cpu_param *param = &node->params[0];
    if (t->dense) {
        *out = (engine_gradient){.n = param->n_elements, .values = param->gradient};
        return;
    }
    *out = (engine_gradient){.values = t->gradient,
                             .ids = t->ids,
                             .n_rows = t->ids ? t->n : 0,
                             .units = t->rows.units,
                             .ld = t->ld,
                             .table_rows = t->rows.n_rows,
                             .most = node->shared->net->batch * iter__node_layer(node)->in.dims[0]};
}

/* Rows that only other runs have read must be brought up to date, too. */
static void table_replace(table *t, cpu_node *node, const engine_gradient *sum) {
    t->ids = NULL;
    if (!sum) return;
    if (t->dense) {
        node->params[0].gradient = (float *)(uintptr_t)sum->values;
        return;
    }
    t->ids = sum->ids;
    t->n = sum->n_rows;
    t->gradient = sum->values;
    t->ld = sum->ld;
    iter__cpu_rows_fetch(&t->rows, t->ids, t->n);
}

static void table_convert(table *t, cpu_param *param, iter_value value, cpu_way way,
                          void *canonical) {
    const int64_t units = t->rows.units;
    const size_t bytes = (size_t)param->n_elements * sizeof(float);
    if (value == ITER_VALUE_GRADIENT && !t->dense) {
        memset(canonical, 0, bytes);
        for (int64_t i = 0; t->ids && i < t->n; i++)
            memcpy((float *)canonical + t->ids[i] * units, t->gradient + i * t->ld,
                   (size_t)units * sizeof(float));
        return;
    }
    iter__cpu_rows_settle(&t->rows);
    float *own = iter__param_at(param, value);
    memcpy(way == CPU_OUT ? canonical : own, way == CPU_OUT ? own : canonical, bytes);
}

/* ---- Embedding by itself --------------------------------------------------------------------- */

typedef struct embedding_node {
    cpu_node node;
    table table;
    float *sums; /* [tokens, units] gradients of different tokens */
} embedding_node;

static iter_status embedding_ready(cpu_node *node, iter_error *err) {
    return table_ready(&((embedding_node *)node)->table, node, err);
}

static iter_status embedding_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)err;
    table *t = &((embedding_node *)node)->table;
    table_index(t, run);
    iter__cpu_embedding_forward(t->embedding, node->params[0].weight, node->out->values);
    return ITER_OK;
}

static iter_status embedding_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run, (void)err;
    embedding_node *e = (embedding_node *)node;
    iter__cpu_embedding_backward(e->table.embedding, node->out->gradient, e->sums);
    table_gradient(&e->table, node, e->sums, e->table.rows.units);
    return ITER_OK;
}

static void embedding_update(cpu_node *node, const cpu_run *run) {
    table_update(&((embedding_node *)node)->table, node, run);
}

static iter_status embedding_convert(cpu_node *node, int32_t param, iter_value value, cpu_way way,
                                     void *canonical, iter_error *err) {
    (void)err;
    table_convert(&((embedding_node *)node)->table, &node->params[param], value, way, canonical);
    return ITER_OK;
}

static void embedding_describe(cpu_node *node, int32_t param, engine_gradient *out) {
    (void)param;
    table_describe(&((embedding_node *)node)->table, node, out);
}

static void embedding_replace(cpu_node *node, int32_t param, const engine_gradient *sum) {
    (void)param;
    table_replace(&((embedding_node *)node)->table, node, sum);
}

static void embedding_text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    (void)layer;
    snprintf(out, capacity, "%s, rows as they are read", node->shared->kernels->name);
}

static void embedding_close(cpu_node *node) {
    table_close(&((embedding_node *)node)->table);
}

static const cpu_node_ops embedding_ops = {
    .ready = embedding_ready,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .update = embedding_update,
    .describe = embedding_describe,
    .replace = embedding_replace,
    .convert = embedding_convert,
    .text = embedding_text,
    .close = embedding_close,
};

iter_status iter__node_embedding(cpu_planner *planner, int32_t first, cpu_place *in,
                                 cpu_place **out, int32_t *n_layers, iter_error *err) {
    const engine_layer *layer = &iter__plan_shared(planner)->net->layers[first];
    cpu_node *node;
    if (layer[1].kind == ENGINE_GRU) return iter__node_gru(planner, first, in, out, n_layers, err);
    *n_layers = 1;
    *out = iter__cpu_place_new(planner, in, &layer->out, CPU_ORDER_NCHW);
    ENGINE_TRY(iter__plan_node(planner, sizeof(embedding_node), &embedding_ops, first, 1, in, *out,
                               &node, err));
    embedding_node *e = (embedding_node *)node;
    table_plan(&e->table, planner, node);
    iter__plan_memory(planner, &e->sums, (size_t)(*out)->n_elements * sizeof(float));
    return ITER_OK;
}

/* ---- Recurrence ------------------------------------------------------------------------------ */

typedef struct gru_node {
    cpu_node node;
    const engine_layer *layer;
    bool has_table, only_last;
    int32_t first_param; /* first of the gru's own parameters */
    table table;
    const cpu_tokens *tokens; /* of the run */
    cpu_gru *gru;
} gru_node;

static cpu_gru_params params_of(const gru_node *g, iter_value value) {
    const cpu_param *p = g->node.params + g->first_param;
    return (cpu_gru_params){iter__param_at(p, value), iter__param_at(p + 1, value),
                            iter__param_at(p + 2, value), iter__param_at(p + 3, value)};
}

static iter_status gru_ready(cpu_node *node, iter_error *err) {
    gru_node *g = (gru_node *)node;
    const cpu_shared *shared = node->shared;
    const cpu_gru_config config = {
        .kernels = shared->kernels,
        .batch = shared->net->batch,
        .steps = g->layer->in.dims[0],
        .features = g->layer->in.dims[1],
        .units = g->layer->options.gru.units,
        .reset_before = g->layer->options.gru.reset == ITER_GRU_RESET_BEFORE,
        .segments = g->layer->options.gru.segments,
        .only_last = g->only_last,
        .input_gradient = g->has_table || node->in->wants,
        .threads = shared->threads,
    };
    if (g->has_table) ENGINE_TRY(table_ready(&g->table, node, err));
    ENGINE_TRY(iter__cpu_gru_create(&config, &g->gru, err));
    node->shared->n_bytes += iter__cpu_gru_bytes(g->gru);
    return ITER_OK;
}

static iter_status gru_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    gru_node *g = (gru_node *)node;
    const cpu_gru_params weights = params_of(g, ITER_VALUE_WEIGHT);
    if (g->layer->options.gru.segments)
        iter__cpu_gru_segments(g->gru, run->batch->segments, run->batch->n_rows);
    if (g->has_table) {
        int64_t ld;
        table_index(&g->table, run);
        float *rows = iter__cpu_gru_table(g->gru, &ld);
        iter__cpu_embedding_gather(g->table.embedding, node->params[0].weight, rows, ld);
        g->tokens = g->table.tokens;
    } else {
        g->tokens = iter__cpu_gru_fill(g->gru, node->in->values);
    }
    return iter__cpu_gru_forward(g->gru, &weights, g->tokens, node->out->values, err);
}

static iter_status gru_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run;
    gru_node *g = (gru_node *)node;
    const cpu_gru_params gradients = params_of(g, ITER_VALUE_GRADIENT);
    ENGINE_TRY(iter__cpu_gru_backward(g->gru, g->tokens, node->out->gradient, &gradients, err));
    if (g->has_table) {
        int64_t ld;
        const float *rows = iter__cpu_gru_table(g->gru, &ld);
        table_gradient(&g->table, node, rows, ld);
    } else if (node->in->gradient) {
        iter__cpu_gru_unfill(g->gru, node->in->gradient);
    }
    return ITER_OK;
}

static void gru_update(cpu_node *node, const cpu_run *run) {
    gru_node *g = (gru_node *)node;
    if (g->has_table) table_update(&g->table, node, run);
    for (int32_t i = g->first_param; i < node->n_params; i++)
        iter__node_update(node, &node->params[i], run);
}

static iter_status gru_convert(cpu_node *node, int32_t param, iter_value value, cpu_way way,
                               void *canonical, iter_error *err) {
    (void)err;
    gru_node *g = (gru_node *)node;
    cpu_param *p = &node->params[param];
    if (g->has_table && param == 0) {
        table_convert(&g->table, p, value, way, canonical);
        return ITER_OK;
    }
    float *own = iter__param_at(p, value);
    memcpy(way == CPU_OUT ? canonical : own, way == CPU_OUT ? own : canonical,
           (size_t)p->n_elements * sizeof(float));
    return ITER_OK;
}

static void gru_describe(cpu_node *node, int32_t param, engine_gradient *out) {
    gru_node *g = (gru_node *)node;
    const cpu_param *p = &node->params[param];
    if (g->has_table && param == 0)
        table_describe(&g->table, node, out);
    else
        *out = (engine_gradient){.n = p->n_elements, .values = p->gradient};
}

static void gru_replace(cpu_node *node, int32_t param, const engine_gradient *sum) {
    gru_node *g = (gru_node *)node;
    if (g->has_table && param == 0)
        table_replace(&g->table, node, sum);
    else if (sum)
        node->params[param].gradient = (float *)(uintptr_t)sum->values;
}

static void gru_text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    const gru_node *g = (const gru_node *)node;
    const engine_layer *that = &node->shared->net->layers[layer];
    if (that->kind == ENGINE_GRU)
        snprintf(out, capacity, "sgemm, gates %s%s", node->shared->kernels->name,
                 g->has_table ? ", each token projected once" : "");
    else
        snprintf(out, capacity, "in one pass with %s", g->layer->name);
}

static void gru_close(cpu_node *node) {
    gru_node *g = (gru_node *)node;
    iter__cpu_gru_destroy(g->gru);
    if (g->has_table) table_close(&g->table);
}

static const cpu_node_ops gru_ops = {
    .ready = gru_ready,
    .forward = gru_forward,
    .backward = gru_backward,
    .update = gru_update,
    .describe = gru_describe,
    .replace = gru_replace,
    .convert = gru_convert,
    .text = gru_text,
    .close = gru_close,
};

iter_status iter__node_gru(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                           int32_t *n_layers, iter_error *err) {
    const engine_net *net = iter__plan_shared(planner)->net;
    const bool has_table = net->layers[first].kind == ENGINE_EMBEDDING;
    const engine_layer *layer = &net->layers[first + has_table];
    const bool only_last = layer[1].kind == ENGINE_LAST_STEP;
    cpu_node *node;
    *n_layers = 1 + has_table + only_last;
    *out =
        iter__cpu_place_new(planner, in, only_last ? &layer[1].out : &layer->out, CPU_ORDER_NCHW);
    ENGINE_TRY(iter__plan_node(planner, sizeof(gru_node), &gru_ops, first, *n_layers, in, *out,
                               &node, err));
    gru_node *g = (gru_node *)node;
    g->layer = layer;
    g->has_table = has_table;
    g->only_last = only_last;
    if (has_table) table_plan(&g->table, planner, node);
    g->first_param = node->n_params;
    for (int32_t i = 0; i < layer->n_params; i++)
        iter__plan_param(planner, node, layer->first_param + i,
                         net->params[layer->first_param + i].n_elements, true);
    return ITER_OK;
}

/* ---- Steps to one row ------------------------------------------------------------------------ */

/* The rows of one thread through all steps. */
typedef struct steps_part {
    int64_t steps, rows, n; /* of the sequence, [steps, rows, n] */
    int64_t from, to;       /* rows */
} steps_part;

static steps_part part_of(const cpu_node *node, uint32_t t, uint32_t threads) {
    const engine_shape *in = &node->in->shape;
    const int64_t rows = node->shared->net->batch;
    return (steps_part){in->dims[0], rows, in->dims[1], iter__cpu_part(rows, t, threads),
                        iter__cpu_part(rows, t + 1, threads)};
}

static void steps_forward_part(void *user, uint32_t t, uint32_t threads) {
    const cpu_node *node = user;
    const steps_part p = part_of(node, t, threads);
    const bool mean = iter__node_layer(node)->kind == ENGINE_MEAN_STEPS;
    const int64_t step = p.rows * p.n, n = (p.to - p.from) * p.n;
    const float *x = node->in->values + p.from * p.n;
    float *y = node->out->values + p.from * p.n;
    memcpy(y, x + (p.steps - 1) * step, (size_t)n * sizeof(float));
    for (int64_t s = 0; mean && s < p.steps - 1; s++)
        node->shared->kernels->add(n, x + s * step, y);
    for (int64_t i = 0; mean && i < n; i++)
        y[i] /= (float)p.steps;
}

static void steps_backward_part(void *user, uint32_t t, uint32_t threads) {
    const cpu_node *node = user;
    const steps_part p = part_of(node, t, threads);
    const bool mean = iter__node_layer(node)->kind == ENGINE_MEAN_STEPS;
    const int64_t step = p.rows * p.n, n = (p.to - p.from) * p.n;
    const float *dy = node->out->gradient + p.from * p.n;
    float *last = node->in->gradient + (p.steps - 1) * step + p.from * p.n;
    for (int64_t i = 0; i < n; i++)
        last[i] = mean ? dy[i] / (float)p.steps : dy[i];
    for (int64_t s = 0; s < p.steps - 1; s++) {
        float *dx = node->in->gradient + s * step + p.from * p.n;
        if (mean)
            memcpy(dx, last, (size_t)n * sizeof(float));
        else
            memset(dx, 0, (size_t)n * sizeof(float));
    }
}

typedef struct flatten_work {
    const cpu_node *node;
    bool back;
} flatten_work;

/* [steps, rows, n] to [rows, steps, n], or back. */
static void flatten_part(void *user, uint32_t t, uint32_t parts) {
    const flatten_work *w = user;
    const cpu_place *in = w->node->in, *out = w->node->out;
    const steps_part p = part_of(w->node, t, parts);
    float *by_step = w->back ? in->gradient : in->values;
    float *by_row = w->back ? out->gradient : out->values;
    for (int64_t i = p.from; i < p.to; i++)
        for (int64_t s = 0; s < p.steps; s++) {
            float *a = by_step + (s * p.rows + i) * p.n, *b = by_row + (i * p.steps + s) * p.n;
            memcpy(w->back ? a : b, w->back ? b : a, (size_t)p.n * sizeof(float));
        }
}

static void run_steps(cpu_node *node, bool back) {
    const uint32_t parts = iter__cpu_worth(node->in->n_elements, node->shared->threads);
    if (iter__node_layer(node)->kind == ENGINE_FLATTEN) {
        flatten_work work = {node, back};
        iter__cpu_parallel(parts, flatten_part, &work);
    } else {
        iter__cpu_parallel(parts, back ? steps_backward_part : steps_forward_part, node);
    }
}

static iter_status steps_forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run, (void)err;
    run_steps(node, false);
    return ITER_OK;
}

static iter_status steps_backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)run, (void)err;
    if (node->in->gradient) run_steps(node, true);
    return ITER_OK;
}

static const cpu_node_ops steps_ops = {.forward = steps_forward, .backward = steps_backward};

iter_status iter__node_steps(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                             int32_t *n_layers, iter_error *err) {
    const engine_layer *layer = &iter__plan_shared(planner)->net->layers[first];
    cpu_node *node;
    *n_layers = 1;
    *out = iter__cpu_place_new(planner, in, &layer->out, CPU_ORDER_NCHW);
    return iter__plan_node(planner, sizeof(cpu_node), &steps_ops, first, 1, in, *out, &node, err);
}
