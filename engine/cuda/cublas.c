/*
 * cublas.c - see cublas.h. cuBLAS is column-major: what it takes for c is our c transposed. So b
 * comes before a, and rows and columns are swapped.
 */
#include "engine/cuda/cublas.h"

static cudaDataType type_of(engine_type type) {
    return type == ENGINE_F16 ? CUDA_R_16F : type == ENGINE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

iter_status iter__blas_product(cuda_machine *m, const blas_product *p, iter_error *err) {
    const float one = 1, zero = 0;
    const int64_t lda = p->a_transposed ? p->rows : p->inner;
    const int64_t ldb = p->b_transposed ? p->inner : p->columns;
    const cudaDataType type = type_of(p->type);
    BLAS_CALL(m, err, cublasGemmEx,
              (m->blas.handle, p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
               p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->columns, (int)p->rows,
               (int)p->inner, &one, iter__device_pointer(p->b), type, (int)ldb,
               iter__device_pointer(p->a), type, (int)lda, &zero, iter__device_pointer(p->c),
               type_of(p->c_type), (int)p->columns,
               p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return ITER_OK;
}

iter_status iter__blas_set_workspace(cuda_machine *m, CUdeviceptr at, size_t bytes,
                                     iter_error *err) {
    BLAS_CALL(m, err, cublasSetWorkspace, (m->blas.handle, iter__device_pointer(at), bytes));
    return ITER_OK;
}
