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
 * A model is a list of layers; the last one is the loss. A trainer adds shapes, weights, an
 * optimiser and a backend, which does the computing. Weights are f32. Gradients and activations are
 * f32 too, unless the precision is f16 or bf16, or the backend is reference-f64.
 */
#ifndef ITER_ENGINE_H
#define ITER_ENGINE_H

#include <stdbool.h>

#include <iter/loader.h>

ITER_BEGIN_DECLS

typedef struct iter_model iter_model;
typedef struct iter_trainer iter_trainer;
typedef struct iter_communicator iter_communicator;

/* ---- Layers ---------------------------------------------------------------------------------- */

/*
 * Each layer's options have the same names here and in text. An option marked (1) or (2) may also
 * be given by position, as in "conv2d:50,kernel=3,pad=1". If an option has a default, its comment
 * ends with the default.
 *
 * A row is an image C, H, W; a sequence T (token ids) or T, F; or a list of features F.
 *
 * Layers without options:
 *   relu, tanh, sigmoid
 *   flatten                in the order C, H, W, whatever the layout in memory
 *   last-step, mean-steps  T, F -> F
 *   softmax-cross-entropy  a loss; labels are class numbers
 *   mse                    a loss: mean over rows and features of the squared difference
 *   l2                     a loss: half of mse, as Gluon's L2Loss
 *   tied-softmax           a loss of language models: T, F and an id for each step, i32 or i64
 *                          [N, T]; cross entropy of h W^T + b, where W is the weight of the
 *                          embedding with which the model begins, of the same width F, and b a bias
 *                          for each of its rows. The loss is the mean over the steps whose label is
 *                          not -100; these are the rows that iter_result counts. A batch without
 *                          such a step changes nothing. Not in the cuda backend.
 */

/** Initial weights; biases start at zero. Source: Glorot & Bengio 2010; He et al. 2015. */
typedef enum iter_init {
    ITER_INIT_GLOROT = 0, /* uniform in +-sqrt(6 / (fan_in + fan_out)) */
    ITER_INIT_HE = 1,     /* normal, deviation sqrt(2 / fan_in) */
    ITER_INIT_UNIFORM = 2 /* uniform in +-init-range */
} iter_init;

/** conv2d: [C, H, W] -> [channels, H', W'] with H' = (H + 2 pad - kernel) / stride + 1; zero
 * padding. */
typedef struct iter_conv2d_options {
    int64_t channels; /* (1) of the output */
    int64_t kernel;   /* (2) height and width; 3 */
    int64_t stride;   /* 1 */
    int64_t pad;      /* on every side; 0 */
    bool bias;        /* true */
    int32_t init;     /* iter_init */
    double init_range;
} iter_conv2d_options;

/** maxpool, avgpool: windows of size x size. Pixels beyond the edge do not count. */
typedef struct iter_pool_options {
    int64_t size;   /* (1) */
    int64_t stride; /* 0 = size */
    int64_t pad;    /* on every side, less than size; 0 */
} iter_pool_options;

/** dropout: in training, each element is zeroed with probability p, and otherwise multiplied by 1 /
 * (1 - p). In evaluation it is the identity. The mask is a function of (seed, layer, step, row,
 * element). */
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

/** Whether the reset gate is applied after or before the product with the state. */
typedef enum iter_gru_reset {
    ITER_GRU_RESET_AFTER = 0, /* n = tanh(Wn x + bn + r * (Rn h + cn)), as cuDNN, PyTorch, MXNet */
    /* n = tanh(Wn x + bn + Rn (r * h) + cn), as Cho et al. 2014. Not in the cuda backend. */
    ITER_GRU_RESET_BEFORE = 1
} iter_gru_reset;

/** gru: [T, F] -> [T, units]; the first state is zeros; h' = (1 - z) n + z h. Parameters: input
 * weights [3 units, F], recurrent weights [3 units, units] and two biases [3 units], with gates in
 * the order r, z, n. */
typedef struct iter_gru_options {
    int64_t units; /* (1) */
    int32_t reset; /* iter_gru_reset: after, before */
    /* The state before a step is zeros if its segment differs from that of the step before: the
     * loader must have a field "segments", i32 [N, T], as packed rows have. Not in the cuda
     * backend. no */
    bool segments;
    int32_t init;
    double init_range;
} iter_gru_options;

/* ---- Models ---------------------------------------------------------------------------------- */

/** Creates an empty model. Errors: ENOMEM. */
ITER_API ITER_NODISCARD iter_status iter_model_create(iter_model **out, iter_error *err);

/**
 * Parses a model: either layers separated by '|', or the name of a published network: "cnn", "gru",
 * "mlp". iter_model_preset() returns their texts.
 *
 * Ownership  *out belongs to the caller.
 * Errors     EINVAL naming the layer and the column where parsing stopped, ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_model_parse(const char *text, iter_model **out,
                                                     iter_error *err);

/**
 * Appends a layer.
 *
 *   options  the layer's struct, copied; NULL = its defaults, with options_size 0
 *
 * Errors  EINVAL (unknown layer; options_size is not the struct's size; a value out of bounds; a
 *         layer after the loss), ESTATE (a trainer already uses the model), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_model_add(iter_model *model, const char *layer,
                                                   const void *options, size_t options_size,
                                                   iter_error *err);

/** Adds or drops a reference. Any thread. unref(NULL) is ignored. */
ITER_API iter_model *iter_model_ref(iter_model *model);
ITER_API void iter_model_unref(iter_model *model);

/** The model as text, which iter_model_parse() turns into the same model. Valid until the next
 * iter_model_add(), at most as long as the model. */
ITER_API const char *iter_model_text(const iter_model *model);

/** Returns the text of a published network, or NULL if the name is unknown: "cnn" (CIFAR-10; Conv
 * 50-50-100-100, dense 512), "gru" (IMDB; embedding 30000 x 125, GRU 100), "mlp"
 * (1000-300-100-1). */
ITER_API const char *iter_model_preset(const char *name);

/* ---- Trainers -------------------------------------------------------------------------------- */

/** Arithmetic of the cuda backend. Weights, moments and losses are always f32. */
typedef enum iter_precision {
    ITER_PRECISION_F32 = 0,
    /* Products run on tensor cores, with factors rounded to 10 bits. */
    ITER_PRECISION_TF32 = 1,
    /* Activations and gradients are f16, sums are f32. Gradients are scaled; if they overflow
     * nevertheless, that step is skipped. */
    ITER_PRECISION_F16 = 2,
    /* Activations and gradients are bf16, sums are f32. Nothing is scaled: bf16 has the range of
     * f32, but only 7 bits after the binary point. A gru needs cuDNN 9.13 or later. */
    ITER_PRECISION_BF16 = 3
} iter_precision;

/** Which cuDNN algorithms the cuda backend uses. */
typedef enum iter_algorithms {
    /* Chosen by cuDNN's heuristics, so every process uses the same ones: on the same machine, a run
     * can be repeated bit for bit. In some releases of cuDNN the gru calls cuBLAS; these need
     * CUBLAS_WORKSPACE_CONFIG=:4096:2 in the environment, set before either library is loaded.
     * Release 9.15 calls cuBLASLt instead and does not need it. */
    ITER_ALGORITHMS_DETERMINISTIC = 0,
    /* The fastest deterministic ones, measured when the trainer is created. Another trainer may
     * pick others. */
    ITER_ALGORITHMS_TUNED = 1,
    /* The fastest of all, measured; they may sum in any order. */
    ITER_ALGORITHMS_FAST = 2
} iter_algorithms;

typedef struct iter_trainer_options {
    size_t struct_size; /* sizeof(iter_trainer_options); ITER_TRAINER_OPTIONS_INIT sets it */
    /* "cpu" (oneDNN), "cuda" (cuDNN and cuBLAS, opened at run time), "reference" (naive loops) or
     * "reference-f64" (the same in double). NULL = cpu if it was built, else reference. */
    const char *backend;
    /* "sgd:lr=0.01,momentum=0.9,weight-decay=0" or
     * "adam:lr=0.001,beta1=0.9,beta2=0.999,epsilon=1e-8,weight-decay=0". Both accept
     * step=EPOCHS,factor=F: every EPOCHS epochs, lr is multiplied by F. NULL = "sgd:lr=0.01". */
    const char *optimizer;
    /* Threads of the backend, at most 1024. 0 = one per core, minus the loader's workers, at least
     * 1. */
    uint32_t threads;
    /* Determines the initial weights and the dropout masks. */
    uint64_t seed;
    /* 1 = keep what iter_trainer_get() returns for ITER_VALUE_INPUT_GRADIENT. */
    int32_t keep_input_gradient;
    /* For the cuda backend. If one of the next three is not 0, other backends fail with
     * EUNSUPPORTED. */
    int32_t precision;  /* iter_precision */
    int32_t algorithms; /* iter_algorithms */
    /* ITER_DEVICE(n). 0 = the device whose context is current in the calling thread, or device 0 if
     * there is none. Batches on a device must be on this one. */
    int32_t device;
    /* Trains with the other ranks of the communicator, which must outlive the trainer; NULL =
     * alone. See "Several ranks". */
    iter_communicator *communicator;
    /* Gradients of several ranks are summed while the layers before theirs still go backward, in
     * pieces of at least so many bytes. 0 = 1 MiB. Results do not depend on it. */
    uint64_t bucket_bytes;
} iter_trainer_options;

#define ITER_TRAINER_OPTIONS_INIT \
    { sizeof(iter_trainer_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Plans the model for the batches of a loader, initialises the weights, and allocates all memory
 * that steps need.
 *
 *   loader  gives the shapes: its first data field, its first label field, and batch_size. Used
 *           only during the call.
 *
 * Ownership  takes a reference on the model, which can no longer be changed; *out belongs to the
 *            caller.
 * Errors     EINVAL (a layer does not fit: names the layer, what it expects and what it got),
 *            EUNSUPPORTED (this build or this machine lacks the backend, or the backend lacks an
 *            option), EDEVICE (the GPU or one of its libraries failed), ENOMEM.
 * Threads    any. After that, one thread at a time may use the trainer; with the cpu backend it
 *            must always be the same thread.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_create(iter_model *model, iter_loader *loader,
                                                        const iter_trainer_options *options,
                                                        iter_trainer **out, iter_error *err);
ITER_API void iter_trainer_destroy(iter_trainer *trainer);

/* ---- Several ranks --------------------------------------------------------------------------- */

/*
 * Data-parallel training: each rank, a process, takes its share of every global batch, and all of
 * them take the same steps with the sum of their gradients. Ranks are those of the loader:
 *
 *     iter_communicator *comm;
 *     iter_communicator_open(NULL, 0, &comm, &err);      // what mpirun or srun says
 *     opt.rank = iter_communicator_rank(comm);           // loader options
 *     opt.ranks = iter_communicator_ranks(comm);
 *     opt.global_batch = 64; opt.micro_batches = 4;
 *     trainer_options.communicator = comm;
 *
 * A global batch consists of the loader's `micro_batches` parts (0 = one for each rank). Gradients
 * are summed over these in a fixed order, so any number of ranks gives the same losses and weights,
 * bit for bit, as long as micro_batches, the global batch and the threads of a rank are the same.
 * One rank with micro_batches computes like several. Dropout does not depend on ranks either.
 *
 * All ranks must then make the same calls in the same order: iter_trainer_create(), _step(),
 * _test(), _epoch(), _evaluate(), _save(), _load(). If a call fails on one rank, it fails on all,
 * with the number of the first rank that failed and its message. Results cover all ranks. A rank
 * that differs from rank 0 in program, model, options, data or seed is refused when the trainer is
 * created. iter_trainer_save() writes on rank 0 alone; with iter_trainer_load() all ranks must have
 * read the same bytes. The cpu and reference backends can; gradients cannot be read then.
 */

/**
 * Opens a communicator.
 *
 *   kind       "mpi", "none", or NULL = mpi if iter_ranks_read() finds several ranks, else none.
 *              MPI is a module, libiter_mpi.so, opened at run time: beside the library, or where
 *              the environment variable ITER_MPI_MODULE says.
 *   timeout_s  how long a call waits for the other ranks, in seconds; 0 = 300
 *
 * Ownership  *out belongs to the caller; NULL on failure.
 * Errors     EINVAL (unknown kind, or MPI and the launcher's variables say different ranks),
 *            EUNSUPPORTED (no module, no MPI), EIO (MPI failed), ENOMEM, those of
 *            iter_ranks_read().
 * Threads    any. Afterwards one thread at a time.
 */
ITER_API ITER_NODISCARD iter_status iter_communicator_open(const char *kind, uint32_t timeout_s,
                                                           iter_communicator **out,
                                                           iter_error *err);
/** Ends MPI if this began it: all ranks should come here, or to iter_communicator_abort(). */
ITER_API void iter_communicator_close(iter_communicator *comm);
/** This process's number, from 0, and how many there are. NULL = 0 of 1. */
ITER_API uint32_t iter_communicator_rank(const iter_communicator *comm);
ITER_API uint32_t iter_communicator_ranks(const iter_communicator *comm);

/**
 * Every rank gets the bytes of all: for what a program wants to tell its other ranks, and to wait
 * for them.
 *
 *   mine  [bytes], the same number on all ranks
 *   all   [ranks, bytes]
 *
 * Errors  ETIMEDOUT (names the ranks from which nothing came, if it can), EIO, ENOMEM. After one,
 *         only _abort() and _close() are legal.
 */
ITER_API ITER_NODISCARD iter_status iter_communicator_gather(iter_communicator *comm,
                                                             const void *mine, size_t bytes,
                                                             void *all, iter_error *err);
/** Ends all ranks' processes: for a rank that cannot go on. Does nothing if there is only one. */
ITER_API void iter_communicator_abort(iter_communicator *comm);

/* ---- Training -------------------------------------------------------------------------------- */

/** The layout of data that the first layer of the model reads without a conversion on that backend
 * (NULL = the default one) with that iter_precision, for `to:f32,LAYOUT`: "nchw" or "nhwc" for
 * images, "nt" or "tn" for sequences, "" for rows or if the backend is unknown. Other layouts are
 * converted; iter_trainer_info counts them. Data of f16, bf16, f64 or u8 are converted, too, except
 * that a net of ITER_PRECISION_F16 reads f16 where it lies, and one of ITER_PRECISION_BF16 bf16. On
 * tensor cores, images of few channels get more; the copy that adds them is not counted. */
ITER_API const char *iter_model_layout(const iter_model *model, const char *backend,
                                       int32_t precision);

/** Result of a step, an epoch or an evaluation. */
typedef struct iter_result {
    double loss; /* mean over the rows that count */
    /* Rows that count: neither padding nor blanked. With tied-softmax their steps that have a
     * label. */
    uint64_t n_rows;
    /* Of these, how many have label = class of the largest output; 0 if the model is no
     * classifier. */
    uint64_t n_correct;
    uint64_t n_steps;    /* batches */
    double seconds;      /* total */
    double wait_seconds; /* of these, spent in iter_loader_next() */
} iter_result;

/**
 * One step over one batch: forward, backward, update. If a batch has fewer rows than batch_size,
 * only the rows that it has count. Blanked rows never count; padding does not count in evaluation.
 *
 *   out  the result. If NULL, the result is added to what iter_trainer_collect() returns, and the
 *        call does not wait for a device; the batch may still be given back at once. Inside the
 *        `progress` of iter_trainer_epoch() the call waits and drops the result.
 *
 * Errors  EINVAL (shape or dtype differs from the plan; a label outside the classes, or an id
 *         outside the embedding: names row and sample index), EFORMAT (the loss is not finite:
 *         names step and sample indices), ENOMEM (oneDNN could not allocate memory for a product),
 *         EDEVICE (the GPU failed, or the batch could not be given back to its loader; in the
 *         second case the message says that the step was taken). Weights are unchanged, except
 *         after EDEVICE. If out is NULL and the backend is on a device, the error may be that of an
 *         earlier step, at most 64 ago. The message names that step; the weights are those before
 *         it, and no later step was taken.
 * Signals  Until the step is done, signals are blocked in all threads that compute, including the
 *          caller's. Signals that a thread's own fault raises (SIGSEGV, SIGFPE and the like) are
 *          not blocked.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_step(iter_trainer *trainer,
                                                      const iter_batch *batch, iter_result *out,
                                                      iter_error *err);

/**
 * Waits for the steps that were taken without a result, and returns their result since the last
 * collect. Every other call that runs a batch, reads or writes values, saves or loads also waits
 * for these steps first, and fails with their error if there is one.
 *
 *   out  NULL = not wanted. `seconds` is the time spent in these calls. After an error the
 *        result covers the steps before the one that failed.
 *
 * Errors  those of such a step; ESTATE inside iter_trainer_epoch().
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_collect(iter_trainer *trainer, iter_result *out,
                                                         iter_error *err);

/** As iter_trainer_step(), but without learning: dropout is off and weights do not change. */
ITER_API ITER_NODISCARD iter_status iter_trainer_test(iter_trainer *trainer,
                                                      const iter_batch *batch, iter_result *out,
                                                      iter_error *err);

/** Computes the outputs of the layer before the loss: out f32 [rows, outputs], with tied-softmax
 * [rows, T, F]; softmax is not applied. Errors: as a step (EFORMAT: an output is not finite);
 * EINVAL if capacity (in floats) is too small. */
ITER_API ITER_NODISCARD iter_status iter_trainer_predict(iter_trainer *trainer,
                                                         const iter_batch *batch, float *out,
                                                         size_t capacity, iter_error *err);

/** Called after every step; `so_far` covers the steps since iter_trainer_epoch() began. Return
 * false to end the epoch. The cuda backend counts a step when it is queued, but rows, loss and hits
 * only when they arrive, at most 64 steps later; the error of a step, too, comes up to 64 batches
 * late. */
typedef bool (*iter_progress_fn)(void *user, const iter_result *so_far);

/**
 * Steps over all batches until the loader's END. The caller then resets the loader.
 *
 * Returns  OK at END, AGAIN if `progress` ended it.
 * Errors   those of iter_loader_next() and of a step.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_epoch(iter_trainer *trainer, iter_loader *loader,
                                                       iter_progress_fn progress, void *user,
                                                       iter_result *out, iter_error *err);

/** Runs iter_trainer_test() over all batches until END, then resets the loader. */
ITER_API ITER_NODISCARD iter_status iter_trainer_evaluate(iter_trainer *trainer,
                                                          iter_loader *loader, iter_result *out,
                                                          iter_error *err);

/* ---- Weights --------------------------------------------------------------------------------- */

typedef enum iter_value {
    ITER_VALUE_WEIGHT = 0,
    ITER_VALUE_GRADIENT = 1, /* of the last step, mean over its rows */
    ITER_VALUE_MOMENT = 2,   /* SGD's momentum, Adam's first moment */
    ITER_VALUE_MOMENT2 = 3,  /* Adam's second moment */
    /* Gradient of the data: dense, in the layout in which the data came. `param` is ignored. */
    ITER_VALUE_INPUT_GRADIENT = 4
} iter_value;

/** One parameter: "conv2d0.weight" f32 [O, I, H, W], "dense1.bias" f32 [O]. Parameters are in the
 * order of the layers. A layer's name is its kind and its number among the layers of that kind. */
typedef struct iter_param {
    char name[64];
    iter_desc desc;
} iter_param;

/** The number of parameters; parameter i, or NULL if i is out of range. Valid as long as the
 * trainer. */
ITER_API int32_t iter_trainer_n_params(const iter_trainer *trainer);
ITER_API const iter_param *iter_trainer_param(const iter_trainer *trainer, int32_t i);

/** Copies a tensor out or in: dense, `bytes` long, f32, or f64 if the backend is reference-f64.
 * Errors: EINVAL (no such parameter, wrong size, a value that this optimiser does not keep), ESTATE
 * (a gradient before the first step since create or load), those of iter_trainer_collect(). */
ITER_API ITER_NODISCARD iter_status iter_trainer_get(iter_trainer *trainer, int32_t param,
                                                     iter_value value, void *out, size_t bytes,
                                                     iter_error *err);
ITER_API ITER_NODISCARD iter_status iter_trainer_set(iter_trainer *trainer, int32_t param,
                                                     iter_value value, const void *from,
                                                     size_t bytes, iter_error *err);

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/**
 * Writes weights, optimiser, step, seed and the loader's position to a safetensors file. The file
 * is written under a temporary name beside it, synced, then renamed, so a kill at any moment leaves
 * the last good one.
 *
 *   loader  its position is saved; NULL = none
 *
 * Errors  EIO naming the file and the reason (disk full, permissions). The old file is then
 *         untouched, unless only syncing its folder failed after the rename. Training may continue.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_save(iter_trainer *trainer, iter_loader *loader,
                                                      const char *path, iter_error *err);

/**
 * Continues from a checkpoint. With the same machine, threads and options, training continues
 * where it stopped, bit for bit as if it had never done so.
 *
 *   loader  its position is restored; NULL = leave it
 *
 * Errors  EIO (cannot be read), EFORMAT (truncated, corrupt, another version), EINVAL (another
 *         model or optimiser: names the difference; a position that does not fit the loader). After
 *         an error nothing has changed.
 */
ITER_API ITER_NODISCARD iter_status iter_trainer_load(iter_trainer *trainer, iter_loader *loader,
                                                      const char *path, iter_error *err);

/** What a checkpoint says about the run that saved it. */
typedef struct iter_checkpoint_info {
    uint64_t n_steps, seed;
    uint32_t micro_batches; /* of the job; 1 = a trainer alone */
} iter_checkpoint_info;

/** Reads it without a trainer: to create one with the same micro_batches. Errors: EIO, EFORMAT. */
ITER_API ITER_NODISCARD iter_status iter_checkpoint_read(const char *path,
                                                         iter_checkpoint_info *out,
                                                         iter_error *err);

/* ---- Description ----------------------------------------------------------------------------- */

typedef struct iter_trainer_info {
    char backend[144];  /* "cpu: oneDNN 2.6.3, avx512" */
    uint32_t threads;   /* of the backend */
    uint64_t n_weights; /* numbers, all parameters together */
    /* Memory in bytes, allocated once; without what oneDNN allocates for itself. */
    uint64_t n_bytes;
    uint64_t n_steps; /* steps since the weights were made; restored by a checkpoint */
    /* Batches whose layout was not that of iter_model_layout(), and how long converting them
     * took. */
    uint64_t n_converted;
    double convert_seconds;
    char convert_text[96]; /* from which layout to which; "" = nothing was converted */
    /* On a GPU: batches that were one launch of a graph, and batches that were queued call by call:
     * the first of each kind of run, or all if runs cannot be captured. */
    uint64_t n_graph_runs, n_call_runs;
    /* Of the job: this rank of how many, the parts of a global batch, and how long this rank has
     * waited for others and summed gradients. 0, 1, 1, 0 for a trainer alone. */
    uint32_t rank, ranks, micro_batches;
    double communicate_seconds;
    double sum_seconds; /* of these, in sums */
    /* What the slowest rank of each step needed before the sums, over all steps so far. */
    double slowest_seconds;
} iter_trainer_info;

/** Describes the trainer and what it has done so far. */
ITER_API iter_trainer_info iter_trainer_describe(const iter_trainer *trainer);

/** A rank's part in the training steps so far, as all ranks know it. */
typedef struct iter_rank_stats {
    uint64_t n_steps;
    double outside_seconds; /* between steps: with the loader and the program */
    double compute_seconds; /* forward, backward, update */
    double wait_seconds;    /* until the slowest rank of each step had got so far, too */
    uint64_t n_slowest;     /* steps in which it was that rank */
} iter_rank_stats;

/** Copies the first `capacity` ranks' parts, by rank. Returns how many ranks there are; 0 for a
 * trainer alone. */
ITER_API uint32_t iter_trainer_ranks(const iter_trainer *trainer, iter_rank_stats *out,
                                     uint32_t capacity);

/** A piece of the dense gradients, which travels by itself; see `bucket_bytes`. */
typedef struct iter_bucket_stats {
    uint64_t bytes;
    /* Over the steps so far: how long before the end of this rank's backward passes it was ready.
     * While it travels for no longer than that, it costs nothing. */
    double lead_seconds;
} iter_bucket_stats;

/** Copies the first `capacity` buckets, in the order in which they travel. Returns how many there
 * are; 0 for a trainer alone. */
ITER_API uint32_t iter_trainer_buckets(const iter_trainer *trainer, iter_bucket_stats *out,
                                       uint32_t capacity);

/** The plan as text: one line per layer with shapes, parameters and what computes it. Valid as long
 * as the trainer. */
ITER_API const char *iter_trainer_plan_text(const iter_trainer *trainer);

/** Names of the backends of this build, best first; the list ends with NULL. */
ITER_API const char *const *iter_engine_backends(void);

ITER_END_DECLS

#endif
