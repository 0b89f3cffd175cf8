/* lengths.c - a field with the lengths of a variable one. The loader adds the field, because it has
 * the lengths anyway; this table only requests it. */
#include <stddef.h>

#include <iter/transforms.h>

#include "transforms/stages.h"

static const iter_option lengths_rows[] = {
    ITER_ROW_STRING("name", "of the new field; default: the field's name and _length",
                    iter_lengths_options, name, 1),
    ITER_ROW_END,
};
static const iter_lengths_options lengths_defaults = ITER_LENGTHS_OPTIONS_INIT;

const iter_transform_ops iter__transform_lengths = {
    .base = STAGE_BASE(lengths, "lengths",
                       "adds a field with the lengths of a variable field's rows", 0),
    .role = ITER_DATA,
    .adds_lengths = 1,
};
