/*
 * cuda_headers.c - iter/device/cuda_api.h against NVIDIA's own cuda.h: every value, every type,
 * every call's parameters, and which version of a call a name means. Compiled and run by
 * tests/check_cuda_headers.sh.
 */
#include <stdio.h>
#include <string.h>

#include <cuda.h>

#define ITER_CUDA_REAL_HEADER
#include "iter/device/cuda_api.h" /* declares the handles again: another type would not compile */

#define ITER_X(name, value) _Static_assert((name) == (value), #name);
ITER_CUDA_CONSTANTS(ITER_X)
#undef ITER_X

/* If a call has a version, `name` is a macro in cuda.h. */
#define ITER_X(name, suffix, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), CUresult(*) parameters), #name);
ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
_Static_assert(__builtin_types_compatible_p(__typeof__(&cuGetProcAddress_v2),
                                            CUresult (*)(const char *, void **, int, cuuint64_t,
                                                         CUdriverProcAddressQueryResult *)),
               "cuGetProcAddress_v2");

/* In iter/device/cuda_api.h enumerations are `unsigned`. */
_Static_assert(sizeof(CUresult) == sizeof(unsigned) &&
                   sizeof(CUstreamCaptureStatus) == sizeof(unsigned) &&
                   sizeof(CUstreamCaptureMode) == sizeof(unsigned) &&
                   sizeof(CUpointer_attribute) == sizeof(unsigned) &&
                   sizeof(CUdevice_attribute) == sizeof(unsigned) &&
                   sizeof(CUjit_option) == sizeof(unsigned) &&
                   sizeof(CUdriverProcAddressQueryResult) == sizeof(unsigned) &&
                   sizeof(cuuint64_t) == sizeof(uint64_t),
               "enumerations");

/* The header is newer than ITER_CUDA_MIN_VERSION: for these calls it has a later version, whose
 * parameters are the same. */
static const char *const later[][2] = {{"cuEventElapsedTime", "cuEventElapsedTime_v2"}};

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static int check(const char *name, const char *ours, const char *theirs) {
    if (strcmp(ours, theirs) == 0) return 0;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (strcmp(name, later[i][0]) == 0 && strcmp(theirs, later[i][1]) == 0) return 0;
    printf("%s: we use %s, cuda.h %s\n", name, ours, theirs);
    return 1;
}

int main(void) {
    int bad = 0, n = 0;
#define ITER_X(name, suffix, parameters) bad += check(#name, #name #suffix, TEXT(name)), n++;
    ITER_CUDA_CALLS(ITER_X)
#undef ITER_X
    printf("cuda.h %d: %d calls\n", CUDA_VERSION, n);
    return bad != 0;
}
