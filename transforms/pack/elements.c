/*
 * elements.c - any type to any type, element by element.
 *
 * Blocks of 128 elements are widened into one of three number types, multiplied and added there,
 * and narrowed. That needs 13 loads and 13 stores for each number type instead of 169 pairs, at the
 * cost of an L1 round trip. Integers are widened to int64_t. A u64 above INT64_MAX may be clamped
 * to it, because every other type saturates below, and u64 to u64 moves bytes.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "transforms/pack/elements.h"
#include "transforms/pack/half.h"

#define BLOCK 128

bool iter__dtype_is_float(iter_dtype dtype) {
    return dtype == ITER_F16 || dtype == ITER_BF16 || dtype == ITER_F32 || dtype == ITER_F64;
}

static bool is_wide(iter_dtype dtype) {
    return dtype == ITER_F64 || dtype == ITER_U32 || dtype == ITER_I32 || dtype == ITER_U64 ||
           dtype == ITER_I64;
}

iter__kind iter__kind_of(iter_dtype in, iter_dtype out, bool has_affine) {
    if (!has_affine && in == out) return ITER__KIND_RAW;
    if (!has_affine && !iter__dtype_is_float(in) && !iter__dtype_is_float(out))
        return ITER__KIND_INT;
    return is_wide(in) || is_wide(out) ? ITER__KIND_F64 : ITER__KIND_F32;
}

static bool is_signed_integer(iter_dtype dtype) {
    return dtype == ITER_I8 || dtype == ITER_I16 || dtype == ITER_I32 || dtype == ITER_I64;
}

/* Bits that the largest value needs. */
static int integer_bits(iter_dtype dtype) {
    if (dtype == ITER_BOOL) return 1;
    const int bits = 8 * (int)iter_dtype_bytes(dtype);
    return is_signed_integer(dtype) ? bits - 1 : bits;
}

static int float_bits(iter_dtype dtype) {
    return dtype == ITER_BF16 ? 8 : dtype == ITER_F16 ? 11 : dtype == ITER_F32 ? 24 : 53;
}

bool iter__cast_is_exact(iter_dtype from, iter_dtype to) {
    if (from == to) return true;
    const bool from_float = iter__dtype_is_float(from), to_float = iter__dtype_is_float(to);
    if (from_float) {
        if (!to_float || (from == ITER_BF16 && to == ITER_F16)) return false;
        return float_bits(to) >= float_bits(from);
    }
    if (to_float) return integer_bits(from) <= float_bits(to);
    if (is_signed_integer(from) && !is_signed_integer(to)) return false;
    return integer_bits(from) <= integer_bits(to);
}

/* ---- Loads: X(dtype, C type, value as the block's number) ------------------------------------ */

static inline int64_t cut_u64(uint64_t x) {
    return x > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)x;
}

#define FLOAT_LOADS(X, T)                    \
    X(ITER_U8, uint8_t, (T)x)                \
    X(ITER_I8, int8_t, (T)x)                 \
    X(ITER_U16, uint16_t, (T)x)              \
    X(ITER_I16, int16_t, (T)x)               \
    X(ITER_U32, uint32_t, (T)x)              \
    X(ITER_I32, int32_t, (T)x)               \
    X(ITER_U64, uint64_t, (T)x)              \
    X(ITER_I64, int64_t, (T)x)               \
    X(ITER_F16, uint16_t, f32_from_f16(x))   \
    X(ITER_BF16, uint16_t, f32_from_bf16(x)) \
    X(ITER_F32, float, (T)x)                 \
    X(ITER_F64, double, (T)x)                \
    X(ITER_BOOL, uint8_t, (T)(x != 0))

#define INTEGER_LOADS(X)              \
    X(ITER_U8, uint8_t, x)            \
    X(ITER_I8, int8_t, x)             \
    X(ITER_U16, uint16_t, x)          \
    X(ITER_I16, int16_t, x)           \
    X(ITER_U32, uint32_t, x)          \
    X(ITER_I32, int32_t, x)           \
    X(ITER_U64, uint64_t, cut_u64(x)) \
    X(ITER_I64, int64_t, x)           \
    X(ITER_BOOL, uint8_t, x != 0)

#define LOAD_CASE(dtype, type, value)    \
    case dtype:                          \
        for (size_t i = 0; i < n; i++) { \
            type x;                      \
            memcpy(&x, in, sizeof(x));   \
            block[i] = value;            \
            in += stride;                \
        }                                \
        break;

static void load_f32(iter_dtype dtype, float *block, const char *in, ptrdiff_t stride, size_t n) {
    switch ((int)dtype) { FLOAT_LOADS(LOAD_CASE, float) }
}

static void load_f64(iter_dtype dtype, double *block, const char *in, ptrdiff_t stride, size_t n) {
    switch ((int)dtype) { FLOAT_LOADS(LOAD_CASE, double) }
}

static void load_int(iter_dtype dtype, int64_t *block, const char *in, ptrdiff_t stride, size_t n) {
    switch ((int)dtype) { INTEGER_LOADS(LOAD_CASE) }
}

/* ---- Stores: X(dtype, C type, the value of block number x) ----------------------------------- */

/* Rounds to nearest even, saturates, NaN = 0. The limits must be exact in double; f64_to_i64() and
 * f64_to_u64() are for those that are not. */
static inline int64_t round_i64(double x, double low, double high) {
    if (!(x > low)) return x != x ? 0 : (int64_t)low;
    if (x >= high) return (int64_t)high;
    return (int64_t)nearbyint(x);
}

static inline int64_t f64_to_i64(double x) {
    if (!(x > -0x1p63)) return x != x ? 0 : INT64_MIN;
    return x >= 0x1p63 ? INT64_MAX : (int64_t)nearbyint(x);
}

static inline uint64_t f64_to_u64(double x) {
    if (!(x > 0)) return 0;
    return x >= 0x1p64 ? UINT64_MAX : (uint64_t)nearbyint(x);
}

static inline int64_t clamp_i64(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

#define FLOAT_TO_INTEGER_STORES(X)                                           \
    X(ITER_U8, uint8_t, (uint8_t)round_i64(x, 0, 255))                       \
    X(ITER_I8, int8_t, (int8_t)round_i64(x, -128, 127))                      \
    X(ITER_U16, uint16_t, (uint16_t)round_i64(x, 0, 65535))                  \
    X(ITER_I16, int16_t, (int16_t)round_i64(x, -32768, 32767))               \
    X(ITER_U32, uint32_t, (uint32_t)round_i64(x, 0, 4294967295.0))           \
    X(ITER_I32, int32_t, (int32_t)round_i64(x, -2147483648.0, 2147483647.0)) \
    X(ITER_U64, uint64_t, f64_to_u64(x))                                     \
    X(ITER_I64, int64_t, f64_to_i64(x))                                      \
    X(ITER_BOOL, uint8_t, x != 0)

#define INTEGER_STORES(X)                                             \
    X(ITER_U8, uint8_t, (uint8_t)clamp_i64(x, 0, UINT8_MAX))          \
    X(ITER_I8, int8_t, (int8_t)clamp_i64(x, INT8_MIN, INT8_MAX))      \
    X(ITER_U16, uint16_t, (uint16_t)clamp_i64(x, 0, UINT16_MAX))      \
    X(ITER_I16, int16_t, (int16_t)clamp_i64(x, INT16_MIN, INT16_MAX)) \
    X(ITER_U32, uint32_t, (uint32_t)clamp_i64(x, 0, UINT32_MAX))      \
    X(ITER_I32, int32_t, (int32_t)clamp_i64(x, INT32_MIN, INT32_MAX)) \
    X(ITER_U64, uint64_t, x < 0 ? 0 : (uint64_t)x)                    \
    X(ITER_I64, int64_t, x)                                           \
    X(ITER_BOOL, uint8_t, x != 0)

#define STORE_CASE(dtype, type, value)   \
    case dtype:                          \
        for (size_t i = 0; i < n; i++) { \
            const type y = value;        \
            memcpy(out, &y, sizeof(y));  \
            out += stride;               \
        }                                \
        break;

#define STORE_X(dtype, type, value) STORE_CASE(dtype, type, (x = block[i], value))

static void store_f32(iter_dtype dtype, char *out, ptrdiff_t stride, const float *block, size_t n) {
    float x;
    switch ((int)dtype) {
        FLOAT_TO_INTEGER_STORES(STORE_X)
        STORE_X(ITER_F16, uint16_t, f16_from_f32(x))
        STORE_X(ITER_BF16, uint16_t, bf16_from_f32(x))
        STORE_X(ITER_F32, float, x)
        STORE_X(ITER_F64, double, x)
    }
}

static void store_f64(iter_dtype dtype, char *out, ptrdiff_t stride, const double *block,
                      size_t n) {
    double x;
    switch ((int)dtype) {
        FLOAT_TO_INTEGER_STORES(STORE_X)
        STORE_X(ITER_F16, uint16_t, f16_from_f64(x))
        STORE_X(ITER_BF16, uint16_t, bf16_from_f64(x))
        STORE_X(ITER_F32, float, (float)x)
        STORE_X(ITER_F64, double, x)
    }
}

static void store_int(iter_dtype dtype, char *out, ptrdiff_t stride, const int64_t *block,
                      size_t n) {
    int64_t x;
    switch ((int)dtype) { INTEGER_STORES(STORE_X) }
}

/* ---- The three number types ------------------------------------------------------------------ */

static void copy_raw(size_t bytes, const char *in, ptrdiff_t in_stride, char *out,
                     ptrdiff_t out_stride, size_t n) {
    if (in_stride == (ptrdiff_t)bytes && out_stride == (ptrdiff_t)bytes) {
        if (n) memcpy(out, in, n * bytes);
        return;
    }
    switch (bytes) {
#define COPY_CASE(width)                 \
    case width:                          \
        for (size_t i = 0; i < n; i++) { \
            memcpy(out, in, width);      \
            in += in_stride;             \
            out += out_stride;           \
        }                                \
        break;
        COPY_CASE(1)
        COPY_CASE(2)
        COPY_CASE(4)
        COPY_CASE(8)
    }
}

static void affine_f32(float *block, size_t n, float a, float b) {
    for (size_t i = 0; i < n; i++)
        block[i] = block[i] * a + b;
}

static void affine_f64(double *block, size_t n, double a, double b) {
    for (size_t i = 0; i < n; i++)
        block[i] = block[i] * a + b;
}

void iter__elements_convert(iter_dtype in_type, iter_dtype out_type, iter__kind kind,
                            const void *in, ptrdiff_t in_stride, void *out, ptrdiff_t out_stride,
                            size_t n, double a, double b) {
    const char *from = in;
    char *to = out;
    if (kind == ITER__KIND_RAW) {
        copy_raw(iter_dtype_bytes(in_type), from, in_stride, to, out_stride, n);
        return;
    }
    union {
        float f32[BLOCK];
        double f64[BLOCK];
        int64_t i64[BLOCK];
    } block;
    while (n > 0) {
        const size_t m = n < BLOCK ? n : BLOCK;
        if (kind == ITER__KIND_F32) {
            load_f32(in_type, block.f32, from, in_stride, m);
            affine_f32(block.f32, m, (float)a, (float)b);
            store_f32(out_type, to, out_stride, block.f32, m);
        } else if (kind == ITER__KIND_F64) {
            load_f64(in_type, block.f64, from, in_stride, m);
            affine_f64(block.f64, m, a, b);
            store_f64(out_type, to, out_stride, block.f64, m);
        } else {
            load_int(in_type, block.i64, from, in_stride, m);
            store_int(out_type, to, out_stride, block.i64, m);
        }
        from += (ptrdiff_t)m * in_stride;
        to += (ptrdiff_t)m * out_stride;
        n -= m;
    }
}

void iter__element_from_f64(iter_dtype type, double x, void *out) {
    store_f64(type, out, 0, &x, 1);
}

void iter__element_from_f32(iter_dtype type, float x, void *out) {
    store_f32(type, out, 0, &x, 1);
}
