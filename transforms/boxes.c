/* boxes.c - the boxes of objects follow their image through crops, flips and resizes. */
#include <string.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/stages.h"

#define LEAST 1e-3 /* pixels: what is narrower comes from the rounding of f32 */

typedef struct box {
    double low[2], high[2]; /* x, y */
} box;

static iter_status boxes_plan(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    const iter_boxes_options *o = options;
    char shape[128];
    *out_scratch = 0;
    *out = *in;
    if (in->n_dims == 2 && in->dtype == ITER_F32 && in->dims[1] >= o->column + 4) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "wants objects f32 [K, W] with four coordinates from column %lld, but got %s",
                      (long long)o->column, iter_desc_text(in, shape, sizeof(shape)));
}

/* One axis of a box, in pixels of the result. */
static void map_axis(double *low, double *high, double scale, double offset) {
    const double a = *low * scale + offset, b = *high * scale + offset;
    *low = a < b ? a : b;
    *high = a < b ? b : a;
}

static double clip(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* Moves the box from the stored image to the result, in pixels. False = it is left out. */
static bool follow_box(const iter_boxes_options *o, const iter_image_view *view, box *b) {
    const double low[2] = {view->left, view->top}, high[2] = {view->right, view->bottom};
    map_axis(&b->low[0], &b->high[0], view->scale_x, view->offset_x);
    map_axis(&b->low[1], &b->high[1], view->scale_y, view->offset_y);
    const double area = (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
    bool center = true;
    double inside = 1;
    for (int i = 0; i < 2; i++) {
        const double middle = (b->low[i] + b->high[i]) / 2;
        center &= middle >= low[i] && middle <= high[i];
        b->low[i] = clip(b->low[i], low[i], high[i]);
        b->high[i] = clip(b->high[i], low[i], high[i]);
        if (!(b->high[i] - b->low[i] >= LEAST)) return false;
        inside *= b->high[i] - b->low[i];
    }
    return o->keep == ITER_BOXES_CENTER ? center : inside > o->overlap * area;
}

static iter_status boxes_follow(void *state, const void *options, const iter_tensor *in,
                                iter_tensor *out, const iter_image_view *view, iter_error *err) {
    const iter_boxes_options *o = options;
    const int64_t width = in->desc.dims[1];
    const double from[2] = {o->pixels ? 1 : (double)view->from_width,
                            o->pixels ? 1 : (double)view->from_height};
    const double to[2] = {o->pixels ? 1 : (double)view->width,
                          o->pixels ? 1 : (double)view->height};
    float *made = out->data;
    int64_t n = 0;
    (void)state, (void)err;
    for (int64_t k = 0; k < in->desc.dims[0]; k++) {
        const char *row = (const char *)in->data + (size_t)(k * width) * sizeof(float);
        float at[4]; /* xmin, ymin, xmax, ymax */
        memcpy(at, row + (size_t)o->column * sizeof(float), sizeof(at));
        if (!(at[2] > at[0]) || !(at[3] > at[1])) continue; /* or one of them is NaN */
        box b = {{at[0] * from[0], at[1] * from[1]}, {at[2] * from[0], at[3] * from[1]}};
        if (!follow_box(o, view, &b)) continue;
        for (int i = 0; i < 2; i++) {
            at[i] = (float)(b.low[i] / to[i]);
            at[2 + i] = (float)(b.high[i] / to[i]);
        }
        memcpy(made + n * width, row, (size_t)width * sizeof(float));
        memcpy(made + n * width + o->column, at, sizeof(at));
        n++;
    }
    if (out->desc.dims[0] == ITER_VARIABLE) {
        out->desc.dims[0] = n;
        return ITER_OK;
    }
    for (int64_t i = n * width; i < in->desc.dims[0] * width; i++)
        made[i] = (float)o->fill;
    return ITER_OK;
}

static const iter_option boxes_rows[] = {
    ITER_ROW_CHOICE_AT("keep", "after a crop: boxes whose centre, or enough of whose area, is left",
                       iter_boxes_options, keep, "center|overlap", 1),
    ITER_ROW_DOUBLE("overlap", "the part of its area that must be left, and a bit more",
                    iter_boxes_options, overlap, 0, 1, 0),
    ITER_ROW_INT("column", "of xmin; ymin, xmax and ymax follow", iter_boxes_options, column, 0,
                 65535, 0),
    ITER_ROW_BOOL("pixels", "coordinates are pixels, not parts of width and height",
                  iter_boxes_options, pixels),
    ITER_ROW_DOUBLE("fill", "in the places of boxes that were left out", iter_boxes_options, fill,
                    0, 0, 0),
    ITER_ROW_END,
};
static const iter_boxes_options boxes_defaults = ITER_BOXES_OPTIONS_INIT;

const iter_transform_ops iter__transform_boxes = {
    .base = STAGE_BASE(boxes, "boxes", "boxes follow their image through crops and flips", 0),
    .role = ITER_LABEL,
    .plan = boxes_plan,
    .follow = boxes_follow,
};
