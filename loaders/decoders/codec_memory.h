/*
 * codec_memory.h - the memory of a codec for one picture: handed out from the front of a block,
 * given back all at once after the picture, with a limit.
 *
 * The block stays from picture to picture, so that a steady state allocates nothing. It grows to
 * the most that a picture has taken, up to ITER_CODEC_KEPT bytes. Memory that does not fit is
 * allocated beside the block and freed after its picture. So earlier pictures take nothing away
 * from the next one.
 */
#ifndef ITER_LOADERS_DECODERS_CODEC_MEMORY_H
#define ITER_LOADERS_DECODERS_CODEC_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_CODEC_KEPT ((size_t)512 << 10)

typedef struct iter__codec_extra iter__codec_extra;

typedef struct iter__codec_memory {
    uint8_t *block;
    size_t block_bytes, block_used;
    size_t taken;     /* by this picture, in the block and beside it */
    size_t elsewhere; /* allocated by a library itself, for this picture */
    size_t most;      /* limit of one picture; 0 = none */
    iter__codec_extra *extras;
} iter__codec_memory;

/* Aligned to 64 bytes, not zeroed. Errors: ENOMEM, with what this picture takes and may take. */
iter_status iter__codec_take(iter__codec_memory *memory, size_t bytes, void **out, iter_error *err);

/* Counts memory that a library allocates itself for this picture. Errors: as above. */
iter_status iter__codec_expect(iter__codec_memory *memory, size_t bytes, iter_error *err);

/* Frees what this picture took; call it after each picture. */
void iter__codec_give_back(iter__codec_memory *memory);

/* Frees all; call it once. */
void iter__codec_free(iter__codec_memory *memory);

#endif
