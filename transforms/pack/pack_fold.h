/*
 * pack_fold.h - a run of foldable stages, composed: where each output pixel comes from, and how its
 * value changes.
 *
 * A fold gives the same result as its stages one after the other. Geometry composes into one map
 * per axis. Tables of bytes compose into one table, and the value stages after them into x * a[c] +
 * b[c]. A fill value goes through the value stages that follow its own stage. If a stage cannot be
 * composed (such as arithmetic after a cast that rounds), it begins a second pass.
 *
 * An iter_fold has two uses. In plan a builder (pack_builder.c) checks the calls and keeps them in
 * a list; once the pass's last stage is known, pack_close.c makes the pass from it. Per sample the
 * calls compose geometry, and tables if these differ from sample to sample (pack_fold.c).
 */
#ifndef ITER_TRANSFORMS_PACK_PACK_FOLD_H
#define ITER_TRANSFORMS_PACK_PACK_FOLD_H

#include <stdbool.h>

#include "iter/spec/chain.h"
#include "iter/spec/pack.h"
#include "transforms/pack/elements.h"
#include "transforms/pack/lookup.h"
#include "transforms/pack/pack_kernels.h"
#include "transforms/pack/widen.h"

#define FOLD_MAX_CUTS  8  /* cutouts kept as rectangles; if there are more, axes become tables */
#define FOLD_MAX_FILLS 64 /* pads and cutouts of one pass: bits of a word */

/* A simple axis: output position p in [low, high) comes from source position offset + step * p; all
 * others are filled. */
typedef struct fold_axis {
    int64_t n;
    int64_t offset, low, high;
    int32_t step;
} fold_axis;

/* One position of an axis that is a table: source position, the pad that covers it (-1 = none), and
 * a bit for each cutout that crosses it. */
typedef struct fold_place {
    int32_t source, pad;
    uint64_t cuts;
} fold_place;

typedef struct fold_cut {
    int64_t y0, y1, x0, x1;
    int32_t order;
} fold_cut;

/* A pad or cutout value from plan, as it arrives at the output. */
typedef struct fold_fill {
    int32_t stage;
    double value;
    iter_dtype dtype; /* of the values at that stage */
    float *f32;       /* [c] before rounding to the output type, if the pass computes in f32 */
    char *bytes;      /* [c] elements of the output type */
    int32_t byte;     /* the source's byte, after tables, that becomes the same; -1 = none */
} fold_fill;

/* A call from plan. For stages without fold_sample, geometry is replayed per sample; so are tables,
 * if the pass has tables per sample. */
typedef enum fold_verb {
    ITER__FOLD_CROP,
    ITER__FOLD_PAD,
    ITER__FOLD_FLIP,
    ITER__FOLD_CUTOUT,
    ITER__FOLD_TABLE,
    ITER__FOLD_AFFINE
} fold_verb;
typedef struct fold_call {
    fold_verb verb;
    int32_t stage;
    int32_t edge;
    iter_dtype dtype; /* of the values at that call */
    int64_t a, b, c, d;
    double value;
    double *factors; /* AFFINE: scale[channels], bias[channels] */
    uint8_t *table;  /* TABLE: [256] */
} fold_call;

/* One pass: source type, shape and layout to output type, shape and layout. Made in plan, read-only
 * afterwards. */
typedef struct pack_pass {
    iter_desc in, out;
    int64_t in_height, in_width, channels;
    bool is_image; /* false = one row of all elements, and no geometry */
    bool in_hwc, out_hwc;
    int32_t first_stage, n_stages;
    fold_call *calls; /* in plan all of them, later those that are replayed */
    int32_t n_calls, capacity_calls;
    /* Set when the pass is complete. */
    bool has_geometry, has_affine;
    bool is_random;                /* samples differ, so each one is composed */
    int64_t max_height, max_width; /* of all steps: the length of the tables of places */
    fold_fill *fills;
    int32_t n_fills;
    int64_t out_height, out_width;
    size_t in_element, out_element, in_bytes;
    float *zeros; /* [c], for pixels without a source that have no fill */
    iter__kind kind;
    const iter__kernels *kernels;       /* NULL = element by element */
    const iter__kernels *bytes_kernels; /* u8 to u8 */
    iter__widen *widen;                 /* exact, integer to integer; else NULL */
    iter__lookup *lookup;
    uint8_t *table;       /* [256] bytes are looked up here first; NULL = no table */
    bool has_tables;      /* each sample has a table of its own, or none */
    double *a, *b;        /* [c] */
    float *a32, *b32;     /* [c] */
    float *a_row, *b_row; /* [16 * c], or NULL unless channels are interleaved on both sides */
    bool same_factor;     /* in all channels */
    bool is_inverted;     /* the table was 255 - x, and is part of a and b */
    bool is_copy;
    struct iter_fold *fixed; /* the geometry, if it is the same for every sample */
} pack_pass;

/* The state that calls change in plan, besides the list of calls. */
typedef struct fold_state {
    int64_t height, width, max_height, max_width;
    iter_dtype dtype;
    bool is_hwc;
    char layout[4];  /* the one requested, or "" */
    bool has_values; /* after arithmetic or a cast: values are no longer the source's bytes */
    bool has_fills;
    double fill;   /* the last one */
    bool is_lossy; /* after a cast that rounds: no more arithmetic in this pass */
} fold_state;

/* Receives the calls of fold_plan(). */
typedef struct fold_builder {
    pack_pass *pass; /* keeps the calls; NULL = they are only checked and measured */
    bool is_image;
    int64_t channels;
    fold_state at;
    int32_t stage;      /* that makes the calls, counted from the pass's first */
    bool is_random;     /* that stage has a fold_sample() */
    const char *split;  /* why the stage needs a new pass; NULL = it does not */
    iter_status status; /* negative = the stage is refused, for `reason` */
    char reason[160];
} fold_builder;

struct iter_fold {
    fold_builder *builder; /* set in plan, when nothing else here is used; NULL per sample */
    const pack_pass *pass;
    int32_t stage; /* that makes the call, counted from the pass's first */
    fold_axis y, x;
    bool is_trace; /* only y and x are kept: where pixels go, not what they hold */
    int32_t pad;   /* order number of the pad around y and x, -1 = none */
    int32_t n_cuts;
    fold_cut cuts[FOLD_MAX_CUTS];
    int32_t n_orders;
    int16_t fill_of[FOLD_MAX_FILLS]; /* by order number: index of the pass's fill; -1 = zero */
    bool is_table;
    fold_place *y_table, *x_table; /* [max_height], [max_width] */
    const uint8_t *table;          /* of this sample's bytes, or NULL */
    uint8_t own_table[256];
};

/* ---- Plan ------------------------------------------------------------------------------------ */

/* Prepares a builder for rows of `in`; pass may be NULL. */
void iter__builder_start(fold_builder *b, pack_pass *pass, const iter_desc *in);

/* Calls the stage's fold_plan(). Errors name the stage. If b->split is set afterwards, nothing was
 * changed. */
iter_status iter__builder_stage(fold_builder *b, int32_t stage, const iter_transform_ops *ops,
                                const void *options, iter_error *err);

/* iter_fold_crop() and so on in plan: check the call and record it. */
void iter__builder_crop(fold_builder *b, int64_t y, int64_t x, int64_t height, int64_t width);
void iter__builder_pad(fold_builder *b, const int64_t sides[4], iter_edge edge, double value);
void iter__builder_flip(fold_builder *b, bool vertical, bool horizontal);
void iter__builder_cutout(fold_builder *b, const iter_rect *part, double value);
void iter__builder_table(fold_builder *b, const uint8_t *table);

/* Frees what a call owns. */
void iter__call_free(fold_call *call);

/* Prepares a pass over rows of `in`, without stages. */
void iter__pass_open(pack_pass *pass, const iter_desc *in, int32_t first_stage);

/* Makes the pass from the recorded calls, ready to run. `stages` are those of the pass. */
iter_status iter__pass_close(pack_pass *pass, const fold_builder *b, int32_t n_stages,
                             const iter__stage *const *stages, iter__cpu level, iter_error *err);
void iter__pass_free(pack_pass *pass);

/* ---- Per sample ------------------------------------------------------------------------------ */

/* Prepares a fold for the calls of one sample. y_table [max_height], x_table [max_width]. */
void iter__fold_start(struct iter_fold *fold, const pack_pass *pass, fold_place *y_table,
                      fold_place *x_table);

/* Replays the calls that stage `stage` made in plan. */
void iter__fold_replay(struct iter_fold *fold, int32_t stage);

/* The way of an image through stages, see iter__pack_ops.view. */
iter_status iter__pack_view(const iter__stage *const *stages, int32_t n, const iter_desc *in,
                            const iter__pack_sample *sample, iter_image_view *out, iter_error *err);

/* What the pixel at table entries y, x holds: the order number of a fill, or -1 = its source. */
static inline int32_t iter__fold_order(const fold_place *y, const fold_place *x) {
    const uint64_t cuts = y->cuts & x->cuts;
    const int32_t cut = cuts ? 63 - __builtin_clzll(cuts) : -1;
    const int32_t pad = y->pad > x->pad ? y->pad : x->pad;
    return cut > pad ? cut : pad;
}

/* The sizes of an image of fixed size: "CHW", "HWC" or "HW" with as many dimensions. Returns false
 * for anything else. */
bool iter__image_of(const iter_desc *desc, int64_t *out_height, int64_t *out_width,
                    int64_t *out_channels, bool *out_hwc);

#endif
