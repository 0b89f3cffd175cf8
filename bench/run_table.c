/*
 * run_table.c - a run as a table that fits one screen.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <iter/version.h>

#include "bench_machine.h"
#include "bench_util.h"
#include "run_result.h"

#define LEFT  24
#define RIGHT 26

/* ---- Numbers --------------------------------------------------------------------------------- */

/* 1234567.8 as 1,234,568. */
static const char *grouped(double number, char out[32]) {
    char digits[32];
    if (!isfinite(number)) return strcpy(out, "-");
    int n = snprintf(digits, sizeof(digits), "%.0f", number), to = 0;
    for (int i = 0; i < n && to < 30; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-') out[to++] = ',';
        out[to++] = digits[i];
    }
    out[to] = '\0';
    return out;
}

static const char *in_bytes(double bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 10240 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, 32, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
    return out;
}

static const char *in_time(double ns, char out[32]) {
    if (ns < 1e4)
        snprintf(out, 32, "%.0f ns", ns);
    else if (ns < 1e7)
        snprintf(out, 32, "%.0f us", ns / 1e3);
    else
        snprintf(out, 32, "%.0f ms", ns / 1e6);
    return out;
}

static void in_share(double part, double whole, char out[32]) {
    if (isfinite(part) && isfinite(whole) && whole > 0)
        snprintf(out, 32, "%.1f %%", 100 * part / whole);
    else
        strcpy(out, "-");
}

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef void (*cell)(const run_result *result, int arm, char out[RIGHT * 2]);

static void cell_rate(const run_result *r, int i, char *out) {
    char a[32];
    snprintf(out, 2 * RIGHT, "%s", grouped(arm_rate(&r->arms[i]), a));
}
static void cell_bytes(const run_result *r, int i, char *out) {
    char a[32];
    snprintf(out, 2 * RIGHT, "%s", grouped((double)r->arms[i].bytes / r->arms[i].seconds / 1e6, a));
}
static void cell_next(const run_result *r, int i, char *out) {
    char a[32], b[32], c[32];
    const histogram *h = &r->arms[i].next_ns;
    snprintf(out, 2 * RIGHT, "%.12s / %.12s / %.12s",
             in_time((double)histogram_quantile(h, 0.5), a),
             in_time((double)histogram_quantile(h, 0.99), b), in_time((double)h->max, c));
}
static void cell_wait(const run_result *r, int i, char *out) {
    in_share((double)r->arms[i].wait_ns * 1e-9, r->arms[i].seconds, out);
}
static void cell_cpu(const run_result *r, int i, char *out) {
    char a[32];
    snprintf(out, 2 * RIGHT, "%s",
             grouped((double)r->arms[i].cpu_ns / (double)r->arms[i].samples, a));
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
    int n = 0;
    if (arm->dataset == NULL) n = snprintf(out, 2 * RIGHT, "%.2f s + ", r->load_s);
    snprintf(out + n, (size_t)(2 * RIGHT - n), "%.3f s / %.3f s", arm->open_s, arm->first_batch_s);
}
static void cell_restore(const run_result *r, int i, char *out) {
    if (isfinite(r->arms[i].restore_ms))
        snprintf(out, 2 * RIGHT, "%.3f ms", r->arms[i].restore_ms);
    else
        strcpy(out, "-");
}
static void cell_paths(const run_result *r, int i, char *out) {
    static const char *const names[ITER_PATH_COUNT] = {"ring", "pread", "memory"};
    size_t n = 0;
    strcpy(out, "none");
    for (int p = 0; p < ITER_PATH_COUNT; p++) {
        char a[32];
        if (r->stats[i].path_bytes[p] > 0 && n < RIGHT)
            n += (size_t)snprintf(out + n, 2 * RIGHT - n, "%s%s %.12s", n > 0 ? ", " : "", names[p],
                                  in_bytes((double)r->stats[i].path_bytes[p], a));
    }
}
static void cell_workers(const run_result *r, int i, char *out) {
    snprintf(out, 2 * RIGHT, "%d / %s / %u", r->stats[i].n_workers,
             bench_source_text(r->stats[i].source), arm_n_slots(&r->arms[i]));
}

static void cell_device(const run_result *r, int i, char *out) {
    const bench_arm *arm = &r->arms[i];
    if (r->options->device != 0)
        snprintf(out, 2 * RIGHT, "%.2f GB/s / %.1f %%",
                 (double)arm->copied_bytes / arm->seconds * 1e-9,
                 100 * (double)arm->arrive_ns * 1e-9 / arm->seconds);
    else
        strcpy(out, "-");
}

static const struct {
    const char *name;
    cell value;
} cells[] = {
    {"samples/s", cell_rate},
    {"MB/s delivered", cell_bytes},
    {"next p50 / p99 / max", cell_next},
    {"of the time in next", cell_wait},
    {"CPU ns a sample", cell_cpu},
    {"of it bare decode", cell_decode_share},
    {"of ordered", cell_ordered},
    {"of decode on one core", cell_decode},
    {"of convert", cell_convert},
    {"workers / source / slots", cell_workers},
    {"bytes read", cell_paths},
    {"to the GPU / waited", cell_device},
    {"open / first batch", cell_open},
    {"restore", cell_restore},
};

/* ---- Parts ----------------------------------------------------------------------------------- */

static void head(const run_result *result, FILE *out) {
    const bench_options *o = result->options;
    bench_machine m = bench_machine_here();
    char a[32];
    fprintf(out, "iterbench %s   %.100s\n", iter_version(), BENCH_SHOWN(o->data));
    fprintf(out, "  chain %.92s\n", o->chain != NULL ? o->chain : "none");
    fprintf(out, "  %s samples, %d classes",
            result->n_samples == ITER_UNKNOWN ? "unknown" : grouped((double)result->n_samples, a),
            result->n_classes);
    fprintf(out,
            "  batch %" PRIu64 "  shuffle %s  last batch %s  ranks %" PRIu64 "  seed %" PRIu64
            "  cache %s\n",
            o->batch, o->sampler != NULL ? o->sampler : bench_shuffle_text(o->shuffle),
            bench_last_batch_text(o->last_batch), o->ranks, o->seed,
            bench_cache_text(result->cache.state));
    fprintf(out, "  %s, %d cores, %s, %s\n", m.cpu, m.cores, m.isa, m.kernel);
    if (o->device != 0)
        fprintf(out, "  %s, finish %s, resident %s\n", result->stats[0].device,
                bench_finish_text(o->finish), bench_resident_text(o->resident));
    fputc('\n', out);
}

static void body(const run_result *result, FILE *out) {
    const bool photos = isfinite(result->limits.decode_samples_per_s);
    fprintf(out, "%-*s", LEFT, "");
    for (int i = 0; i < result->n_arms; i++)
        fprintf(out, " %*s", RIGHT, result->arms[i].name);
    fputc('\n', out);
    for (size_t k = 0; k < sizeof(cells) / sizeof(cells[0]); k++) {
        if (cells[k].value == cell_device && result->options->device == 0) continue;
        if (photos ? cells[k].value == cell_ordered
                   : cells[k].value == cell_decode || cells[k].value == cell_decode_share)
            continue;
        fprintf(out, "%-*s", LEFT, cells[k].name);
        for (int i = 0; i < result->n_arms; i++) {
            char text[RIGHT * 2];
            cells[k].value(result, i, text);
            fprintf(out, " %*s", RIGHT, text);
        }
        fputc('\n', out);
    }
    if (result->n_arms == 2) {
        const measure_interval *ratio = &result->pairs.ratio;
        fprintf(out, "%-*s %.3f", LEFT, "dataloader / ndarray", ratio->median);
        if (isfinite(ratio->low)) fprintf(out, "  [%.3f, %.3f] 95 %%", ratio->low, ratio->high);
        fprintf(out, ", %u pairs kept, %u dropped\n", result->pairs.n_pairs,
                result->pairs.n_dropped);
    }
}

static void shuffle_line(const run_result *result, FILE *out) {
    const shuffle_figures *f = &result->figures;
    if (!result->has_figures) return;
    fprintf(out, "%-*s displacement %.4f (%.4f)  neighbours %.5f (%.5f)", LEFT,
            "order (random order)", f->displacement, f->displacement_ideal, f->adjacency,
            f->adjacency_ideal);
    if (isfinite(f->class_run))
        fprintf(out, "  class runs %.3f (%.3f)", f->class_run, f->class_run_ideal);
    if (f->share < 1) fprintf(out, "  of %.0f %% of an epoch", 100 * f->share);
    fputc('\n', out);
}

static void link_line(const gpu_link_rates *link, FILE *out) {
    char a[32];
    if (!isfinite(link->plain_bytes_per_s)) {
        fprintf(out, "%-*s nothing of a batch travels\n", LEFT, "link to the GPU");
        return;
    }
    fprintf(out, "%-*s plain copies of a batch's %s at %.2f GB/s", LEFT, "link to the GPU",
            in_bytes(link->batch_bytes, a), link->plain_bytes_per_s * 1e-9);
    if (isfinite(link->slots_bytes_per_s))
        fprintf(out, ", from the slots at %.2f (%.1f %%)", link->slots_bytes_per_s * 1e-9,
                100 * link->slots_by_plain.median);
    fputc('\n', out);
}

void run_limits_table(const yardstick_rates *l, const gpu_link_rates *link, const char *why,
                      FILE *out) {
    if (link != NULL) link_line(link, out);
    char a[32], b[32], c[32];
    double copies = 2 * l->copy_bytes_per_s / (l->in_bytes + l->out_bytes);
    if (isfinite(l->decode_samples_per_s))
        fprintf(out, "%-*s %s alone %s, convert %s samples/s, on one core\n", LEFT,
                "limits of this machine", l->decode_codecs, grouped(l->decode_samples_per_s, a),
                grouped(l->convert_samples_per_s, b));
    else
        fprintf(out, "%-*s ordered %s, convert %s samples/s\n", LEFT, "limits of this machine",
                grouped(l->ordered_samples_per_s, a), grouped(l->convert_samples_per_s, b));
    fprintf(out, "%-*s copy %s MB/s, read %s MB/s", LEFT, "", grouped(l->copy_bytes_per_s / 1e6, a),
            grouped(l->read_bytes_per_s / 1e6, b));
    if (l->in_bytes > 0) fprintf(out, "; all through memory: %s samples/s", grouped(copies, c));
    fputc('\n', out);
    if (why[0] != '\0') fprintf(out, "%-*s no ordered and convert: %s\n", LEFT, "", why);
    if (!(l->ordered_samples_per_s < 0.7 * l->convert_samples_per_s)) return;
    double row_ns = 1e9 / l->ordered_samples_per_s - 1e9 / l->convert_samples_per_s;
    fprintf(out, "%-*s ordered is %.0f %% of convert: ", LEFT, "",
            100 * l->ordered_samples_per_s / l->convert_samples_per_s);
    if (l->array_bytes > l->cache_bytes)
        fprintf(out,
                "the array (%s) is beyond the cache (%s), and a row's %.0f bytes\n%-*s take "
                "%.0f ns more from memory (%.1f GB/s; a copy reads %.1f)\n",
                in_bytes(l->array_bytes, a), in_bytes(l->cache_bytes, b), l->in_bytes, LEFT, "",
                row_ns, l->in_bytes / row_ns, l->copy_bytes_per_s / 1e9);
    else
        fprintf(out,
                "the array (%s) fits the last-level cache, which is slower than\n%-*s the core's "
                "own: %.0f ns more for a row of %.0f bytes\n",
                in_bytes(l->array_bytes, a), LEFT, "", row_ns, l->in_bytes);
}

static void notes(const run_result *result, FILE *out) {
    const iter_loader_stats *stats = &result->stats[result->n_arms - 1];
    char a[32];
    fprintf(out, "%-*s %s\n", LEFT, "peak memory", in_bytes((double)result->peak_rss_bytes, a));
    fprintf(out, "%-*s %" PRIu64, LEFT, "failed samples", stats->n_failures);
    if (result->n_failures > 0) fprintf(out, ", first: %.200s", result->failures[0].message);
    fputc('\n', out);
    for (size_t i = 0; i < result->n_reasons; i++)
        fprintf(out, "%*zu %s\n", LEFT + 4, result->reasons[i].count, result->reasons[i].text);
    if (result->n_failures > 0 && result->n_failures < stats->n_failures)
        fprintf(out, "%-*s the first %zu are counted by reason\n", LEFT, "", result->n_failures);
    if (stats->n_warnings > 0)
        fprintf(out,
                "%-*s %" PRIu64 ", first: %.200s\n%-*s on-warning=reject makes failed samples of "
                "them, which --failures lists\n",
                LEFT, "decoder warned", stats->n_warnings, stats->warning_text, LEFT, "");
    for (int i = 0; i < result->n_arms; i++)
        for (int32_t k = 0; k < result->stats[i].n_fallbacks && k < ITER_STATS_FALLBACKS; k++)
            fprintf(out, "%-*s %s\n", LEFT, "fallback", result->stats[i].fallbacks[k]);
    if (result->options->hash)
        fprintf(out, "%-*s %016" PRIx64 "   (rates include the hashing)\n", LEFT, "hash",
                result->hashes[result->n_arms - 1].sum);
    if (result->interrupted)
        fprintf(out, "%-*s after %.2f s of measuring\n", LEFT, "interrupted",
                result->arms[result->n_arms - 1].seconds);
}

void run_result_table(const run_result *result, FILE *out) {
    head(result, out);
    body(result, out);
    if (!result->interrupted)
        run_limits_table(&result->limits, result->options->device != 0 ? &result->link : NULL,
                         result->limits_why, out);
    shuffle_line(result, out);
    notes(result, out);
}
