/*
 * cuda_kernels.h - the kernels by name, and their arguments. Read by the library, by kernels.cu,
 * and by the code that replaces the kernels in tests.
 */
#ifndef ITER_DEVICE_CUDA_KERNELS_H
#define ITER_DEVICE_CUDA_KERNELS_H

#include <stdint.h>

#include "iter/spec/pack.h"

/* X(name of the kernel); iter__device.functions has this order. "any" runs every program. The
 * others, named from_to, need an output width that is a multiple of 4, output rows that begin at
 * multiples of 16 bytes, and 3 channels, either interleaved (hwc) or in planes. */
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

/* Threads per block of the pack kernels, and output pixels per thread. */
#define ITER_PACK_THREADS 128
#define ITER_PACK_QUAD    4

/* The only parameter of a pack kernel. Grid: rows x groups of blocks over the pixels of a plane x
 * planes. Every dimension is a loop, so any grid size works. */
typedef struct iter__cuda_pack_args {
    uint64_t from, rows, to; /* addresses */
    uint64_t in_bytes, out_bytes;
    uint32_t n_rows;
    uint32_t n_quads;     /* quads of one plane of the output */
    uint32_t line_quads;  /* quads of one of its lines */
    uint32_t line_factor; /* quad / line_quads is quad * line_factor >> line_shift, quad < 2^30 */
    uint32_t line_shift;
    int32_t is_wide;            /* rows of the output begin at multiples of 16 bytes */
    iter__pack_program program; /* if it only moves bytes, a and b are 1 and -0 */
} iter__cuda_pack_args;

/* The only parameter of a gather kernel: rows x units of 16, 4 or 1 bytes. Grid and block have the
 * same dimensions. */
typedef struct iter__cuda_gather_args {
    uint64_t from, rows, to;
    uint64_t n_units; /* of one row */
    uint32_t n_rows, unused;
} iter__cuda_gather_args;

#endif
