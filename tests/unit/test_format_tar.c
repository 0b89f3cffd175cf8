/* test_format_tar.c - archives that Python's tarfile wrote (tests/golden/tar.py), and every broken
 * one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "loaders/files/tar.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/make_data.h"

#define FORMAT iter__format_tar
#include "tests/support/format_expect.h"

TestSuite(format_tar, .timeout = 60);

#define GOLDEN       ITER_SOURCE_DIR "/tests/golden/tar/"
#define FIELDS       "fields=cls,json:width,seg.bin,json:box.y"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static decoded row; /* large */

static void expect_decodes(const opened *f, uint64_t sample, int field) {
    iter_error err = {0};
    cr_assert_eq(format_decode(f, sample, field, &row, &err), ITER_OK, "%s", err.message);
}

static double number_of(const opened *f, uint64_t sample, int field) {
    double value;
    expect_decodes(f, sample, field);
    memcpy(&value, row.bytes, sizeof(value));
    return value;
}

static int32_t class_of(const opened *f, uint64_t sample, int field) {
    int32_t value;
    expect_decodes(f, sample, field);
    memcpy(&value, row.bytes, sizeof(value));
    return value;
}

/* The samples of tests/golden/tar.py, beginning with `first`. */
static void expect_samples(const opened *f, uint64_t first, uint64_t n) {
    static const int32_t classes[] = {3, -7, 2147483647, 4};
    static const double widths[] = {640, 1000, 0.25, 5}, ys[] = {-150, 0, 7, 6};
    static const int64_t sizes[] = {3, 0, 1024, 4};
    for (uint64_t i = 0; i < n; i++) {
        cr_assert_eq(class_of(f, first + i, 0), classes[i]);
        cr_assert_eq(number_of(f, first + i, 1), widths[i]);
        cr_assert_eq(number_of(f, first + i, 3), ys[i]);
        expect_decodes(f, first + i, 2);
        cr_assert_eq(row.desc.dims[0], sizes[i]);
        for (int64_t b = 0; b < sizes[i] && i != 3; b++)
            cr_assert_eq(row.bytes[b], (uint8_t)b);
    }
}

Test(format_tar, three_ways_to_write_long_names) {
    static const char *const files[] = {"ustar", "gnu", "pax"};
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[MAKE_PATH_MAX];
        opened f;
        snprintf(path, sizeof(path), GOLDEN "%s.tar", files[i]);
        expect_open(path, FIELDS, &f);
        cr_assert_eq(f.desc.n_samples, i == 0 ? 3 : 4);
        cr_assert_eq(f.desc.n_fields, 4);
        cr_assert_str_eq(f.desc.fields[0].name, "label");
        cr_assert_eq(f.desc.fields[0].desc.dtype, ITER_I32);
        cr_assert_str_eq(f.desc.fields[1].name, "width");
        cr_assert_eq(f.desc.fields[1].role, ITER_LABEL);
        cr_assert_eq(f.desc.fields[1].desc.dtype, ITER_F64);
        cr_assert_str_eq(f.desc.fields[2].name, "seg.bin");
        cr_assert_eq(f.desc.fields[2].desc.capacity, 1024);
        cr_assert_str_eq(f.desc.fields[3].name, "box.y");
        expect_samples(&f, 0, f.desc.n_samples);
        format_close(&f);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_tar, several_archives) {
    opened f;
    expect_open(GOLDEN "{pax,ustar,gnu}.tar", FIELDS, &f);
    cr_assert_eq(f.desc.n_samples, 11);
    expect_samples(&f, 0, 4);
    expect_samples(&f, 4, 3);
    expect_samples(&f, 7, 4);
    format_close(&f);
    expect_open(GOLDEN, FIELDS, &f); /* gnu, pax, ustar */
    expect_samples(&f, 0, 4);
    expect_samples(&f, 4, 4);
    expect_samples(&f, 8, 3);
    format_close(&f);
}

/* ---- archives made here ---------------------------------------------------------------------- */

static uint8_t archive[1 << 16];
static size_t n_archive;

static void put_sum(uint8_t *header) {
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum & 0777777u);
}

static uint8_t *add(const char *name, char type, const void *data, size_t n) {
    uint8_t *header = archive + n_archive;
    memset(header, 0, 512 + n + 511);
    memcpy(header, name, strlen(name));
    snprintf((char *)header + 124, 12, "%011o", (unsigned)n & 0777777777u);
    header[156] = (uint8_t)type;
    memcpy(header + 257, "ustar\00000", 8);
    put_sum(header);
    memcpy(header + 512, data, n);
    n_archive += 512 + ((n + 511) & ~(size_t)511);
    return header;
}

static uint8_t *add_text(const char *name, const char *text) {
    return add(name, '0', text, strlen(text));
}

static void finish(const char *folder, size_t zeros) {
    memset(archive + n_archive, 0, zeros);
    make_file(folder, "x.tar", archive, n_archive + zeros);
    n_archive = 0;
}

/* If the fields are not named, the first sample decides: its image and its class. */
Test(format_tar, fields_by_themselves) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], text[64];
    opened f;
    make_folder(folder);
    make_path(path, folder, "x.tar");
    add_text("0.JPEG", "x");
    add_text("0.json", "{}");
    add_text("0.cls", "1");
    add_text("1.cls", "2");
    finish(folder, 1024);
    expect_open(path, NULL, &f);
    cr_assert_eq(f.desc.n_fields, 2);
    cr_assert_str_eq(f.desc.fields[0].name, "data");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [any, any, 3] \"HWC\"");
    cr_assert_str_eq(f.desc.fields[1].name, "label");
    cr_assert_eq(class_of(&f, 1, 1), 2);
    iter_error err = {0};
    cr_assert_eq(format_decode(&f, 1, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "'1' has no member .jpg;jpeg;png"), "%s", err.message);
    cr_assert(strstr(err.message, "files must stand side by side"), "%s", err.message);
    cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_EFORMAT, "one letter is no image");
    format_close(&f);
    expect_open(path, "channels=gray&fields=jpg;jpeg,cls", &f);
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [any, any, 1] \"HWC\"");
    format_close(&f);

    add_text("0.txt", "x");
    add_text("1.json", "x");
    finish(folder, 1024);
    expect_fails(path, NULL, ITER_EINVAL, path, "neither an image nor .cls");
    make_folder_gone(folder);
}

/* If a sample has several of a field's endings, the first in the order of the endings counts. */
Test(format_tar, either_ending) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    add_text("0.b", "0b");
    add_text("0.a", "0a");
    add_text("1.b", "1b");
    finish(folder, 0);
    expect_open(make_path(path, folder, "x.tar"), "fields=a;b", &f);
    expect_decodes(&f, 0, 0);
    cr_assert_arr_eq(row.bytes, "0a", 2);
    expect_decodes(&f, 1, 0);
    cr_assert_arr_eq(row.bytes, "1b", 2);
    format_close(&f);
    make_folder_gone(folder);
}

/* The ending after the last dot tells what a member is. */
Test(format_tar, endings_of_several_parts) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], text[64];
    opened f;
    make_folder(folder);
    add_text("0.left.jpg", "x");
    add_text("0.right.png", "y");
    add_text("0.seg.cls", "7");
    finish(folder, 0);
    expect_open(make_path(path, folder, "x.tar"), "fields=left.jpg,right.png,seg.cls", &f);
    for (int i = 0; i < 2; i++)
        cr_assert_str_eq(iter_desc_text(&f.desc.fields[i].desc, text, sizeof(text)),
                         "u8 [any, any, 3] \"HWC\"");
    cr_assert_str_eq(f.desc.fields[0].name, "data");
    cr_assert_str_eq(f.desc.fields[1].name, "right.png");
    cr_assert_str_eq(f.desc.fields[2].name, "label");
    cr_assert_eq(class_of(&f, 0, 2), 7);
    format_close(&f);
    make_folder_gone(folder);
}

/* An archive may end in any way, as long as its members are whole. */
Test(format_tar, ends_of_archives) {
    static const size_t zeros[] = {0, 512, 1024, 10240};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.tar");
    for (size_t i = 0; i < COUNT(zeros); i++) {
        opened f;
        add_text("0.cls", "1");
        add_text("1.cls", "2");
        finish(folder, zeros[i]);
        expect_open(path, NULL, &f);
        cr_assert_eq(f.desc.n_samples, 2);
        cr_assert_eq(f.desc.max_extent_bytes[0], 1024);
        format_close(&f);
    }
    add_text("0.cls", "5");
    make_file(folder, "x.tar", archive, 513); /* the last one lacks its zeros */
    n_archive = 0;
    opened f;
    expect_open(path, NULL, &f);
    cr_assert_eq(class_of(&f, 0, 0), 5);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_tar, sizes_in_base_256_and_by_pax) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    make_path(path, folder, "x.tar");
    uint8_t *header = add_text("0.cls", "12");
    memset(header + 124, 0, 12);
    header[124] = 0x80;
    header[135] = 2;
    put_sum(header);
    add("pax", 'x', "14 path=1.cls\n9 size=1\n", 23);
    header = add_text("wrong", "7");
    snprintf((char *)header + 124, 12, "%011o", 0);
    put_sum(header);
    finish(folder, 1024);
    expect_open(path, "fields=cls", &f);
    cr_assert_eq(f.desc.n_samples, 2);
    cr_assert_eq(class_of(&f, 0, 0), 12);
    cr_assert_eq(class_of(&f, 1, 0), 7);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_tar, damaged_archives_say_file_offset_and_reason) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.tar");
    expect_fails(path, NULL, ITER_EIO, path, "No such file");
    finish(folder, 0);
    expect_fails(path, NULL, ITER_EFORMAT, path, "holds no samples");
    finish(folder, 10240);
    expect_fails(path, NULL, ITER_EFORMAT, path, "holds no samples");
    add_text("0.cls", "1");
    add_text("1.cls", "2")[0] ^= 1;
    finish(folder, 1024);
    expect_fails(path, NULL, ITER_EFORMAT, path,
                 "the tar archive is damaged at 1024: no header, or its checksum is wrong");
    add_text("0.cls", "1");
    add_text("1.cls", "2");
    make_file(folder, "x.tar", archive, 1024 + 100);
    n_archive = 0;
    expect_fails(path, NULL, ITER_EFORMAT, path, "damaged at 1024: it ends within a header");
    add_text("0.cls", "1");
    add_text("1.cls", "two");
    make_file(folder, "x.tar", archive, 1024 + 514);
    n_archive = 0;
    expect_fails(path, NULL, ITER_EFORMAT, path, "damaged at 1024: it ends within the data");
    uint8_t *header = add_text("0.cls", "1");
    memcpy(header + 124, "12x", 3);
    put_sum(header);
    finish(folder, 0);
    expect_fails(path, NULL, ITER_EFORMAT, path, "damaged at 0: the size in the header");
    add("0.cls", 'S', "1", 1);
    finish(folder, 0);
    expect_fails(path, NULL, ITER_EUNSUPPORTED, path, "a sparse file at 0");
    static const struct {
        const char *pax, *reason;
    } bad[] = {
        {"x", "a wrong length"},
        {"99 path=x\n", "a wrong length"},
        {"11 path=x\ny", "a wrong length"},
        {"7 path\n", "has no '='"},
        {"10 size=x\n", "is not a number"},
        {"22 GNU.sparse.major=1\n", "a sparse file at 0"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        add("pax", 'x', bad[i].pax, strlen(bad[i].pax));
        add_text("0.cls", "1");
        finish(folder, 1024);
        expect_fails(path, NULL, i == 5 ? ITER_EUNSUPPORTED : ITER_EFORMAT, path, bad[i].reason);
    }
    add("pax", 'x', "10 path=x\n", 10);
    finish(folder, 1024);
    expect_fails(path, NULL, ITER_EFORMAT, path, "an extended header without a member after it");
    make_gzip(folder, "x.tar", "abc", 3);
    expect_fails(path, NULL, ITER_EUNSUPPORTED, path, "is gzipped");
    make_folder_gone(folder);
}

Test(format_tar, bad_values_fail_their_sample) {
    static const struct {
        const char *name, *text, *fields, *reason;
    } bad[] = {
        {"0.cls", "x1", "fields=cls", "'x1' is not an integer"},
        {"0.cls", "", "fields=cls", "'' is not an integer"},
        {"0.cls", "1.5", "fields=cls", "'1.5' is not an integer"},
        {"0.cls", "2147483648", "fields=cls", "is not an integer"},
        {"0.json", "{\"a\": 1}", "fields=json:b", "the JSON text has no 'b'"},
        {"0.json", "[1]", "fields=json:b", "the JSON text has no 'b'"},
        {"0.json", "", "fields=json:b", "the JSON text has no 'b'"},
        {"0.json", "{\"b", "fields=json:b", "the JSON text has no 'b'"},
        {"0.json", "{\"a\":[{\"b\":1}", "fields=json:b", "the JSON text has no 'b'"},
        {"0.json", "{\"b\": \"1\"}", "fields=json:b", "'b' in the JSON text is not a number"},
        {"0.json", "{\"b\": {\"c\": 1}}", "fields=json:b", "'b' in the JSON text is not a number"},
        {"0.json", "{\"b\": true}", "fields=json:b", "'b' in the JSON text is not a number"},
        {"0.json", "{\"b\": 1", "fields=json:b.c", "the JSON text has no 'b.c'"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.tar");
    for (size_t i = 0; i < COUNT(bad); i++) {
        opened f;
        iter_error err = {0};
        add_text(bad[i].name, bad[i].text);
        finish(folder, 1024);
        expect_open(path, bad[i].fields, &f);
        cr_assert_eq(format_decode(&f, 0, 0, &row, &err), ITER_EFORMAT, "%s", bad[i].text);
        cr_assert(strstr(err.message, bad[i].reason), "no \"%s\" in \"%s\"", bad[i].reason,
                  err.message);
        format_close(&f);
    }
    static const char *const options[] = {"fields=", "fields=cls,", "fields=json:", "fields=txt:x",
                                          "fields=a,b,c,d,e,f,g,h,i"};
    for (size_t i = 0; i < COUNT(options); i++)
        expect_fails(path, options[i], ITER_EINVAL, "fields=", "fields=");
    expect_fails(path, "fields=txt", ITER_EFORMAT, path, "no sample has a member .txt");
    make_folder_gone(folder);
}

/* An attribute or a comment of any size, before the effective name and after it. */
Test(format_tar, pax_headers_of_any_size) {
    static const size_t sizes[] = {8191, 8192, 8193, 30000};
    static char pax[40000];
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.tar");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (int first = 0; first < 2; first++) {
            opened f;
            size_t n = 0;
            if (first) n += (size_t)snprintf(pax + n, 40, "14 path=1.cls\n");
            const int digits = sizes[i] < 10000 ? 4 : 5;
            n += (size_t)snprintf(pax + n, 40, "%0*zu SCHILY.xattr.user.x=", digits, sizes[i]);
            const size_t begin = first ? 14 : 0;
            memset(pax + n, '\n', begin + sizes[i] - n); /* with any content */
            pax[begin + sizes[i] - 1] = '\n';
            n = begin + sizes[i];
            if (!first) n += (size_t)snprintf(pax + n, 40, "14 path=1.cls\n");
            add_text("0.cls", "5");
            add("pax", 'x', pax, n);
            add_text("wrong", "7");
            finish(folder, 1024);
            expect_open(path, "fields=cls", &f);
            cr_assert_eq(f.desc.n_samples, 2);
            cr_assert_eq(class_of(&f, 1, 0), 7);
            format_close(&f);
            add("pax", 'x', pax, n); /* one with a wrong length */
            archive[512 + begin + sizes[i] - 1] = 'x';
            add_text("1.cls", "7");
            finish(folder, 1024);
            expect_fails(path, NULL, ITER_EFORMAT, path, "a wrong length");
        }
    }
    const size_t n = (size_t)snprintf(pax, 40, "9000 path=");
    memset(pax + n, 'a', 9000 - n);
    pax[8999] = '\n';
    add("pax", 'x', pax, 9000);
    add_text("1.cls", "7");
    finish(folder, 1024);
    expect_fails(path, NULL, ITER_EFORMAT, path, "damaged at 0: a name is too long");
    make_folder_gone(folder);
}

static void add_link(const char *name, char type, const char *target) {
    uint8_t *header = add(name, type, "", 0);
    memcpy(header + 157, target, strlen(target));
    put_sum(header);
}

/* GNU tar packs a file's second name as a hard link: if its sample is lost, that must be
 * reported. */
Test(format_tar, links_are_said_as_such) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    iter_error err = {0};
    make_folder(folder);
    add_text("a/0.cls", "5");
    add_text("a/0.txt", "x");
    add_link("b/1.cls", '1', "a/0.cls");
    add_link("b/1.txt", '1', "a/0.txt");
    add_text("c/2.cls", "7");
    add_link("c/2.txt", '2', "../a/0.txt");
    add_link("d/3.txt", '2', "../a/0.txt"); /* only a symbolic link: no sample, as usual */
    finish(folder, 1024);
    expect_open(make_path(path, folder, "x.tar"), "fields=cls,txt", &f);
    cr_assert_eq(f.desc.n_samples, 3);
    cr_assert_eq(class_of(&f, 0, 0), 5);
    cr_assert_eq(class_of(&f, 2, 0), 7);
    cr_assert_eq(format_decode(&f, 1, 0, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message,
                     "'b/1': its member .cls is a hard link to 'a/0.cls', without data "
                     "of its own: tar --hard-dereference"),
              "%s", err.message);
    cr_assert_eq(format_decode(&f, 2, 1, &row, &err), ITER_EFORMAT);
    cr_assert(strstr(err.message, "'c/2': its member .txt is a symbolic link to '../a/0.txt'"),
              "%s", err.message);
    format_close(&f);
    make_folder_gone(folder);
}

/* WebDataset's rule for meta data, __[^/]*__($|/): skipped anywhere in a path. */
Test(format_tar, meta_data_is_no_sample) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    add_text("__meta__/set.cls", "1");
    add_text("0.cls", "5");
    add_text("__index__/0.cls", "9");
    add_text("1.cls", "6");
    add_text("__x__", "9");
    add_text("__y_/2.cls", "7"); /* none of these */
    finish(folder, 1024);
    expect_open(make_path(path, folder, "x.tar"), NULL, &f);
    cr_assert_eq(f.desc.n_samples, 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(class_of(&f, (uint64_t)i, 0), 5 + i);
    format_close(&f);
    make_folder_gone(folder);
}

/* Members before the first sample are skipped, whether fields are named or found. After it, such a
 * member is a sample, and fails. */
Test(format_tar, a_readme_before_the_samples) {
    static const char *const options[] = {NULL, "fields=cls", "fields=cls&index-cache=yes",
                                          "fields=cls&index-cache=yes"};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    iter_error err = {0};
    make_folder(folder);
    for (int k = 0; k < 2; k++) {
        add_text("README.md", "about this set");
        add_text("dataset_info.json", "{}");
        add_text("0.json", "{}"); /* before the wanted member, but of its sample */
        add_text("0.cls", "5");
        if (k) add_text("LICENSE.txt", "x");
        finish(folder, 1024);
        char other[MAKE_PATH_MAX];
        if (!k)
            cr_assert_eq(
                rename(make_path(path, folder, "x.tar"), make_path(other, folder, "a.tar")), 0);
    }
    for (size_t i = 0; i < COUNT(options); i++) {
        expect_open(folder, options[i], &f);
        cr_assert_eq(f.desc.n_samples, 3);
        cr_assert_eq(f.desc.n_fields, 1);
        cr_assert_eq(class_of(&f, 0, 0), 5);
        cr_assert_eq(class_of(&f, 1, 0), 5);
        cr_assert_eq(format_decode(&f, 2, 0, &row, &err), ITER_EFORMAT);
        cr_assert(strstr(err.message, "'LICENSE' has no member .cls"), "%s", err.message);
        cr_assert_eq(f.desc.max_extent_bytes[0], 2048);
        format_close(&f);
    }
    expect_open(folder, "fields=json:a&index-cache=yes", &f); /* the fields wanted decide */
    cr_assert_eq(f.desc.n_samples, 5);
    format_close(&f);
    expect_fails(folder, "fields=jpg", ITER_EFORMAT, folder, "no sample has a member .jpg");
    expect_fails(folder, "fields=jpg,png", ITER_EFORMAT, folder, ".jpg, nor any other of them");
    make_folder_gone(folder);
}

Test(format_tar, names_and_keys) {
    static const struct {
        const char *name, *field;
        size_t n_key;
    } cases[] = {{"a.jpg", "jpg", 1},     {"x.y/a.b.jpg", "b.jpg", 5},
                 {"./a.b", "b", 3},       {"a", NULL, 0},
                 {".hidden", NULL, 0},    {"a/.hidden.x", NULL, 0},
                 {"folder.x/a", NULL, 0}, {"a.", NULL, 0},
                 {"", NULL, 0},           {"__a__/b.x", NULL, 0},
                 {"____/b.x", NULL, 0},   {"___/b.x", "x", 5},
                 {"__a/b__/c.x", "x", 9}, {"__a__.x", "x", 5}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n_key = 0;
        const char *field = iter__tar_field(cases[i].name, &n_key);
        cr_assert_eq(!field, !cases[i].field, "%s", cases[i].name);
        if (!field) continue;
        cr_assert_str_eq(field, cases[i].field);
        cr_assert_eq(n_key, cases[i].n_key);
    }
}

Test(format_tar, every_allocation_failure_is_clean) {
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s =
            format_open(&iter__format_tar, GOLDEN "{pax,gnu}.tar", FIELDS, &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
        if (s == ITER_OK) {
            cr_assert_geq(n, 10);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM, "%s", err.message);
    }
}
