/*
 * test_device_driver.c - the device over the fake driver: opening and its refusals, contexts,
 * memory, order, capture, failures of every call, of every operation and of every allocation; and
 * that the fake finds the bugs that it is there to find.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/device/cuda_driver.h"
#include "iter/device/device.h"
#include "tests/fake/fake_cuda.h"

TestSuite(device_driver, .timeout = 60);

#define BYTES ((size_t)3 << 19) /* 1.5 MiB */

static const fake_cuda *fake;
static iter_error err;

/* Gets the fake's table and resets it. If there is no fake driver, skips the test. */
static void start(void) {
    fake = fake_cuda_get();
    if (fake == NULL) cr_skip_test("the fake driver is not in LD_LIBRARY_PATH");
    fake->reset();
}

static void expect_nothing_left(const char *when) {
    static const char *const names[FAKE_CUDA_KINDS] = {"memory",   "pinned",   "streams",
                                                       "events",   "modules",  "graphs",
                                                       "captures", "retained", "pushed"};
    for (int kind = 0; kind < FAKE_CUDA_KINDS; kind++)
        cr_expect_eq(fake->live((fake_cuda_kind)kind), 0, "%s: %ld of %s are left", when,
                     fake->live((fake_cuda_kind)kind), names[kind]);
}

static void expect_message(const char *part) {
    cr_expect(strstr(err.message, part) != NULL, "no \"%s\" in \"%s\"", part, err.message);
}

static iter__device *open_device(int32_t number) {
    iter__device *device = NULL;
    cr_assert_eq(iter__device_open(number, &device, &err), ITER_OK, "%s", err.message);
    return device;
}

/* A program that uses CUDA: a driver, and the primary context of device 0, pushed. */
static iter__cuda_driver cuda;
static CUcontext primary;

static void start_program(void) {
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(cuda.cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    cr_assert_eq(cuda.cuCtxPushCurrent(primary), CUDA_SUCCESS);
}

static void stop_program(void) {
    CUcontext popped;
    cr_expect_eq(cuda.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    cr_expect_eq(popped, primary);
    cr_expect_eq(cuda.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    iter__cuda_close(&cuda);
}

/* ---- Opening --------------------------------------------------------------------------------- */

Test(device_driver, an_old_driver_is_refused_with_both_versions) {
    start();
    fake_cuda_machine machine = fake->machine();
    machine.version = 11040;
    fake->set_machine(&machine);
    iter__device *device = (iter__device *)&machine;
    cr_expect_eq(iter__device_open(0, &device, &err), ITER_EUNSUPPORTED);
    cr_expect_null(device);
    expect_message("11.4");
    expect_message("12.0");
    expect_nothing_left("old");
}

Test(device_driver, no_device_and_no_such_device) {
    start();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = 0;
    fake->set_machine(&machine);
    iter__device *device;
    cr_expect_eq(iter__device_open(0, &device, &err), ITER_EUNSUPPORTED);
    expect_message("sees no GPU");
    machine.n_devices = 2;
    fake->set_machine(&machine);
    cr_expect_eq(iter__device_open(ITER_DEVICE(2), &device, &err), ITER_EUNSUPPORTED);
    expect_message("no GPU 2: the driver sees 2");
    cr_expect_null(device);
    cr_expect_eq(iter__device_open(-1, &device, &err), ITER_EINVAL);
    cr_expect_eq(iter__device_open(-1, &device, NULL), ITER_EINVAL);
    expect_nothing_left("no device");
}

Test(device_driver, drivers_that_do_not_start) {
    static const struct {
        const char *function;
        CUresult result;
        iter_status status;
        const char *message;
    } cases[] = {
        {"cuDriverGetVersion", CUDA_ERROR_STUB_LIBRARY, ITER_EUNSUPPORTED, "stub"},
        {"cuInit", CUDA_ERROR_NO_DEVICE, ITER_EUNSUPPORTED, "no GPU"},
        {"cuInit", CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ITER_EUNSUPPORTED, "SYSTEM_DRIVER_MISMATCH"},
        {"cuInit", CUDA_ERROR_UNKNOWN, ITER_EDEVICE, "CUDA_ERROR_UNKNOWN"},
        {"cuInit", 12345, ITER_EDEVICE, "12345"},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iter__device *device;
        fake->fail(cases[i].function, 0, cases[i].result);
        cr_expect_eq(iter__device_open(0, &device, &err), cases[i].status, "case %zu", i);
        expect_message(cases[i].message);
    }
    expect_nothing_left("not started");
}

Test(device_driver, calls_are_found_by_name_where_the_driver_cannot_say) {
    start();
    for (int i = 0; i < 8; i++)
        fake->fail("cuGetProcAddress", 7 * i, CUDA_ERROR_NOT_FOUND);
    iter__device *device = open_device(0);
    cr_expect(fake->calls("cuGetProcAddress") > 50);
    iter__device_close(device);
    expect_nothing_left("by name");
}

Test(device_driver, says_what_it_is) {
    start();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = 3;
    machine.version = 12080;
    machine.capability = 86;
    fake->set_machine(&machine);
    iter__device *device = open_device(ITER_DEVICE(2));
    cr_expect_str_eq(iter__device_text(device), "Fake GPU, sm_86, driver 12.8");
    cr_expect_eq(iter__device_ordinal(device), 2);
    iter__device_close(device);
    iter__device_close(NULL);
    expect_nothing_left("text");
}

/* ---- Contexts -------------------------------------------------------------------------------- */

Test(device_driver, the_primary_context_is_kept_as_long_as_the_device) {
    start();
    start_program();
    iter__device *device = open_device(0);
    iter__device_address memory;
    CUcontext current;
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 2);
    stop_program(); /* the program drops its context, the device keeps its own */
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 1);
    cr_expect_eq(iter__device_alloc(device, 100, &memory, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(memory % 256, 0);
    iter__device_free(device, memory);
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK);
    cr_expect_eq(cuda.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    cr_expect_null(current, "the thread is left as it was");
    iter__cuda_close(&cuda);
    iter__device_close(device);
    expect_nothing_left("primary");
}

Test(device_driver, a_current_context_is_taken_and_stays_current) {
    start();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = 2;
    fake->set_machine(&machine);
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK);
    CUcontext own = fake->context_new(1), current = NULL;
    cr_assert_eq(cuda.cuCtxPushCurrent(own), CUDA_SUCCESS);

    iter__device *device = open_device(0);
    cr_expect_eq(iter__device_ordinal(device), 1);
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 0, "a context of the program's is no primary one");
    iter__device *other = open_device(ITER_DEVICE(0)); /* by number: the primary one */
    cr_expect_eq(iter__device_ordinal(other), 0);
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 1);
    iter__device *same = open_device(ITER_DEVICE(1));
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 2);
    /* its primary context is alive, too, but not the current one */
    iter__device *again = open_device(0);
    cr_expect_eq(fake->live(FAKE_CUDA_RETAINED), 2);
    iter__device_close(again);
    iter__device_close(same);
    iter__device_close(other);
    iter__device_close(device);

    cr_expect_eq(cuda.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    cr_expect_eq(current, own);
    cr_expect_eq(cuda.cuCtxPopCurrent(&current), CUDA_SUCCESS);
    iter__cuda_close(&cuda);
    expect_nothing_left("current");
}

Test(device_driver, a_context_that_is_destroyed_is_an_error) {
    start();
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK);
    CUcontext own = fake->context_new(0), current = NULL;
    cr_assert_eq(cuda.cuCtxPushCurrent(own), CUDA_SUCCESS);
    iter__device *device = open_device(0);
    iter__device_event *event;
    cr_expect_eq(cuda.cuCtxPopCurrent(&current), CUDA_SUCCESS);
    fake->context_destroy(own);
    cr_expect_eq(iter__device_event_new(device, &event, &err), ITER_EDEVICE);
    cr_expect_null(event);
    expect_message("cuCtxPushCurrent");
    iter__device_close(device);
    iter__cuda_close(&cuda);
    cr_expect_eq(fake->live(FAKE_CUDA_PUSHED), 0);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

Test(device_driver, memory_that_is_not_there_is_refused_with_numbers) {
    start();
    fake_cuda_machine machine = fake->machine();
    machine.memory_bytes = (size_t)1 << 20;
    machine.pinned_bytes = (size_t)1 << 20;
    fake->set_machine(&machine);
    iter__device *device = open_device(0);
    iter__device_address memory = 1, small;
    void *host = iter__map(BYTES);
    cr_assert(host);

    cr_expect_eq(iter__device_alloc(device, (size_t)1 << 19, &small, &err), ITER_OK);
    cr_expect_eq(iter__device_alloc(device, BYTES, &memory, &err), ITER_ENOMEM);
    cr_expect_eq(memory, 0);
    expect_message("1.5 MiB");
    expect_message("0.5 of 1.0 MiB are free");
    expect_message("lower batch_size");
    iter__device_free(device, small);
    iter__device_free(device, 0);

    cr_expect_eq(iter__device_pin(device, host, BYTES, &err), ITER_ENOMEM);
    expect_message("1.5 MiB");
    expect_message("lower batch_size");
    cr_expect_eq(iter__device_pin(device, host, 4096, &err), ITER_OK);
    cr_expect_eq(iter__device_pin(device, host, 8192, &err), ITER_EDEVICE);
    expect_message("ALREADY_REGISTERED");
    cr_expect_eq(fake->live(FAKE_CUDA_PINNED), 1);
    iter__device_unpin(device, host);
    iter__device_unpin(device, NULL);
    iter__unmap(host, BYTES);
    iter__device_close(device);
    expect_nothing_left("memory");
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* A consumer's kernel: reads the first byte, late. */
typedef struct reading {
    const volatile unsigned char *from;
    int *seen;
} reading;

static void read_byte(void *state) {
    const reading *r = state;
    *r->seen = *r->from;
}

/* A device with one slot: pinned memory, its twin, one event per side. */
typedef struct slot {
    iter__device *device;
    unsigned char *host;
    iter__device_address twin;
    iter__device_event *arrived, *done;
} slot;

static slot open_slot(void) {
    slot s = {.device = open_device(0), .host = iter__map(BYTES)};
    cr_assert(s.host);
    cr_assert_eq(iter__device_pin(s.device, s.host, BYTES, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter__device_alloc(s.device, BYTES, &s.twin, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter__device_event_new(s.device, &s.arrived, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter__device_event_new(s.device, &s.done, &err), ITER_OK, "%s", err.message);
    return s;
}

static void close_slot(slot *s) {
    iter__device_event_free(s->device, s->done);
    iter__device_event_free(s->device, s->arrived);
    iter__device_event_free(s->device, NULL);
    iter__device_unpin(s->device, s->host);
    iter__device_free(s->device, s->twin);
    iter__device_close(s->device);
    iter__unmap(s->host, BYTES);
}

static void fill_and_copy(slot *s, int value) {
    memset(s->host, value, BYTES);
    cr_assert_eq(iter__device_copy(s->device, s->twin, s->host, BYTES, &err), ITER_OK, "%s",
                 err.message);
    cr_assert_eq(iter__device_mark(s->device, s->arrived, &err), ITER_OK, "%s", err.message);
}

Test(device_driver, a_copy_is_asynchronous_and_an_event_says_when_it_is_done) {
    start();
    slot s = open_slot();
    cr_expect_eq(iter__device_query(s.device, s.arrived, &err), ITER_OK, "never marked");
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK, "never marked");
    fake->hold(FAKE_CUDA_ALL, true);
    fill_and_copy(&s, 7);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(iter__device_query(s.device, s.arrived, &err), ITER_PENDING);
    fake->hold(FAKE_CUDA_ALL, false);
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK);
    cr_expect_eq(iter__device_query(s.device, s.arrived, &err), ITER_OK);
    cr_expect_eq(memcmp((const void *)(uintptr_t)s.twin, s.host, BYTES), 0);
    cr_expect_eq(fake->pageable_copies(), 0);
    cr_expect_eq(fake->copied_bytes(), BYTES);
    cr_expect_eq(iter__device_copy(s.device, s.twin, s.host, 0, &err), ITER_OK, "nothing to copy");
    close_slot(&s);
    expect_nothing_left("asynchronous");
}

Test(device_driver, what_is_taken_back_is_waited_for) {
    start();
    slot s = open_slot();
    for (int round = 0; round < 2; round++) {
        fake->delay(FAKE_CUDA_ALL, 20000);
        fill_and_copy(&s, round); /* a violation, if the copy ran later */
        if (round == 0) {
            iter__device_free(s.device, s.twin);
            cr_expect_eq(iter__device_alloc(s.device, BYTES, &s.twin, &err), ITER_OK);
        } else {
            iter__device_unpin(s.device, s.host);
            cr_expect_eq(iter__device_pin(s.device, s.host, BYTES, &err), ITER_OK);
        }
        cr_expect_eq(iter__device_query(s.device, s.arrived, &err), ITER_OK);
    }
    fill_and_copy(&s, 2);
    iter__device_event_free(s.device, s.arrived);
    iter__device_event_free(s.device, s.done);
    iter__device_close(s.device); /* waits, too */
    cr_expect_eq(((const unsigned char *)(uintptr_t)s.twin)[BYTES - 1], 2);
    iter__unmap(s.host, BYTES);
}

/* In both directions: the consumer's stream waits for the copy, the next copy for the consumer. */
static void pass_through(bool to_default) {
    start_program();
    slot s = open_slot();
    CUstream stream = NULL;
    int seen = -1;
    if (!to_default)
        cr_assert_eq(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int round = 1; round <= 5; round++) {
        fake->delay(FAKE_CUDA_ALL, round % 2 ? 3000 : 0); /* the copy is late ... */
        fill_and_copy(&s, round);
        cr_expect_eq(iter__device_wait(s.device, s.arrived, stream, &err), ITER_OK, "%s",
                     err.message);
        fake->delay(stream, 3000); /* ... and so is the consumer */
        const reading state = {(const unsigned char *)(uintptr_t)s.twin + BYTES - 1, &seen};
        cr_assert_eq(fake->launch(stream, read_byte, &state, sizeof state), CUDA_SUCCESS);
        cr_expect_eq(iter__device_mark_on(s.device, s.done, stream, &err), ITER_OK);
        cr_expect_eq(iter__device_query(s.device, s.done, &err), ITER_PENDING);
        cr_expect_eq(iter__device_sync(s.device, s.done, &err), ITER_OK);
        cr_expect_eq(seen, round);
    }
    if (stream) cuda.cuStreamDestroy(stream);
    close_slot(&s);
    stop_program();
    expect_nothing_left("through");
}

Test(device_driver, streams_wait_for_copies_and_slots_for_streams) {
    start();
    pass_through(false);
    fake->reset();
    pass_through(true);
}

Test(device_driver, a_stream_of_another_context_is_named) {
    start();
    slot s = open_slot();
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK);
    CUcontext own = fake->context_new(0);
    CUstream stream;
    cr_assert_eq(cuda.cuCtxPushCurrent(own), CUDA_SUCCESS);
    cr_assert_eq(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    cr_expect_eq(iter__device_mark_on(s.device, s.done, stream, &err), ITER_EDEVICE);
    expect_message("cuEventRecord");
    expect_message("another context");
    cr_expect_eq(iter__device_wait(s.device, s.arrived, stream, &err), ITER_OK);
    cuda.cuStreamDestroy(stream);
    cuda.cuCtxPopCurrent(&own);
    iter__cuda_close(&cuda);
    close_slot(&s);
    expect_nothing_left("another");
}

/* ---- Capture --------------------------------------------------------------------------------- */

/* Everything that a loader does, in a thread that captures. */
static void use_while_captured(slot *s) {
    iter__device_event *event;
    iter__device_address memory;
    void *host = iter__map(4096);
    cr_assert(host);
    cr_expect_eq(iter__device_pin(s->device, host, 4096, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(iter__device_alloc(s->device, 4096, &memory, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(iter__device_event_new(s->device, &event, &err), ITER_OK, "%s", err.message);
    fill_and_copy(s, 9);
    cr_expect_eq(iter__device_sync(s->device, s->arrived, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(iter__device_query(s->device, s->arrived, &err), ITER_OK, "%s", err.message);
    iter__device *second = open_device(0);
    iter__device_close(second);
    iter__device_event_free(s->device, event);
    iter__device_free(s->device, memory);
    iter__device_unpin(s->device, host);
    iter__unmap(host, 4096);
}

Test(device_driver, a_capture_goes_on_beside_us_in_every_mode) {
    start();
    start_program();
    slot s = open_slot();
    CUstream stream;
    cr_assert_eq(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (CUstreamCaptureMode mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        CUgraph graph;
        CUstreamCaptureStatus status;
        CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_RELAXED;
        cr_assert_eq(cuda.cuStreamBeginCapture(stream, mode), CUDA_SUCCESS);
        use_while_captured(&s);
        cr_expect_eq(cuda.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
        cr_expect_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "mode %u", mode);
        cr_expect_eq(cuda.cuThreadExchangeStreamCaptureMode(&own), CUDA_SUCCESS);
        cr_expect_eq(own, CU_STREAM_CAPTURE_MODE_GLOBAL, "the thread's mode is put back");
        cuda.cuThreadExchangeStreamCaptureMode(&own);

        cr_expect_eq(iter__device_wait(s.device, s.arrived, stream, &err), ITER_ESTATE);
        expect_message("captured");
        cr_expect_eq(iter__device_mark_on(s.device, s.done, stream, &err), ITER_ESTATE);
        cr_expect_eq(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS, "mode %u", mode);
        cr_expect_eq(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
        cr_expect_eq(iter__device_wait(s.device, s.arrived, stream, &err), ITER_OK);
    }
    cuda.cuStreamDestroy(stream);
    close_slot(&s);
    stop_program();
    expect_nothing_left("capture");
}

Test(device_driver, the_default_stream_is_refused_while_a_blocking_one_is_captured) {
    start();
    start_program();
    slot s = open_slot();
    CUstream stream;
    CUgraph graph;
    cr_assert_eq(cuda.cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    cr_assert_eq(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    cr_expect_eq(iter__device_wait(s.device, s.arrived, NULL, &err), ITER_ESTATE);
    cr_expect_eq(iter__device_mark_on(s.device, s.done, NULL, &err), ITER_ESTATE);
    cr_expect_eq(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    cuda.cuGraphDestroy(graph);
    cuda.cuStreamDestroy(stream);
    close_slot(&s);
    stop_program();
    expect_nothing_left("default");
}

/* ---- Failures -------------------------------------------------------------------------------- */

Test(device_driver, an_error_that_is_not_forgotten_is_answered_by_everything) {
    start();
    slot s = open_slot();
    iter__device_event *event;
    iter__device_address memory;
    fake->fail_late(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    fake->hold(FAKE_CUDA_ALL, true); /* so that mark() does not see it yet */
    fill_and_copy(&s, 1);
    fake->hold(FAKE_CUDA_ALL, false);
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_EDEVICE);
    expect_message("cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
    iter_error first = err;
    const long calls = fake->calls(NULL);
    cr_expect_eq(iter__device_query(s.device, s.arrived, &err), ITER_EDEVICE);
    cr_expect_str_eq(err.message, first.message);
    cr_expect_eq(iter__device_copy(s.device, s.twin, s.host, 1, &err), ITER_EDEVICE);
    cr_expect_str_eq(err.message, first.message);
    cr_expect_eq(iter__device_wait(s.device, s.arrived, NULL, NULL), ITER_EDEVICE);
    cr_expect_eq(iter__device_alloc(s.device, 1, &memory, &err), ITER_EDEVICE);
    cr_expect_eq(iter__device_event_new(s.device, &event, &err), ITER_EDEVICE);
    cr_expect_eq(fake->calls(NULL), calls, "the driver is not asked again");
    close_slot(&s);
    expect_nothing_left("late");
}

static iter_status use(iter__device *device, void *host, iter__device_address *twin,
                       iter__device_event **event) {
    ITER_TRY(iter__device_pin(device, host, BYTES, &err));
    ITER_TRY(iter__device_alloc(device, BYTES, twin, &err));
    ITER_TRY(iter__device_event_new(device, event, &err));
    for (int i = 0; i < 2; i++) {
        memset(host, i, BYTES);
        ITER_TRY(iter__device_copy(device, *twin, host, BYTES, &err));
        ITER_TRY(iter__device_mark(device, *event, &err));
        ITER_TRY(iter__device_wait(device, *event, NULL, &err));
        ITER_TRY(iter__device_query(device, *event, &err)); /* only once: calls are counted */
        ITER_TRY(iter__device_mark_on(device, *event, NULL, &err));
        ITER_TRY(iter__device_sync(device, *event, &err));
    }
    if (memcmp((const void *)(uintptr_t)*twin, host, BYTES) != 0) return ITER_EFORMAT;
    return ITER_OK;
}

/* A whole life of a device; *used = it got as far as the teardown. The caller must check what is
 * left. */
static iter_status live(bool *used) {
    iter__device *device;
    iter__device_address twin = 0;
    iter__device_event *event = NULL;
    void *host = iter__map(BYTES);
    *used = false;
    if (host == NULL) return ITER_ENOMEM;
    iter_status status = iter__device_open(0, &device, &err);
    if (status == ITER_OK) {
        status = use(device, host, &twin, &event);
        *used = status == ITER_OK;
        iter__device_event_free(device, event);
        iter__device_free(device, twin);
        iter__device_unpin(device, host);
        iter__device_close(device);
    } else {
        cr_expect_null(device);
    }
    iter__unmap(host, BYTES);
    return status;
}

/* Each call in turn. */
Test(device_driver, every_call_fails_once) {
    static const char *const functions[] = {
#define ITER_X(name, suffix, parameters) #name,
        ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
    };
    static const CUresult results[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                       CUDA_ERROR_LAUNCH_FAILED, 12345};
    start();
    const long blocks = iter__alloc_live();
    int n_cases = 0, n_errors = 0;
    bool used;
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        fake->reset();
        cr_assert_eq(live(&used), ITER_OK, "%s", err.message);
        const long n_calls = fake->calls(functions[f]);
        for (long k = 0; k < n_calls; k++) {
            const CUresult result = results[(f + (size_t)k) % 4];
            fake->reset();
            fake->fail(functions[f], k, result);
            memset(&err, 0, sizeof err);
            const iter_status status = live(&used);
            n_cases++;
            n_errors += status < 0;
            cr_expect(status == ITER_OK || err.status == status, "%s %ld", functions[f], k);
            cr_expect(status == ITER_OK || err.message[0], "%s %ld", functions[f], k);
            cr_expect(status == ITER_OK || status == ITER_EDEVICE || status == ITER_ENOMEM,
                      "%s %ld: %d", functions[f], k, status);
            cr_expect_eq(iter__alloc_live(), blocks, "%s %ld", functions[f], k);
            expect_nothing_left(functions[f]);
        }
    }
    cr_expect(n_cases > 100, "%d", n_cases);
    cr_expect(n_errors > 50, "%d", n_errors);
}

Test(device_driver, every_operation_fails_once) {
    start();
    bool used;
    cr_assert_eq(live(&used), ITER_OK);
    const long n = fake->operations();
    cr_expect_eq(n, 2);
    for (long k = 0; k < n; k++) {
        fake->reset();
        fake->fail_late(k, CUDA_ERROR_ECC_UNCORRECTABLE);
        cr_expect_eq(live(&used), ITER_EDEVICE);
        cr_expect(!used);
        expect_nothing_left("operation");
    }
}

Test(device_driver, every_allocation_fails_once) {
    start();
    const long blocks = iter__alloc_live(), count = iter__alloc_count();
    bool used;
    cr_assert_eq(live(&used), ITER_OK);
    const long n = iter__alloc_count() - count;
    cr_expect_eq(n, 3, "the map, the device, the event: %ld", n);
    for (long k = 0; k < n; k++) {
        iter__alloc_fail_after = k;
        cr_expect_eq(live(&used), ITER_ENOMEM);
        iter__alloc_fail_after = -1;
        cr_expect_eq(iter__alloc_live(), blocks);
        expect_nothing_left("allocation");
    }
}

/* ---- Bugs that the fake is there to find ----------------------------------------------------- */

Test(device_driver, planted_a_slot_is_written_before_its_copy) {
    start();
    slot s = open_slot();
    fake->keep_going(true);
    fake->hold(FAKE_CUDA_ALL, true);
    fill_and_copy(&s, 1);
    s.host[BYTES / 2] = 2; /* too early */
    fake->hold(FAKE_CUDA_ALL, false);
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK);
    const char *violation = fake->violation();
    cr_expect(violation && strstr(violation, "changed between queueing a copy"), "%s", violation);
    cr_expect_null(fake->violation());
    close_slot(&s);
}

/* The consumer is late, and its event is not waited for: it reads the next batch. */
Test(device_driver, planted_a_slot_is_reused_before_its_event) {
    start();
    start_program();
    slot s = open_slot();
    CUstream stream;
    int seen = -1;
    cr_assert_eq(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    fill_and_copy(&s, 1);
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK);
    fake->hold(stream, true);
    const reading state = {(const unsigned char *)(uintptr_t)s.twin, &seen};
    cr_assert_eq(fake->launch(stream, read_byte, &state, sizeof state), CUDA_SUCCESS);
    fill_and_copy(&s, 2);
    cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK);
    fake->hold(stream, false);
    fake->wait_idle();
    cr_expect_eq(seen, 2);
    cuda.cuStreamDestroy(stream);
    close_slot(&s);
    stop_program();
    expect_nothing_left("reused");
}

Test(device_driver, planted_memory_is_freed_or_unpinned_under_a_copy) {
    start();
    start_program();
    slot s = open_slot();
    fake->keep_going(true);
    for (int round = 0; round < 2; round++) {
        fake->hold(FAKE_CUDA_ALL, true);
        fill_and_copy(&s, round);
        if (round == 0) { /* not by the device's functions, which wait */
            cr_expect_eq(cuda.cuMemFree(s.twin), CUDA_SUCCESS);
        } else {
            cr_expect_eq(cuda.cuMemHostUnregister(s.host), CUDA_SUCCESS);
        }
        fake->hold(FAKE_CUDA_ALL, false);
        cr_expect_eq(iter__device_sync(s.device, s.arrived, &err), ITER_OK);
        const char *violation = fake->violation();
        cr_expect(violation && strstr(violation, round ? "unregistered" : "freed"), "%s",
                  violation);
        if (round == 0) cr_assert_eq(iter__device_alloc(s.device, BYTES, &s.twin, &err), ITER_OK);
    }
    fake->keep_going(false);
    cr_assert_eq(iter__device_pin(s.device, s.host, BYTES, &err), ITER_OK);
    close_slot(&s);
    stop_program();
    expect_nothing_left("planted");
}

Test(device_driver, planted_addresses_that_are_none) {
    start();
    slot s = open_slot();
    fake->keep_going(true);
    cr_expect_eq(iter__device_copy(s.device, 4096, s.host, 1, &err), ITER_EDEVICE);
    const char *violation = fake->violation();
    cr_expect(violation && strstr(violation, "no device memory"), "%s", violation);
    cr_expect_eq(iter__device_copy(s.device, s.twin + 1, s.host, BYTES, &err), ITER_EDEVICE);
    violation = fake->violation();
    cr_expect(violation && strstr(violation, "beyond its block"), "%s", violation);
    iter__device_free(s.device, s.twin + 256);
    violation = fake->violation();
    cr_expect(violation && strstr(violation, "no start"), "%s", violation);
    fake->keep_going(false);
    close_slot(&s);
    expect_nothing_left("addresses");
}
