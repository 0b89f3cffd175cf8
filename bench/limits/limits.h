/*
 * limits.h - straight loops: the speed of this machine when nothing but the work is left.
 *
 * There is no loader object, no lock, no counter and no allocation here. The caller prepares the
 * memory (yardstick.h).
 */
#ifndef LIMITS_H
#define LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include <iter/convert.h>

#define LIMITS_HOT_ROWS   16
#define LIMITS_FIELDS_MAX 8

/** One field of a sample: consecutive rows in an array, and their place in a slot. */
typedef struct limits_field {
    const uint8_t *source;
    size_t in_bytes, out_bytes;  /* of a row */
    const iter_convert *convert; /* NULL = memcpy */
    size_t slot_offset;
} limits_field;

typedef struct limits_work {
    int32_t n_fields;
    limits_field fields[LIMITS_FIELDS_MAX];
    uint64_t n_rows;       /* in the arrays; at least 1 */
    const uint32_t *order; /* [n_rows] rows in the order they are taken in; NULL = as they lie */
    uint32_t batch;
    uint32_t n_slots;
    uint8_t *const *slots; /* [n_slots] */
} limits_work;

/** Copies `bytes` from one buffer to the other. */
void limits_copy(uint8_t *out, const uint8_t *in, size_t bytes);

/** Makes n batches of rows in their order, from place *cursor on, round and round. Place and slot
 * continue where the last call stopped. */
void limits_ordered(const limits_work *work, uint64_t n_batches, uint64_t *cursor, uint32_t *slot);

/** Makes n batches of the first LIMITS_HOT_ROWS rows again and again. */
void limits_convert(const limits_work *work, uint64_t n_batches, uint32_t *slot);

/** Reads an open file from start to end into buffer[capacity], again and again. Returns bytes read,
 * or -1 with errno. */
int64_t limits_read(int file, uint8_t *buffer, size_t capacity);

#endif
