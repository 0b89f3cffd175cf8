/*
 * pack_builder.c - iter_fold_*() in plan: checks a stage's calls and records them in a list.
 *
 * A stage may turn out to need a new pass after some of its calls. The list is then cut to its old
 * length and the state is restored, so that nothing of that stage is left. pack_close.c writes
 * every other part of the pass.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "transforms/pack/pack_fold.h"

/* ---- The list of calls ----------------------------------------------------------------------- */

static void refuse(fold_builder *b, iter_status status, const char *reason) {
    b->status = status;
    snprintf(b->reason, sizeof(b->reason), "%s", reason);
}

/* After an error, or once the stage is known to need a new pass, further calls are ignored. */
static bool is_stopped(const fold_builder *b) {
    return b->status < 0 || b->split;
}

static bool is_image(fold_builder *b) {
    if (is_stopped(b)) return false;
    if (!b->is_image) refuse(b, ITER_EINVAL, "works on images, layout \"CHW\", \"HWC\" or \"HW\"");
    return b->is_image;
}

/* Appends a call; the caller fills in its payload. Returns NULL if calls are not kept, or memory
 * ran out. */
static fold_call *record(fold_builder *b, const fold_call *call) {
    pack_pass *pass = b->pass;
    if (!pass) return NULL;
    if (pass->n_calls == pass->capacity_calls) {
        const int32_t capacity = pass->capacity_calls ? 2 * pass->capacity_calls : 8;
        fold_call *calls = iter__realloc(pass->calls, (size_t)capacity * sizeof(*calls));
        if (!calls) {
            refuse(b, ITER_ENOMEM, "out of memory");
            return NULL;
        }
        pass->calls = calls;
        pass->capacity_calls = capacity;
    }
    fold_call *at = &pass->calls[pass->n_calls++];
    *at = *call;
    at->stage = b->stage;
    at->dtype = b->at.dtype;
    return at;
}

void iter__call_free(fold_call *call) {
    iter__free(call->factors);
    iter__free(call->table);
}

static void cut_calls(pack_pass *pass, int32_t n) {
    while (pass && pass->n_calls > n)
        iter__call_free(&pass->calls[--pass->n_calls]);
}

/* ---- A stage --------------------------------------------------------------------------------- */

void iter__builder_start(fold_builder *b, pack_pass *pass, const iter_desc *in) {
    int64_t height, width;
    *b = (fold_builder){.pass = pass};
    b->is_image = iter__image_of(in, &height, &width, &b->channels, &b->at.is_hwc);
    if (!b->is_image) {
        height = 1;
        width = iter_desc_elements(in);
        b->channels = 1;
    }
    b->at.height = b->at.max_height = height;
    b->at.width = b->at.max_width = width;
    b->at.dtype = in->dtype;
}

iter_status iter__builder_stage(fold_builder *b, int32_t stage, const iter_transform_ops *ops,
                                const void *options, iter_error *err) {
    const char *name = ops->base.name;
    const fold_state before = b->at;
    const int32_t n_calls = b->pass ? b->pass->n_calls : 0;
    iter_fold fold = {.builder = b};
    if (!ops->fold_plan) return iter__fail(err, ITER_EINVAL, "%s: not a foldable stage", name);
    b->stage = stage;
    b->is_random = ops->fold_sample != NULL;
    b->split = NULL;
    const iter_status status = ops->fold_plan(options, &fold, err);
    if (status < 0) return iter__fail_in(err, status, "%s", name);
    if (b->status < 0) return iter__fail(err, b->status, "%s: %s", name, b->reason);
    if (!b->split) return ITER_OK;
    b->at = before;
    cut_calls(b->pass, n_calls);
    return ITER_OK;
}

/* ---- Geometry -------------------------------------------------------------------------------- */

void iter__builder_crop(fold_builder *b, int64_t y, int64_t x, int64_t height, int64_t width) {
    if (!is_image(b)) return;
    if (height < 1 || width < 1 || height > b->at.height || width > b->at.width) {
        refuse(b, ITER_EINVAL, "crop does not fit into the image");
        return;
    }
    record(b, &(fold_call){.verb = ITER__FOLD_CROP, .a = y, .b = x, .c = height, .d = width});
    b->at.height = height;
    b->at.width = width;
}

static void note_fill(fold_builder *b, double value) {
    b->at.has_fills = true;
    b->at.fill = value;
}

void iter__builder_pad(fold_builder *b, const int64_t sides[4], iter_edge edge, double value) {
    const int64_t most = INT32_MAX / 4;
    if (!is_image(b)) return;
    for (int i = 0; i < 4; i++)
        if (sides[i] < 0 || sides[i] > most) {
            refuse(b, ITER_EINVAL, "pad is negative or too large");
            return;
        }
    record(b, &(fold_call){.verb = ITER__FOLD_PAD,
                           .edge = (int32_t)edge,
                           .a = sides[0],
                           .b = sides[1],
                           .c = sides[2],
                           .d = sides[3],
                           .value = value});
    if (edge == ITER_EDGE_CONSTANT) note_fill(b, value);
    b->at.height += sides[0] + sides[2];
    b->at.width += sides[1] + sides[3];
    b->at.max_height = iter__max_i64(b->at.max_height, b->at.height);
    b->at.max_width = iter__max_i64(b->at.max_width, b->at.width);
}

void iter__builder_flip(fold_builder *b, bool vertical, bool horizontal) {
    if (!is_image(b)) return;
    record(b, &(fold_call){.verb = ITER__FOLD_FLIP, .a = vertical, .b = horizontal});
}

void iter__builder_cutout(fold_builder *b, const iter_rect *part, double value) {
    if (!is_image(b)) return;
    record(b, &(fold_call){.verb = ITER__FOLD_CUTOUT,
                           .a = part->y,
                           .b = part->x,
                           .c = part->height,
                           .d = part->width,
                           .value = value});
    note_fill(b, value);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/*
 * A table is looked up before any other change to a pixel's value, so it must find the source's
 * bytes. A table that differs from sample to sample would also change the fills recorded before it,
 * but fills are computed once for all samples.
 */
void iter__builder_table(fold_builder *b, const uint8_t *table) {
    if (is_stopped(b)) return;
    if (b->at.dtype != ITER_U8) {
        refuse(b, ITER_EINVAL, "a table of bytes works on u8");
        return;
    }
    if (b->at.has_values) {
        b->split = "a table of bytes after a cast";
        return;
    }
    if (b->is_random && b->at.has_fills) {
        b->split = "a table of each sample's own after a fill";
        return;
    }
    fold_call *call = record(b, &(fold_call){.verb = ITER__FOLD_TABLE});
    if (!call) return;
    call->table = iter__alloc(1, 256);
    if (call->table)
        memcpy(call->table, table, 256);
    else
        refuse(b, ITER_ENOMEM, "out of memory");
}

void iter_fold_affine(iter_fold *fold, int32_t n, const double *scale, const double *bias) {
    fold_builder *b = fold->builder;
    if (!b || is_stopped(b)) return;
    if (b->at.is_lossy) {
        b->split = "arithmetic after a cast that rounds";
        return;
    }
    if (n != 1 && n != b->channels) {
        refuse(b, ITER_EINVAL, "numbers per channel, but not as many as channels");
        return;
    }
    fold_call *call = record(b, &(fold_call){.verb = ITER__FOLD_AFFINE});
    if (call) {
        call->factors = iter__alloc(2 * (size_t)b->channels, sizeof(*call->factors));
        if (!call->factors) refuse(b, ITER_ENOMEM, "out of memory");
    }
    for (int64_t c = 0; call && call->factors && c < b->channels; c++) {
        call->factors[c] = scale[n == 1 ? 0 : c];
        call->factors[b->channels + c] = bias[n == 1 ? 0 : c];
    }
    b->at.dtype = iter__dtype_arithmetic(b->at.dtype);
    b->at.has_values = true;
}

void iter_fold_cast(iter_fold *fold, iter_dtype dtype) {
    fold_builder *b = fold->builder;
    if (!b || is_stopped(b) || dtype == b->at.dtype) return;
    if (b->at.is_lossy) {
        b->split = "arithmetic after a cast that rounds";
        return;
    }
    /* After arithmetic the value is not yet rounded to f32, so f64 only keeps more of it. */
    b->at.is_lossy = !iter__cast_is_exact(b->at.dtype, dtype);
    b->at.dtype = dtype;
    b->at.has_values = true;
}

void iter_fold_layout(iter_fold *fold, const char *layout) {
    fold_builder *b = fold->builder;
    if (!b || is_stopped(b)) return;
    const bool hwc = strcmp(layout, "HWC") == 0;
    if (!hwc && strcmp(layout, "CHW") != 0) {
        refuse(b, ITER_EINVAL, "unknown layout");
        return;
    }
    if (!is_image(b)) return;
    b->at.is_hwc = hwc;
    snprintf(b->at.layout, sizeof(b->at.layout), "%s", layout);
}
