/*
 * test_format_synthetic.c - generated samples, against numbers that tests/golden/synthetic.py
 * computed with its own Philox and libm.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/hash.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/make_data.h"

TestSuite(format_synthetic, .timeout = 280);

/* Rows of one sample; field f at row[f]. */
typedef struct sample {
    _Alignas(64) uint8_t row[3][16384];
} sample;

static void get(const opened *f, uint64_t index, sample *out) {
    iter_tensor rows[ITER_MAX_FIELDS];
    memset(out, 0xa5, sizeof(*out));
    for (int i = 0; i < f->desc.n_fields; i++) {
        const iter_desc *one = &f->desc.fields[i].desc;
        iter_desc many = {.dtype = one->dtype, .n_dims = one->n_dims + 1, .dims = {1}};
        for (int d = 0; d < one->n_dims; d++)
            many.dims[d + 1] = one->dims[d];
        many.capacity = 0;
        rows[i] = iter_tensor_dense(&many, out->row[i]);
        rows[i].strides[0] = (int64_t)(iter_desc_bytes(one) / iter_dtype_bytes(one->dtype));
        cr_assert_leq(iter_desc_bytes(one), sizeof(out->row[i]));
    }
    cr_assert_eq(f->ops->get(f->state, 1, &index, rows, NULL, NULL), ITER_OK);
}

static void open_ok(const char *path, const char *options, opened *f) {
    iter_error err = {0};
    cr_assert_eq(format_open(&iter__format_synthetic, path, options, f, &err), 0, "%s",
                 err.message);
    cr_assert_null(format_fault(f, 10));
    cr_assert_eq(f->desc.n_extents, 0);
    cr_assert_eq(f->desc.n_files, 0);
}

static void expect_fails(const char *path, const char *options, const char *reason) {
    opened f;
    iter_error err = {0};
    cr_assert_eq(format_open(&iter__format_synthetic, path, options, &f, &err), ITER_EINVAL);
    cr_assert_eq(err.status, ITER_EINVAL);
    cr_assert(strstr(err.message, reason), "no \"%s\" in \"%s\"", reason, err.message);
    cr_assert_eq(iter__alloc_live(), 0);
}

static void expect_desc(const opened *f, int field, const char *due) {
    char text[64];
    cr_assert_str_eq(iter_desc_text(&f->desc.fields[field].desc, text, sizeof(text)), due);
}

static uint64_t fnv(const void *bytes, size_t n) {
    return iter__fnv1a(ITER_FNV_START, bytes, n);
}

Test(format_synthetic, cifar_pixels_and_labels) {
    static const struct {
        const char *options;
        uint64_t index;
        uint8_t first[8], last[4];
        uint64_t fnv;
        uint8_t label10, label100;
    } cases[] = {
        {"seed=0",
         0,
         {92, 124, 40, 129, 238, 253, 24, 100},
         {166, 148, 199, 55},
         0x41147d7cf9a9db7d,
         9,
         91},
        {"seed=0",
         49999,
         {203, 51, 144, 218, 197, 53, 9, 65},
         {159, 74, 21, 149},
         0x8336d5cd2ce12bde,
         6,
         68},
        {"seed=7&n=9000000000",
         5000000000,
         {50, 167, 253, 233, 54, 204, 182, 231},
         {42, 31, 43, 183},
         0x7df66ecb47ca99b8,
         9,
         98},
    };
    static sample s;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        opened f;
        open_ok("cifar10", cases[c].options, &f);
        expect_desc(&f, 0, "u8 [3, 32, 32] \"CHW\"");
        get(&f, cases[c].index, &s);
        cr_assert_arr_eq(s.row[0], cases[c].first, 8);
        cr_assert_arr_eq(s.row[0] + 3068, cases[c].last, 4);
        cr_assert_eq(fnv(s.row[0], 3072), cases[c].fnv);
        cr_assert_eq(s.row[0][3072], 0xa5); /* nothing past the row */
        cr_assert_eq(s.row[1][0], cases[c].label10);
        cr_assert_eq(s.row[1][1], 0xa5);
        format_close(&f);
        open_ok("cifar100", cases[c].options, &f);
        cr_assert_eq(f.desc.n_fields, 3);
        get(&f, cases[c].index, &s);
        cr_assert_eq(fnv(s.row[0], 3072), cases[c].fnv);
        cr_assert_eq(s.row[1][0], cases[c].label100);
        cr_assert_eq(s.row[2][0], cases[c].label100 / 5);
        format_close(&f);
    }
}

Test(format_synthetic, mnist_rows_end_inside_a_run_of_blocks) {
    static sample s;
    opened f;
    open_ok("mnist", "seed=3", &f);
    cr_assert_eq(f.desc.n_samples, 60000);
    expect_desc(&f, 0, "u8 [28, 28] \"HW\"");
    get(&f, 12, &s);
    cr_assert_eq(fnv(s.row[0], 784), 0xd95513f35d249e04);
    cr_assert_eq(s.row[0][784], 0xa5);
    format_close(&f);
}

Test(format_synthetic, normal_numbers) {
    static const double due[10] = {0.89182750884911222, -2.6310474557117409,  -0.62115789189263693,
                                   -2.9807156222450755, -0.55685958601975527, -0.20956673623890551,
                                   1.0546953165042734,  0.11624322679384554,  1.2370688405588446,
                                   1.9531597365357389};
    static sample s;
    opened f;
    double doubles[10];
    float floats[10];
    open_ok("", "shape=10&dtype=f64&n=5&seed=1", &f);
    get(&f, 2, &s);
    memcpy(doubles, s.row[0], sizeof(doubles));
    for (int i = 0; i < 10; i++)
        cr_assert_float_eq(doubles[i], due[i], 1e-14 * (1 + fabs(due[i])));
    format_close(&f);
    open_ok("", "shape=5x2&dtype=f32&n=5&seed=1", &f);
    get(&f, 2, &s);
    memcpy(floats, s.row[0], sizeof(floats));
    for (int i = 0; i < 10; i++)
        cr_assert_eq(floats[i], (float)due[i]);
    format_close(&f);
}

/* The moments of a normal distribution, over 400,000 numbers: mean 0, variance 1, skewness 0,
 * kurtosis 3. */
Test(format_synthetic, normal_numbers_are_normal) {
    static sample s;
    opened f;
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, n = 0;
    open_ok("", "shape=1000&dtype=f64&n=400", &f);
    for (uint64_t i = 0; i < 400; i++) {
        double x[1000];
        get(&f, i, &s);
        memcpy(x, s.row[0], sizeof(x));
        for (int k = 0; k < 1000; k++, n++) {
            m1 += x[k];
            m2 += x[k] * x[k];
            m3 += x[k] * x[k] * x[k];
            m4 += x[k] * x[k] * x[k] * x[k];
        }
    }
    cr_assert_float_eq(m1 / n, 0, 0.008); /* five standard errors each */
    cr_assert_float_eq(m2 / n, 1, 0.011);
    cr_assert_float_eq(m3 / n, 0, 0.031);
    cr_assert_float_eq(m4 / n, 3, 0.078);
    format_close(&f);
}

Test(format_synthetic, regression_table) {
    static sample s;
    opened f;
    float y = 0;
    open_ok("cs224", NULL, &f);
    cr_assert_eq(f.desc.n_samples, 90000);
    expect_desc(&f, 0, "f32 [1000] \"C\"");
    expect_desc(&f, 1, "f32 []");
    cr_assert_eq(f.desc.fields[1].role, ITER_LABEL);
    get(&f, 0, &s);
    memcpy(&y, s.row[1], sizeof(y));
    cr_assert_float_eq((double)y, 28.485885389272983, 1e-5);
    get(&f, 89999, &s);
    memcpy(&y, s.row[1], sizeof(y));
    cr_assert_float_eq((double)y, 23.824090607080812, 1e-5);
    format_close(&f);
}

Test(format_synthetic, reviews) {
    static const int32_t first[6] = {1, 421, 15616, 14165, 27728, 26191};
    static sample s;
    opened f;
    int32_t ids[150];
    open_ok("imdb", "seed=5", &f);
    expect_desc(&f, 0, "i32 [150] \"T\"");
    cr_assert_eq(f.ops->length(f.state, 11), -1);
    get(&f, 11, &s);
    memcpy(ids, s.row[0], sizeof(ids));
    int64_t sum = 0;
    for (int i = 0; i < 113; i++)
        sum += ids[i];
    cr_assert_arr_eq(ids, first, sizeof(first));
    cr_assert_eq(sum, 1780388);
    for (int i = 113; i < 150; i++)
        cr_assert_eq(ids[i], 0);
    format_close(&f);
    open_ok("imdb", "seed=5&variable=1", &f);
    cr_assert_eq(f.desc.fields[0].desc.dims[0], ITER_VARIABLE);
    cr_assert_eq(f.desc.fields[0].desc.capacity, 150);
    cr_assert_eq(f.ops->length(f.state, 11), 113);
    format_close(&f);
}

Test(format_synthetic, free_shapes) {
    static sample s;
    opened f;
    uint16_t half = 0;
    open_ok("", "shape=2x3x4&dtype=i16&n=3&classes=0", &f);
    cr_assert_eq(f.desc.n_fields, 1);
    cr_assert_eq(f.desc.n_samples, 3);
    expect_desc(&f, 0, "i16 [2, 3, 4] \"CHW\"");
    format_close(&f);
    open_ok("", "shape=&dtype=f16&n=3&classes=1000", &f);
    cr_assert_eq(f.desc.fields[1].desc.dtype, ITER_I32);
    get(&f, 1, &s);
    memcpy(&half, s.row[0], 2);
    cr_assert_eq(half & 0xfc00, 0x3c00);
    format_close(&f);
    open_ok("", "shape=64&dtype=bool&n=1", &f);
    get(&f, 0, &s);
    for (int i = 0; i < 64; i++)
        cr_assert_leq(s.row[0][i], 1);
    format_close(&f);
}

/* A batch consists of its samples: the same bytes at any place in any batch. */
Test(format_synthetic, batches_are_their_samples) {
    static sample one;
    static _Alignas(64) uint8_t data[5][3072], labels[5];
    const uint64_t indices[5] = {40, 3, 3, 49999, 0};
    opened f;
    open_ok("cifar10", NULL, &f);
    iter_desc d = {.dtype = ITER_U8, .n_dims = 4, .dims = {5, 3, 32, 32}};
    iter_desc l = {.dtype = ITER_U8, .n_dims = 1, .dims = {5}};
    const iter_tensor rows[2] = {iter_tensor_dense(&d, data), iter_tensor_dense(&l, labels)};
    cr_assert_eq(f.ops->get(f.state, 5, indices, rows, NULL, NULL), ITER_OK);
    for (int i = 0; i < 5; i++) {
        get(&f, indices[i], &one);
        cr_assert_arr_eq(data[i], one.row[0], 3072);
        cr_assert_eq(labels[i], one.row[1][0]);
    }
    format_close(&f);
}

Test(format_synthetic, labels_are_even_over_the_classes) {
    static sample s;
    opened f;
    uint32_t counts[10] = {0};
    open_ok("mnist", NULL, &f);
    for (uint64_t i = 0; i < 10000; i++) {
        get(&f, i, &s);
        cr_assert_lt(s.row[1][0], 10);
        counts[s.row[1][0]]++;
    }
    for (int k = 0; k < 10; k++)
        cr_assert(counts[k] > 850 && counts[k] < 1150, "%u", counts[k]); /* 5 sigma */
    format_close(&f);
}

Test(format_synthetic, identity_follows_what_decides_the_samples) {
    static const char *const cases[] = {"seed=0", "seed=1", "n=100", "n=50000"};
    uint64_t identity[4];
    for (int i = 0; i < 4; i++) {
        opened f;
        open_ok("cifar10", cases[i], &f);
        identity[i] = f.desc.identity;
        format_close(&f);
    }
    cr_assert_eq(identity[0], identity[3]);
    cr_assert_neq(identity[0], identity[1]);
    cr_assert_neq(identity[0], identity[2]);
}

Test(format_synthetic, bad_options) {
    expect_fails("cifar11", NULL, "no shape is called 'cifar11'; there are cifar10");
    expect_fails("", NULL, "needs cifar10");
    expect_fails("", "shape=3x3", "needs n=");
    expect_fails("cifar10", "n=0", "n=0 is a set without samples");
    expect_fails("cifar10", "n=-2", "n");
    expect_fails("cifar10", "shape=3", "has its shape");
    expect_fails("cifar10", "dtype=f32", "has its shape");
    expect_fails("", "n=5&shape=3x", "is not of the form 3x32x32");
    expect_fails("", "n=5&shape=x3", "is not of the form 3x32x32");
    expect_fails("", "n=5&shape=3,3", "is not of the form 3x32x32");
    expect_fails("", "n=5&shape=3x0", "is empty or too large");
    expect_fails("", "n=5&shape=99999999999999999999", "is not of the form 3x32x32");
    expect_fails("", "n=5&shape=2147483647x2147483647x9", "is empty or too large");
    expect_fails("", "n=5&shape=1x1x1x1x1x1x1x1", "more than 7 dimensions");
}

Test(format_synthetic, every_allocation_failure_is_clean) {
    for (long n = 0;; n++) {
        opened f;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status s = format_open(&iter__format_synthetic, "cs224", NULL, &f, &err);
        iter__alloc_fail_after = -1;
        format_close(&f);
        cr_assert_eq(iter__alloc_live(), 0);
        if (s == ITER_OK) {
            cr_assert_geq(n, 1);
            break;
        }
        cr_assert_eq(s, ITER_ENOMEM);
    }
}

/* Rows that are kept in memory equal those that are generated on demand, with any chain. */
Test(format_synthetic, kept_rows_are_the_same) {
    static const char *const chains[] = {NULL, "scale:factor=0.5", "one-hot:classes=10"};
    static const char *const specs[] = {"synthetic:cs224?n=700", "synthetic:cs224?n=700",
                                        "synthetic:cifar10?n=700"};
    for (int c = 0; c < 3; c++) {
        uint64_t hashes[3];
        for (int i = 0; i < 3; i++) {
            iter_dataset *data;
            iter_error err;
            cr_assert_eq(iter_dataset_open(specs[c], NULL, &data, &err), ITER_OK, "%s",
                         err.message);
            iter_chain *chain = chains[c] ? drive_chain(chains[c]) : NULL;
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            opt.batch_size = 16;
            opt.shuffle = ITER_SHUFFLE_FULL;
            opt.workers = i; /* 0: not enough memory to keep them */
            opt.memory.limit = i == 0 ? (uint64_t)1 << 20 : 0;
            iter_loader *loader = drive_loader(data, chain, &opt);
            iter_loader_stats stats = {.struct_size = sizeof(stats)};
            cr_assert_eq(iter_loader_stats_read(loader, &stats, NULL), ITER_OK);
            cr_assert_eq(stats.preload_bytes > 0, i > 0);
            hashes[i] = drive_run(loader, 2);
            iter_loader_unref(loader);
            iter_chain_unref(chain);
            iter_dataset_unref(data);
        }
        cr_assert_eq(hashes[0], hashes[1]);
        cr_assert_eq(hashes[0], hashes[2]);
    }
}
