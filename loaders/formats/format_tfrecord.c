/*
 * format_tfrecord.c - TensorFlow's TFRecord files, whose records are tf.Examples or any bytes.
 *
 * A sample is one record, and its extent the whole of it, so that a decoder can compare its sums.
 * A file has no index: opening walks from head to head, unless index-cache= keeps what it finds.
 * The sum of a length is compared then, because without a length that is right no later record can
 * be found. The sum of the data is compared when the record is read.
 *
 * fields= names features of a tf.Example; without it a sample is the record's bytes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/decoders/decode_tfrecord.h"
#include "loaders/files/tfrecord.h"
#include "loaders/files/window.h"
#include "loaders/formats/index_cache.h"
#include "loaders/formats/span_set.h"

#define FIRST_BYTES_MAX ((uint64_t)1 << 31)
#define FIRST_RECORDS   8 /* that are tried until one is not damaged */
#define VALUES_MAX      ((int64_t)1 << 32)

typedef struct tfrecord_options {
    iter_image_options image;
    const char *fields;
    int32_t index_cache;
} tfrecord_options;

static const iter_option option_rows[] = {
    ITER_ROW_STRING("fields",
                    "NAME:FEATURE of a tf.Example, between ','; its kind may follow: image, bytes, "
                    "i64, f32, i64x3 = three of them, i64* = any number, i64*9 = at most 9",
                    tfrecord_options, fields, 0),
    ITER_INDEX_OPTION_ROW(tfrecord_options, index_cache),
    ITER_IMAGE_OPTION_ROWS(tfrecord_options, image),
    ITER_ROW_END,
};

static const tfrecord_options defaults = {.image = ITER_IMAGE_OPTIONS_INIT};

typedef struct tfrecord_state {
    iter__tfrecord_rule rule;
    iter__span_set records;
    char *fields; /* the text that names and rules point into */
    const char *names[ITER_MAX_FIELDS];
} tfrecord_state;

static void tfrecord_close(void *state) {
    tfrecord_state *s = state;
    iter__span_set_free(&s->records);
    iter__free(s->fields);
    memset(s, 0, sizeof(*s));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* "x3", "*", or "*9" after i64 or f32. */
static bool read_number_kind(const char *p, iter__tfrecord_field_rule *rule) {
    if (!*p) return true;
    rule->varies = *p == '*';
    if (*p != 'x' && *p != '*') return false;
    if (rule->varies && !p[1]) return true; /* n from the largest record */
    if (p[1] < '1' || p[1] > '9') return false;
    char *end;
    const long long n = strtoll(p + 1, &end, 10);
    rule->n = n;
    return *end == '\0' && n <= VALUES_MAX;
}

static bool read_kind(const char *text, iter__tfrecord_field_rule *rule) {
    const bool floats = strncmp(text, "f32", 3) == 0;
    if (strcmp(text, "image") == 0) {
        rule->kind = ITER_TFRECORD_IMAGE;
    } else if (strcmp(text, "bytes") == 0) {
        rule->kind = ITER_TFRECORD_BYTES;
    } else if (floats || strncmp(text, "i64", 3) == 0) {
        rule->kind = floats ? ITER_TFRECORD_FLOATS : ITER_TFRECORD_INTEGERS;
        return read_number_kind(text + 3, rule);
    } else {
        return false;
    }
    return true;
}

static iter_status add_field(tfrecord_state *s, char *text, iter_error *err) {
    iter__tfrecord_rule *rule = &s->rule;
    if (rule->n_fields == ITER_MAX_FIELDS)
        return iter__fail(err, ITER_EINVAL, "fields= names more than %d", ITER_MAX_FIELDS);
    iter__tfrecord_field_rule *field = &rule->fields[rule->n_fields];
    *field = (iter__tfrecord_field_rule){.kind = ITER_TFRECORD_GUESS};
    char *feature = strchr(text, ':');
    if (!feature || feature == text || !feature[1])
        return iter__fail(err, ITER_EINVAL, "fields=: '%s' is not NAME:FEATURE", text);
    *feature++ = '\0';
    char *kind = strchr(feature, ':');
    if (kind) *kind++ = '\0';
    if (kind && !read_kind(kind, field))
        return iter__fail(err, ITER_EINVAL,
                          "fields=: %s: '%s' is not image, bytes, i64 or f32, and of the latter "
                          "with x3, * or *9",
                          text, kind);
    if (strlen(text) >= ITER_NAME_MAX)
        return iter__fail(err, ITER_EINVAL, "fields=: the name '%s' has more than %d letters", text,
                          ITER_NAME_MAX - 1);
    for (int32_t f = 0; f < rule->n_fields; f++)
        if (strcmp(s->names[f], text) == 0)
            return iter__fail(err, ITER_EINVAL, "fields=: two are called '%s'", text);
    field->feature = feature;
    s->names[rule->n_fields++] = text;
    return ITER_OK;
}

/* Cuts the text at its commas and adds a field for each part. */
static iter_status read_fields(tfrecord_state *s, const char *text, iter_error *err) {
    s->fields = iter__strdup(text ? text : "data");
    if (!s->fields) return iter__fail(err, ITER_ENOMEM, "no memory for the names of fields");
    if (!text) {
        s->names[0] = s->fields;
        s->rule.fields[0].kind = ITER_TFRECORD_RECORD;
        s->rule.n_fields = 1;
        return ITER_OK;
    }
    for (char *p = s->fields; p;) {
        char *comma = strchr(p, ',');
        if (comma) *comma++ = '\0';
        ITER_TRY(add_field(s, p, err));
        p = comma;
    }
    return ITER_OK;
}

/* ---- the records ----------------------------------------------------------------------------- */

static iter_status scan(iter__span_set *records, iter__window *window, iter_error *err) {
    for (uint64_t at = 0, offset = 0;; offset = at) {
        const iter_status status = iter__tfrecord_walk(window, &at, err);
        if (status == ITER_END) return iter__span_set_end(records, window->file.bytes, err);
        if (status < 0) return status;
        ITER_TRY(iter__span_set_add(records, offset, err));
    }
}

static iter_status scan_file(iter__span_set *records, iter_error *err) {
    iter__window window;
    ITER_TRY(iter__window_open(&window, records->files[records->n_done].path, err));
    iter__file_jumps(&window.file); /* no reading ahead between heads */
    const iter_status status = scan(records, &window, err);
    iter__window_close(&window);
    return status;
}

static iter_status cached_file(iter__span_set *records, iter_error *err) {
    iter__index_cache cache = {
        .kind = ITER_INDEX_TFRECORD, .min_bytes = ITER_TFRECORD_FRAME, .align = 1};
    bool there = false;
    iter_status status = iter__index_cache_load(&cache, records, &there, err);
    if (status == ITER_OK && !there) {
        status = scan_file(records, err);
        if (status == ITER_OK) status = iter__index_cache_save(&cache, records, err);
    }
    iter__index_cache_free(&cache);
    return status;
}

static iter_status add_file(void *user, iter__span_set *records, uint64_t f, iter_error *err) {
    const tfrecord_options *o = user;
    (void)f;
    return iter__index_cache_wanted(o->index_cache, &records->files[records->n_done])
               ? cached_file(records, err)
               : scan_file(records, err);
}

static iter_status add_files(tfrecord_state *s, const char *path, const tfrecord_options *o,
                             iter_error *err) {
    ITER_TRY(iter__span_set_open(&s->records, path, ".tfrecord", err));
    ITER_TRY(iter__span_set_fill_all(&s->records, add_file, (void *)o, err));
    iter__span_set_trim(&s->records);
    if (iter__span_set_count(&s->records) > 0) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "%s: holds no records", path);
}

/* ---- what the first record decides ----------------------------------------------------------- */

static iter_status guess(const iter__tfrecord_rule *rule, iter__tfrecord_rule *out,
                         const uint8_t *bytes, size_t size, iter_error *err) {
    *out = *rule;
    for (int32_t f = 0; f < out->n_fields; f++)
        if (out->fields[f].kind == ITER_TFRECORD_GUESS)
            ITER_TRY(iter__tfrecord_guess(&out->fields[f], bytes, size, err));
    return ITER_OK;
}

/* Decides by record `index`; on errors s is as it was. */
static iter_status guess_by(tfrecord_state *s, uint64_t index, iter_error *err) {
    const iter_extent x = iter__span_set_locate(&s->records, index);
    const char *path = s->records.files[x.object].path;
    iter__window window;
    iter__tfrecord_rule rule;
    if (x.size > FIRST_BYTES_MAX)
        return iter__fail(err, ITER_EFORMAT, "%s: the record at %" PRIu64 " has %" PRIu64 " bytes",
                          path, x.offset, x.size);
    uint8_t *bytes = iter__alloc((size_t)x.size, 1);
    if (!bytes) return iter__fail(err, ITER_ENOMEM, "%s: no memory for a record", path);
    iter_status status = iter__window_open(&window, path, err);
    if (status == ITER_OK) {
        status = iter__window_read(&window, x.offset, bytes, (size_t)x.size, err);
        iter__window_close(&window);
        if (status == ITER_OK) {
            status = guess(&s->rule, &rule, bytes, (size_t)x.size, err);
            if (status == ITER_OK) s->rule = rule;
            if (status < 0)
                status = iter__fail_in(err, status, "%s: the record at %" PRIu64, path, x.offset);
        }
    }
    iter__free(bytes);
    return status;
}

/* Decides the kinds that fields= leaves open. If the first record is damaged, it will be a failed
 * sample, and a later one is tried. If none of the first few is sound, the error is that of the
 * first one. */
static iter_status guess_kinds(tfrecord_state *s, iter_error *err) {
    const uint64_t n = iter__span_set_count(&s->records);
    bool open = false;
    for (int32_t f = 0; f < s->rule.n_fields; f++)
        open |= s->rule.fields[f].kind == ITER_TFRECORD_GUESS;
    const iter_status status = open ? guess_by(s, 0, err) : ITER_OK;
    if (status != ITER_EFORMAT) return status;
    for (uint64_t i = 1; i < n && i < FIRST_RECORDS; i++)
        if (guess_by(s, i, NULL) == ITER_OK) return ITER_OK;
    return status;
}

/* ---- the description ------------------------------------------------------------------------- */

static void describe_field(tfrecord_state *s, int32_t f, iter_field *out) {
    iter__tfrecord_field_rule *rule = &s->rule.fields[f];
    /* a value takes a byte at least, a float four */
    const uint64_t room = s->records.largest - ITER_TFRECORD_FRAME;
    memset(out, 0, sizeof(*out));
    strcpy(out->name, s->names[f]);
    out->decoder = iter__decoder_part(f, rule->kind == ITER_TFRECORD_IMAGE);
    const bool numbers = rule->kind == ITER_TFRECORD_FLOATS || rule->kind == ITER_TFRECORD_INTEGERS;
    out->role = f == 0 || !numbers ? ITER_DATA : ITER_LABEL;
    if (rule->kind == ITER_TFRECORD_IMAGE) {
        out->desc = (iter_desc){.dtype = ITER_U8, .n_dims = 3, .layout = "HWC"};
        out->desc.dims[0] = out->desc.dims[1] = ITER_VARIABLE;
        out->desc.dims[2] = iter__image_channels(&s->rule.part.image);
        return;
    }
    out->desc.dtype = !numbers ? ITER_U8 : rule->kind == ITER_TFRECORD_FLOATS ? ITER_F32 : ITER_I64;
    if (rule->varies && rule->n == 0)
        rule->n = (int64_t)(rule->kind == ITER_TFRECORD_FLOATS ? room / 4 : room) + 1;
    if (numbers && rule->n == 0) return;
    out->desc.n_dims = 1;
    if (numbers && !rule->varies) {
        out->desc.dims[0] = rule->n;
        return;
    }
    out->desc.dims[0] = ITER_VARIABLE;
    out->desc.capacity = numbers ? rule->n : room > 0 ? (int64_t)room : 1;
}

static uint64_t identity_of(const tfrecord_state *s) {
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "tfrecord");
    hash = iter__fnv1a_u64(hash, (uint64_t)s->rule.part.image.channels);
    hash = iter__fnv1a_u64(hash, (uint64_t)s->rule.part.image.orient);
    for (int32_t f = 0; f < s->rule.n_fields; f++) {
        const iter__tfrecord_field_rule *rule = &s->rule.fields[f];
        hash = iter__fnv1a_text(hash, rule->feature ? rule->feature : "");
        hash = iter__fnv1a_u64(hash, (uint64_t)rule->kind);
        hash = iter__fnv1a_u64(hash, rule->varies ? 0 : (uint64_t)rule->n);
    }
    return iter__span_set_identity(&s->records, hash);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status open_all(tfrecord_state *s, const char *path, const tfrecord_options *o,
                            iter_description *out, iter_error *err) {
    iter__tfrecord_rule_init(&s->rule, &o->image);
    const iter_status status = read_fields(s, o->fields, err);
    if (status < 0) return iter__fail_in(err, status, "%s", path);
    ITER_TRY(add_files(s, path, o, err));
    ITER_TRY(guess_kinds(s, err));
    for (int32_t f = 0; f < s->rule.n_fields; f++)
        describe_field(s, f, &out->fields[f]);
    out->n_fields = s->rule.n_fields;
    iter__span_set_describe(&s->records, out);
    out->shared = &s->rule;
    out->identity = identity_of(s);
    return ITER_OK;
}

static iter_status tfrecord_open(void *state, const char *path, const void *options,
                                 iter_description *out, iter_error *err) {
    const iter_status status = open_all(state, path, options, out, err);
    if (status < 0) tfrecord_close(state);
    return status;
}

static void tfrecord_locate(const void *state, uint64_t index, iter_extent *out) {
    const tfrecord_state *s = state;
    *out = iter__span_set_locate(&s->records, index);
}

const iter_format_ops iter__format_tfrecord = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "tfrecord",
             .help = "TensorFlow's TFRecords: one file, a folder, or a pattern "
                     "(\"train-{000..012}.tfrecord\")",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(tfrecord_options),
             .state_size = sizeof(tfrecord_state)},
    .open = tfrecord_open,
    .close = tfrecord_close,
    .locate = tfrecord_locate,
};
