/*
 * format_recordio.c - MXNet's .rec files, with or without the .idx beside them.
 *
 * A sample is one record. Its extent goes from its head to the next one's. So the index needs 8
 * bytes a record, opening a million records reads only their .idx, and a record that was cut into
 * pieces is still one read.
 *
 * If a file has no .idx, opening walks through it. The result can be kept as an .idx, which other
 * programs read but which nothing ties to its .rec, or as a cache that is tied to it. Samples come
 * in the order of their offsets, file after file, as MXNet's own iterators have them. If
 * label-width is not given, the first record decides how many labels each has.
 *
 * Source: record.h names the layout's; MXNet, iter_image_recordio_2.cc for which label counts.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_record.h"
#include "loaders/files/file.h"
#include "loaders/files/record.h"
#include "loaders/formats/index_cache.h"
#include "loaders/formats/record_index.h"

#define LABELS_MAX       (1 << 20)
#define OBJECTS_MAX      65536
#define OBJECT_MAX       4096 /* numbers an object */
#define FIRST_BYTES_MAX  ((uint64_t)1 << 31)
#define FIRST_RECORDS    8 /* that are tried until one is not damaged */
#define DIM_MAX          (1 << 20)
#define HEADER_BYTES_MIN (ITER_RECORD_HEAD + ITER_RECORD_HEADER)

typedef enum decode { ITER_RECORD_IMAGE, ITER_RECORD_NONE } decode;

typedef struct recordio_options {
    iter_image_options image;
    const char *idx;
    bool save_idx;
    int32_t index_cache;
    bool header;
    int32_t decode;
    int32_t label_i32;
    const char *raw;
    int64_t label_width;
    int64_t objects;
} recordio_options;

static const iter_option option_rows[] = {
    ITER_ROW_STRING(
        "idx", "index file; default: the .idx beside the .rec if there is one; none = do without",
        recordio_options, idx, 0),
    ITER_ROW_BOOL("save-idx", "write the .idx beside a .rec that has none", recordio_options,
                  save_idx),
    ITER_INDEX_OPTION_ROW(recordio_options, index_cache),
    ITER_ROW_INT("label-width", "labels a record; 0 = as many as the first one has",
                 recordio_options, label_width, 0, LABELS_MAX, 0),
    ITER_ROW_INT("objects",
                 "labels are the objects of a detection set, at most so many a record; label is "
                 "then [K, width of an object]",
                 recordio_options, objects, 0, OBJECTS_MAX, 0),
    ITER_ROW_CHOICE("label-dtype", "what labels become", recordio_options, label_i32, "f32|i32"),
    ITER_ROW_CHOICE("decode", "what data is: an image, or none, the record's bytes",
                    recordio_options, decode, "image|none"),
    ITER_ROW_STRING("raw", "HxWxC: records hold such pixels as they are", recordio_options, raw, 0),
    ITER_ROW_BOOL("header", "no = records without MXNet's header and labels; data is their bytes",
                  recordio_options, header),
    ITER_IMAGE_OPTION_ROWS(recordio_options, image),
    ITER_ROW_END,
};

static const recordio_options defaults = {
    .image = ITER_IMAGE_OPTIONS_INIT,
    .header = true,
};

typedef struct recordio_state {
    iter__record_rule rule;
    bool by_index; /* the offsets come from an .idx */
    iter__span_set records;
} recordio_state;

static void recordio_close(void *state) {
    recordio_state *s = state;
    iter__span_set_free(&s->records);
    memset(s, 0, sizeof(*s));
}

/* ---- the records ----------------------------------------------------------------------------- */

/* "x.idx" for "x.rec". */
static char *beside(const char *rec) {
    const size_t n = strlen(rec);
    const size_t stem = n > 4 && strcmp(rec + n - 4, ".rec") == 0 ? n - 4 : n;
    return iter__strf("%.*s.idx", (int)stem, rec);
}

/* The .idx to read or to write. */
static char *index_of(const char *rec, const recordio_options *o) {
    return o->idx && strcmp(o->idx, "none") != 0 ? iter__strdup(o->idx) : beside(rec);
}

static iter_status cached_file(iter__span_set *records, iter_error *err) {
    iter__index_cache cache = {
        .kind = ITER_INDEX_RECORDIO, .min_bytes = ITER_RECORD_HEAD, .align = 4};
    bool there = false;
    iter_status status = iter__index_cache_load(&cache, records, &there, err);
    if (status == ITER_OK && !there) {
        status = iter__record_index_scan(records, err);
        if (status == ITER_OK) status = iter__index_cache_save(&cache, records, err);
    }
    iter__index_cache_free(&cache);
    return status;
}

typedef struct filling {
    const recordio_options *options;
    bool *by_index; /* [n]: the file has an .idx */
} filling;

/* Adds the records of the next file, from its index or by a scan. */
static iter_status add_file(void *user, iter__span_set *records, uint64_t f, iter_error *err) {
    const filling *filled = user;
    const recordio_options *o = filled->options;
    const iter_file *file = &records->files[records->n_done];
    const char *rec = file->path;
    const bool none = o->idx && strcmp(o->idx, "none") == 0;
    char *idx = index_of(rec, o);
    if (!idx) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a file name", rec);

    iter_status status;
    if (!none && (o->idx || iter__path_exists(idx))) {
        status = iter__record_index_load(records, idx, err);
        filled->by_index[f] = true;
    } else {
        status = iter__index_cache_wanted(o->index_cache, file)
                     ? cached_file(records, err)
                     : iter__record_index_scan(records, err);
        if (status == ITER_OK && o->save_idx) status = iter__record_index_save(records, idx, err);
    }
    iter__free(idx);
    return status;
}

static iter_status add_files(recordio_state *s, const char *path, const recordio_options *o,
                             iter_error *err) {
    ITER_TRY(iter__span_set_open(&s->records, path, ".rec", err));
    const uint64_t n = s->records.paths.n;
    if (n > 1 && o->idx && strcmp(o->idx, "none") != 0) {
        return iter__fail(err, ITER_EINVAL, "%s: names %" PRIu64 " files, idx=%s is for one", path,
                          n, o->idx);
    }
    filling filled = {.options = o, .by_index = iter__alloc((size_t)n, sizeof(bool))};
    if (!filled.by_index) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    const iter_status status = iter__span_set_fill_all(&s->records, add_file, &filled, err);
    for (uint64_t f = 0; f < n; f++)
        s->by_index |= filled.by_index[f];
    iter__free(filled.by_index);
    ITER_TRY(status);
    iter__span_set_trim(&s->records);
    if (iter__span_set_count(&s->records) == 0)
        return iter__fail(err, ITER_EFORMAT, "%s: holds no records", path);
    return ITER_OK;
}

/* ---- the description ------------------------------------------------------------------------- */

/* The error for a record at x that an .idx has and the file has not. */
static iter_status no_record(const recordio_state *s, const recordio_options *o, iter_extent x,
                             iter_status status, iter_error *err) {
    const char *path = s->records.files[x.object].path;
    status = iter__fail_in(err, status, "%s: at %" PRIu64, path, x.offset);
    char *idx = s->by_index ? index_of(path, o) : NULL;
    if (idx) status = iter__record_index_doubt(idx, path, status, err);
    iter__free(idx);
    return status;
}

static float second_label(iter__record *record) {
    (void)iter__record_read_label(record);
    return iter__record_read_label(record);
}

/* What the first record's labels say of all. */
typedef struct first_labels {
    int32_t n;
    float object_width; /* the second label, 0 = there are not as many */
} first_labels;

/* Counts a record's labels. Fails if there is no record at the place that the index gives. */
static iter_status read_labels(const recordio_state *s, const recordio_options *o, uint64_t index,
                               first_labels *out, iter_error *err) {
    const iter_extent x = iter__span_set_locate(&s->records, index);
    const char *path = s->records.files[x.object].path;
    iter__record record;
    iter__record_header header = {0};
    float second = 0;
    size_t done = 0;
    iter__data_file file;
    if (x.size > FIRST_BYTES_MAX) {
        return iter__fail(err, ITER_EFORMAT, "%s: the record at %" PRIu64 " has %" PRIu64 " bytes",
                          path, x.offset, x.size);
    }
    uint8_t *memory = iter__alloc((size_t)x.size, 1);
    if (!memory) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a record", path);
    iter_status status = iter__file_open(path, &file, err);
    if (status == ITER_OK) {
        status = iter__file_read_at(&file, x.offset, memory, (size_t)x.size, &done, err);
        iter__file_close(&file);
        if (status == ITER_OK) {
            status = iter__record_open(&record, memory, done, err);
            if (status < 0) {
                status = no_record(s, o, x, status, err);
            } else if (s->rule.header) {
                status = iter__record_read_header(&record, &header, err);
                if (status < 0)
                    status = iter__fail_in(err, status, "%s: at %" PRIu64, path, x.offset);
                else if (header.flag >= 2)
                    second = second_label(&record);
            }
        }
    }
    iter__free(memory);
    out->n = header.flag <= LABELS_MAX ? (int32_t)header.flag : LABELS_MAX;
    out->object_width = second;
    return status;
}

/* Counts the labels of the first record. If it is damaged, it will be a failed sample, and a later
 * one is tried. If none of the first few is sound, this is no such file, and the error is that of
 * the first one. */
static iter_status read_first(const recordio_state *s, const recordio_options *o, first_labels *out,
                              iter_error *err) {
    const uint64_t n = iter__span_set_count(&s->records);
    const iter_status status = read_labels(s, o, 0, out, err);
    if (status != ITER_EFORMAT) return status;
    for (uint64_t i = 1; i < n && i < FIRST_RECORDS; i++)
        if (read_labels(s, o, i, out, NULL) == ITER_OK) return ITER_OK;
    return status;
}

static iter_status check_objects(recordio_state *s, const recordio_options *o,
                                 const first_labels *first, iter_error *err) {
    if (o->objects == 0) return ITER_OK;
    const char *path = s->records.files[0].path;
    if (!o->header || o->label_i32 || o->label_width)
        return iter__fail(err, ITER_EINVAL,
                          "%s: objects= goes with neither header=no, label-dtype nor label-width",
                          path);
    const float width = first->object_width;
    if (!(width >= 5 && width <= OBJECT_MAX) || width != (float)(int32_t)width)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: the first record's labels are no objects: the second of them, an "
                          "object's width, is %g, expected 5 to %d",
                          path, (double)width, OBJECT_MAX);
    s->rule.objects = (int32_t)o->objects;
    s->rule.object_width = (int32_t)width;
    return ITER_OK;
}

/* "224x224x3" */
static iter_status read_raw(const char *text, iter_desc *out, iter_error *err) {
    const char *p = text;
    *out = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
    for (int d = 0; d < 3; d++) {
        for (; *p >= '0' && *p <= '9' && out->dims[d] <= DIM_MAX; p++)
            out->dims[d] = 10 * out->dims[d] + (*p - '0');
        if (out->dims[d] < 1 || out->dims[d] > DIM_MAX || *p++ != (d < 2 ? 'x' : '\0')) {
            return iter__fail(err, ITER_EINVAL, "raw=%s is not HEIGHTxWIDTHxCHANNELS", text);
        }
    }
    return ITER_OK;
}

static iter_status describe_data(const recordio_state *s, const recordio_options *o,
                                 iter_field *field, iter_error *err) {
    memset(field, 0, sizeof(*field));
    strcpy(field->name, "data");
    field->role = ITER_DATA;
    field->decoder = &iter__decoder_record_bytes;
    if (o->raw) return read_raw(o->raw, &field->desc, err);
    if (!o->header || o->decode == ITER_RECORD_NONE) {
        const uint64_t head = o->header ? HEADER_BYTES_MIN : ITER_RECORD_HEAD;
        field->desc = (iter_desc){.dtype = ITER_U8, .n_dims = 1, .dims = {ITER_VARIABLE}};
        field->desc.capacity = s->records.largest > head ? (int64_t)(s->records.largest - head) : 1;
        return ITER_OK;
    }
    field->decoder = &iter__decoder_record_image;
    field->desc = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
    field->desc.dims[0] = field->desc.dims[1] = ITER_VARIABLE;
    field->desc.dims[2] = iter__image_channels(&o->image);
    return ITER_OK;
}

static void describe_label(const recordio_state *s, const recordio_options *o, iter_field *field) {
    memset(field, 0, sizeof(*field));
    strcpy(field->name, "label");
    field->role = ITER_LABEL;
    if (o->objects) {
        field->decoder = &iter__decoder_record_objects;
        field->desc = (iter_desc){.dtype = ITER_F32,
                                  .n_dims = 2,
                                  .dims = {ITER_VARIABLE, s->rule.object_width},
                                  .capacity = o->objects};
        return;
    }
    field->decoder = &iter__decoder_record_label;
    field->desc.dtype = o->label_i32 ? ITER_I32 : ITER_F32;
    if (s->rule.label_width > 1) {
        field->desc.n_dims = 1;
        field->desc.dims[0] = s->rule.label_width;
    }
}

static uint64_t identity_of(const recordio_state *s, const recordio_options *o) {
    const int64_t numbers[] = {o->header,    o->decode,         s->rule.label_width,
                               o->label_i32, o->image.channels, o->image.orient,
                               o->objects};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "recordio");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    hash = iter__fnv1a_text(hash, o->raw ? o->raw : "");
    return iter__span_set_identity(&s->records, hash);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status open_all(recordio_state *s, const char *path, const recordio_options *o,
                            iter_description *out, iter_error *err) {
    first_labels first = {0};
    s->rule = (iter__record_rule){.image = o->image, .header = o->header};
    ITER_TRY(add_files(s, path, o, err));
    ITER_TRY(read_first(s, o, &first, err));
    const int32_t labels = o->label_width ? (int32_t)o->label_width : first.n;
    ITER_TRY(check_objects(s, o, &first, err));
    s->rule.label_width = iter__max_i32(labels, 1);
    s->rule.head_bytes = ITER_RECORD_HEAD;
    if (o->header) s->rule.head_bytes += ITER_RECORD_HEADER + 4 * (uint32_t)first.n;
    ITER_TRY(describe_data(s, o, &out->fields[0], err));
    if (o->header) describe_label(s, o, &out->fields[1]);
    out->n_fields = o->header ? 2 : 1;
    iter__span_set_describe(&s->records, out);
    out->shared = &s->rule;
    out->identity = identity_of(s, o);
    return ITER_OK;
}

static void recordio_locate(const void *state, uint64_t index, iter_extent *out) {
    const recordio_state *s = state;
    *out = iter__span_set_locate(&s->records, index);
}

static iter_status recordio_open(void *state, const char *path, const void *options,
                                 iter_description *out, iter_error *err) {
    const iter_status status = open_all(state, path, options, out, err);
    if (status < 0) recordio_close(state);
    return status;
}

const iter_format_ops iter__format_recordio = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "recordio",
             .help = "MXNet's .rec files: one, a folder, or a pattern (\"train-{000..012}.rec\")",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(recordio_options),
             .state_size = sizeof(recordio_state)},
    .open = recordio_open,
    .close = recordio_close,
    .locate = recordio_locate,
};
