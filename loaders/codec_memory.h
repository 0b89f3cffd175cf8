/*
 * codec_memory.h - what a codec takes while it works on one picture: handed out from the front of a
 * block, taken back all at once when the picture is done, and never more than it may be.
 *
 * The block stays from picture to picture, so that a steady state allocates nothing. It is as large as
 * the most that a picture took, up to KEPT bytes; what does not fit lies beside it, and goes back to
 * the system with its picture. So what pictures before it took takes nothing away from the next one.
 */
#ifndef ITER_LOADERS_CODEC_MEMORY_H
#define ITER_LOADERS_CODEC_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_CODEC_KEPT ((size_t)512 << 10)

typedef struct iter__codec_extra iter__codec_extra;

typedef struct iter__codec_memory {
    uint8_t *block;
    size_t block_bytes, block_used;
    size_t taken;     /* by this picture, in the block and beside it */
    size_t elsewhere; /* by a library, for this picture */
    size_t most;      /* that one may take; 0 = there is no limit */
    iter__codec_extra *extras;
} iter__codec_memory;

/* Aligned to 64 bytes, not zeroed. Errors: ENOMEM, with what this picture takes and may take. */
iter_status iter__codec_take(iter__codec_memory *memory, size_t bytes, void **out, iter_error *err);

/* Counts memory that a library takes for this picture by itself. Errors: as above. */
iter_status iter__codec_expect(iter__codec_memory *memory, size_t bytes, iter_error *err);

/* The picture is done. */
void iter__codec_give_back(iter__codec_memory *memory);

/* The codec is. */
void iter__codec_free(iter__codec_memory *memory);

#endif
