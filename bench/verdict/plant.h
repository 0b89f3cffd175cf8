/*
 * plant.h - bottlenecks planted in a run on purpose, to test whether the verdict finds them.
 *
 * A plant changes options, adds a stage, or wraps the dataset's decoder or its source of bytes.
 * After that the run is like any other. Code that judges must not include this header.
 */
#ifndef PLANT_H
#define PLANT_H

#include "bench/common/bench_options.h"

typedef struct plant plant;

/**
 * Plants the bottleneck of options->plant, and removes that option from `out`.
 *
 *   made  NULL if there is no plant; must be freed by plant_free() even after an error
 *   out   a changed copy of options; its texts and tables live as long as the plant
 *
 * Errors  EINVAL (unknown kind, bad factor, the run lacks what the plant needs: a model, files),
 *         errors of the dataset, ENOMEM.
 */
iter_status plant_make(const bench_options *options, plant **made, bench_options *out,
                       iter_error *err);
void plant_free(plant *made);

/** A stage that takes `us` of CPU time, or of sleep, per row; see plant_stage.c. */
extern const iter_transform_ops plant_stage;

/** The run's set (64 MiB of it) with a get() that takes `us` per row and lets in one worker at a
 * time; see plant_turn.c. Errors: those of bench_arrays_load(). */
iter_status plant_turn(const bench_options *options, double us, iter_dataset **out,
                       iter_error *err);

/** pread with a bandwidth that all its readers share; see plant_disk.c. */
extern const iter_source_ops plant_disk;
/** Bandwidth of plant_disk, bytes a second. Must be set before a loader is created. */
void plant_disk_rate(double bytes_per_s);

#endif
