/*
 * cuda_current.c - finds out whether this thread already uses CUDA, without loading a driver.
 *
 * dlopen() is called only if the driver is mapped. It takes the dynamic loader's lock; after
 * fork(), a thread that does not exist in the child may have left the lock's data half changed.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "iter/device/cuda_api.h"
#include "iter/device/device.h"

/* Linux, proc(5). If the file cannot be read, the library counts as mapped. */
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
    dlclose(library); /* drops only our reference: the program has the library loaded */
    return is;
}
