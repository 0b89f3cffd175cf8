/*
 * cmd_train.c - `iterbench --model NAME`: trains, and says which of the two holds the run back.
 *
 * Three arms in turns: the loader alone, the trainer alone, both. Only neighbours in time are
 * compared; the cost of feeding is the median over rounds of t_both / t_trainer - 1. On few cores
 * loader and trainer compete, so the report has the CPU seconds of each: what the loader burns is
 * the floor under that cost where all cores train.
 *
 * --sweep loader measures `both` for every setting of the loader in the same rounds.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_machine.h"
#include "bench_util.h"
#include "feed.h"
#include "iterbench.h"

#define MIN_ROUNDS      7
#define DEFAULT_SECONDS 10.0
#define SLICE_S         0.25 /* at most, and */
#define SLICE_MIN_S     0.02
#define N_ARMS          3

/* ---- Types ----------------------------------------------------------------------------------- */

typedef enum arm_kind { ARM_LOADER = 0, ARM_TRAINER = 1, ARM_BOTH = 2 } arm_kind;
static const char *const arm_names[] = {"loader", "trainer", "both"};

/* A setting of the loader in a sweep. */
typedef struct setting {
    const char *name;
    bool ndarray;
    int64_t workers;
    uint64_t prefetch;
    int32_t shuffle;
} setting;

static const setting settings[] = {
    {"ndarray, inline, in order", true, 0, 0, ITER_SHUFFLE_NONE},
    {"ndarray, inline, shuffled", true, 0, 0, ITER_SHUFFLE_FULL},
    {"ndarray, 1 worker, shuffled", true, 1, 0, ITER_SHUFFLE_FULL},
    {"dataloader, inline, in order", false, 0, 0, ITER_SHUFFLE_NONE},
    {"dataloader, inline, shuffled", false, 0, 0, ITER_SHUFFLE_FULL},
    {"dataloader, 1 worker, in order", false, 1, 0, ITER_SHUFFLE_NONE},
    {"dataloader, 1 worker, shuffled", false, 1, 0, ITER_SHUFFLE_FULL},
    {"dataloader, 2 workers, shuffled", false, 2, 0, ITER_SHUFFLE_FULL},
    {"dataloader, 2 workers, prefetch 8", false, 2, 8, ITER_SHUFFLE_FULL},
};
#define N_SETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))
_Static_assert(sizeof(settings) / sizeof(settings[0]) < MEASURE_SIDES_MAX, "one side each");

typedef struct train_run {
    const bench_options *options;
    bench_options loader; /* with the model's chain */
    bench_options varied[N_SETTINGS];
    char chain[96];
    bench_arrays arrays;
    bool has_arrays;
    feed_trainer feed;
    bool has_feed;
    bench_arm arms[N_SETTINGS]; /* loader alone, both; or one a setting */
    int n_arms;
    measure_rounds rounds;
    measure_interval rates[MEASURE_SIDES_MAX];
    measure_interval cost[MEASURE_SIDES_MAX]; /* of feeding, beside the trainer alone */
    measure_interval loader_over_trainer;
    uint64_t n_samples;
    bool steady; /* the witness stood still around the rounds that count */
    char verdict[512];
} train_run;

/* ---- Set-up ---------------------------------------------------------------------------------- */

static iter_status open_arm(train_run *r, const bench_options *options, bool ndarray, bool trains,
                            iter_error *err) {
    bench_arm *arm = &r->arms[r->n_arms];
    iter_status s = arm_open(options, ndarray ? &r->arrays : NULL, arm, err);
    if (s < 0) return s;
    r->n_arms++;
    if (trains) feed_from(&r->feed, arm);
    return s;
}

static iter_status open_sweep(train_run *r, iter_error *err) {
    iter_status s = ITER_OK;
    for (int i = 0; s == ITER_OK && i < N_SETTINGS; i++) {
        r->varied[i] = r->loader;
        r->varied[i].workers = settings[i].workers;
        r->varied[i].prefetch = settings[i].prefetch;
        r->varied[i].shuffle = settings[i].shuffle;
        s = open_arm(r, &r->varied[i], settings[i].ndarray, true, err);
    }
    return s;
}

static iter_status open_all(train_run *r, iter_error *err) {
    const bench_options *o = r->options;
    const bool ndarray = o->loader == BENCH_NDARRAY && o->sweep == 0;
    iter_status s = feed_options(o, &r->loader, r->chain, err);
    if (s == ITER_OK && (ndarray || o->sweep != 0)) {
        s = bench_arrays_load(&r->loader, UINT64_MAX, &r->arrays, err);
        r->has_arrays = s == ITER_OK;
    }
    if (s == ITER_OK) {
        s = feed_open(o, ndarray ? &r->arrays : NULL, &r->feed, err);
        r->has_feed = s == ITER_OK;
    }
    if (s < 0) return s;
    r->n_samples = iter_loader_n_samples(r->feed.replay.loaders[0]);
    if (o->sweep != 0) return open_sweep(r, err);
    s = open_arm(r, &r->loader, ndarray, false, err);
    return s == ITER_OK ? open_arm(r, &r->loader, ndarray, true, err) : s;
}

static void close_all(train_run *r) {
    for (int i = 0; i < r->n_arms; i++)
        arm_close(&r->arms[i]);
    if (r->has_feed) feed_close(&r->feed);
    if (r->has_arrays) bench_arrays_free(&r->arrays);
    measure_rounds_free(&r->rounds);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static void after_round(void *user, uint32_t n_kept, uint32_t n_dropped) {
    const train_run *r = user;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K%s: round %u kept, %u dropped", bench_model_text(r->options->model),
            n_kept, n_dropped);
    fflush(stderr);
}

static iter_status measure(train_run *r, iter_error *err) {
    measure_side sides[MEASURE_SIDES_MAX];
    int n = 0, trainer = 0;
    if (r->options->sweep != 0) {
        sides[n++] = feed_side(&r->feed, "trainer");
        for (int i = 0; i < r->n_arms; i++)
            sides[n++] = arm_side(&r->arms[i]);
    } else {
        sides[n++] = arm_side(&r->arms[0]);
        trainer = n;
        sides[n++] = feed_side(&r->feed, "trainer");
        sides[n++] = arm_side(&r->arms[1]);
    }
    measure_options opt = MEASURE_OPTIONS_INIT;
    const double seconds = r->options->seconds > 0 ? r->options->seconds : DEFAULT_SECONDS;
    opt.slice_s = fmin(SLICE_S, fmax(seconds / (n * MIN_ROUNDS), SLICE_MIN_S));
    opt.warm_batches = 2;
    opt.min_pairs = MIN_ROUNDS;
    opt.min_s = seconds;
    opt.max_s = fmax(6 * seconds, 3);
    opt.after_pair = after_round;
    opt.after_user = r;
    iter_status s = measure_sides(sides, n, &opt, &r->rounds, err);
    r->steady = r->rounds.n_rounds > 0;
    if (s == ITER_OK && !r->steady) { /* better figures from a restless machine than none */
        const uint32_t dropped = r->rounds.n_dropped;
        measure_rounds_free(&r->rounds);
        opt.tolerance = INFINITY;
        opt.min_s = 0;
        s = measure_sides(sides, n, &opt, &r->rounds, err);
        r->rounds.n_dropped += dropped;
    }
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    for (int i = 0; s == ITER_OK && i < n; i++) {
        s = measure_rounds_ratio(&r->rounds, i, i, &r->rates[i], err);
        if (s == ITER_OK) s = measure_rounds_ratio(&r->rounds, i, trainer, &r->cost[i], err);
        r->cost[i].median -= 1;
        r->cost[i].low -= 1;
        r->cost[i].high -= 1;
    }
    if (s == ITER_OK)
        s = measure_rounds_ratio(&r->rounds, trainer, 0, &r->loader_over_trainer, err);
    return s;
}

/* ---- What it says ---------------------------------------------------------------------------- */

static double cpu_per_sample(uint64_t cpu_ns, uint64_t samples) {
    return samples > 0 ? (double)cpu_ns / (double)samples : NAN;
}

/* The loader's part of the CPU time that a sample takes in all. */
static double loader_cpu_share(const train_run *r) {
    double loader = cpu_per_sample(r->arms[0].cpu_ns, r->arms[0].samples);
    return loader / (loader + cpu_per_sample(r->feed.cpu_ns, r->feed.samples));
}

static double wait_share(const bench_arm *arm) {
    return arm->seconds > 0 ? (double)arm->wait_ns * 1e-9 / arm->seconds : NAN;
}

static void cost_text(const measure_interval *cost, char out[96]) {
    if (isfinite(cost->low))
        snprintf(out, 96, "%.1f %% [%.1f, %.1f]", 100 * cost->median, 100 * cost->low,
                 100 * cost->high);
    else
        snprintf(out, 96, "%.1f %%", 100 * cost->median);
}

static void say_verdict(train_run *r) {
    const double loader = r->rates[ARM_LOADER].median, trainer = r->rates[ARM_TRAINER].median;
    const measure_interval *ratio = &r->loader_over_trainer;
    char cost[96];
    cost_text(&r->cost[ARM_BOTH], cost);
    if (!isfinite(ratio->low) || (ratio->low <= 1 && ratio->high >= 1))
        snprintf(r->verdict, sizeof(r->verdict),
                 "Neither holds the other back by more than this run can tell: alone the loader "
                 "makes %.0f samples/s and the trainer %.0f; feeding costs %s.",
                 loader, trainer, cost);
    else if (ratio->median > 1)
        snprintf(r->verdict, sizeof(r->verdict),
                 "The trainer limits this run: alone it takes %.0f samples/s, and the loader alone "
                 "makes %.0f, %.3g times as many; feeding costs %s.",
                 trainer, loader, ratio->median, cost);
    else
        snprintf(r->verdict, sizeof(r->verdict),
                 "The loader limits this run: alone it makes %.0f samples/s, and the trainer alone "
                 "takes %.0f, %.3g times as many; feeding costs %s.",
                 loader, trainer, 1 / ratio->median, cost);
}

static void print_head(const train_run *r) {
    iter_trainer_info info = iter_trainer_describe(r->feed.trainer);
    printf("model          %s, batch %" PRIu64 ", %s, %u thread%s\n",
           bench_model_text(r->options->model), r->options->batch, info.backend, info.threads,
           info.threads == 1 ? "" : "s");
    printf("data           %s%s%s\n", r->options->data, r->loader.chain != NULL ? " | " : "",
           r->loader.chain != NULL ? r->loader.chain : "");
    if (info.n_converted > 0)
        printf("layout         %s in every batch, %.0f us; the chain's `to:` can ask for %s\n",
               info.convert_text, info.convert_seconds * 1e6 / (double)info.n_converted,
               iter_model_layout(r->feed.model, NULL));
    printf("rounds         %u kept, %u dropped%s\n\n", r->rounds.n_rounds, r->rounds.n_dropped,
           r->steady ? ""
                     : "; the machine's speed moved around every round, so none is dropped now");
}

static void print_arms(const train_run *r) {
    print_head(r);
    printf("%-10s %14s %26s %16s\n", "", "samples/s", "95 %", "CPU us/sample");
    for (int i = 0; i < N_ARMS; i++) {
        const bench_arm *arm = &r->arms[i == ARM_BOTH ? 1 : 0];
        const double cpu = i == ARM_TRAINER ? cpu_per_sample(r->feed.cpu_ns, r->feed.samples)
                                            : cpu_per_sample(arm->cpu_ns, arm->samples);
        char interval[48] = "";
        if (isfinite(r->rates[i].low))
            snprintf(interval, sizeof(interval), "[%.0f, %.0f]", r->rates[i].low, r->rates[i].high);
        printf("%-10s %14.0f %26s %16.2f\n", arm_names[i], r->rates[i].median, interval,
               cpu * 1e-3);
    }
    char cost[96];
    cost_text(&r->cost[ARM_BOTH], cost);
    printf("\ncost of feeding %s; the loader's share of CPU time %.2f %%; waiting %.2f %% of the "
           "time\n\n%s\n",
           cost, 100 * loader_cpu_share(r), 100 * wait_share(&r->arms[1]), r->verdict);
}

static void say_sweep(train_run *r) {
    int best = 1, worst = 1;
    for (int i = 2; i <= r->n_arms; i++) {
        if (r->rates[i].median > r->rates[best].median) best = i;
        if (r->rates[i].median < r->rates[worst].median) worst = i;
    }
    snprintf(r->verdict, sizeof(r->verdict),
             "Best is '%s'; the worst, '%s', takes %.2f times as long.", settings[best - 1].name,
             settings[worst - 1].name, r->rates[best].median / r->rates[worst].median);
}

static void print_sweep(const train_run *r) {
    print_head(r);
    printf("%-36s %12s %10s %9s %9s %s\n", "", "samples/s", "s/epoch", "waiting", "CPU us",
           "cost of feeding");
    printf("%-36s %12.0f %10.3f %9s %9.2f %s\n", "trainer alone (replayed batches)",
           r->rates[0].median, (double)r->n_samples / r->rates[0].median, "",
           cpu_per_sample(r->feed.cpu_ns, r->feed.samples) * 1e-3, "");
    for (int i = 1; i <= r->n_arms; i++) {
        const bench_arm *arm = &r->arms[i - 1];
        char cost[96];
        cost_text(&r->cost[i], cost);
        printf("%-36s %12.0f %10.3f %8.2f%% %9.2f %s\n", settings[i - 1].name, r->rates[i].median,
               (double)r->n_samples / r->rates[i].median, 100 * wait_share(arm),
               cpu_per_sample(arm->cpu_ns, arm->samples) * 1e-3, cost);
    }
    printf("\n%s\n", r->verdict);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_interval(json_writer *w, const char *key, const measure_interval *i) {
    json_begin(w, key, '{');
    json_number(w, "median", i->median);
    json_number(w, "low", i->low);
    json_number(w, "high", i->high);
    json_end(w);
}

static void write_arm(json_writer *w, const train_run *r, int side, const char *name,
                      const bench_arm *arm) {
    json_begin(w, NULL, '{');
    json_text(w, "name", name);
    write_interval(w, "samples_per_s", &r->rates[side]);
    json_number(w, "cpu_ns_per_sample",
                arm != NULL ? cpu_per_sample(arm->cpu_ns, arm->samples)
                            : cpu_per_sample(r->feed.cpu_ns, r->feed.samples));
    json_number(w, "wait_share", arm != NULL && arm->take != NULL ? wait_share(arm) : NAN);
    if (arm != NULL && arm->take != NULL)
        write_interval(w, "cost_of_feeding", &r->cost[side]);
    else
        json_null(w, "cost_of_feeding");
    json_end(w);
}

static void write_model(json_writer *w, const train_run *r) {
    iter_trainer_info info = iter_trainer_describe(r->feed.trainer);
    json_begin(w, "model", '{');
    json_text(w, "name", bench_model_text(r->options->model));
    json_text(w, "text", iter_model_text(r->feed.model));
    json_text(w, "backend", info.backend);
    json_text(w, "layout", iter_model_layout(r->feed.model, NULL));
    json_count(w, "weights", info.n_weights);
    json_count(w, "bytes", info.n_bytes);
    json_count(w, "converted_batches", info.n_converted);
    json_number(w, "convert_s", info.convert_seconds);
    json_end(w);
    json_count(w, "threads", info.threads);
}

static void write_json(const train_run *r, FILE *out) {
    json_writer writer = {.out = out}, *w = &writer;
    static const char *const loaders[] = {"dataloader", "ndarray", "dataloader"};
    json_begin(w, NULL, '{');
    bench_machine_json(w);
    json_begin(w, "config", '{');
    json_text(w, "loader", r->options->sweep != 0 ? "sweep" : loaders[r->options->loader]);
    json_text(w, "data", r->options->data);
    json_count(w, "n_samples", r->n_samples);
    json_text(w, "chain", r->loader.chain);
    json_count(w, "batch", r->options->batch);
    json_integer(w, "workers", r->options->workers);
    json_text(w, "shuffle", bench_shuffle_text(r->options->shuffle));
    json_count(w, "seed", r->options->seed);
    json_end(w);
    write_model(w, r);
    json_begin(w, "arms", '[');
    if (r->options->sweep != 0) {
        write_arm(w, r, 0, "trainer", NULL);
        for (int i = 0; i < r->n_arms; i++)
            write_arm(w, r, i + 1, settings[i].name, &r->arms[i]);
    } else {
        write_arm(w, r, ARM_LOADER, arm_names[ARM_LOADER], &r->arms[0]);
        write_arm(w, r, ARM_TRAINER, arm_names[ARM_TRAINER], NULL);
        write_arm(w, r, ARM_BOTH, arm_names[ARM_BOTH], &r->arms[1]);
    }
    json_end(w);
    json_count(w, "rounds", r->rounds.n_rounds);
    json_count(w, "dropped", r->rounds.n_dropped);
    json_bool(w, "steady", r->steady);
    if (r->options->sweep == 0) {
        write_interval(w, "cost_of_feeding", &r->cost[ARM_BOTH]);
        json_number(w, "wait_share", wait_share(&r->arms[1]));
        json_number(w, "loader_cpu_share", loader_cpu_share(r));
    } else {
        json_null(w, "cost_of_feeding");
        json_null(w, "wait_share");
        json_null(w, "loader_cpu_share");
    }
    json_text(w, "verdict", r->verdict);
    json_end(w);
}

static iter_status report(train_run *r, iter_error *err) {
    const char *json = r->options->json;
    const bool quiet = json != NULL && strcmp(json, "-") == 0;
    if (r->options->sweep != 0)
        say_sweep(r);
    else
        say_verdict(r);
    if (!quiet) {
        if (r->options->sweep != 0)
            print_sweep(r);
        else
            print_arms(r);
    }
    if (json == NULL) return ITER_OK;
    FILE *out;
    iter_status s = bench_json_open(json, &out, err);
    if (s < 0) return s;
    write_json(r, out);
    return bench_json_close(json, out, err);
}

/* ---- Public ---------------------------------------------------------------------------------- */

int cmd_train(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    train_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    r->options = options;
    iter_status s = open_all(r, &err);
    if (s == ITER_OK) s = measure(r, &err);
    if (s == ITER_OK) s = report(r, &err);
    close_all(r);
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}

int cmd_serve_model(const bench_options *options) {
    iter_error err = {ITER_ENOMEM, "no memory"};
    const bool ndarray = options->loader == BENCH_NDARRAY;
    train_run *r = calloc(1, sizeof(*r));
    if (r == NULL) return bench_say(BENCH_FAILED, &err);
    r->options = options;
    iter_status s = feed_options(options, &r->loader, r->chain, &err);
    if (s == ITER_OK && ndarray) {
        s = bench_arrays_load(&r->loader, UINT64_MAX, &r->arrays, &err);
        r->has_arrays = s == ITER_OK;
    }
    if (s == ITER_OK) {
        s = feed_open(options, ndarray ? &r->arrays : NULL, &r->feed, &err);
        r->has_feed = s == ITER_OK;
    }
    measure_side side = feed_side(&r->feed, "trainer");
    if (s == ITER_OK && options->loader != BENCH_BOTH) {
        s = open_arm(r, &r->loader, ndarray, true, &err);
        side = arm_side(&r->arms[0]);
    }
    if (s == ITER_OK) s = bench_serve(&side, &err);
    close_all(r);
    free(r);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE;
}
