/* drive.c - see drive.h. */
#include "tests/support/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/expect.h"
#include "tests/support/make_data.h"

static void die(const char *what, const iter_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(1);
}

void drive_cifar(char folder[512], uint32_t n) {
    make_folder(folder);
    uint32_t first = 0;
    for (uint32_t i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "data_batch_%u.bin", i);
        const uint32_t end = n * i / 5;
        make_cifar(folder, name, first, end - first, 1);
        first = end;
    }
    make_cifar(folder, "test_batch.bin", 0, 10, 1);
}

iter_dataset *drive_open(const char *folder) {
    char spec[600];
    iter_error err;
    iter_dataset *dataset;
    snprintf(spec, sizeof(spec), "cifar10:\"%s\"", folder);
    if (iter_dataset_open(spec, NULL, &dataset, &err) < 0) die(spec, &err);
    return dataset;
}

static uint64_t fnv(uint64_t hash, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_of(const iter_batch *batch, bool on_device) {
    const iter_batch_info info = iter_batch_describe(batch);
    uint64_t sum = 0;
    for (int32_t f = 0; iter_batch_tensor(batch, f); f++) {
        const iter_tensor *tensor =
            on_device ? iter_batch_device_tensor(batch, f) : iter_batch_tensor(batch, f);
        if (info.n_rows == 0) continue;
        const size_t row = iter_desc_bytes(&tensor->desc) / info.n_rows;
        for (uint32_t i = 0; i < info.n_rows; i++) {
            const bool padding = info.first_valid == 0 && i >= info.n_valid;
            if (padding) continue;
            uint64_t hash = 0xcbf29ce484222325u;
            const uint64_t place[3] = {iter_batch_row_epoch(batch)[i],
                                       iter_batch_position(batch)[i], (uint64_t)f};
            hash = fnv(hash, place, sizeof(place));
            sum += fnv(hash, (const uint8_t *)tensor->data + i * row, row);
        }
    }
    return sum;
}

uint64_t drive_hash(const iter_batch *batch) {
    return hash_of(batch, false);
}

uint64_t drive_hash_device(const iter_batch *batch) {
    return hash_of(batch, true);
}

uint32_t drive_wrong_rows(const iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    const iter_tensor *data = iter_batch_find(batch, "data"),
                      *label = iter_batch_find(batch, "label");
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < info.n_rows; i++) {
        if (!iter_batch_valid(batch)[i]) continue;
        const uint32_t index = (uint32_t)iter_batch_index(batch)[i];
        const uint8_t *pixels = (const uint8_t *)data->data + (size_t)i * 3072;
        bool right = ((const uint8_t *)label->data)[i] == index % 10;
        for (uint32_t j = 0; j < 3072 && right; j += 61)
            right = pixels[j] == make_pixel(index, j);
        wrong += !right;
    }
    return wrong;
}

uint64_t drive_run(iter_loader *loader, uint32_t epochs) {
    uint64_t sum = 0;
    for (uint32_t e = 0; e < epochs; e++) {
        iter_error err;
        iter_batch *batch;
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        }
        if (s < 0) die("next", &err);
        if (iter_loader_reset(loader, &err) < 0) die("reset", &err);
    }
    return sum;
}

iter_loader *drive_loader(iter_dataset *dataset, iter_chain *chain,
                          const iter_loader_options *opt) {
    iter_error err;
    iter_loader *loader;
    if (iter_dataloader_create(dataset, chain, opt, &loader, &err) < 0) die("dataloader", &err);
    return loader;
}

iter_chain *drive_chain(const char *text) {
    iter_error err;
    iter_chain *chain;
    if (iter_chain_parse(text, NULL, &chain, &err) < 0) die(text, &err);
    return chain;
}

uint64_t drive_run_resuming(iter_dataset *data, iter_chain *chain, const iter_loader_options *opt) {
    uint64_t sum = 0;
    uint8_t saved[1024];
    size_t size = 0;
    for (uint32_t epochs = 0; epochs < 2;) {
        iter_error err;
        iter_batch *batch;
        iter_loader *loader = drive_loader(data, chain, opt);
        if (size) EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s == ITER_OK) {
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        } else {
            EXPECT_STATUS(s, ITER_END, &err);
            EXPECT_OK(iter_loader_reset(loader, &err), &err);
            epochs++;
        }
        EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
        iter_loader_unref(loader);
    }
    return sum;
}

uint64_t drive_run_ranks(iter_dataset *data, iter_chain *chain, iter_loader_options opt,
                         uint32_t ranks) {
    uint64_t sum = 0;
    opt.ranks = ranks;
    for (opt.rank = 0; opt.rank < ranks; opt.rank++) {
        iter_loader *loader = drive_loader(data, chain, &opt);
        sum += drive_run(loader, 2);
        iter_loader_unref(loader);
    }
    return sum;
}
