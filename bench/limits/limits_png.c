/*
 * limits_png.c - a photo by libpng alone.
 *
 * Everything becomes 8 bits of gray or RGB by libpng's own transformations; other chunks are
 * skipped. Rows are stored whole and without gaps, also those above the part: decompressing is most
 * of the work, and rows above cannot be left out. libpng's memory comes from malloc().
 */
#include "bench/limits/limits_codecs.h"

#include <stdio.h>
#include <string.h>

#ifdef ITER_HAVE_PNG

#include <setjmp.h>

#include <png.h>

typedef struct picture {
    png_structp png;
    png_infop info;
    jmp_buf fail;
    const uint8_t *at;
    size_t left;
    char *text;
} picture;

static _Noreturn void fail(picture *p, const char *text) {
    snprintf(p->text, LIMITS_TEXT, "%.*s", LIMITS_TEXT - 1, text);
    longjmp(p->fail, 1);
}

static _Noreturn void on_error(png_structp png, png_const_charp text) {
    fail(png_get_error_ptr(png), text);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n) {
    picture *p = png_get_io_ptr(png);
    if (n > p->left) fail(p, "the data end early");
    memcpy(out, p->at, n);
    p->at += n;
    p->left -= n;
}

static void set_up(picture *p, bool gray) {
    const int color = png_get_color_type(p->png, p->info);
    const bool is_gray = !(color & PNG_COLOR_MASK_COLOR);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(p->png);
    if (is_gray) png_set_expand_gray_1_2_4_to_8(p->png);
    if (is_gray && !gray) png_set_gray_to_rgb(p->png);
    png_set_strip_16(p->png);
    png_set_strip_alpha(p->png);
}

static void one_photo(picture *p, const limits_photo *photo, bool gray, bool whole,
                      uint8_t *pixels) {
    p->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, p, on_error, on_warning);
    if (p->png != NULL) p->info = png_create_info_struct(p->png);
    if (p->info == NULL) fail(p, "no memory for libpng");
    png_set_user_limits(p->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1); /* nor known ones */
    png_set_read_fn(p->png, p, on_read);
    png_read_info(p->png, p->info);
    set_up(p, gray);
    const int n_passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    const size_t row_bytes = png_get_rowbytes(p->png, p->info);
    int64_t n_rows = png_get_image_height(p->png, p->info);
    if (!whole && n_passes == 1) n_rows = photo->y + photo->height;
    for (int pass = 0; pass < n_passes; pass++)
        for (int64_t y = 0; y < n_rows; y++)
            png_read_row(p->png, pixels + (size_t)y * row_bytes, NULL);
}

/* The picture is the caller's, so its changes are defined after a longjmp(). */
static bool decode(picture *p, const limits_photo *photo, bool gray, bool whole, uint8_t *pixels) {
    if (setjmp(p->fail) != 0) return false;
    one_photo(p, photo, gray, whole, pixels);
    return true;
}

bool limits_png_decode(bool gray, const limits_photo *photo, bool whole, uint8_t *pixels,
                       char *text) {
    picture p = {.at = photo->bytes, .left = photo->size, .text = text};
    const bool done = decode(&p, photo, gray, whole, pixels);
    png_destroy_read_struct(&p.png, &p.info, NULL);
    return done;
}

#else

bool limits_png_decode(bool gray, const limits_photo *photo, bool whole, uint8_t *pixels,
                       char *text) {
    (void)gray, (void)photo, (void)whole, (void)pixels;
    snprintf(text, LIMITS_TEXT, "this build has no libpng");
    return false;
}

#endif
