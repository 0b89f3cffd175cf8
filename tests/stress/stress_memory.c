/*
 * stress_memory.c - memory_limit is a cap. The process must never have more than the limit and
 * SPARE, over pictures whose decoders need much memory, and over sets that do not fit.
 *
 * Each case runs in a process of its own (this program, with the case as its argument), so the
 * process's peak (VmHWM) is the case's. The memory that it had before the first call does not
 * count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/resident.h"

#define SPARE ((size_t)8 << 20) /* threads, libjpeg's own tables, pages of code */

#if !RESIDENT_IS_KNOWN || !defined(ITER_HAVE_JPEG) || !defined(ITER_HAVE_PNG)

int main(void) {
    SKIP("what is resident means nothing under a sanitizer; and pictures want JPEG and PNG");
}

#else

#include <jpeglib.h>
#include <png.h>
#ifdef ITER_HAVE_WEBP
#include <webp/encode.h>
#endif

/* ---- Files ----------------------------------------------------------------------------------- */

enum { HEIGHT = 2000, WIDTH = 3000 };

/* Smooth, so that it is quick to encode. */
static void paint(uint8_t *row, int y, int width) {
    for (int x = 0; x < width; x++) {
        row[3 * x] = (uint8_t)(x / 12);
        row[3 * x + 1] = (uint8_t)(y / 8);
        row[3 * x + 2] = (uint8_t)((x + y) / 20);
    }
}

/* Makes a JPEG of height x width. Progressive ones have full colour resolution, of which libjpeg
 * keeps 6 bytes a pixel. The caller must free() it. */
static unsigned char *make_jpeg(int height, int width, bool progressive, unsigned long *out_size) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr error;
    unsigned char *out = NULL;
    uint8_t *row = malloc((size_t)width * 3);
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    *out_size = 0;
    jpeg_mem_dest(&jpeg, &out, out_size);
    jpeg.image_height = (JDIMENSION)height;
    jpeg.image_width = (JDIMENSION)width;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (progressive) {
        jpeg_simple_progression(&jpeg);
        jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    }
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        paint(row, y, width);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    return out;
}

static void make_jpeg_file(const char *folder, const char *name, int height, int width,
                           bool progressive) {
    unsigned long size;
    unsigned char *bytes = make_jpeg(height, width, progressive, &size);
    make_file(folder, name, bytes, size);
    free(bytes);
}

static void make_interlaced_file(const char *folder, const char *name) {
    char path[MAKE_PATH_MAX];
    FILE *file = fopen(make_path(path, folder, name), "wb");
    uint8_t *row = malloc(WIDTH * 3);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_compression_level(png, 1);
    png_set_IHDR(png, info, WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    const int passes = png_set_interlace_handling(png);
    for (int y = 0; y < passes * HEIGHT; y++) {
        paint(row, y % HEIGHT, WIDTH);
        png_write_row(png, row);
    }
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free(row);
    fclose(file);
}

#ifdef ITER_HAVE_WEBP

/* libwebp keeps 4 bytes a pixel of a lossless one. */
static void make_webp_file(const char *folder, const char *name, bool lossless) {
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    uint8_t *pixels = malloc((size_t)HEIGHT * WIDTH * 3);
    for (int y = 0; y < HEIGHT; y++)
        paint(pixels + (size_t)y * WIDTH * 3, y, WIDTH);
    WebPConfigInit(&config);
    WebPPictureInit(&picture);
    WebPMemoryWriterInit(&writer);
    config.lossless = lossless;
    config.method = 0;
    config.quality = lossless ? 0 : 60;
    picture.use_argb = lossless;
    picture.width = WIDTH;
    picture.height = HEIGHT;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    WebPPictureImportRGB(&picture, pixels, WIDTH * 3);
    EXPECT(WebPEncode(&config, &picture));
    make_file(folder, name, writer.mem, writer.size);
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&writer);
    free(pixels);
}

#endif

static void put_u32(FILE *file, uint32_t value) {
    const uint8_t bytes[] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                             (uint8_t)(value >> 24)};
    fwrite(bytes, 1, 4, file);
}

/* Writes a piece of a record (flag 0: all of it), padded with zeros to a multiple of 4. */
static void put_piece(FILE *file, uint32_t flag, const void *header, const void *bytes, size_t n) {
    static const uint8_t zeros[4];
    put_u32(file, 0xced7230a);
    put_u32(file, flag << 29 | (uint32_t)(n + (header ? 24 : 0)));
    if (header) fwrite(header, 1, 24, file);
    fwrite(bytes, 1, n, file);
    fwrite(zeros, 1, -n % 4, file);
}

#define CUT_BYTES ((size_t)16 << 20)

/* Small pictures, each fourth of them in a record of two pieces with 16 MiB together. */
static void make_cut_records(const char *path) {
    static const uint8_t header[24];
    unsigned long size;
    unsigned char *picture = make_jpeg(100, 100, false, &size);
    uint8_t *long_one = calloc(1, CUT_BYTES);
    memcpy(long_one, picture, size);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 16; i++) {
        if (i % 4 == 3) {
            put_piece(file, 1, header, long_one, CUT_BYTES / 2);
            put_piece(file, 3, NULL, long_one + CUT_BYTES / 2, CUT_BYTES / 2);
        } else {
            put_piece(file, 0, header, picture, size);
        }
    }
    fclose(file);
    free(long_one);
    free(picture);
}

enum { RAW_SIDE = 160, RAW_RECORDS = 1600 }; /* 123 MB */

static void make_raw_records(const char *path) {
    const size_t n = RAW_SIDE * RAW_SIDE * 3;
    static const uint8_t header[24];
    uint8_t *pixels = malloc(n);
    FILE *file = fopen(path, "wb");
    for (uint32_t i = 0; i < RAW_RECORDS; i++) {
        for (size_t j = 0; j < n; j++)
            pixels[j] = (uint8_t)((i * 31 + j) & 0x7f);
        put_piece(file, 0, header, pixels, n);
    }
    fclose(file);
    free(pixels);
}

enum { TINY_RECORDS = 600000 };

static void make_tiny_records(const char *path) {
    FILE *file = fopen(path, "wb");
    for (uint32_t i = 0; i < TINY_RECORDS; i++)
        put_piece(file, 0, NULL, &i, sizeof(i));
    fclose(file);
}

/* Makes all files that the cases read. */
static void make_all(const char *folder) {
    char path[MAKE_PATH_MAX];
    make_subfolder(folder, "mix");
    make_path(path, folder, "mix");
    make_subfolder(path, "a");
    make_path(path, folder, "mix/a");
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d0-progressive.jpg", i);
        make_jpeg_file(path, name, HEIGHT, WIDTH, true);
        snprintf(name, sizeof(name), "%d1-baseline.jpg", i);
        make_jpeg_file(path, name, HEIGHT, WIDTH, false);
        snprintf(name, sizeof(name), "%d2-small-progressive.jpg", i);
        make_jpeg_file(path, name, HEIGHT / 8, WIDTH / 8, true);
        snprintf(name, sizeof(name), "%d3-interlaced.png", i);
        make_interlaced_file(path, name);
    }
    make_subfolder(folder, "large");
    make_path(path, folder, "large");
    make_jpeg_file(path, "baseline.jpg", 4000, 6000, false);
    make_jpeg_file(path, "progressive.jpg", 3000, 4000, true);
#ifdef ITER_HAVE_WEBP
    make_subfolder(folder, "webp");
    make_path(path, folder, "webp");
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d.webp", i);
        make_webp_file(path, name, i % 2 == 1);
    }
#endif
    make_cut_records(make_path(path, folder, "cut.rec"));
    make_raw_records(make_path(path, folder, "raw.rec"));
    make_tiny_records(make_path(path, folder, "tiny.rec"));
}

/* ---- Cases, each in a process of its own ----------------------------------------------------- */

static size_t resident_before;

static void expect_below(const char *what, size_t limit) {
    const size_t most = resident("VmHWM:") - resident_before;
    printf("%s: %.1f MiB at most, the limit is %.1f\n", what, (double)most / (1 << 20),
           (double)limit / (1 << 20));
    EXPECT(resident_before > 0);
    EXPECT(most <= limit + SPARE);
}

static iter_dataset *open_in(const char *folder, const char *format, const char *rest) {
    char spec[700];
    iter_error err;
    iter_dataset *data;
    snprintf(spec, sizeof(spec), "%s:\"%s/%s", format, folder, rest);
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) {
        fprintf(stderr, "%s: %s\n", spec, err.message);
        exit(1);
    }
    return data;
}

typedef struct outcome {
    uint64_t hash;
    size_t n_failed;
    iter_failure failed[64];
} outcome;

static outcome run(iter_dataset *data, const char *chain_text, const iter_loader_options *opt,
                   uint32_t epochs) {
    outcome out;
    iter_chain *chain = chain_text ? drive_chain(chain_text) : NULL;
    iter_loader *loader = drive_loader(data, chain, opt);
    out.hash = drive_run(loader, epochs);
    out.n_failed = iter_loader_failures(loader, out.failed, 64);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    return out;
}

static iter_loader_options options_with(uint64_t limit) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = 2;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    opt.memory.limit = limit;
    return opt;
}

/* Four large progressive and four interlaced pictures fail, the others do not. */
static void mixed_pictures(const char *folder, bool limited) {
    const size_t limit = (size_t)(limited ? 32 : 1024) << 20;
    iter_dataset *data = open_in(folder, "folder", "mix\"");
    const iter_loader_options opt = options_with(limit);
    const outcome got = run(data, "center-crop:64 | to:f32,nchw", &opt, 4);
    EXPECT_EQ(got.n_failed, limited ? 4 * 8 : 0);
    for (size_t i = 0; i < got.n_failed; i++) {
        EXPECT_EQ(got.failed[i].status, ITER_ENOMEM);
        EXPECT(got.failed[i].index % 4 == 0 || got.failed[i].index % 4 == 3);
        EXPECT(strstr(got.failed[i].message, "image: sample "));
        EXPECT(strstr(got.failed[i].message, "decoding takes "));
        EXPECT(strstr(got.failed[i].message, "raise max_sample_bytes, or memory.limit"));
    }
    if (got.n_failed) printf("%s\n", got.failed[0].message);
    iter_dataset_unref(data);
    expect_below("pictures", limit);
}

static void tight_pictures(const char *folder) {
    mixed_pictures(folder, true);
}

static void ample_pictures(const char *folder) {
    mixed_pictures(folder, false);
}

#ifdef ITER_HAVE_WEBP

/* Four lossless ones fail because of their headers, the lossy ones do not. */
static void webp_pictures(const char *folder, size_t limit, bool fit) {
    iter_dataset *data = open_in(folder, "folder", "webp\"?labels=no");
    const iter_loader_options opt = options_with(limit);
    const outcome got = run(data, "center-crop:64 | to:f32,nchw", &opt, 4);
    EXPECT_EQ(got.n_failed, fit ? 0 : 4 * 4);
    for (size_t i = 0; i < got.n_failed; i++) {
        EXPECT_EQ(got.failed[i].status, ITER_ENOMEM);
        EXPECT_EQ(got.failed[i].index % 2, 1);
        EXPECT(strstr(got.failed[i].message, "raise max_sample_bytes, or memory.limit"));
    }
    iter_dataset_unref(data);
    expect_below("WebP pictures", limit);
}

static void tight_webps(const char *folder) {
    webp_pictures(folder, (size_t)32 << 20, false);
}

static void ample_webps(const char *folder) {
    webp_pictures(folder, (size_t)640 << 20, true);
}

#endif

/* 24 million pixels as cameras write them, 12 million in progressive scans: the defaults must
 * do. */
static void default_limits(const char *folder) {
    iter_dataset *data = open_in(folder, "folder", "large\"?labels=no");
    iter_loader_options opt = options_with(0);
    opt.reading.max_sample_bytes = 0;
    const outcome got = run(data, "resize:size=64 | to:f32,nchw", &opt, 1);
    EXPECT_EQ(got.n_failed, 0);
    iter_dataset_unref(data);
}

/* Records in pieces: refused if they are too large to be put together. */
static void cut_records(const char *folder) {
    const size_t limit = (size_t)64 << 20;
    iter_dataset *data = open_in(folder, "recordio", "cut.rec\"");
    const iter_loader_options opt = options_with(limit);
    const outcome got = run(data, "center-crop:64 | to:f32,nchw", &opt, 4);
    EXPECT_EQ(got.n_failed, 4 * 4);
    for (size_t i = 0; i < got.n_failed; i++) {
        EXPECT_EQ(got.failed[i].status, ITER_ENOMEM);
        EXPECT_EQ(got.failed[i].index % 4, 3);
        EXPECT(strstr(got.failed[i].message, "in pieces is put together"));
    }
    iter_dataset_unref(data);
    expect_below("records in pieces", limit);
}

/* The set is five times as large as the limit: the same rows in the same order as without a
 * limit. */
static void raw_records(const char *folder) {
    static const int32_t orders[] = {ITER_SHUFFLE_NONE, ITER_SHUFFLE_FULL, ITER_SHUFFLE_BLOCK};
    const size_t limit = (size_t)24 << 20;
    char spec[64];
    uint64_t hash[3];
    snprintf(spec, sizeof(spec), "raw.rec\"?raw=%dx%dx3", RAW_SIDE, RAW_SIDE);
    iter_dataset *data = open_in(folder, "recordio", spec);
    iter_loader_options opt = options_with(limit);
    opt.sampler.block = 64;
    opt.sampler.buffer_blocks = 4;
    for (int i = 0; i < 3; i++) {
        opt.shuffle = orders[i];
        const outcome got = run(data, NULL, &opt, 1);
        EXPECT_EQ(got.n_failed, 0);
        hash[i] = got.hash;
    }
    expect_below("raw records", limit);
    opt.memory.limit = (uint64_t)1 << 30; /* the whole set is loaded */
    for (int i = 0; i < 3; i++) {
        opt.shuffle = orders[i];
        EXPECT(run(data, NULL, &opt, 1).hash == hash[i]);
    }
    iter_dataset_unref(data);
}

/* If an index does not fit, it is refused with its size. */
static void large_index(const char *folder) {
    char text[64];
    iter_error err;
    iter_loader *loader;
    iter_dataset *data = open_in(folder, "recordio", "tiny.rec\"?header=no&raw=1x4x1");
    const uint64_t bytes = iter_dataset_describe(data)->index_bytes;
    iter_loader_options opt = options_with((uint64_t)4 << 20);
    EXPECT(bytes >= TINY_RECORDS * 8 && bytes < TINY_RECORDS * 16);
    EXPECT_STATUS(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_ENOMEM, &err);
    snprintf(text, sizeof(text), "an index of %llu bytes", (unsigned long long)bytes);
    EXPECT(strstr(err.message, "memory.limit of 4194304 bytes is too small"));
    EXPECT(strstr(err.message, text));
    opt.memory.limit = (uint64_t)12 << 20;
    EXPECT_OK(iter_dataloader_create(data, NULL, &opt, &loader, &err), &err);
    EXPECT(strstr(iter_loader_plan_text(loader), "; at most 12582912\n"));
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    expect_below("index", (size_t)12 << 20);
}

/* The limit that the error names must do, and little less must not. */
static void expect_named_limit(iter_dataset *data, const char *chain_text,
                               iter_loader_options opt) {
    iter_error err;
    iter_loader *loader;
    iter_chain *chain = drive_chain(chain_text);
    unsigned long long limit = 0, sample = 0;
    EXPECT_STATUS(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_ENOMEM, &err);
    const char *at = strstr(err.message, "is too small, ");
    const char *of = strstr(err.message, "with max_sample_bytes of ");
    printf("%s\n", err.message);
    EXPECT(at && sscanf(at, "is too small, %llu would do", &limit) == 1);
    EXPECT(!strstr(err.message, "..."));
    if (of && EXPECT_EQ(sscanf(of, "with max_sample_bytes of %llu", &sample), 1)) {
        iter_loader_options less = opt;
        less.reading.max_sample_bytes = sample;
        EXPECT_OK(iter_dataloader_create(data, chain, &less, &loader, &err), &err);
        iter_loader_unref(loader);
    }
    EXPECT(limit > opt.memory.limit);
    opt.memory.limit = limit - limit / 64;
    EXPECT_STATUS(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_ENOMEM, &err);
    opt.memory.limit = limit;
    EXPECT_OK(iter_dataloader_create(data, chain, &opt, &loader, &err), &err);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
}

static void named_limits(const char *folder) {
    static const int32_t sources[] = {ITER_SOURCE_AUTO, ITER_SOURCE_MEMORY, ITER_SOURCE_PREAD};
    static const char tall[] = "center-crop:512 | to:f32,nchw";
    iter_dataset *data = open_in(folder, "folder", "mix\"");
    for (int s = 0; s < 3; s++) {
        iter_loader_options opt = options_with((uint64_t)16 << 20);
        opt.reading.source = sources[s];
        expect_named_limit(data, tall, opt);
        opt.workers = 16; /* more pictures than shares: the named limit counts all of them */
        expect_named_limit(data, tall, opt);
        opt.workers = 2;
        opt.memory.limit = (uint64_t)160 << 20; /* the slots fit, the pictures do not */
        expect_named_limit(data, tall, opt);
        opt.memory.limit = (uint64_t)80 << 20;
        opt.reading.max_sample_bytes = (uint64_t)40 << 20;
        expect_named_limit(data, tall, opt);
    }
    iter_dataset_unref(data);
}

static const struct {
    const char *name;
    void (*run)(const char *folder);
} cases[] = {{"tight-pictures", tight_pictures}, {"ample-pictures", ample_pictures},
             {"default-limits", default_limits}, {"cut-records", cut_records},
             {"raw-records", raw_records},       {"large-index", large_index},
#ifdef ITER_HAVE_WEBP
             {"tight-webps", tight_webps},       {"ample-webps", ample_webps},
#endif
             {"named-limits", named_limits}};

int main(int argc, char **argv) {
    resident_before = resident("VmRSS:");
    for (size_t i = 0; argc == 4 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) != 0) continue;
        cases[i].run(argv[2]);
        return EXPECT_DONE();
    }
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    make_all(folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        EXPECT(run_alone(cases[i].name, folder, "") == 0);
    make_folder_gone(folder);
    return EXPECT_DONE();
}

#endif
