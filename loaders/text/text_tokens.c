/*
 * text_tokens.c - see text_tokens.h.
 *
 * Nearly every text is ASCII, and of a long one usually only the end is needed. So a bit mask of
 * the separators is made of 64 bytes at a time, from the text's end backwards. Counting zero bits
 * finds the words, and each is looked up straight from the text: 16 bytes are loaded, those after
 * the word cleared, and eight lower-cased at a time. Once there are enough words, the rest is only
 * checked to be UTF-8.
 *
 * Bytes above 0x7f count as letters, except for white space. If a word has some, it is lower-cased
 * code point by code point, with the two rules of Python that are more than a table. One letter
 * grows (U+0130). A capital sigma becomes a final one if a cased letter comes before it and none
 * after it; case-ignorable letters do not count (The Unicode Standard, section 3.13, Final_Sigma).
 * That rule looks beyond the word, into the text before any separator became a blank.
 */
#include "loaders/text/text_tokens.h"

#include <inttypes.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/text/text_unicode.h"
#include "loaders/text/text_utf8.h"

#define BLOCK   64
#define INVALID (-1)

/* 1 = a separator: punctuation without the apostrophe, and the ASCII white space of str.split(). */
/* clang-format off */
static const uint8_t separators[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, /* 0x10 */
    1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, /* 0x20 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, /* 0x30 */
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x40 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, /* 0x50 */
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x60 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, /* 0x70 */
};
/* clang-format on */

/* One text while it is read. */
typedef struct text_job {
    const iter__text *text;
    const uint8_t *bytes;
    size_t size;
    uint8_t *scratch; /* vocab.longest + 16 bytes */
    bool is_utf8;     /* all of it was checked */
} text_job;

/* The separators of 64 bytes, bit i = byte i; *out_high has the bytes above 0x7f. */
typedef uint64_t (*classify_fn)(const uint8_t *bytes, uint64_t *out_high);

/* ---- Lower case ------------------------------------------------------------------------------ */

#define CAPITAL_I_DOT 0x130u
#define CAPITAL_SIGMA 0x3a3u
#define DOT_ABOVE     0x307u
#define SMALL_SIGMA   0x3c3u
#define FINAL_SIGMA   0x3c2u

/* Whether the sigma at [begin, end) ends a word. */
static bool is_final_sigma(const text_job *job, size_t begin, size_t end) {
    uint8_t flags = 0;
    size_t n;
    while (begin > 0) {
        begin--;
        while (text_is_tail(job->bytes[begin]))
            begin--;
        flags = text_lookup(text_code_at(job->bytes + begin, &n))->flags;
        if (!(flags & ITER_TEXT_IGNORABLE)) break;
    }
    if (!(flags & ITER_TEXT_CASED)) return false;
    for (; end < job->size; end += n) {
        flags = text_lookup(text_code_at(job->bytes + end, &n))->flags;
        if (!(flags & ITER_TEXT_IGNORABLE)) return !(flags & ITER_TEXT_CASED);
    }
    return true;
}

/* Lower-cases the code point at `i` into out; returns the bytes written, at most 4; *out_bytes is
 * the number of bytes read. */
static size_t lower_at(const text_job *job, size_t i, uint8_t *out, size_t *out_bytes) {
    const uint32_t code = text_code_at(job->bytes + i, out_bytes);
    if (code == CAPITAL_SIGMA) {
        const bool is_final = is_final_sigma(job, i, i + *out_bytes);
        return iter__utf8_put(out, is_final ? FINAL_SIGMA : SMALL_SIGMA);
    }
    if (code == CAPITAL_I_DOT) {
        out[0] = 'i';
        return 1 + iter__utf8_put(out + 1, DOT_ABOVE);
    }
    return iter__utf8_put(out, (uint32_t)((int32_t)code + text_lookup(code)->delta));
}

/* ---- Separators ------------------------------------------------------------------------------ */

static uint64_t classify_plain(const uint8_t *bytes, uint64_t *out_high) {
    uint64_t separator = 0, high = 0;
    for (int i = 0; i < BLOCK; i++) {
        high |= (uint64_t)(bytes[i] >> 7) << i;
        separator |= (uint64_t)separators[bytes[i] & 0x7f] << i;
    }
    *out_high = high;
    return separator;
}

#ifdef __SSE2__
static __m128i in_range(__m128i x, char first, char last) {
    const __m128i d = _mm_sub_epi8(x, _mm_set1_epi8(first));
    return _mm_cmpeq_epi8(_mm_min_epu8(d, _mm_set1_epi8((char)(last - first))), d);
}

static uint64_t classify_sse2(const uint8_t *bytes, uint64_t *out_high) {
    uint64_t separator = 0, high = 0;
    for (int i = 0; i < BLOCK; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        const __m128i apostrophe = _mm_cmpeq_epi8(x, _mm_set1_epi8('\''));
        __m128i s = _mm_andnot_si128(apostrophe, in_range(x, 0x1c, '/'));
        s = _mm_or_si128(s, in_range(x, '\t', '\r'));
        s = _mm_or_si128(s, in_range(x, ':', '@'));
        s = _mm_or_si128(s, in_range(x, '[', '`'));
        s = _mm_or_si128(s, in_range(x, '{', '~'));
        separator |= (uint64_t)(uint32_t)_mm_movemask_epi8(s) << i;
        high |= (uint64_t)(uint32_t)_mm_movemask_epi8(x) << i;
    }
    *out_high = high;
    return separator;
}
#endif

/* Adds the white space among the bytes above 0x7f of the block at `base`; false if the text is not
 * UTF-8. */
static bool add_wide_spaces(text_job *job, size_t base, uint64_t high, uint64_t *separator) {
    if (!job->is_utf8 && iter__utf8_check(job->bytes, job->size) < job->size) return false;
    job->is_utf8 = true;
    while (high) {
        size_t at = base + (size_t)__builtin_ctzll(high), n;
        while (text_is_tail(job->bytes[at])) /* it may begin in the block before */
            at--;
        const uint32_t code = text_code_at(job->bytes + at, &n);
        const size_t begin = at > base ? at - base : 0, end = at + n - base;
        const uint64_t below = end < BLOCK ? ((uint64_t)1 << end) - 1 : ~(uint64_t)0;
        const uint64_t bits = below & ~(uint64_t)0 << begin;
        if (text_lookup(code)->flags & ITER_TEXT_SPACE) *separator |= bits;
        high &= ~bits;
    }
    return true;
}

/* The separators of the block at `base`; bytes after the text count as separators. False if the
 * text is not UTF-8. */
static inline bool classify_at(text_job *job, classify_fn classify, size_t base, uint64_t *out) {
    uint64_t high;
    if (job->size - base >= BLOCK) {
        *out = classify(job->bytes + base, &high);
    } else {
        uint8_t block[BLOCK];
        memset(block, ' ', sizeof(block));
        memcpy(block, job->bytes + base, job->size - base);
        *out = classify(block, &high);
    }
    if (!high) return true;
    *out &= ~high;
    return add_wide_spaces(job, base, high, out);
}

/* ---- Words ----------------------------------------------------------------------------------- */

#define HIGH_BITS 0x8080808080808080u

/* Lower-cases eight ASCII bytes: adding carries into a byte's top bit from 'A' on, and again after
 * 'Z'. */
static inline uint64_t lower_eight(uint64_t x) {
    const uint64_t from_a = x + 0x3f3f3f3f3f3f3f3fu, above_z = x + 0x2525252525252525u;
    return x | ((from_a & ~above_z & HIGH_BITS) >> 2);
}

/* Bytes 16 - n .. 32 - n keep the first n bytes of a head. */
static const uint8_t head_mask[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                      255, 255, 255, 255, 255, 255, 255, 255};

/* The id of a word that is longer than a head, or not ASCII; -1 = to be left out. */
static int32_t find_any(const text_job *job, size_t begin, size_t end) {
    const iter__vocab *vocab = &job->text->vocab;
    size_t length = 0, n;
    for (size_t i = begin; i < end && length <= vocab->longest; i += n)
        length += lower_at(job, i, job->scratch + length, &n);
    return iter__vocab_find(vocab, job->scratch, length);
}

/* The id of the word [begin, end); -1 = to be left out. */
static inline int32_t find_at(const text_job *job, size_t begin, size_t end) {
    const size_t length = end - begin;
    uint64_t head[2] = {0, 0}, mask[2];
    int32_t id;
    if (length <= ITER_TEXT_HEAD) {
        if (job->size - begin >= ITER_TEXT_HEAD) {
            memcpy(head, job->bytes + begin, sizeof(head));
            memcpy(mask, head_mask + (ITER_TEXT_HEAD - length), sizeof(mask));
            head[0] &= mask[0];
            head[1] &= mask[1];
        } else {
            memcpy(head, job->bytes + begin, length);
        }
    }
    if (length > ITER_TEXT_HEAD || ((head[0] | head[1]) & HIGH_BITS)) {
        id = find_any(job, begin, end);
    } else {
        head[0] = lower_eight(head[0]);
        head[1] = lower_eight(head[1]);
        id = iter__vocab_find_short(&job->text->vocab, head, length);
    }
    return id >= 0 ? id : (int32_t)job->text->rule.oov;
}

/* Reads words from the end backwards, so that the last of `wanted` ids is at row[wanted - 1].
 * Returns how many; INVALID if the text is not UTF-8. Bytes before *out_base were not checked. */
static int64_t ids_backwards(text_job *job, classify_fn classify, int32_t *row, int64_t wanted,
                             size_t *out_base) {
    int32_t *last_id = row + wanted - 1;
    int64_t n = 0;
    size_t end = 0; /* of a word that begins in an earlier block; 0 = none */
    size_t base = (job->size + BLOCK - 1) / BLOCK * BLOCK;
    while (base > 0 && n < wanted) {
        base -= BLOCK;
        uint64_t separator, below = ~(uint64_t)0; /* the part of the block that is not read yet */
        if (!classify_at(job, classify, base, &separator)) return INVALID;
        while (n < wanted) {
            if (end == 0) {
                const uint64_t letters = ~separator & below;
                if (!letters) break;
                const int bit = 63 - __builtin_clzll(letters);
                end = base + (size_t)bit + 1;
                below = ((uint64_t)1 << bit) - 1;
            }
            const uint64_t before = separator & below;
            if (!before) break;
            const int bit = 63 - __builtin_clzll(before);
            const int32_t id = find_at(job, base + (size_t)bit + 1, end);
            last_id[-n] = id;
            n += id >= 0;
            end = 0;
            below = ((uint64_t)1 << bit) - 1;
        }
    }
    if (end > 0 && n < wanted) {
        const int32_t id = find_at(job, 0, end);
        last_id[-n] = id;
        n += id >= 0;
    }
    *out_base = base;
    return n;
}

/* Reads words from the beginning, up to `wanted` ids. As above, but bytes after *out_base were not
 * checked. */
static int64_t ids_forwards(text_job *job, classify_fn classify, int32_t *row, int64_t wanted,
                            size_t *out_base) {
    const size_t none = SIZE_MAX;
    int64_t n = 0;
    size_t base = 0, begin = none; /* of a word that ends in a later block */
    for (; base < job->size && n < wanted; base += BLOCK) {
        uint64_t separator, above = ~(uint64_t)0;
        if (!classify_at(job, classify, base, &separator)) return INVALID;
        while (n < wanted) {
            if (begin == none) {
                const uint64_t letters = ~separator & above;
                if (!letters) break;
                const int bit = __builtin_ctzll(letters);
                begin = base + (size_t)bit;
                above = ~(uint64_t)0 << bit;
            }
            const uint64_t behind = separator & above;
            if (!behind) break;
            const int bit = __builtin_ctzll(behind);
            const int32_t id = find_at(job, begin, base + (size_t)bit);
            row[n] = id;
            n += id >= 0;
            begin = none;
            above = ~(uint64_t)0 << bit;
        }
    }
    if (begin != none && n < wanted) {
        const int32_t id = find_at(job, begin, job->size);
        row[n] = id;
        n += id >= 0;
    }
    *out_base = iter__min_size(base, job->size);
    return n;
}

/* The ids at the row's beginning, without padding, or INVALID. */
static int64_t ids_of(text_job *job, classify_fn classify, int32_t *row, int64_t wanted) {
    const iter__text_rule *rule = &job->text->rule;
    const bool forwards = rule->maxlen == 0 || rule->keep_first;
    const size_t size = job->size;
    int64_t n, n_start = 0;
    size_t begin = 0, end = 0; /* the bytes not checked yet */
    if (forwards) {
        if (rule->start >= 0 && wanted > 0) row[n_start++] = (int32_t)rule->start;
        n = ids_forwards(job, classify, row + n_start, wanted - n_start, &begin);
        end = size;
    } else {
        n = ids_backwards(job, classify, row, wanted, &end);
    }
    if (n == INVALID) return INVALID;
    if (!job->is_utf8 && iter__utf8_check(job->bytes + begin, end - begin) < end - begin)
        return INVALID;
    if (forwards) return n + n_start;
    if (n < wanted && rule->start >= 0) row[wanted - ++n] = (int32_t)rule->start;
    memmove(row, row + (wanted - n), (size_t)n * sizeof(*row));
    return n;
}

/* ---- functions of text_tokens.h -------------------------------------------------------------- */

size_t iter__text_scratch_bytes(const iter__text *text) {
    return text->vocab.longest + 16;
}

int64_t iter__text_most_ids(const iter__text_rule *rule, uint64_t bytes) {
    if (rule->maxlen > 0) return rule->maxlen;
    const uint64_t words = bytes / 2 + bytes % 2; /* a word and a separator are two bytes */
    return (int64_t)words + (rule->start >= 0);
}

iter_status iter__text_ids(const iter__text_reader *reader, const uint8_t *bytes, size_t size,
                           int32_t *out, int64_t capacity, int64_t *out_n, iter_error *err) {
    const iter__text_rule *rule = &reader->text->rule;
    classify_fn classify = classify_plain;
#ifdef __SSE2__
    if (reader->way == ITER_TEXT_FAST) classify = classify_sse2;
#endif
    if (size == 0) bytes = (const uint8_t *)""; /* it may be NULL */
    text_job job = {reader->text, bytes, size, reader->scratch, false};
    *out_n = 0;
    if (rule->maxlen == 0 && capacity < iter__text_most_ids(rule, size)) {
        return iter__fail(err, ITER_EFORMAT,
                          "a text of %zu bytes may have more than %" PRId64 " words", size,
                          capacity);
    }
    const int64_t n = ids_of(&job, classify, out, rule->maxlen ? rule->maxlen : capacity);
    if (n == INVALID) {
        const size_t bad = iter__utf8_check(bytes, size);
        return iter__fail(err, ITER_EFORMAT, "invalid UTF-8 at byte %zu (0x%02x)", bad, bytes[bad]);
    }
    const int64_t n_pad = rule->maxlen ? rule->maxlen - n : 0;
    if (rule->pad_first && n_pad > 0) memmove(out + n_pad, out, (size_t)n * sizeof(*out));
    int32_t *gap = out + (rule->pad_first ? 0 : n);
    for (int64_t i = 0; i < n_pad; i++)
        gap[i] = (int32_t)rule->pad;
    *out_n = n + n_pad;
    return ITER_OK;
}
