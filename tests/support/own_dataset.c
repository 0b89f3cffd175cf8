/* own_dataset.c - see own_dataset.h. */
#include "tests/support/own_dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/drive.h"

static iter_status describe(void *user, iter_description *out, iter_error *err) {
    const own_dataset *own = user;
    (void)err;
    out->n_samples = own->n;
    out->n_fields = 2;
    out->fields[0] = (iter_field){
        .name = "data", .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {2}}};
    if (own->variable) {
        out->fields[0].desc.dims[0] = ITER_VARIABLE;
        out->fields[0].desc.capacity = 5;
    }
    out->fields[1] = (iter_field){.name = "label", .role = ITER_LABEL, .desc = {.dtype = ITER_U8}};
    return ITER_OK;
}

static iter_status start(void *user, void **out_state, iter_error *err) {
    own_dataset *own = user;
    (void)err;
    *out_state = own;
    atomic_fetch_add(&own->n_started, 1);
    return ITER_OK;
}

static void stop(void *user, void *state) {
    own_dataset *own = user;
    if (state != own) abort();
    atomic_fetch_add(&own->n_stopped, 1);
}

static void write_row(const own_dataset *own, const iter_tensor *rows, uint32_t i, uint64_t index) {
    int32_t *data = (int32_t *)rows[0].data + i * rows[0].strides[0];
    if (own->variable) {
        const int64_t length = (int64_t)(index % 5) + 1;
        for (int64_t j = 0; j < length; j++)
            data[j] = (int32_t)index;
        iter_rows_set_length(rows, 0, i, length);
    } else {
        data[0] = (int32_t)index;
        data[1] = (int32_t)(index * index % 1000);
    }
    ((uint8_t *)rows[1].data)[i * rows[1].strides[0]] = (uint8_t)(index % 7);
}

static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    own_dataset *own = user;
    (void)state, (void)rng;
    const int inside = atomic_fetch_add(&own->n_inside, 1) + 1;
    if (inside > atomic_load(&own->max_inside)) atomic_store(&own->max_inside, inside);
    const struct timespec pause = {.tv_nsec = own->sleep_ns ? own->sleep_ns : 1000000};
    if (own->sleep_ns) nanosleep(&pause, NULL);
    while (atomic_load(&own->block) && indices[0] >= own->block_from)
        nanosleep(&pause, NULL);
    if (own->call_back) {
        iter_batch *batch;
        own->called_back = iter_loader_next(own->call_back, &batch, err);
    }
    iter_status status = ITER_OK;
    for (uint32_t i = 0; i < n; i++) {
        write_row(own, rows, i, indices[i]);
        if (!own->fail_modulo || indices[i] % own->fail_modulo != 1) continue;
        snprintf(err->message, sizeof(err->message), "sample %llu is bad on purpose",
                 (unsigned long long)indices[i]);
        status = err->status = ITER_EFORMAT;
        break;
    }
    atomic_fetch_sub(&own->n_inside, 1);
    return status;
}

static iter_status next(void *user, uint32_t n, const iter_tensor *rows, uint32_t *out_n,
                        iter_error *err) {
    own_dataset *own = user;
    (void)err;
    *out_n = 0;
    for (; *out_n < n && own->at < own->stream_n; own->at++)
        write_row(own, rows, (*out_n)++, own->at);
    return ITER_OK;
}

static iter_status rewind_stream(void *user, iter_error *err) {
    (void)err;
    ((own_dataset *)user)->at = 0;
    return ITER_OK;
}

static void close_own(void *user) {
    atomic_fetch_add(&((own_dataset *)user)->n_closed, 1);
}

const iter_dataset_ops own_ops = {.struct_size = sizeof(own_ops),
                                  .name = "own",
                                  .describe = describe,
                                  .start = start,
                                  .stop = stop,
                                  .get = get,
                                  .close = close_own};
const iter_dataset_ops own_ops_serial = {.struct_size = sizeof(own_ops_serial),
                                         .name = "own",
                                         .describe = describe,
                                         .get = get,
                                         .close = close_own};
const iter_dataset_ops own_ops_parallel = {.struct_size = sizeof(own_ops_parallel),
                                           .name = "own",
                                           .describe = describe,
                                           .get = get,
                                           .close = close_own,
                                           .parallel = 1};
const iter_dataset_ops own_ops_stream = {.struct_size = sizeof(own_ops_stream),
                                         .name = "own-stream",
                                         .describe = describe,
                                         .next = next,
                                         .rewind = rewind_stream,
                                         .close = close_own};

iter_dataset *own_open(own_dataset *own, const iter_dataset_ops *ops) {
    iter_error err;
    iter_dataset *dataset;
    if (iter_dataset_create(ops, own, &dataset, &err) < 0) {
        fprintf(stderr, "own dataset: %s\n", err.message);
        exit(1);
    }
    return dataset;
}
