/*
 * labels.c - the integer labels of many samples, for samplers that go by them.
 *
 * A label that lies in memory or in the format's index is copied. One that is stored as it is costs
 * a read of its own bytes. Any other one is read or made like a sample (iter_dataset_read()). What
 * needs reads is cut into pieces, which up to four threads take; a user's get() is called in the
 * calling thread alone.
 */
#include <stdatomic.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/dataset/dataset.h"

#define THREADS 4
#define PIECE   512u /* samples that a thread takes at a time */

/* One call's work. */
typedef struct labels {
    iter_dataset *dataset;
    int32_t f;              /* the field */
    bool is_stored;         /* its bytes are in an extent as they are in a row */
    const uint64_t *subset; /* [first + n], or NULL: a sample's own number */
    uint64_t first, n;
    int64_t *out;
    const iter_source_ops *source; /* if is_stored */
    void *source_state;
    atomic_uint_fast64_t next;   /* of the samples, from 0 */
    atomic_uint_fast64_t failed; /* the first one that failed; n = none */
    pthread_mutex_t lock;        /* guards err */
    iter_error *err;             /* of `failed` */
} labels;

/* ---- One label ------------------------------------------------------------------------------- */

static iter_status to_label(const iter_field *field, const void *row, int64_t *out,
                            iter_error *err) {
    const iter_dtype dtype = field->desc.dtype;
    const uint64_t value =
        dtype == ITER_BOOL ? *(const uint8_t *)row != 0 : iter__scalar_value(row, dtype);
    if (field->limit && value >= field->limit)
        return iter__fail(err, ITER_EFORMAT, "%s %lld is not in 0..%u", field->name,
                          (long long)value, field->limit - 1);
    if (dtype == ITER_U64 && value > INT64_MAX)
        return iter__fail(err, ITER_EFORMAT, "%s %llu is more than 2^63 - 1", field->name,
                          (unsigned long long)value);
    *out = (int64_t)value;
    return ITER_OK;
}

/* The label's own bytes, from the file. */
static iter_status read_stored(const labels *l, uint64_t index, void *row, iter_error *err) {
    const iter_description *desc = &l->dataset->desc;
    const iter_field *field = &desc->fields[l->f];
    const size_t n = iter_desc_bytes(&field->desc);
    iter_extent extents[ITER_MAX_EXTENTS];
    char text[128];
    if (!iter__dataset_locate(l->dataset, index, extents))
        return iter__dataset_mislocated(l->dataset, index, err);
    const iter_extent *x = &extents[field->extent];
    const char *path = desc->files[x->object].path;
    if (field->offset > x->size || n > x->size - field->offset)
        return iter__fail(err, ITER_EFORMAT, "%s:%llu: %zu bytes at %zu of %llu", path,
                          (unsigned long long)x->offset, n, field->offset,
                          (unsigned long long)x->size);
    const iter_iovec part = {row, n};
    iter_read read = {.object = x->object,
                      .offset = x->offset + field->offset,
                      .parts = &part,
                      .n_parts = 1,
                      .size = n};
    l->source->read(l->source_state, &read);
    if (read.status < 0)
        return iter__fail(err, read.status, "%s: %s", path,
                          read.os_error ? iter__os_error(read.os_error, text, sizeof(text))
                                        : iter_status_text(read.status));
    if (read.done == n) return ITER_OK;
    return iter__fail(err, ITER_EIO, "%s: ends at byte %llu: it changed while open", path,
                      (unsigned long long)(read.offset + read.done));
}

static iter_status read_sample(const labels *l, uint64_t index, int64_t *out, iter_error *err) {
    const iter_field *field = &l->dataset->desc.fields[l->f];
    iter_sample *sample = NULL;
    ITER_TRY(iter_dataset_read(l->dataset, index, field->name, &sample, err));
    const iter_status status = to_label(field, iter_sample_tensor(sample, 0)->data, out, err);
    iter_sample_free(sample);
    return status;
}

/* Whether labels come from memory or from the index, so that a call costs next to nothing. */
static bool is_known(const iter_dataset *dataset, int32_t f) {
    return dataset->resident[f].base || (dataset->format && dataset->format->index_row &&
                                         dataset->desc.fields[f].extent == ITER_FROM_INDEX);
}

static iter_status label_of(const labels *l, uint64_t index, int64_t *out, iter_error *err) {
    const iter_dataset *dataset = l->dataset;
    const iter_field *field = &dataset->desc.fields[l->f];
    const iter__resident *resident = &dataset->resident[l->f];
    uint64_t row = 0;
    iter_status status = ITER_OK;
    if (resident->base)
        memcpy(&row, resident->base + index * resident->stride, iter_desc_bytes(&field->desc));
    else if (is_known(dataset, l->f))
        dataset->format->index_row(dataset->state, index, l->f, &row);
    else if (l->is_stored)
        status = read_stored(l, index, &row, err);
    else
        return read_sample(l, index, out, err); /* which names the sample itself */
    if (status == ITER_OK) status = to_label(field, &row, out, err);
    return status < 0 ? iter__fail_in(err, status, "label: sample %llu", (unsigned long long)index)
                      : ITER_OK;
}

/* ---- Many labels ----------------------------------------------------------------------------- */

/* Keeps the error of the first sample that failed, whichever thread met it when. */
static void note_failure(labels *l, uint64_t i, iter_status status, const iter_error *err) {
    pthread_mutex_lock(&l->lock);
    if (i < atomic_load(&l->failed)) {
        atomic_store(&l->failed, i);
        *l->err = *err;
        l->err->status = status;
    }
    pthread_mutex_unlock(&l->lock);
}

/* Pieces are taken in order, so every sample before the first failed one is looked at. */
static void *take_pieces(void *opaque) {
    labels *l = opaque;
    for (;;) {
        const uint64_t from = atomic_fetch_add(&l->next, PIECE);
        const uint64_t to = iter__min_u64(from + PIECE, l->n);
        for (uint64_t i = from; i < to; i++) {
            if (i > atomic_load(&l->failed)) return NULL;
            const uint64_t at = l->first + i;
            iter_error err = {.status = ITER_OK};
            const iter_status status =
                label_of(l, l->subset ? l->subset[at] : at, &l->out[i], &err);
            if (status == ITER_OK) continue;
            note_failure(l, i, status, &err);
            return NULL;
        }
        if (to >= l->n) return NULL;
    }
}

static void take_all(labels *l) {
    pthread_t threads[THREADS - 1];
    int n = 0;
    const bool alone = l->dataset->ops || is_known(l->dataset, l->f) || l->n <= PIECE;
    while (!alone && n < THREADS - 1 &&
           iter__thread_start(&threads[n], "iter-labels", take_pieces, l) == 0)
        n++;
    take_pieces(l);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Which field ----------------------------------------------------------------------------- */

static bool is_integer(iter_dtype dtype) {
    return dtype == ITER_BOOL || dtype == ITER_U8 || dtype == ITER_I8 || dtype == ITER_U16 ||
           dtype == ITER_I16 || dtype == ITER_U32 || dtype == ITER_I32 || dtype == ITER_U64 ||
           dtype == ITER_I64;
}

static iter_status choose_field(const iter_dataset *dataset, const char *name, int32_t *out,
                                iter_error *err) {
    const iter_description *desc = &dataset->desc;
    *out = -1;
    for (int32_t f = desc->n_fields - 1; f >= 0; f--)
        if (name ? strcmp(name, desc->fields[f].name) == 0 : desc->fields[f].role == ITER_LABEL)
            *out = f;
    if (*out < 0 && name)
        return iter__fail(err, ITER_EINVAL, "%s: there is no field '%s'", dataset->name, name);
    if (*out < 0) return iter__fail(err, ITER_EINVAL, "%s: it has no labels", dataset->name);
    const iter_desc *row = &desc->fields[*out].desc;
    char text[128];
    if (row->n_dims == 0 && is_integer(row->dtype)) return ITER_OK;
    iter_desc_text(row, text, sizeof(text));
    return iter__fail(err, ITER_EINVAL, "%s: field '%s' is %s; expected one integer a sample",
                      dataset->name, desc->fields[*out].name, text);
}

static bool has_decoder(const iter_dataset *dataset, int32_t f) {
    for (uint32_t i = 0; i < dataset->n_decodings; i++)
        if (dataset->decodings[i].decoders[f]) return true;
    return false;
}

static iter_status open_source(labels *l, iter_error *err) {
    const iter_description *desc = &l->dataset->desc;
    char fallback[160] = "";
    for (int i = 0; iter_builtin_source(i); i++)
        if (strcmp(iter_builtin_source(i)->base.name, "pread") == 0)
            l->source = iter_builtin_source(i);
    const iter_source_config config = {.files = desc->files, .n_files = desc->n_files, .depth = 1};
    void *state = iter__alloc(1, iter__max_size(l->source->base.state_size, 1));
    if (!state) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", l->dataset->name);
    const iter_status status = l->source->open(state, &config, fallback, sizeof(fallback), err);
    if (status < 0) {
        iter__free(state);
        return iter__fail_in(err, status, "%s", l->dataset->name);
    }
    l->source_state = state;
    return ITER_OK;
}

iter_status iter__dataset_labels(iter_dataset *dataset, const char *field, const uint64_t *subset,
                                 uint64_t first, uint64_t n, int64_t *out, iter_error *err) {
    labels l = {.dataset = dataset, .subset = subset, .first = first, .n = n, .out = out};
    iter_error failed = {.status = ITER_OK};
    ITER_TRY(choose_field(dataset, field, &l.f, err));
    const iter_field *chosen = &dataset->desc.fields[l.f];
    const bool gets = dataset->ops || (dataset->format && dataset->format->get);
    l.is_stored =
        !gets && !is_known(dataset, l.f) && chosen->extent >= 0 && !has_decoder(dataset, l.f);
    if (l.is_stored) ITER_TRY(open_source(&l, err));
    pthread_mutex_init(&l.lock, NULL);
    l.err = &failed;
    atomic_init(&l.next, 0);
    atomic_init(&l.failed, n);
    take_all(&l);
    pthread_mutex_destroy(&l.lock);
    if (l.source_state) {
        l.source->close(l.source_state);
        iter__free(l.source_state);
    }
    if (failed.status < 0 && err) *err = failed;
    return failed.status;
}
