/*
 * fake_library_calls.h - counters and checks of the fakes of both libraries: include it once per
 * library, with FAKE_CALLS(X) naming its calls. Thread-safe, as the libraries are.
 */
#ifndef TESTS_FAKE_LIBRARY_CALLS_H
#define TESTS_FAKE_LIBRARY_CALLS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/cuda/kernel_args.h" /* engine_type */
#include "tests/fake/fake_cuda.h"
#include "tests/fake/fake_library.h"
#include "transforms/pack/half.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

typedef struct fake_calls {
    pthread_mutex_t lock; /* of all that follows */
    long n, n_live;
    struct {
        const char *name;
        long n;
    } of[96];
    const char *fail_function; /* points to the caller's copy of the name */
    long fail_call;            /* -1 = none */
    unsigned fail_status;
    size_t version;
} fake_calls;

#define FAKE_CALLS_INIT(v) \
    { .lock = PTHREAD_MUTEX_INITIALIZER, .fail_call = -1, .version = (v) }

static inline long fake__find_call(const fake_calls *c, const char *name) {
    long i = 0;
    while (i < 95 && c->of[i].name && strcmp(c->of[i].name, name) != 0)
        i++;
    return i;
}

/* Counts a call. Returns false if the call must return *out_status. */
static inline bool fake_calls_begin(fake_calls *c, const char *name, unsigned *out_status) {
    pthread_mutex_lock(&c->lock);
    const long i = fake__find_call(c, name);
    c->of[i].name = name;
    c->of[i].n++;
    c->n++;
    bool fails = c->fail_call >= 0 && (!c->fail_function || strcmp(c->fail_function, name) == 0);
    if (fails) fails = c->fail_call-- == 0;
    if (fails) *out_status = c->fail_status;
    pthread_mutex_unlock(&c->lock);
    return !fails;
}

static inline long fake_calls_count(fake_calls *c, const char *name) {
    pthread_mutex_lock(&c->lock);
    const long i = name ? fake__find_call(c, name) : 0;
    const long n = !name                                               ? c->n
                   : c->of[i].name && strcmp(c->of[i].name, name) == 0 ? c->of[i].n
                                                                       : 0;
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* Adds to the handles that live, and returns their number. */
static inline long fake_calls_live(fake_calls *c, int add) {
    pthread_mutex_lock(&c->lock);
    const long n = c->n_live += add;
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* The next `call` calls of `function` (NULL = any) succeed, and the one after returns `status`. */
static inline void fake_calls_fail(fake_calls *c, const char *function, long call,
                                   unsigned status) {
    pthread_mutex_lock(&c->lock);
    c->fail_function = function;
    c->fail_call = call;
    c->fail_status = status;
    pthread_mutex_unlock(&c->lock);
}

/* The version that the library says it has. 0 = as it is. */
static inline size_t fake_calls_version(fake_calls *c, size_t version) {
    pthread_mutex_lock(&c->lock);
    if (version != 0) c->version = version;
    version = c->version;
    pthread_mutex_unlock(&c->lock);
    return version;
}

/* Forgets all calls. Handles and version stay. */
static inline void fake_calls_reset(fake_calls *c) {
    pthread_mutex_lock(&c->lock);
    c->n = 0;
    memset(c->of, 0, sizeof(c->of));
    c->fail_function = NULL;
    c->fail_call = -1;
    c->fail_status = 0;
    pthread_mutex_unlock(&c->lock);
}

/* Defines `control`(), which returns the fake_library of these calls. */
#define FAKE_CONTROL(control, of, kernels)                                                    \
    static void reset(void) {                                                                 \
        fake_calls_reset(of);                                                                 \
    }                                                                                         \
    static void set_version(size_t version) {                                                 \
        fake_calls_version((of), version);                                                    \
    }                                                                                         \
    static void fail(const char *function, long call, unsigned status) {                      \
        fake_calls_fail((of), function, call, status);                                        \
    }                                                                                         \
    static long count(const char *function) {                                                 \
        return fake_calls_count((of), function);                                              \
    }                                                                                         \
    static long live(void) {                                                                  \
        return fake_calls_live((of), 0);                                                      \
    }                                                                                         \
    const fake_library *control(void) {                                                       \
        static const fake_library library = {reset, set_version, fail, count, live, kernels}; \
        return &library;                                                                      \
    }

/* The driver below, and whether this thread has a context. */
static inline const fake_cuda *fake_driver(void) {
    const fake_cuda *fake = fake_cuda_get();
    if (fake) return fake;
    fprintf(stderr, "a fake library over a driver that is none\n");
    abort();
}

static inline bool fake_has_context(void) {
    void *library = dlopen(ITER_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuCtxGetCurrent") : NULL;
    CUresult (*get)(CUcontext * context);
    CUcontext context = NULL;
    if (!symbol) return false;
    memcpy(&get, &symbol, sizeof(get));
    return get(&context) != CUDA_SUCCESS || context; /* if it fails, the driver reports that */
}

static inline bool fake_check(bool ok, const char *function, const char *what) {
    if (!ok) fprintf(stderr, "%s: %s\n", function, what);
    return ok;
}

/* Whether it is device memory, and aligned. */
static inline bool fake_check_memory(const void *at, size_t bytes, size_t alignment,
                                     const char *function, const char *what) {
    const bool ok = at && (uintptr_t)at % alignment == 0 &&
                    fake_driver()->is_device((CUdeviceptr)(uintptr_t)at, bytes);
    if (!ok)
        fprintf(stderr, "%s: %s: %p is not %zu bytes of the device, aligned to %zu\n", function,
                what, at, bytes, alignment);
    return ok;
}

static inline size_t fake_bytes(engine_type type) {
    return type == ENGINE_F32 ? 4 : 2;
}

static inline double fake_number(const void *at, int64_t i, engine_type type) {
    const uint16_t *narrow = at;
    return type == ENGINE_F32   ? (double)((const float *)at)[i]
           : type == ENGINE_F16 ? (double)f32_from_f16(narrow[i])
                                : (double)f32_from_bits((uint32_t)narrow[i] << 16);
}

/* TF32: an f32 with 10 bits after the binary point, to the nearest, ties to even. */
static inline double fake_tf32(double number) {
    const float f = (float)number;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    if ((bits & 0x7f800000u) == 0x7f800000u) return number; /* infinite or NaN */
    bits = (bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu;
    float rounded;
    memcpy(&rounded, &bits, sizeof(rounded));
    return (double)rounded;
}

/* A number as a factor of a product on tensor cores, or elsewhere. */
static inline double fake_factor(const void *at, int64_t i, engine_type type, bool tf32) {
    const double number = fake_number(at, i, type);
    return tf32 ? fake_tf32(number) : number;
}

static inline void fake_put(void *at, int64_t i, double value, engine_type type) {
    if (type == ENGINE_F32)
        ((float *)at)[i] = (float)value;
    else
        ((uint16_t *)at)[i] =
            type == ENGINE_F16 ? f16_from_f32((float)value) : bf16_from_f32((float)value);
}

#endif
