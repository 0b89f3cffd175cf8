/*
 * profiler.h - the profiler's inside, and what the runtime tells it.
 *
 * A hook is `if (iter__profiling()) iter__profile_put(...)`: a relaxed load and a branch while it is
 * off. Hooks stand where a chunk or a batch ends, never per row, and use clock values that the
 * runtime takes anyway.
 *
 * Writing and reading meet in three places, each without a lock on the writer's side:
 *
 *   the ring    Written by its thread alone, read by whoever holds the profiler's lock. The writer
 *               stores an event's words, then `head`. A reader copies the words and looks at `head`
 *               again: what may have been overwritten meanwhile is no event. Words are stored with
 *               release and loaded with acquire, so that who sees a word of a later event also sees
 *               the head that was stored before it.
 *   the cells   Sums of one name in one thread: written by that thread alone, read at any time.
 *   the session A writer says "inside" (sequentially consistent) before it looks whether the session
 *               is the one that its ring belongs to; who ends a session first takes its number away
 *               and then waits until nobody is inside. So memory is given back only behind writers.
 *
 * The lock guards everything else: threads, the list of rings, the file, new names. A thread takes
 * it for its first event of a session, for a name that is new, and when it ends.
 */
#ifndef ITER_PROFILE_PROFILER_H
#define ITER_PROFILE_PROFILER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <iter/profile.h>

#define ITER_PROFILE_NAMES 512 /* different names in a process */
#define ITER_PROFILE_WORDS 7   /* of one event in a ring */
#define ITER_PROFILE_DEPTH 32  /* scopes that are open in one thread */
#define ITER_PROFILE_TRACK 64  /* of a thread's name, with the NUL */

/* ---- Names: for the life of the process ------------------------------------------------------ */

typedef enum iter__profile_category {
    CATEGORY_LOADER,
    CATEGORY_STAGE,
    CATEGORY_READ,
    CATEGORY_WAIT,
    CATEGORY_MEMORY,
    CATEGORY_USER,
    CATEGORY_COUNTER,
    CATEGORY_COUNT
} iter__profile_category;

/* Names that are always there. 0 is what a full table answers. */
enum {
    PROFILE_OTHER,
    PROFILE_OPEN,
    PROFILE_BATCH,
    PROFILE_NEXT,
    PROFILE_HELD,
    PROFILE_ISSUE,
    PROFILE_READ,
    PROFILE_WAIT_BYTES,
    PROFILE_WAIT_SLOT,
    PROFILE_WAIT_DEVICE,
    PROFILE_HOST,
    PROFILE_PINNED,
    PROFILE_DEVICE,
    PROFILE_FIXED
};

/* The number of a name, new if need be; OTHER where the table is full. Any thread. */
uint32_t iter__profile_name(iter__profile_category category, const char *text);
const char *iter__profile_name_text(uint32_t name);
iter__profile_category iter__profile_name_category(uint32_t name);
const char *iter__profile_category_text(iter__profile_category category);
atomic_llong *iter__profile_name_value(uint32_t name); /* a counter's */
/* As much of a text as fits and is UTF-8; what is not becomes '?'. */
void iter__profile_clean(const char *text, char *out, size_t capacity);

/* ---- Hooks ----------------------------------------------------------------------------------- */

extern atomic_bool iter__profile_on;

static inline bool iter__profiling(void) {
    /* relaxed: it guards nothing; iter__profile_put() looks again. */
    return atomic_load_explicit(&iter__profile_on, memory_order_relaxed);
}

/* One event, as hooks tell it and as rings hold it. */
typedef struct iter__profile_record {
    uint32_t name;
    uint8_t type;                  /* iter_profile_type */
    uint8_t flows;                 /* FLOW_... */
    uint32_t loader, epoch, chunk; /* PROFILE_BATCH: chunk is how many the batch has */
    int64_t start_ns, duration_ns;
    uint64_t batch, serial;
    int64_t value;
} iter__profile_record;

/* Arrows in the trace: an arrow leaves the chunk's making for its batch; one comes in from its
 * read. */
enum { FLOW_TO_BATCH = 1, FLOW_FROM_READ = 2 };

void iter__profile_put(const iter__profile_record *record);

/* The next loader's number, from 1. */
uint32_t iter__profile_loader_number(void);
/* Starts the profiler if the environment asks for it and nobody did so before. `rank` of the loader
 * that is made, -1 if it is alone. What went wrong, or is otherwise than asked for, comes as text,
 * else "". */
void iter__profile_autostart(int64_t rank, char *out_why, size_t capacity);
/* What this thread's track is to be called. */
void iter__profile_thread(const char *name);

/* ---- Rings ----------------------------------------------------------------------------------- */

/* A histogram over values from 0 on: exact below 32, then 32 buckets an octave, so that a bucket's
 * middle is within 1 / 64 of each value in it; up to 2^44 (five hours of nanoseconds). */
#define ITER_PROFILE_SUB     32
#define ITER_PROFILE_OCTAVES 40
#define ITER_PROFILE_BUCKETS (ITER_PROFILE_SUB * ITER_PROFILE_OCTAVES)

/* Sums of one name in one thread. */
typedef struct iter__profile_cell {
    atomic_uint generation; /* of which these are; others say nothing */
    atomic_ullong count;
    atomic_llong total, min, max;
    atomic_ullong buckets[ITER_PROFILE_BUCKETS];
} iter__profile_cell;

typedef struct iter__profile_ring {
    struct iter__profile_ring *next; /* in the session */
    uint64_t n_events;               /* a power of two */
    atomic_ullong head;              /* events written so far; [i % n_events] holds event i */
    atomic_ullong *words;            /* [n_events * ITER_PROFILE_WORDS] */
    _Atomic(iter__profile_cell *) cells[ITER_PROFILE_NAMES]; /* made by the writer */
    /* Guarded by the lock: */
    uint64_t first;   /* events before belong to a thread that had this ring before */
    uint64_t written; /* events before are in the file, or counted as dropped */
    int32_t track;
    bool ended; /* its thread has gone */
    bool named; /* the file has its track's name */
    char name[ITER_PROFILE_TRACK];
    atomic_bool consumes; /* written by its thread: next() was called there */
    bool said_consumes;
} iter__profile_ring;

/* profile_ring.c. One event out of a ring; false where it was overwritten. */
bool iter__profile_ring_get(iter__profile_ring *ring, uint64_t at, iter__profile_record *out);

/* ---- Sessions: from start to the next start or clear ----------------------------------------- */

typedef struct iter__profile_file iter__profile_file;

typedef struct iter__profile_session {
    uint32_t number;
    uint64_t n_events;
    bool aggregates, counts_memory;
    int64_t period_ns, start_ns;
    iter__profile_ring *rings;
    uint32_t n_rings;
    int32_t n_tracks;
    atomic_uint generation; /* of the table's sums */
    atomic_ullong lost;     /* events for which there was no memory */
    uint64_t overwritten;   /* events that were not written to the file in time, or not at all */
    bool has_file;
    iter__profile_file *file; /* NULL = none, or closed by stop() */
    char renamed[100];        /* the end of its path, if another process wrote the file wanted */
    pthread_t thread;
    bool has_thread, ends; /* the thread that writes; it is to end */
    pthread_cond_t wake;   /* it, before its time */
    bool stopped;
} iter__profile_session;

/* profile.c. Takes the lock; the session under it is NULL before the first start. */
iter__profile_session *iter__profile_lock(void);
void iter__profile_unlock(void);
/* The same for `control`, behind which rings stay where they are; false, without it, in a callback
 * of iter_profile_each(), which has it. */
bool iter__profile_control_lock(iter_error *err);
void iter__profile_control_unlock(void);
/* The number of the session that takes events; 0 = none. Sequentially consistent. */
uint32_t iter__profile_number(void);
/* Inside: the session. */
iter__profile_session *iter__profile_session_now(void);
/* With the lock held: writes what is new; a session without a file writes nothing. */
iter_status iter__profile_flush(iter__profile_session *session, iter_error *err);
/* Told under the lock, or inside: there is enough to write. */
void iter__profile_wake(iter__profile_session *session);
/* Counters of memory, into the calling thread's ring. */
void iter__profile_memory(void);

/* profile_ring.c: with the lock held. */
void iter__profile_writers_wait(void); /* until nobody is inside a session that has ended */
void iter__profile_rings_free(iter__profile_session *session);
void iter__profile_threads_forget(void); /* in a child of fork(): the others are gone */
/* What stands for the values of a bucket. */
int64_t iter__profile_bucket_middle(uint32_t bucket);
/* Events that are in no ring any more, though no file had them. */
uint64_t iter__profile_overwritten(const iter__profile_session *session);
/* This thread writes little: its ring is small. */
void iter__profile_thread_small(void);
/* This thread is in iter_profile_each(): it may not start, stop or clear. */
void iter__profile_thread_calls_back(bool calls_back);
bool iter__profile_thread_is_calling_back(void);

/* profile_path.c. The name that a pattern stands for: %p is the process, %r the rank, %% a '%'. If it
 * has neither, and the rank is known (not -1), ".rankN" comes before its ending. false: too long. */
bool iter__profile_path(const char *pattern, int64_t rank, int64_t process, char *out,
                        size_t capacity);
/* "a/b.json" and "x" make "a/b.x.json". */
bool iter__profile_path_insert(const char *path, const char *word, char *out, size_t capacity);

/* profile_file.c. The session's trace, with nothing in it yet. If another process writes that file:
 * EIO, or with `may_rename` another name, which the session then has. */
iter_status iter__profile_file_open(const char *path, bool may_rename,
                                    iter__profile_session *session, iter_error *err);
/* Appends what is new in the rings. */
iter_status iter__profile_file_append(iter__profile_file *file, iter__profile_session *session,
                                      iter_error *err);
/* Writes nothing. `ours`: false in a child of fork(), which leaves the files as they are. */
void iter__profile_file_close(iter__profile_file *file, bool ours);

#endif
