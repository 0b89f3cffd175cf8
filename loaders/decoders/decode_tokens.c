/* decode_tokens.c - see decode_tokens.h. */
#include "loaders/decoders/decode_tokens.h"

#include <string.h>

#include "iter/core/error.h"
#include "loaders/decoders/decode_swapped.h"

/* Tokens [first, first + n) of the window to a row, whose length must be n or variable. */
static iter_status put_tokens(const iter__token_rule *rule, const uint8_t *bytes, size_t first,
                              size_t n, iter_tensor *out, iter_error *err) {
    const size_t width = iter_dtype_bytes(out->desc.dtype);
    const bool variable = out->desc.dims[0] == ITER_VARIABLE;
    const int64_t capacity = variable ? out->desc.capacity : out->desc.dims[0];
    if (variable ? (int64_t)n > capacity : (int64_t)n != capacity)
        return iter__fail(err, ITER_EFORMAT, "a window has %zu tokens, expected %lld", n,
                          (long long)capacity);
    if (rule->swapped)
        iter__swap_elements(out->data, bytes + first * width, n, width);
    else
        memcpy(out->data, bytes + first * width, n * width);
    if (variable) out->desc.dims[0] = (int64_t)n;
    return ITER_OK;
}

static iter_status inputs_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                                 iter_tensor *out, iter_error *err) {
    const iter__token_rule *rule = shared;
    const size_t n = size / iter_dtype_bytes(out->desc.dtype);
    (void)state;
    if (n == 0) return iter__fail(err, ITER_EFORMAT, "a window has no tokens");
    return put_tokens(rule, bytes, 0, rule->has_targets ? n - 1 : n, out, err);
}

static iter_status targets_decode(void *state, const void *shared, const uint8_t *bytes,
                                  size_t size, iter_tensor *out, iter_error *err) {
    const size_t n = size / iter_dtype_bytes(out->desc.dtype);
    (void)state;
    if (n == 0) return iter__fail(err, ITER_EFORMAT, "a window has no tokens");
    return put_tokens(shared, bytes, 1, n - 1, out, err);
}

/* The tokens of a window, as bytes; `skipped` of them come before the row. */
static bool find_tokens(const iter__token_rule *rule, const iter_desc *desc, size_t size,
                        size_t skipped, size_t *out_offset, size_t *out_bytes) {
    const size_t width = iter_dtype_bytes(desc->dtype), n = size / width;
    if (rule->swapped || n < 1 || desc->dims[0] != ITER_VARIABLE) return false;
    *out_offset = skipped * width;
    *out_bytes = (n - (rule->has_targets ? 1 : 0)) * width;
    return (int64_t)(*out_bytes / width) <= desc->capacity;
}

static bool inputs_find(const void *shared, const iter_desc *desc, const uint8_t *bytes,
                        size_t size, size_t n_known, size_t *out_offset, size_t *out_bytes) {
    (void)bytes;
    (void)n_known;
    return find_tokens(shared, desc, size, 0, out_offset, out_bytes);
}

static bool targets_find(const void *shared, const iter_desc *desc, const uint8_t *bytes,
                         size_t size, size_t n_known, size_t *out_offset, size_t *out_bytes) {
    (void)bytes;
    (void)n_known;
    return find_tokens(shared, desc, size, 1, out_offset, out_bytes);
}

const iter_decoder_ops iter__decoder_token_inputs = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "inputs",
             .help = "tokens of a window, without the last"},
    .decode = inputs_decode,
    .find = inputs_find,
};

const iter_decoder_ops iter__decoder_token_targets = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "targets",
             .help = "tokens of a window, without the first"},
    .decode = targets_decode,
    .find = targets_find,
};
