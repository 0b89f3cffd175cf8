/* pack_kernels_avx2.c - the kernels with AVX2 and F16C. Called only on processors with both. */
#include "transforms/pack/pack_kernels.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#include <immintrin.h>
#include <stdbool.h>

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

typedef struct vec {
    __m256 lo, hi;
} vec;

static inline __m256 load8(const int type, const char *p) {
    if (type == ITER__TYPE_U8)
        return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
    if (type == ITER__TYPE_F16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
    if (type == ITER__TYPE_BF16)
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
    return _mm256_loadu_ps((const float *)(const void *)p);
}

static inline vec load16(const int type, const char *p) {
    const int half = type == ITER__TYPE_U8 ? 8 : type == ITER__TYPE_F32 ? 32 : 16;
    return (vec){load8(type, p), load8(type, p + half)};
}

/* If an operand is NaN, max_ps returns the second one. */
static inline __m256i cut_u8(__m256 v) {
    return _mm256_cvtps_epi32(
        _mm256_min_ps(_mm256_max_ps(v, _mm256_setzero_ps()), _mm256_set1_ps(255.0f)));
}

static inline __m256i bf16_from_vec(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i near = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(near, quiet, is_nan);
}

/* Two vectors of 8 numbers below 2^16 as 16 u16 in order. packus works within 128-bit halves, so
 * quarters 1 and 2 must change places. */
static inline __m256i narrow16(__m256i lo, __m256i hi) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
}

static inline __m128i bytes16(vec v) {
    const __m256i words = narrow16(cut_u8(v.lo), cut_u8(v.hi));
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static inline vec widen16(__m128i bytes) {
    return (vec){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
                 _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}

static inline void store16(const int type, char *p, vec v) {
    if (type == ITER__TYPE_U8 || type == ITER__TYPE_KEPT) {
        _mm_storeu_si128((__m128i *)p, bytes16(v));
    } else if (type == ITER__TYPE_F16) {
        _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.lo, NEAREST));
        _mm_storeu_si128((__m128i *)(p + 16), _mm256_cvtps_ph(v.hi, NEAREST));
    } else if (type == ITER__TYPE_BF16) {
        _mm256_storeu_si256((__m256i *)p, narrow16(bf16_from_vec(v.lo), bf16_from_vec(v.hi)));
    } else {
        _mm256_storeu_ps((float *)(void *)p, v.lo);
        _mm256_storeu_ps((float *)(void *)(p + 32), v.hi);
    }
}

static inline vec set16(float x) {
    return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline vec table16(const float *p) {
    return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline vec affine16(vec v, vec a, vec b) {
    return (vec){_mm256_add_ps(_mm256_mul_ps(v.lo, a.lo), b.lo),
                 _mm256_add_ps(_mm256_mul_ps(v.hi, a.hi), b.hi)};
}

/* Element 3 i + c of 24 is in vector (3 i + c) / 8 at place (3 i + c) % 8. 3 and 8 have no common
 * factor, so over i the places of a channel are all different. So blend first, then permute once
 * per channel. */
static inline void split8(__m256 v0, __m256 v1, __m256 v2, __m256 *c0, __m256 *c1, __m256 *c2) {
    const __m256i order0 = _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5);
    const __m256i order1 = _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6);
    const __m256i order2 = _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7);
    *c0 =
        _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(v0, v1, 0x92), v2, 0x24), order0);
    *c1 =
        _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(v0, v1, 0x24), v2, 0x49), order1);
    *c2 =
        _mm256_permutevar8x32_ps(_mm256_blend_ps(_mm256_blend_ps(v0, v1, 0x49), v2, 0x92), order2);
}

static inline void split16(const vec *in, vec *out) {
    split8(in[0].lo, in[0].hi, in[1].lo, &out[0].lo, &out[1].lo, &out[2].lo);
    split8(in[1].hi, in[2].lo, in[2].hi, &out[0].hi, &out[1].hi, &out[2].hi);
}

static inline __m256 reversed(__m256 v) {
    return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* As split16, with each channel's 16 reversed. */
static inline void split16_mirrored(const vec *in, vec *out) {
    vec ahead[3];
    split16(in, ahead);
    for (int c = 0; c < 3; c++)
        out[c] = (vec){reversed(ahead[c].hi), reversed(ahead[c].lo)};
}

/* The inverse permutations, then blends. Place p of vector j belongs to channel (8 j + p) % 3. */
static inline void join8(__m256 c0, __m256 c1, __m256 c2, __m256 *v0, __m256 *v1, __m256 *v2) {
    c0 = _mm256_permutevar8x32_ps(c0, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    c1 = _mm256_permutevar8x32_ps(c1, _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    c2 = _mm256_permutevar8x32_ps(c2, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    *v0 = _mm256_blend_ps(_mm256_blend_ps(c0, c1, 0x92), c2, 0x24);
    *v1 = _mm256_blend_ps(_mm256_blend_ps(c0, c1, 0x24), c2, 0x49);
    *v2 = _mm256_blend_ps(_mm256_blend_ps(c0, c1, 0x49), c2, 0x92);
}

static inline void join16(const vec *in, vec *out) {
    join8(in[0].lo, in[1].lo, in[2].lo, &out[0].lo, &out[0].hi, &out[1].lo);
    join8(in[0].hi, in[1].hi, in[2].hi, &out[1].hi, &out[2].lo, &out[2].hi);
}

/* A column is two blocks of 16 pixels that may overlap. A block is made of 16 bytes of a row; in
 * these, `order` finds each pixel, or nothing. */
typedef struct column {
    int64_t x[2];
    ptrdiff_t from[2]; /* in the source row */
    __m128i order[2], valid_bytes[2];
    vec valid[2]; /* all bits of the pixels that have a source */
    bool all;     /* every pixel has one */
} column;

static inline int64_t within(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static inline column column_at(const iter__window *w, int64_t x) {
    const __m128i ahead = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m128i back = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    column c = {.all = true};
    for (int i = 0; i < 2; i++) {
        const int64_t at = within(x + 16 * i, 0, w->width - 16);
        const int64_t first = w->reverse ? w->offset - at - 15 : w->offset + at;
        c.x[i] = at;
        c.from[i] = within(first, 0, w->in_width - 16);
        const __m128i low = _mm_set1_epi8((char)(within(w->left - at, 0, 16) - 1)),
                      high = _mm_set1_epi8((char)within(w->right - at, 0, 16)),
                      moved = _mm_set1_epi8((char)within(first - c.from[i], -16, 16));
        const __m128i valid =
            _mm_and_si128(_mm_cmpgt_epi8(ahead, low), _mm_cmpgt_epi8(high, ahead));
        c.all &= _mm_movemask_epi8(valid) == 0xffff;
        c.order[i] = _mm_or_si128(_mm_add_epi8(w->reverse ? back : ahead, moved),
                                  _mm_andnot_si128(valid, _mm_set1_epi8((char)0x80)));
        c.valid_bytes[i] = valid;
        c.valid[i].lo = _mm256_castsi256_ps(_mm256_cvtepi8_epi32(valid));
        c.valid[i].hi = _mm256_castsi256_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(valid, 8)));
    }
    return c;
}

static inline __m128i ordered16(const uint8_t *in, __m128i order) {
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)in), order);
}

static inline vec pixels16(const uint8_t *in, __m128i order) {
    return widen16(ordered16(in, order));
}

static inline vec either16(vec valid, vec made, vec fill) {
    return (vec){_mm256_blendv_ps(fill.lo, made.lo, valid.lo),
                 _mm256_blendv_ps(fill.hi, made.hi, valid.hi)};
}

static inline void store32(const int type, const int whole, char *to, const column *c, vec v0,
                           vec v1) {
    const ptrdiff_t bytes = (ptrdiff_t)iter__type_bytes(type);
    (void)whole;
    store16(type, to + c->x[0] * bytes, v0);
    store16(type, to + c->x[1] * bytes, v1);
}

/* `order` knows whether it is mirrored. */
static inline void window32(const int type, const int reverse, const int whole, char *to,
                            const uint8_t *row, const column *c, vec a, vec b, vec fill) {
    if (type == ITER__TYPE_KEPT) {
        const __m128i bytes = bytes16(fill);
        for (int i = 0; i < 2; i++)
            _mm_storeu_si128((__m128i *)(to + c->x[i]),
                             _mm_blendv_epi8(bytes, ordered16(row + c->from[i], c->order[i]),
                                             c->valid_bytes[i]));
        return;
    }
    const vec v0 = affine16(pixels16(row + c->from[0], c->order[0]), a, b);
    const vec v1 = affine16(pixels16(row + c->from[1], c->order[1]), a, b);
    (void)reverse;
    store32(type, whole, to, c, either16(c->valid[0], v0, fill), either16(c->valid[1], v1, fill));
}

static inline vec all16(const int reverse, const uint8_t *row, const column *c, int block) {
    const uint8_t *in = row + c->from[block];
    return reverse ? pixels16(in, c->order[block]) : load16(ITER__TYPE_U8, (const char *)in);
}

#define TAIL_IS_MASKED 0
#define WINDOW_LEAST   16
#include "transforms/pack/pack_window_template.h"

#define LEVEL avx2
#include "transforms/pack/pack_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
