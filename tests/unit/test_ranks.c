/*
 * test_ranks.c - which process this one is, by the variables that the manuals of torchrun, Open
 * MPI, MPICH, MVAPICH and Slurm name, alone and inside of each other.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/ranks.h>

#include "iter/core/machine.h"

extern char **environ;

static iter_error err;

/* Sets "NAME=value NAME=value" as the whole environment, and reads the ranks from it. */
static iter_status read_from(const char *variables, iter_ranks *out) {
    char text[512];
    clearenv();
    (void)snprintf(text, sizeof(text), "%s", variables);
    for (char *rest = text, *word; (word = strtok_r(rest, " ", &rest));) {
        char *equal = strchr(word, '=');
        *equal = '\0';
        setenv(word, equal + 1, 1);
    }
    return iter_ranks_read(out, &err);
}

static void expect(const char *variables, const char *launcher, uint32_t rank, uint32_t ranks,
                   uint32_t local_rank, uint32_t local_ranks) {
    iter_ranks got;
    cr_expect_eq(read_from(variables, &got), ITER_OK, "%s: %s", variables, err.message);
    cr_expect_str_eq(got.launcher, launcher, "%s", variables);
    cr_expect(got.rank == rank && got.ranks == ranks, "%s: %u of %u", variables, got.rank,
              got.ranks);
    cr_expect(got.local_rank == local_rank && got.local_ranks == local_ranks, "%s: local %u of %u",
              variables, got.local_rank, got.local_ranks);
}

static void refuses(const char *variables, const char *said) {
    iter_ranks got;
    cr_expect_eq(read_from(variables, &got), ITER_EINVAL, "%s", variables);
    cr_expect(strstr(err.message, said), "%s: %s", variables, err.message);
    cr_expect(got.rank == 0 && got.ranks == 1, "%s", variables);
}

Test(ranks, one_process) {
    expect("", "", 0, 1, 0, 1);
    expect("HOME=/ RANK=", "", 0, 1, 0, 1);
    expect("WORLD_SIZE=4", "", 0, 1, 0, 1);
    expect("SLURM_JOB_ID=7 SLURM_NTASKS=8", "", 0, 1, 0, 1);
    expect("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=8", "", 0, 1, 0, 1);
}

Test(ranks, each_launcher) {
    expect("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", "torchrun", 5, 8, 1, 4);
    expect("RANK=5 WORLD_SIZE=8", "torchrun", 5, 8, 5, 8);
    expect("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
           "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=3",
           "Open MPI", 3, 4, 1, 2);
    expect("PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=3", "MPICH", 2, 3, 2, 3);
    expect("MV2_COMM_WORLD_RANK=0 MV2_COMM_WORLD_SIZE=2", "MVAPICH", 0, 2, 0, 2);
    expect("SLURM_PROCID=9 SLURM_NTASKS=11 SLURM_LOCALID=1 SLURM_TASKS_PER_NODE=4(x2),3", "Slurm",
           9, 11, 1, 4);
    expect("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2",
           "Slurm", 1, 2, 1, 2);
}

Test(ranks, one_inside_of_another) {
    expect("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 RANK=6 "
           "WORLD_SIZE=8 LOCAL_RANK=2 LOCAL_WORLD_SIZE=4",
           "torchrun", 6, 8, 2, 4);
    expect("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=2 "
           "OMPI_COMM_WORLD_SIZE=4",
           "Open MPI", 2, 4, 2, 4);
    expect("SLURM_STEP_ID=1 SLURM_PROCID=1 SLURM_NTASKS=2 PMIX_RANK=1 PMI_RANK=1 PMI_SIZE=2",
           "MPICH", 1, 2, 1, 2);
    expect("SLURM_STEP_ID=1 SLURM_PROCID=1 SLURM_NTASKS=2 PMIX_RANK=1", "Slurm", 1, 2, 1, 2);
    expect("RANK=1 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2", "torchrun", 1, 2, 1,
           2);
}

Test(ranks, contradictions) {
    refuses("RANK=1 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
            "RANK=1 WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2");
    refuses("RANK=1 WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=4", "PMI_RANK=1 PMI_SIZE=4");
    refuses("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0", "PMIX_RANK=0");
    refuses("RANK=1", "WORLD_SIZE is not set");
    refuses("PMIX_RANK=1", "no variable says how many");
    refuses("RANK=2 WORLD_SIZE=2", "less than WORLD_SIZE");
    refuses("RANK=-1 WORLD_SIZE=2", "RANK is '-1'");
    refuses("RANK=1x WORLD_SIZE=2", "RANK is '1x'");
    refuses("RANK=0 WORLD_SIZE=0", "WORLD_SIZE is '0'");
    refuses("RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE");
    refuses("SLURM_PROCID=4 SLURM_NTASKS=4", "SLURM_NTASKS, which is 4");
}

Test(ranks, local_numbers_that_cannot_be) {
    expect("RANK=1 WORLD_SIZE=2 LOCAL_RANK=7 LOCAL_WORLD_SIZE=many", "torchrun", 1, 2, 1, 2);
    expect("RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", "torchrun", 5, 8, 1, 4);
    expect("RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=9", "torchrun", 1, 2, 1, 2);
}

Test(ranks, of_a_trace) {
    iter_ranks got;
    (void)read_from("", &got);
    cr_expect_eq(iter__launcher_rank(), -1);
    (void)read_from("RANK=0 WORLD_SIZE=1", &got);
    cr_expect_eq(iter__launcher_rank(), -1);
    (void)read_from("RANK=3 WORLD_SIZE=4", &got);
    cr_expect_eq(iter__launcher_rank(), 3);
}
