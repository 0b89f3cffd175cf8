/*
 * tfrecord.h - records of TensorFlow's TFRecord files: a u64 with the length of the data, its
 * sum, the data, their sum, all little-endian. A sum is a masked CRC-32C.
 *
 * Source: TensorFlow, core/lib/io/record_writer.h and core/lib/hash/crc32c.h.
 */
#ifndef ITER_LOADERS_FILES_TFRECORD_H
#define ITER_LOADERS_FILES_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#include "loaders/files/window.h"

#define ITER_TFRECORD_HEAD  12 /* bytes before the data */
#define ITER_TFRECORD_FRAME 16 /* bytes of a record without data */

/* The data of the record that bytes[size] is; their sum is not compared. Errors: EFORMAT. */
iter_status iter__tfrecord_open(const uint8_t *bytes, size_t size, const uint8_t **out,
                                size_t *out_n, iter_error *err);
/* Compares the data's sum, which follows them. Errors: EFORMAT (both sums). */
iter_status iter__tfrecord_check(const uint8_t *data, size_t n, iter_error *err);

/* The record at *at, found by its head; *at moves past it. ITER_END at the file's end. Errors: EIO,
 * EFORMAT (file, offset, reason), EUNSUPPORTED (gzipped). */
iter_status iter__tfrecord_walk(iter__window *window, uint64_t *at, iter_error *err);

#endif
