/*
 * backend_cuda_kernels.c - each kernel on a real GPU against its twin in plain C, bit for bit:
 * random programs and rows, every kernel, type and layout, addresses of every alignment, values at
 * the borders of rounding and ranges, whole sets in one launch, and beyond 4 GiB.
 *
 * If the driver is the fake, the twins run instead of the kernels. That tests the code around the
 * launches, and the program counts as skipped.
 *
 * --perf times the pass over 50,000 images, a batch of 64 and an empty launch, and compares with a
 * copy on the device.
 */
#include <stdlib.h>

#include "iter/device/cuda_device.h"
#include "tests/support/draw_program.h"
#include "tests/support/expect.h"
#include "tests/support/fake_kernels.h"
#include "tests/support/pack_rows.h"

static iter__device *device;

/* ---- The device ------------------------------------------------------------------------------ */

static void must(CUresult result, const char *what) {
    char text[160];
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", what, iter__cuda_text(&device->cuda, result, text, sizeof(text)));
    exit(1);
}

static iter__device_address new_memory(size_t bytes) {
    iter_error err = {0};
    iter__device_address memory = 0;
    if (!EXPECT_OK(iter__device_alloc(device, bytes, &memory, &err), &err)) exit(1);
    return memory;
}

static void put(iter__device_address to, const void *from, size_t bytes) {
    iter__cuda_scope scope;
    iter_error err = {0};
    if (!EXPECT_OK(iter__cuda_enter(device, &scope, &err), &err)) exit(1);
    /* On the stream of the launches: cuMemcpyHtoD may return before the bytes have arrived. */
    must(device->cuda.cuMemcpyHtoDAsync(to, from, bytes, device->stream), "cuMemcpyHtoDAsync");
    must(device->cuda.cuStreamSynchronize(device->stream), "cuStreamSynchronize");
    iter__cuda_leave(device, &scope);
}

/* Must be called after all launches. */
static void take(void *to, iter__device_address from, size_t bytes) {
    iter__cuda_scope scope;
    iter_error err = {0};
    if (!EXPECT_OK(iter__cuda_enter(device, &scope, &err), &err)) exit(1);
    must(device->cuda.cuStreamSynchronize(device->stream), "cuStreamSynchronize");
    must(device->cuda.cuMemcpyDtoH(to, from, bytes), "cuMemcpyDtoH");
    iter__cuda_leave(device, &scope);
}

static void paint(iter__device_address to, size_t bytes) {
    iter__cuda_scope scope;
    iter_error err = {0};
    if (!EXPECT_OK(iter__cuda_enter(device, &scope, &err), &err)) exit(1);
    must(device->cuda.cuMemsetD8Async(to, 0x5a, bytes, device->stream), "cuMemsetD8Async");
    must(device->cuda.cuStreamSynchronize(device->stream), "cuStreamSynchronize");
    iter__cuda_leave(device, &scope);
}

/* ---- One launch against its twin ------------------------------------------------------------- */

typedef struct launch {
    const char *what;
    iter__pack_program program;
    uint32_t n_rows;
    int n_sources;
    size_t misplaced_from, misplaced_to; /* bytes */
} launch;

static void say(const launch *test) {
    const iter__pack_program *p = &test->program;
    fprintf(stderr,
            "  %s: u8 %d x %d %s to %s %d x %d %s, %d channels, %s, %u rows of %d, from +%zu, to "
            "+%zu\n",
            test->what, p->in_height, p->in_width, p->in_hwc ? "HWC" : "CHW",
            iter_dtype_text((iter_dtype)p->out_dtype), p->out_height, p->out_width,
            p->out_hwc ? "HWC" : "CHW", p->channels, p->moves_bytes ? "bytes moved" : "a*x+b",
            test->n_rows, test->n_sources, test->misplaced_from, test->misplaced_to);
}

static void say_element(const launch *test, const iter__pack_row *rows, size_t at,
                        const uint8_t *got, const uint8_t *want) {
    const iter__pack_program *p = &test->program;
    const size_t element_bytes = iter_dtype_bytes((iter_dtype)p->out_dtype);
    const size_t r = at / pack_rows_out_bytes(p);
    const int64_t element = (int64_t)(at % pack_rows_out_bytes(p) / element_bytes);
    const int64_t plane = (int64_t)p->out_height * p->out_width;
    const int64_t pixel = p->out_hwc ? element / p->channels : element % plane;
    const int c = (int)(p->out_hwc ? element % p->channels : element / plane);
    const iter__pack_row *row = &rows[r];
    fprintf(stderr, "  row %zu, pixel %lld, %lld, channel %d: got", r,
            (long long)(pixel / p->out_width), (long long)(pixel % p->out_width), c);
    const size_t from = at / element_bytes * element_bytes;
    for (size_t i = element_bytes; i-- > 0;)
        fprintf(stderr, "%s%02x", i + 1 == element_bytes ? " 0x" : "", got[from + i]);
    for (size_t i = element_bytes; i-- > 0;)
        fprintf(stderr, "%s%02x", i + 1 == element_bytes ? ", want 0x" : "", want[from + i]);
    fprintf(stderr,
            "; a %.9g, b %.9g; source %llu, y %d%+d*y in %d..%d, x %d%+d*x in %d..%d, pad %d, %d "
            "cuts\n",
            (double)p->a[c], (double)p->b[c], (unsigned long long)row->source, row->y_offset,
            row->y_step, row->y_low, row->y_high, row->x_offset, row->x_step, row->x_low,
            row->x_high, row->pad, row->n_cuts);
}

static int compare(const launch *test, const iter__pack_row *rows, const uint8_t *got,
                   const uint8_t *want, size_t bytes) {
    if (EXPECT(memcmp(got, want, bytes) == 0)) return 1;
    say(test);
    size_t bad = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != want[i] && bad++ == 0) say_element(test, rows, i, got, want);
    }
    fprintf(stderr, "  %zu of %zu bytes differ\n", bad, bytes);
    return 0;
}

/* Bytes before and after the output must not change. */
#define MARGIN 64

static int run_rows(const launch *test, const iter__pack_row *rows) {
    const iter__pack_program *p = &test->program;
    const size_t in_bytes = pack_rows_in_bytes(p) * (size_t)test->n_sources;
    const size_t out_bytes = pack_rows_out_bytes(p) * test->n_rows;
    const size_t all_bytes = out_bytes + 2 * MARGIN + test->misplaced_to;
    uint8_t *in = malloc(in_bytes), *want = malloc(all_bytes), *got = malloc(all_bytes);
    iter_error err = {0};
    for (size_t i = 0; i < in_bytes; i++)
        in[i] = (uint8_t)draw();
    uint8_t *const place = want + MARGIN + test->misplaced_to;
    memset(want, 0x5a, all_bytes);
    pack_rows(p, in, rows, place, test->n_rows);
    const iter__device_address from = new_memory(in_bytes + test->misplaced_from),
                               to = new_memory(all_bytes),
                               at = new_memory(sizeof(*rows) * test->n_rows);
    put(from + test->misplaced_from, in, in_bytes);
    put(at, rows, sizeof(*rows) * test->n_rows);
    paint(to, all_bytes);
    const iter__device_pack_args pack = {p, from + test->misplaced_from, at,
                                         to + MARGIN + test->misplaced_to, test->n_rows};
    int ok = EXPECT_OK(iter__device_pack(device, &pack, &err), &err);
    if (!ok) say(test);
    take(got, to, all_bytes);
    ok = ok && compare(test, rows, got + MARGIN + test->misplaced_to, place, out_bytes);
    if (ok && !EXPECT(memcmp(got, want, all_bytes) == 0)) {
        fprintf(stderr, "  written outside of the rows\n");
        say(test);
        ok = 0;
    }
    iter__device_free(device, from);
    iter__device_free(device, to);
    iter__device_free(device, at);
    free(in);
    free(want);
    free(got);
    return ok;
}

static int run(const launch *test) {
    iter__pack_row *rows = calloc(test->n_rows, sizeof(*rows));
    for (uint32_t r = 0; r < test->n_rows; r++)
        draw_row(&test->program, &rows[r], test->n_sources);
    const int ok = run_rows(test, rows);
    free(rows);
    return ok;
}

/* ---- Random programs ------------------------------------------------------------------------- */

static const char *const names[] = {
#define ITER_X(name) #name,
    ITER_CUDA_KERNELS(ITER_X)
#undef ITER_X
};

static void test_random(int n) {
    int failed = 0;
    for (int kernel = 0; kernel <= ITER_KERNEL_iter_pack_hwc_to_planes; kernel++)
        for (int i = 0; i < n && failed < 5; i++) {
            draw_state = (uint64_t)kernel * 1000003 + (uint64_t)i;
            launch test = {.what = names[kernel],
                           .n_rows = (uint32_t)(1 + draw_below(i % 8 ? 9 : 200)),
                           .n_sources = 1 + draw_below(20),
                           .misplaced_from = (size_t)draw_below(16)};
            draw_program(&test.program, kernel, i % 5 ? 40 : 120);
            if (kernel == ITER_KERNEL_iter_pack_any)
                test.misplaced_to =
                    (size_t)draw_below(4) * iter_dtype_bytes((iter_dtype)test.program.out_dtype);
            failed += !run(&test);
        }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* All 256 bytes with factors for which results are ties, subnormal, near the ends of the type, or
 * -0. */
static void test_values(void) {
    static const float numbers[][2] = {
        {1.0f, 0.0f},        {0.5f, 0.0f},          {0.5f, 0.25f},         {-1.0f, 128.0f},
        {-0.5f, 0.5f},       {1.0f, -0.0f},         {-0.0f, -0.0f},        {2.0f, -254.5f},
        {1e-7f, 0.0f},       {5.9604645e-8f, 0.0f}, {2.9802322e-8f, 0},    {-3e-8f, 1e-9f},
        {256.9f, 0.0f},      {257.0f, 0.0f},        {257.0f, -32.0f},      {-300.0f, 3.0f},
        {1e36f, 0.0f},       {1.3e36f, 3e38f},      {1e-38f, 0.0f},        {1e-45f, 0.0f},
        {0.00392157f, 0.0f}, {0.017124754f, -2.1f}, {1.0009766f, 0.0f},    {0.0625f, 2048.0f},
        {1.0f, 8388608.0f},  {0.1f, 1e-3f},         {3.0517578e-5f, 0.0f}, {1.0f, 1.1920929e-7f}};
    static const iter_dtype types[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (int type = 0; type < 4; type++)
            for (int kernel = 0; kernel < 2; kernel++) {
                launch test = {.what = "values", .n_rows = 1, .n_sources = 1};
                test.program = (iter__pack_program){
                    .in_dtype = ITER_U8,
                    .out_dtype = (int32_t)types[type],
                    .in_height = 4,
                    .in_width = 1024,
                    .out_height = 4,
                    .out_width = kernel ? 1024 : 1023,
                    .channels = 1,
                };
                for (int c = 0; c < ITER_PACK_CHANNELS; c++) {
                    test.program.a[c] = numbers[i][0];
                    test.program.b[c] = numbers[i][1];
                    test.program.fills[0][c] = numbers[i][1];
                }
                test.program.n_fills = 1;
                const iter__pack_row row = {.y_high = 4,
                                            .x_high = test.program.out_width - 2,
                                            .y_step = 1,
                                            .x_step = 1,
                                            .pad = 0};
                run_rows(&test, &row);
            }
}

/* ---- Shapes used in training ----------------------------------------------------------------- */

static iter__pack_program cifar(int in_hwc, int out_hwc, iter_dtype out) {
    static const float mean[] = {0.491f, 0.482f, 0.447f}, deviation[] = {0.247f, 0.243f, 0.261f};
    iter__pack_program p = {.in_dtype = ITER_U8,
                            .out_dtype = (int32_t)out,
                            .in_height = 32,
                            .in_width = 32,
                            .out_height = 32,
                            .out_width = 32,
                            .channels = 3,
                            .in_hwc = in_hwc,
                            .out_hwc = out_hwc,
                            .n_fills = 1};
    for (int c = 0; c < 3; c++) {
        p.a[c] = 1 / (255 * deviation[c]);
        p.b[c] = -mean[c] / deviation[c];
        p.fills[0][c] = p.b[c];
    }
    return p;
}

/* A window of 32 x 32 out of 40 x 40, mirrored or not. */
static void crop_row(iter__pack_row *row, uint64_t source) {
    const int y = draw_below(9) - 4, x = draw_below(9) - 4, mirrored = draw_below(2);
    *row = (iter__pack_row){.source = source, .y_step = 1, .x_step = mirrored ? -1 : 1, .pad = 0};
    row->y_offset = y;
    row->y_low = y < 0 ? -y : 0;
    row->y_high = y > 0 ? 32 - y : 32;
    row->x_offset = mirrored ? 31 + x : x;
    const int low = x < 0 ? -x : 0, high = x > 0 ? 32 - x : 32;
    row->x_low = mirrored ? 32 - high : low;
    row->x_high = mirrored ? 32 - low : high;
}

static void test_shapes(uint32_t n_rows) {
    static const iter_dtype types[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};
    iter__pack_row *rows = calloc(n_rows, sizeof(*rows));
    for (int i = 0; i < 16; i++) {
        launch test = {.what = "cifar", .n_rows = n_rows, .n_sources = 1000};
        test.program = cifar(i / 8, i / 4 % 2, types[i % 4]);
        for (uint32_t r = 0; r < n_rows; r++)
            crop_row(&rows[r], (uint64_t)draw_below(1000));
        if (!run_rows(&test, rows)) break;
    }
    free(rows);
    for (int kernel = 1; kernel <= ITER_KERNEL_iter_pack_hwc_to_planes; kernel++) {
        launch test = {.what = names[kernel], .n_rows = 3, .n_sources = 2};
        draw_program(&test.program, kernel, 9);
        test.program.in_height = test.program.in_width = 256;
        test.program.out_height = test.program.out_width = 224;
        run(&test);
        test.program.in_height = test.program.out_height = 1; /* rows that are not images */
        test.program.out_width = test.program.in_width = 100004;
        run(&test);
        test.n_rows = 140000; /* more than a grid's second dimension allows */
        test.program.in_width = 5;
        test.program.out_width = 4;
        run(&test);
    }
}

/* ---- Rows as they are ------------------------------------------------------------------------ */

static void gather(size_t row_bytes, uint32_t n_rows, size_t misplaced) {
    const int n_sources = 77;
    const size_t in_bytes = row_bytes * (size_t)n_sources, out_bytes = row_bytes * n_rows;
    uint8_t *in = malloc(in_bytes), *got = malloc(out_bytes + 2 * MARGIN);
    iter__pack_row *rows = calloc(n_rows, sizeof(*rows));
    iter_error err = {0};
    for (size_t i = 0; i < in_bytes; i++)
        in[i] = (uint8_t)draw();
    for (uint32_t r = 0; r < n_rows; r++)
        rows[r].source = (uint64_t)draw_below(n_sources);
    const iter__device_address from = new_memory(in_bytes + misplaced),
                               at = new_memory(sizeof(*rows) * n_rows),
                               to = new_memory(out_bytes + 2 * MARGIN);
    put(from + misplaced, in, in_bytes);
    put(at, rows, sizeof(*rows) * n_rows);
    paint(to, out_bytes + 2 * MARGIN);
    EXPECT_OK(
        iter__device_gather(device, from + misplaced, row_bytes, at, to + MARGIN, n_rows, &err),
        &err);
    take(got, to, out_bytes + 2 * MARGIN);
    int ok = 1;
    for (uint32_t r = 0; r < n_rows && ok; r++)
        ok = EXPECT(
            memcmp(got + MARGIN + r * row_bytes, in + rows[r].source * row_bytes, row_bytes) == 0);
    for (size_t i = 0; i < MARGIN && ok; i++)
        ok = EXPECT(got[i] == 0x5a && got[MARGIN + out_bytes + i] == 0x5a);
    if (!ok)
        fprintf(stderr, "  gather: %u rows of %zu bytes, from +%zu\n", n_rows, row_bytes,
                misplaced);
    iter__device_free(device, from);
    iter__device_free(device, to);
    iter__device_free(device, at);
    free(in);
    free(got);
    free(rows);
}

static void test_gather(void) {
    static const size_t sizes[] = {1,  2,  3,  4,   7,   8,   12,   15,   16,    17,
                                   32, 48, 52, 100, 784, 785, 3072, 3073, 150528};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t misplaced = 0; misplaced < 5; misplaced += misplaced ? 3 : 1)
            gather(sizes[i], sizes[i] > 4096 ? 9 : 1 + (uint32_t)draw_below(700), misplaced);
    gather(4, 300000, 0);
}

/* ---- Beyond 4 GiB ---------------------------------------------------------------------------- */

/* 800,000 sources to 450,000 rows; four of them are compared. */
static void test_large(void) {
    enum { SOURCES = 1500000, ROWS = 450000, LOOK = 4 };
    const iter__pack_program program = cifar(0, 1, ITER_F32);
    const size_t in = pack_rows_in_bytes(&program), out = pack_rows_out_bytes(&program);
    const uint64_t sources[LOOK] = {0, 1398101, 1398102, SOURCES - 1}; /* 1398101 * 3072 < 2^32 */
    const uint32_t at[LOOK] = {0, 349525, 349526, ROWS - 1};           /* 349525 * 12288 < 2^32 */
    size_t free_bytes = 0, total_bytes = 0;
    iter__cuda_scope scope;
    iter_error err = {0};
    if (!EXPECT_OK(iter__cuda_enter(device, &scope, &err), &err)) return;
    must(device->cuda.cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
    iter__cuda_leave(device, &scope);
    if (free_bytes < SOURCES * in + ROWS * out + ((size_t)1 << 30)) {
        printf("beyond 4 GiB: not tested, %zu MiB are free\n", free_bytes >> 20);
        return;
    }
    const iter__device_address from = new_memory(SOURCES * in), to = new_memory(ROWS * out),
                               rows_at = new_memory(ROWS * sizeof(iter__pack_row));
    iter__pack_row *rows = calloc(ROWS, sizeof(*rows));
    uint8_t image[LOOK][3072], got[12288], want[12288];
    for (int i = 0; i < LOOK; i++) {
        for (size_t k = 0; k < in; k++)
            image[i][k] = (uint8_t)draw();
        put(from + sources[i] * in, image[i], in);
        crop_row(&rows[at[i]], sources[i]);
    }
    put(rows_at, rows, ROWS * sizeof(*rows));
    const iter__device_pack_args pack = {&program, from, rows_at, to, ROWS};
    EXPECT_OK(iter__device_pack(device, &pack, &err), &err);
    for (int i = 0; i < LOOK; i++) {
        take(got, to + at[i] * out, out);
        pack_rows_one(&program, &rows[at[i]], image[i], want);
        if (!EXPECT(memcmp(got, want, out) == 0))
            fprintf(stderr, "  source %llu to row %u\n", (unsigned long long)sources[i], at[i]);
    }
    EXPECT_OK(iter__device_gather(device, from, in, rows_at, to, ROWS, &err), &err);
    for (int i = 0; i < LOOK; i++) {
        take(got, to + at[i] * in, in);
        if (!EXPECT(memcmp(got, image[i], in) == 0))
            fprintf(stderr, "  gather: source %llu to row %u\n", (unsigned long long)sources[i],
                    at[i]);
    }
    iter__device_free(device, from);
    iter__device_free(device, to);
    iter__device_free(device, rows_at);
    free(rows);
}

/* ---- Timing ---------------------------------------------------------------------------------- */

typedef struct timing {
    iter__device_address from, rows, to;
    CUevent begin, end;
} timing;

enum { PERF_IMAGES = 50000, PERF_TRIES = 21 };

typedef void (*timed)(const timing *t, const void *what);

static void perf_pack(const timing *t, const void *what) {
    iter_error err = {0};
    iter__device_pack_args pack = *(const iter__device_pack_args *)what;
    pack.from = t->from;
    pack.rows = t->rows;
    pack.to = t->to;
    EXPECT_OK(iter__device_pack(device, &pack, &err), &err);
}

/* Copies `what` bytes in total: half are read, half written. */
static void perf_copy(const timing *t, const void *what) {
    const size_t bytes = *(const size_t *)what / 2;
    must(device->cuda.cuMemcpyDtoDAsync(t->to, t->to + bytes, bytes, device->stream),
         "cuMemcpyDtoDAsync");
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median of the microseconds per call, over the middle of `n` calls. */
static double perf(const timing *t, timed call, const void *what, int n) {
    float tries[PERF_TRIES];
    for (int i = 0; i < PERF_TRIES; i++) {
        must(device->cuda.cuEventRecord(t->begin, device->stream), "cuEventRecord");
        for (int k = 0; k < n; k++)
            call(t, what);
        must(device->cuda.cuEventRecord(t->end, device->stream), "cuEventRecord");
        must(device->cuda.cuEventSynchronize(t->end), "cuEventSynchronize");
        must(device->cuda.cuEventElapsedTime(&tries[i], t->begin, t->end), "cuEventElapsedTime");
    }
    qsort(tries, PERF_TRIES, sizeof(tries[0]), by_size);
    return 1000.0 * (double)tries[PERF_TRIES / 2] / n;
}

static void perf_case(const timing *t, const iter__pack_program *program, const char *what) {
    const size_t bytes = PERF_IMAGES * (pack_rows_in_bytes(program) + pack_rows_out_bytes(program));
    iter__device_pack_args pack = {.program = program, .n_rows = PERF_IMAGES};
    const double copy = perf(t, perf_copy, &bytes, 1), all = perf(t, perf_pack, &pack, 1);
    pack.n_rows = 64;
    const double batch = perf(t, perf_pack, &pack, 100);
    printf("%-20s %8.1f us %6.0f GB/s  copy %8.1f us %6.0f GB/s  share %.2f  batch of 64 %.2f us\n",
           what, all, 1e-3 * (double)bytes / all, copy, 1e-3 * (double)bytes / copy, copy / all,
           batch);
}

static int run_perf(void) {
    const iter__pack_program programs[] = {
        cifar(0, 1, ITER_F16), cifar(1, 1, ITER_F16), cifar(0, 0, ITER_F16), cifar(1, 0, ITER_F16),
        cifar(0, 1, ITER_F32), cifar(0, 0, ITER_F32), cifar(0, 1, ITER_U8)};
    static const char *const texts[] = {"chw to f16 hwc", "hwc to f16 hwc", "chw to f16 chw",
                                        "hwc to f16 chw", "chw to f32 hwc", "chw to f32 chw",
                                        "chw to u8 hwc"};
    const size_t out = PERF_IMAGES * (size_t)12288;
    timing t = {.from = new_memory(PERF_IMAGES * (size_t)3072),
                .rows = new_memory(PERF_IMAGES * sizeof(iter__pack_row)),
                .to = new_memory(2 * out)};
    iter__pack_row *rows = calloc(PERF_IMAGES, sizeof(*rows));
    iter__cuda_scope scope;
    iter_error err = {0};
    for (uint32_t r = 0; r < PERF_IMAGES; r++)
        crop_row(&rows[r], (uint64_t)draw_below(PERF_IMAGES));
    put(t.rows, rows, PERF_IMAGES * sizeof(*rows));
    if (!EXPECT_OK(iter__cuda_enter(device, &scope, &err), &err)) return EXPECT_DONE();
    must(device->cuda.cuEventCreate(&t.begin, CU_EVENT_DEFAULT), "cuEventCreate");
    must(device->cuda.cuEventCreate(&t.end, CU_EVENT_DEFAULT), "cuEventCreate");
    printf("%s: 50,000 images of 32x32x3, gathered in random order, cropped, mirrored, scaled\n",
           iter__device_text(device));
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
        perf_case(&t, &programs[i], texts[i]);
    const iter__pack_program tiny = {.in_dtype = ITER_U8,
                                     .out_dtype = ITER_U8,
                                     .in_height = 1,
                                     .in_width = 4,
                                     .out_height = 1,
                                     .out_width = 4,
                                     .channels = 1};
    const iter__device_pack_args nothing = {.program = &tiny, .n_rows = 1};
    printf("a launch of one thread's work: %.2f us\n", perf(&t, perf_pack, &nothing, 100));
    must(device->cuda.cuEventDestroy(t.begin), "cuEventDestroy");
    must(device->cuda.cuEventDestroy(t.end), "cuEventDestroy");
    iter__cuda_leave(device, &scope);
    iter__device_free(device, t.from);
    iter__device_free(device, t.rows);
    iter__device_free(device, t.to);
    free(rows);
    return EXPECT_DONE();
}

/* ---- Main ------------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
    iter_error err = {0};
    const iter_status status = iter__device_open(0, &device, &err);
    if (status == ITER_EUNSUPPORTED) SKIP(err.message);
    if (!EXPECT_OK(status, &err)) return EXPECT_DONE();
    const fake_cuda *fake = fake_cuda_get();
    if (fake) fake_kernels_register(fake);
    printf("%s%s\n", iter__device_text(device), fake ? ", the fake one" : "");
    if (EXPECT_OK(iter__device_load(device, &err), &err)) {
        if (argc > 1 && strcmp(argv[1], "--perf") == 0 && !fake) return run_perf();
        test_random(fake ? 60 : 400);
        test_values();
        test_shapes(fake ? 50 : 10000);
        test_gather();
        if (!fake) test_large();
    }
    iter__device_close(device);
    if (fake && EXPECT_DONE() == 0) {
        printf("skipped: the driver is the fake, which ran the kernels' twins\n");
        return 77;
    }
    return EXPECT_DONE();
}
