/*
 * plant_turn.c - a user's own dataset that lets in one worker at a time: its get() copies rows from
 * arrays and takes time for each.
 *
 * The table has neither start() nor stop(): so a dataset tells that two workers must not call it at
 * once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/common/bench_util.h"
#include "bench/measure/arm.h"
#include "bench/verdict/plant.h"

#define ARRAYS_BYTES ((uint64_t)64 << 20) /* of the set, at most */

typedef struct turn_set {
    bench_arrays arrays;
    double us; /* per row */
} turn_set;

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    const turn_set *set = user;
    (void)err;
    out->n_samples = set->arrays.n_rows;
    out->n_fields = set->arrays.n_arrays;
    for (int32_t f = 0; f < out->n_fields; f++) {
        const iter_array *array = &set->arrays.arrays[f];
        iter_field *field = &out->fields[f];
        snprintf(field->name, sizeof(field->name), "%s", array->name);
        field->role = array->role;
        field->extent = ITER_FROM_INDEX;
        field->desc = array->desc;
        field->desc.n_dims = array->desc.n_dims - 1;
        memmove(field->desc.dims, array->desc.dims + 1,
                (size_t)field->desc.n_dims * sizeof(field->desc.dims[0]));
        if (field->desc.layout[0] == 'N') /* remove the batch dimension's letter, too */
            memmove(field->desc.layout, array->desc.layout + 1, strlen(array->desc.layout));
    }
    return ITER_OK;
}

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    const turn_set *set = user;
    (void)state, (void)rng, (void)err;
    for (uint32_t i = 0; i < n; i++) {
        const double until = thread_us() + set->us;
        for (int32_t f = 0; f < set->arrays.n_arrays; f++) {
            const size_t bytes = set->arrays.bytes[f] / set->arrays.n_rows;
            const size_t stride = (size_t)rows[f].strides[0] * iter_dtype_bytes(rows[f].desc.dtype);
            memcpy((char *)rows[f].data + i * stride,
                   (const char *)set->arrays.arrays[f].data + indices[i] * bytes, bytes);
        }
        while (thread_us() < until) {
        }
    }
    return ITER_OK;
}

static void close_set(void *user) {
    turn_set *set = user;
    bench_arrays_free(&set->arrays);
    free(set);
}

static const iter_dataset_ops one_at_a_time = {.struct_size = sizeof(iter_dataset_ops),
                                               .name = "one-at-a-time",
                                               .describe = describe,
                                               .get = get,
                                               .close = close_set};

iter_status plant_turn(const bench_options *options, double us, iter_dataset **out,
                       iter_error *err) {
    turn_set *set = calloc(1, sizeof(*set));
    *out = NULL;
    if (set == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    set->us = us;
    iter_status s = bench_arrays_load(options, ARRAYS_BYTES, &set->arrays, err);
    if (s == ITER_OK) s = iter_dataset_create(&one_at_a_time, set, out, err);
    if (s < 0) close_set(set);
    return s;
}
