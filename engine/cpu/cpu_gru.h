/*
 * cpu_gru.h - a gated recurrent unit over sequences, forward and backward through time.
 *
 * Its input is a table of rows and, for every token, the index of its row (cpu_embedding.h). A
 * sequence of features is a table in which no row occurs twice. The input weights are then applied
 * by three products over the table. The recurrence is split by rows of the batch: each thread takes
 * its rows through all steps without waiting for other threads, so its products are small and its
 * own.
 */
#ifndef ENGINE_CPU_GRU_H
#define ENGINE_CPU_GRU_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/status.h>

#include "engine/cpu/cpu_embedding.h"
#include "engine/cpu/kernels/cpu_kernels.h"

typedef struct cpu_gru_config {
    const cpu_kernels *kernels;
    int64_t batch, steps, features, units;
    bool reset_before;
    bool segments;       /* rows have segments: see iter__cpu_gru_segments() */
    bool only_last;      /* only the last step's output is used */
    bool input_gradient; /* backward() computes it */
    uint32_t threads;    /* also used by oneDNN */
} cpu_gru_config;

/* Weights in the form of iter_gru_options, or their gradients. */
typedef struct cpu_gru_params {
    float *input;          /* [3 units, features] */
    float *recurrent;      /* [3 units, units] */
    float *input_bias;     /* [3 units] */
    float *recurrent_bias; /* [3 units] */
} cpu_gru_params;

typedef struct cpu_gru cpu_gru;

/* Allocates all memory that it will ever need. Errors: ENOMEM, EUNSUPPORTED (2^31 tokens or
 * more). */
iter_status iter__cpu_gru_create(const cpu_gru_config *config, cpu_gru **out, iter_error *err);
void iter__cpu_gru_destroy(cpu_gru *gru);
uint64_t iter__cpu_gru_bytes(const cpu_gru *gru);

/* The memory for the table's rows, [steps * batch, ld]: features, then 1, then zeros, as
 * iter__cpu_embedding_gather() writes them. After backward() it holds the gradient of each row, if
 * config asked for it. */
float *iter__cpu_gru_table(cpu_gru *gru, int64_t *ld);

/* Fills the table from x, dense [steps, batch, features]; returns its tokens, which live as long as
 * the unit. The second function copies dx back from the table. */
const cpu_tokens *iter__cpu_gru_fill(cpu_gru *gru, const float *x);
void iter__cpu_gru_unfill(const cpu_gru *gru, float *dx);

/* Before forward(), if config has segments: i32 [n_rows, steps], borrowed for the call. Where they
 * change along a row, the state is zeros again. */
void iter__cpu_gru_segments(cpu_gru *gru, const iter_tensor *segments, int64_t n_rows);

/* y is dense: [batch, units] with only_last, else [steps, batch, units]. Errors: ENOMEM (oneDNN
 * could not allocate memory for a product); the contents of y are then undefined. */
iter_status iter__cpu_gru_forward(cpu_gru *gru, const cpu_gru_params *weights,
                                  const cpu_tokens *tokens, float *y, iter_error *err);

/* Call it after forward() with the same tokens; it uses the weights of that call. dy has y's shape.
 * Gradients are overwritten. Errors: as forward(). */
iter_status iter__cpu_gru_backward(cpu_gru *gru, const cpu_tokens *tokens, const float *dy,
                                   const cpu_gru_params *gradients, iter_error *err);

#endif
