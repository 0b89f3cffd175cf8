/* cpu_maps.c - chooses the maps. */
#include "engine/cpu/kernels/cpu_maps.h"

#include <string.h>

const cpu_maps *iter__cpu_maps(const char *level) {
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0) return &iter__cpu_maps_avx512;
    if (strcmp(level, "avx2") == 0) return &iter__cpu_maps_avx2;
#else
    (void)level;
#endif
    return &iter__cpu_maps_generic;
}
