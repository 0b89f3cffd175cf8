/*
 * fuzz_list.c - any bytes as a list of images.
 *
 * Input: a byte that chooses .lst, .csv or .txt and options; the rest is the list. Files called
 * "a.jpg" and "b" exist. Property: open returns OK or a documented error that names the list. If
 * OK, every sample is one of the two files, and there are as many labels as the field has: finite
 * numbers, or names of classes. Names are sorted, none is a number unless names were requested, and
 * each label is one of them. The same text as items of a program that packs: ids, finite labels,
 * names of files, or an error that names the list.
 */
#include <math.h>

#include "iter/spec/options.h"
#include "loaders/formats/image_list.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/fuzz_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[MAKE_PATH_MAX];

static void away(void) {
    make_folder_gone(folder);
}

static void check_labels(const opened *f, bool names) {
    if (f->desc.n_fields < 2) return;
    const iter_desc *desc = &f->desc.fields[1].desc;
    const size_t bytes = iter_desc_bytes(desc);
    FUZZ_REQUIRE(bytes > 0 && bytes <= 1024 &&
                 (desc->dtype == ITER_I32 || desc->dtype == ITER_F32));
    for (int32_t c = 1; c < f->desc.n_classes; c++)
        FUZZ_REQUIRE(strcmp(f->desc.class_names[c - 1], f->desc.class_names[c]) < 0);
    double value;
    for (int32_t c = 0; c < f->desc.n_classes; c++)
        FUZZ_REQUIRE(f->desc.class_names[c][0] &&
                     (names || !iter__parse_number(f->desc.class_names[c], &value)));
    for (uint64_t i = 0; i < f->desc.n_samples; i++) {
        int32_t row[256];
        float number;
        f->ops->index_row(f->state, i, 1, row);
        memcpy(&number, row, sizeof(number));
        FUZZ_REQUIRE(desc->dtype == ITER_I32 || isfinite(number));
        if (f->desc.n_classes > 0) FUZZ_REQUIRE(row[0] >= 0 && row[0] < f->desc.n_classes);
    }
}

static void check_items(const char *path) {
    const iter__list_options options = {.root = "", .items = true};
    iter__list list;
    iter_error err = {0};
    const iter_status s = iter__list_load(path, &options, "", &list, &err);
    FUZZ_REQUIRE(s == ITER_OK || (s == ITER_EFORMAT && strstr(err.message, path)));
    for (uint64_t i = 0; s == ITER_OK && i < list.files.n; i++)
        FUZZ_REQUIRE(list.files.files[i].path[0] && list.ids && list.label_width > 0 &&
                     !list.class_names);
    iter__list_free(&list);
    FUZZ_REQUIRE(iter__alloc_live() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"x.lst", "x.csv", "x.txt"};
    static const char *const options[] = {NULL, "label-width=1", "label-columns=2",
                                          "path-column=1&label-columns=label;2", "label-names=yes"};
    char path[MAKE_PATH_MAX];
    if (size < 1 || size > 20000) return 0;
    /* URLs are asked for, for minutes if none answers. */
    if (memmem(data, size, "://", 3)) return 0;
    if (!folder[0]) {
        make_folder(folder);
        make_file(folder, "a.jpg", "x", 1);
        make_file(folder, "b", "xy", 2);
        atexit(away);
    }
    const char *name = names[data[0] % 3];
    make_file(folder, name, data + 1, size - 1);
    opened f;
    if (fuzz_open(&iter__format_folder, make_path(path, folder, name), options[data[0] / 3 % 5],
                  name, &f)) {
        for (uint64_t i = 0; i < f.desc.n_files; i++)
            FUZZ_REQUIRE(f.desc.files[i].bytes <= size);
        check_labels(&f, data[0] / 3 % 5 == 4);
        fuzz_close(&f);
    }
    check_items(path);
    FUZZ_REQUIRE(remove(path) == 0); /* the next list may have another name */
    return 0;
}
