/*
 * diagnosis_text.c - a diagnosis for a terminal: five lines, or with --verbose every figure.
 * docs/iterbench.md explains each row.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/verdict/diagnosis.h"
#include "diagnose/words.h"

#define LABEL 10 /* columns of the labels: of the five lines, and of all rows */
#define WIDE  17

static const char *who_of(const diagnosis *d) {
    return d->e.trains ? "trainer" : "consumer";
}

/* ---- Rows of both forms ---------------------------------------------------------------------- */

static void row_failed(const page *p, int width, const diagnosis *d) {
    iter_failure first;
    char text[WORDS_NUMBER];
    const bench_arm *arm = &d->arms[d->watched];
    if (d->stats.n_failures == 0) {
        page_row(p, width, "failed", PAGE_PLAIN, "no sample");
        return;
    }
    words_plural(d->stats.n_failures, "sample", text);
    if (arm->loaders != NULL && arm_failures(arm, &first, 1) > 0)
        page_row(p, width, "failed", PAGE_BAD, "%s, first: %s", text, first.message);
    else
        page_row(p, width, "failed", PAGE_BAD, "%s", text);
}

static void row_proof(const page *p, int width, const diagnosis *d) {
    char gain[WORDS_PHRASE], expected[WORDS_PHRASE];
    if (d->asked.prove && d->v.n_changes == 0)
        page_row(p, width, "proof", PAGE_PLAIN, "there is no change to prove");
    if (!d->has_proof) return;
    const verdict_change *change = &d->v.changes[0];
    page_row(p, width, "proof", PAGE_STRONG, "%s: %s; expected %s", change->advice,
             words_gain(&d->proved, gain), words_gain(&change->ratio, expected));
}

static void row_notes(const page *p, int width, const diagnosis *d) {
    for (int32_t i = 0; i < d->stats.n_fallbacks && i < ITER_STATS_FALLBACKS; i++)
        page_row(p, width, "fallback", PAGE_WARN, "%s", d->stats.fallbacks[i]);
    if (d->interrupted)
        page_row(p, width, "stopped", PAGE_WARN,
                 "by a signal, after %u rounds: no change was tried", d->rounds.n_rounds);
}

static page_style style_of(verdict_limit limit) {
    return limit == LIMIT_NONE || limit == LIMIT_CONSUMER ? PAGE_GOOD : PAGE_WARN;
}

/* ---- Five lines ------------------------------------------------------------------------------ */

/* Compares the rate with the highest that it could be. */
static void row_limit(const page *p, const diagnosis *d) {
    const evidence *e = &d->e;
    char alone[WORDS_NUMBER], share[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    const measure_interval *fed = &e->both_by_consumer;
    words_count(e->rate[EVIDENCE_CONSUMER].median, alone);
    words_percent(fed->median, share);
    if (!e->consumes) {
        const evidence_arm arm = e->has[EVIDENCE_READ] ? EVIDENCE_READ : EVIDENCE_DECODE;
        if (e->has[arm])
            page_row(p, LABEL, "limit", PAGE_PLAIN, "%s samples/s of %s alone",
                     words_count(e->rate[arm].median, alone),
                     arm == EVIDENCE_READ ? "reading" : "reading and decoding");
        else
            page_row(p, LABEL, "limit", PAGE_PLAIN, "unknown: nothing else was measured");
    } else if (words_side_of(fed, 1) == WORDS_UNCLEAR) {
        page_row(p, LABEL, "limit", PAGE_PLAIN,
                 "%s samples/s of the %s alone: the two cannot be told apart", alone, who_of(d));
    } else if (words_side_of(fed, 1) == WORDS_UNKNOWN) {
        page_row(p, LABEL, "limit", PAGE_PLAIN, "about %s of the %s alone, %s samples/s", share,
                 who_of(d), alone);
    } else {
        page_row(p, LABEL, "limit", PAGE_PLAIN, "%s [%s, %s] of the %s alone, %s samples/s", share,
                 words_percent(fed->low, low), words_percent(fed->high, high), who_of(d), alone);
    }
}

static void row_waiting(const page *p, const diagnosis *d) {
    const bench_arm *arm = &d->arms[d->watched];
    char share[WORDS_NUMBER];
    const double waits =
        d->e.consumes ? d->e.wait_share : (double)arm->wait_ns * 1e-9 / arm->seconds;
    page_row(p, LABEL, "waiting", PAGE_PLAIN, "%s of the time in next()%s",
             words_percent(waits, share),
             d->e.workers == 0 ? ", where the loader works: it has no worker" : "");
}

static void row_verdict(const page *p, const diagnosis *d) {
    char gain[WORDS_PHRASE], next[512] = "";
    const verdict_change *change = d->v.n_changes > 0 ? &d->v.changes[0] : NULL;
    if (change != NULL)
        snprintf(next, sizeof(next), " Try %s: %s.", change->advice,
                 words_gain(&change->ratio, gain));
    page_row(p, LABEL, "verdict", style_of(d->v.limit), "%s%s%s", d->v.says, next,
             d->v.high ? "" : " Confidence: low.");
}

static void print_lines(const page *p, const diagnosis *d) {
    char rate[WORDS_NUMBER];
    words_count(d->e.rate[d->watched].median, rate);
    if (d->e.consumes)
        page_row(p, LABEL, "rate", PAGE_STRONG, "%s samples/s, loader and %s together", rate,
                 who_of(d));
    else
        page_row(p, LABEL, "rate", PAGE_STRONG, "%s samples/s, the loader alone", rate);
    row_limit(p, d);
    row_waiting(p, d);
    row_verdict(p, d);
    row_failed(p, LABEL, d);
    row_notes(p, LABEL, d);
    row_proof(p, LABEL, d);
}

/* ---- Every figure ---------------------------------------------------------------------------- */

static void print_head(const page *p, const diagnosis *d) {
    const evidence *e = &d->e;
    char workers[WORDS_NUMBER], threads[WORDS_NUMBER];
    page_row(p, WIDE, "data", PAGE_PLAIN, "%s", bench_data_text(&d->run));
    page_row(p, WIDE, "chain", PAGE_PLAIN, "%s", d->run.chain != NULL ? d->run.chain : "none");
    page_row(p, WIDE, "loader", PAGE_PLAIN,
             "%s, batch %" PRIu64 ", %s, prefetch %" PRIu64 ", source %s",
             d->ndarray ? "ndarray" : "dataloader", e->batch,
             words_plural((unsigned long long)e->workers, "worker", workers), e->prefetch,
             bench_source_text(d->stats.source));
    if (e->trains)
        page_row(p, WIDE, "trainer", PAGE_PLAIN, "%s, %s", bench_model_text(d->run.model),
                 words_plural(e->threads, "thread", threads));
    else if (e->consumes)
        page_row(p, WIDE, "consumer", PAGE_PLAIN, "%.3g ms a batch, emulated", d->run.compute_ms);
    if (e->to_device) page_row(p, WIDE, "device", PAGE_PLAIN, "%s", d->stats.device);
    if (e->steady)
        page_row(p, WIDE, "rounds", PAGE_PLAIN, "%u kept, %u dropped", d->rounds.n_rounds,
                 d->rounds.n_dropped);
    else
        page_row(p, WIDE, "rounds", PAGE_PLAIN,
                 "%u; the machine's speed moved around %u of them, which count as well",
                 d->rounds.n_rounds, d->rounds.n_dropped);
}

static void print_arms(const page *p, const diagnosis *d) {
    char rate[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER], cpu[WORDS_NUMBER];
    fprintf(p->out, "\n%-*s %12s %22s %14s\n", WIDE - 1, "alone", "samples/s", "95 %",
            "CPU a sample");
    for (int i = 0; i < EVIDENCE_ARMS; i++) {
        const measure_interval *r = &d->e.rate[i];
        char interval[2 * WORDS_NUMBER + 4] = "";
        if (!d->e.has[i]) continue;
        if (isfinite(r->low))
            snprintf(interval, sizeof(interval), "[%s, %s]", words_count(r->low, low),
                     words_count(r->high, high));
        fprintf(p->out, "%-*s %12s %22s %14s\n", WIDE - 1, diagnosis_arm_name(d, i),
                words_count(r->median, rate), interval, words_time(d->e.cpu[i] * 1e9, cpu));
    }
    fprintf(p->out, "%-*s %12s\n", WIDE - 1, "model",
            words_count(verdict_bound(&d->e).model, rate));
}

/* The stage in which a worker spends most of its time. */
static const char *busiest(const evidence *e, const evidence_worker *worker) {
    int most = -1;
    for (int s = 0; s < e->n_stages; s++)
        if (e->stages[s].kind != EVIDENCE_OF_NONE && worker->stages[s] > 0 &&
            (most < 0 || worker->stages[s] > worker->stages[most]))
            most = s;
    return most >= 0 ? e->stages[most].name : "";
}

static void print_workers(const page *p, const diagnosis *d) {
    const evidence *e = &d->e;
    char number[5][WORDS_NUMBER];
    fprintf(p->out, "\n%-*s %8s %8s %8s %8s %8s  %s\n", WIDE - 1, "while both", "chunks", "busy",
            "bytes", "no slot", "no core", "most of it");
    for (int w = 0; w < e->n_workers; w++) {
        const evidence_worker *worker = &e->worker[w];
        char name[24];
        snprintf(name, sizeof(name), e->workers == 0 ? "in next()" : "worker %d", w);
        fprintf(p->out, "%-*s %8s %8s %8s %8s %8s  %s\n", WIDE - 1, name,
                words_count((double)worker->chunks, number[0]),
                words_percent(worker->busy, number[1]),
                words_percent(worker->wait_bytes, number[2]),
                words_percent(worker->wait_slot, number[3]),
                words_percent(worker->runnable, number[4]), busiest(e, worker));
    }
    if (!e->consumes) return;
    char turning[WORDS_NUMBER + 32] = "";
    const double turns = e->convert_s / (double)e->batch * e->rate[EVIDENCE_BOTH].median;
    if (turns > 0)
        snprintf(turning, sizeof(turning), ", turns layouts %s", words_percent(turns, number[2]));
    page_row(p, WIDE, who_of(d), PAGE_PLAIN, "%s %s of the time%s, has no core %s",
             e->workers == 0 ? "has the loader at work in its thread" : "waits for a batch",
             words_percent(e->wait_share, number[0]), turning,
             words_percent(e->consumer_runnable, number[1]));
}

static void print_device(const page *p, const diagnosis *d) {
    const evidence *e = &d->e;
    char bytes[WORDS_NUMBER], rate[WORDS_NUMBER], plain[WORDS_NUMBER], share[WORDS_NUMBER];
    char more[160] = "";
    if (!e->to_device) return;
    int n = 0;
    if (isfinite(d->link.plain_bytes_per_s))
        n = snprintf(more, sizeof(more), ", %s by plain copies of a batch's size",
                     words_byte_rate(d->link.plain_bytes_per_s, plain));
    if (isfinite(d->link.slots_by_plain.median))
        snprintf(more + n, sizeof(more) - (size_t)n, ", %s of that from the slots",
                 words_percent(d->link.slots_by_plain.median, share));
    page_row(p, WIDE, "to the GPU", PAGE_PLAIN, "%s a sample; %s while the loader runs alone%s",
             words_bytes(e->copy_bytes, bytes),
             words_byte_rate(diagnosis_copied_bytes_per_s(&d->arms[EVIDENCE_LOADER]), rate), more);
    if (e->consumes)
        page_row(p, WIDE, "GPU", PAGE_PLAIN, "computes %s of the time",
                 words_percent(diagnosis_utilisation(d), share));
}

static void print_cost(const page *p, const diagnosis *d) {
    const measure_interval cost = diagnosis_cost(d);
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    if (!d->e.consumes) return;
    words_percent(cost.median, median);
    words_percent(cost.low, low);
    words_percent(cost.high, high);
    switch (words_side_of(&cost, 0)) {
    case WORDS_UNCLEAR:
        page_row(p, WIDE, "cost of feeding", PAGE_PLAIN, "none that can be measured [%s, %s]", low,
                 high);
        break;
    case WORDS_UNKNOWN:
        page_row(p, WIDE, "cost of feeding", PAGE_PLAIN,
                 "a sample takes about %s longer than the %s alone needs", median, who_of(d));
        break;
    default:
        page_row(p, WIDE, "cost of feeding", PAGE_PLAIN,
                 "a sample takes %s longer than the %s alone needs [%s, %s]", median, who_of(d),
                 low, high);
    }
    page_row(p, WIDE, "CPU time", PAGE_PLAIN, "%s of it is the loader's",
             words_percent(diagnosis_loader_cpu_share(d), median));
}

static void print_all(const page *p, const diagnosis *d) {
    print_head(p, d);
    print_arms(p, d);
    print_workers(p, d);
    fputc('\n', p->out);
    print_device(p, d);
    print_cost(p, d);
    row_failed(p, WIDE, d);
    row_notes(p, WIDE, d);
    page_row(p, WIDE, "verdict", style_of(d->v.limit), "%s", d->v.text);
    for (int i = 0; i < d->v.n_changes; i++) {
        char label[32];
        snprintf(label, sizeof(label), "change %d", i + 1);
        page_row(p, WIDE, label, PAGE_PLAIN, "%s", d->v.changes[i].text);
    }
    for (int i = 0; i < d->e.n_changes; i++)
        if (!d->e.changes[i].feasible)
            page_row(p, WIDE, "not tried", PAGE_PLAIN, "%s %s -> %s: %s", d->e.changes[i].option,
                     d->e.changes[i].from, d->e.changes[i].to, d->e.changes[i].why_not);
    row_proof(p, WIDE, d);
}

void diagnosis_print(const diagnosis *d, FILE *out) {
    const page p = page_of(out);
    if (d->asked.verbose)
        print_all(&p, d);
    else
        print_lines(&p, d);
}
