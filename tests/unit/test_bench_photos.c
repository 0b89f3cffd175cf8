/*
 * test_bench_photos.c - bench/generate_photos.c, photo_yard.c, limits_decode.c, decode_limit.c: photos
 * that are made, and the straight loops over them.
 *
 * Which part of which photo the loops get is worked out here a second time, from the index that a
 * loader tells and the stage's own table with the numbers of (seed, epoch, position).
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

#include "bench/arm.h"
#include "bench/decode_limit.h"
#include "bench/generate.h"
#include "bench/photo_yard.h"

TestSuite(bench_photos, .timeout = 120);

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

/* Height and width as the frame header says. */
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
    cr_assert_eq(generate_photos(&options, folder, &bytes, &err),
                 ITER_EINVAL); /* never over them */
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

Test(bench_photos, loops_get_the_loaders_parts, .init = make_photos, .fini = remove_photos) {
    iter_error err;
    bench_options options = options_of(3);
    bench_arm arm;
    photo_yard yard;
    cr_assert_eq(arm_open(&options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(photo_yard_open(&yard, &options, arm.loaders[0], 1, 40, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_str_empty(yard.why);
    cr_assert_geq(yard.n_batches, 6); /* two epochs of three batches, at least */
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
    /* Rows are 16 bytes beside borders of 32, at least that far apart; an MCU is 16 columns. */
    const int64_t first = (photo.x / 16 - 1) * 16, n = photo.x + photo.width + 16 - first;
    const int64_t wide = (dims[1] * 3 + 63) / 32 * 32, narrow = (n * 3 + 63) / 32 * 32;
    for (int64_t y = 0; y < photo.height; y++)
        cr_assert_arr_eq(part + 16 + y * narrow + (photo.x - first) * 3,
                         whole + 16 + (photo.y + y) * wide + photo.x * 3, (size_t)photo.width * 3);
    const limits_photo photos[3] = {photo, {.bytes = jpeg, .size = 200}, photo};
    cr_assert_eq(limits_decode(decoder, photos, 3, true, whole), 1); /* no frame in 200 bytes */
    cr_assert(strlen(limits_decoder_text(decoder)) > 0);
    cr_assert_eq(limits_decode(decoder, photos, 1, true, whole), 1); /* and it goes on */
    free(whole);
    free(jpeg);
    limits_decoder_destroy(decoder);
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

Test(bench_photos, what_has_no_loop_says_why, .init = make_photos, .fini = remove_photos) {
    iter_error err;
    bench_options options = options_of(3);
    bench_arm arm;
    photo_yard yard;
    options.chain = "random-resized-crop:size=64,jpeg-scale=fast | to:f32,nchw";
    cr_assert_eq(arm_open(&options, NULL, &arm, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(photo_yard_open(&yard, &options, arm.loaders[0], 1, 40, &err), ITER_OK);
    cr_assert(strstr(yard.why, "smaller") != NULL, "%s", yard.why);
    photo_yard_close(&yard);
    arm_close(&arm);
}
