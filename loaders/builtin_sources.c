/* builtin_sources.c - the sources of this build, best first. */
#include <stddef.h>

#include "iter/core/builtins.h"
#include "loaders/builtin_sources.h"

const iter_source_ops *const iter__builtin_sources[] = {
#ifdef ITER_HAVE_URING
    &iter__source_uring,
#endif
    &iter__source_pread,
    &iter__source_null,
    NULL,
};
