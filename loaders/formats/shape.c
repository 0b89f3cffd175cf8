/* shape.c - see shape.h. */
#include "loaders/formats/shape.h"

#include <stdbool.h>

#include "iter/core/error.h"

#define ROW_BYTES_MAX ((uint64_t)1 << 40)

iter_status iter__shape_parse(const char *text, iter_desc *desc, iter_error *err) {
    uint64_t bytes = iter_dtype_bytes(desc->dtype);
    const char *p = text;
    desc->n_dims = 0;
    while (*p) {
        int64_t dim = 0;
        const char *start = p;
        for (; *p >= '0' && *p <= '9' && dim <= INT32_MAX; p++)
            dim = 10 * dim + (*p - '0');
        const bool more = *p == 'x' && p[1];
        if (p == start || (*p && !more))
            return iter__fail(err, ITER_EINVAL, "shape=%s is not of the form 3x32x32", text);
        if (desc->n_dims == ITER_MAX_DIMS - 1) {
            return iter__fail(err, ITER_EINVAL, "shape=%s has more than %d dimensions", text,
                              ITER_MAX_DIMS - 1);
        }
        if (dim == 0 || dim > INT32_MAX || __builtin_mul_overflow(bytes, (uint64_t)dim, &bytes) ||
            bytes > ROW_BYTES_MAX)
            return iter__fail(err, ITER_EINVAL, "shape=%s is empty or too large", text);
        desc->dims[desc->n_dims++] = dim;
        p += more;
    }
    return ITER_OK;
}
