/*
 * wrapped.h - a format like another one, with a decoder of ours around its data field's own.
 */
#ifndef WRAPPED_H
#define WRAPPED_H

#include <iter/registry.h>

/** What the decoder in front gets as `shared`; its state is the inner decoder's. */
typedef struct wrapped_decoder {
    void *user;
    const iter_decoder_ops *inner; /* NULL = the row is copied from the bytes, at `offset` */
    const void *shared;            /* the inner one's */
    size_t offset;
} wrapped_decoder;

typedef struct wrapped {
    iter_format_ops format;
    const iter_format_ops *inner;
    const iter_decoder_ops *front; /* decode; header and decode_image */
    /* A field to add behind the dataset's own, with a decoder. Its bytes are those of the data field,
     * and its decoder gets the same `shared`. NULL = none; to be set before datasets are opened. */
    const iter_field *added;
    void *user;
    char *data; /* the dataset by its new name */
} wrapped;

/**
 * Puts `front` before the decoder of the dataset `data` ("format:path?options"), under the name
 * `name`. Of its callbacks those are used that the inner decoder has, too; where there is none, decode.
 *
 *   registry  where the inner format is looked up, and the new one is added
 *   out  lives as long as datasets that were opened by out->data; to be freed whatever the answer
 *
 * Errors  EINVAL (no such format, or nothing in it is decoded), ENOMEM. Opening the dataset also
 *         answers EUNSUPPORTED: more than three other fields are decoded, one of them is an image, or
 *         there is no room for the added field.
 */
iter_status wrapped_make(const char *name, const char *data, const iter_decoder_ops *front,
                         void *user, iter_registry *registry, wrapped *out, iter_error *err);
void wrapped_free(wrapped *made);

#endif
