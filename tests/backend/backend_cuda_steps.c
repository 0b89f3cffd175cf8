/*
 * backend_cuda_steps.c - steps of the cuda backend that are only queued, one by one over batches of
 * a loader; a batch that cannot be released; and one graph for batches at any address.
 *
 * Runs on the fakes (LD_LIBRARY_PATH), and what needs no fake also on a GPU.
 */
#include <math.h>

#include <iter/engine.h>

#include "tests/fake/fake_cuda.h"
#include "tests/support/expect_layers.h"
#include "tests/support/trainer_case.h"

static const fake_cuda *fake; /* NULL = a real GPU */
static const engine_backend_ops *cuda;

/* ---- Steps that are only queued -------------------------------------------------------------- */

/* Steps through the first n batches of a new loader; if `waits`, *out is the sum. */
static int64_t take_steps(int32_t memory, int n, bool waits, iter_result *out, float *weights) {
    iter_loader *loader = open_loader(MLP, memory);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    iter_error err = {0};
    *out = (iter_result){0};
    for (int i = 0; i < n; i++) {
        iter_batch *batch;
        iter_result one;
        iter_status status;
        while ((status = iter_loader_next(loader, &batch, &err)) == ITER_END)
            EXPECT_OK(iter_loader_reset(loader, &err), &err);
        if (!EXPECT_OK(status, &err)) exit(1);
        EXPECT_OK(iter_trainer_step(trainer, batch, waits ? &one : NULL, &err), &err);
        iter_batch_unref(batch);
        if (!waits) continue;
        out->loss += one.loss * (double)one.n_rows;
        out->n_rows += one.n_rows;
        out->n_correct += one.n_correct;
        out->n_steps += one.n_steps;
    }
    if (waits) {
        out->loss /= (double)out->n_rows;
        iter_result none;
        EXPECT_OK(iter_trainer_collect(trainer, &none, &err), &err);
        EXPECT_EQ(none.n_steps + none.n_rows, 0);
    } else {
        EXPECT_OK(iter_trainer_collect(trainer, out, &err), &err);
    }
    EXPECT_EQ(iter_trainer_describe(trainer).n_steps, n);
    const int64_t n_weights = get_weights(trainer, weights, MOST_WEIGHTS);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    return n_weights;
}

/* If no step is waited for, the weights are the same, and so is the sum at the end, also with more
 * steps than can be pending. */
static void test_queued(int32_t memory) {
    static float waited[MOST_WEIGHTS], queued[MOST_WEIGHTS];
    iter_result a, b;
    const int64_t n = take_steps(memory, 150, true, &a, waited);
    EXPECT_EQ(take_steps(memory, 150, false, &b, queued), n);
    EXPECT(memcmp(waited, queued, (size_t)n * sizeof(float)) == 0);
    EXPECT_EQ(a.n_rows, b.n_rows);
    EXPECT_EQ(a.n_steps, b.n_steps);
    EXPECT_EQ(a.n_correct, b.n_correct);
    EXPECT(fabs(a.loss - b.loss) <= 1e-9 * a.loss);
    EXPECT(b.seconds > 0);
}

/* Queued steps return while the device does nothing. */
static void test_queued_waits_for_nothing(void) {
    iter_error err = {0};
    iter_batch *batches[2];
    if (!fake) return;
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_DEVICE);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    for (int i = 0; i < 2; i++)
        EXPECT_OK(iter_loader_next(loader, &batches[i], &err), &err);
    fake->wait_idle();
    fake->hold(FAKE_CUDA_ALL, true);
    const long done = fake->operations();
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(iter_trainer_step(trainer, batches[i], NULL, &err), &err);
        iter_batch_unref(batches[i]);
    }
    EXPECT_EQ(fake->operations(), done);
    fake->hold(FAKE_CUDA_ALL, false);
    iter_result sum;
    EXPECT_OK(iter_trainer_collect(trainer, &sum, &err), &err);
    EXPECT_EQ(sum.n_rows, 2 * BATCH);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

typedef enum how_heard { BY_COLLECT, BY_STEP, BY_GET, WAYS_TO_HEAR } how_heard;

/* The second of five batches has a NaN: the first call that waits must report it, once; one step
 * was taken. */
static void test_queued_trouble(how_heard how) {
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_HOST);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    iter_batch *batch;
    iter_result sum;
    iter_error err = {0};
    uint64_t bad = 0;
    for (int i = 0; i < 5; i++) {
        if (!EXPECT_OK(iter_loader_next(loader, &batch, &err), &err)) exit(1);
        if (i == 1) {
            bad = iter_batch_index(batch)[0];
            *(float *)iter_batch_tensor(batch, 0)->data = NAN;
        }
        EXPECT_OK(iter_trainer_step(trainer, batch, NULL, &err), &err);
        if (i < 4) iter_batch_unref(batch);
    }
    const size_t bytes = iter_desc_bytes(&iter_trainer_param(trainer, 0)->desc);
    float *weights = layer_alloc((int64_t)bytes, 1);
    const iter_status status =
        how == BY_COLLECT ? iter_trainer_collect(trainer, &sum, &err)
        : how == BY_STEP  ? iter_trainer_step(trainer, batch, &sum, &err)
                          : iter_trainer_get(trainer, 0, ITER_VALUE_WEIGHT, weights, bytes, &err);
    char text[32];
    snprintf(text, sizeof(text), "over samples %d, ", (int)bad);
    EXPECT_ERROR(status, ITER_EFORMAT, &err, "step 1");
    EXPECT_ERROR(status, ITER_EFORMAT, &err, text);
    EXPECT_EQ(iter_trainer_describe(trainer).n_steps, 1);
    if (how != BY_COLLECT) EXPECT_OK(iter_trainer_collect(trainer, &sum, &err), &err);
    EXPECT_EQ(sum.n_rows, BATCH); /* of the step before it */
    EXPECT_OK(iter_trainer_step(trainer, batch, NULL, &err), &err);
    EXPECT_OK(iter_trainer_collect(trainer, &sum, &err), &err);
    EXPECT_EQ(sum.n_steps, 1);
    EXPECT_EQ(iter_trainer_describe(trainer).n_steps, 2);
    iter_batch_unref(batch);
    free(weights);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

static bool ask_inside(void *user, const iter_result *so_far) {
    iter_error err = {0};
    (void)so_far;
    EXPECT_ERROR(iter_trainer_collect(user, NULL, &err), ITER_ESTATE, &err, "progress");
    return false;
}

/* An epoch's sums are its own, and those of earlier steps stay. */
static void test_queued_and_epochs(void) {
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_HOST);
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    iter_batch *batch;
    iter_result result;
    iter_error err = {0};
    EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
    EXPECT_OK(iter_trainer_step(trainer, batch, NULL, &err), &err);
    EXPECT_OK(iter_trainer_step(trainer, batch, &result, &err), &err);
    EXPECT_EQ(result.n_rows, BATCH);
    EXPECT_OK(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), &err);
    EXPECT_EQ(result.n_rows, ROWS - BATCH);
    EXPECT_OK(iter_loader_reset(loader, &err), &err);
    EXPECT_EQ(iter_trainer_epoch(trainer, loader, ask_inside, trainer, &result, &err), ITER_AGAIN);
    EXPECT_OK(iter_trainer_collect(trainer, &result, &err), &err);
    EXPECT_EQ(result.n_rows, BATCH);
    EXPECT_EQ(result.n_steps, 1);
    iter_batch_unref(batch);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* If a step is taken but its batch cannot be released, the step counts, and the message has
 * both. */
static void test_release_fails(void) {
    static float before[MOST_WEIGHTS], after[MOST_WEIGHTS];
    iter_result result;
    iter_error err = {0};
    iter_batch *batch;
    if (!fake) return;
    const int64_t n = take_steps(ITER_MEMORY_DEVICE, 1, true, &result, before);
    for (int waits = 0; waits < 2; waits++) {
        iter_loader *loader = open_loader(MLP, ITER_MEMORY_DEVICE);
        iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        fake->fail("cuEventRecord", 0, CUDA_ERROR_INVALID_HANDLE);
        const iter_status status = iter_trainer_step(trainer, batch, waits ? &result : NULL, &err);
        EXPECT_ERROR(status, ITER_EDEVICE, &err, "step 0: taken; but its batch was not given back");
        iter_batch_unref(batch);
        EXPECT_EQ(iter_trainer_describe(trainer).n_steps, 1);
        EXPECT_EQ(get_weights(trainer, after, MOST_WEIGHTS), n);
        EXPECT(memcmp(before, after, (size_t)n * sizeof(float)) == 0);
        EXPECT_OK(iter_trainer_collect(trainer, &result, &err), &err);
        EXPECT_EQ(result.n_rows, waits ? 0 : BATCH);
        EXPECT_OK(iter_trainer_epoch(trainer, loader, NULL, NULL, &result, &err), &err);
        EXPECT_EQ(result.n_rows, ROWS - BATCH);
        iter_trainer_destroy(trainer);
        iter_loader_unref(loader);
    }
}

/* ---- One graph for batches anywhere ---------------------------------------------------------- */

/* Whole and short batches in slots of their own: the first run goes call by call, all others are
 * one graph. */
static void test_any_place(void) {
    enum { PLACES = 12 };
    iter_batch *held[PLACES];
    iter_error err = {0};
    int n = 0, n_short = 0;
    if (!fake) return;
    loader_held = 2 * PLACES;
    iter_loader *loader = open_loader(MLP, ITER_MEMORY_DEVICE);
    loader_held = 0;
    iter_trainer *trainer = open_trainer(MLP, loader, "cuda", 0);
    while (n < PLACES) {
        const iter_status status = iter_loader_next(loader, &held[n], &err);
        if (status == ITER_END)
            EXPECT_OK(iter_loader_reset(loader, &err), &err);
        else if (!EXPECT_OK(status, &err))
            exit(1);
        else
            n_short += iter_batch_describe(held[n++]).n_rows < BATCH;
    }
    EXPECT(n_short > 0);
    const long made = fake->calls("cuGraphInstantiateWithFlags");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < PLACES; i++)
            EXPECT_OK(iter_trainer_step(trainer, held[i], NULL, &err), &err);
    EXPECT_OK(iter_trainer_collect(trainer, NULL, &err), &err);
    EXPECT_EQ(fake->calls("cuGraphInstantiateWithFlags") - made, 1);
    const iter_trainer_info info = iter_trainer_describe(trainer);
    EXPECT_EQ(info.n_graph_runs, 2 * PLACES - 1);
    EXPECT_EQ(info.n_call_runs, 1);
    for (int i = 0; i < PLACES; i++)
        iter_batch_unref(held[i]);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
    EXPECT_EQ(fake->live(FAKE_CUDA_GRAPHS), 0);
}

int main(void) {
    bool on_fake;
    setvbuf(stdout, NULL, _IOLBF, 0);
    iter__backend_find("cuda", &cuda, NULL);
    if (!layer_backend_is_there(cuda, &on_fake)) return 77;
    if (on_fake) fake = fake_cuda_get();
    draw_sets();
    test_queued(ITER_MEMORY_HOST);
    test_queued(ITER_MEMORY_DEVICE);
    test_queued_waits_for_nothing();
    for (int how = 0; how < WAYS_TO_HEAR; how++)
        test_queued_trouble((how_heard)how);
    test_queued_and_epochs();
    test_release_fails();
    test_any_place();
    return EXPECT_DONE();
}
