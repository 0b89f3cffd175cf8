/* backend_reference.c - naive loops in float, against which other backends are tested. */
#define REAL         float
#define REAL_DTYPE   ITER_F32
#define REAL_TEXT    "float"
#define BACKEND_NAME "reference"

#include "engine/reference/reference_body.h"

extern const engine_backend_ops iter__backend_reference;
const engine_backend_ops iter__backend_reference =
    REFERENCE_BACKEND_OPS("naive loops in float, for tests");
