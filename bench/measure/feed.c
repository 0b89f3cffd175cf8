/*
 * feed.c - a consumer beside a loader.
 *
 * The replayed batches lie in slots of a loader that has as many of them as the measured one, plus
 * those that are held. So the trainer reads the same kind of memory, through the same number of
 * different buffers, whether it is fed or replays. Weights keep changing in both, so that no arm
 * trains on special values.
 *
 * With a GPU, each replayed batch is copied once more, from its slot to its place on the device,
 * while the model trains on the batch before. These are the same bytes over the same link at the
 * same time as a loader's. The trainer only queues its steps, as a program does, and the run waits
 * for them at its end. If rows are finished on the device, their stored bytes are in the loader's
 * own memory, and plain copies of that size replace them. A resident set sends nothing worth a
 * copy.
 */
#include "bench/measure/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/common/bench_util.h"

#define DEFAULT_SLOTS 5 /* max_held 2 + prefetch 2 + 1 */
#define SETTLE_TIMES  100
#define SETTLE_S      0.002

iter_status feed_options(const bench_options *options, bench_options *out, char chain[96],
                         iter_error *err) {
    *out = *options;
    if (options->chain != NULL || options->model == BENCH_MODEL_NONE) return ITER_OK;
    iter_status s = feed_model_chain(options, chain, err);
    out->chain = chain[0] != '\0' ? chain : NULL;
    return s;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Bytes that travel per batch, read once no worker has anything left to send. */
static double bytes_a_batch(const feed_trainer *feed) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    const uint64_t ahead = feed->options.prefetch > 0 ? feed->options.prefetch : 2;
    uint64_t before = UINT64_MAX;
    for (int i = 0; i < SETTLE_TIMES; i++) {
        if (arm_stats(&feed->replay, &stats, NULL) < 0) return 0;
        if (stats.copied_bytes == before) break;
        before = stats.copied_bytes;
        bench_sleep(SETTLE_S);
    }
    return (double)stats.copied_bytes /
           (double)(feed->n_held + (stats.n_workers > 0 ? ahead + 1 : 0));
}

static iter_status open_copies(feed_trainer *feed, iter_error *err) {
    feed_copies *c = &feed->copies;
    const int32_t n_fields = iter_loader_n_fields(feed->replay.loaders[0]);
    gpu_plain_copy plain[FEED_HELD_MAX];
    iter_status s = gpu_link_open(feed->options.device, &c->link, err);
    if (s < 0) return s;
    for (uint32_t i = 0; i < feed->n_held; i++) {
        s = iter_batch_synchronize(feed->held[i], err);
        if (s < 0) return s;
        c->n[i] = gpu_link_copies(feed->held[i], n_fields, c->list[i]);
        c->same = c->n[i] > 0;
    }
    if (c->same || feed->options.resident != ITER_RESIDENT_NO) return ITER_OK;
    const double bytes = bytes_a_batch(feed);
    if (bytes < 1) return ITER_OK;
    s = gpu_plain_buffers(gpu_link_cuda(c->link), (size_t)bytes, feed->n_held, plain, err);
    for (uint32_t i = 0; s == ITER_OK && i < feed->n_held; i++) {
        c->list[i][0] = plain[i];
        c->n[i] = 1;
    }
    return s;
}

static iter_status send(feed_trainer *feed, uint32_t which, iter_error *err) {
    feed_copies *c = &feed->copies;
    iter_status s = ITER_OK;
    for (uint32_t i = 0; s == ITER_OK && i < c->n[which]; i++)
        s = gpu_plain_queue(gpu_link_cuda(c->link), &c->list[which][i], err);
    return s;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Opens a loader with room for one whole set of slots in the consumer's hands, and takes that many
 * batches. */
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
    if (s == ITER_OK) s = hold_batches(out, arrays, err);
    if (s == ITER_OK && options->device != 0) s = open_copies(out, err);
    if (s == ITER_OK && options->model != BENCH_MODEL_NONE) s = feed_model_open(out, err);
    /* so that sleeps end on time, not 50 us late */
    if (options->model == BENCH_MODEL_NONE) prctl(PR_SET_TIMERSLACK, 1ul);
    if (s < 0) feed_close(out);
    return s;
}

void feed_close(feed_trainer *feed) {
    gpu_link_close(feed->copies.link); /* waits for copies into memory that is freed below */
    feed->copies.link = NULL;
    for (uint32_t i = 0; i < feed->n_held; i++)
        iter_batch_unref(feed->held[i]);
    feed->n_held = 0;
    if (feed->replay.loaders != NULL) arm_close(&feed->replay);
    if (feed->options.model != BENCH_MODEL_NONE) feed_model_close(feed);
    iter_convert_destroy(feed->compute.convert);
    feed->compute.convert = NULL;
    free(feed->compute.turned);
    feed->compute.turned = NULL;
}

/* ---- The emulated accelerator ---------------------------------------------------------------- */

static iter_status prepare_turn(feed_compute *c, const iter_tensor *batch, const char *layout,
                                iter_error *err) {
    const bool to_nchw = strcmp(layout, "NCHW") == 0;
    const int to[2][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}};
    iter_desc out = batch->desc;
    for (int i = 0; i < 4; i++)
        out.dims[i] = batch->desc.dims[to[to_nchw][i]];
    snprintf(out.layout, sizeof(out.layout), "%s", layout);
    c->from = batch->desc;
    iter_convert_destroy(c->convert);
    c->convert = NULL;
    free(c->turned);
    c->turned = malloc(iter_desc_bytes(&out));
    if (c->turned == NULL) return bench_fail(err, ITER_ENOMEM, "no memory to turn a batch");
    snprintf(c->text, sizeof(c->text), "%s to %s", to_nchw ? "nhwc" : "nchw",
             to_nchw ? "nchw" : "nhwc");
    return iter_convert_prepare(&batch->desc, &out, NULL, &c->convert, err);
}

/* Turns the batch's images into the layout that the accelerator wants, `turns` times. */
static iter_status turn(feed_trainer *feed, const iter_batch *batch, iter_error *err) {
    static const char *const layouts[] = {"", "NCHW", "NHWC"};
    feed_compute *c = &feed->compute;
    const iter_tensor *data = iter_batch_tensor(batch, 0);
    const char *wants = layouts[feed->options.wants];
    if (wants[0] == '\0' || data == NULL || data->desc.n_dims != 4 ||
        data->desc.layout[0] == '\0' || strcmp(data->desc.layout, wants) == 0)
        return ITER_OK;
    const uint64_t start = bench_now_ns();
    if (c->convert == NULL || memcmp(c->from.dims, data->desc.dims, sizeof(c->from.dims)) != 0) {
        iter_status s = prepare_turn(c, data, wants, err);
        if (s < 0) return s;
    }
    for (uint64_t i = 0; i < (feed->options.turns > 0 ? feed->options.turns : 1); i++)
        iter_convert_run(c->convert, data->data, c->turned, NULL);
    c->convert_ns += bench_now_ns() - start;
    c->n_converted++;
    return ITER_OK;
}

static iter_status take(void *user, iter_batch *batch, iter_error *err) {
    feed_trainer *feed = user;
    if (feed->options.model != BENCH_MODEL_NONE) return feed_model_take(feed, batch, err);
    iter_status s =
        feed->options.device != 0 ? iter_batch_synchronize(batch, err) : turn(feed, batch, err);
    bench_sleep(feed->options.compute_ms * 1e-3);
    return s;
}

static iter_status settle(void *user, iter_error *err) {
    feed_trainer *feed = user;
    return feed->options.model != BENCH_MODEL_NONE ? feed_model_settle(feed, err) : ITER_OK;
}

feed_turning feed_turns(const feed_trainer *feed) {
    if (feed->options.model != BENCH_MODEL_NONE) return feed_model_turns(feed);
    feed_turning out = {feed->compute.n_converted, (double)feed->compute.convert_ns * 1e-9, "",
                        feed->options.wants == 2 ? "nhwc" : "nchw"};
    snprintf(out.text, sizeof(out.text), "%s", feed->compute.text);
    return out;
}

/* ---- Replay ---------------------------------------------------------------------------------- */

/* With copies: waits for this batch's copies, queues the next one's, then trains. */
static iter_status replay(feed_trainer *feed, uint64_t n, bool copies, feed_count *count,
                          uint64_t *out_samples, double *out_seconds, iter_error *err) {
    uint64_t samples = 0, cpu = bench_cpu_ns(), start = bench_now_ns();
    gpu_plain *cuda = copies ? gpu_link_cuda(feed->copies.link) : NULL;
    iter_status s = cuda != NULL ? send(feed, feed->turn, err) : ITER_OK;
    for (uint64_t i = 0; s == ITER_OK && i < n; i++) {
        iter_batch *batch = feed->held[feed->turn];
        feed->turn = (feed->turn + 1) % feed->n_held;
        if (cuda != NULL) s = gpu_plain_wait(cuda, err);
        if (s == ITER_OK && cuda != NULL && i + 1 < n) s = send(feed, feed->turn, err);
        if (s == ITER_OK) s = take(feed, batch, err);
        samples += iter_batch_describe(batch).n_rows;
    }
    if (s == ITER_OK) s = settle(feed, err);
    *out_samples = samples;
    *out_seconds = (double)(bench_now_ns() - start) * 1e-9;
    if (count != NULL) {
        count->samples += samples;
        count->seconds += *out_seconds;
        count->cpu_ns += bench_cpu_ns() - cpu;
    }
    return s;
}

static iter_status warm(feed_trainer *feed, uint64_t n, bool copies, iter_error *err) {
    uint64_t samples;
    double seconds; /* unused: nothing is made ahead */
    return replay(feed, n < 2 ? n : 2, copies, NULL, &samples, &seconds, err);
}

static iter_status side_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                            iter_error *err) {
    feed_trainer *feed = user;
    return replay(feed, n, feed->copies.link != NULL, &feed->alone, out_samples, out_seconds, err);
}

static iter_status side_warm(void *user, uint64_t n, iter_error *err) {
    feed_trainer *feed = user;
    return warm(feed, n, feed->copies.link != NULL, err);
}

static iter_status resident_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                                iter_error *err) {
    feed_trainer *feed = user;
    return replay(feed, n, false, &feed->resident, out_samples, out_seconds, err);
}

static iter_status resident_warm(void *user, uint64_t n, iter_error *err) {
    return warm(user, n, false, err);
}

measure_side feed_side(feed_trainer *feed, const char *name) {
    return (measure_side){name, side_run, side_warm, feed, NULL};
}

measure_side feed_resident_side(feed_trainer *feed, const char *name) {
    return (measure_side){name, resident_run, resident_warm, feed, NULL};
}

void feed_from(feed_trainer *feed, bench_arm *arm) {
    arm->take = take;
    arm->settle = settle;
    arm->take_user = feed;
}
