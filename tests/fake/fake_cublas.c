/* fake_cublas.c - libcublas.so.13 for tests: products of matrices by three loops. */
#include "engine/cuda/cublas_api.h"
#include "tests/fake/fake_library_calls.h"

#define ITER_X(name, suffix, parameters) FAKE_EXPORT cublasStatus_t name##suffix parameters;
CUBLAS_CALLS(ITER_X)
#undef ITER_X
FAKE_EXPORT const fake_library *fake_cublas_control(void);

struct cublasContext {
    CUstream stream;
    bool has_stream;
};

static fake_calls calls = FAKE_CALLS_INIT(130100);

#define BEGIN(name)                                                                    \
    unsigned status = CUBLAS_STATUS_SUCCESS;                                           \
    if (!fake_calls_begin(&calls, name, &status)) return status;                       \
    if (!fake_check(fake_has_context(), name, "no context is current in this thread")) \
    return CUBLAS_STATUS_NOT_INITIALIZED

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    BEGIN("cublasCreate");
    const fake_library *dnn = fake_library_get("libcudnn.so.9", "fake_cudnn_control");
    if (dnn) dnn->kernels();
    *handle = calloc(1, sizeof(**handle));
    fake_calls_live(&calls, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    unsigned status = CUBLAS_STATUS_SUCCESS;
    const bool ok = fake_calls_begin(&calls, "cublasDestroy", &status);
    free(handle);
    fake_calls_live(&calls, -1);
    return ok ? CUBLAS_STATUS_SUCCESS : status;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    BEGIN("cublasGetVersion");
    *version = (int)fake_calls_version(&calls, 0);
    return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
    BEGIN("cublasSetStream");
    handle->stream = stream;
    handle->has_stream = true;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    BEGIN("cublasSetWorkspace");
    if (!fake_check(handle->has_stream, "cublasSetWorkspace", "the stream, set later, undoes it") ||
        !fake_check_memory(workspace, bytes, 256, "cublasSetWorkspace", "workspace"))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct product {
    bool trans_a, trans_b, tf32;
    engine_type type, c_type;
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *a, *b;
    void *c;
} product;

static void run_product(void *state) {
    const product *p = state;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += fake_factor(p->a, p->trans_a ? i * p->lda + k : k * p->lda + i, p->type,
                                   p->tf32) *
                       fake_factor(p->b, p->trans_b ? k * p->ldb + j : j * p->ldb + k, p->type,
                                   p->tf32);
            sum *= (double)p->alpha;
            if (p->beta != 0) sum += (double)p->beta * fake_number(p->c, j * p->ldc + i, p->c_type);
            fake_put(p->c, j * p->ldc + i, sum, p->c_type);
        }
}

static bool is_type(cudaDataType type) {
    return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

static engine_type type_of(cudaDataType type) {
    return type == CUDA_R_16F ? ENGINE_F16 : type == CUDA_R_16BF ? ENGINE_BF16 : ENGINE_F32;
}

/* Bytes that a matrix of `rows` numbers in each of `columns` spans. */
static size_t span(int rows, int columns, int ld, engine_type type) {
    return ((size_t)(columns - 1) * (size_t)ld + (size_t)rows) * fake_bytes(type);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                            cublasOperation_t trans_b, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType type_of_a, int lda, const void *b,
                            cudaDataType type_of_b, int ldb, const void *beta, void *c,
                            cudaDataType type_of_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo) {
    static const char name[] = "cublasGemmEx";
    BEGIN(name);
    const engine_type type = type_of(type_of_a), c_type = type_of(type_of_c);
    const int a_rows = trans_a ? k : m, b_rows = trans_b ? n : k;
    if (!fake_check(handle && handle->has_stream, name, "no stream") ||
        !fake_check(m > 0 && n > 0 && k > 0, name, "an empty product") ||
        !fake_check(lda >= a_rows && ldb >= b_rows && ldc >= m, name, "a leading dimension") ||
        !fake_check(type_of_a == type_of_b && is_type(type_of_a) && is_type(type_of_c), name,
                    "types") ||
        !fake_check(c_type == ENGINE_F32 || c_type == type, name, "the type of c") ||
        !fake_check(compute == CUBLAS_COMPUTE_32F ||
                        (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && type == ENGINE_F32),
                    name, "the kind of arithmetic") ||
        !fake_check(algo == CUBLAS_GEMM_DEFAULT, name, "the algorithm") ||
        !fake_check_memory(a, span(a_rows, trans_a ? m : k, lda, type), fake_bytes(type), name,
                           "a") ||
        !fake_check_memory(b, span(b_rows, trans_b ? k : n, ldb, type), fake_bytes(type), name,
                           "b") ||
        !fake_check_memory(c, span(m, n, ldc, c_type), fake_bytes(c_type), name, "c"))
        return CUBLAS_STATUS_INVALID_VALUE;
    product p = {.trans_a = trans_a == CUBLAS_OP_T,
                 .trans_b = trans_b == CUBLAS_OP_T,
                 .type = type,
                 .c_type = c_type,
                 .tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                 .m = m,
                 .n = n,
                 .k = k,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc,
                 .a = a,
                 .b = b,
                 .c = c};
    memcpy(&p.alpha, alpha, sizeof(p.alpha));
    memcpy(&p.beta, beta, sizeof(p.beta));
    return fake_driver()->launch(handle->stream, run_product, &p, sizeof(p)) == CUDA_SUCCESS
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

FAKE_CONTROL(fake_cublas_control, &calls, NULL)
