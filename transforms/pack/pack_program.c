/*
 * pack_program.c - a pass as numbers for a device: the program of all rows, and each row's
 * geometry.
 *
 * Geometry is composed by the same calls with the same random numbers as in run(), but it is
 * written down instead of run. A row holds one interval per axis. So a pass is refused if its fold
 * could become tables: pads that reflect or repeat, a second pad, more cutouts than a row has room
 * for. How many of these a stage makes per sample is known only for random-crop, random-flip and
 * cutout; any other stage that draws its geometry is refused. Numbers that are not finite are
 * refused too, because the bits of a NaN differ between machines.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/arith.h"
#include "transforms/pack/pack_state.h"
#include "transforms/stages.h"

#define MOST_ELEMENTS (INT32_MAX / 2) /* of a row: indexes, also those just outside, are 32 bits */

/* Device kernels read rows in this layout. */
_Static_assert(sizeof(iter__pack_row) == 88 && offsetof(iter__pack_row, y_step) == 32 &&
                   offsetof(iter__pack_row, cuts) == 36 && offsetof(iter__pack_row, unused) == 84,
               "the layout of rows");

typedef struct refusal {
    char *text;
    size_t capacity;
} refusal;

static bool refuse(const refusal *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse(const refusal *why, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why->text, why->capacity, format, list);
    va_end(list);
    return false;
}

/* ---- Reasons to refuse ----------------------------------------------------------------------- */

/* Per sample these make the same calls as in plan, with other numbers. */
static bool is_known(const iter__stage *stage) {
    return stage->ops == &iter__transform_random_crop ||
           stage->ops == &iter__transform_random_flip || stage->ops == &iter__transform_cutout;
}

static bool table_fits(const iter__pack *pack, const pack_pass *pass, const refusal *why) {
    for (int32_t i = 0; i < pass->n_calls && (pass->table || pass->has_tables); i++)
        if (pass->calls[i].verb == ITER__FOLD_TABLE)
            return refuse(why, "%s: a table of bytes, which no kernel looks up",
                          pack->stages[pass->first_stage + pass->calls[i].stage]->ops->base.name);
    return true;
}

static bool types_fit(const pack_pass *pass, const refusal *why) {
    const iter_dtype in = pass->in.dtype, out = pass->out.dtype;
    const bool fits = out == ITER_U8 || out == ITER_F16 || out == ITER_BF16 || out == ITER_F32;
    if (in != ITER_U8) return refuse(why, "rows are %s, not u8", iter_dtype_text(in));
    if (!fits) return refuse(why, "rows become %s, not u8, f16, bf16 or f32", iter_dtype_text(out));
    if (pass->channels > ITER_PACK_CHANNELS)
        return refuse(why, "%lld channels, above %d", (long long)pass->channels,
                      ITER_PACK_CHANNELS);
    return true;
}

static bool sizes_fit(const pack_pass *pass, const refusal *why) {
    const int64_t in = iter_desc_elements(&pass->in), out = iter_desc_elements(&pass->out);
    if (in < 1 || out < 1) return refuse(why, "rows are empty");
    if (in > MOST_ELEMENTS || out > MOST_ELEMENTS) return refuse(why, "rows above 2^30 elements");
    const int64_t side = iter__max_i64(pass->max_height, pass->max_width);
    if (pass->has_geometry && side > INT16_MAX)
        return refuse(why, "images above %d pixels a side", INT16_MAX);
    return true;
}

static bool numbers_fit(const pack_pass *pass, const refusal *why) {
    for (int64_t c = 0; c < pass->channels; c++) {
        if (!isfinite(pass->a32[c]) || !isfinite(pass->b32[c]))
            return refuse(why, "a factor or bias that is not finite in f32");
        for (int32_t i = 0; i < pass->n_fills; i++) {
            if (!isfinite(pass->fills[i].f32[c]))
                return refuse(why, "a fill that is not finite in f32");
        }
    }
    return true;
}

static bool geometry_fits(const iter__pack *pack, const pack_pass *pass, const refusal *why) {
    int32_t n_pads = 0, n_cuts = 0;
    for (int32_t i = 0; i < pass->n_calls; i++) {
        const fold_call *call = &pass->calls[i];
        if (call->verb == ITER__FOLD_PAD && call->edge != ITER_EDGE_CONSTANT)
            return refuse(why, "%s: a pad that reflects or repeats",
                          pack->stages[pass->first_stage + call->stage]->ops->base.name);
        n_pads += call->verb == ITER__FOLD_PAD;
        n_cuts += call->verb == ITER__FOLD_CUTOUT;
    }
    if (pass->fixed) { /* composed already, so the numbers are known */
        n_pads = pass->fixed->is_table ? 2 : 0;
        n_cuts = pass->fixed->is_table ? 0 : pass->fixed->n_cuts;
    }
    for (int32_t i = 0; i < pass->n_stages && pass->is_random; i++) {
        const iter__stage *stage = pack->stages[pass->first_stage + i];
        if (stage->ops->fold_sample && !is_known(stage))
            return refuse(why, "%s: draws its geometry itself", stage->ops->base.name);
    }
    if (n_pads > 1) return refuse(why, "more than one pad, or too many cutouts");
    if (n_cuts > ITER_PACK_CUTS) return refuse(why, "more than %d cutouts", ITER_PACK_CUTS);
    if (pass->n_fills > 1 + ITER_PACK_CUTS)
        return refuse(why, "more than %d fills", 1 + ITER_PACK_CUTS);
    return true;
}

/* ---- Program --------------------------------------------------------------------------------- */

/* A fill before it is rounded to the output type. If the pass moves bytes, the byte itself. */
static float fill_value(const pack_pass *pass, int32_t fill, int64_t channel) {
    if (pass->kind == ITER__KIND_RAW) return (float)(uint8_t)pass->fills[fill].bytes[channel];
    return pass->fills[fill].f32[channel];
}

static void write_program(const pack_pass *pass, iter__pack_program *out) {
    *out = (iter__pack_program){
        .in_dtype = (int32_t)pass->in.dtype,
        .out_dtype = (int32_t)pass->out.dtype,
        .in_height = (int32_t)pass->in_height,
        .in_width = (int32_t)pass->in_width,
        .out_height = (int32_t)pass->out_height,
        .out_width = (int32_t)pass->out_width,
        .channels = (int32_t)pass->channels,
        .in_hwc = pass->in_hwc,
        .out_hwc = pass->out_hwc,
        .moves_bytes = pass->kind == ITER__KIND_RAW,
        .n_fills = pass->n_fills,
    };
    for (int64_t c = 0; c < pass->channels; c++) {
        out->a[c] = pass->a32[c];
        out->b[c] = pass->b32[c];
        for (int32_t i = 0; i < pass->n_fills; i++)
            out->fills[i][c] = fill_value(pass, i, c);
    }
}

bool iter__pack_program_make(const iter__pack *pack, iter__pack_program *out, char *why,
                             size_t capacity) {
    const refusal no = {why, capacity};
    const pack_pass *pass = &pack->passes[0];
    *out = (iter__pack_program){0};
    if (pack->n_passes > 1) return refuse(&no, "more than one pass over the row");
    if (!table_fits(pack, pass, &no) || !types_fit(pass, &no) || !sizes_fit(pass, &no) ||
        !numbers_fit(pass, &no) || !geometry_fits(pack, pass, &no))
        return false;
    write_program(pass, out);
    return true;
}

/* ---- Row ------------------------------------------------------------------------------------- */

static int32_t fill_number(const iter_fold *fold, int32_t order) {
    return order < 0 ? -1 : fold->fill_of[order];
}

static void write_row(const iter_fold *fold, iter__pack_row *out) {
    out->y_offset = (int32_t)fold->y.offset;
    out->y_low = (int32_t)fold->y.low;
    out->y_high = (int32_t)fold->y.high;
    out->y_step = (int8_t)fold->y.step;
    out->x_offset = (int32_t)fold->x.offset;
    out->x_low = (int32_t)fold->x.low;
    out->x_high = (int32_t)fold->x.high;
    out->x_step = (int8_t)fold->x.step;
    out->pad = (int8_t)fill_number(fold, fold->pad);
    out->n_cuts = (int8_t)fold->n_cuts;
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        const fold_cut *cut = &fold->cuts[i];
        out->cuts[i].y0 = (int16_t)cut->y0;
        out->cuts[i].y1 = (int16_t)cut->y1;
        out->cuts[i].x0 = (int16_t)cut->x0;
        out->cuts[i].x1 = (int16_t)cut->x1;
        out->cuts[i].fill = fill_number(fold, cut->order);
    }
}

void iter__pack_row_make(const iter__pack *pack, const iter__pack_sample *sample, void *scratch,
                         iter__pack_row *out) {
    const pack_pass *pass = &pack->passes[0];
    const uint64_t source = out->source;
    *out = (iter__pack_row){.source = source, .y_step = 1, .x_step = 1, .pad = -1};
    const iter_fold *geometry = pass->fixed;
    iter_fold fold;
    if (!geometry) {
        fold_place *y_table = (fold_place *)(void *)((char *)scratch + pack->line_bytes);
        iter__fold_start(&fold, pass, y_table, y_table + pass->max_height);
        if (pass->is_random) iter__pack_fold(pack, pass, sample, &fold);
        geometry = &fold;
    }
    /* Cannot happen in a program. run() writes zeros if a faulty stage's sizes are wrong. */
    if (geometry->is_table || geometry->n_cuts > ITER_PACK_CUTS ||
        geometry->y.n != pass->out_height || geometry->x.n != pass->out_width)
        return;
    write_row(geometry, out);
}
