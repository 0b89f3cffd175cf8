/*
 * test_device_rows.c - rows that a kernel finishes, from copies or from a resident set, on the fake
 * GPU: the same bits as on the host, for every order, cut, worker and error. If a kernel cannot
 * finish them, the loader refuses with the reason, or reports it and works without.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/loader_state.h"
#include "tests/support/drive.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/gpu_consumer.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"

TestSuite(device_rows, .timeout = 240);

#define N 90

static gpu_consumer gpu;
static char folder[512];

static void begin(void) {
    if (!gpu_open(&gpu)) cr_skip("the fake driver is not in LD_LIBRARY_PATH");
    fake_kernels_register(gpu.fake);
    drive_cifar(folder, N);
}

static void end(void) {
    make_folder_gone(folder);
    gpu_close(&gpu);
    cr_expect_null(gpu_leaks(gpu.fake), "left in the driver: %s", gpu_leaks(gpu.fake));
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_PINNED).now, 0);
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_DEVICE).now, 0);
}

#define OK(call)                                                 \
    do {                                                         \
        const iter_status s_ = (call);                           \
        cr_assert_eq(s_, ITER_OK, "%s: %s", #call, err.message); \
    } while (0)

/* How batches reach the device. */
typedef enum way { ON_HOST, COPIED, FINISHED, RESIDENT, WAYS } way;
static const char *const way_names[] = {"host", "copied", "finished", "resident"};

static iter_loader_options options(way how) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = 5;
    opt.memory.limit = 64 << 20;
    opt.faults.timeout_ms = 20000;
    opt.memory.kind = how == ON_HOST ? ITER_MEMORY_HOST : ITER_MEMORY_DEVICE;
    opt.memory.finish = how == FINISHED ? ITER_FINISH_DEVICE : ITER_FINISH_HOST;
    opt.memory.resident = how == RESIDENT ? ITER_RESIDENT_YES : ITER_RESIDENT_NO;
    return opt;
}

static void set_way(iter_loader_options *opt, way how) {
    const iter_loader_options as = options(how);
    opt->memory = as.memory;
    opt->memory.finish = as.memory.finish;
    opt->memory.resident = as.memory.resident;
}

static iter_loader *open_loader(const char *chain_text, const iter_loader_options *opt) {
    iter_dataset *data = drive_open(folder);
    iter_chain *chain = drive_chain(chain_text);
    iter_loader *loader = drive_loader(data, chain, opt);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return loader;
}

static uint64_t hash(iter_batch *batch, way how) {
    iter_error err;
    if (how == ON_HOST) return drive_hash(batch);
    OK(iter_batch_synchronize(batch, &err));
    return drive_hash_device(batch);
}

/* The sum of hashes of `epochs` epochs; errors of next() are counted by their texts. */
static uint64_t sum_of(iter_loader *loader, way how, int epochs) {
    uint64_t sum = 0;
    iter_error err;
    for (int epoch = 0; epoch < epochs; epoch++) {
        iter_batch *batch;
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) != ITER_END) {
            if (s < 0) {
                for (const char *p = err.message; *p; p++)
                    sum = sum * 31 + (uint8_t)*p;
                continue;
            }
            sum += hash(batch, how);
            for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++)
                sum += iter_batch_valid(batch)[i] * (iter_batch_index(batch)[i] + 1);
            iter_batch_unref(batch);
        }
        OK(iter_loader_reset(loader, &err));
    }
    return sum;
}

static void expect_ways_equal(const char *chain, iter_loader_options opt, const char *what) {
    uint64_t host = 0;
    for (int32_t how = ON_HOST; how < WAYS; how++) {
        set_way(&opt, (way)how);
        iter_loader *loader = open_loader(chain, &opt);
        const uint64_t sum = sum_of(loader, (way)how, 2);
        if (how == ON_HOST) host = sum;
        cr_expect_eq(sum, host, "%s, %d workers: %s through \"%s\"", what, (int)opt.workers,
                     way_names[how], chain);
        iter_loader_unref(loader);
    }
}

/* ---- The same bits --------------------------------------------------------------------------- */

#define PUBLISHED                                           \
    "random-crop:size=32,pad=4 | random-flip | cutout:8 | " \
    "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261 | to:f32,nchw"

static const char *const chains[] = {
    PUBLISHED,
    "random-crop:size=32,pad=4,fill=9 | random-flip | normalize:0.5,0.25 | to:f16,nhwc",
    "random-crop:size=27 | random-flip:axis=vertical | to:bf16,nhwc",
    "random-crop:size=24 | cutout:5,fill=77 | to:u8,nhwc",
    "random-crop:size=24,pad=2,fill=9 | invert | normalize:0.5,0.25 | to:f16,nhwc",
    "random-flip | to:f32,nhwc | cast:i32,field=label",
    "normalize:0.5,0.25 | cast:f32,field=label",
    "cast:f32",
};
#define N_CHAINS ((int)(sizeof(chains) / sizeof(chains[0])))

Test(device_rows, same_bits_for_every_chain) {
    begin();
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_AUTO};
    gpu.fake->delay(FAKE_CUDA_ALL, 20);
    for (int i = 0; i < N_CHAINS; i++)
        for (int32_t workers = 0; workers <= 2; workers++) {
            iter_loader_options opt = options(ON_HOST);
            opt.workers = workers;
            opt.reading.source = sources[workers];
            expect_ways_equal(chains[i], opt, "chain");
        }
    end();
}

Test(device_rows, same_bits_for_every_order_and_cut) {
    begin();
    for (int32_t shuffle = ITER_SHUFFLE_NONE; shuffle <= ITER_SHUFFLE_REPLACEMENT; shuffle++)
        for (int32_t last = ITER_LAST_KEEP; last <= ITER_LAST_ROLL_OVER; last++) {
            iter_loader_options opt = options(ON_HOST);
            opt.workers = (shuffle + last) % 3;
            opt.shuffle = shuffle;
            opt.last_batch = last;
            opt.sampler.block = 8;
            opt.sampler.buffer_blocks = 2;
            expect_ways_equal(chains[last % 2], opt, "order");
            opt.batch_size = 8;
            opt.ranks = 3;
            opt.rank = (uint32_t)shuffle % 3;
            expect_ways_equal(chains[last % 2], opt, "ranks");
        }
    const uint64_t subset[] = {3, 89, 17, 17, 40, 2, 0};
    iter_loader_options opt = options(ON_HOST);
    opt.sampler.subset = subset;
    opt.sampler.n_subset = 7;
    opt.batch_size = 4;
    expect_ways_equal(chains[0], opt, "subset");
    end();
}

Test(device_rows, arrays_of_any_shape) {
    begin();
    enum { ROWS = 37, BYTES = 28 * 28 };
    static uint8_t pixels[ROWS * BYTES];
    static int64_t labels[ROWS];
    for (int i = 0; i < ROWS * BYTES; i++)
        pixels[i] = (uint8_t)(i * 7 + i / 97);
    for (int i = 0; i < ROWS; i++)
        labels[i] = i * i;
    static const char *const texts[] = {"normalize:0.1307,0.3081", "scale:0.5,-3 | cast:f16",
                                        "cast:bf16"};
    for (int shape = 0; shape < 3; shape++)
        for (int c = 0; c < 3; c++) {
            iter_desc desc = {.dtype = ITER_U8, .n_dims = 3, .dims = {ROWS, 28, 28}};
            strcpy(desc.layout, "NHW");
            if (shape == 1) {
                desc = (iter_desc){.dtype = ITER_U8, .n_dims = 2, .dims = {ROWS, BYTES}};
            } else if (shape == 2) {
                desc = (iter_desc){.dtype = ITER_U8, .n_dims = 4, .dims = {ROWS, 4, 14, 14}};
                strcpy(desc.layout, "NCHW");
            }
            const iter_array arrays[2] = {
                {.name = "data", .role = ITER_DATA, .desc = desc, .data = pixels},
                {.name = "label",
                 .role = ITER_LABEL,
                 .desc = {.dtype = ITER_I64, .n_dims = 1, .dims = {ROWS}},
                 .data = labels}};
            uint64_t host = 0;
            for (int32_t how = ON_HOST; how < WAYS; how++) {
                iter_loader_options opt = options((way)how);
                iter_error err;
                iter_loader *loader;
                iter_chain *chain = drive_chain(texts[c]);
                opt.workers = how % 3;
                OK(iter_ndarray_create(arrays, 2, chain, &opt, &loader, &err));
                const uint64_t sum = sum_of(loader, (way)how, 2);
                if (how == ON_HOST) host = sum;
                cr_expect_eq(sum, host, "shape %d, \"%s\", %s", shape, texts[c], way_names[how]);
                iter_loader_unref(loader);
                iter_chain_unref(chain);
            }
        }
    end();
}

Test(device_rows, sets_that_are_made_up) {
    begin();
    static const char *const specs[] = {"synthetic:cifar10?n=50", "synthetic:imdb?n=30"};
    static const char *const texts[] = {"random-crop:32,pad=4 | to:f32,nhwc", ""};
    for (int i = 0; i < 2; i++) {
        uint64_t host = 0;
        for (int32_t how = ON_HOST; how < WAYS; how++) {
            iter_loader_options opt = options((way)how);
            iter_error err;
            iter_dataset *data;
            OK(iter_dataset_open(specs[i], NULL, &data, &err));
            iter_chain *chain = *texts[i] ? drive_chain(texts[i]) : NULL;
            iter_loader *loader = drive_loader(data, chain, &opt);
            const uint64_t sum = sum_of(loader, (way)how, 1);
            if (how == ON_HOST) host = sum;
            cr_expect_eq(sum, host, "%s, %s", specs[i], way_names[how]);
            iter_loader_unref(loader);
            iter_chain_unref(chain);
            iter_dataset_unref(data);
        }
    }
    end();
}

/* ---- A program's own rows -------------------------------------------------------------------- */

#define OWN_N 40

static iter_status own_describe(void *user, iter_description *out, iter_error *err) {
    (void)err;
    out->n_samples = user ? ITER_UNKNOWN : OWN_N;
    out->n_fields = 2;
    out->fields[0] =
        (iter_field){.name = "data",
                     .role = ITER_DATA,
                     .desc = {.dtype = ITER_U8, .n_dims = 3, .dims = {3, 8, 8}, .layout = "CHW"}};
    out->fields[1] = (iter_field){.name = "label", .role = ITER_LABEL, .desc = {.dtype = ITER_U8}};
    return ITER_OK;
}

static void own_row(const iter_tensor *rows, uint32_t i, uint64_t index) {
    uint8_t *data = (uint8_t *)rows[0].data + i * rows[0].strides[0];
    for (int j = 0; j < 192; j++)
        data[j] = (uint8_t)(index * 31 + (uint64_t)(j * j));
    ((uint8_t *)rows[1].data)[i * rows[1].strides[0]] = (uint8_t)index;
}

static iter_status own_get(void *user, void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)rng;
    for (uint32_t i = 0; i < n; i++) {
        if (indices[i] == 7) return iter__fail(err, ITER_EIO, "seven is not there");
        own_row(rows, i, indices[i]);
    }
    return ITER_OK;
}

static iter_status own_next(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                            iter_error *err) {
    uint64_t *at = user;
    (void)err;
    for (*out_n = 0; *out_n < n && *at < OWN_N; (*at)++)
        own_row(rows, (*out_n)++, *at);
    return ITER_OK;
}

static iter_status own_rewind(void *user, iter_error *err) {
    (void)err;
    *(uint64_t *)user = 0;
    return ITER_OK;
}

Test(device_rows, rows_of_the_programs_own) {
    begin();
    static const iter_dataset_ops get_ops = {
        .struct_size = sizeof(get_ops), .describe = own_describe, .get = own_get};
    static const iter_dataset_ops stream_ops = {.struct_size = sizeof(stream_ops),
                                                .describe = own_describe,
                                                .next = own_next,
                                                .rewind = own_rewind};
    static const int32_t mends[] = {ITER_ON_ERROR_FAIL, ITER_ON_ERROR_REPLACE, ITER_ON_ERROR_BLANK};
    for (int mend = 0; mend < 4; mend++) {
        const bool stream = mend == 3;
        uint64_t host = 0, at = 0;
        for (int32_t how = ON_HOST; how <= FINISHED; how++) {
            iter_loader_options opt = options((way)how);
            iter_error err;
            iter_dataset *data;
            opt.workers = how % 3;
            if (stream)
                opt.shuffle = ITER_SHUFFLE_NONE;
            else
                opt.faults.on_error = mends[mend];
            OK(iter_dataset_create(stream ? &stream_ops : &get_ops, stream ? &at : NULL, &data,
                                   &err));
            iter_chain *chain =
                drive_chain("random-crop:8,pad=2 | random-flip | scale:0.1,1 | to:f32");
            iter_loader *loader = drive_loader(data, chain, &opt);
            const uint64_t sum = sum_of(loader, (way)how, 2);
            if (how == ON_HOST) host = sum;
            cr_expect_eq(sum, host, "case %d, %s", mend, way_names[how]);
            iter_loader_unref(loader);
            iter_chain_unref(chain);
            iter_dataset_unref(data);
        }
    }
    end();
}

/* ---- Samples that fail ----------------------------------------------------------------------- */

/* Makes invalid labels in the second and the last file. */
static void spoil(const char *name, long record) {
    char path[MAKE_PATH_MAX];
    FILE *file = fopen(make_path(path, folder, name), "r+b");
    cr_assert_not_null(file);
    fseek(file, record * 3073, SEEK_SET);
    fputc(200, file);
    fclose(file);
}

static iter_loader_stats stats_of(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_error err;
    OK(iter_loader_stats_read(loader, &stats, &err));
    return stats;
}

Test(device_rows, failed_samples_are_the_same) {
    begin();
    spoil("data_batch_2.bin", 3);
    spoil("data_batch_2.bin", 4);
    spoil("data_batch_5.bin", 17);
    for (int32_t on_error = ITER_ON_ERROR_FAIL; on_error <= ITER_ON_ERROR_BLANK; on_error++)
        for (int32_t workers = 0; workers <= 2; workers++)
            for (int32_t last = ITER_LAST_KEEP; last <= ITER_LAST_PAD; last++) {
                iter_loader_options opt = options(ON_HOST);
                opt.workers = workers;
                opt.faults.on_error = on_error;
                opt.last_batch = last;
                opt.batch_size = 7;
                expect_ways_equal(chains[(on_error + workers) % 3], opt, "on_error");
            }
    iter_loader_options opt = options(RESIDENT);
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    iter_loader *loader = open_loader(chains[0], &opt);
    sum_of(loader, RESIDENT, 2);
    cr_expect_eq(stats_of(loader).n_failures, 6);
    iter_loader_unref(loader);
    end();
}

/* ---- Position -------------------------------------------------------------------------------- */

Test(device_rows, a_saved_position_goes_on_anywhere) {
    begin();
    for (int32_t from = ON_HOST; from < WAYS; from++) {
        uint8_t saved[1024];
        size_t bytes = 0;
        iter_error err;
        iter_loader_options opt = options((way)from);
        opt.workers = from % 3;
        iter_loader *loader = open_loader(chains[0], &opt);
        for (int i = 0; i < 3; i++) {
            iter_batch *batch;
            OK(iter_loader_next(loader, &batch, &err));
            iter_batch_unref(batch);
        }
        OK(iter_loader_save(loader, saved, sizeof(saved), &bytes, &err));
        const uint64_t rest = sum_of(loader, (way)from, 2);
        iter_loader_unref(loader);
        for (int32_t to = ON_HOST; to < WAYS; to++) {
            opt = options((way)to);
            opt.workers = (from + to) % 3;
            loader = open_loader(chains[0], &opt);
            OK(iter_loader_restore(loader, saved, bytes, &err));
            cr_expect_eq(sum_of(loader, (way)to, 2), rest, "%s to %s", way_names[from],
                         way_names[to]);
            iter_loader_unref(loader);
        }
    }
    end();
}

/* ---- What a loader reports ------------------------------------------------------------------- */

Test(device_rows, what_is_copied_and_where_it_lies) {
    begin();
    iter_error err;
    for (int32_t how = COPIED; how < WAYS; how++) {
        iter_loader_options opt = options((way)how);
        opt.batch_size = 30;
        iter_loader *loader = open_loader(chains[0], &opt);
        const uint64_t before = stats_of(loader).copied_bytes;
        iter_batch *batch;
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            OK(iter_batch_synchronize(batch, &err));
            cr_expect_eq(iter_batch_tensor(batch, 0)->data == NULL, how != COPIED);
            cr_expect_eq(iter_batch_tensor(batch, 1)->data == NULL, how == RESIDENT);
            cr_expect_eq(iter_batch_tensor(batch, 0)->desc.dims[0], 30);
            const iter_tensor *device = iter_batch_device_tensor(batch, 0);
            cr_expect_eq(device->desc.dtype, ITER_F32);
            cr_expect_eq((uintptr_t)device->data % 64, 0);
            cr_expect(gpu.fake->is_device((uintptr_t)device->data, 30 * 12288));
            iter_batch_unref(batch);
        }
        const uint64_t copied = stats_of(loader).copied_bytes - before;
        if (how == COPIED) cr_expect_gt(copied, 90 * 12288);
        if (how == FINISHED) cr_expect(copied > 90 * 3072 && copied < 90 * 3072 + 90 * 200);
        if (how == RESIDENT) cr_expect(copied <= 4 * 90 * 88, "%lu", (unsigned long)copied);
        const char *text = iter_loader_plan_text(loader);
        if (how == COPIED) cr_expect_null(strstr(text, "device"), "%s", text);
        if (how == FINISHED) {
            cr_expect(strstr(text, "on the device"), "%s", text);
            cr_expect(strstr(text, "3072 + 88 bytes a row"), "%s", text);
        }
        if (how == RESIDENT) {
            cr_expect(strstr(text, "data: resident u8 [3, 32, 32]"), "%s", text);
            cr_expect(strstr(text, "on the device: all rows, finished"), "%s", text);
            cr_expect_gt(stats_of(loader).device_bytes, 90 * 3073);
        }
        iter_loader_unref(loader);
    }
    end();
}

/* AUTO lets the kernel finish if that copies half as much or less. */
Test(device_rows, auto_weighs_the_bytes) {
    begin();
    static const struct {
        const char *chain, *part;
    } cases[] = {
        {"random-flip | to:f32,nchw", "3072 + 88 bytes a row, finished there"},
        {"random-flip | to:f16,nhwc", "3072 + 88 bytes a row, finished there"},
        {"random-flip | to:u8,nhwc", "finished by workers: 3072 bytes a row would be"},
        {"random-crop:16 | to:f32", "finished by workers: 3072 bytes a row would be"},
        {"random-crop:32,pad=4,mode=edge | to:f32", "finished by workers: random-crop: a pad"},
        {"random-flip | posterize:3 | normalize | to:f32",
         "finished by workers: posterize: a table of bytes, which no kernel looks up"},
        {"random-solarize | to:f32", "finished by workers: random-solarize: a table of bytes"},
        {"to:u8,nchw", "copy of 3072 bytes"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_loader_options opt = options(COPIED);
        opt.memory.finish = ITER_FINISH_AUTO;
        iter_loader *loader = open_loader(cases[i].chain, &opt);
        cr_expect(strstr(iter_loader_plan_text(loader), cases[i].part), "\"%s\": %s",
                  cases[i].chain, iter_loader_plan_text(loader));
        iter_loader_unref(loader);
    }
    end();
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refused(iter_dataset *data, const char *text, iter_loader_options opt,
                           iter_status want, const char *part) {
    iter_error err;
    iter_loader *loader;
    iter_chain *chain = *text ? drive_chain(text) : NULL;
    const iter_status s = iter_dataloader_create(data, chain, &opt, &loader, &err);
    cr_expect_eq(s, want, "\"%s\": %d %s", text, (int)s, s < 0 ? err.message : "");
    if (s < 0) cr_expect(strstr(err.message, part), "%s: %s", part, err.message);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
}

/* The same with AUTO: it is reported, and the loader works without. */
static void expect_fallback(iter_dataset *data, const char *text, iter_loader_options opt,
                            const char *part) {
    iter_chain *chain = *text ? drive_chain(text) : NULL;
    opt.memory.resident = ITER_RESIDENT_AUTO;
    opt.memory.finish = ITER_FINISH_AUTO;
    iter_loader *loader = drive_loader(data, chain, &opt);
    const iter_loader_stats stats = stats_of(loader);
    bool said = false;
    for (int32_t i = 0; i < stats.n_fallbacks; i++)
        said |= strstr(stats.fallbacks[i], part) != NULL;
    cr_expect(said, "\"%s\": %d fallbacks, the first is \"%s\"", text, (int)stats.n_fallbacks,
              stats.fallbacks[0]);
    sum_of(loader, COPIED, 1);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
}

static iter_status keep_all(void *user, iter_batch_view *fields, int32_t n, iter_error *err) {
    (void)user, (void)fields, (void)n, (void)err;
    return ITER_OK;
}

Test(device_rows, what_cannot_be_is_said) {
    begin();
    iter_dataset *data = drive_open(folder);
    const iter_loader_options finish = options(FINISHED), resident = options(RESIDENT);
    iter_loader_options collate = finish;
    collate.collate = keep_all;
    expect_refused(data, "cast:f64", finish, ITER_EUNSUPPORTED, "field 'data'");
    expect_refused(data, "cast:f64", finish, ITER_EUNSUPPORTED, "rows become f64");
    expect_refused(data, "random-crop:32,pad=4,mode=edge", finish, ITER_EUNSUPPORTED, "reflects");
    expect_refused(data, "cast:f32", collate, ITER_EUNSUPPORTED, "collated on the host");
    expect_refused(data, "random-crop:32,pad=4,mode=edge", resident, ITER_EUNSUPPORTED,
                   "resident: field 'data': random-crop");
    expect_refused(data, "one-hot:10", resident, ITER_EUNSUPPORTED,
                   "field 'label': no kernel does its step");
    collate.memory.finish = ITER_FINISH_AUTO;
    collate.memory.resident = ITER_RESIDENT_YES;
    expect_refused(data, "cast:f32", collate, ITER_EUNSUPPORTED, "collated on the host");
    expect_fallback(data, "random-crop:32,pad=4,mode=edge", resident, "resident: field 'data'");
    expect_fallback(data, "one-hot:10", resident,
                    "resident: field 'label': no kernel does its step");
    iter_loader_options host = resident;
    host.memory.kind = ITER_MEMORY_HOST;
    expect_refused(data, "cast:f32", host, ITER_EINVAL, "needs memory = ITER_MEMORY_DEVICE");
    iter_dataset_unref(data);
    own_dataset own = {.n = 20};
    data = own_open(&own, &own_ops);
    expect_refused(data, "", resident, ITER_EUNSUPPORTED, "get()");
    expect_fallback(data, "", resident, "get()");
    iter_dataset_unref(data);
    end();
}

Test(device_rows, a_set_that_does_not_fit) {
    begin();
    gpu_close(&gpu);
    make_folder_gone(folder);
    fake_cuda_machine machine = gpu.fake->machine();
    machine.memory_bytes = 900 << 10;
    gpu.fake->reset();
    gpu.fake->set_machine(&machine);
    fake_kernels_register(gpu.fake);
    drive_cifar(folder, 200);
    iter_dataset *data = drive_open(folder);
    iter_loader_options opt = options(RESIDENT);
    opt.batch_size = 2;
    opt.prefetch = opt.max_held = 1;
    expect_fallback(data, "cast:f32", opt, "more than half of");
    machine.memory_bytes = 500 << 10;
    gpu.fake->set_machine(&machine);
    expect_refused(data, "cast:f32", opt, ITER_ENOMEM, "200 rows of the set");
    iter_dataset_unref(data);
    make_folder_gone(folder);
    gpu.fake->reset();
    cr_expect_null(gpu_leaks(gpu.fake), "left in the driver: %s", gpu_leaks(gpu.fake));
}

/* Drivers and devices that cannot run the kernels. */
Test(device_rows, kernels_that_cannot_be_had) {
    begin();
    gpu_close(&gpu);
    const struct {
        int capability, ptx_version;
        CUresult result;
        const char *part;
    } cases[] = {{75, 90, CUDA_SUCCESS, "sm_80 or newer"},
                 {90, 78, CUDA_SUCCESS, "CUDA 12.0 is needed"},
                 {90, 90, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "ptxjitcompiler"},
                 {90, 90, CUDA_ERROR_JIT_COMPILATION_DISABLED, "CUDA_DISABLE_PTX_JIT"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gpu.fake->reset();
        fake_cuda_machine machine = gpu.fake->machine();
        machine.capability = cases[i].capability;
        machine.ptx_version = cases[i].ptx_version;
        gpu.fake->set_machine(&machine);
        iter_dataset *data = drive_open(folder);
        for (int32_t how = FINISHED; how < WAYS; how++) {
            if (cases[i].result) gpu.fake->fail("cuModuleLoadDataEx", 0, cases[i].result);
            expect_refused(data, "cast:f32", options((way)how), ITER_EUNSUPPORTED, cases[i].part);
        }
        if (cases[i].result) gpu.fake->fail("cuModuleLoadDataEx", 0, cases[i].result);
        expect_fallback(data, "cast:f32", options(COPIED), "rows are finished on the host");
        iter_dataset_unref(data);
    }
    make_folder_gone(folder);
    gpu.fake->reset();
    cr_expect_null(gpu_leaks(gpu.fake), "left in the driver: %s", gpu_leaks(gpu.fake));
}

/* ---- Calls that fail ------------------------------------------------------------------------- */

static long alive(void) {
    long n = 0;
    for (int kind = 0; kind < FAKE_CUDA_KINDS; kind++)
        n += gpu.fake->live((fake_cuda_kind)kind);
    return n;
}

/* A whole life over 90 images: the first error, and the sum of the batches before it. */
static iter_status go(way how, int32_t workers, int *n_right, iter_error *first) {
    iter_error err = {.status = ITER_OK};
    iter_loader_options opt = options(how);
    opt.workers = workers;
    opt.batch_size = 45;
    opt.prefetch = opt.max_held = 1;
    opt.reading.source = ITER_SOURCE_PREAD;
    char spec[600];
    snprintf(spec, sizeof(spec), "cifar10:\"%s\"", folder);
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    *n_right = 0;
    iter_status status = iter_dataset_open(spec, NULL, &data, &err);
    if (status == ITER_OK)
        status = iter_chain_parse("random-flip | to:f32,nhwc", NULL, &chain, &err);
    if (status == ITER_OK) status = iter_dataloader_create(data, chain, &opt, &loader, &err);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    *first = err;
    for (int i = 0; loader && i < 4; i++) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) {
            s = iter_batch_synchronize(batch, &err);
            *n_right += s == ITER_OK;
            iter_batch_unref(batch);
        }
        if (s == ITER_END) break;
        if (s < 0 && status == ITER_OK) *first = err;
        if (s < 0 && status == ITER_OK) status = s;
    }
    if (loader) OK(iter_loader_stop(loader, &err));
    iter_loader_unref(loader);
    return status;
}

/* Fails every `step`-th call. */
static void fail_each_call(way how, int32_t workers, CUresult result, long step) {
    int all, right, n_failed = 0;
    iter_error err;
    cr_assert_eq(go(how, workers, &all, &err), ITER_OK, "%s", err.message);
    const long before = gpu.fake->calls(NULL);
    cr_assert_eq(go(how, workers, &right, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(right, all);
    const long n = gpu.fake->calls(NULL) - before + 5;
    const long live = iter__alloc_live(), objects = alive();
    for (long i = 0; i < n; i += step) {
        gpu.fake->fail(NULL, i, result);
        const iter_status s = go(how, workers, &right, &err);
        gpu_reset(&gpu);
        fake_kernels_register(gpu.fake);
        cr_assert_eq(iter__alloc_live(), live, "call %ld: %s", i, s < 0 ? err.message : "fine");
        cr_assert_eq(alive(), objects, "call %ld: %s: %s", i, gpu_leaks(gpu.fake),
                     s < 0 ? err.message : "fine");
        n_failed += s < 0;
        if (s < 0)
            cr_assert(s == ITER_EDEVICE || s == ITER_ENOMEM || s == ITER_EUNSUPPORTED, "%s",
                      err.message);
    }
    cr_log_info("%s, %d workers, error %u: %ld calls, %d failed", way_names[how], (int)workers,
                result, n, n_failed);
    cr_expect_gt(n_failed, 10);
}

Test(device_rows, each_call_fails_cleanly_where_rows_are_finished) {
    begin();
    fail_each_call(FINISHED, 0, CUDA_ERROR_INVALID_VALUE, 1);
    fail_each_call(FINISHED, 2, CUDA_ERROR_ILLEGAL_ADDRESS, 3);
    fail_each_call(FINISHED, 0, CUDA_ERROR_OUT_OF_MEMORY, 3);
    end();
}

Test(device_rows, each_call_fails_cleanly_with_a_set) {
    begin();
    fail_each_call(RESIDENT, 0, CUDA_ERROR_INVALID_VALUE, 1);
    fail_each_call(RESIDENT, 2, CUDA_ERROR_ILLEGAL_ADDRESS, 5);
    fail_each_call(RESIDENT, 0, CUDA_ERROR_OUT_OF_MEMORY, 7);
    end();
}

Test(device_rows, each_allocation_fails_cleanly) {
    begin();
    for (int32_t how = FINISHED; how < WAYS; how++) {
        int all, right;
        iter_error err;
        cr_assert_eq(go((way)how, 0, &all, &err), ITER_OK, "%s", err.message);
        const long live = iter__alloc_live(), objects = alive(), before = iter__alloc_count();
        cr_assert_eq(go((way)how, 0, &right, &err), ITER_OK, "%s", err.message);
        const long n = iter__alloc_count() - before;
        int n_failed = 0;
        for (long i = 0; i < n; i++) {
            iter__alloc_fail_after = i;
            const iter_status s = go((way)how, 0, &right, &err);
            const bool happened = iter__alloc_fail_after < 0;
            iter__alloc_fail_after = -1;
            cr_assert(happened, "allocation %ld of %ld was not asked for", i, n);
            n_failed += s < 0;
            if (s < 0) cr_assert_eq(s, ITER_ENOMEM, "allocation %ld: %s", i, err.message);
            cr_assert_eq(iter__alloc_live(), live, "allocation %ld: %s", i, err.message);
            cr_assert_eq(alive(), objects, "allocation %ld: %s", i, err.message);
        }
        cr_log_info("%s: %ld allocations, %d failed", way_names[how], n, n_failed);
        cr_expect_gt(n_failed, 20);
    }
    end();
}

/* After create nothing is allocated, and addresses stay. */
Test(device_rows, nothing_is_allocated_between_batches) {
    begin();
    for (int32_t how = FINISHED; how < WAYS; how++) {
        iter_loader_options opt = options((way)how);
        opt.workers = 2;
        iter_loader *loader = open_loader(chains[0], &opt);
        sum_of(loader, (way)how, 1);
        const long count = iter__alloc_count(), memory = gpu.fake->calls("cuMemAlloc");
        sum_of(loader, (way)how, 3);
        cr_expect_eq(iter__alloc_count(), count);
        cr_expect_eq(gpu.fake->calls("cuMemAlloc"), memory);
        iter_loader_unref(loader);
    }
    cr_expect_eq(gpu.fake->pageable_copies(), 2, "the zero rows of a set of two fields");
    end();
}
