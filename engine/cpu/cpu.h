/*
 * cpu.h - the nodes that the cpu backend's plan is made of.
 *
 * A plan is a list of nodes; a node computes one layer of the net, or several that run in one pass.
 * Between two nodes lies a place: values, and while gradients flow back, the gradient of the values.
 * In memory, of a whole batch:
 *
 *     image     [N, C, H, W] in the order that the place says
 *     sequence  [T, N, F]
 *     features  [N, F]
 *
 * Memory is asked for while planning and taken in one piece before the first step. Values and weights
 * live for ever; gradients of places lie in two buffers that take turns; one buffer is scratch for
 * whoever computes. Rows beyond those of a short batch are computed like the others, from zeros or
 * from what an earlier batch left there, and their gradient is zero.
 *
 * What only one kind of layer needs (the GRU, tables of embeddings, the optimiser's rules) stands in
 * files with headers of their own, which know nothing of plans.
 */
#ifndef ENGINE_CPU_H
#define ENGINE_CPU_H

#include "engine/backend.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/cpu/cpu_maps.h"
#include "engine/cpu/onednn.h"

typedef struct cpu_place cpu_place;
struct cpu_place {
    engine_shape shape; /* of one row */
    cpu_image image;    /* where shape has 3 dims; else n alone, order NCHW */
    int64_t n_elements; /* floats of the batch, padding included */
    float *values;
    float *gradient; /* NULL where none is wanted */
    bool wants;      /* a gradient: a layer before has parameters, or the caller asks for it */
    bool kept;       /* who made the values, or the caller, relies on them: not to be overwritten */
    int32_t turn;    /* which buffer the gradient lies in */
    cpu_place *alias; /* the same memory under another shape; NULL = its own */
};

/* A parameter in the order that its node likes. What pads it is zero, and stays so. */
typedef struct cpu_param {
    int32_t index;      /* of net->params */
    int64_t n_elements; /* floats in memory */
    float *weight, *gradient, *moment[2];
} cpu_param;

/* What all nodes of a plan use. */
typedef struct cpu_shared {
    const engine_net *net;
    const engine_optimizer *optimizer;
    uint32_t threads;
    const cpu_kernels *kernels;
    const cpu_maps *maps;
    cpu_dnn *dnn;
    void *scratch;
    uint64_t n_bytes;     /* of memory, nodes' own included */
    uint64_t n_converted; /* batches whose data came otherwise than the first layer wants it */
    double convert_seconds;
    char convert_text[96];
} cpu_shared;

typedef struct cpu_run {
    const engine_batch *batch;
    engine_run what;
    engine_outcome *out;
} cpu_run;

/* Where a value of a parameter goes to or comes from. */
typedef enum cpu_way { CPU_OUT, CPU_IN } cpu_way;

typedef struct cpu_node cpu_node;

typedef struct cpu_node_ops {
    /* Once, when the memory is there. What it takes itself is added to shared->n_bytes. NULL = nothing
     * to do. */
    iter_status (*ready)(cpu_node *node, iter_error *err);
    iter_status (*forward)(cpu_node *node, const cpu_run *run, iter_error *err);
    /* From the gradient of out: gradients of the parameters, and where in wants one, of in. */
    iter_status (*backward)(cpu_node *node, const cpu_run *run, iter_error *err);
    /* After backward(): whether this batch may be learnt from. NULL = yes. */
    bool (*sound)(const cpu_node *node);
    /* NULL = the optimiser's dense pass over every parameter. */
    void (*update)(cpu_node *node, const cpu_run *run);
    /* Between memory and the canonical form; NULL = they are the same. */
    iter_status (*convert)(cpu_node *node, int32_t param, iter_value value, cpu_way way,
                           void *canonical, iter_error *err);
    /* What computes layer i, one of the node's. NULL = nothing to say. */
    void (*text)(const cpu_node *node, int32_t layer, char *out, size_t capacity);
    void (*close)(cpu_node *node); /* before the node is freed, also where ready() failed or was
                                    * not called; NULL = nothing to do */
} cpu_node_ops;

#define CPU_NODE_PARAMS 8

/* The beginning of every node's own struct. */
struct cpu_node {
    const cpu_node_ops *ops;
    cpu_shared *shared;
    int32_t first_layer, n_layers;
    cpu_place *in, *out; /* one place where the node works in place */
    int32_t n_params;
    cpu_param params[CPU_NODE_PARAMS];
};

static inline const engine_layer *iter__node_layer(const cpu_node *node) {
    return &node->shared->net->layers[node->first_layer];
}

/* ---- Planning -------------------------------------------------------------------------------- */

typedef struct cpu_planner cpu_planner;

/* Memory for the plan's life, zeroed, 64-byte aligned: *where is set when all is planned. */
void iter__plan_memory(cpu_planner *planner, void *where, size_t bytes);
/* Scratch is at least that large. */
void iter__plan_scratch(cpu_planner *planner, size_t bytes);

/* A new place of that shape behind `in`: of images in an order, ANY as far as order does not
 * matter. */
cpu_place *iter__cpu_place_new(cpu_planner *planner, const cpu_place *in, const engine_shape *shape,
                               cpu_order order);
/* The memory of `in` under another shape. */
cpu_place *iter__plan_alias(cpu_planner *planner, cpu_place *in, const engine_shape *shape);

/* Appends a node of `bytes` for the layers from first on; it works from in to out, and belongs to
 * the plan, which calls ops->close when ops is set. Errors: ENOMEM. */
iter_status iter__plan_node(cpu_planner *planner, size_t bytes, const cpu_node_ops *ops,
                            int32_t first_layer, int32_t n_layers, cpu_place *in, cpu_place *out,
                            cpu_node **node, iter_error *err);
/* The node's next parameter, net->params[index]: memory for weights and moments, and with `gradient`
 * for that. */
void iter__plan_param(cpu_planner *planner, cpu_node *node, int32_t index, int64_t n_elements,
                      bool gradient);
/* True for the place of the data. */
bool iter__plan_is_data(const cpu_planner *planner, const cpu_place *place);
cpu_shared *iter__plan_shared(const cpu_planner *planner);

/* One for each kind of layer: appends what computes layer `first` from `in`, and perhaps layers that
 * follow; *n_layers says how many, *out where their values are. */
typedef iter_status cpu_make(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                             int32_t *n_layers, iter_error *err);

cpu_make iter__node_conv, iter__node_pool, iter__node_flatten;   /* cpu_images.c */
cpu_make iter__node_elementwise;                                 /* cpu_elementwise.c */
cpu_make iter__node_dense;                                       /* cpu_dense.c */
cpu_make iter__node_embedding, iter__node_gru, iter__node_steps; /* cpu_sequences.c */

/* The optimiser's dense pass over a parameter. */
void iter__node_update(cpu_node *node, cpu_param *param, const cpu_run *run);
/* Where a value of a parameter lies; NULL where it is not kept. */
float *iter__param_at(const cpu_param *param, iter_value value);

/* ---- The two ends ---------------------------------------------------------------------------- */

/* The data of a run as the first place has it: the batch's own memory where it can be taken as it is,
 * else a copy in `staging` [place elements]. */
const float *iter__cpu_input(cpu_shared *shared, const cpu_place *place, const engine_batch *batch,
                             float *staging);

/* Loss and correct answers of the run over outputs [rows, n]; where gradient is not NULL the loss's
 * gradient [net->batch, n]. `rows` [net->batch] is scratch. */
void iter__cpu_loss(const cpu_shared *shared, const cpu_run *run, const float *outputs,
                    float *gradient, double *rows);

#endif
