/* test_bench_timeline.c - bench/measure/timeline.c, over hand-made events: which batches, which
 * spans, cut to the batch's life. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <iter/loader.h>

#include "bench/measure/timeline.h"

TestSuite(bench_timeline, .timeout = 60);

#define CONSUMER 1
#define WORKER_0 2
#define WORKER_1 3

static iter_profile_event events[4096];
static size_t n;

static iter_profile_event *add(const char *category, const char *name, int32_t track,
                               uint64_t batch, uint64_t start, uint64_t end) {
    static const char *const tracks[] = {"", "main", "loader 7 worker 0", "worker 1", "other"};
    iter_profile_event *e = &events[n++];
    *e = (iter_profile_event){.name = name,
                              .category = category,
                              .track = track,
                              .track_name = tracks[track],
                              .start_ns = start,
                              .duration_ns = end - start,
                              .loader = 7,
                              .batch = batch};
    return e;
}

static int by_start(const void *a, const void *b) {
    const iter_profile_event *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static timeline collect(uint64_t loader) {
    timeline t;
    iter_error err;
    qsort(events, n, sizeof(events[0]), by_start);
    cr_assert_eq(timeline_of_events(events, n, loader, &t, &err), ITER_OK);
    return t;
}

/* A batch of one chunk: opened, decoded, published, taken. */
static void life(int32_t track, uint64_t batch, uint64_t open, uint64_t taken) {
    add("loader", "open", track, batch, open, open + 10);
    add("stage", "decode", track, batch, open + 10, open + 60);
    add("loader", "batch", track, batch, open + 60, open + 70);
    add("loader", "next", CONSUMER, batch, taken - 5, taken);
}

static const timeline_span *find(const timeline_batch *b, const char *track, const char *stage) {
    for (size_t i = 0; i < b->n_spans; i++)
        if (strcmp(b->spans[i].track, track) == 0 && strcmp(b->spans[i].stage, stage) == 0)
            return &b->spans[i];
    return NULL;
}

static void is_span(const timeline_batch *b, const char *track, const char *stage, uint64_t start,
                    uint64_t ns) {
    const timeline_span *s = find(b, track, stage);
    cr_assert_not_null(s, "no %s of %s", stage, track);
    cr_assert_eq(s->start_ns, start, "%s of %s: %lu", stage, track, (unsigned long)s->start_ns);
    cr_assert_eq(s->ns, ns, "%s of %s: %lu", stage, track, (unsigned long)s->ns);
}

Test(bench_timeline, nothing_recorded_is_no_batch) {
    timeline t = collect(0);
    cr_assert_eq(t.n_batches, 0);
    add("loader", "next", CONSUMER, 3, 100, 200); /* its opening was overwritten */
    add("loader", "open", WORKER_0, 4, 150, 160); /* never taken */
    t = collect(0);
    cr_assert_eq(t.n_batches, 0);
    timeline_free(&t);
}

Test(bench_timeline, one_batch_is_the_slowest) {
    life(WORKER_0, 3, 1000, 1100);
    timeline t = collect(0);
    cr_assert_eq(t.n_batches, 1);
    cr_assert_str_eq(t.batches[0].kind, "slowest");
    cr_assert_eq(t.batches[0].batch, 3);
    cr_assert_eq(t.batches[0].ns, 100);
    timeline_free(&t);
}

Test(bench_timeline, median_and_slowest_by_their_whole_life) {
    static const uint64_t lengths[] = {100, 300, 120, 900, 110}; /* median 120 */
    for (uint64_t i = 0; i < 5; i++)
        life(i % 2 ? WORKER_1 : WORKER_0, i, 1000 + 2000 * i, 1000 + 2000 * i + lengths[i]);
    timeline t = collect(7);
    cr_assert_eq(t.n_batches, 2);
    cr_assert_str_eq(t.batches[0].kind, "slowest");
    cr_assert_eq(t.batches[0].batch, 3);
    cr_assert_eq(t.batches[0].ns, 900);
    cr_assert_str_eq(t.batches[1].kind, "median");
    cr_assert_eq(t.batches[1].batch, 2);
    cr_assert_eq(t.batches[1].ns, 120);
    timeline_free(&t);
}

Test(bench_timeline, batches_of_two_epochs_are_two) {
    life(WORKER_0, 0, 1000, 1100);
    life(WORKER_0, 0, 3000, 3500);
    for (size_t i = 4; i < 8; i++)
        events[i].epoch = 1;
    timeline t = collect(0);
    cr_assert_eq(t.n_batches, 2);
    cr_assert_eq(t.batches[0].epoch, 1);
    cr_assert_eq(t.batches[0].ns, 500);
    cr_assert_eq(t.batches[1].epoch, 0);
    cr_assert_eq(t.batches[1].ns, 100);
    timeline_free(&t);
}

Test(bench_timeline, lanes_hold_what_their_threads_did_meanwhile) {
    life(WORKER_1, 4, 900, 960);   /* before: the consumer works from 960 on */
    life(WORKER_0, 5, 1000, 1200); /* the slowest: next from 1195 */
    add("read", "read", WORKER_0, 5, 1002, 1040)->type = ITER_PROFILE_ASYNC;
    add("wait", "wait-bytes", WORKER_0, 0, 990, 1005); /* begins before */
    add("stage", "decode", WORKER_0, 6, 1080, 1300);   /* another batch, ends after */
    add("stage", "decode", WORKER_1, 6, 1080, 1150);   /* a thread that does not work on it */
    add("read", "read", WORKER_1, 6, 1080, 1150)->type = ITER_PROFILE_ASYNC;
    add("user", "forward", CONSUMER, 0, 1100, 1190)->loader = 0;
    timeline t = collect(0);
    const timeline_batch *b = &t.batches[0];
    cr_assert_eq(b->batch, 5);
    is_span(b, "worker 0", "open", 0, 10);
    is_span(b, "worker 0", "decode", 10, 50);
    is_span(b, "worker 0", "batch", 60, 10);
    is_span(b, "worker 0", "wait-bytes", 0, 5);
    is_span(b, "worker 0", "other batch", 80, 120);
    is_span(b, "reads", "read", 2, 38);
    is_span(b, "consumer", "consumer", 0, 195);
    is_span(b, "consumer", "forward", 100, 90);
    is_span(b, "consumer", "next", 195, 5);
    for (size_t i = 0; i < b->n_spans; i++) {
        cr_assert_str_neq(b->spans[i].track, "worker 1");
        cr_assert_leq(b->spans[i].start_ns + b->spans[i].ns, b->ns);
        if (i > 0) cr_assert_geq(b->spans[i].start_ns, b->spans[i - 1].start_ns);
    }
    timeline_free(&t);
}

Test(bench_timeline, other_loaders_do_not_count) {
    life(WORKER_0, 0, 1000, 1100);
    life(WORKER_0, 1, 2000, 2200);
    life(WORKER_1, 0, 1000, 9000);
    for (size_t i = 8; i < 12; i++)
        events[i].loader = 8;
    timeline t = collect(0); /* 7, whose next() was called again */
    cr_assert_eq(t.n_batches, 2);
    cr_assert_eq(t.batches[0].ns, 200);
    timeline_free(&t);
    t = collect(8);
    cr_assert_eq(t.n_batches, 1);
    cr_assert_eq(t.batches[0].ns, 8000);
    timeline_free(&t);
}

Test(bench_timeline, of_too_many_spans_the_longest_stay) {
    life(WORKER_0, 0, 1000, 100000);
    for (uint64_t i = 0; i < 3000; i++)
        add("user", i % 3 == 0 ? "long" : "short", WORKER_0, 0, 2000 + 20 * i,
            2000 + 20 * i + (i % 3 == 0 ? 15 : 1));
    timeline t = collect(0);
    size_t n_long = 0;
    cr_assert_eq(t.batches[0].n_spans, TIMELINE_SPANS_MAX);
    for (size_t i = 0; i < t.batches[0].n_spans; i++)
        n_long += strcmp(t.batches[0].spans[i].stage, "long") == 0;
    cr_assert_eq(n_long, 1000);
    timeline_free(&t);
}

Test(bench_timeline, as_json) {
    life(WORKER_0, 0, 1000, 1100);
    timeline t = collect(0);
    char *text = NULL;
    size_t bytes;
    json_value *value;
    iter_error err;
    json_writer w = {.out = open_memstream(&text, &bytes)};
    json_begin(&w, NULL, '{');
    timeline_write_json(&w, &t);
    json_end(&w);
    fclose(w.out);
    cr_assert_eq(json_parse("text", text, bytes, &value, &err), ITER_OK, "%s", err.message);
    const json_value *batch = json_find(value, "timeline")->first;
    cr_assert_str_eq(json_find(batch, "kind")->text, "slowest");
    cr_assert_eq(json_find(batch, "ns")->number, 100);
    cr_assert_str_eq(json_find(json_find(batch, "spans")->first, "track")->text, "worker 0");
    json_free(value);
    free(text);
    timeline_free(&t);
    timeline_free(&t); /* freeing twice does no harm */
}

/* Records a running loader with the profiler. */
static timeline record(int32_t workers) {
    iter_profile_options profile = ITER_PROFILE_OPTIONS_INIT;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_dataset *data;
    iter_loader *loader;
    iter_batch *batch;
    iter_error err;
    timeline t;
    profile.filename = "";
    opt.batch_size = 100;
    opt.workers = workers;
    cr_assert_eq(iter_profile_start(&profile, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataset_open("synthetic:cifar10?n=3000", NULL, &data, &err), ITER_OK);
    cr_assert_eq(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_OK);
    iter_dataset_unref(data);
    while (iter_loader_next(loader, &batch, &err) == ITER_OK)
        iter_batch_unref(batch);
    iter_loader_unref(loader);
    cr_assert_eq(iter_profile_stop(&err), ITER_OK);
    cr_assert_eq(timeline_collect(0, &t, &err), ITER_OK, "%s", err.message);
    iter_profile_clear();
    return t;
}

static void is_whole(const timeline *t) {
    cr_assert_eq(t->n_batches, 2);
    cr_assert_geq(t->batches[0].ns, t->batches[1].ns);
    for (int i = 0; i < t->n_batches; i++) {
        const timeline_batch *b = &t->batches[i];
        uint64_t end = 0;
        cr_assert_lt(b->batch, 30);
        cr_assert_gt(b->n_spans, 0);
        for (size_t k = 0; k < b->n_spans; k++) {
            cr_assert_gt(strlen(b->spans[k].track), 0);
            cr_assert_gt(b->spans[k].ns, 0);
            const uint64_t at = b->spans[k].start_ns + b->spans[k].ns;
            end = at > end ? at : end;
        }
        cr_assert_eq(end, b->ns, "next() ends the batch's life");
        cr_assert_not_null(find(b, "consumer", "next"));
    }
}

Test(bench_timeline, of_a_loader_with_workers) {
    timeline t = record(2);
    is_whole(&t);
    for (int i = 0; i < 2; i++) {
        bool opened = false;
        for (size_t k = 0; k < t.batches[i].n_spans; k++)
            opened = opened || (strcmp(t.batches[i].spans[k].stage, "open") == 0 &&
                                strcmp(t.batches[i].spans[k].track, "consumer") != 0);
        cr_assert(opened, "a worker opens batches");
    }
    timeline_free(&t);
}

Test(bench_timeline, of_a_loader_in_the_callers_thread) {
    timeline t = record(0);
    is_whole(&t);
    for (size_t k = 0; k < t.batches[0].n_spans; k++)
        cr_assert_str_eq(t.batches[0].spans[k].track, "consumer");
    timeline_free(&t);
}
