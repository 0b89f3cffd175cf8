/*
 * stress_oracle.c - loaders against models that are naive on purpose: runs that are saved in
 * mid-epoch and resumed with other ranks and batch sizes, for each sampler and each policy for the
 * last batch; and streams, whole, resumed and moved.
 *
 * The models are written from iter/loader.h and iter/sampler.h: a list of rows, cut by a loop. The
 * order of an epoch comes from a loader with batches of one row; a separate check holds it to what
 * sampler.h promises.
 *
 * With any argument each position is restored in every shape.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/chaos_sets.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"

#define N         37 /* samples of the arrays */
#define MOST      48 /* rows of a global batch, and draws of an epoch */
#define EPOCHS    5
#define RANKS_MAX 4

static int32_t values[N];

static int32_t value_of(uint64_t index) {
    return (int32_t)(index * 7 + 3);
}

static iter_loader *over_values(const iter_loader_options *opt) {
    const iter_array array = {
        .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {N}}, .data = values};
    iter_error err;
    iter_loader *loader;
    if (!EXPECT_OK(iter_ndarray_create(&array, 1, NULL, opt, &loader, &err), &err)) exit(1);
    return loader;
}

static iter_loader_options options(const char *sampler, int32_t last_batch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.sampler.spec = sampler;
    opt.last_batch = last_batch;
    opt.seed = 11;
    opt.memory.limit = 64 << 20;
    opt.faults.timeout_ms = 60000; /* if a call hangs, this makes it a failure */
    opt.local_ranks = 1;
    return opt;
}

/* ---- The order of epochs --------------------------------------------------------------------- */

typedef struct order {
    uint64_t n; /* of an epoch */
    uint64_t at[EPOCHS][MOST];
} order;

static void read_order(const char *sampler, order *out) {
    iter_loader_options opt = options(sampler, ITER_LAST_KEEP);
    opt.batch_size = 1;
    iter_loader *loader = over_values(&opt);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        iter_batch *batch;
        out->n = 0;
        while (out->n < MOST && iter_loader_next(loader, &batch, NULL) == ITER_OK) {
            out->at[e][out->n++] = iter_batch_index(batch)[0];
            iter_batch_unref(batch);
        }
        EXPECT_STATUS(iter_loader_next(loader, &batch, NULL), ITER_END, NULL);
        EXPECT_OK(iter_loader_reset(loader, NULL), NULL);
    }
    EXPECT_EQ(iter_loader_n_samples(loader), out->n);
    iter_loader_unref(loader);
}

static bool is_permutation(const uint64_t *at) {
    uint32_t seen[N] = {0};
    for (uint32_t i = 0; i < N; i++)
        if (at[i] >= N || seen[at[i]]++) return false;
    return true;
}

/* Blocks of `block` samples: `buffer` consecutive blocks are mixed, and all their rows come before
 * those of the next ones. */
static bool is_in_blocks(const uint64_t *at, uint32_t block, uint32_t buffer) {
    bool done[N] = {false};
    for (uint32_t i = 0; i < N;) {
        bool open[N] = {false};
        uint32_t n_blocks = 0, rows = 0;
        do {
            const uint64_t b = at[i++] / block;
            if (done[b]) return false;
            if (!open[b]) {
                n_blocks++;
                rows += N - b * block < block ? (uint32_t)(N - b * block) : block;
            }
            open[b] = true;
            rows--;
        } while (i < N && (rows > 0 || n_blocks < buffer));
        if (rows != 0 || n_blocks > buffer) return false;
        for (uint32_t b = 0; b < N; b++)
            done[b] |= open[b];
    }
    return true;
}

/* Units of neighbours, each in stored order. */
static bool is_in_units(const uint64_t *at, uint32_t unit) {
    for (uint32_t i = 0; i < N;) {
        if (at[i] % unit != 0) return false;
        for (uint64_t index = at[i]; i < N && index < N && (index == at[i]);) {
            i++;
            index++;
            if (index % unit == 0) break;
        }
        if (at[i - 1] % unit != unit - 1 && at[i - 1] != N - 1) return false;
    }
    return true;
}

typedef enum kind { SEQUENTIAL, SHUFFLE, ONCE, BLOCK, BATCH, REPLACEMENT, N_KINDS } kind;

static const char *const samplers[N_KINDS] = {"sequential",   "shuffle",
                                              "once",         "block:block=4,buffer=3",
                                              "batch:unit=5", "replacement:samples=41"};

static void check_order(kind k, const order *o, const order *shuffle) {
    EXPECT_EQ(o->n, k == REPLACEMENT ? 41 : N);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        if (k != REPLACEMENT) EXPECT(is_permutation(o->at[e]));
        if (k == BLOCK) EXPECT(is_in_blocks(o->at[e], 4, 3));
        if (k == BATCH) EXPECT(is_in_units(o->at[e], 5));
        for (uint32_t i = 0; i < o->n; i++) {
            EXPECT(o->at[e][i] < N);
            if (k == SEQUENTIAL) EXPECT_EQ(o->at[e][i], i);
            if (k == ONCE) EXPECT_EQ(o->at[e][i], shuffle->at[0][i]);
        }
        const bool alike = e > 0 && memcmp(o->at[e], o->at[e - 1], o->n * sizeof(o->at[e][0])) == 0;
        if (e > 0) EXPECT_EQ(alike, k == SEQUENTIAL || k == ONCE);
    }
}

/* ---- The expected rows of global batches, by a loop ------------------------------------------ */

typedef struct row {
    uint32_t epoch;
    uint64_t position;
} row;

typedef struct model {
    int32_t last_batch;
    uint64_t n;
    uint32_t global;
    uint32_t epoch; /* the epoch that next() is in */
    uint64_t at;    /* rows before it, of the epoch; under roll_over, of the whole run */
    bool ended;     /* END is next */
} model;

/* Under roll_over: the epoch that delivers the batch at row `t`. Rows that do not fill a batch wait
 * for the next epoch. */
static uint32_t rolling_epoch(const model *m, uint64_t t) {
    uint64_t have = 0, begin = 0;
    for (uint32_t e = 0;; e++) {
        for (have += m->n; have >= m->global; have -= m->global, begin += m->global)
            if (begin == t) return e;
    }
}

/* The next batch; 0 rows = END. */
static uint32_t model_next(model *m, row out[MOST]) {
    uint32_t n = 0;
    if (m->last_batch == ITER_LAST_ROLL_OVER) {
        if (m->ended || rolling_epoch(m, m->at) != m->epoch) return 0;
        for (; n < m->global; n++, m->at++)
            out[n] = (row){(uint32_t)(m->at / m->n), m->at % m->n};
        return n;
    }
    if (m->ended) return 0;
    for (uint64_t p = m->at; n < m->global && p < m->n; p++)
        out[n++] = (row){m->epoch, p};
    if (n == 0 || (m->last_batch == ITER_LAST_DISCARD && n < m->global)) return 0;
    m->at += n;
    for (uint64_t p = 0; m->last_batch == ITER_LAST_PAD && n < m->global; p = (p + 1) % m->n)
        out[n++] = (row){m->epoch, p}; /* the epoch's first samples */
    return n;
}

static void model_reset(model *m) {
    m->epoch++;
    m->ended = false;
    if (m->last_batch != ITER_LAST_ROLL_OVER) m->at = 0;
}

/* ---- Teams: all ranks of a run --------------------------------------------------------------- */

typedef struct team {
    uint32_t batch_size, ranks;
    iter_loader *loaders[RANKS_MAX];
} team;

static const uint32_t shapes[][2] = {{5, 1}, {1, 1}, {2, 2}, {2, 3}, {12, 1}, {3, 4}, {40, 1}};

#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static team team_make(const iter_loader_options *like, size_t shape, int32_t workers) {
    team t = {.batch_size = shapes[shape][0], .ranks = shapes[shape][1]};
    for (uint32_t r = 0; r < t.ranks; r++) {
        iter_loader_options opt = *like;
        opt.batch_size = t.batch_size;
        opt.rank = r;
        opt.ranks = t.ranks;
        opt.workers = workers;
        t.loaders[r] = over_values(&opt);
    }
    return t;
}

static void team_free(team *t) {
    for (uint32_t r = 0; r < t->ranks; r++)
        iter_loader_unref(t->loaders[r]);
}

/* Checks one rank's part of a batch, which begins at row `first` of `n`; returns how many rows it
 * has. */
static uint32_t check_share(const team *t, iter_batch *batch, const model *m, const row *want,
                            uint32_t n, uint32_t first, const order *o, uint32_t *pad) {
    const iter_batch_info info = iter_batch_describe(batch);
    const int32_t *data = iter_batch_tensor(batch, 0)->data;
    EXPECT_EQ(info.epoch, m->epoch);
    EXPECT(info.n_rows <= t->batch_size);
    if (n == m->global) EXPECT_EQ(info.n_rows, t->batch_size);
    EXPECT_EQ(info.pad + info.n_valid, info.n_rows);
    for (uint32_t i = 0; i < info.n_rows && EXPECT(first + i < n); i++) {
        const row w = want[first + i];
        const uint64_t index = o->at[w.epoch][w.position];
        EXPECT_EQ(iter_batch_row_epoch(batch)[i], w.epoch);
        EXPECT_EQ(iter_batch_position(batch)[i], w.position);
        EXPECT_EQ(iter_batch_index(batch)[i], index);
        EXPECT_EQ(data[i], value_of(index));
    }
    *pad += info.pad;
    return info.n_rows;
}

/* Takes one batch of every rank; false = END. */
static bool team_next(team *t, model *m, const order *o) {
    row want[MOST];
    const uint64_t before = m->at;
    const uint32_t n = model_next(m, want);
    uint32_t first = 0, pad = 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        iter_error err;
        iter_batch *batch;
        const iter_status s = iter_loader_next(t->loaders[r], &batch, &err);
        if (!EXPECT_STATUS(s, n ? ITER_OK : ITER_END, &err) || s != ITER_OK) continue;
        first += check_share(t, batch, m, want, n, first, o, &pad);
        iter_batch_unref(batch);
    }
    EXPECT_EQ(first, n);
    if (m->last_batch == ITER_LAST_ROLL_OVER) { /* rows carried from earlier epochs */
        const uint64_t begin = (uint64_t)m->epoch * m->n,
                       carried = begin > before ? begin - before : 0;
        if (n) EXPECT_EQ(pad, carried < n ? carried : n);
    } else {
        EXPECT_EQ(pad, n ? n - (m->at - before) : 0);
    }
    return n > 0;
}

static void team_reset(team *t, model *m) {
    for (uint32_t r = 0; r < t->ranks; r++)
        EXPECT_OK(iter_loader_reset(t->loaders[r], NULL), NULL);
    model_reset(m);
}

/* ---- Elastic restore ------------------------------------------------------------------------- */

typedef struct blobs {
    uint8_t bytes[RANKS_MAX][640];
    size_t size[RANKS_MAX];
} blobs;

static void team_save(team *t, blobs *out) {
    iter_error err;
    for (uint32_t r = 0; r < t->ranks; r++)
        EXPECT_OK(iter_loader_save(t->loaders[r], out->bytes[r], sizeof(out->bytes[r]),
                                   &out->size[r], &err),
                  &err);
}

/* The refusal names a multiple of the new global batch, and none is nearer. */
static void check_refusal(const char *message, uint64_t at, const model *m) {
    const char *nearest = strstr(message, "the nearest is ");
    if (!EXPECT(nearest)) return;
    const uint64_t named = strtoull(nearest + strlen("the nearest is "), NULL, 10);
    const uint64_t away = named > at ? named - at : at - named;
    const uint64_t end = m->last_batch == ITER_LAST_ROLL_OVER ? EPOCHS * m->n : m->n;
    EXPECT(named % m->global == 0 && named <= end);
    for (uint64_t other = 0; other <= end; other += m->global)
        EXPECT(away <= (other > at ? other - at : at - other));
}

/* `saved` was written at the place `old`. A team of another shape resumes there, or refuses. */
static void go_on(const iter_loader_options *like, size_t shape, const blobs *saved,
                  uint32_t n_saved, const model *old, const order *o) {
    team t = team_make(like, shape, shape % 3 == 1 ? 2 : 0);
    model m = *old;
    m.global = t.batch_size * t.ranks;
    const bool rolls = m.last_batch == ITER_LAST_ROLL_OVER;
    const bool legal = (old->ended && !rolls) || old->at % m.global == 0;
    for (uint32_t r = 0; r < t.ranks; r++) {
        iter_error err = {.status = ITER_OK};
        const uint32_t from = r % n_saved;
        const iter_status s =
            iter_loader_restore(t.loaders[r], saved->bytes[from], saved->size[from], &err);
        if (!EXPECT_STATUS(s, legal ? ITER_OK : ITER_EINVAL, &err)) continue;
        if (!legal) check_refusal(err.message, old->at, &m);
    }
    if (legal && rolls) { /* if the epoch has no batch left by the new size, END comes first */
        uint64_t sample;
        iter_loader_position(t.loaders[0], &m.epoch, &sample);
        EXPECT(m.epoch == old->epoch || m.epoch == rolling_epoch(&m, m.at));
        m.ended = false;
    }
    for (uint32_t epochs = 0; legal && epochs < 2 && m.epoch + 1 < EPOCHS;) {
        if (team_next(&t, &m, o)) continue;
        team_reset(&t, &m);
        epochs++;
    }
    team_free(&t);
}

/* Resumes from every place in two epochs; in each shape if `all`, otherwise in one or two. */
static void elastic(kind k, int32_t last_batch, const order *o, size_t from, bool all) {
    const iter_loader_options opt = options(samplers[k], last_batch);
    team t = team_make(&opt, from, from % 3 == 2 ? 2 : 0);
    model m = {.last_batch = last_batch, .n = o->n, .global = t.batch_size * t.ranks};
    for (uint32_t taken = 0; m.epoch < 2; taken++) {
        blobs saved;
        team_save(&t, &saved);
        model here = m, ahead = m;
        row rows[MOST];
        here.ended |= taken > 0 && model_next(&ahead, rows) == 0; /* the last batch was taken */
        for (size_t to = 0; to < N_SHAPES && !EXPECT_DONE(); to++) {
            if (all || (to + from + taken) % 4 == 0) go_on(&opt, to, &saved, t.ranks, &here, o);
        }
        if (EXPECT_DONE()) {
            fprintf(stderr, "%s, last_batch %d, %u x %u, epoch %u, row %llu%s\n", samplers[k],
                    last_batch, t.batch_size, t.ranks, m.epoch, (unsigned long long)m.at,
                    here.ended ? ", ended" : "");
            break;
        }
        if (team_next(&t, &m, o)) continue;
        team_reset(&t, &m);
        taken = UINT32_MAX;
    }
    team_free(&t);
}

/* ---- Buckets --------------------------------------------------------------------------------- */

static const chaos_set with_lengths = {
    .name = "own-lengths", .how = CHAOS_OWN, .has_lengths = true};
static const chaos_set stream = {.name = "stream", .how = CHAOS_STREAM};

static uint32_t bucket_of(uint64_t index) {
    const uint64_t length = index % 9 + 1; /* bounds 3 and 6 */
    return length <= 3 ? 0 : length <= 6 ? 1 : 2;
}

/* Ranks take a whole epoch; at batch `stop` all resume in new loaders of another shape. Each sample
 * comes once, and each batch is of one bucket. */
static void buckets(uint32_t stop, size_t from, size_t to) {
    uint32_t seen[CHAOS_OWN_SAMPLES] = {0}, total = 0;
    iter_dataset *data = chaos_set_open(&with_lengths, true);
    iter_chain *chain = drive_chain("pad-batch");
    iter_loader *loaders[RANKS_MAX] = {NULL};
    blobs saved;
    size_t shape = from;
    bool over = false;
    for (uint32_t taken = 0; !over; taken++) {
        if (taken == stop) shape = to;
        const uint32_t ranks = shapes[shape][1];
        int32_t bucket = -1;
        for (uint32_t r = 0; r < ranks; r++) {
            iter_error err;
            if (taken == 0 || taken == stop) {
                iter_loader_options opt = options("bucket:buckets=3;6,shuffle=yes", ITER_LAST_KEEP);
                opt.batch_size = shapes[shape][0];
                opt.rank = r;
                opt.ranks = ranks;
                opt.workers = (int32_t)(taken % 3);
                loaders[r] = drive_loader(data, chain, &opt);
            }
            if (taken == stop) {
                const uint32_t by = r % shapes[from][1];
                EXPECT_OK(iter_loader_restore(loaders[r], saved.bytes[by], saved.size[by], &err),
                          &err);
            }
        }
        for (uint32_t r = 0; r < ranks; r++) {
            iter_error err;
            iter_batch *batch;
            const iter_status s = iter_loader_next(loaders[r], &batch, &err);
            if (s != ITER_OK) EXPECT_STATUS(s, ITER_END, &err);
            over = s != ITER_OK;
            for (uint32_t i = 0; !over && i < iter_batch_describe(batch).n_rows; i++) {
                const uint64_t index = iter_batch_index(batch)[i];
                EXPECT_EQ(((const int32_t *)iter_batch_tensor(batch, 1)->data)[i], index);
                if (bucket < 0) bucket = (int32_t)bucket_of(index);
                EXPECT_EQ(bucket_of(index), bucket);
                seen[index]++;
                total++;
            }
            iter_batch_unref(batch);
        }
        if (over || taken + 1 == stop) {
            for (uint32_t r = 0; r < ranks; r++) {
                EXPECT_OK(iter_loader_save(loaders[r], saved.bytes[r], sizeof(saved.bytes[r]),
                                           &saved.size[r], NULL),
                          NULL);
                iter_loader_unref(loaders[r]);
            }
        }
    }
    EXPECT_EQ(total, CHAOS_OWN_SAMPLES);
    for (uint32_t i = 0; i < CHAOS_OWN_SAMPLES; i++)
        EXPECT_EQ(seen[i], 1);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

/* The sampler's draws depend on the global batch, so another one is refused. */
static void buckets_refuse(void) {
    iter_dataset *data = chaos_set_open(&with_lengths, true);
    iter_chain *chain = drive_chain("pad-batch");
    iter_loader_options opt = options("bucket:buckets=3;6", ITER_LAST_KEEP);
    opt.batch_size = 8;
    iter_loader *a = drive_loader(data, chain, &opt);
    opt.batch_size = 4;
    iter_loader *b = drive_loader(data, chain, &opt);
    iter_error err;
    iter_batch *batch;
    uint8_t saved[640];
    size_t size;
    if (EXPECT_OK(iter_loader_next(a, &batch, &err), &err)) iter_batch_unref(batch);
    EXPECT_OK(iter_loader_save(a, saved, sizeof(saved), &size, &err), &err);
    EXPECT_ERROR(iter_loader_restore(b, saved, size, &err), ITER_EINVAL, &err,
                 "batch_size x ranks");
    iter_loader_unref(a);
    iter_loader_unref(b);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static iter_loader *over_stream(int32_t workers, uint32_t batch_size, int32_t last_batch) {
    iter_loader_options opt = options(NULL, last_batch);
    opt.batch_size = batch_size;
    opt.workers = workers;
    opt.prefetch = (uint32_t)workers;
    iter_dataset *data = chaos_set_open(&stream, true);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    return loader;
}

/* Checks the stream's rows from `at` on, in order, in batches of batch_size; at most `most`
 * batches. Returns the row after them. */
static uint64_t follow_stream(iter_loader *loader, uint32_t epoch, uint64_t at, uint32_t batch_size,
                              int32_t last_batch, uint32_t most) {
    iter_error err;
    iter_batch *batch;
    for (uint32_t b = 0; b < most; b++) {
        const uint64_t left = CHAOS_OWN_SAMPLES - at;
        uint32_t n = left < batch_size ? (uint32_t)left : batch_size;
        if (n < batch_size && last_batch == ITER_LAST_DISCARD) n = 0;
        const iter_status s = iter_loader_next(loader, &batch, &err);
        if (!EXPECT_STATUS(s, n ? ITER_OK : ITER_END, &err) || s != ITER_OK) return at;
        EXPECT_EQ(iter_batch_describe(batch).epoch, epoch);
        EXPECT_EQ(iter_batch_describe(batch).n_rows, n);
        const float *data = iter_batch_tensor(batch, 0)->data;
        for (uint32_t i = 0; i < n; i++, at++) {
            EXPECT_EQ(iter_batch_index(batch)[i], at);
            EXPECT_EQ(iter_batch_position(batch)[i], at);
            EXPECT_EQ(((const int32_t *)iter_batch_tensor(batch, 1)->data)[i], at);
            EXPECT(data[9 * i] == (float)at && data[9 * i + 8] == (float)(8 * at));
        }
        iter_batch_unref(batch);
    }
    return at;
}

/* After `taken` batches: save, resume in batches of another size, reset in mid-epoch, seek to an
 * epoch's beginning. */
static void streams(int32_t workers, uint32_t batch_size, uint32_t taken, uint32_t other_size,
                    int32_t last_batch) {
    iter_error err;
    uint8_t saved[640];
    size_t size;
    uint32_t epoch;
    uint64_t sample;
    iter_loader *a = over_stream(workers, batch_size, last_batch);
    const uint64_t at = follow_stream(a, 0, 0, batch_size, last_batch, taken);
    iter_loader_position(a, &epoch, &sample);
    EXPECT_EQ(sample, at);
    EXPECT_EQ(iter_loader_n_batches(a), ITER_UNKNOWN);
    EXPECT_OK(iter_loader_save(a, saved, sizeof(saved), &size, &err), &err);

    iter_loader *b = over_stream((workers + 1) % 4, other_size, last_batch);
    EXPECT_OK(iter_loader_restore(b, saved, size, &err), &err);
    follow_stream(b, 0, at, other_size, last_batch, UINT32_MAX);
    EXPECT_OK(iter_loader_reset(b, &err), &err);
    follow_stream(b, 1, 0, other_size, last_batch, UINT32_MAX);
    EXPECT_OK(iter_loader_restore(b, saved, size, &err), &err); /* back */
    follow_stream(b, 0, at, other_size, last_batch, 2);
    iter_loader_unref(b);

    /* drops the rest; if nothing was taken, does nothing */
    EXPECT_OK(iter_loader_reset(a, &err), &err);
    follow_stream(a, taken ? 1 : 0, 0, batch_size, last_batch, 3);
    EXPECT_OK(iter_loader_seek(a, 4, 0, &err), &err);
    follow_stream(a, 4, 0, batch_size, last_batch, UINT32_MAX);
    EXPECT_ERROR(iter_loader_seek(a, 0, batch_size, &err), ITER_EINVAL, &err, "stream");
    iter_loader_unref(a);
}

static void stream_refuses(void) {
    static const char *const orders[] = {
        "shuffle", "once", "block", "batch", "replacement:samples=9", "bucket"};
    iter_dataset *data = chaos_set_open(&stream, true);
    iter_error err;
    iter_loader *loader;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const iter_loader_options opt = options(orders[i], ITER_LAST_KEEP);
        const iter_status s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
        if (!EXPECT_EQ(s, ITER_EINVAL)) fprintf(stderr, "%s over a stream\n", orders[i]);
        iter_loader_unref(loader);
    }
    for (int32_t last = ITER_LAST_PAD; last <= ITER_LAST_ROLL_OVER; last++) {
        iter_loader_options opt = options(NULL, last);
        const bool fine = last == ITER_LAST_DISCARD;
        opt.ranks = fine ? 2 : 1; /* a stream cannot be shared among ranks */
        EXPECT_EQ(iter_dataloader_create(data, NULL, &opt, &loader, &err), ITER_EINVAL);
        iter_loader_unref(loader);
    }
    iter_dataset_unref(data);
}

static void all_streams(void) {
    for (uint32_t i = 0; i < 36; i++) {
        const uint32_t batch_size = i % 3 ? 1 + 13 * (i % 4) : CHAOS_OWN_SAMPLES / (1 + i % 2);
        const int32_t last_batch = i % 2 ? ITER_LAST_KEEP : ITER_LAST_DISCARD;
        streams((int32_t)(i % 4), batch_size, i % 6 == 5 ? UINT32_MAX : i % 7, 1 + i, last_batch);
    }
    stream_refuses();
}

int main(int argc, char **argv) {
    (void)argv;
    static order orders[N_KINDS];
    for (uint64_t i = 0; i < N; i++)
        values[i] = value_of(i);
    for (kind k = 0; k < N_KINDS; k++) {
        read_order(samplers[k], &orders[k]);
        check_order(k, &orders[k], &orders[SHUFFLE]);
    }
    for (kind k = 0; k < N_KINDS; k++) {
        for (int32_t last = ITER_LAST_KEEP; last <= ITER_LAST_ROLL_OVER; last++) {
            for (size_t from = 0; from < N_SHAPES && !EXPECT_DONE(); from++)
                elastic(k, last, &orders[k], from, argc > 1);
        }
    }
    for (uint32_t stop = 1; stop < 20; stop++) { /* 12 x 1 and 3 x 4 */
        buckets(stop, 4, 5);
        buckets(stop, 5, 4);
    }
    buckets_refuse();
    all_streams();
    return EXPECT_DONE();
}
