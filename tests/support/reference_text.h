/* reference_text.h - a text to ids, naively: every step of the rule over the whole text, one after the other. */
#ifndef TESTS_SUPPORT_REFERENCE_TEXT_H
#define TESTS_SUPPORT_REFERENCE_TEXT_H

#include "loaders/text/text_tokens.h"

/* The ids in *out (free), *out_n of them; -1 where the text is not UTF-8, with the byte in *out_n. Exits where there is no memory. */
int reference_text_ids(const iter__text *text, const uint8_t *bytes, size_t size, int32_t **out,
                       int64_t *out_n);

#endif
