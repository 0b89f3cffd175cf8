/* decode_swapped.h - rows whose elements have the byte order that this machine has not. */
#ifndef ITER_LOADERS_DECODERS_DECODE_SWAPPED_H
#define ITER_LOADERS_DECODERS_DECODE_SWAPPED_H

#include <iter/ops.h>

/* A dense row of the field's type; `shared` is not read. */
extern const iter_decoder_ops iter__decoder_swapped;

/* The same for n elements of `width` bytes (1, 2, 4 or 8); `to` may be `from`. */
void iter__swap_elements(void *to, const void *from, size_t n, size_t width);

#endif
