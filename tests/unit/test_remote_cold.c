/* test_remote_cold.c - threads that read from a disk: each read is served once and comes back. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "iter/remote/cold_reads.h"

TestSuite(remote_cold, .timeout = 60);

#define N 3000

static atomic_uint n_wakes;

static void serve(void *user, iter_read *read) {
    (void)user;
    read->done++;
}

static void wake(void *user) {
    (void)user;
    atomic_fetch_add(&n_wakes, 1);
}

Test(remote_cold, each_read_comes_back_once) {
    const iter__cold_calls calls = {.serve = serve, .wake = wake};
    iter__cold_reads *cold = iter__cold_reads_create(&calls, 5);
    iter_read *reads = calloc(N, sizeof(*reads));
    cr_assert(cold && reads);
    cr_expect(!iter__cold_reads_take(cold));
    unsigned n_taken = 0;
    for (unsigned i = 0; i < N; i++) {
        iter__cold_reads_put(cold, &reads[i]);
        for (iter_read *read; i % 7 == 0 && (read = iter__cold_reads_take(cold)); n_taken++)
            cr_assert_eq(read->done++, 1);
    }
    while (n_taken < N) {
        for (iter_read *read; (read = iter__cold_reads_take(cold)); n_taken++)
            cr_assert_eq(read->done++, 1);
        sched_yield();
    }
    for (unsigned i = 0; i < N; i++)
        cr_assert_eq(reads[i].done, 2);
    cr_expect(!iter__cold_reads_has(cold));
    cr_expect_gt(atomic_load(&n_wakes), 0);
    for (unsigned i = 0; i < N; i++)
        iter__cold_reads_put(cold, &reads[i]);
    iter__cold_reads_destroy(cold); /* what was put is served */
    for (unsigned i = 0; i < N; i++)
        cr_assert_eq(reads[i].done, 3);
    free(reads);
}
