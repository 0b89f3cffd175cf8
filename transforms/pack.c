/*
 * pack.c - the fused pass: a run of foldable stages, prepared once, run per sample.
 *
 * create() tells the stages' plans to a fold, one after the other. A stage that cannot join (arithmetic behind a cast that rounds) opens a
 * second pass, which reads what the first one wrote into scratch; that keeps the meaning exact and is rare. Then coefficients are rounded, fills are
 * pushed to the output's type, and geometry that is the same for every sample is composed once and for all.
 *
 * Random numbers of stage k are the stream of (seed XOR FNV(name '#' occurrence), epoch, position): the hash is taken here, the XOR per sample.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/pack_state.h"

/* ---- Making a pass -------------------------------------------------------------------------------------------- */

static void free_affines(fold_affine *affine) {
    while (affine) {
        fold_affine *next = affine->next;
        iter__free(affine);
        affine = next;
    }
}

static void pass_free(pack_pass *pass) {
    free_affines(pass->affines);
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
    iter__free(pass->a);
    iter__free(pass->b);
    iter__free(pass->a32);
    iter__free(pass->b32);
    iter__free(pass->zeros);
    iter__free(pass->a_row);
    iter__free(pass->b_row);
    *pass = (pack_pass){0};
}

static void pass_open(pack_pass *pass, iter_fold *fold, const iter_desc *in, int32_t first_stage) {
    *pass = (pack_pass){.in = *in, .out = *in, .first_stage = first_stage, .channels = 1};
    pass->is_image =
        iter__image_of(in, &pass->in_height, &pass->in_width, &pass->channels, &pass->in_hwc);
    if (!pass->is_image) {
        pass->in_height = 1;
        pass->in_width = iter_desc_elements(in);
        pass->channels = 1;
    }
    pass->out_hwc = pass->in_hwc;
    pass->max_height = pass->in_height;
    pass->max_width = pass->in_width;
    *fold = (iter_fold){0};
    iter__fold_start(fold, pass, NULL, NULL);
    fold->plan = pass;
    fold->dtype = in->dtype;
}

/* What a stage may have changed, to take it back. */
typedef struct pass_mark {
    iter_fold fold;
    int32_t n_calls, n_fills;
    int64_t max_height, max_width;
    bool has_geometry, has_affine;
    fold_affine *last_affine;
} pass_mark;

static void pass_mark_take(const pack_pass *pass, const iter_fold *fold, pass_mark *mark) {
    *mark = (pass_mark){*fold,           pass->n_calls,      pass->n_fills,    pass->max_height,
                        pass->max_width, pass->has_geometry, pass->has_affine, pass->last_affine};
}

static void pass_mark_restore(pack_pass *pass, iter_fold *fold, const pass_mark *mark) {
    *fold = mark->fold;
    pass->n_calls = mark->n_calls;
    pass->n_fills = mark->n_fills;
    pass->max_height = mark->max_height;
    pass->max_width = mark->max_width;
    pass->has_geometry = mark->has_geometry;
    pass->has_affine = mark->has_affine;
    pass->last_affine = mark->last_affine;
    if (pass->last_affine) {
        free_affines(pass->last_affine->next);
        pass->last_affine->next = NULL;
    } else {
        free_affines(pass->affines);
        pass->affines = NULL;
    }
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
        double a = 1, b = pass->has_affine ? 0 : -0.0;
        for (const fold_affine *f = pass->affines; f; f = f->next) {
            a *= f->scale[i];
            b = b * f->scale[i] + f->bias[i];
        }
        pass->a[i] = a;
        pass->b[i] = b;
        pass->a32[i] = (float)a;
        pass->b32[i] = (float)b;
        if (a != pass->a[0] || b != pass->b[0]) pass->same_factor = false;
    }
    return true;
}

/* Factors for 16 pixels side by side. */
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

/* A value as the nearest one of a type. */
static double value_of_type(double value, iter_dtype dtype) {
    char element[8];
    double x = 0;
    iter__element_from_f64(dtype, value, element);
    iter__elements_convert(dtype, ITER_F64, dtype == ITER_F64 ? ITER__KIND_RAW : ITER__KIND_F64,
                           element, 0, &x, 0, 1, 1.0, -0.0);
    return x;
}

static bool make_fill(pack_pass *pass, fold_fill *fill) {
    const size_t c = (size_t)pass->channels, bytes = iter_dtype_bytes(pass->out.dtype);
    fill->f32 = iter__alloc(c, sizeof(float));
    fill->bytes = iter__alloc(c, bytes);
    if (!fill->f32 || !fill->bytes) return false;
    const bool before_values = !pass->affines || pass->affines->stage >= fill->stage;
    const double start = value_of_type(fill->value, fill->dtype);
    for (size_t i = 0; i < c; i++) {
        double x = start;
        if (before_values) { /* exactly what a pixel of that value becomes */
            x = x * pass->a[i];
            x = x + pass->b[i];
            fill->f32[i] = (float)start * pass->a32[i];
            fill->f32[i] = fill->f32[i] + pass->b32[i];
        } else {
            for (const fold_affine *f = pass->affines; f; f = f->next)
                if (f->stage >= fill->stage) x = x * f->scale[i] + f->bias[i];
            fill->f32[i] = (float)x;
        }
        if (pass->kind == ITER__KIND_F32)
            iter__element_from_f32(pass->out.dtype, fill->f32[i], fill->bytes + i * bytes);
        else
            iter__element_from_f64(pass->out.dtype, x, fill->bytes + i * bytes);
    }
    return true;
}

/* Geometry without random stages is composed now. */
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

static void pass_out_desc(pack_pass *pass, const iter_fold *fold) {
    pass->out_height = fold->y.n;
    pass->out_width = fold->x.n;
    pass->out.dtype = fold->dtype;
    if (!pass->is_image) return;
    int64_t *dims = pass->out.dims;
    if (pass->out.n_dims == 2) {
        dims[0] = fold->y.n;
        dims[1] = fold->x.n;
        return;
    }
    dims[pass->out_hwc ? 2 : 0] = pass->channels;
    dims[pass->out_hwc ? 0 : 1] = fold->y.n;
    dims[pass->out_hwc ? 1 : 2] = fold->x.n;
}

static iter_status pass_close(pack_pass *pass, const iter_fold *fold, int32_t n_stages,
                              const iter_stage *const *stages, iter_cpu level, iter_error *err) {
    pass->n_stages = n_stages;
    pass_out_desc(pass, fold);
    for (int32_t i = 0; i < n_stages; i++)
        if (stages[pass->first_stage + i]->ops->fold_sample) pass->is_random = true;
    if (pass->n_fills > FOLD_MAX_FILLS)
        return iter__fail(err, ITER_EUNSUPPORTED, "more than %d pads and cutouts in one chain",
                          FOLD_MAX_FILLS);
    if (pass->channels == 1) pass->in_hwc = pass->out_hwc = false;
    pass->kind = iter__kind_of(pass->in.dtype, pass->out.dtype, pass->has_affine);
    if (pass->kind == ITER__KIND_F32 || (pass->kind == ITER__KIND_RAW && pass->in.dtype == ITER_U8))
        pass->kernels = iter__kernels_get(level, pass->in.dtype, pass->out.dtype);
    if (pass->in.dtype == ITER_U8) pass->bytes_kernels = iter__kernels_get(level, ITER_U8, ITER_U8);
    if (!pass->has_geometry) pass->is_random = false;
    pass->in_element = iter_dtype_bytes(pass->in.dtype);
    pass->out_element = iter_dtype_bytes(pass->out.dtype);
    pass->in_bytes = iter_desc_bytes(&pass->in);
    pass->is_copy =
        pass->kind == ITER__KIND_RAW && !pass->has_geometry && pass->in_hwc == pass->out_hwc;
    bool ok = make_factors(pass) && make_rows(pass);
    for (int32_t i = 0; ok && i < pass->n_fills; i++)
        ok = make_fill(pass, &pass->fills[i]);
    if (!ok || !make_fixed(pass)) return iter__fail(err, ITER_ENOMEM, "out of memory");
    return ITER_OK;
}

/* ---- Making a pack ---------------------------------------------------------------------------------------------- */

static iter_status fold_stage(const iter_stage *stage, iter_fold *fold, iter_error *err) {
    if (!stage->ops->fold_plan)
        return iter__fail(err, ITER_EINVAL, "%s: not a foldable stage", stage->ops->base.name);
    const iter_status status = stage->ops->fold_plan(stage->options, fold, err);
    if (status < 0) return iter__fail_in(err, status, "%s", stage->ops->base.name);
    if (fold->status < 0)
        return iter__fail(err, fold->status, "%s: %s", stage->ops->base.name, fold->reason);
    return ITER_OK;
}

static iter_status fold_stages(iter_pack *pack, const iter_desc *in, iter_error *err) {
    iter_fold fold;
    pass_mark mark;
    pack_pass *pass = &pack->passes[0];
    pack->n_passes = 1;
    pass_open(pass, &fold, in, 0);
    for (int32_t i = 0; i < pack->n_stages; i++) {
        pass_mark_take(pass, &fold, &mark);
        fold.stage = i - pass->first_stage;
        ITER_TRY(fold_stage(pack->stages[i], &fold, err));
        if (!fold.must_split) continue;
        if (i == pass->first_stage || pack->n_passes == PACK_MAX_PASSES)
            return iter__fail(err, ITER_EUNSUPPORTED, "%s: arithmetic after a cast that rounds, %s",
                              pack->stages[i]->ops->base.name,
                              i == pass->first_stage ? "within one stage" : "too many times");
        pass_mark_restore(pass, &fold, &mark);
        ITER_TRY(pass_close(pass, &fold, i - pass->first_stage, pack->stages, pack->level, err));
        const iter_desc between = pass->out;
        pass = &pack->passes[pack->n_passes++];
        pass_open(pass, &fold, &between, i);
        i--; /* the same stage again, in the new pass */
    }
    return pass_close(pass, &fold, pack->n_stages - pass->first_stage, pack->stages, pack->level,
                      err);
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t plan_scratch(iter_pack *pack) {
    for (int32_t i = 0; i < pack->n_passes; i++) {
        const pack_pass *pass = &pack->passes[i];
        if (pass->has_geometry)
            pack->line_bytes = larger(pack->line_bytes, round_up(iter__pass_line_bytes(pass)));
        if (pass->is_random)
            pack->table_bytes =
                larger(pack->table_bytes,
                       round_up((size_t)(pass->max_height + pass->max_width) * sizeof(fold_place)));
        if (i + 1 < pack->n_passes)
            pack->between_bytes =
                larger(pack->between_bytes, round_up(iter_desc_bytes(&pass->out)));
    }
    return pack->line_bytes + pack->table_bytes + 2 * pack->between_bytes +
           round_up(sizeof(iter_fold));
}

/* ---- The table ----------------------------------------------------------------------------------------------------- */

static void pack_destroy(iter_pack *pack) {
    if (!pack) return;
    for (int32_t i = 0; i < pack->n_passes; i++)
        pass_free(&pack->passes[i]);
    iter__free(pack->stages);
    iter__free(pack->keys);
    iter__free(pack);
}

static iter_status pack_create(const iter_desc *in, const iter_stage *const *stages, int32_t n,
                               iter_pack **out, iter_desc *out_desc, size_t *out_scratch,
                               iter_error *err) {
    *out = NULL;
    if (in->n_dims > 0 && in->dims[0] == ITER_VARIABLE)
        return iter__fail(err, ITER_EINVAL, "%s: wants a fixed shape, not a variable length",
                          n > 0 ? stages[0]->ops->base.name : "copy");
    iter_pack *pack = iter__alloc(1, sizeof(*pack));
    if (!pack) return iter__fail(err, ITER_ENOMEM, "out of memory");
    pack->level = iter__cpu_level();
    pack->n_stages = n;
    pack->stages = iter__alloc((size_t)n + 1, sizeof(*pack->stages));
    pack->keys = iter__alloc((size_t)n + 1, sizeof(*pack->keys));
    if (!pack->stages || !pack->keys) {
        pack_destroy(pack);
        return iter__fail(err, ITER_ENOMEM, "out of memory");
    }
    for (int32_t i = 0; i < n; i++) {
        pack->stages[i] = stages[i];
        pack->keys[i] = iter_rng_key(0, stages[i]->ops->base.name, stages[i]->occurrence);
    }
    const iter_status status = fold_stages(pack, in, err);
    if (status < 0) {
        pack_destroy(pack);
        return status;
    }
    *out_scratch = plan_scratch(pack);
    *out_desc = pack->passes[pack->n_passes - 1].out;
    *out = pack;
    return ITER_OK;
}

void iter__pack_fold(const iter_pack *pack, const pack_pass *pass, const iter_pack_sample *sample,
                     iter_fold *fold) {
    for (int32_t i = 0; i < pass->n_stages; i++) {
        const int32_t k = pass->first_stage + i;
        const iter_stage *stage = pack->stages[k];
        fold->stage = i;
        if (!stage->ops->fold_sample) {
            iter__fold_replay(fold, i);
            continue;
        }
        iter_rng rng = iter_rng_at(sample->seed ^ pack->keys[k], sample->epoch, sample->position);
        stage->ops->fold_sample(stage->options, fold, &rng);
    }
}

/* Drawing and composing touch no memory: time for the first lines of the next source to arrive. */
static void fetch_ahead(const pack_pass *pass, const char *next_in) {
    if (!next_in) return;
    const size_t n = iter__pass_early_bytes(pass);
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch(next_in + i, 0, 3);
}

/* The pass's geometry for this sample: NULL = none, else its own or *own. */
static const iter_fold *compose(const iter_pack *pack, const pack_pass *pass,
                                const iter_pack_sample *sample, void *table, iter_fold *own) {
    if (!pass->is_random) return pass->fixed;
    fold_place *y_table = table;
    iter__fold_start(own, pass, y_table, y_table + pass->max_height);
    iter__pack_fold(pack, pass, sample, own);
    return own;
}

static void pack_run(const iter_pack *pack, const void *in, void *out,
                     const iter_pack_sample *sample, void *scratch, const void *next_in) {
    char *line = scratch;
    char *table = line + pack->line_bytes;
    char *between = table + pack->table_bytes;
    for (int32_t i = 0; i < pack->n_passes; i++) {
        const pack_pass *pass = &pack->passes[i];
        const bool is_last = i + 1 == pack->n_passes;
        void *to = is_last ? out : between + (size_t)(i & 1) * pack->between_bytes;
        iter_fold fold;
        if (pass->is_random) fetch_ahead(pass, next_in);
        iter__pass_run(pass, compose(pack, pass, sample, table, &fold), in, to, line, next_in);
        in = to;
        next_in = NULL;
    }
}

/* The fold that stays between bands lies behind everything else. */
static iter_fold *kept_fold(const iter_pack *pack, void *scratch) {
    return (iter_fold *)(void *)((char *)scratch + pack->line_bytes + pack->table_bytes +
                                 2 * pack->between_bytes);
}

static bool pack_begin(const iter_pack *pack, const iter_pack_sample *sample, void *scratch) {
    const pack_pass *pass = &pack->passes[0];
    if (pack->n_passes != 1 || !iter__pass_has_bands(pass)) return false;
    const iter_fold *fold =
        compose(pack, pass, sample, (char *)scratch + pack->line_bytes, kept_fold(pack, scratch));
    return !fold ||
           (!fold->is_table && fold->y.n == pass->out_height && fold->x.n == pass->out_width);
}

static void pack_band(const iter_pack *pack, const void *in, void *out, void *scratch,
                      int64_t first, int64_t end) {
    const pack_pass *pass = &pack->passes[0];
    const iter_fold *fold = pass->is_random ? kept_fold(pack, scratch) : pass->fixed;
    iter__pass_band(pass, fold, in, out, scratch, first, end);
}

static bool pack_is_copy(const iter_pack *pack) {
    return pack->n_passes == 1 && pack->passes[0].is_copy;
}

/* snprintf at the end of a text. */
static void append(char *out, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t capacity, const char *format, ...) {
    const size_t used = strlen(out);
    va_list list;
    va_start(list, format);
    vsnprintf(out + used, capacity - used, format, list);
    va_end(list);
}

static void text_of_stages(const iter_pack *pack, const pack_pass *pass, char *out,
                           size_t capacity) {
    for (int32_t i = 0; i < pass->n_stages; i++)
        append(out, capacity, "%s%s", i ? " + " : "",
               pack->stages[pass->first_stage + i]->ops->base.name);
    if (pass->n_stages) append(out, capacity, ": ");
}

static const char *layout_text(const iter_desc *desc) {
    return desc->layout[0] ? desc->layout : "elements";
}

static void pack_text(const iter_pack *pack, char *out, size_t capacity) {
    if (capacity == 0) return;
    out[0] = '\0';
    for (int32_t i = 0; i < pack->n_passes; i++) {
        const pack_pass *pass = &pack->passes[i];
        append(out, capacity, "%s", i ? "; then " : "");
        text_of_stages(pack, pass, out, capacity);
        if (pass->is_copy) {
            append(out, capacity, "copy of %zu bytes", iter_desc_bytes(&pass->in));
            continue;
        }
        if (pass->has_geometry)
            append(out, capacity, "%s geometry %lldx%lld to %lldx%lld, ",
                   pass->is_random ? "per-sample" : "fixed", (long long)pass->in_height,
                   (long long)pass->in_width, (long long)pass->out_height,
                   (long long)pass->out_width);
        if (pass->has_affine)
            append(out, capacity, "a*x+b%s, ", pass->same_factor ? "" : " per channel");
        append(out, capacity, "%s to %s, %s to %s (%s)", iter_dtype_text(pass->in.dtype),
               iter_dtype_text(pass->out.dtype), layout_text(&pass->in), layout_text(&pass->out),
               pass->kernels ? iter__cpu_text(pack->level) : "scalar");
    }
}

const iter_pack_ops iter__pack = {
    .create = pack_create,
    .destroy = pack_destroy,
    .run = pack_run,
    .begin = pack_begin,
    .band = pack_band,
    .is_copy = pack_is_copy,
    .program = iter__pack_program,
    .row = iter__pack_row,
    .text = pack_text,
};
