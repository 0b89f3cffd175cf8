/*
 * fake_kernels.c - the library's kernels in plain C, by name.
 *
 * All pack kernels do the same, so they share one twin, which checks what the chosen kernel relies
 * on. It ignores grids: our kernels loop.
 */
#include "tests/support/fake_kernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "iter/device/cuda_kernels.h"
#include "tests/support/pack_rows.h"

static const fake_cuda *fake;

static void check(int holds, const char *kernel, const char *text) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", kernel, text);
    abort();
}

static void *device_memory(uint64_t address, uint64_t bytes, const char *kernel, const char *what) {
    check(fake->is_device(address, bytes), kernel, what);
    return (void *)(uintptr_t)address;
}

/* ---- The fused pass -------------------------------------------------------------------------- */

static void check_choice(const iter__cuda_pack_args *call, int kernel, const char *name) {
    const iter__pack_program *p = &call->program;
    const int to_hwc =
        kernel == ITER_KERNEL_iter_pack_hwc || kernel == ITER_KERNEL_iter_pack_planes_to_hwc;
    const int from_hwc =
        kernel == ITER_KERNEL_iter_pack_hwc || kernel == ITER_KERNEL_iter_pack_hwc_to_planes;
    check(call->in_bytes == pack_rows_in_bytes(p), name, "bytes of a source row");
    check(call->out_bytes == pack_rows_out_bytes(p), name, "bytes of a row");
    if (kernel == ITER_KERNEL_iter_pack_any) return;
    const uint32_t width = (uint32_t)p->out_width, height = (uint32_t)p->out_height;
    check(width % 4 == 0 && call->to % 16 == 0, name, "wants whole quads at multiples of 16");
    check(call->n_quads == width / 4 * height && call->line_quads == width / 4, name, "quads");
    for (uint64_t i = 0, n = call->n_quads; i < 4 && n > 0;
         i++) { /* the first, the last, one between */
        const uint64_t quad = i == 3 ? n - 1 : i * (n - 1) / 3;
        check((quad * call->line_factor) >> call->line_shift == quad / (width / 4), name,
              "the division by the quads of a line");
    }
    if (kernel == ITER_KERNEL_iter_pack_planes) {
        check(p->channels == 1 || (!p->in_hwc && !p->out_hwc), name, "wants planes");
        return;
    }
    check(p->channels == 3 && !p->in_hwc == !from_hwc && !p->out_hwc == !to_hwc, name,
          "wants 3 channels, in its layouts");
    check(!call->is_wide || call->out_bytes % 16 == 0, name, "wide rows of other widths");
}

static void run_pack(void **parameters, int kernel, const char *name) {
    const iter__cuda_pack_args *call = parameters[0];
    iter__pack_program program = call->program;
    check_choice(call, kernel, name);
    const iter__pack_row *rows =
        device_memory(call->rows, call->n_rows * sizeof(*rows), name, "rows are no device memory");
    uint8_t *to =
        device_memory(call->to, call->n_rows * call->out_bytes, name, "output is no device memory");
    if (program.moves_bytes) /* kernels ignore it */
        check(program.a[0] == 1.0f && program.b[0] == 0.0f, name, "factors of bytes that move");
    program.moves_bytes = 0;
    for (uint32_t r = 0; r < call->n_rows; r++) {
        const uint8_t *in = device_memory(call->from + rows[r].source * call->in_bytes,
                                          call->in_bytes, name, "a source is no device memory");
        pack_rows_one(&program, &rows[r], in, to + r * call->out_bytes);
    }
}

#define PACK_TWIN(name)                                                                \
    static void name(void **parameters, const unsigned *grid, const unsigned *block) { \
        (void)grid;                                                                    \
        (void)block;                                                                   \
        run_pack(parameters, ITER_KERNEL_##name, #name);                               \
    }

PACK_TWIN(iter_pack_any)
PACK_TWIN(iter_pack_planes)
PACK_TWIN(iter_pack_planes_to_hwc)
PACK_TWIN(iter_pack_hwc)
PACK_TWIN(iter_pack_hwc_to_planes)

/* ---- Rows as they are ------------------------------------------------------------------------ */

static void run_gather(void **parameters, uint64_t unit, const char *name) {
    const iter__cuda_gather_args *call = parameters[0];
    const uint64_t bytes = call->n_units * unit;
    check((call->from | call->to) % unit == 0, name, "misplaced units");
    const iter__pack_row *rows =
        device_memory(call->rows, call->n_rows * sizeof(*rows), name, "rows are no device memory");
    uint8_t *to = device_memory(call->to, call->n_rows * bytes, name, "output is no device memory");
    for (uint32_t r = 0; r < call->n_rows; r++)
        memcpy(to + r * bytes,
               device_memory(call->from + rows[r].source * bytes, bytes, name,
                             "a source is no device memory"),
               bytes);
}

#define GATHER_TWIN(unit)                                                   \
    static void iter_gather_##unit(void **parameters, const unsigned *grid, \
                                   const unsigned *block) {                 \
        (void)grid;                                                         \
        (void)block;                                                        \
        run_gather(parameters, unit, "iter_gather_" #unit);                 \
    }

GATHER_TWIN(16)
GATHER_TWIN(4)
GATHER_TWIN(1)

void fake_kernels_register(const fake_cuda *cuda) {
    fake = cuda;
#define ITER_X(name) cuda->kernel(#name, name);
    ITER_CUDA_KERNELS(ITER_X)
#undef ITER_X
}
