/* reference_text.h - a text to ids, naively: one step of the rule after the other, each over the
 * whole text. */
#ifndef TESTS_SUPPORT_REFERENCE_TEXT_H
#define TESTS_SUPPORT_REFERENCE_TEXT_H

#include "loaders/text/text_tokens.h"

/* Puts *out_n ids in *out, which the caller must free. Returns -1 if the text is not UTF-8, with
 * the offset of the bad byte in *out_n. Ends the program if memory runs out. */
int reference_text_ids(const iter__text *text, const uint8_t *bytes, size_t size, int32_t **out,
                       int64_t *out_n);

#endif
