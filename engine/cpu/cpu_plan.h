/* cpu_plan.h - a plan: nodes and places in order, and the memory that they share. */
#ifndef ENGINE_CPU_PLAN_H
#define ENGINE_CPU_PLAN_H

#include "engine/cpu/cpu.h"

/* A layer makes at most two nodes and two places: its own, and those of a repacking before it. */
#define CPU_MAX_NODES  (2 * ENGINE_MAX_LAYERS)
#define CPU_MAX_PLACES (2 * ENGINE_MAX_LAYERS + 1)

typedef struct cpu_plan {
    cpu_shared shared;
    int32_t n_nodes, n_places;
    cpu_node *nodes[CPU_MAX_NODES];
    cpu_place places[CPU_MAX_PLACES]; /* [0] is the data */
    cpu_place *outputs;               /* read by the loss */
    char *arena;
    float *staging;     /* for data that cannot be used as it is */
    double *row_losses; /* [batch] */
} cpu_plan;

/* Plans the net of the config and allocates all memory. If it fails, it frees what it made. Errors:
 * ENOMEM, EUNSUPPORTED (oneDNN rejects a shape). */
iter_status iter__cpu_plan_make(cpu_plan *plan, const engine_backend_config *config,
                                iter_error *err);
void iter__cpu_plan_drop(cpu_plan *plan);

#endif
