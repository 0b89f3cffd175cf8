/* codec_memory.c - see codec_memory.h. */
#include "loaders/decoders/codec_memory.h"

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

#define LINE        ((size_t)64)
#define BLOCK_BYTES ((size_t)96 << 10) /* of the first one: most pictures need no more */

/* Memory that did not fit into the block; it begins one LINE after this header. */
struct iter__codec_extra {
    iter__codec_extra *next;
    size_t bytes;
};

_Static_assert(sizeof(iter__codec_extra) <= LINE, "what follows is aligned");

/* Makes the block larger after a picture that did not fit. If there is no memory, the old block
 * stays. */
static void make_block(iter__codec_memory *memory, size_t bytes) {
    bytes = iter__min_size(bytes, ITER_CODEC_KEPT);
    if (bytes <= memory->block_bytes) return;
    uint8_t *block = iter__alloc(1, bytes);
    if (!block) return;
    iter__free(memory->block);
    memory->block = block;
    memory->block_bytes = bytes;
}

/* Fails if this picture would take more than its limit. */
static iter_status check_room(const iter__codec_memory *memory, size_t bytes, iter_error *err) {
    const size_t all = memory->taken + memory->elsewhere + bytes;
    if (memory->most == 0 || all <= memory->most) return ITER_OK;
    return iter__fail(err, ITER_ENOMEM,
                      "decoding takes %zu bytes or more, %zu are left to it: raise "
                      "max_sample_bytes, or memory.limit",
                      all, memory->most);
}

iter_status iter__codec_expect(iter__codec_memory *memory, size_t bytes, iter_error *err) {
    if (bytes > SIZE_MAX / 4) return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", bytes);
    ITER_TRY(check_room(memory, bytes, err));
    memory->elsewhere += bytes;
    return ITER_OK;
}

iter_status iter__codec_take(iter__codec_memory *memory, size_t bytes, void **out,
                             iter_error *err) {
    *out = NULL;
    if (bytes > SIZE_MAX / 4) return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", bytes);
    const size_t rounded = iter__align_up_size(bytes, LINE);
    ITER_TRY(check_room(memory, rounded, err));
    if (memory->taken == 0) make_block(memory, BLOCK_BYTES);
    if (rounded <= memory->block_bytes - memory->block_used) {
        *out = memory->block + memory->block_used;
        memory->block_used += rounded;
    } else {
        iter__codec_extra *extra = iter__alloc_large(LINE + rounded);
        if (!extra) return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", rounded);
        *extra = (iter__codec_extra){memory->extras, LINE + rounded};
        memory->extras = extra;
        *out = (uint8_t *)extra + LINE;
    }
    memory->taken += rounded;
    return ITER_OK;
}

void iter__codec_give_back(iter__codec_memory *memory) {
    while (memory->extras) {
        iter__codec_extra *next = memory->extras->next;
        iter__free_large(memory->extras, memory->extras->bytes);
        memory->extras = next;
    }
    memory->block_used = 0;
    make_block(memory, memory->taken);
    memory->taken = memory->elsewhere = 0;
}

void iter__codec_free(iter__codec_memory *memory) {
    memory->taken = 0; /* no picture follows, so no block either */
    iter__codec_give_back(memory);
    iter__free(memory->block);
    memory->block = NULL;
    memory->block_bytes = 0;
}
