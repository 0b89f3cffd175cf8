/*
 * format_synthetic.c - generated samples in the shapes of the real sets; no file is read.
 *
 * A row is a function of (seed, field, index) alone: Philox blocks with the field in the key, and
 * counter words draw, index low, index high, 0. Blocks are independent of one another, so sixteen
 * are computed side by side in loops that compilers turn into SIMD.
 *
 *   integers       the blocks' bytes
 *   bool           the lowest bit of each byte
 *   f32, f64       N(0, 1) by Box and Muller's transform, two words to two numbers
 *   f16, bf16      uniform in [1, 2)
 *   labels         uniform classes
 *   cs224          a linear regression: data X ~ N(0, 1) f32 [1000], label y = sum over j of (W1[j]
 *                  X[j] + W0[j]), W ~ N(0, 1)
 *
 * Logarithm, sine and cosine are power series written out here: those of a C library may differ in
 * the last bit from one processor to the next, and then the samples would differ, too.
 *
 * Source: Box, Muller, "A note on the generation of random normal deviates", Ann. Math. Stat. 29
 * (1958).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <iter/option_rows.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/formats/shape.h"

#define LANES      16 /* blocks computed side by side */
#define LANE_WORDS ((size_t)4 * LANES)
#define STAGE      "synthetic" /* names the stream, see iter_rng_key() */

#define SAMPLES_MAX 9007199254740992.0 /* 2^53: an option's number is exact up to here */
#define REGRESSORS  1000               /* cs224's columns */
#define TOKENS_MIN  20                 /* imdb: shortest review */
#define TOKEN_FIRST 4u                 /* imdb: ids 0 to 3 mean padding, start, unknown, unused */
#define TOKEN_IDS   30000u

typedef struct synthetic_options {
    int64_t n, seed, classes, maxlen;
    const char *shape;
    int32_t dtype;
    bool variable;
} synthetic_options;

static const synthetic_options option_defaults = {.n = -1, .classes = 10, .maxlen = 150};

static const iter_option option_rows[] = {
    ITER_ROW_INT("n", "samples; -1 = as the real set has", synthetic_options, n, -1, SAMPLES_MAX,
                 0),
    ITER_ROW_INT("seed", "of the samples", synthetic_options, seed, 0, SAMPLES_MAX, 0),
    ITER_ROW_STRING("shape", "of a sample, if no name is given: 3x32x32", synthetic_options, shape,
                    0),
    ITER_ROW_DTYPE("dtype", "of a sample, if no name is given", synthetic_options, dtype, 0),
    ITER_ROW_INT("classes", "of the label, if no name is given; 0 = no label", synthetic_options,
                 classes, 0, INT32_MAX, 0),
    ITER_ROW_INT("maxlen", "imdb: tokens of the longest sample", synthetic_options, maxlen,
                 TOKENS_MIN, 1 << 24, 0),
    ITER_ROW_BOOL("variable", "imdb: rows of differing length instead of padded ones",
                  synthetic_options, variable),
    ITER_ROW_END,
};

/* How the rows of a field are made. */
typedef enum fill {
    ITER_FILL_BITS,
    ITER_FILL_BOOL,
    ITER_FILL_NORMAL_F32,
    ITER_FILL_NORMAL_F64,
    ITER_FILL_HALF, /* f16 and bf16 */
    ITER_FILL_TOKENS,
    ITER_FILL_CLASS,
    ITER_FILL_COARSE, /* class / 5, of the class in field 1 */
    ITER_FILL_TARGET
} fill;

typedef struct maker {
    fill kind;
    uint32_t key[2];
    uint64_t key64;
    iter_dtype dtype;
    size_t row_bytes;
    uint32_t n_classes;
} maker;

typedef struct synthetic_state {
    int n_makers;
    maker makers[ITER_MAX_FIELDS];
    int64_t length;
    bool variable;
    float *weights; /* cs224: W0[REGRESSORS], W1[REGRESSORS]; else NULL */
} synthetic_state;

/* A named shape; the field `data` is fields[0]. */
typedef struct shape_row {
    const char *name;
    int64_t n;
    iter_dtype dtype;
    int32_t n_dims;
    int64_t dims[3];
    const char *layout;
    fill data;
    uint32_t n_classes; /* 0 = the label is a number */
} shape_row;

static const shape_row shapes[] = {
    {"cifar10", 50000, ITER_U8, 3, {3, 32, 32}, "CHW", ITER_FILL_BITS, 10},
    {"cifar100", 50000, ITER_U8, 3, {3, 32, 32}, "CHW", ITER_FILL_BITS, 100},
    {"mnist", 60000, ITER_U8, 2, {28, 28, 0}, "HW", ITER_FILL_BITS, 10},
    {"imdb", 25000, ITER_I32, 1, {0, 0, 0}, "T", ITER_FILL_TOKENS, 2},
    {"cs224", 90000, ITER_F32, 1, {REGRESSORS, 0, 0}, "C", ITER_FILL_NORMAL_F32, 0},
};

/* ---- random words ---------------------------------------------------------------------------- */

/* Blocks first_draw .. first_draw + 15 of a row's stream, word after word. */
static void make_words(const uint32_t key[2], uint64_t index, uint32_t first_draw,
                       uint32_t out[LANE_WORDS]) {
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = key[0], k1 = key[1];
    for (uint32_t i = 0; i < LANES; i++) {
        c0[i] = first_draw + i;
        c1[i] = (uint32_t)index;
        c2[i] = (uint32_t)(index >> 32);
        c3[i] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (size_t i = 0; i < LANES; i++) {
        out[4 * i + 0] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

static void fill_bits(const maker *m, uint64_t index, void *row) {
    uint32_t words[LANE_WORDS];
    uint32_t draw = 0;
    for (size_t done = 0; done < m->row_bytes; done += sizeof(words), draw += LANES) {
        const size_t left = m->row_bytes - done;
        make_words(m->key, index, draw, words);
        memcpy((char *)row + done, words, iter__min_size(left, sizeof(words)));
    }
}

static void fill_bool(const maker *m, uint64_t index, void *row) {
    unsigned char *p = row;
    fill_bits(m, index, row);
    for (size_t i = 0; i < m->row_bytes; i++)
        p[i] &= 1;
}

/* Random fractions under the exponent of 1. */
static void fill_half(const maker *m, uint64_t index, void *row) {
    const uint16_t one = m->dtype == ITER_F16 ? 0x3c00 : 0x3f80;
    const uint16_t fraction = m->dtype == ITER_F16 ? 0x03ff : 0x007f;
    uint16_t *p = row;
    fill_bits(m, index, row);
    for (size_t i = 0; i < m->row_bytes / 2; i++)
        p[i] = (uint16_t)(one | (p[i] & fraction));
}

/* ---- normal numbers -------------------------------------------------------------------------- */

/* -2 ln u for u = (2w + 1) / 2^33. With u = m 2^e, m in [1/sqrt 2, sqrt 2), and s = (m - 1) / (m +
 * 1): ln u = e ln 2 + 2 (s + s^3/3 + s^5/5 + ...). |s| < 0.1716, so the terms after s^19 are below
 * 1e-17. */
static double minus_2_log(uint32_t w) {
    static const double factors[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                     1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    const double u = (2.0 * w + 1.0) * 0x1p-33;
    uint64_t bits;
    memcpy(&bits, &u, sizeof(bits));
    const uint64_t above = bits - UINT64_C(0x3fe6a09e667f3bcd); /* the bits of sqrt(1/2) */
    const uint64_t exponent = above & ~((UINT64_C(1) << 52) - 1);
    bits -= exponent;
    double m;
    memcpy(&m, &bits, sizeof(m));
    const double s = (m - 1.0) / (m + 1.0), t = s * s;
    double sum = factors[0];
    for (int i = 1; i < 10; i++)
        sum = sum * t + factors[i];
    const int32_t e = (int32_t)(exponent >> 32) / (1 << 20); /* exact */
    return -2.0 * ((double)e * 0.6931471805599453 + 2.0 * s * sum);
}

/* Cosine and sine of 2 pi w / 2^32: the nearest quarter turn q, and Taylor's series of the rest x,
 * at most pi/4 either way; the terms after x^17 are below 1e-19. */
static void cos_sin(uint32_t w, double *out_cos, double *out_sin) {
    static const double cosine[] = {1.0 / 20922789888000.0,
                                    -1.0 / 87178291200.0,
                                    1.0 / 479001600.0,
                                    -1.0 / 3628800.0,
                                    1.0 / 40320.0,
                                    -1.0 / 720.0,
                                    1.0 / 24.0,
                                    -1.0 / 2.0,
                                    1.0};
    static const double sine[] = {1.0 / 355687428096000.0,
                                  -1.0 / 1307674368000.0,
                                  1.0 / 6227020800.0,
                                  -1.0 / 39916800.0,
                                  1.0 / 362880.0,
                                  -1.0 / 5040.0,
                                  1.0 / 120.0,
                                  -1.0 / 6.0,
                                  1.0};
    const uint32_t q = (w + 0x20000000u) >> 30; /* 0..3, turns modulo 4 */
    const double x = (double)(int32_t)(w - (q << 30)) * 0x1p-30 * 1.5707963267948966;
    const double t = x * x;
    double c = cosine[0], s = sine[0];
    for (int i = 1; i < 9; i++) {
        c = c * t + cosine[i];
        s = s * t + sine[i];
    }
    s *= x;
    const double along = q & 1 ? s : c, across = q & 1 ? c : s;
    *out_cos = q == 1 || q == 2 ? -along : along;
    *out_sin = q >= 2 ? -across : across;
}

/* Two words to two independent numbers, for a lane of blocks. */
static void make_normals(const uint32_t words[LANE_WORDS], double out[LANE_WORDS]) {
    for (size_t i = 0; i < LANE_WORDS; i += 2) {
        double c, s;
        const double radius = sqrt(minus_2_log(words[i]));
        cos_sin(words[i + 1], &c, &s);
        out[i] = radius * c;
        out[i + 1] = radius * s;
    }
}

static void fill_normals(const maker *m, uint64_t index, void *row) {
    const size_t n = m->row_bytes / iter_dtype_bytes(m->dtype);
    uint32_t words[LANE_WORDS];
    double numbers[LANE_WORDS];
    uint32_t draw = 0;
    for (size_t done = 0; done < n; done += LANE_WORDS, draw += LANES) {
        const size_t part = iter__min_size(n - done, LANE_WORDS);
        make_words(m->key, index, draw, words);
        make_normals(words, numbers);
        for (size_t i = 0; i < part; i++) {
            if (m->kind == ITER_FILL_NORMAL_F64) {
                ((double *)row)[done + i] = numbers[i];
            } else {
                ((float *)row)[done + i] = (float)numbers[i];
            }
        }
    }
}

/* ---- labels and tokens ----------------------------------------------------------------------- */

static void store_class(const maker *m, uint32_t class, void *row) {
    if (m->dtype == ITER_U8) {
        *(uint8_t *)row = (uint8_t) class;
    } else {
        *(int32_t *)row = (int32_t) class;
    }
}

static uint32_t class_of(const maker *m, uint64_t index) {
    iter_rng rng = iter_rng_at(m->key64, 0, index);
    return (uint32_t)iter_rng_below(&rng, m->n_classes);
}

/* A review: 1, then ids of words; returns its length. The rest of the row is 0. */
static int64_t fill_tokens(const synthetic_state *s, const maker *m, uint64_t index, void *row) {
    iter_rng rng = iter_rng_at(m->key64, 0, index);
    const uint64_t spread = (uint64_t)(s->length - TOKENS_MIN) + 1;
    const int64_t length = TOKENS_MIN + (int64_t)iter_rng_below(&rng, spread);
    int32_t *ids = row;
    ids[0] = 1;
    for (int64_t i = 1; i < length; i++)
        ids[i] = (int32_t)(TOKEN_FIRST + iter_rng_below(&rng, TOKEN_IDS - TOKEN_FIRST));
    if (!s->variable) memset(ids + length, 0, (size_t)(s->length - length) * sizeof(*ids));
    return length;
}

/* Computed in double, in the order of j, and rounded once. */
static float target_of(const float *weights, const float *x) {
    double sum = 0;
    for (int j = 0; j < REGRESSORS; j++)
        sum += (double)weights[REGRESSORS + j] * x[j] + weights[j];
    return (float)sum;
}

/* ---- open ------------------------------------------------------------------------------------ */

static const char *shape_names(void) {
    return "cifar10, cifar100, mnist, imdb, cs224, or no name and shape=";
}

/* The maker of the field that was described last. */
static void add_maker(synthetic_state *s, const iter_field *field, fill kind, int64_t seed,
                      uint32_t n_classes) {
    maker *m = &s->makers[s->n_makers];
    m->kind = kind;
    m->key64 = iter_rng_key((uint64_t)seed, STAGE, (uint32_t)s->n_makers);
    m->key[0] = (uint32_t)m->key64;
    m->key[1] = (uint32_t)(m->key64 >> 32);
    m->dtype = field->desc.dtype;
    m->row_bytes = iter_desc_bytes(&field->desc);
    m->n_classes = n_classes;
    s->n_makers++;
}

static iter_field *add_field(iter_description *out, const char *name, iter_role role,
                             iter_dtype dtype) {
    iter_field *field = &out->fields[out->n_fields++];
    memset(field, 0, sizeof(*field));
    (void)snprintf(field->name, sizeof(field->name), "%s", name);
    field->role = role;
    field->desc.dtype = dtype;
    field->extent = ITER_FROM_INDEX;
    return field;
}

static void add_label(synthetic_state *s, iter_description *out, uint32_t n_classes, int64_t seed) {
    iter_field *label = add_field(out, "label", ITER_LABEL, n_classes <= 256 ? ITER_U8 : ITER_I32);
    add_maker(s, label, ITER_FILL_CLASS, seed, n_classes);
    out->n_classes = (int32_t)n_classes;
}

static iter_status make_weights(synthetic_state *s, int64_t seed, iter_error *err) {
    s->weights = iter__alloc(2 * (size_t)REGRESSORS, sizeof(*s->weights));
    if (!s->weights) return iter__fail(err, ITER_ENOMEM, "synthetic: no memory for the weights");
    const uint64_t key = iter_rng_key((uint64_t)seed, STAGE "-weights", 0);
    const maker m = {.kind = ITER_FILL_NORMAL_F32,
                     .key = {(uint32_t)key, (uint32_t)(key >> 32)},
                     .dtype = ITER_F32,
                     .row_bytes = REGRESSORS * sizeof(float)};
    fill_normals(&m, 0, s->weights);
    fill_normals(&m, 1, s->weights + REGRESSORS);
    return ITER_OK;
}

static iter_status open_named(synthetic_state *s, const shape_row *shape,
                              const synthetic_options *o, iter_description *out, iter_error *err) {
    if (o->shape || o->dtype) {
        return iter__fail(err, ITER_EINVAL, "synthetic:%s has its shape; %s= is for no name",
                          shape->name, o->shape ? "shape" : "dtype");
    }
    iter_field *data = add_field(out, "data", ITER_DATA, shape->dtype);
    data->desc.n_dims = shape->n_dims;
    memcpy(data->desc.dims, shape->dims, sizeof(shape->dims));
    (void)snprintf(data->desc.layout, sizeof(data->desc.layout), "%s", shape->layout);
    if (shape->data == ITER_FILL_TOKENS) {
        s->length = o->maxlen;
        s->variable = o->variable;
        data->desc.dims[0] = o->variable ? ITER_VARIABLE : o->maxlen;
        data->desc.capacity = o->variable ? o->maxlen : 0;
    }
    add_maker(s, data, shape->data, o->seed, 0);
    out->n_samples = (uint64_t)(o->n < 0 ? shape->n : o->n);
    if (shape->n_classes > 0) {
        add_label(s, out, shape->n_classes, o->seed);
    } else {
        add_maker(s, add_field(out, "label", ITER_LABEL, ITER_F32), ITER_FILL_TARGET, o->seed, 0);
        ITER_TRY(make_weights(s, o->seed, err));
    }
    if (shape->n_classes == 100) {
        const iter_field *coarse = add_field(out, "coarse_label", ITER_LABEL, ITER_U8);
        add_maker(s, coarse, ITER_FILL_COARSE, o->seed, 0);
    }
    return ITER_OK;
}

static iter_status open_free(synthetic_state *s, const synthetic_options *o, iter_description *out,
                             iter_error *err) {
    if (!o->shape) return iter__fail(err, ITER_EINVAL, "synthetic: needs %s", shape_names());
    if (o->n < 0) return iter__fail(err, ITER_EINVAL, "synthetic: shape= needs n= too");
    iter_field *data = add_field(out, "data", ITER_DATA, o->dtype ? (iter_dtype)o->dtype : ITER_U8);
    const iter_status status = iter__shape_parse(o->shape, &data->desc, err);
    if (status < 0) return iter__fail_in(err, status, "synthetic");
    if (data->desc.n_dims == 3) memcpy(data->desc.layout, "CHW", 4);
    if (data->desc.n_dims == 2) memcpy(data->desc.layout, "HW", 3);
    fill kind = ITER_FILL_BITS;
    switch (data->desc.dtype) {
    case ITER_BOOL: kind = ITER_FILL_BOOL; break;
    case ITER_F16:
    case ITER_BF16: kind = ITER_FILL_HALF; break;
    case ITER_F32: kind = ITER_FILL_NORMAL_F32; break;
    case ITER_F64: kind = ITER_FILL_NORMAL_F64; break;
    default: break;
    }
    add_maker(s, data, kind, o->seed, 0);
    if (o->classes > 0) add_label(s, out, (uint32_t)o->classes, o->seed);
    out->n_samples = (uint64_t)o->n;
    return ITER_OK;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void synthetic_close(void *state) {
    synthetic_state *s = state;
    iter__free(s->weights);
    memset(s, 0, sizeof(*s));
}

static iter_status synthetic_open(void *state, const char *path, const void *options,
                                  iter_description *out, iter_error *err) {
    synthetic_state *s = state;
    const synthetic_options *o = options;
    const shape_row *shape = NULL;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (strcmp(path, shapes[i].name) == 0) shape = &shapes[i];
    }
    iter_status status;
    if (o->n == 0) {
        status = iter__fail(err, ITER_EINVAL, "synthetic:%s: n=0 is a set without samples", path);
    } else if (shape) {
        status = open_named(s, shape, o, out, err);
    } else if (path[0] == '\0') {
        status = open_free(s, o, out, err);
    } else {
        status = iter__fail(err, ITER_EINVAL, "synthetic: no shape is called '%s'; there are %s",
                            path, shape_names());
    }
    if (status < 0) {
        synthetic_close(s);
        return status;
    }
    out->split = "";
    out->keep_rows = 1;
    out->identity = iter__fnv1a_text(ITER_FNV_START, "synthetic");
    out->identity = iter__fnv1a_text(out->identity, path);
    out->identity = iter__fnv1a_u64(out->identity, (uint64_t)o->seed);
    out->identity = iter__fnv1a_u64(out->identity, out->n_samples);
    for (int32_t f = 0; f < out->n_fields; f++) {
        char text[128];
        iter_desc_text(&out->fields[f].desc, text, sizeof(text));
        out->identity = iter__fnv1a_text(out->identity, text);
        out->identity = iter__fnv1a_u64(out->identity, (uint64_t)out->fields[f].desc.capacity);
        out->identity = iter__fnv1a_u64(out->identity, s->makers[f].n_classes);
    }
    return ITER_OK;
}

/* Row i of field f. */
static void fill_row(const synthetic_state *s, int f, uint32_t i, uint64_t index,
                     const iter_tensor *rows) {
    const maker *m = &s->makers[f];
    const int64_t at = (int64_t)i * rows[f].strides[0];
    void *row = (char *)rows[f].data + at * (int64_t)iter_dtype_bytes(m->dtype);
    switch (m->kind) {
    case ITER_FILL_BITS: fill_bits(m, index, row); break;
    case ITER_FILL_BOOL: fill_bool(m, index, row); break;
    case ITER_FILL_HALF: fill_half(m, index, row); break;
    case ITER_FILL_NORMAL_F32:
    case ITER_FILL_NORMAL_F64: fill_normals(m, index, row); break;
    case ITER_FILL_CLASS: store_class(m, class_of(m, index), row); break;
    case ITER_FILL_COARSE: store_class(m, class_of(&s->makers[1], index) / 5, row); break;
    case ITER_FILL_TOKENS: {
        const int64_t length = fill_tokens(s, m, index, row);
        if (s->variable) iter_rows_set_length(rows, f, i, length);
        break;
    }
    case ITER_FILL_TARGET: { /* of the row of field 0, which is made already */
        const float *x = rows[0].data;
        *(float *)row = target_of(s->weights, x + (int64_t)i * rows[0].strides[0]);
        break;
    }
    }
}

static iter_status synthetic_get(const void *state, uint32_t n, const uint64_t *indices,
                                 const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    const synthetic_state *s = state;
    (void)rng, (void)err;
    for (int f = 0; f < s->n_makers; f++) {
        for (uint32_t i = 0; i < n; i++)
            fill_row(s, f, i, indices[i], rows);
    }
    return ITER_OK;
}

/* As fill_tokens() draws it; -1 if all rows have the same length. */
static int64_t synthetic_length(const void *state, uint64_t index) {
    const synthetic_state *s = state;
    if (!s->variable) return -1;
    iter_rng rng = iter_rng_at(s->makers[0].key64, 0, index);
    return TOKENS_MIN + (int64_t)iter_rng_below(&rng, (uint64_t)(s->length - TOKENS_MIN) + 1);
}

const iter_format_ops iter__format_synthetic = {
    .base = {.struct_size = sizeof(iter_format_ops),
             .name = "synthetic",
             .help = "seeded samples in the shape of a real set, or any shape; no files",
             .options = option_rows,
             .defaults = &option_defaults,
             .options_size = sizeof(synthetic_options),
             .state_size = sizeof(synthetic_state)},
    .open = synthetic_open,
    .close = synthetic_close,
    .get = synthetic_get,
    .length = synthetic_length,
};
