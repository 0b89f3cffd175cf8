/*
 * decode_tfrecord.c - see decode_tfrecord.h.
 *
 * Each field looks for its feature anew: a walk over some ten names. Each field but an image also
 * compares the sum of the record's data. An image does that for its header; its pixels follow from
 * the same bytes.
 */
#include "loaders/decoders/decode_tfrecord.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/error.h"
#include "loaders/decoders/tf_example.h"
#include "loaders/files/tfrecord.h"

#define NAMES_MAX 240

static const iter__tfrecord_field_rule *field_of(const iter__part_rule *part, int32_t f) {
    return &((const iter__tfrecord_rule *)part)->fields[f];
}

static iter_status open_data(const uint8_t *bytes, size_t size, bool check, const uint8_t **out,
                             size_t *out_n, iter_error *err) {
    ITER_TRY(iter__tfrecord_open(bytes, size, out, out_n, err));
    return check ? iter__tfrecord_check(*out, *out_n, err) : ITER_OK;
}

static iter_status fail_absent(const char *feature, const uint8_t *data, size_t n,
                               iter_error *err) {
    char names[NAMES_MAX];
    iter__example_names(data, n, names, sizeof(names));
    return iter__fail(err, ITER_EFORMAT, "no feature '%s' among its features: %s", feature, names);
}

/* Finds the feature. One that may be empty may be absent, too. */
static iter_status find(const char *name, bool optional, const uint8_t *data, size_t n,
                        iter__feature *out, iter_error *err) {
    const iter_status status = iter__example_find(data, n, name, out, err);
    if (status != ITER_END) return status;
    *out = (iter__feature){.list = data};
    return optional ? ITER_OK : fail_absent(name, data, n, err);
}

/* Reads up to `capacity` values of the kind that is wanted; *out_n is how many there are. */
static iter_status read_list(const char *name, const iter__feature *feature,
                             iter__feature_kind wanted, void *out, size_t capacity, size_t *out_n,
                             iter_error *err) {
    *out_n = 0;
    if (feature->kind == ITER_FEATURE_NONE) return ITER_OK;
    if (feature->kind != wanted)
        return iter__fail(err, ITER_EFORMAT, "the feature '%s' has %s, expected %s", name,
                          iter__feature_kind_text(feature->kind), iter__feature_kind_text(wanted));
    const iter_status status = iter__feature_read(feature, out, capacity, out_n, err);
    return status < 0 ? iter__fail_in(err, status, "the feature '%s'", name) : ITER_OK;
}

static iter_status find_string(const char *name, const uint8_t *data, size_t n,
                               iter__feature_bytes *out, iter_error *err) {
    iter__feature feature;
    size_t n_strings = 0;
    ITER_TRY(find(name, false, data, n, &feature, err));
    ITER_TRY(read_list(name, &feature, ITER_FEATURE_BYTES, out, 1, &n_strings, err));
    if (n_strings == 1) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT, "the feature '%s' has %zu strings, expected one", name,
                      n_strings);
}

static iter_status find_image(const iter__part_rule *part, int32_t f, bool first,
                              const uint8_t *bytes, size_t size, const uint8_t **out,
                              size_t *out_size, iter_error *err) {
    iter__feature_bytes found = {0};
    ITER_TRY(open_data(bytes, size, first, &bytes, &size, err));
    ITER_TRY(find_string(field_of(part, f)->feature, bytes, size, &found, err));
    *out = found.bytes;
    *out_size = found.n;
    return ITER_OK;
}

static iter_status store_bytes(const uint8_t *bytes, size_t n, iter_tensor *out, iter_error *err) {
    if (n > iter_desc_bytes(&out->desc))
        return iter__fail(err, ITER_EFORMAT, "%zu bytes do not fit into %zu", n,
                          iter_desc_bytes(&out->desc));
    memcpy(out->data, bytes, n);
    out->desc.dims[0] = (int64_t)n;
    return ITER_OK;
}

static iter_status read_numbers(const iter__tfrecord_field_rule *rule, const uint8_t *data,
                                size_t size, iter_tensor *out, iter_error *err) {
    iter__feature feature;
    const size_t wanted = rule->n > 0 ? (size_t)rule->n : 1;
    size_t n = 0;
    ITER_TRY(find(rule->feature, rule->varies, data, size, &feature, err));
    ITER_TRY(
        read_list(rule->feature, &feature,
                  rule->kind == ITER_TFRECORD_FLOATS ? ITER_FEATURE_FLOATS : ITER_FEATURE_INTEGERS,
                  out->data, wanted, &n, err));
    if (rule->varies ? n > wanted : n != wanted)
        return iter__fail(err, ITER_EFORMAT, "the feature '%s' has %zu values, expected %s%zu",
                          rule->feature, n, rule->varies ? "at most " : "", wanted);
    if (rule->varies) out->desc.dims[0] = (int64_t)n;
    return ITER_OK;
}

static iter_status read_field(const iter__part_rule *part, int32_t f, const uint8_t *bytes,
                              size_t size, iter_tensor *out, iter_error *err) {
    const iter__tfrecord_field_rule *rule = field_of(part, f);
    iter__feature_bytes found = {0};
    ITER_TRY(open_data(bytes, size, true, &bytes, &size, err));
    if (rule->kind == ITER_TFRECORD_RECORD) return store_bytes(bytes, size, out, err);
    if (rule->kind != ITER_TFRECORD_BYTES) return read_numbers(rule, bytes, size, out, err);
    ITER_TRY(find_string(rule->feature, bytes, size, &found, err));
    return store_bytes(found.bytes, found.n, out, err);
}

void iter__tfrecord_rule_init(iter__tfrecord_rule *rule, const iter_image_options *image) {
    *rule = (iter__tfrecord_rule){
        .part = {.image = *image, .find_image = find_image, .read = read_field}};
}

static bool is_image(const uint8_t *p, size_t n) {
    return (n > 3 && memcmp(p, "\xff\xd8\xff", 3) == 0) ||
           (n > 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) ||
           (n > 12 && memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0);
}

iter_status iter__tfrecord_guess(iter__tfrecord_field_rule *field, const uint8_t *bytes,
                                 size_t size, iter_error *err) {
    iter__feature feature;
    iter__feature_bytes string = {0};
    size_t n = 0;
    ITER_TRY(open_data(bytes, size, true, &bytes, &size, err));
    ITER_TRY(find(field->feature, false, bytes, size, &feature, err));
    if (feature.kind == ITER_FEATURE_BYTES) {
        ITER_TRY(find_string(field->feature, bytes, size, &string, err));
        field->kind = is_image(string.bytes, string.n) ? ITER_TFRECORD_IMAGE : ITER_TFRECORD_BYTES;
        return ITER_OK;
    }
    ITER_TRY(read_list(field->feature, &feature, feature.kind, NULL, 0, &n, err));
    if (n == 0)
        return iter__fail(err, ITER_EINVAL,
                          "the feature '%s' is empty; say what it has, e.g. by i64* after it",
                          field->feature);
    field->kind =
        feature.kind == ITER_FEATURE_FLOATS ? ITER_TFRECORD_FLOATS : ITER_TFRECORD_INTEGERS;
    field->n = n > 1 ? (int64_t)n : 0;
    return ITER_OK;
}
