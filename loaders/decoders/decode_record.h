/* decode_record.h - the decoders of RecordIO's fields; their `shared` is an iter__record_rule. */
#ifndef ITER_LOADERS_DECODERS_DECODE_RECORD_H
#define ITER_LOADERS_DECODERS_DECODE_RECORD_H

#include <iter/ops.h>

#include "loaders/decoders/image.h"

typedef struct iter__record_rule {
    iter_image_options image;
    bool header;         /* payloads begin with an IRHeader */
    int32_t label_width; /* labels a record; 1 = a scalar */
    int32_t objects;     /* the most objects a record may have; 0 = labels are no objects */
    int32_t object_width;
    uint32_t head_bytes; /* of the first record, before its data */
} iter__record_rule;

/* The labels: f32 or i32, scalar or [label_width]. */
extern const iter_decoder_ops iter__decoder_record_label;
/* The labels of a detection set as objects, f32 [<=objects, object_width]: behind a head whose
 * first two numbers are its own width and an object's. Source: MXNet, image_det_aug_default.cc. */
extern const iter_decoder_ops iter__decoder_record_objects;
/* The data after the labels, as an image. */
extern const iter_decoder_ops iter__decoder_record_image;
/* The data after the labels as bytes: u8 [<=n], or u8 of a fixed shape of exactly these bytes. */
extern const iter_decoder_ops iter__decoder_record_bytes;

#endif
