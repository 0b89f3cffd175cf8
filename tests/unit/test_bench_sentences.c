/*
 * test_bench_sentences.c - diagnose/verdict_words.c: every sentence of a verdict, next to the
 * evidence for it.
 *
 * Read the table at the end aloud. No sentence may state a number whose interval contains the
 * opposite.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "tests/support/verdict_runs.h"

TestSuite(bench_sentences, .timeout = 60);

static const measure_interval none = {NAN, NAN, NAN, 0};

/* ---- Evidence, by its finding ---------------------------------------------------------------- */

static void consumer_costs_a_little(evidence *e) {
    *e = run_of(90000, 80000, 70000, 10000, 9800);
    e->both_by_consumer = (measure_interval){0.98, 0.97, 0.99, 9};
}
/* 119,790 [25,198, 157,917], cost 4.9 % [-46.0, 24.1] */
static void consumer_costs_unclear(evidence *e) {
    *e = run_of(90000, 80000, 70000, 10000, 9530);
    e->both_by_consumer = (measure_interval){0.953, 0.806, 1.85, 9};
}
static void consumer_costs_nothing(evidence *e) {
    *e = run_of(90000, 80000, 70000, 10000, 10100);
    e->both_by_consumer = (measure_interval){1.01, 1.005, 1.02, 9};
}
static void trainer_without_interval(evidence *e) {
    *e = run_of(90000, 80000, 70000, 10000, 9800);
    e->trains = true;
    e->rounds = 3;
    e->both_by_consumer.low = e->both_by_consumer.high = NAN;
    e->loader_by_consumer.low = e->loader_by_consumer.high = NAN;
}
static void reading(evidence *e) {
    *e = run_of(5000, 4900, 4800, 10000, 4800);
    e->sample_bytes = 3073;
    e->stages[0] = (evidence_stage){"read", EVIDENCE_OF_READ, 0.9};
    evidence_change *c = add_change(e, "source", 10, 1);
    snprintf(c->from, sizeof(c->from), "pread");
    snprintf(c->to, sizeof(c->to), "memory");
}
static void reading_urls(evidence *e) {
    reading(e);
    e->remote.answers = 5000;
    e->remote.bytes = 65000;
    e->remote.first_s = 0.0098;
    e->remote.whole_s = 0.01;
    e->remote.in_flight = 62.2;
    e->remote.connections = 64;
}
static void reading_large_urls(evidence *e) {
    reading_urls(e);
    e->remote.first_s = 0.002;
}
static void reading_small_urls(evidence *e) {
    reading_urls(e);
    e->remote.cpu_s = 0.95 / e->rate[EVIDENCE_READ].median;
}
static void reading_refused(evidence *e) {
    reading_urls(e);
    e->remote.throttled = 0.2;
}
static void decoding(evidence *e) {
    *e = run_of(90000, 4900, 4800, 10000, 4800);
    e->wait_share = 0.52;
    e->worker[0].runnable = 0.3;
}
static void copying_rows(evidence *e) { /* raw CIFAR: 3 % of the time, and 96 % in the consumer */
    *e = run_of(0, 312000, 303000, 10000, 9680);
    e->workers = 0;
    e->n_workers = 1;
    e->both_by_consumer = (measure_interval){0.966, 0.955, 0.975, 9};
    e->stages[0] = (evidence_stage){"copy", EVIDENCE_OF_DECODE, 0.03};
    e->stages[1].share = 0;
    e->has[EVIDENCE_DECODE] = false;
    e->loader_by_decode = e->decode_by_read = none;
}
static void making_samples(evidence *e) {
    *e = run_of(0, 4900, 4800, 10000, 4800);
    snprintf(e->stages[0].name, sizeof(e->stages[0].name), "get");
}
static void chain(evidence *e) {
    *e = run_of(90000, 80000, 4800, 10000, 4800);
    evidence_change *c = add_change(e, "chain", 12, 1);
    c->experiment = true;
    snprintf(c->from, sizeof(c->from), "with blur");
    snprintf(c->to, sizeof(c->to), "without it");
}
static void chain_of_a_loader_alone(evidence *e) {
    *e = run_of(90000, 80000, 5000, 10000, 5000);
    e->consumes = e->has[EVIDENCE_CONSUMER] = e->has[EVIDENCE_BOTH] = false;
}
static void decoding_of_photos_alone(evidence *e) {
    chain_of_a_loader_alone(e);
    e->by_shares = true;
    e->has[EVIDENCE_DECODE] = false;
    e->loader_by_decode = e->decode_by_read = none;
    e->stages[0].share = 0.8;
    e->stages[1].share = 0.1;
    e->n_changes = 0;
    evidence_change *c = add_change(e, "chain", 1.4, 1);
    c->experiment = true;
    snprintf(c->from, sizeof(c->from), "jpeg-scale=exact");
    snprintf(c->to, sizeof(c->to), "jpeg-scale=fast");
}
static void parts_that_cannot_be_told(evidence *e) {
    chain_of_a_loader_alone(e);
    e->rate[EVIDENCE_READ] = about(1e6, 0.02);
    e->rate[EVIDENCE_DECODE] = about(11000, 0.3);
    e->loader_by_decode = (measure_interval){0.45, 0.2, 1.2, 9};
}
static void one_at_a_time(evidence *e) {
    *e = run_of(0, 4900, 4800, 10000, 4800);
    snprintf(e->stages[0].name, sizeof(e->stages[0].name), "get");
    e->stages[0].share = 0.48;
    e->stages[1] = (evidence_stage){"wait-turn", EVIDENCE_OF_TURN, 0.5};
    add_change(e, "workers", 1.01, 1)->overlaps = true;
}
static void slow_worker(evidence *e) {
    *e = run_of(0, 80000, 5000, 10000, 4000);
    e->worker[1].busy_s = 0.02;
    e->in_order = true;
    e->wait_share = 0.6;
}
static void slow_worker_alone(evidence *e) {
    slow_worker(e);
    e->in_order = false;
    e->consumes = e->has[EVIDENCE_CONSUMER] = e->has[EVIDENCE_BOTH] = false;
}
static void larger_samples(evidence *e) {
    *e = run_of(0, 4800, 4700, 10000, 4600);
    e->in_order = true;
    e->worker[1].busy_s = 0.003;
    e->worker[0].bytes = 16 * 50e3;
    e->worker[1].bytes = 16 * 150e3;
}
static void no_worker(evidence *e) {
    *e = run_of(0, 80000, 10000, 10000, 5000);
    e->workers = 0;
    e->n_workers = 1;
    e->wait_share = 0.5;
    evidence_change *c = add_change(e, "workers", 1, 1);
    c->overlaps = true;
    snprintf(c->from, sizeof(c->from), "0");
    snprintf(c->to, sizeof(c->to), "1");
}
static void too_few_workers(evidence *e) {
    *e = run_of(0, 80000, 3000, 10000, 2990);
    evidence_change *c = add_change(e, "workers", 3.2, 1);
    c->overlaps = true;
    snprintf(c->from, sizeof(c->from), "2");
    snprintf(c->to, sizeof(c->to), "7");
}
static void too_few_workers_alone(evidence *e) {
    too_few_workers(e);
    e->workers = e->n_workers = 1;
    e->consumes = e->has[EVIDENCE_CONSUMER] = e->has[EVIDENCE_BOTH] = false;
}
static void no_worker_alone(evidence *e) {
    too_few_workers_alone(e);
    e->workers = 0;
}
static void workers_that_may_not_help(evidence *e) {
    too_few_workers(e);
    e->changes[0].loader_low = 0.9;
    e->changes[0].loader_high = 4;
}
static void uneven(evidence *e) {
    *e = run_of(0, 80000, 20000, 10000, 6000);
    e->wait_share = 0.4;
    evidence_change *c = add_change(e, "prefetch", 1, 1);
    c->deeper = true;
    snprintf(c->from, sizeof(c->from), "2");
    snprintf(c->to, sizeof(c->to), "16");
}
static void layout(evidence *e) {
    *e = run_of(0, 80000, 70000, 10000, 9950);
    e->convert_s = 0.0032;
    snprintf(e->convert_text, sizeof(e->convert_text), "nhwc to nchw");
    snprintf(e->wants, sizeof(e->wants), "nchw");
    evidence_change *c = add_change(e, "layout", 1, 2);
    snprintf(c->from, sizeof(c->from), "to:nhwc");
    snprintf(c->to, sizeof(c->to), "to:nchw");
}
static void layout_beside_another_limit(evidence *e) {
    decoding(e);
    e->worker[0].runnable = 0;
    e->convert_s = 0.0001;
    snprintf(e->convert_text, sizeof(e->convert_text), "nhwc to nchw");
    snprintf(e->wants, sizeof(e->wants), "nchw");
}
static void small_batch(evidence *e) {
    *e = run_of(0, 80000, 70000, 10000, 9950);
    e->trains = true;
    e->batch = 8;
    add_change(e, "batch", 4, 4);
}
static void small_batch_unclear(evidence *e) {
    small_batch(e);
    e->changes[0].consumer_low = 0.8;
}
static void small_batch_without_interval(evidence *e) {
    small_batch(e);
    e->changes[0].loader_low = e->changes[0].consumer_low = NAN;
}
static void full_cores(evidence *e) {
    *e = run_of(0, 80000, 20000, 10000, 5000);
    e->trains = true;
    e->cores = 2;
    e->cpu[EVIDENCE_CONSUMER] = 0.00036;
}
static void one_core(evidence *e) {
    full_cores(e);
    e->cores = 1;
}
static void many_threads(evidence *e) {
    *e = run_of(0, 80000, 70000, 10000, 9950);
    e->trains = true;
    e->threads = 12;
    e->consumer_runnable = 0.3;
    evidence_change *c = add_change(e, "threads", 1, 1.5);
    snprintf(c->from, sizeof(c->from), "12");
    snprintf(c->to, sizeof(c->to), "4");
}
static void shared_caches(evidence *e) {
    *e = run_of(0, 80000, 20000, 10000, 6000);
    e->wait_share = 0.02;
}
static void link(evidence *e) {
    *e = run_of(90000, 80000, 4800, 10000, 4790);
    e->to_device = true;
    e->copy_bytes = e->row_bytes = 12288;
    e->link_bytes_per_s = 60e6;
    set(e, EVIDENCE_RESIDENT, 10100, 0);
    evidence_change *c = add_change(e, "finish", 3.9, 1);
    snprintf(c->from, sizeof(c->from), "auto");
    snprintf(c->to, sizeof(c->to), "device");
}
static void link_alone(evidence *e) {
    link(e);
    e->n_changes = 0;
    e->has[EVIDENCE_RESIDENT] = false;
    e->consumes = e->has[EVIDENCE_CONSUMER] = e->has[EVIDENCE_BOTH] = false;
}
static void race_without_interval(evidence *e) {
    *e = run_of(90000, 80000, 9500, 10000, 9900);
    e->rounds = 5;
    e->loader_by_consumer.low = e->loader_by_consumer.high = NAN;
    e->both_by_consumer.low = e->both_by_consumer.high = NAN;
}
static void equals(evidence *e) {
    *e = run_of(90000, 80000, 10100, 10000, 9950);
}
static void not_told_apart(evidence *e) { /* 119,790 [25,198, 157,917] against 62,015 */
    *e = run_of(900000, 800000, 119790, 62015, 62000);
    e->loader_by_consumer = (measure_interval){1.93, 0.406, 2.55, 9};
    e->both_by_consumer = (measure_interval){1, 0.8, 1.2, 9};
    e->steady = false;
    e->unsteady_rounds = 4;
}
static void slower_and_yet_enough(evidence *e) {
    *e = run_of(90000, 80000, 8500, 10000, 9900);
    e->loader_by_consumer = (measure_interval){0.85, 0.7, 0.95, 9};
}
static void together_unclear(evidence *e) {
    *e = run_of(90000, 80000, 8500, 10000, 8400);
    e->both_by_consumer = (measure_interval){0.84, 0.6, 1.1, 9};
    e->loader_by_consumer = (measure_interval){0.85, 0.7, 1.2, 9};
}
static void another_program(evidence *e) {
    *e = run_of(900000, 300000, 265847, 154, 89);
    e->workers = 0;
    e->n_workers = 0;
    e->trains = true;
}
static void another_program_without_interval(evidence *e) {
    another_program(e);
    e->rounds = 4;
    e->both_by_consumer.low = e->both_by_consumer.high = NAN;
}

/* ---- Sentences ------------------------------------------------------------------------------- */

typedef struct sentence {
    const char *name;
    void (*build)(evidence *e);
    /* text without `says`; of the first change, or NULL */
    const char *limit, *says, *text, *change, *advice;
} sentence;

#define RUN(name) #name, name

static const sentence sentences[] = {
    {RUN(consumer_costs_a_little), "consumer",
     "The consumer is the limit, not the loader: feeding it costs 2.0 % of the time [1.0 %, 3.0 "
     "%].",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 70.0 "
     "k, the consumer 10.0 k; together 9.80 k. The consumer spends 0 % of the time in next().",
     NULL, NULL},
    {RUN(consumer_costs_unclear), "consumer",
     "The consumer is the limit, not the loader: feeding it costs nothing that can be measured (at "
     "most 19 % of the time).",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 70.0 "
     "k, the consumer 10.0 k; together 9.53 k. The consumer spends 0 % of the time in next(). "
     "Confidence: low.",
     NULL, NULL},
    {RUN(consumer_costs_nothing), "consumer",
     "The consumer is the limit, not the loader: feeding it costs nothing.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 70.0 "
     "k, the consumer 10.0 k; together 10.1 k. The consumer spends 0 % of the time in next().",
     NULL, NULL},
    {RUN(trainer_without_interval), "consumer",
     "The trainer is the limit, not the loader: feeding it costs about 2.0 % of the time.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 70.0 "
     "k, the trainer 10.0 k; together 9.80 k. The trainer spends 0 % of the time in next(). "
     "Confidence: low, after 3 rounds.",
     NULL, NULL},
    {RUN(reading), "read",
     "Reading is the limit: it is the largest part of the loader's work, and feeding the consumer "
     "costs 52 % of the time [51 %, 53 %]. Reading alone gives 15.4 MB/s.",
     " Samples a second, each alone: reading 5.00 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "source pread -> memory: +108 % [+102 %, +115 %] (10.0 k samples/s); then the consumer is the "
     "limit",
     "--source memory"},
    {RUN(reading_urls), "read",
     "Reading is the limit: it is the largest part of the loader's work, and feeding the "
     "consumer costs 52 % of the time [51 %, 53 %]. Reading alone gives 15.4 MB/s. An answer "
     "takes 10.0 ms, 98 % of it before its first byte, with about 62 of at most 64 requests in"
     " flight: more of them at once help, and cache=DIR in later epochs.",
     " Samples a second, each alone: reading 5.00 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "source pread -> memory: +108 % [+102 %, +115 %] (10.0 k samples/s); then the consumer is the "
     "limit",
     "--source memory"},
    {RUN(reading_large_urls), "read",
     "Reading is the limit: it is the largest part of the loader's work, and feeding the "
     "consumer costs 52 % of the time [51 %, 53 %]. Reading alone gives 15.4 MB/s. Answers of "
     "63.5 KiB take 10.0 ms, most of it for their bytes: the link or the server is full. "
     "cache=DIR reads each byte from it once.",
     " Samples a second, each alone: reading 5.00 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "source pread -> memory: +108 % [+102 %, +115 %] (10.0 k samples/s); then the consumer is the "
     "limit",
     "--source memory"},
    {RUN(reading_small_urls), "read",
     "Reading is the limit: it is the largest part of the loader's work, and feeding the "
     "consumer costs 52 % of the time [51 %, 53 %]. Reading alone gives 15.4 MB/s. Each "
     "request brings 63.5 KiB, and its own CPU time is most of the work: a block shuffle asks "
     "for neighbours at once, cache=DIR asks once.",
     " Samples a second, each alone: reading 5.00 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "source pread -> memory: +108 % [+102 %, +115 %] (10.0 k samples/s); then the consumer is the "
     "limit",
     "--source memory"},
    {RUN(reading_refused), "read",
     "Reading is the limit: it is the largest part of the loader's work, and feeding the "
     "consumer costs 52 % of the time [51 %, 53 %]. Reading alone gives 15.4 MB/s. The server "
     "refuses 20 % of the requests (429 or 503), so fewer and larger ones help: a block "
     "shuffle, or cache=DIR for later epochs.",
     " Samples a second, each alone: reading 5.00 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "source pread -> memory: +108 % [+102 %, +115 %] (10.0 k samples/s); then the consumer is the "
     "limit",
     "--source memory"},
    {RUN(decoding), "decode",
     "Decoding is the limit: it is the largest part of the loader's work, and feeding the consumer "
     "costs 52 % of the time [51 %, 53 %].",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 52 % of the time in next(). A "
     "thread was ready to run but had no core for 30 % of the time.",
     NULL, NULL},
    {RUN(copying_rows), "decode",
     "The consumer itself takes most of the time. Feeding it costs about 3.2 % of the time, and "
     "the largest part of that is copying rows as they are stored.",
     " Samples a second, each alone: the loader 303 k, the consumer 10.0 k; together 9.68 k. The "
     "consumer spends 0 % of the time in next(). Confidence: low.",
     NULL, NULL},
    {RUN(making_samples), "decode",
     "Making samples in get() is the limit: it is the largest part of the loader's work, and "
     "feeding the consumer costs 52 % of the time [51 %, 53 %].",
     " Samples a second, each alone: reading and decoding 4.90 k, the loader 4.80 k, the consumer "
     "10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     NULL, NULL},
    {RUN(chain), "transform",
     "The chain (blur) is the limit: it is the largest part of the loader's work, and feeding the "
     "consumer costs 52 % of the time [51 %, 53 %].",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 0 % of the time in next().",
     "chain with blur -> without it: +108 % [+102 %, +115 %] (10.0 k samples/s), as an experiment: "
     "the batches differ; then the consumer is the limit",
     "the chain without blur"},
    {RUN(chain_of_a_loader_alone), "transform",
     "The chain (blur) is the limit: it takes 94 % of the loader's time.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 5.00 "
     "k.",
     NULL, NULL},
    {RUN(decoding_of_photos_alone), "decode",
     "Decoding is the limit: it takes about 84 % of the loader's time.",
     " Samples a second, each alone: reading 90.0 k, the loader 5.00 k.",
     "chain jpeg-scale=exact -> jpeg-scale=fast: +40 % [+39 %, +41 %] (7.00 k samples/s), as an "
     "experiment: the batches differ; then the same limit holds again",
     "jpeg-scale=fast in the chain"},
    {RUN(parts_that_cannot_be_told), "transform",
     "The chain (blur) is the largest part of the loader's work, as far as can be told.",
     " Samples a second, each alone: reading 1.00 M, reading and decoding 11.0 k, the loader 5.00 "
     "k. Confidence: low.",
     NULL, NULL},
    {RUN(one_at_a_time), "turn",
     "get() is the limit: this dataset lets in one worker at a time, so 2 workers make no more "
     "than one would, and feeding the consumer costs 52 % of the time [51 %, 53 %]. If get() may "
     "run "
     "in several threads at once, say so: set iter_dataset_ops.parallel, or give the dataset "
     "start() "
     "and stop().",
     " Samples a second, each alone: reading and decoding 4.90 k, the loader 4.80 k, the consumer "
     "10.0 k; together 4.80 k. The consumer spends 0 % of the time in next(). None of the changes "
     "that were tried would gain 3.0 %.",
     NULL, NULL},
    {RUN(slow_worker), "worker",
     "One slow worker is the limit: worker 1 takes 20.0 times as long over a chunk as the others. "
     "Batches come in order, so all wait for it, and feeding the consumer costs 60 % of the time "
     "[59 %, 61 %]. Its samples may also be larger: without a shuffle they need not be alike.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 5.00 k, the consumer "
     "10.0 k; together 4.00 k. The consumer spends 60 % of the time in next(). Confidence: low.",
     NULL, NULL},
    {RUN(slow_worker_alone), "worker",
     "One slow worker is the limit: worker 1 takes 20.0 times as long over a chunk as the others. "
     "Batches come in order, so all wait for it.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 5.00 k.", NULL, NULL},
    {RUN(larger_samples), "decode",
     "Decoding is the limit: it is the largest part of the loader's work, and feeding the consumer "
     "costs 54 % of the time [53 %, 55 %].",
     " Samples a second, each alone: reading and decoding 4.80 k, the loader 4.70 k, the consumer "
     "10.0 k; together 4.60 k. The consumer spends 0 % of the time in next(). Worker 1 takes 3.00 "
     "times as long over a chunk as the others, over samples that are 3.00 times as large; a "
     "shuffle would spread them.",
     NULL, NULL},
    {RUN(no_worker), "workers",
     "The loader has no worker, so the consumer waits while it works, which costs about 50 % of "
     "the time.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 10.0 k, the consumer "
     "10.0 k; together 5.00 k. The consumer spends 50 % of the time in next().",
     "workers 0 -> 1: +100 % [+94 %, +106 %] (10.0 k samples/s); then the consumer is the limit",
     "--workers 1"},
    {RUN(too_few_workers), "workers",
     "2 workers are too few: feeding the consumer costs 70 % of the time [70 %, 71 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 3.00 k, the consumer "
     "10.0 k; together 2.99 k. The consumer spends 0 % of the time in next().",
     "workers 2 -> 7: +220 % [+211 %, +230 %] (9.57 k samples/s); then the chain is the limit",
     "--workers 7"},
    {RUN(too_few_workers_alone), "workers",
     "1 worker is too few: more of them make more samples a second.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 3.00 k.",
     "workers 2 -> 7: +220 % [+217 %, +223 %] (9.60 k samples/s); then the chain is the limit",
     "--workers 7"},
    {RUN(no_worker_alone), "workers",
     "The loader has no worker: all its work is done in the caller's thread.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 3.00 k.",
     "workers 2 -> 7: +220 % [+217 %, +223 %] (9.60 k samples/s); then the chain is the limit",
     "--workers 7"},
    {RUN(workers_that_may_not_help), "workers",
     "2 workers may be too few: feeding the consumer costs 70 % of the time [70 %, 71 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 3.00 k, the consumer "
     "10.0 k; together 2.99 k. The consumer spends 0 % of the time in next(). Confidence: low.",
     "workers 2 -> 7: no difference that can be told [-12 %, +244 %]; then the chain is the limit",
     "--workers 7"},
    {RUN(uneven), "prefetch",
     "Too few batches are made ahead. The loader is fast enough on average, but batches come "
     "unevenly; waiting for late ones costs 40 % of the time [39 %, 41 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 20.0 k, the consumer "
     "10.0 k; together 6.00 k. The consumer spends 40 % of the time in next().",
     "prefetch 2 -> 16: +67 % [+62 %, +72 %] (10.0 k samples/s); then the consumer is the limit",
     "--prefetch 16"},
    {RUN(layout), "layout",
     "The layout is the limit: the consumer turns every batch (nhwc to nchw), which takes 3.20 ms "
     "a batch and 50 % of the time.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 70.0 k, the consumer "
     "10.0 k; together 9.95 k. The consumer spends 0 % of the time in next().",
     "layout to:nhwc -> to:nchw: +100 % [+94 %, +106 %] (19.9 k samples/s); then the consumer is "
     "the limit",
     "to:nchw in the chain"},
    {RUN(layout_beside_another_limit), "decode",
     "Decoding is the limit: it is the largest part of the loader's work, and feeding the consumer "
     "costs 52 % of the time [51 %, 53 %].",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 4.90 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.80 k. The consumer spends 52 % of the time in next(). The "
     "consumer turns the layout of every batch (nhwc to nchw), which takes 100 us; `to:` with nchw "
     "avoids it.",
     NULL, NULL},
    {RUN(small_batch), "batch",
     "A batch of 8 is too small: the fixed cost of each batch takes 75 % of the time.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 70.0 k, the trainer "
     "10.0 k; together 9.95 k. The trainer spends 0 % of the time in next().",
     "batch this -> that: +300 % [+288 %, +312 %] (39.8 k samples/s); then the trainer is the "
     "limit",
     "--batch that"},
    {RUN(small_batch_unclear), "batch", "A batch of 8 may be too small; its cost cannot be told.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 70.0 k, the trainer "
     "10.0 k; together 9.95 k. The trainer spends 0 % of the time in next(). Confidence: low.",
     "batch this -> that: no difference that can be told [-21 %, +312 %]; then the trainer is the "
     "limit",
     "--batch that"},
    {RUN(small_batch_without_interval), "batch",
     "A batch of 8 is too small: the fixed cost of each batch takes about 75 % of the time.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 70.0 k, the trainer "
     "10.0 k; together 9.95 k. The trainer spends 0 % of the time in next(). Confidence: low.",
     "batch this -> that: about +300 % (39.8 k samples/s); then the trainer is the limit",
     "--batch that"},
    {RUN(full_cores), "cpu",
     "The 2 cores are the limit: threads of loader and trainer take them from one another, which "
     "costs 50 % of the time [49 %, 51 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 20.0 k, the trainer "
     "10.0 k; together 5.00 k. The trainer spends 0 % of the time in next().",
     NULL, NULL},
    {RUN(one_core), "cpu",
     "The only core is the limit: threads of loader and trainer take turns on it, which costs 50 % "
     "of the time [49 %, 51 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 20.0 k, the trainer "
     "10.0 k; together 5.00 k. The trainer spends 0 % of the time in next(). Confidence: low.",
     NULL, NULL},
    {RUN(many_threads), "cpu",
     "The 4 cores are the limit: threads of loader and trainer take them from one another; the "
     "trainer has 12 threads.",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 70.0 k, the trainer "
     "10.0 k; together 9.95 k. The trainer spends 0 % of the time in next(). A thread was ready to "
     "run but had no core for 30 % of the time.",
     "threads 12 -> 4: +50 % [+46 %, +55 %] (14.9 k samples/s); then the trainer is the limit",
     "--threads 4"},
    {RUN(shared_caches), "cpu",
     "Loader and consumer are slower side by side than each alone, though neither waits for the "
     "other: sharing caches, memory and the clock costs 40 % of the time [39 %, 41 %].",
     " Samples a second, each alone: reading and decoding 80.0 k, the loader 20.0 k, the consumer "
     "10.0 k; together 6.00 k. The consumer spends 2.0 % of the time in next(). Confidence: low.",
     NULL, NULL},
    {RUN(link), "copy",
     "The link to the GPU is the limit: each sample sends 12.0 KiB over it, and it carries 60.0 "
     "MB/s; feeding the consumer costs 52 % of the time [51 %, 53 %].",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 4.80 "
     "k, the consumer 10.0 k; together 4.79 k. The consumer spends 0 % of the time in next(). Over "
     "batches that are on the GPU already it takes 10.1 k a second.",
     "finish auto -> device: +108 % [+102 %, +115 %] (9.98 k samples/s); then the consumer is the "
     "limit",
     "--finish device"},
    {RUN(link_alone), "copy",
     "The link to the GPU is the limit: each sample sends 12.0 KiB over it, and it carries 60.0 "
     "MB/s; copies take about 98 % of the loader's time.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 4.80 "
     "k.",
     NULL, NULL},
    {RUN(race_without_interval), "none",
     "No bottleneck can be told: the loader alone runs at about 0.950 times the consumer's rate.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 9.50 "
     "k, the consumer 10.0 k; together 9.90 k. The consumer spends 0 % of the time in next(). "
     "Confidence: low, after 5 rounds.",
     NULL, NULL},
    {RUN(equals), "none",
     "There is no bottleneck that can be measured: loader and consumer are equally fast.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 10.1 "
     "k, the consumer 10.0 k; together 9.95 k. The consumer spends 0 % of the time in next(). "
     "Confidence: low.",
     NULL, NULL},
    {RUN(not_told_apart), "none",
     "No bottleneck can be told: loader and consumer cannot be told apart. The loader alone runs "
     "at 0.406 to 2.55 times the consumer's rate.",
     " Samples a second, each alone: reading 900 k, reading and decoding 800 k, the loader 120 k, "
     "the consumer 62.0 k; together 62.0 k. The consumer spends 0 % of the time in next(). The "
     "machine's speed moved around 4 of 9 rounds. Confidence: low.",
     NULL, NULL},
    {RUN(slower_and_yet_enough), "none",
     "No bottleneck can be told: feeding the consumer costs nothing that can be measured, although "
     "the loader alone is slower. These figures contradict one another.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 8.50 "
     "k, the consumer 10.0 k; together 9.90 k. The consumer spends 0 % of the time in next(). "
     "Confidence: low.",
     NULL, NULL},
    {RUN(together_unclear), "none",
     "No bottleneck can be told: together they reach between 60 % and 110 % of what the consumer "
     "takes alone.",
     " Samples a second, each alone: reading 90.0 k, reading and decoding 80.0 k, the loader 8.50 "
     "k, the consumer 10.0 k; together 8.40 k. The consumer spends 0 % of the time in next(). "
     "Confidence: low.",
     NULL, NULL},
    {RUN(another_program), "none",
     "No bottleneck can be told: together they reach between 57 % and 59 % of what the trainer "
     "takes alone. The loader, which works in its thread, can take under 0.1 % of the time; what "
     "took the rest is unknown, perhaps another program.",
     " Samples a second, each alone: reading 900 k, reading and decoding 300 k, the loader 266 k, "
     "the trainer 154; together 89. The trainer spends 0 % of the time in next(). Confidence: low.",
     NULL, NULL},
    {RUN(another_program_without_interval), "none",
     "No bottleneck can be told: together they reach about 58 % of what the trainer takes alone. "
     "The loader, which works in its thread, can take under 0.1 % of the time; what took the rest "
     "is unknown, perhaps another program.",
     " Samples a second, each alone: reading 900 k, reading and decoding 300 k, the loader 266 k, "
     "the trainer 154; together 89. The trainer spends 0 % of the time in next(). Confidence: low, "
     "after 4 rounds.",
     NULL, NULL},
};

Test(bench_sentences, each_says_what_its_evidence_allows) {
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
        const sentence *s = &sentences[i];
        evidence e;
        s->build(&e);
        const verdict v = verdict_make(&e);
        const size_t n = strlen(s->says);
        cr_expect_str_eq(verdict_limit_text(v.limit), s->limit, "%s: %s", s->name,
                         verdict_limit_text(v.limit));
        cr_expect_str_eq(v.says, s->says, "%s: %s", s->name, v.says);
        cr_expect(strncmp(v.text, s->says, n) == 0 && strcmp(v.text + n, s->text) == 0, "%s: %s",
                  s->name, v.text);
        cr_assert_eq(v.n_changes > 0, s->change != NULL, "%s", s->name);
        if (s->change == NULL) continue;
        cr_expect_str_eq(v.changes[0].text, s->change, "%s: %s", s->name, v.changes[0].text);
        cr_expect_str_eq(v.changes[0].advice, s->advice, "%s: %s", s->name, v.changes[0].advice);
    }
}

/* The table must have every limit. */
Test(bench_sentences, no_limit_is_left_out) {
    for (int limit = LIMIT_NONE; limit <= LIMIT_TURN; limit++) {
        bool found = false;
        for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
            found = found || strcmp(sentences[i].limit, verdict_limit_text(limit)) == 0;
        cr_expect(found, "%s", verdict_limit_text(limit));
    }
}
