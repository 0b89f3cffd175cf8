/*
 * backend_pack.c - every image and value stage, alone and in chains, at every SIMD level, against
 * the naive reference.
 *
 * Integers are exact; f32 within 4 * 2^-24 * (|a x| + |b|); f16 and bf16 within one unit in the
 * last place of the reference rounded once. All levels give the same bits. Sources and targets lie
 * next to inaccessible pages, on either side, also at odd addresses.
 *
 * --perf times the CIFAR cases instead and prints a table.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <iter/chain.h>
#include <iter/convert.h>

#include "iter/spec/chain.h"
#include "iter/spec/pack.h"
#include "tests/support/expect.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

#define MAX_STAGES 16
#define LEVELS     4

static const char *const levels[LEVELS] = {"generic", "avx2", "avx512", "neon"};

/* Returns true if the machine has the level, which everything created from now on then uses. */
static int use_level(int level) {
    setenv("ITER_CPU", levels[level], 1);
    return strcmp(iter_cpu_level(), levels[level]) == 0;
}

/* ---- Sources --------------------------------------------------------------------------------- */

static uint64_t random_state;

static void fill_source(const iter_desc *desc, char *data) {
    const size_t bytes = iter_dtype_bytes(desc->dtype);
    for (int64_t i = 0; i < iter_desc_elements(desc); i++)
        reference_random(&random_state, desc->dtype, data + (size_t)i * bytes);
}

/* ---- One case -------------------------------------------------------------------------------- */

typedef struct pack_case {
    iter_desc in;
    const char *chain;
} pack_case;

static const iter__stage *stages[MAX_STAGES];

static int32_t stages_of(const iter_chain *chain) {
    const int32_t n = iter__chain_n_stages(chain);
    for (int32_t i = 0; i < n && i < MAX_STAGES; i++)
        stages[i] = iter__chain_stage(chain, i);
    return n;
}

static void say_case(const pack_case *test, const char *level) {
    char shape[128];
    fprintf(stderr, "  in %s through \"%s\", %s\n", iter_desc_text(&test->in, shape, sizeof(shape)),
            test->chain, level);
}

static int check_against_reference(const pack_case *test, const iter_desc *out_desc, const char *in,
                                   const char *out, int32_t n, const iter__pack_sample *sample) {
    reference_image image = reference_image_from(&test->in, in);
    int ok = 1;
    for (int32_t i = 0; i < n && ok; i++)
        ok = EXPECT(reference_apply(&image, stages[i], sample));
    ok = ok && EXPECT_EQ(image.dtype, out_desc->dtype) &&
         EXPECT_EQ(image.height * image.width * image.channels, iter_desc_elements(out_desc));
    for (int64_t i = 0; i < iter_desc_elements(out_desc) && ok; i++) {
        const double got = reference_load(out_desc->dtype, out, i);
        const reference_value want = reference_at(&image, i);
        ok = EXPECT(reference_is_close(out_desc->dtype, got, want));
        if (!ok)
            fprintf(stderr, "  element %lld: got %.9g, want %.9g * %.9g + %.9g = %.9g\n",
                    (long long)i, got, want.a, want.x, want.b, want.a * want.x + want.b);
    }
    reference_free(&image);
    return ok;
}

static int n_banded; /* samples that were made a second time, in bands */

/* Rows of an image that has bands. */
static int64_t height_of(const iter_desc *desc) {
    return strcmp(desc->layout, "CHW") == 0 ? desc->dims[1] : desc->dims[0];
}

/* Runs one sample at one place in memory; first[] has the generic level's bytes, which that level
 * writes. */
static int run_sample(const pack_case *test, int level, const iter__pack *pack,
                      const iter_desc *out_desc, char *scratch, int32_t n, uint64_t position,
                      char *first) {
    const iter__pack_sample sample = {7, position, (uint32_t)(position / 3)};
    const size_t in_bytes = iter_desc_bytes(&test->in), out_bytes = iter_desc_bytes(out_desc);
    const int at_start = (int)(position & 1);
    const size_t shift = position % 5, element = iter_dtype_bytes(out_desc->dtype);
    guarded in = guarded_new(in_bytes, at_start, shift);
    guarded out = guarded_new(out_bytes, at_start, position % 3 * element);
    random_state = position + 1;
    fill_source(&test->in, in.data);
    mprotect(in.first, in.room, PROT_READ);
    iter__packer.run(pack, in.data, out.data, &sample, scratch, position % 2 ? in.data : NULL);
    int ok = EXPECT(guarded_is_clean(&out));
    if (level == 0) {
        memcpy(first, out.data, out_bytes);
        ok = ok && check_against_reference(test, out_desc, in.data, out.data, n, &sample);
    }
    ok = ok && EXPECT(memcmp(first, out.data, out_bytes) == 0);
    if (iter__packer.begin(pack, &sample, scratch)) { /* in bands of other sizes each time */
        const int64_t height = height_of(&test->in);
        memset(out.data, 0xa5, out_bytes);
        for (int64_t at = 0, end; at < height; at = end) {
            end = at + 1 + (int64_t)(position * 5 + (uint64_t)at) % 7;
            if (end > height) end = height;
            iter__packer.band(pack, in.data, out.data, scratch, at, end);
        }
        n_banded++;
        ok =
            ok && EXPECT(guarded_is_clean(&out)) && EXPECT(memcmp(first, out.data, out_bytes) == 0);
    }
    guarded_free(&in);
    guarded_free(&out);
    return ok;
}

enum { POSITIONS = 12 };

static int n_at_once; /* cases whose samples were made a second time, all at once */

/* All samples by one call, from the last to the first: the bytes of first[]. */
static int run_at_once(const pack_case *test, const iter__pack *pack, const iter_desc *out_desc,
                       char *const first[POSITIONS]) {
    const size_t in_bytes = iter_desc_bytes(&test->in), out_bytes = iter_desc_bytes(out_desc);
    const size_t stride = in_bytes + 3;
    guarded in = guarded_new(POSITIONS * stride - 3, 0, 1);
    guarded out = guarded_new(POSITIONS * out_bytes, 0, 0);
    uint64_t index[POSITIONS];
    int ok = 1;
    for (int i = 0; i < POSITIONS; i++) {
        random_state = (uint64_t)i + 1;
        fill_source(&test->in, in.data + (size_t)i * stride);
        index[i] = (uint64_t)(POSITIONS - 1 - i);
    }
    if (iter__packer.rows(pack, (const uint8_t *)in.data, stride, index, POSITIONS,
                          (uint8_t *)out.data)) {
        for (int i = 0; i < POSITIONS; i++)
            ok = ok &&
                 EXPECT(memcmp(out.data + (size_t)i * out_bytes, first[index[i]], out_bytes) == 0);
        ok = ok && EXPECT(guarded_is_clean(&out));
        n_at_once++;
    }
    guarded_free(&in);
    guarded_free(&out);
    return ok;
}

static void run_case(const pack_case *test) {
    iter_error err = {0};
    iter_chain *chain = NULL;
    char *first[POSITIONS] = {NULL};
    if (*test->chain) {
        if (!EXPECT_OK(iter_chain_parse(test->chain, NULL, &chain, &err), &err)) return;
    }
    const int32_t n = stages_of(chain);
    for (int level = 0; level < LEVELS; level++) {
        iter__pack *pack = NULL;
        iter_desc out;
        size_t scratch_bytes = 0;
        int ok = 1;
        if (!use_level(level)) continue;
        if (!EXPECT_OK(iter__packer.create(&test->in, stages, n, &pack, &out, &scratch_bytes, &err),
                       &err)) {
            say_case(test, levels[level]);
            break;
        }
        guarded scratch = guarded_new((scratch_bytes + 63) / 64 * 64, 0, 0);
        for (int i = 0; i < POSITIONS && ok; i++) {
            if (!first[i]) first[i] = calloc(iter_desc_bytes(&out) + 1, 1);
            ok = run_sample(test, level, pack, &out, scratch.data, n, (uint64_t)i, first[i]);
            if (!ok) say_case(test, levels[level]);
        }
        EXPECT(guarded_is_clean(&scratch));
        guarded_free(&scratch);
        if (ok && !run_at_once(test, pack, &out, first)) say_case(test, levels[level]);
        iter__packer.destroy(pack);
    }
    for (int i = 0; i < POSITIONS; i++)
        free(first[i]);
    iter_chain_unref(chain);
}

static iter_desc image(iter_dtype dtype, const char *layout, int64_t height, int64_t width,
                       int64_t channels) {
    iter_desc desc = {.dtype = dtype, .n_dims = (int32_t)strlen(layout)};
    strcpy(desc.layout, layout);
    for (int32_t i = 0; i < desc.n_dims; i++)
        desc.dims[i] = layout[i] == 'H' ? height : layout[i] == 'W' ? width : channels;
    return desc;
}

static void run_chain(iter_desc in, const char *chain) {
    const pack_case test = {in, chain};
    run_case(&test);
}

/* ---- The cases ------------------------------------------------------------------------------- */

static const iter_dtype all_types[] = {ITER_U8,  ITER_I8,  ITER_U16, ITER_I16, ITER_U32,
                                       ITER_I32, ITER_U64, ITER_I64, ITER_F16, ITER_BF16,
                                       ITER_F32, ITER_F64, ITER_BOOL};
#define N_TYPES ((int)(sizeof(all_types) / sizeof(all_types[0])))

/* Any type to any, unchanged and with arithmetic whose results are exact. */
static void test_types(void) {
    char chain[64];
    for (int i = 0; i < N_TYPES; i++)
        for (int j = 0; j < N_TYPES; j++) {
            snprintf(chain, sizeof(chain), "cast:%s", iter_dtype_text(all_types[j]));
            run_chain(image(all_types[i], "CHW", 3, 7, 2), chain);
            snprintf(chain, sizeof(chain), "to:%s,nhwc", iter_dtype_text(all_types[j]));
            run_chain(image(all_types[i], "CHW", 3, 7, 3), chain);
            if (iter_dtype_bytes(all_types[i]) > 2) continue; /* above 24 bits f32 is not exact */
            snprintf(chain, sizeof(chain), "scale:0.5,3 | cast:%s", iter_dtype_text(all_types[j]));
            run_chain(image(all_types[i], "CHW", 3, 7, 2), chain);
        }
}

static const iter_dtype fast_types[] = {ITER_U8, ITER_F16, ITER_BF16, ITER_F32};

static const char *const sizes_text[] = {"u8", "f16", "bf16", "f32"};

/* Layouts, sizes and channels for the types that have kernels. */
static void test_layouts(void) {
    static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {3, 33}, {32, 32}, {2, 16}, {17, 4}};
    static const char *const layouts[] = {"CHW", "HWC"};
    static const char *const means[] = {"0.5", "0.5;0.25", "0.491;0.482;0.447", "0.1;0.2;0.3;0.4",
                                        "0.5;0.4;0.3;0.2;0.1"};
    char chain[160];
    for (int size = 0; size < 6; size++)
        for (int64_t c = 1; c <= 5; c++)
            for (int from = 0; from < 2; from++)
                for (int to = 0; to < 2; to++)
                    for (int type = 0; type < 4; type++) {
                        snprintf(chain, sizeof(chain), "normalize:mean=%s,std=0.25 | to:%s,%s",
                                 means[c - 1], sizes_text[type], to ? "hwc" : "chw");
                        const iter_dtype in = fast_types[size == 3 ? 0 : (size + type) % 4];
                        if (in != ITER_U8 && type == 0)
                            snprintf(chain, sizeof(chain), "scale:8,2 | to:u8,%s",
                                     to ? "hwc" : "chw");
                        else if (type == 0)
                            snprintf(chain, sizeof(chain), "scale:0.5,2 | to:u8,%s",
                                     to ? "hwc" : "chw");
                        run_chain(image(in, layouts[from], sizes[size][0], sizes[size][1], c),
                                  chain);
                    }
}

/* More rectangles than a fold keeps. */
#define TEN_CUTOUTS                                                                       \
    "cutout:3 | cutout:3,fill=1 | cutout:3,fill=2 | cutout:3,fill=3 | cutout:3,fill=4 | " \
    "cutout:3,fill=5 | cutout:3,fill=6 | cutout:3,fill=7 | cutout:3,fill=8 | cutout:3,fill=9"

static const char *const geometry[] = {
    "random-crop:size=5,pad=2",
    "random-crop:size=5,pad=2,fill=200 | random-flip",
    "random-crop:size=5,pad=3,mode=reflect",
    "random-crop:size=5,pad=3,mode=edge | random-flip:1",
    "random-crop:size=2",
    "random-crop:height=4,width=3,pad=1",
    "center-crop:3",
    "center-crop:height=2,width=5",
    "center-crop:height=3,width=4,rounding=torchvision",
    "center-crop:height=1,width=2,rounding=torchvision",
    "crop:1,2,3,4",
    "pad:2",
    "pad:2,9",
    "pad:top=1,left=2,bottom=3,right=4,value=7",
    "pad:9,mode=reflect",
    "pad:9,mode=edge",
    "pad:1,5 | pad:1,6 | pad:2,7",
    "pad:2,3 | crop:1,1,4,6 | pad:1,4",
    "pad:2,3 | crop:2,2,5,5 | pad:1,4",
    "flip",
    "flip:vertical",
    "flip | flip:vertical | flip",
    "random-flip:p=0.5,axis=vertical",
    "random-flip:0 | random-flip:1",
    "cutout:3",
    "cutout:size=4,fill=77",
    "cutout:20",
    "cutout:3,fill=1 | pad:2,5 | cutout:3,fill=9 | flip",
    TEN_CUTOUTS,
    "cutout:3,fill=5 | pad:4,mode=reflect | cutout:2,fill=6 | random-crop:6 | flip",
    "random-crop:size=5,pad=2 | random-flip | cutout:2 | random-flip:axis=vertical | center-crop:4",
};
#define N_GEOMETRY ((int)(sizeof(geometry) / sizeof(geometry[0])))

/* Each geometry alone, before and after arithmetic, and with both layouts. */
static void test_geometry(void) {
    static const char *const after[] = {"", " | normalize:mean=0.4;0.5;0.6,std=0.2;0.3;0.25",
                                        " | normalize:0.5,0.25 | to:f16,hwc",
                                        " | scale:0.5,1 | to:u8,chw", " | cast:i32"};
    static const char *const layouts[] = {"CHW", "HWC"};
    char chain[640];
    for (int i = 0; i < N_GEOMETRY; i++)
        for (int from = 0; from < 2; from++) {
            for (int j = 0; j < 5; j++) {
                snprintf(chain, sizeof(chain), "%s%s", geometry[i], after[j]);
                run_chain(image(ITER_U8, layouts[from], 6, 7, 3), chain);
            }
            snprintf(chain, sizeof(chain), "normalize:0.5,0.25 | %s", geometry[i]);
            run_chain(image(ITER_U8, layouts[from], 6, 7, 3), chain);
            run_chain(image(ITER_F32, layouts[from], 6, 7, 3), geometry[i]);
            snprintf(chain, sizeof(chain), "scale:2,1 | %s | cast:bf16", geometry[i]);
            run_chain(image(ITER_F64, layouts[from], 6, 7, 2), chain);
        }
    for (int i = 0; i < N_GEOMETRY; i++) {
        snprintf(chain, sizeof(chain), "%s | to:f32,chw", geometry[i]);
        run_chain(image(ITER_U8, "HW", 6, 7, 1), chain);
        run_chain(image(ITER_U16, "HW", 9, 7, 1), geometry[i]);
    }
}

/* Crops and flips of rows of every length around the vector's, which have their own kernel. */
static void test_windows(void) {
    static const int64_t widths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 100, 96, 81};
    char chain[160];
    for (int i = 0; i < (int)(sizeof(widths) / sizeof(widths[0])); i++)
        for (int type = 0; type < 4; type++) {
            const iter_desc in = image(ITER_U8, i % 2 ? "HWC" : "CHW", 5, widths[i], 3);
            snprintf(
                chain, sizeof(chain),
                "random-crop:height=5,width=%d,pad=4 | random-flip | normalize:0.5,0.25 | to:%s",
                (int)widths[i], sizes_text[type]);
            if (type == 0)
                snprintf(chain, sizeof(chain),
                         "random-crop:height=5,width=%d,pad=4,fill=255 | random-flip | "
                         "scale:0.25,1 | to:u8,chw",
                         (int)widths[i]);
            run_chain(in, chain);
            snprintf(chain, sizeof(chain),
                     "random-crop:height=5,width=%d,pad=9 | random-flip | to:%s",
                     (int)widths[i] + 3, sizes_text[type]);
            run_chain(in, chain);
        }
    for (int type = 0; type < 4; type++) /* wide and high: processed in bands of rows */
        for (int height = 7; height < 27; height += 3) {
            snprintf(chain, sizeof(chain),
                     "random-crop:height=%d,width=%d,pad=9 | random-flip | to:%s", height,
                     66 + 15 * height % 70, sizes_text[type]);
            run_chain(image(ITER_U8, height % 2 ? "HWC" : "CHW", height + 2, 130, 3), chain);
            run_chain(image(ITER_U8, "CHW", height + 2, 130, 1), chain);
        }
    run_chain(image(ITER_U8, "CHW", 40, 41, 3), "random-crop:size=9 | random-flip | normalize");
    run_chain(image(ITER_U8, "CHW", 20, 30, 3), "crop:3,5,16,25 | flip:vertical | normalize");
    run_chain(image(ITER_U8, "CHW", 3, 2100, 3), /* more columns than are prepared at a time */
              "random-crop:height=4,width=2130,pad=17 | random-flip | normalize | to:f32,chw");
    run_chain(image(ITER_U8, "CHW", 32, 32, 3),
              "random-crop:size=32,pad=4 | random-flip | normalize:mean=0.491;0.482;0.447,"
              "std=0.247;0.243;0.261 | to:f32,nchw");
    run_chain(image(ITER_U8, "CHW", 4, 4, 3), "random-crop:size=4,pad=40 | flip | normalize");
}

/* Small images to interleaved channels, whose bytes are moved before they are converted. Pads are
 * bytes of the source, or not; and tables and cutouts come before and after them. */
static void test_moved(void) {
    static const int64_t widths[] = {5, 6, 7, 15, 16, 17, 31, 32, 33, 53, 73, 80};
    static const char *const layouts[] = {"CHW", "HWC"};
#define CROP "random-crop:height=6,width=%d,pad=4"
#define MEAN "normalize:mean=0.4;0.5;0.6,std=0.2;0.3;0.25"
    static const char *const chains[] = {
        CROP ",fill=9 | random-flip | " MEAN " | to:%s,hwc",
        CROP ",fill=200 | random-flip | random-flip:axis=vertical | scale:0.25,1 | to:%s,hwc",
        MEAN " | " CROP ",fill=0.3 | random-flip | cutout:3 | to:%s,hwc",
        CROP ",fill=7 | random-flip | invert | cutout:2,fill=3 | to:%s,hwc",
        "random-solarize | " CROP ",fill=30 | random-flip | gamma:0.5 | to:%s,hwc",
        CROP ",fill=7 | random-flip | cast:%s | to:layout=hwc",
        CROP " | random-flip | cast:%s | to:layout=chw",
    };
    char chain[320];
    for (int i = 0; i < (int)(sizeof(widths) / sizeof(widths[0])); i++)
        for (int j = 0; j < (int)(sizeof(chains) / sizeof(chains[0])); j++)
            for (int type = 0; type < 4; type++) {
                snprintf(chain, sizeof(chain), chains[j], (int)widths[i], sizes_text[type]);
                for (int from = 0; from < 2; from++)
                    run_chain(image(ITER_U8, layouts[from], 7, widths[i] + 1 - type, 3), chain);
            }
    for (int from = 0; from < 2; from++) { /* from an image too large for one lookup */
        snprintf(chain, sizeof(chain), "solarize:90 | " CROP ",fill=5 | random-flip | to:%s,hwc",
                 70, "f32");
        run_chain(image(ITER_U8, layouts[from], 80, 90, 3), chain);
    }
#undef CROP
#undef MEAN
}

/* Tables of bytes: alone and joined, before and after geometry, with every layout and type after
 * them; also each sample's own. */
static void test_tables(void) {
    static const char *const tables[] = {"posterize:3",
                                         "solarize:100",
                                         "invert",
                                         "gamma:0.5",
                                         "gamma:2.2,1.5 | posterize:5",
                                         "posterize:0",
                                         "posterize:8",
                                         "solarize:64 | invert | gamma:0.4",
                                         "random-posterize:2",
                                         "random-solarize:90,0.6",
                                         "random-invert",
                                         "random-invert | gamma:1.7 | random-solarize"};
    static const char *const after[] = {"",
                                        " | normalize:mean=0.4;0.5;0.6,std=0.2;0.3;0.25",
                                        " | normalize:0.5,0.25 | to:f16,hwc",
                                        " | scale:0.5,1 | to:u8,chw",
                                        " | to:u8,hwc",
                                        " | cast:i32"};
    static const char *const large[] = {
        "random-crop:size=70,pad=9 | random-flip | normalize:0.5,0.25 | to:f32,chw",
        "random-crop:size=60,pad=3 | random-flip | to:u8,hwc",
        "random-crop:size=70,pad=9,mode=reflect | random-flip | cutout:20 | to:f16,hwc"};
    static const char *const layouts[] = {"CHW", "HWC"};
    char chain[640];
    for (int t = 0; t < (int)(sizeof(tables) / sizeof(tables[0])); t++)
        for (int from = 0; from < 2; from++) {
            for (int j = 0; j < 6; j++) {
                snprintf(chain, sizeof(chain), "%s%s", tables[t], after[j]);
                run_chain(image(ITER_U8, layouts[from], 6, 7, 3), chain);
                if (t % 3 == j % 3) run_chain(image(ITER_U8, layouts[from], 40, 67, 3), chain);
                snprintf(chain, sizeof(chain), "%s%s", tables[t],
                         j == 1 ? " | normalize:0.4,0.25" : after[j]);
                run_chain(image(ITER_U8, layouts[from], 5, 9, 4), chain);
                run_chain(image(ITER_U8, layouts[from], 5, 9, 1), chain);
            }
            for (int i = t % 4; i < N_GEOMETRY; i += 4) { /* over all tables, each three times */
                const char *end = after[(i + t) % 6];
                snprintf(chain, sizeof(chain), "%s | %s%s", tables[t], geometry[i], end);
                run_chain(image(ITER_U8, layouts[from], 6, 7, 3), chain);
                snprintf(chain, sizeof(chain), "%s | %s%s", geometry[i], tables[t], end);
                run_chain(image(ITER_U8, layouts[from], 6, 7, 3), chain);
            }
            for (int i = 0; i < 3; i++) { /* too large for one lookup */
                snprintf(chain, sizeof(chain), "%s | %s", tables[t], large[i]);
                run_chain(image(ITER_U8, layouts[from], 66, 91, 3), chain);
            }
            snprintf(chain, sizeof(chain), "%s | random-crop:33,pad=2 | random-flip | to:u8,chw",
                     tables[t]);
            run_chain(image(ITER_U8, layouts[from], 34, 35, 3), chain);
        }
    run_chain(image(ITER_U8, "HW", 6, 7, 1), "pad:1,9 | solarize:5 | flip | cutout:2,fill=200");
    run_chain(image(ITER_U8, "CHW", 6, 7, 3),
              "invert | pad:1,value=7 | scale:2,1 | pad:1,value=-0.7 | cast:u8 | invert");
    run_chain(image(ITER_U8, "CHW", 6, 7, 3), "invert | cast:f32 | pad:1,value=0.3 | scale:2,1");
    run_chain(image(ITER_U8, "CHW", 6, 7, 3), "scale:0.5 | cast:u8 | posterize:3 | scale:0.5 | "
                                              "cast:u8 | gamma:0.5 | to:u8,hwc");
    run_chain(image(ITER_I32, "CHW", 6, 7, 3), "cast:u8 | solarize:100 | cast:f32");
    const iter_desc flat = {.dtype = ITER_U8, .n_dims = 1, .dims = {77}};
    run_chain(flat, "gamma:0.5");
    run_chain(flat, "random-solarize | normalize:0.5,0.25");
}

/* The meaning of a fold: fill values go through later stages, and casts that round end a pass. */
static void test_meaning(void) {
    const iter_desc chw = image(ITER_U8, "CHW", 4, 5, 3);
    run_chain(chw, "");
    run_chain(chw, "to:u8,chw");
    run_chain(chw, "pad:1 | normalize:0.5,0.25");
    run_chain(chw, "normalize:0.5,0.25 | pad:1");
    run_chain(chw, "normalize:0.5,0.25 | pad:1,value=0.3 | scale:2,1 | cutout:2,fill=-4 | to:f16");
    run_chain(chw, "pad:1,value=300");
    run_chain(chw, "pad:1,value=300.7 | cast:i32");
    run_chain(chw, "cast:f32 | pad:1,value=0.5 | normalize:0.5,0.25");
    run_chain(chw, "cast:i8 | cast:i32");
    run_chain(chw, "scale:0.5,0.25 | cast:u8 | scale:2,1");
    run_chain(chw, "scale:0.5,0.25 | cast:u8 | normalize:0.5,0.5 | flip | to:u8,hwc | scale:3");
    run_chain(chw, "pad:1,value=3 | cast:i8 | pad:1,value=999 | cast:f32 | scale:0.5 | cast:i16");
    run_chain(chw, "scale:3,0.5 | cast:f16 | scale:0.125,1");
    run_chain(chw, "to:f32,hwc | to:u8,chw");
    run_chain(image(ITER_I32, "", 0, 0, 0), "cast:i64");
    iter_desc flat = {.dtype = ITER_U8, .n_dims = 1, .dims = {77}};
    run_chain(flat, "normalize:0.5,0.25 | cast:bf16");
    flat.n_dims = 4;
    flat.dims[1] = flat.dims[2] = flat.dims[3] = 2;
    run_chain(flat, "scale:2,1");
}

/* ---- Impossible chains ----------------------------------------------------------------------- */

static void expect_refused(iter_desc in, const char *text, const char *part) {
    iter_error err = {0};
    iter_chain *chain = NULL;
    iter__pack *pack = NULL;
    iter_desc out;
    size_t scratch;
    if (!EXPECT_OK(iter_chain_parse(text, NULL, &chain, &err), &err)) return;
    const int32_t n = stages_of(chain);
    iter_status status = ITER_OK;
    iter_desc desc = in;
    for (int32_t i = 0; i < n && status == ITER_OK; i++) { /* as the planner does */
        status = stages[i]->ops->plan(stages[i]->options, &desc, &out, &scratch, &err);
        desc = out;
    }
    if (status == ITER_OK)
        status = iter__packer.create(&in, stages, n, &pack, &out, &scratch, &err);
    EXPECT(pack == NULL);
    EXPECT_ERROR(status, ITER_EINVAL, &err, part);
    iter__packer.destroy(pack);
    iter_chain_unref(chain);
}

static void test_refusals(void) {
    const iter_desc chw = image(ITER_U8, "CHW", 4, 5, 3);
    const iter_desc flat = {.dtype = ITER_U8, .n_dims = 1, .dims = {60}};
    const iter_desc ids = {.dtype = ITER_I32, .n_dims = 1, .dims = {60}, .layout = "T"};
    expect_refused(flat, "flip", "wants an image");
    expect_refused(ids, "random-crop:4", "i32 [60] \"T\"");
    expect_refused(flat, "to:f32,nchw", "wants an image");
    expect_refused(chw, "random-crop:9", "9 x 9 does not fit into 4 x 5 with pad 0");
    expect_refused(chw, "random-crop", "wants a size");
    expect_refused(chw, "center-crop:5", "does not fit");
    expect_refused(chw, "crop:0,0,5,5", "rows 0..4");
    expect_refused(chw, "crop:0,0", "wants y,x,height,width");
    expect_refused(chw, "cutout", "wants a size");
    expect_refused(chw, "normalize:mean=1;2", "mean has 2 numbers, but the image has 3 channels");
    expect_refused(chw, "normalize:std=1;0;1", "std number 2 is 0");
    expect_refused(flat, "normalize:mean=1;2", "no channels");
    expect_refused(ids, "normalize", "but got i32");
    expect_refused(chw, "cast", "wants an element type");
    expect_refused(chw, "normalize | posterize:3", "wants u8, but got f32");
}

/* ---- Timing ---------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define PERF_IMAGES 50000
#define PERF_BATCH  64
#define NORMALIZE   "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261"

typedef struct perf_work {
    const char *source;
    char *slots;
    uint32_t *order; /* a permutation of the images */
    char *scratch;
} perf_work;

typedef enum perf_mode { ITER__HOT, ITER__ORDERED, ITER__SHUFFLED, ITER__MODES } perf_mode;

static const char *image_of(const perf_work *work, perf_mode mode, uint32_t i, size_t bytes) {
    if (i >= PERF_IMAGES) i = 0;
    const uint32_t at = mode == ITER__HOT ? i % 16 : mode == ITER__ORDERED ? i : work->order[i];
    return work->source + (size_t)at * bytes;
}

/* One epoch in images/s. */
static double perf_epoch(const perf_work *work, const iter__pack *pack, size_t in_bytes,
                         size_t out_bytes, perf_mode mode, uint32_t n_slots) {
    const double start = seconds();
    uint32_t done = 0;
    for (uint32_t batch = 0; done + PERF_BATCH <= PERF_IMAGES; batch++) {
        char *slot = work->slots + (size_t)(batch % n_slots) * PERF_BATCH * out_bytes;
        for (uint32_t i = 0; i < PERF_BATCH; i++, done++) {
            const iter__pack_sample sample = {7, done, 0};
            iter__packer.run(pack, image_of(work, mode, done, in_bytes), slot + i * out_bytes,
                             &sample, work->scratch, image_of(work, mode, done + 1, in_bytes));
        }
    }
    return done / (seconds() - start);
}

static char *huge(size_t bytes) {
    const size_t size = (bytes + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
    char *memory = aligned_alloc(2u << 20, size);
    if (!memory) abort();
    madvise(memory, size, MADV_HUGEPAGE);
    memset(memory, 1, size);
    return memory;
}

static void perf_chain(const perf_work *work, const iter_desc *in, const char *text) {
    static const char *const modes[] = {"hot", "ordered", "shuffled"};
    enum { ROUNDS = 9 };
    iter_error err = {0};
    iter_chain *chain = NULL;
    iter__pack *pack = NULL;
    iter_desc out;
    size_t scratch;
    double best[ITER__MODES][3] = {{0}};
    if (iter_chain_parse(text, NULL, &chain, &err) < 0) abort();
    const int32_t n = stages_of(chain);
    if (iter__packer.create(in, stages, n, &pack, &out, &scratch, &err) < 0) abort();
    for (int round = 0; round < ROUNDS; round++)
        for (int slots = 0; slots < 3; slots++)
            for (int mode = 0; mode < ITER__MODES; mode++) {
                const double rate = perf_epoch(work, pack, iter_desc_bytes(in),
                                               iter_desc_bytes(&out), (perf_mode)mode, 1u << slots);
                if (rate > best[mode][slots]) best[mode][slots] = rate;
            }
    printf("%s, %s \"%s\"\n", text, iter_cpu_level(), in->layout);
    for (int mode = 0; mode < ITER__MODES; mode++)
        printf("  %-9s %5.2f %5.2f %5.2f\n", modes[mode], best[mode][0] / 1e6, best[mode][1] / 1e6,
               best[mode][2] / 1e6);
    iter__packer.destroy(pack);
    iter_chain_unref(chain);
}

static int perf(void) {
    const iter_desc chw = image(ITER_U8, "CHW", 32, 32, 3), hwc = image(ITER_U8, "HWC", 32, 32, 3);
    perf_work work = {0};
    char *source = huge((size_t)PERF_IMAGES * 3072);
    random_state = 1;
    for (size_t i = 0; i < (size_t)PERF_IMAGES * 3072; i += 8) {
        const uint64_t bits = reference_u64(&random_state);
        memcpy(source + i, &bits, sizeof(bits));
    }
    work.source = source;
    work.slots = huge((size_t)4 * PERF_BATCH * 3072 * 4);
    work.order = malloc(PERF_IMAGES * sizeof(*work.order));
    work.scratch = aligned_alloc(64, 1 << 16);
    if (!work.order || !work.scratch) abort();
    for (uint32_t i = 0; i < PERF_IMAGES; i++)
        work.order[i] = i;
    for (uint32_t i = PERF_IMAGES - 1; i > 0; i--) {
        const uint32_t j = (uint32_t)(reference_u64(&random_state) % (i + 1)), t = work.order[i];
        work.order[i] = work.order[j];
        work.order[j] = t;
    }
    printf("million images/s into 1, 2, 4 slots of %d\n", PERF_BATCH);
    perf_chain(&work, &chw, NORMALIZE " | to:f32,nchw");
    perf_chain(&work, &chw, "random-crop:32,pad=4 | random-flip | " NORMALIZE " | to:f32,nchw");
    perf_chain(&work, &chw, NORMALIZE " | to:f16,nchw");
    perf_chain(&work, &chw, NORMALIZE " | to:f32,nhwc");
    perf_chain(&work, &hwc, NORMALIZE " | to:f32,nchw");
    perf_chain(&work, &hwc, NORMALIZE " | to:f32,nhwc");
    perf_chain(&work, &hwc, "random-crop:32,pad=4 | random-flip | " NORMALIZE " | to:f32,nchw");
    perf_chain(&work, &hwc, "random-crop:32,pad=4 | random-flip | " NORMALIZE " | to:f32,nhwc");
    perf_chain(&work, &chw, "random-crop:32,pad=4 | random-flip | " NORMALIZE " | to:f32,nhwc");
    perf_chain(&work, &chw, "random-crop:32,pad=4,mode=reflect | random-flip | " NORMALIZE);
    perf_chain(&work, &chw, "random-crop:32,pad=4 | random-flip | cutout:8 | " NORMALIZE);
    perf_chain(&work, &chw, "to:u8,nchw");
    free(work.order);
    free(work.scratch);
    free(work.slots);
    free(source);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--perf") == 0) return perf();
    for (int level = 0; level < LEVELS; level++)
        if (!use_level(level)) printf("not on this machine: %s\n", levels[level]);
    test_types();
    test_layouts();
    test_geometry();
    test_windows();
    test_moved();
    test_tables();
    test_meaning();
    test_refusals();
    EXPECT(n_banded > 0);
    EXPECT(n_at_once > 0);
    return EXPECT_DONE();
}
