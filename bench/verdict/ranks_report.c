/* ranks_report.c - see ranks_report.h. */
#include "bench/verdict/ranks_report.h"

#include <inttypes.h>

#include "bench/common/bench_json.h"
#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "diagnose/words.h"

#define LABEL 10

static const char *ms(double seconds, char out[WORDS_NUMBER]) {
    return words_time(seconds * 1e9, out);
}

static double mean(const ranks_report *r, double (*of)(const ranks_part *)) {
    double sum = 0;
    for (uint32_t i = 0; i < r->e.n; i++)
        sum += of(&r->e.parts[i]);
    return sum / r->e.n;
}

static double load_of(const ranks_part *part) {
    return part->load;
}
static double compute_of(const ranks_part *part) {
    return part->compute;
}
static double wait_of(const ranks_part *part) {
    return part->wait;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_table(const page *p, const ranks_report *r) {
    char number[5][WORDS_NUMBER];
    fprintf(p->out, "\n%-5s %10s %10s %10s %9s %9s  %-24s %s\n", "rank", "loading", "computing",
            "waiting", "slowest", "no core", "its loader's stage", "host");
    for (uint32_t i = 0; i < r->e.n; i++) {
        const ranks_part *part = &r->e.parts[i];
        fprintf(p->out, "%-5u %10s %10s %10s %9s %9s  %-24s %s\n", i, ms(part->load, number[0]),
                ms(part->compute, number[1]), ms(part->wait, number[2]),
                words_percent((double)part->n_slowest / (double)r->n_steps, number[3]),
                words_percent(part->no_core, number[4]), part->stage, part->host);
    }
}

void ranks_report_print(const ranks_report *r, FILE *out) {
    const page p = page_of(out);
    const ranks_verdict *v = &r->v;
    char a[WORDS_NUMBER], b[WORDS_NUMBER], c[WORDS_NUMBER], d[WORDS_NUMBER], e[WORDS_NUMBER];
    page_row(&p, LABEL, "rate", PAGE_STRONG, "%s samples/s, %u ranks together%s",
             words_count(r->samples_per_s, a), r->e.n,
             r->micro_batches > 0 ? "" : ", each with its loader alone");
    page_row(&p, LABEL, "step", PAGE_PLAIN,
             "%s: loading %s, computing %s, waiting for others %s, sums %s (means over ranks)",
             ms(r->e.step, a), ms(mean(r, load_of), b), ms(mean(r, compute_of), c),
             ms(mean(r, wait_of), d), ms(r->e.sums, e));
    page_row(&p, LABEL, "ranks", PAGE_PLAIN,
             "the slowest is %u, %s of its own a step, the fastest %u, %s: %s apart", v->slowest,
             ms(v->own_slowest, a), v->fastest, ms(v->own_fastest, b),
             ms(v->own_slowest - v->own_fastest, c));
    page_row(&p, LABEL, "waiting", PAGE_PLAIN, "%s of all ranks' time, for slower ones",
             words_percent(v->waiting_share, a));
    if (v->gain == 0)
        page_row(&p, LABEL, "verdict", PAGE_GOOD, "%s", v->text);
    else
        page_row(&p, LABEL, "verdict", PAGE_WARN, "%s Without that: +%s.", v->text,
                 words_percent(v->gain, a));
    if (r->n_failures == 0)
        page_row(&p, LABEL, "failed", PAGE_PLAIN, "no sample");
    else
        page_row(&p, LABEL, "failed", PAGE_BAD, "%s, first: %s",
                 words_plural(r->n_failures, "sample", a), r->failure);
    if (r->interrupted)
        page_row(&p, LABEL, "stopped", PAGE_WARN, "by a signal, after %" PRIu64 " steps",
                 r->n_steps);
    if (r->options->verbose) print_table(&p, r);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void config_json(json_writer *w, const ranks_report *r) {
    const bench_options *o = r->options;
    json_begin(w, "config", '{');
    json_text(w, "loader", o->loader == BENCH_NDARRAY ? "ndarray" : "dataloader");
    json_text(w, "data", bench_data_text(o));
    json_text(w, "chain", o->chain);
    json_text(w, "model", o->model != BENCH_MODEL_NONE ? bench_model_text(o->model) : NULL);
    json_text(w, "backend", r->backend);
    json_count(w, "batch", o->batch);
    json_count(w, "micro_batches", r->micro_batches);
    json_integer(w, "workers", o->workers);
    json_text(w, "shuffle", bench_shuffle_text(o->shuffle));
    json_count(w, "seed", o->seed);
    json_text(w, "launcher", r->launcher);
    json_end(w);
}

static void part_json(json_writer *w, const ranks_report *r, uint32_t rank) {
    const ranks_part *part = &r->e.parts[rank];
    json_begin(w, NULL, '{');
    json_count(w, "rank", rank);
    json_text(w, "host", part->host);
    json_number(w, "load_s", part->load);
    json_number(w, "compute_s", part->compute);
    json_number(w, "wait_s", part->wait);
    json_number(w, "no_core_share", part->no_core);
    json_count(w, "slowest_steps", part->n_slowest);
    json_text(w, "stage", part->stage[0] != '\0' ? part->stage : NULL);
    json_number(w, "stage_share", part->stage_share);
    json_end(w);
}

void ranks_report_json(const ranks_report *r, FILE *out) {
    json_writer writer = {.out = out}, *w = &writer;
    const ranks_verdict *v = &r->v;
    json_begin(w, NULL, '{');
    json_text(w, "tool", "iterbench-ranks");
    bench_machine_json(w);
    config_json(w, r);
    json_count(w, "steps", r->n_steps);
    json_count(w, "samples", r->n_samples);
    json_count(w, "failed_samples", r->n_failures);
    json_bool(w, "interrupted", r->interrupted);
    json_number(w, "samples_per_s", r->samples_per_s);
    json_number(w, "step_s", r->e.step);
    json_number(w, "sums_s", r->e.sums);
    json_number(w, "slowest_s", r->e.slowest);
    json_number(w, "waiting_share", v->waiting_share);
    json_begin(w, "ranks", '[');
    for (uint32_t i = 0; i < r->e.n; i++)
        part_json(w, r, i);
    json_end(w);
    json_begin(w, "verdict", '{');
    json_text(w, "limit", ranks_limit_text(v->limit));
    if (v->limit == RANKS_STRAGGLER)
        json_count(w, "rank", v->slowest);
    else
        json_null(w, "rank");
    json_text(w, "of",
              v->limit != RANKS_STRAGGLER ? NULL
              : v->by_loading             ? "loading"
                                          : "computing");
    json_number(w, "gain", v->gain);
    json_text(w, "text", v->text);
    json_end(w);
    json_end(w);
}
