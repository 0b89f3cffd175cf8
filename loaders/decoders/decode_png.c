/*
 * decode_png.c - PNG (ISO/IEC 15948) to pixels through libpng: 1 to 16 bits, palettes, interlacing.
 *
 * Pixels are those of the file, as other loaders read it: an alpha channel, or a transparent
 * colour, is dropped and not blended; of 16 bits the upper 8 count; chunks about colour spaces are
 * not read. Gray from colours is Rec. 601 luma.
 *
 * Rows above the requested part are decompressed and dropped, those below are never read. An
 * interlaced picture is decoded whole, into its own memory.
 *
 * If a file ends early, it fails, unless the options accept it (png_bytes.h). Then the rows that
 * exist are kept, and the others are black, or the first colour of a palette, as Pillow leaves them
 * under LOAD_TRUNCATED_IMAGES.
 *
 * libpng makes an object for each file. All of its memory and ours is in codec_memory.h.
 */
#include "loaders/decoders/image.h"

#include "iter/core/error.h"

#ifdef ITER_HAVE_PNG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "loaders/decoders/codec_memory.h"
#include "loaders/decoders/png_bytes.h"
#include "loaders/files/byte_order.h"

#define MAGIC_BYTES  ITER_PNG_MAGIC_BYTES
#define CHUNK_BYTES  ITER_PNG_CHUNK_BYTES
#define HEADER_BYTES 13 /* data of IHDR */

typedef struct png_state {
    png_structp png;
    png_infop info;
    jmp_buf fail;
    iter_status status;
    char text[256]; /* why it failed, or the first warning */
    const iter_image_options *options;
    iter__png_bytes bytes;
    size_t size;
    /* a pixel that is missing: zeros, or the first colour of a palette */
    uint8_t missing[3];
    /* an interlaced picture while it is read; from the picture's memory */
    uint8_t *rows;
    int64_t n_warnings;
    int32_t orientation;
    iter__codec_memory memory;
} png_state;

/* ---- What libpng calls ----------------------------------------------------------------------- */

static _Noreturn void fail_now(png_state *s, iter_status status) {
    s->status = status;
    longjmp(s->fail, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text) {
    png_state *s = png_get_error_ptr(png);
    snprintf(s->text, sizeof(s->text), "%s", text);
    fail_now(s, strstr(text, "memory") ? ITER_ENOMEM : ITER_EFORMAT);
}

static void on_warning(png_structp png, png_const_charp text) {
    png_state *s = png_get_error_ptr(png);
    if (s->n_warnings++ == 0) snprintf(s->text, sizeof(s->text), "%s", text);
    if (s->options->on_warning == ITER_WARNING_REJECT) fail_now(s, ITER_EFORMAT);
}

static void say_early(png_state *s) {
    snprintf(s->text, sizeof(s->text), "the data end early, after %zu bytes", s->size);
}

static void on_read(png_structp png, png_bytep out, size_t n) {
    png_state *s = png_get_io_ptr(png);
    if (iter__png_bytes_read(&s->bytes, out, n)) return;
    say_early(s);
    fail_now(s, ITER_EFORMAT);
}

static void *take(png_state *s, size_t bytes) {
    iter_error error;
    void *at;
    if (iter__codec_take(&s->memory, bytes, &at, &error) == ITER_OK) return at;
    snprintf(s->text, sizeof(s->text), "%.*s", (int)sizeof(s->text) - 1, error.message);
    fail_now(s, error.status);
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t bytes) {
    return take(png_get_mem_ptr(png), bytes);
}

static void on_free(png_structp png, png_voidp block) {
    (void)png, (void)block; /* all is freed at once, after the picture */
}

/* ---- static helpers -------------------------------------------------------------------------- */

/* Height, width and whether it is interlaced, from IHDR, which comes first. */
static iter_status read_size(const uint8_t *bytes, size_t size, int64_t *out_height,
                             int64_t *out_width, bool *out_interlaced, iter_error *err) {
    const uint8_t *header = bytes + MAGIC_BYTES + 8;
    if (size < MAGIC_BYTES + CHUNK_BYTES + HEADER_BYTES)
        return iter__fail(err, ITER_EFORMAT, "the data end early, after %zu bytes", size);
    if (iter__get_be32(bytes + MAGIC_BYTES) != HEADER_BYTES || memcmp(header - 4, "IHDR", 4) != 0)
        return iter__fail(err, ITER_EFORMAT, "it does not begin with IHDR");
    *out_width = iter__get_be32(header);
    *out_height = iter__get_be32(header + 4);
    *out_interlaced = header[12] != 0;
    if (*out_width > INT32_MAX || *out_height > INT32_MAX)
        return iter__fail(err, ITER_EFORMAT, "%lld x %lld pixels", (long long)*out_height,
                          (long long)*out_width);
    return ITER_OK;
}

/* The orientation of the chunk eXIf, wherever the chunk is. */
static int32_t find_orientation(const uint8_t *bytes, size_t size) {
    for (size_t at = MAGIC_BYTES; size - at >= CHUNK_BYTES;) {
        const size_t n = iter__get_be32(bytes + at);
        if (n > size - at - CHUNK_BYTES) return 1;
        if (memcmp(bytes + at + 4, "eXIf", 4) == 0)
            return iter__exif_orientation(bytes + at + 8, n);
        at += CHUNK_BYTES + n;
    }
    return 1;
}

static iter_status look(png_state *s, const uint8_t *bytes, size_t size, int64_t *out_height,
                        int64_t *out_width, bool *out_interlaced, iter_error *err) {
    ITER_TRY(read_size(bytes, size, out_height, out_width, out_interlaced, err));
    s->orientation = s->options->orient ? find_orientation(bytes, size) : 1;
    return iter__image_check_size(s->options, *out_height, *out_width, *out_interlaced, err);
}

static void end_image(png_state *s) {
    png_destroy_read_struct(&s->png, &s->info, NULL);
    iter__codec_give_back(&s->memory);
}

/* Everything becomes 8 bits of gray or RGB; returns the channels. */
static int64_t set_up(png_state *s) {
    const int color = png_get_color_type(s->png, s->info);
    const bool to_rgb = s->options->channels == ITER_IMAGE_RGB;
    const bool gray = !(color & PNG_COLOR_MASK_COLOR);
    png_colorp palette;
    int n_colors = 0;
    memset(s->missing, 0, sizeof(s->missing));
    if (color == PNG_COLOR_TYPE_PALETTE && png_get_PLTE(s->png, s->info, &palette, &n_colors))
        memcpy(s->missing, &(uint8_t[]){palette->red, palette->green, palette->blue}, 3);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(s->png);
    if (gray) png_set_expand_gray_1_2_4_to_8(s->png);
    if (gray && to_rgb) png_set_gray_to_rgb(s->png);
    png_set_strip_16(s->png);
    png_set_strip_alpha(s->png);
    png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    return gray && !to_rgb ? 1 : 3;
}

/* Stores a row at its place, as gray if the options ask for it. */
static void store_row(png_state *s, const iter_rect *part, int64_t y, uint8_t *row,
                      int64_t row_channels, uint8_t *out) {
    const int64_t channels = iter__image_channels(s->options);
    row += part->x * row_channels;
    if (row_channels != channels) {
        for (int64_t x = 0; x < part->width; x++)
            row[x] = iter__luma(row[3 * x], row[3 * x + 1], row[3 * x + 2]);
    }
    iter__orient_row(s->orientation, part->height, part->width, channels, y, row, out);
}

/* Fills n missing pixels. */
static void fill_pixels(const png_state *s, uint8_t *out, int64_t n, int64_t channels) {
    const uint8_t *color = s->missing;
    const uint8_t gray = iter__luma(color[0], color[1], color[2]);
    for (int64_t i = 0; i < n * channels; i++)
        out[i] = channels == 1 ? gray : color[i % 3];
}

/* Stores the rows of an interlaced picture at their places. */
static void store_rows(png_state *s, const iter_rect *part, uint8_t *out) {
    const size_t row_bytes = png_get_rowbytes(s->png, s->info);
    const int64_t channels = png_get_channels(s->png, s->info);
    for (int64_t y = 0; y < part->height; y++)
        store_row(s, part, y, s->rows + (size_t)(part->y + y) * row_bytes, channels, out);
}

/* A pass covers all rows, so an interlaced picture is kept whole. */
static void read_interlaced(png_state *s, int64_t height, int64_t width, int64_t channels) {
    const size_t row_bytes = png_get_rowbytes(s->png, s->info);
    uint8_t *rows = take(s, row_bytes * (size_t)height);
    fill_pixels(s, rows, height * width, channels);
    s->rows = rows;
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
        for (int64_t y = 0; y < height; y++)
            png_read_row(s->png, rows + (size_t)y * row_bytes, NULL);
}

static void read_rows(png_state *s, const iter_rect *part, int64_t width, int64_t channels,
                      uint8_t *out) {
    const size_t row_bytes = png_get_rowbytes(s->png, s->info);
    const bool straight =
        s->orientation == 1 && part->width == width && channels == iter__image_channels(s->options);
    uint8_t *own = !straight || part->y > 0 ? take(s, row_bytes) : NULL;
    for (int64_t y = 0; y < part->y; y++)
        png_read_row(s->png, own, NULL);
    for (int64_t y = 0; y < part->height; y++) {
        uint8_t *row = straight ? out + (size_t)y * row_bytes : own;
        png_read_row(s->png, row, NULL);
        if (!straight) store_row(s, part, y, row, channels, out);
    }
}

/* Reads up to the first row; returns the channels that rows have. */
static int64_t begin_image(png_state *s) {
    s->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, s, on_error, on_warning, s, on_alloc,
                                      on_free);
    if (s->png) s->info = png_create_info_struct(s->png);
    if (!s->info) {
        snprintf(s->text, sizeof(s->text), "no memory for libpng");
        fail_now(s, ITER_ENOMEM);
    }
    png_set_user_limits(s->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* known ones neither */
    png_set_read_fn(s->png, s, on_read);
    png_read_info(s->png, s->info);
    return set_up(s);
}

/* After an error: true if the picture ends early and the options accept it. Then that is a
 * warning. */
static bool accepts_end(png_state *s) {
    if (s->status != ITER_EFORMAT || !iter__png_bytes_ended(&s->bytes)) return false;
    say_early(s);
    s->n_warnings++;
    return s->options->on_warning != ITER_WARNING_REJECT;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void png_stop(void *state) {
    png_state *s = state;
    iter__codec_free(&s->memory);
}

static iter_status png_start(void *state, const void *shared, iter_error *err) {
    png_state *s = state;
    (void)err;
    s->options = shared;
    return ITER_OK;
}

static iter_status png_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                              iter_desc *out, iter_error *err) {
    png_state *s = state;
    int64_t height = 0, width = 0;
    bool interlaced = false;
    (void)shared; /* the state has it */
    ITER_TRY(look(s, bytes, size, &height, &width, &interlaced, err));
    const bool swaps = iter__orient_swaps(s->orientation);
    out->dims[0] = swaps ? width : height;
    out->dims[1] = swaps ? height : width;
    return ITER_OK;
}

/* Decodes the part; jumps out if libpng fails. */
static void read_part(png_state *s, const iter_rect *part, int64_t height, int64_t width,
                      bool interlaced, uint8_t *out) {
    const int64_t channels = begin_image(s);
    if (iter__png_bytes_mended(&s->bytes))
        fill_pixels(s, out, part->height * part->width, iter__image_channels(s->options));
    if (interlaced)
        read_interlaced(s, height, width, channels);
    else
        read_rows(s, part, width, channels, out);
}

/* False if libpng failed. Alone in a function, so that no variable lives across setjmp(). */
static bool try_part(png_state *s, const iter_rect *part, int64_t height, int64_t width,
                     bool interlaced, void *out) {
    if (setjmp(s->fail)) return false;
    read_part(s, part, height, width, interlaced, out);
    return true;
}

static iter_status png_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                              const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    png_state *s = state;
    int64_t height = 0, width = 0;
    bool interlaced = false;
    (void)shared;
    ITER_TRY(look(s, bytes, size, &height, &width, &interlaced, err));
    const bool swaps = iter__orient_swaps(s->orientation);
    ITER_TRY(iter__image_check_wish(wish, swaps ? width : height, swaps ? height : width, err));
    const iter_rect part = iter__orient_rect(s->orientation, &wish->part, height, width);
    const bool mend = s->options->truncated == ITER_TRUNCATED_ACCEPT;
    iter__png_bytes_open(&s->bytes, bytes, size, mend);
    s->size = size;
    s->n_warnings = 0;
    s->rows = NULL;
    const bool read = try_part(s, &part, height, width, interlaced, out->data) || accepts_end(s);
    if (read && s->rows) store_rows(s, &part, out->data);
    end_image(s);
    if (!read) return iter__fail(err, s->status, "%s", s->text);
    out->desc.dims[0] = wish->part.height;
    out->desc.dims[1] = wish->part.width;
    if (s->n_warnings && s->options->on_warning == ITER_WARNING_COUNT && err)
        snprintf(err->message, sizeof(err->message), "%s", s->text);
    return ITER_OK;
}

static void png_limit(void *state, size_t bytes) {
    png_state *s = state;
    s->memory.most = bytes;
}

const iter_decoder_ops iter__decoder_png = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "png",
             .help = "PNG to pixels, by libpng",
             .state_size = sizeof(png_state)},
    .start = png_start,
    .stop = png_stop,
    .header = png_header,
    .decode_image = png_decode,
    .limit = png_limit,
};

#else

ITER_ABSENT_CODEC(png, "PNG", "libpng (ITER_WITH_PNG)")

#endif
