/*
 * transforms.h - the options of every built-in stage, for chains that are built call by call.
 *
 *     iter_random_crop_options crop = ITER_RANDOM_CROP_OPTIONS_INIT;
 *     crop.size = 32;
 *     crop.pad = 4;
 *     iter_chain_add(chain, "random-crop", NULL, NULL, &crop, sizeof(crop), &err);
 *
 * In text a stage has the same options under the same names; those marked (1), (2) may be given by
 * place: `crop:y=0,x=0,height=8,width=8` is `crop:0,0,8,8`. Every stage also takes field=NAME.
 *
 * Image stages want a layout: "CHW", "HWC" or "HW". Stages that stand side by side are folded into
 * one pass over the pixels; the result is what they would give one after the other. Fill values are
 * in the units of the pixels where the stage stands, and are rounded to their type.
 *
 * Images of any size are u8 "HWC": resizes, crops, pad, flips, colour, bytes, cutout and
 * random-erasing take them, and a resize or a crop gives them one size, which everything else wants.
 * Resizes work on u8 "HWC" of 1 to 4 channels alone, colour on 1 or 3 (`to:layout=hwc` first if
 * needed).
 */
#ifndef ITER_TRANSFORMS_H
#define ITER_TRANSFORMS_H

#include <stdbool.h>

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

/** What a resized pixel is made of. */
typedef enum iter_interpolation {
    ITER_INTERPOLATION_BILINEAR = 0,
    ITER_INTERPOLATION_BICUBIC = 1, /* cubic convolution with a = -0.5; always with antialias */
    ITER_INTERPOLATION_AREA = 2,    /* the mean of what it covers, weighted by how much */
    ITER_INTERPOLATION_NEAREST = 3  /* the pixel that holds its centre; between two, the second */
} iter_interpolation;

/** How a JPEG comes from the decoder where the part wished for is made smaller afterwards. */
typedef enum iter_jpeg_scale {
    ITER_JPEG_EXACT = 0, /* in full */
    ITER_JPEG_FAST = 1   /* by 1/2, 1/4 or 1/8, as long as it stays as large as what is asked for */
} iter_jpeg_scale;

/**
 * resize: another height and width, whatever the aspect. One pass after the other with bytes between
 * them, in fixed point, the same bits on every processor.
 *
 * bilinear with antialias and bicubic are Pillow's, bit for bit (version 13; before, passes went in
 * another order where the height loses more than twice the pixels of the width, and some bytes are one
 * away). bilinear without antialias interpolates between the two nearest, as torch's interpolate(align_corners=False) and
 * OpenCV's INTER_LINEAR: one level away from these at most. area is OpenCV's INTER_AREA where
 * neither side grows, likewise.
 */
typedef struct iter_resize_options {
    int64_t size;          /* (1) height and width; 0 = by height and width */
    int64_t height, width; /* used where size is 0 */
    int32_t interpolation; /* iter_interpolation: bilinear, bicubic, area, nearest */
    bool antialias;        /* of bilinear; bicubic refuses to go without */
    int32_t jpeg_scale;    /* iter_jpeg_scale: exact, fast */
} iter_resize_options;
#define ITER_RESIZE_OPTIONS_INIT \
    { 0, 0, 0, ITER_INTERPOLATION_BILINEAR, true, ITER_JPEG_EXACT }

/** resize-short: the short side becomes `size`, the long one floor(size * long / short). As
 * resize. With jpeg-scale=fast the long side may be another by one. */
typedef struct iter_resize_short_options {
    int64_t size;          /* (1) at least 1 */
    int32_t interpolation; /* iter_interpolation */
    bool antialias;        /* as resize */
    int32_t jpeg_scale;    /* iter_jpeg_scale */
} iter_resize_short_options;
#define ITER_RESIZE_SHORT_OPTIONS_INIT \
    { 0, ITER_INTERPOLATION_BILINEAR, true, ITER_JPEG_EXACT }

/**
 * random-resized-crop: a window of random area and aspect, resized. As torchvision's: up to ten times
 * it draws the share of the image's area, then width / height (uniform in the logarithm), rounds the
 * sides to nearest, and where they fit draws y, then x. Else it takes the largest window in the
 * middle whose aspect is within bounds. Szegedy et al. 2015.
 */
typedef struct iter_random_resized_crop_options {
    int64_t size;           /* (1) height and width of the result; 0 = by height and width */
    int64_t height, width;  /* used where size is 0 */
    iter_option_list scale; /* least and largest share of the area, above 0 */
    iter_option_list ratio; /* least and largest width / height, above 0 */
    int32_t interpolation;  /* iter_interpolation */
    bool antialias;         /* as resize */
    int32_t jpeg_scale;     /* iter_jpeg_scale */
} iter_random_resized_crop_options;
#define ITER_RANDOM_RESIZED_CROP_OPTIONS_INIT                                                      \
    {                                                                                              \
        0, 0, 0, {2, {0.08, 1.0}}, {2, {3.0 / 4.0, 4.0 / 3.0}}, ITER_INTERPOLATION_BILINEAR, true, \
            ITER_JPEG_EXACT                                                                        \
    }

/** Which window is the middle one if an odd number of rows or columns is cut off. */
typedef enum iter_rounding {
    ITER_ROUNDING_PILLOW = 0,     /* the upper or left one: n / 2 rows go from the top */
    ITER_ROUNDING_TORCHVISION = 1 /* n / 2 rounded to even, as Python's round() */
} iter_rounding;

/** center-crop: the window in the middle; if that is between two pixels, the upper left one, or the
 * one that torchvision's CenterCrop takes. */
typedef struct iter_center_crop_options {
    int64_t size;          /* (1) height and width; 0 = by height and width */
    int64_t height, width; /* used where size is 0 */
    int32_t rounding;      /* iter_rounding: pillow, torchvision */
} iter_center_crop_options;
#define ITER_CENTER_CROP_OPTIONS_INIT \
    { 0, 0, 0, ITER_ROUNDING_PILLOW }

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

/**
 * random-erasing: with probability p one rectangle overwritten. Up to ten times it draws the share of
 * the image's area, then height / width (uniform in the logarithm), rounds the sides to nearest, and
 * where both are smaller than the image draws y, then x, and is done. As torchvision's with a value;
 * Zhong et al. 2017.
 */
typedef struct iter_random_erasing_options {
    double p;               /* (1) 0 .. 1 */
    iter_option_list scale; /* least and largest share of the area */
    iter_option_list ratio; /* least and largest height / width, above 0 */
    double fill;
} iter_random_erasing_options;
#define ITER_RANDOM_ERASING_OPTIONS_INIT \
    { 0.5, {2, {0.02, 0.33}}, {2, {0.3, 3.3}}, 0 }

/**
 * color-jitter: brightness, contrast, saturation and hue changed, one after the other in an order
 * that is drawn, too. As torchvision's over Pillow's images, byte for byte: factors are uniform in
 * max(0, 1 - x) .. 1 + x, the hue's shift in -hue .. hue of the circle. Draws the order (three
 * numbers), then four, whatever is asked for. u8 "HWC" of 1 or 3 channels; one alone has neither
 * saturation nor hue.
 */
typedef struct iter_color_jitter_options {
    double brightness; /* (1) 0 = as it is */
    double contrast;   /* (2) towards and away from the mean of the image in gray */
    double saturation; /* (3) towards and away from each pixel's gray */
    double hue;        /* (4) 0 .. 0.5 */
} iter_color_jitter_options;
#define ITER_COLOR_JITTER_OPTIONS_INIT \
    { 0, 0, 0, 0 }

/** random-grayscale: with probability p all channels become gray, (19595 R + 38470 G + 7471 B +
 * 32768) / 65536 rounded down, as Pillow's. Draws one number. u8 "HWC" of 1 or 3 channels. */
typedef struct iter_random_grayscale_options {
    double p; /* (1) 0 .. 1 */
} iter_random_grayscale_options;
#define ITER_RANDOM_GRAYSCALE_OPTIONS_INIT \
    { 0.1 }

/* grayscale: the same always. Without options; there are as many channels as before. */

/* ---- Bytes ----------------------------------------------------------------------------------- */

/** posterize: the upper `bits` of each value, the others 0. u8, any shape. As torchvision's; so are
 * all stages of bytes. Neighbouring ones join into one table. */
typedef struct iter_posterize_options {
    int64_t bits; /* (1) 0 .. 8; -1 = not given, which is an error */
} iter_posterize_options;
#define ITER_POSTERIZE_OPTIONS_INIT \
    { -1 }

/** random-posterize: the same with probability p. Draws one number. */
typedef struct iter_random_posterize_options {
    int64_t bits; /* (1) as posterize */
    double p;     /* (2) 0 .. 1 */
} iter_random_posterize_options;
#define ITER_RANDOM_POSTERIZE_OPTIONS_INIT \
    { -1, 0.5 }

/** solarize: 255 - x for values from `threshold` on. u8, any shape. */
typedef struct iter_solarize_options {
    int64_t threshold; /* (1) 0 = all .. 256 = none */
} iter_solarize_options;
#define ITER_SOLARIZE_OPTIONS_INIT \
    { 128 }

/** random-solarize: the same with probability p. Draws one number. */
typedef struct iter_random_solarize_options {
    int64_t threshold; /* (1) 0 = all .. 256 = none */
    double p;          /* (2) 0 .. 1 */
} iter_random_solarize_options;
#define ITER_RANDOM_SOLARIZE_OPTIONS_INIT \
    { 128, 0.5 }

/* invert: 255 - x for all values. u8, any shape. Without options. */

/** random-invert: the same with probability p. Draws one number. */
typedef struct iter_random_invert_options {
    double p; /* (1) 0 .. 1 */
} iter_random_invert_options;
#define ITER_RANDOM_INVERT_OPTIONS_INIT \
    { 0.5 }

/** gamma: 255.999 * gain * (x / 255) ^ gamma, rounded down, at most 255. u8, any shape. As
 * torchvision's adjust_gamma over Pillow's images. */
typedef struct iter_gamma_options {
    double gamma; /* (1) 0 .. 100; below 1 dark values become lighter */
    double gain;  /* (2) 0 .. 1000 */
} iter_gamma_options;
#define ITER_GAMMA_OPTIONS_INIT \
    { 1, 1 }

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
