/*
 * wrapped.h - a format like another one, with our decoder in front of its data field's decoder.
 */
#ifndef WRAPPED_H
#define WRAPPED_H

#include <iter/registry.h>

/** The front decoder's `shared`; its state is the inner decoder's. */
typedef struct wrapped_decoder {
    void *user;
    const iter_decoder_ops *inner; /* NULL = the row is copied from the bytes, at `offset` */
    const void *shared;            /* the inner decoder's */
    size_t offset;
} wrapped_decoder;

typedef struct wrapped {
    iter_format_ops format;
    const iter_format_ops *inner;
    const iter_decoder_ops *front; /* decode; header and decode_image */
    /* A field with a decoder to add after the dataset's own, or NULL. Its bytes are those of the
     * data field, and its decoder gets the same `shared`. Must be set before datasets are
     * opened. */
    const iter_field *added;
    void *user;
    char *data; /* the dataset by its new name */
} wrapped;

/**
 * Puts `front` in front of the decoder of the dataset `data` ("format:path?options"), under the
 * name `name`. Callbacks of `front` are used if the inner decoder has them too; if there is no
 * inner decoder, decode is used.
 *
 *   registry  the inner format is looked up in it, and the new one is added
 *   out       must live as long as datasets opened by out->data; free it even after an error
 *
 * Errors  EINVAL (no such format, or nothing in it is decoded), ENOMEM. Opening the dataset also
 *         fails with EUNSUPPORTED if more than three other fields are decoded, if one of them is an
 *         image, or if there is no room for the added field.
 */
iter_status wrapped_make(const char *name, const char *data, const iter_decoder_ops *front,
                         void *user, iter_registry *registry, wrapped *out, iter_error *err);
void wrapped_free(wrapped *made);

#endif
