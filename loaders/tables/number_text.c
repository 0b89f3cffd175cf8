/*
 * number_text.c - see number_text.h.
 *
 * Three ways, from fast to slow, that give the same bits:
 *
 *   f64  If the digits are at most 2^53 and the power of ten at most 22, both are exact doubles, so
 *        one division or product is rounded once.
 *   f64  If the digits fit 64 bits and the power is at most 27, both are exact in a mantissa of 64
 *        bits, if long double has one. The result is rounded twice, which is wrong only if the
 * first
 *        rounding ended halfway between two doubles. Its last 11 bits tell.
 *   f32  A double that is off by less than four units in its last place rounds to the right float
 *        unless it is that close to halfway between two floats. Its last 29 bits tell. So a product
 *        by an inverse power, which costs a third of a division, is near enough.
 *
 * Everything else is strtod_l()'s.
 */
#include "loaders/tables/number_text.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX   19 /* that always fit 64 bits */
#define EXPONENT_MAX 100000

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#define POWERS_MAX 22

/* Each is the nearest double, so off by half a unit in the last place at most. */
static const double inverse_powers[] = {1e0,   1e-1,  1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                        1e-8,  1e-9,  1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15,
                                        1e-16, 1e-17, 1e-18, 1e-19, 1e-20, 1e-21, 1e-22};

static const uint64_t whole_powers[] = {
    1u,
    10u,
    100u,
    1000u,
    10000u,
    100000u,
    1000000u,
    10000000u,
    100000000u,
    1000000000u,
    10000000000u,
    100000000000u,
    1000000000000u,
    10000000000000u,
    100000000000000u,
    1000000000000000u,
    10000000000000000u,
    100000000000000000u,
    1000000000000000000u,
    10000000000000000000u,
};

/* ---- Digits ---------------------------------------------------------------------------------- */

typedef struct decimal {
    uint64_t digits; /* without the point; wrong if n_digits > DIGITS_MAX */
    int64_t exponent;
    size_t n_digits;
    bool negative;
} decimal;

/* Adds the digits at p to d; returns the byte after them. */
static inline const uint8_t *add_digits(const uint8_t *p, const uint8_t *end, decimal *d) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - p >= 8) {
        uint64_t v;
        memcpy(&v, p, sizeof(v));
        v ^= 0x3030303030303030u;
        /* The top bit of each byte that is no digit. A carry only reaches later bytes. */
        const uint64_t other = ((v + 0x7676767676767676u) | v) & 0x8080808080808080u;
        const unsigned n = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
        /* The digits move to the last bytes, and zeros come before them. */
        v = n ? v << (64 - 8 * n) : 0;
        v = v * 10 + (v >> 8);
        v = ((v & 0x000000ff000000ffu) * 0x000f424000000064u +
             ((v >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u) >>
            32;
        d->digits = d->digits * whole_powers[n] + v;
        d->n_digits += n;
        p += n;
        if (n < 8) return p;
    }
#endif
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        d->digits = d->digits * 10 + (uint64_t)(*p - '0');
        d->n_digits++;
    }
    return p;
}

/* Reads "e-5"; NULL if digits are missing. It has a number of its own to write to, so that a
 * decimal can stay in registers. */
static const uint8_t *read_exponent(const uint8_t *p, const uint8_t *end, int64_t *out) {
    int64_t value = 0;
    p++;
    const bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    const uint8_t *first = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (value < EXPONENT_MAX) value = value * 10 + (*p - '0');
    if (p == first) return NULL;
    *out = negative ? -value : value;
    return p;
}

/* Reads a number's text; returns the byte after it, or NULL if it is none. */
static inline const uint8_t *read_decimal(const uint8_t *p, const uint8_t *end, decimal *d) {
    if (p == end) return NULL;
    *d = (decimal){.negative = *p == '-'};
    p += *p == '-' || *p == '+';
    p = add_digits(p, end, d);
    if (p < end && *p == '.') {
        const uint8_t *point = ++p;
        p = add_digits(p, end, d);
        d->exponent = -(int64_t)(p - point);
    }
    if (d->n_digits == 0) return NULL;
    if (p < end && (*p | 0x20) == 'e') {
        int64_t exponent = 0;
        p = read_exponent(p, end, &exponent);
        d->exponent += exponent;
    }
    return p;
}

/* ---- Floats ---------------------------------------------------------------------------------- */

/* The text as strtod_l() or strtof_l() wants it. */
static bool copy_text(const uint8_t *p, const uint8_t *after, char out[ITER_NUMBER_TEXT_MAX + 1]) {
    const size_t n = (size_t)(after - p);
    if (n > ITER_NUMBER_TEXT_MAX) return false;
    memcpy(out, p, n);
    out[n] = 0;
    return true;
}

static inline bool is_small(const decimal *d) {
    return d->n_digits < DIGITS_MAX && d->exponent >= -POWERS_MAX && d->exponent <= POWERS_MAX;
}

/* The digits times their power of ten, if is_small(): off by less than two units in the last
 * place, half a one for each of the digits, the power and the product. */
static inline double scale_nearly(const decimal *d) {
    const double value = (double)(int64_t)d->digits; /* fewer than 19 digits: it fits */
    return d->exponent <= 0 ? value * inverse_powers[-d->exponent] : value * powers[d->exponent];
}

/* The same, rounded once if the digits are at most 2^53. */
static inline double scale(const decimal *d) {
    const double value = (double)(int64_t)d->digits;
    return d->exponent < 0 ? value / powers[-d->exponent] : value * powers[d->exponent];
}

static iter__number slow_f32(const uint8_t *p, const uint8_t *after, locale_t c, float *out) {
    char text[ITER_NUMBER_TEXT_MAX + 1];
    if (!copy_text(p, after, text)) return ITER_NUMBER_RANGE;
    *out = strtof_l(text, NULL, c);
    return isinf(*out) ? ITER_NUMBER_RANGE : ITER_NUMBER_OK;
}

static inline iter__number read_f32(const uint8_t *p, const uint8_t *end, locale_t c, float *out,
                                    const uint8_t **out_after) {
    decimal d;
    const uint8_t *after = read_decimal(p, end, &d);
    if (!after) return ITER_NUMBER_NONE;
    *out_after = after;
    if (is_small(&d)) {
        const double value = scale_nearly(&d);
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        const uint64_t from_half = (bits & 0x1fffffffu) - 0x0ffffffcu; /* halfway is 4 */
        if (from_half > 8 && value < FLT_MAX && (value >= FLT_MIN || d.digits == 0)) {
            *out = (float)(d.negative ? -value : value);
            return ITER_NUMBER_OK;
        }
    }
    return slow_f32(p, after, c, out);
}

int32_t iter__number_row_f32(const uint8_t *p, const uint8_t *end, locale_t c, char delimiter,
                             uint8_t *out, int32_t n, const uint8_t **out_p, bool *out_ended) {
    int32_t i = 0;
    *out_ended = false;
    for (; i < n; i++) {
        const uint8_t *after = NULL;
        float value;
        if (read_f32(p, end, c, &value, &after) != ITER_NUMBER_OK) break;
        if (*after != (uint8_t)delimiter && *after != '\n') break;
        memcpy(out + (size_t)i * sizeof(value), &value, sizeof(value));
        *out_ended = *after == '\n';
        p = after + !*out_ended;
        if (*out_ended) {
            i++;
            break;
        }
    }
    *out_p = p;
    return i;
}

#if LDBL_MANT_DIG == 64 && (defined(__x86_64__) || defined(__i386__))
static const long double long_powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                          1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                          1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                          1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* By a mantissa of 64 bits; false if the result is halfway between two doubles. */
static bool scale_long(const decimal *d, double *out) {
    if (d->n_digits > DIGITS_MAX || d->exponent < -27 || d->exponent > 27) return false;
    const long double digits = (long double)d->digits;
    const long double value =
        d->exponent < 0 ? digits / long_powers[-d->exponent] : digits * long_powers[d->exponent];
    uint64_t mantissa;
    memcpy(&mantissa, &value, sizeof(mantissa));
    if ((mantissa & 0x7ff) == 0x400) return false;
    *out = (double)value;
    return true;
}
#else
static bool scale_long(const decimal *d, double *out) {
    (void)d, (void)out;
    return false;
}
#endif

static iter__number slow_f64(const uint8_t *p, const uint8_t *after, locale_t c, double *out) {
    char text[ITER_NUMBER_TEXT_MAX + 1];
    if (!copy_text(p, after, text)) return ITER_NUMBER_RANGE;
    *out = strtod_l(text, NULL, c);
    return isinf(*out) ? ITER_NUMBER_RANGE : ITER_NUMBER_OK;
}

static inline iter__number read_f64(const uint8_t *p, const uint8_t *end, locale_t c, double *out,
                                    const uint8_t **out_after) {
    decimal d;
    const uint8_t *after = read_decimal(p, end, &d);
    if (!after) return ITER_NUMBER_NONE;
    *out_after = after;
    double value;
    if (is_small(&d) && d.digits <= (uint64_t)1 << 53)
        value = scale(&d);
    else if (!scale_long(&d, &value))
        return slow_f64(p, after, c, out);
    *out = d.negative ? -value : value;
    return ITER_NUMBER_OK;
}

iter__number iter__number_f32(const uint8_t *p, const uint8_t *end, locale_t c, float *out,
                              const uint8_t **out_after) {
    return read_f32(p, end, c, out, out_after);
}

iter__number iter__number_f64(const uint8_t *p, const uint8_t *end, locale_t c, double *out,
                              const uint8_t **out_after) {
    return read_f64(p, end, c, out, out_after);
}

/* ---- Integers -------------------------------------------------------------------------------- */

/* The value of a decimal whose digits may be more than 64 bits hold. */
static iter__number whole_value(const uint8_t *p, const uint8_t *after, const decimal *d,
                                uint64_t *out) {
    uint64_t value = d->digits;
    int64_t exponent = d->exponent;
    if (d->n_digits > DIGITS_MAX) { /* zeros at an end, or 20 digits that may just fit */
        int64_t zeros = 0;          /* not in `value` yet */
        value = 0;
        for (; p < after && (*p | 0x20) != 'e'; p++) {
            if (*p == '0') zeros++;
            if (*p < '1' || *p > '9') continue;
            for (zeros++; zeros > 0 && value; zeros--)
                if (__builtin_mul_overflow(value, 10u, &value)) return ITER_NUMBER_RANGE;
            zeros = 0;
            if (__builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                return ITER_NUMBER_RANGE;
        }
        exponent += zeros;
    }
    for (; exponent < 0 && value; exponent++) {
        if (value % 10) return ITER_NUMBER_NONE; /* it has a fraction */
        value /= 10;
    }
    for (; exponent > 0 && value; exponent--)
        if (__builtin_mul_overflow(value, 10u, &value)) return ITER_NUMBER_RANGE;
    *out = value;
    return ITER_NUMBER_OK;
}

static bool put_whole(uint64_t value, bool negative, iter_dtype dtype, void *out) {
    const bool is_signed =
        dtype == ITER_I8 || dtype == ITER_I16 || dtype == ITER_I32 || dtype == ITER_I64;
    const size_t bytes = iter_dtype_bytes(dtype);
    const uint64_t all = bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * bytes) - 1;
    const uint64_t most = is_signed ? (all >> 1) + negative : negative ? 0 : all;
    if (value > most) return false;
    const uint64_t bits = negative ? 0 - value : value;
    const uint8_t one = (uint8_t)bits;
    const uint16_t two = (uint16_t)bits;
    const uint32_t four = (uint32_t)bits;
    memcpy(out,
           bytes == 1   ? (const void *)&one
           : bytes == 2 ? (const void *)&two
           : bytes == 4 ? (const void *)&four
                        : (const void *)&bits,
           bytes);
    return true;
}

/* ---- Any type -------------------------------------------------------------------------------- */

bool iter__number_has(iter_dtype dtype) {
    switch (dtype) {
    case ITER_F32:
    case ITER_F64:
    case ITER_U8:
    case ITER_I8:
    case ITER_U16:
    case ITER_I16:
    case ITER_U32:
    case ITER_I32:
    case ITER_U64:
    case ITER_I64: return true;
    default: return false;
    }
}

iter__number iter__number_read(const uint8_t *p, const uint8_t *end, locale_t c, iter_dtype dtype,
                               void *out, const uint8_t **out_after) {
    iter__number answer;
    if (dtype == ITER_F32) {
        float value = 0;
        answer = read_f32(p, end, c, &value, out_after);
        memcpy(out, &value, sizeof(value));
        return answer;
    }
    if (dtype == ITER_F64) {
        double value = 0;
        answer = read_f64(p, end, c, &value, out_after);
        memcpy(out, &value, sizeof(value));
        return answer;
    }
    decimal d;
    uint64_t value = 0;
    const uint8_t *after = read_decimal(p, end, &d);
    if (!after) return ITER_NUMBER_NONE;
    *out_after = after;
    answer = whole_value(p, after, &d, &value);
    if (answer != ITER_NUMBER_OK) return answer;
    return put_whole(value, d.negative, dtype, out) ? ITER_NUMBER_OK : ITER_NUMBER_RANGE;
}

bool iter__number_put(double value, iter_dtype dtype, void *out) {
    if (dtype == ITER_F32) {
        const float narrow = (float)value;
        memcpy(out, &narrow, sizeof(narrow));
        return isfinite(narrow) || !isfinite(value);
    }
    if (dtype == ITER_F64) {
        memcpy(out, &value, sizeof(value));
        return true;
    }
    if (!(fabs(value) < 18446744073709551616.0) || value != floor(value)) return false;
    return put_whole((uint64_t)fabs(value), value < 0, dtype, out);
}
