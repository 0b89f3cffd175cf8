/* feed_model.c - the consumer that is a trainer. */
#include <stdio.h>
#include <string.h>

#include "bench/common/bench_util.h"
#include "bench/measure/feed.h"

static const struct {
    const char *chain; /* %s = the layout that the backend wants */
    const char *optimizer;
} recipes[] = {
    [BENCH_MODEL_CNN] = {"scale:factor=0.00392156862745098 | to:f32,%s",
                         "sgd:lr=0.01,momentum=0.9"},
    [BENCH_MODEL_GRU] = {"", "adam:lr=0.001"},
    [BENCH_MODEL_MLP] = {"", "adam:lr=0.001"},
};

/* NULL = the default backend. */
static const char *backend_of(const bench_options *options) {
    return options->device != 0 ? "cuda" : NULL;
}

iter_status feed_model_chain(const bench_options *options, char chain[96], iter_error *err) {
    iter_model *model;
    iter_status s = iter_model_parse(bench_model_text(options->model), &model, err);
    if (s < 0) return s;
    const char *layout = iter_model_layout(model, backend_of(options), options->precision);
    if (strcmp(layout, "tn") == 0)
        snprintf(chain, 96, "tnc");
    else
        snprintf(chain, 96, recipes[options->model].chain, layout);
    iter_model_unref(model);
    return ITER_OK;
}

void feed_model_options(const bench_options *options, iter_trainer_options *out) {
    *out = (iter_trainer_options)ITER_TRAINER_OPTIONS_INIT;
    out->backend = backend_of(options);
    out->optimizer = recipes[options->model].optimizer;
    out->threads = (uint32_t)options->threads;
    out->seed = options->seed;
    out->precision = options->precision;
    out->algorithms = options->algorithms;
    out->device = options->device;
}

iter_status feed_model_open(feed_trainer *feed, iter_error *err) {
    const bench_options *options = &feed->options;
    iter_trainer_options opt;
    iter_status s = iter_model_parse(bench_model_text(options->model), &feed->model, err);
    if (s < 0) return s;
    feed_model_options(options, &opt);
    return iter_trainer_create(feed->model, feed->replay.loaders[0], &opt, &feed->trainer, err);
}

iter_status feed_model_take(feed_trainer *feed, iter_batch *batch, iter_error *err) {
    return iter_trainer_step(feed->trainer, batch, NULL, err);
}

iter_status feed_model_settle(feed_trainer *feed, iter_error *err) {
    return iter_trainer_collect(feed->trainer, NULL, err);
}

feed_turning feed_model_turns(const feed_trainer *feed) {
    iter_trainer_info info = iter_trainer_describe(feed->trainer);
    feed_turning out = {
        info.n_converted, info.convert_seconds, "",
        iter_model_layout(feed->model, backend_of(&feed->options), feed->options.precision)};
    snprintf(out.text, sizeof(out.text), "%s", info.convert_text);
    return out;
}

void feed_model_close(feed_trainer *feed) {
    iter_trainer_destroy(feed->trainer);
    feed->trainer = NULL;
    iter_model_unref(feed->model);
    feed->model = NULL;
}

void feed_model_json(json_writer *w, const feed_trainer *feed) {
    iter_trainer_info info = iter_trainer_describe(feed->trainer);
    json_text(w, "name", bench_model_text(feed->options.model));
    json_text(w, "text", iter_model_text(feed->model));
    json_text(w, "backend", info.backend);
    json_count(w, "weights", info.n_weights);
    json_count(w, "bytes", info.n_bytes);
    json_count(w, "graph_runs", info.n_graph_runs);
    json_count(w, "call_runs", info.n_call_runs);
}

uint32_t feed_model_threads(const feed_trainer *feed) {
    return iter_trainer_describe(feed->trainer).threads;
}
