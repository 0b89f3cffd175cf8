/*
 * wrapped.c - a format like another one, with our decoder in front of its data field's decoder.
 *
 * The core creates a format's state and hands it nothing but a path. So the path of the new dataset
 * begins with the address of the struct that its owner made, followed by the inner format and its
 * path. Options follow as usual.
 */
#include "bench/common/wrapped.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"

#define OTHERS 3

/* State of the format; the inner format's state follows it. */
typedef struct wrapped_state {
    /* must be first: decoders get a pointer to it, and so to the whole state */
    wrapped_decoder shared;
    const iter_format_ops *inner;
    void *state;
    iter_decoder_ops table;
    const iter_decoder_ops *others[OTHERS]; /* of the other fields */
    iter_decoder_ops other_tables[OTHERS];
} wrapped_state;

#define HEAD ((sizeof(wrapped_state) + 63) & ~(size_t)63)

static iter_status start(void *state, const void *shared, iter_error *err) {
    const wrapped_decoder *d = shared;
    return d->inner != NULL && d->inner->start != NULL ? d->inner->start(state, d->shared, err)
                                                       : ITER_OK;
}

/* ---- Other fields, whose decoders need the inner `shared`, too ------------------------------- */

/* A decoder is not told which one it is, so each has its own functions. */
#define OTHER(i)                                                                            \
    static iter_status start_##i(void *state, const void *shared, iter_error *err) {        \
        const wrapped_state *f = shared;                                                    \
        const iter_decoder_ops *inner = f->others[i];                                       \
        return inner->start != NULL ? inner->start(state, f->shared.shared, err) : ITER_OK; \
    }                                                                                       \
    static iter_status decode_##i(void *state, const void *shared, const uint8_t *bytes,    \
                                  size_t size, iter_tensor *out, iter_error *err) {         \
        const wrapped_state *f = shared;                                                    \
        return f->others[i]->decode(state, f->shared.shared, bytes, size, out, err);        \
    }
OTHER(0)
OTHER(1)
OTHER(2)

static const iter_decoder_ops other_tables[OTHERS] = {
    {.start = start_0, .decode = decode_0},
    {.start = start_1, .decode = decode_1},
    {.start = start_2, .decode = decode_2},
};

static bool keep_other(wrapped_state *f, int n, iter_field *field) {
    const iter_decoder_ops *inner = field->decoder;
    if (n >= OTHERS || inner->decode == NULL) return false;
    f->others[n] = inner;
    f->other_tables[n] = other_tables[n];
    f->other_tables[n].base = inner->base;
    f->other_tables[n].stop = inner->stop;
    f->other_tables[n].limit = inner->limit;
    field->decoder = &f->other_tables[n];
    return true;
}

/* ---- The wrapped field ----------------------------------------------------------------------- */

static iter_status put_in_front(wrapped_state *f, const wrapped *owner, iter_description *out,
                                iter_error *err) {
    iter_field *field = NULL;
    int n_others = 0;
    bool fits = true;
    for (int32_t i = out->n_fields - 1; i >= 0; i--)
        if (out->fields[i].role == ITER_DATA && out->fields[i].extent >= 0) field = &out->fields[i];
    for (int32_t i = 0; i < out->n_fields; i++)
        if (&out->fields[i] != field && out->fields[i].decoder != NULL)
            fits = fits && keep_other(f, n_others++, &out->fields[i]);
    if (field == NULL || !fits)
        return bench_fail(err, ITER_EUNSUPPORTED, "%s: no field whose decoder can be wrapped",
                          f->inner->base.name);
    const iter_decoder_ops *inner = field->decoder, *front = owner->front;
    f->shared = (wrapped_decoder){owner->user, inner, out->shared, field->offset};
    f->table = (iter_decoder_ops){
        .base = {.struct_size = sizeof(iter_decoder_ops),
                 .name = front->base.name != NULL || inner == NULL ? front->base.name
                                                                   : inner->base.name,
                 .help = "",
                 .state_size = inner != NULL ? inner->base.state_size : 0},
        .start = start,
        .stop = inner != NULL ? inner->stop : NULL,
        .limit = inner != NULL ? inner->limit : NULL};
    if (inner == NULL || inner->decode != NULL) f->table.decode = front->decode;
    if (inner != NULL && inner->decode_image != NULL) {
        f->table.header = front->header;
        f->table.decode_image = front->decode_image;
    }
    field->decoder = &f->table;
    out->shared = &f->shared;
    if (owner->added == NULL) return ITER_OK;
    if (out->n_fields == ITER_MAX_FIELDS)
        return bench_fail(err, ITER_EUNSUPPORTED, "%s: no room for field '%s' beside its own",
                          f->inner->base.name, owner->added->name);
    iter_field *added = &out->fields[out->n_fields++];
    *added = *owner->added;
    added->extent = field->extent;
    return ITER_OK;
}

/* `path` is "ADDRESS:FORMAT:PATH". */
static iter_status wrapped_open(void *state, const char *path, const void *options,
                                iter_description *out, iter_error *err) {
    wrapped_state *f = state;
    char *rest;
    const wrapped *owner = (const wrapped *)(uintptr_t)strtoumax(path, &rest, 16);
    size_t length = rest[0] == ':' ? strcspn(rest + 1, ":") : 0;
    if (owner == NULL || length == 0 || rest[1 + length] != ':')
        return bench_fail(err, ITER_EINVAL, "wrapped: path '%s'", path);
    f->inner = owner->inner;
    f->state = (char *)state + HEAD;
    iter_status s = f->inner->open(f->state, rest + 2 + length, options, out, err);
    if (s < 0) return s;
    s = put_in_front(f, owner, out, err);
    if (s < 0) f->inner->close(f->state);
    return s;
}

static void wrapped_close(void *state) {
    wrapped_state *f = state;
    f->inner->close(f->state);
}

static void wrapped_locate(const void *state, uint64_t index, iter_extent *out) {
    const wrapped_state *f = state;
    f->inner->locate(f->state, index, out);
}

static void wrapped_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const wrapped_state *f = state;
    f->inner->index_row(f->state, index, field, row);
}

static int64_t wrapped_length(const void *state, uint64_t index) {
    const wrapped_state *f = state;
    return f->inner->length(f->state, index);
}

iter_status wrapped_make(const char *name, const char *data, const iter_decoder_ops *front,
                         void *user, iter_registry *registry, wrapped *out, iter_error *err) {
    char inner_name[ITER_NAME_MAX];
    snprintf(inner_name, sizeof(inner_name), "%.*s", (int)strcspn(data, ":"), data);
    const iter_format_ops *inner = iter_registry_format(registry, inner_name);
    *out = (wrapped){.inner = inner, .front = front, .user = user};
    if (inner == NULL || inner->locate == NULL)
        return bench_fail(err, ITER_EINVAL, "%s has no bytes to decode", inner_name);
    out->format = *inner;
    out->format.base.name = name;
    out->format.base.state_size = HEAD + inner->base.state_size;
    out->format.open = wrapped_open;
    out->format.close = wrapped_close;
    out->format.locate = wrapped_locate;
    out->format.index_row = inner->index_row != NULL ? wrapped_index_row : NULL;
    out->format.length = inner->length != NULL ? wrapped_length : NULL;
    out->format.resident = NULL;
    out->format.get = NULL;
    if (asprintf(&out->data, "%s:%" PRIxPTR ":%s", name, (uintptr_t)out, data) < 0) {
        out->data = NULL;
        return bench_fail(err, ITER_ENOMEM, "no memory for a dataset's name");
    }
    return iter_registry_add_format(registry, &out->format, err);
}

void wrapped_free(wrapped *made) {
    free(made->data);
    made->data = NULL;
}
