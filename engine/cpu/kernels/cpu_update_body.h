/*
 * cpu_update_body.h - one step of the optimiser, for a vector type. Included by the files of the
 * levels. The formulas are in engine/optimizer.h, the constants in cpu_optimizer.h.
 *
 * update() and replay() call the same two functions for each number, so they give the same bits.
 */

/* Weights, moments and gradient of one vector. */
typedef struct quad {
    vec w, m, v;
} quad;

static inline quad sgd_of(const cpu_update *u, quad x, vec g) {
    g = fma_of(x.w, all(u->weight_decay), g);
    x.m = fma_of(x.m, all(u->momentum), g * all(-u->rate));
    x.w += x.m;
    return x;
}

static inline quad adam_of(const cpu_update *u, quad x, vec g) {
    g = fma_of(x.w, all(u->weight_decay), g);
    x.m = fma_of(g, all(u->beta1_rest), x.m * all(u->beta1));
    x.v = fma_of(g * g, all(u->beta2_rest), x.v * all(u->beta2));
    x.w = fma_of(all(-u->rate), over_root(x.m, x.v, all(u->epsilon)), x.w);
    return x;
}

static void update_plain(const cpu_update *u, int64_t n, float *w, const float *g) {
    const vec decay = all(u->weight_decay), rate = all(-u->rate);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vec x = load(w + i);
        store(w + i, fma_of(fma_of(x, decay, g ? load(g + i) : all(0.0f)), rate, x));
    }
    if (i < n) {
        const vec x = load_some(w + i, n - i);
        const vec d = g ? load_some(g + i, n - i) : all(0.0f);
        store_some(w + i, fma_of(fma_of(x, decay, d), rate, x), n - i);
    }
}

static void update_sgd(const cpu_update *u, int64_t n, float *w, const float *g, float *m) {
    quad x = {all(0.0f), all(0.0f), all(0.0f)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        x.w = load(w + i);
        x.m = load(m + i);
        x = sgd_of(u, x, g ? load(g + i) : all(0.0f));
        store(w + i, x.w);
        store(m + i, x.m);
    }
    if (i < n) {
        x.w = load_some(w + i, n - i);
        x.m = load_some(m + i, n - i);
        x = sgd_of(u, x, g ? load_some(g + i, n - i) : all(0.0f));
        store_some(w + i, x.w, n - i);
        store_some(m + i, x.m, n - i);
    }
}

static void update_adam(const cpu_update *u, int64_t n, float *w, const float *g, float *m,
                        float *v) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        quad x = {load(w + i), load(m + i), load(v + i)};
        x = adam_of(u, x, g ? load(g + i) : all(0.0f));
        store(w + i, x.w);
        store(m + i, x.m);
        store(v + i, x.v);
    }
    if (i < n) {
        const int64_t left = n - i;
        quad x = {load_some(w + i, left), load_some(m + i, left), load_some(v + i, left)};
        x = adam_of(u, x, g ? load_some(g + i, left) : all(0.0f));
        store_some(w + i, x.w, left);
        store_some(m + i, x.m, left);
        store_some(v + i, x.v, left);
    }
}

static void update_any(const cpu_update *u, int64_t n, float *w, const float *g, float *m,
                       float *v) {
    if (v)
        update_adam(u, n, w, g, m, v);
    else if (m)
        update_sgd(u, n, w, g, m);
    else
        update_plain(u, n, w, g);
}

/* Works on four vectors side by side, so that the roots and quotients of one do not wait for those
 * of another. */
static void replay_adam(const cpu_update *u, int64_t n_steps, int64_t n, float *w, float *m,
                        float *v) {
    for (int64_t i = 0; i < n; i += 4 * LANES) {
        quad x[4];
        int64_t some[4];
        for (int k = 0; k < 4; k++) {
            const int64_t left = n - i - k * LANES, at = left > 0 ? i + k * LANES : i;
            some[k] = left < 0 ? 0 : left < LANES ? left : LANES;
            x[k] = (quad){load_some(w + at, some[k]), load_some(m + at, some[k]),
                          load_some(v + at, some[k])};
        }
        for (int64_t s = 0; s < n_steps; s++)
            for (int k = 0; k < 4; k++)
                x[k] = adam_of(u + s, x[k], all(0.0f));
        for (int k = 0; k < 4 && some[k] > 0; k++) {
            store_some(w + i + k * LANES, x[k].w, some[k]);
            store_some(m + i + k * LANES, x[k].m, some[k]);
            store_some(v + i + k * LANES, x[k].v, some[k]);
        }
    }
}

static void replay_any(const cpu_update *u, int64_t n_steps, int64_t n, float *w, float *m,
                       float *v) {
    if (v)
        replay_adam(u, n_steps, n, w, m, v);
    else
        for (int64_t s = 0; s < n_steps; s++)
            update_any(u + s, n, w, NULL, m, v);
}
