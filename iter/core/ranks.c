/*
 * ranks.c - see <iter/ranks.h>. Names of the variables: the manuals of torchrun, Open MPI, MPICH's
 * Hydra, MVAPICH2, PMIx and Slurm (srun, sbatch).
 */
#include <iter/ranks.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/machine.h"

typedef struct launcher {
    const char *name;
    const char *rank, *size; /* size NULL = it writes none */
    const char *local[2];    /* rank, size */
    const char *size_or;     /* if `size` is not set; NULL = none */
    const char *local_or;    /* likewise for local[1] */
} launcher;

/* The order of trust: a launcher may run inside of the one after it. */
static const launcher launchers[] = {
    {.name = "torchrun",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .local = {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
    {.name = "Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local = {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {.name = "MVAPICH",
     .rank = "MV2_COMM_WORLD_RANK",
     .size = "MV2_COMM_WORLD_SIZE",
     .local = {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"}},
    {.name = "MPICH",
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .local = {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}},
    {.name = "PMIx", .rank = "PMIX_RANK"},
    {.name = "Slurm",
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .local = {"SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
     .size_or = "SLURM_NTASKS",
     .local_or = "SLURM_TASKS_PER_NODE"},
};

enum { N_LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]), SLURM = N_LAUNCHERS - 1 };

static const char *value_of(const char *name) {
    const char *value = name ? getenv(name) : NULL;
    return value && value[0] ? value : NULL;
}

/* A number, and after it nothing, or '(' or ',' as in Slurm's "4(x2),3". */
static bool parse(const char *text, uint32_t *out) {
    char *end;
    if (!text || text[0] < '0' || text[0] > '9') return false;
    const unsigned long long n = strtoull(text, &end, 10);
    *out = (uint32_t)n;
    return n <= UINT32_MAX && (*end == '\0' || *end == '(' || *end == ',');
}

/* What one launcher says. `size` 0 = it writes none. */
typedef struct claim {
    bool speaks;
    const char *size_name;
    uint32_t rank, size;
} claim;

static bool in_batch_script(void) {
    return value_of("SLURM_JOB_ID") && !value_of("SLURM_STEP_ID") && !value_of("SLURM_STEPID");
}

static iter_status read_claim(const launcher *l, claim *out, iter_error *err) {
    *out = (claim){.size_name = l->size};
    const char *rank = value_of(l->rank), *size = value_of(l->size);
    if (l->size_or && !size) {
        out->size_name = l->size_or;
        size = value_of(l->size_or);
    }
    if (l == &launchers[SLURM] && in_batch_script()) return ITER_OK;
    if (!rank) return ITER_OK; /* a size alone is said to a shell, not to a process of the job */
    if (!parse(rank, &out->rank))
        return iter__fail(err, ITER_EINVAL, "ranks: %s is '%s', expected a number", l->rank, rank);
    out->speaks = true;
    if (!l->size) return ITER_OK;
    if (!size)
        return iter__fail(err, ITER_EINVAL, "ranks: %s is %s, but %s is not set", l->rank, rank,
                          l->size);
    if (!parse(size, &out->size) || out->size == 0)
        return iter__fail(err, ITER_EINVAL, "ranks: %s is '%s', expected a number from 1 on",
                          out->size_name, size);
    if (out->rank >= out->size)
        return iter__fail(err, ITER_EINVAL, "ranks: %s is %s; it must be less than %s, which is %s",
                          l->rank, rank, out->size_name, size);
    return ITER_OK;
}

static iter_status fail_by_list(const claim claims[N_LAUNCHERS], iter_error *err) {
    char list[320] = "";
    for (int i = 0; i < N_LAUNCHERS; i++) {
        const size_t n = strlen(list);
        if (!claims[i].speaks) continue;
        (void)snprintf(list + n, sizeof(list) - n, "%s%s=%u", n ? ", " : "", launchers[i].rank,
                       claims[i].rank);
        const size_t m = strlen(list);
        if (claims[i].size)
            (void)snprintf(list + m, sizeof(list) - m, " %s=%u", claims[i].size_name,
                           claims[i].size);
    }
    return iter__fail(err, ITER_EINVAL,
                      "ranks: launchers contradict each other: %s. Unset those of the outer one",
                      list);
}

static void read_local(const launcher *l, iter_ranks *out) {
    uint32_t rank, size;
    const char *size_text = value_of(l->local[1]);
    if (!size_text) size_text = value_of(l->local_or);
    out->local_rank = out->rank;
    out->local_ranks = out->ranks;
    if (parse(size_text, &size) && size > 0 && size <= out->ranks) {
        out->local_ranks = size;
        out->local_rank = out->rank % size;
    }
    if (parse(value_of(l->local[0]), &rank) && rank < out->local_ranks) out->local_rank = rank;
}

iter_status iter_ranks_read(iter_ranks *out, iter_error *err) {
    claim claims[N_LAUNCHERS];
    int chosen = -1;
    *out = (iter_ranks){.ranks = 1, .local_ranks = 1, .launcher = ""};
    for (int i = 0; i < N_LAUNCHERS; i++) {
        const iter_status status = read_claim(&launchers[i], &claims[i], err);
        if (status < 0 && !(i == SLURM && chosen >= 0)) return status;
        if (status < 0 || (i == SLURM && chosen >= 0)) claims[i].speaks = false;
        if (claims[i].speaks && claims[i].size && chosen < 0) chosen = i;
    }
    for (int i = 0; i < N_LAUNCHERS; i++) {
        if (!claims[i].speaks) continue;
        if (chosen < 0)
            return iter__fail(err, ITER_EINVAL,
                              "ranks: %s is %u, but no variable says how many there are",
                              launchers[i].rank, claims[i].rank);
        if (claims[i].rank != claims[chosen].rank ||
            (claims[i].size && claims[i].size != claims[chosen].size))
            return fail_by_list(claims, err);
    }
    if (chosen < 0) return ITER_OK;
    out->rank = claims[chosen].rank;
    out->ranks = claims[chosen].size;
    out->launcher = launchers[chosen].name;
    read_local(&launchers[chosen], out);
    return ITER_OK;
}

uint32_t iter__local_ranks(uint32_t local_ranks, uint32_t ranks) {
    uint32_t n = local_ranks;
    for (int i = 0; n == 0 && i < N_LAUNCHERS; i++) {
        if (!parse(value_of(launchers[i].local[1]), &n)) n = 0;
    }
    if (n == 0 || (ranks > 1 && n > ranks)) n = ranks;
    return n < 1 ? 1 : n;
}

int64_t iter__launcher_rank(void) {
    iter_ranks ranks;
    if (iter_ranks_read(&ranks, NULL) < 0 || ranks.ranks == 1) return -1;
    return ranks.rank;
}
