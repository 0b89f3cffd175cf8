/* guarded.h - memory between inaccessible pages: a read or write outside faults, and a write into
 * the gap is detected. */
#ifndef TESTS_SUPPORT_GUARDED_H
#define TESTS_SUPPORT_GUARDED_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
    char *map, *first, *data;
    size_t map_bytes, room, bytes;
} guarded;

/* Makes `bytes` of memory whose end (if at_start, whose start) lies `shift` bytes from a page that
 * faults. */
static inline guarded guarded_new(size_t bytes, int at_start, size_t shift) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = {0};
    g.room = (bytes + shift + page - 1) / page * page + page;
    g.map_bytes = g.room + 2 * page;
    g.bytes = bytes;
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED) abort();
    g.first = g.map + page;
    if (mprotect(g.first, g.room, PROT_READ | PROT_WRITE) != 0) abort();
    memset(g.first, 0xa5, g.room);
    g.data = at_start ? g.first + shift : g.first + g.room - bytes - shift;
    return g;
}

/* Returns 1 if nothing was written around the data. */
static inline int guarded_is_clean(const guarded *g) {
    for (const char *p = g->first; p < g->first + g->room; p++)
        if ((p < g->data || p >= g->data + g->bytes) && (unsigned char)*p != 0xa5) return 0;
    return 1;
}

static inline void guarded_free(guarded *g) {
    munmap(g->map, g->map_bytes);
}

#endif
