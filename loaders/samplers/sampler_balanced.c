/*
 * sampler_balanced.c - every class equally often, each in its own order, epoch after its own epoch.
 *
 * Draws are counted over all epochs of the loader: draw t is position t % samples of epoch t /
 * samples. C draws are a round, which has each of the C classes once, in a permutation of its own.
 * So round r is draw r of every class. A class of n samples gives sample r % n of its pass r / n,
 * and each pass is another permutation of its samples. Any draw follows from t alone.
 */
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/samplers/label_classes.h"
#include "loaders/samplers/samplers.h"

#define AHEAD 512

static const iter_balanced_options defaults = ITER_BALANCED_OPTIONS_INIT;

static const iter_option options_balanced[] = {
    ITER_ROW_INT("samples",
                 "draws an epoch; 0 = as many as there are samples, less what fills no round",
                 iter_balanced_options, samples, 0, 9e15, 1),
    ITER_ROW_INT("classes",
                 "labels are 0 to classes - 1, and each must have samples; 0 = those that there "
                 "are",
                 iter_balanced_options, classes, 0, UINT32_MAX, 0),
    ITER_ROW_STRING("field", "the field with the labels, if it is not the first one of that role",
                    iter_balanced_options, field, 0),
    ITER_ROW_END,
};

/* The order of one class in the pass that was asked for last. */
typedef struct class {
    uint64_t key, pass; /* pass: of `permutation`, if is_ready */
    iter__permutation permutation;
    uint16_t *table; /* [samples of the class] when they are few; part of state.tables */
    int32_t head;    /* of its draws in `next`, while draws are mapped; -1 = none */
    bool is_ready;
} class;

typedef struct state {
    iter__label_classes set;
    class *classes;   /* [set.n] */
    uint16_t *tables; /* of all small classes */
    uint64_t n_draws; /* an epoch */
    uint64_t round_key, round;
    bool is_ready; /* `order` is that of `round` */
    iter__permutation order;
    uint16_t *order_table;
    uint64_t ahead[AHEAD]; /* samples of draws ahead_start, ahead_start + 1, ... */
    uint64_t ahead_start, next_draw;
    uint32_t n_ahead;
} state;

/* ---- Open ------------------------------------------------------------------------------------ */

static void balanced_close(void *opaque) {
    state *s = opaque;
    iter__label_classes_free(&s->set);
    iter__free(s->classes);
    iter__free(s->tables);
    iter__free(s->order_table);
    s->classes = NULL;
    s->tables = s->order_table = NULL;
}

static uint64_t n_of(const state *s, uint32_t c) {
    return s->set.starts[c + 1] - s->set.starts[c];
}

static iter_status check_classes(const state *s, int64_t classes, iter_error *err) {
    if (classes == 0) return ITER_OK;
    for (int64_t label = 0; label < classes; label++)
        if (iter__label_classes_find(&s->set, label) == s->set.n)
            return iter__fail(err, ITER_EINVAL,
                              "classes is %lld, but class %lld has no samples; %u labels have "
                              "some, %lld to %lld",
                              (long long)classes, (long long)label, s->set.n,
                              (long long)s->set.labels[0], (long long)s->set.labels[s->set.n - 1]);
    if (s->set.n == (uint64_t)classes) return ITER_OK;
    const int64_t lowest = s->set.labels[0], highest = s->set.labels[s->set.n - 1];
    return iter__fail(err, ITER_EINVAL, "classes is %lld, but there are samples of label %lld",
                      (long long)classes, (long long)(lowest < 0 ? lowest : highest));
}

static iter_status make_classes(state *s, uint64_t seed, iter_error *err) {
    uint64_t n_small = 0;
    for (uint32_t c = 0; c < s->set.n; c++)
        if (n_of(s, c) <= ITER_PERMUTATION_TABLE) n_small += n_of(s, c);
    s->classes = iter__alloc(s->set.n, sizeof(*s->classes));
    s->tables = iter__alloc(n_small, sizeof(*s->tables));
    if (s->set.n <= ITER_PERMUTATION_TABLE)
        s->order_table = iter__alloc(s->set.n, sizeof(*s->order_table));
    if (!s->classes || !s->tables || (s->set.n <= ITER_PERMUTATION_TABLE && !s->order_table))
        return iter__fail(err, ITER_ENOMEM, "no memory for %u classes", s->set.n);
    uint16_t *table = s->tables;
    for (uint32_t c = 0; c < s->set.n; c++) {
        class *it = &s->classes[c];
        it->key = iter_rng_key(seed, "balanced", c);
        it->head = -1;
        if (n_of(s, c) > ITER_PERMUTATION_TABLE) continue;
        it->table = table;
        table += n_of(s, c);
    }
    return ITER_OK;
}

static iter_status balanced_open(void *opaque, const void *options,
                                 const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_balanced_options *o = options ? options : &defaults;
    ITER_TRY(iter__label_classes_make(context, o->field, &s->set, err));
    iter_status status = check_classes(s, o->classes, err);
    if (status == ITER_OK) status = make_classes(s, context->seed, err);
    if (status < 0) {
        balanced_close(s);
        return status;
    }
    s->round_key = iter_rng_key(context->seed, "balanced-rounds", 0);
    s->n_draws =
        o->samples > 0 ? (uint64_t)o->samples : context->n_samples - context->n_samples % s->set.n;
    return ITER_OK;
}

static uint64_t balanced_length(const void *opaque) {
    return ((const state *)opaque)->n_draws;
}

/* ---- Draws ----------------------------------------------------------------------------------- */

/* Classes of draws [draw, draw + n), which lie in one round. */
static void order_classes(state *s, uint64_t draw, uint32_t n, uint64_t *out) {
    const uint64_t round = draw / s->set.n;
    if (!s->is_ready || s->round != round) {
        iter__permutation_init(&s->order, s->round_key + (round >> 32), (uint32_t)round, s->set.n,
                               s->order_table);
        s->round = round;
        s->is_ready = true;
    }
    iter__permutation_run(&s->order, draw % s->set.n, n, out);
}

/* Maps the draws of one class, in order, each out[i] its number there, to samples. */
static void map_class(state *s, uint32_t c, const int32_t *next, uint64_t *out) {
    class *it = &s->classes[c];
    const uint64_t n_samples = n_of(s, c);
    uint64_t numbers[AHEAD];
    int32_t places[AHEAD];
    for (int32_t i = it->head; i >= 0;) {
        const uint64_t pass = out[i] / n_samples;
        uint32_t n = 0;
        for (; i >= 0 && out[i] / n_samples == pass; i = next[i]) {
            places[n] = i;
            numbers[n++] = out[i] % n_samples;
        }
        if (!it->is_ready || it->pass != pass) {
            iter__permutation_init(&it->permutation, it->key + (pass >> 32), (uint32_t)pass,
                                   n_samples, it->table);
            it->pass = pass;
            it->is_ready = true;
        }
        iter__permutation_map(&it->permutation, numbers, n, numbers);
        for (uint32_t k = 0; k < n; k++)
            out[places[k]] = s->set.samples[s->set.starts[c] + numbers[k]];
    }
    it->head = -1;
}

/* Samples of draws [draw, draw + n), n <= AHEAD. */
static void draw_some(state *s, uint64_t draw, uint32_t n, uint64_t *out) {
    int32_t next[AHEAD];
    uint64_t classes[AHEAD];
    for (uint32_t i = 0; i < n;) {
        const uint64_t left = s->set.n - (draw + i) % s->set.n; /* of the round */
        const uint32_t m = (uint32_t)iter__min_u64(left, n - i);
        order_classes(s, draw + i, m, classes + i);
        i += m;
    }
    for (uint32_t i = n; i-- > 0;) { /* backwards, so that each list is in order */
        class *it = &s->classes[classes[i]];
        out[i] = (draw + i) / s->set.n;
        next[i] = it->head;
        it->head = (int32_t)i;
    }
    for (uint32_t i = 0; i < n; i++)
        if (s->classes[classes[i]].head == (int32_t)i)
            map_class(s, (uint32_t)classes[i], next, out);
}

static uint32_t serve_ahead(const state *s, uint64_t draw, uint32_t n, uint64_t *out) {
    if (draw < s->ahead_start || draw - s->ahead_start >= s->n_ahead) return 0;
    const uint32_t from = (uint32_t)(draw - s->ahead_start);
    const uint32_t n_ready = iter__min_u32(s->n_ahead - from, n);
    memcpy(out, s->ahead + from, n_ready * sizeof(*out));
    return n_ready;
}

static void balanced_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                           uint64_t *out) {
    state *s = opaque;
    uint64_t draw = epoch * s->n_draws + position;
    const bool in_sequence = draw == s->next_draw;
    s->next_draw = draw + n;
    while (n > 0) {
        uint32_t n_served = serve_ahead(s, draw, n, out);
        if (n_served == 0) {
            s->ahead_start = draw;
            s->n_ahead = in_sequence ? AHEAD : iter__min_u32(n, AHEAD);
            draw_some(s, draw, s->n_ahead, s->ahead);
            n_served = serve_ahead(s, draw, n, out);
        }
        draw += n_served;
        out += n_served;
        n -= n_served;
    }
}

const iter_sampler_ops iter__sampler_balanced = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "balanced",
             .help = "every class equally often, each in its own order",
             .options = options_balanced,
             .defaults = &defaults,
             .options_size = sizeof(iter_balanced_options),
             .state_size = sizeof(state)},
    .open = balanced_open,
    .close = balanced_close,
    .length = balanced_length,
    .index = balanced_index,
};
