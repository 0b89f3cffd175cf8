/* test_format_imdb.c - the review folders: order, labels, ids, word lists, every broken set, and
 * the real one if ITER_DATA has it. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/hash.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/make_data.h"

TestSuite(format_imdb, .timeout = 280);

#define REVIEW_MAX 16384

static const char index_json[] =
    "{\"good\": 1, \"bad\": 2, \"film\": 3, \"a\": 4, \"rare\": 40000}";

static void make_text(const char *folder, const char *name, const char *text) {
    make_file(folder, name, text, strlen(text));
}

/* Makes folder/aclImdb with 2 + 3 training and 1 + 1 test reviews, and the index beside it; `set`
 * is the name of the set's folder. */
static void make_reviews(char folder[MAKE_PATH_MAX], char set[MAKE_PATH_MAX]) {
    make_folder(folder);
    make_text(folder, "imdb_word_index.json", index_json);
    make_path(set, folder, "aclImdb");
    make_subfolder(folder, "aclImdb");
    make_subfolder(set, "train");
    make_subfolder(set, "test");
    make_subfolder(set, "train/neg");
    make_subfolder(set, "train/pos");
    make_subfolder(set, "test/neg");
    make_subfolder(set, "test/pos");
    make_text(set, "train/neg/9_1.txt", "A BAD film.");
    make_text(set, "train/neg/10_1.txt", "bad");
    make_text(set, "train/neg/.hidden.txt", "not a review");
    make_text(set, "train/neg/notes", "not a review");
    make_text(set, "train/pos/1_10.txt", "a good rare film<br />good!");
    make_text(set, "train/pos/0_9.txt", "good");
    make_text(set, "train/pos/2_9.txt", "");
    make_text(set, "test/neg/0_2.txt", "\xc3\x89");
    make_text(set, "test/pos/0_8.txt", "good good");
}

static iter_status open_imdb(const char *set, const char *options, opened *out, iter_error *err) {
    return format_open(&iter__format_imdb, set, options, out, err);
}

static void must_open(const char *set, const char *options, opened *out) {
    iter_error err;
    cr_assert_eq(open_imdb(set, options, out, &err), ITER_OK, "%s", err.message);
}

/* Decodes the row of sample `index` to out[capacity]; returns the number of its ids, or -1 with the
 * error's status. */
static int64_t decode(const opened *f, uint64_t index, int32_t *out, iter_error *err) {
    static uint8_t bytes[REVIEW_MAX];
    const iter_decoder_ops *ops = f->desc.fields[0].decoder;
    iter_tensor row = iter_tensor_dense(&f->desc.fields[0].desc, out);
    void *state = iter__alloc(1, ops->base.state_size);
    const size_t n = format_read(f, index, 0, bytes, sizeof(bytes));
    iter_status status = ops->start(state, f->desc.shared, err);
    if (status == ITER_OK) {
        status = ops->decode(state, f->desc.shared, bytes, n, &row, err);
        ops->stop(state);
    }
    iter__free(state);
    return status < 0 ? -1 : row.desc.dims[0];
}

static void expect_ids(const opened *f, uint64_t index, int64_t n, const int32_t *want) {
    int32_t ids[256];
    iter_error err;
    cr_assert_eq(decode(f, index, ids, &err), n, "sample %" PRIu64, index);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(ids[i], want[i], "sample %" PRIu64 ", id %" PRId64, index, i);
}

static void expect_labels(const opened *f, const char *labels) {
    cr_assert_eq(f->desc.n_samples, strlen(labels));
    for (uint64_t i = 0; i < f->desc.n_samples; i++) {
        uint8_t label = 9;
        f->ops->index_row(f->state, i, 1, &label);
        cr_assert_eq(label, labels[i] - '0', "sample %" PRIu64, i);
    }
}

/* Opening must fail with `want`, and the message must have both texts. */
static void expect_fails(const char *set, const char *options, iter_status want, const char *file,
                         const char *reason) {
    opened f;
    iter_error err = {0};
    const iter_status got = open_imdb(set, options, &f, &err);
    cr_assert_eq(got, want, "%s: got %d \"%s\"", reason, got, err.message);
    cr_assert_eq(err.status, want);
    cr_assert(strstr(err.message, file), "no \"%s\" in \"%s\"", file, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_imdb, order_labels_and_ids) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    make_reviews(folder, set);
    must_open(set, "maxlen=5", &f);
    cr_assert_null(format_fault(&f, 100));
    cr_assert_str_eq(f.desc.split, "train");
    expect_labels(&f, "00111");
    /* names as bytes: 10_1 before 9_1 */
    expect_ids(&f, 0, 5, (const int32_t[]){1, 5, 0, 0, 0});
    expect_ids(&f, 1, 5, (const int32_t[]){1, 7, 5, 6, 0});
    expect_ids(&f, 2, 5, (const int32_t[]){1, 4, 0, 0, 0});
    expect_ids(&f, 3, 5, (const int32_t[]){4, 2, 6, 2, 4});
    expect_ids(&f, 4, 5, (const int32_t[]){1, 0, 0, 0, 0});
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

Test(format_imdb, splits) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    make_reviews(folder, set);
    must_open(set, "split=test&maxlen=3", &f);
    cr_assert_str_eq(f.desc.split, "test");
    expect_labels(&f, "01");
    expect_ids(&f, 0, 3, (const int32_t[]){1, 2, 0});
    format_close(&f);
    must_open(set, "split=all&maxlen=3", &f);
    cr_assert_null(format_fault(&f, 100));
    expect_labels(&f, "0011101");
    expect_ids(&f, 6, 3, (const int32_t[]){1, 4, 4});
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, fields_are_as_documented) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX], text[64];
    opened f;
    make_reviews(folder, set);
    must_open(set, NULL, &f);
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)), "i32 [150] \"T\"");
    cr_assert_eq(f.desc.fields[1].desc.dtype, ITER_U8);
    cr_assert_eq(f.desc.fields[1].desc.n_dims, 0);
    cr_assert_eq(f.desc.fields[1].extent, ITER_FROM_INDEX);
    cr_assert_eq(f.desc.fields[1].limit, 2);
    cr_assert_eq(f.desc.n_classes, 2);
    cr_assert_str_eq(f.desc.class_names[0], "neg");
    cr_assert_str_eq(f.desc.class_names[1], "pos");
    cr_assert_eq(f.desc.max_extent_bytes[0], 27);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, variable_lengths) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    make_reviews(folder, set);
    must_open(set, "maxlen=0&num-words=0", &f);
    cr_assert_null(format_fault(&f, 100));
    cr_assert_eq(f.desc.fields[0].desc.dims[0], ITER_VARIABLE);
    cr_assert_eq(f.desc.fields[0].desc.capacity, 15); /* 27 bytes: 14 words and the start */
    expect_ids(&f, 3, 7, (const int32_t[]){1, 7, 4, 40003, 6, 2, 4});
    expect_ids(&f, 4, 1, (const int32_t[]){1});
    cr_assert_eq(f.ops->length(f.state, 1), 11, "bytes of \"A BAD film.\"");
    cr_assert_eq(f.ops->length(f.state, 4), 0);
    format_close(&f);
    must_open(set, "maxlen=9", &f);
    cr_assert_eq(f.ops->length(f.state, 1), 9);
    format_close(&f);
    must_open(set, "maxlen=0&start=-1", &f);
    expect_ids(&f, 4, 0, NULL);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, every_number_is_an_option) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    make_reviews(folder, set);
    must_open(set, "num-words=8&index-from=5&start=3&oov=4&maxlen=4&pad=9&side=first&pad-side=pre",
              &f);
    expect_ids(&f, 1, 4, (const int32_t[]){3, 4, 7, 4}); /* a = 9 and film = 8 are beyond */
    expect_ids(&f, 2, 4, (const int32_t[]){9, 9, 3, 6});
    expect_ids(&f, 3, 4, (const int32_t[]){3, 4, 6, 4});
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, older_spellings_of_options) {
    static const char *const spellings[][2] = {{"num-words=9", "num_words=9"},
                                               {"index-from=4", "index_from=4"},
                                               {"pad-side=pre", "pad_side=pre"}};
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    make_reviews(folder, set);
    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        uint64_t identities[2];
        int32_t ids[2][150];
        for (int k = 0; k < 2; k++) {
            opened f;
            must_open(set, spellings[i][k], &f);
            identities[k] = f.desc.identity;
            cr_assert_eq(decode(&f, 3, ids[k], NULL), 150);
            format_close(&f);
        }
        cr_assert_eq(identities[0], identities[1], "%s", spellings[i][0]);
        cr_assert_arr_eq(ids[0], ids[1], sizeof(ids[0]), "%s", spellings[i][0]);
    }
    make_folder_gone(folder);
}

Test(format_imdb, word_lists) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX], path[MAKE_PATH_MAX], options[600];
    opened f;
    make_reviews(folder, set);
    make_text(set, "imdb.vocab", "bad\ngood\n");
    make_text(folder, "other.json", "{\"bad\": 7}");
    must_open(set, "vocab=imdb.vocab&maxlen=3", &f);
    expect_ids(&f, 0, 3, (const int32_t[]){1, 4, 0});
    format_close(&f);
    snprintf(options, sizeof(options), "index=%s&maxlen=3", make_path(path, folder, "other.json"));
    must_open(set, options, &f);
    expect_ids(&f, 0, 3, (const int32_t[]){1, 10, 0});
    format_close(&f);
    make_text(set, "imdb_word_index.json", "{\"bad\": 8}");
    must_open(set, "maxlen=3", &f); /* the one beside the folder comes first */
    expect_ids(&f, 0, 3, (const int32_t[]){1, 5, 0});
    format_close(&f);
    cr_assert_eq(unlink(make_path(path, folder, "imdb_word_index.json")), 0);
    must_open(set, "maxlen=3", &f);
    expect_ids(&f, 0, 3, (const int32_t[]){1, 11, 0});
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, identity_is_of_all_that_decides_the_ids) {
    static const char *const options[] = {
        NULL,         "split=test",   "split=all", "maxlen=20", "num-words=9", "start=5",
        "side=first", "pad-side=pre", "pad=3",     "oov=3",     "index-from=4"};
    uint64_t seen[16];
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    make_reviews(folder, set);
    size_t n = 0;
    for (; n < sizeof(options) / sizeof(options[0]); n++) {
        must_open(set, options[n], &f);
        seen[n] = f.desc.identity;
        format_close(&f);
    }
    make_text(folder, "imdb_word_index.json",
              "{\"good\": 2, \"bad\": 1, \"film\": 3, \"a\": 4, \"rare\": 40000}");
    must_open(set, NULL, &f);
    seen[n++] = f.desc.identity;
    format_close(&f);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            cr_assert_neq(seen[i], seen[k], "%zu and %zu", i, k);
    /* a copy elsewhere has the same identity */
    char folder2[MAKE_PATH_MAX], set2[MAKE_PATH_MAX];
    make_reviews(folder2, set2);
    must_open(set2, NULL, &f);
    cr_assert_eq(f.desc.identity, seen[0]);
    format_close(&f);
    make_folder_gone(folder);
    make_folder_gone(folder2);
}

Test(format_imdb, broken_sets) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_reviews(folder, set);
    expect_fails(make_path(path, folder, "nothing"), NULL, ITER_EIO, "nothing/train/neg",
                 "No such file");
    make_text(folder, "file", "x");
    expect_fails(make_path(path, folder, "file"), NULL, ITER_EIO, "file/train/neg",
                 "Not a directory");
    make_text(folder, "imdb_word_index.json", "{\"good\": 1");
    expect_fails(set, NULL, ITER_EFORMAT, "imdb_word_index.json", "byte 10");
    make_text(folder, "imdb_word_index.json", "");
    expect_fails(set, NULL, ITER_EFORMAT, "imdb_word_index.json", "byte 0");
    expect_fails(set, "index=missing.json", ITER_EIO, "missing.json", "No such file");
    expect_fails(set, "vocab=missing", ITER_EIO, "missing", "No such file");
    expect_fails(set, "vocab=train", ITER_EIO, "train", "is a directory");
    expect_fails(set, "vocab=a&index=b", ITER_EINVAL, "index and vocab", "both given");
    cr_assert_eq(unlink(make_path(path, folder, "imdb_word_index.json")), 0);
    expect_fails(set, NULL, ITER_EIO, "aclImdb", "no imdb_word_index.json in it or beside it");
    make_subfolder(set, "train/pos/5_5.txt");
    expect_fails(set, NULL, ITER_EIO, "train/pos/5_5.txt", "is a directory");
    cr_assert_eq(mkfifo(make_path(path, set, "test/neg/7_1.txt"), 0600), 0);
    expect_fails(set, "split=test", ITER_EIO, "test/neg/7_1.txt", "not a regular file");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(unlink(make_path(path, set, "test/neg/0_2.txt")), 0);
    expect_fails(set, "split=test", ITER_EFORMAT, "test/neg", "has no review");
    make_folder_gone(folder);
}

Test(format_imdb, a_review_that_is_not_utf8) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    opened f;
    int32_t ids[150];
    iter_error err = {0};
    make_reviews(folder, set);
    make_text(set, "train/neg/10_1.txt", "good\xe9 film");
    must_open(set, NULL, &f);
    cr_assert_eq(decode(&f, 0, ids, &err), -1);
    cr_assert_eq(err.status, ITER_EFORMAT);
    cr_assert_str_eq(err.message, "invalid UTF-8 at byte 4 (0xe9)");
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_imdb, every_allocation_may_fail) {
    char folder[MAKE_PATH_MAX], set[MAKE_PATH_MAX];
    make_reviews(folder, set);
    long n = 0;
    for (bool failed = true; failed; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = open_imdb(set, NULL, &f, &err);
        failed = iter__alloc_fail_after < 0;
        iter__alloc_fail_after = -1;
        cr_assert_eq(status, failed ? ITER_ENOMEM : ITER_OK, "allocation %ld: %d", n, status);
        if (status == ITER_OK) format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "allocation %ld", n);
    }
    cr_assert_gt(n, 6); /* the list, the names, the words and the files of both */
    make_folder_gone(folder);
}

/* Sums and FNV-1a-64 of the 25,000 x 150 ids, computed by Python (tests/python/check_text.py has
 * the md5 of the first). */
Test(format_imdb, the_real_set) {
    static const struct {
        const char *options;
        int64_t sum, n;
        uint64_t fnv; /* 0 = not compared */
        int64_t longest;
    } cases[] = {{"split=train", 4473629556, 3750000, 0xe39e63f3d709334cu, 150},
                 {"split=test", 4216558623, 3750000, 0xaf6171a4014c911cu, 150},
                 {"split=train&maxlen=0", 8516319414, 5967872, 0, 2494}};
    const char *data = getenv("ITER_DATA");
    char set[MAKE_PATH_MAX];
    if (data) make_path(set, data, "aclImdb");
    if (!data || access(set, R_OK) != 0) cr_skip("ITER_DATA has no aclImdb");
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        static int32_t ids[REVIEW_MAX];
        opened f;
        iter_error err;
        int64_t sum = 0, n_ids = 0, longest = 0;
        uint64_t fnv = ITER_FNV_START, n_pos = 0;
        must_open(set, cases[c].options, &f);
        cr_assert_eq(f.desc.n_samples, 25000);
        for (uint64_t i = 0; i < 25000; i++) {
            uint8_t label;
            const int64_t n = decode(&f, i, ids, &err);
            cr_assert_geq(n, 0, "%s", err.message);
            for (int64_t k = 0; k < n; k++)
                sum += ids[k];
            fnv = iter__fnv1a(fnv, ids, (size_t)n * sizeof(int32_t));
            n_ids += n;
            longest = n > longest ? n : longest;
            f.ops->index_row(f.state, i, 1, &label);
            cr_assert_eq(label, i >= 12500);
            n_pos += label;
        }
        cr_assert_eq(sum, cases[c].sum);
        cr_assert_eq(n_ids, cases[c].n);
        cr_assert_eq(longest, cases[c].longest);
        if (cases[c].fnv) cr_assert_eq(fnv, cases[c].fnv);
        cr_assert_eq(n_pos, 12500);
        format_close(&f);
    }
}
