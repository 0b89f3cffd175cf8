/*
 * prove.c - tries the first change: two loaders over the same dataset, one of them with it, take
 * turns without a consumer.
 *
 * As in iterbench, slices alternate and only the ratio of neighbours counts. While one loader runs,
 * the other has made its batches ahead and rests; these batches would be a gift to its next slice,
 * so they are taken before the clock starts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diagnose.h"
#include "diagnose/diagnose_util.h"
#include "diagnose/verdict_parts.h"
#include "diagnose/words.h"

#define SECONDS    2.0
#define ROUNDS     8 /* that a proof's time is cut into */
#define ROUNDS_MAX 64
#define REST_S     0.3 /* longest wait until a loader rests */

typedef struct side {
    iter_loader *loader;
    uint64_t ahead; /* batches that it makes ahead */
} side;

static iter_status take(side *s, uint64_t *out_samples, iter_error *err) {
    for (int tries = 0; tries < 2; tries++) {
        iter_batch *batch;
        iter_status status = iter_loader_next(s->loader, &batch, err);
        if (status == ITER_OK) {
            *out_samples += iter_batch_describe(batch).n_rows;
            iter_batch_unref(batch);
            return ITER_OK;
        }
        if (status < 0) return status;
        status = iter_loader_reset(s->loader, err);
        if (status < 0) return status;
    }
    return diagnose_fail(err, ITER_EUNSUPPORTED, "prove: an epoch has no batch");
}

static bool rests(const side *s) {
    for (int32_t w = 0;; w++) {
        const int32_t stage = iter_loader_stage_now(s->loader, w);
        if (stage < 0) return true;
        const char *name = iter_loader_stage_name(s->loader, stage);
        if (strcmp(name, "idle") != 0 && strcmp(name, "wait-slot") != 0) return false;
    }
}

/* Samples a second of one slice. */
static iter_status run_slice(side *s, double slice_s, double *out_rate, iter_error *err) {
    uint64_t samples = 0;
    iter_status status = ITER_OK;
    for (uint64_t i = 0; status == ITER_OK && i < s->ahead; i++)
        status = take(s, &samples, err);
    samples = 0;
    const uint64_t start = diagnose_now_ns();
    double seconds = 0;
    while (status == ITER_OK && seconds < slice_s) {
        status = take(s, &samples, err);
        seconds = (double)(diagnose_now_ns() - start) * 1e-9;
    }
    *out_rate = (double)samples / fmax(seconds, 1e-9);
    for (double waited = 0; status == ITER_OK && waited < REST_S && !rests(s); waited += 0.002)
        diagnose_sleep(0.002);
    return status;
}

/* ---- The two loaders ------------------------------------------------------------------------- */

static void make_change(const evidence_change *change, iter_loader_options *opt) {
    const unsigned long long to = strtoull(change->to, NULL, 10);
    if (strcmp(change->option, "workers") == 0) opt->workers = (int32_t)to;
    if (strcmp(change->option, "prefetch") == 0) opt->prefetch = (uint32_t)to;
    if (strcmp(change->option, "batch") == 0) {
        opt->batch_size = (uint32_t)to;
        opt->global_batch = 0; /* follows */
    }
    if (strcmp(change->option, "source") == 0) opt->reading.source = ITER_SOURCE_MEMORY;
}

static iter_status open_side(const iter_diagnose *d, const evidence_change *change, side *out,
                             iter_error *err) {
    iter_loader_options opt = {.struct_size = sizeof(opt)};
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_status s = iter_loader_options_read(d->loader, &opt, err);
    if (s < 0) return s;
    opt.arrays = (iter_loader_arrays){0};
    opt.watch = (iter_loader_watch){0};
    opt.epochs = 0;
    opt.lookahead = ITER_LOOKAHEAD_ENDLESS;
    if (change != NULL) make_change(change, &opt);
    s = iter_dataloader_create(iter_loader_dataset(d->loader), iter_loader_chain(d->loader), &opt,
                               &out->loader, err);
    if (s == ITER_OK) s = iter_loader_stats_read(out->loader, &stats, err);
    out->ahead = stats.n_workers > 0 ? (uint64_t)stats.prefetch : 0;
    return s;
}

static iter_status alternate(side sides[2], double seconds, double *rates, double *ratios,
                             uint32_t *out_n, iter_error *err) {
    const double slice_s = seconds / (2 * ROUNDS);
    const uint64_t until = diagnose_now_ns() + (uint64_t)(seconds * 1e9);
    *out_n = 0;
    for (int i = 0; i < 2; i++) { /* memory is touched for the first time, files become warm */
        double ignored;
        iter_status s = run_slice(&sides[i], slice_s, &ignored, err);
        if (s < 0) return s;
    }
    while (*out_n < ROUNDS_MAX && (*out_n == 0 || diagnose_now_ns() < until)) {
        double rate[2];
        const int first = *out_n % 2;
        iter_status s = run_slice(&sides[first], slice_s, &rate[first], err);
        if (s == ITER_OK) s = run_slice(&sides[1 - first], slice_s, &rate[1 - first], err);
        if (s < 0) return s;
        rates[*out_n] = rate[0];
        ratios[(*out_n)++] = rate[1] / rate[0];
    }
    return ITER_OK;
}

/* ---- What it gives --------------------------------------------------------------------------- */

static void say(const evidence *e, const verdict *v, const measure_interval *alone,
                iter_diagnose_proof *out) {
    evidence_change change = e->changes[v->changes[0].of];
    char gain[WORDS_PHRASE], loop[WORDS_PHRASE];
    change.loader_ratio = alone->median;
    change.loader_low = alone->low;
    change.loader_high = alone->high;
    change.consumer_low = change.consumer_high = 1;
    const measure_interval ratio = verdict_ratio_of(e, &change);
    out->loader = alone->median;
    out->loader_low = alone->low;
    out->loader_high = alone->high;
    out->loop = ratio.median;
    out->loop_low = ratio.low;
    out->loop_high = ratio.high;
    snprintf(out->text, sizeof(out->text),
             "Tried %s. The loader alone: %s. The loop, by the model: %s.", out->advice,
             words_gain(alone, gain), words_gain(&ratio, loop));
}

static iter_status prove(iter_diagnose *d, double seconds, iter_diagnose_proof *out,
                         iter_error *err) {
    struct {
        evidence e;
        verdict v;
    } *judged = malloc(sizeof(*judged));
    if (judged == NULL) return diagnose_fail(err, ITER_ENOMEM, "prove: out of memory");
    side sides[2] = {{0}};
    double rates[ROUNDS_MAX], ratios[ROUNDS_MAX];
    iter_status s = ITER_OK;
    diagnose_judge(d, &judged->e, &judged->v);
    if (judged->v.n_changes > 0) {
        const verdict_change *first = &judged->v.changes[0];
        snprintf(out->advice, sizeof(out->advice), "%.159s", first->advice);
        s = open_side(d, NULL, &sides[0], err);
        if (s == ITER_OK) s = open_side(d, &judged->e.changes[first->of], &sides[1], err);
        if (s == ITER_OK) s = alternate(sides, seconds, rates, ratios, &out->n_slices, err);
        if (s == ITER_OK) {
            const measure_interval alone = measure_median(ratios, out->n_slices);
            out->loader_rate = measure_median(rates, out->n_slices).median;
            say(&judged->e, &judged->v, &alone, out);
        }
        iter_loader_unref(sides[0].loader);
        iter_loader_unref(sides[1].loader);
    }
    free(judged);
    return s;
}

iter_status iter_diagnose_prove(iter_diagnose *d, double seconds, iter_diagnose_proof *out,
                                iter_error *err) {
    const size_t size = out != NULL ? out->struct_size : 0;
    if (size < sizeof(size) || size > sizeof(*out))
        return diagnose_fail(err, ITER_EINVAL, "prove: struct_size is %zu; expected %zu", size,
                             sizeof(*out));
    if (!(seconds >= 0 && seconds <= 3600))
        return diagnose_fail(err, ITER_EINVAL, "prove: seconds is %g; expected 0 to 3600", seconds);
    if (d->loader == NULL)
        return diagnose_fail(err, ITER_EUNSUPPORTED,
                             "prove: the loop's loader is another's, so none like it can be made");
    if (iter_dataset_describe(iter_loader_dataset(d->loader))->n_samples == ITER_UNKNOWN)
        return diagnose_fail(
            err, ITER_EUNSUPPORTED,
            "prove: the dataset is a stream, which a second loader would take from "
            "the first");
    iter_diagnose_proof all;
    memset(&all, 0, sizeof(all));
    all.loader_rate = all.loader = all.loader_low = all.loader_high = NAN;
    all.loop = all.loop_low = all.loop_high = NAN;
    const iter_status s = prove(d, seconds > 0 ? seconds : SECONDS, &all, err);
    if (s < 0) return s;
    all.struct_size = sizeof(all);
    pthread_mutex_lock(&d->lock);
    d->proof = all;
    d->has_proof = true;
    pthread_mutex_unlock(&d->lock);
    all.struct_size = size;
    memcpy(out, &all, size);
    return ITER_OK;
}
