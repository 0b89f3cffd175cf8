/* lengths.c - a field with the lengths of a variable one. The loader has them anyway and adds the field; this says that it is wanted. */
#include <stddef.h>

#include <iter/transforms.h>

#include "iter/core/error.h"
#include "transforms/token_stages.h"

static const iter_option option_rows[] = {
    {"name", "of the new field; default: the field's with _length behind it", ITER_OPTION_STRING,
     offsetof(iter_lengths_options, name), 0, 0, NULL, 1},
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

static const iter_lengths_options defaults = ITER_LENGTHS_OPTIONS_INIT;

/* ---- callbacks -------------------------------------------------------------------------------------------- */

static iter_status lengths_plan(const void *options, iter_desc *desc, size_t *out_scratch,
                                iter_error *err) {
    (void)options;
    *out_scratch = 0;
    if (desc->n_dims >= 2 && desc->dims[1] == ITER_VARIABLE) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "rows of this field are all equally long here; ask for lengths before they "
                      "are made so");
}

static iter_status lengths_apply(const void *options, iter_batch_view *view, iter_error *err) {
    (void)options, (void)view, (void)err;
    return ITER_OK;
}

const iter_transform_ops iter__transform_lengths = {
    .base = {.struct_size = sizeof(iter_transform_ops),
             .name = "lengths",
             .help = "adds a field with the lengths of a variable field's rows",
             .options = option_rows,
             .defaults = &defaults,
             .options_size = sizeof(iter_lengths_options)},
    .role = ITER_DATA,
    .plan_batch = lengths_plan,
    .apply_batch = lengths_apply,
    .adds_lengths = 1,
};
