/*
 * limits_decode.c - straight loops over photos: what libjpeg-turbo itself takes for them.
 *
 * The calls are those that its manual has for decoding a part: jpeg_crop_scanline() before the first
 * row, jpeg_skip_scanlines() above the part, jpeg_abort_decompress() after its last row. One MCU more
 * is decoded on each side, or chroma at the edge is not that of the whole picture. The settings are the
 * defaults, the object is used again for every photo, and rows lie beside 32-byte borders, where
 * libjpeg-turbo stores them through the cache: the fastest that is known to give the exact pixels. They
 * are left as they come, with the columns beside the part; nobody reads them.
 */
#include "limits_decode.h"

#ifdef ITER_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#define ROWS_AT_ONCE 4
#define BORDER       32
#define STRIDE(n)    (((size_t)(n) + 2 * BORDER - 1) & ~(size_t)(BORDER - 1))

struct limits_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    jmp_buf fail;
    bool gray;
    uint64_t done; /* of this call */
    char text[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr common) {
    limits_decoder *d = common->client_data;
    common->err->format_message(common, d->text);
    longjmp(d->fail, 1);
}

static void on_message(j_common_ptr common, int level) {
    (void)common, (void)level;
}

/* Columns [*x, *x + *n) of the picture are decoded. */
static void crop(struct jpeg_decompress_struct *jpeg, const limits_photo *photo) {
    const int64_t block = (int64_t)DCTSIZE * jpeg->max_h_samp_factor;
    int64_t from = (photo->x / block - 1) * block, to = photo->x + photo->width + block;
    if (from < 0) from = 0;
    if (to > jpeg->output_width) to = jpeg->output_width;
    if (to - from == jpeg->output_width) return;
    JDIMENSION x = (JDIMENSION)from, n = (JDIMENSION)(to - from);
    jpeg_crop_scanline(jpeg, &x, &n);
}

static void one_photo(limits_decoder *d, const limits_photo *photo, bool whole, uint8_t *pixels) {
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    jpeg_mem_src(jpeg, photo->bytes, photo->size);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        jpeg->out_color_space = JCS_CMYK;
    else
        jpeg->out_color_space = d->gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->do_block_smoothing = FALSE;
    jpeg_start_decompress(jpeg);
    if (!whole) crop(jpeg, photo);
    const JDIMENSION first = whole ? 0 : (JDIMENSION)photo->y;
    const JDIMENSION end = whole ? jpeg->output_height : first + (JDIMENSION)photo->height;
    const size_t stride = STRIDE((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    if (first > 0) jpeg_skip_scanlines(jpeg, first);
    pixels += BORDER / 2;
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

uint64_t limits_decode(limits_decoder *decoder, const limits_photo *photos, uint64_t n, bool whole,
                       uint8_t *pixels) {
    decoder->done = 0;
    if (setjmp(decoder->fail) == 0)
        for (; decoder->done < n; decoder->done++)
            one_photo(decoder, &photos[decoder->done], whole, pixels);
    else
        jpeg_abort_decompress(&decoder->jpeg);
    return decoder->done;
}

/* ---- Around them ----------------------------------------------------------------------------- */

size_t limits_decode_bytes(int64_t height, int64_t width) {
    return (size_t)height * STRIDE(4 * width) + 2 * BORDER;
}

const char *limits_decoder_text(const limits_decoder *decoder) {
    return decoder->text;
}

static bool begin(limits_decoder *d) {
    d->jpeg.err = jpeg_std_error(&d->error);
    d->jpeg.client_data = d;
    d->error.error_exit = on_error;
    d->error.emit_message = on_message;
    if (setjmp(d->fail) != 0) return false;
    jpeg_create_decompress(&d->jpeg);
    return true;
}

limits_decoder *limits_decoder_create(bool gray) {
    limits_decoder *d = calloc(1, sizeof(*d));
    if (d == NULL) return NULL;
    d->gray = gray;
    if (begin(d)) return d;
    free(d);
    return NULL;
}

void limits_decoder_destroy(limits_decoder *decoder) {
    if (decoder == NULL) return;
    jpeg_destroy_decompress(&decoder->jpeg);
    free(decoder);
}

#else

size_t limits_decode_bytes(int64_t height, int64_t width) {
    return (size_t)height * (size_t)width * 4;
}

limits_decoder *limits_decoder_create(bool gray) {
    (void)gray;
    return NULL;
}

void limits_decoder_destroy(limits_decoder *decoder) {
    (void)decoder;
}

uint64_t limits_decode(limits_decoder *decoder, const limits_photo *photos, uint64_t n, bool whole,
                       uint8_t *pixels) {
    (void)decoder, (void)photos, (void)n, (void)whole, (void)pixels;
    return 0;
}

const char *limits_decoder_text(const limits_decoder *decoder) {
    (void)decoder;
    return "this build has no libjpeg";
}

#endif
