/* decode_text.h - the decoder of texts; its `shared` is an iter__text. */
#ifndef ITER_LOADERS_DECODERS_DECODE_TEXT_H
#define ITER_LOADERS_DECODERS_DECODE_TEXT_H

#include <iter/ops.h>

#include "loaders/text/text_tokens.h"

extern const iter_decoder_ops iter__decoder_text;

#endif
