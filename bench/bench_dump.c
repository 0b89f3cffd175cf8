/*
 * bench_dump.c - `--dump DIR --batches N`: the first batches as .npy files, one per field, and
 * index.npy.
 *
 * Rows are written in the order of delivery, padding included, in C order. If batches differ in
 * width (rows of their own lengths), shorter rows are filled with zeros up to the widest, and
 * NAME_lengths.npy has each row's length. numpy has no bfloat16: such a field is written as its 16
 * bits, u2.
 *
 * Format: NEP 1, version 1.0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/common/bench_row.h"
#include "bench/common/bench_util.h"
#include "bench/iterbench.h"
#include "bench/measure/arm.h"

/* ---- Types ----------------------------------------------------------------------------------- */

/* Rows as delivered: dims and bytes of each, without gaps. */
typedef struct column {
    iter_dtype dtype;
    int32_t n_dims;
    int64_t widest[ITER_MAX_DIMS];
    int64_t (*dims)[ITER_MAX_DIMS]; /* [n_rows] */
    int32_t *lengths;               /* [n_rows]; only if has_lengths */
    bool has_lengths;
    uint8_t *bytes;
    size_t used, capacity;
    uint64_t n_rows, row_capacity;
} column;

typedef struct dump {
    const bench_options *options;
    int32_t n_fields;
    column columns[ITER_MAX_FIELDS];
    uint64_t *index;
    uint64_t n_rows, capacity;
} dump;

/* ---- Columns --------------------------------------------------------------------------------- */

static bool grow(void **list, size_t element_bytes, uint64_t capacity) {
    void *grown = realloc(*list, element_bytes * capacity);
    if (grown != NULL) *list = grown;
    return grown != NULL;
}

static bool room_for_row(column *c, size_t bytes) {
    if (c->n_rows == c->row_capacity) {
        uint64_t capacity = c->row_capacity * 2 + 64;
        if (!grow((void **)&c->dims, sizeof(c->dims[0]), capacity) ||
            !grow((void **)&c->lengths, sizeof(c->lengths[0]), capacity))
            return false;
        c->row_capacity = capacity;
    }
    if (c->used + bytes > c->capacity) {
        size_t capacity = (c->used + bytes) * 2;
        if (!grow((void **)&c->bytes, 1, capacity)) return false;
        c->capacity = capacity;
    }
    return true;
}

static iter_status add_row(column *c, const iter_tensor *tensor, const int32_t *lengths, uint32_t i,
                           iter_error *err) {
    /* As delivered: filled up if a batch stage did so; the row's own length is kept beside it. */
    bench_row row = bench_row_at(tensor, i, NULL);
    if (row.n_dims > 0 && row.dims[0] < 0 && lengths != NULL) row.dims[0] = lengths[i];
    size_t bytes = bench_row_bytes(&row);
    if (!room_for_row(c, bytes)) return bench_fail(err, ITER_ENOMEM, "no memory for the dump");
    bench_row_copy(&row, c->bytes + c->used);
    c->used += bytes;
    c->dtype = row.dtype;
    c->n_dims = row.n_dims;
    c->has_lengths = lengths != NULL;
    c->lengths[c->n_rows] = lengths != NULL ? lengths[i] : 0;
    for (int32_t d = 0; d < row.n_dims; d++) {
        c->dims[c->n_rows][d] = row.dims[d];
        if (row.dims[d] > c->widest[d]) c->widest[d] = row.dims[d];
    }
    c->n_rows++;
    return ITER_OK;
}

static iter_status add_batch(dump *d, const iter_batch *batch, iter_error *err) {
    uint32_t n = iter_batch_describe(batch).n_rows;
    const uint64_t *index = iter_batch_index(batch);
    if (n == 0) return ITER_OK;
    if (d->n_rows + n > d->capacity) {
        d->capacity = (d->n_rows + n) * 2;
        if (!grow((void **)&d->index, sizeof(d->index[0]), d->capacity))
            return bench_fail(err, ITER_ENOMEM, "no memory for the dump");
    }
    memcpy(d->index + d->n_rows, index, n * sizeof(index[0]));
    d->n_rows += n;
    for (int32_t f = 0; f < d->n_fields; f++)
        for (uint32_t i = 0; i < n; i++) {
            iter_status s = add_row(&d->columns[f], iter_batch_tensor(batch, f),
                                    iter_batch_lengths(batch, f), i, err);
            if (s < 0) return s;
        }
    return ITER_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static const char *npy_type(iter_dtype dtype) {
    switch (dtype) {
    case ITER_U8: return "|u1";
    case ITER_I8: return "|i1";
    case ITER_U16: return "<u2";
    case ITER_I16: return "<i2";
    case ITER_U32: return "<u4";
    case ITER_I32: return "<i4";
    case ITER_U64: return "<u8";
    case ITER_I64: return "<i8";
    case ITER_F16: return "<f2";
    case ITER_BF16: return "<u2";
    case ITER_F32: return "<f4";
    case ITER_F64: return "<f8";
    case ITER_BOOL: return "|b1";
    case ITER_DTYPE_NONE: break;
    }
    return "|V0";
}

static FILE *npy_open(const char *folder, const char *name, const char *type, uint64_t n_rows,
                      const int64_t *dims, int32_t n_dims, char path[4096], iter_error *err) {
    char head[256];
    snprintf(path, 4096, "%s/%s.npy", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        bench_fail(err, ITER_EIO, "%.400s: %s", path, strerror(errno));
        return NULL;
    }
    int n = snprintf(head, sizeof(head), "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,",
                     type, (unsigned long long)n_rows);
    for (int32_t i = 0; i < n_dims; i++)
        n += snprintf(head + n, sizeof(head) - (size_t)n, " %lld,", (long long)dims[i]);
    n += snprintf(head + n, sizeof(head) - (size_t)n, "), }");
    int size = (10 + n + 1 + 63) / 64 * 64 - 10; /* the data begin at a multiple of 64 */
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc(size & 0xff, file);
    fputc(size >> 8, file);
    fprintf(file, "%s%*s\n", head, size - n - 1, "");
    return file;
}

static iter_status npy_close(FILE *file, const char *path, iter_error *err) {
    bool broken = ferror(file) != 0;
    if (fclose(file) != 0) broken = true;
    return broken ? bench_fail(err, ITER_EIO, "%.400s: cannot be written", path) : ITER_OK;
}

static iter_status write_plain(const char *folder, const char *name, const char *type,
                               const void *values, size_t element_bytes, uint64_t n,
                               iter_error *err) {
    char path[4096];
    FILE *file = npy_open(folder, name, type, n, NULL, 0, path, err);
    if (file == NULL) return ITER_EIO;
    if (n > 0) fwrite(values, element_bytes, n, file);
    return npy_close(file, path, err);
}

/* Writes one row, filled with zeros to the widest, dimension by dimension. */
static const uint8_t *write_row(FILE *file, const column *c, const int64_t *dims, int32_t dim,
                                const uint8_t *bytes) {
    size_t element_bytes = iter_dtype_bytes(c->dtype), fill = element_bytes;
    if (dim == c->n_dims) {
        fwrite(bytes, 1, element_bytes, file);
        return bytes + element_bytes;
    }
    for (int64_t i = 0; i < dims[dim]; i++)
        bytes = write_row(file, c, dims, dim + 1, bytes);
    for (int32_t d = dim + 1; d < c->n_dims; d++)
        fill *= (size_t)c->widest[d];
    for (size_t i = 0; i < fill * (size_t)(c->widest[dim] - dims[dim]); i++)
        fputc(0, file);
    return bytes;
}

static iter_status write_column(const char *folder, const char *name, const column *c,
                                iter_error *err) {
    char path[4096], with_lengths[ITER_NAME_MAX + 16];
    FILE *file =
        npy_open(folder, name, npy_type(c->dtype), c->n_rows, c->widest, c->n_dims, path, err);
    if (file == NULL) return ITER_EIO;
    const uint8_t *bytes = c->bytes;
    for (uint64_t i = 0; i < c->n_rows; i++)
        bytes = write_row(file, c, c->dims[i], 0, bytes);
    iter_status s = npy_close(file, path, err);
    if (s < 0 || !c->has_lengths) return s;
    snprintf(with_lengths, sizeof(with_lengths), "%s_lengths", name);
    return write_plain(folder, with_lengths, "<i4", c->lengths, sizeof(c->lengths[0]), c->n_rows,
                       err);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static iter_status collect(dump *d, bench_arm *arm, iter_error *err) {
    d->n_fields = iter_loader_n_fields(arm->loaders[0]);
    uint64_t ends = 0;
    for (uint64_t taken = 0; taken < d->options->batches && ends < 2 * d->options->ranks;) {
        iter_batch *batch;
        iter_status s = iter_loader_next(arm->loaders[arm->turn], &batch, err);
        if (s < 0) return s;
        arm->turn = (arm->turn + 1) % (uint32_t)d->options->ranks;
        ends = s == ITER_END ? ends + 1 : 0;
        if (s == ITER_END && arm->turn == 0)
            for (uint32_t rank = 0; rank < d->options->ranks; rank++) {
                s = iter_loader_reset(arm->loaders[rank], err);
                if (s < 0) return s;
            }
        if (batch == NULL) continue;
        s = add_batch(d, batch, err);
        iter_batch_unref(batch);
        if (s < 0) return s;
        taken++;
    }
    return ITER_OK;
}

static iter_status write_files(const dump *d, const iter_loader *loader, iter_error *err) {
    const char *folder = d->options->dump;
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return bench_fail(err, ITER_EIO, "%s: %s", folder, strerror(errno));
    iter_status s = write_plain(folder, "index", "<u8", d->index, 8, d->n_rows, err);
    for (int32_t f = 0; s == ITER_OK && f < d->n_fields; f++)
        s = write_column(folder, iter_loader_field(loader, f)->name, &d->columns[f], err);
    return s;
}

iter_status bench_dump(const bench_options *options, iter_error *err) {
    bool ndarray = options->loader == BENCH_NDARRAY;
    bench_arrays arrays = {0};
    dump *d = calloc(1, sizeof(*d));
    bench_arm *arm = calloc(1, sizeof(*arm));
    iter_status s = d != NULL && arm != NULL ? ITER_OK : bench_fail(err, ITER_ENOMEM, "no memory");
    if (s == ITER_OK && ndarray) s = bench_arrays_load(options, UINT64_MAX, &arrays, err);
    if (s == ITER_OK) {
        d->options = options;
        s = arm_open(options, ndarray ? &arrays : NULL, arm, err);
    }
    if (s == ITER_OK) {
        s = collect(d, arm, err);
        if (s == ITER_OK) s = write_files(d, arm->loaders[0], err);
        arm_close(arm);
        for (int32_t f = 0; f < ITER_MAX_FIELDS; f++) {
            free(d->columns[f].dims);
            free(d->columns[f].lengths);
            free(d->columns[f].bytes);
        }
        free(d->index);
    }
    bench_arrays_free(&arrays);
    free(arm);
    free(d);
    return s;
}
