/*
 * text_vocab.h - from words to ids: one flat hash table, built once, read by any number of threads.
 *
 * A slot is half a cache line and holds the first 16 bytes of the word, so that finding a common
 * word touches one line. The other bytes of longer words are stored elsewhere. Linear probing,
 * never more than half full.
 */
#ifndef ITER_LOADERS_TEXT_TEXT_VOCAB_H
#define ITER_LOADERS_TEXT_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <iter/status.h>

#define ITER_TEXT_HEAD 16 /* bytes of a word in its slot */

typedef struct text_word {
    /* the first bytes as they are in memory, then zeros */
    uint64_t head[2];
    uint64_t tail;   /* where the other bytes are in `tails` */
    uint32_t length; /* in bytes; 0 = a free slot */
    int32_t id;      /* -1 = as if the word were absent */
} text_word;

typedef struct iter__vocab {
    text_word *slots;
    int32_t shift; /* 64 - log2 of the number of slots */
    uint32_t n_words;
    size_t longest; /* bytes of the longest word */
    uint8_t *tails;
    size_t tails_bytes, tails_capacity;
} iter__vocab;

/* An empty table with room for n_words before it grows. Errors: ENOMEM. */
iter_status iter__vocab_init(iter__vocab *vocab, size_t n_words, iter_error *err);
void iter__vocab_free(iter__vocab *vocab);

/* Adds a word of 1 or more bytes, or changes its id. Errors: ENOMEM, EFORMAT (4 GiB or longer). */
iter_status iter__vocab_put(iter__vocab *vocab, const uint8_t *word, size_t length, int32_t id,
                            iter_error *err);

/* Moves the words with the smallest ids, which are the common ones, to their first slots. Errors:
 * ENOMEM. */
iter_status iter__vocab_settle(iter__vocab *vocab, iter_error *err);

/* The word's id, or -1. */
int32_t iter__vocab_find(const iter__vocab *vocab, const uint8_t *word, size_t length);

/* A hash of all words and ids, whatever their order. */
uint64_t iter__vocab_identity(const iter__vocab *vocab);

static inline uint64_t text_hash(const uint64_t head[2]) {
    /* odd constants with well mixed bits (the golden ratio; Steele, Lea, Flood: SplitMix, 2014) */
    const uint64_t x = head[0] ^ (head[1] * 0xbf58476d1ce4e5b9u);
    return (x ^ (x >> 29)) * 0x9e3779b97f4a7c15u;
}

/* The same for a word of at most ITER_TEXT_HEAD bytes, given as its head. */
static inline int32_t iter__vocab_find_short(const iter__vocab *vocab, const uint64_t head[2],
                                             size_t length) {
    const uint64_t mask = ((uint64_t)1 << (64 - vocab->shift)) - 1;
    uint64_t i = text_hash(head) >> vocab->shift;
    for (;;) {
        const text_word *slot = &vocab->slots[i];
        if (slot->head[0] == head[0] && slot->head[1] == head[1] && slot->length == length)
            return slot->id;
        if (slot->length == 0) return -1;
        i = (i + 1) & mask;
    }
}

#endif
