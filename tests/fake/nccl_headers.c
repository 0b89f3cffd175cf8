/*
 * nccl_headers.c - engine/cuda/nccl_api.h against NVIDIA's own nccl.h: every value, and every
 * call's parameters. Compiled and run by tests/check_cuda_headers.sh.
 */
#include <stdio.h>

#include <cuda.h>
#include <nccl.h>

#define ITER_CUDA_REAL_HEADER
#include "engine/cuda/nccl_api.h"

#define ITER_X(name, value) _Static_assert((int)(name) == (value), #name);
NCCL_CONSTANTS(ITER_X)
#undef ITER_X

#define ITER_X(name, parameters)                                                                \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), ncclResult_t(*) parameters), \
                   #name);
NCCL_CALLS(ITER_X)
#undef ITER_X

_Static_assert(__builtin_types_compatible_p(__typeof__(&ncclGetErrorString),
                                            const char *(*)(ncclResult_t)) &&
                   sizeof(ncclUniqueId) == 128 && sizeof(ncclResult_t) == sizeof(unsigned) &&
                   sizeof(ncclDataType_t) == sizeof(unsigned),
               "what answers something else, and types");

int main(void) {
    int n = 0;
#define ITER_X(...) n++;
    NCCL_CALLS(ITER_X)
#undef ITER_X
    printf("NCCL %d.%d: %d calls\n", NCCL_MAJOR, NCCL_MINOR, n);
    return 0;
}
