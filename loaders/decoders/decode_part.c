/* decode_part.c - see decode_part.h. */
#include "loaders/decoders/decode_part.h"

#include "iter/core/error.h"

typedef struct part_state {
    void *inner; /* the image decoder's */
} part_state;

static void part_stop(void *state) {
    part_state *s = state;
    iter__image_stop(s->inner);
    s->inner = NULL;
}

static iter_status part_start(void *state, const void *shared, iter_error *err) {
    part_state *s = state;
    const iter__part_rule *rule = shared;
    return iter__image_start(&rule->image, &s->inner, err);
}

static void part_limit(void *state, size_t bytes) {
    part_state *s = state;
    iter__decoder_image.limit(s->inner, bytes);
}

static iter_status part_header(int32_t f, void *state, const iter__part_rule *rule,
                               const uint8_t *bytes, size_t size, iter_desc *out, iter_error *err) {
    part_state *s = state;
    ITER_TRY(rule->find_image(rule, f, true, bytes, size, &bytes, &size, err));
    return iter__decoder_image.header(s->inner, &rule->image, bytes, size, out, err);
}

static iter_status part_image(int32_t f, void *state, const iter__part_rule *rule,
                              const uint8_t *bytes, size_t size, const iter_image_wish *wish,
                              iter_tensor *out, iter_error *err) {
    part_state *s = state;
    ITER_TRY(rule->find_image(rule, f, false, bytes, size, &bytes, &size, err));
    return iter__decoder_image.decode_image(s->inner, &rule->image, bytes, size, wish, out, err);
}

static iter_status part_value(int32_t f, const iter__part_rule *rule, const uint8_t *bytes,
                              size_t size, iter_tensor *out, iter_error *err) {
    return rule->read(rule, f, bytes, size, out, err);
}

/* The functions of field f. */
#define FIELD(f)                                                                             \
    static iter_status header_##f(void *state, const void *shared, const uint8_t *bytes,     \
                                  size_t size, iter_desc *out, iter_error *err) {            \
        return part_header(f, state, shared, bytes, size, out, err);                         \
    }                                                                                        \
    static iter_status image_##f(void *state, const void *shared, const uint8_t *bytes,      \
                                 size_t size, const iter_image_wish *wish, iter_tensor *out, \
                                 iter_error *err) {                                          \
        return part_image(f, state, shared, bytes, size, wish, out, err);                    \
    }                                                                                        \
    static iter_status value_##f(void *state, const void *shared, const uint8_t *bytes,      \
                                 size_t size, iter_tensor *out, iter_error *err) {           \
        (void)state;                                                                         \
        return part_value(f, shared, bytes, size, out, err);                                 \
    }

FIELD(0)
FIELD(1)
FIELD(2)
FIELD(3)
FIELD(4)
FIELD(5)
FIELD(6)
FIELD(7)

#define IMAGE_TABLE(f)                                                                           \
    {                                                                                            \
        .base = {.struct_size = sizeof(iter_decoder_ops),                                        \
                 .name = "image-part",                                                           \
                 .help = "an image in a sample of several fields",                               \
                 .state_size = sizeof(part_state)},                                              \
        .start = part_start, .stop = part_stop, .header = header_##f, .decode_image = image_##f, \
        .limit = part_limit,                                                                     \
    }
#define VALUE_TABLE(f)                                                        \
    {                                                                         \
        .base = {.struct_size = sizeof(iter_decoder_ops),                     \
                 .name = "value-part",                                        \
                 .help = "numbers, or bytes, in a sample of several fields"}, \
        .decode = value_##f,                                                  \
    }

static const iter_decoder_ops image_tables[ITER_MAX_FIELDS] = {
    IMAGE_TABLE(0), IMAGE_TABLE(1), IMAGE_TABLE(2), IMAGE_TABLE(3),
    IMAGE_TABLE(4), IMAGE_TABLE(5), IMAGE_TABLE(6), IMAGE_TABLE(7)};
static const iter_decoder_ops value_tables[ITER_MAX_FIELDS] = {
    VALUE_TABLE(0), VALUE_TABLE(1), VALUE_TABLE(2), VALUE_TABLE(3),
    VALUE_TABLE(4), VALUE_TABLE(5), VALUE_TABLE(6), VALUE_TABLE(7)};

const iter_decoder_ops *iter__decoder_part(int32_t f, bool is_image) {
    return is_image ? &image_tables[f] : &value_tables[f];
}
