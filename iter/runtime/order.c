/*
 * order.c - the three orders of batches: by position (pure samplers), as a sequential sampler draws
 * them, and a stream's. See opener.h.
 *
 * A sampler's answers are checked here. If it returns a sample that does not exist, or more samples
 * than fit, the batch fails.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

/* Samples that a sampler may choose from. */
static uint64_t n_choices(const iter_loader *loader) {
    return loader->sampling.subset ? loader->opt.sampler.n_subset : loader->dataset->desc.n_samples;
}

static iter_status in_sampler(const iter_loader *loader, iter_status status, iter_error *err) {
    if (status >= 0) return status;
    return iter__fail_in(err, status, "sampler %s", loader->sampling.ops->base.name);
}

/* Whether all of these exist. */
static iter_status check_indices(const iter_loader *loader, const uint64_t *indices, uint64_t n,
                                 iter_error *err) {
    const uint64_t all = n_choices(loader), mask = iter__index_mask(loader->dataset);
    bool any = false; /* without a branch for each: batches of small rows are made of little else */
    for (uint64_t i = 0; i < n; i++)
        any |= (indices[i] & mask) >= all;
    for (uint64_t i = 0; any && i < n; i++) {
        if ((indices[i] & mask) < all) continue;
        return iter__fail(err, ITER_EINVAL, "sampler %s: drew sample %llu of %llu",
                          loader->sampling.ops->base.name, (unsigned long long)indices[i],
                          (unsigned long long)all);
    }
    return ITER_OK;
}

static void fail_batch(iter__opening *opening, iter_status status, const iter_error *error) {
    opening->batch->status = status;
    opening->batch->error = *error;
}

/* The bits above samples that are drawn in this epoch. */
static uint64_t epoch_above(const iter_loader *loader, uint32_t epoch) {
    const bool adds = loader->dataset->desc.by_epoch && !loader->sampling.subset &&
                      loader->sampling.ops->epochs == ITER_EPOCHS_LOADER;
    return adds ? (uint64_t)epoch << ITER_INDEX_BITS : 0;
}

/* ---- By position ----------------------------------------------------------------------------- */

iter_status iter__sampler_index(iter_loader *loader, uint32_t epoch, uint64_t position, uint32_t n,
                                uint64_t *out, bool may_wait, iter_error *err) {
    if (may_wait)
        pthread_mutex_lock(&loader->opener.sampler_lock);
    else if (pthread_mutex_trylock(&loader->opener.sampler_lock) != 0)
        return ITER_AGAIN;
    loader->sampling.ops->index(loader->sampling.state, epoch, position, n, out);
    pthread_mutex_unlock(&loader->opener.sampler_lock);
    ITER_TRY(check_indices(loader, out, n, err));
    for (uint32_t i = 0; loader->sampling.subset && i < n; i++)
        out[i] = loader->sampling.subset[out[i]];
    const uint64_t above = epoch_above(loader, epoch);
    for (uint32_t i = 0; above && i < n; i++)
        out[i] |= above;
    return ITER_OK;
}

void iter__batch_ask(const iter_loader *loader, iter_batch *batch, uint32_t row, uint32_t n) {
    if (batch->asked == batch->index) return;
    for (uint32_t r = row; r < row + n; r++)
        batch->index[r] = batch->asked[r] & iter__index_mask(loader->dataset);
}

/* Sets each row's sample. Asks for runs of neighbouring positions in one call. */
static iter_status rows_by_position(iter_loader *loader, iter_batch *batch, const iter__span *span,
                                    iter_error *err) {
    for (uint32_t r = 0; r < span->n_rows;) {
        uint32_t epoch;
        uint64_t position;
        iter__cut_row(&loader->cut, span, r, &epoch, &position);
        const uint64_t left = loader->cut.n - position;
        const uint32_t run = left < span->n_rows - r ? (uint32_t)left : span->n_rows - r;
        ITER_TRY(iter__sampler_index(loader, epoch, position, run, batch->asked + r, true, err));
        iter__batch_ask(loader, batch, r, run);
        uint64_t *positions = batch->position + r;
        uint32_t *epochs = batch->row_epoch + r;
        for (uint32_t i = 0; i < run; i++)
            positions[i] = position + i;
        for (uint32_t i = 0; i < run; i++)
            epochs[i] = epoch;
        r += run;
    }
    return ITER_OK;
}

static void open_by_position(iter_loader *loader, iter__opening *opening) {
    iter_error error; /* cleared, not zeroed: it is large, and this runs for each batch */
    iter__error_clear(&error);
    opening->ends = !iter__cut_batch(&loader->cut, &opening->at, &opening->span);
    if (opening->ends) return;
    opening->after = iter__cut_after(&loader->cut, &opening->at);
    const iter_status status = rows_by_position(loader, opening->batch, &opening->span, &error);
    if (status < 0) fail_batch(opening, status, &error);
}

static iter_status restore_by_position(iter_loader *loader, const iter__place *place,
                                       iter_error *err) {
    (void)err;
    pthread_mutex_lock(&loader->lock);
    iter__loader_go(loader, &place->at, place->number);
    pthread_mutex_unlock(&loader->lock);
    return ITER_OK;
}

/* ---- As drawn -------------------------------------------------------------------------------- */

/* The same for a sequential sampler, after it drew the global batch, or for a stream. */
static void rows_as_drawn(iter_loader *loader, iter_batch *batch, const iter__span *span,
                          uint64_t first) {
    const uint64_t *all = loader->opener.drawn;
    for (uint32_t r = 0; r < span->n_rows; r++) {
        const uint64_t drawn = all ? all[first + r] : span->start + r;
        batch->index[r] = loader->sampling.subset && all ? loader->sampling.subset[drawn] : drawn;
        if (batch->asked != batch->index)
            batch->asked[r] = batch->index[r] | epoch_above(loader, span->epoch);
        batch->position[r] = span->start + r;
        batch->row_epoch[r] = span->epoch;
    }
}

static iter_status ask(iter_loader *loader, uint32_t *out_n, iter_error *err) {
    const uint32_t capacity = (uint32_t)loader->cut.global;
    uint64_t *drawn = loader->opener.drawn;
    const iter_status status =
        loader->sampling.ops->next_batch(loader->sampling.state, capacity, drawn, out_n, err);
    if (status < 0) return in_sampler(loader, status, err);
    if (*out_n > capacity) {
        return iter__fail(err, ITER_EINVAL, "sampler %s: drew %u samples, expected at most %u",
                          loader->sampling.ops->base.name, *out_n, capacity);
    }
    return check_indices(loader, drawn, *out_n, err);
}

/* Draws the next global batch. Sets *out_n = 0 at the epoch's end. sampler_lock held. */
static iter_status draw(iter_loader *loader, iter__opening *opening, uint32_t *out_n,
                        iter_error *err) {
    *out_n = 0;
    if (!opening->epoch_begun) {
        const iter_status begun =
            loader->sampling.ops->begin(loader->sampling.state, opening->at.epoch, err);
        ITER_TRY(in_sampler(loader, begun, err));
        opening->epoch_begun = true;
    }
    for (; opening->replay; opening->replay--) {
        ITER_TRY(ask(loader, out_n, err));
        if (*out_n == 0) { /* the epoch is shorter than when the position was saved */
            opening->replay = 0;
            return ITER_OK;
        }
    }
    return ask(loader, out_n, err);
}

static void save_sampler(iter_loader *loader, iter_batch *batch) {
    if (!loader->sampling.ops->save) return;
    const iter_status saved =
        loader->sampling.ops->save(loader->sampling.state, batch->sampler_after, ITER_SAMPLER_BLOB,
                                   &batch->sampler_after_bytes);
    if (saved < 0 || batch->sampler_after_bytes > ITER_SAMPLER_BLOB) batch->sampler_after_bytes = 0;
}

static void draw_batch(iter_loader *loader, iter__opening *opening) {
    iter_error error = {.status = ITER_OK};
    uint32_t m = 0;
    const iter_status status = opening->at.ended ? ITER_OK : draw(loader, opening, &m, &error);
    opening->ends = status == ITER_OK && m == 0;
    if (opening->ends) return;
    uint64_t first = 0;
    iter__span *span = &opening->span;
    *span = (iter__span){.epoch = opening->at.epoch, .number = opening->number++};
    span->n_rows = span->n_valid = status < 0 ? 0 : iter__cut_share(&loader->cut, m, &first);
    span->start = opening->at.sample + first;
    span->first_row = (uint32_t)first;
    span->global_rows = m;
    opening->after = opening->at;
    opening->after.sample += m;
    if (status < 0) {
        fail_batch(opening, status, &error);
        opening->after.ended = true; /* the state of a sampler that failed is unknown */
        return;
    }
    rows_as_drawn(loader, opening->batch, span, first);
    save_sampler(loader, opening->batch);
}

static void open_as_drawn(iter_loader *loader, iter__opening *opening) {
    pthread_mutex_lock(&loader->opener.sampler_lock);
    /* If the loader went elsewhere, the sampler may have been restored: a batch that is drawn now
     * would then be missing. */
    if (atomic_load(&loader->opener.moves) == opening->moves) draw_batch(loader, opening);
    pthread_mutex_unlock(&loader->opener.sampler_lock);
}

/* Takes sampler_lock. If another thread is in the sampler, waits at most as long as next() does. */
static iter_status take_sampler(iter_loader *loader, iter_error *err) {
    const int64_t start = iter__now_ns();
    while (pthread_mutex_trylock(&loader->opener.sampler_lock) != 0) {
        const struct timespec pause = {.tv_nsec = 1000000};
        const int64_t waited_ms = (iter__now_ns() - start) / 1000000;
        if (atomic_load(&loader->ending.canceled))
            return iter__fail(err, ITER_ECANCELED, "loader: canceled");
        if (loader->opt.faults.timeout_ms && waited_ms >= loader->opt.faults.timeout_ms) {
            return iter__fail(err, ITER_ETIMEDOUT,
                              "restore: sampler %s has been busy for %lld ms; nothing was changed",
                              loader->sampling.ops->base.name, (long long)waited_ms);
        }
        nanosleep(&pause, NULL);
    }
    return ITER_OK;
}

static iter_status restore_sampler(iter_loader *loader, const iter__place *place, iter_error *err) {
    iter_error own; /* callbacks always get one */
    if (!err) err = &own;
    iter__error_clear(err);
    const iter_loader *outer = iter__in_callback_of;
    iter__in_callback_of = loader;
    const char *name = loader->sampling.ops->base.name;
    iter_status status = loader->sampling.ops->begin(loader->sampling.state, place->at.epoch, err);
    if (status < 0) {
        status = iter__fail_in(err, status, "restore: sampler %s", name);
    } else {
        status =
            loader->sampling.ops->restore(loader->sampling.state, place->state, place->state_bytes);
        if (status < 0) iter__fail(err, status, "restore: sampler %s refuses its state", name);
    }
    iter__in_callback_of = outer;
    return status;
}

static void note_replay(iter_loader *loader, const char *what, const char *how) {
    char text[160];
    snprintf(text, sizeof(text),
             "restore: %s cannot seek; all samples before the position are %s again", what, how);
    iter__fallback(loader, text);
}

/* Goes to the place or, if the sampler failed, to the beginning of its epoch. loader.lock and
 * sampler_lock held. */
static void go_drawn(iter_loader *loader, const iter__place *place, iter_status status) {
    const iter__cursor start = iter__cut_epoch(&loader->cut, place->at.epoch);
    iter__loader_go(loader, status < 0 ? &start : &place->at, status < 0 ? 0 : place->number);
    if (status < 0 || place->at.ended) return;
    loader->opener.number = place->number;
    if (place->state_bytes && loader->sampling.ops->restore) {
        loader->opener.epoch_begun = true;
        memcpy(loader->consumer.sampler_at, place->state, place->state_bytes);
        loader->consumer.sampler_at_bytes = place->state_bytes;
    } else if (place->number) {
        note_replay(loader, "the sampler", "drawn");
        loader->opener.replay = place->number;
    }
}

static iter_status restore_as_drawn(iter_loader *loader, const iter__place *place,
                                    iter_error *err) {
    if (!place->at.ended && place->global_batch != loader->cut.global) {
        return iter__fail(err, ITER_EINVAL,
                          "restore: sampler %s needs the same batch_size x ranks: expected %llu, "
                          "got %llu",
                          loader->sampling.ops->base.name, (unsigned long long)place->global_batch,
                          (unsigned long long)loader->cut.global);
    }
    ITER_TRY(take_sampler(loader, err));
    const bool has_state = place->state_bytes && loader->sampling.ops->restore;
    const iter_status status =
        place->at.ended || !has_state ? ITER_OK : restore_sampler(loader, place, err);
    pthread_mutex_lock(&loader->lock);
    go_drawn(loader, place, status);
    pthread_mutex_unlock(&loader->lock);
    pthread_mutex_unlock(&loader->opener.sampler_lock);
    return status;
}

/* ---- Streams --------------------------------------------------------------------------------- */

/* The number of rows is known only after the batch is made, so only one is open at a time. */
static void open_stream(iter_loader *loader, iter__opening *opening) {
    opening->ends = opening->at.ended;
    if (opening->ends) return;
    iter_batch *batch = opening->batch;
    iter__span *span = &opening->span;
    *span = (iter__span){
        .epoch = opening->at.epoch, .number = opening->number++, .start = opening->at.sample};
    span->n_rows = span->n_valid = span->global_rows = loader->opt.batch_size;
    rows_as_drawn(loader, batch, span, 0);
    batch->rewinds = !opening->epoch_begun;
    batch->skip = opening->replay;
    opening->epoch_begun = true;
    opening->replay = 0;
    opening->after = opening->at;
}

static iter_status restore_stream(iter_loader *loader, const iter__place *place, iter_error *err) {
    (void)err;
    pthread_mutex_lock(&loader->lock);
    iter__loader_go(loader, &place->at, place->number);
    if (!place->at.ended) {
        loader->opener.number = place->number;
        if (place->number) {
            note_replay(loader, "a stream", "read");
            loader->opener.replay = place->at.sample;
        }
    }
    pthread_mutex_unlock(&loader->lock);
    return ITER_OK;
}

/* ---- Choice ---------------------------------------------------------------------------------- */

static const iter__order by_position = {
    .by_position = true, .open = open_by_position, .restore = restore_by_position};
static const iter__order as_drawn = {.open = open_as_drawn, .restore = restore_as_drawn};
static const iter__order as_it_comes = {
    .is_stream = true, .open = open_stream, .restore = restore_stream};

const iter__order *iter__order_of(const iter_sampler_ops *sampler, bool is_stream) {
    return is_stream ? &as_it_comes : sampler->index ? &by_position : &as_drawn;
}
