/*
 * cpu.h - the nodes of the cpu backend's plan.
 *
 * A plan is a list of nodes. A node computes one layer of the net, or several in one pass. Between
 * two nodes is a place: values and, during the backward pass, their gradient. In memory, for a
 * whole batch:
 *
 *     image     [N, C, H, W] in the order that the place names
 *     sequence  [T, N, F]
 *     features  [N, F]
 *
 * Nodes request memory while planning; all of it is allocated in one piece before the first step.
 * Values and weights keep their memory for ever. Gradients of places alternate between two buffers,
 * and one buffer is scratch for the node that is running. Rows beyond those of a short batch are
 * computed like the others, from zeros or from what an earlier batch left there; their gradient is
 * zero.
 *
 * What only one kind of layer needs (the GRU, tables of embeddings, the optimiser's rules) is in
 * files with headers of their own, which do not depend on plans.
 */
#ifndef ENGINE_CPU_H
#define ENGINE_CPU_H

#include "engine/backend.h"
#include "engine/cpu/kernels/cpu_kernels.h"
#include "engine/cpu/kernels/cpu_maps.h"
#include "engine/cpu/onednn.h"

typedef struct cpu_place cpu_place;
struct cpu_place {
    engine_shape shape; /* of one row */
    cpu_image image;    /* used if shape has 3 dims; else only n, and order is NCHW */
    int64_t n_elements; /* floats of the batch, padding included */
    float *values;
    float *gradient; /* NULL if not needed */
    /* The gradient is needed: an earlier layer has parameters, or the caller asked for it. */
    bool wants;
    /* The values must not be overwritten: the node that made them, or the caller, still reads
     * them. */
    bool kept;
    int32_t turn;     /* the buffer that holds the gradient */
    cpu_place *alias; /* owner of the same memory under another shape; NULL = owns its memory */
};

/* A parameter in the order that its node prefers. Its padding is zero and stays zero. */
typedef struct cpu_param {
    int32_t index;      /* index in net->params */
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
    uint64_t n_bytes; /* memory, including what nodes allocate */
    /* Batches whose data did not come in the form that the first layer wants. */
    uint64_t n_converted;
    double convert_seconds;
    char convert_text[96];
} cpu_shared;

typedef struct cpu_run {
    const engine_batch *batch;
    engine_run what;
    engine_outcome *out;
} cpu_run;

/* Direction in which a parameter's value is converted. */
typedef enum cpu_way { CPU_OUT, CPU_IN } cpu_way;

typedef struct cpu_node cpu_node;

typedef struct cpu_node_ops {
    /* Called once, when the memory exists. Memory that it allocates itself is added to
     * shared->n_bytes. NULL = nothing to do. */
    iter_status (*ready)(cpu_node *node, iter_error *err);
    iter_status (*forward)(cpu_node *node, const cpu_run *run, iter_error *err);
    /* From the gradient of out: gradients of the parameters and, if in wants one, of in. */
    iter_status (*backward)(cpu_node *node, const cpu_run *run, iter_error *err);
    /* Called after backward(): returns whether the update may use this batch. NULL = always. */
    bool (*sound)(const cpu_node *node);
    /* NULL = the optimiser's dense pass over every parameter. */
    void (*update)(cpu_node *node, const cpu_run *run);
    /* Describes the gradient of a parameter, or makes the next update use that one instead of the
     * node's own; sum = NULL: gives it up. NULL = dense, in the parameter's own form. */
    void (*describe)(cpu_node *node, int32_t param, engine_gradient *out);
    void (*replace)(cpu_node *node, int32_t param, const engine_gradient *sum);
    /* Converts between memory and the canonical form; NULL = they are the same. */
    iter_status (*convert)(cpu_node *node, int32_t param, iter_value value, cpu_way way,
                           void *canonical, iter_error *err);
    /* Writes what computes layer i, one of the node's. NULL = nothing to say. */
    void (*text)(const cpu_node *node, int32_t layer, char *out, size_t capacity);
    /* Called before the node is freed, even if ready() failed or was not called. NULL = nothing to
     * do. */
    void (*close)(cpu_node *node);
} cpu_node_ops;

#define CPU_NODE_PARAMS 8

/* The first member of every node's own struct. */
struct cpu_node {
    const cpu_node_ops *ops;
    cpu_shared *shared;
    int32_t first_layer, n_layers;
    cpu_place *in, *out; /* the same place if the node works in place */
    int32_t n_params;
    cpu_param params[CPU_NODE_PARAMS];
};

static inline const engine_layer *iter__node_layer(const cpu_node *node) {
    return &node->shared->net->layers[node->first_layer];
}

/* ---- Planning -------------------------------------------------------------------------------- */

typedef struct cpu_planner cpu_planner;

/* Requests memory for the plan's life, zeroed, 64-byte aligned. *where is set after planning. */
void iter__plan_memory(cpu_planner *planner, void *where, size_t bytes);
/* Makes scratch at least that large. */
void iter__plan_scratch(cpu_planner *planner, size_t bytes);

/* A new place of that shape after `in`. For images `order` applies; ANY if the order does not
 * matter. */
cpu_place *iter__cpu_place_new(cpu_planner *planner, const cpu_place *in, const engine_shape *shape,
                               cpu_order order);
/* A place over the memory of `in`, with another shape. */
cpu_place *iter__plan_alias(cpu_planner *planner, cpu_place *in, const engine_shape *shape);

/* Appends a node of `bytes` for the layers from `first` on, which works from in to out. It belongs
 * to the plan, which calls ops->close if ops is set. Errors: ENOMEM. */
iter_status iter__plan_node(cpu_planner *planner, size_t bytes, const cpu_node_ops *ops,
                            int32_t first_layer, int32_t n_layers, cpu_place *in, cpu_place *out,
                            cpu_node **node, iter_error *err);
/* Adds the node's next parameter, net->params[index]: requests memory for weights and moments and,
 * if `gradient`, for the gradient. */
void iter__plan_param(cpu_planner *planner, cpu_node *node, int32_t index, int64_t n_elements,
                      bool gradient);
/* The first node; NULL if there is none yet. It is the embedding's if the net begins with one. */
const cpu_node *iter__plan_first(const cpu_planner *planner);
/* True for the place of the data. */
bool iter__plan_is_data(const cpu_planner *planner, const cpu_place *place);
cpu_shared *iter__plan_shared(const cpu_planner *planner);

/* One per kind of layer: appends what computes layer `first` from `in`, and perhaps the layers that
 * follow. *n_layers is the number of layers done, *out the place of their values. */
typedef iter_status cpu_make(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                             int32_t *n_layers, iter_error *err);

cpu_make iter__node_conv, iter__node_pool, iter__node_flatten;   /* cpu_images.c */
cpu_make iter__node_elementwise;                                 /* cpu_elementwise.c */
cpu_make iter__node_dense;                                       /* cpu_dense.c */
cpu_make iter__node_embedding, iter__node_gru, iter__node_steps; /* cpu_sequences.c */
/* A loss with parameters: forward() computes it and, in training, all gradients; *out = in. */
cpu_make iter__node_tied; /* cpu_tied.c */

/* The optimiser's dense pass over one parameter. */
void iter__node_update(cpu_node *node, cpu_param *param, const cpu_run *run);
/* The memory of a parameter's value; NULL if it is not kept. */
float *iter__param_at(const cpu_param *param, iter_value value);

/* ---- The two ends ---------------------------------------------------------------------------- */

/* Returns the data of a run in the form of the first place: the batch's own memory if it already
 * has that form, else a copy in `staging` [place elements]. */
const float *iter__cpu_input(cpu_shared *shared, const cpu_place *place, const engine_batch *batch,
                             float *staging);

/* Computes loss and correct answers of the run over outputs [rows, n] and, if gradient is not NULL,
 * the loss's gradient [net->batch, n]. `rows` [net->batch] is scratch. */
void iter__cpu_loss(const cpu_shared *shared, const cpu_run *run, const float *outputs,
                    float *gradient, double *rows);

#endif
