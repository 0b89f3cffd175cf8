/*
 * packing_epochs.h - the plans of packed rows, one for each epoch.
 *
 * The documents are dealt anew for each epoch, so a document meets others in each. All plans have
 * as many rows: a few more than the first one's best fit, because that of another epoch may need
 * them. A plan depends on rule and epoch alone, so any rank or resumed run makes the same.
 *
 * Three plans are kept. Once rows of an epoch are asked for, a thread makes the next one's plan. If
 * a plan is not there, the thread that asks for it makes it.
 */
#ifndef ITER_DATASET_PACKING_EPOCHS_H
#define ITER_DATASET_PACKING_EPOCHS_H

#include <pthread.h>

#include "iter/dataset/packing_plan.h"

#define ITER_PACK_PLANS 3

typedef struct iter__pack_edition {
    iter__pack_plan plan;
    uint64_t epoch;
    bool is_ready;
    uint32_t lent;   /* to how many threads */
    uint64_t n_lent; /* how often */
    uint64_t stamp;  /* when it was lent last */
} iter__pack_edition;

typedef struct iter__pack_epochs {
    iter__pack_rule rule;
    uint64_t n;      /* documents */
    uint32_t *units; /* [n] of each document; UINT32_MAX = ask `long_units` */
    int64_t (*long_units)(const void *user, uint64_t document);
    const void *user;
    uint64_t n_rows, n_units, n_empty; /* of every plan */
    uint32_t most;                     /* pieces of a row, in any plan */
    pthread_mutex_t lock;
    pthread_cond_t made;
    bool has_locks;
    /* Guarded by lock: */
    iter__pack_edition editions[ITER_PACK_PLANS];
    iter__pack_edition *making; /* one at a time; NULL = none */
    uint64_t clock;
    pthread_t maker;
    bool has_maker; /* a thread to join */
    atomic_bool stop;
} iter__pack_epochs;

/* Makes the plan of epoch 0, which decides the number of rows. `e` must be zero and stay where it
 * is; close it after an error, too. units(), of each document: at most 0 = nothing; it is called by
 * this thread, and by others for documents of 2^32 - 1 units and more. Errors: as
 * iter__pack_plan_make(). */
iter_status iter__pack_epochs_open(iter__pack_epochs *e, const iter__pack_rule *rule, uint64_t n,
                                   int64_t (*units)(const void *user, uint64_t document),
                                   const void *user, iter_error *err);
void iter__pack_epochs_close(iter__pack_epochs *e);
/* Bytes that it may come to hold. */
uint64_t iter__pack_epochs_bytes(const iter__pack_epochs *e);
/* In a child of fork(), before it asks for a plan. What the parent was making, or had lent, is
 * lost. */
void iter__pack_epochs_adopt(iter__pack_epochs *e);

/* Lends the plan of an epoch; `back` ends that. Any number of threads; waits while the plan is
 * made. Errors: ENOMEM. */
iter_status iter__pack_epochs_lend(iter__pack_epochs *e, uint64_t epoch,
                                   const iter__pack_plan **out, iter_error *err);
void iter__pack_epochs_back(iter__pack_epochs *e, const iter__pack_plan *plan);

#endif
