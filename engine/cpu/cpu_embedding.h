/*
 * cpu_embedding.h - groups the tokens of a batch by their id.
 *
 * A batch of 64 x 150 words has about 3,000 different ones. What is linear in the embedding is
 * therefore computed once per different word: its row is gathered once and projected once, and the
 * gradients of all its tokens are summed before they pass through the weights.
 */
#ifndef ENGINE_CPU_EMBEDDING_H
#define ENGINE_CPU_EMBEDDING_H

#include <stdint.h>

#include <iter/status.h>
#include <iter/tensor.h>

#include "engine/cpu/kernels/cpu_kernels.h"

/* Token k = step * batch + row. */
typedef struct cpu_tokens {
    int64_t n_tokens, n_different;
    const int32_t *index; /* [n_tokens] index in `ids` of token k */
    const int32_t *ids;   /* [n_different] ascending */
    const int32_t *order; /* [n_tokens] tokens sorted by index, then ascending */
    const int32_t *start; /* [n_different + 1] where each id begins in `order` */
} cpu_tokens;

typedef struct cpu_embedding cpu_embedding;

/* Creates it for batches of ids [steps, batch] into a table [rows, units]. Errors: ENOMEM,
 * EUNSUPPORTED (2^31 tokens or more). */
iter_status iter__cpu_embedding_create(const cpu_kernels *kernels, int64_t rows, int64_t units,
                                       int64_t batch, int64_t steps, uint32_t threads,
                                       cpu_embedding **out, iter_error *err);
void iter__cpu_embedding_destroy(cpu_embedding *embedding);
uint64_t iter__cpu_embedding_bytes(const cpu_embedding *embedding);

/* Indexes ids, i32 or i64 [N, T], or [T, N] with time_first: the first n_rows of N; the other rows
 * of the batch become id 0. All ids must lie in the table. The result is valid until the next
 * call. */
const cpu_tokens *iter__cpu_embedding_index(cpu_embedding *embedding, const iter_tensor *ids,
                                            bool time_first, int64_t n_rows);

/* out[i] = row ids[i]. If ld > units, a 1 and zeros follow, so that a product whose matrix has the
 * bias as an extra row needs no special case for biases. */
void iter__cpu_embedding_gather(const cpu_embedding *embedding, const float *weights, float *out,
                                int64_t ld);

/* y[k] = the row of token k; dense [steps, batch, units]. */
void iter__cpu_embedding_forward(const cpu_embedding *embedding, const float *weights, float *y);

/* out[i] = sum of dy[k] over the tokens k of ids[i]: dy dense [steps, batch, units], out
 * [n_different, units]. */
void iter__cpu_embedding_backward(cpu_embedding *embedding, const float *dy, float *out);

/*
 * The same kind of sum on its own: out[i][column .. + n) of ld = sum over the tokens of i of
 * x[place(k)][from .. + n) of x_ld, for one or two runs of columns.
 *
 *   places  [n_tokens] row of x of token order[j]
 *   heads   scratch, [threads, ld]: what a thread adds to a sum that the previous thread began
 */
typedef struct cpu_token_sums {
    const cpu_kernels *kernels;
    const cpu_tokens *tokens;
    const int32_t *places;
    const float *x;
    int64_t x_ld;
    struct {
        int64_t from, column, n;
    } runs[2];
    float *out;
    int64_t ld;
    float *heads;
    uint32_t threads;
} cpu_token_sums;

void iter__cpu_token_sums(const cpu_token_sums *sums);

#endif
