/*
 * cuda_backend.h - a cuda backend at work: its plan, the host memory that copies come from, and the graphs
 * of steps that were captured.
 */
#ifndef ENGINE_CUDA_CUDA_BACKEND_H
#define ENGINE_CUDA_CUDA_BACKEND_H

#include "engine/cuda/cuda_plan.h"

#define CUDA_STAGES     2
#define CUDA_MAX_GRAPHS 96
#define CUDA_GRAPH_STALE \
    (4 * CUDA_MAX_GRAPHS) /* runs after which one that was not used gives way */
#define CUDA_HOMES 32
/* Runs that are under way at a time: enough that the device has the next when it is done with one, and
 * few enough that the host waits here for it, and not in next() of a loader whose slots are all queued. */
#define CUDA_FLIGHTS 3

/* A full batch at these addresses. */
typedef struct cuda_graph {
    CUdeviceptr data, label;
    int64_t data_strides[ITER_MAX_DIMS], label_strides[ITER_MAX_DIMS]; /* they are in the calls */
    engine_run what;
    CUgraphExec exec;
    uint64_t used; /* the run that used it last */
} cuda_graph;

typedef struct cuda_backend {
    cuda_plan plan;

    /* Page-locked, one allocation. */
    unsigned char *pinned;
    size_t pinned_bytes;
    unsigned char *steps;               /* [ENGINE_MAX_PENDING] of plan.step_bytes */
    unsigned char *stages[CUDA_STAGES]; /* data and label of a batch from the host */
    CUevent copied[CUDA_STAGES];        /* behind the copy of each */
    uint32_t next_stage;
    engine_tally *tally;

    uint32_t n_pending;           /* runs since the last collect */
    CUevent landed[CUDA_FLIGHTS]; /* behind the last runs */
    uint32_t n_flights;
    /* What runs before one that failed came to: for the next collect. */
    engine_tally kept;
    bool has_kept;
    CUdeviceptr homes[CUDA_HOMES]; /* of batches that lie in this context */
    uint32_t next_home;
    bool warm[ENGINE_RUN_TRAIN + 1]; /* such a run went without a graph: all is loaded */
    cuda_graph graphs[CUDA_MAX_GRAPHS];
    int32_t n_graphs;
    char no_graphs[96]; /* why none are captured; "" = they are */
    uint64_t n_graph_runs, n_call_runs;

    uint64_t n_converted;
    double convert_ms; /* of one batch, measured at create */
} cuda_backend;

/* Takes host memory and events; times the turning of a layout, if there is one. */
iter_status iter__cuda_stages_make(cuda_backend *backend, iter_error *err);
void iter__cuda_stages_drop(cuda_backend *backend);
/* Says where a batch is on the device: copies it there if it comes from the host, else makes the stream
 * wait for it. */
iter_status iter__cuda_stage(cuda_backend *backend, const engine_batch *batch, cuda_input *out,
                             iter_error *err);

/* Queues a run: a graph of it, if there is one or there can be one, else call by call. */
iter_status iter__cuda_go(cuda_backend *backend, const cuda_input *input, engine_run what,
                          iter_error *err);
void iter__cuda_graphs_drop(cuda_backend *backend);

#endif
