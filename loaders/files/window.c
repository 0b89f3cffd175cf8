/* window.c - see window.h. */
#include "loaders/files/window.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

iter_status iter__window_open(iter__window *window, const char *path, iter_error *err) {
    memset(window, 0, sizeof(*window));
    ITER_TRY(iter__file_open(path, &window->file, err));
    window->buffer = iter__alloc(1, ITER_WINDOW_BYTES);
    if (!window->buffer) {
        iter__file_close(&window->file);
        return iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", path);
    }
    return ITER_OK;
}

void iter__window_close(iter__window *window) {
    if (!window->buffer) return;
    iter__file_close(&window->file);
    iter__free(window->buffer);
    window->buffer = NULL;
}

iter_status iter__window_at(iter__window *window, uint64_t offset, size_t n, const uint8_t **out,
                            size_t *out_n, iter_error *err) {
    const bool inside = offset >= window->offset && offset - window->offset <= window->n &&
                        n <= window->n - (size_t)(offset - window->offset);
    if (!inside) {
        window->n = 0;
        ITER_TRY(iter__file_read_at(&window->file, offset, window->buffer, ITER_WINDOW_BYTES,
                                    &window->n, err));
        window->offset = offset;
    }
    const size_t there = window->n - (size_t)(offset - window->offset);
    *out = window->buffer + (offset - window->offset);
    *out_n = iter__min_size(n, there);
    return ITER_OK;
}

iter_status iter__window_read(const iter__window *window, uint64_t offset, void *out, size_t n,
                              iter_error *err) {
    size_t done = 0;
    ITER_TRY(iter__file_read_at(&window->file, offset, out, n, &done, err));
    if (done == n) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "%s: ends after %" PRIu64 " bytes, %zu more should follow",
                      window->file.path, offset + done, n - done);
}
