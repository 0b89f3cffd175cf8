/* array_layout.c - see array_layout.h. */
#include "loaders/formats/array_layout.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "iter/core/error.h"

#define CHANNELS_USUAL 4

iter_status iter__array_layout_apply(iter__array_layout layout, const char *path, iter_desc *row,
                                     iter_error *err) {
    static const char *const words[] = {"none", "hwc", "chw"};
    static const char *const names[] = {"", "HWC", "CHW"};
    if (layout == ITER_ARRAY_PLAIN) return ITER_OK;
    if (row->n_dims == 2) {
        strcpy(row->layout, "HW");
        return ITER_OK;
    }
    if (row->n_dims != 3) {
        return iter__fail(err, ITER_EINVAL,
                          "%s: layout=%s wants images of 2 or 3 dimensions after the first, got %d",
                          path, words[layout], row->n_dims);
    }
    const bool hwc = layout == ITER_ARRAY_HWC;
    const int64_t channels = row->dims[hwc ? 2 : 0], others = row->dims[hwc ? 0 : 2];
    if (channels > CHANNELS_USUAL && others <= CHANNELS_USUAL) {
        return iter__fail(err, ITER_EINVAL,
                          "%s: layout=%s would make images of %" PRId64 " channels of its %" PRId64
                          " x %" PRId64 " x %" PRId64 "; layout=%s makes %" PRId64,
                          path, words[layout], channels, row->dims[0], row->dims[1], row->dims[2],
                          words[hwc ? ITER_ARRAY_CHW : ITER_ARRAY_HWC], others);
    }
    strcpy(row->layout, names[layout]);
    return ITER_OK;
}
