/*
 * pack.h - the fused pass, as the planner sees it: a run of foldable stages over one field,
 * prepared once, run per sample. transforms/pack.c implements it; the runtime reaches it by this
 * table.
 */
#ifndef ITER_CORE_PACK_H
#define ITER_CORE_PACK_H

#include "iter/core/chain.h"

typedef struct iter_pack iter_pack;

/* Which sample the random numbers belong to. */
typedef struct iter_pack_sample {
    uint64_t seed, position;
    uint32_t epoch;
} iter_pack_sample;

typedef struct iter_pack_ops {
    /* Folds stages[0..n) (each with fold_plan) over a fixed shape. *out_desc is the row's shape;
     * *out_scratch the bytes run() needs. Errors name the stage. n = 0 is a plain copy. */
    iter_status (*create)(const iter_desc *in, const iter_stage *const *stages, int32_t n,
                          iter_pack **out, iter_desc *out_desc, size_t *out_scratch,
                          iter_error *err);
    void (*destroy)(iter_pack *pack);
    /* One sample: dense `in` (any alignment) to dense `out`. next_in: NULL, or the input of the
     * next call, whose lines are prefetched meanwhile. Read-only on pack, any number of threads;
     * scratch per thread, 64-byte aligned. */
    void (*run)(const iter_pack *pack, const void *in, void *out, const iter_pack_sample *sample,
                void *scratch, const void *next_in);
    /* True where run() only copies bytes: the row may be read straight into its place. */
    bool (*is_copy)(const iter_pack *pack);
    /* One line for the plan: "crop 32x32 of 40x40, flip, a*x+b per channel, u8 to f32, CHW to CHW
     * (avx512)". */
    void (*text)(const iter_pack *pack, char *out, size_t capacity);
} iter_pack_ops;

extern const iter_pack_ops iter__pack;

#endif
