/*
 * sampler_mix.c - draws from the parts of a dataset by weights; each part in its own order, epoch
 * after its own epoch.
 *
 * Draws are counted over all epochs: draw t of a run is position t % samples of epoch t / samples.
 * mix_order.c says which part has draw t, and how many draws it had before; its k-th draw is sample
 * k % n of its epoch k / n. So a part that is short begins again, in a new order, and one that is
 * long goes on in the next epoch where it stopped.
 *
 * Weights that change at a draw begin a new order there; parts go on where they are.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/hash.h"
#include "iter/spec/options.h"
#include "loaders/samplers/mix_order.h"
#include "loaders/samplers/samplers.h"

#define AHEAD 512

static const iter_mix_options defaults = ITER_MIX_OPTIONS_INIT;

static const iter_option options_mix[] = {
    ITER_ROW_INT("samples", "draws an epoch; 0 = as many as all sources have samples",
                 iter_mix_options, samples, 0, 9e15, 0),
    ITER_ROW_BOOL("shuffle", "each source in a new random order in each of its epochs",
                  iter_mix_options, shuffle),
    ITER_ROW_STRING("changes", "weights from a draw on: \"2M web=0.5 code=0.5; 4M web=0\"",
                    iter_mix_options, changes, 0),
    ITER_ROW_END,
};

/* Weights from a draw on. */
typedef struct phase {
    uint64_t start; /* first draw */
    iter__mix_order order;
    uint64_t *before; /* [n] draws of each part before `start` */
    uint64_t history; /* hash of all phases up to this one */
} phase;

typedef struct part {
    uint64_t first, n; /* samples */
    uint64_t key;
    uint64_t epoch; /* of `permutation`, if is_ready */
    bool is_ready, by_epoch;
    iter__permutation permutation;
    uint16_t *table; /* [n] when they are few */
    int32_t head;    /* of its draws in `next`, while draws are mapped; -1 = none */
} part;

typedef struct state {
    uint32_t n;
    part *parts;
    phase *phases; /* by start; the first begins at 0 */
    int32_t n_phases;
    uint64_t n_draws; /* an epoch */
    bool shuffles;
    uint64_t ahead[AHEAD]; /* samples of draws ahead_start, ahead_start + 1, ... */
    uint64_t ahead_start, next_draw;
    uint32_t n_ahead;
} state;

static void mix_close(void *opaque) {
    state *s = opaque;
    for (uint32_t i = 0; s->parts && i < s->n; i++)
        iter__free(s->parts[i].table);
    for (int32_t i = 0; i < s->n_phases; i++) {
        iter__mix_order_free(&s->phases[i].order);
        iter__free(s->phases[i].before);
    }
    iter__free(s->parts);
    iter__free(s->phases);
    s->parts = NULL;
    s->phases = NULL;
    s->n_phases = 0;
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static void count_before(const state *s, phase *now) {
    if (s->n_phases == 0) return;
    phase *last = &s->phases[s->n_phases - 1];
    memcpy(now->before, last->before, s->n * sizeof(*now->before));
    iter__mix_order_count(&last->order, now->start - last->start, now->before);
}

static iter_status add_phase(state *s, uint64_t start, const double *weights, iter_error *err) {
    phase *more = iter__realloc(s->phases, ((size_t)s->n_phases + 1) * sizeof(*more));
    if (!more) return iter__fail(err, ITER_ENOMEM, "out of memory");
    s->phases = more;
    phase *now = &s->phases[s->n_phases];
    *now = (phase){.start = start};
    now->before = iter__alloc(s->n, sizeof(*now->before));
    if (!now->before) return iter__fail(err, ITER_ENOMEM, "out of memory");
    const iter_status status = iter__mix_order_make(weights, s->n, &now->order, err);
    if (status < 0) {
        iter__free(now->before);
        return status;
    }
    count_before(s, now);
    uint64_t hash = s->n_phases ? s->phases[s->n_phases - 1].history : ITER_FNV_START;
    hash = iter__fnv1a_u64(hash, start);
    hash = iter__fnv1a_u64(hash, now->order.total);
    now->history = iter__fnv1a(hash, now->order.share, s->n * sizeof(*now->order.share));
    s->n_phases++;
    return ITER_OK;
}

/* One word of `changes`, without blanks; *cursor goes behind it. NULL = the change ends. */
static char *next_word(char **cursor) {
    char *at = *cursor + strspn(*cursor, " \t\n");
    if (!*at) return NULL;
    char *end = at + strcspn(at, " \t\n");
    *cursor = *end ? end + 1 : end;
    *end = 0;
    return at;
}

/* A whole number, maybe with k, M or G (powers of 1000). */
static bool parse_draw(char *word, uint64_t *out) {
    const size_t length = strlen(word);
    double scale = 1, number;
    if (length > 1) {
        const char *const suffix = strchr("kMG", word[length - 1]);
        if (suffix) {
            scale = *suffix == 'k' ? 1e3 : *suffix == 'M' ? 1e6 : 1e9;
            word[length - 1] = 0;
        }
    }
    if (!iter__parse_number(word, &number)) return false;
    number *= scale;
    if (!(number >= 1 && number <= 9e15) || number != floor(number)) return false;
    *out = (uint64_t)number;
    return true;
}

/* "web=0.5" into weights[n]. */
static iter_status set_weight(const iter_sampler_context *context, char *word, double *weights,
                              iter_error *err) {
    char *equals = strrchr(word, '=');
    double weight;
    if (!equals || !iter__parse_number(equals + 1, &weight) || !(weight >= 0 && weight <= 1e300))
        return iter__fail(err, ITER_EINVAL, "changes: '%.60s': expected SOURCE=WEIGHT", word);
    *equals = 0;
    for (int32_t i = 0; i < context->n_parts; i++) {
        if (strcmp(context->parts[i].name, word) != 0) continue;
        if (weight > 0 && context->parts[i].n_samples == 0)
            return iter__fail(err, ITER_EINVAL, "changes: source '%.60s' has no samples", word);
        weights[i] = weight;
        return ITER_OK;
    }
    return iter__fail(err, ITER_EINVAL, "changes: there is no source '%.60s'", word);
}

static iter_status add_change(state *s, const iter_sampler_context *context, char *text,
                              double *weights, iter_error *err) {
    char *word = next_word(&text);
    if (!word) return ITER_OK;
    uint64_t start;
    char shown[64];
    snprintf(shown, sizeof(shown), "%s", word);
    if (!parse_draw(word, &start))
        return iter__fail(err, ITER_EINVAL,
                          "changes: '%s' is no draw; expected DRAW SOURCE=WEIGHT ...", shown);
    if (start <= s->phases[s->n_phases - 1].start)
        return iter__fail(err, ITER_EINVAL, "changes: draw %s does not come after the one before",
                          shown);
    while ((word = next_word(&text)))
        ITER_TRY(set_weight(context, word, weights, err));
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++)
        sum += weights[i];
    if (!(sum > 0))
        return iter__fail(err, ITER_EINVAL, "changes: at draw %s all weights are 0", shown);
    return add_phase(s, start, weights, err);
}

static iter_status add_phases(state *s, const iter_sampler_context *context, const char *changes,
                              double *weights, iter_error *err) {
    bool weighted = false;
    for (int32_t i = 0; i < context->n_parts; i++)
        weighted |= context->parts[i].weight > 0;
    for (int32_t i = 0; i < context->n_parts; i++) {
        const iter_part *p = &context->parts[i];
        weights[i] = weighted ? p->weight : (double)p->n_samples;
    }
    ITER_TRY(add_phase(s, 0, weights, err));
    if (!changes || !*changes) return ITER_OK;
    char *text = iter__strdup(changes);
    if (!text) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = ITER_OK;
    for (char *at = text; at && status == ITER_OK;) {
        char *stop = strchr(at, ';');
        if (stop) *stop++ = 0;
        status = add_change(s, context, at, weights, err);
        at = stop;
    }
    iter__free(text);
    return status;
}

/* ---- Open ------------------------------------------------------------------------------------ */

static iter_status add_parts(state *s, const iter_sampler_context *context, iter_error *err) {
    uint64_t first = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        part *p = &s->parts[i];
        p->n = context->parts[i].n_samples;
        p->first = first;
        p->by_epoch = s->shuffles && context->parts[i].by_epoch;
        p->key = iter_rng_key(context->seed, "mix", i);
        p->head = -1;
        first += p->n;
        if (!s->shuffles || p->n > ITER_PERMUTATION_TABLE || p->n == 0) continue;
        p->table = iter__alloc((size_t)p->n, sizeof(*p->table));
        if (!p->table) return iter__fail(err, ITER_ENOMEM, "out of memory");
    }
    return ITER_OK;
}

static iter_status mix_open(void *opaque, const void *options, const iter_sampler_context *context,
                            iter_error *err) {
    state *s = opaque;
    const iter_mix_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    if (!context->parts)
        return iter__fail(err, ITER_EINVAL,
                          "needs a dataset of several sources, as mix:{...}, and no subset of it");
    if ((uint32_t)context->n_parts > ITER_MIX_SOURCES_MAX)
        return iter__fail(err, ITER_EINVAL, "%d sources; at most %u can be drawn from",
                          context->n_parts, ITER_MIX_SOURCES_MAX);
    if (context->n_samples == 0) return iter__fail(err, ITER_EINVAL, "there are no samples");
    s->n = (uint32_t)context->n_parts;
    s->shuffles = o->shuffle;
    s->n_draws = o->samples > 0 ? (uint64_t)o->samples : context->n_samples;
    s->parts = iter__alloc(s->n, sizeof(*s->parts));
    double *weights = iter__alloc(s->n, sizeof(*weights));
    iter_status status = s->parts && weights ? add_parts(s, context, err)
                                             : iter__fail(err, ITER_ENOMEM, "out of memory");
    if (status == ITER_OK) status = add_phases(s, context, o->changes, weights, err);
    iter__free(weights);
    if (status < 0) mix_close(s);
    return status;
}

static uint64_t mix_length(const void *opaque) {
    return ((const state *)opaque)->n_draws;
}

/* ---- Draws ----------------------------------------------------------------------------------- */

static phase *phase_at(const state *s, uint64_t draw) {
    int32_t i = s->n_phases - 1;
    while (s->phases[i].start > draw)
        i--;
    return &s->phases[i];
}

/* Maps the draws of one part, in order, each out[i] its number there, to samples. */
static void map_part(state *s, part *p, const int32_t *next, uint64_t *out) {
    uint64_t numbers[AHEAD];
    int32_t places[AHEAD];
    for (int32_t i = p->head; i >= 0;) {
        const uint64_t epoch = out[i] / p->n;
        uint32_t n = 0;
        for (; i >= 0 && out[i] / p->n == epoch; i = next[i]) {
            places[n] = i;
            numbers[n++] = out[i] % p->n;
        }
        if (s->shuffles) {
            if (!p->is_ready || p->epoch != epoch) {
                const uint64_t key = p->key + (epoch >> 32);
                iter__permutation_init(&p->permutation, key, (uint32_t)epoch, p->n, p->table);
                p->epoch = epoch;
                p->is_ready = true;
            }
            iter__permutation_map(&p->permutation, numbers, n, numbers);
        }
        const uint64_t above = p->by_epoch ? epoch << ITER_INDEX_BITS : 0;
        for (uint32_t k = 0; k < n; k++)
            out[places[k]] = (p->first + numbers[k]) | above;
    }
    p->head = -1;
}

/* Samples of draws [draw, draw + n), n <= AHEAD. */
static void draw_some(state *s, uint64_t draw, uint32_t n, uint64_t *out) {
    int32_t next[AHEAD];
    uint32_t sources[AHEAD];
    phase *now = phase_at(s, draw + n - 1);
    for (uint32_t i = n; i-- > 0;) { /* backwards, so that each list is in order */
        while (now->start > draw + i)
            now--;
        uint64_t k;
        iter__mix_order_go(&now->order, draw + i - now->start);
        const uint32_t source = iter__mix_order_draw(&now->order, draw + i - now->start, &k);
        out[i] = now->before[source] + k;
        next[i] = s->parts[source].head;
        s->parts[source].head = (int32_t)i;
        sources[i] = source;
    }
    for (uint32_t i = 0; i < n; i++)
        if (s->parts[sources[i]].head == (int32_t)i) map_part(s, &s->parts[sources[i]], next, out);
}

static uint32_t serve_ahead(const state *s, uint64_t draw, uint32_t n, uint64_t *out) {
    if (draw < s->ahead_start || draw - s->ahead_start >= s->n_ahead) return 0;
    const uint32_t from = (uint32_t)(draw - s->ahead_start);
    const uint32_t n_ready = iter__min_u32(s->n_ahead - from, n);
    memcpy(out, s->ahead + from, n_ready * sizeof(*out));
    return n_ready;
}

static void mix_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out) {
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

static uint64_t mix_history(const void *opaque, uint32_t epoch, uint64_t position) {
    const state *s = opaque;
    const uint64_t draw = epoch * s->n_draws + position;
    uint64_t hash = phase_at(s, draw ? draw - 1 : 0)->history;
    hash = iter__fnv1a_u64(hash, s->n_draws);
    return iter__fnv1a_u64(hash, s->shuffles);
}

const iter_sampler_ops iter__sampler_mix = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "mix",
             .help = "sources of a mix by their weights, each in its own order",
             .options = options_mix,
             .defaults = &defaults,
             .options_size = sizeof(iter_mix_options),
             .state_size = sizeof(state)},
    .open = mix_open,
    .close = mix_close,
    .length = mix_length,
    .index = mix_index,
    .history = mix_history,
    .epochs = ITER_EPOCHS_OWN,
};
