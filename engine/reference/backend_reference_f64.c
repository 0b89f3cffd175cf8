/* backend_reference_f64.c - the same loops in double, exact enough for central differences. */
#define REAL         double
#define REAL_DTYPE   ITER_F64
#define REAL_TEXT    "double"
#define BACKEND_NAME "reference-f64"

#include "engine/reference/reference_body.h"

extern const engine_backend_ops iter__backend_reference_f64;
const engine_backend_ops iter__backend_reference_f64 =
    REFERENCE_BACKEND_OPS("naive loops in double, for tests");
