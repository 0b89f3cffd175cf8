/*
 * test_cpu_backend.c - the cpu backend apart from its numbers: what a step changes in the caller's
 * threads, what happens if oneDNN has no memory, and how much memory it reports.
 */
#include "tests/support/engine_drive.h"

#if defined(ITER_HAVE_DNNL)

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

TestSuite(cpu_backend, .fini = engine_no_leak, .timeout = 280);

static iter_trainer *trainer_on(const char *model, iter_loader *loader, uint32_t threads) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_trainer *trainer;
    iter_error err = {0};
    opt.backend = "cpu";
    opt.optimizer = "adam:lr=0.01";
    opt.threads = threads;
    cr_assert_eq(try_trainer(model, loader, opt, &trainer, &err), ITER_OK, "%s", err.message);
    return trainer;
}

static iter_loader *points(uint32_t batch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch;
    return clouds(opt);
}

/* Sequences of ids 0 to 29, 7 long. */
static iter_loader *sentences(uint32_t batch) {
    static int32_t ids[24][7];
    static int64_t labels[24];
    iter_rng rng = iter_rng_at(3, 0, 0);
    for (int i = 0; i < 24; i++) {
        labels[i] = i % 2;
        for (int t = 0; t < 7; t++)
            ids[i][t] = (int32_t)(iter_rng_u32(&rng) % 30);
    }
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_I32, "", ids, 24, 7),
                                 ARRAY(ITER_LABEL, ITER_I64, "", labels, 24)};
    return loader_of(arrays, 2, batch, ITER_LAST_KEEP);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static atomic_int n_signals;

static void on_alarm(int number) {
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

static void alarms(long us) {
    const struct itimerval every = {{0, us}, {0, us}};
    cr_assert_eq(setitimer(ITIMER_REAL, &every, NULL), 0);
}

/* A signal handler's frame is put below the stack pointer, which in oneDNN's products of matrices
 * points into a buffer on the heap. */
Test(cpu_backend, signals_do_not_write_into_the_heap) {
    static float rows[256][784];
    static uint8_t labels[256];
    const iter_array arrays[] = {ARRAY(ITER_DATA, ITER_F32, "", rows, 256, 784),
                                 ARRAY(ITER_LABEL, ITER_U8, "", labels, 256)};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigset_t before, after;
    iter_error err = {0};
    iter_result result;
    for (int i = 0; i < 256 * 784; i++)
        rows[i / 784][i % 784] = (float)(i % 97) / 97;
    for (int i = 0; i < 256; i++)
        labels[i] = (uint8_t)(i % 10);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        iter_loader *loader = loader_of(arrays, 2, 64, ITER_LAST_KEEP);
        iter_trainer *trainer = trainer_on("dense:128 | relu | dense:64 | relu | dense:10 | "
                                           "softmax-cross-entropy",
                                           loader, threads);
        alarms(200);
        /* If the machine is busy few signals arrive: at most one is pending, however many came in a
         * step. */
        const int enough = 30 * (int)threads;
        for (int epoch = 0; epoch < 150 || (epoch < 20000 && atomic_load(&n_signals) < enough);
             epoch++) {
            cr_assert_eq(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), ITER_OK,
                         "%s", err.message);
        }
        alarms(0);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
    cr_assert_gt(atomic_load(&n_signals), 20, "too few signals to tell");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < 32; i++)
        cr_assert_eq(sigismember(&after, i), sigismember(&before, i), "signal %d", i);
}

/* ---- The caller's threads -------------------------------------------------------------------- */

#if defined(__x86_64__)

#define N_THREADS 3
#define FLAGS     0x3fu /* of MXCSR: exceptions that happened, not settings */

/* Sets the control word in all threads of a team. clang's runtime resets it before a region to what
 * the first thread had. */
static void set_controls(unsigned control) {
#if defined(_OPENMP)
#pragma omp parallel num_threads(N_THREADS)
#endif
    _mm_setcsr(control);
    _mm_setcsr(control);
}

static int n_controls_other_than(unsigned control) {
    int n = 0;
#if defined(_OPENMP)
#pragma omp parallel num_threads(N_THREADS) reduction(+ : n)
#endif
    n += (_mm_getcsr() & ~FLAGS) != control;
    return n;
}

Test(cpu_backend, floating_point_control_survives_a_step) {
    const unsigned before = _mm_getcsr(), plain = 0x1f80;
    /* The usual one; without denormals; rounding towards zero. */
    const unsigned controls[] = {plain, plain | 0x8040, plain | 0x6000};
    iter_loader *loader = points(20);
    iter_trainer *trainer =
        trainer_on("dense:900 | tanh | dense:3 | softmax-cross-entropy", loader, N_THREADS);
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        iter_error err = {0};
        iter_batch *batch = next_batch(loader);
        set_controls(controls[i]);
        const iter_status status = iter_trainer_step(trainer, batch, NULL, &err);
        const int n_others = n_controls_other_than(controls[i]);
        set_controls(before);
        cr_assert_eq(status, ITER_OK, "%s", err.message);
        cr_expect_eq(n_others, 0, "%d threads have another control word than %x", n_others,
                     controls[i]);
        iter_batch_unref(batch);
    }
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

#endif

/* Sum and number of the ids of this process's threads. */
static void list_threads(uint64_t out[2]) {
    DIR *folder = opendir("/proc/self/task");
    cr_assert(folder);
    out[0] = out[1] = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') {
            out[0] += strtoull(entry->d_name, NULL, 10);
            out[1]++;
        }
    closedir(folder);
}

/* Layers of different sizes use different numbers of threads. */
Test(cpu_backend, steps_neither_start_nor_end_threads) {
    iter_loader *loader = points(20);
    iter_trainer *trainer =
        trainer_on("dense:1000 | relu | dense:60 | dense:3 | softmax-cross-entropy", loader, 4);
    uint64_t first[2], later[2];
    iter_batch *batch = next_batch(loader);
    iter_error err = {0};
    cr_assert_eq(iter_trainer_step(trainer, batch, NULL, &err), ITER_OK, "%s", err.message);
    list_threads(first);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(iter_trainer_step(trainer, batch, NULL, &err), ITER_OK, "%s", err.message);
    list_threads(later);
    cr_expect_eq(first[1], later[1]);
    cr_expect_eq(first[0], later[0]);
    iter_batch_unref(batch);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* ---- If oneDNN has no memory ----------------------------------------------------------------- */

/* Called instead of oneDNN's own function. Its status is an enum whose 1 is out of memory. */
typedef int sgemm_fn(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                     const float *, int64_t, float, float *, int64_t);
sgemm_fn dnnl_sgemm;
static atomic_long n_products, fails_at = -1;

int dnnl_sgemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
               int64_t ldc) {
    static sgemm_fn *_Atomic real;
    sgemm_fn *call = real;
    if (!call) {
        void *found = dlsym(RTLD_NEXT, "dnnl_sgemm");
        memcpy(&call, &found, sizeof(call));
        real = call;
    }
    if (atomic_fetch_add(&n_products, 1) == fails_at) {
        for (int64_t i = 0; i < m; i++) /* arbitrary values */
            memset(c + i * ldc, 0x7f, (size_t)n * sizeof(*c));
        return 1;
    }
    return call(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void expect_same_weights(iter_trainer *a, iter_trainer *b, const char *when, long at) {
    for (int32_t p = 0; p < iter_trainer_n_params(a); p++) {
        const size_t bytes = iter_desc_bytes(&iter_trainer_param(a, p)->desc);
        void *x = malloc(bytes), *y = malloc(bytes);
        iter_error err = {0};
        cr_assert_eq(iter_trainer_get(a, p, ITER_VALUE_WEIGHT, x, bytes, &err), ITER_OK);
        cr_assert_eq(iter_trainer_get(b, p, ITER_VALUE_WEIGHT, y, bytes, &err), ITER_OK);
        cr_expect_eq(memcmp(x, y, bytes), 0, "%s product %ld: %s", when, at,
                     iter_trainer_param(a, p)->name);
        free(x);
        free(y);
    }
}

/* Makes each product of a step fail in turn: the step must fail, and change nothing. */
static void walk_products(const char *model, iter_loader *loader, uint32_t threads) {
    iter_trainer *good = trainer_on(model, loader, threads);
    iter_trainer *other = trainer_on(model, loader, threads);
    iter_batch *batch = next_batch(loader);
    iter_error err = {0};
    iter_result want, got;
    long at = 0;
    for (;; at++) {
        n_products = 0;
        fails_at = at;
        const iter_status status = iter_trainer_step(other, batch, NULL, &err);
        fails_at = -1;
        if (n_products <= at) {
            cr_assert_eq(status, ITER_OK, "%s", err.message);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM, "%s, product %ld: %s", model, at, err.message);
        cr_expect(strstr(err.message, "oneDNN has no memory for a product"), "%s", err.message);
        expect_same_weights(good, other, "after", at);
        cr_assert_eq(iter_trainer_step(good, batch, &want, &err), ITER_OK, "%s", err.message);
        cr_assert_eq(iter_trainer_step(other, batch, &got, &err), ITER_OK, "%s", err.message);
        cr_expect_eq(want.loss, got.loss);
        expect_same_weights(good, other, "a step after", at);
    }
    cr_expect_geq(at, 5);
    cr_expect_eq(iter_trainer_describe(good).n_steps + 1, iter_trainer_describe(other).n_steps);
    n_products = fails_at = 0;
    cr_expect_eq(iter_trainer_test(other, batch, &got, &err), ITER_ENOMEM);
    fails_at = -1;
    iter_batch_unref(batch);
    iter_trainer_destroy(good);
    iter_trainer_destroy(other);
    iter_loader_unref(loader);
}

Test(cpu_backend, a_product_without_memory_fails_the_step) {
    for (uint32_t threads = 1; threads <= 2; threads++) {
        walk_products("dense:900 | relu | dense:20 | dense:3 | softmax-cross-entropy", points(20),
                      threads);
        walk_products("embedding:30,8 | gru:9 | last-step | dense:2 | softmax-cross-entropy",
                      sentences(8), threads);
        walk_products("embedding:30,8 | tanh | gru:9,reset=before | mean-steps | dense:2 | "
                      "softmax-cross-entropy",
                      sentences(8), threads);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

Test(cpu_backend, says_how_much_memory_it_has) {
    static const char *const models[] = {
        "dense:400 | relu | dense:3 | softmax-cross-entropy",
        "embedding:3000,50 | gru:64 | last-step | dense:2 | softmax-cross-entropy",
        "embedding:3000,50 | tanh | gru:64 | flatten | dense:2 | softmax-cross-entropy",
    };
    for (int i = 0; i < 3; i++) {
        iter_loader *loader = i == 0 ? points(20) : sentences(8);
        const long before = iter__engine_live_bytes();
        iter_trainer *trainer = trainer_on(models[i], loader, 2);
        const double taken = (double)(iter__engine_live_bytes() - before);
        const double told = (double)iter_trainer_describe(trainer).n_bytes;
        /* The difference, some kilobytes, is text and the model. */
        cr_expect(told <= taken && told > taken - 32768 && taken > 65536, "%s: %.0f of %.0f",
                  models[i], told, taken);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

#else

Test(cpu_backend, none) {
    cr_skip("built without oneDNN");
}

#endif
