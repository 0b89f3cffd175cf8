/*
 * widen_pairs.c - iter_convert of two builds of the library, in turns: exact casts of integers.
 *
 *     gcc -O2 -I. widen_pairs.c -o widen -ldl && ITER_CPU=avx2 ./widen BEFORE.so AFTER.so ELEMENTS
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <iter/convert.h>

enum { ROUNDS = 21 };

typedef iter_status prepare_function(const iter_desc *, const iter_desc *,
                                     const iter_convert_options *, iter_convert **, iter_error *);
typedef void run_function(const iter_convert *, const void *, void *, const void *);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static const iter_dtype pairs[][2] = {{ITER_U16, ITER_I32}, {ITER_U16, ITER_I64},
                                          {ITER_U8, ITER_I32},  {ITER_I16, ITER_I32},
                                          {ITER_U32, ITER_I64}, {ITER_BOOL, ITER_U8}};
    prepare_function *prepare[2];
    run_function *run[2];
    if (argc != 4) return 2;
    for (int k = 0; k < 2; k++) {
        void *library = dlopen(argv[1 + k], RTLD_NOW | RTLD_LOCAL);
        if (!library) return 1;
        *(void **)&prepare[k] = dlsym(library, "iter_convert_prepare");
        *(void **)&run[k] = dlsym(library, "iter_convert_run");
    }
    const int64_t n = atoll(argv[3]);
    void *in = calloc((size_t)n, 8), *out = calloc((size_t)n, 8);
    if (!in || !out) return 1;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const iter_desc from = {.dtype = pairs[i][0], .n_dims = 1, .dims = {n}};
        const iter_desc to = {.dtype = pairs[i][1], .n_dims = 1, .dims = {n}};
        const int64_t times = 20000000 / n + 1;
        double rates[2][ROUNDS];
        iter_convert *convert[2];
        iter_error err;
        for (int k = 0; k < 2; k++)
            if (prepare[k](&from, &to, NULL, &convert[k], &err) < 0) return 1;
        for (int round = 0; round < ROUNDS; round++)
            for (int k = 0; k < 2; k++) {
                const double start = now();
                for (int64_t t = 0; t < times; t++)
                    run[k](convert[k], in, out, NULL);
                rates[k][round] = (double)(n * times) / (now() - start) * 1e-9;
            }
        for (int k = 0; k < 2; k++)
            qsort(rates[k], ROUNDS, sizeof(double), compare);
        printf("%d to %d: %.2f, then %.2f G elements/s\n", (int)pairs[i][0], (int)pairs[i][1],
               rates[0][ROUNDS / 2], rates[1][ROUNDS / 2]);
    }
    return 0;
}
