/*
 * cuda_graphs.c - queues a run as one launch.
 *
 * The calls of each kind of run are captured once. They read what changes from plan->step, so one
 * graph serves every batch, short ones as well. A run is captured only after one went call by call,
 * because the first time loads kernels and makes the libraries choose. If a capture fails for any
 * reason, all later runs go call by call, and the backend's text says so. Both ways are counted.
 */
#include <stdio.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/engine_error.h"

static void give_up(cuda_backend *b, const char *why) {
    snprintf(b->no_graphs, sizeof(b->no_graphs), "%.90s", why);
}

/* The calls of a run as an executable graph; NULL if capturing fails. */
static CUgraphExec capture(cuda_backend *b, engine_run what) {
    cuda_machine *m = &b->plan.machine;
    iter_error err = {ITER_OK, ""};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    if (m->cuda.cuStreamBeginCapture(m->stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) {
        give_up(b, "capturing does not begin");
        return NULL;
    }
    const iter_status status = iter__cuda_body(&b->plan, what, &err);
    CUresult ended = m->cuda.cuStreamEndCapture(m->stream, &graph);
    if (ended != CUDA_SUCCESS) { /* otherwise an active capture would swallow later calls */
        CUgraph rest = NULL;
        if (m->cuda.cuStreamEndCapture(m->stream, &rest) == CUDA_SUCCESS && rest)
            m->cuda.cuGraphDestroy(rest);
        graph = NULL;
    }
    if (status < 0)
        give_up(b, err.message);
    else if (ended != CUDA_SUCCESS || !graph)
        give_up(b, "a call of the step cannot be captured");
    else if (m->cuda.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS) {
        exec = NULL;
        give_up(b, "the graph cannot be instantiated");
    }
    if (graph) m->cuda.cuGraphDestroy(graph);
    return b->no_graphs[0] ? NULL : exec;
}

iter_status iter__cuda_go(cuda_backend *b, engine_run what, iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    if (!b->graphs[what] && b->warm[what] && !b->no_graphs[0]) b->graphs[what] = capture(b, what);
    if (b->graphs[what]) {
        CUDA_CALL(m, err, cuGraphLaunch, (b->graphs[what], m->stream));
        b->n_graph_runs++;
        return ITER_OK;
    }
    ENGINE_TRY(iter__cuda_body(&b->plan, what, err));
    b->warm[what] = true;
    b->n_call_runs++;
    return ITER_OK;
}

void iter__cuda_graphs_drop(cuda_backend *b) {
    for (int what = 0; what <= ENGINE_RUN_TRAIN; what++)
        if (b->graphs[what]) b->plan.machine.cuda.cuGraphExecDestroy(b->graphs[what]);
}
