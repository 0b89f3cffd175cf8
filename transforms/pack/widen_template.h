/*
 * widen_template.h - the loops of widen.h, compiled once for each level; `LEVEL` names it.
 *
 * Blocks of 64 elements have a constant length, so that a compiler turns each into vector loads,
 * widenings and stores without a rest. The last block overlaps the one before.
 */
#include <stdint.h>
#include <string.h>

#define WIDEN_BLOCK 64u

#define WIDEN_LOOP(length, from, to, value)                    \
    for (size_t j = 0; j < (length); j++) {                    \
        from x;                                                \
        memcpy(&x, in + (i + j) * sizeof(from), sizeof(from)); \
        const to y = value;                                    \
        memcpy(out + (i + j) * sizeof(to), &y, sizeof(to));    \
    }

#define WIDEN(name, from, to, value)                                                     \
    static void name(void *restrict to_bytes, const void *restrict from_bytes, size_t n, \
                     const void *next) {                                                 \
        char *restrict out = to_bytes;                                                   \
        const char *restrict in = from_bytes;                                            \
        size_t i = 0;                                                                    \
        if (n < WIDEN_BLOCK) {                                                           \
            WIDEN_LOOP(n, from, to, value)                                               \
            return;                                                                      \
        }                                                                                \
        for (;;) {                                                                       \
            for (size_t line = 0; line < WIDEN_BLOCK * sizeof(from); line += 64)         \
                __builtin_prefetch((const char *)next + i * sizeof(from) + line, 0, 3);  \
            WIDEN_LOOP(WIDEN_BLOCK, from, to, value)                                     \
            i += WIDEN_BLOCK;                                                            \
            if (i == n) return;                                                          \
            if (i > n - WIDEN_BLOCK) i = n - WIDEN_BLOCK;                                \
        }                                                                                \
    }

WIDEN(zero_1_2, uint8_t, uint16_t, x)
WIDEN(zero_1_4, uint8_t, uint32_t, x)
WIDEN(zero_1_8, uint8_t, uint64_t, x)
WIDEN(zero_2_4, uint16_t, uint32_t, x)
WIDEN(zero_2_8, uint16_t, uint64_t, x)
WIDEN(zero_4_8, uint32_t, uint64_t, x)
WIDEN(sign_1_2, int8_t, int16_t, x)
WIDEN(sign_1_4, int8_t, int32_t, x)
WIDEN(sign_1_8, int8_t, int64_t, x)
WIDEN(sign_2_4, int16_t, int32_t, x)
WIDEN(sign_2_8, int16_t, int64_t, x)
WIDEN(sign_4_8, int32_t, int64_t, x)
WIDEN(bool_1_1, uint8_t, uint8_t, x != 0)
WIDEN(bool_1_2, uint8_t, uint16_t, x != 0)
WIDEN(bool_1_4, uint8_t, uint32_t, x != 0)
WIDEN(bool_1_8, uint8_t, uint64_t, x != 0)

#define WIDEN_PASTE2(a, b) a##b
#define WIDEN_PASTE(a, b)  WIDEN_PASTE2(a, b)

iter__widen_table WIDEN_PASTE(iter__widen_, LEVEL) = {
    [ITER__WIDEN_ZERO] = {{NULL, zero_1_2, zero_1_4, zero_1_8},
                          {NULL, NULL, zero_2_4, zero_2_8},
                          {NULL, NULL, NULL, zero_4_8}},
    [ITER__WIDEN_SIGN] = {{NULL, sign_1_2, sign_1_4, sign_1_8},
                          {NULL, NULL, sign_2_4, sign_2_8},
                          {NULL, NULL, NULL, sign_4_8}},
    [ITER__WIDEN_BOOL] = {{bool_1_1, bool_1_2, bool_1_4, bool_1_8}},
};
