/*
 * cuda_input.c - brings batches to the device.
 *
 * If a loader has put the batch on the device, the stream only waits for it. Otherwise the batch is
 * packed into page-locked memory, from where the device copies it while the host continues. There
 * are two such stages; an event after each copy tells when the stage is free again.
 */
#include <string.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/engine_error.h"

static size_t round_up(size_t n) {
    return (n + 255) / 256 * 256;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static size_t stage_bytes(const engine_net *net) {
    return round_up(iter_desc_bytes(&net->data)) + round_up(iter_desc_bytes(&net->label));
}

/* Measures the conversion of one batch from another layout. */
static iter_status time_turning(cuda_backend *b, iter_error *err) {
    cuda_plan *plan = &b->plan;
    cuda_machine *m = &plan->machine;
    CUevent events[2] = {NULL, NULL};
    float ms = 0;
    engine_step step = {.share = 0};
    const iter_tensor data = iter_tensor_dense(&plan->net->data, NULL),
                      label = iter_tensor_dense(&plan->net->label, NULL);
    iter__cuda_sources(plan, &data, plan->staged[0], &label, plan->staged[1], plan->net->batch,
                       &step);
    ENGINE_TRY(iter__machine_write(m, plan->step, &step, sizeof(step), err));
    CUresult result = m->cuda.cuEventCreate(&events[0], CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS) result = m->cuda.cuEventCreate(&events[1], CU_EVENT_DEFAULT);
    iter_status status = ITER_OK;
    for (int i = 0; i < 2 && result == CUDA_SUCCESS && status >= 0; i++) {
        result = m->cuda.cuEventRecord(events[0], m->stream); /* the first call loads the kernel */
        status = iter__cuda_feed(plan, err);
        if (result == CUDA_SUCCESS) result = m->cuda.cuEventRecord(events[1], m->stream);
    }
    if (result == CUDA_SUCCESS) result = m->cuda.cuEventSynchronize(events[1]);
    if (result == CUDA_SUCCESS) result = m->cuda.cuEventElapsedTime(&ms, events[0], events[1]);
    for (int i = 0; i < 2; i++)
        if (events[i]) m->cuda.cuEventDestroy(events[i]);
    b->convert_ms = (double)ms;
    if (status < 0) return status;
    return result == CUDA_SUCCESS ? ITER_OK : iter__machine_failed(m, err, result, "timing events");
}

iter_status iter__cuda_stages_make(cuda_backend *b, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    const size_t stage = stage_bytes(b->plan.net), step = b->plan.step_bytes;
    void *memory = NULL;
    b->pinned_bytes =
        CUDA_STAGES * stage + ENGINE_MAX_PENDING * step + round_up(sizeof(engine_tally));
    const CUresult result =
        m->cuda.cuMemHostAlloc(&memory, b->pinned_bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return iter__engine_fail(err, ITER_ENOMEM,
                                 "%s: out of memory: no %zu KiB of host memory can be page-locked; "
                                 "lower the batch size, or raise the limit (ulimit -l)",
                                 m->device, b->pinned_bytes >> 10);
    if (result != CUDA_SUCCESS)
        return iter__machine_failed(m, err, result, "cuMemHostAlloc of %zu bytes", b->pinned_bytes);
    b->pinned = memory;
    memset(memory, 0, b->pinned_bytes);
    for (int i = 0; i < CUDA_STAGES; i++) {
        b->stages[i] = b->pinned + (size_t)i * stage;
        CUDA_CALL(m, err, cuEventCreate,
                  (&b->copied[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    }
    for (int i = 0; i < CUDA_FLIGHTS; i++)
        CUDA_CALL(m, err, cuEventCreate,
                  (&b->landed[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    b->steps = b->pinned + CUDA_STAGES * stage;
    b->tally = (engine_tally *)(void *)(b->steps + ENGINE_MAX_PENDING * step);
    return iter__cuda_turns(&b->plan) ? time_turning(b, err) : ITER_OK;
}

void iter__cuda_stages_drop(cuda_backend *b) {
    cuda_machine *m = &b->plan.machine;
    for (int i = 0; i < CUDA_STAGES; i++)
        if (b->copied[i]) m->cuda.cuEventDestroy(b->copied[i]);
    for (int i = 0; i < CUDA_FLIGHTS; i++)
        if (b->landed[i]) m->cuda.cuEventDestroy(b->landed[i]);
    if (b->pinned) m->cuda.cuMemFreeHost(b->pinned);
    b->pinned = NULL;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Copies a tensor with any strides to dense memory; returns its bytes. */
static size_t pack(const iter_tensor *from, unsigned char *to) {
    const iter_desc *d = &from->desc;
    const iter_tensor dense = iter_tensor_dense(d, to);
    const size_t size = iter_dtype_bytes(d->dtype), total = iter_desc_bytes(d);
    const unsigned char *bytes = from->data;
    int64_t place[ITER_MAX_DIMS] = {0};
    int32_t run = d->n_dims; /* from this dimension on, both are contiguous */
    size_t length = size;
    while (run > 0 && (from->strides[run - 1] == dense.strides[run - 1] || d->dims[run - 1] == 1))
        length *= (size_t)d->dims[--run];
    for (size_t done = 0; done < total; done += length) {
        int64_t at = 0;
        for (int32_t i = 0; i < run; i++)
            at += place[i] * from->strides[i];
        memcpy(to + done, bytes + at * (int64_t)size, length);
        for (int32_t i = run - 1; i >= 0 && ++place[i] == d->dims[i]; i--)
            place[i] = 0;
    }
    return total;
}

static iter_status stage_host(cuda_backend *b, const engine_batch *batch, engine_step *io,
                              iter_error *err) {
    const cuda_plan *plan = &b->plan;
    cuda_machine *m = &b->plan.machine;
    const uint32_t i = b->next_stage++ % CUDA_STAGES;
    unsigned char *data = b->stages[i], *label = data + round_up(iter_desc_bytes(&plan->net->data));
    CUDA_CALL(m, err, cuEventSynchronize, (b->copied[i]));
    const size_t data_bytes = pack(batch->data, data), label_bytes = pack(batch->label, label);
    const iter_tensor dense_data = iter_tensor_dense(&batch->data->desc, NULL),
                      dense_label = iter_tensor_dense(&batch->label->desc, NULL);
    iter__cuda_sources(plan, &dense_data, plan->staged[0], &dense_label, plan->staged[1],
                       batch->n_rows, io);
    CUDA_CALL(m, err, cuMemcpyHtoDAsync, (plan->staged[0], data, data_bytes, m->stream));
    CUDA_CALL(m, err, cuMemcpyHtoDAsync, (plan->staged[1], label, label_bytes, m->stream));
    CUDA_CALL(m, err, cuEventRecord, (b->copied[i], m->stream));
    return ITER_OK;
}

/* Rejects a batch of another GPU or context: waiting for it would work, but reading would not. */
static iter_status check_home(cuda_backend *b, CUdeviceptr data, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    CUcontext home = NULL;
    int number = -1;
    for (uint32_t i = 0; i < CUDA_HOMES; i++)
        if (b->homes[i] == data) return ITER_OK;
    CUDA_CALL(m, err, cuPointerGetAttribute, (&home, CU_POINTER_ATTRIBUTE_CONTEXT, data));
    if (home == m->context) {
        b->homes[b->next_home++ % CUDA_HOMES] = data;
        return ITER_OK;
    }
    CUDA_CALL(m, err, cuPointerGetAttribute, (&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, data));
    return iter__engine_fail(
        err, ITER_EINVAL,
        "the batch is on GPU %d in another context, the trainer on GPU %d: give "
        "both the same options.device",
        number, m->number);
}

iter_status iter__cuda_stage(cuda_backend *b, const engine_batch *batch, engine_step *io,
                             iter_error *err) {
    if (!batch->source) return stage_host(b, batch, io, err);
    const CUdeviceptr data = (CUdeviceptr)(uintptr_t)batch->data->data,
                      label = (CUdeviceptr)(uintptr_t)batch->label->data;
    iter__cuda_sources(&b->plan, batch->data, data, batch->label,
                       label ? label : b->plan.blank_label, batch->n_rows, io);
    ENGINE_TRY(check_home(b, data, err));
    return iter_batch_wait(batch->source, b->plan.machine.stream, err);
}
