/*
 * safetensors.c - see safetensors.h.
 *
 * The header is JSON, which jansson reads and writes. Its strings stay in jansson's tree, which
 * lives as long as the file is open. Before memory for values is allocated, all numbers of the
 * header are checked against the file's size, so a small file cannot ask for much memory.
 *
 * A file gets its name only when it is complete and on the disk. The temporary name is fixed, so a
 * process that is killed again and again leaves at most one, which the next write overwrites. A
 * lock on it keeps two writers apart. After locking, a writer checks that the name still belongs to
 * the file that it locked.
 */
#include "engine/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define PREFIX_BYTES 8
#define DATA_ALIGN   64
#define OPEN_TRIES   1000
#define METADATA     "__metadata__"

struct engine_tensor_file {
    char *path;
    int fd;
    json_t *header;
    uint64_t data_begin, data_bytes;
    int32_t n_tensors;
    engine_tensor *tensors;
    json_t *metadata; /* in header, or NULL */
};

static const struct {
    iter_dtype dtype;
    const char *text;
} dtypes[] = {{ITER_BOOL, "BOOL"}, {ITER_U8, "U8"},     {ITER_I8, "I8"},   {ITER_I16, "I16"},
              {ITER_U16, "U16"},   {ITER_F16, "F16"},   {ITER_I32, "I32"}, {ITER_U32, "U32"},
              {ITER_F32, "F32"},   {ITER_BF16, "BF16"}, {ITER_F64, "F64"}, {ITER_I64, "I64"},
              {ITER_U64, "U64"}};

#define N_DTYPES ((int)(sizeof(dtypes) / sizeof(dtypes[0])))

static const char *dtype_text(iter_dtype dtype) {
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].text;
    return NULL;
}

static iter_dtype dtype_parse(const char *text) {
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].text, text) == 0) return dtypes[i].dtype;
    return ITER_DTYPE_NONE;
}

static iter_status fail_os(iter_error *err, const char *path, const char *what, int os_error) {
    char text[128];
    return iter__engine_fail(err, ITER_EIO, "%.300s: %s: %s", path, what,
                             strerror_r(os_error, text, sizeof(text)));
}

/* Bytes of dense values of this shape; false if the number overflows. */
static bool count_bytes(const engine_tensor *tensor, uint64_t *out) {
    uint64_t n = iter_dtype_bytes(tensor->dtype);
    for (int32_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0) return false;
        if (__builtin_mul_overflow(n, (uint64_t)tensor->dims[i], &n)) return false;
    }
    *out = n;
    return n <= INT64_MAX;
}

/* ---- Reading: the header --------------------------------------------------------------------- */

/* Reads the list `key` of n non-negative integers; n = -1: any number of them up to most. */
static iter_status read_numbers(const engine_tensor_file *file, const char *name, json_t *entry,
                                const char *key, int n, int most, int64_t *out, int32_t *out_n,
                                iter_error *err) {
    json_t *list = json_object_get(entry, key);
    size_t size = json_array_size(list);
    if (!json_is_array(list) || (n >= 0 && size != (size_t)n))
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.200s: tensor '%.80s': %s is not a list of numbers", file->path,
                                 name, key);
    if (size > (size_t)most)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.200s: tensor '%.80s': %zu dimensions, at most %d", file->path,
                                 name, size, most);
    for (size_t i = 0; i < size; i++) {
        json_t *number = json_array_get(list, i);
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return iter__engine_fail(err, ITER_EFORMAT,
                                     "%.200s: tensor '%.80s': %s must hold only integers from 0 on",
                                     file->path, name, key);
        out[i] = json_integer_value(number);
    }
    *out_n = (int32_t)size;
    return ITER_OK;
}

static iter_status read_entry(const engine_tensor_file *file, const char *name, json_t *entry,
                              engine_tensor *out, iter_error *err) {
    int64_t offsets[2];
    int32_t n_offsets;
    out->name = name;
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return iter__engine_fail(
            err, ITER_EFORMAT,
            "%.200s: tensor '%.80s' must have dtype, shape and data_offsets, and nothing else",
            file->path, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    out->dtype = dtype != NULL ? dtype_parse(dtype) : ITER_DTYPE_NONE;
    if (out->dtype == ITER_DTYPE_NONE)
        return iter__engine_fail(err, ITER_EFORMAT, "%.200s: tensor '%.80s': unknown dtype '%.40s'",
                                 file->path, name, dtype != NULL ? dtype : "");
    iter_status s =
        read_numbers(file, name, entry, "shape", -1, ITER_MAX_DIMS, out->dims, &out->n_dims, err);
    if (s == ITER_OK)
        s = read_numbers(file, name, entry, "data_offsets", 2, 2, offsets, &n_offsets, err);
    if (s < 0) return s;
    if (offsets[0] > offsets[1] || (uint64_t)offsets[1] > file->data_bytes)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.200s: tensor '%.80s': its data, %" PRId64 " to %" PRId64
                                 ", lies outside the file's %" PRIu64 " bytes of data",
                                 file->path, name, offsets[0], offsets[1], file->data_bytes);
    out->begin = (uint64_t)offsets[0];
    uint64_t bytes, stored = (uint64_t)(offsets[1] - offsets[0]);
    if (!count_bytes(out, &bytes) || bytes != stored)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.200s: tensor '%.80s': %" PRIu64
                                 " bytes of data, which is not what dtype and shape say",
                                 file->path, name, stored);
    out->bytes = bytes;
    return ITER_OK;
}

static int by_place(const void *a, const void *b) {
    const engine_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    /* empty tensors at one place: any order, but always the same */
    return strcmp(x->name, y->name);
}

/* Checks that each tensor ends where the next one begins, and the last one at the end of the
 * file. */
static iter_status check_places(const engine_tensor_file *file, iter_error *err) {
    uint64_t at = 0;
    for (int32_t i = 0; i < file->n_tensors; i++) {
        const engine_tensor *tensor = &file->tensors[i];
        if (tensor->begin != at)
            return iter__engine_fail(
                err, ITER_EFORMAT, "%.200s: tensor '%.80s' %s", file->path, tensor->name,
                tensor->begin < at ? "overlaps the one before it"
                                   : "comes after bytes that belong to no tensor");
        at += tensor->bytes;
    }
    if (at != file->data_bytes)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.200s: %" PRIu64 " bytes at its end belong to no tensor",
                                 file->path, file->data_bytes - at);
    return ITER_OK;
}

static iter_status read_metadata(engine_tensor_file *file, iter_error *err) {
    const char *key;
    json_t *value;
    file->metadata = json_object_get(file->header, METADATA);
    if (file->metadata == NULL) return ITER_OK;
    if (!json_is_object(file->metadata))
        return iter__engine_fail(err, ITER_EFORMAT, "%.200s: its metadata is not an object",
                                 file->path);
    json_object_foreach(file->metadata, key, value) {
        if (!json_is_string(value))
            return iter__engine_fail(err, ITER_EFORMAT, "%.200s: metadata '%.80s' is not text",
                                     file->path, key);
    }
    return ITER_OK;
}

static iter_status read_tensors(engine_tensor_file *file, iter_error *err) {
    size_t n = json_object_size(file->header);
    file->tensors = iter__engine_alloc(n > 0 ? n : 1, sizeof(engine_tensor));
    if (file->tensors == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "%.200s: no memory for a list of %zu tensors",
                                 file->path, n);
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, METADATA) == 0) continue;
        iter_status s = read_entry(file, name, entry, &file->tensors[file->n_tensors], err);
        if (s < 0) return s;
        file->n_tensors++;
    }
    qsort(file->tensors, (size_t)file->n_tensors, sizeof(engine_tensor), by_place);
    return check_places(file, err);
}

/* ---- Reading: the file ----------------------------------------------------------------------- */

/* `what` names, in the message, the part that a truncated file ends in. */
static iter_status read_at(const engine_tensor_file *file, uint64_t offset, void *out,
                           uint64_t bytes, const char *what, iter_error *err) {
    uint64_t done = 0;
    while (done < bytes) {
        uint64_t step = bytes - done < (1u << 30) ? bytes - done : 1u << 30;
        ssize_t n = pread(file->fd, (char *)out + done, step, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_os(err, file->path, "cannot be read", errno);
        if (n == 0)
            return iter__engine_fail(err, ITER_EFORMAT, "%.300s: truncated, it ends within %s",
                                     file->path, what);
        done += (uint64_t)n;
    }
    return ITER_OK;
}

static iter_status open_plain(engine_tensor_file *file, uint64_t *out_bytes, iter_error *err) {
    struct stat st;
    do {
        file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0 || fstat(file->fd, &st) < 0)
        return fail_os(err, file->path, "cannot be opened", errno);
    if (!S_ISREG(st.st_mode))
        return iter__engine_fail(err, ITER_EIO, "%.300s: is not a regular file", file->path);
    *out_bytes = (uint64_t)st.st_size;
    return ITER_OK;
}

static iter_status parse_header(engine_tensor_file *file, const char *text, uint64_t bytes,
                                iter_error *err) {
    json_error_t where;
    if (bytes == 0 || text[0] != '{')
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.300s: is not a safetensors file: no JSON object at "
                                 "byte 8",
                                 file->path);
    file->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (file->header == NULL)
        return iter__engine_fail(err, ITER_EFORMAT, "%.200s: its header is broken at byte %d: %s",
                                 file->path, PREFIX_BYTES + where.position, where.text);
    iter_status s = read_metadata(file, err);
    return s == ITER_OK ? read_tensors(file, err) : s;
}

static iter_status read_header(engine_tensor_file *file, iter_error *err) {
    uint64_t file_bytes = 0, bytes = 0;
    uint8_t prefix[PREFIX_BYTES];
    iter_status s = open_plain(file, &file_bytes, err);
    if (s == ITER_OK) s = read_at(file, 0, prefix, PREFIX_BYTES, "its first 8 bytes", err);
    if (s < 0) return s;
    for (int i = PREFIX_BYTES - 1; i >= 0; i--)
        bytes = bytes << 8 | prefix[i];
    if (bytes > ENGINE_HEADER_MAX)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.300s: is not a safetensors file: a header of %" PRIu64
                                 " bytes, at most %" PRIu64 " are legal",
                                 file->path, bytes, ENGINE_HEADER_MAX);
    if (bytes > file_bytes - PREFIX_BYTES)
        return iter__engine_fail(
            err, ITER_EFORMAT, "%.300s: truncated, it ends within its header of %" PRIu64 " bytes",
            file->path, bytes);
    file->data_begin = PREFIX_BYTES + bytes;
    file->data_bytes = file_bytes - file->data_begin;
    char *text = iter__engine_alloc(bytes + 1, 1);
    if (text == NULL)
        return iter__engine_fail(err, ITER_ENOMEM,
                                 "%.300s: no memory for its header of %" PRIu64 " bytes",
                                 file->path, bytes);
    s = read_at(file, PREFIX_BYTES, text, bytes, "its header", err);
    if (s == ITER_OK) s = parse_header(file, text, bytes, err);
    iter__engine_free(text);
    return s;
}

iter_status iter__safetensors_open(const char *path, engine_tensor_file **out, iter_error *err) {
    *out = NULL;
    engine_tensor_file *file = iter__engine_alloc(1, sizeof(*file));
    if (file == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory to open it", path);
    file->fd = -1;
    file->path = iter__engine_alloc(strlen(path) + 1, 1);
    iter_status s = ITER_OK;
    if (file->path == NULL) {
        s = iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory to open it", path);
    } else {
        strcpy(file->path, path);
        s = read_header(file, err);
    }
    if (s < 0) {
        iter__safetensors_close(file);
        return s;
    }
    *out = file;
    return ITER_OK;
}

void iter__safetensors_close(engine_tensor_file *file) {
    if (file == NULL) return;
    if (file->fd >= 0) close(file->fd);
    json_decref(file->header);
    iter__engine_free(file->tensors);
    iter__engine_free(file->path);
    iter__engine_free(file);
}

int32_t iter__safetensors_count(const engine_tensor_file *file) {
    return file->n_tensors;
}

const engine_tensor *iter__safetensors_tensor(const engine_tensor_file *file, int32_t i) {
    assert(i >= 0 && i < file->n_tensors);
    return &file->tensors[i];
}

int32_t iter__safetensors_find(const engine_tensor_file *file, const char *name) {
    for (int32_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return i;
    return -1;
}

int32_t iter__safetensors_n_texts(const engine_tensor_file *file) {
    return (int32_t)json_object_size(file->metadata);
}

engine_text iter__safetensors_entry(const engine_tensor_file *file, int32_t i) {
    const char *key;
    json_t *value;
    json_object_foreach(file->metadata, key, value) {
        if (i-- == 0) return (engine_text){key, json_string_value(value)};
    }
    return (engine_text){NULL, NULL};
}

const char *iter__safetensors_text(const engine_tensor_file *file, const char *key) {
    return json_string_value(json_object_get(file->metadata, key));
}

iter_status iter__safetensors_read(const engine_tensor_file *file, int32_t i, void *out,
                                   iter_error *err) {
    const engine_tensor *tensor = iter__safetensors_tensor(file, i);
    return read_at(file, file->data_begin + tensor->begin, out, tensor->bytes, tensor->name, err);
}

/* ---- Writing: the header --------------------------------------------------------------------- */

/* Makes {"dtype": ..., "shape": [...], "data_offsets": [...]}, or returns NULL if memory is
 * short. */
static json_t *make_entry(const engine_tensor *tensor, uint64_t begin, uint64_t bytes) {
    json_t *entry = json_object(), *shape = json_array(), *offsets = json_array();
    int bad = 0;
    for (int32_t i = 0; i < tensor->n_dims; i++)
        bad |= json_array_append_new(shape, json_integer(tensor->dims[i]));
    bad |= json_array_append_new(offsets, json_integer((json_int_t)begin));
    bad |= json_array_append_new(offsets, json_integer((json_int_t)(begin + bytes)));
    bad |= json_object_set_new(entry, "dtype", json_string(dtype_text(tensor->dtype)));
    bad |= json_object_set_new(entry, "shape", shape);
    bad |= json_object_set_new(entry, "data_offsets", offsets);
    if (bad == 0) return entry;
    json_decref(entry);
    return NULL;
}

static iter_status add_tensors(json_t *header, const char *path, const engine_tensor *tensors,
                               int32_t n, iter_error *err) {
    uint64_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const engine_tensor *tensor = &tensors[i];
        uint64_t bytes;
        if (dtype_text(tensor->dtype) == NULL || !count_bytes(tensor, &bytes))
            return iter__engine_fail(err, ITER_EINVAL,
                                     "%.200s: tensor '%.80s' cannot be written: dtype "
                                     "or shape",
                                     path, tensor->name);
        if (json_object_get(header, tensor->name) != NULL || strcmp(tensor->name, METADATA) == 0)
            return iter__engine_fail(err, ITER_EINVAL, "%.200s: two tensors are called '%.80s'",
                                     path, tensor->name);
        if (json_object_set_new(header, tensor->name, make_entry(tensor, at, bytes)) != 0)
            return iter__engine_fail(err, ITER_EINVAL,
                                     "%.200s: the name '%.80s' is not UTF-8, or there "
                                     "is no memory",
                                     path, tensor->name);
        at += bytes;
    }
    return ITER_OK;
}

static iter_status add_texts(json_t *header, const char *path, const engine_text *texts, int32_t n,
                             iter_error *err) {
    if (n == 0) return ITER_OK;
    json_t *metadata = json_object();
    bool bad = json_object_set_new(header, METADATA, metadata) != 0;
    for (int32_t i = 0; !bad && i < n; i++)
        bad = json_object_set_new(metadata, texts[i].key, json_string(texts[i].value)) != 0;
    if (bad)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "%.200s: a text of the metadata is not UTF-8, or "
                                 "there is no memory",
                                 path);
    return ITER_OK;
}

/* The first bytes of the file, up to the values. */
static iter_status make_header(const char *path, json_t *header, uint8_t **out, size_t *out_bytes,
                               iter_error *err) {
    const size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII;
    const size_t text_bytes = json_dumpb(header, NULL, 0, flags);
    const size_t bytes = (PREFIX_BYTES + text_bytes + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    uint8_t *block = iter__engine_alloc(bytes, 1);
    if (block == NULL || text_bytes == 0) {
        iter__engine_free(block);
        return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory for its header", path);
    }
    memset(block, ' ', bytes);
    for (int i = 0; i < PREFIX_BYTES; i++)
        block[i] = (uint8_t)((uint64_t)(bytes - PREFIX_BYTES) >> 8 * i);
    size_t written = json_dumpb(header, (char *)block + PREFIX_BYTES, text_bytes, flags);
    assert(written == text_bytes);
    (void)written;
    *out = block;
    *out_bytes = bytes;
    return ITER_OK;
}

/* ---- Writing: the file ----------------------------------------------------------------------- */

static iter_status write_all(int fd, const char *path, const void *bytes, uint64_t size,
                             iter_error *err) {
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t n = write(fd, at, size < (1u << 30) ? size : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail_os(err, path, "cannot be written", n < 0 ? errno : ENOSPC);
        at += n;
        size -= (uint64_t)n;
    }
    return ITER_OK;
}

/* Opens the temporary file, empty and locked. Between our open() and our lock, another process may
 * have renamed it: what we hold is then its finished file, and we try again. The tries are limited,
 * because some file systems give one file two numbers. */
static iter_status open_part(const char *part, int *out, iter_error *err) {
    for (int left = OPEN_TRIES; left > 0; left--) {
        struct stat ours, named;
        int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 && errno == EINTR) continue;
        if (fd < 0) return fail_os(err, part, "cannot be made", errno);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
            close(fd);
            return iter__engine_fail(err, ITER_EIO, "%.300s: another process is writing it", part);
        }
        bool same = fstat(fd, &ours) == 0 && stat(part, &named) == 0 &&
                    ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
        if (same && ftruncate(fd, 0) == 0) {
            *out = fd;
            return ITER_OK;
        }
        int os_error = errno;
        close(fd);
        if (same) return fail_os(err, part, "cannot be emptied", os_error);
    }
    return iter__engine_fail(err, ITER_EIO, "%.300s: was replaced each time it was opened", part);
}

/* A rename is on the disk only when its folder is synced. File systems that cannot sync a folder
 * return EINVAL. */
static iter_status sync_folder(const char *path, iter_error *err) {
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = iter__engine_alloc(n + 1, 1);
    if (folder == NULL) return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory", path);
    memcpy(folder, slash == NULL ? "." : path, n);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    iter_status s = ITER_OK;
    if (fd >= 0 && fsync(fd) < 0 && errno != EINVAL)
        s = fail_os(err, folder, "cannot be synced", errno);
    if (fd >= 0) close(fd);
    iter__engine_free(folder);
    return s;
}

static iter_status write_values(int fd, const char *part, const engine_tensor *tensors, int32_t n,
                                engine_values_fn values, void *user, iter_error *err) {
    uint64_t most = 0, bytes = 0;
    for (int32_t i = 0; i < n; i++)
        if (count_bytes(&tensors[i], &bytes) && bytes > most) most = bytes;
    void *block = iter__engine_alloc(most > 0 ? most : 1, 1);
    if (block == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory for %" PRIu64 " bytes", part,
                                 most);
    iter_status s = ITER_OK;
    for (int32_t i = 0; s == ITER_OK && i < n; i++) {
        (void)count_bytes(&tensors[i], &bytes);
        s = values(user, i, block, err);
        if (s == ITER_OK) s = write_all(fd, part, block, bytes, err);
    }
    iter__engine_free(block);
    return s;
}

/* Ends with the file in its place, or with the temporary one removed. Closing the last descriptor
 * drops the lock, so the file is closed only after the rename. */
static iter_status finish(int fd, const char *part, const char *path, iter_status s,
                          iter_error *err) {
    if (s == ITER_OK && fsync(fd) < 0) s = fail_os(err, part, "cannot be written", errno);
    if (s == ITER_OK && rename(part, path) < 0) s = fail_os(err, path, "cannot be replaced", errno);
    if (s < 0) unlink(part);
    close(fd);
    return s == ITER_OK ? sync_folder(path, err) : s;
}

iter_status iter__safetensors_write(const char *path, const engine_tensor *tensors, int32_t n,
                                    const engine_text *texts, int32_t n_texts,
                                    engine_values_fn values, void *user, iter_error *err) {
    uint8_t *block = NULL;
    size_t block_bytes = 0;
    int fd = -1;
    json_t *header = json_object();
    char *part = iter__engine_alloc(strlen(path) + 6, 1);
    iter_status s = ITER_OK;
    if (header == NULL || part == NULL)
        s = iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory to write it", path);
    if (s == ITER_OK) s = add_texts(header, path, texts, n_texts, err);
    if (s == ITER_OK) s = add_tensors(header, path, tensors, n, err);
    if (s == ITER_OK) s = make_header(path, header, &block, &block_bytes, err);
    if (s == ITER_OK) {
        strcat(strcpy(part, path), ".part");
        s = open_part(part, &fd, err);
    }
    if (s == ITER_OK) {
        s = write_all(fd, part, block, block_bytes, err);
        if (s == ITER_OK) s = write_values(fd, part, tensors, n, values, user, err);
        s = finish(fd, part, path, s, err);
    }
    iter__engine_free(block);
    iter__engine_free(part);
    json_decref(header);
    return s;
}
