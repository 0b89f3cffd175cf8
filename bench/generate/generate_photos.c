/*
 * generate_photos.c - JPEGs for machines without photos: about 400 x 533, in ten folders.
 *
 * The cost of decoding depends on the pixels and on how many coefficients they leave. So the
 * pictures have what photos have: soft areas of colour, shapes with edges, and texture that is
 * fainter the finer it is (value noise, octave by octave, each of half the size and about 0.6 of
 * the height, Perlin 1985). Each class has its own colours and stripes, so that a network has
 * something to learn. All arithmetic is in integers, so the pixels depend only on --seed and a
 * photo's number; the bytes of the file also depend on the libjpeg that writes them.
 */
#include "bench/generate/generate.h"

#include "bench/common/bench_util.h"

#ifdef ITER_HAVE_JPEG

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#define N_CLASSES  10
#define N_PHOTOS   300
#define QUALITY    90
#define SHORT_SIDE 400
#define LONG_SIDE  533
#define SIDE_MAX   800 /* LONG_SIDE, a quarter longer, plus the largest cell */
#define N_OCTAVES  8
#define N_SHAPES   7
#define PATH_BYTES 4096

/* ---- Types ----------------------------------------------------------------------------------- */

/* One octave of noise in one channel, or the same in all: cells of 2^bits pixels. */
typedef struct octave {
    int bits, height, channel; /* channel 3 = all */
    uint64_t seed;
} octave;

/* An ellipse with an edge, tinted. */
typedef struct shape {
    int y, x, height, width, tint[3];
} shape;

typedef struct photo {
    int height, width, number;
    int base[3], stripe, stripe_height;
    octave octaves[3 * 2 + N_OCTAVES];
    int n_octaves;
    shape shapes[N_SHAPES];
    int32_t sums[3][SIDE_MAX];
    int32_t lattice[SIDE_MAX];
    uint8_t row[SIDE_MAX * 3];
} photo;

typedef struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    jmp_buf fail;
    char text[JMSG_LENGTH_MAX];
    unsigned char *bytes;
    unsigned long size;
} writer;

/* ---- A photo --------------------------------------------------------------------------------- */

static int pick(uint64_t *state, int from, int to) {
    return from + (int)(generate_random(state) % (uint64_t)(to - from + 1));
}

static void draw_shapes(photo *p, uint64_t *state) {
    for (int i = 0; i < N_SHAPES; i++) {
        shape *s = &p->shapes[i];
        s->height = pick(state, p->height / 16, p->height / 3);
        s->width = pick(state, p->width / 16, p->width / 3);
        s->y = pick(state, 0, p->height);
        s->x = pick(state, 0, p->width);
        for (int c = 0; c < 3; c++)
            s->tint[c] = pick(state, -50, 50);
    }
}

/* Draws everything about photo `number` that is drawn once. */
static void draw(photo *p, uint64_t seed, int number) {
    static const int heights[N_OCTAVES] = {0, 9, 14, 20, 28, 36, 44, 52}; /* by bits */
    uint64_t state = seed ^ (uint64_t)(number + 1) * 0x632be59bd9b4e019u;
    const int kind = number % N_CLASSES, percent = pick(&state, 80, 125);
    const bool stands = pick(&state, 0, 1) == 1;
    p->number = number;
    p->height = (stands ? LONG_SIDE : SHORT_SIDE) * percent / 100;
    p->width = (stands ? SHORT_SIDE : LONG_SIDE) * percent / 100;
    for (int c = 0; c < 3; c++)
        p->base[c] = 70 + (kind * 37 + c * 71) % 110;
    p->stripe = 24 + 8 * kind;
    p->stripe_height = pick(&state, 6, 18);
    p->n_octaves = 0;
    for (int bits = 1; bits < N_OCTAVES; bits++)
        for (int c = bits < N_OCTAVES - 2 ? 3 : 0; c < (bits < N_OCTAVES - 2 ? 4 : 3); c++)
            p->octaves[p->n_octaves++] = (octave){bits, heights[bits], c, generate_random(&state)};
    draw_shapes(p, &state);
}

/* The value at a corner of a cell, in -128 .. 127. */
static int32_t corner(uint64_t seed, int cell_y, int cell_x) {
    uint64_t state = seed ^ ((uint64_t)(uint32_t)cell_y << 32 | (uint32_t)cell_x);
    return (int32_t)(generate_random(&state) & 0xff) - 128;
}

/* Adds row y of an octave: linear between the corners, 15 bits of fraction in the sums. */
static void add_octave(photo *p, const octave *o, int y) {
    const int size = 1 << o->bits, cells = p->width / size + 2;
    const int down = y & (size - 1), cell_y = y >> o->bits;
    for (int i = 0; i < cells; i++)
        p->lattice[i] =
            (corner(o->seed, cell_y, i) * (size - down) + corner(o->seed, cell_y + 1, i) * down) *
            (256 >> o->bits) * o->height;
    const int from = o->channel == 3 ? 0 : o->channel, to = o->channel == 3 ? 2 : o->channel;
    for (int i = 0; i * size < p->width; i++) {
        const int32_t left = p->lattice[i], step = p->lattice[i + 1] - left;
        for (int k = 0; k < size; k++) { /* up to a cell beyond the width */
            const int32_t value = (left * size + step * k) >> o->bits;
            for (int c = from; c <= to; c++)
                p->sums[c][i * size + k] += value;
        }
    }
}

/* A quarter of the way: dark to light and back, in slanted bands. */
static int band(const photo *p, int y, int x) {
    const int slope = p->number % N_CLASSES - 4;
    const int at = (x * 4 + y * slope + (1 << 20) * p->stripe) % (4 * p->stripe);
    const int up = at < 2 * p->stripe ? at : 4 * p->stripe - at;
    return (up - p->stripe) * p->stripe_height / p->stripe;
}

static bool is_inside(const shape *s, int y, int x) {
    const int64_t dy = y - s->y, dx = x - s->x;
    const int64_t h2 = (int64_t)s->height * s->height, w2 = (int64_t)s->width * s->width;
    return dy * dy * w2 + dx * dx * h2 < h2 * w2;
}

static void tint(photo *p, const int *by, int x) {
    for (int c = 0; c < 3; c++)
        p->sums[c][x] += by[c] * 32768;
}

static void make_row(photo *p, int y) {
    memset(p->sums, 0, sizeof(p->sums));
    for (int i = 0; i < p->n_octaves; i++)
        add_octave(p, &p->octaves[i], y);
    for (int i = 0; i < N_SHAPES; i++) {
        const shape *s = &p->shapes[i];
        if (y <= s->y - s->height || y >= s->y + s->height) continue;
        const int from = s->x - s->width < 0 ? 0 : s->x - s->width;
        const int to = s->x + s->width > p->width ? p->width : s->x + s->width;
        for (int x = from; x < to; x++)
            if (is_inside(s, y, x)) tint(p, s->tint, x);
    }
    for (int x = 0; x < p->width; x++) {
        const int shade = band(p, y, x);
        for (int c = 0; c < 3; c++) {
            const int value = p->base[c] + shade + p->sums[c][x] / 32768;
            p->row[x * 3 + c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
}

/* ---- A file ---------------------------------------------------------------------------------- */

static void on_error(j_common_ptr common) {
    writer *w = common->client_data;
    common->err->format_message(common, w->text);
    longjmp(w->fail, 1);
}

static iter_status begin(writer *w, iter_error *err) {
    w->jpeg.err = jpeg_std_error(&w->error);
    w->jpeg.client_data = w;
    w->error.error_exit = on_error;
    if (setjmp(w->fail) != 0) return bench_fail(err, ITER_ENOMEM, "libjpeg: %s", w->text);
    jpeg_create_compress(&w->jpeg);
    return ITER_OK;
}

/* The photo as a JPEG in w->bytes. */
static iter_status compress(writer *w, photo *p, iter_error *err) {
    struct jpeg_compress_struct *jpeg = &w->jpeg;
    if (setjmp(w->fail) != 0) return bench_fail(err, ITER_ENOMEM, "libjpeg: %s", w->text);
    free(w->bytes);
    w->bytes = NULL;
    w->size = 0;
    jpeg_mem_dest(jpeg, &w->bytes, &w->size);
    jpeg->image_width = (JDIMENSION)p->width;
    jpeg->image_height = (JDIMENSION)p->height;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    for (int y = 0; y < p->height; y++) {
        JSAMPROW row = p->row;
        make_row(p, y);
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    return ITER_OK;
}

/* Writes a new file, whole or not at all. If it exists, it is left alone. */
static iter_status store(const writer *w, const char *path, iter_error *err) {
    char part[PATH_BYTES + 8];
    snprintf(part, sizeof(part), "%s.part", path);
    if (access(path, F_OK) == 0) return bench_fail(err, ITER_EINVAL, "%s: exists already", path);
    int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return bench_fail(err, ITER_EIO, "%s: %s", part, strerror(errno));
    iter_status s = generate_write(file, w->bytes, w->size, part, err);
    if (close(file) < 0 && s == ITER_OK)
        s = bench_fail(err, ITER_EIO, "%s: %s", part, strerror(errno));
    if (s == ITER_OK && rename(part, path) < 0)
        s = bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    if (s < 0) unlink(part);
    return s;
}

static iter_status make_folders(const char *folder, iter_error *err) {
    char path[PATH_BYTES];
    for (int k = -1; k < N_CLASSES; k++) {
        int length = k < 0 ? snprintf(path, sizeof(path), "%s", folder)
                           : snprintf(path, sizeof(path), "%s/class-%d", folder, k);
        if (length + 32 >= (int)sizeof(path))
            return bench_fail(err, ITER_EINVAL, "%.100s...: the path is too long", folder);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return bench_fail(err, ITER_EIO, "%s: %s", path, strerror(errno));
    }
    return ITER_OK;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status generate_photos(const bench_options *options, const char *folder, uint64_t *out_bytes,
                            iter_error *err) {
    const int n = options->n > 0 ? (int)options->n : N_PHOTOS;
    char path[PATH_BYTES];
    *out_bytes = 0;
    photo *p = calloc(1, sizeof(*p));
    writer *w = calloc(1, sizeof(*w));
    iter_status s = ITER_OK;
    if (p == NULL || w == NULL) s = bench_fail(err, ITER_ENOMEM, "no memory");
    if (s == ITER_OK) s = make_folders(folder, err);
    if (s == ITER_OK) s = begin(w, err);
    for (int i = 0; s == ITER_OK && i < n; i++) {
        draw(p, options->seed, i);
        s = compress(w, p, err);
        snprintf(path, sizeof(path), "%s/class-%d/photo-%05d.jpg", folder, i % N_CLASSES, i);
        if (s == ITER_OK) s = store(w, path, err);
        *out_bytes += w->size;
    }
    if (w != NULL) {
        jpeg_destroy_compress(&w->jpeg);
        free(w->bytes);
    }
    free(w);
    free(p);
    return s;
}

#else

iter_status generate_photos(const bench_options *options, const char *folder, uint64_t *out_bytes,
                            iter_error *err) {
    (void)options, (void)folder;
    *out_bytes = 0;
    return bench_fail(err, ITER_EUNSUPPORTED,
                      "generate photos: this build has no libjpeg (libjpeg-dev)");
}

#endif
