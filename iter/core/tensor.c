/* tensor.c - element types and shapes. Sizes that do not fit saturate, so that a bound check
 * refuses them. */
#include <iter/tensor.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

typedef struct dtype_name {
    const char *text;
    iter_dtype dtype;
} dtype_name;

/* numpy's names, beside our own. */
static const dtype_name numpy_names[] = {
    {"uint8", ITER_U8},    {"int8", ITER_I8},       {"uint16", ITER_U16},  {"int16", ITER_I16},
    {"uint32", ITER_U32},  {"int32", ITER_I32},     {"uint64", ITER_U64},  {"int64", ITER_I64},
    {"float16", ITER_F16}, {"bfloat16", ITER_BF16}, {"float32", ITER_F32}, {"float64", ITER_F64},
};

/* Elements that the dimension counts for in sizes. */
static int64_t extent_of(const iter_desc *desc, int32_t dim) {
    const int64_t n = desc->dims[dim] == ITER_VARIABLE ? desc->capacity : desc->dims[dim];
    return n > 0 ? n : 0;
}

/* Appends like snprintf at *length; *length becomes the length of the whole text. */
#define APPEND(...)                                                         \
    do {                                                                    \
        const size_t at = *length < capacity ? *length : capacity;          \
        const int n_chars = snprintf(out + at, capacity - at, __VA_ARGS__); \
        *length += n_chars > 0 ? (size_t)n_chars : 0;                       \
    } while (0)

static void append_dims(const iter_desc *desc, char *out, size_t capacity, size_t *length) {
    for (int32_t i = 0; i < desc->n_dims; i++) {
        const char *separator = i ? ", " : "";
        if (desc->dims[i] == ITER_VARIABLE && !desc->capacity)
            APPEND("%sany", separator);
        else if (desc->dims[i] == ITER_VARIABLE)
            APPEND("%s<=%lld", separator, (long long)desc->capacity);
        else
            APPEND("%s%lld", separator, (long long)desc->dims[i]);
    }
}

size_t iter_dtype_bytes(iter_dtype dtype) {
    switch (dtype) {
#define ITER_X(name, code, bytes, text) \
    case ITER_##name: return bytes;
        ITER_DTYPE_MAP(ITER_X)
#undef ITER_X
    case ITER_DTYPE_NONE: break;
    }
    return 0;
}

const char *iter_dtype_text(iter_dtype dtype) {
    switch (dtype) {
#define ITER_X(name, code, bytes, text) \
    case ITER_##name: return text;
        ITER_DTYPE_MAP(ITER_X)
#undef ITER_X
    case ITER_DTYPE_NONE: break;
    }
    return "none";
}

iter_dtype iter_dtype_parse(const char *text) {
    if (!text) return ITER_DTYPE_NONE;
#define ITER_X(name, code, bytes, own_text) \
    if (strcmp(text, own_text) == 0) return ITER_##name;
    ITER_DTYPE_MAP(ITER_X)
#undef ITER_X
    for (size_t i = 0; i < sizeof(numpy_names) / sizeof(numpy_names[0]); i++)
        if (strcmp(text, numpy_names[i].text) == 0) return numpy_names[i].dtype;
    return ITER_DTYPE_NONE;
}

int64_t iter_desc_elements(const iter_desc *desc) {
    assert(desc->n_dims >= 0 && desc->n_dims <= ITER_MAX_DIMS);
    for (int32_t i = 0; i < desc->n_dims; i++)
        if (extent_of(desc, i) == 0) return 0;
    int64_t n = 1;
    for (int32_t i = 0; i < desc->n_dims; i++)
        if (__builtin_mul_overflow(n, extent_of(desc, i), &n)) return INT64_MAX;
    return n;
}

size_t iter_desc_bytes(const iter_desc *desc) {
    const int64_t n = iter_desc_elements(desc);
    size_t bytes;
    if (n == INT64_MAX) return SIZE_MAX;
    if (__builtin_mul_overflow((size_t)n, iter_dtype_bytes(desc->dtype), &bytes)) return SIZE_MAX;
    return bytes;
}

char *iter_desc_text(const iter_desc *desc, char *out, size_t capacity) {
    if (capacity == 0) return out;
    size_t used = 0, *length = &used;
    APPEND("%s [", iter_dtype_text(desc->dtype));
    append_dims(desc, out, capacity, length);
    APPEND("]");
    if (desc->layout[0]) APPEND(" \"%s\"", desc->layout);
    return out;
}

iter_tensor iter_tensor_dense(const iter_desc *desc, void *data) {
    iter_tensor tensor = {.desc = *desc, .data = data};
    int64_t stride = 1;
    for (int32_t i = desc->n_dims - 1; i >= 0; i--) {
        tensor.strides[i] = stride;
        if (__builtin_mul_overflow(stride, extent_of(desc, i), &stride)) stride = INT64_MAX;
    }
    return tensor;
}
