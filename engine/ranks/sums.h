/*
 * sums.h - the sum of a gradient over the micro-batches of a global batch, on all ranks.
 *
 * The micro-batches are the leaves of a fixed tree (sum_tree.h). A rank adds up the nodes that its
 * own leaves complete; then ranks own parts, as buckets.h describes. That moves as many bytes as a
 * ring, with two messages a pair of ranks.
 * Gradients of tables (embeddings) are lists of rows; their parts are ranges of row numbers.
 */
#ifndef ENGINE_RANKS_SUMS_H
#define ENGINE_RANKS_SUMS_H

#include "engine/backend.h"
#include "engine/ranks/sum_memory.h"

typedef struct engine_sums engine_sums;

/* shapes[n] is what the backend's gradients() returns before the first run, and dense values lie in
 * `memory`; tables are for the host's. bucket_bytes 0 = 1 MiB. What `memory` points to outlives the
 * sums. Errors: ENOMEM, EINVAL (too many ranks for n_leaves), EUNSUPPORTED (too many tables). */
iter_status iter__sums_create(const engine_sum_memory *memory, uint32_t n_leaves, iter_dtype real,
                              const engine_gradient *shapes, int32_t n, uint64_t bucket_bytes,
                              engine_sums **out, iter_error *err);
void iter__sums_destroy(engine_sums *sums);
uint64_t iter__sums_bytes(const engine_sums *sums);

/* Begins a step; then each of the rank's leaves is added, in order. NULL = all zero. */
void iter__sums_begin(engine_sums *sums);
void iter__sums_add(engine_sums *sums, const engine_gradient *leaf);
/* Before a leaf is added: its dense gradient g is known already, and may travel. As `ready` of
 * engine_batch. */
void iter__sums_ready(void *sums, int32_t g, const engine_gradient *gradient);
/* Adds zeros instead of what the leaves still lack, so that no rank waits for it. */
void iter__sums_fill(engine_sums *sums);

/* Called by all ranks when all leaves were added: the total times `factor`, in the form of the
 * shapes, in memory of the sums that stays until the next step begins. Errors: those of the
 * communicator and of the memory. */
iter_status iter__sums_finish(engine_sums *sums, double factor, engine_gradient *out,
                              iter_error *err);
/* Instead of finish, by all ranks: the step is not taken. */
void iter__sums_drop(engine_sums *sums);

/* As iter__buckets_stats(). */
uint32_t iter__sums_buckets(const engine_sums *sums, iter_bucket_stats *out, uint32_t capacity);

#endif
