/*
 * layer_tables.h - options of layers and optimisers as rows, which drive parser, help, text and
 * bounds.
 */
#ifndef ENGINE_LAYER_TABLES_H
#define ENGINE_LAYER_TABLES_H

#include <iter/ops.h>

#include "engine/net.h"

/* Indexed by engine_kind; options_size is the size of the layer's struct, or 0 if it has none. */
extern const iter_ops *const iter__layer_tables[ENGINE_N_KINDS];

/* Indexed by engine_optimizer_kind; the options struct is engine_optimizer. */
#define ENGINE_N_OPTIMIZERS 2
extern const iter_ops *const iter__optimizer_tables[ENGINE_N_OPTIMIZERS];

/* Checks what a row's bounds cannot express: required values, and values that depend on each other.
 * Errors: EINVAL beginning with the layer's kind. */
iter_status iter__layer_check(engine_kind kind, const engine_layer_options *options,
                              iter_error *err);

#endif
