/* test_plan.c - chains that parse but cannot work: the message has stage, field, column and
 * reason. */
#include <criterion/criterion.h>
#include <string.h>

#include <iter/iter.h>

TestSuite(plan, .timeout = 30);

static iter_dataset *opened(const char *spec) {
    iter_error err = {0};
    iter_dataset *data;
    cr_assert_eq(iter_dataset_open(spec, NULL, &data, &err), ITER_OK, "%s", err.message);
    return data;
}

/* A loader over this chain must be refused with this text. */
static void expect_refused(const char *spec, iter_chain *chain, const char *says) {
    iter_error err = {0};
    iter_loader *loader;
    iter_dataset *data = opened(spec);
    const iter_status status = iter_dataloader_create(data, chain, NULL, &loader, &err);
    cr_expect_eq(status, ITER_EINVAL, "'%s': %s", iter_chain_text(chain), err.message);
    cr_expect_null(loader);
    cr_expect_str_eq(err.message, says);
    iter_dataset_unref(data);
}

#define IMAGES  "synthetic:cifar10?n=8"
#define REVIEWS "synthetic:imdb?variable=1&n=30"

Test(plan, refusals_name_stage_column_and_reason) {
    static const struct {
        const char *spec, *text, *says;
    } cases[] = {
        {IMAGES, "random-flip | center-crop:99 | to:f32",
         "chain: column 15: center-crop (field 'data'): a window of 99 x 99 does not fit into 32 x "
         "32"},
        {IMAGES, "truncate:10",
         "chain: column 1: truncate (field 'data'): needs u16, i32 or i64 [T], not u8 [3, 32, 32] "
         "\"CHW\""},
        {IMAGES, "to:f32,nchw | resize:3",
         "chain: column 15: resize (field 'data'): wants images in HWC, but got f32 [3, 32, 32] "
         "\"CHW\"; put to:u8,hwc before it"},
        {IMAGES, "random-flip | resize:3",
         "chain: column 15: resize (field 'data'): wants images in HWC, but got u8 [3, 32, 32] "
         "\"CHW\"; put to:layout=hwc before it"},
        {IMAGES, "grayscale",
         "chain: column 1: grayscale (field 'data'): wants u8 [height, width, 1 to 4] \"HWC\", but "
         "got u8 [3, 32, 32] \"CHW\"; put to:layout=hwc before it"},
        {IMAGES, "random-flip | cast:f32,field=mask",
         "chain: column 15: cast: the dataset has no field 'mask'; it has data, label"},
        {IMAGES, "cast:f32,field=lable",
         "chain: column 1: cast: the dataset has no field 'lable'; it has data, label; did you "
         "mean "
         "'label'?"},
        {IMAGES, "cast:f32,field=Data",
         "chain: column 1: cast: the dataset has no field 'Data'; it has data, label; did you mean "
         "'data'?"},
        {"synthetic:?n=8&shape=3&classes=0", "cast:f32 | one-hot:4",
         "chain: column 12: one-hot: the dataset has no label field"},
        {IMAGES, "cast:f32 | pad-batch",
         "chain: column 12: pad-batch (field 'data'): rows of this field are all equally long"},
        {IMAGES, "to:f32 | lengths",
         "chain: column 10: lengths: all rows of field 'data' have the same length"},
        {REVIEWS, "pad-batch | lengths:label",
         "chain: column 13: lengths: there is a field 'label' already"},
        {REVIEWS, "truncate:50 | tnc",
         "chain: column 15: tnc: rows of field 'data' have different lengths; pad-batch comes "
         "first"},
        {REVIEWS, "pad-batch | truncate:50",
         "chain: column 13: truncate: works on samples, so it must come before the batch stage "
         "pad-batch"},
        {REVIEWS, "cast:i64 | pad-batch",
         "chain: column 1: cast: field 'data' has rows of different lengths; make them equal "
         "first"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err = {0};
        iter_chain *chain;
        cr_assert_eq(iter_chain_parse(cases[i].text, NULL, &chain, &err), ITER_OK, "%s",
                     err.message);
        expect_refused(cases[i].spec, chain, cases[i].says);
        iter_chain_unref(chain);
    }
}

/* If a chain was not made from one text, its stages have no column. */
Test(plan, stages_added_by_calls_have_no_column) {
    iter_error err = {0};
    iter_chain *chain;
    cr_assert_eq(iter_chain_create(&chain, &err), ITER_OK);
    cr_assert_eq(iter_chain_add_text(chain, NULL, "random-flip", &err), ITER_OK);
    cr_assert_eq(iter_chain_add_text(chain, NULL, " center-crop:99", &err), ITER_OK);
    expect_refused(IMAGES, chain,
                   "center-crop (field 'data'): a window of 99 x 99 does not fit into 32 x 32");
    iter_chain_unref(chain);
}
