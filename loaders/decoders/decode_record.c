/*
 * decode_record.c - the bytes of one record to its label, its image, or its bytes.
 *
 * Labels and an image in one piece are read in place. A record that was cut into pieces (its bytes
 * hold the magic) is first joined in memory of the state, which keeps that memory if it is small.
 * That memory counts against the limit of the image's decoder.
 */
#include "loaders/decoders/decode_record.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/decoders/codec_memory.h"
#include "loaders/files/record.h"

/* Opens a record and moves past its header; *out_header is zero if it has none. */
static iter_status open_record(iter__record *record, const iter__record_rule *rule,
                               const uint8_t *bytes, size_t size, iter__record_header *out_header,
                               iter_error *err) {
    memset(out_header, 0, sizeof(*out_header));
    ITER_TRY(iter__record_open(record, bytes, size, err));
    return rule->header ? iter__record_read_header(record, out_header, err) : ITER_OK;
}

static void skip_labels(iter__record *record, uint32_t n) {
    if (iter__record_rest(record)) {
        record->piece_next += 4 * (size_t)n;
        record->piece_left -= 4 * (size_t)n;
        record->left -= 4 * (size_t)n;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        (void)iter__record_read_label(record);
}

/* ---- labels ---------------------------------------------------------------------------------- */

static iter_status store_label(iter_tensor *out, int32_t i, float label, iter_error *err) {
    if (out->desc.dtype == ITER_F32) {
        ((float *)out->data)[i] = label;
        return ITER_OK;
    }
    /* 2^31 is the first float that is too large; NaN fails both comparisons */
    if (!(label >= -2147483648.0f && label < 2147483648.0f) || label != truncf(label)) {
        return iter__fail(err, ITER_EFORMAT, "label %g is not an integer of 32 bits",
                          (double)label);
    }
    ((int32_t *)out->data)[i] = (int32_t)label;
    return ITER_OK;
}

static iter_status record_label_decode(void *state, const void *shared, const uint8_t *bytes,
                                       size_t size, iter_tensor *out, iter_error *err) {
    const iter__record_rule *rule = shared;
    iter__record record;
    iter__record_header header;
    (void)state;
    ITER_TRY(open_record(&record, rule, bytes, size, &header, err));
    const uint32_t n = header.flag ? header.flag : 1;
    if (n != (uint32_t)rule->label_width) {
        return iter__fail(err, ITER_EFORMAT, "record %" PRIu64 " has %u labels; label-width is %d",
                          header.id, n, (int)rule->label_width);
    }
    if (header.flag == 0) return store_label(out, 0, header.label, err);
    for (int32_t i = 0; i < rule->label_width; i++)
        ITER_TRY(store_label(out, i, iter__record_read_label(&record), err));
    return ITER_OK;
}

const iter_decoder_ops iter__decoder_record_label = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "record-label",
             .help = "the labels of a RecordIO record"},
    .decode = record_label_decode,
};

/* ---- objects --------------------------------------------------------------------------------- */

/* "2" or "5" as a float; 0 if it is no whole number of at least 1. */
static uint32_t whole(float x) {
    return x >= 1 && x <= (float)UINT16_MAX && x == floorf(x) ? (uint32_t)x : 0;
}

static iter_status record_objects_decode(void *state, const void *shared, const uint8_t *bytes,
                                         size_t size, iter_tensor *out, iter_error *err) {
    const iter__record_rule *rule = shared;
    iter__record record;
    iter__record_header header;
    (void)state;
    ITER_TRY(open_record(&record, rule, bytes, size, &header, err));
    if (header.flag < 2)
        return iter__fail(err, ITER_EFORMAT, "record %" PRIu64 " has no list of objects",
                          header.id);
    const float a = iter__record_read_label(&record), b = iter__record_read_label(&record);
    const uint32_t head = whole(a), width = whole(b);
    if (head < 2 || head > header.flag || width != (uint32_t)rule->object_width)
        return iter__fail(err, ITER_EFORMAT,
                          "record %" PRIu64 ": its %u labels begin with %g and %g, the widths of "
                          "their head and of an object; expected 2 or more and %d",
                          header.id, header.flag, (double)a, (double)b, (int)rule->object_width);
    if ((header.flag - head) % width != 0)
        return iter__fail(err, ITER_EFORMAT,
                          "record %" PRIu64 ": %u labels behind the head are no objects of %u each",
                          header.id, header.flag - head, width);
    const uint32_t n = (header.flag - head) / width;
    if (n > (uint32_t)rule->objects)
        return iter__fail(err, ITER_EFORMAT, "record %" PRIu64 " has %u objects; objects is %d",
                          header.id, n, (int)rule->objects);
    for (uint32_t i = 2; i < head; i++)
        (void)iter__record_read_label(&record);
    for (uint32_t i = 0; i < n * width; i++)
        ((float *)out->data)[i] = iter__record_read_label(&record);
    out->desc.dims[0] = n;
    return ITER_OK;
}

const iter_decoder_ops iter__decoder_record_objects = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "record-objects",
             .help = "the objects of a RecordIO record of a detection set"},
    .decode = record_objects_decode,
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static iter_status record_bytes_decode(void *state, const void *shared, const uint8_t *bytes,
                                       size_t size, iter_tensor *out, iter_error *err) {
    iter__record record;
    iter__record_header header;
    (void)state;
    ITER_TRY(open_record(&record, shared, bytes, size, &header, err));
    skip_labels(&record, header.flag);
    const bool variable = out->desc.dims[0] == ITER_VARIABLE;
    const size_t room = iter_desc_bytes(&out->desc);
    if (variable ? record.left > room : record.left != room) {
        char shape[96];
        return iter__fail(err, ITER_EFORMAT, "the record has %zu bytes of data, the field is %s",
                          record.left, iter_desc_text(&out->desc, shape, sizeof(shape)));
    }
    if (variable) out->desc.dims[0] = (int64_t)record.left;
    iter__record_read(&record, out->data, record.left);
    return ITER_OK;
}

/* Where the row lies in the extent, as far as a whole record's head or the rule alone tells. */
static bool record_bytes_find(const void *shared, const iter_desc *desc, const uint8_t *bytes,
                              size_t size, size_t n_known, size_t *out_offset, size_t *out_bytes) {
    const iter__record_rule *rule = shared;
    const size_t room = iter_desc_bytes(desc);
    const bool variable = desc->dims[0] == ITER_VARIABLE;
    size_t head = rule->head_bytes, row = room;
    if (n_known == 0) {
        if (size < head) return false;
        if (variable && size - head < room) row = size - head;
        if (size - head < row) return false;
    } else {
        const size_t least = ITER_RECORD_HEAD + (rule->header ? ITER_RECORD_HEADER : 0);
        if (n_known < least || iter__get_le32(bytes) != ITER_RECORD_MAGIC) return false;
        const uint32_t word = iter__get_le32(bytes + 4), length = iter__record_length(word);
        const size_t payload = iter__align_up_size(length, 4);
        const uint64_t labels = rule->header ? iter__get_le32(bytes + ITER_RECORD_HEAD) : 0;
        if (iter__record_flag(word) != ITER_PIECE_WHOLE || ITER_RECORD_HEAD + payload != size ||
            least + 4 * labels > n_known || least + 4 * labels > ITER_RECORD_HEAD + length)
            return false;
        head = least + 4 * (size_t)labels;
        row = ITER_RECORD_HEAD + length - head;
        if (variable ? row > room : row != room) return false;
    }
    *out_offset = head;
    *out_bytes = row;
    return true;
}

const iter_decoder_ops iter__decoder_record_bytes = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "record-bytes",
             .help = "the bytes of a RecordIO record"},
    .decode = record_bytes_decode,
    .find = record_bytes_find,
};

/* ---- images ---------------------------------------------------------------------------------- */

typedef struct image_state {
    void *inner;     /* the image decoder's */
    uint8_t *joined; /* a record that was cut, joined */
    size_t capacity;
    size_t most; /* limit of all of this; 0 = none */
} image_state;

static void free_joined(image_state *s) {
    if (s->joined) iter__free_large(s->joined, s->capacity);
    s->joined = NULL;
    s->capacity = 0;
}

static void record_image_stop(void *state) {
    image_state *s = state;
    iter__image_stop(s->inner);
    free_joined(s);
    memset(s, 0, sizeof(*s));
}

static iter_status record_image_start(void *state, const void *shared, iter_error *err) {
    image_state *s = state;
    const iter__record_rule *rule = shared;
    return iter__image_start(&rule->image, &s->inner, err);
}

/* Memory for a joined record of `bytes`. Two times ITER_CODEC_KEPT is left to the image's
 * decoder. */
static iter_status room_for_record(image_state *s, size_t bytes, iter_error *err) {
    if (s->most && bytes + 2 * ITER_CODEC_KEPT > s->most)
        return iter__fail(err, ITER_ENOMEM,
                          "a record of %zu bytes in pieces is put together, %zu are left for that: "
                          "raise max_sample_bytes, or memory.limit",
                          bytes, s->most);
    if (bytes <= s->capacity) return ITER_OK;
    free_joined(s);
    s->joined = iter__alloc_large(bytes);
    if (!s->joined)
        return iter__fail(err, ITER_ENOMEM, "no memory for a record of %zu bytes", bytes);
    s->capacity = bytes;
    return ITER_OK;
}

/* Finds where the bytes of the image are. */
static iter_status find_image(image_state *s, const iter__record_rule *rule, const uint8_t *bytes,
                              size_t size, const uint8_t **out, size_t *out_size, iter_error *err) {
    iter__record record;
    iter__record_header header;
    ITER_TRY(open_record(&record, rule, bytes, size, &header, err));
    skip_labels(&record, header.flag);
    *out_size = record.left;
    *out = iter__record_rest(&record);
    if (*out) return ITER_OK;
    ITER_TRY(room_for_record(s, record.left, err));
    iter__record_read(&record, s->joined, record.left);
    *out = s->joined;
    return ITER_OK;
}

/* After each record. */
static void keep_little(image_state *s) {
    if (s->capacity > ITER_CODEC_KEPT) free_joined(s);
}

static void limit_inner(image_state *s, size_t joined) {
    joined = iter__max_size(joined, ITER_CODEC_KEPT);
    if (s->most) iter__decoder_image.limit(s->inner, s->most > joined ? s->most - joined : 1);
}

static void record_image_limit(void *state, size_t bytes) {
    image_state *s = state;
    s->most = bytes;
    limit_inner(s, 0);
}

static iter_status record_image_header(void *state, const void *shared, const uint8_t *bytes,
                                       size_t size, iter_desc *out, iter_error *err) {
    image_state *s = state;
    const iter__record_rule *rule = shared;
    iter_status status = find_image(s, rule, bytes, size, &bytes, &size, err);
    if (status == ITER_OK)
        status = iter__decoder_image.header(s->inner, &rule->image, bytes, size, out, err);
    keep_little(s);
    return status;
}

static iter_status record_image_decode(void *state, const void *shared, const uint8_t *bytes,
                                       size_t size, const iter_image_wish *wish, iter_tensor *out,
                                       iter_error *err) {
    image_state *s = state;
    const iter__record_rule *rule = shared;
    iter_status status = find_image(s, rule, bytes, size, &bytes, &size, err);
    if (status == ITER_OK) {
        limit_inner(s, s->capacity);
        status =
            iter__decoder_image.decode_image(s->inner, &rule->image, bytes, size, wish, out, err);
    }
    keep_little(s);
    return status;
}

const iter_decoder_ops iter__decoder_record_image = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "record-image",
             .help = "the image of a RecordIO record",
             .state_size = sizeof(image_state)},
    .start = record_image_start,
    .stop = record_image_stop,
    .header = record_image_header,
    .decode_image = record_image_decode,
    .limit = record_image_limit,
};
