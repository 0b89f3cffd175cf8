/*
 * plugin.h - formats, transforms and samplers in a shared object of their own.
 *
 *     ITER_PLUGIN
 *     iter_status iter_plugin_register(iter_registry *registry, iter_error *err) {
 *         iter_status s = iter_registry_add_format(registry, &my_format, err);
 *         return s == ITER_OK ? iter_registry_add_transform(registry, &my_stage, err) : s;
 *     }
 *
 *     cc -shared -fPIC my_plugin.c $(pkg-config --cflags iter) -o my_plugin.so
 *     iterbench --plugin ./my_plugin.so --data my-format:path --chain my-stage
 *
 * A plugin need not be linked with libiter: the program that loads it has the library.
 */
#ifndef ITER_PLUGIN_H
#define ITER_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include <iter/option_rows.h>
#include <iter/registry.h>
#include <iter/version.h>

ITER_BEGIN_DECLS

/** The version of the headers that a plugin was compiled with. ITER_PLUGIN defines one. */
typedef struct iter_plugin_version {
    size_t struct_size;
    uint32_t major, minor, patch;
} iter_plugin_version;

/** Must come before the definition of iter_plugin_register(), once in a plugin. Exports that
 * function and the version that the plugin was compiled with. */
#define ITER_PLUGIN                                                                               \
    ITER_BEGIN_DECLS                                                                              \
    extern ITER_API const iter_plugin_version iter_plugin_built_with;                             \
    const iter_plugin_version iter_plugin_built_with = {                                          \
        sizeof(iter_plugin_version), ITER_VERSION_MAJOR, ITER_VERSION_MINOR, ITER_VERSION_PATCH}; \
    ITER_API iter_status iter_plugin_register(iter_registry *registry, iter_error *err);          \
    ITER_END_DECLS

/**
 * Loads a shared object and lets it add its tables to the registry.
 *
 *   path  of the file; a name without '/' is looked up in the working directory alone
 *
 * A plugin stays loaded until the process ends, so its tables may outlive the registry.
 *
 * Errors     each names the file. EIO (it cannot be loaded: the dynamic linker's message), EINVAL
 *            (it is not a plugin), EUNSUPPORTED (compiled with headers of another major or minor
 *            version), the error of iter_plugin_register(). After an error the registry may hold
 *            some of its tables.
 * Threads    one at a time for each registry.
 */
ITER_API ITER_NODISCARD iter_status iter_plugin_load(const char *path, iter_registry *registry,
                                                     iter_error *err);

ITER_END_DECLS

#endif
