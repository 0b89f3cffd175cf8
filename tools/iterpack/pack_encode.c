/*
 * pack_encode.c - see pack_encode.h.
 *
 * JPEG as made by OpenCV's imencode(), which im2rec calls: baseline, colour at half the resolution
 * each way, the standard's Huffman tables, the exact integer DCT. PNG by libpng's simplified
 * interface.
 *
 * Blocks of coefficients are written with restart markers and Huffman tables made for them.
 */
#include "tools/iterpack/pack_encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ITER_HAVE_JPEG
#include <setjmp.h>

#include <jpeglib.h>
#endif
#ifdef ITER_HAVE_PNG
#include <png.h>
#endif

/* ---- JPEG ------------------------------------------------------------------------------------ */

#ifdef ITER_HAVE_JPEG

#define BYTES_AT_FIRST ((size_t)1 << 16)

typedef struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_destination_mgr destination;
    jmp_buf fail;
    char text[JMSG_LENGTH_MAX];
    uint8_t *bytes;
    size_t capacity, n; /* n is set when it is complete */
} writer;

static _Noreturn void on_error(j_common_ptr common) {
    writer *w = common->client_data;
    common->err->format_message(common, w->text);
    longjmp(w->fail, 1);
}

static void on_output(j_common_ptr common) {
    (void)common;
}

/* Grows the buffer: at the start, and when it is full. */
static boolean more_room(j_compress_ptr jpeg) {
    writer *w = jpeg->client_data;
    const size_t used = w->capacity, wanted = 2 * used + BYTES_AT_FIRST;
    uint8_t *more = realloc(w->bytes, wanted);
    if (!more) {
        snprintf(w->text, sizeof(w->text), "no memory for %zu bytes", wanted);
        longjmp(w->fail, 1);
    }
    w->bytes = more;
    w->capacity = wanted;
    w->destination.next_output_byte = more + used;
    w->destination.free_in_buffer = wanted - used;
    return TRUE;
}

static void begin(j_compress_ptr jpeg) {
    writer *w = jpeg->client_data;
    w->destination.next_output_byte = w->bytes;
    w->destination.free_in_buffer = w->capacity;
    if (w->capacity == 0) more_room(jpeg);
}

static void end(j_compress_ptr jpeg) {
    writer *w = jpeg->client_data;
    w->n = w->capacity - w->destination.free_in_buffer;
}

static bool write_pixels(writer *w, const pack_pixels *pixels, int quality) {
    const size_t row_bytes = (size_t)pixels->width * (size_t)pixels->channels;
    if (setjmp(w->fail)) return false;
    jpeg_create_compress(&w->jpeg);
    w->jpeg.dest = &w->destination;
    w->jpeg.image_width = pixels->width;
    w->jpeg.image_height = pixels->height;
    w->jpeg.input_components = pixels->channels;
    w->jpeg.in_color_space = pixels->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&w->jpeg);
    w->jpeg.dct_method = JDCT_ISLOW;
    jpeg_set_quality(&w->jpeg, quality, TRUE);
    jpeg_start_compress(&w->jpeg, TRUE);
    while (w->jpeg.next_scanline < w->jpeg.image_height) {
        /* only reads it */
        JSAMPROW row = (JSAMPROW)(pixels->data + w->jpeg.next_scanline * row_bytes);
        jpeg_write_scanlines(&w->jpeg, &row, 1);
    }
    jpeg_finish_compress(&w->jpeg);
    return true;
}

/* Copies application segments and comments, except those that libjpeg has written itself. */
static void write_markers(j_compress_ptr to, const struct jpeg_decompress_struct *from) {
    for (jpeg_saved_marker_ptr m = from->marker_list; m; m = m->next) {
        const bool is_jfif =
            m->marker == JPEG_APP0 && m->data_length >= 5 && memcmp(m->data, "JFIF", 5) == 0;
        const bool is_adobe =
            m->marker == JPEG_APP0 + 14 && m->data_length >= 5 && memcmp(m->data, "Adobe", 5) == 0;
        if ((is_jfif && to->write_JFIF_header) || (is_adobe && to->write_Adobe_marker)) continue;
        jpeg_write_marker(to, m->marker, m->data, m->data_length);
    }
}

static bool write_blocks(writer *w, struct jpeg_decompress_struct *from, jvirt_barray_ptr *blocks,
                         unsigned interval, bool with_markers) {
    if (setjmp(w->fail)) return false;
    jpeg_create_compress(&w->jpeg);
    w->jpeg.dest = &w->destination;
    jpeg_copy_critical_parameters(from, &w->jpeg);
    w->jpeg.optimize_coding = TRUE;
    w->jpeg.restart_interval = interval;
    jpeg_write_coefficients(&w->jpeg, blocks);
    if (with_markers) write_markers(&w->jpeg, from);
    jpeg_finish_compress(&w->jpeg);
    return true;
}

static void open_writer(writer *w, uint8_t *bytes, size_t capacity) {
    memset(w, 0, sizeof(*w));
    w->bytes = bytes;
    w->capacity = capacity;
    w->jpeg.err = jpeg_std_error(&w->error);
    w->jpeg.client_data = w;
    w->error.error_exit = on_error;
    w->error.output_message = on_output;
    w->destination.init_destination = begin;
    w->destination.empty_output_buffer = more_room;
    w->destination.term_destination = end;
}

static void close_writer(writer *w, uint8_t **out, size_t *capacity, size_t *out_n) {
    jpeg_destroy_compress(&w->jpeg);
    *out = w->bytes;
    *capacity = w->capacity;
    *out_n = w->n;
}

bool pack_encode_has_jpeg(void) {
    return true;
}

bool pack_encode_jpeg(const pack_pixels *pixels, int quality, uint8_t **out, size_t *capacity,
                      size_t *out_n, char *reason, size_t reason_capacity) {
    writer w;
    open_writer(&w, *out, *capacity);
    const bool good = write_pixels(&w, pixels, quality);
    if (!good) snprintf(reason, reason_capacity, "cannot be encoded as JPEG: %s", w.text);
    close_writer(&w, out, capacity, out_n);
    return good;
}

bool pack_encode_blocks(struct jpeg_decompress_struct *from, struct jvirt_barray_control **blocks,
                        unsigned interval, bool with_markers, uint8_t **out, size_t *capacity,
                        size_t *out_n) {
    writer w;
    open_writer(&w, *out, *capacity);
    const bool good = write_blocks(&w, from, blocks, interval, with_markers);
    close_writer(&w, out, capacity, out_n);
    return good;
}

#else

bool pack_encode_has_jpeg(void) {
    return false;
}

bool pack_encode_jpeg(const pack_pixels *pixels, int quality, uint8_t **out, size_t *capacity,
                      size_t *out_n, char *reason, size_t reason_capacity) {
    (void)pixels, (void)quality, (void)out, (void)capacity, (void)out_n;
    snprintf(reason, reason_capacity, "this build has no libjpeg-turbo");
    return false;
}

#endif

/* ---- PNG ------------------------------------------------------------------------------------- */

#ifdef ITER_HAVE_PNG

bool pack_encode_has_png(void) {
    return true;
}

bool pack_encode_png(const pack_pixels *pixels, uint8_t **out, size_t *capacity, size_t *out_n,
                     char *reason, size_t reason_capacity) {
    png_image image;
    memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = pixels->width;
    image.height = pixels->height;
    image.format = pixels->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    /* An upper bound, so one pass is enough. */
    const size_t most = PNG_IMAGE_PNG_SIZE_MAX(image);
    if (most > *capacity) {
        uint8_t *more = realloc(*out, most);
        if (!more) {
            snprintf(reason, reason_capacity, "no memory for %zu bytes of PNG", most);
            return false;
        }
        *out = more;
        *capacity = most;
    }
    *out_n = *capacity;
    const int done = png_image_write_to_memory(&image, *out, out_n, 0, pixels->data, 0, NULL);
    if (!done) snprintf(reason, reason_capacity, "cannot be encoded as PNG: %s", image.message);
    png_image_free(&image);
    return done != 0;
}

#else

bool pack_encode_has_png(void) {
    return false;
}

bool pack_encode_png(const pack_pixels *pixels, uint8_t **out, size_t *capacity, size_t *out_n,
                     char *reason, size_t reason_capacity) {
    (void)pixels, (void)out, (void)capacity, (void)out_n;
    snprintf(reason, reason_capacity, "this build has no libpng");
    return false;
}

#endif
