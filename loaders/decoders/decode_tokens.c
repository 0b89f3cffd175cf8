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

const iter_decoder_ops iter__decoder_token_inputs = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "inputs",
             .help = "tokens of a window, without the last"},
    .decode = inputs_decode,
};

const iter_decoder_ops iter__decoder_token_targets = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "targets",
             .help = "tokens of a window, without the first"},
    .decode = targets_decode,
};
