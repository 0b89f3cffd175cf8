/*
 * decode_part.h - the decoders of samples whose fields lie in one extent: members of a tar sample,
 * features of a TFRecord.
 *
 * A decoder does not know which field it works for, so there is one table for each. The
 * description's `shared` begins with an iter__part_rule.
 */
#ifndef ITER_LOADERS_DECODERS_DECODE_PART_H
#define ITER_LOADERS_DECODERS_DECODE_PART_H

#include <iter/ops.h>

#include "loaders/decoders/image.h"

typedef struct iter__part_rule {
    iter_image_options image;
    /* Finds the image of field f within a sample's bytes[size]. A field's `header` calls it with
     * `first`, its decode_image after that without. Errors: EFORMAT and the like. */
    iter_status (*find_image)(const struct iter__part_rule *rule, int32_t f, bool first,
                              const uint8_t *bytes, size_t size, const uint8_t **out,
                              size_t *out_size, iter_error *err);
    /* Reads field f, which is no image, to out. */
    iter_status (*read)(const struct iter__part_rule *rule, int32_t f, const uint8_t *bytes,
                        size_t size, iter_tensor *out, iter_error *err);
} iter__part_rule;

/* The decoder of field f < ITER_MAX_FIELDS. */
const iter_decoder_ops *iter__decoder_part(int32_t f, bool is_image);

#endif
