/*
 * label_classes.h - the samples of a dataset by their label, for samplers that go by classes.
 *
 * Classes are the labels that samples have, in ascending order. The list of samples takes 4 bytes a
 * sample; while it is made, 4 more.
 */
#ifndef ITER_LOADERS_SAMPLERS_LABEL_CLASSES_H
#define ITER_LOADERS_SAMPLERS_LABEL_CLASSES_H

#include <stdint.h>

#include <iter/ops.h>

typedef struct iter__label_classes {
    uint32_t n;        /* at least 1 */
    int64_t *labels;   /* [n] ascending */
    uint64_t *starts;  /* [n + 1]: class c has the samples order[starts[c] .. starts[c + 1]) */
    uint32_t *samples; /* [n_samples] by class, in each as stored */
} iter__label_classes;

/* Asks for all labels of `field` (NULL = the first one with that role). After an error nothing is
 * held. Errors: EINVAL (a stream; no samples or too many; no labels), ENOMEM, those of reading. */
iter_status iter__label_classes_make(const iter_sampler_context *context, const char *field,
                                     iter__label_classes *out, iter_error *err);
void iter__label_classes_free(iter__label_classes *classes);

/* The class that has this label; classes->n = none has. */
uint32_t iter__label_classes_find(const iter__label_classes *classes, int64_t label);

#endif
