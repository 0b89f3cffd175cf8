/*
 * row_scan.h - where the rows of a text begin.
 *
 * A row ends with a line feed. If `quotes` is set, a line feed between two quotation marks ends
 * nothing: a mark turns "inside" on and off, which is also right for the doubled marks of RFC 4180.
 * So a row's end can be found without reading its columns.
 */
#ifndef ITER_LOADERS_TABLES_ROW_SCAN_H
#define ITER_LOADERS_TABLES_ROW_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the places of line feeds in bytes[n], n <= UINT32_MAX: those at an even number of marks to
 * `even`, the others to `odd`. Either may be NULL if it is not wanted; each needs room for n.
 * Without `quotes` all count as even. Returns the number of marks modulo 2. */
bool iter__row_scan(const uint8_t *bytes, size_t n, bool quotes, uint32_t *even, size_t *n_even,
                    uint32_t *odd, size_t *n_odd);

/* The line feeds in bytes[n]. */
uint64_t iter__row_scan_lines(const uint8_t *bytes, size_t n);

#endif
