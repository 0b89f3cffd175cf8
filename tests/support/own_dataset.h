/*
 * own_dataset.h - a dataset of the test's own: rows i32 [2] = {index, index squared mod 1000},
 * label u8 = index % 7, with faults on request.
 */
#ifndef TESTS_SUPPORT_OWN_DATASET_H
#define TESTS_SUPPORT_OWN_DATASET_H

#include <stdatomic.h>

#include <iter/iter.h>

typedef struct own_dataset {
    uint64_t n; /* samples; ITER_UNKNOWN = a stream of stream_n */
    uint64_t stream_n;
    uint32_t fail_modulo; /* index % fail_modulo == 1 fails; 0 = none */
    bool variable;        /* "data" is i32 [index % 5 + 1], all equal to index */
    int64_t sleep_ns;     /* per get() */
    atomic_bool block;    /* get() does not return while this is set */
    uint64_t block_from;  /* and its first sample is at least this one */
    atomic_int n_started, n_stopped, n_closed, n_inside, max_inside;
    uint64_t at;            /* stream */
    iter_loader *call_back; /* get() calls next() on it and keeps the result */
    iter_status called_back;
} own_dataset;

/* With start/stop per worker; without (get is then called by one worker at a time); a stream. */
extern const iter_dataset_ops own_ops, own_ops_serial, own_ops_stream;
/* Without start and stop; get may run in several workers at once. */
extern const iter_dataset_ops own_ops_parallel;

iter_dataset *own_open(own_dataset *own, const iter_dataset_ops *ops);

#endif
