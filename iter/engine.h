/*
 * engine.h - a small trainer, fed by any iter_loader. It is a library of its own: iter::engine.
 *
 *     iter_model *model;
 *     iter_model_parse("conv2d:50,kernel=3,pad=1 | relu | maxpool:2 | flatten | dense:10 | "
 *                      "softmax-cross-entropy", &model, &err);
 *     iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
 *     opt.optimizer = "sgd:lr=0.01,momentum=0.9";
 *     iter_trainer_create(model, loader, &opt, &trainer, &err);
 *     for (int epoch = 0; epoch < 10; epoch++) {
 *         iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err);
 *         iter_loader_reset(loader, &err);
 *     }
 *     iter_trainer_evaluate(trainer, test_loader, &result, &err);
 *
 * A model is a list of layers, the last of which is the loss. A trainer is a model with shapes,
 * weights, an optimiser and a backend that computes. Weights, gradients and activations are f32.
 */
#ifndef ITER_ENGINE_H
#define ITER_ENGINE_H

#include <stdbool.h>

#include <iter/loader.h>

ITER_BEGIN_DECLS

typedef struct iter_model iter_model;
typedef struct iter_trainer iter_trainer;

/* ---- Layers ---------------------------------------------------------------------------------- */

/*
 * Every layer's options, in text under the same names; those marked (1), (2) may be given by place:
 * "conv2d:50,kernel=3,pad=1". Images are C, H, W; sequences T (token ids) or T, F; a row of
 * features is F. What has no options: relu, tanh, sigmoid, flatten (in the order C, H, W, whatever
 * the layout in memory), last-step (T, F -> F), mean-steps (T, F -> F), and the losses
 * softmax-cross-entropy (labels are class numbers), mse (mean over rows and features of the squared
 * difference) and l2 (half of that, as Gluon's L2Loss).
 */

/** How weights begin; biases begin at zero. Source: Glorot & Bengio 2010; He et al. 2015. */
typedef enum iter_init {
    ITER_INIT_GLOROT = 0, /* uniform in +-sqrt(6 / (fan_in + fan_out)) */
    ITER_INIT_HE = 1,     /* normal, deviation sqrt(2 / fan_in) */
    ITER_INIT_UNIFORM = 2 /* uniform in +-init-range */
} iter_init;

/** conv2d: [C, H, W] -> [channels, H', W'], H' = (H + 2 pad - kernel) / stride + 1. Zero padding. */
typedef struct iter_conv2d_options {
    int64_t channels; /* (1) of the output */
    int64_t kernel;   /* (2) height and width; 3 */
    int64_t stride;   /* 1 */
    int64_t pad;      /* on every side; 0 */
    bool bias;        /* true */
    int32_t init;     /* iter_init */
    double init_range;
} iter_conv2d_options;

/** maxpool, avgpool: windows of size x size; pixels beyond the edge do not count. */
typedef struct iter_pool_options {
    int64_t size;   /* (1) */
    int64_t stride; /* 0 = size */
    int64_t pad;    /* on every side, less than size; 0 */
} iter_pool_options;

/** dropout: zero with probability p, else times 1 / (1 - p); the identity in evaluation. The mask is
 * a function of (seed, layer, step, row, element). */
typedef struct iter_dropout_options {
    double p; /* (1) in [0, 1) */
} iter_dropout_options;

/** dense: [F] -> [units]. */
typedef struct iter_dense_options {
    int64_t units; /* (1) */
    bool bias;     /* true */
    int32_t init;
    double init_range;
} iter_dense_options;

/** embedding: ids [T] -> [T, units]. An id outside 0 .. rows - 1 is an error that names the row. */
typedef struct iter_embedding_options {
    int64_t rows;  /* (1) */
    int64_t units; /* (2) */
    int32_t init;
    double init_range;
} iter_embedding_options;

/** Where the reset gate works. */
typedef enum iter_gru_reset {
    ITER_GRU_RESET_AFTER = 0, /* n = tanh(Wn x + bn + r * (Rn h + cn)), as cuDNN, PyTorch, MXNet */
    ITER_GRU_RESET_BEFORE = 1 /* n = tanh(Wn x + bn + Rn (r * h) + cn), Cho et al. 2014 */
} iter_gru_reset;

/** gru: [T, F] -> [T, units], from a state of zeros; h' = (1 - z) n + z h. Weights input [3 units,
 * F], recurrent [3 units, units] and two biases [3 units], gates in the order r, z, n. */
typedef struct iter_gru_options {
    int64_t units; /* (1) */
    int32_t reset; /* iter_gru_reset: after, before */
    int32_t init;
    double init_range;
} iter_gru_options;

/* ---- Models ---------------------------------------------------------------------------------- */

/** An empty model. Errors: ENOMEM. */
ITER_API ITER_NODISCARD iter_status iter_model_create(iter_model **out, iter_error *err);

/**
 * Reads a model from text, layers separated by '|', or from the name of a published one: "cnn",
 * "gru", "mlp" (iter_model_preset() has their texts).
 *
 * Ownership  *out belongs to the caller.
 * Errors     EINVAL with layer and column, ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_model_parse(const char *text, iter_model **out,
                                                     iter_error *err);

/**
 * Appends a layer.
 *
 *   options  the layer's struct, copied; NULL = defaults, size 0
 *
 * Errors  EINVAL (unknown layer, options_size not the layer's, a value out of bounds), ESTATE (a
 *         trainer uses the model already), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_model_add(iter_model *model, const char *layer,
                                                   const void *options, size_t options_size,
                                                   iter_error *err);

/** Adds, drops a reference. Any thread. unref(NULL) is ignored. */
ITER_API iter_model *iter_model_ref(iter_model *model);
ITER_API void iter_model_unref(iter_model *model);

/** The model as text that iter_model_parse() reads back to the same; lives as long as the model,
 * until the next iter_model_add(). */
ITER_API const char *iter_model_text(const iter_model *model);

/** The text of a published network, or NULL: "cnn" (CIFAR-10; Conv 50-50-100-100, dense 512), "gru"
 * (IMDB; embedding 30000 x 125, GRU 100), "mlp" (1000-300-100-1). */
ITER_API const char *iter_model_preset(const char *name);

/* ---- Trainers -------------------------------------------------------------------------------- */

/** Arithmetic of the cuda backend. Weights, moments and losses are f32 in each. */
typedef enum iter_precision {
    ITER_PRECISION_F32 = 0,
    ITER_PRECISION_TF32 = 1, /* products by tensor cores, their factors rounded to 10 bits */
    ITER_PRECISION_F16 =
        2 /* activations and gradients in f16, sums in f32; gradients are scaled, and
                              * a step whose gradients overflow nevertheless is left out */
} iter_precision;

/** Which algorithms of cuDNN the cuda backend takes. */
typedef enum iter_algorithms {
    ITER_ALGORITHMS_DETERMINISTIC = 0, /* by cuDNN's advice, the same in every process: a run can be
                                        * repeated bit for bit on the same machine. Releases of
                                        * cuDNN whose gru calls cuBLAS want CUBLAS_WORKSPACE_CONFIG=
                                        * :4096:2 in the environment, set before either is loaded;
                                        * that of 9.15 calls cuBLASLt, which needs it not */
    ITER_ALGORITHMS_TUNED = 1, /* the fastest of these, measured at create: another trainer may
                                        * get others, but for algorithms_file */
    ITER_ALGORITHMS_FAST = 2   /* the fastest of all, measured; may add up in any order */
} iter_algorithms;

typedef struct iter_trainer_options {
    size_t struct_size; /* sizeof(iter_trainer_options); ITER_TRAINER_OPTIONS_INIT sets it */
    /* "cpu" (oneDNN), "cuda" (cuDNN and cuBLAS, opened at run time), "reference" (naive loops),
     * "reference-f64" (the same in double); NULL = cpu where it was built, else reference */
    const char *backend;
    /* "sgd:lr=0.01,momentum=0.9,weight-decay=0" or "adam:lr=0.001,beta1=0.9,beta2=0.999,
     * epsilon=1e-8,weight-decay=0"; both know step=EPOCHS,factor=F: lr times F after every so many
     * epochs. NULL = "sgd:lr=0.01" */
    const char *optimizer;
    uint32_t threads; /* of the backend, at most 1024; 0 = one a core, less the workers of the
                       * loader, at least 1 */
    uint64_t seed;    /* initial weights and dropout depend on it alone */
    int32_t keep_input_gradient; /* 1 = for iter_trainer_get() of ITER_VALUE_INPUT_GRADIENT */
    /* The cuda backend's; others refuse what is not 0 (EUNSUPPORTED). */
    int32_t precision;  /* iter_precision */
    int32_t algorithms; /* iter_algorithms */
    int32_t
        device; /* ITER_DEVICE(n); 0 = the one whose context is current in the calling thread, else
                     * number 0. Batches on a device must be on the same one. */
    /* TUNED and FAST: what was chosen is kept in this file, a line a kind of layer, GPU and release of
     * cuDNN, and not measured again by trainers that name the file; so they have the same algorithms.
     * It is written anew as a whole, and need not be there. NULL = none. Borrowed for the call. Errors
     * then also EIO, EFORMAT. */
    const char *algorithms_file;
} iter_trainer_options;

#define ITER_TRAINER_OPTIONS_INIT \
    { sizeof(iter_trainer_options), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Plans the model for the batches of a loader, makes weights, and allocates all memory that steps
 * need.
 *
 *   loader  gives the shapes: its first data field, its first label field, and batch_size; not kept
 *
 * Ownership  takes a reference on the model, which is frozen; *out belongs to the caller.
 * Errors     EINVAL (a layer that does not fit: which, what came, what it wants), EUNSUPPORTED (a
 *            backend that this build has not), ENOMEM.
 * Threads    any; the trainer then by one thread at a time, always the same where the backend is
 *            cpu.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_create(iter_model *model, iter_loader *loader,
                                                        const iter_trainer_options *options,
                                                        iter_trainer **out, iter_error *err);
ITER_API void iter_trainer_destroy(iter_trainer *trainer);

/** The layout of data that costs the model's first layer nothing on that backend (NULL = the
 * default one), for `to:f32,LAYOUT`: "nchw" or "nhwc" for images, "nt" or "tn" for sequences, "" for
 * rows. Other layouts are converted, and counted in iter_trainer_stats. */
ITER_API const char *iter_model_layout(const iter_model *model, const char *backend);

/** What a step, an epoch or an evaluation came to. */
typedef struct iter_result {
    double loss;         /* mean over the rows that count */
    uint64_t n_rows;     /* rows that count: neither padding nor blanked */
    uint64_t n_correct;  /* of them, label = class of the largest output; 0 where it is no
                          * classifier */
    uint64_t n_steps;    /* batches */
    double seconds;      /* in all */
    double wait_seconds; /* of them in iter_loader_next() */
} iter_result;

/**
 * One step over one batch: forward, backward, update. A batch with fewer rows than batch_size counts
 * by the rows it has; blanked rows and, in evaluation, padding do not count.
 *
 *   out  what it came to. NULL: added to what iter_trainer_collect() answers; a device is then not
 *        waited for, and the batch may be given back at once all the same
 *
 * Errors  EINVAL (shape or dtype is not the planned one; a label outside the classes, or an id
 *         outside the embedding: row and sample index are named), EFORMAT (the loss is not finite:
 *         step and sample indices are named), ENOMEM (oneDNN wants some for a product), EDEVICE (the
 *         batch could not be given back to its loader: says that the step was taken). Weights are
 *         unchanged but for the last. With out NULL on a device, that of an earlier step, at
 *         most 64 ago, which is named: weights are those of before it, and no later one was taken.
 * Signals are held back in all threads that compute, the caller's among them, until the step is done;
 *         only those of a fault of its own (SIGSEGV, SIGFPE and the like) come through.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_step(iter_trainer *trainer,
                                                      const iter_batch *batch, iter_result *out,
                                                      iter_error *err);

/**
 * Waits for the steps that were taken without a result, and says what they came to since the last
 * time.
 *
 *   out  NULL = not asked for. `seconds` are those in these calls. After an error: the steps before it
 *
 * Errors  those of such a step; ESTATE inside iter_trainer_epoch().
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_collect(iter_trainer *trainer, iter_result *out,
                                                         iter_error *err);

/** The same without learning: dropout off, weights unchanged. */
ITER_API ITER_NODISCARD iter_status iter_trainer_test(iter_trainer *trainer,
                                                      const iter_batch *batch, iter_result *out,
                                                      iter_error *err);

/** Outputs of the layer before the loss: out f32 [rows, outputs]; softmax is not applied. Errors: as
 * a step (EFORMAT: an output is not finite); EINVAL where capacity (in floats) is too small. */
ITER_API ITER_NODISCARD iter_status iter_trainer_predict(iter_trainer *trainer,
                                                         const iter_batch *batch, float *out,
                                                         size_t capacity, iter_error *err);

/** Looks at the run after every step, `so_far` since iter_trainer_epoch() began; false ends it
 * there. On the cuda backend steps are counted as they are queued, and rows, loss and hits as they are
 * heard of, at most 64 steps later; an error of a step, too, comes up to 64 batches late. */
typedef bool (*iter_progress_fn)(void *user, const iter_result *so_far);

/**
 * Steps over all batches until the loader's END. The caller resets the loader.
 *
 * Returns  OK at END, AGAIN where `progress` ended it.
 * Errors   those of iter_loader_next() and of a step.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_epoch(iter_trainer *trainer, iter_loader *loader,
                                                       iter_progress_fn progress, void *user,
                                                       iter_result *out, iter_error *err);

/** iter_trainer_test() over all batches until END, then resets the loader. */
ITER_API ITER_NODISCARD iter_status iter_trainer_evaluate(iter_trainer *trainer,
                                                          iter_loader *loader, iter_result *out,
                                                          iter_error *err);

/* ---- Weights --------------------------------------------------------------------------------- */

typedef enum iter_value {
    ITER_VALUE_WEIGHT = 0,
    ITER_VALUE_GRADIENT = 1,      /* of the last step, mean over its rows */
    ITER_VALUE_MOMENT = 2,        /* SGD's momentum, Adam's first moment */
    ITER_VALUE_MOMENT2 = 3,       /* Adam's second moment */
    ITER_VALUE_INPUT_GRADIENT = 4 /* of the data, dense, in the layout it came in; param is
                                   * ignored */
} iter_value;

/** One tensor of weights: "conv2d0.weight" f32 [O, I, H, W], "dense1.bias" f32 [O], in the order of
 * the layers. A layer's name is its kind and its place among those of its kind. */
typedef struct iter_param {
    char name[64];
    iter_desc desc;
} iter_param;

/** How many there are; the i-th, NULL beyond the last, living as long as the trainer. */
ITER_API int32_t iter_trainer_n_params(const iter_trainer *trainer);
ITER_API const iter_param *iter_trainer_param(const iter_trainer *trainer, int32_t i);

/** Copies a tensor out, or in; dense, f32 (f64 where the backend is reference-f64), `bytes` long.
 * Errors: EINVAL (no such parameter, wrong size, a value that this optimiser has not), ESTATE. */
ITER_API ITER_NODISCARD iter_status iter_trainer_get(iter_trainer *trainer, int32_t param,
                                                     iter_value value, void *out, size_t bytes,
                                                     iter_error *err);
ITER_API ITER_NODISCARD iter_status iter_trainer_set(iter_trainer *trainer, int32_t param,
                                                     iter_value value, const void *from,
                                                     size_t bytes, iter_error *err);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/**
 * Writes weights, optimiser, step, seed and the loader's position to a safetensors file: to a
 * temporary name beside it, synced, then renamed, so that a kill at any moment leaves the last good
 * one.
 *
 *   loader  whose position is saved; NULL = none
 *
 * Errors  EIO naming the file and the reason (disk full, permissions); the old file is untouched,
 *         and training may go on.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_save(iter_trainer *trainer, iter_loader *loader,
                                                      const char *path, iter_error *err);

/**
 * Continues from a checkpoint: with the same machine, threads and options, training goes on bit for
 * bit as if it had never stopped.
 *
 *   loader  its position is restored; NULL = leave it
 *
 * Errors  EIO (cannot be read), EFORMAT (truncated, corrupt, another version), EINVAL (another model
 *         or optimiser: what differs is named; a loader that it does not fit). Nothing is changed
 *         then.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_load(iter_trainer *trainer, iter_loader *loader,
                                                      const char *path, iter_error *err);

/* ---- What it is and did ---------------------------------------------------------------------- */

typedef struct iter_trainer_info {
    char backend[96];       /* "cpu: oneDNN 2.6.3, avx512" */
    uint32_t threads;       /* of the backend */
    uint64_t n_weights;     /* numbers, all parameters together */
    uint64_t n_bytes;       /* of memory, taken once; without what oneDNN takes for itself */
    uint64_t n_steps;       /* since the weights were made; a checkpoint carries them on */
    uint64_t n_converted;   /* batches that came in another layout than iter_model_layout() says */
    double convert_seconds; /* what that took */
    char convert_text[96];  /* from what to what; "" = nothing was converted */
    /* On a GPU: batches that were one launch of a graph, and those that went call by call: the first of
     * a kind, short ones, and those at more places than there are graphs for (96). */
    uint64_t n_graph_runs, n_call_runs;
} iter_trainer_info;

/** What it is, and what it did up to now. */
ITER_API iter_trainer_info iter_trainer_describe(const iter_trainer *trainer);

/** A text of the plan: a line a layer with shapes, parameters and what computes it. Lives as long as
 * the trainer. */
ITER_API const char *iter_trainer_plan_text(const iter_trainer *trainer);

/** Names of the backends of this build, best first, ended by NULL. */
ITER_API const char *const *iter_engine_backends(void);

ITER_END_DECLS

#endif
