/*
 * fake_cuda_capture.c - capture of streams, and graphs.
 *
 * A capture is the list of its operations in the order of the calls, over all streams that joined.
 * That order satisfies all dependencies, so a graph runs as this list. Calls that the programming
 * guide forbids during a capture are refused and end it: calls on a captured stream that wait or
 * query, calls that may synchronise (by the mode of the capture and of the thread), use of the
 * default stream, events from outside.
 */
#include <stdlib.h>

#include "tests/fake/fake_cuda_internal.h"

void fake__invalidate(CUstream stream) {
    if (stream->capture) stream->capture->invalidated = true;
}

CUresult fake__check_unsafe(void) {
    CUresult result = CUDA_SUCCESS;
    if (fake_self.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return result;
    for (fake_capture *c = fake.captures; c; c = c->next) {
        const bool own = pthread_equal(c->owner, pthread_self());
        if (c->ended || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        if (!own && (c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
                     fake_self.mode != CU_STREAM_CAPTURE_MODE_GLOBAL))
            continue;
        c->invalidated = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult fake__capture_add(CUstream stream, const fake_op *op) {
    fake_capture *capture = stream->capture;
    if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    fake_op *own = fake__op_copy(op);
    if (capture->last) {
        capture->last->next = own;
    } else {
        capture->first = own;
    }
    capture->last = own;
    stream->capture_node = ++capture->n_nodes;
    if (stream != capture->origin) stream->capture_open = true;
    return CUDA_SUCCESS;
}

CUresult fake__capture_wait(CUstream stream, CUevent event) {
    fake_capture *from = event->capture && !event->capture->ended ? event->capture : NULL;
    if (stream->capture == NULL) {
        if (from == NULL) return CUDA_ERROR_CAPTURED_EVENT;
        if (stream->is_default) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        stream->capture = from;
        stream->capture_node = event->capture_node;
        stream->capture_open = true;
        return CUDA_SUCCESS;
    }
    if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (from == stream->capture) {
        CUstream other = event->capture_stream;
        if (other != stream && event->capture_node >= other->capture_node)
            other->capture_open = false;
        return CUDA_SUCCESS;
    }
    fake__invalidate(stream);
    if (from) from->invalidated = true;
    return from ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    fake_call call;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (fake__begin(&call, FAKE_cuStreamIsCapturing)) {
        CUstream own = fake__stream(call.context, stream);
        if (own == NULL) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else {
            call.result = fake__check_implicit(own);
            if (own->capture)
                *status = own->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        }
    }
    return fake__end(&call);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamBeginCapture)) {
        CUstream own = fake__stream(call.context, stream);
        if (own == NULL) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (own->is_default) {
            call.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        } else if (own->capture) {
            call.result = CUDA_ERROR_ILLEGAL_STATE;
        } else {
            fake_capture *capture = calloc(1, sizeof *capture);
            if (capture == NULL) abort();
            capture->origin = own;
            capture->mode = mode;
            capture->owner = pthread_self();
            capture->next = fake.captures;
            fake.captures = capture;
            own->capture = capture;
            own->capture_node = 0;
        }
    }
    return fake__end(&call);
}

static void free_ops(fake_op *op) {
    while (op) {
        fake_op *next = op->next;
        fake__op_free(op);
        op = next;
    }
}

/* Ends it for all its streams; CUDA_SUCCESS if it is a valid graph. */
static CUresult end(fake_capture *capture) {
    CUresult result = capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    for (CUstream s = fake.streams; s; s = s->next) {
        if (s->capture != capture) continue;
        if (s != capture->origin && s->capture_open && result == CUDA_SUCCESS)
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        s->capture = NULL;
        s->capture_open = false;
    }
    capture->ended = true;
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    fake_call call;
    *graph = NULL;
    if (fake__begin(&call, FAKE_cuStreamEndCapture)) {
        CUstream own = fake__stream(call.context, stream);
        fake_capture *capture = own ? own->capture : NULL;
        if (capture == NULL) {
            call.result = CUDA_ERROR_ILLEGAL_STATE;
        } else if (capture->origin != own) {
            capture->invalidated = true;
            call.result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                   !pthread_equal(capture->owner, pthread_self())) {
            call.result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        } else {
            call.result = end(capture);
            if (call.result == CUDA_SUCCESS) {
                CUgraph made = calloc(1, sizeof *made);
                if (made == NULL) abort();
                made->alive = true;
                made->first = capture->first;
                made->next = fake.graphs;
                fake.graphs = made;
                *graph = made;
            } else {
                free_ops(capture->first);
            }
            capture->first = capture->last = NULL;
        }
    }
    return fake__end(&call);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuGraphInstantiateWithFlags)) {
        if (!graph->alive || flags != 0) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            CUgraphExec own = calloc(1, sizeof *own);
            if (own == NULL) abort();
            fake_op **tail = &own->first;
            for (const fake_op *op = graph->first; op; op = op->next, tail = &(*tail)->next)
                *tail = fake__op_copy(op);
            own->alive = true;
            own->context = call.context;
            own->next = fake.execs;
            fake.execs = own;
            *exec = own;
        }
    }
    return fake__end(&call);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuGraphLaunch)) {
        CUstream own = fake__stream(call.context, stream);
        if (own == NULL || !exec->alive || own->context != exec->context) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else {
            for (const fake_op *op = exec->first; op && call.result == CUDA_SUCCESS; op = op->next)
                call.result = fake__queue(own, op);
        }
    }
    return fake__end(&call);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuGraphExecDestroy)) {
        if (exec->alive) {
            free_ops(exec->first);
            exec->first = NULL;
            exec->alive = false;
        } else {
            call.result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return fake__end(&call);
}

CUresult cuGraphDestroy(CUgraph graph) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuGraphDestroy)) {
        if (graph->alive) {
            free_ops(graph->first);
            graph->first = NULL;
            graph->alive = false;
        } else {
            call.result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return fake__end(&call);
}
