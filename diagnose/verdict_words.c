/*
 * verdict_words.c - the sentences of a verdict. tests/unit/test_bench_sentences.c shows each of
 * them beside the evidence that it comes from.
 *
 * words.h words all numbers and comparisons, so no sentence states a number whose interval holds
 * the opposite.
 */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diagnose/verdict_parts.h"
#include "diagnose/words.h"

#define SMALL 0.1 /* share of the time below which feeding is not called the limit */
/* two rates are called equal if their ratio's interval reaches less than this to each side */
#define EQUAL 0.15

/* ---- Pieces ---------------------------------------------------------------------------------- */

const char *verdict_limit_text(verdict_limit limit) {
    static const char *const names[] = {"none",   "consumer", "read",     "decode", "transform",
                                        "worker", "workers",  "prefetch", "layout", "batch",
                                        "cpu",    "copy",     "turn",     "loader"};
    return names[limit];
}

const char *verdict_remote_text(verdict_remote remote) {
    static const char *const names[] = {"", "throttled", "requests", "latency", "bandwidth"};
    return names[remote];
}

static void add(char *text, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t capacity, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

#define SAY(v, ...) add((v)->says, sizeof((v)->says), __VA_ARGS__)

/* "the trainer", "consumer"; `the` = with its article. */
static const char *consumer(const evidence *e, bool the) {
    const char *name = e->trains ? "the trainer" : "the consumer";
    return the ? name : name + 4;
}

static const char *capital(const char *text, char out[WORDS_PHRASE]) {
    snprintf(out, WORDS_PHRASE, "%s", text);
    out[0] = (char)toupper((unsigned char)out[0]);
    return out;
}

/* 1 - r; the interval's ends change places. */
static measure_interval rest_of(const measure_interval *r) {
    return (measure_interval){1 - r->median, 1 - r->high, 1 - r->low, r->n};
}

/* The part of the time that feeding costs. Without workers it is at most the loader's own time, as
 * in verdict_share_of_feeding(); then there is no interval. */
static measure_interval feeding(const evidence *e) {
    const verdict_terms now = verdict_terms_now(e);
    measure_interval lost = rest_of(&e->both_by_consumer);
    const double most = now.loader * verdict_rate_now(e);
    if (now.overlap || !(lost.high > most) || lost.low <= 0) return lost;
    return (measure_interval){fmin(lost.median, most), NAN, NAN, lost.n};
}

/* "costs 44 % of the time [40 %, 48 %]" */
static const char *cost_of_feeding(const evidence *e, char out[WORDS_PHRASE]) {
    const measure_interval lost = feeding(e);
    return words_cost(&lost, out);
}

/* The part of the loader's work, as an activity. */
static const char *work_of(const verdict *v, char out[WORDS_PHRASE]) {
    if (v->limit == LIMIT_READ) return strcpy(out, "reading");
    if (v->limit == LIMIT_TRANSFORM) {
        snprintf(out, WORDS_PHRASE, v->stage[0] != '\0' ? "the chain (%s)" : "the chain", v->stage);
        return out;
    }
    if (strcmp(v->stage, "get") == 0) return strcpy(out, "making samples in get()");
    if (strcmp(v->stage, "decode") == 0) return strcpy(out, "decoding");
    if (v->stage[0] != '\0' && strcmp(v->stage, "copy") != 0) {
        snprintf(out, WORDS_PHRASE, "decoding (%s)", v->stage);
        return out;
    }
    return strcpy(out, "copying rows as they are stored");
}

/* ---- One limit each -------------------------------------------------------------------------- */

/* The part's share of the loader's time, by the arms before and after it; NaN if there are not two
 * such arms. */
static measure_interval part_of_time(const evidence *e, verdict_limit limit) {
    const measure_interval none = {NAN, NAN, NAN, 0};
    if (e->by_shares) return none;
    if (limit == LIMIT_TRANSFORM) return rest_of(&e->loader_by_decode);
    if (limit == LIMIT_DECODE && !e->has[EVIDENCE_DECODE] && e->has[EVIDENCE_READ])
        return rest_of(&e->decode_by_read);
    return none;
}

static void say_part_alone(const evidence *e, verdict *v, const char *work) {
    char number[WORDS_NUMBER];
    measure_interval part = part_of_time(e, v->limit);
    if (!isfinite(part.median)) part.median = v->share;
    words_percent(part.median, number);
    switch (words_side_of(&part, 0)) {
    case WORDS_ABOVE:
        SAY(v, "%s is the limit: it takes %s of the loader's time.", work, number);
        break;
    case WORDS_UNKNOWN:
        SAY(v, "%s is the limit: it takes about %s of the loader's time.", work, number);
        break;
    default: SAY(v, "%s is the largest part of the loader's work, as far as can be told.", work);
    }
}

/* What of reading from servers takes the time, and what helps. */
static void say_remote(const evidence *e, verdict *v) {
    const evidence_remote *r = &e->remote;
    char a[WORDS_NUMBER], b[WORDS_NUMBER];
    switch (verdict_remote_of(e)) {
    case REMOTE_NONE: return;
    case REMOTE_THROTTLED:
        SAY(v,
            " The server refuses %s of the requests (429 or 503), so fewer and larger ones help: a "
            "block shuffle, or cache=DIR for later epochs.",
            words_percent(r->throttled, a));
        return;
    case REMOTE_REQUESTS:
        SAY(v,
            " Each request brings %s, and its own CPU time is most of the work: a block shuffle "
            "asks for neighbours at once, cache=DIR asks once.",
            words_bytes(r->bytes, a));
        return;
    case REMOTE_LATENCY:
        SAY(v,
            " An answer takes %s, %s of it before its first byte, with about %.0f of at most %d "
            "requests in flight: more of them at once help, and cache=DIR in later epochs.",
            words_time(r->whole_s * 1e9, a), words_percent(r->first_s / r->whole_s, b),
            fmin(r->in_flight, r->connections), r->connections);
        return;
    case REMOTE_BANDWIDTH:
        SAY(v,
            " Answers of %s take %s, most of it for their bytes: the link or the server is full. "
            "cache=DIR reads each byte from it once.",
            words_bytes(r->bytes, a), words_time(r->whole_s * 1e9, b));
        return;
    }
}

static void say_part(const evidence *e, verdict *v) {
    char work[WORDS_PHRASE], subject[WORDS_PHRASE], cost[WORDS_PHRASE], rate[WORDS_NUMBER];
    capital(work_of(v, work), subject);
    if (!e->consumes)
        say_part_alone(e, v, subject);
    else if (feeding(e).median < SMALL)
        SAY(v,
            "%s itself takes most of the time. Feeding it %s, and the largest part of that is %s.",
            e->trains ? "The trainer" : "The consumer", cost_of_feeding(e, cost), work);
    else
        SAY(v, "%s is the limit: it is the largest part of the loader's work, and feeding %s %s.",
            subject, consumer(e, true), cost_of_feeding(e, cost));
    if (v->limit == LIMIT_READ && e->has[EVIDENCE_READ] && e->sample_bytes > 0)
        SAY(v, " Reading alone gives %s.",
            words_byte_rate(e->rate[EVIDENCE_READ].median * e->sample_bytes, rate));
    if (v->limit == LIMIT_READ) say_remote(e, v);
}

/* Adds "; feeding the consumer costs ...", or "." if nothing is fed. */
static void say_cost(const evidence *e, verdict *v, const char *before) {
    char cost[WORDS_PHRASE];
    if (e->consumes)
        SAY(v, "%s feeding %s %s", before, consumer(e, true), cost_of_feeding(e, cost));
    SAY(v, ".");
}

static void say_turn(const evidence *e, verdict *v) {
    char workers[WORDS_NUMBER];
    SAY(v,
        "get() is the limit: this dataset lets in one worker at a time, so %s make no more "
        "than one would",
        words_plural((unsigned long long)e->workers, "worker", workers));
    say_cost(e, v, ", and");
    SAY(v,
        " If get() may run in several threads at once, say so: set iter_dataset_ops.parallel, or "
        "give the dataset start() and stop().");
}

static void say_worker(const evidence *e, verdict *v) {
    double times;
    char factor[WORDS_NUMBER];
    const int slow = verdict_slow_worker(e, &times);
    SAY(v,
        "One slow worker is the limit: worker %d takes %s times as long over a chunk as the "
        "others. Batches come in order, so all wait for it",
        slow, words_factor(verdict_beside_others(e, slow).times, factor));
    say_cost(e, v, ", and");
    if (verdict_may_be_unlike(e, slow))
        SAY(v, " Its samples may also be larger: without a shuffle they need not be alike.");
}

static void say_workers(const evidence *e, verdict *v) {
    char workers[WORDS_NUMBER], cost[WORDS_PHRASE];
    const bool sure = verdict_sure_gain_by(e, "workers") > 0;
    const char *are = !sure ? "may be" : e->workers == 1 ? "is" : "are";
    words_plural((unsigned long long)e->workers, "worker", workers);
    if (e->workers == 0 && e->consumes)
        SAY(v, "The loader has no worker, so %s waits while it works, which %s.", consumer(e, true),
            cost_of_feeding(e, cost));
    else if (e->workers == 0)
        SAY(v, "The loader has no worker: all its work is done in the caller's thread.");
    else if (e->consumes)
        SAY(v, "%s %s too few: feeding %s %s.", workers, are, consumer(e, true),
            cost_of_feeding(e, cost));
    else
        SAY(v, "%s %s too few: more of them make more samples a second.", workers, are);
}

static void say_prefetch(const evidence *e, verdict *v) {
    const measure_interval lost = feeding(e);
    char cost[WORDS_PHRASE];
    SAY(v,
        "Too few batches are made ahead. The loader is fast enough on average, but batches come "
        "unevenly; waiting for late ones %s.",
        words_cost(&lost, cost));
}

static void say_layout(const evidence *e, verdict *v) {
    char time[WORDS_NUMBER], share[WORDS_NUMBER];
    SAY(v,
        "The layout is the limit: %s turns every batch (%s), which takes %s a batch and %s of the "
        "time.",
        consumer(e, true), e->convert_text, words_time(e->convert_s * 1e9, time),
        words_percent(v->share, share));
}

static void say_batch(const evidence *e, verdict *v) {
    char share[WORDS_NUMBER], number[WORDS_NUMBER];
    const unsigned long long batch = e->batch;
    words_percent(v->share, share);
    words_count((double)batch, number);
    for (int i = 0; i < e->n_changes; i++) {
        const evidence_change *c = &e->changes[i];
        if (strcmp(c->option, "batch") != 0 || !c->feasible) continue;
        const measure_interval ratio = verdict_ratio_of(e, c);
        if (words_side_of(&ratio, 1) == WORDS_UNCLEAR) {
            SAY(v, "A batch of %s may be too small; its cost cannot be told.", number);
            return;
        }
        if (words_side_of(&ratio, 1) == WORDS_ABOVE) continue;
        SAY(v,
            "A batch of %s is too small: the fixed cost of each batch takes about %s of the time.",
            number, share);
        return;
    }
    SAY(v, "A batch of %s is too small: the fixed cost of each batch takes %s of the time.", number,
        share);
}

static void say_cores(const evidence *e, verdict *v) {
    const verdict_terms now = verdict_terms_now(e);
    const measure_interval lost = feeding(e);
    char cost[WORDS_PHRASE], cores[WORDS_NUMBER];
    if (!verdict_crowded_by_threads(e) && verdict_gain_by(e, "threads") < WORTH &&
        !verdict_crowded(e, &now, 1 / verdict_rate_now(e))) {
        SAY(v,
            "Loader and %s are slower side by side than each alone, though neither waits for the "
            "other: sharing caches, memory and the clock %s.",
            consumer(e, false), words_cost(&lost, cost));
        return;
    }
    if (e->cores == 1)
        SAY(v, "The only core is the limit: threads of loader and %s take turns on it",
            consumer(e, false));
    else
        SAY(v, "The %s are the limit: threads of loader and %s take them from one another",
            words_plural((unsigned long long)e->cores, "core", cores), consumer(e, false));
    if (lost.median >= WORTH)
        SAY(v, ", which %s.", words_cost(&lost, cost));
    else if (verdict_gain_by(e, "threads") >= WORTH)
        SAY(v, "; the trainer has %llu threads.", (unsigned long long)e->threads);
    else
        SAY(v, ".");
}

static void say_copy(const evidence *e, verdict *v) {
    char bytes[WORDS_NUMBER], rate[WORDS_NUMBER], share[WORDS_NUMBER];
    SAY(v, "The link to the GPU is the limit: each sample sends %s over it, and it carries %s",
        words_bytes(e->copy_bytes, bytes), words_byte_rate(e->link_bytes_per_s, rate));
    if (!e->consumes)
        SAY(v, "; copies take about %s of the loader's time", words_percent(v->share, share));
    say_cost(e, v, ";");
}

static void say_loader(const evidence *e, verdict *v) {
    char cost[WORDS_PHRASE], factor[WORDS_NUMBER];
    SAY(v,
        "The loader is the limit: feeding %s %s. A loader that never made it wait would make the "
        "loop at most %s times as fast.",
        consumer(e, true), cost_of_feeding(e, cost),
        words_factor(1 / e->both_by_consumer.median, factor));
}

static void say_consumer(const evidence *e, verdict *v) {
    char cost[WORDS_PHRASE];
    SAY(v, "%s is the limit, not the loader: feeding it %s.",
        e->trains ? "The trainer" : "The consumer", cost_of_feeding(e, cost));
}

/* Whether the interval holds 1 and little else. */
static bool equal(const measure_interval *ratio) {
    return words_side_of(ratio, 1) == WORDS_UNCLEAR && ratio->high - ratio->low <= 2 * EQUAL;
}

/* The loader alone and the consumer alone cannot be told apart. */
static void say_race(const evidence *e, verdict *v) {
    const measure_interval *race = &e->loader_by_consumer;
    char low[WORDS_NUMBER], high[WORDS_NUMBER];
    if (words_side_of(race, 1) == WORDS_UNKNOWN)
        SAY(v, "No bottleneck can be told: the loader alone runs at about %s times the %s's rate.",
            words_factor(race->median, low), consumer(e, false));
    else
        SAY(v,
            "No bottleneck can be told: loader and %s cannot be told apart. The loader alone runs "
            "at "
            "%s to %s times the %s's rate.",
            consumer(e, false), words_factor(race->low, low), words_factor(race->high, high),
            consumer(e, false));
}

static void say_none(const evidence *e, verdict *v) {
    const measure_interval *fed = &e->both_by_consumer, *race = &e->loader_by_consumer;
    const verdict_terms now = verdict_terms_now(e);
    const double both = 1 / verdict_rate_now(e);
    char low[WORDS_NUMBER], high[WORDS_NUMBER];
    if (fed->median >= FED_ENOUGH || !isfinite(fed->median)) {
        if (equal(race) && equal(fed))
            SAY(v, "There is no bottleneck that can be measured: loader and %s are equally fast.",
                consumer(e, false));
        else if (words_side_of(race, 1) == WORDS_BELOW)
            SAY(v,
                "No bottleneck can be told: feeding %s costs nothing that can be measured, "
                "although "
                "the loader alone is slower. These figures contradict one another.",
                consumer(e, true));
        else
            say_race(e, v);
    } else if (!isfinite(fed->high)) {
        SAY(v, "No bottleneck can be told: together they reach about %s of what %s takes alone.",
            words_percent(fed->median, low), consumer(e, true));
    } else {
        SAY(v,
            "No bottleneck can be told: together they reach between %s and %s of what %s takes "
            "alone.",
            words_percent(fed->low, low), words_percent(fed->high, high), consumer(e, true));
    }
    if (!now.overlap && both > UNEXPLAINED * now.both)
        SAY(v,
            " The loader, which works in its thread, can take %s of the time; what took the rest "
            "is "
            "unknown, perhaps another program.",
            words_percent(fmin(now.loader / both, 1), low));
}

static void say_limit(const evidence *e, verdict *v) {
    switch (v->limit) {
    case LIMIT_NONE: say_none(e, v); break;
    case LIMIT_CONSUMER: say_consumer(e, v); break;
    case LIMIT_READ:
    case LIMIT_DECODE:
    case LIMIT_TRANSFORM: say_part(e, v); break;
    case LIMIT_WORKER: say_worker(e, v); break;
    case LIMIT_WORKERS: say_workers(e, v); break;
    case LIMIT_PREFETCH: say_prefetch(e, v); break;
    case LIMIT_LAYOUT: say_layout(e, v); break;
    case LIMIT_BATCH: say_batch(e, v); break;
    case LIMIT_CPU: say_cores(e, v); break;
    case LIMIT_COPY: say_copy(e, v); break;
    case LIMIT_TURN: say_turn(e, v); break;
    case LIMIT_LOADER: say_loader(e, v); break;
    }
}

/* ---- Evidence -------------------------------------------------------------------------------- */

static void say_rates(const evidence *e, char *text, size_t n) {
    static const struct {
        evidence_arm arm;
        const char *name;
    } arms[] = {{EVIDENCE_READ, "reading"},
                {EVIDENCE_DECODE, "reading and decoding"},
                {EVIDENCE_LOADER, "the loader"}};
    char number[WORDS_NUMBER];
    add(text, n, " Samples a second, each alone:");
    for (size_t i = 0; i < sizeof(arms) / sizeof(arms[0]); i++)
        if (e->has[arms[i].arm])
            add(text, n, " %s %s%s", arms[i].name, words_count(e->rate[arms[i].arm].median, number),
                arms[i].arm != EVIDENCE_LOADER ? "," : "");
    if (e->consumes) {
        add(text, n, ", %s %s", consumer(e, true),
            words_count(e->rate[EVIDENCE_CONSUMER].median, number));
        add(text, n, "; together %s", words_count(verdict_rate_now(e), number));
    }
    add(text, n, ".");
}

/* Explains a worker that looks slow and is not. */
static void say_unlike(const evidence *e, char *text, size_t n) {
    double times;
    char factor[WORDS_NUMBER], larger[WORDS_NUMBER];
    if (e->n_workers < 2 || verdict_slow_worker(e, &times) >= 0) return;
    for (int i = 0; i < e->n_workers; i++) {
        const verdict_odd_worker odd = verdict_beside_others(e, i);
        if (odd.times < SLOW_WORKER) continue;
        add(text, n,
            " Worker %d takes %s times as long over a chunk as the others, over samples that are "
            "%s times as large%s.",
            i, words_factor(odd.times, factor), words_factor(odd.larger, larger),
            e->in_order ? "; a shuffle would spread them" : "");
        return;
    }
}

/* The same of a loop that was watched. */
static void say_watched(const evidence *e, char *text, size_t n) {
    char number[WORDS_NUMBER];
    add(text, n, " The loop takes %s samples a second", words_count(verdict_rate_now(e), number));
    add(text, n, "; %s could take %s if next() took no time", consumer(e, true),
        words_count(e->rate[EVIDENCE_CONSUMER].median, number));
    if (e->has[EVIDENCE_LOADER] && !verdict_is_opaque(e))
        add(text, n, ", and the loader make about %s",
            words_count(e->rate[EVIDENCE_LOADER].median, number));
    add(text, n, ".");
}

static void say_evidence(const evidence *e, verdict *v) {
    char *t = v->text, number[WORDS_NUMBER], cores[WORDS_NUMBER];
    const size_t n = sizeof(v->text);
    const char *who = e->trains ? "The trainer" : "The consumer";
    if (e->passive)
        say_watched(e, t, n);
    else
        say_rates(e, t, n);
    if (e->consumes && e->has[EVIDENCE_BOTH])
        add(t, n, " %s spends %s of the time in next().", who,
            words_percent(e->wait_share, number));
    if (e->has[EVIDENCE_RESIDENT])
        add(t, n, " Over batches that are on the GPU already it takes %s a second.",
            words_count(e->rate[EVIDENCE_RESIDENT].median, number));
    say_unlike(e, t, n);
    double runnable = e->consumer_runnable;
    for (int i = 0; i < e->n_workers; i++)
        runnable = fmax(runnable, e->worker[i].runnable);
    if (runnable >= RUNNABLE)
        add(t, n, " A thread was ready to run but had no core for %s of the time.",
            words_percent(runnable, number));
    if (runnable >= RUNNABLE && !verdict_uses_cores(e))
        add(t, n, " This process used %s of %s: another program, or a limit, has the rest.",
            words_factor(e->cpu[EVIDENCE_BOTH] * verdict_rate_now(e), number),
            words_plural((unsigned long long)e->cores, "core", cores));
    if (e->convert_s > 0 && v->limit != LIMIT_LAYOUT)
        add(t, n,
            " %s turns the layout of every batch (%s), which takes %s; `to:` with %s avoids it.",
            who, e->convert_text, words_time(e->convert_s * 1e9, number), e->wants);
}

static void say_confidence(const evidence *e, const verdict *v, char *text, size_t n) {
    bool tried = false;
    char worth[WORDS_NUMBER], rounds[WORDS_NUMBER];
    for (int i = 0; i < e->n_changes; i++)
        tried = tried || e->changes[i].feasible;
    if (v->n_changes == 0 && tried && !e->passive)
        add(text, n, " None of the changes that were tried would gain %s.",
            words_percent(WORTH, worth));
    if (!e->steady)
        add(text, n, " The machine's speed moved around %u of %s.", e->unsteady_rounds,
            words_plural(e->rounds, "round", rounds));
    if (!v->high && e->passive)
        add(text, n, " Confidence: low, after %s.", words_time(e->observed_s * 1e9, rounds));
    else if (!v->high && e->rounds < MIN_ROUNDS)
        add(text, n, " Confidence: low, after %s.", words_plural(e->rounds, "round", rounds));
    else if (!v->high)
        add(text, n, " Confidence: low.");
}

/* ---- Changes --------------------------------------------------------------------------------- */

static const char *next_text(const evidence *e, const verdict *v, verdict_limit next) {
    if (next == v->limit) return "the same limit holds again";
    switch (next) {
    case LIMIT_CONSUMER:
        return e->trains ? "the trainer is the limit" : "the consumer is the limit";
    case LIMIT_PREFETCH: return "batches still come unevenly";
    case LIMIT_CPU: return "the cores are the limit";
    case LIMIT_COPY: return "the link to the GPU is the limit";
    case LIMIT_READ: return "reading is the limit";
    case LIMIT_DECODE: return "decoding or copying rows is the limit";
    default: return "the chain is the limit";
    }
}

/* A size without blanks, as options are written. */
static void write_packed(const char *text, char *out, size_t capacity) {
    size_t n = 0;
    for (; *text != '\0' && n + 1 < capacity; text++)
        if (*text != ' ') out[n++] = *text;
    out[n] = '\0';
}

/* The option by its own name: iterbench's command line has shorter ones. */
static const char *name_of(const evidence *e, const evidence_change *change) {
    return e->passive && strcmp(change->option, "batch") == 0 ? "batch_size" : change->option;
}

static void say_advice(const evidence *e, const evidence_change *change, verdict_change *c) {
    char value[sizeof(change->to)];
    if (e->passive) {
        snprintf(c->advice, sizeof(c->advice), "%s=%.160s", name_of(e, change), change->to);
    } else if (strcmp(change->option, "layout") == 0 ||
               strncmp(change->from, "jpeg-scale", 10) == 0) {
        snprintf(c->advice, sizeof(c->advice), "%.160s in the chain", change->to);
    } else if (strcmp(change->option, "connections") == 0) {
        snprintf(c->advice, sizeof(c->advice), "connections=%.160s in --data", change->to);
    } else if (change->experiment && strcmp(change->option, "chain") == 0) {
        snprintf(c->advice, sizeof(c->advice), "the chain without%.160s",
                 change->from + strlen("with")); /* "with blur" */
    } else {
        write_packed(change->to, value, sizeof(value));
        snprintf(c->advice, sizeof(c->advice), "--%s %s", change->option, value);
    }
}

static void say_change(const evidence *e, const verdict *v, verdict_change *c) {
    const evidence_change *change = &e->changes[c->of];
    char gain[WORDS_PHRASE], rate[WORDS_NUMBER], expected[WORDS_NUMBER + 16] = "";
    if (words_side_of(&c->ratio, 1) != WORDS_UNCLEAR)
        snprintf(expected, sizeof(expected), " (%s samples/s)", words_count(c->expected, rate));
    snprintf(c->text, sizeof(c->text), "%s %.120s -> %.120s: %s%s%s; then %s", name_of(e, change),
             change->from, change->to, words_gain(&c->ratio, gain), expected,
             change->experiment ? ", as an experiment: the batches differ" : "",
             next_text(e, v, c->next));
    say_advice(e, change, c);
}

void verdict_say(const evidence *e, verdict *v) {
    say_limit(e, v);
    add(v->text, sizeof(v->text), "%s", v->says);
    say_evidence(e, v);
    say_confidence(e, v, v->text, sizeof(v->text));
    for (int i = 0; i < v->n_changes; i++)
        say_change(e, v, &v->changes[i]);
}
