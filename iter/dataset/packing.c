/*
 * packing.c - rows of several documents each, for language models.
 *
 * A row has room for `length` inputs. With targets, a document of n tokens takes n - 1 of it: its
 * inputs are its tokens without the last, its targets those without the first. So across all rows
 * each token but the first of its document is a target once, also where a document is cut.
 *
 * packing_epochs.c says which documents share a row; what follows from that lies beside the ids:
 *
 *     data       ids; the rest of the row is `pad`
 *     label      the next token of the same document; -100 where there is none
 *     segments   1, 2, ... for the documents of the row, 0 for the rest
 *     positions  0, 1, ... within each document's part of the row, 0 in the rest
 *     mask       1 where a target counts
 *     cu_seqlens where each document begins, and where the last one ends
 *
 * If the documents' tokens lie in files as they are, each part is one read; else the documents come
 * whole, through a row reader.
 */
#include <inttypes.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/dataset/packing_epochs.h"
#include "iter/dataset/row_reader.h"

#define LENGTH_MAX ((1 << 24) - 2)
#define GROUP_MAX  (1 << 24)
#define GROUP      4096
#define NO_TARGET  (-100)

static const iter_pack_options defaults = ITER_PACK_OPTIONS_INIT;

static const iter_option option_rows[] = {
    ITER_ROW_INT("length", "inputs of a row", iter_pack_options, length, 1, LENGTH_MAX, 0),
    ITER_ROW_INT("group", "documents that are packed together; 0 = 4,096", iter_pack_options, group,
                 0, GROUP_MAX, 0),
    ITER_ROW_CHOICE("long", "documents longer than a row: cut into several, or an error",
                    iter_pack_options, too_long, "split|refuse"),
    ITER_ROW_INT("pad", "id in the rest of a row", iter_pack_options, pad, 0, UINT32_MAX, 0),
    ITER_ROW_INT("seed", "of the dealing into groups", iter_pack_options, seed, 0, 9e15, 0),
    ITER_ROW_BOOL("label", "the next tokens, -100 where there is none", iter_pack_options, label),
    ITER_ROW_BOOL("segments", "the number of each token's document in the row", iter_pack_options,
                  segments),
    ITER_ROW_BOOL("positions", "the place of each token in its document", iter_pack_options,
                  positions),
    ITER_ROW_BOOL("mask", "1 where a target counts", iter_pack_options, mask),
    ITER_ROW_BOOL("cu-seqlens", "where the row's documents begin", iter_pack_options, cu_seqlens),
    ITER_ROW_END,
};

enum { DATA, LABEL, SEGMENTS, POSITIONS, MASK, CU_SEQLENS, N_KINDS };

static const char *const kind_names[N_KINDS] = {"data",      "label", "segments",
                                                "positions", "mask",  "cu_seqlens"};

typedef struct pack_state {
    iter_dataset *documents;
    iter__row_reader reader;
    iter__pack_epochs epochs;
    int32_t tokens; /* the documents' field of tokens */
    iter_dtype dtype;
    size_t width;
    bool is_sliced; /* any part of a document can be read by itself */
    bool has_targets;
    uint64_t pad;
    int32_t place[N_KINDS]; /* field of the row; -1 = it has none */
    int32_t n_fields;
} pack_state;

static void pack_close(void *state) {
    pack_state *s = state;
    iter__pack_epochs_close(&s->epochs); /* first: a thread of it may ask for lengths */
    iter__row_reader_close(&s->reader);
    iter_dataset_unref(s->documents);
    *s = (pack_state){0};
}

/* ---- Documents ------------------------------------------------------------------------------- */

static int64_t units_of(const void *user, uint64_t document) {
    const pack_state *s = user;
    return iter__dataset_length(s->documents, document) - s->has_targets;
}

/* Where the tokens of a document lie in its extent; false = not as they are. */
static bool find_tokens(const pack_state *s, uint64_t document, const iter_extent *extent,
                        size_t *out_offset, size_t *out_bytes) {
    const iter_dataset *d = s->documents;
    const iter__decoding *way = &d->decodings[iter__dataset_decoding(d, document)];
    const iter_decoder_ops *ops = way->decoders[s->tokens];
    return ops && ops->find &&
           ops->find(way->shared, &d->desc.fields[s->tokens].desc, NULL, (size_t)extent->size, 0,
                     out_offset, out_bytes);
}

static iter_status find_field(pack_state *s, iter_error *err) {
    const iter_description *desc = &s->documents->desc;
    for (s->tokens = 0; s->tokens < desc->n_fields; s->tokens++) {
        const iter_desc *shape = &desc->fields[s->tokens].desc;
        if (shape->n_dims == 1 && shape->dims[0] == ITER_VARIABLE && shape->dtype <= ITER_I64)
            break;
    }
    if (s->tokens == desc->n_fields)
        return iter__fail(err, ITER_EINVAL,
                          "%s has no field of tokens: integers of varying length, as "
                          "tokens:...?documents=whole has",
                          s->documents->name);
    if (!iter__dataset_has_length(s->documents))
        return iter__fail(err, ITER_EINVAL, "%s does not know the lengths of its samples",
                          s->documents->name);
    s->dtype = desc->fields[s->tokens].desc.dtype;
    s->width = iter_dtype_bytes(s->dtype);
    iter_extent extents[ITER_MAX_EXTENTS];
    size_t offset, bytes;
    const bool reads = desc->n_extents > 0 && desc->n_samples > 0;
    s->is_sliced = reads && iter__dataset_locate(s->documents, 0, extents) &&
                   find_tokens(s, 0, &extents[desc->fields[s->tokens].extent], &offset, &bytes);
    return ITER_OK;
}

static iter_status changed(const pack_state *s, uint64_t document, uint64_t n, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT,
                      "%s: document %" PRIu64 " has %" PRIu64
                      " tokens; its length, which rows are planned by, is %" PRId64,
                      s->documents->name, document, n,
                      iter__dataset_length(s->documents, document));
}

/* Reads tokens [first, first + n) of a document to `out`. */
static iter_status read_slice(pack_state *s, uint64_t document, uint64_t first, uint64_t n,
                              uint8_t *out, iter_error *err) {
    const iter_field *field = &s->documents->desc.fields[s->tokens];
    iter_extent extents[ITER_MAX_EXTENTS];
    size_t offset, bytes;
    if (!iter__dataset_locate(s->documents, document, extents))
        return iter__dataset_mislocated(s->documents, document, err);
    const iter_extent *extent = &extents[field->extent];
    if (!find_tokens(s, document, extent, &offset, &bytes))
        return iter__fail(err, ITER_EINVAL, "%s: document %" PRIu64 " is not stored as it is",
                          s->documents->name, document);
    if ((first + n) * s->width > bytes) return changed(s, document, bytes / s->width, err);
    return iter__row_reader_bytes(&s->reader, extent->object,
                                  extent->offset + offset + first * s->width, out, n * s->width,
                                  err);
}

/* Memory for whole documents, all fields of them. */
typedef struct whole {
    uint8_t *memory;
    int32_t lengths[ITER_MAX_FIELDS];
    iter__get_rows get;
} whole;

static iter_status whole_make(const pack_state *s, whole *out, iter_error *err) {
    const iter_description *desc = &s->documents->desc;
    size_t total = 0;
    for (int32_t f = 0; f < desc->n_fields; f++)
        total += iter__align_up_size(iter_desc_bytes(&desc->fields[f].desc) + 64, 64);
    *out = (whole){.memory = iter__alloc_large(total)};
    if (!out->memory) return iter__fail(err, ITER_ENOMEM, "no memory for %zu bytes", total);
    uint8_t *at = out->memory;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        iter_desc one = desc->fields[f].desc;
        memmove(one.dims + 1, one.dims, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
        one.dims[0] = 1;
        one.n_dims++;
        if (one.n_dims > 1 && one.dims[1] == ITER_VARIABLE) {
            one.dims[1] = one.capacity;
            out->get.lengths[f] = &out->lengths[f];
        }
        out->get.rows[f] = iter_tensor_dense(&one, at);
        at += iter__align_up_size(iter_desc_bytes(&desc->fields[f].desc) + 64, 64);
    }
    return ITER_OK;
}

static void whole_free(const pack_state *s, whole *w) {
    const iter_description *desc = &s->documents->desc;
    size_t total = 0;
    for (int32_t f = 0; f < desc->n_fields; f++)
        total += iter__align_up_size(iter_desc_bytes(&desc->fields[f].desc) + 64, 64);
    if (w->memory) iter__free_large(w->memory, total);
}

static iter_status read_whole(pack_state *s, whole *w, uint64_t document, uint64_t first,
                              uint64_t n, uint8_t *out, iter_error *err) {
    iter_rng rng = iter_rng_at(iter_rng_key(0, "get", 0), 0, document);
    for (int32_t f = 0; f < ITER_MAX_FIELDS; f++)
        if (w->get.lengths[f]) w->lengths[f] = (int32_t)w->get.rows[f].desc.dims[1];
    ITER_TRY(iter__row_reader_get(&s->reader, 1, &document, &w->get, 0, &rng, err));
    const int64_t has = w->lengths[s->tokens];
    if (has != iter__dataset_length(s->documents, document))
        return changed(s, document, (uint64_t)has, err);
    memcpy(out, (const uint8_t *)w->get.rows[s->tokens].data + first * s->width, n * s->width);
    return ITER_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Where row `i` of field `kind` goes; NULL = it is not wanted. */
static void *row_of(const pack_state *s, const iter_tensor *rows, int kind, uint32_t i) {
    const int32_t f = s->place[kind];
    if (f < 0) return NULL;
    return (uint8_t *)rows[f].data + i * rows[f].strides[0] * iter_dtype_bytes(rows[f].desc.dtype);
}

static void fill_pad(const pack_state *s, uint8_t *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + i * s->width, &s->pad, s->width); /* little-endian */
}

/* Targets of n inputs, from n + 1 tokens. */
static void write_targets(const pack_state *s, const uint8_t *tokens, uint32_t n, int32_t *out) {
    if (s->dtype == ITER_U16) { /* nearly all sets: a loop that compilers make a vector one */
        const uint16_t *from = (const uint16_t *)(const void *)tokens + 1;
        for (uint32_t i = 0; i < n; i++)
            out[i] = from[i];
    } else if (s->width == sizeof(*out)) {
        memcpy(out, tokens + s->width, n * sizeof(*out));
    } else {
        for (uint32_t i = 0; i < n; i++)
            out[i] = (int32_t)iter__scalar_value(tokens + (i + 1) * s->width, s->dtype);
    }
}

static void write_part(const pack_state *s, const iter_tensor *rows, uint32_t i, uint32_t at,
                       uint32_t n, uint32_t number, const uint8_t *tokens) {
    int32_t *targets = row_of(s, rows, LABEL, i), *segments = row_of(s, rows, SEGMENTS, i);
    int32_t *positions = row_of(s, rows, POSITIONS, i);
    uint8_t *mask = row_of(s, rows, MASK, i);
    if (targets) {
        memcpy((uint8_t *)row_of(s, rows, DATA, i) + at * s->width, tokens, n * s->width);
        write_targets(s, tokens, n, targets + at);
    }
    for (uint32_t k = 0; segments && k < n; k++)
        segments[at + k] = (int32_t)number;
    for (uint32_t k = 0; positions && k < n; k++)
        positions[at + k] = (int32_t)k;
    if (mask) memset(mask + at, 1, n);
}

static void write_rest(const pack_state *s, const iter_tensor *rows, uint32_t i, uint32_t at) {
    const uint32_t n = s->epochs.rule.length - at;
    int32_t *targets = row_of(s, rows, LABEL, i), *segments = row_of(s, rows, SEGMENTS, i);
    int32_t *positions = row_of(s, rows, POSITIONS, i);
    uint8_t *mask = row_of(s, rows, MASK, i);
    fill_pad(s, (uint8_t *)row_of(s, rows, DATA, i) + at * s->width, n);
    for (uint32_t k = at; targets && k < s->epochs.rule.length; k++)
        targets[k] = NO_TARGET;
    if (segments) memset(segments + at, 0, n * sizeof(*segments));
    if (positions) memset(positions + at, 0, n * sizeof(*positions));
    if (mask) memset(mask + at, 0, n);
}

/* `tokens` is room for a row and one more token. */
static iter_status make_row(pack_state *s, const iter__pack_plan *plan, whole *w, uint8_t *tokens,
                            uint64_t row, uint32_t i, const iter_tensor *rows, iter_error *err) {
    const uint32_t n_pieces = iter__pack_plan_count(plan, row);
    uint8_t *data = row_of(s, rows, DATA, i);
    int32_t *starts = row_of(s, rows, CU_SEQLENS, i);
    uint32_t at = 0;
    for (uint32_t k = 0; k < n_pieces; k++) {
        const iter__pack_piece piece = iter__pack_plan_piece(plan, row, k);
        const uint64_t n = piece.n + s->has_targets;
        uint8_t *to = s->has_targets ? tokens : data + at * s->width;
        ITER_TRY(s->is_sliced ? read_slice(s, piece.document, piece.first, n, to, err)
                              : read_whole(s, w, piece.document, piece.first, n, to, err));
        write_part(s, rows, i, at, piece.n, k + 1, tokens);
        if (starts) starts[k] = (int32_t)at;
        at += piece.n;
    }
    if (starts) {
        starts[n_pieces] = (int32_t)at;
        iter_rows_set_length(rows, s->place[CU_SEQLENS], i, n_pieces + 1);
    }
    write_rest(s, rows, i, at);
    return ITER_OK;
}

static iter_status pack_get(const void *state, uint32_t n, const uint64_t *indices,
                            const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    pack_state *s = (pack_state *)(uintptr_t)state; /* the reader lends its benches */
    whole w = {0};
    (void)rng;
    uint8_t *tokens = iter__alloc(s->epochs.rule.length + 1, s->width);
    iter_status status = tokens ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
    if (status == ITER_OK && !s->is_sliced) status = whole_make(s, &w, err);
    for (uint32_t i = 0; i < n && status == ITER_OK; i++) {
        const iter__pack_plan *plan;
        status = iter__pack_epochs_lend(&s->epochs, indices[i] >> ITER_INDEX_BITS, &plan, err);
        if (status < 0) break;
        status = make_row(s, plan, &w, tokens, indices[i] & ITER_INDEX_MAX, i, rows, err);
        iter__pack_epochs_back(&s->epochs, plan);
    }
    whole_free(s, &w);
    iter__free(tokens);
    return status;
}

/* ---- Open ------------------------------------------------------------------------------------ */

static iter_status open_documents(pack_state *s, const char *path, const iter_registry *registry,
                                  iter_error *err) {
    const size_t n = strlen(path);
    if (n < 2 || path[0] != '{' || path[n - 1] != '}')
        return iter__fail(err, ITER_EINVAL,
                          "expected pack:{DATASET}, as in pack:{tokens:set.idx?documents=whole}");
    char *spec = iter__strdup(path + 1);
    if (!spec) return iter__fail(err, ITER_ENOMEM, "out of memory");
    spec[n - 2] = 0;
    const iter_status status = iter_dataset_open(spec, registry, &s->documents, err);
    iter__free(spec);
    return status;
}

static void add_field(pack_state *s, const iter_pack_options *o, int kind, iter_description *out) {
    iter_field *field = &out->fields[out->n_fields];
    *field =
        (iter_field){.role = kind == LABEL ? ITER_LABEL : ITER_DATA, .extent = ITER_FROM_INDEX};
    strcpy(field->name, kind_names[kind]);
    field->desc = (iter_desc){.dtype = kind == DATA   ? s->dtype
                                       : kind == MASK ? ITER_U8
                                                      : ITER_I32,
                              .n_dims = 1,
                              .dims = {o->length},
                              .layout = "T"};
    if (kind == CU_SEQLENS) {
        field->desc.dims[0] = ITER_VARIABLE;
        field->desc.capacity = s->epochs.most + 1;
        field->desc.layout[0] = 0;
    }
    s->place[kind] = out->n_fields++;
}

static void describe(pack_state *s, const iter_pack_options *o, iter_description *out) {
    const bool wanted[N_KINDS] = {true,         o->label, o->segments,
                                  o->positions, o->mask,  o->cu_seqlens};
    for (int kind = 0; kind < N_KINDS; kind++) {
        s->place[kind] = -1;
        if (wanted[kind]) add_field(s, o, kind, out);
    }
    out->n_samples = s->epochs.n_rows;
    out->by_epoch = 1;
    out->split = "";
    out->index_bytes = s->documents->desc.index_bytes + iter__pack_epochs_bytes(&s->epochs);
    const uint64_t numbers[] = {
        (uint64_t)o->length, (uint64_t)o->group,          (uint64_t)o->pad,
        (uint64_t)o->seed,   (uint64_t)o->label,          s->epochs.n_rows,
        s->epochs.n_units,   s->documents->desc.identity, s->documents->desc.n_samples};
    out->identity = iter__fnv1a(iter__fnv1a_text(ITER_FNV_START, "pack"), numbers, sizeof(numbers));
}

static iter_status check_options(const iter_pack_options *o, iter_error *err) {
    const bool fits = o->length >= 1 && o->length <= LENGTH_MAX && o->group >= 0 &&
                      o->group <= GROUP_MAX && o->pad >= 0 && o->too_long >= 0 && o->too_long <= 1;
    if (fits) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "length %" PRId64 ", group %" PRId64 ", pad %" PRId64
                      ", too_long %d: expected 1 to %d, 0 to %d, at least 0, 0 or 1",
                      o->length, o->group, o->pad, o->too_long, LENGTH_MAX, GROUP_MAX);
}

static iter_status build(pack_state *s, const iter_pack_options *o, iter_description *out,
                         iter_error *err) {
    ITER_TRY(check_options(o, err));
    if (s->documents->desc.n_samples == ITER_UNKNOWN)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s is a stream; rows are planned from all lengths", s->documents->name);
    s->has_targets = o->label;
    ITER_TRY(find_field(s, err));
    s->pad = (uint64_t)o->pad;
    if (s->width < 8 && s->pad >> 8 * s->width)
        return iter__fail(err, ITER_EINVAL, "pad=%" PRId64 " does not fit %s", o->pad,
                          iter_dtype_text(s->dtype));
    ITER_TRY(iter__row_reader_open(&s->reader, s->documents, err));
    const iter__pack_rule rule = {(uint32_t)o->length,
                                  (uint32_t)(o->group ? o->group : GROUP),
                                  iter_rng_key((uint64_t)o->seed, "pack", 0),
                                  o->too_long == 1,
                                  0,
                                  NULL};
    ITER_TRY(
        iter__pack_epochs_open(&s->epochs, &rule, s->documents->desc.n_samples, units_of, s, err));
    if (s->epochs.n_rows == 0)
        return iter__fail(err, ITER_EFORMAT, "%s has no document of two tokens or more",
                          s->documents->name);
    describe(s, o, out);
    return ITER_OK;
}

static iter_status pack_open(void *state, const char *path, const void *options,
                             iter_description *out, iter_error *err) {
    pack_state *s = state;
    iter_status status = open_documents(s, path, out->registry, err);
    if (status == ITER_OK) status = build(s, options, out, err);
    if (status < 0) pack_close(s);
    return status;
}

iter_status iter__pack_build(void *state, iter_dataset *documents, const iter_pack_options *options,
                             iter_description *out, iter_error *err) {
    pack_state *s = state;
    s->documents = iter_dataset_ref(documents);
    const iter_status status = build(s, options ? options : &defaults, out, err);
    if (status < 0) pack_close(s);
    return status;
}

void iter__pack_adopt(void *state) {
    pack_state *s = state;
    iter__row_reader_adopt(&s->reader);
    iter__pack_epochs_adopt(&s->epochs);
}

const iter_format_ops iter__format_pack = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "pack",
             .help = "rows of several documents each, packed by their lengths: "
                     "{tokens:set.idx?documents=whole}",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(iter_pack_options),
             .state_size = sizeof(pack_state)},
    .open = pack_open,
    .close = pack_close,
    .get = pack_get,
};
