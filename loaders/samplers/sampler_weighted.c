/*
 * sampler_weighted.c - draws with replacement, a sample as often as its weight says.
 *
 * Walker's alias method: entry i of a table has the share of its width that is i's own, and the
 * sample that has the rest. So a draw is an entry, a number beside its share, and no search.
 * Position p of epoch e takes both from the first block of the stream of (key, e, p): the entry is
 * floor(x n / 2^64) of 64 bits x, which is even to n parts of 2^64. The table takes 8 bytes a
 * sample; while it is made, 12 more.
 *
 * Source: M. D. Vose, "A linear algorithm for generating random numbers with a given distribution",
 * IEEE Transactions on Software Engineering 17(9), 1991.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "loaders/decoders/decode_swapped.h"
#include "loaders/files/file.h"
#include "loaders/formats/npy_header.h"
#include "loaders/samplers/samplers.h"

#define SHARE_ALL 0x1p32
#define PIECE     4096u /* weights that are read at a time */
#define GROUP     64u   /* draws */

__extension__ typedef unsigned __int128 uint128;

typedef struct entry {
    uint32_t share; /* of 2^32, that is the entry's own */
    uint32_t other; /* the sample that has the rest; the entry's own if it has all */
} entry;

typedef struct state {
    uint64_t n_samples, n_draws, key;
    entry *table; /* [n_samples] */
} state;

static const iter_weighted_options defaults = ITER_WEIGHTED_OPTIONS_INIT;

static const iter_option options_weighted[] = {
    ITER_ROW_STRING("file", "a .npy file with a weight for each sample", iter_weighted_options,
                    file, 1),
    ITER_ROW_INT("samples", "draws an epoch; 0 = as many as there are samples",
                 iter_weighted_options, samples, 0, 9e15, 2),
    ITER_ROW_END,
};

/* ---- Weights --------------------------------------------------------------------------------- */

static double weight_at(const void *bytes, iter_dtype dtype, uint64_t i) {
    switch ((int)dtype) {
    case ITER_U8:
    case ITER_BOOL: return ((const uint8_t *)bytes)[i];
    case ITER_I8: return ((const int8_t *)bytes)[i];
    case ITER_U16: return ((const uint16_t *)bytes)[i];
    case ITER_I16: return ((const int16_t *)bytes)[i];
    case ITER_U32: return ((const uint32_t *)bytes)[i];
    case ITER_I32: return ((const int32_t *)bytes)[i];
    case ITER_U64: return (double)((const uint64_t *)bytes)[i];
    case ITER_I64: return (double)((const int64_t *)bytes)[i];
    case ITER_F32: return (double)((const float *)bytes)[i];
    case ITER_F64: return ((const double *)bytes)[i];
    default: return NAN;
    }
}

/* Reads the weights into out[n], and their sum. */
static iter_status read_weights(const iter__npy_header *head, const iter__data_file *file,
                                double *out, double *out_sum, iter_error *err) {
    double piece[PIECE]; /* as wide as the widest type, and aligned for all */
    const size_t width = iter_dtype_bytes(head->dtype);
    *out_sum = 0;
    for (uint64_t at = 0; at < head->dims[0]; at += PIECE) {
        const uint64_t left = head->dims[0] - at;
        const size_t n = left < PIECE ? (size_t)left : PIECE;
        size_t done = 0;
        ITER_TRY(iter__file_read_at(file, head->header_bytes + at * width, piece, n * width, &done,
                                    err));
        if (done < n * width)
            return iter__fail(err, ITER_EFORMAT, "%s: ends while it is read", head->path);
        if (head->swapped) iter__swap_elements(piece, piece, n, width);
        for (size_t i = 0; i < n; i++) {
            const double weight = weight_at(piece, head->dtype, i);
            if (!(weight >= 0) || !isfinite(weight))
                return iter__fail(err, ITER_EFORMAT,
                                  "%s: the weight of sample %" PRIu64
                                  " is %g; expected a number of at least 0",
                                  head->path, at + i, weight);
            out[at + i] = weight;
            *out_sum += weight;
        }
    }
    if (*out_sum > 0 && isfinite(*out_sum)) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "%s: the weights' sum is %g", head->path, *out_sum);
}

static iter_status check_header(const iter__npy_header *head, uint64_t n_samples, iter_error *err) {
    if (head->n_dims != 1 || head->dtype == ITER_F16)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: has %d dimensions of %s; expected one, of integers, f32 or f64",
                          head->path, head->n_dims, iter_dtype_text(head->dtype));
    if (head->dims[0] != n_samples)
        return iter__fail(err, ITER_EINVAL,
                          "%s: has %" PRIu64 " weights, there are %" PRIu64 " samples", head->path,
                          head->dims[0], n_samples);
    if (n_samples > UINT32_MAX)
        return iter__fail(err, ITER_EUNSUPPORTED, "%" PRIu64 " samples are more than 2^32 - 1",
                          n_samples);
    return ITER_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Turns weights into heights, 1 on average. Each entry that is lower is filled up by one that is
 * higher, which may become a low one by that. `stacks` [n] has the low ones from its beginning and
 * the high ones from its end. */
static void make_table(entry *table, double *heights, double sum, uint32_t *stacks, uint64_t n) {
    uint64_t n_low = 0, high = n; /* stacks[high .. n) */
    uint32_t last = 0;            /* that gave */
    for (uint64_t i = 0; i < n; i++) {
        heights[i] = heights[i] / sum * (double)n;
        table[i] = (entry){UINT32_MAX, (uint32_t)i};
        if (heights[i] < 1)
            stacks[n_low++] = (uint32_t)i;
        else
            stacks[--high] = (uint32_t)i;
    }
    while (n_low > 0 && high < n) {
        const uint32_t low = stacks[--n_low], giver = stacks[high];
        last = giver;
        table[low] = (entry){(uint32_t)(heights[low] * SHARE_ALL), giver};
        heights[giver] = heights[giver] + heights[low] - 1;
        if (heights[giver] >= 1) continue;
        high++;
        stacks[n_low++] = giver;
    }
    /* What is left has a height of 1 but for rounding, and keeps all of its entry. Whatever was
     * rounded, a weight of 0 gets none. */
    while (n_low > 0)
        if (heights[stacks[--n_low]] == 0) table[stacks[n_low]] = (entry){0, last};
}

static iter_status open_file(state *s, const char *path, iter_error *err) {
    iter__npy_header head;
    iter__data_file file;
    double sum;
    ITER_TRY(iter__npy_header_read(path, &head, err));
    ITER_TRY(check_header(&head, s->n_samples, err));
    ITER_TRY(iter__file_open(path, &file, err));
    const size_t n = (size_t)s->n_samples;
    double *heights = iter__alloc(n, sizeof(*heights));
    uint32_t *stacks = iter__alloc(n, sizeof(*stacks));
    s->table = iter__map(n * sizeof(*s->table)); /* large pages: entries are drawn at random */
    iter_status status =
        heights && stacks && s->table
            ? read_weights(&head, &file, heights, &sum, err)
            : iter__fail(err, ITER_ENOMEM, "%s: no memory for %zu weights", path, n);
    iter__file_close(&file);
    if (status == ITER_OK) make_table(s->table, heights, sum, stacks, n);
    iter__free(heights);
    iter__free(stacks);
    if (status < 0 && s->table) iter__unmap(s->table, n * sizeof(*s->table));
    return status;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status weighted_open(void *opaque, const void *options,
                                 const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_weighted_options *o = options ? options : &defaults;
    ITER_TRY(iter__sampler_needs_count(context, err));
    if (!o->file) return iter__fail(err, ITER_EINVAL, "needs file=, the weights");
    s->n_samples = context->n_samples;
    s->n_draws = o->samples > 0 ? (uint64_t)o->samples : s->n_samples;
    s->key = iter_rng_key(context->seed, "weighted", 0);
    return open_file(s, o->file, err);
}

static void weighted_close(void *opaque) {
    state *s = opaque;
    iter__unmap(s->table, (size_t)s->n_samples * sizeof(*s->table));
    s->table = NULL;
}

static uint64_t weighted_length(const void *opaque) {
    return ((const state *)opaque)->n_draws;
}

/* All entries of a group are requested before the first one is looked at, and no branch depends on
 * a draw: a table that fits no cache would cost its latency, and a wrong guess, each time. */
static void weighted_index(void *opaque, uint32_t epoch, uint64_t position, uint32_t n,
                           uint64_t *out) {
    const state *s = opaque;
    const uint32_t key[2] = {(uint32_t)s->key, (uint32_t)(s->key >> 32)};
    uint32_t beside[GROUP];
    for (uint32_t at = 0; at < n; at += GROUP) {
        const uint32_t m = n - at < GROUP ? n - at : GROUP;
        for (uint32_t i = 0; i < m; i++) {
            const uint64_t p = position + at + i;
            const uint32_t counter[4] = {0, (uint32_t)p, (uint32_t)(p >> 32), epoch};
            uint32_t block[4];
            iter_philox4x32(counter, key, block);
            const uint64_t x = block[0] | (uint64_t)block[1] << 32;
            out[at + i] = (uint64_t)((uint128)x * s->n_samples >> 64);
            beside[i] = block[2];
            __builtin_prefetch(&s->table[out[at + i]]);
        }
        for (uint32_t i = 0; i < m; i++) {
            const entry e = s->table[out[at + i]];
            const uint64_t is_own = 0 - (uint64_t)(beside[i] < e.share);
            out[at + i] = (out[at + i] & is_own) | (e.other & ~is_own);
        }
    }
}

const iter_sampler_ops iter__sampler_weighted = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "weighted",
             .help = "independent draws by weights from a file: a sample may come twice, or not at "
                     "all",
             .options = options_weighted,
             .defaults = &defaults,
             .options_size = sizeof(iter_weighted_options),
             .state_size = sizeof(state)},
    .open = weighted_open,
    .close = weighted_close,
    .length = weighted_length,
    .index = weighted_index,
};
