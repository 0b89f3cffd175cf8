/* pack_seekable.h - JPEGs with restart markers, from which a decoder can take a part quickly. */
#ifndef PACK_SEEKABLE_H
#define PACK_SEEKABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MCUs between restart markers: an MCU row, or a part of it that divides it, of 128 bytes or more
 * on average. `n_across`, `n_down`: MCUs of the picture. */
unsigned pack_seekable_interval(unsigned n_across, unsigned n_down, size_t bytes);

typedef struct pack_seekable_options {
    bool progressive;  /* progressive ones, too; they become sequential */
    bool for_4, for_8; /* copies for pictures that are made 4 or 8 times smaller (jpeg_copies.h) */
} pack_seekable_options;

/*
 * Writes a JPEG anew with restart markers and Huffman tables of its own. Coefficients, tables of
 * quantisation, and application segments stay; the coefficients are read back and compared.
 *
 *   out          from malloc(), or NULL; grows
 *
 * Returns    true; false = it must stay as it is: no JPEG, progressive, arithmetically coded, in
 *            several scans, damaged, or not equal when read back.
 */
bool pack_seekable_write(const pack_seekable_options *options, const uint8_t *bytes, size_t n,
                         uint8_t **out, size_t *capacity, size_t *out_n);

/* Whether it is a sequential JPEG with restart markers, by its head. */
bool pack_seekable_is(const uint8_t *bytes, size_t n);

#endif
