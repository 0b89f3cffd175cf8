/* shape.h - shapes in options of formats: "3x32x32". */
#ifndef ITER_LOADERS_FORMATS_SHAPE_H
#define ITER_LOADERS_FORMATS_SHAPE_H

#include <iter/tensor.h>

/* Reads dimensions, separated by 'x', into desc->dims and n_dims; "" = a scalar. desc->dtype must
 * be set. Errors: EINVAL (each dimension is at least 1, the row at most 2^40 bytes). */
iter_status iter__shape_parse(const char *text, iter_desc *desc, iter_error *err);

#endif
