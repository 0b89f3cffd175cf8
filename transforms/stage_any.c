/*
 * stage_any.c - foldable stages over images of any size.
 *
 * The size is known once the sample is decoded. Then the stage's own fold calls are composed for
 * that one image, and a pass from u8 to u8 runs over it. So each stage is written once, whether it
 * is folded or not. Nothing is allocated: the memory of such a pass is small and lies in the
 * scratch.
 */
#include <string.h>

#include "iter/core/arith.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/pack/pack_run.h"
#include "transforms/stages.h"

/* A pass of one stage over one image. */
typedef struct any_image {
    pack_pass pass;
    fold_fill fill; /* a stage has at most one */
    iter_fold fold;
} any_image;

/* Sets the pass, except its memory. The stage's plan() has accepted `in`. */
static void open_image(any_image *m, const iter_transform_ops *ops, const void *options,
                       const iter_desc *in) {
    fold_builder b;
    iter_error err;
    pack_pass *pass = &m->pass;
    iter__builder_start(&b, NULL, in);
    (void)iter__builder_stage(&b, 0, ops, options, &err);
    iter__pass_open(pass, in, 0);
    pass->in_hwc = pass->out_hwc = pass->channels > 1;
    pass->out_height = b.at.height;
    pass->out_width = b.at.width;
    pass->max_height = b.at.max_height;
    pass->max_width = b.at.max_width;
    pass->has_geometry = pass->has_tables = true;
    pass->kind = ITER__KIND_RAW;
    pass->out_element = pass->in_element;
    m->fill = (fold_fill){.value = b.at.fill, .dtype = ITER_U8};
    pass->fills = &m->fill;
    pass->n_fills = b.at.has_fills;
}

static size_t places_bytes(const pack_pass *pass) {
    return iter__align_up_size((size_t)(pass->max_height + pass->max_width) * sizeof(fold_place),
                               64);
}

static size_t scratch_bytes(const pack_pass *pass) {
    return places_bytes(pass) + iter__align_up_size(iter__pass_line_bytes(pass), 64) +
           iter__align_up_size((size_t)pass->channels, 64);
}

size_t iter__stage_scratch(const iter_desc *in, int64_t more_rows, int64_t more_columns) {
    pack_pass pass;
    if (in->n_dims < 1 || in->dims[0] == ITER_VARIABLE) return 0;
    iter__pass_open(&pass, in, 0);
    pass.max_height = pass.in_height + more_rows;
    pass.max_width = pass.out_width = pass.in_width + more_columns;
    pass.has_tables = true;
    return scratch_bytes(&pass);
}

/* Makes the stage's fold calls for this image. */
static iter_status compose(any_image *m, const iter_transform_ops *ops, const void *options,
                           iter_rng *rng, fold_place *places, iter_error *err) {
    iter__fold_start(&m->fold, &m->pass, places, places ? places + m->pass.max_height : NULL);
    if (!ops->fold_sample) return ops->fold_plan(options, &m->fold, err);
    ops->fold_sample(options, &m->fold, rng);
    return ITER_OK;
}

iter_status iter__stage_start(void *state, const void *options, iter_error *err) {
    stage_state *s = state;
    (void)options, (void)err;
    s->lookup = iter__lookup_get(iter__cpu_level());
    return ITER_OK;
}

iter_status iter__stage_apply(const iter_transform_ops *ops, const void *state, const void *options,
                              const iter_tensor *in, iter_tensor *out, iter_rng *rng, void *scratch,
                              iter_error *err) {
    any_image m;
    uint8_t value;
    open_image(&m, ops, options, &in->desc);
    m.pass.out = out->desc;
    if (ops->base.state_size) m.pass.lookup = ((const stage_state *)state)->lookup;
    char *line = (char *)scratch + places_bytes(&m.pass);
    m.fill.bytes = line + iter__align_up_size(iter__pass_line_bytes(&m.pass), 64);
    iter__element_from_f64(ITER_U8, m.fill.value, &value);
    memset(m.fill.bytes, value, (size_t)m.pass.channels);
    ITER_TRY(compose(&m, ops, options, rng, scratch, err));
    iter__pass_run(&m.pass, &m.fold, in->data, out->data, line, NULL);
    return ITER_OK;
}

void iter__stage_wish(const iter_transform_ops *ops, const void *options, const iter_desc *in,
                      iter_rng *rng, iter_image_wish *out) {
    any_image m;
    iter_desc desc;
    size_t scratch;
    iter_error err;
    *out = (iter_image_wish){.part = {0, 0, in->dims[0], in->dims[1]}};
    if (ops->plan(options, in, &desc, &scratch, &err) < 0) return;
    open_image(&m, ops, options, in);
    if (compose(&m, ops, options, rng, NULL, &err) < 0) return;
    out->part = (iter_rect){m.fold.y.offset, m.fold.x.offset, m.fold.y.n, m.fold.x.n};
}
