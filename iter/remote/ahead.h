/*
 * ahead.h - answers that a client keeps while its dataset is opened.
 *
 * Formats ask one question after the other. So that a set of many files does not wait for each,
 * they first name the files (iter__remote_look_ahead(), iter__remote_list_ahead()): the requests
 * run many at a time, and each question finds its answer here. What was looked at once is not
 * looked at again, so a set is opened as it was at one time. Errors are answers, too.
 */
#ifndef ITER_REMOTE_AHEAD_H
#define ITER_REMOTE_AHEAD_H

#include <pthread.h>
#include <stdbool.h>

#include "iter/remote/client.h"

typedef struct iter__look {
    uint64_t name; /* hash of its URL; 0 = free */
    iter__remote_info info;
    iter_status status;
    char *why; /* of an error (iter__free) */
} iter__look;

/* A folder's names, in their order. */
typedef struct iter__listing {
    char *url;   /* iter__free; NULL = taken */
    char *names; /* iter__free: 8 bytes of its size, a byte `is_folder`, a name and its NUL, ... */
    size_t n, capacity;
    iter_status status;
    char *why;
} iter__listing;

typedef struct iter__ahead {
    pthread_mutex_t lock; /* guards all below */
    bool ended;           /* nothing is kept any more */
    iter__look *looks;    /* [looks_capacity], a power of 2 */
    uint64_t n_looks, looks_capacity;
    iter__listing *listings; /* [n_listings]; NULL while they are being made */
    uint64_t n_listings;
} iter__ahead;

void iter__ahead_init(iter__ahead *ahead);
void iter__ahead_end(iter__ahead *ahead); /* forgets all; nothing is kept from now on */
void iter__ahead_free(iter__ahead *ahead);

/* The answer that is kept for this URL, with its error; false = none is. */
bool iter__ahead_look(iter__ahead *ahead, const char *url, iter__remote_info *out,
                      iter_status *out_status, iter_error *err);

/* Keeps an answer; `err` is that of a failure. Without memory it is not kept. */
void iter__ahead_keep_look(iter__ahead *ahead, const char *url, const iter__remote_info *info,
                           iter_status status, const iter_error *err);

/* Takes the folder's list out; false = there is none. To be freed. */
bool iter__ahead_take(iter__ahead *ahead, const char *url, iter__listing *out);
void iter__listing_free(iter__listing *listing);

/* Calls `visit` as iter__remote_list() does. Errors: that of the list, those of visit(). */
iter_status iter__listing_visit(const iter__listing *listing, iter__remote_visit *visit, void *user,
                                iter_error *err);

#endif
