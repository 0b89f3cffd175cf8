/*
 * format_npy.c - arrays as numpy.save() writes them.
 *
 * The first dimension counts the samples. Each array is a field. In C order it has its own extent
 * and is read in place; if its elements have the other byte order, they are swapped row by row. In
 * Fortran order a row is scattered over the whole file, so the array is transposed into memory when
 * it is opened, and counts in memory limits.
 */
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
#include "loaders/formats/npy_header.h"

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
    iter__npy_header head;
    void *rows;     /* of an array in Fortran order: all rows; else NULL */
    int32_t extent; /* of a sample, or ITER_FROM_INDEX */
} npy_array;

typedef struct npy_state {
    int n_arrays;
    npy_array arrays[ITER_MAX_EXTENTS];
    iter_file files[ITER_MAX_EXTENTS];
} npy_state;

/* Loads the rows of an array in Fortran order. If it has one axis, both orders are equal. */
static iter_status load_rows(npy_array *array, iter_error *err) {
    if (!array->head.fortran || array->head.n_dims == 1) return ITER_OK;
    const size_t width = iter_dtype_bytes(array->head.dtype);
    const iter__column_major columns = {.path = array->path,
                                        .offset = array->head.header_bytes,
                                        .dims = array->head.dims,
                                        .n_dims = array->head.n_dims,
                                        .width = width};
    ITER_TRY(iter__column_major_load(&columns, &array->rows, err));
    if (array->head.swapped)
        iter__swap_elements(array->rows, array->rows,
                            array->head.dims[0] * array->head.row_bytes / width, width);
    return ITER_OK;
}

/* ---- the set of arrays ----------------------------------------------------------------------- */

static void npy_close(void *state) {
    npy_state *s = state;
    for (int i = 0; i < ITER_MAX_EXTENTS; i++) {
        npy_array *array = &s->arrays[i];
        if (array->rows)
            iter__unmap(array->rows, (size_t)(array->head.dims[0] * array->head.row_bytes));
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
    ITER_TRY(iter__npy_header_read(path, &array->head, err));
    if (array->head.dims[0] != s->arrays[0].head.dims[0]) {
        return iter__fail(err, ITER_EFORMAT, "%s: has %" PRIu64 " samples, %s has %" PRIu64, path,
                          array->head.dims[0], iter__path_base(s->arrays[0].path),
                          s->arrays[0].head.dims[0]);
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

/* The .npy files of a folder, at most as many as a sample can have extents. */
typedef struct folder_names {
    const char *folder;
    char *names[ITER_MAX_EXTENTS];
    int n;
} folder_names;

static iter_status add_name(void *user, const iter__entry *entry, iter_error *err) {
    folder_names *f = user;
    if (stem_bytes(entry->name) == 0) return ITER_OK;
    if (f->n == ITER_MAX_EXTENTS)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: has more than %d .npy files", f->folder,
                          ITER_MAX_EXTENTS);
    f->names[f->n] = iter__strdup(entry->name);
    if (!f->names[f->n])
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its names", f->folder);
    f->n++;
    return ITER_OK;
}

static iter_status add_folder(npy_state *s, const char *folder, iter_error *err) {
    folder_names f = {.folder = folder};
    iter_status status = iter__folder_list(folder, add_name, &f, err);
    if (status == ITER_OK && f.n == 0)
        status = iter__fail(err, ITER_EIO, "%s: has no .npy file", folder);
    qsort(f.names, (size_t)f.n, sizeof(f.names[0]), compare_names);
    for (int i = 0; i < f.n; i++) {
        if (status == ITER_OK) {
            status = add_array(s, iter__path_join(folder, f.names[i]), f.names[i],
                               stem_bytes(f.names[i]), role_of(f.names[i]), err);
        }
        iter__free(f.names[i]);
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
    s->files[array->extent] = iter__file_entry(array->path, array->head.file_bytes);
    out->max_extent_bytes[array->extent] = array->head.row_bytes;
}

static void fill_field(const npy_array *array, iter_field *out) {
    memset(out, 0, sizeof(*out));
    memcpy(out->name, array->name, sizeof(out->name));
    out->role = array->role;
    out->desc.dtype = array->head.dtype;
    out->desc.n_dims = array->head.n_dims - 1;
    for (int32_t d = 1; d < array->head.n_dims; d++)
        out->desc.dims[d - 1] = (int64_t)array->head.dims[d];
    out->extent = array->extent;
    if (array->head.swapped && !array->rows) out->decoder = &iter__decoder_swapped;
}

static iter_status describe(npy_state *s, const npy_options *o, iter_description *out,
                            iter_error *err) {
    out->identity = iter__fnv1a_text(ITER_FNV_START, "npy");
    for (int i = 0; i < s->n_arrays; i++) {
        npy_array *array = &s->arrays[i];
        place_array(s, array, out);
        fill_field(array, &out->fields[i]);
        out->identity = iter__fnv1a_text(out->identity, iter__path_base(array->path));
        out->identity = iter__fnv1a_u64(out->identity, array->head.file_bytes);
    }
    out->n_samples = s->arrays[0].head.dims[0];
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
        out[array->extent] =
            (iter_extent){.object = (uint64_t)array->extent,
                          .offset = array->head.header_bytes + index * array->head.row_bytes,
                          .size = array->head.row_bytes};
    }
}

static void npy_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const npy_array *array = &((const npy_state *)state)->arrays[field];
    memcpy(row, (const char *)array->rows + index * array->head.row_bytes,
           (size_t)array->head.row_bytes);
}

static iter_status npy_resident(const void *state, int32_t field, const void **out_base,
                                size_t *out_stride) {
    const npy_array *array = &((const npy_state *)state)->arrays[field];
    *out_base = array->rows;
    *out_stride = (size_t)array->head.row_bytes;
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
