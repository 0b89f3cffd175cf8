/*
 * reference.h - the image and value stages, naively: one stage after the other over doubles, no
 * folding, no SIMD.
 *
 * Each value also remembers its source value x and its factors a and b, because the bound for f32
 * results is stated in |a x| + |b|.
 */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include <iter/tensor.h>

#include "iter/spec/chain.h"
#include "iter/spec/pack.h"

typedef struct reference_value {
    double x, a, b; /* the value is a * x + b */
} reference_value;

typedef struct reference_image {
    int64_t height, width, channels;
    int is_hwc;
    iter_dtype dtype;
    reference_value *values; /* [channels][height][width] */
} reference_image;

/* Element i of dense memory of any type, as double. */
double reference_load(iter_dtype dtype, const void *data, int64_t i);

/* The nearest value of a type: integers by rint and saturation (NaN = 0), floats to nearest
 * even. */
double reference_round(iter_dtype dtype, double x);

/* Distance from |x| to the next larger value of a float type. */
double reference_ulp(iter_dtype dtype, double x);

/* Integers: equal. f32, f64: within 4 * 2^-24 * (|a x| + |b|). f16, bf16: within one unit in the
 * last place of a x + b rounded once. */
int reference_is_close(iter_dtype dtype, double got, reference_value want);

/* Random numbers for sources, and one random element: any bits for integers, numbers of moderate
 * size for floats. */
uint64_t reference_u64(uint64_t *state);
void reference_random(uint64_t *state, iter_dtype dtype, void *out);

/* Reads dense memory; a field without an image layout becomes one row. Free it with
 * reference_free(). */
reference_image reference_image_from(const iter_desc *desc, const void *data);
void reference_free(reference_image *image);

/* Applies one stage with this sample's random numbers. Returns 0 if it does not know the stage. */
int reference_apply(reference_image *image, const iter__stage *stage,
                    const iter__pack_sample *sample);

/* The value of element i of the dense result; i counts in memory order of the image's layout. */
reference_value reference_at(const reference_image *image, int64_t i);

#endif
