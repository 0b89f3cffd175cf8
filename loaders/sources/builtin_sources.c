/* builtin_sources.c - the sources of this build, best first. */
#include "iter/spec/builtins.h"

#ifdef ITER_HAVE_URING
#define RING(X) X(uring)
#else
#define RING(X)
#endif

#ifdef ITER_HAVE_REMOTE
#define REMOTE(X) X(remote) X(cached)
#else
#define REMOTE(X)
#endif

#define SOURCES(X) RING(X) X(pread) X(null) REMOTE(X)

ITER_BUILTIN_LIST(source, SOURCES)
ITER_BUILTIN_NTH(source)
