/*
 * plant.c - fourteen bottlenecks, each made in the way that a real one arises.
 *
 * The time of a planted stage, decoder or disk is computed from the consumer: FACTOR times the
 * consumer's time for a sample. If that is not known beforehand, it is FACTOR times 20
 * microseconds.
 */
#include "bench/verdict/plant.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/common/wrapped.h"
#include "bench/verdict/plant_server.h"

#define KINDS                                                                              \
    "slow-disk|slow-decode|slow-transform|slow-worker|few-workers|one-at-a-time|"          \
    "small-prefetch|slow-consumer|layout|tiny-batch|oversubscribed|slow-remote|throttled|" \
    "slow-rank"
#define SAMPLE_US      20.0
#define DEFAULT_FACTOR 3.0
#define MAX_FACTOR     100.0
#define SLOTS          6   /* batches in progress beside a slow worker's */
#define CONNECTIONS    256 /* requests in flight that a client allows by itself */
#define REFUSING       4.0 /* of throttled: times the time of a slow disk */
#define BURST_LOAD     0.6 /* of small-prefetch: the loader's mean time / the consumer's */

struct plant {
    iter_registry *registry; /* the planted stage and format */
    wrapped decoded;         /* the dataset's format, with a slow decoder */
    double us;               /* time that it takes */
    iter_dataset *set;       /* a set that lets in one worker at a time */
    plant_server *server;    /* of the set's files */
    char *chain, *data;
};

/* ---- A slow decoder around the dataset's own ------------------------------------------------- */

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void spend_until(double until) {
    while (thread_us() < until) {
    }
}

static iter_status slow_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    const wrapped_decoder *d = shared;
    const double until = thread_us() + *(const double *)d->user;
    iter_status s = ITER_OK;
    if (d->inner != NULL)
        s = d->inner->decode(state, d->shared, bytes, size, out, err);
    else
        memcpy(out->data, bytes + d->offset, iter_desc_bytes(&out->desc));
    spend_until(until);
    return s;
}

static iter_status slow_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_desc *out, iter_error *err) {
    const wrapped_decoder *d = shared;
    return d->inner->header(state, d->shared, bytes, size, out, err);
}

static iter_status slow_decode_image(void *state, const void *shared, const uint8_t *bytes,
                                     size_t size, const iter_image_wish *wish, iter_tensor *out,
                                     iter_error *err) {
    const wrapped_decoder *d = shared;
    const double until = thread_us() + *(const double *)d->user;
    const iter_status s = d->inner->decode_image(state, d->shared, bytes, size, wish, out, err);
    spend_until(until);
    return s;
}

static const iter_decoder_ops slow_decoder = {
    .base = {.struct_size = sizeof(iter_decoder_ops), .name = "slow-decoder"},
    .decode = slow_decode,
    .header = slow_header,
    .decode_image = slow_decode_image,
};

static iter_status plant_decoder(const bench_options *options, double us, plant *made,
                                 bench_options *out, iter_error *err) {
    made->us = us;
    iter_status s = wrapped_make("decoded-slowly", options->data, &slow_decoder, &made->us,
                                 made->registry, &made->decoded, err);
    out->data = made->decoded.data;
    return s;
}

/* ---- The others ------------------------------------------------------------------------------ */

static iter_status plant_in_chain(plant *made, bench_options *out, iter_error *err,
                                  const char *format, ...) __attribute__((format(printf, 4, 5)));
static iter_status plant_in_chain(plant *made, bench_options *out, iter_error *err,
                                  const char *format, ...) {
    char stage[128];
    va_list args;
    va_start(args, format);
    vsnprintf(stage, sizeof(stage), format, args);
    va_end(args);
    if (asprintf(&made->chain, "%s%s%s", stage, out->chain != NULL ? " | " : "",
                 out->chain != NULL ? out->chain : "") < 0)
        return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    out->chain = made->chain;
    return ITER_OK;
}

static iter_status plant_slow_disk(const bench_options *options, double us, bench_options *out,
                                   iter_error *err) {
    iter_dataset *dataset;
    iter_status s = bench_dataset_open(options, &dataset, err);
    if (s < 0) return s;
    const iter_description *desc = iter_dataset_describe(dataset);
    double bytes = 0;
    for (int32_t i = 0; i < desc->n_extents; i++)
        bytes += (double)desc->max_extent_bytes[i];
    iter_dataset_unref(dataset);
    if (bytes <= 0) return bench_fail(err, ITER_EINVAL, "slow-disk: this run reads no files");
    plant_disk_rate(bytes / (us * 1e-6));
    out->source_ops = &plant_disk;
    if (out->source == ITER_SOURCE_AUTO) out->source = ITER_SOURCE_PREAD;
    return ITER_OK;
}

/* The set by URLs of a server that begins each answer late, or that refuses what is too much. */
static iter_status plant_remote(const bench_options *options, double latency_s, double most_a_s,
                                plant *made, bench_options *out, iter_error *err) {
    const size_t n_format = strcspn(options->data, ":") + 1;
    const char *path = options->data + n_format;
    char folder[PATH_MAX] = "";
    if (n_format > strlen(options->data) || strchr("\"'{", path[0]) != NULL ||
        strstr(path, "://") != NULL)
        return bench_fail(err, ITER_EINVAL, "--plant: wants files of this machine, not '%s'",
                          bench_data_text(options));
    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL)
        return bench_fail(err, ITER_EIO, "the current folder: %s", strerror(errno));
    iter_status s = plant_server_start(latency_s, most_a_s, &made->server, err);
    if (s < 0) return s;
    if (asprintf(&made->data, "%.*s%s%s%s%s", (int)n_format, options->data,
                 plant_server_url(made->server), folder, path[0] != '/' ? "/" : "", path) < 0)
        return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    out->data = made->data;
    if (out->source == ITER_SOURCE_AUTO) out->source = ITER_SOURCE_RING;
    return ITER_OK;
}

static iter_status plant_layout(uint64_t turns, plant *made, bench_options *out, iter_error *err) {
    const char *chain = out->chain != NULL ? out->chain : "to:f32,nchw";
    const char *at = strstr(chain, "nchw");
    if (out->model != BENCH_MODEL_NONE || at == NULL)
        return bench_fail(err, ITER_EINVAL, "layout: wants --compute-ms and a chain with nchw");
    if (asprintf(&made->chain, "%.*snhwc%s", (int)(at - chain), chain, at + 4) < 0)
        return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    out->chain = made->chain;
    out->wants = 1;
    out->turns = turns;
    return ITER_OK;
}

static uint64_t at_least(double value, uint64_t least) {
    return value > (double)least ? (uint64_t)value : least;
}

static iter_status plant_kind(const bench_options *options, const char *kind, double factor,
                              plant *made, bench_options *out, iter_error *err) {
    const bool trains = options->model != BENCH_MODEL_NONE;
    const int cores = bench_machine_here().cores;
    const double consumer_us =
        options->compute_ms > 0 ? options->compute_ms * 1e3 / (double)options->batch : SAMPLE_US;
    const double slow_us = factor * consumer_us;
    const double hands = options->workers > 1 ? (double)options->workers : 1;
    if (strcmp(kind, "slow-disk") == 0) return plant_slow_disk(options, slow_us, out, err);
    if (strcmp(kind, "slow-remote") == 0)
        return plant_remote(options, slow_us * 1e-6 * CONNECTIONS, 0, made, out, err);
    if (strcmp(kind, "throttled") == 0)
        return plant_remote(options, 0, 1e6 / (slow_us * REFUSING), made, out, err);
    if (strcmp(kind, "slow-rank") == 0) {
        if (options->job == NULL || options->job->ranks < 2)
            return bench_fail(err, ITER_EINVAL,
                              "slow-rank: wants several ranks, by mpirun or srun");
        return plant_in_chain(made, out, err, "takes-time:times=%.3f,rank=%llu", factor,
                              (unsigned long long)(options->seed + 1) % options->job->ranks);
    }
    if (strcmp(kind, "slow-decode") == 0)
        return plant_decoder(options, slow_us * hands, made, out, err);
    if (strcmp(kind, "slow-transform") == 0)
        return plant_in_chain(made, out, err, "takes-time:us=%.3f", slow_us * hands);
    if (strcmp(kind, "slow-worker") == 0) {
        if (out->workers < 2) out->workers = 2;
        return plant_in_chain(made, out, err, "takes-time:us=%.3f,how=sleep,worker=1",
                              slow_us * SLOTS);
    }
    if (strcmp(kind, "one-at-a-time") == 0) {
        if (out->workers < 2) out->workers = 2;
        out->loader = BENCH_DATALOADER;
        const iter_status s = plant_turn(options, slow_us, &made->set, err);
        out->dataset = made->set;
        return s;
    }
    if (strcmp(kind, "few-workers") == 0) {
        out->workers = 1;
        return plant_in_chain(made, out, err, "takes-time:us=%.3f,how=sleep", slow_us);
    }
    if (strcmp(kind, "small-prefetch") == 0) {
        out->workers = 1;
        out->prefetch = 1;
        return plant_in_chain(made, out, err, "takes-time:us=%.3f,how=sleep,every=%llu",
                              BURST_LOAD * consumer_us,
                              (unsigned long long)at_least(8 * factor * (double)options->batch, 1));
    }
    if (strcmp(kind, "slow-consumer") == 0 && !trains) {
        out->compute_ms = factor * (options->compute_ms > 0 ? options->compute_ms : 10);
        return ITER_OK;
    }
    if (strcmp(kind, "layout") == 0) return plant_layout(at_least(2 * factor, 1), made, out, err);
    if (strcmp(kind, "tiny-batch") == 0 && trains) {
        out->batch = at_least((double)options->batch / (8 * factor), 1);
        return ITER_OK;
    }
    if (strcmp(kind, "oversubscribed") == 0 && trains) {
        out->threads = at_least(factor * cores, 2);
        out->workers = (int64_t)at_least(factor * cores, 2);
        return ITER_OK;
    }
    if (strcmp(kind, "tiny-batch") == 0 || strcmp(kind, "oversubscribed") == 0)
        return bench_fail(err, ITER_EINVAL, "--plant %s wants --model", kind);
    if (strcmp(kind, "slow-consumer") == 0)
        return bench_fail(err, ITER_EINVAL, "--plant %s wants --compute-ms, not --model", kind);
    char hint[BENCH_HINT];
    return bench_fail(err, ITER_EINVAL, "--plant: no kind '%s'%s (%s)", kind,
                      bench_hint(kind, KINDS, "", hint), KINDS);
}

/* "KIND" or "KIND:FACTOR". */
static iter_status read_kind(const char *text, char *kind, size_t capacity, double *out_factor,
                             iter_error *err) {
    const size_t length = strcspn(text, ":");
    snprintf(kind, capacity, "%.*s", (int)length, text);
    *out_factor = DEFAULT_FACTOR;
    if (text[length] == '\0') return ITER_OK;
    char *end;
    *out_factor = strtod(text + length + 1, &end);
    if (end == text + length + 1 || *end != '\0' || !(*out_factor > 0 && *out_factor <= MAX_FACTOR))
        return bench_fail(err, ITER_EINVAL, "--plant: FACTOR is above 0, at most %g, not '%s'",
                          MAX_FACTOR, text + length + 1);
    return ITER_OK;
}

iter_status plant_make(const bench_options *options, plant **made, bench_options *out,
                       iter_error *err) {
    char kind[32];
    double factor;
    *made = NULL;
    *out = *options;
    out->plant = NULL;
    if (options->plant == NULL) return ITER_OK;
    iter_status s = read_kind(options->plant, kind, sizeof(kind), &factor, err);
    if (s < 0) return s;
    plant *p = *made = calloc(1, sizeof(*p));
    if (p == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    s = bench_registry_create(options, &p->registry, err);
    if (s == ITER_OK) s = iter_registry_add_transform(p->registry, &plant_stage, err);
    out->registry = p->registry;
    prctl(PR_SET_TIMERSLACK, 1ul); /* for threads created from now on: sleeps end on time */
    return s == ITER_OK ? plant_kind(options, kind, factor, p, out, err) : s;
}

void plant_free(plant *made) {
    if (made == NULL) return;
    iter_registry_destroy(made->registry);
    iter_dataset_unref(made->set);
    wrapped_free(&made->decoded);
    plant_server_stop(made->server);
    free(made->data);
    free(made->chain);
    free(made);
}
