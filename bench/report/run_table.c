/*
 * run_table.c - every figure of a run, as a table (--verbose). docs/iterbench.md explains each row.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <iter/version.h>

#include "bench/common/bench_machine.h"
#include "bench/common/page.h"
#include "bench/report/run_result.h"
#include "diagnose/words.h"

#define SOURCES_SHOWN 16 /* of a mix */
#define LEFT          26
#define RIGHT         30

static void in_share(double part, double whole, char out[WORDS_NUMBER]) {
    words_percent(whole > 0 ? part / whole : NAN, out);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef void (*cell)(const run_result *result, int arm, char out[RIGHT * 2]);

static void cell_rate(const run_result *r, int i, char *out) {
    words_count(arm_rate(&r->arms[i]), out);
}
static void cell_bytes(const run_result *r, int i, char *out) {
    words_byte_rate((double)r->arms[i].bytes / r->arms[i].seconds, out);
}
static void cell_next(const run_result *r, int i, char *out) {
    char a[WORDS_NUMBER], b[WORDS_NUMBER], c[WORDS_NUMBER];
    const histogram *h = &r->arms[i].next_ns;
    snprintf(out, 2 * RIGHT, "%.12s / %.12s / %.12s",
             words_time((double)histogram_quantile(h, 0.5), a),
             words_time((double)histogram_quantile(h, 0.99), b), words_time((double)h->max, c));
}
static void cell_wait(const run_result *r, int i, char *out) {
    in_share((double)r->arms[i].wait_ns * 1e-9, r->arms[i].seconds, out);
}
static void cell_cpu(const run_result *r, int i, char *out) {
    words_time((double)r->arms[i].cpu_ns / (double)r->arms[i].samples, out);
}
static void cell_ordered(const run_result *r, int i, char *out) {
    in_share(arm_rate(&r->arms[i]), r->limits.ordered_samples_per_s, out);
}
static void cell_convert(const run_result *r, int i, char *out) {
    in_share(arm_rate(&r->arms[i]), r->limits.convert_samples_per_s, out);
}
static void cell_decode(const run_result *r, int i, char *out) {
    in_share(arm_rate(&r->arms[i]), r->limits.decode_samples_per_s, out);
}
static void cell_decode_share(const run_result *r, int i, char *out) {
    in_share(arm_decode_share(&r->arms[i], &r->limits), 1, out);
}
static void cell_open(const run_result *r, int i, char *out) {
    const bench_arm *arm = &r->arms[i];
    char a[WORDS_NUMBER], b[WORDS_NUMBER];
    snprintf(out, 2 * RIGHT, "%s / %s", words_time(arm->open_s * 1e9, a),
             words_time(arm->first_batch_s * 1e9, b));
}
static void cell_load(const run_result *r, int i, char *out) {
    words_time(r->arms[i].dataset == NULL ? r->load_s * 1e9 : NAN, out);
}
static void cell_restore(const run_result *r, int i, char *out) {
    words_time(r->arms[i].restore_ms * 1e6, out);
}
static void cell_paths(const run_result *r, int i, char *out) {
    static const char *const names[ITER_PATH_COUNT] = {"ring", "pread", "memory", "remote"};
    size_t n = 0;
    strcpy(out, "none");
    for (int p = 0; p < ITER_PATH_COUNT; p++) {
        char a[WORDS_NUMBER];
        if (r->stats[i].path_bytes[p] > 0 && n < RIGHT)
            n += (size_t)snprintf(out + n, 2 * RIGHT - n, "%s%s %.12s", n > 0 ? ", " : "", names[p],
                                  words_bytes((double)r->stats[i].path_bytes[p], a));
    }
}
static void cell_workers(const run_result *r, int i, char *out) {
    snprintf(out, 2 * RIGHT, "%d / %s / %u", r->stats[i].n_workers,
             bench_source_text(r->stats[i].source), arm_n_slots(&r->arms[i]));
}

static void cell_device(const run_result *r, int i, char *out) {
    const bench_arm *arm = &r->arms[i];
    char a[WORDS_NUMBER], b[WORDS_NUMBER];
    snprintf(out, 2 * RIGHT, "%s / %s",
             words_byte_rate((double)arm->copied_bytes / arm->seconds, a),
             words_percent((double)arm->arrive_ns * 1e-9 / arm->seconds, b));
}

static const struct {
    const char *name;
    cell value;
} cells[] = {
    {"samples/s", cell_rate},
    {"bytes delivered", cell_bytes},
    {"next p50 / p99 / max", cell_next},
    {"time in next", cell_wait},
    {"CPU a sample", cell_cpu},
    {"of it bare decode", cell_decode_share},
    {"of ordered", cell_ordered},
    {"of decode on one core", cell_decode},
    {"of convert", cell_convert},
    {"workers / source / slots", cell_workers},
    {"bytes read", cell_paths},
    {"to the GPU / waited", cell_device},
    {"load", cell_load},
    {"open / first batch", cell_open},
    {"restore", cell_restore},
};

/* ---- Parts ----------------------------------------------------------------------------------- */

static void head(const page *p, const run_result *result) {
    const bench_options *o = result->options;
    const bench_machine m = bench_machine_here();
    char samples[WORDS_NUMBER] = "unknown";
    if (result->n_samples != ITER_UNKNOWN)
        snprintf(samples, sizeof(samples), "%" PRIu64, result->n_samples);
    page_row(p, LEFT, "iterbench", PAGE_PLAIN, "%s", iter_version());
    page_row(p, LEFT, "data", PAGE_PLAIN, "%s", bench_data_text(o));
    page_row(p, LEFT, "samples", PAGE_PLAIN, "%s, in %d classes", samples, result->n_classes);
    page_row(p, LEFT, "chain", PAGE_PLAIN, "%s", o->chain != NULL ? o->chain : "none");
    page_row(p, LEFT, "order", PAGE_PLAIN,
             "batch %" PRIu64 ", shuffle %s, last batch %s, ranks %" PRIu64 ", seed %" PRIu64,
             o->batch, o->sampler != NULL ? o->sampler : bench_shuffle_text(o->shuffle),
             bench_last_batch_text(o->last_batch), o->ranks, o->seed);
    page_row(p, LEFT, "page cache", PAGE_PLAIN, "%s", bench_cache_text(result->cache.state));
    page_row(p, LEFT, "machine", PAGE_PLAIN, "%s, %d cores, %s, %s", m.cpu, m.cores, m.isa,
             m.kernel);
    if (o->device != 0)
        page_row(p, LEFT, "GPU", PAGE_PLAIN, "%s, finish %s, resident %s", result->stats[0].device,
                 bench_finish_text(o->finish), bench_resident_text(o->resident));
    fputc('\n', p->out);
}

static bool shown(const run_result *result, cell value) {
    const bool photos = isfinite(result->limits.decode_samples_per_s);
    if (value == cell_device) return result->options->device != 0;
    if (value == cell_load) return result->arms[0].dataset == NULL;
    if (value == cell_ordered) return !photos;
    return photos || (value != cell_decode && value != cell_decode_share);
}

static void body(const page *p, const run_result *result) {
    fprintf(p->out, "%-*s", LEFT, "");
    for (int i = 0; i < result->n_arms; i++)
        fprintf(p->out, " %*s", RIGHT, result->arms[i].name);
    fputc('\n', p->out);
    for (size_t k = 0; k < sizeof(cells) / sizeof(cells[0]); k++) {
        if (!shown(result, cells[k].value)) continue;
        fprintf(p->out, "%-*s", LEFT, cells[k].name);
        for (int i = 0; i < result->n_arms; i++) {
            char text[RIGHT * 2];
            cells[k].value(result, i, text);
            fprintf(p->out, " %*s", RIGHT, text);
        }
        fputc('\n', p->out);
    }
    if (result->n_arms < 2) return;
    char phrase[WORDS_PHRASE];
    page_row(p, LEFT, "dataloader / ndarray", PAGE_STRONG, "%s; %u pairs kept, %u dropped",
             words_ratio("ndarray", "dataloader", &result->pairs.ratio, phrase),
             result->pairs.n_pairs, result->pairs.n_dropped);
}

static void row_shuffle(const page *p, const run_result *result) {
    const shuffle_figures *f = &result->figures;
    char runs[64] = "", share[WORDS_NUMBER + 32] = "", number[WORDS_NUMBER];
    if (!result->has_figures) return;
    if (isfinite(f->class_run))
        snprintf(runs, sizeof(runs), ", class runs %.3f (%.3f)", f->class_run, f->class_run_ideal);
    if (f->share < 1)
        snprintf(share, sizeof(share), ", of %s of an epoch", words_percent(f->share, number));
    page_row(p, LEFT, "order (random order)", PAGE_PLAIN,
             "displacement %.4f (%.4f), neighbours %.5f (%.5f)%s%s", f->displacement,
             f->displacement_ideal, f->adjacency, f->adjacency_ideal, runs, share);
}

static void row_link(const page *p, const gpu_link_rates *link) {
    char a[WORDS_NUMBER], b[WORDS_NUMBER], c[WORDS_NUMBER], slots[128] = "";
    if (!isfinite(link->plain_bytes_per_s)) {
        page_row(p, LEFT, "link to the GPU", PAGE_PLAIN, "nothing of a batch travels");
        return;
    }
    if (isfinite(link->slots_bytes_per_s))
        snprintf(slots, sizeof(slots), ", from the slots %s (%s)",
                 words_byte_rate(link->slots_bytes_per_s, a),
                 words_percent(link->slots_by_plain.median, b));
    page_row(p, LEFT, "link to the GPU", PAGE_PLAIN, "plain copies of a batch's %s: %s%s",
             words_bytes(link->batch_bytes, b), words_byte_rate(link->plain_bytes_per_s, c), slots);
}

/* Explains why the array's rows take longer than a few rows that stay in the cache. */
static void row_memory(const page *p, const yardstick_rates *l) {
    char share[WORDS_NUMBER], array[WORDS_NUMBER], row[WORDS_NUMBER], time[WORDS_NUMBER];
    if (!(l->ordered_samples_per_s < 0.7 * l->convert_samples_per_s)) return;
    const double row_ns = 1e9 / l->ordered_samples_per_s - 1e9 / l->convert_samples_per_s;
    words_percent(l->ordered_samples_per_s / l->convert_samples_per_s, share);
    words_bytes(l->array_bytes, array);
    words_bytes(l->in_bytes, row);
    words_time(row_ns, time);
    if (l->array_bytes > l->cache_bytes)
        page_row(p, LEFT, "ordered by convert", PAGE_PLAIN,
                 "%s: the array (%s) does not fit the cache, and a row of %s takes %s more from "
                 "memory",
                 share, array, row, time);
    else
        page_row(p, LEFT, "ordered by convert", PAGE_PLAIN,
                 "%s: the array (%s) fits only the last-level cache, and a row of %s takes %s more "
                 "from it",
                 share, array, row, time);
}

void run_limits_table(const yardstick_rates *l, const gpu_link_rates *link, const char *why,
                      FILE *out) {
    const page p = page_of(out);
    char a[WORDS_NUMBER], b[WORDS_NUMBER], c[WORDS_NUMBER];
    if (link != NULL) row_link(&p, link);
    if (isfinite(l->decode_samples_per_s))
        page_row(&p, LEFT, "limits of this machine", PAGE_PLAIN,
                 "%s alone %s samples/s, convert %s, on one core", l->decode_codecs,
                 words_count(l->decode_samples_per_s, a), words_count(l->convert_samples_per_s, b));
    else if (why[0] != '\0')
        page_row(&p, LEFT, "limits of this machine", PAGE_PLAIN, "no plain loop does this work: %s",
                 why);
    else
        page_row(&p, LEFT, "limits of this machine", PAGE_PLAIN, "ordered %s, convert %s samples/s",
                 words_count(l->ordered_samples_per_s, a),
                 words_count(l->convert_samples_per_s, b));
    if (l->in_bytes > 0) words_count(2 * l->copy_bytes_per_s / (l->in_bytes + l->out_bytes), c);
    page_row(&p, LEFT, "copy, read", PAGE_PLAIN, "%s, %s%s%s%s",
             words_byte_rate(l->copy_bytes_per_s, a), words_byte_rate(l->read_bytes_per_s, b),
             l->in_bytes > 0 ? "; a copy would make " : "", l->in_bytes > 0 ? c : "",
             l->in_bytes > 0 ? " samples/s" : "");
    row_memory(&p, l);
}

static void notes(const page *p, const run_result *result) {
    const iter_loader_stats *stats = &result->stats[result->n_arms - 1];
    char a[WORDS_NUMBER];
    page_row(p, LEFT, "peak memory", PAGE_PLAIN, "%s",
             words_bytes((double)result->peak_rss_bytes, a));
    if (result->n_failures > 0)
        page_row(p, LEFT, "failed samples", PAGE_BAD, "%" PRIu64 ", first: %.300s",
                 stats->n_failures, result->failures[0].message);
    else
        page_row(p, LEFT, "failed samples", PAGE_PLAIN, "%" PRIu64, stats->n_failures);
    uint64_t drawn = 0;
    for (int32_t i = 0; i < result->n_sources; i++)
        drawn += result->sources[i].samples;
    for (int32_t i = 0; i < result->n_sources && i < SOURCES_SHOWN; i++) {
        const iter_part_stats *source = &result->sources[i];
        page_row(p, LEFT, i == 0 ? "sources" : "", PAGE_PLAIN,
                 "%.60s: %.2f %% of the samples, %.2f passes", source->name,
                 drawn > 0 ? 100.0 * (double)source->samples / (double)drawn : 0.0,
                 (double)source->samples / (double)source->n_samples);
    }
    if (result->n_sources > SOURCES_SHOWN)
        page_row(p, LEFT, "", PAGE_PLAIN, "%d more; --json has all",
                 result->n_sources - SOURCES_SHOWN);
    for (size_t i = 0; i < result->n_reasons; i++)
        page_row(p, LEFT, "", PAGE_PLAIN, "%zu %s", result->reasons[i].count,
                 result->reasons[i].text);
    if (result->n_failures > 0 && result->n_failures < stats->n_failures)
        page_row(p, LEFT, "", PAGE_PLAIN, "the first %zu are counted by reason",
                 result->n_failures);
    if (stats->n_warnings > 0)
        page_row(p, LEFT, "decoder warned", PAGE_WARN,
                 "%" PRIu64 ", first: %.300s. With on-warning=reject such samples fail, and "
                 "--failures lists them.",
                 stats->n_warnings, stats->warning_text);
    for (int i = 0; i < result->n_arms; i++)
        for (int32_t k = 0; k < result->stats[i].n_fallbacks && k < ITER_STATS_FALLBACKS; k++)
            page_row(p, LEFT, "fallback", PAGE_WARN, "%s", result->stats[i].fallbacks[k]);
    if (result->options->hash)
        page_row(p, LEFT, "hash", PAGE_PLAIN, "%016" PRIx64 "; rates include the hashing",
                 result->hashes[result->n_arms - 1].sum);
    if (result->interrupted)
        page_row(p, LEFT, "stopped", PAGE_WARN, "by a signal, after %s of measuring",
                 words_time(result->arms[result->n_arms - 1].seconds * 1e9, a));
}

void run_result_table(const run_result *result, FILE *out) {
    const page p = page_of(out);
    head(&p, result);
    body(&p, result);
    fputc('\n', out);
    if (result->has_limits)
        run_limits_table(&result->limits, result->options->device != 0 ? &result->link : NULL,
                         result->limits_why, out);
    row_shuffle(&p, result);
    notes(&p, result);
}
