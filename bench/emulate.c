/*
 * emulate.c - see emulate.h.
 *
 * A batch is made in two steps, as in those loaders: all its samples are fetched one by one, then
 * they are put together.
 *
 *   plain     a sample is a pointer into the arrays; together: copied into the loader's slot
 *   dispatch  each fetch goes through a pointer to a function that works for as long as the
 *             measured interpreter did. It counts turns of a loop, not time, so that a thread that
 *             takes the core does not shorten it
 *   collate   each fetch allocates and copies; together: copied once more, into the slot. Those
 *             loaders allocate a batch, too: one is allocated beside the slot, each of its pages
 *             is written to, and it is freed. So no copy is made here that they do not make
 *   worker    a thread does both steps into its own batch and writes that into a pipe; the
 *             consumer reads it from the pipe into the slot. The pipe has room for about a batch,
 *             so that the worker is one ahead
 *
 * The loader asks for a batch in parts of equal size. The worker learns that size from the first
 * call and writes parts of it, one field after the other.
 */
#include "bench/emulate.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#define PAGE_BYTES        4096u
#define CALIBRATION_TURNS 200000u
#define CALIBRATION_PARTS 5

/* ---- Types ----------------------------------------------------------------------------------- */

/* One batch in progress. */
typedef struct maker {
    uint8_t **samples; /* [n_fields][batch]: into the arrays, or allocated */
    uint8_t *fresh;    /* EMULATE_COLLATE: the batch that is allocated for it */
    uint32_t n, used;  /* rows; rows already handed out */
} maker;

typedef struct emulation {
    iter_description desc;
    uint32_t mechanisms, batch;
    uint64_t n_rows;
    const uint8_t *rows[ITER_MAX_FIELDS];
    size_t bytes[ITER_MAX_FIELDS]; /* of a row */
    size_t row_bytes;              /* of all fields */
    void (*volatile dispatch)(uint64_t turns);
    uint64_t dispatch_turns;
    uint64_t at;   /* next row, or n_rows: at the end */
    maker inline_; /* without a worker */
    uint32_t unit; /* rows of a part, set before the worker starts */
    uint32_t part; /* with a worker: rows of the present batch that were read */
    bool running;
    pthread_t worker;
    int to, from; /* the pipe: the worker's end, the consumer's end */
} emulation;

/* ---- A sample -------------------------------------------------------------------------------- */

/* Turns in `ns`, by the fastest of some runs: the others were disturbed. */
static uint64_t turns_of(double ns) {
    double best = 0;
    for (int i = 0; i < CALIBRATION_PARTS; i++) {
        const uint64_t start = bench_now_ns();
        bench_spin(CALIBRATION_TURNS);
        const double took = (double)(bench_now_ns() - start);
        if (i == 0 || took < best) best = took;
    }
    return (uint64_t)(ns * CALIBRATION_TURNS / (best > 0 ? best : 1));
}

static uint8_t *fetch(const emulation *e, int32_t field, uint64_t index) {
    const size_t bytes = e->bytes[field];
    uint8_t *row = (uint8_t *)(uintptr_t)e->rows[field] + index * bytes;
    if ((e->mechanisms & EMULATE_DISPATCH) != 0) e->dispatch(e->dispatch_turns);
    if ((e->mechanisms & EMULATE_COLLATE) == 0) return row;
    uint8_t *own = malloc(bytes);
    if (own != NULL) memcpy(own, row, bytes);
    return own;
}

/* ---- A batch --------------------------------------------------------------------------------- */

static void maker_end(const emulation *e, maker *m) {
    for (uint32_t i = 0; i < m->n && (e->mechanisms & EMULATE_COLLATE) != 0; i++)
        for (int32_t f = 0; f < e->desc.n_fields; f++)
            free(m->samples[(size_t)f * e->batch + i]);
    free(m->fresh);
    m->fresh = NULL;
    m->n = m->used = 0;
}

/* Fetches all samples of the batch that begins at row `first`, one by one. False = no memory. */
static bool maker_begin(const emulation *e, maker *m, uint64_t first) {
    const uint64_t left = e->n_rows - first;
    const uint32_t n = left < e->batch ? (uint32_t)left : e->batch;
    bool good = true;
    for (uint32_t i = 0; i < n; i++) {
        m->n = i + 1;
        for (int32_t f = 0; f < e->desc.n_fields; f++) {
            uint8_t *sample = fetch(e, f, first + i);
            m->samples[(size_t)f * e->batch + i] = sample;
            good = good && sample != NULL;
        }
    }
    if ((e->mechanisms & EMULATE_COLLATE) != 0) {
        m->fresh = malloc(n * e->row_bytes);
        good = good && m->fresh != NULL;
    }
    if (!good) maker_end(e, m);
    return good;
}

/* Writes rows [row, row + n) of one field, without gaps. */
static void put_together(const emulation *e, const maker *m, int32_t field, uint32_t row,
                         uint32_t n, uint8_t *out) {
    const size_t bytes = e->bytes[field];
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + i * bytes, m->samples[(size_t)field * e->batch + row + i], bytes);
}

/* ---- The worker ------------------------------------------------------------------------------ */

static bool write_all(int file, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        const ssize_t n = write(file, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false; /* the consumer has closed its end */
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_all(int file, uint8_t *bytes, size_t size) {
    while (size > 0) {
        const ssize_t n = read(file, bytes, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false; /* the worker has ended */
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* Sends the batch through the pipe, in parts. */
static bool send_batch(const emulation *e, const uint8_t *batch, uint32_t n) {
    for (uint32_t row = 0; row < n; row += e->unit) {
        const uint8_t *field = batch;
        const uint32_t rows = n - row < e->unit ? n - row : e->unit;
        for (int32_t f = 0; f < e->desc.n_fields; f++) {
            if (!write_all(e->to, field + row * e->bytes[f], rows * e->bytes[f])) return false;
            field += n * e->bytes[f];
        }
    }
    return true;
}

static void *work(void *user) {
    emulation *e = user;
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE); /* if the reader has gone, write() fails instead */
    pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
    maker m = {.samples = malloc(e->batch * (size_t)e->desc.n_fields * sizeof(uint8_t *))};
    uint8_t *own = malloc(e->batch * e->row_bytes);
    bool good = m.samples != NULL && own != NULL;
    for (uint64_t first = 0; good;) {
        good = maker_begin(e, &m, first);
        uint8_t *batch = m.fresh != NULL ? m.fresh : own, *at = batch;
        for (int32_t f = 0; good && f < e->desc.n_fields; f++) {
            put_together(e, &m, f, 0, m.n, at);
            at += m.n * e->bytes[f];
        }
        good = good && send_batch(e, batch, m.n);
        first = first + m.n < e->n_rows ? first + m.n : 0;
        maker_end(e, &m);
    }
    close(e->to);
    free(own);
    free(m.samples);
    return NULL;
}

static void stop_worker(emulation *e) {
    if (!e->running) return;
    close(e->from);
    pthread_join(e->worker, NULL);
    e->running = false;
    e->part = 0;
}

static iter_status start_worker(emulation *e, uint32_t unit, iter_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return bench_fail(err, ITER_EIO, "no pipe for the emulated worker: %s", strerror(errno));
    e->from = ends[0];
    e->to = ends[1];
    /* As much of a batch as an ordinary user's pipe can hold; if that fails, 64 KiB. */
    (void)fcntl(e->to, F_SETPIPE_SZ, 1 << 20);
    e->unit = unit;
    const int status = pthread_create(&e->worker, NULL, work, e);
    if (status != 0) {
        close(e->from);
        close(e->to);
        return bench_fail(err, ITER_EIO, "no thread for the emulated worker: %s", strerror(status));
    }
    e->running = true;
    return ITER_OK;
}

/* ---- The dataset ----------------------------------------------------------------------------- */

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)err;
    *out = ((const emulation *)user)->desc;
    return ITER_OK;
}

static iter_status next_of_worker(emulation *e, uint32_t n, const iter_tensor *rows,
                                  iter_error *err) {
    iter_status s = e->running ? ITER_OK : start_worker(e, n, err);
    if (s < 0) return s;
    const uint64_t left = e->n_rows - (e->at - e->part); /* of the epoch, from this batch on */
    const uint32_t batch = left < e->batch ? (uint32_t)left : e->batch;
    const uint32_t expected = batch - e->part < e->unit ? batch - e->part : e->unit;
    if (n != expected)
        return bench_fail(err, ITER_EINVAL, "the emulated worker sends %u rows, not %u", expected,
                          n);
    for (int32_t f = 0; f < e->desc.n_fields; f++)
        if (!read_all(e->from, rows[f].data, n * e->bytes[f]))
            return bench_fail(err, ITER_EIO, "the emulated worker has ended");
    e->part = e->part + n < batch ? e->part + n : 0;
    return ITER_OK;
}

static iter_status next_inline(emulation *e, uint32_t n, const iter_tensor *rows, iter_error *err) {
    maker *m = &e->inline_;
    if (m->n == 0) {
        if (!maker_begin(e, m, e->at))
            return bench_fail(err, ITER_ENOMEM, "no memory for samples of their own");
        for (size_t at = 0; m->fresh != NULL && at < m->n * e->row_bytes; at += PAGE_BYTES)
            ((volatile uint8_t *)m->fresh)[at] = 1;
    }
    if (n > m->n - m->used)
        return bench_fail(err, ITER_EINVAL, "%u rows beyond the end of an emulated batch", n);
    for (int32_t f = 0; f < e->desc.n_fields; f++)
        put_together(e, m, f, m->used, n, rows[f].data);
    m->used += n;
    if (m->used == m->n) maker_end(e, m);
    return ITER_OK;
}

static iter_status next(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                        iter_error *err) {
    emulation *e = user;
    *out_n = 0;
    if (n > e->n_rows - e->at) n = (uint32_t)(e->n_rows - e->at);
    if (n == 0) return ITER_OK;
    const bool worker = (e->mechanisms & EMULATE_WORKER) != 0;
    const iter_status s = worker ? next_of_worker(e, n, rows, err) : next_inline(e, n, rows, err);
    if (s < 0) return s;
    e->at += n;
    *out_n = n;
    return ITER_OK;
}

static iter_status rewind_(void *user, iter_error *err) {
    emulation *e = user;
    (void)err;
    if (e->at != e->n_rows) stop_worker(e); /* in mid-epoch: batches made ahead are dropped */
    maker_end(e, &e->inline_);
    e->at = 0;
    return ITER_OK;
}

static void close_(void *user) {
    emulation *e = user;
    stop_worker(e);
    maker_end(e, &e->inline_);
    free(e->inline_.samples);
    free(e);
}

static const iter_dataset_ops ops = {.struct_size = sizeof(ops),
                                     .name = "emulated",
                                     .describe = describe,
                                     .next = next,
                                     .rewind = rewind_,
                                     .close = close_};

/* ---- Public ---------------------------------------------------------------------------------- */

/* Describes a sample by its array: without the first dimension. */
static void describe_field(const iter_array *array, iter_field *out) {
    snprintf(out->name, sizeof(out->name), "%s", array->name);
    out->role = array->role;
    out->desc = array->desc;
    out->desc.n_dims--;
    memmove(out->desc.dims, out->desc.dims + 1, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
    if (out->desc.layout[0] == 'N')
        memmove(out->desc.layout, out->desc.layout + 1, sizeof(out->desc.layout) - 1);
}

iter_status emulate_create(const bench_arrays *arrays, uint32_t mechanisms, uint32_t batch,
                           iter_dataset **out, iter_error *err) {
    emulation *e = calloc(1, sizeof(*e));
    *out = NULL;
    if (e == NULL) return bench_fail(err, ITER_ENOMEM, "no memory to emulate a loader");
    e->mechanisms = mechanisms;
    e->batch = batch;
    e->n_rows = arrays->n_rows;
    e->desc.n_samples = ITER_UNKNOWN;
    e->desc.n_fields = arrays->n_arrays;
    for (int32_t f = 0; f < arrays->n_arrays; f++) {
        describe_field(&arrays->arrays[f], &e->desc.fields[f]);
        e->rows[f] = arrays->arrays[f].data;
        e->bytes[f] = arrays->bytes[f] / arrays->n_rows;
        e->row_bytes += e->bytes[f];
    }
    e->dispatch = bench_spin;
    e->dispatch_turns = turns_of(EMULATE_DISPATCH_NS);
    e->inline_.samples = malloc(batch * (size_t)arrays->n_arrays * sizeof(uint8_t *));
    iter_status s = ITER_ENOMEM;
    if (e->inline_.samples != NULL)
        s = iter_dataset_create(&ops, e, out, err);
    else
        bench_fail(err, s, "no memory to emulate a loader");
    if (s < 0) {
        free(e->inline_.samples);
        free(e);
    }
    return s;
}
