/*
 * remote_ours.c - libiter as a contestant; speaks the protocol of remote_common.py.
 *
 *     remote_ours SPEC WORKERS SHUFFLE [BLOCK]
 *
 * SHUFFLE is full or block (samples a block: BLOCK, 0 = the default). SPEC names bytes, not pictures:
 * `folder:URL?decoder=bytes&shape=ROW&dtype=u8`, whose decoder is here and gives each file whole, after
 * its length as a u32; or `recordio:URL?decode=none`, whose rows have lengths.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <iter/iter.h>
#include <iter/ops.h>
#include <iter/registry.h>
#include <zlib.h>

static _Noreturn void die(const char *what, const iter_error *err) {
    fprintf(stderr, "remote_ours: %s: %s\n", what, err->message);
    exit(1);
}

static iter_status decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_tensor *out, iter_error *err) {
    (void)state;
    (void)shared;
    const uint32_t length = (uint32_t)size;
    if (size + sizeof(length) > iter_desc_bytes(&out->desc)) {
        err->status = ITER_EFORMAT;
        snprintf(err->message, sizeof(err->message), "%zu bytes do not fit into a row", size);
        return ITER_EFORMAT;
    }
    memcpy(out->data, &length, sizeof(length));
    memcpy((uint8_t *)out->data + sizeof(length), bytes, size);
    return ITER_OK;
}

/* Rows of different lengths stay as they are, each with its length. */
static iter_status leave_rows(void *user, iter_batch_view *fields, int32_t n_fields,
                              iter_error *err) {
    (void)user, (void)fields, (void)n_fields, (void)err;
    return ITER_OK;
}

static const iter_decoder_ops decoder = {
    .base = {.struct_size = sizeof(iter_decoder_ops), .name = "bytes", .help = "a file as it is"},
    .decode = decode,
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Counts the samples of a batch, their bytes, and if `check` adds their sums. */
static void take(const iter_batch *batch, bool check, uint64_t *n, uint64_t *n_bytes,
                 uint64_t *sum) {
    const iter_tensor *tensor = iter_batch_tensor(batch, 0);
    const uint32_t rows = iter_batch_describe(batch).n_rows;
    const int32_t *lengths = iter_batch_lengths(batch, 0);
    const size_t stride = iter_desc_bytes(&tensor->desc) / rows;
    for (uint32_t i = 0; i < rows; i++) {
        const uint8_t *row = (const uint8_t *)tensor->data + i * stride;
        uint32_t size = lengths ? (uint32_t)lengths[i] : 0;
        if (!lengths) {
            memcpy(&size, row, sizeof(size));
            row += sizeof(size);
        }
        *n_bytes += size;
        if (check) *sum += crc32(0, row, size);
    }
    *n += rows;
}

int main(int argc, char **argv) {
    iter_error err = {0};
    iter_registry *registry;
    iter_dataset *data;
    iter_loader *loader;
    if (argc < 4) return 2;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 64;
    opt.workers = atoi(argv[2]);
    opt.shuffle = strcmp(argv[3], "block") == 0 ? ITER_SHUFFLE_BLOCK : ITER_SHUFFLE_FULL;
    opt.sampler.block = argc > 4 ? atoi(argv[4]) : 0;
    opt.collate = leave_rows;
    opt.lookahead = ITER_LOOKAHEAD_EPOCH; /* an epoch begins when its clock does */
    opt.reading.source = ITER_SOURCE_RING;
    if (iter_registry_create(&registry, &err) < 0 ||
        iter_registry_add_decoder(registry, &decoder, &err) < 0 ||
        iter_dataset_open(argv[1], registry, &data, &err) < 0)
        die(argv[1], &err);
    if (iter_dataloader_create(data, NULL, &opt, &loader, &err) < 0) die("loader", &err);
    char line[64];
    bool begun = false;
    while (fgets(line, sizeof(line), stdin)) {
        const bool check = strcmp(line, "check\n") == 0;
        uint64_t n = 0, n_bytes = 0, sum = 0;
        iter_batch *batch;
        iter_status s;
        const double start = now();
        if (begun && iter_loader_reset(loader, &err) < 0) die("reset", &err);
        begun = true;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            take(batch, check, &n, &n_bytes, &sum);
            iter_batch_unref(batch);
        }
        if (s != ITER_END) die("next", &err);
        printf("%" PRIu64 " %" PRIu64 " %.6f %" PRIu64 "\n", n, n_bytes, now() - start, sum);
        fflush(stdout);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return 0;
}
