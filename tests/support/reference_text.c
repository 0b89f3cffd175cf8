/*
 * reference_text.c - see reference_text.h.
 *
 * Decodes to code points, lower-cases all of them, replaces punctuation, splits, looks up, cuts and
 * fills. It shares only the vocabulary and the Unicode table with the library;
 * tests/python/check_text.py compares that table with Python's.
 */
#include "tests/support/reference_text.h"

#include <stdlib.h>

#include "loaders/text/text_unicode.h"

static void *take(size_t n, size_t size) {
    void *block = calloc(n ? n : 1, size);
    if (!block) exit(1);
    return block;
}

/* Decodes UTF-8 to code points; returns their number. If the text is not UTF-8, returns -1 - offset
 * of the bad byte. */
static int64_t decode(const uint8_t *bytes, size_t size, uint32_t *codes) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int64_t n = 0;
    for (size_t i = 0; i < size;) {
        const uint32_t a = bytes[i];
        const size_t length = a < 0x80 ? 1 : a < 0xc0 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
        uint32_t code = length == 1 ? a : a & (0xffu >> (length + 1));
        if (length == 0 || a > 0xf7 || i + length > size) return -1 - (int64_t)i;
        for (size_t k = 1; k < length; k++) {
            if ((bytes[i + k] & 0xc0) != 0x80) return -1 - (int64_t)i;
            code = code << 6 | (bytes[i + k] & 0x3fu);
        }
        if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return -1 - (int64_t)i;
        codes[n++] = code;
        i += length;
    }
    return n;
}

static int cased_before(const uint32_t *codes, int64_t i) {
    while (--i >= 0 && (text_lookup(codes[i])->flags & ITER_TEXT_IGNORABLE)) {
    }
    return i >= 0 && (text_lookup(codes[i])->flags & ITER_TEXT_CASED);
}

static int cased_behind(const uint32_t *codes, int64_t i, int64_t n) {
    while (++i < n && (text_lookup(codes[i])->flags & ITER_TEXT_IGNORABLE)) {
    }
    return i < n && (text_lookup(codes[i])->flags & ITER_TEXT_CASED);
}

/* Returns the number of code points written, at most twice n. */
static int64_t lower(const uint32_t *codes, int64_t n, uint32_t *out) {
    int64_t n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (codes[i] == 0x130) {
            out[n_out++] = 'i';
            out[n_out++] = 0x307;
        } else if (codes[i] == 0x3a3) {
            out[n_out++] = cased_before(codes, i) && !cased_behind(codes, i, n) ? 0x3c2 : 0x3c3;
        } else {
            out[n_out++] = (uint32_t)((int32_t)codes[i] + text_lookup(codes[i])->delta);
        }
    }
    return n_out;
}

static int is_blank(uint32_t code) {
    static const char blanks[] = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n";
    if (code != 0 && code < 0x80 && strchr(blanks, (int)code)) return 1;
    return (text_lookup(code)->flags & ITER_TEXT_SPACE) != 0;
}

static size_t encode(uint32_t code, uint8_t *out) {
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t k = length; k-- > 1; code >>= 6)
        out[k] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(lead[length] | code);
    return length;
}

/* All ids of the text, start included. */
static int64_t all_ids(const iter__text *text, const uint32_t *codes, int64_t n, int64_t *ids) {
    uint8_t *word = take((size_t)n * 4 + 4, 1);
    size_t length = 0;
    int64_t n_ids = 0;
    if (text->rule.start >= 0) ids[n_ids++] = text->rule.start;
    for (int64_t i = 0; i <= n; i++) {
        if (i < n && !is_blank(codes[i])) {
            length += encode(codes[i], word + length);
        } else if (length > 0) {
            const int32_t id = iter__vocab_find(&text->vocab, word, length);
            const int64_t put = id >= 0 ? id : text->rule.oov;
            if (put >= 0) ids[n_ids++] = put;
            length = 0;
        }
    }
    free(word);
    return n_ids;
}

int reference_text_ids(const iter__text *text, const uint8_t *bytes, size_t size, int32_t **out,
                       int64_t *out_n) {
    const iter__text_rule *rule = &text->rule;
    uint32_t *codes = take(size, sizeof(*codes)), *lowered = take(2 * size, sizeof(*lowered));
    int64_t *ids = take(size + 2, sizeof(*ids));
    const int64_t n_codes = decode(bytes, size, codes);
    *out = NULL;
    *out_n = -1 - n_codes;
    if (n_codes >= 0) {
        const int64_t n = all_ids(text, lowered, lower(codes, n_codes, lowered), ids);
        const int64_t kept = rule->maxlen == 0 || n < rule->maxlen ? n : rule->maxlen;
        const int64_t from = rule->keep_first ? 0 : n - kept;
        *out_n = rule->maxlen ? rule->maxlen : kept;
        *out = take((size_t)*out_n, sizeof(**out));
        for (int64_t i = 0; i < *out_n; i++)
            (*out)[i] = (int32_t)rule->pad;
        for (int64_t i = 0; i < kept; i++)
            (*out)[(rule->pad_first ? *out_n - kept : 0) + i] = (int32_t)ids[from + i];
    }
    free(ids);
    free(lowered);
    free(codes);
    return n_codes >= 0 ? 0 : -1;
}
