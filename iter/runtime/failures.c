/*
 * failures.c - rows that failed: their states, the reasons, and the list that the consumer reads.
 *
 * Most rows never fail, so a row has one byte of state, and only a row that failed has a node with
 * the reason. Nodes hang on the row's chunk: one thread at a time works on a chunk, so adding a
 * node takes no lock. They are freed when the batch is given back.
 *
 * If a sample is bad, on_error decides what becomes of its row: iter__rows_mend() in rows.c
 * replaces or blanks it, iter__batch_judge() here fails the batch. batch.h has the states of a row.
 * If the process lacks something (memory, file handles), every sample would fail alike, so such a
 * row fails its batch, whatever on_error is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define NODES_MAX 4096 /* reasons that one batch keeps */

static iter__chunk *chunk_of(const iter_batch *batch, uint32_t row) {
    return &batch->chunks[row / batch->loader->layout.rows_a_chunk];
}

/* The row's node, or NULL. */
static iter__row_failure *node_of(const iter_batch *batch, uint32_t row) {
    iter__row_failure *node = chunk_of(batch, row)->failures;
    while (node && node->row != row)
        node = node->next;
    return node;
}

iter_failure iter__row_reason(const iter_batch *batch, uint32_t row) {
    const iter__row_failure *node = node_of(batch, row);
    if (node) return node->failure;
    iter_failure failure = {.epoch = batch->row_epoch[row],
                            .position = batch->position[row],
                            .index = batch->index[row],
                            .status = ITER_EIO};
    snprintf(failure.message, sizeof(failure.message),
             "sample %llu failed; its reason was not kept", (unsigned long long)failure.index);
    return failure;
}

/* A node for the row. NULL if there is no memory for one, or the batch has many already. */
static iter_failure *new_node(iter_batch *batch, uint32_t row) {
    iter__row_failure *node = node_of(batch, row);
    if (node) return &node->failure;
    if (atomic_load_explicit(&batch->n_nodes, memory_order_relaxed) >= NODES_MAX) return NULL;
    node = iter__alloc(1, sizeof(*node));
    if (!node) return NULL;
    atomic_fetch_add_explicit(&batch->n_nodes, 1, memory_order_relaxed);
    node->row = row;
    iter__row_failure **link = &chunk_of(batch, row)->failures;
    while (*link && (*link)->row < row) /* keeps the order of rows */
        link = &(*link)->next;
    node->next = *link;
    *link = node;
    return &node->failure;
}

void iter__failures_clear(iter_batch *batch) {
    if (atomic_load_explicit(&batch->n_nodes, memory_order_relaxed) == 0) return;
    for (uint32_t c = 0; c < batch->loader->layout.max_chunks; c++) {
        iter__row_failure *node = batch->chunks[c].failures;
        batch->chunks[c].failures = NULL;
        while (node) {
            iter__row_failure *next = node->next;
            iter__free(node);
            node = next;
        }
    }
    atomic_store_explicit(&batch->n_nodes, 0, memory_order_relaxed);
}

/* ---- States ---------------------------------------------------------------------------------- */

void iter__row_miss(iter_batch *batch, uint32_t row) {
    unsigned char fine = ROW_FINE; /* a row that has failed already stays failed */
    atomic_compare_exchange_strong_explicit(&batch->row_state[row], &fine, ROW_MISSING,
                                            memory_order_relaxed, memory_order_relaxed);
}

void iter__row_set(iter_batch *batch, uint32_t row, iter__row_state state) {
    atomic_store_explicit(&batch->row_state[row], (unsigned char)state, memory_order_relaxed);
}

bool iter__is_lack(int os_error) {
    return os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM || os_error == ENOBUFS;
}

void iter__row_fail(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                    const char *stage, const char *reason) {
    iter__row_set(batch, row, ROW_FAILED);
    iter_failure *failure = new_node(batch, row);
    if (!failure) return;
    failure->epoch = batch->row_epoch[row];
    failure->position = batch->position[row];
    failure->index = batch->index[row];
    failure->status = status;
    char file[81], place[56];
    uint64_t offset;
    if (iter__where(loader, failure->index, file, sizeof(file), &offset)) {
        iter__dataset_place(loader->dataset, failure->index, offset, place, sizeof(place));
        snprintf(failure->message, sizeof(failure->message), "%s: sample %llu (%s%s): %s", stage,
                 (unsigned long long)failure->index, file, place, reason);
    } else {
        snprintf(failure->message, sizeof(failure->message), "%s: sample %llu: %s", stage,
                 (unsigned long long)failure->index, reason);
    }
    iter__escape_in_place(failure->message, sizeof(failure->message));
}

void iter__row_fail_as(iter_batch *batch, uint32_t row, const iter_failure *why) {
    iter__row_set(batch, row, ROW_FAILED);
    iter_failure *failure = new_node(batch, row);
    if (!failure) return;
    *failure = *why;
    failure->epoch = batch->row_epoch[row];
    failure->position = batch->position[row];
}

void iter__row_lacks(iter_loader *loader, iter_batch *batch, uint32_t row, iter_status status,
                     const char *stage, const char *reason) {
    char text[160];
    snprintf(text, sizeof(text), "%.100s; the process lacks it, so on_error does not apply",
             reason);
    iter__row_fail(loader, batch, row, status, stage,
                   loader->opt.faults.on_error == ITER_ON_ERROR_FAIL ? reason : text);
    iter__row_set(batch, row, ROW_LACKING);
}

/* ---- Batches: finished, delivered ------------------------------------------------------------ */

void iter__batch_judge(iter_loader *loader, iter_batch *batch) {
    const bool fails = loader->opt.faults.on_error != ITER_ON_ERROR_BLANK;
    batch->info.n_failed = 0;
    for (uint32_t row = 0; row < batch->info.n_rows; row++) {
        const iter__row_state state = iter__row_state_get(batch, row);
        if (state == ROW_FINE) continue;
        batch->info.n_failed++;
        if (batch->status < 0) continue;
        if (state != ROW_LACKING && (state != ROW_FAILED || !fails)) continue;
        const iter_failure why = iter__row_reason(batch, row);
        batch->status = iter__fail(&batch->error, why.status, "%s", why.message);
    }
}

void iter__failures_book(iter_loader *loader, const iter_batch *batch) {
    loader->failures.n += batch->info.n_failed;
    if (!batch->info.n_failed) return;
    const uint32_t n_chunks = atomic_load_explicit(&batch->n_chunks, memory_order_relaxed);
    for (uint32_t c = 0; c < n_chunks; c++) {
        const iter__row_failure *node = batch->chunks[c].failures;
        for (; node && loader->failures.n_kept < ITER_FAILURES_MAX; node = node->next) {
            if (node->row < batch->info.n_rows)
                loader->failures.list[loader->failures.n_kept++] = node->failure;
        }
    }
}

/* ---- Fallbacks ------------------------------------------------------------------------------- */

void iter__fallback(iter_loader *loader, const char *text) {
    for (int32_t i = 0; i < loader->stats.n_fallbacks; i++) {
        if (strcmp(loader->stats.fallbacks[i], text) == 0) return;
    }
    if (loader->stats.n_fallbacks == ITER_STATS_FALLBACKS) return;
    iter_text_escape(text, loader->stats.fallbacks[loader->stats.n_fallbacks++],
                     sizeof(loader->stats.fallbacks[0]));
}
