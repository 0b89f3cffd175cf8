/* cublas.h - products of matrices by cuBLAS. All its calls are in cublas.c, except those that open
 * it. */
#ifndef ENGINE_CUDA_CUBLAS_H
#define ENGINE_CUDA_CUBLAS_H

#include "engine/cuda/cudnn.h"

/* Workspace that cuBLAS recommends (its manual, cublasSetWorkspace): 32 MiB from Hopper on, 4 MiB
 * before. */
static inline size_t iter__blas_workspace_bytes(const cuda_machine *machine) {
    return (size_t)(machine->capability >= 90 ? 32 : 4) << 20;
}

/* c [rows, columns] = a b, row-major and dense. a is [rows, inner], or [inner, rows] if transposed;
 * b is [inner, columns], or [columns, inner] if transposed. */
typedef struct blas_product {
    CUdeviceptr a, b, c;
    int64_t rows, columns, inner;
    bool a_transposed, b_transposed;
    engine_type type;   /* of a and b */
    engine_type c_type; /* that of a and b, or f32 */
    bool tf32;
} blas_product;

iter_status iter__blas_product(cuda_machine *machine, const blas_product *product, iter_error *err);
/* Must be called before the first product: gives cuBLAS memory, so that it allocates none during a
 * capture. */
iter_status iter__blas_set_workspace(cuda_machine *machine, CUdeviceptr at, size_t bytes,
                                     iter_error *err);

#endif
