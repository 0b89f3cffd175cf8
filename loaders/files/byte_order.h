/* byte_order.h - numbers of files whose byte order is fixed, at any address. */
#ifndef ITER_LOADERS_FILES_BYTE_ORDER_H
#define ITER_LOADERS_FILES_BYTE_ORDER_H

#include <stdint.h>

static inline uint32_t iter__get_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint32_t iter__get_le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t iter__get_le64(const uint8_t *p) {
    return iter__get_le32(p) | (uint64_t)iter__get_le32(p + 4) << 32;
}

static inline void iter__put_le32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static inline void iter__put_le64(uint8_t *p, uint64_t value) {
    iter__put_le32(p, (uint32_t)value);
    iter__put_le32(p + 4, (uint32_t)(value >> 32));
}

#endif
