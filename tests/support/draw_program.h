/*
 * draw_program.h - random programs of the fused pass and random rows for them, as pack may write
 * them. C and C++.
 */
#ifndef TESTS_SUPPORT_DRAW_PROGRAM_H
#define TESTS_SUPPORT_DRAW_PROGRAM_H

#include <string.h>

#include "iter/device/cuda_kernels.h"

static uint64_t draw_state = 1;

static inline uint32_t draw(void) {
    draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(draw_state >> 33);
}

static inline int draw_below(int n) {
    return (int)(draw() % (uint32_t)n);
}

static inline float draw_number(float scale) {
    return ((float)draw_below(2000001) / 1000000.0f - 1.0f) * scale;
}

/* Maps output position p to offset + step * p, wherever that lies within the source, or in a part
 * of the source only. */
static inline void draw_axis(int in, int out, int32_t *offset, int32_t *low, int32_t *high,
                             int8_t *step) {
    *step = (int8_t)(draw_below(2) ? 1 : -1);
    *offset = draw_below(2 * (in + out)) - in - out;
    *low = out;
    *high = out;
    for (int p = 0; p < out; p++) {
        const int from = *offset + *step * p;
        if (from < 0 || from >= in) continue;
        if (*low == out) *low = p;
        *high = p + 1;
    }
    if (draw_below(3) == 0 && *high > *low) *high -= draw_below(*high - *low);
}

/* Draws a program that kernel number `kernel` accepts, with sides of up to `side` pixels. */
static inline void draw_program(iter__pack_program *p, int kernel, int side) {
    static const iter_dtype dtypes[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};
    const int any = kernel == ITER_KERNEL_iter_pack_any;
    memset(p, 0, sizeof(*p));
    p->in_dtype = ITER_U8;
    p->out_dtype = (int32_t)dtypes[draw_below(4)];
    p->in_height = 1 + draw_below(side);
    p->in_width = 1 + draw_below(side);
    p->out_height = 1 + draw_below(side);
    p->out_width = any ? 1 + draw_below(side) : 4 * (1 + draw_below((side + 3) / 4));
    p->channels = any || kernel == ITER_KERNEL_iter_pack_planes ? 1 + draw_below(8) : 3;
    p->in_hwc = kernel == ITER_KERNEL_iter_pack_hwc ||
                kernel == ITER_KERNEL_iter_pack_hwc_to_planes || (any && draw_below(2));
    p->out_hwc = kernel == ITER_KERNEL_iter_pack_hwc ||
                 kernel == ITER_KERNEL_iter_pack_planes_to_hwc || (any && draw_below(2));
    p->moves_bytes = p->out_dtype == (int32_t)ITER_U8 && draw_below(2);
    p->n_fills = 1 + ITER_PACK_CUTS;
    for (int c = 0; c < ITER_PACK_CHANNELS; c++) {
        p->a[c] = draw_number(draw_below(2) ? 0.02f : 2.0f);
        p->b[c] = draw_number(draw_below(2) ? 1.0f : 300.0f);
        for (int i = 0; i < p->n_fills; i++)
            p->fills[i][c] = p->moves_bytes ? (float)draw_below(256) : draw_number(300.0f);
    }
}

static inline void draw_row(const iter__pack_program *p, iter__pack_row *row, int n_sources) {
    memset(row, 0, sizeof(*row));
    row->source = (uint64_t)draw_below(n_sources);
    draw_axis(p->in_height, p->out_height, &row->y_offset, &row->y_low, &row->y_high, &row->y_step);
    draw_axis(p->in_width, p->out_width, &row->x_offset, &row->x_low, &row->x_high, &row->x_step);
    row->pad = (int8_t)(draw_below(p->n_fills + 1) - 1);
    row->n_cuts = (int8_t)draw_below(ITER_PACK_CUTS + 1);
    for (int i = 0; i < row->n_cuts; i++) {
        const int y = draw_below(p->out_height + 1), x = draw_below(p->out_width + 1);
        row->cuts[i].y0 = (int16_t)y;
        row->cuts[i].y1 = (int16_t)(y + draw_below(p->out_height + 1 - y));
        row->cuts[i].x0 = (int16_t)x;
        row->cuts[i].x1 = (int16_t)(x + draw_below(p->out_width + 1 - x));
        row->cuts[i].fill = draw_below(p->n_fills + 1) - 1;
    }
}

#endif
