/*
 * stress_mix.c - a mix gives the same rows, bit for bit, for any number of workers, any source of
 * bytes, any number of ranks, and from any saved position; each row is its source's.
 *
 * Mixes: weights over files of tokens, the same as stored, a union, weights that change, sources
 * that make their rows beside ones that are read (so all rows come by get()), and a mix of mixes.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

enum { LENGTH = 8, FILES = 3 };

static const uint32_t n_tokens[FILES] = {4001, 1205, 322};
static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
static const int32_t all_workers[] = DRIVE_WORKERS;

static char folder[MAKE_PATH_MAX], pictures[512];

/* Token i of file f. */
static uint16_t token_of(uint32_t f, uint32_t i) {
    return (uint16_t)(i * 40503u + f * 7u);
}

static void make_set(void) {
    static uint16_t tokens[4096];
    for (uint32_t f = 0; f < FILES; f++) {
        const char name[] = {(char)('a' + f), '.', 'b', 'i', 'n', 0};
        for (uint32_t i = 0; i < n_tokens[f]; i++)
            tokens[i] = token_of(f, i);
        make_file(folder, name, tokens, n_tokens[f] * sizeof(tokens[0]));
    }
}

static const struct mix {
    const char *spec; /* @ is the folder of tokens, % that of pictures */
    const char *sampler;
    bool is_union; /* an epoch has every sample once */
} mixes[] = {
    {"mix:{a=0.7 tokens:@/a.bin?length=8; b=0.25 tokens:@/b.bin?length=8; c=0.05 "
     "tokens:@/c.bin?length=8}",
     NULL, false},
    {"mix:{a=2 tokens:@/a.bin?length=8; b=1 tokens:@/b.bin?length=8; c=1 "
     "tokens:@/c.bin?length=8}",
     "mix:samples=333,shuffle=no", false},
    {"mix:{tokens:@/a.bin?length=8; tokens:@/b.bin?length=8; tokens:@/c.bin?length=8}", NULL, true},
    {"mix:{a=1 tokens:@/a.bin?length=8; b=1 tokens:@/b.bin?length=8; c=1 tokens:@/c.bin?length=8}",
     "mix:samples=500,changes=\"123 a=0.2 b=0.5;700 a=0 c=1e-3\"", false},
    {"mix:{read=1 cifar10:%?split=train; made=0.5 synthetic:cifar10?n=77}", NULL, false},
    {"mix:{cifar10:%?split=train; synthetic:cifar10?n=77}", NULL, true},
    {"mix:{x=1 mix:{tokens:@/a.bin?length=8; tokens:@/b.bin?length=8}; y=1 "
     "tokens:@/c.bin?length=8}",
     NULL, false},
};

static iter_dataset *open_mix(const struct mix *mix) {
    char spec[4096], *to = spec;
    for (const char *at = mix->spec; *at; at++)
        to += *at == '@'   ? sprintf(to, "%s", folder)
              : *at == '%' ? sprintf(to, "%s", pictures)
                           : (*to = *at, 1);
    *to = 0;
    iter_error err;
    iter_dataset *data;
    if (!EXPECT_OK(iter_dataset_open(spec, NULL, &data, &err), &err)) exit(1);
    return data;
}

/* The file and row that have sample `index`; false = there is none. */
static bool place_of(uint64_t index, uint32_t *out_file, uint64_t *out_row) {
    static const uint64_t rows[FILES] = {(4001 - 1) / LENGTH, (1205 - 1) / LENGTH,
                                         (322 - 1) / LENGTH};
    for (uint32_t f = 0; f < FILES; index -= rows[f++]) {
        *out_file = f;
        *out_row = index;
        if (index < rows[f]) return true;
    }
    return false;
}

/* Rows of a batch that are not what their index says. */
static uint32_t wrong_tokens(const iter_batch *batch) {
    const uint16_t *ids = iter_batch_tensor(batch, 0)->data;
    uint32_t wrong = 0, file;
    uint64_t row;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid; i++) {
        wrong += !place_of(iter_batch_index(batch)[i], &file, &row);
        for (uint32_t k = 0; k < LENGTH; k++)
            wrong += ids[i * LENGTH + k] != token_of(file, (uint32_t)row * LENGTH + k);
    }
    return wrong;
}

/* The same for pictures: the first 150 are read, the others made. */
static uint32_t wrong_pictures(const iter_batch *batch, iter_dataset *stored, iter_dataset *made) {
    const uint8_t *pixels = iter_batch_tensor(batch, 0)->data;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid; i++) {
        iter_error err;
        iter_sample *sample;
        const uint64_t index = iter_batch_index(batch)[i];
        iter_dataset *from = index < 150 ? stored : made;
        if (!EXPECT_OK(iter_dataset_read(from, index % 150, "data", &sample, &err), &err)) exit(1);
        wrong += memcmp(pixels + i * 3072, iter_sample_tensor(sample, 0)->data, 3072) != 0;
        iter_sample_free(sample);
    }
    return wrong;
}

static uint64_t run_and_compare(const struct mix *mix, iter_dataset *data,
                                const iter_loader_options *opt) {
    const iter_description *desc = iter_dataset_describe(data);
    iter_dataset *made, *stored = drive_open(pictures);
    iter_error err;
    if (!EXPECT_OK(iter_dataset_open("synthetic:cifar10?n=77", NULL, &made, &err), &err)) exit(1);
    iter_loader *loader = drive_loader(data, NULL, opt);
    uint64_t sum = 0, n_of_part[FILES] = {0};
    for (int epoch = 0; epoch < 2; epoch++) {
        static uint8_t seen[8192];
        uint64_t n = 0;
        iter_batch *batch;
        memset(seen, 0, sizeof(seen));
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            EXPECT_EQ(desc->n_extents ? wrong_tokens(batch) : wrong_pictures(batch, stored, made),
                      0);
            for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid; i++, n++) {
                const uint64_t index = iter_batch_index(batch)[i];
                if (mix->is_union) EXPECT_EQ(seen[index]++, 0);
                uint64_t first = 0;
                for (int32_t p = 0; p < desc->n_parts; first += desc->parts[p++].n_samples)
                    n_of_part[p] += index >= first && index < first + desc->parts[p].n_samples;
            }
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        }
        if (mix->is_union) EXPECT_EQ(n, desc->n_samples);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    iter_part_stats stats[FILES];
    EXPECT_EQ(iter_loader_parts(loader, stats, FILES), desc->n_parts);
    for (int32_t p = 0; p < desc->n_parts; p++) {
        EXPECT_EQ(stats[p].samples, n_of_part[p]);
        EXPECT_EQ(stats[p].failures, 0);
        EXPECT(strcmp(stats[p].name, desc->parts[p].name) == 0);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(stored);
    iter_dataset_unref(made);
    return sum;
}

static void same_for_all(const struct mix *mix) {
    uint64_t want_sum = 0;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            iter_dataset *data = open_mix(mix); /* its own: one that was loaded stays in memory */
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 16;
            opt.shuffle = ITER_SHUFFLE_FULL;
            opt.sampler.spec = mix->sampler;
            opt.seed = 9;
            opt.reading.source = sources[s];
            opt.workers = all_workers[w];
            opt.memory.limit = 64 << 20;
            const uint64_t sum = run_and_compare(mix, data, &opt);
            if (!want_sum) want_sum = sum;
            EXPECT_EQ(sum, want_sum);
            EXPECT_EQ(drive_run_resuming(data, NULL, &opt), want_sum);
            for (uint32_t ranks = 2; ranks <= 4; ranks *= 2)
                EXPECT_EQ(drive_run_ranks(data, NULL, opt, ranks), want_sum);
            iter_dataset_unref(data);
        }
}

/* A run that saves, and goes on with weights that change later; one whose weights differ before the
 * position is refused. */
static void weights_change_behind_a_position(void) {
    iter_dataset *data = open_mix(&mixes[0]);
    iter_error err;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.sampler.spec = "mix:samples=640";
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_batch *batch;
    uint8_t saved[1024];
    size_t size;
    for (int i = 0; i < 10; i++)
        if (EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) iter_batch_unref(batch);
    EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
    iter_loader_unref(loader);

    opt.sampler.spec = "mix:samples=640,changes=\"160 a=0\"";
    loader = drive_loader(data, NULL, &opt);
    EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
    const uint64_t n_first = iter_dataset_describe(data)->parts[0].n_samples;
    while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
        for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid; i++)
            EXPECT(iter_batch_index(batch)[i] >= n_first);
        iter_batch_unref(batch);
    }
    iter_loader_unref(loader);

    opt.sampler.spec = "mix:samples=640,changes=\"159 a=0\"";
    loader = drive_loader(data, NULL, &opt);
    EXPECT_EQ(iter_loader_restore(loader, saved, size, &err), ITER_EINVAL);
    EXPECT(strstr(err.message, "another sampler"));
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int main(void) {
    make_folder(folder);
    make_set();
    drive_cifar(pictures, 150);
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
        same_for_all(&mixes[i]);
    weights_change_behind_a_position();
    make_folder_gone(folder);
    make_folder_gone(pictures);
    return EXPECT_DONE();
}
