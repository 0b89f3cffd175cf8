/*
 * fake_cuda.h - control of a CUDA driver on host memory, for tests on machines without a GPU.
 *
 * The fake is libcuda.so.1 in <build>/tests/fake/, found by LD_LIBRARY_PATH, so the product needs
 * no hook. It is asynchronous like the real one: a thread per stream, events, the default stream's
 * implicit order, contexts per thread, capture and graphs. Device memory is ordinary memory at its
 * own addresses, so a kernel's twin in C can use the pointers that it gets. New memory is all 0xff
 * (NaN); freed memory faults.
 *
 * It is stricter than a GPU if that finds bugs. A violation is printed and aborts the program:
 *   - a copy, a memset or a free with an address that is not live device memory, or beyond its end;
 *   - an operation still queued when its memory is freed or unregistered;
 *   - a copy whose page-locked host memory changed between queueing and the copy;
 *   - a launch of a kernel without a registered twin.
 * Modules are PTX text: .version, .target and the entries' parameters are read from it.
 *
 * FAKE_CUDA_DEVICES=2 gives a program two devices instead of one. Tests get the control by
 * fake_cuda_get(). All functions may be called from any thread.
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "iter/device/cuda_api.h"

/* A kernel: parameters[i] points to the i-th value; runs once per launch, for the whole grid. */
typedef void (*fake_cuda_kernel)(void **parameters, const unsigned grid[3],
                                 const unsigned block[3]);

#define FAKE_CUDA_ALL ((CUstream) ~(uintptr_t)0) /* every stream, future ones included */

typedef enum fake_cuda_kind {
    FAKE_CUDA_MEMORY,   /* allocations on the device */
    FAKE_CUDA_PINNED,   /* host memory: registered or allocated */
    FAKE_CUDA_STREAMS,  /* without the default one */
    FAKE_CUDA_EVENTS,   /* ... */
    FAKE_CUDA_MODULES,  /* ... */
    FAKE_CUDA_GRAPHS,   /* graphs and what was instantiated of them */
    FAKE_CUDA_CAPTURES, /* begun and not ended */
    FAKE_CUDA_RETAINED, /* references to primary contexts */
    FAKE_CUDA_PUSHED,   /* contexts on the calling thread's stack */
    FAKE_CUDA_KINDS
} fake_cuda_kind;

/* The machine; must be set before the driver is opened. */
typedef struct fake_cuda_machine {
    int version;         /* of the driver: 13000 */
    int n_devices;       /* 1 */
    int capability;      /* 90 */
    int ptx_version;     /* newest that is supported: 90 = 9.0 */
    size_t memory_bytes; /* of each device: 8 GiB */
    size_t pinned_bytes; /* that can be page-locked: 8 GiB */
} fake_cuda_machine;

typedef struct fake_cuda {
    /* Restores the machine above; clears failures, delays, counters and kernels; releases held
     * streams and waits until all are idle. Live objects stay. */
    void (*reset)(void);
    fake_cuda_machine (*machine)(void);
    void (*set_machine)(const fake_cuda_machine *machine);

    /* Registers the C twin of a kernel; NULL removes it. */
    void (*kernel)(const char *name, fake_cuda_kernel twin);

    /* Call number `call` from now (0 = the next) of `function` ("cuMemAlloc", without version; NULL
     * = any function) returns `result` and does nothing; but if it frees, destroys, releases or
     * pops, it still does that. Up to 16 failures can be planned. */
    void (*fail)(const char *function, long call, CUresult result);
    /* Operation number `operation` from now (0 = the next) that a stream runs fails: it and all
     * later ones in its context do nothing, and every call there returns `result` from then on. */
    void (*fail_late)(long operation, CUresult result);

    /* The stream sleeps before each operation. NULL is the default stream of all contexts. */
    void (*delay)(CUstream stream, unsigned microseconds);
    /* A held stream begins no operation. */
    void (*hold)(CUstream stream, bool held);
    /* Waits until all streams are idle. */
    void (*wait_idle)(void);

    long (*calls)(const char *function); /* since reset; NULL = all */
    long (*operations)(void);            /* that streams began since reset */
    long (*pageable_copies)(void);       /* asynchronous copies that had to wait, since reset */
    unsigned long long (*copied_bytes)(void); /* host to device since reset */
    long (*live)(fake_cuda_kind kind);

    /* If `remember`, violations are remembered instead of printed and fatal. violation() returns
     * and clears the first one, or NULL. */
    void (*keep_going)(bool remember);
    const char *(*violation)(void);

    /* For fakes of libraries that use the driver (cuDNN, cuBLAS): queues `run` on a stream, like a
     * kernel, with a copy of `state`; captured like one. */
    CUresult (*launch)(CUstream stream, void (*run)(void *state), const void *state, size_t bytes);
    /* Whether [address, address + bytes) is live device memory. */
    bool (*is_device)(CUdeviceptr address, size_t bytes);

    /* Makes a context that is not the primary one, without pushing it; NULL if there is no such
     * device. */
    CUcontext (*context_new)(int device);
    void (*context_destroy)(CUcontext context);
} fake_cuda;

/* The table of the driver that this process opens; NULL if there is none, or a real one. */
static inline const fake_cuda *fake_cuda_get(void) {
    void *library = dlopen(ITER_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fake_cuda_control") : NULL;
    if (symbol == NULL) return NULL;
    const fake_cuda *(*control)(void);
    memcpy(&control, &symbol, sizeof symbol);
    return control();
}

#endif
