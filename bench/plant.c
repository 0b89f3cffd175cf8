/*
 * plant.c - ten bottlenecks, each by the means that a real one has.
 *
 * What a stage, decoder or disk must take is reckoned from the consumer: it takes FACTOR times as
 * long over a sample as the consumer does, or, where that is not known beforehand, FACTOR times 20
 * microseconds.
 */
#include "plant.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench_machine.h"
#include "bench_util.h"

#define SAMPLE_US      20.0
#define DEFAULT_FACTOR 3.0
#define MAX_FACTOR     100.0
#define SLOTS          6   /* batches that are under way beside a slow worker's */
#define BURST_LOAD     0.6 /* of small-prefetch: the loader's time, on average, over the consumer's */

struct plant {
    iter_registry *registry; /* the planted stage and format */
    iter_format_ops format;  /* the dataset's, with a slow decoder */
    char *data, *chain;
};

/* ---- A slow decoder around the dataset's own ------------------------------------------------- */

/* State of the planted format: this, then the inner format's state. */
typedef struct slow_format {
    const iter_format_ops *inner;
    void *state;
    double us;
    const iter_decoder_ops *decoder; /* of the field; NULL = it is copied */
    const void *shared;
    size_t offset;
    iter_decoder_ops table;
} slow_format;

#define HEAD ((sizeof(slow_format) + 63) & ~(size_t)63)

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static iter_status slow_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    const slow_format *f = shared;
    const double until = thread_us() + f->us;
    iter_status s = ITER_OK;
    if (f->decoder != NULL)
        s = f->decoder->decode(state, f->shared, bytes, size, out, err);
    else
        memcpy(out->data, bytes + f->offset, iter_desc_bytes(&out->desc));
    while (thread_us() < until) {
    }
    return s;
}

static iter_status slow_header(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_desc *out, iter_error *err) {
    const slow_format *f = shared;
    return f->decoder->header(state, f->shared, bytes, size, out, err);
}

static iter_status slow_decode_image(void *state, const void *shared, const uint8_t *bytes,
                                     size_t size, const iter_image_wish *wish, iter_tensor *out,
                                     iter_error *err) {
    const slow_format *f = shared;
    const double until = thread_us() + f->us;
    const iter_status s = f->decoder->decode_image(state, f->shared, bytes, size, wish, out, err);
    while (thread_us() < until) {
    }
    return s;
}

static iter_status slow_start(void *state, const void *shared, iter_error *err) {
    const slow_format *f = shared;
    return f->decoder != NULL && f->decoder->start != NULL
               ? f->decoder->start(state, f->shared, err)
               : ITER_OK;
}

/* `path` is "US:FORMAT:PATH". */
static iter_status slow_open(void *state, const char *path, const void *options,
                             iter_description *out, iter_error *err) {
    slow_format *f = state;
    char name[ITER_NAME_MAX], *rest;
    f->us = strtod(path, &rest);
    size_t length = rest[0] == ':' ? strcspn(rest + 1, ":") : 0;
    if (length == 0 || length >= sizeof(name) || rest[1 + length] != ':')
        return bench_fail(err, ITER_EINVAL, "planted decoder: path '%s'", path);
    memcpy(name, rest + 1, length);
    name[length] = '\0';
    f->inner = iter_registry_format(NULL, name);
    if (f->inner == NULL) return bench_fail(err, ITER_EINVAL, "no format is called '%s'", name);
    f->state = (char *)state + HEAD;
    iter_status s = f->inner->open(f->state, rest + 2 + length, options, out, err);
    if (s < 0) return s;
    iter_field *field = NULL;
    int n_decoders = 0;
    for (int32_t i = out->n_fields - 1; i >= 0; i--) {
        n_decoders += out->fields[i].decoder != NULL;
        if (out->fields[i].role == ITER_DATA && out->fields[i].extent >= 0) field = &out->fields[i];
    }
    if (field == NULL || n_decoders > (field->decoder != NULL)) {
        f->inner->close(f->state);
        return bench_fail(err, ITER_EUNSUPPORTED, "%s: nothing that a slow decoder fits to", name);
    }
    f->decoder = field->decoder;
    f->shared = out->shared;
    f->offset = field->offset;
    f->table = (iter_decoder_ops){
        .base = {.struct_size = sizeof(iter_decoder_ops),
                 .name = "slow-decoder",
                 .help = "",
                 .state_size = f->decoder != NULL ? f->decoder->base.state_size : 0},
        .start = slow_start,
        .stop = f->decoder != NULL ? f->decoder->stop : NULL,
        .decode = f->decoder == NULL || f->decoder->decode != NULL ? slow_decode : NULL};
    if (f->decoder != NULL && f->decoder->decode_image != NULL) {
        f->table.header = slow_header;
        f->table.decode_image = slow_decode_image;
    }
    field->decoder = &f->table;
    out->shared = f;
    return ITER_OK;
}

static void slow_close(void *state) {
    slow_format *f = state;
    f->inner->close(f->state);
}

static void slow_locate(const void *state, uint64_t index, iter_extent *out) {
    const slow_format *f = state;
    f->inner->locate(f->state, index, out);
}

static void slow_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const slow_format *f = state;
    f->inner->index_row(f->state, index, field, row);
}

static int64_t slow_length(const void *state, uint64_t index) {
    const slow_format *f = state;
    return f->inner->length(f->state, index);
}

static iter_status plant_decoder(const bench_options *options, double us, plant *made,
                                 bench_options *out, iter_error *err) {
    char name[ITER_NAME_MAX];
    size_t length = strcspn(options->data, ":");
    snprintf(name, sizeof(name), "%.*s", (int)length, options->data);
    const iter_format_ops *inner = iter_registry_format(NULL, name);
    if (inner == NULL || inner->locate == NULL)
        return bench_fail(err, ITER_EINVAL, "slow-decode: %s has no bytes to decode", name);
    made->format = *inner;
    made->format.base.name = "decoded-slowly";
    made->format.base.state_size = HEAD + inner->base.state_size;
    made->format.open = slow_open;
    made->format.close = slow_close;
    made->format.locate = slow_locate;
    made->format.index_row = inner->index_row != NULL ? slow_index_row : NULL;
    made->format.length = inner->length != NULL ? slow_length : NULL;
    made->format.resident = NULL;
    made->format.get = NULL;
    if (asprintf(&made->data, "decoded-slowly:%.3f:%s", us, options->data) < 0)
        return bench_fail(err, ITER_ENOMEM, "no memory for a plant");
    out->data = made->data;
    return iter_registry_add_format(made->registry, &made->format, err);
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
    iter_status s = iter_dataset_open(options->data, options->registry, &dataset, err);
    if (s < 0) return s;
    const iter_description *desc = iter_dataset_describe(dataset);
    double bytes = 0;
    for (int32_t i = 0; i < desc->n_extents; i++)
        bytes += (double)desc->max_extent_bytes[i];
    iter_dataset_unref(dataset);
    if (bytes <= 0) return bench_fail(err, ITER_EINVAL, "slow-disk: nothing is read there");
    plant_disk_rate(bytes / (us * 1e-6));
    out->source_ops = &plant_disk;
    if (out->source == ITER_SOURCE_AUTO) out->source = ITER_SOURCE_PREAD;
    return ITER_OK;
}

static iter_status plant_layout(uint64_t turns, plant *made, bench_options *out, iter_error *err) {
    const char *chain = out->chain != NULL ? out->chain : "to:f32,nchw";
    const char *at = strstr(chain, "nchw");
    if (out->model != BENCH_MODEL_NONE || at == NULL)
        return bench_fail(err, ITER_EINVAL,
                          "layout: wants --compute-ms and a chain that says nchw");
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
    if (strcmp(kind, "slow-decode") == 0)
        return plant_decoder(options, slow_us * hands, made, out, err);
    if (strcmp(kind, "slow-transform") == 0)
        return plant_in_chain(made, out, err, "takes-time:us=%.3f", slow_us * hands);
    if (strcmp(kind, "slow-worker") == 0) {
        if (out->workers < 2) out->workers = 2;
        return plant_in_chain(made, out, err, "takes-time:us=%.3f,how=sleep,worker=1",
                              slow_us * SLOTS);
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
    return bench_fail(
        err, ITER_EINVAL,
        "--plant: no kind '%s'; there are slow-disk, slow-decode, slow-transform, "
        "slow-worker, few-workers, small-prefetch, slow-consumer, layout, tiny-batch, "
        "oversubscribed",
        kind);
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
    s = iter_registry_create(&p->registry, err);
    if (s == ITER_OK) s = iter_registry_add_transform(p->registry, &plant_stage, err);
    out->registry = p->registry;
    prctl(PR_SET_TIMERSLACK, 1ul); /* threads made from here on sleep no longer than they should */
    return s == ITER_OK ? plant_kind(options, kind, factor, p, out, err) : s;
}

void plant_free(plant *made) {
    if (made == NULL) return;
    iter_registry_destroy(made->registry);
    free(made->data);
    free(made->chain);
    free(made);
}
