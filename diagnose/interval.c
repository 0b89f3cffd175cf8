/*
 * interval.c - the interval of the median is the one of order statistics (Thompson 1936): with n
 * values sorted, [x(k), x(n+1-k)] holds the true median with probability 1 - 2 P(Bin(n, 1/2) < k),
 * for any distribution; k is the largest for which that is at least 95 %.
 */
#include "diagnose/interval.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* lgamma() writes a global. */
static double log_factorial(uint32_t n) {
    int sign;
    return lgamma_r(n + 1.0, &sign);
}

/* The largest k with P(Bin(n, 1/2) < k) <= 0.025; 0 = none. */
static uint32_t interval_rank(uint32_t n) {
    double log_half_n = -(double)n * log(2), below = 0;
    for (uint32_t k = 0; k <= n / 2; k++) {
        below += exp(log_factorial(n) - log_factorial(k) - log_factorial(n - k) + log_half_n);
        if (below > 0.025) return k;
    }
    return n / 2;
}

measure_interval measure_median(double *values, uint32_t n) {
    measure_interval out = {NAN, NAN, NAN, n};
    if (n == 0) return out;
    qsort(values, n, sizeof(values[0]), by_value);
    out.median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    uint32_t k = interval_rank(n);
    if (k > 0) {
        out.low = values[k - 1];
        out.high = values[n - k];
    }
    return out;
}
