/*
 * record_index.c - see record_index.h.
 *
 * An .idx file is text with some 20 bytes a line. It is loaded whole, its lines are counted and
 * then read by a loop over digits, because a million of them should cost milliseconds. If a file
 * has no .idx, its records are walked from head to head.
 *
 * Source: MXNet, python/mxnet/recordio.py (MXIndexedRecordIO); dmlc-core,
 * indexed_recordio_split.cc, which also ignores the keys and sorts the offsets.
 */
#include "loaders/formats/record_index.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/files/file.h"
#include "loaders/files/record.h"
#include "loaders/files/window.h"

#define IDX_BYTES_MAX ((uint64_t)1 << 36)
#define SAVE_BYTES    ((size_t)1 << 16)
#define LINE_BYTES    48

/* ---- .idx files ------------------------------------------------------------------------------ */

static iter_status bad_line(const iter__idx_text *text, const char *reason, iter_error *err) {
    return iter__fail(err, ITER_EFORMAT, "%s: line %" PRIu64 ": %s", text->path, text->line,
                      reason);
}

void iter__idx_open(iter__idx_text *text, const char *path, const char *bytes, size_t n) {
    *text = (iter__idx_text){.p = bytes, .end = bytes + n, .path = path};
}

iter_status iter__idx_next(iter__idx_text *text, iter__idx_line *out, iter_error *err) {
    for (; text->p < text->end && *text->p == '\n'; text->p++) /* empty lines */
        text->line++;
    if (text->p == text->end) return ITER_END;
    text->line++;
    const char *newline = memchr(text->p, '\n', (size_t)(text->end - text->p));
    const char *end = newline ? newline : text->end;
    const char *p = text->p;
    while (p < end && *p != '\t')
        p++;
    if (p == end) return bad_line(text, "no tab; it should be KEY TAB OFFSET", err);
    out->key = text->p;
    out->n_key = (size_t)(p - text->p);
    out->ended = newline != NULL;
    const char *digits = ++p;
    uint64_t value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        value = 10 * value + (uint64_t)(*p - '0');
    if (p == digits || p - digits > 18 || (p < end && !(*p == '\r' && p + 1 == end)))
        return bad_line(text, "the offset is not a number", err);
    out->offset = value;
    text->p = newline ? newline + 1 : text->end;
    return ITER_OK;
}

static int by_offset(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static iter_status read_lines(iter__span_set *set, iter__idx_text *text, iter_error *err) {
    const iter_file *rec = &set->files[set->n_done];
    const uint64_t first = set->n;
    bool sorted = true;
    for (;;) {
        iter__idx_line line;
        const iter_status status = iter__idx_next(text, &line, err);
        if (status < 0) return status;
        if (status == ITER_END) break;
        const uint64_t offset = line.offset;
        if (rec->bytes < ITER_RECORD_HEAD || offset > rec->bytes - ITER_RECORD_HEAD ||
            offset % 4 != 0) {
            return iter__fail(
                err, ITER_EFORMAT,
                "%s: line %" PRIu64 ": offset %" PRIu64 " is outside of %s, which has %" PRIu64
                " bytes; idx=none does without the index",
                text->path, text->line, offset, iter__path_base(rec->path), rec->bytes);
        }
        sorted &= set->n == first || offset > set->offsets[set->n - 1];
        ITER_TRY(iter__span_set_add(set, offset, err));
    }
    if (sorted) return ITER_OK;
    qsort(set->offsets + first, (size_t)(set->n - first), sizeof(*set->offsets), by_offset);
    for (uint64_t i = first + 1; i < set->n; i++) {
        if (set->offsets[i] == set->offsets[i - 1]) {
            return iter__fail(err, ITER_EFORMAT, "%s: offset %" PRIu64 " is listed twice",
                              text->path, set->offsets[i]);
        }
    }
    return ITER_OK;
}

static uint64_t count_lines(const char *p, size_t n) {
    uint64_t lines = 1;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

/* ---- walking through ------------------------------------------------------------------------- */

/* Finds the end of the piece whose head is at `offset`, and its flag. */
static iter_status read_piece(iter__window *window, uint64_t offset, uint32_t *out_flag,
                              uint64_t *out_end, iter_error *err) {
    const uint8_t *p = NULL;
    size_t n = 0;
    ITER_TRY(iter__window_at(window, offset, ITER_RECORD_HEAD, &p, &n, err));
    if (n < ITER_RECORD_HEAD) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: ends in the head of a record, at %" PRIu64 ", after %zu bytes of it",
                          window->file.path, offset, n);
    }
    const uint32_t magic = iter__get_le32(p), word = iter__get_le32(p + 4);
    if (magic != ITER_RECORD_MAGIC) {
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 " is 0x%08x, a record's magic is 0x%08x",
                          window->file.path, offset, magic, ITER_RECORD_MAGIC);
    }
    const uint32_t length = iter__record_length(word);
    if (length > window->file.bytes - offset - ITER_RECORD_HEAD) {
        return iter__fail(
            err, ITER_EFORMAT,
            "%s: the record at %" PRIu64 " has %u bytes, the file ends after %" PRIu64 " of them",
            window->file.path, offset, length, window->file.bytes - offset - ITER_RECORD_HEAD);
    }
    const uint64_t end = offset + ITER_RECORD_HEAD + iter__align_up_u64(length, 4);
    *out_flag = iter__record_flag(word);
    *out_end = iter__min_u64(end, window->file.bytes); /* the last record may lack its zeros */
    return ITER_OK;
}

/* Fails unless the file ends where its last record does: else it was cut, or the index belongs to
 * another file. */
static iter_status check_last(const iter__span_set *set, iter_error *err) {
    const iter_file *rec = &set->files[set->n_done];
    const uint64_t first = set->first[set->n_done] + set->n_done;
    if (set->n == first) return ITER_OK;
    iter__window window;
    uint32_t flag = 0;
    ITER_TRY(iter__window_open(&window, rec->path, err));
    uint64_t at = set->offsets[set->n - 1];
    iter_status status = read_piece(&window, at, &flag, &at, err);
    while (status == ITER_OK && (flag == ITER_PIECE_FIRST || flag == ITER_PIECE_MIDDLE))
        status = read_piece(&window, at, &flag, &at, err);
    iter__window_close(&window);
    return status;
}

iter_status iter__record_walk(iter__window *window, uint64_t *at, uint64_t *out_offset,
                              iter_error *err) {
    uint32_t flag = 0;
    *out_offset = *at;
    if (*at >= window->file.bytes) return ITER_END;
    for (bool first = true; first || flag == ITER_PIECE_FIRST || flag == ITER_PIECE_MIDDLE;
         first = false) {
        const uint64_t piece = *at;
        if (!first && piece >= window->file.bytes)
            return iter__fail(err, ITER_EFORMAT,
                              "%s: ends in the record at %" PRIu64 ": its last piece is missing",
                              window->file.path, *out_offset);
        ITER_TRY(read_piece(window, piece, &flag, at, err));
        const bool begins = flag == ITER_PIECE_WHOLE || flag == ITER_PIECE_FIRST;
        if (flag > ITER_PIECE_LAST || begins != first)
            return iter__fail(err, ITER_EFORMAT, "%s: the piece at %" PRIu64 " has flag %u, %s",
                              window->file.path, piece, flag,
                              first ? "which does not begin a record"
                                    : "which does not go on with a record");
    }
    return ITER_OK;
}

static iter_status scan(iter__span_set *set, iter__window *window, iter_error *err) {
    uint64_t at = 0, offset = 0;
    for (;;) {
        const iter_status status = iter__record_walk(window, &at, &offset, err);
        if (status == ITER_END) return ITER_OK;
        if (status < 0) return status;
        ITER_TRY(iter__span_set_add(set, offset, err));
    }
}

iter_status iter__record_index_scan(iter__span_set *set, iter_error *err) {
    iter__window window;
    ITER_TRY(iter__window_open(&window, set->files[set->n_done].path, err));
    iter__file_jumps(&window.file); /* no reading ahead between heads */
    iter_status status = scan(set, &window, err);
    if (status == ITER_OK) status = iter__span_set_end(set, window.file.bytes, err);
    iter__window_close(&window);
    return status;
}

iter_status iter__record_index_doubt(const char *idx, const char *path, iter_status status,
                                     iter_error *err) {
    if (status != ITER_EFORMAT) return status;
    return iter__fail_in(err, status,
                         "%s (idx=none does without it) is not of %s, or that is damaged", idx,
                         iter__path_base(path));
}

iter_status iter__record_index_load(iter__span_set *set, const char *idx, iter_error *err) {
    char *bytes = NULL;
    size_t n = 0;
    ITER_TRY(iter__file_load(idx, IDX_BYTES_MAX, &bytes, &n, err));
    iter__idx_text text;
    iter__idx_open(&text, idx, bytes, n);
    iter_status status = iter__span_set_reserve(set, count_lines(bytes, n) + 1, err);
    if (status == ITER_OK) status = read_lines(set, &text, err);
    iter__free(bytes);
    ITER_TRY(status);
    ITER_TRY(
        iter__record_index_doubt(idx, set->files[set->n_done].path, check_last(set, err), err));
    return iter__span_set_end(set, set->files[set->n_done].bytes, err);
}

/* ---- writing an .idx ------------------------------------------------------------------------- */

static iter_status write_lines(const iter__span_set *set, const iter__new_file *file, char *buffer,
                               iter_error *err) {
    const uint64_t f = set->n_done - 1, n = set->first[f + 1] - set->first[f];
    const uint64_t *offsets = set->offsets + set->first[f] + f;
    size_t used = 0;
    for (uint64_t i = 0; i < n; i++) {
        used += (size_t)snprintf(buffer + used, LINE_BYTES, "%" PRIu64 "\t%" PRIu64 "\n", i,
                                 offsets[i]);
        if (used < SAVE_BYTES - LINE_BYTES && i + 1 < n) continue;
        ITER_TRY(iter__new_file_write(file, buffer, used, err));
        used = 0;
    }
    return ITER_OK;
}

iter_status iter__record_index_save(const iter__span_set *set, const char *idx, iter_error *err) {
    iter__new_file file;
    char *buffer = iter__alloc(SAVE_BYTES, 1);
    if (!buffer) return iter__fail(err, ITER_ENOMEM, "%s: no memory to write it", idx);
    iter_status status = iter__new_file_open(&file, idx, NULL, err);
    if (status == ITER_OK)
        status = iter__new_file_close(&file, write_lines(set, &file, buffer, err), err);
    iter__free(buffer);
    return status;
}
