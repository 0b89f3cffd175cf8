/*
 * tensor.h - element types, shapes and tensors.
 *
 * A shape is written dtype [dims] "LAYOUT", slowest dimension first: u8 [3, 32, 32] "CHW".
 */
#ifndef ITER_TENSOR_H
#define ITER_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

ITER_BEGIN_DECLS

/** Every element type: X(name, code, bytes, text). Codes are stable: they enter hashes and saved
 * positions. */
#define ITER_DTYPE_MAP(X)  \
    X(U8, 1, 1, "u8")      \
    X(I8, 2, 1, "i8")      \
    X(U16, 3, 2, "u16")    \
    X(I16, 4, 2, "i16")    \
    X(U32, 5, 4, "u32")    \
    X(I32, 6, 4, "i32")    \
    X(U64, 7, 8, "u64")    \
    X(I64, 8, 8, "i64")    \
    X(F16, 9, 2, "f16")    \
    X(BF16, 10, 2, "bf16") \
    X(F32, 11, 4, "f32")   \
    X(F64, 12, 8, "f64")   \
    X(BOOL, 13, 1, "bool")

typedef enum iter_dtype {
    ITER_DTYPE_NONE = 0,
#define ITER_X(name, code, bytes, text) ITER_##name = (code),
    ITER_DTYPE_MAP(ITER_X)
#undef ITER_X
} iter_dtype;

#define ITER_MAX_DIMS 8

/** In desc.dims[0] of a sample: its length varies from sample to sample, up to desc.capacity.
 * Images of any size have it in dims[0] and dims[1], and capacity 0. */
#define ITER_VARIABLE (-1)

/** The type and shape of a tensor. Zero bytes = no tensor. */
typedef struct iter_desc {
    iter_dtype dtype;
    int32_t n_dims; /* 0 = a scalar */
    int64_t dims[ITER_MAX_DIMS];
    int64_t capacity; /* the largest dims[0] if only that is ITER_VARIABLE, else 0 */
    /* a letter a dimension, e.g. "CHW", "NCHW", "T"; "" = unnamed */
    char layout[ITER_MAX_DIMS + 8];
} iter_desc;

/** Elements in memory. The function that returns the tensor says which object owns `data`. */
typedef struct iter_tensor {
    iter_desc desc;
    int64_t strides[ITER_MAX_DIMS]; /* elements from one index to the next, per dimension */
    void *data;                     /* first element */
} iter_tensor;

/** Bytes of one element; 0 for an unknown dtype. */
ITER_API size_t iter_dtype_bytes(iter_dtype dtype);

/** "f32" and the like; "none" for an unknown dtype. */
ITER_API const char *iter_dtype_text(iter_dtype dtype);

/** The dtype called `text` ("u8", "f32", also numpy's "uint8", "float32"), or ITER_DTYPE_NONE. */
ITER_API iter_dtype iter_dtype_parse(const char *text);

/** Number of elements; a variable first dimension counts as its capacity. INT64_MAX if it does not
 * fit. */
ITER_API int64_t iter_desc_elements(const iter_desc *desc);

/** Bytes of a dense tensor of this shape; a variable first dimension counts as its capacity.
 * SIZE_MAX if it does not fit. */
ITER_API size_t iter_desc_bytes(const iter_desc *desc);

/** Writes e.g. `u8 [3, 32, 32] "CHW"` or `i32 [<=150] "T"` into out[capacity], cut if it does not
 * fit; returns out. */
ITER_API char *iter_desc_text(const iter_desc *desc, char *out, size_t capacity);

/** A tensor over dense memory in C order. */
ITER_API iter_tensor iter_tensor_dense(const iter_desc *desc, void *data);

ITER_END_DECLS

#endif
