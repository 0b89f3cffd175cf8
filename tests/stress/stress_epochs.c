/*
 * stress_epochs.c - the borders of epochs: END and reset, empty epochs, roll_over in mid-epoch,
 * short tails on many ranks, and reading ahead past an epoch's end.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/own_dataset.h"

static int32_t numbers[1000];

static iter_loader *over_numbers(int64_t n, const iter_loader_options *opt) {
    const iter_array array = {
        .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {n}}, .data = numbers};
    iter_error err;
    iter_loader *loader = NULL;
    if (!EXPECT_OK(iter_ndarray_create(&array, 1, NULL, opt, &loader, &err), &err)) exit(1);
    return loader;
}

static iter_loader_options options(int32_t workers, uint32_t batch_size, int32_t last_batch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch_size;
    opt.last_batch = last_batch;
    opt.workers = workers;
    opt.memory.limit = 64 << 20;
    opt.faults.timeout_ms = 20000; /* if a call hangs, this makes it a failure */
    return opt;
}

static void sleep_ms(long ms) {
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static const int32_t worker_counts[] = {0, 1, 2, 8};

/* ---- END and reset --------------------------------------------------------------------------- */

static void expect_batch(iter_loader *loader, uint32_t epoch, uint64_t number, int32_t first) {
    iter_error err;
    iter_batch *batch;
    if (!EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) return;
    EXPECT_EQ(iter_batch_describe(batch).epoch, epoch);
    EXPECT_EQ(iter_batch_describe(batch).number, number);
    EXPECT_EQ(((const int32_t *)iter_batch_tensor(batch, 0)->data)[0], first);
    iter_batch_unref(batch);
}

static void expect_end(iter_loader *loader) {
    iter_error err;
    iter_batch *batch = (iter_batch *)&err;
    EXPECT_STATUS(iter_loader_next(loader, &batch, &err), ITER_END, &err);
    EXPECT(batch == NULL);
}

static void rules(int32_t workers) {
    iter_loader_options opt = options(workers, 4, ITER_LAST_KEEP);
    opt.epochs = 4;
    iter_loader *loader = over_numbers(10, &opt);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL); /* before the first next: does nothing */
    expect_batch(loader, 0, 0, 0);
    expect_batch(loader, 0, 1, 4);
    expect_batch(loader, 0, 2, 8);
    for (int i = 0; i < 5; i++)
        expect_end(loader);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL); /* the second and third do nothing */
    expect_batch(loader, 1, 0, 0);
    EXPECT_OK(iter_loader_reset(loader, NULL), NULL); /* in mid-epoch: drops the rest */
    expect_batch(loader, 2, 0, 0);
    expect_batch(loader, 2, 1, 4);
    expect_batch(loader, 2, 2, 8);
    EXPECT_OK(iter_loader_reset(loader, NULL), NULL); /* all batches taken, END not reached yet */
    expect_batch(loader, 3, 0, 0);
    for (int i = 0; i < 3; i++)
        EXPECT_STATUS(iter_loader_reset(loader, NULL), ITER_END, NULL); /* there is no fifth */
    expect_end(loader);
    EXPECT_OK(iter_loader_seek(loader, 0, 0, NULL), NULL); /* hard_reset */
    expect_batch(loader, 0, 0, 0);
    iter_loader_unref(loader);
}

/* If all slots are held, END must still come: it needs no free slot, whatever the workers have made
 * by then. */
static void end_while_holding(int32_t workers) {
    iter_loader_options opt = options(workers, 4, ITER_LAST_KEEP);
    iter_loader *loader = over_numbers(8, &opt);
    iter_batch *held[2], *batch;
    iter_error err;
    EXPECT_OK(iter_loader_next(loader, &held[0], &err), &err);
    EXPECT_OK(iter_loader_next(loader, &held[1], &err), &err);
    expect_end(loader);
    EXPECT_OK(iter_loader_reset(loader, &err), &err);
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_ESTATE, &err, "max_held");
    EXPECT_EQ(((const int32_t *)iter_batch_tensor(held[1], 0)->data)[3], 7);
    iter_batch_unref(held[0]);
    expect_batch(loader, 1, 0, 0);
    iter_loader_unref(loader); /* while one batch is in use */
    EXPECT_EQ(((const int32_t *)iter_batch_tensor(held[1], 0)->data)[3], 7);
    iter_batch_unref(held[1]);
}

/* ---- Empty epochs ---------------------------------------------------------------------------- */

static void empty(int32_t workers, int64_t n, int32_t last_batch, int32_t lookahead) {
    iter_loader_options opt = options(workers, 8, last_batch);
    opt.lookahead = lookahead;
    opt.epochs = 50;
    iter_loader *loader = over_numbers(n, &opt);
    for (uint32_t e = 0; e < 50; e++) {
        uint32_t epoch;
        uint64_t sample;
        iter_loader_position(loader, &epoch, &sample);
        EXPECT_EQ(epoch, e);
        const uint64_t want = last_batch == ITER_LAST_ROLL_OVER
                                  ? (e + 1) * (uint64_t)n / 8 - e * (uint64_t)n / 8
                              : last_batch == ITER_LAST_DISCARD ? (uint64_t)n / 8
                                                                : ((uint64_t)n + 7) / 8;
        EXPECT_EQ(iter_loader_n_batches(loader), want);
        iter_error err;
        iter_batch *batch;
        iter_status s;
        uint64_t got = 0;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            got++;
            EXPECT_EQ(iter_batch_describe(batch).epoch, e);
            iter_batch_unref(batch);
        }
        EXPECT_STATUS(s, ITER_END, &err);
        EXPECT_EQ(got, want);
        expect_end(loader);
        EXPECT_STATUS(iter_loader_reset(loader, &err), e + 1 < 50 ? ITER_OK : ITER_END, &err);
    }
    iter_loader_unref(loader);
}

static void empty_epochs(int32_t workers) {
    for (int32_t lookahead = 0; lookahead < 2; lookahead++) {
        for (int64_t n = 0; n <= 11; n++) {
            for (int32_t mode = ITER_LAST_KEEP; mode <= ITER_LAST_ROLL_OVER; mode++)
                empty(workers, n, mode, lookahead);
        }
    }
}

/* ---- roll_over ------------------------------------------------------------------------------- */

/* reset() after `taken` batches of every epoch: the next epoch must begin at its own first batch,
 * carried rows included. */
static void rolls_over(int32_t workers, uint64_t n, uint32_t global, int taken) {
    iter_loader_options opt = options(workers, global, ITER_LAST_ROLL_OVER);
    iter_loader *loader = over_numbers((int64_t)n, &opt);
    for (uint32_t e = 0; e < 12; e++) {
        const uint64_t first = e * n / global, end = (e + 1) * n / global;
        const uint64_t stop =
            taken >= 0 && first + (uint64_t)taken < end ? first + (uint64_t)taken : end;
        for (uint64_t g = first; g < stop; g++) {
            iter_error err;
            iter_batch *batch;
            if (!EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) return;
            const iter_batch_info info = iter_batch_describe(batch);
            EXPECT_EQ(info.epoch, e);
            EXPECT_EQ(info.number, g - first);
            EXPECT_EQ(info.pad, info.first_valid);
            for (uint32_t i = 0; i < global; i++) {
                const uint64_t t = g * global + i;
                EXPECT_EQ(iter_batch_row_epoch(batch)[i], t / n);
                EXPECT_EQ(((const int32_t *)iter_batch_tensor(batch, 0)->data)[i], t % n);
                EXPECT_EQ(t / n == e, i >= info.first_valid);
            }
            iter_batch_unref(batch);
        }
        if (stop == end) expect_end(loader); /* otherwise the rest is dropped */
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
        if (stop < end && stop == first) { /* nothing was taken, so reset did nothing */
            iter_error err;
            EXPECT_OK(iter_loader_seek(loader, 0, 0, &err), &err);
            break;
        }
    }
    iter_loader_unref(loader);
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* All ranks take equally many batches, and together exactly the epoch. */
static void ranks(int32_t workers, int64_t n, uint32_t batch_size, uint32_t n_ranks,
                  int32_t last_batch) {
    iter_loader *loaders[5];
    uint32_t seen[64] = {0}, n_empty = 0, n_rows = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        iter_loader_options opt = options(workers, batch_size, last_batch);
        opt.rank = r;
        opt.ranks = n_ranks;
        opt.shuffle = ITER_SHUFFLE_FULL;
        loaders[r] = over_numbers(n, &opt);
    }
    const uint32_t global = batch_size * n_ranks;
    for (uint32_t b = 0;; b++) {
        uint32_t n_ok = 0, m = 0;
        for (uint32_t r = 0; r < n_ranks; r++) {
            iter_error err;
            iter_batch *batch;
            const iter_status s = iter_loader_next(loaders[r], &batch, &err);
            EXPECT(s == ITER_OK || s == ITER_END);
            if (s != ITER_OK) continue;
            n_ok++;
            const iter_batch_info info = iter_batch_describe(batch);
            EXPECT_EQ(iter_batch_tensor(batch, 0)->desc.dims[0], info.n_rows);
            EXPECT_EQ(info.number, b);
            EXPECT_EQ(info.n_rows, info.n_valid + info.pad);
            n_empty += info.n_rows == 0;
            m += info.n_rows;
            for (uint32_t i = info.first_valid; i < info.first_valid + info.n_valid; i++) {
                seen[((const int32_t *)iter_batch_tensor(batch, 0)->data)[i]]++;
                n_rows++;
            }
            iter_batch_unref(batch);
        }
        EXPECT(n_ok == 0 || n_ok == n_ranks);
        if (n_ok == 0) break;
        const uint32_t left = (uint32_t)n - b * global;
        EXPECT_EQ(m, last_batch == ITER_LAST_KEEP && left < global ? left : global);
    }
    const uint32_t whole = (uint32_t)n / global * global;
    EXPECT_EQ(n_rows, last_batch == ITER_LAST_DISCARD ? whole : (uint32_t)n);
    for (int64_t i = 0; i < n; i++)
        EXPECT(seen[i] == 1 || (last_batch == ITER_LAST_DISCARD && seen[i] == 0));
    const uint32_t tail = (uint32_t)n - whole;
    EXPECT_EQ(n_empty, last_batch == ITER_LAST_KEEP && tail && tail < n_ranks ? n_ranks - tail : 0);
    for (uint32_t r = 0; r < n_ranks; r++)
        iter_loader_unref(loaders[r]);
}

static void all_ranks(int32_t workers) {
    for (int64_t n = 0; n <= 31; n += workers ? 5 : 1) {
        for (uint32_t n_ranks = 1; n_ranks <= 5; n_ranks++) {
            for (int32_t mode = ITER_LAST_KEEP; mode <= ITER_LAST_DISCARD; mode++)
                ranks(workers, n, 3, n_ranks, mode);
        }
    }
}

/* ---- Reading ahead --------------------------------------------------------------------------- */

static uint64_t chunks_done(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(loader, &stats, NULL), NULL);
    uint64_t n = 0;
    for (int32_t i = 0; i < stats.n_workers; i++)
        n += stats.workers[i].chunks;
    return n;
}

static void take_epoch(iter_loader *loader) {
    iter_error err;
    iter_batch *batch;
    iter_status s;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK)
        iter_batch_unref(batch);
    EXPECT_STATUS(s, ITER_END, &err);
}

/* At END the next epoch's first batches must be ready: they are delivered although the dataset
 * blocks from then on. */
static void end_costs_nothing(int32_t workers) {
    own_dataset own = {.n = 64};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers, 8, ITER_LAST_KEEP);
    opt.prefetch = 3;
    opt.shuffle = ITER_SHUFFLE_FULL;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    for (uint32_t e = 0; e < 3; e++) {
        take_epoch(loader);
        const uint64_t want = (e + 1) * 8 + 3; /* at least half of max_held + prefetch + 1 slots */
        uint64_t before = 0;
        for (int i = 0, still = 0; i < 3000 && still < 20;
             i++, sleep_ms(1)) { /* until all workers are idle */
            const uint64_t now = chunks_done(loader);
            still = now == before && now >= want && atomic_load(&own.n_inside) == 0 ? still + 1 : 0;
            before = now;
        }
        EXPECT(before >= want);
        atomic_store(&own.block, true);
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
        iter_batch *batches[2];
        iter_error err;
        for (int b = 0; b < 2; b++) {
            if (!EXPECT_OK(iter_loader_next(loader, &batches[b], &err), &err)) exit(1);
            EXPECT_EQ(iter_batch_describe(batches[b]).epoch, e + 1);
            EXPECT_EQ(iter_batch_describe(batches[b]).number, b);
        }
        for (int b = 0; b < 2; b++)
            iter_batch_unref(batches[b]);
        atomic_store(&own.block, false);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* If lookahead = epoch, nothing of the next epoch may begin before reset(). */
static void stays_in_epoch(int32_t workers) {
    own_dataset own = {.n = 64};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers, 8, ITER_LAST_KEEP);
    opt.lookahead = ITER_LOOKAHEAD_EPOCH;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    for (uint32_t e = 0; e < 3; e++) {
        take_epoch(loader);
        sleep_ms(20);
        EXPECT_EQ(chunks_done(loader), (e + 1) * 8);
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
    }
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int main(void) {
    for (int i = 0; i < 1000; i++)
        numbers[i] = i;
    for (int w = 0; w < 4; w++) {
        const int32_t workers = worker_counts[w];
        rules(workers);
        end_while_holding(workers);
        empty_epochs(workers);
        for (int taken = -1; taken < 4; taken++) {
            rolls_over(workers, 10, 4, taken);
            rolls_over(workers, 7, 16, taken);
            rolls_over(workers, 23, 5, taken);
        }
        all_ranks(workers);
        if (workers > 0) end_costs_nothing(workers);
        if (workers > 0) stays_in_epoch(workers);
    }
    return EXPECT_DONE();
}
