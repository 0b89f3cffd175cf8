/*
 * verdict.c - from evidence to a sentence. A pure function: it opens nothing, measures nothing, and
 * knows of a run only what evidence.h holds.
 *
 * The order of questions is that of an operational analysis (Denning and Buzen 1978; Plumber does
 * it for TensorFlow's pipelines): does feeding cost anything at all; if so, which of the terms of the
 * model is the largest; if it is the loader's, which stage of it; and is that stage slow, or are
 * there too few hands for it. Where a question can be put to the run (another worker, one batch
 * more) the answer that was measured decides, not the rule.
 */
#include "verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FED_ENOUGH  0.97 /* both / consumer, from where feeding costs nothing worth a word */
#define EXPLAINED   0.5 /* part of what is lost that a loader without workers must be able to take */
#define UNEXPLAINED 1.08 /* both's time / the model's, from where something else must be at work */
#define WORTH       0.03 /* gain from which a change is proposed */
#define SLOW_WORKER 1.8  /* seconds a chunk, beside the other workers' */
#define ALIKE       1.1  /* bytes a chunk, beside the other workers', of samples that are alike */
#define MORE_HANDS  0.5  /* part of the possible gain that more workers must bring */
#define CPU_FULL    0.85 /* CPU term / both's time, from where the cores are the suspects */
#define LINK_FULL   0.85 /* time of the copies / the loader's, from where the link is the suspect */
#define RUNNABLE    0.10 /* share of the time that a thread waits for a core */
#define CLEARLY     1.4  /* the first term over the second */
#define MIN_ROUNDS  6
#define POSSIBLE    0.8  /* both's time / the model's, below which the figures contradict */
#define MIN_CHUNKS  4    /* of a worker that is said to be slow */
#define RESTLESS    1.25 /* what an interval must clear besides, where the machine was restless */

/* ---- The model ------------------------------------------------------------------------------- */

typedef struct terms {
    double loader, consumer, cpu, copy; /* seconds a sample */
    bool overlap;
    double both;
} terms;

static double or_zero(double value) {
    return isfinite(value) ? value : 0;
}

static double seconds(const evidence *e, evidence_arm arm) {
    return e->has[arm] && e->rate[arm].median > 0 ? 1 / e->rate[arm].median : 0;
}

static terms terms_of(double loader, double consumer, double cpu, double copy, bool overlap) {
    terms t = {loader, consumer, cpu, copy, overlap, 0};
    t.both = fmax(overlap ? fmax(loader, consumer) : loader + consumer, fmax(cpu, copy));
    return t;
}

static terms terms_now(const evidence *e) {
    double cpu = or_zero(e->cpu[EVIDENCE_LOADER]) + or_zero(e->cpu[EVIDENCE_CONSUMER]);
    double copy = e->link_bytes_per_s > 0 ? or_zero(e->copy_bytes / e->link_bytes_per_s) : 0;
    return terms_of(seconds(e, EVIDENCE_LOADER), seconds(e, EVIDENCE_CONSUMER), cpu / e->cores,
                    copy, e->workers > 0);
}

/* How even loader and consumer are, 0 to 1: of equals each waits for the other now and then. */
static double evenness(const terms *t) {
    double most = fmax(t->loader, t->consumer);
    return most > 0 ? fmin(t->loader, t->consumer) / most : 0;
}

static verdict_limit part_after(const evidence *e, const evidence_change *change);

double verdict_expect(const evidence *e, const evidence_change *change, verdict_limit *out_next) {
    terms now = terms_now(e);
    double cpu = (or_zero(change->cpu_loader) + or_zero(change->cpu_consumer)) / e->cores;
    /* The loader was measured with its copies, so they take no longer than it does. */
    const double loader = now.loader / change->loader_ratio;
    terms then = terms_of(loader, now.consumer / change->consumer_ratio, cpu,
                          fmin(now.copy, loader), now.overlap || change->overlaps);
    double both = e->has[EVIDENCE_BOTH] ? seconds(e, EVIDENCE_BOTH) : now.both;
    double left = fmax(both / now.both - 1, 0);
    if (change->deeper)
        left = 0;
    else if (then.overlap && now.overlap && evenness(&now) > 0)
        left *= fmin(evenness(&then) / evenness(&now), 1);
    else if (then.overlap != now.overlap && left <= UNEXPLAINED - 1)
        left = 0; /* more than that is not the loader's doing, and no worker takes it away */
    if (out_next != NULL && left > UNEXPLAINED - 1 && then.overlap && now.overlap)
        *out_next = LIMIT_PREFETCH; /* what is uneven stays so */
    else if (out_next != NULL)
        *out_next = then.overlap && then.cpu > 1.02 * fmax(then.loader, then.consumer) ? LIMIT_CPU
                    : then.consumer >= then.loader ? LIMIT_CONSUMER
                                                   : part_after(e, change);
    return 1 / (then.both * (1 + left));
}

verdict_bounds verdict_bound(const evidence *e) {
    terms t = terms_now(e);
    return (verdict_bounds){t.loader > 0 ? 1 / t.loader : NAN,
                            t.consumer > 0 ? 1 / t.consumer : NAN, t.cpu > 0 ? 1 / t.cpu : NAN,
                            t.copy > 0 ? 1 / t.copy : NAN, t.both > 0 ? 1 / t.both : NAN};
}

/* ---- Parts of the loader --------------------------------------------------------------------- */

typedef struct parts {
    double read, decode, chain; /* seconds a sample that each adds */
} parts;

/* Of the time that workers spend on decoding and on the chain, the part that is decoding. */
static double share_of_decoding(const evidence *e) {
    double decode = 0, chain = 0;
    for (int i = 0; i < e->n_stages; i++) {
        if (e->stages[i].kind == EVIDENCE_OF_DECODE) decode += e->stages[i].share;
        if (e->stages[i].kind == EVIDENCE_OF_CHAIN) chain += e->stages[i].share;
    }
    return decode + chain > 0 ? decode / (decode + chain) : 1;
}

static parts parts_of(const evidence *e) {
    double read = seconds(e, EVIDENCE_READ), loader = seconds(e, EVIDENCE_LOADER);
    if (e->by_shares) {
        const double made = fmax(loader - read, 0), decoding = made * share_of_decoding(e);
        return (parts){read, decoding, made - decoding};
    }
    double decode = e->has[EVIDENCE_DECODE] ? seconds(e, EVIDENCE_DECODE) : loader;
    return (parts){read, fmax(decode - read, 0), fmax(loader - decode, 0)};
}

static verdict_limit largest(const parts *p) {
    if (p->read >= p->decode && p->read >= p->chain) return LIMIT_READ;
    return p->decode >= p->chain ? LIMIT_DECODE : LIMIT_TRANSFORM;
}

static verdict_limit part_of_loader(const evidence *e) {
    const parts p = parts_of(e);
    return largest(&p);
}

/* The same where a change has taken a part away. */
static verdict_limit part_after(const evidence *e, const evidence_change *change) {
    parts p = parts_of(e);
    const bool arrays = strcmp(change->option, "loader") == 0;
    if (arrays || strcmp(change->option, "source") == 0 || strcmp(change->option, "memory") == 0)
        p.read = 0;
    if (arrays) p.decode = 0;
    return largest(&p);
}

/* The largest part over the second; infinite where there is but one. */
static double dominance(const evidence *e) {
    parts p = parts_of(e);
    double most = fmax(p.read, fmax(p.decode, p.chain));
    double least = fmin(p.read, fmin(p.decode, p.chain));
    double second = p.read + p.decode + p.chain - most - least;
    return second > 0 ? most / second : INFINITY;
}

/* A worker beside the mean of the others. */
typedef struct odd_worker {
    double times;  /* that it takes as long over a chunk */
    double larger; /* that its chunks' samples are as large, in bytes; 1 where they have none */
} odd_worker;

static odd_worker beside_others(const evidence *e, int number) {
    const evidence_worker *w = &e->worker[number];
    odd_worker out = {0, 1};
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

/* The worker that takes longer over the same bytes than the others do, or -1: larger samples may take
 * so much longer as they are larger. */
static int slow_worker(const evidence *e, double *out_times) {
    for (int i = 0; e->n_workers > 1 && i < e->n_workers; i++) {
        const odd_worker odd = beside_others(e, i);
        *out_times = odd.times / fmax(odd.larger, 1);
        if (*out_times >= SLOW_WORKER) return i;
    }
    *out_times = 0;
    return -1;
}

/* In order one worker's samples may be unlike another's; that they are not is seen by their bytes. */
static bool may_be_unlike(const evidence *e, int worker) {
    bool known = true;
    for (int i = 0; i < e->n_workers; i++)
        known = known && (e->worker[i].bytes > 0 || e->worker[i].chunks == 0);
    return e->in_order && (!known || beside_others(e, worker).larger > ALIKE);
}

/* The busiest stage of a kind; NULL where none was seen. */
static const evidence_stage *busiest(const evidence *e, evidence_kind kind) {
    const evidence_stage *found = NULL;
    for (int i = 0; i < e->n_stages; i++)
        if (e->stages[i].kind == kind && e->stages[i].share > 0 &&
            (found == NULL || e->stages[i].share > found->share))
            found = &e->stages[i];
    return found;
}

/* ---- Changes --------------------------------------------------------------------------------- */

static double rate_now(const evidence *e) {
    return e->has[EVIDENCE_BOTH] ? e->rate[EVIDENCE_BOTH].median : 1 / terms_now(e).both;
}

static double gain_of(const evidence *e, const evidence_change *change) {
    return change->feasible ? verdict_expect(e, change, NULL) / rate_now(e) - 1 : -1;
}

/* The change of `option` that gains most, or NULL; *out_gain its gain. */
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

/* The least that the option gains by the intervals of what was measured; 0 where there are none. */
static double sure_gain_by(const evidence *e, const char *option) {
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

static double gain_by(const evidence *e, const char *option) {
    double gain;
    best_of(e, option, &gain);
    return gain;
}

/* ---- The limit ------------------------------------------------------------------------------- */

static bool crowded(const evidence *e, const terms *now, double both) {
    double runnable = e->consumer_runnable;
    for (int i = 0; i < e->n_workers; i++)
        runnable = fmax(runnable, e->worker[i].runnable);
    return now->cpu >= CPU_FULL * both || runnable >= RUNNABLE;
}

/* Whether the time that feeding costs is lost in next(), waiting, and not in steps that are slower side
 * by side. */
static bool lost_in_waiting(const evidence *e, const terms *now, double both) {
    return e->wait_share >= 0.5 * (1 - now->consumer / both);
}

/* The part of the time that feeding costs. Without workers it is no more than what the loader takes
 * alone: what is lost besides, another program may have taken. */
static double share_of_feeding(const terms *now, double both) {
    const double lost = fmax(1 - now->consumer / both, 0);
    return now->overlap ? lost : fmin(lost, now->loader / both);
}

/* More threads than cores, and some of them in vain. */
static bool crowded_by_threads(const evidence *e) {
    return e->trains && e->threads > (uint64_t)e->cores && e->consumer_runnable >= RUNNABLE;
}

static verdict_limit limit_of_consumer(const evidence *e) {
    if (gain_by(e, "layout") >= WORTH) return LIMIT_LAYOUT;
    if (gain_by(e, "batch") >= 5 * WORTH) return LIMIT_BATCH;
    if (gain_by(e, "threads") >= WORTH || crowded_by_threads(e)) return LIMIT_CPU;
    /* A loader that is slower, or may be, is no proof that the consumer is the limit. */
    const measure_interval *r = &e->loader_by_consumer;
    return (isfinite(r->low) ? r->low : r->median) > 1 ? LIMIT_CONSUMER : LIMIT_NONE;
}

static verdict_limit limit_of_loader(const evidence *e, const terms *now, double both) {
    double times;
    if (now->copy >= LINK_FULL * now->loader) return LIMIT_COPY;
    if (slow_worker(e, &times) >= 0) return LIMIT_WORKER;
    double possible = now->consumer > 0 ? both / now->consumer - 1 : INFINITY;
    double more = gain_by(e, "workers");
    double others = fmax(fmax(gain_by(e, "source"), gain_by(e, "memory")), gain_by(e, "loader"));
    /* Without workers the loader's time is the consumer's: that alone is the cheapest to mend. */
    bool enough = isfinite(possible) ? more >= MORE_HANDS * possible : more >= MORE_HANDS;
    if (more >= 2 * WORTH && (enough || more >= 1) && more >= 0.7 * others) return LIMIT_WORKERS;
    return part_of_loader(e);
}

static verdict_limit limit_of(const evidence *e) {
    terms now = terms_now(e);
    if (!e->consumes || !e->has[EVIDENCE_BOTH]) return limit_of_loader(e, &now, now.both);
    double both = seconds(e, EVIDENCE_BOTH);
    const measure_interval *fed = &e->both_by_consumer;
    double batch = gain_by(e, "batch"), threads = gain_by(e, "threads"), times;
    if (fed->median >= FED_ENOUGH || (isfinite(fed->high) && fed->high >= 1))
        return limit_of_consumer(e);
    if (e->trains && batch >= 0.5 && batch >= 2 * gain_by(e, "workers")) return LIMIT_BATCH;
    if (gain_by(e, "layout") >= 2 * WORTH && gain_by(e, "layout") >= gain_by(e, "workers"))
        return LIMIT_LAYOUT;
    if (threads >= 2 * WORTH && threads >= gain_by(e, "workers")) return LIMIT_CPU;
    if (slow_worker(e, &times) >= 0) return LIMIT_WORKER;
    if (now.loader >= now.consumer && both <= UNEXPLAINED * UNEXPLAINED * now.both)
        return limit_of_loader(e, &now, both);
    if (!now.overlap)
        return share_of_feeding(&now, both) >= EXPLAINED * (1 - now.consumer / both)
                   ? limit_of_loader(e, &now, both)
                   : LIMIT_NONE;
    if (crowded(e, &now, both)) return LIMIT_CPU;
    if (both > UNEXPLAINED * now.both)
        return lost_in_waiting(e, &now, both) ? LIMIT_PREFETCH : LIMIT_CPU;
    return limit_of_consumer(e);
}

verdict_limit verdict_look(const evidence *e) {
    return limit_of(e);
}

/* ---- How sure -------------------------------------------------------------------------------- */

/* An option gains so much by the medians, and something worth it by all that was measured. */
static bool gains(const evidence *e, const char *option, double least) {
    return gain_by(e, option) >= least && sure_gain_by(e, option) >= WORTH;
}

/* Whether the intervals of the arms' ratios bear out that this part is the largest. */
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

static bool is_sure(const evidence *e, verdict_limit limit) {
    if (e->rounds < MIN_ROUNDS) return false;
    const double margin = e->steady ? 1 : RESTLESS;
    const measure_interval *race = &e->loader_by_consumer, *fed = &e->both_by_consumer;
    const bool faster = isfinite(race->low) && race->low > margin;
    const bool slower = !e->consumes || (isfinite(race->high) && race->high < 1 / margin);
    const bool fed_less = !e->consumes || (isfinite(fed->high) && fed->high < FED_ENOUGH / margin);
    const terms now = terms_now(e);
    const double both = 1 / rate_now(e), lost = 1 - now.consumer / both;
    double times = 0;
    int slow;
    if (both < POSSIBLE * now.both) return false;
    switch (limit) {
    case LIMIT_CONSUMER: return faster && fed->low > 0.9 && e->threads <= (uint64_t)e->cores;
    case LIMIT_READ:
    case LIMIT_DECODE:
    case LIMIT_TRANSFORM:
        return parts_apart(e, limit) && (slower || e->workers == 0) && fed_less &&
               dominance(e) >= CLEARLY * margin;
    case LIMIT_WORKER:
        slow = slow_worker(e, &times);
        return fed_less && slow >= 0 && !may_be_unlike(e, slow) &&
               e->worker[slow].chunks >= MIN_CHUNKS && times >= 1.5 * SLOW_WORKER * margin;
    case LIMIT_WORKERS: return fed_less && gains(e, "workers", 0.2 * margin);
    case LIMIT_PREFETCH:
        return fed_less && faster && lost_in_waiting(e, &now, both) &&
               1 / (fed->high * e->rate[EVIDENCE_CONSUMER].median) >
                   UNEXPLAINED * margin * now.both;
    case LIMIT_CPU: /* one worker that waits for a core now and then need not cost anything */
        return gains(e, "threads", 0.15 * margin) ||
               (fed_less && (now.cpu >= CPU_FULL * both || e->consumer_runnable >= 0.5 * lost));
    case LIMIT_LAYOUT: return gains(e, "layout", 2 * WORTH * margin);
    case LIMIT_BATCH: return gains(e, "batch", 0.5 * margin);
    case LIMIT_COPY: return (slower || e->workers == 0) && fed_less;
    case LIMIT_NONE: return false;
    }
    return false;
}

/* ---- Words ----------------------------------------------------------------------------------- */

const char *verdict_limit_text(verdict_limit limit) {
    static const char *const names[] = {"none",      "consumer", "read",    "decode",
                                        "transform", "worker",   "workers", "prefetch",
                                        "layout",    "batch",    "cpu",     "copy"};
    return names[limit];
}

static void add(char *text, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t capacity, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

static const char *who_takes(const evidence *e) {
    return e->trains ? "the trainer" : "the consumer";
}

static void name_stage(const evidence *e, verdict *v) {
    double times;
    int slow = slow_worker(e, &times);
    evidence_kind kind = v->limit == LIMIT_READ     ? EVIDENCE_OF_READ
                         : v->limit == LIMIT_DECODE ? EVIDENCE_OF_DECODE
                         : v->limit == LIMIT_TRANSFORM || v->limit == LIMIT_WORKER
                             ? EVIDENCE_OF_CHAIN
                             : EVIDENCE_OF_NONE;
    if (v->limit == LIMIT_WORKERS) {
        verdict_limit part = part_of_loader(e);
        kind = part == LIMIT_READ     ? EVIDENCE_OF_READ
               : part == LIMIT_DECODE ? EVIDENCE_OF_DECODE
                                      : EVIDENCE_OF_CHAIN;
    }
    const evidence_stage *stage = kind != EVIDENCE_OF_NONE ? busiest(e, kind) : NULL;
    if (v->limit == LIMIT_WORKER && slow >= 0)
        snprintf(v->stage, sizeof(v->stage), "worker %d%s%s", slow, stage != NULL ? ", " : "",
                 stage != NULL ? stage->name : "");
    else if (stage != NULL)
        snprintf(v->stage, sizeof(v->stage), "%s", stage->name);
}

static double share_of(const evidence *e, verdict_limit limit) {
    double both = 1 / rate_now(e);
    terms now = terms_now(e);
    parts p = parts_of(e);
    double gain;
    switch (limit) {
    case LIMIT_NONE: return 0;
    case LIMIT_CONSUMER: return fmin(now.consumer / both, 1);
    case LIMIT_LAYOUT: return fmin(e->convert_s / (double)e->batch / both, 1);
    case LIMIT_BATCH: gain = gain_by(e, "batch"); return gain / (1 + gain);
    case LIMIT_CPU:
        gain = gain_by(e, "threads");
        return fmax(fmax(1 - now.consumer / both, gain / (1 + gain)), 0);
    case LIMIT_READ:
    case LIMIT_DECODE:
    case LIMIT_TRANSFORM:
        if (e->consumes) return share_of_feeding(&now, both);
        return limit == LIMIT_READ     ? p.read / now.loader
               : limit == LIMIT_DECODE ? p.decode / now.loader
                                       : p.chain / now.loader;
    case LIMIT_COPY:
        return e->consumes ? share_of_feeding(&now, both) : fmin(now.copy / now.loader, 1);
    case LIMIT_WORKER:
    case LIMIT_WORKERS:
    case LIMIT_PREFETCH: return e->consumes ? share_of_feeding(&now, both) : 1;
    }
    return NAN;
}

static void say_rates(const evidence *e, char *text, size_t n) {
    add(text, n, " Alone, ");
    if (e->has[EVIDENCE_READ]) add(text, n, "reading gives %.0f, ", e->rate[EVIDENCE_READ].median);
    if (e->has[EVIDENCE_DECODE])
        add(text, n, "with decoding %.0f, ", e->rate[EVIDENCE_DECODE].median);
    add(text, n, "the loader %.0f samples/s", e->rate[EVIDENCE_LOADER].median);
    if (e->consumes)
        add(text, n, ", %s takes %.0f; together %.0f", who_takes(e),
            e->rate[EVIDENCE_CONSUMER].median, rate_now(e));
    add(text, n, ".");
}

static void say_cores(const evidence *e, verdict *v) {
    char *t = v->text;
    const size_t n = sizeof(v->text);
    const terms now = terms_now(e);
    if (!crowded_by_threads(e) && gain_by(e, "threads") < WORTH &&
        !crowded(e, &now, 1 / rate_now(e))) {
        add(t, n,
            "Side by side loader and %s are slower than each alone, and nobody waits: what they "
            "share besides cores (caches, memory, the clock) costs %.0f %% of the time.",
            who_takes(e) + 4, 100 * v->share);
        return;
    }
    if (e->cores == 1)
        add(t, n, "The only core is the limit");
    else
        add(t, n, "The %d cores are the limit", e->cores);
    add(t, n,
        ": threads of loader and %s take %s from one another, which costs %.0f %% of the "
        "time.",
        who_takes(e) + 4, e->cores == 1 ? "it" : "them", 100 * v->share);
}

static void say_copy(const evidence *e, verdict *v) {
    add(v->text, sizeof(v->text),
        "The link to the GPU is the limit: %.0f bytes a sample travel, it gives %.1f GB/s, and "
        "that costs %.0f %% of the time.",
        e->copy_bytes, e->link_bytes_per_s * 1e-9, 100 * v->share);
}

static void say_none(const evidence *e, verdict *v) {
    const measure_interval *fed = &e->both_by_consumer;
    if (fed->median >= FED_ENOUGH || !isfinite(fed->median))
        add(v->text, sizeof(v->text), "No measurable bottleneck: loader and %s are equally fast.",
            who_takes(e) + 4);
    else if (!isfinite(fed->high))
        add(v->text, sizeof(v->text),
            "No bottleneck can be told: together they reach about %.0f %% of what %s takes alone.",
            100 * fed->median, who_takes(e));
    else
        add(v->text, sizeof(v->text),
            "No bottleneck can be told: together they reach %.0f to %.0f %% of what %s takes "
            "alone.",
            100 * fed->low, 100 * fed->high, who_takes(e));
    const terms now = terms_now(e);
    const double both = 1 / rate_now(e);
    if (!now.overlap && both > UNEXPLAINED * now.both)
        add(v->text, sizeof(v->text),
            " The loader, in its thread, can take %.1f %% of the time; what took the rest is not "
            "known (another program?).",
            100 * fmin(now.loader / both, 1));
}

static void say_limit(const evidence *e, verdict *v) {
    char *t = v->text;
    const size_t n = sizeof(v->text);
    double percent = 100 * v->share, times = 0;
    int slow = slow_worker(e, &times);
    switch (v->limit) {
    case LIMIT_NONE: say_none(e, v); break;
    case LIMIT_CONSUMER:
        add(t, n,
            "%s is the limit, not the loader: %.0f %% of the time is its own, and feeding it costs "
            "%.1f %%.",
            e->trains ? "The trainer" : "The consumer", percent,
            100 * fmax(1 / e->both_by_consumer.median - 1, 0));
        break;
    case LIMIT_READ:
        add(t, n, "Reading is the limit: it costs %.0f %% of the time.", percent);
        if (e->has[EVIDENCE_READ] && e->sample_bytes > 0)
            add(t, n, " What is read from gives %.0f MB/s.",
                e->rate[EVIDENCE_READ].median * e->sample_bytes * 1e-6);
        break;
    case LIMIT_DECODE:
        add(t, n, "Decoding (%s) is the limit: it costs %.0f %% of the time.",
            v->stage[0] ? v->stage : "rows as stored", percent);
        break;
    case LIMIT_TRANSFORM:
        add(t, n, "The chain (%s) is the limit: it costs %.0f %% of the time.",
            v->stage[0] ? v->stage : "its stages together", percent);
        break;
    case LIMIT_WORKER:
        add(t, n,
            "One slow worker is the limit: worker %d takes %.1f times as long for a chunk as the "
            "others, and batches come in order; that costs %.0f %% of the time.",
            slow, beside_others(e, slow).times, percent);
        if (may_be_unlike(e, slow))
            add(t, n, " Or its samples are others: without a shuffle they need not be alike.");
        break;
    case LIMIT_WORKERS:
        if (e->workers == 0)
            add(t, n,
                "The loader works in the consumer's thread, where %s has to wait for it: %.0f %% "
                "of "
                "the time.",
                who_takes(e), percent);
        else
            add(t, n, "%lld worker%s too few: %s waits %.0f %% of the time.", (long long)e->workers,
                e->workers == 1 ? " is" : "s are", e->consumes ? who_takes(e) : "the consumer",
                percent);
        break;
    case LIMIT_PREFETCH:
        add(t, n,
            "Too few batches are made ahead: on average the loader is fast enough, but batches "
            "come "
            "unevenly, and waiting for the late ones costs %.0f %% of the time.",
            percent);
        break;
    case LIMIT_LAYOUT:
        add(t, n,
            "The layout is the limit that can be lifted: %s turns every batch (%s), %.0f us each, "
            "%.1f %% of the time.",
            who_takes(e), e->convert_text, e->convert_s * 1e6, percent);
        break;
    case LIMIT_BATCH:
        add(t, n,
            "The batch is too small: %.0f %% of the time goes into what every batch of %llu costs "
            "anew.",
            percent, (unsigned long long)e->batch);
        break;
    case LIMIT_CPU: say_cores(e, v); break;
    case LIMIT_COPY: say_copy(e, v); break;
    }
}

/* What looks like a slow worker and is none. */
static void say_unlike(const evidence *e, char *text, size_t n) {
    double times;
    if (e->n_workers < 2 || slow_worker(e, &times) >= 0) return;
    for (int i = 0; i < e->n_workers; i++) {
        const odd_worker odd = beside_others(e, i);
        if (odd.times < SLOW_WORKER) continue;
        add(text, n,
            " Worker %d takes %.1f times as long for a chunk as the others, over samples that are "
            "%.1f times as large%s.",
            i, odd.times, odd.larger, e->in_order ? ": a shuffle would spread them" : "");
        return;
    }
}

static void say_evidence(const evidence *e, verdict *v) {
    char *t = v->text;
    const size_t n = sizeof(v->text);
    say_rates(e, t, n);
    if (e->consumes && e->has[EVIDENCE_BOTH] && v->limit != LIMIT_CONSUMER &&
        v->limit != LIMIT_LAYOUT)
        add(t, n, " %s spends %.0f %% of the time in next().",
            e->trains ? "The trainer" : "The consumer", 100 * e->wait_share);
    if (e->has[EVIDENCE_RESIDENT])
        add(t, n, " Over batches that are on the GPU already it takes %.0f.",
            e->rate[EVIDENCE_RESIDENT].median);
    say_unlike(e, t, n);
    double runnable = e->consumer_runnable;
    for (int i = 0; i < e->n_workers; i++)
        runnable = fmax(runnable, e->worker[i].runnable);
    if (runnable >= RUNNABLE)
        add(t, n, " Threads want a core and have none up to %.0f %% of the time.", 100 * runnable);
    if (e->convert_s > 0 && v->limit != LIMIT_LAYOUT)
        add(t, n,
            " %s turns the layout of every batch (%s), %.0f us each; `to:` with %s avoids it.",
            e->trains ? "The trainer" : "The consumer", e->convert_text, e->convert_s * 1e6,
            e->wants);
    if (!e->steady && !v->high)
        add(t, n, " The machine was restless; take it with a grain of salt.");
}

static void say_change(const evidence *e, const verdict *v, verdict_change *c) {
    const evidence_change *change = &e->changes[c->of];
    snprintf(c->text, sizeof(c->text), "%s %.120s -> %.120s: %+.0f %% (%.0f samples/s)%s; then %s",
             change->option, change->from, change->to, 100 * c->gain, c->expected,
             change->experiment ? ", to see what it costs: the batches are others" : "",
             c->next == v->limit ? "the same limit again"
             : c->next == LIMIT_CONSUMER
                 ? (e->trains ? "the trainer is the limit" : "the consumer is the limit")
             : c->next == LIMIT_PREFETCH ? "batches still come unevenly"
             : c->next == LIMIT_CPU      ? "the cores are the limit"
             : c->next == LIMIT_COPY     ? "the link to the GPU is the limit"
             : c->next == LIMIT_READ     ? "reading is the limit"
             : c->next == LIMIT_DECODE   ? "decoding is the limit"
                                         : "the chain is the limit");
}

/* Real mends before experiments, larger gains before smaller ones. */
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
        c->gain = c->expected / rate_now(e) - 1;
        say_change(e, v, c);
    }
}

verdict verdict_make(const evidence *e) {
    verdict v = {.limit = limit_of(e)};
    name_stage(e, &v);
    v.share = share_of(e, v.limit);
    v.high = is_sure(e, v.limit);
    say_limit(e, &v);
    say_evidence(e, &v);
    rank_changes(e, &v);
    if (v.n_changes == 0 && v.limit != LIMIT_NONE && v.limit != LIMIT_CONSUMER)
        add(v.text, sizeof(v.text), " None of the options that were tried would gain %.0f %%.",
            100 * WORTH);
    if (v.n_changes == 0 && v.limit == LIMIT_CONSUMER)
        add(v.text, sizeof(v.text), " No change to the loader can gain more than that.");
    if (!v.high) add(v.text, sizeof(v.text), " Confidence: low.");
    return v;
}
