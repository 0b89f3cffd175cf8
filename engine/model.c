/*
 * model.c - a list of layers with their options, shared by reference count.
 *
 * As with a chain, the text is made when a layer is added. So iter_model_text() is const, needs no
 * lock and cannot fail; and if a layer cannot be added, the model stays as it was.
 *
 * Sources of the published networks: the CNN and the GRU of ilkarman/DeepLearningFrameworks
 * (notebooks/MXNet_CNN.ipynb: the second and fourth relu come after the pool;
 * notebooks/MXNet_RNN.ipynb), the MLP of cs224/mxnet-gluon-vs-sym-and-others.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <iter/stages.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/layer_tables.h"
#include "engine/model.h"

struct iter_model {
    atomic_int references;
    /* Atomic because two trainers may start to use one model at the same time. */
    atomic_bool frozen;
    int32_t n_layers;
    engine_model_layer layers[ENGINE_MAX_LAYERS];
    char *text; /* NULL while empty */
};

static const struct {
    const char *name, *text;
} presets[] = {
    {"cnn", "conv2d:50,kernel=3,pad=1 | relu | conv2d:50,kernel=3,pad=1 | maxpool:2 | relu | "
            "dropout:0.25 | conv2d:100,kernel=3,pad=1 | relu | conv2d:100,kernel=3,pad=1 | "
            "maxpool:2 | relu | dropout:0.25 | flatten | dense:512 | relu | dropout:0.5 | "
            "dense:10 | softmax-cross-entropy"},
    {"gru", "embedding:30000,125 | gru:100 | last-step | dense:2 | softmax-cross-entropy"},
    {"mlp", "dense:300 | relu | dense:100 | relu | dense:1 | l2"},
};

static iter_status no_memory(iter_error *err) {
    return iter__engine_fail(err, ITER_ENOMEM, "model: out of memory");
}

/* The model's text with one more layer, or NULL if there is no memory. */
static char *text_with(const iter_model *model, const engine_model_layer *layer) {
    const iter_ops *table = iter__layer_tables[layer->kind];
    const char *before = model->text ? model->text : "", *between = model->text ? " | " : "";
    const int length = iter_stage_text(table, &layer->options, NULL, 0);
    const size_t head = strlen(before) + strlen(between);
    char *text = iter__engine_alloc(head + (size_t)length + 1, 1);
    if (!text) return NULL;
    snprintf(text, head + 1, "%s%s", before, between);
    iter_stage_text(table, &layer->options, text + head, (size_t)length + 1);
    return text;
}

static iter_status append(iter_model *model, const engine_model_layer *layer, iter_error *err) {
    const char *name = iter__layer_tables[layer->kind]->name;
    ENGINE_TRY(iter__layer_check(layer->kind, &layer->options, err));
    if (model->n_layers == ENGINE_MAX_LAYERS)
        return iter__engine_fail(err, ITER_EINVAL, "%s: a model has at most %d layers", name,
                                 ENGINE_MAX_LAYERS);
    if (model->n_layers > 0) {
        const engine_kind last = model->layers[model->n_layers - 1].kind;
        if (iter__kind_is_loss(last))
            return iter__engine_fail(err, ITER_EINVAL,
                                     "%s: comes after %s, which is a loss and ends the model", name,
                                     iter__layer_tables[last]->name);
    }
    char *text = text_with(model, layer);
    if (!text) return no_memory(err);
    model->layers[model->n_layers++] = *layer;
    iter__engine_free(model->text);
    model->text = text;
    return ITER_OK;
}

/* A layer with the defaults of its kind. */
static engine_model_layer begin_layer(engine_kind kind) {
    engine_model_layer layer;
    memset(&layer, 0, sizeof(layer));
    layer.kind = kind;
    const iter_ops *table = iter__layer_tables[kind];
    if (table->defaults) memcpy(&layer.options, table->defaults, table->options_size);
    return layer;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status add_parsed(void *user, const iter_ops *ops, const void *options,
                              iter_error *err) {
    int32_t kind = 0;
    while (iter__layer_tables[kind] != ops)
        kind++;
    engine_model_layer layer = begin_layer((engine_kind)kind);
    if (ops->options_size) memcpy(&layer.options, options, ops->options_size);
    return append(user, &layer, err);
}

/* ---- public functions ------------------------------------------------------------------------ */

iter_status iter_model_create(iter_model **out, iter_error *err) {
    if (!out) return iter__engine_fail(err, ITER_EINVAL, "model: out is NULL");
    *out = NULL;
    iter_model *model = iter__engine_alloc(1, sizeof(*model));
    if (!model) return no_memory(err);
    atomic_init(&model->references, 1);
    atomic_init(&model->frozen, false);
    *out = model;
    return ITER_OK;
}

iter_status iter_model_parse(const char *text, iter_model **out, iter_error *err) {
    iter_model *model;
    ENGINE_TRY(iter_model_create(out, err));
    model = *out;
    *out = NULL;
    const char *preset = text ? iter_model_preset(text) : NULL;
    iter_status status = ITER_OK;
    if (!text)
        status = iter__engine_fail(err, ITER_EINVAL, "no text given");
    else
        status = iter_stages_parse(preset ? preset : text, "layer", iter__layer_tables,
                                   ENGINE_N_KINDS, add_parsed, model, err);
    if (status >= 0 && model->n_layers == 0)
        status = iter__engine_fail(err, ITER_EINVAL, "it has no layers");
    if (status < 0) {
        iter_model_unref(model);
        return iter__engine_fail_in(err, status, "model");
    }
    *out = model;
    return ITER_OK;
}

iter_status iter_model_add(iter_model *model, const char *layer, const void *options,
                           size_t options_size, iter_error *err) {
    if (!model || !layer)
        return iter__engine_fail(err, ITER_EINVAL, "model: model or layer is NULL");
    if (atomic_load_explicit(&model->frozen, memory_order_relaxed))
        return iter__engine_fail(err, ITER_ESTATE,
                                 "model: a trainer uses it, so nothing can be added");
    int32_t kind = 0;
    while (kind < ENGINE_N_KINDS && strcmp(iter__layer_tables[kind]->name, layer) != 0)
        kind++;
    if (kind == ENGINE_N_KINDS)
        return iter__engine_fail(err, ITER_EINVAL, "model: no layer is called '%.40s'", layer);
    const size_t wanted = iter__layer_tables[kind]->options_size;
    if (options_size != (options ? wanted : 0))
        return iter__engine_fail(err, ITER_EINVAL,
                                 "model: %s: options_size is %zu, its options struct has %zu bytes",
                                 layer, options_size, options ? wanted : 0);
    engine_model_layer added = begin_layer((engine_kind)kind);
    if (options && wanted) memcpy(&added.options, options, wanted);
    const iter_status status = append(model, &added, err);
    return status < 0 ? iter__engine_fail_in(err, status, "model") : status;
}

iter_model *iter_model_ref(iter_model *model) {
    /* Relaxed: the caller already owns a reference. */
    atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
    return model;
}

void iter_model_unref(iter_model *model) {
    if (!model) return;
    /* Releases what this owner wrote; the owner that frees the model acquires what all owners
     * wrote. */
    if (atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) != 1) return;
    iter__engine_free(model->text);
    iter__engine_free(model);
}

const char *iter_model_text(const iter_model *model) {
    return model && model->text ? model->text : "";
}

const char *iter_model_preset(const char *name) {
    for (size_t i = 0; name && i < sizeof(presets) / sizeof(presets[0]); i++)
        if (strcmp(presets[i].name, name) == 0) return presets[i].text;
    return NULL;
}

int32_t iter__model_n_layers(const iter_model *model) {
    return model->n_layers;
}

const engine_model_layer *iter__model_layer(const iter_model *model, int32_t i) {
    return &model->layers[i];
}

void iter__model_freeze(iter_model *model) {
    atomic_store_explicit(&model->frozen, true, memory_order_relaxed);
}
