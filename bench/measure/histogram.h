/* histogram.h - durations, counted in buckets 1/64 of a power of two wide, so a quantile is within
 * 1.6 %. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB     64
#define HISTOGRAM_BUCKETS ((64 - 5) * HISTOGRAM_SUB)

typedef struct histogram {
    uint64_t n, max;
    uint32_t counts[HISTOGRAM_BUCKETS];
} histogram;

static inline uint32_t histogram_bucket(uint64_t value) {
    if (value < HISTOGRAM_SUB) return (uint32_t)value;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(value) - 6u;
    return shift * HISTOGRAM_SUB + (uint32_t)(value >> shift);
}

static inline void histogram_add(histogram *h, uint64_t value) {
    h->n++;
    h->counts[histogram_bucket(value)]++;
    if (value > h->max) h->max = value;
}

/** The value that a share q of all values does not exceed, rounded to its bucket's middle, but not
 * beyond the largest; 0 if there are no values. */
static inline uint64_t histogram_quantile(const histogram *h, double q) {
    uint64_t want = (uint64_t)(q * (double)h->n), seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen > want) {
            if (i < 2 * HISTOGRAM_SUB) return i;
            uint32_t shift = i / HISTOGRAM_SUB - 1;
            uint64_t low = (uint64_t)(i - shift * HISTOGRAM_SUB) << shift;
            const uint64_t middle = low + ((uint64_t)1 << shift) / 2;
            return middle < h->max ? middle : h->max;
        }
    }
    return h->max;
}

#endif
