/* thread_ranks.c - see thread_ranks.h. Threads publish their blocks, wait for each other, and copy
 * what they need. */
#include "tests/support/thread_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 16, LANES = 2 };

typedef struct lane {
    pthread_barrier_t meet;
    const engine_blocks *blocks[MAX_RANKS];
} lane;

typedef struct hub {
    uint32_t ranks;
    lane lanes[LANES];
} hub;

typedef struct seat {
    hub *hub;
    iter_communicator comm;
    void (*one)(void *user, iter_communicator *comm);
    void *user;
    pthread_t thread;
} seat;

uint32_t thread_ranks_lanes = LANES;
uint32_t thread_ranks_timeout_s = 60;

static const char *block_of(const engine_blocks *blocks, uint32_t i) {
    return (const char *)blocks->base + blocks->at[i];
}

/* A wrong size is a mistake of the caller that MPI would not forgive either. */
static void copy(char *to, uint64_t wanted, const char *from, uint64_t bytes) {
    if (wanted != bytes) {
        fprintf(stderr, "a block of %llu bytes is sent, %llu are expected\n",
                (unsigned long long)bytes, (unsigned long long)wanted);
        exit(1);
    }
    if (bytes > 0) memcpy(to, from, bytes);
}

static iter_status gather(void *state, uint32_t which, const engine_blocks *all, uint32_t timeout_s,
                          iter_error *err) {
    seat *s = state;
    lane *l = &s->hub->lanes[which];
    const uint32_t own = s->comm.rank;
    (void)timeout_s, (void)err;
    l->blocks[own] = all;
    pthread_barrier_wait(&l->meet);
    for (uint32_t i = 0; i < s->hub->ranks; i++)
        if (i != own)
            copy((char *)all->base + all->at[i], all->bytes[i], block_of(l->blocks[i], i),
                 l->blocks[i]->bytes[i]);
    pthread_barrier_wait(&l->meet);
    return ITER_OK;
}

static iter_status exchange(void *state, uint32_t which, const engine_blocks *send,
                            const engine_blocks *receive, uint32_t timeout_s, iter_error *err) {
    seat *s = state;
    lane *l = &s->hub->lanes[which];
    const uint32_t own = s->comm.rank;
    (void)timeout_s, (void)err;
    l->blocks[own] = send;
    pthread_barrier_wait(&l->meet);
    for (uint32_t i = 0; i < s->hub->ranks; i++)
        copy((char *)receive->base + receive->at[i], receive->bytes[i], block_of(l->blocks[i], own),
             l->blocks[i]->bytes[own]);
    pthread_barrier_wait(&l->meet);
    return ITER_OK;
}

static void nothing(void *state) {
    (void)state;
}

static const engine_comm_ops ops = {
    .version = ENGINE_COMM_VERSION,
    .name = "threads",
    .close = nothing,
    .gather = gather,
    .exchange = exchange,
    .end_all = nothing,
};

static void *sit(void *user) {
    seat *s = user;
    s->one(s->user, &s->comm);
    return NULL;
}

void thread_ranks_run(uint32_t ranks, void (*one)(void *user, iter_communicator *comm),
                      void *user) {
    static seat seats[MAX_RANKS];
    hub table = {.ranks = ranks};
    if (ranks > MAX_RANKS) exit(1);
    for (int i = 0; i < LANES; i++)
        if (pthread_barrier_init(&table.lanes[i].meet, NULL, ranks) != 0) exit(1);
    for (uint32_t i = 0; i < ranks; i++) {
        seats[i] = (seat){.hub = &table,
                          .one = one,
                          .user = user,
                          .comm = {.ops = &ops,
                                   .rank = i,
                                   .ranks = ranks,
                                   .timeout_s = thread_ranks_timeout_s,
                                   .lanes = thread_ranks_lanes}};
        seats[i].comm.state = &seats[i];
        if (pthread_create(&seats[i].thread, NULL, sit, &seats[i]) != 0) exit(1);
    }
    for (uint32_t i = 0; i < ranks; i++)
        pthread_join(seats[i].thread, NULL);
    for (int i = 0; i < LANES; i++)
        pthread_barrier_destroy(&table.lanes[i].meet);
}
