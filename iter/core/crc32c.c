/*
 * crc32c.c - see crc32c.h.
 *
 * The table's entry of a byte is the sum of those of its bits, because a CRC is linear. So eight
 * entries make all 256. The instruction takes eight bytes in three cycles, about 10 GB/s,
 * beside which a picture's decoder is a hundred times slower; interleaved lanes would not show.
 *
 * Source: RFC 3720, 12.1 and B.4 (the polynomial 0x1edc6f41, and known sums).
 */
#include "iter/core/crc32c.h"

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define BIT(b, k, entry) (((b) >> (k)&1u) * entry)
#define ENTRY(b)                                                                \
    (BIT(b, 0, 0xf26b8303u) ^ BIT(b, 1, 0xe13b70f7u) ^ BIT(b, 2, 0xc79a971fu) ^ \
     BIT(b, 3, 0x8ad958cfu) ^ BIT(b, 4, 0x105ec76fu) ^ BIT(b, 5, 0x20bd8edeu) ^ \
     BIT(b, 6, 0x417b1dbcu) ^ BIT(b, 7, 0x82f63b78u))
#define ENTRIES_4(b)  ENTRY(b), ENTRY((b) + 1u), ENTRY((b) + 2u), ENTRY((b) + 3u)
#define ENTRIES_16(b) ENTRIES_4(b), ENTRIES_4((b) + 4u), ENTRIES_4((b) + 8u), ENTRIES_4((b) + 12u)
#define ENTRIES_64(b) \
    ENTRIES_16(b), ENTRIES_16((b) + 16u), ENTRIES_16((b) + 32u), ENTRIES_16((b) + 48u)

static const uint32_t table[256] = {ENTRIES_64(0u), ENTRIES_64(64u), ENTRIES_64(128u),
                                    ENTRIES_64(192u)};

static uint32_t by_table(uint32_t crc, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ p[i]) & 255];
    return ~crc;
}

uint32_t iter__crc32c_plain(const void *bytes, size_t n) {
    return by_table(0, bytes, n);
}

#if defined(__x86_64__)

#if defined(__clang__) && __clang_major__ >= 14 /* has a name of its own for the instruction */
#define WITH_CRC32 __attribute__((target("sse4.2,crc32")))
#else
#define WITH_CRC32 __attribute__((target("sse4.2")))
#endif

WITH_CRC32 static uint32_t by_instruction(uint32_t before, const uint8_t *p, size_t n) {
    uint64_t crc = ~before, word;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; n > 0; p++, n--)
        crc = _mm_crc32_u8((uint32_t)crc, *p);
    return ~(uint32_t)crc;
}
#endif

uint32_t iter__crc32c_more(uint32_t crc, const void *bytes, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return by_instruction(crc, bytes, n);
#endif
    return by_table(crc, bytes, n);
}

uint32_t iter__crc32c(const void *bytes, size_t n) {
    return iter__crc32c_more(0, bytes, n);
}
