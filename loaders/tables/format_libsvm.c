/*
 * format_libsvm.c - sparse rows as text: "LABEL INDEX:VALUE ...", one sample a line.
 *
 * A row becomes a dense one of `features` numbers, or two rows of varying length, indices and
 * values, as they are in a CSR matrix.
 *
 * Source: decode_libsvm.c names the layout's; MXNet, LibSVMIter.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/formats/index_cache.h"
#include "loaders/tables/decode_libsvm.h"
#include "loaders/tables/number_text.h"
#include "loaders/tables/row_set.h"

#define VALUE_BYTES_MIN 4u /* " 1:2" */

typedef enum layout { ITER_SVM_DENSE, ITER_SVM_CSR } layout;

typedef struct libsvm_options {
    int64_t features;
    int32_t layout;
    int64_t base;
    int32_t dtype, label_dtype;
    int64_t max_row;
    int32_t index_cache;
} libsvm_options;

static const libsvm_options defaults = {.base = 1, .max_row = (int64_t)ITER_ROW_BYTES_MAX};

static const iter_option option_rows[] = {
    ITER_ROW_INT("features", "numbers in a dense row; a larger index fails its sample",
                 libsvm_options, features, 0, INT32_MAX, 1),
    ITER_ROW_CHOICE("layout", "dense: data [features]; csr: indices and values, of varying length",
                    libsvm_options, layout, "dense|csr"),
    ITER_ROW_INT("base", "index of the first feature: 1, as LIBSVM's files, or 0, as MXNet's",
                 libsvm_options, base, 0, 1, 0),
    ITER_ROW_DTYPE("dtype", "of the values; default f32", libsvm_options, dtype, 0),
    ITER_ROW_DTYPE("label-dtype", "of label; default f32", libsvm_options, label_dtype, 0),
    ITER_ROW_INT("max-row", "bytes of a row; a longer one is a failed sample", libsvm_options,
                 max_row, 16, 1 << 30, 0),
    ITER_INDEX_OPTION_ROW(libsvm_options, index_cache),
    ITER_ROW_END,
};

typedef struct libsvm_state {
    iter__row_set rows;
    iter__libsvm_rule rule;
    iter_dtype dtype, label_dtype;
} libsvm_state;

static void libsvm_close(void *state) {
    libsvm_state *s = state;
    iter__row_set_free(&s->rows);
    memset(s, 0, sizeof(*s));
}

static iter_status check_options(libsvm_state *s, const libsvm_options *o, iter_error *err) {
    s->dtype = o->dtype ? (iter_dtype)o->dtype : ITER_F32;
    s->label_dtype = o->label_dtype ? (iter_dtype)o->label_dtype : ITER_F32;
    s->rule = (iter__libsvm_rule){
        .base = o->base, .n_features = o->features, .max_bytes = (uint64_t)o->max_row};
    if (!iter__number_has(s->dtype) || !iter__number_has(s->label_dtype))
        return iter__fail(err, ITER_EINVAL,
                          "dtype and label-dtype: expected f32, f64 or an integer type (the stage "
                          "cast makes others)");
    if (o->layout == ITER_SVM_DENSE && o->features == 0)
        return iter__fail(err, ITER_EINVAL,
                          "features= is needed: how many numbers a dense row has (layout=csr does "
                          "without)");
    return ITER_OK;
}

static uint64_t identity_of(const libsvm_state *s, const libsvm_options *o) {
    const int64_t numbers[] = {o->features, o->layout,      o->base,
                               s->dtype,    s->label_dtype, o->max_row};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "libsvm");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    return iter__span_set_identity(&s->rows.spans, hash);
}

/* Describes the field after the others. */
static void add_field(iter_description *out, const char *name, iter_role role, iter_desc desc,
                      const iter_decoder_ops *decoder) {
    iter_field *field = &out->fields[out->n_fields++];
    memset(field, 0, sizeof(*field));
    strcpy(field->name, name);
    field->role = role;
    field->desc = desc;
    field->decoder = decoder;
}

static void fill_description(const libsvm_state *s, const libsvm_options *o,
                             iter_description *out) {
    const iter_desc dense = {.dtype = s->dtype, .n_dims = 1, .dims = {o->features}};
    const iter_desc label = {.dtype = s->label_dtype};
    int64_t most = (int64_t)(iter__row_set_largest(&s->rows) / VALUE_BYTES_MIN + 1);
    if (o->features) most = iter__min_i64(most, o->features);
    iter_desc list = {
        .dtype = s->dtype, .n_dims = 1, .dims = {ITER_VARIABLE}, .capacity = most, .layout = "T"};
    if (o->layout == ITER_SVM_DENSE) {
        add_field(out, "data", ITER_DATA, dense, &iter__decoder_libsvm_dense);
    } else {
        add_field(out, "values", ITER_DATA, list, &iter__decoder_libsvm_values);
        list.dtype = ITER_I32;
        add_field(out, "indices", ITER_DATA, list, &iter__decoder_libsvm_indices);
    }
    add_field(out, "label", ITER_LABEL, label, &iter__decoder_libsvm_label);
    iter__row_set_describe(&s->rows, out);
    out->shared = &s->rule;
    out->identity = identity_of(s, o);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status libsvm_open(void *state, const char *path, const void *options,
                               iter_description *out, iter_error *err) {
    libsvm_state *s = state;
    const libsvm_options *o = options;
    const iter__row_rule rule = {.comment = '#', .max_bytes = (uint64_t)o->max_row};
    iter_status status = check_options(s, o, err);
    if (status == ITER_OK) status = iter__row_set_open(&s->rows, path, ".libsvm", err);
    if (status == ITER_OK)
        status = iter__row_set_scan(&s->rows, &rule, o->index_cache, ITER_INDEX_ROWS, err);
    if (status < 0) {
        libsvm_close(s);
        return status;
    }
    s->rule.room = iter__row_set_largest(&s->rows);
    fill_description(s, o, out);
    return ITER_OK;
}

static void libsvm_locate(const void *state, uint64_t index, iter_extent *out) {
    *out = iter__row_set_locate(&((const libsvm_state *)state)->rows, index);
}

static void libsvm_place(const void *state, uint64_t index, char *out, size_t capacity) {
    iter__row_set_place(&((const libsvm_state *)state)->rows, index, out, capacity);
}

/* How many values a row has is known only after it is read; its bytes grow with them. */
static int64_t libsvm_length(const void *state, uint64_t index) {
    return (int64_t)iter__row_set_locate(&((const libsvm_state *)state)->rows, index).size;
}

const iter_format_ops iter__format_libsvm = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "libsvm",
             .help = "sparse rows as text, LABEL INDEX:VALUE ...: a file, a folder of .libsvm "
                     "files, or a pattern",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(libsvm_options),
             .state_size = sizeof(libsvm_state)},
    .open = libsvm_open,
    .close = libsvm_close,
    .locate = libsvm_locate,
    .length = libsvm_length,
    .place = libsvm_place,
};
