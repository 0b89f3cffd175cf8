/*
 * param_init.c - initial weights: a function of (seed, the parameter's name) alone.
 *
 * Random words come from the stream of that key. A word k stands for (k + 1/2) / 2^32, which is
 * neither 0 nor 1. Sources: Glorot & Bengio, "Understanding the difficulty of training deep
 * feedforward neural networks", 2010 (uniform; MXNet's Xavier with its defaults is the same); He et
 * al., "Delving deep into rectifiers", 2015; Box & Muller 1958 for normal numbers.
 */
#include <math.h>
#include <string.h>

#include <iter/rng.h>

#include "engine/net.h"

#define TWO_PI 6.28318530717958647692

static double unit(iter_rng *rng) {
    return ((double)iter_rng_u32(rng) + 0.5) * 0x1p-32;
}

static void fill_uniform(iter_rng *rng, double range, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)((2 * unit(rng) - 1) * range);
}

static void fill_normal(iter_rng *rng, double deviation, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 2) {
        const double radius = sqrt(-2 * log(unit(rng))) * deviation;
        const double angle = TWO_PI * unit(rng);
        out[i] = (float)(radius * cos(angle));
        if (i + 1 < n) out[i + 1] = (float)(radius * sin(angle));
    }
}

void iter__param_init(const engine_param *param, uint64_t seed, float *out) {
    const int64_t n = param->n_elements;
    if (param->bias) {
        memset(out, 0, (size_t)n * sizeof(*out));
        return;
    }
    iter_rng rng = iter_rng_at(iter_rng_key(seed, param->public.name, 0), 0, 0);
    switch ((iter_init)param->init) {
    case ITER_INIT_GLOROT:
        fill_uniform(&rng, sqrt(6 / (param->fan_in + param->fan_out)), n, out);
        break;
    case ITER_INIT_HE: fill_normal(&rng, sqrt(2 / param->fan_in), n, out); break;
    case ITER_INIT_UNIFORM: fill_uniform(&rng, param->init_range, n, out); break;
    }
}
