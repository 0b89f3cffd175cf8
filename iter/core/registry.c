/*
 * registry.c - a caller's tables beside the built-in ones, and what a table must have.
 *
 * A table is checked once, when it is added, so that nothing behind the seams asks again whether a
 * member is there. Tables are few: plain arrays, searched from the front.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/builtins.h"
#include "iter/core/error.h"
#include "iter/core/options.h"
#include "iter/core/suggest.h"

/* A struct_size this far beyond ours was never set. */
#define UNKNOWN_BYTES_MAX 4096

typedef struct table_list {
    const iter_ops **tables; /* base is the first member of every table */
    int32_t n, capacity;
} table_list;

struct iter_registry {
    table_list formats, transforms, samplers, decoders;
};

/* ---- What a table must have ------------------------------------------------------------------ */

static bool is_name(const char *name, const char *extra) {
    if (!name || !*name) return false;
    for (const char *p = name; *p; p++) {
        const bool plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-';
        if (!plain && !strchr(extra, *p)) return false;
    }
    return true;
}

static iter_status check_row(const iter_ops *ops, const iter_option *row, iter_error *err) {
    const size_t bytes = iter__option_bytes(row->type);
    if (!is_name(row->name, "_"))
        return iter__fail(err, ITER_EINVAL, "%s: option '%.40s' is not named of a-z, 0-9, '-', '_'",
                          ops->name, row->name);
    if (!bytes)
        return iter__fail(err, ITER_EINVAL, "%s: option '%s' has no known type", ops->name,
                          row->name);
    if (row->offset > ops->options_size || ops->options_size - row->offset < bytes)
        return iter__fail(err, ITER_EINVAL,
                          "%s: option '%s' lies at byte %zu, outside of options_size %zu",
                          ops->name, row->name, row->offset, ops->options_size);
    if (row->type == ITER_OPTION_CHOICE && (!row->choices || !*row->choices))
        return iter__fail(err, ITER_EINVAL, "%s: option '%s' has no choices", ops->name, row->name);
    for (const iter_option *other = ops->options; other < row; other++) {
        if (strcmp(other->name, row->name) == 0)
            return iter__fail(err, ITER_EINVAL, "%s: two options are called '%s'", ops->name,
                              row->name);
        if (row->positional && other->positional == row->positional)
            return iter__fail(err, ITER_EINVAL,
                              "%s: options '%s' and '%s' are both unnamed argument %d", ops->name,
                              other->name, row->name, (int)row->positional);
    }
    return ITER_OK;
}

/* What all tables share; known_bytes is the concrete table's size in this version. */
static iter_status check_base(const iter_ops *ops, size_t known_bytes, const char *what,
                              iter_error *err) {
    if (!ops) return iter__fail(err, ITER_EINVAL, "%s: no table given", what);
    if (ops->struct_size < known_bytes || ops->struct_size > known_bytes + UNKNOWN_BYTES_MAX)
        return iter__fail(err, ITER_EINVAL, "%s: struct_size is %zu, need sizeof the table, %zu",
                          what, ops->struct_size, known_bytes);
    if (!is_name(ops->name, ""))
        return iter__fail(err, ITER_EINVAL, "%s: the name '%.40s' is not of a to z, 0 to 9 and '-'",
                          what, ops->name ? ops->name : "");
    for (size_t i = known_bytes; i < ops->struct_size; i++)
        if (((const unsigned char *)ops)[i])
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "%s: a member at byte %zu is set, which this version does not know",
                              ops->name, i);
    if (ops->options && !ops->options_size)
        return iter__fail(err, ITER_EINVAL, "%s: it has options, and options_size 0", ops->name);
    for (const iter_option *row = ops->options; row && row->name; row++)
        ITER_TRY(check_row(ops, row, err));
    return ITER_OK;
}

static iter_status missing(const iter_ops *ops, const char *member, iter_error *err) {
    return iter__fail(err, ITER_EINVAL, "%s: the table has no %s", ops->name, member);
}

iter_status iter__format_check(const iter_format_ops *ops, iter_error *err) {
    ITER_TRY(check_base(ops ? &ops->base : NULL, sizeof(*ops), "format", err));
    if (!ops->open) return missing(&ops->base, "open", err);
    if (!ops->close) return missing(&ops->base, "close", err);
    if (!ops->locate && !ops->get && !ops->resident)
        return missing(&ops->base, "locate, get or resident", err);
    return ITER_OK;
}

iter_status iter__transform_check(const iter_transform_ops *ops, iter_error *err) {
    ITER_TRY(check_base(ops ? &ops->base : NULL, sizeof(*ops), "transform", err));
    const bool batch = ops->apply_batch || ops->adds_lengths;
    const int kinds = (ops->apply || ops->fold_plan) + batch;
    if (kinds == 0)
        return missing(&ops->base, "apply, fold_plan, apply_batch or adds_lengths", err);
    if (kinds > 1)
        return iter__fail(err, ITER_EINVAL,
                          "%s: apply or fold_plan and batch stages (apply_batch, adds_lengths) "
                          "exclude one another",
                          ops->base.name);
    if ((ops->apply || ops->fold_plan) && !ops->plan) return missing(&ops->base, "plan", err);
    if (ops->fold_sample && !ops->fold_plan) return missing(&ops->base, "fold_plan", err);
    if (ops->wish && !ops->apply) return missing(&ops->base, "apply", err);
    if (!ops->begin_rows != !ops->take_rows)
        return missing(&ops->base, ops->begin_rows ? "take_rows" : "begin_rows", err);
    if (ops->begin_rows && !ops->apply) return missing(&ops->base, "apply", err);
    if (ops->apply_batch && !ops->plan_batch) return missing(&ops->base, "plan_batch", err);
    if (ops->role != ITER_DATA && ops->role != ITER_LABEL)
        return iter__fail(err, ITER_EINVAL, "%s: role is %d", ops->base.name, (int)ops->role);
    if (iter__options_find(&ops->base, "field", 0))
        return iter__fail(err, ITER_EINVAL, "%s: no option may be called 'field'", ops->base.name);
    const iter_option *name = iter__options_find(&ops->base, "name", 0);
    if (ops->adds_lengths && (!name || name->offset != 0 || name->type != ITER_OPTION_STRING))
        return missing(&ops->base, "option 'name', a string, first in its options struct", err);
    return ITER_OK;
}

iter_status iter__sampler_check(const iter_sampler_ops *ops, iter_error *err) {
    ITER_TRY(check_base(ops ? &ops->base : NULL, sizeof(*ops), "sampler", err));
    const bool pure = ops->length || ops->index, sequential = ops->begin || ops->next_batch;
    if (!ops->open) return missing(&ops->base, "open", err);
    if (pure && sequential)
        return iter__fail(err, ITER_EINVAL,
                          "%s: length and index, or begin and next_batch, but not both",
                          ops->base.name);
    if (!pure && !sequential)
        return missing(&ops->base, "length and index, nor begin and next_batch", err);
    if (pure && !ops->length) return missing(&ops->base, "length", err);
    if (pure && !ops->index) return missing(&ops->base, "index", err);
    if (sequential && !ops->begin) return missing(&ops->base, "begin", err);
    if (sequential && !ops->next_batch) return missing(&ops->base, "next_batch", err);
    if (!ops->save != !ops->restore)
        return missing(&ops->base, ops->save ? "restore beside save" : "save beside restore", err);
    return ITER_OK;
}

iter_status iter__source_check(const iter_source_ops *ops, iter_error *err) {
    ITER_TRY(check_base(ops ? &ops->base : NULL, sizeof(*ops), "source", err));
    if (!ops->open) return missing(&ops->base, "open", err);
    if (!ops->close) return missing(&ops->base, "close", err);
    if (!ops->read) return missing(&ops->base, "read", err);
    if (!ops->submit && !ops->commit && !ops->reap && !ops->wait && !ops->wake && !ops->cancel)
        return ITER_OK;
    if (!ops->submit) return missing(&ops->base, "submit", err);
    if (!ops->commit) return missing(&ops->base, "commit", err);
    if (!ops->reap) return missing(&ops->base, "reap", err);
    if (!ops->wait) return missing(&ops->base, "wait", err);
    if (!ops->wake) return missing(&ops->base, "wake", err);
    if (!ops->cancel) return missing(&ops->base, "cancel", err);
    return ITER_OK;
}

iter_status iter__decoder_check(const iter_decoder_ops *ops, iter_error *err) {
    ITER_TRY(check_base(ops ? &ops->base : NULL, sizeof(*ops), "decoder", err));
    if (!ops->header != !ops->decode_image)
        return missing(&ops->base,
                       ops->header ? "decode_image beside header" : "header beside decode_image",
                       err);
    if (!ops->decode && !ops->decode_image)
        return missing(&ops->base, "decode, nor header and decode_image", err);
    return ITER_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static const iter_ops *find(const table_list *list, const char *name) {
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->tables[i]->name, name) == 0) return list->tables[i];
    return NULL;
}

static iter_status add(table_list *list, const iter_ops *ops, iter_error *err) {
    if (find(list, ops->name))
        return iter__fail(err, ITER_EINVAL, "%s: the registry has one of this name", ops->name);
    if (list->n == list->capacity) {
        const int32_t capacity = list->capacity ? 2 * list->capacity : 8;
        void *tables = iter__realloc(list->tables, (size_t)capacity * sizeof(list->tables[0]));
        if (!tables) return iter__fail(err, ITER_ENOMEM, "registry: out of memory");
        list->tables = tables;
        list->capacity = capacity;
    }
    list->tables[list->n++] = ops;
    return ITER_OK;
}

iter_status iter_registry_create(iter_registry **out, iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "registry: no place for the result");
    *out = iter__alloc(1, sizeof(**out));
    if (!*out) return iter__fail(err, ITER_ENOMEM, "registry: out of memory");
    return ITER_OK;
}

void iter_registry_destroy(iter_registry *registry) {
    if (!registry) return;
    iter__free(registry->formats.tables);
    iter__free(registry->transforms.tables);
    iter__free(registry->samplers.tables);
    iter__free(registry->decoders.tables);
    iter__free(registry);
}

iter_status iter_registry_add_format(iter_registry *registry, const iter_format_ops *ops,
                                     iter_error *err) {
    if (!registry) return iter__fail(err, ITER_EINVAL, "registry: none given");
    ITER_TRY(iter__format_check(ops, err));
    return add(&registry->formats, &ops->base, err);
}

iter_status iter_registry_add_transform(iter_registry *registry, const iter_transform_ops *ops,
                                        iter_error *err) {
    if (!registry) return iter__fail(err, ITER_EINVAL, "registry: none given");
    ITER_TRY(iter__transform_check(ops, err));
    return add(&registry->transforms, &ops->base, err);
}

iter_status iter_registry_add_sampler(iter_registry *registry, const iter_sampler_ops *ops,
                                      iter_error *err) {
    if (!registry) return iter__fail(err, ITER_EINVAL, "registry: none given");
    ITER_TRY(iter__sampler_check(ops, err));
    return add(&registry->samplers, &ops->base, err);
}

iter_status iter_registry_add_decoder(iter_registry *registry, const iter_decoder_ops *ops,
                                      iter_error *err) {
    if (!registry) return iter__fail(err, ITER_EINVAL, "registry: none given");
    ITER_TRY(iter__decoder_check(ops, err));
    return add(&registry->decoders, &ops->base, err);
}

const iter_format_ops *iter_registry_format(const iter_registry *registry, const char *name) {
    if (!name) return NULL;
    const iter_ops *own = registry ? find(&registry->formats, name) : NULL;
    if (own) return (const iter_format_ops *)own;
    for (const iter_format_ops *const *p = iter__builtin_formats; *p; p++)
        if (strcmp((*p)->base.name, name) == 0) return *p;
    return NULL;
}

const iter_transform_ops *iter_registry_transform(const iter_registry *registry, const char *name) {
    if (!name) return NULL;
    const iter_ops *own = registry ? find(&registry->transforms, name) : NULL;
    if (own) return (const iter_transform_ops *)own;
    for (const iter_transform_ops *const *p = iter__builtin_transforms; *p; p++)
        if (strcmp((*p)->base.name, name) == 0) return *p;
    return NULL;
}

const iter_sampler_ops *iter_registry_sampler(const iter_registry *registry, const char *name) {
    if (!name) return NULL;
    const iter_ops *own = registry ? find(&registry->samplers, name) : NULL;
    if (own) return (const iter_sampler_ops *)own;
    for (const iter_sampler_ops *const *p = iter__builtin_samplers; *p; p++)
        if (strcmp((*p)->base.name, name) == 0) return *p;
    return NULL;
}

const iter_decoder_ops *iter_registry_decoder(const iter_registry *registry, const char *name) {
    if (!name) return NULL;
    const iter_ops *own = registry ? find(&registry->decoders, name) : NULL;
    if (own) return (const iter_decoder_ops *)own;
    for (const iter_decoder_ops *const *p = iter__builtin_decoders; *p; p++)
        if (strcmp((*p)->base.name, name) == 0) return *p;
    return NULL;
}

/* ---- Names that are near ---------------------------------------------------------------------- */

/* Offers the registry's own tables of a kind, then the built-in ones. */
#define HINT(own, builtin, wanted, out)                                  \
    do {                                                                 \
        iter__suggestion s_ = {wanted, NULL, 0, NULL};                   \
        for (int32_t k_ = 0; registry && k_ < registry->own.n; k_++)     \
            iter__suggestion_offer(&s_, registry->own.tables[k_]->name); \
        for (int k_ = 0; (builtin)[k_]; k_++)                            \
            iter__suggestion_offer(&s_, (builtin)[k_]->base.name);       \
        return iter__suggestion_text(&s_, out);                          \
    } while (0)

const char *iter__hint_format(const iter_registry *registry, const char *wanted,
                              char out[ITER_HINT_MAX]) {
    HINT(formats, iter__builtin_formats, wanted, out);
}

const char *iter__hint_transform(const iter_registry *registry, const char *wanted,
                                 char out[ITER_HINT_MAX]) {
    HINT(transforms, iter__builtin_transforms, wanted, out);
}

const char *iter__hint_sampler(const iter_registry *registry, const char *wanted,
                               char out[ITER_HINT_MAX]) {
    HINT(samplers, iter__builtin_samplers, wanted, out);
}

const char *iter__hint_decoder(const iter_registry *registry, const char *wanted,
                               char out[ITER_HINT_MAX]) {
    HINT(decoders, iter__builtin_decoders, wanted, out);
}

/* ---- Built-in tables by number ---------------------------------------------------------------- */

/* Number i of a list that ends with NULL, or NULL past its end. */
#define NTH(list, i)                          \
    do {                                      \
        if ((i) < 0) return NULL;             \
        for (int k_ = 0; (list)[k_]; k_++)    \
            if (k_ == (i)) return (list)[k_]; \
        return NULL;                          \
    } while (0)

const iter_format_ops *iter_builtin_format(int i) {
    NTH(iter__builtin_formats, i);
}

const iter_transform_ops *iter_builtin_transform(int i) {
    NTH(iter__builtin_transforms, i);
}

const iter_sampler_ops *iter_builtin_sampler(int i) {
    NTH(iter__builtin_samplers, i);
}

const iter_source_ops *iter_builtin_source(int i) {
    NTH(iter__builtin_sources, i);
}

const iter_decoder_ops *iter_builtin_decoder(const char *name) {
    return iter_registry_decoder(NULL, name);
}

/* ---- All tables by number --------------------------------------------------------------------- */

/* Table number i of `list`, the registry's own; else *i goes down by their number. */
static const iter_ops *own_at(const table_list *list, int *i) {
    if (*i >= 0 && *i < list->n) return list->tables[*i];
    *i -= *i >= 0 ? list->n : 0;
    return NULL;
}

const iter_format_ops *iter_registry_format_at(const iter_registry *registry, int i) {
    const iter_ops *own = registry ? own_at(&registry->formats, &i) : NULL;
    return own ? (const iter_format_ops *)own : iter_builtin_format(i);
}

const iter_transform_ops *iter_registry_transform_at(const iter_registry *registry, int i) {
    const iter_ops *own = registry ? own_at(&registry->transforms, &i) : NULL;
    return own ? (const iter_transform_ops *)own : iter_builtin_transform(i);
}

const iter_sampler_ops *iter_registry_sampler_at(const iter_registry *registry, int i) {
    const iter_ops *own = registry ? own_at(&registry->samplers, &i) : NULL;
    return own ? (const iter_sampler_ops *)own : iter_builtin_sampler(i);
}

const iter_decoder_ops *iter_registry_decoder_at(const iter_registry *registry, int i) {
    const iter_ops *own = registry ? own_at(&registry->decoders, &i) : NULL;
    if (own) return (const iter_decoder_ops *)own;
    NTH(iter__builtin_decoders, i);
}
