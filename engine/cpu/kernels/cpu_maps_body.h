/*
 * cpu_maps_body.h - the maps of a SIMD level over its vector of LANES floats, and Philox over LANES
 * counters at a time. Included by the files of the levels, which define vec, word and their
 * operations.
 *
 * Source of the rounds: Salmon, Moraes, Dror, Shaw 2011, Philox 4x32-10.
 */

#define PHILOX_ROUNDS 10

/* x * 0 is 0 if x is finite, else NaN. */
static bool all_finite(int64_t n, const float *x) {
    vec sums = all(0.0f);
    float lanes[LANES], sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sums += load(x + i) * 0.0f;
    if (i < n) sums += load_some(x + i, n - i) * 0.0f;
    store(lanes, sums);
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum == 0;
}

static void each_relu(int64_t n, const float *x, float *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, rectified(load(x + i)));
    if (i < n) store_some(y + i, rectified(load_some(x + i, n - i)), n - i);
}

static void each_relu_back(int64_t n, const float *y, const float *dy, float scale, float *dx) {
    const vec s = all(scale);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(dx + i, where_positive(load(y + i), load(dy + i) * s));
    if (i < n)
        store_some(dx + i, where_positive(load_some(y + i, n - i), load_some(dy + i, n - i) * s),
                   n - i);
}

static inline vec tanh_back_of(vec y, vec dy) {
    return dy * (1.0f - y * y);
}

static inline vec sigmoid_back_of(vec y, vec dy) {
    return dy * (y * (1.0f - y));
}

#define BACK(name, f)                                                                        \
    static void name(int64_t n, const float *y, const float *dy, float *dx) {                \
        int64_t i = 0;                                                                       \
        for (; i + LANES <= n; i += LANES)                                                   \
            store(dx + i, f(load(y + i), load(dy + i)));                                     \
        if (i < n)                                                                           \
            store_some(dx + i, f(load_some(y + i, n - i), load_some(dy + i, n - i)), n - i); \
    }

BACK(each_tanh_back, tanh_back_of)
BACK(each_sigmoid_back, sigmoid_back_of)
#undef BACK

/* One block for each of LANES counters; words[j] is word j of all of them. */
static inline void philox(const cpu_draw *draw, word counter, word words[4]) {
    word c0 = counter, c1 = all_words(draw->row);
    word c2 = all_words(draw->step[0]), c3 = all_words(draw->step[1]);
    uint32_t k0 = draw->key[0], k1 = draw->key[1];
    const word m0 = all_words(0xD2511F53u), m1 = all_words(0xCD9E8D57u);
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        const product p0 = multiply(c0, m0), p1 = multiply(c2, m1);
        c0 = exor(exor(p1.high, c1), all_words(k0));
        c2 = exor(exor(p0.high, c3), all_words(k1));
        c1 = p1.low;
        c3 = p0.low;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

static void draw(const cpu_draw *draw, int64_t n, const uint32_t *blocks, uint8_t *bits) {
    for (int64_t i = 0; i < n; i += LANES) {
        word words[4];
        philox(draw, load_counters(blocks + i), words);
        store_bits(words, draw->threshold, bits + i);
    }
}

static void drop(int64_t n, const float *x, const uint8_t *bits, float scale, bool relu, float *y) {
    const vec s = all(scale);
    int64_t i = 0;
    if (relu) {
        for (; i + LANES <= n; i += LANES)
            store(y + i, where_bits(bits + i / 8, rectified(load(x + i)) * s, LANES));
        if (i < n)
            store_some(y + i,
                       where_bits(bits + i / 8, rectified(load_some(x + i, n - i)) * s, n - i),
                       n - i);
        return;
    }
    for (; i + LANES <= n; i += LANES)
        store(y + i, where_bits(bits + i / 8, load(x + i) * s, LANES));
    if (i < n)
        store_some(y + i, where_bits(bits + i / 8, load_some(x + i, n - i) * s, n - i), n - i);
}

#define TABLE_(level) iter__cpu_maps_##level
#define TABLE(level)  TABLE_(level)

const cpu_maps TABLE(LEVEL) = {
    .name = LEVEL_NAME,
    .finite = all_finite,
    .relu = each_relu,
    .relu_back = each_relu_back,
    .tanh_back = each_tanh_back,
    .sigmoid_back = each_sigmoid_back,
    .draw = draw,
    .drop = drop,
};
