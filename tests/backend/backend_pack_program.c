/*
 * backend_pack_program.c - programs and rows of the fused pass: run pixel by pixel in plain C, they
 * must give what run() gives, bit for bit, at every SIMD level. If a pack has no program, the
 * reason is reported.
 */
#include <stdlib.h>

#include <iter/chain.h>
#include <iter/convert.h>

#include "iter/spec/chain.h"
#include "iter/spec/pack.h"
#include "tests/support/expect.h"
#include "tests/support/pack_rows.h"

#define MAX_STAGES 16
#define POSITIONS  9

static uint64_t random_state = 1;

static uint64_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

static int below(int n) {
    return (int)(draw() % (uint64_t)n);
}

static iter_desc image(const char *layout, int64_t height, int64_t width, int64_t channels) {
    iter_desc desc = {.dtype = ITER_U8, .n_dims = (int32_t)strlen(layout)};
    strcpy(desc.layout, layout);
    for (int32_t i = 0; i < desc.n_dims; i++)
        desc.dims[i] = layout[i] == 'H' ? height : layout[i] == 'W' ? width : channels;
    return desc;
}

/* ---- A pack from a text ---------------------------------------------------------------------- */

typedef struct chain_pack {
    iter_chain *chain;
    iter__pack *pack;
    iter_desc out;
    size_t scratch_bytes;
} chain_pack;

static int make(const iter_desc *in, const char *text, chain_pack *out) {
    const iter__stage *stages[MAX_STAGES];
    iter_error err = {0};
    *out = (chain_pack){0};
    if (*text && !EXPECT_OK(iter_chain_parse(text, NULL, &out->chain, &err), &err)) return 0;
    const int32_t n = iter__chain_n_stages(out->chain);
    for (int32_t i = 0; i < n && i < MAX_STAGES; i++)
        stages[i] = iter__chain_stage(out->chain, i);
    return EXPECT_OK(
        iter__packer.create(in, stages, n, &out->pack, &out->out, &out->scratch_bytes, &err), &err);
}

static void unmake(chain_pack *made) {
    iter__packer.destroy(made->pack);
    iter_chain_unref(made->chain);
}

static void say(const iter_desc *in, const char *text) {
    char shape[128];
    fprintf(stderr, "  in %s through \"%s\", %s\n", iter_desc_text(in, shape, sizeof(shape)), text,
            iter_cpu_level());
}

/* ---- Packs with a program -------------------------------------------------------------------- */

static int check_row(const chain_pack *made, const iter__pack_program *program,
                     const iter__pack_row *row, const char *in, const char *run) {
    const size_t out_bytes = iter_desc_bytes(&made->out);
    char *out = calloc(out_bytes, 1);
    pack_rows_one(program, row, (const uint8_t *)in, (uint8_t *)out);
    const int ok = EXPECT(memcmp(out, run, out_bytes) == 0);
    for (size_t i = 0; i < out_bytes && !ok; i++) {
        if (out[i] == run[i]) continue;
        fprintf(stderr, "  byte %zu of %zu: program %02x, run %02x\n", i, out_bytes,
                (unsigned char)out[i], (unsigned char)run[i]);
        break;
    }
    free(out);
    return ok;
}

static int check_position(const chain_pack *made, const iter__pack_program *program,
                          size_t in_bytes, uint64_t position) {
    const iter__pack_sample sample = {7, position, (uint32_t)(position / 2)};
    char *in = malloc(in_bytes), *run = malloc(iter_desc_bytes(&made->out));
    char *scratch = aligned_alloc(64, (made->scratch_bytes + 127) & ~(size_t)63);
    iter__pack_row row = {.source = position + 1};
    random_state = position + 1;
    for (size_t i = 0; i < in_bytes; i++)
        in[i] = (char)draw();
    iter__packer.run(made->pack, in, run, &sample, scratch, NULL);
    memset(scratch, 0x5a, made->scratch_bytes);
    iter__packer.row(made->pack, &sample, scratch, &row);
    int ok = EXPECT_EQ(row.source, position + 1) && EXPECT_EQ(row.unused, 0);
    ok = ok && check_row(made, program, &row, in, run);
    free(in);
    free(run);
    free(scratch);
    return ok;
}

/* Returns 1 if there is a program and it is right, 0 if there is none, -1 on a failure. */
static int check(iter_desc in, const char *text) {
    chain_pack made;
    iter__pack_program program;
    char why[160] = "";
    int ok = make(&in, text, &made), has = 0;
    if (ok) has = iter__packer.program(made.pack, &program, why, sizeof(why));
    if (ok && !has) ok = EXPECT(why[0] != 0);
    for (uint64_t position = 0; ok && has && position < POSITIONS; position++) {
        ok = EXPECT_EQ(pack_rows_out_bytes(&program), iter_desc_bytes(&made.out)) &&
             EXPECT_EQ(pack_rows_in_bytes(&program), iter_desc_bytes(&in)) &&
             check_position(&made, &program, iter_desc_bytes(&in), position);
    }
    if (!ok) say(&in, text);
    unmake(&made);
    return ok ? has : -1;
}

static void expect_program(iter_desc in, const char *text) {
    const int has = check(in, text);
    if (has == 0) {
        EXPECT(has);
        say(&in, text);
    }
}

static void expect_none(iter_desc in, const char *text, const char *part) {
    chain_pack made;
    iter__pack_program program;
    char why[160] = "";
    if (make(&in, text, &made)) {
        EXPECT(!iter__packer.program(made.pack, &program, why, sizeof(why)));
        if (!EXPECT(strstr(why, part) != NULL)) fprintf(stderr, "  it says \"%s\"\n", why);
    }
    unmake(&made);
}

static const char *const ends[] = {"to:u8,chw",
                                   "to:u8,hwc",
                                   "scale:0.5,1.25 | to:u8,hwc",
                                   "scale:-2,300 | to:u8,chw",
                                   "to:f16,chw",
                                   "to:bf16,hwc",
                                   "to:f32,hwc",
                                   "normalize:0.5,0.25 | to:f32,chw",
                                   "normalize:0.49,0.26 | to:f16,hwc",
                                   "normalize:0.4,0.3 | to:bf16,chw",
                                   "scale:0.0001,-0.001 | to:f16,hwc",
                                   "cast:f32"};
#define N_ENDS ((int)(sizeof(ends) / sizeof(ends[0])))

#define MANY_STAGES                                                                    \
    "random-crop:size=5,pad=2 | random-flip | cutout:2 | random-flip:axis=vertical | " \
    "center-crop:4 | "

static const char *const geometry[] = {
    "",
    "random-crop:size=5,pad=2 | ",
    "random-crop:size=5,pad=2,fill=200 | random-flip | ",
    "random-crop:size=2 | ",
    "random-crop:height=4,width=3,pad=1 | random-flip:p=0.5,axis=vertical | ",
    "center-crop:3 | ",
    "crop:1,2,3,4 | ",
    "pad:2 | ",
    "pad:top=1,left=2,bottom=3,right=4,value=7 | ",
    "pad:2,3 | crop:2,2,5,5 | pad:1,4 | ",
    "flip | flip:vertical | ",
    "cutout:3 | ",
    "cutout:20,fill=77 | ",
    "cutout:3,fill=1 | pad:2,5 | cutout:3,fill=9 | flip | ",
    "cutout:3 | cutout:3,fill=1 | cutout:3,fill=2 | cutout:3,fill=255 | ",
    MANY_STAGES,
    "random-crop:size=5,pad=9,fill=3 | random-flip | cutout:4,fill=5 | ",
};
#define N_GEOMETRY ((int)(sizeof(geometry) / sizeof(geometry[0])))

static void test_programs(void) {
    char text[640];
    for (int g = 0; g < N_GEOMETRY; g++)
        for (int e = 0; e < N_ENDS; e++) {
            snprintf(text, sizeof(text), "%s%s", geometry[g], ends[e]);
            expect_program(image("CHW", 6, 7, 3), text);
            expect_program(image("HWC", 6, 7, 3), text);
            expect_program(image("HWC", 6, 7, 1), text);
            expect_program(image("CHW", 6, 7, 8), text);
            expect_program(image("HW", 6, 7, 1), text);
        }
    const iter_desc flat = {.dtype = ITER_U8, .n_dims = 1, .dims = {77}};
    expect_program(flat, "");
    expect_program(flat, "cast:f32");
    expect_program(flat, "scale:0.5,1 | cast:bf16");
    expect_program(image("CHW", 32, 32, 3),
                   "random-crop:size=32,pad=4 | random-flip | cutout:16 | "
                   "normalize:mean=0.491;0.482;0.447,std=0.247;0.243;0.261 | to:f16,nhwc");
    expect_program(image("CHW", 4, 5, 3), "normalize:0.5,0.25 | pad:1,value=0.3 | scale:2,1 | "
                                          "cutout:2,fill=-4 | to:f16");
}

/* ---- Random chains --------------------------------------------------------------------------- */

static void add_geometry(char *text, size_t capacity) {
    char part[96];
    const int pad = below(4), fill = below(300) - 20;
    const bool cropped = strstr(text, "crop") != NULL; /* a second crop may not fit */
    switch (cropped ? 1 + below(5) : below(6)) {
    case 0:
        snprintf(part, sizeof(part), "random-crop:height=%d,width=%d,pad=%d,fill=%d | ",
                 1 + below(4), 1 + below(4), pad, fill);
        break;
    case 1:
        snprintf(part, sizeof(part), "random-flip:p=0.%d,axis=%s | ", below(10),
                 below(2) ? "vertical" : "horizontal");
        break;
    case 2: snprintf(part, sizeof(part), "cutout:%d,fill=%d | ", 1 + below(6), fill); break;
    case 3: snprintf(part, sizeof(part), "pad:%d,%d | ", 1 + pad, fill); break;
    case 4: snprintf(part, sizeof(part), "flip:%s | ", below(2) ? "vertical" : "horizontal"); break;
    default:
        snprintf(part, sizeof(part), "pad:%d,value=%d,mode=%s | ", 1 + pad, fill,
                 below(8) ? "constant" : "edge");
    }
    strncat(text, part, capacity - strlen(text) - 1);
}

/* Most have a program, which must then be right. */
static void test_random(void) {
    enum { CASES = 1500 };
    int n = 0;
    char text[640];
    random_state = 99;
    for (int i = 0; i < CASES; i++) {
        const uint64_t state = random_state;
        const iter_desc in =
            image(below(2) ? "CHW" : "HWC", 4 + below(9), 4 + below(40), 1 + below(8));
        text[0] = 0;
        for (int k = below(5); k > 0; k--)
            add_geometry(text, sizeof(text));
        strcat(text, ends[below(N_ENDS)]);
        const int has = check(in, text);
        n += has == 1;
        if (has < 0) return;
        random_state = state * 2862933555777941757u + (uint64_t)i;
    }
    printf("%d of %d random chains have a program\n", n, (int)CASES);
    EXPECT(n > CASES / 2 && n < CASES);
}

/* ---- Packs without a program ----------------------------------------------------------------- */

static void draw_cuts(const void *options, iter_fold *fold, iter_rng *rng) {
    (void)options;
    for (uint64_t i = iter_rng_below(rng, 9); i > 0; i--)
        iter_fold_cutout(fold, 0, 0, 2, 2, 1);
}

static iter_status plan_cuts(const void *options, iter_fold *fold, iter_error *err) {
    (void)options;
    (void)err;
    iter_fold_cutout(fold, 0, 0, 2, 2, 1);
    return ITER_OK;
}

static iter_status same_shape(const void *options, const iter_desc *in, iter_desc *out,
                              size_t *out_scratch, iter_error *err) {
    (void)options;
    (void)err;
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

/* A user's stage may request more per sample than it declared. */
static void test_own_stage(void) {
    const iter_transform_ops ops = {.base = {sizeof(ops), "my-cuts", "", NULL, NULL, 0, 0},
                                    .plan = same_shape,
                                    .fold_plan = plan_cuts,
                                    .fold_sample = draw_cuts};
    const iter_desc in = image("CHW", 6, 7, 3);
    iter__stage stage;
    memset(&stage, 0, sizeof(stage));
    stage.ops = &ops;
    const iter__stage *stages[] = {&stage};
    iter__pack_program program;
    iter__pack *pack;
    iter_desc out;
    size_t scratch;
    char why[160] = "";
    iter_error err = {0};
    if (!EXPECT_OK(iter__packer.create(&in, stages, 1, &pack, &out, &scratch, &err), &err)) return;
    EXPECT(!iter__packer.program(pack, &program, why, sizeof(why)));
    EXPECT_STR(why, "my-cuts: draws its geometry itself");
    iter__packer.destroy(pack);
}

static void test_refusals(void) {
    const iter_desc chw = image("CHW", 6, 7, 3);
    iter_desc other = chw;
    other.dtype = ITER_F32;
    expect_none(other, "normalize:0.5,0.25", "rows are f32, not u8");
    other.dtype = ITER_I8;
    expect_none(other, "cast:f32", "rows are i8, not u8");
    expect_none(chw, "cast:i32", "rows become i32");
    expect_none(chw, "cast:f64", "rows become f64");
    expect_none(image("HWC", 6, 7, 9), "flip", "9 channels, above 8");
    expect_none(chw, "pad:2,mode=reflect", "pad: a pad that reflects");
    expect_none(chw, "random-crop:size=5,pad=3,mode=edge", "random-crop: a pad that reflects");
    expect_none(chw, "pad:1,5 | pad:1,6", "more than one pad");
    expect_none(chw, "random-crop:size=5,pad=1 | pad:1", "more than one pad");
    expect_none(chw, "cutout:3 | cutout:3 | cutout:3 | cutout:3 | cutout:3", "more than 4 cutouts");
    expect_none(chw, "scale:0.5,0.25 | cast:u8 | scale:2,1", "more than one pass");
    expect_none(chw, "scale:1e300", "not finite");
    expect_none(chw, "cast:f32 | pad:1,value=1e300", "not finite");
    expect_none(image("HW", 40000, 1, 1), "flip", "above 32767 pixels a side");
    expect_program(image("HW", 40000, 1, 1), "cast:f16");
    expect_none(chw, "flip | posterize:3 | normalize",
                "posterize: a table of bytes, which no kernel looks up");
    expect_none(chw, "random-solarize | normalize", "random-solarize: a table of bytes");
    expect_program(chw, "posterize:8 | invert | pad:1,9 | invert | normalize:0.5,0.25");
    expect_program(chw, "random-crop:5,pad=2,fill=3 | invert | normalize:0.5,0.25 | to:f16,nhwc");
    test_own_stage();
}

int main(void) {
    static const char *const levels[] = {"generic", "avx2", "avx512", "neon"};
    for (int i = 0; i < 4; i++) {
        setenv("ITER_CPU", levels[i], 1);
        if (strcmp(iter_cpu_level(), levels[i]) != 0) continue;
        test_programs();
        test_random();
    }
    test_refusals();
    return EXPECT_DONE();
}
