/* test_fold.c - how a pack is planned, user stages through the fold calls, one-hot, and every
 * allocation failing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <iter/chain.h>
#include <iter/convert.h>
#include <iter/transforms.h>

#include "iter/core/alloc.h"
#include "iter/core/cpu.h"
#include "iter/spec/chain.h"
#include "iter/spec/pack.h"
#include "tests/support/builtin_tables.h"
#include "transforms/stages.h"

TestSuite(fold, .timeout = 60);

static const iter_desc chw = {ITER_U8, 3, {3, 4, 5}, 0, "CHW"};

/* A pack made from text, with the chain whose options it borrows. */
typedef struct planned {
    iter_chain *chain;
    iter__pack *pack;
    iter_desc out;
    size_t scratch_bytes;
    iter_status status;
    iter_error err;
} planned;

static planned plan(const iter_desc *in, const char *text, const iter_registry *registry) {
    planned p = {0};
    const iter__stage *stages[16];
    if (*text)
        cr_assert_eq(iter_chain_parse(text, registry, &p.chain, &p.err), ITER_OK, "%s",
                     p.err.message);
    const int32_t n = iter__chain_n_stages(p.chain);
    for (int32_t i = 0; i < n; i++)
        stages[i] = iter__chain_stage(p.chain, i);
    p.status = iter__packer.create(in, stages, n, &p.pack, &p.out, &p.scratch_bytes, &p.err);
    return p;
}

static void drop(planned *p) {
    iter__packer.destroy(p->pack);
    iter_chain_unref(p->chain);
}

static void expect_copy(const iter_desc *in, const char *text, bool is_copy) {
    planned p = plan(in, text, NULL);
    cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
    cr_expect_eq(iter__packer.is_copy(p.pack), is_copy, "\"%s\"", text);
    drop(&p);
}

Test(fold, copies_are_known) {
    const iter_desc hw = {ITER_F64, 2, {4, 5}, 0, "HW"}, grey = {ITER_U8, 3, {1, 4, 5}, 0, "CHW"};
    expect_copy(&chw, "", true);
    expect_copy(&chw, "to:u8,nchw", true);
    expect_copy(&chw, "cast:u8", true);
    expect_copy(&hw, "to:f64,nchw", true);
    expect_copy(&grey, "to:u8,nhwc", true); /* one channel: both layouts have the same bytes */
    expect_copy(&chw, "to:u8,nhwc", false);
    expect_copy(&chw, "cast:i8", false);
    expect_copy(&chw, "scale", false);
    expect_copy(&chw, "flip", false);
}

static void expect_shape(const iter_desc *in, const char *text, const char *shape) {
    char got[128];
    planned p = plan(in, text, NULL);
    cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
    cr_expect_str_eq(iter_desc_text(&p.out, got, sizeof(got)), shape);
    drop(&p);
}

Test(fold, shapes_and_types) {
    const iter_desc hw = {ITER_U8, 2, {4, 5}, 0, "HW"}, scalar = {ITER_U8, 0, {0}, 0, ""};
    expect_shape(&chw, "pad:1 | crop:0,1,2,6 | to:f16,nhwc", "f16 [2, 6, 3] \"HWC\"");
    expect_shape(&hw, "normalize | pad:1", "f32 [6, 7] \"HW\"");
    expect_shape(&hw, "normalize | to:f32,nchw", "f32 [1, 4, 5] \"CHW\"");
    expect_shape(&hw, "to:u8,hwc", "u8 [4, 5, 1] \"HWC\"");
    expect_shape(&scalar, "cast:i64", "i64 []");
}

Test(fold, text_says_what_runs) {
    char text[512];
    planned p =
        plan(&chw, "random-crop:4,pad=1 | random-flip | normalize:mean=0;1;2 | to:f32,nhwc", NULL);
    cr_assert_eq(p.status, ITER_OK);
    iter__packer.text(p.pack, text, sizeof(text));
    cr_expect_not_null(strstr(text, "random-crop + random-flip + normalize + to"), "%s", text);
    cr_expect_not_null(strstr(text, "4x5 to 4x4"), "%s", text);
    cr_expect_not_null(strstr(text, "a*x+b per channel, u8 to f32, CHW to HWC"), "%s", text);
    cr_expect_not_null(strstr(text, iter_cpu_level()), "%s", text);
    char shorter[10];
    iter__packer.text(p.pack, shorter, sizeof(shorter));
    cr_expect_eq(strlen(shorter), 9u);
    cr_expect_eq(strncmp(shorter, text, 9), 0);
    drop(&p);
    p = plan(&chw, "scale | cast:u8 | scale", NULL);
    iter__packer.text(p.pack, text, sizeof(text));
    cr_expect_not_null(strstr(text, "; then "), "%s", text);
    drop(&p);
}

/* If a stage turns out to need a new pass, what it already added must not stay in the old one. */
Test(fold, a_stage_of_the_next_pass_leaves_nothing_in_this_one) {
    char text[512];
    planned p = plan(&chw, "scale:0.5 | cast:u8 | to:i8,hwc", NULL);
    cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
    iter__packer.text(p.pack, text, sizeof(text));
    cr_expect_not_null(strstr(text, "u8 to u8, CHW to CHW"), "%s", text);
    cr_expect_not_null(strstr(text, "then to: u8 to i8, CHW to HWC"), "%s", text);
    drop(&p);
}

Test(fold, text_says_which_tables_there_are) {
    static const char *const cases[][2] = {
        {"solarize:9 | scale", "solarize + scale: table of bytes, a*x+b, u8 to f32"},
        {"random-solarize:9 | gamma:2", "random-solarize + gamma: per-sample table of bytes, u8"},
        {"invert | scale", "invert + scale: a*x+b, u8 to f32"},
        {"posterize:8", "copy of 60 bytes"},
        {"scale | cast:u8 | solarize", "; then solarize: table of bytes"},
        {"pad:1 | random-solarize", "; then random-solarize: per-sample table of bytes"},
        {"random-solarize | pad:1", "random-solarize + pad: per-sample geometry"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        planned p = plan(&chw, cases[i][0], NULL);
        cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
        iter__packer.text(p.pack, text, sizeof(text));
        cr_expect_not_null(strstr(text, cases[i][1]), "'%s' gives '%s'", cases[i][0], text);
        drop(&p);
    }
}

Test(fold, refuses_what_cannot_be_folded) {
    const iter_desc ids = {ITER_I32, 1, {ITER_VARIABLE}, 10, "T"};
    planned p = plan(&ids, "cast:i64", NULL);
    cr_expect_eq(p.status, ITER_EINVAL);
    cr_expect_not_null(strstr(p.err.message, "cast: wants a fixed shape"), "%s", p.err.message);
    cr_expect_null(p.pack);
    drop(&p);
    p = plan(&(iter_desc){ITER_U8, 0, {0}, 0, ""}, "one-hot:10", NULL);
    cr_expect_eq(p.status, ITER_EINVAL);
    cr_expect_not_null(strstr(p.err.message, "one-hot: not a foldable stage"), "%s", p.err.message);
    cr_expect_null(p.pack);
    drop(&p);
}

Test(fold, stages_without_their_size_say_so) {
    static const char *const cases[][2] = {
        {"random-crop", "wants a size: size=N, or height=N,width=N"},
        {"random-crop:height=3", "wants a size"},
        {"random-crop:pad=4", "wants a size"},
        {"center-crop", "wants a size"},
        {"crop:1,1", "wants y,x,height,width"},
        {"cutout", "wants a size of at least 1: size=N"},
        {"pad", "wants pixels to add: all=N, or some of top, left, bottom, right"},
        {"pad:value=3,mode=edge", "wants pixels to add"},
        {"pad:0", "wants pixels to add"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_chain *chain;
        iter_error err = {0};
        iter_desc out;
        size_t scratch;
        cr_assert_eq(iter_chain_parse(cases[i][0], NULL, &chain, &err), ITER_OK);
        const iter__stage *stage = iter__chain_stage(chain, 0);
        cr_expect_eq(stage->ops->plan(stage->options, &chw, &out, &scratch, &err), ITER_EINVAL,
                     "%s", cases[i][0]);
        cr_expect_eq(err.status, ITER_EINVAL);
        cr_expect(strncmp(err.message, cases[i][1], strlen(cases[i][1])) == 0, "'%s' gives '%s'",
                  cases[i][0], err.message);
        iter_chain_unref(chain);
    }
    expect_shape(&chw, "pad:right=1", "u8 [3, 4, 6] \"CHW\"");
}

/* ---- Stages of a user's own ------------------------------------------------------------------ */

static iter_status same_plan(const void *options, const iter_desc *in, iter_desc *out,
                             size_t *out_scratch, iter_error *err) {
    (void)options;
    (void)err;
    *out_scratch = 0;
    *out = *in;
    return ITER_OK;
}

/* A cast that rounds, then arithmetic, in one stage: there is no place to cut. */
static iter_status round_and_scale(const void *options, iter_fold *fold, iter_error *err) {
    const double two = 2, zero = 0;
    (void)options;
    (void)err;
    iter_fold_affine(fold, 1, &two, &zero);
    iter_fold_cast(fold, ITER_I8);
    iter_fold_affine(fold, 1, &two, &zero);
    return ITER_OK;
}

/* Declares the values that mark_sample may use. */
static iter_status mark_plan(const void *options, iter_fold *fold, iter_error *err) {
    (void)options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, 1, 1, 9);
    iter_fold_cutout(fold, 0, 0, 1, 1, 5);
    return ITER_OK;
}

/* Draws one square; the sample's numbers give its place and value, inside and far outside of the
 * image. */
static void mark_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    (void)options;
    const int64_t y = (int64_t)iter_rng_below(rng, 40) - 20,
                  x = (int64_t)iter_rng_below(rng, 40) - 20;
    iter_fold_cutout(fold, y, x, 30, 30, iter_rng_below(rng, 2) ? 9 : 5);
}

static iter_status wrong_channels(const void *options, iter_fold *fold, iter_error *err) {
    const double two[2] = {2, 2};
    (void)options;
    (void)err;
    iter_fold_affine(fold, 2, two, two);
    return ITER_OK;
}

static iter_status wrong_crop(const void *options, iter_fold *fold, iter_error *err) {
    (void)options;
    (void)err;
    iter_fold_crop(fold, 0, 0, 99, 1);
    return ITER_OK;
}

/* Rotates byte values by a constant; the last of several tables by the sample's number. */
static void turned(uint8_t table[256], uint64_t by) {
    for (uint64_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(i + by);
}

static iter_status turn_plan(const void *options, iter_fold *fold, iter_error *err) {
    uint8_t table[256];
    (void)options;
    (void)err;
    turned(table, 100);
    iter_fold_table(fold, table);
    return ITER_OK;
}

static void turn_sample(const void *options, iter_fold *fold, iter_rng *rng) {
    uint8_t table[256];
    (void)options;
    turned(table, iter_rng_below(rng, 256));
    iter_fold_table(fold, table);
}

/* A cut, then a table of each sample's own, within one stage. */
static iter_status cut_and_turn(const void *options, iter_fold *fold, iter_error *err) {
    iter_fold_cutout(fold, 0, 0, 1, 1, 5);
    return turn_plan(options, fold, err);
}

#define USER_STAGE(id, text, ...)                                         \
    static const iter_transform_ops id = {                                \
        .base = {sizeof(iter_transform_ops), text, "", NULL, NULL, 0, 0}, \
        .plan = same_plan,                                                \
        __VA_ARGS__}
USER_STAGE(round_ops, "round-and-scale", .fold_plan = round_and_scale);
USER_STAGE(mark_ops, "mark", .fold_plan = mark_plan, .fold_sample = mark_sample);
USER_STAGE(turn_ops, "turn", .fold_plan = turn_plan);
USER_STAGE(turns_ops, "turns", .fold_plan = turn_plan, .fold_sample = turn_sample);
USER_STAGE(cut_ops, "cut-and-turn", .fold_plan = cut_and_turn, .fold_sample = turn_sample);
USER_STAGE(channels_ops, "wrong-channels", .fold_plan = wrong_channels);
USER_STAGE(crop_ops, "wrong-crop", .fold_plan = wrong_crop);

static iter_registry *user_registry(void) {
    iter_registry *registry = NULL;
    cr_assert_eq(iter_registry_create(&registry, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &round_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &mark_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &turn_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &turns_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &cut_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &channels_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(registry, &crop_ops, NULL), ITER_OK);
    return registry;
}

Test(fold, user_stages_that_cannot_be) {
    iter_registry *registry = user_registry();
    planned p = plan(&chw, "flip | round-and-scale", registry);
    cr_expect_eq(p.status, ITER_EUNSUPPORTED);
    cr_expect_not_null(
        strstr(p.err.message, "round-and-scale: arithmetic after a cast that rounds"), "%s",
        p.err.message);
    cr_expect_null(p.pack);
    drop(&p);
    p = plan(&chw, "wrong-channels", registry);
    cr_expect_eq(p.status, ITER_EINVAL);
    cr_expect_not_null(strstr(p.err.message, "wrong-channels: numbers per channel"), "%s",
                       p.err.message);
    cr_expect_null(p.pack);
    drop(&p);
    p = plan(&chw, "flip | cut-and-turn", registry);
    cr_expect_eq(p.status, ITER_EUNSUPPORTED);
    cr_expect_not_null(strstr(p.err.message, "cut-and-turn: a table of each sample's own after a "
                                             "fill, within one stage"),
                       "%s", p.err.message);
    drop(&p);
    p = plan(&chw, "cast:f32 | turn", registry);
    cr_expect_eq(p.status, ITER_EINVAL);
    cr_expect_not_null(strstr(p.err.message, "turn: a table of bytes works on u8"), "%s",
                       p.err.message);
    drop(&p);
    p = plan(&chw, "wrong-crop", registry);
    cr_expect_eq(p.status, ITER_EINVAL);
    cr_expect_not_null(strstr(p.err.message, "wrong-crop: crop does not fit"), "%s", p.err.message);
    cr_expect_null(p.pack);
    drop(&p);
    iter_registry_destroy(registry);
}

Test(fold, user_stage_with_its_own_numbers) {
    iter_registry *registry = user_registry();
    uint8_t in[60], out[60];
    int seen[2] = {0, 0}, kept = 0;
    memset(in, 1, sizeof(in));
    planned p = plan(&chw, "mark", registry);
    cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
    void *scratch = iter__alloc(1, p.scratch_bytes + 64);
    for (uint64_t i = 0; i < 200; i++) {
        const iter__pack_sample sample = {3, i, 0};
        iter_rng rng = iter_rng_at(iter_rng_key(3, "mark", 0), 0, i);
        const int64_t y0 = (int64_t)iter_rng_below(&rng, 40) - 20,
                      x0 = (int64_t)iter_rng_below(&rng, 40) - 20;
        const uint8_t value = iter_rng_below(&rng, 2) ? 9 : 5;
        iter__packer.run(p.pack, in, out, &sample, scratch, NULL);
        for (int64_t c = 0; c < 3; c++)
            for (int64_t y = 0; y < 4; y++)
                for (int64_t x = 0; x < 5; x++) {
                    const bool cut = y >= y0 && y < y0 + 30 && x >= x0 && x < x0 + 30;
                    cr_assert_eq(out[(c * 4 + y) * 5 + x], cut ? value : 1);
                    if (cut)
                        seen[value == 9]++;
                    else
                        kept++;
                }
    }
    cr_expect_gt(seen[0], 0);
    cr_expect_gt(seen[1], 0);
    cr_expect_gt(kept, 0);
    iter__free(scratch);
    drop(&p);
    iter_registry_destroy(registry);
}

/* Tables of users' stages, the same for every sample and each sample's own, in every order. */
Test(fold, user_stages_with_tables) {
    static const struct {
        const char *text;
        /* how far fixed tables turn, how many are drawn, the pad value in the output */
        int fixed, drawn, pad;
    } cases[] = {
        {"turn", 100, 0, -1},
        {"turn | turn", 200, 0, -1},
        {"turns", 0, 1, -1},
        {"turn | turns | turn", 200, 1, -1},
        {"turns | turns", 0, 2, -1},
        {"turn | pad:1,7 | turn", 200, 0, 107},
        {"turns | pad:1,7 | turn", 100, 1, 107},
        {"turns | pad:1,7 | flip", 0, 1, 7},
    };
    iter_registry *registry = user_registry();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        planned p = plan(&chw, cases[i].text, registry);
        cr_assert_eq(p.status, ITER_OK, "%s", p.err.message);
        uint8_t in[60], out[3 * 6 * 7];
        void *scratch = iter__alloc(1, p.scratch_bytes + 64);
        memset(in, 30, sizeof(in));
        for (uint64_t position = 0; position < 30; position++) {
            const iter__pack_sample sample = {3, position, 0};
            uint64_t by = (uint64_t)cases[i].fixed;
            for (uint32_t k = 0; k < (uint32_t)cases[i].drawn; k++) {
                iter_rng rng = iter_rng_at(iter_rng_key(3, "turns", k), 0, position);
                by += iter_rng_below(&rng, 256);
            }
            iter__packer.run(p.pack, in, out, &sample, scratch, NULL);
            if (cases[i].pad < 0) {
                for (size_t k = 0; k < sizeof(in); k++)
                    cr_assert_eq(out[k], (uint8_t)(30 + by), "%s", cases[i].text);
                continue;
            }
            for (int k = 0; k < 3 * 6 * 7; k++) {
                const int y = k / 7 % 6, x = k % 7;
                const bool inside = y > 0 && y < 5 && x > 0 && x < 6;
                cr_assert_eq(out[k], inside ? (uint8_t)(30 + by) : cases[i].pad, "%s",
                             cases[i].text);
            }
        }
        iter__free(scratch);
        drop(&p);
    }
    iter_registry_destroy(registry);
}

/* ---- one-hot --------------------------------------------------------------------------------- */

static iter_status one_hot(iter_dtype type, const void *label, int64_t classes, iter_dtype to,
                           void *out, iter_error *err) {
    const iter_one_hot_options o = {classes, to};
    const iter_desc in = {type, 0, {0}, 0, ""};
    iter_desc desc;
    size_t scratch;
    iter_status status = iter__transform_one_hot.plan(&o, &in, &desc, &scratch, err);
    if (status < 0) return status;
    cr_assert_eq(desc.n_dims, 1);
    cr_assert_eq(desc.dims[0], classes);
    const iter_tensor from = iter_tensor_dense(&in, (void *)(uintptr_t)label);
    iter_tensor row = iter_tensor_dense(&desc, out);
    return iter__transform_one_hot.apply(NULL, &o, &from, &row, NULL, NULL, err);
}

Test(fold, one_hot_labels) {
    const uint8_t small = 2;
    const int64_t last = 3, beyond = 4, negative = -1;
    const float half = 1;
    float f32[4];
    uint8_t u8[4];
    iter_error err = {0};
    cr_assert_eq(one_hot(ITER_U8, &small, 4, ITER_DTYPE_NONE, f32, &err), ITER_OK);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(f32[i], i == 2 ? 1.0f : 0.0f);
    cr_assert_eq(one_hot(ITER_I64, &last, 4, ITER_U8, u8, &err), ITER_OK);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(u8[i], i == 3);
    cr_expect_eq(one_hot(ITER_I64, &beyond, 4, ITER_DTYPE_NONE, f32, &err), ITER_EFORMAT);
    cr_expect_not_null(strstr(err.message, "label 4 is not in 0..3"), "%s", err.message);
    cr_expect_eq(one_hot(ITER_I64, &negative, 4, ITER_DTYPE_NONE, f32, &err), ITER_EFORMAT);
    cr_expect_not_null(strstr(err.message, "label -1"), "%s", err.message);
    cr_expect_eq(one_hot(ITER_F32, &half, 4, ITER_DTYPE_NONE, f32, &err), ITER_EINVAL);
    cr_expect_not_null(strstr(err.message, "wants one whole number"), "%s", err.message);
    cr_expect_eq(one_hot(ITER_U8, &small, 0, ITER_DTYPE_NONE, f32, &err), ITER_EINVAL);
}

/* ---- Levels and memory ----------------------------------------------------------------------- */

Test(fold, unknown_levels_are_ignored) {
    unsetenv("ITER_CPU");
    const iter__cpu best = iter__cpu_level();
    setenv("ITER_CPU", "sse9", 1);
    cr_expect_eq(iter__cpu_level(), best);
    setenv("ITER_CPU", "", 1);
    cr_expect_eq(iter__cpu_level(), best);
    setenv("ITER_CPU", "generic", 1);
    cr_expect_str_eq(iter_cpu_level(), "generic");
}

Test(fold, every_allocation_failure_is_clean) {
    iter_chain *chain = NULL;
    const iter__stage *stages[16];
    const char *text =
        "gamma:2 | random-crop:4,pad=1 | cutout:2 | normalize:mean=0;1;2 | cast:u8 | "
        "solarize | scale:2 | pad:1,mode=reflect | to:f16,nhwc";
    cr_assert_eq(iter_chain_parse(text, NULL, &chain, NULL), ITER_OK);
    const int32_t n_stages = iter__chain_n_stages(chain);
    for (int32_t i = 0; i < n_stages; i++)
        stages[i] = iter__chain_stage(chain, i);
    const long before = iter__alloc_live();
    for (long n = 0;; n++) {
        iter__pack *pack = NULL;
        iter_desc out;
        size_t scratch;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status =
            iter__packer.create(&chw, stages, n_stages, &pack, &out, &scratch, &err);
        iter__alloc_fail_after = -1;
        iter__packer.destroy(pack);
        cr_assert_eq(iter__alloc_live(), before, "leak when allocation %ld fails", n);
        if (status == ITER_OK) {
            cr_expect_gt(n, 20);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "allocation %ld: %s", n, err.message);
    }
    iter_chain_unref(chain);
}

Test(fold, convert_survives_every_allocation_failure) {
    const iter_desc hwc = {ITER_F32, 3, {4, 5, 3}, 0, "HWC"};
    const double scale[3] = {1, 2, 3};
    const long before = iter__alloc_live();
    for (long n = 0;; n++) {
        iter_convert *convert = NULL;
        iter_convert_options o = ITER_CONVERT_OPTIONS_INIT;
        o.scale = scale;
        o.n_channels = 3;
        iter__alloc_fail_after = n;
        const iter_status status = iter_convert_prepare(&chw, &hwc, &o, &convert, NULL);
        iter__alloc_fail_after = -1;
        iter_convert_destroy(convert);
        cr_assert_eq(iter__alloc_live(), before, "leak when allocation %ld fails", n);
        if (status == ITER_OK) {
            cr_expect_gt(n, 2);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM);
    }
    iter_convert_destroy(NULL);
}
