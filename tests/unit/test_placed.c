/*
 * test_placed.c - rows that are read straight into their place: they must be what the file has,
 * with any gaps between them. Also past the page cache, where records are read in whole blocks
 * around them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "tests/support/make_data.h"

TestSuite(placed, .timeout = 60);

#define N      40
#define SIDE   100
#define ROW    (SIDE * SIDE * 3) /* more than is read through the caches */
#define RECORD (ROW + 64)

static const uint8_t magic[4] = {0x0a, 0x23, 0xd7, 0xce};

/* The file's content, known apart from the runtime: rows, labels, and how long each row is. */
static struct {
    uint8_t rows[N][ROW];
    float labels[N];
    size_t lengths[N];
    uint8_t file[N * RECORD];
    size_t bytes, at[N]; /* of the file; of its records */
} set;

typedef struct shape {
    bool varies; /* rows of different lengths */
    int cut; /* number of a record whose row contains the magic, so that it is in two pieces; -1 */
    int two_labels; /* number of a record that stores its one label as a list; -1 */
} shape;

static void put(const void *bytes, size_t n) {
    cr_assert_leq(set.bytes + n, sizeof(set.file));
    memcpy(set.file + set.bytes, bytes, n);
    set.bytes += n;
}

static void put_piece(uint32_t flag, const void *bytes, size_t n) {
    const uint32_t word = flag << 29 | (uint32_t)n;
    put(magic, 4);
    put(&word, 4);
    put(bytes, n);
    put("\0\0\0", (4 - n % 4) % 4);
}

static void make_set(const shape *s) {
    static uint8_t payload[RECORD];
    set.bytes = 0;
    for (int i = 0; i < N; i++) {
        const size_t n = set.lengths[i] = s->varies ? ROW - 7 * (size_t)i : ROW;
        const uint32_t flag = i == s->two_labels;
        size_t at = 24;
        set.labels[i] = (float)(i * 3);
        for (size_t k = 0; k < n; k++)
            set.rows[i][k] = (uint8_t)((k * 31 + (size_t)i * 7) % 127);
        if (i == s->cut) memcpy(set.rows[i] + 4000, magic, 4);
        memset(payload, 0, at);
        memcpy(payload, &flag, 4);
        memcpy(payload + (flag ? at : 4), &set.labels[i], 4);
        if (flag) at += 4;
        memcpy(payload + at, set.rows[i], n);
        set.at[i] = set.bytes;
        if (i == s->cut) {
            put_piece(1, payload, at + 4000);
            put_piece(3, payload + at + 4004, n - 4004);
        } else {
            put_piece(0, payload, at + n);
        }
    }
}

typedef struct run {
    const char *options;
    iter_shuffle shuffle;
    int workers;
    int bad; /* number of a sample that must fail, or -1 */
    uint32_t batch;
    bool direct; /* past the page cache */
} run;

static iter_status no_collate(void *user, iter_batch_view *views, int32_t n, iter_error *err) {
    (void)user, (void)views, (void)n, (void)err;
    return ITER_OK;
}

static void check_batch(const iter_batch *batch, const run *r, bool seen[N]) {
    const uint64_t *index = iter_batch_index(batch);
    const size_t stride = iter_desc_bytes(&iter_batch_tensor(batch, 0)->desc) /
                          (size_t)iter_batch_tensor(batch, 0)->desc.dims[0];
    for (uint32_t row = 0; row < iter_batch_describe(batch).n_rows; row++) {
        const uint64_t i = index[row];
        if ((int)i == r->bad) continue;
        cr_assert_arr_eq((const uint8_t *)iter_batch_tensor(batch, 0)->data + row * stride,
                         set.rows[i], set.lengths[i], "sample %d", (int)i);
        cr_assert_eq(((const float *)iter_batch_tensor(batch, 1)->data)[row], set.labels[i]);
        cr_assert_not(seen[i]);
        seen[i] = true;
    }
}

/* Every row of an epoch is the file's, and the bad sample fails. */
static void expect_set(const char *folder, const run *r) {
    char path[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 64];
    iter_error err = {0};
    iter_dataset *dataset;
    iter_loader *loader;
    iter_batch *batch;
    bool seen[N] = {false};
    iter_status s;
    snprintf(spec, sizeof(spec), "recordio:%s?%s", make_path(path, folder, "x.rec"), r->options);
    cr_assert_eq(iter_dataset_open(spec, NULL, &dataset, &err), ITER_OK, "%s", err.message);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = r->batch;
    opt.workers = r->workers;
    opt.shuffle = r->shuffle;
    opt.reading.source = ITER_SOURCE_RING;
    opt.reading.o_direct = r->direct;
    opt.faults.on_error = ITER_ON_ERROR_BLANK;
    if (strstr(r->options, "decode=none")) opt.collate = no_collate;
    cr_assert_eq(iter_dataloader_create(dataset, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    iter_dataset_unref(dataset);
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        check_batch(batch, r, seen);
        iter_batch_unref(batch);
    }
    cr_assert_eq(s, ITER_END, "%s", err.message);
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    cr_assert_eq(iter_loader_stats_read(loader, &stats, &err), ITER_OK);
    cr_assert_eq(stats.n_failures, r->bad >= 0);
    for (int i = 0; i < N; i++)
        cr_assert_eq(seen[i], i != r->bad, "sample %d", i);
    iter_loader_unref(loader);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_all(const char *folder, const char *options, int bad) {
    static const iter_shuffle orders[] = {ITER_SHUFFLE_NONE, ITER_SHUFFLE_FULL};
    for (int o = 0; o < 4; o++)
        for (int workers = 0; workers < 3; workers++)
            expect_set(folder,
                       &(run){options, orders[o % 2], workers, bad, workers == 1 ? 7 : 16, o >= 2});
}

Test(placed, rows_are_the_files) {
    static const shape shapes[] = {{false, -1, -1}, {false, 17, -1}, {false, 0, -1},
                                   {false, -1, 21}, {false, -1, 0},  {false, 39, 38}};
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        make_set(&shapes[i]);
        make_file(folder, "x.rec", set.file, set.bytes);
        expect_all(folder, "raw=100x100x3&label-width=1", -1);
    }
    make_folder_gone(folder);
}

Test(placed, rows_of_any_length) {
    static const shape shapes[] = {{true, -1, -1}, {true, 11, -1}, {true, 0, 5}};
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        make_set(&shapes[i]);
        make_file(folder, "x.rec", set.file, set.bytes);
        expect_all(folder, "decode=none&label-width=1", -1);
    }
    make_folder_gone(folder);
}

/* With an index, which is not compared with the file at opening. */
Test(placed, damage_fails_the_sample_alone) {
    char folder[MAKE_PATH_MAX], index[N * 32];
    make_folder(folder);
    make_set(&(shape){false, -1, -1});
    int n = 0;
    for (int i = 0; i < N; i++)
        n += snprintf(index + n, sizeof(index) - (size_t)n, "%d\t%zu\n", i, set.at[i]);
    make_file(folder, "x.idx", index, (size_t)n);
    for (int bad = 3; bad < N - 1; bad += 18) { /* opening checks the last record */
        for (int what = 0; what < 3; what++) {
            uint8_t *at = set.file + set.at[bad] + (what == 0 ? 1 : what == 1 ? 7 : 8);
            const uint8_t before = *at;
            *at = what == 2 ? 9 : 0xff; /* no magic, an unknown flag, nine labels */
            make_file(folder, "x.rec", set.file, set.bytes);
            expect_all(folder, "raw=100x100x3", bad);
            *at = before;
        }
    }
    make_folder_gone(folder);
}
