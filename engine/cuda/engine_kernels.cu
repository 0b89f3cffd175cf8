/*
 * engine_kernels.cu - the trainer's own kernels, used with those of cuDNN and cuBLAS.
 *
 * The file is also valid C: a block is a loop over its threads, split at each barrier (MEET), and
 * what a thread keeps across a barrier is in shared memory. So tests run the same lines without a
 * GPU. Compiled in advance by
 *
 *     nvcc -arch=compute_80 -ptx -fmad=false engine_kernels.cu
 *
 * and marked for PTX 8.0 (tests/check_ptx.sh) as engine_kernels.ptx, which the library embeds. The
 * order of every sum depends only on the shapes, so runs give the same bits. It is one file because
 * the library loads one module, and its kernels share the helpers for types, lanes and trees below.
 */
#include "engine/cuda/kernel_args.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KERNEL(name, type) \
    extern "C" __global__ void __launch_bounds__(ENGINE_BLOCK) name(const type a)
#define THREADS           for (int t = (int)threadIdx.x, once = 1; once; once = 0)
#define MEET              __syncthreads()
#define SHARED            __shared__
#define BLOCK_NUMBER      ((int64_t)blockIdx.x)
#define DEVICE            static __device__ __forceinline__
#define MIN_OF(at, value) atomicMin((at), (value))
#define ADD_ONE(at)       atomicAdd((at), 1)
#define IS_FINITE(x)      isfinite(x)
DEVICE float f32_of_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}
DEVICE float f32_of_bf16(uint16_t bits) {
    return __uint_as_float((unsigned)bits << 16);
}
DEVICE uint16_t f16_of_f32(float value) {
    return __half_as_ushort(__float2half_rn(value));
}
DEVICE uint16_t bf16_of_f32(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#else
#define UNROLL
#define ROLLED
#endif

/* A tree over the block: runs `body` for pairs t and t + w, down to `least` of them. */
#define HALVE(least, body)                                 \
    for (int w = ENGINE_BLOCK / 2; w >= (least); w /= 2) { \
        THREADS {                                          \
            if (t < w) body                                \
        }                                                  \
        MEET;                                              \
    }

#define AT(type, address) ((type *)(uintptr_t)(address))

/* Index of an element in a grid over n < 2^32 of them. 32-bit divisions take a fraction of the time
 * of 64-bit ones. */
#define ELEMENT ((uint32_t)(BLOCK_NUMBER * ENGINE_BLOCK + t))

/* The two types of 16 bits. */
DEVICE float f32_of_narrow(uint16_t bits, int type) {
    return type == ENGINE_F16 ? f32_of_f16(bits) : f32_of_bf16(bits);
}

DEVICE uint16_t narrow_of_f32(float value, int type) {
    return type == ENGINE_F16 ? f16_of_f32(value) : bf16_of_f32(value);
}

DEVICE float get(engine_address base, int64_t i, int type) {
    return type == ENGINE_F32 ? AT(const float, base)[i]
                              : f32_of_narrow(AT(const uint16_t, base)[i], type);
}

DEVICE void put(engine_address base, int64_t i, float value, int type) {
    if (type == ENGINE_F32)
        AT(float, base)[i] = value;
    else
        AT(uint16_t, base)[i] = narrow_of_f32(value, type);
}

/* Elements of a thread that lie next to each other: a thread has 4 (ENGINE_LANES), by one access of
 * 16 or 8 bytes, or 1. */
#define OVER_LANES(k, lanes) \
    UNROLL for (int k = 0; k < ENGINE_LANES; k++) if (k < (lanes))

DEVICE void get_lanes(engine_address base, int64_t i, int type, int lanes, float out[]) {
#ifdef __CUDACC__
    if (lanes == ENGINE_LANES && type != ENGINE_F32) {
        const uint2 both = *AT(const uint2, base + 2 * i);
        out[0] = f32_of_narrow((uint16_t)both.x, type);
        out[1] = f32_of_narrow((uint16_t)(both.x >> 16), type);
        out[2] = f32_of_narrow((uint16_t)both.y, type);
        out[3] = f32_of_narrow((uint16_t)(both.y >> 16), type);
        return;
    }
    if (lanes == ENGINE_LANES) {
        const float4 all = *AT(const float4, base + 4 * i);
        out[0] = all.x, out[1] = all.y, out[2] = all.z, out[3] = all.w;
        return;
    }
#endif
    for (int k = 0; k < lanes; k++)
        out[k] = get(base, i + k, type);
}

DEVICE void put_lanes(engine_address base, int64_t i, const float value[], int type, int lanes) {
#ifdef __CUDACC__
    if (lanes == ENGINE_LANES && type != ENGINE_F32) {
        uint2 both;
        both.x = narrow_of_f32(value[0], type) | (uint32_t)narrow_of_f32(value[1], type) << 16;
        both.y = narrow_of_f32(value[2], type) | (uint32_t)narrow_of_f32(value[3], type) << 16;
        *AT(uint2, base + 2 * i) = both;
        return;
    }
    if (lanes == ENGINE_LANES) {
        *AT(float4, base + 4 * i) = make_float4(value[0], value[1], value[2], value[3]);
        return;
    }
#endif
    for (int k = 0; k < lanes; k++)
        put(base, i + k, value[k], type);
}

DEVICE double number_at(engine_address base, int64_t i, int type) {
    switch (type) {
    case ENGINE_F16: return (double)f32_of_f16(AT(const uint16_t, base)[i]);
    case ENGINE_BF16: return (double)f32_of_bf16(AT(const uint16_t, base)[i]);
    case ENGINE_F64: return AT(const double, base)[i];
    case ENGINE_U8: return (double)AT(const uint8_t, base)[i];
    case ENGINE_I32: return (double)AT(const int32_t, base)[i];
    default: return (double)AT(const float, base)[i];
    }
}

DEVICE int64_t integer_at(engine_address base, int64_t i, int type) {
    switch (type) {
    case ENGINE_U8: return AT(const uint8_t, base)[i];
    case ENGINE_I32: return AT(const int32_t, base)[i];
    default: return AT(const int64_t, base)[i];
    }
}

/* ---- Numbers in, and elsewhere --------------------------------------------------------------- */

KERNEL(engine_copy, engine_copy_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < a.n) {
            const uint32_t d0 = (uint32_t)a.dims[0], d1 = (uint32_t)a.dims[1];
            const uint32_t d2 = (uint32_t)a.dims[2], line = i / d2, plane = line / d1;
            const int64_t z = i - line * d2, y = line - plane * d1;
            const int64_t x = plane % d0, row = plane / d0;
            const engine_source s = a.source ? *AT(const engine_source, a.source) : a.from;
            const int64_t from =
                row * s.row + x * s.strides[0] + y * s.strides[1] + z * s.strides[2];
            const int64_t to =
                row * a.to_row + x * a.to_strides[0] + y * a.to_strides[1] + z * a.to_strides[2];
            put(a.to, to, row < s.n_rows ? (float)number_at(s.at, from, a.from_type) : 0,
                a.to_type);
        }
    }
}

/* Number i of a row of ids, or of labels. */
DEVICE int64_t integer_of(const engine_source *from, int64_t row, int64_t i, int type) {
    return integer_at(from->at, row * from->row + i * from->strides[2], type);
}

KERNEL(engine_ids, engine_ids_args) {
    const engine_source *ids = &AT(const engine_step, a.step)->data;
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < (int64_t)a.steps * a.rows) {
            const int64_t row = i % (uint32_t)a.rows, step = i / (uint32_t)a.rows;
            int64_t id = row < ids->n_rows ? integer_of(ids, row, step, a.type) : 0;
            if (id < 0 || id >= a.limit) {
                MIN_OF(&AT(engine_tally, a.tally)->bad_id,
                       (unsigned long long)row << 32 | (unsigned long long)step);
                id = 0;
            }
            AT(int32_t, a.to)[i] = (int32_t)id;
        }
    }
}

/* ---- Bias, activation, dropout --------------------------------------------------------------- */

/* One round of Philox 4x32: two products, two keys. */
DEVICE void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
    const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(q >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)q;
    c[2] = (uint32_t)(p >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)p;
}

/* Dropout's numbers of eight places of a row (engine/net.h); kept from lane to lane. */
typedef struct kept_eight {
    int64_t eight; /* -1 = none yet */
    uint32_t words[4];
} kept_eight;

DEVICE int is_kept(const engine_map_args *a, int64_t row, int64_t place, kept_eight *of) {
    if (of->eight != place / 8) {
        const engine_step *step = AT(const engine_step, a->step);
        uint32_t k0 = a->key[0], k1 = a->key[1];
        of->eight = place / 8;
        of->words[0] = (uint32_t)(place / 8);
        of->words[1] = (uint32_t)row + step->first_row;
        of->words[2] = step->words[0];
        of->words[3] = step->words[1];
        ROLLED for (int i = 0; i < 10; i++) {
            philox_round(of->words, k0, k1);
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
    }
    const uint32_t low = place & 2 ? of->words[1] : of->words[0];
    const uint32_t high = place & 2 ? of->words[3] : of->words[2];
    const uint32_t word = place & 4 ? high : low;
    return (place % 2 ? word >> 16 : word & 0xffffu) >= a->threshold;
}

/* The first of a thread's elements: its row, channel and place; and how far the next lane is. */
typedef struct map_place {
    int64_t row, place;
    int32_t channel, channel_step, place_step;
} map_place;

DEVICE map_place map_place_of(const engine_map_args *a, uint32_t i) {
    const uint32_t line = i / (uint32_t)a->c, x = line / (uint32_t)a->b;
    const int32_t z = (int32_t)(i - line * (uint32_t)a->c),
                  y = (int32_t)(line - x * (uint32_t)a->b);
    map_place p;
    const int planes = a->order == ENGINE_NCHW;
    p.row = a->order == ENGINE_TNF ? y : (int64_t)x;
    p.channel = planes ? y : z;
    p.channel_step = !planes;
    p.place = planes                    ? (int64_t)z * a->block + y
              : a->order == ENGINE_NHWC ? (int64_t)y * a->block + z
                                        : (int64_t)x * a->c + z;
    p.place_step = planes ? a->block : 1;
    return p;
}

DEVICE float activate(float x, int activation) {
    switch (activation) {
    case ENGINE_ACT_RELU: return x <= 0 ? 0 : x; /* NaN stays NaN */
    case ENGINE_ACT_TANH: return tanhf(x);
    case ENGINE_ACT_SIGMOID: return 1 / (1 + expf(-x));
    default: return x;
    }
}

/* The derivative, as a function of the output. */
DEVICE float slope(float y, int activation) {
    switch (activation) {
    case ENGINE_ACT_RELU: return y > 0 ? 1 : 0;
    case ENGINE_ACT_TANH: return 1 - y * y;
    case ENGINE_ACT_SIGMOID: return y * (1 - y);
    default: return 1;
    }
}

KERNEL(engine_map, engine_map_args) {
    THREADS {
        const uint32_t i = ELEMENT * (uint32_t)a.lanes;
        if (i < a.n) {
            const map_place p = map_place_of(&a, i);
            kept_eight kept = {-1, {0, 0, 0, 0}};
            float value[ENGINE_LANES];
            get_lanes(a.in, i, a.type, a.lanes, value);
            OVER_LANES(k, a.lanes) {
                const int channel = p.channel + k * p.channel_step;
                float x = value[k];
                if (a.bias && channel < a.channels) x += AT(const float, a.bias)[channel];
                x = activate(x, a.activation);
                if (a.drops)
                    x = is_kept(&a, p.row, p.place + k * p.place_step, &kept) ? x * a.scale : 0;
                value[k] = channel < a.channels ? x : 0;
            }
            put_lanes(a.out, i, value, a.type, a.lanes);
        }
    }
}

/* `in` is the gradient of the output, `out` the output; the result goes to `gradient`. */
KERNEL(engine_map_back, engine_map_args) {
    THREADS {
        const uint32_t i = ELEMENT * (uint32_t)a.lanes;
        if (i < a.n) {
            const map_place p = map_place_of(&a, i);
            kept_eight kept = {-1, {0, 0, 0, 0}};
            float value[ENGINE_LANES], after[ENGINE_LANES] = {0};
            get_lanes(a.in, i, a.type, a.lanes, value);
            if (a.activation != ENGINE_AS_IT_IS) get_lanes(a.out, i, a.type, a.lanes, after);
            OVER_LANES(k, a.lanes) {
                float d = value[k], y = after[k];
                if (a.drops) {
                    d = is_kept(&a, p.row, p.place + k * p.place_step, &kept) ? d * a.scale : 0;
                    y /= a.scale;
                }
                if (a.activation == ENGINE_ACT_RELU)
                    d = y > 0 ? d : 0;
                else
                    d *= slope(y, a.activation);
                value[k] = p.channel + k * p.channel_step < a.channels ? d : 0;
            }
            put_lanes(a.gradient, i, value, a.type, a.lanes);
        }
    }
}

/* ---- Pooling: the first of the largest, or NaN; or the mean of the pixels inside the image --- */

typedef struct pool_place {
    uint32_t image, c, y, x; /* image: n if channels come last, else n * channels + c */
} pool_place;

DEVICE pool_place pool_place_of(const engine_pool_args *a, uint32_t i, int height, int width) {
    const uint32_t channels = a->order == ENGINE_NHWC ? (uint32_t)a->channels : 1;
    const uint32_t pixel = i / channels, line = pixel / (uint32_t)width;
    const uint32_t image = line / (uint32_t)height;
    pool_place p;
    p.c = i - pixel * channels;
    p.x = pixel - line * (uint32_t)width;
    p.y = line - image * (uint32_t)height;
    p.image = image;
    return p;
}

DEVICE uint32_t pool_index(const engine_pool_args *a, const pool_place *p, int y, int x, int height,
                           int width) {
    const uint32_t channels = a->order == ENGINE_NHWC ? (uint32_t)a->channels : 1;
    return ((p->image * (uint32_t)height + (uint32_t)y) * (uint32_t)width + (uint32_t)x) *
               channels +
           p->c;
}

/* For each lane, index y * width + x of the largest pixel of window (y, x), and its value. */
DEVICE void largest_of(const engine_pool_args *a, const pool_place *p, int oy, int ox, int lanes,
                       int best[], float most[]) {
    const int top = oy * a->stride - a->pad, left = ox * a->stride - a->pad;
    OVER_LANES(k, lanes) {
        best[k] = -1;
        most[k] = 0;
    }
    for (int y = top < 0 ? 0 : top; y < top + a->size && y < a->height; y++)
        for (int x = left < 0 ? 0 : left; x < left + a->size && x < a->width; x++) {
            float value[ENGINE_LANES];
            get_lanes(a->in, pool_index(a, p, y, x, a->height, a->width), a->type, lanes, value);
            OVER_LANES(k, lanes) {
                if (best[k] < 0 || value[k] > most[k] || value[k] != value[k]) {
                    best[k] = y * a->width + x;
                    most[k] = value[k];
                }
            }
        }
}

/* How many pixels of window (oy, ox) are inside the image. */
DEVICE float pixels_of(const engine_pool_args *a, int oy, int ox) {
    const int top = oy * a->stride - a->pad, left = ox * a->stride - a->pad;
    const int bottom = top + a->size < a->height ? top + a->size : a->height;
    const int right = left + a->size < a->width ? left + a->size : a->width;
    return (float)((bottom - (top < 0 ? 0 : top)) * (right - (left < 0 ? 0 : left)));
}

DEVICE void mean_of(const engine_pool_args *a, const pool_place *p, int lanes, float mean[]) {
    const int top = (int)p->y * a->stride - a->pad, left = (int)p->x * a->stride - a->pad;
    const float n = pixels_of(a, (int)p->y, (int)p->x);
    OVER_LANES(k, lanes) mean[k] = 0;
    for (int y = top < 0 ? 0 : top; y < top + a->size && y < a->height; y++)
        for (int x = left < 0 ? 0 : left; x < left + a->size && x < a->width; x++) {
            float value[ENGINE_LANES];
            get_lanes(a->in, pool_index(a, p, y, x, a->height, a->width), a->type, lanes, value);
            OVER_LANES(k, lanes) mean[k] += value[k];
        }
    OVER_LANES(k, lanes) mean[k] /= n;
}

KERNEL(engine_pool, engine_pool_args) {
    THREADS {
        const uint32_t i = ELEMENT * (uint32_t)a.lanes;
        if (i < a.n) {
            const pool_place p = pool_place_of(&a, i, a.out_height, a.out_width);
            int best[ENGINE_LANES];
            float value[ENGINE_LANES];
            if (a.mean)
                mean_of(&a, &p, a.lanes, value);
            else
                largest_of(&a, &p, (int)p.y, (int)p.x, a.lanes, best, value);
            put_lanes(a.out, i, value, a.type, a.lanes);
        }
    }
}

/* Windows that overlap: each pixel looks at those that contain it. */
KERNEL(engine_pool_back, engine_pool_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < a.n) {
            const pool_place p = pool_place_of(&a, i, a.height, a.width);
            const int y = (int)p.y + a.pad, x = (int)p.x + a.pad;
            const int top = y < a.size ? 0 : (y - a.size) / a.stride + 1;
            const int left = x < a.size ? 0 : (x - a.size) / a.stride + 1;
            float sum = 0;
            for (int oy = top; oy <= y / a.stride && oy < a.out_height; oy++)
                for (int ox = left; ox <= x / a.stride && ox < a.out_width; ox++) {
                    int best[ENGINE_LANES];
                    float most[ENGINE_LANES];
                    if (!a.mean) largest_of(&a, &p, oy, ox, 1, best, most);
                    if (a.mean || best[0] == (int)p.y * a.width + (int)p.x)
                        sum += get(a.d_out, pool_index(&a, &p, oy, ox, a.out_height, a.out_width),
                                   a.type) /
                               (a.mean ? pixels_of(&a, oy, ox) : 1);
                }
            put(a.d_in, i, sum, a.type);
        }
    }
}

/* Windows next to each other: each output gives its gradient to one pixel of its window and zero to
 * the others, or equal shares to all. The last ones also write what no window covers. */
KERNEL(engine_pool_back_apart, engine_pool_args) {
    THREADS {
        const uint32_t i = ELEMENT * (uint32_t)a.lanes;
        if (i < a.n) {
            const pool_place p = pool_place_of(&a, i, a.out_height, a.out_width);
            const int top = (int)p.y * a.size, left = (int)p.x * a.size;
            const int bottom = (int)p.y == a.out_height - 1 ? a.height : top + a.size;
            const int right = (int)p.x == a.out_width - 1 ? a.width : left + a.size;
            int best[ENGINE_LANES];
            float most[ENGINE_LANES], d[ENGINE_LANES];
            if (!a.mean) largest_of(&a, &p, (int)p.y, (int)p.x, a.lanes, best, most);
            get_lanes(a.d_out, i, a.type, a.lanes, d);
            OVER_LANES(k, a.lanes) d[k] /= a.mean ? (float)(a.size * a.size) : 1;
            for (int y = top; y < bottom; y++)
                for (int x = left; x < right; x++) {
                    float value[ENGINE_LANES];
                    const int inside = y < top + a.size && x < left + a.size;
                    OVER_LANES(k, a.lanes) {
                        const int has = a.mean ? inside : best[k] == y * a.width + x;
                        value[k] = has ? d[k] : 0;
                    }
                    put_lanes(a.d_in, pool_index(&a, &p, y, x, a.height, a.width), value, a.type,
                              a.lanes);
                }
        }
    }
}

/* ---- Sums over rows: biases ------------------------------------------------------------------ */

/* One block per channel and chunk, for channels whose numbers are contiguous. */
KERNEL(engine_sums_inner, engine_sums_args) {
    SHARED float sums[ENGINE_BLOCK];
    const int64_t channel = BLOCK_NUMBER % a.channels, chunk = BLOCK_NUMBER / a.channels;
    const int64_t n = a.outer * a.inner;
    const int64_t begin = n * chunk / a.chunks, end = n * (chunk + 1) / a.chunks;
    THREADS {
        float sum = 0;
        for (int64_t e = begin + t; e < end; e += ENGINE_BLOCK) {
            const uint32_t row = (uint32_t)e / (uint32_t)a.inner;
            sum += get(a.in, (row * (a.channels - 1ll) + channel) * a.inner + e, a.type);
        }
        sums[t] = sum;
    }
    MEET;
    HALVE(1, { sums[t] += sums[t + w]; })
    THREADS {
        if (t == 0) AT(float, a.partial)[chunk * a.channels + channel] = sums[0];
    }
}

/* One block per 32 channels and chunk, for channels next to each other. */
KERNEL(engine_sums_outer, engine_sums_args) {
    SHARED float sums[ENGINE_BLOCK];
    const int64_t groups = (a.channels + 31) / 32;
    const int64_t group = BLOCK_NUMBER % groups, chunk = BLOCK_NUMBER / groups;
    const int64_t begin = a.outer * chunk / a.chunks, end = a.outer * (chunk + 1) / a.chunks;
    THREADS {
        const int64_t channel = group * 32 + t % 32;
        float sum = 0;
        if (channel < a.channels)
            for (int64_t row = begin + t / 32; row < end; row += ENGINE_BLOCK / 32)
                sum += get(a.in, row * a.channels + channel, a.type);
        sums[t] = sum;
    }
    MEET;
    HALVE(32, { sums[t] += sums[t + w]; })
    THREADS {
        if (t < 32 && group * 32 + t < a.channels)
            AT(float, a.partial)[chunk * a.channels + group * 32 + t] = sums[t];
    }
}

KERNEL(engine_sums_end, engine_sums_args) {
    THREADS {
        const uint32_t channel = ELEMENT;
        if (channel < (uint32_t)a.n_out) {
            float sum = 0;
            for (int chunk = 0; chunk < a.chunks; chunk++)
                sum += AT(const float, a.partial)[(int64_t)chunk * a.channels + channel];
            AT(float, a.out)[channel] = sum;
        }
    }
}

/* ---- Embedding and steps --------------------------------------------------------------------- */

KERNEL(engine_embedding, engine_embedding_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < (int64_t)a.positions * a.units) {
            const uint32_t position = i / (uint32_t)a.units;
            const int64_t id = AT(const int32_t, a.ids)[position],
                          u = i - position * (uint32_t)a.units;
            put(a.values, i, AT(const float, a.weight)[id * a.units + u], a.type);
        }
    }
}

/* Finds the first position of each id, and its count: integers, so the order does not matter. */
KERNEL(engine_embedding_find, engine_embedding_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < (uint32_t)a.positions) {
            const int32_t id = AT(const int32_t, a.ids)[i];
            MIN_OF(AT(int32_t, a.first) + id, (int32_t)i);
            ADD_ONE(AT(int32_t, a.count) + id);
        }
    }
}

#define TILE 2048 /* positions searched at a time */
#define MINE (TILE / ENGINE_BLOCK)

/* One block per position. The block at the first position of an id sums all others, in their order.
 * The gradient must be zeroed before. */
KERNEL(engine_embedding_back, engine_embedding_args) {
    SHARED int32_t counts[ENGINE_BLOCK], list[TILE], n_found;
    const int64_t position = BLOCK_NUMBER;
    const int32_t *ids = AT(const int32_t, a.ids);
    const int32_t id = ids[position];
    if (AT(const int32_t, a.first)[id] != position) return;
    const int32_t n = AT(const int32_t, a.count)[id];
    int32_t n_before = 0;
    for (int64_t tile = position; n_before < n && tile < a.positions; tile += TILE) {
        THREADS {
            int32_t found = 0;
            for (int64_t i = tile + t * MINE; i < tile + (t + 1) * MINE && i < a.positions; i++)
                found += ids[i] == id;
            counts[t] = found;
        }
        MEET;
        THREADS {
            if (t == 0) {
                int32_t sum = 0;
                for (int i = 0; i < ENGINE_BLOCK; i++) {
                    const int32_t found = counts[i];
                    counts[i] = sum;
                    sum += found;
                }
                n_found = sum;
            }
        }
        MEET;
        THREADS {
            int32_t at = counts[t];
            for (int64_t i = tile + t * MINE; i < tile + (t + 1) * MINE && i < a.positions; i++)
                if (ids[i] == id) list[at++] = (int32_t)i;
        }
        MEET;
        THREADS {
            for (int64_t u = t; u < a.units; u += ENGINE_BLOCK) {
                float *to = AT(float, a.gradient) + (int64_t)id * a.units + u;
                double sum = (double)*to;
                for (int32_t i = 0; i < n_found; i++)
                    sum += (double)get(a.values, (int64_t)list[i] * a.units + u, a.type);
                *to = (float)sum;
            }
        }
        n_before += n_found;
        MEET;
    }
}

KERNEL(engine_steps_mean, engine_steps_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < a.n) {
            double sum = 0;
            for (int step = 0; step < a.steps; step++)
                sum += (double)get(a.in, step * a.n + i, a.type);
            put(a.out, i, (float)(sum / a.steps), a.type);
        }
    }
}

/* Distributes in [rows * features] to [steps, rows * features]. */
KERNEL(engine_steps_back, engine_steps_args) {
    THREADS {
        const uint32_t i = ELEMENT;
        if (i < a.n * a.steps) {
            float d = 0;
            if (!a.last)
                d = get(a.in, i % (uint32_t)a.n, a.type) / (float)a.steps;
            else if (i / (uint32_t)a.n == (uint32_t)a.steps - 1)
                d = get(a.in, i % (uint32_t)a.n, a.type);
            put(a.out, i, d, a.type);
        }
    }
}

/* ---- Losses ---------------------------------------------------------------------------------- */

DEVICE int does_count(const engine_loss_args *a, int64_t row) {
    return (AT(const uint8_t, a->step) + sizeof(engine_step))[row];
}

/* Factor of all gradients: a mean over the rows that count, and f16's scale. */
DEVICE double share_of(const engine_loss_args *a) {
    const double scale = a->type == ENGINE_F16 ? (double)AT(const engine_tally, a->tally)->scale : 1;
    return AT(const engine_step, a->step)->share * scale;
}

DEVICE void put_gradient(const engine_loss_args *a, int64_t i, double value) {
    if (a->gradient) put(a->gradient, i, (float)value, a->type);
}

/* One block per row. */
KERNEL(engine_loss_classes, engine_loss_args) {
    SHARED float tops[ENGINE_BLOCK];
    SHARED int32_t places[ENGINE_BLOCK];
    SHARED double sums[ENGINE_BLOCK];
    const int64_t row = BLOCK_NUMBER, at = row * a.n;
    if (!does_count(&a, row)) {
        THREADS {
            for (int i = t; i < a.n; i += ENGINE_BLOCK)
                put_gradient(&a, at + i, 0);
            if (t == 0) {
                AT(double, a.losses)[row] = 0;
                AT(int32_t, a.correct)[row] = 0;
            }
        }
        return;
    }
    int64_t label = integer_of(&AT(const engine_step, a.step)->label, row, 0, a.label_type);
    const int bad = label < 0 || label >= a.n;
    if (bad) label = 0;
    THREADS {
        float top = -INFINITY;
        int32_t place = a.n;
        for (int i = t; i < a.n; i += ENGINE_BLOCK) {
            const float x = get(a.outputs, at + i, a.type);
            if (x > top || place == a.n) {
                place = i;
                top = x > top ? x : top;
            }
        }
        tops[t] = top;
        places[t] = place;
    }
    MEET;
    for (int w = ENGINE_BLOCK / 2; w > 0; w /= 2) {
        THREADS {
            if (t < w &&
                (tops[t + w] > tops[t] || (tops[t + w] == tops[t] && places[t + w] < places[t]))) {
                tops[t] = tops[t + w];
                places[t] = places[t + w];
            }
        }
        MEET;
    }
    THREADS {
        double sum = 0;
        for (int i = t; i < a.n; i += ENGINE_BLOCK)
            sum += exp((double)get(a.outputs, at + i, a.type) - (double)tops[0]);
        sums[t] = sum;
    }
    MEET;
    HALVE(1, { sums[t] += sums[t + w]; })
    const double share = share_of(&a);
    THREADS {
        for (int i = t; i < a.n && a.gradient; i += ENGINE_BLOCK)
            put_gradient(&a, at + i,
                         (exp((double)get(a.outputs, at + i, a.type) - (double)tops[0]) / sums[0] -
                          (i == label ? 1 : 0)) *
                             share);
        if (t == 0) {
            AT(double, a.losses)
            [row] = log(sums[0]) + (double)tops[0] - (double)get(a.outputs, at + label, a.type);
            AT(int32_t, a.correct)[row] = places[0] == label;
            if (bad) MIN_OF(&AT(engine_tally, a.tally)->bad_label, (unsigned long long)row);
        }
    }
}

KERNEL(engine_loss_squares, engine_loss_args) {
    SHARED double sums[ENGINE_BLOCK];
    const int64_t row = BLOCK_NUMBER, at = row * a.n;
    const int counts = does_count(&a, row);
    const double share = share_of(&a);
    const engine_source label = AT(const engine_step, a.step)->label;
    THREADS {
        double sum = 0;
        ROLLED for (int i = t; i < a.n; i += ENGINE_BLOCK) {
            double d = 0;
            if (counts)
                d = (double)get(a.outputs, at + i, a.type) -
                    number_at(label.at, row * label.row + i * label.strides[2], a.label_type);
            sum += d * d;
            put_gradient(&a, at + i, counts ? 2 * (double)a.factor * d / a.n * share : 0);
        }
        sums[t] = sum;
    }
    MEET;
    HALVE(1, { sums[t] += sums[t + w]; })
    THREADS {
        if (t == 0) {
            AT(double, a.losses)[row] = counts ? (double)a.factor * sums[0] / a.n : 0;
            AT(int32_t, a.correct)[row] = 0;
        }
    }
}

/* Finds what was wrong with the current run, if anything. */
DEVICE uint32_t find_failure(const engine_loss_args *a, engine_tally *tally, double loss) {
    const engine_step *step = AT(const engine_step, a->step);
    if (a->has_ids && tally->bad_id != ENGINE_NO_PLACE) {
        tally->row = (int32_t)(tally->bad_id >> 32);
        tally->place = (int32_t)(tally->bad_id & 0xffffffffu);
        tally->value = integer_of(&step->data, tally->row, tally->place, a->id_type);
        return ENGINE_BAD_ID;
    }
    if (tally->bad_label != ENGINE_NO_PLACE) {
        tally->row = (int32_t)tally->bad_label;
        tally->value = integer_of(&step->label, tally->row, 0, a->label_type);
        return ENGINE_BAD_LABEL;
    }
    if (IS_FINITE(loss)) return ENGINE_FINE;
    tally->bad_loss = loss;
    return ENGINE_BAD_LOSS;
}

/* One block: sums the rows' losses in order, and decides whether the run may update. */
KERNEL(engine_loss_end, engine_loss_args) {
    SHARED double sums[ENGINE_BLOCK];
    SHARED int32_t correct[ENGINE_BLOCK];
    THREADS {
        double sum = 0;
        int32_t n = 0;
        for (int row = t; row < a.rows; row += ENGINE_BLOCK) {
            sum += AT(const double, a.losses)[row];
            n += AT(const int32_t, a.correct)[row];
        }
        sums[t] = sum;
        correct[t] = n;
    }
    MEET;
    HALVE(1, {
        sums[t] += sums[t + w];
        correct[t] += correct[t + w];
    })
    THREADS {
        if (t == 0) {
            engine_tally *tally = AT(engine_tally, a.tally);
            const engine_step *step = AT(const engine_step, a.step);
            if (tally->failure == ENGINE_FINE) {
                tally->failure = find_failure(&a, tally, sums[0]);
                tally->failed_run = step->run;
                if (tally->failure == ENGINE_FINE) {
                    tally->loss_sum += sums[0];
                    tally->n_correct += (uint64_t)correct[0];
                    tally->n_runs++;
                }
            }
            tally->used = tally->scale;
            tally->go = tally->failure == ENGINE_FINE && step->updates;
            tally->bad_id = ENGINE_NO_PLACE;
            tally->bad_label = ENGINE_NO_PLACE;
        }
    }
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Position of number i of a piece in the libraries' layout. */
DEVICE int64_t piece_place(const engine_piece *p, int64_t i) {
    if (p->plain) return i;
    const uint32_t d0 = (uint32_t)p->dims[0], d1 = (uint32_t)p->dims[1], d2 = (uint32_t)p->dims[2];
    const uint32_t line = (uint32_t)i / d2, plane = line / d1;
    const int64_t r = (uint32_t)i - line * d2, q = line - plane * d1, s = plane % d0,
                  o = plane / d0;
    return o * p->strides[0] + s * p->strides[1] + q * p->strides[2] + r * p->strides[3];
}

/* The step's rate: Adam's includes its corrections. `scale` is f16's. */
DEVICE void update(const engine_params_args *a, const engine_piece *p, int64_t i, float rate,
                   float scale) {
    const int64_t at = (int64_t)p->first + i, place = piece_place(p, i);
    float *weight = AT(float, a->weights) + at, w = *weight;
    float g = get(p->gradient, place, p->gradient_type);
    if (a->scaled) g /= scale;
    if (p->decays) g += a->decay * w;
    if (a->mode == ENGINE_PARAMS_ADAM) {
        float *first = AT(float, a->first) + at, *second = AT(float, a->second) + at;
        const float m = a->beta1 * *first + a->rest1 * g;
        const float v = a->beta2 * *second + a->rest2 * g * g;
        *first = m;
        *second = v;
        w -= rate * m / (sqrtf(v) + a->epsilon);
    } else {
        float m = -rate * g;
        if (a->first) {
            m += a->momentum * AT(const float, a->first)[at];
            AT(float, a->first)[at] = m;
        }
        w += m;
    }
    *weight = w;
    if (p->compute) put(p->compute, place, w, p->compute_type);
}

/* One block per chunk of a piece. */
KERNEL(engine_params, engine_params_args) {
    /* Copies: what the stores below may change would be loaded again for every number. */
    const engine_chunk chunk = AT(const engine_chunk, a.chunks)[BLOCK_NUMBER];
    const engine_piece piece = AT(const engine_piece, a.pieces)[chunk.piece], *p = &piece;
    const engine_step *step = AT(const engine_step, a.step);
    engine_tally *tally = AT(engine_tally, a.tally);
    const int updates = a.mode == ENGINE_PARAMS_SGD || a.mode == ENGINE_PARAMS_ADAM;
    if (updates && (!tally->go || tally->overflow)) return;
    const float scale = tally->scale, rate = a.mode == ENGINE_PARAMS_ADAM ? step->rate : step->lr;
    THREADS {
        for (int k = t; k < ENGINE_CHUNK; k += ENGINE_BLOCK) {
            const int64_t i = (int64_t)chunk.first + k;
            if (i >= (int64_t)p->n) continue;
            if (updates) {
                update(&a, p, i, rate, scale);
            } else if (a.mode == ENGINE_PARAMS_SPREAD) {
                if (p->compute)
                    put(p->compute, piece_place(p, i),
                        AT(const float, a.weights)[(int64_t)p->first + i], p->compute_type);
            } else {
                const float g = get(p->gradient, piece_place(p, i), p->gradient_type);
                if (a.mode == ENGINE_PARAMS_GATHER) AT(float, a.out)
                [(int64_t)(p->first - a.out_first) + i] = a.scaled ? g / tally->used : g;
                else if (!IS_FINITE(g)) tally->overflow = 1;
            }
        }
    }
}

#define SCALE_MOST  65536.0f
#define SCALE_STEPS 2000 /* steps without an overflow before the scale is doubled */

/* f16: runs after an update, or after a skipped one. */
KERNEL(engine_scale, engine_params_args) {
    THREADS {
        engine_tally *tally = AT(engine_tally, a.tally);
        if (t == 0 && tally->go) {
            if (tally->overflow) {
                if (tally->scale > 1) tally->scale /= 2;
                tally->n_good = 0;
                tally->n_skipped++;
            } else if (++tally->n_good == SCALE_STEPS) {
                if (tally->scale < SCALE_MOST) tally->scale *= 2;
                tally->n_good = 0;
            }
        }
        if (t == 0) tally->overflow = 0;
    }
}

/* ---- Sums of gradients ----------------------------------------------------------------------- */

/* As iter__tree_add() and iter__tree_scale(), to the bit. */
KERNEL(engine_tree_add, engine_tree_args) {
    THREADS {
        const int64_t i = BLOCK_NUMBER * ENGINE_BLOCK + t;
        if (i < a.n) AT(float, a.to)[i] += a.from ? AT(const float, a.from)[i] : 0.0f;
    }
}

KERNEL(engine_tree_scale, engine_tree_args) {
    THREADS {
        const int64_t i = BLOCK_NUMBER * ENGINE_BLOCK + t;
        if (i < a.n) AT(float, a.to)[i] = (float)(AT(float, a.to)[i] * a.factor);
    }
}
