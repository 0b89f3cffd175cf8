/*
 * plan.h - what is done to a row on its way from the dataset to the batch, field by field.
 *
 * A plan is made when the loader is created (plan.c, then device_rows.c for a GPU) and is read-only
 * afterwards: any thread reads it without a lock.
 */
#ifndef ITER_PLAN_PLAN_H
#define ITER_PLAN_PLAN_H

#include <iter/loader.h>

#include "iter/dataset/dataset.h"
#include "iter/spec/pack.h"

#define ITER_MAX_OUT (2 * ITER_MAX_FIELDS)

/* Where a field's row comes from. */
typedef enum iter__row_from {
    ITER_ROW_RESIDENT, /* base + index * stride */
    ITER_ROW_INDEX,    /* format.index_row */
    ITER_ROW_BYTES,    /* a slice of the sample's bytes */
    ITER_ROW_DECODE,   /* decoder over the sample's bytes */
    ITER_ROW_GET,      /* get() or next() wrote it; rows are dense */
    ITER_ROW_SET       /* on the device already, see resident.c */
} iter__row_from;

/* What makes the rows of a field that goes to a device, see device_rows.c. */
typedef enum iter__way {
    ITER_WAY_HOST,   /* the workers */
    ITER_WAY_FINISH, /* the workers up to the last step; a kernel does that step, a pack */
    ITER_WAY_SET,    /* a kernel, by the pack, from the resident set */
    ITER_WAY_GATHER  /* a kernel copies finished rows of the resident set */
} iter__way;

/* One stage, or a run of stages that are one pass. */
typedef struct iter__step {
    const iter__stage *stage; /* apply: this stage; pack: the first of the run */
    iter__pack *pack;         /* NULL = stage->ops->apply */
    uint64_t key;             /* of the stage's random numbers, without the seed */
    iter_desc in, out;
    size_t scratch_bytes;
    bool is_random;   /* pack: geometry is drawn */
    bool sized;       /* apply: planned again for each sample, see picture.c; then scratch grows */
    int32_t state;    /* apply: which of the worker's transform states */
    int32_t activity; /* number of the stage that the worker shows meanwhile */
} iter__step;

typedef struct iter__batch_step {
    const iter__stage *stage;
    size_t scratch_bytes;
} iter__batch_step;

/* One output field: where its row comes from, what is done to it, where it goes. */
typedef struct iter__field_plan {
    int32_t in; /* dataset field */
    iter__row_from from;
    iter_desc source; /* the row as it comes */
    bool any_size;    /* images of any size: their sizes are known from their headers */
    bool copies;      /* one step, which only copies the row */
    int32_t n_steps, n_batch_steps;
    iter__step *steps;
    iter__batch_step *batch_steps;
    iter_desc row;    /* after the steps */
    size_t row_bytes; /* its capacity */
    size_t slot_offset, slot_bytes;
    iter__way way;
    int32_t n_made;    /* steps that workers do: all, or all but the last, or none */
    size_t made_bytes; /* of a row as the workers leave it in the slot; 0 = they leave nothing */
    /* If the way is not HOST: [batch_size] iter__pack_row in the slot, which fields may share. */
    size_t rows_offset;
    bool owns_rows;             /* it is the first of the fields that share them */
    iter__pack_program program; /* FINISH, SET */
    char why[128];              /* why the way is HOST; "" = no other way was asked for */
    size_t device_offset;       /* in the slot's twin on a device */
    size_t lengths_offset;      /* in the slot, if the row is variable */
    bool variable;
    const iter__stage **stages; /* [n_stages] the sample stages, as the chain has them */
    int32_t n_stages;
    int32_t follows;    /* the plan entry whose images this field's stages follow, else -1 */
    int32_t lengths_of; /* this field is the lengths of that plan entry, else -1 */
    iter_batch_field out;
} iter__field_plan;

typedef struct iter__plan {
    int32_t n_fields; /* outputs, data first */
    iter__field_plan fields[ITER_MAX_OUT];
    int32_t n_states;  /* transform states per worker */
    int32_t n_growing; /* buffers per worker that grow with the pictures */
    size_t slot_bytes;
    size_t device_slot_bytes; /* of the slot's twin on a device */
    size_t step_bytes;        /* two buffers of this size per worker, for rows between steps */
    size_t scratch_bytes;     /* one per worker, for pack and apply */
    size_t batch_scratch_bytes;
    size_t stage_row_bytes; /* staging of get() rows per sample, all fields */
    bool needs_get, needs_bytes;
    size_t least_extent[ITER_MAX_EXTENTS]; /* bytes that rows are taken from as they are stored */
    bool has_ways;                         /* a field's way is not HOST */
    bool has_set;                          /* a field's way is SET or GATHER */
    const iter__resident *resident;        /* [n_fields of the dataset] as the loader's */
    char *text;
} iter__plan;

/* `resident` says which rows lie in memory; the plan keeps the pointer. */
iter_status iter__plan_create(iter__plan *plan, const iter_dataset *dataset,
                              const iter__resident *resident, const iter_chain *chain,
                              uint32_t batch_size, bool has_collate, iter_error *err);
void iter__plan_free(iter__plan *plan);
/* Once more, after ways were changed: places in the slot and its twin, and the text. */
iter_status iter__plan_place(iter__plan *plan, const iter_dataset *dataset, uint32_t batch_size,
                             iter_error *err);
/* Adds a line to the text. */
iter_status iter__plan_note(iter__plan *plan, const char *line, iter_error *err);

#endif
