/*
 * plan.c - from dataset description, chain and batch size to steps, shapes and bytes. Errors name
 * the stage.
 *
 * Neighbouring foldable stages of a field become one pack. A sample stage works on one field, so
 * the chain is read once per field. Outputs are the data fields, then the labels, both in the
 * dataset's order, then the fields of lengths.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/plan/plan.h"
#include "iter/spec/suggest.h"

#define SLOT_MAX ((size_t)1 << 48) /* all slots together still fit 64 bits */
#define ALIGN(n) iter__align_up_size(n, 64)

/* The dataset field that a stage works on, or -1. */
static int32_t stage_field(const iter_description *desc, const iter__stage *stage) {
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const bool named = stage->field[0] != 0;
        if (named ? strcmp(desc->fields[f].name, stage->field) == 0
                  : (int32_t)desc->fields[f].role == stage->ops->role) {
            return f;
        }
    }
    return -1;
}

static bool is_batch_stage(const iter__stage *stage) {
    return stage->ops->apply_batch != NULL || stage->ops->adds_lengths;
}

static iter__row_from row_from(const iter_dataset *dataset, const iter__resident *resident,
                               int32_t f) {
    const iter_field *field = &dataset->desc.fields[f];
    if (resident[f].base || (!dataset->format && !dataset->ops)) return ITER_ROW_RESIDENT;
    if (dataset->ops || dataset->format->get) return ITER_ROW_GET;
    if (field->extent == ITER_FROM_INDEX) return ITER_ROW_INDEX;
    return field->decoder ? ITER_ROW_DECODE : ITER_ROW_BYTES;
}

/* ---- Sample stages --------------------------------------------------------------------------- */

/* Adds the stage's column to its error, if the chain was text. */
static iter_status in_chain(iter_status status, const iter__stage *stage, iter_error *err) {
    if (status >= 0 || status == ITER_ENOMEM || !stage->column) return status;
    return iter__fail_in(err, status, "chain: column %d", stage->column);
}

static iter_status add_pack(iter__plan *plan, iter__field_plan *field,
                            const iter__stage *const *stages, int32_t n, iter_error *err) {
    if (field->row.n_dims > 0 && field->row.dims[0] == ITER_VARIABLE) {
        const iter_status status = iter__fail(
            err, ITER_EINVAL, "%s: field '%s' has rows of different lengths; make them equal first",
            n ? stages[0]->ops->base.name : "copy", field->out.name);
        return n ? in_chain(status, stages[0], err) : status;
    }
    iter_desc in = field->row, out;
    bool is_random = false;
    for (int32_t i = 0; i < n; i++, in = out) { /* a stage that refuses says why */
        size_t scratch;
        is_random |= stages[i]->ops->fold_sample != NULL;
        const iter_transform_ops *ops = stages[i]->ops;
        iter_status status = ops->plan(stages[i]->options, &in, &out, &scratch, err);
        if (status < 0) {
            status = iter__fail_in(err, status, "%s (field '%s')", ops->base.name, field->out.name);
            return in_chain(status, stages[i], err);
        }
    }
    iter__step *step = &field->steps[field->n_steps];
    *step = (iter__step){.stage = n ? stages[0] : NULL, .in = field->row, .is_random = is_random};
    ITER_TRY(iter__packer.create(&step->in, stages, n, &step->pack, &step->out,
                                 &step->scratch_bytes, err));
    field->n_steps++;
    field->row = step->out;
    if (step->scratch_bytes > plan->scratch_bytes) plan->scratch_bytes = step->scratch_bytes;
    return ITER_OK;
}

static bool is_image(const iter_desc *desc) {
    return strcmp(desc->layout, "HWC") == 0 || strcmp(desc->layout, "CHW") == 0 ||
           strcmp(desc->layout, "HW") == 0;
}

#define ADVICE "random-resized-crop, resize or center-crop"

/* A step that is planned again for each sample, because sizes differ or the stage chooses a
 * part. */
static iter_status check_sized(const iter__field_plan *field, const iter__stage *stage,
                               iter_error *err) {
    const iter_transform_ops *ops = stage->ops;
    const bool is_hwc = field->row.n_dims == 3 && strcmp(field->row.layout, "HWC") == 0;
    if (!ops->apply)
        return iter__fail(err, ITER_EINVAL,
                          "%s: field '%s' has images of any size; put " ADVICE " before it",
                          ops->base.name, field->out.name);
    char shape[128];
    if (is_hwc) return ITER_OK;
    return iter__fail(
        err, ITER_EINVAL, "%s (field '%s'): wants images in HWC, but got %s; put to:%s before it",
        ops->base.name, field->out.name, iter_desc_text(&field->row, shape, sizeof(shape)),
        field->row.dtype == ITER_U8 ? "layout=hwc" : "u8,hwc");
}

/* Finds the images that a stage follows. */
static iter_status find_followed(const iter__plan *plan, iter__field_plan *field,
                                 const iter__stage *stage, iter_error *err) {
    int32_t f = 0;
    while (f < plan->n_fields && (&plan->fields[f] == field || !is_image(&plan->fields[f].source)))
        f++;
    if (f == plan->n_fields)
        return iter__fail(err, ITER_EINVAL, "%s: there is no field of images to follow",
                          stage->ops->base.name);
    const iter__field_plan *images = &plan->fields[f];
    if (images->any_size && images->from != ITER_ROW_DECODE)
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: the sizes of '%s' are not known beforehand",
                          stage->ops->base.name, images->out.name);
    for (int32_t i = 0; i < images->n_steps; i++) {
        const iter__step *step = &images->steps[i];
        if (step->pack || step->stage->ops->wish || step->stage->ops->fold_plan) continue;
        if (memcmp(step->in.dims, step->out.dims, sizeof(step->in.dims)) != 0)
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "%s: cannot follow '%s' through %s, which changes shape but has "
                              "neither wish() nor fold_plan()",
                              stage->ops->base.name, images->out.name, step->stage->ops->base.name);
    }
    field->follows = f;
    return ITER_OK;
}

static iter_status add_apply(iter__plan *plan, iter__field_plan *field, const iter__stage *stage,
                             iter_error *err) {
    iter__step *step = &field->steps[field->n_steps];
    *step = (iter__step){.stage = stage, .in = field->row};
    step->sized = iter__is_any_size(&field->row) || stage->ops->wish;
    if (stage->ops->follow) ITER_TRY(find_followed(plan, field, stage, err));
    if (step->sized) ITER_TRY(check_sized(field, stage, err));
    step->key = iter_rng_key(0, stage->ops->base.name, stage->occurrence);
    const iter_status status =
        stage->ops->plan(stage->options, &step->in, &step->out, &step->scratch_bytes, err);
    if (status < 0)
        return iter__fail_in(err, status, "%s (field '%s')", stage->ops->base.name,
                             field->out.name);
    step->state = plan->n_states++;
    field->n_steps++;
    field->row = step->out;
    if (step->scratch_bytes > plan->scratch_bytes && !step->sized)
        plan->scratch_bytes = step->scratch_bytes;
    return ITER_OK;
}

/* After the steps all images must have one size. */
static iter_status check_size(iter__plan *plan, const iter__field_plan *field, iter_error *err) {
    int32_t n_sized = 0;
    for (int32_t i = 0; i < field->n_steps; i++)
        n_sized += field->steps[i].sized;
    if (n_sized) plan->n_growing = n_sized > 1 || plan->n_growing == 3 ? 3 : 2;
    if (!iter__is_any_size(&field->row)) return ITER_OK;
    if (field->n_steps == 0)
        return iter__fail(
            err, ITER_EINVAL,
            "field '%s' has images of any size: a chain must give them one size; begin it "
            "with " ADVICE,
            field->out.name);
    const iter__stage *last = field->steps[field->n_steps - 1].stage;
    const iter_status status = iter__fail(
        err, ITER_EINVAL, "%s: field '%s' still has images of any size after it; add " ADVICE,
        last->ops->base.name, field->out.name);
    return in_chain(status, last, err);
}

static iter_status plan_sample_stages(iter__plan *plan, iter__field_plan *field,
                                      const iter__stage **stages, int32_t n, iter_error *err) {
    field->steps = iter__alloc((size_t)n + 1, sizeof(*field->steps));
    if (!field->steps) return iter__fail(err, ITER_ENOMEM, "plan: out of memory");
    field->row = field->source;
    for (int32_t i = 0; i < n;) {
        int32_t run = 0;
        while (i + run < n && stages[i + run]->ops->fold_plan && !iter__is_any_size(&field->row))
            run++;
        if (run) {
            ITER_TRY(add_pack(plan, field, stages + i, run, err));
            i += run;
        } else {
            ITER_TRY(in_chain(add_apply(plan, field, stages[i], err), stages[i], err));
            i++;
        }
    }
    const bool by_copy = field->from == ITER_ROW_RESIDENT || field->from == ITER_ROW_BYTES;
    if (n == 0 && by_copy) ITER_TRY(add_pack(plan, field, NULL, 0, err));
    ITER_TRY(check_size(plan, field, err));
    field->copies =
        field->n_steps == 1 && field->steps[0].pack && iter__packer.is_copy(field->steps[0].pack);
    for (int32_t i = 0; i + 1 < field->n_steps; i++) {
        const size_t bytes = iter_desc_bytes(&field->steps[i].out);
        if (bytes > plan->step_bytes) plan->step_bytes = bytes;
    }
    if (field->n_steps && (field->from == ITER_ROW_DECODE || field->from == ITER_ROW_INDEX)) {
        const size_t bytes = iter_desc_bytes(&field->source);
        if (bytes > plan->step_bytes) plan->step_bytes = bytes;
    }
    if (field->n_steps && field->from == ITER_ROW_GET)
        plan->stage_row_bytes += ALIGN(iter_desc_bytes(&field->source));
    return ITER_OK;
}

/* ---- Batch stages ---------------------------------------------------------------------------- */

static iter_desc batch_of(const iter_desc *row, uint32_t batch_size) {
    iter_desc desc = *row;
    memmove(desc.dims + 1, desc.dims, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
    desc.dims[0] = batch_size;
    desc.n_dims++;
    if (row->layout[0] || row->n_dims == 0)
        snprintf(desc.layout, sizeof(desc.layout), "N%.14s", row->layout);
    return desc;
}

static iter_status plan_batch_stages(iter__plan *plan, iter__field_plan *field,
                                     const iter__stage **stages, int32_t n, iter_error *err) {
    field->batch_steps = iter__alloc((size_t)n + 1, sizeof(*field->batch_steps));
    if (!field->batch_steps) return iter__fail(err, ITER_ENOMEM, "plan: out of memory");
    if (field->variable && n && !stages[0]->ops->fills_rows) {
        const iter_status status =
            iter__fail(err, ITER_EINVAL,
                       "%s: rows of field '%s' have different lengths; pad-batch comes first",
                       stages[0]->ops->base.name, field->out.name);
        return in_chain(status, stages[0], err);
    }
    for (int32_t i = 0; i < n; i++) {
        iter__batch_step *step = &field->batch_steps[field->n_batch_steps];
        step->stage = stages[i];
        iter_status status = stages[i]->ops->plan_batch(stages[i]->options, &field->out.desc,
                                                        &step->scratch_bytes, err);
        if (status < 0) {
            status = iter__fail_in(err, status, "%s (field '%s')", stages[i]->ops->base.name,
                                   field->out.name);
            return in_chain(status, stages[i], err);
        }
        if (step->scratch_bytes > plan->batch_scratch_bytes)
            plan->batch_scratch_bytes = step->scratch_bytes;
        field->n_batch_steps++;
    }
    return ITER_OK;
}

static iter_status add_lengths(iter__plan *plan, int32_t of, const iter__stage *stage,
                               uint32_t batch_size, iter_error *err) {
    const iter__field_plan *source = &plan->fields[of];
    if (plan->n_fields == ITER_MAX_OUT)
        return iter__fail(err, ITER_EINVAL, "lengths: too many fields");
    if (!source->variable) {
        return iter__fail(err, ITER_EINVAL, "lengths: all rows of field '%s' have the same length",
                          source->out.name);
    }
    iter__field_plan *field = &plan->fields[plan->n_fields];
    *field = (iter__field_plan){.in = source->in, .follows = -1, .lengths_of = of};
    char name[ITER_NAME_MAX];
    const char *given = *(const char *const *)stage->options;
    const int length = snprintf(name, sizeof(name), given ? "%s" : "%.24s_length",
                                given ? given : source->out.name);
    if (length >= (int)sizeof(name)) {
        return iter__fail(err, ITER_EINVAL, "lengths: the name '%s' is longer than %d characters",
                          given, ITER_NAME_MAX - 1);
    }
    for (int32_t i = 0; i < plan->n_fields; i++) {
        if (strcmp(plan->fields[i].out.name, name) == 0) {
            return iter__fail(err, ITER_EINVAL, "lengths: there is a field '%s' already", name);
        }
    }
    memcpy(field->out.name, name, sizeof(name));
    field->out.role = ITER_LABEL;
    field->out.desc =
        (iter_desc){.dtype = ITER_I32, .n_dims = 1, .dims = {batch_size}, .layout = "N"};
    plan->n_fields++;
    return ITER_OK;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static iter_status plan_field(iter__plan *plan, const iter_dataset *dataset,
                              const iter_chain *chain, int32_t f, uint32_t batch_size,
                              bool has_collate, iter_error *err) {
    iter__field_plan *field = &plan->fields[plan->n_fields++];
    *field = (iter__field_plan){
        .in = f, .lengths_of = -1, .follows = -1, .from = row_from(dataset, plan->resident, f)};
    field->source = dataset->desc.fields[f].desc;
    field->any_size = iter__is_any_size(&field->source);
    field->out.role = dataset->desc.fields[f].role;
    snprintf(field->out.name, ITER_NAME_MAX, "%s", dataset->desc.fields[f].name);

    const int32_t n_stages = iter__chain_n_stages(chain);
    const iter__stage **stages = iter__alloc((size_t)n_stages + 1, sizeof(*stages));
    const iter__stage **batch_stages = iter__alloc((size_t)n_stages + 1, sizeof(*batch_stages));
    iter_status status =
        stages && batch_stages ? ITER_OK : iter__fail(err, ITER_ENOMEM, "plan: out of memory");
    int32_t n = 0, n_batch = 0;
    for (int32_t i = 0; i < n_stages && status == ITER_OK; i++) {
        const iter__stage *stage = iter__chain_stage(chain, i);
        if (stage_field(&dataset->desc, stage) != f) continue;
        if (!is_batch_stage(stage)) {
            if (n_batch) {
                status =
                    iter__fail(err, ITER_EINVAL,
                               "%s: works on samples, so it must come before the batch stage %s",
                               stage->ops->base.name, batch_stages[n_batch - 1]->ops->base.name);
                status = in_chain(status, stage, err);
            }
            stages[n++] = stage;
        } else if (!stage->ops->adds_lengths) {
            batch_stages[n_batch++] = stage;
        }
    }
    if (status == ITER_OK) status = plan_sample_stages(plan, field, stages, n, err);
    if (status == ITER_OK) {
        field->variable = field->row.n_dims > 0 && field->row.dims[0] == ITER_VARIABLE;
        field->row_bytes = field->made_bytes = iter_desc_bytes(&field->row);
        field->n_made = field->n_steps;
        field->out.desc = batch_of(&field->row, batch_size);
        status = plan_batch_stages(plan, field, batch_stages, n_batch, err);
    }
    if (status == ITER_OK && field->variable && n_batch == 0 && !has_collate) {
        status =
            iter__fail(err, ITER_EINVAL,
                       "field '%s' has rows of different lengths: end the chain with a batch stage "
                       "(pad-batch), or give a collate",
                       field->out.name);
    }
    field->stages = stages;
    field->n_stages = n;
    iter__free(batch_stages);
    return status;
}

/* Places in the slot what workers write of a field. Returns where the next field begins. */
static size_t lay_out_field(iter__field_plan *field, uint32_t batch_size, size_t at) {
    field->slot_offset = field->device_offset = at;
    if (field->way != ITER_WAY_HOST) {
        field->slot_bytes = field->row_bytes * batch_size;
        if (field->made_bytes) at += ALIGN(field->made_bytes * batch_size + 64);
        field->rows_offset = at;
        return field->owns_rows ? at + ALIGN(sizeof(iter__pack_row) * batch_size) : at;
    }
    const size_t rows =
        field->lengths_of >= 0 ? 4 * (size_t)batch_size : field->row_bytes * batch_size;
    /* batch stages may pad to more than the rows */
    const size_t staged = iter_desc_bytes(&field->out.desc);
    field->slot_bytes = rows > staged ? rows : staged;
    at += ALIGN(field->slot_bytes + 64); /* kernels may load, never store, past a row */
    if (field->variable) {
        field->lengths_offset = at;
        at += ALIGN(4 * (size_t)batch_size);
    }
    return at;
}

/* Lays out the twin: a copy of the slot, followed by the rows that kernels make. */
static void lay_out_twin(iter__plan *plan) {
    const iter__field_plan *shared = NULL; /* the field that owns the rows of SET and GATHER */
    size_t at = plan->slot_bytes;
    for (int32_t i = 0; i < plan->n_fields; i++) {
        iter__field_plan *field = &plan->fields[i];
        if (field->way == ITER_WAY_HOST) continue;
        if (!shared && field->owns_rows && field->way != ITER_WAY_FINISH) shared = field;
        field->device_offset = at;
        at += iter__align_up_size(field->slot_bytes + 64, 256);
    }
    plan->device_slot_bytes = iter__align_up_size(at, 4096);
    for (int32_t i = 0; i < plan->n_fields; i++) {
        iter__field_plan *field = &plan->fields[i];
        if (field->way != ITER_WAY_HOST && !field->owns_rows)
            field->rows_offset = shared->rows_offset;
    }
}

static iter_status lay_out_slot(iter__plan *plan, uint32_t batch_size, iter_error *err) {
    size_t at = 0;
    for (int32_t i = 0; i < plan->n_fields; i++) {
        iter__field_plan *field = &plan->fields[i];
        if (field->lengths_of < 0 && field->row_bytes > SLOT_MAX / batch_size - at / batch_size) {
            return iter__fail(err, ITER_EINVAL,
                              "plan: %u rows of %zu bytes (field '%s') are too large", batch_size,
                              field->row_bytes, field->out.name);
        }
        at = lay_out_field(field, batch_size, at);
    }
    plan->slot_bytes = iter__align_up_size(at, 4096);
    lay_out_twin(plan);
    return ITER_OK;
}

/* ---- The plan as text ------------------------------------------------------------------------ */

static const char *const from_text[] = {"array", "index", "bytes", "bytes", "get", "resident"};

static char *append(char *text, const char *more) {
    char *joined = text && more ? iter__strf("%s%s", text, more) : NULL;
    iter__free(text);
    return joined;
}

/* Where rows are finished, or why a request to finish them on the device was not met. */
static void append_way(const iter__field_plan *field, char *line, size_t capacity) {
    line[0] = '\0';
    switch (field->way) {
    case ITER_WAY_HOST:
        if (field->why[0]) snprintf(line, capacity, "  finished by workers: %s\n", field->why);
        break;
    case ITER_WAY_FINISH:
        snprintf(line, capacity, "  to the device: %zu + %zu bytes a row, finished there\n",
                 field->made_bytes, sizeof(iter__pack_row));
        break;
    case ITER_WAY_SET:
    case ITER_WAY_GATHER:
        snprintf(line, capacity, "  on the device: all rows, %s%s\n",
                 field->way == ITER_WAY_SET ? "as they come" : "finished",
                 field->owns_rows ? "; a batch copies which of them it has" : "");
        break;
    }
}

static char *append_field(char *text, const iter__plan *plan, const iter__field_plan *field,
                          const iter_description *desc) {
    char shape[128], line[640], pack[256];
    if (field->lengths_of >= 0) {
        snprintf(line, sizeof(line), "%s: lengths of %s -> %s\n", field->out.name,
                 plan->fields[field->lengths_of].out.name,
                 iter_desc_text(&field->out.desc, shape, sizeof(shape)));
        return append(text, line);
    }
    snprintf(line, sizeof(line), "%s: %s %s\n", field->out.name, from_text[field->from],
             iter_desc_text(&field->source, shape, sizeof(shape)));
    text = append(text, line);
    if (field->from == ITER_ROW_DECODE) {
        snprintf(line, sizeof(line), "  decode   %s\n", desc->fields[field->in].decoder->base.name);
        text = append(text, line);
    }
    for (int32_t i = 0; i < field->n_steps; i++) {
        const iter__step *step = &field->steps[i];
        iter_desc_text(&step->out, shape, sizeof(shape));
        if (step->pack) {
            iter__packer.text(step->pack, pack, sizeof(pack));
            snprintf(line, sizeof(line), "  pack     %s -> %s%s\n", pack, shape,
                     i >= field->n_made && field->way != ITER_WAY_GATHER ? ", on the device" : "");
        } else {
            const bool wishes = i == 0 && field->any_size && step->stage->ops->wish;
            snprintf(line, sizeof(line), "  %-8s -> %s%s\n", step->stage->ops->base.name, shape,
                     wishes ? "; only its part is decoded" : "");
        }
        text = append(text, line);
    }
    for (int32_t i = 0; i < field->n_batch_steps; i++) {
        snprintf(line, sizeof(line), "  batch    %s\n",
                 field->batch_steps[i].stage->ops->base.name);
        text = append(text, line);
    }
    append_way(field, line, sizeof(line));
    text = append(text, line);
    snprintf(line, sizeof(line), "  -> batch %s, %zu bytes\n",
             iter_desc_text(&field->out.desc, shape, sizeof(shape)), field->slot_bytes);
    return append(text, line);
}

static iter_status write_text(iter__plan *plan, const iter_description *desc, iter_error *err) {
    char *text = iter__strdup("");
    iter__free(plan->text);
    plan->text = NULL;
    for (int32_t i = 0; i < plan->n_fields; i++)
        text = append_field(text, plan, &plan->fields[i], desc);
    char *tail = iter__strf("slot %zu bytes\n", plan->slot_bytes);
    text = append(text, tail);
    iter__free(tail);
    plan->text = text;
    return text ? ITER_OK : iter__fail(err, ITER_ENOMEM, "plan: out of memory");
}

iter_status iter__plan_note(iter__plan *plan, const char *line, iter_error *err) {
    plan->text = append(plan->text, line);
    return plan->text ? ITER_OK : iter__fail(err, ITER_ENOMEM, "plan: out of memory");
}

/* ---- Entry ----------------------------------------------------------------------------------- */

/* "the dataset has no field 'lable'; it has data, label; did you mean 'label'?" */
static iter_status fail_field(const iter_description *desc, const iter__stage *stage,
                              iter_error *err) {
    char known[ITER_MAX_FIELDS * (ITER_NAME_MAX + 2)], hint[ITER_HINT_MAX];
    iter__suggestion suggestion = {stage->field, NULL, 0, NULL};
    size_t n = 0;
    for (int32_t f = 0; f < desc->n_fields; f++) {
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", f ? ", " : "",
                              desc->fields[f].name);
        iter__suggestion_offer(&suggestion, desc->fields[f].name);
    }
    return iter__fail(err, ITER_EINVAL, "%s: the dataset has no field '%s'; it has %s%s",
                      stage->ops->base.name, stage->field, n ? known : "none",
                      iter__suggestion_text(&suggestion, hint));
}

static iter_status check_stages(const iter_description *desc, const iter_chain *chain,
                                iter_error *err) {
    for (int32_t i = 0; i < iter__chain_n_stages(chain); i++) {
        const iter__stage *stage = iter__chain_stage(chain, i);
        if (stage_field(desc, stage) >= 0) continue;
        const char *role = stage->ops->role == ITER_LABEL ? "label" : "data";
        const iter_status status =
            stage->field[0] ? fail_field(desc, stage, err)
                            : iter__fail(err, ITER_EINVAL, "%s: the dataset has no %s field",
                                         stage->ops->base.name, role);
        return in_chain(status, stage, err);
    }
    return ITER_OK;
}

static iter_status make_fields(iter__plan *plan, const iter_dataset *dataset,
                               const iter_chain *chain, uint32_t batch_size, bool has_collate,
                               iter_error *err) {
    const iter_description *desc = &dataset->desc;
    for (int32_t role = ITER_DATA; role <= ITER_LABEL; role++) {
        for (int32_t f = 0; f < desc->n_fields; f++) {
            if ((int32_t)desc->fields[f].role != role) continue;
            ITER_TRY(plan_field(plan, dataset, chain, f, batch_size, has_collate, err));
        }
    }
    const int32_t n_sampled = plan->n_fields;
    for (int32_t i = 0; i < iter__chain_n_stages(chain); i++) {
        const iter__stage *stage = iter__chain_stage(chain, i);
        for (int32_t o = 0; o < n_sampled && stage->ops->adds_lengths; o++) {
            if (plan->fields[o].in == stage_field(desc, stage))
                ITER_TRY(in_chain(add_lengths(plan, o, stage, batch_size, err), stage, err));
        }
    }
    return ITER_OK;
}

iter_status iter__plan_create(iter__plan *plan, const iter_dataset *dataset,
                              const iter__resident *resident, const iter_chain *chain,
                              uint32_t batch_size, bool has_collate, iter_error *err) {
    memset(plan, 0, sizeof(*plan));
    plan->resident = resident;
    ITER_TRY(check_stages(&dataset->desc, chain, err));
    iter_status status = make_fields(plan, dataset, chain, batch_size, has_collate, err);
    if (status == ITER_OK) status = iter__plan_place(plan, dataset, batch_size, err);
    if (status < 0) iter__plan_free(plan);
    return status;
}

iter_status iter__plan_place(iter__plan *plan, const iter_dataset *dataset, uint32_t batch_size,
                             iter_error *err) {
    plan->needs_get = plan->needs_bytes = plan->has_ways = plan->has_set = false;
    for (int32_t i = 0; i < plan->n_fields; i++) {
        const iter__field_plan *field = &plan->fields[i];
        if (field->lengths_of >= 0) continue;
        plan->needs_get |= field->from == ITER_ROW_GET;
        plan->needs_bytes |= field->from == ITER_ROW_BYTES || field->from == ITER_ROW_DECODE;
        plan->has_ways |= field->way != ITER_WAY_HOST;
        plan->has_set |= field->from == ITER_ROW_SET;
        if (field->from != ITER_ROW_BYTES) continue;
        const iter_field *in = &dataset->desc.fields[field->in];
        const size_t end = in->offset + iter_desc_bytes(&field->source);
        if (end > plan->least_extent[in->extent]) plan->least_extent[in->extent] = end;
    }
    ITER_TRY(lay_out_slot(plan, batch_size, err));
    return write_text(plan, &dataset->desc, err);
}

void iter__plan_free(iter__plan *plan) {
    for (int32_t i = 0; i < plan->n_fields; i++) {
        iter__field_plan *field = &plan->fields[i];
        for (int32_t s = 0; s < field->n_steps; s++) {
            if (field->steps[s].pack) iter__packer.destroy(field->steps[s].pack);
        }
        iter__free(field->steps);
        iter__free(field->stages);
        iter__free(field->batch_steps);
    }
    iter__free(plan->text);
    memset(plan, 0, sizeof(*plan));
}
