/* stages.h - what the image, value and label stages share. */
#ifndef ITER_TRANSFORMS_STAGES_H
#define ITER_TRANSFORMS_STAGES_H

#include <stdbool.h>

#include <iter/ops.h>
#include <iter/option_rows.h>

#include "transforms/pack/lookup.h"

/* ---- Plans ----------------------------------------------------------------------------------- */

/* The shape of an image in any layout; channels is 1 for "HW". For images of any size ("HWC" only)
 * is_any is set, and height and width are 0. */
typedef struct stage_image {
    int64_t height, width, channels;
    bool is_hwc, is_any;
} stage_image;

/* The shape of `in`. Fails with EINVAL if `in` is not an image. */
iter_status iter__stage_image(const iter_desc *in, stage_image *out, iter_error *err);

/* As iter__stage_image(), for stages that need u8 "HWC" of 1 to 4 channels. */
iter_status iter__stage_bytes(const iter_desc *in, stage_image *out, iter_error *err);

/* A plan() for any image: *out = *in, and the scratch of iter__stage_apply(). */
iter_status iter__stage_same_size(const iter_desc *in, iter_desc *out, size_t *out_scratch,
                                  iter_error *err);

/* *out = *in with another height and width. */
void iter__stage_resize(const iter_desc *in, int64_t height, int64_t width, iter_desc *out);

/* Reads the options of STAGE_SIZE_ROWS: out[2] = height, width. Fails with EINVAL if one of them is
 * missing. */
iter_status iter__stage_window(int64_t size, int64_t height, int64_t width, int64_t out[2],
                               iter_error *err);

/* Fails with EINVAL unless the list is two numbers: 0 < least <= largest <= most. */
iter_status iter__stage_bounds(const iter_option_list *list, const char *name, double most,
                               iter_error *err);

/* ---- Foldable stages over images of any size ------------------------------------------------- */

/* State of stages that look bytes up. iter__stage_start() chooses the function. */
typedef struct stage_state {
    iter__lookup *lookup;
} stage_state;
iter_status iter__stage_start(void *state, const void *options, iter_error *err);

/* Runs a stage's own fold calls over one u8 HWC image. plan() must ask for iter__stage_scratch()
 * bytes: it passes the rows and columns that the stage adds. The scratch is 0 while the size is not
 * known. */
size_t iter__stage_scratch(const iter_desc *in, int64_t more_rows, int64_t more_columns);
iter_status iter__stage_apply(const iter_transform_ops *ops, const void *state, const void *options,
                              const iter_tensor *in, iter_tensor *out, iter_rng *rng, void *scratch,
                              iter_error *err);

/* The window that a stage without padding cuts out. If it does not fit, asks for the whole image:
 * plan() then reports why. */
void iter__stage_wish(const iter_transform_ops *ops, const void *options, const iter_desc *in,
                      iter_rng *rng, iter_image_wish *out);

/* Define <stage>_apply() and <stage>_wish() by these functions. */
#define STAGE_APPLY(stage)                                                                        \
    extern const iter_transform_ops iter__transform_##stage;                                      \
    static iter_status stage##_apply(void *state, const void *options, const iter_tensor *in,     \
                                     iter_tensor *out, iter_rng *rng, void *scratch,              \
                                     iter_error *err) {                                           \
        return iter__stage_apply(&iter__transform_##stage, state, options, in, out, rng, scratch, \
                                 err);                                                            \
    }
#define STAGE_WISH(stage)                                                             \
    extern const iter_transform_ops iter__transform_##stage;                          \
    static void stage##_wish(const void *options, const iter_desc *in, iter_rng *rng, \
                             iter_image_wish *out) {                                  \
        iter__stage_wish(&iter__transform_##stage, options, in, rng, out);            \
    }

/* ---- Tables ---------------------------------------------------------------------------------- */

/* .base of a stage with the options <stage>_rows and <stage>_defaults. */
#define STAGE_BASE(stage, name, help, state_bytes)                               \
    {                                                                            \
        sizeof(iter_transform_ops), name, help, stage##_rows, &stage##_defaults, \
            sizeof(stage##_defaults), state_bytes                                \
    }

#define STAGE_SIDE_MAX 65535

/* The options of a stage whose result has a given size. `what` is the help text of `size`. */
#define STAGE_SIZE_ROWS(type, what)                                                             \
    ITER_ROW_INT("size", what, type, size, 0, STAGE_SIDE_MAX, 1),                               \
        ITER_ROW_INT("height", "height, if size is not given", type, height, 0, STAGE_SIDE_MAX, \
                     0),                                                                        \
        ITER_ROW_INT("width", "width, if size is not given", type, width, 0, STAGE_SIDE_MAX, 0)

/* The option that says what pixels beyond an image's edge hold, an iter_pad_mode. */
#define STAGE_PAD_MODE_ROW(type) \
    ITER_ROW_CHOICE("mode", "what added pixels hold", type, mode, "constant|reflect|edge")

/* The option of a stage that is applied at random. */
#define STAGE_CHANCE_ROW(type, place) ITER_ROW_DOUBLE("p", "probability", type, p, 0, 1, place)

/* The tables that pack_program.c knows. */
extern const iter_transform_ops iter__transform_random_crop;
extern const iter_transform_ops iter__transform_random_flip;
extern const iter_transform_ops iter__transform_cutout;

/* ---- Random rectangles ----------------------------------------------------------------------- */

/*
 * Draws the height and width of a rectangle, two random numbers, `share` first. Both are rounded to
 * nearest, halves to even. They may be 0 or larger than the image.
 *
 *   share  [2] least and largest part of the area height x width
 *   ratio  [2] least and largest width / height of the rectangle, uniform in the logarithm
 */
void iter__stage_draw_sides(iter_rng *rng, const double *share, const double *ratio, int64_t height,
                            int64_t width, double out[2]);

#endif
