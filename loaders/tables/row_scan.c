/*
 * row_scan.c - see row_scan.h.
 *
 * 64 bytes at a time become two masks, one of line feeds and one of marks. The exclusive or of all
 * lower bits of the second mask says for each byte whether it lies inside.
 *
 * Source: G. Langdale, D. Lemire, "Parsing Gigabytes of JSON per Second", VLDB Journal 2019, 3.1.1,
 * for the mask of what is quoted.
 */
#include "loaders/tables/row_scan.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define BLOCK 64

/* Bit i is set if bytes[i] is `byte`. */
static inline uint64_t mask_of(const uint8_t *bytes, char byte) {
    uint64_t mask = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8(byte);
    for (int i = 0; i < BLOCK; i += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(x, wanted)) << i;
    }
#else
    for (int i = 0; i < BLOCK; i++)
        mask |= (uint64_t)(bytes[i] == (uint8_t)byte) << i;
#endif
    return mask;
}

/* Bit i of the result: the exclusive or of bits 0 to i. */
static inline uint64_t running_parity(uint64_t x) {
    for (int shift = 1; shift < BLOCK; shift *= 2)
        x ^= x << shift;
    return x;
}

static inline size_t put_places(uint64_t mask, size_t base, uint32_t *out, size_t n) {
    for (; mask; mask &= mask - 1)
        out[n++] = (uint32_t)(base + (size_t)__builtin_ctzll(mask));
    return n;
}

bool iter__row_scan(const uint8_t *bytes, size_t n, bool quotes, uint32_t *even, size_t *n_even,
                    uint32_t *odd, size_t *n_odd) {
    uint64_t inside = 0; /* all bits: the last block ended inside */
    size_t n_outer = 0, n_inner = 0;
    for (size_t base = 0; base < n; base += BLOCK) {
        uint8_t last[BLOCK] = {0};
        const uint8_t *block = bytes + base;
        if (n - base < BLOCK) {
            memcpy(last, block, n - base);
            block = last;
        }
        const uint64_t lines = mask_of(block, '\n');
        uint64_t within = inside;
        if (quotes) {
            const uint64_t marks = mask_of(block, '"');
            if (marks) {
                within ^= running_parity(marks);
                inside = (uint64_t)0 - (within >> 63);
            }
        }
        if (even) n_outer = put_places(lines & ~within, base, even, n_outer);
        if (odd) n_inner = put_places(lines & within, base, odd, n_inner);
    }
    if (even) *n_even = n_outer;
    if (odd) *n_odd = n_inner;
    return inside != 0;
}

uint64_t iter__row_scan_lines(const uint8_t *bytes, size_t n) {
    uint64_t lines = 0;
    size_t base = 0;
    for (; n - base >= BLOCK; base += BLOCK)
        lines += (uint64_t)__builtin_popcountll(mask_of(bytes + base, '\n'));
    for (; base < n; base++)
        lines += bytes[base] == '\n';
    return lines;
}
