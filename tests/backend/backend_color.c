/*
 * backend_color.c - colours of u8 pixels: every SIMD level against the naive reference, and against
 * Pillow's results, all exact.
 *
 * --perf times them and prints a table.
 */
#include <math.h>
#include <stdlib.h>

#include <iter/transforms.h>

#include "tests/golden/pillow.h"
#include "tests/support/image_stage.h"
#include "tests/support/reference_image.h"
#include "transforms/color/color.h"

/* ---- Colours --------------------------------------------------------------------------------- */

static const color_kernels *color_of(int level) {
    return iter__color_kernels(level == 1   ? ITER_CPU_AVX2
                               : level == 2 ? ITER_CPU_AVX512
                               : level == 3 ? ITER_CPU_NEON
                                            : ITER_CPU_GENERIC);
}

/* Every 31st of all colours, and every gray; more than one block, and a rest. */
enum { COLORS = 541201 };

static void color_at(size_t i, uint8_t *out) {
    const uint32_t number = i < 256 ? (uint32_t)i * 0x10101u : (uint32_t)(i - 256) * 31u;
    out[0] = (uint8_t)(number >> 16);
    out[1] = (uint8_t)(number >> 8);
    out[2] = (uint8_t)number;
}

static void check_colors(const char *what, int level, const uint8_t *got, const uint8_t *want) {
    for (size_t i = 0; i < COLORS * 3; i++)
        if (got[i] != want[i]) {
            uint8_t in[3];
            color_at(i / 3, in);
            EXPECT_EQ(got[i], want[i]);
            fprintf(stderr, "  %s, %s, channel %d of %d %d %d\n", what, levels[level], (int)(i % 3),
                    in[0], in[1], in[2]);
            return;
        }
}

static void test_colors(void) {
    static const float factors[] = {0.0f, 0.4f, 1.0f, 1.37f, 2.0f};
    static const uint8_t shifts[] = {0, 1, 25, 128, 230};
    uint8_t *in = malloc(COLORS * 3), *want = malloc(COLORS * 3), *got = malloc(COLORS * 3);
    if (!in || !want || !got) abort();
    uint64_t sum = 0;
    for (size_t i = 0; i < COLORS; i++) {
        color_at(i, in + 3 * i);
        sum += reference_gray(in + 3 * i);
    }
    for (size_t k = 0; k < 5; k++)
        for (int what = 0; what < 4; what++) {
            static const char *const names[] = {"blend", "saturate", "hue", "gray"};
            for (size_t i = 0; i < COLORS * 3; i++) {
                const uint8_t gray = reference_gray(in + i / 3 * 3);
                want[i] = what == 0   ? reference_blend(100, in[i], factors[k])
                          : what == 1 ? reference_blend(gray, in[i], factors[k])
                          : what == 2 ? in[i]
                                      : gray;
            }
            for (size_t i = 0; i < COLORS && what == 2; i++)
                reference_hue(want + 3 * i, shifts[k]);
            for (int level = 0; level < LEVELS; level++) {
                if (!use_level(level)) continue;
                const color_kernels *colors = color_of(level);
                for (int in_place = 0; in_place < 2; in_place++) {
                    const uint8_t *from = in_place ? got : in;
                    memcpy(got, in, COLORS * 3);
                    if (what == 0) colors->blend(got, from, COLORS * 3, 100, factors[k]);
                    if (what == 1) colors->saturate(got, from, COLORS, factors[k]);
                    if (what == 2) colors->hue(got, from, COLORS, shifts[k]);
                    if (what == 3) colors->gray(got, from, COLORS);
                    check_colors(names[what], level, got, want);
                }
                EXPECT(colors->gray_sum(in, COLORS) == sum);
            }
        }
    free(in);
    free(want);
    free(got);
}

/* Pillow's results for the same pixels. */
static void test_colors_golden(void) {
    enum { N = 61 * 83 };
    uint8_t *in = malloc(N * 3), *out = malloc(N * 3);
    if (!in || !out) abort();
    for (size_t i = 0; i < sizeof(pillow_colors) / sizeof(pillow_colors[0]); i++)
        for (int level = 0; level < LEVELS; level++) {
            const struct pillow_color *t = &pillow_colors[i];
            if (!use_level(level)) continue;
            const color_kernels *colors = color_of(level);
            const float factor = (float)t->number;
            fill(in, 61, 83, 3, t->seed);
            const double mean = (double)colors->gray_sum(in, N) / (double)N;
            switch (t->what) {
            case 'b': colors->blend(out, in, N * 3, 0, factor); break;
            case 'c': colors->blend(out, in, N * 3, (float)(int)(mean + 0.5), factor); break;
            case 's': colors->saturate(out, in, N, factor); break;
            case 'h': colors->hue(out, in, N, (uint8_t)t->number); break;
            default: colors->gray(out, in, N);
            }
            if (!EXPECT(fnv(out, N * 3) == t->hash))
                fprintf(stderr, "  %c %g, %s\n", t->what, t->number, levels[level]);
        }
    free(in);
    free(out);
}

/* The stage by its definition: an order drawn from the end, then four numbers. */
static void jitter_naively(const iter_color_jitter_options *o, uint8_t *data, size_t n,
                           int64_t channels, iter_rng *rng) {
    int order[4] = {0, 1, 2, 3};
    float number[4];
    const double amount[4] = {o->brightness, o->contrast, o->saturation, o->hue};
    for (int i = 3; i > 0; i--) {
        const int k = (int)iter_rng_below(rng, (uint64_t)i + 1), held = order[i];
        order[i] = order[k];
        order[k] = held;
    }
    for (int i = 0; i < 4; i++) {
        const double low = i == 3 ? -amount[3] : fmax(0, 1 - amount[i]);
        const double high = i == 3 ? amount[3] : 1 + amount[i];
        number[i] = (float)(low + (high - low) * (double)iter_rng_uniform(rng));
    }
    for (int i = 0; i < 4; i++) {
        const int what = order[i];
        uint64_t sum = 0;
        if (amount[what] == 0 || (channels == 1 && what >= 2)) continue;
        for (size_t k = 0; k < n; k++)
            sum += channels == 1 ? data[k] : reference_gray(data + 3 * k);
        const uint8_t mean = (uint8_t)((double)sum / (double)n + 0.5);
        for (size_t k = 0; k < n; k++) {
            uint8_t *pixel = data + k * (size_t)channels;
            const uint8_t base = what == 0   ? 0
                                 : what == 1 ? mean
                                 : what == 2 ? reference_gray(pixel)
                                             : 0;
            if (what == 3) reference_hue(pixel, (uint8_t)(int)((double)number[3] * 255.0));
            for (int64_t c = 0; c < channels && what < 3; c++)
                pixel[c] = reference_blend(base, pixel[c], number[what]);
        }
    }
}

static void test_color_stages(void) {
    static const struct {
        const char *chain;
        iter_color_jitter_options options;
    } cases[] = {
        {"color-jitter", {0, 0, 0, 0}},
        {"color-jitter:0.4,0.4,0.4,0.1", {0.4, 0.4, 0.4, 0.1}},
        {"color-jitter:brightness=2,hue=0.5", {2, 0, 0, 0.5}},
        {"color-jitter:contrast=1,saturation=0.9", {0, 1, 0.9, 0}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint64_t position = 0; position < 40; position++)
            for (int level = 0; level < LEVELS; level++) {
                const int64_t channels = position % 5 == 4 ? 1 : 3;
                iter_error err = {0};
                if (!use_level(level)) continue;
                picture in = picture_new(23, 31, channels, (uint32_t)position + 1);
                picture got = {.data = NULL};
                iter_rng rng = iter_rng_at(iter_rng_key(SEED, "color-jitter", 0),
                                           (uint32_t)(position / 3), position);
                EXPECT_OK(run_chain(cases[i].chain, &in, position, &got, &err), &err);
                jitter_naively(&cases[i].options, in.data, 23 * 31, channels, &rng);
                check_pixels(cases[i].chain, &got, &in, 0);
                free(in.data);
                free(got.data);
            }
    int n_gray = 0;
    for (uint64_t position = 0; position < 200; position++) {
        iter_error err = {0};
        picture in = picture_new(9, 8, 3, 4), got = {.data = NULL}, gray = {.data = NULL};
        EXPECT_OK(run_chain("random-grayscale:0.3", &in, position, &got, &err), &err);
        EXPECT_OK(run_chain("grayscale", &in, position, &gray, &err), &err);
        for (int k = 0; k < 9 * 8 * 3; k++)
            EXPECT_EQ(gray.data[k], reference_gray(in.data + k / 3 * 3));
        iter_rng rng = iter_rng_at(iter_rng_key(SEED, "random-grayscale", 0),
                                   (uint32_t)(position / 3), position);
        const int is_gray = iter_rng_chance(&rng, 0.3);
        n_gray += is_gray;
        check_pixels("random-grayscale", &got, is_gray ? &gray : &in, 0);
        free(in.data);
        free(got.data);
        free(gray.data);
    }
    EXPECT(n_gray > 30 && n_gray < 90);
}

/* ---- Time ---- */

static void perf_colors(void) {
    enum { N = 224 * 224 };
    static uint8_t in[N * 3], out[N * 3];
    fill(in, 224, 224, 3, 2);
    for (int level = 0; level < LEVELS; level++) {
        double best[4] = {1e12, 1e12, 1e12, 1e12};
        if (!use_level(level)) continue;
        const color_kernels *colors = color_of(level);
        for (int i = 0; i < 100; i++) {
            const double t0 = now_us();
            colors->blend(out, in, N * 3, 90, 1.2f);
            const double t1 = now_us();
            colors->saturate(out, in, N, 1.2f);
            const double t2 = now_us();
            colors->hue(out, in, N, 20);
            const double t3 = now_us();
            colors->gray(out, in, N);
            const double t4 = now_us();
            best[0] = fmin(best[0], t1 - t0);
            best[1] = fmin(best[1], t2 - t1);
            best[2] = fmin(best[2], t3 - t2);
            best[3] = fmin(best[3], t4 - t3);
        }
        printf("224 x 224, %s: blend %.1f us  saturate %.1f us  hue %.1f us  gray %.1f us\n",
               levels[level], best[0], best[1], best[2], best[3]);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--perf") == 0) {
        perf_colors();
        return 0;
    }
    for (int level = 0; level < LEVELS; level++)
        if (!use_level(level)) printf("not on this machine: %s\n", levels[level]);
    test_colors();
    test_colors_golden();
    test_color_stages();
    return EXPECT_DONE();
}
