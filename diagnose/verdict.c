/*
 * verdict.c - from evidence to a limit, its certainty, and the changes that may remove it. A pure
 * function: it opens and measures nothing, and knows of a run only what evidence.h holds.
 * verdict_words.c writes the sentences.
 *
 * The order of questions is that of an operational analysis (Denning and Buzen 1978; Plumber does
 * it for TensorFlow's pipelines): does feeding cost anything at all; if so, which term of the model
 * is the largest; if it is the loader's, which stage of it; and is that stage slow, or are there
 * too few workers for it. If a question can be put to the run (another worker, one batch more), the
 * measured answer decides, not the rule.
 */
#include "diagnose/verdict_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXPLAINED  0.5  /* part of the loss that a loader without workers must be able to explain */
#define ALIKE      1.1  /* bytes per chunk / other workers', up to which samples are alike */
#define MORE_HANDS 0.5  /* part of the possible gain that more workers must bring */
#define TURN_WAITS 0.15 /* share of the workers' time spent waiting for get() */
#define TURN_FULL  0.7  /* from this occupancy on, get() is the suspect */
#define CPU_FULL   0.85 /* CPU term / both's time, from which the cores are the suspect */
#define LINK_FULL  0.85 /* time of the copies / the loader's, from which the link is the suspect */
#define CLEARLY    1.4  /* the first term over the second */
/* both's time / the model's, below which the figures contradict each other */
#define POSSIBLE    0.8
#define ANSWERS_MIN 20 /* of servers, to say something of them */
/* Share of answers that refuse, from which they are the limit. A loader that is refused keeps it at
 * a twentieth. */
#define THROTTLED    0.03
#define DRIVER_FULL  0.8      /* cores that reading takes, from which requests are too many */
#define SMALL_ANSWER 131072.0 /* bytes */
#define MOSTLY_FIRST 0.6      /* share of an answer's time until its first byte */
#define MUCH         0.5      /* of the loader's time: reading that refusals may explain */
#define MIN_CHUNKS   4        /* of a worker that is called slow */
/* factor that an interval must clear as well, if the machine was restless */
#define RESTLESS 1.25
/* the same of a loop that was only watched: the loader's rate alone is derived */
#define WATCHED   1.1
#define DISTURBED 0.25 /* share of the time that a thread waits for another program's core */
#define WATCHED_S 3.0  /* a loop that was watched for less has not shown much */

/* ---- The model ------------------------------------------------------------------------------- */

static double or_zero(double value) {
    return isfinite(value) ? value : 0;
}

static double seconds(const evidence *e, evidence_arm arm) {
    return e->has[arm] && e->rate[arm].median > 0 ? 1 / e->rate[arm].median : 0;
}

static verdict_terms terms_of(double loader, double consumer, double cpu, double copy,
                              bool overlap) {
    verdict_terms t = {loader, consumer, cpu, copy, overlap, 0};
    t.both = fmax(overlap ? fmax(loader, consumer) : loader + consumer, fmax(cpu, copy));
    return t;
}

verdict_terms verdict_terms_now(const evidence *e) {
    double cpu = or_zero(e->cpu[EVIDENCE_LOADER]) + or_zero(e->cpu[EVIDENCE_CONSUMER]);
    double copy = e->link_bytes_per_s > 0 ? or_zero(e->copy_bytes / e->link_bytes_per_s) : 0;
    return terms_of(seconds(e, EVIDENCE_LOADER), seconds(e, EVIDENCE_CONSUMER), cpu / e->cores,
                    copy, e->workers != 0);
}

/* How even loader and consumer are, 0 to 1. If they are equal, each waits for the other now and
 * then. */
static double evenness(const verdict_terms *t) {
    double most = fmax(t->loader, t->consumer);
    return most > 0 ? fmin(t->loader, t->consumer) / most : 0;
}

static verdict_limit part_after(const evidence *e, const evidence_change *change);

double verdict_expect(const evidence *e, const evidence_change *change, verdict_limit *out_next) {
    verdict_terms now = verdict_terms_now(e);
    double cpu = (or_zero(change->cpu_loader) + or_zero(change->cpu_consumer)) / e->cores;
    /* The loader was measured with its copies, so they take no longer than it does. */
    const double loader = now.loader / change->loader_ratio;
    verdict_terms then = terms_of(loader, now.consumer / change->consumer_ratio, cpu,
                                  fmin(now.copy, loader), now.overlap || change->overlaps);
    double both = e->has[EVIDENCE_BOTH] ? seconds(e, EVIDENCE_BOTH) : now.both;
    double left = fmax(both / now.both - 1, 0);
    if (change->deeper)
        left = 0;
    else if (then.overlap && now.overlap && evenness(&now) > 0)
        left *= fmin(evenness(&then) / evenness(&now), 1);
    else if (then.overlap != now.overlap && left <= UNEXPLAINED - 1)
        left = 0; /* more than that is not due to the loader, and no worker removes it */
    if (out_next != NULL && left > UNEXPLAINED - 1 && then.overlap && now.overlap)
        *out_next = LIMIT_PREFETCH; /* unevenness stays */
    else if (out_next != NULL)
        *out_next = then.overlap && then.cpu > 1.02 * fmax(then.loader, then.consumer) ? LIMIT_CPU
                    : then.consumer >= then.loader ? LIMIT_CONSUMER
                                                   : part_after(e, change);
    return 1 / (then.both * (1 + left));
}

verdict_bounds verdict_bound(const evidence *e) {
    verdict_terms t = verdict_terms_now(e);
    return (verdict_bounds){t.loader > 0 ? 1 / t.loader : NAN,
                            t.consumer > 0 ? 1 / t.consumer : NAN, t.cpu > 0 ? 1 / t.cpu : NAN,
                            t.copy > 0 ? 1 / t.copy : NAN, t.both > 0 ? 1 / t.both : NAN};
}

/* ---- Parts of the loader --------------------------------------------------------------------- */

/* Of the time that workers spend on decoding and on the chain, the part that is decoding. */
static double share_of_decoding(const evidence *e) {
    double decode = 0, chain = 0;
    for (int i = 0; i < e->n_stages; i++) {
        if (e->stages[i].kind == EVIDENCE_OF_DECODE) decode += e->stages[i].share;
        if (e->stages[i].kind == EVIDENCE_OF_CHAIN) chain += e->stages[i].share;
    }
    return decode + chain > 0 ? decode / (decode + chain) : 1;
}

verdict_parts verdict_parts_of(const evidence *e) {
    double read = seconds(e, EVIDENCE_READ), loader = seconds(e, EVIDENCE_LOADER);
    if (e->by_shares) {
        const double made = fmax(loader - read, 0), decoding = made * share_of_decoding(e);
        return (verdict_parts){read, decoding, made - decoding};
    }
    double decode = e->has[EVIDENCE_DECODE] ? seconds(e, EVIDENCE_DECODE) : loader;
    return (verdict_parts){read, fmax(decode - read, 0), fmax(loader - decode, 0)};
}

static verdict_limit largest(const verdict_parts *p) {
    if (p->read >= p->decode && p->read >= p->chain) return LIMIT_READ;
    return p->decode >= p->chain ? LIMIT_DECODE : LIMIT_TRANSFORM;
}

verdict_limit verdict_part_of_loader(const evidence *e) {
    const verdict_parts p = verdict_parts_of(e);
    return largest(&p);
}

/* The same after a change has removed a part. */
static verdict_limit part_after(const evidence *e, const evidence_change *change) {
    verdict_parts p = verdict_parts_of(e);
    const bool arrays = strcmp(change->option, "loader") == 0;
    if (arrays || strcmp(change->option, "source") == 0 || strcmp(change->option, "memory") == 0)
        p.read = 0;
    if (arrays) p.decode = 0;
    return largest(&p);
}

verdict_remote verdict_remote_of(const evidence *e) {
    const evidence_remote *r = &e->remote;
    if (r->answers < ANSWERS_MIN) return REMOTE_NONE;
    if (r->throttled >= THROTTLED) return REMOTE_THROTTLED;
    /* One thread at a time drives all requests. */
    const double busy = r->whole_s > 0 ? r->cpu_s * r->in_flight / r->whole_s : 0;
    if (busy >= DRIVER_FULL && r->bytes < SMALL_ANSWER) return REMOTE_REQUESTS;
    return r->first_s >= MOSTLY_FIRST * r->whole_s ? REMOTE_LATENCY : REMOTE_BANDWIDTH;
}

bool verdict_waits_for_server(const evidence *e) {
    const verdict_remote kind = verdict_remote_of(e);
    /* What a server grants is shared by all arms, so that their rates are uncertain. */
    if (kind == REMOTE_THROTTLED)
        return verdict_parts_of(e).read >= MUCH * seconds(e, EVIDENCE_LOADER);
    return kind != REMOTE_NONE && e->workers != 0 && verdict_part_of_loader(e) == LIMIT_READ;
}

/* The largest part over the second; infinite if there is only one. */
static double dominance(const evidence *e) {
    verdict_parts p = verdict_parts_of(e);
    double most = fmax(p.read, fmax(p.decode, p.chain));
    double least = fmin(p.read, fmin(p.decode, p.chain));
    double second = p.read + p.decode + p.chain - most - least;
    return second > 0 ? most / second : INFINITY;
}

verdict_odd_worker verdict_beside_others(const evidence *e, int number) {
    const evidence_worker *w = &e->worker[number];
    verdict_odd_worker out = {0, 1};
    double seconds = 0, bytes = 0;
    int n = 0;
    for (int k = 0; k < e->n_workers; k++) {
        if (k == number || e->worker[k].chunks == 0) continue;
        seconds += e->worker[k].busy_s;
        bytes += e->worker[k].bytes;
        n++;
    }
    if (w->chunks > 0 && seconds > 0) out.times = w->busy_s / (seconds / n);
    if (w->bytes > 0 && bytes > 0) out.larger = w->bytes / (bytes / n);
    return out;
}

/* The worker that takes longer over the same bytes than the others, or -1. Larger samples may take
 * longer in proportion to their size. */
int verdict_slow_worker(const evidence *e, double *out_times) {
    for (int i = 0; e->n_workers > 1 && i < e->n_workers; i++) {
        const verdict_odd_worker odd = verdict_beside_others(e, i);
        *out_times = odd.times / fmax(odd.larger, 1);
        if (*out_times >= SLOW_WORKER) return i;
    }
    *out_times = 0;
    return -1;
}

/* In order, one worker's samples may differ from another's. If their bytes are known, the bytes
 * decide. */
bool verdict_may_be_unlike(const evidence *e, int worker) {
    bool known = true;
    for (int i = 0; i < e->n_workers; i++)
        known = known && (e->worker[i].bytes > 0 || e->worker[i].chunks == 0);
    return e->in_order && (!known || verdict_beside_others(e, worker).larger > ALIKE);
}

/* How full the one seat in get() is, 0 to 1, if the dataset lets in one worker at a time and others
 * wait for it; else 0. */
static double one_at_a_time(const evidence *e) {
    double waiting = 0, inside = 0;
    for (int i = 0; i < e->n_stages; i++) {
        if (e->stages[i].kind == EVIDENCE_OF_TURN) waiting += e->stages[i].share;
        if (strcmp(e->stages[i].name, "get") == 0) inside += e->stages[i].share * e->n_workers;
    }
    return e->n_workers > 1 && waiting >= TURN_WAITS ? fmin(inside, 1) : 0;
}

/* The busiest stage of a kind; NULL if none was seen. */
const evidence_stage *verdict_busiest(const evidence *e, evidence_kind kind) {
    const evidence_stage *found = NULL;
    for (int i = 0; i < e->n_stages; i++)
        if (e->stages[i].kind == kind && e->stages[i].share > 0 &&
            (found == NULL || e->stages[i].share > found->share))
            found = &e->stages[i];
    return found;
}

bool verdict_is_opaque(const evidence *e) {
    return e->passive && e->n_stages == 0;
}

/* ---- Changes --------------------------------------------------------------------------------- */

double verdict_rate_now(const evidence *e) {
    return e->has[EVIDENCE_BOTH] ? e->rate[EVIDENCE_BOTH].median : 1 / verdict_terms_now(e).both;
}

static double gain_of(const evidence *e, const evidence_change *change) {
    return change->feasible ? verdict_expect(e, change, NULL) / verdict_rate_now(e) - 1 : -1;
}

/* The change of `option` that gains most, or NULL; *out_gain is its gain. */
static const evidence_change *best_of(const evidence *e, const char *option, double *out_gain) {
    const evidence_change *best = NULL;
    *out_gain = 0;
    for (int i = 0; i < e->n_changes; i++) {
        double gain = gain_of(e, &e->changes[i]);
        if (strcmp(e->changes[i].option, option) != 0 || gain <= *out_gain) continue;
        best = &e->changes[i];
        *out_gain = gain;
    }
    return best;
}

/* The gain of the option at the lower ends of the measured intervals; 0 if there are none. */
double verdict_sure_gain_by(const evidence *e, const char *option) {
    double most = 0;
    for (int i = 0; i < e->n_changes; i++) {
        evidence_change least = e->changes[i];
        if (strcmp(least.option, option) != 0 || !isfinite(least.loader_low) ||
            !isfinite(least.consumer_low))
            continue;
        least.loader_ratio = least.loader_low;
        least.consumer_ratio = least.consumer_low;
        most = fmax(most, gain_of(e, &least));
    }
    return most;
}

measure_interval verdict_ratio_of(const evidence *e, const evidence_change *change) {
    evidence_change low = *change, high = *change;
    const double now = verdict_rate_now(e);
    measure_interval out = {verdict_expect(e, change, NULL) / now, NAN, NAN, 0};
    if (!isfinite(change->loader_low) || !isfinite(change->consumer_low)) return out;
    low.loader_ratio = change->loader_low;
    low.consumer_ratio = change->consumer_low;
    high.loader_ratio = change->loader_high;
    high.consumer_ratio = change->consumer_high;
    /* The present rate is not known exactly, either. */
    const measure_interval *fed = &e->both_by_consumer;
    const bool spread = e->consumes && isfinite(fed->low) && fed->low > 0;
    const double down = spread ? fed->median / fed->high : 1;
    const double up = spread ? fed->median / fed->low : 1;
    out.low = fmin(verdict_expect(e, &low, NULL) / now * down, out.median);
    out.high = fmax(verdict_expect(e, &high, NULL) / now * up, out.median);
    return out;
}

double verdict_gain_by(const evidence *e, const char *option) {
    double gain;
    best_of(e, option, &gain);
    return gain;
}

/* ---- The limit ------------------------------------------------------------------------------- */

bool verdict_uses_cores(const evidence *e) {
    return !e->passive ||
           e->cpu[EVIDENCE_BOTH] * verdict_rate_now(e) >= VERDICT_OWN_CORES * e->cores;
}

bool verdict_crowded(const evidence *e, const verdict_terms *now, double both) {
    if (!verdict_uses_cores(e)) return false; /* another program has them */
    double runnable = e->consumer_runnable;
    for (int i = 0; i < e->n_workers; i++)
        runnable = fmax(runnable, e->worker[i].runnable);
    return now->cpu >= CPU_FULL * both || runnable >= RUNNABLE;
}

/* Whether the time that feeding costs is lost by waiting in next(), not by steps that are slower
 * side by side. */
static bool lost_in_waiting(const evidence *e, const verdict_terms *now, double both) {
    return e->wait_share >= 0.5 * (1 - now->consumer / both);
}

/* The part of the time that feeding costs. Without workers it is at most the loader's own time:
 * another program may have taken the rest. */
double verdict_share_of_feeding(const verdict_terms *now, double both) {
    const double lost = fmax(1 - now->consumer / both, 0);
    return now->overlap ? lost : fmin(lost, now->loader / both);
}

/* More threads than cores, and some of them wait for a core. */
bool verdict_crowded_by_threads(const evidence *e) {
    return e->trains && e->threads > (uint64_t)e->cores && e->consumer_runnable >= RUNNABLE;
}

static verdict_limit limit_of_consumer(const evidence *e) {
    if (verdict_is_opaque(e)) return LIMIT_CONSUMER;
    if (verdict_gain_by(e, "layout") >= WORTH) return LIMIT_LAYOUT;
    if (verdict_gain_by(e, "batch") >= 5 * WORTH) return LIMIT_BATCH;
    if (verdict_gain_by(e, "threads") >= WORTH || verdict_crowded_by_threads(e)) return LIMIT_CPU;
    /* If the loader is slower, or may be, the consumer is not proved to be the limit. */
    const measure_interval *r = &e->loader_by_consumer;
    return (isfinite(r->low) ? r->low : r->median) > 1 ? LIMIT_CONSUMER : LIMIT_NONE;
}

static verdict_limit limit_of_loader(const evidence *e, const verdict_terms *now, double both) {
    double times;
    if (verdict_is_opaque(e)) return e->workers == 0 ? LIMIT_WORKERS : LIMIT_LOADER;
    if (now->copy >= LINK_FULL * now->loader) return LIMIT_COPY;
    if (verdict_waits_for_server(e)) return LIMIT_READ;
    if (one_at_a_time(e) >= TURN_FULL) return LIMIT_TURN;
    if (verdict_slow_worker(e, &times) >= 0) return LIMIT_WORKER;
    double possible = now->consumer > 0 ? both / now->consumer - 1 : INFINITY;
    double more = verdict_gain_by(e, "workers");
    double others = fmax(fmax(verdict_gain_by(e, "source"), verdict_gain_by(e, "memory")),
                         verdict_gain_by(e, "loader"));
    /* Without workers the loader runs in the consumer's time: that alone is the cheapest to
     * change. */
    bool enough = isfinite(possible) ? more >= MORE_HANDS * possible : more >= MORE_HANDS;
    if (more >= 2 * WORTH && (enough || more >= 1) && more >= 0.7 * others) return LIMIT_WORKERS;
    return verdict_part_of_loader(e);
}

/* Of a loop that was watched: loader and consumer would each be faster alone, but threads wait for
 * cores. */
static bool starved_of_cores(const evidence *e, const verdict_terms *now, double both) {
    return fmax(now->loader, now->consumer) < CPU_FULL * both && verdict_crowded(e, now, both) &&
           e->wait_share < 1 - now->consumer / both;
}

static verdict_limit limit_of(const evidence *e) {
    verdict_terms now = verdict_terms_now(e);
    if (!e->consumes || !e->has[EVIDENCE_BOTH]) return limit_of_loader(e, &now, now.both);
    double both = seconds(e, EVIDENCE_BOTH);
    const measure_interval *fed = &e->both_by_consumer;
    double batch = verdict_gain_by(e, "batch"), threads = verdict_gain_by(e, "threads"), times;
    /* Of an unknown loader, a small loss may also be work in next(), or an epoch's beginning. */
    if (fed->median >= (verdict_is_opaque(e) ? FED_MOSTLY : FED_ENOUGH) ||
        (isfinite(fed->high) && fed->high >= 1))
        return limit_of_consumer(e);
    if (e->passive && starved_of_cores(e, &now, both)) return LIMIT_CPU;
    if (verdict_is_opaque(e)) return limit_of_loader(e, &now, both);
    if ((e->trains || e->passive) && batch >= 0.5 && batch >= 2 * verdict_gain_by(e, "workers"))
        return LIMIT_BATCH;
    if (verdict_gain_by(e, "layout") >= 2 * WORTH &&
        verdict_gain_by(e, "layout") >= verdict_gain_by(e, "workers"))
        return LIMIT_LAYOUT;
    if (threads >= 2 * WORTH && threads >= verdict_gain_by(e, "workers")) return LIMIT_CPU;
    /* Answers of a server that refuses come late and unevenly, whichever worker waits for them. */
    if (now.loader >= now.consumer && verdict_waits_for_server(e)) return LIMIT_READ;
    if (one_at_a_time(e) >= TURN_FULL) return LIMIT_TURN;
    if (verdict_slow_worker(e, &times) >= 0) return LIMIT_WORKER;
    if (now.loader >= now.consumer && both <= UNEXPLAINED * UNEXPLAINED * now.both)
        return limit_of_loader(e, &now, both);
    if (!now.overlap)
        return verdict_share_of_feeding(&now, both) >= EXPLAINED * (1 - now.consumer / both)
                   ? limit_of_loader(e, &now, both)
                   : LIMIT_NONE;
    /* What a server refuses comes later, and so unevenly. */
    if (verdict_remote_of(e) == REMOTE_THROTTLED) return LIMIT_READ;
    if (verdict_crowded(e, &now, both)) return LIMIT_CPU;
    if (both > UNEXPLAINED * now.both && lost_in_waiting(e, &now, both))
        return e->passive && batch >= 2 * WORTH ? LIMIT_BATCH : LIMIT_PREFETCH;
    if (both > UNEXPLAINED * now.both) return verdict_uses_cores(e) ? LIMIT_CPU : LIMIT_NONE;
    return limit_of_consumer(e);
}

verdict_limit verdict_look(const evidence *e) {
    return limit_of(e);
}

/* ---- Confidence ------------------------------------------------------------------------------ */

/* Whether an option gains `least` by the medians, and something worthwhile at the lower ends of all
 * intervals. */
static bool gains(const evidence *e, const char *option, double least) {
    return verdict_gain_by(e, option) >= least && verdict_sure_gain_by(e, option) >= WORTH;
}

/* Whether the intervals of the arms' ratios confirm that this part is the largest. */
static bool parts_apart(const evidence *e, verdict_limit limit) {
    const measure_interval *decode = &e->decode_by_read, *loader = &e->loader_by_decode;
    const bool reads = isfinite(decode->low), chained = isfinite(loader->low);
    switch (limit) {
    case LIMIT_READ: return (!reads || decode->low > 0.5) && (!chained || loader->low > 0.5);
    case LIMIT_DECODE:
        return (!reads || decode->high < 1 / CLEARLY) && (!chained || loader->low > 0.5);
    default: return !chained || loader->high < 1 / CLEARLY;
    }
}

/* A loop that was watched for too short, or beside programs that took its cores, shows little. */
static bool is_disturbed(const evidence *e) {
    double runnable = e->consumer_runnable;
    for (int i = 0; i < e->n_workers; i++)
        runnable = fmax(runnable, e->worker[i].runnable);
    return e->observed_s < WATCHED_S || (runnable >= DISTURBED && !verdict_uses_cores(e));
}

static bool is_sure(const evidence *e, verdict_limit limit) {
    if (e->rounds < MIN_ROUNDS || (e->passive && is_disturbed(e))) return false;
    const double margin = e->passive ? WATCHED : e->steady ? 1 : RESTLESS;
    const measure_interval *race = &e->loader_by_consumer, *fed = &e->both_by_consumer;
    const bool faster = isfinite(race->low) && race->low > margin;
    const bool slower = !e->consumes || (isfinite(race->high) && race->high < 1 / margin);
    const bool fed_less = !e->consumes || (isfinite(fed->high) && fed->high < FED_ENOUGH / margin);
    const verdict_terms now = verdict_terms_now(e);
    const double both = 1 / verdict_rate_now(e), lost = 1 - now.consumer / both;
    /* The arms share what a server grants, so their ratios say little; its refusals say enough. */
    const bool refused = limit == LIMIT_READ && verdict_waits_for_server(e) &&
                         verdict_remote_of(e) == REMOTE_THROTTLED;
    double times = 0;
    int slow;
    if (both < POSSIBLE * now.both) return false;
    switch (limit) {
    case LIMIT_CONSUMER:
        if (e->passive) /* threads that wait for a core may be slow for that reason alone */
            return fed->low > 0.9 && e->consumer_runnable < RUNNABLE &&
                   (faster || (verdict_is_opaque(e) && fed->median >= FED_ENOUGH));
        return faster && fed->low > 0.9 && e->threads <= (uint64_t)e->cores;
    case LIMIT_READ:
    case LIMIT_DECODE:
    case LIMIT_TRANSFORM:
        return (refused || (parts_apart(e, limit) && dominance(e) >= CLEARLY * margin)) &&
               (slower || e->workers == 0) && fed_less;
    case LIMIT_WORKER:
        slow = verdict_slow_worker(e, &times);
        return fed_less && slow >= 0 && !verdict_may_be_unlike(e, slow) &&
               e->worker[slow].chunks >= MIN_CHUNKS && times >= 1.5 * SLOW_WORKER * margin;
    case LIMIT_WORKERS:
        if (e->passive) /* no worker was tried, but without one the cost is measured */
            return fed_less && e->workers == 0 && 1 - fed->high >= 0.15;
        return fed_less && gains(e, "workers", 0.2 * margin);
    case LIMIT_PREFETCH:
        return fed_less && faster && lost_in_waiting(e, &now, both) &&
               1 / (fed->high * e->rate[EVIDENCE_CONSUMER].median) >
                   UNEXPLAINED * margin * now.both;
    case LIMIT_CPU: /* one worker that waits for a core now and then need not cost anything */
        return gains(e, "threads", 0.15 * margin) ||
               (fed_less && (now.cpu >= CPU_FULL * both || e->consumer_runnable >= 0.5 * lost));
    case LIMIT_LAYOUT: return gains(e, "layout", 2 * WORTH * margin);
    case LIMIT_BATCH: return gains(e, "batch", 0.5 * margin);
    case LIMIT_TURN: return slower && fed_less && one_at_a_time(e) >= TURN_FULL * margin;
    case LIMIT_COPY: return (slower || e->workers == 0) && fed_less;
    case LIMIT_LOADER: return fed_less && e->consumer_runnable < RUNNABLE && 1 - fed->high >= 0.15;
    case LIMIT_NONE: return false;
    }
    return false;
}

static double share_of(const evidence *e, verdict_limit limit) {
    double both = 1 / verdict_rate_now(e);
    verdict_terms now = verdict_terms_now(e);
    verdict_parts p = verdict_parts_of(e);
    double gain;
    switch (limit) {
    case LIMIT_NONE: return 0;
    case LIMIT_CONSUMER: return fmin(now.consumer / both, 1);
    case LIMIT_LAYOUT: return fmin(e->convert_s / (double)e->batch / both, 1);
    case LIMIT_BATCH: gain = verdict_gain_by(e, "batch"); return gain / (1 + gain);
    case LIMIT_CPU:
        gain = verdict_gain_by(e, "threads");
        return fmax(fmax(1 - now.consumer / both, gain / (1 + gain)), 0);
    case LIMIT_READ:
    case LIMIT_DECODE:
    case LIMIT_TRANSFORM:
        if (e->consumes) return verdict_share_of_feeding(&now, both);
        return fmin((limit == LIMIT_READ     ? p.read
                     : limit == LIMIT_DECODE ? p.decode
                                             : p.chain) /
                        now.loader,
                    1);
    case LIMIT_COPY:
        return e->consumes ? verdict_share_of_feeding(&now, both) : fmin(now.copy / now.loader, 1);
    case LIMIT_TURN:
    case LIMIT_WORKER:
    case LIMIT_WORKERS:
    case LIMIT_LOADER:
    case LIMIT_PREFETCH: return e->consumes ? verdict_share_of_feeding(&now, both) : 1;
    }
    return NAN;
}

static evidence_kind kind_of(verdict_limit limit) {
    switch (limit) {
    case LIMIT_READ: return EVIDENCE_OF_READ;
    case LIMIT_DECODE:
    case LIMIT_TURN: return EVIDENCE_OF_DECODE;
    case LIMIT_TRANSFORM:
    case LIMIT_WORKER: return EVIDENCE_OF_CHAIN;
    default: return EVIDENCE_OF_NONE;
    }
}

static void name_stage(const evidence *e, verdict *v) {
    double times;
    const int slow = verdict_slow_worker(e, &times);
    const evidence_kind kind =
        kind_of(v->limit == LIMIT_WORKERS ? verdict_part_of_loader(e) : v->limit);
    const evidence_stage *stage = kind != EVIDENCE_OF_NONE ? verdict_busiest(e, kind) : NULL;
    const verdict_remote remote = verdict_remote_of(e);
    if (v->limit == LIMIT_READ && remote != REMOTE_NONE)
        snprintf(v->stage, sizeof(v->stage), "%s", verdict_remote_text(remote));
    else if (v->limit == LIMIT_WORKER && slow >= 0)
        snprintf(v->stage, sizeof(v->stage), "worker %d%s%s", slow, stage != NULL ? ", " : "",
                 stage != NULL ? stage->name : "");
    else if (stage != NULL)
        snprintf(v->stage, sizeof(v->stage), "%s", stage->name);
}

/* ---- The verdict ----------------------------------------------------------------------------- */

/* Changes that fix something come before experiments, larger gains before smaller ones. */
static void rank_changes(const evidence *e, verdict *v) {
    bool used[EVIDENCE_CHANGES] = {false};
    while (v->n_changes < VERDICT_CHANGES) {
        int best = -1;
        double most = WORTH;
        for (int pass = 0; pass < 2 && best < 0; pass++)
            for (int i = 0; i < e->n_changes; i++) {
                double gain = gain_of(e, &e->changes[i]);
                if (used[i] || e->changes[i].experiment != (pass == 1) || gain < most) continue;
                best = i;
                most = gain;
            }
        if (best < 0) break;
        used[best] = true;
        verdict_change *c = &v->changes[v->n_changes++];
        c->of = best;
        c->expected = verdict_expect(e, &e->changes[best], &c->next);
        c->gain = c->expected / verdict_rate_now(e) - 1;
        c->ratio = verdict_ratio_of(e, &e->changes[best]);
    }
}

verdict verdict_make(const evidence *e) {
    verdict v = {.limit = limit_of(e)};
    name_stage(e, &v);
    v.share = share_of(e, v.limit);
    v.high = is_sure(e, v.limit);
    rank_changes(e, &v);
    verdict_say(e, &v);
    return v;
}
