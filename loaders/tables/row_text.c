/* row_text.c - see row_text.h. */
#include "loaders/tables/row_text.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

iter_status iter__row_text_start(iter__row_text *text, uint64_t max_bytes, uint64_t room,
                                 iter_error *err) {
    text->max_bytes = max_bytes;
    text->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    text->copy = iter__alloc((size_t)room + 1, 1);
    if (text->c && text->copy) return ITER_OK;
    iter__row_text_stop(text);
    return iter__fail(err, ITER_ENOMEM, "no memory for a row");
}

void iter__row_text_stop(iter__row_text *text) {
    if (text->c) freelocale(text->c);
    iter__free(text->copy);
    *text = (iter__row_text){0};
}

/* The bytes of the row at the start of bytes[size], with its line feed; 0 if it has none. */
static size_t row_bytes(const uint8_t *bytes, size_t size, bool quotes) {
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        inside ^= quotes && bytes[i] == '"';
        if (bytes[i] == '\n' && !inside) return i + 1;
    }
    return 0;
}

iter_status iter__row_text_get(iter__row_text *text, const uint8_t *bytes, size_t size, bool quotes,
                               const uint8_t **out, size_t *out_n, iter_error *err) {
    if (size > text->max_bytes) { /* what is too much may be blank lines after the row */
        const size_t n = row_bytes(bytes, size, quotes);
        if (n == 0)
            return iter__fail(err, ITER_EFORMAT, "is longer than %" PRIu64 " bytes (max-row)",
                              text->max_bytes);
        size = n;
    }
    if (size == 0 || bytes[size - 1] != '\n') {
        if (size) memcpy(text->copy, bytes, size);
        text->copy[size] = '\n';
        bytes = text->copy;
        size++;
    }
    *out = bytes;
    *out_n = size;
    return ITER_OK;
}
