/* test_format_tokens.c - windows over streams of tokens against a loop, Megatron's index, and every
 * broken file. Which files are read how is compared with numpy and with Megatron's own writer in
 * tests/python/check_tokens.py. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/builtin_tables.h"
#define FORMAT iter__format_tokens
#include "loaders/formats/token_rows.h"
#include "tests/support/format_expect.h"

TestSuite(format_tokens, .timeout = 60);

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Compares the rows of a stream with those that a loop gives. */
static void expect_rows(uint64_t length, uint64_t stride, int last, uint64_t n) {
    const iter__token_cut cut = {length, stride, (iter__token_last)last};
    uint64_t k = 0, start = 0, used = 0;
    for (; start + length + 1 <= n; start += stride, k++) {
        const iter__token_place row = iter__token_cut_row(&cut, n, k);
        cr_assert(row.first == start && row.n == length + 1);
        used = start + length + 1;
    }
    if (last == ITER_TOKEN_LAST_OVERLAP && k > 0 && used < n) {
        const iter__token_place row = iter__token_cut_row(&cut, n, k++);
        cr_assert(row.first == n - length - 1 && row.n == length + 1);
    }
    if (last == ITER_TOKEN_LAST_SHORT && used < n && start + 2 <= n) {
        const iter__token_place row = iter__token_cut_row(&cut, n, k++);
        cr_assert(row.first == start && row.n == n - start);
    }
    bool has[64] = {false}; /* tokens that some row has */
    uint64_t n_used = 0;
    for (uint64_t i = 0; i < k; i++) {
        const iter__token_place row = iter__token_cut_row(&cut, n, i);
        memset(has + row.first, true, row.n);
    }
    for (uint64_t i = 0; i < n; i++)
        n_used += has[i];
    cr_assert_eq(iter__token_cut_used(&cut, n), n_used, "length %d stride %d last %d n %d",
                 (int)length, (int)stride, last, (int)n);
    cr_assert_eq(iter__token_cut_rows(&cut, n), k, "length %d stride %d last %d n %d", (int)length,
                 (int)stride, last, (int)n);
}

Test(format_tokens, every_cut_of_short_streams) {
    for (int last = 0; last < 3; last++)
        for (uint64_t length = 1; length < 8; length++)
            for (uint64_t stride = 1; stride < 12; stride++)
                for (uint64_t n = 0; n < 40; n++)
                    expect_rows(length, stride, last, n);
}

/* Files of many documents, most of them empty or too short for a row, and files without any. */
Test(format_tokens, rows_of_many_documents) {
    enum { FILES = 5, MOST = 100 };
    for (int last = 0; last < 3; last++) {
        for (uint64_t stride = 1; stride < 7; stride++) {
            const iter__token_cut cut = {3, stride, (iter__token_last)last};
            const uint64_t n_documents[FILES] = {0, 1, MOST, 16, 33};
            iter__token_rows rows;
            uint32_t lengths[FILES][MOST];
            cr_assert_eq(iter__token_rows_open(&rows, cut, true, FILES, NULL), 0);
            for (uint64_t f = 0; f < FILES; f++) {
                uint64_t sum = 0;
                cr_assert_eq(iter__token_rows_reserve(&rows, n_documents[f], NULL), 0);
                for (uint64_t d = 0; d < n_documents[f]; d++) {
                    lengths[f][d] = (uint32_t)((d * d + f) % 11 < 6 ? d % 2 : d % 23);
                    iter__token_rows_document(&rows, lengths[f][d]);
                    sum += lengths[f][d];
                }
                cr_assert_eq(iter__token_rows_end_file(&rows, sum, NULL), 0);
            }
            uint64_t index = 0, n_used = 0, n_empty = 0;
            for (uint64_t f = 0; f < FILES; f++)
                for (uint64_t d = 0; d < n_documents[f]; d++) {
                    n_used += iter__token_cut_used(&cut, lengths[f][d]);
                    n_empty += iter__token_cut_rows(&cut, lengths[f][d]) == 0;
                }
            cr_assert_eq(rows.n_used, n_used, "stride %lu last %d", stride, last);
            cr_assert_eq(rows.n_empty, n_empty);
            for (uint64_t f = 0; f < FILES; f++) {
                uint64_t begin = 0;
                for (uint64_t d = 0; d < n_documents[f]; begin += lengths[f][d++])
                    for (uint64_t k = 0; k < iter__token_cut_rows(&cut, lengths[f][d]);
                         k++, index++) {
                        const iter__token_place want = iter__token_cut_row(&cut, lengths[f][d], k);
                        const iter__token_place got = iter__token_rows_find(&rows, index);
                        cr_assert(got.file == f && got.first == begin + want.first &&
                                  got.n == want.n);
                    }
            }
            cr_assert_eq(iter__token_rows_count(&rows), index);
            iter__token_rows_free(&rows);
        }
    }
    cr_assert_eq(iter__alloc_live(), 0);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char folder[MAKE_PATH_MAX];

static void begin(void) {
    make_folder(folder);
}

static void end(void) {
    make_folder_gone(folder);
}

TestSuite(format_tokens_files, .timeout = 60, .init = begin, .fini = end);

static size_t put(uint8_t *to, uint64_t value, int n) {
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> 8 * i);
    return (size_t)n;
}

/* Writes set.idx, of sequences with these tokens of two bytes and these borders, and a set.bin of
 * so many bytes. */
static void make_index(const int32_t *tokens, uint64_t n, const int64_t *borders,
                       uint64_t n_borders, size_t bin_bytes) {
    static uint8_t idx[4096], bin[4096];
    uint64_t place = 0;
    size_t at = 9;
    memcpy(idx, "MMIDIDX\0\0", 9);
    at += put(idx + at, 1, 8);
    at += put(idx + at, 8, 1);
    at += put(idx + at, n, 8);
    at += put(idx + at, n_borders, 8);
    for (uint64_t i = 0; i < n; i++)
        at += put(idx + at, (uint32_t)tokens[i], 4);
    for (uint64_t i = 0; i < n; place += 2 * (uint64_t)tokens[i++])
        at += put(idx + at, place, 8);
    for (uint64_t i = 0; i < n_borders; i++)
        at += put(idx + at, (uint64_t)borders[i], 8);
    make_file(folder, "set.idx", idx, at);
    make_file(folder, "set.bin", bin, bin_bytes);
}

static const char *path_of(const char *name) {
    static char path[MAKE_PATH_MAX];
    return make_path(path, folder, name);
}

/* Both fields are one extent, one element apart, and no decoder copies them. */
Test(format_tokens_files, targets_are_the_same_memory) {
    static const uint8_t bytes[200];
    opened f;
    iter_extent x;
    make_file(folder, "raw.bin", bytes, sizeof(bytes));
    expect_open(path_of("raw.bin"), "length=10&dtype=u32", &f);
    cr_assert_eq(f.desc.n_fields, 2);
    cr_assert_eq(f.desc.n_extents, 1);
    cr_assert_eq(f.desc.max_extent_bytes[0], 44);
    cr_assert(f.desc.fields[0].extent == 0 && f.desc.fields[1].extent == 0);
    cr_assert(f.desc.fields[0].offset == 0 && f.desc.fields[1].offset == 4);
    cr_assert(!f.desc.fields[0].decoder && !f.desc.fields[1].decoder);
    /* of 50 tokens: rows at 0, 10, 20, 30; one at 40 would lack its last target */
    cr_assert_eq(f.desc.n_samples, 4);
    f.ops->locate(f.state, 3, &x);
    cr_assert(x.object == 0 && x.offset == 120 && x.size == 44);
    format_close(&f);
}

Test(format_tokens_files, an_index_that_is_wrong) {
    static const int32_t tokens[] = {3, 0, 4}, negative[] = {3, -1, 4};
    static const int64_t good[] = {0, 1, 3}, early[] = {0, 1}, back[] = {0, 2, 1, 3},
                         late[] = {0, 1, 4}, second[] = {1, 3};
    opened f;
    make_index(tokens, 3, good, 3, 14);
    expect_open(path_of("set.idx"), "length=2&documents=keep", &f);
    cr_assert_eq(f.desc.n_samples, 2);
    format_close(&f);
    make_index(tokens, 3, good, 3, 12);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.bin",
                 "has 12 bytes, but set.idx says 7 tokens of 2 bytes");
    make_index(tokens, 3, good, 3, 16);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.bin", "has 16 bytes");
    make_index(negative, 3, good, 3, 12);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.idx",
                 "at 38: sequence 1 has -1 tokens");
    make_index(tokens, 3, early, 2, 14);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.idx",
                 "at 78: a document ends at sequence 1, there are 3");
    make_index(tokens, 3, back, 4, 14);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.idx",
                 "at 86: a document begins at sequence 1, the one before it at 2");
    make_index(tokens, 3, late, 3, 14);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.idx",
                 "a document ends at sequence 4, there are 3");
    make_index(tokens, 3, second, 2, 14);
    expect_fails(path_of("set.idx"), "length=2", ITER_EFORMAT, "set.idx",
                 "at 70: the first document begins at sequence 1, expected 0");
    make_index(tokens, 3, good, 3, 14);
    expect_fails(path_of("set.idx"), "length=2&dtype=i32", ITER_EINVAL, "set.bin",
                 "its head says u16, dtype is i32");
    expect_fails(path_of("set.idx"), "length=9&documents=keep", ITER_EFORMAT, "set.idx",
                 "holds no row of 9 tokens and their targets: the longest document has 4 tokens");
}

/* Every byte of an index changed, and every length of it: no row is out of bounds, and errors name
 * the file. */
Test(format_tokens_files, an_index_that_is_cut_or_damaged) {
    static const int32_t tokens[] = {3, 0, 4, 6};
    static const int64_t borders[] = {0, 1, 1, 4};
    uint8_t idx[256];
    int n_open = 0;
    make_index(tokens, 4, borders, 4, 26);
    FILE *file = fopen(path_of("set.idx"), "rb");
    const size_t n = fread(idx, 1, sizeof(idx), file);
    fclose(file);
    cr_assert_eq(n, 34 + 12 * 4 + 8 * 4);
    for (size_t i = 0; i < 2 * n; i++) {
        opened f;
        iter_error err = {0};
        const uint8_t old = idx[i % n];
        if (i < n) idx[i] ^= 1;
        make_file(folder, "set.idx", idx, i < n ? n : i - n);
        idx[i % n] = old;
        const iter_status s = format_open(&FORMAT, path_of("set.idx"),
                                          "length=2&documents=keep&last=short", &f, &err);
        if (s == ITER_OK) {
            n_open++;
            cr_assert_null(format_fault(&f, 100));
            format_close(&f);
        } else {
            cr_assert(s == ITER_EFORMAT || s == ITER_EUNSUPPORTED, "%s", err.message);
            cr_assert(strstr(err.message, "set."), "%s", err.message);
        }
        cr_assert_eq(iter__alloc_live(), 0);
    }
    cr_assert_eq(n_open, 1); /* the first document ends at sequence 0 instead of 1 */
}

Test(format_tokens_files, heads) {
    uint8_t head[1024 + 40] = {0};
    put(head, 20240520, 4);
    put(head + 4, 1, 4);
    put(head + 8, 20, 4);
    make_file(folder, "a.bin", head, sizeof(head));
    opened f;
    expect_open(path_of("a.bin"), "length=3", &f);
    cr_assert_eq(f.desc.n_samples, 6);
    format_close(&f);
    expect_fails(path_of("a.bin"), "length=3&dtype=u32", ITER_EINVAL, "a.bin",
                 "its head says u16, dtype is u32");
    expect_fails(path_of("a.bin"), "length=3&documents=keep", ITER_EINVAL, "a.bin",
                 "documents=keep and whole want Megatron's index");
    make_file(folder, "a.bin", head, sizeof(head) - 1);
    expect_fails(path_of("a.bin"), "length=3", ITER_EFORMAT, "a.bin",
                 "at 8: its head says 20 tokens of u16, so 1064 bytes; the file has 1063");
    make_file(folder, "a.bin", head, 100);
    expect_fails(path_of("a.bin"), "length=3", ITER_EFORMAT, "a.bin",
                 "ends after 100 of the 1024 bytes");
    put(head + 4, 2, 4);
    make_file(folder, "a.bin", head, sizeof(head));
    expect_fails(path_of("a.bin"), "length=3", ITER_EUNSUPPORTED, "a.bin", "version 2");
    put(head, 20240522, 4);
    make_file(folder, "a.bin", head, sizeof(head));
    expect_fails(path_of("a.bin"), "length=3", ITER_EUNSUPPORTED, "a.bin", "questions");
}

/* Tokens that no row has are counted: at a file's end, in a file without a row, between rows. */
Test(format_tokens_files, tokens_that_are_left_out) {
    static const uint8_t bytes[64];
    static const struct {
        const char *options;
        uint64_t n;
        const char *says;
    } cases[] = {
        {"length=3", 3, "3 of 34 tokens are in no row; 1 of 2 files have no row"}, /* 10 rows: 31 */
        {"length=3&label=no", 3, "3 of 34 tokens are in no row; 1 of 2 files have no row"},
        {"length=3&last=overlap", 2, "2 of 34 tokens are in no row; 1 of 2 files have no row"},
        {"length=3&last=short", 0, NULL},
        {"length=3&stride=8", 18, "18 of 34 tokens are in no row; 1 of 2 files have no row"},
        {"length=1", 0, NULL},
        {"length=1&stride=2", 0, NULL},
        {"length=1&stride=3", 10, "10 of 34 tokens are in no row"},
    };
    make_file(folder, "a.bin", bytes, 64);
    make_file(folder, "b.bin", bytes, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        opened f;
        expect_open(path_of("{a.bin,b.bin}"), cases[i].options, &f);
        cr_expect_eq(f.desc.n_left_out, cases[i].n, "%s: %lu", cases[i].options, f.desc.n_left_out);
        cr_expect(cases[i].says ? f.desc.left_out && strcmp(f.desc.left_out, cases[i].says) == 0
                                : !f.desc.left_out,
                  "%s: %s", cases[i].options, f.desc.left_out);
        format_close(&f);
    }
}

Test(format_tokens_files, files_without_a_head) {
    static const uint8_t bytes[64];
    uint8_t npy[256];
    make_file(folder, "a.bin", bytes, 63);
    expect_fails(path_of("a.bin"), "length=3", ITER_EFORMAT, "a.bin",
                 "has 63 bytes, tokens of u16 have 2 each");
    expect_fails(path_of("a.bin"), "length=3&dtype=f32", ITER_EINVAL, "a.bin",
                 "dtype is f32, tokens are integers");
    expect_fails(path_of("b.bin"), "length=3", ITER_EIO, "b.bin", "No such file");
    expect_fails(path_of("b.idx"), "length=3", ITER_EIO, "b.bin", "No such file");
    make_file(folder, "a.bin", bytes, 0);
    expect_fails(path_of("a.bin"), "length=3", ITER_EFORMAT, "a.bin", "is empty");
    make_file(folder, "a.bin", bytes, 6);
    expect_fails(path_of("a.bin"), "length=3", ITER_EFORMAT, "a.bin",
                 "holds no row of 3 tokens and their targets: the longest file has 3 tokens");
    make_file(folder, "a.bin", bytes, 64);
    make_file(folder, "b.npy", npy,
              make_npy_header(npy, "{'descr': '<u4', 'fortran_order': False, 'shape': (8,), }"));
    expect_fails(path_of("b.npy"), "length=3", ITER_EFORMAT, "b.npy", "its header says 8 samples");
    size_t n = make_npy_header(npy, "{'descr': '<u4', 'fortran_order': False, 'shape': (8,), }");
    memset(npy + n, 0, 32);
    make_file(folder, "b.npy", npy, n + 32);
    expect_fails(path_of("{a.bin,b.npy}"), "length=3", ITER_EFORMAT, "b.npy",
                 "has tokens of u32, a.bin has u16");
    n = make_npy_header(npy, "{'descr': '<u4', 'fortran_order': False, 'shape': (4, 2), }");
    make_file(folder, "b.npy", npy, n + 32);
    expect_fails(path_of("b.npy"), "length=3", ITER_EUNSUPPORTED, "b.npy", "has 2 dimensions");
    n = make_npy_header(npy, "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }");
    make_file(folder, "b.npy", npy, n + 32);
    expect_fails(path_of("b.npy"), "length=3", ITER_EUNSUPPORTED, "b.npy", "elements of f32");
    n = make_npy_header(npy, "{'descr': '>u2', 'fortran_order': False, 'shape': (16,), }");
    make_file(folder, "b.npy", npy, n + 32);
    expect_fails(path_of("{a.bin,b.npy}"), "length=3", ITER_EFORMAT, "b.npy", "another byte order");
}

/* Every allocation of opening fails once: an error, and nothing is lost. */
Test(format_tokens_files, without_memory) {
    static const int32_t tokens[] = {3, 0, 4};
    static const int64_t borders[] = {0, 1, 3};
    make_index(tokens, 3, borders, 3, 14);
    for (long after = 0;; after++) {
        opened f;
        iter_error err = {0};
        const char *path = path_of("set.{idx,bin}");
        iter__alloc_fail_after = after;
        const iter_status s = format_open(&FORMAT, path, "length=2&documents=keep", &f, &err);
        iter__alloc_fail_after = -1;
        if (s == ITER_OK) {
            format_close(&f);
            cr_assert(after > 8);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM, "%ld: %s", after, err.message);
        cr_assert_eq(iter__alloc_live(), 0);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}
