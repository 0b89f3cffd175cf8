/* decode_lines.h - a line of text, or a string in a line of JSON, to bytes or to ids of words. */
#ifndef ITER_LOADERS_TABLES_DECODE_LINES_H
#define ITER_LOADERS_TABLES_DECODE_LINES_H

#include <iter/ops.h>

#include "loaders/text/text_tokens.h"

/* The description's `shared`. */
typedef struct iter__line_rule {
    iter__text text; /* its rule is also that of bytes: maxlen, pad, and which side */
    bool words;      /* false: data is the text's bytes, and the vocabulary is empty */
    bool json;
    const char *text_path, *label_path; /* if json; label_path may be NULL */
    uint64_t max_bytes;                 /* of a line */
    uint64_t room;                      /* bytes of the largest extent */
} iter__line_rule;

/* i32 "T" if words, else u8 "T". */
extern const iter_decoder_ops iter__decoder_line_text;
/* A number, true or false, in JSON: f32, f64 or any integer type. */
extern const iter_decoder_ops iter__decoder_line_label;

#endif
