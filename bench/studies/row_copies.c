/* row_copies.c - see row_copies.h. */
#include "bench/studies/row_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/iter.h>

#include "bench/common/bench_util.h"

struct row_copies {
    size_t bytes;
    uint64_t n, at;
    uint32_t batch;
    uint8_t *rows, *buffer;
    uint64_t *order;
    iter_loader *loader;
};

static _Noreturn void die(const char *what, const iter_error *err) {
    fprintf(stderr, "numbers: %s: %s\n", what, err->message);
    exit(1);
}

row_copies *row_copies_open(size_t bytes, uint64_t n, uint32_t batch, bool shuffled, bool views) {
    static row_copies s;
    iter_error err;
    iter_rng rng = iter_rng_at(1, 0, 0);
    s = (row_copies){.bytes = bytes, .n = n, .batch = batch};
    s.rows = bench_map(bytes * n);
    s.buffer = bench_map(bytes * batch);
    s.order = bench_map(n * sizeof(*s.order));
    if (!s.rows || !s.buffer || !s.order) exit(1);
    for (size_t i = 0; i < bytes * n; i++)
        s.rows[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint64_t i = 0; i < n; i++)
        s.order[i] = i;
    for (uint64_t i = n; shuffled && i-- > 1;) {
        const uint64_t j = iter_rng_below(&rng, i + 1), moved = s.order[i];
        s.order[i] = s.order[j];
        s.order[j] = moved;
    }
    const iter_array array = {
        .role = ITER_DATA,
        .desc = {.dtype = ITER_U8, .n_dims = 2, .dims = {(int64_t)n, (int64_t)bytes}},
        .data = s.rows};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch;
    opt.shuffle = shuffled ? ITER_SHUFFLE_FULL : ITER_SHUFFLE_NONE;
    opt.last_batch = ITER_LAST_DISCARD;
    opt.views = views ? ITER_VIEWS_AUTO : ITER_VIEWS_NO;
    if (iter_ndarray_create(&array, 1, NULL, &opt, &s.loader, &err) < 0) die("ndarray", &err);
    return &s;
}

static void touch(const uint8_t *bytes, size_t n) {
    static volatile uint8_t sink;
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i += 64)
        sum = (uint8_t)(sum + bytes[i]);
    sink = sum;
    (void)sink;
}

uint64_t row_copies_load(row_copies *s, uint64_t n_batches, bool touches) {
    iter_error err;
    iter_batch *batch;
    for (uint64_t b = 0; b < n_batches;) {
        const iter_status status = iter_loader_next(s->loader, &batch, &err);
        if (status < 0) die("next", &err);
        if (status == ITER_END) {
            if (iter_loader_reset(s->loader, &err) < 0) die("reset", &err);
            continue;
        }
        if (touches) touch(iter_batch_tensor(batch, 0)->data, s->bytes * s->batch);
        iter_batch_unref(batch);
        b++;
    }
    return n_batches * s->batch;
}

uint64_t row_copies_loop(row_copies *s, uint64_t n_batches, bool touches) {
    for (uint64_t b = 0; b < n_batches; b++) {
        if (s->at + s->batch > s->n) s->at = 0;
        for (uint32_t i = 0; i < s->batch; i++)
            memcpy(s->buffer + i * s->bytes, s->rows + s->order[s->at + i] * s->bytes, s->bytes);
        s->at += s->batch;
        /* the compiler must assume that it is read */
        __asm__ volatile("" : : "r"(s->buffer) : "memory");
        if (touches) touch(s->buffer, s->bytes * s->batch);
    }
    return n_batches * s->batch;
}
