/* lengths.c - a field with the lengths of a variable one. The loader has them anyway and adds the field; this says that it is wanted. */
#include <stddef.h>

#include <iter/transforms.h>

#include "transforms/token_stages.h"

static const iter_option option_rows[] = {
    {"name", "of the new field; default: the field's with _length behind it", ITER_OPTION_STRING,
     offsetof(iter_lengths_options, name), 0, 0, NULL, 1},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const iter_lengths_options defaults = ITER_LENGTHS_OPTIONS_INIT;

const iter_transform_ops iter__transform_lengths = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "lengths",
             .help = "adds a field with the lengths of a variable field's rows",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(iter_lengths_options)},
    .role = ITER_DATA,
    .adds_lengths = 1,
};
