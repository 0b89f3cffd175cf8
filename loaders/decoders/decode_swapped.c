/*
 * decode_swapped.c - see decode_swapped.h.
 *
 * One loop for each width, in a form that compilers vectorise.
 */
#include "loaders/decoders/decode_swapped.h"

#include <stdint.h>
#include <string.h>

#include "iter/core/error.h"

#define SWAP_LOOP(type, swap)                                 \
    for (size_t i = 0; i < n; i++) {                          \
        type value;                                           \
        memcpy(&value, in + i * sizeof(type), sizeof(type));  \
        value = swap(value);                                  \
        memcpy(out + i * sizeof(type), &value, sizeof(type)); \
    }

void iter__swap_elements(void *to, const void *from, size_t n, size_t width) {
    const uint8_t *in = from;
    uint8_t *out = to;
    switch (width) {
    case 2: SWAP_LOOP(uint16_t, __builtin_bswap16) break;
    case 4: SWAP_LOOP(uint32_t, __builtin_bswap32) break;
    case 8: SWAP_LOOP(uint64_t, __builtin_bswap64) break;
    default:
        if (out != in) memcpy(out, in, n * width);
        break;
    }
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status swapped_decode(void *state, const void *shared, const uint8_t *bytes,
                                  size_t size, iter_tensor *out, iter_error *err) {
    const size_t width = iter_dtype_bytes(out->desc.dtype);
    (void)state, (void)shared;
    if (size != iter_desc_bytes(&out->desc))
        return iter__fail(err, ITER_EFORMAT, "a row has %zu bytes, expected %zu", size,
                          iter_desc_bytes(&out->desc));
    iter__swap_elements(out->data, bytes, size / width, width);
    return ITER_OK;
}

const iter_decoder_ops iter__decoder_swapped = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "swapped",
             .help = "elements of the other byte order"},
    .decode = swapped_decode,
};
