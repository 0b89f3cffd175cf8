/*
 * fuzz_text.c - texts, and the word lists in which they are looked up.
 *
 * The first byte chooses. A text: both ways give what the naive reference gives, ids or the offset
 * of the byte that is not UTF-8, never more than maxlen ids, and write nothing after the row. A
 * word list: if it loads, every id is below the limit; otherwise it fails with EFORMAT and a
 * message, and nothing is left allocated.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "iter/core/alloc.h"
#include "tests/support/reference_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static const char words[] =
    "{\"a\": 1, \"the\": 2, \"it's\": 3, \"\xc3\xa9\": 4, \"\xcf\x83\": 5, \"\xcf\x82\": 6, "
    "\"a\xcf\x82\": 7, \"i\xcc\x87\": 8, \"sixteen bytes li\": 9, \"seventeen-letters\": 10, "
    "\"abcdefghijklmnop\": 11, \"abcdefghijklmnopq\": 12, \"b\": 13, \"\\u0000\": 14, \"k\": 15}";

static const iter__text_rule rules[] = {
    {0, 3, 1, 2, 0, 0, 0, 0},   {0, 0, -1, -1, 0, 0, 0, 0}, {10, 3, 1, 2, 150, 0, 0, 0},
    {0, 3, 1, 2, 10, 7, 0, 1},  {0, 3, 1, 2, 10, 7, 1, 0},  {0, 3, -1, 2, 3, 7, 0, 0},
    {0, 3, 5, -1, 10, 7, 1, 1}, {0, 3, 1, 2, 1, 0, 0, 0},
};

static void check_text(const iter__text_rule *rule, const uint8_t *bytes, size_t size) {
    iter__text text = {.rule = *rule};
    iter_error err = {0};
    int64_t n_want, n = 0;
    int32_t *want;
    if (iter__text_load_index(&text, words, sizeof(words) - 1, "words", &err) < 0) abort();
    const int64_t capacity = iter__text_most_ids(rule, size);
    int32_t *ids = calloc((size_t)capacity + 1, sizeof(*ids));
    uint8_t *scratch = malloc(iter__text_scratch_bytes(&text));
    if (!ids || !scratch) abort();
    const int wrong = reference_text_ids(&text, bytes, size, &want, &n_want);
    for (int way = 0; way < 2; way++) {
        ids[capacity] = 77;
        const iter__text_reader reader = {&text, scratch, (iter__text_way)way};
        const iter_status status = iter__text_ids(&reader, bytes, size, ids, capacity, &n, &err);
        if (wrong) {
            char part[64];
            snprintf(part, sizeof(part), "invalid UTF-8 at byte %" PRId64 " ", n_want);
            check(status == ITER_EFORMAT && strncmp(err.message, part, strlen(part)) == 0);
        } else {
            check(status == ITER_OK && n == n_want && n <= capacity);
            check(n == 0 || memcmp(ids, want, (size_t)n * sizeof(*ids)) == 0);
        }
        check(ids[capacity] == 77);
    }
    free(scratch);
    free(ids);
    free(want);
    iter__vocab_free(&text.vocab);
}

static void check_list(const iter__text_rule *rule, bool json, const uint8_t *bytes, size_t size) {
    iter__text text = {.rule = *rule};
    iter_error err = {0};
    const char *chars = (const char *)bytes;
    const iter_status status = json ? iter__text_load_index(&text, chars, size, "list", &err)
                                    : iter__text_load_list(&text, chars, size, "list", &err);
    if (status < 0) {
        check(status == ITER_EFORMAT && err.status == status);
        check(strncmp(err.message, "list: ", 6) == 0 && strlen(err.message) > 6);
    } else {
        const size_t n_slots = (size_t)1 << (64 - text.vocab.shift);
        for (size_t i = 0; i < n_slots; i++) {
            const text_word *slot = &text.vocab.slots[i];
            check(slot->length <= text.vocab.longest);
            check(slot->length == 0 || rule->num_words == 0 || slot->id < rule->num_words);
        }
        check(text.vocab.n_words > 0 && text.vocab.n_words <= n_slots / 2);
        iter__vocab_free(&text.vocab);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const long live = iter__alloc_live();
    const iter__text_rule *rule = &rules[data[0] & 7];
    const int what = data[0] >> 3 & 3;
    if (what < 2) {
        check_text(rule, data + 1, size - 1);
    } else {
        check_list(rule, what == 2, data + 1, size - 1);
    }
    check(iter__alloc_live() == live);
    return 0;
}
