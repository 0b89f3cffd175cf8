/*
 * backend_cuda_trainer.c - the cuda backend over epochs of a loader: asynchrony, graphs, errors
 * that are reported later, checkpoints between backends; and every call of the driver, cuDNN and
 * cuBLAS failing once.
 *
 * Runs on the fakes (LD_LIBRARY_PATH), and what needs no fake also on a GPU.
 */
#include <math.h>
#include <unistd.h>

#include <iter/engine.h>

#include "engine/engine_memory.h"
#include "tests/fake/fake_cuda.h"
#include "tests/fake/fake_library.h"
#include "tests/support/expect_layers.h"
#include "tests/support/trainer_case.h"

static const fake_cuda *fake; /* NULL = a real GPU */
static const fake_library *dnn, *blas;
static const engine_backend_ops *cuda;
static const layer_form plain_form = {0};

/* Resets all fakes. */
static void reset_fakes(void) {
    bool on_fake;
    fake->reset();
    dnn->reset();
    blas->reset();
    layer_backend_set_fake(&on_fake);
}

typedef struct outcome {
    iter_result epochs[3], test;
    int64_t n;
    float weights[MOST_WEIGHTS];
} outcome;

static void run_epochs(iter_trainer *trainer, iter_loader *loader, int n, outcome *out) {
    iter_error err = {0};
    for (int i = 0; i < n; i++) {
        EXPECT_OK(iter_trainer_epoch(trainer, loader, NULL, NULL, &out->epochs[i], &err), &err);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    out->n = get_weights(trainer, out->weights, MOST_WEIGHTS);
}

static void train(const char *model, const char *backend, int32_t memory, int32_t precision,
                  outcome *out) {
    iter_loader *loader = open_loader(model, memory);
    iter_trainer *trainer = open_trainer(model, loader, backend, precision);
    iter_error err = {0};
    run_epochs(trainer, loader, 3, out);
    EXPECT_OK(iter_trainer_evaluate(trainer, loader, &out->test, &err), &err);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

static void expect_same(const outcome *got, const outcome *want, double most, const char *how) {
    double apart = 0, top = 0;
    if (!EXPECT_EQ(got->n, want->n)) return;
    for (int64_t i = 0; i < got->n; i++) {
        apart = fmax(apart, fabs((double)got->weights[i] - (double)want->weights[i]));
        top = fmax(top, fabs((double)want->weights[i]));
    }
    if (!EXPECT(apart <= most * top))
        fprintf(stderr, "  %s: weights are apart by %g of %g\n", how, apart, top);
    for (int i = 0; i < 4; i++) {
        const iter_result *a = i < 3 ? &got->epochs[i] : &got->test;
        const iter_result *b = i < 3 ? &want->epochs[i] : &want->test;
        EXPECT_EQ(a->n_rows, b->n_rows);
        EXPECT_EQ(a->n_steps, b->n_steps);
        if (!EXPECT(fabs(a->loss - b->loss) <= most * fmax(b->loss, 1)))
            fprintf(stderr, "  %s: losses %g and %g\n", how, a->loss, b->loss);
        if (most < 1e-3) EXPECT_EQ(a->n_correct, b->n_correct);
    }
}

/* ---- Epochs ---------------------------------------------------------------------------------- */

static outcome want, got;

static void test_epochs(const char *model) {
    train(model, "reference", ITER_MEMORY_HOST, 0, &want);
    train(model, "cuda", ITER_MEMORY_HOST, ITER_PRECISION_F32, &got);
    expect_same(&got, &want, 2e-4, model);
    train(model, "cuda", ITER_MEMORY_HOST, ITER_PRECISION_F16, &want);
    expect_same(&want, &got, 0.2, "f16");
    train(model, "cuda", ITER_MEMORY_PINNED, ITER_PRECISION_F32, &want);
    expect_same(&want, &got, 0, "pinned");
    train(model, "cuda", ITER_MEMORY_DEVICE, ITER_PRECISION_F32, &want);
    expect_same(&want, &got, 0, "on the device");
}

/* With graphs or call by call: the same bits. */
static void test_graphs(const char *model) {
    if (!fake) return;
    train(model, "cuda", ITER_MEMORY_HOST, 0, &want);
    reset_fakes();
    train(model, "cuda", ITER_MEMORY_HOST, 0, &got);
    /* 7 batches, the last one short; 3 epochs, the first call by call; the same for the test set */
    EXPECT_EQ(fake->calls("cuGraphLaunch"), 3 * 7 - 1 + 7 - 1);
    EXPECT_EQ(fake->calls("cuGraphInstantiateWithFlags"), 2);
    fake->fail("cuStreamBeginCapture", 0, CUDA_ERROR_NOT_SUPPORTED);
    train(model, "cuda", ITER_MEMORY_HOST, 0, &got);
    expect_same(&got, &want, 0, "without graphs");
    reset_fakes();
}

/* If cuDNN has no algorithm for a layer in NHWC, the whole net becomes NCHW, reports that, and
 * gives the same result. */
static void test_no_nhwc(int32_t precision, const char *says) {
    if (!fake) return;
    train(CNN, "cuda", ITER_MEMORY_HOST, precision, &want);
    dnn->fail("cudnnGetConvolutionForwardAlgorithm_v7", 1, 3000); /* of the second layer */
    train(CNN, "cuda", ITER_MEMORY_HOST, precision, &got);
    expect_same(&got, &want, precision >= ITER_PRECISION_F16 ? 0.2 : 1e-3, says);
    reset_fakes();
    dnn->fail("cudnnGetConvolutionForwardAlgorithm_v7", 1, 3000);
    iter_loader *loader = open_loader(CNN, ITER_MEMORY_HOST);
    iter_trainer *trainer = open_trainer(CNN, loader, "cuda", precision);
    EXPECT(strstr(iter_trainer_describe(trainer).backend, says));
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    reset_fakes();
}

typedef struct watch {
    uint64_t n, last_rows;
    iter_trainer *trainer;
} watch;

/* Reads the trainer's values in the middle of an epoch, and ends it. */
static bool look(void *user, const iter_result *so_far) {
    watch *w = user;
    static float weights[MOST_WEIGHTS];
    EXPECT_EQ(so_far->n_steps, ++w->n);
    if (w->n == 3) get_weights(w->trainer, weights, MOST_WEIGHTS); /* this call waits */
    EXPECT(so_far->n_rows >= w->last_rows && so_far->n_rows <= w->n * BATCH);
    if (w->n == 3) w->last_rows = so_far->n_rows;
    return w->n < 5;
}

static void test_progress(void) {
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_HOST);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    watch w = {.trainer = trainer};
    iter_result result;
    iter_error err = {0};
    EXPECT_EQ(iter_trainer_epoch(trainer, loader, look, &w, &result, &err), ITER_AGAIN);
    EXPECT_EQ(result.n_steps, 5);
    EXPECT_EQ(result.n_rows, 5 * BATCH);
    EXPECT_EQ(iter_trainer_describe(trainer).n_steps, 5);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* A step is queued while the device does nothing. */
static void test_asynchrony(void) {
    layer_case test;
    const layer_spec spec = {MLP, .batch = 4, .n_dims = 1, .dims = {6}};
    iter_error err = {0};
    if (!fake || !EXPECT(layer_case_plan(&spec, &test))) return;
    layer_case_fill(&test, 1);
    layer_machine *m = layer_alloc(1, sizeof(*m));
    if (EXPECT(layer_machine_open(m, &test, &plain_form, cuda, 1))) {
        engine_outcome out;
        engine_collected found;
        layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
        fake->hold(FAKE_CUDA_ALL, true);
        for (uint64_t step = 1; step < 3; step++) { /* as many as there are stages */
            m->batch.step = step;
            EXPECT_OK(cuda->run(m->state, &m->batch, ENGINE_RUN_TRAIN, &out, &err), &err);
            EXPECT(out.pending);
        }
        fake->hold(FAKE_CUDA_ALL, false);
        EXPECT_OK(cuda->collect(m->state, &found, &err), &err);
        EXPECT(isfinite(found.loss_sum) && found.loss_sum > 0);
        layer_machine_close(m);
    }
    free(m);
    layer_case_free(&test);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The fourth batch has a NaN: the weights are those after three steps, and the message names the
 * batch. */
static void test_bad_data(int32_t memory) {
    iter_loader *loader = open_loader(MLP, memory);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    static float before[MOST_WEIGHTS], after[MOST_WEIGHTS];
    iter_result result;
    iter_error err = {0};
    iter_batch *batch;
    uint64_t bad = 0;
    for (int i = 0; i < 4; i++) {
        if (!EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) exit(1);
        if (i < 3) EXPECT_OK(iter_trainer_step(trainer, batch, &result, &err), &err);
        bad = iter_batch_index(batch)[1];
        iter_batch_unref(batch);
    }
    const int64_t n = get_weights(trainer, before, MOST_WEIGHTS);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);

    const float good = points[bad][2];
    points[bad][2] = NAN;
    loader = open_loader(MLP, memory);
    trainer = open_trainer(MLP, loader, "cuda", 0);
    const iter_status status = iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err);
    EXPECT_ERROR(status, ITER_EFORMAT, &err, "step 3");
    char text[32];
    snprintf(text, sizeof(text), "%d, ", (int)bad);
    EXPECT_ERROR(status, ITER_EFORMAT, &err, text);
    EXPECT_EQ(result.n_rows, 3 * BATCH);
    EXPECT_EQ(iter_trainer_describe(trainer).n_steps, 3);
    EXPECT_EQ(get_weights(trainer, after, MOST_WEIGHTS), n);
    EXPECT(memcmp(before, after, (size_t)n * sizeof(float)) == 0);
    points[bad][2] = good;
    /* Training can go on. */
    EXPECT_OK(iter_loader_seek(loader, 1, 0, &err), &err);
    EXPECT_OK(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), &err);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* Labels and ids out of range, which nothing has checked before. */
static void test_bad_label(const layer_spec *spec, bool label) {
    layer_case test;
    iter_error err = {0};
    if (!EXPECT(layer_case_plan(spec, &test))) return;
    layer_case_fill(&test, 1);
    layer_machine *m = layer_alloc(1, sizeof(*m));
    if (!EXPECT(layer_machine_open(m, &test, &plain_form, cuda, 1))) exit(1);
    engine_outcome out;
    engine_collected found;
    int32_t *values = (label ? &m->label : &m->data)->data;
    const int64_t at = label ? 2 : 2 * spec->dims[0] + 1;
    for (uint32_t run = 0; run < 3; run++) {
        const int32_t good = values[at];
        if (run == 1) values[at] = label ? 2 : 20;
        EXPECT_OK(cuda->run(m->state, &m->batch, ENGINE_RUN_TRAIN, &out, &err), &err);
        values[at] = good;
    }
    EXPECT_OK(cuda->collect(m->state, &found, &err), &err);
    EXPECT_EQ(found.trouble, label ? ENGINE_TROUBLE_LABEL : ENGINE_TROUBLE_ID);
    EXPECT_EQ(found.run, 1);
    EXPECT_EQ(found.row, 2);
    EXPECT_EQ(found.value, label ? 2 : 20);
    if (!label) EXPECT_EQ(found.place, 1);
    EXPECT(isfinite(layer_machine_run(m, ENGINE_RUN_TRAIN, 3).loss_sum));
    layer_machine_close(m);
    free(m);
    layer_case_free(&test);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* One epoch by the reference, saved; two more by cuda, as if the reference had continued. */
static void test_checkpoint(const char *model) {
    char path[] = "/tmp/iter_cuda_XXXXXX";
    iter_error err = {0};
    close(mkstemp(path));
    iter_loader *loader = open_loader(model, ITER_MEMORY_HOST);
    iter_trainer *trainer = open_trainer(model, loader, "reference", 0);
    run_epochs(trainer, loader, 1, &want);
    EXPECT_OK(iter_trainer_save(trainer, loader, path, &err), &err);
    run_epochs(trainer, loader, 2, &want);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    loader = open_loader(model, ITER_MEMORY_HOST);
    trainer = open_trainer(model, loader, "cuda", 0);
    EXPECT_OK(iter_trainer_load(trainer, loader, path, &err), &err);
    run_epochs(trainer, loader, 2, &got);
    got.epochs[2] = want.epochs[2];
    got.test = want.test;
    expect_same(&got, &want, 2e-4, "from the reference's checkpoint");
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    unlink(path);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void expect_nothing_left(const char *when, long call) {
    static const fake_cuda_kind kinds[] = {FAKE_CUDA_MEMORY,   FAKE_CUDA_PINNED,  FAKE_CUDA_STREAMS,
                                           FAKE_CUDA_EVENTS,   FAKE_CUDA_MODULES, FAKE_CUDA_GRAPHS,
                                           FAKE_CUDA_CAPTURES, FAKE_CUDA_PUSHED};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!EXPECT_EQ(fake->live(kinds[i]), 0))
            fprintf(stderr, "  of kind %d, when call %ld of %s failed\n", (int)kinds[i], call,
                    when);
    EXPECT(fake->live(FAKE_CUDA_RETAINED) <= 1); /* one is kept for cuDNN and cuBLAS */
    EXPECT_EQ(dnn->live(), 0);
    EXPECT_EQ(blas->live(), 0);
}

/* A trainer's life in short; every call that may fail is checked. Returns false if one failed. */
static bool live(const layer_case *test, const layer_form *form, iter_error *err) {
    layer_machine *m = layer_alloc(1, sizeof(*m));
    engine_collected found;
    engine_outcome out;
    bool ok = false;
    err->message[0] = '\0';
    engine_net net = test->net;
    const engine_backend_config config = {.net = &net,
                                          .optimizer = &test->optimizer,
                                          .keep_input_gradient = !test->spec.no_input_gradient,
                                          .precision = form->precision,
                                          .algorithms = form->algorithms};
    void *state = layer_alloc((int64_t)cuda->state_size, 1);
    if (cuda->create(state, &config, err) >= 0) {
        float *values = layer_alloc(4096, sizeof(*values));
        *m = (layer_machine){.ops = cuda};
        int32_t label[8] = {0}, counted = (int32_t)test->spec.batch;
        uint8_t counts[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        iter_tensor data = iter_tensor_dense(&net.data, values);
        iter_tensor labels = iter_tensor_dense(&net.label, label);
        const engine_batch batch = {.data = &data,
                                    .label = &labels,
                                    .n_rows = test->spec.batch,
                                    .counts = counts,
                                    .n_counted = counted,
                                    .lr = 0.1};
        ok = cuda->set(state, 0, ITER_VALUE_WEIGHT, values + 2048, err) >= 0;
        for (int i = 0; i < 3 && ok; i++)
            ok = cuda->run(state, &batch, ENGINE_RUN_TRAIN, &out, err) >= 0;
        ok = ok && cuda->collect(state, &found, err) >= 0;
        ok = ok && cuda->outputs(state, test->spec.batch, values, err) >= 0;
        ok = ok && cuda->get(state, 0, ITER_VALUE_GRADIENT, values, err) >= 0;
        cuda->destroy(state);
        free(values);
    }
    free(state);
    free(m);
    return ok;
}

/* Which calls fail, one after the other: all, or only some if a life takes seconds. */
#if defined(__SANITIZE_THREAD__)
#define FAIL_EVERY 9
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAIL_EVERY 9
#endif
#endif
#ifndef FAIL_EVERY
#define FAIL_EVERY 1
#endif

/* Call k of all calls fails, for every k. Some do not matter; then everything must go well. */
static void test_failures(const layer_case *test, const layer_form *form, const char *of,
                          unsigned code) {
    const fake_library *library = strcmp(of, "cuDNN") == 0    ? dnn
                                  : strcmp(of, "cuBLAS") == 0 ? blas
                                                              : NULL;
    iter_error err;
    long n_failed = 0, call = 0;
    for (bool failed = true; failed && call < 5000; call += FAIL_EVERY) {
        reset_fakes();
        if (library)
            library->fail(NULL, call, code);
        else
            fake->fail(NULL, call, (CUresult)code);
        const long live_before = iter__engine_live();
        const bool ok = live(test, form, &err);
        failed = (library ? library->calls(NULL) : fake->calls(NULL)) > call;
        n_failed += !ok;
        if (!ok && !EXPECT(err.message[0] != '\0')) break;
        if (!EXPECT(failed || ok) || !EXPECT_EQ(iter__engine_live(), live_before)) break;
        expect_nothing_left(of, call);
    }
    printf("%s: %ld calls, %ld of them matter\n", of, call / FAIL_EVERY - 1, n_failed);
    EXPECT(n_failed > 5 / FAIL_EVERY);
    reset_fakes();
}

static void test_all_failures(void) {
    const layer_spec spec = {
        "conv2d:2,kernel=2 | relu | avgpool:2 | flatten | dense:3 | softmax-cross-entropy",
        .batch = 2, .n_dims = 3, .dims = {2, 4, 4}, .optimizer = "adam:lr=0.1"};
    const layer_spec gru = {"embedding:4,2 | gru:2 | last-step | dense:2 | softmax-cross-entropy",
                            .batch = 2, .n_dims = 1, .dims = {3}, .n_ids = 4};
    const layer_spec *const specs[] = {&spec, &gru};
    const layer_form tuned = {.algorithms = ITER_ALGORITHMS_TUNED};
    for (int i = 0; i < 2 && fake; i++) {
        layer_case test;
        if (!EXPECT(layer_case_plan(specs[i], &test))) return;
        test_failures(&test, &tuned, "the driver", CUDA_ERROR_INVALID_VALUE);
        test_failures(&test, &plain_form, "the driver", CUDA_ERROR_OUT_OF_MEMORY);
        test_failures(&test, &tuned, "cuDNN", 2000);
        test_failures(&test, &plain_form, "cuBLAS", 14);
        layer_case_free(&test);
    }
}

/* Equal layers are measured once. */
static void test_equal_layers(void) {
    const layer_spec spec = {
        "conv2d:3,pad=1 | conv2d:3,pad=1 | conv2d:3,pad=1 | flatten | dense:2 | mse", .batch = 2,
        .n_dims = 3, .dims = {3, 4, 4}, .no_input_gradient = true};
    const layer_form forms[] = {{.algorithms = ITER_ALGORITHMS_TUNED},
                                {.algorithms = ITER_ALGORITHMS_FAST}};
    layer_case test;
    iter_error err = {0};
    if (!fake || !EXPECT(layer_case_plan(&spec, &test))) return;
    for (int i = 0; i < 2; i++) {
        reset_fakes();
        EXPECT(live(&test, &forms[i], &err));
        EXPECT_EQ(dnn->calls("cudnnFindConvolutionForwardAlgorithmEx"), 2);
    }
    layer_case_free(&test);
    reset_fakes();
}

/* If a device is lost, every call reports it. */
static void test_lost(void) {
    const layer_spec spec = {MLP, .batch = 4, .n_dims = 1, .dims = {6}};
    layer_case test;
    iter_error err = {0};
    engine_outcome out;
    engine_collected found;
    if (!fake || !EXPECT(layer_case_plan(&spec, &test))) return;
    layer_case_fill(&test, 1);
    layer_machine *m = layer_alloc(1, sizeof(*m));
    if (!EXPECT(layer_machine_open(m, &test, &plain_form, cuda, 1))) exit(1);
    layer_machine_run(m, ENGINE_RUN_TRAIN, 0);
    fake->fail_late(2, CUDA_ERROR_ILLEGAL_ADDRESS);
    iter_status status = cuda->run(m->state, &m->batch, ENGINE_RUN_TRAIN, &out, &err);
    if (status >= 0) status = cuda->collect(m->state, &found, &err);
    EXPECT_ERROR(status, ITER_EDEVICE, &err, "of no use");
    EXPECT_ERROR(cuda->run(m->state, &m->batch, ENGINE_RUN_TRAIN, &out, &err), ITER_EDEVICE, &err,
                 "ILLEGAL_ADDRESS");
    layer_machine_close(m);
    free(m);
    layer_case_free(&test);
    reset_fakes();
}

static void expect_refusal_of(const layer_spec *spec, const layer_form *form,
                              iter_status want_status, const char *text) {
    layer_case test;
    iter_error err = {0};
    if (!EXPECT(layer_case_plan(spec, &test))) return;
    EXPECT(!live(&test, form, &err));
    if (!EXPECT_EQ(err.status, want_status) || !EXPECT(strstr(err.message, text)))
        fprintf(stderr, "  got \"%s\"\n", err.message);
    layer_case_free(&test);
}

static void expect_refused(iter_status want_status, const char *text) {
    const layer_spec spec = {"conv2d:2 | flatten | dense:2 | mse", .batch = 2, .n_dims = 3,
                             .dims = {1, 4, 4}};
    expect_refusal_of(&spec, &plain_form, want_status, text);
}

/* cuDNN's gru in bf16 came with 9.13; in f16 it was there before. */
static void test_bf16_gru(void) {
    const layer_spec spec = {"gru:5 | last-step | dense:2 | mse", .batch = 2, .n_dims = 2,
                             .dims = {3, 4}};
    const layer_form bf16 = {.precision = ITER_PRECISION_BF16},
                     f16 = {.precision = ITER_PRECISION_F16};
    layer_case test;
    iter_error err = {0};
    if (!fake || !EXPECT(layer_case_plan(&spec, &test))) return;
    dnn->set_version(91201);
    expect_refusal_of(&spec, &bf16, ITER_EUNSUPPORTED, "needs cuDNN 9.13 or later, here is 9.12");
    expect_nothing_left("a gru in bf16", 0);
    EXPECT(live(&test, &f16, &err));
    dnn->set_version(91300);
    EXPECT(live(&test, &bf16, &err));
    dnn->set_version(91501);
    layer_case_free(&test);
    reset_fakes();
}

/* If a library is missing, it is named. */
static void test_messages(void) {
    if (!fake) return;
    fake_cuda_machine machine = fake->machine();
    dnn->set_version(8907);
    expect_refused(ITER_EUNSUPPORTED, "cuDNN 9");
    dnn->set_version(91501);
    machine.n_devices = 0;
    fake->set_machine(&machine);
    expect_refused(ITER_EUNSUPPORTED, "no GPU");
    machine.n_devices = 1;
    machine.version = 11080;
    fake->set_machine(&machine);
    expect_refused(ITER_EUNSUPPORTED, "too old");
    machine.version = 13000;
    machine.memory_bytes = 1 << 20;
    fake->set_machine(&machine);
    expect_refused(ITER_ENOMEM, "lower the batch size");
    reset_fakes();
    machine = fake->machine();
    machine.capability = 75;
    fake->set_machine(&machine);
    expect_refused(ITER_EUNSUPPORTED, "sm_80");
    machine.capability = 90;
    machine.ptx_version = 78;
    fake->set_machine(&machine);
    expect_refused(ITER_EUNSUPPORTED, "too old for our kernels");
    reset_fakes();
}

/* Batches on one GPU, weights on another: refused before anything is read. */
static void test_two_gpus(void) {
    iter_error err = {0};
    iter_batch *batch;
    if (!fake) return;
    reset_fakes();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = 2;
    fake->set_machine(&machine);
    loader_device = ITER_DEVICE(1);
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_DEVICE);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    EXPECT_ERROR(iter_trainer_step(trainer, batch, NULL, &err), ITER_EINVAL, &err,
                 "the batch is on GPU 1 in another context, the trainer on GPU 0");
    iter_batch_unref(batch);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    loader_device = 0;
    reset_fakes();
}

int main(void) {
    const layer_spec mlp = {"dense:2 | softmax-cross-entropy", .batch = 4, .n_dims = 1,
                            .dims = {3}};
    const layer_spec ids = {GRU, .batch = 4, .n_dims = 1, .dims = {5}, .n_ids = 20};
    bool on_fake;
    setvbuf(stdout, NULL, _IOLBF, 0);
    iter__backend_find("cuda", &cuda, NULL);
    if (!layer_backend_is_there(cuda, &on_fake)) return 77;
    if (on_fake) {
        fake = fake_cuda_get();
        dnn = fake_library_get("libcudnn.so.9", "fake_cudnn_control");
        blas = fake_library_get("libcublas.so.13", "fake_cublas_control");
    }
    draw_sets();
    test_epochs(MLP);
    test_epochs(CNN);
    test_epochs(GRU);
    test_graphs(CNN);
    test_equal_layers();
    test_no_nhwc(ITER_PRECISION_TF32, "TF32 NCHW");
    test_no_nhwc(ITER_PRECISION_F16, "f16 NCHW");
    test_no_nhwc(ITER_PRECISION_BF16, "bf16 NCHW");
    test_progress();
    test_asynchrony();
    test_bad_data(ITER_MEMORY_HOST);
    test_bad_data(ITER_MEMORY_DEVICE);
    test_bad_label(&mlp, true);
    test_bad_label(&ids, false);
    test_checkpoint(CNN);
    test_checkpoint(GRU);
    test_bf16_gru();
    test_messages();
    test_lost();
    test_two_gpus();
    test_all_failures();
    return EXPECT_DONE();
}
