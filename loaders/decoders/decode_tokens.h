/*
 * decode_tokens.h - a window of tokens to inputs, and to targets one place further on.
 *
 * Only for windows that are not all of one length, or of the other byte order: else both rows are
 * the window's own bytes. The rule is the description's `shared`.
 */
#ifndef ITER_LOADERS_DECODERS_DECODE_TOKENS_H
#define ITER_LOADERS_DECODERS_DECODE_TOKENS_H

#include <stdbool.h>

#include <iter/ops.h>

typedef struct iter__token_rule {
    bool swapped;
    bool has_targets; /* false: inputs are the whole window */
} iter__token_rule;

extern const iter_decoder_ops iter__decoder_token_inputs, iter__decoder_token_targets;

#endif
