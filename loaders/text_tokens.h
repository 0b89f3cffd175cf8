/*
 * text_tokens.h - from a text to ids, by the rule of Keras' IMDB set.
 *
 * Lower-case as Python's str.lower(); each of !"#$%&()*+,-./:;<=>?@[\]^_`{|}~, tab and newline
 * becomes a blank; split as str.split(); a word's id is its rank + index_from, or `oov` where it is
 * unknown or the id would be num_words or more; `start` stands before the first; of more than
 * maxlen ids one end is kept, fewer are filled up.
 */
#ifndef ITER_LOADERS_TEXT_TOKENS_H
#define ITER_LOADERS_TEXT_TOKENS_H

#include <stdbool.h>

#include "loaders/text_vocab.h"

typedef struct iter__text_rule {
    int64_t num_words;  /* 0 = no limit */
    int64_t index_from; /* >= 0 */
    int64_t start;      /* -1 = none */
    int64_t oov;        /* -1 = unknown words are left out */
    int64_t maxlen;     /* 0 = as long as the text has words */
    int64_t pad;
    int32_t keep_first; /* of a text that is too long: 0 = its end is kept, 1 = its beginning */
    int32_t pad_first;  /* 0 = pad behind the ids, 1 = before them */
} iter__text_rule;

/* What the decoder's states share. */
typedef struct iter__text {
    iter__text_rule rule;
    iter__vocab vocab;
} iter__text;

/* How separators are found; the ids are the same. */
typedef enum iter__text_way {
    ITER_TEXT_FAST, /* with the processor's vector instructions where there are some */
    ITER_TEXT_PLAIN /* in portable C */
} iter__text_way;

/* What one thread needs to read texts. */
typedef struct iter__text_reader {
    const iter__text *text;
    uint8_t *scratch; /* iter__text_scratch_bytes() of them, this thread's own */
    iter__text_way way;
} iter__text_reader;

size_t iter__text_scratch_bytes(const iter__text *text);

/* One text to out[capacity]; capacity >= maxlen. *out_n = ids, padding included.
 * Errors: EFORMAT (invalid UTF-8, with the byte; more than capacity ids). */
iter_status iter__text_ids(const iter__text_reader *reader, const uint8_t *bytes, size_t size,
                           int32_t *out, int64_t capacity, int64_t *out_n, iter_error *err);

/* The most ids that a text of so many bytes can give. */
int64_t iter__text_most_ids(const iter__text_rule *rule, uint64_t bytes);

/* Reads {"word": rank, ...} into text->vocab, by text->rule. `name` is for messages. The vocabulary
 * is empty after an error. Errors: EFORMAT (with the byte), ENOMEM. */
iter_status iter__text_load_index(iter__text *text, const char *json, size_t size, const char *name,
                                  iter_error *err);

/* Reads a word a line; the first line has rank 1. As above. */
iter_status iter__text_load_list(iter__text *text, const char *lines, size_t size, const char *name,
                                 iter_error *err);

#endif
