/*
 * registry.c - a caller's tables beside the built-in ones, and what a table must have.
 *
 * A table is checked once, when it is added, so no other code checks again whether a member is set.
 * Tables are few, so they are plain arrays, searched from the front. The lists of built-in tables,
 * and the lookups that use them, are in loaders/ and transforms/ (builtin_*.c); iter/spec links
 * to neither.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/options.h"
#include "iter/spec/registry.h"
#include "iter/spec/suggest.h"

/* A struct_size that exceeds ours by more than this was never set. */
#define UNKNOWN_BYTES_MAX 4096

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
        return iter__fail(err, ITER_EINVAL,
                          "%s: the name of option '%.40s' must consist of a-z, 0-9, '-', '_'",
                          ops->name, row->name);
    if (!bytes)
        return iter__fail(err, ITER_EINVAL, "%s: option '%s' has no known type", ops->name,
                          row->name);
    if (row->offset > ops->options_size || ops->options_size - row->offset < bytes)
        return iter__fail(err, ITER_EINVAL,
                          "%s: option '%s' is at byte %zu, outside of options_size %zu", ops->name,
                          row->name, row->offset, ops->options_size);
    if (row->type == ITER_OPTION_CHOICE && (!row->choices || !*row->choices))
        return iter__fail(err, ITER_EINVAL, "%s: option '%s' has no choices", ops->name, row->name);
    for (const iter_option *other = ops->options; other < row; other++) {
        if (iter__option_names_equal(other->name, row->name))
            return iter__fail(err, ITER_EINVAL, "%s: two options are called '%s'", ops->name,
                              row->name);
        if (row->positional && other->positional == row->positional)
            return iter__fail(err, ITER_EINVAL,
                              "%s: options '%s' and '%s' are both unnamed argument %d", ops->name,
                              other->name, row->name, (int)row->positional);
    }
    return ITER_OK;
}

/* Checks the base of a table; known_bytes is the table's size in this version. */
static iter_status check_base(const iter_ops *ops, size_t known_bytes, const char *what,
                              iter_error *err) {
    if (!ops) return iter__fail(err, ITER_EINVAL, "%s: no table given", what);
    if (ops->struct_size < known_bytes || ops->struct_size > known_bytes + UNKNOWN_BYTES_MAX)
        return iter__fail(err, ITER_EINVAL,
                          "%s: struct_size is %zu, expected the table's size, %zu", what,
                          ops->struct_size, known_bytes);
    if (!is_name(ops->name, ""))
        return iter__fail(err, ITER_EINVAL,
                          "%s: the name '%.40s' must consist of a to z, 0 to 9 and '-'", what,
                          ops->name ? ops->name : "");
    for (size_t i = known_bytes; i < ops->struct_size; i++)
        if (((const unsigned char *)ops)[i])
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "%s: a member at byte %zu is set, which this version does not know",
                              ops->name, i);
    if (ops->options && !ops->options_size)
        return iter__fail(err, ITER_EINVAL, "%s: it has options, but options_size 0", ops->name);
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
    const int kinds = (ops->apply || ops->fold_plan) + batch + (ops->follow != NULL);
    if (kinds == 0)
        return missing(&ops->base, "apply, fold_plan, follow, apply_batch or adds_lengths", err);
    if (kinds > 1)
        return iter__fail(err, ITER_EINVAL,
                          "%s: apply or fold_plan, follow, and batch stages (apply_batch, "
                          "adds_lengths) exclude one another",
                          ops->base.name);
    if ((ops->apply || ops->fold_plan || ops->follow) && !ops->plan)
        return missing(&ops->base, "plan", err);
    if (ops->fold_sample && !ops->fold_plan) return missing(&ops->base, "fold_plan", err);
    if (ops->wish && !ops->apply) return missing(&ops->base, "apply", err);
    if (!ops->begin_rows != !ops->take_rows)
        return missing(&ops->base, ops->begin_rows ? "take_rows" : "begin_rows", err);
    if (ops->begin_rows && !ops->apply) return missing(&ops->base, "apply", err);
    if (ops->apply_batch && !ops->plan_batch) return missing(&ops->base, "plan_batch", err);
    if (ops->role != ITER_DATA && ops->role != ITER_LABEL)
        return iter__fail(err, ITER_EINVAL, "%s: role is %d, expected ITER_DATA or ITER_LABEL",
                          ops->base.name, (int)ops->role);
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
                          "%s: expected length and index, or begin and next_batch, but not both",
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

const iter_ops *iter__tables_find(const iter__tables *own, const iter_ops *const *builtins,
                                  const char *name) {
    if (!name) return NULL;
    for (int32_t i = 0; own && i < own->n; i++)
        if (strcmp(own->tables[i]->name, name) == 0) return own->tables[i];
    for (; *builtins; builtins++)
        if (strcmp((*builtins)->name, name) == 0) return *builtins;
    return NULL;
}

const iter_ops *iter__tables_at(const iter__tables *own, const iter_ops *const *builtins, int i) {
    if (i < 0) return NULL;
    if (own && i < own->n) return own->tables[i];
    if (own) i -= own->n;
    for (; *builtins && i > 0; i--)
        builtins++;
    return *builtins;
}

const char *iter__tables_hint(const iter__tables *own, const iter_ops *const *builtins,
                              const char *wanted, char out[ITER_HINT_MAX]) {
    iter__suggestion suggestion = {wanted, NULL, 0, NULL};
    for (int32_t i = 0; own && i < own->n; i++)
        iter__suggestion_offer(&suggestion, own->tables[i]->name);
    for (; *builtins; builtins++)
        iter__suggestion_offer(&suggestion, (*builtins)->name);
    return iter__suggestion_text(&suggestion, out);
}

static iter_status add(iter__tables *list, const iter_ops *ops, iter_error *err) {
    static const iter_ops *const none[] = {NULL};
    if (iter__tables_find(list, none, ops->name))
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
    if (!out) return iter__fail(err, ITER_EINVAL, "registry: out is NULL");
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
