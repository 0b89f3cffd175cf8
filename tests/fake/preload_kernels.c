/*
 * preload_kernels.c - tells the fake driver the twins of the library's kernels when a program starts: for programs as they are
 * installed, which cannot do it themselves. Comes in by LD_PRELOAD.
 */
#include "tests/support/fake_kernels.h"

__attribute__((constructor)) static void begin(void) {
    const fake_cuda *fake = fake_cuda_get(); /* stays loaded */
    if (fake) fake_kernels_register(fake);
}
