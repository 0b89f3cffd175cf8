/*
 * test_registry.c - required members of tables, names, and that every built-in table keeps the same
 * rules.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/spec/registry.h"
#include "tests/support/sample_ops.h"

TestSuite(registry, .timeout = 30);

static iter_status open_format(void *state, const char *path, const void *options,
                               iter_description *out, iter_error *err) {
    (void)state, (void)path, (void)options, (void)out, (void)err;
    return ITER_OK;
}
static void close_any(void *state) {
    (void)state;
}
static void locate(const void *state, uint64_t index, iter_extent *out) {
    (void)state, (void)index, (void)out;
}
static iter_status open_sampler(void *state, const void *options,
                                const iter_sampler_context *context, iter_error *err) {
    (void)state, (void)options, (void)context, (void)err;
    return ITER_OK;
}
static uint64_t length(const void *state) {
    (void)state;
    return 1;
}
static void index_of(void *state, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out) {
    (void)state, (void)epoch, (void)position, (void)n, (void)out;
}
static iter_status begin(void *state, uint32_t epoch, iter_error *err) {
    (void)state, (void)epoch, (void)err;
    return ITER_OK;
}
static iter_status next_batch(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                              iter_error *err) {
    (void)state, (void)capacity, (void)out, (void)out_n, (void)err;
    return ITER_OK;
}
static iter_status save(const void *state, void *out, size_t capacity, size_t *out_size) {
    (void)state, (void)out, (void)capacity, (void)out_size;
    return ITER_OK;
}
static iter_status fold_plan(const void *options, iter_fold *fold, iter_error *err) {
    (void)options, (void)fold, (void)err;
    return ITER_OK;
}
static iter_status plan_batch(const void *options, iter_desc *desc, size_t *out_scratch,
                              iter_error *err) {
    (void)options, (void)desc, (void)out_scratch, (void)err;
    return ITER_OK;
}
static iter_status apply_batch(const void *options, iter_batch_view *view, iter_error *err) {
    (void)options, (void)view, (void)err;
    return ITER_OK;
}

static void wish(const void *options, const iter_desc *in, iter_rng *rng, iter_image_wish *out) {
    (void)options, (void)in, (void)rng, (void)out;
}

static size_t begin_rows(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         void *scratch) {
    (void)state, (void)options, (void)in, (void)out, (void)scratch;
    return 0;
}

static int64_t take_rows(void *state, const uint8_t *const *rows, int32_t n) {
    (void)state, (void)rows, (void)n;
    return 0;
}

static const iter_format_ops good_format = {
    .base = {sizeof(iter_format_ops), "my-format", "mine", NULL, NULL, 0, 0},
    .open = open_format,
    .close = close_any,
    .locate = locate,
};
static const iter_sampler_ops good_sampler = {
    .base = {sizeof(iter_sampler_ops), "my-sampler", "mine", NULL, NULL, 0, 0},
    .open = open_sampler,
    .length = length,
    .index = index_of,
};

static void refused(iter_status got, const iter_error *err, const char *says) {
    cr_expect_eq(got, ITER_EINVAL, "'%s' was taken", says);
    cr_expect(strstr(err->message, says), "'%s' does not say '%s'", err->message, says);
}

Test(registry, own_tables_are_found_and_hide_nothing_else) {
    iter_registry *r;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(r, &good_format, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(r, &sample_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_sampler(r, &good_sampler, NULL), ITER_OK);
    cr_expect_eq(iter_registry_format(r, "my-format"), &good_format);
    cr_expect_eq(iter_registry_transform(r, "sample"), &sample_ops);
    cr_expect_eq(iter_registry_sampler(r, "my-sampler"), &good_sampler);
    cr_expect_null(iter_registry_format(r, "my-sampler"));
    cr_expect_null(iter_registry_format(NULL, "my-format"));
    cr_expect_null(iter_registry_transform(NULL, "sample"));
    cr_expect_null(iter_registry_sampler(NULL, "my-sampler"));
    cr_expect_null(iter_registry_format(r, NULL));
    iter_registry_destroy(r);
    iter_registry_destroy(NULL);
    cr_expect_eq(iter__alloc_live(), 0);
}

Test(registry, an_own_table_hides_a_builtin_one) {
    const iter_format_ops *builtin = iter_builtin_format(0);
    if (!builtin) cr_skip_test("no format is built in");
    iter_registry *r;
    iter_format_ops mine = good_format;
    mine.base.name = builtin->base.name;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    cr_expect_eq(iter_registry_format(r, mine.base.name), builtin);
    cr_assert_eq(iter_registry_add_format(r, &mine, NULL), ITER_OK);
    cr_expect_eq(iter_registry_format(r, mine.base.name), &mine);
    cr_expect_eq(iter_registry_format(NULL, mine.base.name), builtin);
    iter_registry_destroy(r);
}

Test(registry, tables_by_number_are_its_own_first) {
    iter_registry *r;
    iter_format_ops second = good_format;
    second.base.name = "second";
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    cr_expect_eq(iter_registry_format_at(r, 0), iter_builtin_format(0));
    cr_assert_eq(iter_registry_add_format(r, &good_format, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(r, &second, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_transform(r, &sample_ops, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_sampler(r, &good_sampler, NULL), ITER_OK);
    cr_expect_eq(iter_registry_format_at(r, 0), &good_format);
    cr_expect_eq(iter_registry_format_at(r, 1), &second);
    cr_expect_eq(iter_registry_transform_at(r, 0), &sample_ops);
    cr_expect_eq(iter_registry_sampler_at(r, 0), &good_sampler);
    int n = 0;
    for (; iter_builtin_format(n); n++) {
        cr_expect_eq(iter_registry_format_at(r, n + 2), iter_builtin_format(n));
        cr_expect_eq(iter_registry_format_at(NULL, n), iter_builtin_format(n));
    }
    cr_expect_null(iter_registry_format_at(r, n + 2));
    cr_expect_null(iter_registry_format_at(r, -1));
    cr_expect_null(iter_registry_transform_at(NULL, -1));
    cr_expect_null(iter_registry_sampler_at(r, 1 << 30));
    iter_registry_destroy(r);
}

Test(registry, names_stand_once) {
    iter_registry *r;
    iter_error err;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    cr_assert_eq(iter_registry_add_format(r, &good_format, NULL), ITER_OK);
    refused(iter_registry_add_format(r, &good_format, &err), &err, "my-format: the registry has");
    iter_registry_destroy(r);
}

Test(registry, many_tables) {
    iter_registry *r;
    iter_transform_ops tables[40];
    char names[40][8];
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "t-%d", i);
        tables[i] = bare_ops;
        tables[i].base.name = names[i];
        cr_assert_eq(iter_registry_add_transform(r, &tables[i], NULL), ITER_OK);
    }
    for (int i = 0; i < 40; i++)
        cr_expect_eq(iter_registry_transform(r, names[i]), &tables[i]);
    iter_registry_destroy(r);
}

#define REFUSED(kind, table, change, says)                            \
    do {                                                              \
        iter_error err_ = {0};                                        \
        iter_##kind##_ops t = (table);                                \
        change;                                                       \
        refused(iter_registry_add_##kind(r, &t, &err_), &err_, says); \
    } while (0)

Test(registry, formats_are_checked) {
    iter_registry *r;
    iter_error err;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    refused(iter_registry_add_format(r, NULL, &err), &err, "no table");
    refused(iter_registry_add_format(NULL, &good_format, &err), &err, "registry");
    REFUSED(format, good_format, t.base.name = NULL, "name");
    REFUSED(format, good_format, t.base.name = "", "name");
    REFUSED(format, good_format, t.base.name = "my_format", "name 'my_format'");
    REFUSED(format, good_format, t.base.name = "Mine", "name 'Mine'");
    REFUSED(format, good_format, t.base.struct_size = 0, "struct_size is 0");
    REFUSED(format, good_format, t.base.struct_size -= 8, "struct_size");
    REFUSED(format, good_format, t.base.struct_size = (size_t)-1, "struct_size");
    REFUSED(format, good_format, t.open = NULL, "no open");
    REFUSED(format, good_format, t.close = NULL, "no close");
    REFUSED(format, good_format, t.locate = NULL, "no locate, get or resident");
    iter_registry_destroy(r);
}

/* A table of a later version is accepted as long as it does not use what this version lacks. */
Test(registry, tables_of_later_versions) {
    iter_registry *r;
    struct {
        iter_format_ops table;
        void (*later)(void *state);
    } next = {good_format, NULL};
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    next.table.base.struct_size = sizeof(next);
    next.later = close_any;
    cr_expect_eq(iter_registry_add_format(r, &next.table, NULL), ITER_EUNSUPPORTED);
    next.later = NULL;
    cr_expect_eq(iter_registry_add_format(r, &next.table, NULL), ITER_OK);
    iter_registry_destroy(r);
}

Test(registry, transforms_are_one_kind) {
    iter_registry *r;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    REFUSED(transform, sample_ops, t.apply = NULL, "apply, fold_plan, follow, apply_batch or adds");
    REFUSED(transform, sample_ops, t.plan = NULL, "no plan");
    REFUSED(transform, sample_ops, (t.fold_plan = fold_plan, t.apply_batch = apply_batch),
            "exclude one another");
    REFUSED(transform, sample_ops, (t.apply = NULL, t.fold_plan = fold_plan, t.wish = wish),
            "no apply");
    REFUSED(transform, sample_ops, t.begin_rows = begin_rows, "no take_rows");
    REFUSED(transform, sample_ops, t.take_rows = take_rows, "no begin_rows");
    REFUSED(transform, sample_ops,
            (t.apply = NULL, t.fold_plan = fold_plan, t.begin_rows = begin_rows,
             t.take_rows = take_rows),
            "no apply");
    REFUSED(transform, sample_ops, (t.apply = NULL, t.fold_plan = fold_plan, t.plan = NULL),
            "no plan");
    REFUSED(transform, sample_ops, (t.apply = NULL, t.apply_batch = apply_batch), "no plan_batch");
    REFUSED(transform, sample_ops, t.adds_lengths = 1, "exclude one another");
    REFUSED(transform, sample_ops, (t.apply = NULL, t.adds_lengths = 1), "option 'name'");
    REFUSED(transform, sample_ops, t.role = 2, "role is 2");

    iter_transform_ops fold = bare_ops, batch = bare_ops, both = bare_ops;
    both.base.name = "both", both.fold_plan = fold_plan, both.wish = wish;
    cr_expect_eq(iter_registry_add_transform(r, &both, NULL), ITER_OK);
    fold.base.name = "fold", fold.apply = NULL, fold.fold_plan = fold_plan;
    batch.base.name = "batch", batch.apply = NULL, batch.plan = NULL;
    batch.apply_batch = apply_batch, batch.plan_batch = plan_batch;
    cr_expect_eq(iter_registry_add_transform(r, &fold, NULL), ITER_OK);
    cr_expect_eq(iter_registry_add_transform(r, &batch, NULL), ITER_OK);

    static const iter_option name_row[] = {
        {"name", "of the new field", ITER_OPTION_STRING, 0, 0, 0, NULL, 1},
        {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0}};
    iter_transform_ops lengths = batch, alone = batch;
    lengths.base.name = "lengths-1", lengths.base.options = name_row;
    lengths.base.options_size = sizeof(const char *), lengths.adds_lengths = 1;
    alone = lengths, alone.base.name = "lengths-2";
    alone.plan_batch = NULL, alone.apply_batch = NULL;
    cr_expect_eq(iter_registry_add_transform(r, &lengths, NULL), ITER_OK);
    cr_expect_eq(iter_registry_add_transform(r, &alone, NULL), ITER_OK);
    iter_registry_destroy(r);
}

Test(registry, option_rows_are_checked) {
    iter_registry *r;
    iter_option rows[3];
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
#define REFUSED_ROW(change, says)                                    \
    do {                                                             \
        memset(rows, 0, sizeof(rows));                               \
        rows[0] = sample_rows[0], rows[1] = sample_rows[3];          \
        change;                                                      \
        REFUSED(transform, sample_ops, t.base.options = rows, says); \
    } while (0)
    REFUSED_ROW(rows[0].name = "Size", "option 'Size'");
    REFUSED_ROW(rows[0].name = "", "option ''");
    REFUSED_ROW(rows[0].type = (iter_option_type)77, "no known type");
    REFUSED_ROW(rows[0].offset = sizeof(sample_options), "outside of options_size");
    REFUSED_ROW(rows[0].offset = sizeof(sample_options) - 4, "outside of options_size");
    REFUSED_ROW(rows[0].offset = (size_t)-8, "outside of options_size");
    REFUSED_ROW(rows[0].type = ITER_OPTION_CHOICE, "no choices");
    REFUSED_ROW(rows[1].name = "size", "two options are called 'size'");
    REFUSED_ROW((rows[0].name = "max-size", rows[1].name = "max_size"),
                "two options are called 'max_size'");
    REFUSED_ROW(rows[1].positional = 1, "both unnamed argument 1");
    REFUSED_ROW(rows[1].name = "field", "no option may be called 'field'");
    REFUSED(transform, sample_ops, t.base.options_size = 0, "options_size 0");
    iter_registry_destroy(r);
}

Test(registry, samplers_are_pure_or_sequential) {
    iter_registry *r;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    REFUSED(sampler, good_sampler, t.open = NULL, "no open");
    REFUSED(sampler, good_sampler, t.length = NULL, "no length");
    REFUSED(sampler, good_sampler, t.index = NULL, "no index");
    REFUSED(sampler, good_sampler, (t.index = NULL, t.length = NULL), "begin and next_batch");
    REFUSED(sampler, good_sampler, t.begin = begin, "but not both");
    REFUSED(sampler, good_sampler, (t.index = NULL, t.length = NULL, t.begin = begin),
            "no next_batch");
    REFUSED(sampler, good_sampler, (t.index = NULL, t.length = NULL, t.next_batch = next_batch),
            "no begin");
    REFUSED(sampler, good_sampler, t.save = save, "restore beside save");
    iter_sampler_ops sequential = good_sampler;
    sequential.length = NULL, sequential.index = NULL;
    sequential.begin = begin, sequential.next_batch = next_batch;
    cr_expect_eq(iter_registry_add_sampler(r, &sequential, NULL), ITER_OK);
    iter_registry_destroy(r);
}

Test(registry, every_allocation_failure_is_clean) {
    for (long n = 0;; n++) {
        iter_registry *r = NULL;
        iter__alloc_fail_after = n;
        iter_status status = iter_registry_create(&r, NULL);
        if (status == ITER_OK) status = iter_registry_add_format(r, &good_format, NULL);
        if (status == ITER_OK) status = iter_registry_add_transform(r, &sample_ops, NULL);
        if (status == ITER_OK) status = iter_registry_add_sampler(r, &good_sampler, NULL);
        iter__alloc_fail_after = -1;
        iter_registry_destroy(r);
        cr_assert_eq(iter__alloc_live(), 0, "failure %ld", n);
        if (status == ITER_OK) {
            cr_expect_eq(n, 4);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM);
    }
}

static void check_builtin(const iter_ops *ops) {
    cr_expect(ops->help && *ops->help, "%s has no help", ops->name);
    for (const iter_option *row = ops->options; row && row->name; row++)
        cr_expect_null(strchr(row->name, '_'), "%s: '%s' is not kebab-case", ops->name, row->name);
}

/* The built-in tables are not checked when they are used, so they are checked here. */
Test(registry, builtin_tables_keep_the_rules) {
    iter_error err = {0};
    int n = 0;
    for (const iter_format_ops *t; (t = iter_builtin_format(n)); n++) {
        cr_expect_eq(iter__format_check(t, &err), ITER_OK, "%s", err.message);
        check_builtin(&t->base);
        cr_expect_eq(iter_registry_format(NULL, t->base.name), t, "%s twice", t->base.name);
    }
    n = 0;
    for (const iter_transform_ops *t; (t = iter_builtin_transform(n)); n++) {
        cr_expect_eq(iter__transform_check(t, &err), ITER_OK, "%s", err.message);
        check_builtin(&t->base);
        cr_expect_eq(iter_registry_transform(NULL, t->base.name), t, "%s twice", t->base.name);
    }
    n = 0;
    for (const iter_sampler_ops *t; (t = iter_builtin_sampler(n)); n++) {
        cr_expect_eq(iter__sampler_check(t, &err), ITER_OK, "%s", err.message);
        check_builtin(&t->base);
        cr_expect_eq(iter_registry_sampler(NULL, t->base.name), t, "%s twice", t->base.name);
    }
    n = 0;
    for (const iter_source_ops *t; (t = iter_builtin_source(n)); n++)
        cr_expect(t->open && t->close && t->read, "%s", t->base.name);
    cr_expect_null(iter_builtin_format(-1));
    cr_expect_null(iter_builtin_source(1000));
}

/* ---- Decoders -------------------------------------------------------------------------------- */

static iter_status header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                          iter_desc *out, iter_error *err) {
    (void)state, (void)shared, (void)bytes, (void)size, (void)out, (void)err;
    return ITER_OK;
}

static iter_status decode_image(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                const iter_image_wish *wanted, iter_tensor *out, iter_error *err) {
    (void)state, (void)shared, (void)bytes, (void)size, (void)wanted, (void)out, (void)err;
    return ITER_OK;
}

Test(registry, decoders_are_found_by_name) {
    iter_registry *r;
    iter_error err = {0};
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    const iter_decoder_ops *builtin = iter_builtin_decoder("image");
    cr_assert(builtin);
    cr_expect_eq(iter__decoder_check(builtin, &err), ITER_OK, "%s", err.message);
    cr_expect_null(iter_builtin_decoder("my-decoder"));
    cr_expect_null(iter_builtin_decoder(NULL));
    cr_expect_eq(iter_registry_decoder(NULL, "image"), builtin);
    cr_expect_eq(iter_registry_decoder(r, "image"), builtin);

    iter_decoder_ops mine = {
        .base = {sizeof(iter_decoder_ops), "my-decoder", "mine", NULL, NULL, 0, 0}};
    refused(iter_registry_add_decoder(r, &mine, &err), &err,
            "no decode, nor header and decode_image");
    mine.header = header;
    refused(iter_registry_add_decoder(r, &mine, &err), &err, "no decode_image beside header");
    mine.header = NULL;
    mine.decode_image = decode_image;
    refused(iter_registry_add_decoder(r, &mine, &err), &err, "no header beside decode_image");
    mine.header = header;
    cr_assert_eq(iter_registry_add_decoder(r, &mine, &err), ITER_OK, "%s", err.message);
    refused(iter_registry_add_decoder(r, &mine, &err), &err, "has one of this name");
    refused(iter_registry_add_decoder(NULL, &mine, &err), &err, "none given");
    cr_expect_eq(iter_registry_decoder(r, "my-decoder"), &mine);

    iter_decoder_ops hides = *builtin; /* a registered name hides a built-in one */
    cr_assert_eq(iter_registry_add_decoder(r, &hides, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(iter_registry_decoder(r, "image"), &hides);
    iter_registry_destroy(r);
    cr_expect_eq(iter__alloc_live(), 0);
}
