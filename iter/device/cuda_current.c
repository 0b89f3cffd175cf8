/*
 * cuda_current.c - whether the program uses CUDA already, in this thread: asked of a driver that is
 * loaded, without loading one.
 *
 * dlopen() is called only if the driver is mapped. It takes the dynamic loader's lock, and a child of
 * fork() may find what that guards half changed by a thread that does not exist there.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "iter/device/cuda_api.h"
#include "iter/device/device.h"

/* Linux, proc(5). What cannot be read counts as mapped. */
static bool is_mapped(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return true;
    bool found = false;
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, "/libcuda.so") != NULL;
    fclose(maps);
    return found;
}

bool iter__device_current(void) {
    if (!is_mapped()) return false;
    void *library = dlopen(ITER_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library) return false;
    CUresult (*get_current)(CUcontext * context) = NULL;
    CUcontext context = NULL;
    void *symbol = dlsym(library, "cuCtxGetCurrent");
    if (symbol) memcpy(&get_current, &symbol, sizeof(symbol));
    const bool is = get_current && get_current(&context) == CUDA_SUCCESS && context;
    dlclose(library); /* the count alone: the program has it loaded */
    return is;
}
