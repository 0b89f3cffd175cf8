/*
 * mpi_module.c - a communicator over MPI: a module of its own, so that nothing else links MPI.
 *
 * All calls are non-blocking and then waited for, with a deadline: a rank that hangs must not hang
 * the others for ever. In lane 0 waiting first polls, because an answer within a step's time is the
 * rule, and then sleeps between polls, because a loader's workers need the core. Lane 1 sleeps from
 * the beginning: the core computes meanwhile. When the deadline has passed, each rank asks every
 * other one for a sign of life, to name those that do not answer.
 *
 * Each lane has a copy of MPI's communicator, because MPI matches calls of all ranks by their order
 * in it. Two threads may be in here, but only one of them at a time in MPI, which is all that
 * MPI_THREAD_SERIALIZED allows.
 */
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/ranks/communicator.h"

#define POLLS     2000
#define SLEEP_NS  20000
#define ANSWER_S  2
#define SIGN_TAG  7
#define UNIT      4 /* bytes; MPI counts in int */
#define NAMES_MAX 200

enum { LANES = 2 };

typedef struct mpi_lane {
    MPI_Comm comm;
    int polls;  /* before the first sleep */
    int *lists; /* [4 * ranks] counts and places of the two sides of a call */
} mpi_lane;

typedef struct mpi_state {
    pthread_mutex_t lock; /* around MPI's functions */
    int rank, ranks;
    mpi_lane lanes[LANES];
} mpi_state;

static bool is_ours; /* this module called MPI_Init, and so must end it */

__attribute__((format(printf, 3, 4))) static iter_status fail(iter_error *err, iter_status status,
                                                              const char *format, ...) {
    if (!err) return status;
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return status;
}

static iter_status fail_mpi(iter_error *err, const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return fail(err, ITER_EIO, "mpi: %s: %.300s", call, text);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for all n requests until `deadline`; *out_done = whether they are done. */
static int wait_until(mpi_state *s, int most_polls, int n, MPI_Request *requests, double deadline,
                      int *out_done) {
    const struct timespec nap = {0, SLEEP_NS};
    for (int polls = 0;; polls++) {
        pthread_mutex_lock(&s->lock);
        const int code = MPI_Testall(n, requests, out_done, MPI_STATUSES_IGNORE);
        pthread_mutex_unlock(&s->lock);
        if (code != MPI_SUCCESS || *out_done) return code;
        if (polls < most_polls) continue;
        if (seconds_now() > deadline) return MPI_SUCCESS;
        nanosleep(&nap, NULL);
    }
}

/* Sends each rank a sign of life, and lists those from which none comes. Requests are tested one by
 * one, because MPI_Testall() changes none of them before all are done. */
static void name_missing(mpi_state *s, mpi_lane *lane, char *out, size_t capacity) {
    MPI_Request *requests = calloc((size_t)s->ranks * 2, sizeof(*requests));
    char *signs = calloc((size_t)s->ranks + 1, 1);
    size_t n = 0;
    out[0] = '\0';
    pthread_mutex_lock(&s->lock);
    for (int i = 0; requests && signs && i < s->ranks; i++) {
        requests[i] = requests[s->ranks + i] = MPI_REQUEST_NULL;
        if (i == s->rank) continue;
        MPI_Irecv(signs + i, 1, MPI_CHAR, i, SIGN_TAG, lane->comm, &requests[i]);
        MPI_Isend(signs + s->ranks, 1, MPI_CHAR, i, SIGN_TAG, lane->comm, &requests[s->ranks + i]);
    }
    pthread_mutex_unlock(&s->lock);
    if (requests && signs) {
        int done = 0;
        wait_until(s, 0, s->ranks, requests, seconds_now() + ANSWER_S, &done);
        pthread_mutex_lock(&s->lock);
        for (int i = 0; !done && i < s->ranks && n < capacity; i++) {
            int came = 0;
            MPI_Test(&requests[i], &came, MPI_STATUS_IGNORE); /* true for the own, which is null */
            if (!came) n += (size_t)snprintf(out + n, capacity - n, "%s%d", n ? ", " : "", i);
        }
        pthread_mutex_unlock(&s->lock);
    }
    /* Memory of requests that are still open cannot be freed; the process is about to end. */
}

static iter_status wait_for(mpi_state *s, mpi_lane *lane, MPI_Request request, const char *call,
                            uint32_t timeout_s, iter_error *err) {
    int done = 0;
    const int code = wait_until(s, lane->polls, 1, &request, seconds_now() + timeout_s, &done);
    if (code != MPI_SUCCESS) return fail_mpi(err, call, code);
    if (done) return ITER_OK;
    char missing[NAMES_MAX];
    name_missing(s, lane, missing, sizeof(missing));
    return fail(err, ITER_ETIMEDOUT,
                "mpi: rank %d waited %u s for the other ranks%s%s: they have died, hang, or take "
                "longer than the time limit",
                s->rank, timeout_s, missing[0] ? "; nothing comes from rank " : "", missing);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static iter_status to_counts(const mpi_state *s, const engine_blocks *blocks, int *counts,
                             int *places, iter_error *err) {
    for (int i = 0; i < s->ranks; i++) {
        if (blocks->at[i] / UNIT > INT_MAX || blocks->bytes[i] / UNIT > INT_MAX)
            return fail(err, ITER_EUNSUPPORTED, "mpi: a message of %llu bytes is too large",
                        (unsigned long long)(blocks->at[i] + blocks->bytes[i]));
        counts[i] = (int)(blocks->bytes[i] / UNIT);
        places[i] = (int)(blocks->at[i] / UNIT);
    }
    return ITER_OK;
}

static iter_status mpi_gather(void *state, uint32_t which, const engine_blocks *all,
                              uint32_t timeout_s, iter_error *err) {
    mpi_state *s = state;
    mpi_lane *lane = &s->lanes[which];
    int *counts = lane->lists, *places = counts + s->ranks;
    MPI_Request request;
    const iter_status status = to_counts(s, all, counts, places, err);
    if (status < 0) return status;
    pthread_mutex_lock(&s->lock);
    const int code = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_INT32_T, all->base, counts, places,
                                     MPI_INT32_T, lane->comm, &request);
    pthread_mutex_unlock(&s->lock);
    if (code != MPI_SUCCESS) return fail_mpi(err, "MPI_Iallgatherv", code);
    return wait_for(s, lane, request, "MPI_Iallgatherv", timeout_s, err);
}

static iter_status mpi_exchange(void *state, uint32_t which, const engine_blocks *send,
                                const engine_blocks *receive, uint32_t timeout_s, iter_error *err) {
    mpi_state *s = state;
    mpi_lane *lane = &s->lanes[which];
    int *counts = lane->lists, *places = counts + s->ranks;
    int *in_counts = places + s->ranks, *in_places = in_counts + s->ranks;
    MPI_Request request;
    iter_status status = to_counts(s, send, counts, places, err);
    if (status >= 0) status = to_counts(s, receive, in_counts, in_places, err);
    if (status < 0) return status;
    pthread_mutex_lock(&s->lock);
    const int code = MPI_Ialltoallv(send->base, counts, places, MPI_INT32_T, receive->base,
                                    in_counts, in_places, MPI_INT32_T, lane->comm, &request);
    pthread_mutex_unlock(&s->lock);
    if (code != MPI_SUCCESS) return fail_mpi(err, "MPI_Ialltoallv", code);
    return wait_for(s, lane, request, "MPI_Ialltoallv", timeout_s, err);
}

/* Both lanes may be waiting, so the lock is not held for long. */
static void mpi_end_all(void *state) {
    mpi_state *s = state;
    fflush(NULL);
    pthread_mutex_lock(&s->lock);
    MPI_Abort(s->lanes[0].comm, 1);
    pthread_mutex_unlock(&s->lock);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static int open_lane(mpi_lane *lane, int polls) {
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &lane->comm);
    if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(lane->comm, MPI_ERRORS_RETURN);
    lane->polls = polls;
    return code;
}

/* A program that began MPI itself may have asked for fewer threads. All ranks have to agree. */
static iter_status start(mpi_state *s, uint32_t *out_lanes, iter_error *err) {
    int is_up = 0, is_over = 0, level = 0, lanes, fewest;
    MPI_Initialized(&is_up);
    MPI_Finalized(&is_over);
    if (is_over) return fail(err, ITER_ESTATE, "mpi: it was ended, and cannot begin again");
    int code = is_up ? MPI_Query_thread(&level)
                     : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return fail_mpi(err, "MPI_Init_thread", code);
    is_ours |= !is_up;
    code = open_lane(&s->lanes[0], POLLS);
    if (code == MPI_SUCCESS) code = open_lane(&s->lanes[1], 0);
    if (code != MPI_SUCCESS) return fail_mpi(err, "MPI_Comm_dup", code);
    MPI_Comm_rank(s->lanes[0].comm, &s->rank);
    MPI_Comm_size(s->lanes[0].comm, &s->ranks);
    lanes = level >= MPI_THREAD_SERIALIZED ? LANES : 1;
    code = MPI_Allreduce(&lanes, &fewest, 1, MPI_INT, MPI_MIN, s->lanes[0].comm);
    if (code != MPI_SUCCESS) return fail_mpi(err, "MPI_Allreduce", code);
    *out_lanes = (uint32_t)fewest;
    for (int i = 0; i < LANES; i++) {
        s->lanes[i].lists = calloc((size_t)s->ranks * 4, sizeof(*s->lanes[i].lists));
        if (!s->lanes[i].lists) return fail(err, ITER_ENOMEM, "mpi: out of memory");
    }
    return ITER_OK;
}

static void drop(mpi_state *s) {
    for (int i = 0; i < LANES; i++)
        free(s->lanes[i].lists);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static iter_status mpi_open(iter_communicator *comm, iter_error *err) {
    mpi_state *s = calloc(1, sizeof(*s));
    if (!s) return fail(err, ITER_ENOMEM, "mpi: out of memory");
    pthread_mutex_init(&s->lock, NULL);
    const iter_status status = start(s, &comm->lanes, err);
    if (status < 0) {
        drop(s);
        return status;
    }
    comm->state = s;
    comm->rank = (uint32_t)s->rank;
    comm->ranks = (uint32_t)s->ranks;
    return ITER_OK;
}

static void mpi_close(void *state) {
    mpi_state *s = state;
    for (int i = 0; i < LANES; i++)
        MPI_Comm_free(&s->lanes[i].comm);
    if (is_ours) MPI_Finalize();
    is_ours = false;
    drop(s);
}

static const engine_comm_ops ops = {
    .version = ENGINE_COMM_VERSION,
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .gather = mpi_gather,
    .exchange = mpi_exchange,
    .end_all = mpi_end_all,
};

__attribute__((visibility("default"))) const engine_comm_ops *iter__communicator_module(void);
const engine_comm_ops *iter__communicator_module(void) {
    return &ops;
}
