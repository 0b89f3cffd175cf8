/*
 * cpu_kernels_generic.c - the kernels in portable C, with the compiler's vectors of four.
 */
#include "engine/cpu/kernels/cpu_kernels.h"

#include <math.h>
#include <string.h>

#define LANES      4
#define LEVEL      generic
#define LEVEL_NAME "generic"

typedef float vec __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));

static inline vec all(float x) {
    return (vec){x, x, x, x};
}

static inline vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v) {
    memcpy(p, &v, sizeof v);
}

static inline vec load_some(const float *p, int64_t n) {
    vec v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

static inline void store_some(float *p, vec v, int64_t n) {
    memcpy(p, &v, (size_t)n * sizeof(float));
}

static inline vec fma_of(vec a, vec b, vec c) {
    return a * b + c;
}

static inline vec quotient(vec a, vec b) {
    return a / b;
}

/* m / (sqrt(v) + epsilon) */
static inline vec over_root(vec m, vec v, vec epsilon) {
    for (int i = 0; i < LANES; i++)
        v[i] = sqrtf(v[i]);
    return m / (v + epsilon);
}

static inline vec pick(ints mask, vec yes, vec no) {
    return (vec)((mask & (ints)yes) | (~mask & (ints)no));
}

#include "engine/cpu/kernels/cpu_math_body.h"

#include "engine/cpu/kernels/cpu_gates_body.h"
#include "engine/cpu/kernels/cpu_update_body.h"

#include "engine/cpu/kernels/cpu_table_body.h"
