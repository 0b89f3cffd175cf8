/*
 * pack_fold.c - iter_fold_*() per sample: composes geometry, and tables of bytes if samples have
 * their own.
 *
 * An axis is an offset, a step of +1 or -1, and the interval of positions where there is a source.
 * That covers one constant pad, crops, flips, and cutouts as rectangles. A reflecting or
 * replicating pad, a second pad or many cutouts turn both axes into tables with one entry per
 * position. Both forms are separable: a pixel lies in a pad if either axis does, and in a cutout if
 * both do. The latest one wins.
 *
 * These functions are hot: they allocate nothing and cannot fail. Numbers out of range are clamped,
 * so that a faulty stage produces wrong pixels, but never writes out of bounds.
 */
#include <string.h>

#include "transforms/pack/pack_fold.h"

/* ---- Axes ------------------------------------------------------------------------------------ */

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

/* ---- Tables ---------------------------------------------------------------------------------- */

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

/* The source of position p, which may lie outside an axis of n. If the pad is wider than the image,
 * reflecting repeats. */
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

/* ---- Fills ----------------------------------------------------------------------------------- */

/* The index of the pass's fill with this stage and value; -1 = plan had no such value. */
static int16_t find_fill(const iter_fold *fold, double value) {
    const pack_pass *pass = fold->pass;
    int16_t fill = -1;
    for (int32_t i = 0; i < pass->n_fills; i++)
        if (pass->fills[i].stage == fold->stage && pass->fills[i].value == value) fill = (int16_t)i;
    return fill;
}

/* The next number in the order of pads and cutouts, filled with `value`; -1 = no more room. */
static int32_t next_order(iter_fold *fold, double value) {
    if (fold->n_orders == FOLD_MAX_FILLS) return -1;
    fold->fill_of[fold->n_orders] = find_fill(fold, value);
    return fold->n_orders++;
}

/* ---- Public: geometry ------------------------------------------------------------------------ */

void iter_fold_size(const iter_fold *fold, int64_t *out_height, int64_t *out_width,
                    int64_t *out_channels) {
    const fold_builder *b = fold->builder;
    *out_height = b ? b->at.height : fold->y.n;
    *out_width = b ? b->at.width : fold->x.n;
    *out_channels = b ? b->channels : fold->pass->channels;
}

iter_dtype iter_fold_dtype(const iter_fold *fold) {
    return fold->builder ? fold->builder->at.dtype : fold->pass->out.dtype;
}

void iter_fold_crop(iter_fold *fold, int64_t y, int64_t x, int64_t height, int64_t width) {
    if (fold->builder) {
        iter__builder_crop(fold->builder, y, x, height, width);
        return;
    }
    if (!fold->pass->is_image) return;
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

/* Whether one interval per axis can express the pad: it is constant, and no other pad is
 * visible. */
static bool pad_is_simple(const iter_fold *fold, iter_edge edge) {
    return !fold->is_table && edge == ITER_EDGE_CONSTANT &&
           (fold->pad < 0 || (axis_is_whole(&fold->y) && axis_is_whole(&fold->x)));
}

void iter_fold_pad(iter_fold *fold, int64_t top, int64_t left, int64_t bottom, int64_t right,
                   iter_edge edge, double value) {
    if (fold->builder) {
        iter__builder_pad(fold->builder, (int64_t[4]){top, left, bottom, right}, edge, value);
        return;
    }
    if (!fold->pass->is_image) return;
    const int64_t room_y = fold->pass->max_height - fold->y.n;
    const int64_t room_x = fold->pass->max_width - fold->x.n;
    top = clamp(top, 0, room_y);
    bottom = clamp(bottom, 0, room_y - top);
    left = clamp(left, 0, room_x);
    right = clamp(right, 0, room_x - left);
    if (top + left + bottom + right == 0) return;
    if (fold->is_trace) {
        axis_pad(&fold->y, top, bottom);
        axis_pad(&fold->x, left, right);
        return;
    }
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
    if (fold->builder) {
        iter__builder_flip(fold->builder, vertical, horizontal);
        return;
    }
    if (!fold->pass->is_image) return;
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
    if (fold->builder) {
        iter__builder_cutout(fold->builder, &(iter_rect){y, x, height, width}, value);
        return;
    }
    if (!fold->pass->is_image || fold->is_trace) return;
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

/* ---- Public: values -------------------------------------------------------------------------- */

void iter_fold_table(iter_fold *fold, const uint8_t table[256]) {
    if (fold->builder) {
        iter__builder_table(fold->builder, table);
        return;
    }
    if (!fold->pass->has_tables) return;
    if (fold->table)
        for (int32_t i = 0; i < 256; i++)
            fold->own_table[i] = table[fold->own_table[i]];
    else
        memcpy(fold->own_table, table, sizeof(fold->own_table));
    fold->table = fold->own_table;
}

/* ---- For pack -------------------------------------------------------------------------------- */

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
    fold->builder = NULL;
    fold->pass = pass;
    fold->stage = 0;
    fold->y = (fold_axis){pass->in_height, 0, 0, pass->in_height, 1};
    fold->x = (fold_axis){pass->in_width, 0, 0, pass->in_width, 1};
    fold->is_trace = false;
    fold->pad = -1;
    fold->n_cuts = 0;
    fold->n_orders = 0;
    fold->is_table = false;
    fold->y_table = y_table;
    fold->x_table = x_table;
    fold->table = pass->table;
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
        case ITER__FOLD_TABLE: iter_fold_table(fold, call->table); break;
        case ITER__FOLD_AFFINE: break; /* already dropped by pack_close.c */
        }
    }
}
