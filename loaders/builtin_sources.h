/* builtin_sources.h - the tables that loaders/builtin_sources.c lists, each defined in the file of
 * its name. */
#ifndef LOADERS_BUILTIN_SOURCES_H
#define LOADERS_BUILTIN_SOURCES_H

#include <iter/ops.h>

extern const iter_source_ops iter__source_uring; /* "ring"; only under ITER_HAVE_URING */
extern const iter_source_ops iter__source_pread; /* "pread" */
extern const iter_source_ops iter__source_null;  /* "null" */

#endif
