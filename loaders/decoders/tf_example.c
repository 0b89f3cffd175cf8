/*
 * tf_example.c - see tf_example.h.
 *
 *     Example  { Features features = 1; }
 *     Features { map<string, Feature> feature = 1; }      an entry { key = 1; value = 2; }
 *     Feature  { BytesList = 1 | FloatList = 2 | Int64List = 3; }
 *     each list{ repeated value = 1; }
 *
 * A message is a row of fields: a varint with number and wire type, then the value. Messages are
 * walked with a bound that each field is held against before it is looked at.
 */
#include "loaders/decoders/tf_example.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "loaders/files/byte_order.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct message {
    const uint8_t *p, *end;
    const uint8_t *begin; /* of the whole example, for errors */
} message;

typedef struct message_field {
    uint64_t number;
    int wire;
    const uint8_t *value; /* WIRE_VARINT: at the varint */
    size_t n;
} message_field;

static iter_status fail_at(const message *m, const char *reason, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "no tf.Example: at byte %td %s", m->p - m->begin, reason);
}

static bool read_varint(const uint8_t **p, const uint8_t *end, uint64_t *out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        const uint8_t byte = *(*p)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* The next field; ITER_END after the last. */
static iter_status next_field(message *m, message_field *out, iter_error *err) {
    uint64_t key = 0, n = 0;
    if (m->p == m->end) return ITER_END;
    const uint8_t *p = m->p;
    if (!read_varint(&p, m->end, &key) || key >> 3 == 0)
        return fail_at(m, "is no field of a message", err);
    out->number = key >> 3;
    out->wire = (int)(key & 7);
    out->value = p;
    switch (out->wire) {
    case WIRE_VARINT:
        if (!read_varint(&p, m->end, &n)) return fail_at(m, "a number does not end", err);
        n = (uint64_t)(p - out->value);
        break;
    case WIRE_64: n = 8; break;
    case WIRE_32: n = 4; break;
    case WIRE_BYTES:
        if (!read_varint(&p, m->end, &n)) return fail_at(m, "a length does not end", err);
        out->value = p;
        break;
    default: return fail_at(m, "is a group, or no field", err);
    }
    if (n > (uint64_t)(m->end - out->value))
        return fail_at(m, "a field is longer than what holds it", err);
    out->n = (size_t)n;
    m->p = out->value + n;
    return ITER_OK;
}

/* The next field with this number that is a message or a text; others are skipped. */
static iter_status next_part(message *m, uint64_t number, message_field *out, iter_error *err) {
    for (;;) {
        const iter_status status = next_field(m, out, err);
        if (status != ITER_OK) return status;
        if (out->number == number && out->wire == WIRE_BYTES) return ITER_OK;
    }
}

static message inner(const message *m, const message_field *field) {
    return (message){field->value, field->value + field->n, m->begin};
}

/* A walk over the entries of all maps of an example. */
typedef struct entries {
    message example, map;
} entries;

static entries entries_of(const uint8_t *bytes, size_t size) {
    const message whole = {bytes, bytes + size, bytes};
    return (entries){whole, {bytes, bytes, bytes}};
}

/* The next entry's key and value; a value that is not there has n = 0. */
static iter_status next_entry(entries *e, message_field *out_key, message_field *out_value,
                              iter_error *err) {
    message_field field;
    for (;;) {
        iter_status status = next_part(&e->map, 1, &field, err);
        if (status < 0) return status;
        if (status == ITER_OK) break;
        status = next_part(&e->example, 1, &field, err);
        if (status != ITER_OK) return status;
        e->map = inner(&e->example, &field);
    }
    message entry = inner(&e->map, &field);
    *out_key = *out_value = (message_field){.value = field.value};
    for (;;) {
        const iter_status status = next_field(&entry, &field, err);
        if (status < 0) return status;
        if (status == ITER_END) return ITER_OK;
        if (field.wire != WIRE_BYTES) continue;
        if (field.number == 1) *out_key = field;
        if (field.number == 2) *out_value = field;
    }
}

const char *iter__feature_kind_text(iter__feature_kind kind) {
    static const char *const texts[] = {"nothing", "bytes", "floats", "integers"};
    return texts[kind];
}

/* Which list a feature has. */
static iter_status read_feature(message m, iter__feature *out, iter_error *err) {
    message_field field;
    *out = (iter__feature){.list = m.p};
    for (;;) {
        const iter_status status = next_field(&m, &field, err);
        if (status < 0) return status;
        if (status == ITER_END) return ITER_OK;
        if (field.wire != WIRE_BYTES || field.number > ITER_FEATURE_INTEGERS) continue;
        *out = (iter__feature){(iter__feature_kind)field.number, field.value, field.n};
    }
}

iter_status iter__example_find(const uint8_t *bytes, size_t size, const char *name,
                               iter__feature *out, iter_error *err) {
    const size_t n_name = strlen(name);
    entries e = entries_of(bytes, size);
    message_field key = {0}, value = {0};
    bool found = false;
    for (;;) {
        const iter_status status = next_entry(&e, &key, &value, err);
        if (status < 0) return status;
        if (status == ITER_END) return found ? ITER_OK : ITER_END;
        if (key.n != n_name || memcmp(key.value, name, n_name) != 0) continue;
        ITER_TRY(read_feature(inner(&e.map, &value), out, err));
        found = true;
    }
}

void iter__example_names(const uint8_t *bytes, size_t size, char *out, size_t capacity) {
    entries e = entries_of(bytes, size);
    message_field key = {0}, value = {0};
    size_t used = 0;
    snprintf(out, capacity, "none");
    while (next_entry(&e, &key, &value, NULL) == ITER_OK) {
        const char *gap = used > 0 ? ", " : "";
        if (key.n >= capacity || used + strlen(gap) + key.n + 1 > capacity) return;
        used += (size_t)snprintf(out + used, capacity - used, "%s%.*s", gap, (int)key.n,
                                 (const char *)key.value);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct values {
    void *out;
    size_t n, capacity;
} values;

static void add_integer(values *v, uint64_t value) {
    if (v->n < v->capacity) ((int64_t *)v->out)[v->n] = (int64_t)value;
    v->n++;
}

static void add_floats(values *v, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++, v->n++) {
        const uint32_t word = iter__get_le32(p + 4 * i);
        if (v->n < v->capacity) memcpy((float *)v->out + v->n, &word, sizeof(word));
    }
}

static iter_status add_integers(values *v, const message *m, const message_field *field,
                                iter_error *err) {
    const uint8_t *p = field->value, *end = p + field->n;
    while (p < end) {
        uint64_t value = 0;
        if (!read_varint(&p, end, &value)) return fail_at(m, "a packed number does not end", err);
        add_integer(v, value);
    }
    return ITER_OK;
}

static iter_status add_values(values *v, iter__feature_kind kind, const message *m,
                              const message_field *field, iter_error *err) {
    if (kind == ITER_FEATURE_BYTES && field->wire == WIRE_BYTES) {
        if (v->n < v->capacity)
            ((iter__feature_bytes *)v->out)[v->n] = (iter__feature_bytes){field->value, field->n};
        v->n++;
    } else if (kind == ITER_FEATURE_FLOATS && field->wire == WIRE_BYTES && field->n % 4 == 0) {
        add_floats(v, field->value, field->n / 4);
    } else if (kind == ITER_FEATURE_FLOATS && field->wire == WIRE_32) {
        add_floats(v, field->value, 1);
    } else if (kind == ITER_FEATURE_INTEGERS &&
               (field->wire == WIRE_BYTES || field->wire == WIRE_VARINT)) {
        return add_integers(v, m, field, err);
    } else {
        return fail_at(m, "a value is of another type than its list", err);
    }
    return ITER_OK;
}

iter_status iter__feature_read(const iter__feature *feature, void *out, size_t capacity,
                               size_t *out_n, iter_error *err) {
    message m = {feature->list, feature->list + feature->n, feature->list};
    values v = {.out = out, .capacity = capacity};
    message_field field;
    for (;;) {
        const iter_status status = next_field(&m, &field, err);
        if (status < 0) return status;
        if (status == ITER_END) break;
        if (field.number != 1) continue;
        ITER_TRY(add_values(&v, feature->kind, &m, &field, err));
    }
    *out_n = v.n;
    return ITER_OK;
}
