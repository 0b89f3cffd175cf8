/*
 * megatron_index.c - see megatron_index.h.
 *
 * The three tables are read side by side in pieces, so that an index of any size takes the same
 * memory. The file's size bounds their numbers before any memory depends on them.
 */
#include "loaders/formats/megatron_index.h"

#include <inttypes.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/files/byte_order.h"
#include "loaders/files/file.h"

#define HEAD_BYTES  34u
#define VERSION     1u
#define TYPE_AT     17u
#define COUNTS_AT   18u
#define PIECE_BYTES ((size_t)1 << 17)

/* A table of the file, read from its beginning. */
typedef struct table {
    uint64_t offset, n; /* of what was not read yet: its place in the file, and entries */
    size_t width;       /* bytes of an entry: 4 or 8 */
    uint8_t *piece;     /* [PIECE_BYTES] */
    size_t at, in_piece;
} table;

typedef struct reader {
    iter__data_file file;
    const char *bin;
    uint64_t bin_bytes;
    uint8_t *pieces;
    table tokens, places, documents;
} reader;

static const iter_dtype types[] = {ITER_DTYPE_NONE, ITER_U8,  ITER_I8,  ITER_I16, ITER_I32,
                                   ITER_I64,        ITER_F64, ITER_F32, ITER_U16};

/* ---- Tables ---------------------------------------------------------------------------------- */

static iter_status next_piece(const reader *r, table *t, iter_error *err) {
    size_t done = 0;
    t->in_piece = (size_t)iter__min_u64(t->n, PIECE_BYTES / t->width);
    t->at = 0;
    const size_t bytes = t->in_piece * t->width;
    ITER_TRY(iter__file_read_at(&r->file, t->offset, t->piece, bytes, &done, err));
    if (done < bytes)
        return iter__fail(err, ITER_EFORMAT, "%s: ends at %" PRIu64 " while it is read",
                          r->file.path, t->offset + done);
    t->offset += bytes;
    t->n -= t->in_piece;
    return ITER_OK;
}

/* The next entry; the table must have one. */
static inline iter_status next_entry(const reader *r, table *t, int64_t *out, iter_error *err) {
    if (t->at == t->in_piece) ITER_TRY(next_piece(r, t, err));
    const uint8_t *p = t->piece + t->at++ * t->width;
    *out = t->width == 4 ? (int32_t)iter__get_le32(p) : (int64_t)iter__get_le64(p);
    return ITER_OK;
}

/* Where the entry that next_entry() gave last is in the file. */
static uint64_t last_offset(const table *t) {
    return t->offset - (t->in_piece - t->at + 1) * t->width;
}

static bool is_empty(const table *t) {
    return t->at == t->in_piece && t->n == 0;
}

/* ---- The head -------------------------------------------------------------------------------- */

static iter_status check_size(const reader *r, uint64_t n_sequences, uint64_t n_documents,
                              uint64_t bytes, iter_error *err) {
    const uint64_t most = bytes / 4; /* no table has more entries, so the sum cannot overflow */
    const uint64_t wanted = n_sequences > most || n_documents > most
                                ? UINT64_MAX
                                : HEAD_BYTES + 12 * n_sequences + 8 * n_documents;
    if (bytes == wanted || (wanted != UINT64_MAX && bytes == wanted + n_sequences)) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "%s: at %u: %" PRIu64 " sequences and %" PRIu64
                      " borders of documents do not make a file of %" PRIu64 " bytes",
                      r->file.path, COUNTS_AT, n_sequences, n_documents, bytes);
}

/* Reads the head, and sets where the tables are. */
static iter_status read_head(reader *r, iter__megatron_index *out, iter_error *err) {
    const uint64_t bytes = r->file.bytes;
    uint8_t head[HEAD_BYTES];
    size_t done = 0;
    ITER_TRY(iter__file_read_at(&r->file, 0, head, sizeof(head), &done, err));
    if (done < ITER_MEGATRON_MAGIC_BYTES ||
        memcmp(head, ITER_MEGATRON_MAGIC, ITER_MEGATRON_MAGIC_BYTES) != 0)
        return iter__fail(err, ITER_EFORMAT, "%s: does not begin with MMIDIDX: it is no index",
                          r->file.path);
    if (done < sizeof(head))
        return iter__fail(err, ITER_EFORMAT, "%s: ends after %zu of the %u bytes of its head",
                          r->file.path, done, HEAD_BYTES);
    const uint64_t version = iter__get_le64(head + ITER_MEGATRON_MAGIC_BYTES);
    if (version != VERSION)
        return iter__fail(err, ITER_EUNSUPPORTED,
                          "%s: has version %" PRIu64 ", version %u is known", r->file.path, version,
                          VERSION);
    const unsigned type = head[TYPE_AT];
    if (type == 0 || type >= sizeof(types) / sizeof(types[0]))
        return iter__fail(err, ITER_EUNSUPPORTED, "%s: at %u: type %u of tokens is not known",
                          r->file.path, TYPE_AT, type);
    out->dtype = types[type];
    const uint64_t n = iter__get_le64(head + COUNTS_AT);
    const uint64_t n_borders = iter__get_le64(head + COUNTS_AT + 8);
    ITER_TRY(check_size(r, n, n_borders, bytes, err));
    if (n_borders == 0)
        return iter__fail(err, ITER_EFORMAT, "%s: at %u: it has no documents", r->file.path,
                          COUNTS_AT + 8);
    out->n_sequences = n;
    out->n_documents = n_borders - 1;
    r->tokens = (table){.offset = HEAD_BYTES, .n = n, .width = 4, .piece = r->pieces};
    r->places =
        (table){.offset = HEAD_BYTES + 4 * n, .n = n, .width = 8, .piece = r->pieces + PIECE_BYTES};
    r->documents = (table){.offset = HEAD_BYTES + 12 * n,
                           .n = n_borders,
                           .width = 8,
                           .piece = r->pieces + 2 * PIECE_BYTES};
    return ITER_OK;
}

/* ---- The tables, side by side ---------------------------------------------------------------- */

/* The borders of documents, one after the other. */
typedef struct borders {
    int64_t next;   /* the sequence before which the document ends that is being read */
    bool done;      /* `next` was the last one, and was met */
    uint64_t begin; /* the token that this document begins at */
} borders;

/* Reads the first two borders; the first one must be 0. */
static iter_status first_borders(reader *r, borders *b, iter_error *err) {
    ITER_TRY(next_entry(r, &r->documents, &b->next, err));
    if (b->next != 0)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 ": the first document begins at sequence %" PRId64
                          ", expected 0",
                          r->file.path, last_offset(&r->documents), b->next);
    b->done = is_empty(&r->documents);
    return b->done ? ITER_OK : next_entry(r, &r->documents, &b->next, err);
}

/* Ends the documents whose border is `sequence`, before which there are n_tokens. */
static iter_status end_documents(reader *r, iter__token_rows *rows, int64_t sequence,
                                 uint64_t n_tokens, borders *b, iter_error *err) {
    while (!b->done && b->next == sequence) {
        const uint64_t length = n_tokens - b->begin;
        if (rows->by_document && length > UINT32_MAX)
            return iter__fail(err, ITER_EUNSUPPORTED,
                              "%s: at %" PRIu64 ": a document of %" PRIu64
                              " tokens; below 2^32 are known",
                              r->file.path, last_offset(&r->documents), length);
        if (rows->by_document) iter__token_rows_document(rows, (uint32_t)length);
        b->begin = n_tokens;
        b->done = is_empty(&r->documents);
        if (!b->done) ITER_TRY(next_entry(r, &r->documents, &b->next, err));
        if (b->next < sequence)
            return iter__fail(err, ITER_EFORMAT,
                              "%s: at %" PRIu64 ": a document begins at sequence %" PRId64
                              ", the one before it at %" PRId64,
                              r->file.path, last_offset(&r->documents), b->next, sequence);
    }
    return ITER_OK;
}

/* Checks the next sequence, number i; *n_tokens counts those before it, then its own, too. */
static inline iter_status read_sequence(reader *r, uint64_t i, size_t width, uint64_t *n_tokens,
                                        iter_error *err) {
    int64_t n, place;
    ITER_TRY(next_entry(r, &r->tokens, &n, err));
    ITER_TRY(next_entry(r, &r->places, &place, err));
    if (n < 0)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 ": sequence %" PRIu64 " has %" PRId64 " tokens",
                          r->file.path, last_offset(&r->tokens), i, n);
    if ((uint64_t)place != *n_tokens * width)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 ": sequence %" PRIu64 " begins at byte %" PRId64
                          ", those before it end at %" PRIu64,
                          r->file.path, last_offset(&r->places), i, place, *n_tokens * width);
    *n_tokens += (uint64_t)n;
    return ITER_OK;
}

static iter_status read_tables(reader *r, iter__token_rows *rows, iter__megatron_index *out,
                               iter_error *err) {
    const size_t width = iter_dtype_bytes(out->dtype);
    uint64_t n_tokens = 0;
    borders b = {0};
    if (rows->by_document && iter__token_rows_reserve(rows, out->n_documents, err) < 0)
        return iter__fail_in(err, ITER_ENOMEM, "%s", r->file.path);
    ITER_TRY(first_borders(r, &b, err));
    for (uint64_t i = 0; i <= out->n_sequences; i++) {
        if (b.next == (int64_t)i) ITER_TRY(end_documents(r, rows, b.next, n_tokens, &b, err));
        if (i < out->n_sequences) ITER_TRY(read_sequence(r, i, width, &n_tokens, err));
    }
    if (!b.done || b.next != (int64_t)out->n_sequences)
        return iter__fail(err, ITER_EFORMAT,
                          "%s: at %" PRIu64 ": a document ends at sequence %" PRId64
                          ", there are %" PRIu64,
                          r->file.path, last_offset(&r->documents), b.next, out->n_sequences);
    out->n_tokens = n_tokens;
    if (n_tokens * width == r->bin_bytes) return ITER_OK;
    return iter__fail(err, ITER_EFORMAT,
                      "%s: has %" PRIu64 " bytes, but %s says %" PRIu64 " tokens of %zu bytes",
                      r->bin, r->bin_bytes, iter__path_base(r->file.path), n_tokens, width);
}

iter_status iter__megatron_index_read(const char *path, const char *bin, uint64_t bin_bytes,
                                      iter__token_rows *rows, iter__megatron_index *out,
                                      iter_error *err) {
    reader r = {.bin = bin, .bin_bytes = bin_bytes};
    *out = (iter__megatron_index){0};
    ITER_TRY(iter__file_open(path, &r.file, err));
    r.pieces = iter__alloc(3, PIECE_BYTES);
    iter_status status = r.pieces ? read_head(&r, out, err)
                                  : iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", path);
    if (status == ITER_OK) status = read_tables(&r, rows, out, err);
    iter__free(r.pieces);
    iter__file_close(&r.file);
    return status;
}
