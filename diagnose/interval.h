/* interval.h - the median of some values, and how sure it is. */
#ifndef INTERVAL_H
#define INTERVAL_H

#include <stdint.h>

/** Median and the interval that holds it with at least 95 %. low and high are NaN if there are
 * fewer than six values, all are NaN if there are none. */
typedef struct measure_interval {
    double median, low, high;
    uint32_t n;
} measure_interval;

/** Order-statistics interval of the median of values[0..n), which it sorts. */
measure_interval measure_median(double *values, uint32_t n);

#endif
