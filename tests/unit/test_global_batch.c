/*
 * test_global_batch.c - loaders of several ranks with a global batch: at each step their batches
 * together are the batch of one rank, in order, for any number of ranks and micro-batches, also
 * after a restart with another number of ranks.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <iter/iter.h>

TestSuite(global_batch, .timeout = 120);

enum { MAX_N = 100, MAX_RANKS = 6, MAX_BATCH = 24, EPOCHS = 2, SHAPES = 150 };

typedef struct shape {
    uint32_t n, global, parts, ranks, other_ranks; /* parts: micro-batches */
    int32_t last_batch, shuffle, workers;
} shape;

static int32_t numbers[MAX_N];

static uint32_t draw(uint32_t least, uint32_t most) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return least + (uint32_t)(state >> 33) % (most - least + 1);
}

static shape draw_shape(void) {
    static const int32_t shuffles[] = {ITER_SHUFFLE_NONE, ITER_SHUFFLE_FULL, ITER_SHUFFLE_ONCE};
    shape s = {.global = draw(1, MAX_BATCH)};
    s.n = draw(s.global, MAX_N);
    s.ranks = draw(1, MAX_RANKS);
    s.other_ranks = draw(1, MAX_RANKS);
    const uint32_t most = s.ranks > s.other_ranks ? s.ranks : s.other_ranks;
    s.parts = draw(0, 2) ? most + draw(0, 5) : 0;
    s.last_batch = (int32_t)draw(ITER_LAST_KEEP, ITER_LAST_ROLL_OVER);
    s.shuffle = shuffles[draw(0, 2)];
    s.workers = (int32_t)draw(0, 2);
    return s;
}

static iter_loader *open_rank(const shape *s, uint32_t rank, uint32_t ranks) {
    const iter_array array = {.role = ITER_DATA,
                              .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {s->n}},
                              .data = numbers};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader;
    iter_error err;
    opt.rank = rank;
    opt.ranks = ranks;
    opt.global_batch = s->global;
    opt.micro_batches = s->parts;
    opt.last_batch = s->last_batch;
    opt.shuffle = s->shuffle;
    opt.workers = s->workers;
    opt.seed = 9;
    opt.memory.limit = 16 << 20;
    cr_assert_eq(iter_ndarray_create(&array, 1, NULL, &opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    return loader;
}

static iter_status next(iter_loader *loader, iter_batch **out) {
    iter_error err;
    const iter_status status = iter_loader_next(loader, out, &err);
    cr_assert_geq(status, 0, "%s", err.message);
    return status;
}

/* A row as a batch shows it. */
typedef struct row {
    uint64_t index, position;
    uint32_t epoch;
    uint8_t valid;
    bool is_own; /* of this epoch, and no padding */
} row;

static uint32_t read_rows(iter_batch *batch, row *out) {
    const iter_batch_info info = iter_batch_describe(batch);
    const int32_t *values = iter_batch_tensor(batch, 0)->data;
    for (uint32_t i = 0; i < info.n_rows; i++) {
        out[i] = (row){.index = iter_batch_index(batch)[i],
                       .position = iter_batch_position(batch)[i],
                       .epoch = iter_batch_row_epoch(batch)[i],
                       .valid = iter_batch_valid(batch) ? iter_batch_valid(batch)[i] : 1,
                       .is_own = i - info.first_valid < info.n_valid};
        cr_assert_eq(values[i], (int32_t)out[i].index);
    }
    return info.n_rows;
}

/* One step of all ranks beside one step of a single rank. False at the end of the epoch. */
static bool step(const shape *s, iter_loader *single, iter_loader **loaders, uint32_t ranks) {
    row want[MAX_BATCH], got[MAX_BATCH];
    iter_batch *batch;
    const iter_status status = next(single, &batch);
    uint32_t n_want = 0, n = 0;
    if (status == ITER_OK) {
        n_want = read_rows(batch, want);
        iter_batch_unref(batch);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        const iter_status own = next(loaders[r], &batch);
        cr_assert_eq(own, status, "rank %u of %u is out of step", r, ranks);
        if (own != ITER_OK) continue;
        const iter_batch_info info = iter_batch_describe(batch);
        cr_assert_eq(info.first_row, n);
        cr_assert_eq(info.global_rows, n_want);
        cr_assert_leq(n + info.n_rows, n_want);
        for (uint32_t first = 0, k = 0; s->parts > 0 && k <= s->parts; k++) {
            first = (uint32_t)((uint64_t)k * n_want / s->parts);
            if (first == n) break; /* a share begins where a micro-batch does */
            cr_assert_lt(first, n);
        }
        n += read_rows(batch, got + n);
        iter_batch_unref(batch);
    }
    cr_assert_eq(n, n_want);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_eq(got[i].index, want[i].index, "row %u of %u", i, n);
        cr_assert_eq(got[i].position, want[i].position);
        cr_assert_eq(got[i].epoch, want[i].epoch);
        cr_assert_eq(got[i].valid, want[i].valid);
        cr_assert_eq(got[i].is_own, want[i].is_own);
    }
    return status == ITER_OK;
}

static void open_all(const shape *s, uint32_t ranks, iter_loader **out) {
    for (uint32_t r = 0; r < ranks; r++)
        out[r] = open_rank(s, r, ranks);
}

static void close_all(uint32_t ranks, iter_loader **loaders) {
    for (uint32_t r = 0; r < ranks; r++)
        iter_loader_unref(loaders[r]);
}

/* All ranks stop after some step; others, of another number, go on from what rank 0 saved. */
static void restart(const shape *s, iter_loader **loaders, uint32_t *ranks) {
    char saved[1024];
    size_t size;
    iter_error err;
    cr_assert_eq(iter_loader_save(loaders[0], saved, sizeof(saved), &size, &err), ITER_OK);
    close_all(*ranks, loaders);
    *ranks = s->other_ranks;
    open_all(s, *ranks, loaders);
    for (uint32_t r = 0; r < *ranks; r++)
        cr_assert_eq(iter_loader_restore(loaders[r], saved, size, &err), ITER_OK, "%s",
                     err.message);
}

static void try_shape(const shape *s) {
    iter_loader *loaders[MAX_RANKS], *single = open_rank(s, 0, 1);
    uint32_t ranks = s->ranks, restart_at = draw(0, 6);
    open_all(s, ranks, loaders);
    for (int e = 0; e < EPOCHS; e++) {
        while (step(s, single, loaders, ranks))
            if (restart_at-- == 0) restart(s, loaders, &ranks);
        cr_assert_eq(iter_loader_reset(single, NULL), ITER_OK);
        for (uint32_t r = 0; r < ranks; r++)
            cr_assert_eq(iter_loader_reset(loaders[r], NULL), ITER_OK);
    }
    close_all(ranks, loaders);
    iter_loader_unref(single);
}

Test(global_batch, ranks_together_are_one_rank) {
    for (int i = 0; i < MAX_N; i++)
        numbers[i] = i;
    for (int i = 0; i < SHAPES; i++) {
        const shape s = draw_shape();
        try_shape(&s);
    }
}
