/*
 * verify.c - see verify.h.
 *
 * All runs have the same global batch where that is possible, so that a short last batch is the
 * same in each. Ranks are loaders in this process that take turns; all of them must have as many
 * batches.
 */
#include "bench/verify/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iter/registry.h>
#include <iter/rng.h>

#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/measure/arm.h"
#include "bench/report/bench_failures.h"

#define MOST_RANKS  64
#define SAVED_BYTES 1024

/* What came in one epoch: counters of samples, bits of positions. */
typedef struct table {
    uint8_t *times;          /* [n_samples] */
    uint64_t *seen;          /* bits [n_positions] */
    uint64_t n_positions;    /* that `seen` has room for */
    uint64_t highest;        /* position + 1 */
    uint64_t seen_positions; /* different ones */
} table;

/* One run while it goes on. */
typedef struct walk {
    const bench_options *options;
    iter_dataset *dataset;
    iter_chain *chain;
    verify_result *result;
    verify_run *run;
    const verify_run *first; /* NULL: this is the first one */
    uint64_t ranks, batch;   /* of the loaders that are open */
    iter_loader *loaders[MOST_RANKS];
    bool rolls, is_sequential;
    table *tables; /* [n_tables]: of all epochs if rolls, else one */
    uint64_t n_tables;
    uint64_t epoch;
    bench_hash hash;
    iter_error *err;
} walk;

static void broken(verify_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void broken(verify_result *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (r->n_broken < VERIFY_BROKEN)
        vsnprintf(r->broken[r->n_broken], sizeof(r->broken[0]), format, args);
    va_end(args);
    r->n_broken++;
}

/* ---- Counting -------------------------------------------------------------------------------- */

static iter_status table_make(table *t, uint64_t n_samples, iter_error *err) {
    t->times = bench_map(n_samples);
    if (t->times != NULL) return ITER_OK;
    return bench_fail(err, ITER_ENOMEM, "no memory for counters of %llu samples",
                      (unsigned long long)n_samples);
}

static void table_free(table *t, uint64_t n_samples) {
    if (t->times != NULL) bench_unmap(t->times, n_samples);
    free(t->seen);
    *t = (table){0};
}

static iter_status table_grow(table *t, uint64_t position, iter_error *err) {
    uint64_t n = t->n_positions > 0 ? t->n_positions : 4096;
    while (n <= position && n < UINT64_MAX / 2)
        n *= 2;
    uint64_t *seen = realloc(t->seen, n / 8);
    if (seen == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for %llu positions", (unsigned long long)n);
    memset(seen + t->n_positions / 64, 0, (n - t->n_positions) / 8);
    t->seen = seen;
    t->n_positions = n;
    return ITER_OK;
}

static void name(verify_names *names, uint64_t index) {
    if (names->count < VERIFY_NAMED) names->first[names->count] = index;
    names->count++;
}

/* A hash of one row's place, of which all are added. */
static uint64_t place_hash(uint64_t epoch, uint64_t position, uint64_t index) {
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)index,
                                 (uint32_t)(index >> 32)};
    const uint32_t key[2] = {(uint32_t)epoch, 0x766572u};
    uint32_t out[4];
    iter_philox4x32(counter, key, out);
    return out[0] | (uint64_t)out[1] << 32;
}

static iter_status count_row(walk *w, uint32_t epoch, uint64_t position, uint64_t index,
                             bool failed) {
    verify_result *r = w->result;
    if (index >= r->n_samples || epoch >= r->n_epochs || (!w->rolls && epoch != w->epoch)) {
        broken(r, "%s: a row is sample %llu of epoch %u, there are %llu samples and %llu epochs",
               w->run->name, (unsigned long long)index, epoch, (unsigned long long)r->n_samples,
               (unsigned long long)r->n_epochs);
        return ITER_OK;
    }
    table *t = &w->tables[w->rolls ? epoch : 0];
    if (position >= t->n_positions) {
        const iter_status s = table_grow(t, position, w->err);
        if (s < 0) return s;
    }
    verify_epoch *e = &w->run->epochs[epoch];
    const uint64_t bit = (uint64_t)1 << position % 64;
    if (t->seen[position / 64] & bit)
        e->positions_twice++;
    else
        t->seen_positions++;
    t->seen[position / 64] |= bit;
    if (position >= t->highest) t->highest = position + 1;
    if (t->times[index] < UINT8_MAX) t->times[index]++;
    e->rows++;
    e->failed += failed;
    w->run->rows++;
    w->run->order += place_hash(epoch, position, index);
    return ITER_OK;
}

static iter_status count_batch(walk *w, const iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    const bool pads = w->options->last_batch == ITER_LAST_PAD;
    const uint32_t n = pads ? info.first_valid + info.n_valid : info.n_rows;
    iter_status s = ITER_OK;
    for (uint32_t i = 0; i < n && s == ITER_OK; i++)
        s = count_row(w, iter_batch_row_epoch(batch)[i], iter_batch_position(batch)[i],
                      iter_batch_index(batch)[i], !iter_batch_valid(batch)[i]);
    if (pads && info.epoch < w->result->n_epochs) w->run->epochs[info.epoch].pad += info.n_rows - n;
    if (s == ITER_OK)
        s = bench_hash_batch(&w->hash, batch, iter_loader_n_fields(w->loaders[0]), n, w->err);
    return s;
}

/* ---- What an epoch promised ------------------------------------------------------------------ */

/* Samples that last_batch leaves out of this epoch, if each comes once. */
static uint64_t left_out(const walk *w, uint64_t epoch) {
    const verify_run *run = w->run;
    const uint64_t n = w->result->n_samples;
    const bool after = run->restarts && epoch >= run->restart_epoch;
    const uint64_t global =
        after ? run->restart_ranks * run->restart_batch : run->ranks * run->batch;
    if (w->options->last_batch == ITER_LAST_DISCARD) return n % global;
    if (!w->rolls) return 0;
    const uint64_t last = run->restarts ? run->restart_ranks * run->restart_batch : global;
    const uint64_t all = w->result->n_epochs * n, delivered = all - all % last;
    const uint64_t end = (epoch + 1) * n;
    return end <= delivered ? 0 : end - delivered < n ? end - delivered : n;
}

static void check_epoch(const walk *w, uint64_t epoch, const verify_epoch *e) {
    verify_result *r = w->result;
    const char *run = w->run->name;
    const unsigned long long k = epoch;
    if (e->positions_twice > 0)
        broken(r, "%s: epoch %llu: %llu rows are at a position that came before", run, k,
               (unsigned long long)e->positions_twice);
    if (e->positions_missing > 0)
        broken(r, "%s: epoch %llu: %llu positions never came", run, k,
               (unsigned long long)e->positions_missing);
    if (r->promise != VERIFY_DRAWS && e->twice.count > 0)
        broken(r, "%s: epoch %llu: %llu samples came more than once, the first is %llu", run, k,
               (unsigned long long)e->twice.count, (unsigned long long)e->twice.first[0]);
    if (r->promise == VERIFY_ONCE && e->missing.count != e->left_out) {
        char first[48] = "";
        if (e->missing.count > 0)
            snprintf(first, sizeof(first), ", the first is %llu",
                     (unsigned long long)e->missing.first[0]);
        broken(r, "%s: epoch %llu: %llu samples never came, expected %llu%s", run, k,
               (unsigned long long)e->missing.count, (unsigned long long)e->left_out, first);
    }
    if (w->first != NULL && w->run->is_compared && e->rows != w->first->epochs[epoch].rows)
        broken(r, "%s: epoch %llu: %llu rows, %llu with one rank", run, k,
               (unsigned long long)e->rows, (unsigned long long)w->first->epochs[epoch].rows);
}

static void end_epoch(walk *w, uint64_t epoch, table *t) {
    verify_epoch *e = &w->run->epochs[epoch];
    for (uint64_t i = 0; i < w->result->n_samples; i++) {
        if (t->times[i] == 0) name(&e->missing, i);
        if (t->times[i] > 1) name(&e->twice, i);
        if (t->times[i] > e->most) e->most = t->times[i];
    }
    e->distinct = w->result->n_samples - e->missing.count;
    e->positions_missing = t->highest - t->seen_positions;
    e->left_out = left_out(w, epoch);
    check_epoch(w, epoch, e);
    memset(t->times, 0, w->result->n_samples);
    if (t->seen != NULL) memset(t->seen, 0, t->n_positions / 8);
    t->highest = t->seen_positions = 0;
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static void close_loaders(walk *w) {
    for (uint64_t rank = 0; rank < w->ranks; rank++) {
        verify_result *r = w->result;
        if (w->loaders[rank] != NULL && w->first == NULL)
            r->n_failures += iter_loader_failures(w->loaders[rank], r->failures + r->n_failures,
                                                  VERIFY_FAILURES - r->n_failures);
        if (r->n_failures > VERIFY_FAILURES) r->n_failures = VERIFY_FAILURES;
        iter_loader_unref(w->loaders[rank]);
        w->loaders[rank] = NULL;
    }
}

static iter_status open_loaders(walk *w, uint64_t ranks, uint64_t batch) {
    bench_options options = *w->options;
    iter_status s = ITER_OK;
    options.ranks = ranks;
    options.batch = batch;
    options.on_error = ITER_ON_ERROR_BLANK;
    options.ragged = bench_rows_vary(iter_dataset_describe(w->dataset));
    w->ranks = ranks;
    w->batch = batch;
    for (uint32_t rank = 0; rank < ranks && s == ITER_OK; rank++) {
        const iter_loader_options opt = bench_loader_options(&options, rank);
        s = iter_dataloader_create(w->dataset, w->chain, &opt, &w->loaders[rank], w->err);
    }
    return s;
}

/* Saves rank 0's position, ends all loaders, and restores it in others. */
static iter_status restart(walk *w) {
    uint8_t saved[SAVED_BYTES];
    size_t size;
    iter_status s = iter_loader_save(w->loaders[0], saved, sizeof(saved), &size, w->err);
    close_loaders(w);
    if (s == ITER_OK) s = open_loaders(w, w->run->restart_ranks, w->run->restart_batch);
    for (uint64_t rank = 0; rank < w->ranks && s == ITER_OK; rank++)
        s = iter_loader_restore(w->loaders[rank], saved, size, w->err);
    return s;
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* The planted fault of the batch before the restart: it comes twice, not at all, or changed. */
static iter_status count_planted(walk *w, iter_batch *batch) {
    const char *fault = w->options->fault;
    if (strcmp(fault, "lose") == 0) return ITER_OK;
    if (strcmp(fault, "change") == 0) {
        const iter_tensor *tensor = iter_batch_tensor(batch, 0);
        if (iter_batch_describe(batch).n_rows > 0) *(uint8_t *)tensor->data ^= 1;
    }
    const iter_status s = count_batch(w, batch);
    return s == ITER_OK && strcmp(fault, "repeat") == 0 ? count_batch(w, batch) : s;
}

/* One global batch: END if all ranks are at the epoch's end. */
static iter_status step(walk *w) {
    const bool planted = w->options->fault != NULL && w->run->restarts &&
                         w->run->n_batches + 1 == w->run->restart_at;
    uint64_t n_ended = 0;
    for (uint64_t rank = 0; rank < w->ranks; rank++) {
        iter_batch *batch;
        iter_status s = iter_loader_next(w->loaders[rank], &batch, w->err);
        if (s < 0) return s;
        if (s == ITER_END) {
            n_ended++;
            continue;
        }
        s = planted && rank == 0 ? count_planted(w, batch) : count_batch(w, batch);
        iter_batch_unref(batch);
        if (s < 0) return s;
    }
    if (n_ended == w->ranks) return ITER_END;
    w->run->n_batches++;
    if (n_ended > 0)
        broken(w->result, "%s: %llu of %llu ranks end after %llu batches, the others go on",
               w->run->name, (unsigned long long)n_ended, (unsigned long long)w->ranks,
               (unsigned long long)w->run->n_batches);
    return ITER_OK;
}

static iter_status next_epoch(walk *w) {
    if (!w->rolls) end_epoch(w, w->epoch, &w->tables[0]);
    w->epoch++;
    iter_status s = ITER_OK;
    for (uint64_t rank = 0; rank < w->ranks && s == ITER_OK && w->epoch < w->result->n_epochs;
         rank++)
        s = iter_loader_reset(w->loaders[rank], w->err);
    return s;
}

static iter_status go(walk *w) {
    iter_status s = open_loaders(w, w->run->ranks, w->run->batch);
    while (s == ITER_OK && w->epoch < w->result->n_epochs) {
        if (bench_stopped()) return bench_fail(w->err, ITER_ECANCELED, "interrupted");
        s = step(w);
        if (s == ITER_END) {
            s = next_epoch(w);
        } else if (s == ITER_OK && w->run->restarts && w->run->n_batches == w->run->restart_at) {
            w->run->restart_epoch = (uint32_t)w->epoch;
            s = restart(w);
        }
    }
    for (uint64_t k = 0; s == ITER_OK && w->rolls && k < w->result->n_epochs; k++)
        end_epoch(w, k, &w->tables[k]);
    return s;
}

static iter_status run_one(walk *w, int number) {
    verify_result *r = w->result;
    w->run = &r->runs[number];
    w->first = number > 0 ? &r->runs[0] : NULL;
    w->epoch = 0;
    w->hash = (bench_hash){0};
    w->run->epochs = calloc(r->n_epochs, sizeof(*w->run->epochs));
    if (w->run->epochs == NULL) return bench_fail(w->err, ITER_ENOMEM, "out of memory");
    r->n_runs = number + 1;
    const iter_status s = go(w);
    close_loaders(w);
    w->run->content = w->hash.sum;
    bench_hash_free(&w->hash);
    if (s < 0 || number == 0 || !w->run->is_compared) return s;
    if (w->run->order != r->runs[0].order)
        broken(r, "%s: other samples at some positions than with one rank", w->run->name);
    else if (w->run->content != r->runs[0].content)
        broken(r, "%s: rows have other contents than with one rank", w->run->name);
    return ITER_OK;
}

/* ---- Which runs ------------------------------------------------------------------------------ */

/* The sampler's name: of --sampler, of a mix that draws by weights, or of --shuffle. */
static void name_sampler(const walk *w, char *out, size_t capacity) {
    static const char *const names[] = {"sequential", "shuffle", "once", "block", "batch"};
    const iter_description *set = iter_dataset_describe(w->dataset);
    const char *spec = w->options->sampler;
    if (spec != NULL) {
        spec += strspn(spec, " \t\n");
        snprintf(out, capacity, "%.*s", (int)strcspn(spec, " \t\n:"), spec);
    } else if (set->parts != NULL && set->parts[0].weight > 0) {
        snprintf(out, capacity, "mix");
    } else {
        snprintf(out, capacity, "%s", names[w->options->shuffle]);
    }
}

static verify_promise promise_of(const walk *w, const char *sampler) {
    static const char *const once[] = {"sequential", "shuffle", "once", "block", "batch"};
    const char *spec = w->options->sampler;
    if (w->options->promise != VERIFY_AUTO) return (verify_promise)w->options->promise;
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        if (strcmp(once[i], sampler) == 0) return VERIFY_ONCE;
    if (strcmp(sampler, "bucket") == 0)
        return strstr(spec, "drop") != NULL ? VERIFY_AT_MOST_ONCE : VERIFY_ONCE;
    if (strcmp(sampler, "token-budget") == 0) return VERIFY_ONCE;
    return strcmp(sampler, "stride") == 0 ? VERIFY_AT_MOST_ONCE : VERIFY_DRAWS;
}

/* Another number of ranks that divides the global batch. */
static uint64_t other_ranks(uint64_t global, uint64_t ranks) {
    for (uint64_t r = 2; r <= MOST_RANKS && r <= global; r++)
        if (r != ranks && global % r == 0) return r;
    return 1;
}

/* "AT:RANKS" or "AT"; 0 = not given. */
static bool parse_restart(const char *text, uint64_t *out_at, uint64_t *out_ranks) {
    unsigned long long at = 0, ranks = 0;
    char more;
    *out_at = *out_ranks = 0;
    if (strspn(text, "0123456789:") != strlen(text)) return false;
    const int n = sscanf(text, "%llu:%llu%c", &at, &ranks, &more);
    const bool has_ranks = strchr(text, ':') != NULL;
    if (at == 0 || n != (has_ranks ? 2 : 1) || (has_ranks && (ranks == 0 || ranks > MOST_RANKS)))
        return false;
    *out_at = at;
    *out_ranks = ranks;
    return true;
}

/* Sets up the third run, when the first one has told how many batches there are. */
static iter_status plan_restart(const walk *w, verify_run *run) {
    const bench_options *o = w->options;
    const uint64_t n = w->result->runs[0].n_batches, global = o->ranks * o->batch;
    uint64_t at = 0, ranks = 0;
    if (o->restart != NULL) parse_restart(o->restart, &at, &ranks); /* check_asked() did */
    if (n == 0 || at > n)
        return bench_fail(w->err, ITER_EINVAL, "--restart: the run has %llu batches",
                          (unsigned long long)n);
    iter_rng rng = iter_rng_at(iter_rng_key(o->seed, "verify", 0), 0, 0);
    run->restarts = true;
    run->restart_at = at > 0 ? at : 1 + iter_rng_below(&rng, n);
    run->restart_ranks = ranks > 0 ? ranks : other_ranks(global, o->ranks);
    const bool divides = global % run->restart_ranks == 0;
    const bool tails = o->last_batch == ITER_LAST_DISCARD || w->rolls || w->is_sequential;
    run->restart_batch = divides ? global / run->restart_ranks : o->batch;
    run->is_compared = divides || !tails;
    return ITER_OK;
}

static iter_status check_asked(const walk *w) {
    const bench_options *o = w->options;
    uint64_t at, ranks;
    if (w->result->n_samples == ITER_UNKNOWN)
        return bench_fail(w->err, ITER_EUNSUPPORTED,
                          "verify: a stream has no samples that could be counted");
    if (o->ranks > MOST_RANKS || o->ranks * o->batch > UINT32_MAX)
        return bench_fail(w->err, ITER_EINVAL,
                          "verify: --ranks is at most %d, and --ranks x "
                          "--batch at most 4294967295",
                          MOST_RANKS);
    if (o->restart != NULL && strcmp(o->restart, "none") != 0 &&
        !parse_restart(o->restart, &at, &ranks))
        return bench_fail(w->err, ITER_EINVAL,
                          "--restart wants AT:RANKS, batches from 1 on and ranks from 1 to %d, or "
                          "none, not '%s'",
                          MOST_RANKS, o->restart);
    if (o->fault == NULL) return ITER_OK;
    if (strcmp(o->fault, "repeat") != 0 && strcmp(o->fault, "lose") != 0 &&
        strcmp(o->fault, "change") != 0)
        return bench_fail(w->err, ITER_EINVAL, "--plant wants repeat, lose or change, not '%s'",
                          o->fault);
    if (o->restart == NULL || strcmp(o->restart, "none") != 0) return ITER_OK;
    return bench_fail(w->err, ITER_EINVAL, "--plant needs a restart");
}

static iter_status make_runs(walk *w) {
    verify_result *r = w->result;
    const bench_options *o = w->options;
    const uint64_t global = o->ranks * o->batch;
    const bool restarts = o->restart == NULL || strcmp(o->restart, "none") != 0;
    int n = 0;
    r->runs[n] = (verify_run){.name = "one rank", .ranks = 1, .batch = global};
    iter_status s = run_one(w, n++);
    if (s < 0) return s;
    if (o->ranks > 1) {
        r->runs[n] = (verify_run){
            .name = "ranks", .ranks = o->ranks, .batch = o->batch, .is_compared = true};
        s = run_one(w, n++);
    }
    if (s < 0 || !restarts || r->runs[0].n_batches == 0) return s;
    r->runs[n] = (verify_run){.name = "restarted", .ranks = o->ranks, .batch = o->batch};
    s = plan_restart(w, &r->runs[n]);
    return s == ITER_OK ? run_one(w, n) : s;
}

static iter_status make(walk *w) {
    verify_result *r = w->result;
    const iter_description *set = iter_dataset_describe(w->dataset);
    r->n_samples = set->n_samples;
    r->n_left_out = set->n_left_out;
    if (set->left_out != NULL) snprintf(r->left_out, sizeof(r->left_out), "%s", set->left_out);
    r->n_epochs = w->options->epochs > 0 ? w->options->epochs : 1;
    name_sampler(w, r->sampler, sizeof(r->sampler));
    r->promise = promise_of(w, r->sampler);
    w->rolls = w->options->last_batch == ITER_LAST_ROLL_OVER;
    const iter_sampler_ops *ops = iter_registry_sampler(w->options->registry, r->sampler);
    w->is_sequential = ops != NULL && ops->index == NULL;
    iter_status s = check_asked(w);
    if (s < 0) return s;
    w->n_tables = w->rolls ? r->n_epochs : 1;
    w->tables = calloc(w->n_tables, sizeof(*w->tables));
    if (w->tables == NULL) return bench_fail(w->err, ITER_ENOMEM, "out of memory");
    for (uint64_t k = 0; k < w->n_tables && s == ITER_OK; k++)
        s = table_make(&w->tables[k], r->n_samples, w->err);
    if (s == ITER_OK) s = make_runs(w);
    for (uint64_t k = 0; k < w->n_tables; k++)
        table_free(&w->tables[k], r->n_samples);
    free(w->tables);
    r->n_failures = bench_failures_once(r->failures, r->n_failures);
    return s;
}

iter_status verify_make(const bench_options *options, verify_result *out, iter_error *err) {
    walk w = {.options = options, .result = out, .err = err};
    memset(out, 0, sizeof(*out));
    iter_status s =
        options->dataset != NULL ? ITER_OK : bench_dataset_open(options, &w.dataset, err);
    if (options->dataset != NULL) w.dataset = iter_dataset_ref(options->dataset);
    if (s == ITER_OK && options->chain != NULL)
        s = iter_chain_parse(options->chain, options->registry, &w.chain, err);
    if (s == ITER_OK) s = make(&w);
    iter_chain_unref(w.chain);
    iter_dataset_unref(w.dataset);
    return s;
}

void verify_free(verify_result *result) {
    for (int i = 0; i < VERIFY_RUNS; i++) {
        free(result->runs[i].epochs);
        result->runs[i].epochs = NULL;
    }
}

const char *verify_promise_text(verify_promise promise) {
    static const char *const texts[] = {"auto", "once", "at-most-once", "draws"};
    return texts[promise];
}
