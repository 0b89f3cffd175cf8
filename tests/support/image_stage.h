/*
 * image_stage.h - pixels that are easy to make again elsewhere, and image stages called as the
 * loader calls them.
 *
 * Sources and targets of a stage lie next to inaccessible pages.
 */
#ifndef TESTS_SUPPORT_IMAGE_STAGE_H
#define TESTS_SUPPORT_IMAGE_STAGE_H

#include <stdlib.h>
#include <time.h>

#include <iter/chain.h>
#include <iter/convert.h>

#include "iter/spec/chain.h"
#include "tests/support/expect.h"
#include "tests/support/guarded.h"

#define LEVELS 4
#define SEED   UINT64_C(7)

static const char *const levels[LEVELS] = {"generic", "avx2", "avx512", "neon"};

/* Returns true if the machine has the level, which stages started from now on then use. */
static inline int use_level(int level) {
    setenv("ITER_CPU", levels[level], 1);
    return strcmp(iter_cpu_level(), levels[level]) == 0;
}

static inline iter_desc pixels(int64_t height, int64_t width, int64_t channels) {
    return (iter_desc){
        .dtype = ITER_U8, .n_dims = 3, .dims = {height, width, channels}, .layout = "HWC"};
}

/* Fills with noise for odd seeds, with slopes and some noise for even ones; the golden script makes
 * the same. */
static inline void fill(uint8_t *data, int64_t height, int64_t width, int64_t channels,
                        uint32_t seed) {
    uint32_t state = seed;
    for (int64_t i = 0; i < height * width * channels; i++) {
        const int64_t y = i / (width * channels), x = i / channels % width, c = i % channels;
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed & 1 ? state >> 24 : 3 * x + 2 * y + 40 * c + (state >> 28));
    }
}

static inline uint64_t fnv(const uint8_t *data, size_t n) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* ---- Stages, called as the loader calls them ------------------------------------------------- */

typedef struct picture {
    iter_desc desc;
    uint8_t *data;
} picture;

/* Runs the stage again over rows that come one by one, if it accepts rows: the bytes must be the
 * same. */
static inline void check_rows(const iter__stage *stage, void *state, const iter_tensor *in,
                              iter_tensor *out, const uint8_t *want, void *scratch) {
    const iter_tensor to_come = {.desc = in->desc};
    const size_t row_bytes = (size_t)(in->desc.dims[1] * in->desc.dims[2]);
    const size_t reach = stage->ops->begin_rows(state, stage->options, &to_come, out, scratch);
    if (reach == 0) return;
    int64_t made = 0;
    memset(out->data, 0xa5, iter_desc_bytes(&out->desc));
    for (int64_t y = 0; y < in->desc.dims[0]; y++) {
        guarded row = guarded_new(reach, 0, 0);
        memcpy(row.data, (const uint8_t *)in->data + (size_t)y * row_bytes, row_bytes);
        const uint8_t *at = (const uint8_t *)row.data;
        made = stage->ops->take_rows(state, &at, 1);
        guarded_free(&row);
    }
    EXPECT_EQ(made, out->desc.dims[0]);
    EXPECT(memcmp(out->data, want, iter_desc_bytes(&out->desc)) == 0);
}

/* Runs one stage over an image of any size: wish, part, plan, apply. On an error *out is
 * unchanged. */
static inline iter_status run_stage(const iter__stage *stage, const picture *in, uint64_t position,
                                    picture *out, iter_error *err) {
    const iter_transform_ops *ops = stage->ops;
    iter_rng rng = iter_rng_at(iter_rng_key(SEED, ops->base.name, stage->occurrence),
                               (uint32_t)(position / 3), position);
    iter_image_wish wish = {.part = {0, 0, in->desc.dims[0], in->desc.dims[1]}};
    if (ops->wish) ops->wish(stage->options, &in->desc, &rng, &wish);
    const iter_rect *part = &wish.part;
    picture cut = {.desc = pixels(part->height, part->width, in->desc.dims[2])};
    const size_t pixel = (size_t)in->desc.dims[2], row = (size_t)part->width * pixel;
    guarded source = guarded_new(row * (size_t)part->height, 0, 0);
    for (int64_t y = 0; y < part->height; y++)
        memcpy(source.data + (size_t)y * row,
               in->data + (size_t)((part->y + y) * in->desc.dims[1] + part->x) * pixel, row);
    size_t scratch_bytes = 0;
    iter_status status = ops->plan(stage->options, &cut.desc, &out->desc, &scratch_bytes, err);
    if (status == ITER_OK) {
        guarded target = guarded_new(iter_desc_bytes(&out->desc), 0, 0);
        void *scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64 + 64);
        uint64_t state[64] = {0};
        if (!EXPECT(ops->base.state_size <= sizeof(state))) abort();
        if (ops->start) EXPECT_OK(ops->start(state, stage->options, err), err);
        const iter_tensor from = iter_tensor_dense(&cut.desc, source.data);
        iter_tensor to = iter_tensor_dense(&out->desc, target.data);
        status = ops->apply(state, stage->options, &from, &to, &rng, scratch, err);
        EXPECT(guarded_is_clean(&target));
        out->data = malloc(iter_desc_bytes(&out->desc));
        memcpy(out->data, target.data, iter_desc_bytes(&out->desc));
        if (status == ITER_OK && ops->begin_rows)
            check_rows(stage, state, &from, &to, out->data, scratch);
        EXPECT(guarded_is_clean(&target));
        if (ops->stop) ops->stop(state);
        free(scratch);
        guarded_free(&target);
    }
    guarded_free(&source);
    return status;
}

/* Runs a whole chain of sample stages that have apply. */
static inline iter_status run_chain(const char *text, const picture *in, uint64_t position,
                                    picture *out, iter_error *err) {
    iter_chain *chain = NULL;
    iter_status status = iter_chain_parse(text, NULL, &chain, err);
    picture now = {in->desc, malloc(iter_desc_bytes(&in->desc))};
    memcpy(now.data, in->data, iter_desc_bytes(&in->desc));
    for (int32_t i = 0; status == ITER_OK && i < iter__chain_n_stages(chain); i++) {
        picture next = {.data = NULL};
        status = run_stage(iter__chain_stage(chain, i), &now, position, &next, err);
        if (status < 0) break;
        free(now.data);
        now = next;
    }
    iter_chain_unref(chain);
    if (status < 0) {
        free(now.data);
        return status;
    }
    *out = now;
    return ITER_OK;
}

static inline picture picture_new(int64_t height, int64_t width, int64_t channels, uint32_t seed) {
    picture p = {.desc = pixels(height, width, channels)};
    p.data = malloc(iter_desc_bytes(&p.desc));
    fill(p.data, height, width, channels, seed);
    return p;
}

static inline void check_pixels(const char *chain, const picture *got, const picture *want,
                                int most) {
    if (!EXPECT_EQ(got->desc.dims[0], want->desc.dims[0]) ||
        !EXPECT_EQ(got->desc.dims[1], want->desc.dims[1]))
        fprintf(stderr, "  \"%s\"\n", chain);
    else
        for (int64_t i = 0; i < iter_desc_elements(&want->desc); i++)
            if (abs(got->data[i] - want->data[i]) > most) {
                EXPECT_EQ(got->data[i], want->data[i]);
                fprintf(stderr, "  \"%s\", byte %lld\n", chain, (long long)i);
                return;
            }
}

static inline iter_chain *one_stage(const char *text, const iter__stage **out) {
    iter_chain *chain = NULL;
    iter_error err = {0};
    if (!EXPECT_OK(iter_chain_parse(text, NULL, &chain, &err), &err)) abort();
    *out = iter__chain_stage(chain, 0);
    return chain;
}

static inline double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

#endif
