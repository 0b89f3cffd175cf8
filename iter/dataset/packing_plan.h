/*
 * packing_plan.h - which documents share a row: best-fit decreasing within groups.
 *
 * Documents are dealt into groups of `group` by a keyed permutation. In each group the longest
 * comes first, and each goes to the row with the least room that holds it. So a row's documents
 * come from one group, and the plan depends on lengths, key and options alone.
 *
 * A document longer than a row is cut into whole rows, which come after all others, and a rest that
 * is packed like a document.
 *
 * The plan takes 4 bytes a document and 4 a row; a document that is cut takes 12 more.
 */
#ifndef ITER_DATASET_PACK_PLAN_H
#define ITER_DATASET_PACK_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct iter__pack_rule {
    uint32_t length, group; /* units of a row (at most 2^24 - 2); documents of a group */
    uint64_t key;
    bool refuses;            /* a document longer than a row is an error */
    uint32_t epoch;          /* of the permutation */
    const atomic_bool *stop; /* true = give up, with ECANCELED; NULL = never */
} iter__pack_rule;

/* Part of a document in a row. */
typedef struct iter__pack_piece {
    uint64_t document;
    uint64_t first; /* unit of the document */
    uint32_t n;     /* units */
} iter__pack_piece;

typedef struct iter__pack_cut {
    uint32_t document;
    uint64_t first_row; /* of its whole rows */
} iter__pack_cut;

typedef struct iter__pack_plan {
    iter__pack_rule rule;
    int64_t (*units)(const void *user, uint64_t document);
    const void *user;
    uint64_t n_packed;    /* rows that were packed */
    uint64_t n_rows;      /* and the whole ones */
    uint32_t *first;      /* [n_packed + 1] place of each row's first piece in `pieces` */
    uint32_t *pieces;     /* documents */
    iter__pack_cut *cuts; /* [n_cuts] by first_row */
    uint64_t n_cuts;
    uint32_t most;    /* pieces of a row */
    uint64_t n_units; /* of all rows */
    uint64_t n_empty; /* documents without a unit: no row has them */
} iter__pack_plan;

/* Plans documents 0..n - 1, n < 2^32. units(): how much room a document takes; at most 0 = none; it
 * is called at random places, a few times a document. The plan must be freed, also after an error.
 * Errors: EINVAL (a document is too long, with its number), ENOMEM, ECANCELED. */
iter_status iter__pack_plan_make(iter__pack_plan *plan, const iter__pack_rule *rule, uint64_t n,
                                 int64_t (*units)(const void *user, uint64_t document),
                                 const void *user, iter_error *err);
void iter__pack_plan_free(iter__pack_plan *plan);

/* Gives a plan with fewer rows n_rows of them: the last documents of the last rows get rows of
 * their own. There must be as many pieces. Errors: ENOMEM, then it has the rows that it had. */
iter_status iter__pack_plan_spread(iter__pack_plan *plan, uint64_t n_rows, iter_error *err);

/* How many pieces row `row` has; piece i of them. Any number of threads. */
uint32_t iter__pack_plan_count(const iter__pack_plan *plan, uint64_t row);
iter__pack_piece iter__pack_plan_piece(const iter__pack_plan *plan, uint64_t row, uint32_t i);

#endif
