/* batch_profile.c - see batch_profile.h. */
#include "iter/observe/batch_profile.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"

/* Whether arrows go from chunks to their batch. One chunk without reads needs none. */
static bool shows_chunks(const iter_batch *batch) {
    return atomic_load_explicit(&batch->n_chunks, memory_order_relaxed) > 1 ||
           batch->chunks[0].n_reads > 0;
}

void iter__profile_batch(const iter_batch *batch, int64_t start, int64_t end) {
    iter__profile_record record = iter__profile_span(batch, PROFILE_BATCH, start, end);
    record.chunk = atomic_load_explicit(&batch->n_chunks, memory_order_relaxed);
    record.flows = shows_chunks(batch) ? FLOW_TO_BATCH : 0;
    iter__profile_put(&record);
}

void iter__profile_chunk(const iter__chunk *chunk, uint32_t n_rows, bool ends, int64_t start,
                         int64_t end) {
    const iter_batch *batch = chunk->batch;
    iter__profile_record record =
        iter__profile_span(batch, batch->loader->workers.stage_name, start, end);
    record.chunk = (uint32_t)(chunk - batch->chunks);
    if (ends) {
        record.flows =
            (shows_chunks(batch) ? FLOW_TO_BATCH : 0) | (chunk->n_reads > 0 ? FLOW_FROM_READ : 0);
    }
    record.value = n_rows;
    iter__profile_put(&record);
}
