/*
 * job.h - a trainer's part in a training job of several ranks, or of several micro-batches.
 *
 * A global batch consists of micro-batches, the leaves of the sums (sums.h). Each rank runs its own
 * ones, one after the other, and after each batch all ranks take a turn: they tell each other
 * whether it went well, and loss and hits of their micro-batches. So all ranks learn of the first
 * failure, return the same results, and end at the same step.
 */
#ifndef ENGINE_RANKS_JOB_H
#define ENGINE_RANKS_JOB_H

#include "engine/ranks/sum_tree.h"
#include "engine/ranks/sums.h"

/* What a micro-batch gave. */
typedef struct engine_leaf {
    double loss; /* sum over the rows that count */
    int64_t n_counted, n_correct;
} engine_leaf;

/* What a rank did since the last step, in seconds. */
typedef struct engine_spent {
    double outside; /* between steps: with the loader and the caller */
    double computing;
} engine_spent;

/* What a rank is about to do. All ranks must be about to do the same. */
typedef enum engine_turn {
    ENGINE_TURN_STEP,
    ENGINE_TURN_TEST,
    ENGINE_TURN_END,
    ENGINE_TURN_AGREE, /* iter__job_agree() */
    ENGINE_TURN_GO_ON  /* iter__job_go_on() */
} engine_turn;

typedef struct engine_job {
    iter_communicator *comm;
    uint32_t n_leaves, first, n_own; /* micro-batches of a global batch, and the rank's own */
    int64_t global_batch;            /* rows of a full one */
    engine_leaf *own;                /* [n_own], filled in before a turn */
    engine_leaf total;               /* after a turn: over all ranks */
    engine_spent spent;              /* filled in before the turn of a step */
    /* Over the steps so far: of each rank, and what the slowest one of each step needed. */
    iter_rank_stats *stats; /* [ranks] */
    double slowest_seconds;
    engine_sums *sums;
    char sum_text[160]; /* engine_sum_memory.text */
    /* Of turns: */
    uint32_t max_own;
    size_t block_bytes;
    char *blocks; /* [ranks, block_bytes] */
    uint64_t *lists;
    double *losses; /* [n_leaves] */
} engine_job;

/* comm NULL = one rank. n_leaves 0 = one for each rank. The sums are made later. Errors: EINVAL
 * (fewer leaves than ranks), ENOMEM. */
iter_status iter__job_create(iter_communicator *comm, uint32_t n_leaves, int64_t global_batch,
                             engine_job **out, iter_error *err);
void iter__job_destroy(engine_job *job);
uint64_t iter__job_bytes(const engine_job *job);

/* The first row of micro-batch `leaf` in a global batch of m rows; leaf = n_leaves: m. */
int64_t iter__job_row(const engine_job *job, uint32_t leaf, int64_t m);

/* Exchanges status and leaves; err holds the own error if status is one. Returns the first rank's
 * error, with its number, or OK and the sums in job->total. Before a step's
 * turn come iter__sums_begin() and the own leaves, as far as they went well; after it, if it went
 * well, iter__sums_finish() or _drop(). */
iter_status iter__job_turn(engine_job *job, engine_turn turn, iter_status status, iter_error *err);

/* For everything but batches: returns the first rank's error, or OK if there is none. If `same` is
 * not NULL, all ranks must also have the same 64 bits; `what` says what differs if not. */
iter_status iter__job_agree(engine_job *job, iter_status status, const uint64_t *same,
                            const char *what, iter_error *err);

/* Whether all ranks want to go on. */
iter_status iter__job_go_on(engine_job *job, bool wants, bool *out_all_want, iter_error *err);

/* A thing that must be equal on all ranks: the bits, and what a message shows. */
typedef struct engine_claim {
    char name[32];
    uint64_t bits;
    char text[160];
} engine_claim;

#define ENGINE_MAX_CLAIMS 20

void iter__claim(engine_claim *out, const char *name, const char *text);
/* The bytes of the file that holds a function: its shared library, or the program itself. */
void iter__claim_file(engine_claim *out, const char *name, void (*code)(void));
/* FNV-1a; begins with 0. */
uint64_t iter__claim_bits(uint64_t bits, const void *bytes, size_t n);

/* Errors: EINVAL that names the first rank that differs from rank 0, and in what. */
iter_status iter__job_compare(engine_job *job, const engine_claim *claims, int32_t n,
                              iter_error *err);

#endif
