/*
 * transpose.c - blocked transposes of raw elements.
 *
 * A block of N x N elements, N of them in a 16-byte vector, is transposed by log2 N rounds of the
 * perfect shuffle: row i is interleaved with row i + N / 2. The generic vectors of the compilers
 * become punpck on x86 and zip on ARM. The edges go element by element.
 */
#include <stdint.h>
#include <string.h>

#include "transforms/pack/pack_kernels.h"

typedef uint8_t vec1 __attribute__((vector_size(16)));
typedef uint16_t vec2 __attribute__((vector_size(16)));
typedef uint32_t vec4 __attribute__((vector_size(16)));
typedef uint64_t vec8 __attribute__((vector_size(16)));

#define LOW1  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH1 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW2  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH2 4, 12, 5, 13, 6, 14, 7, 15
#define LOW4  0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define LOW8  0, 2
#define HIGH8 1, 3

/* gcc has __builtin_shufflevector from version 12 on. */
#ifdef __clang__
#define SHUFFLE(bytes, a, b, places) __builtin_shufflevector(a, b, places##bytes)
#else
#define SHUFFLE(bytes, a, b, places) __builtin_shuffle(a, b, (vec##bytes){places##bytes})
#endif

/* Transposes the block of 16 / bytes rows and columns at `in` to `out`; steps are bytes. */
#define DEFINE_BLOCK(bytes, rounds)                                                              \
    static void block##bytes(const char *in, ptrdiff_t in_step, char *out, ptrdiff_t out_step) { \
        enum { ITER__N = 16 / (bytes) };                                                         \
        vec##bytes a[ITER__N], b[ITER__N];                                                       \
        for (int i = 0; i < ITER__N; i++)                                                        \
            memcpy(&a[i], in + i * in_step, 16);                                                 \
        for (int round = 0; round < (rounds); round++) {                                         \
            for (int i = 0; i < ITER__N / 2; i++) {                                              \
                b[2 * i] = SHUFFLE(bytes, a[i], a[i + ITER__N / 2], LOW);                        \
                b[2 * i + 1] = SHUFFLE(bytes, a[i], a[i + ITER__N / 2], HIGH);                   \
            }                                                                                    \
            memcpy(a, b, sizeof(a));                                                             \
        }                                                                                        \
        for (int i = 0; i < ITER__N; i++)                                                        \
            memcpy(out + i * out_step, &a[i], 16);                                               \
    }

DEFINE_BLOCK(1, 4)
DEFINE_BLOCK(2, 3)
DEFINE_BLOCK(4, 2)
DEFINE_BLOCK(8, 1)

static void block_of(size_t bytes, const char *in, ptrdiff_t in_step, char *out,
                     ptrdiff_t out_step) {
    switch (bytes) {
    case 1: block1(in, in_step, out, out_step); break;
    case 2: block2(in, in_step, out, out_step); break;
    case 4: block4(in, in_step, out, out_step); break;
    default: block8(in, in_step, out, out_step); break;
    }
}

static void edge(size_t bytes, const char *in, ptrdiff_t in_step, char *out, ptrdiff_t out_step,
                 size_t n_y, size_t n_x) {
    for (size_t y = 0; y < n_y; y++)
        for (size_t x = 0; x < n_x; x++)
            memcpy(out + (ptrdiff_t)x * out_step + (ptrdiff_t)(y * bytes),
                   in + (ptrdiff_t)y * in_step + (ptrdiff_t)(x * bytes), bytes);
}

void iter__transpose(size_t bytes, const void *in, ptrdiff_t in_step, void *out, ptrdiff_t out_step,
                     size_t n_y, size_t n_x) {
    const size_t side = 16 / bytes;
    const size_t whole_y = n_y / side * side, whole_x = n_x / side * side;
    const char *from = in;
    char *to = out;
    for (size_t y = 0; y < whole_y; y += side)
        for (size_t x = 0; x < whole_x; x += side)
            block_of(bytes, from + (ptrdiff_t)y * in_step + (ptrdiff_t)(x * bytes), in_step,
                     to + (ptrdiff_t)x * out_step + (ptrdiff_t)(y * bytes), out_step);
    edge(bytes, from + (ptrdiff_t)(whole_x * bytes), in_step, to + (ptrdiff_t)whole_x * out_step,
         out_step, whole_y, n_x - whole_x);
    edge(bytes, from + (ptrdiff_t)whole_y * in_step, in_step, to + (ptrdiff_t)(whole_y * bytes),
         out_step, n_y - whole_y, n_x);
}
