/*
 * jpeg_memory.h - libjpeg's memory of one picture, out of a codec's (codec_memory.h).
 *
 * libjpeg has a bound of its own, max_memory_to_use, but keeps to it only where arrays may be moved
 * to a file. So its manager's methods are replaced: what belongs to a picture (JPOOL_IMAGE), the
 * coefficients of progressive ones before all, comes from here; what belongs to the object stays where
 * libjpeg has it.
 */
#ifndef ITER_LOADERS_JPEG_MEMORY_H
#define ITER_LOADERS_JPEG_MEMORY_H

#include <stdio.h>

#include <jpeglib.h>

#include "loaders/codec_memory.h"

typedef struct iter__jpeg_memory {
    iter__codec_memory codec;
    struct jpeg_memory_mgr own;           /* libjpeg's methods */
    struct jvirt_sarray_control *samples; /* whole pictures that were asked for */
    struct jvirt_barray_control *blocks;
    /* There is no memory; does not return. */
    void (*fail)(j_common_ptr jpeg, const iter_error *error);
} iter__jpeg_memory;

/* From now on. `memory` is the first member of what client_data points to; its `fail` is set. Nothing
 * of a picture has been allocated yet. */
void iter__jpeg_memory_use(iter__jpeg_memory *memory, j_decompress_ptr jpeg);

#endif
