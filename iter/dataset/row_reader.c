/* row_reader.c - see row_reader.h. */
#include "iter/dataset/row_reader.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

#define SLACK 64 /* kernels may load, never store, past a sample's bytes */

struct iter__row_bench {
    iter__row_bench *next;
    uint8_t *bytes[ITER_MAX_EXTENTS]; /* of one sample; they grow */
    size_t capacity[ITER_MAX_EXTENTS];
    void *states[]; /* [n_decodings * n_fields] of decoders */
};

/* ---- Benches --------------------------------------------------------------------------------- */

static void bench_free(const iter_dataset *dataset, iter__row_bench *bench) {
    const size_t n_fields = (size_t)dataset->desc.n_fields;
    for (size_t i = 0; i < dataset->n_decodings * n_fields; i++) {
        const iter_decoder_ops *ops = dataset->decodings[i / n_fields].decoders[i % n_fields];
        if (!bench->states[i]) continue;
        if (ops->stop) ops->stop(bench->states[i]);
        iter__free(bench->states[i]);
    }
    for (int e = 0; e < ITER_MAX_EXTENTS; e++)
        iter__free(bench->bytes[e]);
    iter__free(bench);
}

static iter_status bench_start(const iter_dataset *dataset, iter__row_bench *bench,
                               iter_error *err) {
    const size_t n_fields = (size_t)dataset->desc.n_fields;
    for (size_t i = 0; i < dataset->n_decodings * n_fields; i++) {
        const iter__decoding *way = &dataset->decodings[i / n_fields];
        const iter_decoder_ops *ops = way->decoders[i % n_fields];
        if (!ops) continue;
        void *state = iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1);
        if (!state) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->base.name);
        const iter_status status = ops->start ? ops->start(state, way->shared, err) : ITER_OK;
        if (status < 0) {
            iter__free(state);
            return iter__fail_in(err, status, "%s", ops->base.name);
        }
        bench->states[i] = state;
    }
    return ITER_OK;
}

/* An idle bench, or a new one; NULL = it could not be made. */
static iter__row_bench *bench_take(iter__row_reader *reader, iter_error *err) {
    const iter_dataset *dataset = reader->dataset;
    pthread_mutex_lock(&reader->lock);
    iter__row_bench *bench = reader->idle;
    if (bench) reader->idle = bench->next;
    pthread_mutex_unlock(&reader->lock);
    if (bench) return bench;
    const size_t n = dataset->n_decodings * (size_t)dataset->desc.n_fields;
    bench = iter__alloc(1, sizeof(*bench) + n * sizeof(bench->states[0]));
    if (!bench) {
        iter__fail(err, ITER_ENOMEM, "%s: out of memory", dataset->name);
    } else if (bench_start(dataset, bench, err) < 0) {
        bench_free(dataset, bench);
        bench = NULL;
    }
    return bench;
}

static void bench_give_back(iter__row_reader *reader, iter__row_bench *bench) {
    pthread_mutex_lock(&reader->lock);
    bench->next = reader->idle;
    reader->idle = bench;
    pthread_mutex_unlock(&reader->lock);
}

/* ---- One row that is read -------------------------------------------------------------------- */

iter_status iter__row_reader_bytes(iter__row_reader *reader, uint64_t object, uint64_t offset,
                                   void *out, size_t size, iter_error *err) {
    const iter_file *file = &reader->dataset->desc.files[object];
    const iter_iovec part = {out, size};
    iter_read read = {
        .object = object, .offset = offset, .parts = &part, .n_parts = 1, .size = size};
    char text[128];
    if (size > 0) reader->source->read(reader->source_state, &read);
    if (read.status < 0)
        return iter__fail(err, read.status, "%s: %s", file->path,
                          read.os_error ? iter__os_error(read.os_error, text, sizeof(text))
                                        : iter_status_text(read.status));
    if (read.done == size) return ITER_OK;
    return iter__fail(err, ITER_EIO, "%s: ends after %zu of %zu bytes: it changed while open",
                      file->path, read.done, size);
}

static iter_status read_extent(iter__row_reader *reader, iter__row_bench *bench, int e,
                               const iter_extent *extent, iter_error *err) {
    const size_t size = (size_t)extent->size;
    if (size > bench->capacity[e]) {
        iter__free(bench->bytes[e]);
        bench->capacity[e] = 0;
        bench->bytes[e] = iter__alloc(size + SLACK, 1);
        if (!bench->bytes[e]) return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", size);
        bench->capacity[e] = size;
    }
    return iter__row_reader_bytes(reader, extent->object, extent->offset, bench->bytes[e], size,
                                  err);
}

static iter_status decode(const iter__row_reader *reader, iter__row_bench *bench, uint64_t index,
                          int32_t f, const iter_extent *extents, void *to, int32_t *out_length,
                          iter_error *err) {
    const iter_dataset *dataset = reader->dataset;
    const iter_field *field = &dataset->desc.fields[f];
    const uint32_t way = iter__dataset_decoding(dataset, index);
    const iter_decoder_ops *ops = dataset->decodings[way].decoders[f];
    const iter_extent *extent = &extents[field->extent];
    iter_tensor out = iter_tensor_dense(&field->desc, to);
    iter_error warning = {.status = ITER_OK};
    const iter_status status =
        ops->decode(bench->states[way * (uint32_t)dataset->desc.n_fields + (uint32_t)f],
                    dataset->decodings[way].shared, bench->bytes[field->extent],
                    (size_t)extent->size, &out, &warning);
    if (status < 0)
        return iter__fail(err, status, "%s:%llu: %s: %s", dataset->desc.files[extent->object].path,
                          (unsigned long long)extent->offset, ops->base.name,
                          warning.message[0] ? warning.message : iter_status_text(status));
    if (out_length) *out_length = (int32_t)out.desc.dims[0];
    return ITER_OK;
}

static iter_status copy_stored(const iter__row_bench *bench, const iter_field *field,
                               const iter_extent *extents, void *to, iter_error *err) {
    const size_t n = iter_desc_bytes(&field->desc);
    const uint64_t size = extents[field->extent].size;
    if (field->offset > size || n > size - field->offset)
        return iter__fail(err, ITER_EFORMAT, "field '%s': %zu bytes at %zu of %llu", field->name, n,
                          field->offset, (unsigned long long)size);
    memcpy(to, bench->bytes[field->extent] + field->offset, n);
    return ITER_OK;
}

static iter_status read_row(iter__row_reader *reader, iter__row_bench *bench, uint64_t index,
                            const iter__get_rows *get, uint32_t row, iter_error *err) {
    const iter_dataset *dataset = reader->dataset;
    const iter_description *desc = &dataset->desc;
    iter_extent extents[ITER_MAX_EXTENTS];
    if (desc->n_extents > 0 && !iter__dataset_locate(dataset, index, extents))
        return iter__dataset_mislocated(dataset, index, err);
    for (int32_t e = 0; e < desc->n_extents; e++)
        ITER_TRY(read_extent(reader, bench, e, &extents[e], err));
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const iter_field *field = &desc->fields[f];
        const iter__resident *resident = &dataset->resident[f];
        uint8_t *to = (uint8_t *)get->rows[f].data +
                      row * get->rows[f].strides[0] * iter_dtype_bytes(field->desc.dtype);
        if (resident->base) {
            memcpy(to, resident->base + index * resident->stride, iter_desc_bytes(&field->desc));
        } else if (field->extent == ITER_FROM_INDEX) {
            dataset->format->index_row(dataset->state, index, f, to);
        } else if (field->decoder) {
            ITER_TRY(decode(reader, bench, index, f, extents, to,
                            get->lengths[f] ? &get->lengths[f][row] : NULL, err));
        } else {
            ITER_TRY(copy_stored(bench, field, extents, to, err));
        }
    }
    return ITER_OK;
}

static iter_status read_rows(iter__row_reader *reader, uint32_t n, const uint64_t *indices,
                             const iter__get_rows *get, uint32_t first, iter_error *err) {
    iter_error own = {.status = ITER_OK};
    iter__row_bench *bench = bench_take(reader, err ? err : &own);
    if (!bench) return err ? err->status : own.status;
    iter_status status = ITER_OK;
    for (uint32_t i = 0; i < n && status == ITER_OK; i++)
        status = read_row(reader, bench, indices[i], get, first + i, err);
    bench_give_back(reader, bench);
    return status;
}

/* ---- Rows that the dataset makes ------------------------------------------------------------- */

static iter_status get_rows(iter__row_reader *reader, uint32_t n, const uint64_t *indices,
                            const iter__get_rows *get, uint32_t first, iter_rng *rng,
                            iter_error *err) {
    iter_dataset *dataset = reader->dataset;
    const iter_dataset_ops *ops = dataset->ops;
    iter__get_rows part = *get;
    for (int32_t f = 0; f < dataset->desc.n_fields; f++) {
        const size_t element = iter_dtype_bytes(part.rows[f].desc.dtype);
        part.rows[f].data =
            (uint8_t *)part.rows[f].data + first * part.rows[f].strides[0] * element;
        part.rows[f].desc.dims[0] = n;
        if (part.lengths[f]) part.lengths[f] += first;
    }
    if (dataset->format)
        return iter__dataset_got(
            dataset->format->get(dataset->state, n, indices, part.rows, rng, err), err);
    pthread_mutex_t *turn = ops->start        ? &reader->lock
                            : dataset->serial ? &dataset->one_at_a_time
                                              : NULL;
    if (turn) pthread_mutex_lock(turn);
    const iter_status status =
        ops->get(dataset->user, reader->user_state, n, indices, part.rows, rng, err);
    if (turn) pthread_mutex_unlock(turn);
    return iter__dataset_got(status, err);
}

iter_status iter__row_reader_get(iter__row_reader *reader, uint32_t n, const uint64_t *indices,
                                 const iter__get_rows *get, uint32_t first, iter_rng *rng,
                                 iter_error *err) {
    const iter_dataset *dataset = reader->dataset;
    if (dataset->ops || (dataset->format && dataset->format->get))
        return get_rows(reader, n, indices, get, first, rng, err);
    return read_rows(reader, n, indices, get, first, err);
}

/* ---- Open ------------------------------------------------------------------------------------ */

static iter_status check_rows(const iter_dataset *dataset, iter_error *err) {
    if (dataset->desc.n_samples == ITER_UNKNOWN)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: is a stream; its samples come in order alone", dataset->name);
    for (int32_t f = 0; f < dataset->desc.n_fields; f++)
        if (iter__is_any_size(&dataset->desc.fields[f].desc))
            return iter__fail(err, ITER_EUNSUPPORTED, "%s: field '%s' has images of any size",
                              dataset->name, dataset->desc.fields[f].name);
    return ITER_OK;
}

static iter_status open_source(iter__row_reader *reader, iter_error *err) {
    const iter_description *desc = &reader->dataset->desc;
    char fallback[160] = "";
    for (int i = 0; iter_builtin_source(i); i++)
        if (strcmp(iter_builtin_source(i)->base.name, "pread") == 0)
            reader->source = iter_builtin_source(i);
    const iter_source_config config = {.files = desc->files, .n_files = desc->n_files, .depth = 1};
    void *state = iter__alloc(1, iter__max_size(reader->source->base.state_size, 1));
    if (!state) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", reader->dataset->name);
    const iter_status status =
        reader->source->open(state, &config, fallback, sizeof(fallback), err);
    if (status < 0) {
        iter__free(state);
        return iter__fail_in(err, status, "%s", reader->dataset->name);
    }
    reader->source_state = state;
    return ITER_OK;
}

iter_status iter__row_reader_open(iter__row_reader *reader, iter_dataset *dataset,
                                  iter_error *err) {
    ITER_TRY(check_rows(dataset, err));
    reader->dataset = iter_dataset_ref(dataset);
    pthread_mutex_init(&reader->lock, NULL);
    iter_status status = ITER_OK;
    const bool gets = dataset->ops || (dataset->format && dataset->format->get);
    if (!gets && dataset->desc.n_extents > 0) status = open_source(reader, err);
    if (dataset->ops && dataset->ops->start) {
        status = dataset->ops->start(dataset->user, &reader->user_state, err);
        if (status < 0) {
            status = iter__error_settle(err, status, "start");
            reader->dataset = NULL; /* stop() must not run */
            pthread_mutex_destroy(&reader->lock);
            iter_dataset_unref(dataset);
            return status;
        }
    }
    if (status < 0) iter__row_reader_close(reader);
    return status;
}

void iter__row_reader_adopt(iter__row_reader *reader) {
    pthread_mutex_init(&reader->lock, NULL);
    reader->idle = NULL; /* a thread may have been taking one */
    iter__dataset_adopt(reader->dataset);
}

void iter__row_reader_close(iter__row_reader *reader) {
    iter_dataset *dataset = reader->dataset;
    if (!dataset) return;
    while (reader->idle) {
        iter__row_bench *bench = reader->idle;
        reader->idle = bench->next;
        bench_free(dataset, bench);
    }
    if (reader->source_state) {
        reader->source->close(reader->source_state);
        iter__free(reader->source_state);
    }
    if (dataset->ops && dataset->ops->stop) dataset->ops->stop(dataset->user, reader->user_state);
    pthread_mutex_destroy(&reader->lock);
    *reader = (iter__row_reader){0};
    iter_dataset_unref(dataset);
}
