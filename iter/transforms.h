/*
 * transforms.h - the options of every built-in stage, for chains that are built call by call.
 *
 *     iter_random_crop_options crop = ITER_RANDOM_CROP_OPTIONS_INIT;
 *     crop.size = 32;
 *     crop.pad = 4;
 *     iter_chain_add(chain, "random-crop", NULL, NULL, &crop, sizeof(crop), &err);
 *
 * In text a stage has the same options under the same names. Options marked (1), (2) may be given
 * without their names: `crop:y=0,x=0,height=8,width=8` is `crop:0,0,8,8`. Every stage also takes
 * field=NAME.
 *
 * Image stages need a layout: "CHW", "HWC" or "HW". Neighbouring stages are folded into one pass
 * over the pixels; the result is the same as if they ran one after the other. Fill values are in
 * the units of the pixels at that stage, and are rounded to their type.
 *
 * Images of any size are u8 "HWC". Resizes, crops, pad, flips, colour, bytes, cutout and
 * random-erasing accept them. Every other stage needs images of one size, so a resize or a crop
 * must come first. Resizes need u8 "HWC" of 1 to 4 channels, colour stages 1 or 3 channels; if the
 * layout is another one, put `to:layout=hwc` first.
 */
#ifndef ITER_TRANSFORMS_H
#define ITER_TRANSFORMS_H

#include <stdbool.h>

#include <iter/ops.h>

ITER_BEGIN_DECLS

/* ---- Images ---------------------------------------------------------------------------------- */

/** What pixels beyond an image's edge hold. */
typedef enum iter_pad_mode {
    ITER_PAD_CONSTANT = 0, /* a value */
    ITER_PAD_REFLECT = 1,  /* the image mirrored at its edge, the edge pixel not repeated */
    ITER_PAD_EDGE = 2      /* the edge pixel repeated */
} iter_pad_mode;

/** random-crop: pads all sides, then cuts out a window at a random place. Draws y, then x, each
 * uniform over the places where the window fits. */
typedef struct iter_random_crop_options {
    int64_t size;          /* (1) height and width of the window; 0 = by height and width */
    int64_t height, width; /* used if size is 0 */
    int64_t pad;           /* pixels added on every side first */
    double fill;           /* value of added pixels in mode constant */
    int32_t mode;          /* iter_pad_mode: constant, reflect, edge */
} iter_random_crop_options;
#define ITER_RANDOM_CROP_OPTIONS_INIT \
    { 0, 0, 0, 0, 0, ITER_PAD_CONSTANT }

/** How a resized pixel is computed. */
typedef enum iter_interpolation {
    ITER_INTERPOLATION_BILINEAR = 0,
    ITER_INTERPOLATION_BICUBIC = 1, /* cubic convolution with a = -0.5; always with antialias */
    ITER_INTERPOLATION_AREA = 2,    /* the mean of the pixels it covers, weighted by overlap */
    ITER_INTERPOLATION_NEAREST = 3  /* the pixel that holds its centre; between two, the second */
} iter_interpolation;

/** At which size the decoder returns a JPEG that is made smaller afterwards. Smaller ones decode
 * faster, and have other pixels. */
typedef enum iter_jpeg_scale {
    ITER_JPEG_EXACT = 0, /* full size */
    ITER_JPEG_FAST = 1,  /* 1/2, 1/4 or 1/8 of it, if that is not smaller than the result */
    ITER_JPEG_AUTO = 2   /* the same, if each side is at least twice the result's */
} iter_jpeg_scale;

/**
 * resize: another height and width; the aspect may change. Two passes in fixed point with bytes
 * between them, the same bits on every processor.
 *
 * bilinear with antialias and bicubic equal Pillow 13 bit for bit. Older versions of Pillow run the
 * passes in another order if the height loses more than twice the pixels of the width; some bytes
 * then differ by one. bilinear without antialias interpolates between the two nearest pixels, as
 * torch's interpolate(align_corners=False) and OpenCV's INTER_LINEAR do; it differs from these by
 * at most one level. If neither side grows, area equals OpenCV's INTER_AREA, also within one level.
 */
typedef struct iter_resize_options {
    int64_t size;          /* (1) height and width; 0 = by height and width */
    int64_t height, width; /* used if size is 0 */
    int32_t interpolation; /* iter_interpolation: bilinear, bicubic, area, nearest */
    bool antialias;        /* of bilinear; with bicubic it must be true */
    int32_t jpeg_scale;    /* iter_jpeg_scale: exact, fast, auto */
} iter_resize_options;
#define ITER_RESIZE_OPTIONS_INIT \
    { 0, 0, 0, ITER_INTERPOLATION_BILINEAR, true, ITER_JPEG_EXACT }

/** resize-short: the short side becomes `size`, the long one floor(size * long / short). Otherwise
 * as resize. Unless jpeg-scale is exact, the long side may differ by one. */
typedef struct iter_resize_short_options {
    int64_t size;          /* (1) at least 1 */
    int32_t interpolation; /* iter_interpolation */
    bool antialias;        /* as resize */
    int32_t jpeg_scale;    /* iter_jpeg_scale */
} iter_resize_short_options;
#define ITER_RESIZE_SHORT_OPTIONS_INIT \
    { 0, ITER_INTERPOLATION_BILINEAR, true, ITER_JPEG_EXACT }

/**
 * random-resized-crop: a window of random area and aspect, resized. As torchvision: up to ten times
 * it draws the share of the image's area, then width / height (uniform in the logarithm), and
 * rounds the sides to nearest. If they fit, it draws y, then x. If no try fits, it takes the
 * largest window in the middle whose aspect is within bounds. Szegedy et al. 2015.
 */
typedef struct iter_random_resized_crop_options {
    int64_t size;           /* (1) height and width of the result; 0 = by height and width */
    int64_t height, width;  /* used if size is 0 */
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
    ITER_ROUNDING_PILLOW = 0,     /* the upper or left one: n / 2 rows are cut off the top */
    ITER_ROUNDING_TORCHVISION = 1 /* n / 2 rounded to even, as Python's round() does */
} iter_rounding;

/** center-crop: the window in the middle. If the middle lies between two pixels, `rounding` chooses
 * one. */
typedef struct iter_center_crop_options {
    int64_t size;          /* (1) height and width; 0 = by height and width */
    int64_t height, width; /* used if size is 0 */
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
    int64_t all;                      /* (1) on every side; the next four are added to it */
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

/** random-flip: mirrors the image with probability p. Draws one number. */
typedef struct iter_random_flip_options {
    double p;     /* (1) 0 .. 1 */
    int32_t axis; /* iter_flip_axis: horizontal, vertical */
} iter_random_flip_options;
#define ITER_RANDOM_FLIP_OPTIONS_INIT \
    { 0.5, ITER_FLIP_HORIZONTAL }

/** flip: mirrors every image. */
typedef struct iter_flip_options {
    int32_t axis; /* (1) iter_flip_axis */
} iter_flip_options;
#define ITER_FLIP_OPTIONS_INIT \
    { ITER_FLIP_HORIZONTAL }

/**
 * cutout: overwrites one square. Draws its centre, y, then x, uniform over the image's pixels. The
 * square begins at row y - size / 2; the part outside the image is cut off. DeVries, Taylor 2017.
 */
typedef struct iter_cutout_options {
    int64_t size; /* (1) side of the square, at least 1 */
    double fill;
} iter_cutout_options;
#define ITER_CUTOUT_OPTIONS_INIT \
    { 0, 0 }

/**
 * random-erasing: overwrites one rectangle with probability p. Up to ten times it draws the share
 * of the image's area, then height / width (uniform in the logarithm), and rounds the sides to
 * nearest. If both are smaller than the image's, it draws y, then x. If no try fits, it erases
 * nothing. As torchvision with a value; Zhong et al. 2017.
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
 * color-jitter: changes brightness, contrast, saturation and hue in random order. As torchvision
 * over Pillow's images, byte for byte: factors are uniform in max(0, 1 - x) .. 1 + x, the hue's
 * shift in -hue .. hue of the circle. Always draws the order (three numbers), then four numbers,
 * even if some options are 0. u8 "HWC" of 1 or 3 channels; saturation and hue need 3.
 */
typedef struct iter_color_jitter_options {
    double brightness; /* (1) 0 = unchanged; so for all four */
    double contrast;   /* (2) towards and away from the mean of the gray image */
    double saturation; /* (3) towards and away from each pixel's gray */
    double hue;        /* (4) 0 .. 0.5 */
} iter_color_jitter_options;
#define ITER_COLOR_JITTER_OPTIONS_INIT \
    { 0, 0, 0, 0 }

/** random-grayscale: with probability p all channels become gray, (19595 R + 38470 G + 7471 B +
 * 32768) / 65536 rounded down, as in Pillow. Draws one number. u8 "HWC" of 1 or 3 channels. */
typedef struct iter_random_grayscale_options {
    double p; /* (1) 0 .. 1 */
} iter_random_grayscale_options;
#define ITER_RANDOM_GRAYSCALE_OPTIONS_INIT \
    { 0.1 }

/* grayscale: every image becomes gray and keeps its number of channels. No options. */

/* ---- Bytes ----------------------------------------------------------------------------------- */

/** posterize: keeps the upper `bits` of each value, the others become 0. u8, any shape. All stages
 * of bytes equal torchvision's; neighbouring ones join into one table. */
typedef struct iter_posterize_options {
    int64_t bits; /* (1) 0 .. 8; -1 = not given, which is an error */
} iter_posterize_options;
#define ITER_POSTERIZE_OPTIONS_INIT \
    { -1 }

/** random-posterize: posterize with probability p. Draws one number. */
typedef struct iter_random_posterize_options {
    int64_t bits; /* (1) as posterize */
    double p;     /* (2) 0 .. 1 */
} iter_random_posterize_options;
#define ITER_RANDOM_POSTERIZE_OPTIONS_INIT \
    { -1, 0.5 }

/** solarize: values of at least `threshold` become 255 - x. u8, any shape. */
typedef struct iter_solarize_options {
    int64_t threshold; /* (1) 0 = all .. 256 = none */
} iter_solarize_options;
#define ITER_SOLARIZE_OPTIONS_INIT \
    { 128 }

/** random-solarize: solarize with probability p. Draws one number. */
typedef struct iter_random_solarize_options {
    int64_t threshold; /* (1) 0 = all .. 256 = none */
    double p;          /* (2) 0 .. 1 */
} iter_random_solarize_options;
#define ITER_RANDOM_SOLARIZE_OPTIONS_INIT \
    { 128, 0.5 }

/* invert: every value becomes 255 - x. u8, any shape. No options. */

/** random-invert: invert with probability p. Draws one number. */
typedef struct iter_random_invert_options {
    double p; /* (1) 0 .. 1 */
} iter_random_invert_options;
#define ITER_RANDOM_INVERT_OPTIONS_INIT \
    { 0.5 }

/** gamma: 255.999 * gain * (x / 255) ^ gamma, rounded down, at most 255. u8, any shape. As
 * torchvision's adjust_gamma over Pillow's images. */
typedef struct iter_gamma_options {
    double gamma; /* (1) 0 .. 100; values below 1 make dark pixels lighter */
    double gain;  /* (2) 0 .. 1000 */
} iter_gamma_options;
#define ITER_GAMMA_OPTIONS_INIT \
    { 1, 1 }

/* ---- Values ---------------------------------------------------------------------------------- */

/** scale: x * factor + bias, in f32, or in f64 if the field is f64. Any shape. */
typedef struct iter_scale_options {
    double factor; /* (1) */
    double bias;   /* (2) */
} iter_scale_options;
#define ITER_SCALE_OPTIONS_INIT \
    { 1, 0 }

/** normalize: (x - mean) / std per channel, in f32, or in f64 if the field is f64. u8 pixels count
 * as x / 255. */
typedef struct iter_normalize_options {
    iter_option_list mean; /* one number, or one a channel; empty = 0 */
    iter_option_list std;  /* one number, or one a channel, none of them 0; empty = 1 */
} iter_normalize_options;
#define ITER_NORMALIZE_OPTIONS_INIT \
    {                               \
        {0, {0}}, {                 \
            0, {                    \
                0                   \
            }                       \
        }                           \
    }

/** cast: another element type. If that is an integer, values are rounded to nearest even and
 * saturated, and NaN becomes 0. Any shape, any field. */
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

/** one-hot: a whole number, [] or [1], becomes [classes]: 1 at that index, 0 elsewhere. If a label
 * is not in 0 .. classes - 1, its sample fails. */
typedef struct iter_one_hot_options {
    int64_t classes; /* (1) at least 1 */
    int32_t dtype;   /* iter_dtype of the result; none = f32 */
} iter_one_hot_options;
#define ITER_ONE_HOT_OPTIONS_INIT \
    { 0, ITER_DTYPE_NONE }

/* ---- Boxes ----------------------------------------------------------------------------------- */

/** Which boxes are kept after a crop. */
typedef enum iter_boxes_keep {
    ITER_BOXES_CENTER = 0, /* those whose centre is inside */
    ITER_BOXES_OVERLAP = 1 /* those of whose area more than `overlap` is inside */
} iter_boxes_keep;

/**
 * boxes: objects f32 [K, W], a row each, follow the image through crops, pads, flips and resizes.
 * Columns `column` to `column` + 3 are xmin, ymin, xmax, ymax; the others stay. Boxes are cut off
 * at the image's edges; those that are not kept, or have no area, are left out, and the others move
 * up. A row of any number of objects then has fewer; in one of a fixed number, the places at the
 * end become `fill`. `keep` as MXNet's crop_emit_mode. Unless jpeg-scale is exact, a box may be off
 * by as much as the decoder's rounding of sizes, a pixel.
 */
typedef struct iter_boxes_options {
    int32_t keep;   /* (1) iter_boxes_keep: center, overlap */
    double overlap; /* 0 .. 1 */
    int64_t column; /* of xmin */
    bool pixels;    /* coordinates are pixels; else parts of width and height, 0 .. 1 */
    double fill;
} iter_boxes_options;
#define ITER_BOXES_OPTIONS_INIT \
    { ITER_BOXES_CENTER, 0.3, 1, false, -1 }

/* ---- Tokens ---------------------------------------------------------------------------------- */

/** Which end of a sequence is kept. */
typedef enum iter_side { ITER_SIDE_LAST = 0, ITER_SIDE_FIRST = 1 } iter_side;

/** Which end of a sequence is filled up. */
typedef enum iter_pad_side { ITER_PAD_POST = 0, ITER_PAD_PRE = 1 } iter_pad_side;

/** truncate: cuts u16, i32 or i64 [T] to at most `length` tokens. A variable length stays
 * variable. */
typedef struct iter_truncate_options {
    int64_t length; /* (1) at least 1 */
    int32_t side;   /* (2) iter_side that is kept: last, first */
} iter_truncate_options;
#define ITER_TRUNCATE_OPTIONS_INIT \
    { 0, ITER_SIDE_LAST }

/** pad-tokens: fills u16, i32 or i64 [T] up to [length]. A longer sample fails, so truncate
 * first. */
typedef struct iter_pad_tokens_options {
    int64_t length; /* (1) at least 1 */
    int32_t side;   /* (2) iter_pad_side: post, pre */
    int64_t value;  /* id that is filled in */
} iter_pad_tokens_options;
#define ITER_PAD_TOKENS_OPTIONS_INIT \
    { 0, ITER_PAD_POST, 0 }

/**
 * tokens: adds `offset` to every id of u16, i32 or i64 [T]. An id that is then negative or not
 * below `limit` becomes `unknown`. `start` is put in front, so the row grows by one. Without a
 * limit a sample fails if its type cannot hold an id.
 */
typedef struct iter_tokens_options {
    int64_t offset;
    int64_t start;   /* -1 = none */
    int64_t unknown; /* below limit */
    int64_t limit;   /* 0 = none */
} iter_tokens_options;
#define ITER_TOKENS_OPTIONS_INIT \
    { 0, -1, 2, 0 }

/** pad-batch: fills the rows of a variable field up to one length: [N, T, ...], dense. Any type. A
 * batch stage. */
typedef struct iter_pad_batch_options {
    int64_t to;       /* (1) that length; a longer row fails the batch; 0 = the longest row's */
    int64_t multiple; /* (2) the longest is rounded up to a multiple of this; 0 = 1 */
    double value;     /* of the added elements; the field's type must have this value */
    int32_t side;     /* iter_pad_side */
} iter_pad_batch_options;
#define ITER_PAD_BATCH_OPTIONS_INIT \
    { 0, 1, 0, ITER_PAD_POST }

/** lengths: adds a field i32 [N] with the lengths of a variable field's rows. A batch stage. */
typedef struct iter_lengths_options {
    const char *name; /* (1) of the new field; NULL = "<field>_length" */
} iter_lengths_options;
#define ITER_LENGTHS_OPTIONS_INIT \
    { NULL }

/* tnc: [N, T, ...] becomes [T, N, ...]. If the field is variable, pad-batch must come first. A
 * batch stage without options. */

ITER_END_DECLS

#endif
