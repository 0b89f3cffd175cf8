/*
 * fuzz_cifar.c - folders with files of any size and any list of class names.
 *
 * Input: a byte of flags (1 = CIFAR-100, 2 and 4 = the split, 8 = a single file, 16 = class names),
 * six numbers of two bytes each, by which the size of a file of some records changes, then the
 * class names. Property: open returns OK or a documented error that names the folder. If OK, every
 * extent is a whole record of a file, the records add up, and there are as many class names as
 * classes.
 */
#include <fcntl.h>

#include "tests/support/builtin_tables.h"
#include "tests/support/fuzz_format.h"

#define N_FILES 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[2][N_FILES] = {{"data_batch_1.bin", "data_batch_2.bin",
                                               "data_batch_3.bin", "data_batch_4.bin",
                                               "data_batch_5.bin", "test_batch.bin"},
                                              {"train.bin", "test.bin"}};
static char folder[MAKE_PATH_MAX];

static void gone(void) {
    make_folder_gone(folder);
}

/* Makes a sparse file of `size` zeros; below 0 = no such file. */
static void set_size(const char *name, long size) {
    char path[MAKE_PATH_MAX];
    (void)unlink(make_path(path, folder, name));
    if (size < 0) return;
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    FUZZ_REQUIRE(fd >= 0 && ftruncate(fd, size) == 0);
    close(fd);
}

static void check(const opened *f, uint64_t record, const char *path) {
    uint64_t n = 0;
    FUZZ_REQUIRE(strncmp(f->desc.files[0].path, path, strlen(path)) == 0);
    for (uint64_t i = 0; i < f->desc.n_files; i++) {
        FUZZ_REQUIRE(f->desc.files[i].bytes % record == 0);
        n += f->desc.files[i].bytes / record;
    }
    FUZZ_REQUIRE(n == f->desc.n_samples);
    FUZZ_REQUIRE(f->desc.n_samples >= f->desc.n_files);
    iter_extent last = {0};
    for (uint64_t i = 0; i < f->desc.n_samples && i < 5000; i++) {
        iter_extent x;
        f->ops->locate(f->state, i, &x);
        FUZZ_REQUIRE(x.size == record && x.offset % record == 0);
        FUZZ_REQUIRE(i == 0 || (x.object == last.object && x.offset == last.offset + record) ||
                     (x.object == last.object + 1 && x.offset == 0));
        last = x;
    }
    for (int32_t i = 0; f->desc.class_names && i < f->desc.n_classes; i++)
        FUZZ_REQUIRE(f->desc.class_names[i] && f->desc.class_names[i][0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const splits[] = {"split=train", "split=test", "split=all", NULL};
    if (size < 1 + 2 * N_FILES || size > 100000) return 0;
    if (!folder[0]) {
        make_folder(folder);
        atexit(gone);
    }
    const unsigned flags = data[0];
    const int hundred = flags & 1;
    const long record = hundred ? 3074 : 3073;
    for (int i = 0; i < N_FILES && names[hundred][i]; i++) {
        const int change = data[2 + 2 * (size_t)i] - 128;
        set_size(names[hundred][i],
                 data[1 + 2 * (size_t)i] * record + (change > -100 && change < 100 ? 0 : change));
    }
    const char *meta = hundred ? "fine_label_names.txt" : "batches.meta.txt";
    set_size(meta, -1);
    if (flags & 16) make_file(folder, meta, data + 1 + 2 * N_FILES, size - 1 - 2 * N_FILES);

    char path[MAKE_PATH_MAX];
    if (flags & 8) {
        make_path(path, folder, names[hundred][0]);
    } else {
        memcpy(path, folder, sizeof(path));
    }
    opened f;
    if (fuzz_open(hundred ? &iter__format_cifar100 : &iter__format_cifar10, path,
                  splits[flags >> 1 & 3], folder, &f)) {
        check(&f, (uint64_t)record, path);
        fuzz_close(&f);
    }
    return 0;
}
