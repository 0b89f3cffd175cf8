/* cpu_maps_generic.c - the maps in portable C; the other levels compute the same. */
#include <iter/rng.h>

#include "engine/cpu/kernels/cpu_maps.h"

/* x * 0 is 0 if x is finite, else NaN. */
static bool all_finite(int64_t n, const float *x) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * 0.0f;
    return sum == 0;
}

static inline float rectified(float x) {
    return x < 0 ? 0.0f : x;
}

static void each_relu(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = rectified(x[i]);
}

static void each_relu_back(int64_t n, const float *y, const float *dy, float scale, float *dx) {
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] > 0 ? dy[i] * scale : 0.0f;
}

static void each_tanh_back(int64_t n, const float *y, const float *dy, float *dx) {
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

static void each_sigmoid_back(int64_t n, const float *y, const float *dy, float *dx) {
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

static void draw(const cpu_draw *draw, int64_t n, const uint32_t *blocks, uint8_t *bits) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t counter[4] = {blocks[i], draw->row, draw->step[0], draw->step[1]};
        uint32_t words[4];
        unsigned kept = 0;
        iter_philox4x32(counter, draw->key, words);
        for (int j = 0; j < 8; j++)
            kept |= (unsigned)((words[j / 2] >> (16 * (j % 2)) & 0xffffu) >= draw->threshold) << j;
        bits[i] = (uint8_t)kept;
    }
}

static void drop(int64_t n, const float *x, const uint8_t *bits, float scale, bool relu, float *y) {
    for (int64_t i = 0; i < n; i++) {
        const float value = relu ? rectified(x[i]) : x[i];
        y[i] = bits[i / 8] >> (i % 8) & 1 ? value * scale : 0.0f;
    }
}

const cpu_maps iter__cpu_maps_generic = {
    .name = "generic",
    .finite = all_finite,
    .relu = each_relu,
    .relu_back = each_relu_back,
    .tanh_back = each_tanh_back,
    .sigmoid_back = each_sigmoid_back,
    .draw = draw,
    .drop = drop,
};
