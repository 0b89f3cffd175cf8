/*
 * emulate.h - the work that loaders in interpreted languages do for every sample, done here by the
 * same means: for measuring, in front of this library's loader.
 */
#ifndef BENCH_EMULATE_H
#define BENCH_EMULATE_H

#include "bench/measure/arm.h"

/** The mechanisms; they may be or'ed. */
typedef enum emulate_mechanism {
    EMULATE_DISPATCH = 1, /* a call into an interpreter for every field of every sample */
    EMULATE_COLLATE = 2,  /* every field of every sample is an object of its own, then copied */
    EMULATE_WORKER = 4    /* another thread makes the batch and sends it through a pipe */
} emulate_mechanism;

/**
 * Nanoseconds of one call of EMULATE_DISPATCH, as measured with MXNet 1.9.1 on one core of a 2.5
 * GHz Cascade Lake (bench/peers/dispatch.py, bench/results/dispatch-2026-11-21.txt): gluon's
 * DataLoader without workers takes 12.2 to 13.9 us for a sample of two fields with 8 floats in it,
 * of which copying is about 1. PyTorch's takes 4.9 to 6.5 us.
 */
#define EMULATE_DISPATCH_NS 6000

/**
 * Makes a dataset of the rows of `arrays` in order, as a stream, one batch of `batch` rows at a
 * time at the cost of these mechanisms. Its loader must have batch_size `batch`, no shuffle and no
 * ranks.
 *
 *   arrays      borrowed while the dataset lives
 *   mechanisms  of emulate_mechanism; 0 = rows are copied into the batch, and nothing else
 *
 * Errors  ENOMEM, EIO (no pipe, no thread), errors of iter_dataset_create().
 */
iter_status emulate_create(const bench_arrays *arrays, uint32_t mechanisms, uint32_t batch,
                           iter_dataset **out, iter_error *err);

#endif
