/* resized.c - what the stages that resize share. */
#include "transforms/resized.h"

#include "iter/core/cpu.h"
#include "iter/core/error.h"

iter_status iter__resized_start(void *state, const void *options, iter_error *err) {
    resized_state *s = state;
    (void)options;
    (void)err;
    s->kernels = iter__resample_kernels(iter__cpu_level());
    return ITER_OK;
}

iter_status iter__resized_check(int32_t interpolation, bool antialias, iter_error *err) {
    if (interpolation != ITER_INTERPOLATION_BICUBIC || antialias) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "bicubic always goes with antialias: leave out antialias=no, or use "
                      "interpolation=bilinear");
}

iter_status iter__resized_plan(resample_filter filter, const iter_desc *in, int64_t height,
                               int64_t width, iter_desc *out, size_t *out_scratch,
                               iter_error *err) {
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_bytes(in, &image, err));
    if (height > RESAMPLE_MAX_SIDE || width > RESAMPLE_MAX_SIDE ||
        image.height > RESAMPLE_MAX_SIDE || image.width > RESAMPLE_MAX_SIDE)
        return iter__fail(err, ITER_EINVAL, "%lld x %lld to %lld x %lld: a side is above %d",
                          (long long)image.height, (long long)image.width, (long long)height,
                          (long long)width, RESAMPLE_MAX_SIDE);
    iter__stage_resize(in, height, width, out);
    if (!image.is_any)
        *out_scratch = iter__resample_scratch(filter, image.height, image.width, height, width,
                                              (int32_t)image.channels);
    return ITER_OK;
}

void iter__resized_apply(const void *state, resample_filter filter, const iter_tensor *in,
                         iter_tensor *out, void *scratch) {
    const resized_state *s = state;
    const resample_image image = {in->data, (ptrdiff_t)(in->desc.dims[1] * in->desc.dims[2]),
                                  in->desc.dims[0], in->desc.dims[1]};
    iter__resample(filter, &image, out->data, out->desc.dims[0], out->desc.dims[1],
                   (int32_t)in->desc.dims[2], s->kernels, scratch);
}

size_t iter__resized_begin(void *state, resample_filter filter, const iter_tensor *in,
                           iter_tensor *out, void *scratch) {
    resized_state *s = state;
    size_t reach = 0;
    s->run = iter__resample_begin(filter, in->desc.dims[0], in->desc.dims[1], out->data,
                                  out->desc.dims[0], out->desc.dims[1], (int32_t)in->desc.dims[2],
                                  s->kernels, scratch, &reach);
    return reach;
}

int64_t iter__resized_take(void *state, const uint8_t *const *rows, int32_t n) {
    const resized_state *s = state;
    return iter__resample_rows(s->run, rows, n);
}
