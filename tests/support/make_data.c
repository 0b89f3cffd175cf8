/* make_data.c - see make_data.h. */
#include "tests/support/make_data.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "iter/spec/options.h"

#define PIXELS 3072u

static void die(const char *what) {
    fprintf(stderr, "make_data: %s: %s\n", what, strerror(errno));
    abort();
}

/* ---- files ----------------------------------------------------------------------------------- */

void make_folder(char out[MAKE_PATH_MAX]) {
    const char *base = getenv("TMPDIR");
    snprintf(out, MAKE_PATH_MAX, "%s/iter-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(out)) die(out);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

void make_folder_gone(const char *folder) {
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) die(folder);
}

char *make_path(char out[MAKE_PATH_MAX], const char *folder, const char *name) {
    if (snprintf(out, MAKE_PATH_MAX, "%s/%s", folder, name) >= MAKE_PATH_MAX) {
        errno = ENAMETOOLONG;
        die(name);
    }
    return out;
}

void make_file(const char *folder, const char *name, const void *bytes, size_t n) {
    char path[MAKE_PATH_MAX];
    FILE *file = fopen(make_path(path, folder, name), "wb");
    if (!file || (n > 0 && fwrite(bytes, 1, n, file) != n) || fclose(file) != 0) die(path);
}

void make_gzip(const char *folder, const char *name, const void *bytes, size_t n) {
    char path[MAKE_PATH_MAX];
    gzFile file = gzopen(make_path(path, folder, name), "wb");
    if (!file || (n > 0 && gzwrite(file, bytes, (unsigned)n) != (int)n) || gzclose(file) != Z_OK)
        die(path);
}

void make_subfolder(const char *folder, const char *name) {
    char path[MAKE_PATH_MAX];
    if (mkdir(make_path(path, folder, name), 0700) != 0) die(path);
}

uint8_t make_pixel(uint32_t i, uint32_t j) {
    const uint32_t x = (i * 2654435761u) ^ (j * 40503u);
    return (uint8_t)(x ^ x >> 11 ^ x >> 22);
}

void make_cifar(const char *folder, const char *name, uint32_t first, uint32_t n,
                uint32_t n_label_bytes) {
    const size_t record = n_label_bytes + PIXELS;
    uint8_t *bytes = malloc(n * record + 1);
    if (!bytes) die(name);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *p = bytes + i * record;
        if (n_label_bytes == 2) *p++ = (uint8_t)((first + i) % 20);
        *p++ = (uint8_t)((first + i) % (n_label_bytes == 2 ? 100 : 10));
        for (uint32_t j = 0; j < PIXELS; j++)
            p[j] = make_pixel(first + i, j);
    }
    make_file(folder, name, bytes, n * record);
    free(bytes);
}

size_t make_idx_header(uint8_t *out, unsigned code, unsigned n_dims, const uint32_t *dims) {
    out[0] = out[1] = 0;
    out[2] = (uint8_t)code;
    out[3] = (uint8_t)n_dims;
    for (unsigned i = 0; i < n_dims; i++) {
        for (unsigned b = 0; b < 4; b++)
            out[4 + 4 * i + b] = (uint8_t)(dims[i] >> (24 - 8 * b));
    }
    return 4 + 4 * (size_t)n_dims;
}

size_t make_npy_header(uint8_t *out, const char *dictionary) {
    const size_t n = strlen(dictionary);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)n;
    out[9] = (uint8_t)(n >> 8);
    memcpy(out + 10, dictionary, n);
    return 10 + n;
}

/* ---- formats --------------------------------------------------------------------------------- */

static iter_status set_options(const iter_ops *ops, void *values, const char *text,
                               iter_error *err) {
    char copy[1024];
    snprintf(copy, sizeof(copy), "%s", text ? text : "");
    char *rest = NULL;
    for (char *pair = strtok_r(copy, "&", &rest); pair; pair = strtok_r(NULL, "&", &rest)) {
        char *value = strchr(pair, '=');
        if (!value) {
            errno = EINVAL;
            die(text);
        }
        *value++ = '\0';
        const iter_status status = iter__options_set(ops, values, pair, 0, value, err);
        if (status < 0) return status;
    }
    return iter__options_check(ops, values, err);
}

static void release(opened *format) {
    iter__options_free(&format->ops->base, format->options);
    free(format->options);
    free(format->state);
    format->state = format->options = NULL;
}

iter_status format_open(const iter_format_ops *ops, const char *path, const char *options,
                        opened *out, iter_error *err) {
    memset(out, 0, sizeof(*out));
    out->ops = ops;
    out->state = calloc(1, ops->base.state_size + 1);
    out->options = calloc(1, ops->base.options_size + 1);
    if (!out->state || !out->options) die("no memory");
    iter__options_defaults(&ops->base, out->options);
    iter_status status = set_options(&ops->base, out->options, options, err);
    if (status == ITER_OK) status = ops->open(out->state, path, out->options, &out->desc, err);
    if (status < 0) release(out);
    return status;
}

void format_close(opened *format) {
    if (!format->state) return;
    format->ops->close(format->state);
    release(format);
}

size_t format_read(const opened *format, uint64_t index, int e, void *out, size_t capacity) {
    iter_extent extents[ITER_MAX_EXTENTS];
    format->ops->locate(format->state, index, extents);
    const int fd = open(format->desc.files[extents[e].object].path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const size_t n = extents[e].size < capacity ? (size_t)extents[e].size : capacity;
    const ssize_t got = pread(fd, out, n, (off_t)extents[e].offset);
    close(fd);
    return got < 0 ? 0 : (size_t)got;
}

static const char *field_fault(const opened *format, int f) {
    const iter_description *desc = &format->desc;
    const iter_field *field = &desc->fields[f];
    if (!field->name[0]) return "a field without name";
    for (int other = 0; other < f; other++) {
        if (strcmp(desc->fields[other].name, field->name) == 0) return "two fields of one name";
    }
    if (iter_dtype_bytes(field->desc.dtype) == 0) return "a field without dtype";
    if (field->desc.n_dims < 0 || field->desc.n_dims >= ITER_MAX_DIMS) return "wrong rank";
    const bool any_size = field->desc.n_dims > 1 && field->desc.dims[0] == ITER_VARIABLE &&
                          field->desc.dims[1] == ITER_VARIABLE && field->desc.capacity == 0;
    if (any_size)
        return field->decoder && field->decoder->decode_image ? NULL : "any size without a decoder";
    if (iter_desc_bytes(&field->desc) == 0) return "an empty row";
    if (field->extent == ITER_FROM_INDEX)
        return format->ops->index_row || format->ops->get ? NULL : "no index_row";
    if (field->extent < 0 || field->extent >= desc->n_extents) return "a field in no extent";
    if (!field->decoder &&
        field->offset + iter_desc_bytes(&field->desc) > desc->max_extent_bytes[field->extent])
        return "a field longer than its extent";
    return NULL;
}

const char *format_fault(const opened *format, uint64_t most) {
    const iter_description *desc = &format->desc;
    if (desc->n_samples == 0) return "no samples";
    if (desc->n_fields < 1 || desc->n_fields > ITER_MAX_FIELDS) return "wrong number of fields";
    if (desc->n_extents < 0 || desc->n_extents > ITER_MAX_EXTENTS) return "wrong number of extents";
    if (!desc->split) return "no split";
    for (int f = 0; f < desc->n_fields; f++) {
        const char *fault = field_fault(format, f);
        if (fault) return fault;
    }
    if (desc->n_extents == 0) return NULL;
    const uint64_t n = desc->n_samples < most ? desc->n_samples : most;
    for (uint64_t i = 0; i < n; i++) {
        iter_extent extents[ITER_MAX_EXTENTS];
        const uint64_t index = i + 1 == n ? desc->n_samples - 1 : i; /* also checks the last one */
        format->ops->locate(format->state, index, extents);
        for (int e = 0; e < desc->n_extents; e++) {
            const iter_extent *x = &extents[e];
            if (x->object >= desc->n_files) return "an extent in no file";
            const uint64_t bytes = desc->files[x->object].bytes;
            if (x->size > bytes || x->offset > bytes - x->size) return "an extent past the end";
            if (x->size > desc->max_extent_bytes[e]) return "an extent larger than said";
        }
    }
    return NULL;
}

static void put_number(FILE *file, uint64_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++)
        fputc((int)(value >> 8 * i & 255), file);
}

void make_megatron(const char *folder, const char *name, const uint16_t *tokens,
                   const uint32_t *lengths, uint32_t n) {
    char path[MAKE_PATH_MAX], file_name[64];
    uint64_t place = 0, total = 0;
    for (uint32_t d = 0; d < n; d++)
        total += lengths[d];
    snprintf(file_name, sizeof(file_name), "%s.bin", name);
    make_file(folder, file_name, tokens, total * sizeof(tokens[0]));
    snprintf(file_name, sizeof(file_name), "%s.idx", name);
    FILE *file = fopen(make_path(path, folder, file_name), "wb");
    if (!file) abort();
    fwrite("MMIDIDX\0", 1, 9, file);
    put_number(file, 1, 8);
    put_number(file, 8, 1);
    put_number(file, n, 8);
    put_number(file, n + 1, 8);
    for (uint32_t d = 0; d < n; d++)
        put_number(file, lengths[d], 4);
    for (uint32_t d = 0; d < n; place += 2 * lengths[d++])
        put_number(file, place, 8);
    for (uint32_t d = 0; d <= n; d++)
        put_number(file, d, 8);
    fclose(file);
}
