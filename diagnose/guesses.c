/*
 * guesses.c - changes that may help a loop that was only watched, with what they would do to the
 * loader alone. No change was tried, so there is no interval, and texts say "about".
 *
 * The guesses are the plain ones: n workers make n times as much if their time is CPU time and the
 * cores are free, or if it is waiting; a set in memory takes the time of reading away; a larger
 * batch takes away the part of the time that comes once per batch.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/passive.h"
#include "diagnose/verdict_parts.h"

#define WORKERS_MAX  16
#define DEEPER       14   /* batches ahead more */
#define MUCH_READING 0.2  /* part of the loader's time */
#define WAITING      0.5  /* part of the loader's time spent waiting for bytes: no worker helps */
#define TURNS        0.15 /* share of the workers' time in which they wait for get() */
#define BURNS        0.7  /* part of the workers' busy time that is CPU time */
#define PER_BATCH    0.25 /* part of the loader's time that comes with each batch */
#define SHORT_S      3e-4 /* a batch that takes longer is not too small */
#define GOOD_BATCH   64
#define MOST_FASTER  10.0

static evidence_change *propose(evidence *e, const char *option) {
    if (e->n_changes == EVIDENCE_CHANGES) return NULL;
    evidence_change *c = &e->changes[e->n_changes++];
    memset(c, 0, sizeof(*c));
    snprintf(c->option, sizeof(c->option), "%s", option);
    c->feasible = true;
    c->loader_ratio = c->consumer_ratio = 1;
    c->loader_low = c->loader_high = c->consumer_low = c->consumer_high = NAN;
    c->cpu_loader = e->cpu[EVIDENCE_LOADER];
    c->cpu_consumer = e->cpu[EVIDENCE_CONSUMER];
    return c;
}

static void name_numbers(evidence_change *c, uint64_t from, uint64_t to) {
    snprintf(c->from, sizeof(c->from), "%llu", (unsigned long long)from);
    snprintf(c->to, sizeof(c->to), "%llu", (unsigned long long)to);
}

static double share_of_turns(const evidence *e) {
    double waiting = 0;
    for (int i = 0; i < e->n_stages; i++)
        if (e->stages[i].kind == EVIDENCE_OF_TURN) waiting += e->stages[i].share;
    return waiting;
}

/* Workers that would make as much as the consumer takes, and a quarter more. If they burn CPU time,
 * or wait for a core to do so, no more than the cores that the consumer leaves. */
static int64_t enough_workers(const passive_slice *sum, const passive_facts *facts,
                              const evidence *e) {
    const int64_t now = facts->workers > 0 ? facts->workers : 1;
    const double race = e->loader_by_consumer.median;
    const double needed = ceil((double)now / race * 1.25);
    const double load = passive_load(sum, facts);
    const double busy_s = load * (double)now * sum->wall_s;
    const double cpu_s = e->cpu[EVIDENCE_LOADER] * sum->samples + sum->seen.worker_delay_s;
    const double consumer_cores = e->cpu[EVIDENCE_CONSUMER] * sum->samples / sum->wall_s;
    double most = WORKERS_MAX;
    if (cpu_s >= BURNS * busy_s) most = fmax(floor(facts->cores - consumer_cores + 0.5), 1);
    double to = fmax(needed, facts->workers > 0 ? (double)now + 1 : 1);
    return (int64_t)fmin(fmin(to, most), WORKERS_MAX);
}

static void guess_workers(const passive_slice *sum, const passive_facts *facts, evidence *e) {
    const observer_load *load = &sum->seen.load;
    if (facts->workers > 0 &&
        (load->wait_bytes > WAITING * load->busy || share_of_turns(e) > TURNS))
        return;
    const int64_t to = enough_workers(sum, facts, e);
    if (to <= facts->workers) return;
    evidence_change *c = propose(e, "workers");
    if (c == NULL) return;
    c->overlaps = true;
    c->loader_ratio = facts->workers > 0 ? (double)to / (double)facts->workers : (double)to;
    name_numbers(c, (uint64_t)facts->workers, (uint64_t)to);
}

static void guess_prefetch(const passive_facts *facts, evidence *e) {
    evidence_change *c = facts->workers > 0 ? propose(e, "prefetch") : NULL;
    if (c == NULL) return;
    c->deeper = true;
    name_numbers(c, facts->prefetch, facts->prefetch + DEEPER);
}

static void guess_memory(const passive_slice *sum, const passive_facts *facts, evidence *e) {
    const observer_load *load = &sum->seen.load;
    const double reads = load->busy > 0 ? load->read / load->busy : 0;
    if (facts->set_bytes <= 0 || reads < MUCH_READING) return;
    evidence_change *c = propose(e, "source");
    if (c == NULL) return;
    c->loader_ratio = fmin(1 / fmax(1 - reads, 1e-9), MOST_FASTER);
    snprintf(c->from, sizeof(c->from), "%s", facts->source);
    snprintf(c->to, sizeof(c->to), "memory");
}

/* True if the fixed cost of a batch is much of the loader's time. */
static bool guess_batch(const passive_slice *sum, const passive_facts *facts, evidence *e) {
    const observer_load *load = &sum->seen.load;
    const double fixed = load->busy > 0 ? load->other / load->busy : 0;
    const double batch_s = (double)e->batch / e->rate[EVIDENCE_LOADER].median;
    if (fixed < PER_BATCH || batch_s > SHORT_S || e->batch >= GOOD_BATCH / 2) return false;
    if (facts->epoch < GOOD_BATCH) return false; /* an epoch would not fill one */
    evidence_change *c = propose(e, "batch");
    if (c == NULL) return false;
    c->loader_ratio = 1 / (1 - fixed + fixed * (double)e->batch / GOOD_BATCH);
    name_numbers(c, e->batch, GOOD_BATCH);
    return true;
}

void passive_guess(const passive_run *run, const passive_facts *facts, evidence *e) {
    const passive_slice sum = passive_sum(run);
    e->n_changes = 0;
    const verdict_limit look = verdict_look(e);
    if (look == LIMIT_CONSUMER || look == LIMIT_NONE || look == LIMIT_LOADER) return;
    /* Workers that hand over tiny batches hinder one another. */
    const bool tiny = facts->is_loader && guess_batch(&sum, facts, e);
    if (!tiny || facts->workers == 0) guess_workers(&sum, facts, e);
    if (!facts->is_loader) return;
    guess_memory(&sum, facts, e);
    /* Tiny batches come unevenly because each costs a wake-up or two. */
    if (!tiny && (look == LIMIT_PREFETCH || look == LIMIT_WORKER)) guess_prefetch(facts, e);
}
