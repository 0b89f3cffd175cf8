/* builtin_decoders.c - the decoders that a format of the user's own may ask for by name. */
#include <stddef.h>

#include "iter/core/builtins.h"
#include "loaders/image.h"

const iter_decoder_ops *const iter__builtin_decoders[] = {&iter__decode_image, NULL};
