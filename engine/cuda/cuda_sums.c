/*
 * cuda_sums.c - sums of gradients over micro-batches and ranks, for the cuda backend.
 *
 * They are made on the device if it can be: always by a single rank, and by several if all of them
 * can use NCCL. Else gradients go to page-locked memory of the host, and the sums come back from
 * there. Both ways give the same bits.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/kernel_args.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

/* ---- Memory of the device -------------------------------------------------------------------- */

static CUdeviceptr address(const void *at) {
    return (CUdeviceptr)(uintptr_t)at;
}

/* Enters for an operation, unless one before it failed. */
static cuda_machine *begin(cuda_sums *s) {
    if (s->status >= 0) s->status = iter__machine_enter(s->nccl.machine, &s->error);
    return s->status >= 0 ? s->nccl.machine : NULL;
}

static void end(cuda_sums *s, iter_status status) {
    iter__machine_leave(s->nccl.machine);
    s->status = status;
}

static void end_call(cuda_sums *s, CUresult result, const char *call) {
    end(s, result == CUDA_SUCCESS
               ? ITER_OK
               : iter__machine_failed(s->nccl.machine, &s->error, result, "%s", call));
}

static void device_zero(void *state, void *to, size_t bytes) {
    cuda_machine *m = begin(state);
    if (m)
        end_call(state, m->cuda.cuMemsetD8Async(address(to), 0, bytes, m->stream),
                 "cuMemsetD8Async");
}

static void *device_take(void *state, size_t bytes) {
    CUdeviceptr at = 0;
    cuda_sums *s = state;
    cuda_machine *m = begin(s);
    if (!m) return NULL;
    end(s, iter__machine_alloc(m, bytes, "sums of gradients", &at, &s->error));
    if (at) device_zero(s, iter__device_pointer(at), bytes);
    return iter__device_pointer(at);
}

static void device_give_back(void *state, void *at) {
    cuda_machine *m = ((cuda_sums *)state)->nccl.machine;
    if (!at || !iter__machine_enter_to_free(m)) return;
    m->cuda.cuStreamSynchronize(m->stream);
    m->cuda.cuMemFree(address(at));
    iter__machine_leave(m);
}

static void device_copy(void *state, void *to, const void *from, size_t bytes) {
    cuda_machine *m = begin(state);
    if (m)
        end_call(state, m->cuda.cuMemcpyDtoDAsync(address(to), address(from), bytes, m->stream),
                 "cuMemcpyDtoDAsync");
}

static void device_add(void *state, iter_dtype real, int64_t n, const void *from, void *to) {
    const engine_tree_args args = {.to = address(to), .from = address(from), .n = n};
    cuda_sums *s = state;
    cuda_machine *m = begin(s);
    (void)real;
    if (m) end(s, iter__machine_launch_over(m, kernel_engine_tree_add, n, &args, &s->error));
}

static void device_scale(void *state, iter_dtype real, int64_t n, double factor, void *to) {
    const engine_tree_args args = {.to = address(to), .n = n, .factor = factor};
    cuda_sums *s = state;
    cuda_machine *m = begin(s);
    (void)real;
    if (m) end(s, iter__machine_launch_over(m, kernel_engine_tree_scale, n, &args, &s->error));
}

static iter_status device_settle(void *state, iter_error *err) {
    cuda_sums *s = state;
    if (s->nccl.handle && begin(s)) end(s, iter__nccl_wait(&s->nccl, &s->error));
    if (s->status < 0) iter__nccl_abort(&s->nccl);
    if (s->status < 0 && err) *err = s->error;
    return s->status;
}

static const engine_sum_ops device_ops = {.take = device_take,
                                          .give_back = device_give_back,
                                          .copy = device_copy,
                                          .zero = device_zero,
                                          .add = device_add,
                                          .scale = device_scale,
                                          .settle = device_settle};

/* ---- Which way ------------------------------------------------------------------------------- */

static size_t all_bytes(const cuda_backend *b) {
    return b->plan.n_weights * sizeof(float);
}

static iter_status take_pinned(cuda_backend *b, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    void *at = NULL;
    const CUresult result = m->cuda.cuMemHostAlloc(&at, all_bytes(b), CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_SUCCESS)
        return iter__machine_failed(m, err, result, "cuMemHostAlloc of %zu bytes", all_bytes(b));
    memset(at, 0, all_bytes(b));
    b->sums.pinned = at;
    b->pinned_bytes += all_bytes(b);
    return ITER_OK;
}

static iter_status choose(cuda_backend *b, char *out_why_not, iter_error *err) {
    cuda_sums *s = &b->sums;
    if (s->with->ranks > 1)
        ENGINE_TRY(iter__nccl_open(&s->nccl, &b->plan.machine, s->with, s->words, s->lists,
                                   out_why_not, err));
    return out_why_not[0] ? take_pinned(b, err) : ITER_OK;
}

iter_status iter__cuda_sum_memory(void *state, engine_sum_memory *io, iter_error *err) {
    cuda_backend *b = state;
    cuda_sums *s = &b->sums;
    char why_not[NCCL_WHY] = "";
    ENGINE_TRY(iter__machine_enter(&b->plan.machine, err));
    const iter_status status = choose(b, why_not, err);
    iter__machine_leave(&b->plan.machine);
    if (status < 0) return status;
    if (why_not[0]) {
        snprintf(io->text, sizeof(io->text), ", through host memory (no NCCL: %s)", why_not);
        return ITER_OK;
    }
    s->on_device = true;
    io->ops = &device_ops;
    io->state = s;
    if (s->with->ranks == 1) return ITER_OK;
    io->comm = &s->nccl.comm;
    snprintf(io->text, sizeof(io->text), ", by NCCL %d.%d", s->nccl.version / 10000,
             s->nccl.version / 100 % 100);
    return ITER_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

iter_status iter__cuda_sums_make(cuda_backend *b, iter_communicator *with, iter_error *err) {
    cuda_sums *s = &b->sums;
    s->with = with;
    s->nccl.machine = &b->plan.machine;
    if (!with || with->ranks == 1) return ITER_OK;
    s->words = iter__engine_alloc(with->ranks, sizeof(*s->words));
    s->lists = iter__engine_alloc(2 * (size_t)with->ranks, sizeof(*s->lists));
    return s->words && s->lists ? ITER_OK : iter__engine_fail(err, ITER_ENOMEM, "out of memory");
}

void iter__cuda_sums_drop(cuda_backend *b) {
    cuda_sums *s = &b->sums;
    iter__nccl_close(&s->nccl);
    if (s->pinned) b->plan.machine.cuda.cuMemFreeHost(s->pinned);
    s->pinned = NULL;
}

void iter__cuda_sums_free(cuda_backend *b) {
    iter__engine_free(b->sums.words);
    iter__engine_free(b->sums.lists);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Each lies where its master is among the masters. */
iter_status iter__cuda_gradients(void *state, engine_gradient *out, int32_t *out_n,
                                 iter_error *err) {
    cuda_backend *b = state;
    cuda_plan *plan = &b->plan;
    const float *base = b->sums.on_device ? iter__device_pointer(plan->gathered) : b->sums.pinned;
    *out_n = plan->net->n_params;
    for (int32_t p = 0; p < *out_n; p++)
        out[p] = (engine_gradient){.n = plan->net->params[p].n_elements,
                                   .values = base + plan->params[p].first};
    if (!b->has_gradient) return ITER_OK;
    ENGINE_TRY(iter__machine_enter(&plan->machine, err));
    iter_status status = iter__cuda_gather_all(plan, err);
    if (status >= 0 && !b->sums.on_device)
        status =
            iter__machine_read(&plan->machine, b->sums.pinned, plan->gathered, all_bytes(b), err);
    iter__machine_leave(&plan->machine);
    return status;
}

/* Brings the sums to where the update reads them. */
static iter_status place_sums(cuda_backend *b, const engine_gradient *sums, iter_error *err) {
    cuda_plan *plan = &b->plan;
    cuda_machine *m = &plan->machine;
    for (int32_t p = 0; p < plan->net->n_params; p++) {
        const size_t bytes = (size_t)sums[p].n * sizeof(float), at = plan->params[p].first;
        if (b->sums.on_device)
            CUDA_CALL(
                m, err, cuMemcpyDtoDAsync,
                (plan->gathered + at * sizeof(float), address(sums[p].values), bytes, m->stream));
        else
            memcpy(b->sums.pinned + at, sums[p].values, bytes);
    }
    if (b->sums.on_device) return ITER_OK;
    return iter__machine_write(m, plan->gathered, b->sums.pinned, all_bytes(b), err);
}

static iter_status update_inside(cuda_backend *b, const engine_gradient *sums,
                                 const engine_batch *batch, iter_error *err) {
    cuda_plan *plan = &b->plan;
    cuda_machine *m = &plan->machine;
    const engine_step step = iter__cuda_step_of(plan, batch);
    const uint32_t go = 1;
    ENGINE_TRY(place_sums(b, sums, err));
    ENGINE_TRY(iter__machine_write(m, plan->step, &step, sizeof(step), err));
    ENGINE_TRY(
        iter__machine_write(m, plan->tally + offsetof(engine_tally, go), &go, sizeof(go), err));
    return iter__cuda_update_gathered(plan, err);
}

/* Nothing is pending, so the device reads none of the page-locked memory. */
iter_status iter__cuda_update_sums(void *state, const engine_gradient *sums,
                                   const engine_batch *batch, iter_error *err) {
    cuda_backend *b = state;
    ENGINE_TRY(iter__machine_enter(&b->plan.machine, err));
    const iter_status status = update_inside(b, sums, batch, err);
    iter__machine_leave(&b->plan.machine);
    return status;
}
