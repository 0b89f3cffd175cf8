/*
 * plant.h - bottlenecks that are put into a run on purpose, to see whether the verdict finds them.
 *
 * A plant changes options, adds a stage, wraps the dataset's decoder or its source of bytes; from
 * there on the run is like any other. Nothing that judges includes this header.
 */
#ifndef PLANT_H
#define PLANT_H

#include "bench/common/bench_options.h"

typedef struct plant plant;

/**
 * Plants what options->plant asks for, and takes it out of `out`.
 *
 *   made  NULL where nothing was asked for; to be freed by plant_free() whatever the answer
 *   out   like options, otherwise; its texts and tables live as long as the plant
 *
 * Errors  EINVAL (unknown kind, bad factor, something that this run has not: a model, files),
 *         what the dataset answers, ENOMEM.
 */
iter_status plant_make(const bench_options *options, plant **made, bench_options *out,
                       iter_error *err);
void plant_free(plant *made);

/** A stage that takes `us` of CPU time, or of sleep, a row; see plant_stage.c. */
extern const iter_transform_ops plant_stage;

/** The run's set (64 MiB of it) behind a get() that takes `us` a row and lets in one worker at a time;
 * see plant_turn.c. Errors: as bench_arrays_load(). */
iter_status plant_turn(const bench_options *options, double us, iter_dataset **out,
                       iter_error *err);

/** pread with a bandwidth that all its readers share; see plant_disk.c. */
extern const iter_source_ops plant_disk;
/** Of plant_disk, bytes a second; set before a loader is made. */
void plant_disk_rate(double bytes_per_s);

#endif
