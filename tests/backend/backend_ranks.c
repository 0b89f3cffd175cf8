/*
 * backend_ranks.c - training with several ranks, which are threads here: the same losses and
 * weights for any number of them, failures that all of them hear of, checkpoints, and ranks that
 * differ.
 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "engine/backend.h"
#include "engine/cuda/nccl_api.h"
#include "engine/engine_memory.h"
#include "tests/fake/fake_cuda.h"
#include "tests/fake/fake_library.h"
#include "tests/support/layer_case.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/trainer_case.h"

#define TIED "embedding:20,6 | gru:6 | tied-softmax"
#define SUM  "embedding:20,5 | mean-steps | dense:2 | softmax-cross-entropy"

enum { MAX_RANKS = 8, EPOCHS = 3, MAX_STEPS = 64 };

static int32_t next_tokens[ROWS][STEPS], wrong_classes[ROWS];

/* What a job is, and what its rank 0 got. */
typedef struct job {
    const char *model, *backend, *optimizer;
    uint32_t global_batch, micro_batches;
    int32_t last_batch;
    uint64_t bucket_bytes;
    bool goes_on;
    int32_t memory; /* of the loader: iter_memory_kind */
    int32_t precision;
    bool own_gpus;         /* each rank has a GPU of its own, else they share one */
    const char *plan_says; /* NULL = anything */
    uint32_t stop_rank;    /* 1 + the rank whose progress ends the second epoch; 0 = none */
    const char *path;      /* a checkpoint, saved after the first epoch, or read before it */
    bool reads;
    int64_t bad_label; /* row with a wrong label; -1 = none */
    const char *odd;   /* what differs on rank 1; NULL = nothing */
    iter_status want;  /* of the first call that fails */
    const char *message;
    /* Results: */
    int n_losses;
    double losses[MAX_STEPS];
    uint64_t n_correct;
    double test_loss;
    int64_t n_weights;
    double weights[MOST_WEIGHTS];
    pthread_mutex_t lock;
} job;

/* ---- A rank's own things --------------------------------------------------------------------- */

static bool is_odd(const job *j, const iter_communicator *comm, const char *what) {
    return comm->rank == 1 && j->odd && strcmp(j->odd, what) == 0;
}

static iter_loader *open_share(const job *j, const iter_communicator *comm) {
    const bool images = j->model[0] == 'c', ids = j->model[0] == 'e',
               tied = !strcmp(j->model, TIED);
    iter_array arrays[2] = {{.role = ITER_DATA,
                             .data = images ? (void *)pictures
                                     : ids  ? (void *)tokens
                                            : (void *)points},
                            {.role = ITER_LABEL}};
    iter_desc *data = &arrays[0].desc, *label = &arrays[1].desc;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader *loader = NULL;
    iter_chain *chain = NULL;
    iter_error err = {0};
    *data = (iter_desc){.dtype = ids ? ITER_I32 : ITER_F32, .n_dims = images ? 4 : 2};
    data->dims[0] = ROWS;
    data->dims[1] = images ? 3 : ids ? STEPS : 6;
    data->dims[2] = data->dims[3] = images ? 8 : 0;
    *label =
        (iter_desc){.dtype = ITER_I32, .n_dims = tied ? 2 : 1, .dims = {ROWS, tied ? STEPS : 0}};
    arrays[1].data = tied ? (void *)next_tokens : ids ? (void *)halves : (void *)classes;
    if (j->bad_label >= 0) arrays[1].data = wrong_classes;
    opt.rank = comm->rank;
    opt.memory.kind = j->memory;
    if (j->own_gpus && j->memory == ITER_MEMORY_DEVICE)
        opt.memory.device = ITER_DEVICE((int32_t)comm->rank);
    opt.ranks = comm->ranks;
    opt.global_batch = j->global_batch;
    opt.micro_batches = j->micro_batches;
    opt.last_batch = j->last_batch;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.seed = is_odd(j, comm, "seed of the loader") ? 4 : 3;
    if (is_odd(j, comm, "order of samples")) opt.shuffle = ITER_SHUFFLE_ONCE;
    if (is_odd(j, comm, "chain"))
        EXPECT_OK(iter_chain_parse("scale:factor=2", NULL, &chain, &err), &err);
    if (is_odd(j, comm, "dataset")) data->dims[0] = label->dims[0] = ROWS - 1;
    EXPECT_OK(iter_ndarray_create(arrays, 2, chain, &opt, &loader, &err), &err);
    iter_chain_unref(chain);
    return loader;
}

static iter_status make_trainer(const job *j, iter_communicator *comm, iter_loader *loader,
                                iter_trainer **out, iter_error *err) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    iter_model *model = NULL;
    EXPECT_OK(iter_model_parse(j->model, &model, err), err);
    opt.backend = j->backend;
    opt.optimizer = j->optimizer ? j->optimizer : "adam:lr=0.01,epsilon=0.001";
    opt.seed = is_odd(j, comm, "seed") ? 12 : 11;
    opt.threads = 1;
    opt.communicator = comm;
    opt.bucket_bytes = j->bucket_bytes;
    opt.precision = j->precision;
    if (j->own_gpus) opt.device = ITER_DEVICE((int32_t)comm->rank);
    const iter_status status = iter_trainer_create(model, loader, &opt, out, err);
    iter_model_unref(model);
    return status;
}

static bool note_loss(void *user, const iter_result *so_far) {
    job *j = user;
    if (j->n_losses < MAX_STEPS) j->losses[j->n_losses++] = so_far->loss;
    return true;
}

static bool stop(void *user, const iter_result *so_far) {
    (void)user;
    return so_far->n_steps < 3;
}

static bool go_on(void *user, const iter_result *so_far) {
    (void)user, (void)so_far;
    return true;
}

/* All weights as doubles, which hold floats exactly. */
static int64_t read_weights(const job *j, iter_trainer *trainer, double *out) {
    static const char wide[] = "reference-f64";
    int64_t n = 0;
    iter_error err = {0};
    if (strcmp(j->backend, wide) != 0) {
        float *floats = calloc(MOST_WEIGHTS, sizeof(*floats));
        if (!floats) exit(1);
        n = get_weights(trainer, floats, MOST_WEIGHTS);
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)floats[i];
        free(floats);
        return n;
    }
    for (int32_t p = 0; p < iter_trainer_n_params(trainer); p++) {
        const size_t bytes = 2 * iter_desc_bytes(&iter_trainer_param(trainer, p)->desc);
        EXPECT_OK(iter_trainer_get(trainer, p, ITER_VALUE_WEIGHT, out + n, bytes, &err), &err);
        n += (int64_t)(bytes / sizeof(*out));
    }
    return n;
}

/* All ranks must have the same weights. */
static void compare_weights(job *j, iter_trainer *trainer) {
    double *own = calloc(MOST_WEIGHTS, sizeof(*own));
    if (!own) exit(1);
    const int64_t n = read_weights(j, trainer, own);
    pthread_mutex_lock(&j->lock);
    if (j->n_weights == 0) memcpy(j->weights, own, (size_t)n * sizeof(*own));
    if (j->n_weights == 0) j->n_weights = n;
    EXPECT_EQ(j->n_weights, n);
    EXPECT(memcmp(j->weights, own, (size_t)n * sizeof(*own)) == 0);
    pthread_mutex_unlock(&j->lock);
    free(own);
}

/* Each rank's time and its waiting make up the slowest one's. */
static void expect_time(const iter_communicator *comm, const iter_trainer *trainer) {
    iter_rank_stats all[MAX_RANKS];
    const iter_trainer_info info = iter_trainer_describe(trainer);
    const uint32_t n = iter_trainer_ranks(trainer, all, MAX_RANKS);
    uint64_t slowest = 0;
    EXPECT_EQ(n, info.micro_batches > 1 || comm->ranks > 1 ? comm->ranks : 0);
    for (uint32_t i = 0; i < n; i++) {
        const iter_rank_stats *s = &all[i];
        const double sum = s->outside_seconds + s->compute_seconds + s->wait_seconds;
        EXPECT(s->compute_seconds > 0 && s->wait_seconds >= 0 && s->outside_seconds >= 0);
        EXPECT(fabs(sum - info.slowest_seconds) <= 1e-9 + 1e-6 * sum);
        EXPECT_EQ(s->n_steps, all[0].n_steps);
        slowest += s->n_slowest;
    }
    if (n > 0) EXPECT_EQ(slowest, all[0].n_steps);
    if (n > 1) EXPECT(info.communicate_seconds >= info.sum_seconds);
}

static iter_status train(job *j, iter_communicator *comm, iter_trainer *trainer,
                         iter_loader *loader, iter_error *err) {
    for (int e = 0; e < EPOCHS; e++) {
        iter_result result;
        const bool stops = j->stop_rank && e == 1;
        iter_progress_fn progress = stops        ? (j->stop_rank == comm->rank + 1 ? stop : go_on)
                                    : comm->rank ? NULL
                                                 : note_loss;
        if (comm->rank && !stops) progress = go_on; /* with or without it on all ranks */
        iter_status s = iter_trainer_epoch(trainer, loader, progress, j, &result, err);
        if (s < 0) return s;
        EXPECT_EQ(s, stops ? ITER_AGAIN : ITER_OK);
        if (stops) EXPECT_EQ(result.n_steps, 3);
        if (comm->rank == 0) j->n_correct += result.n_correct;
        s = iter_loader_reset(loader, err);
        if (s < 0) return s;
        if (j->path && !j->reads && e == 0) s = iter_trainer_save(trainer, loader, j->path, err);
        if (s < 0) return s;
    }
    iter_result result;
    const iter_status s = iter_trainer_evaluate(trainer, loader, &result, err);
    if (s < 0) return s;
    EXPECT_EQ(result.n_rows, j->last_batch == ITER_LAST_DISCARD
                                 ? ROWS / j->global_batch * j->global_batch
                             : strcmp(j->model, TIED) ? (uint64_t)ROWS
                                                      : result.n_rows);
    if (comm->rank == 0) j->test_loss = result.loss;
    expect_time(comm, trainer);
    return ITER_OK;
}

/* Steps that fail are not taken, whether a rank has a wrong label or calls something else; the
 * others go on. */
static iter_status train_around(job *j, iter_communicator *comm, iter_trainer *trainer,
                                iter_loader *loader, iter_error *err) {
    iter_batch *batch;
    iter_result result;
    iter_status s;
    int n_failed = 0;
    for (int step = 0; (s = iter_loader_next(loader, &batch, err)) == ITER_OK; step++) {
        if (step == 2) {
            const bool tests = comm->rank == 1;
            s = tests ? iter_trainer_test(trainer, batch, &result, err)
                      : iter_trainer_step(trainer, batch, &result, err);
            EXPECT_EQ(s, comm->ranks > 1 ? ITER_EINVAL : ITER_OK);
            if (s < 0)
                EXPECT(strstr(err->message, "rank 1 tests a batch while rank 0 takes a step"));
        } else if ((s = iter_trainer_step(trainer, batch, &result, err)) < 0) {
            EXPECT(strstr(err->message, "is 77, the model has"));
            n_failed++;
        } else if (comm->rank == 0) {
            note_loss(j, &result);
        }
        iter_batch_unref(batch);
    }
    EXPECT_EQ(n_failed, 1);
    return s == ITER_END ? ITER_OK : s;
}

static void one_rank(void *user, iter_communicator *comm) {
    job *j = user;
    iter_error err = {0};
    iter_trainer *trainer = NULL;
    iter_loader *loader = open_share(j, comm);
    iter_status status = make_trainer(j, comm, loader, &trainer, &err);
    if (status >= 0 && j->plan_says &&
        !EXPECT(strstr(iter_trainer_plan_text(trainer), j->plan_says)))
        fprintf(stderr, "%s", iter_trainer_plan_text(trainer));
    if (status >= 0 && j->reads) status = iter_trainer_load(trainer, loader, j->path, &err);
    if (status >= 0)
        status = j->goes_on ? train_around(j, comm, trainer, loader, &err)
                            : train(j, comm, trainer, loader, &err);
    if (j->want < 0) {
        EXPECT_EQ(status, j->want);
        if (!EXPECT(strstr(err.message, j->message)))
            fprintf(stderr, "rank %u: %s\n", comm->rank, err.message);
    } else if (EXPECT_OK(status, &err)) {
        compare_weights(j, trainer);
    }
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

static job *run_job(job j, uint32_t ranks) {
    job *own = calloc(1, sizeof(*own));
    if (!own) exit(1);
    *own = j;
    for (int i = 0; i < ROWS; i++)
        wrong_classes[i] = i == j.bad_label ? 77 : classes[i];
    pthread_mutex_init(&own->lock, NULL);
    thread_ranks_run(ranks, one_rank, own);
    return own;
}

static void free_job(job *j) {
    pthread_mutex_destroy(&j->lock);
    free(j);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void expect_same(const job *a, const job *b, uint32_t ranks) {
    const int before = atomic_load(&expect_failures);
    EXPECT_EQ(a->n_losses, b->n_losses);
    for (int i = 0; i < a->n_losses; i++)
        EXPECT(memcmp(&a->losses[i], &b->losses[i], sizeof(double)) == 0);
    EXPECT_EQ(a->n_correct, b->n_correct);
    EXPECT(memcmp(&a->test_loss, &b->test_loss, sizeof(double)) == 0);
    EXPECT_EQ(a->n_weights, b->n_weights);
    EXPECT(memcmp(a->weights, b->weights, (size_t)a->n_weights * sizeof(double)) == 0);
    if (atomic_load(&expect_failures) > before)
        fprintf(stderr, "  %s, %s, %u of %u rows, %u ranks, mode %d\n", a->backend, a->model,
                a->micro_batches, a->global_batch, ranks, a->last_batch);
}

static const char *const models[] = {CNN, GRU, MLP, SUM, TIED};

static size_t n_models(const char *backend) {
    const size_t n = sizeof(models) / sizeof(models[0]);
    return strcmp(backend, "cuda") ? n : n - 1; /* which has no tied softmax */
}

/* 50 rows in batches of 12 leave 2, fewer than there are micro-batches. */
static void test_same_bits(const char *backend, int32_t memory, int32_t precision) {
    static const uint32_t parts[] = {4, 8, 5};
    static const uint64_t sizes[] = {1, 400, 0};
    for (size_t m = 0; m < n_models(backend); m++)
        for (size_t p = 0; p < (strcmp(backend, "cpu") ? 1 : sizeof(parts) / sizeof(parts[0]));
             p++) {
            const job j = {.model = models[m],
                           .backend = backend,
                           .global_batch = 12,
                           .micro_batches = parts[p],
                           .last_batch = m % 2 ? ITER_LAST_KEEP : ITER_LAST_PAD,
                           .bucket_bytes = sizes[p], /* of all nets: many buckets, some, one */
                           .memory = memory,
                           .precision = precision,
                           .bad_label = -1};
            job *alone = run_job(j, 1);
            for (uint32_t ranks = 2; ranks <= parts[p]; ranks++) {
                thread_ranks_lanes = 1 + ranks % 2;
                job *several = run_job(j, ranks);
                expect_same(alone, several, ranks);
                free_job(several);
            }
            free_job(alone);
        }
    thread_ranks_lanes = 2;
}

/* Whether two sets of weights differ by rounding alone. */
static double distance(const job *a, const job *b) {
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < a->n_weights; i++) {
        sum += pow(a->weights[i] - b->weights[i], 2);
        norm += pow(a->weights[i], 2);
    }
    return sqrt(sum / norm);
}

/* The sum over micro-batches is the gradient of the whole batch, the short last one included. */
static void test_is_the_gradient(const char *backend) {
    const bool wide = strcmp(backend, "reference-f64") == 0;
    for (size_t m = 0; m < n_models(backend); m++) {
        job j = {.model = models[m],
                 .backend = backend,
                 .optimizer = "sgd:lr=0.05",
                 .global_batch = 12,
                 .micro_batches = 0,
                 .last_batch = ITER_LAST_KEEP,
                 .bad_label = -1};
        job *whole = run_job(j, 1);
        j.micro_batches = 4;
        job *parts = run_job(j, 2);
        if (wide) EXPECT_EQ(whole->n_correct, parts->n_correct);
        if (!EXPECT(distance(whole, parts) < (wide ? 1e-9 : 1e-4)))
            fprintf(stderr, "  %s, %s: %g\n", backend, models[m], distance(whole, parts));
        EXPECT(fabs(whole->test_loss - parts->test_loss) < (wide ? 1e-9 : 1e-3));
        free_job(whole);
        free_job(parts);
    }
}

static void test_failures(void) {
    job j = {.model = MLP,
             .backend = "reference",
             .global_batch = 12,
             .bad_label = 17,
             .last_batch = ITER_LAST_KEEP,
             .want = ITER_EINVAL,
             .message = "is 77, the model has"};
    free_job(run_job(j, 3));
    j.bad_label = -1;
    j.odd = "seed";
    j.message = "rank 1 has another seed than rank 0: 12 there, 11 on rank 0";
    free_job(run_job(j, 3));
    static const char *const odd[] = {"seed of the loader", "order of samples", "chain", "dataset"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char message[64];
        snprintf(message, sizeof(message), "rank 1 has another %s than rank 0: ", odd[i]);
        j.odd = odd[i];
        j.message = message;
        free_job(run_job(j, 3));
    }
    j.odd = NULL;
    j.model = "dense:9 | dense:9 | dense:3 | softmax-cross-entropy";
    j.optimizer = "sgd:lr=1000000";
    j.want = ITER_EFORMAT;
    j.message = "the loss is";
    free_job(run_job(j, 3));
}

/* Each allocation of a trainer with micro-batches may fail; then nothing is left over. */
static void test_no_memory(const char *backend) {
    const job j = {
        .model = SUM, .backend = backend, .global_batch = 12, .micro_batches = 5, .bad_label = -1};
    iter_communicator alone = {.ranks = 1};
    iter_loader *loader = open_share(&j, &alone);
    iter_status status = ITER_ENOMEM;
    for (long n = 0; status == ITER_ENOMEM; n++) {
        const long live = iter__engine_live();
        iter_error err = {0};
        iter_trainer *trainer = NULL;
        iter_model *model = NULL;
        iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
        opt.backend = j.backend;
        opt.threads = 1;
        EXPECT_OK(iter_model_parse(j.model, &model, &err), &err);
        iter__engine_fail_after = n;
        status = iter_trainer_create(model, loader, &opt, &trainer, &err);
        iter__engine_fail_after = -1;
        if (status != ITER_ENOMEM) EXPECT(EXPECT_OK(status, &err) && n > 10);
        iter_trainer_destroy(trainer);
        iter_model_unref(model);
        EXPECT_EQ(iter__engine_live(), live);
    }
    iter_loader_unref(loader);
}

static void test_goes_on(const char *backend) {
    job j = {.model = CNN,
             .backend = backend,
             .global_batch = 12,
             .bad_label = 17,
             .last_batch = ITER_LAST_KEEP,
             .micro_batches = 4,
             .goes_on = true};
    job *two = run_job(j, 2);
    j.bucket_bytes = 1; /* several, so that a thread sends them */
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        job *several = run_job(j, ranks);
        expect_same(two, several, ranks);
        free_job(several);
    }
    EXPECT_EQ(two->n_losses, (ROWS + 11) / 12 - 2);
    free_job(two);
}

static void test_stop(void) {
    const job j = {.model = MLP,
                   .backend = "reference",
                   .global_batch = 12,
                   .bad_label = -1,
                   .last_batch = ITER_LAST_KEEP,
                   .micro_batches = 4,
                   .stop_rank = 2};
    job *two = run_job(j, 2), *four = run_job(j, 4);
    expect_same(two, four, 4);
    free_job(two);
    free_job(four);
}

/* A checkpoint of 4 ranks goes on with 3, 2, 1. */
static void test_checkpoint(const char *backend) {
    char path[] = "/tmp/backend_ranks.XXXXXX";
    const int fd = mkstemp(path);
    if (!EXPECT(fd >= 0)) return;
    close(fd);
    job j = {.model = GRU,
             .backend = backend,
             .global_batch = 12,
             .bad_label = -1,
             .last_batch = ITER_LAST_KEEP,
             .micro_batches = 4,
             .path = path};
    job *saved = run_job(j, 4);
    iter_checkpoint_info info;
    iter_error err;
    EXPECT_OK(iter_checkpoint_read(path, &info, &err), &err);
    EXPECT_EQ(info.micro_batches, 4);
    EXPECT_EQ(info.n_steps, (ROWS + 11) / 12);
    j.reads = true;
    job *alone = run_job(j, 1);
    /* it took the first epoch once more */
    EXPECT(memcmp(saved->weights, alone->weights, sizeof(saved->weights)) != 0);
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        job *again = run_job(j, ranks);
        expect_same(alone, again, ranks);
        free_job(again);
    }
    j.want = ITER_EIO;
    j.path = "/nowhere/at/all";
    j.message = "rank 0: /nowhere/at/all";
    free_job(run_job(j, 3));
    j.reads = false;
    free_job(run_job(j, 3));
    free_job(saved);
    free_job(alone);
    remove(path);
}

/* Ranks with a GPU each add their gradients there, and get the bits of those that share one. */
static void test_own_gpus(void) {
    static const int32_t precisions[] = {ITER_PRECISION_F32, ITER_PRECISION_F16,
                                         ITER_PRECISION_BF16};
#ifdef __SANITIZE_THREAD__ /* each takes a minute there, with nothing new for the threads */
    const size_t n = 1;
#else
    const size_t n = n_models("cuda");
#endif
    for (size_t m = 0; m < n; m++)
        for (int p = 0; p < (n == 1 ? 1 : m == 0 ? 3 : 2); p++) {
            job j = {.model = models[m],
                     .backend = "cuda",
                     .global_batch = 12,
                     .micro_batches = 5,
                     .last_batch = m % 2 ? ITER_LAST_KEEP : ITER_LAST_PAD,
                     .bucket_bytes = m % 2 ? 1 : 0,
                     .memory = m % 2 ? ITER_MEMORY_HOST : ITER_MEMORY_DEVICE,
                     .precision = precisions[p],
                     .plan_says = "through host memory (no NCCL: ranks 0 and 1 share a GPU)",
                     .bad_label = -1};
            job *shared = run_job(j, 2);
            j.own_gpus = true;
            j.plan_says = "rows, by NCCL 2.28\n";
            for (uint32_t ranks = 2; ranks <= (n > 1 ? 5 : 3); ranks++) {
                job *several = run_job(j, ranks);
                expect_same(shared, several, ranks);
                free_job(several);
            }
            free_job(shared);
        }
}

static atomic_int n_broken, n_waited;

static void one_broken(void *user, iter_communicator *comm) {
    const job *j = user;
    iter_error err = {0};
    iter_trainer *trainer = NULL;
    iter_loader *loader = open_share(j, comm);
    if (!EXPECT_OK(make_trainer(j, comm, loader, &trainer, &err), &err)) exit(1);
    const iter_status status = iter_trainer_epoch(trainer, loader, NULL, NULL, NULL, &err);
    n_broken += status == ITER_EDEVICE && strstr(err.message, j->message) != NULL;
    n_waited += status == ITER_ETIMEDOUT && strstr(err.message, " waited 1 s for the sums") != NULL;
    if (status >= 0 || status == ITER_EIO)
        fprintf(stderr, "rank %u: %s\n", comm->rank, err.message);
    iter_trainer_destroy(trainer);
    iter_loader_unref(loader);
}

/* A rank whose call fails tells why; the others do not wait for ever. */
static void test_broken_nccl(const fake_library *nccl) {
    static const struct {
        const char *call, *message;
        unsigned status;
        int n_waited;
    } cases[] = {{"ncclGroupEnd", "ncclGroupEnd: unhandled system error", ncclSystemError, 2},
                 {"ncclSend", "ncclSend: invalid usage", ncclInvalidUsage, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        job j = {.model = MLP,
                 .backend = "cuda",
                 .global_batch = 12,
                 .micro_batches = 4,
                 .last_batch = ITER_LAST_KEEP,
                 .own_gpus = true,
                 .message = cases[i].message,
                 .bad_label = -1};
        n_broken = n_waited = 0;
        thread_ranks_timeout_s = 1;
        nccl->reset();
        nccl->fail(cases[i].call, 4, cases[i].status);
        thread_ranks_run(3, one_broken, &j);
        thread_ranks_timeout_s = 60;
        EXPECT_EQ(n_broken, 1);
        EXPECT_EQ(n_waited, cases[i].n_waited);
        EXPECT_EQ(nccl->live(), 0);
    }
}

/* Without NCCL the sums go through the host. */
static void test_no_nccl(const fake_library *nccl) {
    job j = {.model = MLP,
             .backend = "cuda",
             .global_batch = 12,
             .micro_batches = 4,
             .last_batch = ITER_LAST_KEEP,
             .own_gpus = true,
             .bad_label = -1,
             .plan_says = "through host memory (no NCCL: rank 0: ncclGetUniqueId: unhandled"};
    nccl->reset();
    nccl->fail("ncclGetUniqueId", 0, ncclSystemError);
    free_job(run_job(j, 3));
    EXPECT_EQ(nccl->live(), 0);
}

static void give_gpus(int n) {
    const fake_cuda *fake = fake_cuda_get();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = n;
    fake->set_machine(&machine);
}

/* Ranks that share a GPU, or a fake of one. */
static int test_cuda(void) {
    const engine_backend_ops *cuda = NULL;
    bool on_fake;
    iter__backend_find("cuda", &cuda, NULL);
    if (!layer_backend_is_there(cuda, &on_fake)) return 77;
    const fake_library *nccl = on_fake ? fake_library_get(NCCL_LIBRARY, "fake_nccl_control") : NULL;
    if (nccl) {
        give_gpus(MAX_RANKS);
        test_own_gpus();
        test_broken_nccl(nccl);
        test_no_nccl(nccl);
    }
    test_is_the_gradient("cuda");
    test_same_bits("cuda", ITER_MEMORY_DEVICE, ITER_PRECISION_F32);
#ifndef __SANITIZE_THREAD__ /* minutes there, with nothing new for the threads */
    test_same_bits("cuda", ITER_MEMORY_HOST, ITER_PRECISION_F32);
    test_same_bits("cuda", ITER_MEMORY_DEVICE, ITER_PRECISION_F16);
    test_checkpoint("cuda");
#endif
    test_goes_on("cuda");
    return EXPECT_DONE();
}

int main(int argc, char **argv) {
    draw_sets();
    for (int i = 0; i < ROWS; i++)
        for (int t = 0; t < STEPS; t++)
            next_tokens[i][t] = t + 1 < STEPS && (i + t) % 5 ? tokens[i][t + 1] : ENGINE_NO_TARGET;
    if (argc > 2 && strcmp(argv[1], "--backend") == 0 && strcmp(argv[2], "cuda") == 0)
        return test_cuda();
    for (const char *const *name = iter_engine_backends(); *name; name++) {
        if (strcmp(*name, "cuda") == 0) continue;
        test_is_the_gradient(*name);
        test_same_bits(*name, ITER_MEMORY_HOST, ITER_PRECISION_F32);
        test_checkpoint(*name);
        test_goes_on(*name);
        test_no_memory(*name);
    }
    test_failures();
    test_stop();
    return EXPECT_DONE();
}
