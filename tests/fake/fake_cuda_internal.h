/*
 * fake_cuda_internal.h - shared by the files of the fake driver.
 *
 * One lock guards everything. Streams run their operations outside of it, so that race detectors
 * see races between an operation and the program. Handles are never reused: a destroyed object
 * stays as a dead shell, so that its use is an error and not undefined.
 *
 *     CUresult cuX(...) {
 *         fake_call call;
 *         if (fake__begin(&call, FAKE_cuX)) call.result = ...;
 *         return fake__end(&call);
 *     }
 */
#ifndef TESTS_FAKE_CUDA_INTERNAL_H
#define TESTS_FAKE_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "tests/fake/fake_cuda.h"

#define FAKE_EXPORT   __attribute__((visibility("default")))
#define FAKE_PARAMS   32
#define FAKE_KERNELS  128
#define FAKE_FAILURES 16
#define FAKE_STACK    32

typedef enum fake_function {
#define ITER_X(name, suffix, parameters) FAKE_##name,
    ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
        FAKE_cuGetProcAddress,
    FAKE_FUNCTIONS
} fake_function;

#define ITER_X(name, suffix, parameters) FAKE_EXPORT CUresult name##suffix parameters;
ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
FAKE_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                         CUdriverProcAddressQueryResult *found);
FAKE_EXPORT const fake_cuda *fake_cuda_control(void);

/* ---- Objects --------------------------------------------------------------------------------- */

typedef enum fake_op_kind {
    FAKE_OP_COPY,
    FAKE_OP_SET,
    FAKE_OP_KERNEL,
    FAKE_OP_RUN,
    FAKE_OP_MARK,
    FAKE_OP_WAIT
} fake_op_kind;

/* `stream` has finished its operation `number`. */
typedef struct fake_after {
    CUstream stream;
    unsigned long long number;
} fake_after;

/* An operation: in a stream's queue, or a node of a graph. */
typedef struct fake_op {
    struct fake_op *next;
    fake_op_kind kind;
    unsigned long long number; /* in its stream, counted from 1 */
    fake_after *after;
    size_t n_after;
    /* copy, set */
    uintptr_t to, from;
    size_t bytes;
    bool to_device, from_device, from_pinned, to_pinned;
    bool hashed; /* `hash` is the source's at the time of queueing */
    uint64_t hash;
    unsigned value;
    int value_bytes; /* 1 or 4 */
    /* kernel, run */
    CUfunction function;
    void (*run)(void *state);
    unsigned grid[3], block[3];
    unsigned char *payload; /* parameters at the function's offsets, or the state */
    size_t payload_bytes;
    /* mark */
    CUevent event;
} fake_op;

typedef struct fake_capture {
    struct fake_capture *next;
    CUstream origin;
    CUstreamCaptureMode mode;
    pthread_t owner;
    bool invalidated, ended;
    fake_op *first, *last;
    long n_nodes;
} fake_capture;

struct CUctx_st {
    CUcontext next;
    int device;
    bool primary, alive;
    int references; /* primary */
    CUresult lost;
    CUstream default_stream;
};

struct CUstream_st {
    CUstream next;
    CUcontext context;
    unsigned flags;
    bool is_default, alive, held, running;
    unsigned delay_us;
    unsigned long long queued, done;
    fake_op *first, *last;
    fake_capture *capture;
    long capture_node; /* number of its last node in the capture */
    bool capture_open; /* joined, and the origin has not waited for it yet */
};

struct CUevent_st {
    CUevent next;
    CUcontext context;
    unsigned flags;
    bool alive;
    CUstream stream;
    unsigned long long number; /* 0 = never recorded */
    uint64_t time_ns;
    fake_capture *capture; /* recorded in it; NULL = in none */
    CUstream capture_stream;
    long capture_node;
};

struct CUfunc_st {
    CUfunction next;
    CUmodule module;
    char name[256];
    int n_params;
    size_t offsets[FAKE_PARAMS], sizes[FAKE_PARAMS], bytes;
};

struct CUmod_st {
    CUmodule next;
    CUcontext context;
    bool alive;
    CUfunction functions;
};

struct CUgraph_st {
    CUgraph next;
    bool alive;
    fake_op *first;
};

struct CUgraphExec_st {
    CUgraphExec next;
    CUcontext context;
    bool alive;
    fake_op *first;
};

typedef struct fake_block {
    uintptr_t address;
    size_t bytes, mapped_bytes;
    int device;
    CUcontext context; /* the context that it was made from */
    bool live;
} fake_block;

typedef struct fake_pin {
    uintptr_t address;
    size_t bytes;
    bool allocated; /* by cuMemHostAlloc */
} fake_pin;

typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an operation is queued or finished, or a hold ends */
    fake_cuda_machine machine;
    bool started;
    CUcontext contexts;
    CUstream streams;
    CUevent events;
    CUmodule modules;
    CUgraph graphs;
    CUgraphExec execs;
    fake_block *blocks;
    size_t n_blocks;
    fake_pin *pins;
    size_t n_pins;
    size_t used_bytes[16], pinned_bytes;
    fake_capture *captures;
    struct {
        char name[256];
        fake_cuda_kernel twin;
    } kernels[FAKE_KERNELS];
    int n_kernels;
    struct {
        int function; /* its number + 1; -1 = any, 0 = none */
        long left;
        CUresult result;
    } failures[FAKE_FAILURES];
    long late_left; /* -1 = none */
    CUresult late_result;
    bool all_held;
    unsigned all_delay_us;
    long calls[FAKE_FUNCTIONS], operations, pageable;
    unsigned long long copied;
    bool keep_going, violated;
    char violation[512];
} fake_state;

/* The only state, guarded by its lock. */
extern fake_state fake;
extern const fake_cuda_machine fake__usual;

/* The state of a thread. */
typedef struct fake_thread {
    CUcontext stack[FAKE_STACK];
    int depth;
    CUstreamCaptureMode mode;
    char violation[sizeof((fake_state *)0)->violation]; /* as returned to the test */
} fake_thread;

/* The calling thread's state. By a key and not _Thread_local: if a library is opened at run time,
 * ThreadSanitizer takes _Thread_local for a race when a thread ends. */
fake_thread *fake__thread(void);
#define fake_self (*fake__thread())

/* ---- Calls ----------------------------------------------------------------------------------- */

typedef struct fake_call {
    fake_function function;
    CUresult refused; /* injected or forbidden: returned whatever was done */
    CUresult result;
    CUcontext context;
} fake_call;

/* Takes the lock, counts, checks; returns true if the call must take effect. */
bool fake__begin(fake_call *call, fake_function function);
CUresult fake__end(fake_call *call);
/* Prints the violation and aborts, or remembers it. The lock is held. */
void fake__violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *fake__name(fake_function function);
bool fake__is_ordinal(CUdevice device);
CUcontext fake__context_new(int device, bool primary);
void fake__context_end(CUcontext context);

/* ---- Memory (fake_cuda_memory.c); the lock is held ------------------------------------------- */

bool fake__is_live(uintptr_t address, size_t bytes);   /* on a device, or page-locked */
bool fake__is_device(uintptr_t address, size_t bytes); /* on a device */
bool fake__is_pinned(uintptr_t address, size_t bytes);
uint64_t fake__hash(const void *from, size_t bytes);
/* Whether a queued operation writes to this host memory. */
bool fake__is_written(uintptr_t address, size_t bytes);
/* Checks device ranges; if one is not live, that is a violation. */
bool fake__check(const fake_op *op, const char *when);
void fake__forget_blocks(void);

/* ---- Streams (fake_cuda_stream.c, fake_cuda_capture.c); the lock is held --------------------- */

/* The stream of a handle, the default one for NULL; returns NULL if there is no such stream. */
CUstream fake__stream(CUcontext context, CUstream stream);
/* Queues a copy of `op` with its payload, or adds it to the capture. */
CUresult fake__queue(CUstream stream, const fake_op *op);
void fake__wait_number(CUstream stream, unsigned long long number);
/* Waits until no stream of the context runs an operation: on a lost device none starts another. */
void fake__wait_running(CUcontext context);
/* The default stream must not be used while a blocking stream of its context is captured. */
CUresult fake__check_implicit(CUstream stream);
void fake__execute(fake_op *op); /* the lock is not held */

fake_op *fake__op_copy(const fake_op *op);
void fake__op_free(fake_op *op);
CUresult fake__capture_add(CUstream stream, const fake_op *op);
CUresult fake__capture_wait(CUstream stream, CUevent event);
/* Refuses a call that a capture forbids in this thread's mode. */
CUresult fake__check_unsafe(void);
void fake__invalidate(CUstream stream);

#endif
