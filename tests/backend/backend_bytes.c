/*
 * backend_bytes.c - bytes through tables: the lookups of every SIMD level, the stages against
 * torchvision's results, and the same stages in a fused pass and over images of any size.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "iter/spec/pack.h"
#include "tests/golden/bytes_torchvision.h"
#include "tests/support/image_stage.h"
#include "transforms/pack/lookup.h"

static const struct {
    const char *name;
    iter__lookup *lookup;
    int level;
} lookups[] = {
    {"generic", iter__lookup_generic, 0},
#if defined(__x86_64__)
    {"avx2", iter__lookup_avx2, 1},
    {"avx512", iter__lookup_avx512, 2},
    {"vbmi", iter__lookup_vbmi, 2},
#endif
};
enum { LOOKUPS = sizeof(lookups) / sizeof(lookups[0]) };

static int has_lookup(size_t k) {
#if defined(__x86_64__)
    if (k == 3 && !__builtin_cpu_supports("avx512vbmi")) return 0;
#endif
    return lookups[k].level == 0 || use_level(lookups[k].level);
}

/* ---- Lookups --------------------------------------------------------------------------------- */

static void check_lookup(size_t k, size_t n, int in_place, uint32_t seed) {
    uint8_t table[256];
    guarded in = guarded_new(n, (int)(seed & 1), 0), out = guarded_new(n, (int)(seed & 1), 0);
    guarded known = guarded_new(256, 0, seed % 3);
    fill(table, 1, 256, 1, 2 * seed + 1);
    fill((uint8_t *)in.data, 1, (int64_t)n, 1, 2 * seed + 3);
    memcpy(known.data, table, 256);
    if (in_place)
        memcpy(out.data, in.data, n);
    else
        mprotect(in.first, in.room, PROT_READ);
    lookups[k].lookup((uint8_t *)out.data, (const uint8_t *)(in_place ? out.data : in.data), n,
                      (const uint8_t *)known.data);
    int ok = EXPECT(guarded_is_clean(&out));
    for (size_t i = 0; i < n && ok; i++)
        ok = EXPECT_EQ((uint8_t)out.data[i], table[(uint8_t)in.data[i]]);
    if (!ok) fprintf(stderr, "  %s, %zu bytes\n", lookups[k].name, n);
    guarded_free(&in);
    guarded_free(&out);
    guarded_free(&known);
}

static void test_lookups(void) {
    for (size_t k = 0; k < LOOKUPS; k++) {
        if (!has_lookup(k)) continue;
        for (size_t n = 0; n < 200; n++)
            for (int in_place = 0; in_place < 2; in_place++)
                check_lookup(k, n, in_place, (uint32_t)n + 1);
        for (uint32_t seed = 0; seed < 20; seed++)
            check_lookup(k, 5000, 0, seed);
    }
}

/* ---- Stages ---------------------------------------------------------------------------------- */

/* Runs the bytes 0 to 255 through a chain of stages that are folded. */
static iter_status folded(const char *text, uint64_t position, uint8_t out[256], iter_error *err) {
    const iter_desc in = {ITER_U8, 1, {256}, 0, ""};
    const iter__pack_sample sample = {SEED, position, (uint32_t)(position / 3)};
    const iter__stage *stages[8];
    iter_chain *chain = NULL;
    iter__pack *pack = NULL;
    iter_desc desc;
    size_t bytes = 0;
    uint8_t ramp[256];
    for (int i = 0; i < 256; i++)
        ramp[i] = (uint8_t)i;
    iter_status status = iter_chain_parse(text, NULL, &chain, err);
    if (status < 0) return status;
    const int32_t n = iter__chain_n_stages(chain);
    for (int32_t i = 0; i < n; i++)
        stages[i] = iter__chain_stage(chain, i);
    status = iter__packer.create(&in, stages, n, &pack, &desc, &bytes, err);
    if (status == ITER_OK) {
        void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
        EXPECT_EQ(iter_desc_bytes(&desc), 256);
        iter__packer.run(pack, ramp, out, &sample, scratch, NULL);
        free(scratch);
        iter__packer.destroy(pack);
    }
    iter_chain_unref(chain);
    return status;
}

static void test_golden(void) {
    for (size_t i = 0; i < sizeof(torchvision_bytes) / sizeof(torchvision_bytes[0]); i++)
        for (int level = 0; level < LEVELS; level++) {
            const char *chain = torchvision_bytes[i].chain;
            uint8_t out[256];
            iter_error err = {0};
            if (!use_level(level)) continue;
            if (EXPECT_OK(folded(chain, 0, out, &err), &err) &&
                !EXPECT(fnv(out, sizeof(out)) == torchvision_bytes[i].hash))
                fprintf(stderr, "  \"%s\", %s\n", chain, levels[level]);
        }
}

/* Several tables become one, in their order. */
static void test_composition(void) {
    iter_error err = {0};
    uint8_t out[256];
    EXPECT_OK(folded("posterize:3 | solarize:100 | invert", 0, out, &err), &err);
    for (int i = 0; i < 256; i++) {
        const int kept = i & 0xe0;
        EXPECT_EQ(out[i], 255 - (kept < 100 ? kept : 255 - kept));
    }
    EXPECT_OK(folded("invert | posterize:3", 0, out, &err), &err);
    for (int i = 0; i < 256; i++)
        EXPECT_EQ(out[i], (255 - i) & 0xe0);
    EXPECT_OK(folded("invert | gamma:1 | invert", 0, out, &err), &err);
    for (int i = 0; i < 256; i++)
        EXPECT_EQ(out[i], i);
}

/* Stages with a probability: the sample's random number decides, and both outcomes occur. */
static void test_random(void) {
    static const struct {
        const char *name, *chain, *always;
    } cases[] = {
        {"random-posterize", "random-posterize:3,0.4", "posterize:3"},
        {"random-solarize", "random-solarize:77,0.4", "solarize:77"},
        {"random-invert", "random-invert:0.4", "invert"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int n_changed = 0;
        uint8_t out[256], want[256];
        iter_error err = {0};
        EXPECT_OK(folded(cases[i].always, 0, want, &err), &err);
        for (uint64_t position = 0; position < 200; position++) {
            iter_rng rng = iter_rng_at(iter_rng_key(SEED, cases[i].name, 0),
                                       (uint32_t)(position / 3), position);
            const int changes = iter_rng_chance(&rng, 0.4);
            EXPECT_OK(folded(cases[i].chain, position, out, &err), &err);
            for (int k = 0; k < 256; k++)
                if (!EXPECT_EQ(out[k], changes ? want[k] : k)) break;
            n_changed += changes;
        }
        EXPECT(n_changed > 50 && n_changed < 110);
    }
}

static void test_refusals(void) {
    static const struct {
        const char *chain, *says;
    } cases[] = {
        {"posterize", "wants bits to keep: bits=N, 0 to 8"},
        {"random-posterize:p=1", "wants bits to keep"},
    };
    const iter_desc u8 = {ITER_U8, 1, {4}, 0, ""}, f32 = {ITER_F32, 1, {4}, 0, ""};
    iter_error err = {0};
    iter_desc out;
    size_t scratch;
    const iter__stage *stage;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        iter_chain *chain = one_stage(cases[i].chain, &stage);
        EXPECT_ERROR(stage->ops->plan(stage->options, &u8, &out, &scratch, &err), ITER_EINVAL, &err,
                     cases[i].says);
        iter_chain_unref(chain);
    }
    iter_chain *chain = one_stage("solarize", &stage);
    EXPECT_OK(stage->ops->plan(stage->options, &u8, &out, &scratch, &err), &err);
    EXPECT_ERROR(stage->ops->plan(stage->options, &f32, &out, &scratch, &err), ITER_EINVAL, &err,
                 "wants u8, but got f32");
    iter_chain_unref(chain);
}

int main(void) {
    for (int level = 0; level < LEVELS; level++)
        if (!use_level(level)) printf("not on this machine: %s\n", levels[level]);
    test_lookups();
    test_golden();
    test_composition();
    test_random();
    test_refusals();
    return EXPECT_DONE();
}
