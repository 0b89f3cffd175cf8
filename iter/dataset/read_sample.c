/*
 * read_sample.c - one sample of a dataset, without a loader.
 *
 * Rows come from the same sources as in rows.c (memory, the index, bytes, a decoder, get()). Each
 * row gets memory of exactly its size. The first field that needs a whole extent reads it. A field
 * that is a slice of an extent reads only its own bytes. Files that a loader has preloaded are not
 * read again.
 *
 * No lock of a loader is taken. While another thread still preloads, its files are read here, too.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/dataset/dataset.h"
#include "iter/remote/client.h"
#include "iter/remote/url.h"

#define SLACK       64 /* kernels may load, never store, past an image */
#define WARNING_MAX 256

typedef struct block {
    void *data;
    size_t bytes;
} block;

struct iter_sample {
    int32_t n_fields;
    char names[ITER_MAX_FIELDS][ITER_NAME_MAX];
    iter_tensor tensors[ITER_MAX_FIELDS];
    block rows[ITER_MAX_FIELDS];
    char warning[WARNING_MAX];
};

/* One call's work. */
typedef struct reading {
    iter_dataset *dataset;
    uint64_t index;
    iter_sample *sample;
    iter__preload preload; /* memory NULL = nothing is preloaded */
    iter_extent extents[ITER_MAX_EXTENTS];
    const uint8_t *bytes[ITER_MAX_EXTENTS]; /* NULL = not read yet */
    block own[ITER_MAX_EXTENTS];            /* memory of extents that were read */
} reading;

static iter_status block_make(block *b, size_t bytes, iter_error *err) {
    if (bytes > SIZE_MAX - SLACK || !(b->data = iter__alloc_large(bytes + SLACK)))
        return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", bytes);
    b->bytes = bytes + SLACK;
    return ITER_OK;
}

static void block_free(block *b) {
    if (b->data) iter__free_large(b->data, b->bytes);
    *b = (block){0};
}

/* Puts "stage: sample 17 (file:4711): " before the text of err. */
static iter_status fail_at(const reading *r, iter_status status, const char *stage, int32_t extent,
                           iter_error *err) {
    const iter_description *desc = &r->dataset->desc;
    if (extent < 0 || !r->dataset->format || extent >= desc->n_extents)
        return iter__fail_in(err, status, "%s: sample %llu", stage, (unsigned long long)r->index);
    const iter_extent *x = &r->extents[extent];
    char place[56];
    iter__dataset_place(r->dataset, r->index, x->offset, place, sizeof(place));
    return iter__fail_in(err, status, "%s: sample %llu (%s%s)", stage, (unsigned long long)r->index,
                         x->object < desc->n_files ? desc->files[x->object].path : "?", place);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static const iter_source_ops *plain_source(void) {
    for (int i = 0; iter_builtin_source(i); i++)
        if (strcmp(iter_builtin_source(i)->base.name, "pread") == 0) return iter_builtin_source(i);
    return NULL;
}

static iter_status read_url(const iter_file *file, uint64_t offset, void *out, size_t n,
                            iter_error *err) {
    iter__remote *remote;
    size_t done = 0;
    ITER_TRY(iter__remote_take(file->place, &remote, err));
    const iter_status status = iter__remote_read(remote, file->path, offset, out, n, &done, err);
    iter__remote_unref(remote);
    if (status == ITER_OK && done < n)
        return iter__fail(err, ITER_EIO, "the object ends after %zu of %zu bytes: it changed", done,
                          n);
    return status;
}

static iter_status read_file(const iter_file *file, uint64_t offset, void *out, size_t n,
                             iter_error *err) {
    if (iter__url_is(file->path)) return read_url(file, offset, out, n, err);
    const iter_source_ops *ops = plain_source();
    const iter_source_config config = {.files = file, .n_files = 1, .depth = 1};
    const iter_iovec part = {out, n};
    iter_read read = {.offset = offset, .parts = &part, .n_parts = 1, .size = n};
    char text[128] = "";
    void *state = ops ? iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1) : NULL;
    if (!state) return iter__fail(err, ITER_ENOMEM, "no memory for a source of bytes");
    iter_status status = ops->open(state, &config, text, sizeof(text), err);
    if (status < 0) {
        iter__free(state);
        return status;
    }
    ops->read(state, &read);
    ops->close(state);
    iter__free(state);
    if (read.status < 0)
        return iter__fail(err, read.status, "%s",
                          read.os_error ? iter__os_error(read.os_error, text, sizeof(text))
                                        : iter_status_text(read.status));
    if (read.done < n)
        return iter__fail(err, ITER_EIO,
                          "the file ends after %zu of %zu bytes: it changed while open", read.done,
                          n);
    return ITER_OK;
}

/* Reads n bytes of an extent, from `at` on, into out. */
static iter_status read_part(reading *r, int32_t e, uint64_t at, void *out, size_t n,
                             iter_error *err) {
    const iter_extent *x = &r->extents[e];
    const iter_description *desc = &r->dataset->desc;
    iter_status status = ITER_OK;
    if (x->object >= desc->n_files || at > x->size || n > x->size - at) {
        status = iter__fail(err, ITER_EINVAL, "its extent is %llu bytes of file %llu of %llu",
                            (unsigned long long)x->size, (unsigned long long)x->object,
                            (unsigned long long)desc->n_files);
    } else if (n > 0) {
        status = read_file(&desc->files[x->object], x->offset + at, out, n, err);
    }
    return status < 0 ? fail_at(r, status, "read", e, err) : ITER_OK;
}

/* The extent's bytes in a file that a loader has preloaded; NULL = it is not preloaded. */
static const uint8_t *preloaded(const reading *r, int32_t e) {
    const iter_extent *x = &r->extents[e];
    const iter_description *desc = &r->dataset->desc;
    if (!r->preload.object_base || x->object >= desc->n_files) return NULL;
    const uint64_t bytes = desc->files[x->object].bytes;
    if (x->offset > bytes || x->size > bytes - x->offset) return NULL;
    return r->preload.memory + r->preload.object_base[x->object] + x->offset;
}

/* Provides all of an extent in r->bytes. */
static iter_status need_extent(reading *r, int32_t e, iter_error *err) {
    if (r->bytes[e]) return ITER_OK;
    r->bytes[e] = preloaded(r, e);
    if (r->bytes[e]) return ITER_OK;
    iter_status status = block_make(&r->own[e], r->extents[e].size, err);
    if (status < 0) return fail_at(r, status, "read", e, err);
    status = read_part(r, e, 0, r->own[e].data, r->extents[e].size, err);
    if (status == ITER_OK) r->bytes[e] = r->own[e].data;
    return status;
}

/* ---- One field's row ------------------------------------------------------------------------- */

/* Allocates a row of this shape as field i of the sample. */
static iter_status row_make(iter_sample *sample, int32_t i, const iter_desc *desc,
                            iter_error *err) {
    ITER_TRY(block_make(&sample->rows[i], iter_desc_bytes(desc), err));
    sample->tensors[i] = iter_tensor_dense(desc, sample->rows[i].data);
    return ITER_OK;
}

static iter_status check_limit(const reading *r, const iter_field *field, const void *row,
                               iter_error *err) {
    if (!field->limit || field->desc.n_dims > 0) return ITER_OK;
    const uint64_t value = iter__scalar_value(row, field->desc.dtype);
    if (value < field->limit) return ITER_OK;
    iter__fail(err, ITER_EFORMAT, "%s %lld is not in 0..%u", field->name, (long long)value,
               field->limit - 1);
    return fail_at(r, ITER_EFORMAT, "label", field->extent, err);
}

/* Sets the length of a variable row. EINVAL if it exceeds the capacity. */
static iter_status set_length(iter_tensor *row, const iter_desc *planned, int64_t length,
                              iter_error *err) {
    if (planned->n_dims == 0 || planned->dims[0] != ITER_VARIABLE) return ITER_OK;
    if (length < 0 || length > planned->capacity)
        return iter__fail(err, ITER_EINVAL, "length %lld is out of bounds, 0 to %lld",
                          (long long)length, (long long)planned->capacity);
    iter_desc desc = *planned;
    desc.dims[0] = length;
    desc.capacity = 0;
    *row = iter_tensor_dense(&desc, row->data);
    return ITER_OK;
}

static iter_status decode_any_size(const iter_field *field, const iter_decoder_ops *ops,
                                   void *state, const void *shared, const uint8_t *bytes,
                                   size_t size, iter_sample *sample, int32_t i, iter_error *err) {
    iter_desc desc = field->desc;
    ITER_TRY(ops->header(state, shared, bytes, size, &desc, err));
    if (desc.dims[0] <= 0 || desc.dims[1] <= 0)
        return iter__fail(err, ITER_EINVAL, "its header gives %lld x %lld pixels",
                          (long long)desc.dims[0], (long long)desc.dims[1]);
    const iter_image_wish wish = {.part = {0, 0, desc.dims[0], desc.dims[1]}};
    ITER_TRY(row_make(sample, i, &desc, err));
    iter_tensor out = sample->tensors[i];
    iter__error_clear(err);
    ITER_TRY(ops->decode_image(state, shared, bytes, size, &wish, &out, err));
    if (out.desc.dims[0] == desc.dims[0] && out.desc.dims[1] == desc.dims[1]) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "its decoder made %lld x %lld pixels, expected %lld x %lld",
                      (long long)out.desc.dims[0], (long long)out.desc.dims[1],
                      (long long)desc.dims[0], (long long)desc.dims[1]);
}

static iter_status decode_with(const iter_field *field, const iter_decoder_ops *ops, void *state,
                               const void *shared, const uint8_t *bytes, size_t size,
                               iter_sample *sample, int32_t i, iter_error *err) {
    if (iter__is_any_size(&field->desc))
        return decode_any_size(field, ops, state, shared, bytes, size, sample, i, err);
    ITER_TRY(row_make(sample, i, &field->desc, err));
    iter_tensor out = sample->tensors[i];
    ITER_TRY(ops->decode(state, shared, bytes, size, &out, err));
    return set_length(&sample->tensors[i], &field->desc, out.desc.dims[0], err);
}

/* Decodes one row of field f with a decoder state of its own. */
static iter_status decode_row(reading *r, int32_t f, int32_t i, iter_error *err) {
    const iter_field *field = &r->dataset->desc.fields[f];
    const iter__decoding *way =
        &r->dataset->decodings[iter__dataset_decoding(r->dataset, r->index)];
    const iter_decoder_ops *ops = way->decoders[f];
    const void *shared = way->shared;
    iter_error own = {.status = ITER_OK};
    ITER_TRY(need_extent(r, field->extent, err));
    void *state = iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1);
    if (!state) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->base.name);
    iter_status status = ops->start ? ops->start(state, shared, &own) : ITER_OK;
    if (status >= 0) {
        iter__error_clear(&own);
        status = decode_with(field, ops, state, shared, r->bytes[field->extent],
                             r->extents[field->extent].size, r->sample, i, &own);
        if (ops->stop) ops->stop(state);
    }
    iter__free(state);
    if (status >= 0) {
        if (!r->sample->warning[0]) iter_text_escape(own.message, r->sample->warning, WARNING_MAX);
        return ITER_OK;
    }
    iter__fail(err, status, "%s", own.message[0] ? own.message : iter_status_text(status));
    return fail_at(r, status, ops->base.name, field->extent, err);
}

static iter_status copy_row(reading *r, int32_t f, int32_t i, iter_error *err) {
    const iter_dataset *dataset = r->dataset;
    const iter_field *field = &dataset->desc.fields[f];
    const iter__resident *resident =
        r->preload.rows[f].base ? &r->preload.rows[f] : &dataset->resident[f];
    ITER_TRY(row_make(r->sample, i, &field->desc, err));
    void *row = r->sample->rows[i].data;
    const size_t n = iter_desc_bytes(&field->desc);
    if (resident->base) {
        memcpy(row, resident->base + r->index * resident->stride, n);
    } else if (field->extent == ITER_FROM_INDEX) {
        dataset->format->index_row(dataset->state, r->index, f, row);
    } else {
        const uint8_t *there =
            r->bytes[field->extent] ? r->bytes[field->extent] : preloaded(r, field->extent);
        const uint64_t size = r->extents[field->extent].size;
        if (there && field->offset <= size && n <= size - field->offset) {
            memcpy(row, there + field->offset, n);
        } else {
            ITER_TRY(read_part(r, field->extent, field->offset, row, n, err));
        }
    }
    return check_limit(r, field, row, err);
}

static iter_status read_field(reading *r, int32_t f, int32_t i, iter_error *err) {
    const iter_field *field = &r->dataset->desc.fields[f];
    const bool lies = r->preload.rows[f].base || r->dataset->resident[f].base;
    return field->decoder && !lies ? decode_row(r, f, i, err) : copy_row(r, f, i, err);
}

/* ---- get() ----------------------------------------------------------------------------------- */

static iter_status call_own(iter_dataset *dataset, uint64_t index, const iter_tensor *rows,
                            iter_rng *rng, iter_error *err) {
    const iter_dataset_ops *ops = dataset->ops;
    void *state = NULL;
    if (ops->start) {
        iter_status status = ops->start(dataset->user, &state, err);
        if (status < 0) return iter__error_settle(err, status, "start");
        status = ops->get(dataset->user, state, 1, &index, rows, rng, err);
        ops->stop(dataset->user, state);
        return status;
    }
    if (!dataset->serial) return ops->get(dataset->user, NULL, 1, &index, rows, rng, err);
    if (pthread_mutex_lock(&dataset->one_at_a_time) == EDEADLK)
        return iter__fail(err, ITER_ESTATE, "get() reads its own dataset");
    const iter_status status = ops->get(dataset->user, NULL, 1, &index, rows, rng, err);
    pthread_mutex_unlock(&dataset->one_at_a_time);
    return status;
}

/* Gets all fields of the sample into `made`. */
static iter_status get_all(reading *r, iter_sample *made, iter_error *err) {
    iter_dataset *dataset = r->dataset;
    const iter_description *desc = &dataset->desc;
    iter__get_rows get = {.rows = {{.data = NULL}}};
    int32_t lengths[ITER_MAX_FIELDS] = {0};
    for (int32_t f = 0; f < desc->n_fields; f++) {
        iter_desc one = desc->fields[f].desc; /* [1, ...] */
        ITER_TRY(row_make(made, f, &one, err));
        memmove(one.dims + 1, one.dims, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
        one.dims[0] = 1;
        one.n_dims++;
        if (one.n_dims > 1 && one.dims[1] == ITER_VARIABLE) {
            one.dims[1] = one.capacity;
            lengths[f] = (int32_t)one.capacity;
            get.lengths[f] = &lengths[f];
        }
        memset(made->rows[f].data, 0, made->rows[f].bytes);
        get.rows[f] = iter_tensor_dense(&one, made->rows[f].data);
    }
    iter_error own = {.status = ITER_OK};
    iter_rng rng = iter_rng_at(iter_rng_key(0, "get", 0), 0, r->index);
    iter_status status =
        dataset->format ? dataset->format->get(dataset->state, 1, &r->index, get.rows, &rng, &own)
                        : call_own(dataset, r->index, get.rows, &rng, &own);
    status = iter__dataset_got(status, &own);
    if (status < 0) {
        iter__fail(err, status, "%s", own.message[0] ? own.message : iter_status_text(status));
        return fail_at(r, status, dataset->name, -1, err);
    }
    for (int32_t f = 0; f < desc->n_fields; f++) {
        status = set_length(&made->tensors[f], &desc->fields[f].desc, lengths[f], err);
        if (status < 0) return fail_at(r, status, dataset->name, -1, err);
        ITER_TRY(check_limit(r, &desc->fields[f], made->rows[f].data, err));
    }
    return ITER_OK;
}

/* Gets all fields, moves the wanted ones to the sample, and frees the others. */
static iter_status read_got(reading *r, const bool *wanted, iter_error *err) {
    iter_sample *made = iter__alloc(1, sizeof(*made));
    if (!made) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", r->dataset->name);
    const iter_status status = get_all(r, made, err);
    for (int32_t f = 0, i = 0; f < r->dataset->desc.n_fields && status == ITER_OK; f++) {
        if (!wanted[f]) continue;
        r->sample->tensors[i] = made->tensors[f];
        r->sample->rows[i++] = made->rows[f];
        made->rows[f] = (block){0};
    }
    iter_sample_free(made);
    return status;
}

/* ---- Public ---------------------------------------------------------------------------------- */

/* Sets wanted[n_fields] and the sample's names. */
static iter_status choose(const iter_dataset *dataset, const char *name, bool *wanted,
                          iter_sample *sample, iter_error *err) {
    const iter_description *desc = &dataset->desc;
    char names[ITER_MAX_FIELDS * (ITER_NAME_MAX + 2) + 1] = "";
    for (int32_t f = 0, n = 0; f < desc->n_fields; f++) {
        wanted[f] = !name || strcmp(name, desc->fields[f].name) == 0;
        if (wanted[f])
            memcpy(sample->names[sample->n_fields++], desc->fields[f].name, ITER_NAME_MAX);
        n += snprintf(names + n, sizeof(names) - (size_t)n, "%s%s", f ? ", " : "",
                      desc->fields[f].name);
    }
    if (sample->n_fields > 0) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s: has no field '%s'; it has %s", dataset->name, name,
                      names);
}

static iter_status read_all(reading *r, const bool *wanted, iter_error *err) {
    iter_dataset *dataset = r->dataset;
    const iter_description *desc = &dataset->desc;
    iter__dataset_adopt(dataset);
    if (iter__dataset_is_preloaded(dataset)) r->preload = dataset->preload; /* never unloaded */
    const bool gets = dataset->ops || (dataset->format && dataset->format->get);
    if (gets && !r->preload.memory) return read_got(r, wanted, err);
    if (desc->n_extents > 0 && !iter__dataset_locate(dataset, r->index, r->extents))
        return iter__dataset_mislocated(dataset, r->index, err);
    for (int32_t f = 0, i = 0; f < desc->n_fields; f++)
        if (wanted[f]) ITER_TRY(read_field(r, f, i++, err));
    return ITER_OK;
}

iter_status iter_dataset_read(iter_dataset *dataset, uint64_t index, const char *field,
                              iter_sample **out, iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "dataset: no place for the sample");
    *out = NULL;
    if (!dataset) return iter__fail(err, ITER_EINVAL, "dataset: none given");
    const iter_description *desc = &dataset->desc;
    if (desc->n_samples == ITER_UNKNOWN)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: is a stream; its samples can only be read in order", dataset->name);
    if (index >= desc->n_samples)
        return iter__fail(err, ITER_EINVAL, "%s: has %llu samples, there is no sample %llu",
                          dataset->name, (unsigned long long)desc->n_samples,
                          (unsigned long long)index);
    bool wanted[ITER_MAX_FIELDS] = {false};
    reading r = {.dataset = dataset, .index = index};
    iter_error own; /* composes messages when the caller passed NULL */
    if (!err) err = &own;
    iter__error_clear(err);
    r.sample = iter__alloc(1, sizeof(*r.sample));
    if (!r.sample) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", dataset->name);
    iter_status status = choose(dataset, field, wanted, r.sample, err);
    if (status == ITER_OK) status = read_all(&r, wanted, err);
    for (int32_t e = 0; e < ITER_MAX_EXTENTS; e++)
        block_free(&r.own[e]);
    if (status < 0) {
        iter_sample_free(r.sample);
        return status;
    }
    *out = r.sample;
    return ITER_OK;
}

int32_t iter_sample_n_fields(const iter_sample *sample) {
    return sample->n_fields;
}

const char *iter_sample_name(const iter_sample *sample, int32_t i) {
    return i >= 0 && i < sample->n_fields ? sample->names[i] : NULL;
}

const iter_tensor *iter_sample_tensor(const iter_sample *sample, int32_t i) {
    return i >= 0 && i < sample->n_fields ? &sample->tensors[i] : NULL;
}

const char *iter_sample_warning(const iter_sample *sample) {
    return sample->warning;
}

void iter_sample_free(iter_sample *sample) {
    if (!sample) return;
    for (int32_t i = 0; i < ITER_MAX_FIELDS; i++)
        block_free(&sample->rows[i]);
    iter__free(sample);
}
