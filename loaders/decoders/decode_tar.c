/*
 * decode_tar.c - the bytes of one sample of a tar archive, headers included, to one of its fields.
 *
 * A sample's members are found by their headers in place: a few looks at 512 bytes, little beside
 * an image.
 *
 * Source: RFC 8259 for JSON.
 */
#include "loaders/decoders/decode_tar.h"

#include <string.h>
#include <strings.h>

#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/spec/options.h"
#include "loaders/files/tar.h"

#define NUMBER_MAX 160

int iter__tar_match(const char *endings, const char *field) {
    const size_t n = strlen(field);
    int place = 0;
    for (const char *p = endings; p; place++) {
        if (strcspn(p, ";") == n && strncasecmp(p, field, n) == 0) return place;
        p = strchr(p, ';');
        if (p) p++;
    }
    return -1;
}

static iter_status fail_link(const char *sample, const char *endings, char link, const char *target,
                             iter_error *err) {
    return iter__fail(err, ITER_EFORMAT,
                      "'%s': its member .%s is a %s link to '%s', without data of its own: "
                      "tar %s packs them",
                      sample, endings, link == '1' ? "hard" : "symbolic", target,
                      link == '1' ? "--hard-dereference" : "--dereference");
}

/* Finds the member of the sample that the field asks for. */
static iter_status find_member(const iter__tar_field_rule *rule, const uint8_t *bytes, size_t size,
                               const uint8_t **out, size_t *out_size, iter_error *err) {
    iter__tar tar;
    int best = -1;
    char first[96] = "", link = '\0', target[sizeof(tar.target)] = "";
    iter__tar_open_memory(&tar, bytes, size);
    for (;;) {
        size_t n_key;
        const iter_status status = iter__tar_next(&tar, err);
        if (status < 0) return status;
        if (status == ITER_END) break;
        const char *field = tar.regular || tar.link ? iter__tar_field(tar.name, &n_key) : NULL;
        if (!field) continue;
        if (!first[0]) {
            const size_t n = iter__min_size(n_key, sizeof(first) - 1);
            memcpy(first, tar.name + n_key - n, n);
        }
        const int place = iter__tar_match(rule->endings, field);
        if (place < 0 || (best >= 0 && place >= best)) continue;
        best = place;
        link = tar.link;
        memcpy(target, tar.target, sizeof(target));
        *out = bytes + tar.offset;
        *out_size = (size_t)tar.size;
    }
    if (best >= 0 && link) return fail_link(first, rule->endings, link, target, err);
    if (best >= 0) return ITER_OK;
    return iter__fail(
        err, ITER_EFORMAT,
        "'%s' has no member .%s (a sample's files must stand side by side in a shard)", first,
        rule->endings);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A number between blanks, all of p[n]. */
static bool read_number(const uint8_t *p, size_t n, double *out) {
    char text[NUMBER_MAX];
    while (n > 0 && is_space(*p))
        p++, n--;
    while (n > 0 && is_space(p[n - 1]))
        n--;
    if (n == 0 || n >= sizeof(text)) return false;
    memcpy(text, p, n);
    text[n] = '\0';
    return iter__parse_number(text, out);
}

/* An error shows no more than the beginning of a text. */
static int shown(size_t n) {
    return n < 40 ? (int)n : 40;
}

static iter_status decode_integer(const uint8_t *p, size_t n, iter_tensor *out, iter_error *err) {
    double value = 0;
    if (!read_number(p, n, &value) || !(value >= INT32_MIN && value <= INT32_MAX) ||
        value != (double)(int32_t)value) {
        return iter__fail(err, ITER_EFORMAT, "'%.*s' is not an integer of 32 bits", shown(n),
                          (const char *)p);
    }
    *(int32_t *)out->data = (int32_t)value;
    return ITER_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct json {
    const uint8_t *p, *end;
} json;

static void skip_space(json *j) {
    while (j->p < j->end && is_space(*j->p))
        j->p++;
}

/* Moves past the string that begins at p; false if it does not end. */
static bool skip_string(json *j) {
    for (j->p++; j->p < j->end; j->p++) {
        if (*j->p == '\\') {
            j->p++;
        } else if (*j->p == '"') {
            j->p++;
            return true;
        }
    }
    return false;
}

/* Moves past a value of any kind. */
static bool skip_value(json *j) {
    size_t depth = 0;
    while (j->p < j->end) {
        const uint8_t c = *j->p;
        if (c == '"') {
            if (!skip_string(j)) return false;
        } else if (c == '{' || c == '[') {
            depth++;
            j->p++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return true;
            depth--;
            j->p++;
        } else if (c == ',' && depth == 0) {
            return true;
        } else {
            j->p++;
        }
        if (depth == 0 && (c == '"' || c == '}' || c == ']')) return true;
    }
    return depth == 0;
}

/* Moves to the value of key[n] of the object at p. */
static bool enter(json *j, const char *key, size_t n) {
    skip_space(j);
    if (j->p == j->end || *j->p != '{') return false;
    j->p++;
    for (;;) {
        skip_space(j);
        const uint8_t *name = j->p + 1;
        if (j->p == j->end || *j->p != '"' || !skip_string(j)) return false;
        const bool is_it = (size_t)(j->p - 1 - name) == n && memcmp(name, key, n) == 0;
        skip_space(j);
        if (j->p == j->end || *j->p++ != ':') return false;
        skip_space(j);
        if (is_it) return true;
        if (!skip_value(j)) return false;
        skip_space(j);
        if (j->p == j->end || *j->p++ != ',') return false;
    }
}

static iter_status decode_json(const char *path, const uint8_t *p, size_t n, iter_tensor *out,
                               iter_error *err) {
    json j = {p, p + n};
    for (const char *key = path; key; key = strchr(key, '.') ? strchr(key, '.') + 1 : NULL) {
        if (!enter(&j, key, strcspn(key, ".")))
            return iter__fail(err, ITER_EFORMAT, "the JSON text has no '%s'", path);
    }
    const uint8_t *begin = j.p;
    double value = 0;
    if (!skip_value(&j) || !read_number(begin, (size_t)(j.p - begin), &value))
        return iter__fail(err, ITER_EFORMAT, "'%s' in the JSON text is not a number", path);
    *(double *)out->data = value;
    return ITER_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static const iter__tar_field_rule *field_of(const iter__part_rule *part, int32_t f) {
    return &((const iter__tar_rule *)part)->fields[f];
}

static iter_status find_image(const iter__part_rule *part, int32_t f, bool first,
                              const uint8_t *bytes, size_t size, const uint8_t **out,
                              size_t *out_size, iter_error *err) {
    (void)first;
    return find_member(field_of(part, f), bytes, size, out, out_size, err);
}

static iter_status read_value(const iter__part_rule *part, int32_t f, const uint8_t *bytes,
                              size_t size, iter_tensor *out, iter_error *err) {
    const iter__tar_field_rule *field = field_of(part, f);
    ITER_TRY(find_member(field, bytes, size, &bytes, &size, err));
    if (field->kind == ITER_TAR_INTEGER) return decode_integer(bytes, size, out, err);
    if (field->kind == ITER_TAR_JSON) return decode_json(field->json, bytes, size, out, err);
    if (size > iter_desc_bytes(&out->desc)) {
        return iter__fail(err, ITER_EFORMAT, "member .%s has %zu bytes, %zu when it was opened",
                          field->endings, size, iter_desc_bytes(&out->desc));
    }
    memcpy(out->data, bytes, size);
    out->desc.dims[0] = (int64_t)size;
    return ITER_OK;
}

void iter__tar_rule_init(iter__tar_rule *rule, const iter_image_options *image) {
    *rule =
        (iter__tar_rule){.part = {.image = *image, .find_image = find_image, .read = read_value}};
}
