/*
 * test_loader_layout.c - a loader's layout for its inputs: the rules of loader_layout.h, with
 * numbers worked out by hand, and properties that hold for any numbers.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/runtime/loader_layout.h"
#include "iter/runtime/loader_state.h"

TestSuite(layout, .timeout = 60);

#define MIB ((uint64_t)1 << 20)

/* A set of `sample` bytes a row, both stored and in the batch. */
typedef struct made {
    iter_loader_options opt;
    iter_description desc;
    iter__plan plan;
    iter__layout_in in;
} made;

static made *make(uint64_t sample, uint32_t batch_size, int32_t workers) {
    static made m;
    memset(&m, 0, sizeof(m));
    m.opt = (iter_loader_options)ITER_LOADER_OPTIONS_INIT;
    m.opt.batch_size = batch_size;
    m.opt.workers = workers;
    m.opt.max_held = 2;
    m.desc.n_extents = 1;
    m.desc.max_extent_bytes[0] = sample;
    m.desc.n_samples = 1000000;
    m.plan.slot_bytes = sample * batch_size;
    m.plan.needs_bytes = true;
    m.in = (iter__layout_in){.opt = &m.opt,
                             .desc = &m.desc,
                             .plan = &m.plan,
                             .limit = (uint64_t)1 << 34,
                             .n_rows = 1000000,
                             .bytes = BYTES_READ,
                             .can_try = true};
    return &m;
}

static iter__layout layout_of(const made *m) {
    iter__layout out;
    iter_error err;
    cr_assert_eq(iter__layout_create(&m->in, &out, &err), ITER_OK, "%s", err.message);
    return out;
}

/* ---- Slots and chunks ------------------------------------------------------------------------ */

Test(layout, chunks_are_a_mebibyte_of_reading_and_writing) {
    cr_expect_eq(layout_of(make(3073, 64, 1)).chunk_rows, 64);   /* 64 is the maximum */
    cr_expect_eq(layout_of(make(16384, 64, 1)).chunk_rows, 32);  /* 2 x 16 KiB a row */
    cr_expect_eq(layout_of(make(2 * MIB, 64, 1)).chunk_rows, 1); /* at least one row */
    cr_expect_eq(layout_of(make(10, 7, 1)).chunk_rows, 7);
    cr_expect_eq(layout_of(make(16384, 64, 1)).max_chunks, 2);
    made *stream = make(10, 500, 1);
    stream->in.is_stream = true;
    cr_expect_eq(layout_of(stream).rows_a_chunk, 500);
}

/* The loader reads ahead two rounds of work for every worker. */
Test(layout, prefetch_follows_the_workers) {
    for (int32_t workers = 0; workers <= 64; workers++) {
        const iter__layout small = layout_of(make(100, 32, workers));
        cr_expect_eq(small.prefetch, workers > 1 ? 2 * (uint32_t)workers : 2);
        cr_expect_eq(small.most_busy, workers > 0 ? (uint32_t)workers : 1);
        cr_expect_eq(small.n_slots, 2 + small.prefetch + 1);
    }
    const iter__layout large = layout_of(make(16384, 128, 16)); /* four chunks a batch */
    cr_expect_eq(large.prefetch, 8);
    cr_expect_eq(large.most_busy, 16);
    made *given = make(100, 32, 16);
    given->opt.prefetch = 3;
    cr_expect_eq(layout_of(given).prefetch, 3);
    cr_expect_eq(layout_of(given).most_busy, 4);
    made *serial = make(100, 32, 16);
    serial->in.one_at_a_time = true;
    cr_expect_eq(layout_of(serial).most_busy, 1);
    cr_expect_eq(layout_of(serial).prefetch, 2);
}

/* A default prefetch shrinks before the limit is refused. */
Test(layout, prefetch_gives_way_to_the_limit) {
    made *m = make(16384, 64, 32);
    const iter__layout all = layout_of(m);
    m->in.limit = all.fixed_bytes / 2 + 4 * MIB;
    const iter__layout less = layout_of(m);
    cr_expect_lt(less.prefetch, all.prefetch);
    cr_expect_leq(less.fixed_bytes + less.arena_bytes, m->in.limit);
    m->opt.prefetch = all.prefetch;
    iter__layout out;
    iter_error err;
    cr_expect_eq(iter__layout_create(&m->in, &out, &err), ITER_ENOMEM);
    cr_expect(strstr(err.message, "is too small"), "%s", err.message);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

Test(layout, small_samples_are_made_while_they_are_hot) {
    made *m = make(3073, 64, 1);
    cr_expect_eq(layout_of(m).hot_bytes, 24 << 10);
    m->in.can_try = false;
    cr_expect_eq(layout_of(m).hot_bytes, 0);
    m = make(3073, 64, 1);
    m->opt.reading.o_direct = 1;
    const iter__layout past = layout_of(m);
    cr_expect_eq(past.hot_bytes, 0);
    cr_expect(past.whole_blocks);
    cr_expect_eq(past.chunk_rows, 7); /* 24 KiB of 3,074 bytes each */
    cr_expect_eq(past.source_bytes, 8 * MIB);
    m->opt.memory.limit = m->in.limit = 64 * MIB;
    cr_expect_eq(layout_of(m).source_bytes, 8 * MIB);
    m->opt.memory.limit = m->in.limit = past.fixed_bytes - 8 * MIB + 2 * MIB;
    cr_expect_lt(layout_of(m).source_bytes, MIB / 2); /* an eighth of the rest */
    m = make(3073, 64, 1);
    m->in.bytes = BYTES_LOADED;
    const iter__layout loaded = layout_of(m);
    cr_expect(loaded.hot_bytes == 0 && loaded.arena_bytes == 0 && loaded.n_regions == 0);
}

Test(layout, a_block_shuffle_reads_windows) {
    made *m = make(1000, 50, 1);
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    const iter__layout l = layout_of(m);
    cr_expect_eq(l.frames.piece_rows, 256); /* 256,000 bytes are one window of 256 KiB */
    cr_expect_eq(l.frames.group_rows, 4096);
    cr_expect_eq(l.frames.bytes, 258048 + 4096); /* whole blocks, and one for an unaligned start */
    cr_expect_eq(l.frames.n, 2 * (16 + 4));
    cr_expect_eq(l.frames.ahead_rows, 4096);
    cr_expect_eq(l.arena_bytes, l.frames.n * l.frames.bytes);
    const uint64_t subset = 0;
    m->opt.sampler.subset = &subset;
    cr_expect_eq(layout_of(m).frames.n, 0);
    m->opt.sampler.subset = NULL;
    m->in.limit = l.fixed_bytes + 4 * MIB - l.source_bytes; /* no room to read ahead */
    cr_expect_eq(layout_of(m).frames.ahead_rows, 0);
    m = make(40000, 50, 1); /* reads are large already */
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    cr_expect_eq(layout_of(m).frames.n, 0);
}

/* A set of one file of `bytes` at a URL, whose largest sample has `sample`. */
static made *make_remote(uint64_t sample, uint64_t bytes, uint64_t n) {
    static iter_file file;
    made *m = make(sample, 32, 2);
    file = (iter_file){.bytes = bytes};
    m->desc.files = &file;
    m->desc.n_files = 1;
    m->desc.n_samples = m->in.n_rows = n;
    m->in.is_remote = true;
    m->in.can_try = false;
    return m;
}

/* What holds for every layout with windows of files at URLs. */
static void check_remote_frames(const made *m, const iter__layout *l) {
    const iter__frames_layout *f = &l->frames;
    const uint64_t mean = m->desc.files[0].bytes / m->desc.n_samples;
    cr_expect_geq(f->bytes, m->desc.max_extent_bytes[0] + 4096);
    cr_expect_leq(f->bytes, 8 * MIB);
    cr_expect_leq(f->piece_rows * mean, 6 * MIB);
    cr_expect_leq(l->arena_bytes + l->fixed_bytes, m->in.limit);
    cr_expect_leq((uint64_t)f->n * f->bytes, l->arena_bytes);
    cr_expect_geq(f->n, l->chunk_rows);
    cr_expect_gt(f->ahead_rows, 0);
    cr_expect_geq(f->n, f->a_group * f->in_use);
}

Test(layout, a_block_shuffle_at_a_url_reads_large_windows) {
    made *m = make_remote(200000, 200000ull * 100000, 100000);
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    iter__layout l = layout_of(m);
    check_remote_frames(m, &l);
    cr_expect_eq(l.frames.piece_rows, 22); /* 51.2 MB in 12 pieces of about 4 MiB */
    cr_expect_eq(l.frames.ahead_rows, 4096);
    /* Small blocks are a window each, and 64 MiB of them are read ahead: 80 of 819,200 bytes. */
    m = make_remote(3200, 3200ull * 1000000, 1000000);
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    l = layout_of(m);
    check_remote_frames(m, &l);
    cr_expect_eq(l.frames.piece_rows, 256);
    cr_expect_eq(l.frames.ahead_rows, 5 * 4096);
    /* The largest sample is eight times the average one: frames are cut for the average. */
    m = make_remote(800000, 100000ull * 100000, 100000);
    m->in.block_rows = 512;
    m->in.block_buffer = 4;
    l = layout_of(m);
    check_remote_frames(m, &l);
    cr_expect_geq(l.frames.piece_rows * 100000, 3 * MIB);
    /* No room for a group: no window may be asked for twice, so there are none. */
    m->in.limit = m->opt.memory.limit = 200 * MIB;
    l = layout_of(m);
    cr_expect_eq(l.frames.n, 0);
    cr_expect_gt(l.arena_bytes, 0);
    /* Large samples are large requests already; files of a sample each have no larger windows. */
    m = make_remote(2 * MIB, 2 * MIB * 1000, 1000);
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    cr_expect_eq(layout_of(m).frames.n, 0);
    m = make_remote(100000, 100000, 1);
    m->in.block_rows = 256;
    m->in.block_buffer = 16;
    cr_expect_eq(layout_of(m).frames.n, 0);
}

Test(layout, an_ordered_set_at_a_url_reads_windows) {
    made *m = make_remote(3073, 3073ull * 1000000, 1000000);
    m->in.is_ordered = true;
    iter__layout l = layout_of(m);
    check_remote_frames(m, &l);
    cr_expect_eq(l.frames.piece_rows, 1364); /* of 3,073 bytes in 4 MiB */
    cr_expect_geq(l.frames.ahead_rows, 15 * 1364u);
    cr_expect_eq(l.hot_bytes, 0);
    m->in.limit = m->opt.memory.limit = 128 * MIB; /* smaller windows, of 1 MiB at least */
    l = layout_of(m);
    check_remote_frames(m, &l);
    cr_expect_geq(l.frames.piece_rows, 341u);
    m->in.limit = m->opt.memory.limit = 32 * MIB;
    cr_expect_eq(layout_of(m).frames.n, 0);
    m->in.limit = (uint64_t)1 << 34;
    m->opt.memory.limit = 0;
    m->opt.ranks = 2; /* each rank would read all windows */
    cr_expect_eq(layout_of(m).frames.n, 0);
    m->opt.ranks = 1;
    m->in.is_ordered = false;
    cr_expect_eq(layout_of(m).frames.n, 0);
    m->in.is_ordered = true;
    m->in.is_remote = false;
    cr_expect_eq(layout_of(m).frames.n, 0);
}

/* Rows whose blocks may be in the page cache are tried first; the source has memory for blocks that
 * it fetches, those of a whole window at once. */
Test(layout, a_cached_set_tries_first) {
    made *m = make_remote(3073, 3073ull * 1000000, 1000000);
    m->in.is_ordered = m->in.is_cached = m->in.can_try = true;
    iter__layout l = layout_of(m);
    cr_expect_gt(l.frames.n, 0);
    cr_expect_eq(l.hot_bytes, 24 << 10);
    cr_expect_eq(l.source_bytes, 64 * MIB);
    m->in.limit = m->opt.memory.limit = l.fixed_bytes + l.arena_bytes - 50 * MIB;
    l = layout_of(m);
    cr_expect_gt(l.frames.n, 0);
    cr_expect_geq(l.source_bytes, l.frames.bytes + 2 * MIB);
    cr_expect_leq(l.fixed_bytes + l.arena_bytes, m->in.limit);
}

/* ---- The limit ------------------------------------------------------------------------------- */

/* The limit that an error names must do; whatever fits stays below it. */
Test(layout, the_limit_that_would_do_does) {
    static const uint64_t samples[] = {16, 3073, 30000, 700000};
    for (int s = 0; s < 4; s++) {
        for (int32_t workers = 0; workers <= 8; workers += 4) {
            for (int direct = 0; direct <= 1; direct++) {
                made *m = make(samples[s], 32, workers);
                m->opt.reading.o_direct = direct;
                m->opt.memory.limit = m->in.limit = 1000;
                iter__layout out;
                iter_error err;
                unsigned long long would_do = 0;
                cr_assert_eq(iter__layout_create(&m->in, &out, &err), ITER_ENOMEM);
                const char *at = strstr(err.message, "too small, ");
                cr_assert(at && sscanf(at, "too small, %llu", &would_do) == 1, "%s", err.message);
                m->opt.memory.limit = m->in.limit = would_do;
                cr_assert_eq(iter__layout_create(&m->in, &out, &err), ITER_OK, "%s", err.message);
                cr_expect_leq(out.fixed_bytes + out.arena_bytes, would_do);
            }
        }
    }
}

Test(layout, books_count_without_a_limit) {
    made *m = make(32, 65536, 1);
    const iter__layout l = layout_of(m);
    cr_expect_geq(l.books_bytes, (uint64_t)65536 * l.n_slots * (8 + 8 + 4 + 1 + 1));
    cr_expect_geq(l.fixed_bytes, l.books_bytes + (uint64_t)32 * 65536 * l.n_slots);
    m->in.bytes = BYTES_NONE; /* from arrays: an index, a position, an epoch, two bytes */
    m->plan.needs_bytes = false;
    cr_expect_leq(layout_of(m).books_bytes, (uint64_t)65536 * l.n_slots * 24);
}
