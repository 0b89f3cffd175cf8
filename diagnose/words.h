/*
 * words.h - numbers and comparisons as text, for every sentence that iterbench writes.
 *
 * A sentence never states a number whose interval holds the opposite: it says instead that the two
 * cannot be told apart. An interval is the 95 % interval of a median. It is missing (NaN) if there
 * are fewer than six values, and the number is then "about".
 */
#ifndef WORDS_H
#define WORDS_H

#include "diagnose/interval.h"

#define WORDS_NUMBER 32
#define WORDS_PHRASE 160

/* ---- Numbers: three digits, and a unit that fits; "-" if there is none ----------------------- */

/** "1.83 M", "46.7 k", "812". */
const char *words_count(double number, char out[WORDS_NUMBER]);
/** Nanoseconds: "46.7 ms", "3.21 s", "812 ns". */
const char *words_time(double ns, char out[WORDS_NUMBER]);
/** "12.3 MiB". */
const char *words_bytes(double bytes, char out[WORDS_NUMBER]);
/** Bytes a second: "1.23 GB/s". */
const char *words_byte_rate(double bytes_per_s, char out[WORDS_NUMBER]);
/** A share of one: "44 %", "3.4 %". */
const char *words_percent(double share, char out[WORDS_NUMBER]);
/** A factor: "20", "1.83", "0.412". */
const char *words_factor(double factor, char out[WORDS_NUMBER]);
/** "1 worker", "2 workers". */
const char *words_plural(unsigned long long n, const char *thing, char out[WORDS_NUMBER]);

/* ---- Comparisons ----------------------------------------------------------------------------- */

typedef enum words_side {
    WORDS_UNKNOWN, /* there is no interval */
    WORDS_UNCLEAR, /* the interval holds the reference: they cannot be told apart */
    WORDS_BELOW,
    WORDS_ABOVE
} words_side;

/** The side of the reference on which the whole interval lies. */
words_side words_side_of(const measure_interval *value, double reference);

/**
 * A share of the time that something costs, as a verb with its object:
 * "costs 44 % of the time [40 %, 48 %]", "costs about 44 % of the time",
 * "costs nothing that can be measured (at most 19 % of the time)".
 */
const char *words_cost(const measure_interval *share, char out[WORDS_PHRASE]);

/** The effect of a change on a rate, from rate with it / rate without: "+20 % [+10 %, +30 %]",
 * "about +20 %", "no difference that can be told [-2 %, +7 %]". */
const char *words_gain(const measure_interval *ratio, char out[WORDS_PHRASE]);

/** Two rates by b / a: "b is 1.83 times as fast as a [1.79, 1.88]", "b is about 1.83 times as fast
 * as a", "a and b cannot be told apart: b / a is 0.960 to 1.05". */
const char *words_ratio(const char *a, const char *b, const measure_interval *ratio,
                        char out[WORDS_PHRASE]);

#endif
