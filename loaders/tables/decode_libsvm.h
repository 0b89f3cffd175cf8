/* decode_libsvm.h - a row "LABEL INDEX:VALUE ..." to its label, a dense row, or indices and values.
 * */
#ifndef ITER_LOADERS_TABLES_DECODE_LIBSVM_H
#define ITER_LOADERS_TABLES_DECODE_LIBSVM_H

#include <iter/ops.h>

/* The description's `shared`. */
typedef struct iter__libsvm_rule {
    int64_t base;       /* index of the first feature: 0 or 1 */
    int64_t n_features; /* 0 = any index that fits */
    uint64_t max_bytes; /* of a row */
    uint64_t room;      /* bytes of the largest extent */
} iter__libsvm_rule;

extern const iter_decoder_ops iter__decoder_libsvm_dense;   /* [n_features], the others are 0 */
extern const iter_decoder_ops iter__decoder_libsvm_indices; /* i32 [variable], from 0 */
extern const iter_decoder_ops iter__decoder_libsvm_values;  /* [variable] */
extern const iter_decoder_ops iter__decoder_libsvm_label;

#endif
