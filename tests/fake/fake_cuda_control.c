/* fake_cuda_control.c - the table by which tests control the fake driver, see fake_cuda.h. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/fake_cuda_internal.h"

static void lock(void) {
    pthread_mutex_lock(&fake.lock);
}

static void unlock(void) {
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static void wait_idle_locked(void) {
    for (CUstream s = fake.streams; s;) {
        if (s->done < s->queued) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            s = fake.streams;
        } else {
            s = s->next;
        }
    }
}

static void control_wait_idle(void) {
    lock();
    wait_idle_locked();
    unlock();
}

static void control_reset(void) {
    lock();
    fake.all_held = false;
    fake.all_delay_us = 0;
    for (CUstream s = fake.streams; s; s = s->next) {
        s->held = false;
        s->delay_us = 0;
    }
    pthread_cond_broadcast(&fake.changed);
    wait_idle_locked();
    fake.machine = fake__usual;
    fake.started = false;
    fake.n_kernels = 0;
    for (int i = 0; i < FAKE_FAILURES; i++)
        fake.failures[i].function = 0;
    fake.late_left = -1;
    memset(fake.calls, 0, sizeof fake.calls);
    fake.operations = fake.pageable = 0;
    fake.copied = 0;
    fake.keep_going = fake.violated = false;
    fake__forget_blocks();
    unlock();
}

static fake_cuda_machine control_machine(void) {
    lock();
    const fake_cuda_machine machine = fake.machine;
    unlock();
    return machine;
}

static void control_set_machine(const fake_cuda_machine *machine) {
    lock();
    fake.machine = *machine;
    fake.started = false;
    unlock();
}

static void control_kernel(const char *name, fake_cuda_kernel twin) {
    lock();
    int i = 0;
    while (i < fake.n_kernels && strcmp(fake.kernels[i].name, name) != 0)
        i++;
    if (i == FAKE_KERNELS) abort();
    if (i == fake.n_kernels) fake.n_kernels++;
    snprintf(fake.kernels[i].name, sizeof fake.kernels[i].name, "%s", name);
    fake.kernels[i].twin = twin;
    unlock();
}

static int find_function(const char *name) {
    for (int i = 0; i < FAKE_FUNCTIONS; i++)
        if (strcmp(fake__name((fake_function)i), name) == 0) return i;
    fprintf(stderr, "fake CUDA driver: there is no %s\n", name);
    abort();
}

static void control_fail(const char *function, long number, CUresult result) {
    lock();
    int i = 0;
    while (i < FAKE_FAILURES && fake.failures[i].function != 0)
        i++;
    if (i == FAKE_FAILURES) abort();
    fake.failures[i].function = function ? find_function(function) + 1 : -1;
    fake.failures[i].left = number;
    fake.failures[i].result = result;
    unlock();
}

static void control_fail_late(long operation, CUresult result) {
    lock();
    fake.late_left = operation;
    fake.late_result = result;
    unlock();
}

static bool is_meant(CUstream s, CUstream wanted) {
    return wanted == FAKE_CUDA_ALL || s == wanted || (wanted == NULL && s->is_default);
}

static void control_delay(CUstream stream, unsigned microseconds) {
    lock();
    if (stream == FAKE_CUDA_ALL) fake.all_delay_us = microseconds;
    for (CUstream s = fake.streams; s; s = s->next)
        if (is_meant(s, stream)) s->delay_us = microseconds;
    unlock();
}

static void control_hold(CUstream stream, bool held) {
    lock();
    if (stream == FAKE_CUDA_ALL) fake.all_held = held;
    for (CUstream s = fake.streams; s; s = s->next)
        if (is_meant(s, stream)) s->held = held;
    unlock();
}

static long control_calls(const char *function) {
    long n = 0;
    lock();
    for (int i = 0; i < FAKE_FUNCTIONS; i++)
        if (function == NULL || strcmp(function, fake__name((fake_function)i)) == 0)
            n += fake.calls[i];
    unlock();
    return n;
}

static long control_operations(void) {
    lock();
    const long n = fake.operations;
    unlock();
    return n;
}

static long control_pageable(void) {
    lock();
    const long n = fake.pageable;
    unlock();
    return n;
}

static unsigned long long control_copied(void) {
    lock();
    const unsigned long long n = fake.copied;
    unlock();
    return n;
}

#define COUNT(list)                                           \
    for (__typeof__(fake.list) x = fake.list; x; x = x->next) \
    n += x->alive

static long control_live(fake_cuda_kind kind) {
    long n = 0;
    lock();
    switch (kind) {
    case FAKE_CUDA_MEMORY:
        for (size_t i = 0; i < fake.n_blocks; i++)
            n += fake.blocks[i].live;
        break;
    case FAKE_CUDA_PINNED: n = (long)fake.n_pins; break;
    case FAKE_CUDA_STREAMS:
        for (CUstream s = fake.streams; s; s = s->next)
            n += s->alive && !s->is_default;
        break;
    case FAKE_CUDA_EVENTS: COUNT(events); break;
    case FAKE_CUDA_MODULES: COUNT(modules); break;
    case FAKE_CUDA_GRAPHS:
        COUNT(graphs);
        COUNT(execs);
        break;
    case FAKE_CUDA_CAPTURES:
        for (const fake_capture *c = fake.captures; c; c = c->next)
            n += !c->ended;
        break;
    case FAKE_CUDA_RETAINED:
        for (CUcontext c = fake.contexts; c; c = c->next)
            n += c->references;
        break;
    case FAKE_CUDA_PUSHED: n = fake_self.depth; break;
    case FAKE_CUDA_KINDS: break;
    }
    unlock();
    return n;
}

static void control_keep_going(bool remember) {
    lock();
    fake.keep_going = remember;
    unlock();
}

static const char *control_violation(void) {
    lock();
    const bool violated = fake.violated;
    if (violated) memcpy(fake_self.violation, fake.violation, sizeof fake.violation);
    fake.violated = false;
    unlock();
    return violated ? fake_self.violation : NULL;
}

static CUresult control_launch(CUstream stream, void (*run)(void *state), const void *state,
                               size_t bytes) {
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;
    lock();
    CUcontext context = fake_self.depth ? fake_self.stack[fake_self.depth - 1] : NULL;
    CUstream own = context ? fake__stream(context, stream) : NULL;
    if (context && context->lost != CUDA_SUCCESS) {
        result = context->lost;
    } else if (own && own->context == context) {
        unsigned char *payload = malloc(bytes + 1);
        if (payload == NULL) abort();
        memcpy(payload, state, bytes);
        const fake_op op = {
            .kind = FAKE_OP_RUN, .run = run, .payload = payload, .payload_bytes = bytes};
        result = fake__queue(own, &op);
        free(payload);
    } else if (context) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    unlock();
    return result;
}

static bool control_is_device(CUdeviceptr address, size_t bytes) {
    lock();
    const bool is = fake__is_device((uintptr_t)address, bytes);
    unlock();
    return is;
}

static CUcontext control_context_new(int device) {
    lock();
    CUcontext context = fake__is_ordinal(device) ? fake__context_new(device, false) : NULL;
    unlock();
    return context;
}

static void control_context_destroy(CUcontext context) {
    lock();
    fake__context_end(context);
    unlock();
}

const fake_cuda *fake_cuda_control(void) {
    static const fake_cuda table = {
        .reset = control_reset,
        .machine = control_machine,
        .set_machine = control_set_machine,
        .kernel = control_kernel,
        .fail = control_fail,
        .fail_late = control_fail_late,
        .delay = control_delay,
        .hold = control_hold,
        .wait_idle = control_wait_idle,
        .calls = control_calls,
        .operations = control_operations,
        .pageable_copies = control_pageable,
        .copied_bytes = control_copied,
        .live = control_live,
        .keep_going = control_keep_going,
        .violation = control_violation,
        .launch = control_launch,
        .is_device = control_is_device,
        .context_new = control_context_new,
        .context_destroy = control_context_destroy,
    };
    return &table;
}
