/*
 * test_boxes.c - the stage `boxes` by hand-made ways of an image, and the object lists of records.
 * That ways are right is checked by pixels, in stress_boxes.c.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/format_decode.h"
#include "tests/support/make_data.h"
#include <iter/iter.h>

#define FORMAT iter__format_recordio
#include "tests/support/format_expect.h"

TestSuite(boxes, .timeout = 60);

/* An image of 100 x 200, of which rows 20..69, columns 50..149 are left. */
static const iter_image_view crop = {100, 200, 50, 100, 1, -20, 1, -50, 0, 50, 0, 100};
/* The same, mirrored left to right, twice as large, with a pad of 10 above. */
static const iter_image_view mirrored = {100, 200, 110, 200, 2, -30, -2, 300, 10, 110, 0, 200};

static int64_t follow(const iter_boxes_options *o, const iter_image_view *view, int64_t n,
                      bool is_fixed, const float *in, float *out) {
    iter_desc desc = {.dtype = ITER_F32, .n_dims = 2, .dims = {is_fixed ? n : ITER_VARIABLE, 5}};
    iter_desc made;
    size_t scratch;
    iter_error err = {0};
    desc.capacity = is_fixed ? 0 : n;
    cr_assert_eq(iter__transform_boxes.plan(o, &desc, &made, &scratch, &err), ITER_OK);
    desc.dims[0] = n;
    iter_tensor from = iter_tensor_dense(&desc, (void *)in), to = iter_tensor_dense(&made, out);
    cr_assert_eq(iter__transform_boxes.follow(NULL, o, &from, &to, view, &err), ITER_OK);
    return to.desc.dims[0];
}

static void expect_box(const float *got, float id, float x0, float y0, float x1, float y1) {
    const float want[] = {id, x0, y0, x1, y1};
    for (int i = 0; i < 5; i++)
        cr_expect(fabsf(got[i] - want[i]) < 1e-5F, "[%d]: %g, expected %g", i, (double)got[i],
                  (double)want[i]);
}

Test(boxes, a_crop_by_centres_and_by_area) {
    iter_boxes_options o = ITER_BOXES_OPTIONS_INIT;
    const float in[] = {
        7, 0.3F, 0.3F, 0.5F, 0.5F, /* inside: columns 60..99, rows 30..49 */
        8, 0.1F, 0.1F, 0.4F, 0.4F, /* columns 20..79, rows 10..39: its centre is on the edge */
        9, 0.0F, 0.0F, 0.3F, 0.3F, /* rows 20..29, columns 50..59 are left: 1/18 */
        1, 0.8F, 0.8F, 0.9F, 0.9F, /* outside */
        2, 0.5F, 0.5F, 0.5F, 0.9F, /* of no width */
        3, NAN,  0.5F, 0.6F, 0.9F, 4, 0.25F, 0.2F, 0.75F, 0.7F, /* all of it */
    };
    float out[35];
    cr_assert_eq(follow(&o, &crop, 7, false, in, out), 3);
    expect_box(out, 7, 0.1F, 0.2F, 0.5F, 0.6F);
    expect_box(out + 5, 8, 0, 0, 0.3F, 0.4F);
    expect_box(out + 10, 4, 0, 0, 1, 1);
    o.keep = ITER_BOXES_OVERLAP;
    o.overlap = 0.34; /* of 8 a third is left: 30 of 60 columns, 20 of 30 rows */
    cr_assert_eq(follow(&o, &crop, 7, false, in, out), 2);
    expect_box(out + 5, 4, 0, 0, 1, 1);
    o.overlap = 0.33;
    cr_assert_eq(follow(&o, &crop, 7, false, in, out), 3);
    o.overlap = 0;
    cr_assert_eq(follow(&o, &crop, 7, false, in, out), 4);
    expect_box(out + 10, 9, 0, 0, 0.1F, 0.2F);
}

Test(boxes, mirrors_scales_and_pads) {
    const iter_boxes_options parts = ITER_BOXES_OPTIONS_INIT,
                             pixels = {ITER_BOXES_CENTER, 0.3, 1, true, -7};
    const float in[] = {7, 0.3F, 0.3F, 0.5F, 0.5F, 8, 0.8F, 0.8F, 0.9F, 0.9F},
                at[] = {7, 60, 30, 100, 50, 8, 160, 80, 180, 90};
    float out[10];
    cr_assert_eq(follow(&parts, &mirrored, 2, false, in, out), 1);
    expect_box(out, 7, 100 / 200.0F, 30 / 110.0F, 180 / 200.0F, 70 / 110.0F);
    cr_assert_eq(follow(&pixels, &mirrored, 2, true, at, out), 2);
    expect_box(out, 7, 100, 30, 180, 70);
    for (int i = 5; i < 10; i++)
        cr_expect_eq(out[i], -7);
}

Test(boxes, rows_that_are_no_boxes) {
    const iter_boxes_options o = ITER_BOXES_OPTIONS_INIT;
    const iter_desc wrong[] = {
        {ITER_F32, 1, {5}, 0, ""}, {ITER_I32, 2, {3, 5}, 0, ""}, {ITER_F32, 2, {3, 4}, 0, ""}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        iter_desc out;
        size_t scratch;
        iter_error err = {0};
        cr_expect_eq(iter__transform_boxes.plan(&o, &wrong[i], &out, &scratch, &err), ITER_EINVAL);
        cr_expect(strstr(err.message, "four coordinates from column 1"), "%s", err.message);
    }
}

Test(boxes, images_to_follow) {
    static const struct {
        const char *spec, *chain, *reason;
    } cases[] = {
        {"synthetic:mnist?n=8", "boxes", "wants objects f32 [K, W]"},
        {"synthetic:?n=8&shape=3x5&classes=0", "cast:f32 | boxes:field=data",
         "no field of images to follow"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        iter_dataset *data = NULL;
        iter_chain *chain = NULL;
        iter_loader *loader = NULL;
        cr_assert_eq(iter_dataset_open(cases[i].spec, NULL, &data, &err), ITER_OK, "%s",
                     err.message);
        cr_assert_eq(iter_chain_parse(cases[i].chain, NULL, &chain, &err), ITER_OK, "%s",
                     err.message);
        cr_expect_eq(iter_dataloader_create(data, chain, NULL, &loader, &err), ITER_EINVAL);
        cr_expect(strstr(err.message, cases[i].reason), "%s", err.message);
        iter_chain_unref(chain);
        iter_dataset_unref(data);
    }
    cr_assert_eq(iter__alloc_live(), 0);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Appends a record with these labels and one byte of data. */
static size_t put_record(uint8_t *at, const float *labels, uint32_t n) {
    const uint32_t size = 24 + 4 * n + 1, words[] = {0xced7230a, size, n, 0, 5, 0, 0, 0};
    memcpy(at, words, sizeof(words));
    memcpy(at + sizeof(words), labels, 4 * (size_t)n);
    memset(at + sizeof(words) + 4 * (size_t)n, 0, 4);
    return sizeof(words) + 4 * (size_t)n + 4;
}

static decoded row; /* large */

Test(boxes, object_lists_of_records) {
    static const struct {
        float labels[16];
        uint32_t n;
        const char *reason; /* NULL = two objects */
    } cases[] = {
        {{3, 5, 99, 1, .1F, .2F, .3F, .4F, 2, .5F, .6F, .7F, .8F}, 13, NULL},
        {{2, 5, 1, .1F, .2F, .3F, .4F, 2, .5F, .6F, .7F, .8F}, 12, NULL},
        {{2, 5, 1, .1F, .2F, .3F, .4F}, 6, "4 labels behind the head are no objects of 5"},
        {{2, 6, 1, .1F, .2F, .3F, .4F, 0}, 8, "begin with 2 and 6"},
        {{9, 5}, 2, "begin with 9 and 5"},
        {{1, 5}, 2, "begin with 1 and 5"},
        {{2.5F, 5}, 2, "begin with 2.5 and 5"},
        {{NAN, NAN}, 2, "begin with nan and nan"},
        {{2}, 1, "no list of objects"},
        {{0}, 0, "no list of objects"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    uint8_t bytes[4096];
    make_folder(folder);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = put_record(bytes, cases[0].labels, cases[0].n);
        n += put_record(bytes + n, cases[i].labels, cases[i].n);
        make_file(folder, "x.rec", bytes, n);
        opened f;
        iter_error err = {0};
        expect_open(make_path(path, folder, "x.rec"), "decode=none&objects=2", &f);
        const int label = format_field(&f, "label");
        cr_assert_eq(f.desc.fields[label].desc.dims[1], 5);
        const iter_status status = format_decode(&f, 1, label, &row, &err);
        if (!cases[i].reason) {
            cr_assert_eq(status, ITER_OK, "%s", err.message);
            cr_assert_eq(row.desc.dims[0], 2);
            cr_assert_arr_eq(row.bytes, cases[i].labels + cases[i].n - 10, 40);
        } else {
            cr_assert_eq(status, ITER_EFORMAT);
            cr_expect(strstr(err.message, cases[i].reason), "%s", err.message);
        }
        format_close(&f);
    }
    make_file(folder, "x.rec", bytes, put_record(bytes, cases[0].labels, 13));
    opened f;
    iter_error err = {0};
    expect_open(path, "decode=none&objects=1", &f);
    cr_expect_eq(format_decode(&f, 0, format_field(&f, "label"), &row, &err), ITER_EFORMAT);
    cr_expect(strstr(err.message, "has 2 objects; objects is 1"), "%s", err.message);
    format_close(&f);
    expect_fails(path, "objects=2&label-width=13", ITER_EINVAL, "x.rec", "goes with neither");
    make_file(folder, "x.rec", bytes, put_record(bytes, (float[]){1, 2, 3}, 3));
    expect_fails(path, "objects=2", ITER_EFORMAT, "x.rec", "an object's width, is 2");
    make_folder_gone(folder);
}
