/*
 * sampler_token_budget.c - batches of as many samples as fit a number of tokens.
 *
 * An epoch's samples, in random order or as stored, are taken in windows. Each window is sorted by
 * length, the longest first, and cut into batches from the front; its batches come in random order.
 * A window depends on the epoch and its number alone, so the saved position is (window, batch).
 *
 * The budget is that of the whole batch, which all ranks share, so that batches do not depend on
 * how many there are. Rank r of R gets rows [r m / R, (r + 1) m / R) of a batch with m rows.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/files/byte_order.h"
#include "loaders/samplers/samplers.h"

#define WINDOW      4096
#define WINDOW_MAX  (1 << 24)
#define SAVED_BYTES 16 /* epoch u32, batch u32, window u64, little-endian */

typedef struct row {
    int64_t length;
    uint64_t index;
} row;

typedef struct state {
    uint64_t n_samples, budget, key, batch_key;
    uint32_t most, multiple, window; /* rows of a batch; of a window */
    bool shuffles, sums;
    int64_t (*length)(const void *user, uint64_t index);
    const void *length_user;
    uint32_t epoch;
    iter__permutation permutation;
    uint16_t *table;  /* [n_samples] when they are few */
    row *rows;        /* [window] of the window that is cut */
    uint64_t *drawn;  /* [window] */
    uint32_t *starts; /* [window + 1] first row of each batch */
    uint32_t n_batches;
    uint16_t *batch_table;
    iter__permutation batches;
    uint64_t at_window; /* the next batch: window, and number in it */
    uint32_t at_batch;
    bool is_cut; /* `rows` are those of at_window */
} state;

static const iter_token_budget_options defaults = ITER_TOKEN_BUDGET_OPTIONS_INIT;

static const iter_option options_budget[] = {
    ITER_ROW_INT("tokens", "of a batch, all ranks together", iter_token_budget_options, tokens, 0,
                 9e15, 1),
    ITER_ROW_CHOICE("cost",
                    "what a batch takes: its rows by the longest one, or the sum of lengths",
                    iter_token_budget_options, cost, "padded|sum"),
    ITER_ROW_INT("multiple", "a batch has a multiple of so many rows, unless fewer fit",
                 iter_token_budget_options, multiple, 1, 1 << 20, 0),
    ITER_ROW_INT("window", "samples that are sorted together; 0 = 4,096", iter_token_budget_options,
                 window, 0, WINDOW_MAX, 0),
    ITER_ROW_BOOL("shuffle", "samples and batches in random order", iter_token_budget_options,
                  shuffle),
    ITER_ROW_END,
};

static void budget_close(void *opaque) {
    state *s = opaque;
    iter__free(s->table);
    iter__free(s->rows);
    iter__free(s->drawn);
    iter__free(s->starts);
    iter__free(s->batch_table);
}

/* A sample that fits no batch is an error now, not in the middle of an epoch. */
static iter_status check_lengths(const state *s, iter_error *err) {
    for (uint64_t i = 0; i < s->n_samples; i++) {
        const int64_t length = s->length(s->length_user, i);
        if (length < 0)
            return iter__fail(err, ITER_EINVAL, "sample %" PRIu64 " has no known length", i);
        if ((uint64_t)length > s->budget)
            return iter__fail(err, ITER_EINVAL,
                              "sample %" PRIu64 " has %" PRId64 " tokens; tokens is %" PRIu64, i,
                              length, s->budget);
    }
    return ITER_OK;
}

static iter_status budget_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_token_budget_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    if (!context->length)
        return iter__fail(err, ITER_EINVAL,
                          "this dataset does not tell the length of a sample before it is read");
    if (o->tokens == 0) return iter__fail(err, ITER_EINVAL, "needs tokens=, those of a batch");
    const uint32_t most = context->batch_size * (context->ranks ? context->ranks : 1);
    if (o->multiple > most)
        return iter__fail(err, ITER_EINVAL, "multiple is %d, a batch has %u rows at most",
                          (int)o->multiple, most);
    *s = (state){.n_samples = context->n_samples,
                 .budget = (uint64_t)o->tokens,
                 .key = iter_rng_key(context->seed, "token-budget", 0),
                 .batch_key = iter_rng_key(context->seed, "token-budget", 1),
                 .most = most,
                 .multiple = (uint32_t)o->multiple,
                 .window = o->window ? (uint32_t)o->window : WINDOW,
                 .shuffles = o->shuffle,
                 .sums = o->cost == 1,
                 .length = context->length,
                 .length_user = context->length_user};
    ITER_TRY(check_lengths(s, err));
    const bool is_small = s->n_samples <= ITER_PERMUTATION_TABLE;
    s->table = iter__alloc(is_small && s->n_samples ? (size_t)s->n_samples : 1, sizeof(*s->table));
    s->rows = iter__alloc(s->window, sizeof(*s->rows));
    s->drawn = iter__alloc(s->window, sizeof(*s->drawn));
    s->starts = iter__alloc((size_t)s->window + 1, sizeof(*s->starts));
    s->batch_table = iter__alloc(ITER_PERMUTATION_TABLE, sizeof(*s->batch_table));
    if (s->table && s->rows && s->drawn && s->starts && s->batch_table) return ITER_OK;
    budget_close(s);
    return iter__fail(err, ITER_ENOMEM, "out of memory");
}

/* ---- Windows --------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* How many of rows[0..n), sorted, the next batch has. */
static uint32_t batch_of(const state *s, const row *rows, uint32_t n) {
    const uint64_t longest = (uint64_t)rows[0].length;
    uint64_t fit = 0, sum = 0;
    if (s->sums) {
        while (fit < n && fit < s->most && sum + (uint64_t)rows[fit].length <= s->budget)
            sum += (uint64_t)rows[fit++].length;
    } else {
        fit = longest ? s->budget / longest : s->most;
    }
    fit = iter__min_u64(fit, s->most);
    if (fit >= s->multiple) fit -= fit % s->multiple;
    return (uint32_t)iter__min_u64(fit, n);
}

static void cut_window(state *s) {
    const uint64_t first = s->at_window * s->window;
    const uint32_t n = (uint32_t)iter__min_u64(s->n_samples - first, s->window);
    if (s->shuffles) iter__permutation_run(&s->permutation, first, n, s->drawn);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t index = s->shuffles ? s->drawn[i] : first + i;
        s->rows[i] = (row){s->length(s->length_user, index), index};
    }
    qsort(s->rows, n, sizeof(s->rows[0]), compare_rows);
    s->n_batches = 0;
    for (uint32_t at = 0; at < n; at += batch_of(s, s->rows + at, n - at))
        s->starts[s->n_batches++] = at;
    s->starts[s->n_batches] = n;
    iter__permutation_init(&s->batches, s->batch_key + s->at_window, s->epoch, s->n_batches,
                           s->batch_table);
    s->is_cut = true;
}

static void go_to(state *s, uint32_t epoch, uint64_t window, uint32_t batch) {
    s->epoch = epoch;
    iter__permutation_init(&s->permutation, s->key, epoch, s->n_samples, s->table);
    s->at_window = window;
    s->at_batch = batch;
    s->is_cut = false;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status budget_begin(void *opaque, uint32_t epoch, iter_error *err) {
    (void)err;
    go_to(opaque, epoch, 0, 0);
    return ITER_OK;
}

static iter_status budget_next_batch(void *opaque, uint32_t capacity, uint64_t *out,
                                     uint32_t *out_n, iter_error *err) {
    state *s = opaque;
    *out_n = 0;
    if (s->is_cut && s->at_batch == s->n_batches) {
        s->at_window++;
        s->at_batch = 0;
        s->is_cut = false;
    }
    if (s->at_window * s->window >= s->n_samples) return ITER_OK;
    if (!s->is_cut) cut_window(s);
    uint64_t number = s->at_batch;
    if (s->shuffles) iter__permutation_run(&s->batches, s->at_batch, 1, &number);
    const uint32_t start = s->starts[number], n = s->starts[number + 1] - start;
    if (n > capacity)
        return iter__fail(err, ITER_EINVAL, "room for %u samples, but a batch has %u", capacity, n);
    for (uint32_t i = 0; i < n; i++)
        out[i] = s->rows[start + i].index;
    s->at_batch++;
    *out_n = n;
    return ITER_OK;
}

static iter_status budget_save(const void *opaque, void *out, size_t capacity, size_t *out_size) {
    const state *s = opaque;
    *out_size = 0;
    if (capacity < SAVED_BYTES) return ITER_EINVAL;
    uint8_t *bytes = out;
    iter__put_le32(bytes, s->epoch);
    iter__put_le32(bytes + 4, s->at_batch);
    iter__put_le64(bytes + 8, s->at_window);
    *out_size = SAVED_BYTES;
    return ITER_OK;
}

static iter_status budget_restore(void *opaque, const void *saved, size_t size) {
    state *s = opaque;
    const uint8_t *bytes = saved;
    if (size != SAVED_BYTES) return ITER_EINVAL;
    const uint32_t batch = iter__get_le32(bytes + 4);
    const uint64_t window = iter__get_le64(bytes + 8);
    if (window > s->n_samples / s->window) return ITER_EINVAL;
    go_to(s, iter__get_le32(bytes), window, 0);
    if (window * s->window < s->n_samples) cut_window(s);
    if (batch > (s->is_cut ? s->n_batches : 0)) return ITER_EINVAL;
    s->at_batch = batch;
    return ITER_OK;
}

const iter_sampler_ops iter__sampler_token_budget = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "token-budget",
             .help = "batches of as many samples as fit a number of tokens, of similar length",
             .options = options_budget,
             .defaults = &defaults,
             .options_size = sizeof(iter_token_budget_options),
             .state_size = sizeof(state)},
    .open = budget_open,
    .close = budget_close,
    .begin = budget_begin,
    .next_batch = budget_next_batch,
    .save = budget_save,
    .restore = budget_restore,
    .epochs = ITER_EPOCHS_LOADER,
};
