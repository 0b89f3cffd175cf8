/* decode_tfrecord.h - fields of TFRecords: the rule of decode_part.h for them. */
#ifndef ITER_LOADERS_DECODERS_DECODE_TFRECORD_H
#define ITER_LOADERS_DECODERS_DECODE_TFRECORD_H

#include "loaders/decoders/decode_part.h"

typedef enum iter__tfrecord_kind {
    ITER_TFRECORD_GUESS,  /* until the first record decides */
    ITER_TFRECORD_RECORD, /* the record's data as they are, u8 [<=n] */
    ITER_TFRECORD_IMAGE,
    ITER_TFRECORD_BYTES,   /* one string, u8 [<=n] */
    ITER_TFRECORD_FLOATS,  /* f32 */
    ITER_TFRECORD_INTEGERS /* i64 */
} iter__tfrecord_kind;

typedef struct iter__tfrecord_field_rule {
    iter__tfrecord_kind kind;
    const char *feature; /* its name */
    bool varies;         /* of numbers: [<=n] */
    int64_t n; /* of numbers: how many, or at most so many; 0 = one, without a dimension */
} iter__tfrecord_field_rule;

typedef struct iter__tfrecord_rule {
    iter__part_rule part; /* first, as decode_part.h says */
    int32_t n_fields;
    iter__tfrecord_field_rule fields[ITER_MAX_FIELDS];
} iter__tfrecord_rule;

/* The rule without fields. */
void iter__tfrecord_rule_init(iter__tfrecord_rule *rule, const iter_image_options *image);

/* Decides what is not known of a field by a whole record, with its sum. Errors: EFORMAT (damage;
 * there is no such feature), EINVAL (there is nothing in it). */
iter_status iter__tfrecord_guess(iter__tfrecord_field_rule *field, const uint8_t *bytes,
                                 size_t size, iter_error *err);

#endif
