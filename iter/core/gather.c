/*
 * gather.c - see gather.h.
 *
 * A row in random order costs a cache miss, and the processor sees only some ten rows of 32 bytes
 * ahead by itself. So rows are prefetched AHEAD_BYTES, at most AHEAD_ROWS, before they are copied.
 * Of a long row only the beginning is: the processor's own prefetcher follows. The numbers are the
 * fastest of many on a Zen 4 (bench/results/rows-2026-11-28/rows.md). Non-temporal stores lose if
 * the consumer reads the batch.
 */
#include "iter/core/gather.h"

#include <string.h>

#include "iter/core/arith.h"

#define AHEAD_BYTES ((size_t)4096)
#define AHEAD_ROWS  ((size_t)24)
#define BEGINNING   ((size_t)1024)

static inline void prefetch(const uint8_t *row, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(row + i);
}

static size_t rows_ahead(size_t bytes, size_t n) {
    return iter__min_size(iter__max_size(1, iter__min_size(AHEAD_BYTES / bytes, AHEAD_ROWS)), n);
}

void iter__gather_ahead(const uint8_t *base, size_t stride, size_t bytes, const uint64_t *index,
                        size_t n) {
    const size_t ahead = bytes ? rows_ahead(bytes, n) : 0;
    for (size_t i = 0; i < ahead; i++)
        prefetch(base + index[i] * stride, iter__min_size(bytes, BEGINNING));
}

/* Inlined with constant sizes: a copy of few bytes is then one or two moves. */
static inline __attribute__((always_inline)) void gather(uint8_t *out, const uint8_t *base,
                                                         size_t stride, size_t bytes,
                                                         const uint64_t *index, size_t n,
                                                         size_t n_known) {
    const size_t ahead = rows_ahead(bytes, n_known), begins = iter__min_size(bytes, BEGINNING);
    iter__gather_ahead(base, stride, bytes, index, n_known);
    for (size_t i = 0; i < n; i++) {
        const size_t next = i + ahead < n_known ? i + ahead : i;
        prefetch(base + index[next] * stride, begins);
        memcpy(out + i * bytes, base + index[i] * stride, bytes);
    }
}

void iter__gather(uint8_t *out, const uint8_t *base, size_t stride, size_t bytes,
                  const uint64_t *index, size_t n, size_t n_known) {
    switch (bytes) {
    case 0: return;
    case 1: gather(out, base, stride, 1, index, n, n_known); return;
    case 4: gather(out, base, stride, 4, index, n, n_known); return;
    case 8: gather(out, base, stride, 8, index, n, n_known); return;
    case 16: gather(out, base, stride, 16, index, n, n_known); return;
    case 32: gather(out, base, stride, 32, index, n, n_known); return;
    case 64: gather(out, base, stride, 64, index, n, n_known); return;
    default: gather(out, base, stride, bytes, index, n, n_known);
    }
}
