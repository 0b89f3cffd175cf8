/*
 * suggest.c - the known name nearest to one that is not known.
 *
 * The text is first spelled as names are here: "RandomCrop", "random_crop" and
 * "transforms.RandomCrop" become "random-crop". If that is a known name, it is the answer. If a
 * table has it as another library's word for a known name, that name is the answer. Otherwise the
 * distance is the number of letters to add, drop, change or swap with their neighbour (the
 * restricted Damerau-Levenshtein distance); it may be at most one third of the longer name. If the
 * text is the beginning of a name, the distance is one. Of equally near names the first offered
 * wins.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/arith.h"
#include "iter/spec/suggest.h"

/* Longer names get no suggestion: so the table of distances has rows of a fixed size. */
#define LETTERS_MAX 40
/* A shorter beginning of a name fits too many names. */
#define BEGINNING_MIN 3

/* ---- Other libraries' names ------------------------------------------------------------------ */

/* `theirs` is the word of another library (torchvision, albumentations, MXNet, Keras, numpy,
 * OpenCV) for `ours`, or for `instead` if it needs an option. Only names that are offered count, so
 * one of theirs may be listed several times. */
typedef struct other_name {
    const char *theirs, *ours, *instead;
} other_name;

static const other_name other_names[] = {
    /* Stages. */
    {"random-horizontal-flip", "random-flip", NULL},
    {"horizontal-flip", "random-flip", NULL},
    {"random-flip-left-right", "random-flip", NULL},
    {"rand-mirror", "random-flip", NULL},
    {"random-vertical-flip", "random-flip", "random-flip:axis=vertical"},
    {"vertical-flip", "random-flip", "random-flip:axis=vertical"},
    {"random-flip-top-bottom", "random-flip", "random-flip:axis=vertical"},
    {"hflip", "flip", NULL},
    {"mirror", "flip", NULL},
    {"vflip", "flip", "flip:axis=vertical"},
    {"random-sized-crop", "random-resized-crop", NULL},
    {"rand-crop", "random-crop", NULL},
    {"smallest-max-size", "resize-short", NULL},
    {"resizing", "resize", NULL},
    {"force-resize", "resize", NULL},
    {"pad-if-needed", "pad", NULL},
    {"padding", "pad", NULL},
    {"coarse-dropout", "cutout", NULL},
    {"to-gray", "grayscale", NULL},
    {"to-grayscale", "grayscale", NULL},
    {"rgb-to-grayscale", "grayscale", NULL},
    {"random-gray", "random-grayscale", NULL},
    {"random-brightness", "color-jitter", NULL},
    {"random-contrast", "color-jitter", NULL},
    {"random-saturation", "color-jitter", NULL},
    {"random-hue", "color-jitter", NULL},
    {"random-color-jitter", "color-jitter", NULL},
    {"adjust-gamma", "gamma", NULL},
    {"random-gamma", "gamma", NULL},
    {"invert-img", "invert", NULL},
    {"to-tensor", "normalize", "normalize | to:f32,nchw"},
    {"to-tensor-v2", "to", "to:layout=nchw"},
    {"permute", "to", "to:layout=nchw"},
    {"color-normalize", "normalize", NULL},
    {"standardize", "normalize", NULL},
    {"rescale", "scale", NULL},
    {"rescaling", "scale", NULL},
    {"to-float", "cast", "cast:f32"},
    {"to-dtype", "cast", NULL},
    {"as-type", "cast", NULL},
    {"astype", "cast", NULL},
    {"to-categorical", "one-hot", NULL},
    {"pad-sequence", "pad-batch", NULL},
    {"pad-sequences", "pad-batch", NULL},
    /* Options. */
    {"padding", "all", NULL},
    {"padding", "side", NULL},
    {"truncating", "side", NULL},
    {"padding-mode", "mode", NULL},
    {"border-mode", "mode", NULL},
    {"fill", "value", NULL},
    {"value", "fill", NULL},
    {"fill-value", "fill", NULL},
    {"fill-value", "value", NULL},
    {"constant-values", "fill", NULL},
    {"constant-values", "value", NULL},
    {"crop-size", "size", NULL},
    {"output-size", "size", NULL},
    {"target-size", "size", NULL},
    {"image-size", "size", NULL},
    {"h", "height", NULL},
    {"w", "width", NULL},
    {"prob", "p", NULL},
    {"probability", "p", NULL},
    {"stddev", "std", NULL},
    {"sigma", "std", NULL},
    {"num-classes", "classes", NULL},
    {"depth", "classes", NULL},
    {"type", "dtype", NULL},
    {"format", "layout", NULL},
    {"data-format", "layout", NULL},
    {"filter", "interpolation", NULL},
    {"resample", "interpolation", NULL},
    {"interp", "interpolation", NULL},
    {"inter-method", "interpolation", NULL},
    {"method", "interpolation", NULL},
    {"aspect-ratio", "ratio", NULL},
    {"area", "scale", NULL},
    {"direction", "axis", NULL},
    {"num-bits", "bits", NULL},
    {"maxlen", "length", NULL},
    {"max-length", "length", NULL},
    {"start-char", "start", NULL},
    {"oov-char", "unknown", NULL},
    {"index-from", "offset", NULL},
    {"num-words", "limit", NULL},
    {"multiplier", "factor", NULL},
    {"offset", "bias", NULL},
    {"num", "n", NULL},
    {"num-samples", "n", NULL},
    /* Words of options. */
    {"zero", "constant", NULL},
    {"zeros", "constant", NULL},
    {"replicate", "edge", NULL},
    {"nearest", "edge", NULL},
    {"border", "edge", NULL},
    {"symmetric", "reflect", NULL},
    {"linear", "bilinear", NULL},
    {"cubic", "bicubic", NULL},
    {"box", "area", NULL},
    {"channels-first", "nchw", NULL},
    {"channels-last", "nhwc", NULL},
    {"floor", "pillow", NULL},
    {"left", "pre", NULL},
    {"right", "post", NULL},
    {"on", "true", NULL},
    {"off", "false", NULL},
    /* Element types. */
    {"float", "f32", NULL},
    {"fp32", "f32", NULL},
    {"single", "f32", NULL},
    {"double", "f64", NULL},
    {"half", "f16", NULL},
    {"fp16", "f16", NULL},
    {"bfloat", "bf16", NULL},
    {"byte", "u8", NULL},
    {"short", "i16", NULL},
    {"int", "i32", NULL},
    {"long", "i64", NULL},
    /* Formats. */
    {"image-folder", "folder", NULL},
    {"imagefolder", "folder", NULL},
    {"rec", "recordio", NULL},
    {"image-record", "recordio", NULL},
    {"image-record-iter", "recordio", NULL},
    {"webdataset", "tar", NULL},
    {"web-dataset", "tar", NULL},
    {"wds", "tar", NULL},
    {"numpy", "npy", NULL},
    {"idx", "mnist", NULL},
    {"fashion-mnist", "mnist", NULL},
    {"fake-data", "synthetic", NULL},
    /* Of the trainer. */
    {"linear", "dense", NULL},
    {"fully-connected", "dense", NULL},
    {"fc", "dense", NULL},
    {"xavier", "glorot", NULL},
    {"kaiming", "he", NULL},
    {"learning-rate", "lr", NULL},
    /* Samplers. */
    {"random", "shuffle", NULL},
    {"random-sampler", "shuffle", NULL},
    {"full", "shuffle", NULL},
    {"none", "sequential", NULL},
    {"sequential-sampler", "sequential", NULL},
    {"with-replacement", "replacement", NULL},
};

/* Words of other libraries for what the grammar does. */
static const char *const joins[] = {"compose", "sequential", "hybrid-sequential", "replay-compose"};

bool iter__other_name(size_t i, const char **theirs, const char **ours, const char **instead) {
    if (i >= sizeof(other_names) / sizeof(other_names[0])) return false;
    *theirs = other_names[i].theirs;
    *ours = other_names[i].ours;
    *instead = other_names[i].instead;
    return true;
}

static const other_name *find_other(const char *plain, const char *name) {
    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++)
        if (strcmp(other_names[i].theirs, plain) == 0 && strcmp(other_names[i].ours, name) == 0)
            return &other_names[i];
    return NULL;
}

/* ---- As names are written here --------------------------------------------------------------- */

static bool is_capital(char c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_small(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A word begins at p[0]: "Crop" in "RandomCrop", "Shift" in "RGBShift". */
static bool begins_word(const char *p) {
    return is_capital(p[0]) && (is_small(p[-1]) || (is_capital(p[-1]) && is_small(p[1])));
}

static void drop_end(char *plain, const char *end) {
    const size_t n = strlen(plain), n_end = strlen(end);
    if (n > n_end && strcmp(plain + n - n_end, end) == 0) plain[n - n_end] = 0;
}

/* Returns false if the name is too long. */
static bool make_plain(const char *name, char plain[LETTERS_MAX + 1]) {
    const char *point = strrchr(name, '.');
    size_t n = 0;
    if (point && point[1]) name = point + 1; /* "transforms.", "A." */
    for (const char *p = name; *p; p++) {
        if (p > name && begins_word(p)) {
            if (n == LETTERS_MAX) return false;
            plain[n++] = '-';
        }
        if (n == LETTERS_MAX) return false;
        plain[n++] = *p == '_' ? '-' : is_capital(*p) ? (char)(*p - 'A' + 'a') : *p;
    }
    plain[n] = 0;
    drop_end(plain, "-aug"); /* MXNet's CenterCropAug */
    drop_end(plain, "-transform");
    return true;
}

/* ---- Near ------------------------------------------------------------------------------------ */

/* Row i of the table holds the distances between i letters of a and every beginning of b; three
 * rows are needed at a time. */
static int distance(const char *a, int n_a, const char *b, int n_b) {
    int rows[3][LETTERS_MAX + 1];
    for (int j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n_a; i++) {
        const int *before = rows[(i + 1) % 3], *last = rows[(i - 1) % 3];
        int *row = rows[i % 3];
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            const char x = a[i - 1], y = b[j - 1];
            row[j] = iter__min_i32(last[j - 1] + (x != y), iter__min_i32(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == y)
                row[j] = iter__min_i32(row[j], before[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

/* Distance of `name`: 0 = the same name, 1 = another library's word for it, more = other letters;
 * -1 = too far. */
static int farness(const char *wanted, const char *name, const other_name **out_other) {
    char plain[LETTERS_MAX + 1], known[LETTERS_MAX + 1];
    *out_other = NULL;
    if (!make_plain(wanted, plain) || strlen(name) > LETTERS_MAX || !make_plain(name, known))
        return -1;
    if (!*plain) return -1;
    if (strcmp(plain, known) == 0) return 0;
    *out_other = find_other(plain, name);
    if (*out_other) return 1;
    const int n_plain = (int)strlen(plain), n_known = (int)strlen(known);
    if (n_plain >= BEGINNING_MIN && strncmp(known, plain, (size_t)n_plain) == 0) return 1 + 1;
    const int far = distance(plain, n_plain, known, n_known);
    return far > (n_plain > n_known ? n_plain : n_known) / 3 ? -1 : 1 + far;
}

void iter__suggestion_offer(iter__suggestion *s, const char *name) {
    const other_name *other;
    const int far = farness(s->wanted, name, &other);
    if (far < 0 || (s->nearest && far >= s->distance)) return;
    s->nearest = name;
    s->distance = far;
    s->instead = other ? other->instead : NULL;
}

void iter__suggestion_offer_words(iter__suggestion *s, const char *words, char *room,
                                  size_t capacity) {
    for (;; words++) {
        const size_t n = strcspn(words, "|");
        char word[LETTERS_MAX + 1];
        if (n < sizeof(word)) {
            iter__suggestion one = {s->wanted, NULL, 0, NULL};
            memcpy(word, words, n);
            word[n] = 0;
            iter__suggestion_offer(&one, word);
            if (one.nearest && (!s->nearest || one.distance < s->distance)) {
                snprintf(room, capacity, "%s", word);
                *s = (iter__suggestion){s->wanted, room, one.distance, one.instead};
            }
        }
        words += n;
        if (!*words) return;
    }
}

char *iter_text_nearest(const char *wanted, const char *names, char *out, size_t capacity) {
    iter__suggestion s = {wanted, NULL, 0, NULL};
    if (capacity == 0) return out;
    out[0] = 0;
    iter__suggestion_offer_words(&s, names, out, capacity);
    return out;
}

const char *iter__suggestion_text(const iter__suggestion *s, char out[ITER_HINT_MAX]) {
    char plain[LETTERS_MAX + 1];
    out[0] = 0;
    if (s->nearest) {
        snprintf(out, ITER_HINT_MAX, "; did you mean '%s'?", s->instead ? s->instead : s->nearest);
        return out;
    }
    if (!make_plain(s->wanted, plain)) return out;
    for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++)
        if (strcmp(plain, joins[i]) == 0)
            snprintf(out, ITER_HINT_MAX, "; stages are joined by '|': random-flip | to:f32,nchw");
    return out;
}
