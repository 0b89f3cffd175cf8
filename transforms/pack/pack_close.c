/*
 * pack_close.c - makes a pass from the calls of its stages: composes tables, rounds coefficients,
 * and converts fills to the output's type. If all samples have the same geometry, it is composed
 * here, once.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "transforms/pack/pack_fold.h"

void iter__pass_open(pack_pass *pass, const iter_desc *in, int32_t first_stage) {
    *pass = (pack_pass){.in = *in, .out = *in, .first_stage = first_stage};
    pass->is_image =
        iter__image_of(in, &pass->in_height, &pass->in_width, &pass->channels, &pass->in_hwc);
    if (!pass->is_image) {
        pass->in_height = 1;
        pass->in_width = iter_desc_elements(in);
        pass->channels = 1;
    }
    pass->in_element = iter_dtype_bytes(in->dtype);
    pass->in_bytes = iter_desc_bytes(in);
}

void iter__pass_free(pack_pass *pass) {
    for (int32_t i = 0; i < pass->n_calls; i++)
        iter__call_free(&pass->calls[i]);
    for (int32_t i = 0; i < pass->n_fills; i++) {
        iter__free(pass->fills[i].f32);
        iter__free(pass->fills[i].bytes);
    }
    if (pass->fixed) {
        iter__free(pass->fixed->y_table);
        iter__free(pass->fixed->x_table);
    }
    iter__free(pass->fixed);
    iter__free(pass->fills);
    iter__free(pass->calls);
    iter__free(pass->table);
    iter__free(pass->a);
    iter__free(pass->b);
    iter__free(pass->a32);
    iter__free(pass->b32);
    iter__free(pass->zeros);
    iter__free(pass->a_row);
    iter__free(pass->b_row);
    *pass = (pack_pass){0};
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Composes the tables of stage `stage` and all later ones. Returns false if there are none. */
static bool compose_tables(const pack_pass *pass, int32_t stage, uint8_t table[256]) {
    bool any = false;
    for (int32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
    for (int32_t k = 0; k < pass->n_calls; k++) {
        const fold_call *call = &pass->calls[k];
        if (call->verb != ITER__FOLD_TABLE || call->stage < stage) continue;
        any = true;
        for (int32_t i = 0; i < 256; i++)
            table[i] = call->table[table[i]];
    }
    return any;
}

/* The table for all samples. None is made if it keeps every byte. 255 - x becomes arithmetic, which
 * costs nothing. */
static bool make_table(pack_pass *pass) {
    uint8_t table[256];
    bool is_same = true;
    if (pass->has_tables || !compose_tables(pass, 0, table)) return true;
    pass->is_inverted = true;
    for (int32_t i = 0; i < 256; i++) {
        is_same &= table[i] == i;
        pass->is_inverted &= table[i] == 255 - i;
    }
    if (is_same || pass->is_inverted) return true;
    pass->table = iter__alloc(1, sizeof(table));
    if (pass->table) memcpy(pass->table, table, sizeof(table));
    return pass->table != NULL;
}

static bool make_factors(pack_pass *pass) {
    const size_t c = (size_t)pass->channels;
    pass->a = iter__alloc(c, sizeof(double));
    pass->b = iter__alloc(c, sizeof(double));
    pass->a32 = iter__alloc(c, sizeof(float));
    pass->b32 = iter__alloc(c, sizeof(float));
    pass->zeros = iter__alloc(c, sizeof(float));
    if (!pass->a || !pass->b || !pass->a32 || !pass->b32 || !pass->zeros) return false;
    pass->same_factor = true;
    for (size_t i = 0; i < c; i++) {
        double a = pass->is_inverted ? -1 : 1;
        double b = pass->is_inverted ? 255 : pass->has_affine ? 0 : -0.0;
        for (int32_t k = 0; k < pass->n_calls; k++) {
            const double *factors = pass->calls[k].factors;
            if (!factors) continue;
            a *= factors[i];
            b = b * factors[i] + factors[c + i];
        }
        pass->a[i] = a;
        pass->b[i] = b;
        pass->a32[i] = (float)a;
        pass->b32[i] = (float)b;
        if (a != pass->a[0] || b != pass->b[0]) pass->same_factor = false;
    }
    return true;
}

/* The factors of 16 interleaved pixels. */
static bool make_rows(pack_pass *pass) {
    if (!pass->kernels || !pass->in_hwc || !pass->out_hwc || pass->same_factor) return true;
    const size_t c = (size_t)pass->channels;
    pass->a_row = iter__alloc(16 * c, sizeof(float));
    pass->b_row = iter__alloc(16 * c, sizeof(float));
    if (!pass->a_row || !pass->b_row) return false;
    for (size_t i = 0; i < 16 * c; i++) {
        pass->a_row[i] = pass->a32[i % c];
        pass->b_row[i] = pass->b32[i % c];
    }
    return true;
}

/* ---- Fills ----------------------------------------------------------------------------------- */

/* The value of the type that is nearest to `value`. */
static double value_of_type(double value, iter_dtype dtype) {
    char element[8];
    double x = 0;
    iter__element_from_f64(dtype, value, element);
    iter__elements_convert(dtype, ITER_F64, dtype == ITER_F64 ? ITER__KIND_RAW : ITER__KIND_F64,
                           element, 0, &x, 0, 1, 1.0, -0.0);
    return x;
}

/* Whether `a` and `b` apply to the fill as they are: no arithmetic comes before its stage. */
static bool has_all_factors(const pack_pass *pass, const fold_fill *fill) {
    if (pass->is_inverted && fill->dtype != ITER_U8) return false;
    for (int32_t k = 0; k < pass->n_calls; k++)
        if (pass->calls[k].factors) return pass->calls[k].stage >= fill->stage;
    return true;
}

/* The pixel value that `a` and `b` turn into the fill's output value. */
static double pixel_like(const pack_pass *pass, const fold_fill *fill, double value) {
    uint8_t table[256];
    if (fill->dtype != ITER_U8) return value;
    if (compose_tables(pass, fill->stage, table)) value = table[(uint8_t)value];
    return pass->is_inverted ? 255 - value : value;
}

static bool make_fill(pack_pass *pass, fold_fill *fill) {
    const size_t c = (size_t)pass->channels, bytes = iter_dtype_bytes(pass->out.dtype);
    fill->f32 = iter__alloc(c, sizeof(float));
    fill->bytes = iter__alloc(c, bytes);
    if (!fill->f32 || !fill->bytes) return false;
    const bool is_pixel = has_all_factors(pass, fill);
    const double value = value_of_type(fill->value, fill->dtype);
    const double start = is_pixel ? pixel_like(pass, fill, value) : value;
    const bool is_byte = is_pixel && start >= 0 && start <= 255 && start == (int32_t)start;
    fill->byte = is_byte ? (int32_t)start : -1;
    for (size_t i = 0; i < c; i++) {
        double x = start;
        if (is_pixel) { /* the same operations as for a pixel of that value */
            x = x * pass->a[i];
            x = x + pass->b[i];
            fill->f32[i] = (float)start * pass->a32[i];
            fill->f32[i] = fill->f32[i] + pass->b32[i];
        } else {
            for (int32_t k = 0; k < pass->n_calls; k++) {
                const double *factors = pass->calls[k].factors;
                if (factors && pass->calls[k].stage >= fill->stage)
                    x = x * factors[i] + factors[c + i];
            }
            fill->f32[i] = (float)x;
        }
        if (pass->kind == ITER__KIND_F32)
            iter__element_from_f32(pass->out.dtype, fill->f32[i], fill->bytes + i * bytes);
        else
            iter__element_from_f64(pass->out.dtype, x, fill->bytes + i * bytes);
    }
    return true;
}

static bool is_fill(const fold_call *call) {
    return call->verb == ITER__FOLD_CUTOUT ||
           (call->verb == ITER__FOLD_PAD && call->edge == ITER_EDGE_CONSTANT);
}

/* One for each value of each stage. */
static iter_status make_fills(pack_pass *pass, iter_error *err) {
    int32_t n = 0;
    for (int32_t i = 0; i < pass->n_calls; i++)
        n += is_fill(&pass->calls[i]);
    if (n == 0) return ITER_OK;
    pass->fills = iter__alloc((size_t)n, sizeof(*pass->fills));
    if (!pass->fills) return iter__fail(err, ITER_ENOMEM, "out of memory");
    for (int32_t i = 0; i < pass->n_calls; i++) {
        const fold_call *call = &pass->calls[i];
        bool is_new = is_fill(call);
        for (int32_t k = 0; k < pass->n_fills; k++)
            if (pass->fills[k].stage == call->stage && pass->fills[k].value == call->value)
                is_new = false;
        if (!is_new) continue;
        fold_fill *fill = &pass->fills[pass->n_fills++];
        *fill = (fold_fill){.stage = call->stage, .value = call->value, .dtype = call->dtype};
        if (!make_fill(pass, fill)) return iter__fail(err, ITER_ENOMEM, "out of memory");
    }
    if (pass->n_fills <= FOLD_MAX_FILLS) return ITER_OK;
    return iter__fail(err, ITER_EUNSUPPORTED, "more than %d pads and cutouts in one chain",
                      FOLD_MAX_FILLS);
}

/* ---- Geometry -------------------------------------------------------------------------------- */

/* Composes the geometry now, unless a stage draws it. */
static bool make_fixed(pack_pass *pass) {
    if (!pass->has_geometry || pass->is_random) return true;
    pass->fixed = iter__alloc(1, sizeof(*pass->fixed));
    if (!pass->fixed) return false;
    fold_place *y = iter__alloc((size_t)pass->max_height, sizeof(*y));
    fold_place *x = iter__alloc((size_t)pass->max_width, sizeof(*x));
    iter__fold_start(pass->fixed, pass, y, x);
    if (!y || !x) return false;
    for (int32_t i = 0; i < pass->n_stages; i++)
        iter__fold_replay(pass->fixed, i);
    return true;
}

/* ---- The pass -------------------------------------------------------------------------------- */

static void note_calls(pack_pass *pass, const iter__stage *const *stages) {
    for (int32_t i = 0; i < pass->n_calls; i++) {
        const fold_call *call = &pass->calls[i];
        if (call->verb == ITER__FOLD_AFFINE)
            pass->has_affine = true;
        else if (call->verb != ITER__FOLD_TABLE)
            pass->has_geometry = true;
        else if (stages[call->stage]->ops->fold_sample)
            pass->has_tables = true;
    }
    for (int32_t i = 0; i < pass->n_stages; i++)
        if (stages[i]->ops->fold_sample) pass->is_random = pass->has_geometry || pass->has_tables;
}

static void note_output(pack_pass *pass, const fold_state *at) {
    iter_desc *out = &pass->out;
    pass->out_height = at->height;
    pass->out_width = at->width;
    pass->max_height = at->max_height;
    pass->max_width = at->max_width;
    pass->out_hwc = at->is_hwc;
    out->dtype = at->dtype;
    pass->out_element = iter_dtype_bytes(out->dtype);
    if (!pass->is_image) return;
    if (at->layout[0]) {
        out->n_dims = 3;
        snprintf(out->layout, sizeof(out->layout), "%s", at->layout);
    }
    const int first = out->n_dims == 3 && !at->is_hwc ? 1 : 0;
    out->dims[first] = at->height;
    out->dims[first + 1] = at->width;
    if (out->n_dims == 3) out->dims[at->is_hwc ? 2 : 0] = pass->channels;
}

static void choose_kernels(pack_pass *pass, iter__cpu level) {
    const iter_dtype in = pass->in.dtype;
    pass->kind = iter__kind_of(in, pass->out.dtype, pass->has_affine);
    if (pass->kind == ITER__KIND_F32 || (pass->kind == ITER__KIND_RAW && in == ITER_U8))
        pass->kernels = iter__kernels_get(level, in, pass->out.dtype);
    if (pass->kind == ITER__KIND_INT) pass->widen = iter__widen_get(level, in, pass->out.dtype);
    if (in == ITER_U8) pass->bytes_kernels = iter__kernels_get(level, ITER_U8, ITER_U8);
    pass->lookup = iter__lookup_get(level);
    pass->is_copy = pass->kind == ITER__KIND_RAW && !pass->has_geometry && !pass->table &&
                    !pass->has_tables && pass->in_hwc == pass->out_hwc;
}

/* Arithmetic is in the factors now, so its calls must not be replayed. */
static void drop_factors(pack_pass *pass) {
    int32_t n = 0;
    for (int32_t i = 0; i < pass->n_calls; i++)
        if (pass->calls[i].verb == ITER__FOLD_AFFINE)
            iter__call_free(&pass->calls[i]);
        else
            pass->calls[n++] = pass->calls[i];
    pass->n_calls = n;
}

iter_status iter__pass_close(pack_pass *pass, const fold_builder *b, int32_t n_stages,
                             const iter__stage *const *stages, iter__cpu level, iter_error *err) {
    pass->n_stages = n_stages;
    note_output(pass, &b->at);
    note_calls(pass, stages);
    if (!make_table(pass)) return iter__fail(err, ITER_ENOMEM, "out of memory");
    pass->has_affine |= pass->is_inverted;
    if (pass->channels == 1) pass->in_hwc = pass->out_hwc = false;
    choose_kernels(pass, level);
    if (!make_factors(pass) || !make_rows(pass))
        return iter__fail(err, ITER_ENOMEM, "out of memory");
    ITER_TRY(make_fills(pass, err));
    drop_factors(pass);
    return make_fixed(pass) ? ITER_OK : iter__fail(err, ITER_ENOMEM, "out of memory");
}
