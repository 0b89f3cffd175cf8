/*
 * touch.c - the consumer of every peer: it reads one byte of each cache line of a batch, as
 * iterbench's own consumer does.
 *
 * run.py compiles it to a shared object and calls it through ctypes, so that no peer pays for a
 * loop in Python.
 */
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64

unsigned iter_peer_touch(const volatile uint8_t *bytes, size_t size);

unsigned iter_peer_touch(const volatile uint8_t *bytes, size_t size) {
    unsigned sum = 0;
    for (size_t i = 0; i < size; i += CACHE_LINE)
        sum += bytes[i];
    return sum;
}
