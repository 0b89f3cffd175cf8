/*
 * loader.h - the consumer's side: make a loader, take batches, save, resume.
 *
 *     iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
 *     opt.batch_size = 64; opt.shuffle = ITER_SHUFFLE_FULL; opt.workers = 2; opt.seed = 7;
 *     if (iter_dataloader_create(data, chain, &opt, &loader, &err) < 0) die(err.message);
 *     for (int epoch = 0; epoch < 10; epoch++) {
 *         while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
 *             train(iter_batch_tensor(batch, 0), iter_batch_tensor(batch, 1));
 *             iter_batch_unref(batch);
 *         }
 *         if (s < 0 || (s = iter_loader_reset(loader, &err)) < 0) die(err.message);
 *     }
 *     iter_loader_unref(loader);
 */
#ifndef ITER_LOADER_H
#define ITER_LOADER_H

#include <iter/chain.h>
#include <iter/dataset.h>

ITER_BEGIN_DECLS

typedef struct iter_loader iter_loader;
typedef struct iter_batch iter_batch;

#define ITER_WORKERS_AUTO (-1)

typedef enum iter_shuffle {
    ITER_SHUFFLE_NONE = 0,
    ITER_SHUFFLE_FULL = 1, /* a new permutation of all samples every epoch */
    ITER_SHUFFLE_ONCE = 2, /* one permutation, the same every epoch (MXNet up to 1.3) */
    /* blocks of neighbours in random order, and random order inside: for disks */
    ITER_SHUFFLE_BLOCK = 3,
    /* units of consecutive samples (sampler.block of them) come in random order; the order inside a
     * unit stays as it is */
    ITER_SHUFFLE_BATCH = 4,
    ITER_SHUFFLE_REPLACEMENT = 5 /* independent draws */
} iter_shuffle;

typedef enum iter_last_batch {
    ITER_LAST_DEFAULT = 0, /* pad for iter_ndarray_create(), keep for iter_dataloader_create() */
    ITER_LAST_KEEP = 1,    /* a shorter batch */
    ITER_LAST_PAD = 2,     /* filled with the epoch's first samples, `pad` says how many */
    ITER_LAST_DISCARD = 3,
    /* samples that do not fill a batch become the first rows of the next epoch's first batch;
     * there `pad` counts them */
    ITER_LAST_ROLL_OVER = 4
} iter_last_batch;

/** What happens to a sample that cannot be read or decoded. If the process itself lacks memory or
 * file handles, the batch fails, whatever this option is. */
typedef enum iter_on_error {
    /* next() returns the batch's error in its turn; the call after that continues after the
     * batch */
    ITER_ON_ERROR_FAIL = 0,
    /* another sample, drawn by the seed; after 8 failed tries, as FAIL */
    ITER_ON_ERROR_REPLACE = 1,
    ITER_ON_ERROR_BLANK = 2 /* a row of zeros, iter_batch_valid()[i] = 0 */
} iter_on_error;

typedef enum iter_source {
    ITER_SOURCE_AUTO = 0, /* memory if the set fits, else ring, else pread */
    /* Reads the whole set once, when the loader is created. If a file is unreadable and on_error is
     * FAIL, creating the loader fails with EIO. With another on_error the loader reads each sample
     * when it needs it, and the statistics note this; the samples of that file then fail. */
    ITER_SOURCE_MEMORY = 1,
    /* io_uring; if the system forbids it, pread, and the statistics note it */
    ITER_SOURCE_RING = 2,
    ITER_SOURCE_PREAD = 3, /* threads that call pread */
    /* Reads nothing: rows are zeros. What is left is the loader's own cost. Decoders of images and
     * records refuse zeros. */
    ITER_SOURCE_NULL = 4,
    /* Requests to servers: what a set with URLs is read by, unless it is loaded. Of statistics, not
     * to be asked for. */
    ITER_SOURCE_REMOTE = 5
} iter_source;

typedef enum iter_lookahead {
    ITER_LOOKAHEAD_ENDLESS = 0, /* makes the next epoch's batches while this epoch ends */
    /* nothing beyond this epoch: for programs that change something between epochs */
    ITER_LOOKAHEAD_EPOCH = 1
} iter_lookahead;

/** Where batches are. */
typedef enum iter_memory {
    /* PINNED if a CUDA context is current in the thread that creates the loader, and pages may be
     * locked; else HOST. If pages may not be locked, the statistics note it. */
    ITER_MEMORY_AUTO = 0,
    ITER_MEMORY_HOST = 1,
    /* page-locked, for copies that the caller makes; EUNSUPPORTED without a driver or a GPU */
    ITER_MEMORY_PINNED = 2,
    ITER_MEMORY_DEVICE = 3 /* the loader copies them to the GPU; EUNSUPPORTED as for PINNED */
} iter_memory;

/** Where rows of images are finished (converted, normalised, cropped, flipped) if they go to a GPU.
 * All choices give the same bits. */
typedef enum iter_finish {
    ITER_FINISH_AUTO = 0, /* on the device if that halves the bytes to copy */
    ITER_FINISH_HOST = 1, /* the workers finish rows, and finished rows are copied */
    /* bytes are copied as stored, and a kernel finishes them; EUNSUPPORTED, with the reason, if the
     * chain does not allow it */
    ITER_FINISH_DEVICE = 2
} iter_finish;

/** Whether the GPU keeps the whole set. The loader uploads it once, when it is created. A batch
 * then copies only which rows it has and how they are cropped. A sample that could not be read
 * fails each time, as on_error says. */
typedef enum iter_resident_mode {
    ITER_RESIDENT_NO = 0,
    /* Yes if that is possible and the set fits half of the GPU's free memory. If not, batches are
     * copied, and the statistics note it. */
    ITER_RESIDENT_AUTO = 1,
    /* If the GPU cannot keep the set, creating the loader fails with ENOMEM or EUNSUPPORTED, and
     * the reason. */
    ITER_RESIDENT_YES = 2
} iter_resident_mode;

/**
 * Whether ranks on one machine share files that are held in memory.
 *
 * The first rank fills the copy, the others wait for it. They find it by the files' identity:
 * device, inode, size and times. The last process removes it. If all processes are killed, the
 * copy stays. The next run that shares memory uses it if it reads the same files, and otherwise
 * removes it. Only processes of one user share. Rows that get() makes are never shared, nor are
 * bytes that the caller's own source (reading.ops) reads. If a copy cannot be shared (no /dev/shm,
 * or no room there), each process has its own, and the statistics note it.
 */
typedef enum iter_share {
    ITER_SHARE_AUTO = 0, /* one copy in /dev/shm if local_ranks > 1 */
    ITER_SHARE_NO = 1    /* each process has its own */
} iter_share;

/**
 * Whether a batch may be a view of the set: nothing is copied, and its tensors point to where the
 * rows lie. That is so where the rows of a batch follow one another (storage order, no padding) in
 * arrays or in a set that is held in memory, and no stage or collate changes them. Batches in
 * pinned memory or for a GPU are never views.
 *
 * A view must not be written: that would change the set. It lies as the set does, so it is aligned
 * to its elements alone. iter_batch_is_view() tells which batches are views.
 */
typedef enum iter_views {
    ITER_VIEWS_AUTO = 0, /* wherever that is possible */
    ITER_VIEWS_NO = 1    /* every batch lies in a slot, and may be written */
} iter_views;

#define ITER_FILE_SHOWN 256 /* room for a file's path; a longer path loses its beginning */
#define ITER_STALL_TEXT 480

/** Describes a stall: a call of next() that has waited longer than watch.stall_ms. It tells what
 * next() waits for, as far as the watchdog's thread can see. */
typedef struct iter_stall {
    size_t struct_size; /* sizeof(iter_stall), set by the library */
    uint32_t epoch;
    uint64_t batch;     /* its number within the epoch, or ITER_UNKNOWN */
    uint64_t waited_ns; /* how long next() has waited */
    /* the worker in that stage, from 0 (with `workers` 0: the caller's thread); -1 = none: a read
     * is in flight, or no thread works on the batch */
    int32_t worker;
    char stage[ITER_NAME_MAX];  /* as iter_loader_stage_name() returns it; "" = none */
    uint64_t sample;            /* index in the dataset, or ITER_UNKNOWN */
    char file[ITER_FILE_SHOWN]; /* the file of the sample's bytes, or of the read; "" = none */
    uint64_t offset;
    uint64_t since_ns; /* how long the worker has been in that stage, or the read in flight */
    char message[ITER_STALL_TEXT];
} iter_stall;

/* ---- Options ---------------------------------------------------------------------------------
 *
 * Zero in any member means its default. In C and C++20 (where g++ -Wextra names each member that
 * is left out; ITER_LOADER_OPTIONS_INIT works in every C++):
 *
 *     iter_loader_options opt = {
 *         .struct_size = sizeof(opt),
 *         .batch_size = 64,
 *         .workers = ITER_WORKERS_AUTO,
 *         .sampler = {.spec = "bucket:n-buckets=8"},
 *         .memory = {.limit = 2ull << 30},
 *     };
 */

/** Which sampler draws samples, and from which of them. */
typedef struct iter_loader_sampler {
    /* ITER_SHUFFLE_BLOCK: samples in a block; 0 = ITER_BLOCK_SAMPLES. ITER_SHUFFLE_BATCH: samples
     * in a unit; 0 = batch_size */
    uint32_t block;
    /* ITER_SHUFFLE_BLOCK: blocks mixed with one another; 0 = ITER_BLOCK_BUFFER */
    uint32_t buffer_blocks;
    const char *spec;              /* "name:key=value", instead of `shuffle`; NULL = by `shuffle` */
    const iter_registry *registry; /* for `spec`; NULL = built-ins */
    const iter_sampler_ops *ops;   /* the caller's table, instead of `shuffle`; needs `spec` NULL */
    const void *options;           /* its options struct, copied; NULL = its defaults */
    /* [n_subset] sample indices to use, in this order, copied; NULL = all */
    const uint64_t *subset;
    uint64_t n_subset;
} iter_loader_sampler;

/** How bytes are read. */
typedef struct iter_loader_reading {
    int32_t source;   /* iter_source */
    int32_t o_direct; /* 1 = reads bypass the page cache */
    /* reads in flight at once, if the source has no asynchronous side (pread, or the caller's): so
     * many threads call it; 0 = 8 */
    uint32_t threads;
    /* 1 = bytes are read and dropped, rows are not made: they stay zero. It measures the cost of
     * reading alone. get() and next() of a dataset run; the chain and collate do not. */
    int32_t only_reads;
    /* The caller's source of bytes for the dataset's files, instead of ring and pread; NULL = by
     * `source`. If it has no asynchronous side, threads of the loader call it. */
    const iter_source_ops *ops;
    /* The largest sample read or decoded. A larger sample fails. A picture also fails if its
     * decoder itself (progressive, interlaced) needs more than max_sample_bytes + 2 MiB. 0 = 256
     * MiB; if memory.limit is set, decoded images get at most a 16th of it. */
    uint64_t max_sample_bytes;
} iter_loader_reading;

/** What memory is used, where, and how much. */
typedef struct iter_loader_memory {
    int32_t kind; /* iter_memory of the batches */
    /* PINNED and DEVICE: which GPU. ITER_DEVICE(n); 0 = the one whose context is current in the
     * calling thread, else number 0. */
    int32_t device;
    int32_t finish;   /* iter_finish */
    int32_t resident; /* iter_resident_mode; DEVICE only */
    int32_t share;    /* iter_share */
    /* Bytes for slots, arena, scratch and preloaded data. 0 = half of what is free now, on the
     * machine and in the process's control group, divided by local_ranks.
     *
     * Any other value limits more than those four. It also includes what the dataset holds
     * (iter_dataset_open_with() has a limit for opening it), the sampler's tables, what pictures
     * may take at a time in every worker, and what an image library takes for one picture. If the
     * loader needs more, creating it fails with ENOMEM and the numbers. A few MiB may come on top
     * of the limit: threads, a source's own tables, the C library's memory. */
    uint64_t limit;
} iter_loader_memory;

/** What is tolerated, and for how long. */
typedef struct iter_loader_faults {
    int32_t on_error;      /* iter_on_error */
    uint32_t max_failures; /* failed samples delivered before next() gives up; 0 = no limit */
    int64_t timeout_ms;    /* longest wait in next(); 0 = for ever */
    int64_t grace_ms;      /* longest wait for a busy thread when the loader ends; 0 = 5000 */
} iter_loader_faults;

/** The watchdog. */
typedef struct iter_loader_watch {
    /* A next() that waits longer is reported once per batch: to on_stall, and in the statistics.
     * 0 disables the watchdog. */
    int64_t stall_ms;
    /* Runs in a thread of the loader's that holds no lock; `stall` is borrowed for the call. It may
     * call iter_loader_cancel(), _stats_read() and _activity(). NULL = statistics alone. */
    void (*on_stall)(void *user, const iter_stall *stall);
    void *user;
} iter_loader_watch;

/** iter_ndarray_create() only. */
typedef struct iter_loader_arrays {
    int32_t copy; /* 1 = copies the arrays */
    /* Runs once when the arrays are no longer needed. NULL = nothing to do. */
    void (*release)(void *user);
    void *user;
} iter_loader_arrays;

/** How a loader runs. Later versions add members at the end of this struct only. The structs inside
 * it (sampler, reading, memory, ...) keep their members. */
typedef struct iter_loader_options {
    size_t struct_size;  /* sizeof(iter_loader_options); ITER_LOADER_OPTIONS_INIT sets it */
    uint32_t batch_size; /* samples per batch and rank; 0 = 32 */
    /* threads that make batches; 0 = the caller's thread makes them, ITER_WORKERS_AUTO = one per
     * core that affinity and control groups leave to the process. If that is all of the machine's
     * cores, and several ranks run there, a rank takes its share of them. AUTO is none where
     * handing a batch over costs as much as making it: in storage order, if batches are views; on
     * one core, if rows are copied from memory. */
    int32_t workers;
    /* The most batches made ahead. 0 = as many batches as hold two chunks of work for each worker;
     * fewer if memory is short, but at least 2 batches. */
    uint32_t prefetch;
    uint32_t max_held; /* batches that the caller may hold at once; 0 = 2 */
    /* `ranks` processes divide the samples among them; `rank` is this one's number, from 0. 0, 0 =
     * this process takes all samples. iter_ranks_read() has what the launcher says. */
    uint32_t rank, ranks;
    /* How many of the ranks run on this machine. They divide the free memory if memory.limit is 0,
     * and share one copy of a set that is held in memory. 0 = as the launcher's environment says
     * (LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, MV2_COMM_WORLD_LOCAL_SIZE,
     * SLURM_STEP_TASKS_PER_NODE), else all of them. */
    uint32_t local_ranks;
    uint64_t seed;      /* all randomness of order and augmentation comes from this number */
    int32_t shuffle;    /* iter_shuffle */
    int32_t last_batch; /* iter_last_batch */
    uint32_t epochs;    /* after so many, reset() returns END; 0 = endless */
    int32_t lookahead;  /* iter_lookahead */
    iter_loader_sampler sampler;
    iter_loader_reading reading;
    iter_loader_memory memory;
    iter_loader_faults faults;
    iter_loader_watch watch;
    iter_loader_arrays arrays;
    /* The caller's collate: last of the batch stages, in the thread that finishes the batch. It
     * may change fields[0..n_fields) in place, as a batch stage may (see iter_batch_view). If it
     * fails, the batch fails with its error. */
    iter_status (*collate)(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err);
    void *collate_user;
    /* Samples per batch over all ranks, instead of batch_size, which is then the largest share that
     * a rank may have. It need not be a multiple of ranks. 0 = batch_size x ranks. */
    uint32_t global_batch;
    /* A global batch of m rows consists of so many micro-batches: number k is the rows from
     * floor(k m / M) on. A rank's share is whole ones. Trainers sum gradients over them (see
     * iter/engine.h). At least ranks; 0 = a share begins at any row. */
    uint32_t micro_batches;
    int32_t views; /* iter_views */
} iter_loader_options;

/** GPU number n, for memory.device. */
#define ITER_DEVICE(n) ((n) + 1)

#ifdef __cplusplus
static inline iter_loader_options iter_loader_options_init() {
    iter_loader_options options = iter_loader_options();
    options.struct_size = sizeof(options);
    return options;
}
#define ITER_LOADER_OPTIONS_INIT iter_loader_options_init()
#else
#define ITER_LOADER_OPTIONS_INIT \
    { .struct_size = sizeof(iter_loader_options) }
#endif

/**
 * Makes a loader over any dataset. When this returns, its threads run and reads are in flight.
 *
 *   chain    what happens to each sample; NULL = fields as stored
 *   options  NULL = all defaults
 *
 * Ownership  takes its own references to dataset and chain. *out belongs to the caller; it is NULL
 *            on failure.
 * Errors     EINVAL (an option, or a chain that does not fit the dataset: stage and reason),
 *            EUNSUPPORTED, ENOMEM (the memory limit, with the numbers), EIO, EFORMAT.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_dataloader_create(iter_dataset *dataset, iter_chain *chain,
                                                           const iter_loader_options *options,
                                                           iter_loader **out, iter_error *err);

/**
 * Makes a loader over arrays in memory, by the rules of MXNet's NDArrayIter. The result is the same
 * kind of loader.
 *
 *   arrays   [n_arrays], any dtype and rank; their first dimensions must be equal
 *
 * Ownership  borrows the arrays until the last reference to the loader and its batches is dropped;
 *            then options->arrays.release runs once. If options->arrays.copy is set, the arrays
 *            are copied instead.
 * Errors     EINVAL (unequal first dimensions, no array, no data), and those of
 *            iter_dataloader_create(). If this fails, release() does not run.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_ndarray_create(const iter_array *arrays, int32_t n_arrays,
                                                        iter_chain *chain,
                                                        const iter_loader_options *options,
                                                        iter_loader **out, iter_error *err);

/**
 * Takes the next batch. Waits if it is not ready yet.
 *
 * With `workers` 0 the calling thread makes the batch. It looks at the clock between two chunks of
 * rows, so a call may exceed its timeout by one chunk. The next call continues with the rest.
 *
 * Returns    OK with a batch. END at the end of an epoch; every later call returns END, too, until
 *            iter_loader_reset(). With END, *out is NULL.
 * Ownership  the caller owns one reference and must drop it with iter_batch_unref(). It may hold at
 *            most max_held batches.
 * Errors     that of the batch's first failed sample, with stage, sample and file; the next call
 *            continues after that batch. EDEVICE (the batch could not be copied to the GPU; if the
 *            GPU is lost, every later call fails with EDEVICE). ESTATE (max_held batches are
 *            held; called from a callback of this loader, or after fork). ETIMEDOUT (with what it
 *            waited for; the call may be repeated). ECANCELED (after iter_loader_cancel()).
 * Threads    one consumer at a time.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_next(iter_loader *loader, iter_batch **out,
                                                     iter_error *err);

/**
 * As iter_loader_next(), with a timeout of its own instead of faults.timeout_ms.
 *
 *   timeout_ms  longest wait; 0 = only take what is ready; < 0 = for ever
 *
 * Returns    as iter_loader_next(), and AGAIN if timeout_ms is 0 and no batch is ready. If
 *            timeout_ms and `workers` are both 0, the calling thread first makes as much of the
 *            batch as it can without waiting for a read.
 *
 * Calls that time out one after another count as one wait: in the watchdog, in the statistics and
 * in the message. So a program can look for signals between two short calls.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_next_within(iter_loader *loader, int64_t timeout_ms,
                                                            iter_batch **out, iter_error *err);

/**
 * Begins the next epoch. After END it acknowledges the END. In the middle of an epoch it drops the
 * rest of that epoch. Before an epoch's first next() it does nothing.
 *
 * Returns    OK, or END after the last of options.epochs.
 * Errors     ECANCELED (after iter_loader_cancel()), ESTATE (called from a callback of this loader,
 *            or after fork). iter_loader_seek() and iter_loader_restore() have both errors, too;
 *            iter_loader_save() has ESTATE, but not ECANCELED.
 * Threads    any; this also holds for seek, restore, save and position. If another thread waits in
 *            next() during a reset, seek or restore, its next() continues at the new place. Only
 *            restore() may wait for a callback, if the sampler is sequential.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_reset(iter_loader *loader, iter_error *err);

/** Goes to sample `sample` of `epoch`, which must be a multiple of the global batch. Under
 * roll_over, epoch x N + sample must be such a multiple; N is the number of samples. Streams and
 * sequential samplers can go to sample 0 only. Errors: EINVAL naming the nearest legal sample. */
ITER_API ITER_NODISCARD iter_status iter_loader_seek(iter_loader *loader, uint32_t epoch,
                                                     uint64_t sample, iter_error *err);

/**
 * Writes the position: everything that is needed to continue after the last batch taken.
 *
 *   out, capacity   NULL and 0 ask for the size alone
 *
 * Errors     EINVAL (capacity is too small; *out_size is the size needed), ESTATE.
 * Threads    any. It also works after iter_loader_cancel(), so a program that is told to stop can
 *            still save.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_save(iter_loader *loader, void *out,
                                                     size_t capacity, size_t *out_size,
                                                     iter_error *err);

/**
 * Continues from a saved position. It may be called at any time: batches made ahead are dropped,
 * batches that the caller holds stay valid. Workers, prefetch, source, ranks and batch size may
 * differ from those of the loader that saved. Dataset, seed, chain, sampler and roll_over must not.
 * A sequential sampler also needs the same batch_size x ranks, except at the end of an epoch.
 *
 * Errors     EINVAL (the position belongs to other data; or no batch of this size begins there: the
 *            message names the nearest position). EFORMAT (the bytes are not a saved position).
 *            ETIMEDOUT (another thread kept a sequential sampler busy for faults.timeout_ms;
 *            nothing was changed). If a sequential sampler cannot take up its saved state, the
 *            sampler's error; the loader is then at the beginning of the position's epoch.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_restore(iter_loader *loader, const void *saved,
                                                        size_t size, iter_error *err);

/** Wakes a blocked next(), which fails with ECANCELED. This cannot be undone: afterwards only save,
 * position, statistics, stop and unref work. Any thread, and signal handlers; never blocks. With
 * `workers` 0, a next() that waits for a read in another thread notices within 50 ms. */
ITER_API void iter_loader_cancel(iter_loader *loader);

/** Adds or drops a reference. Any thread. unref(NULL) does nothing. Dropping the last reference
 * stops the loader's threads; batches that the caller holds stay valid. With `workers` 0 a callback
 * of this loader must not drop the last reference. */
ITER_API iter_loader *iter_loader_ref(iter_loader *loader);
ITER_API void iter_loader_unref(iter_loader *loader);

/** Cancels. Then it waits for the workers (with `workers` 0: for reads in flight), for streams that
 * still read released batches, and for a running on_stall(), at most faults.grace_ms each. A second
 * call waits for the first one and returns the same result. Errors: ETIMEDOUT naming what is still
 * busy, such as a thread and its stage; the memory is left to it on purpose. ESTATE (after fork).
 * Any thread. */
ITER_API ITER_NODISCARD iter_status iter_loader_stop(iter_loader *loader, iter_error *err);

/** As iter_loader_stop(), but waits at most grace_ms if that is less than faults.grace_ms: for
 * programs that must end soon. grace_ms < 0 = faults.grace_ms. If another call stops the loader
 * already, its limit holds. */
ITER_API ITER_NODISCARD iter_status iter_loader_stop_within(iter_loader *loader, int64_t grace_ms,
                                                            iter_error *err);

/** How the ranks of a job share its batches. */
typedef struct iter_loader_share {
    uint32_t rank, ranks;
    uint32_t global_batch;  /* rows of a full batch over all ranks */
    uint32_t micro_batches; /* shares are whole ones of so many; 0 = they begin at any row */
    /* Equal on all ranks of a job, as for a saved position: the seed, and hashes of the dataset's
     * description, the chain's text and the sampler with its options. */
    uint64_t seed, dataset, chain, sampler;
} iter_loader_share;

/** As the options say, with their defaults filled in. Any thread. */
ITER_API iter_loader_share iter_loader_share_of(const iter_loader *loader);

/** Batches of the current epoch for this rank; ITER_UNKNOWN for streams and sequential samplers. */
ITER_API uint64_t iter_loader_n_batches(iter_loader *loader);

/** Samples of an epoch before batching (the sampler's length), or ITER_UNKNOWN. */
ITER_API uint64_t iter_loader_n_samples(iter_loader *loader);

/** The current epoch, and how many of its samples all ranks together have consumed. Any thread. */
ITER_API void iter_loader_position(iter_loader *loader, uint32_t *out_epoch, uint64_t *out_samples);

/** One field of a loader's batches. */
typedef struct iter_batch_field {
    char name[ITER_NAME_MAX];
    iter_role role;
    /* of a full batch: [batch_size, ...]; a variable dimension is ITER_VARIABLE with its
     * capacity */
    iter_desc desc;
} iter_batch_field;

/** The fields of its batches, data first: MXNet's provide_data and provide_label in one. They live
 * as long as the loader. */
ITER_API int32_t iter_loader_n_fields(const iter_loader *loader);
ITER_API const iter_batch_field *iter_loader_field(const iter_loader *loader, int32_t i);

/** The plan as text, one line per step, as `iterbench plan` prints it. It lives as long as the
 * loader. */
ITER_API const char *iter_loader_plan_text(const iter_loader *loader);

/* ---- Batches --------------------------------------------------------------------------------- */

/** Adds or drops a reference. Any thread. unref(NULL) does nothing. */
ITER_API iter_batch *iter_batch_ref(iter_batch *batch);
ITER_API void iter_batch_unref(iter_batch *batch);

/** Tensor of field i: [rows, ...] in host memory, aligned to 64 bytes unless the batch is a view,
 * valid while a reference is held. NULL if there is no field i. `data` is NULL if rows are finished
 * on the device. */
ITER_API const iter_tensor *iter_batch_tensor(const iter_batch *batch, int32_t i);

/** Whether the tensors are views of the set (see iter_views), which must not be written. */
ITER_API bool iter_batch_is_view(const iter_batch *batch);

/** The tensor of the field called `name`, or NULL. */
ITER_API const iter_tensor *iter_batch_find(const iter_batch *batch, const char *name);

/** How a batch is filled. */
typedef struct iter_batch_info {
    uint32_t epoch;  /* the epoch it belongs to */
    uint64_t number; /* of the global batch within its epoch, from 0 */
    /* number of the loader's slot that holds it; addresses depend on it alone, except of views */
    uint32_t slot;
    /* Rows of this rank's batch: first dimension of its tensors. If all ranks together
     * have fewer rows than there are ranks (in a short last batch), some ranks have 0. */
    uint32_t n_rows;
    /* MXNet's pad. ITER_LAST_PAD: how many rows at the end only fill up the batch.
     * ITER_LAST_ROLL_OVER: how many rows at the front were carried over from earlier epochs. */
    uint32_t pad;
    uint32_t first_valid; /* rows [first_valid, first_valid + n_valid) are this epoch's own */
    uint32_t n_valid;
    uint32_t n_failed; /* rows blanked or replaced */
    /* The global batch of all ranks has global_rows rows; this rank's begin at first_row. For
     * streams: first_row is 0 and global_rows is n_rows. */
    uint32_t first_row, global_rows;
} iter_batch_info;

/** How a batch is filled. Any thread that holds a reference. */
ITER_API iter_batch_info iter_batch_describe(const iter_batch *batch);

/** [n_rows]: for each row the index of its sample in the dataset (MXNet's index). */
ITER_API const uint64_t *iter_batch_index(const iter_batch *batch);
/** [n_rows]: for each row the position, in its epoch's order, at which it was drawn. */
ITER_API const uint64_t *iter_batch_position(const iter_batch *batch);
/** [n_rows]: for each row the epoch that this position belongs to. */
ITER_API const uint32_t *iter_batch_row_epoch(const iter_batch *batch);
/** [n_rows]: for each row 0 if it was blanked, else 1. */
ITER_API const uint8_t *iter_batch_valid(const iter_batch *batch);

/** Lengths [n_rows] of field i; NULL if its rows all have the same length. */
ITER_API const int32_t *iter_batch_lengths(const iter_batch *batch, int32_t i);

/* ---- Batches on a device ---------------------------------------------------------------------
 *
 *     while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
 *         iter_batch_wait(batch, stream, &err);      // the stream waits, this thread does not
 *         train<<<..., stream>>>(iter_batch_device_tensor(batch, 0)->data, ...);
 *         iter_batch_release(batch, stream, &err);   // after the last kernel that reads it
 *         iter_batch_unref(batch);                   // at once: the slot waits for the stream
 *     }
 *
 * The loader queues a batch's copies on a stream of its own when the batch is finished, before
 * next() returns it. Before iter_batch_synchronize() the tensors on the host may be read, but must
 * not be written. A slot that streams still read is not given to a new batch. If all slots are in
 * that state, next() waits for the oldest; so a slow GPU holds the loader back. */

/** Number of the batch's slot, 0 to slots - 1. As long as the loader lives, addresses on the host
 * and on the device depend on this number alone, except those of views. */
ITER_API uint32_t iter_batch_slot(const iter_batch *batch);

/** Tensor of field i on the device; `data` is a device address. It is complete after
 * iter_batch_wait(). NULL if the loader's memory is not ITER_MEMORY_DEVICE, or there is no field
 * i. */
ITER_API const iter_tensor *iter_batch_device_tensor(const iter_batch *batch, int32_t i);

/**
 * Makes a stream wait until the batch has arrived on the device. The calling thread does not wait.
 *
 *   stream  a CUstream or cudaStream_t; NULL = CUDA's default stream
 *
 * Errors   ESTATE (the batch is not on a device; the stream is being captured), EDEVICE.
 * Threads  any that holds a reference.
 */
ITER_API ITER_NODISCARD iter_status iter_batch_wait(iter_batch *batch, void *stream,
                                                    iter_error *err);

/**
 * Declares that the work queued on `stream` so far reads the batch. Its slot is not written again
 * before that work is done, even after the last unref.
 *
 * Call it before unref, once for each stream that reads the batch, for at most 8 streams. After a
 * second call for the same stream, the slot waits for all work queued up to that call. Pinned host
 * memory needs this call, too, if the caller's copies read the batch from there. If the call fails,
 * the loader does not know about the stream: the caller must synchronise the stream before unref.
 *
 * Errors   ESTATE (neither pinned nor on a device; the stream is being captured; a ninth stream),
 *          EDEVICE.
 * Threads  any that holds a reference.
 */
ITER_API ITER_NODISCARD iter_status iter_batch_release(iter_batch *batch, void *stream,
                                                       iter_error *err);

/** Blocks this thread until the batch has arrived on the device. Errors: as iter_batch_wait(). */
ITER_API ITER_NODISCARD iter_status iter_batch_synchronize(iter_batch *batch, iter_error *err);

/* ---- Statistics ------------------------------------------------------------------------------ */

/** One failed sample, as delivered. */
typedef struct iter_failure {
    uint32_t epoch;
    uint64_t position, index;
    iter_status status;
    char message[200]; /* stage: sample n (file:offset): reason */
} iter_failure;

#define ITER_STATS_WORKERS   64
#define ITER_STATS_FALLBACKS 8

typedef struct iter_worker_stats {
    uint64_t busy_ns, wait_bytes_ns, wait_slot_ns, cpu_ns;
    uint64_t chunks;
    /* runnable, but another thread had the core; 0 if the kernel does not count it */
    uint64_t run_delay_ns;
    uint64_t bytes; /* stored bytes of its chunks' samples; 0 = they have none */
} iter_worker_stats;

/** Counters since the loader was created. Plain numbers: subtract two for an interval. */
typedef struct iter_loader_stats {
    size_t struct_size;               /* sizeof(iter_loader_stats), set by the caller */
    uint64_t batches, samples, bytes; /* delivered */
    uint64_t path_bytes[ITER_PATH_COUNT];
    uint64_t next_wait_ns; /* the consumer's waits for a batch */
    /* all threads together: opening, reading, decoding to pack, batch stages */
    uint64_t open_ns, read_ns, transform_ns, batch_ns;
    uint64_t n_failures;
    uint64_t retried_reads;
    uint64_t slot_bytes, arena_bytes, scratch_bytes;
    uint64_t preload_bytes; /* allocated; if ranks share one copy, each reports its whole size */
    double preload_s;       /* time spent preloading in create */
    int32_t source;         /* iter_source in use after AUTO and fallbacks */
    int32_t n_workers;
    iter_worker_stats workers[ITER_STATS_WORKERS];
    int32_t n_fallbacks;
    char fallbacks[ITER_STATS_FALLBACKS][160]; /* what was requested but is not used, and why */
    uint64_t n_stalls;                         /* batches that stalled, by watch.stall_ms */
    char stall_text[ITER_STALL_TEXT];          /* the last one's message; "" = none */
    char device[96];                           /* "NVIDIA H200, sm_90, driver 13.0"; "" = none */
    uint64_t pinned_bytes, device_bytes;       /* allocated */
    uint64_t n_copies, copied_bytes;           /* to the device, uploads included */
    uint64_t device_wait_ns;                   /* opening: waiting for a slot that a stream reads */
    uint64_t n_warnings;                       /* samples made so far that a decoder warned about */
    char warning_text[ITER_STALL_TEXT];        /* the first one's; "" = none */
    /* Calls of next() that returned a batch, an END or an error, and the time inside them: waits,
     * and with `workers` 0 the making of batches. What is left between two calls is the
     * consumer's. */
    uint64_t next_calls, next_ns;
    /* CLOCK_MONOTONIC, ns: begin of the first such call, end of the last; 0 = there was none */
    uint64_t next_first_ns, next_last_ns;
    int32_t next_tid; /* the kernel's number of the thread that made the last call; 0 = none did */
    int32_t prefetch; /* batches that it can make ahead, after defaults and memory.limit */
    /* Answers to requests for ranges of files at URLs, by the dataset's client, so of all loaders
     * over the dataset; of a mix, by its first source's. How many said 429 or 503, how many had to
     * be asked again, their bytes, and until the first byte and the last one, all added. */
    uint64_t answers, answers_throttled, answers_again, answer_bytes;
    uint64_t answer_first_ns, answer_ns;
    int32_t connections; /* requests that may be in flight at once; 0 = the set has no URLs */
} iter_loader_stats;

/** Reads the counters. Any thread; members may be a batch apart from one another. A program that
 * was compiled with an older header gets the members that it knows. Errors: EINVAL (struct_size),
 * ESTATE (after fork). */
ITER_API ITER_NODISCARD iter_status iter_loader_stats_read(iter_loader *loader,
                                                           iter_loader_stats *out, iter_error *err);

/** What came from one part of the dataset so far, in this loader's batches. */
typedef struct iter_part_stats {
    const char *name;   /* lives as long as the dataset */
    double weight;      /* as it was given; 0 = none was */
    uint64_t n_samples; /* that it has */
    uint64_t samples;   /* delivered: rows that count, failed ones too; a pad row does not */
    uint64_t failures;  /* of them, those that failed or were replaced */
} iter_part_stats;

/** Reads the counters of each part of the dataset: out[0..capacity). Returns how many parts there
 * are; 0 = it is no mix. Any thread. */
ITER_API int32_t iter_loader_parts(const iter_loader *loader, iter_part_stats *out,
                                   int32_t capacity);

/** Writes the first `capacity` failures of delivered batches, in order. Returns how many the loader
 * has kept; it keeps at most 1,024. */
ITER_API size_t iter_loader_failures(iter_loader *loader, iter_failure *out, size_t capacity);

/* ---- What the workers do just now ------------------------------------------------------------ */

/**
 * Number of stages that a worker can be in. The loader numbers them from 0 when it is created.
 * First come these:
 *
 *     idle        none of the others
 *     wait-bytes  in the source
 *     wait-slot   asleep: no free batch, or nothing to do
 *     wait-turn   waits for another thread in get(), if the dataset lets in one at a time
 *     open, read, get, decode
 *     batch       batch stages and collate
 *     copy        only if rows are copied as they are
 *
 * Then come the chain's sample stages, each under its name. Stages that are folded into one pass
 * count as one, under the name of the first. If a name occurs again in the chain, the second stage
 * of that name is "name#2".
 */
ITER_API int32_t iter_loader_n_stages(const iter_loader *loader);
/** Name of stage `id`; NULL if there is none. Lives as long as the loader. */
ITER_API const char *iter_loader_stage_name(const iter_loader *loader, int32_t id);

/** The stage that a worker is in; -1 = no such worker. With `workers` 0, worker 0 is the caller's
 * thread. Any thread. It is one load, so a sampling thread may call it at any rate. */
ITER_API int32_t iter_loader_stage_now(const iter_loader *loader, int32_t worker);

/** What one worker does. */
typedef struct iter_activity_info {
    int32_t worker;
    char stage[ITER_NAME_MAX];
    uint64_t sample;            /* index in the dataset (of several, the first), or ITER_UNKNOWN */
    char file[ITER_FILE_SHOWN]; /* where the sample's bytes begin; "" = it has no file */
    uint64_t offset;
    /* how long it has been in that stage. Without a watchdog (watch.stall_ms) the clock is read
     * once per chunk, so this may be less. */
    uint64_t since_ns;
} iter_activity_info;

/**
 * What each worker does just now: out[0..capacity), one entry per worker.
 *
 * Returns    how many workers there are; 1 if `workers` is 0.
 * Threads    any. It takes no lock and makes no system call, but it asks the format where a sample
 *            is. Members of one entry may be a moment apart.
 */
ITER_API int32_t iter_loader_activity(const iter_loader *loader, iter_activity_info *out,
                                      int32_t capacity);

/** Since when a call of next() has been running: CLOCK_MONOTONIC, ns; 0 = none runs. Any thread. It
 * is one load, as iter_loader_stage_now(). */
ITER_API int64_t iter_loader_in_next(const iter_loader *loader);

/* ---- What a loader is made of ----------------------------------------------------------------
 *
 * For code that makes a second loader with one change, as <iter/diagnose.h> does. */

/** Its dataset and its chain, borrowed for as long as the loader lives; the chain is NULL if it has
 * none. */
ITER_API iter_dataset *iter_loader_dataset(const iter_loader *loader);
ITER_API iter_chain *iter_loader_chain(const iter_loader *loader);

/**
 * Reads the options that the loader runs with: defaults are filled in, `workers` is a number.
 * To change batch_size or global_batch for a second loader, set the other one to 0.
 *
 * The sampler is given as its table and the table's options (sampler.ops, sampler.options), however
 * it was asked for. arrays.release and collate are as the caller passed them: a second loader must
 * leave arrays.release out, because it runs once.
 *
 * Ownership  what the options point to is borrowed: strings, tables and the subset live as long as
 *            the loader; callbacks and their data belong to the program that made it.
 * Errors     EINVAL (struct_size).
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_loader_options_read(const iter_loader *loader,
                                                             iter_loader_options *out,
                                                             iter_error *err);

/** Cores that this process may use, at least 1: those of its affinity, but no more than the CPU
 * time that its control groups grant, rounded up. ITER_WORKERS_AUTO is this number, or a rank's
 * share of it if several run on the machine. */
ITER_API int32_t iter_cores(void);

ITER_END_DECLS

#endif
