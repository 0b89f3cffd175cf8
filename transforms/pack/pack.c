/*
 * pack.c - the fused pass: a run of foldable stages, prepared once, run per sample.
 *
 * create() calls each stage's fold_plan() with a builder that records its calls. If a stage cannot
 * join (such as arithmetic after a cast that rounds), it starts a second pass, which reads the
 * first one's output from scratch. That is rare, and keeps the result exact.
 *
 * Random numbers of stage k are the stream of (seed XOR FNV(name '#' occurrence), epoch, position).
 * The hash is computed here, the XOR per sample.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"
#include "transforms/pack/pack_state.h"

/* ---- Making a pack --------------------------------------------------------------------------- */

static iter_status close_pass(iter__pack *pack, pack_pass *pass, const fold_builder *b, int32_t end,
                              iter_error *err) {
    return iter__pass_close(pass, b, end - pass->first_stage, pack->stages + pass->first_stage,
                            pack->level, err);
}

static iter_status fold_stages(iter__pack *pack, const iter_desc *in, iter_error *err) {
    fold_builder b;
    pack_pass *pass = &pack->passes[0];
    pack->n_passes = 1;
    iter__pass_open(pass, in, 0);
    iter__builder_start(&b, pass, in);
    for (int32_t i = 0; i < pack->n_stages; i++) {
        const iter__stage *stage = pack->stages[i];
        ITER_TRY(iter__builder_stage(&b, i - pass->first_stage, stage->ops, stage->options, err));
        if (!b.split) continue;
        if (i == pass->first_stage || pack->n_passes == PACK_MAX_PASSES)
            return iter__fail(err, ITER_EUNSUPPORTED, "%s: %s, %s", stage->ops->base.name, b.split,
                              i == pass->first_stage ? "within one stage" : "too many times");
        ITER_TRY(close_pass(pack, pass, &b, i, err));
        const iter_desc between = pass->out;
        pass = &pack->passes[pack->n_passes++];
        iter__pass_open(pass, &between, i);
        iter__builder_start(&b, pass, &between);
        i--; /* the same stage again, in the new pass */
    }
    return close_pass(pack, pass, &b, pack->n_stages, err);
}

static size_t lines_of(size_t bytes) {
    return iter__align_up_size(bytes, 64);
}

static size_t plan_scratch(iter__pack *pack) {
    for (int32_t i = 0; i < pack->n_passes; i++) {
        const pack_pass *pass = &pack->passes[i];
        if (pass->has_geometry || pass->table || pass->has_tables)
            pack->line_bytes =
                iter__max_size(pack->line_bytes, lines_of(iter__pass_line_bytes(pass)));
        if (pass->is_random)
            pack->table_bytes = iter__max_size(
                pack->table_bytes,
                lines_of((size_t)(pass->max_height + pass->max_width) * sizeof(fold_place)));
        if (i + 1 < pack->n_passes)
            pack->between_bytes =
                iter__max_size(pack->between_bytes, lines_of(iter_desc_bytes(&pass->out)));
    }
    return pack->line_bytes + pack->table_bytes + 2 * pack->between_bytes +
           lines_of(sizeof(iter_fold));
}

/* ---- The table ------------------------------------------------------------------------------- */

static void pack_destroy(iter__pack *pack) {
    if (!pack) return;
    for (int32_t i = 0; i < pack->n_passes; i++)
        iter__pass_free(&pack->passes[i]);
    iter__free(pack->stages);
    iter__free(pack->keys);
    iter__free(pack);
}

static iter_status pack_create(const iter_desc *in, const iter__stage *const *stages, int32_t n,
                               iter__pack **out, iter_desc *out_desc, size_t *out_scratch,
                               iter_error *err) {
    *out = NULL;
    if (in->n_dims > 0 && in->dims[0] == ITER_VARIABLE)
        return iter__fail(err, ITER_EINVAL, "%s: wants a fixed shape, not a variable length",
                          n > 0 ? stages[0]->ops->base.name : "copy");
    iter__pack *pack = iter__alloc(1, sizeof(*pack));
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

void iter__pack_fold(const iter__pack *pack, const pack_pass *pass, const iter__pack_sample *sample,
                     iter_fold *fold) {
    for (int32_t i = 0; i < pass->n_stages; i++) {
        const int32_t k = pass->first_stage + i;
        const iter__stage *stage = pack->stages[k];
        fold->stage = i;
        if (!stage->ops->fold_sample) {
            iter__fold_replay(fold, i);
            continue;
        }
        iter_rng rng = iter_rng_at(sample->seed ^ pack->keys[k], sample->epoch, sample->position);
        stage->ops->fold_sample(stage->options, fold, &rng);
    }
}

/* Prefetches the first lines of the next source. They arrive while this sample's geometry is drawn
 * and composed, which touches little memory. */
static void fetch_ahead(const pack_pass *pass, const char *next_in) {
    if (!next_in) return;
    const size_t n = iter__pass_early_bytes(pass);
    for (size_t i = 0; i < n; i += 64)
        __builtin_prefetch(next_in + i, 0, 3);
}

/* The geometry for this sample: *own in a random pass, else the pass's fixed one (NULL = none). */
static const iter_fold *compose(const iter__pack *pack, const pack_pass *pass,
                                const iter__pack_sample *sample, void *table, iter_fold *own) {
    if (!pass->is_random) return pass->fixed;
    fold_place *y_table = table;
    iter__fold_start(own, pass, y_table, y_table + pass->max_height);
    iter__pack_fold(pack, pass, sample, own);
    return own;
}

static void pack_run(const iter__pack *pack, const void *in, void *out,
                     const iter__pack_sample *sample, void *scratch, const void *next_in) {
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

static bool pack_rows(const iter__pack *pack, const uint8_t *base, size_t stride,
                      const uint64_t *index, uint32_t n, uint8_t *out) {
    return pack->n_passes == 1 && iter__pass_rows(&pack->passes[0], base, stride, index, n, out);
}

/* The fold that is kept from band to band: the last part of the scratch. */
static iter_fold *kept_fold(const iter__pack *pack, void *scratch) {
    return (iter_fold *)(void *)((char *)scratch + pack->line_bytes + pack->table_bytes +
                                 2 * pack->between_bytes);
}

static bool pack_begin(const iter__pack *pack, const iter__pack_sample *sample, void *scratch) {
    const pack_pass *pass = &pack->passes[0];
    if (pack->n_passes != 1 || !iter__pass_has_bands(pass)) return false;
    const iter_fold *fold =
        compose(pack, pass, sample, (char *)scratch + pack->line_bytes, kept_fold(pack, scratch));
    return !fold ||
           (!fold->is_table && fold->y.n == pass->out_height && fold->x.n == pass->out_width);
}

static void pack_band(const iter__pack *pack, const void *in, void *out, void *scratch,
                      int64_t first, int64_t end) {
    const pack_pass *pass = &pack->passes[0];
    const iter_fold *fold = pass->is_random ? kept_fold(pack, scratch) : pass->fixed;
    iter__pass_band(pass, fold, in, out, scratch, first, end);
}

static bool pack_is_copy(const iter__pack *pack) {
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

static void text_of_stages(const iter__pack *pack, const pack_pass *pass, char *out,
                           size_t capacity) {
    for (int32_t i = 0; i < pass->n_stages; i++)
        append(out, capacity, "%s%s", i ? " + " : "",
               pack->stages[pass->first_stage + i]->ops->base.name);
    if (pass->n_stages) append(out, capacity, ": ");
}

static const char *layout_text(const iter_desc *desc) {
    return desc->layout[0] ? desc->layout : "elements";
}

static void pack_text(const iter__pack *pack, char *out, size_t capacity) {
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
        if (pass->table || pass->has_tables)
            append(out, capacity, "%stable of bytes, ", pass->table ? "" : "per-sample ");
        if (pass->has_affine)
            append(out, capacity, "a*x+b%s, ", pass->same_factor ? "" : " per channel");
        append(out, capacity, "%s to %s, %s to %s (%s)", iter_dtype_text(pass->in.dtype),
               iter_dtype_text(pass->out.dtype), layout_text(&pass->in), layout_text(&pass->out),
               pass->kernels || pass->widen ? iter__cpu_text(pack->level) : "scalar");
    }
}

const iter__pack_ops iter__packer = {
    .create = pack_create,
    .destroy = pack_destroy,
    .run = pack_run,
    .rows = pack_rows,
    .begin = pack_begin,
    .band = pack_band,
    .is_copy = pack_is_copy,
    .program = iter__pack_program_make,
    .row = iter__pack_row_make,
    .view = iter__pack_view,
    .text = pack_text,
};
