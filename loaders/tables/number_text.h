/*
 * number_text.h - numbers in decimal text, read exactly.
 *
 * A number has an optional sign, digits with at most one point among or beside them, and an
 * optional exponent. Floats are rounded once, to nearest and ties to even, as strtof() and strtod()
 * do in the C locale. Digits are read eight at a time.
 *
 * Source: W. D. Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990, for the cases
 * that one exact division settles; the others go to strtod_l().
 */
#ifndef ITER_LOADERS_TABLES_NUMBER_TEXT_H
#define ITER_LOADERS_TABLES_NUMBER_TEXT_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/tensor.h>

/* The longest text that is taken as a number. */
#define ITER_NUMBER_TEXT_MAX 1023

typedef enum iter__number {
    ITER_NUMBER_OK,
    ITER_NUMBER_NONE, /* not a number */
    ITER_NUMBER_RANGE /* a number that the type cannot hold */
} iter__number;

/* Reads the number at p. Some byte of [p, end) after it must be one that a number cannot have, such
 * as a newline. *out_after is the byte after the number; it is set if the answer is OK. `c` is the
 * C locale. */
iter__number iter__number_f32(const uint8_t *p, const uint8_t *end, locale_t c, float *out,
                              const uint8_t **out_after);
iter__number iter__number_f64(const uint8_t *p, const uint8_t *end, locale_t c, double *out,
                              const uint8_t **out_after);

/* Reads up to n numbers from p on, each with `delimiter` or a line feed right after it, into
 * out[n], at any address. Stops after a line feed and before anything else. Returns how many;
 * *out_p is then the byte after the last delimiter, or, with *out_ended, the line feed. */
int32_t iter__number_row_f32(const uint8_t *p, const uint8_t *end, locale_t c, char delimiter,
                             uint8_t *out, int32_t n, const uint8_t **out_p, bool *out_ended);

/* As iter__number_f32() for f32, f64 and every integer type: writes one element to `out`, at any
 * address. Text with a fraction is an integer if its value is one: 3.0, 2e3. */
iter__number iter__number_read(const uint8_t *p, const uint8_t *end, locale_t c, iter_dtype dtype,
                               void *out, const uint8_t **out_after);

/* Whether iter__number_read() knows the type. */
bool iter__number_has(iter_dtype dtype);

/* Writes `value` as one element; false if the type cannot hold it. */
bool iter__number_put(double value, iter_dtype dtype, void *out);

#endif
