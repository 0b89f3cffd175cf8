/*
 * pack_view.c - the way of an image through its stages, without its pixels.
 *
 * The random numbers of a stage depend on seed, stage and sample alone. So crops, flips and resizes
 * are drawn again, in the order of the chain, and composed: what they did to the image is known
 * wherever its size is, before or after it is decoded.
 */
#include <math.h>
#include <string.h>

#include "iter/core/error.h"
#include "transforms/pack/pack_fold.h"

#define TRACE_MAX ((int64_t)1 << 40) /* no pad of a trace is cut short */

/* One axis of the way: an edge at x is now at x * scale + offset, and the image is seen between low
 * and high. */
typedef struct way {
    double scale, offset, low, high;
} way;

/* One more step: what is at x moves to x * by + more, and the image is then n pixels long. */
static void add_step(way *w, double by, double more, int64_t n) {
    const double a = w->low * by + more, b = w->high * by + more, end = (double)n;
    w->scale *= by;
    w->offset = w->offset * by + more;
    w->low = fmin(fmax(fmin(a, b), 0), end);
    w->high = fmin(fmax(fmax(a, b), 0), end);
}

static void add_axis(way *w, const fold_axis *axis) {
    const double first = (double)axis->offset;
    if (axis->step > 0)
        add_step(w, 1, -first, axis->n);
    else
        add_step(w, -1, first + 1, axis->n);
}

static iter_status add_folded(const iter__stage *stage, const iter_desc *in, iter_rng *rng, way *y,
                              way *x, iter_error *err) {
    pack_pass pass;
    iter_fold fold;
    iter__pass_open(&pass, in, 0);
    pass.max_height = pass.max_width = TRACE_MAX;
    iter__fold_start(&fold, &pass, NULL, NULL);
    fold.is_trace = true;
    if (stage->ops->fold_sample)
        stage->ops->fold_sample(stage->options, &fold, rng);
    else
        ITER_TRY(stage->ops->fold_plan(stage->options, &fold, err));
    add_axis(y, &fold.y);
    add_axis(x, &fold.x);
    return ITER_OK;
}

static iter_status add_wished(const iter__stage *stage, const iter_desc *in, const iter_desc *out,
                              iter_rng *rng, way *y, way *x, iter_error *err) {
    iter_image_wish wish = {.part = {0, 0, in->dims[0], in->dims[1]}};
    stage->ops->wish(stage->options, in, rng, &wish);
    if (wish.part.height < 1 || wish.part.width < 1)
        return iter__fail(err, ITER_EINVAL, "%s: wish() asked for nothing", stage->ops->base.name);
    const double by_y = (double)out->dims[0] / (double)wish.part.height,
                 by_x = (double)out->dims[1] / (double)wish.part.width;
    add_step(y, by_y, -(double)wish.part.y * by_y, out->dims[0]);
    add_step(x, by_x, -(double)wish.part.x * by_x, out->dims[1]);
    return ITER_OK;
}

iter_status iter__pack_view(const iter__stage *const *stages, int32_t n, const iter_desc *in,
                            const iter__pack_sample *sample, iter_image_view *out,
                            iter_error *err) {
    iter_desc at = *in;
    int64_t channels;
    bool is_hwc;
    memset(out, 0, sizeof(*out));
    if (!iter__image_of(&at, &out->from_height, &out->from_width, &channels, &is_hwc))
        return iter__fail(err, ITER_EINVAL, "its field is no image");
    way y = {1, 0, 0, (double)out->from_height}, x = {1, 0, 0, (double)out->from_width};
    for (int32_t i = 0; i < n; i++) {
        const iter__stage *stage = stages[i];
        const uint64_t key = iter_rng_key(0, stage->ops->base.name, stage->occurrence);
        iter_rng rng = iter_rng_at(sample->seed ^ key, sample->epoch, sample->position);
        iter_desc next;
        size_t scratch;
        const iter_status status = stage->ops->plan(stage->options, &at, &next, &scratch, err);
        if (status < 0) return iter__fail_in(err, status, "%s", stage->ops->base.name);
        if (stage->ops->fold_plan)
            ITER_TRY(add_folded(stage, &at, &rng, &y, &x, err));
        else if (stage->ops->wish)
            ITER_TRY(add_wished(stage, &at, &next, &rng, &y, &x, err));
        at = next;
    }
    if (!iter__image_of(&at, &out->height, &out->width, &channels, &is_hwc))
        return iter__fail(err, ITER_EINVAL, "its chain ends with no image");
    out->scale_y = y.scale;
    out->offset_y = y.offset;
    out->top = y.low;
    out->bottom = y.high;
    out->scale_x = x.scale;
    out->offset_x = x.offset;
    out->left = x.low;
    out->right = x.high;
    return ITER_OK;
}
