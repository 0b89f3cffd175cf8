/*
 * stress_images.c - images of any size through loaders: the same rows for any number of workers,
 * any source and either seam (decoded in parts, or cut from arrays), with damaged files under each
 * policy, within bounds of memory, and without allocation once the loader runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/image_files.h"
#include "tests/support/make_data.h"

#define GOLDEN "tests/golden/images/"
#define CROP   "random-resized-crop:size=24 | random-flip | normalize:mean=0.5,std=0.25 | to:f32,nchw"

static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
static const int32_t all_workers[] = {0, 1, 2, 8};
/* All have 45 x 53 pixels. */
static const char *const alike[] = {"rgb444.jpg",  "rgb422.jpg",      "rgb420.jpg", "rgb440.jpg",
                                    "rgb411.jpg",  "progressive.jpg", "gray.jpg",   "cmyk.jpg",
                                    "restart.jpg", "asrgb.jpg",       "rgb8.png",   "rgba16.png",
                                    "i_p4.png",    "g2.png"};
static const char *const others[] = {"exif5.jpg", "turned6.png", "exif6be.jpg"};

#define N_ALIKE  (sizeof(alike) / sizeof(alike[0]))
#define N_OTHERS (sizeof(others) / sizeof(others[0]))

/* Write only so many percent of each golden file. OPTIONS accept truncated files. */
static size_t percent = 100;

#define OPTIONS (percent < 100 ? "?truncated=accept" : "")

static uint8_t *golden_file(const char *name, size_t *out_size) {
    char path[MAKE_PATH_MAX];
    uint8_t *bytes = image_file(make_path(path, GOLDEN, name), out_size);
    *out_size = *out_size * percent / 100;
    return bytes;
}

static void copy_golden(const char *folder, const char *name, const char *as) {
    size_t size;
    uint8_t *bytes = golden_file(name, &size);
    make_file(folder, as, bytes, size);
    free(bytes);
}

/* Makes classes "a" (alike, in the order above) and "b" (others), each three times; if `damaged`,
 * "c" with damaged ones. */
static void make_set(char folder[MAKE_PATH_MAX], bool damaged) {
    char class[MAKE_PATH_MAX], name[64];
    make_folder(folder);
    make_subfolder(folder, "a");
    make_subfolder(folder, "b");
    make_path(class, folder, "a");
    for (size_t i = 0; i < N_ALIKE; i++) {
        snprintf(name, sizeof(name), "%02zu%s", i, strrchr(alike[i], '.'));
        copy_golden(class, alike[i], name);
    }
    make_path(class, folder, "b");
    for (size_t i = 0; i < 3 * N_OTHERS; i++) {
        snprintf(name, sizeof(name), "%02zu%s", i, strrchr(others[i % N_OTHERS], '.'));
        copy_golden(class, others[i % N_OTHERS], name);
    }
    if (!damaged) return;
    char path[MAKE_PATH_MAX];
    size_t size;
    make_subfolder(folder, "c");
    make_path(class, folder, "c");
    uint8_t *bytes = image_file(make_path(path, GOLDEN, "rgb420.jpg"), &size);
    make_file(class, "cut.jpg", bytes, 300);
    make_file(class, "empty.jpg", bytes, 0);
    make_file(class, "page.jpg", "<!DOCTYPE html><html>404</html>", 31);
    free(bytes);
}

static iter_dataset *open_set(const char *folder, const char *options) {
    char spec[700];
    iter_error err;
    iter_dataset *data;
    snprintf(spec, sizeof(spec), "folder:\"%s\"%s", folder, options);
    if (iter_dataset_open(spec, NULL, &data, &err) < 0) {
        fprintf(stderr, "%s: %s\n", spec, err.message);
        exit(1);
    }
    return data;
}

static iter_loader_options base(void) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 11;
    return opt;
}

/* ---- The same for all ------------------------------------------------------------------------ */

static void same_for_all(const char *chain_text, const char *options, int32_t on_error,
                         bool damaged) {
    char folder[MAKE_PATH_MAX];
    uint64_t want = 0;
    make_set(folder, damaged);
    iter_chain *chain = drive_chain(chain_text);
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            iter_dataset *data = open_set(folder, options);
            iter_loader_options opt = base();
            opt.reading.source = sources[s];
            opt.workers = all_workers[w];
            opt.faults.on_error = on_error;
            iter_loader *loader = drive_loader(data, chain, &opt);
            const uint64_t got = drive_run(loader, 3);
            if (!want) want = got;
            EXPECT(got == want);
            iter_loader_stats stats = {.struct_size = sizeof(stats)};
            iter_error err;
            EXPECT_OK(iter_loader_stats_read(loader, &stats, &err), &err);
            EXPECT(damaged ? stats.n_failures > 0 : stats.n_failures == 0);
            iter_loader_unref(loader);
            iter_dataset_unref(data);
        }
    }
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

/* ---- A part decoded, or cut from the whole: the same rows ------------------------------------ */

static void expect_same_rows(iter_loader *a, iter_loader *b) {
    for (int epoch = 0; epoch < 4; epoch++) {
        iter_batch *from_a, *from_b;
        iter_error err;
        EXPECT_OK(iter_loader_next(a, &from_a, &err), &err);
        EXPECT_OK(iter_loader_next(b, &from_b, &err), &err);
        const iter_tensor *x = iter_batch_tensor(from_a, 0), *y = iter_batch_tensor(from_b, 0);
        EXPECT(iter_desc_bytes(&x->desc) == iter_desc_bytes(&y->desc));
        EXPECT(memcmp(x->data, y->data, iter_desc_bytes(&x->desc)) == 0);
        iter_batch_unref(from_a);
        iter_batch_unref(from_b);
        EXPECT_STATUS(iter_loader_next(a, &from_a, &err), ITER_END, &err);
        EXPECT_STATUS(iter_loader_next(b, &from_b, &err), ITER_END, &err);
        EXPECT_OK(iter_loader_reset(a, &err), &err);
        EXPECT_OK(iter_loader_reset(b, &err), &err);
    }
}

static void decoded_or_cut(const char *chain_text) {
    char folder[MAKE_PATH_MAX];
    make_set(folder, false);
    image_decoder decoder;
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    options.truncated = percent < 100 ? ITER_TRUNCATED_ACCEPT : ITER_TRUNCATED_FAIL;
    image_decoder_open(&decoder, &iter__decoder_image, &options);
    const size_t bytes = 45 * 53 * 3;
    uint8_t *pixels = malloc(N_ALIKE * bytes);
    for (size_t i = 0; i < N_ALIKE; i++) {
        size_t size;
        image whole;
        iter_error err = {0};
        uint8_t *file = golden_file(alike[i], &size);
        EXPECT_OK(image_decode(&decoder, file, size, NULL, &whole, &err), &err);
        EXPECT(whole.height == 45 && whole.width == 53);
        memcpy(pixels + i * bytes, whole.pixels, bytes);
        image_free(&whole);
        free(file);
    }
    image_decoder_close(&decoder);
    const iter_array array = {.desc = {.dtype = ITER_U8,
                                       .n_dims = 4,
                                       .dims = {(int64_t)N_ALIKE, 45, 53, 3},
                                       .layout = "NHWC"},
                              .data = pixels};
    uint64_t subset[N_ALIKE];
    for (size_t i = 0; i < N_ALIKE; i++)
        subset[i] = i;
    iter_chain *chain = drive_chain(chain_text);
    iter_loader_options opt = base();
    opt.shuffle = ITER_SHUFFLE_NONE;
    opt.batch_size = N_ALIKE;
    iter_loader *arrays;
    iter_error err = {0};
    EXPECT_OK(iter_ndarray_create(&array, 1, chain, &opt, &arrays, &err), &err);
    iter_dataset *data = open_set(folder, OPTIONS);
    opt.sampler.subset = subset;
    opt.sampler.n_subset = N_ALIKE;
    iter_loader *files = drive_loader(data, chain, &opt);
    expect_same_rows(arrays, files);
    iter_loader_unref(arrays);
    iter_loader_unref(files);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    free(pixels);
    make_folder_gone(folder);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void damaged_files_are_named(void) {
    static const struct {
        const char *file, *reason;
    } due[] = {{"cut.jpg", "image: sample 23 "},
               {"cut.jpg", "the data end early, after 300 bytes"},
               {"empty.jpg", "image: sample 24 "},
               {"empty.jpg", "the file is empty"},
               {"page.jpg", "image: sample 25 "},
               {"page.jpg", "not a JPEG, PNG or WebP: it begins as a text (HTML?)"}};
    char folder[MAKE_PATH_MAX];
    make_set(folder, true);
    iter_chain *chain = drive_chain(CROP);
    iter_dataset *data = open_set(folder, "");
    iter_loader_options opt = base();
    opt.shuffle = ITER_SHUFFLE_NONE;
    opt.batch_size = 1;
    opt.workers = 2;
    iter_loader *loader = drive_loader(data, chain, &opt);
    iter_error err;
    iter_batch *batch;
    for (int i = 0; i < 23; i++) {
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        iter_batch_unref(batch);
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_EFORMAT, &err);
        for (int k = 0; k < 2; k++) {
            EXPECT(strstr(err.message, due[2 * i + k].file));
            if (!strstr(err.message, due[2 * i + k].reason)) {
                fprintf(stderr, "no \"%s\" in \"%s\"\n", due[2 * i + k].reason, err.message);
                EXPECT(0);
            }
        }
    }
    EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_END, &err);
    iter_loader_unref(loader);
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    opt.batch_size = 26;
    loader = drive_loader(data, chain, &opt);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    const iter_batch_info info = iter_batch_describe(batch);
    EXPECT_EQ(info.n_failed, 3);
    for (uint32_t i = 0; i < 26; i++)
        EXPECT_EQ(iter_batch_valid(batch)[i], i < 23);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

/* A missing file fails with the system's reason for every source; the rest must go on. */
static void missing_files_are_failed_samples(void) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], want[32];
    make_set(folder, false);
    EXPECT_EQ(unlink(make_path(path, folder, "b/00.jpg")), 0);
    EXPECT_EQ(symlink("nowhere", path), 0);
    snprintf(want, sizeof(want), "read: sample %zu (", N_ALIKE);
    iter_dataset *data = open_set(folder, "");
    for (size_t i = 0; i < 2 * sizeof(sources) / sizeof(sources[0]); i++) {
        iter_loader_options opt = base();
        iter_error err = {0};
        iter_batch *batch;
        opt.reading.source = sources[i / 2];
        opt.workers = i % 2 ? 2 : 0;
        opt.shuffle = ITER_SHUFFLE_NONE;
        opt.batch_size = N_ALIKE + 3 * N_OTHERS;
        iter_chain *chain = drive_chain(CROP);
        iter_loader *loader;
        if (opt.reading.source == ITER_SOURCE_MEMORY) {
            EXPECT_STATUS(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_EIO, &err);
            EXPECT(strstr(err.message, "b/00.jpg") && strstr(err.message, "No such file"));
        } else {
            loader = drive_loader(data, chain, &opt);
            EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_EIO, &err);
            if (!EXPECT(strstr(err.message, want) && strstr(err.message, "b/00.jpg") &&
                        strstr(err.message, "No such file or directory")))
                fprintf(stderr, "  %s\n", err.message);
            iter_loader_unref(loader);
        }
        for (int32_t on_error = ITER_ON_ERROR_REPLACE; on_error <= ITER_ON_ERROR_BLANK;
             on_error++) {
            opt.faults.on_error = on_error;
            loader = drive_loader(data, chain, &opt);
            EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
            const iter_batch_info info = iter_batch_describe(batch);
            EXPECT_EQ(info.n_failed, 1);
            for (uint32_t row = 0; row < info.n_rows; row++)
                EXPECT_EQ(iter_batch_valid(batch)[row],
                          on_error == ITER_ON_ERROR_REPLACE || row != N_ALIKE);
            iter_failure failure;
            EXPECT_EQ(iter_loader_failures(loader, &failure, 1), 1);
            EXPECT(failure.status == ITER_EIO && failure.index == N_ALIKE &&
                   strstr(failure.message, "No such file"));
            iter_batch_unref(batch);
            iter_loader_unref(loader);
        }
        iter_chain_unref(chain);
    }
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

/* ---- A stage that miscounts its rows --------------------------------------------------------- */

static const iter_transform_ops *honest;

static int64_t one_more(void *state, const uint8_t *const *rows, int32_t n) {
    return honest->take_rows(state, rows, n) + 1;
}

static int64_t none(void *state, const uint8_t *const *rows, int32_t n) {
    (void)honest->take_rows(state, rows, n);
    return 0;
}

/* The count that a stage returns decides where the pass after it writes. If it is wrong the sample
 * must fail, and nothing may be written elsewhere. */
static void wrong_counts_fail(void) {
    int64_t (*const takes[])(void *, const uint8_t *const *, int32_t) = {one_more, none};
    char folder[MAKE_PATH_MAX];
    iter_error err;
    make_set(folder, false);
    honest = iter_registry_transform(NULL, "resize");
    EXPECT(honest && honest->take_rows);
    iter_dataset *data = open_set(folder, "");
    iter_loader_options opt = base();
    opt.shuffle = ITER_SHUFFLE_NONE;
    opt.batch_size = 1;
    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        iter_transform_ops liar = *honest;
        iter_registry *registry;
        iter_chain *chain;
        iter_batch *batch;
        liar.base.name = "liar";
        liar.take_rows = takes[i];
        EXPECT_OK(iter_registry_create(&registry, &err), &err);
        EXPECT_OK(iter_registry_add_transform(registry, &liar, &err), &err);
        EXPECT_OK(iter_chain_parse("liar:24 | random-flip | to:f32", registry, &chain, &err), &err);
        iter_loader *loader = drive_loader(data, chain, &opt);
        EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_EINVAL, &err);
        EXPECT(strstr(err.message, "liar made ") && strstr(err.message, " of 24 rows"));
        iter_loader_unref(loader);
        iter_chain_unref(chain);
        iter_registry_destroy(registry);
    }
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void bounds(void) {
    char folder[MAKE_PATH_MAX];
    make_set(folder, false);
    iter_chain *chain = drive_chain("resize:size=16");
    iter_dataset *data = open_set(folder, "");
    iter_loader_options opt = base();
    iter_error err;
    iter_batch *batch;
    opt.batch_size = 23;
    opt.shuffle = ITER_SHUFFLE_NONE;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    /* of the pixels; the files are smaller, as is what resize needs */
    opt.reading.max_sample_bytes = 45 * 53 * 3 - 1;
    iter_loader *loader = drive_loader(data, chain, &opt);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    for (uint32_t i = 0; i < 23; i++)
        EXPECT_EQ(iter_batch_valid(batch)[i], i >= N_ALIKE);
    iter_batch_unref(batch);
    iter_failure failure;
    EXPECT(iter_loader_failures(loader, &failure, 1) == N_ALIKE);
    EXPECT(strstr(failure.message, "an image takes 7155 bytes, more than max_sample_bytes (7154)"));
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, &err), &err);
    EXPECT(stats.scratch_bytes > 21 * 29 * 3);
    iter_loader_unref(loader);
    /* files that are too large fail from memory as they do when they are read */
    uint64_t n_failed[2];
    iter_chain *corner = drive_chain("center-crop:size=8"); /* few of the pixels */
    opt.reading.max_sample_bytes = 700;
    for (int i = 0; i < 2; i++) {
        opt.reading.source = i ? ITER_SOURCE_MEMORY : ITER_SOURCE_PREAD;
        loader = drive_loader(data, corner, &opt);
        drive_run(loader, 1);
        EXPECT_OK(iter_loader_stats_read(loader, &stats, &err), &err);
        n_failed[i] = stats.n_failures;
        iter_loader_unref(loader);
    }
    EXPECT(n_failed[0] > 0 && n_failed[0] < 26);
    EXPECT_EQ(n_failed[0], n_failed[1]);
    iter_chain_unref(corner);
    opt.reading.source = ITER_SOURCE_AUTO;
    /* the limit counts what pictures may take */
    opt.reading.max_sample_bytes = 1 << 20;
    opt.memory.limit = (2 << 20) - 1;
    EXPECT_STATUS(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_ENOMEM, &err);
    EXPECT(strstr(err.message, "less by workers or max_sample_bytes"));
    EXPECT(strstr(err.message, " would do"));
    opt.memory.limit = 8 << 20;
    EXPECT_OK(iter_dataloader_create(data, chain, &opt, &loader, &err), &err);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

static void steady_state(void) {
    char folder[MAKE_PATH_MAX];
    make_set(folder, false);
    iter_chain *chain = drive_chain(CROP);
    iter_dataset *data = open_set(folder, "");
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = base();
        opt.workers = workers;
        iter_loader *loader = drive_loader(data, chain, &opt);
        drive_run(loader, 60); /* by now each worker has seen almost every picture */
        const long before = iter__alloc_count();
        drive_run(loader, 20);
        EXPECT(iter__alloc_count() - before <= (workers ? 3 * workers : 0));
        iter_loader_unref(loader);
    }
    iter_dataset_unref(data);
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

/* ---- Impossible chains ----------------------------------------------------------------------- */

static void chains(void) {
    static const struct {
        const char *chain, *reason;
    } wrong[] = {
        {NULL, "field 'data' has images of any size: a chain must give them one size"},
        {"normalize", "normalize: field 'data' has images of any size; put random-resized-crop"},
        {"resize-short:20", "resize-short: field 'data' still has images of any size after it"},
        {"resize-short:20 | normalize", "normalize: field 'data' has images of any size"},
    };
    char folder[MAKE_PATH_MAX];
    make_set(folder, false);
    iter_dataset *data = open_set(folder, "");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        iter_loader_options opt = base();
        iter_loader *loader = NULL;
        iter_error err = {0};
        iter_chain *chain = wrong[i].chain ? drive_chain(wrong[i].chain) : NULL;
        EXPECT_STATUS(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_EINVAL, &err);
        if (!strstr(err.message, wrong[i].reason)) {
            fprintf(stderr, "no \"%s\" in \"%s\"\n", wrong[i].reason, err.message);
            EXPECT(0);
        }
        iter_chain_unref(chain);
    }
    iter_dataset_unref(data);
    make_folder_gone(folder);
}

static void warnings_are_counted(void) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    size_t size;
    make_folder(folder);
    uint8_t *bytes = image_file(make_path(path, GOLDEN, "restart.jpg"), &size);
    for (size_t i = 0; i + 1 < size; i++) {
        if (bytes[i] != 0xff || bytes[i + 1] != 0xd0) continue;
        bytes[i + 1] = 0xd5;
        break;
    }
    make_subfolder(folder, "a");
    make_file(make_path(path, folder, "a"), "x.jpg", bytes, size);
    free(bytes);
    iter_chain *chain = drive_chain("resize:size=16");
    for (int policy = 0; policy < 3; policy++) {
        const char *const texts[] = {"?on-warning=accept", "?on-warning=count",
                                     "?on-warning=reject"};
        iter_dataset *data = open_set(folder, texts[policy]);
        iter_loader_options opt = base();
        opt.faults.on_error = ITER_ON_ERROR_BLANK;
        iter_loader *loader = drive_loader(data, chain, &opt);
        drive_run(loader, 1);
        iter_loader_stats stats = {.struct_size = sizeof(stats)};
        iter_error err;
        EXPECT_OK(iter_loader_stats_read(loader, &stats, &err), &err);
        EXPECT(stats.n_warnings > 0 ? policy == 1 : policy != 1);
        EXPECT(!strstr(stats.warning_text, "Corrupt JPEG data") == (policy != 1));
        EXPECT_EQ(stats.n_failures > 0, policy == 2);
        iter_loader_unref(loader);
        iter_dataset_unref(data);
    }
    iter_chain_unref(chain);
    make_folder_gone(folder);
}

int main(void) {
#if !defined(ITER_HAVE_JPEG) || !defined(ITER_HAVE_PNG)
    SKIP("this build is without JPEG or PNG");
#endif
    same_for_all(CROP, "", ITER_ON_ERROR_FAIL, false);
    same_for_all("random-resized-crop:size=20,jpeg-scale=fast | to:f32,nchw", "?channels=gray",
                 ITER_ON_ERROR_FAIL, false);
    same_for_all("resize-short:20 | center-crop:20 | random-flip | to:f32,nchw", "?orient=yes",
                 ITER_ON_ERROR_FAIL, false);
    same_for_all(CROP, "", ITER_ON_ERROR_REPLACE, true);
    same_for_all(CROP, "", ITER_ON_ERROR_BLANK, true);
    decoded_or_cut(CROP);
    /* wide: row by row */
    decoded_or_cut("random-resized-crop:size=72 | random-flip | to:f32,nchw");
    decoded_or_cut("center-crop:24 | to:f32,nchw");
    decoded_or_cut("resize-short:20 | center-crop:16 | random-flip | to:f32,nchw");
    /* a stage of its own after the pass, which takes the rows as they are decoded */
    decoded_or_cut("random-resized-crop:size=24 | random-flip:p=1 | resize:16 | to:f32,nchw");
    decoded_or_cut("resize:24 | random-flip:p=1 | color-jitter:brightness=0.4 | to:f32,nchw");
    decoded_or_cut("resize:height=24,width=70,interpolation=bicubic | random-flip | to:f32,nchw");
    decoded_or_cut("random-resized-crop:size=24,interpolation=bicubic | to:f32,nchw");
    /* each sample has its own tables, in the pass and over images of any size */
    decoded_or_cut("resize:24 | random-solarize:90 | random-flip | to:f32,nchw");
    decoded_or_cut("resize:80 | random-solarize:90 | gamma:0.5 | to:u8,nhwc");
    decoded_or_cut("random-posterize:3 | pad:3,value=9 | cutout:9 | random-crop:size=24,pad=2 | "
                   "invert | to:f32,nchw");
    percent = 80; /* all files are truncated */
    same_for_all(CROP, OPTIONS, ITER_ON_ERROR_FAIL, false);
    decoded_or_cut(CROP);
    decoded_or_cut("random-resized-crop:size=72 | random-flip | to:f32,nchw");
    decoded_or_cut("center-crop:24 | to:f32,nchw");
    percent = 100;
    damaged_files_are_named();
    missing_files_are_failed_samples();
    wrong_counts_fail();
    bounds();
    steady_state();
    chains();
    warnings_are_counted();
    EXPECT(iter__alloc_live() == 0);
    return EXPECT_DONE();
}
