/*
 * test_read_sample.c - one sample, or one field of it, outside of any loader: of every kind of
 * dataset, preloaded or not; decoders by name, and the user's own formats that use the built-in
 * one.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/dataset/dataset.h"
#include "tests/support/drive.h"
#include "tests/support/image_files.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"

TestSuite(read_sample, .timeout = 60);

#define IMAGES "tests/golden/images/"

#ifdef ITER_HAVE_JPEG
#define NEEDS_JPEG() \
    do {             \
    } while (0)
#else
#define NEEDS_JPEG() cr_skip_test("built without libjpeg-turbo")
#endif

static iter_dataset *open_spec(const char *spec, const iter_registry *registry) {
    iter_dataset *dataset = NULL;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_open(spec, registry, &dataset, &err), ITER_OK, "%s: %s", spec,
                 err.message);
    return dataset;
}

static iter_sample *read_ok(iter_dataset *dataset, uint64_t index, const char *field) {
    iter_sample *sample = NULL;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_read(dataset, index, field, &sample, &err), ITER_OK, "%s: %s",
                 field ? field : "all", err.message);
    cr_assert_eq(iter_sample_n_fields(sample),
                 field ? 1 : iter_dataset_describe(dataset)->n_fields);
    cr_assert_null(iter_sample_tensor(sample, iter_sample_n_fields(sample)));
    cr_assert_null(iter_sample_tensor(sample, -1));
    cr_assert_null(iter_sample_name(sample, iter_sample_n_fields(sample)));
    if (field) cr_assert_str_eq(iter_sample_name(sample, 0), field);
    return sample;
}

static void read_fails(iter_dataset *dataset, uint64_t index, const char *field, iter_status status,
                       const char *says) {
    iter_sample *sample = (iter_sample *)(uintptr_t)1;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_read(dataset, index, field, &sample, &err), status, "%s: %s", says,
                 err.message);
    cr_assert_null(sample);
    cr_assert_eq(err.status, status);
    cr_assert(strstr(err.message, says), "no \"%s\" in \"%s\"", says, err.message);
    cr_assert_eq(iter_dataset_read(dataset, index, field, &sample, NULL), status);
}

static void expect_shape(const iter_tensor *tensor, const char *want) {
    char text[96];
    cr_assert_str_eq(iter_desc_text(&tensor->desc, text, sizeof(text)), want);
    cr_assert_eq((uintptr_t)tensor->data % 64, 0);
}

/* The picture of a .ppm or .pgm that Pillow made. */
static void expect_pixels(const iter_tensor *tensor, const char *path) {
    image want = image_expected(path);
    cr_assert(want.pixels, "%s", path);
    cr_assert_eq(tensor->desc.dims[0], want.height);
    cr_assert_eq(tensor->desc.dims[1], want.width);
    cr_assert_eq(tensor->desc.dims[2], want.channels);
    cr_assert_arr_eq(tensor->data, want.pixels, want.height * want.width * want.channels, "%s",
                     path);
    image_free(&want);
}

/* The sample whose file name ends so. */
static uint64_t index_of(const iter_dataset *dataset, const char *name) {
    const iter_description *desc = iter_dataset_describe(dataset);
    for (uint64_t i = 0; i < desc->n_files; i++) {
        const size_t n = strlen(desc->files[i].path), m = strlen(name);
        if (n > m && strcmp(desc->files[i].path + n - m, name) == 0) return i;
    }
    cr_assert_fail("no file %s", name);
    return 0;
}

/* ---- Every kind of dataset ------------------------------------------------------------------- */

Test(read_sample, arrays) {
    static const float data[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    static const int64_t labels[3] = {7, 8, 9};
    const iter_array arrays[2] = {
        {.desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {3, 2}}, .data = data},
        {.role = ITER_LABEL, .desc = {.dtype = ITER_I64, .n_dims = 1, .dims = {3}}, .data = labels},
    };
    iter_dataset *dataset;
    cr_assert_eq(iter__dataset_arrays(arrays, 2, false, &dataset, NULL), ITER_OK);
    iter_sample *sample = read_ok(dataset, 1, NULL);
    expect_shape(iter_sample_tensor(sample, 0), "f32 [2]");
    expect_shape(iter_sample_tensor(sample, 1), "i64 []");
    cr_assert_arr_eq(iter_sample_tensor(sample, 0)->data, data[1], sizeof(data[1]));
    cr_assert_eq(*(const int64_t *)iter_sample_tensor(sample, 1)->data, 8);
    cr_assert_str_eq(iter_sample_warning(sample), "");
    read_fails(dataset, 3, NULL, ITER_EINVAL, "has 3 samples, there is no sample 3");
    read_fails(dataset, 0, "labels", ITER_EINVAL, "has no field 'labels'; it has data, label");
    iter_dataset_unref(dataset);
    /* outlives the dataset */
    cr_assert_eq(*(const int64_t *)iter_sample_tensor(sample, 1)->data, 8);
    iter_sample_free(sample);
    iter_sample_free(NULL);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_cifar(iter_dataset *dataset, uint64_t index) {
    iter_sample *sample = read_ok(dataset, index, NULL);
    expect_shape(iter_sample_tensor(sample, 0), "u8 [3, 32, 32] \"CHW\"");
    for (uint32_t j = 0; j < 3072; j++)
        cr_assert_eq(((const uint8_t *)iter_sample_tensor(sample, 0)->data)[j],
                     make_pixel((uint32_t)index, j));
    cr_assert_eq(*(const uint8_t *)iter_sample_tensor(sample, 1)->data, index % 10);
    iter_sample_free(sample);
    sample = read_ok(dataset, index, "label");
    cr_assert_eq(*(const uint8_t *)iter_sample_tensor(sample, 0)->data, index % 10);
    iter_sample_free(sample);
}

Test(read_sample, rows_of_files_and_the_same_preloaded) {
    char folder[MAKE_PATH_MAX];
    drive_cifar(folder, 100);
    iter_dataset *dataset = drive_open(folder);
    for (uint64_t i = 0; i < 100; i += 33)
        expect_cifar(dataset, i);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10;
    iter_loader *loader = drive_loader(dataset, NULL, &opt);
    drive_run(loader, 1);
    cr_assert(dataset->preload.memory);
    make_folder_gone(folder); /* what is in memory is not read again */
    for (uint64_t i = 0; i < 100; i += 33)
        expect_cifar(dataset, i);
    iter_loader_unref(loader);
    expect_cifar(dataset, 99);
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Twice: from existing files, and, after a loader has preloaded them, without files. */
Test(read_sample, images_in_their_own_size_and_the_same_preloaded) {
    NEEDS_JPEG();
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32];
    make_folder(folder);
    make_subfolder(folder, "a");
    make_subfolder(folder, "b");
    for (int i = 0; i < 2; i++) {
        size_t size;
        uint8_t *bytes = image_file(i ? IMAGES "gray.jpg" : IMAGES "rgb420.jpg", &size);
        make_file(folder, i ? "b/gray.jpg" : "a/rgb420.jpg", bytes, size);
        free(bytes);
    }
    snprintf(spec, sizeof(spec), "folder:%s", folder);
    iter_dataset *dataset = open_spec(spec, NULL);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader = NULL;
    for (int way = 0; way < 2; way++) {
        iter_sample *sample = read_ok(dataset, 0, NULL);
        expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.ppm");
        cr_assert_eq(*(const int32_t *)iter_sample_tensor(sample, 1)->data, 0);
        iter_sample_free(sample);
        sample = read_ok(dataset, 1, "data");
        expect_pixels(iter_sample_tensor(sample, 0), IMAGES "gray.ppm");
        iter_sample_free(sample);
        sample = read_ok(dataset, 1, "label");
        expect_shape(iter_sample_tensor(sample, 0), "i32 []");
        cr_assert_eq(*(const int32_t *)iter_sample_tensor(sample, 0)->data, 1);
        iter_sample_free(sample);
        if (way) break;
        iter_chain *chain = drive_chain("resize:8");
        loader = drive_loader(dataset, chain, &opt);
        iter_chain_unref(chain);
        cr_assert(dataset->preload.memory && dataset->preload.object_base);
        make_folder_gone(folder);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(read_sample, what_is_wrong_names_sample_file_and_reason) {
    NEEDS_JPEG();
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32];
    make_folder(folder);
    make_subfolder(folder, "a");
    make_file(folder, "a/0.jpg", "", 0);
    make_file(folder, "a/1.jpg", "GIF89a", 6);
    make_file(folder, "a/2.jpg", "longer", 6);
    snprintf(spec, sizeof(spec), "folder:%s", folder);
    iter_dataset *dataset = open_spec(spec, NULL);
    read_fails(dataset, 0, NULL, ITER_EFORMAT, "a/0.jpg:0): the file is empty");
    read_fails(dataset, 1, NULL, ITER_EFORMAT, "image: sample 1 (");
    read_fails(dataset, 1, "data", ITER_EFORMAT, "it begins as a GIF");
    make_file(folder, "a/2.jpg", "x", 1);
    read_fails(dataset, 2, NULL, ITER_EIO, "ends after 1 of 6 bytes: it changed while open");
    unlink(make_path(path, folder, "a/2.jpg"));
    read_fails(dataset, 2, NULL, ITER_EIO, "a/2.jpg:0): No such file or directory");
    iter_sample *sample = read_ok(dataset, 2, "label"); /* reads no file */
    iter_sample_free(sample);
    iter_dataset_unref(dataset);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* The vectors of tests/golden/make_recordio.py: MXNet's own records. */
Test(read_sample, records_of_one_length_each) {
    iter_dataset *dataset = open_spec("recordio:tests/golden/recordio/three.rec?decode=none", NULL);
    static const size_t lengths[] = {0, 5, 9, 311};
    for (uint64_t i = 0; i < 4; i++) {
        iter_sample *sample = read_ok(dataset, i, "data");
        const iter_tensor *data = iter_sample_tensor(sample, 0);
        cr_assert_eq(data->desc.dims[0], (int64_t)lengths[i]);
        if (i == 1) cr_assert_arr_eq(data->data, "hello", 5);
        if (i == 2) cr_assert_arr_eq(data->data, "\x0a\x23\xd7\xce\x0a\x23\xd7\xcex", 9);
        iter_sample_free(sample);
        sample = read_ok(dataset, i, "label");
        expect_shape(iter_sample_tensor(sample, 0), "f32 [3]");
        iter_sample_free(sample);
    }
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* If an image cannot be decoded, the label beside it can still be read. */
Test(read_sample, labels_do_without_their_images) {
    iter_dataset *dataset = open_spec("recordio:tests/golden/recordio/one.rec", NULL);
    iter_sample *sample = read_ok(dataset, 1, "label");
    iter_sample_free(sample);
    read_fails(dataset, 1, "data", ITER_EFORMAT, "record-image: sample 1 (");
    read_fails(dataset, 1, NULL, ITER_EFORMAT, "not a JPEG, PNG or WebP");
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(read_sample, rows_that_are_made) {
    iter_dataset *dataset = open_spec("synthetic:?n=5&shape=7&dtype=f32&seed=3", NULL);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 5;
    iter_loader *loader = drive_loader(dataset, NULL, &opt);
    iter_batch *batch;
    cr_assert_eq(iter_loader_next(loader, &batch, NULL), ITER_OK);
    for (uint64_t i = 0; i < 5; i++) { /* a sample depends on its index alone */
        iter_sample *sample = read_ok(dataset, i, NULL);
        cr_assert_arr_eq(iter_sample_tensor(sample, 0)->data,
                         (const float *)iter_batch_tensor(batch, 0)->data + 7 * i,
                         7 * sizeof(float));
        iter_sample_free(sample);
    }
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(dataset);
}

Test(read_sample, own_datasets) {
    for (int serial = 0; serial < 2; serial++) {
        for (int variable = 0; variable < 2; variable++) {
            own_dataset own = {.n = 10, .variable = variable, .fail_modulo = 9};
            iter_dataset *dataset = own_open(&own, serial ? &own_ops_serial : &own_ops);
            iter_sample *sample = read_ok(dataset, 7, NULL);
            const iter_tensor *data = iter_sample_tensor(sample, 0);
            expect_shape(data, variable ? "i32 [3]" : "i32 [2]");
            for (int64_t j = 0; j < 2 + variable; j++)
                cr_assert_eq(((const int32_t *)data->data)[j], variable || j == 0 ? 7 : 49);
            cr_assert_eq(*(const uint8_t *)iter_sample_tensor(sample, 1)->data, 0);
            iter_sample_free(sample);
            sample = read_ok(dataset, 8, "label");
            cr_assert_eq(*(const uint8_t *)iter_sample_tensor(sample, 0)->data, 1);
            iter_sample_free(sample);
            read_fails(dataset, 1, NULL, ITER_EFORMAT, "own: sample 1: sample 1 is bad on purpose");
            cr_assert_eq(atomic_load(&own.n_started), serial ? 0 : 4);
            cr_assert_eq(atomic_load(&own.n_started), atomic_load(&own.n_stopped));
            iter_dataset_unref(dataset);
        }
    }
    own_dataset stream = {.n = ITER_UNKNOWN, .stream_n = 5};
    iter_dataset *dataset = own_open(&stream, &own_ops_stream);
    read_fails(dataset, 0, NULL, ITER_EUNSUPPORTED, "own-stream: is a stream");
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

typedef struct reader {
    iter_dataset *dataset, *itself;
} reader;

static iter_status reader_describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = 3;
    out->n_fields = 1;
    out->fields[0] = (iter_field){.name = "data", .desc = {.dtype = ITER_U8}};
    return ITER_OK;
}

static iter_status reader_get(void *user, void *state, uint32_t n, const uint64_t *indices,
                              const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    reader *r = user;
    iter_sample *sample;
    (void)state, (void)n, (void)rng;
    const iter_status status =
        iter_dataset_read(r->itself ? r->itself : r->dataset, *indices, NULL, &sample, err);
    if (status < 0) return status;
    memcpy(rows[0].data, iter_sample_tensor(sample, 1)->data, 1);
    iter_sample_free(sample);
    return ITER_OK;
}

/* A dataset may read another one's samples, but not its own. */
Test(read_sample, own_dataset_that_reads_another) {
    static const iter_dataset_ops ops = {.struct_size = sizeof(ops),
                                         .name = "reader",
                                         .describe = reader_describe,
                                         .get = reader_get};
    own_dataset own = {.n = 10};
    reader r = {.dataset = own_open(&own, &own_ops_serial)};
    iter_dataset *dataset;
    cr_assert_eq(iter_dataset_create(&ops, &r, &dataset, NULL), ITER_OK);
    iter_sample *sample = read_ok(dataset, 2, NULL);
    cr_assert_eq(*(const uint8_t *)iter_sample_tensor(sample, 0)->data, 2);
    iter_sample_free(sample);
    r.itself = dataset;
    read_fails(dataset, 2, NULL, ITER_ESTATE, "get() reads its own dataset");
    iter_dataset_unref(dataset);
    iter_dataset_unref(r.dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* In a forked child, whatever the parent's threads held at the fork. */
Test(read_sample, forked_child) {
    char folder[MAKE_PATH_MAX];
    drive_cifar(folder, 10);
    own_dataset own = {.n = 10};
    iter_dataset *files = drive_open(folder), *serial = own_open(&own, &own_ops_serial);
    pthread_mutex_lock(&serial->one_at_a_time); /* as if another thread of the parent held it */
    pthread_mutex_lock(&files->preload_lock);
    const pid_t child = fork();
    if (child == 0) {
        iter_sample *sample;
        alarm(20);
        const bool good = iter_dataset_read(files, 7, "label", &sample, NULL) == ITER_OK &&
                          *(const uint8_t *)iter_sample_tensor(sample, 0)->data == 7 &&
                          iter_dataset_read(serial, 0, NULL, &sample, NULL) == ITER_OK;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    pthread_mutex_unlock(&files->preload_lock);
    pthread_mutex_unlock(&serial->one_at_a_time);
    iter_dataset_unref(files);
    iter_dataset_unref(serial);
    make_folder_gone(folder);
}

Test(read_sample, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX];
    drive_cifar(folder, 10);
    own_dataset own = {.n = 10, .variable = true};
    iter_dataset *datasets[3] = {
        drive_open(folder), own_open(&own, &own_ops),
        open_spec("recordio:tests/golden/recordio/three.rec?decode=none", NULL)};
    for (int d = 0; d < 3; d++) {
        const long live = iter__alloc_live();
        for (long n = 0;; n++) {
            iter_sample *sample = NULL;
            iter_error err = {0};
            iter__alloc_fail_after = n;
            const iter_status s = iter_dataset_read(datasets[d], 2, NULL, &sample, &err);
            iter__alloc_fail_after = -1;
            iter_sample_free(sample);
            cr_assert_eq(iter__alloc_live(), live, "leak when allocation %ld fails", n);
            if (s == ITER_OK) {
                cr_assert_geq(n, 4);
                break;
            }
            cr_assert_null(sample);
            cr_assert(s == ITER_ENOMEM || s == ITER_EIO, "%s", err.message);
        }
    }
    for (int d = 0; d < 3; d++)
        iter_dataset_unref(datasets[d]);
    make_folder_gone(folder);
}

/* ---- Decoders -------------------------------------------------------------------------------- */

static int n_headers, n_decoded;
static const iter_decoder_ops *builtin;

static iter_status count_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_desc *out, iter_error *err) {
    n_headers++;
    return builtin->header(state, shared, bytes, size, out, err);
}

static iter_status count_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                const iter_image_wish *wish, iter_tensor *out, iter_error *err) {
    n_decoded++;
    return builtin->decode_image(state, shared, bytes, size, wish, out, err);
}

/* A folder passes its files to a decoder of the user's registry. It wraps the built-in one, to know
 * what was decoded. */
Test(read_sample, folder_uses_a_registered_decoder) {
    NEEDS_JPEG();
    builtin = iter_builtin_decoder("image");
    cr_assert(builtin);
    cr_assert_null(iter_builtin_decoder("counting"));
    cr_assert_null(iter_builtin_decoder(NULL));
    iter_decoder_ops counting = *builtin;
    counting.base.name = "counting";
    counting.header = count_header;
    counting.decode_image = count_decode;
    iter_registry *registry;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_decoder(registry, &counting, NULL), ITER_OK);
    cr_assert_eq(iter_registry_decoder(registry, "counting"), &counting);
    cr_assert_eq(iter_registry_decoder(registry, "image"), builtin);
    cr_assert_eq(iter_registry_decoder(NULL, "image"), builtin);
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 64];
    make_folder(folder);
    make_subfolder(folder, "a");
    size_t size;
    uint8_t *bytes = image_file(IMAGES "rgb420.jpg", &size);
    make_file(folder, "a/x.mine", bytes, size);
    free(bytes);
    snprintf(spec, sizeof(spec), "folder:%s?ext=mine&decoder=counting&channels=gray", folder);
    iter_dataset *dataset = open_spec(spec, registry);
    iter_registry_destroy(registry); /* the registry need not outlive the call */
    cr_assert_null(iter_dataset_describe(dataset)->registry);
    iter_sample *sample = read_ok(dataset, 0, "label");
    cr_assert_eq(n_headers + n_decoded, 0, "a label alone decodes no pixels");
    iter_sample_free(sample);
    sample = read_ok(dataset, 0, NULL);
    cr_assert_eq(n_headers, 1);
    cr_assert_eq(n_decoded, 1);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.gray.pgm");
    iter_sample_free(sample);

    iter_chain *chain = drive_chain("resize:8"); /* and loaders use it */
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader = drive_loader(dataset, chain, &opt);
    iter_batch *batch;
    cr_assert_eq(iter_loader_next(loader, &batch, NULL), ITER_OK);
    cr_assert_eq(n_decoded, 2);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(dataset);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* Decodes two little-endian numbers and nothing else. */
static iter_status pair_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    (void)state;
    if (((const iter_image_options *)shared)->struct_size != sizeof(iter_image_options) ||
        size != 4) {
        snprintf(err->message, sizeof(err->message), "%zu bytes are no pair", size);
        return ITER_EFORMAT;
    }
    for (int i = 0; i < 2; i++)
        ((float *)out->data)[i] = (float)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    return ITER_OK;
}

Test(read_sample, folder_uses_a_decoder_of_rows) {
    static const iter_decoder_ops pair = {
        .base = {.struct_size = sizeof(pair), .name = "pair", .help = "two numbers"},
        .decode = pair_decode};
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 64];
    iter_registry *registry;
    iter_error err = {0};
    iter_dataset *dataset;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_decoder(registry, &pair, NULL), ITER_OK);
    make_folder(folder);
    make_subfolder(folder, "a");
    make_subfolder(folder, "b");
    make_file(folder, "a/x.pair", "\1\0\0\1", 4);
    make_file(folder, "b/y.pair", "\2\0\0", 3);
    snprintf(spec, sizeof(spec), "folder:%s?ext=pair&decoder=pair&shape=2&dtype=f32", folder);
    dataset = open_spec(spec, registry);
    iter_sample *sample = read_ok(dataset, 0, "data");
    expect_shape(iter_sample_tensor(sample, 0), "f32 [2]");
    cr_assert_eq(((const float *)iter_sample_tensor(sample, 0)->data)[0], 1);
    cr_assert_eq(((const float *)iter_sample_tensor(sample, 0)->data)[1], 256);
    iter_sample_free(sample);
    read_fails(dataset, 1, NULL, ITER_EFORMAT, "b/y.pair:0): 3 bytes are no pair");
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 1;
    iter_loader *loader = drive_loader(dataset, NULL, &opt);
    iter_batch *batch;
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(((const float *)iter_batch_tensor(batch, 0)->data)[1], 256);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(dataset);

    static const char *const bad[][2] = {
        {"decoder=pair", "makes rows of one size: shape= must name it"},
        {"decoder=pairs&shape=2", "no decoder is called 'pairs'; did you mean 'pair'?"},
        {"shape=2", "the decoder 'image' makes images of any size: no shape="},
        {"dtype=f32", "dtype= is of rows with a shape="},
        {"decoder=pair&shape=2y", "folder: shape=2y is not of the form 3x32x32"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(spec, sizeof(spec), "folder:%s?ext=pair&%s", folder, bad[i][0]);
        cr_assert_eq(iter_dataset_open(spec, registry, &dataset, &err), ITER_EINVAL);
        cr_assert(strstr(err.message, bad[i][1]), "no \"%s\" in \"%s\"", bad[i][1], err.message);
    }
    iter_registry_destroy(registry);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* ---- A container of the user's own ----------------------------------------------------------- */

/* "boxed:NAME": one of the golden images, by the built-in decoder with these options. */
static const iter_image_options *boxed_options;
static int64_t boxed_channels;
static iter_file boxed_file;

static iter_status boxed_open(void *state, const char *path, const void *options,
                              iter_description *out, iter_error *err) {
    (void)state, (void)options, (void)err;
    FILE *file = fopen(path, "rb");
    if (!file) return ITER_EIO;
    fseek(file, 0, SEEK_END);
    boxed_file = (iter_file){.path = path, .bytes = (uint64_t)ftell(file)};
    fclose(file);
    out->n_samples = out->n_files = 1;
    out->files = &boxed_file;
    out->n_extents = 1;
    out->max_extent_bytes[0] = boxed_file.bytes;
    out->n_fields = 1;
    out->fields[0] = (iter_field){.name = "data", .decoder = iter_builtin_decoder("image")};
    out->fields[0].desc = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
    out->fields[0].desc.dims[0] = out->fields[0].desc.dims[1] = ITER_VARIABLE;
    out->fields[0].desc.dims[2] = boxed_channels;
    out->shared = boxed_options;
    out->split = "";
    return iter_registry_decoder(out->registry, "image") ? ITER_OK : ITER_EINVAL;
}

static void boxed_close(void *state) {
    (void)state;
}

static void boxed_locate(const void *state, uint64_t index, iter_extent *out) {
    (void)state, (void)index;
    *out = (iter_extent){.size = boxed_file.bytes};
}

static iter_dataset *open_boxed(const char *path, const iter_image_options *options,
                                int64_t channels) {
    static char kept[128]; /* the file's name, while the dataset is open */
    static const iter_format_ops boxed = {
        .base = {.struct_size = sizeof(boxed), .name = "boxed", .help = "one image"},
        .open = boxed_open,
        .close = boxed_close,
        .locate = boxed_locate};
    char spec[160];
    iter_registry *registry;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(registry, &boxed, NULL), ITER_OK);
    snprintf(spec, sizeof(spec), "boxed:%s", path);
    boxed_options = options;
    boxed_channels = channels;
    iter_dataset *dataset = open_spec(spec, registry);
    snprintf(kept, sizeof(kept), "%s", path);
    boxed_file.path = kept;
    iter_registry_destroy(registry);
    return dataset;
}

Test(read_sample, own_format_uses_the_builtin_decoder) {
    NEEDS_JPEG();
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    iter_dataset *dataset = open_boxed(IMAGES "rgb420.jpg", NULL, 3); /* the defaults */
    iter_sample *sample = read_ok(dataset, 0, NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.ppm");
    iter_sample_free(sample);
    iter_dataset_unref(dataset);

    options.channels = ITER_IMAGE_GRAY;
    dataset = open_boxed(IMAGES "rgb420.jpg", &options, 1);
    sample = read_ok(dataset, 0, NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.gray.pgm");
    iter_sample_free(sample);
    iter_dataset_unref(dataset);

    options = (iter_image_options)ITER_IMAGE_OPTIONS_INIT;
    options.orient = true;
    dataset = open_boxed(IMAGES "exif6.jpg", &options, 3);
    sample = read_ok(dataset, 0, NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "exif6.up.ppm");
    iter_sample_free(sample);
    options.struct_size = sizeof(size_t); /* an older version's without members: all are default */
    iter_dataset_unref(dataset);
    dataset = open_boxed(IMAGES "rgb420.jpg", &options, 3);
    sample = read_ok(dataset, 0, NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.ppm");
    iter_sample_free(sample);
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(read_sample, image_options_that_cannot_be) {
    NEEDS_JPEG();
    iter_image_options options = ITER_IMAGE_OPTIONS_INIT;
    options.max_pixels = 4;
    iter_dataset *dataset = open_boxed(IMAGES "rgb420.jpg", &options, 3);
    read_fails(dataset, 0, NULL, ITER_ENOMEM, "are more than max-pixels=4");
    options.max_pixels = -4;
    read_fails(dataset, 0, NULL, ITER_EINVAL, "max_pixels or max_scans is below 0");
    options.max_pixels = 0; /* the default */
    options.channels = 7;
    read_fails(dataset, 0, NULL, ITER_EINVAL, "channels is 7");
    options.channels = ITER_IMAGE_GRAY;
    read_fails(dataset, 0, NULL, ITER_EINVAL,
               "the field is u8 [any, any, 3] \"HWC\", its image options make images of 1");
    options.struct_size = 0;
    read_fails(dataset, 0, NULL, ITER_EINVAL, "struct_size is 0");
    options.struct_size = sizeof(options);
    options.channels = ITER_IMAGE_RGB;
    iter_sample_free(read_ok(dataset, 0, NULL));
    iter_dataset_unref(dataset);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(read_sample, warnings_are_told) {
    NEEDS_JPEG();
    size_t size;
    char path[MAKE_PATH_MAX], folder[MAKE_PATH_MAX];
    uint8_t *bytes = image_file(IMAGES "rgb420.jpg", &size);
    uint8_t *more = malloc(size + 16); /* with stray bytes after the first segment */
    const size_t head = 4 + (size_t)(bytes[4] << 8 | bytes[5]);
    memcpy(more, bytes, head);
    memset(more + head, 0, 16);
    memcpy(more + head + 16, bytes + head, size - head);
    make_folder(folder);
    make_file(folder, "x.jpg", more, size + 16);
    free(more);
    free(bytes);
    iter_dataset *dataset = open_boxed(make_path(path, folder, "x.jpg"), NULL, 3);
    iter_sample *sample = read_ok(dataset, 0, NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "rgb420.ppm");
    cr_assert(strstr(iter_sample_warning(sample), "extraneous bytes"), "%s",
              iter_sample_warning(sample));
    iter_sample_free(sample);
    iter_dataset_unref(dataset);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(read_sample, every_golden_image_comes_as_a_loader_has_it) {
    NEEDS_JPEG();
    iter_dataset *dataset = open_spec("folder:tests/golden/images?labels=no", NULL);
    iter_sample *sample = read_ok(dataset, index_of(dataset, "/progressive.jpg"), "data");
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "progressive.ppm");
    iter_sample_free(sample);
    sample = read_ok(dataset, index_of(dataset, "/restart.jpg"), NULL);
    expect_pixels(iter_sample_tensor(sample, 0), IMAGES "restart.ppm");
    iter_sample_free(sample);
    iter_dataset_unref(dataset);
}
