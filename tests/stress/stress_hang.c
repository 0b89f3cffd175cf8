/*
 * stress_hang.c - if the user's code does not return (a sampler, a format's locate(), get()), it
 * blocks one thread of the loader but no call of the program: timeouts, cancel, stop, unref,
 * statistics, position and save return in time.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/bounded.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"

#define N       400
#define HANG_AT 100 /* sample that hangs */
#define PATIENT \
    20.0 /* seconds: far above every timeout here, so that a slow machine does not fail */

static atomic_bool hang;
static atomic_int inside;
static char folder[512];

static void hang_here(void) {
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&hang))
        bounded_sleep(0.002);
    atomic_fetch_sub(&inside, 1);
}

/* ---- What hangs ------------------------------------------------------------------------------ */

static iter_status sampler_open(void *state, const void *options,
                                const iter_sampler_context *context, iter_error *err) {
    (void)options, (void)err;
    *(uint64_t *)state = context->n_samples;
    return ITER_OK;
}

static uint64_t sampler_length(const void *state) {
    return *(const uint64_t *)state;
}

static void sampler_index(void *state, uint32_t epoch, uint64_t position, uint32_t n,
                          uint64_t *out) {
    (void)state, (void)epoch;
    if (position <= HANG_AT && HANG_AT < position + n) hang_here();
    for (uint32_t i = 0; i < n; i++)
        out[i] = position + i;
}

static const iter_sampler_ops pure = {.base = {.struct_size = sizeof(iter_sampler_ops),
                                               .name = "hanging",
                                               .state_size = sizeof(uint64_t)},
                                      .open = sampler_open,
                                      .length = sampler_length,
                                      .index = sampler_index};

static iter_status draw_begin(void *state, uint32_t epoch, iter_error *err) {
    (void)epoch, (void)err;
    *(uint64_t *)state = 0;
    return ITER_OK;
}

static iter_status draw_next(void *state, uint32_t capacity, uint64_t *out, uint32_t *out_n,
                             iter_error *err) {
    (void)err;
    uint64_t *at = state;
    for (*out_n = 0; *out_n < capacity && *at < N; (*at)++) {
        if (*at == HANG_AT) hang_here();
        out[(*out_n)++] = *at;
    }
    return ITER_OK;
}

static const iter_sampler_ops drawing = {.base = {.struct_size = sizeof(iter_sampler_ops),
                                                  .name = "drawing",
                                                  .state_size = sizeof(uint64_t)},
                                         .open = sampler_open,
                                         .begin = draw_begin,
                                         .next_batch = draw_next};

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)rng, (void)err;
    for (uint32_t i = 0; i < n; i++) {
        if (indices[i] == HANG_AT) hang_here();
        ((int32_t *)rows[0].data)[(int64_t)i * rows[0].strides[0]] = (int32_t)indices[i];
    }
    return ITER_OK;
}

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = N;
    out->n_fields = 1;
    out->fields[0] = (iter_field){.name = "data", .desc = {.dtype = ITER_I32}};
    return ITER_OK;
}

static const iter_dataset_ops own = {
    .struct_size = sizeof(own), .name = "own", .describe = describe, .get = get};

/* The CIFAR format, with a locate() that hangs. */
static const iter_format_ops *cifar;
static iter_format_ops hanging;

static void locate(const void *state, uint64_t index, iter_extent *out) {
    if (index == HANG_AT) hang_here();
    cifar->locate(state, index, out);
}

/* ---- One loader ------------------------------------------------------------------------------ */

typedef enum what { SAMPLER, DRAWS, LOCATE, GET, N_WHATS } what;
static const char *const what_names[] = {"pure sampler", "drawing sampler", "locate()", "get()"};

typedef struct subject {
    iter_loader *loader;
    iter_batch *held;
} subject;

static iter_dataset *open_data(what w) {
    iter_dataset *data = NULL;
    iter_registry *registry = NULL;
    if (w == GET || w == SAMPLER || w == DRAWS) {
        EXPECT_OK(iter_dataset_create(&own, NULL, &data, NULL), NULL);
        return data;
    }
    char spec[600];
    snprintf(spec, sizeof(spec), "hanging:%s", folder);
    EXPECT_OK(iter_registry_create(&registry, NULL), NULL);
    EXPECT_OK(iter_registry_add_format(registry, &hanging, NULL), NULL);
    EXPECT_OK(iter_dataset_open(spec, registry, &data, NULL), NULL);
    iter_registry_destroy(registry);
    return data;
}

/* Makes a loader with a thread that hangs; one batch is held. */
static subject begin(what w, int32_t workers) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 10;
    opt.workers = workers;
    opt.faults.timeout_ms = 100;
    opt.faults.grace_ms = 100;
    opt.reading.source = ITER_SOURCE_RING;
    opt.sampler.ops = w == SAMPLER ? &pure : w == DRAWS ? &drawing : NULL;
    subject s = {0};
    iter_dataset *data = open_data(w);
    atomic_store(&hang, true);
    s.loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    while (atomic_load(&inside) == 0) {
        iter_batch *batch;
        const iter_status status = iter_loader_next(s.loader, &batch, NULL);
        if (status != ITER_OK) continue;
        if (s.held) iter_batch_unref(s.held);
        s.held = batch;
    }
    return s;
}

/* Lets the thread go on, and checks that all rows come. */
static void end(subject *s) {
    iter_error err;
    iter_batch *batch;
    atomic_store(&hang, false);
    while (atomic_load(&inside)) /* also a thread that outlived its loader */
        bounded_sleep(0.001);
    if (!s->loader) return;
    if (s->held) iter_batch_unref(s->held);
    for (;;) {
        const iter_status status = iter_loader_next(s->loader, &batch, &err);
        if (status == ITER_ETIMEDOUT) continue;
        if (status != ITER_OK) break;
        iter_batch_unref(batch);
    }
    iter_loader_unref(s->loader);
}

/* ---- The calls ------------------------------------------------------------------------------- */

static void call_next(void *arg) {
    subject *s = arg;
    iter_error err;
    iter_batch *batch;
    iter_status status;
    while ((status = iter_loader_next(s->loader, &batch, &err)) == ITER_OK)
        iter_batch_unref(batch);
    EXPECT_STATUS(status, ITER_ETIMEDOUT, &err);
    EXPECT_STATUS(iter_loader_next_within(s->loader, 0, &batch, &err), ITER_AGAIN, NULL);
    EXPECT_STATUS(iter_loader_next_within(s->loader, 20, &batch, &err), ITER_ETIMEDOUT, &err);
}

static void call_looks(void *arg) {
    subject *s = arg;
    iter_error err;
    uint8_t saved[512];
    size_t size;
    uint32_t epoch;
    uint64_t samples;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    EXPECT_OK(iter_loader_stats_read(s->loader, &stats, &err), &err);
    EXPECT_OK(iter_loader_save(s->loader, saved, sizeof(saved), &size, &err), &err);
    iter_loader_position(s->loader, &epoch, &samples);
    EXPECT(iter_loader_n_batches(s->loader) > 0);
    EXPECT_EQ(iter_loader_failures(s->loader, NULL, 0), 0);
    for (int32_t i = 0; i < 2; i++)
        EXPECT(iter_loader_stage_now(s->loader, 0) >= 0);
}

static void call_unref_batch(void *arg) {
    subject *s = arg;
    iter_batch_unref(s->held);
    s->held = NULL;
}

static void call_cancel(void *arg) {
    subject *s = arg;
    uint8_t saved[512];
    size_t size;
    iter_error err;
    iter_batch *batch;
    iter_loader_cancel(s->loader);
    EXPECT_STATUS(iter_loader_next(s->loader, &batch, &err), ITER_ECANCELED, &err);
    EXPECT_OK(iter_loader_save(s->loader, saved, sizeof(saved), &size, &err), &err);
}

static void call_stop(void *arg) {
    subject *s = arg;
    iter_error err;
    EXPECT_ERROR(iter_loader_stop(s->loader, &err), ITER_ETIMEDOUT, &err, "busy");
    EXPECT_STATUS(iter_loader_stop(s->loader, &err), ITER_ETIMEDOUT, &err);
}

static void call_unref(void *arg) {
    subject *s = arg;
    if (s->held) iter_batch_unref(s->held);
    iter_loader_unref(s->loader);
    s->loader = NULL;
}

/* Each call on a loader whose thread hangs. */
static void all_calls(what w, int32_t workers) {
    static const struct {
        const char *name;
        void (*call)(void *arg);
    } calls[] = {{"next", call_next},     {"looks", call_looks}, {"batch unref", call_unref_batch},
                 {"cancel", call_cancel}, {"stop", call_stop},   {"unref", call_unref}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char text[96];
        snprintf(text, sizeof(text), "%s hangs, %d workers: %s", what_names[w], workers,
                 calls[i].name);
        subject s = begin(w, workers);
        bounded(calls[i].call, &s, PATIENT, text);
        end(&s);
    }
}

/* If a sampler hangs while it is restored, restore must wait no longer than a next() would. */
static void restore_waits_no_longer(void) {
    subject s = begin(DRAWS, 2);
    uint8_t saved[512];
    size_t size;
    iter_error err;
    EXPECT_OK(iter_loader_save(s.loader, saved, sizeof(saved), &size, &err), &err);
    EXPECT_ERROR(iter_loader_restore(s.loader, saved, size, &err), ITER_ETIMEDOUT, &err, "drawing");
    end(&s);
}

int main(void) {
    drive_cifar(folder, N);
    cifar = iter_registry_format(NULL, "cifar10");
    hanging = *cifar;
    hanging.base.name = "hanging";
    hanging.locate = locate;
    for (what w = 0; w < N_WHATS; w++) {
        for (int32_t workers = 1; workers <= 2; workers++)
            all_calls(w, workers);
    }
    restore_waits_no_longer();
    make_folder_gone(folder);
    return EXPECT_DONE();
}
