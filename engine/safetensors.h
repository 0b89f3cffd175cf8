/*
 * safetensors.h - named tensors in a file of the safetensors format, which other tools read too.
 *
 *     8 bytes    n, little endian
 *     n bytes    JSON: {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3],
 *                "data_offsets": [0, 24]}, ...}, padded with blanks
 *     the rest   the tensors' values, dense, little endian, without gaps
 *
 * In files that we write, the values begin at a multiple of 64 bytes. A file that we read is
 * checked completely before the first value is used: it opens only if its tensors fill the data
 * exactly and each is as large as its dtype and shape say.
 *
 * Source: the format's specification, in the README of huggingface/safetensors.
 */
#ifndef ENGINE_SAFETENSORS_H
#define ENGINE_SAFETENSORS_H

#include <stdbool.h>

#include <iter/tensor.h>

/* Longer headers are rejected, as the format's own library does. */
#define ENGINE_HEADER_MAX ((uint64_t)100000000)

typedef struct engine_tensor {
    const char *name;
    iter_dtype dtype;
    int32_t n_dims;
    int64_t dims[ITER_MAX_DIMS];
    uint64_t bytes; /* set by open(); write() computes it */
    uint64_t begin; /* set by open(): offset of the values in the data */
} engine_tensor;

/* One entry of the metadata. */
typedef struct engine_text {
    const char *key, *value;
} engine_text;

typedef struct engine_tensor_file engine_tensor_file;

/* Callback of write(): stores the values of tensor i in out, dense; out has the tensor's size. */
typedef iter_status (*engine_values_fn)(void *user, int32_t i, void *out, iter_error *err);

/*
 * Writes a file completely or not at all: to path + ".part", synced, then renamed; then the folder
 * is synced. Put larger element types first in `tensors`, so that every value is aligned.
 *
 * Errors  EIO with path and reason (disk full; another process writes the same file), EINVAL (two
 *         tensors with the same name, or a text that is not UTF-8), ENOMEM, and what `values`
 *         returns. After an error the old file is untouched and the temporary one is removed; only
 *         if syncing the folder fails is the new file already in place.
 */
iter_status iter__safetensors_write(const char *path, const engine_tensor *tensors, int32_t n,
                                    const engine_text *texts, int32_t n_texts,
                                    engine_values_fn values, void *user, iter_error *err);

/*
 * Opens a file; reads and checks its header.
 *
 * Errors  EIO (cannot be read), EFORMAT naming file and reason, ENOMEM.
 */
iter_status iter__safetensors_open(const char *path, engine_tensor_file **out, iter_error *err);
void iter__safetensors_close(engine_tensor_file *file);

/* Tensors in the order of their values. Valid while the file is open. */
int32_t iter__safetensors_count(const engine_tensor_file *file);
const engine_tensor *iter__safetensors_tensor(const engine_tensor_file *file, int32_t i);

/* Index of the tensor called `name`, or -1. */
int32_t iter__safetensors_find(const engine_tensor_file *file, const char *name);

/* The metadata: entries in the file's order; the value of a key, or NULL. */
int32_t iter__safetensors_n_texts(const engine_tensor_file *file);
engine_text iter__safetensors_entry(const engine_tensor_file *file, int32_t i);
const char *iter__safetensors_text(const engine_tensor_file *file, const char *key);

/* Reads the values of tensor i into out[its bytes]. Errors: EIO, EFORMAT (the file became shorter
 * after it was opened). */
iter_status iter__safetensors_read(const engine_tensor_file *file, int32_t i, void *out,
                                   iter_error *err);

#endif
