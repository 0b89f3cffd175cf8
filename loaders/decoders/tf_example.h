/*
 * tf_example.h - the features of a tf.Example, read in place from its protocol buffer.
 *
 * Source: TensorFlow, core/example/example.proto and feature.proto; Protocol Buffers, "Encoding":
 * of a field that comes twice the last counts, numbers may be packed or not, unknown fields are
 * skipped.
 */
#ifndef ITER_LOADERS_DECODERS_TF_EXAMPLE_H
#define ITER_LOADERS_DECODERS_TF_EXAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

/* The numbers are those of the lists' fields in Feature. */
typedef enum iter__feature_kind {
    ITER_FEATURE_NONE = 0, /* there is such a feature, without a list */
    ITER_FEATURE_BYTES = 1,
    ITER_FEATURE_FLOATS = 2,
    ITER_FEATURE_INTEGERS = 3
} iter__feature_kind;

typedef struct iter__feature {
    iter__feature_kind kind;
    const uint8_t *list; /* [n] the list's message, borrowed */
    size_t n;
} iter__feature;

const char *iter__feature_kind_text(iter__feature_kind kind);

/* Finds a feature by name in bytes[size]. ITER_END: there is none. Errors: EFORMAT (place and
 * reason). */
iter_status iter__example_find(const uint8_t *bytes, size_t size, const char *name,
                               iter__feature *out, iter_error *err);

/* Writes the names of the features to out, between ", ", as many as fit; "none" if there are
 * none. */
void iter__example_names(const uint8_t *bytes, size_t size, char *out, size_t capacity);

/* Calls for the values of a list, of *out_n of them the first `capacity` are written to `out`:
 * spans of bytes, f32, or i64. Errors: EFORMAT. */
typedef struct iter__feature_bytes {
    const uint8_t *bytes;
    size_t n;
} iter__feature_bytes;
iter_status iter__feature_read(const iter__feature *feature, void *out, size_t capacity,
                               size_t *out_n, iter_error *err);

#endif
