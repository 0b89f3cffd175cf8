/*
 * cmd_sweep.c - `iterbench --model NAME --sweep loader`: every setting of the loader in front of
 * one trainer, in the same rounds. Beside them run emulations of loaders in interpreted languages
 * (emulate.h), to explain the gap between theirs and ours.
 *
 * A setting's time is divided into shares by three figures: the part w that the trainer spent in
 * next(), the trainer's own time alone, t0, and the time of a sample, t. Without workers w is the
 * loader's work; with workers it is waiting. The rest, (1 - w) t, is the trainer at work; the part
 * of it beyond t0 is the cost of sharing cores and memory.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/common/page.h"
#include "bench/emulate.h"
#include "bench/iterbench.h"
#include "bench/train_arms.h"
#include "diagnose/report_html.h"
#include "diagnose/words.h"

/* ---- Types ----------------------------------------------------------------------------------- */

/* A setting of the loader in a sweep. */
typedef struct setting {
    const char *name;
    bool ndarray;
    int64_t workers;
    uint64_t prefetch;
    int32_t shuffle;
    bool emulates;
    uint32_t mechanisms; /* emulate_mechanism */
} setting;

static const setting settings[] = {
    {"ndarray, inline, in order", true, 0, 0, ITER_SHUFFLE_NONE, false, 0},
    {"ndarray, inline, shuffled", true, 0, 0, ITER_SHUFFLE_FULL, false, 0},
    {"ndarray, 1 worker, shuffled", true, 1, 0, ITER_SHUFFLE_FULL, false, 0},
    {"dataloader, inline, in order", false, 0, 0, ITER_SHUFFLE_NONE, false, 0},
    {"dataloader, inline, shuffled", false, 0, 0, ITER_SHUFFLE_FULL, false, 0},
    {"dataloader, 1 worker, in order", false, 1, 0, ITER_SHUFFLE_NONE, false, 0},
    {"dataloader, 1 worker, shuffled", false, 1, 0, ITER_SHUFFLE_FULL, false, 0},
    {"dataloader, 2 workers, shuffled", false, 2, 0, ITER_SHUFFLE_FULL, false, 0},
    {"dataloader, 2 workers, prefetch 8", false, 2, 8, ITER_SHUFFLE_FULL, false, 0},
    {"emulated: dispatch", false, 0, 0, ITER_SHUFFLE_NONE, true, EMULATE_DISPATCH},
    {"emulated: collate copy", false, 0, 0, ITER_SHUFFLE_NONE, true, EMULATE_COLLATE},
    {"emulated: worker hand-over", false, 0, 0, ITER_SHUFFLE_NONE, true, EMULATE_WORKER},
    {"emulated: dispatch, collate", false, 0, 0, ITER_SHUFFLE_NONE, true,
     EMULATE_DISPATCH | EMULATE_COLLATE},
    {"emulated: all three", false, 0, 0, ITER_SHUFFLE_NONE, true,
     EMULATE_DISPATCH | EMULATE_COLLATE | EMULATE_WORKER},
};
#define N_SETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))
_Static_assert(sizeof(settings) / sizeof(settings[0]) < MEASURE_SIDES_MAX, "one side each");

/* Shares of a setting's time; their sum is 1. */
typedef struct time_shares {
    double trainer, loader, waiting, contention;
    double cores; /* busy on average */
} time_shares;

/* Seconds per epoch of the plain loader, and what each mechanism adds. */
typedef struct gap {
    double plain;
    measure_interval dispatch, collate, worker, both, all;
} gap;

typedef struct sweep_run {
    train_arms t; /* one arm per setting */
    bench_options varied[N_SETTINGS];
    iter_dataset *emulated[N_SETTINGS];
    time_shares shares[N_SETTINGS];
    char says[N_SETTINGS][160];
    gap gap;
    char verdict[512];
    char answer[2048];
} sweep_run;

/* ---- Measuring ------------------------------------------------------------------------------- */

static iter_status open_settings(sweep_run *r, iter_error *err) {
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < N_SETTINGS; i++) {
        const setting *want = &settings[i];
        bench_options *o = &r->varied[i];
        *o = r->t.loader;
        o->workers = want->workers;
        o->prefetch = want->prefetch;
        o->shuffle = want->shuffle;
        o->sampler = NULL;
        if (want->emulates) {
            s = emulate_create(&r->t.arrays, want->mechanisms, (uint32_t)o->batch, &r->emulated[i],
                               err);
            o->dataset = r->emulated[i];
            o->last_batch = ITER_LAST_KEEP; /* a stream allows nothing else and reads nothing */
            o->source = ITER_SOURCE_AUTO;
            o->o_direct = false;
        }
        if (s == ITER_OK) s = train_arms_add(&r->t, o, want->ndarray, err);
    }
    return s;
}

static iter_status measure(sweep_run *r, const bench_options *options, iter_error *err) {
    measure_side sides[N_SETTINGS + 1];
    iter_status s = train_arms_open(options, false, true, &r->t, err);
    if (s == ITER_OK) s = open_settings(r, err);
    if (s < 0) return s;
    sides[0] = feed_side(&r->t.feed, "trainer");
    for (int i = 0; i < N_SETTINGS; i++)
        sides[i + 1] = arm_side(&r->t.arms[i]);
    return train_arms_measure(&r->t, sides, N_SETTINGS + 1, 0, err);
}

/* ---- Report ---------------------------------------------------------------------------------- */

static bool has_worker(const setting *s) {
    return s->workers != 0 || (s->mechanisms & EMULATE_WORKER) != 0;
}

static time_shares shares_of(const train_arms *t, int i) {
    const bench_arm *arm = &t->arms[i];
    const double wait = fmin(fmax(train_wait_share(arm), 0), 1);
    const double alone = 1 / (1 + t->cost[i + 1].median);
    time_shares out = {.trainer = fmin(alone, 1 - wait)};
    out.contention = 1 - wait - out.trainer;
    *(has_worker(&settings[i]) ? &out.waiting : &out.loader) = wait;
    out.cores = (double)arm->cpu_ns * 1e-9 / arm->seconds;
    return out;
}

static void say_shares(const time_shares *s, const setting *set, int threads, int cores,
                       char out[160]) {
    int n = snprintf(out, 160, "trainer %.0f %%", 100 * s->trainer);
    if (!has_worker(set))
        n += snprintf(out + n, 160 - (size_t)n, ", loader in the trainer's thread %.0f %%",
                      100 * s->loader);
    else
        n += snprintf(out + n, 160 - (size_t)n, ", waiting for %s %.0f %%",
                      set->emulates ? "the worker and its pipe" : "workers", 100 * s->waiting);
    const int workers = set->emulates ? 1 : (int)set->workers;
    if (s->contention >= 0.01)
        snprintf(out + n, 160 - (size_t)n, ", %s %.0f %% (%.1f of %d cores busy)",
                 !has_worker(set)            ? "slower steps beside it"
                 : threads + workers > cores ? "sharing the cores"
                                             : "sharing memory",
                 100 * s->contention, s->cores, cores);
}

static int setting_of(uint32_t mechanisms) {
    int i = 0;
    while (settings[i].mechanisms != mechanisms)
        i++;
    return i;
}

/* The plain loader with the same order as the emulated ones. */
static int plain_setting(void) {
    int i = 0;
    while (settings[i].ndarray || settings[i].workers != 0 ||
           settings[i].shuffle != ITER_SHUFFLE_NONE)
        i++;
    return i;
}

static double epoch_s(const train_arms *t, int i) {
    return (double)t->n_samples / t->rates[i + 1].median;
}

/* The time that a setting adds to the plain one, by the median of the same rounds. */
static iter_status added(const train_arms *t, double plain_s, uint32_t mechanisms,
                         measure_interval *out, iter_error *err) {
    measure_interval ratio; /* time of it / time of the plain one */
    iter_status s = measure_rounds_ratio(&t->rounds, setting_of(mechanisms) + 1,
                                         plain_setting() + 1, &ratio, err);
    *out = (measure_interval){plain_s * (ratio.median - 1), plain_s * (ratio.low - 1),
                              plain_s * (ratio.high - 1), ratio.n};
    return s;
}

static iter_status gap_of(const train_arms *t, gap *g, iter_error *err) {
    const struct {
        uint32_t mechanisms;
        measure_interval *out;
    } parts[] = {{EMULATE_DISPATCH, &g->dispatch},
                 {EMULATE_COLLATE, &g->collate},
                 {EMULATE_WORKER, &g->worker},
                 {EMULATE_DISPATCH | EMULATE_COLLATE, &g->both},
                 {EMULATE_DISPATCH | EMULATE_COLLATE | EMULATE_WORKER, &g->all}};
    iter_status s = ITER_OK;
    g->plain = epoch_s(t, plain_setting());
    for (size_t i = 0; s == ITER_OK && i < sizeof(parts) / sizeof(parts[0]); i++)
        s = added(t, g->plain, parts[i].mechanisms, parts[i].out, err);
    return s;
}

/* Whether an addition can be told from zero. */
static bool adds(const measure_interval *seconds) {
    const words_side side = words_side_of(seconds, 0);
    return side == WORDS_ABOVE || (side == WORDS_UNKNOWN && seconds->median > 0);
}

/* "123 ms", or "nothing that can be measured". */
static const char *say_added(const measure_interval *seconds, char out[WORDS_PHRASE]) {
    char time[WORDS_NUMBER];
    if (!adds(seconds)) return strcpy(out, "nothing that can be measured");
    snprintf(out, WORDS_PHRASE, "%s%s", isfinite(seconds->low) ? "" : "about ",
             words_time(seconds->median * 1e9, time));
    return out;
}

/* Divides the common cost of dispatch and collate between the two. */
static void say_parts(const gap *g, char out[320]) {
    const double rest = g->both.median - g->dispatch.median - g->collate.median;
    char factor[WORDS_NUMBER], dispatch[WORDS_NUMBER], collate[WORDS_NUMBER], more[WORDS_NUMBER];
    if (g->both.median < 0.1 * g->plain || !adds(&g->both) || !adds(&g->dispatch) ||
        !adds(&g->collate)) {
        snprintf(out, 320, "too little to be taken apart here");
        return;
    }
    const int n = snprintf(out, 320, "%s times as long, of which dispatch is %s and the copy %s",
                           words_factor((g->plain + g->both.median) / g->plain, factor),
                           words_percent(g->dispatch.median / g->both.median, dispatch),
                           words_percent(g->collate.median / g->both.median, collate));
    if (fabs(rest) >= 0.05 * g->both.median)
        snprintf(out + n, 320 - (size_t)n, " (together %s %s than one by one)",
                 words_percent(fabs(rest) / g->both.median, more), rest > 0 ? "more" : "less");
}

/* Compares all three with dispatch and copy alone; "" if those add nothing that can be measured. */
static const char *what_the_worker_hides(const gap *g) {
    if (!adds(&g->both) || words_side_of(&g->all, 0) == WORDS_UNCLEAR) return "";
    if (g->all.median < 0.3 * g->both.median) return ": the worker hides most of that time";
    if (g->all.median < 0.95 * g->both.median)
        return ": the worker hides a part of that time, but it has the same work to do and a copy "
               "more, on cores that the trainer uses";
    return ": the worker hides nothing of that time, for it has the same work to do and a copy "
           "more, "
           "on cores that the trainer uses";
}

static void say_answer(sweep_run *r) {
    const train_arms *t = &r->t;
    const gap *g = &r->gap;
    const double trainer = (double)t->n_samples / t->rates[0].median;
    char parts[320], dispatch[WORDS_PHRASE], collate[WORDS_PHRASE], both[WORDS_PHRASE],
        worker[WORDS_PHRASE], time[5][WORDS_NUMBER], together[512] = "";
    int n = 0;
    say_parts(g, parts);
    if (t->options->model == BENCH_MODEL_MLP)
        n = snprintf(
            r->answer, sizeof(r->answer),
            "Published for 20 epochs of this network: 47 s by a DataLoader in Python, 37 s "
            "with static memory in the trainer, 20 s with an iterator over arrays. 10 s "
            "were the trainer's own, whose memory is planned once here; 17 s, 9.4 us a "
            "sample, the DataLoader's. ");
    if (adds(&g->both))
        snprintf(together, sizeof(together), ", %s a sample: %s",
                 words_time(g->both.median * 1e9 / (double)t->n_samples, time[3]), parts);
    snprintf(r->answer + n, sizeof(r->answer) - (size_t)n,
             "Why is such a DataLoader slower? It works on every sample by itself, and nothing "
             "overlaps with that. Here an epoch takes %s without any loader, %s by this library's "
             "DataLoader and %s by its NDArrayIter. A call into an interpreter for every field of "
             "every sample (%.1f us each, as measured of one) adds %s. An object and a second copy "
             "of every sample add %s. Both together add %s%s. A worker that hands batches over "
             "through a pipe adds %s by itself. With all three an epoch takes %s%s. Here a row is "
             "written once, into the memory that the trainer reads, by loops over whole batches.",
             words_time(trainer * 1e9, time[0]), words_time(g->plain * 1e9, time[1]),
             words_time(epoch_s(t, 0) * 1e9, time[2]), EMULATE_DISPATCH_NS * 1e-3,
             say_added(&g->dispatch, dispatch), say_added(&g->collate, collate),
             say_added(&g->both, both), together, say_added(&g->worker, worker),
             words_time((g->plain + g->all.median) * 1e9, time[4]), what_the_worker_hides(g));
}

static iter_status say_verdict(sweep_run *r, iter_error *err) {
    const train_arms *t = &r->t;
    int best = 0, worst = 0;
    for (int i = 0; i < N_SETTINGS; i++) {
        if (settings[i].emulates) continue;
        if (t->rates[i + 1].median > t->rates[best + 1].median) best = i;
        if (t->rates[i + 1].median < t->rates[worst + 1].median) worst = i;
    }
    measure_interval ratio; /* time of the worst / time of the best */
    iter_status s = measure_rounds_ratio(&t->rounds, worst + 1, best + 1, &ratio, err);
    if (s < 0) return s;
    char median[WORDS_NUMBER], low[WORDS_NUMBER], high[WORDS_NUMBER];
    words_factor(ratio.median, median);
    words_factor(ratio.low, low);
    words_factor(ratio.high, high);
    switch (words_side_of(&ratio, 1)) {
    case WORDS_UNKNOWN:
        snprintf(
            r->verdict, sizeof(r->verdict),
            "Of our settings '%s' is best; the worst, '%s', takes about %s times as long, after "
            "too few rounds for an interval.",
            settings[best].name, settings[worst].name, median);
        break;
    case WORDS_UNCLEAR:
        snprintf(
            r->verdict, sizeof(r->verdict),
            "No two of our settings can be told apart: the last, '%s', takes %s to %s times as "
            "long as the first, '%s'.",
            settings[worst].name, low, high, settings[best].name);
        break;
    default:
        snprintf(r->verdict, sizeof(r->verdict),
                 "Of our settings '%s' is best; the worst, '%s', takes %s times as long [%s, %s].",
                 settings[best].name, settings[worst].name, median, low, high);
    }
    return s;
}

static iter_status say(sweep_run *r, iter_error *err) {
    const int cores = bench_machine_here().cores;
    const int threads = (int)iter_trainer_describe(r->t.feed.trainer).threads;
    for (int i = 0; i < N_SETTINGS; i++) {
        r->shares[i] = shares_of(&r->t, i);
        say_shares(&r->shares[i], &settings[i], threads, cores, r->says[i]);
    }
    iter_status s = say_verdict(r, err);
    if (s == ITER_OK) s = gap_of(&r->t, &r->gap, err);
    if (s == ITER_OK) say_answer(r);
    return s;
}

static void print(const sweep_run *r) {
    const train_arms *t = &r->t;
    const page p = page_of(stdout);
    char rate[WORDS_NUMBER], epoch[WORDS_NUMBER], waits[WORDS_NUMBER], cpu[WORDS_NUMBER];
    train_head_print(t, &p);
    printf("%-33s %9s %8s %11s %7s  %s\n", "", "samples/s", "epoch", "waiting", "CPU",
           "cost of feeding");
    printf("%-33s %9s %8s %11s %7s\n", "trainer alone (replayed batches)",
           words_count(t->rates[0].median, rate),
           words_time((double)t->n_samples / t->rates[0].median * 1e9, epoch), "",
           words_time(train_cpu_per_sample(t->feed.alone.cpu_ns, t->feed.alone.samples), cpu));
    for (int i = 0; i < N_SETTINGS; i++) {
        const bench_arm *arm = &t->arms[i];
        char cost[WORDS_PHRASE];
        printf("%-33s %9s %8s %11s %7s  %s\n", settings[i].name,
               words_count(t->rates[i + 1].median, rate), words_time(epoch_s(t, i) * 1e9, epoch),
               words_percent(train_wait_share(arm), waits),
               words_time(train_cpu_per_sample(arm->cpu_ns, arm->samples), cpu),
               train_cost_text(&t->cost[i + 1], cost));
    }
    putchar('\n');
    page_text(&p, 0, PAGE_STRONG, "where the time goes");
    for (int i = 0; i < N_SETTINGS; i++)
        page_row(&p, 34, settings[i].name, PAGE_PLAIN, "%s", r->says[i]);
    putchar('\n');
    page_text(&p, 0, PAGE_STRONG, r->verdict);
    putchar('\n');
    page_text(&p, 0, PAGE_PLAIN, r->answer);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_setting(json_writer *w, const sweep_run *r, int i) {
    const time_shares *s = &r->shares[i];
    json_begin(w, NULL, '{');
    json_text(w, "name", settings[i].name);
    json_bool(w, "emulated", settings[i].emulates);
    train_arm_json(w, &r->t, i + 1, &r->t.arms[i]);
    json_begin(w, "time", '{');
    json_number(w, "trainer", s->trainer);
    json_number(w, "loader", s->loader);
    json_number(w, "waiting", s->waiting);
    json_number(w, "contention", s->contention);
    json_end(w);
    json_number(w, "cores_busy", s->cores);
    json_text(w, "says", r->says[i]);
    json_end(w);
}

static void write_gap(json_writer *w, const gap *g) {
    json_begin(w, "gap", '{');
    json_number(w, "plain_s", g->plain);
    json_number(w, "dispatch_s", g->dispatch.median);
    json_number(w, "collate_s", g->collate.median);
    json_number(w, "worker_s", g->worker.median);
    json_number(w, "dispatch_collate_s", g->both.median);
    json_number(w, "all_s", g->all.median);
    json_end(w);
}

static void write_json(const void *user, FILE *out) {
    const sweep_run *r = user;
    json_writer writer = {.out = out}, *w = &writer;
    json_begin(w, NULL, '{');
    train_head_json(&r->t, "sweep", w);
    json_begin(w, "trainer", '{');
    train_arm_json(w, &r->t, 0, NULL);
    json_end(w);
    json_begin(w, "arms", '[');
    for (int i = 0; i < N_SETTINGS; i++)
        write_setting(w, r, i);
    json_end(w);
    train_rounds_json(&r->t, w);
    write_gap(w, &r->gap);
    json_text(w, "verdict", r->verdict);
    json_text(w, "answer", r->answer);
    json_end(w);
}

/* ---- Public ---------------------------------------------------------------------------------- */

int cmd_sweep(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    sweep_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    iter_status s = measure(r, options, &err);
    if (s == ITER_OK) s = say(r, &err);
    if (s == ITER_OK) {
        if (options->json == NULL || strcmp(options->json, "-") != 0) print(r);
        if (options->html != NULL) s = report_html_by(options->html, write_json, r, &err);
        if (s == ITER_OK && options->json != NULL)
            s = train_report_json(options->json, write_json, r, &err);
    }
    for (int i = 0; i < N_SETTINGS; i++)
        iter_dataset_unref(r->emulated[i]);
    train_arms_close(&r->t); /* then nothing uses the arrays that the emulated datasets borrow */
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
