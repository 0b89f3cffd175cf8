/*
 * image.h - options of the built-in image decoder, for your own formats of JPEG, PNG or WebP files.
 *
 * Such a format has one extent per image, and a field of any size:
 *
 *     static const iter_image_options images = ITER_IMAGE_OPTIONS_INIT;
 *
 *     out->fields[0] = (iter_field){.name = "data", .decoder = iter_builtin_decoder("image")};
 *     out->fields[0].desc = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
 *     out->fields[0].desc.dims[0] = out->fields[0].desc.dims[1] = ITER_VARIABLE;
 *     out->fields[0].desc.dims[2] = 3;    // 1 if channels is ITER_IMAGE_GRAY
 *     out->shared = &images;              // NULL = the defaults
 *
 * If other decoders of the format need a `shared` of their own, make the image options its first
 * member.
 */
#ifndef ITER_IMAGE_H
#define ITER_IMAGE_H

#include <stdbool.h>

#include <iter/ops.h>

ITER_BEGIN_DECLS

/** Channels of the decoded image. Alpha is dropped; of 16 bits the upper 8 are kept. */
typedef enum iter_image_channels { ITER_IMAGE_RGB = 0, ITER_IMAGE_GRAY = 1 } iter_image_channels;

/**
 * What happens to an image that the decoder warns about (damaged entropy data, stray bytes) and
 * still decodes: use it; use it and count it in the loader's statistics; or fail the sample.
 */
typedef enum iter_image_warning {
    ITER_WARNING_ACCEPT = 0,
    ITER_WARNING_COUNT = 1,
    ITER_WARNING_REJECT = 2
} iter_image_warning;

/**
 * What happens if the data of a JPEG or PNG end within the wanted rows. FAIL: the sample fails.
 * ACCEPT: the missing pixels are filled as Pillow does with LOAD_TRUNCATED_IMAGES, and the decoder
 * warns. Data that are missing below the wanted rows are not noticed. A WebP that ends early always
 * fails.
 */
typedef enum iter_image_truncated {
    ITER_TRUNCATED_FAIL = 0,
    ITER_TRUNCATED_ACCEPT = 1
} iter_image_truncated;

/** Options of the decoder "image", read once when a worker starts. Begin with
 * ITER_IMAGE_OPTIONS_INIT. */
typedef struct iter_image_options {
    size_t struct_size; /* sizeof(iter_image_options) */
    int32_t channels;   /* iter_image_channels; the field's dims[2] must be 3 or 1 to match */
    int32_t on_warning; /* iter_image_warning */
    bool orient;        /* turn images as their EXIF says */
    /* larger images fail with ENOMEM, progressive and interlaced ones above a quarter of it;
     * 0 = 100 million */
    int64_t max_pixels;
    int64_t max_scans; /* progressive JPEGs with more scans fail; 0 = 100 */
    int32_t truncated; /* iter_image_truncated */
} iter_image_options;

#define ITER_IMAGE_OPTIONS_INIT \
    { sizeof(iter_image_options), ITER_IMAGE_RGB, ITER_WARNING_COUNT, false, 100000000, 100, 0 }

ITER_END_DECLS

#endif
