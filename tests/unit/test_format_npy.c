/* test_format_npy.c - arrays that numpy itself wrote (tests/golden/npy.py), folders of them, and
 * every broken file. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"

TestSuite(format_npy, .timeout = 60);

#define GOLDEN ITER_SOURCE_DIR "/tests/golden/npy/"

static void expect_fails(const char *path, const char *options, iter_status want, const char *file,
                         const char *reason) {
    opened f;
    iter_error err = {0};
    const iter_status got = format_open(&iter__format_npy, path, options, &f, &err);
    cr_assert_eq(got, want, "%s: got %d \"%s\"", reason, got, err.message);
    cr_assert_eq(err.status, want);
    cr_assert(strstr(err.message, file), "no \"%s\" in \"%s\"", file, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* 3k as an f16, for the k of the golden array: all are exact, so shifting the f32's fields is
 * enough. */
static float half_value(uint16_t h) {
    const int exponent = (h >> 10 & 31) - 15;
    float v = 1.0f + (float)(h & 1023) / 1024.0f;
    for (int i = 0; i < exponent; i++)
        v *= 2;
    return h == 0 ? 0 : v;
}

static double element(const void *row, int64_t i, iter_dtype dtype) {
    switch (dtype) {
    case ITER_U8:
    case ITER_BOOL: return ((const uint8_t *)row)[i];
    case ITER_I8: return ((const int8_t *)row)[i];
    case ITER_U16: return ((const uint16_t *)row)[i];
    case ITER_I16: return ((const int16_t *)row)[i];
    case ITER_U32: return ((const uint32_t *)row)[i];
    case ITER_I32: return ((const int32_t *)row)[i];
    case ITER_U64: return (double)((const uint64_t *)row)[i];
    case ITER_I64: return (double)((const int64_t *)row)[i];
    case ITER_F16: return (double)half_value(((const uint16_t *)row)[i]);
    case ITER_F32: return (double)((const float *)row)[i];
    case ITER_F64: return ((const double *)row)[i];
    default: return -1;
    }
}

/* The golden arrays contain factor * [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]. */
static void expect_ramp(const char *file, iter_dtype dtype, double factor) {
    char path[MAKE_PATH_MAX], text[64], due[64];
    opened f;
    iter_error err = {0};
    snprintf(path, sizeof(path), GOLDEN "%s.npy", file);
    cr_assert_eq(format_open(&iter__format_npy, path, NULL, &f, &err), 0, "%s", err.message);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_samples, 3);
    cr_assert_eq(f.desc.n_fields, 1);
    snprintf(due, sizeof(due), "%s [4]", iter_dtype_text(dtype));
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)), due);
    for (uint64_t i = 0; i < 3; i++) {
        double row[4];
        cr_assert_eq(format_row(&f, i, 0, row, &err), 0, "%s", err.message);
        for (int64_t k = 0; k < 4; k++)
            cr_assert_eq(element(row, k, dtype), factor * (double)(4 * i + (uint64_t)k), "%s",
                         file);
    }
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_npy, every_type_as_numpy_writes_it) {
    static const struct {
        const char *file;
        iter_dtype dtype;
    } cases[] = {{"u1", ITER_U8},  {"i1", ITER_I8},  {"u2", ITER_U16}, {"i2", ITER_I16},
                 {"u4", ITER_U32}, {"i4", ITER_I32}, {"u8", ITER_U64}, {"i8", ITER_I64},
                 {"f2", ITER_F16}, {"f4", ITER_F32}, {"f8", ITER_F64}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_ramp(cases[i].file, cases[i].dtype, 3);
    expect_ramp("version2", ITER_F32, 1);
    expect_ramp("version3", ITER_F32, 1);
    expect_ramp("big_endian_bytes", ITER_U8, 1); /* a single byte has no order */
    expect_ramp("big_endian", ITER_F32, 1);
    expect_ramp("fortran", ITER_F32, 1);
    expect_ramp("fortran_big_endian", ITER_I64, 1);
}

Test(format_npy, bools) {
    opened f;
    cr_assert_eq(format_open(&iter__format_npy, GOLDEN "b1.npy", NULL, &f, NULL), ITER_OK);
    cr_assert_eq(f.desc.fields[0].desc.dtype, ITER_BOOL);
    for (uint64_t i = 0; i < 3; i++) {
        uint8_t row[4];
        cr_assert_eq(format_read(&f, i, 0, row, 4), 4);
        for (uint64_t k = 0; k < 4; k++)
            cr_assert_eq(row[k], (4 * i + k) % 3 == 0);
    }
    format_close(&f);
}

Test(format_npy, ranks) {
    opened f;
    int64_t number = 0;
    float row[2];
    cr_assert_eq(format_open(&iter__format_npy, GOLDEN "vector.npy", NULL, &f, NULL), ITER_OK);
    cr_assert_eq(f.desc.fields[0].desc.n_dims, 0);
    cr_assert_eq(format_read(&f, 2, 0, &number, 8), 8);
    cr_assert_eq(number, 7);
    format_close(&f);
    cr_assert_eq(format_open(&iter__format_npy, GOLDEN "rank8.npy", NULL, &f, NULL), ITER_OK);
    cr_assert_eq(f.desc.fields[0].desc.n_dims, 7);
    cr_assert_eq(f.desc.fields[0].desc.dims[1], 2);
    cr_assert_eq(format_read(&f, 2, 0, row, 8), 8);
    cr_assert_eq(row[0], 4.0f);
    format_close(&f);
}

Test(format_npy, what_cannot_be_read_says_what_to_do) {
    static const struct {
        const char *file, *reason;
        iter_status status;
    } cases[] = {
        {"structured.npy", "structured array", ITER_EUNSUPPORTED},
        {"object.npy", "numpy type '|O'", ITER_EUNSUPPORTED},
        {"complex.npy", "numpy type '<c8'", ITER_EUNSUPPORTED},
        {"text.npy", "numpy type '<U2'", ITER_EUNSUPPORTED},
        {"rank9.npy", "more than 8 dimensions", ITER_EUNSUPPORTED},
        {"scalar.npy", "is a scalar", ITER_EFORMAT},
        {"empty.npy", "it holds no samples", ITER_EFORMAT},
        {"hollow.npy", "it holds no elements", ITER_EFORMAT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[MAKE_PATH_MAX];
        snprintf(path, sizeof(path), GOLDEN "%s", cases[i].file);
        expect_fails(path, NULL, cases[i].status, cases[i].file, cases[i].reason);
    }
}

#define LABELS "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"
#define DATA   "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }"

static void make_array(const char *folder, const char *name, const char *dictionary,
                       const void *data, size_t n) {
    uint8_t bytes[1024];
    const size_t header = make_npy_header(bytes, dictionary);
    memcpy(bytes + header, data, n);
    make_file(folder, name, bytes, header + n);
}

Test(format_npy, data_and_label) {
    char folder[MAKE_PATH_MAX], x[MAKE_PATH_MAX], options[MAKE_PATH_MAX + 16];
    const int32_t labels[4] = {7, -8, 9, 10};
    opened f;
    make_folder(folder);
    make_array(folder, "x.npy", DATA, "abcdef", 6);
    make_array(folder, "y.npy", LABELS, labels, 12);
    make_path(x, folder, "x.npy");
    snprintf(options, sizeof(options), "label=%s/y.npy", folder);
    cr_assert_eq(format_open(&iter__format_npy, x, options, &f, NULL), ITER_OK);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_fields, 2);
    cr_assert_eq(f.desc.n_extents, 2);
    cr_assert_eq(f.desc.fields[1].role, ITER_LABEL);
    cr_assert_str_eq(f.desc.fields[1].name, "label");
    char pair[2];
    int32_t label = 0;
    cr_assert_eq(format_read(&f, 1, 0, pair, 2), 2);
    cr_assert_arr_eq(pair, "cd", 2);
    cr_assert_eq(format_read(&f, 1, 1, &label, 4), 4);
    cr_assert_eq(label, -8);
    format_close(&f);

    make_array(folder, "y.npy", "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }", labels,
               16);
    expect_fails(x, options, ITER_EFORMAT, "y.npy", "has 4 samples, x.npy has 3");
    expect_fails(folder, options, ITER_EINVAL, folder, "label= is for a file");
    make_folder_gone(folder);
}

/* Data first, then the other arrays by name, labels last. */
Test(format_npy, folder_of_fields) {
    static const char *const due[] = {"data", "index", "weights", "a_label"};
    char folder[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    for (int i = 0; i < 4; i++) {
        char name[40];
        const int32_t numbers[3] = {10 * i, 10 * i + 1, 10 * i + 2};
        snprintf(name, sizeof(name), "%s.npy", due[i]);
        make_array(folder, name, LABELS, numbers, 12);
    }
    make_file(folder, "notes.txt", "x", 1);
    make_file(folder, ".hidden.npy", "x", 1);
    cr_assert_eq(format_open(&iter__format_npy, folder, NULL, &f, NULL), ITER_OK);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_fields, 4);
    for (int i = 0; i < 4; i++) {
        int32_t number = 0;
        cr_assert_str_eq(f.desc.fields[i].name, due[i]);
        cr_assert_eq(f.desc.fields[i].role, i == 3 ? ITER_LABEL : ITER_DATA);
        cr_assert_eq(format_read(&f, 2, i, &number, 4), 4);
        cr_assert_eq(number, 10 * i + 2);
    }
    format_close(&f);
    make_file(folder, "fifth.npy", "x", 1);
    expect_fails(folder, NULL, ITER_EUNSUPPORTED, folder, "has more than 4 .npy files");
    make_folder_gone(folder);
    make_folder(folder);
    expect_fails(folder, NULL, ITER_EIO, folder, "has no .npy file");
    make_array(folder, "a_name_that_is_longer_than_a_field_can_be.npy", LABELS, "12345678901", 12);
    expect_fails(folder, NULL, ITER_EUNSUPPORTED, "a_name_that", "1 to 31 letters");
    make_folder_gone(folder);
}

/* Any order of keys, either quote, blanks, Python 2's longs, no comma at the end. */
Test(format_npy, headers_as_python_may_write_them) {
    static const char *const good[] = {
        "{\"shape\":(3,2),\"descr\":\"|u1\",\"fortran_order\":False}",
        "  { 'fortran_order' : False , 'shape' : ( 3 , 2 , ) , 'descr' : 'u1' , }   \n",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3L, 2L), }",
        "{'descr': '=u1', 'fortran_order': False, 'shape': (3, 2)}",
    };
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"", "it is not a dictionary"},
        {"[]", "it is not a dictionary"},
        {"{}", "is missing"},
        {"{'descr': '|u1', 'shape': (3, 2)}", "is missing"},
        {"{'descr': '|u1', 'fortran_order': Maybe, 'shape': (3, 2)}",
         "fortran_order is neither True nor False"},
        {"{'descr': '|u1', 'descr': '|u1', 'shape': (3, 2)}", "is repeated"},
        {"{'other': 1}", "unknown"},
        {"{'descr': 5}", "no type in descr"},
        {"{'descr': '|u1", "no type in descr"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': 3}", "no shape"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, -2)}", "a number is missing"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3 2)}", "shape does not end"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2)", "it does not end"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2)} x", "something follows"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 2)}",
         "a number is missing"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999999999999, 2)}", "overflow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2147483647, 2147483647, 9)}",
         "overflow"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.npy");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        opened f;
        iter_error err = {0};
        make_array(folder, "x.npy", good[i], "abcdef", 6);
        cr_assert_eq(format_open(&iter__format_npy, path, NULL, &f, &err), 0, "%s", err.message);
        cr_assert_eq(f.desc.n_samples, 3);
        format_close(&f);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make_array(folder, "x.npy", bad[i].text, "abcdef", 6);
        expect_fails(path, NULL, ITER_EFORMAT, path, bad[i].reason);
    }
    make_folder_gone(folder);
}

/* ---- Fortran order --------------------------------------------------------------------------- */

/* numpy's file; its rows are kept in memory, in C order. */
Test(format_npy, fortran_order_of_rank_4) {
    opened f;
    uint16_t row[24], *again;
    const void *base;
    size_t stride;
    cr_assert_eq(format_open(&iter__format_npy, GOLDEN "fortran_rank4.npy", NULL, &f, NULL), 0);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_samples, 5);
    cr_assert_eq(f.desc.n_extents, 0);
    cr_assert_eq(f.desc.n_files, 0);
    cr_assert_eq(f.ops->resident(f.state, 0, &base, &stride), ITER_OK);
    cr_assert_eq(stride, sizeof(row));
    for (uint64_t i = 0; i < 5; i++) {
        cr_assert_eq(format_row(&f, i, 0, row, NULL), ITER_OK);
        again = (uint16_t *)(uintptr_t)base + i * 24;
        for (uint64_t k = 0; k < 24; k++) {
            cr_assert_eq(row[k], 24 * i + k);
            cr_assert_eq(again[k], 24 * i + k);
        }
    }
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* The value of element k of row n, as bytes of any width. */
static uint64_t mixed(uint64_t n, uint64_t k) {
    return (n * 1000003 + k + 1) * 0x9e3779b97f4a7c15u;
}

/* Makes an array [dims] of elements of `width` bytes in Fortran order, by the definition: the first
 * index runs fastest. */
static void make_columns(const char *folder, const uint64_t dims[4], size_t width) {
    static const char *const types[] = {"", "|u1", "<u2", "", "<u4", "", "", "", "<u8"};
    const uint64_t n = dims[0] * dims[1] * dims[2] * dims[3];
    char text[128];
    uint8_t *bytes = malloc(1024 + n * width);
    snprintf(text, sizeof(text),
             "{'descr': '%s', 'fortran_order': True, 'shape': (%d, %d, %d, %d), }", types[width],
             (int)dims[0], (int)dims[1], (int)dims[2], (int)dims[3]);
    uint8_t *at = bytes + make_npy_header(bytes, text);
    for (uint64_t l = 0; l < dims[3]; l++)
        for (uint64_t k = 0; k < dims[2]; k++)
            for (uint64_t j = 0; j < dims[1]; j++)
                for (uint64_t i = 0; i < dims[0]; i++, at += width) {
                    const uint64_t value = mixed(i, (j * dims[2] + k) * dims[3] + l);
                    memcpy(at, &value, width);
                }
    make_file(folder, "x.npy", bytes, (size_t)(at - bytes));
    free(bytes);
}

/* Long and short columns, more and fewer of them than are read at a time, of every width. */
Test(format_npy, fortran_order_of_any_shape) {
    static const struct {
        uint64_t dims[4];
        size_t width;
    } cases[] = {{{3, 5, 7, 11}, 1},    {{1, 50, 70, 3}, 8},  {{9000, 3, 5, 9}, 2},
                 {{70001, 1, 1, 2}, 1}, {{4100, 5, 3, 5}, 4}, {{2100, 7, 1, 11}, 8},
                 {{4095, 2, 3, 1}, 1},  {{300, 90, 40, 1}, 2}};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_path(path, folder, "x.npy");
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const uint64_t *dims = cases[c].dims, n_columns = dims[1] * dims[2] * dims[3];
        uint8_t *row = malloc(n_columns * cases[c].width);
        opened f;
        make_columns(folder, dims, cases[c].width);
        cr_assert_eq(format_open(&iter__format_npy, path, NULL, &f, NULL), ITER_OK);
        for (uint64_t i = 0; i < dims[0]; i++) {
            f.ops->index_row(f.state, i, 0, row);
            for (uint64_t k = 0; k < n_columns; k++) {
                const uint64_t value = mixed(i, k);
                cr_assert_arr_eq(row + k * cases[c].width, &value, cases[c].width);
            }
        }
        format_close(&f);
        free(row);
    }
    make_folder_gone(folder);
    cr_assert_eq(iter__alloc_live(), 0);
}

Test(format_npy, fortran_order_without_memory) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_columns(folder, (const uint64_t[]){3, 5, 7, 11}, 4);
    make_path(path, folder, "x.npy");
    bool refused = false;
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s = format_open(&iter__format_npy, path, NULL, &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
        if (s == ITER_OK) break;
        cr_assert_eq(s, ITER_ENOMEM, "allocation %ld: %d %s", n, s, err.message);
        refused |= strstr(err.message, "Fortran order, and no memory for its 4620 bytes") != NULL;
    }
    cr_assert(refused);
    make_folder_gone(folder);
}

/* One array of a folder is in memory, the others are in their files: the extents have no gap. */
Test(format_npy, both_orders_side_by_side) {
    char folder[MAKE_PATH_MAX];
    opened f;
    uint8_t row[2];
    int32_t label;
    make_folder(folder);
    make_array(folder, "data.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2), }",
               "acebdf", 6);
    make_array(folder, "label.npy", LABELS, (const int32_t[]){7, -8, 9}, 12);
    cr_assert_eq(format_open(&iter__format_npy, folder, NULL, &f, NULL), ITER_OK);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_extents, 1);
    cr_assert_eq(f.desc.fields[0].extent, ITER_FROM_INDEX);
    cr_assert_eq(f.desc.fields[1].extent, 0);
    cr_assert_eq(format_row(&f, 1, 0, row, NULL), ITER_OK);
    cr_assert_arr_eq(row, "cd", 2);
    cr_assert_eq(format_row(&f, 2, 1, &label, NULL), ITER_OK);
    cr_assert_eq(label, 9);
    format_close(&f);
    make_folder_gone(folder);
}

/* ---- Images ---------------------------------------------------------------------------------- */

Test(format_npy, layout_names_the_axes_of_the_first_array) {
    char folder[MAKE_PATH_MAX], text[64];
    opened f;
    const uint8_t zeros[512] = {0};
    make_folder(folder);
    make_array(folder, "data.npy",
               "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 6, 5, 3), }", zeros, 270);
    make_array(folder, "mask.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }",
               zeros, 6);
    cr_assert_eq(format_open(&iter__format_npy, folder, "layout=hwc", &f, NULL), ITER_OK);
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [6, 5, 3] \"HWC\"");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[1].desc, text, sizeof(text)), "u8 [2]");
    format_close(&f);
    expect_fails(folder, "layout=chw", ITER_EINVAL, "data.npy", "images of 6 channels");
    expect_fails(folder, "layout=nhwc", ITER_EINVAL, "layout", "nhwc");
    make_folder_gone(folder);
}

Test(format_npy, broken_files_say_file_and_reason) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t bytes[256];
    make_folder(folder);
    make_path(path, folder, "x.npy");
    expect_fails(path, NULL, ITER_EIO, path, "No such file or directory");
    make_file(folder, "x.npy", "", 0);
    expect_fails(path, NULL, ITER_EFORMAT, path, "is empty");
    make_file(folder, "x.npy", "\x93NUMPZ\x01\x00xxxx", 12);
    expect_fails(path, NULL, ITER_EFORMAT, path, "is not a .npy file");
    make_file(folder, "x.npy", "\x93NUMPY\x04\x00xxxx", 12);
    expect_fails(path, NULL, ITER_EUNSUPPORTED, path, "version 4.0");
    make_file(folder, "x.npy", "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
    expect_fails(path, NULL, ITER_EFORMAT, path, "header of 4294967295 bytes is too long");
    make_gzip(folder, "x.npy", "abc", 3);
    expect_fails(path, NULL, ITER_EUNSUPPORTED, path, "is gzipped");
    const size_t n = make_npy_header(bytes, DATA);
    memcpy(bytes + n, "abcdefg", 7);
    for (size_t cut = 1; cut < n; cut++) {
        make_file(folder, "x.npy", bytes, cut);
        expect_fails(path, NULL, ITER_EFORMAT, path, cut < 8 ? "is not a .npy file" : "truncated");
    }
    make_file(folder, "x.npy", bytes, n + 5);
    expect_fails(path, NULL, ITER_EFORMAT, path, "its header says 3 samples of 2 bytes");
    make_file(folder, "x.npy", bytes, n + 7);
    expect_fails(path, NULL, ITER_EFORMAT, path, "its header says 3 samples of 2 bytes");
    make_subfolder(folder, "y.npy");
    char options[MAKE_PATH_MAX + 16];
    snprintf(options, sizeof(options), "label=%s/y.npy", folder);
    make_file(folder, "x.npy", bytes, n + 6);
    expect_fails(path, options, ITER_EIO, "y.npy", "is a directory");
    make_folder_gone(folder);
}

Test(format_npy, unreadable_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    if (geteuid() == 0) cr_skip_test("root reads every file");
    make_folder(folder);
    make_array(folder, "x.npy", DATA, "abcdef", 6);
    cr_assert_eq(chmod(make_path(path, folder, "x.npy"), 0), 0);
    expect_fails(path, NULL, ITER_EIO, path, "Permission denied");
    make_folder_gone(folder);
}

Test(format_npy, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    make_array(folder, "data.npy", DATA, "abcdef", 6);
    make_array(folder, "label.npy", LABELS, "abcdefghijkl", 12);
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s = format_open(&iter__format_npy, folder, NULL, &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
        if (s == ITER_OK) {
            cr_assert_geq(n, 8);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM);
        cr_assert_eq(err.status, ITER_ENOMEM);
    }
    make_folder_gone(folder);
}
