/*
 * ranks_verdict.c - see ranks_verdict.h.
 *
 * Each limit is worth what a step would lose without it: a straggler the time beyond the median
 * rank, uneven steps the time beyond the slowest rank, sums their time, loading the median rank's.
 * The most valuable one is named, if it is worth LEAST of the rate.
 */
#include "bench/verdict/ranks_verdict.h"

#include <stdio.h>

#include "diagnose/words.h"

#define LEAST 0.05

static double own(const ranks_evidence *e, uint32_t rank) {
    return e->parts[rank].load + e->parts[rank].compute;
}

/* The rank with `at` faster ones; of two equal ones the first is taken as faster. */
static uint32_t rank_at(const ranks_evidence *e, uint32_t at) {
    for (uint32_t i = 0; i < e->n; i++) {
        uint32_t faster = 0;
        for (uint32_t k = 0; k < e->n; k++)
            faster += own(e, k) < own(e, i) || (own(e, k) == own(e, i) && k < i);
        if (faster == at) return i;
    }
    return 0;
}

static double median_load(const ranks_evidence *e) {
    for (uint32_t i = 0; i < e->n; i++) {
        uint32_t less = 0;
        for (uint32_t k = 0; k < e->n; k++)
            less += e->parts[k].load < e->parts[i].load ||
                    (e->parts[k].load == e->parts[i].load && k < i);
        if (less == (e->n - 1) / 2) return e->parts[i].load;
    }
    return 0;
}

const char *ranks_limit_text(ranks_limit limit) {
    static const char *const texts[] = {"straggler", "communication", "uneven", "loading",
                                        "computing"};
    return texts[limit];
}

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *ms(double seconds, char out[WORDS_NUMBER]) {
    return words_time(seconds * 1e9, out);
}

static void say_straggler(const ranks_evidence *e, ranks_verdict *v) {
    const ranks_part *slow = &e->parts[v->slowest], *usual = &e->parts[v->median];
    char own_time[WORDS_NUMBER], median[WORDS_NUMBER], part[WORDS_NUMBER], other[WORDS_NUMBER];
    char share[WORDS_NUMBER], why[160] = "";
    if (slow->no_core > 0.1 && slow->no_core > 2 * usual->no_core)
        snprintf(why, sizeof(why), "; its threads have no core for %s of the time",
                 words_percent(slow->no_core, share));
    else if (v->by_loading && slow->stage[0] != '\0')
        snprintf(why, sizeof(why), ", and its loader's threads spend %s of their time in '%s'",
                 words_percent(slow->stage_share, share), slow->stage);
    snprintf(v->text, sizeof(v->text),
             "Rank %u (%s) keeps the others waiting: a step takes it %s, the median rank %s. It %s "
             "longer, %s instead of %s%s.",
             v->slowest, slow->host, ms(v->own_slowest, own_time), ms(v->own_median, median),
             v->by_loading ? "loads" : "computes",
             ms(v->by_loading ? slow->load : slow->compute, part),
             ms(v->by_loading ? usual->load : usual->compute, other), why);
}

static void say(const ranks_evidence *e, ranks_verdict *v) {
    char time[WORDS_NUMBER], share[WORDS_NUMBER];
    switch (v->limit) {
    case RANKS_STRAGGLER: say_straggler(e, v); return;
    case RANKS_COMMUNICATION:
        snprintf(v->text, sizeof(v->text),
                 "Summing gradients takes %s a step, %s of it. A larger batch has fewer sums.",
                 ms(e->sums, time), words_percent(e->sums / e->step, share));
        return;
    case RANKS_UNEVEN:
        snprintf(v->text, sizeof(v->text),
                 "No rank is slow, but now this one is late and now that one: %s a step. More "
                 "batches made ahead (--prefetch, --workers) even out loading.",
                 ms(v->uneven, time));
        return;
    case RANKS_LOADING:
        if (!e->trains) {
            snprintf(v->text, sizeof(v->text),
                     "No rank's loader is slower than the others'. --model says what a step is "
                     "limited by.");
            return;
        }
        snprintf(v->text, sizeof(v->text),
                 "All ranks wait for batches, %s a step. The same with --ranks 1 says what limits "
                 "a rank's loader.",
                 ms(median_load(e), time));
        return;
    case RANKS_COMPUTING:
        snprintf(v->text, sizeof(v->text),
                 "Computing: %s of a step. Neither loading, nor sums, nor a slow rank costs %d %%.",
                 words_percent((v->own_median - median_load(e)) / e->step, share),
                 (int)(100 * LEAST));
        return;
    }
}

/* ---- The verdict ----------------------------------------------------------------------------- */

ranks_verdict ranks_verdict_make(const ranks_evidence *e) {
    ranks_verdict v = {.limit = e->trains ? RANKS_COMPUTING : RANKS_LOADING};
    v.fastest = rank_at(e, 0);
    v.median = rank_at(e, (e->n - 1) / 2);
    v.slowest = rank_at(e, e->n - 1);
    v.own_fastest = own(e, v.fastest);
    v.own_median = own(e, v.median);
    v.own_slowest = own(e, v.slowest);
    v.uneven = e->slowest > v.own_slowest ? e->slowest - v.own_slowest : 0;
    const ranks_part *slow = &e->parts[v.slowest], *usual = &e->parts[v.median];
    v.by_loading = slow->load - usual->load > slow->compute - usual->compute;
    for (uint32_t i = 0; i < e->n; i++)
        v.waiting_share += e->parts[i].wait / e->step / e->n;
    const double worth[] = {
        [RANKS_STRAGGLER] = v.own_slowest - v.own_median,
        [RANKS_COMMUNICATION] = e->sums,
        [RANKS_UNEVEN] = v.uneven,
        [RANKS_LOADING] = e->trains ? median_load(e) : 0,
    };
    for (int i = 0; i < RANKS_COMPUTING; i++) {
        const double left = e->step - worth[i];
        const double gain = left > 0 ? worth[i] / left : 0;
        if (gain < LEAST || gain <= v.gain) continue;
        v.limit = (ranks_limit)i;
        v.gain = gain;
    }
    say(e, &v);
    return v;
}
