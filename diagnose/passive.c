/*
 * passive.c - what a loop shows that was only watched, in the terms of arms that take turns.
 *
 *   both      samples / time
 *   consumer  samples / (time - time in next() - time that its thread waited for a core). If a GPU
 *             holds the loader back, next() waits for the GPU; that is the consumer's time.
 *   loader    both / load. The load is the part of the time in which the loader was at work, over
 *             all workers, or could do no more: a batch was waited for, or bytes were. Time that
 *             workers waited for a core is not counted. Without workers it is the time in next().
 *
 * A wait for a core is only taken out if the process fills the cores itself. Otherwise another
 * program has them, and loader and consumer alone would be no faster.
 *
 * The figures of one slice come from the same half second, so their ratios are as sure as those of
 * arms that take turns, and the median over slices has an interval. What is not sure is the step to
 * the rate alone: caches and memory are shared. verdict.c therefore asks for a margin.
 */
#include "diagnose/passive.h"

#include <math.h>
#include <string.h>

#include "diagnose/verdict_parts.h"

#define LEAST_LOAD  0.005
#define FULL        VERDICT_OWN_CORES /* part of the cores that the process uses itself */
#define LEAST_LOOKS 5                 /* of a slice; with fewer, it has the load of all slices */

/* ---- Slices ---------------------------------------------------------------------------------- */

static void add_to(passive_slice *a, const passive_slice *b) {
    observer_stretch *s = &a->seen;
    const observer_stretch *t = &b->seen;
    a->wall_s += b->wall_s;
    a->next_s += b->next_s;
    a->samples += b->samples;
    a->batches += b->batches;
    a->device_s += b->device_s;
    a->cpu_s += b->cpu_s;
    s->load.n += t->load.n;
    s->load.busy += t->load.busy;
    s->load.read += t->load.read;
    s->load.wait_bytes += t->load.wait_bytes;
    s->load.decode += t->load.decode;
    s->load.chain += t->load.chain;
    s->load.other += t->load.other;
    s->worker_delay_s += t->worker_delay_s;
    s->worker_cpu_s += t->worker_cpu_s;
    s->delay_s += t->delay_s;
    s->own_delay_s += t->own_delay_s;
}

void passive_add(passive_run *run, const passive_slice *slice) {
    if (run->n == PASSIVE_SLICES) {
        for (int i = 0; i < PASSIVE_SLICES / 2; i++) {
            run->slices[i] = run->slices[2 * i];
            add_to(&run->slices[i], &run->slices[2 * i + 1]);
        }
        run->n /= 2;
        run->slice_s *= 2;
    }
    run->slices[run->n++] = *slice;
}

passive_slice passive_sum(const passive_run *run) {
    passive_slice sum;
    memset(&sum, 0, sizeof(sum));
    for (int i = 0; i < run->n; i++)
        add_to(&sum, &run->slices[i]);
    return sum;
}

/* ---- One slice ------------------------------------------------------------------------------- */

/* Whether this process's own threads take the cores from one another. If they use few cores, what
 * they wait for is another program's, and that holds for loader and consumer alike. */
static bool fills_cores(const passive_slice *slice, const passive_facts *facts) {
    return slice->cpu_s >= FULL * facts->cores * slice->wall_s;
}

double passive_load(const passive_slice *slice, const passive_facts *facts) {
    const observer_load *load = &slice->seen.load;
    if (facts->workers <= 0) return fmin(fmax(slice->next_s / slice->wall_s, LEAST_LOAD), 1);
    const double delayed = fills_cores(slice, facts) ? slice->seen.worker_delay_s /
                                                           ((double)facts->workers * slice->wall_s)
                                                     : 0;
    const double busy = load->n > 0 ? load->busy / (double)load->n : 1;
    return fmin(fmax(busy - delayed, LEAST_LOAD), 1);
}

/* Seconds of the slice that the consumer would need if next() took no time. */
static double outside(const passive_slice *slice, const passive_facts *facts) {
    const double gap = slice->wall_s - slice->next_s + fmin(slice->device_s, slice->next_s);
    /* Without workers its thread may also have waited for a core inside next(). */
    const double part = facts->workers == 0 ? gap / slice->wall_s : 1;
    const double delayed = fills_cores(slice, facts) ? part * slice->seen.own_delay_s : 0;
    return fmax(gap - delayed, 0.01 * slice->wall_s);
}

/* ---- Evidence -------------------------------------------------------------------------------- */

static void set_arm(evidence *out, evidence_arm arm, measure_interval rate, double cpu) {
    out->has[arm] = true;
    out->rate[arm] = rate;
    out->cpu[arm] = cpu;
}

static void set_rates(const passive_run *run, const passive_facts *facts, evidence *out) {
    double both[PASSIVE_SLICES], consumer[PASSIVE_SLICES], loader[PASSIVE_SLICES];
    double fed[PASSIVE_SLICES], race[PASSIVE_SLICES];
    const passive_slice sum = passive_sum(run);
    const double mean_load = passive_load(&sum, facts);
    const uint32_t n = (uint32_t)run->n;
    for (int i = 0; i < run->n; i++) {
        const passive_slice *s = &run->slices[i];
        const double busy = outside(s, facts);
        const bool seen = facts->workers <= 0 || s->seen.load.n >= LEAST_LOOKS;
        const double load = seen ? passive_load(s, facts) : mean_load;
        both[i] = s->samples / s->wall_s;
        consumer[i] = s->samples / busy;
        loader[i] = both[i] / load;
        fed[i] = busy / s->wall_s;
        race[i] = busy / s->wall_s / load;
    }
    /* Without workers its share of the process's CPU time is not known; it works in next(). */
    const double in_next =
        fmin(sum.next_s - sum.seen.load.wait_bytes / fmax((double)sum.seen.load.n, 1) * sum.wall_s,
             sum.cpu_s);
    const double cpu_loader = facts->workers == 0 ? fmax(in_next, 0)
                              : facts->is_loader  ? sum.seen.worker_cpu_s
                                                  : NAN;
    const double cpu_rest = sum.cpu_s - (isfinite(cpu_loader) ? cpu_loader : 0);
    set_arm(out, EVIDENCE_BOTH, measure_median(both, n), sum.cpu_s / sum.samples);
    set_arm(out, EVIDENCE_CONSUMER, measure_median(consumer, n), fmax(cpu_rest, 0) / sum.samples);
    out->both_by_consumer = measure_median(fed, n);
    if (!facts->is_loader && facts->workers != 0) return;
    set_arm(out, EVIDENCE_LOADER, measure_median(loader, n), cpu_loader / sum.samples);
    out->loader_by_consumer = measure_median(race, n);
    const double reads = sum.seen.load.read / fmax(sum.seen.load.busy, 1e-9);
    if (facts->is_loader && reads > 0) {
        const measure_interval *rate = &out->rate[EVIDENCE_LOADER];
        set_arm(out, EVIDENCE_READ, (measure_interval){rate->median / reads, NAN, NAN, n}, NAN);
    }
}

/* A worker that made hardly a chunk shows nothing. */
static void leave_out_idle_workers(evidence *out) {
    for (int i = 0; i < out->n_workers; i++)
        if (out->worker[i].chunks < 4) out->worker[i].chunks = 0;
}

void passive_evidence(const passive_run *run, const passive_facts *facts, evidence *out) {
    const measure_interval none = {NAN, NAN, NAN, 0};
    const passive_slice sum = passive_sum(run);
    out->passive = out->consumes = out->by_shares = out->steady = true;
    out->cores = facts->cores;
    out->workers = facts->workers;
    out->prefetch = facts->prefetch;
    out->batch = facts->batch > 0  ? facts->batch
                 : sum.batches > 0 ? (uint64_t)round(sum.samples / sum.batches)
                                   : 1;
    out->in_order = facts->in_order;
    out->rounds = (uint32_t)run->n;
    for (int i = 0; i < EVIDENCE_ARMS; i++) {
        out->rate[i] = none;
        out->cpu[i] = NAN;
    }
    out->loader_by_consumer = out->both_by_consumer = out->loader_by_decode = none;
    out->decode_by_read = out->both_by_resident = none;
    out->copy_bytes = out->link_bytes_per_s = NAN;
    out->observed_s = sum.wall_s;
    out->wait_share = sum.wall_s > 0 ? sum.next_s / sum.wall_s : NAN;
    out->consumer_runnable = sum.wall_s > 0 ? fmin(sum.seen.delay_s / sum.wall_s, 1) : NAN;
    leave_out_idle_workers(out);
    if (run->n == 0 || sum.samples <= 0) return;
    set_rates(run, facts, out);
    passive_guess(run, facts, out);
}
