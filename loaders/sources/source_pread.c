/*
 * source_pread.c - plain reads, which are asynchronous because the loader's threads call them. It
 * works wherever files do; every other source is compared with it.
 */
#include <iter/ops.h>

#include "loaders/sources/source_files.h"

static iter_status pread_open(void *state, const iter_source_config *config, char *fallback,
                              size_t capacity, iter_error *err) {
    return iter__source_files_open(state, config, fallback, capacity, err);
}

static void pread_close(void *state) {
    iter__source_files_close(state);
}

static iter_status pread_read(void *state, iter_read *read) {
    return iter__source_files_read(state, read);
}

static iter_status pread_try_read(void *state, iter_read *read) {
    return iter__source_files_try_read(state, read);
}

const iter_source_ops iter__source_pread = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "pread",
             .help = "threads that call pread(2)",
             .state_size = sizeof(iter__source_files)},
    .open = pread_open,
    .close = pread_close,
    .read = pread_read,
    .try_read = pread_try_read,
};
