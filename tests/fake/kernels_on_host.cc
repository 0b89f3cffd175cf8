/*
 * kernels_on_host.cc - the code of iter/device/kernels.cu, run as host threads, against the fused
 * pass pixel by pixel.
 *
 * Built and run by tests/check_kernels.sh. Sources end at inaccessible pages, so that a read that
 * goes too far faults. The rest of a word of 4 bytes may be read, as on a GPU, whose allocations
 * are whole words.
 */
#include "tests/fake/kernel_threads.h"

#include "iter/device/kernels.cu"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#include "tests/support/draw_program.h"
#include "tests/support/pack_rows.h"

#define ROWS 3

/* ---- One launch ------------------------------------------------------------------------------ */

typedef void (*pack_kernel)(const iter__cuda_pack_args call);

static const pack_kernel kernels[] = {iter_pack_any, iter_pack_planes, iter_pack_planes_to_hwc,
                                      iter_pack_hwc, iter_pack_hwc_to_planes};
static const char *const names[] = {"any", "planes", "planes_to_hwc", "hwc", "hwc_to_planes"};

/* Memory whose last word is followed by an inaccessible page. */
static uint8_t *guarded(size_t bytes, int misplaced) {
    const size_t page = 4096, room = (bytes + 2 * page - 1) / page * page + page;
    uint8_t *all = (uint8_t *)mmap(nullptr, room + page, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(all, page, PROT_NONE);
    mprotect(all + room, page, PROT_NONE);
    return all + room - ((bytes + (size_t)misplaced + 15) & ~(size_t)15) + misplaced;
}

static void unguard(uint8_t *memory, size_t bytes, int misplaced) {
    const size_t page = 4096, room = (bytes + 2 * page - 1) / page * page + page;
    munmap(memory - misplaced + ((bytes + (size_t)misplaced + 15) & ~(size_t)15) - room,
           room + page);
}

static void describe(iter__cuda_pack_args *call, const iter__pack_program *p) {
    call->program = *p;
    for (int c = 0; c < ITER_PACK_CHANNELS && p->moves_bytes; c++) {
        call->program.a[c] = 1.0f;
        call->program.b[c] = -0.0f;
    }
    call->in_bytes = pack_rows_in_bytes(p);
    call->out_bytes = pack_rows_out_bytes(p);
    call->n_rows = ROWS;
    call->n_quads = (uint32_t)(p->out_height * p->out_width / 4);
    call->line_quads = (uint32_t)p->out_width / 4;
    uint32_t bits = 0;
    while (1u << bits < call->line_quads)
        bits++;
    call->line_shift = 30 + bits;
    call->line_factor =
        call->line_quads == 0
            ? 0
            : (uint32_t)(((1ull << call->line_shift) + call->line_quads - 1) / call->line_quads);
    call->is_wide = call->out_bytes % 16 == 0;
}

static int run_one(int kernel) {
    enum { SOURCES = 4 };
    iter__pack_program program;
    iter__pack_row rows[ROWS];
    draw_program(&program, kernel, 40);
    for (int r = 0; r < ROWS; r++)
        draw_row(&program, &rows[r], SOURCES);
    iter__cuda_pack_args call = {};
    describe(&call, &program);
    const size_t in_bytes = SOURCES * call.in_bytes, out_bytes = ROWS * call.out_bytes;
    const int shift = draw_below(4);
    uint8_t *in = guarded(in_bytes, shift), *out = guarded(out_bytes, 0);
    std::vector<uint8_t> want(out_bytes);
    for (size_t i = 0; i < in_bytes; i++)
        in[i] = (uint8_t)draw();
    memset(out, 0x5a, out_bytes);
    pack_rows(&program, in, rows, want.data(), ROWS);
    call.from = (uint64_t)(uintptr_t)in;
    call.rows = (uint64_t)(uintptr_t)rows;
    call.to = (uint64_t)(uintptr_t)out;
    const bool by_plane = kernel < 2, meets = kernel == 2 || kernel == 3;
    launch({(uint32_t)(1 + draw_below(ROWS)), (uint32_t)(1 + draw_below(3)),
            by_plane ? 1 + (uint32_t)draw_below(program.channels) : 1},
           {ITER_PACK_THREADS, 1, 1}, meets, [&] { kernels[kernel](call); });
    int bad = memcmp(out, want.data(), out_bytes) != 0;
    for (size_t i = 0; bad == 1 && i < out_bytes; i++) {
        if (out[i] == want[i]) continue;
        printf("%s: byte %zu of row %zu is %02x, want %02x\n", names[kernel], i % call.out_bytes,
               i / call.out_bytes, out[i], want[i]);
        printf("  %d x %d to %d x %d, %d channels, type %d, moves %d, source at +%d\n",
               program.in_height, program.in_width, program.out_height, program.out_width,
               program.channels, program.out_dtype, program.moves_bytes, shift);
        bad = 2;
    }
    unguard(in, in_bytes, shift);
    unguard(out, out_bytes, 0);
    return bad != 0;
}

static int run_gather(int kernel) {
    static const size_t units[] = {16, 4, 1};
    const size_t unit = units[kernel - ITER_KERNEL_iter_gather_16],
                 bytes = unit * (1 + (size_t)draw_below(9));
    enum { SOURCES = 5, N = 7 };
    alignas(16) uint8_t in[SOURCES * 16 * 9], out[N * 16 * 9];
    iter__pack_row rows[N] = {};
    for (uint8_t &byte : in)
        byte = (uint8_t)draw();
    for (iter__pack_row &row : rows)
        row.source = (uint64_t)draw_below(SOURCES);
    iter__cuda_gather_args call = {(uint64_t)(uintptr_t)in,
                             (uint64_t)(uintptr_t)rows,
                             (uint64_t)(uintptr_t)out,
                             bytes / unit,
                             N,
                             0};
    launch({(uint32_t)(1 + draw_below(4)), (uint32_t)(1 + draw_below(2)), 1}, {4, 2, 1}, false,
           [&] {
               if (unit == 16)
                   iter_gather_16(call);
               else if (unit == 4)
                   iter_gather_4(call);
               else
                   iter_gather_1(call);
           });
    for (int r = 0; r < N; r++)
        if (memcmp(out + r * bytes, in + rows[r].source * bytes, bytes) != 0) {
            printf("gather_%zu: row %d of %zu bytes differs\n", unit, r, bytes);
            return 1;
        }
    return 0;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 400;
    int bad = 0;
    for (int i = 0; i < n && bad < 5; i++)
        for (int kernel = 0; kernel < 5; kernel++)
            bad += run_one(kernel);
    for (int i = 0; i < n && bad < 5; i++)
        for (int kernel = ITER_KERNEL_iter_gather_16; kernel <= ITER_KERNEL_iter_gather_1; kernel++)
            bad += run_gather(kernel);
    return bad != 0;
}
