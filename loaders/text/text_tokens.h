/*
 * text_tokens.h - from a text to ids, by the rule of Keras' IMDB set.
 *
 * Lower-case as Python's str.lower(); each of !"#$%&()*+,-./:;<=>?@[\]^_`{|}~, tab and newline
 * becomes a blank; split as str.split(). A word's id is its rank + index_from, or `oov` if the word
 * is unknown or its id would be num_words or more. `start` comes before the first id. If there are
 * more than maxlen ids, one end is kept; if there are fewer, the row is padded.
 */
#ifndef ITER_LOADERS_TEXT_TEXT_TOKENS_H
#define ITER_LOADERS_TEXT_TEXT_TOKENS_H

#include <stdbool.h>

#include "loaders/text/text_vocab.h"

typedef struct iter__text_rule {
    int64_t num_words;  /* 0 = no limit */
    int64_t index_from; /* >= 0 */
    int64_t start;      /* -1 = none */
    int64_t oov;        /* -1 = unknown words are left out */
    int64_t maxlen;     /* 0 = as long as the text has words */
    int64_t pad;
    /* Of a text that is too long: 0 = its end is kept, 1 = its beginning. */
    int32_t keep_first;
    int32_t pad_first; /* 0 = pad after the ids, 1 = before them */
} iter__text_rule;

/* Shared by the decoder's states. */
typedef struct iter__text {
    iter__text_rule rule;
    iter__vocab vocab;
} iter__text;

/* How separators are found; the ids are the same. */
typedef enum iter__text_way {
    /* with the processor's vector instructions, as far as it has some */
    ITER_TEXT_FAST,
    ITER_TEXT_PLAIN /* in portable C */
} iter__text_way;

/* The state of one thread that reads texts. */
typedef struct iter__text_reader {
    const iter__text *text;
    uint8_t *scratch; /* [iter__text_scratch_bytes()], this thread's own */
    iter__text_way way;
} iter__text_reader;

size_t iter__text_scratch_bytes(const iter__text *text);

/* Turns one text into out[capacity] ids; capacity >= maxlen. *out_n = ids, padding included.
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
