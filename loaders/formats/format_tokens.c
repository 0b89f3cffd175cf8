/*
 * format_tokens.c - streams of token ids for language models.
 *
 * A sample is a window: `length` inputs and their targets, which are the same tokens one place
 * further on. So it is one extent of length + 1 tokens, and both fields are that memory, the
 * targets one token later. Files are opened by the source when they are read; here each is looked
 * at once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/remote/url.h"
#include "loaders/decoders/decode_tokens.h"
#include "loaders/files/file.h"
#include "loaders/files/paths.h"
#include "loaders/formats/megatron_index.h"
#include "loaders/formats/token_rows.h"
#include "loaders/formats/token_shard.h"

#define SHARDS_AHEAD 64 /* files elsewhere that are opened at a time */
#define TOKENS_MAX   (INT32_MAX - 1)

enum { ITER_TOKENS_CROSS, ITER_TOKENS_KEEP, ITER_TOKENS_WHOLE }; /* documents= */

typedef struct tokens_options {
    int64_t length, stride;
    int32_t dtype, last, documents;
    bool label, header;
} tokens_options;

static const tokens_options defaults = {.length = 1024, .label = true, .header = true};

static const iter_option option_rows[] = {
    ITER_ROW_INT("length", "inputs of a row", tokens_options, length, 1, TOKENS_MAX, 0),
    ITER_ROW_INT_OR("stride", "tokens from one row's start to the next one's", tokens_options,
                    stride, 0, TOKENS_MAX, "length", 0),
    ITER_ROW_DTYPE("dtype", "type of the tokens in files without a head; default: u16",
                   tokens_options, dtype, 0),
    ITER_ROW_CHOICE("last",
                    "tokens at the end that fill no row: dropped, a row that overlaps the one "
                    "before, or a shorter row",
                    tokens_options, last, "drop|overlap|short"),
    ITER_ROW_CHOICE("documents",
                    "whether a row may cross the documents' borders, or is a document; keep and "
                    "whole want Megatron's index",
                    tokens_options, documents, "cross|keep|whole"),
    ITER_ROW_BOOL("label", "no = one field, whose rows have the last target, too", tokens_options,
                  label),
    ITER_ROW_BOOL("header", "no = files are tokens from the first byte on", tokens_options, header),
    ITER_ROW_END,
};

typedef struct tokens_state {
    iter__paths paths;
    iter_file *files;  /* [n_files] */
    uint64_t *offsets; /* [n_files]: where the tokens begin */
    uint64_t n_files;
    iter_dtype dtype;
    size_t width; /* bytes of a token */
    iter__token_rule rule;
    iter__token_rows rows;
    char left_out[160];
} tokens_state;

static void tokens_close(void *state) {
    tokens_state *s = state;
    iter__paths_free(&s->paths);
    iter__free(s->files);
    iter__free(s->offsets);
    iter__token_rows_free(&s->rows);
    memset(s, 0, sizeof(*s));
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Adds the rows of a shard that has an index or not; sets what the index says. */
static iter_status add_rows(tokens_state *s, iter__token_shard *shard, const tokens_options *o,
                            iter_error *err) {
    if (shard->idx) {
        iter__megatron_index index;
        ITER_TRY(iter__megatron_index_read(shard->idx, shard->path, shard->file_bytes, &s->rows,
                                           &index, err));
        shard->dtype = index.dtype;
        shard->n_tokens = index.n_tokens;
        shard->swapped =
            __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && iter_dtype_bytes(index.dtype) > 1;
        ITER_TRY(iter__token_shard_expect(shard, (iter_dtype)o->dtype, err));
    } else if (s->rows.by_document) {
        return iter__fail(
            err, ITER_EINVAL,
            "%s: documents=keep and whole want Megatron's index, which says where they "
            "begin",
            shard->path);
    }
    return iter__token_rows_end_file(&s->rows, shard->n_tokens, err);
}

/* All files must agree in what the first one has. */
static iter_status check_alike(tokens_state *s, const iter__token_shard *shard, iter_error *err) {
    if (s->n_files == 0) {
        s->dtype = shard->dtype;
        s->width = iter_dtype_bytes(shard->dtype);
        s->rule.swapped = shard->swapped;
    }
    if (shard->dtype != s->dtype)
        return iter__fail(err, ITER_EFORMAT, "%s: has tokens of %s, %s has %s", shard->path,
                          iter_dtype_text(shard->dtype), iter__path_base(s->files[0].path),
                          iter_dtype_text(s->dtype));
    if (shard->swapped != s->rule.swapped)
        return iter__fail(err, ITER_EFORMAT, "%s: has another byte order than %s", shard->path,
                          iter__path_base(s->files[0].path));
    return ITER_OK;
}

/* Adds file `f` of the list. "set.bin" and "set.idx", one after the other, are the same set. */
static iter_status add_file(tokens_state *s, uint64_t f, iter__token_shard *shard,
                            const tokens_options *o, iter_error *err) {
    if (shard->idx && s->n_files && strcmp(shard->path, s->files[s->n_files - 1].path) == 0)
        return ITER_OK;
    ITER_TRY(add_rows(s, shard, o, err));
    ITER_TRY(check_alike(s, shard, err));
    iter__free(s->paths.names[f]);
    s->paths.names[f] = shard->path;
    s->files[s->n_files] = iter__file_entry(shard->path, shard->file_bytes);
    s->offsets[s->n_files++] = shard->offset;
    shard->path = NULL;
    return ITER_OK;
}

/* The files that are opened before they are added, in their order. */
typedef struct opening {
    const tokens_state *state;
    const tokens_options *options;
    uint64_t first;
    iter__token_shard shards[SHARDS_AHEAD];
    iter_status status[SHARDS_AHEAD];
    iter_error err[SHARDS_AHEAD];
} opening;

/* An error waits until the files before this one were added: they may have one, too. */
static iter_status open_one(void *user, uint64_t i, iter_error *err) {
    opening *o = user;
    (void)err;
    o->status[i] =
        iter__token_shard_open(o->state->paths.names[o->first + i], (iter_dtype)o->options->dtype,
                               !o->options->header, &o->shards[i], &o->err[i]);
    return ITER_OK;
}

/* Opens and adds n files. */
static iter_status add_some(tokens_state *s, opening *o, uint64_t n, iter_error *err) {
    iter_status status =
        iter__files_each(s->paths.names[o->first], n, SHARDS_AHEAD, open_one, o, err);
    for (uint64_t i = 0; i < n; i++) {
        if (status == ITER_OK && o->status[i] < 0)
            status = iter__fail(err, o->status[i], "%s", o->err[i].message);
        if (status == ITER_OK) status = add_file(s, o->first + i, &o->shards[i], o->options, err);
        iter__token_shard_free(&o->shards[i]);
    }
    return status;
}

static iter_status add_files(tokens_state *s, const char *path, const tokens_options *o,
                             iter_error *err) {
    const iter__token_cut cut = {.length = (uint64_t)o->length,
                                 .stride = (uint64_t)(o->stride ? o->stride : o->length),
                                 .last = (iter__token_last)o->last};
    ITER_TRY(iter__paths_expand(path, ".bin", &s->paths, err));
    const uint64_t n = s->paths.n;
    s->files = iter__alloc((size_t)n, sizeof(*s->files));
    s->offsets = iter__alloc((size_t)n, sizeof(*s->offsets));
    if (!s->files || !s->offsets)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    ITER_TRY(iter__token_rows_open(&s->rows, cut, o->documents != 0, n, err));
    opening *opened = iter__alloc(1, sizeof(*opened));
    if (!opened) return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    opened->state = s;
    opened->options = o;
    const uint64_t step = iter__url_is(s->paths.names[0]) ? SHARDS_AHEAD : 1;
    iter_status status = ITER_OK;
    for (; opened->first < n && status == ITER_OK; opened->first += step) {
        const uint64_t left = n - opened->first;
        status = add_some(s, opened, left < step ? left : step, err);
    }
    iter__free(opened);
    ITER_TRY(status);
    if (iter__token_rows_count(&s->rows) > 0) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "%s: holds no row of %" PRIu64 " tokens and their targets: the longest %s "
                      "has %" PRIu64 " tokens",
                      path, cut.length, s->rows.by_document ? "document" : "file", s->rows.longest);
}

/* ---- The description ------------------------------------------------------------------------- */

static void describe_field(const tokens_state *s, const tokens_options *o, bool is_label,
                           iter_field *out) {
    const int64_t n = o->length + (o->label ? 0 : 1);
    const bool is_short = o->last == ITER_TOKEN_LAST_SHORT;
    memset(out, 0, sizeof(*out));
    strcpy(out->name, is_label ? "label" : "data");
    out->role = is_label ? ITER_LABEL : ITER_DATA;
    out->desc = (iter_desc){.dtype = s->dtype, .n_dims = 1, .dims = {n}, .layout = "T"};
    out->offset = is_label ? s->width : 0;
    if (is_short) {
        out->desc.dims[0] = ITER_VARIABLE;
        out->desc.capacity = n;
    }
    if (is_short || s->rule.swapped)
        out->decoder = is_label ? &iter__decoder_token_targets : &iter__decoder_token_inputs;
}

static uint64_t identity_of(const tokens_state *s, const tokens_options *o) {
    const uint64_t numbers[] = {s->rows.cut.length,
                                s->rows.cut.stride,
                                (uint64_t)o->last,
                                (uint64_t)o->documents,
                                o->label,
                                s->dtype,
                                s->rows.n_documents,
                                iter__token_rows_count(&s->rows)};
    uint64_t hash = iter__fnv1a_text(ITER_FNV_START, "tokens");
    hash = iter__fnv1a(hash, numbers, sizeof(numbers));
    for (uint64_t f = 0; f < s->n_files; f++) {
        hash = iter__fnv1a_text(hash, iter__path_base(s->files[f].path));
        hash = iter__fnv1a_u64(hash, s->files[f].bytes);
    }
    return hash;
}

/* Counts the tokens that no row has. */
static void describe_left_out(tokens_state *s, iter_description *out) {
    const iter__token_rows *rows = &s->rows;
    const uint64_t n_streams = rows->by_document ? rows->n_documents : rows->n_files;
    uint64_t n_tokens = 0;
    for (uint64_t f = 0; f < rows->n_files; f++)
        n_tokens += rows->n_tokens[f];
    out->n_left_out = n_tokens - rows->n_used;
    if (out->n_left_out == 0) return;
    const int n =
        snprintf(s->left_out, sizeof(s->left_out),
                 "%" PRIu64 " of %" PRIu64 " tokens are in no row", out->n_left_out, n_tokens);
    if (rows->n_empty > 0)
        snprintf(s->left_out + n, sizeof(s->left_out) - (size_t)n,
                 "; %" PRIu64 " of %" PRIu64 " %s have no row", rows->n_empty, n_streams,
                 rows->by_document ? "documents" : "files");
    out->left_out = s->left_out;
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status tokens_open(void *state, const char *path, const void *options,
                               iter_description *out, iter_error *err) {
    tokens_state *s = state;
    tokens_options own = *(const tokens_options *)options, *o = &own;
    const bool whole = o->documents == ITER_TOKENS_WHOLE;
    if (whole) { /* one short row a document */
        own.length = own.stride = TOKENS_MAX;
        own.last = ITER_TOKEN_LAST_SHORT;
        own.label = false;
    }
    s->rule.has_targets = o->label;
    const iter_status status = add_files(s, path, o, err);
    if (status < 0) {
        tokens_close(s);
        return status;
    }
    if (whole && s->rows.longest <= TOKENS_MAX) {
        own.length = (int64_t)s->rows.longest - 1;
        s->rows.cut.length = s->rows.cut.stride = (uint64_t)own.length;
    }
    out->n_samples = iter__token_rows_count(&s->rows);
    out->n_fields = o->label ? 2 : 1;
    for (int32_t f = 0; f < out->n_fields; f++)
        describe_field(s, o, f == 1, &out->fields[f]);
    out->n_extents = 1;
    out->max_extent_bytes[0] = (s->rows.cut.length + 1) * s->width;
    out->files = s->files;
    out->n_files = s->n_files;
    out->split = "";
    out->shared = &s->rule;
    out->shared_bytes = sizeof(s->rule);
    out->identity = identity_of(s, o);
    describe_left_out(s, out);
    return ITER_OK;
}

static void tokens_locate(const void *state, uint64_t index, iter_extent *out) {
    const tokens_state *s = state;
    const iter__token_place place = iter__token_rows_find(&s->rows, index);
    *out = (iter_extent){.object = place.file,
                         .offset = s->offsets[place.file] + place.first * s->width,
                         .size = place.n * s->width};
}

static int64_t tokens_length(const void *state, uint64_t index) {
    const tokens_state *s = state;
    return (int64_t)iter__token_rows_find(&s->rows, index).n - s->rule.has_targets;
}

const iter_format_ops iter__format_tokens = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "tokens",
             .help = "token ids: raw, llm.c's and nanoGPT's .bin, .npy, Megatron's .idx; rows of "
                     "`length`, and the same one token further on",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(tokens_options),
             .state_size = sizeof(tokens_state)},
    .open = tokens_open,
    .close = tokens_close,
    .locate = tokens_locate,
    .length = tokens_length,
};
