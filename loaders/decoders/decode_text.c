/*
 * decode_text.c - the bytes of one text to a row of ids; text_tokens.h has the rule.
 *
 * A state has room for one word, as long as the longest of the vocabulary.
 */
#include "loaders/decoders/decode_text.h"

#include "iter/core/alloc.h"
#include "iter/core/cpu.h"
#include "iter/core/error.h"

/* ---- callbacks ------------------------------------------------------------------------------- */

static iter_status text_start(void *state, const void *shared, iter_error *err) {
    iter__text_reader *reader = state;
    reader->text = shared;
    reader->scratch = iter__alloc(iter__text_scratch_bytes(shared), 1);
    if (!reader->scratch) return iter__fail(err, ITER_ENOMEM, "no memory for a word");
    reader->way = iter__cpu_level() == ITER_CPU_GENERIC ? ITER_TEXT_PLAIN : ITER_TEXT_FAST;
    return ITER_OK;
}

static void text_stop(void *state) {
    iter__text_reader *reader = state;
    iter__free(reader->scratch);
    reader->scratch = NULL;
}

static iter_status text_decode(void *state, const void *shared, const uint8_t *bytes, size_t size,
                               iter_tensor *out, iter_error *err) {
    const bool variable = out->desc.dims[0] == ITER_VARIABLE;
    const int64_t capacity = variable ? out->desc.capacity : out->desc.dims[0];
    int64_t n;
    (void)shared; /* the state has it */
    ITER_TRY(iter__text_ids(state, bytes, size, out->data, capacity, &n, err));
    if (variable) out->desc.dims[0] = n;
    return ITER_OK;
}

const iter_decoder_ops iter__decoder_text = {
    .base = {.struct_size = sizeof(iter_decoder_ops),
             .name = "text",
             .help = "UTF-8 text to the ids of its words",
             .state_size = sizeof(iter__text_reader)},
    .start = text_start,
    .stop = text_stop,
    .decode = text_decode,
};
