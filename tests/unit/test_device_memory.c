/*
 * test_device_memory.c - page-locked slots, alone or with a current context; refusals with their
 * reason; after fork; DLPack. With the fake driver.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include <iter/dlpack.h>
#include <iter/profile.h>

#include "tests/support/device_case.h"

TestSuite(device_memory, .timeout = 120);

/* ---- Page-locked alone ----------------------------------------------------------------------- */

Test(device_memory, pinned_slots) {
    device_begin();
    for (int32_t workers = 0; workers <= 2; workers++) {
        iter_loader_options opt = options(ITER_MEMORY_HOST);
        opt.workers = workers;
        iter_loader *loader = open_loader(&opt);
        const uint64_t host = sum_of(loader, false);
        iter_loader_unref(loader);
        opt.memory.kind = ITER_MEMORY_PINNED;
        loader = open_loader(&opt);
        cr_expect_eq(sum_of(loader, false), host);
        const iter_loader_stats stats = stats_of(loader);
        cr_expect_eq(stats.pinned_bytes, stats.slot_bytes);
        cr_expect_eq(stats.device_bytes, 0);
        cr_expect_eq(stats.n_copies, 0);
        iter_error err;
        iter_batch *batch = take(loader);
        FAILS(iter_batch_wait(batch, gpu.streams[0], &err), ITER_ESTATE, "host memory");
        FAILS(iter_batch_synchronize(batch, &err), ITER_ESTATE, "host memory");
        cr_expect_null(iter_batch_device_tensor(batch, 0));
        OK(iter_batch_release(batch, gpu.streams[0], &err));
        iter_batch_unref(batch);
        iter_loader_unref(loader);
    }
    device_end();
}

/* A consumer that copies by itself, slowly: slots must wait for its stream. */
Test(device_memory, pinned_slots_wait_for_copies_of_the_callers) {
    device_begin();
    CUdeviceptr target;
    CUcontext popped;
    cr_assert_eq(gpu.cuda.cuCtxPushCurrent(gpu.context), CUDA_SUCCESS);
    cr_assert_eq(gpu.cuda.cuMemAlloc(&target, 16 * 3072), CUDA_SUCCESS);
    for (int32_t workers = 0; workers <= 2; workers++) {
        gpu.fake->delay(gpu.streams[0], 2000);
        iter_loader_options opt = options(ITER_MEMORY_PINNED);
        opt.workers = workers;
        opt.epochs = 2;
        opt.last_batch = ITER_LAST_DISCARD;
        iter_loader *loader = open_loader(&opt);
        iter_error err;
        iter_batch *batch;
        while (iter_loader_next(loader, &batch, &err) == ITER_OK) {
            cr_assert_eq(gpu.cuda.cuMemcpyHtoDAsync(target, iter_batch_tensor(batch, 0)->data,
                                                    16 * 3072, gpu.streams[0]),
                         CUDA_SUCCESS);
            OK(iter_batch_release(batch, gpu.streams[0], &err));
            iter_batch_unref(batch);
        }
        iter_loader_unref(loader);
    }
    cr_expect_eq(gpu.fake->pageable_copies(), 0);
    cr_assert_eq(gpu.cuda.cuMemFree(target), CUDA_SUCCESS);
    cr_assert_eq(gpu.cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    device_end();
}

Test(device_memory, auto_is_pinned_where_a_context_is_current) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_AUTO);
    const long calls = gpu.fake->calls(NULL);
    iter_loader *loader = open_loader(&opt);
    cr_expect_eq(stats_of(loader).pinned_bytes, 0);
    cr_expect_str_empty(stats_of(loader).device);
    iter_error err;
    iter_batch *batch = take(loader);
    FAILS(iter_batch_release(batch, gpu.streams[0], &err), ITER_ESTATE, "neither page-locked");
    FAILS(iter_batch_wait(batch, gpu.streams[0], &err), ITER_ESTATE, "host memory");
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    cr_expect_leq(gpu.fake->calls(NULL), calls + 1); /* one call asked for the current context */

    CUcontext popped;
    cr_assert_eq(gpu.cuda.cuCtxPushCurrent(gpu.context), CUDA_SUCCESS);
    loader = open_loader(&opt);
    cr_expect_gt(stats_of(loader).pinned_bytes, 0);
    batch = take(loader);
    OK(iter_batch_release(batch, gpu.streams[0], &err));
    struct DLManagedTensorVersioned *managed;
    OK(iter_batch_to_dlpack(batch, 0, &managed, &err));
    cr_expect_eq(((iter_dlpack *)(void *)managed)->tensor.device_type, ITER_DLPACK_CPU);
    ((iter_dlpack *)(void *)managed)->deleter(managed);
    iter_batch_unref(batch);
    iter_loader_unref(loader);

    static const char *const refused[] = {"cuMemHostRegister", "cuEventCreate", "cuStreamCreate"};
    for (int i = 0; i < 3; i++) {
        gpu.fake->fail(refused[i], 0, CUDA_ERROR_OPERATING_SYSTEM);
        loader = open_loader(&opt);
        const iter_loader_stats stats = stats_of(loader);
        cr_expect_eq(stats.pinned_bytes, 0);
        cr_assert_eq(stats.n_fallbacks, 1);
        cr_expect(strstr(stats.fallbacks[0], refused[i]), "%s", stats.fallbacks[0]);
        cr_expect(strstr(stats.fallbacks[0], "not page-locked"), "%s", stats.fallbacks[0]);
        iter_batch_unref(take(loader));
        iter_loader_unref(loader);
    }
    cr_assert_eq(gpu.cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    device_end();
}

/* ---- The profiler ---------------------------------------------------------------------------- */

typedef struct seen {
    int n_waits;
    int64_t pinned, device;
} seen;

static void look_at(void *user, const iter_profile_event *event) {
    seen *s = user;
    if (strcmp(event->name, "wait-device") == 0 && event->duration_ns > 1000000) s->n_waits++;
    if (strcmp(event->category, "memory") != 0) return;
    if (strcmp(event->name, "pinned") == 0 && event->value > s->pinned) s->pinned = event->value;
    if (strcmp(event->name, "device") == 0 && event->value > s->device) s->device = event->value;
}

/* Lets the consumer's stream go on when the loader has asked for its events so often that it must
 * be waiting for them. */
static void *go_on_later(void *user) {
    const struct timespec pause = {.tv_nsec = 1000000};
    const long before = *(const long *)user;
    while (gpu.fake->calls("cuEventQuery") < before + 400)
        nanosleep(&pause, NULL);
    gpu.fake->hold(gpu.streams[0], false);
    return NULL;
}

Test(device_memory, the_profiler_shows_waits_and_memory) {
    device_begin();
    iter_profile_options profile = ITER_PROFILE_OPTIONS_INIT;
    iter_error err;
    profile.filename = "";
    for (int32_t workers = 0; workers <= 1; workers++) {
        OK(iter_profile_start(&profile, &err));
        iter_loader_options opt = options(ITER_MEMORY_DEVICE);
        opt.workers = workers;
        iter_loader *loader = open_loader(&opt);
        gpu.fake->hold(gpu.streams[0], true);
        long before = gpu.fake->calls("cuEventQuery");
        pthread_t later;
        cr_assert_eq(pthread_create(&later, NULL, go_on_later, &before), 0);
        for (int i = 0; i < 9; i++)
            OK(gpu_train(&gpu, 0, take(loader), &err));
        pthread_join(later, NULL);
        seen s = {.n_waits = 0};
        OK(iter_profile_each(look_at, &s, &err));
        cr_expect_gt(s.n_waits, 0, "%d workers", (int)workers);
        cr_expect_eq(s.pinned, (int64_t)stats_of(loader).pinned_bytes);
        cr_expect_eq(s.device, (int64_t)stats_of(loader).device_bytes);
        iter_loader_unref(loader);
        OK(iter_profile_stop(&err));
        iter_profile_clear();
    }
    device_end();
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(const iter_loader_options *opt, iter_status want, const char *part) {
    iter_dataset *data = drive_open(folder);
    iter_error err;
    iter_loader *loader;
    FAILS(iter_dataloader_create(data, NULL, opt, &loader, &err), want, part);
    cr_expect_null(loader);
    iter_dataset_unref(data);
}

Test(device_memory, refusals_say_why) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    opt.memory.device = ITER_DEVICE(3);
    refuse(&opt, ITER_EUNSUPPORTED, "memory: device: there is no GPU 3");
    opt.memory.device = -1;
    refuse(&opt, ITER_EINVAL, "device is -1");
    opt = options(ITER_MEMORY_HOST);
    opt.memory.finish = ITER_FINISH_DEVICE;
    refuse(&opt, ITER_EINVAL, "finish needs memory");
    opt = options(ITER_MEMORY_PINNED);
    opt.memory.resident = ITER_RESIDENT_YES;
    refuse(&opt, ITER_EINVAL, "resident needs memory");

    const fake_cuda_machine usual = gpu.fake->machine();
    fake_cuda_machine small = usual;
    small.memory_bytes = 1 << 16;
    small.pinned_bytes = 1 << 16;
    gpu.fake->set_machine(&small);
    opt = options(ITER_MEMORY_PINNED);
    refuse(&opt, ITER_ENOMEM, "5 slots of");
    refuse(&opt, ITER_ENOMEM, "lower batch_size");
    opt = options(ITER_MEMORY_DEVICE);
    refuse(&opt, ITER_ENOMEM, "5 slots of");
    refuse(&opt, ITER_ENOMEM, "lower batch_size");
    /* page-locking fails alone: copies are slower, and the loader reports it */
    small.memory_bytes = usual.memory_bytes;
    gpu.fake->set_machine(&small);
    iter_loader *loader = open_loader(&opt);
    const iter_loader_stats stats = stats_of(loader);
    cr_expect_eq(stats.pinned_bytes, 0);
    cr_assert_eq(stats.n_fallbacks, 1);
    cr_expect(strstr(stats.fallbacks[0], "slots are not page-locked"), "%s", stats.fallbacks[0]);
    sum_of(loader, true);
    cr_expect_gt(gpu.fake->pageable_copies(), 0);
    iter_loader_unref(loader);
    gpu.fake->set_machine(&usual);
    device_end();
}

Test(device_memory, a_child_of_fork_has_no_batches) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    iter_loader *loader = open_loader(&opt);
    iter_batch *batch = take(loader);
    const pid_t child = fork();
    if (child == 0) {
        iter_error err;
        const bool right = iter_batch_wait(batch, NULL, &err) == ITER_ESTATE &&
                           iter_batch_release(batch, NULL, &err) == ITER_ESTATE &&
                           iter_batch_synchronize(batch, &err) == ITER_ESTATE &&
                           strstr(err.message, "fork");
        iter_batch_unref(batch);
        iter_loader_unref(loader);
        _exit(right ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    device_end();
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

Test(device_memory, dlpack) {
    device_begin();
    iter_loader_options opt = options(ITER_MEMORY_DEVICE);
    iter_loader *loader = open_loader(&opt);
    iter_batch *batch = take(loader);
    iter_error err;
    struct DLManagedTensorVersioned *managed;
    OK(iter_batch_to_dlpack(batch, 0, &managed, &err));
    const iter_dlpack *m = (const iter_dlpack *)(const void *)managed;
    const iter_tensor *device = iter_batch_device_tensor(batch, 0);
    cr_expect_eq(m->tensor.device_type, 2);
    cr_expect_eq(m->tensor.device_id, 0);
    cr_expect_eq(m->tensor.data, device->data);
    cr_expect_eq(m->tensor.n_dims, 4);
    cr_expect_eq(m->tensor.shape[0], 16);
    iter_tensor back;
    FAILS(iter_tensor_from_dlpack(managed, &back, &err), ITER_EUNSUPPORTED, "device type 2");
    OK(iter_batch_wait(batch, gpu.streams[0], &err)); /* as the header prescribes */
    gpu_look(&gpu, 0, batch);
    OK(iter_batch_release(batch, gpu.streams[0], &err));
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    m->deleter(managed);
    cr_expect_eq(atomic_load(&gpu.n_wrong), 0);

    opt = options(ITER_MEMORY_PINNED);
    loader = open_loader(&opt);
    batch = take(loader);
    OK(iter_batch_to_dlpack(batch, 1, &managed, &err));
    m = (const iter_dlpack *)(const void *)managed;
    cr_expect_eq(m->tensor.device_type, 3);
    OK(iter_tensor_from_dlpack(managed, &back, &err));
    cr_expect_eq(back.data, iter_batch_tensor(batch, 1)->data);
    m->deleter(managed);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    device_end();
}
