/*
 * cut.c - see cut.h. Products of an epoch (< 2^32) and a number of samples (< 2^63) have 128 bits.
 */
#include "iter/plan/cut.h"

#include "iter/core/error.h"

__extension__ typedef unsigned __int128 wide;

static bool rolls(const iter__cut *cut) {
    return cut->last_batch == ITER_LAST_ROLL_OVER;
}

/* floor(epoch * N / G): the first batch of `epoch` in the endless sequence. */
static uint64_t roll_first(const iter__cut *cut, uint64_t epoch) {
    return (uint64_t)((wide)epoch * cut->n / cut->global);
}

/* floor(part m / parts) */
static uint64_t part_of(uint64_t m, uint64_t part, uint64_t parts) {
    return (uint64_t)((wide)part * m / parts);
}

/* The first row of rank `rank`'s share; rank = ranks: m. */
static uint64_t first_row(const iter__cut *cut, uint64_t m, uint32_t rank) {
    if (cut->micro_batches == 0) return part_of(m, rank, cut->ranks);
    return part_of(m, part_of(cut->micro_batches, rank, cut->ranks), cut->micro_batches);
}

uint32_t iter__cut_share(const iter__cut *cut, uint64_t m, uint64_t *out_first) {
    *out_first = first_row(cut, m, cut->rank);
    return (uint32_t)(first_row(cut, m, cut->rank + 1u) - *out_first);
}

uint64_t iter__cut_largest_share(uint64_t global, uint32_t ranks, uint32_t micro_batches) {
    const uint64_t equal = (global + ranks - 1) / ranks;
    if (micro_batches == 0 || micro_batches % ranks == 0) return equal;
    const uint64_t parts = ((uint64_t)micro_batches + ranks - 1) / ranks;
    const uint64_t rows = (global + micro_batches - 1) / micro_batches * parts;
    return rows < global ? rows : global;
}

/* Rows of the global batch at `cursor`; 0 = there is none. */
static uint64_t global_rows(const iter__cut *cut, const iter__cursor *cursor) {
    if (cut->n == 0) return 0;
    if (rolls(cut)) {
        const uint64_t g = cursor->sample / cut->global;
        return g < roll_first(cut, (uint64_t)cursor->epoch + 1) ? cut->global : 0;
    }
    if (cursor->sample >= cut->n) return 0;
    const uint64_t left = cut->n - cursor->sample;
    if (left >= cut->global || cut->last_batch == ITER_LAST_PAD) return cut->global;
    return cut->last_batch == ITER_LAST_KEEP ? left : 0;
}

bool iter__cut_batch(const iter__cut *cut, const iter__cursor *cursor, iter__span *out) {
    const uint64_t m = cursor->ended ? 0 : global_rows(cut, cursor);
    if (m == 0) return false;

    uint64_t first;
    *out = (iter__span){.epoch = cursor->epoch};
    out->n_rows = iter__cut_share(cut, m, &first);
    out->first_row = (uint32_t)first;
    out->global_rows = (uint32_t)m;
    out->start = cursor->sample + first;
    out->n_valid = out->n_rows;
    if (rolls(cut)) {
        out->number = cursor->sample / cut->global - roll_first(cut, cursor->epoch);
        const wide begin = (wide)cursor->epoch * cut->n; /* rows before it were carried */
        if ((wide)out->start < begin) {
            const wide carried = begin - out->start;
            out->pad = carried < out->n_rows ? (uint32_t)carried : out->n_rows;
        }
        out->first_valid = out->pad;
        out->n_valid = out->n_rows - out->pad;
        return true;
    }
    out->number = cursor->sample / cut->global;
    if (out->start >= cut->n) {
        out->pad = out->n_rows;
    } else if (out->start + out->n_rows > cut->n) {
        out->pad = (uint32_t)(out->start + out->n_rows - cut->n);
    }
    out->n_valid = out->n_rows - out->pad;
    return true;
}

static bool at_end(const iter__cut *cut, const iter__cursor *cursor) {
    return global_rows(cut, cursor) == 0;
}

iter__cursor iter__cut_after(const iter__cut *cut, const iter__cursor *cursor) {
    iter__cursor next = *cursor;
    next.sample += cut->global;
    if (!rolls(cut) && next.sample > cut->n) next.sample = cut->n; /* padding is not consumed */
    next.ended = at_end(cut, &next);
    return next;
}

iter__cursor iter__cut_epoch(const iter__cut *cut, uint32_t epoch) {
    iter__cursor cursor = {.epoch = epoch};
    if (rolls(cut) && cut->n != ITER_UNKNOWN) cursor.sample = roll_first(cut, epoch) * cut->global;
    return cursor;
}

uint64_t iter__cut_n_batches(const iter__cut *cut, uint32_t epoch) {
    if (cut->n == ITER_UNKNOWN) return ITER_UNKNOWN;
    switch (cut->last_batch) {
    case ITER_LAST_ROLL_OVER: return roll_first(cut, (uint64_t)epoch + 1) - roll_first(cut, epoch);
    case ITER_LAST_DISCARD: return cut->n / cut->global;
    default: return cut->n / cut->global + (cut->n % cut->global != 0);
    }
}

static iter_status not_a_start(const iter__cut *cut, uint64_t sample, iter_error *err) {
    const uint64_t below = sample / cut->global * cut->global;
    const uint64_t above = below + cut->global;
    const bool go_up = above - sample < sample - below && (rolls(cut) || above <= cut->n);
    return iter__fail(err, ITER_EINVAL,
                      "position: sample %llu is not a multiple of the global batch, batch_size x "
                      "ranks = %llu; the nearest "
                      "is %llu",
                      (unsigned long long)sample, (unsigned long long)cut->global,
                      (unsigned long long)(go_up ? above : below));
}

static iter_status place_rolling(const iter__cut *cut, uint32_t epoch, uint64_t t, bool ended,
                                 iter__cursor *out, iter_error *err) {
    if (cut->n == 0) {
        *out = (iter__cursor){.epoch = epoch, .sample = t, .ended = ended};
        return ITER_OK;
    }
    const uint64_t g = t / cut->global;
    const uint64_t first = roll_first(cut, epoch), end = roll_first(cut, (uint64_t)epoch + 1);
    *out = (iter__cursor){.epoch = epoch, .sample = t};
    if (ended && g == end) {
        out->ended = true;
        return ITER_OK;
    }
    if (g == first || (g > first && g < end)) return ITER_OK;
    /* The epoch follows from t: the smallest e with floor((e+1)N/G) > g. */
    const wide rows = (wide)(g + 1) * cut->global;
    const wide e = (rows + cut->n - 1) / cut->n - 1;
    if (e > UINT32_MAX) {
        return iter__fail(err, ITER_EINVAL, "position: sample %llu lies beyond the last epoch, %u",
                          (unsigned long long)t, UINT32_MAX);
    }
    out->epoch = (uint32_t)e;
    return ITER_OK;
}

iter_status iter__cut_place(const iter__cut *cut, uint32_t epoch, uint64_t sample, bool ended,
                            iter__cursor *out, iter_error *err) {
    *out = (iter__cursor){.epoch = epoch, .sample = sample, .ended = ended};
    if (!rolls(cut) && ended) return ITER_OK; /* any batch size: next answers END */
    if (cut->n == ITER_UNKNOWN) return ITER_OK;
    if (!rolls(cut) && sample > cut->n) {
        return iter__fail(err, ITER_EINVAL,
                          "position: sample %llu of an epoch of %llu; the nearest is %llu",
                          (unsigned long long)sample, (unsigned long long)cut->n,
                          (unsigned long long)(cut->n / cut->global * cut->global));
    }
    if (sample % cut->global != 0) return not_a_start(cut, sample, err);
    return rolls(cut) ? place_rolling(cut, epoch, sample, ended, out, err) : ITER_OK;
}

void iter__cut_row(const iter__cut *cut, const iter__span *span, uint32_t row, uint32_t *out_epoch,
                   uint64_t *out_position) {
    const uint64_t at = span->start + row;
    if (rolls(cut)) {
        *out_epoch = (uint32_t)(at / cut->n);
        *out_position = at % cut->n;
    } else {
        *out_epoch = span->epoch;
        *out_position = at < cut->n ? at : at % cut->n;
    }
}
