/*
 * feed.c - a trainer beside a loader.
 *
 * The replayed batches lie in slots of a loader that has as many of them as the measured one plus
 * those that are held back: the trainer reads the same kind of memory, through the same number of
 * different buffers, whether it is fed or replays. Weights go on changing in both, so that no arm
 * trains on special values.
 */
#include "feed.h"

#include <stdio.h>
#include <string.h>

#include "bench_util.h"

#define DEFAULT_SLOTS 5 /* max_held 2 + prefetch 2 + 1 */

static const struct {
    const char *chain; /* %s = the layout that the backend wants */
    const char *optimizer;
} recipes[] = {
    [BENCH_MODEL_CNN] = {"scale:factor=0.00392156862745098 | to:f32,%s",
                         "sgd:lr=0.01,momentum=0.9"},
    [BENCH_MODEL_GRU] = {"", "adam:lr=0.001"},
    [BENCH_MODEL_MLP] = {"", "adam:lr=0.001"},
};

iter_status feed_options(const bench_options *options, bench_options *out, char chain[96],
                         iter_error *err) {
    *out = *options;
    if (options->chain != NULL) return ITER_OK;
    iter_model *model;
    iter_status s = iter_model_parse(bench_model_text(options->model), &model, err);
    if (s < 0) return s;
    const char *layout = iter_model_layout(model, NULL);
    if (strcmp(layout, "tn") == 0)
        snprintf(chain, 96, "tnc");
    else
        snprintf(chain, 96, recipes[options->model].chain, layout);
    out->chain = chain[0] != '\0' ? chain : NULL;
    iter_model_unref(model);
    return ITER_OK;
}

/* A loader with room for one whole set of slots in the consumer's hands, and that many batches. */
static iter_status hold_batches(feed_trainer *feed, const bench_arrays *arrays, iter_error *err) {
    uint64_t n = feed->options.prefetch > 0 ? feed->options.prefetch + 3 : DEFAULT_SLOTS;
    if (n > FEED_HELD_MAX) n = FEED_HELD_MAX;
    feed->options.max_held = n;
    iter_status s = arm_open(&feed->options, arrays, &feed->replay, err);
    while (s == ITER_OK && feed->n_held < n) {
        iter_batch *batch;
        s = iter_loader_next(feed->replay.loaders[0], &batch, err);
        if (s == ITER_OK) feed->held[feed->n_held++] = batch;
    }
    if (s == ITER_END && feed->n_held > 0) return ITER_OK; /* a set of few batches */
    if (s == ITER_END) return bench_fail(err, ITER_EINVAL, "an epoch of this run has no batches");
    return s;
}

iter_status feed_open(const bench_options *options, const bench_arrays *arrays, feed_trainer *out,
                      iter_error *err) {
    memset(out, 0, sizeof(*out));
    iter_status s = feed_options(options, &out->options, out->chain, err);
    if (s == ITER_OK) s = iter_model_parse(bench_model_text(options->model), &out->model, err);
    if (s == ITER_OK) s = hold_batches(out, arrays, err);
    if (s == ITER_OK) {
        iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
        opt.optimizer = recipes[options->model].optimizer;
        opt.threads = (uint32_t)options->threads;
        opt.seed = options->seed;
        s = iter_trainer_create(out->model, out->replay.loaders[0], &opt, &out->trainer, err);
    }
    if (s < 0) feed_close(out);
    return s;
}

void feed_close(feed_trainer *feed) {
    for (uint32_t i = 0; i < feed->n_held; i++)
        iter_batch_unref(feed->held[i]);
    feed->n_held = 0;
    if (feed->replay.loaders != NULL) arm_close(&feed->replay);
    iter_trainer_destroy(feed->trainer);
    feed->trainer = NULL;
    iter_model_unref(feed->model);
    feed->model = NULL;
}

static iter_status take(void *user, const iter_batch *batch, iter_error *err) {
    feed_trainer *feed = user;
    iter_result result;
    return iter_trainer_step(feed->trainer, batch, &result, err);
}

static iter_status replay(feed_trainer *feed, uint64_t n, bool timed, uint64_t *out_samples,
                          double *out_seconds, iter_error *err) {
    uint64_t samples = 0, cpu = bench_cpu_ns(), start = bench_now_ns();
    iter_status s = ITER_OK;
    for (uint64_t i = 0; s == ITER_OK && i < n; i++) {
        const iter_batch *batch = feed->held[feed->turn];
        feed->turn = (feed->turn + 1) % feed->n_held;
        s = take(feed, batch, err);
        samples += iter_batch_describe(batch).n_rows;
    }
    *out_samples = samples;
    *out_seconds = (double)(bench_now_ns() - start) * 1e-9;
    if (timed) {
        feed->samples += samples;
        feed->seconds += *out_seconds;
        feed->cpu_ns += bench_cpu_ns() - cpu;
    }
    return s;
}

static iter_status side_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                            iter_error *err) {
    return replay(user, n, true, out_samples, out_seconds, err);
}

static iter_status side_warm(void *user, uint64_t n, iter_error *err) {
    uint64_t samples;
    double seconds;
    return replay(user, n < 2 ? n : 2, false, &samples, &seconds, err); /* nothing is made ahead */
}

measure_side feed_side(feed_trainer *feed, const char *name) {
    return (measure_side){name, side_run, side_warm, feed};
}

void feed_from(feed_trainer *feed, bench_arm *arm) {
    arm->take = take;
    arm->take_user = feed;
}
