/*
 * cpu_elementwise.c - relu, tanh, sigmoid and dropout, in place unless the old values are still
 * needed.
 *
 * A relu followed by a dropout is one pass. On the way back it needs only its output: if that is
 * positive, the gradient is multiplied by the scale, else it is zero. A dropout alone draws its
 * mask a second time, which takes less time than reading it from memory.
 *
 * A mask's numbers belong to positions in an image (net.h). So a dropout walks through memory in
 * segments: runs of `length` contiguous floats that follow one another at equal distances of
 * positions.
 */
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"

#define TILE      256 /* number of blocks, of 8 elements, whose mask is drawn at once */
#define ONE_BLOCK 8

typedef struct segments {
    int64_t per_row;    /* per row of the batch */
    int64_t first_step; /* positions from the start of one segment to the next */
    int64_t runs, length, stride;
    bool planes; /* NCHW: a segment is a line of pixels, and channels are not contiguous */
    bool steps;  /* a sequence: segments of one step are contiguous */
} segments;

typedef struct elementwise {
    cpu_node node;
    engine_kind kind; /* of the first layer */
    bool drops;
    cpu_draw draw; /* without row and step */
    float scale;
    segments segments;
} elementwise;

/* ---- Sharing work ---------------------------------------------------------------------------- */

typedef struct work {
    const elementwise *e;
    const float *x, *y;
    float *to;
    bool back, mask, relu;
    uint64_t step;
    int64_t first_row;
} work;

static uint32_t team(const elementwise *e) {
    return iter__cpu_worth(e->node.out->n_elements, e->node.shared->threads);
}

/* This thread's floats, in whole cache lines. */
static void share(const work *w, uint32_t t, uint32_t threads, int64_t *from, int64_t *to) {
    const int64_t n = w->e->node.out->n_elements, lines = (n + 15) / 16;
    *from = 16 * iter__cpu_part(lines, t, threads);
    *to = 16 * iter__cpu_part(lines, t + 1, threads);
    if (*to > n) *to = n;
}

/* ---- Without a mask -------------------------------------------------------------------------- */

static void forward_part(void *user, uint32_t t, uint32_t threads) {
    const work *w = user;
    const cpu_shared *shared = w->e->node.shared;
    int64_t i, end;
    share(w, t, threads, &i, &end);
    if (i >= end) return;
    switch (w->e->kind) {
    case ENGINE_RELU: shared->maps->relu(end - i, w->x + i, w->to + i); return;
    case ENGINE_TANH: shared->kernels->tanh(end - i, w->x + i, w->to + i); return;
    case ENGINE_SIGMOID: shared->kernels->sigmoid(end - i, w->x + i, w->to + i); return;
    default: memcpy(w->to + i, w->x + i, (size_t)(end - i) * sizeof(float)); return;
    }
}

static void backward_part(void *user, uint32_t t, uint32_t threads) {
    const work *w = user;
    const cpu_maps *maps = w->e->node.shared->maps;
    int64_t i, end;
    share(w, t, threads, &i, &end);
    if (i >= end) return;
    switch (w->e->kind) {
    case ENGINE_RELU: maps->relu_back(end - i, w->y + i, w->x + i, w->e->scale, w->to + i); return;
    case ENGINE_TANH: maps->tanh_back(end - i, w->y + i, w->x + i, w->to + i); return;
    default: maps->sigmoid_back(end - i, w->y + i, w->x + i, w->to + i); return;
    }
}

/* Needed because 1 / (1 + exp(0)) is not 0. */
static void clear_padding(const cpu_place *place) {
    const int64_t channels = iter__image_channels(&place->image), c = place->image.c;
    if (place->shape.n_dims != 3 || channels == c) return;
    const int64_t block = place->image.order == CPU_ORDER_BLOCK16 ? 16 : 8;
    const int64_t pixels = place->image.h * place->image.w;
    for (int64_t n = 0; n < place->image.n; n++) {
        float *last = place->values + ((n + 1) * channels - block) * pixels;
        for (int64_t i = 0; i < pixels; i++)
            memset(last + i * block + c % block, 0, (size_t)(channels - c) * sizeof(float));
    }
}

/* ---- With a mask ----------------------------------------------------------------------------- */

static segments segments_of(const cpu_place *place) {
    const cpu_image *image = &place->image;
    const int64_t c16 = (image->c + 15) / 16 * 16, pixels = image->h * image->w;
    if (place->shape.n_dims == 1)
        return (segments){.per_row = 1, .runs = 1, .length = place->shape.dims[0]};
    if (place->shape.n_dims == 2)
        return (segments){.per_row = place->shape.dims[0],
                          .first_step = place->shape.dims[1],
                          .runs = 1,
                          .length = place->shape.dims[1],
                          .steps = true};
    switch (image->order) {
    case CPU_ORDER_BLOCK16:
    case CPU_ORDER_BLOCK8: {
        const int64_t block = image->order == CPU_ORDER_BLOCK16 ? 16 : 8;
        return (segments){.per_row = iter__image_channels(image) / block,
                          .first_step = block,
                          .runs = pixels,
                          .length = block,
                          .stride = c16};
    }
    case CPU_ORDER_NHWC:
        return (segments){.per_row = image->h,
                          .first_step = image->w * c16,
                          .runs = image->w,
                          .length = image->c,
                          .stride = c16};
    default:
        return (segments){.per_row = image->h,
                          .first_step = image->w * c16,
                          .runs = image->w,
                          .length = image->c,
                          .stride = c16,
                          .planes = true};
    }
}

static void draw_bits(const work *w, const cpu_draw *draw, int64_t n, uint32_t blocks[TILE],
                      uint8_t bits[TILE]) {
    const int64_t room = (n + CPU_DRAW_BLOCKS - 1) / CPU_DRAW_BLOCKS * CPU_DRAW_BLOCKS;
    for (int64_t i = n; i < room; i++)
        blocks[i] = 0;
    if (draw->threshold > UINT16_MAX)
        memset(bits, 0, (size_t)n);
    else
        w->e->node.shared->maps->draw(draw, n, blocks, bits);
}

/* `blocks` blocks per run; the last one may be cut at `length` floats. Floats are contiguous. */
static void drop_runs(const work *w, const cpu_draw *draw, int64_t first, int64_t runs,
                      int64_t length, int64_t stride, int64_t at) {
    const cpu_maps *maps = w->e->node.shared->maps;
    const int64_t a_run = (length + ONE_BLOCK - 1) / ONE_BLOCK, n = runs * a_run;
    const int64_t floats = runs == 1 ? length : runs * length;
    uint32_t blocks[TILE];
    uint8_t bits[TILE];
    int64_t base = first / ONE_BLOCK, j = 0;
    for (int64_t k = 0; k < n; k += TILE) {
        const int64_t m = n - k < TILE ? n - k : TILE;
        for (int64_t i = 0; i < m; i++) {
            blocks[i] = (uint32_t)(base + j);
            if (++j == a_run) {
                j = 0;
                base += stride / ONE_BLOCK;
            }
        }
        draw_bits(w, draw, m, blocks, bits);
        const int64_t from = k * ONE_BLOCK, left = floats - from;
        maps->drop(left < m * ONE_BLOCK ? left : m * ONE_BLOCK, w->x + at + from, bits, w->e->scale,
                   w->relu, w->to + at + from);
    }
}

/* One run that begins inside a block. */
static void drop_shifted(const work *w, const cpu_draw *draw, int64_t first, int64_t length,
                         int64_t at) {
    const int shift = (int)(first % ONE_BLOCK);
    uint32_t blocks[TILE];
    uint8_t bits[TILE];
    for (int64_t k = 0; k < length; k += (TILE - 1) * ONE_BLOCK) {
        const int64_t left = length - k;
        const int64_t floats = left < (TILE - 1) * ONE_BLOCK ? left : (TILE - 1) * ONE_BLOCK;
        const int64_t m = (shift + floats + ONE_BLOCK - 1) / ONE_BLOCK;
        for (int64_t i = 0; i < m; i++)
            blocks[i] = (uint32_t)((first + k) / ONE_BLOCK + i);
        draw_bits(w, draw, m, blocks, bits);
        for (int64_t i = 0; i < m; i++)
            bits[i] = (uint8_t)(bits[i] >> shift | (i + 1 < m ? bits[i + 1] << (8 - shift) : 0));
        w->e->node.shared->maps->drop(floats, w->x + at + k, bits, w->e->scale, w->relu,
                                      w->to + at + k);
    }
}

/* Eight channels of up to TILE pixels of one line; `at` is the first channel's first pixel. */
static void drop_pixels(const work *w, const uint8_t *bits, int64_t pixels, int64_t channels,
                        int64_t plane, int64_t at) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) {
            const float x = w->x[at + c * plane + i];
            const float value = w->relu && x < 0 ? 0.0f : x;
            w->to[at + c * plane + i] = bits[i] >> c & 1 ? value * w->e->scale : 0.0f;
        }
}

/* Line y of an image whose channels are not contiguous. */
static void drop_planes(const work *w, const cpu_draw *draw, int64_t first, int64_t line,
                        int64_t image_at) {
    const cpu_image *image = &w->e->node.out->image;
    const int64_t plane = image->h * image->w, stride = w->e->segments.stride;
    uint32_t blocks[TILE];
    uint8_t bits[TILE];
    for (int64_t c = 0; c < image->c; c += ONE_BLOCK)
        for (int64_t x = 0; x < image->w; x += TILE) {
            const int64_t m = image->w - x < TILE ? image->w - x : TILE;
            for (int64_t i = 0; i < m; i++)
                blocks[i] = (uint32_t)((first + (x + i) * stride + c) / ONE_BLOCK);
            draw_bits(w, draw, m, blocks, bits);
            drop_pixels(w, bits, m, image->c - c < ONE_BLOCK ? image->c - c : ONE_BLOCK, plane,
                        image_at + c * plane + line * image->w + x);
        }
}

static void drop_part(void *user, uint32_t t, uint32_t threads) {
    const work *w = user;
    const elementwise *e = w->e;
    const segments *s = &e->segments;
    const int64_t rows = e->node.shared->net->batch, n = rows * s->per_row;
    const int64_t row_floats = e->node.out->n_elements / rows;
    const int64_t end = iter__cpu_part(n, t + 1, threads);
    cpu_draw draw = e->draw;
    draw.step[0] = (uint32_t)w->step;
    draw.step[1] = (uint32_t)(w->step >> 32);
    for (int64_t i = iter__cpu_part(n, t, threads); i < end; i++) {
        const int64_t row = s->steps ? i % rows : i / s->per_row;
        const int64_t k = s->steps ? i / rows : i % s->per_row, first = k * s->first_step;
        const int64_t at = i * (row_floats / s->per_row);
        draw.row = (uint32_t)(w->first_row + row);
        if (s->planes)
            drop_planes(w, &draw, first, k, row * row_floats);
        else if (first % ONE_BLOCK != 0)
            drop_shifted(w, &draw, first, s->length, at);
        else if (s->length % ONE_BLOCK == 0 || s->runs == 1)
            drop_runs(w, &draw, first, s->runs, s->length, s->stride, at);
        else
            for (int64_t r = 0; r < s->runs; r++)
                drop_runs(w, &draw, first + r * s->stride, 1, s->length, s->stride,
                          at + r * s->length);
    }
}

/* ---- The node -------------------------------------------------------------------------------- */

static iter_status forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)err;
    const elementwise *e = (const elementwise *)node;
    work w = {.e = e,
              .x = node->in->values,
              .to = node->out->values,
              .relu = e->kind == ENGINE_RELU,
              .step = run->batch->step,
              .first_row = run->batch->first_row};
    if (e->drops && run->what != ENGINE_RUN_FORWARD)
        iter__cpu_parallel(team(e), drop_part, &w);
    else if (e->kind != ENGINE_DROPOUT || w.x != w.to)
        iter__cpu_parallel(team(e), forward_part, &w);
    if (e->kind == ENGINE_SIGMOID) clear_padding(node->out);
    return ITER_OK;
}

static iter_status backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)err;
    const elementwise *e = (const elementwise *)node;
    work w = {.e = e,
              .x = node->out->gradient,
              .y = node->out->values,
              .to = node->in->gradient,
              .step = run->batch->step,
              .first_row = run->batch->first_row};
    if (!w.to) return ITER_OK;
    iter__cpu_parallel(team(e), e->kind == ENGINE_DROPOUT ? drop_part : backward_part, &w);
    return ITER_OK;
}

static void text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    const elementwise *e = (const elementwise *)node;
    const char *level = e->kind == ENGINE_TANH || e->kind == ENGINE_SIGMOID
                            ? node->shared->kernels->name
                            : node->shared->maps->name;
    if (layer > node->first_layer)
        snprintf(out, capacity, "in one pass with %s", iter__node_layer(node)->name);
    else
        snprintf(out, capacity, "%s%s", level, node->in == node->out ? ", in place" : "");
}

static const cpu_node_ops ops = {.forward = forward, .backward = backward, .text = text};

iter_status iter__node_elementwise(cpu_planner *planner, int32_t first, cpu_place *in,
                                   cpu_place **out, int32_t *n_layers, iter_error *err) {
    const engine_net *net = iter__plan_shared(planner)->net;
    const engine_layer *layer = &net->layers[first];
    const bool pair = layer->kind == ENGINE_RELU && layer[1].kind == ENGINE_DROPOUT;
    const engine_layer *dropout = layer->kind == ENGINE_DROPOUT ? layer : pair ? layer + 1 : NULL;
    *n_layers = pair ? 2 : 1;
    *out = in->kept ? iter__cpu_place_new(planner, in, &in->shape, in->image.order) : in;
    (*out)->turn = in->turn;
    (*out)->kept = layer->kind != ENGINE_DROPOUT;
    cpu_node *node;
    ENGINE_TRY(iter__plan_node(planner, sizeof(elementwise), &ops, first, *n_layers, in, *out,
                               &node, err));
    elementwise *e = (elementwise *)node;
    e->kind = layer->kind;
    e->scale = 1.0f;
    if (!dropout) return ITER_OK;
    const double p = dropout->options.dropout.p;
    e->drops = true;
    e->scale = (float)(1 / (1 - p));
    e->draw = (cpu_draw){.key = {(uint32_t)dropout->rng_key, (uint32_t)(dropout->rng_key >> 32)},
                         .threshold = iter__dropout_threshold(p)};
    e->segments = segments_of(*out);
    return ITER_OK;
}
