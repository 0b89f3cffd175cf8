/* stages.c - what the plans of image stages share. */
#include "transforms/stages.h"

#include "iter/core/error.h"
#include "transforms/pack_fold.h"

iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err) {
    char shape[128];
    if (iter__image_of(in, &out->height, &out->width, &out->channels, &out->is_hwc)) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "wants an image, layout \"CHW\", \"HWC\" or \"HW\", but got %s",
                      iter_desc_text(in, shape, sizeof(shape)));
}

void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out) {
    int64_t h, w, c;
    bool is_hwc;
    *out = *in;
    if (!iter__image_of(in, &h, &w, &c, &is_hwc)) return;
    const int first = in->n_dims == 2 || is_hwc ? 0 : 1;
    out->dims[first] = height;
    out->dims[first + 1] = width;
}

iter_status iter__stage_window(int64_t size, int64_t height, int64_t width, int64_t out[2],
                               iter_error *err) {
    out[0] = size > 0 ? size : height;
    out[1] = size > 0 ? size : width;
    if (out[0] > 0 && out[1] > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants a size: size=N, or height=N,width=N");
}

iter_dtype iter__stage_arithmetic(iter_dtype dtype) {
    return dtype == ITER_F64 ? ITER_F64 : ITER_F32;
}
