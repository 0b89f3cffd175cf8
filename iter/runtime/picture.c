/*
 * picture.c - steps over images whose size is known only per sample.
 *
 * The decoder reads the image's size from its header. The first stage chooses a part, drawing from
 * its random numbers, and only that part is decoded. When the image is in memory already, the part
 * is cut out of it. Then the stage is planned with the part's size and applied. It continues with
 * the random numbers as its choice left them, so a row is the same whether the decoder cut or this
 * file did.
 *
 * Decoded images, results of steps, and scratch lie in buffers of the worker, which grow to the
 * largest image so far: in a steady state nothing is allocated. A sample fails before it is decoded
 * if it needs a buffer of more than picture_max, or a decoder's state of more than decoder_max.
 * This depends on the sample alone, not on samples before it.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define SLACK 64 /* kernels may load, never store, past an image */

static void release(iter__growing *buffer) {
    if (buffer->data) iter__free_large(buffer->data, buffer->bytes + SLACK);
    *buffer = (iter__growing){0};
}

/* Grows the buffer to at least `bytes`. Growing loses the content. */
static iter_status grow(iter_loader *loader, iter__growing *buffer, size_t bytes, const char *what,
                        iter_error *err) {
    if (bytes > loader->layout.picture_max)
        return iter__fail(
            err, ITER_ENOMEM, "%s takes %zu bytes, more than max_sample_bytes (%zu%s)", what, bytes,
            loader->layout.picture_max,
            loader->layout.picture_share ? ", a 16th of memory.limit: raise either" : "");
    if (bytes <= buffer->bytes) return ITER_OK;
    size_t wanted = buffer->bytes + buffer->bytes / 2;
    if (wanted > loader->layout.picture_max) wanted = loader->layout.picture_max;
    if (wanted < bytes) wanted = bytes;
    atomic_fetch_sub_explicit(&loader->stats.picture_bytes, buffer->bytes, memory_order_relaxed);
    release(buffer);
    buffer->data = iter__alloc_large(wanted + SLACK);
    if (!buffer->data)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for %zu bytes", what, wanted);
    buffer->bytes = wanted;
    atomic_fetch_add_explicit(&loader->stats.picture_bytes, wanted, memory_order_relaxed);
    return ITER_OK;
}

void iter__pictures_free(iter__worker *worker) {
    for (int i = 0; i < ITER_GROWING; i++)
        release(&worker->growing[i]);
}

static bool has_part(const iter_desc *desc, const iter_rect *part) {
    return part->y >= 0 && part->x >= 0 && part->height > 0 && part->width > 0 &&
           part->height <= desc->dims[0] && part->width <= desc->dims[1] &&
           part->y <= desc->dims[0] - part->height && part->x <= desc->dims[1] - part->width;
}

/* Asks the step for the part of the image that it wants. A stage without wish() wants all of it.
 * Afterwards rng is as apply() needs it. */
static iter_status ask(const iter__step *step, const iter_desc *desc, iter_rng *rng,
                       iter_image_wish *out, iter_error *err) {
    *out = (iter_image_wish){.part = {0, 0, desc->dims[0], desc->dims[1]}};
    if (!step->stage->ops->wish) return ITER_OK;
    step->stage->ops->wish(step->stage->options, desc, rng, out);
    if (has_part(desc, &out->part)) return ITER_OK;
    return iter__fail(
        err, ITER_EINVAL,
        "wish() asked for %lld x %lld pixels at (%lld, %lld) of an image of %lld x %lld",
        (long long)out->part.height, (long long)out->part.width, (long long)out->part.y,
        (long long)out->part.x, (long long)desc->dims[0], (long long)desc->dims[1]);
}

/* Cuts the part out of the image, in place when the image lies in a buffer of the worker. The image
 * is HWC: plan.c allows wishes for no other. */
static iter_status cut(iter__worker *worker, iter__picture *p, const iter_rect *part,
                       iter_error *err) {
    iter_loader *loader = worker->loader;
    iter_tensor *image = &p->image;
    const size_t pixel = (size_t)image->desc.dims[2] * iter_dtype_bytes(image->desc.dtype);
    const size_t row = (size_t)part->width * pixel, whole = (size_t)image->desc.dims[1] * pixel;
    if (part->height == image->desc.dims[0] && part->width == image->desc.dims[1]) return ITER_OK;
    uint8_t *to = image->data;
    if (p->buffer < 0) {
        ITER_TRY(grow(loader, &worker->growing[0], row * (size_t)part->height, "a part", err));
        to = worker->growing[0].data;
    }
    const uint8_t *from =
        (const uint8_t *)image->data + (size_t)part->y * whole + (size_t)part->x * pixel;
    for (int64_t y = 0; y < part->height; y++)
        memmove(to + (size_t)y * row, from + (size_t)y * whole, row);
    if (p->buffer < 0) p->buffer = 0;
    iter_desc desc = image->desc;
    desc.dims[0] = part->height;
    desc.dims[1] = part->width;
    *image = iter_tensor_dense(&desc, to);
    return ITER_OK;
}

void iter__picture_lies(iter__picture *p, const iter_desc *desc, const void *data) {
    p->image = iter_tensor_dense(desc, (void *)data);
    p->buffer = -1;
    p->wished = false;
}

iter_rng iter__step_rng(const iter_loader *loader, const iter_batch *batch, uint32_t row,
                        const iter__step *step) {
    return iter_rng_at(loader->opt.seed ^ step->key, batch->row_epoch[row], batch->position[row]);
}

/* Whether the plan for this image equals the plan made at creation, except its variable sizes. */
static bool keeps_plan(const iter_desc *planned, const iter_desc *now) {
    if (now->n_dims != planned->n_dims || now->dtype != planned->dtype) return false;
    for (int32_t i = 0; i < now->n_dims; i++) {
        const bool open = planned->dims[i] == ITER_VARIABLE && now->dims[i] > 0;
        if (!open && now->dims[i] != planned->dims[i]) return false;
    }
    return true;
}

/* Plans the step for this image and provides scratch. Its result goes to `out` or, if that is NULL,
 * to a growing buffer. */
static iter_status prepare(iter__worker *worker, const iter__step *step, const iter__picture *p,
                           void *out, iter_tensor *to, int32_t *out_buffer, iter_error *err) {
    iter_loader *loader = worker->loader;
    iter_desc desc;
    size_t scratch;
    ITER_TRY(step->stage->ops->plan(step->stage->options, &p->image.desc, &desc, &scratch, err));
    if (!keeps_plan(&step->out, &desc)) {
        char shape[128], planned[128];
        return iter__fail(err, ITER_EINVAL, "plan() for this image: expected %s, got %s",
                          iter_desc_text(&step->out, planned, sizeof(planned)),
                          iter_desc_text(&desc, shape, sizeof(shape)));
    }
    ITER_TRY(grow(loader, &worker->growing[ITER_GROWING - 1], scratch, "scratch", err));
    *out_buffer = -1;
    if (!out) {
        *out_buffer = p->buffer == 0 ? 1 : 0;
        iter__growing *buffer = &worker->growing[*out_buffer];
        ITER_TRY(grow(loader, buffer, iter_desc_bytes(&desc), "an image", err));
        out = buffer->data;
    }
    *to = iter_tensor_dense(&desc, out);
    return ITER_OK;
}

/* ---- Rows as they are decoded ---------------------------------------------------------------- */

/* Passes a decoder's rows to the first step. */
typedef struct picture_rows {
    iter_image_rows base; /* first: the decoder gets its address */
    iter_loader *loader;
    iter__worker *worker;
    const iter__step *step;
    uint64_t index;
    iter_rect most; /* the largest image that the decoder may announce */
    void *out;
    iter_tensor made;
    int32_t buffer;
    int64_t n_rows, n_put;  /* n_rows = 0: the decoder has not begun */
    const iter__step *pack; /* the next step, if it works row by row, too; else NULL */
    iter__pack_sample sample;
    void *pack_out;
    int64_t n_packed; /* rows of `made` */
} picture_rows;

/* Returns 0 if the step cannot take rows one by one. Errors are ignored here: the step then runs
 * over the whole image and reports them. */
static size_t begin_rows(iter_image_rows *rows, const iter_desc *image) {
    picture_rows *r = (picture_rows *)(void *)rows;
    const iter__step *step = r->step;
    const iter__picture p = {.image = iter_tensor_dense(image, NULL), .buffer = 0};
    iter_error error = {.status = ITER_OK};
    if (!has_part(image, &(iter_rect){0, 0, 1, 1}) || image->dims[0] > r->most.height ||
        image->dims[1] > r->most.width ||
        prepare(r->worker, step, &p, r->out, &r->made, &r->buffer, &error) < 0)
        return 0;
    const size_t reach =
        step->stage->ops->begin_rows(r->worker->transform_states[step->state], step->stage->options,
                                     &p.image, &r->made, r->worker->growing[ITER_GROWING - 1].data);
    if (reach == 0) return 0;
    r->n_rows = image->dims[0];
    if (r->pack && (r->made.desc.layout[0] != 'H' ||
                    !iter__packer.begin(r->pack->pack, &r->sample, r->worker->scratch)))
        r->pack = NULL;
    return reach;
}

static void put_rows(iter_image_rows *rows, const uint8_t *const *at, int32_t n) {
    picture_rows *r = (picture_rows *)(void *)rows;
    const iter__step *step = r->step;
    if (n <= 0 || n > r->n_rows - r->n_put) return;
    r->n_put += n;
    iter__activity_set(r->worker, step->activity, r->index);
    const int64_t n_made =
        step->stage->ops->take_rows(r->worker->transform_states[step->state], at, n);
    if (r->pack && n_made > r->n_packed) {
        iter__activity_set(r->worker, r->pack->activity, r->index);
        if (n_made <= r->made.desc.dims[0])
            iter__packer.band(r->pack->pack, r->made.data, r->pack_out, r->worker->scratch,
                              r->n_packed, n_made);
        r->n_packed = n_made; /* unchecked here: iter__picture_decode() compares it */
    }
    iter__activity_set(r->worker, ACTIVITY_DECODE, r->index);
}

iter_status iter__picture_decode(const iter__row *at, const uint8_t *bytes, size_t size,
                                 void *const outs[2], iter__picture *out, iter_error *err) {
    iter__worker *worker = at->worker;
    iter_loader *loader = worker->loader;
    const iter_batch *batch = at->batch;
    const iter__field_plan *field = at->field;
    const uint32_t row = at->row;
    const iter__decoder_use use = iter__worker_decoder(worker, field->in, batch->index[row]);
    const iter__step *first = &field->steps[0];
    iter_desc image = field->source;
    iter_image_wish wish;
    ITER_TRY(use.ops->header(use.state, use.shared, bytes, size, &image, err));
    out->rng = iter__step_rng(loader, batch, row, first);
    const iter_status asked = ask(first, &image, &out->rng, &wish, err);
    if (asked < 0) return iter__fail_in(err, asked, "%s", first->stage->ops->base.name);
    picture_rows rows = {.base = {begin_rows, put_rows},
                         .loader = loader,
                         .worker = worker,
                         .step = first,
                         .index = batch->index[row],
                         .most = wish.part,
                         .out = iter__is_any_size(&first->out) ? NULL : outs[0],
                         .sample = {loader->opt.seed, batch->position[row], batch->row_epoch[row]},
                         .pack_out = outs[1]};
    if (field->n_made > 1 && field->steps[1].pack) rows.pack = &field->steps[1];
    if (first->stage->ops->begin_rows) wish.rows = &rows.base;
    out->n_steps = 0;
    out->wished = true;
    out->buffer = 0;
    image.dims[0] = wish.part.height;
    image.dims[1] = wish.part.width;
    ITER_TRY(grow(loader, &worker->growing[0], iter_desc_bytes(&image), "an image", err));
    out->image = iter_tensor_dense(&image, worker->growing[0].data);
    ITER_TRY(use.ops->decode_image(use.state, use.shared, bytes, size, &wish, &out->image, err));
    image.dims[0] = out->image.desc.dims[0];
    image.dims[1] = out->image.desc.dims[1];
    if (image.dims[0] <= 0 || image.dims[1] <= 0 || image.dims[0] > wish.part.height ||
        image.dims[1] > wish.part.width)
        return iter__fail(err, ITER_EINVAL,
                          "its decoder made %lld x %lld pixels, expected at most %lld x %lld",
                          (long long)image.dims[0], (long long)image.dims[1],
                          (long long)wish.part.height, (long long)wish.part.width);
    out->image = iter_tensor_dense(&image, out->image.data);
    if (rows.n_rows == 0) return ITER_OK;
    if (rows.n_put != image.dims[0])
        return iter__fail(err, ITER_EINVAL, "its decoder passed %lld rows, expected %lld",
                          (long long)rows.n_put, (long long)image.dims[0]);
    out->image = rows.made;
    out->buffer = rows.buffer;
    out->wished = false;
    out->n_steps = 1;
    if (!rows.pack) return ITER_OK;
    if (rows.n_packed != rows.made.desc.dims[0])
        return iter__fail(err, ITER_EINVAL, "%s made %lld of %lld rows",
                          first->stage->ops->base.name, (long long)rows.n_packed,
                          (long long)rows.made.desc.dims[0]);
    iter__picture_lies(out, &rows.pack->out, outs[1]);
    out->n_steps = 2;
    return ITER_OK;
}

iter_status iter__picture_step(iter__worker *worker, const iter__step *step, void *out,
                               iter__picture *p, iter_error *err) {
    iter_tensor to;
    int32_t buffer;
    if (!p->wished) {
        iter_image_wish wish;
        ITER_TRY(ask(step, &p->image.desc, &p->rng, &wish, err));
        ITER_TRY(cut(worker, p, &wish.part, err));
    }
    p->wished = false;
    ITER_TRY(prepare(worker, step, p, out, &to, &buffer, err));
    ITER_TRY(step->stage->ops->apply(worker->transform_states[step->state], step->stage->options,
                                     &p->image, &to, &p->rng,
                                     worker->growing[ITER_GROWING - 1].data, err));
    p->image = iter_tensor_dense(&to.desc, to.data);
    p->buffer = buffer;
    return ITER_OK;
}
