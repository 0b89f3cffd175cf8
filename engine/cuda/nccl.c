/*
 * nccl.c - see nccl.h.
 *
 * Ranks that share a GPU cannot use NCCL, which would fail on some of them and wait for ever on the
 * others. So they compare their GPUs' identities first.
 */
#include "engine/cuda/nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/engine_error.h"

#define POLLS    2000 /* before the first sleep */
#define SLEEP_NS 20000

/* ---- Opening --------------------------------------------------------------------------------- */

/* *out_why_not stays as it is if all is well. */
static void open_library(cuda_nccl *n, char *out_why_not, size_t capacity) {
    static const cuda_symbol symbols[] = {
#define ITER_X(name, parameters) {#name, offsetof(cuda_nccl, name)},
        NCCL_CALLS(ITER_X)
#undef ITER_X
            {"ncclGetErrorString", offsetof(cuda_nccl, text)},
    };
    iter_error error;
    n->library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!n->library)
        snprintf(out_why_not, capacity, "%s cannot be opened", NCCL_LIBRARY);
    else if (iter__cuda_symbols(n->library, NCCL_LIBRARY, n, symbols,
                                sizeof(symbols) / sizeof(symbols[0]), &error) < 0)
        snprintf(out_why_not, capacity, "%.70s", error.message);
    else
        n->ncclGetVersion(&n->version);
}

static void say(nccl_word *word, const cuda_nccl *n, const char *call, ncclResult_t result) {
    if (result != ncclSuccess)
        snprintf(word->why_not, sizeof(word->why_not), "%s: %.50s", call, n->text(result));
}

static void fill_word(cuda_nccl *n, nccl_word *word) {
    const cuda_machine *m = n->machine;
    memset(word, 0, sizeof(*word));
    if (!m->retained)
        snprintf(word->why_not, sizeof(word->why_not), "the context is not the GPU's primary one");
    else if (m->cuda.cuDeviceGetUuid(&word->gpu, m->number) != CUDA_SUCCESS)
        snprintf(word->why_not, sizeof(word->why_not), "the GPU has no identity");
    else
        open_library(n, word->why_not, sizeof(word->why_not));
}

/* All ranks learn each other's words; the first reason goes to *out_why_not. */
static iter_status share_words(iter_communicator *host, nccl_word *words, uint64_t *lists,
                               char *out_why_not, iter_error *err) {
    uint64_t *at = lists, *bytes = at + host->ranks;
    for (uint32_t i = 0; i < host->ranks; i++) {
        at[i] = i * sizeof(*words);
        bytes[i] = sizeof(*words);
    }
    const engine_blocks all = {words, at, bytes};
    ENGINE_TRY(iter__comm_gather(host, ENGINE_LANE_CALLER, &all, err));
    for (uint32_t i = 0; i < host->ranks && !out_why_not[0]; i++)
        if (words[i].why_not[0])
            snprintf(out_why_not, NCCL_WHY, "rank %u: %s", i, words[i].why_not);
    return ITER_OK;
}

static void compare_gpus(const nccl_word *words, uint32_t ranks, char *out_why_not) {
    for (uint32_t i = 0; i < ranks; i++)
        for (uint32_t j = i + 1; j < ranks && !out_why_not[0]; j++)
            if (memcmp(&words[i].gpu, &words[j].gpu, sizeof(words[i].gpu)) == 0)
                snprintf(out_why_not, NCCL_WHY, "ranks %u and %u share a GPU", i, j);
}

static const engine_comm_ops nccl_ops;

iter_status iter__nccl_open(cuda_nccl *n, cuda_machine *machine, iter_communicator *host,
                            nccl_word *words, uint64_t *lists, char out_why_not[NCCL_WHY],
                            iter_error *err) {
    nccl_word *own = &words[host->rank];
    out_why_not[0] = '\0';
    n->machine = machine;
    n->comm = *host;
    n->comm.ops = &nccl_ops;
    n->comm.state = n;
    n->comm.lanes = 1;
    fill_word(n, own);
    ENGINE_TRY(share_words(host, words, lists, out_why_not, err));
    compare_gpus(words, host->ranks, out_why_not);
    if (out_why_not[0]) return ITER_OK;
    if (host->rank == 0) say(own, n, "ncclGetUniqueId", n->ncclGetUniqueId(&own->id));
    ENGINE_TRY(share_words(host, words, lists, out_why_not, err));
    if (out_why_not[0]) return ITER_OK;
    const ncclResult_t result =
        n->ncclCommInitRank(&n->handle, (int)host->ranks, words[0].id, (int)host->rank);
    if (result != ncclSuccess) n->handle = NULL;
    say(own, n, "ncclCommInitRank", result);
    const iter_status status = share_words(host, words, lists, out_why_not, err);
    if (status < 0 || out_why_not[0]) iter__nccl_close(n);
    return status;
}

void iter__nccl_abort(cuda_nccl *n) {
    if (n->handle) n->ncclCommAbort(n->handle);
    n->handle = NULL;
}

void iter__nccl_close(cuda_nccl *n) {
    if (n->handle) n->ncclCommDestroy(n->handle);
    n->handle = NULL;
    if (n->library) dlclose(n->library);
    n->library = NULL;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static iter_status fail(cuda_nccl *n, const char *call, ncclResult_t result, iter_error *err) {
    return iter__engine_fail(err, ITER_EDEVICE, "%s: %s: %s", n->machine->device, call,
                             n->text(result));
}

#define NCCL_CALL(n, err, call, arguments)                                   \
    do {                                                                     \
        const ncclResult_t result_ = (n)->call arguments;                    \
        if (result_ != ncclSuccess) return fail((n), #call, result_, (err)); \
    } while (0)

static char *block_at(const engine_blocks *blocks, uint32_t i) {
    return (char *)blocks->base + blocks->at[i];
}

/* Between the calls that begin and end a group. `all`: every rank gets the own block. */
static iter_status queue_blocks(cuda_nccl *n, const engine_blocks *send,
                                const engine_blocks *receive, bool all, iter_error *err) {
    const uint32_t own = n->comm.rank;
    for (uint32_t i = 0; i < n->comm.ranks; i++) {
        const uint32_t which = all ? own : i;
        if (i == own) continue;
        if (send->bytes[which] > 0)
            NCCL_CALL(n, err, ncclSend,
                      (block_at(send, which), send->bytes[which], ncclInt8, (int)i, n->handle,
                       n->machine->stream));
        if (receive->bytes[i] > 0)
            NCCL_CALL(n, err, ncclRecv,
                      (block_at(receive, i), receive->bytes[i], ncclInt8, (int)i, n->handle,
                       n->machine->stream));
    }
    return ITER_OK;
}

/* A group that was begun must end. */
static iter_status queue_group(cuda_nccl *n, const engine_blocks *send,
                               const engine_blocks *receive, bool all, iter_error *err) {
    ENGINE_TRY(iter__machine_enter(n->machine, err));
    ncclResult_t result = n->ncclGroupStart();
    iter_status status = result == ncclSuccess ? queue_blocks(n, send, receive, all, err)
                                               : fail(n, "ncclGroupStart", result, err);
    if (result == ncclSuccess) result = n->ncclGroupEnd();
    iter__machine_leave(n->machine);
    if (status < 0) return status;
    return result == ncclSuccess ? ITER_OK : fail(n, "ncclGroupEnd", result, err);
}

/* What is queued before a call that failed may wait for ever for ranks that have given up. */
static iter_status abort_if_failed(cuda_nccl *n, iter_status status) {
    if (status < 0) iter__nccl_abort(n);
    return status;
}

static iter_status nccl_gather(void *state, uint32_t lane, const engine_blocks *all,
                               uint32_t timeout_s, iter_error *err) {
    (void)lane, (void)timeout_s;
    return abort_if_failed(state, queue_group(state, all, all, true, err));
}

static iter_status copy_own(cuda_nccl *n, const engine_blocks *send, const engine_blocks *receive,
                            iter_error *err) {
    cuda_machine *m = n->machine;
    const uint32_t own = n->comm.rank;
    if (send->bytes[own] == 0) return ITER_OK;
    ENGINE_TRY(iter__machine_enter(m, err));
    const CUresult result = m->cuda.cuMemcpyDtoDAsync(
        (CUdeviceptr)(uintptr_t)block_at(receive, own), (CUdeviceptr)(uintptr_t)block_at(send, own),
        send->bytes[own], m->stream);
    const iter_status status = result == CUDA_SUCCESS
                                   ? ITER_OK
                                   : iter__machine_failed(m, err, result, "cuMemcpyDtoDAsync");
    iter__machine_leave(m);
    return status;
}

static iter_status nccl_exchange(void *state, uint32_t lane, const engine_blocks *send,
                                 const engine_blocks *receive, uint32_t timeout_s,
                                 iter_error *err) {
    (void)lane, (void)timeout_s;
    iter_status status = copy_own(state, send, receive, err);
    if (status >= 0) status = queue_group(state, send, receive, false, err);
    return abort_if_failed(state, status);
}

/* It is part of the backend, which opens, closes and ends. */
static const engine_comm_ops nccl_ops = {
    .version = ENGINE_COMM_VERSION,
    .name = "nccl",
    .gather = nccl_gather,
    .exchange = nccl_exchange,
};

/* ---- Waiting --------------------------------------------------------------------------------- */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

iter_status iter__nccl_wait(cuda_nccl *n, iter_error *err) {
    const struct timespec nap = {0, SLEEP_NS};
    const double deadline = seconds_now() + n->comm.timeout_s;
    for (int polls = 0;; polls++) {
        ncclResult_t late = ncclSuccess;
        const CUresult result = n->machine->cuda.cuStreamQuery(n->machine->stream);
        if (result == CUDA_SUCCESS) return ITER_OK;
        if (result != CUDA_ERROR_NOT_READY)
            return iter__machine_failed(n->machine, err, result, "cuStreamQuery");
        if (polls < POLLS) continue;
        n->ncclCommGetAsyncError(n->handle, &late);
        if (late != ncclSuccess && late != ncclInProgress) {
            iter__nccl_abort(n);
            return fail(n, "the sums of gradients", late, err);
        }
        if (seconds_now() > deadline) {
            iter__nccl_abort(n);
            return iter__engine_fail(
                err, ITER_ETIMEDOUT,
                "nccl: rank %u waited %u s for the sums of gradients: other ranks have died, hang, "
                "or take longer than the time limit",
                n->comm.rank, n->comm.timeout_s);
        }
        nanosleep(&nap, NULL);
    }
}
