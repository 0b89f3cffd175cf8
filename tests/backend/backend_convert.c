/*
 * backend_convert.c - iter_convert at every SIMD level against naive loops: any type to any, any
 * order of axes, any strides.
 *
 * All levels must give the same bits. They must write nothing between the elements of a strided
 * output, and neither read nor write outside. The roundings into f16, bf16 and integers are checked
 * on all f16 values and around every rounding boundary.
 */
#include <math.h>
#include <stdlib.h>

#include <iter/convert.h>

#include "tests/support/expect.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

#define LEVELS 4

static const char *const levels[LEVELS] = {"generic", "avx2", "avx512", "neon"};

static int use_level(int level) {
    setenv("ITER_CPU", levels[level], 1);
    return strcmp(iter_cpu_level(), levels[level]) == 0;
}

static const iter_dtype types[] = {ITER_U8,  ITER_I8,  ITER_U16, ITER_I16, ITER_U32,
                                   ITER_I32, ITER_U64, ITER_I64, ITER_F16, ITER_BF16,
                                   ITER_F32, ITER_F64, ITER_BOOL};
#define N_TYPES ((int)(sizeof(types) / sizeof(types[0])))

/* ---- One case against loops ------------------------------------------------------------------ */

typedef struct convert_case {
    iter_desc in, out;
    int32_t axes[ITER_MAX_DIMS]; /* dimension i of the output is axes[i] of the input */
    int64_t in_strides[ITER_MAX_DIMS], out_strides[ITER_MAX_DIMS];
    int32_t n_channels; /* 0 = no factors */
    int32_t channel;    /* dimension of the input that they belong to, or -1 */
    double scale[80], bias[80];
} convert_case;

/* The lowest and highest element offset that the strides reach, relative to the first element. */
static void reach(const iter_desc *desc, const int64_t *strides, int64_t *low, int64_t *high) {
    *low = *high = 0;
    for (int32_t i = 0; i < desc->n_dims; i++) {
        const int64_t far = (desc->dims[i] - 1) * strides[i];
        if (far < 0)
            *low += far;
        else
            *high += far;
    }
}

/* The index vector of element number i in C order. */
static void unravel(const iter_desc *desc, int64_t i, int64_t *index) {
    for (int32_t d = desc->n_dims - 1; d >= 0; d--) {
        index[d] = i % desc->dims[d];
        i /= desc->dims[d];
    }
}

static int64_t dot(const iter_desc *desc, const int64_t *index, const int64_t *strides) {
    int64_t sum = 0;
    for (int32_t d = 0; d < desc->n_dims; d++)
        sum += index[d] * strides[d];
    return sum;
}

static void say_case(const convert_case *test, const char *level) {
    char a[128], b[128];
    fprintf(stderr, "  %s to %s, %d factors, %s\n", iter_desc_text(&test->in, a, sizeof(a)),
            iter_desc_text(&test->out, b, sizeof(b)), (int)test->n_channels, level);
}

static int check_elements(const convert_case *test, const char *in, const char *out) {
    int64_t at[ITER_MAX_DIMS], from[ITER_MAX_DIMS] = {0};
    for (int64_t i = 0; i < iter_desc_elements(&test->out); i++) {
        unravel(&test->out, i, at);
        for (int32_t d = 0; d < test->out.n_dims; d++)
            from[test->axes[d]] = at[d];
        reference_value want = {
            reference_load(test->in.dtype, in, dot(&test->in, from, test->in_strides)), 1, 0};
        if (test->n_channels > 0) {
            const int64_t c = test->n_channels == 1 ? 0 : from[test->channel];
            want.a = test->scale[c];
            want.b = test->bias[c];
        }
        const double got =
            reference_load(test->out.dtype, out, dot(&test->out, at, test->out_strides));
        if (!EXPECT(reference_is_close(test->out.dtype, got, want))) {
            fprintf(stderr, "  element %lld: got %.17g, want %.17g * %.9g + %.9g\n", (long long)i,
                    got, want.x, want.a, want.b);
            return 0;
        }
    }
    return 1;
}

/* Elements that the output's strides skip must still have the pattern: counts those that
 * changed. */
static int64_t count_changed(const guarded *out, size_t element, const char *used) {
    int64_t n = 0;
    for (size_t i = 0; i < out->bytes / element; i++)
        for (size_t b = 0; b < element; b++)
            if (!used[i] && (unsigned char)out->data[i * element + b] != 0xa5) n++;
    return n;
}

static int run_level(const convert_case *test, const guarded *in, int64_t in_low, char **first,
                     int with_next) {
    iter_error err = {0};
    iter_convert *convert = NULL;
    iter_convert_options o = ITER_CONVERT_OPTIONS_INIT;
    int64_t low, high;
    const size_t in_element = iter_dtype_bytes(test->in.dtype);
    const size_t element = iter_dtype_bytes(test->out.dtype);
    o.axes = test->axes;
    o.in_strides = test->in_strides;
    o.out_strides = test->out_strides;
    if (test->n_channels > 0) {
        o.scale = test->scale;
        o.bias = test->bias;
        o.n_channels = test->n_channels;
    }
    if (!EXPECT_OK(iter_convert_prepare(&test->in, &test->out, &o, &convert, &err), &err)) return 0;
    reach(&test->out, test->out_strides, &low, &high);
    const size_t n = (size_t)(high - low + 1);
    guarded out = guarded_new(n * element, with_next, with_next ? element : 0);
    char *used = calloc(n, 1);
    if (!used) abort();
    for (int64_t i = 0; i < iter_desc_elements(&test->out); i++) {
        int64_t at[ITER_MAX_DIMS];
        unravel(&test->out, i, at);
        used[dot(&test->out, at, test->out_strides) - low] = 1;
    }
    const char *source = in->data - in_low * (int64_t)in_element;
    char *target = out.data - low * (int64_t)element;
    iter_convert_run(convert, source, target, with_next ? source : NULL);
    int ok = EXPECT(guarded_is_clean(&out)) && EXPECT_EQ(count_changed(&out, element, used), 0);
    if (!*first) {
        ok = ok && check_elements(test, source, target);
        *first = malloc(out.bytes);
        if (!*first) abort();
        memcpy(*first, out.data, out.bytes);
    }
    ok = ok && EXPECT(memcmp(*first, out.data, out.bytes) == 0);
    free(used);
    guarded_free(&out);
    iter_convert_destroy(convert);
    return ok;
}

static uint64_t random_state = 5;

static void run_case(const convert_case *test) {
    char *first = NULL;
    int64_t low, high;
    const size_t element = iter_dtype_bytes(test->in.dtype);
    reach(&test->in, test->in_strides, &low, &high);
    guarded in = guarded_new((size_t)(high - low + 1) * element, (int)(random_state & 1),
                             (size_t)(random_state >> 1 & 3));
    for (int64_t i = 0; i <= high - low; i++)
        reference_random(&random_state, test->in.dtype, in.data + (size_t)i * element);
    mprotect(in.first, in.room, PROT_READ);
    for (int level = 0; level < LEVELS; level++)
        for (int next = 0; use_level(level) && next < 2; next++)
            if (!run_level(test, &in, low, &first, next)) say_case(test, levels[level]);
    free(first);
    guarded_free(&in);
}

/* ---- The cases ------------------------------------------------------------------------------- */

static void dense(const iter_desc *desc, int64_t *strides) {
    int64_t stride = 1;
    for (int32_t i = desc->n_dims - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= desc->dims[i];
    }
}

/* Makes a case over `dims`; dimension i of the output is axes[i] of the input. */
static convert_case new_case(iter_dtype in, iter_dtype out, int32_t n, const int64_t *dims,
                             const int32_t *axes) {
    convert_case test = {.channel = -1};
    test.in.dtype = in;
    test.out.dtype = out;
    test.in.n_dims = test.out.n_dims = n;
    for (int32_t i = 0; i < n; i++)
        test.in.dims[i] = dims[i];
    for (int32_t i = 0; i < n; i++) {
        test.axes[i] = axes[i];
        test.out.dims[i] = dims[axes[i]];
    }
    dense(&test.in, test.in_strides);
    dense(&test.out, test.out_strides);
    return test;
}

/* Factors whose products are exact for small numbers, different for each channel. */
static void add_factors(convert_case *test, int32_t channel) {
    static const char letters[] = "ABXYZUVW";
    test->channel = channel;
    test->n_channels = channel < 0 ? 1 : (int32_t)test->in.dims[channel];
    for (int i = 0; i < test->n_channels; i++) {
        test->scale[i] = 0.25 * (1 + i % 3);
        test->bias[i] = (double)(i % 5) - 2;
    }
    for (int32_t i = 0; i < test->in.n_dims; i++)
        test->in.layout[i] = i == channel ? 'C' : letters[i];
    for (int32_t i = 0; i < test->in.n_dims; i++)
        test->out.layout[i] = test->in.layout[test->axes[i]];
}

static void test_types(void) {
    static const int64_t dims[] = {3, 5, 37};
    static const int32_t keep[] = {0, 1, 2}, turn[] = {1, 2, 0}, swap[] = {0, 2, 1};
    for (int i = 0; i < N_TYPES; i++)
        for (int j = 0; j < N_TYPES; j++) {
            convert_case test = new_case(types[i], types[j], 3, dims, keep);
            run_case(&test);
            test = new_case(types[i], types[j], 3, dims, turn);
            run_case(&test);
            test = new_case(types[i], types[j], 3, dims, swap);
            run_case(&test);
            if (iter_dtype_bytes(types[i]) > 2) continue; /* above 24 bits f32 is not exact */
            test = new_case(types[i], types[j], 3, dims, turn);
            add_factors(&test, 0);
            run_case(&test);
            test = new_case(types[i], types[j], 3, dims, keep);
            add_factors(&test, -1);
            run_case(&test);
        }
}

/* Batches between NCHW and NHWC, from few channels to many, for which kernels differ. */
static void test_images(void) {
    static const iter_dtype fast[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};
    static const int64_t channels[] = {1, 2, 3, 4, 5, 16, 67};
    static const int32_t to_nhwc[] = {0, 2, 3, 1}, to_nchw[] = {0, 3, 1, 2}, keep[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int c = 0; c < 7; c++) {
                const int64_t nchw[] = {2, channels[c], 5, 7 + 9 * (c % 3)};
                const int64_t nhwc[] = {2, 5, 7 + 9 * (c % 3), channels[c]};
                convert_case test = new_case(fast[i], fast[j], 4, nchw, to_nhwc);
                run_case(&test);
                add_factors(&test, 1);
                run_case(&test);
                test = new_case(fast[i], fast[j], 4, nhwc, to_nchw);
                add_factors(&test, 3);
                run_case(&test);
                test = new_case(fast[i], fast[j], 4, nhwc, keep);
                add_factors(&test, 3);
                run_case(&test);
                test = new_case(fast[i], fast[j], 4, nchw, keep);
                add_factors(&test, 1);
                run_case(&test);
            }
}

/* Any rank, order, gap between elements and direction. */
static void test_random(int rounds) {
    for (int round = 0; round < rounds; round++) {
        int64_t dims[ITER_MAX_DIMS];
        int32_t axes[ITER_MAX_DIMS];
        const int32_t n = (int32_t)(reference_u64(&random_state) % 6);
        int64_t room = 4000;
        for (int32_t i = 0; i < n; i++) {
            dims[i] = 1 + (int64_t)(reference_u64(&random_state) % (i % 2 ? 40 : 6));
            if (reference_u64(&random_state) % 4 == 0) dims[i] = 3;
            if (dims[i] > room) dims[i] = 1;
            room /= dims[i];
            axes[i] = i;
        }
        for (int32_t i = n - 1; i > 0; i--) {
            const int32_t j = (int32_t)(reference_u64(&random_state) % (uint64_t)(i + 1));
            const int32_t t = axes[i];
            axes[i] = axes[j];
            axes[j] = t;
        }
        const int exact = round % 2;
        const iter_dtype in = exact ? ITER_U8 : types[reference_u64(&random_state) % N_TYPES];
        const iter_dtype out = types[reference_u64(&random_state) % N_TYPES];
        convert_case test = new_case(in, out, n, dims, axes);
        if (exact && n > 0)
            add_factors(&test, (int32_t)(reference_u64(&random_state) % (uint64_t)n));
        for (int32_t i = 0; i < n; i++) { /* gaps, and sometimes backwards */
            if (reference_u64(&random_state) % 3 == 0)
                for (int32_t k = 0; k <= i; k++)
                    test.in_strides[k] *= 2;
            if (reference_u64(&random_state) % 3 == 0)
                for (int32_t k = 0; k <= i; k++)
                    test.out_strides[k] *= 3;
            if (reference_u64(&random_state) % 5 == 0) test.in_strides[i] *= -1;
            if (reference_u64(&random_state) % 5 == 0) test.out_strides[i] *= -1;
        }
        run_case(&test);
    }
}

/* A broadcast source: stride 0. */
static void test_broadcast(void) {
    static const int64_t dims[] = {4, 3, 20};
    static const int32_t keep[] = {0, 1, 2};
    convert_case test = new_case(ITER_U8, ITER_F32, 3, dims, keep);
    test.in_strides[0] = 0;
    run_case(&test);
    test.in_strides[2] = 0;
    run_case(&test);
}

/* ---- Roundings ------------------------------------------------------------------------------- */

/* Converts n numbers of one type, flat. */
static void convert_flat(iter_dtype in, const void *from, iter_dtype out, void *to, int64_t n) {
    iter_error err = {0};
    const iter_desc a = {.dtype = in, .n_dims = 1, .dims = {n}};
    const iter_desc b = {.dtype = out, .n_dims = 1, .dims = {n}};
    const iter_tensor source = iter_tensor_dense(&a, (void *)(uintptr_t)from);
    const iter_tensor target = iter_tensor_dense(&b, to);
    EXPECT_OK(iter_convert_tensor(&source, &target, NULL, NULL, 0, &err), &err);
}

static int same_number(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* All 65,536 bit patterns to f32 and f64, and back to themselves. */
static void test_all_halves(void) {
    static uint16_t all[65536], back[65536];
    static float f32[65536];
    static double f64[65536];
    static const iter_dtype halves[] = {ITER_F16, ITER_BF16};
    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int level = 0; level < LEVELS; level++)
        for (int t = 0; use_level(level) && t < 2; t++) {
            int bad = 0;
            convert_flat(halves[t], all, ITER_F32, f32, 65536);
            convert_flat(halves[t], all, ITER_F64, f64, 65536);
            convert_flat(ITER_F32, f32, halves[t], back, 65536);
            for (int i = 0; i < 65536; i++) {
                const double want = reference_load(halves[t], all, i);
                if (!same_number(f32[i], want) || !same_number(f64[i], want)) bad++;
                if (isnan(want) ? !isnan(reference_load(halves[t], back, i)) : back[i] != all[i])
                    bad++;
            }
            EXPECT_EQ(bad, 0);
        }
}

/* f32 and f64 around the value, the middle and the next value of every half: rounded once, ties to
 * even. */
static void test_half_boundaries(void) {
    static const iter_dtype halves[] = {ITER_F16, ITER_BF16};
    enum { PER = 6, N = 32767 * PER };
    double *f64 = malloc(N * sizeof(*f64));
    float *f32 = malloc(N * sizeof(*f32));
    uint16_t *got = malloc(N * sizeof(*got));
    if (!f64 || !f32 || !got) abort();
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 32767; i++) {
            const uint16_t pair[2] = {(uint16_t)i, (uint16_t)(i + 1)};
            double low = reference_load(halves[t], pair, 0),
                   high = reference_load(halves[t], pair, 1);
            if (!isfinite(low)) low = 1;
            if (!isfinite(high)) high = low + reference_ulp(halves[t], low);
            const double middle = (low + high) / 2;
            const double x[PER] = {low,     middle, nextafter(middle, low), nextafter(middle, high),
                                   -middle, high};
            for (int k = 0; k < PER; k++) {
                f64[i * PER + k] = x[k];
                f32[i * PER + k] = k == 2   ? nextafterf((float)middle, (float)low)
                                   : k == 3 ? nextafterf((float)middle, INFINITY)
                                            : (float)x[k];
            }
        }
        for (int level = 0; level < LEVELS; level++) {
            int bad = 0;
            if (!use_level(level)) continue;
            convert_flat(ITER_F64, f64, halves[t], got, N);
            for (int i = 0; i < N; i++)
                bad += !same_number(reference_load(halves[t], got, i),
                                    reference_round(halves[t], f64[i]));
            EXPECT_EQ(bad, 0);
            convert_flat(ITER_F32, f32, halves[t], got, N);
            for (int i = 0; i < N; i++)
                bad += !same_number(reference_load(halves[t], got, i),
                                    reference_round(halves[t], f32[i]));
            EXPECT_EQ(bad, 0);
        }
    }
    free(f64);
    free(f32);
    free(got);
}

/* Saturation, ties and NaN into integers; NaN, infinities and -0 into floats. */
static void test_specials(void) {
    static const double x[] = {0.0,    -0.0,   0.5,   1.5,     2.5,      -0.5,         -1.5,
                               126.5,  127.5,  128.5, 254.5,   255.49,   255.5,        256,
                               -127.5, -128.5, -129,  32767.5, 65535.5,  2147483647.5, 4294967295.5,
                               1e19,   -1e19,  1e30,  -1e30,   INFINITY, -INFINITY,    NAN};
    enum { N = sizeof(x) / sizeof(x[0]) };
    float f32[N];
    char out[N * 8];
    for (int i = 0; i < N; i++)
        f32[i] = (float)x[i];
    for (int level = 0; level < LEVELS; level++)
        for (int t = 0; use_level(level) && t < N_TYPES; t++)
            for (int wide = 0; wide < 2; wide++) {
                convert_flat(wide ? ITER_F64 : ITER_F32, wide ? (const void *)x : (const void *)f32,
                             types[t], out, N);
                for (int i = 0; i < N; i++) {
                    const double from = wide ? x[i] : (double)f32[i];
                    const double want = reference_round(types[t], from);
                    const double got = reference_load(types[t], out, i);
                    const int is_integer = t < 8 || types[t] == ITER_BOOL;
                    if (!EXPECT(is_integer ? got == want : same_number(got, want)))
                        fprintf(stderr, "  %g to %s: got %.17g, want %.17g\n", from,
                                iter_dtype_text(types[t]), got, want);
                }
            }
}

/* For arbitrary bits, NaN payloads and infinities included, the levels agree. */
static void test_bits(void) {
    static const iter_dtype fast[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};
    enum { N = 3 * 1024 };
    static uint64_t source[N / 2];
    static char first[4 * N], out[4 * N];
    const double scale[3] = {0.0173, -3.1, 1e-3}, bias[3] = {-1.7, 0.3, 1e-39};
    for (size_t i = 0; i < sizeof(source) / sizeof(source[0]); i++)
        source[i] = reference_u64(&random_state);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int way = 0; way < 4; way++) {
                const iter_desc chw = {0, 3, {3, 32, 32}, 0, "CHW"},
                                hwc = {0, 3, {32, 32, 3}, 0, "HWC"};
                iter_desc a = way & 1 ? hwc : chw, b = way & 2 ? hwc : chw;
                a.dtype = fast[i];
                b.dtype = fast[j];
                const iter_tensor in = iter_tensor_dense(&a, source);
                const iter_tensor to = iter_tensor_dense(&b, out);
                for (int level = 0; level < LEVELS; level++) {
                    iter_error err = {0};
                    if (!use_level(level)) continue;
                    EXPECT_OK(iter_convert_tensor(&in, &to, scale, bias, 3, &err), &err);
                    if (level == 0) memcpy(first, out, sizeof(first));
                    EXPECT(memcmp(first, out, iter_desc_bytes(&b)) == 0);
                }
            }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void expect_refused(const iter_desc *in, const iter_desc *out, const iter_convert_options *o,
                           const char *part) {
    iter_error err = {0};
    iter_convert *convert = NULL;
    EXPECT_ERROR(iter_convert_prepare(in, out, o, &convert, &err), ITER_EINVAL, &err, part);
    EXPECT(convert == NULL);
}

static void test_refusals(void) {
    const iter_desc chw = {ITER_U8, 3, {3, 4, 5}, 0, "CHW"},
                    hwc = {ITER_F32, 3, {4, 5, 3}, 0, "HWC"};
    const iter_desc flat = {ITER_U8, 1, {60}, 0, ""}, list = {ITER_U8, 1, {ITER_VARIABLE}, 9, "T"};
    iter_convert_options o = ITER_CONVERT_OPTIONS_INIT;
    iter_desc other = hwc;
    const int32_t twice[] = {0, 0, 1};
    const double factors[2] = {1, 2};
    const int64_t zero[3] = {15, 3, 0};
    expect_refused(&chw, &flat, &o, "3 dimensions to 1");
    expect_refused(&list, &list, &o, "dimension 0 of the input is -1");
    other.dims[1] = 6;
    expect_refused(&chw, &other, &o, "dimension 1 of the output is 6, of the input 5");
    other = hwc;
    other.layout[0] = 'T';
    expect_refused(&chw, &other, &o, "no 'T'");
    other = hwc;
    other.dtype = ITER_DTYPE_NONE;
    expect_refused(&chw, &other, &o, "the output has no known element type");
    o.axes = twice;
    expect_refused(&chw, &hwc, &o, "not a permutation");
    o.axes = NULL;
    o.scale = factors;
    expect_refused(&chw, &hwc, &o, "n_channels is 0");
    o.n_channels = 2;
    expect_refused(&chw, &hwc, &o, "2 channels, but dimension 'C' is 3");
    expect_refused(&flat, &flat, &o, "dimension 'C'");
    o.scale = NULL;
    o.out_strides = zero;
    expect_refused(&chw, &hwc, &o, "stride 2 of the output is 0");
}

int main(void) {
    for (int level = 0; level < LEVELS; level++)
        if (!use_level(level)) printf("not on this machine: %s\n", levels[level]);
    test_types();
    test_images();
    test_random(600);
    test_broadcast();
    test_all_halves();
    test_half_boundaries();
    test_specials();
    test_bits();
    test_refusals();
    return EXPECT_DONE();
}
