/*
 * stress_own.c - the user's own dataset: one state per worker, or one call at a time without
 * states; failed samples under every policy; streams; variable lengths; callbacks that call back; a
 * get() that never returns; and children of fork().
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/own_dataset.h"

static iter_loader_options options(int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 8;
    opt.workers = workers;
    opt.memory.limit = 64 << 20;
    return opt;
}

/* Checks that rows are what their index says; returns the number of rows in one epoch. */
static uint32_t one_epoch(iter_loader *loader, bool variable) {
    iter_error err;
    iter_batch *batch;
    iter_status s;
    uint32_t n = 0;
    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        const iter_batch_info info = iter_batch_describe(batch);
        const iter_tensor *data = iter_batch_tensor(batch, 0);
        const uint8_t *label = iter_batch_tensor(batch, 1)->data;
        for (uint32_t i = 0; i < info.n_rows; i++) {
            const uint64_t index = iter_batch_index(batch)[i];
            const int32_t *row = (const int32_t *)data->data + i * data->strides[0];
            EXPECT_EQ(row[0], index);
            EXPECT_EQ(label[i], index % 7);
            if (!variable) continue;
            EXPECT_EQ(iter_batch_lengths(batch, 0)[i], index % 5 + 1);
            for (int64_t j = 0; j < data->desc.dims[1]; j++)
                EXPECT_EQ(row[j], j < (int64_t)(index % 5) + 1 ? (int64_t)index : -1);
        }
        n += info.n_rows;
        iter_batch_unref(batch);
    }
    EXPECT_STATUS(s, ITER_END, &err);
    EXPECT_OK(iter_loader_reset(loader, &err), &err);
    return n;
}

static void states(void) {
    for (int32_t workers = 0; workers <= 4; workers++) {
        own_dataset own = {.n = 203}, serial = {.n = 203, .sleep_ns = 20000};
        iter_dataset *data = own_open(&own, &own_ops), *one = own_open(&serial, &own_ops_serial);
        const iter_loader_options opt = options(workers);
        iter_loader *a = drive_loader(data, NULL, &opt), *b = drive_loader(one, NULL, &opt);
        for (int e = 0; e < 3; e++)
            EXPECT_EQ(one_epoch(a, false), 203);
        for (int e = 0; e < 2; e++)
            EXPECT_EQ(one_epoch(b, false), 203);
        iter_loader_unref(a);
        iter_loader_unref(b);
        EXPECT_EQ(own.n_started, workers ? workers : 1);
        EXPECT_EQ(own.n_stopped, own.n_started);
        EXPECT_EQ(serial.max_inside, 1);
        EXPECT_EQ(own.n_closed, 0);
        iter_dataset_unref(data);
        iter_dataset_unref(one);
        EXPECT_EQ(own.n_closed, 1);
    }
}

/* If get() takes long, all workers must be busy with default options. If a dataset serves one call
 * at a time, the plan must say so; if it says "parallel", it must not be limited to one. */
static void all_workers_are_busy(const iter_dataset_ops *ops, int32_t workers) {
    own_dataset own = {.n = 100000};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = workers;
    atomic_store(&own.block, true);
    iter_dataset *data = own_open(&own, ops);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    const bool serial = ops == &own_ops_serial;
    const int want = serial ? 1 : workers;
    char text[64];
    snprintf(text, sizeof(text), "; %d of %d workers can be busy at once", want, workers);
    if (!EXPECT(strstr(iter_loader_plan_text(loader), text)))
        fprintf(stderr, "%s", iter_loader_plan_text(loader));
    EXPECT_EQ(strstr(iter_loader_plan_text(loader), "iter_dataset_ops.parallel") != NULL, serial);
    const double until = bounded_seconds() + 20;
    while (atomic_load(&own.n_inside) < want && bounded_seconds() < until)
        bounded_sleep(0.001);
    if (serial) bounded_sleep(0.02);
    EXPECT_EQ(atomic_load(&own.n_inside), want);
    atomic_store(&own.block, false);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static void failures(int32_t on_error, int32_t workers, uint32_t max_failures) {
    own_dataset own = {.n = 100, .fail_modulo = 10}; /* 1, 11, 21, ... */
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers);
    opt.faults.on_error = on_error;
    opt.faults.max_failures = max_failures;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    uint32_t n_ok = 0, n_bad = 0, n_blank = 0, n_moved = 0;
    for (uint32_t i = 0; i < 13; i++) {
        iter_error err;
        iter_batch *batch;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (s < 0) {
            n_bad++;
            EXPECT_ERROR(s, ITER_EFORMAT, &err,
                         max_failures && n_bad > 1 ? "max_failures" : "own: sample");
            continue;
        }
        EXPECT_OK(s, &err);
        n_ok++;
        for (uint32_t r = 0; r < iter_batch_describe(batch).n_rows; r++) {
            const int32_t *row = (const int32_t *)iter_batch_tensor(batch, 0)->data + 2 * r;
            const bool valid = iter_batch_valid(batch)[r];
            EXPECT_EQ(row[0], valid ? (int64_t)iter_batch_index(batch)[r] : 0);
            n_blank += !valid;
            n_moved += iter_batch_index(batch)[r] != iter_batch_position(batch)[r];
        }
        iter_batch_unref(batch);
    }
    if (max_failures == 0) {
        /* ten bad rows lie in ten of thirteen batches */
        EXPECT_EQ(n_ok, on_error == ITER_ON_ERROR_FAIL ? 3 : 13);
        EXPECT_EQ(n_blank, on_error == ITER_ON_ERROR_BLANK ? 10 : 0);
        EXPECT_EQ(n_moved, on_error == ITER_ON_ERROR_REPLACE ? 10 : 0);
        iter_failure list[16];
        EXPECT_EQ(iter_loader_failures(loader, list, 16), 10);
        for (uint32_t i = 0; i < 10; i++)
            EXPECT_EQ(list[i].index, 10 * i + 1);
        EXPECT(strstr(list[0].message, "sample 1") != NULL);
    } else {
        EXPECT_EQ(n_bad, 13); /* after the second failure every batch fails */
    }
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

/* If no sample can replace the failed one, the error must say that it was tried. */
static void no_replacement(int32_t workers) {
    static const uint64_t bad[] = {1, 11, 21, 31};
    own_dataset own = {.n = 100, .fail_modulo = 10};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers);
    opt.faults.on_error = ITER_ON_ERROR_REPLACE;
    opt.sampler.subset = bad;
    opt.sampler.n_subset = 4;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_EFORMAT, &err,
                 "sample 1 is bad on purpose; replace gave up after 8 tries");
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static void variable(int32_t workers) {
    own_dataset own = {.n = 77, .variable = true};
    iter_dataset *data = own_open(&own, &own_ops);
    const iter_loader_options opt = options(workers);
    iter_error err;
    iter_loader *refused;
    EXPECT_ERROR(iter_dataloader_create(data, NULL, &opt, &refused, &err), ITER_EINVAL, &err,
                 "different lengths");
    iter_chain *chain = drive_chain("pad-batch:value=-1 | lengths:name=n");
    iter_loader *loader = drive_loader(data, chain, &opt);
    EXPECT_EQ(iter_loader_n_fields(loader), 3);
    EXPECT_STR(iter_loader_field(loader, 2)->name, "n");
    EXPECT_EQ(one_epoch(loader, true), 77);
    iter_batch *batch;
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(((const int32_t *)iter_batch_find(batch, "n")->data)[i], i % 5 + 1);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

static void streams(int32_t workers, uint64_t n, int32_t last_batch) {
    own_dataset own = {.n = ITER_UNKNOWN, .stream_n = n};
    iter_dataset *data = own_open(&own, &own_ops_stream);
    iter_loader_options opt = options(workers);
    opt.last_batch = last_batch;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    const uint64_t want = last_batch == ITER_LAST_DISCARD ? n / 8 * 8 : n;
    for (int e = 0; e < 3; e++)
        EXPECT_EQ(one_epoch(loader, false), want);
    iter_error err;
    iter_batch *batch;
    if (n >= 24) { /* resume after the second batch */
        uint8_t saved[512];
        size_t size;
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
            iter_batch_unref(batch);
        }
        EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
        iter_loader_unref(loader);
        loader = drive_loader(data, NULL, &opt);
        EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        EXPECT_EQ(((const int32_t *)iter_batch_tensor(batch, 0)->data)[0], 16);
        iter_batch_unref(batch);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
        EXPECT_EQ(one_epoch(loader, false), want);
    }
    iter_loader_unref(loader);
    opt.last_batch = ITER_LAST_PAD;
    EXPECT_ERROR(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL, &err,
                 "known number of samples");
    opt.last_batch = ITER_LAST_KEEP;
    opt.shuffle = ITER_SHUFFLE_FULL;
    EXPECT(iter_dataloader_create(data, NULL, &opt, &loader, &err) == ITER_EINVAL);
    iter_dataset_unref(data);
}

/* With the profiler on: while one worker records that it opened a batch, another already makes its
 * rows. */
static void profiled_stream(void) {
    iter_error err;
    const iter_profile_options nowhere = {.struct_size = sizeof(nowhere), .filename = ""};
    EXPECT_OK(iter_profile_start(&nowhere, &err), &err);
    streams(4, 32004, ITER_LAST_KEEP);
    iter_profile_clear();
}

static void stuck(void) {
    own_dataset own = {.n = 64};
    atomic_store(&own.block, true);
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(1);
    opt.faults.timeout_ms = 30;
    opt.faults.grace_ms = 30;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    EXPECT_ERROR(iter_loader_next(loader, &batch, &err), ITER_ETIMEDOUT, &err,
                 "get (own), sample 0");
    EXPECT_ERROR(iter_loader_stop(loader, &err), ITER_ETIMEDOUT, &err,
                 "worker 0 is still busy with sample 0 of own");
    iter_loader_unref(loader);
    EXPECT_EQ(own.n_stopped, 0);
    /* the thread that outlived the loader ends, and its memory is freed */
    atomic_store(&own.block, false);
    iter_dataset_unref(data);
    for (int i = 0; i < 5000 && !atomic_load(&own.n_closed); i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    EXPECT_EQ(own.n_stopped, 1);
    EXPECT_EQ(own.n_closed, 1);
}

static void calls_back(int32_t workers) {
    own_dataset own = {.n = 8};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers);
    opt.lookahead = ITER_LOOKAHEAD_EPOCH;
    atomic_store(&own.block, workers > 0);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    own.call_back = loader;
    atomic_store(&own.block, false);
    iter_error err;
    iter_batch *batch;
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    EXPECT_EQ(own.called_back, ITER_ESTATE);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static void forks(void) {
    own_dataset own = {.n = 64};
    iter_dataset *data = own_open(&own, &own_ops);
    const iter_loader_options opt = options(2);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    const pid_t child = fork();
    if (child == 0) {
        iter_batch *other;
        const bool right = iter_loader_next(loader, &other, &err) == ITER_ESTATE &&
                           strstr(err.message, "fork") &&
                           iter_loader_reset(loader, &err) == ITER_ESTATE;
        iter_batch_unref(batch);
        iter_loader_unref(loader);
        _exit(right ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

static void epochs(int32_t workers) {
    own_dataset own = {.n = 16};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(workers);
    opt.epochs = 2;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    EXPECT_EQ(one_epoch(loader, false), 16);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        iter_batch_unref(batch);
    }
    EXPECT_EQ(iter_loader_next(loader, &batch, &err), ITER_END);
    EXPECT_EQ(iter_loader_reset(loader, &err), ITER_END);
    EXPECT_EQ(iter_loader_next(loader, &batch, &err), ITER_END);
    EXPECT_OK(iter_loader_seek(loader, 1, 8, &err), &err);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    EXPECT_EQ(iter_batch_index(batch)[0], 8);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

int main(void) {
    for (int32_t workers = 1; workers <= 16; workers *= 2) {
        all_workers_are_busy(&own_ops, workers);
        all_workers_are_busy(&own_ops_parallel, workers);
        all_workers_are_busy(&own_ops_serial, workers);
    }
    states();
    for (int32_t workers = 0; workers <= 2; workers++) {
        for (int32_t policy = ITER_ON_ERROR_FAIL; policy <= ITER_ON_ERROR_BLANK; policy++)
            failures(policy, workers, 0);
        failures(ITER_ON_ERROR_FAIL, workers, 1);
        no_replacement(workers);
        variable(workers);
        for (uint64_t n = 0; n <= 40; n += 4)
            streams(workers, n, n % 8 ? ITER_LAST_KEEP : ITER_LAST_DISCARD);
        streams(workers, 27, ITER_LAST_DISCARD);
        calls_back(workers);
        epochs(workers);
    }
    profiled_stream();
    stuck();
    forks();
    return EXPECT_DONE();
}
