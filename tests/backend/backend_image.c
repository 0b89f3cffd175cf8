/*
 * backend_image.c - resizes, and crops of images of any size: every SIMD level against the naive
 * reference, and against Pillow's results.
 *
 * Bilinear with antialias and nearest are exact. Bilinear without antialias, and area, may differ
 * by one level from the reference, whose weights are not computed in integers. All levels give the
 * same bytes. Sources and targets lie next to inaccessible pages.
 *
 * --perf times the resizes and prints a table.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <iter/transforms.h>

#include "iter/spec/pack.h"
#include "tests/golden/pillow.h"
#include "tests/support/image_stage.h"
#include "tests/support/reference_image.h"
#include "transforms/resample/resample.h"

/* ---- Resample -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const resample_kernels *kernels;
} kernels[] = {
    {"generic", &iter__resample_generic},
#if defined(__x86_64__)
    {"avx2", &iter__resample_avx2},
    {"avx512", &iter__resample_avx512},
    {"vnni", &iter__resample_vnni},
#endif
};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

static int has_kernels(size_t k) {
    if (k == 0) return 1;
    if (k == 1) return use_level(1);
#if defined(__x86_64__)
    if (k == 3 && !__builtin_cpu_supports("avx512vnni")) return 0;
#endif
    return use_level(2);
}

static int n_by_rows;

typedef struct resample_case {
    int64_t height, width, channels, out_height, out_width;
} resample_case;

/* Resamples rows that come one to five at a time, in memory that ends where the request ends.
 * Returns true and leaves out as it was if it cannot be done by rows. */
static int resample_by_rows(const resample_case *t, resample_filter filter, size_t k,
                            const uint8_t *data, int64_t step, uint8_t *out, void *scratch) {
    enum { MOST = 5 };
    const size_t row = (size_t)(t->width * t->channels);
    const uint8_t *rows[MOST];
    guarded room[MOST];
    size_t reach = 0;
    int64_t made = 0;
    resample_run *run =
        iter__resample_begin(filter, t->height, t->width, out, t->out_height, t->out_width,
                             (int32_t)t->channels, kernels[k].kernels, scratch, &reach);
    if (!run) return 1;
    memset(out, 0xa5, (size_t)(t->out_height * t->out_width * t->channels));
    int ok = EXPECT(reach >= row);
    for (int i = 0; i < MOST; i++)
        room[i] = guarded_new(reach, 0, 0);
    for (int64_t y = 0, n; y < t->height && ok; y += n) {
        n = 1 + (y * step + step) % MOST;
        if (n > t->height - y) n = t->height - y;
        for (int64_t i = 0; i < n; i++) {
            memset(room[i].data, 0x5a, reach);
            memcpy(room[i].data, data + (size_t)(y + i) * row, row);
            rows[i] = (const uint8_t *)room[i].data;
        }
        const int64_t now = iter__resample_rows(run, rows, (int32_t)n);
        ok = EXPECT(now >= made && now <= t->out_height);
        made = now;
        for (int64_t i = 0; i < n; i++)
            memset(room[i].data, 0xc3, reach);
    }
    n_by_rows++;
    for (int i = 0; i < MOST; i++)
        guarded_free(&room[i]);
    return ok && EXPECT_EQ(made, t->out_height);
}

/* Resamples with one set of kernels into fresh memory, with the given row_step. */
static int resample_once(const resample_case *t, resample_filter filter, size_t k,
                         const uint8_t *data, int64_t gap, int at_start, uint8_t *want) {
    const size_t row = (size_t)(t->width * t->channels), step = row + (size_t)gap;
    const size_t in_bytes = step * (size_t)(t->height - 1) + row;
    const size_t out_bytes = (size_t)(t->out_height * t->out_width * t->channels);
    const size_t scratch_bytes = iter__resample_scratch(filter, t->height, t->width, t->out_height,
                                                        t->out_width, (int32_t)t->channels);
    guarded in = guarded_new(in_bytes, at_start, 0), out = guarded_new(out_bytes, at_start, 0);
    guarded scratch = guarded_new((scratch_bytes + 63) / 64 * 64, 0, 0);
    for (int64_t y = 0; y < t->height; y++)
        memcpy(in.data + (size_t)y * step, data + (size_t)y * row, row);
    mprotect(in.first, in.room, PROT_READ);
    const resample_image image = {(uint8_t *)in.data, (ptrdiff_t)step, t->height, t->width};
    iter__resample(filter, &image, (uint8_t *)out.data, t->out_height, t->out_width,
                   (int32_t)t->channels, kernels[k].kernels, scratch.data);
    int ok = EXPECT(guarded_is_clean(&out)) && EXPECT(guarded_is_clean(&scratch));
    if (k == 0 && gap == 0)
        memcpy(want, out.data, out_bytes);
    else
        ok = ok && EXPECT(memcmp(want, out.data, out_bytes) == 0);
    ok = ok && resample_by_rows(t, filter, k, data, 1 + gap, (uint8_t *)out.data, scratch.data) &&
         EXPECT(memcmp(want, out.data, out_bytes) == 0) && EXPECT(guarded_is_clean(&out)) &&
         EXPECT(guarded_is_clean(&scratch));
    if (!ok)
        fprintf(stderr, "  filter %d, %lld x %lld x %lld to %lld x %lld, %s, gap %lld\n",
                (int)filter, (long long)t->height, (long long)t->width, (long long)t->channels,
                (long long)t->out_height, (long long)t->out_width, kernels[k].name, (long long)gap);
    guarded_free(&in);
    guarded_free(&out);
    guarded_free(&scratch);
    return ok;
}

static void resample_check(const resample_case *t, resample_filter filter, uint32_t seed) {
    static const reference_filter naive[] = {REFERENCE_TRIANGLE, REFERENCE_CUBIC, REFERENCE_LINEAR,
                                             REFERENCE_AREA, REFERENCE_NEAREST};
    const size_t in_bytes = (size_t)(t->height * t->width * t->channels);
    const size_t out_bytes = (size_t)(t->out_height * t->out_width * t->channels);
    uint8_t *in = malloc(in_bytes), *got = malloc(out_bytes), *want = malloc(out_bytes);
    if (!in || !got || !want) abort();
    fill(in, t->height, t->width, t->channels, seed);
    int ok = 1;
    for (size_t k = 0; k < KERNELS && ok; k++) {
        if (!has_kernels(k)) continue;
        ok = resample_once(t, filter, k, in, 0, (int)(seed & 1), got) &&
             resample_once(t, filter, k, in, 7, (int)(seed & 1), got);
    }
    reference_resize(naive[filter], in, t->height, t->width, (int32_t)t->channels, want,
                     t->out_height, t->out_width);
    const int most = filter == RESAMPLE_LINEAR || filter == RESAMPLE_AREA;
    for (size_t i = 0; i < out_bytes && ok; i++)
        if (abs(got[i] - want[i]) > most) {
            ok = EXPECT_EQ(got[i], want[i]);
            fprintf(stderr, "  byte %zu, filter %d, %lld x %lld x %lld to %lld x %lld\n", i,
                    (int)filter, (long long)t->height, (long long)t->width, (long long)t->channels,
                    (long long)t->out_height, (long long)t->out_width);
        }
    free(in);
    free(got);
    free(want);
}

/* Larger and smaller, each number of taps that a kernel supports, one pixel, one line, both orders
 * of passes. */
static void test_resample(void) {
    static const resample_case cases[] = {
        {1, 1, 3, 1, 1},     {1, 1, 3, 5, 7},     {5, 7, 3, 1, 1},     {2, 3, 3, 3, 2},
        {17, 19, 3, 17, 19}, {17, 19, 3, 17, 31}, {9, 40, 3, 23, 40},  {16, 24, 3, 8, 12},
        {33, 65, 3, 20, 37}, {40, 30, 3, 13, 28}, {64, 9, 3, 5, 9},    {23, 57, 3, 11, 12},
        {7, 97, 3, 6, 13},   {97, 7, 3, 13, 6},   {61, 61, 3, 33, 8},  {31, 29, 3, 64, 61},
        {3, 200, 3, 5, 7},   {200, 3, 3, 7, 5},   {1, 90, 3, 1, 33},   {90, 1, 3, 33, 1},
        {33, 65, 1, 20, 37}, {33, 65, 2, 20, 37}, {33, 65, 4, 20, 37}, {40, 50, 4, 39, 20},
        {50, 44, 1, 9, 40},  {12, 13, 4, 25, 26}, {48, 47, 2, 7, 9},   {26, 27, 1, 25, 28},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int filter = RESAMPLE_BILINEAR; filter <= RESAMPLE_NEAREST; filter++)
            for (uint32_t seed = 1; seed < 3; seed++)
                resample_check(&cases[i], (resample_filter)filter, seed + (uint32_t)(2 * i));
}

/* More taps than the SIMD kernels can add up, and a picture of a single colour. */
static void test_resample_extremes(void) {
    static const resample_case cases[] = {{1, 20000, 1, 1, 2}, {9000, 1, 3, 1, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        resample_check(&cases[i], RESAMPLE_BILINEAR, 1);
        resample_check(&cases[i], RESAMPLE_BICUBIC, 1);
        resample_check(&cases[i], RESAMPLE_AREA, 2);
    }
    enum { IN = 77, OUT = 45 };
    static uint8_t in[IN * IN * 3], out[OUT * OUT * 3];
    for (int value = 0; value < 256; value += 51)
        for (int filter = RESAMPLE_BILINEAR; filter <= RESAMPLE_NEAREST; filter++)
            for (size_t k = 0; k < KERNELS; k++) {
                if (!has_kernels(k)) continue;
                const resample_image image = {in, IN * 3, IN, IN};
                const size_t bytes =
                    iter__resample_scratch((resample_filter)filter, IN, IN, OUT, OUT, 3);
                void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
                memset(in, value, sizeof(in));
                iter__resample((resample_filter)filter, &image, out, OUT, OUT, 3,
                               kernels[k].kernels, scratch);
                for (size_t i = 0; i < sizeof(out); i++)
                    if (!EXPECT_EQ(out[i], value)) break;
                free(scratch);
            }
}

/* Compares with Pillow's result for the same pixels. */
static void check_golden(const struct pillow_resize *t, resample_filter filter, uint64_t want) {
    const size_t out_bytes = (size_t)(t->out_height * t->out_width * t->channels);
    uint8_t *in = malloc((size_t)(t->height * t->width * t->channels)), *out = malloc(out_bytes);
    const size_t bytes = iter__resample_scratch(filter, t->height, t->width, t->out_height,
                                                t->out_width, t->channels);
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    fill(in, t->height, t->width, t->channels, t->seed);
    for (size_t k = 0; k < KERNELS; k++) {
        if (!has_kernels(k)) continue;
        const resample_image image = {in, t->width * t->channels, t->height, t->width};
        iter__resample(filter, &image, out, t->out_height, t->out_width, t->channels,
                       kernels[k].kernels, scratch);
        if (!EXPECT(fnv(out, out_bytes) == want))
            fprintf(stderr, "  filter %d, %d x %d to %d x %d, seed %u, %s\n", (int)filter,
                    t->height, t->width, t->out_height, t->out_width, t->seed, kernels[k].name);
    }
    free(in);
    free(out);
    free(scratch);
}

static void test_resample_golden(void) {
    for (size_t i = 0; i < sizeof(pillow_resizes) / sizeof(pillow_resizes[0]); i++) {
        check_golden(&pillow_resizes[i], RESAMPLE_BILINEAR, pillow_resizes[i].bilinear);
        check_golden(&pillow_resizes[i], RESAMPLE_BICUBIC, pillow_resizes[i].bicubic);
    }
}

/* Black beside white, where a cubic goes below 0 and above 255, most of all when it enlarges. */
static void test_resample_edges(void) {
    static const resample_case cases[] = {{8, 8, 3, 37, 41}, {2, 2, 1, 64, 64}, {9, 30, 4, 9, 13},
                                          {30, 9, 3, 11, 9}, {3, 64, 1, 7, 65}, {12, 12, 3, 13, 7}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int step = 1; step < 4; step++)
            for (size_t k = 0; k < KERNELS; k++) {
                const resample_case *t = &cases[i];
                if (!has_kernels(k)) continue;
                picture in = picture_new(t->height, t->width, t->channels, 1);
                picture got = picture_new(t->out_height, t->out_width, t->channels, 1);
                picture want = picture_new(t->out_height, t->out_width, t->channels, 1);
                for (int64_t p = 0; p < t->height * t->width * t->channels; p++) {
                    const int64_t y = p / (t->width * t->channels), x = p / t->channels % t->width;
                    in.data[p] = (x / step + y / step) % 2 ? 255 : 0;
                }
                const resample_image image = {in.data, t->width * t->channels, t->height, t->width};
                const size_t bytes =
                    iter__resample_scratch(RESAMPLE_BICUBIC, t->height, t->width, t->out_height,
                                           t->out_width, (int32_t)t->channels);
                void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
                iter__resample(RESAMPLE_BICUBIC, &image, got.data, t->out_height, t->out_width,
                               (int32_t)t->channels, kernels[k].kernels, scratch);
                reference_resize(REFERENCE_CUBIC, in.data, t->height, t->width,
                                 (int32_t)t->channels, want.data, t->out_height, t->out_width);
                check_pixels(kernels[k].name, &got, &want, 0);
                free(scratch);
                free(in.data);
                free(got.data);
                free(want.data);
            }
}

/* Images of any size must give what the fused pass gives for the same image of a fixed size. */
static void test_same_as_fold(void) {
    static const char *const chains[] = {
        "crop:3,2,9,11",
        "center-crop:8",
        "center-crop:height=9,width=4",
        "center-crop:height=11,width=10,rounding=torchvision",
        "random-crop:7",
        "random-crop:height=5,width=12",
        "random-crop:13,pad=3,fill=200.7",
        "random-crop:17,pad=9,mode=edge",
        "random-crop:15,pad=5,mode=reflect",
        "flip",
        "flip:vertical",
        "random-flip",
        "random-flip:0.5,axis=vertical",
        "random-erasing:1",
        "random-erasing:0.5,scale=0.3;1,ratio=0.1;10,fill=77",
        "random-crop:11,pad=2 | random-flip | random-erasing:0.7 | center-crop:6 | random-crop:5",
        "pad:2,value=77",
        "pad:top=1,right=3,mode=edge",
        "pad:20,mode=reflect",
        "cutout:5,fill=9",
        "posterize:3",
        "solarize:100",
        "invert",
        "gamma:0.5",
        "random-posterize:2",
        "random-solarize:99,0.6",
        "random-invert",
        "random-invert | pad:1,3 | gamma:2 | cutout:4,fill=200 | random-flip | posterize:5",
    };
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        for (uint64_t position = 0; position < 24; position++) {
            const int64_t channels = 1 + (int64_t)(position % 4);
            picture in = picture_new(14, 17, channels, (uint32_t)position), out = {.data = NULL};
            const iter__pack_sample sample = {SEED, position, (uint32_t)(position / 3)};
            const iter__stage *stages[8];
            iter_chain *chain = NULL;
            iter__pack *pack = NULL;
            iter_desc desc;
            size_t bytes = 0;
            iter_error err = {0};
            EXPECT_OK(iter_chain_parse(chains[i], NULL, &chain, &err), &err);
            const int32_t n = iter__chain_n_stages(chain);
            for (int32_t k = 0; k < n; k++)
                stages[k] = iter__chain_stage(chain, k);
            EXPECT_OK(iter__packer.create(&in.desc, stages, n, &pack, &desc, &bytes, &err), &err);
            uint8_t *want = malloc(iter_desc_bytes(&desc));
            void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
            iter__packer.run(pack, in.data, want, &sample, scratch, NULL);
            if (EXPECT_OK(run_chain(chains[i], &in, position, &out, &err), &err) &&
                !EXPECT(iter_desc_bytes(&desc) == iter_desc_bytes(&out.desc) &&
                        memcmp(want, out.data, iter_desc_bytes(&desc)) == 0))
                fprintf(stderr, "  \"%s\", position %d\n", chains[i], (int)position);
            iter__packer.destroy(pack);
            iter_chain_unref(chain);
            free(want);
            free(scratch);
            free(in.data);
            free(out.data);
        }
}

/* ---- Resizing stages ------------------------------------------------------------------------- */

static void test_resize_stages(void) {
    static const struct {
        const char *chain;
        int64_t height, width, out_height, out_width;
        reference_filter filter;
    } cases[] = {
        {"resize:24", 40, 30, 24, 24, REFERENCE_TRIANGLE},
        {"resize:height=21,width=50", 40, 30, 21, 50, REFERENCE_TRIANGLE},
        {"resize:24,antialias=0", 40, 30, 24, 24, REFERENCE_LINEAR},
        {"resize:24,interpolation=area", 40, 30, 24, 24, REFERENCE_AREA},
        {"resize:24,interpolation=nearest", 40, 30, 24, 24, REFERENCE_NEAREST},
        {"resize:24,interpolation=bicubic", 40, 30, 24, 24, REFERENCE_CUBIC},
        {"resize:height=90,width=21,interpolation=bicubic", 40, 30, 90, 21, REFERENCE_CUBIC},
        {"resize-short:20,interpolation=bicubic", 40, 30, 26, 20, REFERENCE_CUBIC},
        {"resize-short:20", 40, 30, 26, 20, REFERENCE_TRIANGLE},
        {"resize-short:20", 33, 47, 20, 28, REFERENCE_TRIANGLE},
        {"resize-short:20", 33, 33, 20, 20, REFERENCE_TRIANGLE},
        {"resize-short:50,interpolation=area", 30, 47, 50, 78, REFERENCE_AREA},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int level = 0; level < LEVELS; level++) {
            iter_error err = {0};
            picture in = picture_new(cases[i].height, cases[i].width, 3, 5), got = {.data = NULL};
            picture want = picture_new(cases[i].out_height, cases[i].out_width, 3, 6);
            if (use_level(level)) {
                reference_resize(cases[i].filter, in.data, cases[i].height, cases[i].width, 3,
                                 want.data, cases[i].out_height, cases[i].out_width);
                if (EXPECT_OK(run_chain(cases[i].chain, &in, 0, &got, &err), &err))
                    check_pixels(cases[i].chain, &got, &want,
                                 cases[i].filter == REFERENCE_LINEAR ||
                                     cases[i].filter == REFERENCE_AREA);
            }
            free(in.data);
            free(got.data);
            free(want.data);
        }
}

/* First row of a window of 8 rows in one of 8 to 20: by torchvision 0.14.1's
 * functional.center_crop(), and by n // 2, as usual with Pillow. */
static void test_center_crop(void) {
    static const int64_t torchvision[] = {0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 6};
    static const char *const chains[] = {"center-crop:8", "center-crop:8,rounding=torchvision"};
    for (int64_t n = 0; n < 13; n++)
        for (int k = 0; k < 2; k++) {
            const iter__stage *stage;
            iter_chain *chain = one_stage(chains[k], &stage);
            const iter_desc desc = pixels(8 + n, 20 - n, 3);
            iter_rng rng = iter_rng_at(1, 0, 0);
            iter_image_wish wish;
            stage->ops->wish(stage->options, &desc, &rng, &wish);
            EXPECT_EQ(wish.part.y, k ? torchvision[n] : n / 2);
            EXPECT_EQ(wish.part.x, k ? torchvision[12 - n] : (12 - n) / 2);
            iter_chain_unref(chain);
        }
}

/* Draws the window a second time: same numbers, sides by exp and log. Returns false if none
 * fits. */
static int drawn_window(iter_rng *rng, int64_t height, int64_t width, iter_rect *out) {
    for (int i = 0; i < 10; i++) {
        const double area =
            (double)(height * width) * (0.08 + (1.0 - 0.08) * (double)iter_rng_uniform(rng));
        const double low = log(3.0 / 4), high = log(4.0 / 3);
        const double aspect = exp(low + (high - low) * (double)iter_rng_uniform(rng));
        out->width = lrint(sqrt(area * aspect));
        out->height = lrint(sqrt(area / aspect));
        if (out->width < 1 || out->width > width || out->height < 1 || out->height > height)
            continue;
        out->y = (int64_t)iter_rng_below(rng, (uint64_t)(height - out->height + 1));
        out->x = (int64_t)iter_rng_below(rng, (uint64_t)(width - out->width + 1));
        return 1;
    }
    return 0;
}

static void test_random_resized_crop(void) {
    const iter__stage *stage;
    iter_chain *chain = one_stage("random-resized-crop:16", &stage);
    for (uint64_t position = 0; position < 2000; position++) {
        const int64_t height = 20 + (int64_t)(position % 300),
                      width = 20 + (int64_t)(position % 77);
        const iter_desc desc = pixels(height, width, 3);
        iter_rng rng = iter_rng_at(iter_rng_key(SEED, "random-resized-crop", 0), 1, position);
        iter_rng same = rng;
        iter_rect want;
        iter_image_wish got;
        stage->ops->wish(stage->options, &desc, &rng, &got);
        EXPECT(got.min_height == 0 && got.min_width == 0);
        if (drawn_window(&same, height, width, &want)) {
            EXPECT(memcmp(&want, &got.part, sizeof(want)) == 0);
            EXPECT_EQ(iter_rng_u32(&same), iter_rng_u32(&rng));
        }
    }
    iter_chain_unref(chain);

    /* If no window of such an aspect fits, it is the largest one in the middle. */
    iter_rng rng = iter_rng_at(1, 0, 0);
    iter_image_wish wish;
    chain = one_stage("random-resized-crop:16,scale=0.9;1,jpeg-scale=fast", &stage);
    iter_desc desc = pixels(30, 301, 3);
    stage->ops->wish(stage->options, &desc, &rng, &wish);
    EXPECT(wish.part.y == 0 && wish.part.height == 30 && wish.part.x == 130 &&
           wish.part.width == 40 && wish.min_height == 16 && wish.min_width == 16);
    desc = pixels(301, 30, 3);
    stage->ops->wish(stage->options, &desc, &rng, &wish);
    EXPECT(wish.part.x == 0 && wish.part.width == 30 && wish.part.y == 130 &&
           wish.part.height == 40);
    iter_chain_unref(chain);
    chain = one_stage("random-resized-crop:height=16,width=20,jpeg-scale=auto", &stage);
    stage->ops->wish(stage->options, &desc, &rng, &wish);
    EXPECT(wish.min_height == 32 && wish.min_width == 40);
    iter_chain_unref(chain);

    /* The result is the window, resized. */
    for (uint64_t position = 0; position < 6; position++) {
        picture in = picture_new(50, 41, 3, 9), got = {.data = NULL};
        picture want = picture_new(16, 16, 3, 0);
        iter_rng at = iter_rng_at(iter_rng_key(SEED, "random-resized-crop", 0),
                                  (uint32_t)(position / 3), position);
        iter_rect part;
        iter_error err = {0};
        if (!EXPECT(drawn_window(&at, 50, 41, &part))) abort();
        uint8_t *window = malloc((size_t)(part.height * part.width * 3));
        for (int64_t y = 0; y < part.height; y++)
            memcpy(window + y * part.width * 3, in.data + ((part.y + y) * 41 + part.x) * 3,
                   (size_t)(part.width * 3));
        reference_resize(REFERENCE_TRIANGLE, window, part.height, part.width, 3, want.data, 16, 16);
        if (EXPECT_OK(run_chain("random-resized-crop:16", &in, position, &got, &err), &err))
            check_pixels("random-resized-crop:16", &got, &want, 0);
        free(window);
        free(in.data);
        free(got.data);
        free(want.data);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refused(const char *text, const iter_desc *in, const char *part) {
    const iter__stage *stage;
    iter_chain *chain = one_stage(text, &stage);
    iter_desc out;
    size_t scratch;
    iter_error err = {0};
    if (!EXPECT_ERROR(stage->ops->plan(stage->options, in, &out, &scratch, &err), ITER_EINVAL, &err,
                      part))
        fprintf(stderr, "  \"%s\"\n", text);
    iter_chain_unref(chain);
}

static void test_refusals(void) {
    const iter_desc image = pixels(20, 30, 3), two = pixels(20, 30, 2), five = pixels(20, 30, 5);
    iter_desc chw = pixels(3, 20, 30), f32 = image;
    strcpy(chw.layout, "CHW");
    f32.dtype = ITER_F32;
    refused("resize", &image, "wants a size");
    refused("resize:height=4", &image, "wants a size");
    refused("resize:9", &chw, "wants u8 [height, width, 1 to 4] \"HWC\"");
    refused("resize:9", &f32, "put to:u8,hwc before it");
    refused("resize:9", &five, "1 to 4");
    refused("resize-short", &image, "wants a size");
    refused("resize:9,interpolation=bicubic,antialias=no", &image,
            "bicubic always goes with antialias");
    refused("resize-short:9,interpolation=bicubic,antialias=no", &image, "bicubic always");
    refused("random-resized-crop:9,interpolation=bicubic,antialias=no", &image, "bicubic always");
    refused("random-resized-crop:9,scale=0.5", &image, "scale=LEAST;LARGEST");
    refused("random-resized-crop:9,scale=0.5;0.4", &image, "scale=LEAST;LARGEST");
    refused("random-resized-crop:9,scale=0.5;1.4", &image, "at most 1");
    refused("random-resized-crop:9,ratio=0;1", &image, "ratio=LEAST;LARGEST");
    refused("random-erasing:ratio=2;1", &image, "ratio=LEAST;LARGEST");
    refused("color-jitter:1", &two, "wants 1 or 3 channels");
    refused("grayscale", &chw, "HWC");
    refused("center-crop:24", &image, "does not fit into 20 x 30");
    refused("crop:10,0,11,5", &image, "of 20 x 30");

    /* The plan for any size: the output has a fixed size, or none. */
    const iter_desc any = pixels(ITER_VARIABLE, ITER_VARIABLE, 3);
    static const struct {
        const char *text;
        int64_t side;
    } open[] = {{"resize:9", 9},
                {"resize-short:9", ITER_VARIABLE},
                {"center-crop:9", 9},
                {"random-resized-crop:9", 9},
                {"random-crop:9", 9},
                {"crop:1,1,9,9", 9},
                {"flip", ITER_VARIABLE},
                {"random-flip", ITER_VARIABLE},
                {"grayscale", ITER_VARIABLE},
                {"random-grayscale", ITER_VARIABLE},
                {"color-jitter", ITER_VARIABLE},
                {"random-erasing", ITER_VARIABLE},
                {"pad:3", ITER_VARIABLE},
                {"cutout:3", ITER_VARIABLE},
                {"invert", ITER_VARIABLE}};
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        const iter__stage *stage;
        iter_chain *chain = one_stage(open[i].text, &stage);
        iter_desc out;
        size_t scratch;
        iter_error err = {0};
        EXPECT_OK(stage->ops->plan(stage->options, &any, &out, &scratch, &err), &err);
        EXPECT(out.dims[0] == open[i].side && out.dims[1] == open[i].side && out.dims[2] == 3);
        iter_chain_unref(chain);
    }
    /* If an image is too small, the message says so. */
    iter_error err = {0};
    picture in = picture_new(8, 30, 3, 1), out = {.data = NULL};
    EXPECT_ERROR(run_chain("center-crop:9", &in, 0, &out, &err), ITER_EINVAL, &err, "8 x 30");
    EXPECT_ERROR(run_chain("random-crop:9", &in, 0, &out, &err), ITER_EINVAL, &err, "8 x 30");
    EXPECT_ERROR(run_chain("crop:0,20,4,11", &in, 0, &out, &err), ITER_EINVAL, &err, "4 x 30");
    free(in.data);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void perf_resize(int64_t height, int64_t width, int64_t side, resample_filter filter) {
    const size_t bytes = iter__resample_scratch(filter, height, width, side, side, 3);
    uint8_t *in = malloc((size_t)(height * width * 3)), *out = malloc((size_t)(side * side * 3));
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    fill(in, height, width, 3, 2);
    printf("%lld x %lld to %lld, filter %d:", (long long)height, (long long)width, (long long)side,
           (int)filter);
    for (size_t k = 0; k < KERNELS; k++) {
        double best = 1e12;
        if (!has_kernels(k)) continue;
        for (int i = 0; i < (k ? 200 : 20); i++) {
            const resample_image image = {in, width * 3, height, width};
            const double from = now_us();
            iter__resample(filter, &image, out, side, side, 3, kernels[k].kernels, scratch);
            best = fmin(best, now_us() - from);
        }
        printf("  %s %.1f us", kernels[k].name, best);
    }
    printf("\n");
    free(in);
    free(out);
    free(scratch);
}

static int perf(void) {
    static const int64_t sizes[][2] = {{400, 533}, {533, 400}, {292, 292}, {200, 200}, {100, 130}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int filter = RESAMPLE_BILINEAR; filter <= RESAMPLE_NEAREST; filter++)
            perf_resize(sizes[i][0], sizes[i][1], 224, (resample_filter)filter);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--perf") == 0) return perf();
    for (int level = 0; level < LEVELS; level++)
        if (!use_level(level)) printf("not on this machine: %s\n", levels[level]);
    test_resample();
    test_resample_extremes();
    test_resample_edges();
    test_resample_golden();
    test_same_as_fold();
    test_resize_stages();
    test_center_crop();
    test_random_resized_crop();
    test_refusals();
    EXPECT(n_by_rows > 0);
    return EXPECT_DONE();
}
