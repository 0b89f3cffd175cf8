/*
 * sums.h - the sum of a gradient over the micro-batches of a global batch, on all ranks.
 *
 * A sum of floats depends on its order. Here the order depends on the micro-batches alone: they
 * are the leaves of a fixed binary tree, in which neighbours are added first. Node (level, i)
 * covers the leaves [i * 2^level, (i + 1) * 2^level); if the number of leaves is no power of two,
 * what is left over at the end is added from the right. So the bits are the same however many ranks
 * share the leaves.
 *
 * A rank adds up the nodes that its own leaves complete. Each rank owns an equal part of all
 * numbers: it receives that part of every node from all ranks, adds them in the tree's order, and
 * sends the total to all. That moves as many bytes as a ring, with two messages a pair of ranks.
 * Gradients of tables (embeddings) are lists of rows; their parts are ranges of row numbers.
 */
#ifndef ENGINE_RANKS_SUMS_H
#define ENGINE_RANKS_SUMS_H

#include "engine/backend.h"
#include "engine/ranks/communicator.h"

typedef struct engine_sums engine_sums;

/* The leaves [*out_first, *out_first + result) of n that are the rank's. */
uint32_t iter__sums_share(uint32_t n_leaves, uint32_t rank, uint32_t ranks, uint32_t *out_first);

/* shapes[n] is what the backend's gradients() returns before the first run. `comm` outlives the
 * sums. Errors: ENOMEM, EUNSUPPORTED (too many ranks for n_leaves, or too many tables). */
iter_status iter__sums_create(iter_communicator *comm, uint32_t n_leaves, iter_dtype real,
                              const engine_gradient *shapes, int32_t n, engine_sums **out,
                              iter_error *err);
void iter__sums_destroy(engine_sums *sums);
uint64_t iter__sums_bytes(const engine_sums *sums);

/* Begins a step; then each of the rank's leaves is added, in order. NULL = all zero. */
void iter__sums_begin(engine_sums *sums);
void iter__sums_add(engine_sums *sums, const engine_gradient *leaf);

/* Called by all ranks: the total times `factor`, in the form of the shapes, in memory of the sums
 * that stays until the next step begins. Errors: those of the communicator. */
iter_status iter__sums_finish(engine_sums *sums, double factor, engine_gradient *out,
                              iter_error *err);

/* The same tree over n numbers. */
double iter__sums_of(const double *numbers, uint32_t n);

#endif
