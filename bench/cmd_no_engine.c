/* cmd_no_engine.c - replaces the files that need the trainer (--model), if it was not built. */
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "bench/measure/feed.h"

static iter_status no_trainer(const bench_options *options, iter_error *err) {
    return bench_fail(err, ITER_EUNSUPPORTED,
                      "--model %s: this iterbench was built without the trainer; a build "
                      "with libjansson-dev has it",
                      bench_model_text(options->model));
}

static int refuse(const bench_options *options) {
    iter_error err;
    no_trainer(options, &err);
    return bench_say(BENCH_FAILED, &err);
}

int cmd_sweep(const bench_options *options) {
    return refuse(options);
}

int cmd_ranks(const bench_options *options) {
    iter_error err;
    (void)options;
    bench_fail(&err, ITER_EUNSUPPORTED,
               "several ranks: this iterbench was built without the trainer, whose communicator "
               "they need; a build with libjansson-dev has it. --ranks 1 measures one process");
    return bench_say(BENCH_FAILED, &err);
}

int cmd_serve_model(const bench_options *options) {
    return refuse(options);
}

/* ---- feed_model.c ---------------------------------------------------------------------------- */

iter_status feed_model_chain(const bench_options *options, char chain[96], iter_error *err) {
    chain[0] = '\0';
    return no_trainer(options, err);
}

iter_status feed_model_open(feed_trainer *feed, iter_error *err) {
    return no_trainer(&feed->options, err);
}

iter_status feed_model_take(feed_trainer *feed, iter_batch *batch, iter_error *err) {
    (void)batch;
    return no_trainer(&feed->options, err);
}

iter_status feed_model_settle(feed_trainer *feed, iter_error *err) {
    return no_trainer(&feed->options, err);
}

feed_turning feed_model_turns(const feed_trainer *feed) {
    (void)feed;
    return (feed_turning){.wants = ""};
}

void feed_model_close(feed_trainer *feed) {
    (void)feed;
}

void feed_model_json(json_writer *w, const feed_trainer *feed) {
    json_text(w, "name", bench_model_text(feed->options.model));
}

uint32_t feed_model_threads(const feed_trainer *feed) {
    (void)feed;
    return 0;
}
