/*
 * sampler_bucket.c - batches of samples of similar length.
 *
 * open() sorts the samples by bucket, once. A bucket's samples are cut into batches; the batches of
 * all buckets are numbered 0, 1, ... An epoch is a permutation of these numbers, and in each bucket
 * a permutation of its samples, keyed by (epoch, bucket). The sampler has the sequential form,
 * because its batches have different lengths. But batch k of an epoch depends on k alone, so the
 * saved position is (epoch, k).
 */
#include <stdlib.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "loaders/files/byte_order.h"
#include "loaders/samplers/samplers.h"

#define DEFAULT_BUCKETS 16
#define MAX_BUCKETS     4096
#define SAVED_BYTES     20 /* epoch u32, batch u64, n_batches u64, little-endian */

typedef struct bucket {
    uint64_t start, count; /* its samples are order[start .. start + count) */
    uint64_t first_batch;  /* number of its first batch; those before it are other buckets' */
    uint64_t n_batches;
    iter__permutation rows;
    uint16_t *table; /* [count] when they are few; part of state.tables */
    uint32_t epoch;  /* of rows, when is_ready */
    bool is_ready;
} bucket;

typedef struct state {
    uint64_t n_samples, n_batches;
    uint64_t batch_rows; /* of a whole batch: batch_size x ranks */
    uint64_t batch_key, row_key;
    bool shuffle, drop;
    uint32_t n_buckets;
    bucket *buckets;
    uint32_t *order;  /* [n_samples] samples by bucket, in each as stored */
    uint16_t *tables; /* of all small buckets */
    iter__permutation batches;
    uint16_t *batch_table; /* [n_batches] when they are few */
    uint32_t epoch;
    uint64_t batch; /* the next one */
} state;

/* Upper bounds, ascending; the last bucket has none. */
typedef struct bounds {
    uint32_t n;
    int64_t upper[MAX_BUCKETS];
} bounds;

static const iter_bucket_options defaults = ITER_BUCKET_OPTIONS_INIT;

static const iter_option options_bucket[] = {
    ITER_ROW_LIST("buckets", "upper bounds of the lengths, ascending: 50;100;200",
                  iter_bucket_options, buckets, 0, 9e15, 0),
    ITER_ROW_INT("n-buckets", "as many buckets of equal size, if there is no list; 0 = 16",
                 iter_bucket_options, n_buckets, 0, MAX_BUCKETS, 1),
    ITER_ROW_BOOL("shuffle", "samples and batches in random order", iter_bucket_options, shuffle),
    ITER_ROW_BOOL("drop", "leave out what does not fill a batch of its bucket", iter_bucket_options,
                  drop),
    ITER_ROW_END,
};

static int compare_lengths(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static iter_status measure(const iter_sampler_context *context, int64_t *lengths, iter_error *err) {
    for (uint64_t i = 0; i < context->n_samples; i++) {
        lengths[i] = context->length(context->length_user, i);
        if (lengths[i] < 0)
            return iter__fail(err, ITER_EINVAL, "sample %llu has no known length",
                              (unsigned long long)i);
    }
    return ITER_OK;
}

static iter_status listed_bounds(const iter_option_list *list, bounds *out, iter_error *err) {
    out->n = 0;
    for (int32_t i = 0; i < list->n; i++) {
        const int64_t upper = (int64_t)list->values[i];
        if (i > 0 && upper <= out->upper[i - 1])
            return iter__fail(err, ITER_EINVAL, "bounds must ascend, but %lld follows %lld",
                              (long long)upper, (long long)out->upper[i - 1]);
        out->upper[out->n++] = upper;
    }
    return ITER_OK;
}

/* Bounds at the quantiles: bucket i of m ends with the length of rank ceil((i + 1) n / m). Equal
 * lengths stay together. */
static void quantile_bounds(int64_t *lengths, uint64_t n, uint64_t m, bounds *out) {
    out->n = 0;
    qsort(lengths, n, sizeof(*lengths), compare_lengths);
    for (uint64_t i = 0; n > 0 && i + 1 < m; i++) {
        const uint64_t rank = ((i + 1) * n + m - 1) / m;
        const int64_t upper = lengths[rank - 1];
        if (out->n == 0 || upper > out->upper[out->n - 1]) out->upper[out->n++] = upper;
    }
}

/* The bucket of a length: that of the first bound that is not below it. */
static uint32_t bucket_of(const bounds *b, int64_t length) {
    uint32_t low = 0, high = b->n;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (b->upper[middle] < length)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sorts the samples by bucket (a counting sort) and cuts each bucket into batches. */
static void fill_buckets(state *s, const bounds *b, const iter_sampler_context *context) {
    for (uint64_t i = 0; i < s->n_samples; i++)
        s->buckets[bucket_of(b, context->length(context->length_user, i))].count++;
    uint64_t start = 0, batch = 0;
    uint16_t *table = s->tables;
    for (uint32_t k = 0; k < s->n_buckets; k++) {
        bucket *it = &s->buckets[k];
        it->start = start;
        it->first_batch = batch;
        it->n_batches = it->count / s->batch_rows + (!s->drop && it->count % s->batch_rows != 0);
        it->table = table;
        start += it->count;
        batch += it->n_batches;
        if (it->count <= ITER_PERMUTATION_TABLE) table += it->count;
        it->count = 0; /* counted again while the samples are placed */
    }
    s->n_batches = batch;
    for (uint64_t i = 0; i < s->n_samples; i++) {
        bucket *it = &s->buckets[bucket_of(b, context->length(context->length_user, i))];
        s->order[it->start + it->count++] = (uint32_t)i;
    }
}

static void bucket_close(void *opaque) {
    state *s = opaque;
    iter__free(s->buckets);
    iter__free(s->order);
    iter__free(s->tables);
    iter__free(s->batch_table);
    *s = (state){0};
}

static iter_status choose_bounds(const iter_bucket_options *o, const iter_sampler_context *context,
                                 bounds *out, iter_error *err) {
    if (o->buckets.n > 0 && o->n_buckets > 0)
        return iter__fail(err, ITER_EINVAL, "both buckets and n-buckets are given");
    if (o->n_buckets > MAX_BUCKETS)
        return iter__fail(err, ITER_EINVAL, "n-buckets is at most %d", MAX_BUCKETS);
    int64_t *lengths = iter__alloc(context->n_samples, sizeof(*lengths));
    if (!lengths) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = measure(context, lengths, err);
    if (status >= 0 && o->buckets.n > 0)
        status = listed_bounds(&o->buckets, out, err);
    else if (status >= 0)
        quantile_bounds(lengths, context->n_samples,
                        o->n_buckets > 0 ? (uint64_t)o->n_buckets : DEFAULT_BUCKETS, out);
    iter__free(lengths);
    return status;
}

static iter_status check_context(const iter_sampler_context *context, iter_error *err) {
    ITER_TRY(iter__sampler_needs_count(context, err));
    if (!context->length)
        return iter__fail(err, ITER_EINVAL,
                          "this dataset does not tell the length of a sample before "
                          "it is read");
    if (context->n_samples > UINT32_MAX)
        return iter__fail(err, ITER_EINVAL, "%llu samples are more than 2^32 - 1",
                          (unsigned long long)context->n_samples);
    if (context->batch_size == 0) return iter__fail(err, ITER_EINVAL, "batches of no samples");
    return ITER_OK;
}

static iter_status bucket_open(void *opaque, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    state *s = opaque;
    const iter_bucket_options *o = options ? options : &defaults;
    ITER_TRY(check_context(context, err));
    bounds *b = iter__alloc(1, sizeof(*b));
    if (!b) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter_status status = choose_bounds(o, context, b, err);
    if (status < 0) goto fail;
    s->n_samples = context->n_samples;
    s->batch_rows = (uint64_t)context->batch_size * (context->ranks ? context->ranks : 1);
    s->batch_key = iter_rng_key(context->seed, "bucket", 0);
    s->row_key = iter_rng_key(context->seed, "bucket", 1);
    s->shuffle = o->shuffle;
    s->drop = o->drop;
    s->n_buckets = b->n + 1;
    s->buckets = iter__alloc(s->n_buckets, sizeof(*s->buckets));
    s->order = iter__alloc(s->n_samples, sizeof(*s->order));
    s->tables = iter__alloc(s->n_samples, sizeof(*s->tables));
    s->batch_table = iter__alloc(ITER_PERMUTATION_TABLE, sizeof(*s->batch_table));
    if (s->buckets && s->order && s->tables && s->batch_table)
        fill_buckets(s, b, context);
    else
        status = iter__fail(err, ITER_ENOMEM, "out of memory");
fail:
    iter__free(b);
    if (status < 0) bucket_close(s);
    return status;
}

static void go_to(state *s, uint32_t epoch, uint64_t batch) {
    iter__permutation_init(&s->batches, s->batch_key, epoch, s->n_batches, s->batch_table);
    s->epoch = epoch;
    s->batch = batch;
}

static iter_status bucket_begin(void *opaque, uint32_t epoch, iter_error *err) {
    (void)err;
    go_to(opaque, epoch, 0);
    return ITER_OK;
}

/* The bucket of batch number `batch`: the last one that begins at or before it and is not empty. */
static bucket *bucket_of_batch(state *s, uint64_t batch) {
    uint32_t low = 0, high = s->n_buckets;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (s->buckets[middle].first_batch <= batch)
            low = middle;
        else
            high = middle;
    }
    return &s->buckets[low];
}

static void order_rows(state *s, bucket *it) {
    if (it->is_ready && it->epoch == s->epoch) return;
    iter_rng rng = iter_rng_at(s->row_key, s->epoch, (uint64_t)(it - s->buckets));
    iter__permutation_init(&it->rows, iter_rng_u64(&rng), s->epoch, it->count, it->table);
    it->epoch = s->epoch;
    it->is_ready = true;
}

static iter_status bucket_next_batch(void *opaque, uint32_t capacity, uint64_t *out,
                                     uint32_t *out_n, iter_error *err) {
    state *s = opaque;
    *out_n = 0;
    if (s->batch >= s->n_batches) return ITER_OK;
    if (capacity < s->batch_rows)
        return iter__fail(err, ITER_EINVAL,
                          "room for %u samples, but its batches were cut for %llu",
                          (unsigned)capacity, (unsigned long long)s->batch_rows);
    uint64_t number = s->batch;
    if (s->shuffle) iter__permutation_run(&s->batches, s->batch, 1, &number);
    bucket *it = bucket_of_batch(s, number);
    const uint64_t first = (number - it->first_batch) * s->batch_rows;
    const uint64_t left = it->count - first;
    const uint32_t n = (uint32_t)iter__min_u64(left, s->batch_rows);
    if (s->shuffle) {
        order_rows(s, it);
        iter__permutation_run(&it->rows, first, n, out);
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = s->order[it->start + (s->shuffle ? out[i] : first + i)];
    s->batch++;
    *out_n = n;
    return ITER_OK;
}

static iter_status bucket_save(const void *opaque, void *out, size_t capacity, size_t *out_size) {
    const state *s = opaque;
    *out_size = 0;
    if (capacity < SAVED_BYTES) return ITER_EINVAL;
    uint8_t *bytes = out;
    iter__put_le32(bytes, s->epoch);
    iter__put_le64(bytes + 4, s->batch);
    iter__put_le64(bytes + 12, s->n_batches);
    *out_size = SAVED_BYTES;
    return ITER_OK;
}

static iter_status bucket_restore(void *opaque, const void *saved, size_t size) {
    state *s = opaque;
    const uint8_t *bytes = saved;
    if (size != SAVED_BYTES) return ITER_EINVAL;
    const uint64_t batch = iter__get_le64(bytes + 4);
    if (iter__get_le64(bytes + 12) != s->n_batches || batch > s->n_batches) return ITER_EINVAL;
    go_to(s, iter__get_le32(bytes), batch);
    return ITER_OK;
}

const iter_sampler_ops iter__sampler_bucket = {
    .base = {.struct_size = sizeof(iter_sampler_ops),
             .name = "bucket",
             .help = "batches of samples of similar length, in random order",
             .options = options_bucket,
             .defaults = &defaults,
             .options_size = sizeof(iter_bucket_options),
             .state_size = sizeof(state)},
    .open = bucket_open,
    .close = bucket_close,
    .begin = bucket_begin,
    .next_batch = bucket_next_batch,
    .save = bucket_save,
    .restore = bucket_restore,
    .epochs = ITER_EPOCHS_LOADER,
};
