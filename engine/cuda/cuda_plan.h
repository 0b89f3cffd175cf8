/*
 * cuda_plan.h - a net on a GPU: where everything lies, and the nodes that compute it.
 *
 * Place i is the input of layer i; the last one holds the outputs before the loss. All places have
 * the rows of a full batch; rows that a short one has not are zeros that do not count. Images are NCHW in f32
 * and NHWC, channels padded with zeros to a multiple of 8, where tensor cores compute (TF32, f16) and
 * cuDNN has algorithms for that;
 * sequences are [steps, rows, features].
 *
 *     conv2d | relu | dropout   is two nodes: cuDNN's, and one kernel in place for bias, relu, dropout
 *
 * A node forward reads values of places and writes others; backward it reads the gradient of its
 * output and writes that of its input, where somebody wants it, and those of its parameters. All of it
 * is queued on the machine's stream; nothing waits.
 */
#ifndef ENGINE_CUDA_CUDA_PLAN_H
#define ENGINE_CUDA_CUDA_PLAN_H

#include "engine/backend.h"
#include "engine/cuda/cublas.h"
#include "engine/cuda/cuda_choices.h"
#include "engine/cuda/cudnn.h"
#include "engine/cuda/kernel_args.h"

typedef struct cuda_plan cuda_plan;
typedef struct cuda_node cuda_node;

typedef struct cuda_place {
    engine_shape shape;
    engine_order order;
    int64_t channels;   /* of images, as they lie */
    int64_t n_elements; /* as they lie, all rows */
    int64_t row_stride; /* and those of C, H, W; of 1, T, F; of 1, 1, F */
    int64_t dims[3], strides[3];
    bool wants;                   /* somebody wants its gradient */
    int32_t shares;               /* the place that has its memory; itself = its own */
    bool shares_values;           /* its values alone, the last step of them */
    CUdeviceptr values, gradient; /* 0 = none */
} cuda_place;

typedef struct cuda_node_ops {
    /* Each but forward may be NULL. */
    /* Descriptors, and what memory they want; `node` is zeroed before, and dropped also where this
     * failed. */
    iter_status (*prepare)(cuda_plan *plan, cuda_node *node, iter_error *err);
    /* Takes memory and says where its parameters stand. Called twice: for sizes, then for addresses. */
    iter_status (*place)(cuda_plan *plan, cuda_node *node, iter_error *err);
    /* Chooses by measuring. */
    iter_status (*measure)(cuda_plan *plan, cuda_node *node, CUdeviceptr workspace, size_t bytes,
                           iter_error *err);
    iter_status (*forward)(cuda_plan *plan, const cuda_node *node, bool training, iter_error *err);
    iter_status (*backward)(cuda_plan *plan, const cuda_node *node, iter_error *err);
    void (*drop)(cuda_plan *plan, cuda_node *node);
    void (*text)(const cuda_plan *plan, const cuda_node *node, char *out, size_t capacity);
} cuda_node_ops;

/* The parameters of a layer of ours, as kernels and libraries want them. */
typedef struct cuda_weights {
    CUdeviceptr at, gradient;
} cuda_weights;

typedef struct cuda_map {
    int32_t bias;    /* a parameter; -1 = none */
    int32_t dropout; /* a layer; -1 = none */
    engine_activation activation;
    CUdeviceptr bias_gradient;
} cuda_map;

/* A gru that resets before the product keeps r, z, n and r * h of every step. */
typedef struct cuda_gru {
    CUdeviceptr over_input; /* [steps, rows, 3 units] */
    CUdeviceptr over_state; /* [rows, 3 units] */
    CUdeviceptr r, z, cell, aid, d_gates, d_state, d_aid;
    cuda_weights weights[2]; /* over the input, over the state */
    CUdeviceptr bias_gradients[2];
} cuda_gru;

struct cuda_node {
    const cuda_node_ops *ops;
    int32_t first_layer, n_layers;
    int32_t in, out; /* places */
    size_t workspace_bytes;
    cuda_weights weights;
    union {
        dnn_conv conv;
        dnn_pool pool;
        struct {
            dnn_gru dnn;
            dnn_gru_memory memory;
        } gru;
        cuda_gru own_gru;
        cuda_map map;
        struct {
            CUdeviceptr first, count;
        } embedding;
    } as;
};

#define CUDA_MAX_PIECES 1024

typedef struct cuda_param {
    uint64_t first; /* in the masters */
    int32_t first_piece, n_pieces;
    uint32_t first_chunk, n_chunks;
} cuda_param;

struct cuda_plan {
    const engine_net *net;
    const engine_optimizer *optimizer;
    cuda_machine machine;
    cuda_numbers numbers;
    int32_t algorithms;          /* iter_algorithms */
    const char *algorithms_file; /* while it is made; NULL = none */
    cuda_choices choices;        /* likewise */
    bool keep_input_gradient;

    int32_t n_places, n_nodes;
    cuda_place places[ENGINE_MAX_LAYERS];
    cuda_node nodes[2 * ENGINE_MAX_LAYERS];

    /* One allocation for all of this, and one for what the libraries work in. */
    CUdeviceptr memory, workspace;
    size_t memory_bytes, workspace_bytes;
    size_t taken; /* while it is laid out */

    /* Masters: f32, canonical, one after the other, each beginning at a multiple of 256 bytes. */
    CUdeviceptr weights, moments[2];
    uint64_t n_weights;
    cuda_param params[ENGINE_MAX_PARAMS];
    engine_piece *pieces; /* [CUDA_MAX_PIECES] */
    int32_t n_pieces;
    uint32_t n_chunks;
    CUdeviceptr device_pieces, device_chunks, gathered; /* gathered: of the largest parameter */

    bool copies_data;     /* outputs are the data: they must outlive the batch */
    CUdeviceptr own_data; /* of place 0, where the batch does not lie as it should */
    CUdeviceptr ids;      /* i32 [steps, rows] */
    CUdeviceptr step;     /* engine_step, counts */
    CUdeviceptr tally, losses, correct;
    CUdeviceptr partial; /* of sums */
    int64_t n_partial;
    CUdeviceptr lengths;       /* i32 [rows], of grus */
    CUdeviceptr staged[2];     /* data and labels that came from the host */
    CUdeviceptr blank_label;   /* zeros */
    CUdeviceptr outputs;       /* f32 [rows, outputs], where they are f16 */
    CUdeviceptr data_gradient; /* f32, in the layout of the data; where it is kept */
    size_t step_bytes;
};

/* ---- Making ---------------------------------------------------------------------------------- */

/* `plan` is zeroed. On an error nothing is left. */
iter_status iter__cuda_plan_make(cuda_plan *plan, const engine_backend_config *config,
                                 iter_error *err);
void iter__cuda_plan_drop(cuda_plan *plan);

/* In place(): memory of the device; 0 while sizes are added up. */
CUdeviceptr iter__cuda_take(cuda_plan *plan, int64_t n, size_t size);
size_t iter__cuda_number_bytes(const cuda_plan *plan);
/* In place(): numbers [first, first + n) of a parameter stand at `gradient`, and the weights once more
 * at `compute` (0 = the master will do), both f16 where said. */
engine_piece *iter__cuda_add_piece(cuda_plan *plan, int32_t param, int64_t first, int64_t n,
                                   CUdeviceptr gradient, bool gradient_half, CUdeviceptr compute,
                                   bool compute_half);
CUdeviceptr iter__cuda_master(const cuda_plan *plan, int32_t param);

/* Which nodes a net becomes, by plan->numbers: cuda_nodes.c. */
void iter__cuda_make_nodes(cuda_plan *plan);

extern const cuda_node_ops iter__cuda_conv, iter__cuda_maxpool, iter__cuda_avgpool;
extern const cuda_node_ops iter__cuda_dense, iter__cuda_map_node, iter__cuda_flatten;
extern const cuda_node_ops iter__cuda_embedding, iter__cuda_last_step, iter__cuda_mean_steps;
extern const cuda_node_ops iter__cuda_gru_after, iter__cuda_gru_before;

/* ---- Pieces that several nodes are made of ---------------------------------------------------- */

/* From strides of any kind to a place, and back: coordinates C, H, W; 1, T, F; 1, 1, F. */
typedef struct cuda_numbers_at {
    CUdeviceptr at;
    engine_source source;
    int64_t row_stride, strides[3];
} cuda_numbers_at;

iter_status iter__cuda_copy(cuda_plan *plan, const cuda_place *place, const cuda_numbers_at *from,
                            const cuda_numbers_at *to, int64_t n_rows, iter_error *err);
/* A place's values or gradient, as such an end. */
cuda_numbers_at iter__cuda_end_of(const cuda_plan *plan, const cuda_place *place, CUdeviceptr at);

/* out[c] = sum of `in`, which lies as place does, over all but its channels or features. */
iter_status iter__cuda_sum(cuda_plan *plan, const cuda_place *place, CUdeviceptr in,
                           CUdeviceptr out, int64_t n_out, iter_error *err);
int64_t iter__cuda_sum_partial(const cuda_place *place);

/* ---- Runs ------------------------------------------------------------------------------------ */

/* A batch on the device. */
typedef struct cuda_input {
    CUdeviceptr data, label;
    iter_tensor data_view, label_view; /* descriptions and strides; `data` is not used */
    int64_t n_rows;
} cuda_input;

/* Everything of a run that a graph may hold. */
iter_status iter__cuda_body(cuda_plan *plan, const cuda_input *input, engine_run what,
                            iter_error *err);
/* A batch's data as an end of a copy. */
cuda_numbers_at iter__cuda_data_end(const cuda_plan *plan, const iter_tensor *view, CUdeviceptr at);
/* Data into place 0: where it lies, or by a kernel. */
iter_status iter__cuda_feed(cuda_plan *plan, const cuda_input *input, iter_error *err);
/* True where feeding turns another layout into the place's. */
bool iter__cuda_turns(const cuda_plan *plan);
iter_status iter__cuda_loss(cuda_plan *plan, const cuda_input *input, bool gradient,
                            iter_error *err);
iter_status iter__cuda_update(cuda_plan *plan, iter_error *err);
/* Masters to where libraries read them, and gradients of one parameter to plan->gathered. */
iter_status iter__cuda_spread(cuda_plan *plan, int32_t param, iter_error *err);
iter_status iter__cuda_gather(cuda_plan *plan, int32_t param, iter_error *err);

#endif
