/*
 * stress_tokens.c - token rows are the same, bit for bit, for any number of workers, any source,
 * any number of ranks, and from any saved position; and each is what a loop over the file gives.
 *
 * Sets: whole files, documents whose last rows are short, and windows from every token that a
 * sampler takes at other places in each epoch.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

enum { LENGTH = 8, DOCUMENTS = 60, MOST = 4000 };

static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
static const int32_t all_workers[] = DRIVE_WORKERS;

static char folder[MAKE_PATH_MAX];
static uint16_t tokens[MOST];
static uint32_t n_tokens, lengths[DOCUMENTS];

/* Two files of tokens, and an index of documents of the first one. */
static void make_set(void) {
    for (uint32_t d = 0; d < DOCUMENTS; d++) {
        lengths[d] = d * 7 % 61;
        n_tokens += lengths[d];
    }
    for (uint32_t i = 0; i < n_tokens; i++)
        tokens[i] = (uint16_t)(i * 40503u >> 3);
    make_file(folder, "a.bin", tokens, n_tokens * sizeof(tokens[0]));
    make_file(folder, "b.bin", tokens, n_tokens); /* half of them */
    make_megatron(folder, "set", tokens, lengths, DOCUMENTS);
}

/* ---- What a row must be ---------------------------------------------------------------------- */

typedef struct want {
    uint32_t first, n; /* tokens: inputs and one more */
} want;

static want files_want[MOST], documents_want[MOST], every_want[MOST];
static uint32_t n_files, n_documents, n_every;

static void list_rows(void) {
    const uint32_t ends[2] = {n_tokens, n_tokens / 2};
    for (int f = 0; f < 2; f++) {
        for (uint32_t at = 0; at + LENGTH + 1 <= ends[f]; at += LENGTH)
            files_want[n_files++] = (want){at, LENGTH + 1};
        for (uint32_t at = 0; at + LENGTH + 1 <= ends[f]; at++)
            every_want[n_every++] = (want){at, LENGTH + 1};
    }
    for (uint32_t d = 0, begin = 0; d < DOCUMENTS; begin += lengths[d++])
        for (uint32_t at = 0; at + 2 <= lengths[d]; at += LENGTH)
            documents_want[n_documents++] =
                (want){begin + at, lengths[d] - at > LENGTH ? LENGTH + 1 : lengths[d] - at};
}

/* Rows of a batch, cast to i32 and filled with 0, that are not what their index says. */
static uint32_t wrong_rows(const iter_batch *batch, const want *all, uint32_t n) {
    const int32_t *fields[2] = {iter_batch_tensor(batch, 0)->data,
                                iter_batch_tensor(batch, 1)->data};
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++) {
        const uint64_t index = iter_batch_index(batch)[i];
        if (index >= n) return MOST;
        for (uint32_t k = 0; k < LENGTH; k++)
            for (uint32_t f = 0; f < 2; f++) {
                const bool has = k + 1 < all[index].n;
                const int32_t due = has ? tokens[all[index].first + k + f] : 0;
                wrong += fields[f][i * LENGTH + k] != due;
            }
    }
    return wrong;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static const struct set {
    const char *path, *chain, *sampler;
    const want *want;
    const uint32_t *n;
    bool all; /* an epoch has all of the n rows */
} sets[] = {
    {"{a,b}.bin\"?length=8", "cast:i32 | cast:i32,field=label", "shuffle", files_want, &n_files,
     true},
    {"set.idx\"?length=8&documents=keep&last=short",
     "pad-tokens:8,side=post | cast:i32 | pad-tokens:8,side=post,field=label | "
     "cast:i32,field=label",
     "shuffle", documents_want, &n_documents, true},
    {"{a,b}.bin\"?length=8&stride=1", "cast:i32 | cast:i32,field=label", "stride:8", every_want,
     &n_every, false},
};

static iter_dataset *open_set(const struct set *set) {
    char spec[MAKE_PATH_MAX + 80];
    iter_error err;
    iter_dataset *data;
    snprintf(spec, sizeof(spec), "tokens:\"%s/%s", folder, set->path);
    if (!EXPECT_OK(iter_dataset_open(spec, NULL, &data, &err), &err)) exit(1);
    return data;
}

static iter_loader_options options_of(const struct set *set, int32_t source, int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 16;
    opt.sampler.spec = set->sampler;
    opt.seed = 9;
    opt.reading.source = source;
    opt.workers = workers;
    opt.memory.limit = 64 << 20;
    return opt;
}

/* Two epochs; every row is compared, and comes once if the sampler takes all. */
static uint64_t run_and_compare(const struct set *set, iter_dataset *data, iter_chain *chain,
                                const iter_loader_options *opt) {
    uint64_t sum = 0;
    iter_loader *loader = drive_loader(data, chain, opt);
    for (int epoch = 0; epoch < 2; epoch++) {
        uint8_t seen[MOST] = {0};
        uint32_t n = 0;
        iter_error err;
        iter_batch *batch;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            EXPECT_EQ(wrong_rows(batch, set->want, *set->n), 0);
            for (uint32_t i = 0; i < iter_batch_describe(batch).n_valid; i++, n++)
                EXPECT_EQ(seen[iter_batch_index(batch)[i]]++, 0);
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        }
        if (set->all) EXPECT_EQ(n, *set->n);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    iter_loader_unref(loader);
    return sum;
}

static void same_for_all(const struct set *set) {
    iter_chain *chain = drive_chain(set->chain);
    uint64_t want_sum = 0;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            iter_dataset *data = open_set(set); /* its own: one that was loaded stays in memory */
            const iter_loader_options opt = options_of(set, sources[s], all_workers[w]);
            const uint64_t sum = run_and_compare(set, data, chain, &opt);
            if (!want_sum) want_sum = sum;
            EXPECT_EQ(sum, want_sum);
            EXPECT_EQ(drive_run_resuming(data, chain, &opt), want_sum);
            for (uint32_t ranks = 2; ranks <= 4; ranks *= 2)
                EXPECT_EQ(drive_run_ranks(data, chain, opt, ranks), want_sum);
            iter_dataset_unref(data);
        }
    iter_chain_unref(chain);
}

int main(void) {
    make_folder(folder);
    make_set();
    list_rows();
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        same_for_all(&sets[i]);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
