/*
 * pack.h - the fused pass, as the planner sees it: a run of foldable stages over one field,
 * prepared once, run per sample. transforms/pack/pack.c implements it; the runtime calls it
 * through this table.
 */
#ifndef ITER_SPEC_PACK_H
#define ITER_SPEC_PACK_H

#include "iter/spec/chain.h"

typedef struct iter__pack iter__pack;

/* Which sample the random numbers belong to. */
typedef struct iter__pack_sample {
    uint64_t seed, position;
    uint32_t epoch;
} iter__pack_sample;

/* The same pass as numbers for a GPU's kernel: image in, image out, one multiply and one add. This
 * part is the same for all rows. */
#define ITER_PACK_CHANNELS 8
#define ITER_PACK_CUTS     4

typedef struct iter__pack_program {
    int32_t in_dtype, out_dtype; /* iter_dtype; u8 in; u8, f16, bf16 or f32 out */
    int32_t in_height, in_width, out_height, out_width, channels;
    int32_t in_hwc, out_hwc; /* 1 = the channels of a pixel are adjacent */
    int32_t moves_bytes;     /* 1 = values are copied as they are; a and b are not used */
    float a[ITER_PACK_CHANNELS], b[ITER_PACK_CHANNELS];
    /* finished output elements, by number: pads and cutouts write them */
    int32_t n_fills;
    float fills[1 + ITER_PACK_CUTS][ITER_PACK_CHANNELS]; /* as f32, rounded as the rest is */
} iter__pack_program;

/* One row's geometry. Output pixel (y, x) inside [y_low, y_high) x [x_low, x_high) comes from
 * source pixel (y_offset + y_step * y, x_offset + x_step * x); any other is fill `pad`. Then the
 * cuts are written over it, in order. Fixed layout: kernels read it. */
typedef struct iter__pack_row {
    uint64_t source; /* which row of the source; the caller sets it */
    int32_t y_offset, y_low, y_high, x_offset, x_low, x_high;
    int8_t y_step, x_step; /* 1 or -1 */
    int8_t pad;            /* number of a fill; -1 = zero */
    int8_t n_cuts;
    struct {
        int16_t y0, y1, x0, x1;
        int32_t fill;
    } cuts[ITER_PACK_CUTS];
    uint32_t unused;
} iter__pack_row;

typedef struct iter__pack_ops {
    /* Folds stages[0..n) (each with fold_plan) over a fixed shape. *out_desc is the row's shape;
     * *out_scratch the bytes run() needs. Errors name the stage. n = 0 is a plain copy. */
    iter_status (*create)(const iter_desc *in, const iter__stage *const *stages, int32_t n,
                          iter__pack **out, iter_desc *out_desc, size_t *out_scratch,
                          iter_error *err);
    void (*destroy)(iter__pack *pack);
    /* One sample: dense `in` (any alignment) to dense `out`. next_in: NULL, or the input of the
     * next call, whose first cache lines are prefetched. Any number of threads may run one pack;
     * each needs its own scratch, 64-byte aligned. */
    void (*run)(const iter__pack *pack, const void *in, void *out, const iter__pack_sample *sample,
                void *scratch, const void *next_in);
    /* n samples at once: sample i lies at base + index[i] * stride, and its row follows the one of
     * sample i - 1 in `out`. The same bits as n calls of run(), at less cost. false = each sample
     * needs run(). */
    bool (*rows)(const iter__pack *pack, const uint8_t *base, size_t stride, const uint64_t *index,
                 uint32_t n, uint8_t *out);
    /* The same if the rows of an image come one after another: begin(), then band() for source rows
     * [first, end) of `in`. Each band begins where the one before it ended, up to the last row.
     * scratch must not change in between. begin: false = this sample needs run(). */
    bool (*begin)(const iter__pack *pack, const iter__pack_sample *sample, void *scratch);
    void (*band)(const iter__pack *pack, const void *in, void *out, void *scratch, int64_t first,
                 int64_t end);
    /* True if run() only copies bytes: the row may be read straight into its place. */
    bool (*is_copy)(const iter__pack *pack);
    /* True if a program and an iter__pack_row describe every row; else `why`[capacity] gets the
     * reason. */
    bool (*program)(const iter__pack *pack, iter__pack_program *out, char *why, size_t capacity);
    /* The geometry that run() would use for this sample; `source` is not changed. */
    void (*row)(const iter__pack *pack, const iter__pack_sample *sample, void *scratch,
                iter__pack_row *out);
    /* The way of one image of shape `in` through any stages of one field, also those that are not
     * folded. Errors: the first stage's plan() that refuses this shape. */
    iter_status (*view)(const iter__stage *const *stages, int32_t n, const iter_desc *in,
                        const iter__pack_sample *sample, iter_image_view *out, iter_error *err);
    /* One line for the plan: "crop 32x32 of 40x40, flip, a*x+b per channel, u8 to f32, CHW to CHW
     * (avx512)". */
    void (*text)(const iter__pack *pack, char *out, size_t capacity);
} iter__pack_ops;

extern const iter__pack_ops iter__packer;

#endif
