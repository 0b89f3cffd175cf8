/* rounds.h - measure_sides() for a given time, with a progress line, even on a restless machine. */
#ifndef ROUNDS_H
#define ROUNDS_H

#include "bench/measure/measure.h"

#define ROUNDS_SECONDS 10.0 /* if nothing else was asked for */

/**
 * Lets the sides take turns for about `seconds`, at most `max_seconds`.
 *
 *   what        for the progress line, which is shown only on a terminal
 *   out_steady  false: the machine was so restless that hardly a round could be kept, so every
 *               round counts
 *
 * Errors  those of measure_sides(). The rounds must be freed even after an error.
 */
iter_status rounds_measure(const char *what, const measure_side *sides, int n, double seconds,
                           double max_seconds, measure_rounds *out, bool *out_steady,
                           iter_error *err);

#endif
