/*
 * jpeg_memory.h - libjpeg's memory of one picture, taken from codec_memory.h.
 *
 * libjpeg has its own limit, max_memory_to_use, but obeys it only if arrays may be moved to a file.
 * So its manager's methods are replaced: memory of a picture (JPOOL_IMAGE), above all the
 * coefficients of progressive ones, comes from here; memory of the object stays libjpeg's.
 */
#ifndef ITER_LOADERS_DECODERS_JPEG_MEMORY_H
#define ITER_LOADERS_DECODERS_JPEG_MEMORY_H

#include <stdio.h>

#include <jpeglib.h>

#include "loaders/decoders/codec_memory.h"

typedef struct iter__jpeg_memory {
    iter__codec_memory codec;
    struct jpeg_memory_mgr own;           /* libjpeg's methods */
    struct jvirt_sarray_control *samples; /* arrays of a whole picture that libjpeg requested */
    struct jvirt_barray_control *blocks;
    /* Called when there is no memory; must not return. */
    void (*fail)(j_common_ptr jpeg, const iter_error *error);
} iter__jpeg_memory;

/* Replaces the methods. `memory` must be the first member of what client_data points to, with
 * `fail` set, and nothing of a picture may be allocated yet. */
void iter__jpeg_memory_use(iter__jpeg_memory *memory, j_decompress_ptr jpeg);

#endif
