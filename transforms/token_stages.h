/* token_stages.h - what the stages for tokens share: the element types of ids. */
#ifndef ITER_TRANSFORMS_TOKEN_STAGES_H
#define ITER_TRANSFORMS_TOKEN_STAGES_H

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <iter/ops.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

/* Number of elements per step of a batch [N, T, ...]. */
static inline int64_t batch_step_elements(const iter_desc *desc) {
    int64_t n = 1;
    for (int32_t d = 2; d < desc->n_dims; d++)
        n *= desc->dims[d];
    return n;
}

/* Whether the type has the value `id`. */
static inline bool token_fits(iter_dtype dtype, int64_t id) {
    if (dtype == ITER_U16) return id >= 0 && id <= UINT16_MAX;
    if (dtype == ITER_I32) return id >= INT32_MIN && id <= INT32_MAX;
    return true;
}

/* Fails with EINVAL unless `in` is u16, i32 or i64 [T], fixed or variable. */
static inline iter_status token_check(const iter_desc *in, iter_error *err) {
    char text[128];
    const bool known = in->dtype == ITER_U16 || in->dtype == ITER_I32 || in->dtype == ITER_I64;
    if (known && in->n_dims == 1) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "needs u16, i32 or i64 [T], not %s",
                      iter_desc_text(in, text, sizeof(text)));
}

/* Fails with EINVAL unless the field's type has the value of an id option. */
static inline iter_status token_check_id(const iter_desc *in, const char *option, int64_t id,
                                         iter_error *err) {
    if (token_fits(in->dtype, id)) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s=%" PRId64 " is no %s", option, id,
                      iter_dtype_text(in->dtype));
}

static inline int64_t token_get(iter_dtype dtype, const void *row, int64_t i) {
    const char *at = row; /* a row may begin at any address, so each id is copied out */
    uint16_t u16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case ITER_U16: return memcpy(&u16, at + (size_t)i * sizeof(u16), sizeof(u16)), u16;
    case ITER_I32: return memcpy(&i32, at + (size_t)i * sizeof(i32), sizeof(i32)), i32;
    default: return memcpy(&i64, at + (size_t)i * sizeof(i64), sizeof(i64)), i64;
    }
}

static inline void token_put(iter_dtype dtype, void *row, int64_t i, int64_t id) {
    if (dtype == ITER_U16) {
        ((uint16_t *)row)[i] = (uint16_t)id;
    } else if (dtype == ITER_I32) {
        ((int32_t *)row)[i] = (int32_t)id;
    } else {
        ((int64_t *)row)[i] = id;
    }
}

static inline void token_fill(iter_dtype dtype, void *out, int64_t n, int64_t id) {
    for (int64_t i = 0; i < n; i++)
        token_put(dtype, out, i, id);
}

#endif
