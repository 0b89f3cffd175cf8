/* builtin_decoders.c - the decoders that a user's own format may ask for by name. */
#include "iter/spec/builtins.h"

#define DECODERS(X) X(image)

ITER_BUILTINS(decoder, DECODERS)

const iter_decoder_ops *iter_builtin_decoder(const char *name) {
    return iter_registry_decoder(NULL, name);
}
