/*
 * device_rows.c - rows that a kernel finishes: which fields, what workers leave for it, and the
 * launch.
 *
 *     FINISH   slot: [input of the pack][kernel rows] --copy--> twin --pack--> rows
 *     SET      slot: [kernel rows]                    --copy--> twin, set --pack--> rows
 *     GATHER   slot: [kernel rows], or another field's --copy--> twin, set --gather--> rows
 *
 * A kernel row holds where a row comes from, and its geometry, drawn by the same code and the same
 * random numbers as on the host. The twin of a slot has the slot's bytes at the same offsets, and
 * after them the rows that kernels make.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define MIB (1024.0 * 1024.0)

/* ---- What a kernel can do -------------------------------------------------------------------- */

static bool is_made(const iter__field_plan *field) {
    return field->lengths_of < 0;
}

/* Why no kernel can finish the field's rows; NULL = one can. */
static const char *obstacle(const iter_loader *loader, const iter__field_plan *field) {
    if (loader->opt.collate) return "batches are collated on the host";
    if (field->n_batch_steps) return "batch stages run on the host";
    if (field->variable || !is_made(field)) return "rows have different lengths";
    return NULL;
}

/* Whether the last step is a pack that a kernel can do. */
static bool ends_in_program(const iter_loader *loader, iter__field_plan *field) {
    const char *why = obstacle(loader, field);
    const iter__step *last = field->n_steps ? &field->steps[field->n_steps - 1] : NULL;
    if (!why && (!last || !last->pack)) why = "no kernel does the last step";
    if (why) {
        snprintf(field->why, sizeof(field->why), "%s", why);
        return false;
    }
    return iter__packer.program(last->pack, &field->program, field->why, sizeof(field->why));
}

/* Whether a kernel could save bytes. One that only copies rows saves none. */
static bool has_finish(const iter__field_plan *field) {
    return is_made(field) && field->out.role == ITER_DATA && field->n_steps > 0 && !field->copies;
}

static void choose_finish(iter_loader *loader, iter__field_plan *field) {
    if (!ends_in_program(loader, field)) return;
    const iter__step *last = &field->steps[field->n_steps - 1];
    const size_t bytes = iter_desc_bytes(&last->in);
    const bool pays =
        2 * bytes <= field->row_bytes && bytes + sizeof(iter__pack_row) < field->row_bytes;
    if (loader->opt.memory.finish == ITER_FINISH_AUTO && !pays) {
        snprintf(field->why, sizeof(field->why),
                 "%zu bytes a row would be copied instead of %zu: less than half is saved", bytes,
                 field->row_bytes);
        return;
    }
    field->way = ITER_WAY_FINISH;
    field->n_made = field->n_steps - 1;
    field->made_bytes = bytes;
    field->owns_rows = true;
}

static iter_status choose_finishes(iter_loader *loader, iter_error *err) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        iter__field_plan *field = &loader->plan.fields[f];
        if (!has_finish(field) || field->way != ITER_WAY_HOST) continue;
        if (loader->opt.memory.finish == ITER_FINISH_HOST || loader->device.no_kernels) continue;
        choose_finish(loader, field);
        if (field->way == ITER_WAY_HOST && loader->opt.memory.finish == ITER_FINISH_DEVICE)
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "finish: field '%s' cannot be finished on the device: %s",
                              field->out.name, field->why);
    }
    return ITER_OK;
}

/* ---- Resident sets --------------------------------------------------------------------------- */

/* Why the dataset cannot be resident; NULL = it can. */
static const char *set_obstacle(const iter_loader *loader) {
    const iter_dataset *dataset = loader->dataset;
    if (loader->sampling.order->is_stream) return "the number of samples is not known";
    if (dataset->ops) return "rows come from the program's get(), which may return others later";
    if (dataset->format && dataset->format->get && !iter__description_keeps(&dataset->desc))
        return "the format makes rows anew each time";
    return NULL;
}

/* The way of one field of a set; HOST = there is none, and field->why says why. Raw images take the
 * fewest bytes on the device; rows that are finished once, before the upload, need the fewest steps
 * later. */
static iter__way set_way(const iter_loader *loader, iter__field_plan *field) {
    const char *why = obstacle(loader, field);
    if (!why && field->n_steps > 1) why = "there are steps before the last one";
    if (!why && field->n_steps == 1 && !field->steps[0].pack) why = "no kernel does its step";
    if (why) {
        snprintf(field->why, sizeof(field->why), "%s", why);
        return ITER_WAY_HOST;
    }
    if (field->n_steps == 0 || field->copies) return ITER_WAY_GATHER;
    const bool is_fixed = !field->steps[0].is_random;
    const bool shrinks = iter_desc_bytes(&field->source) < field->row_bytes;
    if (is_fixed && (field->out.role != ITER_DATA || !shrinks)) return ITER_WAY_GATHER;
    if (ends_in_program(loader, field)) return ITER_WAY_SET;
    return is_fixed ? ITER_WAY_GATHER : ITER_WAY_HOST;
}

static void take_set(iter_loader *loader, const iter__way *ways) {
    iter__field_plan *first = NULL; /* fields that gather share its kernel rows */
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t f = 0; f < loader->plan.n_fields; f++) {
            iter__field_plan *field = &loader->plan.fields[f];
            if ((ways[f] == ITER_WAY_SET) != (pass == 0)) continue;
            field->way = ways[f];
            field->from = ITER_ROW_SET;
            field->n_made = 0;
            field->made_bytes = 0;
            field->owns_rows = ways[f] == ITER_WAY_SET || !first;
            field->why[0] = '\0';
            if (!first) first = field;
        }
    }
}

/* Bytes on the device, saturating. */
static uint64_t set_bytes(const iter_loader *loader, const iter__way *ways) {
    uint64_t sum = 0;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        const uint64_t row =
            ways[f] == ITER_WAY_SET ? iter_desc_bytes(&field->source) : field->row_bytes;
        uint64_t bytes;
        if (__builtin_mul_overflow(row, loader->dataset->desc.n_samples + 1, &bytes) ||
            __builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

static iter_status check_room(iter_loader *loader, uint64_t bytes, iter_error *err) {
    size_t room;
    ITER_TRY(iter__device_room(loader->device.handle, &room, err));
    if (loader->opt.memory.resident != ITER_RESIDENT_AUTO || bytes <= room / 2) return ITER_OK;
    return iter__fail(err, ITER_ENOMEM,
                      "the set needs %.1f MiB, more than half of the %.1f MiB free on the device",
                      (double)bytes / MIB, (double)room / MIB);
}

static iter_status choose_set(iter_loader *loader, iter_error *err) {
    iter__way ways[ITER_MAX_OUT];
    const char *why = set_obstacle(loader);
    if (why) return iter__fail(err, ITER_EUNSUPPORTED, "%s", why);
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        iter__field_plan *field = &loader->plan.fields[f];
        ways[f] = set_way(loader, field);
        if (ways[f] == ITER_WAY_HOST)
            return iter__fail(err, ITER_EUNSUPPORTED, "field '%s': %s", field->out.name,
                              field->why);
    }
    ITER_TRY(check_room(loader, set_bytes(loader, ways), err));
    take_set(loader, ways);
    return ITER_OK;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static iter_status try_set(iter_loader *loader, iter_error *err) {
    iter_error why = {.status = ITER_OK};
    char text[160];
    if (loader->opt.memory.resident == ITER_RESIDENT_NO || loader->device.set.is_off)
        return ITER_OK;
    const iter_status status = choose_set(loader, &why);
    if (status == ITER_OK) return ITER_OK;
    for (int32_t f = 0; f < loader->plan.n_fields; f++)
        loader->plan.fields[f].why[0] = '\0';
    if (loader->opt.memory.resident == ITER_RESIDENT_YES) {
        if (err) *err = why;
        return iter__fail_in(err, status, "resident");
    }
    snprintf(text, sizeof(text), "resident: %.120s; batches are copied", why.message);
    iter__fallback(loader, text);
    loader->device.set.is_off = true;
    return ITER_OK;
}

static bool has_ways(const iter__plan *plan) {
    for (int32_t f = 0; f < plan->n_fields; f++) {
        if (plan->fields[f].way != ITER_WAY_HOST) return true;
    }
    return false;
}

/* No option demands kernels, so rows are finished on the host. */
static iter_status do_without_kernels(iter_loader *loader, const iter_error *why, iter_error *err) {
    char text[160];
    snprintf(text, sizeof(text), "kernels: %.110s; rows are finished on the host", why->message);
    iter__fallback(loader, text);
    loader->device.no_kernels = loader->device.set.is_off = true;
    iter__plan_free(&loader->plan);
    return iter__plan_create(&loader->plan, loader->dataset, loader->loaded.resident, loader->chain,
                             loader->opt.batch_size, loader->opt.collate != NULL, err);
}

iter_status iter__device_rows_plan(iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    if (loader->device.no_kernels) return ITER_OK;
    ITER_TRY(try_set(loader, err));
    ITER_TRY(choose_finishes(loader, err));
    if (has_ways(&loader->plan)) {
        iter_error why = {.status = ITER_OK};
        const iter_status status = iter__device_load(loader->device.handle, &why);
        if (status < 0 && opt->memory.finish != ITER_FINISH_DEVICE &&
            opt->memory.resident != ITER_RESIDENT_YES)
            return do_without_kernels(loader, &why, err);
        if (status < 0) {
            if (err) *err = why;
            return status;
        }
    }
    return iter__plan_place(&loader->plan, loader->dataset, opt->batch_size, err);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static iter__pack_row *rows_of(const iter_batch *batch, const iter__field_plan *field) {
    return (iter__pack_row *)(void *)(batch->memory + field->rows_offset);
}

void iter__device_rows_make(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->way == ITER_WAY_HOST || !field->owns_rows) continue;
        iter__pack_row *rows = rows_of(batch, field);
        iter__pack_sample sample = {.seed = loader->opt.seed};
        const iter__step *last = field->n_steps ? &field->steps[field->n_steps - 1] : NULL;
        if (last) iter__activity_set(worker, last->activity, batch->index[first]);
        for (uint32_t row = first; row < first + n; row++) {
            if (iter__row_failed(batch, row)) continue;
            rows[row].source = field->way == ITER_WAY_FINISH ? row : batch->index[row];
            if (field->way == ITER_WAY_GATHER) continue;
            sample.position = batch->position[row];
            sample.epoch = batch->row_epoch[row];
            iter__packer.row(last->pack, &sample, worker->scratch, &rows[row]);
        }
    }
}

void iter__device_row_blank(iter_loader *loader, iter_batch *batch, uint32_t row) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->way == ITER_WAY_HOST || !field->owns_rows) continue;
        /* No pixel has a source, and the pad is zero. GATHER takes the set's last row, of zeros. */
        rows_of(batch, field)[row] = (iter__pack_row){
            .source = field->way == ITER_WAY_FINISH ? row : loader->device.set.n_rows,
            .y_step = 1,
            .x_step = 1,
            .pad = -1};
    }
}

/* ---- To the device --------------------------------------------------------------------------- */

bool iter__device_rows_span(const iter_batch *batch, const iter__field_plan *field, int part,
                            size_t *out_first, size_t *out_end) {
    const size_t n_rows = batch->info.n_rows;
    *out_first = part == 0 ? field->slot_offset : field->rows_offset;
    *out_end = *out_first;
    if (part == 0)
        *out_end += n_rows * field->made_bytes;
    else if (field->owns_rows)
        *out_end += n_rows * sizeof(iter__pack_row);
    return *out_end > *out_first;
}

iter_status iter__device_rows_launch(iter_loader *loader, const iter_batch *batch,
                                     iter__device_address twin, iter_error *err) {
    const iter__resident_set *set = &loader->device.set;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->way == ITER_WAY_HOST) continue;
        const iter__device_pack_args pack = {
            .program = &field->program,
            .from = field->way == ITER_WAY_FINISH ? twin + field->slot_offset : set->fields[f],
            .rows = twin + field->rows_offset,
            .to = twin + field->device_offset,
            .n_rows = batch->info.n_rows};
        const iter_status status =
            field->way == ITER_WAY_GATHER
                ? iter__device_gather(loader->device.handle, pack.from, field->row_bytes, pack.rows,
                                      pack.to, pack.n_rows, err)
                : iter__device_pack(loader->device.handle, &pack, err);
        if (status < 0) return iter__fail_in(err, status, "field '%s'", field->out.name);
    }
    return ITER_OK;
}
