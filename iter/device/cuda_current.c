/*
 * cuda_current.c - whether the program uses CUDA already, in this thread: asked of a driver that is
 * loaded, without loading one.
 */
#include <dlfcn.h>
#include <string.h>

#include "iter/device/cuda_api.h"
#include "iter/device/device.h"

bool iter__device_current(void) {
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
