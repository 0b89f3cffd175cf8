/* test_dataset_open.c - iter_dataset_open_with(): its options, and the memory that opening
 * takes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>
#include <iter/registry.h>

#include "iter/core/alloc.h"
#include "tests/support/make_data.h"

TestSuite(dataset_open, .timeout = 60);

#define MIB ((uint64_t)1 << 20)

/* ---- The user's own format: `path` is how much memory it declares, in bytes. ----------------- */

static iter_status own_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    (void)state, (void)options, (void)err;
    out->n_samples = 1;
    out->n_fields = 1;
    out->fields[0] = (iter_field){.name = "data", .desc = {.dtype = ITER_U8}};
    out->split = "";
    out->index_bytes = strtoull(path, NULL, 10);
    return ITER_OK;
}

static void own_close(void *state) {
    (void)state;
}

static iter_status own_get(const void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)state, (void)n, (void)indices, (void)rows, (void)rng, (void)err;
    return ITER_OK;
}

static const iter_format_ops own_format = {
    .base = {.struct_size = sizeof(iter_format_ops), .name = "own", .help = "declares"},
    .open = own_open,
    .close = own_close,
    .get = own_get};

/* The same with what its open() describes, and members that this needs left out. */
static iter_status extents_open(void *state, const char *path, const void *options,
                                iter_description *out, iter_error *err) {
    static const iter_file file = {.path = "/dev/zero", .bytes = 100};
    (void)own_open(state, path, options, out, err);
    if (strcmp(path, "index") == 0) {
        out->fields[0].extent = ITER_FROM_INDEX;
    } else {
        out->n_extents = 1, out->max_extent_bytes[0] = 1;
        out->files = &file, out->n_files = 1;
    }
    return ITER_OK;
}

static void own_locate(const void *state, uint64_t index, iter_extent *out) {
    (void)state, (void)index;
    *out = (iter_extent){0};
}

/* 4 MiB of IDX, gzipped. */
static void make_zipped(const char *folder) {
    uint8_t *bytes = calloc(1, 4 * MIB + 16);
    const size_t head = make_idx_header(bytes, 0x08, 3, (const uint32_t[]){1024, 64, 64});
    make_gzip(folder, "x.gz", bytes, head + 4 * MIB);
    free(bytes);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

Test(dataset_open, options_are_checked) {
    iter_error err;
    iter_dataset *data = (iter_dataset *)&err;
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    options.struct_size = 1;
    cr_assert_eq(iter_dataset_open_with("synthetic:mnist", &options, &data, &err), ITER_EINVAL);
    cr_assert_null(data);
    cr_assert(strstr(err.message, "struct_size"), "%s", err.message);
    cr_assert_eq(iter_dataset_open_with(NULL, NULL, &data, &err), ITER_EINVAL);
    cr_assert_eq(iter_dataset_open_with("synthetic:mnist", NULL, &data, &err), ITER_OK);
    iter_dataset_unref(data);
}

/* The message of a spec that is wrong. */
static const char *says(const char *spec, const iter_registry *registry, iter_error *err) {
    iter_dataset *data;
    cr_assert_eq(iter_dataset_open(spec, registry, &data, err), ITER_EINVAL, "%s", spec);
    cr_assert_null(data);
    return err->message;
}

Test(dataset_open, a_url_without_a_format_says_what_is_missing) {
    iter_error err;
    const char *s3 = "a format's name comes first, as in tar:s3://bucket/x.tar (`iterbench list` ";
    cr_expect(strstr(says("s3://bucket/x.tar", NULL, &err), s3), "%s", err.message);
    cr_expect_eq(strncmp(err.message, "dataset: s3://bucket/x.tar: ", 28), 0, "%s", err.message);
    cr_expect(strstr(says("mix:{S3://bucket/x.tar?cache=/x}", NULL, &err), s3), "%s", err.message);
    cr_expect(strstr(says("https://me:word@h/x.tar?sig=S3CRET\"", NULL, &err),
                     "dataset: https://***@h/x.tar: a format's name comes first, as in "
                     "tar:https://host/x.tar"),
              "%s", err.message);
    cr_expect_null(strstr(err.message, "word"));
    cr_expect_null(strstr(err.message, "S3CRET"));
    char room[3000] = "s3://"; /* the message's end is kept, whatever the URL's length */
    memset(room + 5, 'x', sizeof(room) - 6);
    cr_expect(strstr(says(room, NULL, &err), s3), "%s", err.message);
    cr_expect(strstr(says("s3:x", NULL, &err), "no format is called 's3'"), "%s", err.message);
}

Test(dataset_open, a_format_may_be_called_like_a_scheme) {
    iter_registry *registry;
    iter_dataset *data;
    iter_format_ops format = own_format;
    format.base.name = "s3";
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(registry, &format, NULL), ITER_OK);
    cr_assert_eq(iter_dataset_open("s3://bucket/x", registry, &data, NULL), ITER_OK);
    iter_dataset_unref(data);
    iter_registry_destroy(registry);
}

/* What is unknown at a URL may be a key of URLs that was misspelled. */
Test(dataset_open, keys_of_urls_are_suggested) {
    static const struct {
        const char *spec, *says; /* NULL = keys of URLs are not named */
    } cases[] = {
        {"npy:s3://b/x.npy?cach=/x", "cache, cache-size; did you mean 'cache'?"},
        {"npy:S3://b/x.npy?cache_siz=1", "cache, cache-size; did you mean 'cache-size'?"},
        {"npy:{https://h/a.npy,https://h/b.npy}?conections=3", "; did you mean 'connections'?"},
        {"recordio:s3://b/x.rec?zzzz=1", "max-scans, and at URLs endpoint, region, profile, "
                                         "path-style, anonymous, connections, deadline, cache, "
                                         "cache-size"},
        {"npy:/x.npy?cach=/x", NULL},
        {"mix:{npy:s3://b/x.npy}?cach=/x", NULL},
    };
    if (!iter_builtin_url_keys()) cr_skip_test("this build reads no URLs");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err;
        cr_expect(strstr(says(cases[i].spec, NULL, &err), "unknown option '"), "%s", err.message);
        if (cases[i].says)
            cr_expect(strstr(err.message, cases[i].says), "%s", err.message);
        else
            cr_expect_null(strstr(err.message, "URLs"), "%s", err.message);
    }
}

/* Keys that nothing would use are refused, as are unknown ones. */
Test(dataset_open, keys_of_urls_need_a_url) {
    iter_error err;
    if (!iter_builtin_url_keys()) cr_skip_test("this build reads no URLs");
    cr_expect_str_eq(says("synthetic:mnist?n=9&deadline=3", NULL, &err),
                     "synthetic: 'deadline' is a key of URLs, and the set has none");
    cr_expect_str_eq(says("mix:{synthetic:mnist}?path_style=yes", NULL, &err),
                     "mix: 'path_style' is a key of URLs, and belongs inside the braces, with the "
                     "set that has them");
    cr_expect(strstr(says("npy:s3://b/x.npy?cache_size=1Q", NULL, &err), "cache-size is '1Q'"),
              "%s", err.message);
}

Test(dataset_open, what_a_caller_s_format_declares_counts) {
    iter_registry *registry;
    iter_dataset *data;
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(registry, &own_format, NULL), ITER_OK);
    options.registry = registry;
    cr_assert_eq(iter_dataset_open_with("own:12345", &options, &data, NULL), ITER_OK);
    cr_assert_eq(iter_dataset_describe(data)->index_bytes, 12345);
    iter_dataset_unref(data);
    iter_registry_destroy(registry);
}

/* If a format declares nothing, its rows are measured, at opening and by a loader. */
Test(dataset_open, what_a_built_in_format_holds_is_measured) {
    char folder[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32], due[128];
    iter_error err;
    iter_dataset *data;
    iter_loader *loader;
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    make_folder(folder);
    make_zipped(folder);
    snprintf(spec, sizeof(spec), "mnist:\"%s/x.gz\"", folder);
    cr_assert_eq(iter_dataset_open(spec, NULL, &data, &err), ITER_OK, "%s", err.message);
    const uint64_t held = iter_dataset_describe(data)->index_bytes;
    cr_assert_geq(held, 4 * MIB);
    cr_assert_leq(held, 4 * MIB + 4096);
    opt.memory.limit = 2 * MIB;
    cr_assert_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_ENOMEM);
    snprintf(due, sizeof(due), "an index of %llu bytes", (unsigned long long)held);
    cr_assert(strstr(err.message, due), "%s", err.message);
    iter_dataset_unref(data);

    options.memory_limit = 4 * MIB;
    cr_assert_eq(iter_dataset_open_with(spec, &options, &data, &err), ITER_ENOMEM);
    cr_assert(strstr(err.message, "mnist: memory_limit of 4194304 bytes is too small, "), "%s",
              err.message);
    cr_assert(strstr(err.message, "x.gz: no memory for its 4194304 bytes"), "%s", err.message);
    unsigned long long enough = 0;
    cr_assert_eq(sscanf(strstr(err.message, "too small, "), "too small, %llu", &enough), 1);
    options.memory_limit = enough; /* the limit in the message must do */
    cr_assert_eq(iter_dataset_open_with(spec, &options, &data, &err), ITER_OK, "%s", err.message);
    iter_dataset_unref(data);
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* If opening fails for another reason than the limit, that reason is reported. */
Test(dataset_open, a_limit_is_blamed_only_for_itself) {
    iter_error err;
    iter_dataset *data;
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    options.memory_limit = 1;
    cr_assert_eq(iter_dataset_open_with("mnist:/nowhere/x", &options, &data, &err), ITER_ENOMEM);
    cr_assert(strstr(err.message, "memory_limit of 1 bytes"), "%s", err.message);
    options.memory_limit = MIB;
    cr_assert_eq(iter_dataset_open_with("mnist:/nowhere/x", &options, &data, &err), ITER_EIO);
    cr_assert_not(strstr(err.message, "memory_limit"), "%s", err.message);
}

static void expect_refused(const iter_format_ops *ops, const char *spec, const char *says) {
    iter_error err;
    iter_registry *registry;
    iter_dataset *data;
    cr_assert_eq(iter_registry_create(&registry, &err), ITER_OK);
    cr_assert_eq(iter_registry_add_format(registry, ops, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataset_open(spec, registry, &data, &err), ITER_EINVAL);
    cr_expect_str_eq(err.message, says);
    iter_registry_destroy(registry);
}

Test(dataset_open, members_that_its_description_needs) {
    iter_format_ops ops = own_format;
    ops.open = extents_open;
    expect_refused(&ops, "own:extents", "own: 1 extents a sample, and the table has no locate");
    ops.get = NULL;
    ops.locate = own_locate;
    expect_refused(&ops, "own:index",
                   "own: field 'data' comes from the index, and the table has no index_row, "
                   "resident or get");
}

static iter_status again_get(const void *state, uint32_t n, const uint64_t *indices,
                             const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)state, (void)n, (void)indices, (void)rows, (void)rng, (void)err;
    return ITER_AGAIN;
}

Test(dataset_open, more_than_ok_from_get_is_no_success) {
    iter_error err;
    iter_registry *registry;
    iter_dataset *data;
    iter_loader *loader;
    iter_batch *batch;
    iter_format_ops ops = own_format;
    ops.get = again_get;
    cr_assert_eq(iter_registry_create(&registry, &err), ITER_OK);
    cr_assert_eq(iter_registry_add_format(registry, &ops, &err), ITER_OK);
    cr_assert_eq(iter_dataset_open("own:0", registry, &data, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataloader_create(data, NULL, NULL, &loader, &err), ITER_OK);
    cr_expect_eq(iter_loader_next(loader, &batch, &err), ITER_EINVAL, "%s", err.message);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_registry_destroy(registry);
}
