/*
 * fake_cuda_stream.c - streams and events.
 *
 * Order is a number: a stream counts the operations that it was given and those that it finished.
 * An event is (stream, number), and an operation that must wait has such pairs. An operation of the
 * default stream has one pair for each blocking stream of its context, and those have one for the
 * default stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/fake/fake_cuda_internal.h"

/* ---- Operations ------------------------------------------------------------------------------ */

fake_op *fake__op_copy(const fake_op *op) {
    fake_op *copy = malloc(sizeof *copy);
    if (copy == NULL) abort();
    *copy = *op;
    copy->next = NULL;
    copy->after = NULL;
    copy->n_after = 0;
    if (op->payload_bytes) {
        copy->payload = aligned_alloc(64, (op->payload_bytes + 63) / 64 * 64);
        if (copy->payload == NULL) abort();
        memcpy(copy->payload, op->payload, op->payload_bytes);
    }
    return copy;
}

void fake__op_free(fake_op *op) {
    if (op->payload_bytes) free(op->payload);
    free(op->after);
    free(op);
}

static bool is_work(const fake_op *op) {
    return op->kind != FAKE_OP_MARK && op->kind != FAKE_OP_WAIT;
}

static void add_after(fake_op *op, CUstream stream, unsigned long long number) {
    if (stream == NULL || stream->done >= number) return;
    fake_after *after = realloc(op->after, (op->n_after + 1) * sizeof *after);
    if (after == NULL) abort();
    op->after = after;
    op->after[op->n_after++] = (fake_after){stream, number};
}

static bool is_ready(const fake_op *op) {
    for (size_t i = 0; i < op->n_after; i++)
        if (op->after[i].stream->done < op->after[i].number) return false;
    return true;
}

/* ---- A stream's thread ----------------------------------------------------------------------- */

static void sleep_us(unsigned us) {
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
    nanosleep(&pause, NULL);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The lock is held, but released while the operation runs. */
static void run_op(CUstream stream, fake_op *op) {
    if (is_work(op)) {
        const unsigned us = stream->delay_us;
        if (us) {
            pthread_mutex_unlock(&fake.lock);
            sleep_us(us);
            pthread_mutex_lock(&fake.lock);
        }
        fake.operations++;
        if (fake.late_left >= 0 && fake.late_left-- == 0) stream->context->lost = fake.late_result;
    }
    if (stream->context->lost != CUDA_SUCCESS || !fake__check(op, "when it ran")) return;
    stream->running = true;
    pthread_mutex_unlock(&fake.lock);
    fake__execute(op);
    pthread_mutex_lock(&fake.lock);
    stream->running = false;
}

static void *stream_main(void *argument) {
    CUstream stream = argument;
    pthread_mutex_lock(&fake.lock);
    while (stream->alive || stream->first) {
        fake_op *op = stream->first;
        if (op == NULL || stream->held || !is_ready(op)) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            continue;
        }
        run_op(stream, op);
        stream->first = op->next;
        if (stream->first == NULL) stream->last = NULL;
        stream->done = op->number;
        if (op->kind == FAKE_OP_MARK && op->event->stream == stream &&
            op->event->number == op->number)
            op->event->time_ns = now_ns();
        fake__op_free(op);
        pthread_cond_broadcast(&fake.changed);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static CUstream new_stream(CUcontext context, unsigned flags, bool is_default) {
    CUstream stream = calloc(1, sizeof *stream);
    pthread_attr_t detached;
    pthread_t thread;
    if (stream == NULL) abort();
    stream->context = context;
    stream->flags = flags;
    stream->is_default = is_default;
    stream->alive = true;
    stream->held = fake.all_held;
    stream->delay_us = fake.all_delay_us;
    stream->next = fake.streams;
    fake.streams = stream;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, stream_main, stream) != 0) abort();
    pthread_attr_destroy(&detached);
    return stream;
}

CUstream fake__stream(CUcontext context, CUstream stream) {
    if (stream != NULL && stream != CU_STREAM_LEGACY)
        return (uintptr_t)stream > 2 && stream->alive ? stream : NULL;
    if (context->default_stream == NULL)
        context->default_stream = new_stream(context, CU_STREAM_DEFAULT, true);
    return context->default_stream;
}

static bool is_blocking(const struct CUstream_st *stream) {
    return !stream->is_default && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

CUresult fake__check_implicit(CUstream stream) {
    if (!stream->is_default) return CUDA_SUCCESS;
    for (CUstream s = fake.streams; s; s = s->next)
        if (s->context == stream->context && is_blocking(s) && s->capture)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

/* Adds the implicit order of the default stream. */
static void add_implicit(fake_op *op, CUstream stream) {
    if (is_blocking(stream) && stream->context->default_stream)
        add_after(op, stream->context->default_stream, stream->context->default_stream->queued);
    if (!stream->is_default) return;
    for (CUstream s = fake.streams; s; s = s->next)
        if (s->context == stream->context && is_blocking(s)) add_after(op, s, s->queued);
}

/* Queues it in a stream that is not captured. */
static void append(CUstream stream, fake_op *op) {
    add_implicit(op, stream);
    op->number = ++stream->queued;
    if (stream->last) {
        stream->last->next = op;
    } else {
        stream->first = op;
    }
    stream->last = op;
    pthread_cond_broadcast(&fake.changed);
}

CUresult fake__queue(CUstream stream, const fake_op *op) {
    const CUresult implicit = fake__check_implicit(stream);
    if (implicit != CUDA_SUCCESS) {
        for (CUstream s = fake.streams; s; s = s->next)
            if (s->context == stream->context && is_blocking(s)) fake__invalidate(s);
        return implicit;
    }
    if (stream->capture) return fake__capture_add(stream, op);
    fake_op *own = fake__op_copy(op);
    own->hashed =
        own->kind == FAKE_OP_COPY && own->from_pinned && !fake__is_written(own->from, own->bytes);
    if (own->hashed) own->hash = fake__hash((const void *)own->from, own->bytes);
    append(stream, own);
    return CUDA_SUCCESS;
}

void fake__wait_number(CUstream stream, unsigned long long number) {
    while (stream->done < number)
        pthread_cond_wait(&fake.changed, &fake.lock);
}

void fake__wait_running(CUcontext context) {
    for (CUstream s = fake.streams; s;) {
        if (s->context == context && s->running) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            s = fake.streams;
        } else {
            s = s->next;
        }
    }
}

/* ---- Streams --------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamCreate)) {
        if (flags > CU_STREAM_NON_BLOCKING) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            *stream = new_stream(call.context, flags, false);
        }
    }
    return fake__end(&call);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamDestroy)) {
        CUstream own = stream ? fake__stream(call.context, stream) : NULL;
        if (own == NULL || own->is_default) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else {
            own->alive = false;
            if (own->capture) own->capture->ended = true; /* the capture ends with its stream */
            pthread_cond_broadcast(&fake.changed);
        }
    }
    return fake__end(&call);
}

/* The stream of a call that is forbidden while the stream is captured; NULL with call->result
 * set. */
static CUstream uncaptured(fake_call *call, CUstream handle) {
    CUstream stream = fake__stream(call->context, handle);
    if (stream == NULL) {
        call->result = CUDA_ERROR_INVALID_HANDLE;
        return NULL;
    }
    call->result = fake__check_implicit(stream);
    if (stream->capture) {
        fake__invalidate(stream);
        call->result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return call->result == CUDA_SUCCESS ? stream : NULL;
}

CUresult cuStreamSynchronize(CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamSynchronize)) {
        CUstream own = uncaptured(&call, stream);
        if (own) {
            const fake_op nothing = {.kind = FAKE_OP_WAIT};
            call.result = fake__queue(own, &nothing);
            fake__wait_number(own, own->queued);
            if (call.result == CUDA_SUCCESS) call.result = call.context->lost;
        }
    }
    return fake__end(&call);
}

CUresult cuCtxSynchronize(void) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuCtxSynchronize)) {
        for (CUstream s = fake.streams; s; s = s->next) {
            if (s->context != call.context) continue;
            if (s->capture) {
                fake__invalidate(s);
                call.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            } else {
                fake__wait_number(s, s->queued);
            }
        }
        if (call.result == CUDA_SUCCESS) call.result = call.context->lost;
    }
    return fake__end(&call);
}

CUresult cuStreamQuery(CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamQuery)) {
        CUstream own = uncaptured(&call, stream);
        if (own && own->done < own->queued) call.result = CUDA_ERROR_NOT_READY;
    }
    return fake__end(&call);
}

/* ---- Events ---------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventCreate)) {
        CUevent own = calloc(1, sizeof *own);
        if (own == NULL) abort();
        own->context = call.context;
        own->flags = flags;
        own->alive = true;
        own->next = fake.events;
        fake.events = own;
        *event = own;
    }
    return fake__end(&call);
}

CUresult cuEventDestroy_v2(CUevent event) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventDestroy)) {
        if (!event->alive) call.result = CUDA_ERROR_INVALID_HANDLE;
        event->alive = false;
    }
    return fake__end(&call);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventRecord)) {
        CUstream own = fake__stream(call.context, stream);
        if (own == NULL || !event->alive || own->context != event->context) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (own->capture) {
            event->capture = own->capture;
            event->capture_stream = own;
            event->capture_node = own->capture_node;
            if (own->capture->invalidated) call.result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        } else {
            const fake_op mark = {.kind = FAKE_OP_MARK, .event = event};
            call.result = fake__queue(own, &mark);
            if (call.result == CUDA_SUCCESS) {
                event->capture = NULL;
                event->stream = own;
                event->number = own->queued;
            }
        }
    }
    return fake__end(&call);
}

static bool has_passed(const struct CUevent_st *event) {
    return event->number == 0 || event->stream->done >= event->number;
}

CUresult cuEventQuery(CUevent event) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventQuery)) {
        if (!event->alive) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (event->capture) {
            call.result = CUDA_ERROR_CAPTURED_EVENT;
        } else if (!has_passed(event)) {
            call.result = CUDA_ERROR_NOT_READY;
        }
    }
    return fake__end(&call);
}

CUresult cuEventSynchronize(CUevent event) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventSynchronize)) {
        if (!event->alive) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (event->capture) {
            call.result = CUDA_ERROR_CAPTURED_EVENT;
        } else {
            if (event->number) fake__wait_number(event->stream, event->number);
            call.result = event->context->lost;
        }
    }
    return fake__end(&call);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuEventElapsedTime)) {
        if (!start->alive || !end->alive || !start->number || !end->number ||
            ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (!has_passed(start) || !has_passed(end)) {
            call.result = CUDA_ERROR_NOT_READY;
        } else {
            *milliseconds = (float)((double)(int64_t)(end->time_ns - start->time_ns) * 1e-6);
        }
    }
    return fake__end(&call);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuStreamWaitEvent)) {
        CUstream own = fake__stream(call.context, stream);
        if (own == NULL || !event->alive) {
            call.result = CUDA_ERROR_INVALID_HANDLE;
        } else if (flags != CU_EVENT_WAIT_DEFAULT) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else if (own->capture || event->capture) {
            call.result = fake__capture_wait(own, event);
        } else {
            call.result = fake__check_implicit(own);
            if (call.result == CUDA_SUCCESS && event->number) {
                const fake_op template = {.kind = FAKE_OP_WAIT};
                fake_op *wait = fake__op_copy(&template);
                add_after(wait, event->stream, event->number);
                append(own, wait);
            }
        }
    }
    return fake__end(&call);
}
