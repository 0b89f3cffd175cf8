/*
 * cpu_gates_body.h - the gates of a gated recurrent unit, forward and backward, for a vector type.
 * Included by the files of the SIMD levels. cpu_kernels.h documents the arguments.
 *
 * Forward, a row at a time:  z = sigmoid(.), r = sigmoid(.), n = tanh(.), h' = n + z (h - n).
 * Back, with dh the gradient of h' and every d* that of the sum before the activation:
 *
 *     dn = dh (1 - z) (1 - n^2)        dz = dh (h - n) z (1 - z)        dh <- z dh
 *     after:  dr = dn q r (1 - r)      dq = r dn
 *     before: dr = (dn Rn) h r (1 - r)                                  dh += r (dn Rn)
 */

/* A loop over the units of a row: `whole` vectors, then the rest with the same body. */
#define OVER_UNITS(units, body)                    \
    do {                                           \
        int64_t j = 0;                             \
        for (; j + LANES <= (units); j += LANES) { \
            body(load, store)                      \
        }                                          \
        if (j < (units)) {                         \
            const int64_t left = (units)-j;        \
            body(LOAD_LEFT, STORE_LEFT)            \
        }                                          \
    } while (0)
#define LOAD_LEFT(p)     load_some(p, left)
#define STORE_LEFT(p, v) store_some(p, v, left)

/* Prefetches the rows of the projection that this row needs at the next step; they are scattered
 * over a table of several megabytes. */
static inline void fetch_next(const cpu_gates_forward *s, int64_t i, int64_t n) {
    if (!s->index_next) return;
    const float *p = s->projected + s->index_next[i] * s->projected_ld;
    for (int64_t j = 0; j < n; j += 16)
        __builtin_prefetch(p + j);
}

static void gates_after_forward(const cpu_gates_forward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *p = s->projected + s->index[i] * s->projected_ld;
        const float *c = s->recurrent + i * s->recurrent_ld, *h0 = s->h_before + i * s->h_ld;
        float *h = s->h + i * s->h_ld, *a = s->saved + i * 4 * u;
        fetch_next(s, i, 3 * u);
#define BODY(get, put)                                         \
    const vec r = sigmoid_of(get(p + j) + get(c + j));         \
    const vec z = sigmoid_of(get(p + u + j) + get(c + u + j)); \
    const vec q = get(c + 2 * u + j);                          \
    const vec n = tanh_of(fma_of(r, q, get(p + 2 * u + j)));   \
    put(a + j, n);                                             \
    put(a + u + j, r);                                         \
    put(a + 2 * u + j, z);                                     \
    put(a + 3 * u + j, q);                                     \
    put(h + j, fma_of(z, get(h0 + j) - n, n));
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

static void gates_before_forward_reset(const cpu_gates_forward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *p = s->projected + s->index[i] * s->projected_ld;
        const float *c = s->recurrent + i * s->recurrent_ld, *h0 = s->h_before + i * s->h_ld;
        float *a = s->saved + i * 4 * u;
#define BODY(get, put)                                         \
    const vec r = sigmoid_of(get(p + j) + get(c + j));         \
    const vec z = sigmoid_of(get(p + u + j) + get(c + u + j)); \
    put(a + u + j, r);                                         \
    put(a + 2 * u + j, z);                                     \
    put(a + 3 * u + j, r * get(h0 + j));
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

static void gates_before_forward_state(const cpu_gates_forward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *p = s->projected + s->index[i] * s->projected_ld + 2 * u;
        const float *c = s->recurrent + i * s->recurrent_ld, *h0 = s->h_before + i * s->h_ld;
        float *h = s->h + i * s->h_ld, *a = s->saved + i * 4 * u;
        fetch_next(s, i, 3 * u);
#define BODY(get, put)                              \
    const vec n = tanh_of(get(p + j) + get(c + j)); \
    put(a + j, n);                                  \
    put(h + j, fma_of(get(a + 2 * u + j), get(h0 + j) - n, n));
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

static inline vec joined(vec dh, vec dy) {
    return dh + dy;
}

static void gates_after_backward(const cpu_gates_backward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *h0 = s->h_before + i * s->h_ld, *dy = s->dy ? s->dy + i * s->dy_ld : NULL;
        float *dh = s->dh + i * s->h_ld, *a = s->saved + i * 4 * u;
#define BODY(get, put)                                                 \
    const vec g = dy ? joined(get(dh + j), get(dy + j)) : get(dh + j); \
    const vec n = get(a + j), r = get(a + u + j);                      \
    const vec z = get(a + 2 * u + j), q = get(a + 3 * u + j);          \
    const vec gz = g * z;                                              \
    const vec dn = (g - gz) * fma_of(-n, n, all(1.0f));                \
    put(a + j, dn);                                                    \
    put(a + u + j, dn * q * fma_of(-r, r, r));                         \
    put(a + 2 * u + j, (get(h0 + j) - n) * (gz * (1.0f - z)));         \
    put(a + 3 * u + j, dn * r);                                        \
    put(dh + j, gz);
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

static void gates_before_backward_state(const cpu_gates_backward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *h0 = s->h_before + i * s->h_ld, *dy = s->dy ? s->dy + i * s->dy_ld : NULL;
        float *dh = s->dh + i * s->h_ld, *a = s->saved + i * 4 * u;
#define BODY(get, put)                                                 \
    const vec g = dy ? joined(get(dh + j), get(dy + j)) : get(dh + j); \
    const vec n = get(a + j), z = get(a + 2 * u + j), gz = g * z;      \
    put(a + j, (g - gz) * fma_of(-n, n, all(1.0f)));                   \
    put(a + 2 * u + j, (get(h0 + j) - n) * (gz * (1.0f - z)));         \
    put(dh + j, gz);
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

static void gates_before_backward_reset(const cpu_gates_backward *s) {
    const int64_t u = s->units;
    for (int64_t i = 0; i < s->rows; i++) {
        const float *h0 = s->h_before + i * s->h_ld, *product = s->product + i * s->h_ld;
        float *dh = s->dh + i * s->h_ld, *a = s->saved + i * 4 * u;
#define BODY(get, put)                                  \
    const vec r = get(a + u + j), d = get(product + j); \
    put(a + u + j, d * get(h0 + j) * fma_of(-r, r, r)); \
    put(dh + j, fma_of(r, d, get(dh + j)));
        OVER_UNITS(u, BODY);
#undef BODY
    }
}

#undef OVER_UNITS
#undef LOAD_LEFT
#undef STORE_LEFT
