/* resized.h - what the stages that resize share. */
#ifndef ITER_TRANSFORMS_RESIZED_H
#define ITER_TRANSFORMS_RESIZED_H

#include <iter/transforms.h>

#include "transforms/resample.h"
#include "transforms/stages.h"

/* State of a stage: chosen at its start. */
typedef struct resized_state {
    const resample_kernels *kernels;
    resample_run *run; /* between begin_rows() and the last row */
} resized_state;

iter_status iter__resized_start(void *state, const void *options, iter_error *err);

/* Options of a stage, in the terms of resample.h. */
static inline resample_filter iter__resized_filter(int32_t interpolation, bool antialias) {
    if (interpolation == ITER_INTERPOLATION_BICUBIC) return RESAMPLE_BICUBIC;
    if (interpolation == ITER_INTERPOLATION_AREA) return RESAMPLE_AREA;
    if (interpolation == ITER_INTERPOLATION_NEAREST) return RESAMPLE_NEAREST;
    return antialias ? RESAMPLE_BILINEAR : RESAMPLE_LINEAR;
}

/* EINVAL if the two do not go together. */
iter_status iter__resized_check(int32_t interpolation, bool antialias, iter_error *err);

/* *out = *in as height x width (ITER_VARIABLE where it is not known yet), and the scratch for it; of images of any size 0. EINVAL where `in` is
 * not u8 HWC, or something is too large. */
iter_status iter__resized_plan(resample_filter filter, const iter_desc *in, int64_t height,
                               int64_t width, iter_desc *out, size_t *out_scratch, iter_error *err);

/* All of `in`, to out as large as planned. */
void iter__resized_apply(const void *state, resample_filter filter, const iter_tensor *in,
                         iter_tensor *out, void *scratch);

/* The same over rows that are yet to come: begin_rows() and take_rows(). */
size_t iter__resized_begin(void *state, resample_filter filter, const iter_tensor *in,
                           iter_tensor *out, void *scratch);
int64_t iter__resized_take(void *state, const uint8_t *const *rows, int32_t n);

/* The rows that every such stage has, for the option table of an options struct. */
/* clang-format off */
#define RESIZED_OPTION_ROWS(struct_name)                                                        \
    {"interpolation", "what a pixel is made of", ITER_OPTION_CHOICE,                            \
     offsetof(struct_name, interpolation), 0, 0, "bilinear|bicubic|area|nearest", 0},           \
    {"antialias", "bilinear: over all pixels that fall into one, not the nearest two",          \
     ITER_OPTION_BOOL, offsetof(struct_name, antialias), 0, 0, NULL, 0},                        \
    {"jpeg-scale", "fast: let the decoder make JPEGs smaller on its way", ITER_OPTION_CHOICE,   \
     offsetof(struct_name, jpeg_scale), 0, 0, "exact|fast", 0}
/* clang-format on */

#endif
