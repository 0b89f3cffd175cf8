/*
 * communicator.h - how the processes of a training job exchange bytes.
 *
 * Two operations are enough for data-parallel training: each rank tells all others something
 * (gather), and each rank sends every other one its own piece (exchange). What sums gradients is in
 * sums.h. A communicator is "none" (one process) or "mpi", a module that is opened at run time
 * (mpi/mpi_module.c), so that the library itself links no MPI.
 */
#ifndef ENGINE_RANKS_COMMUNICATOR_H
#define ENGINE_RANKS_COMMUNICATOR_H

#include <iter/engine.h>

#define ENGINE_COMM_VERSION 2
#define ENGINE_COMM_SYMBOL  "iter__communicator_module"

/* Each lane may be used by a thread of its own. The caller's answers as fast as it can; that of
 * sums, if there is one, leaves the core to others while it waits. */
enum { ENGINE_LANE_CALLER, ENGINE_LANE_SUMS };

/* One block of bytes per rank, all multiples of 4: block i lies at base + at[i]. */
typedef struct engine_blocks {
    void *base;
    const uint64_t *at, *bytes; /* [ranks] */
} engine_blocks;

/* All ranks make the same calls in the same order, in each lane. A call that waits for longer than
 * timeout_s fails with ETIMEDOUT, and its message names the ranks that did not come, if that is
 * known. After an error only end_all() and close() are legal. */
typedef struct engine_comm_ops {
    uint32_t version; /* ENGINE_COMM_VERSION */
    const char *name;
    /* Fills in state, rank, ranks and lanes; the same lanes on all ranks. */
    iter_status (*open)(iter_communicator *comm, iter_error *err);
    void (*close)(void *state);
    /* Fills in the blocks of all other ranks. The caller's own is in its place before. */
    iter_status (*gather)(void *state, uint32_t lane, const engine_blocks *all, uint32_t timeout_s,
                          iter_error *err);
    /* Sends block i of `send` to rank i; block i of `receive` comes from rank i. The caller's own
     * block is copied. */
    iter_status (*exchange)(void *state, uint32_t lane, const engine_blocks *send,
                            const engine_blocks *receive, uint32_t timeout_s, iter_error *err);
    /* Ends the processes of all ranks; may return. */
    void (*end_all)(void *state);
} engine_comm_ops;

typedef const engine_comm_ops *engine_comm_module(void);

struct iter_communicator {
    const engine_comm_ops *ops;
    void *state;
    uint32_t rank, ranks, timeout_s;
    uint32_t lanes; /* 1 or 2 */
};

/* As the operations. With one rank nothing is sent. */
iter_status iter__comm_gather(iter_communicator *comm, uint32_t lane, const engine_blocks *all,
                              iter_error *err);
iter_status iter__comm_exchange(iter_communicator *comm, uint32_t lane, const engine_blocks *send,
                                const engine_blocks *receive, iter_error *err);

#endif
