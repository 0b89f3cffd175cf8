/*
 * format_npy.c - arrays as numpy.save() writes them.
 *
 * A .npy file is a magic, a version, the length of the header, and the header: a Python dictionary
 * as text with exactly the keys descr, fortran_order and shape; then the elements. The first
 * dimension counts the samples. Each array is a field. In C order it has its own extent and is read
 * in place; if its elements have the other byte order, they are swapped row by row. In Fortran
 * order a row is scattered over the whole file, so the array is transposed into memory when it is
 * opened, and counts in memory limits.
 *
 * Source: numpy/lib/format.py (versions 1.0, 2.0 and 3.0).
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_swapped.h"
#include "loaders/files/file.h"
#include "loaders/formats/array_layout.h"
#include "loaders/formats/column_major.h"

#define MAGIC            "\x93NUMPY"
#define MAGIC_BYTES      6u
#define PREFIX_BYTES_MAX 12u
#define HEADER_BYTES_MAX 65536u

typedef struct npy_options {
    const char *label;
    int32_t layout;
} npy_options;

static const iter_option option_rows[] = {
    ITER_ROW_STRING("label", "a .npy file with the labels", npy_options, label, 0),
    ITER_ARRAY_LAYOUT_ROW(npy_options, layout),
    ITER_ROW_END,
};

typedef struct npy_array {
    iter_role role;
    char name[ITER_NAME_MAX];
    char *path;
    iter_dtype dtype;
    int32_t n_dims;
    uint64_t dims[ITER_MAX_DIMS];
    uint64_t header_bytes, row_bytes, file_bytes;
    bool swapped; /* elements have the other byte order */
    bool fortran;
    void *rows;     /* of an array in Fortran order: all rows; else NULL */
    int32_t extent; /* of a sample, or ITER_FROM_INDEX */
} npy_array;

typedef struct npy_state {
    int n_arrays;
    npy_array arrays[ITER_MAX_EXTENTS];
    iter_file files[ITER_MAX_EXTENTS];
} npy_state;

/* ---- the header ------------------------------------------------------------------------------ */

/* The parser's place in the header's text, which ends with NUL. */
typedef struct cursor {
    const char *p;
    const char *path;
} cursor;

static iter_status malformed(const cursor *c, const char *what, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "%s: .npy header: %s", c->path, what);
}

static void skip_blanks(cursor *c) {
    while (isspace((unsigned char)*c->p))
        c->p++;
}

/* If `text` comes next, moves past it and returns true. */
static bool take(cursor *c, const char *text) {
    skip_blanks(c);
    if (strncmp(c->p, text, strlen(text)) != 0) return false;
    c->p += strlen(text);
    return true;
}

/* 'text' or "text" into out; false if something else comes next, or if it does not fit. */
static bool take_string(cursor *c, char *out, size_t capacity) {
    skip_blanks(c);
    const char quote = *c->p;
    if (quote != '\'' && quote != '"') return false;
    const char *end = strchr(c->p + 1, quote);
    if (!end) return false;
    const size_t n = (size_t)(end - c->p - 1);
    if (n >= capacity) return false;
    memcpy(out, c->p + 1, n);
    out[n] = '\0';
    c->p = end + 1;
    return true;
}

static bool take_number(cursor *c, uint64_t *out) {
    skip_blanks(c);
    if (!isdigit((unsigned char)*c->p)) return false;
    uint64_t n = 0;
    for (; isdigit((unsigned char)*c->p); c->p++) {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*c->p - '0'), &n))
            return false;
    }
    if (*c->p == 'L') c->p++; /* Python 2's long */
    *out = n;
    return true;
}

/* "<f4" and the like: byte order, kind, bytes. */
static iter_status read_descr(npy_array *array, cursor *c, iter_error *err) {
    static const char native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    static const struct {
        char text[3];
        iter_dtype dtype;
    } kinds[] = {{"u1", ITER_U8},  {"i1", ITER_I8},  {"u2", ITER_U16}, {"i2", ITER_I16},
                 {"u4", ITER_U32}, {"i4", ITER_I32}, {"u8", ITER_U64}, {"i8", ITER_I64},
                 {"f2", ITER_F16}, {"f4", ITER_F32}, {"f8", ITER_F64}, {"b1", ITER_BOOL}};
    char text[32];
    skip_blanks(c);
    if (*c->p == '[') {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: is a structured array; save each of its fields to a file", c->path);
    }
    if (!take_string(c, text, sizeof(text))) return malformed(c, "no type in descr", err);
    const char *kind = text;
    char order = '=';
    if (text[0] && strchr("<>=|", text[0])) order = *kind++;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kind, kinds[i].text) == 0) array->dtype = kinds[i].dtype;
    }
    if (array->dtype == ITER_DTYPE_NONE) {
        return iter__fail(
            err, ITER_EUNSUPPORTED,
            "%s: has elements of numpy type '%s'; integers, bool, f2, f4 and f8 can be "
            "read",
            c->path, text);
    }
    array->swapped =
        (order == '<' || order == '>') && order != native && iter_dtype_bytes(array->dtype) > 1;
    return ITER_OK;
}

/* "(3, 4)", "(3,)", "()". */
static iter_status read_shape(npy_array *array, cursor *c, iter_error *err) {
    if (!take(c, "(")) return malformed(c, "no shape", err);
    while (!take(c, ")")) {
        uint64_t dim = 0;
        if (!take_number(c, &dim)) return malformed(c, "a number is missing in shape", err);
        if (array->n_dims == ITER_MAX_DIMS) {
            return iter__fail(err, ITER_EUNSUPPORTED, "%s: has more than %d dimensions", c->path,
                              ITER_MAX_DIMS);
        }
        array->dims[array->n_dims++] = dim;
        if (!take(c, ",")) {
            if (!take(c, ")")) return malformed(c, "shape does not end", err);
            break;
        }
    }
    if (array->n_dims == 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: is a scalar; the first dimension must count the samples", c->path);
    }
    return ITER_OK;
}

/* The dictionary; each key exactly once. */
static iter_status read_dictionary(npy_array *array, cursor *c, iter_error *err) {
    bool descr = false, order = false, shape = false;
    if (!take(c, "{")) return malformed(c, "it is not a dictionary", err);
    while (!take(c, "}")) {
        char key[32];
        if (!take_string(c, key, sizeof(key)) || !take(c, ":"))
            return malformed(c, "a key is missing", err);
        if (strcmp(key, "descr") == 0 && !descr) {
            descr = true;
            ITER_TRY(read_descr(array, c, err));
        } else if (strcmp(key, "shape") == 0 && !shape) {
            shape = true;
            ITER_TRY(read_shape(array, c, err));
        } else if (strcmp(key, "fortran_order") == 0 && !order) {
            order = true;
            array->fortran = take(c, "True");
            if (!array->fortran && !take(c, "False"))
                return malformed(c, "fortran_order is neither True nor False", err);
        } else {
            return malformed(c, "a key is repeated or unknown", err);
        }
        if (!take(c, ",")) {
            if (!take(c, "}")) return malformed(c, "it does not end", err);
            break;
        }
    }
    skip_blanks(c);
    if (*c->p) return malformed(c, "something follows the dictionary", err);
    if (!descr || !order || !shape)
        return malformed(c, "descr, fortran_order or shape is missing", err);
    return ITER_OK;
}

/* Computes sizes from the shape, and fails if the file's size does not match. */
static iter_status check_size(npy_array *array, iter_error *err) {
    uint64_t row_bytes = iter_dtype_bytes(array->dtype), data_bytes = 0;
    for (int32_t i = 1; i < array->n_dims; i++) {
        if (array->dims[i] > INT32_MAX ||
            __builtin_mul_overflow(row_bytes, array->dims[i], &row_bytes))
            return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", array->path);
    }
    if (__builtin_mul_overflow(row_bytes, array->dims[0], &data_bytes) ||
        data_bytes > INT64_MAX / 2)
        return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", array->path);
    if (data_bytes == 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: a dimension is 0: it holds no %s", array->path,
                          array->dims[0] == 0 ? "samples" : "elements");
    }
    if (array->file_bytes != array->header_bytes + data_bytes) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: its header says %" PRIu64 " samples of %" PRIu64
                          " bytes, so %" PRIu64 " bytes with the header; the file has %" PRIu64,
                          array->path, array->dims[0], row_bytes, array->header_bytes + data_bytes,
                          array->file_bytes);
    }
    array->row_bytes = row_bytes;
    return ITER_OK;
}

/* Magic, version and header length; *out_length is that of the dictionary. */
static iter_status read_prefix(npy_array *array, iter__input *input, uint32_t *out_length,
                               iter_error *err) {
    unsigned char b[PREFIX_BYTES_MAX];
    size_t got = 0;
    ITER_TRY(iter__input_read(input, b, MAGIC_BYTES + 2, &got, err));
    if (got == 0) return iter__fail(err, ITER_EFORMAT, "%s: is empty", array->path);
    if (got < MAGIC_BYTES + 2 || memcmp(b, MAGIC, MAGIC_BYTES) != 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: is not a .npy file: it does not begin with %s",
                          array->path, "\\x93NUMPY");
    }
    const unsigned major = b[MAGIC_BYTES];
    if (major < 1 || major > 3) {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: has .npy version %u.%u; 1.0 to 3.0 are known", array->path, major,
                          b[MAGIC_BYTES + 1]);
    }
    const size_t n = major == 1 ? 2 : 4;
    ITER_TRY(iter__input_read(input, b, n, &got, err));
    if (got < n)
        return iter__fail(err, ITER_EFORMAT, "%s: is truncated in its header", array->path);
    uint32_t length = 0;
    for (size_t i = 0; i < n; i++)
        length |= (uint32_t)b[i] << (8 * i);
    array->header_bytes = MAGIC_BYTES + 2 + n + length;
    *out_length = length;
    return ITER_OK;
}

/* Reads the header and the sizes. */
static iter_status read_array(npy_array *array, iter_error *err) {
    iter__input *input = NULL;
    char *text = NULL;
    uint32_t length = 0;
    size_t got = 0;
    ITER_TRY(iter__file_check(array->path, &array->file_bytes, err));
    ITER_TRY(iter__input_open(array->path, &input, err));

    iter_status status = ITER_OK;
    if (iter__input_is_gzip(input)) {
        status = iter__fail(err, ITER_EUNSUPPORTED, "%s: is gzipped; unpack it first", array->path);
    }
    if (status == ITER_OK) status = read_prefix(array, input, &length, err);
    if (status == ITER_OK && length > HEADER_BYTES_MAX) {
        status = iter__fail(err, ITER_EFORMAT, "%s: its header of %" PRIu32 " bytes is too long",
                            array->path, length);
    }
    if (status == ITER_OK) {
        text = iter__alloc((size_t)length + 1, 1);
        status = text ? iter__input_read(input, text, length, &got, err)
                      : iter__fail(err, ITER_ENOMEM, "%s: no memory for its header", array->path);
    }
    if (status == ITER_OK && got < length)
        status = iter__fail(err, ITER_EFORMAT, "%s: is truncated in its header", array->path);
    if (status == ITER_OK) {
        cursor c = {text, array->path};
        status = read_dictionary(array, &c, err);
    }
    if (status == ITER_OK) status = check_size(array, err);
    iter__free(text);
    iter__input_close(input);
    return status;
}

/* Loads the rows of an array in Fortran order. If it has one axis, both orders are equal. */
static iter_status load_rows(npy_array *array, iter_error *err) {
    if (!array->fortran || array->n_dims == 1) return ITER_OK;
    const size_t width = iter_dtype_bytes(array->dtype);
    const iter__column_major columns = {.path = array->path,
                                        .offset = array->header_bytes,
                                        .dims = array->dims,
                                        .n_dims = array->n_dims,
                                        .width = width};
    ITER_TRY(iter__column_major_load(&columns, &array->rows, err));
    if (array->swapped)
        iter__swap_elements(array->rows, array->rows, array->dims[0] * array->row_bytes / width,
                            width);
    return ITER_OK;
}

/* ---- the set of arrays ----------------------------------------------------------------------- */

static void npy_close(void *state) {
    npy_state *s = state;
    for (int i = 0; i < ITER_MAX_EXTENTS; i++) {
        npy_array *array = &s->arrays[i];
        if (array->rows) iter__unmap(array->rows, (size_t)(array->dims[0] * array->row_bytes));
        iter__free(array->path);
    }
    memset(s, 0, sizeof(*s));
}

/* Appends an array; owns `path` from now on. */
static iter_status add_array(npy_state *s, char *path, const char *name, size_t name_bytes,
                             iter_role role, iter_error *err) {
    if (!path) return iter__fail(err, ITER_ENOMEM, "npy: no memory for a file name");
    npy_array *array = &s->arrays[s->n_arrays];
    array->path = path;
    if (name_bytes == 0 || name_bytes >= sizeof(array->name)) {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: the name of a field must have 1 to %d letters", path,
                          ITER_NAME_MAX - 1);
    }
    memcpy(array->name, name, name_bytes);
    array->role = role;
    ITER_TRY(read_array(array, err));
    if (array->dims[0] != s->arrays[0].dims[0]) {
        return iter__fail(err, ITER_EFORMAT, "%s: has %" PRIu64 " samples, %s has %" PRIu64, path,
                          array->dims[0], iter__path_base(s->arrays[0].path), s->arrays[0].dims[0]);
    }
    ITER_TRY(load_rows(array, err));
    s->n_arrays++;
    return ITER_OK;
}

/* The length of "x.npy" without its ending; 0 for other kinds of files. */
static size_t stem_bytes(const char *name) {
    const size_t n = strlen(name);
    return name[0] != '.' && n > 4 && strcmp(name + n - 4, ".npy") == 0 ? n - 4 : 0;
}

static iter_role role_of(const char *name) {
    return strstr(name, "label") ? ITER_LABEL : ITER_DATA;
}

/* Data before labels, "data" before others, then by name. */
static int compare_names(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    const int rx = role_of(x) == ITER_LABEL ? 2 : strcmp(x, "data.npy") != 0;
    const int ry = role_of(y) == ITER_LABEL ? 2 : strcmp(y, "data.npy") != 0;
    return rx != ry ? rx - ry : strcmp(x, y);
}

/* Lists the .npy files of a folder, at most as many as a sample can have extents. */
static iter_status list_folder(const char *folder, char *names[ITER_MAX_EXTENTS], int *out_n,
                               iter_error *err) {
    char text[128];
    DIR *dir = opendir(folder);
    if (!dir) {
        return iter__fail(err, ITER_EIO, "%s: %s", folder,
                          iter__os_error(errno, text, sizeof(text)));
    }
    iter_status status = ITER_OK;
    const struct dirent *entry = NULL;
    errno = 0;
    while (status == ITER_OK &&
           (entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): own DIR */
        if (stem_bytes(entry->d_name) == 0) continue;
        if (*out_n == ITER_MAX_EXTENTS) {
            status = iter__fail(err, ITER_EUNSUPPORTED, "%s: has more than %d .npy files", folder,
                                ITER_MAX_EXTENTS);
        } else {
            names[*out_n] = iter__strdup(entry->d_name);
            if (names[*out_n]) {
                (*out_n)++;
            } else {
                status = iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", folder);
            }
        }
        errno = 0;
    }
    if (status == ITER_OK && errno != 0) {
        status =
            iter__fail(err, ITER_EIO, "%s: %s", folder, iter__os_error(errno, text, sizeof(text)));
    }
    closedir(dir);
    if (status == ITER_OK && *out_n == 0)
        status = iter__fail(err, ITER_EIO, "%s: has no .npy file", folder);
    return status;
}

static iter_status add_folder(npy_state *s, const char *folder, iter_error *err) {
    char *names[ITER_MAX_EXTENTS] = {NULL};
    int n = 0;
    iter_status status = list_folder(folder, names, &n, err);
    qsort(names, (size_t)n, sizeof(names[0]), compare_names);
    for (int i = 0; i < n; i++) {
        if (status == ITER_OK) {
            status = add_array(s, iter__path_join(folder, names[i]), names[i], stem_bytes(names[i]),
                               role_of(names[i]), err);
        }
        iter__free(names[i]);
    }
    return status;
}

static iter_status add_files(npy_state *s, const char *path, const char *label, iter_error *err) {
    ITER_TRY(add_array(s, iter__strdup(path), "data", 4, ITER_DATA, err));
    if (!label) return ITER_OK;
    return add_array(s, iter__strdup(label), "label", 5, ITER_LABEL, err);
}

/* ---- the description ------------------------------------------------------------------------- */

/* Gives the next extent to an array that is not in memory. */
static void place_array(npy_state *s, npy_array *array, iter_description *out) {
    array->extent = ITER_FROM_INDEX;
    if (array->rows) return;
    array->extent = out->n_extents++;
    s->files[array->extent] = (iter_file){array->path, array->file_bytes};
    out->max_extent_bytes[array->extent] = array->row_bytes;
}

static void fill_field(const npy_array *array, iter_field *out) {
    memset(out, 0, sizeof(*out));
    memcpy(out->name, array->name, sizeof(out->name));
    out->role = array->role;
    out->desc.dtype = array->dtype;
    out->desc.n_dims = array->n_dims - 1;
    for (int32_t d = 1; d < array->n_dims; d++)
        out->desc.dims[d - 1] = (int64_t)array->dims[d];
    out->extent = array->extent;
    if (array->swapped && !array->rows) out->decoder = &iter__decoder_swapped;
}

static iter_status describe(npy_state *s, const npy_options *o, iter_description *out,
                            iter_error *err) {
    out->identity = iter__fnv1a_text(ITER_FNV_START, "npy");
    for (int i = 0; i < s->n_arrays; i++) {
        npy_array *array = &s->arrays[i];
        place_array(s, array, out);
        fill_field(array, &out->fields[i]);
        out->identity = iter__fnv1a_text(out->identity, iter__path_base(array->path));
        out->identity = iter__fnv1a_u64(out->identity, array->file_bytes);
    }
    out->n_samples = s->arrays[0].dims[0];
    out->n_fields = s->n_arrays;
    out->files = s->files;
    out->n_files = (uint64_t)out->n_extents;
    out->split = "";
    return iter__array_layout_apply((iter__array_layout)o->layout, s->arrays[0].path,
                                    &out->fields[0].desc, err);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status npy_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    npy_state *s = state;
    const npy_options *o = options;
    iter_status status;
    if (!iter__path_is_folder(path)) {
        status = add_files(s, path, o->label, err);
    } else if (o->label) {
        status =
            iter__fail(err, ITER_EINVAL,
                       "%s: is a folder, whose files name the fields: label= is for a file", path);
    } else {
        status = add_folder(s, path, err);
    }
    if (status == ITER_OK) status = describe(s, o, out, err);
    if (status < 0) npy_close(s);
    return status;
}

static void npy_locate(const void *state, uint64_t index, iter_extent *out) {
    const npy_state *s = state;
    for (int i = 0; i < s->n_arrays; i++) {
        const npy_array *array = &s->arrays[i];
        if (array->rows) continue;
        out[array->extent] = (iter_extent){.object = (uint64_t)array->extent,
                                           .offset = array->header_bytes + index * array->row_bytes,
                                           .size = array->row_bytes};
    }
}

static void npy_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const npy_array *array = &((const npy_state *)state)->arrays[field];
    memcpy(row, (const char *)array->rows + index * array->row_bytes, (size_t)array->row_bytes);
}

static iter_status npy_resident(const void *state, int32_t field, const void **out_base,
                                size_t *out_stride) {
    const npy_array *array = &((const npy_state *)state)->arrays[field];
    *out_base = array->rows;
    *out_stride = (size_t)array->row_bytes;
    return ITER_OK; /* NULL if the rows are read by extents */
}

const iter_format_ops iter__format_npy = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "npy",
             .help = "arrays saved by numpy: a .npy file, or a folder where each file is a field",
             .options = option_rows,
             .options_size = sizeof(npy_options),
             .state_size = sizeof(npy_state)},
    .open = npy_open,
    .close = npy_close,
    .locate = npy_locate,
    .index_row = npy_index_row,
    .resident = npy_resident,
};
