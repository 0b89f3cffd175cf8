/*
 * transforms.h - the options of every built-in stage, for chains that are built call by call.
 *
 *     iter_random_crop_options crop = ITER_RANDOM_CROP_OPTIONS_INIT;
 *     crop.size = 32;
 *     crop.pad = 4;
 *     iter_chain_add(chain, "random-crop", NULL, &crop, sizeof(crop), &err);
 *
 * In text a stage has the same options under the same names; those marked (1), (2) may be given by
 * place: `crop:y=0,x=0,height=8,width=8` is `crop:0,0,8,8`. Every stage also takes field=NAME.
 *
 * Image stages want a layout: "CHW", "HWC" or "HW". Stages that stand side by side are folded into
 * one pass over the pixels; the result is what they would give one after the other. Fill values are
 * in the units of the pixels where the stage stands, and are rounded to their type.
 */
#ifndef ITER_TRANSFORMS_H
#define ITER_TRANSFORMS_H

#include <iter/ops.h>

ITER_BEGIN_DECLS

/* ---- Images ---------------------------------------------------------------------------------- */

/** What lies beyond an image's edge. */
typedef enum iter_pad_mode {
    ITER_PAD_CONSTANT = 0, /* a value */
    ITER_PAD_REFLECT = 1,  /* the image mirrored at its edge, the edge pixel not repeated */
    ITER_PAD_EDGE = 2      /* the edge pixel repeated */
} iter_pad_mode;

/** random-crop: a window at a random place, after padding all sides. Draws y, then x, each uniform
 * over the places where it fits. */
typedef struct iter_random_crop_options {
    int64_t size;          /* (1) height and width of the window; 0 = by height and width */
    int64_t height, width; /* used where size is 0 */
    int64_t pad;           /* pixels added on every side first */
    double fill;           /* value of added pixels in mode constant */
    int32_t mode;          /* iter_pad_mode: constant, reflect, edge */
} iter_random_crop_options;
#define ITER_RANDOM_CROP_OPTIONS_INIT \
    { 0, 0, 0, 0, 0, ITER_PAD_CONSTANT }

/** center-crop: the window in the middle; where that is between two pixels, the upper left one. */
typedef struct iter_center_crop_options {
    int64_t size;          /* (1) height and width; 0 = by height and width */
    int64_t height, width; /* used where size is 0 */
} iter_center_crop_options;
#define ITER_CENTER_CROP_OPTIONS_INIT \
    { 0, 0, 0 }

/** crop: a window at a fixed place. */
typedef struct iter_crop_options {
    int64_t y, x;          /* (1) (2) upper left pixel */
    int64_t height, width; /* (3) (4) at least 1 each, within the image */
} iter_crop_options;
#define ITER_CROP_OPTIONS_INIT \
    { 0, 0, 0, 0 }

/** pad: pixels added on the sides. */
typedef struct iter_pad_options {
    int64_t all;                      /* (1) on every side, besides the following */
    int64_t top, left, bottom, right; /* on one side */
    double value;                     /* (2) of added pixels in mode constant */
    int32_t mode;                     /* iter_pad_mode */
} iter_pad_options;
#define ITER_PAD_OPTIONS_INIT \
    { 0, 0, 0, 0, 0, 0, ITER_PAD_CONSTANT }

/** Which way an image is mirrored. */
typedef enum iter_flip_axis {
    ITER_FLIP_HORIZONTAL = 0, /* left and right change places */
    ITER_FLIP_VERTICAL = 1    /* top and bottom change places */
} iter_flip_axis;

/** random-flip: mirrors with probability p. Draws one number. */
typedef struct iter_random_flip_options {
    double p;     /* (1) 0 .. 1 */
    int32_t axis; /* iter_flip_axis: horizontal, vertical */
} iter_random_flip_options;
#define ITER_RANDOM_FLIP_OPTIONS_INIT \
    { 0.5, ITER_FLIP_HORIZONTAL }

/** flip: mirrors always. */
typedef struct iter_flip_options {
    int32_t axis; /* (1) iter_flip_axis */
} iter_flip_options;
#define ITER_FLIP_OPTIONS_INIT \
    { ITER_FLIP_HORIZONTAL }

/**
 * cutout: one square overwritten. Its centre is uniform over the image's pixels (draws y, then x),
 * and what falls outside is cut off: rows from y - size / 2, `size` of them. DeVries, Taylor 2017.
 */
typedef struct iter_cutout_options {
    int64_t size; /* (1) side of the square, at least 1 */
    double fill;
} iter_cutout_options;
#define ITER_CUTOUT_OPTIONS_INIT \
    { 0, 0 }

/* ---- Values ---------------------------------------------------------------------------------- */

/** scale: x * factor + bias, as f32 (f64 stays f64). Any shape. */
typedef struct iter_scale_options {
    double factor; /* (1) */
    double bias;   /* (2) */
} iter_scale_options;
#define ITER_SCALE_OPTIONS_INIT \
    { 1, 0 }

/** normalize: (x - mean) / std per channel, where x of u8 pixels is x / 255; as f32 (f64 stays
 * f64). */
typedef struct iter_normalize_options {
    iter_option_list mean; /* one number, or one a channel; none = 0 */
    iter_option_list std;  /* one number, or one a channel, none of them 0; none = 1 */
} iter_normalize_options;
#define ITER_NORMALIZE_OPTIONS_INIT \
    {                               \
        {0, {0}}, {                 \
            0, {                    \
                0                   \
            }                       \
        }                           \
    }

/** cast: another element type; into integers rounded to nearest even and saturated, NaN = 0. Any
 * shape, any field. */
typedef struct iter_cast_options {
    int32_t dtype; /* (1) iter_dtype */
} iter_cast_options;
#define ITER_CAST_OPTIONS_INIT \
    { ITER_DTYPE_NONE }

/** Order of an image's dimensions within a sample. */
typedef enum iter_image_layout {
    ITER_LAYOUT_KEEP = 0,
    ITER_LAYOUT_NCHW = 1, /* samples "CHW" */
    ITER_LAYOUT_NHWC = 2, /* samples "HWC" */
    ITER_LAYOUT_CHW = 3,  /* the same as NCHW */
    ITER_LAYOUT_HWC = 4   /* the same as NHWC */
} iter_image_layout;

/** to: element type and layout of the result. */
typedef struct iter_to_options {
    int32_t dtype;  /* (1) iter_dtype; none = as it is */
    int32_t layout; /* (2) iter_image_layout; keep = as it is */
} iter_to_options;
#define ITER_TO_OPTIONS_INIT \
    { ITER_DTYPE_NONE, ITER_LAYOUT_KEEP }

/* ---- Labels ---------------------------------------------------------------------------------- */

/** one-hot: a whole number, [] or [1], becomes [classes], one at its place and zero elsewhere. A
 * label that is not in 0 .. classes - 1 is a failed sample. */
typedef struct iter_one_hot_options {
    int64_t classes; /* (1) at least 1 */
    int32_t dtype;   /* iter_dtype of the result; none = f32 */
} iter_one_hot_options;
#define ITER_ONE_HOT_OPTIONS_INIT \
    { 0, ITER_DTYPE_NONE }

/* ---- Tokens ---------------------------------------------------------------------------------- */

/** Which end of a sequence is kept. */
typedef enum iter_side { ITER_SIDE_LAST = 0, ITER_SIDE_FIRST = 1 } iter_side;

/** Where a sequence is filled up. */
typedef enum iter_pad_side { ITER_PAD_POST = 0, ITER_PAD_PRE = 1 } iter_pad_side;

/** truncate: u16, i32 or i64 [T] to at most `length` tokens; what was variable stays so. */
typedef struct iter_truncate_options {
    int64_t length; /* (1) at least 1 */
    int32_t side;   /* (2) iter_side that is kept: last, first */
} iter_truncate_options;
#define ITER_TRUNCATE_OPTIONS_INIT \
    { 0, ITER_SIDE_LAST }

/** pad-tokens: u16, i32 or i64 [T] filled up to [length]. A longer sample fails, so truncate
 * first. */
typedef struct iter_pad_tokens_options {
    int64_t length; /* (1) at least 1 */
    int32_t side;   /* (2) iter_pad_side: post, pre */
    int64_t value;  /* id that is filled in */
} iter_pad_tokens_options;
#define ITER_PAD_TOKENS_OPTIONS_INIT \
    { 0, ITER_PAD_POST, 0 }

/**
 * tokens: adds `offset` to every id of u16, i32 or i64 [T]; what is then negative or not below
 * `limit` becomes `unknown`; `start` is put in front, and the row is longer by one. Without a limit
 * an id that its type cannot hold is a failed sample.
 */
typedef struct iter_tokens_options {
    int64_t offset;
    int64_t start;   /* -1 = none */
    int64_t unknown; /* below limit */
    int64_t limit;   /* 0 = none */
} iter_tokens_options;
#define ITER_TOKENS_OPTIONS_INIT \
    { 0, -1, 2, 0 }

/** pad-batch: the rows of a variable field, of any type, to one length: [N, T, ...], dense. A batch
 * stage. */
typedef struct iter_pad_batch_options {
    int64_t to;       /* (1) that length; a longer row fails the batch; 0 = the longest row's */
    int64_t multiple; /* (2) the longest is rounded up to a multiple of this; 0 = 1 */
    double value;     /* what is filled in; a value of the field's type */
    int32_t side;     /* iter_pad_side */
} iter_pad_batch_options;
#define ITER_PAD_BATCH_OPTIONS_INIT \
    { 0, 1, 0, ITER_PAD_POST }

/** lengths: adds a field i32 [N], how long the rows of a variable field are. A batch stage. */
typedef struct iter_lengths_options {
    const char *name; /* (1) of the new field; NULL = "<field>_length" */
} iter_lengths_options;
#define ITER_LENGTHS_OPTIONS_INIT \
    { NULL }

/* tnc: [N, T, ...] becomes [T, N, ...]; rows of a variable field are made equally long by pad-batch
 * first. A batch stage without options. */

ITER_END_DECLS

#endif
