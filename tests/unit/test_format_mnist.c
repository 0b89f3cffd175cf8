/* test_format_mnist.c - IDX: every type and rank, plain and gzipped, and every broken file. */
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

TestSuite(format_mnist, .timeout = 60);

#define ROWS 5u
#define SIDE 4u

/* Makes images u8 [5, 4, 4] with byte k = 3k + 1, and labels u8 [5] = 9, 1, 8, 0, 2. */
static const uint8_t five_labels[ROWS] = {9, 1, 8, 0, 2};

static size_t images_bytes(uint8_t out[128]) {
    const size_t n = make_idx_header(out, 0x08, 3, (const uint32_t[]){ROWS, SIDE, SIDE});
    for (size_t k = 0; k < ROWS * SIDE * SIDE; k++)
        out[n + k] = (uint8_t)(3 * k + 1);
    return n + ROWS * SIDE * SIDE;
}

static size_t labels_bytes(uint8_t out[128]) {
    const size_t n = make_idx_header(out, 0x08, 1, (const uint32_t[]){ROWS});
    memcpy(out + n, five_labels, ROWS);
    return n + ROWS;
}

typedef void make_function(const char *, const char *, const void *, size_t);

static void make_pair(const char *folder, const char *images, const char *labels,
                      make_function *make) {
    uint8_t bytes[128];
    make(folder, images, bytes, images_bytes(bytes));
    make(folder, labels, bytes, labels_bytes(bytes));
}

/* Reads the row of a field, from memory or by its extent. */
static void read_row(const opened *f, uint64_t index, int field, void *out, size_t n) {
    const void *base = NULL;
    size_t stride = 0;
    cr_assert_eq(f->ops->resident(f->state, field, &base, &stride), ITER_OK);
    if (base) {
        uint8_t other[64];
        cr_assert_eq(stride, n);
        memcpy(out, (const char *)base + index * stride, n);
        f->ops->index_row(f->state, index, field, other);
        cr_assert_arr_eq(out, other, n);
    } else {
        cr_assert_eq(f->desc.fields[field].extent, field);
        cr_assert_eq(iter_desc_bytes(&f->desc.fields[field].desc), n);
        cr_assert_eq(format_row(f, index, field, out, NULL), ITER_OK);
    }
}

static void expect_five(const opened *f) {
    cr_assert_null(format_fault(f, 100));
    cr_assert_eq(f->desc.n_samples, ROWS);
    cr_assert_eq(f->desc.n_fields, 2);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint8_t image[SIDE * SIDE], label = 77;
        read_row(f, i, 0, image, sizeof(image));
        read_row(f, i, 1, &label, 1);
        cr_assert_eq(label, five_labels[i]);
        for (uint32_t k = 0; k < SIDE * SIDE; k++)
            cr_assert_eq(image[k], (uint8_t)(3 * (i * SIDE * SIDE + k) + 1));
    }
}

static void expect_fails(const char *path, const char *options, iter_status want, const char *file,
                         const char *reason) {
    opened f;
    iter_error err = {0};
    const iter_status got = format_open(&iter__format_mnist, path, options, &f, &err);
    cr_assert_eq(got, want, "%s: got %d \"%s\"", reason, got, err.message);
    cr_assert_eq(err.status, want);
    cr_assert(strstr(err.message, file), "no \"%s\" in \"%s\"", file, err.message);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

/* All names under which the set is published, plain and gzipped: the same samples and the same
 * identity. */
Test(format_mnist, published_names) {
    static const struct {
        const char *images, *labels, *options;
        make_function *make;
    } cases[] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", NULL, make_file},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", NULL, make_file},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", NULL, make_gzip},
        {"t10k-images.idx3-ubyte.gz", "t10k-labels.idx1-ubyte.gz", "split=test", make_gzip},
        {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "split=test", make_file},
    };
    uint64_t identity[5];
    for (size_t c = 0; c < 5; c++) {
        char folder[MAKE_PATH_MAX];
        opened f;
        iter_error err;
        make_folder(folder);
        make_pair(folder, cases[c].images, cases[c].labels, cases[c].make);
        cr_assert_eq(format_open(&iter__format_mnist, folder, cases[c].options, &f, &err), 0, "%s",
                     err.message);
        expect_five(&f);
        cr_assert_eq(f.desc.n_extents, cases[c].make == make_file);
        cr_assert_eq(f.desc.n_files, cases[c].make == make_file);
        cr_assert_str_eq(f.desc.split, cases[c].options ? "test" : "train");
        cr_assert_eq(f.desc.n_classes, 10);
        identity[c] = f.desc.identity;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0);
        make_folder_gone(folder);
    }
    cr_assert_eq(identity[0], identity[2]);
    cr_assert_neq(identity[0], identity[4]);
}

Test(format_mnist, fields_are_as_documented) {
    char folder[MAKE_PATH_MAX], text[64];
    opened f;
    make_folder(folder);
    make_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", make_file);
    cr_assert_eq(format_open(&iter__format_mnist, folder, NULL, &f, NULL), ITER_OK);
    cr_assert_str_eq(f.desc.fields[0].name, "data");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [4, 4] \"HW\"");
    cr_assert_str_eq(f.desc.fields[1].name, "label");
    cr_assert_eq(f.desc.fields[1].role, ITER_LABEL);
    cr_assert_eq(f.desc.fields[1].desc.n_dims, 0);
    cr_assert_eq(f.desc.fields[1].extent, ITER_FROM_INDEX);
    format_close(&f);
    make_folder_gone(folder);
}

/* Two values of each type as big-endian bytes, and as numbers: written by hand from the types'
 * definitions. */
static const struct type_row {
    unsigned code;
    iter_dtype dtype;
    size_t bytes;
    uint8_t stored[16];
    double values[2];
} types[] = {
    {0x08, ITER_U8, 1, {0x00, 0xfe}, {0, 254}},
    {0x09, ITER_I8, 1, {0x7f, 0x80}, {127, -128}},
    {0x0b, ITER_I16, 2, {0x01, 0x02, 0xff, 0xfe}, {258, -2}},
    {0x0c, ITER_I32, 4, {0x00, 0x01, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff}, {65536, -1}},
    {0x0d, ITER_F32, 4, {0x3f, 0xc0, 0, 0, 0xc1, 0x20, 0, 0}, {1.5, -10}},
    {0x0e,
     ITER_F64,
     8,
     {0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18, 0xbf, 0xf0},
     {3.141592653589793, -1}},
};

static double value_of(const void *p, iter_dtype dtype) {
    switch (dtype) {
    case ITER_U8: return *(const uint8_t *)p;
    case ITER_I8: return *(const int8_t *)p;
    case ITER_I16: return *(const int16_t *)p;
    case ITER_I32: return *(const int32_t *)p;
    case ITER_F32: return (double)*(const float *)p;
    default: return *(const double *)p;
    }
}

Test(format_mnist, every_type_plain_and_gzipped) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        for (int gzip = 0; gzip < 2; gzip++) {
            uint8_t bytes[32];
            opened f;
            size_t n = make_idx_header(bytes, types[t].code, 1, (const uint32_t[]){2});
            memcpy(bytes + n, types[t].stored, 2 * types[t].bytes);
            (gzip ? make_gzip : make_file)(folder, "x", bytes, n + 2 * types[t].bytes);
            cr_assert_eq(
                format_open(&iter__format_mnist, make_path(path, folder, "x"), NULL, &f, NULL),
                ITER_OK);
            cr_assert_null(format_fault(&f, 10));
            cr_assert_eq(f.desc.fields[0].desc.dtype, types[t].dtype);
            cr_assert_eq(f.desc.n_extents, !gzip, "a plain file is held in memory");
            cr_assert_eq(f.desc.fields[0].desc.n_dims, 0);
            for (uint64_t i = 0; i < 2; i++) {
                double row;
                read_row(&f, i, 0, &row, types[t].bytes);
                cr_assert_eq(value_of(&row, types[t].dtype), types[t].values[i]);
            }
            format_close(&f);
        }
    }
    make_folder_gone(folder);
}

Test(format_mnist, every_rank) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    const uint32_t dims[8] = {3, 2, 1, 2, 1, 1, 2, 1};
    make_folder(folder);
    make_path(path, folder, "x");
    for (unsigned rank = 1; rank <= 8; rank++) {
        uint8_t bytes[128];
        opened f;
        size_t n = make_idx_header(bytes, 0x08, rank, dims), size = 1;
        for (unsigned i = 0; i < rank; i++)
            size *= dims[i];
        for (size_t i = 0; i < size; i++)
            bytes[n + i] = (uint8_t)(200 - i);
        make_file(folder, "x", bytes, n + size);
        cr_assert_eq(format_open(&iter__format_mnist, path, NULL, &f, NULL), ITER_OK);
        cr_assert_null(format_fault(&f, 10));
        cr_assert_eq(f.desc.fields[0].desc.n_dims, (int)rank - 1);
        for (unsigned i = 1; i < rank; i++)
            cr_assert_eq(f.desc.fields[0].desc.dims[i - 1], dims[i]);
        uint8_t row[8];
        read_row(&f, 2, 0, row, size / 3);
        cr_assert_eq(row[0], 200 - 2 * size / 3);
        cr_assert_eq(row[size / 3 - 1], 200 - (size - 1));
        format_close(&f);
    }
    make_folder_gone(folder);
}

Test(format_mnist, any_pair_of_files) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], options[2 * MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    make_pair(folder, "emnist-images", "emnist-labels", make_file);
    cr_assert_eq(format_open(&iter__format_mnist, folder,
                             "images=emnist-images&labels=emnist-labels", &f, NULL),
                 ITER_OK);
    expect_five(&f);
    cr_assert_str_eq(f.desc.split, "");
    format_close(&f);
    snprintf(options, sizeof(options), "labels=%s", make_path(path, folder, "emnist-labels"));
    cr_assert_eq(format_open(&iter__format_mnist, make_path(path, folder, "emnist-images"), options,
                             &f, NULL),
                 ITER_OK);
    expect_five(&f);
    format_close(&f);
    expect_fails(path, "images=other", ITER_EINVAL, path, "is a file");
    expect_fails(folder, "images=other", ITER_EIO, "other", "No such file or directory");
    make_folder_gone(folder);
}

/* Masks, for example: if labels are long, a plain file is read by extents, too. */
Test(format_mnist, long_labels_stay_in_their_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], options[2 * MAKE_PATH_MAX];
    uint8_t bytes[1024], row[200];
    opened f;
    make_folder(folder);
    size_t n = make_idx_header(bytes, 0x08, 3, (const uint32_t[]){2, 2, 2});
    make_file(folder, "images", bytes, n + 8);
    n = make_idx_header(bytes, 0x0b, 3, (const uint32_t[]){2, 10, 10});
    for (int i = 0; i < 400; i++)
        bytes[n + i] = (uint8_t)i;
    make_file(folder, "masks", bytes, n + 400);
    snprintf(options, sizeof(options), "labels=%s", make_path(path, folder, "masks"));
    cr_assert_eq(
        format_open(&iter__format_mnist, make_path(path, folder, "images"), options, &f, NULL),
        ITER_OK);
    cr_assert_null(format_fault(&f, 10));
    cr_assert_eq(f.desc.n_extents, 2);
    read_row(&f, 1, 1, row, 200);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(row[i], (uint8_t)(200 + (i ^ 1)), "big-endian i16, byte %d", i);
    format_close(&f);
    make_folder_gone(folder);
}

/* The names of the axes. If the dimensions do not fit, the refusal has the numbers. */
Test(format_mnist, layout_names_the_axes) {
    static const struct {
        unsigned rank;
        uint32_t dims[5];
        const char *options, *shape, *reason;
    } cases[] = {
        {4, {2, 6, 5, 3}, "layout=hwc", "u8 [6, 5, 3] \"HWC\"", NULL},
        {4, {2, 3, 6, 5}, "layout=chw", "u8 [3, 6, 5] \"CHW\"", NULL},
        {4, {2, 6, 5, 3}, NULL, "u8 [6, 5, 3]", NULL},
        {4, {2, 6, 5, 3}, "layout=none", "u8 [6, 5, 3]", NULL},
        {3, {2, 6, 5}, "layout=hwc", "u8 [6, 5] \"HW\"", NULL},
        {3, {2, 6, 5}, "layout=chw", "u8 [6, 5] \"HW\"", NULL},
        {4, {2, 8, 8, 7}, "layout=hwc", "u8 [8, 8, 7] \"HWC\"", NULL},
        {4, {2, 3, 6, 5}, "layout=hwc", NULL, "images of 5 channels of its 3 x 6 x 5; layout=chw"},
        {4, {2, 6, 5, 3}, "layout=chw", NULL, "images of 6 channels of its 6 x 5 x 3; layout=hwc"},
        {2, {2, 6}, "layout=hwc", NULL, "wants images of 2 or 3 dimensions after the first, got 1"},
        {5, {2, 2, 2, 2, 2}, "layout=chw", NULL, "dimensions after the first, got 4"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], text[64];
    make_folder(folder);
    make_path(path, folder, "x");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[1024] = {0};
        opened f;
        size_t n = 1;
        for (unsigned d = 0; d < cases[i].rank; d++)
            n *= cases[i].dims[d];
        const size_t head = make_idx_header(bytes, 0x08, cases[i].rank, cases[i].dims);
        make_file(folder, "x", bytes, head + n);
        if (cases[i].reason) {
            expect_fails(path, cases[i].options, ITER_EINVAL, path, cases[i].reason);
            continue;
        }
        cr_assert_eq(format_open(&iter__format_mnist, path, cases[i].options, &f, NULL), ITER_OK);
        cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                         cases[i].shape);
        format_close(&f);
    }
    make_folder_gone(folder);
}

static void make_broken(const char *folder, make_function *make, size_t at, uint8_t value,
                        size_t size) {
    uint8_t bytes[256] = {0};
    images_bytes(bytes);
    bytes[at] = value;
    make(folder, "x", bytes, size);
}

Test(format_mnist, broken_files_say_file_and_reason) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    const size_t full = 16 + ROWS * SIDE * SIDE;
    make_folder(folder);
    make_path(path, folder, "x");
    expect_fails(path, NULL, ITER_EIO, path, "No such file or directory");
    expect_fails(folder, NULL, ITER_EIO, folder, "has no file train-images-idx3-ubyte");
    make_subfolder(folder, "sub");
    expect_fails(folder, "images=sub", ITER_EIO, "sub", "is a directory");
    for (int gzip = 0; gzip < 2; gzip++) {
        make_function *make = gzip ? make_gzip : make_file;
        make_broken(folder, make, 0, 0, 0);
        expect_fails(path, NULL, ITER_EFORMAT, path, "is empty");
        make_broken(folder, make, 0, 0, 3);
        expect_fails(path, NULL, ITER_EFORMAT, path, "is not an IDX file");
        make_broken(folder, make, 1, 8, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "begins with 00 08");
        make_broken(folder, make, 2, 0x0a, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "type code 0x0a is unknown");
        make_broken(folder, make, 3, 0, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "has 0 dimensions");
        make_broken(folder, make, 3, 9, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "has 9 dimensions");
        make_broken(folder, make, 0, 0, 15);
        expect_fails(path, NULL, ITER_EFORMAT, path, "is truncated: 11 of 12 bytes");
        make_broken(folder, make, 7, 0, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "it holds no samples");
        make_broken(folder, make, 11, 0, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "dimension 1 is 0");
        make_broken(folder, make, 8, 0x80, full);
        expect_fails(path, NULL, ITER_EFORMAT, path, "dimensions overflow");
    }
    make_broken(folder, make_file, 0, 0, full - 1);
    expect_fails(path, NULL, ITER_EFORMAT, path,
                 "says 5 samples of 16 bytes, so 96 bytes with the header; the file has 95");
    make_broken(folder, make_file, 0, 0, full + 1);
    expect_fails(path, NULL, ITER_EFORMAT, path, "the file has 97");
    make_broken(folder, make_gzip, 0, 0, full - 1);
    expect_fails(path, NULL, ITER_EFORMAT, path, "is truncated: 79 of 80 bytes are there");
    make_broken(folder, make_gzip, 0, 0, full + 1);
    expect_fails(path, NULL, ITER_EFORMAT, path, "has more than the 96 bytes");
    make_broken(folder, make_gzip, 4, 0x7f, full); /* refused before memory is allocated */
    expect_fails(path, NULL, ITER_EFORMAT, path, "gzip data of its size can hold at most");
    make_folder_gone(folder);
}

/* Four dimensions of 2^31 - 1 each: the product does not fit 64 bits. */
Test(format_mnist, absurd_sizes_overflow) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t bytes[64] = {0};
    const uint32_t m = INT32_MAX;
    make_folder(folder);
    make_path(path, folder, "x");
    const size_t n = make_idx_header(bytes, 0x0e, 4, (const uint32_t[]){m, m, m, m});
    make_file(folder, "x", bytes, n);
    expect_fails(path, NULL, ITER_EFORMAT, path, "dimensions overflow");
    const size_t n2 = make_idx_header(bytes, 0x08, 3, (const uint32_t[]){UINT32_MAX, m, 2});
    make_file(folder, "x", bytes, n2);
    expect_fails(path, NULL, ITER_EFORMAT, path, "dimensions overflow");
    make_folder_gone(folder);
}

Test(format_mnist, counts_of_images_and_labels) {
    char folder[MAKE_PATH_MAX];
    uint8_t bytes[128];
    make_folder(folder);
    make_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", make_file);
    const size_t n = make_idx_header(bytes, 0x08, 1, (const uint32_t[]){4});
    memset(bytes + n, 1, 4);
    make_file(folder, "train-labels-idx1-ubyte", bytes, n + 4);
    expect_fails(folder, NULL, ITER_EFORMAT, "train-labels-idx1-ubyte",
                 "has 4 labels, train-images-idx3-ubyte has 5 images");
    make_folder_gone(folder);
}

static size_t load(const char *path, uint8_t *out, size_t capacity) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    const size_t n = fread(out, 1, capacity, file);
    fclose(file);
    return n;
}

/* Truncated anywhere, with garbage after the end, or with a flipped bit: never accepted as if it
 * were right. */
Test(format_mnist, damaged_gzip) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t zipped[512], bytes[512];
    make_folder(folder);
    make_broken(folder, make_gzip, 0, 0, 96);
    const size_t n = load(make_path(path, folder, "x"), zipped, sizeof(zipped));
    for (size_t cut = 3; cut < n; cut++) {
        make_file(folder, "x", zipped, cut);
        expect_fails(path, NULL, ITER_EFORMAT, path, "");
    }
    memcpy(bytes, zipped, n);
    bytes[n - 5] ^= 1; /* the checksum */
    make_file(folder, "x", bytes, n);
    expect_fails(path, NULL, ITER_EFORMAT, path, "gzip data is corrupt");
    memcpy(bytes, zipped, n);
    bytes[n] = bytes[n + 1] = 'z';
    make_file(folder, "x", bytes, n + 2);
    expect_fails(path, NULL, ITER_EFORMAT, path, "gzip data is corrupt");
    make_folder_gone(folder);
}

/* RFC 1952: consecutive members are one file. */
Test(format_mnist, gzip_of_two_members) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t images[128], zipped[512];
    opened f;
    make_folder(folder);
    make_path(path, folder, "x");
    const size_t n = images_bytes(images);
    make_gzip(folder, "x", images, 30);
    const size_t first = load(path, zipped, sizeof(zipped));
    make_gzip(folder, "x", images + 30, n - 30);
    const size_t both = first + load(path, zipped + first, sizeof(zipped) - first);
    make_file(folder, "x", zipped, both);
    cr_assert_eq(format_open(&iter__format_mnist, path, NULL, &f, NULL), ITER_OK);
    uint8_t row[16];
    read_row(&f, 4, 0, row, 16);
    cr_assert_eq(row[15], (uint8_t)(3 * 79 + 1));
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_mnist, unreadable_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    if (geteuid() == 0) cr_skip_test("root reads every file");
    make_folder(folder);
    make_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", make_file);
    cr_assert_eq(chmod(make_path(path, folder, "train-images-idx3-ubyte"), 0), 0);
    expect_fails(folder, NULL, ITER_EIO, path, "Permission denied");
    make_folder_gone(folder);
}

static void walk_allocations(const char *folder) {
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s = format_open(&iter__format_mnist, folder, NULL, &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
        if (s == ITER_OK) {
            cr_assert_geq(n, 5);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM, "allocation %ld: %d %s", n, s, err.message);
        cr_assert_eq(err.status, ITER_ENOMEM);
    }
}

Test(format_mnist, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    make_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", make_file);
    walk_allocations(folder);
    make_folder_gone(folder);
    make_folder(folder);
    make_pair(folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", make_gzip);
    walk_allocations(folder);
    make_folder_gone(folder);
}

/* Known facts of the set: the first labels, how many there are of each digit, and the mean of all
 * pixels, 0.1307 of 255. */
Test(format_mnist, the_published_set) {
    static const uint64_t due[10] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    static const uint8_t first[5] = {5, 0, 4, 1, 9};
    char folder[MAKE_PATH_MAX];
    const char *root = getenv("ITER_DATA");
    struct stat st;
    snprintf(folder, sizeof(folder), "%s/mnist", root ? root : "data");
    if (stat(folder, &st) != 0) cr_skip_test("no mnist in $ITER_DATA or ./data");
    opened f;
    iter_error err = {0};
    cr_assert_eq(format_open(&iter__format_mnist, folder, NULL, &f, &err), 0, "%s", err.message);
    cr_assert_null(format_fault(&f, 60000));
    cr_assert_eq(f.desc.n_samples, 60000);
    cr_assert_eq(f.desc.n_classes, 10);
    uint64_t counts[10] = {0}, sum = 0;
    for (uint64_t i = 0; i < 60000; i++) {
        uint8_t label = 0, image[784];
        f.ops->index_row(f.state, i, 1, &label);
        if (i < 5) cr_assert_eq(label, first[i]);
        counts[label]++;
        if (f.desc.n_extents == 0) {
            f.ops->index_row(f.state, i, 0, image);
        } else {
            cr_assert_eq(format_read(&f, i, 0, image, 784), 784);
        }
        for (int k = 0; k < 784; k++)
            sum += image[k];
    }
    cr_assert_arr_eq(counts, due, sizeof(due));
    cr_assert_float_eq((double)sum / (60000.0 * 784 * 255), 0.1307, 0.00005);
    format_close(&f);
    cr_assert_eq(format_open(&iter__format_mnist, folder, "split=test", &f, NULL), ITER_OK);
    cr_assert_eq(f.desc.n_samples, 10000);
    format_close(&f);
}
