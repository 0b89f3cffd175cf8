/*
 * run_json.c - a run as JSON. docs/json.md has every key; a test compares the two.
 */
#include <inttypes.h>
#include <math.h>

#include "bench/common/bench_machine.h"
#include "bench/report/run_result.h"

double arm_rate(const bench_arm *arm) {
    return arm->seconds > 0 ? (double)arm->samples / arm->seconds : NAN;
}

double arm_decode_share(const bench_arm *arm, const yardstick_rates *limits) {
    if (arm->samples == 0 || arm->cpu_ns == 0) return NAN;
    return 1e9 / limits->decode_samples_per_s * (double)arm->samples / (double)arm->cpu_ns;
}

static void write_start(json_writer *w, const bench_options *o) {
    char text[48];
    snprintf(text, sizeof(text), "%" PRIu64 ":%" PRIu64, o->start_epoch, o->start_sample);
    json_text(w, "start", o->has_start ? text : NULL);
}

static void write_config(json_writer *w, const run_result *result) {
    static const char *const loaders[] = {"both", "ndarray", "dataloader"};
    static const char *const caches[] = {"asis", "hot", "cold"};
    const bench_options *o = result->options;
    char device[16];
    json_begin(w, "config", '{');
    json_text(w, "loader", loaders[o->loader]);
    json_text(w, "data", bench_data_text(o));
    json_text(w, "split", result->split);
    if (result->n_samples == ITER_UNKNOWN)
        json_null(w, "n_samples");
    else
        json_count(w, "n_samples", result->n_samples);
    json_integer(w, "n_classes", result->n_classes);
    json_text(w, "chain", o->chain);
    json_count(w, "batch", o->batch);
    json_integer(w, "workers", o->workers);
    json_text(w, "source", bench_source_text(o->source));
    json_text(w, "shuffle", bench_shuffle_text(o->shuffle));
    json_text(w, "sampler", o->sampler);
    json_text(w, "last_batch", bench_last_batch_text(o->last_batch));
    json_count(w, "prefetch", o->prefetch);
    json_count(w, "ranks", o->ranks);
    json_text(w, "consumer", o->consumer == BENCH_CONSUMER_NONE ? "none" : "touch");
    json_text(w, "on_error", bench_on_error_text(o->on_error));
    json_count(w, "max_failures", o->max_failures);
    json_bool(w, "o_direct", o->o_direct);
    write_start(w, o);
    json_text(w, "cache", caches[o->cache]);
    json_count(w, "epochs", o->epochs);
    json_number(w, "seconds", o->seconds > 0 ? o->seconds : NAN);
    json_count(w, "seed", o->seed);
    json_count(w, "memory", o->memory);
    json_count(w, "max_sample_bytes", o->max_sample_bytes);
    json_text(w, "device", bench_device_text(o->device, device));
    json_text(w, "finish", o->device != 0 ? bench_finish_text(o->finish) : NULL);
    json_text(w, "resident", o->device != 0 ? bench_resident_text(o->resident) : NULL);
    json_begin(w, "fields", '[');
    const iter_loader *loader = result->arms[0].loaders[0];
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++) {
        const iter_batch_field *field = iter_loader_field(loader, i);
        char desc[160];
        json_begin(w, NULL, '{');
        json_text(w, "name", field->name);
        json_text(w, "role", field->role == ITER_LABEL ? "label" : "data");
        json_text(w, "desc", iter_desc_text(&field->desc, desc, sizeof(desc)));
        json_end(w);
    }
    json_end(w);
    json_end(w);
}

static void write_paths(json_writer *w, const iter_loader_stats *stats) {
    json_begin(w, "paths", '{');
    json_count(w, "ring", stats->path_bytes[ITER_PATH_RING]);
    json_count(w, "pread", stats->path_bytes[ITER_PATH_PREAD]);
    json_count(w, "memory", stats->path_bytes[ITER_PATH_MEMORY]);
    json_count(w, "remote", stats->path_bytes[ITER_PATH_REMOTE]);
    json_end(w);
}

static void write_setup(json_writer *w, const run_result *result, const bench_arm *arm) {
    json_begin(w, "setup", '{');
    json_number(w, "load_s", arm->dataset == NULL ? result->load_s : NAN);
    json_number(w, "open_s", arm->open_s);
    json_number(w, "first_batch_s", arm->first_batch_s);
    json_number(w, "restore_ms", arm->restore_ms);
    json_end(w);
}

static void write_hash(json_writer *w, const run_result *result, int i) {
    char text[17];
    snprintf(text, sizeof(text), "%016" PRIx64, result->hashes[i].sum);
    json_text(w, "hash", result->options->hash ? text : NULL);
}

static void write_device(json_writer *w, const bench_arm *arm, const iter_loader_stats *stats) {
    if (stats->device[0] == '\0' || arm->options->device == 0) {
        json_null(w, "device");
        return;
    }
    json_begin(w, "device", '{');
    json_text(w, "name", stats->device);
    json_count(w, "copies", arm->copies);
    json_count(w, "copied_bytes", arm->copied_bytes);
    json_number(w, "copied_bytes_per_s",
                arm->seconds > 0 ? (double)arm->copied_bytes / arm->seconds : NAN);
    json_number(w, "arrive_share",
                arm->seconds > 0 ? (double)arm->arrive_ns * 1e-9 / arm->seconds : NAN);
    json_count(w, "pinned_bytes", stats->pinned_bytes);
    json_count(w, "bytes", stats->device_bytes);
    json_end(w);
}

static void write_arm(json_writer *w, const run_result *result, int i) {
    const bench_arm *arm = &result->arms[i];
    const iter_loader_stats *stats = &result->stats[i];
    double seconds = arm->seconds;
    json_begin(w, NULL, '{');
    json_text(w, "name", arm->name);
    json_number(w, "samples_per_s", arm_rate(arm));
    json_number(w, "bytes_per_s", seconds > 0 ? (double)arm->bytes / seconds : NAN);
    json_number(w, "seconds", seconds);
    json_count(w, "samples", arm->samples);
    json_count(w, "batches", arm->batches);
    json_begin(w, "next_ns", '{');
    json_count(w, "p50", histogram_quantile(&arm->next_ns, 0.5));
    json_count(w, "p99", histogram_quantile(&arm->next_ns, 0.99));
    json_count(w, "max", arm->next_ns.max);
    json_end(w);
    json_number(w, "wait_share", seconds > 0 ? (double)arm->wait_ns * 1e-9 / seconds : NAN);
    json_number(w, "cpu_ns_per_sample",
                arm->samples > 0 ? (double)arm->cpu_ns / (double)arm->samples : NAN);
    json_number(w, "decode_share", arm_decode_share(arm, &result->limits));
    json_text(w, "source", bench_source_text(stats->source));
    json_integer(w, "workers", stats->n_workers);
    json_count(w, "slots_seen", arm_n_slots(arm));
    write_paths(w, stats);
    write_device(w, arm, stats);
    write_setup(w, result, arm);
    json_begin(w, "loader_bytes", '{');
    json_count(w, "slots", stats->slot_bytes);
    json_count(w, "arena", stats->arena_bytes);
    json_count(w, "scratch", stats->scratch_bytes);
    json_count(w, "preload", stats->preload_bytes);
    json_end(w);
    write_hash(w, result, i);
    json_end(w);
}

static void write_ratio(json_writer *w, const run_result *result) {
    if (result->n_arms < 2) {
        json_null(w, "ratio");
        return;
    }
    json_begin(w, "ratio", '{');
    json_number(w, "median", result->pairs.ratio.median);
    json_number(w, "low", result->pairs.ratio.low);
    json_number(w, "high", result->pairs.ratio.high);
    json_count(w, "pairs", result->pairs.n_pairs);
    json_count(w, "dropped", result->pairs.n_dropped);
    json_end(w);
}

static void write_failures(json_writer *w, const run_result *result) {
    json_begin(w, "failures", '{');
    json_count(w, "count", result->stats[result->n_arms - 1].n_failures);
    json_begin(w, "reasons", '[');
    for (size_t i = 0; i < result->n_reasons; i++) {
        json_begin(w, NULL, '{');
        json_text(w, "reason", result->reasons[i].text);
        json_count(w, "count", result->reasons[i].count);
        json_end(w);
    }
    json_end(w);
    json_begin(w, "list", '[');
    for (size_t i = 0; i < result->n_failures; i++) {
        const iter_failure *f = &result->failures[i];
        json_begin(w, NULL, '{');
        json_count(w, "epoch", f->epoch);
        json_count(w, "position", f->position);
        json_count(w, "index", f->index);
        json_text(w, "status", iter_status_text(f->status));
        json_text(w, "message", f->message);
        json_end(w);
    }
    json_end(w);
    json_end(w);
    json_begin(w, "warnings", '{');
    json_count(w, "count", result->stats[result->n_arms - 1].n_warnings);
    const char *first = result->stats[result->n_arms - 1].warning_text;
    json_text(w, "first", first[0] != '\0' ? first : NULL);
    json_end(w);
}

static void write_sources(json_writer *w, const run_result *result) {
    json_begin(w, "sources", '[');
    for (int32_t i = 0; i < result->n_sources; i++) {
        const iter_part_stats *source = &result->sources[i];
        json_begin(w, NULL, '{');
        json_text(w, "name", source->name);
        json_number(w, "weight", source->weight);
        json_count(w, "n_samples", source->n_samples);
        json_count(w, "samples", source->samples);
        json_count(w, "failures", source->failures);
        json_end(w);
    }
    json_end(w);
}

static void write_fallbacks(json_writer *w, const run_result *result) {
    json_begin(w, "fallbacks", '[');
    for (int i = 0; i < result->n_arms; i++)
        for (int32_t k = 0; k < result->stats[i].n_fallbacks && k < ITER_STATS_FALLBACKS; k++)
            json_text(w, NULL, result->stats[i].fallbacks[k]);
    json_end(w);
}

static void write_figures(json_writer *w, const run_result *result) {
    if (!result->has_figures) {
        json_null(w, "shuffle");
        return;
    }
    const shuffle_figures *f = &result->figures;
    json_begin(w, "shuffle", '{');
    json_number(w, "share", f->share);
    json_number(w, "displacement", f->displacement);
    json_number(w, "displacement_ideal", f->displacement_ideal);
    json_number(w, "adjacency", f->adjacency);
    json_number(w, "adjacency_ideal", f->adjacency_ideal);
    json_number(w, "class_run", f->class_run);
    json_number(w, "class_run_ideal", f->class_run_ideal);
    json_end(w);
}

void run_limits_json(json_writer *w, const yardstick_rates *limits, const gpu_link_rates *link) {
    json_begin(w, "limits", '{');
    json_number(w, "copy_bytes_per_s", limits->copy_bytes_per_s);
    json_number(w, "convert_samples_per_s", limits->convert_samples_per_s);
    json_number(w, "ordered_samples_per_s", limits->ordered_samples_per_s);
    json_number(w, "decode_samples_per_s", limits->decode_samples_per_s);
    json_number(w, "read_bytes_per_s", limits->read_bytes_per_s);
    json_number(w, "gpu_copy_bytes_per_s", link != NULL ? link->plain_bytes_per_s : NAN);
    json_number(w, "gpu_slots_bytes_per_s", link != NULL ? link->slots_bytes_per_s : NAN);
    json_number(w, "gpu_slots_by_copy", link != NULL ? link->slots_by_plain.median : NAN);
    json_end(w);
}

void run_result_json(const run_result *result, FILE *out) {
    json_writer writer = {.out = out}, *w = &writer;
    int last = result->n_arms - 1;
    json_begin(w, NULL, '{');
    bench_machine_json(w);
    json_bool(w, "interrupted", result->interrupted);
    write_config(w, result);
    json_begin(w, "arms", '[');
    for (int i = 0; i < result->n_arms; i++)
        write_arm(w, result, i);
    json_end(w);
    write_ratio(w, result);
    write_paths(w, &result->stats[last]);
    write_setup(w, result, &result->arms[last]);
    write_failures(w, result);
    write_sources(w, result);
    json_text(w, "cache", bench_cache_text(result->cache.state));
    json_begin(w, "cache_proof", '{');
    json_count(w, "probes", result->cache.probes);
    json_count(w, "resident", result->cache.resident);
    json_end(w);
    write_fallbacks(w, result);
    json_count(w, "peak_rss_bytes", result->peak_rss_bytes);
    run_limits_json(w, &result->limits, result->options->device != 0 ? &result->link : NULL);
    write_figures(w, result);
    write_hash(w, result, last);
    json_end(w);
}
