/*
 * format_mnist.c - IDX files: MNIST and its successors (Fashion-, K-, EMNIST), or any pair of IDX
 * files.
 *
 * An IDX file is: two zero bytes, a type code, the number of dimensions, each dimension as a
 * big-endian u32, then the elements in C order, big-endian. The rows of a plain file are extents;
 * elements of several bytes are swapped row by row. A gzipped file is inflated when the set is
 * opened, because gzip cannot be read from the middle; its bytes count in memory limits. If a row
 * of labels is short, the labels are loaded, too: a read for each would cost more than the label.
 *
 * Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section "File
 * formats".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_swapped.h"
#include "loaders/files/byte_order.h"
#include "loaders/files/file.h"
#include "loaders/formats/array_layout.h"

#define LABEL_BYTES 64 /* longer rows of labels are read as images are */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OTHER_ORDER 1 /* this machine's byte order is not that of the files */
#else
#define OTHER_ORDER 0
#endif

typedef enum split { ITER_SPLIT_TRAIN, ITER_SPLIT_TEST } split;

typedef struct mnist_options {
    int32_t split;
    const char *images;
    const char *labels;
    int32_t layout;
} mnist_options;

static const iter_option option_rows[] = {
    ITER_ROW_CHOICE("split", "which pair of files of the folder", mnist_options, split,
                    "train|test"),
    ITER_ROW_STRING("images", "an IDX file in the folder, instead of the published name",
                    mnist_options, images, 0),
    ITER_ROW_STRING("labels", "an IDX file in the folder with the labels of images=", mnist_options,
                    labels, 0),
    ITER_ARRAY_LAYOUT_ROW(mnist_options, layout),
    ITER_ROW_END,
};

/* One IDX file. */
typedef struct idx_file {
    char *path; /* NULL = absent */
    iter_dtype dtype;
    int32_t n_dims;
    uint64_t dims[ITER_MAX_DIMS];
    uint64_t header_bytes, data_bytes, row_bytes;
    uint64_t file_bytes;
    void *rows;     /* data_bytes in this machine's byte order; NULL = read by extents */
    int32_t extent; /* of a sample, or ITER_FROM_INDEX */
} idx_file;

typedef struct mnist_state {
    idx_file arrays[2]; /* in the order of the fields: images, labels */
    int n_arrays;
    iter_file files[2]; /* the arrays that are read by extents */
} mnist_state;

/* ---- one IDX file ---------------------------------------------------------------------------- */

static iter_dtype dtype_of_code(unsigned code) {
    switch (code) {
    case 0x08: return ITER_U8;
    case 0x09: return ITER_I8;
    case 0x0b: return ITER_I16;
    case 0x0c: return ITER_I32;
    case 0x0d: return ITER_F32;
    case 0x0e: return ITER_F64;
    default: return ITER_DTYPE_NONE;
    }
}

static iter_status read_exactly(iter__input *input, const char *path, void *out, uint64_t n,
                                iter_error *err) {
    size_t done = 0;
    ITER_TRY(iter__input_read(input, out, (size_t)n, &done, err));
    if (done != n) {
        return iter__fail(err, ITER_EFORMAT, "%s: is truncated: %zu of %" PRIu64 " bytes are there",
                          path, done, n);
    }
    return ITER_OK;
}

/* Fills dims and sizes from the dimensions' bytes. */
static iter_status read_dims(idx_file *idx, const unsigned char *bytes, iter_error *err) {
    uint64_t row_bytes = iter_dtype_bytes(idx->dtype);
    for (int32_t i = 0; i < idx->n_dims; i++) {
        const uint64_t dim = iter__get_be32(bytes + 4 * (size_t)i);
        idx->dims[i] = dim;
        if (dim == 0) {
            return iter__fail(err, ITER_EFORMAT, "%s: dimension %" PRId32 " is 0: %s", idx->path, i,
                              i == 0 ? "it holds no samples" : "its samples hold nothing");
        }
        if (i > 0 && (dim > INT32_MAX || __builtin_mul_overflow(row_bytes, dim, &row_bytes)))
            return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", idx->path);
    }
    idx->row_bytes = row_bytes;
    /* Half of the range, so that neither sums with offsets nor a signed dimension overflow. */
    if (__builtin_mul_overflow(row_bytes, idx->dims[0], &idx->data_bytes) ||
        idx->data_bytes > INT64_MAX / 2)
        return iter__fail(err, ITER_EFORMAT, "%s: its dimensions overflow", idx->path);
    return ITER_OK;
}

static iter_status read_header(idx_file *idx, iter__input *input, iter_error *err) {
    unsigned char bytes[4 + 4 * ITER_MAX_DIMS];
    size_t got = 0;
    ITER_TRY(iter__input_read(input, bytes, 4, &got, err));
    if (got == 0) return iter__fail(err, ITER_EFORMAT, "%s: is empty", idx->path);
    if (got < 4 || bytes[0] != 0 || bytes[1] != 0) {
        return iter__fail(err, ITER_EFORMAT, "%s: is not an IDX file: it begins with %02x %02x",
                          idx->path, bytes[0], got > 1 ? bytes[1] : 0u);
    }
    idx->dtype = dtype_of_code(bytes[2]);
    if (idx->dtype == ITER_DTYPE_NONE) {
        return iter__fail(err, ITER_EFORMAT, "%s: IDX type code 0x%02x is unknown", idx->path,
                          bytes[2]);
    }
    if (bytes[3] < 1 || bytes[3] > ITER_MAX_DIMS) {
        return iter__fail(err, ITER_EFORMAT, "%s: has %u dimensions, 1 to %d are possible",
                          idx->path, bytes[3], ITER_MAX_DIMS);
    }
    idx->n_dims = bytes[3];
    idx->header_bytes = 4 + 4 * (uint64_t)idx->n_dims;
    ITER_TRY(read_exactly(input, idx->path, bytes + 4, idx->header_bytes - 4, err));
    return read_dims(idx, bytes + 4, err);
}

/* Fails if the file's size is not what the header promises. */
static iter_status check_size(const idx_file *idx, const iter__input *input, iter_error *err) {
    const uint64_t promised = idx->header_bytes + idx->data_bytes;
    const uint64_t most = iter__input_most_bytes(input);
    if (iter__input_is_gzip(input) ? promised <= most : promised == most) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "%s: its header says %" PRIu64 " samples of %" PRIu64 " bytes, so %" PRIu64
                      " bytes with the header; %s %" PRIu64,
                      idx->path, idx->dims[0], idx->row_bytes, promised,
                      iter__input_is_gzip(input) ? "gzip data of its size can hold at most"
                                                 : "the file has",
                      most);
}

static iter_status load_rows(idx_file *idx, iter__input *input, iter_error *err) {
    idx->rows = iter__map((size_t)idx->data_bytes);
    if (!idx->rows) {
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its %" PRIu64 " bytes", idx->path,
                          idx->data_bytes);
    }
    ITER_TRY(read_exactly(input, idx->path, idx->rows, idx->data_bytes, err));
    unsigned char more;
    size_t got = 0;
    ITER_TRY(iter__input_read(input, &more, 1, &got, err));
    if (got > 0) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: has more than the %" PRIu64 " bytes that its header says", idx->path,
                          idx->header_bytes + idx->data_bytes);
    }
    const size_t width = iter_dtype_bytes(idx->dtype);
    if (OTHER_ORDER) iter__swap_elements(idx->rows, idx->rows, idx->data_bytes / width, width);
    return ITER_OK;
}

/* Opens idx->path. Loads the rows if they are gzipped or at most `load_bytes` long. */
static iter_status idx_open(idx_file *idx, uint64_t load_bytes, iter_error *err) {
    iter__input *input = NULL;
    ITER_TRY(iter__input_open(idx->path, &input, err));
    iter_status status = read_header(idx, input, err);
    if (status == ITER_OK) status = check_size(idx, input, err);
    if (status == ITER_OK) {
        idx->file_bytes = idx->header_bytes + idx->data_bytes;
        if (iter__input_is_gzip(input) || idx->row_bytes <= load_bytes)
            status = load_rows(idx, input, err);
    }
    iter__input_close(input);
    return status;
}

/* ---- the pair -------------------------------------------------------------------------------- */

static void mnist_close(void *state) {
    mnist_state *s = state;
    for (int i = 0; i < 2; i++) {
        if (s->arrays[i].rows) iter__unmap(s->arrays[i].rows, (size_t)s->arrays[i].data_bytes);
        iter__free(s->arrays[i].path);
    }
    memset(s, 0, sizeof(*s));
}

static iter_status no_memory(const char *path, iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", path);
}

/* The file published as "<set>-<what>-idx<rank>-ubyte", with '-' or '.' before idx, gzipped or
 * not. */
static iter_status find_published(const char *folder, split which, const char *what, int rank,
                                  char **out, iter_error *err) {
    static const char *const endings[] = {"", ".gz"};
    const char *set = which == ITER_SPLIT_TEST ? "t10k" : "train";
    iter_error first = {ITER_OK, ""}; /* why it could not be told whether a file is there */
    for (int e = 0; e < 2; e++) {
        for (int dot = 0; dot < 2; dot++) {
            char *path = iter__strf("%s/%s-%s%cidx%d-ubyte%s", folder, set, what, dot ? '.' : '-',
                                    rank, endings[e]);
            if (!path) return no_memory(folder, err);
            bool is_missing = true;
            iter_error own;
            const iter_status status = iter__path_is_missing(path, &is_missing, &own);
            if (status == ITER_OK && !is_missing) {
                *out = path;
                return ITER_OK;
            }
            if (status < 0 && first.status == ITER_OK) first = own;
            iter__free(path);
        }
    }
    if (first.status < 0) {
        if (err) *err = first;
        return first.status;
    }
    return iter__fail(err, ITER_EIO,
                      "%s: has no file %s-%s-idx%d-ubyte, nor one with .idx%d, nor a .gz of these",
                      folder, set, what, rank, rank);
}

/* Finds the paths of images and, if there are any, of labels. The caller frees them after an error,
 * too. */
static iter_status find_files(const char *path, const mnist_options *o, char *out[2],
                              iter_error *err) {
    const bool folder = iter__path_is_folder(path);
    if (folder && !o->images) {
        ITER_TRY(find_published(path, (split)o->split, "images", 3, &out[0], err));
        if (!o->labels) return find_published(path, (split)o->split, "labels", 1, &out[1], err);
    }
    if (!out[0]) {
        const bool file = !folder && iter__path_exists(path);
        if (o->images && file) {
            return iter__fail(err, ITER_EINVAL,
                              "%s: is a file, so images= cannot name another one beside it", path);
        }
        out[0] = o->images ? iter__path_join(path, o->images) : iter__strdup(path);
        if (!out[0]) return no_memory(path, err);
    }
    if (o->labels) {
        out[1] = iter__path_join(folder || o->images ? path : "", o->labels);
        if (!out[1]) return no_memory(path, err);
    }
    return ITER_OK;
}

static iter_status open_arrays(mnist_state *s, const char *path, const mnist_options *o,
                               iter_error *err) {
    char *paths[2] = {NULL, NULL};
    const iter_status found = find_files(path, o, paths, err);
    s->arrays[0].path = paths[0]; /* mnist_close() frees them from here on */
    s->arrays[1].path = paths[1];
    ITER_TRY(found);
    ITER_TRY(idx_open(&s->arrays[0], 0, err));
    s->n_arrays = 1;
    if (!paths[1]) return ITER_OK;
    ITER_TRY(idx_open(&s->arrays[1], LABEL_BYTES, err));
    s->n_arrays = 2;
    if (s->arrays[0].dims[0] != s->arrays[1].dims[0]) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: has %" PRIu64 " labels, %s has %" PRIu64 " images", paths[1],
                          s->arrays[1].dims[0], iter__path_base(paths[0]), s->arrays[0].dims[0]);
    }
    return ITER_OK;
}

static iter_status fill_field(const idx_file *idx, const mnist_options *o, iter_role role,
                              iter_field *out, iter_error *err) {
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "%s", role == ITER_LABEL ? "label" : "data");
    out->role = role;
    out->desc.dtype = idx->dtype;
    out->desc.n_dims = idx->n_dims - 1;
    for (int32_t i = 1; i < idx->n_dims; i++)
        out->desc.dims[i - 1] = (int64_t)idx->dims[i];
    out->extent = idx->extent;
    if (!idx->rows && OTHER_ORDER && iter_dtype_bytes(idx->dtype) > 1)
        out->decoder = &iter__decoder_swapped;
    if (role == ITER_LABEL) return ITER_OK;
    if (idx->n_dims == 3) memcpy(out->desc.layout, "HW", 3);
    return iter__array_layout_apply((iter__array_layout)o->layout, idx->path, &out->desc, err);
}

/* The largest label + 1 for labels of bytes, else 0. */
static int32_t count_classes(const idx_file *labels) {
    if (labels->dtype != ITER_U8 || labels->n_dims != 1) return 0;
    const unsigned char *rows = labels->rows;
    int32_t most = 0;
    for (uint64_t i = 0; i < labels->data_bytes; i++)
        most = rows[i] > most ? rows[i] : most;
    return most + 1;
}

/* The same hash for a file and its gzipped twin: of the name without .gz, and of the inflated
 * sizes. */
static uint64_t hash_array(uint64_t hash, const idx_file *idx) {
    const char *name = iter__path_base(idx->path);
    size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".gz") == 0) n -= 3;
    hash = iter__fnv1a(hash, name, n);
    return iter__fnv1a_u64(hash, idx->file_bytes);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Gives an extent to each array that is not in memory. */
static void place_arrays(mnist_state *s, iter_description *out) {
    for (int i = 0; i < s->n_arrays; i++) {
        idx_file *idx = &s->arrays[i];
        idx->extent = ITER_FROM_INDEX;
        if (idx->rows) continue;
        idx->extent = out->n_extents++;
        s->files[idx->extent] = iter__file_entry(idx->path, idx->file_bytes);
        out->max_extent_bytes[idx->extent] = idx->row_bytes;
    }
    out->files = s->files;
    out->n_files = (uint64_t)out->n_extents;
}

static iter_status describe(mnist_state *s, const mnist_options *o, iter_description *out,
                            iter_error *err) {
    out->n_samples = s->arrays[0].dims[0];
    out->n_fields = s->n_arrays;
    out->identity = iter__fnv1a_text(ITER_FNV_START, "mnist");
    place_arrays(s, out);
    for (int i = 0; i < s->n_arrays; i++) {
        ITER_TRY(fill_field(&s->arrays[i], o, i ? ITER_LABEL : ITER_DATA, &out->fields[i], err));
        out->identity = hash_array(out->identity, &s->arrays[i]);
    }
    if (s->n_arrays > 1) out->n_classes = count_classes(&s->arrays[1]);
    return ITER_OK;
}

static iter_status mnist_open(void *state, const char *path, const void *options,
                              iter_description *out, iter_error *err) {
    mnist_state *s = state;
    const mnist_options *o = options;
    iter_status status = open_arrays(s, path, o, err);
    if (status == ITER_OK) status = describe(s, o, out, err);
    if (status < 0) {
        mnist_close(s);
        return status;
    }
    const bool published = !o->images && iter__path_is_folder(path);
    out->split = !published ? "" : o->split == ITER_SPLIT_TEST ? "test" : "train";
    return ITER_OK;
}

static void mnist_locate(const void *state, uint64_t index, iter_extent *out) {
    const mnist_state *s = state;
    for (int i = 0; i < s->n_arrays; i++) {
        const idx_file *idx = &s->arrays[i];
        if (idx->rows) continue;
        out[idx->extent] = (iter_extent){.object = (uint64_t)idx->extent,
                                         .offset = idx->header_bytes + index * idx->row_bytes,
                                         .size = idx->row_bytes};
    }
}

static void mnist_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const idx_file *idx = &((const mnist_state *)state)->arrays[field];
    memcpy(row, (const char *)idx->rows + index * idx->row_bytes, (size_t)idx->row_bytes);
}

static iter_status mnist_resident(const void *state, int32_t field, const void **out_base,
                                  size_t *out_stride) {
    const idx_file *idx = &((const mnist_state *)state)->arrays[field];
    *out_base = idx->rows;
    *out_stride = (size_t)idx->row_bytes;
    return ITER_OK; /* NULL for rows that are read by extents */
}

const iter_format_ops iter__format_mnist = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "mnist",
             .help = "MNIST and all IDX files, gzipped or not: a folder, or an IDX file",
             .options = option_rows,
             .options_size = sizeof(mnist_options),
             .state_size = sizeof(mnist_state)},
    .open = mnist_open,
    .close = mnist_close,
    .locate = mnist_locate,
    .index_row = mnist_index_row,
    .resident = mnist_resident,
};
