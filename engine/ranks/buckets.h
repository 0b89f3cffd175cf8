/*
 * buckets.h - the dense gradients of the sums (sums.h), in buckets that travel one by one.
 *
 * All of them lie one behind the other: the flat form. Neighbours that together have at least so
 * many bytes are a bucket. A bucket is ready when the last leaf of the rank has its gradients, and
 * then travels: of each bucket, each rank owns an equal part, receives that part of every node from
 * all ranks, adds them in the tree's order, and sends the total to all. Backward goes from the last
 * layer to the first, and so do the buckets. If the communicator has a second lane, a thread sends
 * them, so they travel while the layers before them are still computed.
 */
#ifndef ENGINE_RANKS_BUCKETS_H
#define ENGINE_RANKS_BUCKETS_H

#include "engine/backend.h"
#include "engine/ranks/sum_memory.h"

typedef struct engine_buckets engine_buckets;

/* shapes[n] as in iter__sums_create(), which has the same errors. */
iter_status iter__buckets_create(const engine_sum_memory *memory, uint32_t n_leaves,
                                 iter_dtype real, const engine_gradient *shapes, int32_t n,
                                 uint64_t bucket_bytes, engine_buckets **out, iter_error *err);
void iter__buckets_destroy(engine_buckets *b);
uint64_t iter__buckets_bytes(const engine_buckets *b);

/* Begins a step. */
void iter__buckets_begin(engine_buckets *b);
/* Gradient g of the current leaf: its values, in the buckets' memory, are used during the call, or
 * in the device's order. NULL = zeros. */
void iter__buckets_add(engine_buckets *b, int32_t g, const void *values);
/* All gradients of the current leaf were added: the next one begins. */
void iter__buckets_end_leaf(engine_buckets *b);

/* Called by all ranks when all their leaves have ended. *out is the total, in the flat form, in
 * memory that stays until the next step begins. Errors: those of the communicator. */
iter_status iter__buckets_finish(engine_buckets *b, char **out, iter_error *err);
/* Instead of finish, by all ranks: waits for what is on its way. */
void iter__buckets_drop(engine_buckets *b);

/* Copies the first `capacity` buckets' numbers, in the order in which they travel; returns how many
 * there are. */
uint32_t iter__buckets_stats(const engine_buckets *b, iter_bucket_stats *out, uint32_t capacity);

/* Where gradient g begins in the flat form, in numbers; g = n: their number. */
int64_t iter__buckets_at(const engine_buckets *b, int32_t g);

#endif
