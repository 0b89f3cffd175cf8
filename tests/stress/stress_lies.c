/*
 * stress_lies.c - the user's tables lie: samples that do not exist, more rows than were asked for,
 * bytes outside of the file, required members that are missing. Each must be an error with its
 * reason, and no memory may be touched that is not the library's (under ASan).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N 64

static char folder[512];

/* ---- A sampler ------------------------------------------------------------------------------- */

static uint64_t offset_of_samples; /* how far off the sampler's numbers are */

static iter_status off_open(void *state, const void *options, const iter_sampler_context *context,
                            iter_error *err) {
    (void)options, (void)err;
    *(uint64_t *)state = context->n_samples;
    return ITER_OK;
}

static uint64_t off_length(const void *state) {
    return *(const uint64_t *)state;
}

static void off_index(void *state, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out) {
    (void)state, (void)epoch;
    for (uint32_t i = 0; i < n; i++)
        out[i] = position + i + offset_of_samples;
}

static const iter_sampler_ops off = {.base = {.struct_size = sizeof(iter_sampler_ops),
                                              .name = "off",
                                              .state_size = sizeof(uint64_t)},
                                     .open = off_open,
                                     .length = off_length,
                                     .index = off_index};

static void sampler_draws_what_is_not_there(int32_t source, bool subset) {
    static uint64_t some[N / 2];
    for (uint64_t i = 0; i < N / 2; i++)
        some[i] = i;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = 2;
    opt.sampler.ops = &off;
    opt.reading.source = source;
    opt.sampler.subset = subset ? some : NULL;
    opt.sampler.n_subset = subset ? N / 2 : 0;
    opt.faults.on_error = ITER_ON_ERROR_REPLACE;
    offset_of_samples = 3;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    iter_status s;
    int n_errors = 0;
    while ((s = iter_loader_next(loader, &batch, &err)) != ITER_END) {
        if (s == ITER_OK) {
            EXPECT_EQ(drive_wrong_rows(batch), 0);
            iter_batch_unref(batch);
            continue;
        }
        EXPECT_ERROR(s, ITER_EINVAL, &err, "sampler off: drew sample ");
        n_errors++;
    }
    EXPECT_EQ(n_errors, 1); /* the last batch: three samples past the end */
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- A stream -------------------------------------------------------------------------------- */

static atomic_int n_inside, most_inside, n_calls;
static uint32_t too_many;

static iter_status stream_describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = ITER_UNKNOWN;
    out->n_fields = 1;
    out->fields[0] =
        (iter_field){.name = "data", .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {1000}}};
    return ITER_OK;
}

static iter_status stream_next(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                               iter_error *err) {
    (void)user, (void)rows, (void)err;
    const int inside = atomic_fetch_add(&n_inside, 1) + 1;
    if (inside > atomic_load(&most_inside)) atomic_store(&most_inside, inside);
    bounded_sleep(0.0005);
    *out_n = atomic_fetch_add(&n_calls, 1) < 40 ? n + too_many : 0;
    atomic_fetch_sub(&n_inside, 1);
    return ITER_OK;
}

static const iter_dataset_ops stream = {.struct_size = sizeof(stream),
                                        .name = "stream",
                                        .describe = stream_describe,
                                        .next = stream_next};

static void stream_tells_too_many(void) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = 1;
    iter_dataset *data;
    iter_error err;
    iter_batch *batch;
    too_many = 5000;
    EXPECT_OK(iter_dataset_create(&stream, NULL, &data, &err), &err);
    iter_chain *chain = drive_chain("cast:f32");
    iter_loader *loader = drive_loader(data, chain, &opt);
    iter_chain_unref(chain);
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_EINVAL, &err,
                 "wrote 5016 rows, expected at most 16");
    EXPECT_EQ(iter_loader_next(loader, &batch, &err), ITER_END);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static void a_stream_has_one_caller(void) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = 1;
    iter_dataset *data;
    iter_loader *loaders[2];
    iter_error err;
    iter_batch *batch;
    too_many = 0;
    atomic_store(&n_calls, 0);
    atomic_store(&most_inside, 0);
    EXPECT_OK(iter_dataset_create(&stream, NULL, &data, &err), &err);
    for (int i = 0; i < 2; i++)
        loaders[i] = drive_loader(data, NULL, &opt);
    for (int i = 0; i < 20; i++) {
        if (EXPECT_OK(iter_loader_next(loaders[i & 1], &batch, &err), &err))
            iter_batch_unref(batch);
    }
    EXPECT_EQ(atomic_load(&most_inside), 1);
    for (int i = 0; i < 2; i++)
        iter_loader_unref(loaders[i]);
    iter_dataset_unref(data);
}

/* ---- A format whose extents lie -------------------------------------------------------------- */

typedef enum lie { TRUTH, FILE_NUMBER, TOO_LONG, TOO_SHORT, PAST_THE_END, LONG_ROW } lie;
static lie lies;
static iter_file two_files[2];

static iter_status two_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    (void)state, (void)path, (void)options, (void)err;
    out->n_samples = N;
    out->n_fields = 2;
    out->n_extents = 2;
    out->max_extent_bytes[0] = out->max_extent_bytes[1] = 64;
    out->files = two_files;
    out->n_files = 2;
    out->split = "";
    for (int32_t f = 0; f < 2; f++) {
        out->fields[f] =
            (iter_field){.extent = f, .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {64}}};
        snprintf(out->fields[f].name, sizeof(out->fields[f].name), "field%d", f);
    }
    return ITER_OK;
}

static void two_close(void *state) {
    (void)state;
}

static void two_locate(const void *state, uint64_t index, iter_extent *out) {
    (void)state;
    for (uint64_t e = 0; e < 2; e++)
        out[e] = (iter_extent){e, index * 64, 64};
    if (index != 20) return;
    if (lies == FILE_NUMBER) out[1].object = 7;
    if (lies == TOO_LONG) out[1].size = 1 << 20;
    if (lies == TOO_SHORT) out[1].size = 3;
    if (lies == PAST_THE_END) out[1].offset = (uint64_t)1 << 40;
}

static const iter_format_ops two = {.base = {.struct_size = sizeof(two), .name = "two"},
                                    .open = two_open,
                                    .close = two_close,
                                    .locate = two_locate};

static void make_two_files(void) {
    static char paths[2][600];
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/two.%d", folder, i);
        FILE *file = fopen(paths[i], "wb");
        for (int k = 0; file && k < N * 64; k++)
            fputc(k / 64 + i, file);
        if (!file || fclose(file) != 0) abort();
        two_files[i] = (iter_file){.path = paths[i], .bytes = (uint64_t)N * 64};
    }
}

static iter_dataset *open_two(void) {
    iter_registry *registry;
    iter_dataset *data = NULL;
    iter_error err;
    EXPECT_OK(iter_registry_create(&registry, &err), &err);
    EXPECT_OK(iter_registry_add_format(registry, &two, &err), &err);
    EXPECT_OK(iter_dataset_open("two:x", registry, &data, &err), &err);
    iter_registry_destroy(registry);
    return data;
}

static void extents_lie(lie which, int32_t source, int32_t shuffle) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = 1;
    opt.reading.source = source;
    opt.shuffle = shuffle;
    opt.sampler.block = 8;
    opt.sampler.buffer_blocks = 2;
    lies = which;
    iter_dataset *data = open_two();
    iter_loader *loader;
    iter_error err;
    iter_batch *batch;
    iter_status s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    int n_errors = s < 0;
    if (s < 0) loader = NULL; /* loading the whole file hits its end */
    while (loader && (s = iter_loader_next(loader, &batch, &err)) != ITER_END) {
        n_errors += s < 0;
        if (s == ITER_OK) iter_batch_unref(batch);
        if (s < 0 && which != PAST_THE_END)
            EXPECT_ERROR(s, ITER_EINVAL, &err, "sample 20 cannot lie");
    }
    EXPECT_EQ(n_errors, which == TRUTH ? 0 : 1);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* ---- Several extents, some too large, and a source that fails now and then ------------------- */

static atomic_uint n_reads;
static atomic_size_t largest_read;

static iter_status flaky_open(void *state, const iter_source_config *config, char *fallback,
                              size_t capacity, iter_error *err) {
    (void)state, (void)config, (void)err;
    if (capacity) fallback[0] = 0;
    return ITER_OK;
}

static void flaky_close(void *state) {
    (void)state;
}

static int flaky_error = EIO;

static iter_status flaky_read(void *state, iter_read *read) {
    (void)state;
    read->os_error = 0;
    read->status = ITER_OK;
    read->path = ITER_PATH_PREAD;
    read->done = 0;
    if (read->size > atomic_load(&largest_read)) atomic_store(&largest_read, read->size);
    if (atomic_fetch_add(&n_reads, 1) % 2 == 0) {
        read->os_error = flaky_error;
        return read->status = ITER_EIO;
    }
    FILE *file = fopen(two_files[read->object].path, "rb");
    if (!file) abort();
    fseek(file, (long)read->offset, SEEK_SET);
    for (int32_t i = 0; i < read->n_parts; i++)
        read->done += fread(read->parts[i].data, 1, read->parts[i].size, file);
    fclose(file);
    return ITER_OK;
}

static const iter_source_ops flaky = {
    .base = {.struct_size = sizeof(flaky), .name = "flaky", .state_size = 8},
    .open = flaky_open,
    .close = flaky_close,
    .read = flaky_read};

static iter_status whole_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    (void)state, (void)shared, (void)err;
    memcpy(out->data, bytes, size < 64 ? size : 64);
    return ITER_OK;
}

static const iter_decoder_ops whole = {.base = {.struct_size = sizeof(whole), .name = "whole"},
                                       .decode = whole_decode};

static iter_status large_open(void *state, const char *path, const void *options,
                              iter_description *out, iter_error *err) {
    const iter_status status = two_open(state, path, options, out, err);
    out->max_extent_bytes[1] = N * 64;
    out->fields[1].decoder = &whole;
    return status;
}

static void large_locate(const void *state, uint64_t index, iter_extent *out) {
    two_locate(state, index, out);
    if (index % 7 == 3) out[1] = (iter_extent){1, 0, N * 64}; /* more than max_sample_bytes */
}

static const iter_format_ops large = {.base = {.struct_size = sizeof(large), .name = "large"},
                                      .open = large_open,
                                      .close = two_close,
                                      .locate = large_locate};

static void too_large_stays_failed(int32_t workers) {
    iter_registry *registry;
    iter_dataset *data = NULL;
    iter_error err;
    EXPECT_OK(iter_registry_create(&registry, &err), &err);
    EXPECT_OK(iter_registry_add_format(registry, &large, &err), &err);
    EXPECT_OK(iter_dataset_open("large:x", registry, &data, &err), &err);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = workers;
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = &flaky;
    opt.reading.max_sample_bytes = 1024;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    lies = TRUTH;
    atomic_store(&largest_read, 0);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_batch *batch;
    uint32_t n_large = 0;
    iter_status s;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        for (uint32_t r = 0; r < iter_batch_describe(batch).n_rows; r++) {
            const bool is_large = iter_batch_index(batch)[r] % 7 == 3;
            n_large += is_large;
            EXPECT(!is_large || !iter_batch_valid(batch)[r]);
        }
        iter_batch_unref(batch);
    }
    EXPECT_EQ(s, ITER_END);
    EXPECT_EQ(n_large, 9);
    /* neighbours are one read; a large sample is never read */
    EXPECT(atomic_load(&largest_read) <= 16 * 64);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_registry_destroy(registry);
}

/* If the process has no file handles, the sample is not bad: blanks and replacements would hide the
 * reason. */
static void lacks_are_no_samples_fault(int32_t on_error, int os_error, bool is_lack) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.workers = 1;
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = &flaky;
    opt.faults.on_error = on_error;
    lies = TRUTH;
    flaky_error = os_error;
    atomic_store(&n_reads, 0);
    iter_dataset *data = open_two();
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    int n_failed = 0, n_made = 0;
    for (iter_status s; (s = iter_loader_next(loader, &batch, &err)) != ITER_END;) {
        if (s == ITER_OK) {
            iter_batch_unref(batch);
            n_made++;
            continue;
        }
        n_failed++;
        EXPECT_STATUS(s, ITER_EIO, &err);
        EXPECT_EQ(strstr(err.message, "the process lacks it") != NULL, is_lack);
    }
    EXPECT(n_failed > 0 || !is_lack);
    EXPECT_EQ(n_made + n_failed, N / 16);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    flaky_error = EIO;
}

/* ---- Tables that lack a member --------------------------------------------------------------- */

static void source_without(size_t member, const char *name) {
    iter_source_ops table = *iter_builtin_source(0);
    if (!table.submit) return; /* in a build without io_uring no source has an asynchronous side */
    void (*none)(void) = NULL;
    memcpy((char *)&table + member, &none, sizeof(none));
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.ops = &table;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader;
    iter_error err;
    EXPECT_ERROR(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL, &err, name);
    EXPECT(loader == NULL);
    iter_dataset_unref(data);
}

static void sampler_without(size_t member, const char *name) {
    iter_sampler_ops table = off;
    void (*none)(void) = NULL;
    memcpy((char *)&table + member, &none, sizeof(none));
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.sampler.ops = &table;
    iter_dataset *data = drive_open(folder);
    iter_loader *loader;
    iter_error err;
    EXPECT_ERROR(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL, &err, name);
    iter_dataset_unref(data);
}

int main(void) {
    drive_cifar(folder, N);
    make_two_files();
    const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int i = 0; i < 3; i++) {
        sampler_draws_what_is_not_there(sources[i], false);
        sampler_draws_what_is_not_there(sources[i], true);
        for (lie which = TRUTH; which <= PAST_THE_END; which++) {
            extents_lie(which, sources[i], ITER_SHUFFLE_NONE);
            extents_lie(which, sources[i], ITER_SHUFFLE_BLOCK);
        }
    }
    stream_tells_too_many();
    a_stream_has_one_caller();
    for (int32_t workers = 0; workers <= 2; workers++)
        too_large_stays_failed(workers);
    for (int32_t on_error = ITER_ON_ERROR_REPLACE; on_error <= ITER_ON_ERROR_BLANK; on_error++) {
        lacks_are_no_samples_fault(on_error, EMFILE, true);
        lacks_are_no_samples_fault(on_error, ENOMEM, true);
        lacks_are_no_samples_fault(on_error, EIO, false);
    }
#define SOURCE_WITHOUT(member) source_without(offsetof(iter_source_ops, member), #member)
    SOURCE_WITHOUT(open);
    SOURCE_WITHOUT(close);
    SOURCE_WITHOUT(read);
    SOURCE_WITHOUT(submit);
    SOURCE_WITHOUT(commit);
    SOURCE_WITHOUT(reap);
    SOURCE_WITHOUT(wait);
    SOURCE_WITHOUT(wake);
    SOURCE_WITHOUT(cancel);
    sampler_without(offsetof(iter_sampler_ops, open), "open");
    sampler_without(offsetof(iter_sampler_ops, index), "index");
    sampler_without(offsetof(iter_sampler_ops, length), "length");
    make_folder_gone(folder);
    return EXPECT_DONE();
}
