/*
 * layer_tables.h - options of layers and optimisers as rows: parser, bounds, text and help in one
 * place.
 */
#ifndef ENGINE_LAYER_TABLES_H
#define ENGINE_LAYER_TABLES_H

#include <iter/ops.h>

#include "engine/net.h"

/* By engine_kind; options_size is that of the layer's struct, 0 where it has none. */
extern const iter_ops *const iter__layer_tables[ENGINE_N_KINDS];

/* By engine_optimizer_kind; their options struct is engine_optimizer. */
#define ENGINE_N_OPTIMIZERS 2
extern const iter_ops *const iter__optimizer_tables[ENGINE_N_OPTIMIZERS];

/* What a row's bounds cannot say: required values, and what depends on another value. Errors: EINVAL
 * beginning with the layer's kind. */
iter_status iter__layer_check(engine_kind kind, const engine_layer_options *options,
                              iter_error *err);

#endif
