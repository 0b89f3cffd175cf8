/* trainer.h - struct iter_trainer, shared by trainer.c, trainer_run.c and checkpoint.c. */
#ifndef ENGINE_TRAINER_H
#define ENGINE_TRAINER_H

#include "engine/backend.h"
#include "engine/ranks/job.h"

#define ENGINE_SEGMENTS "segments" /* the field's name */

/* A run whose outcome is not known yet, with what a later message about it needs. */
typedef struct engine_pending {
    uint64_t step;
    uint32_t epoch;
    int64_t n_rows, n_counted;
    bool training;
} engine_pending;

struct iter_trainer {
    iter_model *model; /* a reference */
    engine_net net;
    engine_optimizer optimizer;
    const engine_backend_ops *ops;
    void *state; /* the backend's */
    uint32_t threads;
    int64_t batch; /* rows of a full batch of the loader: the net's, unless there is a job */
    /* If there are several ranks or micro-batches; the net's batch is then a micro-batch. Else
     * NULL. */
    engine_job *job;
    double job_seconds;     /* spent in turns and sums */
    double job_sum_seconds; /* of these, in sums */
    double update_seconds;  /* of the last step: counted as computing of the next one */
    double left_at;         /* when the last step ended; 0 = none yet */
    uint64_t seed;
    uint64_t n_steps;  /* steps since the weights were made; checkpoints restore it */
    bool has_gradient; /* a training step has run since create or load */
    bool keep_input_gradient;
    /* The loader's fields. A batch is searched for them by name, then by position. */
    char data_name[ITER_NAME_MAX], label_name[ITER_NAME_MAX];
    int32_t data_field, label_field, segments_field;
    uint8_t *counts;   /* [batch] */
    void *blank_label; /* one full batch of zeros: predict() needs no labels */
    /* f64 [net.batch, net.n_outputs] if the backend's `real` is f64, because predict() returns f32;
     * else NULL. */
    void *outputs;
    /* If the backend has collect(): the runs since the last one, and the sample indices of each.
     * What was collected stays in `settled` until the call that runs batches takes it, and so does
     * the error of a run that failed. Between such calls `settled` holds steps that were taken
     * without a result. */
    engine_pending *pending;   /* [ENGINE_MAX_PENDING] */
    uint64_t *pending_indices; /* [ENGINE_MAX_PENDING, net.batch] */
    uint32_t n_pending;
    uint32_t runs; /* epochs and evaluations in progress; one may run inside another's `progress` */
    iter_result settled; /* loss is a sum, not a mean */
    iter_error trouble;  /* status 0 = none */
    uint64_t n_bytes;    /* memory of all these */
    char *plan_text;
};

/* Waits for the pending runs. Errors: those of a step; the weights are those before that step. */
iter_status iter__trainer_settle(iter_trainer *trainer, iter_error *err);

#endif
