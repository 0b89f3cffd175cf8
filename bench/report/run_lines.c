/*
 * run_lines.c - a run for a terminal: the rate, its share of the limit, the waiting, what to do
 * next, failed samples; and one row for each unusual condition.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "bench/common/page.h"
#include "bench/report/run_result.h"
#include "diagnose/words.h"

#define LABEL 10
#define CELL  12 /* width of one arm of two */

typedef struct limit_text {
    double share[2]; /* of each arm */
    char of[160];    /* name of the limit, and its rate */
} limit_text;

/* The nearest limit that was measured: the same work without a loader, else the bytes alone. */
static limit_text limit_of(const run_result *r) {
    limit_text out = {.of = ""};
    const yardstick_rates *l = &r->limits;
    char number[WORDS_NUMBER];
    const bool link = r->options->device != 0 && isfinite(r->link.plain_bytes_per_s);
    for (int i = 0; i < r->n_arms; i++) {
        const bench_arm *arm = &r->arms[i];
        out.share[i] = link ? (double)arm->copied_bytes / arm->seconds / r->link.plain_bytes_per_s
                       : isfinite(l->decode_samples_per_s) ? arm_rate(arm) / l->decode_samples_per_s
                       : isfinite(l->ordered_samples_per_s)
                           ? arm_rate(arm) / l->ordered_samples_per_s
                           : (double)arm->bytes / arm->seconds / l->copy_bytes_per_s;
    }
    if (link)
        snprintf(out.of, sizeof(out.of), "plain copies to the GPU, %s",
                 words_byte_rate(r->link.plain_bytes_per_s, number));
    else if (isfinite(l->decode_samples_per_s))
        snprintf(out.of, sizeof(out.of), "a bare decode on one core, %s samples/s",
                 words_count(l->decode_samples_per_s, number));
    else if (isfinite(l->ordered_samples_per_s))
        snprintf(out.of, sizeof(out.of), "the same work in a plain loop, %s samples/s",
                 words_count(l->ordered_samples_per_s, number));
    else
        snprintf(out.of, sizeof(out.of), "a plain copy of its bytes in memory, %s",
                 words_byte_rate(l->copy_bytes_per_s, number));
    return out;
}

static double waiting(const bench_arm *arm) {
    return (double)arm->wait_ns * 1e-9 / arm->seconds;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void row_next(const page *p, const run_result *r) {
    if (r->stats[r->n_arms - 1].n_failures > 0 && r->options->failures == NULL)
        page_row(p, LABEL, "next", PAGE_PLAIN,
                 "--failures FILE lists the failed samples, each with its reason");
    else
        page_row(p, LABEL, "next", PAGE_PLAIN,
                 "--compute-ms MS, your step's time a batch, finds what limits loader and step");
}

static void row_failed(const page *p, const run_result *r) {
    char n[WORDS_NUMBER];
    const uint64_t failed = r->stats[r->n_arms - 1].n_failures;
    if (failed == 0)
        page_row(p, LABEL, "failed", PAGE_PLAIN, "no sample");
    else if (r->n_failures > 0)
        page_row(p, LABEL, "failed", PAGE_BAD, "%s, first: %.300s",
                 words_plural(failed, "sample", n), r->failures[0].message);
    else
        page_row(p, LABEL, "failed", PAGE_BAD, "%s", words_plural(failed, "sample", n));
}

static void rows_of_notes(const page *p, const run_result *r) {
    const iter_loader_stats *stats = &r->stats[r->n_arms - 1];
    char n[WORDS_NUMBER], time[WORDS_NUMBER];
    if (stats->n_warnings > 0)
        page_row(p, LABEL, "warned", PAGE_WARN,
                 "decoders warned about %s, first: %.300s. With on-warning=reject such samples "
                 "fail, and --failures lists them.",
                 words_plural(stats->n_warnings, "sample", n), stats->warning_text);
    for (int i = 0; i < r->n_arms; i++)
        for (int32_t k = 0; k < r->stats[i].n_fallbacks && k < ITER_STATS_FALLBACKS; k++)
            page_row(p, LABEL, "fallback", PAGE_WARN, "%s", r->stats[i].fallbacks[k]);
    if (r->options->hash)
        page_row(p, LABEL, "hash", PAGE_PLAIN, "%016" PRIx64, r->hashes[r->n_arms - 1].sum);
    if (r->interrupted)
        page_row(p, LABEL, "stopped", PAGE_WARN, "by a signal, after %s of measuring",
                 words_time(r->arms[r->n_arms - 1].seconds * 1e9, time));
}

static const char *no_limit(const run_result *r) {
    return r->options->hash ? "not measured: the rate includes the hashing" : "not measured";
}

/* ---- One loader ------------------------------------------------------------------------------ */

static void print_one(const page *p, const run_result *r) {
    const bench_arm *arm = &r->arms[0];
    char a[WORDS_NUMBER], b[WORDS_NUMBER];
    page_row(p, LABEL, "rate", PAGE_STRONG, "%s samples/s, %s", words_count(arm_rate(arm), a),
             words_byte_rate((double)arm->bytes / arm->seconds, b));
    if (!r->has_limits) {
        page_row(p, LABEL, "limit", PAGE_PLAIN, "%s", no_limit(r));
    } else {
        const limit_text limit = limit_of(r);
        page_row(p, LABEL, "limit", PAGE_PLAIN, "%s of %s", words_percent(limit.share[0], a),
                 limit.of);
    }
    page_row(p, LABEL, "waiting", PAGE_PLAIN, "%s of the time in next()%s",
             words_percent(waiting(arm), a),
             r->stats[0].n_workers == 0 ? ", where the loader works: it has no worker" : "");
}

/* ---- Two loaders ----------------------------------------------------------------------------- */

static void row_of_two(const page *p, const char *label, const char *a, const char *b,
                       const char *text) {
    char cells[2 * CELL + WORDS_NUMBER * 2 + 200];
    snprintf(cells, sizeof(cells), "%*s%*s%s%s", CELL, a, CELL, b, text[0] != '\0' ? "  " : "",
             text);
    fprintf(p->out, "%-*s%s\n", LABEL, label, cells);
}

static void print_two(const page *p, const run_result *r) {
    char a[WORDS_NUMBER], b[WORDS_NUMBER], text[256], phrase[WORDS_PHRASE];
    const bench_arm *arms = r->arms;
    row_of_two(p, "", arms[0].name, arms[1].name, "");
    row_of_two(p, "rate", words_count(arm_rate(&arms[0]), a), words_count(arm_rate(&arms[1]), b),
               "samples/s");
    if (!r->has_limits) {
        row_of_two(p, "limit", "-", "-", no_limit(r));
    } else {
        const limit_text limit = limit_of(r);
        snprintf(text, sizeof(text), "of %s", limit.of);
        row_of_two(p, "limit", words_percent(limit.share[0], a), words_percent(limit.share[1], b),
                   text);
    }
    row_of_two(p, "waiting", words_percent(waiting(&arms[0]), a),
               words_percent(waiting(&arms[1]), b), "of the time in next()");
    page_row(p, LABEL, "verdict", PAGE_STRONG, "%s",
             words_ratio(arms[0].name, arms[1].name, &r->pairs.ratio, phrase));
}

void run_result_lines(const run_result *result, FILE *out) {
    const page p = page_of(out);
    if (result->n_arms == 2) {
        print_two(&p, result);
    } else {
        print_one(&p, result);
        row_next(&p, result);
    }
    row_failed(&p, result);
    rows_of_notes(&p, result);
}
