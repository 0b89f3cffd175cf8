/*
 * stress_own_tables.c - the user's own format with a decoder, sampler and stage, each from a
 * registry and named in text as built-in ones are: the same rows for every source and number of
 * workers, from any saved position. And callbacks that fail: with a full error, with half of one,
 * without any.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N      301
#define RECORD 5 /* u32 number, little-endian; u8 label */

static char folder[512];

/* How a callback fails, if it does. */
typedef enum way { WORKS, SAYS_ALL, SAYS_TEXT, SAYS_NOTHING } way;
static const char *failing = ""; /* the callback that fails */
static way failing_how;

static iter_status failed(const char *which, iter_error *err) {
    if (failing_how == WORKS || strcmp(failing, which) != 0) return ITER_OK;
    if (failing_how != SAYS_NOTHING) snprintf(err->message, sizeof(err->message), "because");
    if (failing_how == SAYS_ALL) err->status = ITER_EFORMAT;
    return ITER_EFORMAT;
}

/* ---- pairs:FILE?skip=K ----------------------------------------------------------------------- */

typedef struct pairs_options {
    int64_t skip;
} pairs_options;

static const iter_option pairs_rows[] = {{"skip", "records left out at the beginning",
                                          ITER_OPTION_INT, offsetof(pairs_options, skip), 0, 1000,
                                          NULL, 0},
                                         {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0}};

typedef struct pairs_state {
    iter_file file;
    char path[600];
    uint64_t skip;
} pairs_state;

/* data i32 [2]: the number, and its complement. */
static iter_status pairs_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                iter_tensor *out, iter_error *err) {
    (void)state, (void)shared;
    if (failed("decode", err) < 0 || size != RECORD) return ITER_EFORMAT;
    int32_t *row = out->data;
    row[0] = (int32_t)(bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16);
    row[1] = ~row[0];
    return ITER_OK;
}

static const iter_decoder_ops pairs_decoder = {
    .base = {.struct_size = sizeof(pairs_decoder), .name = "pairs", .help = "a number"},
    .decode = pairs_decode};

static iter_status pairs_open(void *opaque, const char *path, const void *options,
                              iter_description *out, iter_error *err) {
    pairs_state *s = opaque;
    if (failed("format", err) < 0) return ITER_EFORMAT;
    s->skip = (uint64_t)((const pairs_options *)options)->skip;
    snprintf(s->path, sizeof(s->path), "%s", path);
    s->file = (iter_file){.path = s->path, .bytes = (uint64_t)N * RECORD};
    out->n_samples = N - s->skip;
    out->n_fields = 2;
    out->fields[0] = (iter_field){.name = "data",
                                  .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}},
                                  .decoder = &pairs_decoder};
    out->fields[1] = (iter_field){
        .name = "label", .role = ITER_LABEL, .desc = {.dtype = ITER_U8}, .offset = 4, .limit = 7};
    out->n_extents = 1;
    out->max_extent_bytes[0] = RECORD;
    out->files = &s->file;
    out->n_files = 1;
    out->split = "";
    out->identity = 77 + s->skip;
    return ITER_OK;
}

static void pairs_close(void *state) {
    (void)state;
}

static void pairs_locate(const void *opaque, uint64_t index, iter_extent *out) {
    const pairs_state *s = opaque;
    *out = (iter_extent){0, (index + s->skip) * RECORD, RECORD};
}

static const iter_format_ops pairs = {.base = {sizeof(pairs), "pairs", "numbers", pairs_rows, NULL,
                                               sizeof(pairs_options), sizeof(pairs_state)},
                                      .open = pairs_open,
                                      .close = pairs_close,
                                      .locate = pairs_locate};

/* ---- stride:by=K ----------------------------------------------------------------------------- */

typedef struct stride_options {
    int64_t by;
} stride_options;

static const stride_options stride_defaults = {1};
static const iter_option stride_rows[] = {{"by", "samples from one to the next", ITER_OPTION_INT,
                                           offsetof(stride_options, by), 1, 1000, NULL, 1},
                                          {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0}};

typedef struct stride_state {
    uint64_t n, by;
} stride_state;

static uint64_t strided(uint64_t n, uint64_t by, uint32_t epoch, uint64_t position) {
    return (position * by + epoch) % n;
}

static iter_status stride_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    stride_state *s = opaque;
    s->n = context->n_samples;
    s->by = (uint64_t)((const stride_options *)options)->by;
    return failed("sampler", err);
}

static uint64_t stride_length(const void *opaque) {
    return ((const stride_state *)opaque)->n;
}

static void stride_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                         uint64_t *out) {
    const stride_state *s = opaque;
    for (uint32_t i = 0; i < n; i++)
        out[i] = strided(s->n, s->by, epoch, position + i);
}

static const iter_sampler_ops stride = {.base = {sizeof(stride), "stride", "every k-th",
                                                 stride_rows, &stride_defaults,
                                                 sizeof(stride_options), sizeof(stride_state)},
                                        .open = stride_open,
                                        .length = stride_length,
                                        .index = stride_index};

/* A sequential sampler, so that its calls can fail. */
static iter_status two_open(void *state, const void *options, const iter_sampler_context *context,
                            iter_error *err) {
    (void)state, (void)options, (void)context, (void)err;
    return ITER_OK;
}

static iter_status two_begin(void *state, uint32_t epoch, iter_error *err) {
    (void)state, (void)epoch;
    return failed("begin", err);
}

static iter_status two_next(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                            iter_error *err) {
    (void)state, (void)capacity;
    *out_n = 1;
    out[0] = 0;
    return failed("next_batch", err);
}

static const iter_sampler_ops two = {
    .base = {.struct_size = sizeof(two), .name = "two", .help = "in order"},
    .open = two_open,
    .begin = two_begin,
    .next_batch = two_next};

/* ---- add:N ----------------------------------------------------------------------------------- */

typedef struct add_options {
    int64_t amount;
} add_options;

static const iter_option add_rows[] = {
    {"amount", "added", ITER_OPTION_INT, offsetof(add_options, amount), 0, 0, NULL, 1},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0}};

static iter_status add_plan(const void *options, const iter_desc *in, iter_desc *out,
                            size_t *out_scratch, iter_error *err) {
    (void)options;
    *out = *in;
    *out_scratch = 0;
    return failed("plan", err);
}

static iter_status add_start(void *state, const void *options, iter_error *err) {
    (void)state, (void)options;
    return failed("start", err);
}

static iter_status add_apply(void *state, const void *options, const iter_tensor *in,
                             iter_tensor *out, iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)rng, (void)scratch;
    for (int64_t i = 0; i < iter_desc_elements(&in->desc); i++)
        ((int32_t *)out->data)[i] =
            ((const int32_t *)in->data)[i] + (int32_t)((const add_options *)options)->amount;
    return failed("apply", err);
}

static const iter_transform_ops add = {
    .base = {sizeof(add), "add", "adds a number", add_rows, NULL, sizeof(add_options), 8},
    .plan = add_plan,
    .start = add_start,
    .apply = add_apply};

static iter_status collate(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err) {
    (void)user, (void)fields, (void)n_fields;
    return failed("collate", err);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static iter_registry *registry_of_all(void) {
    iter_registry *registry;
    iter_error err;
    EXPECT_OK(iter_registry_create(&registry, &err), &err);
    EXPECT_OK(iter_registry_add_format(registry, &pairs, &err), &err);
    EXPECT_OK(iter_registry_add_sampler(registry, &stride, &err), &err);
    EXPECT_OK(iter_registry_add_sampler(registry, &two, &err), &err);
    EXPECT_OK(iter_registry_add_transform(registry, &add, &err), &err);
    return registry;
}

/* An error that was never initialized, as on a stack. */
static iter_error soiled(void) {
    iter_error err;
    memset(&err, 0xa5, sizeof(err));
    return err;
}

/* Opens dataset, chain and loader from text; returns the first error. */
static iter_status open_all(const iter_registry *registry, const char *sampler,
                            iter_loader_options opt, iter_loader **out, iter_error *err) {
    char spec[640];
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    snprintf(spec, sizeof(spec), "pairs:%s/pairs.bin?skip=1", folder);
    *out = NULL;
    opt.sampler.spec = sampler;
    opt.sampler.registry = registry;
    iter_status s = iter_dataset_open(spec, registry, &data, err);
    if (s == ITER_OK) s = iter_chain_parse("add:100 | add:amount=10", registry, &chain, err);
    if (s == ITER_OK) s = iter_dataloader_create(data, chain, &opt, out, err);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    return s;
}

/* Checks rows of the batch by the tables' own rules; returns how many there are. */
static uint32_t check_rows(const iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    const int32_t *data = iter_batch_tensor(batch, 0)->data;
    const uint8_t *label = iter_batch_tensor(batch, 1)->data;
    for (uint32_t i = 0; i < info.n_rows; i++) {
        const uint64_t position = iter_batch_position(batch)[i];
        const uint64_t index = strided(N - 1, 7, info.epoch, position);
        EXPECT_EQ(iter_batch_index(batch)[i], index);
        EXPECT_EQ(data[2 * i], (int32_t)(3 * (index + 1)) + 110);
        EXPECT_EQ(data[2 * i + 1], ~(int32_t)(3 * (index + 1)) + 110);
        EXPECT_EQ(label[i], (index + 1) % 7);
    }
    return info.n_rows;
}

static void rows(void) {
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 3; s++) {
        for (int32_t workers = 0; workers <= 2; workers++) {
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 16;
            opt.workers = workers;
            opt.reading.source = sources[s];
            opt.memory.limit = 16 << 20;
            iter_registry *registry = registry_of_all();
            iter_loader *loader;
            iter_error err = soiled();
            const int ok = EXPECT_OK(open_all(registry, "stride:7", opt, &loader, &err), &err);
            iter_registry_destroy(registry); /* what was made from it stays usable */
            if (!ok) continue;
            uint8_t saved[1024];
            size_t size = 0;
            uint32_t n = 0;
            for (int epoch = 0; epoch < 2; epoch++) {
                iter_batch *batch;
                iter_status status;
                while ((status = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
                    n += check_rows(batch);
                    iter_batch_unref(batch);
                    EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
                    EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
                }
                EXPECT_STATUS(status, ITER_END, &err);
                EXPECT_OK(iter_loader_reset(loader, &err), &err);
            }
            EXPECT_EQ(n, 2 * (N - 1));
            iter_loader_unref(loader);
        }
    }
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void fails(const char *which, const char *who) {
    static const char *const reasons[] = {"", "because", "because", "malformed or truncated data"};
    for (int32_t workers = 0; workers <= 1; workers++) {
        for (int how = WORKS; how <= SAYS_NOTHING; how++) {
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 4;
            opt.workers = workers;
            opt.memory.limit = 16 << 20;
            opt.collate = collate;
            const bool in_turn = strcmp(which, "begin") == 0 || strcmp(which, "next_batch") == 0;
            iter_registry *registry = registry_of_all();
            iter_loader *loader;
            iter_error err = soiled();
            failing = which;
            failing_how = (way)how;
            iter_status s = open_all(registry, in_turn ? "two" : "stride:7", opt, &loader, &err);
            iter_batch *batch = NULL;
            if (s == ITER_OK) s = iter_loader_next(loader, &batch, &err);
            if (how == WORKS) {
                EXPECT_OK(s, &err);
            } else {
                int fine = EXPECT_ERROR(s, ITER_EFORMAT, &err, who);
                fine &= EXPECT(strstr(err.message, reasons[how]) != NULL);
                fine &= EXPECT(strchr(err.message, 0xa5) == NULL);
                fine &= EXPECT_EQ(err.status, ITER_EFORMAT);
                if (!fine) fprintf(stderr, "  %s, way %d: '%s'\n", which, how, err.message);
            }
            iter_batch_unref(batch);
            iter_loader_unref(loader);
            /* If the caller passes no error, it must still work, and callbacks must still get one
             * to write to. */
            s = open_all(registry, in_turn ? "two" : "stride:7", opt, &loader, NULL);
            batch = NULL;
            if (s == ITER_OK) s = iter_loader_next(loader, &batch, NULL);
            EXPECT_EQ(s, how == WORKS ? ITER_OK : ITER_EFORMAT);
            iter_batch_unref(batch);
            iter_loader_unref(loader);
            failing_how = WORKS;
            iter_registry_destroy(registry);
        }
    }
}

int main(void) {
    uint8_t records[N * RECORD];
    for (uint32_t i = 0; i < N; i++) {
        uint8_t *record = records + (size_t)i * RECORD;
        memset(record, 0, RECORD);
        record[0] = (uint8_t)(3 * i);
        record[1] = (uint8_t)(3 * i >> 8);
        record[4] = (uint8_t)(i % 7);
    }
    make_folder(folder);
    make_file(folder, "pairs.bin", records, sizeof(records));
    rows();
    fails("format", ""); /* its messages name the file themselves */
    fails("sampler", "sampler stride");
    fails("begin", "sampler two");
    fails("next_batch", "sampler two");
    fails("plan", "column 1: add (field 'data')");
    fails("start", "add");
    fails("decode", "pairs.bin:");
    fails("apply", "add: sample ");
    fails("collate", "collate (batch 0 of epoch 0)");
    make_folder_gone(folder);
    EXPECT_EQ(iter__alloc_live(), 0);
    return EXPECT_DONE();
}
