/*
 * color_template.h - the colour kernels of one level, by inclusion. The including file defines
 * LEVEL, the name of the table, and sets the target.
 *
 * Pixels are first split into planes of one block, so that the loops over them are simple.
 */
#include <string.h>

#include "transforms/color/color.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#define BLOCK 128

typedef struct planes {
    uint8_t r[BLOCK], g[BLOCK], b[BLOCK];
} planes;

static inline void split(planes *to, const uint8_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to->r[i] = in[3 * i];
        to->g[i] = in[3 * i + 1];
        to->b[i] = in[3 * i + 2];
    }
}

static inline void join(uint8_t *out, const planes *from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[3 * i] = from->r[i];
        out[3 * i + 1] = from->g[i];
        out[3 * i + 2] = from->b[i];
    }
}

/* ITU-R 601-2 in 1/65536, rounded. */
static inline void gray_of(uint8_t *restrict out, const planes *restrict p) {
    for (int i = 0; i < BLOCK; i++)
        out[i] = (uint8_t)((p->r[i] * 19595u + p->g[i] * 38470u + p->b[i] * 7471u + 0x8000u) >> 16);
}

static inline uint8_t blended(uint8_t x, float base, float factor) {
    float v = base + factor * ((float)x - base);
    v = v < 0.0f ? 0.0f : v;
    v = v > 255.0f ? 255.0f : v;
    return (uint8_t)(int32_t)v;
}

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void blend(uint8_t *out, const uint8_t *in, size_t n, float base, float factor) {
    uint8_t bytes[4 * BLOCK] = {0};
    for (size_t at = 0; at < n; at += sizeof(bytes)) {
        const size_t here = least(n - at, sizeof(bytes));
        memcpy(bytes, in + at, here);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = blended(bytes[i], base, factor);
        memcpy(out + at, bytes, here);
    }
}

static void saturate(uint8_t *out, const uint8_t *in, size_t n, float factor) {
    planes p = {{0}, {0}, {0}};
    uint8_t base[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = least(n - at, BLOCK);
        split(&p, in + 3 * at, here);
        gray_of(base, &p);
        for (int i = 0; i < BLOCK; i++)
            p.r[i] = blended(p.r[i], (float)base[i], factor);
        for (int i = 0; i < BLOCK; i++)
            p.g[i] = blended(p.g[i], (float)base[i], factor);
        for (int i = 0; i < BLOCK; i++)
            p.b[i] = blended(p.b[i], (float)base[i], factor);
        join(out + 3 * at, &p, here);
    }
}

static void gray(uint8_t *out, const uint8_t *in, size_t n) {
    planes p = {{0}, {0}, {0}};
    uint8_t base[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = least(n - at, BLOCK);
        split(&p, in + 3 * at, here);
        gray_of(base, &p);
        memcpy(p.r, base, BLOCK);
        memcpy(p.g, base, BLOCK);
        memcpy(p.b, base, BLOCK);
        join(out + 3 * at, &p, here);
    }
}

static uint64_t gray_sum(const uint8_t *in, size_t n) {
    planes p = {{0}, {0}, {0}};
    uint8_t base[BLOCK];
    uint64_t sum = 0;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = least(n - at, BLOCK);
        uint32_t block = 0;
        split(&p, in + 3 * at, here);
        gray_of(base, &p);
        for (size_t i = 0; i < here; i++)
            block += base[i];
        sum += block;
    }
    return sum;
}

/* ---- Hue ------------------------------------------------------------------------------------- */

static inline int32_t max3(int32_t a, int32_t b, int32_t c) {
    const int32_t ab = a > b ? a : b;
    return ab > c ? ab : c;
}

static inline int32_t min3(int32_t a, int32_t b, int32_t c) {
    const int32_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Hue and saturation of a block in 1/255, and the value. The widths of the numbers on the way are
 * Pillow's. */
static inline void hue_of(int32_t *restrict h, int32_t *restrict s, int32_t *restrict v,
                          const planes *restrict p) {
    for (int i = 0; i < BLOCK; i++) {
        const int32_t r = p->r[i], g = p->g[i], b = p->b[i];
        const int32_t high = max3(r, g, b), low = min3(r, g, b);
        const int32_t range = high - low, some = range | (range == 0); /* gray: nothing by one */
        const int32_t from = high == r ? high - b : high == g ? high - r : high - g;
        const int32_t less = high == r ? high - g : high == g ? high - b : high - r;
        const int32_t sector = high == r ? 0 : high == g ? 2 : 4;
        const float add = (float)from / (float)some, take = (float)less / (float)some;
        const float sixths = (float)((double)sector + (double)add - (double)take);
        const double turn = (double)sixths * (1.0 / 6.0) + 1.0;
        const float hue = (float)(turn - (double)(int32_t)turn);
        h[i] = (int32_t)((double)hue * 255.0);
        s[i] = (int32_t)((double)((float)range / (float)(high | (high == 0))) * 255.0);
        v[i] = high;
    }
}

/* Which sixth of the circle a hue is in once it is turned, and the bytes that colours of such hues
 * are made of, besides the value. */
typedef struct sixths {
    int32_t k[BLOCK], p[BLOCK], q[BLOCK], t[BLOCK];
} sixths;

static inline void turn(sixths *restrict out, const int32_t *restrict h, const int32_t *restrict s,
                        const int32_t *restrict v, int32_t shift) {
    for (int i = 0; i < BLOCK; i++) {
        const double at = (double)((h[i] + shift) & 255) * (6.0 / 255.0);
        const int32_t k = (int32_t)at;
        const double rest = (double)(float)(at - (double)k);
        const double share = (double)(float)((double)s[i] * (1.0 / 255.0));
        const double value = (double)v[i];
        out->k[i] = k;
        out->p[i] = (int32_t)(value * (1.0 - share) + 0.5);
        out->q[i] = (int32_t)(value * (1.0 - (double)(float)(share * rest)) + 0.5);
        out->t[i] = (int32_t)(value * (1.0 - share * (1.0 - rest)) + 0.5);
    }
}

static inline void choose(planes *restrict out, const sixths *restrict from,
                          const int32_t *restrict v) {
    for (int i = 0; i < BLOCK; i++) {
        const int32_t k = from->k[i], p = from->p[i], q = from->q[i], t = from->t[i];
        int32_t r = ((k == 0) | (k >= 5)) ? v[i] : p; /* k = 6 is 0 again */
        int32_t g = ((k == 1) | (k == 2)) ? v[i] : p;
        int32_t b = ((k == 3) | (k == 4)) ? v[i] : p;
        r = k == 1 ? q : k == 4 ? t : r;
        g = k == 3 ? q : ((k == 0) | (k == 6)) ? t : g;
        b = k == 5 ? q : k == 2 ? t : b;
        out->r[i] = (uint8_t)r;
        out->g[i] = (uint8_t)g;
        out->b[i] = (uint8_t)b;
    }
}

static void hue(uint8_t *out, const uint8_t *in, size_t n, uint8_t shift) {
    planes p = {{0}, {0}, {0}};
    int32_t h[BLOCK], s[BLOCK], v[BLOCK];
    sixths turned;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t here = least(n - at, BLOCK);
        split(&p, in + 3 * at, here);
        hue_of(h, s, v, &p);
        turn(&turned, h, s, v, shift);
        choose(&p, &turned, v);
        join(out + 3 * at, &p, here);
    }
}

const color_kernels PASTE(iter__color_, LEVEL) = {blend, saturate, gray, gray_sum, hue};
