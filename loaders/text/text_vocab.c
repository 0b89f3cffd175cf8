/*
 * text_vocab.c - see text_vocab.h.
 *
 * The hash is one multiplication of the 16 bytes of the head; its upper bits choose the slot. The
 * bytes of a long word's tail are added to it by FNV-1a: one word in a thousand is that long.
 */
#include "loaders/text/text_vocab.h"

#include <stdlib.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"

#define MIN_BITS 4 /* so that shift stays below 64 */
#define MAX_BITS 40

static void head_of(const uint8_t *word, size_t length, uint64_t head[2]) {
    head[0] = head[1] = 0;
    memcpy(head, word, iter__min_size(length, ITER_TEXT_HEAD));
}

static uint64_t hash_of(const uint64_t head[2], const uint8_t *tail, size_t tail_bytes) {
    const uint64_t hash = text_hash(head);
    if (tail_bytes == 0) return hash;
    return hash ^ iter__fnv1a(ITER_FNV_START, tail, tail_bytes);
}

static size_t tail_bytes_of(size_t length) {
    return length > ITER_TEXT_HEAD ? length - ITER_TEXT_HEAD : 0;
}

static size_t n_slots(const iter__vocab *vocab) {
    return (size_t)1 << (64 - vocab->shift);
}

static const uint8_t *tail_of(const iter__vocab *vocab, const text_word *word) {
    return vocab->tails ? vocab->tails + word->tail : NULL;
}

static int by_id(const void *a, const void *b) {
    const int32_t x = ((const text_word *)a)->id, y = ((const text_word *)b)->id;
    return (x > y) - (x < y);
}

/* The slot of the word, or the free one for it. */
static text_word *slot_of(const iter__vocab *vocab, const uint64_t head[2], const uint8_t *tail,
                          size_t length) {
    const size_t tail_bytes = tail_bytes_of(length);
    const size_t mask = n_slots(vocab) - 1;
    for (size_t i = hash_of(head, tail, tail_bytes) >> vocab->shift;; i = (i + 1) & mask) {
        text_word *slot = &vocab->slots[i];
        if (slot->length == 0) return slot;
        if (slot->length == length && slot->head[0] == head[0] && slot->head[1] == head[1] &&
            (tail_bytes == 0 || memcmp(vocab->tails + slot->tail, tail, tail_bytes) == 0))
            return slot;
    }
}

static iter_status grow_slots(iter__vocab *vocab, int32_t bits, iter_error *err) {
    text_word *old = vocab->slots;
    const size_t n_old = old ? n_slots(vocab) : 0;
    text_word *slots = bits <= MAX_BITS ? iter__alloc((size_t)1 << bits, sizeof(text_word)) : NULL;
    if (!slots) return iter__fail(err, ITER_ENOMEM, "no memory for the vocabulary's table");
    vocab->slots = slots;
    vocab->shift = 64 - bits;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i].length == 0) continue;
        *slot_of(vocab, old[i].head, tail_of(vocab, &old[i]), old[i].length) = old[i];
    }
    iter__free(old);
    return ITER_OK;
}

static iter_status add_tail(iter__vocab *vocab, const uint8_t *tail, size_t bytes,
                            iter_error *err) {
    if (bytes > vocab->tails_capacity - vocab->tails_bytes) {
        const size_t capacity = 2 * (vocab->tails_bytes + bytes) + 256;
        uint8_t *tails = iter__realloc(vocab->tails, capacity);
        if (!tails) return iter__fail(err, ITER_ENOMEM, "no memory for the vocabulary's words");
        vocab->tails = tails;
        vocab->tails_capacity = capacity;
    }
    memcpy(vocab->tails + vocab->tails_bytes, tail, bytes);
    vocab->tails_bytes += bytes;
    return ITER_OK;
}

iter_status iter__vocab_init(iter__vocab *vocab, size_t n_words, iter_error *err) {
    memset(vocab, 0, sizeof(*vocab));
    int32_t bits = MIN_BITS;
    while (bits < MAX_BITS && (size_t)1 << (bits - 1) < n_words)
        bits++;
    return grow_slots(vocab, bits, err);
}

void iter__vocab_free(iter__vocab *vocab) {
    iter__free(vocab->slots);
    iter__free(vocab->tails);
    memset(vocab, 0, sizeof(*vocab));
}

iter_status iter__vocab_put(iter__vocab *vocab, const uint8_t *word, size_t length, int32_t id,
                            iter_error *err) {
    if (length > UINT32_MAX)
        return iter__fail(err, ITER_EFORMAT, "a word of %zu bytes is too long", length);
    uint64_t head[2];
    head_of(word, length, head);
    const size_t tail_bytes = tail_bytes_of(length);
    const uint8_t *tail = word + (length - tail_bytes);

    text_word *slot = slot_of(vocab, head, tail, length);
    if (slot->length == 0) {
        if ((size_t)vocab->n_words + 1 > n_slots(vocab) / 2) {
            ITER_TRY(grow_slots(vocab, 64 - vocab->shift + 1, err));
            slot = slot_of(vocab, head, tail, length);
        }
        const uint64_t place = vocab->tails_bytes;
        if (tail_bytes > 0) ITER_TRY(add_tail(vocab, tail, tail_bytes, err));
        *slot = (text_word){{head[0], head[1]}, place, (uint32_t)length, id};
        vocab->n_words++;
        if (length > vocab->longest) vocab->longest = length;
    }
    slot->id = id;
    return ITER_OK;
}

iter_status iter__vocab_settle(iter__vocab *vocab, iter_error *err) {
    const size_t n_all = n_slots(vocab);
    text_word *words = iter__alloc((size_t)vocab->n_words + 1, sizeof(*words));
    if (!words) return iter__fail(err, ITER_ENOMEM, "no memory for the vocabulary's table");
    size_t n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (vocab->slots[i].length > 0) words[n++] = vocab->slots[i];
    qsort(words, n, sizeof(*words), by_id);
    memset(vocab->slots, 0, n_all * sizeof(*words));
    for (size_t i = 0; i < n; i++)
        *slot_of(vocab, words[i].head, tail_of(vocab, &words[i]), words[i].length) = words[i];
    iter__free(words);
    return ITER_OK;
}

int32_t iter__vocab_find(const iter__vocab *vocab, const uint8_t *word, size_t length) {
    if (length == 0 || length > vocab->longest) return -1;
    uint64_t head[2];
    head_of(word, length, head);
    const text_word *slot = slot_of(vocab, head, word + (length - tail_bytes_of(length)), length);
    return slot->length ? slot->id : -1;
}

uint64_t iter__vocab_identity(const iter__vocab *vocab) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n_slots(vocab); i++) {
        const text_word *slot = &vocab->slots[i];
        if (slot->length == 0 || slot->id < 0) continue;
        const size_t tail_bytes = tail_bytes_of(slot->length);
        uint64_t hash = iter__fnv1a(ITER_FNV_START, slot->head, sizeof(slot->head));
        if (tail_bytes > 0) hash = iter__fnv1a(hash, vocab->tails + slot->tail, tail_bytes);
        hash = iter__fnv1a_u64(hash, slot->length);
        sum += iter__fnv1a_u64(hash, (uint64_t)slot->id);
    }
    return sum;
}
