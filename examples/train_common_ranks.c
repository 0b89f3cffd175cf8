/*
 * train_common_ranks.c - one program as several ranks: mpirun or srun starts it several times, and
 * each process trains on its share of every batch.
 *
 * Rank 0 speaks for all. What only one rank can know (a signal, a file that is missing) is told to
 * the others before anybody acts on it, because all must take the same steps.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train_common.h"

/* Time for the other ranks to print the reason, too, before all of them are ended. */
#define LAST_WORDS_NS 300000000

iter_status train_join(train_options *options, iter_communicator **out, iter_error *err) {
    iter_ranks told;
    iter_status s = iter_communicator_open(options->ranks == 1 ? "none" : NULL,
                                           (uint32_t)options->timeout, out, err);
    if (s < 0) return s;
    s = iter_ranks_read(&told, err);
    if (s < 0) return s;
    const uint32_t ranks = iter_communicator_ranks(*out);
    if (options->any_device && ranks > 1) options->device = ITER_DEVICE((int32_t)told.local_rank);
    return ITER_OK;
}

iter_status train_agree(iter_communicator *comm, iter_status status, iter_error *err) {
    const uint32_t ranks = iter_communicator_ranks(comm);
    if (ranks == 1) return status;
    iter_error own = {status, ""};
    iter_error *all = calloc(ranks, sizeof(*all));
    if (all == NULL) return train_fail(err, ITER_ENOMEM, "no memory for %u ranks", ranks);
    if (status < 0) own = *err;
    iter_status s = iter_communicator_gather(comm, &own, sizeof(own), all, err);
    for (uint32_t i = 0; s >= 0 && i < ranks; i++)
        if (all[i].status < 0) s = train_fail(err, all[i].status, "rank %u: %s", i, all[i].message);
    free(all);
    return s < 0 ? s : status;
}

iter_status train_most(iter_communicator *comm, int value, int *out_least, int *out_most,
                       iter_error *err) {
    const uint32_t ranks = iter_communicator_ranks(comm);
    *out_least = *out_most = value;
    if (ranks == 1) return ITER_OK;
    int *all = calloc(ranks, sizeof(*all));
    if (all == NULL) return train_fail(err, ITER_ENOMEM, "no memory for %u ranks", ranks);
    const iter_status s = iter_communicator_gather(comm, &value, sizeof(value), all, err);
    for (uint32_t i = 0; s >= 0 && i < ranks; i++) {
        if (all[i] < *out_least) *out_least = all[i];
        if (all[i] > *out_most) *out_most = all[i];
    }
    free(all);
    return s;
}

void train_leave(iter_communicator *comm, bool failed) {
    if (failed && iter_communicator_ranks(comm) > 1) {
        const struct timespec last_words = {0, LAST_WORDS_NS};
        nanosleep(&last_words, NULL);
        iter_communicator_abort(comm);
    }
    iter_communicator_close(comm);
}

uint64_t train_micro_batches(const train_options *options, uint32_t ranks) {
    uint64_t n = 1;
    if (options->micro_batches > 0) return options->micro_batches;
    while (n < ranks)
        n *= 2;
    return ranks > 1 ? n : 0;
}
