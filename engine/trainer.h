/* trainer.h - what a trainer is, for the files that are its parts: trainer.c, trainer_run.c,
 * checkpoint.c. */
#ifndef ENGINE_TRAINER_H
#define ENGINE_TRAINER_H

#include "engine/backend.h"

/* A run whose outcome is not known yet: what a message about it would say. */
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
    uint64_t seed;
    uint64_t n_steps;  /* since the weights were made; checkpoints carry it on */
    bool has_gradient; /* a step has run */
    bool keep_input_gradient;
    /* The loader's fields: batches are asked for them by name, then by place. */
    char data_name[ITER_NAME_MAX], label_name[ITER_NAME_MAX];
    int32_t data_field, label_field;
    uint8_t *counts;   /* [net.batch] */
    void *blank_label; /* of a full batch, zeros: predicting needs no labels */
    void *outputs;     /* f64 [net.batch, net.n_outputs] where the backend's `real` is f64: predict
                        * answers f32 */
    /* Where the backend collects: runs since then, and the indices of their samples. What was
     * collected stands in `settled` until the call that runs batches takes it, and so does the error
     * of a run that had trouble; in between, `settled` is of steps whose outcome was not asked for. */
    engine_pending *pending;   /* [ENGINE_MAX_PENDING] */
    uint64_t *pending_indices; /* [ENGINE_MAX_PENDING, net.batch] */
    uint32_t n_pending;
    uint32_t runs;       /* epochs and evaluations under way: one inside another's `progress` */
    iter_result settled; /* its loss is a sum */
    iter_error trouble;  /* status 0 = none */
    uint64_t n_bytes;    /* of all these */
    char *plan_text;
};

/* Waits for what is pending. Errors: those of a step; weights are those of before it. */
iter_status iter__trainer_settle(iter_trainer *trainer, iter_error *err);

#endif
