/*
 * backend_widen.c - integers to wider integers, at every SIMD level: every pair of types, every
 * length up to three blocks, every alignment within an element and one byte beside it.
 *
 * The reference goes byte by byte: an element's bytes in the order of their value, then as many
 * bytes of its sign. Which pairs are exact is stated here as ranges of values, by hand.
 */
#include <stdlib.h>

#include <iter/convert.h>

#include "tests/support/expect.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"
#include "transforms/pack/widen.h"

/* log2 of the highest value plus 1, and whether there are negative ones. */
static const struct {
    iter_dtype dtype;
    int bits, is_signed;
} types[] = {
    {ITER_U8, 8, 0},   {ITER_I8, 7, 1},   {ITER_U16, 16, 0}, {ITER_I16, 15, 1}, {ITER_U32, 32, 0},
    {ITER_I32, 31, 1}, {ITER_U64, 64, 0}, {ITER_I64, 63, 1}, {ITER_BOOL, 1, 0},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static const struct {
    iter__cpu level;
    const char *name;
} levels[] = {{ITER_CPU_GENERIC, "generic"}, {ITER_CPU_AVX2, "avx2"}, {ITER_CPU_AVX512, "avx512"}};

static int use_level(int i) {
    setenv("ITER_CPU", levels[i].name, 1);
    return strcmp(iter_cpu_level(), levels[i].name) == 0;
}

/* Whether `to` has every value of `from`, and is another type. */
static int is_wider(int from, int to) {
    if (from == to || (types[from].is_signed && !types[to].is_signed)) return 0;
    return types[from].bits <= types[to].bits;
}

static void widen_slowly(int from, int to, const char *in, char *out, size_t n) {
    const size_t a = iter_dtype_bytes(types[from].dtype), b = iter_dtype_bytes(types[to].dtype);
    const int is_little = *(const char *)&(const uint16_t){1};
    for (size_t i = 0; i < n; i++) {
        const size_t top = is_little ? a - 1 : 0;
        const int negative = types[from].is_signed && (in[i * a + top] & 0x80);
        for (size_t k = 0; k < b; k++) { /* byte k in the order of value */
            char byte = negative ? (char)0xff : 0;
            if (k < a) byte = in[i * a + (is_little ? k : a - 1 - k)];
            if (types[from].dtype == ITER_BOOL && k == 0) byte = byte != 0;
            out[i * b + (is_little ? k : b - 1 - k)] = byte;
        }
    }
}

static uint64_t random_state = 19;

static int check_length(iter__widen *widen, int from, int to, size_t n, size_t shift) {
    const size_t a = iter_dtype_bytes(types[from].dtype), b = iter_dtype_bytes(types[to].dtype);
    guarded in = guarded_new(n * a, (int)(n & 1), shift);
    guarded out = guarded_new(n * b, (int)(n >> 1 & 1), shift);
    char *want = malloc(n * b + 1);
    if (!want) abort();
    for (size_t i = 0; i < n * a; i++)
        in.data[i] = (char)(reference_u64(&random_state) >> 32);
    mprotect(in.first, in.room, PROT_READ);
    widen_slowly(from, to, in.data, want, n);
    widen(out.data, in.data, n, in.data);
    const int ok = EXPECT(memcmp(out.data, want, n * b) == 0) && EXPECT(guarded_is_clean(&out));
    free(want);
    guarded_free(&in);
    guarded_free(&out);
    return ok;
}

static void test_pairs(void) {
    int n_pairs = 0;
    for (int i = 0; i < (int)(sizeof(levels) / sizeof(levels[0])); i++)
        for (int from = 0; use_level(i) && from < TYPES; from++)
            for (int to = 0; to < TYPES; to++) {
                iter__widen *widen =
                    iter__widen_get(levels[i].level, types[from].dtype, types[to].dtype);
                int ok = EXPECT_EQ(widen != NULL, is_wider(from, to));
                for (size_t n = 0; ok && widen && n <= 200; n++)
                    ok = check_length(widen, from, to, n, n % 9);
                if (!ok)
                    fprintf(stderr, "  %s to %s, %s\n", iter_dtype_text(types[from].dtype),
                            iter_dtype_text(types[to].dtype), levels[i].name);
                n_pairs += widen != NULL && i == 0;
            }
    EXPECT_EQ(n_pairs, 26);
}

/* Floats have no place in these tables. */
static void test_floats(void) {
    static const iter_dtype floats[] = {ITER_F16, ITER_BF16, ITER_F32, ITER_F64};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < TYPES; k++) {
            EXPECT(!iter__widen_get(ITER_CPU_GENERIC, floats[i], types[k].dtype));
            EXPECT(!iter__widen_get(ITER_CPU_GENERIC, types[k].dtype, floats[i]));
        }
}

int main(void) {
    for (int i = 0; i < (int)(sizeof(levels) / sizeof(levels[0])); i++)
        if (!use_level(i)) printf("not on this machine: %s\n", levels[i].name);
    test_pairs();
    test_floats();
    return EXPECT_DONE();
}
