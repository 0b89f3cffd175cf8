/*
 * placed.c - reads rows straight to their place in the slot, if they are plain bytes of a sample.
 *
 * A record of pixels is a head, the pixels, and padding. If it were read into memory and copied
 * from there, each byte would pass through the caches twice. So, for files in the page cache, one
 * preadv reads the heads of a run of records into the worker's buffer and the rows into the slot.
 * The decoder's find() predicts where a row begins, before any byte was read; after the read it
 * checks the head. From the first record that was predicted wrongly, or whose read would block, the
 * chunk goes on by the arena and decode().
 *
 * Small rows are not read this way: a part of a read costs as much as copying some KB. The bytes
 * after one row and before the next are one part, so a row has two parts.
 */
#include "iter/core/arith.h"
#include "iter/runtime/loader_state.h"

#define PARTS_A_ROW 2                 /* the row, and the bytes between it and the next */
#define RUN_MAX     ((size_t)1 << 20) /* bytes of one read */
#define TAIL_MAX    64                /* bytes after a row */
#define HEAD_MAX    4096

void iter__placed_find(const iter__plan *plan, const iter_description *desc, int32_t *out_field,
                       size_t *out_head, size_t *out_stride) {
    int32_t found = -1, n = 0;
    size_t head = 0, bytes;
    *out_head = 0;
    for (int32_t f = 0; f < plan->n_fields; f++) {
        const iter__field_plan *field = &plan->fields[f];
        if (field->lengths_of >= 0) continue;
        if (field->from != ITER_ROW_DECODE || field->any_size) return;
        const iter_decoder_ops *ops = desc->fields[field->in].decoder;
        if (!ops->find) continue;
        found = f;
        n++;
    }
    if (n != 1 || plan->fields[found].n_made > 0 || desc->parts) return;
    const iter__field_plan *field = &plan->fields[found];
    if (!desc->fields[field->in].decoder->find(desc->shared, &field->source, NULL,
                                               desc->max_extent_bytes[0], 0, &head, &bytes))
        return;
    if (head == 0 || head > HEAD_MAX) return;
    *out_field = found;
    *out_head = head;
    *out_stride = iter__align_up_size(head + TAIL_MAX, 64);
}

/* Adds the parts of one more row; false if it does not belong to the run. */
static bool add_row(const iter_loader *loader, iter_batch *batch, uint32_t row, uint8_t *around,
                    iter_read *read, iter_iovec *parts) {
    const iter_extent *extent = &batch->extents[row];
    const iter_description *desc = &loader->dataset->desc;
    const iter__field_plan *field = &loader->plan.fields[loader->layout.placed_field];
    const size_t size = extent->size;
    size_t head, bytes;
    if (read->n_parts == 0) {
        read->object = extent->object;
        read->offset = extent->offset;
    } else if (read->object != extent->object || read->offset + read->size != extent->offset ||
               read->size + size > RUN_MAX || read->n_parts + PARTS_A_ROW > ITER_READ_PARTS_MAX) {
        return false;
    }
    if (extent->size > loader->layout.sample_max ||
        !desc->fields[field->in].decoder->find(desc->shared, &field->source, NULL, size, 0, &head,
                                               &bytes) ||
        head != loader->layout.placed_head || size - head - bytes > TAIL_MAX)
        return false;
    uint8_t *to = batch->memory + field->slot_offset + (size_t)row * field->made_bytes;
    const size_t tail = size - head - bytes;
    if (read->n_parts == 0) parts[read->n_parts++] = (iter_iovec){around, 0};
    parts[read->n_parts - 1].size += head; /* the part begins with the tail of the row before */
    if (bytes > 0) parts[read->n_parts++] = (iter_iovec){to, bytes};
    parts[read->n_parts++] = (iter_iovec){around + loader->layout.placed_stride - tail, tail};
    read->size += size;
    return true;
}

uint32_t iter__placed_run(iter__worker *worker, iter_batch *batch, uint32_t row, uint32_t end,
                          uint64_t path_bytes[ITER_PATH_COUNT]) {
    iter_loader *loader = worker->loader;
    const iter_description *desc = &loader->dataset->desc;
    const iter__field_plan *field = &loader->plan.fields[loader->layout.placed_field];
    iter_iovec parts[ITER_READ_PARTS_MAX];
    iter_read read = {.parts = parts};
    uint32_t n = 0;
    while (row + n < end && n < loader->layout.chunk_rows &&
           add_row(loader, batch, row + n, worker->hot + n * loader->layout.placed_stride, &read,
                   parts))
        n++;
    if (n == 0) return 0;
    if (parts[read.n_parts - 1].size == 0) read.n_parts--; /* no bytes after the last row */
    if (!iter__reading_try(&loader->reading, &read)) return 0;
    path_bytes[read.path] += read.done;
    size_t here = 0, offset, bytes;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *head = worker->hot + i * loader->layout.placed_stride;
        const size_t size = batch->extents[row + i].size;
        here += size;
        if (read.done < here ||
            !desc->fields[field->in].decoder->find(desc->shared, &field->source, head, size,
                                                   loader->layout.placed_head, &offset, &bytes) ||
            offset != loader->layout.placed_head)
            return i;
        batch->bytes[row + i] = head;
    }
    return n;
}
