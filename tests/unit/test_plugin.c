/* test_plugin.c - iter/plugin.h: tables of a shared object, which outlive their registry, and files
 * that are not plugins. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"

TestSuite(plugin, .timeout = 60);

static iter_registry *registry_new(void) {
    iter_registry *r;
    cr_assert_eq(iter_registry_create(&r, NULL), ITER_OK);
    return r;
}

#ifdef ITER_PLUGIN_FILE
/* 9 samples of 2 numbers, 0, 1, 2, ...; halved. */
Test(plugin, its_format_and_stage_outlive_the_registry) {
    char path[] = "/tmp/iter_plugin_XXXXXX", spec[64];
    iter_error err;
    iter_dataset *data;
    iter_chain *chain;
    iter_loader *loader;
    iter_batch *batch;
    const int file = mkstemp(path);
    for (int i = 0; i < 18; i++) {
        const float number = (float)i;
        cr_assert_eq(write(file, &number, sizeof(number)), sizeof(number));
    }
    close(file);
    snprintf(spec, sizeof(spec), "floats:%s?columns=2", path);
    iter_registry *r = registry_new();
    cr_assert_eq(iter_plugin_load(ITER_PLUGIN_FILE, r, &err), ITER_OK, "%s", err.message);
    cr_assert_str_eq(iter_registry_format_at(r, 0)->base.name, "floats");
    cr_assert_str_eq(iter_registry_transform_at(r, 0)->base.name, "halve");
    cr_assert_eq(iter_registry_format_at(r, 1), iter_builtin_format(0));
    cr_assert_eq(iter_dataset_open(spec, r, &data, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_chain_parse("halve", r, &chain, &err), ITER_OK, "%s", err.message);
    iter_registry_destroy(r);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = 1;
    cr_assert_eq(iter_dataloader_create(data, chain, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
    const iter_tensor *x = iter_batch_tensor(batch, 0);
    cr_assert(x->desc.dims[0] == 9 && x->desc.dims[1] == 2);
    for (int i = 0; i < 18; i++)
        cr_expect_float_eq(((const float *)x->data)[i], (float)i / 2, 1e-6);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    unlink(path);
}

Test(plugin, twice_is_an_error_that_names_the_file) {
    iter_error err;
    iter_registry *r = registry_new();
    cr_assert_eq(iter_plugin_load(ITER_PLUGIN_FILE, r, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_plugin_load(ITER_PLUGIN_FILE, r, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, ITER_PLUGIN_FILE ": floats: ") != NULL, "%s", err.message);
    iter_registry_destroy(r);
}

Test(plugin, every_allocation_failure_is_clean) {
    for (long i = 0;; i++) {
        iter_error err;
        iter_registry *r = registry_new();
        iter__alloc_fail_after = i;
        const iter_status s = iter_plugin_load(ITER_PLUGIN_FILE, r, &err);
        iter__alloc_fail_after = -1;
        iter_registry_destroy(r);
        cr_assert_eq(iter__alloc_live(), 0);
        if (s == ITER_OK) break;
        cr_assert_eq(s, ITER_ENOMEM, "%s", err.message);
        cr_assert_lt(i, 100);
    }
}
#else
Test(plugin, there_is_none) {
    cr_skip_test("the example plugin is not built");
}
#endif

Test(plugin, files_that_are_none) {
    static const struct {
        const char *path;
        iter_status status;
        const char *says;
    } cases[] = {
        {NULL, ITER_EINVAL, "plugin: no file given"},
        {"", ITER_EINVAL, "plugin: no file given"},
        {"/nowhere/at-all.so", ITER_EIO, "plugin /nowhere/at-all.so: "},
        {"nowhere.so", ITER_EIO, "plugin nowhere.so: ./nowhere.so: cannot open"},
        {"README.md", ITER_EIO, "plugin README.md: "},
        {"/", ITER_EIO, "plugin /: "},
    };
    iter_registry *r = registry_new();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_error err;
        cr_expect_eq(iter_plugin_load(cases[i].path, r, &err), cases[i].status);
        cr_expect_eq(strstr(err.message, cases[i].says), err.message, "%s", err.message);
        cr_expect_eq(iter_plugin_load(cases[i].path, r, NULL), cases[i].status);
    }
    cr_expect_eq(iter_plugin_load("x.so", NULL, NULL), ITER_EINVAL);
    iter_registry_destroy(r);
}
