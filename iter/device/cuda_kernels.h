/*
 * cuda_kernels.h - the kernels by name, and what they are handed: read by the library, by kernels.cu,
 * and by what stands in for them in tests.
 */
#ifndef ITER_DEVICE_CUDA_KERNELS_H
#define ITER_DEVICE_CUDA_KERNELS_H

#include <stdint.h>

#include "iter/core/pack.h"

/* X(name of the kernel); in this order in iter__device.functions. "any" takes whatever a program can
 * say; the others want a width of the output that 4 divides, output at a multiple of 16 bytes, and 3
 * channels, which stand side by side (hwc) or in planes: from_to. */
#define ITER_CUDA_KERNELS(X)   \
    X(iter_pack_any)           \
    X(iter_pack_planes)        \
    X(iter_pack_planes_to_hwc) \
    X(iter_pack_hwc)           \
    X(iter_pack_hwc_to_planes) \
    X(iter_gather_16)          \
    X(iter_gather_4)           \
    X(iter_gather_1)

enum {
#define ITER_X(name) ITER_KERNEL_##name,
    ITER_CUDA_KERNELS(ITER_X)
#undef ITER_X
        ITER_KERNELS
};

/* Threads a block of the pack kernels, and output pixels that one thread makes. */
#define ITER_PACK_THREADS 128
#define ITER_PACK_QUAD    4

/* The only parameter of a pack kernel. Grid: rows x groups of blocks over the pixels of a plane x
 * planes; all of them loop, so any grid will do. */
typedef struct iter__cuda_pack_args {
    uint64_t from, rows, to; /* addresses */
    uint64_t in_bytes, out_bytes;
    uint32_t n_rows;
    uint32_t n_quads;     /* of one plane of the output */
    uint32_t line_quads;  /* of one of its lines */
    uint32_t line_factor; /* quad / line_quads is quad * line_factor >> line_shift, quad < 2^30 */
    uint32_t line_shift;
    int32_t is_wide;            /* rows of the output begin at multiples of 16 bytes */
    iter__pack_program program; /* a and b are 1 and -0 where it moves bytes */
} iter__cuda_pack_args;

/* The only parameter of a gather kernel: rows x units of 16, 4 or 1 bytes. Grid and block alike. */
typedef struct iter__cuda_gather_args {
    uint64_t from, rows, to;
    uint64_t n_units; /* of one row */
    uint32_t n_rows, unused;
} iter__cuda_gather_args;

#endif
