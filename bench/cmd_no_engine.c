/* cmd_no_engine.c - what stands in for cmd_train.c and feed.c where the trainer was not built. */
#include "bench_util.h"
#include "iterbench.h"

static int refuse(const bench_options *options) {
    iter_error err;
    bench_fail(&err, ITER_EUNSUPPORTED,
               "--model %s: this iterbench was built without the trainer (package libjansson-dev)",
               bench_model_text(options->model));
    return bench_say(BENCH_FAILED, &err);
}

int cmd_train(const bench_options *options) {
    return refuse(options);
}

int cmd_serve_model(const bench_options *options) {
    return refuse(options);
}
