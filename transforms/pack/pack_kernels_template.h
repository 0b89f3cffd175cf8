/*
 * pack_kernels_template.h - the kernels of one SIMD level, by inclusion.
 *
 * The including file defines, for its level:
 *
 *   LEVEL                       name of the table, e.g. avx2
 *   vec                         a type of 16 floats
 *   load16(type, p)             16 elements of ITER__TYPE_... widened to f32
 *   store16(type, p, v)         the same, rounded to nearest even (u8: saturated, NaN = 0)
 *   set16(x), table16(p)        one float 16 times; 16 floats from memory
 *   affine16(v, a, b)           v * a + b, rounded twice
 *   split16(in[3], out[3])      48 floats, three interleaved channels, into three channels
 *   join16(in[3], out[3])       the inverse of split16
 *   split16_mirrored(in, out)   as split16, with the 16 of each channel reversed
 *   WIDENS_LAST                 split3 and join3 order bytes before they widen them, by reversed16
 *                               instead of split16_mirrored; only with pack_window_template.h
 *
 * and includes this file last. `type` is a constant in every call, so each body below becomes one
 * straight loop for each pair of types; the macro at the end names them.
 *
 * If fewer than 16 elements remain, the last 16 are converted once more in place, which writes the
 * same values again. Only rows shorter than 16 go through rest16(), padded in a local array.
 */
#include <string.h>

#include "transforms/pack/pack_kernels.h"

#define INLINE static inline __attribute__((always_inline))

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define AT(p, type, i)       ((const char *)(p) + (size_t)(i)*iter__type_bytes(type))
#define AT_OUT(p, type, i)   ((char *)(p) + (size_t)(i)*iter__type_bytes(type))
#define FETCH(next, type, i) __builtin_prefetch(AT(next, type, i), 0, 3)

/* Fewer than 16 elements. a and b are whole vectors. */
INLINE void rest16(const int in_type, const int out_type, void *out, const void *in, size_t n,
                   vec a, vec b) {
    char from[64] = {0}, to[64];
    memcpy(from, in, n * iter__type_bytes(in_type));
    store16(out_type, to, affine16(load16(in_type, from), a, b));
    memcpy(out, to, n * iter__type_bytes(out_type));
}

INLINE void line_body(const int in_type, const int out_type, void *out, const void *in, size_t n,
                      float a1, float b1, const void *next) {
    const vec a = set16(a1), b = set16(b1);
    const size_t step = 64 / iter__type_bytes(in_type); /* elements of one cache line */
    size_t i = 0;
    if (n < 16) {
        if (n) rest16(in_type, out_type, out, in, n, a, b);
        return;
    }
    for (; i + step <= n; i += step) {
        FETCH(next, in_type, i);
        for (size_t j = 0; j < step; j += 16)
            store16(out_type, AT_OUT(out, out_type, i + j),
                    affine16(load16(in_type, AT(in, in_type, i + j)), a, b));
    }
    if (i < n) FETCH(next, in_type, i);
    for (; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        store16(out_type, AT_OUT(out, out_type, i),
                affine16(load16(in_type, AT(in, in_type, i)), a, b));
    }
}

INLINE void table_body(const int in_type, const int out_type, void *out, const void *in, size_t n,
                       const float *a, const float *b) {
    if (n < 16) {
        float a16[16] = {0}, b16[16] = {0};
        memcpy(a16, a, n * sizeof(*a));
        memcpy(b16, b, n * sizeof(*b));
        if (n) rest16(in_type, out_type, out, in, n, table16(a16), table16(b16));
        return;
    }
    for (size_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        store16(out_type, AT_OUT(out, out_type, i),
                affine16(load16(in_type, AT(in, in_type, i)), table16(a + i), table16(b + i)));
    }
}

/* ---- Three channels as they are -------------------------------------------------------------- */

#ifdef SHUFFLES_BYTES
/* From three planes of bytes to 48 interleaved ones, in registers. */
INLINE void load_joined(const char *in, size_t plane, __m128i *out) {
    const __m128i from[3] = {LOAD_BYTES(in), LOAD_BYTES(in + plane), LOAD_BYTES(in + 2 * plane)};
    join16_bytes(from, out);
}

INLINE void load_split(const char *in, __m128i *out) {
    const __m128i from[3] = {LOAD_BYTES(in), LOAD_BYTES(in + 16), LOAD_BYTES(in + 32)};
    split16_bytes(from, out);
}
#endif

static void split3_kept(char *out, size_t plane, const char *in, size_t n, const char *next) {
    size_t i = 0;
#ifdef SHUFFLES_BYTES
    for (; i + 16 <= n; i += 16) {
        __m128i to[3];
        __builtin_prefetch(next + 3 * i, 0, 3);
        load_split(in + 3 * i, to);
        for (size_t c = 0; c < 3; c++)
            STORE_BYTES(out + c * plane + i, to[c]);
    }
#endif
    (void)next;
    for (; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            out[c * plane + i] = in[3 * i + c];
}

static void join3_kept(char *out, const char *in, size_t plane, size_t n, const char *next) {
    size_t i = 0;
#ifdef SHUFFLES_BYTES
    for (; i + 16 <= n; i += 16) {
        __m128i to[3];
        if (i % 64 == 0)
            for (size_t c = 0; c < 3; c++)
                __builtin_prefetch(next + c * plane + i, 0, 3);
        load_joined(in + i, plane, to);
        for (size_t c = 0; c < 3; c++)
            STORE_BYTES(out + 3 * i + 16 * c, to[c]);
    }
#endif
    (void)next;
    for (; i < n; i++)
        for (size_t c = 0; c < 3; c++)
            out[3 * i + c] = in[c * plane + i];
}

/* ---- Three channels -------------------------------------------------------------------------- */

/* Fewer than 16 pixels of three channels: through local arrays of 16. */
#define SHORT3_IN  char from[16 * 3 * 4] = {0}
#define SHORT3_OUT char to[16 * 3 * 4]

INLINE void pixels3_body(const int in_type, const int out_type, void *out, const void *in, size_t n,
                         const float *a, const float *b, const void *next) {
    if (n < 16) {
        table_body(in_type, out_type, out, in, 3 * n, a, b);
        return;
    }
    const vec a0 = table16(a), a1 = table16(a + 16), a2 = table16(a + 32);
    const vec b0 = table16(b), b1 = table16(b + 16), b2 = table16(b + 32);
    for (size_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        const char *from = AT(in, in_type, 3 * i);
        char *to = AT_OUT(out, out_type, 3 * i);
        for (size_t byte = 0; byte < 48 * iter__type_bytes(in_type); byte += 64)
            __builtin_prefetch(AT(next, in_type, 3 * i) + byte, 0, 3);
        store16(out_type, to, affine16(load16(in_type, from), a0, b0));
        store16(out_type, AT_OUT(to, out_type, 16),
                affine16(load16(in_type, AT(from, in_type, 16)), a1, b1));
        store16(out_type, AT_OUT(to, out_type, 32),
                affine16(load16(in_type, AT(from, in_type, 32)), a2, b2));
    }
}

INLINE void split3_16(const int in_type, const int out_type, const int mirrored, void *out,
                      size_t plane, const void *in, const vec *a, const vec *b) {
    vec from[3], to[3];
#ifdef WIDENS_LAST
    if (in_type == ITER__TYPE_U8) {
        __m128i split[3];
        load_split(in, split);
        for (int c = 0; c < 3; c++)
            store16(out_type, AT_OUT(out, out_type, (size_t)c * plane),
                    affine16(widen16(mirrored ? reversed16(split[c]) : split[c]), a[c], b[c]));
        return;
    }
#endif
    for (int c = 0; c < 3; c++)
        from[c] = load16(in_type, AT(in, in_type, 16 * c));
#ifndef WIDENS_LAST
    if (mirrored)
        split16_mirrored(from, to);
    else
#endif
        split16(from, to);
    for (int c = 0; c < 3; c++)
        store16(out_type, AT_OUT(out, out_type, (size_t)c * plane), affine16(to[c], a[c], b[c]));
}

INLINE void split3_body(const int in_type, const int out_type, void *out, size_t plane,
                        const void *in, size_t n, const float *a1, const float *b1,
                        const void *next) {
    if (in_type == ITER__TYPE_U8 && out_type == ITER__TYPE_U8 && !a1) {
        split3_kept(out, plane, in, n, next);
        return;
    }
    const vec a[3] = {set16(a1[0]), set16(a1[1]), set16(a1[2])};
    const vec b[3] = {set16(b1[0]), set16(b1[1]), set16(b1[2])};
    if (n < 16) {
        SHORT3_IN;
        SHORT3_OUT;
        memcpy(from, in, 3 * n * iter__type_bytes(in_type));
        split3_16(in_type, out_type, 0, to, 16, from, a, b);
        for (size_t c = 0; c < 3; c++)
            memcpy(AT_OUT(out, out_type, c * plane), AT(to, out_type, 16 * c),
                   n * iter__type_bytes(out_type));
        return;
    }
    for (size_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        for (size_t byte = 0; byte < 48 * iter__type_bytes(in_type); byte += 64)
            __builtin_prefetch(AT(next, in_type, 3 * i) + byte, 0, 3);
        split3_16(in_type, out_type, 0, AT_OUT(out, out_type, i), plane, AT(in, in_type, 3 * i), a,
                  b);
    }
}

/* Bytes are joined first, so a and b are of elements 16 c to 16 c + 15 of the result; else they are
 * of channel c. */
INLINE void join3_16(const int in_type, const int out_type, void *out, const void *in, size_t plane,
                     const vec *a, const vec *b) {
#ifdef WIDENS_LAST
    if (in_type == ITER__TYPE_U8) {
        __m128i joined[3];
        load_joined(in, plane, joined);
        for (int c = 0; c < 3; c++)
            store16(out_type, AT_OUT(out, out_type, 16 * c),
                    affine16(widen16(joined[c]), a[c], b[c]));
        return;
    }
#endif
    vec from[3], to[3];
    for (int c = 0; c < 3; c++)
        from[c] = affine16(load16(in_type, AT(in, in_type, (size_t)c * plane)), a[c], b[c]);
    join16(from, to);
    for (int c = 0; c < 3; c++)
        store16(out_type, AT_OUT(out, out_type, 16 * c), to[c]);
}

INLINE void join3_body(const int in_type, const int out_type, void *out, const void *in,
                       size_t plane, size_t n, const float *a1, const float *b1, const void *next) {
    if (in_type == ITER__TYPE_U8 && out_type == ITER__TYPE_U8 && !a1) {
        join3_kept(out, in, plane, n, next);
        return;
    }
    vec a[3] = {set16(a1[0]), set16(a1[1]), set16(a1[2])};
    vec b[3] = {set16(b1[0]), set16(b1[1]), set16(b1[2])};
#ifdef WIDENS_LAST
    if (in_type == ITER__TYPE_U8) {
        const vec planes_a[3] = {a[0], a[1], a[2]}, planes_b[3] = {b[0], b[1], b[2]};
        join16(planes_a, a);
        join16(planes_b, b);
    }
#endif
    if (n < 16) {
        SHORT3_IN;
        SHORT3_OUT;
        for (size_t c = 0; c < 3; c++)
            memcpy(from + 16 * c * iter__type_bytes(in_type), AT(in, in_type, c * plane),
                   n * iter__type_bytes(in_type));
        join3_16(in_type, out_type, to, from, 16, a, b);
        memcpy(out, to, 3 * n * iter__type_bytes(out_type));
        return;
    }
    const size_t line = 64 / iter__type_bytes(in_type);
    for (size_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        if (i % line == 0)
            for (size_t c = 0; c < 3; c++)
                FETCH(next, in_type, c * plane + i);
        join3_16(in_type, out_type, AT_OUT(out, out_type, 3 * i), AT(in, in_type, i), plane, a, b);
    }
}

#define DEFINE_PAIR(in, out)                                                                       \
    static void line_##in##_##out(void *o, const void *i, size_t n, float a, float b,              \
                                  const void *next) {                                              \
        line_body(in, out, o, i, n, a, b, next);                                                   \
    }                                                                                              \
    static void table_##in##_##out(void *o, const void *i, size_t n, const float *a,               \
                                   const float *b) {                                               \
        table_body(in, out, o, i, n, a, b);                                                        \
    }                                                                                              \
    static void pixels3_##in##_##out(void *o, const void *i, size_t n, const float *a,             \
                                     const float *b, const void *next) {                           \
        pixels3_body(in, out, o, i, n, a, b, next);                                                \
    }                                                                                              \
    static void split3_##in##_##out(void *o, size_t plane, const void *i, size_t n,                \
                                    const float *a, const float *b, const void *next) {            \
        split3_body(in, out, o, plane, i, n, a, b, next);                                          \
    }                                                                                              \
    static void join3_##in##_##out(void *o, const void *i, size_t plane, size_t n, const float *a, \
                                   const float *b, const void *next) {                             \
        join3_body(in, out, o, i, plane, n, a, b, next);                                           \
    }

#define DEFINE_ROW(in)               \
    DEFINE_PAIR(in, ITER__TYPE_U8)   \
    DEFINE_PAIR(in, ITER__TYPE_F16)  \
    DEFINE_PAIR(in, ITER__TYPE_BF16) \
    DEFINE_PAIR(in, ITER__TYPE_F32)

DEFINE_ROW(ITER__TYPE_U8)
DEFINE_ROW(ITER__TYPE_F16)
DEFINE_ROW(ITER__TYPE_BF16)
DEFINE_ROW(ITER__TYPE_F32)

INLINE void split3_mirrored_body(const int out_type, void *out, size_t plane, const void *in,
                                 size_t n, const float *a1, const float *b1) {
    const vec a[3] = {set16(a1[0]), set16(a1[1]), set16(a1[2])};
    const vec b[3] = {set16(b1[0]), set16(b1[1]), set16(b1[2])};
    for (size_t i = 0; i < n; i += 16) {
        if (i + 16 > n) i = n - 16;
        split3_16(ITER__TYPE_U8, out_type, 1, AT_OUT(out, out_type, i), plane,
                  AT(in, ITER__TYPE_U8, 3 * (n - 16 - i)), a, b);
    }
}

#define DEFINE_MIRRORED(out)                                                                      \
    static void mirrored_##out(void *o, size_t plane, const uint8_t *i, size_t n, const float *a, \
                               const float *b) {                                                  \
        split3_mirrored_body(out, o, plane, i, n, a, b);                                          \
    }

DEFINE_MIRRORED(ITER__TYPE_U8)
DEFINE_MIRRORED(ITER__TYPE_F16)
DEFINE_MIRRORED(ITER__TYPE_BF16)
DEFINE_MIRRORED(ITER__TYPE_F32)

#ifdef SHUFFLES_BYTES

#define DEFINE_WINDOW(out)                                                       \
    static void window_##out(void *o, const uint8_t *i, const iter__window *w) { \
        if (w->reverse)                                                          \
            window_planes(out, 1, o, i, w);                                      \
        else                                                                     \
            window_planes(out, 0, o, i, w);                                      \
    }

DEFINE_WINDOW(ITER__TYPE_KEPT)
static void window_ITER__TYPE_U8(void *out, const uint8_t *in, const iter__window *w) {
    if (!w->a)
        window_ITER__TYPE_KEPT(out, in, w);
    else if (w->reverse)
        window_planes(ITER__TYPE_U8, 1, out, in, w);
    else
        window_planes(ITER__TYPE_U8, 0, out, in, w);
}
DEFINE_WINDOW(ITER__TYPE_F16)
DEFINE_WINDOW(ITER__TYPE_BF16)
DEFINE_WINDOW(ITER__TYPE_F32)
#define WINDOW(out) window_##out, WINDOW_LEAST
#define MIRROR3     mirror3
#else
#define WINDOW(out) NULL, 0
#define MIRROR3     NULL
#endif

#define FROM_BYTES(out) WINDOW(out), mirrored_##out, NULL
#define TO_BYTES        WINDOW(ITER__TYPE_U8), mirrored_ITER__TYPE_U8, MIRROR3
#define FROM_OTHERS     NULL, 0, NULL, NULL

#define PAIR(in, out, more)                                                               \
    {                                                                                     \
        line_##in##_##out, table_##in##_##out, pixels3_##in##_##out, split3_##in##_##out, \
            join3_##in##_##out, more                                                      \
    }

#define ROW(in)                                                                           \
    {                                                                                     \
        PAIR(in, ITER__TYPE_U8, FROM_OTHERS), PAIR(in, ITER__TYPE_F16, FROM_OTHERS),      \
            PAIR(in, ITER__TYPE_BF16, FROM_OTHERS), PAIR(in, ITER__TYPE_F32, FROM_OTHERS) \
    }

const iter__kernels PASTE(iter__kernels_, LEVEL)[ITER__KERNEL_TYPES][ITER__KERNEL_TYPES] = {
    {PAIR(ITER__TYPE_U8, ITER__TYPE_U8, TO_BYTES),
     PAIR(ITER__TYPE_U8, ITER__TYPE_F16, FROM_BYTES(ITER__TYPE_F16)),
     PAIR(ITER__TYPE_U8, ITER__TYPE_BF16, FROM_BYTES(ITER__TYPE_BF16)),
     PAIR(ITER__TYPE_U8, ITER__TYPE_F32, FROM_BYTES(ITER__TYPE_F32))},
    ROW(ITER__TYPE_F16),
    ROW(ITER__TYPE_BF16),
    ROW(ITER__TYPE_F32),
};
