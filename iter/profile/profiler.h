/*
 * profiler.h - inside the profiler: hooks, rings, sessions, the trace's file.
 *
 * A hook is `if (iter__profiling()) iter__profile_put(...)`. While the profiler is off, that costs
 * a relaxed load and a branch. Hooks are called when a chunk or a batch ends, never per row, with
 * clock values that the runtime reads anyway.
 *
 * Writers and readers share three things. The writer takes no lock for any of them:
 *
 *   the ring    Only its thread writes it; a thread that holds the profiler's lock reads it. The
 *               writer stores an event's words, then `head`. A reader copies the words, then loads
 *               `head` again, and drops an event that may have been overwritten in between. Words
 *               are stored with release and loaded with acquire: a reader that sees a word of a
 *               later event also sees the head that was stored before it.
 *   the cells   Sums of one name in one thread. Only that thread writes them; any thread may read.
 *   the session A writer first sets `inside`, then checks that the current session is the one that
 *               its ring belongs to. A thread that ends a session first clears its number, then
 *               waits until no writer is inside. Both orders are sequentially consistent, so memory
 *               is freed only after its last writer has left.
 *
 * The lock guards all the rest: the threads, the list of rings, the file, new names. A thread takes
 * it for its first event of a session, for a new name, and when it ends.
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

/* Names that always exist. If the table is full, a new name becomes OTHER. */
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

/* The number of a name, which is added if it is new; OTHER if the table is full. Any thread. */
uint32_t iter__profile_name(iter__profile_category category, const char *text);
const char *iter__profile_name_text(uint32_t name);
iter__profile_category iter__profile_name_category(uint32_t name);
const char *iter__profile_category_text(iter__profile_category category);
atomic_llong *iter__profile_name_value(uint32_t name); /* a counter's */
/* Copies as much of a text as fits. Bytes that are not UTF-8 become '?'. */
void iter__profile_clean(const char *text, char *out, size_t capacity);

/* ---- Hooks ----------------------------------------------------------------------------------- */

extern atomic_bool iter__profile_on;

static inline bool iter__profiling(void) {
    /* relaxed: it guards nothing; iter__profile_put() looks again. */
    return atomic_load_explicit(&iter__profile_on, memory_order_relaxed);
}

/* One event, from a hook and in a ring. */
typedef struct iter__profile_record {
    uint32_t name;
    uint8_t type;                  /* iter_profile_type */
    uint8_t flows;                 /* FLOW_... */
    uint32_t loader, epoch, chunk; /* PROFILE_BATCH: chunk is how many the batch has */
    int64_t start_ns, duration_ns;
    uint64_t batch, serial;
    int64_t value;
} iter__profile_record;

/* Arrows in the trace: from the making of a chunk to its batch, and to it from its read. */
enum { FLOW_TO_BATCH = 1, FLOW_FROM_READ = 2 };

void iter__profile_put(const iter__profile_record *record);

/* The next loader's number, from 1. */
uint32_t iter__profile_loader_number(void);
/* Starts the profiler if the environment asks for it; only the process's first call does anything.
 * `rank` is that of the loader being created, -1 if it is alone. If the start fails, or the trace
 * gets another name, out_why has the reason, else "". */
void iter__profile_autostart(int64_t rank, char *out_why, size_t capacity);
/* Names this thread's track. */
void iter__profile_thread(const char *name);

/* ---- Rings ----------------------------------------------------------------------------------- */

/* A histogram over values from 0 to 2^44 (five hours of nanoseconds): exact below 32, then 32
 * buckets per octave, so a bucket's middle is within 1 / 64 of each value in it. */
#define ITER_PROFILE_SUB     32
#define ITER_PROFILE_OCTAVES 40
#define ITER_PROFILE_BUCKETS (ITER_PROFILE_SUB * ITER_PROFILE_OCTAVES)

/* Sums of one name in one thread. */
typedef struct iter__profile_cell {
    atomic_uint generation; /* the one that these sums belong to; old ones do not count */
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
    uint64_t first;   /* events before it are of a thread that had this ring earlier */
    uint64_t written; /* events before it are in the file, or counted as dropped */
    int32_t track;
    bool ended; /* its thread has gone */
    bool named; /* the file has its track's name */
    char name[ITER_PROFILE_TRACK];
    atomic_bool consumes; /* written by its thread: next() was called there */
    bool said_consumes;
} iter__profile_ring;

/* profile_ring.c. Reads one event of a ring; false if it was overwritten. */
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
    atomic_ullong lost;     /* events that were dropped for lack of memory */
    uint64_t overwritten;   /* events that were not written to the file, or not in time */
    bool has_file;
    iter__profile_file *file; /* NULL = none, or closed by stop() */
    char renamed[100];        /* the end of its path, if another process wrote the file wanted */
    pthread_t thread;
    bool has_thread, ends; /* the writing thread exists; it must end */
    pthread_cond_t wake;   /* makes the writing thread write before its period is over */
    bool stopped;
} iter__profile_session;

/* profile.c. Takes the lock and returns the session; NULL before the first start. */
iter__profile_session *iter__profile_lock(void);
void iter__profile_unlock(void);
/* Takes `control`, under which no ring is freed. Returns false without it in a callback of
 * iter_profile_each(), whose thread has it already. */
bool iter__profile_control_lock(iter_error *err);
void iter__profile_control_unlock(void);
/* The number of the session that takes events; 0 = none. Sequentially consistent. */
uint32_t iter__profile_number(void);
/* The session. Only while this thread is inside. */
iter__profile_session *iter__profile_session_now(void);
/* Writes new events, if the session has a file. Lock held. */
iter_status iter__profile_flush(iter__profile_session *session, iter_error *err);
/* Wakes the writing thread, because there is enough to write. Only under the lock, or inside. */
void iter__profile_wake(iter__profile_session *session);
/* Writes the counters of memory to the calling thread's ring. */
void iter__profile_memory(void);

/* profile_ring.c: with the lock held. */
void iter__profile_writers_wait(void); /* until no thread is inside */
void iter__profile_rings_free(iter__profile_session *session);
void iter__profile_threads_forget(void); /* in a child of fork(), which has no other threads */
/* The value that stands for all values of a bucket. */
int64_t iter__profile_bucket_middle(uint32_t bucket);
/* How many events are lost: no ring holds them any more, and no file got them. */
uint64_t iter__profile_overwritten(const iter__profile_session *session);
/* Gives this thread a small ring, because it writes little. */
void iter__profile_thread_small(void);
/* Whether this thread is in iter_profile_each(); then it must not start, stop or clear. */
void iter__profile_thread_calls_back(bool calls_back);
bool iter__profile_thread_is_calling_back(void);

/* profile_path.c. The name that a pattern stands for: %p is the process, %r the rank, %% a '%'. If
 * the pattern has neither %p nor %r, and the rank is known (not -1), ".rankN" is put before its
 * ending. False if it is too long. */
bool iter__profile_path(const char *pattern, int64_t rank, int64_t process, char *out,
                        size_t capacity);
/* "a/b.json" and "x" make "a/b.x.json". */
bool iter__profile_path_insert(const char *path, const char *word, char *out, size_t capacity);

/* profile_file.c. Opens the session's trace, without events yet. If another process writes that
 * file, fails with EIO; with `may_rename` it takes another name instead, see session.renamed. */
iter_status iter__profile_file_open(const char *path, bool may_rename,
                                    iter__profile_session *session, iter_error *err);
/* Appends the new events of all rings. */
iter_status iter__profile_file_append(iter__profile_file *file, iter__profile_session *session,
                                      iter_error *err);
/* Writes nothing. `ours` must be false in a child of fork(): it leaves the files alone. */
void iter__profile_file_close(iter__profile_file *file, bool ours);

#endif
