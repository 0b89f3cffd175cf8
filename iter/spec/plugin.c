/*
 * plugin.c - loads a shared object that registers tables.
 *
 * The version is checked before any function of the plugin runs: tables grow and callbacks change
 * between minor versions, and a wrong table would misbehave without an error. RTLD_NODELETE keeps
 * the code: datasets, chains and loaders borrow its tables, and may live longer than the registry.
 */
#include <iter/plugin.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

#define VERSION_SYMBOL  "iter_plugin_built_with"
#define REGISTER_SYMBOL "iter_plugin_register"

typedef iter_status (*register_function)(iter_registry *registry, iter_error *err);

/* dlopen() looks up names without a slash in the system's folders, not in the working directory. */
static iter_status open_object(const char *path, void **out, iter_error *err) {
    const size_t bytes = strlen(path) + sizeof("./");
    char *place = iter__alloc(bytes, 1);
    if (!place) return iter__fail(err, ITER_ENOMEM, "plugin %s: out of memory", path);
    snprintf(place, bytes, "%s%s", strchr(path, '/') ? "" : "./", path);
    *out = dlopen(place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    iter__free(place);
    if (*out) return ITER_OK;
    const char *why = dlerror();
    return iter__fail(err, ITER_EIO, "plugin %s: %s", path, why ? why : "cannot be loaded");
}

static iter_status check_version(const char *path, const iter_plugin_version *built,
                                 iter_error *err) {
    if (built->struct_size < sizeof(*built) || built->major != ITER_VERSION_MAJOR ||
        built->minor != ITER_VERSION_MINOR)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "plugin %s: compiled for libiter %u.%u, but this is %d.%d: compile it "
                          "again with the headers of this version",
                          path, (unsigned)built->major, (unsigned)built->minor, ITER_VERSION_MAJOR,
                          ITER_VERSION_MINOR);
    return ITER_OK;
}

static iter_status register_tables(const char *path, void *object, iter_registry *registry,
                                   iter_error *err) {
    const iter_plugin_version *built = dlsym(object, VERSION_SYMBOL);
    void *found = dlsym(object, REGISTER_SYMBOL);
    register_function add_tables;
    if (!built || !found)
        return iter__fail(err, ITER_EINVAL,
                          "plugin %s: not a plugin of libiter: it does not export %s%s", path,
                          built ? REGISTER_SYMBOL : VERSION_SYMBOL,
                          built ? "" : " (ITER_PLUGIN of iter/plugin.h does)");
    ITER_TRY(check_version(path, built, err));
    memcpy(&add_tables, &found, sizeof(add_tables)); /* ISO C has no cast from object to function */
    iter_error own = {ITER_OK, ""};                  /* a plugin never gets NULL */
    const iter_status s = add_tables(registry, &own);
    if (s == ITER_OK) return ITER_OK;
    if (err) *err = own;
    return iter__fail_in(err, s < 0 ? s : ITER_EINVAL, "plugin %s", path);
}

iter_status iter_plugin_load(const char *path, iter_registry *registry, iter_error *err) {
    void *object;
    if (!path || !*path) return iter__fail(err, ITER_EINVAL, "plugin: no file given");
    if (!registry) return iter__fail(err, ITER_EINVAL, "plugin %s: no registry given", path);
    ITER_TRY(open_object(path, &object, err));
    const iter_status s = register_tables(path, object, registry, err);
    dlclose(object); /* the code stays */
    return s;
}
