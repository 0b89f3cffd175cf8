/* crc32c.h - CRC-32C (Castagnoli), as TFRecord files and iSCSI have it. */
#ifndef ITER_CORE_CRC32C_H
#define ITER_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes[n] by the processor's instruction, or by a table if it has none. */
uint32_t iter__crc32c(const void *bytes, size_t n);

/* Of bytes that follow those of which `crc` is the sum; 0 = none came before. */
uint32_t iter__crc32c_more(uint32_t crc, const void *bytes, size_t n);

/* iter__crc32c(), always by the table. */
uint32_t iter__crc32c_plain(const void *bytes, size_t n);

#endif
