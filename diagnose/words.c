/* words.c - see words.h. */
#include "diagnose/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Three digits: 1.83, 46.7, 812. Never "1000" for 999.6, which belongs to the next unit. */
static int digits_after(double number) {
    const double size = fabs(number);
    return size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
}

/* `number` in the largest unit that leaves it at least 1; units[0] has the factor 1. */
static const char *with_unit(double number, double step, const char *const *units, int n_units,
                             char out[WORDS_NUMBER]) {
    int u = 0;
    if (!isfinite(number)) return strcpy(out, "-");
    while (u + 1 < n_units && fabs(number) >= 0.9995 * step) {
        number /= step;
        u++;
    }
    const bool whole = u == 0 && number == floor(number);
    snprintf(out, WORDS_NUMBER, "%.*f%s%s", whole ? 0 : digits_after(number), number,
             units[u][0] != '\0' ? " " : "", units[u]);
    return out;
}

const char *words_count(double number, char out[WORDS_NUMBER]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    return with_unit(number, 1000, units, 5, out);
}

const char *words_time(double ns, char out[WORDS_NUMBER]) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return with_unit(ns < 1000 ? round(ns) : ns, 1000, units, 4, out);
}

const char *words_bytes(double bytes, char out[WORDS_NUMBER]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return with_unit(bytes, 1024, units, 5, out);
}

const char *words_byte_rate(double bytes_per_s, char out[WORDS_NUMBER]) {
    static const char *const units[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
    return with_unit(bytes_per_s, 1000, units, 5, out);
}

const char *words_percent(double share, char out[WORDS_NUMBER]) {
    if (!isfinite(share)) return strcpy(out, "-");
    const double percent = 100 * share;
    if (percent > 0 && percent < 0.05) return strcpy(out, "under 0.1 %");
    snprintf(out, WORDS_NUMBER, "%.*f %%", fabs(percent) < 9.95 && percent != 0, percent);
    return out;
}

const char *words_factor(double factor, char out[WORDS_NUMBER]) {
    if (!isfinite(factor)) return strcpy(out, "-");
    snprintf(out, WORDS_NUMBER, "%.*f", fabs(factor) < 0.9995 ? 3 : digits_after(factor), factor);
    return out;
}

const char *words_plural(unsigned long long n, const char *thing, char out[WORDS_NUMBER]) {
    snprintf(out, WORDS_NUMBER, "%llu %.16s%s", n, thing, n == 1 ? "" : "s");
    return out;
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

words_side words_side_of(const measure_interval *value, double reference) {
    if (!isfinite(value->low) || !isfinite(value->high)) return WORDS_UNKNOWN;
    if (value->low > reference) return WORDS_ABOVE;
    return value->high < reference ? WORDS_BELOW : WORDS_UNCLEAR;
}

const char *words_cost(const measure_interval *share, char out[WORDS_PHRASE]) {
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    words_percent(share->median, median);
    words_percent(share->low, low);
    words_percent(share->high, high);
    switch (words_side_of(share, 0)) {
    case WORDS_ABOVE:
        snprintf(out, WORDS_PHRASE, "costs %s of the time [%s, %s]", median, low, high);
        break;
    case WORDS_BELOW: snprintf(out, WORDS_PHRASE, "costs nothing"); break;
    case WORDS_UNCLEAR:
        snprintf(out, WORDS_PHRASE, "costs nothing that can be measured (at most %s of the time)",
                 high);
        break;
    case WORDS_UNKNOWN:
        if (!isfinite(share->median))
            snprintf(out, WORDS_PHRASE, "has a cost that was not measured");
        else if (share->median > 0)
            snprintf(out, WORDS_PHRASE, "costs %s%s of the time",
                     share->median < 0.0005 ? "" : "about ", median);
        else
            snprintf(out, WORDS_PHRASE, "costs nothing that can be measured");
    }
    return out;
}

static const char *signed_percent(double gain, char out[WORDS_NUMBER]) {
    char text[WORDS_NUMBER];
    words_percent(fabs(gain), text);
    snprintf(out, WORDS_NUMBER, "%c%.24s", gain < 0 ? '-' : '+', text);
    return out;
}

const char *words_gain(const measure_interval *ratio, char out[WORDS_PHRASE]) {
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    signed_percent(ratio->median - 1, median);
    signed_percent(ratio->low - 1, low);
    signed_percent(ratio->high - 1, high);
    const words_side side = words_side_of(ratio, 1);
    if (!isfinite(ratio->median))
        snprintf(out, WORDS_PHRASE, "not measured");
    else if (side == WORDS_UNKNOWN)
        snprintf(out, WORDS_PHRASE, "about %s", median);
    else
        snprintf(out, WORDS_PHRASE, "%s [%s, %s]",
                 side == WORDS_UNCLEAR ? "no difference that can be told" : median, low, high);
    return out;
}

const char *words_ratio(const char *a, const char *b, const measure_interval *ratio,
                        char out[WORDS_PHRASE]) {
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    words_factor(ratio->median, median);
    words_factor(ratio->low, low);
    words_factor(ratio->high, high);
    if (!isfinite(ratio->median)) {
        snprintf(out, WORDS_PHRASE, "%s and %s were not compared", a, b);
        return out;
    }
    switch (words_side_of(ratio, 1)) {
    case WORDS_UNCLEAR:
        snprintf(out, WORDS_PHRASE, "%s and %s cannot be told apart: %s / %s is %s to %s", a, b, b,
                 a, low, high);
        break;
    case WORDS_UNKNOWN:
        snprintf(out, WORDS_PHRASE, "%s is about %s times as fast as %s", b, median, a);
        break;
    default:
        snprintf(out, WORDS_PHRASE, "%s is %s times as fast as %s [%s, %s]", b, median, a, low,
                 high);
    }
    return out;
}
