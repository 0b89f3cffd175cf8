/* model.h - a model as iter__net_plan() reads it. */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include "engine/net.h"

typedef struct engine_model_layer {
    engine_kind kind;
    engine_layer_options options;
} engine_model_layer;

int32_t iter__model_n_layers(const iter_model *model);
const engine_model_layer *iter__model_layer(const iter_model *model, int32_t i);

/* Freezes the model: iter_model_add() then fails with ESTATE. */
void iter__model_freeze(iter_model *model);

#endif
