/*
 * records.c - see records.h.
 *
 * The bare loops know that records_make() wrote the file: records of one size, without gaps. They
 * check each record's magic, as every parser must. All three are measured twice: as they are, and
 * with a consumer that touches a byte of every cache line of the batches.
 */
#include "bench/studies/records.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "bench/common/bench_util.h"
#include "bench/measure/measure.h"

#define HEAD       32 /* of a record, with MXNet's header */
#define MAGIC      0xced7230au
#define LINE       64
#define BARE_SLOTS 5 /* as a loader with two batches ahead, two held and one in progress */

static int complain(const char *what, const char *why) {
    fprintf(stderr, "numbers: %s: %s\n", what, why);
    return 1;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_u32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof(value));
}

/* Bytes below 128: no record holds the magic, so none is split. */
static void fill_row(uint8_t *to, uint64_t n, uint64_t seed) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        to[i] = (uint8_t)(x & 0x7f);
    }
}

int records_make(const char *path, uint64_t row_bytes, uint64_t n) {
    const uint64_t length = HEAD - 8 + row_bytes, record = (8 + length + 3) & ~(uint64_t)3;
    char *index_path = malloc(strlen(path) + 8);
    uint8_t *bytes = calloc(1, record);
    if (!index_path || !bytes || row_bytes >= (1u << 29) - HEAD) exit(1);
    sprintf(index_path, "%.*s.idx", (int)(strlen(path) - 4), path);
    FILE *data = fopen(path, "wb"), *index = fopen(index_path, "w");
    bool ok = data && index;
    for (uint64_t i = 0; ok && i < n; i++) {
        const float label = (float)(i % 1000);
        put_u32(bytes, MAGIC);
        put_u32(bytes + 4, (uint32_t)length);
        memcpy(bytes + 12, &label, sizeof(label));
        put_u32(bytes + 16, (uint32_t)i);
        fill_row(bytes + HEAD, row_bytes, i);
        ok = fwrite(bytes, record, 1, data) == 1 &&
             fprintf(index, "%" PRIu64 "\t%" PRIu64 "\n", i, i * record) > 0;
    }
    if (data && fclose(data) != 0) ok = false;
    if (index && fclose(index) != 0) ok = false;
    free(bytes);
    free(index_path);
    return ok ? 0 : complain(path, "cannot be written");
}

/* ---- Warm ------------------------------------------------------------------------------------ */

typedef struct bare {
    int fd;
    uint64_t record, at, end, block; /* bytes; block: whole records */
    uint8_t *memory;
    uint32_t n_slots, slot; /* batches that fit into memory; 0 = one block */
    uint32_t batch;         /* rows */
    bool touches;
} bare;

typedef struct loading {
    iter_loader *loader;
    bool touches;
} loading;

static void touch(const uint8_t *bytes, uint64_t n) {
    static volatile uint8_t sink;
    uint8_t sum = 0;
    for (uint64_t i = 0; i < n; i += LINE)
        sum = (uint8_t)(sum + bytes[i]);
    sink = sum;
    (void)sink;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Reads the next batch: block by block into one buffer, each block touched at once; or into a slot,
 * which is touched when it is full. */
static iter_status read_batch(bare *b, iter_error *err) {
    const uint64_t wanted = b->batch * b->record;
    uint8_t *slot = b->memory + b->slot * wanted;
    for (uint64_t done = 0, bytes; done < wanted; done += bytes) {
        bytes = smaller(b->block, smaller(wanted - done, b->end - b->at));
        uint8_t *to = b->n_slots ? slot + done : slot;
        if (pread(b->fd, to, bytes, (off_t)b->at) != (ssize_t)bytes)
            return bench_fail(err, ITER_EIO, "pread");
        for (uint64_t at = 0; at < bytes; at += b->record) {
            uint32_t magic;
            memcpy(&magic, to + at, sizeof(magic));
            if (magic != MAGIC) return bench_fail(err, ITER_EFORMAT, "no record");
        }
        if (b->touches && !b->n_slots) touch(to, bytes);
        b->at = b->at + bytes < b->end ? b->at + bytes : 0;
    }
    if (!b->n_slots) return ITER_OK;
    if (b->touches) touch(slot, wanted);
    b->slot = (b->slot + 1) % b->n_slots;
    return ITER_OK;
}

static iter_status run_bare(void *user, uint64_t n_batches, uint64_t *out_samples,
                            double *out_seconds, iter_error *err) {
    const double start = bench_now();
    for (uint64_t i = 0; i < n_batches; i++) {
        const iter_status status = read_batch(user, err);
        if (status < 0) return status;
    }
    *out_samples = n_batches * ((bare *)user)->batch;
    *out_seconds = bench_now() - start;
    return ITER_OK;
}

static iter_status run_loader(void *user, uint64_t n_batches, uint64_t *out_samples,
                              double *out_seconds, iter_error *err) {
    const loading *side = user;
    iter_loader *loader = side->loader;
    iter_batch *batch;
    uint64_t samples = 0;
    const double start = bench_now();
    while (n_batches > 0) {
        const iter_status status = iter_loader_next(loader, &batch, err);
        if (status < 0) return status;
        if (status == ITER_END) {
            if (iter_loader_reset(loader, err) < 0) return err->status;
            continue;
        }
        for (int32_t f = 0; side->touches && iter_batch_tensor(batch, f); f++) {
            const iter_tensor *tensor = iter_batch_tensor(batch, f);
            touch(tensor->data, iter_desc_bytes(&tensor->desc));
        }
        samples += iter_batch_describe(batch).n_rows;
        iter_batch_unref(batch);
        n_batches--;
    }
    *out_samples = samples;
    *out_seconds = bench_now() - start;
    return ITER_OK;
}

static bool loader_rests(void *user) {
    const iter_loader *loader = ((const loading *)user)->loader;
    int32_t stage;
    for (int32_t w = 0; (stage = iter_loader_stage_now(loader, w)) >= 0; w++) {
        const char *name = iter_loader_stage_name(loader, stage);
        if (strcmp(name, "wait-slot") != 0 && strcmp(name, "idle") != 0) return false;
    }
    return true;
}

static uint64_t bare_bytes(const bare *b) {
    return b->n_slots ? b->n_slots * b->batch * b->record : b->block;
}

static iter_status open_bare(const iter_description *desc, uint64_t block_bytes, uint32_t batch,
                             uint32_t n_slots, bare *out, iter_error *err) {
    *out = (bare){.fd = open(desc->files[0].path, O_RDONLY | O_CLOEXEC),
                  .end = desc->files[0].bytes,
                  .batch = batch,
                  .n_slots = n_slots};
    out->record = out->end / desc->n_samples;
    out->block = (block_bytes / out->record ? block_bytes / out->record : 1) * out->record;
    out->memory = bench_map(bare_bytes(out));
    if (out->fd < 0 || !out->memory || out->record * desc->n_samples != out->end)
        return bench_fail(err, ITER_EINVAL, "%s is not of `numbers records-make`",
                          desc->files[0].path);
    return ITER_OK;
}

static void close_bare(bare *b) {
    bench_unmap(b->memory, bare_bytes(b));
    close(b->fd);
}

static void say(const char *what, const char *against, const measure_rounds *rounds, int a, int b,
                double row_bytes) {
    measure_interval ratio, rate;
    iter_error err;
    if (measure_rounds_ratio(rounds, a, b, &ratio, &err) < 0 ||
        measure_rounds_ratio(rounds, b, b, &rate, &err) < 0)
        exit(complain(what, err.message));
    printf("%-36s %9.0f records/s %6.0f MB/s", what, rate.median, rate.median * row_bytes / 1e6);
    if (a != b) printf(", of %s %.3f [%.3f, %.3f]", against, ratio.median, ratio.low, ratio.high);
    printf("\n");
}

static void say_all(const measure_rounds *rounds, bool touches, double record) {
    const int first = touches ? 3 : 0;
    printf(touches ? "each line touched:\n" : "only read:\n");
    say("  pread into one buffer", "", rounds, first, first, record);
    say("  pread into a loader's slots", "one buffer", rounds, first, first + 1, record);
    say("  loader", "one buffer", rounds, first, first + 2, record);
    say("  loader", "slots", rounds, first + 1, first + 2, record);
}

int records_warm(const char *spec, int workers, uint64_t block_bytes, uint32_t batch,
                 uint32_t pairs) {
    iter_error err;
    iter_dataset *data = NULL;
    bare one = {.fd = -1}, slots = {.fd = -1};
    iter_loader *loader = NULL;
    measure_rounds rounds = {0};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch;
    opt.workers = workers;
    opt.reading.source = ITER_SOURCE_RING;
    iter_status status = iter_dataset_open(spec, NULL, &data, &err);
    if (status < 0) return complain(spec, err.message);
    const iter_description *desc = iter_dataset_describe(data);
    if (status == ITER_OK) status = open_bare(desc, block_bytes, batch, 0, &one, &err);
    if (status == ITER_OK)
        status = open_bare(desc, block_bytes, batch, workers ? BARE_SLOTS : 1, &slots, &err);
    if (status == ITER_OK) status = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    if (status == ITER_OK) {
        bare one_touched = one, slots_touched = slots; /* in the same memory */
        one_touched.touches = slots_touched.touches = true;
        loading reads = {loader, false}, touches = {loader, true};
        const measure_side sides[] = {
            {"one buffer", run_bare, NULL, &one, NULL},
            {"slots", run_bare, NULL, &slots, NULL},
            {"loader", run_loader, NULL, &reads, loader_rests},
            {"one buffer, touched", run_bare, NULL, &one_touched, NULL},
            {"slots, touched", run_bare, NULL, &slots_touched, NULL},
            {"loader, touched", run_loader, NULL, &touches, loader_rests}};
        measure_options measure = MEASURE_OPTIONS_INIT;
        measure.min_pairs = pairs;
        measure.slice_s = 0.15;
        status = measure_sides(sides, 6, &measure, &rounds, &err);
    }
    if (status < 0) return complain(spec, err.message);
    printf("%s, workers %d, batches of %u, reads of %" PRIu64 " KB, %u rounds kept, %u dropped\n",
           spec, workers, batch, one.block / 1000, rounds.n_rounds, rounds.n_dropped);
    say_all(&rounds, false, (double)one.record);
    say_all(&rounds, true, (double)one.record);
    measure_rounds_free(&rounds);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    close_bare(&one);
    close_bare(&slots);
    return 0;
}
