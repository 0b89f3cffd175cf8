/* get_rows.c - see get_rows.h. */
#include "iter/core/get_rows.h"

void iter_rows_set_length(const iter_tensor *rows, int32_t field, uint32_t i, int64_t length) {
    const iter__get_rows *get = (const iter__get_rows *)(const void *)rows;
    if (field >= 0 && field < ITER_MAX_FIELDS && get->lengths[field])
        get->lengths[field][i] = (int32_t)length;
}
