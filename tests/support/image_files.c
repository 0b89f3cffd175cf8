/*
 * image_files.c - decoders driven by hand, and folders of damaged pictures, for tests.
 */
#include "tests/support/image_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"

static void *must(void *got, const char *what) {
    if (got) return got;
    fprintf(stderr, "images: %s\n", what);
    exit(1);
}

void image_decoder_open(image_decoder *decoder, const iter_decoder_ops *ops,
                        const iter_image_options *options) {
    const iter_image_options defaults = ITER_IMAGE_OPTIONS_INIT;
    iter_error err = {0};
    decoder->ops = ops;
    decoder->options = options ? *options : defaults;
    decoder->state = must(iter__alloc(1, ops->base.state_size + 1), "no memory");
    if (ops->start && ops->start(decoder->state, &decoder->options, &err) < 0)
        must(NULL, err.message);
}

void image_decoder_close(image_decoder *decoder) {
    if (decoder->ops->stop) decoder->ops->stop(decoder->state);
    iter__free(decoder->state);
    decoder->state = NULL;
}

iter_status image_decode(image_decoder *decoder, const void *bytes, size_t size,
                         const iter_image_wish *wish, image *out, iter_error *err) {
    iter_desc desc = {
        .dtype = ITER_U8,
        .n_dims = 3,
        .dims = {ITER_VARIABLE, ITER_VARIABLE, iter__image_channels(&decoder->options)},
        .layout = "HWC"};
    *out = (image){.channels = desc.dims[2]};
    iter_status status =
        decoder->ops->header(decoder->state, &decoder->options, bytes, size, &desc, err);
    if (status < 0) return status;
    const iter_image_wish all = {.part = {0, 0, desc.dims[0], desc.dims[1]}};
    if (!wish) wish = &all;
    desc.dims[0] = wish->part.height;
    desc.dims[1] = wish->part.width;
    out->pixels = must(malloc(iter_desc_bytes(&desc)), "no memory for pixels");
    iter_tensor tensor = iter_tensor_dense(&desc, out->pixels);
    status = decoder->ops->decode_image(decoder->state, &decoder->options, bytes, size, wish,
                                        &tensor, err);
    out->height = tensor.desc.dims[0];
    out->width = tensor.desc.dims[1];
    if (status < 0) image_free(out);
    return status;
}

typedef struct rows_taker {
    iter_image_rows base;
    image *out;
    size_t row_bytes, beyond;
    int64_t n;
    /* of a row and the bytes after it: a volatile sink, so that all are really read */
    volatile uint8_t last;
    bool begun;
} rows_taker;

static size_t rows_begin(iter_image_rows *rows, const iter_desc *desc) {
    rows_taker *t = (rows_taker *)(void *)rows;
    if (t->begun) must(NULL, "rows begin twice");
    t->begun = true;
    t->out->height = desc->dims[0];
    t->out->width = desc->dims[1];
    t->row_bytes = (size_t)(desc->dims[1] * desc->dims[2]);
    return t->row_bytes + t->beyond;
}

static void rows_put(iter_image_rows *rows, const uint8_t *const *at, int32_t n) {
    rows_taker *t = (rows_taker *)(void *)rows;
    if (!t->begun || n < 1 || t->n + n > t->out->height) must(NULL, "rows that are not there");
    for (int32_t i = 0; i < n; i++) {
        memcpy(t->out->pixels + (size_t)(t->n + i) * t->row_bytes, at[i], t->row_bytes);
        for (size_t k = 0; k < t->row_bytes + t->beyond; k++)
            t->last = at[i][k];
    }
    t->n += n;
}

iter_status image_decode_rows(image_decoder *decoder, const void *bytes, size_t size,
                              const iter_image_wish *wish, size_t beyond, image *out,
                              bool *out_taken, iter_error *err) {
    rows_taker taker = {.base = {rows_begin, rows_put}, .out = out, .beyond = beyond};
    iter_image_wish with_rows = *wish;
    with_rows.rows = &taker.base;
    const iter_status status = image_decode(decoder, bytes, size, &with_rows, out, err);
    *out_taken = taker.begun;
    if (status == ITER_OK && taker.begun && taker.n != out->height) must(NULL, "rows are missing");
    return status;
}

void image_free(image *picture) {
    free(picture->pixels);
    picture->pixels = NULL;
}

bool image_is_part(const image *whole, const iter_rect *part, const image *cut) {
    if (cut->height != part->height || cut->width != part->width) return false;
    const size_t row = (size_t)(part->width * whole->channels);
    for (int64_t y = 0; y < part->height; y++) {
        const uint8_t *from =
            whole->pixels + ((part->y + y) * whole->width + part->x) * whole->channels;
        if (memcmp(from, cut->pixels + (size_t)y * row, row) != 0) return false;
    }
    return true;
}

uint8_t *image_file(const char *path, size_t *out_size) {
    FILE *f = must(fopen(path, "rb"), path);
    fseek(f, 0, SEEK_END);
    *out_size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = must(malloc(*out_size + 1), "no memory for a file");
    if (fread(bytes, 1, *out_size, f) != *out_size) must(NULL, path);
    bytes[*out_size] = 0;
    fclose(f);
    return bytes;
}

image image_expected(const char *path) {
    image out = {0};
    size_t size;
    long long width, height;
    char kind;
    int at = 0;
    uint8_t *bytes = image_file(path, &size);
    if (sscanf((char *)bytes, "P%c %lld %lld 255%n", &kind, &width, &height, &at) == 3 && at > 0) {
        out.channels = kind == '6' ? 3 : 1;
        out.height = height;
        out.width = width;
        const size_t n = (size_t)(height * width * out.channels);
        if (size == (size_t)at + 1 + n) {
            out.pixels = must(malloc(n), "no memory for pixels");
            memcpy(out.pixels, bytes + at + 1, n);
        }
    }
    free(bytes);
    return out;
}

static char **found;
static size_t n_found;

static int collect(const char *path, const struct stat *info, int kind, struct FTW *at) {
    const size_t length = strlen(path);
    (void)info, (void)at;
    if (kind != FTW_F || length < 4 || strcmp(path + length - 4, ".jpg") != 0) return 0;
    found = must(realloc(found, (n_found + 1) * sizeof(*found)), "no memory for paths");
    found[n_found++] = must(strdup(path), "no memory for paths");
    return 0;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t image_photos(char ***out) {
    const char *data = getenv("ITER_DATA");
    char folder[512];
    found = NULL;
    n_found = 0;
    if (data) {
        snprintf(folder, sizeof(folder), "%s/clothing", data);
        nftw(folder, collect, 16, FTW_PHYS);
    }
    if (n_found) qsort(found, n_found, sizeof(*found), compare);
    *out = found;
    return n_found;
}

void image_photos_free(char **paths, size_t n) {
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

iter_rect image_random_rect(uint64_t *seed, int64_t height, int64_t width) {
    iter_rect r;
    r.height = 1 + (int64_t)draw(seed, (uint64_t)height);
    r.width = 1 + (int64_t)draw(seed, (uint64_t)width);
    r.y = (int64_t)draw(seed, (uint64_t)(height - r.height + 1));
    r.x = (int64_t)draw(seed, (uint64_t)(width - r.width + 1));
    return r;
}
