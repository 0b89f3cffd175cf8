/*
 * backend.h - the interface between the trainer and what computes.
 *
 *     trainer (checks, counts, checkpoints)  ->  backend (memory, layouts, kernels)
 *
 * A backend receives a planned net once, allocates everything it will ever need, and then runs
 * batches. Parameters have their canonical dense form only in get() and set(); internally the
 * backend may store them in any form. The tables are const and listed by hand in
 * builtin_backends.c.
 */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/net.h"
#include "engine/optimizer.h"
#include "engine/ranks/sum_memory.h"

#define ENGINE_MAX_THREADS 1024

typedef struct engine_backend_config {
    const engine_net *net;             /* outlives the backend */
    const engine_optimizer *optimizer; /* outlives the backend */
    uint32_t threads;                  /* 1 to ENGINE_MAX_THREADS */
    bool keep_input_gradient;
    /* The ranks for gradients() and update(); outlives the backend. NULL = there are no sums. */
    iter_communicator *sums_with;
    /* The next three are 0 unless ops->on_device. precision is an iter_precision. */
    int32_t precision;
    int32_t algorithms; /* iter_algorithms */
    int32_t device;     /* ITER_DEVICE(n) */
} engine_backend_config;

typedef enum engine_run {
    ENGINE_RUN_FORWARD,  /* for evaluation: dropout is the identity */
    ENGINE_RUN_GRADIENT, /* for training, with gradients of all parameters; nothing is updated */
    ENGINE_RUN_TRAIN     /* as ENGINE_RUN_GRADIENT, then the update */
} engine_run;

/* A parameter's gradient where the backend keeps it (sum_memory()), in the backend's own order and
 * padding, as numbers of type `real`. Dense: n of them. Of a table: the rows that are not zero. */
typedef struct engine_gradient {
    int64_t n;          /* 0 = a table */
    const void *values; /* [n]; of a table [n_rows, ld], of which the first `units` count */
    const int32_t *ids; /* [n_rows] numbers of the rows, ascending, all different */
    int64_t n_rows, units, ld;
    int64_t table_rows; /* rows of the whole table; 0 = dense */
    int64_t most;       /* n_rows of any run is at most this */
} engine_gradient;

/* One batch, already checked by the trainer: shapes and dtypes are those of the net, class labels
 * are inside the classes, ids inside the embedding. If labels or ids are on a device, the backend
 * checks them. Borrowed for the call. If there is a source, the tensors are those on the device. */
typedef struct engine_batch {
    /* [n_rows, ...] or [T, n_rows]; f32, f16, bf16, f64 or u8; ids are i32 or i64. Dense unless the
     * strides say otherwise. */
    const iter_tensor *data;
    /* [n_rows], i32, i64 or u8 (classes); [n_rows, T] i32 or i64 (targets, or ENGINE_NO_TARGET);
     * [n_rows] or [n_rows, F] f32 or f64 (values). If there is a source, `data` may be NULL: all
     * labels are zero. */
    const iter_tensor *label;
    int64_t n_rows;        /* at most net->batch; fewer only at the end of an epoch */
    const uint8_t *counts; /* [n_rows] 0 = loss and gradient ignore this row */
    /* Rows that count, or their targets if the net has several a row; the loss is a mean over
     * them. 0 = no update. */
    int64_t n_counted;
    const iter_tensor *segments; /* i32 [n_rows, T] if net->segments, in host memory; else NULL */
    /* Where the rows lie in the global batch, of which they may be a part: dropout's row 0. */
    int64_t first_row;
    /* counted from 0 over the trainer's life; for dropout and Adam's bias correction */
    uint64_t step;
    double lr; /* of this step, schedule applied */
    /* The batch that owns data and label if they are on the device: the stream waits for it and
     * releases it. NULL = host memory. */
    iter_batch *source;
    /* For ENGINE_RUN_GRADIENT, or NULL: may be called during the run, with what gradients() will
     * say of a dense gradient and its number there, as soon as the run changes it no more. */
    void (*ready)(void *user, int32_t g, const engine_gradient *gradient);
    void *user;
} engine_batch;

typedef struct engine_outcome {
    double loss_sum;   /* over the rows that count */
    int64_t n_correct; /* label = first class of the largest output; 0 for values */
    /* The outcome is not known yet; collect() will return it. Also true if run() failed only when
     * it gave the batch back: the run itself is queued and counts. */
    bool pending;
} engine_outcome;

typedef enum engine_trouble {
    ENGINE_TROUBLE_NONE,
    ENGINE_TROUBLE_LOSS,  /* `loss` is not finite */
    ENGINE_TROUBLE_LABEL, /* `value` in row `row` is outside the classes */
    ENGINE_TROUBLE_ID     /* `value` in row `row`, step `place`, is outside the embedding */
} engine_trouble;

/* Result of the runs since the last collect. After the first run that failed, nothing was updated
 * and nothing was added to the sums. */
typedef struct engine_collected {
    double loss_sum;
    int64_t n_correct;
    engine_trouble trouble;
    uint32_t run; /* the run that failed; 0 = the first since the last collect */
    double loss;
    int64_t row, place, value;
} engine_collected;

/* Number of runs that a backend must accept before they are collected. */
#define ENGINE_MAX_PENDING 64

typedef struct engine_backend_info {
    char text[128]; /* "oneDNN 2.6.3, avx512" */
    uint64_t n_bytes;
    uint64_t n_converted;
    double convert_seconds;
    char convert_text[96];
    uint64_t n_graph_runs, n_call_runs;
} engine_backend_info;

typedef struct engine_backend_ops {
    const char *name;
    const char *help;
    iter_dtype real;   /* element type of get(), set() and outputs(): ITER_F32 or ITER_F64 */
    size_t state_size; /* zeroed, aligned to 64 bytes */

    /* All required; called from one thread at a time. */

    /* "nchw", "nhwc", "nt", "tn" or "": the layout of data that needs no conversion. The net may
     * come from iter__net_layers() and have no shapes yet: use only layers[], input.ids and
     * input.n_dims. */
    const char *(*layout)(const engine_net *net, int32_t precision);
    /* Plans and allocates. If it fails it must clean up itself: destroy() is not called. */
    iter_status (*create)(void *state, const engine_backend_config *config, iter_error *err);
    void (*destroy)(void *state);
    /* Copies canonical values out and in; n = the parameter's elements. GRADIENT is legal after a
     * run that computed it, INPUT_GRADIENT (net->batch rows in the data's own layout) if config
     * asked for it. set() accepts WEIGHT and the moments of the optimiser. */
    iter_status (*get)(void *state, int32_t param, iter_value value, void *out, iter_error *err);
    iter_status (*set)(void *state, int32_t param, iter_value value, const void *from,
                       iter_error *err);
    /* Runs one batch and allocates nothing (libraries may). If the loss is not finite, it is stored
     * in *out and nothing may have been updated. */
    iter_status (*run)(void *state, const engine_batch *batch, engine_run what, engine_outcome *out,
                       iter_error *err);
    /* Copies the outputs before the loss of the last run to out: dense [n_rows, n_outputs] in
     * `real`. */
    iter_status (*outputs)(void *state, int64_t n_rows, void *out, iter_error *err);
    void (*describe)(const void *state, engine_backend_info *out);
    /* For the plan: a line that says what computes layer i. "" = nothing to say. */
    void (*layer_text)(const void *state, int32_t layer, char *out, size_t capacity);

    /* For steps whose gradient is a sum over several runs; gradients NULL = the backend cannot. */

    /* All ranks call it once, at the same time, before the two below. *io_memory is the host's
     * memory; the backend puts in another, if its gradients and their sums lie there. NULL = the
     * host's. Errors: those of the communicator, ENOMEM. */
    iter_status (*sum_memory)(void *state, engine_sum_memory *io_memory, iter_error *err);
    /* Describes the gradients of the last ENGINE_RUN_GRADIENT in a fixed order, out
     * [ENGINE_MAX_PARAMS]; *out_n is their number. Before the first run there are only shapes.
     * Valid until the next run. */
    iter_status (*gradients)(void *state, engine_gradient *out, int32_t *out_n, iter_error *err);
    /* Takes a step with these gradients, in the same order and form; of `batch`, step and lr. */
    iter_status (*update)(void *state, const engine_gradient *sums, const engine_batch *batch,
                          iter_error *err);

    /* Only for backends that compute on a device. */

    /* The backend reads batches on the device, checks labels and ids there, and accepts precision,
     * algorithms and device. */
    bool on_device;
    /* Waits for the runs since the last collect whose outcome is pending. Gradients and updates
     * come after it. */
    iter_status (*collect)(void *state, engine_collected *out, iter_error *err);
} engine_backend_ops;

/* All backends of this build, best first; the list ends with NULL. */
extern const engine_backend_ops *const iter__backends[];

/* Finds the backend called `name`; NULL = the first. Errors: EINVAL (no such name), EUNSUPPORTED (a
 * known backend that is not in this build: names the missing library). */
iter_status iter__backend_find(const char *name, const engine_backend_ops **out, iter_error *err);

#endif
