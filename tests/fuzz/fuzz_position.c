/*
 * fuzz_position.c - any bytes as a saved position.
 *
 * Input: a byte that chooses the loader (its low two bits) and how much of the blob is mended
 * before it is restored (bit 2: the checksum; bit 3: also what identifies the loader, so that the
 * code after these checks is reached); then the blob. Property: restore returns OK, or EFORMAT or
 * EINVAL with a message. If OK, what save gives is accepted again and saved as the same bytes, and
 * the loader returns OK or END with rows that exist. If not, the loader can go on from its old
 * place.
 */
#include <string.h>

#include <iter/iter.h>

#include "iter/core/hash.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 23, HEAD = 8, IDS = 40, BLOB_MAX = 1024, KINDS = 4 };

static int64_t length(const void *user, uint64_t index) {
    (void)user;
    return (int64_t)(index % 5) + 1;
}

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = N;
    out->n_fields = 1;
    out->fields[0] = (iter_field){
        .name = "data", .role = ITER_DATA, .desc = {.dtype = ITER_U8, .n_dims = 1, .dims = {2}}};
    return ITER_OK;
}

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)rng, (void)err;
    for (uint32_t i = 0; i < n; i++)
        ((uint8_t *)rows[0].data)[2 * i] = (uint8_t)indices[i];
    return ITER_OK;
}

static const iter_dataset_ops ops = {
    .struct_size = sizeof(ops), .name = "fuzz", .describe = describe, .get = get, .length = length};

static iter_loader *make(int kind) {
    static const char *const samplers[KINDS] = {"shuffle", "shuffle", "bucket:buckets=2;4",
                                                "sequential"};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 4;
    opt.memory.limit = 64 << 20;
    opt.sampler.spec = samplers[kind];
    opt.last_batch = kind == 1   ? ITER_LAST_ROLL_OVER
                     : kind == 3 ? ITER_LAST_DISCARD
                                 : ITER_LAST_KEEP;
    iter_dataset *dataset;
    iter_loader *loader;
    FUZZ_REQUIRE(iter_dataset_create(&ops, NULL, &dataset, NULL) == ITER_OK);
    FUZZ_REQUIRE(iter_dataloader_create(dataset, NULL, &opt, &loader, NULL) == ITER_OK);
    iter_dataset_unref(dataset);
    return loader;
}

static size_t save(iter_loader *loader, uint8_t out[BLOB_MAX]) {
    size_t size;
    FUZZ_REQUIRE(iter_loader_save(loader, out, BLOB_MAX, &size, NULL) == ITER_OK);
    return size;
}

/* Takes batches: their rows exist, or END comes. */
static void go_on(iter_loader *loader) {
    for (int i = 0; i < 3; i++) {
        iter_batch *batch;
        iter_error err = {.status = ITER_OK};
        const iter_status s = iter_loader_next(loader, &batch, &err);
        FUZZ_REQUIRE(s == ITER_OK || s == ITER_END);
        if (s == ITER_END) {
            FUZZ_REQUIRE(iter_loader_reset(loader, &err) >= 0);
            continue;
        }
        const uint32_t n = iter_batch_describe(batch).n_rows;
        FUZZ_REQUIRE(n >= 1 && n <= 4);
        for (uint32_t r = 0; r < n; r++) {
            FUZZ_REQUIRE(iter_batch_index(batch)[r] < N);
            FUZZ_REQUIRE(((const uint8_t *)iter_batch_tensor(batch, 0)->data)[2 * r] ==
                         iter_batch_index(batch)[r]);
        }
        iter_batch_unref(batch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > BLOB_MAX - 8) return 0;
    iter_loader *loader = make(data[0] & 3);
    uint8_t blob[BLOB_MAX], first[BLOB_MAX], second[BLOB_MAX];
    size_t n = size - 1;
    memcpy(blob, data + 1, n);
    if (data[0] & 8) {
        save(loader, first);
        if (n >= HEAD + IDS) memcpy(blob, first, HEAD + IDS);
    }
    if (data[0] & 12) {
        const uint64_t sum = iter__fnv1a(ITER_FNV_START, blob, n);
        memcpy(blob + n, &sum, sizeof(sum));
        n += sizeof(sum);
    }
    iter_error err = {.status = ITER_OK};
    const iter_status s = iter_loader_restore(loader, blob, n, &err);
    if (s == ITER_OK) {
        const size_t n_first = save(loader, first);
        FUZZ_REQUIRE(iter_loader_restore(loader, first, n_first, &err) == ITER_OK);
        FUZZ_REQUIRE(save(loader, second) == n_first && memcmp(first, second, n_first) == 0);
    } else {
        FUZZ_REQUIRE((s == ITER_EFORMAT || s == ITER_EINVAL) && err.status == s && err.message[0]);
    }
    go_on(loader);
    iter_loader_unref(loader);
    return 0;
}
