/*
 * trainer_check.h - checks of a batch before a trainer runs it.
 *
 * A batch is checked here once, so backends may use labels and ids as indices without a check.
 */
#ifndef ENGINE_TRAINER_CHECK_H
#define ENGINE_TRAINER_CHECK_H

#include "engine/trainer.h"

/* A checked batch; tensors are the net's view of the loader's. */
typedef struct checked_batch {
    const iter_batch *source;
    /* In host memory; `data` is NULL if the batch is only on the device. */
    iter_tensor data, label;
    /* On the device, if the backend reads them there. */
    iter_tensor far_data, far_label;
    iter_tensor segments; /* if the net has segments */
    bool is_far;
    iter_batch_info info;
    engine_batch batch;
} checked_batch;

/* Checks the data alone, which is all that predictions need. Errors: EINVAL, EUNSUPPORTED (it lies
 * on a device that the backend does not read). */
iter_status iter__check_data(iter_trainer *trainer, const iter_batch *batch, checked_batch *out,
                             iter_error *err);
/* Checks everything that a backend relies on, and decides which rows count. */
iter_status iter__check_batch(iter_trainer *trainer, const iter_batch *batch, bool training,
                              checked_batch *out, iter_error *err);

#endif
