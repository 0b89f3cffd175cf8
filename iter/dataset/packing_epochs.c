/* packing_epochs.c - see packing_epochs.h. */
#include "iter/dataset/packing_epochs.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"

#define KEYS       8   /* that are tried until a plan has few enough rows */
#define AHEAD_ROWS 256 /* after so many rows, at most, the next plan is begun */

static int64_t units_of(const void *user, uint64_t document) {
    const iter__pack_epochs *e = user;
    const uint32_t units = e->units[document];
    return units < UINT32_MAX ? units : e->long_units(e->user, document);
}

/* ---- What all plans have in common ----------------------------------------------------------- */

static void read_units(iter__pack_epochs *e) {
    for (uint64_t d = 0; d < e->n; d++) {
        const int64_t units = e->long_units(e->user, d);
        e->units[d] = units <= 0 ? 0 : units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
        e->n_units += units > 0 ? (uint64_t)units : 0;
        e->n_empty += units <= 0;
    }
}

/* The most pieces that fit a row: as many of the shortest as do. */
static iter_status count_most(iter__pack_epochs *e, uint64_t *out_n_pieces, iter_error *err) {
    const uint32_t length = e->rule.length;
    uint64_t *counts = iter__alloc((size_t)length + 1, sizeof(*counts));
    if (!counts) return iter__fail(err, ITER_ENOMEM, "no memory to count lengths");
    *out_n_pieces = 0;
    for (uint64_t d = 0; d < e->n; d++) {
        const int64_t units = units_of(e, d);
        const uint32_t rest = (uint32_t)(units <= length ? units : units % length);
        counts[rest]++;
        *out_n_pieces += rest > 0;
    }
    uint32_t left = length;
    e->most = 1;
    for (uint64_t l = 1, most = 0; l <= left; l++) {
        const uint64_t fit = iter__min_u64(counts[l], left / l);
        most += fit;
        left -= (uint32_t)(fit * l);
        e->most = (uint32_t)iter__max_u64(most, 1);
    }
    iter__free(counts);
    return ITER_OK;
}

/* Rows more than the first plan has: the counts of others are as random as a sum over its groups,
 * so they differ by a part of the root. */
static uint64_t spare_rows(const iter__pack_epochs *e, uint64_t n_packed) {
    uint64_t root = 0;
    if (e->n <= e->rule.group) return 0; /* each epoch packs the same lengths */
    while (root * root < n_packed)
        root++;
    return 2 + root / 32;
}

/* ---- One plan -------------------------------------------------------------------------------- */

/* Makes the plan of an epoch in memory that no other thread uses. */
static iter_status make(iter__pack_epochs *e, iter__pack_plan *plan, uint64_t epoch,
                        iter_error *err) {
    iter__pack_rule rule = e->rule;
    rule.stop = &e->stop;
    for (uint64_t key = 0;; key++) {
        /* Epoch 0 has few enough rows, so it is what stays if no deal of this epoch has. */
        rule.epoch = key < KEYS ? (uint32_t)epoch : 0;
        rule.key = e->rule.key + (key < KEYS ? key : 0);
        iter_status status = iter__pack_plan_make(plan, &rule, e->n, units_of, e, err);
        if (status == ITER_OK && e->n_rows > 0 && plan->n_rows > e->n_rows) {
            iter__pack_plan_free(plan);
            continue;
        }
        if (status == ITER_OK) status = iter__pack_plan_spread(plan, e->n_rows, err);
        if (status < 0) iter__pack_plan_free(plan);
        return status;
    }
}

iter_status iter__pack_epochs_open(iter__pack_epochs *e, const iter__pack_rule *rule, uint64_t n,
                                   int64_t (*units)(const void *user, uint64_t document),
                                   const void *user, iter_error *err) {
    uint64_t n_pieces = 0;
    e->rule = *rule;
    e->n = n;
    e->long_units = units;
    e->user = user;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->made, NULL);
    e->has_locks = true;
    e->units = iter__alloc(n > 0 ? (size_t)n : 1, sizeof(*e->units));
    if (!e->units) return iter__fail(err, ITER_ENOMEM, "no memory for %zu lengths", (size_t)n);
    read_units(e);
    ITER_TRY(count_most(e, &n_pieces, err));
    iter__pack_edition *first = &e->editions[0];
    ITER_TRY(make(e, &first->plan, 0, err));
    first->is_ready = true;
    const uint64_t n_packed = first->plan.n_packed;
    e->n_rows = first->plan.n_rows + iter__min_u64(spare_rows(e, n_packed), n_pieces - n_packed);
    return iter__pack_plan_spread(&first->plan, e->n_rows, err);
}

void iter__pack_epochs_close(iter__pack_epochs *e) {
    if (!e->has_locks) return;
    atomic_store_explicit(&e->stop, true, memory_order_relaxed);
    if (e->has_maker) pthread_join(e->maker, NULL);
    for (int i = 0; i < ITER_PACK_PLANS; i++)
        iter__pack_plan_free(&e->editions[i].plan);
    iter__free(e->units);
    pthread_cond_destroy(&e->made);
    pthread_mutex_destroy(&e->lock);
    *e = (iter__pack_epochs){0};
}

uint64_t iter__pack_epochs_bytes(const iter__pack_epochs *e) {
    const iter__pack_plan *plan = &e->editions[0].plan;
    const uint64_t rows = (plan->n_packed + 1) * sizeof(*plan->first);
    const uint64_t cuts = 2 * plan->n_cuts * sizeof(*plan->cuts); /* its room doubles */
    const uint64_t one = e->n * sizeof(*plan->pieces) + rows + rows / 2 + cuts;
    return e->n * sizeof(*e->units) + ITER_PACK_PLANS * one;
}

void iter__pack_epochs_adopt(iter__pack_epochs *e) {
    if (!e->has_locks) return;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->made, NULL);
    for (int i = 0; i < ITER_PACK_PLANS; i++)
        e->editions[i].lent = 0;
    if (e->making) *e->making = (iter__pack_edition){0};
    e->making = NULL;
    e->has_maker = false;
}

/* ---- Lending --------------------------------------------------------------------------------- */

static iter__pack_edition *find(iter__pack_epochs *e, uint64_t epoch) {
    for (int i = 0; i < ITER_PACK_PLANS; i++)
        if (e->editions[i].is_ready && e->editions[i].epoch == epoch) return &e->editions[i];
    return NULL;
}

/* Takes the place of the plan that was not used for the longest time; NULL = all are lent. */
static iter__pack_edition *take_place(iter__pack_epochs *e, uint64_t epoch) {
    iter__pack_edition *oldest = NULL;
    for (int i = 0; i < ITER_PACK_PLANS; i++) {
        iter__pack_edition *x = &e->editions[i];
        if (x->lent == 0 && (!oldest || x->stamp < oldest->stamp)) oldest = x;
    }
    if (!oldest) return NULL;
    iter__pack_plan_free(&oldest->plan);
    *oldest = (iter__pack_edition){.epoch = epoch, .stamp = ++e->clock};
    e->making = oldest;
    return oldest;
}

/* After the plan in e->making was made. Lock held. */
static void put_ready(iter__pack_epochs *e, iter_status status) {
    e->making->is_ready = status == ITER_OK;
    if (status < 0) e->making->stamp = 0;
    e->making = NULL;
    pthread_cond_broadcast(&e->made);
}

static void *make_ahead(void *arg) {
    iter__pack_epochs *e = arg;
    const iter_status status = make(e, &e->making->plan, e->making->epoch, NULL);
    pthread_mutex_lock(&e->lock);
    put_ready(e, status); /* after an error the next lend() tries again */
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Begins the plan of the epoch after `now`, unless it is there. Lock held. */
static void begin_next(iter__pack_epochs *e, const iter__pack_edition *now) {
    if (e->making || find(e, now->epoch + 1)) return;
    if (e->has_maker) pthread_join(e->maker, NULL); /* it has made its plan */
    e->has_maker = false;
    iter__pack_edition *next = take_place(e, now->epoch + 1);
    if (!next) return;
    e->has_maker = iter__thread_start(&e->maker, "iter-pack", make_ahead, e) == 0;
    if (!e->has_maker) put_ready(e, ITER_ENOMEM);
}

iter_status iter__pack_epochs_lend(iter__pack_epochs *e, uint64_t epoch,
                                   const iter__pack_plan **out, iter_error *err) {
    iter_status status = ITER_OK;
    pthread_mutex_lock(&e->lock);
    iter__pack_edition *found;
    while (!(found = find(e, epoch)) && status == ITER_OK) {
        iter__pack_edition *mine = e->making ? NULL : take_place(e, epoch);
        if (!mine) {
            pthread_cond_wait(&e->made, &e->lock);
            continue;
        }
        pthread_mutex_unlock(&e->lock);
        status = make(e, &mine->plan, epoch, err);
        pthread_mutex_lock(&e->lock);
        put_ready(e, status);
    }
    if (found) {
        found->lent++;
        found->stamp = ++e->clock;
        const uint64_t ahead = iter__max_u64(iter__min_u64(AHEAD_ROWS, e->n_rows / 4), 1);
        if (++found->n_lent % ahead == 0) begin_next(e, found);
        *out = &found->plan;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

void iter__pack_epochs_back(iter__pack_epochs *e, const iter__pack_plan *plan) {
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < ITER_PACK_PLANS; i++)
        if (&e->editions[i].plan == plan && --e->editions[i].lent == 0)
            pthread_cond_broadcast(&e->made);
    pthread_mutex_unlock(&e->lock);
}
