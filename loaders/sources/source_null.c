/*
 * source_null.c - no bytes at all: every read completes at once and gives zeros. With it a loader
 * shows its own cost.
 *
 * If the size of a file is known, a read past its end comes back short, as from the file.
 */
#include <iter/ops.h>

#include <string.h>

#include "iter/core/arith.h"

typedef struct null_state {
    const iter_file *files; /* borrowed */
    uint64_t n_files;
} null_state;

static iter_status null_open(void *state, const iter_source_config *config, char *fallback,
                             size_t capacity, iter_error *err) {
    (void)err;
    null_state *s = state;
    s->files = config->files;
    s->n_files = config->n_files;
    if (capacity > 0) fallback[0] = '\0';
    return ITER_OK;
}

static void null_close(void *state) {
    (void)state;
}

static iter_status null_read(void *state, iter_read *read) {
    const null_state *s = state;
    size_t end = read->size;
    const uint64_t bytes = read->object < s->n_files ? s->files[read->object].bytes : ITER_UNKNOWN;
    if (bytes != ITER_UNKNOWN) {
        const uint64_t left = bytes > read->offset ? bytes - read->offset : 0;
        if (left < end) end = (size_t)left;
    }
    size_t at = 0;
    for (int32_t i = 0; i < read->n_parts && at < end; i++) {
        const size_t n = iter__min_size(read->parts[i].size, end - at);
        if (n > 0) memset(read->parts[i].data, 0, n);
        at += n;
    }
    read->done = end;
    read->status = ITER_OK;
    read->os_error = 0;
    read->path = ITER_PATH_MEMORY;
    return ITER_OK;
}

const iter_source_ops iter__source_null = {
    .base = {.struct_size = sizeof(iter_source_ops),
             .name = "null",
             .help = "no bytes: zeros, at once",
             .state_size = sizeof(null_state)},
    .open = null_open,
    .close = null_close,
    .read = null_read,
    .try_read = null_read,
};
