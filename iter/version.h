/* version.h - the library's version; the build reads it from here. */
#ifndef ITER_VERSION_H
#define ITER_VERSION_H

#include <iter/export.h>

#define ITER_VERSION_MAJOR  0
#define ITER_VERSION_MINOR  1
#define ITER_VERSION_PATCH  0
#define ITER_VERSION_STRING "0.1.0"

ITER_BEGIN_DECLS

/** The version of the linked library, e.g. "0.1.0". If the program was compiled with headers of
 * another version, ITER_VERSION_STRING differs from it. */
ITER_API const char *iter_version(void);

ITER_END_DECLS

#endif
