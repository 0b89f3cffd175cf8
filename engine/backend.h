/*
 * backend.h - the seam between what is trained and what computes it.
 *
 *     trainer (checks, counts, checkpoints)  ->  backend (memory, layouts, kernels)
 *
 * A backend gets a planned net once, allocates all it will ever need, and then runs batches. It sees
 * parameters in canonical dense form only in get() and set(); inside it keeps them as it likes.
 * Tables are const and listed by hand in builtin_backends.c.
 */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include "engine/net.h"
#include "engine/optimizer.h"

#define ENGINE_MAX_THREADS 1024

typedef struct engine_backend_config {
    const engine_net *net;             /* outlives the backend */
    const engine_optimizer *optimizer; /* outlives the backend */
    uint32_t threads;                  /* 1 to ENGINE_MAX_THREADS */
    bool keep_input_gradient;
    int32_t precision;           /* iter_precision; others than 0 where ops->on_device */
    int32_t algorithms;          /* iter_algorithms; likewise */
    int32_t device;              /* ITER_DEVICE(n); likewise */
    const char *algorithms_file; /* for the call; NULL = none; likewise */
} engine_backend_config;

typedef enum engine_run {
    ENGINE_RUN_FORWARD,  /* as in evaluation: dropout is the identity */
    ENGINE_RUN_GRADIENT, /* as in training, and gradients of all parameters; nothing is updated */
    ENGINE_RUN_TRAIN     /* the same, then the update */
} engine_run;

/* One batch, checked by the trainer: shapes and dtypes are the net's, class labels lie inside the
 * classes, ids inside the embedding (of what lies on a device, the backend finds out).
 * Borrowed for the call; with a source, tensors are those on the device. */
typedef struct engine_batch {
    const iter_tensor *data;  /* [n_rows, ...] or [T, n_rows]; f32, f64 or u8; ids i32 or i64.
                               * dense unless strides say else */
    const iter_tensor *label; /* [n_rows], i32, i64 or u8 (classes); [n_rows] or [n_rows, F] f32
                               * or f64 (values). `data` NULL, only with a source: all zeros */
    int64_t n_rows;           /* at most net->batch; fewer only at an epoch's end */
    const uint8_t *counts;    /* [n_rows] 0 = this row has no part in loss and gradient */
    int64_t n_counted;        /* rows that count; the loss is a mean over them. 0 = no update */
    uint64_t step;            /* counted from 0 over the trainer's life; for dropout, Adam's bias */
    double lr;                /* of this step, schedule applied */
    iter_batch *source;       /* whose memory data and label are: waited for and released by stream,
                               * where they lie on the device; NULL = host memory */
} engine_batch;

typedef struct engine_outcome {
    double loss_sum;   /* over the rows that count */
    int64_t n_correct; /* label = first class of the largest output; 0 for values */
    bool pending;      /* it is not known yet: collect() will say; also where run() failed, but
                        * only in giving the batch back: the run itself is queued and counts */
} engine_outcome;

typedef enum engine_trouble {
    ENGINE_TROUBLE_NONE,
    ENGINE_TROUBLE_LOSS,  /* it is not finite: `loss` */
    ENGINE_TROUBLE_LABEL, /* `value` in row `row` is outside the classes */
    ENGINE_TROUBLE_ID     /* `value` in row `row`, step `place`, is outside the embedding */
} engine_trouble;

/* What the runs since the last collect came to. From the first that had trouble on nothing was
 * updated, and nothing is in the sums. */
typedef struct engine_collected {
    double loss_sum;
    int64_t n_correct;
    engine_trouble trouble;
    uint32_t run; /* the one that had it; 0 = the first */
    double loss;
    int64_t row, place, value;
} engine_collected;

/* Runs that a backend may be asked for before they are collected. */
#define ENGINE_MAX_PENDING 64

typedef struct engine_backend_info {
    char text[96]; /* "oneDNN 2.6.3, avx512" */
    uint64_t n_bytes;
    uint64_t n_converted;
    double convert_seconds;
    char convert_text[96];
    uint64_t n_graph_runs, n_call_runs;
} engine_backend_info;

typedef struct engine_backend_ops {
    const char *name;
    const char *help;
    iter_dtype real;   /* what get(), set() and outputs() speak: ITER_F32, ITER_F64 */
    size_t state_size; /* zeroed, aligned to 64 bytes */

    /* Required, all of them; called from one thread at a time. */

    /* "nchw", "nhwc", "nt", "tn" or "": the layout of data that costs nothing. The net may be one
     * of iter__net_layers(), without shapes: use layers[], input.ids and input.n_dims alone. */
    const char *(*layout)(const engine_net *net);
    /* Plans and allocates. When it fails, destroy() is not called: it cleans up itself. */
    iter_status (*create)(void *state, const engine_backend_config *config, iter_error *err);
    void (*destroy)(void *state);
    /* Canonical values out and in, n = param's elements. GRADIENT is legal after a run that made
     * it, INPUT_GRADIENT (net->batch rows in data's own layout) where config asked for it; set()
     * knows WEIGHT and the moments of the optimiser. */
    iter_status (*get)(void *state, int32_t param, iter_value value, void *out, iter_error *err);
    iter_status (*set)(void *state, int32_t param, iter_value value, const void *from,
                       iter_error *err);
    /* Runs one batch; allocates nothing. A loss that is not finite is left in *out, and then
     * nothing may have been updated. */
    iter_status (*run)(void *state, const engine_batch *batch, engine_run what, engine_outcome *out,
                       iter_error *err);
    /* Outputs before the loss of the last run, dense [n_rows, n_outputs] in `real`, copied to
     * out. */
    iter_status (*outputs)(void *state, int64_t n_rows, void *out, iter_error *err);
    void (*describe)(const void *state, engine_backend_info *out);
    /* A line about layer i for the plan: what computes it. "" where there is nothing to say. */
    void (*layer_text)(const void *state, int32_t layer, char *out, size_t capacity);

    /* For backends that compute on a device, and only there. */

    /* Batches on a device are read there, labels and ids are checked there, and precision, algorithms and
     * device may be asked for. */
    bool on_device;
    /* Waits for the runs since the last collect, which left their outcome pending. */
    iter_status (*collect)(void *state, engine_collected *out, iter_error *err);
} engine_backend_ops;

/* All backends of this build, best first, ended by NULL. */
extern const engine_backend_ops *const iter__backends[];

/* The backend called `name`; NULL = the first. Errors: EINVAL (no such name), EUNSUPPORTED (known,
 * but not in this build: says which library is missing). */
iter_status iter__backend_find(const char *name, const engine_backend_ops **out, iter_error *err);

#endif
