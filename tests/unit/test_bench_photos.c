/*
 * test_bench_photos.c - bench/generate/generate_photos.c, photo_yard.c, limits_decode.c,
 * limits_jpeg.c, limits_png.c, decode_limit.c: generated photos, and the straight loops over them.
 *
 * The test computes a second time which part of which photo the loops get: from the loader's index,
 * and from the stage's own table with the numbers of (seed, epoch, position).
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/transforms.h>

#include "bench/generate/generate.h"
#include "bench/limits/decode_limit.h"
#include "bench/limits/photo_yard.h"
#include "bench/measure/arm.h"

TestSuite(bench_photos, .timeout = 280);

#define GOLDEN   ITER_SOURCE_DIR "/tests/golden/images/"
#define N_PHOTOS 12
#define CHAIN    "random-resized-crop:size=64 | random-flip | normalize | to:f32,nchw"

static char folder[64], data[96];

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at) {
    (void)stat, (void)kind, (void)at;
    return remove(path);
}

static void remove_photos(void) {
    if (folder[0] != '\0') nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static bench_options options_of(uint64_t seed) {
    return (bench_options){.n = N_PHOTOS,
                           .seed = seed,
                           .batch = 5,
                           .ranks = 1,
                           .pairs = 6,
                           .shuffle = ITER_SHUFFLE_FULL,
                           .last_batch = ITER_LAST_KEEP,
                           .data = data,
                           .chain = CHAIN,
                           .seconds = 0.3,
                           .consumer = BENCH_CONSUMER_NONE,
                           .decode = true};
}

static void make_photos(void) {
#ifdef ITER_HAVE_JPEG
    iter_error err;
    uint64_t bytes;
    bench_options options = options_of(7);
    snprintf(folder, sizeof(folder), "/tmp/iter-photos-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(data, sizeof(data), "folder:%s", folder);
    cr_assert_eq(generate_photos(&options, folder, &bytes, &err), ITER_OK, "%s", err.message);
    cr_assert_gt(bytes, N_PHOTOS * 20000);
    cr_assert_lt(bytes, N_PHOTOS * 120000);
#else
    cr_skip_test("no libjpeg");
#endif
}

static size_t read_photo(const char *in, int number, uint8_t **out) {
    char path[160];
    snprintf(path, sizeof(path), "%s/class-%d/photo-%05d.jpg", in, number % 10, number);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    *out = malloc(1 << 20);
    size_t size = fread(*out, 1, 1 << 20, file);
    fclose(file);
    return size;
}

/* Height and width in the frame header. */
static void size_of(const uint8_t *jpeg, size_t size, int64_t dims[2]) {
    for (size_t at = 2; at + 9 < size && jpeg[at] == 0xff;
         at += 2 + (size_t)(jpeg[at + 2] * 256 + jpeg[at + 3])) {
        if (jpeg[at + 1] != 0xc0) continue;
        dims[0] = jpeg[at + 5] * 256 + jpeg[at + 6];
        dims[1] = jpeg[at + 7] * 256 + jpeg[at + 8];
        return;
    }
    cr_assert_fail("no frame in %zu bytes", size);
}

/* ---- Generated photos ------------------------------------------------------------------------ */

Test(bench_photos, a_seed_is_a_set_that_decodes, .init = make_photos, .fini = remove_photos) {
    iter_error err;
    char again[] = "/tmp/iter-photos-XXXXXX";
    uint64_t bytes;
    cr_assert_not_null(mkdtemp(again));
    for (uint64_t seed = 7; seed < 9; seed++) {
        bench_options options = options_of(seed);
        cr_assert_eq(generate_photos(&options, again, &bytes, &err), ITER_OK, "%s", err.message);
        for (int i = 0; i < N_PHOTOS; i++) {
            uint8_t *a, *b;
            int64_t dims[2];
            const size_t n_a = read_photo(folder, i, &a), n_b = read_photo(again, i, &b);
            cr_assert_eq(n_a == n_b && memcmp(a, b, n_a) == 0, seed == 7, "photo %d", i);
            size_of(a, n_a, dims);
            cr_assert(dims[0] >= 320 && dims[1] >= 320 && dims[0] <= 667 && dims[1] <= 667);
            free(a);
            free(b);
        }
        nftw(again, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    bench_options options = options_of(7);
    /* never overwrites them */
    cr_assert_eq(generate_photos(&options, folder, &bytes, &err), ITER_EINVAL);
    cr_assert(strstr(err.message, "exists already") != NULL, "%s", err.message);
    bench_arm arm;
    uint64_t samples;
    double seconds;
    options.epochs = 1;
    cr_assert_eq(arm_open(&options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(arm_run(&arm, 100, true, &samples, &seconds, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(samples, N_PHOTOS);
    arm_close(&arm);
}

/* ---- The loops' photos ----------------------------------------------------------------------- */

static iter_rect expected_part(uint64_t seed, uint32_t epoch, uint64_t position,
                               const int64_t dims[2]) {
    const iter_transform_ops *ops = iter_registry_transform(NULL, "random-resized-crop");
    iter_random_resized_crop_options crop = ITER_RANDOM_RESIZED_CROP_OPTIONS_INIT;
    iter_desc desc = {
        .dtype = ITER_U8, .n_dims = 3, .dims = {dims[0], dims[1], 3}, .layout = "HWC"};
    iter_rng rng = iter_rng_at(iter_rng_key(seed, "random-resized-crop", 0), epoch, position);
    iter_image_wish wish;
    crop.size = 64;
    ops->wish(&crop, &desc, &rng, &wish);
    return wish.part;
}

static void same_as_batch(const photo_yard *y, const photo_batch *at, const iter_batch *batch,
                          uint64_t seed) {
    const iter_batch_info info = iter_batch_describe(batch);
    cr_assert_eq(at->n, info.n_rows);
    cr_assert_eq(at->epoch, info.epoch);
    cr_assert_eq(at->sample, iter_batch_position(batch)[0]);
    for (uint32_t i = 0; i < at->n; i++) {
        const limits_photo *photo = &y->photos[at->first + i];
        const iter_rect got = {photo->y, photo->x, photo->height, photo->width};
        uint8_t *jpeg;
        int64_t dims[2];
        /* class folders, in order, each with its photos in order */
        const int index = (int)iter_batch_index(batch)[i];
        const int number = index < 4 ? index / 2 + index % 2 * 10 : index - 2;
        cr_assert_eq(read_photo(folder, number, &jpeg), photo->size);
        cr_assert_arr_eq(jpeg, photo->bytes, photo->size);
        size_of(jpeg, photo->size, dims);
        const iter_rect want = expected_part(seed, info.epoch, iter_batch_position(batch)[i], dims);
        cr_assert(memcmp(&got, &want, sizeof(got)) == 0, "batch of epoch %u, row %u", info.epoch,
                  i);
        free(jpeg);
    }
}

static photo_yard yard_of(const bench_options *options) {
    iter_error err;
    bench_arm arm;
    photo_yard yard;
    cr_assert_eq(arm_open(options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(photo_yard_open(&yard, options, arm.loaders[0], 1, 40, &err), ITER_OK, "%s",
                 err.message);
    arm_close(&arm);
    return yard;
}

/* Behaves as if files are not in the page cache, or on a file system that cannot try reads without
 * blocking. */
static iter_status never_at_once(void *state, iter_read *read) {
    (void)state, (void)read;
    return ITER_AGAIN;
}

static const iter_source_ops *source_of_threads(void) {
    static iter_source_ops ops;
    for (int i = 0; iter_builtin_source(i) != NULL; i++)
        if (strcmp(iter_builtin_source(i)->base.name, "pread") == 0) ops = *iter_builtin_source(i);
    ops.try_read = never_at_once;
    return &ops;
}

/* How the bytes arrive decides whether rows are decoded in order. */
static void same_parts(const iter_source_ops *source) {
    iter_error err;
    bench_options options = options_of(3);
    options.source_ops = source;
    bench_arm arm;
    photo_yard yard;
    cr_assert_eq(arm_open(&options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(photo_yard_open(&yard, &options, arm.loaders[0], 1, 40, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_str_empty(yard.why);
    cr_assert_geq(yard.n_batches, 6); /* two epochs of at least three batches */
    for (uint64_t b = 0; b < yard.n_batches; b++) {
        iter_batch *batch;
        iter_status s = iter_loader_next(arm.loaders[0], &batch, &err);
        if (s == ITER_END) {
            cr_assert_eq(iter_loader_reset(arm.loaders[0], &err), ITER_OK);
            s = iter_loader_next(arm.loaders[0], &batch, &err);
        }
        cr_assert_eq(s, ITER_OK, "%s", err.message);
        same_as_batch(&yard, &yard.batches[b], batch, options.seed);
        iter_batch_unref(batch);
    }
    photo_yard_close(&yard);
    arm_close(&arm);
}

Test(bench_photos, loops_get_the_loaders_parts, .init = make_photos, .fini = remove_photos) {
    same_parts(NULL);
}

/* Rows of zeros have no label: one picture is broken, and one file is no picture. */
Test(bench_photos, blank_rows_have_no_loops, .init = make_photos, .fini = remove_photos) {
    bench_options options = options_of(3);
    char path[160];
    options.on_error = ITER_ON_ERROR_BLANK;
    options.chain = "resize:16 | to:f32,nchw";
    for (int i = 3; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/class-%d/photo-%05d.jpg", folder, i, i);
        FILE *file = fopen(path, "r+b");
        cr_assert_not_null(file);
        cr_assert_eq(fwrite("no picture at all", 1, i == 3 ? 17 : 0, file), i == 3 ? 17 : 0);
        cr_assert_eq(i == 3 ? 0 : ftruncate(fileno(file), 100), 0);
        fclose(file);
    }
    photo_yard yard = yard_of(&options);
    cr_assert_str_empty(yard.why);
    for (uint64_t b = 0; b + 3 <= yard.n_batches; b += 3) /* 12 files, by 5 */
        cr_assert_eq(yard.batches[b].n + yard.batches[b + 1].n + yard.batches[b + 2].n, 10);
    cr_assert_geq(yard.n_batches, 3);
    photo_yard_close(&yard);
}

Test(bench_photos, whatever_order_bytes_come_in, .init = make_photos, .fini = remove_photos) {
    same_parts(source_of_threads());
}

/* ---- The loops ------------------------------------------------------------------------------- */

Test(bench_photos, a_part_is_cut_from_the_whole, .init = make_photos, .fini = remove_photos) {
    limits_decoder *decoder = limits_decoder_create(false);
    limits_photo photo = {.y = 37, .x = 53, .height = 150, .width = 131};
    uint8_t *jpeg;
    int64_t dims[2];
    photo.size = read_photo(folder, 3, &jpeg);
    photo.bytes = jpeg;
    size_of(jpeg, photo.size, dims);
    uint8_t *whole = calloc(2, limits_decode_bytes(dims[0], dims[1]));
    uint8_t *part = whole + limits_decode_bytes(dims[0], dims[1]);
    cr_assert_eq(limits_decode(decoder, &photo, 1, true, whole), 1);
    cr_assert_eq(limits_decode(decoder, &photo, 1, false, part), 1);
    /* Rows begin after 16 bytes, at a pitch that is a multiple of 32; an MCU is 16 columns. */
    const int64_t first = (photo.x / 16 - 1) * 16, n = photo.x + photo.width + 16 - first;
    const int64_t wide = (dims[1] * 3 + 63) / 32 * 32, narrow = (n * 3 + 63) / 32 * 32;
    for (int64_t y = 0; y < photo.height; y++)
        cr_assert_arr_eq(part + 16 + y * narrow + (photo.x - first) * 3,
                         whole + 16 + (photo.y + y) * wide + photo.x * 3, (size_t)photo.width * 3);
    const limits_photo photos[3] = {photo, {.bytes = jpeg, .size = 200}, photo};
    cr_assert_eq(limits_decode(decoder, photos, 3, true, whole), 1); /* no frame in 200 bytes */
    cr_assert(strlen(limits_decoder_text(decoder)) > 0);
    cr_assert_eq(limits_decode(decoder, photos, 1, true, whole), 1); /* and it stays usable */
    free(whole);
    free(jpeg);
    limits_decoder_destroy(decoder);
}

/* The mean of the 2 x 2 pixels that become one at half the size. */
static int mean_of_four(const uint8_t *whole, int64_t wide, int64_t y, int64_t x) {
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += whole[16 + (2 * y + i / 2) * wide + 3 * (2 * x + i % 2)];
    return sum / 4;
}

Test(bench_photos, a_part_may_come_smaller, .init = make_photos, .fini = remove_photos) {
    limits_decoder *decoder = limits_decoder_create(false);
    limits_photo photo = {.y = 64, .x = 32, .height = 160, .width = 130};
    uint8_t *jpeg;
    int64_t dims[2];
    photo.size = read_photo(folder, 3, &jpeg);
    photo.bytes = jpeg;
    size_of(jpeg, photo.size, dims);
    const size_t bytes = limits_decode_bytes(dims[0], dims[1]);
    uint8_t *whole = calloc(3, bytes), *half = whole + bytes, *as_it_is = half + bytes;
    cr_assert_eq(limits_decode(decoder, &photo, 1, true, whole), 1);
    /* 160 / 4 = 40 rows, 130 / 4 = 32 columns: a quarter would be too small */
    photo.min_height = 33;
    photo.min_width = 33;
    cr_assert_eq(limits_decode(decoder, &photo, 1, false, half), 1);
    const int64_t wide = (dims[1] * 3 + 63) / 32 * 32;
    /* An MCU is 8 columns now. One more lies on the left, up to column 8. */
    const int64_t n_columns = 65 + 8 + 8, narrow = (n_columns * 3 + 63) / 32 * 32;
    double differs = 0;
    for (int64_t y = 0; y < 80; y++)
        for (int64_t x = 0; x < 65; x++)
            differs += abs(mean_of_four(whole, wide, 32 + y, 16 + x) -
                           half[16 + y * narrow + (16 - 8 + x) * 3]);
    cr_assert_lt(differs / (80 * 65), 4, "%.1f a pixel", differs / (80 * 65));
    for (size_t i = (size_t)(16 + 84 * narrow); i < bytes; i++) /* rows come in groups of four */
        cr_assert_eq(half[i], 0, "more than 80 rows were made");
    photo.min_height = 81; /* and now half the size would be */
    cr_assert_eq(limits_decode(decoder, &photo, 1, false, half), 1);
    photo.min_height = photo.min_width = 0;
    cr_assert_eq(limits_decode(decoder, &photo, 1, false, as_it_is), 1);
    cr_assert_arr_eq(half + 16 + 90 * 256, as_it_is + 16 + 90 * 256, 256);
    free(whole);
    free(jpeg);
    limits_decoder_destroy(decoder);
}

static size_t read_golden(const char *name, const char *ending, uint8_t *out, size_t capacity) {
    char path[256];
    snprintf(path, sizeof(path), GOLDEN "%s%s", name, ending);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    const size_t size = fread(out, 1, capacity, file);
    fclose(file);
    return size;
}

/* PNGs of every kind, against pixels from another program. */
Test(bench_photos, pngs_have_their_pixels) {
#ifndef ITER_HAVE_PNG
    cr_skip_test("no libpng");
#endif
    static const char *const names[] = {"rgb8", "rgb16", "rgba8",  "rgba16", "p4",   "p8",    "g1",
                                        "g16",  "ga8",   "i_rgb8", "i_p4",   "i_g1", "chunks"};
    static uint8_t png[1 << 16], want[1 << 16], got[1 << 16];
    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        const char *name = names[i / 2];
        const bool whole = i % 2 == 0;
        int wide, high;
        limits_decoder *decoder = limits_decoder_create(false);
        limits_photo photo = {.bytes = png, .y = 3, .x = 5, .height = 20, .width = 7};
        photo.size = read_golden(name, ".png", png, sizeof(png));
        const size_t n = read_golden(name, ".ppm", want, sizeof(want));
        cr_assert_eq(sscanf((const char *)want, "P6 %d %d 255", &wide, &high), 2);
        const size_t bytes = (size_t)wide * (size_t)high * 3;
        memset(got, 0xa5, sizeof(got));
        cr_assert_eq(limits_decode(decoder, &photo, 1, whole, got), 1, "%s: %s", name,
                     limits_decoder_text(decoder));
        /* for a part, all rows down to its last one; if it is interlaced, all rows */
        const size_t made = whole || name[0] == 'i' ? bytes : (size_t)(23 * wide * 3);
        cr_assert_arr_eq(got, want + n - bytes, made, "%s", name);
        cr_assert_eq(got[made], 0xa5, "%s: more than was wanted", name);
        const limits_photo photos[2] = {{.bytes = png, .size = photo.size / 2, .height = 45},
                                        photo};
        cr_assert_eq(limits_decode(decoder, photos, 2, true, got), 0);
        cr_assert(strlen(limits_decoder_text(decoder)) > 0);
        limits_decoder_destroy(decoder);
    }
    limits_decoder *gray = limits_decoder_create(true);
    limits_photo photo = {.bytes = png};
    photo.size = read_golden("g4", ".png", png, sizeof(png));
    const size_t n = read_golden("g4", ".gray.pgm", want, sizeof(want));
    cr_assert_eq(limits_decode(gray, &photo, 1, true, got), 1);
    cr_assert_arr_eq(got, want + n - 53 * 45, 53 * 45);
    limits_decoder_destroy(gray);
}

Test(bench_photos, rounds_have_all_four_sides, .init = make_photos, .fini = remove_photos) {
    iter_error err;
    bench_options options = options_of(3);
    bench_arm arm;
    photo_yard yard;
    decode_limit limit = {0};
    cr_assert_eq(arm_open(&options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(photo_yard_open(&yard, &options, arm.loaders[0], 1, 60, &err), ITER_OK);
    cr_assert_eq(decode_limit_measure(&yard, &arm, &options, &limit, &err), ITER_OK, "%s",
                 err.message);
    cr_assert(limit.measured && limit.n_rounds > 0);
    const double limit_s = 1 / limit.part.median + 1 / limit.store.median + DECODE_REST_MS * 1e-3;
    cr_assert(limit.part_share > 0 && limit.part_share < 1);
    cr_assert(limit.loader.median > 0 && limit.whole.median > 0 && limit.ratio.median > 0);
    if (limit.n_rounds == 1) cr_assert(fabs(limit.limit.median * limit_s - 1) < 1e-9);
    photo_yard_close(&yard);
    arm_close(&arm);
}

#ifdef ITER_HAVE_PNG
static void add_png(const char *name, uint8_t *png, size_t size) {
    char path[160];
    snprintf(path, sizeof(path), "%s/class-0/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL && fwrite(png, 1, size, file) == size && fclose(file) == 0);
}
#endif

/* A PNG may contain the first bytes of a JPEG: only the file's own beginning tells its type. */
Test(bench_photos, pngs_and_jpegs_have_loops, .init = make_photos, .fini = remove_photos) {
#ifdef ITER_HAVE_PNG
    static uint8_t png[1 << 16];
    const size_t size = read_golden("rgb8", ".png", png, sizeof(png));
    bench_options options = options_of(3);
    photo_yard yard = yard_of(&options);
    double seconds;
    uint64_t n_decoded;
    iter_error err;
    cr_assert_str_empty(yard.why);
    cr_assert_str_eq(photo_yard_codecs(&yard), "libjpeg-turbo");
    photo_yard_close(&yard);
    add_png("a.png", png, size);
    memmove(png + 49, png + 33, size - 33); /* an unknown chunk after IHDR's 33 bytes */
    memcpy(png + 33, "\0\0\0\4teXu\xff\xd8\xff\0\x8b\xe2\x59\x6f", 16);
    add_png("b.png", png, size + 16);
    options.batch = 7; /* 14 files */
    options.chain = "resize:16 | to:f32,nchw";
    yard = yard_of(&options);
    cr_assert_str_empty(yard.why);
    cr_assert_str_eq(photo_yard_codecs(&yard), "libjpeg-turbo, libpng");
    cr_assert_geq(yard.n_batches, 2);
    uint64_t n_pngs = 0;
    for (uint64_t i = 0; i < yard.n_photos; i++)
        if (limits_is_png(yard.photos[i].bytes, yard.photos[i].size)) {
            cr_assert(yard.photos[i].size == size || yard.photos[i].size == size + 16);
            n_pngs++;
        }
    cr_assert(n_pngs == yard.n_pngs && n_pngs >= 2);
    cr_assert_eq(photo_yard_decode(&yard, 0, yard.n_photos, true, &n_decoded, &seconds, &err),
                 ITER_OK, "%s", err.message);
    cr_assert_eq(n_decoded, yard.n_photos);
    for (uint64_t i = 0; i < yard.n_photos; i++) /* truncated: skipped */
        if (limits_is_png(yard.photos[i].bytes, yard.photos[i].size)) yard.photos[i].size /= 2;
    cr_assert_eq(photo_yard_decode(&yard, 0, yard.n_photos, true, &n_decoded, &seconds, &err),
                 ITER_OK, "%s", err.message);
    cr_assert_eq(n_decoded, yard.n_photos - yard.n_pngs);
    for (uint64_t i = 0; i < yard.n_photos; i++)
        yard.photos[i].size = 0;
    cr_assert_eq(photo_yard_decode(&yard, 0, yard.n_photos, true, &n_decoded, &seconds, &err),
                 ITER_EFORMAT);
    cr_assert_eq(n_decoded, 0);
    photo_yard_close(&yard);
#else
    cr_skip_test("no libpng");
#endif
}

Test(bench_photos, smaller_parts_have_loops, .init = make_photos, .fini = remove_photos) {
    bench_options options = options_of(3);
    options.chain = "random-resized-crop:size=64,jpeg-scale=fast | to:f32,nchw";
    photo_yard fast = yard_of(&options);
    options.chain = "random-resized-crop:size=64 | to:f32,nchw";
    photo_yard exact = yard_of(&options);
    cr_assert_str_empty(fast.why);
    cr_assert_eq(fast.n_photos, exact.n_photos);
    for (uint64_t i = 0; i < fast.n_photos; i++) {
        cr_assert_eq(fast.photos[i].min_height, 64);
        cr_assert_eq(fast.photos[i].min_width, 64);
        cr_assert_eq(exact.photos[i].min_height, 0);
        cr_assert_eq(fast.photos[i].y, exact.photos[i].y);
        cr_assert_eq(fast.photos[i].width, exact.photos[i].width);
    }
    double seconds;
    uint64_t n_decoded;
    iter_error err;
    cr_assert_eq(photo_yard_decode(&fast, 0, fast.n_photos, false, &n_decoded, &seconds, &err),
                 ITER_OK, "%s", err.message);
    cr_assert_eq(n_decoded, fast.n_photos);
    photo_yard_close(&fast);
    photo_yard_close(&exact);
}

Test(bench_photos, what_has_no_loop_says_why, .init = make_photos, .fini = remove_photos) {
    char turned[128];
    bench_options options = options_of(3);
    snprintf(turned, sizeof(turned), "%s?orient=1", data);
    options.data = turned;
    photo_yard yard = yard_of(&options);
    cr_assert(strstr(yard.why, "turned") != NULL, "%s", yard.why);
    photo_yard_close(&yard);
}
