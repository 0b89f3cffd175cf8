/* npy_header.c - see npy_header.h. */
#include "loaders/formats/npy_header.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "loaders/files/file.h"

#define PREFIX_BYTES_MAX 12u
#define HEADER_BYTES_MAX 65536u

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
static iter_status read_descr(iter__npy_header *header, cursor *c, iter_error *err) {
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
        if (strcmp(kind, kinds[i].text) == 0) header->dtype = kinds[i].dtype;
    }
    if (header->dtype == ITER_DTYPE_NONE) {
        return iter__fail(
            err, ITER_EUNSUPPORTED,
            "%s: has elements of numpy type '%s'; integers, bool, f2, f4 and f8 can be "
            "read",
            c->path, text);
    }
    header->swapped =
        (order == '<' || order == '>') && order != native && iter_dtype_bytes(header->dtype) > 1;
    return ITER_OK;
}

/* "(3, 4)", "(3,)", "()". */
static iter_status read_shape(iter__npy_header *header, cursor *c, iter_error *err) {
    if (!take(c, "(")) return malformed(c, "no shape", err);
    while (!take(c, ")")) {
        uint64_t dim = 0;
        if (!take_number(c, &dim)) return malformed(c, "a number is missing in shape", err);
        if (header->n_dims == ITER_MAX_DIMS) {
            return iter__fail(err, ITER_EUNSUPPORTED, "%s: has more than %d dimensions", c->path,
                              ITER_MAX_DIMS);
        }
        header->dims[header->n_dims++] = dim;
        if (!take(c, ",")) {
            if (!take(c, ")")) return malformed(c, "shape does not end", err);
            break;
        }
    }
    if (header->n_dims == 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: is a scalar; the first dimension must count the samples", c->path);
    }
    return ITER_OK;
}

/* The dictionary; each key exactly once. */
static iter_status read_dictionary(iter__npy_header *header, cursor *c, iter_error *err) {
    bool descr = false, order = false, shape = false;
    if (!take(c, "{")) return malformed(c, "it is not a dictionary", err);
    while (!take(c, "}")) {
        char key[32];
        if (!take_string(c, key, sizeof(key)) || !take(c, ":"))
            return malformed(c, "a key is missing", err);
        if (strcmp(key, "descr") == 0 && !descr) {
            descr = true;
            ITER_TRY(read_descr(header, c, err));
        } else if (strcmp(key, "shape") == 0 && !shape) {
            shape = true;
            ITER_TRY(read_shape(header, c, err));
        } else if (strcmp(key, "fortran_order") == 0 && !order) {
            order = true;
            header->fortran = take(c, "True");
            if (!header->fortran && !take(c, "False"))
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
static iter_status check_size(iter__npy_header *header, iter_error *err) {
    uint64_t row_bytes = iter_dtype_bytes(header->dtype), data_bytes = 0;
    for (int32_t i = 1; i < header->n_dims; i++) {
        if (header->dims[i] > INT32_MAX ||
            __builtin_mul_overflow(row_bytes, header->dims[i], &row_bytes))
            return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", header->path);
    }
    if (__builtin_mul_overflow(row_bytes, header->dims[0], &data_bytes) ||
        data_bytes > INT64_MAX / 2)
        return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", header->path);
    if (data_bytes == 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: a dimension is 0: it holds no %s", header->path,
                          header->dims[0] == 0 ? "samples" : "elements");
    }
    if (header->file_bytes != header->header_bytes + data_bytes) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: its header says %" PRIu64 " samples of %" PRIu64
                          " bytes, so %" PRIu64 " bytes with the header; the file has %" PRIu64,
                          header->path, header->dims[0], row_bytes,
                          header->header_bytes + data_bytes, header->file_bytes);
    }
    header->row_bytes = row_bytes;
    return ITER_OK;
}

/* Magic, version and header length; *out_length is that of the dictionary. */
static iter_status read_prefix(iter__npy_header *header, iter__input *input, uint32_t *out_length,
                               iter_error *err) {
    unsigned char b[PREFIX_BYTES_MAX];
    size_t got = 0;
    ITER_TRY(iter__input_read(input, b, ITER_NPY_MAGIC_BYTES + 2, &got, err));
    if (got == 0) return iter__fail(err, ITER_EFORMAT, "%s: is empty", header->path);
    if (got < ITER_NPY_MAGIC_BYTES + 2 || memcmp(b, ITER_NPY_MAGIC, ITER_NPY_MAGIC_BYTES) != 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: is not a .npy file: it does not begin with %s",
                          header->path, "\\x93NUMPY");
    }
    const unsigned major = b[ITER_NPY_MAGIC_BYTES];
    if (major < 1 || major > 3) {
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: has .npy version %u.%u; 1.0 to 3.0 are known", header->path, major,
                          b[ITER_NPY_MAGIC_BYTES + 1]);
    }
    const size_t n = major == 1 ? 2 : 4;
    ITER_TRY(iter__input_read(input, b, n, &got, err));
    if (got < n)
        return iter__fail(err, ITER_EFORMAT, "%s: is truncated in its header", header->path);
    uint32_t length = 0;
    for (size_t i = 0; i < n; i++)
        length |= (uint32_t)b[i] << (8 * i);
    header->header_bytes = ITER_NPY_MAGIC_BYTES + 2 + n + length;
    *out_length = length;
    return ITER_OK;
}

iter_status iter__npy_header_read(const char *path, iter__npy_header *header, iter_error *err) {
    iter__input *input = NULL;
    char *text = NULL;
    uint32_t length = 0;
    size_t got = 0;
    *header = (iter__npy_header){.path = path};
    ITER_TRY(iter__file_check(header->path, &header->file_bytes, err));
    ITER_TRY(iter__input_open(header->path, &input, err));

    iter_status status = ITER_OK;
    if (iter__input_is_gzip(input)) {
        status =
            iter__fail(err, ITER_EUNSUPPORTED, "%s: is gzipped; unpack it first", header->path);
    }
    if (status == ITER_OK) status = read_prefix(header, input, &length, err);
    if (status == ITER_OK && length > HEADER_BYTES_MAX) {
        status = iter__fail(err, ITER_EFORMAT, "%s: its header of %" PRIu32 " bytes is too long",
                            header->path, length);
    }
    if (status == ITER_OK) {
        text = iter__alloc((size_t)length + 1, 1);
        status = text ? iter__input_read(input, text, length, &got, err)
                      : iter__fail(err, ITER_ENOMEM, "%s: no memory for its header", header->path);
    }
    if (status == ITER_OK && got < length)
        status = iter__fail(err, ITER_EFORMAT, "%s: is truncated in its header", header->path);
    if (status == ITER_OK) {
        cursor c = {text, header->path};
        status = read_dictionary(header, &c, err);
    }
    if (status == ITER_OK) status = check_size(header, err);
    iter__free(text);
    iter__input_close(input);
    return status;
}
