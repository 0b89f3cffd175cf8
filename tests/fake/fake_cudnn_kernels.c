/*
 * fake_cudnn_kernels.c - the engine's kernels on the host: engine/cuda/engine_kernels.cu itself,
 * read by the C compiler. A block is a loop over its threads, cut at their barriers; blocks run one
 * after the other.
 *
 * They are registered with the driver whenever a handle of cuDNN or cuBLAS is made, so that
 * programs which know nothing of fakes find them. If a test's net needs neither, the test must
 * register them.
 */
#include <math.h>

#include "tests/fake/fake_cudnn_internal.h"

#define KERNEL(name, type)                                                               \
    static void block_of_##name(const type a, int64_t block_number);                     \
    static void twin_of_##name(void **parameters, const unsigned grid[3],                \
                               const unsigned block[3]) {                                \
        type arguments;                                                                  \
        memcpy(&arguments, parameters[0], sizeof(arguments));                            \
        if (block[0] != ENGINE_BLOCK || block[1] != 1 || grid[1] != 1 || grid[2] != 1) { \
            fprintf(stderr, "%s: %u threads in a block\n", #name, block[0]);             \
            abort();                                                                     \
        }                                                                                \
        for (unsigned i = 0; i < grid[0]; i++)                                           \
            block_of_##name(arguments, i);                                               \
    }                                                                                    \
    static void block_of_##name(const type a, __attribute__((unused)) int64_t block_number)
#define THREADS for (int t = 0; t < ENGINE_BLOCK; t++)
#define MEET    ((void)0)
#define SHARED
#define BLOCK_NUMBER      block_number
#define DEVICE            static inline
#define MIN_OF(at, value) ((void)(*(at) = (value) < *(at) ? (value) : *(at)))
#define ADD_ONE(at)       ((void)++*(at))
#define IS_FINITE(x)      isfinite(x)

static inline float f32_of_f16(uint16_t bits) {
    return f32_from_f16(bits);
}
static inline float f32_of_bf16(uint16_t bits) {
    return f32_from_bits((uint32_t)bits << 16);
}
static inline uint16_t f16_of_f32(float value) {
    return f16_from_f32(value);
}
static inline uint16_t bf16_of_f32(float value) {
    return bf16_from_f32(value);
}

/* Shared memory is set by thread 0 between two barriers, which gcc cannot see. */
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "engine/cuda/engine_kernels.cu"

#include "engine/cuda/cuda_machine.h" /* their names */

void fake__dnn_kernels(void) {
    const fake_cuda *fake = fake_driver();
#define ITER_X(name) fake->kernel(#name, twin_of_##name);
    ENGINE_KERNELS(ITER_X)
#undef ITER_X
}
