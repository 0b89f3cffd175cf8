/*
 * stress_device_driver.c - the device from many threads over the fake driver: a loader that fills
 * slots, consumers with their own streams that are late at random, and a capture beside them; two
 * devices in one process at once; an error that comes late while all threads work. And, each in a
 * process of its own: a broken driver, and a missing one.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/device/cuda_driver.h"
#include "iter/device/device.h"
#include "tests/fake/fake_cuda.h"
#include "tests/support/expect.h"

#define SLOTS     4
#define BYTES     ((size_t)96 << 10)
#define BATCHES   300
#define CONSUMERS 2

static const fake_cuda *fake;

static void pause_us(long us) {
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

static void expect_nothing_left(void) {
    for (int kind = 0; kind < FAKE_CUDA_KINDS; kind++)
        EXPECT_EQ(fake->live((fake_cuda_kind)kind), 0);
}

/* ---- A loader and its consumers -------------------------------------------------------------- */

/* A slot passes between the loader and the consumers by `state`, the number of consumers that have
 * not queued their work yet. */
typedef struct slot {
    unsigned char *host;
    iter__device_address twin;
    iter__device_event *arrived, *done[CONSUMERS];
    int batch, waiting;
} slot;

typedef struct feed {
    iter__device *device;
    pthread_mutex_t lock; /* guards batch and waiting of the slots, and stop */
    pthread_cond_t changed;
    slot slots[SLOTS];
    bool stop, fails_late;
    atomic_long sums_wrong, sums_right, errors;
} feed;

typedef struct consumer {
    feed *feed;
    int number;
    pthread_t thread;
} consumer;

/* What a batch's kernel checks: every byte must be of the batch for which it was launched. */
typedef struct reading {
    feed *feed;
    const unsigned char *from;
    unsigned char value;
} reading;

static void read_all(void *state) {
    const reading *r = state;
    bool right = true;
    for (size_t i = 0; i < BYTES; i++)
        right &= r->from[i] == r->value;
    atomic_fetch_add(right ? &r->feed->sums_right : &r->feed->sums_wrong, 1);
}

static bool failed(feed *f, iter_status status) {
    if (status >= 0) return false;
    atomic_fetch_add(&f->errors, 1);
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* Waits until a slot may take its next batch: no consumer reads the old one, and nothing copies
 * from it. */
static bool wait_for_slot(feed *f, slot *s) {
    iter_error err;
    for (int i = 0; i < CONSUMERS; i++) {
        const iter_status status = iter__device_query(f->device, s->done[i], &err);
        if (failed(f, status)) return false;
        if (status == ITER_PENDING && failed(f, iter__device_sync(f->device, s->done[i], &err)))
            return false;
    }
    return !failed(f, iter__device_sync(f->device, s->arrived, &err));
}

static void load(feed *f) {
    iter_error err;
    for (int batch = 0; batch < BATCHES; batch++) {
        slot *s = &f->slots[batch % SLOTS];
        pthread_mutex_lock(&f->lock);
        while (s->waiting > 0 && !f->stop)
            pthread_cond_wait(&f->changed, &f->lock);
        const bool stop = f->stop;
        pthread_mutex_unlock(&f->lock);
        if (stop || !wait_for_slot(f, s)) return;
        memset(s->host, batch & 0xff, BYTES);
        if (failed(f, iter__device_copy(f->device, s->twin, s->host, BYTES, &err)) ||
            failed(f, iter__device_mark(f->device, s->arrived, &err)))
            return;
        pthread_mutex_lock(&f->lock);
        s->batch = batch;
        s->waiting = CONSUMERS;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
}

static bool consume(consumer *c, slot *s, int batch, CUstream stream) {
    iter_error err;
    feed *f = c->feed;
    const reading r = {f, (const unsigned char *)(uintptr_t)s->twin, (unsigned char)batch};
    if (failed(f, iter__device_wait(f->device, s->arrived, stream, &err))) return false;
    if (fake->launch(stream, read_all, &r, sizeof r) != CUDA_SUCCESS)
        return !failed(f, ITER_EDEVICE);
    if (failed(f, iter__device_mark_on(f->device, s->done[c->number], stream, &err))) return false;
    pthread_mutex_lock(&f->lock);
    s->waiting--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* A consumer thread with its own stream in the primary context. It captures a graph around every
 * fiftieth batch. */
static void *consumer_main(void *argument) {
    consumer *c = argument;
    feed *f = c->feed;
    iter__cuda_driver cuda;
    iter_error err;
    CUcontext context;
    CUstream stream = NULL, captured = NULL;
    EXPECT_STATUS(iter__cuda_open(&cuda, &err), ITER_OK, &err);
    EXPECT_EQ(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    const bool created = cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                         cuda.cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    EXPECT(created || f->fails_late);
    if (!created) failed(f, ITER_EDEVICE);
    for (int batch = 0; batch < BATCHES && created; batch++) {
        slot *s = &f->slots[batch % SLOTS];
        pthread_mutex_lock(&f->lock);
        while (!(s->batch == batch && s->waiting > 0) && !f->stop)
            pthread_cond_wait(&f->changed, &f->lock);
        const bool stop = f->stop;
        pthread_mutex_unlock(&f->lock);
        if (stop) break;
        fake->delay(stream, batch % 7 == c->number ? 500 : 0);
        CUgraph graph = NULL;
        const bool captures = batch % 50 == 25 && c->number == 0 && !f->fails_late;
        if (captures)
            EXPECT_EQ(cuda.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL),
                      CUDA_SUCCESS);
        const bool going = consume(c, s, batch, stream);
        if (captures) {
            EXPECT_EQ(cuda.cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
            EXPECT_EQ(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
        }
        if (!going) break;
        /* Both consumers must have queued the batch before either goes on to the next: a slot has
         * one `waiting`. */
        pthread_mutex_lock(&f->lock);
        while (s->batch == batch && s->waiting > 0 && !f->stop)
            pthread_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
    }
    if (stream) cuda.cuStreamSynchronize(stream);
    if (captured) cuda.cuStreamDestroy(captured);
    if (stream) cuda.cuStreamDestroy(stream);
    cuda.cuCtxSetCurrent(NULL);
    cuda.cuDevicePrimaryCtxRelease(0);
    iter__cuda_close(&cuda);
    return NULL;
}

static void open_feed(feed *f) {
    iter_error err;
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    EXPECT_STATUS(iter__device_open(ITER_DEVICE(0), &f->device, &err), ITER_OK, &err);
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &f->slots[i];
        s->batch = -1;
        s->host = iter__map(BYTES);
        EXPECT_STATUS(iter__device_pin(f->device, s->host, BYTES, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_alloc(f->device, BYTES, &s->twin, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_event_new(f->device, &s->arrived, &err), ITER_OK, &err);
        for (int c = 0; c < CONSUMERS; c++)
            EXPECT_STATUS(iter__device_event_new(f->device, &s->done[c], &err), ITER_OK, &err);
    }
}

static void close_feed(feed *f) {
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &f->slots[i];
        for (int c = 0; c < CONSUMERS; c++)
            iter__device_event_free(f->device, s->done[c]);
        iter__device_event_free(f->device, s->arrived);
        iter__device_free(f->device, s->twin);
        iter__device_unpin(f->device, s->host);
        iter__unmap(s->host, BYTES);
    }
    iter__device_close(f->device);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* late < 0: nothing fails. */
static void run_feed(feed *f, long late) {
    consumer consumers[CONSUMERS];
    open_feed(f);
    f->fails_late = late >= 0;
    if (late >= 0) fake->fail_late(late, CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int c = 0; c < CONSUMERS; c++) {
        consumers[c] = (consumer){.feed = f, .number = c};
        if (pthread_create(&consumers[c].thread, NULL, consumer_main, &consumers[c]) != 0) abort();
    }
    load(f);
    for (int c = 0; c < CONSUMERS; c++)
        pthread_join(consumers[c].thread, NULL);
    close_feed(f);
    EXPECT_EQ(atomic_load(&f->sums_wrong), 0);
}

static void feeds(void) {
    static feed f;
    fake->reset();
    run_feed(&f, -1);
    EXPECT_EQ(atomic_load(&f.sums_right), BATCHES * CONSUMERS);
    EXPECT_EQ(atomic_load(&f.errors), 0);
    EXPECT_EQ(fake->pageable_copies(), 0);
    EXPECT_EQ(fake->copied_bytes(), BATCHES * BYTES);
    expect_nothing_left();
    for (long late = 0; late < 60; late += 19) {
        fake->reset();
        run_feed(&f, late);
        EXPECT(atomic_load(&f.errors) > 0);
        expect_nothing_left();
    }
}

/* ---- Many devices at once -------------------------------------------------------------------- */

static void *open_and_close(void *argument) {
    const int32_t number = *(const int32_t *)argument;
    for (int i = 0; i < 30; i++) {
        iter__device *device;
        iter__device_event *event;
        iter_error err;
        EXPECT_STATUS(iter__device_open(number, &device, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_event_new(device, &event, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_mark(device, event, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_sync(device, event, &err), ITER_OK, &err);
        EXPECT_EQ(iter__device_ordinal(device), number ? number - 1 : 0);
        iter__device_event_free(device, event);
        iter__device_close(device);
    }
    return NULL;
}

static void devices(void) {
    int32_t numbers[] = {0, ITER_DEVICE(0), ITER_DEVICE(1)};
    pthread_t threads[3];
    fake->reset();
    fake_cuda_machine machine = fake->machine();
    machine.n_devices = 2;
    fake->set_machine(&machine);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, open_and_close, &numbers[i]) != 0) abort();
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    expect_nothing_left();
}

/* One device, one error in many threads: all messages are the first one's. */
typedef struct party {
    iter__device *device;
    iter__device_event *event;
    iter__device_address memory;
    unsigned char *host;
    iter_error err;
} party;

static void *until_it_fails(void *argument) {
    party *p = argument;
    for (;;) {
        if (iter__device_copy(p->device, p->memory, p->host, 64, &p->err) < 0) break;
        if (iter__device_mark(p->device, p->event, &p->err) < 0) break;
        if (iter__device_sync(p->device, p->event, &p->err) < 0) break;
    }
    while (iter__device_query(p->device, p->event, &p->err) >= 0)
        pause_us(10);
    return NULL;
}

static void one_error(void) {
    party parties[4];
    pthread_t threads[4];
    iter__device *device;
    iter_error err;
    fake->reset();
    EXPECT_STATUS(iter__device_open(0, &device, &err), ITER_OK, &err);
    for (int i = 0; i < 4; i++) {
        parties[i].device = device;
        parties[i].host = iter__map(4096);
        EXPECT_STATUS(iter__device_pin(device, parties[i].host, 4096, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_alloc(device, 64, &parties[i].memory, &err), ITER_OK, &err);
        EXPECT_STATUS(iter__device_event_new(device, &parties[i].event, &err), ITER_OK, &err);
    }
    fake->fail_late(50, CUDA_ERROR_LAUNCH_FAILED);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, until_it_fails, &parties[i]) != 0) abort();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const iter_status lost = iter__device_mark(device, parties[0].event, &err);
    EXPECT_EQ(lost, ITER_EDEVICE);
    for (int i = 0; i < 4; i++) {
        EXPECT(strstr(parties[i].err.message, "LAUNCH_FAILED") != NULL);
        iter__device_event_free(device, parties[i].event);
        iter__device_free(device, parties[i].memory);
        iter__device_unpin(device, parties[i].host);
        iter__unmap(parties[i].host, 4096);
    }
    iter__device_close(device);
    expect_nothing_left();
}

/* ---- Without a driver ------------------------------------------------------------------------ */

static int no_driver(void) {
    iter__device *device;
    iter_error err = {0};
    const iter_status status = iter__device_open(0, &device, &err);
    if (status == ITER_OK) { /* there is a real driver after the broken one in the search path */
        iter__device_close(device);
        return EXPECT_DONE();
    }
    EXPECT_EQ(status, ITER_EUNSUPPORTED);
    EXPECT(strstr(err.message, "there is no CUDA driver") != NULL);
    EXPECT(strstr(err.message, "12.0 or newer is needed") != NULL);
    EXPECT(strstr(err.message, ITER_CUDA_LIBRARY) != NULL);
    return EXPECT_DONE();
}

/* Runs this program again with a libcuda.so.1 that is not a library. */
static void without_driver(const char *self) {
    char folder[] = "/tmp/iter_no_driver_XXXXXX", path[64];
    if (mkdtemp(folder) == NULL) abort();
    snprintf(path, sizeof path, "%s/%s", folder, ITER_CUDA_LIBRARY);
    FILE *file = fopen(path, "w");
    if (file == NULL) abort();
    fputs("this is not a library\n", file);
    fclose(file);
    const pid_t child = fork();
    if (child == 0) {
        setenv("LD_LIBRARY_PATH", folder, 1);
        execl(self, self, "no-driver", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(path);
    rmdir(folder);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "no-driver") == 0) return no_driver();
    fake = fake_cuda_get();
    if (fake == NULL) SKIP("the fake driver is not in LD_LIBRARY_PATH");
    without_driver("/proc/self/exe");
    feeds();
    devices();
    one_error();
    return EXPECT_DONE();
}
