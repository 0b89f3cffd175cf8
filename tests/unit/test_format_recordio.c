/* test_format_recordio.c - files that MXNet wrote (tests/golden/make_recordio.py), byte for byte,
 * and every broken one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/golden/recordio_mxnet.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/make_data.h"

#define FORMAT iter__format_recordio
#include "tests/support/format_expect.h"

TestSuite(format_recordio, .timeout = 60);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static decoded row; /* large */

/* Records [first, first + n) of an open file must have these rows' labels and bytes. */
static void expect_rows(const opened *f, uint64_t first, const recordio_row *rows, size_t n,
                        int n_labels) {
    const int data = format_field(f, "data"), label = format_field(f, "label");
    for (size_t i = 0; i < n; i++) {
        iter_error err = {0};
        cr_assert_eq(format_decode(f, first + i, data, &row, &err), ITER_OK, "record %zu: %s", i,
                     err.message);
        cr_assert_eq(row.desc.dims[0], rows[i].n_content);
        cr_assert_arr_eq(row.bytes, rows[i].content, rows[i].n_content);
        if (n_labels == 0) continue;
        cr_assert_eq(format_decode(f, first + i, label, &row, &err), ITER_OK, "record %zu: %s", i,
                     err.message);
        cr_assert_arr_eq(row.bytes, rows[i].labels, 4 * (size_t)n_labels);
    }
}

static void make_golden(const char *folder) {
    make_file(folder, "plain.rec", mxnet_plain_rec, sizeof(mxnet_plain_rec));
    make_file(folder, "plain.idx", mxnet_plain_idx, sizeof(mxnet_plain_idx));
    make_file(folder, "scalar.rec", mxnet_scalar_rec, sizeof(mxnet_scalar_rec));
    make_file(folder, "scalar.idx", mxnet_scalar_idx, sizeof(mxnet_scalar_idx));
    make_file(folder, "multi.rec", mxnet_multi_rec, sizeof(mxnet_multi_rec));
    make_file(folder, "multi.idx", mxnet_multi_idx, sizeof(mxnet_multi_idx));
}

Test(format_recordio, records_as_mxnet_writes_them) {
    static const char *const ways[] = {"", "&idx=none"};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], options[64];
    opened f;
    make_folder(folder);
    make_golden(folder);
    for (size_t w = 0; w < COUNT(ways); w++) {
        snprintf(options, sizeof(options), "header=no%s", ways[w]);
        expect_open(make_path(path, folder, "plain.rec"), options, &f);
        cr_assert_eq(f.desc.n_samples, COUNT(mxnet_plain_rows));
        cr_assert_eq(f.desc.n_fields, 1);
        expect_rows(&f, 0, mxnet_plain_rows, COUNT(mxnet_plain_rows), 0);
        format_close(&f);

        snprintf(options, sizeof(options), "decode=none%s", ways[w]);
        expect_open(make_path(path, folder, "scalar.rec"), options, &f);
        cr_assert_eq(f.desc.n_samples, COUNT(mxnet_scalar_rows));
        cr_assert_eq(f.desc.fields[1].desc.n_dims, 0);
        cr_assert_eq(f.desc.fields[1].desc.dtype, ITER_F32);
        expect_rows(&f, 0, mxnet_scalar_rows, COUNT(mxnet_scalar_rows), 1);
        format_close(&f);

        expect_open(make_path(path, folder, "multi.rec"), options, &f);
        cr_assert_eq(f.desc.n_samples, COUNT(mxnet_multi_rows));
        cr_assert_eq(f.desc.fields[1].desc.n_dims, 1);
        cr_assert_eq(f.desc.fields[1].desc.dims[0], 3);
        expect_rows(&f, 0, mxnet_multi_rows, COUNT(mxnet_multi_rows), 3);
        format_close(&f);
    }
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

/* The scan must find what the index has, and save it as MXNet does. */
Test(format_recordio, index_that_is_saved_is_mxnets) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], idx[MAKE_PATH_MAX];
    char text[sizeof(mxnet_plain_idx) + 1];
    opened f;
    make_folder(folder);
    make_file(folder, "x.rec", mxnet_plain_rec, sizeof(mxnet_plain_rec));
    make_path(idx, folder, "x.idx");
    expect_open(make_path(path, folder, "x.rec"), "header=no", &f);
    const uint64_t identity = f.desc.identity;
    format_close(&f);
    cr_assert_neq(access(idx, F_OK), 0, "an index that was not requested");
    expect_open(path, "header=no&save-idx=yes", &f);
    format_close(&f);
    FILE *file = fopen(idx, "rb");
    cr_assert_not_null(file);
    cr_assert_eq(fread(text, 1, sizeof(text), file), sizeof(mxnet_plain_idx));
    fclose(file);
    cr_assert_arr_eq(text, mxnet_plain_idx, sizeof(mxnet_plain_idx));
    expect_open(path, "header=no", &f);
    cr_assert_eq(f.desc.identity, identity);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_recordio, several_files_by_braces_stars_and_folders) {
    static const char *const patterns[] = {"part-{000..002}.rec", "part-{002,000,001}.rec",
                                           "part-*.rec", "", "p{art-00[0-1],art-002}.rec"};
    static const int order[][3] = {{0, 1, 2}, {2, 0, 1}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "part-%03d.rec", i);
        if (i == 1) {
            make_file(folder, name, NULL, 0);
        } else {
            make_file(folder, name, i ? mxnet_scalar_rec : mxnet_multi_rec,
                      i ? sizeof(mxnet_scalar_rec) : sizeof(mxnet_multi_rec));
        }
    }
    for (size_t p = 0; p < COUNT(patterns); p++) {
        opened f;
        expect_open(make_path(path, folder, patterns[p]), "decode=none", &f);
        cr_assert_eq(f.desc.n_samples, COUNT(mxnet_scalar_rows) + COUNT(mxnet_multi_rows));
        cr_assert_eq(f.desc.n_files, 3);
        uint64_t at = 0;
        for (int i = 0; i < 3; i++) {
            if (order[p][i] == 0) expect_rows(&f, at, mxnet_multi_rows, COUNT(mxnet_multi_rows), 0);
            if (order[p][i] == 2)
                expect_rows(&f, at, mxnet_scalar_rows, COUNT(mxnet_scalar_rows), 0);
            at += order[p][i] == 0   ? COUNT(mxnet_multi_rows)
                  : order[p][i] == 2 ? COUNT(mxnet_scalar_rows)
                                     : 0;
        }
        format_close(&f);
    }
    expect_fails(make_path(path, folder, "no-*.rec"), NULL, ITER_EIO, "no-*.rec",
                 "no file matches");
    expect_fails(make_path(path, folder, "part-{000..005}.rec"), NULL, ITER_EIO, "part-003.rec",
                 "No such file");
    expect_fails(make_path(path, folder, "part-{000..002}.rec"), "idx=x.idx", ITER_EINVAL, "part-",
                 "names 3 files");
    make_folder_gone(folder);
}

Test(format_recordio, label_width_and_dtype) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    iter_error err = {0};
    make_folder(folder);
    make_golden(folder);
    expect_open(make_path(path, folder, "scalar.rec"), "label-dtype=i32", &f);
    cr_assert_eq(f.desc.fields[1].desc.dtype, ITER_I32);
    int32_t label = 0;
    cr_assert_eq(format_decode(&f, 0, 1, &row, &err), ITER_OK);
    memcpy(&label, row.bytes, 4);
    cr_assert_eq(label, 3);
    cr_assert_eq(format_decode(&f, 3, 1, &row, &err), ITER_OK);
    memcpy(&label, row.bytes, 4);
    cr_assert_eq(label, -1804698880); /* the magic as a float */
    cr_assert_eq(format_decode(&f, 2, 1, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "label -1.5 is not an integer"), "%s", err.message);
    format_close(&f);
    expect_open(path, "label-width=2", &f);
    cr_assert_eq(format_decode(&f, 0, 1, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "has 1 labels; label-width is 2"), "%s", err.message);
    format_close(&f);
    make_folder_gone(folder);
}

/* Eight bytes of head, 24 of header, then 2 x 3 pixels of 2 channels. */
Test(format_recordio, raw_pixels) {
    uint8_t bytes[44] = {0x0a, 0x23, 0xd7, 0xce, 36};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    iter_error err = {0};
    for (int i = 0; i < 12; i++)
        bytes[32 + i] = (uint8_t)(10 + i);
    make_folder(folder);
    make_file(folder, "x.rec", bytes, sizeof(bytes));
    expect_open(make_path(path, folder, "x.rec"), "raw=2x3x2", &f);
    char text[64];
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [2, 3, 2] \"HWC\"");
    cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_OK);
    cr_assert_arr_eq(row.bytes, bytes + 32, 12);
    format_close(&f);
    expect_open(path, "raw=2x3x3", &f);
    cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "12 bytes of data"), "%s", err.message);
    format_close(&f);
    static const char *const bad[] = {"raw=2x3",    "raw=0x3x1", "raw=2x3x",
                                      "raw=2x3x1x", "raw=x",     "raw=99999999999999999999x1x1"};
    for (size_t i = 0; i < COUNT(bad); i++)
        expect_fails(path, bad[i], ITER_EINVAL, "raw=", "is not HEIGHTxWIDTHxCHANNELS");
    make_folder_gone(folder);
}

Test(format_recordio, index_in_any_order_and_of_some) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    make_file(folder, "x.rec", mxnet_plain_rec, sizeof(mxnet_plain_rec));
    /* of 0 8 20 32 48 64 84 100 120 152 */
    static const char text[] = "k\t48\r\nanother key\t8\n\n17\t20";
    make_file(folder, "x.idx", text, sizeof(text) - 1);
    expect_open(make_path(path, folder, "x.rec"), "header=no", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    expect_rows(&f, 0, mxnet_plain_rows + 1, 2, 0);
    expect_rows(&f, 2, mxnet_plain_rows + 4, 1, 0);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_recordio, broken_indices_say_file_line_and_reason) {
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"0 8\n", "line 1: no tab"},
        {"0\t0\n1\t\n", "line 2: the offset is not a number"},
        {"0\t0\n\n1\t1x\n", "line 3: the offset is not a number"},
        {"0\t-8\n", "line 1: the offset is not a number"},
        {"0\t2\n", "line 1: offset 2 is outside of x.rec, which has 352 bytes"},
        {"0\t352\n", "line 1: offset 352 is outside of"},
        {"0\t352\n", "352 bytes; idx=none does without the index"},
        {"0\t999999999999999999\n", "is outside of"},
        {"0\t9999999999999999999\n", "is not a number"},
        {"0\t8\n1\t0\n2\t8\n", "offset 8 is listed twice"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_file(folder, "x.rec", mxnet_plain_rec, sizeof(mxnet_plain_rec));
    make_path(path, folder, "x.rec");
    cr_assert_eq(sizeof(mxnet_plain_rec), 352);
    for (size_t i = 0; i < COUNT(bad); i++) {
        make_file(folder, "x.idx", bad[i].text, strlen(bad[i].text));
        expect_fails(path, "header=no", ITER_EFORMAT, "x.idx", bad[i].reason);
    }
    make_file(folder, "x.idx", "0\t4\n", 4);
    expect_fails(path, "header=no", ITER_EFORMAT, "x.rec", "at 4 is 0x00000000, a record's magic");
    expect_fails(path, "header=no", ITER_EFORMAT,
                 "x.idx (idx=none does without it) is not of x.rec", "or that is damaged");
    static const char first[] = "0\t4\n1\t12\n2\t16\n3\t24\n4\t28\n5\t36\n6\t40\n7\t44\n8\t152\n";
    make_file(folder, "x.idx", first, sizeof(first) - 1); /* the last line is a record's */
    expect_fails(path, "header=no", ITER_EFORMAT,
                 "x.idx (idx=none does without it) is not of x.rec", "x.rec: at 4: ");
    make_file(folder, "x.idx", "", 0);
    expect_fails(path, "header=no", ITER_EFORMAT, "x.rec", "holds no records");
    make_file(folder, "x.idx", mxnet_plain_idx, sizeof(mxnet_plain_idx));
    make_file(folder, "x.rec", mxnet_plain_rec, sizeof(mxnet_plain_rec) - 4);
    expect_fails(path, "header=no", ITER_EFORMAT, "x.rec", "the file ends after 188 of them");
    expect_fails(path, "header=no&idx=other.idx", ITER_EIO, "other.idx", "No such file");
    make_folder_gone(folder);
}

Test(format_recordio, broken_records_say_file_offset_and_reason) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t bytes[sizeof(mxnet_plain_rec)];
    make_folder(folder);
    make_path(path, folder, "x.rec");
    expect_fails(path, "header=no", ITER_EIO, path, "No such file");
    make_file(folder, "x.rec", "", 0);
    expect_fails(path, "header=no", ITER_EFORMAT, path, "holds no records");
    static const struct {
        size_t at;
        uint8_t value;
        const char *reason;
    } bad[] = {
        {0, 0x0b, "at 0 is 0xced7230b, a record's magic is 0xced7230a"},
        {8, 0, "at 8 is 0xced72300"},
        {27, 0x80, "the piece at 20 has flag 4"},
        {27, 0x60, "the piece at 20 has flag 3, which does not begin a record"},
        {27, 0x20, "the piece at 32 has flag 0, which does not go on with a record"},
        {159, 0x10, "the record at 152 has 268435648 bytes, the file ends after 192 of them"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy(bytes, mxnet_plain_rec, sizeof(bytes));
        bytes[bad[i].at] = bad[i].value;
        make_file(folder, "x.rec", bytes, sizeof(bytes));
        expect_fails(path, "header=no", ITER_EFORMAT, path, bad[i].reason);
    }
    for (size_t cut = 153; cut < sizeof(mxnet_plain_rec); cut++) {
        make_file(folder, "x.rec", mxnet_plain_rec, cut);
        expect_fails(path, "header=no", ITER_EFORMAT, path,
                     cut < 160 ? "ends in the head of a record, at 152" : "the file ends after");
    }
    make_file(folder, "x.rec", mxnet_plain_rec, 72); /* the first piece of a record, alone */
    expect_fails(path, "header=no", ITER_EFORMAT, path, "its last piece is missing");
    make_file(folder, "x.rec", mxnet_plain_rec, 48);
    expect_fails(path, NULL, ITER_EFORMAT, path, "its header alone would have 24");
    make_folder_gone(folder);
}

/* Damage that only shows when a sample is read: that sample fails alone, with the reason. */
Test(format_recordio, damage_behind_an_index_fails_the_sample) {
    static const struct {
        size_t at;
        uint8_t value;
        uint64_t sample;
        const char *reason;
    } bad[] = {
        {0, 0, 0, "no record: at +0 is 0xced72300"},
        {8, 0, 1, "no record: at +0 is 0xced72300"},
        {15, 0x60, 1, "the piece at +0 has flag 3, which is not a record's first"},
        {12, 9, 1, "the piece at +0 has 9 bytes, 4 are there"},
        {36, 1, 3, "the record has 12 bytes by its head and 16 by the index"},
        {56, 0, 4, "no record: at +8 is 0xced72300"},
        {63, 0, 4, "the piece at +8 has flag 0, which is not one that goes on"},
        {63, 0x40, 4, "a head of 8 bytes should be at +16"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t bytes[sizeof(mxnet_plain_rec)];
    make_folder(folder);
    make_file(folder, "x.idx", mxnet_plain_idx, sizeof(mxnet_plain_idx));
    make_path(path, folder, "x.rec");
    for (size_t i = 0; i < COUNT(bad); i++) {
        opened f;
        iter_error err = {0};
        memcpy(bytes, mxnet_plain_rec, sizeof(bytes));
        bytes[bad[i].at] = bad[i].value;
        make_file(folder, "x.rec", bytes, sizeof(bytes));
        expect_open(path, "header=no", &f);
        cr_assert_eq(format_decode(&f, bad[i].sample, 0, &row, &err), ITER_EFORMAT, "%zu", i);
        cr_assert(strstr(err.message, bad[i].reason), "no \"%s\" in \"%s\"", bad[i].reason,
                  err.message);
        cr_assert_eq(format_decode(&f, 9, 0, &row, &err), ITER_OK, "%s", err.message);
        format_close(&f);
    }
    make_folder_gone(folder);
}

Test(format_recordio, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_golden(folder);
    for (int way = 0; way < 2; way++) {
        for (long n = 0;; n++) {
            opened f;
            iter_error err = {0};
            iter__alloc_fail_after = n;
            const iter_status s =
                format_open(&iter__format_recordio, make_path(path, folder, "{scalar,multi}.rec"),
                            way ? "idx=none&save-idx=yes" : NULL, &f, &err);
            iter__alloc_fail_after = -1;
            format_close(&f);
            cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
            if (s == ITER_OK) {
                cr_assert_geq(n, 12);
                break;
            }
            cr_assert_eq(s, ITER_ENOMEM, "%s", err.message);
            cr_assert_eq(err.status, ITER_ENOMEM);
        }
    }
    make_folder_gone(folder);
}
