/* format_decode.h - fields of an open format, decoded as a worker would, one sample at a time. */
#ifndef TESTS_SUPPORT_FORMAT_DECODE_H
#define TESTS_SUPPORT_FORMAT_DECODE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/make_data.h"

/* The field called `name`, or -1. */
static inline int format_field(const opened *f, const char *name) {
    for (int i = 0; i < f->desc.n_fields; i++) {
        if (strcmp(f->desc.fields[i].name, name) == 0) return i;
    }
    return -1;
}

typedef struct decoded {
    uint8_t bytes[1 << 16];
    iter_desc desc; /* dims[0] as the decoder set it; for an image, height and width */
} decoded;

/* Reads and decodes field `field` of a sample; only the header if it is an image. */
static inline iter_status format_decode(const opened *f, uint64_t index, int field, decoded *out,
                                        iter_error *err) {
    const iter_field *in = &f->desc.fields[field];
    const iter_decoder_ops *ops = in->decoder;
    const size_t capacity = (size_t)f->desc.max_extent_bytes[in->extent] + 1;
    uint8_t *bytes = malloc(capacity);
    void *state = calloc(1, ops->base.state_size + 1);
    const size_t n = format_read(f, index, in->extent, bytes, capacity);
    /* of the exact size, so that a sanitizer sees one byte too far */
    uint8_t *exact = malloc(n + 1 - (n > 0));
    memcpy(exact, bytes, n);
    iter_status status = ops->start ? ops->start(state, f->desc.shared, err) : ITER_OK;
    if (status == ITER_OK) {
        iter_tensor tensor = iter_tensor_dense(&in->desc, out->bytes);
        status = ops->decode ? ops->decode(state, f->desc.shared, exact, n, &tensor, err)
                             : ops->header(state, f->desc.shared, exact, n, &tensor.desc, err);
        out->desc = tensor.desc;
        if (ops->stop) ops->stop(state);
    }
    free(exact);
    free(state);
    free(bytes);
    return status;
}

/* Writes one row of a field of fixed size to out, from the index or from its extent by its decoder.
 * `out` must have room for iter_desc_bytes() of the field. */
static inline iter_status format_row(const opened *f, uint64_t index, int field, void *out,
                                     iter_error *err) {
    const iter_field *in = &f->desc.fields[field];
    if (in->extent == ITER_FROM_INDEX) {
        f->ops->index_row(f->state, index, field, out);
        return ITER_OK;
    }
    const size_t capacity = (size_t)f->desc.max_extent_bytes[in->extent];
    uint8_t *bytes = malloc(capacity);
    const size_t n = format_read(f, index, in->extent, bytes, capacity);
    iter_tensor row = iter_tensor_dense(&in->desc, out);
    iter_status status = ITER_OK;
    if (in->decoder)
        status = in->decoder->decode(NULL, f->desc.shared, bytes, n, &row, err);
    else if (n < in->offset + iter_desc_bytes(&in->desc))
        status = ITER_EIO;
    else
        memcpy(out, bytes + in->offset, iter_desc_bytes(&in->desc));
    free(bytes);
    return status;
}

#endif
