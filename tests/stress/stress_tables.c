/*
 * stress_tables.c - rows of text files and of TFRecords are the same, bit for bit, for any number
 * of workers, any source, any number of ranks, and from any saved position; and a bad row is the
 * same failed sample in each run, while all others are delivered.
 */
#include <stdlib.h>
#include <string.h>

#include "iter/core/crc32c.h"
#include "loaders/files/byte_order.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

enum { ROWS = 320, BAD = 23 }; /* every BAD-th row is broken in the set that has broken ones */

static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
static const int32_t all_workers[] = DRIVE_WORKERS;

static char folder[MAKE_PATH_MAX];

static FILE *create(const char *name) {
    char path[MAKE_PATH_MAX];
    FILE *file = fopen(make_path(path, folder, name), "wb");
    if (!file) abort();
    return file;
}

static void put_sum(uint8_t *out, const uint8_t *bytes, size_t n) {
    const uint32_t crc = iter__crc32c_plain(bytes, n);
    iter__put_le32(out, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

/* A tf.Example: "x" has the floats {i, i / 2}, "y" the integer i % 10. */
static void put_example(FILE *file, int i) {
    static const uint8_t head[] = "\x0a\x20\x0a\x11\x0a\x01x\x12\x0c\x12\x0a\x0a\x08";
    static const uint8_t tail[] = "\x0a\x0b\x0a\x01y\x12\x06\x1a\x04\x0a\x02";
    const float x[2] = {(float)i, (float)i / 2};
    uint8_t record[12 + 34 + 4] = {34}, *p = record + 12;
    put_sum(record + 8, record, 8);
    memcpy(p, head, 13);
    memcpy(p + 13, x, 8);
    memcpy(p + 21, tail, 11);
    p[32] = (uint8_t)(0x80 | i % 10); /* a number of two bytes */
    p[33] = 0;
    put_sum(p + 34, p, 34);
    fwrite(record, sizeof(record), 1, file);
}

static void make_sets(void) {
    FILE *csv = create("set.csv"), *bad = create("bad.csv"), *svm = create("set.libsvm");
    FILE *json = create("set.jsonl"), *examples = create("set.tfrecord");
    fputs("a,b,c,y\n", csv);
    fputs("a,b,c,y\n", bad);
    for (int i = 0; i < ROWS; i++) {
        fprintf(csv, i % 5 ? "%d.25,-%d,%de-3,%d\n" : "\"%d.25\",\"-%d\",%de-3,%d\r\n\n", i, i * 7,
                i, i % 10);
        fprintf(bad, i % BAD ? "%d.25,-%d,%de-3,%d\n" : "%d.25,-%d,x%d,%d\n", i, i * 7, i, i % 10);
        fprintf(svm, "%d %d:%d.5 %d:7\n", i % 2, i % 40 + 1, i, i % 40 + 50);
        put_example(examples, i);
        fprintf(json, "{\"text\": \"%.*s\\u00e4\", \"label\": %d}\n", i % 30,
                "some text of thirty characters", i);
    }
    fclose(csv);
    fclose(bad);
    fclose(svm);
    fclose(json);
    fclose(examples);
}

static const struct set {
    const char *spec, *chain; /* the folder goes in the place of %s */
    uint32_t n_bad;
} sets[] = {
    {"csv:\"%s/set.csv\"?label=y", NULL, 0},
    {"csv:\"%s/bad.csv\"?label=y&dtype=f64", NULL, (ROWS + BAD - 1) / BAD},
    {"libsvm:\"%s/set.libsvm\"?features=100", NULL, 0},
    {"libsvm:\"%s/set.libsvm\"?layout=csr", "pad-batch | pad-batch:field=indices", 0},
    {"jsonl:\"%s/set.jsonl\"?label=label&maxlen=16", NULL, 0},
    {"text:\"%s/set.jsonl\"", "pad-batch:64", 0},
    {"tfrecord:\"%s/set.tfrecord\"?fields=data:x,label:y", NULL, 0},
    {"tfrecord:\"%s/set.tfrecord\"?fields=data:x:f32*,label:y:i64", "pad-batch", 0},
};

static iter_dataset *open_set(const struct set *set) {
    char spec[MAKE_PATH_MAX + 80];
    iter_error err;
    iter_dataset *data;
    const char *hole = strstr(set->spec, "%s");
    snprintf(spec, sizeof(spec), "%.*s%s%s", (int)(hole - set->spec), set->spec, folder, hole + 2);
    if (!EXPECT_OK(iter_dataset_open(spec, NULL, &data, &err), &err)) exit(1);
    EXPECT_EQ(iter_dataset_describe(data)->n_samples, ROWS);
    return data;
}

/* Each failure that the loader has kept names its line and column. */
static void check_failures(iter_loader *loader, size_t n_wanted) {
    static iter_failure all[1024];
    const size_t n = iter_loader_failures(loader, all, 1024);
    EXPECT_EQ(n, n_wanted);
    for (size_t i = 0; i < n; i++) {
        char place[80];
        snprintf(place, sizeof(place), "bad.csv, line %d): column 3 (c): ", (int)all[i].index + 2);
        EXPECT_EQ(all[i].index % BAD, 0);
        EXPECT(strstr(all[i].message, place));
    }
}

/* Two epochs: all rows come, and so many of them failed, each with its line. */
static uint64_t run(const struct set *set, iter_dataset *data, iter_chain *chain,
                    const iter_loader_options *opt) {
    uint64_t sum = 0;
    iter_loader *loader = drive_loader(data, chain, opt);
    for (int epoch = 0; epoch < 2; epoch++) {
        uint32_t n = 0, n_failed = 0;
        iter_error err;
        iter_batch *batch;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            const iter_batch_info info = iter_batch_describe(batch);
            n += info.n_rows;
            n_failed += info.n_failed;
            sum += drive_hash(batch);
            iter_batch_unref(batch);
        }
        EXPECT_EQ(n, ROWS);
        EXPECT_EQ(n_failed, set->n_bad);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    check_failures(loader, 2 * set->n_bad);
    iter_loader_unref(loader);
    return sum;
}

static void same_for_all(const struct set *set) {
    iter_chain *chain = set->chain ? drive_chain(set->chain) : NULL;
    uint64_t want = 0;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++)
        for (size_t w = 0; w < sizeof(all_workers) / sizeof(all_workers[0]); w++) {
            iter_dataset *data = open_set(set); /* its own: one that was loaded stays in memory */
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 20;
            opt.shuffle = ITER_SHUFFLE_FULL;
            opt.seed = 9;
            opt.reading.source = sources[s];
            opt.workers = all_workers[w];
            opt.memory.limit = 128 << 20;
            opt.faults.on_error = ITER_ON_ERROR_BLANK;
            const uint64_t sum = run(set, data, chain, &opt);
            if (!want) want = sum;
            EXPECT_EQ(sum, want);
            EXPECT_EQ(drive_run_resuming(data, chain, &opt), want);
            EXPECT_EQ(drive_run_ranks(data, chain, opt, 2), want);
            iter_dataset_unref(data);
        }
    iter_chain_unref(chain);
}

int main(void) {
    make_folder(folder);
    make_sets();
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        same_for_all(&sets[i]);
    make_folder_gone(folder);
    return EXPECT_DONE();
}
