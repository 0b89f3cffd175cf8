/* builtin_sources.c - the sources of this build, best first. */
#include "iter/spec/builtins.h"

#ifdef ITER_HAVE_URING
#define RING(X) X(uring)
#else
#define RING(X)
#endif

#define SOURCES(X) RING(X) X(pread) X(null)

ITER_BUILTIN_LIST(source, SOURCES)
ITER_BUILTIN_NTH(source)
