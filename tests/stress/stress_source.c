/*
 * stress_source.c - sources as a loader's threads use them: all of them submit and reap under one
 * lock, one waits outside of it, and they exit with reads in flight, which other threads then
 * finish. Every byte is checked.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/source_drive.h"
#include "tests/support/source_fault.h"

#define N_FILES_MAX 300u
#define FILE_BYTES  200000u
#define N_READS     64u
#define READ_BYTES  5000u
#define N_THREADS   4
#define N_LIVES     6    /* each thread runs so many lives, one after the other */
#define LIFE_READS  150u /* submitted in one life */

typedef struct slot {
    iter_read read;
    iter_iovec parts[2];
    uint8_t bytes[READ_BYTES];
    struct slot *next;
    int tries;
} slot;

typedef struct crowd {
    source_drive drive;
    const source_fault_plan *plan; /* NULL = a source without faults */
    uint64_t n_files;
    pthread_mutex_t lock; /* guards all below, and submit, commit, reap, wake, cancel */
    slot *free;
    uint32_t n_in_flight;
    bool waiting; /* a thread is in wait() */
    uint64_t chance;
    unsigned long n_done, n_lost, n_failed;
} crowd;

static char folder[MAKE_PATH_MAX];
static char paths[N_FILES_MAX][MAKE_PATH_MAX];
static iter_file files[N_FILES_MAX];
static slot slots[N_READS];

static uint8_t byte_of(uint64_t file, uint64_t at) {
    return (uint8_t)(file * 37 + at * 11 + at / 256);
}

static size_t size_of(uint64_t file) {
    return file < 8 ? FILE_BYTES : 1000 + (size_t)file; /* some large, the rest small */
}

static void make_all(void) {
    static uint8_t bytes[FILE_BYTES];
    make_folder(folder);
    for (uint64_t i = 0; i < N_FILES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "%03u", (unsigned)i);
        for (size_t j = 0; j < size_of(i); j++)
            bytes[j] = byte_of(i, j);
        make_file(folder, name, bytes, size_of(i));
        files[i] = (iter_file){.path = make_path(paths[i], folder, name), .bytes = size_of(i)};
        source_make_durable(paths[i]);
    }
}

/* ---- One thread ------------------------------------------------------------------------------ */

static uint32_t random_below(crowd *c, uint32_t n) {
    c->chance = c->chance * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((c->chance >> 33) % n);
}

static void put_free(crowd *c, slot *s) {
    s->next = c->free;
    c->free = s;
}

static void draw_read(crowd *c, slot *s) {
    memset(&s->read, 0, sizeof s->read);
    s->tries = 0;
    s->read.object = random_below(c, (uint32_t)c->n_files);
    const size_t size = size_of(s->read.object);
    s->read.size = 1 + random_below(c, READ_BYTES);
    if (s->read.size > size) s->read.size = size;
    s->read.offset = random_below(c, (uint32_t)(size - s->read.size + 1));
    const size_t first = s->read.size / 3;
    s->parts[0] = (iter_iovec){s->bytes, first};
    s->parts[1] = (iter_iovec){s->bytes + first, s->read.size - first};
    s->read.parts = s->parts;
    s->read.n_parts = 2;
    s->read.user = s;
}

static void check(crowd *c, const slot *s) {
    const iter_read *r = &s->read;
    const source_fault_plan *plan = c->plan;
    if (plan != NULL && source_fault_fails_always(plan, r->object, r->offset)) {
        EXPECT_EQ(r->status, ITER_EIO);
        EXPECT_EQ(r->os_error, EIO);
        return;
    }
    if (!EXPECT_EQ(r->status, ITER_OK)) return;
    if (plan != NULL && source_fault_shrinks(plan, r->object, r->offset)) {
        EXPECT(r->done < r->size);
    } else {
        EXPECT_EQ(r->done, r->size);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < r->done; i++)
        wrong += s->bytes[i] != byte_of(r->object, r->offset + i);
    EXPECT_EQ(wrong, 0);
}

/* As in a loader: if a read failed once or was lost, it is tried again. Under the lock. */
static bool asks_again(crowd *c, slot *s) {
    if (s->read.status == ITER_OK || s->tries++ >= 3) return false;
    if (s->read.status == ITER_ECANCELED) c->n_lost++;
    if (s->read.status == ITER_EIO) c->n_failed++;
    return c->drive.ops->submit(c->drive.state, &s->read) == ITER_PENDING;
}

/* Reaps once. The lock is held, but released during checks. Returns the number of completed
 * reads. */
static int32_t reap_some(crowd *c) {
    iter_read *done[8];
    slot *mine[8];
    int32_t n_mine = 0;
    const source_drive *d = &c->drive;
    const int32_t n = d->ops->reap(d->state, done, 8);
    for (int32_t i = 0; i < n; i++) {
        slot *s = done[i]->user;
        if (asks_again(c, s)) continue;
        c->n_in_flight--;
        mine[n_mine++] = s;
    }
    if (n > n_mine) (void)d->ops->commit(d->state);
    if (n > 0 && c->waiting) d->ops->wake(d->state);
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < n_mine; i++)
        check(c, mine[i]);
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < n_mine; i++) {
        put_free(c, mine[i]);
        c->n_done++;
    }
    return n;
}

static void wait_once(crowd *c) {
    if (c->waiting || c->n_in_flight == 0) {
        pthread_mutex_unlock(&c->lock);
        usleep(200);
        pthread_mutex_lock(&c->lock);
        return;
    }
    c->waiting = true;
    pthread_mutex_unlock(&c->lock);
    /* If a wake were lost, this would wait for ever; the test's time limit would report it. */
    EXPECT_EQ(c->drive.ops->wait(c->drive.state, -1), ITER_OK);
    pthread_mutex_lock(&c->lock);
    c->waiting = false;
}

/* Submits until its reads are used up, reaps between, and exits whatever is in flight. */
static void *live(void *arg) {
    crowd *c = arg;
    const source_drive *d = &c->drive;
    pthread_mutex_lock(&c->lock);
    for (uint32_t left = LIFE_READS; left > 0;) {
        for (uint32_t burst = 1 + random_below(c, 16); burst > 0 && left > 0 && c->free; burst--) {
            slot *s = c->free;
            draw_read(c, s);
            if (d->ops->submit(d->state, &s->read) != ITER_PENDING) break;
            c->free = s->next;
            c->n_in_flight++;
            left--;
        }
        EXPECT(d->ops->commit(d->state) >= 0);
        if (random_below(c, 8) == 0) d->ops->wake(d->state);
        if (left > 0 && reap_some(c) == 0) wait_once(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- Crowds ---------------------------------------------------------------------------------- */

/* Returns false if the source is unavailable. */
static bool run_crowd(const char *title, const iter_source_ops *ops, const source_fault_plan *plan,
                      uint64_t n_files, int32_t o_direct) {
    crowd c = {.plan = plan, .n_files = n_files, .chance = n_files + (uint64_t)o_direct};
    if (ops == NULL) return false;
    const iter_source_config config = {.files = files,
                                       .n_files = n_files,
                                       .depth = N_READS / 2,
                                       .o_direct = o_direct,
                                       .arena = slots,
                                       .arena_bytes = sizeof slots};
    const iter_status status = source_drive_open(&c.drive, ops, &config);
    if (status == ITER_EUNSUPPORTED) {
        printf("%s: %s\n", title, c.drive.err.message);
        return false;
    }
    EXPECT_EQ(status, ITER_OK);
    if (status != ITER_OK) return true;
    pthread_mutex_init(&c.lock, NULL);
    for (uint32_t i = 0; i < N_READS; i++)
        put_free(&c, &slots[i]);
    for (int life = 0; life < N_LIVES; life++) {
        pthread_t threads[N_THREADS];
        for (uint64_t i = 0; i < n_files; i++)
            source_make_cold(paths[i]);
        for (int i = 0; i < N_THREADS; i++)
            EXPECT_EQ(pthread_create(&threads[i], NULL, live, &c), 0);
        for (int i = 0; i < N_THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    pthread_mutex_lock(&c.lock); /* what the last threads left in flight */
    while (c.n_in_flight > 0)
        if (reap_some(&c) == 0) wait_once(&c);
    pthread_mutex_unlock(&c.lock);
    EXPECT_EQ(c.n_done, (unsigned long)N_THREADS * N_LIVES * LIFE_READS);
    printf("%s: %lu reads, %lu lost, %lu failed\n", title, c.n_done, c.n_lost, c.n_failed);
    pthread_mutex_destroy(&c.lock);
    source_drive_close(&c.drive);
    EXPECT_EQ(iter__alloc_live(), 0);
    return true;
}

static void *submit_all(void *arg) {
    crowd *c = arg;
    const source_drive *d = &c->drive;
    pthread_mutex_lock(&c->lock);
    while (c->free != NULL) {
        draw_read(c, c->free);
        EXPECT_EQ(d->ops->submit(d->state, &c->free->read), ITER_PENDING);
        c->free = c->free->next;
        c->n_in_flight++;
    }
    EXPECT_EQ(d->ops->commit(d->state), ITER_OK);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* One thread reads ahead in cold files and exits at once; this thread must finish all of its
 * reads. */
static void run_orphans(const iter_source_ops *ops, uint64_t n_files) {
    crowd c = {.n_files = n_files, .chance = 5};
    const iter_source_config config = {.files = files, .n_files = n_files, .depth = N_READS};
    if (!EXPECT_EQ(source_drive_open(&c.drive, ops, &config), ITER_OK)) return;
    pthread_mutex_init(&c.lock, NULL);
    for (uint32_t i = 0; i < N_READS; i++)
        put_free(&c, &slots[i]);
    for (int round = 0; round < 30; round++) {
        for (uint64_t i = 0; i < n_files; i++)
            source_make_cold(paths[i]);
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, submit_all, &c), 0);
        pthread_join(thread, NULL);
        pthread_mutex_lock(&c.lock);
        EXPECT_EQ(c.n_in_flight, N_READS);
        while (c.n_in_flight > 0)
            if (reap_some(&c) == 0) wait_once(&c);
        pthread_mutex_unlock(&c.lock);
    }
    EXPECT_EQ(c.n_lost + c.n_failed, 0);
    pthread_mutex_destroy(&c.lock);
    source_drive_close(&c.drive);
}

/* cancel() while reads hang: all come back, and close() is legal. */
static void run_cancel(void) {
    const source_fault_plan plan = {.inner = source_named("pread"), .seed = 3, .hang = 500};
    source_fault_set(&plan);
    crowd c = {.n_files = 8, .chance = 9};
    const iter_source_config config = {.files = files, .n_files = 8, .depth = N_READS};
    if (!EXPECT_EQ(source_drive_open(&c.drive, &source_fault_ops, &config), ITER_OK)) return;
    const source_drive *d = &c.drive;
    for (uint32_t i = 0; i < N_READS; i++) {
        draw_read(&c, &slots[i]);
        EXPECT_EQ(d->ops->submit(d->state, &slots[i].read), ITER_PENDING);
    }
    iter_read *done[N_READS];
    const int32_t before = d->ops->reap(d->state, done, N_READS);
    EXPECT_EQ(before + (int32_t)source_fault_seen()->hung, N_READS);
    EXPECT(before > 0 && before < (int32_t)N_READS);
    EXPECT_EQ(d->ops->reap(d->state, done, N_READS), 0);
    d->ops->cancel(d->state);
    const int32_t after = d->ops->reap(d->state, done, N_READS);
    EXPECT_EQ(before + after, N_READS);
    for (int32_t i = 0; i < after; i++)
        EXPECT_EQ(done[i]->status, ITER_ECANCELED);
    source_drive_close(&c.drive);
}

int main(void) {
    const source_fault_plan faulty = {.inner = source_named("pread"),
                                      .seed = 11,
                                      .eio_once = 50,
                                      .eio_always = 20,
                                      .lost = 50,
                                      .interrupted = 100,
                                      .shrunk = 30,
                                      .queue_full = 50,
                                      .idle_waits = 200,
                                      .delay_ns = 2000000,
                                      .reorder = true};
    make_all();
    run_cancel();
    source_fault_set(&faulty);
    run_crowd("fault", &source_fault_ops, &faulty, N_FILES_MAX, 0);
    source_fault_counts *seen = source_fault_seen();
    EXPECT(seen->eio > 0 && seen->lost > 0 && seen->interrupted > 0 && seen->shrunk > 0 &&
           seen->queue_full > 0);

    const iter_source_ops *ring = source_named("ring");
    const bool had = run_crowd("ring, files kept open", ring, NULL, 40, 0);
    if (had) {
        run_crowd("ring, files opened as they are read", ring, NULL, N_FILES_MAX, 0);
        run_crowd("ring, O_DIRECT", ring, NULL, 40, 1);
        run_crowd("ring, O_DIRECT, files opened as they are read", ring, NULL, N_FILES_MAX, 1);
        run_orphans(ring, 40);
        run_orphans(ring, N_FILES_MAX);
    }
    make_folder_gone(folder);
    if (!had && EXPECT_DONE() == 0) SKIP("no io_uring; the faulty source passed");
    return EXPECT_DONE();
}
