/*
 * diagnose_hook.c - see diagnose_hook.h.
 *
 * The judge is a library of its own, which this one does not link: it is opened when it is asked
 * for. It lies beside this library, or where the system looks for libraries. A program that is
 * linked with it has it already, statically too; then the weak reference below is not NULL.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/observe/diagnose_hook.h"
#include <iter/version.h>

#define TEXT(x)  #x
#define VALUE(x) TEXT(x)
#define LIBRARY  "libiter_diagnose.so." VALUE(ITER_VERSION_MAJOR) "." VALUE(ITER_VERSION_MINOR)

extern iter__diagnose_hook iter_diagnose_hook __attribute__((weak, visibility("default")));

static const char anchor; /* lies in this library */

/* The library of that name beside the file that this code is in; NULL = it is not there. */
static void *open_beside(const char *name) {
    char path[4096];
    Dl_info here;
    if (!dladdr(&anchor, &here) || !here.dli_fname) return NULL;
    const char *slash = strrchr(here.dli_fname, '/');
    if (!slash) return NULL;
    const int folder = (int)(slash - here.dli_fname) + 1;
    const int n = snprintf(path, sizeof(path), "%.*s%s", folder, here.dli_fname, name);
    return n > 0 && n < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Whether the library calls this libiter. A program with a static one may find a library that
 * brings a shared one along, whose structs may differ. */
static bool calls_us(void *object) {
    Dl_info here, there;
    const void *function = dlsym(object, "iter_loader_in_next");
    return function && dladdr(&anchor, &here) && dladdr(function, &there) &&
           here.dli_fbase == there.dli_fbase;
}

static iter__diagnose_hook *find(char why[160]) {
    if (iter_diagnose_hook) return iter_diagnose_hook;
    void *object = open_beside(LIBRARY);
    if (!object) object = open_beside("libiter_diagnose.so"); /* as a Python wheel has it */
    if (!object) object = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *found = object ? dlsym(object, "iter_diagnose_hook") : NULL;
    if (!found) {
        const char *text = dlerror();
        snprintf(why, 160, "ITER_DIAGNOSE: %.140s", text ? text : LIBRARY " cannot be used");
        return NULL;
    }
    if (!calls_us(object)) {
        snprintf(why, 160,
                 "ITER_DIAGNOSE: " LIBRARY " belongs to another libiter; link "
                 "iter::diagnose");
        return NULL;
    }
    iter__diagnose_hook *hook; /* ISO C has no cast from object to function */
    memcpy(&hook, &found, sizeof(hook));
    return hook;
}

void iter__diagnose_autostart(iter_loader *loader) {
    const char *asked = secure_getenv("ITER_DIAGNOSE");
    char why[160];
    if (!asked || !asked[0] || strcmp(asked, "0") == 0) return;
    loader->diagnose_hook = find(why);
    if (loader->diagnose_hook)
        loader->diagnose_hook(loader, 0);
    else
        iter__fallback(loader, why);
}
