/*
 * cuda_graphs.c - queues a step as one launch.
 *
 * The calls of a step are captured once per place of a full batch: each slot of a loader on the
 * device, or the one place for batches from the host. A step is captured only after one went call
 * by call, because the first time loads kernels and makes the libraries choose. If a capture fails
 * for any reason, all later steps go call by call, and the backend's text says so.
 *
 * The number of graphs is limited. If all are taken, a new graph replaces one that has not been
 * used for a long time: its loader is gone. If all are in use, batches at other places go call by
 * call, because capturing them anew would take longer than the calls. Both kinds of runs are
 * counted.
 */
#include <stdio.h>
#include <string.h>

#include "engine/cuda/cuda_backend.h"
#include "engine/engine_error.h"

static bool same_strides(const int64_t *strides, const iter_tensor *view) {
    return memcmp(strides, view->strides, (size_t)view->desc.n_dims * sizeof(*strides)) == 0;
}

static cuda_graph *find(cuda_backend *b, const cuda_input *input, engine_run what) {
    for (int32_t i = 0; i < b->n_graphs; i++) {
        cuda_graph *graph = &b->graphs[i];
        if (graph->data == input->data && graph->label == input->label && graph->what == what &&
            same_strides(graph->data_strides, &input->data_view) &&
            same_strides(graph->label_strides, &input->label_view))
            return graph;
    }
    return NULL;
}

static void give_up(cuda_backend *b, const char *why) {
    snprintf(b->no_graphs, sizeof(b->no_graphs), "%.90s", why);
}

/* The calls of a run as an executable graph; NULL if capturing fails. */
static CUgraphExec capture(cuda_backend *b, const cuda_input *input, engine_run what) {
    cuda_machine *m = &b->plan.machine;
    iter_error err = {ITER_OK, ""};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    if (m->cuda.cuStreamBeginCapture(m->stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) {
        give_up(b, "capturing does not begin");
        return NULL;
    }
    const iter_status status = iter__cuda_body(&b->plan, input, what, &err);
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

/* A slot for one more graph: a free one, or the one unused for longest; NULL = all are in use. */
static cuda_graph *room(cuda_backend *b, uint64_t now) {
    if (b->n_graphs < CUDA_MAX_GRAPHS) return &b->graphs[b->n_graphs];
    cuda_graph *oldest = &b->graphs[0];
    for (int32_t i = 1; i < b->n_graphs; i++)
        if (b->graphs[i].used < oldest->used) oldest = &b->graphs[i];
    return now - oldest->used > CUDA_GRAPH_STALE ? oldest : NULL;
}

static cuda_graph *make(cuda_backend *b, const cuda_input *input, engine_run what, uint64_t now) {
    const bool full = input->n_rows == b->plan.net->batch;
    if (!full || !b->warm[what] || b->no_graphs[0]) return NULL;
    cuda_graph *graph = room(b, now);
    CUgraphExec exec = graph ? capture(b, input, what) : NULL;
    if (!exec) return NULL;
    if (graph == &b->graphs[b->n_graphs])
        b->n_graphs++;
    else
        b->plan.machine.cuda.cuGraphExecDestroy(graph->exec);
    *graph = (cuda_graph){.data = input->data, .label = input->label, .what = what, .exec = exec};
    memcpy(graph->data_strides, input->data_view.strides, sizeof(graph->data_strides));
    memcpy(graph->label_strides, input->label_view.strides, sizeof(graph->label_strides));
    return graph;
}

iter_status iter__cuda_go(cuda_backend *b, const cuda_input *input, engine_run what,
                          iter_error *err) {
    cuda_machine *m = &b->plan.machine;
    const bool full = input->n_rows == b->plan.net->batch;
    const uint64_t now = b->n_graph_runs + b->n_call_runs;
    cuda_graph *graph = full && what != ENGINE_RUN_GRADIENT ? find(b, input, what) : NULL;
    if (!graph && what != ENGINE_RUN_GRADIENT) graph = make(b, input, what, now);
    if (graph) {
        CUDA_CALL(m, err, cuGraphLaunch, (graph->exec, m->stream));
        graph->used = now;
        b->n_graph_runs++;
        return ITER_OK;
    }
    ENGINE_TRY(iter__cuda_body(&b->plan, input, what, err));
    b->warm[what] = true;
    b->n_call_runs++;
    return ITER_OK;
}

void iter__cuda_graphs_drop(cuda_backend *b) {
    for (int32_t i = 0; i < b->n_graphs; i++)
        b->plan.machine.cuda.cuGraphExecDestroy(b->graphs[i].exec);
    b->n_graphs = 0;
}
