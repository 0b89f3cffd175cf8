/*
 * measure.c - how two things are compared.
 *
 * The speed of a shared machine swings by more than the differences that matter, within the hour
 * and within the second. So A and B take turns in slices short enough to meet the same conditions
 * (A B, B A, A B, ...), and only the ratio of neighbours counts. A fixed loop, the witness, runs
 * before and after each slice; if its time moves by more than 5 %, the pair is dropped. It only
 * counts, so it says nothing of memory, whose speed may change alone. Where that matters, a second
 * witness reads 16 MiB that no cache has. It varies by a tenth on a shared machine that is at rest
 * otherwise, so its time may move by 30 %.
 *
 * The interval of the median of those ratios is the one of diagnose/interval.c.
 *
 * Batches that a side makes ahead while the other runs would be a gift to its next slice. So each
 * slice begins with some batches that are not counted. After it, the side's threads come to rest
 * before the witness runs.
 */
#include "bench/measure/measure.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"

#define REST_MAX_S    0.5
#define WITNESS_PARTS 3
#define WITNESS_TURNS 300000

#define MEMORY_BYTES     ((size_t)64 << 20) /* read in turns, a part at a time */
#define MEMORY_PART      ((size_t)16 << 20)
#define MEMORY_TOLERANCE 0.3

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct slice {
    uint64_t samples;
    double seconds;
    bool steady;
} slice;

typedef struct side_state {
    const measure_side *side;
    double batches_per_s; /* by the last slice */
} side_state;

typedef struct comparison {
    const measure_options *options;
    side_state sides[MEASURE_SIDES_MAX];
    int n_sides;
    double slice_s;
    double witness; /* after the last slice */
    double memory_witness;
    unsigned char *memory; /* what it reads; NULL = there is none */
    size_t memory_at;
    measure_rounds *out;
} comparison;

struct measure_child {
    pid_t pid;
    FILE *to, *from;
    char *command;
};

/* ---- Slices ---------------------------------------------------------------------------------- */

static iter_status warm(const side_state *s, uint64_t n, iter_error *err) {
    if (n == 0) return ITER_OK;
    if (s->side->warm != NULL) return s->side->warm(s->side->user, n, err);
    uint64_t samples;
    double seconds;
    return s->side->run(s->side->user, n, &samples, &seconds, err);
}

/* Doubles the number of batches until one run fills a good part of a slice. END = nothing left. */
static iter_status calibrate(const comparison *c, side_state *s, iter_error *err) {
    for (uint64_t n = 1;; n *= 2) {
        uint64_t samples = 0;
        double seconds = 0;
        iter_status status = s->side->run(s->side->user, n, &samples, &seconds, err);
        if (status != ITER_OK) return status;
        if (samples == 0) return ITER_END;
        if (seconds > 0) s->batches_per_s = (double)n / seconds;
        if (seconds >= c->slice_s / 4) return ITER_OK;
    }
}

/* Threads that make batches ahead stop when their slots are full. If a side cannot tell whether its
 * threads rest, the time of a few batches is enough. */
static void settle(const side_state *s) {
    if (s->side->rests == NULL) {
        bench_sleep(fmin(fmax(6 / s->batches_per_s, 0.0005), 0.05));
        return;
    }
    const double until = bench_now() + REST_MAX_S;
    do
        bench_sleep(0.0005);
    while (!s->side->rests(s->side->user) && bench_now() < until);
}

/* Seconds to read a part of the memory that was not read for a while. */
static double memory_witness(comparison *c) {
    double parts[WITNESS_PARTS];
    for (int p = 0; p < WITNESS_PARTS; p++) {
        const double start = bench_now();
        for (size_t i = 0; i < MEMORY_PART; i += 64)
            (void)*(volatile unsigned char *)(c->memory + c->memory_at + i);
        parts[p] = bench_now() - start;
        c->memory_at = (c->memory_at + MEMORY_PART) % MEMORY_BYTES;
    }
    return measure_median(parts, WITNESS_PARTS).median;
}

static void look(comparison *c) {
    c->witness = measure_witness();
    if (c->memory != NULL) c->memory_witness = memory_witness(c);
}

static double moved(double before, double after) {
    return fabs(after - before) / fmin(after, before);
}

static iter_status run_slice(comparison *c, side_state *s, slice *out, iter_error *err) {
    iter_status status = warm(s, c->options->warm_batches, err);
    if (status != ITER_OK) return status;
    double n = fmax(s->batches_per_s * c->slice_s, 1);
    status = s->side->run(s->side->user, (uint64_t)n, &out->samples, &out->seconds, err);
    if (status != ITER_OK) return status;
    if (out->samples == 0 || out->seconds <= 0) return ITER_END;
    s->batches_per_s = (double)(uint64_t)n / out->seconds;
    settle(s);
    const double before = c->witness, memory_before = c->memory_witness;
    look(c);
    out->steady =
        moved(before, c->witness) <= c->options->tolerance &&
        (c->memory == NULL || moved(memory_before, c->memory_witness) <= MEMORY_TOLERANCE);
    return ITER_OK;
}

static iter_status grow(measure_rounds *out, iter_error *err) {
    const size_t n = (size_t)out->n_sides, row = n * sizeof(double);
    const uint32_t capacity = out->capacity * 2 + 64;
    double *grown = malloc(capacity * row);
    if (grown == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for %u rounds", capacity);
    if (out->rates != NULL) {
        memcpy(grown, out->rates, out->n_rounds * row);
        memcpy(grown + (capacity - out->n_dropped) * n,
               out->rates + (out->capacity - out->n_dropped) * n, out->n_dropped * row);
    }
    free(out->rates);
    out->rates = grown;
    out->capacity = capacity;
    return ITER_OK;
}

static iter_status keep(measure_rounds *out, const slice *slices, iter_error *err) {
    bool steady = true;
    for (int i = 0; i < out->n_sides; i++)
        steady = steady && slices[i].steady;
    if (out->n_rounds + out->n_dropped == out->capacity) {
        iter_status status = grow(out, err);
        if (status < 0) return status;
    }
    const size_t n = (size_t)out->n_sides;
    const uint32_t at = steady ? out->n_rounds++ : out->capacity - ++out->n_dropped;
    for (size_t i = 0; i < n; i++)
        out->rates[at * n + i] = (double)slices[i].samples / slices[i].seconds;
    return ITER_OK;
}

/* If hardly a round was steady, figures from a restless machine are better than none. */
static void count_dropped(measure_rounds *out, uint32_t least) {
    out->steady = out->n_rounds >= least || out->n_dropped == 0;
    if (out->steady) return;
    const size_t n = (size_t)out->n_sides;
    memmove(out->rates + out->n_rounds * n, out->rates + (out->capacity - out->n_dropped) * n,
            out->n_dropped * n * sizeof(double));
    out->n_rounds += out->n_dropped;
}

/* One slice of each side, beginning with side `first`. END = a side has nothing left. */
static iter_status run_round(comparison *c, uint32_t first, slice *slices, iter_error *err) {
    iter_status status = ITER_OK;
    for (uint32_t k = 0; status == ITER_OK && k < (uint32_t)c->n_sides; k++) {
        uint32_t i = (first + k) % (uint32_t)c->n_sides;
        status = run_slice(c, &c->sides[i], &slices[i], err);
    }
    return status;
}

static iter_status alternate(comparison *c, iter_error *err) {
    double start = bench_now();
    settle(&c->sides[0]);
    look(c);
    for (uint32_t turn = 0;; turn++) {
        double spent = bench_now() - start;
        if (bench_stopped() || spent >= c->options->max_s ||
            (c->out->n_rounds >= c->options->min_pairs && spent >= c->options->min_s))
            return ITER_OK;
        slice slices[MEASURE_SIDES_MAX] = {{0}};
        iter_status status = run_round(c, turn % (uint32_t)c->n_sides, slices, err);
        if (status == ITER_OK) status = keep(c->out, slices, err);
        if (status != ITER_OK) return status == ITER_END ? ITER_OK : status;
        if (c->options->after_pair != NULL) {
            c->options->after_pair(c->options->after_user, c->out->n_rounds, c->out->n_dropped);
            look(c);
        }
    }
}

/* ---- Witness --------------------------------------------------------------------------------- */

double measure_witness(void) {
    double parts[WITNESS_PARTS];
    for (int p = 0; p < WITNESS_PARTS; p++) {
        double start = bench_now();
        bench_spin(WITNESS_TURNS);
        parts[p] = bench_now() - start;
    }
    return measure_median(parts, WITNESS_PARTS).median;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

iter_status measure_sides(const measure_side *sides, int n_sides, const measure_options *options,
                          measure_rounds *out, iter_error *err) {
    *out = (measure_rounds){.n_sides = n_sides};
    if (n_sides < 1 || n_sides > MEASURE_SIDES_MAX)
        return bench_fail(err, ITER_EINVAL, "1 to %d sides, not %d", MEASURE_SIDES_MAX, n_sides);
    comparison c = {.options = options, .n_sides = n_sides, .out = out};
    c.slice_s = fmin(options->slice_s, MEASURE_SLICE_MAX_S);
    iter_status status = ITER_OK;
    if (options->memory) {
        c.memory = malloc(MEMORY_BYTES);
        if (c.memory == NULL)
            return bench_fail(err, ITER_ENOMEM, "no memory for the witness of memory");
        memset(c.memory, 1, MEMORY_BYTES); /* zeros might all be one page */
    }
    for (int i = 0; status == ITER_OK && i < n_sides; i++) {
        c.sides[i] = (side_state){&sides[i], 1};
        status = calibrate(&c, &c.sides[i], err);
    }
    if (status == ITER_OK) status = alternate(&c, err);
    free(c.memory);
    count_dropped(out, options->least_rounds);
    return status < 0 ? status : ITER_OK;
}

void measure_rounds_free(measure_rounds *rounds) {
    free(rounds->rates);
    rounds->rates = NULL;
}

iter_status measure_rounds_ratio(const measure_rounds *rounds, int a, int b, measure_interval *out,
                                 iter_error *err) {
    double *values = malloc((rounds->n_rounds + 1) * sizeof(values[0]));
    if (values == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for %u rounds", rounds->n_rounds);
    for (uint32_t i = 0; i < rounds->n_rounds; i++) {
        const double *rates = &rounds->rates[(size_t)i * (size_t)rounds->n_sides];
        values[i] = a == b ? rates[a] : rates[b] / rates[a];
    }
    *out = measure_median(values, rounds->n_rounds);
    free(values);
    return ITER_OK;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static const measure_interval none = {NAN, NAN, NAN, 0};

static iter_status take_pairs(measure_result *out, uint32_t n, iter_error *err) {
    double *values = malloc((3 * (size_t)n + 1) * sizeof(values[0]));
    if (values == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for %u pairs", n);
    out->n_pairs = n;
    out->ratios = values;
    out->rates_a = values + n;
    out->rates_b = values + 2 * (size_t)n;
    return ITER_OK;
}

/* The intervals of all pairs. */
static iter_status judge(measure_result *result, iter_error *err) {
    const uint32_t n = result->n_pairs;
    const double *values[] = {result->ratios, result->rates_a, result->rates_b};
    measure_interval *intervals[] = {&result->ratio, &result->rate_a, &result->rate_b};
    double *sorted = malloc((n + 1) * sizeof(sorted[0]));
    if (sorted == NULL) return bench_fail(err, ITER_ENOMEM, "no memory for %u pairs", n);
    for (int i = 0; i < 3; i++) {
        memcpy(sorted, values[i], n * sizeof(sorted[0]));
        *intervals[i] = measure_median(sorted, n);
    }
    free(sorted);
    return ITER_OK;
}

iter_status measure_pairs(const measure_side *a, const measure_side *b,
                          const measure_options *options, measure_result *out, iter_error *err) {
    *out = (measure_result){.ratio = none, .rate_a = none, .rate_b = none};
    const measure_side sides[] = {*a, *b};
    measure_rounds rounds;
    iter_status status = measure_sides(sides, 2, options, &rounds, err);
    out->n_dropped = rounds.n_dropped;
    if (status == ITER_OK) status = take_pairs(out, rounds.n_rounds, err);
    for (uint32_t i = 0; status == ITER_OK && i < rounds.n_rounds; i++) {
        out->rates_a[i] = rounds.rates[2 * i];
        out->rates_b[i] = rounds.rates[2 * i + 1];
        out->ratios[i] = out->rates_b[i] / out->rates_a[i];
    }
    if (status == ITER_OK) status = judge(out, err);
    measure_rounds_free(&rounds);
    return status;
}

iter_status measure_add(measure_result *sum, const measure_result *part, iter_error *err) {
    const uint32_t n = sum->n_pairs;
    measure_result all = {.n_dropped = sum->n_dropped + part->n_dropped};
    iter_status status = take_pairs(&all, n + part->n_pairs, err);
    if (status != ITER_OK) return status;
    for (uint32_t i = 0; i < all.n_pairs; i++) {
        const measure_result *from = i < n ? sum : part;
        const uint32_t at = i < n ? i : i - n;
        all.ratios[i] = from->ratios[at];
        all.rates_a[i] = from->rates_a[at];
        all.rates_b[i] = from->rates_b[at];
    }
    status = judge(&all, err);
    measure_free(status == ITER_OK ? sum : &all);
    if (status == ITER_OK) *sum = all;
    return status;
}

void measure_free(measure_result *result) {
    free(result->ratios); /* one block holds all three */
    result->ratios = result->rates_a = result->rates_b = NULL;
}

/* ---- Programs -------------------------------------------------------------------------------- */

static iter_status child_run(void *user, uint64_t n_batches, uint64_t *out_samples,
                             double *out_seconds, iter_error *err) {
    measure_child *child = user;
    char line[512];
    unsigned long long samples;
    int used = 0;
    if (fprintf(child->to, "run %llu\n", (unsigned long long)n_batches) < 0 ||
        fflush(child->to) != 0)
        return bench_fail(err, ITER_EIO, "'%.200s' is gone: %s", child->command, strerror(errno));
    if (fgets(line, sizeof(line), child->from) == NULL)
        return bench_fail(err, ITER_EIO, "'%.200s' ended without an answer", child->command);
    if (sscanf(line, "%llu %lf %n", &samples, out_seconds, &used) != 2 || line[used] != '\0')
        return bench_fail(err, ITER_EFORMAT, "'%.200s' answered '%.*s', not 'samples seconds'",
                          child->command, (int)strcspn(line, "\n"), line);
    *out_samples = samples;
    return ITER_OK;
}

/* Runs in the child, between fork and exec. */
static void become(const char *command, int in, int out) {
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) _exit(127);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

iter_status measure_child_start(const char *command, measure_child **out, iter_error *err) {
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    measure_child *child = calloc(1, sizeof(*child));
    *out = NULL;
    if (child == NULL || (child->command = strdup(command)) == NULL) goto fail;
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) goto fail;
    signal(SIGPIPE, SIG_IGN); /* a child that died is an error of its slice, not our end */
    child->pid = fork();
    if (child->pid < 0) goto fail;
    if (child->pid == 0) become(command, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    child->to = fdopen(to[1], "w");
    child->from = fdopen(from[0], "r");
    *out = child;
    return ITER_OK;
fail:
    for (int i = 0; i < 2; i++) {
        if (to[i] >= 0) close(to[i]);
        if (from[i] >= 0) close(from[i]);
    }
    if (child != NULL) free(child->command);
    free(child);
    return bench_fail(err, ITER_EIO, "cannot start '%.200s': %s", command, strerror(errno));
}

measure_side measure_child_side(measure_child *child, const char *name) {
    return (measure_side){name, child_run, NULL, child, NULL};
}

void measure_child_stop(measure_child *child) {
    if (child == NULL) return;
    fputs("quit\n", child->to);
    fclose(child->to);
    fclose(child->from);
    waitpid(child->pid, NULL, 0);
    free(child->command);
    free(child);
}
