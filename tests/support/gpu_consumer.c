/* gpu_consumer.c - see gpu_consumer.h. */
#include "tests/support/gpu_consumer.h"

#include <stdio.h>
#include <stdlib.h>

static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: CUDA error %u\n", what, result);
    exit(1);
}

bool gpu_open(gpu_consumer *gpu) {
    *gpu = (gpu_consumer){.fake = fake_cuda_get()};
    if (!gpu->fake) return false;
    gpu->fake->reset();
    iter_error err;
    if (iter__cuda_open(&gpu->cuda, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    CUdevice device;
    CUcontext popped;
    must(gpu->cuda.cuDeviceGet(&device, 0), "cuDeviceGet");
    must(gpu->cuda.cuDevicePrimaryCtxRetain(&gpu->context, device), "cuDevicePrimaryCtxRetain");
    must(gpu->cuda.cuCtxPushCurrent(gpu->context), "cuCtxPushCurrent");
    for (int i = 0; i < GPU_STREAMS; i++)
        must(gpu->cuda.cuStreamCreate(&gpu->streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    must(gpu->cuda.cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
    return true;
}

void gpu_reset(gpu_consumer *gpu) {
    gpu->fake->reset();
    must(gpu->cuda.cuInit(0), "cuInit");
}

void gpu_close(gpu_consumer *gpu) {
    CUcontext popped;
    gpu->cuda.cuInit(0); /* after the fake's machine was changed */
    gpu->cuda.cuCtxPushCurrent(gpu->context);
    for (int i = 0; i < GPU_STREAMS; i++) {
        gpu->cuda.cuStreamSynchronize(gpu->streams[i]);
        gpu->cuda.cuStreamDestroy(gpu->streams[i]);
    }
    gpu->cuda.cuCtxPopCurrent(&popped);
    gpu->cuda.cuDevicePrimaryCtxRelease(0);
    iter__cuda_close(&gpu->cuda);
}

/* ---- Checking -------------------------------------------------------------------------------- */

#define FIELDS 8

/* What a kernel reads: dense tensors, and the expected hash of their bytes. */
typedef struct look {
    gpu_consumer *gpu;
    int n;
    struct {
        const uint8_t *bytes;
        size_t n;
        uint64_t hash;
    } fields[FIELDS];
} look;

static uint64_t fnv(const uint8_t *p, size_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static void run_look(void *state) {
    look *l = state;
    bool wrong = false;
    for (int f = 0; f < l->n; f++)
        wrong |= fnv(l->fields[f].bytes, l->fields[f].n) != l->fields[f].hash;
    atomic_fetch_add(&l->gpu->n_looked, 1);
    if (wrong) atomic_fetch_add(&l->gpu->n_wrong, 1);
}

void gpu_look(gpu_consumer *gpu, int i, const iter_batch *batch) {
    look l = {.gpu = gpu};
    for (int32_t f = 0; f < FIELDS && iter_batch_tensor(batch, f); f++) {
        const iter_tensor *host = iter_batch_tensor(batch, f),
                          *device = iter_batch_device_tensor(batch, f);
        const size_t n = iter_desc_bytes(&host->desc);
        l.fields[l.n].bytes = device->data;
        l.fields[l.n].n = n;
        l.fields[l.n++].hash = fnv(host->data, n);
    }
    CUcontext popped;
    must(gpu->cuda.cuCtxPushCurrent(gpu->context), "cuCtxPushCurrent");
    must(gpu->fake->launch(gpu->streams[i], run_look, &l, sizeof(l)), "launch");
    must(gpu->cuda.cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
}

iter_status gpu_train(gpu_consumer *gpu, int i, iter_batch *batch, iter_error *err) {
    iter_status status = iter_batch_wait(batch, gpu->streams[i], err);
    if (status == ITER_OK) {
        gpu_look(gpu, i, batch);
        status = iter_batch_release(batch, gpu->streams[i], err);
        /* On an error nothing is known of the stream. */
        if (status < 0) gpu->fake->wait_idle();
    }
    iter_batch_unref(batch);
    return status;
}

const char *gpu_leaks(const fake_cuda *fake) {
    static const struct {
        fake_cuda_kind kind;
        const char *name;
    } kinds[] = {{FAKE_CUDA_MEMORY, "blocks on the device"},
                 {FAKE_CUDA_PINNED, "page-locked blocks"},
                 {FAKE_CUDA_STREAMS, "streams"},
                 {FAKE_CUDA_EVENTS, "events"},
                 {FAKE_CUDA_MODULES, "modules"},
                 {FAKE_CUDA_RETAINED, "retained contexts"},
                 {FAKE_CUDA_PUSHED, "pushed contexts"}};
    static _Thread_local char text[256];
    size_t at = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const long n = fake->live(kinds[i].kind);
        if (n)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%ld %s", at ? ", " : "", n,
                                   kinds[i].name);
    }
    return at ? text : NULL;
}
