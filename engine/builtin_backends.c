/* builtin_backends.c - the backends of this build, listed by hand, best first. */
#include <stdio.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/engine_error.h"

extern const engine_backend_ops iter__backend_reference, iter__backend_reference_f64;
extern const engine_backend_ops iter__backend_cuda;
#ifdef ITER_HAVE_DNNL
extern const engine_backend_ops iter__backend_cpu;
#endif

const engine_backend_ops *const iter__backends[] = {
#ifdef ITER_HAVE_DNNL
    &iter__backend_cpu,
#endif
    &iter__backend_reference,
    &iter__backend_reference_f64,
    &iter__backend_cuda, /* only by name: there may be no GPU */
    NULL,
};

static const char *const names[] = {
#ifdef ITER_HAVE_DNNL
    "cpu",
#endif
    "reference", "reference-f64", "cuda", NULL,
};

_Static_assert(sizeof(names) / sizeof(names[0]) ==
                   sizeof(iter__backends) / sizeof(iter__backends[0]),
               "every backend has its name");

/* Backends that only some builds have, and what a build needs for them. */
static const struct {
    const char *name, *needs;
} known[] = {
    {"cpu", "oneDNN"},
};

iter_status iter__backend_find(const char *name, const engine_backend_ops **out, iter_error *err) {
    *out = iter__backends[0];
    if (!name) return ITER_OK;
    char list[128];
    size_t n = 0;
    list[0] = 0;
    for (int i = 0; iter__backends[i]; i++) {
        *out = iter__backends[i];
        if (strcmp(iter__backends[i]->name, name) == 0) return ITER_OK;
        if (n < sizeof(list))
            n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
                                  iter__backends[i]->name);
    }
    *out = NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                     "backend: '%s' needs %s, which this build lacks; there are "
                                     "%s",
                                     name, known[i].needs, list);
    return iter__engine_fail(err, ITER_EINVAL,
                             "backend: no backend is called '%.40s'; there are %s", name, list);
}

const char *const *iter_engine_backends(void) {
    return names;
}
