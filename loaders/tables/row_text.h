/* row_text.h - the bytes of one row, as decoders of rows read them. */
#ifndef ITER_LOADERS_TABLES_ROW_TEXT_H
#define ITER_LOADERS_TABLES_ROW_TEXT_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

/* What a decoder's state needs for it. */
typedef struct iter__row_text {
    uint64_t max_bytes;
    locale_t c;    /* the C locale */
    uint8_t *copy; /* [room + 1] */
} iter__row_text;

/* For rows of at most max_bytes, in extents of at most `room` bytes. Errors: ENOMEM; then there is
 * nothing to stop. */
iter_status iter__row_text_start(iter__row_text *text, uint64_t max_bytes, uint64_t room,
                                 iter_error *err);
void iter__row_text_stop(iter__row_text *text);

/* Sets *out to the row in bytes[size], an extent of iter__row_set_locate(). Its last byte is a line
 * feed, also if the file has none there; with `quotes` there may be others. It is valid as long as
 * `bytes`, and until the next call. Errors: EFORMAT (longer than max_bytes). */
iter_status iter__row_text_get(iter__row_text *text, const uint8_t *bytes, size_t size, bool quotes,
                               const uint8_t **out, size_t *out_n, iter_error *err);

#endif
