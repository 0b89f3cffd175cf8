/*
 * cuda_plan.h - a net on a GPU: the memory layout, and the nodes that compute it.
 *
 * Place i is the input of layer i; the last one holds the outputs before the loss. All places have
 * the rows of a full batch; rows that a short batch lacks are zeros that do not count. Images are
 * NCHW in f32. If tensor cores compute (TF32, f16, bf16) and cuDNN has algorithms for it, they are
 * NHWC, with channels padded with zeros (cuda_nodes.c). Sequences are [steps, rows, features].
 *
 *     conv2d | relu | dropout   two nodes: cuDNN's, and one kernel in place for the rest and bias
 *
 * A node forward reads values of places and writes others. Backward it reads the gradient of its
 * output; it writes that of its input, if it is needed, and those of its parameters. Everything is
 * queued on the machine's stream; nothing waits.
 */
#ifndef ENGINE_CUDA_CUDA_PLAN_H
#define ENGINE_CUDA_CUDA_PLAN_H

#include "engine/backend.h"
#include "engine/cuda/cublas.h"
#include "engine/cuda/cudnn.h"
#include "engine/cuda/kernel_args.h"

typedef struct cuda_plan cuda_plan;
typedef struct cuda_node cuda_node;

typedef struct cuda_place {
    engine_shape shape;
    engine_order order;
    int64_t channels;   /* of images, in memory */
    int64_t n_elements; /* in memory, all rows */
    int64_t row_stride; /* then the strides of C, H, W; of 1, T, F; of 1, 1, F */
    int64_t dims[3], strides[3];
    bool wants;                   /* the gradient is needed */
    int32_t shares;               /* place that owns the memory; itself = its own */
    bool shares_values;           /* shares only the values: the last step of them */
    CUdeviceptr values, gradient; /* 0 = none */
} cuda_place;

typedef struct cuda_node_ops {
    /* Each may be NULL, except forward. */
    /* Makes descriptors and says what memory they need. `node` is zeroed before; it is dropped even
     * if this fails. */
    iter_status (*prepare)(cuda_plan *plan, cuda_node *node, iter_error *err);
    /* Takes memory and places its parameters. Called twice: for sizes, then for addresses. */
    iter_status (*place)(cuda_plan *plan, cuda_node *node, iter_error *err);
    /* Chooses algorithms by measuring. */
    iter_status (*measure)(cuda_plan *plan, cuda_node *node, CUdeviceptr workspace, size_t bytes,
                           iter_error *err);
    iter_status (*forward)(cuda_plan *plan, const cuda_node *node, bool training, iter_error *err);
    iter_status (*backward)(cuda_plan *plan, const cuda_node *node, iter_error *err);
    void (*drop)(cuda_plan *plan, cuda_node *node);
    void (*text)(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity);
} cuda_node_ops;

/* The parameters of one of our layers, in the form for kernels and libraries. */
typedef struct cuda_weights {
    CUdeviceptr at, gradient;
} cuda_weights;

typedef struct cuda_map {
    int32_t bias;    /* a parameter; -1 = none */
    int32_t dropout; /* a layer; -1 = none */
    engine_activation activation;
    CUdeviceptr bias_gradient;
} cuda_map;

struct cuda_node {
    const cuda_node_ops *ops;
    int32_t first_layer, n_layers;
    int32_t in, out; /* places */
    size_t workspace_bytes;
    cuda_weights weights;
    union {
        dnn_conv conv;
        struct {
            dnn_gru dnn;
            dnn_gru_memory memory;
        } gru;
        cuda_map map;
        struct {
            CUdeviceptr first, count;
        } embedding;
    } as;
};

#define CUDA_MAX_PIECES 1024

typedef struct cuda_param {
    uint64_t first; /* index in the masters */
    int32_t first_piece, n_pieces;
    uint32_t first_chunk, n_chunks;
} cuda_param;

struct cuda_plan {
    const engine_net *net;
    const engine_optimizer *optimizer;
    cuda_machine machine;
    cuda_numbers numbers;
    int32_t algorithms; /* iter_algorithms */
    bool keep_input_gradient, sums;

    int32_t n_places, n_nodes;
    cuda_place places[ENGINE_MAX_LAYERS];
    cuda_node nodes[2 * ENGINE_MAX_LAYERS];

    /* One allocation for everything here, and one for the libraries' workspace. */
    CUdeviceptr memory, workspace;
    size_t memory_bytes, workspace_bytes;
    size_t taken; /* during layout */

    /* Masters: f32, canonical, contiguous; each begins at a multiple of 256 bytes. */
    CUdeviceptr weights, moments[2];
    uint64_t n_weights;
    cuda_param params[ENGINE_MAX_PARAMS];
    engine_piece *pieces; /* [CUDA_MAX_PIECES] */
    int32_t n_pieces;
    uint32_t n_chunks;
    /* gathered: room for the largest parameter; for sums, for all, as the masters */
    CUdeviceptr device_pieces, device_chunks, gathered;
    CUdeviceptr sum_pieces; /* for sums: the same, with gradients in `gathered` */

    CUdeviceptr ids;  /* i32 [steps, rows] */
    CUdeviceptr step; /* engine_step, counts */
    CUdeviceptr tally, losses, correct;
    CUdeviceptr partial; /* of sums */
    int64_t n_partial;
    CUdeviceptr lengths;       /* i32 [rows], of grus */
    CUdeviceptr staged[2];     /* data and labels that come from the host */
    CUdeviceptr blank_label;   /* zeros */
    CUdeviceptr outputs;       /* f32 [rows, outputs], if the outputs are f16 */
    CUdeviceptr data_gradient; /* f32, in the layout of the data, if it is kept */
    size_t step_bytes;
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* `plan` must be zeroed. After an error nothing is allocated. */
iter_status iter__cuda_plan_make(cuda_plan *plan, const engine_backend_config *config,
                                 iter_error *err);
void iter__cuda_plan_drop(cuda_plan *plan);

/* For place(): memory of the device; 0 while sizes are added up. */
CUdeviceptr iter__cuda_take(cuda_plan *plan, int64_t n, size_t size);
size_t iter__cuda_number_bytes(const cuda_plan *plan);
/* "f32", "TF32", "f16" or "bf16". */
const char *iter__cuda_numbers_text(const cuda_numbers *numbers);
/* True if gradients are multiplied by a scale: f16, whose smallest numbers would be lost. */
bool iter__cuda_is_scaled(const cuda_plan *plan);
/* For place(): numbers [first, first + n) of a parameter are stored at `gradient`, and a copy of
 * the weights at `compute` (0 = the master suffices); each of the type that its argument says. */
engine_piece *iter__cuda_add_piece(cuda_plan *plan, int32_t param, int64_t first, int64_t n,
                                   CUdeviceptr gradient, engine_type gradient_type,
                                   CUdeviceptr compute, engine_type compute_type);
CUdeviceptr iter__cuda_master(const cuda_plan *plan, int32_t param);

/* Chooses the nodes of a net by plan->numbers: cuda_nodes.c. Errors: EUNSUPPORTED naming the layer
 * that has none. */
iter_status iter__cuda_make_nodes(cuda_plan *plan, iter_error *err);

extern const cuda_node_ops iter__cuda_conv, iter__cuda_pool;
extern const cuda_node_ops iter__cuda_dense, iter__cuda_map_node, iter__cuda_flatten;
extern const cuda_node_ops iter__cuda_embedding, iter__cuda_last_step, iter__cuda_mean_steps;
extern const cuda_node_ops iter__cuda_gru;

/* ---- Pieces that several nodes are made of --------------------------------------------------- */

/* One end of a copy between any strides and a place: coordinates C, H, W; 1, T, F; 1, 1, F. */
typedef struct cuda_numbers_at {
    CUdeviceptr at;
    engine_type type;
    int64_t row_stride, strides[3];
} cuda_numbers_at;

iter_status iter__cuda_copy(cuda_plan *plan, const cuda_place *place, const cuda_numbers_at *from,
                            const cuda_numbers_at *to, iter_error *err);
/* Copies the step's data, of `type`, to place 0; and what the step must say of data for that. */
iter_status iter__cuda_copy_data(cuda_plan *plan, engine_type type, iter_error *err);
engine_source iter__cuda_data_source(const cuda_plan *plan, const cuda_numbers_at *data,
                                     int64_t n_rows);
/* A place's values or gradient as such an end. */
cuda_numbers_at iter__cuda_end_of(const cuda_plan *plan, const cuda_place *place, CUdeviceptr at);

/* out[c] = sum of `in`, which has the layout of the place, over everything but channels or
 * features. */
iter_status iter__cuda_sum(cuda_plan *plan, const cuda_place *place, CUdeviceptr in,
                           CUdeviceptr out, int64_t n_out, iter_error *err);
int64_t iter__cuda_sum_partial(const cuda_place *place);

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Queues all calls of a run, from the step's batch to the weights: what a graph holds. */
iter_status iter__cuda_body(cuda_plan *plan, engine_run what, iter_error *err);
/* Says in a step where its batch lies. Of the tensors, shapes and strides are read. */
void iter__cuda_sources(const cuda_plan *plan, const iter_tensor *data, CUdeviceptr data_at,
                        const iter_tensor *label, CUdeviceptr label_at, int64_t n_rows,
                        engine_step *io);
/* A batch's data as an end of a copy. */
cuda_numbers_at iter__cuda_data_end(const cuda_plan *plan, const iter_tensor *view, CUdeviceptr at);
/* Brings the step's data to place 0. */
iter_status iter__cuda_feed(cuda_plan *plan, iter_error *err);
/* True if feeding converts another layout into the place's. */
bool iter__cuda_turns(const cuda_plan *plan);
iter_status iter__cuda_update(cuda_plan *plan, iter_error *err);
/* Copy masters to where the libraries read them, and gradients of one parameter to
 * plan->gathered. */
iter_status iter__cuda_spread(cuda_plan *plan, int32_t param, iter_error *err);
iter_status iter__cuda_gather(cuda_plan *plan, int32_t param, iter_error *err);
/* For sums: copies the gradients of all parameters to plan->gathered, each where its master is in
 * the masters; and updates by what lies there. */
iter_status iter__cuda_gather_all(cuda_plan *plan, iter_error *err);
iter_status iter__cuda_update_gathered(cuda_plan *plan, iter_error *err);

#endif
