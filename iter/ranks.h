/* ranks.h - which of how many processes this one is, as its launcher says. */
#ifndef ITER_RANKS_H
#define ITER_RANKS_H

#include <stdint.h>

#include <iter/export.h>
#include <iter/status.h>

ITER_BEGIN_DECLS

typedef struct iter_ranks {
    uint32_t rank, ranks;             /* this process's number, from 0, of so many in the job */
    uint32_t local_rank, local_ranks; /* the same on this machine: picks its GPU, its cores */
    const char *launcher;             /* "torchrun", "Slurm", ...; "" = none, one process */
} iter_ranks;

/**
 * Reads from the environment what torchrun, mpirun or srun wrote there. It sends nothing, and no
 * MPI is needed. Copy the numbers to iter_loader_options; `ranks` is 1 without a launcher.
 *
 *   torchrun         RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
 *   Open MPI         OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   MPICH, Intel MPI PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
 *   MVAPICH          MV2_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   PMIx             PMIX_RANK, which another one's must equal; it has no size
 *   Slurm            SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID,
 *                    SLURM_STEP_TASKS_PER_NODE or SLURM_TASKS_PER_NODE
 *
 * If another launcher speaks, Slurm started that one, and its numbers do not count. They do not
 * count in a batch script either, outside of srun: that is one process, however many tasks it may
 * start. If a local number is missing, all ranks are taken to be on one machine.
 *
 * Returns    OK.
 * Ownership  launcher is a literal.
 * Errors     EINVAL: two launchers differ, a rank comes without a size, is no number, or is not
 *            below the size. The message lists the variables. *out is then one process.
 * Threads    any, as long as no thread changes the environment.
 */
ITER_API ITER_NODISCARD iter_status iter_ranks_read(iter_ranks *out, iter_error *err);

ITER_END_DECLS

#endif
