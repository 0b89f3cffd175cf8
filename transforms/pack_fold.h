/*
 * pack_fold.h - what a run of foldable stages does, composed: where each output pixel comes from, and what is done to its value.
 *
 * A fold is defined by its unfused meaning. Geometry composes into one map an axis; value stages compose into x * a[c] + b[c]; a fill value
 * is pushed through the value stages that follow its stage. What cannot be composed (arithmetic after a cast that loses something) begins a
 * second pass.
 */
#ifndef ITER_TRANSFORMS_PACK_FOLD_H
#define ITER_TRANSFORMS_PACK_FOLD_H

#include <stdbool.h>

#include "iter/core/chain.h"
#include "iter/core/pack.h"
#include "transforms/elements.h"
#include "transforms/pack_kernels.h"

#define FOLD_MAX_CUTS  8  /* cutouts kept as intervals; more go through the tables */
#define FOLD_MAX_FILLS 64 /* pads and cutouts of one pass: bits of a word */

/* One axis while it is simple: output position p in [low, high) comes from source position offset + step * p; elsewhere is fill. */
typedef struct fold_axis {
    int64_t n;
    int64_t offset, low, high;
    int32_t step;
} fold_axis;

/* One position of an axis where it is not: source position, the pad that covers it (-1 = none), and a bit for each cutout that crosses it. */
typedef struct fold_place {
    int32_t source, pad;
    uint64_t cuts;
} fold_place;

typedef struct fold_cut {
    int64_t y0, y1, x0, x1;
    int32_t order;
} fold_cut;

/* A pad or cutout value told in plan, as it arrives at the output: [c] each. */
typedef struct fold_fill {
    int32_t stage;
    double value;
    iter_dtype dtype; /* at that stage: the value is one of this type */
    float *f32;       /* [c] before rounding to the output type, where that is computed in f32 */
    char *bytes;      /* [c] elements of the output type */
} fold_fill;

typedef struct fold_affine {
    double *scale, *bias; /* [c] */
    struct fold_affine *next;
    int32_t stage;
} fold_affine;

/* A geometry call told in plan: replayed per sample for stages that have no fold_sample. */
typedef enum fold_verb {
    ITER__FOLD_CROP,
    ITER__FOLD_PAD,
    ITER__FOLD_FLIP,
    ITER__FOLD_CUTOUT
} fold_verb;
typedef struct fold_call {
    fold_verb verb;
    int32_t stage;
    int32_t edge;
    int64_t a, b, c, d;
    double value;
} fold_call;

/* One pass: source type, shape and layout to output type, shape and layout. Built in plan, read-only afterwards. */
typedef struct pack_pass {
    iter_desc in, out;
    int64_t in_height, in_width, channels;
    bool is_image; /* else one row of all elements, and no geometry */
    bool in_hwc, out_hwc;
    int32_t first_stage, n_stages;
    bool has_geometry, has_affine, is_random;
    fold_affine *affines, *last_affine;
    fold_call *calls;
    int32_t n_calls, capacity_calls;
    fold_fill *fills;
    int32_t n_fills, capacity_fills;
    int64_t max_height, max_width; /* the largest along the way: room in the tables */
    /* Made when the pass is complete. */
    int64_t out_height, out_width;
    size_t in_element, out_element, in_bytes;
    float *zeros; /* [c], for pixels that no fill was told for */
    iter__kind kind;
    const iter__kernels *kernels;       /* NULL = element by element */
    const iter__kernels *bytes_kernels; /* u8 to u8 */
    double *a, *b;                      /* [c] */
    float *a32, *b32;                   /* [c] */
    float *a_row, *b_row; /* [16 * c], where channels stand side by side on both sides; else NULL */
    bool same_factor;     /* all channels alike */
    bool is_copy;
    struct iter_fold *fixed; /* the geometry, where it is the same for every sample */
} pack_pass;

struct iter_fold {
    pack_pass *plan; /* not NULL in plan */
    const pack_pass *pass;
    int32_t stage; /* whose call this is, counted from the pass's first */
    fold_axis y, x;
    int32_t pad; /* order of the pad around y and x, -1 = none */
    int32_t n_cuts;
    fold_cut cuts[FOLD_MAX_CUTS];
    int32_t n_orders;
    int16_t fill_of[FOLD_MAX_FILLS]; /* by order: which of the pass's fills; -1 = zero */
    bool is_table;
    fold_place *y_table, *x_table; /* [max_height], [max_width] */
    /* Plan only. */
    iter_dtype dtype;
    bool lossy; /* a cast has lost something: no more arithmetic in this pass */
    bool must_split;
    iter_status status;
    char reason[160];
};

/* Ready for the calls of one sample. Tables as in pack_pass, may be NULL in plan. */
void iter__fold_start(struct iter_fold *fold, const pack_pass *pass, fold_place *y_table,
                      fold_place *x_table);

/* Repeats the geometry that stage `stage` told in plan. */
void iter__fold_replay(struct iter_fold *fold, int32_t stage);

/* What pixel (y, x) of a table holds: the order of a fill, or -1 = its source. */
static inline int32_t iter__fold_order(const fold_place *y, const fold_place *x) {
    const uint64_t cuts = y->cuts & x->cuts;
    const int32_t cut = cuts ? 63 - __builtin_clzll(cuts) : -1;
    const int32_t pad = y->pad > x->pad ? y->pad : x->pad;
    return cut > pad ? cut : pad;
}

/* Splits an image layout: "CHW", "HWC" or "HW" with as many dimensions. False for anything else. */
bool iter__image_of(const iter_desc *desc, int64_t *out_height, int64_t *out_width,
                    int64_t *out_channels, bool *out_hwc);

#endif
