/*
 * fake_library.h - control of the fakes of cuDNN, cuBLAS and NCCL, which run on the fake driver.
 *
 * They compute by naive loops, in the order of the stream they were given, and fill the workspace
 * that they may use with NaN. If arguments are bad (null or foreign pointers, misaligned ones,
 * memory too small, no context), that is printed and returned.
 */
#ifndef TESTS_FAKE_LIBRARY_H
#define TESTS_FAKE_LIBRARY_H

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct fake_library {
    /* Clears failures and counts, and restores the version. */
    void (*reset)(void);
    /* Its version: 91501, 130100. */
    void (*set_version)(size_t version);
    /* Call number `call` from now (0 = the next) of `function` (NULL = any) returns `status`; if it
     * destroys, it still does that. One failure can be planned. */
    void (*fail)(const char *function, long call, unsigned status);
    long (*calls)(const char *function); /* since reset; NULL = all */
    long (*live)(void);                  /* handles and descriptors */
    /* cuDNN's: registers the twins of the engine's kernels with the driver, whose reset forgets
     * them. */
    void (*kernels)(void);
} fake_library;

/* "libcudnn.so.9", "fake_cudnn_control"; returns NULL if there is no such library, or a real
 * one. */
static inline const fake_library *fake_library_get(const char *file, const char *control_name) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, control_name) : NULL;
    if (symbol == NULL) return NULL;
    const fake_library *(*control)(void);
    memcpy(&control, &symbol, sizeof(symbol));
    return control();
}

#endif
