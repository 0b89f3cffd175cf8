/*
 * fake_cuda.c - the fake driver's state, the common part of all its calls, and the calls for
 * errors, devices and contexts.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/fake_cuda_internal.h"

#define GIB ((size_t)1 << 30)

const fake_cuda_machine fake__usual = {
    .version = 13000,
    .n_devices = 1,
    .capability = 90,
    .ptx_version = 90,
    .memory_bytes = 8 * GIB,
    .pinned_bytes = 8 * GIB,
};

fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .machine = {13000, 1, 90, 90, 8 * GIB, 8 * GIB},
    .late_left = -1,
};

static pthread_key_t thread_key;

static void make_key(void) {
    if (pthread_key_create(&thread_key, free) != 0) abort();
}

fake_thread *fake__thread(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    fake_thread *thread = pthread_getspecific(thread_key);
    if (thread) return thread;
    thread = calloc(1, sizeof *thread);
    if (thread == NULL || pthread_setspecific(thread_key, thread) != 0) abort();
    return thread;
}

static const char *const names[FAKE_FUNCTIONS] = {
#define ITER_X(name, suffix, parameters) #name,
    ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
        "cuGetProcAddress",
};

/* The state in which a call is allowed, apart from its own checks. */
enum {
    EARLY = 1,    /* allowed before cuInit */
    FREE = 2,     /* allowed without a current context */
    UNSAFE = 4,   /* not allowed during a capture */
    RELEASES = 8, /* takes effect even if it must fail */
};

static const unsigned char rules[FAKE_FUNCTIONS] = {
    [FAKE_cuInit] = EARLY | FREE,
    [FAKE_cuDriverGetVersion] = EARLY | FREE,
    [FAKE_cuGetErrorName] = EARLY | FREE,
    [FAKE_cuGetErrorString] = EARLY | FREE,
    [FAKE_cuGetProcAddress] = EARLY | FREE,
    [FAKE_cuDeviceGetCount] = FREE,
    [FAKE_cuDeviceGet] = FREE,
    [FAKE_cuDeviceGetName] = FREE,
    [FAKE_cuDeviceGetUuid] = FREE,
    [FAKE_cuDeviceGetAttribute] = FREE,
    [FAKE_cuDevicePrimaryCtxRetain] = FREE,
    [FAKE_cuDevicePrimaryCtxRelease] = FREE | RELEASES,
    [FAKE_cuDevicePrimaryCtxGetState] = FREE,
    [FAKE_cuCtxGetCurrent] = FREE,
    [FAKE_cuCtxSetCurrent] = FREE,
    [FAKE_cuCtxPushCurrent] = FREE,
    [FAKE_cuCtxPopCurrent] = FREE | RELEASES,
    [FAKE_cuThreadExchangeStreamCaptureMode] = FREE,
    [FAKE_cuPointerGetAttribute] = FREE,
    [FAKE_cuCtxSynchronize] = UNSAFE,
    [FAKE_cuMemAlloc] = UNSAFE,
    [FAKE_cuMemFree] = UNSAFE | RELEASES,
    [FAKE_cuMemHostAlloc] = UNSAFE,
    [FAKE_cuMemFreeHost] = UNSAFE | RELEASES,
    [FAKE_cuMemHostRegister] = UNSAFE,
    [FAKE_cuMemHostUnregister] = UNSAFE | RELEASES,
    [FAKE_cuMemcpyDtoH] = UNSAFE,
    [FAKE_cuStreamDestroy] = RELEASES,
    [FAKE_cuStreamSynchronize] = UNSAFE,
    [FAKE_cuStreamQuery] = UNSAFE,
    [FAKE_cuEventDestroy] = RELEASES,
    [FAKE_cuEventQuery] = UNSAFE,
    [FAKE_cuEventSynchronize] = UNSAFE,
    [FAKE_cuModuleLoadDataEx] = UNSAFE,
    [FAKE_cuModuleUnload] = UNSAFE | RELEASES,
    [FAKE_cuGraphExecDestroy] = RELEASES,
    [FAKE_cuGraphDestroy] = RELEASES,
};

/* ---- Calls ----------------------------------------------------------------------------------- */

const char *fake__name(fake_function function) {
    return names[function];
}

void fake__violation(const char *format, ...) {
    char text[sizeof fake.violation];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!fake.keep_going) {
        fprintf(stderr, "fake CUDA driver: violation: %s\n", text);
        abort();
    }
    if (fake.violated) return;
    fake.violated = true;
    memcpy(fake.violation, text, sizeof text);
}

static CUresult injected(fake_function function) {
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < FAKE_FAILURES; i++) {
        if (fake.failures[i].function != -1 && fake.failures[i].function != (int)function + 1)
            continue;
        if (fake.failures[i].left-- > 0) continue;
        fake.failures[i].function = 0;
        result = fake.failures[i].result;
    }
    return result;
}

bool fake__begin(fake_call *call, fake_function function) {
    const unsigned rule = rules[function];
    pthread_mutex_lock(&fake.lock);
    *call = (fake_call){.function = function, .result = CUDA_SUCCESS};
    if (fake_self.depth) call->context = fake_self.stack[fake_self.depth - 1];
    fake.calls[function]++;
    call->refused = injected(function);
    if (call->refused != CUDA_SUCCESS) return (rule & RELEASES) != 0;
    if (!(rule & EARLY) && !fake.started) {
        call->refused = CUDA_ERROR_NOT_INITIALIZED;
        return false;
    }
    if (!(rule & FREE)) {
        if (call->context == NULL) {
            call->refused = CUDA_ERROR_INVALID_CONTEXT;
            return false;
        }
        if (!call->context->alive) {
            call->refused = CUDA_ERROR_CONTEXT_IS_DESTROYED;
            return false;
        }
        if (call->context->lost != CUDA_SUCCESS) {
            fake__wait_running(call->context);
            call->refused = call->context->lost;
            return (rule & RELEASES) != 0;
        }
    }
    if (rule & UNSAFE) call->refused = fake__check_unsafe();
    return call->refused == CUDA_SUCCESS;
}

CUresult fake__end(fake_call *call) {
    pthread_mutex_unlock(&fake.lock);
    return call->refused != CUDA_SUCCESS ? call->refused : call->result;
}

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *found) {
    static const struct {
        const char *name;
        void (*function)(void);
    } table[] = {
#define ITER_X(name, suffix, parameters) {#name, (void (*)(void))name##suffix},
        ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
    };
    fake_call call;
    *out = NULL;
    if (fake__begin(&call, FAKE_cuGetProcAddress)) {
        call.result = CUDA_ERROR_NOT_FOUND;
        if (found) *found = 1;
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            if (strcmp(name, table[i].name) != 0 || version < 12000 || flags != 0) continue;
            memcpy(out, &table[i].function, sizeof *out);
            if (found) *found = CU_GET_PROC_ADDRESS_SUCCESS;
            call.result = CUDA_SUCCESS;
        }
    }
    return fake__end(&call);
}

/* ---- Errors, devices ------------------------------------------------------------------------- */

CUresult cuInit(unsigned flags) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuInit)) {
        const char *n = getenv("FAKE_CUDA_DEVICES");
        if (n && !fake.started) fake.machine.n_devices = atoi(n);
        if (flags != 0) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else if (fake.machine.n_devices == 0) {
            call.result = CUDA_ERROR_NO_DEVICE;
        } else {
            fake.started = true;
        }
    }
    return fake__end(&call);
}

CUresult cuDriverGetVersion(int *version) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDriverGetVersion)) *version = fake.machine.version;
    return fake__end(&call);
}

static const char *error_name(CUresult result) {
    switch (result) {
#define ITER_X(name, value) \
    case value: return #name;
        ITER_X(CUDA_SUCCESS, 0)
        ITER_X(CUDA_ERROR_INVALID_VALUE, 1)
        ITER_X(CUDA_ERROR_OUT_OF_MEMORY, 2)
        ITER_X(CUDA_ERROR_NOT_INITIALIZED, 3)
        ITER_X(CUDA_ERROR_STUB_LIBRARY, 34)
        ITER_X(CUDA_ERROR_NO_DEVICE, 100)
        ITER_X(CUDA_ERROR_INVALID_DEVICE, 101)
        ITER_X(CUDA_ERROR_INVALID_IMAGE, 200)
        ITER_X(CUDA_ERROR_INVALID_CONTEXT, 201)
        ITER_X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)
        ITER_X(CUDA_ERROR_INVALID_PTX, 218)
        ITER_X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)
        ITER_X(CUDA_ERROR_INVALID_HANDLE, 400)
        ITER_X(CUDA_ERROR_NOT_FOUND, 500)
        ITER_X(CUDA_ERROR_NOT_READY, 600)
        ITER_X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)
        ITER_X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)
        ITER_X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)
        ITER_X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)
        ITER_X(CUDA_ERROR_LAUNCH_FAILED, 719)
        ITER_X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)
        ITER_X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)
        ITER_X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)
        ITER_X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)
        ITER_X(CUDA_ERROR_UNKNOWN, 999)
#undef ITER_X
    default: return NULL;
    }
}

CUresult cuGetErrorName(CUresult result, const char **text) {
    fake_call call;
    *text = NULL;
    if (fake__begin(&call, FAKE_cuGetErrorName)) {
        *text = error_name(result);
        if (*text == NULL) call.result = CUDA_ERROR_INVALID_VALUE;
    }
    return fake__end(&call);
}

CUresult cuGetErrorString(CUresult result, const char **text) {
    fake_call call;
    *text = NULL;
    if (fake__begin(&call, FAKE_cuGetErrorString)) {
        *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "as the fake has it";
        if (error_name(result) == NULL) call.result = CUDA_ERROR_INVALID_VALUE;
    }
    return fake__end(&call);
}

bool fake__is_ordinal(CUdevice device) {
    return device >= 0 && device < fake.machine.n_devices && device < 16;
}

CUresult cuDeviceGetCount(int *count) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDeviceGetCount)) *count = fake.machine.n_devices;
    return fake__end(&call);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDeviceGet)) {
        *device = ordinal;
        if (!fake__is_ordinal(ordinal)) call.result = CUDA_ERROR_INVALID_DEVICE;
    }
    return fake__end(&call);
}

CUresult cuDeviceGetName(char *name, int capacity, CUdevice device) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDeviceGetName)) {
        if (!fake__is_ordinal(device) || capacity <= 0) {
            call.result = CUDA_ERROR_INVALID_DEVICE;
        } else {
            snprintf(name, (size_t)capacity, "Fake GPU");
        }
    }
    return fake__end(&call);
}

CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice device) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDeviceGetUuid)) {
        *id = (CUuuid){"Fake GPU 0"};
        id->bytes[9] = (char)('0' + device);
        if (!fake__is_ordinal(device)) call.result = CUDA_ERROR_INVALID_DEVICE;
    }
    return fake__end(&call);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDeviceGetAttribute)) {
        if (!fake__is_ordinal(device)) call.result = CUDA_ERROR_INVALID_DEVICE;
        switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = fake.machine.capability / 10;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = fake.machine.capability % 10;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
        default: call.result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    return fake__end(&call);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

CUcontext fake__context_new(int device, bool primary) {
    CUcontext context = calloc(1, sizeof *context);
    if (context == NULL) abort();
    context->device = device;
    context->primary = primary;
    context->alive = true;
    context->next = fake.contexts;
    fake.contexts = context;
    return context;
}

void fake__context_end(CUcontext context) {
    context->alive = false;
    /* ends the thread of the stream */
    if (context->default_stream) context->default_stream->alive = false;
    pthread_cond_broadcast(&fake.changed);
}

static CUcontext find_primary(CUdevice device) {
    for (CUcontext c = fake.contexts; c; c = c->next)
        if (c->primary && c->alive && c->device == device) return c;
    return NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    fake_call call;
    *context = NULL;
    if (fake__begin(&call, FAKE_cuDevicePrimaryCtxRetain)) {
        if (fake__is_ordinal(device)) {
            CUcontext primary = find_primary(device);
            if (primary == NULL) primary = fake__context_new(device, true);
            primary->references++;
            *context = primary;
        } else {
            call.result = CUDA_ERROR_INVALID_DEVICE;
        }
    }
    return fake__end(&call);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDevicePrimaryCtxRelease)) {
        CUcontext primary = find_primary(device);
        if (primary == NULL) {
            call.result = CUDA_ERROR_INVALID_CONTEXT;
        } else if (--primary->references == 0) {
            fake__context_end(primary);
        }
    }
    return fake__end(&call);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuDevicePrimaryCtxGetState)) {
        if (!fake__is_ordinal(device)) call.result = CUDA_ERROR_INVALID_DEVICE;
        *flags = CU_CTX_SCHED_AUTO;
        *active = find_primary(device) != NULL;
    }
    return fake__end(&call);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    fake_call call;
    *context = NULL;
    if (fake__begin(&call, FAKE_cuCtxGetCurrent)) *context = call.context;
    return fake__end(&call);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuCtxSetCurrent)) {
        if (context && !context->alive) {
            call.result = CUDA_ERROR_INVALID_CONTEXT;
        } else if (context == NULL) {
            if (fake_self.depth) fake_self.depth--;
        } else {
            if (fake_self.depth == 0) fake_self.depth = 1;
            fake_self.stack[fake_self.depth - 1] = context;
        }
    }
    return fake__end(&call);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuCtxPushCurrent)) {
        if (context == NULL || !context->alive || fake_self.depth == FAKE_STACK) {
            call.result = CUDA_ERROR_INVALID_CONTEXT;
        } else {
            fake_self.stack[fake_self.depth++] = context;
        }
    }
    return fake__end(&call);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuCtxPopCurrent)) {
        if (fake_self.depth == 0) {
            call.result = CUDA_ERROR_INVALID_CONTEXT;
        } else {
            fake_self.depth--;
            if (context) *context = call.context;
        }
    }
    return fake__end(&call);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuCtxGetDevice)) *device = call.context->device;
    return fake__end(&call);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    fake_call call;
    if (fake__begin(&call, FAKE_cuThreadExchangeStreamCaptureMode)) {
        const CUstreamCaptureMode old = fake_self.mode;
        if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
            call.result = CUDA_ERROR_INVALID_VALUE;
        } else {
            fake_self.mode = *mode;
            *mode = old;
        }
    }
    return fake__end(&call);
}
