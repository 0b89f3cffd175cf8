/*
 * limits_jpeg.c - a part of a photo by libjpeg-turbo alone.
 *
 * The calls are those of its manual for decoding a part: jpeg_crop_scanline() before the first row,
 * jpeg_skip_scanlines() above the part, jpeg_abort_decompress() after its last row. One MCU more is
 * decoded on each side; without it, chroma at the edge would differ from that of the whole picture.
 *
 * This is the fastest known way to the exact pixels: default settings, one object for all photos,
 * and rows off 32-byte boundaries, which libjpeg-turbo stores through the cache. The rows stay as
 * they come, with the columns beside the part, and are not read. If the part may be smaller, the
 * inverse transform makes it 8, 4 or 2 times smaller: libjpeg-turbo has fast ones for these.
 */
#include "bench/limits/limits_codecs.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef ITER_HAVE_JPEG

#include <setjmp.h>

#include <jpeglib.h>

#define ROWS_AT_ONCE 4
#define SCALE_MAX    8

struct limits_jpeg {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    jmp_buf fail;
    bool gray;
    char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr common) {
    limits_jpeg *d = common->client_data;
    common->err->format_message(common, d->text);
    longjmp(d->fail, 1);
}

static void on_message(j_common_ptr common, int level) {
    (void)common, (void)level;
}

/* How many times smaller the part is made. */
static int64_t scale_of(const limits_photo *photo) {
    if (photo->min_height <= 0 || photo->min_width <= 0) return 1;
    int64_t scale = SCALE_MAX;
    while (scale > 1 &&
           (photo->height / scale < photo->min_height || photo->width / scale < photo->min_width))
        scale /= 2;
    return scale;
}

/* Limits decoding to columns [x, x + n) of the output. */
static void crop(struct jpeg_decompress_struct *jpeg, int64_t at, int64_t wide, int64_t scale) {
    const int64_t block = (int64_t)DCTSIZE / scale * jpeg->max_h_samp_factor;
    int64_t from = (at / block - 1) * block, to = at + wide + block;
    if (from < 0) from = 0;
    if (to > jpeg->output_width) to = jpeg->output_width;
    if (to - from == jpeg->output_width) return;
    JDIMENSION x = (JDIMENSION)from, n = (JDIMENSION)(to - from);
    jpeg_crop_scanline(jpeg, &x, &n);
}

static void one_photo(limits_jpeg *d, const limits_photo *photo, bool whole, uint8_t *pixels) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    const int64_t scale = whole ? 1 : scale_of(photo);
    jpeg_mem_src(jpeg, photo->bytes, photo->size);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        jpeg->out_color_space = JCS_CMYK;
    else
        jpeg->out_color_space = d->gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->do_block_smoothing = FALSE;
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned)scale;
    jpeg_start_decompress(jpeg);
    if (!whole) crop(jpeg, photo->x / scale, photo->width / scale, scale);
    const JDIMENSION first = whole ? 0 : (JDIMENSION)(photo->y / scale);
    const JDIMENSION end =
        whole ? jpeg->output_height : first + (JDIMENSION)(photo->height / scale);
    const size_t stride =
        LIMITS_STRIDE((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    if (first > 0) jpeg_skip_scanlines(jpeg, first);
    pixels += LIMITS_BORDER / 2;
    while (jpeg->output_scanline < end) {
        JSAMPROW rows[ROWS_AT_ONCE];
        const JDIMENSION left = end - jpeg->output_scanline;
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            rows[i] = pixels + (size_t)i * stride;
        pixels +=
            jpeg_read_scanlines(jpeg, rows, left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE) * stride;
    }
    jpeg_abort_decompress(jpeg);
}

bool limits_jpeg_decode(limits_jpeg *jpeg, const limits_photo *photo, bool whole, uint8_t *pixels,
                        char *text) {
    if (jpeg == NULL) {
        snprintf(text, LIMITS_TEXT, "no memory for libjpeg");
        return false;
    }
    if (setjmp(jpeg->fail) == 0) {
        one_photo(jpeg, photo, whole, pixels);
        return true;
    }
    jpeg_abort_decompress(&jpeg->jpeg);
    snprintf(text, LIMITS_TEXT, "%.*s", LIMITS_TEXT - 1, jpeg->text);
    return false;
}

static bool begin(limits_jpeg *d) {
    d->jpeg.err = jpeg_std_error(&d->error);
    d->jpeg.client_data = d;
    d->error.error_exit = on_error;
    d->error.emit_message = on_message;
    if (setjmp(d->fail) != 0) return false;
    jpeg_create_decompress(&d->jpeg);
    return true;
}

limits_jpeg *limits_jpeg_create(bool gray) {
    limits_jpeg *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->gray = gray;
    if (begin(d)) return d;
    free(d);
    return NULL;
}

void limits_jpeg_destroy(limits_jpeg *jpeg) {
    if (jpeg == NULL) return;
    jpeg_destroy_decompress(&jpeg->jpeg);
    free(jpeg);
}

#else

limits_jpeg *limits_jpeg_create(bool gray) {
    (void)gray;
    return NULL;
}

void limits_jpeg_destroy(limits_jpeg *jpeg) {
    (void)jpeg;
}

bool limits_jpeg_decode(limits_jpeg *jpeg, const limits_photo *photo, bool whole, uint8_t *pixels,
                        char *text) {
    (void)jpeg, (void)photo, (void)whole, (void)pixels;
    snprintf(text, LIMITS_TEXT, "this build has no libjpeg");
    return false;
}

#endif
