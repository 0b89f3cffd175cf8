/*
 * diagnosis_json.c - the figures of a diagnosis, and all of it as JSON. docs/json.md has every key.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_json.h"
#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/verdict/diagnosis.h"
#include "diagnose/evidence_json.h"
#include "diagnose/words.h"

const char *diagnosis_arm_name(const diagnosis *d, int arm) {
    static const char *const names[] = {"read", "decode", "loader", "consumer", "both", "resident"};
    return arm == EVIDENCE_CONSUMER && d->e.trains ? "trainer" : names[arm];
}

/* t_both / t_consumer - 1: the inverse ratio, so the interval's ends change places. */
measure_interval diagnosis_cost(const diagnosis *d) {
    const measure_interval *fed = &d->e.both_by_consumer;
    return (measure_interval){1 / fed->median - 1, 1 / fed->high - 1, 1 / fed->low - 1, fed->n};
}

/* Share of the run in which the accelerator computes: its time for a sample that is ready, over the
 * time that a sample takes in the run. */
double diagnosis_utilisation(const diagnosis *d) {
    const measure_interval *r =
        d->e.has[EVIDENCE_RESIDENT] ? &d->e.both_by_resident : &d->e.both_by_consumer;
    return d->e.consumes ? fmin(r->median, 1) : NAN;
}

double diagnosis_loader_cpu_share(const diagnosis *d) {
    const double loader = d->e.cpu[EVIDENCE_LOADER], consumer = d->e.cpu[EVIDENCE_CONSUMER];
    return loader / (loader + (isfinite(consumer) ? consumer : 0));
}

double diagnosis_copied_bytes_per_s(const bench_arm *arm) {
    return arm->seconds > 0 ? (double)arm->copied_bytes / arm->seconds : NAN;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Writes one word, quoted if a shell would not read it as it is. */
static void write_word(FILE *out, const char *word) {
    if (word[0] != '\0' && word[strcspn(word, " |&;<>()$`\\\"'*?[]#~%!{}\n\t")] == '\0') {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            fputc(*word, out);
    fputc('\'', out);
}

/* Writes this process's arguments as a line that a shell can read back, but for secrets. */
static void command_json(json_writer *w, const bench_options *options) {
    char *raw = NULL, *text = NULL;
    size_t capacity = 0, bytes;
    FILE *file = fopen("/proc/self/cmdline", "re");
    FILE *out = open_memstream(&text, &bytes);
    /* Each argument ends with a zero byte. */
    for (bool first = true;
         file != NULL && out != NULL && getdelim(&raw, &capacity, '\0', file) > 0; first = false) {
        if (!first) fputc(' ', out);
        const size_t n = strncmp(raw, "--data=", 7) == 0 ? 7 : 0;
        const bool is_data = options->data != NULL && strcmp(raw + n, options->data) == 0;
        if (is_data) fwrite(raw, 1, n, out);
        write_word(out, is_data ? bench_data_text(options) : raw);
    }
    if (file != NULL) fclose(file);
    free(raw);
    if (out == NULL || fclose(out) != 0)
        json_null(w, "command");
    else
        json_text(w, "command", text);
    free(text);
}

static void config_json(json_writer *w, const diagnosis *d) {
    static const char *const wants[] = {NULL, "nchw", "nhwc"};
    const bool on_gpu = d->run.device != 0, trains = on_gpu && d->e.trains;
    char device[16];
    json_begin(w, "config", '{');
    json_text(w, "loader", d->ndarray ? "ndarray" : "dataloader");
    json_text(w, "data", bench_data_text(&d->asked));
    json_count(w, "n_samples", iter_loader_n_samples(d->arms[d->watched].loaders[0]));
    json_text(w, "chain", d->run.chain);
    json_count(w, "batch", d->run.batch);
    json_integer(w, "workers", d->e.workers);
    json_count(w, "prefetch", d->e.prefetch);
    json_text(w, "source", bench_source_text(d->stats.source));
    json_text(w, "shuffle", bench_shuffle_text(d->run.shuffle));
    json_count(w, "seed", d->run.seed);
    json_number(w, "compute_ms", d->run.compute_ms > 0 ? d->run.compute_ms : NAN);
    json_text(w, "wants", wants[d->run.wants]);
    json_text(w, "plant", d->asked.plant);
    json_text(w, "device", bench_device_text(d->run.device, device));
    json_text(w, "finish", on_gpu ? bench_finish_text(d->run.finish) : NULL);
    json_text(w, "resident", on_gpu ? bench_resident_text(d->run.resident) : NULL);
    json_text(w, "precision", trains ? bench_precision_text(d->run.precision) : NULL);
    json_text(w, "algorithms", trains ? bench_algorithms_text(d->run.algorithms) : NULL);
    json_end(w);
    json_text(w, "cache", bench_cache_text(d->cache.state));
}

static void model_json(json_writer *w, const diagnosis *d) {
    const feed_turning turning = feed_turns(&d->feed);
    if (!d->e.trains) {
        json_null(w, "model");
        json_null(w, "threads");
        return;
    }
    json_begin(w, "model", '{');
    feed_model_json(w, &d->feed);
    json_text(w, "layout", turning.wants);
    json_count(w, "converted_batches", turning.n_batches);
    json_number(w, "convert_s", turning.seconds);
    json_end(w);
    json_count(w, "threads", d->e.threads);
}

static void arms_json(json_writer *w, const diagnosis *d) {
    json_begin(w, "arms", '[');
    for (int i = 0; i < EVIDENCE_ARMS; i++) {
        const bench_arm *arm = &d->arms[i];
        if (!d->e.has[i]) continue;
        json_begin(w, NULL, '{');
        json_text(w, "name", diagnosis_arm_name(d, i));
        json_interval(w, "samples_per_s", d->e.rate[i].median, d->e.rate[i].low, d->e.rate[i].high);
        json_number(w, "cpu_ns_per_sample", d->e.cpu[i] * 1e9);
        json_number(w, "wait_share",
                    i == EVIDENCE_BOTH ? (double)arm->wait_ns * 1e-9 / arm->seconds : NAN);
        const bool loads = i != EVIDENCE_CONSUMER && i != EVIDENCE_RESIDENT;
        json_number(w, "copied_bytes_per_s",
                    loads && arm->copied_bytes > 0 ? diagnosis_copied_bytes_per_s(arm) : NAN);
        if (!loads) {
            json_null(w, "next_ns");
        } else {
            json_begin(w, "next_ns", '{');
            json_count(w, "p50", histogram_quantile(&arm->next_ns, 0.5));
            json_count(w, "p99", histogram_quantile(&arm->next_ns, 0.99));
            json_count(w, "max", arm->next_ns.max);
            json_end(w);
        }
        json_end(w);
    }
    json_end(w);
}

static void bounds_json(json_writer *w, const diagnosis *d) {
    const verdict_bounds b = verdict_bound(&d->e);
    const struct {
        const char *term;
        double rate;
    } terms[] = {{"loader", b.loader},
                 {d->e.trains ? "trainer" : "consumer", b.consumer},
                 {"cpu", b.cpu},
                 {"copy", b.copy},
                 {"model", b.model}};
    json_begin(w, "bounds", '[');
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        if (strcmp(terms[i].term, "copy") == 0 && !d->e.to_device) continue;
        json_begin(w, NULL, '{');
        json_text(w, "term", terms[i].term);
        json_number(w, "samples_per_s", terms[i].rate);
        json_end(w);
    }
    json_end(w);
}

static void remote_json(json_writer *w, const evidence_remote *r) {
    if (r->answers == 0) {
        json_null(w, "remote");
        return;
    }
    json_begin(w, "remote", '{');
    json_number(w, "answers", r->answers);
    json_number(w, "throttled_share", r->throttled);
    json_number(w, "again_share", r->again);
    json_number(w, "answer_bytes", r->bytes);
    json_number(w, "first_byte_s", r->first_s);
    json_number(w, "whole_s", r->whole_s);
    json_number(w, "cpu_s", r->cpu_s);
    json_number(w, "in_flight", r->in_flight);
    json_integer(w, "connections", r->connections);
    json_end(w);
}

static void device_json(json_writer *w, const diagnosis *d) {
    const gpu_link_rates *link = &d->link;
    if (!d->e.to_device) {
        json_null(w, "device");
        return;
    }
    json_begin(w, "device", '{');
    json_text(w, "name", d->stats.device);
    json_count(w, "pinned_bytes", d->stats.pinned_bytes);
    json_count(w, "bytes", d->stats.device_bytes);
    json_number(w, "copied_bytes_per_sample", d->e.copy_bytes);
    json_number(w, "delivered_bytes_per_sample", d->e.row_bytes);
    json_number(w, "plain_bytes_per_s", link->plain_bytes_per_s);
    json_number(w, "slots_bytes_per_s", link->slots_bytes_per_s);
    json_interval(w, "slots_by_plain", link->slots_by_plain.median, link->slots_by_plain.low,
                  link->slots_by_plain.high);
    if (d->e.has[EVIDENCE_RESIDENT])
        json_interval(w, "both_by_resident", d->e.both_by_resident.median,
                      d->e.both_by_resident.low, d->e.both_by_resident.high);
    else
        json_null(w, "both_by_resident");
    json_end(w);
}

/* Counts by powers of two, up to the largest that occurs. */
static void histogram_json(json_writer *w, const histogram *h) {
    uint64_t counts[64] = {0};
    int last = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        const int power =
            i < HISTOGRAM_SUB ? (i < 2 ? 0 : 31 - __builtin_clz(i)) : (int)(i / HISTOGRAM_SUB) + 5;
        counts[power] += h->counts[i];
        if (h->counts[i] > 0) last = power;
    }
    json_begin(w, "next_histogram", '{');
    json_begin(w, "lower_ns", '[');
    for (int i = 0; i <= last; i++)
        json_count(w, NULL, i == 0 ? 0 : (uint64_t)1 << i);
    json_end(w);
    json_begin(w, "counts", '[');
    for (int i = 0; i <= last; i++)
        json_count(w, NULL, counts[i]);
    json_end(w);
    json_end(w);
}

static void changes_json(json_writer *w, const diagnosis *d) {
    json_begin(w, "changes", '[');
    for (int i = 0; i < d->v.n_changes; i++) {
        const verdict_change *c = &d->v.changes[i];
        const evidence_change *change = &d->e.changes[c->of];
        const bool proved = i == 0 && d->has_proof;
        json_begin(w, NULL, '{');
        json_text(w, "option", change->option);
        json_text(w, "from", change->from);
        json_text(w, "to", change->to);
        json_bool(w, "experiment", change->experiment);
        json_number(w, "gain", c->gain);
        json_number(w, "expected_samples_per_s", c->expected);
        json_number(w, "loader_ratio", change->loader_ratio);
        json_number(w, "consumer_ratio", change->consumer_ratio);
        json_number(w, "proved", proved ? d->proved.median - 1 : NAN);
        json_number(w, "proved_low", proved ? d->proved.low - 1 : NAN);
        json_number(w, "proved_high", proved ? d->proved.high - 1 : NAN);
        if (proved && isfinite(d->proved.low))
            json_bool(w, "proved_within_noise", words_side_of(&d->proved, 1) == WORDS_UNCLEAR);
        else
            json_null(w, "proved_within_noise");
        json_text(w, "next_limit", verdict_limit_text(c->next));
        json_text(w, "text", c->text);
        json_end(w);
    }
    json_end(w);
}

static void verdict_json(json_writer *w, const diagnosis *d) {
    json_begin(w, "verdict", '{');
    json_text(w, "limit", verdict_limit_text(d->v.limit));
    json_text(w, "stage", d->v.stage[0] != '\0' ? d->v.stage : NULL);
    json_number(w, "share", d->v.share);
    json_text(w, "confidence", d->v.high ? "high" : "low");
    json_text(w, "text", d->v.text);
    json_text(w, "next_limit",
              d->v.n_changes > 0 ? verdict_limit_text(d->v.changes[0].next) : NULL);
    changes_json(w, d);
    json_end(w);
}

void diagnosis_json(const diagnosis *d, FILE *out) {
    json_writer writer = {.out = out}, *w = &writer;
    const measure_interval cost = diagnosis_cost(d);
    json_begin(w, NULL, '{');
    bench_machine_json(w);
    command_json(w, &d->asked);
    json_bool(w, "interrupted", d->interrupted);
    config_json(w, d);
    model_json(w, d);
    arms_json(w, d);
    json_count(w, "rounds", d->rounds.n_rounds);
    json_count(w, "dropped", d->rounds.n_dropped);
    json_bool(w, "steady", d->e.steady);
    if (d->e.consumes)
        json_interval(w, "cost_of_feeding", cost.median, cost.low, cost.high);
    else
        json_null(w, "cost_of_feeding");
    json_number(w, "utilisation", diagnosis_utilisation(d));
    remote_json(w, &d->e.remote);
    device_json(w, d);
    json_number(w, "wait_share", d->e.consumes ? d->e.wait_share : NAN);
    json_number(w, "loader_cpu_share", d->e.consumes ? diagnosis_loader_cpu_share(d) : NAN);
    evidence_attribution_json(w, &d->e);
    bounds_json(w, d);
    histogram_json(w, &d->arms[d->watched].next_ns);
    json_number(w, "convert_us_per_batch", d->e.convert_s * 1e6);
    json_text(w, "convert", d->e.convert_text[0] != '\0' ? d->e.convert_text : NULL);
    timeline_write_json(w, &d->lives);
    verdict_json(w, d);
    json_end(w);
}
