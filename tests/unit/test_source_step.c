/*
 * test_source_step.c - steps against a made-up kernel that reads short, interrupts and loses
 * requests at random.
 *
 * The file is an array and the kernel is ten lines, so the expected result of a read needs no
 * source.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "loaders/sources/source_step.h"

TestSuite(source_step, .timeout = 60);

#define FILE_BYTES 5000u

static uint8_t file_byte(uint64_t at) {
    return (uint8_t)(at * 7 + at / 251);
}

static uint64_t random_state;
static int n_around; /* steps that also read the blocks around */

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

/* The made-up kernel's result of a step. If cut > 0 it may read short, under O_DIRECT only to the
 * end of a block. */
static int64_t kernel(const iter__source_step *step, uint8_t *bounce, size_t cut) {
    const uint32_t mood = random_below(12);
    if (mood == 0) return -EINTR;
    if (mood == 1) return -EAGAIN;
    size_t n = step->length;
    if (step->offset >= FILE_BYTES) return 0;
    if (n > FILE_BYTES - step->offset) n = (size_t)(FILE_BYTES - step->offset);
    if (n > cut && cut > 0 && random_below(2)) n = (1 + random_below((uint32_t)(n / cut))) * cut;
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = file_byte(step->offset + i);
        if (step->kind == ITER_STEP_BOUNCE) {
            bounce[i] = byte;
        } else if (step->kind == ITER_STEP_ONE || step->kind == ITER_STEP_AROUND) {
            ((uint8_t *)step->base)[i] = byte;
        } else {
            size_t at = i;
            int32_t p = 0;
            while (at >= step->parts[p].size) {
                at -= step->parts[p++].size;
                cr_assert_lt(p, step->n_parts);
            }
            ((uint8_t *)step->parts[p].data)[at] = byte;
        }
    }
    return (int64_t)n;
}

static void expect_allowed(const iter__source_step *step, const iter__blocks *blocks) {
    if (blocks->offset_align == 0) {
        cr_assert_neq(step->kind, ITER_STEP_BOUNCE);
        cr_assert_neq(step->kind, ITER_STEP_AROUND);
        return;
    }
    cr_assert_eq(step->offset % blocks->offset_align, 0);
    cr_assert_eq(step->length % blocks->offset_align, 0);
    cr_assert_neq(step->kind, ITER_STEP_MANY);
    if (step->kind != ITER_STEP_BOUNCE)
        cr_assert_eq((uintptr_t)step->base % blocks->memory_align, 0);
    if (step->kind == ITER_STEP_BOUNCE) cr_assert_leq(step->length, blocks->bounce_bytes);
}

/* Runs one random read to its end; the parts lie in `memory` with guard bytes between. */
static void run_one(const iter__blocks *blocks, size_t cut) {
    static _Alignas(4096) uint8_t memory[3 * FILE_BYTES];
    static uint8_t bounce[2048];
    memset(memory, 0xEE, sizeof memory);
    iter_iovec parts[8];
    iter_read read = {.parts = parts, .n_parts = (int32_t)(1 + random_below(8))};
    read.offset = random_below(FILE_BYTES + 500);
    size_t at = random_below(2) ? 0 : random_below(100);
    for (int32_t i = 0; i < read.n_parts; i++) {
        parts[i].data = memory + at;
        parts[i].size = random_below(4) ? random_below(1200) : 0;
        read.size += parts[i].size;
        at += parts[i].size + 1 + random_below(100);
    }
    if (read.n_parts == 1 && random_below(2)) { /* with room, but maybe not enough */
        parts[0].data = memory + 512 + read.offset % 512;
        read.room_before = random_below(4) ? read.offset % 512 : random_below(512);
        read.room_after = random_below(4) ? 511 : random_below(512);
    }
    if (read.size == 0) return;
    const size_t first_done = random_below(3) ? 0 : random_below((uint32_t)read.size);
    read.done = first_done;

    iter__after after = ITER_AFTER_NEXT;
    for (int steps = 0; after != ITER_AFTER_DONE; steps++) {
        cr_assert_lt(steps, 100000);
        iter__source_step step;
        iter__step_plan(&read, blocks, &step);
        cr_assert_neq(step.kind, ITER_STEP_NONE);
        cr_assert_gt(step.length, 0);
        expect_allowed(&step, blocks);
        n_around += step.kind == ITER_STEP_AROUND;
        after = iter__step_book(&read, &step, bounce, kernel(&step, bounce, cut));
    }

    cr_assert_eq(read.status, ITER_OK);
    const uint64_t left = read.offset < FILE_BYTES ? FILE_BYTES - read.offset : 0;
    size_t want = read.size < left ? read.size : (size_t)left;
    if (want < first_done) want = first_done;
    cr_assert_eq(read.done, want);
    size_t place = 0;
    const uint8_t *next = memory;
    for (int32_t i = 0; i < read.n_parts; i++) {
        for (; next + read.room_before < (uint8_t *)parts[i].data; next++)
            cr_assert_eq(*next, 0xEE, "written between the parts");
        next = parts[i].data;
        for (size_t j = 0; j < parts[i].size; j++, place++, next++) {
            const bool mine = place >= first_done && place < want;
            /* Under O_DIRECT the kernel may fill more of the caller's parts, but never write after
             * them. */
            if (mine) cr_assert_eq(*next, file_byte(read.offset + place));
        }
    }
    for (size_t j = read.room_after; j < read.room_after + 512; j++)
        cr_assert_eq(next[j], 0xEE, "written after the parts");
}

Test(source_step, random_reads_through_the_page_cache) {
    const iter__blocks none = {0};
    random_state = 1;
    for (int i = 0; i < 20000; i++)
        run_one(&none, 1);
}

Test(source_step, random_reads_in_blocks) {
    static const iter__blocks blocks[] = {{512, 512, 2048, false},
                                          {512, 512, 2048, true},
                                          {512, 4, 1024, false},
                                          {256, 1, 512, false}};
    random_state = 2;
    for (int i = 0; i < 30000; i++)
        run_one(&blocks[i % 4], i % 8 < 4 ? blocks[i % 4].offset_align : 0);
    cr_assert_gt(n_around, 20);
}

Test(source_step, errors) {
    uint8_t memory[16];
    const iter_iovec part = {memory, sizeof memory};
    const iter__blocks none = {0};
    iter__source_step step;
    iter_read read = {.parts = &part, .n_parts = 1, .size = 16};
    iter__step_plan(&read, &none, &step);
    cr_assert_eq(step.kind, ITER_STEP_ONE);

    cr_assert_eq(iter__step_book(&read, &step, NULL, -EIO), ITER_AFTER_DONE);
    cr_assert_eq(read.status, ITER_EIO);
    cr_assert_eq(read.os_error, EIO);

    cr_assert_eq(iter__step_book(&read, &step, NULL, -ECANCELED), ITER_AFTER_LOST);
    cr_assert_eq(iter__step_book(&read, &step, NULL, -EFAULT), ITER_AFTER_LOST);
    cr_assert_eq(iter__step_book(&read, &step, NULL, -EINTR), ITER_AFTER_AGAIN);
    cr_assert_eq(read.done, 0);

    cr_assert_eq(iter__step_book(&read, &step, NULL, 16), ITER_AFTER_DONE);
    cr_assert_eq(read.status, ITER_OK);
    cr_assert_eq(read.os_error, 0);
    cr_assert_eq(read.done, 16);
    iter__step_plan(&read, &none, &step);
    cr_assert_eq(step.kind, ITER_STEP_NONE);
}

Test(source_step, large_reads_are_cut) {
    if (sizeof(size_t) < 8) cr_skip_test("needs a 64-bit size_t");
    uint8_t byte;
    const iter_iovec part = {&byte, (size_t)5 << 30}; /* only planned, never read */
    iter_read read = {.parts = &part, .n_parts = 1, .size = (size_t)5 << 30};
    const iter__blocks none = {0};
    iter__source_step step;
    iter__step_plan(&read, &none, &step);
    cr_assert_eq(step.kind, ITER_STEP_ONE);
    cr_assert_leq(step.length, (size_t)1 << 30);
    cr_assert_eq(iter__step_book(&read, &step, NULL, (int64_t)step.length), ITER_AFTER_NEXT);
}
