/*
 * stress_boxes.c - boxes follow their images.
 *
 * Each pixel of the images says where it was (red its column, green its row), so the pixels of the
 * result tell where the inside of a box went. That must be where the label says, through every
 * stage that moves pixels, folded or not; and the same for any workers, ranks and saved position.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

enum { RECORDS = 60, BOXES = 5, MARK = 77, SIDE_MAX = 120, RAW_HEIGHT = 70, RAW_WIDTH = 90 };

static char folder[MAKE_PATH_MAX];

static struct truth {
    int height, width;
    int box[BOXES][4]; /* xmin, ymin, xmax, ymax in pixels */
} truths[RECORDS], raw_truth;

/* ---- Files ----------------------------------------------------------------------------------- */

static uint8_t *put_le32(uint8_t *at, uint32_t x) {
    for (int i = 0; i < 4; i++)
        *at++ = (uint8_t)(x >> (8 * i));
    return at;
}

static uint8_t *put_be32(uint8_t *at, uint32_t x) {
    for (int i = 3; i >= 0; i--)
        *at++ = (uint8_t)(x >> (8 * i));
    return at;
}

static uint8_t *put_floats(uint8_t *at, const float *x, int n) {
    memcpy(at, x, 4 * (size_t)n);
    return at + 4 * n;
}

static uint8_t *put_pixels(uint8_t *at, const struct truth *t, bool is_png) {
    for (int y = 0; y < t->height; y++) {
        if (is_png) *at++ = 0; /* no filter */
        for (int x = 0; x < t->width; x++) {
            *at++ = (uint8_t)x;
            *at++ = (uint8_t)y;
            *at++ = MARK;
        }
    }
    return at;
}

static uint8_t *put_chunk(uint8_t *at, const char *name, const uint8_t *bytes, size_t n) {
    uint8_t *begin = at = put_be32(at, (uint32_t)n);
    memcpy(at, name, 4);
    memcpy(at + 4, bytes, n);
    at += 4 + n;
    return put_be32(at, (uint32_t)crc32(0, begin, (uInt)(at - begin)));
}

static uint8_t *put_png(uint8_t *at, const struct truth *t) {
    static uint8_t raw[SIDE_MAX * (1 + 3 * SIDE_MAX)], packed[sizeof(raw) + 1000];
    uint8_t head[13];
    uLongf n = sizeof(packed);
    put_be32(put_be32(head, (uint32_t)t->width), (uint32_t)t->height);
    memcpy(head + 8, "\x08\x02\0\0\0", 5);
    memcpy(at, "\x89PNG\r\n\x1a\n", 8);
    at = put_chunk(at + 8, "IHDR", head, 13);
    compress(packed, &n, raw, (uLong)(put_pixels(raw, t, true) - raw));
    return put_chunk(put_chunk(at, "IDAT", packed, n), "IEND", packed, 0);
}

static uint8_t *put_labels(uint8_t *at, const struct truth *t) {
    const float head[] = {4, 6, 11, 12}; /* two of its own that no one reads */
    at = put_floats(at, head, 4);
    for (int k = 0; k < BOXES; k++) {
        const int *b = t->box[k];
        const float w = (float)t->width, h = (float)t->height;
        const float row[] = {(float)k,        (float)b[0] / w, (float)b[1] / h,
                             (float)b[2] / w, (float)b[3] / h, (float)(100 + k)};
        at = put_floats(at, row, 6);
    }
    return at;
}

static uint8_t *put_record(uint8_t *at, uint64_t id, const struct truth *t, bool is_png) {
    uint8_t *begin = at;
    at += 8;
    at = put_le32(at, 4 + 6 * BOXES);
    at = put_le32(put_le32(put_le32(at, 0), (uint32_t)id), 0);
    at = put_labels(put_le32(put_le32(at, 0), 0), t);
    at = is_png ? put_png(at, t) : put_pixels(at, t, false);
    put_le32(put_le32(begin, 0xced7230a), (uint32_t)(at - begin - 8));
    while ((at - begin) % 4)
        *at++ = 0;
    return at;
}

static void draw_truth(struct truth *t, int height, int width) {
    *t = (struct truth){.height = height, .width = width};
    for (int k = 0; k < BOXES; k++) {
        int *b = t->box[k];
        b[0] = rand() % (width - 8);
        b[1] = rand() % (height - 8);
        b[2] = b[0] + 4 + rand() % (width - b[0] - 3);
        b[3] = b[1] + 4 + rand() % (height - b[1] - 3);
    }
}

static void make_sets(void) {
    static uint8_t bytes[RECORDS * (SIDE_MAX * SIDE_MAX * 4 + 1000)];
    uint8_t *at = bytes;
    srand(3);
    for (int i = 0; i < RECORDS; i++) {
        draw_truth(&truths[i], 60 + rand() % 60, 60 + rand() % 60);
        at = put_record(at, (uint64_t)i, &truths[i], true);
    }
    make_file(folder, "any.rec", bytes, (size_t)(at - bytes));
    draw_truth(&raw_truth, RAW_HEIGHT, RAW_WIDTH);
    at = bytes;
    for (int i = 0; i < RECORDS; i++)
        at = put_record(at, (uint64_t)i, &raw_truth, false);
    make_file(folder, "raw.rec", bytes, (size_t)(at - bytes));
}

/* ---- Where the pixels went ------------------------------------------------------------------- */

/* The rectangle around the result's pixels that came from box k: false = there are none. */
static bool find_box(const uint8_t *image, int height, int width, const int *box, int out[4]) {
    out[0] = out[1] = SIDE_MAX;
    out[2] = out[3] = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t *p = image + 3 * (y * width + x);
            if (p[2] != MARK || p[0] < box[0] || p[0] >= box[2] || p[1] < box[1] || p[1] >= box[3])
                continue;
            out[0] = x < out[0] ? x : out[0];
            out[1] = y < out[1] ? y : out[1];
            out[2] = x + 1 > out[2] ? x + 1 : out[2];
            out[3] = y + 1 > out[3] ? y + 1 : out[3];
        }
    return out[2] > 0;
}

/* Compares one row; returns how many boxes it has. `slack` in pixels: with a resize an edge lies
 * within a pixel. */
static int check_row(const struct truth *t, const uint8_t *image, int height, int width,
                     const float *label, double slack) {
    int n = 0;
    for (int k = 0; k < BOXES; k++) {
        int seen[4];
        const bool is_seen = find_box(image, height, width, t->box[k], seen);
        const float *row = label + 6 * n;
        const bool is_told = row[0] == (float)k;
        if (slack == 0) EXPECT(is_told || !is_seen);
        if (!is_told) continue;
        n++;
        EXPECT(row[5] == (float)(100 + k));
        const double told[4] = {(double)row[1] * width, (double)row[2] * height,
                                (double)row[3] * width, (double)row[4] * height};
        EXPECT(told[0] >= 0 && told[1] >= 0 && told[2] <= width && told[3] <= height);
        if (!is_seen) {
            EXPECT(slack > 0 && (told[2] - told[0] <= 1.01 || told[3] - told[1] <= 1.01));
            continue;
        }
        for (int i = 0; i < 4; i++)
            if (!EXPECT(fabs(told[i] - seen[i]) <= slack + 1e-3))
                fprintf(stderr, "box %d edge %d: told %g, seen %d\n", k, i, told[i], seen[i]);
    }
    for (int i = 6 * n; i < 6 * BOXES; i++)
        EXPECT(label[i] == -1);
    return n;
}

#define REST " | boxes:overlap,overlap=0 | pad-batch:5,field=label,value=-1"

static const struct geometry {
    const char *chain;
    bool is_raw;
    double slack;
} all[] = {
    {"random-crop:48,pad=8" REST, false, 0},
    {"random-crop:48,pad=20,mode=reflect | crop:10,10,30,30" REST, false, -1},
    {"random-crop:50 | random-flip | random-flip:axis=vertical" REST, false, 0},
    {"crop:4,6,50,44 | pad:5 | flip | random-crop:40" REST, false, 0},
    {"center-crop:51 | random-flip" REST, false, 0},
    {"random-resized-crop:48,interpolation=nearest | random-flip" REST, false, 1},
    {"resize:height=40,width=90,interpolation=nearest | flip:axis=vertical" REST, false, 1},
    {"resize-short:57,interpolation=nearest | center-crop:50 | random-flip | "
     "random-crop:48,pad=4" REST,
     false, 1},
    {"random-flip | color-jitter:0.1 | resize:40,interpolation=nearest" REST, false, -1},
    {"random-crop:48,pad=8 | random-flip" REST, true, 0},
    {"random-flip | random-resized-crop:50,interpolation=nearest | random-crop:40" REST, true, 1},
    {"pad:left=3,top=2 | crop:1,2,60,70 | random-flip:axis=vertical | random-flip" REST, true, 0},
};

static iter_dataset *open_set(const struct geometry *g) {
    char spec[MAKE_PATH_MAX + 64];
    iter_dataset *data;
    iter_error err;
    snprintf(spec, sizeof(spec), "recordio:%s/%s.rec?objects=8%s", folder,
             g->is_raw ? "raw" : "any", g->is_raw ? "&raw=70x90x3" : "");
    if (!EXPECT_OK(iter_dataset_open(spec, NULL, &data, &err), &err)) exit(1);
    return data;
}

static void check_batch(const struct geometry *g, const iter_batch *batch, int *n_boxes) {
    const iter_tensor *images = iter_batch_find(batch, "data"),
                      *labels = iter_batch_find(batch, "label");
    const int height = (int)images->desc.dims[1], width = (int)images->desc.dims[2];
    const uint64_t *index = iter_batch_index(batch);
    for (uint32_t r = 0; r < iter_batch_describe(batch).n_valid; r++)
        *n_boxes +=
            check_row(g->is_raw ? &raw_truth : &truths[index[r]],
                      (const uint8_t *)images->data + (size_t)r * 3 * height * width, height, width,
                      (const float *)labels->data + (size_t)r * 6 * BOXES, g->slack);
}

static void follows(const struct geometry *g) {
    iter_chain *chain = drive_chain(g->chain);
    iter_dataset *data = open_set(g);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_error err;
    iter_batch *batch;
    opt.batch_size = 8;
    opt.shuffle = ITER_SHUFFLE_FULL;
    iter_loader *loader = drive_loader(data, chain, &opt);
    int n_boxes = 0;
    for (int epoch = 0; epoch < 4 && g->slack >= 0; epoch++) {
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            check_batch(g, batch, &n_boxes);
            iter_batch_unref(batch);
        }
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    if (g->slack >= 0) EXPECT(n_boxes > RECORDS * BOXES);
    iter_loader_unref(loader);
    opt.workers = 0;
    loader = drive_loader(data, chain, &opt);
    const uint64_t want = drive_run(loader, 2);
    iter_loader_unref(loader);
    opt.workers = 3;
    EXPECT_EQ(drive_run_resuming(data, chain, &opt), want);
    EXPECT_EQ(drive_run_ranks(data, chain, opt, 2), want);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
}

int main(void) {
#ifndef ITER_HAVE_PNG
    SKIP("this build is without PNG");
#endif
    make_folder(folder);
    make_sets();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        follows(&all[i]);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
