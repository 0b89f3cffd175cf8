/* job.c - see job.h. */
#include "engine/ranks/job.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

/* What a rank says in a turn; its micro-batches follow. */
typedef struct word {
    int32_t turn, status;
    uint64_t same;
    engine_spent spent;
    char message[sizeof(((iter_error *)0)->message)];
} word;

static word *word_of(const engine_job *job, uint32_t rank) {
    return (word *)(void *)(job->blocks + rank * job->block_bytes);
}

static engine_leaf *leaves_of(const engine_job *job, uint32_t rank) {
    return (engine_leaf *)(void *)(job->blocks + rank * job->block_bytes + sizeof(word));
}

/* ---- Making ---------------------------------------------------------------------------------- */

static bool take_memory(engine_job *job) {
    const uint32_t ranks = job->comm->ranks;
    job->block_bytes = sizeof(word) + job->max_own * sizeof(engine_leaf);
    job->own = iter__engine_alloc(job->max_own, sizeof(*job->own));
    job->blocks = iter__engine_alloc(ranks, job->block_bytes);
    job->lists = iter__engine_alloc(2 * (size_t)ranks, sizeof(*job->lists));
    job->losses = iter__engine_alloc(job->n_leaves, sizeof(*job->losses));
    job->stats = iter__engine_alloc(ranks, sizeof(*job->stats));
    return job->own && job->blocks && job->lists && job->losses && job->stats;
}

iter_status iter__job_create(iter_communicator *comm, uint32_t n_leaves, int64_t global_batch,
                             engine_job **out, iter_error *err) {
    static iter_communicator alone = {.ranks = 1};
    *out = NULL;
    if (!comm) comm = &alone;
    if (n_leaves == 0) n_leaves = comm->ranks;
    if (n_leaves < comm->ranks)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "%u micro-batches are too few for %u ranks: each needs one",
                                 n_leaves, comm->ranks);
    engine_job *job = iter__engine_alloc(1, sizeof(*job));
    if (!job) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    job->comm = comm;
    job->n_leaves = n_leaves;
    job->global_batch = global_batch;
    job->n_own = iter__tree_share(n_leaves, comm->rank, comm->ranks, &job->first);
    job->max_own = (n_leaves + comm->ranks - 1) / comm->ranks;
    if (!take_memory(job)) {
        iter__job_destroy(job);
        return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    }
    *out = job;
    return ITER_OK;
}

void iter__job_destroy(engine_job *job) {
    if (!job) return;
    iter__sums_destroy(job->sums);
    iter__engine_free(job->own);
    iter__engine_free(job->blocks);
    iter__engine_free(job->lists);
    iter__engine_free(job->losses);
    iter__engine_free(job->stats);
    iter__engine_free(job);
}

uint64_t iter__job_bytes(const engine_job *job) {
    return sizeof(*job) +
           job->comm->ranks * (job->block_bytes + 2 * sizeof(*job->lists) + sizeof(*job->stats)) +
           job->max_own * sizeof(*job->own) + job->n_leaves * sizeof(*job->losses) +
           (job->sums ? iter__sums_bytes(job->sums) : 0);
}

int64_t iter__job_row(const engine_job *job, uint32_t leaf, int64_t m) {
    __extension__ typedef unsigned __int128 wide;
    return (int64_t)((wide)leaf * (uint64_t)m / job->n_leaves);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static iter_status say(engine_job *job, int32_t turn, iter_status status, uint64_t same,
                       iter_error *err) {
    const uint32_t rank = job->comm->rank;
    uint64_t *at = job->lists, *bytes = at + job->comm->ranks;
    word *own = word_of(job, rank);
    *own = (word){.turn = turn, .status = status, .same = same, .spent = job->spent};
    if (status < 0 && err) memcpy(own->message, err->message, sizeof(own->message));
    memcpy(leaves_of(job, rank), job->own, job->n_own * sizeof(*job->own));
    for (uint32_t i = 0; i < job->comm->ranks; i++) {
        at[i] = i * job->block_bytes;
        bytes[i] = job->block_bytes;
    }
    const engine_blocks all = {job->blocks, at, bytes};
    return iter__comm_gather(job->comm, ENGINE_LANE_CALLER, &all, err);
}

static const char *turn_text(int32_t turn) {
    switch (turn) {
    case ENGINE_TURN_STEP: return "takes a step";
    case ENGINE_TURN_TEST: return "tests a batch";
    case ENGINE_TURN_END: return "has no batch left";
    default: return "does something else";
    }
}

/* The error of the first rank that has one, or of ranks that are not at the same place. */
static iter_status hear(const engine_job *job, iter_error *err) {
    const word *first = word_of(job, 0);
    for (uint32_t i = 0; i < job->comm->ranks; i++) {
        const word *said = word_of(job, i);
        if (said->status >= 0) continue;
        if (job->comm->ranks == 1) return (iter_status)said->status; /* err has it already */
        return iter__engine_fail(err, (iter_status)said->status, "rank %u: %.*s", i,
                                 (int)sizeof(said->message) - 1, said->message);
    }
    for (uint32_t i = 1; i < job->comm->ranks; i++)
        if (word_of(job, i)->turn != first->turn)
            return iter__engine_fail(err, ITER_EINVAL,
                                     "rank %u %s while rank 0 %s: do they read the same data, and "
                                     "make the same calls?",
                                     i, turn_text(word_of(job, i)->turn), turn_text(first->turn));
    return ITER_OK;
}

/* A step is not taken, but ranks may have begun to send their sums: all take part in that. */
static void drop_step(engine_job *job) {
    bool any = false;
    for (uint32_t i = 0; i < job->comm->ranks; i++)
        any |= word_of(job, i)->turn == ENGINE_TURN_STEP;
    if (!any || !job->sums) return;
    if (word_of(job, job->comm->rank)->turn != ENGINE_TURN_STEP) iter__sums_begin(job->sums);
    iter__sums_fill(job->sums);
    iter__sums_drop(job->sums);
}

static iter_status meet(engine_job *job, engine_turn turn, iter_status status, uint64_t same,
                        iter_error *err) {
    ENGINE_TRY(say(job, (int32_t)turn, status, same, err));
    status = hear(job, err);
    if (status < 0) drop_step(job);
    return status;
}

static void add_up(engine_job *job) {
    uint32_t n = 0;
    job->total = (engine_leaf){0};
    for (uint32_t i = 0; i < job->comm->ranks; i++) {
        uint32_t first;
        const uint32_t own = iter__tree_share(job->n_leaves, i, job->comm->ranks, &first);
        const engine_leaf *leaves = leaves_of(job, i);
        for (uint32_t k = 0; k < own; k++) {
            job->losses[n++] = leaves[k].loss;
            job->total.n_counted += leaves[k].n_counted;
            job->total.n_correct += leaves[k].n_correct;
        }
    }
    job->total.loss = iter__tree_sum(job->losses, n);
}

static double own_seconds(const engine_job *job, uint32_t rank) {
    const engine_spent *spent = &word_of(job, rank)->spent;
    return spent->outside + spent->computing;
}

/* Finds the rank that kept the others waiting, and adds up each rank's time. */
static void count_time(engine_job *job) {
    uint32_t slowest = 0;
    for (uint32_t i = 1; i < job->comm->ranks; i++)
        if (own_seconds(job, i) > own_seconds(job, slowest)) slowest = i;
    for (uint32_t i = 0; i < job->comm->ranks; i++) {
        iter_rank_stats *stats = &job->stats[i];
        stats->n_steps++;
        stats->outside_seconds += word_of(job, i)->spent.outside;
        stats->compute_seconds += word_of(job, i)->spent.computing;
        stats->wait_seconds += own_seconds(job, slowest) - own_seconds(job, i);
    }
    job->stats[slowest].n_slowest++;
    job->slowest_seconds += own_seconds(job, slowest);
}

iter_status iter__job_turn(engine_job *job, engine_turn turn, iter_status status, iter_error *err) {
    if (turn == ENGINE_TURN_STEP) iter__sums_fill(job->sums);
    ENGINE_TRY(meet(job, turn, status, 0, err));
    add_up(job);
    if (turn == ENGINE_TURN_STEP) count_time(job);
    return ITER_OK;
}

iter_status iter__job_agree(engine_job *job, iter_status status, const uint64_t *same,
                            const char *what, iter_error *err) {
    ENGINE_TRY(meet(job, ENGINE_TURN_AGREE, status, same ? *same : 0, err));
    for (uint32_t i = 1; i < job->comm->ranks; i++)
        if (word_of(job, i)->same != word_of(job, 0)->same)
            return iter__engine_fail(err, ITER_EINVAL, "%s differs on rank %u from rank 0's", what,
                                     i);
    return status;
}

iter_status iter__job_go_on(engine_job *job, bool wants, bool *out_all_want, iter_error *err) {
    ENGINE_TRY(meet(job, ENGINE_TURN_GO_ON, ITER_OK, wants, err));
    *out_all_want = true;
    for (uint32_t i = 0; i < job->comm->ranks; i++)
        *out_all_want &= word_of(job, i)->same == 1;
    return ITER_OK;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

uint64_t iter__claim_bits(uint64_t bits, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    if (bits == 0) bits = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        bits = (bits ^ at[i]) * UINT64_C(1099511628211);
    return bits;
}

void iter__claim(engine_claim *out, const char *name, const char *text) {
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%s", name);
    snprintf(out->text, sizeof(out->text), "%s", text);
    out->bits = iter__claim_bits(0, text, strlen(text));
}

void iter__claim_file(engine_claim *out, const char *name, void (*code)(void)) {
    Dl_info info;
    uint64_t block[512], bits = 0;
    char text[64];
    size_t n, total = 0;
    void *at;
    memcpy(&at, &code, sizeof(at));
    FILE *file = dladdr(at, &info) ? fopen(info.dli_fname, "rbe") : NULL;
    if (!file) file = fopen("/proc/self/exe", "rbe"); /* a static program's name may be relative */
    while (file && (n = fread(block, 1, sizeof(block), file)) > 0) {
        memset((char *)block + n, 0, sizeof(block) - n);
        for (size_t i = 0; i < sizeof(block) / sizeof(block[0]); i++)
            bits = (bits ^ block[i]) * UINT64_C(1099511628211) + 1;
        total += n;
    }
    if (file) fclose(file);
    snprintf(text, sizeof(text), "%016llx, %zu bytes", (unsigned long long)bits, total);
    iter__claim(out, name, text);
}

/* From where they differ, so that long texts show it. */
static iter_status fail_claim(const engine_claim *first, const engine_claim *other, uint32_t rank,
                              iter_error *err) {
    size_t at = 0;
    while (first->text[at] && first->text[at] == other->text[at])
        at++;
    at = at > 20 ? at - 20 : 0;
    return iter__engine_fail(
        err, ITER_EINVAL, "rank %u has another %s than rank 0: %s%.100s there, %s%.100s on rank 0",
        rank, first->name, at ? "..." : "", other->text + at, at ? "..." : "", first->text + at);
}

iter_status iter__job_compare(engine_job *job, const engine_claim *claims, int32_t n,
                              iter_error *err) {
    const uint32_t ranks = job->comm->ranks;
    const size_t size = (size_t)n * sizeof(*claims);
    uint64_t *at = job->lists, *bytes = at + ranks;
    engine_claim *all = iter__engine_alloc(ranks, size);
    /* Even without memory this rank says so, because the others wait for it. */
    iter_status status =
        all ? ITER_OK : iter__engine_fail(err, ITER_ENOMEM, "no memory to compare ranks");
    status = iter__job_agree(job, status, NULL, "", err);
    if (status >= 0) {
        for (uint32_t i = 0; i < ranks; i++) {
            at[i] = i * size;
            bytes[i] = size;
        }
        memcpy(all + job->comm->rank * (uint32_t)n, claims, size);
        const engine_blocks blocks = {all, at, bytes};
        status = iter__comm_gather(job->comm, ENGINE_LANE_CALLER, &blocks, err);
    }
    for (uint32_t i = 1; status >= 0 && i < ranks; i++)
        for (int32_t k = 0; status >= 0 && k < n; k++)
            if (all[i * (uint32_t)n + (uint32_t)k].bits != all[k].bits)
                status = fail_claim(&all[k], &all[i * (uint32_t)n + (uint32_t)k], i, err);
    iter__engine_free(all);
    return status;
}
