/*
 * stress_attack.c - what a loader is not built for but must survive: no spare slot and an arena of
 * two chunks; 64 workers for three rows; cancel and the last unref at the worst moment and from the
 * worst thread; several loaders made at once over one dataset; samplers that call back; sizes that
 * overflow; options of random bytes. Everything is seeded. If a call hangs, timeout_ms makes it a
 * failure.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/drive.h"
#include "tests/support/expect.h"
#include "tests/support/make_data.h"
#include "tests/support/own_dataset.h"
#include "tests/support/source_fault.h"

#define N 300

static char folder[512];
static const int32_t worker_counts[] = {0, 1, 2, 8};

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static iter_loader_options options(int32_t workers, uint32_t batch_size) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch_size;
    opt.workers = workers;
    opt.prefetch = 1;
    opt.max_held = 1;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.faults.timeout_ms = 30000;
    opt.memory.limit = 64 << 20;
    return opt;
}

/* ---- No room --------------------------------------------------------------------------------- */

/* A loader with the least memory that it accepts. With less it must be refused, and the message
 * must give the numbers. */
static iter_loader *with_least_memory(iter_dataset *data, iter_loader_options *opt) {
    for (uint64_t limit = 20000; limit < 256u << 20; limit += limit / 16) {
        iter_loader *loader;
        iter_error err;
        char number[32];
        opt->memory.limit = limit;
        const iter_status s = iter_dataloader_create(data, NULL, opt, &loader, &err);
        if (s == ITER_OK) return loader;
        snprintf(number, sizeof(number), " %llu bytes", (unsigned long long)limit);
        EXPECT_ERROR(s, ITER_ENOMEM, &err, number);
        EXPECT(loader == NULL);
    }
    fprintf(stderr, "no loader fits 256 MiB\n");
    exit(1);
}

/* Moves about at random: rows must be right, and the loader must go on. */
static void wander(iter_loader *loader, uint32_t batch_size, uint64_t seed, int n_steps) {
    char saved[512];
    size_t size = 0;
    for (int step = 0; step < n_steps; step++) {
        iter_error err;
        iter_batch *batch = NULL;
        const uint32_t what = draw(&seed) % 100;
        if (what < 15) {
            EXPECT_OK(iter_loader_reset(loader, &err), &err);
        } else if (what < 25) {
            EXPECT_OK(iter_loader_seek(loader, draw(&seed) % 3,
                                       draw(&seed) % (N / batch_size + 1) * batch_size, &err),
                      &err);
        } else if (what < 35) {
            EXPECT_OK(iter_loader_save(loader, saved, sizeof(saved), &size, &err), &err);
        } else if (what < 45 && size) {
            EXPECT_OK(iter_loader_restore(loader, saved, size, &err), &err);
        } else {
            const iter_status s = iter_loader_next(loader, &batch, &err);
            if (s == ITER_END) {
                EXPECT_OK(iter_loader_reset(loader, &err), &err);
            } else if (!EXPECT_OK(s, &err)) {
                return;
            } else {
                EXPECT_EQ(drive_wrong_rows(batch), 0);
                /* while a batch is in use */
                if (what > 90) EXPECT_OK(iter_loader_reset(loader, &err), &err);
                EXPECT_EQ(drive_wrong_rows(batch), 0);
            }
        }
        iter_batch_unref(batch);
    }
}

static void tight(void) {
    static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD, ITER_SOURCE_MEMORY};
    static const uint32_t sizes[] = {1, 7, 64, 299};
    iter_dataset *data = drive_open(folder);
    for (int s = 0; s < 3; s++) {
        for (int w = 0; w < 4; w++) {
            for (int b = 0; b < 4; b++) {
                iter_loader_options opt = options(worker_counts[w], sizes[b]);
                opt.reading.source = sources[s];
                iter_loader *loader = with_least_memory(data, &opt);
                wander(loader, sizes[b], (uint64_t)(s * 100 + w * 10 + b), 120);
                iter_loader_unref(loader);
            }
        }
    }
    iter_dataset_unref(data);
}

/* The same over a slow source that turns reads away, with room for only two chunks in the arena. */
static void tight_and_slow(void) {
    iter_dataset *data = drive_open(folder);
    for (int w = 0; w < 4; w++) {
        for (uint64_t seed = 0; seed < 6; seed++) {
            source_fault_set(&(source_fault_plan){.inner = &iter__source_pread,
                                                  .seed = seed,
                                                  .delay_ns = 200000,
                                                  .reorder = true,
                                                  .queue_full = 200,
                                                  .idle_waits = 200,
                                                  .try_errno = seed % 2 ? 11 : 95});
            iter_loader_options opt = options(worker_counts[w], 40);
            opt.reading.source = ITER_SOURCE_RING;
            opt.reading.ops = seed % 3 ? &source_fault_ops : &source_fault_sync_ops;
            opt.prefetch = 1 + (uint32_t)seed % 4;
            iter_loader *loader = with_least_memory(data, &opt);
            wander(loader, 40, seed, 80);
            iter_loader_unref(loader);
        }
    }
    iter_dataset_unref(data);
}

/* More workers than rows, batches larger than the set, one row a batch. */
static void odd_shapes(void) {
    for (uint64_t n = 1; n <= 3; n++) {
        for (int32_t workers = 0; workers <= 64; workers += 32) {
            for (uint32_t batch_size = 1; batch_size <= 64; batch_size += 63) {
                own_dataset own = {.n = n};
                iter_dataset *data = own_open(&own, &own_ops);
                const iter_loader_options opt = options(workers, batch_size);
                iter_loader *loader = drive_loader(data, NULL, &opt);
                for (int e = 0; e < 20; e++) {
                    iter_error err;
                    iter_batch *batch;
                    iter_status s;
                    uint64_t rows = 0;
                    while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
                        rows += iter_batch_describe(batch).n_valid;
                        iter_batch_unref(batch);
                    }
                    EXPECT_STATUS(s, ITER_END, &err);
                    EXPECT_EQ(rows, n);
                    EXPECT_OK(iter_loader_reset(loader, &err), &err);
                }
                iter_loader_unref(loader);
                iter_dataset_unref(data);
                EXPECT_EQ(own.n_started, own.n_stopped);
                EXPECT_EQ(own.n_closed, 1);
            }
        }
    }
}

/* ---- Cancel and stop at the worst moment ----------------------------------------------------- */

typedef struct killer {
    iter_loader *loader;
    long after_ns;
    bool stops;
} killer;

static void *kill_later(void *arg) {
    const killer *k = arg;
    const struct timespec pause = {.tv_nsec = k->after_ns};
    nanosleep(&pause, NULL);
    if (k->stops) {
        iter_error err;
        EXPECT_OK(iter_loader_stop(k->loader, &err), &err);
    } else {
        iter_loader_cancel(k->loader);
    }
    iter_loader_unref(k->loader);
    return NULL;
}

/* Another thread calls cancel() or stop(), whatever next() is doing. The batch in use stays
 * valid. */
static void canceled(void) {
    uint64_t seed = 7;
    iter_dataset *data = drive_open(folder);
    for (int round = 0; round < 160; round++) {
        source_fault_set(&(source_fault_plan){.inner = &iter__source_pread,
                                              .seed = seed,
                                              .delay_ns = draw(&seed) % 1000000,
                                              .reorder = true,
                                              .hang = round % 4 == 0 ? 30 : 0,
                                              .try_errno = 11});
        iter_loader_options opt = options(worker_counts[round % 4], 16);
        static const int32_t sources[] = {ITER_SOURCE_RING, ITER_SOURCE_PREAD, ITER_SOURCE_MEMORY};
        opt.reading.source = sources[round / 4 % 3];
        if (round % 4 == 0 || round % 5 == 0) {
            opt.reading.ops = &source_fault_ops;
            opt.reading.source = ITER_SOURCE_RING;
        }
        iter_loader *loader = drive_loader(data, NULL, &opt);
        killer k = {.loader = iter_loader_ref(loader),
                    .after_ns = (long)(draw(&seed) % 3000000),
                    .stops = draw(&seed) % 2};
        /* next() runs in the consumer's thread, which alone may stop the loader */
        if (opt.workers == 0) k.stops = false;
        pthread_t thread;
        EXPECT_EQ(pthread_create(&thread, NULL, kill_later, &k), 0);
        iter_error err;
        iter_batch *batch = NULL, *held = NULL;
        iter_status s;
        while ((s = iter_loader_next(loader, &batch, &err)) >= 0) {
            if (s == ITER_END) {
                if (iter_loader_reset(loader, &err) < 0) break;
                continue;
            }
            iter_batch_unref(held);
            held = NULL;
            if (round % 3) {
                iter_batch_unref(batch);
            } else {
                held = batch;
                if (iter_loader_reset(loader, &err) < 0) break;
                iter_batch_unref(held);
                held = NULL;
            }
        }
        if (s < 0) EXPECT_STATUS(s, ITER_ECANCELED, &err);
        EXPECT_EQ(iter_loader_next(loader, &batch, &err), ITER_ECANCELED);
        if (round % 2) pthread_join(thread, NULL);
        iter_loader_unref(loader); /* either reference may be the last */
        if (round % 2 == 0) pthread_join(thread, NULL);
        if (held) EXPECT_EQ(drive_wrong_rows(held), 0);
        iter_batch_unref(held);
    }
    iter_dataset_unref(data);
}

/* A callback in one of the loader's own threads drops the last reference of a loader or batch. */
typedef struct suicide {
    iter_loader *_Atomic loader;
    iter_batch *_Atomic batch;
    atomic_int n_done;
} suicide;

static iter_status collate(void *user, iter_batch_view *fields, int32_t n_fields, iter_error *err) {
    suicide *s = user;
    (void)fields, (void)n_fields, (void)err;
    iter_batch *batch = atomic_exchange(&s->batch, NULL);
    iter_loader *loader = atomic_exchange(&s->loader, NULL);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
    if (loader) atomic_fetch_add(&s->n_done, 1);
    return ITER_OK;
}

static void from_inside(int32_t source) {
    iter_dataset *data = drive_open(folder);
    const long live = iter__alloc_live();
    const long preloaded = source == ITER_SOURCE_MEMORY; /* is freed with the dataset */
    /* one per round: a worker of the last round may still be about to exit */
    static suicide all[40];
    for (int round = 0; round < 40; round++) {
        suicide *s = &all[round];
        *s = (suicide){.loader = NULL};
        iter_loader_options opt = options(1 + round % 4, 16);
        opt.reading.source = source;
        opt.collate = collate;
        opt.collate_user = s;
        opt.prefetch = 3;
        iter_loader *loader = drive_loader(data, NULL, &opt);
        iter_error err;
        iter_batch *batch, *kept = NULL;
        EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
        if (round % 3 == 0) kept = iter_batch_ref(batch);
        atomic_store(&s->batch, batch);
        atomic_store(&s->loader, loader);
        iter_batch *gone = NULL;
        const struct timespec pause = {.tv_nsec = 1000000};
        /* a free slot, with which the worker can go on */
        if (round % 2) gone = atomic_exchange(&s->batch, NULL);
        iter_batch_unref(gone);
        int waits = 0;
        while (!atomic_load(&s->n_done) && waits++ < 50)
            nanosleep(&pause, NULL);
        /* if all slots were full already, no worker collates until one is free */
        if (!atomic_load(&s->n_done)) {
            iter_batch_unref(atomic_exchange(&s->batch, NULL));
            for (waits = 0; !atomic_load(&s->n_done) && waits < 50; waits++)
                nanosleep(&pause, NULL);
            iter_loader_unref(atomic_exchange(&s->loader, NULL));
        }
        if (kept) EXPECT_EQ(drive_wrong_rows(kept), 0);
        iter_batch_unref(kept);
        for (waits = 0; waits < 5000 && iter__alloc_live() > live + 2 * preloaded; waits++)
            nanosleep(&pause, NULL);
        EXPECT(iter__alloc_live() <= live + 2 * preloaded); /* the last thread frees the loader */
    }
    iter_dataset_unref(data);
}

/* ---- Many loaders at once -------------------------------------------------------------------- */

typedef struct maker {
    iter_dataset *data;
    int32_t source, workers;
    uint64_t hash;
} maker;

static void *make_and_run(void *arg) {
    maker *m = arg;
    iter_loader_options opt = options(m->workers, 32);
    opt.reading.source = m->source;
    opt.seed = 9;
    iter_loader *loader = drive_loader(m->data, NULL, &opt);
    iter_dataset_unref(m->data); /* the loader keeps its own reference */
    m->hash = drive_run(loader, 2);
    iter_loader_unref(loader);
    return NULL;
}

/* liburing maps its rings by system calls that ThreadSanitizer does not see. If one thread's ring
 * is mapped at the address of another thread's old ring, that looks like a race. The other stress
 * programs check that calls on one ring come one at a time. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "race:probe_ring\nrace:uring_\n";
}

static void many_at_once(void) {
    for (int round = 0; round < 6; round++) {
        iter_dataset *data = drive_open(folder);
        maker makers[6];
        pthread_t threads[6];
        for (int i = 0; i < 6; i++) {
            static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_AUTO,
                                              ITER_SOURCE_RING};
            makers[i] = (maker){iter_dataset_ref(data), sources[(i + round) % 3], i % 3, 0};
            EXPECT_EQ(pthread_create(&threads[i], NULL, make_and_run, &makers[i]), 0);
        }
        iter_dataset_unref(data);
        for (int i = 0; i < 6; i++)
            pthread_join(threads[i], NULL);
        for (int i = 1; i < 6; i++)
            EXPECT(makers[i].hash == makers[0].hash);
    }
}

/* ---- A sampler that calls back --------------------------------------------------------------- */

static iter_loader *_Atomic called_loader;
static atomic_int call_status; /* of the last call from inside the sampler */

static iter_status nosy_open(void *state, const void *opt, const iter_sampler_context *context,
                             iter_error *err) {
    (void)state, (void)opt, (void)context, (void)err;
    return ITER_OK;
}

static uint64_t nosy_length(const void *state) {
    (void)state;
    return 50;
}

static void nosy_index(void *state, uint32_t epoch, uint64_t position, uint32_t n, uint64_t *out) {
    (void)state, (void)epoch;
    for (uint32_t i = 0; i < n; i++)
        out[i] = position + i;
    iter_loader *loader = atomic_load(&called_loader);
    iter_batch *batch;
    if (loader) atomic_store(&call_status, (int)iter_loader_next(loader, &batch, NULL));
}

static const iter_sampler_ops nosy = {.base = {.struct_size = sizeof(nosy), .name = "nosy"},
                                      .open = nosy_open,
                                      .length = nosy_length,
                                      .index = nosy_index};

static void called_back(void) {
    for (int w = 0; w < 3; w++) {
        own_dataset own = {.n = 50};
        iter_dataset *data = own_open(&own, &own_ops);
        iter_loader_options opt = options(worker_counts[w], 4);
        opt.sampler.ops = &nosy;
        atomic_store(&call_status, 99);
        iter_loader *loader = drive_loader(data, NULL, &opt);
        atomic_store(&called_loader, loader);
        for (int i = 0; i < 8; i++) {
            iter_error err;
            iter_batch *batch;
            EXPECT_OK(iter_loader_next(loader, &batch, &err), &err);
            iter_batch_unref(batch);
        }
        atomic_store(&called_loader, NULL);
        iter_loader_unref(loader);
        EXPECT_EQ(atomic_load(&call_status), ITER_ESTATE);
        iter_dataset_unref(data);
    }
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static int64_t huge_dims[3];
static int32_t huge_n_dims;

static iter_status describe_huge(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = 100;
    out->n_fields = 2;
    for (int f = 0; f < 2; f++) {
        out->fields[f] = (iter_field){.role = f ? ITER_LABEL : ITER_DATA,
                                      .desc = {.dtype = ITER_U8, .n_dims = huge_n_dims}};
        snprintf(out->fields[f].name, sizeof(out->fields[f].name), "field%d", f);
        for (int d = 0; d < huge_n_dims; d++)
            out->fields[f].desc.dims[d] = huge_dims[d];
    }
    return ITER_OK;
}

static iter_status get_nothing(void *user, void *state, uint32_t n, const uint64_t *indices,
                               const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)n, (void)indices, (void)rows, (void)rng, (void)err;
    return ITER_OK;
}

static const iter_dataset_ops huge_ops = {
    .struct_size = sizeof(huge_ops), .name = "huge", .describe = describe_huge, .get = get_nothing};

/* If the bytes of rows, batches or slots do not fit a size_t or this machine, they must be refused,
 * and never wrap around. */
static void huge(void) {
    static const int64_t shapes[][3] = {{INT32_MAX, INT32_MAX, 1}, {INT32_MAX, INT32_MAX, 2},
                                        {1 << 30, 1 << 30, 2},     {1 << 30, 1 << 30, 4},
                                        {INT32_MAX, INT32_MAX, 7}, {1 << 20, 1 << 20, 1 << 7},
                                        {1 << 30, 1 << 12, 1},     {1 << 30, 1 << 24, 1 << 9}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (uint32_t batch_size = 1; batch_size <= 1u << 24; batch_size *= 4) {
            for (uint32_t slots = 1; slots <= 4096; slots *= 64) {
                memcpy(huge_dims, shapes[i], sizeof(huge_dims));
                huge_n_dims = 3;
                iter_error err = {.status = ITER_OK};
                iter_dataset *data;
                iter_loader *loader;
                iter_status s = iter_dataset_create(&huge_ops, NULL, &data, &err);
                if (s == ITER_OK) {
                    iter_loader_options opt = options(0, batch_size);
                    opt.prefetch = opt.max_held = slots;
                    s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
                    EXPECT(loader == NULL);
                    iter_loader_unref(loader);
                }
                iter_dataset_unref(data);
                EXPECT(s == ITER_EINVAL || s == ITER_ENOMEM);
                EXPECT(err.status == s && err.message[0]);
            }
        }
    }
}

/* ---- Options --------------------------------------------------------------------------------- */

/* A number that is likely to hurt. */
static uint64_t odd(uint64_t *seed) {
    static const uint64_t values[] = {0,         0,        0,          1,         2,
                                      3,         4,        5,          17,        64,
                                      255,       256,      4096,       65537,     1u << 24,
                                      INT32_MAX, 1u << 31, UINT32_MAX, INT64_MAX, (uint64_t)1 << 63,
                                      UINT64_MAX};
    const uint64_t value = values[draw(seed) % (sizeof(values) / sizeof(values[0]))];
    return draw(seed) % 4 ? value : value + draw(seed) % 7 - 3;
}

static void garbage(void) {
    uint64_t seed = 1234;
    int n_ok = 0;
    iter_dataset *data = drive_open(folder);
    for (int round = 0; round < 3000; round++) {
        iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
        uint64_t *r = &seed;
        if (draw(r) % 3 == 0) opt.batch_size = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.workers = (int32_t)odd(r) % (round % 2 ? 3 : INT32_MAX);
        if (draw(r) % 3 == 0) opt.prefetch = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.max_held = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.ranks = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.rank = (uint32_t)odd(r);
        opt.seed = odd(r);
        if (draw(r) % 3 == 0) opt.shuffle = (int32_t)odd(r);
        if (draw(r) % 3 == 0) opt.last_batch = (int32_t)odd(r);
        if (draw(r) % 3 == 0) opt.epochs = (uint32_t)odd(r);
        if (draw(r) % 4 == 0) opt.lookahead = (int32_t)odd(r);
        if (draw(r) % 4 == 0) opt.faults.on_error = (int32_t)odd(r);
        if (draw(r) % 3 == 0) opt.faults.max_failures = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.reading.source = (int32_t)odd(r);
        if (draw(r) % 4 == 0) opt.reading.o_direct = (int32_t)odd(r);
        if (draw(r) % 4 == 0) opt.memory.kind = (int32_t)odd(r);
        if (draw(r) % 4 == 0) opt.arrays.copy = (int32_t)odd(r);
        if (draw(r) % 4 == 0) opt.views = (int32_t)odd(r);
        opt.memory.limit = draw(r) % 3 ? 200u << 20 : odd(r) % (200u << 20);
        if (draw(r) % 3 == 0) opt.reading.max_sample_bytes = odd(r);
        if (draw(r) % 3 == 0) opt.faults.timeout_ms = (int64_t)odd(r);
        if (draw(r) % 3 == 0) opt.faults.grace_ms = (int64_t)odd(r);
        if (opt.faults.timeout_ms > 0 && opt.faults.timeout_ms < 1000) opt.faults.timeout_ms = 1000;
        if (draw(r) % 3 == 0) opt.sampler.block = (uint32_t)odd(r);
        if (draw(r) % 3 == 0) opt.sampler.buffer_blocks = (uint32_t)odd(r);
        if (draw(r) % 20 == 0) opt.struct_size = odd(r) % sizeof(opt);
        if (draw(r) % 20 == 0) opt.sampler.spec = ":=,;|";
        iter_loader *loader;
        iter_error err = {.status = ITER_OK};
        const iter_status s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
        if (s < 0) {
            EXPECT(loader == NULL && err.status == s && err.message[0]);
            continue;
        }
        n_ok++;
        for (int i = 0; i < 3; i++) {
            iter_batch *batch;
            const iter_status got = iter_loader_next(loader, &batch, &err);
            if (got == ITER_END) {
                (void)!iter_loader_reset(loader, &err);
            } else if (got == ITER_OK) {
                if (opt.reading.source != ITER_SOURCE_NULL) EXPECT_EQ(drive_wrong_rows(batch), 0);
            } else {
                /* the only reason for a sample to fail here */
                EXPECT(opt.reading.max_sample_bytes > 0 && opt.reading.max_sample_bytes < 3073);
            }
            iter_batch_unref(batch);
        }
        iter_loader_unref(loader);
    }
    EXPECT(n_ok > 30);
    printf("%d of 3000 option sets can be\n", n_ok);
    iter_dataset_unref(data);
}

#define STEP(call)                                                                              \
    do {                                                                                        \
        struct timespec from, to;                                                               \
        clock_gettime(CLOCK_MONOTONIC, &from);                                                  \
        call;                                                                                   \
        clock_gettime(CLOCK_MONOTONIC, &to);                                                    \
        printf("%-32s %.2f s\n", #call,                                                         \
               (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9); \
        fflush(stdout);                                                                         \
    } while (0)

int main(void) {
    drive_cifar(folder, N);
    STEP(huge());
    STEP(called_back());
    STEP(odd_shapes());
    STEP(tight());
    STEP(tight_and_slow());
    STEP(canceled());
    STEP(from_inside(ITER_SOURCE_MEMORY));
    STEP(from_inside(ITER_SOURCE_RING));
    STEP(many_at_once());
    STEP(garbage());
    make_folder_gone(folder);
    return EXPECT_DONE();
}
