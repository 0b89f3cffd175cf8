/*
 * cuda_backend.h - the cuda backend at run time: its plan, the host memory that copies read from,
 * and the graphs of captured steps.
 */
#ifndef ENGINE_CUDA_CUDA_BACKEND_H
#define ENGINE_CUDA_CUDA_BACKEND_H

#include "engine/cuda/cuda_plan.h"
#include "engine/cuda/nccl.h"
#include "engine/ranks/sum_memory.h"

#define CUDA_STAGES 2
#define CUDA_HOMES  32
/* Number of runs in flight: enough that the device has the next run when one ends, and few enough
 * that the host waits here. With more, it would wait in the loader's next(), with all slots
 * queued. */
#define CUDA_FLIGHTS 3

/* Sums of gradients over micro-batches and ranks. */
typedef struct cuda_sums {
    iter_communicator *with; /* NULL = there are none */
    bool on_device;          /* gradients and their sums lie there */
    cuda_nccl nccl;          /* open if they do, and there are several ranks */
    nccl_word *words;        /* [ranks] */
    uint64_t *lists;         /* [2, ranks] */
    float *pinned;           /* [plan.n_weights], page-locked, if they do not */
    iter_status status;      /* of the first operation on the device that failed */
    iter_error error;
} cuda_sums;

typedef struct cuda_backend {
    cuda_plan plan;
    cuda_sums sums;

    /* Page-locked memory, one allocation. */
    unsigned char *pinned;
    size_t pinned_bytes;
    unsigned char *steps;               /* [ENGINE_MAX_PENDING] of plan.step_bytes */
    bool has_gradient;                  /* a run has computed gradients */
    unsigned char *stages[CUDA_STAGES]; /* data and label of a batch from host memory */
    CUevent copied[CUDA_STAGES];        /* events after the copy of each */
    uint32_t next_stage;
    engine_tally *tally;

    uint32_t n_pending;           /* runs since the last collect */
    CUevent landed[CUDA_FLIGHTS]; /* events after the last runs */
    uint32_t n_flights;
    /* Outcome of the runs before one that failed; the next collect returns it. */
    engine_tally kept;
    bool has_kept;
    CUdeviceptr homes[CUDA_HOMES]; /* batches known to be in this context */
    uint32_t next_home;
    /* such a run was queued without a graph, so everything is loaded */
    bool warm[ENGINE_RUN_TRAIN + 1];
    CUgraphExec graphs[ENGINE_RUN_TRAIN + 1]; /* of each kind of run; NULL = not captured yet */
    char no_graphs[96];                       /* why no graphs are captured; "" = they are */
    uint64_t n_graph_runs, n_call_runs;

    uint64_t n_converted;
    double convert_ms; /* of one batch; measured at create */
} cuda_backend;

/* Of a step, without what the batch's rows say. */
engine_step iter__cuda_step_of(const cuda_plan *plan, const engine_batch *batch);

/* `with` NULL = no sums. drop() is for the context, free() for after it. */
iter_status iter__cuda_sums_make(cuda_backend *backend, iter_communicator *with, iter_error *err);
void iter__cuda_sums_drop(cuda_backend *backend);
void iter__cuda_sums_free(cuda_backend *backend);
/* The backend's operations: sum_memory(), gradients() and update(). */
iter_status iter__cuda_sum_memory(void *state, engine_sum_memory *io, iter_error *err);
iter_status iter__cuda_gradients(void *state, engine_gradient *out, int32_t *out_n,
                                 iter_error *err);
iter_status iter__cuda_update_sums(void *state, const engine_gradient *sums,
                                   const engine_batch *batch, iter_error *err);

/* Allocates host memory and events. If the layout is converted, measures how long that takes. */
iter_status iter__cuda_stages_make(cuda_backend *backend, iter_error *err);
void iter__cuda_stages_drop(cuda_backend *backend);
/* Says in a step where the batch lies on the device. If it comes from the host, copies it there;
 * else makes the stream wait for it. */
iter_status iter__cuda_stage(cuda_backend *backend, const engine_batch *batch, engine_step *io,
                             iter_error *err);

/* Queues a run: as a graph if there is one or one can be captured, else call by call. */
iter_status iter__cuda_go(cuda_backend *backend, engine_run what, iter_error *err);
void iter__cuda_graphs_drop(cuda_backend *backend);

#endif
