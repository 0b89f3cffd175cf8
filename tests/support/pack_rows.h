/*
 * pack_rows.h - programs and rows of the fused pass, run pixel by pixel. Kernels must equal it bit
 * for bit, and tests without a GPU run it instead of them.
 */
#ifndef TESTS_SUPPORT_PACK_ROWS_H
#define TESTS_SUPPORT_PACK_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <iter/tensor.h>

#include "iter/spec/pack.h"
#include "transforms/pack/half.h"

/* Rounds to nearest even and saturates: the numbers are finite. */
static inline uint8_t pack_rows_u8(float x) {
    if (x <= 0) return 0;
    if (x >= 255) return 255;
    const int32_t down = (int32_t)x;
    const float rest = x - (float)down;
    return (uint8_t)(down + (rest > 0.5f || (rest == 0.5f && down % 2 == 1)));
}

static inline void pack_rows_store(int32_t dtype, float x, uint8_t *out) {
    const uint16_t half = dtype == ITER_F16 ? f16_from_f32(x) : bf16_from_f32(x);
    if (dtype == ITER_F32)
        memcpy(out, &x, 4);
    else if (dtype == ITER_U8)
        *out = pack_rows_u8(x);
    else
        memcpy(out, &half, 2);
}

/* Element c of output pixel (y, x), before rounding. */
static inline float pack_rows_value(const iter__pack_program *p, const iter__pack_row *row,
                                    const uint8_t *in, int32_t y, int32_t x, int32_t c) {
    for (int32_t i = row->n_cuts - 1; i >= 0; i--) { /* the last cut written wins */
        if (y < row->cuts[i].y0 || y >= row->cuts[i].y1) continue;
        if (x < row->cuts[i].x0 || x >= row->cuts[i].x1) continue;
        return row->cuts[i].fill < 0 ? 0.0f : p->fills[row->cuts[i].fill][c];
    }
    if (y < row->y_low || y >= row->y_high || x < row->x_low || x >= row->x_high)
        return row->pad < 0 ? 0.0f : p->fills[row->pad][c];
    const int64_t from_y = row->y_offset + row->y_step * y,
                  from_x = row->x_offset + row->x_step * x;
    const int64_t pixel = from_y * p->in_width + from_x;
    const int64_t plane = (int64_t)p->in_height * p->in_width;
    const float byte = in[p->in_hwc ? pixel * p->channels + c : c * plane + pixel];
    if (p->moves_bytes) return byte;
    const float product = byte * p->a[c]; /* rounded by the assignment, so no fused operation */
    return product + p->b[c];
}

static inline size_t pack_rows_in_bytes(const iter__pack_program *p) {
    return (size_t)p->in_height * (size_t)p->in_width * (size_t)p->channels;
}

static inline size_t pack_rows_out_bytes(const iter__pack_program *p) {
    return (size_t)p->out_height * (size_t)p->out_width * (size_t)p->channels *
           iter_dtype_bytes((iter_dtype)p->out_dtype);
}

static inline void pack_rows_one(const iter__pack_program *p, const iter__pack_row *row,
                                 const uint8_t *in, uint8_t *out) {
    const size_t bytes = iter_dtype_bytes((iter_dtype)p->out_dtype);
    const int64_t plane = (int64_t)p->out_height * p->out_width;
    for (int32_t y = 0; y < p->out_height; y++)
        for (int32_t x = 0; x < p->out_width; x++)
            for (int32_t c = 0; c < p->channels; c++) {
                const int64_t pixel = (int64_t)y * p->out_width + x;
                const int64_t at = p->out_hwc ? pixel * p->channels + c : c * plane + pixel;
                pack_rows_store(p->out_dtype, pack_rows_value(p, row, in, y, x, c),
                                out + (size_t)at * bytes);
            }
}

/* The same arguments as iter__device_pack(). */
static inline void pack_rows(const iter__pack_program *p, const uint8_t *from,
                             const iter__pack_row *rows, uint8_t *to, uint32_t n_rows) {
    for (uint32_t r = 0; r < n_rows; r++)
        pack_rows_one(p, &rows[r], from + rows[r].source * pack_rows_in_bytes(p),
                      to + r * pack_rows_out_bytes(p));
}

#endif
