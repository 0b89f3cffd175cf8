/* pack_kernels_avx512.c - the kernels with AVX-512 F, BW, DQ and VL. Called only on
 * processors that have all of them. */
#include "transforms/pack/pack_kernels.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include <immintrin.h>
#include <stdbool.h>

typedef __m512 vec;

static inline vec load16(const int type, const char *p) {
    if (type == ITER__TYPE_U8)
        return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
    if (type == ITER__TYPE_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
    if (type == ITER__TYPE_BF16)
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
    return _mm512_loadu_ps(p);
}

/* If an operand is NaN, max_ps returns the second one. */
static inline __m128i bytes16(vec v) {
    const vec cut = _mm512_min_ps(_mm512_max_ps(v, _mm512_setzero_ps()), _mm512_set1_ps(255.0f));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(cut));
}

static inline __m128i reversed16(__m128i bytes) {
    const __m128i order = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm_shuffle_epi8(bytes, order);
}

static inline vec widen16(__m128i bytes) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

static inline __m256i f16_from_vec(vec v) {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline __m256i bf16_from_vec(vec v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i near = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(near, is_nan, quiet));
}

static inline void store16(const int type, char *p, vec v) {
    if (type == ITER__TYPE_U8 || type == ITER__TYPE_KEPT)
        _mm_storeu_si128((__m128i *)p, bytes16(v));
    else if (type == ITER__TYPE_F16)
        _mm256_storeu_si256((__m256i *)p, f16_from_vec(v));
    else if (type == ITER__TYPE_BF16)
        _mm256_storeu_si256((__m256i *)p, bf16_from_vec(v));
    else
        _mm512_storeu_ps(p, v);
}

static inline void store16_some(const int type, char *p, vec v, __mmask16 some) {
    if (type == ITER__TYPE_U8 || type == ITER__TYPE_KEPT)
        _mm_mask_storeu_epi8(p, some, bytes16(v));
    else if (type == ITER__TYPE_F16)
        _mm256_mask_storeu_epi16(p, some, f16_from_vec(v));
    else if (type == ITER__TYPE_BF16)
        _mm256_mask_storeu_epi16(p, some, bf16_from_vec(v));
    else
        _mm512_mask_storeu_ps(p, some, v);
}

static inline vec set16(float x) {
    return _mm512_set1_ps(x);
}

static inline vec table16(const float *p) {
    return _mm512_loadu_ps(p);
}

static inline vec affine16(vec v, vec a, vec b) {
    return _mm512_add_ps(_mm512_mul_ps(v, a), b);
}

/* Element 3 i + c is in vector (3 i + c) / 16 at place (3 i + c) % 16. 3 and 16 have no common
 * factor, so over i the places of a channel are all different. So blend first, then permute once
 * per channel. The masks say which places channel c takes from vectors 1 and 2. */
static inline void split16(const vec *in, vec *out) {
    const __m512i order0 = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13);
    const __m512i order1 = _mm512_setr_epi32(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14);
    const __m512i order2 = _mm512_setr_epi32(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15);
    vec v = _mm512_mask_blend_ps(0x4924, in[0], in[1]);
    out[0] = _mm512_permutexvar_ps(order0, _mm512_mask_blend_ps(0x2492, v, in[2]));
    v = _mm512_mask_blend_ps(0x9249, in[0], in[1]);
    out[1] = _mm512_permutexvar_ps(order1, _mm512_mask_blend_ps(0x4924, v, in[2]));
    v = _mm512_mask_blend_ps(0x2492, in[0], in[1]);
    out[2] = _mm512_permutexvar_ps(order2, _mm512_mask_blend_ps(0x9249, v, in[2]));
}

/* The inverse permutations, then blends. Place p of vector j belongs to channel (16 j + p) % 3. */
static inline void join16(const vec *in, vec *out) {
    const __m512i order0 = _mm512_setr_epi32(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    const __m512i order1 = _mm512_setr_epi32(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10);
    const __m512i order2 = _mm512_setr_epi32(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15);
    const vec c0 = _mm512_permutexvar_ps(order0, in[0]);
    const vec c1 = _mm512_permutexvar_ps(order1, in[1]);
    const vec c2 = _mm512_permutexvar_ps(order2, in[2]);
    out[0] = _mm512_mask_blend_ps(0x4924, _mm512_mask_blend_ps(0x2492, c0, c1), c2);
    out[1] = _mm512_mask_blend_ps(0x2492, _mm512_mask_blend_ps(0x9249, c0, c1), c2);
    out[2] = _mm512_mask_blend_ps(0x9249, _mm512_mask_blend_ps(0x4924, c0, c1), c2);
}

/* Bits of the positions in [low, high) among 16 from `at`. */
static inline __mmask16 interval_mask(int64_t low, int64_t high, int64_t at) {
    const int64_t from = low - at < 0 ? 0 : low - at > 16 ? 16 : low - at;
    const int64_t to = high - at < 0 ? 0 : high - at > 16 ? 16 : high - at;
    return (__mmask16)(((1u << to) - 1u) & ~((1u << from) - 1u));
}

static inline unsigned mirror16(unsigned mask) {
    mask = (mask & 0x5555u) << 1 | (mask >> 1 & 0x5555u);
    mask = (mask & 0x3333u) << 2 | (mask >> 2 & 0x3333u);
    mask = (mask & 0x0f0fu) << 4 | (mask >> 4 & 0x0f0fu);
    return (mask & 0xffu) << 8 | mask >> 8;
}

/* For each of a column's two blocks: which bytes to load, which pixels have a source, which to
 * store. */
typedef struct column {
    int64_t x;
    ptrdiff_t from_x; /* the source of its first block */
    __mmask16 from[2], valid[2], some[2];
    bool all; /* every pixel of 32 has a source */
} column;

static inline column column_at(const iter__window *w, int64_t x) {
    column c = {.x = x, .from_x = w->reverse ? w->offset - x - 15 : w->offset + x};
    for (int i = 0; i < 2; i++) {
        c.valid[i] = interval_mask(w->left, w->right, x + 16 * i);
        c.from[i] = w->reverse ? (__mmask16)mirror16(c.valid[i]) : c.valid[i];
        c.some[i] = interval_mask(0, w->width, x + 16 * i);
    }
    c.all = (c.valid[0] & c.valid[1] & c.some[1]) == 0xffff;
    return c;
}

/* One block of 16: a masked load (masked bytes are not touched, so they may lie anywhere), mirrored
 * when `reverse`. */
static inline __m128i bytes_of_block(const int reverse, const uint8_t *in, __mmask16 from) {
    const __m128i bytes = _mm_maskz_loadu_epi8(from, in);
    return reverse ? reversed16(bytes) : bytes;
}

/* `fill` where the mask is 0. */
static inline vec window16(const int reverse, const uint8_t *in, __mmask16 from, __mmask16 valid,
                           vec a, vec b, vec fill) {
    const __m128i bytes = bytes_of_block(reverse, in, from);
    return _mm512_mask_add_ps(fill, valid, _mm512_mul_ps(widen16(bytes), a), b);
}

static inline vec all16(const int reverse, const uint8_t *row, const column *c, int block) {
    return widen16(bytes_of_block(reverse, row + c->from_x + (reverse ? -16 : 16) * block, 0xffff));
}

static inline void keep16(const int reverse, const int whole, char *to, const uint8_t *in,
                          const column *c, int block, __m128i fill) {
    __m128i bytes = bytes_of_block(reverse, in, c->from[block]);
    bytes = _mm_mask_mov_epi8(fill, c->valid[block], bytes);
    if (whole)
        _mm_storeu_si128((__m128i *)to, bytes);
    else
        _mm_mask_storeu_epi8(to, c->some[block], bytes);
}

static inline void store32(const int type, const int whole, char *to, const column *c, vec v0,
                           vec v1) {
    const ptrdiff_t bytes = (ptrdiff_t)iter__type_bytes(type);
    char *first = to + c->x * bytes, *second = first + 16 * bytes;
    if (whole) {
        store16(type, first, v0);
        store16(type, second, v1);
    } else {
        store16_some(type, first, v0, c->some[0]);
        store16_some(type, second, v1, c->some[1]);
    }
}

static inline void window32(const int type, const int reverse, const int whole, char *to,
                            const uint8_t *row, const column *c, vec a, vec b, vec fill) {
    const uint8_t *in = row + c->from_x;
    if (type == ITER__TYPE_KEPT) {
        const __m128i bytes = bytes16(fill);
        keep16(reverse, whole, to + c->x, in, c, 0, bytes);
        keep16(reverse, whole, to + c->x + 16, in + (reverse ? -16 : 16), c, 1, bytes);
        return;
    }
    const vec v0 = window16(reverse, in, c->from[0], c->valid[0], a, b, fill);
    const vec v1 =
        window16(reverse, in + (reverse ? -16 : 16), c->from[1], c->valid[1], a, b, fill);
    store32(type, whole, to, c, v0, v1);
}

#define TAIL_IS_MASKED 1
#define WIDENS_LAST    /* u8 interleaved to f16 planes: 0.95 of the time; with AVX2 1.03 */
#define WINDOW_LEAST   1
#include "transforms/pack/pack_window_template.h"

#define LEVEL avx512
#include "transforms/pack/pack_kernels_template.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
