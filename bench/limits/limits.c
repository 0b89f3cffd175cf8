/*
 * limits.c - straight loops: the speed of this machine when nothing but the work is left.
 *
 * They use the library's own pack kernel (iter_convert_run) and hand it the next row as the loader
 * does. So a loader's rate beside `ordered` shows the cost of the loader, and `ordered` beside
 * `convert` shows the cost of memory. A shuffling loader's own cost is what it has beside
 * `shuffled`: `ordered` over an order that was drawn once. There is no consumer: the slots are not
 * read.
 */
#include "bench/limits/limits.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- One batch ------------------------------------------------------------------------------- */

static const uint8_t *row_at(const limits_work *work, const limits_field *field, uint64_t at) {
    return field->source + (work->order != NULL ? work->order[at] : at) * field->in_bytes;
}

/* The rows at places first, first + 1, ... of the order; after place wrap - 1 comes place 0. */
static void field_rows(const limits_work *work, const limits_field *field, uint64_t first,
                       uint64_t wrap, uint8_t *out) {
    uint64_t at = first;
    for (uint32_t i = 0; i < work->batch; i++) {
        const uint8_t *in = row_at(work, field, at);
        at = at + 1 == wrap ? 0 : at + 1;
        if (field->convert != NULL)
            iter_convert_run(field->convert, in, out + i * field->out_bytes,
                             row_at(work, field, at));
        else
            memcpy(out + i * field->out_bytes, in, field->out_bytes);
    }
}

static void one_batch(const limits_work *work, uint64_t first, uint64_t wrap, uint32_t *slot) {
    uint8_t *memory = work->slots[*slot];
    *slot = *slot + 1 == work->n_slots ? 0 : *slot + 1;
    for (int32_t f = 0; f < work->n_fields; f++)
        field_rows(work, &work->fields[f], first, wrap, memory + work->fields[f].slot_offset);
}

/* ---- Public ---------------------------------------------------------------------------------- */

void limits_copy(uint8_t *out, const uint8_t *in, size_t bytes) {
    memcpy(out, in, bytes);
}

void limits_ordered(const limits_work *work, uint64_t n_batches, uint64_t *cursor, uint32_t *slot) {
    for (uint64_t b = 0; b < n_batches; b++) {
        one_batch(work, *cursor, work->n_rows, slot);
        *cursor = (*cursor + work->batch) % work->n_rows;
    }
}

void limits_convert(const limits_work *work, uint64_t n_batches, uint32_t *slot) {
    uint64_t hot = work->n_rows < LIMITS_HOT_ROWS ? work->n_rows : LIMITS_HOT_ROWS;
    for (uint64_t b = 0; b < n_batches; b++)
        one_batch(work, 0, hot, slot);
}

int64_t limits_read(int file, uint8_t *buffer, size_t capacity) {
    int64_t total = 0;
    for (;;) {
        ssize_t n = pread(file, buffer, capacity, total);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? -1 : total;
        total += n;
    }
}
