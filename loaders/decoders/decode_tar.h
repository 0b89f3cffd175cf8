/* decode_tar.h - the decoders of fields of tar samples; their `shared` is an iter__tar_rule. */
#ifndef ITER_LOADERS_DECODERS_DECODE_TAR_H
#define ITER_LOADERS_DECODERS_DECODE_TAR_H

#include <iter/ops.h>

#include "loaders/decoders/image.h"

typedef enum iter__tar_kind {
    ITER_TAR_IMAGE,
    ITER_TAR_INTEGER, /* an integer as text, i32 */
    ITER_TAR_JSON,    /* a number in a JSON text, f64 */
    ITER_TAR_BYTES    /* u8 [<=n] */
} iter__tar_kind;

typedef struct iter__tar_field_rule {
    iter__tar_kind kind;
    /* one or several between ';': the first one that the sample has */
    const char *endings;
    const char *json; /* keys of the number's path, between '.' */
} iter__tar_field_rule;

typedef struct iter__tar_rule {
    iter_image_options image;
    int32_t n_fields;
    iter__tar_field_rule fields[ITER_MAX_FIELDS];
} iter__tar_rule;

/* The place of a member's field name among the endings (0 = the first), or -1; case is ignored. */
int iter__tar_match(const char *endings, const char *field);

/* The decoder of field f < ITER_MAX_FIELDS, for its kind. */
const iter_decoder_ops *iter__decoder_tar(int32_t f, iter__tar_kind kind);

#endif
