/*
 * test_pack.c - which documents share a row, against best-fit decreasing as it is written in books,
 * and what packed rows hold, against the documents.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/permutation.h"
#include "iter/core/slot_set.h"
#include "iter/dataset/packing_epochs.h"
#include "tests/support/make_data.h"
#include <iter/iter.h>

TestSuite(pack, .timeout = 120);

/* ---- Sets of numbers ------------------------------------------------------------------------- */

Test(pack, the_next_member_is_found) {
    static const uint32_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097, 262143, 262145, 300000};
    iter_rng rng = iter_rng_at(iter_rng_key(1, "test", 0), 0, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint32_t n = sizes[i];
        iter__slot_set set;
        uint8_t *is_in = calloc(n + 1, 1);
        cr_assert(iter__slot_set_make(&set, n));
        for (int round = 0; round < 300; round++) {
            const uint32_t number = (uint32_t)iter_rng_below(&rng, n);
            if (is_in[number] && round % 3)
                iter__slot_set_remove(&set, number);
            else
                iter__slot_set_add(&set, number);
            is_in[number] = !(is_in[number] && round % 3);
            const uint32_t from = (uint32_t)iter_rng_below(&rng, n + 1);
            uint32_t due = from;
            while (due < n && !is_in[due])
                due++;
            cr_assert_eq(iter__slot_set_next(&set, from), due < n ? due : ITER_SLOT_NONE);
        }
        iter__slot_set_free(&set);
        free(is_in);
    }
}

/* ---- The plan -------------------------------------------------------------------------------- */

static int64_t lengths[20000];

static int64_t units_of(const void *user, uint64_t document) {
    (void)user;
    return lengths[document];
}

/* Normal, by the sum of twelve. */
static double normal(iter_rng *rng) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)iter_rng_below(rng, 1u << 20) / (1u << 20);
    return sum;
}

typedef struct bin {
    uint32_t room, n;
    uint32_t documents[64];
} bin;

/* The rows of one group: documents by length, the longest first (as dealt if equal), each to the
 * first of the bins with the least room that holds it, of those the one that got there last. */
static uint32_t naive(const uint64_t *dealt, uint32_t n, uint32_t length, bin *bins) {
    uint32_t n_bins = 0, order[512], ages[512] = {0}, clock = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; at > 0 && lengths[dealt[order[at - 1]]] < lengths[dealt[i]]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t document = (uint32_t)dealt[order[k]];
        const uint32_t units = (uint32_t)lengths[document];
        uint32_t best = n_bins;
        for (uint32_t b = 0; b < n_bins; b++) {
            if (bins[b].room < units) continue;
            const bool better = best == n_bins || bins[b].room < bins[best].room ||
                                (bins[b].room == bins[best].room && ages[b] > ages[best]);
            if (better) best = b;
        }
        if (best == n_bins) bins[n_bins++] = (bin){.room = length};
        bins[best].room -= units;
        bins[best].documents[bins[best].n++] = document;
        ages[best] = ++clock;
    }
    return n_bins;
}

Test(pack, rows_are_those_of_best_fit_decreasing) {
    enum { N = 3000, LENGTH = 100, GROUP = 300 };
    static bin bins[GROUP];
    static uint64_t dealt[N];
    static uint16_t table[N];
    iter_rng rng = iter_rng_at(iter_rng_key(3, "test", 0), 0, 0);
    for (uint32_t i = 0; i < N; i++)
        lengths[i] = 1 + (int64_t)iter_rng_below(&rng, i % 2 ? LENGTH : 25);
    const iter__pack_rule rule = {LENGTH, GROUP, 77, false, 0, NULL};
    iter__pack_plan plan;
    iter_error err;
    cr_assert_eq(iter__pack_plan_make(&plan, &rule, N, units_of, NULL, &err), ITER_OK);
    iter__permutation order;
    iter__permutation_init(&order, 77, 0, N, table);
    iter__permutation_run(&order, 0, N, dealt);
    uint64_t row = 0;
    for (uint32_t at = 0; at < N; at += GROUP) {
        const uint32_t n = naive(dealt + at, GROUP, LENGTH, bins);
        for (uint32_t b = 0; b < n; b++, row++) {
            cr_assert_eq(iter__pack_plan_count(&plan, row), bins[b].n);
            for (uint32_t i = 0; i < bins[b].n; i++)
                cr_assert_eq(iter__pack_plan_piece(&plan, row, i).document, bins[b].documents[i]);
        }
    }
    cr_expect_eq(plan.n_rows, row);
    iter__pack_plan_free(&plan);
}

Test(pack, each_unit_is_in_one_row) {
    enum { N = 20000 };
    static uint8_t *seen[N];
    iter_rng rng = iter_rng_at(iter_rng_key(4, "test", 0), 0, 0);
    static const uint32_t rows[][2] = {{64, 4096}, {1, 100}, {7, 1}, {2048, 20000}, {300, 777}};
    for (size_t c = 0; c < sizeof(rows) / sizeof(rows[0]); c++) {
        const uint32_t n = c == 0 ? N : 2000;
        uint64_t total = 0, empty = 0, found = 0;
        for (uint32_t i = 0; i < n; i++) {
            lengths[i] = (int64_t)exp(4 + 1.5 * normal(&rng)) - 1;
            if (i % 97 == 0) lengths[i] = rows[c][0] * (i % 5); /* exactly full, or empty */
            seen[i] = calloc((size_t)(lengths[i] > 0 ? lengths[i] : 1), 1);
            total += lengths[i] > 0 ? (uint64_t)lengths[i] : 0;
            empty += lengths[i] <= 0;
        }
        const iter__pack_rule rule = {rows[c][0], rows[c][1], 5, false, 0, NULL};
        iter__pack_plan plan;
        iter_error err;
        cr_assert_eq(iter__pack_plan_make(&plan, &rule, n, units_of, NULL, &err), ITER_OK);
        for (uint64_t row = 0; row < plan.n_rows; row++) {
            uint32_t used = 0;
            const uint32_t count = iter__pack_plan_count(&plan, row);
            cr_assert(count >= 1 && count <= plan.most);
            for (uint32_t i = 0; i < count; i++) {
                const iter__pack_piece piece = iter__pack_plan_piece(&plan, row, i);
                for (uint32_t k = 0; k < piece.n; k++)
                    cr_assert_eq(seen[piece.document][piece.first + k]++, 0);
                cr_assert_eq(piece.first % rows[c][0], 0);
                used += piece.n;
            }
            cr_assert(used >= 1 && used <= rows[c][0]);
            found += used;
        }
        cr_expect_eq(found, total);
        cr_expect_eq(plan.n_units, total);
        cr_expect_eq(plan.n_empty, empty);
        iter__pack_plan_free(&plan);
        for (uint32_t i = 0; i < n; i++)
            free(seen[i]);
    }
}

/* Every epoch has a plan of its own, with as many rows, in which each unit is once. */
Test(pack, plans_of_epochs) {
    enum { N = 20000, LENGTH = 2048, EPOCHS = 30, GROUPS = 3 };
    static const uint32_t groups[GROUPS] = {4096, 500, N};
    static uint32_t seen[N];
    iter_rng rng = iter_rng_at(iter_rng_key(6, "test", 0), 0, 0);
    uint64_t total = 0;
    for (uint32_t i = 0; i < N; i++) {
        lengths[i] = (int64_t)exp(6 + normal(&rng));
        total += (uint64_t)lengths[i];
    }
    for (int g = 0; g < GROUPS; g++) {
        const iter__pack_rule rule = {LENGTH, groups[g], 5, false, 0, NULL};
        iter__pack_epochs epochs = {0};
        iter_error err;
        cr_assert_eq(iter__pack_epochs_open(&epochs, &rule, N, units_of, NULL, &err), ITER_OK);
        uint64_t partners = 0, last = 0;
        for (uint64_t e = 0; e < EPOCHS; e++) {
            const iter__pack_plan *plan;
            cr_assert_eq(iter__pack_epochs_lend(&epochs, e, &plan, &err), ITER_OK);
            cr_expect_eq(plan->rule.epoch, e, "the first plan in the place of epoch %d", (int)e);
            cr_assert_eq(plan->n_rows, epochs.n_rows);
            memset(seen, 0, sizeof(seen));
            for (uint64_t row = 0; row < plan->n_rows; row++) {
                const uint32_t count = iter__pack_plan_count(plan, row);
                uint32_t used = 0;
                cr_assert(count >= 1 && count <= epochs.most);
                for (uint32_t i = 0; i < count; i++) {
                    const iter__pack_piece piece = iter__pack_plan_piece(plan, row, i);
                    seen[piece.document] += piece.n;
                    used += piece.n;
                    if (i > 0) partners = partners * 31 + piece.document;
                }
                cr_assert(used >= 1 && used <= LENGTH);
            }
            for (uint32_t i = 0; i < N; i++)
                cr_assert_eq(seen[i], lengths[i]);
            cr_expect_neq(partners, last);
            last = partners;
            iter__pack_epochs_back(&epochs, plan);
        }
        /* what the spare rows and the packing cost */
        cr_expect_leq((double)(epochs.n_rows * LENGTH - total), 0.01 * (double)total);
        iter__pack_epochs_close(&epochs);
    }
    cr_expect_eq(iter__alloc_live(), 0);
}

/* A child of fork() makes the same plans, whatever the parent was making. */
Test(pack, plans_in_a_child) {
    enum { N = 20000 };
#ifdef __SANITIZE_ADDRESS__
    /* gcc's AddressSanitizer has locks of its own in malloc, which a child of fork() inherits as
     * they are: locked, if the thread that makes plans was allocating. */
    cr_skip("AddressSanitizer's malloc may not be used after fork()");
#endif
    const iter__pack_rule rule = {2048, 4096, 5, false, 0, NULL};
    iter_rng rng = iter_rng_at(iter_rng_key(6, "test", 0), 0, 0);
    for (uint32_t i = 0; i < N; i++)
        lengths[i] = (int64_t)exp(6 + normal(&rng));
    for (int round = 0; round < 20; round++) {
        iter__pack_epochs epochs = {0};
        const iter__pack_plan *plan = NULL;
        iter_error err;
        cr_assert_eq(iter__pack_epochs_open(&epochs, &rule, N, units_of, NULL, &err), ITER_OK);
        for (int i = 0; i < 256; i++) { /* as many as begin the next plan */
            cr_assert_eq(iter__pack_epochs_lend(&epochs, 0, &plan, &err), ITER_OK);
            if (i > 0) iter__pack_epochs_back(&epochs, plan);
        }
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            iter__pack_epochs_adopt(&epochs);
            bool fine = true;
            for (uint64_t e = 3; e-- > 0;) {
                fine &= iter__pack_epochs_lend(&epochs, e, &plan, &err) == ITER_OK &&
                        plan->rule.epoch == e && plan->n_rows == epochs.n_rows;
                iter__pack_epochs_back(&epochs, plan);
            }
            iter__pack_epochs_close(&epochs);
            _exit(fine ? 0 : 1);
        }
        int status = -1;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
        iter__pack_epochs_back(&epochs, plan);
        iter__pack_epochs_close(&epochs);
    }
}

/* ---- Datasets -------------------------------------------------------------------------------- */

enum { DOCUMENTS = 40 };

/* Documents of i32 from the user's own code: document d has d * 7 % 23 tokens, d * 100 + k. */
static int64_t own_length(const void *user, uint64_t index) {
    (void)user;
    return (int64_t)(index * 7 % 23);
}

static iter_status own_describe(void *user, iter_description *out, iter_error *err) {
    (void)user;
    (void)err;
    out->n_samples = DOCUMENTS;
    out->n_fields = 1;
    strcpy(out->fields[0].name, "ids");
    out->fields[0].desc =
        (iter_desc){.dtype = ITER_I32, .n_dims = 1, .dims = {ITER_VARIABLE}, .capacity = 23};
    return ITER_OK;
}

static int64_t off; /* added to the lengths that get() gives */

static iter_status own_get(void *user, void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    const uint64_t base = user ? *(const uint64_t *)user : 0; /* of the documents' numbers */
    (void)state;
    (void)rng;
    (void)err;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t length = own_length(NULL, indices[i]);
        int32_t *row = (int32_t *)rows[0].data + i * rows[0].strides[0];
        for (int64_t k = 0; k < length; k++)
            row[k] = (int32_t)((base + indices[i]) * 100 + (uint64_t)k);
        iter_rows_set_length(rows, 0, i, length + off);
    }
    return ITER_OK;
}

static const iter_dataset_ops own = {.struct_size = sizeof(own),
                                     .name = "own",
                                     .describe = own_describe,
                                     .get = own_get,
                                     .length = own_length};

/* A set of packed rows of the caller's own documents; NULL = refused with a message that has
 * `text`. */
static iter_dataset *pack_own(const iter_dataset_ops *ops, const iter_pack_options *options,
                              const char *text) {
    iter_dataset *documents, *packed = NULL;
    iter_error err = {0};
    cr_assert_eq(iter_dataset_create(ops, NULL, &documents, &err), ITER_OK);
    const iter_status status = iter_pack_create(documents, options, &packed, &err);
    if (text) cr_expect(strstr(err.message, text), "'%s' lacks '%s'", err.message, text);
    cr_expect_eq(status == ITER_OK, !text, "%s", err.message);
    iter_dataset_unref(documents);
    return packed;
}

static const iter_tensor *field_of(const iter_sample *sample, const char *name) {
    for (int32_t i = 0; i < iter_sample_n_fields(sample); i++)
        if (strcmp(iter_sample_name(sample, i), name) == 0) return iter_sample_tensor(sample, i);
    return NULL;
}

/* Every token but the first of its document is a target once, beside the input that it follows. */
static void check_rows(iter_dataset *packed, uint32_t length) {
    static uint8_t inputs[DOCUMENTS][23], targets[DOCUMENTS][23];
    memset(inputs, 0, sizeof(inputs));
    memset(targets, 0, sizeof(targets));
    const iter_description *desc = iter_dataset_describe(packed);
    for (uint64_t r = 0; r < desc->n_samples; r++) {
        iter_sample *sample;
        iter_error err;
        cr_assert_eq(iter_dataset_read(packed, r, NULL, &sample, &err), ITER_OK, "%s", err.message);
        const int32_t *data = field_of(sample, "data")->data;
        const int32_t *label = field_of(sample, "label")->data;
        const int32_t *segments = field_of(sample, "segments")->data;
        const int32_t *positions = field_of(sample, "positions")->data;
        const uint8_t *mask = field_of(sample, "mask")->data;
        const iter_tensor *starts = field_of(sample, "cu_seqlens");
        const int32_t *cu = starts->data;
        uint32_t at = 0;
        for (int32_t s = 1; at < length && segments[at] == s; s++) {
            cr_assert_eq(cu[s - 1], (int32_t)at);
            const int32_t document = data[at] / 100;
            for (int32_t k = 0; at < length && segments[at] == s; k++, at++) {
                cr_assert_eq(positions[at], k);
                cr_assert_eq(mask[at], 1);
                cr_assert_eq(data[at] / 100, document);
                cr_assert_eq(label[at], data[at] + 1);
                cr_assert_eq(inputs[document][data[at] % 100]++, 0);
                cr_assert_eq(targets[document][label[at] % 100]++, 0);
            }
            cr_assert_eq(cu[s], (int32_t)at);
            cr_assert(at == length || segments[at] != 0 || starts->desc.dims[0] == s + 1);
        }
        for (; at < length; at++)
            cr_assert(data[at] == 7 && label[at] == -100 && segments[at] == 0 &&
                      positions[at] == 0 && mask[at] == 0);
        iter_sample_free(sample);
    }
    for (int32_t d = 0; d < DOCUMENTS; d++)
        for (int64_t k = 0; k < 23; k++) {
            const int64_t n = own_length(NULL, (uint64_t)d);
            cr_assert_eq(inputs[d][k], k + 1 < n);
            cr_assert_eq(targets[d][k], k >= 1 && k < n);
        }
}

Test(pack, rows_have_each_target_once) {
    static const int64_t row_lengths[] = {1, 4, 10, 22, 64, 1000};
    for (size_t i = 0; i < sizeof(row_lengths) / sizeof(row_lengths[0]); i++) {
        iter_pack_options options = ITER_PACK_OPTIONS_INIT;
        options.length = row_lengths[i];
        options.group = 16;
        options.pad = 7;
        options.mask = options.cu_seqlens = true;
        iter_dataset *packed = pack_own(&own, &options, NULL);
        check_rows(packed, (uint32_t)row_lengths[i]);
        iter_dataset_unref(packed);
    }
}

/* Targets of packed rows, of documents first..first + DOCUMENTS - 1: each must come once before any
 * comes again. */
typedef struct coverage {
    int32_t first;
    uint32_t n_rows, rows_seen;
    uint8_t seen[DOCUMENTS][23];
    uint64_t rows_hash, hashes[8]; /* what shared a row, by epoch */
    uint32_t epoch;
} coverage;

static void cover_row(coverage *c, const int32_t *data, const int32_t *label, uint32_t length) {
    uint64_t row = 1;
    for (uint32_t i = 0; i < length && label[i] != -100; i++) {
        const int32_t document = label[i] / 100 - c->first;
        cr_assert_eq(label[i], data[i] + 1);
        cr_assert_eq(c->seen[document][label[i] % 100]++, 0, "twice in epoch %u", c->epoch);
        row = row * 31 + (uint64_t)document;
    }
    c->rows_hash += row * row; /* in any order of the rows */
    if (++c->rows_seen < c->n_rows) return;
    for (uint64_t d = 0; d < DOCUMENTS; d++)
        for (int64_t k = 1; k < own_length(NULL, d); k++)
            cr_assert_eq(c->seen[d][k], 1, "not in epoch %u", c->epoch);
    c->hashes[c->epoch++ % 8] = c->rows_hash;
    c->rows_hash = 0;
    c->rows_seen = 0;
    memset(c->seen, 0, sizeof(c->seen));
}

/* Runs `epochs` epochs of a loader; rows go to the coverage of their documents. */
static void cover(iter_dataset *data, uint32_t length, uint32_t epochs, uint32_t workers,
                  int32_t shuffle, coverage *first, coverage *second) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_error err;
    opt.batch_size = 3;
    opt.shuffle = shuffle;
    opt.workers = (int32_t)workers;
    cr_assert_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    for (uint32_t e = 0; e < epochs; e++) {
        iter_batch *batch;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            const int32_t *ids = iter_batch_find(batch, "data")->data;
            const int32_t *labels = iter_batch_find(batch, "label")->data;
            for (uint32_t r = 0; r < iter_batch_describe(batch).n_valid; r++) {
                const bool is_second = second && ids[r * length] / 100 >= second->first;
                cover_row(is_second ? second : first, ids + r * length, labels + r * length,
                          length);
            }
            iter_batch_unref(batch);
        }
        cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
    }
    iter_loader_unref(loader);
}

static void expect_other_rows(const coverage *c, uint32_t epochs) {
    cr_expect_eq(c->epoch, epochs);
    for (uint32_t e = 1; e < epochs && e < 8; e++)
        cr_expect_neq(c->hashes[e], c->hashes[e - 1], "epochs %u and %u", e - 1, e);
}

Test(pack, each_epoch_deals_anew) {
    iter_pack_options options = ITER_PACK_OPTIONS_INIT;
    options.length = 64;
    options.group = 16;
    uint64_t hashes[8] = {0};
    for (uint32_t workers = 0; workers < 3; workers++) {
        iter_dataset *packed = pack_own(&own, &options, NULL);
        coverage c = {.n_rows = (uint32_t)iter_dataset_describe(packed)->n_samples};
        cover(packed, 64, 6, workers, ITER_SHUFFLE_FULL, &c, NULL);
        expect_other_rows(&c, 6);
        if (workers > 0) cr_expect_arr_eq(c.hashes, hashes, sizeof(hashes));
        memcpy(hashes, c.hashes, sizeof(hashes));
        iter_dataset_unref(packed);
    }
}

/* An order that stays as it is has the same rows in every epoch. */
Test(pack, rows_stay_as_the_order_does) {
    static const int32_t orders[] = {ITER_SHUFFLE_NONE, ITER_SHUFFLE_ONCE};
    iter_pack_options options = ITER_PACK_OPTIONS_INIT;
    options.length = 64;
    options.group = 16;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        iter_dataset *packed = pack_own(&own, &options, NULL);
        coverage c = {.n_rows = (uint32_t)iter_dataset_describe(packed)->n_samples};
        cover(packed, 64, 3, 1, orders[i], &c, NULL);
        cr_expect_eq(c.epoch, 3);
        cr_expect(c.hashes[0] == c.hashes[1] && c.hashes[1] == c.hashes[2]);
        iter_dataset_unref(packed);
    }
}

/* A source of a mix deals anew when all its rows have come, wherever that is in the mix's epoch. */
Test(pack, each_epoch_of_a_source_deals_anew) {
    static uint64_t base = 1000;
    iter_pack_options options = ITER_PACK_OPTIONS_INIT;
    options.length = 64;
    options.group = 16;
    iter_dataset *documents, *mixed;
    iter_error err = {0};
    iter_mix_source sources[2] = {{.weight = 0.7}, {.weight = 0.3}};
    sources[0].dataset = pack_own(&own, &options, NULL);
    cr_assert_eq(iter_dataset_create(&own, &base, &documents, &err), ITER_OK);
    cr_assert_eq(iter_pack_create(documents, &options, &sources[1].dataset, &err), ITER_OK);
    sources[0].name = "a";
    sources[1].name = "b";
    cr_assert_eq(iter_mix_create(sources, 2, &mixed, &err), ITER_OK, "%s", err.message);
    coverage a = {.n_rows = (uint32_t)iter_dataset_describe(sources[0].dataset)->n_samples};
    coverage b = {.n_rows = a.n_rows, .first = 1000};
    cover(mixed, 64, 10, 2, ITER_SHUFFLE_FULL, &a, &b);
    cr_expect_eq(a.epoch, 14); /* 10 epochs of 2 n draws, 0.7 of them */
    cr_expect_eq(b.epoch, 6);
    expect_other_rows(&b, 6);
    iter_dataset_unref(mixed);
    iter_dataset_unref(sources[0].dataset);
    iter_dataset_unref(sources[1].dataset);
    iter_dataset_unref(documents);
}

Test(pack, what_cannot_be_packed_is_refused) {
    iter_pack_options options = ITER_PACK_OPTIONS_INIT;
    iter_dataset_ops unknown = own;
    unknown.length = NULL;
    pack_own(&unknown, NULL, "does not know the lengths");
    options.length = 0;
    pack_own(&own, &options, "length 0");
    options = (iter_pack_options)ITER_PACK_OPTIONS_INIT;
    options.length = 10;
    options.too_long = 1;
    pack_own(&own, &options, "takes");
    iter_dataset *data;
    iter_error err = {0};
    static const char *const specs[][2] = {
        {"pack:set.idx", "expected pack:{DATASET}"},
        {"pack:{synthetic:mnist}", "no field of tokens"},
        {"pack:{nonsense:x}", "no format is called"},
        {"pack:{synthetic:imdb?variable=1&n=10}?length=0", "length"},
    };
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        cr_expect(iter_dataset_open(specs[i][0], NULL, &data, &err) < 0, "%s", specs[i][0]);
        cr_expect(strstr(err.message, specs[i][1]), "%s: %s", specs[i][0], err.message);
    }
}

Test(pack, a_document_of_another_length_than_planned_fails_its_row) {
    iter_pack_options options = ITER_PACK_OPTIONS_INIT;
    options.length = 64;
    iter_dataset *packed = pack_own(&own, &options, NULL);
    iter_sample *sample;
    iter_error err = {0};
    off = -1;
    cr_expect(iter_dataset_read(packed, 0, NULL, &sample, &err) < 0);
    cr_expect(strstr(err.message, "which rows are planned by"), "%s", err.message);
    off = 0;
    iter_dataset_unref(packed);
}

Test(pack, every_failed_allocation_is_an_error_and_no_leak) {
    for (long n = 0;; n++) {
        iter_error err = {0};
        iter_dataset *documents, *packed = NULL;
        iter_sample *sample = NULL;
        iter_pack_options options = ITER_PACK_OPTIONS_INIT;
        options.length = 10;
        cr_assert_eq(iter_dataset_create(&own, NULL, &documents, &err), ITER_OK);
        const long live = iter__alloc_live();
        iter__alloc_fail_after = n;
        iter_status status = iter_pack_create(documents, &options, &packed, &err);
        if (status == ITER_OK) status = iter_dataset_read(packed, 0, NULL, &sample, &err);
        const bool all_allocated = iter__alloc_fail_after >= 0;
        iter__alloc_fail_after = -1;
        iter_sample_free(sample);
        iter_dataset_unref(packed);
        cr_assert_eq(status, all_allocated ? ITER_OK : ITER_ENOMEM, "%ld: %s", n, err.message);
        cr_assert_eq(iter__alloc_live(), live, "%ld", n);
        iter_dataset_unref(documents);
        if (all_allocated) break;
    }
}
