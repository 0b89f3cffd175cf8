/*
 * preload_kernels.c - registers the twins of the library's kernels with the fake driver when a
 * program starts: for installed programs, which cannot do it themselves. Loaded by LD_PRELOAD.
 */
#include "tests/support/fake_kernels.h"

__attribute__((constructor)) static void begin(void) {
    const fake_cuda *fake = fake_cuda_get(); /* it stays loaded */
    if (fake) fake_kernels_register(fake);
}
