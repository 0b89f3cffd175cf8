/*
 * chain.c - a list of stages with their options, shared by reference count.
 *
 * The text is written when a stage is added, not when it is asked for: so iter_chain_text() is
 * const, needs no lock and cannot fail. If a stage cannot be added, the chain stays as it was.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/spec/chain.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"
#include "iter/spec/registry.h"
#include "iter/spec/suggest.h"

struct iter_chain {
    atomic_int references;
    atomic_bool frozen; /* atomic because two loaders may begin to use one chain at once */
    int32_t n_stages, capacity;
    iter__stage *stages;
    char *text; /* NULL while empty */
};

static iter_status no_memory(iter_error *err) {
    return iter__fail(err, ITER_ENOMEM, "chain: out of memory");
}

static void free_stage(iter__stage *stage) {
    if (stage->options) iter__options_free(&stage->ops->base, stage->options);
    iter__free(stage->options);
    stage->options = NULL;
}

static iter_status alloc_options(const iter_transform_ops *ops, void **out, iter_error *err) {
    *out = NULL;
    if (!ops->base.options_size) return ITER_OK;
    *out = iter__alloc(1, ops->base.options_size);
    return *out ? ITER_OK : no_memory(err);
}

static iter_status set_field(iter__stage *stage, const char *field, iter_error *err) {
    const size_t length = strlen(field);
    if (length == 0 || length >= ITER_NAME_MAX)
        return iter__fail(err, ITER_EINVAL,
                          "%s: field is '%.40s'; expected a name of 1 to %d characters",
                          stage->ops->base.name, field, ITER_NAME_MAX - 1);
    memcpy(stage->field, field, length + 1);
    return ITER_OK;
}

/* The chain's text so far, then "name:key=value,field=label"; NULL if there is no memory. */
static char *text_with(const iter_chain *chain, const iter__stage *stage) {
    const iter_ops *base = &stage->ops->base;
    char field[2 * ITER_NAME_MAX + 3] = "";
    const int length = stage->options ? iter__options_text(base, stage->options, ',', NULL, 0) : 0;
    char *options = iter__alloc((size_t)length + 1, 1);
    if (!options) return NULL;
    if (length) iter__options_text(base, stage->options, ',', options, (size_t)length + 1);
    if (stage->field[0]) iter__quote_text(stage->field, field, sizeof(field));
    char *text =
        iter__strf("%s%s%s%s%s%s%s%s", chain->text ? chain->text : "", chain->text ? " | " : "",
                   base->name, length || field[0] ? ":" : "", options,
                   length && field[0] ? "," : "", field[0] ? "field=" : "", field);
    iter__free(options);
    return text;
}

static iter_status grow(iter_chain *chain, iter_error *err) {
    if (chain->n_stages < chain->capacity) return ITER_OK;
    const int32_t capacity = chain->capacity ? 2 * chain->capacity : 8;
    iter__stage *stages = iter__realloc(chain->stages, (size_t)capacity * sizeof(chain->stages[0]));
    if (!stages) return no_memory(err);
    chain->stages = stages;
    chain->capacity = capacity;
    return ITER_OK;
}

/* Takes over stage->options, even if it fails. */
static iter_status append(iter_chain *chain, iter__stage *stage, iter_error *err) {
    iter_status status = iter__options_check(&stage->ops->base, stage->options, err);
    if (status >= 0) status = grow(chain, err);
    char *text = status >= 0 ? text_with(chain, stage) : NULL;
    if (status >= 0 && !text) status = no_memory(err);
    if (status < 0) {
        free_stage(stage);
        return status;
    }
    for (int32_t i = 0; i < chain->n_stages; i++)
        stage->occurrence += strcmp(chain->stages[i].ops->base.name, stage->ops->base.name) == 0;
    chain->stages[chain->n_stages++] = *stage;
    iter__free(chain->text);
    chain->text = text;
    return ITER_OK;
}

static iter_status check_open(const iter_chain *chain, iter_error *err) {
    if (!chain) return iter__fail(err, ITER_EINVAL, "chain: none given");
    if (atomic_load_explicit(&chain->frozen, memory_order_relaxed))
        return iter__fail(err, ITER_ESTATE, "chain: a loader uses it, so nothing can be added");
    return ITER_OK;
}

/* One parsed stage, appended. If the argument is not known, the column is that of its name. */
static iter_status add_call(iter_chain *chain, const iter_registry *registry,
                            const iter__grammar_call *call, int32_t column, iter_error *err) {
    iter__stage stage = {.column = column};
    char hint[ITER_HINT_MAX];
    stage.ops = iter_registry_transform(registry, call->name);
    if (!stage.ops)
        return iter__fail(err, ITER_EINVAL, "column %d: no stage is called '%.40s'%s", call->column,
                          call->name, iter__hint_transform(registry, call->name, hint));
    ITER_TRY(alloc_options(stage.ops, &stage.options, err));
    iter_status status = iter__grammar_apply(call, &stage.ops->base, stage.options, "field", err);
    for (int i = 0; status >= 0 && i < call->n_args; i++) {
        if (!call->args[i].key || strcmp(call->args[i].key, "field") != 0) continue;
        status = set_field(&stage, call->args[i].value, err);
        if (status < 0) status = iter__fail_in(err, status, "column %d", call->args[i].column);
    }
    if (status < 0) {
        free_stage(&stage);
        return status;
    }
    status = append(chain, &stage, err);
    return status == ITER_EINVAL ? iter__fail_in(err, status, "column %d", call->column) : status;
}

/* Stages from text up to its end, or only one. */
static iter_status add_stages(iter_chain *chain, const iter_registry *registry, const char *text,
                              bool only_one, iter_error *err) {
    const char *cursor = text;
    while (cursor) {
        iter__grammar_call call;
        char *block;
        ITER_TRY(iter__grammar_stage(text, &cursor, &call, &block, err));
        const iter_status status =
            only_one && cursor
                ? iter__fail(err, ITER_EINVAL, "column %d: one stage is expected, without '|'",
                             (int)(cursor - text))
                : add_call(chain, registry, &call, only_one ? 0 : call.column, err);
        iter__free(block);
        if (status < 0) return status;
    }
    return ITER_OK;
}

iter_status iter_chain_create(iter_chain **out, iter_error *err) {
    if (!out) return iter__fail(err, ITER_EINVAL, "chain: no place for the result");
    *out = NULL;
    iter_chain *chain = iter__alloc(1, sizeof(*chain));
    if (!chain) return no_memory(err);
    atomic_init(&chain->references, 1);
    atomic_init(&chain->frozen, false);
    *out = chain;
    return ITER_OK;
}

iter_status iter_chain_parse(const char *text, const iter_registry *registry, iter_chain **out,
                             iter_error *err) {
    iter_chain *chain;
    ITER_TRY(iter_chain_create(out, err));
    chain = *out;
    *out = NULL;
    iter_status status = ITER_OK;
    if (!text)
        status = iter__fail(err, ITER_EINVAL, "chain: no text given");
    else if (text[strspn(text, " \t\r\n")]) /* blank text is the empty chain */
        status = add_stages(chain, registry, text, false, err);
    if (status < 0) {
        iter_chain_unref(chain);
        return text ? iter__fail_in(err, status, "chain") : status;
    }
    *out = chain;
    return ITER_OK;
}

iter_status iter_chain_add_text(iter_chain *chain, const iter_registry *registry, const char *stage,
                                iter_error *err) {
    ITER_TRY(check_open(chain, err));
    if (!stage) return iter__fail(err, ITER_EINVAL, "chain: no stage given");
    const iter_status status = add_stages(chain, registry, stage, true, err);
    return status < 0 ? iter__fail_in(err, status, "chain") : status;
}

iter_status iter_chain_add(iter_chain *chain, const char *name, const iter_transform_ops *ops,
                           const char *field, const void *options, size_t options_size,
                           iter_error *err) {
    iter__stage stage = {0};
    char hint[ITER_HINT_MAX];
    ITER_TRY(check_open(chain, err));
    if (ops) ITER_TRY(iter__transform_check(ops, err));
    if (!ops && !name) return iter__fail(err, ITER_EINVAL, "chain: neither name nor table given");
    stage.ops = ops ? ops : iter_registry_transform(NULL, name);
    if (!stage.ops)
        return iter__fail(err, ITER_EINVAL, "chain: no built-in stage is called '%.40s'%s", name,
                          iter__hint_transform(NULL, name, hint));
    const iter_ops *base = &stage.ops->base;
    if (options && options_size != base->options_size)
        return iter__fail(
            err, ITER_EINVAL,
            "chain: %s: options_size is %zu; expected %zu, the size of its options struct",
            base->name, options_size, base->options_size);
    if (field) ITER_TRY(set_field(&stage, field, err));
    ITER_TRY(alloc_options(stage.ops, &stage.options, err));
    iter_status status = ITER_OK;
    if (options) /* checked before it is copied, because a list's length decides what is read */
        status = iter__options_check(base, options, err);
    if (status >= 0 && options)
        status = iter__options_dup(base, stage.options, options, err);
    else if (status >= 0)
        iter__options_defaults(base, stage.options);
    if (status < 0) {
        iter__free(stage.options);
        return iter__fail_in(err, status, "chain");
    }
    return append(chain, &stage, err);
}

iter_chain *iter_chain_ref(iter_chain *chain) {
    /* Relaxed: the caller has a reference already. */
    atomic_fetch_add_explicit(&chain->references, 1, memory_order_relaxed);
    return chain;
}

void iter_chain_unref(iter_chain *chain) {
    if (!chain) return;
    /* Release what this owner wrote; the thread that frees acquires it from all owners. */
    if (atomic_fetch_sub_explicit(&chain->references, 1, memory_order_acq_rel) != 1) return;
    for (int32_t i = 0; i < chain->n_stages; i++)
        free_stage(&chain->stages[i]);
    iter__free(chain->stages);
    iter__free(chain->text);
    iter__free(chain);
}

const char *iter_chain_text(const iter_chain *chain) {
    return chain && chain->text ? chain->text : "";
}

int32_t iter__chain_n_stages(const iter_chain *chain) {
    return chain ? chain->n_stages : 0;
}

const iter__stage *iter__chain_stage(const iter_chain *chain, int32_t i) {
    return &chain->stages[i];
}

void iter__chain_freeze(iter_chain *chain) {
    if (chain) atomic_store_explicit(&chain->frozen, true, memory_order_relaxed);
}
