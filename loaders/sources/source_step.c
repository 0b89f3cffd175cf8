/*
 * source_step.c - see source_step.h.
 *
 * No step has its own vector: if a read stops inside a part, one step reads the rest of that part,
 * and the next one the untouched parts after it. So nothing is copied or allocated, however often
 * the kernel stops short.
 *
 * Under O_DIRECT, if the offset, the address and at least one block are aligned, the read is in
 * place. So is an unaligned one, if it is larger than a bounce buffer and has room for its blocks.
 * Else an unaligned head or tail goes through the bounce buffer, in whole blocks, and the requested
 * bytes are copied out.
 */
#include "loaders/sources/source_step.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "iter/core/arith.h"

/* The kernel reads at most 2 GiB - 4 KiB at once, and a ring's length has 32 bits. */
#define ITER_STEP_MAX_BYTES ((size_t)1 << 30)

_Static_assert(sizeof(iter_iovec) == sizeof(struct iovec), "parts are handed to the kernel");
_Static_assert(offsetof(iter_iovec, data) == offsetof(struct iovec, iov_base), "same order");
_Static_assert(offsetof(iter_iovec, size) == offsetof(struct iovec, iov_len), "same order");

/* The part that holds byte `at` of the read, which is before its end, and the place inside; skips
 * empty parts. */
static int32_t find_part(const iter_read *read, size_t at, size_t *out_inside) {
    int32_t i = 0;
    while (i + 1 < read->n_parts && at >= read->parts[i].size)
        at -= read->parts[i++].size;
    assert(at < read->parts[i].size && "size is the sum of the parts");
    *out_inside = at;
    return i;
}

/* Copies `bytes`, which must fit, into the parts from byte read->done on. */
static void scatter(const iter_read *read, const uint8_t *from, size_t bytes) {
    size_t inside;
    int32_t i = find_part(read, read->done, &inside);
    while (bytes > 0) {
        const size_t n = iter__min_size(bytes, read->parts[i].size - inside);
        if (n > 0) memcpy((uint8_t *)read->parts[i].data + inside, from, n);
        from += n;
        bytes -= n;
        inside = 0;
        i++;
    }
}

/* Plans to read the rest in place, in whole blocks around it. False if there is no room for them at
 * an aligned address, or if one bounce buffer holds them all: those buffers are few, so they stay
 * in the caches (records of 26 KB from a virtual disk: 15 % more of them with the copy). */
static bool plan_around(const iter_read *read, const iter__blocks *blocks, iter__source_step *out) {
    const uint64_t end = read->offset + read->size, block = blocks->offset_align;
    const uint64_t start = iter__align_down_u64(read->offset, block);
    const uint64_t behind = iter__align_up_u64(end, block);
    const size_t before = (size_t)(read->offset - start);
    if (read->done > 0 || read->n_parts != 1 || before > read->room_before ||
        behind - end > read->room_after || behind - start > ITER_STEP_MAX_BYTES ||
        (behind - start <= blocks->bounce_bytes && !blocks->in_place))
        return false;
    uint8_t *base = (uint8_t *)read->parts[0].data - before;
    if ((uintptr_t)base % blocks->memory_align != 0) return false;
    *out = (iter__source_step){.kind = ITER_STEP_AROUND,
                               .offset = start,
                               .length = (size_t)(behind - start),
                               .base = base};
    return true;
}

static void plan_blocks(const iter_read *read, const iter__blocks *blocks, iter__source_step *out) {
    size_t inside;
    const int32_t i = find_part(read, read->done, &inside);
    const uint64_t at = read->offset + read->done;
    uint8_t *base = (uint8_t *)read->parts[i].data + inside;
    const size_t here = iter__min_size(read->parts[i].size - inside, ITER_STEP_MAX_BYTES);
    const uint64_t block = blocks->offset_align;
    if (at % block == 0 && (uintptr_t)base % blocks->memory_align == 0 && here >= block) {
        out->kind = ITER_STEP_ONE;
        out->base = base;
        out->length = (size_t)iter__align_down_u64(here, block);
        return;
    }
    const uint64_t start = iter__align_down_u64(at, block);
    const uint64_t end = iter__align_up_u64(at + (read->size - read->done), block);
    out->kind = ITER_STEP_BOUNCE;
    out->offset = start;
    out->length = (size_t)iter__min_u64(end - start, blocks->bounce_bytes);
}

void iter__step_plan(const iter_read *read, const iter__blocks *blocks, iter__source_step *out) {
    *out = (iter__source_step){.kind = ITER_STEP_NONE, .offset = read->offset + read->done};
    if (read->done >= read->size) return;
    if (blocks->offset_align > 0) {
        if (!plan_around(read, blocks, out)) plan_blocks(read, blocks, out);
        return;
    }
    size_t inside;
    const int32_t i = find_part(read, read->done, &inside);
    if (inside == 0 && i + 1 < read->n_parts) {
        out->kind = ITER_STEP_MANY;
        out->parts = read->parts + i;
        out->n_parts = read->n_parts - i;
        out->length = read->size - read->done;
        return;
    }
    out->kind = ITER_STEP_ONE;
    out->base = (uint8_t *)read->parts[i].data + inside;
    out->length = iter__min_size(read->parts[i].size - inside, ITER_STEP_MAX_BYTES);
}

iter__after iter__step_book(iter_read *read, const iter__source_step *step, const void *bounce,
                            int64_t answer) {
    if (answer == -EINTR || answer == -EAGAIN) return ITER_AFTER_AGAIN;
    if (answer == -ECANCELED || answer == -EFAULT) return ITER_AFTER_LOST;
    if (answer < 0) {
        iter__step_end(read, (int32_t)-answer);
        return ITER_AFTER_DONE;
    }
    size_t got = (size_t)answer;
    assert(got <= step->length);
    if (step->kind == ITER_STEP_BOUNCE || step->kind == ITER_STEP_AROUND) {
        /* an answer that ends inside a block ends with the file */
        const size_t before = (size_t)(read->offset + read->done - step->offset);
        got = got > before ? iter__min_size(got - before, read->size - read->done) : 0;
        if (got > 0 && step->kind == ITER_STEP_BOUNCE)
            scatter(read, (const uint8_t *)bounce + before, got);
    }
    read->done += got;
    if (got == 0 || read->done >= read->size) { /* 0 bytes: the object ends here */
        iter__step_end(read, 0);
        return ITER_AFTER_DONE;
    }
    return ITER_AFTER_NEXT;
}

void iter__step_end(iter_read *read, int32_t os_error) {
    read->os_error = os_error;
    read->status = os_error == 0 ? ITER_OK : ITER_EIO;
}
