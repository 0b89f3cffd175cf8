/*
 * kernels.cu - finishes rows on the device: the fused pass over u8 images, and copies of rows.
 *
 * kernels.ptx is made from this file, with nvcc 13.0.88, in the root of the repository, by
 *
 *     nvcc -arch=compute_80 -fmad=false -I. -ptx iter/device/kernels.cu -o iter/device/kernels.ptx
 *
 * and then marked for PTX 8.0 instead of nvcc's own version, so that drivers for CUDA 12.0 accept
 * it. If that nvcc is installed, tests/check_ptx.sh repeats both. PTX for compute_80 runs on that
 * architecture and all newer ones.
 *
 * The fused pass. One thread computes 4 neighbouring output pixels of one line (a quad), in all 3
 * channels or in one plane. A quad's source is a range of bytes at any address, forwards or
 * backwards. The thread loads the aligned words around it, shifts them together, and reverses them
 * by byte permutations if needed. So no thread loads single bytes, and no branch depends on a
 * pixel. Words outside of the source image are replaced by its first or last word; their pixels are
 * outside too, and get the pad's value. A quad of 3 interleaved channels is 12 elements; a warp
 * passes them through shared memory, so that its stores are whole lines. A warp stays within one
 * row (one image), so all its threads have the same geometry, and loop over cutouts together.
 *
 * Numbers. x * a + b is one rounded multiply and one rounded add, as on the host: never fused. A
 * byte becomes a float by placing it in the mantissa of 2^23 and subtracting 2^23: exact, and
 * cheaper than a conversion.
 */
#include "iter/device/cuda_kernels.h"

#define WARPS       (ITER_PACK_THREADS / 32)
#define QUAD        ITER_PACK_QUAD
#define STAGE_WORDS (32 * QUAD * 3) /* for one warp; an element has at most 4 bytes */

/* ---- Elements -------------------------------------------------------------------------------- */

/* Byte k of a word, times a, plus b. */
template <int k> __device__ __forceinline__ float value_of(uint32_t word, float a, float b) {
    const float x = __fadd_rn(__uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + k)), -8388608.0f);
    return __fadd_rn(__fmul_rn(x, a), b);
}

/* Rounds to nearest even; clamps to 0 .. 255. */
__device__ __forceinline__ uint32_t u8_of(float x) {
    return min(__float2uint_rn(x), 255u);
}

/* else declared in tests/fake/kernel_threads.h, which runs this file without a GPU */
#ifdef __CUDACC__
__device__ __forceinline__ uint32_t f16_pair(float first, float second) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ uint32_t bf16_pair(float first, float second) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

#endif

__device__ __forceinline__ uint32_t pair_of(int dtype, float first, float second) {
    return dtype == ITER_F16 ? f16_pair(first, second) : bf16_pair(first, second);
}

__device__ __forceinline__ uint32_t bytes_of(const float *v) {
    return u8_of(v[0]) | u8_of(v[1]) << 8 | u8_of(v[2]) << 16 | u8_of(v[3]) << 24;
}

/* Stores four consecutive elements at a multiple of their size. */
__device__ __forceinline__ void store4(int dtype, char *to, uint64_t element, const float *v) {
    if (dtype == ITER_F32) {
        reinterpret_cast<float4 *>(to)[element / 4] = make_float4(v[0], v[1], v[2], v[3]);
    } else if (dtype == ITER_U8) {
        reinterpret_cast<uint32_t *>(to)[element / 4] = bytes_of(v);
    } else {
        reinterpret_cast<uint2 *>(to)[element / 4] =
            make_uint2(pair_of(dtype, v[0], v[1]), pair_of(dtype, v[2], v[3]));
    }
}

/* ---- One row: its source and its geometry ---------------------------------------------------- */

struct image {
    const iter__pack_row *row;
    const uint32_t *words; /* the source, from the word with its first byte */
    uint32_t first;        /* position of the first byte in that word */
    int32_t last;          /* index of the last word */
};

__device__ __forceinline__ image open_image(const iter__cuda_pack_args &call, uint64_t r) {
    const iter__pack_row *row = reinterpret_cast<const iter__pack_row *>(call.rows) + r;
    const uint64_t at = call.from + row->source * call.in_bytes;
    const uint32_t first = static_cast<uint32_t>(at & 3);
    return {row, reinterpret_cast<const uint32_t *>(at & ~static_cast<uint64_t>(3)), first,
            static_cast<int32_t>((first + call.in_bytes - 1) >> 2)};
}

/* Word i, or the nearest existing one. */
__device__ __forceinline__ uint32_t word_at(const image &image, int32_t i) {
    return __ldg(image.words + min(max(i, 0), image.last));
}

/* n words of bytes, starting at byte `at` counted from the first word. */
template <int n>
__device__ __forceinline__ void load(const image &image, uint32_t at, uint32_t *out) {
    const int32_t i = static_cast<int32_t>(at) >> 2;
    const uint32_t shift = (at & 3) * 8;
    uint32_t words[n + 1];
#pragma unroll
    for (int k = 0; k <= n; k++)
        words[k] = word_at(image, i + k);
#pragma unroll
    for (int k = 0; k < n; k++)
        out[k] = __funnelshift_r(words[k], words[k + 1], shift);
}

/* Bit j for each position x + j, j < 4, in [low, high); low <= high. */
__device__ __forceinline__ uint32_t bits_within(int32_t x, int32_t low, int32_t high) {
    return (15u << min(max(low - x, 0), 4)) & ~(15u << min(max(high - x, 0), 4));
}

struct quad {
    int32_t y, x;    /* of its first pixel, in the output */
    /* Index of the first of its source pixels in memory, modulo 2^32; undefined if no pixel is
     * inside. */
    uint32_t pixel;
    bool is_mirrored; /* that pixel is the last one of the output */
    uint32_t inside; /* bit j: pixel j has a source */
};

__device__ __forceinline__ quad open_quad(const iter__cuda_pack_args &call, const image &image,
                                          uint32_t number) {
    const iter__pack_row *row = image.row;
    quad q;
    q.y = static_cast<int32_t>(static_cast<uint64_t>(number) * call.line_factor >> call.line_shift);
    q.x = static_cast<int32_t>(number - q.y * call.line_quads) * QUAD;
    q.is_mirrored = row->x_step < 0;
    q.inside = q.y >= row->y_low && q.y < row->y_high ? bits_within(q.x, row->x_low, row->x_high) : 0;
    const uint32_t from_y = row->y_offset + row->y_step * q.y;
    const uint32_t from_x = q.is_mirrored ? row->x_offset - (q.x + QUAD - 1) : row->x_offset + q.x;
    q.pixel = from_y * call.program.in_width + from_x;
    return q;
}

/* Values for pixels without a source and for cutouts; v is [4][n], n neighbouring channels from c
 * on. */
template <int n>
__device__ __forceinline__ void fill(const iter__cuda_pack_args &call, const image &image, const quad &q,
                                     int c, float *v) {
    const iter__pack_row *row = image.row;
    const int pad = row->pad, n_cuts = row->n_cuts;
#pragma unroll
    for (int k = 0; k < n; k++) {
        const float value = pad < 0 ? 0.0f : call.program.fills[pad][c + k];
#pragma unroll
        for (int j = 0; j < QUAD; j++)
            v[j * n + k] = q.inside >> j & 1 ? v[j * n + k] : value;
    }
    for (int i = 0; i < n_cuts; i++) {
        const bool crosses = q.y >= row->cuts[i].y0 && q.y < row->cuts[i].y1;
        const uint32_t cut = crosses ? bits_within(q.x, row->cuts[i].x0, row->cuts[i].x1) : 0;
        const int number = row->cuts[i].fill;
#pragma unroll
        for (int k = 0; k < n; k++) {
            const float value = number < 0 ? 0.0f : call.program.fills[number][c + k];
#pragma unroll
            for (int j = 0; j < QUAD; j++)
                v[j * n + k] = cut >> j & 1 ? value : v[j * n + k];
        }
    }
}

/* ---- Quads of one plane ---------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_pack_planes(const __grid_constant__ iter__cuda_pack_args call) {
    const iter__pack_program &p = call.program;
    const uint32_t in_plane = p.in_height * p.in_width;
    for (uint64_t r = blockIdx.x; r < call.n_rows; r += gridDim.x) {
        const image image = open_image(call, r);
        char *to = reinterpret_cast<char *>(call.to + r * call.out_bytes);
        for (int c = blockIdx.z; c < p.channels; c += gridDim.z) {
            const float a = p.a[c], b = p.b[c];
            for (uint32_t number = blockIdx.y * ITER_PACK_THREADS + threadIdx.x;
                 number < call.n_quads; number += gridDim.y * ITER_PACK_THREADS) {
                const quad q = open_quad(call, image, number);
                uint32_t word;
                load<1>(image, image.first + c * in_plane + q.pixel, &word);
                word = q.is_mirrored ? __byte_perm(word, 0, 0x0123) : word;
                float v[QUAD] = {value_of<0>(word, a, b), value_of<1>(word, a, b),
                                 value_of<2>(word, a, b), value_of<3>(word, a, b)};
                fill<1>(call, image, q, c, v);
                store4(p.out_dtype, to, (static_cast<uint64_t>(c) * call.n_quads + number) * QUAD, v);
            }
        }
    }
}

/* ---- Quads of three channels ----------------------------------------------------------------- */

/* Three words from three planes: v[j][c]. */
__device__ __forceinline__ void quad_from_planes(const iter__cuda_pack_args &call, const image &image,
                                                 const quad &q, float *v) {
    const iter__pack_program &p = call.program;
    const uint32_t in_plane = p.in_height * p.in_width;
#pragma unroll
    for (int c = 0; c < 3; c++) {
        uint32_t word;
        load<1>(image, image.first + c * in_plane + q.pixel, &word);
        word = q.is_mirrored ? __byte_perm(word, 0, 0x0123) : word;
        v[0 + c] = value_of<0>(word, p.a[c], p.b[c]);
        v[3 + c] = value_of<1>(word, p.a[c], p.b[c]);
        v[6 + c] = value_of<2>(word, p.a[c], p.b[c]);
        v[9 + c] = value_of<3>(word, p.a[c], p.b[c]);
    }
}

/* Twelve bytes, three per pixel: v[j][c]. */
__device__ __forceinline__ void quad_from_hwc(const iter__cuda_pack_args &call, const image &image,
                                              const quad &q, float *v) {
    const iter__pack_program &p = call.program;
    uint32_t in[3], w[3];
    load<3>(image, image.first + 3 * q.pixel, in);
    if (q.is_mirrored) { /* bytes 9 10 11 6, 7 8 3 4, 5 0 1 2 */
        w[0] = __byte_perm(in[1], in[2], 0x2765);
        w[1] = __byte_perm(__byte_perm(in[1], in[2], 0x0043), in[0], 0x0710);
        w[1] = __byte_perm(w[1], in[1], 0x4210);
        w[2] = __byte_perm(in[0], in[1], 0x2105);
    } else {
        w[0] = in[0];
        w[1] = in[1];
        w[2] = in[2];
    }
    v[0] = value_of<0>(w[0], p.a[0], p.b[0]);
    v[1] = value_of<1>(w[0], p.a[1], p.b[1]);
    v[2] = value_of<2>(w[0], p.a[2], p.b[2]);
    v[3] = value_of<3>(w[0], p.a[0], p.b[0]);
    v[4] = value_of<0>(w[1], p.a[1], p.b[1]);
    v[5] = value_of<1>(w[1], p.a[2], p.b[2]);
    v[6] = value_of<2>(w[1], p.a[0], p.b[0]);
    v[7] = value_of<3>(w[1], p.a[1], p.b[1]);
    v[8] = value_of<0>(w[2], p.a[2], p.b[2]);
    v[9] = value_of<1>(w[2], p.a[0], p.b[0]);
    v[10] = value_of<2>(w[2], p.a[1], p.b[1]);
    v[11] = value_of<3>(w[2], p.a[2], p.b[2]);
}

/* Puts a thread's twelve elements where they belong in the warp's buffer; returns their size in
 * words. */
__device__ __forceinline__ uint32_t put_stage(int dtype, uint32_t *stage, uint32_t lane,
                                              const float *v) {
    if (dtype == ITER_F32) {
        float4 *to = reinterpret_cast<float4 *>(stage) + 3 * lane;
#pragma unroll
        for (int i = 0; i < 3; i++)
            to[i] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
        return 12;
    }
    if (dtype == ITER_U8) {
#pragma unroll
        for (int i = 0; i < 3; i++)
            stage[3 * lane + i] = bytes_of(v + 4 * i);
        return 3;
    }
    uint2 *to = reinterpret_cast<uint2 *>(stage) + 3 * lane;
#pragma unroll
    for (int i = 0; i < 3; i++)
        to[i] = make_uint2(pair_of(dtype, v[4 * i], v[4 * i + 1]),
                           pair_of(dtype, v[4 * i + 2], v[4 * i + 3]));
    return 6;
}

/* Stores a warp's quads, from quad `first` on, as contiguous elements where they belong in the row
 * at `to`. */
__device__ __forceinline__ void store_hwc(const iter__cuda_pack_args &call, char *to, uint32_t first,
                                          uint32_t lane, uint32_t *stage, const float *v) {
    const uint32_t words = put_stage(call.program.out_dtype, stage, lane, v);
    const uint32_t n = min(call.n_quads - first, 32u) * words;
    uint32_t *out = reinterpret_cast<uint32_t *>(to) + static_cast<uint64_t>(first) * words;
    __syncwarp();
    if (call.is_wide) {
        for (uint32_t i = lane; i < n / 4; i += 32)
            reinterpret_cast<uint4 *>(out)[i] = reinterpret_cast<const uint4 *>(stage)[i];
    } else {
        for (uint32_t i = lane; i < n; i += 32)
            out[i] = stage[i];
    }
    __syncwarp();
}

__device__ __forceinline__ void store_planes(const iter__cuda_pack_args &call, char *to, uint32_t number,
                                             const float *v) {
#pragma unroll
    for (int c = 0; c < 3; c++) {
        const float plane[QUAD] = {v[c], v[3 + c], v[6 + c], v[9 + c]};
        store4(call.program.out_dtype, to,
               (static_cast<uint64_t>(c) * call.n_quads + number) * QUAD, plane);
    }
}

template <bool from_hwc, bool to_hwc> __device__ __forceinline__ void pack3(const iter__cuda_pack_args &call) {
    __shared__ uint4 stages[to_hwc ? WARPS : 1][STAGE_WORDS / 4];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t *stage = reinterpret_cast<uint32_t *>(stages[to_hwc ? warp : 0]);
    for (uint64_t r = blockIdx.x; r < call.n_rows; r += gridDim.x) {
        const image image = open_image(call, r);
        char *to = reinterpret_cast<char *>(call.to + r * call.out_bytes);
        for (uint32_t first = (blockIdx.y * WARPS + warp) * 32; first < call.n_quads;
             first += gridDim.y * ITER_PACK_THREADS) {
            const uint32_t number = min(first + lane, call.n_quads - 1);
            const quad q = open_quad(call, image, number);
            float v[3 * QUAD];
            if (from_hwc)
                quad_from_hwc(call, image, q, v);
            else
                quad_from_planes(call, image, q, v);
            fill<3>(call, image, q, 0, v);
            if (to_hwc)
                store_hwc(call, to, first, lane, stage, v);
            else
                store_planes(call, to, number, v);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_pack_planes_to_hwc(const __grid_constant__ iter__cuda_pack_args call) {
    pack3<false, true>(call);
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_pack_hwc(const __grid_constant__ iter__cuda_pack_args call) {
    pack3<true, true>(call);
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_pack_hwc_to_planes(const __grid_constant__ iter__cuda_pack_args call) {
    pack3<true, false>(call);
}

/* ---- Any program, element by element --------------------------------------------------------- */

__device__ __forceinline__ float element_of(const iter__cuda_pack_args &call, const iter__pack_row *row,
                                            const uint8_t *in, int32_t y, int32_t x, int32_t c) {
    const iter__pack_program &p = call.program;
    const bool inside = y >= row->y_low && y < row->y_high && x >= row->x_low && x < row->x_high;
    int number = row->pad;
    bool is_filled = !inside;
    for (int i = 0; i < row->n_cuts; i++) {
        if (y < row->cuts[i].y0 || y >= row->cuts[i].y1) continue;
        if (x < row->cuts[i].x0 || x >= row->cuts[i].x1) continue;
        number = row->cuts[i].fill;
        is_filled = true;
    }
    if (is_filled) return number < 0 ? 0.0f : p.fills[number][c];
    const int32_t pixel =
        (row->y_offset + row->y_step * y) * p.in_width + row->x_offset + row->x_step * x;
    const int32_t at = p.in_hwc ? pixel * p.channels + c : c * (p.in_height * p.in_width) + pixel;
    return __fadd_rn(__fmul_rn(static_cast<float>(__ldg(in + at)), p.a[c]), p.b[c]);
}

__device__ __forceinline__ void store1(int dtype, char *to, uint32_t element, float v) {
    if (dtype == ITER_F32)
        reinterpret_cast<float *>(to)[element] = v;
    else if (dtype == ITER_U8)
        reinterpret_cast<uint8_t *>(to)[element] = static_cast<uint8_t>(u8_of(v));
    else
        reinterpret_cast<uint16_t *>(to)[element] =
            static_cast<uint16_t>(pair_of(dtype, v, 0.0f));
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_pack_any(const __grid_constant__ iter__cuda_pack_args call) {
    const iter__pack_program &p = call.program;
    const uint32_t channels = p.channels, width = p.out_width, plane = p.out_height * width;
    for (uint64_t r = blockIdx.x; r < call.n_rows; r += gridDim.x) {
        const iter__pack_row *row = reinterpret_cast<const iter__pack_row *>(call.rows) + r;
        const uint8_t *in =
            reinterpret_cast<const uint8_t *>(call.from + row->source * call.in_bytes);
        char *to = reinterpret_cast<char *>(call.to + r * call.out_bytes);
        for (uint32_t c = blockIdx.z; c < channels; c += gridDim.z) {
            for (uint32_t pixel = blockIdx.y * ITER_PACK_THREADS + threadIdx.x; pixel < plane;
                 pixel += gridDim.y * ITER_PACK_THREADS) {
                const uint32_t y = pixel / width;
                const float v = element_of(call, row, in, y, pixel - y * width, c);
                store1(p.out_dtype, to, p.out_hwc ? pixel * channels + c : c * plane + pixel, v);
            }
        }
    }
}

/* ---- Rows as they are ------------------------------------------------------------------------ */

template <typename unit> __device__ __forceinline__ void gather(const iter__cuda_gather_args &call) {
    const iter__pack_row *rows = reinterpret_cast<const iter__pack_row *>(call.rows);
    for (uint64_t r = static_cast<uint64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
         r < call.n_rows; r += static_cast<uint64_t>(gridDim.x) * blockDim.y) {
        const unit *from = reinterpret_cast<const unit *>(call.from) + rows[r].source * call.n_units;
        unit *to = reinterpret_cast<unit *>(call.to) + r * call.n_units;
        for (uint64_t i = static_cast<uint64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
             i < call.n_units; i += static_cast<uint64_t>(gridDim.y) * blockDim.x)
            to[i] = __ldg(from + i);
    }
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_gather_16(const __grid_constant__ iter__cuda_gather_args call) {
    gather<uint4>(call);
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_gather_4(const __grid_constant__ iter__cuda_gather_args call) {
    gather<uint32_t>(call);
}

extern "C" __global__ void __launch_bounds__(ITER_PACK_THREADS)
    iter_gather_1(const __grid_constant__ iter__cuda_gather_args call) {
    gather<uint8_t>(call);
}
