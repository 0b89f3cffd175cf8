/* stages.c - what image stages share. */
#include "transforms/stages.h"

#include <math.h>
#include <string.h>

#include "iter/core/error.h"
#include "transforms/pack/pack_fold.h"

static bool is_any_size(const iter_desc *in) {
    return in->dtype == ITER_U8 && in->n_dims == 3 && in->dims[0] == ITER_VARIABLE &&
           in->dims[1] == ITER_VARIABLE && in->dims[2] > 0 && strcmp(in->layout, "HWC") == 0;
}

iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err) {
    char shape[128];
    *out = (stage_image){.is_any = is_any_size(in)};
    if (iter__image_of(in, &out->height, &out->width, &out->channels, &out->is_hwc)) return ITER_OK;
    if (out->is_any) {
        *out = (stage_image){.channels = in->dims[2], .is_hwc = true, .is_any = true};
        return ITER_OK;
    }
    return iter__fail(err, ITER_EINVAL,
                      "wants an image, layout \"CHW\", \"HWC\" or \"HW\", but got %s",
                      iter_desc_text(in, shape, sizeof(shape)));
}

iter_status iter__stage_bytes(const iter_desc *in, stage_image *out, iter_error *err) {
    char shape[128];
    ITER_TRY(iter__stage_image(in, out, err));
    if (in->dtype == ITER_U8 && out->is_hwc && out->channels <= 4) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "wants u8 [height, width, 1 to 4] \"HWC\", but got %s; put to:%s before it",
                      iter_desc_text(in, shape, sizeof(shape)),
                      in->dtype == ITER_U8 ? "layout=hwc" : "u8,hwc");
}

iter_status iter__stage_same_size(const iter_desc *in, iter_desc *out, size_t *out_scratch,
                                  iter_error *err) {
    stage_image image;
    *out_scratch = 0;
    ITER_TRY(iter__stage_image(in, &image, err));
    *out = *in;
    *out_scratch = iter__stage_scratch(in, 0, 0);
    return ITER_OK;
}

void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out) {
    stage_image image;
    *out = *in;
    if (iter__stage_image(in, &image, NULL) < 0) return;
    const int first = in->n_dims == 2 || image.is_hwc ? 0 : 1;
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

iter_status iter__stage_bounds(const iter_option_list *list, const char *name, double most,
                               iter_error *err) {
    if (list->n == 2 && list->values[0] > 0 && list->values[0] <= list->values[1] &&
        list->values[1] <= most)
        return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "wants %s=LEAST;LARGEST, both above 0 and at most %g", name,
                      most);
}

/* ---- Random rectangles ----------------------------------------------------------------------- */

/* low * (high / low) ^ u, where u in [0, 1) has 24 bits. Multiplies the square roots that belong to
 * the binary digits of u: every machine rounds these operations alike, but not exp() and log(). */
static double geometric_between(double low, double high, float u) {
    uint32_t bits = (uint32_t)(u * 0x1p24f);
    double root = high / low, answer = low;
    for (uint32_t bit = 1u << 23; bit; bit >>= 1) {
        root = sqrt(root);
        if (bits & bit) answer *= root;
    }
    return answer;
}

void iter__stage_draw_sides(iter_rng *rng, const double *share, const double *ratio, int64_t height,
                            int64_t width, double out[2]) {
    const double part = share[0] + (share[1] - share[0]) * (double)iter_rng_uniform(rng);
    const double aspect = geometric_between(ratio[0], ratio[1], iter_rng_uniform(rng));
    const double area = (double)height * (double)width * part;
    out[0] = rint(sqrt(area / aspect));
    out[1] = rint(sqrt(area * aspect));
}
