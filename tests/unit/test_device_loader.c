/*
 * test_device_loader.c - loaders with twins of their slots on the fake GPU. The device must have
 * what the host has. Slots are reused when streams have finished, and not before; both possible
 * bugs are planted and must be found. Addresses stay.
 */
#include <pthread.h>

#include "iter/runtime/loader_state.h"
#include "tests/support/device_case.h"
#include "tests/support/own_dataset.h"

TestSuite(device_loader, .timeout = 120);

/* ---- What is on the device ------------------------------------------------------------------- */

Test(device_loader, batches_are_those_of_the_host) {
    device_begin();
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    gpu.fake->delay(FAKE_CUDA_ALL, 50);
    for (int32_t last = ITER_LAST_KEEP; last <= ITER_LAST_ROLL_OVER; last++) {
        for (int32_t workers = 0; workers <= 2; workers++) {
            iter_loader_options opt = options(ITER_MEMORY_HOST);
            opt.last_batch = last;
            opt.workers = workers;
            opt.reading.source = sources[workers];
            iter_loader *loader = open_loader(&opt);
            const uint64_t host = sum_of(loader, false);
            iter_loader_unref(loader);
            opt.memory.kind = ITER_MEMORY_DEVICE;
            loader = open_loader(&opt);
            cr_expect_eq(sum_of(loader, true), host, "last_batch %d, %d workers", (int)last,
                         (int)workers);
            iter_loader_unref(loader);
        }
    }
    cr_expect_eq(gpu.fake->pageable_copies(), 0);
    device_end();
}

static iter_status halve(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err) {
    (void)err;
    if (n_fields != 2) return ITER_EINVAL;
    iter_tensor *tensor = &fields[0].tensor; /* the second half of the rows, backwards */
    const int64_t n = tensor->desc.dims[0];
    tensor->data = (int32_t *)tensor->data + (n - 1) * tensor->strides[0] + *(int *)user;
    tensor->desc.dims[0] = (n + 1) / 2;
    tensor->strides[0] = -tensor->strides[0];
    return ITER_OK;
}

/* Compares element by element, so that strides may be anything. */
static void expect_equal_elements(const iter_batch *batch, int32_t f) {
    const iter_tensor *host = iter_batch_tensor(batch, f),
                      *device = iter_batch_device_tensor(batch, f);
    const size_t bytes = iter_dtype_bytes(host->desc.dtype);
    cr_assert(memcmp(&host->desc, &device->desc, sizeof(host->desc)) == 0);
    int64_t n = 1, at[ITER_MAX_DIMS] = {0};
    for (int32_t d = 0; d < host->desc.n_dims; d++)
        n *= host->desc.dims[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = 0;
        for (int32_t d = 0; d < host->desc.n_dims; d++)
            offset += at[d] * host->strides[d];
        cr_assert(memcmp((char *)host->data + offset * (int64_t)bytes,
                         (char *)device->data + offset * (int64_t)bytes, bytes) == 0,
                  "field %d, element %d", (int)f, (int)i);
        for (int32_t d = host->desc.n_dims - 1; d >= 0 && ++at[d] == host->desc.dims[d]; d--)
            at[d] = 0;
    }
}

static void run_stages(const char *text, bool variable, int32_t workers,
                       iter_status (*collate)(void *, iter_batch_view *, int32_t, iter_error *),
                       int shift) {
    own_dataset own = {.n = 45, .variable = variable};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_chain *chain = text ? drive_chain(text) : NULL;
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.batch_size = 8;
    opt.workers = workers;
    opt.collate = collate;
    opt.collate_user = &shift;
    iter_loader *loader = drive_loader(data, chain, &opt);
    iter_error err;
    iter_batch *batch;
    iter_status s;
    int n = 0;
    for (; (s = iter_loader_next(loader, &batch, &err)) == ITER_OK; n++) {
        OK(iter_batch_synchronize(batch, &err));
        for (int32_t f = 0; iter_batch_tensor(batch, f); f++)
            expect_equal_elements(batch, f);
        cr_expect_null(iter_batch_device_tensor(batch, iter_loader_n_fields(loader)));
        cr_expect_null(iter_batch_device_tensor(batch, -1));
        iter_batch_unref(batch);
    }
    cr_expect_eq(s, ITER_END, "%s", s < 0 ? err.message : "");
    cr_expect_eq(n, 6);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

Test(device_loader, batch_stages_come_before_the_copy) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        run_stages("pad-batch | lengths", true, workers, NULL, 0);
        run_stages("pad-batch:multiple=4 | tnc | lengths", true, workers, NULL, 0);
        run_stages("to:f32", false, workers, NULL, 0);
        run_stages(NULL, false, workers, halve, 0);
    }
    device_end();
}

Test(device_loader, a_collate_keeps_tensors_in_the_batch) {
    device_begin();
    own_dataset own = {.n = 45};
    iter_dataset *data = own_open(&own, &own_ops);
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    int shift = 1 << 20;
    opt.collate = halve;
    opt.collate_user = &shift;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_error err;
    iter_batch *batch;
    FAILS(iter_loader_next(loader, &batch, &err), ITER_EINVAL, "'data' was moved out of its place");
    cr_expect(strstr(err.message, "batch 0 of epoch 0"), "%s", err.message);
    shift = 0;
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    device_end();
}

Test(device_loader, streams_ranks_and_reading_alone) {
    device_begin();
    own_dataset own = {.n = ITER_UNKNOWN, .stream_n = 37};
    iter_dataset *data = own_open(&own, &own_ops_stream);
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.shuffle = ITER_SHUFFLE_NONE;
    opt.batch_size = 8;
    iter_loader *loader = drive_loader(data, NULL, &opt);
    sum_of(loader, true);
    iter_loader_unref(loader);
    iter_dataset_unref(data);

    /* a rank without a share of the tail gets a batch without rows */
    opt = options(ITER_MEMORY_DEVICE);
    opt.batch_size = 37;
    opt.ranks = 4;
    loader = open_loader(&opt);
    iter_error err;
    iter_batch_unref(take(loader));
    iter_batch *batch = take(loader);
    cr_expect_eq(iter_batch_describe(batch).n_rows, 0);
    cr_expect_eq(iter_batch_device_tensor(batch, 0)->desc.dims[0], 0);
    OK(iter_batch_wait(batch, gpu.streams[0], &err));
    OK(iter_batch_synchronize(batch, &err));
    OK(iter_batch_release(batch, gpu.streams[0], &err));
    iter_batch_unref(batch);
    iter_loader_unref(loader);

    opt = options(ITER_MEMORY_DEVICE);
    opt.reading.only_reads = 1;
    opt.reading.source = ITER_SOURCE_RING;
    loader = open_loader(&opt);
    batch = take(loader);
    cr_expect_eq(iter_batch_device_tensor(batch, 0)->desc.dims[0], 16);
    cr_expect_eq(stats_of(loader).n_copies, 0);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    device_end();
}

/* ---- Addresses, statistics ------------------------------------------------------------------- */

Test(device_loader, addresses_are_a_function_of_the_slot) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.workers = 1;
    opt.prefetch = 3;
    iter_loader *loader = open_loader(&opt);
    const void *host[6] = {NULL}, *device[6] = {NULL};
    iter_error err;
    for (int i = 0; i < 60; i++) {
        iter_batch *batch;
        if (iter_loader_next(loader, &batch, &err) == ITER_END) {
            OK(iter_loader_reset(loader, &err));
            continue;
        }
        const uint32_t slot = iter_batch_slot(batch);
        cr_assert_lt(slot, 6);
        cr_expect_eq(slot, iter_batch_describe(batch).slot);
        const void *h = iter_batch_tensor(batch, 1)->data,
                   *d = iter_batch_device_tensor(batch, 1)->data;
        cr_expect(!host[slot] || (host[slot] == h && device[slot] == d), "slot %u moved", slot);
        host[slot] = h;
        device[slot] = d;
        cr_assert(gpu.fake->is_device((CUdeviceptr)(uintptr_t)d, 16));
        iter_batch_unref(batch);
        if (i == 20) OK(iter_loader_seek(loader, 3, 0, &err));
    }
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < a; b++)
            cr_expect(!device[a] || device[a] != device[b]);
    iter_loader_unref(loader);
    device_end();
}

Test(device_loader, statistics_and_memory) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.last_batch = ITER_LAST_DISCARD;
    iter_loader *loader = open_loader(&opt);
    for (int i = 0; i < 4; i++)
        iter_batch_unref(take(loader));
    const iter_loader_stats stats = stats_of(loader);
    cr_expect(strstr(stats.device, "sm_90, driver 13.0"), "%s", stats.device);
    cr_expect_eq(stats.pinned_bytes, stats.slot_bytes);
    cr_expect_eq(stats.device_bytes, stats.slot_bytes);
    cr_expect_eq(stats.n_copies, 4); /* both fields of a full batch are one copy */
    cr_expect_geq(stats.copied_bytes, 4 * 16 * 3073);
    cr_expect_leq(stats.copied_bytes, 4 * (16 * 3073 + 256));
    cr_expect_eq(stats.n_fallbacks, 0);
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_PINNED).now, (long long)stats.slot_bytes);
    cr_expect_eq(iter__alloc_held(ITER_ALLOC_DEVICE).now, (long long)stats.slot_bytes);
    cr_expect_eq(gpu.fake->live(FAKE_CUDA_PINNED), 1); /* one allocation for all slots */
    cr_expect_eq(gpu.fake->live(FAKE_CUDA_MEMORY), 1);
    iter_loader_unref(loader);
    device_end();
}

Test(device_loader, steady_state_makes_nothing) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    iter_loader *loader = open_loader(&opt);
    iter_error err;
    for (int i = 0; i < 3; i++)
        OK(gpu_train(&gpu, 0, take(loader), &err));
    static const char *const makes[] = {"cuMemAlloc", "cuMemHostRegister", "cuEventCreate",
                                        "cuStreamCreate", "cuMemHostAlloc"};
    long before[5];
    for (int i = 0; i < 5; i++)
        before[i] = gpu.fake->calls(makes[i]);
    const long allocations = iter__alloc_count();
    for (int i = 0; i < 6; i++)
        OK(gpu_train(&gpu, 0, take(loader), &err));
    cr_expect_eq(iter__alloc_count(), allocations);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(gpu.fake->calls(makes[i]), before[i], "%s", makes[i]);
    iter_loader_unref(loader);
    device_end();
    cr_expect_eq(atomic_load(&gpu.n_looked), 9);
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Trains a slow consumer over some epochs. `forgets` makes the loader forget what it knows of
 * streams after the consumer told it: the two bugs. Returns how many batches the consumer's kernels
 * found changed. */
enum { FORGETS_NOTHING, FORGETS_RELEASES, FORGETS_COPIES };

static long train(int32_t workers, int forgets, bool releases) {
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.workers = workers;
    opt.shuffle = ITER_SHUFFLE_NONE;
    iter_loader *loader = open_loader(&opt);
    iter_error err;
    atomic_store(&gpu.n_wrong, 0);
    for (int i = 0; i < 30; i++) {
        iter_batch *batch;
        if (iter_loader_next(loader, &batch, &err) == ITER_END) {
            OK(iter_loader_reset(loader, &err));
            continue;
        }
        const int stream = i % 2;
        OK(iter_batch_wait(batch, gpu.streams[stream], &err));
        gpu_look(&gpu, stream, batch);
        if (releases) OK(iter_batch_release(batch, gpu.streams[stream], &err));
        if (forgets == FORGETS_RELEASES) atomic_store(&batch->device.marked, 0);
        if (forgets == FORGETS_COPIES) {
            atomic_store(&batch->device.marked, 0);
            atomic_store(&batch->device.arrives, false);
        }
        iter_batch_unref(batch);
    }
    gpu.fake->wait_idle();
    iter_loader_unref(loader);
    return atomic_load(&gpu.n_wrong);
}

Test(device_loader, a_slot_waits_for_the_streams_that_read_it) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        gpu.fake->delay(gpu.streams[0], 3000);
        gpu.fake->delay(gpu.streams[1], 500);
        cr_expect_eq(train(workers, FORGETS_NOTHING, true), 0, "%d workers", (int)workers);
        gpu_reset(&gpu);
    }
    device_end();
}

Test(device_loader, a_slot_written_before_its_release_is_found) {
    device_begin();
    gpu.fake->delay(gpu.streams[0], 20000);
    gpu.fake->delay(gpu.streams[1], 20000);
    cr_expect_gt(train(1, FORGETS_RELEASES, true), 0, "planted in the loader");
    gpu_reset(&gpu);
    gpu.fake->delay(gpu.streams[0], 20000);
    gpu.fake->delay(gpu.streams[1], 20000);
    cr_expect_gt(train(1, FORGETS_NOTHING, false), 0, "the consumer's: no release");
    gpu_reset(&gpu);
    device_end();
}

Test(device_loader, a_slot_written_before_its_copy_is_found) {
    device_begin();
    gpu.fake->keep_going(true);
    gpu.fake->delay(FAKE_CUDA_ALL, 20000);
    train(1, FORGETS_COPIES, true);
    const char *violation = gpu.fake->violation();
    cr_assert_not_null(violation);
    cr_expect(strstr(violation, "changed"), "%s", violation);
    gpu_reset(&gpu);
    gpu.fake->keep_going(true);
    gpu.fake->delay(FAKE_CUDA_ALL, 20000);
    train(1, FORGETS_NOTHING, true);
    violation = gpu.fake->violation();
    cr_expect_null(violation, "%s", violation);
    gpu_reset(&gpu);
    device_end();
}

Test(device_loader, dropped_batches_are_copied_to_their_end) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        uint8_t saved[512];
        size_t size;
        OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err));
        for (int i = 0; i < 12; i++) {
            gpu.fake->delay(FAKE_CUDA_ALL, 2000);
            OK(gpu_train(&gpu, i % 2, take(loader), &err));
            if (i % 3 == 0) OK(iter_loader_seek(loader, (uint32_t)i, 0, &err));
            if (i % 3 == 1) OK(iter_loader_reset(loader, &err));
            if (i % 3 == 2) OK(iter_loader_restore(loader, saved, size, &err));
        }
        iter_loader_unref(loader);
    }
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    device_end();
}

Test(device_loader, captures_are_refused_and_not_broken) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.workers = 2;
    opt.batch_size = 8;
    iter_loader *loader = open_loader(&opt);
    iter_batch *batch = take(loader);
    iter_error err;
    CUgraph graph;
    CUcontext popped;
    cr_assert_eq(gpu.cuda.cuCtxPushCurrent(gpu.context), CUDA_SUCCESS);
    cr_assert_eq(gpu.cuda.cuStreamBeginCapture(gpu.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL),
                 CUDA_SUCCESS);
    FAILS(iter_batch_wait(batch, gpu.streams[0], &err), ITER_ESTATE, "captured");
    FAILS(iter_batch_release(batch, gpu.streams[0], &err), ITER_ESTATE, "captured");
    OK(iter_batch_wait(batch, gpu.streams[1], &err)); /* another stream, in the same thread */
    OK(iter_batch_synchronize(batch, &err));
    for (int i = 0; i < 6; i++) /* workers copy at the same time */
        iter_batch_unref(take(loader));
    cr_assert_eq(gpu.cuda.cuStreamEndCapture(gpu.streams[0], &graph), CUDA_SUCCESS);
    cr_assert_eq(gpu.cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    cr_assert_eq(gpu.cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    for (int i = 0; i < ITER_STREAMS_MAX; i++) /* the refused one took no slot */
        OK(iter_batch_release(batch, gpu.streams[i], &err));
    FAILS(iter_batch_release(batch, gpu.streams[8], &err), ITER_ESTATE, "8 streams");
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    device_end();
}

/* If the GPU is late, next() must wait, report for what, and then continue, in both ways. */
Test(device_loader, a_gpu_that_is_behind_holds_the_loader_back) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        opt.prefetch = 2;            /* five slots */
        opt.faults.timeout_ms = 400; /* a busy machine is slow */
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        iter_batch *batch;
        gpu.fake->hold(gpu.streams[0], true);
        for (int i = 0; i < 5; i++) /* all slots */
            OK(gpu_train(&gpu, 0, take(loader), &err));
        FAILS(iter_loader_next(loader, &batch, &err), ITER_ETIMEDOUT,
              "streams of the GPU still read");
        FAILS(iter_loader_next(loader, &batch, &err), ITER_ETIMEDOUT, "no slot is free");
        gpu.fake->hold(gpu.streams[0], false);
        for (int i = 0; i < 4; i++)
            OK(gpu_train(&gpu, 0, take(loader), &err));
        cr_expect_gt(stats_of(loader).device_wait_ns, 50000000);
        iter_loader_unref(loader);
    }
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    device_end();
}

/* One stream reads one batch for ever; the other slots must go on. */
Test(device_loader, one_slot_that_is_read_for_ever_holds_nobody_back) {
    device_begin();
    for (int32_t workers = 0; workers <= 3; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        opt.prefetch = opt.max_held = 1;
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        gpu.fake->hold(gpu.streams[0], true);
        OK(gpu_train(&gpu, 0, take(loader), &err));
        for (int i = 0; i < 60; i++) {
            iter_batch *batch;
            if (iter_loader_next(loader, &batch, &err) == ITER_END) {
                OK(iter_loader_reset(loader, &err));
                continue;
            }
            if (i % 2) OK(iter_batch_synchronize(batch, &err)); /* FREE at once, or RELEASED */
            iter_batch_unref(batch);
        }
        gpu.fake->hold(gpu.streams[0], false);
        iter_loader_unref(loader);
    }
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    device_end();
}

/* A cancel must wake a next() that waits for the GPU. With two workers, one of them sleeps in the
 * driver. */
static void *cancel_soon(void *loader) {
    usleep(30000);
    iter_loader_cancel(loader);
    return NULL;
}

Test(device_loader, cancel_while_a_gpu_is_behind) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        opt.prefetch = 2; /* five slots */
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        iter_batch *batch;
        gpu.fake->hold(gpu.streams[0], true);
        for (int i = 0; i < 5; i++)
            OK(gpu_train(&gpu, 0, take(loader), &err));
        pthread_t other;
        cr_assert_eq(pthread_create(&other, NULL, cancel_soon, loader), 0);
        cr_expect_eq(iter_loader_next(loader, &batch, &err), ITER_ECANCELED);
        pthread_join(other, NULL);
        gpu.fake->hold(gpu.streams[0], false);
        iter_loader_unref(loader);
    }
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    device_end();
}

static iter_loader *left[3]; /* a global pointer, so that no tool reports the leak */

Test(device_loader, stop_leaves_what_is_still_read) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        opt.faults.grace_ms = 50;
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        gpu.fake->hold(gpu.streams[0], true);
        for (int i = 0; i < 2; i++)
            OK(gpu_train(&gpu, 0, take(loader), &err));
        FAILS(iter_loader_stop(loader, &err), ITER_ETIMEDOUT, "still read");
        iter_loader_unref(left[workers] = loader); /* leaks on purpose */
        cr_expect_eq(gpu.fake->live(FAKE_CUDA_MEMORY), workers + 1);
        gpu.fake->hold(gpu.streams[0], false);
        gpu.fake->wait_idle();
    }
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    make_folder_gone(folder);
}

Test(device_loader, batches_outlive_the_loader) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.workers = 1;
    iter_loader *loader = open_loader(&opt);
    iter_batch *a = take(loader), *b = take(loader);
    iter_error err;
    gpu.fake->delay(gpu.streams[0], 5000);
    iter_loader_unref(loader);
    OK(gpu_train(&gpu, 0, a, &err));
    OK(iter_batch_synchronize(b, &err));
    cr_expect_eq(drive_hash_device(b), drive_hash(b));
    /* the last one waits for the stream, then everything is freed */
    OK(gpu_train(&gpu, 0, b, &err));
    cr_expect_eq(gpu.fake->live(FAKE_CUDA_MEMORY), 0);
    cr_expect_eq(atomic_load(&gpu.n_looked), 2);
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);
    device_end();
}
