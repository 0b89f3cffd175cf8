/*
 * runtime.h - the loader's inside. One loader: slots, a queue of opened batches, workers, one
 * source.
 *
 * Life of a batch: FREE (on the free list) -> OPENING (one thread fills in its rows) -> OPEN (rows
 * frozen, in the queue; chunks are worked on) -> READY (published) -> HELD (the consumer has it) -> FREE, on the way there RELEASED where a
 * GPU still reads its slot (device_slots.c). A batch that reset, seek or restore dropped goes from
 * OPEN or READY to FREE as soon as nothing works on it or reads into it.
 *
 * Life of a chunk: NEW (reads not issued) -> WAITING (reads in flight) -> READY (bytes are there)
 * -> CLAIMED (a thread works on it) -> DONE. Chunks that need no read start READY. NEW and READY
 * are left by compare-and-swap alone, so claiming takes no lock; that the winner sees the rows
 * follows from the release store that made the chunk NEW or READY.
 *
 * Locks, never held together except in this order: loader.lock, then io.lock. Neither is held while
 * a callback, a read or a decode runs; only a source's submit, commit, reap, wake and cancel, which
 * must not block, run under io.lock. A sampler has a lock of its own, see opener.h.
 */
#ifndef ITER_RUNTIME_RUNTIME_H
#define ITER_RUNTIME_RUNTIME_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include <iter/loader.h>

#include "iter/core/pack.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/device/device.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/cut.h"
#include "iter/runtime/dataset.h"
#include "iter/runtime/event.h"
#include "iter/runtime/loader_layout.h"
#include "iter/runtime/opener.h"

#define ITER_LONGEST_MS \
    ((int64_t)1000 * 1000000000) /* 31 years; in nanoseconds it fits beside a clock */
#define ITER_MAX_OUT      (2 * ITER_MAX_FIELDS)
#define ITER_FAILURES_MAX 1024
#define ITER_STREAMS_MAX  8 /* that may release a batch */

/* ---- Plan: made once, read-only -------------------------------------------------------------- */

typedef enum iter__row_from {
    ITER_ROW_RESIDENT, /* base + index * stride */
    ITER_ROW_INDEX,    /* format.index_row */
    ITER_ROW_BYTES,    /* a slice of the sample's bytes */
    ITER_ROW_DECODE,   /* decoder over the sample's bytes */
    ITER_ROW_GET,      /* written by get() or next(); rows are dense */
    ITER_ROW_SET       /* on the device already, see resident.c */
} iter__row_from;

/* Who makes a field's rows that go to a device, see device_rows.c. */
typedef enum iter__way {
    ITER_WAY_HOST,   /* workers */
    ITER_WAY_FINISH, /* workers up to the last step, a pack: that is a kernel's */
    ITER_WAY_SET,    /* a kernel, by the pack, from the resident set */
    ITER_WAY_GATHER  /* a kernel copies finished rows of the resident set */
} iter__way;

typedef struct iter__step {
    const iter__stage *stage; /* apply: this stage; pack: the first of the run */
    iter__pack *pack;         /* or NULL: stage->ops->apply */
    uint64_t key;             /* of the stage's random numbers, without the seed */
    iter_desc in, out;
    size_t scratch_bytes;
    bool is_random;   /* pack: geometry is drawn */
    bool sized;       /* apply: planned again for each sample, see picture.c; then scratch grows */
    int32_t state;    /* apply: which of the worker's transform states */
    int32_t activity; /* number of the stage that a worker is in meanwhile */
} iter__step;

typedef struct iter__batch_step {
    const iter__stage *stage;
    size_t scratch_bytes;
} iter__batch_step;

/* One output field: where its row comes from, what is done to it, where it goes. */
typedef struct iter__field_plan {
    int32_t in; /* dataset field */
    iter__row_from from;
    iter_desc source; /* the row as it comes */
    bool any_size;    /* images of any size: their sizes are known from their headers */
    bool copies;      /* one step, which only copies the row */
    int32_t n_steps, n_batch_steps;
    iter__step *steps;
    iter__batch_step *batch_steps;
    iter_desc row;    /* after the steps */
    size_t row_bytes; /* its capacity */
    size_t slot_offset, slot_bytes;
    iter__way way;
    int32_t n_made;    /* steps that workers do: all, or all but the last, or none */
    size_t made_bytes; /* of a row as they leave it in the slot; 0 = they leave nothing */
    /* Where the way is not HOST: [batch_size] iter__pack_row in the slot, which fields may share */
    size_t rows_offset;
    bool owns_rows;             /* it is the first of those that do */
    iter__pack_program program; /* FINISH, SET */
    char why[128];              /* why the way is HOST; "" = nobody asked */
    size_t device_offset;       /* in the slot's twin on a device */
    size_t lengths_offset;      /* in the slot, where the row is variable */
    bool variable;
    int32_t lengths_of; /* this field is the lengths of that plan entry, else -1 */
    iter_batch_field out;
} iter__field_plan;

struct iter__plan {
    int32_t n_fields; /* outputs, data first */
    iter__field_plan fields[ITER_MAX_OUT];
    int32_t n_states;  /* transform states per worker */
    int32_t n_growing; /* buffers per worker that grow with the pictures */
    size_t slot_bytes;
    size_t device_slot_bytes; /* of the slot's twin on a device */
    size_t step_bytes;        /* two buffers of this size per worker for rows between steps */
    size_t scratch_bytes;     /* one per worker, for pack and apply */
    size_t batch_scratch_bytes;
    size_t stage_row_bytes; /* staging of get() rows per sample, all fields */
    bool needs_get, needs_bytes;
    size_t least_extent[ITER_MAX_EXTENTS]; /* bytes that rows are taken from as they are stored */
    bool has_ways, has_set;                /* a field's way is not HOST; is SET or GATHER */
    const iter__resident *resident;        /* [n_fields of the dataset] as the loader's */
    char *text;
};

/* `resident` says which rows lie in memory; it is kept. */
iter_status iter__plan_make(iter__plan *plan, const iter_dataset *dataset,
                            const iter__resident *resident, const iter_chain *chain,
                            uint32_t batch_size, bool has_collate, iter_error *err);
void iter__plan_free(iter__plan *plan);
/* Once more, after ways were changed: places in the slot and its twin, and the text. */
iter_status iter__plan_place(iter__plan *plan, const iter_dataset *dataset, uint32_t batch_size,
                             iter_error *err);
/* Adds a line to the text. */
iter_status iter__plan_note(iter__plan *plan, const char *line, iter_error *err);

/* ---- Batches --------------------------------------------------------------------------------- */

/* What became of a row. A reader makes a FINE row MISSING, whoever reaps; all else is done by the
 * thread that works on its chunk: MISSING becomes FINE when the bytes came after all, or FAILED;
 * FAILED becomes REPLACED when another sample took its place. */
typedef enum iter__row_state {
    ROW_FINE,
    ROW_MISSING, /* its bytes did not come: to be read once more */
    ROW_FAILED,
    ROW_LACKING, /* failed for a lack of the process, not of the sample: on_error does not apply */
    ROW_REPLACED /* failed, and another sample stands there */
} iter__row_state;

enum { CHUNK_DONE = 0, CHUNK_NEW, CHUNK_WAITING, CHUNK_READY, CHUNK_CLAIMED };

/* Why a row failed, see failures.c. */
typedef struct iter__row_failure {
    struct iter__row_failure *next; /* the next row's */
    uint32_t row;
    iter_failure failure;
} iter__row_failure;

typedef struct iter__chunk {
    atomic_int state;
    uint32_t first, n;           /* rows of the batch */
    uint32_t n_made;             /* of them, those that were made while the reads were issued */
    atomic_int reads_left;       /* completions to come, plus one while reads are being issued */
    uint32_t n_reads;            /* at reads[first * n_extents] of its batch */
    uint64_t region;             /* number of its region in the arena, from 1; 0 = none */
    int64_t issued_ns;           /* when its reads were; valid while it is WAITING */
    iter__row_failure *failures; /* of its rows that failed, in their order */
    struct iter_batch *batch;
} iter__chunk;

typedef struct iter__frame iter__frame;

/* One read of a chunk: rows [first_row, first_row + n_rows) of the batch, extent e of each. */
typedef struct iter__chunk_read {
    iter_read read; /* first: reap() hands it back */
    iter__chunk *chunk;
    uint32_t first_row, n_rows;
    int32_t extent;
    struct iter__frame *frame; /* the frame that it fills, or that its row lies in; NULL = none */
    struct iter__chunk_read *next; /* backlog */
    iter_iovec part;               /* the single target, where there is one */
    uint64_t sample;               /* index of its first row, for who looks from outside */
    atomic_bool completed;         /* likewise */
} iter__chunk_read;

typedef enum iter__batch_state {
    BATCH_FREE,
    BATCH_OPENING,
    BATCH_OPEN,
    BATCH_READY,
    BATCH_HELD,
    BATCH_RELEASED
} iter__batch_state;

/* A slot as a GPU's streams see it; all zero where slots are plain host memory. */
typedef struct iter__slot_device {
    iter_tensor *tensors;        /* [n_fields] in the twin, or NULL */
    iter__device_event *arrived; /* behind the copies of the batch */
    iter__device_event *released[ITER_STREAMS_MAX];
    atomic_uint marked; /* bit i: released[i] was marked and is not known to have passed */
    atomic_uintptr_t streams[ITER_STREAMS_MAX]; /* 1 + the stream that marked it; 0 = none yet */
    atomic_bool arrives;                        /* likewise `arrived` */
} iter__slot_device;

struct iter_batch {
    iter_loader *loader;
    atomic_uint refs;
    uint32_t slot;
    uint8_t *memory;
    iter_tensor tensors[ITER_MAX_OUT];
    uint64_t *index, *position;
    uint32_t *row_epoch;
    uint8_t *valid;
    int32_t *lengths[ITER_MAX_OUT];
    iter_batch_info info;
    iter_status status;
    iter_error error;
    atomic_uchar *row_state; /* [batch_size] iter__row_state */
    atomic_uint n_nodes;     /* reasons that its chunks hold */

    iter__slot_device device;

    /* Guarded by loader.lock: */
    iter__batch_state state;
    atomic_bool dropped;   /* also read where the last chunk ends: some may not have been made */
    iter_batch *next_free; /* or the next released one */
    int32_t writer;        /* number of the worker that opened it last, from 1; 0 = none yet */
    iter__cursor after;    /* the position once it is taken */
    uint8_t sampler_after[ITER_SAMPLER_BLOB];
    size_t sampler_after_bytes;

    atomic_uint n_chunks; /* atomic for those who still look at a batch that ended under them */
    iter__chunk *chunks;
    atomic_uint chunks_left;
    iter_extent *extents;    /* [batch_size * n_extents] */
    const uint8_t **bytes;   /* [batch_size * n_extents] where each extent's bytes are */
    iter__chunk_read *reads; /* [batch_size * n_extents] */
    int64_t opened_ns;
    int64_t taken_ns; /* by next(), while the profiler was on; else 0 */
    uint64_t serial;  /* of the loader's opened batches, from 1 */
    bool rewinds;     /* streams: this batch begins an epoch */
    uint64_t skip;    /* streams: samples to read and forget before the first row */
};

/* The queue of opened batches, in order, with the ENDs between epochs. */
typedef struct iter__entry {
    iter_batch *batch; /* NULL = END */
    uint32_t epoch;
    bool empty;         /* END of an epoch without batches */
    iter__cursor after; /* END: the position once it is answered */
} iter__entry;

/* ---- Reading --------------------------------------------------------------------------------- */

/* Bytes from the source: one lock, one byte arena. See reads.c. */
typedef struct iter__pool iter__pool;
typedef struct iter__frames iter__frames;

typedef struct iter__region {
    size_t at, bytes;
    bool done;
} iter__region;

/* What reading asks of the runtime: by a table, so that the room does not link back to it. */
typedef struct iter__reading_calls {
    /* Makes rows [first, first + n) of a claimed chunk, whose bytes are here. */
    void (*make_rows)(iter_loader *loader, iter__worker *worker, iter_batch *batch, uint32_t first,
                      uint32_t n);
    /* Chunks of the batch ended without being made, because it was dropped. */
    void (*end_chunks)(iter_loader *loader, iter__worker *worker, iter_batch *batch, uint32_t n);
    /* Which samples stand at these positions; see iter__sampler_index(). */
    iter_status (*sample_at)(iter_loader *loader, uint32_t epoch, uint64_t position, uint32_t n,
                             uint64_t *out, bool may_wait, iter_error *err);
} iter__reading_calls;

typedef struct iter__io {
    const iter__reading_calls *calls;
    const iter_source_ops *ops; /* NULL = nothing is read */
    void *state;
    bool async; /* reads are queued and reaped */
    bool is_open;
    iter__pool *pool;     /* threads that make a blocking source asynchronous, or NULL */
    pthread_mutex_t lock; /* the source lock: guards all below and the source's submission side */
    uint8_t *arena;
    size_t arena_bytes, arena_head; /* a ring of regions; next free byte */
    iter__region *regions;          /* in allocation order, region k at [k % n_regions] */
    uint64_t region_first, region_next;
    atomic_uint releases; /* regions given back so far: has there been one since? */
    uint32_t n_regions;
    iter__chunk_read *backlog, *backlog_last; /* not submitted yet, the source being full */
    bool unsent; /* the source holds reads that the last commit did not send */
    bool canceled;
    atomic_bool reading; /* somebody waits in the source */
    atomic_uint pending; /* reads that have not completed */
    atomic_int misses;   /* try_read is switched off for so many reads */
    atomic_ullong path_bytes[ITER_PATH_COUNT];
    atomic_ullong retried;
    iter__frames *frames; /* block shuffles: the arena as windows of files, see frames.c */
} iter__io;

/* ---- Workers --------------------------------------------------------------------------------- */

/* What a thread does just now, for timeouts and samplers; written by it alone, read by anyone.
 * Relaxed, all of it: readers make do with members that are a moment apart. */
typedef struct iter__activity {
    atomic_int stage;             /* number of a stage: one of these, or one of the plan's steps */
    atomic_int slot;              /* of the batch that it works on, from 1; 0 = none */
    atomic_ullong index;          /* sample, or ITER_UNKNOWN */
    atomic_ullong object, offset; /* where its bytes begin; object ITER_UNKNOWN = nowhere */
    atomic_llong since_ns; /* when it began; without a watchdog, when its chunk or wait did */
} iter__activity;

enum {
    ACTIVITY_IDLE,
    ACTIVITY_WAIT_BYTES,
    ACTIVITY_WAIT_SLOT,
    ACTIVITY_WAIT_TURN,
    ACTIVITY_OPEN, /* from here on it is at work */
    ACTIVITY_READ,
    ACTIVITY_GET,
    ACTIVITY_DECODE,
    ACTIVITY_BATCH,
    ACTIVITY_FIXED /* the plan's steps follow, see activity.c */
};

/* Memory that grows with the largest picture so far. */
typedef struct iter__growing {
    uint8_t *data;
    size_t bytes;
} iter__growing;

#define ITER_GROWING 3 /* an image, what a step makes of it, scratch */

/* An image on its way through steps that take any size. */
typedef struct iter__picture {
    iter_tensor image; /* dense */
    int32_t buffer;    /* which of the worker's growing ones it lies in; -1 = in none */
    bool wished;       /* it is the part that the next step wants; rng is as its wish left it */
    iter_rng rng;      /* of the next step */
    int32_t n_steps;   /* that were done while it was decoded: 0 to 2 */
} iter__picture;

struct iter__worker {
    iter_loader *loader;
    pthread_t thread;
    int32_t number;
    bool running; /* the thread was started and not joined */
    bool gone;    /* guarded by loader.lock: it has left its loop */
    bool detached;
    clockid_t cpu_clock;
    uint8_t *memory; /* step buffers, staging, scratch, in one block */
    uint8_t *step[2], *staging, *scratch, *batch_scratch;
    uint8_t *hot;          /* [layout.hot_bytes] rows that are read and made at once */
    uint32_t staging_rows; /* rows that one get() is asked for */
    int32_t *get_lengths;  /* [n_fields * staging_rows] */
    iter_rng *rng;         /* [staging_rows] */
    iter__growing growing[ITER_GROWING];
    /* where this worker found its last chunk; chunks are claimed there without a lock */
    iter_batch *current;
    void **transform_states; /* [plan.n_states] */
    void *decoder_states[ITER_MAX_FIELDS];
    void *user_state;
    unsigned alloc_refused; /* iter__alloc_refused() when it began these rows */
    bool begun;             /* the user's start() has run */
    iter__activity activity;
    atomic_int tid; /* the kernel's number of its thread; 0 = none of the loader's own */
    atomic_ullong busy_ns, wait_bytes_ns, wait_slot_ns, chunks, bytes;
};

/* ---- Watchdog -------------------------------------------------------------------------------- */

/* A thread that is there where watch.stall_ms asks for one, see watch.c. */
typedef struct iter__watch {
    pthread_t thread;
    bool running;               /* the thread was started and not joined; guarded by loader.lock */
    atomic_llong waiting_since; /* when the next() that is under way was called; 0 = none is */
    pthread_mutex_t lock;       /* guards all below; taken behind no other lock */
    pthread_cond_t changed;     /* stopping, gone */
    bool stopping, gone, detached;
    uint64_t n_stalls;
    char text[ITER_STALL_TEXT]; /* the last one's */
} iter__watch;

/* ---- Device ---------------------------------------------------------------------------------- */

/* All rows of a dataset on the device, see resident.c. */
typedef struct iter__resident_set {
    iter__device_address memory; /* 0 = there is none */
    size_t bytes;
    iter__device_address fields[ITER_MAX_OUT]; /* [n_rows + 1] rows each; the last one is zero */
    uint64_t n_rows;
    iter_failure *failed; /* [n_failed] samples without a row, by index */
    size_t n_failed, failed_capacity;
    bool is_off; /* it is not to be had */
} iter__resident_set;

/* Slots that a GPU reads, see device_slots.c. */
typedef struct iter__loader_device {
    iter__device *handle; /* NULL = slots are plain host memory */
    bool pinned;          /* the slots' mapping is page-locked */
    /* of the slots' twins, one behind the other; 0 = batches stay on the host */
    iter__device_address twins;
    size_t twin_bytes;
    iter__resident_set set;
    bool no_kernels;          /* they cannot be loaded */
    iter__device_event *last; /* for who waits until the loader's stream is done */
    atomic_ullong n_copies, copied_bytes, wait_ns;
    /* Guarded by loader.lock: */
    iter_batch *oldest, *newest; /* RELEASED batches, in order */
    uint32_t n_released;
    bool awaited; /* a worker naps until one of them has passed */
} iter__loader_device;

/* ---- Loader ---------------------------------------------------------------------------------- */

/* What is known of the order: whether neighbours come together, or blocks of them do. */
typedef struct iter__locality {
    bool is_ordered;
    uint64_t block_rows, block_buffer; /* 0 = no blocks */
} iter__locality;

typedef enum iter__stop_state { LOADER_RUNS, LOADER_STOPS, LOADER_STOPPED } iter__stop_state;

struct iter_loader {
    atomic_uint refs; /* handles */
    /* for the profiler: which loader it is, and under which name chunks are made */
    uint32_t number, stage_name;
    /* the handles together, each batch out, each leaked thread: memory goes with the last */
    atomic_uint holds;
    uint32_t *alive; /* a page that fork() wipes: 1 here, 0 in a child */
    iter_dataset *dataset;
    iter_chain *chain;
    iter_loader_options opt;
    /* the dataset's files in memory, if this loader works from there */
    iter__resident resident[ITER_MAX_FIELDS]; /* where the rows of ITER_ROW_RESIDENT fields lie */
    const iter__preload *preload;
    uint32_t local_ranks; /* that this machine's memory is divided by */
    iter__plan plan;
    iter__cut cut;
    bool once; /* it reads every row once, for a resident set: nothing is kept in memory for it */

    const iter__order *order; /* how batches follow one another */
    const iter_sampler_ops *sampler;
    void *sampler_state, *sampler_options;
    bool sampler_open;
    uint64_t *subset;
    uint64_t sampler_id; /* enters the fingerprint */
    iter__locality locality;

    uint8_t *slots;
    size_t slots_bytes;
    iter__layout layout;
    iter_batch *batches;
    int32_t source; /* iter_source in use */
    int32_t memory; /* iter_memory in use, not AUTO */
    iter__loader_device device;

    iter__io io;
    int32_t n_workers;
    /* [max(n_workers, 1)]; number 0 serves the caller's thread when n_workers is 0 */
    iter__worker *workers;
    char (*stages)[ITER_NAME_MAX]; /* [n_stages] names, by number */
    int32_t n_stages;
    iter__watch watch;
    uint64_t get_key,
        replace_key; /* of the random numbers handed to get(), and of replacement draws */

    atomic_bool canceled; /* by iter_loader_cancel(): everyone leaves */
    iter__event work;     /* something to claim, open or read, or cancel */
    iter__event
        ready; /* the head of the queue became READY, the loader went elsewhere, or cancel */
    pthread_mutex_t lock; /* guards all below */
    iter_batch *free_list;
    uint32_t n_free;
    iter__entry *queue;
    uint32_t queue_first, queue_count;
    iter__opener opener;
    iter__cursor position;    /* the consumer's */
    uint64_t position_number; /* batches taken in this epoch */
    bool ended;               /* END was answered, reset() not yet called */
    bool moved;               /* seek or restore went into the middle of an epoch, or to its end */
    bool finished;            /* behind the last of opt.epochs */
    uint8_t sampler_at[ITER_SAMPLER_BLOB];
    size_t sampler_at_bytes;
    uint32_t n_held;
    uint32_t sleepers; /* workers waiting on `work` */
    bool consumer_waits;
    iter__stop_state stop_state;
    iter_error stop_error; /* what the stop that was first answered */
    uint32_t n_gone;
    pthread_cond_t left; /* a worker has left its loop, or a stop has ended */
    bool broken;         /* a worker could not begin, or the device is lost: next() answers why */
    iter_error broken_error;
    bool gave_up; /* max_failures */
    iter_error gave_up_error;

    /* Statistics: */
    atomic_ullong n_batches, n_samples, n_bytes, next_wait_ns, open_ns, read_ns, transform_ns,
        batch_ns;
    uint64_t n_failures;
    iter_failure *failures; /* [ITER_FAILURES_MAX] */
    uint32_t n_failures_kept;
    int32_t n_fallbacks;
    char fallbacks[ITER_STATS_FALLBACKS][160];
    atomic_size_t picture_bytes; /* growing buffers, all workers */
    atomic_ullong n_warnings;
    char warning_text[ITER_STALL_TEXT]; /* the first one; guarded by loader.lock */
};

/* A span of a batch, for the profiler; the caller adds what else there is to say. */
static inline iter__profile_record iter__profile_span(const iter_batch *batch, uint32_t name,
                                                      int64_t start_ns, int64_t end_ns) {
    return (iter__profile_record){.name = name,
                                  .type = ITER_PROFILE_SPAN,
                                  .loader = batch->loader->number,
                                  .epoch = batch->info.epoch,
                                  .start_ns = start_ns,
                                  .duration_ns = end_ns - start_ns,
                                  .batch = batch->info.number,
                                  .serial = batch->serial,
                                  .value = batch->info.n_rows};
}

/* batch.c */
iter_status iter__batches_make(iter_loader *loader, iter_error *err);
void iter__batches_free(iter_loader *loader);
void iter__batch_give_back(
    iter_batch *batch); /* loader.lock held: to the free list, waking who waits */
iter_status iter__slots_map(iter_loader *loader, iter_error *err); /* once; page-locked, if asked */

/* device_slots.c: slots that a GPU reads */
iter_status iter__device_slots_open(iter_loader *loader,
                                    iter_error *err);                     /* the device, if asked */
iter_status iter__device_slots_pin(iter_loader *loader, iter_error *err); /* behind the mapping */
iter_status iter__device_slots_make(iter_loader *loader, iter_error *err); /* twins and events */
/* At most grace_ms: nothing is read any more, but for batches that are held. ETIMEDOUT otherwise;
 * then memory is to be leaked. No thread works on the loader. */
iter_status iter__device_slots_settle(iter_loader *loader, iter_error *err);
void iter__device_slots_free(iter_loader *loader); /* all of it settled, or the device lost */
/* The batch's tensors in the twin, from those on the host. EINVAL where one lies elsewhere. */
iter_status iter__device_tensors(iter_loader *loader, iter_batch *batch, iter_error *err);
/* Queues the copies of a finished batch; what goes wrong is the batch's error. */
void iter__batch_send(iter_loader *loader, iter_batch *batch);
/* With loader.lock held; it is let go in between. reclaim: looks at released slots without waiting;
 * true = the free list has one. await: until there is one, at most timeout_ns (< 0: for ever), or
 * until `work` is signaled. */
void iter__slot_put_released(iter_loader *loader, iter_batch *batch);
bool iter__slots_reclaim(iter_loader *loader);
void iter__slots_await(iter_loader *loader, int64_t timeout_ns);

/* device_rows.c: rows that a kernel finishes. plan: chooses ways, as asked; behind make_plan(). */
iter_status iter__device_rows_plan(iter_loader *loader, iter_error *err);
/* Says by kernel rows what is to become of rows [first, first + n); of a row that failed: zero. */
void iter__device_rows_make(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                            uint32_t first, uint32_t n);
void iter__device_row_blank(iter_loader *loader, iter_batch *batch, uint32_t row);
/* Bytes [*out_first, *out_end) of the slot that go to the twin for such a field, part 0 or 1. */
bool iter__device_rows_span(const iter_batch *batch, const iter__field_plan *field, int part,
                            size_t *out_first, size_t *out_end);
/* Behind the copies of a batch: a launch a field. `twin` is the address of the slot's. */
iter_status iter__device_rows_launch(iter_loader *loader, const iter_batch *batch,
                                     iter__device_address twin, iter_error *err);

/* resident.c. upload: `open` makes the loader that reads the rows. Makes loader.device.set, for fields whose way is SET or GATHER; on an error
 * there is none. fail: rows of samples that could not be read fail as they did then. */
typedef iter_status iter__loader_open(iter_dataset *dataset, const iter_loader_options *options,
                                      iter_loader **out, iter_error *err);
iter_status iter__resident_upload(iter_loader *loader, iter__loader_open *open, iter_error *err);
void iter__resident_fail(iter_loader *loader, iter_batch *batch, uint32_t first, uint32_t n);
void iter__resident_free(iter_loader *loader);

/* queue.c: all with loader.lock held */
iter__entry *iter__queue_at(iter_loader *loader, uint32_t i);
void iter__queue_push(iter_loader *loader, const iter__entry *entry);
void iter__queue_pop(iter_loader *loader);
void iter__queue_drop(iter_loader *loader, uint32_t n); /* the first n entries, batches all */
void iter__queue_clear(iter_loader *loader);

/* Everyone is to leave. */
static inline bool iter__is_canceled(const iter_loader *loader) {
    return atomic_load_explicit(&loader->canceled, memory_order_acquire);
}

/* reads.c */
/* Issues the reads of a claimed NEW chunk. 1 = its bytes are here, the chunk is the caller's to
 * work on; 0 = in flight; -1 = no arena space, the chunk is NEW again. */
int iter__io_issue(iter_loader *loader, iter__worker *worker, iter__chunk *chunk);
/* As the reader (io.reading was won by the caller): waits in the source, reaps, hands the role
 * back. */
void iter__io_wait(iter_loader *loader, iter__worker *worker, int64_t timeout_ns);
void iter__io_poll(iter_loader *loader, iter__worker *worker); /* reaps what is there */
void iter__io_release(iter_loader *loader,
                      iter__chunk *chunk); /* the chunk's bytes are no longer needed */
void iter__io_wake(iter_loader *loader);   /* makes a waiting reader return */
void iter__io_cancel(iter_loader *loader);
bool iter__io_reads_ahead(
    iter_loader *loader); /* cold: issue reads before working on what is there */
iter_status iter__io_read_row(iter_loader *loader, iter_batch *batch, uint32_t row,
                              iter_read *out_failed);   /* blocking */
void iter__io_queue(iter__io *io, iter__chunk_read *r); /* io.lock held: to be submitted */
void iter__io_pump(iter__io *io);                       /* io.lock held: submits what is queued */

/* placed.c. find: whether rows can be read so: which output's, and as loader_layout.h has it; head 0 = none.
 * run: reads rows from `row` on, as far as they lie one behind the other, and answers how many came
 * and are where they should be; the rest is to be read and decoded. Adds what was read. */
void iter__placed_find(const iter__plan *plan, const iter_description *desc, int32_t *out_field,
                       size_t *out_head, size_t *out_stride);
uint32_t iter__placed_run(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                          uint32_t row, uint32_t end, uint64_t path_bytes[ITER_PATH_COUNT]);
/* Whether these are a sample's first bytes in the worker's buffer, and its row is where it goes. */
static inline bool iter__is_placed(const iter_loader *loader, const iter__worker *worker,
                                   const uint8_t *bytes) {
    return loader->layout.placed_head &&
           (uintptr_t)bytes - (uintptr_t)worker->hot < loader->layout.hot_bytes;
}
bool iter__io_try(iter__io *io, iter_read *read); /* without blocking; true when all is there */

/* frames.c. issue: as iter__io_issue(). loaded: io.lock held; rows that waited, by `next`. */
size_t iter__frames_books_bytes(uint32_t n);
iter_status iter__frames_make(iter_loader *loader, iter_error *err);
int iter__frames_issue(iter_loader *loader, iter__chunk *chunk);
void iter__frames_release(iter_loader *loader, iter__chunk *chunk); /* io.lock held */
iter__chunk_read *iter__frame_loaded(iter_loader *loader, iter__chunk_read *r);
/* The first frame that a WAITING chunk waits for: its read, and since when. loader.lock held. */
bool iter__frames_awaited(iter_loader *loader, const iter__chunk *chunk, iter__chunk_read *out,
                          int64_t *out_issued_ns);
void iter__frames_read_ahead(iter_loader *loader);
/* pool.c: wraps a blocking source; afterwards ops and state are the pool's. */
iter_status iter__pool_make(iter_loader *loader, uint32_t depth, iter_error *err);
void iter__pool_free(iter__io *io);

/* work.c */
void iter__chunk_work(iter_loader *loader, iter__worker *worker, iter__chunk *chunk);
void iter__chunk_done(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                      uint32_t n_chunks);
/* Tells the profiler that rows of a chunk were made, and whether they were the last ones. */
void iter__profile_chunk(const iter__chunk *chunk, uint32_t n_rows, bool ends, int64_t start,
                         int64_t end);
void iter__profile_batch(const iter_batch *batch, int64_t start, int64_t end);
iter_status iter__worker_start(iter__worker *worker,
                               iter_error *err); /* memory, transforms, decoders */
void iter__worker_stop(iter__worker *worker);
iter_status iter__worker_begin(iter__worker *worker,
                               iter_error *err); /* the user's start(), in the worker's thread */
void iter__worker_end(iter__worker *worker);

/* picture.c */
void iter__pictures_free(iter__worker *worker);
/* The random numbers of a step for one row. */
iter_rng iter__step_rng(const iter_loader *loader, const iter_batch *batch, uint32_t row,
                        const iter__step *step);
/* An image that lies somewhere, dense and not to be changed. */
void iter__picture_lies(iter__picture *p, const iter_desc *desc, const void *data);
/* Decodes what the field's first step wants. Where the step takes rows as they come, it is done with
 * them, and so is a pack behind it: outs[] are what the first two steps write to. */
iter_status iter__picture_decode(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                                 const iter__field_plan *field, uint32_t row, const uint8_t *bytes,
                                 size_t size, void *const outs[2], iter__picture *out,
                                 iter_error *err);
/* A sized step over p, into `out`, or, where that is NULL, into a growing buffer. p->rng is set. */
iter_status iter__picture_step(iter_loader *loader, iter__worker *worker, const iter__step *step,
                               void *out, iter__picture *p, iter_error *err);

/* activity.c. The worker is in this stage from now on. */
static inline void iter__activity_set(iter__worker *worker, int32_t stage, uint64_t index) {
    atomic_store_explicit(&worker->activity.index, index, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.stage, stage, memory_order_relaxed);
}
/* The same, where a step may take its time: a watchdog is told when it began. */
static inline void iter__activity_begins(iter__worker *worker, int32_t stage, uint64_t index) {
    if (worker->loader->opt.watch.stall_ms)
        atomic_store_explicit(&worker->activity.since_ns, iter__now_ns(), memory_order_relaxed);
    iter__activity_set(worker, stage, index);
}
/* It works on rows of this batch, or waits or idles (NULL), since then. */
static inline void iter__activity_of(iter__worker *worker, const iter_batch *batch,
                                     int64_t since_ns) {
    atomic_store_explicit(&worker->activity.since_ns, since_ns, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.object, ITER_UNKNOWN, memory_order_relaxed);
    atomic_store_explicit(&worker->activity.slot, batch ? (int)batch->slot + 1 : 0,
                          memory_order_relaxed);
}
iter_status iter__stages_make(iter_loader *loader, iter_error *err); /* numbers and names */
/* The same for a row, and where its sample's bytes begin. */
void iter__activity_row(iter__worker *worker, int32_t stage, const iter_batch *batch, uint32_t row);
/* Where a sample's bytes begin: file, as much of its end as fits, and offset; false = nowhere. Asks
 * the format, which may hang: not under a lock. */
bool iter__where(const iter_loader *loader, uint64_t index, char *file, size_t capacity,
                 uint64_t *out_offset);
/* As much of a path's end as fits, escaped. */
void iter__path_shown(char *out, size_t capacity, const char *path);
/* stall.c. What keeps the batch that next() waits for, and a message that says so. loader.lock held. */
void iter__stall_find(iter_loader *loader, int64_t waited_ns, iter_stall *out);

/* watch.c */
iter_status iter__watch_start(iter_loader *loader, iter_error *err);
void iter__watch_cancel(iter_loader *loader); /* it is to end; does not wait */
iter_status iter__watch_stop(iter_loader *loader, iter_error *err);
bool iter__is_watch_thread(const iter_loader *loader); /* loader.lock held */

/* sample.c: row after row of one chunk; see there */
void iter__rows_make(iter_loader *loader, iter__worker *worker, iter_batch *batch, uint32_t first,
                     uint32_t n);
/* Rows of a stream's next batch: how many there were; batch->status tells an error. */
uint32_t iter__rows_stream(iter_loader *loader, iter__worker *worker, iter_batch *batch,
                           iter_error *err);
/* Replaces or blanks failed rows, as the loader's on_error says. */
void iter__rows_mend(iter_loader *loader, iter__worker *worker, iter_batch *batch, uint32_t first,
                     uint32_t n);
/* failures.c. By the thread that works on the row's chunk, but for _miss(): any that reaps. */
static inline iter__row_state iter__row_state_get(const iter_batch *batch, uint32_t row) {
    return (iter__row_state)atomic_load_explicit(&batch->row_state[row], memory_order_relaxed);
}
/* The row is not to be worked on any more. */
static inline bool iter__row_failed(const iter_batch *batch, uint32_t row) {
    const iter__row_state state = iter__row_state_get(batch, row);
    return state == ROW_FAILED || state == ROW_LACKING;
}
void iter__row_set(iter_batch *batch, uint32_t row, iter__row_state state);
void iter__row_miss(iter_batch *batch, uint32_t row); /* its bytes did not come */
/* Records why a row failed: stage, sample, file. */
void iter__row_fail(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                    const char *stage, const char *reason);
/* The same if the process lacks something: then the batch fails, whatever on_error is. */
void iter__row_lacks(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                     const char *stage, const char *reason);
bool iter__is_lack(int os_error); /* whether errno tells such a lack */
void iter__row_fail_as(iter_batch *batch, uint32_t row, const iter_failure *why);
iter_failure iter__row_reason(const iter_batch *batch, uint32_t row); /* why it failed */
/* The batch's status, by its rows, once all are made. */
void iter__batch_judge(iter_loader *loader, iter_batch *batch);
/* Into the consumer's list. loader.lock held. */
void iter__failures_book(iter_loader *loader, const iter_batch *batch);
void iter__failures_clear(iter_batch *batch); /* frees the reasons */

/* The loader whose code this thread runs just now: its callbacks may not call into it. */
extern _Thread_local const iter_loader *iter__in_callback_of;

/* worker.c */
typedef enum iter__work { ITER_WORK_NONE, ITER_WORK_DONE, ITER_WORK_WAITED } iter__work;
/* One unit of work; else waits in the source as the reader, at most timeout_ns (< 0: for ever);
 * else sleeps, if it may. NONE: there was nothing to do or to wait for, or the loader stops. */
iter__work iter__work_once(iter_loader *loader, iter__worker *worker, bool may_sleep,
                           int64_t timeout_ns);
iter_status iter__workers_make(iter_loader *loader, iter_error *err); /* their memory and states */
iter_status iter__workers_run(iter_loader *loader, iter_error *err);  /* their threads */

/* bytes.c. plan: makes loader.plan, which depends on what lies in memory. choose: loads the set or not, and says what the layout is made of. open: the source, and what
 * it reads into, by the layout. */
iter_status iter__loader_plan(iter_loader *loader, iter_error *err);
iter_status iter__bytes_choose(iter_loader *loader, iter__layout_in *out, iter_error *err);
iter_status iter__bytes_open(iter_loader *loader, iter_error *err);
void iter__bytes_close(iter_loader *loader);

/* make.c */
void iter__loader_free(iter_loader *loader);
/* A loader of all rows as they come, in order, which keeps nothing in memory. */
iter_status iter__loader_once(iter_dataset *dataset, const iter_loader_options *options,
                              iter_loader **out, iter_error *err);

/* loader.c */
/* Everything made ahead is dropped; work goes on at `cursor`, after `number` batches of its epoch.
 * loader.lock held. */
void iter__loader_go(iter_loader *loader, const iter__cursor *cursor, uint64_t number);
void iter__loader_hold_drop(iter_loader *loader);
void iter__fallback(iter_loader *loader, const char *text);
iter_status iter__check_call(iter_loader *loader, iter_error *err);  /* fork, callbacks, cancel */
iter_status iter__check_alive(iter_loader *loader, iter_error *err); /* fork, callbacks */
/* Whether the loader was made before a fork() and this is the child, where it has no threads. */
static inline bool iter__is_orphan(const iter_loader *loader) {
    return *(volatile uint32_t *)loader->alive != 1;
}
/* loader.lock to look at plain facts. In a child of fork() it may be locked for ever; nothing changes
 * there any more, so the facts are read as they are. */
void iter__facts_lock(iter_loader *loader);
void iter__facts_unlock(iter_loader *loader);

#endif
