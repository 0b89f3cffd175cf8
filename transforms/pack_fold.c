/*
 * pack_fold.c - composing geometry and values: the iter_fold_*() calls of the stages.
 *
 * An axis is an offset, a step of +1 or -1 and the interval of positions that have a source, as long as that can say it: one constant pad,
 * crops, flips, and cutouts as rectangles. Reflecting and replicating pads, a second pad and many cutouts turn both axes into tables, one entry
 * a position. Both forms are separable: a pixel lies in a pad if either axis does, in a cutout if both do, and the latest one wins.
 *
 * Per sample these functions are hot: they allocate nothing and cannot fail. Numbers out of range are clamped, so that a stage with a bug
 * spoils pixels, not memory.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "transforms/pack_fold.h"

/* ---- Plan -------------------------------------------------------------------------------------------------- */

static void refuse(iter_fold *fold, iter_status status, const char *reason) {
    if (fold->status < 0) return;
    fold->status = status;
    snprintf(fold->reason, sizeof(fold->reason), "%s", reason);
}

/* Doubles a list when it is full. */
static void *grow(iter_fold *fold, void *list, int32_t n, int32_t *capacity, size_t size) {
    if (n < *capacity) return list;
    const int32_t more = *capacity ? *capacity * 2 : 8;
    void *larger = iter__realloc(list, (size_t)more * size);
    if (!larger) {
        refuse(fold, ITER_ENOMEM, "out of memory");
        return NULL;
    }
    *capacity = more;
    return larger;
}

static void record_fill(iter_fold *fold, double value) {
    pack_pass *pass = fold->plan;
    for (int32_t i = 0; i < pass->n_fills; i++)
        if (pass->fills[i].stage == fold->stage && pass->fills[i].value == value) return;
    fold_fill *fills =
        grow(fold, pass->fills, pass->n_fills, &pass->capacity_fills, sizeof(*fills));
    if (!fills) return;
    pass->fills = fills;
    fills[pass->n_fills++] =
        (fold_fill){.stage = fold->stage, .value = value, .dtype = fold->dtype};
}

static void record_call(iter_fold *fold, const fold_call *call) {
    pack_pass *pass = fold->plan;
    fold_call *calls =
        grow(fold, pass->calls, pass->n_calls, &pass->capacity_calls, sizeof(*calls));
    if (!calls) return;
    pass->calls = calls;
    calls[pass->n_calls] = *call;
    calls[pass->n_calls++].stage = fold->stage;
    pass->has_geometry = true;
}

/* True where a geometry call makes sense; in plan it says why not. */
static bool is_geometry_legal(iter_fold *fold) {
    if (!fold->plan) return fold->pass->is_image;
    if (fold->status < 0) return false;
    if (!fold->pass->is_image)
        refuse(fold, ITER_EINVAL, "works on images, layout \"CHW\", \"HWC\" or \"HW\"");
    return fold->pass->is_image;
}

/* ---- Axes ---------------------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static void axis_crop(fold_axis *axis, int64_t start, int64_t n) {
    axis->offset += axis->step * start;
    axis->low = clamp(axis->low - start, 0, n);
    axis->high = clamp(axis->high - start, axis->low, n);
    axis->n = n;
}

static void axis_pad(fold_axis *axis, int64_t before, int64_t after) {
    axis->offset -= axis->step * before;
    axis->low += before;
    axis->high += before;
    axis->n += before + after;
}

static void axis_flip(fold_axis *axis) {
    const int64_t low = axis->low;
    axis->offset += axis->step * (axis->n - 1);
    axis->step = -axis->step;
    axis->low = axis->n - axis->high;
    axis->high = axis->n - low;
}

static bool axis_is_whole(const fold_axis *axis) {
    return axis->low <= 0 && axis->high >= axis->n;
}

/* ---- Tables --------------------------------------------------------------------------------------------------- */

static void table_from_axis(const fold_axis *axis, int32_t pad, fold_place *table) {
    for (int64_t p = 0; p < axis->n; p++) {
        const bool inside = p >= axis->low && p < axis->high;
        table[p].source = inside ? (int32_t)(axis->offset + axis->step * p) : -1;
        table[p].pad = inside ? -1 : pad;
        table[p].cuts = 0;
    }
}

static void cut_table(fold_place *table, int64_t from, int64_t to, int32_t order) {
    for (int64_t p = from; p < to; p++)
        table[p].cuts |= (uint64_t)1 << order;
}

/* From intervals to tables. */
static void use_tables(iter_fold *fold) {
    if (fold->is_table) return;
    fold->is_table = true;
    table_from_axis(&fold->y, fold->pad, fold->y_table);
    table_from_axis(&fold->x, fold->pad, fold->x_table);
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        const fold_cut *cut = &fold->cuts[i];
        cut_table(fold->y_table, cut->y0, cut->y1, cut->order);
        cut_table(fold->x_table, cut->x0, cut->x1, cut->order);
    }
}

/* Where position p of a padded axis of n looks, by the edge rule; reflecting repeats where the pad is wider than the image. */
static int64_t edge_source(int64_t p, int64_t n, iter_edge edge) {
    if (edge == ITER_EDGE_REPLICATE || n == 1) return clamp(p, 0, n - 1);
    const int64_t period = 2 * (n - 1);
    const int64_t q = (p % period + period) % period;
    return q < n ? q : period - q;
}

static void table_pad(fold_place *table, int64_t n, int64_t before, int64_t after, iter_edge edge,
                      int32_t order) {
    memmove(table + before, table, (size_t)n * sizeof(*table));
    const fold_place fill = {-1, order, 0};
    for (int64_t i = 0; i < before; i++)
        table[i] =
            edge == ITER_EDGE_CONSTANT ? fill : table[before + edge_source(i - before, n, edge)];
    for (int64_t i = 0; i < after; i++)
        table[before + n + i] =
            edge == ITER_EDGE_CONSTANT ? fill : table[before + edge_source(n + i, n, edge)];
}

static void table_flip(fold_place *table, int64_t n) {
    for (int64_t i = 0, j = n - 1; i < j; i++, j--) {
        const fold_place place = table[i];
        table[i] = table[j];
        table[j] = place;
    }
}

/* ---- Fills ----------------------------------------------------------------------------------------------------- */

/* The next place in the order of pads and cutouts, filled with `value`; -1 where there is no more room. */
static int32_t next_order(iter_fold *fold, double value) {
    if (fold->n_orders == FOLD_MAX_FILLS) return -1;
    const pack_pass *pass = fold->pass;
    int16_t fill = -1;
    for (int32_t i = 0; i < pass->n_fills && i < INT16_MAX; i++)
        if (pass->fills[i].stage == fold->stage && pass->fills[i].value == value) fill = (int16_t)i;
    fold->fill_of[fold->n_orders] = fill;
    return fold->n_orders++;
}

static void note_size(iter_fold *fold) {
    pack_pass *pass = fold->plan;
    if (!pass) return;
    if (fold->y.n > pass->max_height) pass->max_height = fold->y.n;
    if (fold->x.n > pass->max_width) pass->max_width = fold->x.n;
}

/* ---- Public: geometry -------------------------------------------------------------------------------------------- */

void iter_fold_size(const iter_fold *fold, int64_t *out_height, int64_t *out_width,
                    int64_t *out_channels) {
    *out_height = fold->y.n;
    *out_width = fold->x.n;
    *out_channels = fold->pass->channels;
}

iter_dtype iter_fold_dtype(const iter_fold *fold) {
    return fold->plan ? fold->dtype : fold->pass->out.dtype;
}

void iter_fold_crop(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width) {
    if (!is_geometry_legal(fold)) return;
    if (fold->plan) {
        if (height < 1 || width < 1 || height > fold->y.n || width > fold->x.n) {
            refuse(fold, ITER_EINVAL, "crop does not fit into the image");
            return;
        }
        const fold_call call = {.verb = ITER__FOLD_CROP, .a = y, .b = x, .c = height, .d = width};
        record_call(fold, &call);
    }
    height = clamp(height, 1, fold->y.n);
    width = clamp(width, 1, fold->x.n);
    y = clamp(y, 0, fold->y.n - height);
    x = clamp(x, 0, fold->x.n - width);
    if (fold->is_table) {
        memmove(fold->y_table, fold->y_table + y, (size_t)height * sizeof(*fold->y_table));
        memmove(fold->x_table, fold->x_table + x, (size_t)width * sizeof(*fold->x_table));
    }
    axis_crop(&fold->y, y, height);
    axis_crop(&fold->x, x, width);
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        fold_cut *cut = &fold->cuts[i];
        cut->y0 = clamp(cut->y0 - y, 0, height);
        cut->y1 = clamp(cut->y1 - y, 0, height);
        cut->x0 = clamp(cut->x0 - x, 0, width);
        cut->x1 = clamp(cut->x1 - x, 0, width);
    }
}

/* Pads that one interval an axis can say: constant, and no other pad is left over. */
static bool pad_is_simple(const iter_fold *fold, iter_edge edge) {
    return !fold->is_table && edge == ITER_EDGE_CONSTANT &&
           (fold->pad < 0 || (axis_is_whole(&fold->y) && axis_is_whole(&fold->x)));
}

void iter_fold_pad(iter_fold *fold, int64_t top, int64_t left, int64_t bottom, int64_t right,
                   iter_edge edge, double value) {
    if (!is_geometry_legal(fold)) return;
    if (fold->plan) {
        const int64_t most = INT32_MAX / 4;
        if (top < 0 || left < 0 || bottom < 0 || right < 0 || top > most || left > most ||
            bottom > most || right > most) {
            refuse(fold, ITER_EINVAL, "pad is negative or too large");
            return;
        }
        const fold_call call = {ITER__FOLD_PAD, 0, (int32_t)edge, top, left, bottom, right, value};
        record_call(fold, &call);
        if (edge == ITER_EDGE_CONSTANT) record_fill(fold, value);
        fold->y.n += top + bottom;
        fold->x.n += left + right;
        note_size(fold);
        return;
    }
    const int64_t room_y = fold->pass->max_height - fold->y.n;
    const int64_t room_x = fold->pass->max_width - fold->x.n;
    top = clamp(top, 0, room_y);
    bottom = clamp(bottom, 0, room_y - top);
    left = clamp(left, 0, room_x);
    right = clamp(right, 0, room_x - left);
    if (top + left + bottom + right == 0) return;
    const int32_t order = edge == ITER_EDGE_CONSTANT ? next_order(fold, value) : -1;
    if (edge == ITER_EDGE_CONSTANT && order < 0) return;
    if (pad_is_simple(fold, edge)) {
        fold->pad = order;
    } else {
        use_tables(fold);
        table_pad(fold->y_table, fold->y.n, top, bottom, edge, order);
        table_pad(fold->x_table, fold->x.n, left, right, edge, order);
    }
    axis_pad(&fold->y, top, bottom);
    axis_pad(&fold->x, left, right);
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        fold->cuts[i].y0 += top;
        fold->cuts[i].y1 += top;
        fold->cuts[i].x0 += left;
        fold->cuts[i].x1 += left;
    }
}

void iter_fold_flip(iter_fold *fold, int vertical, int horizontal) {
    if (!is_geometry_legal(fold)) return;
    if (fold->plan) {
        const fold_call call = {.verb = ITER__FOLD_FLIP, .a = vertical, .b = horizontal};
        record_call(fold, &call);
    }
    if (vertical) {
        if (fold->is_table) table_flip(fold->y_table, fold->y.n);
        axis_flip(&fold->y);
    }
    if (horizontal) {
        if (fold->is_table) table_flip(fold->x_table, fold->x.n);
        axis_flip(&fold->x);
    }
    for (int32_t i = 0; i < fold->n_cuts; i++) {
        fold_cut *cut = &fold->cuts[i];
        const fold_cut old = *cut;
        if (vertical) {
            cut->y0 = fold->y.n - old.y1;
            cut->y1 = fold->y.n - old.y0;
        }
        if (horizontal) {
            cut->x0 = fold->x.n - old.x1;
            cut->x1 = fold->x.n - old.x0;
        }
    }
}

void iter_fold_cutout(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width,
                      double value) {
    if (!is_geometry_legal(fold)) return;
    if (fold->plan) {
        const fold_call call = {ITER__FOLD_CUTOUT, 0, 0, y, x, height, width, value};
        record_call(fold, &call);
        record_fill(fold, value);
        return;
    }
    const int64_t y0 = clamp(y, 0, fold->y.n), y1 = clamp(y + height, y0, fold->y.n);
    const int64_t x0 = clamp(x, 0, fold->x.n), x1 = clamp(x + width, x0, fold->x.n);
    if (y0 == y1 || x0 == x1) return;
    const int32_t order = next_order(fold, value);
    if (order < 0) return;
    if (fold->n_cuts == FOLD_MAX_CUTS) use_tables(fold);
    if (fold->is_table) {
        cut_table(fold->y_table, y0, y1, order);
        cut_table(fold->x_table, x0, x1, order);
        return;
    }
    fold->cuts[fold->n_cuts++] = (fold_cut){y0, y1, x0, x1, order};
}

/* ---- Public: values ------------------------------------------------------------------------------------------------ */

/* The type after arithmetic: floats stay as wide as f32 at least. */
static iter_dtype arithmetic_type(iter_dtype dtype) {
    return dtype == ITER_F64 ? ITER_F64 : ITER_F32;
}

void iter_fold_affine(iter_fold *fold, int32_t n, const double *scale, const double *bias) {
    pack_pass *pass = fold->plan;
    if (!pass || fold->status < 0) return;
    if (fold->lossy) {
        fold->must_split = true;
        return;
    }
    if (n != 1 && n != pass->channels) {
        refuse(fold, ITER_EINVAL, "numbers per channel, but not as many as channels");
        return;
    }
    const size_t c = (size_t)pass->channels;
    fold_affine *affine = iter__alloc(1, sizeof(*affine) + 2 * c * sizeof(double));
    if (!affine) {
        refuse(fold, ITER_ENOMEM, "out of memory");
        return;
    }
    affine->scale = (double *)(void *)(affine + 1);
    affine->bias = affine->scale + c;
    affine->stage = fold->stage;
    for (size_t i = 0; i < c; i++) {
        affine->scale[i] = scale[n == 1 ? 0 : i];
        affine->bias[i] = bias[n == 1 ? 0 : i];
    }
    if (pass->last_affine)
        pass->last_affine->next = affine;
    else
        pass->affines = affine;
    pass->last_affine = affine;
    pass->has_affine = true;
    fold->dtype = arithmetic_type(fold->dtype);
}

void iter_fold_cast(iter_fold *fold, iter_dtype dtype) {
    if (!fold->plan || fold->status < 0 || dtype == fold->dtype) return;
    if (fold->lossy) {
        fold->must_split = true;
        return;
    }
    /* After arithmetic the value is still a real number, not yet rounded to f32: f64 only keeps more of it. */
    fold->lossy = !iter__cast_is_exact(fold->dtype, dtype);
    fold->dtype = dtype;
}

void iter_fold_layout(iter_fold *fold, const char *layout) {
    pack_pass *pass = fold->plan;
    if (!pass || fold->status < 0) return;
    const bool hwc = strcmp(layout, "HWC") == 0;
    if (!hwc && strcmp(layout, "CHW") != 0) {
        refuse(fold, ITER_EINVAL, "unknown layout");
        return;
    }
    if (!pass->is_image) {
        refuse(fold, ITER_EINVAL, "works on images, layout \"CHW\", \"HWC\" or \"HW\"");
        return;
    }
    pass->out_hwc = hwc;
    pass->out.n_dims = 3;
    snprintf(pass->out.layout, sizeof(pass->out.layout), "%s", layout);
}

/* ---- For pack -------------------------------------------------------------------------------------------------------- */

bool iter__image_of(const iter_desc *desc, int64_t *out_height, int64_t *out_width,
                    int64_t *out_channels, bool *out_hwc) {
    static const char *const layouts[] = {"CHW", "HWC", "HW"};
    static const int places[][3] = {{1, 2, 0}, {0, 1, 2}, {0, 1, -1}};
    for (int i = 0; i < 3; i++) {
        if (strcmp(desc->layout, layouts[i]) != 0 || desc->n_dims != (int)strlen(layouts[i]))
            continue;
        *out_height = desc->dims[places[i][0]];
        *out_width = desc->dims[places[i][1]];
        *out_channels = places[i][2] < 0 ? 1 : desc->dims[places[i][2]];
        *out_hwc = i == 1;
        return *out_height > 0 && *out_width > 0 && *out_channels > 0;
    }
    return false;
}

void iter__fold_start(iter_fold *fold, const pack_pass *pass, fold_place *y_table,
                      fold_place *x_table) {
    fold->plan = NULL;
    fold->pass = pass;
    fold->stage = 0;
    fold->y = (fold_axis){pass->in_height, 0, 0, pass->in_height, 1};
    fold->x = (fold_axis){pass->in_width, 0, 0, pass->in_width, 1};
    fold->pad = -1;
    fold->n_cuts = 0;
    fold->n_orders = 0;
    fold->is_table = false;
    fold->y_table = y_table;
    fold->x_table = x_table;
    fold->status = ITER_OK;
}

void iter__fold_replay(iter_fold *fold, int32_t stage) {
    const pack_pass *pass = fold->pass;
    fold->stage = stage;
    for (int32_t i = 0; i < pass->n_calls; i++) {
        const fold_call *call = &pass->calls[i];
        if (call->stage != stage) continue;
        switch (call->verb) {
        case ITER__FOLD_CROP: iter_fold_crop(fold, call->a, call->b, call->c, call->d); break;
        case ITER__FOLD_PAD:
            iter_fold_pad(fold, call->a, call->b, call->c, call->d, (iter_edge)call->edge,
                          call->value);
            break;
        case ITER__FOLD_FLIP: iter_fold_flip(fold, (int)call->a, (int)call->b); break;
        case ITER__FOLD_CUTOUT:
            iter_fold_cutout(fold, call->a, call->b, call->c, call->d, call->value);
            break;
        }
    }
}
