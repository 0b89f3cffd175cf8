/*
 * nccl.h - a communicator over NCCL, opened at run time, whose blocks lie in device memory.
 *
 * Its operations are queued on the trainer's stream, without a time limit. iter__nccl_wait(), which
 * waits for the stream, has one.
 */
#ifndef ENGINE_CUDA_NCCL_H
#define ENGINE_CUDA_NCCL_H

#include "engine/cuda/cuda_machine.h"
#include "engine/cuda/nccl_api.h"
#include "engine/ranks/communicator.h"

typedef struct cuda_nccl {
    void *library;
    int version; /* 22809 = 2.28.9 */
    const char *(*text)(ncclResult_t result);
#define ITER_X(name, parameters) ncclResult_t(*name) parameters;
    NCCL_CALLS(ITER_X)
#undef ITER_X
    ncclComm_t handle;
    cuda_machine *machine;
    iter_communicator comm;
} cuda_nccl;

/* What a rank tells the others before they begin. */
typedef struct nccl_word {
    CUuuid gpu;
    ncclUniqueId id; /* rank 0's */
    char why_not[80];
} nccl_word;

#define NCCL_WHY 100 /* room for a reason, with a rank */

/* By all ranks of `host`, with machine's context current. words[ranks] is room; lists[2 * ranks],
 * too. If NCCL cannot be used by one of them, nothing is opened on any, and *out_why_not says why;
 * else it is "". Errors: those of `host`. */
iter_status iter__nccl_open(cuda_nccl *nccl, cuda_machine *machine, iter_communicator *host,
                            nccl_word *words, uint64_t *lists, char out_why_not[NCCL_WHY],
                            iter_error *err);
/* Gives up what is queued, so that the stream does not wait for other ranks. Then only close() is
 * legal. */
void iter__nccl_abort(cuda_nccl *nccl);
/* With the context current, and after the stream has been waited for. */
void iter__nccl_close(cuda_nccl *nccl);

/* Waits until the stream is idle, with the context current. Aborts if that takes longer than the
 * communicator's time limit, or if NCCL reports an error. Errors: ETIMEDOUT, EDEVICE. */
iter_status iter__nccl_wait(cuda_nccl *nccl, iter_error *err);

#endif
