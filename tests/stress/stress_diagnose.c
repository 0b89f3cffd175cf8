/*
 * stress_diagnose.c - watches start, read and stop while the loop runs, resets and ends; two
 * watches of one loader; a proof; another's loader by several threads; calls that are wrong; whose
 * threads count as the consumer's.
 */
#include <iter/diagnose.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diagnose/run_queue.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/own_dataset.h"

#define TURNS 20

static iter_loader *open_batches(own_dataset *own, int32_t workers, uint32_t batch_size) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.workers = workers;
    opt.batch_size = batch_size;
    opt.shuffle = ITER_SHUFFLE_FULL;
    iter_dataset *data = own_open(own, &own_ops);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    iter_dataset_unref(data);
    return loader;
}

static iter_loader *open_loader(own_dataset *own, int32_t workers) {
    return open_batches(own, workers, 8);
}

/* A loop of `n` batches. */
static void loop_over(iter_loader *loader, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, NULL);
        if (s == ITER_END)
            s = iter_loader_reset(loader, NULL);
        else if (EXPECT_EQ(s, ITER_OK))
            iter_batch_unref(batch);
    }
}

typedef struct consumer {
    iter_loader *loader;
    atomic_bool stops;
    atomic_uint batches;
} consumer;

static void *consume(void *user) {
    consumer *c = user;
    while (!atomic_load(&c->stops)) {
        iter_batch *batch;
        const iter_status s = iter_loader_next(c->loader, &batch, NULL);
        if (s == ITER_END) {
            EXPECT_EQ(iter_loader_reset(c->loader, NULL), ITER_OK);
        } else if (EXPECT_EQ(s, ITER_OK)) {
            iter_batch_unref(batch);
            atomic_fetch_add(&c->batches, 1);
        }
    }
    return NULL;
}

static void read_watch(iter_diagnose *d) {
    iter_diagnosis v = ITER_DIAGNOSIS_INIT;
    iter_error err = {ITER_OK, ""};
    EXPECT_EQ(iter_diagnose_read(d, &v, &err), ITER_OK);
    EXPECT(v.text[0] != '\0' && v.n_changes >= 0 && v.n_changes <= ITER_DIAGNOSE_CHANGES);
    EXPECT(strcmp(v.limit_text, iter_limit_text(v.limit)) == 0);
}

static void *read_often(void *user) {
    for (int i = 0; i < TURNS; i++) {
        read_watch(user);
        usleep(2000);
    }
    return NULL;
}

/* Watches come and go beside a running loop, which must get every batch. */
static void watches_beside_a_loop(int32_t workers) {
    own_dataset own = {.n = 200, .sleep_ns = 100000};
    consumer c = {.loader = open_loader(&own, workers)};
    pthread_t thread, reader;
    EXPECT_EQ(pthread_create(&thread, NULL, consume, &c), 0);
    for (int i = 0; i < TURNS; i++) {
        iter_diagnose *a = NULL, *b = NULL;
        EXPECT_EQ(iter_diagnose_start(c.loader, NULL, &a, NULL), ITER_OK);
        EXPECT_EQ(iter_diagnose_start(c.loader, NULL, &b, NULL), ITER_OK);
        if (i == 0) EXPECT_EQ(pthread_create(&reader, NULL, read_often, a), 0);
        usleep(3000);
        read_watch(b);
        if (i == 0) pthread_join(reader, NULL);
        iter_diagnose_stop(b);
        iter_diagnose_stop(a);
    }
    atomic_store(&c.stops, true);
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&c.batches) > 0);
    iter_loader_unref(c.loader);
    EXPECT_EQ(atomic_load(&own.n_closed), 1);
}

/* A watch keeps its loader, also one that was stopped. */
static void the_loader_goes_first(void) {
    own_dataset own = {.n = 100};
    iter_loader *loader = open_loader(&own, 2);
    iter_diagnose *d = NULL;
    iter_diagnose_proof proof = ITER_DIAGNOSE_PROOF_INIT;
    EXPECT_EQ(iter_diagnose_start(loader, NULL, &d, NULL), ITER_OK);
    read_watch(d);
    drive_run(loader, 2);
    usleep(30000);
    EXPECT_EQ(iter_loader_stop(loader, NULL), ITER_OK);
    iter_loader_unref(loader);
    read_watch(d);
    EXPECT_EQ(iter_diagnose_prove(d, 0.05, &proof, NULL), ITER_OK);
    iter_diagnose_stop(d);
    EXPECT_EQ(atomic_load(&own.n_closed), 1);
}

/* The loop's first change is `option`, and can be tried. */
static void is_tried(iter_loader *loader, uint32_t n_batches, iter_limit limit,
                     const char *option) {
    iter_diagnose *d = NULL;
    iter_diagnosis v = ITER_DIAGNOSIS_INIT;
    iter_diagnose_proof proof = ITER_DIAGNOSE_PROOF_INIT;
    iter_error err = {ITER_OK, ""};
    EXPECT_EQ(iter_diagnose_start(loader, NULL, &d, NULL), ITER_OK);
    /* Other programs may be the limit for a while. */
    for (int rounds = 0; rounds < 50 && (v.limit != (int32_t)limit || v.n_changes == 0); rounds++) {
        loop_over(loader, n_batches);
        EXPECT_EQ(iter_diagnose_read(d, &v, NULL), ITER_OK);
    }
    EXPECT_EQ(v.limit, limit);
    EXPECT(v.n_changes > 0 && strncmp(v.changes[0].advice, option, strlen(option)) == 0);
    EXPECT_OK(iter_diagnose_prove(d, 0.3, &proof, &err), &err);
    EXPECT_STR(proof.advice, v.changes[0].advice);
    EXPECT(proof.n_slices > 0 && proof.loader > 0 && proof.text[0] != '\0');
    iter_diagnose_stop(d);
    iter_loader_unref(loader);
}

/* Without a worker the loader is the limit; of one row a batch, handing over is. */
static void changes_are_tried(void) {
    own_dataset slow = {.n = 400, .sleep_ns = 4000000}, small = {.n = 4000};
    is_tried(open_loader(&slow, 0), 60, ITER_LIMIT_WORKERS, "workers=");
    is_tried(open_batches(&small, 1, 1), 20000, ITER_LIMIT_BATCH, "batch_size=");
    EXPECT_EQ(atomic_load(&slow.n_closed), 1);
    EXPECT_EQ(atomic_load(&small.n_closed), 1);
}

/* A batch larger than an epoch is not offered. */
static void small_sets(void) {
    own_dataset small = {.n = 40};
    iter_loader *loader = open_batches(&small, 1, 1);
    iter_diagnose *d = NULL;
    iter_diagnosis v = ITER_DIAGNOSIS_INIT;
    EXPECT_EQ(iter_diagnose_start(loader, NULL, &d, NULL), ITER_OK);
    for (int rounds = 0; rounds < 5; rounds++) {
        loop_over(loader, 20000);
        EXPECT_EQ(iter_diagnose_read(d, &v, NULL), ITER_OK);
        for (int i = 0; i < v.n_changes; i++)
            EXPECT(strncmp(v.changes[i].advice, "batch", 5) != 0);
    }
    iter_diagnose_stop(d);
    iter_loader_unref(loader);
}

static void *report_calls(void *user) {
    for (int i = 0; i < 2000; i++) {
        iter_diagnose_next_begin(user);
        iter_diagnose_next_end(user, 4);
    }
    return NULL;
}

static void anothers_loader(void) {
    iter_diagnose *d = NULL;
    pthread_t threads[3];
    iter_diagnose_proof proof = ITER_DIAGNOSE_PROOF_INIT;
    EXPECT_EQ(iter_diagnose_start_loop(NULL, &d, NULL), ITER_OK);
    iter_diagnose_next_end(d, 4); /* without a begin */
    read_watch(d);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, i < 2 ? report_calls : read_often, d), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(iter_diagnose_prove(d, 0.1, &proof, NULL), ITER_EUNSUPPORTED);
    iter_diagnose_stop(d);
}

static void wrong_calls(void) {
    own_dataset own = {.n = 100};
    iter_loader *loader = open_loader(&own, 1);
    iter_diagnose_options opt = ITER_DIAGNOSE_OPTIONS_INIT;
    iter_diagnosis v = {0};
    iter_diagnose_proof proof = ITER_DIAGNOSE_PROOF_INIT;
    iter_diagnose *d = (void *)&v;
    opt.struct_size = 4;
    EXPECT_EQ(iter_diagnose_start(loader, &opt, &d, NULL), ITER_EINVAL);
    EXPECT(d == NULL);
    opt.struct_size = sizeof(opt);
    opt.workers = -2;
    EXPECT_EQ(iter_diagnose_start_loop(&opt, &d, NULL), ITER_EINVAL);
    EXPECT_EQ(iter_diagnose_start(loader, NULL, &d, NULL), ITER_OK);
    EXPECT_EQ(iter_diagnose_read(d, &v, NULL), ITER_EINVAL);
    EXPECT_EQ(iter_diagnose_prove(d, -1, &proof, NULL), ITER_EINVAL);
    EXPECT_EQ(iter_diagnose_html(d, "/nowhere/at/all.html", NULL), ITER_EIO);
    EXPECT(strcmp(iter_limit_text(99), "?") == 0);
    iter_diagnose_stop(d);
    iter_diagnose_stop(NULL);
    iter_loader_unref(loader);
}

typedef struct named {
    const char *name;
    atomic_long id;
    atomic_bool ends;
} named;

static void *be_named(void *user) {
    named *n = user;
    pthread_setname_np(pthread_self(), n->name);
    atomic_store(&n->id, syscall(SYS_gettid));
    while (!atomic_load(&n->ends))
        usleep(1000);
    return NULL;
}

static bool is_listed(const run_queue *queue, long id) {
    for (int i = 0; i < queue->n; i++)
        if (queue->threads[i].id == id) return true;
    return false;
}

/* The consumer's threads are all but those of loaders, rings and observers. */
static void whose_threads_wait(void) {
    static const struct {
        const char *name;
        bool listed;
    } cases[] = {{"iter0-w0", false}, {"iter12-r3", false}, {"iter-observer", false},
                 {"iou-sqp", false},  {"iterbench", true},  {"train", true}};
    run_queue queue;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        named n = {.name = cases[i].name};
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, be_named, &n), 0);
        while (atomic_load(&n.id) == 0)
            usleep(1000);
        run_queue_read(&queue);
        if (!EXPECT_EQ(is_listed(&queue, atomic_load(&n.id)), cases[i].listed))
            fprintf(stderr, "  a thread called %s\n", cases[i].name);
        atomic_store(&n.ends, true);
        pthread_join(thread, NULL);
    }
    /* and those of a loader as it names them */
    own_dataset own = {.n = 100};
    run_queue_read(&queue);
    const int before = queue.n;
    iter_loader *loader = open_loader(&own, 3);
    run_queue_read(&queue);
    EXPECT_EQ(queue.n, before);
    iter_loader_unref(loader);
}

int main(void) {
    whose_threads_wait();
    wrong_calls();
    watches_beside_a_loop(2);
    watches_beside_a_loop(0);
    the_loader_goes_first();
    changes_are_tried();
    small_sets();
    anothers_loader();
    return EXPECT_DONE();
}
