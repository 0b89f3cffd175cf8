/* token_rows.c - see token_rows.h. */
#include "loaders/formats/token_rows.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"

#define BLOCK_DOCUMENTS 16u

/* ---- One stream ------------------------------------------------------------------------------ */

/* Opening asks this for every document, and no processor foresees which ones are too short for a
 * row: so the choice is between two numbers to divide, and no branch. */
static inline uint64_t whole_rows(const iter__token_cut *cut, uint64_t n) {
    const uint64_t room = n > cut->length ? n - cut->length - 1 + cut->stride : 0;
    return room <= UINT32_MAX ? (uint32_t)room / (uint32_t)cut->stride : room / cut->stride;
}

/* Whether one more row follows the whole ones. */
static inline bool has_last(const iter__token_cut *cut, uint64_t n, uint64_t whole) {
    if (cut->last == ITER_TOKEN_LAST_DROP) return false;
    const uint64_t used = whole > 0 ? (whole - 1) * cut->stride + cut->length + 1 : 0;
    if (cut->last == ITER_TOKEN_LAST_OVERLAP) return whole > 0 && used < n;
    /* With a stride above the length, the next row may begin after the stream's end. */
    return cut->last == ITER_TOKEN_LAST_SHORT && used < n && whole * cut->stride + 2 <= n;
}

uint64_t iter__token_cut_rows(const iter__token_cut *cut, uint64_t n) {
    const uint64_t whole = whole_rows(cut, n);
    return whole + has_last(cut, n, whole);
}

iter__token_place iter__token_cut_row(const iter__token_cut *cut, uint64_t n, uint64_t k) {
    const uint64_t row = cut->length + 1, at = k * cut->stride;
    iter__token_place place = {.first = at, .n = row};
    if (n >= row && at <= n - row) return place;
    if (cut->last == ITER_TOKEN_LAST_OVERLAP)
        place.first = n - row;
    else
        place.n = n - at;
    return place;
}

/* Of whole rows: each adds `stride` tokens or, if they do not touch, all of its own; the first one
 * adds all of its own in any case. */
static inline uint64_t used_by_whole(const iter__token_cut *cut, uint64_t whole) {
    const uint64_t row = cut->length + 1, step = iter__min_u64(cut->stride, row);
    return whole > 0 ? whole * step + row - step : 0;
}

uint64_t iter__token_cut_used(const iter__token_cut *cut, uint64_t n) {
    const uint64_t whole = whole_rows(cut, n), used = used_by_whole(cut, whole);
    if (!has_last(cut, n, whole)) return used;
    const uint64_t end = whole > 0 ? (whole - 1) * cut->stride + cut->length + 1 : 0;
    const uint64_t first = iter__token_cut_row(cut, n, whole).first; /* of the last row */
    return used + n - iter__max_u64(first, end);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

iter_status iter__token_rows_open(iter__token_rows *rows, iter__token_cut cut, bool by_document,
                                  uint64_t n_files, iter_error *err) {
    const size_t n = (size_t)n_files + 1;
    memset(rows, 0, sizeof(*rows));
    rows->cut = cut;
    rows->by_document = by_document;
    rows->most_files = n_files;
    rows->first_row = iter__alloc(n, sizeof(uint64_t));
    rows->n_tokens = iter__alloc(n, sizeof(uint64_t));
    if (by_document) {
        rows->first_document = iter__alloc(n, sizeof(uint64_t));
        rows->first_block = iter__alloc(n, sizeof(uint64_t));
    }
    if (rows->first_row && rows->n_tokens && (!by_document || rows->first_document) &&
        (!by_document || rows->first_block))
        return ITER_OK;
    return iter__fail(err, ITER_ENOMEM, "tokens: no memory for the sizes of %llu files",
                      (unsigned long long)n_files);
}

/* Makes room for `more` elements after `n`. A first block has exactly that room. */
static bool grow(void **elements, uint64_t *capacity, uint64_t n, uint64_t more, size_t bytes) {
    if (*capacity - n >= more) return true;
    uint64_t wanted = *capacity + *capacity / 8;
    if (wanted < n + more) wanted = n + more;
    void *grown =
        wanted > SIZE_MAX / bytes ? NULL : iter__realloc(*elements, (size_t)wanted * bytes);
    if (!grown) return false;
    *elements = grown;
    *capacity = wanted;
    return true;
}

iter_status iter__token_rows_reserve(iter__token_rows *rows, uint64_t n_documents,
                                     iter_error *err) {
    const uint64_t n_blocks = n_documents / BLOCK_DOCUMENTS + 1;
    void *lengths = rows->lengths, *blocks = rows->blocks;
    const bool fits =
        grow(&lengths, &rows->capacity, rows->n_documents, n_documents, sizeof(*rows->lengths)) &&
        grow(&blocks, &rows->block_capacity, rows->n_blocks, n_blocks, sizeof(*rows->blocks));
    rows->lengths = lengths;
    rows->blocks = blocks;
    if (fits) return ITER_OK;
    return iter__fail(err, ITER_ENOMEM, "no memory for %llu more documents",
                      (unsigned long long)n_documents);
}

/* Makes the blocks of the documents that were added since the last file. Sums are local, because a
 * million documents a file would wait for their way through memory. Returns the rows. */
static uint64_t make_blocks(iter__token_rows *rows) {
    const iter__token_cut cut = rows->cut;
    const uint32_t *lengths = rows->lengths;
    uint64_t n_rows = 0, n_tokens = 0, n_used = 0, n_filled = 0, longest = rows->longest;
    for (uint64_t d = rows->first_document[rows->n_files]; d < rows->n_documents;) {
        const uint64_t end = iter__min_u64(d + BLOCK_DOCUMENTS, rows->n_documents);
        rows->blocks[rows->n_blocks++] = (iter__token_block){n_rows, n_tokens};
        for (; d < end; d++) {
            const uint64_t n = iter__token_cut_rows(&cut, lengths[d]);
            n_rows += n;
            n_filled += n > 0;
            n_tokens += lengths[d];
            longest = iter__max_u64(longest, lengths[d]);
            if (cut.last != ITER_TOKEN_LAST_DROP) n_used += iter__token_cut_used(&cut, lengths[d]);
        }
    }
    if (cut.last == ITER_TOKEN_LAST_DROP && n_filled > 0) /* each document's as used_by_whole() */
        n_used = used_by_whole(&cut, n_rows - n_filled + 1) + (n_filled - 1) * (cut.length + 1);
    rows->longest = longest;
    rows->n_used += n_used;
    rows->n_empty += rows->n_documents - rows->first_document[rows->n_files] - n_filled;
    return n_rows;
}

iter_status iter__token_rows_end_file(iter__token_rows *rows, uint64_t n_tokens, iter_error *err) {
    const uint64_t f = rows->n_files;
    uint64_t n_rows;
    if (rows->by_document) {
        n_rows = make_blocks(rows);
        rows->first_document[f + 1] = rows->n_documents;
        rows->first_block[f + 1] = rows->n_blocks;
    } else {
        n_rows = iter__token_cut_rows(&rows->cut, n_tokens);
        rows->longest = iter__max_u64(rows->longest, n_tokens);
        rows->n_used += iter__token_cut_used(&rows->cut, n_tokens);
        rows->n_empty += n_rows == 0;
    }
    rows->n_tokens[f] = n_tokens;
    if (__builtin_add_overflow(rows->first_row[f], n_rows, &rows->first_row[f + 1]) ||
        rows->first_row[f + 1] > INT64_MAX)
        return iter__fail(err, ITER_EFORMAT, "tokens: more than 2^63 rows");
    rows->n_files++;
    return ITER_OK;
}

/* ---- Finding --------------------------------------------------------------------------------- */

uint64_t iter__token_rows_count(const iter__token_rows *rows) {
    return rows->n_files ? rows->first_row[rows->n_files] : 0;
}

/* Row `row` of a file, by its documents. */
static iter__token_place find_in_documents(const iter__token_rows *rows, uint64_t f, uint64_t row) {
    uint64_t b = rows->first_block[f], end = rows->first_block[f + 1];
    while (end - b > 1) { /* first_row of b <= row < that of end */
        const uint64_t middle = b + (end - b) / 2;
        if (rows->blocks[middle].first_row <= row)
            b = middle;
        else
            end = middle;
    }
    uint64_t left = row - rows->blocks[b].first_row, first = rows->blocks[b].first_token;
    uint64_t d = rows->first_document[f] + (b - rows->first_block[f]) * (uint64_t)BLOCK_DOCUMENTS;
    for (uint64_t n; (n = iter__token_cut_rows(&rows->cut, rows->lengths[d])) <= left; d++) {
        left -= n;
        first += rows->lengths[d];
    }
    iter__token_place place = iter__token_cut_row(&rows->cut, rows->lengths[d], left);
    place.first += first;
    return place;
}

iter__token_place iter__token_rows_find(const iter__token_rows *rows, uint64_t index) {
    uint64_t f = 0, end = rows->n_files; /* first_row[f] <= index < first_row[end] */
    while (end - f > 1) {
        const uint64_t middle = f + (end - f) / 2;
        if (rows->first_row[middle] <= index)
            f = middle;
        else
            end = middle;
    }
    const uint64_t row = index - rows->first_row[f];
    iter__token_place place = rows->by_document
                                  ? find_in_documents(rows, f, row)
                                  : iter__token_cut_row(&rows->cut, rows->n_tokens[f], row);
    place.file = f;
    return place;
}

void iter__token_rows_free(iter__token_rows *rows) {
    iter__free(rows->first_row);
    iter__free(rows->n_tokens);
    iter__free(rows->first_document);
    iter__free(rows->first_block);
    iter__free(rows->lengths);
    iter__free(rows->blocks);
    memset(rows, 0, sizeof(*rows));
}
