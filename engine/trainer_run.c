/*
 * trainer_run.c - runs checked batches through a trainer, and sums up.
 *
 * A backend on a device reports a run's outcome later. Runs are then counted when they are queued,
 * and their outcome is collected every ENGINE_MAX_PENDING runs and at the end of each call. The
 * exception are steps without a result: the device works on, and the next call that waits, or asks
 * for a result, collects them. When a step fails, the message uses what was noted about it when it
 * was queued. Rows, loss and hits of a result cover the collected runs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <iter/profile.h>

#include "engine/engine_error.h"
#include "engine/trainer.h"
#include "engine/trainer_check.h"

/* Number of sample indices that a message lists. */
#define INDICES_SHOWN 4

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* True if a value of the row is NaN or infinite. */
static bool is_broken_row(const iter_tensor *tensor, int32_t batch_dim, int64_t row) {
    const iter_desc *desc = &tensor->desc;
    int64_t place[ITER_MAX_DIMS] = {0};
    place[batch_dim] = row;
    if (desc->dtype != ITER_F32 && desc->dtype != ITER_F64) return false;
    for (;;) {
        int64_t at = 0;
        for (int32_t d = 0; d < desc->n_dims; d++)
            at += place[d] * tensor->strides[d];
        const double value = desc->dtype == ITER_F32 ? ((const float *)tensor->data)[at]
                                                     : ((const double *)tensor->data)[at];
        if (!isfinite(value)) return true;
        int32_t d = desc->n_dims - 1;
        for (; d >= 0; d--) {
            if (d == batch_dim) continue;
            if (++place[d] < desc->dims[d]) break;
            place[d] = 0;
        }
        if (d < 0) return false;
    }
}

/* Makes a message such as "the loss is nan in epoch 3, over samples 17, 4, 99, 3, ...". */
static iter_status fail_not_finite(const engine_pending *p, const uint64_t *index, const char *what,
                                   const char *hint, iter_error *err) {
    char list[128] = "";
    size_t n = 0;
    for (int64_t i = 0; i < p->n_rows && i < INDICES_SHOWN; i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%" PRIu64, i ? ", " : "", index[i]);
    return iter__engine_fail(err, ITER_EFORMAT,
                             "%s in epoch %u, over samples %s%s; weights are unchanged. %s", what,
                             p->epoch, list, p->n_rows > INDICES_SHOWN ? ", ..." : "", hint);
}

/* Names the row of the batch that is not finite, if there is one. */
static const char *find_hint(const checked_batch *c, const char *else_hint, char out[160]) {
    const uint64_t *index = iter_batch_index(c->source);
    snprintf(out, 160, "%s", else_hint);
    if (!c->data.data || !c->label.data) {
        snprintf(out, 160, "The batch is on the device: whether it is finite was not looked at");
        return out;
    }
    for (int64_t i = c->batch.n_rows - 1; i >= 0; i--) {
        const bool data = is_broken_row(&c->data, iter__net_batch_dim(&c->data.desc), i);
        if (data || is_broken_row(&c->label, 0, i))
            snprintf(out, 160,
                     "%s of row %" PRId64 " (sample %" PRIu64 ") holds a value that is not finite",
                     data ? "Data" : "The label", i, index[i]);
    }
    return out;
}

static const char *loss_text(double loss) {
    return isnan(loss) ? "the loss is nan" : "the loss is infinite";
}

static engine_pending note_of(const iter_trainer *trainer, const checked_batch *c, bool training) {
    const engine_pending note = {trainer->n_steps, c->info.epoch, c->batch.n_rows,
                                 c->batch.n_counted, training};
    return note;
}

static iter_status run(iter_trainer *trainer, checked_batch *c, engine_run what,
                       engine_outcome *out, iter_error *err) {
    c->batch.data = c->is_far ? &c->far_data : &c->data;
    if (!c->batch.label) c->batch.label = c->is_far ? &c->far_label : &c->label;
    /* so that the backend waits for it */
    if (c->is_far) c->batch.source = (iter_batch *)(uintptr_t)c->source;
    if (!c->batch.counts) c->batch.counts = trainer->counts;
    if (trainer->net.segments) c->batch.segments = &c->segments;
    c->batch.step = trainer->n_steps;
    c->batch.lr = iter__optimizer_rate(&trainer->optimizer, c->info.epoch);
    *out = (engine_outcome){0};
    if (what == ENGINE_RUN_TRAIN) iter_profile_scope_begin("step");
    const iter_status status = trainer->ops->run(trainer->state, &c->batch, what, out, err);
    if (what == ENGINE_RUN_TRAIN) iter_profile_scope_end();
    return status;
}

static iter_status fail_step(const engine_pending *p, iter_status status, iter_error *err) {
    return iter__engine_fail_in(err, status, "%s %" PRIu64, p->training ? "step" : "test at step",
                                p->step);
}

/* Makes the error of a collected run; c is its batch, or NULL if the batch was already given
 * back. */
static iter_status fail_collected(const iter_trainer *trainer, const engine_collected *found,
                                  const checked_batch *c, iter_error *err) {
    const engine_pending *p = &trainer->pending[found->run];
    const uint64_t *index = trainer->pending_indices + found->run * trainer->net.batch;
    const uint64_t sample = index[found->row < p->n_rows ? found->row : 0];
    char hint[160] = "A lower lr may help, if data and labels are finite";
    switch (found->trouble) {
    case ENGINE_TROUBLE_LABEL:
        return iter__engine_fail(err, ITER_EINVAL,
                                 "label of row %" PRId64 " (sample %" PRIu64 ") is %" PRId64
                                 ", the model has the classes 0 to %" PRId64,
                                 found->row, sample, found->value, trainer->net.n_classes - 1);
    case ENGINE_TROUBLE_ID:
        return iter__engine_fail(err, ITER_EINVAL,
                                 "id %" PRId64 " of row %" PRId64 " (sample %" PRIu64
                                 ") is %" PRId64 ", the embedding has the rows 0 to %" PRId64,
                                 found->place, found->row, sample, found->value,
                                 trainer->net.layers[0].options.embedding.rows - 1);
    default:
        if (c) find_hint(c, "Data and labels are finite, so a lower lr may help", hint);
        return fail_not_finite(p, index, loss_text(found->loss), hint, err);
    }
}

/* Collects the pending runs; c is the batch of the last run, or NULL if it was already given
 * back. */
static iter_status settle(iter_trainer *trainer, const checked_batch *c, iter_error *err) {
    engine_collected found;
    const uint32_t n = trainer->n_pending;
    if (n == 0) return ITER_OK;
    trainer->n_pending = 0;
    iter_status status = trainer->ops->collect(trainer->state, &found, err);
    if (status < 0) return fail_step(&trainer->pending[0], status, err);
    const uint32_t n_fine = found.trouble ? found.run : n;
    trainer->settled.loss += found.loss_sum;
    trainer->settled.n_correct += (uint64_t)found.n_correct;
    for (uint32_t i = 0; i < n_fine; i++)
        trainer->settled.n_rows += (uint64_t)trainer->pending[i].n_counted;
    if (!found.trouble) return ITER_OK;
    const engine_pending *bad = &trainer->pending[found.run];
    if (bad->training) trainer->n_steps = bad->step; /* the later steps did nothing */
    status = fail_collected(trainer, &found, found.run == n - 1 ? c : NULL, err);
    return fail_step(bad, status, err);
}

/* Moves what was settled into *sum, and takes the error of a run that failed in between. */
static iter_status take_settled(iter_trainer *trainer, iter_status status, iter_result *sum,
                                iter_error *err) {
    sum->loss += trainer->settled.loss;
    sum->n_correct += trainer->settled.n_correct;
    sum->n_rows += trainer->settled.n_rows;
    trainer->settled = (iter_result){0};
    if (trainer->trouble.status >= 0) return status;
    const iter_error trouble = trainer->trouble;
    trainer->trouble.status = ITER_OK;
    if (err) *err = trouble;
    return trouble.status;
}

iter_status iter__trainer_settle(iter_trainer *trainer, iter_error *err) {
    if (trainer->n_pending == 0) return ITER_OK;
    iter_error error;
    const iter_status status = settle(trainer, NULL, &error);
    if (status >= 0) return status;
    if (trainer->runs) { /* inside its `progress`: the epoch ends with this error, too */
        trainer->trouble = error;
        trainer->trouble.status = status;
    }
    if (err) *err = error;
    return status;
}

/* Settles at the end of a call that returns `status`. If an earlier step failed, its error is
 * returned instead. */
static iter_status settle_last(iter_trainer *trainer, iter_status status, iter_result *sum,
                               iter_error *err) {
    iter_error late;
    iter_status settled = settle(trainer, NULL, &late);
    settled = take_settled(trainer, settled, sum, &late);
    if (settled >= 0) return status;
    if (err) *err = late;
    return settled;
}

/* Called before a call runs batches: keeps the settled sums of an outer call, or of steps without a
 * result, apart from those of this call. */
static iter_status begin_runs(iter_trainer *trainer, iter_result *out_outer, iter_error *err) {
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    *out_outer = trainer->settled;
    trainer->settled = (iter_result){0};
    return ITER_OK;
}

static void remember(iter_trainer *trainer, const checked_batch *c, bool training) {
    const uint32_t i = trainer->n_pending++;
    trainer->pending[i] = note_of(trainer, c, training);
    memcpy(trainer->pending_indices + i * trainer->net.batch, iter_batch_index(c->source),
           (size_t)c->batch.n_rows * sizeof(uint64_t));
}

/* Runs, and waits for the outcome; *out_found has the run's trouble, if it is no status. */
static iter_status run_now(iter_trainer *trainer, checked_batch *c, engine_run what,
                           engine_outcome *out, engine_collected *out_found, iter_error *err) {
    *out_found = (engine_collected){.loss_sum = 0};
    const iter_status status = run(trainer, c, what, out, err);
    if (!out->pending) return status;
    /* If the run failed, it may be fine itself, but must be collected. The first error says why. */
    const iter_status collected =
        trainer->ops->collect(trainer->state, out_found, status < 0 ? NULL : err);
    out->pending = false;
    out->n_correct = out_found->n_correct;
    out->loss_sum =
        out_found->trouble == ENGINE_TROUBLE_LOSS ? out_found->loss : out_found->loss_sum;
    return status < 0 ? status : collected;
}

/* Makes the error of such a trouble; c's rows begin at row `first` of the batch. */
static iter_status fail_found(iter_trainer *trainer, const checked_batch *c, int64_t first,
                              bool training, const engine_collected *found, iter_error *err) {
    trainer->pending[0] = note_of(trainer, c, training);
    memcpy(trainer->pending_indices, iter_batch_index(c->source) + first,
           (size_t)c->batch.n_rows * sizeof(uint64_t));
    return fail_collected(trainer, found, c, err);
}

/* ---- Several ranks or micro-batches ---------------------------------------------------------- */

static void narrow(iter_tensor *tensor, int32_t dim, int64_t first, int64_t n) {
    if (!tensor->data) return;
    tensor->data = (char *)tensor->data +
                   first * tensor->strides[dim] * (int64_t)iter_dtype_bytes(tensor->desc.dtype);
    tensor->desc.dims[dim] = n;
}

/* Rows [first, first + n) of a checked batch, at their place in the global batch. */
static checked_batch part_of(const iter_trainer *trainer, const checked_batch *c, int64_t first,
                             int64_t n) {
    checked_batch part = *c;
    narrow(&part.data, iter__net_batch_dim(&part.data.desc), first, n);
    narrow(&part.label, 0, first, n);
    narrow(&part.segments, 0, first, n);
    narrow(&part.far_data, iter__net_batch_dim(&part.far_data.desc), first, n);
    narrow(&part.far_label, 0, first, n);
    part.batch.n_rows = n;
    part.batch.counts = trainer->counts + first;
    part.batch.first_row = (int64_t)c->info.first_row + first;
    return part;
}

/* Rows of the job's global batches that count if all do; gradients are first divided by these. */
static int64_t planned_rows(const iter_trainer *trainer) {
    return trainer->job->global_batch * trainer->net.n_targets;
}

/* Runs a micro-batch; its gradient joins the sums. Of the last one, while it is being computed. */
static iter_status run_leaf(iter_trainer *trainer, const checked_batch *c, int64_t first, int64_t n,
                            bool training, bool is_last, engine_leaf *out, iter_error *err) {
    engine_gradient gradients[ENGINE_MAX_PARAMS];
    engine_outcome outcome;
    engine_collected found;
    int32_t n_gradients;
    checked_batch part = part_of(trainer, c, first, n);
    *out = (engine_leaf){0};
    if (n == 0) {
        if (training) iter__sums_add(trainer->job->sums, NULL);
        return ITER_OK;
    }
    part.batch.n_counted = planned_rows(trainer);
    if (training && is_last) {
        part.batch.ready = iter__sums_ready;
        part.batch.user = trainer->job->sums;
    }
    ENGINE_TRY(run_now(trainer, &part, training ? ENGINE_RUN_GRADIENT : ENGINE_RUN_FORWARD,
                       &outcome, &found, err));
    if (found.trouble == ENGINE_TROUBLE_LABEL || found.trouble == ENGINE_TROUBLE_ID)
        return fail_found(trainer, &part, first, training, &found, err);
    if (!isfinite(outcome.loss_sum)) {
        const engine_pending note = note_of(trainer, c, training);
        char hint[160];
        find_hint(c, "Data and labels are finite, so a lower lr may help", hint);
        return fail_not_finite(&note, iter_batch_index(c->source), loss_text(outcome.loss_sum),
                               hint, err);
    }
    *out = (engine_leaf){.loss = outcome.loss_sum, .n_correct = outcome.n_correct};
    if (!training) return ITER_OK;
    ENGINE_TRY(trainer->ops->gradients(trainer->state, gradients, &n_gradients, err));
    iter__sums_add(trainer->job->sums, gradients);
    return ITER_OK;
}

static iter_status run_leaves(iter_trainer *trainer, const checked_batch *c, bool training,
                              iter_error *err) {
    engine_job *job = trainer->job;
    const int64_t m = c->info.global_rows, begin = c->info.first_row;
    if (begin != iter__job_row(job, job->first, m) ||
        begin + c->batch.n_rows != iter__job_row(job, job->first + job->n_own, m) ||
        m > job->global_batch)
        return iter__engine_fail(
            err, ITER_EINVAL,
            "the batch has rows %" PRId64 " to %" PRId64 " of %" PRId64
            ", which are not this rank's of %u micro-batches: its loader needs "
            "the same ranks, global_batch and micro_batches as the trainer's",
            begin, begin + c->batch.n_rows, m, job->n_leaves);
    for (uint32_t i = 0; i < job->n_own; i++) {
        const int64_t from = iter__job_row(job, job->first + i, m);
        const int64_t to = iter__job_row(job, job->first + i + 1, m);
        ENGINE_TRY(run_leaf(trainer, c, from - begin, to - from, training, i + 1 == job->n_own,
                            &job->own[i], err));
    }
    job->own[0].n_counted = c->batch.n_counted; /* only their sum is of interest */
    return ITER_OK;
}

/* The update with the gradient of all ranks. */
static iter_status update_all(iter_trainer *trainer, const checked_batch *c, iter_error *err) {
    engine_gradient sums[ENGINE_MAX_PARAMS];
    engine_job *job = trainer->job;
    const double factor = (double)planned_rows(trainer) / (double)job->total.n_counted;
    const engine_batch batch = {.step = trainer->n_steps,
                                .lr = iter__optimizer_rate(&trainer->optimizer, c->info.epoch)};
    const double begin = seconds_now();
    const iter_status status = iter__sums_finish(job->sums, factor, sums, err);
    const double summed = seconds_now();
    trainer->job_sum_seconds += summed - begin;
    if (status < 0) return status;
    ENGINE_TRY(trainer->ops->update(trainer->state, sums, &batch, err));
    trainer->update_seconds = seconds_now() - summed;
    trainer->n_steps++;
    return ITER_OK;
}

/* As run_batch(), with all ranks. */
static iter_status run_in_job(iter_trainer *trainer, const iter_batch *batch, bool training,
                              iter_result *sum, iter_error *err) {
    engine_job *job = trainer->job;
    checked_batch checked;
    iter_error own = {ITER_OK, ""};
    const double entered = seconds_now();
    if (training) iter__sums_begin(job->sums);
    iter_status status = iter__check_batch(trainer, batch, training, &checked, &own);
    const engine_pending note = note_of(trainer, &checked, training);
    if (status >= 0) status = run_leaves(trainer, &checked, training, &own);
    if (status < 0) status = fail_step(&note, status, &own);
    const double begin = seconds_now();
    job->spent = (engine_spent){trainer->left_at > 0 ? entered - trainer->left_at : 0,
                                begin - entered + trainer->update_seconds};
    trainer->update_seconds = 0;
    status = iter__job_turn(job, training ? ENGINE_TURN_STEP : ENGINE_TURN_TEST, status, &own);
    if (status >= 0 && training && job->total.n_counted > 0)
        status = update_all(trainer, &checked, &own);
    else if (status >= 0 && training)
        iter__sums_drop(job->sums);
    trainer->left_at = seconds_now();
    trainer->job_seconds += trainer->left_at - begin - trainer->update_seconds;
    if (status < 0) {
        if (err) *err = own;
        return status;
    }
    sum->n_steps++;
    sum->loss += job->total.loss;
    sum->n_correct += (uint64_t)job->total.n_correct;
    sum->n_rows += (uint64_t)job->total.n_counted;
    return ITER_OK;
}

/* The loader has no batch, or failed: tells the other ranks, and learns whether they agree. */
static iter_status end_in_job(iter_trainer *trainer, iter_status status, iter_error *err) {
    iter_error own = {ITER_OK, ""};
    if (status < 0 && err) own = *err;
    const iter_status turn = iter__job_turn(trainer->job, ENGINE_TURN_END, status, &own);
    if (turn < 0 && err) *err = own;
    return turn < 0 ? turn : status;
}

/* Whether all ranks want to go on. */
static iter_status go_on_in_job(iter_trainer *trainer, bool *goes_on, iter_error *err) {
    const double begin = seconds_now();
    const iter_status status = iter__job_go_on(trainer->job, *goes_on, goes_on, err);
    trainer->left_at = seconds_now();
    trainer->job_seconds += trainer->left_at - begin;
    return status;
}

/* Runs one batch and adds its outcome to *sum, whose loss is a sum until the end. `waits`: collect
 * before returning. */
static iter_status run_batch(iter_trainer *trainer, const iter_batch *batch, bool training,
                             bool waits, iter_result *sum, iter_error *err) {
    if (trainer->job) return run_in_job(trainer, batch, training, sum, err);
    checked_batch checked;
    engine_outcome outcome = {0};
    iter_status status = iter__check_batch(trainer, batch, training, &checked, err);
    const engine_pending note = note_of(trainer, &checked, training);
    const bool runs = status >= 0 && checked.batch.n_counted > 0;
    if (runs) {
        status =
            run(trainer, &checked, training ? ENGINE_RUN_TRAIN : ENGINE_RUN_FORWARD, &outcome, err);
        if (status >= 0 && !outcome.pending && !isfinite(outcome.loss_sum)) {
            char hint[160];
            find_hint(&checked, "Data and labels are finite, so a lower lr may help", hint);
            status = fail_not_finite(&note, iter_batch_index(batch), loss_text(outcome.loss_sum),
                                     hint, err);
        }
    }
    if (status < 0 && !outcome.pending) return fail_step(&note, status, err);
    if (runs && outcome.pending) remember(trainer, &checked, training);
    if (training && runs) {
        trainer->n_steps++;
        trainer->has_gradient = true;
    }
    sum->n_steps++;
    if (status < 0) return fail_step(&note, status, err); /* the run itself counts */
    if (!outcome.pending) {
        sum->loss += outcome.loss_sum;
        sum->n_correct += (uint64_t)outcome.n_correct;
        sum->n_rows += (uint64_t)checked.batch.n_counted;
    }
    if (waits || trainer->n_pending == ENGINE_MAX_PENDING)
        status = settle(trainer, waits ? &checked : NULL, err);
    return take_settled(trainer, status, sum, err);
}

/* The sum as a mean, with the time since `begin`. */
static iter_result result_of(const iter_result *sum, double begin) {
    iter_result result = *sum;
    if (sum->n_rows) result.loss = sum->loss / (double)sum->n_rows;
    result.seconds = seconds_now() - begin;
    return result;
}

static iter_status run_one(iter_trainer *trainer, const iter_batch *batch, bool training,
                           iter_result *out, iter_error *err) {
    iter_result sum = {0}, outer;
    const double begin = seconds_now();
    if (out) *out = sum;
    if (!trainer || !batch) return iter__engine_fail(err, ITER_EINVAL, "trainer or batch is NULL");
    ENGINE_TRY(begin_runs(trainer, &outer, err));
    iter_status status = run_batch(trainer, batch, training, true, &sum, err);
    if (status < 0) status = settle_last(trainer, status, &sum, err);
    trainer->settled = outer;
    if (status >= 0 && out) *out = result_of(&sum, begin);
    return status;
}

/* A step without a result: its sums stay in `settled`. */
static iter_status queue_one(iter_trainer *trainer, const iter_batch *batch, iter_error *err) {
    const double begin = seconds_now();
    iter_result sum = trainer->settled;
    trainer->settled = (iter_result){0};
    iter_status status = run_batch(trainer, batch, true, false, &sum, err);
    if (status < 0) status = settle_last(trainer, status, &sum, err);
    sum.seconds += seconds_now() - begin;
    trainer->settled = sum;
    return status;
}

/* Runs batches until END; returns AGAIN if `progress` ended the run. */
static iter_status run_all(iter_trainer *trainer, iter_loader *loader, bool training,
                           iter_progress_fn progress, void *user, iter_result *out,
                           iter_error *err) {
    iter_result sum = {0}, outer;
    const double begin = seconds_now();
    if (out) *out = sum;
    if (!trainer || !loader)
        return iter__engine_fail(err, ITER_EINVAL, "trainer or loader is NULL");
    iter_status status = begin_runs(trainer, &outer, err);
    if (status < 0) return status;
    trainer->runs++;
    trainer->left_at = begin;
    while (status == ITER_OK) {
        iter_batch *batch;
        const double asked = seconds_now();
        status = iter_loader_next(loader, &batch, err);
        sum.wait_seconds += seconds_now() - asked;
        if (status != ITER_OK && trainer->job) status = end_in_job(trainer, status, err);
        if (status != ITER_OK) break;
        status = run_batch(trainer, batch, training, false, &sum, err);
        iter_batch_unref(batch);
        if (status < 0 || !progress) continue;
        const iter_result so_far = result_of(&sum, begin);
        bool goes_on = progress(user, &so_far);
        if (trainer->job) status = go_on_in_job(trainer, &goes_on, err);
        if (status >= 0 && !goes_on) status = ITER_AGAIN;
    }
    status = settle_last(trainer, status, &sum, err);
    trainer->runs--;
    trainer->settled = outer;
    if (out) *out = result_of(&sum, begin);
    return status == ITER_END ? ITER_OK : status;
}

/* Runs forward only, with all labels 0; c's rows begin at row `first` of the batch. */
static iter_status predict(iter_trainer *trainer, checked_batch *c, int64_t first,
                           engine_outcome *outcome, iter_error *err) {
    static const char hint_of_finite[] = "Data are finite, so the weights are not, or too large";
    const engine_pending note = note_of(trainer, c, false);
    engine_collected found;
    c->far_label = c->label;
    if (c->is_far) c->far_label.data = NULL;
    ENGINE_TRY(run_now(trainer, c, ENGINE_RUN_FORWARD, outcome, &found, err));
    if (found.trouble == ENGINE_TROUBLE_ID)
        return fail_found(trainer, c, first, false, &found, err);
    if (isfinite(outcome->loss_sum)) return ITER_OK;
    char hint[160];
    return fail_not_finite(&note, iter_batch_index(c->source), "an output is not finite",
                           find_hint(c, hint_of_finite, hint), err);
}

/* The outputs of rows [first, first + n), dense. */
static iter_status predict_rows(iter_trainer *trainer, const checked_batch *c, int64_t first,
                                int64_t n, float *out, iter_error *err) {
    engine_outcome outcome; /* for labels that are all 0; finite if the outputs are */
    checked_batch rows = *c;
    const bool wide = trainer->ops->real == ITER_F64;
    if (n < c->batch.n_rows) rows = part_of(trainer, c, first, n);
    rows.label = iter_tensor_dense(&trainer->net.label, trainer->blank_label);
    rows.label.desc.dims[0] = n;
    memset(trainer->counts + first, 1, (size_t)n);
    rows.batch.n_counted = n * trainer->net.n_targets;
    ENGINE_TRY(predict(trainer, &rows, first, &outcome, err));
    ENGINE_TRY(trainer->ops->outputs(trainer->state, n, wide ? trainer->outputs : out, err));
    for (int64_t i = 0; wide && i < n * trainer->net.n_outputs; i++)
        out[i] = (float)((const double *)trainer->outputs)[i];
    return ITER_OK;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status iter_trainer_step(iter_trainer *trainer, const iter_batch *batch, iter_result *out,
                              iter_error *err) {
    if (!out && trainer && batch && trainer->runs == 0) return queue_one(trainer, batch, err);
    return run_one(trainer, batch, true, out, err);
}

iter_status iter_trainer_collect(iter_trainer *trainer, iter_result *out, iter_error *err) {
    if (out) *out = (iter_result){0};
    if (!trainer) return iter__engine_fail(err, ITER_EINVAL, "trainer is NULL");
    if (trainer->runs > 0)
        return iter__engine_fail(err, ITER_ESTATE,
                                 "collect: must not be called from an epoch's progress");
    const double begin = seconds_now();
    const iter_status status = iter__trainer_settle(trainer, err);
    const iter_result sum = trainer->settled;
    trainer->settled = (iter_result){0};
    if (!out) return status;
    *out = result_of(&sum, begin);
    out->seconds += sum.seconds;
    return status;
}

iter_status iter_trainer_test(iter_trainer *trainer, const iter_batch *batch, iter_result *out,
                              iter_error *err) {
    return run_one(trainer, batch, false, out, err);
}

iter_status iter_trainer_predict(iter_trainer *trainer, const iter_batch *batch, float *out,
                                 size_t capacity, iter_error *err) {
    checked_batch c;
    if (!trainer || !batch || !out)
        return iter__engine_fail(err, ITER_EINVAL, "trainer, batch or out is NULL");
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    iter_status status = iter__check_data(trainer, batch, &c, err);
    if (status < 0) return iter__engine_fail_in(err, status, "predict");
    const int64_t n_rows = c.batch.n_rows, n = n_rows * trainer->net.n_outputs;
    if ((uint64_t)n > capacity)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "predict: %" PRId64 " floats come out, but capacity is %zu", n,
                                 capacity);
    /* In a job the net's batch is smaller than the loader's. */
    for (int64_t first = 0; status >= 0 && first < n_rows; first += trainer->net.batch) {
        const int64_t left = n_rows - first;
        status =
            predict_rows(trainer, &c, first, left < trainer->net.batch ? left : trainer->net.batch,
                         out + first * trainer->net.n_outputs, err);
    }
    return status < 0 ? iter__engine_fail_in(err, status, "predict") : ITER_OK;
}

iter_status iter_trainer_epoch(iter_trainer *trainer, iter_loader *loader,
                               iter_progress_fn progress, void *user, iter_result *out,
                               iter_error *err) {
    return run_all(trainer, loader, true, progress, user, out, err);
}

iter_status iter_trainer_evaluate(iter_trainer *trainer, iter_loader *loader, iter_result *out,
                                  iter_error *err) {
    ENGINE_TRY(run_all(trainer, loader, false, NULL, NULL, out, err));
    const iter_status status = iter_loader_reset(loader, err);
    return status == ITER_END ? ITER_OK : status; /* END: this was the loader's last epoch */
}
