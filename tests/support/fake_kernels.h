/*
 * fake_kernels.h - the library's kernels in plain C, for the fake driver. Each reads and writes
 * what the kernel of that name does, and aborts if a kernel must not read or write there.
 */
#ifndef TESTS_SUPPORT_FAKE_KERNELS_H
#define TESTS_SUPPORT_FAKE_KERNELS_H

#include "tests/fake/fake_cuda.h"

/* Must be called after each reset of the fake. */
void fake_kernels_register(const fake_cuda *cuda);

#endif
