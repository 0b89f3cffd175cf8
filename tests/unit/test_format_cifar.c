/* test_format_cifar.c - CIFAR-10 and CIFAR-100: records, splits, class names, and every broken
 * set. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/make_data.h"

TestSuite(format_cifar, .timeout = 60);

static const char ten_names[] =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

/* A folder of five training files with 3, 4, 3, 4, 3 records and a test file with 2. */
static void make_ten(char folder[MAKE_PATH_MAX]) {
    char name[32];
    uint32_t first = 0;
    make_folder(folder);
    for (uint32_t i = 1; i <= 5; i++) {
        const uint32_t n = i % 2 ? 3 : 4;
        snprintf(name, sizeof(name), "data_batch_%u.bin", i);
        make_cifar(folder, name, first, n, 1);
        first += n;
    }
    make_cifar(folder, "test_batch.bin", first, 2, 1);
}

/* Opening must fail with `want`, and the message must have both texts. */
static void expect_fails(const iter_format_ops *ops, const char *path, const char *options,
                         iter_status want, const char *file, const char *reason) {
    opened f;
    iter_error err = {0};
    const iter_status got = format_open(ops, path, options, &f, &err);
    cr_assert_eq(got, want, "%s: got %d \"%s\"", reason, got, err.message);
    cr_assert_eq(err.status, want);
    cr_assert(strstr(err.message, file), "no \"%s\" in \"%s\"", file, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_record(const opened *f, uint64_t index, uint32_t i) {
    uint8_t record[3074];
    const uint32_t n_labels = (uint32_t)f->desc.n_fields - 1;
    cr_assert_eq(format_read(f, index, 0, record, sizeof(record)), n_labels + 3072);
    const iter_field *data = &f->desc.fields[0], *label = &f->desc.fields[1];
    cr_assert_eq(record[label->offset], i % (n_labels == 2 ? 100 : 10));
    if (n_labels == 2) cr_assert_eq(record[f->desc.fields[2].offset], i % 20);
    for (uint32_t j = 0; j < 3072; j++)
        cr_assert_eq(record[data->offset + j], make_pixel(i, j));
}

Test(format_cifar, every_record_of_every_split) {
    static const struct {
        const char *options, *split;
        uint32_t first, n;
    } cases[] = {{NULL, "train", 0, 17},
                 {"split=train", "train", 0, 17},
                 {"split=test", "test", 17, 2},
                 {"split=all", "all", 0, 19}};
    char folder[MAKE_PATH_MAX];
    make_ten(folder);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        opened f;
        iter_error err;
        cr_assert_eq(format_open(&iter__format_cifar10, folder, cases[c].options, &f, &err), 0,
                     "%s", err.message);
        cr_assert_null(format_fault(&f, 100));
        cr_assert_eq(f.desc.n_samples, cases[c].n);
        cr_assert_str_eq(f.desc.split, cases[c].split);
        for (uint32_t i = 0; i < cases[c].n; i++)
            expect_record(&f, i, cases[c].first + i);
        format_close(&f);
    }
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

Test(format_cifar, fields_are_as_documented) {
    char folder[MAKE_PATH_MAX], text[64];
    opened f;
    make_folder(folder);
    make_cifar(folder, "train.bin", 0, 130, 2);
    make_cifar(folder, "test.bin", 130, 5, 2);
    cr_assert_eq(format_open(&iter__format_cifar100, folder, NULL, &f, NULL), ITER_OK);
    cr_assert_null(format_fault(&f, 200));
    cr_assert_eq(f.desc.n_samples, 130);
    cr_assert_eq(f.desc.n_fields, 3);
    cr_assert_eq(f.desc.n_extents, 1);
    cr_assert_eq(f.desc.max_extent_bytes[0], 3074);
    cr_assert_str_eq(f.desc.fields[0].name, "data");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [3, 32, 32] \"CHW\"");
    cr_assert_eq(f.desc.fields[0].role, ITER_DATA);
    cr_assert_str_eq(f.desc.fields[1].name, "label");
    cr_assert_eq(f.desc.fields[1].role, ITER_LABEL);
    cr_assert_eq(f.desc.fields[1].desc.n_dims, 0);
    cr_assert_eq(f.desc.fields[1].limit, 100);
    cr_assert_str_eq(f.desc.fields[2].name, "coarse_label");
    cr_assert_eq(f.desc.fields[2].limit, 20);
    cr_assert_eq(f.desc.n_classes, 100);
    cr_assert_null(f.desc.class_names);
    for (uint32_t i = 0; i < 130; i++)
        expect_record(&f, i, i);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_cifar, class_names_come_from_the_folder) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_ten(folder);
    make_file(folder, "batches.meta.txt", ten_names, strlen(ten_names));
    cr_assert_eq(format_open(&iter__format_cifar10, folder, NULL, &f, NULL), ITER_OK);
    cr_assert_eq(f.desc.n_classes, 10);
    cr_assert_str_eq(f.desc.class_names[0], "airplane");
    cr_assert_str_eq(f.desc.class_names[9], "truck");
    cr_assert_eq(f.desc.fields[1].limit, 10);
    format_close(&f);

    make_file(folder, "batches.meta.txt", "airplane\r\nbird\r\n", 16);
    expect_fails(&iter__format_cifar10, folder, NULL, ITER_EFORMAT, "batches.meta.txt",
                 "has 2 class names, expected 10");
    make_file(folder, "batches.meta.txt", make_path(path, folder, "x"), 0);
    expect_fails(&iter__format_cifar10, folder, NULL, ITER_EFORMAT, "batches.meta.txt",
                 "has 0 class names");
    make_folder_gone(folder);
}

Test(format_cifar, one_file_is_a_set) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_ten(folder);
    cr_assert_eq(format_open(&iter__format_cifar10, make_path(path, folder, "data_batch_2.bin"),
                             NULL, &f, NULL),
                 ITER_OK);
    cr_assert_eq(f.desc.n_samples, 4);
    cr_assert_str_eq(f.desc.split, "");
    expect_record(&f, 3, 6);
    format_close(&f);
    make_folder_gone(folder);
}

/* The same samples in any folder have the same identity; other samples have another. */
Test(format_cifar, identity_follows_the_samples) {
    char a[MAKE_PATH_MAX], b[MAKE_PATH_MAX];
    opened f, g, h;
    make_ten(a);
    make_ten(b);
    cr_assert_eq(format_open(&iter__format_cifar10, a, NULL, &f, NULL), ITER_OK);
    cr_assert_eq(format_open(&iter__format_cifar10, b, NULL, &g, NULL), ITER_OK);
    cr_assert_eq(format_open(&iter__format_cifar10, a, "split=test", &h, NULL), ITER_OK);
    cr_assert_eq(f.desc.identity, g.desc.identity);
    cr_assert_neq(f.desc.identity, h.desc.identity);
    format_close(&g);
    make_cifar(b, "data_batch_5.bin", 0, 4, 1);
    cr_assert_eq(format_open(&iter__format_cifar10, b, NULL, &g, NULL), ITER_OK);
    cr_assert_neq(f.desc.identity, g.desc.identity);
    format_close(&f);
    format_close(&g);
    format_close(&h);
    make_folder_gone(a);
    make_folder_gone(b);
}

Test(format_cifar, broken_sets_say_file_and_reason) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    const iter_format_ops *ops = &iter__format_cifar10;
    static const uint8_t bytes[3 * 3073 + 1];
    make_ten(folder);

    expect_fails(ops, make_path(path, folder, "nowhere"), NULL, ITER_EIO, path,
                 "No such file or directory");
    expect_fails(ops, "", NULL, ITER_EIO, "", "No such file or directory");
    make_file(folder, "data_batch_3.bin", bytes, 0);
    expect_fails(ops, folder, NULL, ITER_EFORMAT, "data_batch_3.bin", "is empty");
    make_file(folder, "data_batch_3.bin", bytes, 3 * 3073 - 1);
    expect_fails(ops, folder, NULL, ITER_EFORMAT, "data_batch_3.bin",
                 "has 9218 bytes, which is 2 records of 3073 bytes and 3072 bytes more");
    make_file(folder, "data_batch_3.bin", bytes, 3 * 3073 + 1);
    expect_fails(ops, folder, NULL, ITER_EFORMAT, "data_batch_3.bin",
                 "3 records of 3073 bytes and 1 bytes more");
    make_file(folder, "data_batch_3.bin", bytes, 1);
    expect_fails(ops, folder, NULL, ITER_EFORMAT, "data_batch_3.bin", "0 records");
    cr_assert_eq(unlink(make_path(path, folder, "data_batch_3.bin")), 0);
    expect_fails(ops, folder, NULL, ITER_EIO, path, "No such file or directory");
    make_subfolder(folder, "data_batch_3.bin");
    expect_fails(ops, folder, NULL, ITER_EIO, path, "is a directory");
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0); /* must not be waited for */
    expect_fails(ops, folder, NULL, ITER_EIO, path, "is not a regular file");
    expect_fails(ops, folder, "split=validation", ITER_EINVAL, "split", "validation");
    make_folder_gone(folder);
}

Test(format_cifar, unreadable_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    if (geteuid() == 0) cr_skip_test("root reads every file");
    make_ten(folder);
    cr_assert_eq(chmod(make_path(path, folder, "data_batch_1.bin"), 0), 0);
    expect_fails(&iter__format_cifar10, folder, NULL, ITER_EIO, path, "Permission denied");
    make_folder_gone(folder);
}

Test(format_cifar, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX];
    make_ten(folder);
    make_file(folder, "batches.meta.txt", ten_names, strlen(ten_names));
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s = format_open(&iter__format_cifar10, folder, "split=all", &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
        if (s == ITER_OK) {
            cr_assert_geq(n, 7);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM);
        cr_assert_eq(err.status, ITER_ENOMEM);
    }
    make_folder_gone(folder);
}

/* The published set has 5,000 training and 1,000 test images of each class; the first training
 * image is a frog (6). */
Test(format_cifar, the_published_set) {
    char folder[MAKE_PATH_MAX];
    const char *root = getenv("ITER_DATA");
    struct stat st;
    snprintf(folder, sizeof(folder), "%s/cifar-10-batches-bin", root ? root : "data");
    if (stat(folder, &st) != 0) cr_skip_test("no cifar-10-batches-bin in $ITER_DATA or ./data");
    static const struct {
        const char *options;
        uint64_t n;
        uint8_t first;
    } cases[] = {{"split=train", 50000, 6}, {"split=test", 10000, 3}};
    for (int c = 0; c < 2; c++) {
        opened f;
        uint64_t counts[10] = {0};
        uint8_t label = 0;
        cr_assert_eq(format_open(&iter__format_cifar10, folder, cases[c].options, &f, NULL), 0);
        cr_assert_eq(f.desc.n_samples, cases[c].n);
        cr_assert_str_eq(f.desc.class_names[6], "frog");
        cr_assert_null(format_fault(&f, cases[c].n));
        for (uint64_t i = 0; i < cases[c].n; i++) {
            cr_assert_eq(format_read(&f, i, 0, &label, 1), 1);
            cr_assert_lt(label, 10);
            counts[label]++;
            if (i == 0) cr_assert_eq(label, cases[c].first);
        }
        for (int k = 0; k < 10; k++)
            cr_assert_eq(counts[k], cases[c].n / 10);
        format_close(&f);
    }
}
