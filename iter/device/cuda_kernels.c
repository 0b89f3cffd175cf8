/*
 * cuda_kernels.c - loads the kernels, and launches them on the loader's stream.
 *
 * The kernels are PTX text, which the driver compiles for its device when they are loaded. A launch
 * is one call for any number of rows. The call copies its parameters; nothing is allocated.
 */
#include <assert.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/device/cuda_device.h"
#include "iter/device/cuda_kernels.h"

#define MIN_CAPABILITY 80 /* what the PTX was made for; newer devices run it */
#define GRID_X_MOST    0x7fffffffu
#define GRID_Y_MOST    65535u
#define QUAD_BITS      30 /* bits of a quad's number */

_Static_assert((int)ITER_KERNELS <= ITER_CUDA_FUNCTIONS, "more kernels than room for them");
_Static_assert(sizeof(iter__pack_row) == 88, "kernels read rows of 88 bytes");

extern const char iter__kernels_ptx[]; /* kernels.ptx, embedded by the build */

static const char *const names[ITER_KERNELS] = {
#define ITER_X(name) #name,
    ITER_CUDA_KERNELS(ITER_X)
#undef ITER_X
};

/* ---- Loading --------------------------------------------------------------------------------- */

static iter_status load_failed(iter__device *device, iter_error *err, CUresult result) {
    const char *why = NULL;
    switch (result) {
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        why = "the driver is too old for them: one for CUDA 12.0 is needed";
        break;
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        why = "the driver's compiler, libnvidia-ptxjitcompiler.so.1, is not installed";
        break;
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        why = "the driver may not compile: CUDA_DISABLE_PTX_JIT is set";
        break;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX: why = "the driver cannot compile them for this device"; break;
    default: return iter__cuda_failed(device, err, result, "cuModuleLoadDataEx of our kernels");
    }
    char text[160];
    return iter__fail(err, ITER_EUNSUPPORTED, "GPU %d (%s): our kernels: %s: %s", device->number,
                      device->text, why,
                      iter__cuda_text(&device->cuda, result, text, sizeof(text)));
}

static iter_status load(iter__device *device, iter_error *err) {
    CUmodule module = NULL;
    CUresult result = device->cuda.cuModuleLoadDataEx(&module, iter__kernels_ptx, 0, NULL, NULL);
    if (result != CUDA_SUCCESS) return load_failed(device, err, result);
    for (int i = 0; i < ITER_KERNELS; i++) {
        result = device->cuda.cuModuleGetFunction(&device->functions[i], module, names[i]);
        if (result == CUDA_SUCCESS) continue;
        device->cuda.cuModuleUnload(module);
        return iter__cuda_failed(device, err, result, "cuModuleGetFunction of %s", names[i]);
    }
    device->module = module;
    return ITER_OK;
}

iter_status iter__device_load(iter__device *device, iter_error *err) {
    iter__cuda_scope scope;
    if (device->module) return ITER_OK;
    if (device->capability < MIN_CAPABILITY)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "GPU %d (%s): our kernels need a device of sm_%d or newer",
                          device->number, device->text, MIN_CAPABILITY);
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const iter_status status = load(device, err);
    iter__cuda_leave(device, &scope);
    return status;
}

/* ---- Launching ------------------------------------------------------------------------------- */

static uint32_t smaller(uint64_t a, uint32_t b) {
    return a < b ? (uint32_t)a : b;
}

static iter_status launch(iter__device *device, int kernel, const uint32_t grid[3],
                          const uint32_t block[2], void *parameter, iter_error *err) {
    iter__cuda_scope scope;
    void *parameters[] = {parameter};
    assert(device->module);
    ITER_TRY(iter__cuda_enter(device, &scope, err));
    const CUresult result =
        device->cuda.cuLaunchKernel(device->functions[kernel], grid[0], grid[1], grid[2], block[0],
                                    block[1], 1, 0, device->stream, parameters, NULL);
    iter__cuda_leave(device, &scope);
    if (result == CUDA_SUCCESS) return ITER_OK;
    return iter__cuda_failed(device, err, result, "cuLaunchKernel of %s", names[kernel]);
}

/* The kernel for a program whose rows are written to `to`. */
static int kernel_for(const iter__pack_program *program, iter__device_address to) {
    const bool in_quads = program->out_width % ITER_PACK_QUAD == 0 && to % 16 == 0;
    if (!in_quads) return ITER_KERNEL_iter_pack_any;
    if (program->channels == 1 || (!program->in_hwc && !program->out_hwc))
        return ITER_KERNEL_iter_pack_planes;
    if (program->channels != 3) return ITER_KERNEL_iter_pack_any;
    if (!program->in_hwc) return ITER_KERNEL_iter_pack_planes_to_hwc;
    return program->out_hwc ? ITER_KERNEL_iter_pack_hwc : ITER_KERNEL_iter_pack_hwc_to_planes;
}

/* Division by d as a multiplication: factor = ceil(2^shift / d) with shift = 30 + ceil(log2(d)) is
 * too large by e / d, with e < d <= 2^(shift - 30). So for n < 2^30 the result never crosses a
 * whole number (Granlund, Montgomery 1994). factor < 2^31. */
static void divide_by(uint32_t d, uint32_t *out_factor, uint32_t *out_shift) {
    uint32_t bits = 0;
    while (bits < QUAD_BITS && ((uint32_t)1 << bits) < d)
        bits++;
    *out_shift = QUAD_BITS + bits;
    *out_factor = (uint32_t)((((uint64_t)1 << *out_shift) + d - 1) / d);
}

static void describe_pack(const iter__device_pack_args *pack, iter__cuda_pack_args *out) {
    const iter__pack_program *program = pack->program;
    const uint64_t in = (uint64_t)program->in_height * (uint64_t)program->in_width;
    const uint64_t plane = (uint64_t)program->out_height * (uint64_t)program->out_width;
    const uint64_t channels = (uint64_t)program->channels;
    memset(out, 0, sizeof(*out));
    out->from = pack->from;
    out->rows = pack->rows;
    out->to = pack->to;
    out->in_bytes = in * channels;
    out->out_bytes = plane * channels * iter_dtype_bytes((iter_dtype)program->out_dtype);
    out->n_rows = pack->n_rows;
    out->n_quads = (uint32_t)(plane / ITER_PACK_QUAD);
    out->line_quads = (uint32_t)program->out_width / ITER_PACK_QUAD;
    if (out->line_quads) divide_by(out->line_quads, &out->line_factor, &out->line_shift);
    out->is_wide = out->out_bytes % 16 == 0;
    out->program = *program;
    for (int32_t c = 0; program->moves_bytes && c < ITER_PACK_CHANNELS; c++) {
        out->program.a[c] = 1.0f;
        out->program.b[c] = -0.0f;
    }
}

iter_status iter__device_pack(iter__device *device, const iter__device_pack_args *pack,
                              iter_error *err) {
    iter__cuda_pack_args call;
    if (pack->n_rows == 0) return ITER_OK;
    const int kernel = kernel_for(pack->program, pack->to);
    describe_pack(pack, &call);
    const bool by_plane =
        kernel == ITER_KERNEL_iter_pack_any || kernel == ITER_KERNEL_iter_pack_planes;
    const uint64_t plane = (uint64_t)pack->program->out_height * (uint64_t)pack->program->out_width;
    const uint64_t threads = kernel == ITER_KERNEL_iter_pack_any ? plane : call.n_quads;
    const uint32_t grid[3] = {
        smaller(pack->n_rows, GRID_X_MOST),
        smaller((threads + ITER_PACK_THREADS - 1) / ITER_PACK_THREADS, GRID_Y_MOST),
        by_plane ? (uint32_t)pack->program->channels : 1};
    const uint32_t block[2] = {ITER_PACK_THREADS, 1};
    return launch(device, kernel, grid, block, &call, err);
}

iter_status iter__device_gather(iter__device *device, iter__device_address from, size_t row_bytes,
                                iter__device_address rows, iter__device_address to, uint32_t n_rows,
                                iter_error *err) {
    if (n_rows == 0 || row_bytes == 0) return ITER_OK;
    const uint64_t aligned = from | to | row_bytes;
    const int kernel = aligned % 16 == 0  ? ITER_KERNEL_iter_gather_16
                       : aligned % 4 == 0 ? ITER_KERNEL_iter_gather_4
                                          : ITER_KERNEL_iter_gather_1;
    const uint64_t unit = aligned % 16 == 0 ? 16 : aligned % 4 == 0 ? 4 : 1;
    iter__cuda_gather_args call = {
        .from = from, .rows = rows, .to = to, .n_units = row_bytes / unit, .n_rows = n_rows};
    /* threads next to each other in one row; the other threads of a block take more rows */
    uint32_t width = 1;
    while (width < ITER_PACK_THREADS && width < call.n_units)
        width *= 2;
    const uint32_t height = ITER_PACK_THREADS / width;
    const uint32_t grid[3] = {smaller(((uint64_t)n_rows + height - 1) / height, GRID_X_MOST),
                              smaller((call.n_units + width - 1) / width, GRID_Y_MOST), 1};
    const uint32_t block[2] = {width, height};
    return launch(device, kernel, grid, block, &call, err);
}
