/*
 * loader_state.h - one loader: which structs it consists of, which lock guards each, which file
 * changes it.
 *
 *     RUNS --stop(), or the last unref()--> STOPS --threads left, or grace_ms is over--> STOPPED
 *
 * The consumer's place in an epoch, changed by loader.c:
 *
 *     in the epoch --next() takes the last batch--> END answered --reset()--> in the next epoch
 *          ^                                                                       |
 *          +---- seek, restore: everything made ahead is dropped ------------------+
 *
 * Locks, in the order in which they are taken: opener.sampler_lock, `lock`, reading.lock.
 * watch.lock is never taken together with another. A sampler runs under sampler_lock alone. No lock
 * is held while a decoder, a stage, a format, get() or a blocking read runs; reading.h says which
 * calls of a source run under reading.lock. ARCHITECTURE.md has a table of all locks.
 */
#ifndef ITER_RUNTIME_LOADER_STATE_H
#define ITER_RUNTIME_LOADER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <iter/loader.h>

#include "iter/core/event.h"
#include "iter/dataset/dataset.h"
#include "iter/gpu/gpu.h"
#include "iter/plan/cut.h"
#include "iter/plan/plan.h"
#include "iter/reading/reading.h"
#include "iter/runtime/loader_layout.h"
#include "iter/runtime/opener.h"
#include "iter/runtime/queue.h"
#include "iter/runtime/worker.h"

/* 31 years; in nanoseconds it fits beside a clock. */
#define ITER_LONGEST_MS   ((int64_t)1000 * 1000000000)
#define ITER_FAILURES_MAX 1024

/* Which samples come, in which order. Fixed by create.c; `state` changes in the sampler's calls,
 * under opener.sampler_lock. */
typedef struct iter__sampling {
    const iter__order *order; /* how batches follow one another */
    const iter_sampler_ops *ops;
    void *state, *options;
    bool is_open;
    uint64_t bytes; /* that the sampler holds since its open() */
    uint64_t *subset;
    uint64_t id;                   /* enters the fingerprint */
    iter_locality locality;        /* of the order */
    uint64_t get_key, replace_key; /* of get()'s random numbers, and of replacement draws */
} iter__sampling;

/* Slots in host memory. Fixed by batch.c; `kind` by device_slots.c. */
typedef struct iter__slots {
    uint8_t *memory;
    size_t bytes;
    iter_batch *batches; /* [layout.n_slots] */
    int32_t kind;        /* iter_memory in use, not AUTO */
} iter__slots;

/* Data that lies in memory. Fixed by bytes.c. */
typedef struct iter__loaded {
    iter__resident resident[ITER_MAX_FIELDS]; /* where the rows of ITER_ROW_RESIDENT fields lie */
    const iter__preload *preload; /* the dataset's files, if this loader works from there */
    uint32_t local_ranks;         /* that divide this machine's memory */
    /* By stored_rows.c. is_stored: of the plan's fields, those whose rows lie there as batches have
     * them; all_stored: no batch needs anything else; views: and batches may point there. */
    bool is_stored[ITER_MAX_OUT], all_stored, views;
} iter__loaded;

/* The threads that make batches. */
typedef struct iter__workers {
    int32_t n;
    bool is_auto;                  /* ITER_WORKERS_AUTO: create.c chooses n */
    iter__worker *all;             /* [max(n, 1)]; number 0 is the consumer's thread if n is 0 */
    char (*stages)[ITER_NAME_MAX]; /* [n_stages] names, by number */
    int32_t n_stages;
    uint32_t stage_name; /* the profiler's name for making chunks */
    uint32_t sleepers;   /* workers that wait on `work`; guarded by loader.lock */
} iter__workers;

/* A thread that exists only if watch.stall_ms asks for it. Changed by watch.c. */
typedef struct iter__watch {
    pthread_t thread;
    bool running;               /* started and not joined; guarded by loader.lock */
    atomic_llong waiting_since; /* when the next() that waits was called; 0 = none waits */
    pthread_mutex_t lock;       /* guards all below; never taken under another lock */
    pthread_cond_t changed;     /* stopping, gone */
    bool stopping, gone, detached;
    uint64_t n_stalls;
    char text[ITER_STALL_TEXT]; /* the last one's */
} iter__watch;

/* Where the consumer is. Guarded by loader.lock, changed by loader.c, order.c and batch.c. */
typedef struct iter__consumer {
    iter__cursor position;
    uint64_t number; /* batches taken in this epoch */
    bool ended;      /* next() answered END, and reset() was not called yet */
    bool moved;      /* seek or restore went into the middle of an epoch, or to its end */
    bool finished;   /* after the last of opt.epochs */
    bool waits;      /* in next(), for the head of the queue */
    /* The last next() timed out: when the wait began. 0 = it did not. */
    int64_t timed_out_since;
    uint32_t n_held;
    uint8_t sampler_at[ITER_SAMPLER_BLOB];
    size_t sampler_at_bytes;
} iter__consumer;

typedef enum iter__stop_state { LOADER_RUNS, LOADER_STOPS, LOADER_STOPPED } iter__stop_state;

/* How it ends. Guarded by loader.lock, except `canceled`. Changed by loader.c, worker.c and
 * device_slots.c. */
typedef struct iter__ending {
    atomic_bool canceled; /* by iter_loader_cancel(), also in a signal handler: all threads leave */
    iter__stop_state state;
    int64_t grace_ms;    /* how long the first stop waits; faults.grace_ms or less */
    iter_error error;    /* what the first stop answered */
    uint32_t n_gone;     /* workers that left */
    pthread_cond_t left; /* a worker left its loop, or a stop ended */
    bool broken;         /* a worker could not begin, or the device is lost: next() answers why */
    iter_error broken_error;
} iter__ending;

/* Samples that failed, as delivered. Guarded by loader.lock, changed by failures.c and loader.c. */
typedef struct iter__failure_list {
    uint64_t n;
    iter_failure *list; /* [ITER_FAILURES_MAX] */
    uint32_t n_kept;
    bool gave_up; /* more than max_failures */
    iter_error error;
} iter__failure_list;

/* Counters. The atomics: any thread, relaxed. The rest: guarded by loader.lock, or written while
 * the loader is created. Read by statistics.c. */
typedef struct iter__statistics {
    atomic_ullong n_batches, n_samples, n_bytes;
    atomic_ullong next_wait_ns, open_ns, read_ns, transform_ns, batch_ns;
    /* Calls of next(). `next_since`: the call that runs now began then; 0 = none runs. */
    atomic_ullong next_calls, next_ns, next_first_ns, next_last_ns;
    atomic_llong next_since;
    atomic_uintptr_t next_thread; /* pthread_self() of the last call, whose number next_tid is */
    atomic_int next_tid;
    atomic_size_t picture_bytes; /* growing buffers, all workers */
    atomic_ullong n_warnings;
    char warning_text[ITER_STALL_TEXT]; /* the first one; guarded by loader.lock */
    int32_t n_fallbacks;
    char fallbacks[ITER_STATS_FALLBACKS][160];
} iter__statistics;

/* What came from the parts of the dataset. Fixed by create.c, but for the counters, which take()
 * adds to. */
typedef struct iter__part_counts {
    uint64_t *first; /* [n_parts + 1]: index of each part's first sample; NULL = it has no parts */
    atomic_ullong *samples, *failures; /* [n_parts] */
} iter__part_counts;

/* iter_diagnose_hook() of <iter/diagnose.h>. */
typedef void iter__diagnose_hook(iter_loader *loader, int32_t ends);

struct iter_loader {
    atomic_uint refs; /* handles */
    /* All handles together, each batch out, each leaked thread: the last one frees. */
    atomic_uint holds;
    uint32_t *alive; /* a page that fork() wipes: 1 here, 0 in a child */
    uint32_t number; /* the profiler's */
    bool once;       /* it reads every row once, for a resident set: it keeps nothing in memory */
    /* Fixed by create.c: */
    iter_dataset *dataset;
    iter_chain *chain;
    iter_loader_options opt;
    iter__diagnose_hook *diagnose_hook; /* diagnose_hook.c; NULL = no diagnosis was asked for */
    iter__plan plan;
    iter__cut cut;
    iter__layout layout;
    iter__sampling sampling;
    iter__loaded loaded;
    iter__slots slots;

    iter__loader_device device;
    iter__reading reading;
    iter__workers workers;
    iter__watch watch;
    iter__statistics stats;
    iter__part_counts parts;
    iter__event work; /* something to claim, open or read, or cancel */
    /* The head of the queue became READY, the loader went elsewhere, or cancel. */
    iter__event ready;

    pthread_mutex_t lock; /* guards what is below, and what says so above */
    iter__queue queue;
    iter__opener opener;
    iter__consumer consumer;
    iter__ending ending;
    iter__failure_list failures;
};

/* ---- observe/part_counts.c ------------------------------------------------------------------- */

iter_status iter__parts_create(iter_loader *loader, iter_error *err);
void iter__parts_free(iter_loader *loader);
/* Adds a batch that is delivered. */
void iter__parts_count(iter_loader *loader, const iter_batch *batch);

/* For field `f` of sample `index`, by this worker. */
static inline iter__decoder_use iter__worker_decoder(const iter__worker *worker, int32_t f,
                                                     uint64_t index) {
    const iter_dataset *dataset = worker->loader->dataset;
    const uint32_t way = iter__dataset_decoding(dataset, index);
    return (iter__decoder_use){
        dataset->decodings[way].decoders[f], dataset->decodings[way].shared,
        worker->decoder_states[way * (uint32_t)dataset->desc.n_fields + (uint32_t)f]};
}

/* How many there are in workers.all. */
static inline int32_t iter__n_workers_all(const iter_loader *loader) {
    return loader->workers.n > 0 ? loader->workers.n : 1;
}

/* All threads must leave. */
static inline bool iter__is_canceled(const iter_loader *loader) {
    return atomic_load_explicit(&loader->ending.canceled, memory_order_acquire);
}

/* Whether the loader was made before a fork() and this is the child, which has none of its
 * threads. */
static inline bool iter__is_orphan(const iter_loader *loader) {
    return *(volatile uint32_t *)loader->alive != 1;
}

/* Whether these are a sample's first bytes in the worker's buffer, and its row is in its place. */
static inline bool iter__is_placed(const iter__worker *worker, const uint8_t *bytes) {
    iter_loader *loader = worker->loader;
    return loader->layout.placed_head &&
           (uintptr_t)bytes - (uintptr_t)worker->hot < loader->layout.hot_bytes;
}

/* ---- create.c, destroy.c --------------------------------------------------------------------- */

void iter__loader_free(iter_loader *loader);
/* A loader of all rows as they come, in order, which keeps nothing in memory. */
iter_status iter__loader_once(iter_dataset *dataset, const iter_loader_options *options,
                              iter_loader **out, iter_error *err);

/* ---- bytes.c --------------------------------------------------------------------------------- */

/* plan: makes loader.plan, which depends on what lies in memory. choose: loads the set or not, and
 * says what the layout is made of. open: the source, and what it reads into, by the layout. */
iter_status iter__loader_plan(iter_loader *loader, iter_error *err);
iter_status iter__bytes_choose(iter_loader *loader, iter__layout_in *out, iter_error *err);
iter_status iter__bytes_open(iter_loader *loader, iter_error *err);
void iter__bytes_close(iter_loader *loader);

/* ---- stored_rows.c --------------------------------------------------------------------------- */

/* Finds out which fields are stored, see loaded.is_stored; after iter__bytes_choose(). */
void iter__stored_rows_find(iter_loader *loader);
/* Prefetches the first of the batch's n rows if this thread copies them next. */
void iter__stored_rows_ahead(const iter_loader *loader, const iter_batch *batch, uint32_t n);
/* Copies rows [first, first + n) of a stored field to their places. */
void iter__stored_rows_copy(const iter_loader *loader, const iter_batch *batch,
                            const iter__field_plan *field, uint32_t first, uint32_t n);
/* If the batch can be a view, points its tensors into the set and returns true. */
bool iter__batch_view(const iter_loader *loader, iter_batch *batch);

/* ---- loader.c -------------------------------------------------------------------------------- */

/* Drops everything made ahead and goes on at `cursor`, after `number` batches of its epoch.
 * loader.lock held. */
void iter__loader_go(iter_loader *loader, const iter__cursor *cursor, uint64_t number);
void iter__loader_hold_drop(iter_loader *loader);
/* Hashes that a position is saved with: of the dataset's description, of the chain's text. */
uint64_t iter__dataset_id(const iter_loader *loader);
uint64_t iter__chain_id(const iter_loader *loader);
iter_status iter__check_call(iter_loader *loader, iter_error *err);  /* fork, callbacks, cancel */
iter_status iter__check_alive(iter_loader *loader, iter_error *err); /* fork, callbacks */
/* loader.lock, to look at plain facts. In a child of fork() it may be locked for ever; nothing
 * changes there any more, so the facts are read without it. */
void iter__facts_lock(iter_loader *loader);
void iter__facts_unlock(iter_loader *loader);

/* ---- watch.c --------------------------------------------------------------------------------- */

iter_status iter__watch_start(iter_loader *loader, iter_error *err);
void iter__watch_cancel(iter_loader *loader); /* it must end; does not wait */
iter_status iter__watch_stop(iter_loader *loader, iter_error *err);
bool iter__is_watch_thread(const iter_loader *loader); /* loader.lock held */

#endif
