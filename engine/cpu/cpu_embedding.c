/*
 * cpu_embedding.c - see cpu_embedding.h.
 *
 * Different ids are found by a bitmap of the table, so they come in ascending order. If words are
 * ranked by frequency, the rows that are read most are then neighbours. Tokens are sorted by
 * counting. Sums over tokens follow that order, and each thread takes an equal number of tokens. A
 * sum that crosses from one thread to the next is completed afterwards, so the bits depend only on
 * the number of threads.
 */
#include "engine/cpu/cpu_embedding.h"

#include <stdbool.h>
#include <string.h>

#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"
#include "engine/engine_memory.h"

struct cpu_embedding {
    const cpu_kernels *kernels;
    uint32_t threads;
    int64_t rows, units, batch, steps;
    cpu_tokens tokens;
    uint64_t *seen;   /* [rows] bits; all 0 between calls */
    int32_t *slot_of; /* [rows], set for the ids of this batch */
    int32_t *index, *ids, *order, *start;
    float *heads;     /* [threads, units] */
    uint64_t n_bytes; /* of all these */
};

/* Zeroed, counted memory that destroy() frees; false = out of memory. */
static bool take(cpu_embedding *e, void *where, size_t n, size_t size) {
    void *block = iter__engine_alloc(n, size);
    memcpy(where, &block, sizeof block);
    if (block) e->n_bytes += n * size;
    return block != NULL;
}

static bool allocate(cpu_embedding *e) {
    const size_t n = (size_t)e->tokens.n_tokens, rows = (size_t)e->rows;
    return take(e, &e->seen, rows / 64 + 1, sizeof *e->seen) &&
           take(e, &e->slot_of, rows, sizeof *e->slot_of) &&
           take(e, &e->index, n, sizeof *e->index) && take(e, &e->ids, n, sizeof *e->ids) &&
           take(e, &e->order, n, sizeof *e->order) && take(e, &e->start, n + 1, sizeof *e->start) &&
           take(e, &e->heads, (size_t)e->threads * (size_t)e->units, sizeof *e->heads);
}

iter_status iter__cpu_embedding_create(const cpu_kernels *kernels, int64_t rows, int64_t units,
                                       int64_t batch, int64_t steps, uint32_t threads,
                                       cpu_embedding **out, iter_error *err) {
    *out = NULL;
    if (batch > INT32_MAX / steps)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "embedding: batches of %lld x %lld ids are too large",
                                 (long long)batch, (long long)steps);
    cpu_embedding *e = iter__engine_alloc(1, sizeof *e);
    if (e)
        *e = (cpu_embedding){.kernels = kernels,
                             .threads = threads,
                             .rows = rows,
                             .units = units,
                             .batch = batch,
                             .steps = steps,
                             .tokens = {.n_tokens = batch * steps},
                             .n_bytes = sizeof *e};
    if (!e || !allocate(e)) {
        iter__cpu_embedding_destroy(e);
        return iter__engine_fail(err, ITER_ENOMEM,
                                 "embedding: no memory for batches of %lld x %lld ids",
                                 (long long)batch, (long long)steps);
    }
    e->tokens.index = e->index;
    e->tokens.ids = e->ids;
    e->tokens.order = e->order;
    e->tokens.start = e->start;
    *out = e;
    return ITER_OK;
}

void iter__cpu_embedding_destroy(cpu_embedding *e) {
    if (!e) return;
    iter__engine_free(e->seen);
    iter__engine_free(e->slot_of);
    iter__engine_free(e->index);
    iter__engine_free(e->ids);
    iter__engine_free(e->order);
    iter__engine_free(e->start);
    iter__engine_free(e->heads);
    iter__engine_free(e);
}

uint64_t iter__cpu_embedding_bytes(const cpu_embedding *e) {
    return e->n_bytes;
}

/* Copies ids as they are into index[], which holds them until they are counted. */
static void copy_ids(cpu_embedding *e, const iter_tensor *ids, bool time_first, int64_t n_rows) {
    const int64_t row_stride = ids->strides[time_first ? 1 : 0];
    const int64_t step_stride = ids->strides[time_first ? 0 : 1];
    for (int64_t t = 0; t < e->steps; t++) {
        int32_t *out = e->index + t * e->batch;
        for (int64_t i = 0; i < n_rows; i++) {
            const int64_t at = i * row_stride + t * step_stride;
            out[i] = ids->desc.dtype == ITER_I64 ? (int32_t)((const int64_t *)ids->data)[at]
                                                 : ((const int32_t *)ids->data)[at];
        }
        memset(out + n_rows, 0, (size_t)(e->batch - n_rows) * sizeof *out);
    }
}

const cpu_tokens *iter__cpu_embedding_index(cpu_embedding *e, const iter_tensor *ids,
                                            bool time_first, int64_t n_rows) {
    copy_ids(e, ids, time_first, n_rows);
    const int64_t n = e->tokens.n_tokens;
    for (int64_t k = 0; k < n; k++)
        e->seen[e->index[k] / 64] |= UINT64_C(1) << e->index[k] % 64;

    int32_t different = 0;
    for (int64_t word = 0; word <= e->rows / 64; word++) {
        for (uint64_t bits = e->seen[word]; bits; bits &= bits - 1) {
            const int32_t id = (int32_t)(word * 64) + __builtin_ctzll(bits);
            e->ids[different] = id;
            e->slot_of[id] = different++;
        }
        e->seen[word] = 0;
    }
    e->tokens.n_different = different;

    memset(e->start, 0, ((size_t)different + 1) * sizeof *e->start);
    for (int64_t k = 0; k < n; k++) {
        e->index[k] = e->slot_of[e->index[k]];
        e->start[e->index[k]]++;
    }
    /* start[i] = the end of i; counting down turns it into the beginning of i. */
    int32_t sum = 0;
    for (int32_t i = 0; i <= different; i++)
        e->start[i] = sum += i < different ? e->start[i] : 0;
    for (int64_t k = n - 1; k >= 0; k--)
        e->order[--e->start[e->index[k]]] = (int32_t)k;
    return &e->tokens;
}

typedef struct gather_work {
    const cpu_embedding *embedding;
    const float *weights;
    float *out;
    int64_t ld;
    bool tokens; /* one row per token; else one row per different id */
} gather_work;

static void gather_part(void *user, uint32_t t, uint32_t threads) {
    const gather_work *x = user;
    const cpu_embedding *e = x->embedding;
    const int64_t n = x->tokens ? e->tokens.n_tokens : e->tokens.n_different;
    const int64_t to = iter__cpu_part(n, t + 1, threads);
    for (int64_t i = iter__cpu_part(n, t, threads); i < to; i++) {
        const int32_t id = e->ids[x->tokens ? e->index[i] : i];
        float *out = x->out + i * x->ld;
        memcpy(out, x->weights + id * e->units, (size_t)e->units * sizeof *out);
        if (x->ld == e->units) continue;
        out[e->units] = 1.0f;
        for (int64_t j = e->units + 1; j < x->ld; j++)
            out[j] = 0.0f;
    }
}

void iter__cpu_embedding_gather(const cpu_embedding *e, const float *weights, float *out,
                                int64_t ld) {
    gather_work work = {e, weights, out, ld, false};
    iter__cpu_parallel(e->threads, gather_part, &work);
}

void iter__cpu_embedding_forward(const cpu_embedding *e, const float *weights, float *y) {
    gather_work work = {e, weights, y, e->units, true};
    iter__cpu_parallel(e->threads, gather_part, &work);
}

void iter__cpu_embedding_backward(cpu_embedding *e, const float *dy, float *out) {
    cpu_token_sums sums = {.kernels = e->kernels,
                           .tokens = &e->tokens,
                           .places = e->order,
                           .x = dy,
                           .x_ld = e->units,
                           .out = out,
                           .ld = e->units,
                           .heads = e->heads,
                           .threads = e->threads};
    sums.runs[0].n = e->units;
    iter__cpu_token_sums(&sums);
}

/* The sum of tokens order[from .. to), all of the same id. */
static void sum_into(const cpu_token_sums *s, int64_t from, int64_t to, float *out) {
    for (int r = 0; r < 2; r++)
        if (s->runs[r].n > 0)
            s->kernels->sum_rows(to - from, s->places + from, s->x + s->runs[r].from, s->x_ld,
                                 s->runs[r].n, out + s->runs[r].column);
}

/* The id that order[j] belongs to; j may be the end. */
static int64_t id_at(const cpu_token_sums *s, int64_t j) {
    const cpu_tokens *t = s->tokens;
    return j < t->n_tokens ? t->index[t->order[j]] : t->n_different;
}

static void sums_part(void *user, uint32_t t, uint32_t threads) {
    const cpu_token_sums *s = *(const cpu_token_sums *const *)user;
    const int32_t *start = s->tokens->start;
    const int64_t from = iter__cpu_part(s->tokens->n_tokens, t, threads);
    const int64_t to = iter__cpu_part(s->tokens->n_tokens, t + 1, threads);
    if (from == to) return;
    for (int64_t i = id_at(s, from), j = from; j < to; i++) {
        const int64_t end = start[i + 1] < to ? start[i + 1] : to;
        sum_into(s, j, end, j > start[i] ? s->heads + t * s->ld : s->out + i * s->ld);
        j = end;
    }
}

void iter__cpu_token_sums(const cpu_token_sums *s) {
    iter__cpu_parallel(s->threads, sums_part, &s);
    for (uint32_t t = 1; t < s->threads; t++) {
        const int64_t from = iter__cpu_part(s->tokens->n_tokens, t, s->threads);
        const int64_t to = iter__cpu_part(s->tokens->n_tokens, t + 1, s->threads);
        const int64_t i = id_at(s, from);
        if (from == to || from == s->tokens->start[i]) continue;
        for (int r = 0; r < 2; r++)
            s->kernels->add(s->runs[r].n, s->heads + t * s->ld + s->runs[r].column,
                            s->out + i * s->ld + s->runs[r].column);
    }
}
