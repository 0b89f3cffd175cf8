/*
 * token_rows.h - streams of tokens, cut into windows: which file and which tokens a row has.
 *
 * A row is `length` inputs and as many targets, one place further on: length + 1 tokens in one
 * piece. Row k of a stream begins at token k * stride. A stream is a whole file, or a document of
 * one; no row has tokens of two streams.
 *
 * Whole files take 24 bytes each. Documents take 4 bytes each for their lengths, and 16 for every
 * 16 of them: how many rows and tokens of the file come before.
 */
#ifndef ITER_LOADERS_FORMATS_TOKEN_ROWS_H
#define ITER_LOADERS_FORMATS_TOKEN_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/status.h>

/* What becomes of the tokens at a stream's end that fill no row. */
typedef enum iter__token_last {
    ITER_TOKEN_LAST_DROP,    /* no row has them */
    ITER_TOKEN_LAST_OVERLAP, /* one more row, which ends with the stream */
    ITER_TOKEN_LAST_SHORT    /* one more row, which is shorter: at least one input and its target */
} iter__token_last;

typedef struct iter__token_cut {
    uint64_t length, stride; /* at least 1, below 2^31 */
    iter__token_last last;
} iter__token_cut;

typedef struct iter__token_block {
    uint64_t first_row, first_token; /* both within the file */
} iter__token_block;

typedef struct iter__token_rows {
    iter__token_cut cut;
    bool by_document;
    uint64_t n_files; /* that were ended */
    uint64_t most_files;
    uint64_t *first_row;      /* [most_files + 1] */
    uint64_t *n_tokens;       /* [most_files] */
    uint64_t *first_document; /* [most_files + 1], if by_document */
    uint64_t *first_block;    /* [most_files + 1], if by_document; each file begins a new one */
    uint32_t *lengths;        /* tokens of each document */
    uint64_t n_documents, capacity;
    iter__token_block *blocks;
    uint64_t n_blocks, block_capacity;
    uint64_t longest; /* tokens of a stream */
    uint64_t n_used;  /* tokens that a row has */
    uint64_t n_empty; /* streams without a row */
} iter__token_rows;

typedef struct iter__token_place {
    uint64_t file, first; /* the row's first token, counted from the file's */
    uint64_t n;           /* tokens: inputs and one more */
} iter__token_place;

/* Rows of a stream of n tokens; which tokens row k of them has. */
uint64_t iter__token_cut_rows(const iter__token_cut *cut, uint64_t n);
iter__token_place iter__token_cut_row(const iter__token_cut *cut, uint64_t n, uint64_t k);
/* Different tokens that its rows have. */
uint64_t iter__token_cut_used(const iter__token_cut *cut, uint64_t n);

/* Prepares for n_files files. Errors: ENOMEM. It must be freed after an error, too. */
iter_status iter__token_rows_open(iter__token_rows *rows, iter__token_cut cut, bool by_document,
                                  uint64_t n_files, iter_error *err);

/* Reserves room for the next file's documents. Errors: ENOMEM. */
iter_status iter__token_rows_reserve(iter__token_rows *rows, uint64_t n_documents, iter_error *err);

/* Adds a document to the current file; there must be room for it. */
static inline void iter__token_rows_document(iter__token_rows *rows, uint32_t n_tokens) {
    rows->lengths[rows->n_documents++] = n_tokens;
}

/* Ends the current file. If rows are cut by_document, n_tokens must be the sum of theirs. Errors:
 * EFORMAT (more than 2^63 rows). */
iter_status iter__token_rows_end_file(iter__token_rows *rows, uint64_t n_tokens, iter_error *err);

uint64_t iter__token_rows_count(const iter__token_rows *rows);

/* Where row `index` is; it must exist. */
iter__token_place iter__token_rows_find(const iter__token_rows *rows, uint64_t index);

void iter__token_rows_free(iter__token_rows *rows);

#endif
