/*
 * test_device_fake.c - the fake driver itself, by CUDA's documentation of the real one: contexts
 * per thread, the default stream's order, pageable copies, events, kernels and their parameters,
 * capture and what it forbids, graphs.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "iter/device/cuda_driver.h"
#include "tests/fake/fake_cuda.h"

TestSuite(device_fake, .timeout = 60);

#define N 1000

static const fake_cuda *fake;
static iter__cuda_driver cuda;
static CUcontext context;
static CUstream stream;

#define OK(call) cr_assert_eq(call, CUDA_SUCCESS, "%s", #call)

static const char ptx[] =
    "// a comment with .entry not_this_one(\n"
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(\n"
    "\t.param .u64 .ptr .global .align 4 scale_param_0,\n"
    "\t.param .u32 scale_param_1,\n"
    "\t.param .f32 scale_param_2\n)\n{\n\tret;\n}\n"
    "/* .entry nor_this( */\n"
    ".visible .entry packed(\n\t.param .u8 packed_param_0,\n"
    "\t.param .align 8 .b8 packed_param_1[24],\n\t.param .u16 packed_param_2\n)\n"
    ".maxntid 256, 1, 1\n{\n\tret;\n}\n"
    ".visible .entry nothing()\n{\n\tret;\n}\n";

static void start(void) {
    fake = fake_cuda_get();
    if (fake == NULL) cr_skip_test("the fake driver is not in LD_LIBRARY_PATH");
    fake->reset();
    iter_error err;
    cr_assert_eq(iter__cuda_open(&cuda, &err), ITER_OK, "%s", err.message);
    OK(cuda.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuda.cuCtxPushCurrent(context));
    OK(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void stop(void) {
    OK(cuda.cuStreamDestroy(stream));
    OK(cuda.cuCtxPopCurrent(&context));
    OK(cuda.cuDevicePrimaryCtxRelease(0));
    for (int kind = 0; kind < FAKE_CUDA_KINDS; kind++)
        cr_expect_eq(fake->live((fake_cuda_kind)kind), 0, "%d", kind);
    iter__cuda_close(&cuda);
}

/* ---- Contexts and memory --------------------------------------------------------------------- */

static void *without_context(void *argument) {
    CUdeviceptr memory;
    CUcontext current = context;
    CUresult *results = argument;
    results[0] = cuda.cuMemAlloc(&memory, 1);
    results[1] = cuda.cuStreamSynchronize(stream);
    results[2] = cuda.cuCtxGetCurrent(&current);
    results[3] = current ? 1 : 0;
    results[4] = cuda.cuCtxPopCurrent(&current);
    return NULL;
}

Test(device_fake, contexts_are_the_threads_own) {
    start();
    CUresult results[5];
    pthread_t thread;
    pthread_create(&thread, NULL, without_context, results);
    pthread_join(thread, NULL);
    cr_expect_eq(results[0], CUDA_ERROR_INVALID_CONTEXT);
    cr_expect_eq(results[1], CUDA_ERROR_INVALID_CONTEXT);
    cr_expect_eq(results[2], CUDA_SUCCESS);
    cr_expect_eq(results[3], 0);
    cr_expect_eq(results[4], CUDA_ERROR_INVALID_CONTEXT);
    stop();
}

Test(device_fake, memory_begins_as_nan_and_is_counted) {
    start();
    CUdeviceptr memory;
    size_t free_bytes, total_bytes, before;
    unsigned type;
    float first;
    OK(cuda.cuMemGetInfo(&before, &total_bytes));
    OK(cuda.cuMemAlloc(&memory, 4 * N));
    OK(cuda.cuMemGetInfo(&free_bytes, &total_bytes));
    cr_expect_eq(before - free_bytes, 4 * N);
    OK(cuda.cuMemcpyDtoH(&first, memory, sizeof first));
    cr_expect(first != first);
    cr_expect(fake->is_device(memory, 4 * N));
    cr_expect(!fake->is_device(memory, 4 * N + 1));
    OK(cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    cr_expect_eq(type, CU_MEMORYTYPE_DEVICE);
    OK(cuda.cuMemFree(memory));
    cr_expect(!fake->is_device(memory, 1));
    cr_expect_eq(cuda.cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(cuda.cuMemAlloc(&memory, (size_t)9 << 30), CUDA_ERROR_OUT_OF_MEMORY);
    stop();
}

Test(device_fake, pageable_copies_are_not_asynchronous) {
    start();
    CUdeviceptr memory;
    unsigned char from[64], to[64];
    OK(cuda.cuMemAlloc(&memory, 64));
    memset(from, 5, sizeof from);
    OK(cuda.cuMemcpyHtoDAsync(memory, from, 64, stream));
    memset(from, 6, sizeof from); /* legal: it has been read */
    OK(cuda.cuMemcpyDtoHAsync(to, memory, 64, stream));
    cr_expect_eq(to[63], 5);
    cr_expect_eq(fake->pageable_copies(), 2);
    OK(cuda.cuMemFree(memory));
    stop();
}

/* ---- Order ----------------------------------------------------------------------------------- */

typedef struct step {
    int *at;
    int *log;
    int name;
} step;

static void write_name(void *state) {
    const step *s = state;
    s->log[(*s->at)++] = s->name;
}

static void queue_step(CUstream to, int *at, int *log, int name) {
    const step s = {at, log, name};
    OK(fake->launch(to, write_name, &s, sizeof s));
}

Test(device_fake, the_default_stream_orders_blocking_ones_and_no_others) {
    start();
    CUstream blocking;
    int at = 0, log[4] = {0};
    OK(cuda.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    fake->delay(blocking, 30000);
    queue_step(blocking, &at, log, 1);
    queue_step(NULL, &at, log, 2); /* after the first */
    fake->delay(NULL, 30000);
    queue_step(blocking, &at, log, 3); /* after the second */
    cr_expect_eq(cuda.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK(cuda.cuStreamSynchronize(blocking));
    cr_expect_eq(log[0], 1);
    cr_expect_eq(log[1], 2);
    cr_expect_eq(log[2], 3);

    fake->hold(blocking, true);
    queue_step(blocking, &at, log, 4);
    at = 0;
    queue_step(stream, &at, log, 5); /* a stream that does not block waits for no other */
    OK(cuda.cuStreamSynchronize(stream));
    cr_expect_eq(log[0], 5);
    fake->hold(blocking, false);
    OK(cuda.cuCtxSynchronize());
    OK(cuda.cuStreamDestroy(blocking));
    stop();
}

Test(device_fake, events_say_when_and_how_long) {
    start();
    CUevent begin, end, untimed;
    int at = 0, log[1];
    float ms = -1;
    OK(cuda.cuEventCreate(&begin, CU_EVENT_DEFAULT));
    OK(cuda.cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
    OK(cuda.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    cr_expect_eq(cuda.cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
    fake->delay(stream, 20000);
    OK(cuda.cuEventRecord(begin, stream));
    queue_step(stream, &at, log, 1);
    OK(cuda.cuEventRecord(end, stream));
    OK(cuda.cuEventRecord(untimed, stream));
    cr_expect_eq(cuda.cuEventQuery(end), CUDA_ERROR_NOT_READY);
    cr_expect_eq(cuda.cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
    OK(cuda.cuEventSynchronize(untimed));
    OK(cuda.cuEventElapsedTime(&ms, begin, end));
    cr_expect(ms >= 19 && ms < 10000, "%f", (double)ms);
    cr_expect_eq(cuda.cuEventElapsedTime(&ms, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuda.cuEventDestroy(begin));
    OK(cuda.cuEventDestroy(end));
    OK(cuda.cuEventDestroy(untimed));
    cr_expect_eq(cuda.cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
    stop();
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static void scale(void **parameters, const unsigned grid[3], const unsigned block[3]) {
    float *values = (float *)(uintptr_t) * (const CUdeviceptr *)parameters[0];
    const unsigned n = *(const unsigned *)parameters[1];
    const float by = *(const float *)parameters[2];
    if (grid[0] * block[0] < n) return;
    for (unsigned i = 0; i < n; i++)
        values[i] *= by;
}

typedef struct packed_struct {
    double d;
    CUdeviceptr out;
    int i;
} packed_struct;

static void packed(void **parameters, const unsigned grid[3], const unsigned block[3]) {
    packed_struct s;
    (void)grid;
    (void)block;
    memcpy(&s, parameters[1], sizeof s);
    const double sum =
        s.d + s.i + *(const unsigned char *)parameters[0] + *(const unsigned short *)parameters[2];
    memcpy((void *)(uintptr_t)s.out, &sum, sizeof sum);
}

Test(device_fake, kernels_are_found_by_name_and_get_copies_of_their_parameters) {
    start();
    CUmodule module;
    CUfunction function, other;
    CUdeviceptr memory;
    OK(cuda.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuda.cuModuleGetFunction(&function, module, "packed"));
    OK(cuda.cuModuleGetFunction(&other, module, "nothing"));
    cr_expect_eq(cuda.cuModuleGetFunction(&other, module, "not_this_one"), CUDA_ERROR_NOT_FOUND);
    fake->kernel("packed", packed);
    OK(cuda.cuMemAlloc(&memory, 8));
    packed_struct s = {.d = 0.5, .out = memory, .i = 40};
    unsigned char a = 200;
    unsigned short b = 60000;
    void *parameters[] = {&a, &s, &b};
    double sum;
    fake->delay(stream, 5000);
    OK(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    s.i = 0; /* the launch copied it */
    a = 0;
    b = 0;
    OK(cuda.cuStreamSynchronize(stream));
    OK(cuda.cuMemcpyDtoH(&sum, memory, sizeof sum));
    cr_expect_eq(sum, 60240.5);
    cr_expect_eq(cuda.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, stream, parameters, NULL),
                 CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(
        cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 64 << 10, stream, parameters, NULL),
        CUDA_ERROR_INVALID_VALUE);

    fake->keep_going(true);
    fake->kernel("packed", NULL);
    OK(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 48 << 10, stream, parameters, NULL));
    OK(cuda.cuStreamSynchronize(stream));
    const char *violation = fake->violation();
    cr_expect(violation && strstr(violation, "packed has no twin"), "%s", violation);
    OK(cuda.cuMemFree(memory));
    OK(cuda.cuModuleUnload(module));
    stop();
}

Test(device_fake, modules_that_cannot_be_loaded) {
    start();
    CUmodule module;
    char log[64] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    fake_cuda_machine machine = fake->machine();
    cr_expect_eq(cuda.cuModuleLoadDataEx(&module, "ELF", 2, options, values),
                 CUDA_ERROR_INVALID_IMAGE);
    cr_expect_neq(log[0], '\0');
    machine.capability = 75;
    fake->set_machine(&machine);
    OK(cuda.cuInit(0));
    cr_expect_eq(cuda.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL),
                 CUDA_ERROR_NO_BINARY_FOR_GPU);
    machine.ptx_version = 78;
    fake->set_machine(&machine);
    OK(cuda.cuInit(0));
    cr_expect_eq(cuda.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL),
                 CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    stop();
}

/* ---- Capture --------------------------------------------------------------------------------- */

Test(device_fake, a_graph_is_replayed_with_what_memory_holds_then) {
    start();
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    CUgraph graph;
    CUgraphExec exec;
    CUstream side;
    CUevent fork_event, join_event;
    float *host, by = 2;
    unsigned n = N;
    void *parameters[] = {&memory, &n, &by};
    OK(cuda.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cuda.cuModuleGetFunction(&function, module, "scale"));
    fake->kernel("scale", scale);
    OK(cuda.cuMemAlloc(&memory, 8 * N));
    OK(cuda.cuMemHostAlloc((void **)&host, 8 * N, 0));
    OK(cuda.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cuda.cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuda.cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));

    OK(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuda.cuMemcpyHtoDAsync(memory, host, 4 * N, stream));
    OK(cuda.cuEventRecord(fork_event, stream));
    OK(cuda.cuStreamWaitEvent(side, fork_event, CU_EVENT_WAIT_DEFAULT));
    OK(cuda.cuMemsetD32Async(memory + 4 * N, 0x3f800000, N, side));
    OK(cuda.cuEventRecord(join_event, side));
    OK(cuda.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
    OK(cuda.cuStreamWaitEvent(stream, join_event, CU_EVENT_WAIT_DEFAULT));
    OK(cuda.cuMemcpyDtoHAsync(host + N, memory, 4 * N, stream));
    OK(cuda.cuStreamEndCapture(stream, &graph));
    cr_expect_eq(fake->operations(), 0, "nothing has run");
    OK(cuda.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuda.cuGraphDestroy(graph));
    by = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            host[i] = (float)(i + round);
        OK(cuda.cuGraphLaunch(exec, stream));
        OK(cuda.cuStreamSynchronize(stream));
        for (int i = 0; i < N; i++)
            cr_assert_float_eq(host[N + i], 2.0 * (i + round), 0);
    }
    cr_expect_eq(fake->operations(), 12);
    OK(cuda.cuMemcpyDtoH(host, memory + 4 * N, 4 * N));
    cr_expect_float_eq(host[N - 1], 1, 0);
    OK(cuda.cuGraphExecDestroy(exec));
    OK(cuda.cuEventDestroy(fork_event));
    OK(cuda.cuEventDestroy(join_event));
    OK(cuda.cuStreamDestroy(side));
    OK(cuda.cuMemFreeHost(host));
    OK(cuda.cuMemFree(memory));
    OK(cuda.cuModuleUnload(module));
    stop();
}

static CUresult end_capture(void) {
    CUgraph graph;
    const CUresult result = cuda.cuStreamEndCapture(stream, &graph);
    if (result == CUDA_SUCCESS) OK(cuda.cuGraphDestroy(graph));
    return result;
}

Test(device_fake, what_a_capture_forbids) {
    start();
    CUdeviceptr memory;
    CUevent event;
    CUgraph graph;
    CUstreamCaptureStatus status;
    OK(cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuda.cuEventRecord(event, stream));
    OK(cuda.cuStreamSynchronize(stream));
    for (CUstreamCaptureMode mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        OK(cuda.cuStreamBeginCapture(stream, mode));
        const CUresult result = cuda.cuMemAlloc(&memory, 1); /* may synchronise */
        cr_expect_eq(result, relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (relaxed) OK(cuda.cuMemFree(memory));
        OK(cuda.cuStreamIsCapturing(stream, &status));
        cr_expect_eq(status, relaxed ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        cr_expect_eq(end_capture(), relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

        OK(cuda.cuStreamBeginCapture(stream, mode));
        cr_expect_eq(cuda.cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        cr_expect_eq(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

        OK(cuda.cuStreamBeginCapture(stream, mode));
        cr_expect_eq(cuda.cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        cr_expect_eq(end_capture(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    cr_expect_eq(cuda.cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    cr_expect_eq(cuda.cuStreamBeginCapture(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK(cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuda.cuEventRecord(event, stream));
    cr_expect_eq(cuda.cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    cr_expect_eq(end_capture(), CUDA_SUCCESS);
    OK(cuda.cuEventDestroy(event));
    stop();
}

static void *alloc_elsewhere(void *argument) {
    CUdeviceptr memory;
    OK(cuda.cuCtxPushCurrent(context));
    const CUresult result = cuda.cuMemAlloc(&memory, 1);
    if (result == CUDA_SUCCESS) OK(cuda.cuMemFree(memory));
    CUcontext popped;
    OK(cuda.cuCtxPopCurrent(&popped));
    *(CUresult *)argument = result;
    return NULL;
}

Test(device_fake, a_global_capture_minds_other_threads) {
    start();
    for (CUstreamCaptureMode mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        const bool global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        CUresult result;
        pthread_t thread;
        OK(cuda.cuStreamBeginCapture(stream, mode));
        pthread_create(&thread, NULL, alloc_elsewhere, &result);
        pthread_join(thread, NULL);
        cr_expect_eq(result, global ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
        cr_expect_eq(end_capture(), global ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
    }
    stop();
}
