/*
 * kernel_threads.h - runs one of the project's .cu files on the host, compiled as C++ with this
 * file before it: a thread for each thread of a block, block after block.
 *
 * Defines the CUDA words that the kernels use. There is one copy of shared memory, as one block
 * runs at a time.
 */
#ifndef TESTS_FAKE_KERNEL_THREADS_H
#define TESTS_FAKE_KERNEL_THREADS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <vector>

#include "transforms/pack/half.h"

#define __device__
#define __global__
#define __shared__      static
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __grid_constant__

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct threads_of {
    uint32_t x, y, z;
};

static thread_local threads_of threadIdx, blockIdx;
static threads_of gridDim, blockDim;
static pthread_barrier_t *warps; /* of the block */

static inline uint2 make_uint2(uint32_t x, uint32_t y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline int32_t min(int32_t a, int32_t b) {
    return std::min(a, b);
}
static inline uint32_t min(uint32_t a, uint32_t b) {
    return std::min(a, b);
}
static inline int32_t max(int32_t a, int32_t b) {
    return std::max(a, b);
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __uint_as_float(uint32_t bits) {
    return f32_from_bits(bits);
}
static inline uint32_t __float2uint_rn(float x) {
    return !(x > 0) ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)std::nearbyint(x);
}
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= (uint32_t)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}
template <typename type> static inline type __ldg(const type *from) {
    return *from;
}
static inline uint32_t f16_pair(float first, float second) {
    return f16_from_f32(first) | (uint32_t)f16_from_f32(second) << 16;
}
static inline uint32_t bf16_pair(float first, float second) {
    return bf16_from_f32(first) | (uint32_t)bf16_from_f32(second) << 16;
}
static inline void __syncwarp() {
    pthread_barrier_wait(&warps[threadIdx.x / 32]);
}

/* Runs run() in every thread of every block. If threads never meet at a barrier, they run in
 * turn. */
template <typename function>
static void launch(threads_of grid, threads_of block, bool meets, function run) {
    const uint32_t n = block.x * block.y;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    std::vector<pthread_barrier_t> meeting(n / 32 + 2);
    gridDim = grid;
    blockDim = block;
    warps = meeting.data();
    for (uint32_t i = 0; i <= n / 32; i++)
        pthread_barrier_init(&meeting[i], nullptr, 32);
    pthread_barrier_init(&meeting[n / 32 + 1], nullptr, n);
    const auto run_thread = [&](uint32_t t, uint64_t b) {
        threadIdx = {t % block.x, t / block.x, 0};
        blockIdx = {(uint32_t)(b % grid.x), (uint32_t)(b / grid.x % grid.y),
                    (uint32_t)(b / grid.x / grid.y)};
        run();
    };
    for (uint64_t b = 0; b < blocks && !meets; b++)
        for (uint32_t t = 0; t < n; t++)
            run_thread(t, b);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < n && meets; t++)
        threads.emplace_back([&, t] {
            for (uint64_t b = 0; b < blocks; b++) {
                run_thread(t, b);
                pthread_barrier_wait(&meeting[n / 32 + 1]);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (pthread_barrier_t &barrier : meeting)
        pthread_barrier_destroy(&barrier);
}

#endif
