/*
 * kernel_args.h - arguments of our kernels, one struct each, passed by value; and what the kernels
 * keep on the device between steps. Read by C11, by nvcc (engine_kernels.cu), and by the kernels' C
 * twins.
 *
 * Addresses are device addresses; 0 = none. Numbers are of `type`: ENGINE_F32,
 * ENGINE_F16 or ENGINE_BF16. Strides and offsets count elements.
 */
#ifndef ENGINE_CUDA_KERNEL_ARGS_H
#define ENGINE_CUDA_KERNEL_ARGS_H

#include <stdint.h>

#define ENGINE_BLOCK 256 /* threads of every block */
#define ENGINE_LANES 4   /* most elements of a thread */

typedef unsigned long long engine_address;

/* Where numbers [rows, d0, d1, d2] lie. */
typedef struct engine_source {
    engine_address at;
    int64_t row, strides[3];
    int32_t n_rows; /* later rows are zeros */
    int32_t unused;
} engine_source;

/* What changes from step to step. The host writes it before each run, so that a captured graph
 * stays the same wherever the batch lies. counts[batch] follow it, 0 for rows that it lacks. */
typedef struct engine_step {
    double share;       /* 1 / rows that count; 0 = no row counts */
    uint32_t words[2];  /* the step's number, for dropout */
    uint32_t run;       /* counted from the last collect */
    uint32_t updates;   /* 1 = weights may change */
    float lr, rate;     /* Adam's rate includes its bias corrections */
    uint32_t first_row; /* of the global batch, for dropout */
    uint32_t reserved;
    engine_source data;  /* ids: [rows, 1, 1, steps] */
    engine_source label; /* [rows, 1, 1, numbers] */
} engine_step;

typedef enum engine_failure {
    ENGINE_FINE,
    ENGINE_BAD_LOSS,  /* not finite */
    ENGINE_BAD_LABEL, /* outside the classes: see row, value */
    ENGINE_BAD_ID     /* outside the embedding: see row, place, value */
} engine_failure;

#define ENGINE_NO_PLACE 0xffffffffffffffffull

/* Outcome of the runs since the last collect. After a failure nothing is added and nothing is
 * updated. */
typedef struct engine_tally {
    double loss_sum;
    double bad_loss;
    int64_t value;
    uint64_t n_correct;
    uint32_t n_runs; /* without a failure */
    uint32_t failure, failed_run;
    int32_t row, place;
    uint32_t go; /* 1 = the current run may update */
    /* For the current run: the lowest row << 32 | place with a bad id, and the lowest bad row; 64
     * bits each, ENGINE_NO_PLACE = none. */
    unsigned long long bad_id, bad_label;
    /* f16: gradients are multiplied by `scale`. If one overflows, the step is skipped and the scale
     * is halved; after many steps without an overflow it is doubled. A collect does not reset
     * it. */
    float scale;
    float used; /* scale of the last gradients */
    uint32_t overflow, n_good, n_skipped, reserved;
} engine_tally;

typedef enum engine_type {
    ENGINE_F32,
    ENGINE_F16,
    ENGINE_F64,
    ENGINE_U8,
    ENGINE_I32,
    ENGINE_I64,
    ENGINE_BF16
} engine_type;

/* A copy of numbers into another layout, from any type. */
typedef struct engine_copy_args {
    engine_address source; /* an engine_source on the device; 0 = `from` */
    engine_source from;
    engine_address to;
    int64_t n; /* rows * d0 * d1 * d2 */
    int64_t dims[3];
    int64_t to_row, to_strides[3];
    int32_t from_type, to_type;
} engine_copy_args;

/* Converts the step's ids to i32 [steps, rows]. */
typedef struct engine_ids_args {
    engine_address step, to, tally;
    int32_t type; /* ENGINE_I32 or ENGINE_I64 */
    int32_t rows, steps, limit;
} engine_ids_args;

/* Bias, activation and dropout, in this order, each optional; in place or not. Elements are ordered
 * [a, b, c]. */
typedef enum engine_order {
    ENGINE_NCHW, /* a row, b channel, c pixel */
    ENGINE_NHWC, /* a row, b pixel, c channel */
    ENGINE_TNF   /* a step, b row, c feature; plain features have one step */
} engine_order;

typedef enum engine_activation {
    ENGINE_AS_IT_IS,
    ENGINE_ACT_RELU,
    ENGINE_ACT_TANH,
    ENGINE_ACT_SIGMOID
} engine_activation;

typedef struct engine_map_args {
    engine_address in, out, gradient; /* backward: in is the gradient of out, out the values */
    engine_address bias, step;
    int64_t n;
    int32_t b, c;
    int32_t order, activation, type;
    int32_t channels; /* real channels; the others are padding and stay zero */
    int32_t block;    /* dropout: channels rounded up to 16 */
    uint32_t threshold;
    uint32_t key[2];
    float scale;
    int32_t drops;
    int32_t lanes; /* of a thread: 1, or ENGINE_LANES if `c` and the addresses allow it */
    int32_t unused;
} engine_map_args;

/* Pooling. Backward: in holds the values; goes from d_out to d_in. */
typedef struct engine_pool_args {
    engine_address in, out, d_out, d_in;
    int64_t n; /* outputs; backward with windows that overlap, inputs */
    int32_t channels, height, width, out_height, out_width, size, stride, pad;
    int32_t order, type;
    int32_t lanes; /* of a thread: 1, or ENGINE_LANES channels */
    int32_t mean;  /* of a window's pixels inside the image; else the largest */
} engine_pool_args;

/* Sums over rows: out[c] = sum over outer, inner of in[outer, c, inner]. Computed in `chunks` parts
 * first. */
typedef struct engine_sums_args {
    engine_address in, partial, out;
    int64_t outer;
    int32_t channels, inner, chunks, n_out;
    int32_t type, unused;
} engine_sums_args;

typedef struct engine_embedding_args {
    engine_address ids, weight, values; /* values: the output, or its gradient */
    engine_address gradient, first, count;
    int32_t positions, units, type, unused;
} engine_embedding_args;

/* Mean over steps, and backward: an equal share for every step, or everything to the last one. */
typedef struct engine_steps_args {
    engine_address in,
        /* in and out: [steps, rows * features] and [rows * features]; backward the other way
         * round. */
        out;
    int64_t n; /* rows * features */
    int32_t steps, type;
    int32_t last, unused;
} engine_steps_args;

typedef enum engine_loss { ENGINE_LOSS_CLASSES, ENGINE_LOSS_SQUARES } engine_loss;

typedef struct engine_loss_args {
    engine_address outputs, gradient;
    engine_address step, tally, losses, correct; /* f64, i32 [rows] */
    int32_t label_type;                          /* engine_type */
    int32_t n, rows, type;
    float factor; /* of the squares: 1 or a half */
    int32_t has_ids, id_type;
    int32_t unused;
} engine_loss_args;

/* A range of a parameter: n numbers of the master, and their positions in the libraries' layout.
 * Number i = ((o * d0 + p) * d1 + q) * d2 + r is at o * s[0] + p * s[1] + q * s[2] + r * s[3]. */
typedef struct engine_piece {
    uint64_t first; /* index in the masters */
    uint64_t n;
    engine_address gradient; /* its address */
    engine_address compute;  /* copy of the weights; 0 = the master suffices */
    int64_t strides[4];
    int32_t dims[3];
    int32_t plain; /* 1 = number i is at i */
    int32_t gradient_type, compute_type;
    int32_t decays;
    int32_t unused;
} engine_piece;

/* The part of a piece that one block works on. */
#define ENGINE_CHUNK 1024
typedef struct engine_chunk {
    uint32_t piece, unused;
    uint64_t first; /* index in the piece */
} engine_chunk;

typedef enum engine_params_mode {
    ENGINE_PARAMS_SGD,
    ENGINE_PARAMS_ADAM,
    ENGINE_PARAMS_SPREAD, /* copies masters to `compute` */
    ENGINE_PARAMS_GATHER, /* copies gradients to `out`, canonical, unscaled */
    ENGINE_PARAMS_CHECK   /* sets tally.overflow if a gradient is not finite */
} engine_params_mode;

typedef struct engine_params_args {
    engine_address pieces, chunks, weights, first, second, step, tally;
    engine_address out;
    uint64_t out_first; /* index in the masters of the number that goes to out[0] */
    int32_t mode, scaled;
    float momentum, decay, beta1, beta2, epsilon, rest1, rest2; /* rest = 1 - beta */
    int32_t unused;
} engine_params_args;

/* to[n] += from, or zeros if from is 0; or to *= factor. f32. */
typedef struct engine_tree_args {
    engine_address to, from;
    int64_t n;
    double factor;
} engine_tree_args;

#endif
