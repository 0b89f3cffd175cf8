/* batch_profile.h - profiler records of chunks and batches. */
#ifndef ITER_OBSERVE_BATCH_PROFILE_H
#define ITER_OBSERVE_BATCH_PROFILE_H

#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

/* A span of a batch; the caller adds the rest. */
static inline iter__profile_record iter__profile_span(const iter_batch *batch, uint32_t name,
                                                      int64_t start_ns, int64_t end_ns) {
    return (iter__profile_record){.name = name,
                                  .type = ITER_PROFILE_SPAN,
                                  .loader = batch->loader->number,
                                  .epoch = batch->info.epoch,
                                  .start_ns = start_ns,
                                  .duration_ns = end_ns - start_ns,
                                  .batch = batch->info.number,
                                  .serial = batch->serial,
                                  .value = batch->info.n_rows};
}

/* Records that rows of a chunk were made. ends: they were its last ones. */
void iter__profile_chunk(const iter__chunk *chunk, uint32_t n_rows, bool ends, int64_t start,
                         int64_t end);
void iter__profile_batch(const iter_batch *batch, int64_t start, int64_t end);

#endif
