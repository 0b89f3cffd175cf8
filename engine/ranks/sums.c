/*
 * sums.c - see sums.h. Dense gradients are the business of buckets.c, tables that of this file.
 *
 * A table's stack holds the nodes that are complete so far: whenever its two top nodes are
 * siblings, the right one is added to the left one.
 */
#include "engine/ranks/sums.h"

#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/ranks/buckets.h"
#include "engine/ranks/sum_tree.h"

#define MAX_TABLES  4
#define MAX_BUFFERS (TREE_MAX_NODES + 2)

/* Rows of a table: ids ascending, values [n, ld]. */
typedef struct table_rows {
    int32_t *ids;
    char *values;
    int64_t n, ld;
    int32_t buffer; /* index in the pool that holds them; -1 = not of the pool */
} table_rows;

typedef struct table_node {
    uint32_t level, first;
    table_rows rows;
} table_node;

/* A table's buffers, all of the same size, and what it needs to travel. */
typedef struct sum_table {
    int32_t gradient; /* index in shapes */
    int64_t table_rows, units, most;
    int32_t n_stack;
    table_node stack[TREE_MAX_NODES];
    int32_t n_free, free[MAX_BUFFERS];
    table_rows pool[MAX_BUFFERS];
    table_rows received, total;
    uint32_t *counts; /* [ranks, max_nodes, ranks] rows that rank i's node t has for rank j */
    uint32_t *totals; /* [ranks] */
} sum_table;

struct engine_sums {
    engine_sum_memory memory;
    iter_communicator *comm;
    iter_dtype real;
    size_t size; /* of a number */
    uint32_t n_leaves, first, n_own, next;
    uint32_t max_nodes; /* of any rank */
    int32_t n_gradients, n_tables;
    engine_gradient shapes[ENGINE_MAX_PARAMS];
    engine_buckets *buckets;
    sum_table tables[MAX_TABLES];
    uint64_t *lists; /* [4, ranks] */
    uint64_t n_bytes;
};

/* ---- Rows of tables -------------------------------------------------------------------------- */

static table_rows take_buffer(sum_table *t) {
    table_rows rows = t->pool[t->free[--t->n_free]];
    rows.n = 0;
    rows.ld = t->units;
    return rows;
}

static void give_buffer(sum_table *t, const table_rows *rows) {
    if (rows->buffer >= 0) t->free[t->n_free++] = rows->buffer;
}

static void give_all(sum_table *t) {
    t->n_free = 0;
    while (t->n_free < MAX_BUFFERS && t->pool[t->n_free].ids) {
        t->free[t->n_free] = t->n_free;
        t->n_free++;
    }
}

static void copy_row(const engine_sums *s, const sum_table *t, const table_rows *from, int64_t i,
                     table_rows *to) {
    const size_t bytes = (size_t)t->units * s->size;
    to->ids[to->n] = from->ids[i];
    memcpy(to->values + (size_t)to->n++ * bytes, from->values + (size_t)(i * from->ld) * s->size,
           bytes);
}

/* a = a + b: rows that only one of them has are copied. */
static void merge_rows(const engine_sums *s, sum_table *t, table_rows *a, const table_rows *b) {
    table_rows sum = take_buffer(t);
    int64_t i = 0, j = 0;
    while (i < a->n || j < b->n) {
        if (j == b->n || (i < a->n && a->ids[i] < b->ids[j])) {
            copy_row(s, t, a, i++, &sum);
        } else if (i == a->n || b->ids[j] < a->ids[i]) {
            copy_row(s, t, b, j++, &sum);
        } else {
            copy_row(s, t, a, i++, &sum);
            iter__tree_add(s->real, t->units, b->values + (size_t)(j++ * b->ld) * s->size,
                           sum.values + (size_t)((sum.n - 1) * t->units) * s->size);
        }
    }
    give_buffer(t, a);
    give_buffer(t, b);
    *a = sum;
}

static void join(const engine_sums *s, sum_table *t) {
    table_node *right = &t->stack[--t->n_stack];
    merge_rows(s, t, &right[-1].rows, &right->rows);
    right[-1].level++;
}

static void push(const engine_sums *s, sum_table *t, table_node node) {
    t->stack[t->n_stack++] = node;
    while (t->n_stack > 1 &&
           iter__tree_siblings(t->stack[t->n_stack - 2].level, t->stack[t->n_stack - 2].first,
                               t->stack[t->n_stack - 1].level))
        join(s, t);
}

/* What is left over at the end, from the right. */
static const table_rows *fold(const engine_sums *s, sum_table *t) {
    while (t->n_stack > 1)
        join(s, t);
    return &t->stack[0].rows;
}

/* ---- A rank's leaves ------------------------------------------------------------------------- */

void iter__sums_begin(engine_sums *s) {
    s->next = 0;
    iter__buckets_begin(s->buckets);
    for (int32_t k = 0; k < s->n_tables; k++) {
        s->tables[k].n_stack = 0;
        give_all(&s->tables[k]);
    }
}

/* The backend will write the next leaf where this one lies. So its rows are copied, unless they are
 * added to others now, or no leaf follows and they may travel as they are. */
static void add_rows(const engine_sums *s, sum_table *t, const engine_gradient *leaf) {
    const uint32_t place = s->first + s->next;
    table_node node = {.first = place, .rows = {.buffer = -1}};
    if (leaf)
        node.rows = (table_rows){(int32_t *)(uintptr_t)leaf->ids, (char *)(uintptr_t)leaf->values,
                                 leaf->n_rows, leaf->ld, -1};
    const bool joins = t->n_stack > 0 && iter__tree_siblings(t->stack[t->n_stack - 1].level,
                                                             t->stack[t->n_stack - 1].first, 0);
    if (!joins && (s->next + 1 < s->n_own || node.rows.ld != t->units)) {
        const table_rows from = node.rows;
        node.rows = take_buffer(t);
        for (int64_t i = 0; i < from.n; i++)
            copy_row(s, t, &from, i, &node.rows);
    }
    push(s, t, node);
}

void iter__sums_add(engine_sums *s, const engine_gradient *leaf) {
    for (int32_t g = s->n_gradients - 1; g >= 0; g--)
        iter__buckets_add(s->buckets, g, leaf ? leaf[g].values : NULL);
    iter__buckets_end_leaf(s->buckets);
    for (int32_t k = 0; k < s->n_tables; k++)
        add_rows(s, &s->tables[k], leaf ? &leaf[s->tables[k].gradient] : NULL);
    s->next++;
}

void iter__sums_ready(void *sums, int32_t g, const engine_gradient *gradient) {
    const engine_sums *s = sums;
    iter__buckets_add(s->buckets, g, gradient->values);
}

void iter__sums_fill(engine_sums *s) {
    while (s->next < s->n_own)
        iter__sums_add(s, NULL);
}

/* ---- Tables across ranks --------------------------------------------------------------------- */

/* The first of the rows whose id is at least `id`. */
static int64_t row_at(const table_rows *rows, int64_t id) {
    int64_t low = 0, high = rows->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (rows->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t *counts_at(const engine_sums *s, const sum_table *t, uint32_t rank, uint32_t node) {
    return t->counts + ((size_t)rank * s->max_nodes + node) * s->comm->ranks;
}

/* Tells all ranks how many rows each of the own nodes has for each rank. */
static iter_status gather_counts(engine_sums *s, sum_table *t, iter_error *err) {
    const uint32_t ranks = s->comm->ranks;
    uint64_t *at = s->lists, *bytes = at + ranks;
    const size_t row = (size_t)s->max_nodes * ranks * sizeof(*t->counts);
    memset(counts_at(s, t, s->comm->rank, 0), 0, row);
    for (int32_t i = 0; i < t->n_stack; i++) {
        const table_rows *rows = &t->stack[i].rows;
        uint32_t *counts = counts_at(s, t, s->comm->rank, (uint32_t)i);
        for (uint32_t r = 0; r < ranks; r++)
            counts[r] = (uint32_t)(row_at(rows, iter__tree_part(t->table_rows, r + 1, ranks)) -
                                   row_at(rows, iter__tree_part(t->table_rows, r, ranks)));
    }
    for (uint32_t r = 0; r < ranks; r++) {
        at[r] = r * row;
        bytes[r] = row;
    }
    const engine_blocks all = {t->counts, at, bytes};
    return iter__comm_gather(s->comm, ENGINE_LANE_CALLER, &all, err);
}

/* Sends node i's rows to their owners. Received ones begin at row `seen`; ids, then values. */
static iter_status exchange_rows(engine_sums *s, sum_table *t, uint32_t i, int64_t *seen,
                                 iter_error *err) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    uint64_t *at = s->lists, *bytes = at + ranks, *in_at = bytes + ranks, *in_bytes = in_at + ranks;
    const table_rows *own = (int32_t)i < t->n_stack ? &t->stack[i].rows : &t->total;
    const size_t sizes[2] = {sizeof(int32_t), (size_t)t->units * s->size};
    for (int kind = 0; kind < 2; kind++) {
        uint64_t sent = 0;
        int64_t got = *seen;
        for (uint32_t r = 0; r < ranks; r++) {
            at[r] = sent * sizes[kind];
            bytes[r] = counts_at(s, t, rank, i)[r] * sizes[kind];
            in_at[r] = (uint64_t)got * sizes[kind];
            in_bytes[r] = counts_at(s, t, r, i)[rank] * sizes[kind];
            sent += counts_at(s, t, rank, i)[r];
            got += counts_at(s, t, r, i)[rank];
        }
        const engine_blocks send = {kind ? (void *)own->values : own->ids, at, bytes};
        const engine_blocks receive = {kind ? (void *)t->received.values : t->received.ids, in_at,
                                       in_bytes};
        ENGINE_TRY(iter__comm_exchange(s->comm, ENGINE_LANE_CALLER, &send, &receive, err));
        if (kind == 1) *seen = got;
    }
    return ITER_OK;
}

/* The owned rows of all ranks to all of them. */
static iter_status gather_rows(engine_sums *s, sum_table *t, const table_rows *own,
                               iter_error *err) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    uint64_t *at = s->lists, *bytes = at + ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        at[r] = r * sizeof(*t->totals);
        bytes[r] = sizeof(*t->totals);
    }
    t->totals[rank] = (uint32_t)own->n;
    const engine_blocks counts = {t->totals, at, bytes};
    ENGINE_TRY(iter__comm_gather(s->comm, ENGINE_LANE_CALLER, &counts, err));
    const size_t sizes[2] = {sizeof(int32_t), (size_t)t->units * s->size};
    for (int kind = 0; kind < 2; kind++) {
        char *to = kind ? t->total.values : (char *)t->total.ids;
        t->total.n = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            at[r] = (uint64_t)t->total.n * sizes[kind];
            bytes[r] = t->totals[r] * sizes[kind];
            t->total.n += t->totals[r];
        }
        memcpy(to + at[rank], kind ? own->values : (char *)own->ids, bytes[rank]);
        const engine_blocks all = {to, at, bytes};
        ENGINE_TRY(iter__comm_gather(s->comm, ENGINE_LANE_CALLER, &all, err));
    }
    return ITER_OK;
}

/* Node i of rank r, which was received from row `at` on. */
static table_rows received_rows(const engine_sums *s, const sum_table *t, uint32_t r, uint32_t i,
                                int64_t at) {
    return (table_rows){.ids = t->received.ids + at,
                        .values = t->received.values + (size_t)(at * t->units) * s->size,
                        .n = counts_at(s, t, r, i)[s->comm->rank],
                        .ld = t->units,
                        .buffer = -1};
}

/* Adds the owned part of all nodes in the tree's order. Received ones lie by rounds: node i of each
 * rank that has one. */
static const table_rows *add_received(const engine_sums *s, sum_table *t) {
    const uint32_t rank = s->comm->rank;
    int64_t at[TREE_MAX_NODES + 1] = {0}; /* of the next node of each round */
    for (uint32_t i = 0; i < s->max_nodes; i++) {
        at[i + 1] = at[i];
        for (uint32_t r = 0; r < s->comm->ranks; r++)
            at[i + 1] += counts_at(s, t, r, i)[rank];
    }
    t->n_stack = 0;
    give_all(t); /* their rows were sent */
    for (uint32_t r = 0; r < s->comm->ranks; r++) {
        uint32_t levels[TREE_MAX_NODES], first;
        const uint32_t n = iter__tree_rank_nodes(s->n_leaves, r, s->comm->ranks, levels, &first);
        for (uint32_t i = 0; i < n; i++) {
            push(s, t, (table_node){levels[i], first, received_rows(s, t, r, i, at[i])});
            at[i] += counts_at(s, t, r, i)[rank];
            first += 1u << levels[i];
        }
    }
    return fold(s, t);
}

static iter_status sum_table_of_all(engine_sums *s, sum_table *t, const table_rows **out,
                                    iter_error *err) {
    int64_t rows = 0;
    ENGINE_TRY(gather_counts(s, t, err));
    for (uint32_t i = 0; i < s->max_nodes; i++)
        ENGINE_TRY(exchange_rows(s, t, i, &rows, err));
    *out = &t->total;
    return gather_rows(s, t, add_received(s, t), err);
}

/* ---- The total ------------------------------------------------------------------------------- */

static void scale_rows(const engine_sums *s, const sum_table *t, const table_rows *rows,
                       double factor) {
    for (int64_t i = 0; i < rows->n && factor != 1; i++)
        iter__tree_scale(s->real, t->units, factor,
                         rows->values + (size_t)(i * rows->ld) * s->size);
}

iter_status iter__sums_finish(engine_sums *s, double factor, engine_gradient *out,
                              iter_error *err) {
    const engine_sum_memory *m = &s->memory;
    const table_rows *rows[MAX_TABLES];
    char *numbers;
    for (int32_t k = 0; k < s->n_tables; k++)
        if (s->comm->ranks == 1)
            rows[k] = fold(s, &s->tables[k]);
        else
            ENGINE_TRY(sum_table_of_all(s, &s->tables[k], &rows[k], err));
    ENGINE_TRY(iter__buckets_finish(s->buckets, &numbers, err));
    if (factor != 1)
        m->ops->scale(m->state, s->real, iter__buckets_at(s->buckets, s->n_gradients), factor,
                      numbers);
    ENGINE_TRY(m->ops->settle(m->state, err));
    memcpy(out, s->shapes, (size_t)s->n_gradients * sizeof(*out));
    for (int32_t g = 0; g < s->n_gradients; g++)
        if (out[g].n > 0)
            out[g].values = numbers + (size_t)iter__buckets_at(s->buckets, g) * s->size;
    for (int32_t k = 0; k < s->n_tables; k++) {
        engine_gradient *gradient = &out[s->tables[k].gradient];
        scale_rows(s, &s->tables[k], rows[k], factor);
        gradient->ids = rows[k]->ids;
        gradient->values = rows[k]->values;
        gradient->n_rows = rows[k]->n;
        gradient->ld = rows[k]->ld;
    }
    return ITER_OK;
}

void iter__sums_drop(engine_sums *s) {
    iter__buckets_drop(s->buckets);
}

/* ---- Making ---------------------------------------------------------------------------------- */

static bool take(engine_sums *s, void *where, size_t n, size_t size) {
    void *block = iter__engine_alloc(n > 0 ? n : 1, size);
    memcpy(where, &block, sizeof(block));
    if (block) s->n_bytes += n * size;
    return block != NULL;
}

static bool take_rows(engine_sums *s, const sum_table *t, int64_t n, table_rows *out) {
    out->ld = t->units;
    out->buffer = -1;
    return take(s, &out->ids, (size_t)n, sizeof(*out->ids)) &&
           take(s, &out->values, (size_t)(n * t->units), s->size);
}

/* The pool holds the rows of each node on the stack, and one buffer to merge into. */
static bool take_table(engine_sums *s, sum_table *t) {
    const uint32_t ranks = s->comm->ranks;
    const int64_t all = t->most * s->n_leaves;
    const int64_t n = all < t->table_rows ? all : t->table_rows;
    const uint32_t own = iter__tree_deepest(s->first, s->n_own);
    const uint32_t received = ranks > 1 ? iter__tree_deepest(0, s->n_leaves) : 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i <= (own > received ? own : received); i++) {
        ok = take_rows(s, t, n, &t->pool[i]);
        t->pool[i].buffer = (int32_t)i;
    }
    if (!ok || ranks == 1) return ok;
    return take_rows(s, t, all, &t->received) && take_rows(s, t, n, &t->total) &&
           take(s, &t->counts, (size_t)ranks * s->max_nodes * ranks, sizeof(*t->counts)) &&
           take(s, &t->totals, ranks, sizeof(*t->totals));
}

static bool take_all(engine_sums *s) {
    s->max_nodes = iter__tree_most_nodes(s->n_leaves, s->comm->ranks);
    bool ok = take(s, &s->lists, 4 * (size_t)s->comm->ranks, sizeof(*s->lists));
    for (int32_t k = 0; ok && k < s->n_tables; k++)
        ok = take_table(s, &s->tables[k]);
    return ok;
}

static iter_status find_tables(engine_sums *s, iter_error *err) {
    for (int32_t g = 0; g < s->n_gradients; g++) {
        const engine_gradient *shape = &s->shapes[g];
        if (shape->table_rows == 0) continue;
        if (s->n_tables == MAX_TABLES)
            return iter__engine_fail(err, ITER_EUNSUPPORTED, "more than %d tables", MAX_TABLES);
        s->tables[s->n_tables++] = (sum_table){.gradient = g,
                                               .table_rows = shape->table_rows,
                                               .units = shape->units,
                                               .most = shape->most};
    }
    return ITER_OK;
}

iter_status iter__sums_create(const engine_sum_memory *memory, uint32_t n_leaves, iter_dtype real,
                              const engine_gradient *shapes, int32_t n, uint64_t bucket_bytes,
                              engine_sums **out, iter_error *err) {
    const iter_communicator *comm = memory->comm;
    *out = NULL;
    if (n_leaves < comm->ranks)
        return iter__engine_fail(err, ITER_EINVAL, "%u micro-batches are too few for %u ranks",
                                 n_leaves, comm->ranks);
    engine_sums *s = iter__engine_alloc(1, sizeof(*s));
    if (!s) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    s->memory = *memory;
    s->comm = memory->comm;
    s->real = real;
    s->size = iter_dtype_bytes(real);
    s->n_leaves = n_leaves;
    s->n_own = iter__tree_share(n_leaves, comm->rank, comm->ranks, &s->first);
    s->n_gradients = n;
    memcpy(s->shapes, shapes, (size_t)n * sizeof(*shapes));
    iter_status status = find_tables(s, err);
    if (status >= 0 && !take_all(s))
        status = iter__engine_fail(err, ITER_ENOMEM, "no memory for the sums of gradients");
    if (status >= 0)
        status =
            iter__buckets_create(memory, n_leaves, real, shapes, n, bucket_bytes, &s->buckets, err);
    if (status < 0) {
        iter__sums_destroy(s);
        return status;
    }
    *out = s;
    return ITER_OK;
}

static void free_rows(table_rows *rows) {
    iter__engine_free(rows->ids);
    iter__engine_free(rows->values);
}

void iter__sums_destroy(engine_sums *s) {
    if (!s) return;
    iter__buckets_destroy(s->buckets);
    for (int32_t k = 0; k < s->n_tables; k++) {
        sum_table *t = &s->tables[k];
        for (int32_t i = 0; i < MAX_BUFFERS; i++)
            free_rows(&t->pool[i]);
        free_rows(&t->received);
        free_rows(&t->total);
        iter__engine_free(t->counts);
        iter__engine_free(t->totals);
    }
    iter__engine_free(s->lists);
    iter__engine_free(s);
}

uint64_t iter__sums_bytes(const engine_sums *s) {
    return sizeof(*s) + s->n_bytes + iter__buckets_bytes(s->buckets);
}

uint32_t iter__sums_buckets(const engine_sums *s, iter_bucket_stats *out, uint32_t capacity) {
    return iter__buckets_stats(s->buckets, out, capacity);
}
