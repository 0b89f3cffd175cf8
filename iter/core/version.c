/* version.c - the version that was compiled in; iter/version.h is the only place that holds it. */
#include <iter/version.h>

const char *iter_version(void) {
    return ITER_VERSION_STRING;
}
