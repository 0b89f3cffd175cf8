/* communicator.c - opens communicators; see communicator.h. */
#include "engine/ranks/communicator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/ranks.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define TIMEOUT_S 300

/* ---- Opening --------------------------------------------------------------------------------- */

/* A name without a folder is looked for beside this library first, and so belongs to its build. */
static void *open_library(const char *path) {
    Dl_info here;
    char beside[4096];
    void *library = NULL;
    const char *slash = NULL;
    if (!strchr(path, '/') && dladdr((void *)(uintptr_t)&open_library, &here) && here.dli_fname)
        slash = strrchr(here.dli_fname, '/');
    if (slash && snprintf(beside, sizeof(beside), "%.*s/%s", (int)(slash - here.dli_fname),
                          here.dli_fname, path) < (int)sizeof(beside))
        library = dlopen(beside, RTLD_NOW | RTLD_GLOBAL);
    return library ? library : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* The module is never unloaded: MPI leaves handlers behind. */
static iter_status open_module(const engine_comm_ops **out, iter_error *err) {
    const char *path = getenv("ITER_MPI_MODULE");
    if (!path || !path[0]) path = ITER_MPI_MODULE;
    void *library = open_library(path);
    if (!library)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "mpi: %.300s; the module is built where MPI's headers are "
                                 "(libopenmpi-dev), and ITER_MPI_MODULE may name it",
                                 dlerror());
    engine_comm_module *module;
    void *symbol = dlsym(library, ENGINE_COMM_SYMBOL);
    memcpy(&module, &symbol, sizeof(module));
    *out = module ? module() : NULL;
    if (*out && (*out)->version == ENGINE_COMM_VERSION) return ITER_OK;
    return iter__engine_fail(err, ITER_EUNSUPPORTED, "%.300s: not this version's module for MPI",
                             path);
}

/* Compares what MPI says with what the launcher wrote into the environment, which loaders use. */
static iter_status check_place(const iter_communicator *comm, iter_error *err) {
    iter_ranks told;
    ENGINE_TRY(iter_ranks_read(&told, err));
    if (told.launcher[0] == '\0' || (told.rank == comm->rank && told.ranks == comm->ranks))
        return ITER_OK;
    return iter__engine_fail(err, ITER_EINVAL,
                             "mpi: this is rank %u of %u, but %s's variables say rank %u of %u: is "
                             "the module built for another MPI than the launcher's?",
                             comm->rank, comm->ranks, told.launcher, told.rank, told.ranks);
}

static iter_status open_mpi(iter_communicator *comm, iter_error *err) {
    const engine_comm_ops *ops = NULL;
    ENGINE_TRY(open_module(&ops, err));
    ENGINE_TRY(ops->open(comm, err));
    comm->ops = ops;
    return check_place(comm, err);
}

iter_status iter_communicator_open(const char *kind, uint32_t timeout_s, iter_communicator **out,
                                   iter_error *err) {
    if (!out) return iter__engine_fail(err, ITER_EINVAL, "communicator: out is NULL");
    *out = NULL;
    iter_ranks told = {.ranks = 1};
    const bool any = !kind || strcmp(kind, "auto") == 0;
    if (any) ENGINE_TRY(iter_ranks_read(&told, err));
    const bool mpi = any ? told.ranks > 1 : strcmp(kind, "mpi") == 0;
    if (!any && !mpi && strcmp(kind, "none") != 0)
        return iter__engine_fail(
            err, ITER_EINVAL, "communicator '%.40s' is unknown; there are auto, mpi, none", kind);
    iter_communicator *comm = iter__engine_alloc(1, sizeof(*comm));
    if (!comm) return iter__engine_fail(err, ITER_ENOMEM, "communicator: out of memory");
    comm->ranks = comm->lanes = 1;
    comm->timeout_s = timeout_s ? timeout_s : TIMEOUT_S;
    const iter_status status = mpi ? open_mpi(comm, err) : ITER_OK;
    if (status < 0) {
        iter_communicator_close(comm);
        return status;
    }
    *out = comm;
    return ITER_OK;
}

void iter_communicator_close(iter_communicator *comm) {
    if (!comm) return;
    if (comm->ops) comm->ops->close(comm->state);
    iter__engine_free(comm);
}

/* ---- Use ------------------------------------------------------------------------------------- */

uint32_t iter_communicator_rank(const iter_communicator *comm) {
    return comm ? comm->rank : 0;
}

uint32_t iter_communicator_ranks(const iter_communicator *comm) {
    return comm ? comm->ranks : 1;
}

iter_status iter__comm_gather(iter_communicator *comm, uint32_t lane, const engine_blocks *all,
                              iter_error *err) {
    if (comm->ranks == 1) return ITER_OK;
    return comm->ops->gather(comm->state, lane, all, comm->timeout_s, err);
}

iter_status iter__comm_exchange(iter_communicator *comm, uint32_t lane, const engine_blocks *send,
                                const engine_blocks *receive, iter_error *err) {
    if (comm->ranks > 1)
        return comm->ops->exchange(comm->state, lane, send, receive, comm->timeout_s, err);
    memcpy((char *)receive->base + receive->at[0], (const char *)send->base + send->at[0],
           send->bytes[0]);
    return ITER_OK;
}

iter_status iter_communicator_gather(iter_communicator *comm, const void *mine, size_t bytes,
                                     void *all, iter_error *err) {
    if (!all || (!mine && bytes > 0))
        return iter__engine_fail(err, ITER_EINVAL, "communicator: mine or all is NULL");
    const uint32_t rank = iter_communicator_rank(comm), ranks = iter_communicator_ranks(comm);
    const size_t padded = (bytes + 3) / 4 * 4;
    if (!comm || ranks == 1) {
        memcpy(all, mine, bytes);
        return ITER_OK;
    }
    char *block = iter__engine_alloc(ranks, padded + 2 * sizeof(uint64_t));
    if (!block) return iter__engine_fail(err, ITER_ENOMEM, "communicator: out of memory");
    uint64_t *at = (uint64_t *)(void *)block, *sizes = at + ranks;
    char *padded_all = block + 2 * sizeof(uint64_t) * ranks;
    for (uint32_t i = 0; i < ranks; i++) {
        at[i] = i * padded;
        sizes[i] = padded;
    }
    memcpy(padded_all + at[rank], mine, bytes);
    const engine_blocks blocks = {padded_all, at, sizes};
    const iter_status status = iter__comm_gather(comm, ENGINE_LANE_CALLER, &blocks, err);
    for (uint32_t i = 0; status >= 0 && i < ranks; i++)
        memcpy((char *)all + i * bytes, padded_all + at[i], bytes);
    iter__engine_free(block);
    return status;
}

void iter_communicator_abort(iter_communicator *comm) {
    if (comm && comm->ranks > 1) comm->ops->end_all(comm->state);
}
