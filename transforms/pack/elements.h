/* elements.h - any type to any type, element by element: for pairs of types without a SIMD kernel,
 * and the reference for those with one. */
#ifndef ITER_TRANSFORMS_PACK_ELEMENTS_H
#define ITER_TRANSFORMS_PACK_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include <iter/tensor.h>

/* The numbers that a conversion is computed in. */
typedef enum iter__kind {
    ITER__KIND_RAW, /* same type, no arithmetic: bytes */
    ITER__KIND_INT, /* integer to integer, no arithmetic: exact, saturating */
    ITER__KIND_F32,
    ITER__KIND_F64 /* if either side is f64 or an integer of 32 or 64 bits */
} iter__kind;

iter__kind iter__kind_of(iter_dtype in, iter_dtype out, bool has_affine);

bool iter__dtype_is_float(iter_dtype dtype);

/* The type after arithmetic on `dtype`: f64 stays f64, everything else becomes f32. */
static inline iter_dtype iter__dtype_arithmetic(iter_dtype dtype) {
    return dtype == ITER_F64 ? ITER_F64 : ITER_F32;
}

/* Whether `to` has every value of `from`. */
bool iter__cast_is_exact(iter_dtype from, iter_dtype to);

/* out[i] = in[i] * a + b, i < n. Strides are in bytes; any alignment. If there is no factor and no
 * bias, the caller passes a = 1, b = -0.0, which keep every bit. */
void iter__elements_convert(iter_dtype in_type, iter_dtype out_type, iter__kind kind,
                            const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride,
                            size_t n, double a, double b);

/* Write one element: from f64, rounded once; from f32, as the kernels do. */
void iter__element_from_f64(iter_dtype type, double x, void *out);
void iter__element_from_f32(iter_dtype type, float x, void *out);

#endif
