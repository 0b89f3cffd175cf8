/*
 * rows.c - makes the rows of one chunk: bytes or get() -> decoder -> steps -> row of the slot,
 * field after field.
 *
 * Each run of a kernel gets the address of the next row's bytes, to prefetch them. Data fields come
 * before labels: if both lie in one record, the label is then in the cache. When a row fails, its
 * reason is recorded and the following fields skip it; on_error decides what becomes of it.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define REPLACE_TRIES 8
#define TINY_BYTES    16 /* copied here: a call of the kernel would cost more */

/* ---- A callback's error ---------------------------------------------------------------------- */

/* Records a callback's error. ENOMEM means that the process lacks memory if an allocation of the
 * library failed in this thread since the last check. Else the sample exceeds a limit. */
static void row_fail_error(iter__worker *worker, iter_batch *batch, uint32_t row,
                           iter_status status, const char *stage, const iter_error *error) {
    iter_loader *loader = worker->loader;
    const char *reason = error->message[0] ? error->message : iter_status_text(status);
    const unsigned refused = iter__alloc_refused();
    if (status == ITER_ENOMEM && refused != worker->alloc_refused)
        iter__row_lacks(loader, batch, row, status, stage, reason);
    else
        iter__row_fail(loader, batch, row, status, stage, reason);
    worker->alloc_refused = refused;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Retries a row whose reads failed or came short. */
static void settle_row(iter__worker *worker, iter_batch *batch, uint32_t row) {
    iter_loader *loader = worker->loader;
    iter__activity_row(worker, ACTIVITY_READ, batch, row);
    if (atomic_load_explicit(&loader->ending.canceled, memory_order_relaxed) ||
        atomic_load_explicit(&batch->dropped, memory_order_relaxed)) {
        iter__row_fail(loader, batch, row, ITER_ECANCELED, "read", "canceled");
        return;
    }
    iter_read failed;
    char reason[sizeof(((iter_error *)0)->message)], text[96];
    iter_error why;
    const iter_status status = iter__reading_row(loader, batch, row, &failed, &why);
    if (status == ITER_OK) {
        iter__row_set(batch, row, ROW_FINE);
        return;
    }
    if (failed.status < 0) {
        snprintf(reason, sizeof(reason), "%s",
                 why.message[0]    ? why.message
                 : failed.os_error ? iter__os_error(failed.os_error, text, sizeof(text))
                                   : iter_status_text(status));
    } else {
        snprintf(reason, sizeof(reason),
                 "the file ends after %llu of %llu bytes: it changed while open",
                 (unsigned long long)failed.done, (unsigned long long)failed.size);
    }
    if (iter__is_lack(failed.os_error))
        iter__row_lacks(loader, batch, row, status, "read", reason);
    else
        iter__row_fail(loader, batch, row, status, "read", reason);
}

/* The address of a row that lies in memory. */
static inline const uint8_t *row_source(const iter_loader *loader, const iter_batch *batch,
                                        const iter__field_plan *field, uint32_t row) {
    if (field->from == ITER_ROW_RESIDENT) {
        const iter__resident *resident = &loader->loaded.resident[field->in];
        return resident->base + batch->index[row] * resident->stride;
    }
    const iter_description *desc = &loader->dataset->desc;
    const iter_field *in = &desc->fields[field->in];
    return batch->bytes[(size_t)row * desc->n_extents + in->extent] + in->offset;
}

static inline uint8_t *row_target(const iter_batch *batch, const iter__field_plan *field,
                                  uint32_t row) {
    return batch->memory + field->slot_offset + (size_t)row * field->made_bytes;
}

static bool within_limit(iter_loader *loader, iter_batch *batch, const iter__field_plan *field,
                         uint32_t row, const uint8_t *at) {
    const iter_field *in = &loader->dataset->desc.fields[field->in];
    const uint64_t value = iter__scalar_value(at, in->desc.dtype);
    if (value < in->limit) return true;
    char reason[96];
    snprintf(reason, sizeof(reason), "%s %lld is not in 0..%u", in->name, (long long)value,
             in->limit - 1);
    iter__row_fail(loader, batch, row, ITER_EFORMAT, "label", reason);
    return false;
}

static void fail_length(iter_loader *loader, iter_batch *batch, uint32_t row, const char *stage,
                        int64_t length, int64_t capacity) {
    char reason[96];
    snprintf(reason, sizeof(reason), "length %lld is out of bounds, 0 to %lld", (long long)length,
             (long long)capacity);
    iter__row_fail(loader, batch, row, ITER_EINVAL, stage, reason);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The way of this row's image, of the field that `field` follows. */
static iter_status view_image(iter__worker *worker, const iter_batch *batch, int32_t followed,
                              uint32_t row, iter_image_view *out, iter_error *err) {
    const iter_loader *loader = worker->loader;
    const iter__field_plan *images = &loader->plan.fields[followed];
    const iter__pack_sample sample = {loader->opt.seed, batch->position[row],
                                      batch->row_epoch[row]};
    iter_desc desc = images->source;
    if (images->any_size) {
        const iter_description *set = &loader->dataset->desc;
        const size_t at = (size_t)row * set->n_extents + (size_t)set->fields[images->in].extent;
        const iter__decoder_use use = iter__worker_decoder(worker, images->in, batch->index[row]);
        ITER_TRY(use.ops->header(use.state, use.shared, batch->bytes[at],
                                 (size_t)batch->extents[at].size, &desc, err));
    }
    return iter__packer.view(images->stages, images->n_stages, &desc, &sample, out, err);
}

static iter_status call_step(iter__worker *worker, const iter_batch *batch, const iter__step *step,
                             int32_t followed, uint32_t row, const iter_tensor *from,
                             iter_tensor *to, iter_error *err) {
    const iter_transform_ops *ops = step->stage->ops;
    void *state = worker->transform_states[step->state];
    if (ops->follow) {
        iter_image_view view;
        ITER_TRY(view_image(worker, batch, followed, row, &view, err));
        return ops->follow(state, step->stage->options, from, to, &view, err);
    }
    iter_rng rng = iter__step_rng(worker->loader, batch, row, step);
    return ops->apply(state, step->stage->options, from, to, &rng, worker->scratch, err);
}

static bool apply_step(iter__worker *worker, iter_batch *batch, const iter__field_plan *field,
                       const iter__step *step, uint32_t row, const void *in, void *out,
                       int64_t *length) {
    iter_loader *loader = worker->loader;
    iter_error error = {.status = ITER_OK};
    const iter_transform_ops *ops = step->stage->ops;
    iter_tensor from = iter_tensor_dense(&step->in, (void *)in),
                to = iter_tensor_dense(&step->out, out);
    if (step->in.n_dims && step->in.dims[0] == ITER_VARIABLE) from.desc.dims[0] = *length;
    const iter_status status =
        call_step(worker, batch, step, field->follows, row, &from, &to, &error);
    if (status < 0) {
        row_fail_error(worker, batch, row, status, ops->base.name, &error);
        return false;
    }
    *length = to.desc.dims[0];
    if (step->out.n_dims && step->out.dims[0] == ITER_VARIABLE &&
        (*length < 0 || *length > step->out.capacity)) {
        fail_length(loader, batch, row, ops->base.name, *length, step->out.capacity);
        return false;
    }
    return true;
}

/* Applies a sized step to `picture` if the row is one already, else to the row at `in`. The result
 * goes to `out` or, when it is of any size, to a growing buffer. */
static bool sized_step(iter__worker *worker, iter_batch *batch, const iter__step *step,
                       uint32_t row, const void *in, void *out, iter__picture *picture) {
    iter_loader *loader = worker->loader;
    iter_error error = {.status = ITER_OK};
    if (!iter__is_any_size(&step->in) && !picture->wished)
        iter__picture_lies(picture, &step->in, in);
    if (!picture->wished) picture->rng = iter__step_rng(loader, batch, row, step);
    if (iter__is_any_size(&step->out)) out = NULL;
    const iter_status status = iter__picture_step(worker, step, out, picture, &error);
    if (status >= 0) return true;
    row_fail_error(worker, batch, row, status, step->stage->ops->base.name, &error);
    return false;
}

/* Where step i writes, unless it writes into a growing buffer. */
static void *step_target(const iter__worker *worker, const iter_batch *batch,
                         const iter__field_plan *field, uint32_t row, int32_t i) {
    return i + 1 == field->n_made ? row_target(batch, field, row) : worker->step[i & 1];
}

/* Runs the workers' steps over the row at `in`, with `length` elements if it is variable; or over
 * `picture`, unless that is NULL. */
static void run_steps(iter__worker *worker, iter_batch *batch, const iter__field_plan *field,
                      uint32_t row, const void *in, int64_t length, const void *next_in,
                      iter__picture *picture) {
    iter_loader *loader = worker->loader;
    const iter__pack_sample sample = {loader->opt.seed, batch->position[row],
                                      batch->row_epoch[row]};
    iter__picture own = {.buffer = -1};
    if (!picture) picture = &own;
    for (int32_t i = picture->n_steps; i < field->n_made; i++) {
        const iter__step *step = &field->steps[i];
        void *out = step_target(worker, batch, field, row, i);
        iter__activity_begins(worker, step->activity, batch->index[row]);
        if (step->pack) {
            iter__packer.run(step->pack, in, out, &sample, worker->scratch,
                             i == 0 ? next_in : NULL);
        } else if (step->sized) {
            if (!sized_step(worker, batch, step, row, in, out, picture)) return;
            out = picture->image.data;
        } else if (!apply_step(worker, batch, field, step, row, in, out, &length)) {
            return;
        }
        in = out;
    }
    if (field->variable) batch->lengths[field - loader->plan.fields][row] = (int32_t)length;
}

/* Whether rows [first, first + n) of the field are to be made from samples that lie in memory. */
static bool are_resident(const iter_batch *batch, const iter__field_plan *field, uint32_t first,
                         uint32_t n) {
    if (field->from != ITER_ROW_RESIDENT) return false;
    for (uint32_t row = first; row < first + n; row++)
        if (iter__row_failed(batch, row)) return false;
    return true;
}

static void make_copied(iter__worker *worker, iter_batch *batch, const iter__field_plan *field,
                        uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    if (loader->loaded.is_stored[field - loader->plan.fields]) {
        iter__activity_row(worker, field->steps[0].activity, batch, first);
        iter__stored_rows_copy(loader, batch, field, first, n);
        return;
    }
    const bool limited = loader->dataset->desc.fields[field->in].limit != 0;
    const bool one_pack = field->n_made == 1 && field->steps[0].pack;
    const bool as_it_is = field->n_made == 0 || (field->copies && field->row_bytes <= TINY_BYTES);
    iter__pack_sample sample = {.seed = loader->opt.seed};
    /* Set once for all rows, because a row takes so little; run_steps() sets it row by row. */
    iter__activity_row(worker, field->steps[0].activity, batch, first);
    if (one_pack && !limited && are_resident(batch, field, first, n)) {
        const iter__resident *resident = &loader->loaded.resident[field->in];
        if (iter__packer.rows(field->steps[0].pack, resident->base, resident->stride,
                              batch->index + first, n, row_target(batch, field, first)))
            return;
    }
    for (uint32_t row = first; row < first + n; row++) {
        if (iter__row_failed(batch, row)) continue;
        const uint8_t *in = row_source(loader, batch, field, row);
        if (limited && !within_limit(loader, batch, field, row, in)) continue;
        if (as_it_is) {
            memcpy(row_target(batch, field, row), in, field->made_bytes);
            continue;
        }
        const uint8_t *next =
            row + 1 < first + n ? row_source(loader, batch, field, row + 1) : NULL;
        if (one_pack) {
            sample.position = batch->position[row];
            sample.epoch = batch->row_epoch[row];
            iter__packer.run(field->steps[0].pack, in, row_target(batch, field, row), &sample,
                             worker->scratch, next);
        } else {
            run_steps(worker, batch, field, row, in, 0, next, NULL);
        }
    }
}

static void make_indexed(iter__worker *worker, iter_batch *batch, const iter__field_plan *field,
                         uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    const iter_dataset *dataset = loader->dataset;
    const bool limited = dataset->desc.fields[field->in].limit != 0;
    iter__activity_set(worker, ACTIVITY_GET, batch->index[first]);
    for (uint32_t row = first; row < first + n; row++) {
        if (iter__row_failed(batch, row)) continue;
        uint8_t *to = field->n_made ? worker->step[1] : row_target(batch, field, row);
        dataset->format->index_row(dataset->state, batch->index[row], field->in, to);
        if (limited && !within_limit(loader, batch, field, row, to)) continue;
        if (field->n_made) run_steps(worker, batch, field, row, to, 0, NULL, NULL);
    }
}

/* Counts a warning: a decoder returned OK and left a message. Keeps the text of the first. */
static void count_warning(iter_loader *loader, const iter_batch *batch, uint32_t row,
                          const char *text) {
    char file[81];
    uint64_t offset;
    if (atomic_fetch_add_explicit(&loader->stats.n_warnings, 1, memory_order_relaxed) > 0) return;
    const bool known = iter__where(loader, batch->index[row], file, sizeof(file), &offset);
    pthread_mutex_lock(&loader->lock);
    snprintf(loader->stats.warning_text, sizeof(loader->stats.warning_text),
             "sample %llu (%s): %.100s", (unsigned long long)batch->index[row], known ? file : "",
             text);
    iter__escape_in_place(loader->stats.warning_text, sizeof(loader->stats.warning_text));
    pthread_mutex_unlock(&loader->lock);
}

/* Whether the row needs no decoding: it is in its place already, or it is a slice of the sample's
 * bytes, to which *out then points. */
static bool is_found(const iter__worker *worker, const iter__field_plan *field,
                     const iter__decoder_use *use, const uint8_t *bytes, size_t size,
                     iter_tensor *out) {
    iter_loader *loader = worker->loader;
    if (!use->ops->find) return false;
    const bool placed = iter__is_placed(worker, bytes);
    size_t offset, n;
    if (!placed && field->n_made == 0) return false;
    if (!use->ops->find(use->shared, &field->source, bytes, size,
                        placed ? loader->layout.placed_head : size, &offset, &n))
        return false;
    if (!placed) out->data = (uint8_t *)(uintptr_t)bytes + offset;
    if (out->desc.dims[0] == ITER_VARIABLE)
        out->desc.dims[0] = (int64_t)(n / iter_dtype_bytes(out->desc.dtype));
    return true;
}

#define PREFETCH_BYTES 512

/* Prefetches the beginning of a row's bytes. Small rows in random order cost a miss each; after the
 * beginning the processor's own prefetcher follows. */
static void prefetch_row(const iter_batch *batch, size_t at) {
    const uint8_t *bytes = batch->bytes[at];
    const uint64_t n = iter__min_u64(batch->extents[at].size, PREFETCH_BYTES);
    for (uint64_t i = 0; bytes && i < n; i += 64)
        __builtin_prefetch(bytes + i);
}

static void make_decoded(iter__worker *worker, iter_batch *batch, const iter__field_plan *field,
                         uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    const iter_description *desc = &loader->dataset->desc;
    const iter_field *in = &desc->fields[field->in];
    /* placed.c checked the heads of placed rows: with rows of one size nothing is left to do */
    const bool lies_there = loader->layout.placed_head &&
                            field == &loader->plan.fields[loader->layout.placed_field] &&
                            !field->variable;
    for (uint32_t row = first; row < first + n; row++) {
        if (iter__row_failed(batch, row)) continue;
        const size_t at = (size_t)row * desc->n_extents + in->extent;
        const uint8_t *bytes = batch->bytes[at];
        if (row + 1 < first + n) prefetch_row(batch, at + (size_t)desc->n_extents);
        if (lies_there && iter__is_placed(worker, bytes)) continue;
        iter_error error;
        iter__picture picture;
        iter__error_clear(&error);
        iter_tensor out = iter_tensor_dense(
            &field->source, field->n_made ? worker->step[1] : row_target(batch, field, row));
        iter__activity_row(worker, ACTIVITY_DECODE, batch, row);
        const size_t size = batch->extents[at].size;
        const iter__decoder_use use = iter__worker_decoder(worker, field->in, batch->index[row]);
        if (is_found(worker, field, &use, bytes, size, &out)) {
            run_steps(worker, batch, field, row, out.data,
                      field->source.n_dims ? out.desc.dims[0] : 0, NULL, NULL);
            continue;
        }
        void *const outs[2] = {step_target(worker, batch, field, row, 0),
                               step_target(worker, batch, field, row, 1)};
        const iter__row here = {worker, batch, field, row};
        const iter_status status =
            field->any_size ? iter__picture_decode(&here, bytes, size, outs, &picture, &error)
                            : use.ops->decode(use.state, use.shared, bytes, size, &out, &error);
        if (status < 0) {
            row_fail_error(worker, batch, row, status, use.ops->base.name, &error);
            continue;
        }
        if (error.message[0]) count_warning(loader, batch, row, error.message);
        if (field->any_size && picture.n_steps) out.data = picture.image.data;
        run_steps(worker, batch, field, row, out.data, field->source.n_dims ? out.desc.dims[0] : 0,
                  NULL, field->any_size ? &picture : NULL);
    }
}

/* ---- get() ----------------------------------------------------------------------------------- */

/* Sets what all calls of get() share: shapes, strides, and staging for the fields that have
 * steps. */
static void prepare_get(const iter__worker *worker, iter__get_rows *out) {
    iter_loader *loader = worker->loader;
    uint8_t *staging = worker->staging;
    memset(out, 0, sizeof(*out));
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of >= 0 || field->from != ITER_ROW_GET) continue;
        iter_desc desc = field->source;
        memmove(desc.dims + 1, desc.dims, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
        desc.dims[0] = worker->staging_rows;
        desc.n_dims++;
        const bool variable = field->source.n_dims && field->source.dims[0] == ITER_VARIABLE;
        if (variable) {
            desc.dims[1] = field->source.capacity;
            out->lengths[field->in] =
                worker->get_lengths + (size_t)field->in * worker->staging_rows;
        }
        out->rows[field->in] = iter_tensor_dense(&desc, field->n_made ? staging : NULL);
        if (field->n_made)
            staging +=
                iter__align_up_size(iter_desc_bytes(&field->source), 64) * worker->staging_rows;
    }
}

/* Sets where get() writes rows [row, row + n): to the slot or, for a field with steps, to
 * staging. */
static void aim(const iter_loader *loader, const iter_batch *batch, uint32_t row, uint32_t n,
                iter__get_rows *out) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of >= 0 || field->from != ITER_ROW_GET) continue;
        iter_tensor *rows = &out->rows[field->in];
        rows->desc.dims[0] = n;
        if (!field->n_made) rows->data = row_target(batch, field, row);
        int32_t *lengths = out->lengths[field->in];
        for (uint32_t i = 0; lengths && i < n; i++)
            lengths[i] = (int32_t)field->source.capacity;
    }
}

static iter_status call_get(iter__worker *worker, iter_batch *batch, uint32_t row, uint32_t n,
                            const iter__get_rows *get, iter_error *err) {
    iter_loader *loader = worker->loader;
    iter_dataset *dataset = loader->dataset;
    for (uint32_t i = 0; i < n; i++) {
        worker->rng[i] = iter_rng_at(loader->sampling.get_key, batch->row_epoch[row + i],
                                     batch->position[row + i]);
    }
    const uint64_t *indices = batch->asked + row;
    iter_status status;
    if (!dataset->serial) iter__activity_begins(worker, ACTIVITY_GET, batch->index[row]);
    if (dataset->format) {
        status = dataset->format->get(dataset->state, n, indices, get->rows, worker->rng, err);
    } else if (!dataset->serial) {
        status = dataset->ops->get(dataset->user, worker->user_state, n, indices, get->rows,
                                   worker->rng, err);
    } else {
        iter__activity_begins(worker, ACTIVITY_WAIT_TURN, batch->index[row]);
        pthread_mutex_lock(&dataset->one_at_a_time);
        iter__activity_begins(worker, ACTIVITY_GET, batch->index[row]);
        status = dataset->ops->get(dataset->user, NULL, n, indices, get->rows, worker->rng, err);
        pthread_mutex_unlock(&dataset->one_at_a_time);
    }
    return iter__dataset_got(status, err);
}

/* After get(): lengths, limits and steps of rows [row, row + n). */
static void use_got(iter__worker *worker, iter_batch *batch, uint32_t row, uint32_t n,
                    const iter__get_rows *get) {
    iter_loader *loader = worker->loader;
    if (loader->opt.reading.only_reads) return;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of >= 0 || field->from != ITER_ROW_GET) continue;
        const bool limited = loader->dataset->desc.fields[field->in].limit != 0;
        const size_t stride = iter_desc_bytes(&field->source);
        const uint8_t *in = get->rows[field->in].data;
        const int32_t *lengths = get->lengths[field->in];
        if (!field->n_made && !lengths && !limited) continue; /* it is in its place */
        const bool one_pack = field->n_made == 1 && field->steps[0].pack && !field->variable;
        iter__pack_sample sample = {.seed = loader->opt.seed};
        if (one_pack) iter__activity_set(worker, field->steps[0].activity, batch->index[row]);
        for (uint32_t i = 0; i < n; i++, in += stride) {
            if (iter__row_failed(batch, row + i)) continue;
            if (lengths && (lengths[i] < 0 || lengths[i] > field->source.capacity)) {
                fail_length(loader, batch, row + i, loader->dataset->name, lengths[i],
                            field->source.capacity);
                continue;
            }
            if (limited && !within_limit(loader, batch, field, row + i, in)) continue;
            if (one_pack) {
                sample.position = batch->position[row + i];
                sample.epoch = batch->row_epoch[row + i];
                iter__packer.run(field->steps[0].pack, in, row_target(batch, field, row + i),
                                 &sample, worker->scratch, NULL);
            } else {
                run_steps(worker, batch, field, row + i, in, lengths ? lengths[i] : 0, NULL, NULL);
            }
        }
    }
}

static void make_got(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    iter__get_rows get;
    prepare_get(worker, &get);
    for (uint32_t row = first, k; row < first + n; row += k) {
        k = first + n - row < worker->staging_rows ? first + n - row : worker->staging_rows;
        iter_error error = {.status = ITER_OK};
        aim(loader, batch, row, k, &get);
        if (call_get(worker, batch, row, k, &get, &error) >= 0) {
            use_got(worker, batch, row, k, &get);
            continue;
        }
        for (uint32_t i = 0; i < k; i++) { /* retries one by one, to find the sample that fails */
            error = (iter_error){.status = ITER_OK};
            aim(loader, batch, row + i, 1, &get);
            const iter_status status = call_get(worker, batch, row + i, 1, &get, &error);
            if (status == ITER_ENOMEM) {
                iter__row_lacks(loader, batch, row + i, status, loader->dataset->name,
                                error.message[0] ? error.message : iter_status_text(status));
            } else if (status < 0) {
                row_fail_error(worker, batch, row + i, status, loader->dataset->name, &error);
            } else {
                use_got(worker, batch, row + i, 1, &get);
            }
        }
    }
}

/* Calls a stream's next(), or rewind() if n = 0. Loaders that share the dataset take turns. */
static iter_status call_next(iter__worker *worker, uint32_t n, uint64_t position,
                             const iter__get_rows *get, uint32_t *out_n, iter_error *err) {
    iter_loader *loader = worker->loader;
    iter_dataset *dataset = loader->dataset;
    const iter_dataset_ops *ops = dataset->ops;
    iter__activity_begins(worker, ACTIVITY_WAIT_TURN, position);
    pthread_mutex_lock(&dataset->one_at_a_time);
    iter__activity_begins(worker, ACTIVITY_GET, position);
    const iter_status status =
        n ? ops->next(dataset->user, n, get->rows, out_n, err) : ops->rewind(dataset->user, err);
    pthread_mutex_unlock(&dataset->one_at_a_time);
    if (n && status >= 0 && *out_n > n)
        return iter__fail(err, ITER_EINVAL, "%s: next() wrote %u rows, expected at most %u",
                          dataset->name, *out_n, n);
    return status;
}

uint32_t iter__rows_stream(iter__worker *worker, iter_batch *batch, iter_error *err) {
    iter_loader *loader = worker->loader;
    const iter_dataset_ops *ops = loader->dataset->ops;
    uint32_t made = 0;
    iter_status status = ITER_OK;
    iter__get_rows get;
    worker->alloc_refused = iter__alloc_refused();
    prepare_get(worker, &get);
    if (batch->rewinds && !ops->rewind && batch->info.epoch > 0) return 0; /* readable only once */
    if (batch->rewinds && ops->rewind) status = call_next(worker, 0, ITER_UNKNOWN, &get, NULL, err);
    while (status >= 0 && made < batch->info.n_rows) {
        const uint32_t left = batch->info.n_rows - made;
        uint32_t k = left < worker->staging_rows ? left : worker->staging_rows, got = 0;
        if (batch->skip) k = batch->skip < k ? (uint32_t)batch->skip : k;
        aim(loader, batch, made, k, &get);
        status = call_next(worker, k, batch->position[made], &get, &got, err);
        if (status < 0) break;
        if (batch->skip) {
            batch->skip -= got;
        } else {
            use_got(worker, batch, made, got, &get);
            if (loader->plan.has_ways && !loader->opt.reading.only_reads)
                iter__device_rows_make(worker, batch, made, got);
            made += got;
        }
        if (got < k) break;
    }
    batch->status = status < 0 ? status : ITER_OK;
    return made;
}

/* ---- All fields of some rows ----------------------------------------------------------------- */

/* A preloaded sample larger than max_sample_bytes fails, as it does when it is read. */
static void fail_large(iter_loader *loader, iter_batch *batch, uint32_t first, uint32_t n) {
    const iter_description *desc = &loader->dataset->desc;
    for (int32_t e = 0; e < desc->n_extents; e++) {
        if (desc->max_extent_bytes[e] <= loader->layout.sample_max) continue;
        for (uint32_t row = first; row < first + n; row++) {
            const iter_extent *extent = &batch->extents[(size_t)row * desc->n_extents + e];
            if (extent->size > loader->layout.sample_max)
                iter__row_fail(loader, batch, row, ITER_EFORMAT, "read",
                               "larger than max_sample_bytes");
        }
    }
}

static void make_fields(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    if (loader->loaded.preload && loader->plan.needs_bytes) fail_large(loader, batch, first, n);
    if (loader->device.set.n_failed) iter__resident_fail(loader, batch, first, n);
    if (loader->plan.needs_get) make_got(worker, batch, first, n);
    if (loader->opt.reading.only_reads) return;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of >= 0) continue;
        switch (field->from) {
        case ITER_ROW_RESIDENT:
        case ITER_ROW_BYTES: make_copied(worker, batch, field, first, n); break;
        case ITER_ROW_INDEX: make_indexed(worker, batch, field, first, n); break;
        case ITER_ROW_DECODE: make_decoded(worker, batch, field, first, n); break;
        case ITER_ROW_GET:
        case ITER_ROW_SET: break;
        }
    }
    if (loader->plan.has_ways) iter__device_rows_make(worker, batch, first, n);
}

/* ---- on_error: blank, replace ---------------------------------------------------------------- */

static void blank_row(iter_loader *loader, iter_batch *batch, uint32_t row) {
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter__field_plan *field = &loader->plan.fields[f];
        if (field->lengths_of >= 0) continue;
        if (field->made_bytes) memset(row_target(batch, field, row), 0, field->made_bytes);
        if (field->variable) batch->lengths[f][row] = 0;
    }
    if (loader->plan.has_ways) iter__device_row_blank(loader, batch, row);
    batch->valid[row] = 0;
}

/* Draws the sample for attempt k of a failed row: a pure function of (seed, epoch, position, k). */
static iter_status draw_replacement(iter_loader *loader, const iter_batch *batch, uint32_t row,
                                    uint32_t attempt, uint64_t *out) {
    iter_rng rng =
        iter_rng_at(loader->sampling.replace_key, batch->row_epoch[row], batch->position[row]);
    rng.counter[0] = attempt;
    const uint64_t position = iter_rng_below(&rng, loader->cut.n);
    return iter__sampler_index(loader, batch->row_epoch[row], position, 1, out, true, NULL);
}

/* Allocates memory for the bytes of one row and points its extents there. NULL = no memory. The
 * caller frees it. */
static void *take_own(iter_loader *loader, iter_batch *batch, uint32_t row) {
    const int32_t n_extents = loader->dataset->desc.n_extents;
    const iter_extent *extents = batch->extents + (size_t)row * n_extents;
    size_t bytes = 0;
    for (int32_t e = 0; e < n_extents; e++)
        bytes += extents[e].size;
    uint8_t *own = iter__alloc(1, bytes ? bytes : 1), *at = own;
    for (int32_t e = 0; own && e < n_extents; e++) {
        batch->bytes[(size_t)row * n_extents + e] = at;
        at += extents[e].size;
    }
    return own;
}

/* Fetches the bytes of a row whose sample has changed. When files are not preloaded, allocates
 * *out_own for them, which the caller frees. */
static iter_status fetch_again(iter_loader *loader, iter_batch *batch, uint32_t row, void **out_own,
                               bool *out_lacks) {
    const iter_dataset *dataset = loader->dataset;
    const iter__preload *preload = loader->loaded.preload;
    const int32_t n_extents = dataset->desc.n_extents;
    iter_extent *extents = batch->extents + (size_t)row * n_extents;
    if (!iter__dataset_locate(dataset, batch->index[row], extents)) return ITER_EINVAL;
    for (int32_t e = 0; e < n_extents; e++) {
        if (extents[e].size > loader->layout.sample_max) return ITER_EFORMAT;
        if (preload)
            batch->bytes[(size_t)row * n_extents + e] =
                preload->memory + preload->object_base[extents[e].object] + extents[e].offset;
    }
    if (preload) return ITER_OK;
    *out_own = take_own(loader, batch, row);
    *out_lacks = !*out_own;
    if (!*out_own) return ITER_ENOMEM;
    iter_read failed;
    iter_error why;
    const iter_status status = iter__reading_row(loader, batch, row, &failed, &why);
    *out_lacks = status < 0 && iter__is_lack(failed.os_error);
    return status;
}

/* Appends to the reason that no replacement worked. Shortens a long reason to make room. */
static void note_tries(iter_failure *failure) {
    char note[64];
    const int n = snprintf(note, sizeof(note), "; replace gave up after %d tries", REPLACE_TRIES);
    const size_t room = sizeof(failure->message) - 1 - (size_t)n;
    size_t length = strlen(failure->message);
    if (length > room) {
        length = room - 3;
        while (length > 0 && ((unsigned char)failure->message[length] & 0xc0u) == 0x80u)
            length--; /* never inside a UTF-8 sequence */
        memcpy(failure->message + length, "...", 3);
        length += 3;
    }
    memcpy(failure->message + length, note, (size_t)n + 1);
}

static void replace_row(iter__worker *worker, iter_batch *batch, uint32_t row) {
    iter_loader *loader = worker->loader;
    iter_failure why = iter__row_reason(batch, row);
    iter__row_state state = ROW_FAILED;
    for (uint32_t attempt = 1; attempt <= REPLACE_TRIES && state == ROW_FAILED; attempt++) {
        void *own = NULL;
        bool lacks = false;
        iter__row_set(batch, row, ROW_FINE);
        iter_status status = draw_replacement(loader, batch, row, attempt, &batch->asked[row]);
        iter__batch_ask(loader, batch, row, 1);
        iter__activity_begins(worker, ACTIVITY_READ, batch->index[row]);
        if (status == ITER_OK && loader->plan.needs_bytes)
            status = fetch_again(loader, batch, row, &own, &lacks);
        if (status == ITER_OK) make_fields(worker, batch, row, 1);
        state = status == ITER_OK ? iter__row_state_get(batch, row) : ROW_FAILED;
        iter__free(own);
        if (lacks) {
            iter__row_lacks(loader, batch, row, status, "replace", "no other sample can be read");
            state = ROW_LACKING;
        }
    }
    if (state == ROW_LACKING) return;
    if (state == ROW_FAILED) {
        batch->index[row] = why.index;
        note_tries(&why);
    }
    iter__row_fail_as(batch, row, &why);
    if (state != ROW_FAILED) iter__row_set(batch, row, ROW_REPLACED);
}

void iter__rows_mend(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    for (uint32_t row = first; row < first + n; row++) {
        if (iter__row_state_get(batch, row) != ROW_FAILED) continue;
        if (loader->opt.faults.on_error == ITER_ON_ERROR_REPLACE) {
            replace_row(worker, batch, row);
        } else if (loader->opt.faults.on_error == ITER_ON_ERROR_BLANK) {
            blank_row(loader, batch, row);
        }
    }
}

/* Makes rows whose reads have ended, and retries the MISSING ones. If the bytes lie in a frame,
 * other workers may use it at the same time, so a retry reads into memory of its own. */
static void make_read(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    const bool shared = loader->reading.frames != NULL;
    uint32_t row = first; /* the first that is not made */
    for (uint32_t i = first; i < first + n; i++) {
        if (iter__row_state_get(batch, i) != ROW_MISSING) continue;
        if (!shared) {
            settle_row(worker, batch, i);
            continue;
        }
        if (i > row) make_fields(worker, batch, row, i - row);
        void *own = take_own(loader, batch, i);
        if (own)
            settle_row(worker, batch, i);
        else
            iter__row_lacks(loader, batch, i, ITER_ENOMEM, "read", "out of memory");
        make_fields(worker, batch, i, 1);
        iter__free(own);
        row = i + 1;
    }
    if (first + n > row) make_fields(worker, batch, row, first + n - row);
}

void iter__rows_make(iter__worker *worker, iter_batch *batch, uint32_t first, uint32_t n) {
    iter_loader *loader = worker->loader;
    worker->alloc_refused = iter__alloc_refused();
    if (loader->plan.needs_bytes && !loader->loaded.preload)
        make_read(worker, batch, first, n);
    else
        make_fields(worker, batch, first, n);
    iter__rows_mend(worker, batch, first, n);
}
