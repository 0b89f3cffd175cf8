/* worker_state.c - a worker's block of memory, and its states of stages and decoders. */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

/* Rows between get() and the steps must stay in the first-level caches. If get() only copies, fewer
 * rows are a little faster (two rows of 3 KiB: 0 to 8 % in a bare loop), but many a get() has a
 * cost per call. */
#define STAGING_BYTES ((size_t)48 << 10)

static uint32_t staging_rows(const iter__plan *plan, const iter__layout *layout) {
    const size_t row = plan->stage_row_bytes;
    const uint32_t most = layout->chunk_rows;
    if (row == 0) return most;
    const size_t fit = STAGING_BYTES / row;
    return fit < 1 ? 1 : fit < most ? (uint32_t)fit : most;
}

/* Lays out a worker's block and returns its size. base NULL = only counts. */
static size_t lay_out(const iter__plan *plan, const iter__layout *layout, iter__worker *worker,
                      uint8_t *base) {
    const uint32_t rows = staging_rows(plan, layout);
    size_t at = 0;
#define PART(member, bytes)                             \
    do {                                                \
        if (base) worker->member = (void *)(base + at); \
        at += iter__align_up_size((bytes) + 64, 64);    \
    } while (0)
    PART(step[0], plan->step_bytes);
    PART(step[1], plan->step_bytes);
    PART(staging, plan->needs_get ? plan->stage_row_bytes * rows : 0);
    PART(hot, layout->hot_bytes);
    PART(scratch, plan->scratch_bytes);
    PART(batch_scratch, plan->batch_scratch_bytes);
    PART(rng, plan->needs_get ? rows * sizeof(iter_rng) : 0);
    PART(get_lengths, plan->needs_get ? 4 * (size_t)rows * ITER_MAX_FIELDS : 0);
#undef PART
    if (base) worker->staging_rows = rows;
    return at;
}

size_t iter__worker_bytes(const iter__plan *plan, const iter__layout *layout) {
    return lay_out(plan, layout, NULL, NULL);
}

static iter_status start_state(const iter_ops *ops, void **out, iter_error *err) {
    *out = iter__alloc(1, ops->state_size ? ops->state_size : 1);
    return *out ? ITER_OK : iter__fail(err, ITER_ENOMEM, "%s: no memory for its state", ops->name);
}

static iter_status start_transforms(iter__worker *worker, iter_error *err) {
    const iter__plan *plan = &worker->loader->plan;
    if (plan->n_states == 0) return ITER_OK;
    worker->transform_states = iter__alloc((size_t)plan->n_states, sizeof(void *));
    if (!worker->transform_states) return iter__fail(err, ITER_ENOMEM, "worker: out of memory");
    for (int32_t f = 0; f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            const iter__step *step = &plan->fields[f].steps[s];
            if (step->pack) continue;
            const iter_transform_ops *ops = step->stage->ops;
            void *state;
            ITER_TRY(start_state(&ops->base, &state, err));
            const iter_status status =
                ops->start ? ops->start(state, step->stage->options, err) : ITER_OK;
            if (status < 0) {
                iter__free(state);
                return iter__fail_in(err, status, "%s", ops->base.name);
            }
            worker->transform_states[step->state] = state;
        }
    }
    return ITER_OK;
}

static iter_status start_decoders(iter__worker *worker, iter_error *err) {
    const iter_dataset *dataset = worker->loader->dataset;
    const size_t n_fields = (size_t)dataset->desc.n_fields;
    worker->decoder_states = iter__alloc(dataset->n_decodings * n_fields, sizeof(void *));
    if (!worker->decoder_states) return iter__fail(err, ITER_ENOMEM, "worker: out of memory");
    for (size_t i = 0; i < dataset->n_decodings * n_fields; i++) {
        const iter__decoding *way = &dataset->decodings[i / n_fields];
        const iter_decoder_ops *ops = way->decoders[i % n_fields];
        if (!ops) continue;
        void *state;
        ITER_TRY(start_state(&ops->base, &state, err));
        const iter_status status = ops->start ? ops->start(state, way->shared, err) : ITER_OK;
        if (status < 0) {
            iter__free(state);
            return iter__fail_in(err, status, "%s", ops->base.name);
        }
        const size_t has_limit = offsetof(iter_decoder_ops, limit) + sizeof(ops->limit);
        if (ops->base.struct_size >= has_limit && ops->limit)
            ops->limit(state, worker->loader->layout.decoder_max);
        worker->decoder_states[i] = state;
    }
    return ITER_OK;
}

iter_status iter__worker_start(iter__worker *worker, iter_error *err) {
    iter_loader *loader = worker->loader;
    const size_t bytes = iter__worker_bytes(&loader->plan, &loader->layout);
    worker->memory = iter__alloc(1, bytes);
    if (!worker->memory)
        return iter__fail(err, ITER_ENOMEM, "worker: no memory for %zu bytes", bytes);
    lay_out(&loader->plan, &loader->layout, worker, worker->memory);
    ITER_TRY(start_transforms(worker, err));
    return start_decoders(worker, err);
}

iter_status iter__worker_begin(iter__worker *worker, iter_error *err) {
    const iter_dataset *dataset = worker->loader->dataset;
    if (!dataset->ops || !dataset->ops->start || worker->begun) return ITER_OK;
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = worker->loader;
    iter__activity_begins(worker, ACTIVITY_GET, ITER_UNKNOWN);
    const iter_status status = dataset->ops->start(dataset->user, &worker->user_state, err);
    iter__activity_set(worker, ACTIVITY_IDLE, ITER_UNKNOWN);
    iter__in_callback_of = outer;
    if (status < 0) return iter__fail_in(err, status, "%s: start", dataset->name);
    worker->begun = true;
    return ITER_OK;
}

void iter__worker_end(iter__worker *worker) {
    const iter_dataset *dataset = worker->loader->dataset;
    if (worker->begun) dataset->ops->stop(dataset->user, worker->user_state);
    worker->begun = false;
}

void iter__worker_stop(iter__worker *worker) {
    const iter_loader *loader = worker->loader;
    const iter__plan *plan = &loader->plan;
    iter__pictures_free(worker);
    for (int32_t f = 0; worker->transform_states && f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            const iter__step *step = &plan->fields[f].steps[s];
            void *state = step->pack ? NULL : worker->transform_states[step->state];
            if (!state) continue;
            if (step->stage->ops->stop) step->stage->ops->stop(state);
            iter__free(state);
        }
    }
    iter__free(worker->transform_states);
    const iter_dataset *dataset = loader->dataset;
    const size_t n_fields = (size_t)dataset->desc.n_fields;
    for (size_t i = 0; worker->decoder_states && i < dataset->n_decodings * n_fields; i++) {
        const iter_decoder_ops *ops = dataset->decodings[i / n_fields].decoders[i % n_fields];
        void *state = worker->decoder_states[i];
        if (!state) continue;
        if (ops->stop) ops->stop(state);
        iter__free(state);
    }
    iter__free(worker->decoder_states);
    iter__free(worker->memory);
}
