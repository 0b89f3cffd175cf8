/* decode_tar.h - fields of tar samples: the rule of decode_part.h for them. */
#ifndef ITER_LOADERS_DECODERS_DECODE_TAR_H
#define ITER_LOADERS_DECODERS_DECODE_TAR_H

#include "loaders/decoders/decode_part.h"

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
    iter__part_rule part; /* first, as decode_part.h says */
    int32_t n_fields;
    iter__tar_field_rule fields[ITER_MAX_FIELDS];
} iter__tar_rule;

/* The place of a member's field name among the endings (0 = the first), or -1; case is ignored. */
int iter__tar_match(const char *endings, const char *field);

/* The rule without fields. */
void iter__tar_rule_init(iter__tar_rule *rule, const iter_image_options *image);

#endif
