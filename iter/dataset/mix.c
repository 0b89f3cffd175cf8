/* mix.c - see mix.h. */
#include "iter/dataset/mix.h"

#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/dataset/row_reader.h"

typedef struct mix_source {
    iter_dataset *dataset;
    uint64_t first_file; /* its files' place in the mix's list */
    uint32_t way;        /* to decode its samples */
} mix_source;

typedef struct mix_state {
    int32_t n;
    mix_source *sources; /* [n] */
    iter_part *parts;    /* [n]; their names are `names` */
    char *names;
    uint64_t *first; /* [n + 1]: index of each source's first sample */
    iter_file *files;
    iter__decoding *ways; /* [n_ways] */
    uint32_t n_ways;
    iter__row_reader *readers; /* [n], if rows come by get() */
    char *left_out;            /* of all sources; NULL = nothing */
    bool by_epoch;             /* one of them is */
} mix_state;

/* The source that has sample `index`. */
static int32_t source_of(const mix_state *s, uint64_t index) {
    int32_t low = 0, high = s->n; /* first[low] <= index < first[high] */
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (s->first[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void mix_close(void *state) {
    mix_state *s = state;
    for (int32_t i = 0; s->readers && i < s->n; i++)
        iter__row_reader_close(&s->readers[i]);
    for (int32_t i = 0; s->sources && i < s->n; i++)
        iter_dataset_unref(s->sources[i].dataset);
    iter__free(s->readers);
    iter__free(s->sources);
    iter__free(s->parts);
    iter__free(s->names);
    iter__free(s->first);
    iter__free(s->files);
    iter__free(s->ways);
    iter__free(s->left_out);
    *s = (mix_state){0};
}

/* ---- Whether they fit together --------------------------------------------------------------- */

static bool same_field(const iter_field *a, const iter_field *b) {
    if (strcmp(a->name, b->name) != 0 || a->role != b->role || a->desc.dtype != b->desc.dtype ||
        a->desc.n_dims != b->desc.n_dims)
        return false;
    const bool both = a->desc.layout[0] && b->desc.layout[0];
    if (both && strcmp(a->desc.layout, b->desc.layout) != 0) return false;
    return memcmp(a->desc.dims, b->desc.dims, (size_t)a->desc.n_dims * sizeof(a->desc.dims[0])) ==
           0;
}

/* "data u16 [1024], label u16 [1024]" */
static void fields_text(const iter_description *desc, char *out, size_t capacity) {
    size_t used = 0;
    out[0] = 0;
    for (int32_t f = 0; f < desc->n_fields && used < capacity; f++) {
        char shape[128];
        iter_desc_text(&desc->fields[f].desc, shape, sizeof(shape));
        used += (size_t)snprintf(out + used, capacity - used, "%s%s %s", f ? ", " : "",
                                 desc->fields[f].name, shape);
    }
}

/* Adds what this source's fields have to those of `out`, which are the first one's. */
static iter_status join_fields(const mix_state *s, int32_t i, iter_description *out,
                               iter_error *err) {
    const iter_description *desc = &s->sources[i].dataset->desc;
    bool same = desc->n_fields == out->n_fields;
    for (int32_t f = 0; same && f < out->n_fields; f++)
        same = same_field(&desc->fields[f], &out->fields[f]);
    if (!same) {
        char theirs[200], ours[200];
        fields_text(desc, theirs, sizeof(theirs));
        fields_text(out, ours, sizeof(ours));
        return iter__fail(err, ITER_EINVAL,
                          "source '%s' has other fields than '%s': %s; expected %s",
                          s->parts[i].name, s->parts[0].name, theirs, ours);
    }
    for (int32_t f = 0; f < out->n_fields; f++) {
        iter_field *field = &out->fields[f];
        const iter_field *other = &desc->fields[f];
        if (other->desc.capacity > field->desc.capacity)
            field->desc.capacity = other->desc.capacity;
        const bool unlimited = field->limit == 0 || other->limit == 0;
        field->limit = unlimited ? 0 : iter__max_u32(field->limit, other->limit);
    }
    return ITER_OK;
}

/* Whether samples of `a` and `b` lie in files in the same way. */
static bool reads_alike(const iter_dataset *a, const iter_dataset *b) {
    if (!b->format || b->format->get || b->desc.n_extents == 0 ||
        b->desc.n_extents != a->desc.n_extents)
        return false;
    for (int32_t f = 0; f < b->desc.n_fields; f++) {
        const iter_field *x = &a->desc.fields[f], *y = &b->desc.fields[f];
        if (b->resident[f].base || x->extent != y->extent || x->offset != y->offset ||
            !x->decoder != !y->decoder)
            return false;
    }
    return true;
}

static bool decodes_alike(const iter_dataset *a, const iter_dataset *b) {
    if (a->n_decodings != 1 || b->n_decodings != 1) return false;
    bool uses_shared = false;
    for (int32_t f = 0; f < a->desc.n_fields; f++) {
        if (a->desc.fields[f].decoder != b->desc.fields[f].decoder) return false;
        uses_shared |= a->desc.fields[f].decoder != NULL;
    }
    if (!uses_shared || a->desc.shared == b->desc.shared) return true;
    return a->desc.shared && b->desc.shared && a->desc.shared_bytes > 0 &&
           a->desc.shared_bytes == b->desc.shared_bytes &&
           memcmp(a->desc.shared, b->desc.shared, a->desc.shared_bytes) == 0;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static iter_status check_weights(const iter_mix_source *sources, int32_t n, iter_error *err) {
    for (int32_t i = 0; i < n; i++) {
        const double weight = sources[i].weight;
        if (!(weight >= 0 && weight <= 1e300))
            return iter__fail(err, ITER_EINVAL, "source %d: %g is no weight", i + 1, weight);
        if ((weight > 0) != (sources[0].weight > 0))
            return iter__fail(err, ITER_EINVAL,
                              "either every source has a weight or none: source %d has %s", i + 1,
                              weight > 0 ? "one" : "none");
    }
    return ITER_OK;
}

static iter_status add_part(mix_state *s, int32_t i, const iter_mix_source *source, char *name,
                            iter_error *err) {
    const iter_description *desc = &source->dataset->desc;
    s->parts[i] = (iter_part){name, desc->n_samples, source->weight, desc->by_epoch};
    for (int32_t j = 0; j < i && source->name; j++)
        if (strcmp(s->parts[j].name, name) == 0)
            return iter__fail(err, ITER_EINVAL, "two sources are called '%s'", name);
    if (desc->n_samples == ITER_UNKNOWN)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "source '%s' is a stream; a mix needs the number of its samples", name);
    if (desc->n_samples == 0 && source->weight > 0)
        return iter__fail(err, ITER_EINVAL, "source '%s' has a weight and no samples", name);
    if (__builtin_add_overflow(s->first[i], desc->n_samples, &s->first[i + 1]) ||
        s->first[i + 1] > INT64_MAX)
        return iter__fail(err, ITER_EINVAL, "more than 2^63 samples");
    return ITER_OK;
}

static iter_status add_parts(mix_state *s, const iter_mix_source *sources, iter_error *err) {
    size_t bytes = 1;
    for (int32_t i = 0; i < s->n; i++)
        bytes += strlen(sources[i].name ? sources[i].name : sources[i].dataset->name) + 1;
    s->names = iter__alloc(bytes, 1);
    if (!s->names) return iter__fail(err, ITER_ENOMEM, "out of memory");
    char *at = s->names;
    for (int32_t i = 0; i < s->n; i++) {
        const char *name = sources[i].name ? sources[i].name : sources[i].dataset->name;
        const size_t length = strlen(name) + 1;
        memcpy(at, name, length);
        ITER_TRY(add_part(s, i, &sources[i], at, err));
        at += length;
    }
    return ITER_OK;
}

/* ---- Ways to rows ---------------------------------------------------------------------------- */

static iter_status join_files(mix_state *s, iter_description *out, iter_error *err) {
    for (int32_t i = 0; i < s->n; i++) {
        const iter_description *desc = &s->sources[i].dataset->desc;
        s->sources[i].first_file = out->n_files;
        out->n_files += desc->n_files;
        for (int32_t e = 0; e < out->n_extents; e++)
            out->max_extent_bytes[e] =
                iter__max_u64(out->max_extent_bytes[e], desc->max_extent_bytes[e]);
    }
    s->files = iter__alloc((size_t)out->n_files, sizeof(*s->files));
    if (!s->files) return iter__fail(err, ITER_ENOMEM, "out of memory");
    for (int32_t i = 0; i < s->n; i++) {
        const iter_description *desc = &s->sources[i].dataset->desc;
        for (uint64_t f = 0; f < desc->n_files; f++)
            s->files[s->sources[i].first_file + f] = desc->files[f];
    }
    out->files = s->files;
    return ITER_OK;
}

/* Gives sources that decode alike one way. */
static iter_status join_ways(mix_state *s, iter_error *err) {
    uint32_t most = 0;
    for (int32_t i = 0; i < s->n; i++)
        most += s->sources[i].dataset->n_decodings;
    s->ways = iter__alloc(most, sizeof(*s->ways));
    if (!s->ways) return iter__fail(err, ITER_ENOMEM, "out of memory");
    for (int32_t i = 0; i < s->n; i++) {
        const iter_dataset *dataset = s->sources[i].dataset;
        int32_t like = 0;
        while (like < i && !decodes_alike(s->sources[like].dataset, dataset))
            like++;
        s->sources[i].way = like < i ? s->sources[like].way : s->n_ways;
        if (like < i) continue;
        memcpy(s->ways + s->n_ways, dataset->decodings,
               dataset->n_decodings * sizeof(dataset->decodings[0]));
        s->n_ways += dataset->n_decodings;
    }
    return ITER_OK;
}

/* Rows by get(): no extents, and each field as the source's row. */
static iter_status open_readers(mix_state *s, iter_description *out, iter_error *err) {
    s->readers = iter__alloc((size_t)s->n, sizeof(*s->readers));
    s->ways = iter__alloc(1, sizeof(*s->ways));
    if (!s->readers || !s->ways) return iter__fail(err, ITER_ENOMEM, "out of memory");
    s->n_ways = 1;
    out->keep_rows = 1;
    for (int32_t i = 0; i < s->n; i++) {
        ITER_TRY(iter__row_reader_open(&s->readers[i], s->sources[i].dataset, err));
        out->keep_rows &= s->sources[i].dataset->desc.keep_rows;
    }
    out->n_extents = 0;
    for (int32_t f = 0; f < out->n_fields; f++) {
        out->fields[f].extent = ITER_FROM_INDEX;
        out->fields[f].offset = 0;
        out->fields[f].decoder = NULL;
    }
    return ITER_OK;
}

static void join_classes(const mix_state *s, iter_description *out) {
    for (int32_t i = 1; i < s->n; i++) {
        const iter_description *desc = &s->sources[i].dataset->desc;
        bool same = desc->n_classes == out->n_classes && !desc->class_names == !out->class_names;
        for (int32_t c = 0; same && out->class_names && c < out->n_classes; c++)
            same = strcmp(desc->class_names[c], out->class_names[c]) == 0;
        if (same) continue;
        out->class_names = NULL;
        out->n_classes = 0;
    }
}

/* Adds what a source leaves out: "web: 3 of 900 tokens are in no row; code: ..." */
static iter_status join_left_out(mix_state *s, int32_t i, iter_description *out, iter_error *err) {
    const iter_description *desc = &s->sources[i].dataset->desc;
    if (!desc->left_out) return ITER_OK;
    char *joined = iter__strf("%s%s%s: %s", s->left_out ? s->left_out : "", s->left_out ? "; " : "",
                              s->parts[i].name, desc->left_out);
    if (!joined) return iter__fail(err, ITER_ENOMEM, "out of memory");
    iter__free(s->left_out);
    out->left_out = s->left_out = joined;
    out->n_left_out += desc->n_left_out;
    return ITER_OK;
}

static iter_status build(mix_state *s, const iter_mix_source *sources, iter_description *out,
                         iter_error *err) {
    const size_t n = (size_t)s->n;
    s->sources = iter__alloc(n, sizeof(*s->sources));
    s->parts = iter__alloc(n, sizeof(*s->parts));
    s->first = iter__alloc(n + 1, sizeof(*s->first));
    if (!s->sources || !s->parts || !s->first) return iter__fail(err, ITER_ENOMEM, "out of memory");
    uint64_t identity = iter__fnv1a_text(ITER_FNV_START, "mix");
    for (int32_t i = 0; i < s->n; i++) {
        s->sources[i].dataset = iter_dataset_ref(sources[i].dataset);
        identity = iter__fnv1a_u64(identity, sources[i].dataset->desc.identity);
        identity = iter__fnv1a_u64(identity, sources[i].dataset->desc.n_samples);
    }
    ITER_TRY(check_weights(sources, s->n, err));
    ITER_TRY(add_parts(s, sources, err));
    const iter_registry *registry = out->registry;
    *out = s->sources[0].dataset->desc;
    out->registry = registry;
    out->index_bytes = 0;
    out->n_files = 0;
    out->files = NULL;
    out->shared = NULL;
    out->shared_bytes = 0;
    out->split = "";
    out->left_out = NULL;
    out->n_left_out = 0;
    bool alike = true;
    for (int32_t i = 0; i < s->n; i++) {
        ITER_TRY(join_fields(s, i, out, err));
        ITER_TRY(join_left_out(s, i, out, err));
        alike = alike && reads_alike(s->sources[0].dataset, s->sources[i].dataset);
        out->index_bytes += s->sources[i].dataset->desc.index_bytes;
        out->by_epoch |= s->sources[i].dataset->desc.by_epoch;
    }
    s->by_epoch = out->by_epoch;
    join_classes(s, out);
    out->parts = s->parts;
    out->n_parts = s->n;
    out->n_samples = s->first[n];
    out->identity = identity;
    if (!alike) return open_readers(s, out, err);
    ITER_TRY(join_files(s, out, err));
    ITER_TRY(join_ways(s, err));
    out->shared = s->ways[0].shared;
    return ITER_OK;
}

iter_status iter__mix_build(void *state, const iter_mix_source *sources, int32_t n,
                            iter_description *out, iter_error *err) {
    mix_state *s = state;
    if (!sources || n < 1) return iter__fail(err, ITER_EINVAL, "no source");
    for (int32_t i = 0; i < n; i++)
        if (!sources[i].dataset)
            return iter__fail(err, ITER_EINVAL, "source %d has no dataset", i + 1);
    s->n = n;
    const iter_status status = build(s, sources, out, err);
    if (status < 0) mix_close(s);
    return status;
}

void iter__mix_adopt(void *state) {
    mix_state *s = state;
    for (int32_t i = 0; s->readers && i < s->n; i++)
        iter__row_reader_adopt(&s->readers[i]);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

static iter_status open_entries(const iter__mix_list *list, iter_mix_source *sources,
                                const iter_registry *registry, iter_error *err) {
    for (int32_t i = 0; i < list->n; i++) {
        const iter__mix_entry *entry = &list->entries[i];
        const iter_status status =
            iter_dataset_open(entry->spec, registry, &sources[i].dataset, err);
        if (status < 0)
            return iter__fail_in(err, status, "source %d ('%.60s')", i + 1,
                                 entry->name ? entry->name : entry->spec);
        sources[i].name = entry->name;
        sources[i].weight = entry->weight;
    }
    return ITER_OK;
}

static iter_status mix_open(void *state, const char *path, const void *options,
                            iter_description *out, iter_error *err) {
    iter__mix_list list = {0};
    iter_mix_source *sources = NULL;
    (void)options;
    iter_status status = iter__mix_parse(path, &list, err);
    if (status == ITER_OK) {
        sources = iter__alloc((size_t)list.n, sizeof(*sources));
        status = sources ? open_entries(&list, sources, out->registry, err)
                         : iter__fail(err, ITER_ENOMEM, "out of memory");
    }
    if (status == ITER_OK) status = iter__mix_build(state, sources, list.n, out, err);
    for (int32_t i = 0; sources && i < list.n; i++)
        iter_dataset_unref(sources[i].dataset);
    iter__free(sources);
    iter__mix_list_free(&list);
    return status;
}

static void mix_locate(const void *state, uint64_t index, iter_extent *out) {
    const mix_state *s = state;
    const int32_t i = source_of(s, index);
    const iter_dataset *dataset = s->sources[i].dataset;
    dataset->format->locate(dataset->state, index - s->first[i], out);
    for (int32_t e = 0; e < dataset->desc.n_extents; e++) {
        if (out[e].object < dataset->desc.n_files)
            out[e].object += s->sources[i].first_file;
        else
            out[e].object = ITER_UNKNOWN; /* else a wrong one would be another source's */
    }
}

static void mix_index_row(const void *state, uint64_t index, int32_t field, void *row) {
    const mix_state *s = state;
    const int32_t i = source_of(s, index);
    const iter_dataset *dataset = s->sources[i].dataset;
    dataset->format->index_row(dataset->state, index - s->first[i], field, row);
}

static int64_t mix_length(const void *state, uint64_t index) {
    const mix_state *s = state;
    const int32_t i = source_of(s, index);
    return iter__dataset_length(s->sources[i].dataset, index - s->first[i]);
}

static void mix_place(const void *state, uint64_t index, char *out, size_t capacity) {
    const mix_state *s = state;
    const int32_t i = source_of(s, index);
    const iter_dataset *dataset = s->sources[i].dataset;
    if (dataset->format->place)
        dataset->format->place(dataset->state, index - s->first[i], out, capacity);
    else
        out[0] = 0;
}

static iter_status mix_get(const void *state, uint32_t n, const uint64_t *indices,
                           const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    const mix_state *s = state;
    const iter__get_rows *get = (const iter__get_rows *)(const void *)rows;
    uint64_t local[64];
    const uint64_t mask = s->by_epoch ? ITER_INDEX_MAX : UINT64_MAX;
    for (uint32_t row = 0, k; row < n; row += k) {
        const int32_t i = source_of(s, indices[row] & mask);
        const bool by_epoch = s->parts[i].by_epoch;
        for (k = 0; k < 64 && row + k < n; k++) {
            const uint64_t index = indices[row + k] & mask;
            if (index < s->first[i] || index >= s->first[i + 1]) break;
            local[k] = (index - s->first[i]) | (by_epoch ? indices[row + k] & ~mask : 0);
        }
        const iter_status status =
            iter__row_reader_get(&s->readers[i], k, local, get, row, rng + row, err);
        if (status < 0) return iter__fail_in(err, status, "source '%s'", s->parts[i].name);
    }
    return ITER_OK;
}

const iter__decoding *iter__mix_decodings(const void *state, uint32_t *out_n) {
    const mix_state *s = state;
    *out_n = s->n_ways;
    return s->ways;
}

uint32_t iter__mix_decoding(const void *state, uint64_t index) {
    const mix_state *s = state;
    const int32_t i = source_of(s, index);
    const iter_dataset *dataset = s->sources[i].dataset;
    return s->sources[i].way + iter__dataset_decoding(dataset, index - s->first[i]);
}

#define MIX_BASE                                                                              \
    {                                                                                         \
        .struct_size = sizeof(iter_format_ops), .name = "mix",                                \
        .help = "several datasets as one, drawn by weights: {web=0.7 tokens:a.idx; code=0.3 " \
                "tokens:b.idx}, or a file with a source in each line",                        \
        .state_size = sizeof(mix_state)                                                       \
    }

const iter_format_ops iter__format_mix = {
    .base = MIX_BASE,
    .open = mix_open,
    .close = mix_close,
    .locate = mix_locate,
    .index_row = mix_index_row,
    .length = mix_length,
    .place = mix_place,
};

static const iter_format_ops mix_read = {
    .base = MIX_BASE,
    .open = mix_open,
    .close = mix_close,
    .locate = mix_locate,
    .index_row = mix_index_row,
    .place = mix_place,
};

static const iter_format_ops mix_got = {
    .base = MIX_BASE,
    .open = mix_open,
    .close = mix_close,
    .get = mix_get,
};

static const iter_format_ops mix_got_lengths = {
    .base = MIX_BASE,
    .open = mix_open,
    .close = mix_close,
    .get = mix_get,
    .length = mix_length,
};

const iter_format_ops *iter__mix_table(const void *state) {
    const mix_state *s = state;
    bool lengths = true;
    for (int32_t i = 0; i < s->n; i++)
        lengths = lengths && iter__dataset_has_length(s->sources[i].dataset);
    if (s->readers) return lengths ? &mix_got_lengths : &mix_got;
    return lengths ? &iter__format_mix : &mix_read;
}
