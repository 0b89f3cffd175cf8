/*
 * cpu_math_body.h - tanh and the logistic function, for a vector type. Included by the files of the
 * levels.
 *
 * Both come from expm1(a) for a <= 0, so nothing overflows: with a = n log 2 + r, |r| <= log 2 / 2,
 *
 *     exp(a) = 2^n + 2^n expm1(r)        expm1(a) = 2^n expm1(r) + (2^n - 1)
 *
 * Here expm1(r) = r + r^2 p(r), and p, of degree 5, is the best fit for the relative error (0.04
 * units of 2^-24). log 2 is split in two parts as by Cody and Waite: the first has 9 bits, so n
 * times it is exact.
 */

static inline vec absolute(vec x) {
    return (vec)((ints)x & 0x7fffffff);
}

typedef struct power {
    vec scale, rest; /* exp(a) = scale + scale * rest; rest = expm1(r) */
} power;

/* a in [-88, 0] or NaN. */
static inline power power_of(vec a) {
    /* 1.5 * 2^23: in a sum with it, the last bits are n. */
    const vec magic = all(12582912.0f);
    const vec shifted = fma_of(a, all(1.44269504f), magic);
    const vec n = shifted - magic;
    const vec r = fma_of(n, all(2.12194440e-4f), fma_of(n, all(-0.693359375f), a));
    vec p = all(0x1.a032cap-13f);
    p = fma_of(p, r, all(0x1.6d7296p-10f));
    p = fma_of(p, r, all(0x1.11118ap-7f));
    p = fma_of(p, r, all(0x1.5554b0p-5f));
    p = fma_of(p, r, all(0x1.555554p-3f));
    p = fma_of(p, r, all(0.5f));
    power out;
    out.scale = (vec)(((ints)shifted + (127 - 0x4b400000)) << 23);
    out.rest = fma_of(r * r, p, r);
    return out;
}

/* -k |x|, but at least -88; NaN passes. */
static inline vec negative(vec x, float k) {
    const vec a = absolute(x) * -k;
    return pick(a < all(-88.0f), all(-88.0f), a);
}

/* 1 / (1 + e) with e = exp(-|x|); for negative x, e / (1 + e). If e is below the smallest normal
 * number, the result is 0. */
static inline vec sigmoid_of(vec x) {
    const power e = power_of(negative(x, 1.0f));
    vec exp_a = fma_of(e.scale, e.rest, e.scale);
    const vec sum = exp_a + 1.0f;
    exp_a = pick(x < all(-87.33654f), all(0.0f), exp_a);
    return quotient(pick(x < all(0.0f), exp_a, all(1.0f)), sum);
}

/* -expm1(a) / (2 + expm1(a)), a = -2 |x|, with the sign of x. */
static inline vec tanh_of(vec x) {
    const power e = power_of(negative(x, 2.0f));
    const vec m = fma_of(e.scale, e.rest, e.scale - 1.0f);
    const vec y = quotient(m, m + 2.0f);
    return (vec)(((ints)y & 0x7fffffff) | ((ints)x & (int32_t)0x80000000));
}

/* y[i] = f(x[i]) */
#define EACH(name, f)                                                    \
    static void name(int64_t n, const float *x, float *y) {              \
        int64_t i = 0;                                                   \
        for (; i + LANES <= n; i += LANES)                               \
            store(y + i, f(load(x + i)));                                \
        if (i < n) store_some(y + i, f(load_some(x + i, n - i)), n - i); \
    }

EACH(each_tanh, tanh_of)
EACH(each_sigmoid, sigmoid_of)
#undef EACH

static float largest(int64_t n, const float *x) {
    int64_t i = 0;
    float most = x[0];
    if (n >= LANES) {
        vec top = load(x);
        for (i = LANES; i + LANES <= n; i += LANES) {
            const vec next = load(x + i);
            top = pick(next > top, next, top);
        }
        for (int k = 0; k < LANES; k++)
            most = top[k] > most ? top[k] : most;
    }
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* exp(a) for a <= 0 or NaN; 0 if it is below the smallest normal number. */
static inline vec exp_of(vec a) {
    const vec bounded = pick(a < all(-88.0f), all(-88.0f), a);
    const power e = power_of(bounded);
    return pick(a < all(-87.33654f), all(0.0f), fma_of(e.scale, e.rest, e.scale));
}

/* Sums of 64 vectors are added up in double, so that the error does not grow with n. */
static double exp_sum(int64_t n, float *x, float *out_most) {
    const float most = largest(n, x);
    double sum = 0;
    int64_t i = 0;
    *out_most = most;
    while (i + LANES <= n) {
        const int64_t end = n - i > 64 * LANES ? i + 64 * LANES : n;
        vec part = all(0.0f);
        for (; i + LANES <= end; i += LANES) {
            const vec e = exp_of(load(x + i) - most);
            store(x + i, e);
            part += e;
        }
        for (int k = 0; k < LANES; k++)
            sum += (double)part[k];
    }
    if (i < n) store_some(x + i, exp_of(load_some(x + i, n - i) - most), n - i);
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

static void each_add(int64_t n, const float *x, float *sums) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(sums + i, load(sums + i) + load(x + i));
    if (i < n) store_some(sums + i, load_some(sums + i, n - i) + load_some(x + i, n - i), n - i);
}

/* For eight vectors of columns at a time, the sums stay in registers over all rows. Most ids occur
 * only once; for them the sum is a copy. */
static void each_sum_rows(int64_t n, const int32_t *rows, const float *x, int64_t ld,
                          int64_t columns, float *out) {
    int64_t j = 0;
    for (; j + 8 * LANES <= columns; j += 8 * LANES) {
        vec sum[8];
        for (int k = 0; k < 8; k++)
            sum[k] = load(x + rows[0] * ld + j + k * LANES);
        for (int64_t i = 1; i < n; i++)
            for (int k = 0; k < 8; k++)
                sum[k] += load(x + rows[i] * ld + j + k * LANES);
        for (int k = 0; k < 8; k++)
            store(out + j + k * LANES, sum[k]);
    }
    for (; j < columns; j += LANES) {
        const int64_t left = columns - j < LANES ? columns - j : LANES;
        vec sum = load_some(x + rows[0] * ld + j, left);
        for (int64_t i = 1; i < n; i++)
            sum += load_some(x + rows[i] * ld + j, left);
        store_some(out + j, sum, left);
    }
}
