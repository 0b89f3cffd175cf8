/*
 * sums.c - see sums.h.
 *
 * All dense gradients lie one behind the other in one array, the flat form, of which rank r owns
 * the numbers [part(r), part(r + 1)). A stack holds the nodes that are complete so far: whenever
 * its two top nodes are siblings, the right one is added to the left one.
 */
#include "engine/ranks/sums.h"

#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"

#define MAX_LEVELS 32
#define MAX_NODES  (2 * MAX_LEVELS) /* of a range of leaves */
#define MAX_TABLES 4
#define LINE       16 /* numbers; gradients and parts begin at cache lines */

/* Rows of a table: ids ascending, values dense [n, units]. */
typedef struct table_rows {
    int32_t *ids;
    char *values;
    int64_t n, ld;
    int32_t buffer; /* index in the pool that holds them; -1 = not of the pool */
} table_rows;

typedef struct sum_node {
    uint32_t level, first; /* leaves [first, first + 2^level) */
    char *numbers;         /* of the flat form, or the owned part of it */
    table_rows tables[MAX_TABLES];
} sum_node;

typedef struct sum_stack {
    int32_t n;
    sum_node nodes[MAX_NODES];
} sum_stack;

/* A table's buffers, all of the same size, and what it needs to travel. */
typedef struct sum_table {
    int32_t gradient; /* index in shapes */
    int64_t table_rows, units, most;
    int32_t n_free, free[MAX_NODES + 2];
    table_rows pool[MAX_NODES + 2];
    table_rows received, total;
    uint32_t *counts; /* [ranks, max_nodes, ranks] rows that rank i's node t has for rank j */
    uint32_t *totals; /* [ranks] */
} sum_table;

struct engine_sums {
    iter_communicator *comm;
    iter_dtype real;
    size_t size; /* of a number */
    uint32_t n_leaves, first, n_own, next;
    uint32_t max_nodes; /* of any rank */
    int32_t n_gradients, n_tables, n_slots;
    engine_gradient shapes[ENGINE_MAX_PARAMS];
    int64_t at[ENGINE_MAX_PARAMS]; /* of the dense ones, in the flat form */
    int64_t n_numbers;
    sum_table tables[MAX_TABLES];
    sum_stack stack;
    char *slots;     /* [n_slots, n_numbers] of the stack's nodes */
    char *received;  /* [nodes of all ranks, own part] */
    char *total;     /* [n_numbers] */
    uint64_t *lists; /* [4, ranks] */
    uint64_t n_bytes;
};

/* ---- Numbers --------------------------------------------------------------------------------- */

static void add_f32(int64_t n, const float *from, float *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += from ? from[i] : 0.0f;
}

static void add_f64(int64_t n, const double *from, double *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += from ? from[i] : 0.0;
}

/* to += from; NULL = zeros: adding them turns -0 into 0, on any rank. */
static void add(iter_dtype real, int64_t n, const void *from, void *to) {
    if (real == ITER_F64)
        add_f64(n, from, to);
    else
        add_f32(n, from, to);
}

static void scale(iter_dtype real, int64_t n, double factor, void *to) {
    for (int64_t i = 0; i < n; i++)
        if (real == ITER_F64)
            ((double *)to)[i] *= factor;
        else
            ((float *)to)[i] = (float)(((float *)to)[i] * factor);
}

double iter__sums_of(const double *numbers, uint32_t n) {
    if (n == 0) return 0;
    if (n == 1) return numbers[0];
    uint32_t half = 1;
    while (half < n - half)
        half *= 2;
    return iter__sums_of(numbers, half) + iter__sums_of(numbers + half, n - half);
}

/* ---- Leaves and nodes ------------------------------------------------------------------------ */

uint32_t iter__sums_share(uint32_t n_leaves, uint32_t rank, uint32_t ranks, uint32_t *out_first) {
    const uint32_t first = (uint32_t)((uint64_t)rank * n_leaves / ranks);
    *out_first = first;
    return (uint32_t)(((uint64_t)rank + 1) * n_leaves / ranks) - first;
}

/* The nodes that the leaves [first, first + n) complete; levels[] may be NULL. */
static uint32_t nodes_of(uint32_t first, uint32_t n, uint32_t levels[MAX_NODES]) {
    uint32_t count = 0;
    while (n > 0) {
        uint32_t level = 0;
        while (first % (2u << level) == 0 && 2u << level <= n)
            level++;
        if (levels) levels[count] = level;
        count++;
        first += 1u << level;
        n -= 1u << level;
    }
    return count;
}

static uint32_t nodes_of_rank(const engine_sums *s, uint32_t rank, uint32_t levels[MAX_NODES],
                              uint32_t *out_first) {
    const uint32_t n = iter__sums_share(s->n_leaves, rank, s->comm->ranks, out_first);
    return nodes_of(*out_first, n, levels);
}

/* The first of the flat numbers, or of a table's rows, that rank r owns; r = ranks: the end. */
static int64_t part_of(const engine_sums *s, int64_t n, uint32_t r) {
    const int64_t lines = (n + LINE - 1) / LINE;
    const int64_t at = LINE * (int64_t)((uint64_t)lines * r / s->comm->ranks);
    return at < n ? at : n;
}

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
            add(s->real, t->units, b->values + (size_t)(j++ * b->ld) * s->size,
                sum.values + (size_t)((sum.n - 1) * t->units) * s->size);
        }
    }
    give_buffer(t, a);
    give_buffer(t, b);
    *a = sum;
}

/* ---- The stack ------------------------------------------------------------------------------- */

/* left += right, of which each has n flat numbers. */
static void merge(engine_sums *s, sum_node *left, const sum_node *right, int64_t n) {
    if (n > 0) add(s->real, n, right->numbers, left->numbers);
    for (int32_t t = 0; t < s->n_tables; t++)
        merge_rows(s, &s->tables[t], &left->tables[t], &right->tables[t]);
    left->level++;
}

static bool are_siblings(const sum_node *left, const sum_node *right) {
    return left->level == right->level && left->first % (2u << left->level) == 0;
}

static void settle(engine_sums *s, sum_stack *stack, int64_t n) {
    while (stack->n > 1 && are_siblings(&stack->nodes[stack->n - 2], &stack->nodes[stack->n - 1])) {
        merge(s, &stack->nodes[stack->n - 2], &stack->nodes[stack->n - 1], n);
        stack->n--;
    }
}

/* What is left over at the end, from the right; leaves the root alone. */
static sum_node *fold(engine_sums *s, sum_stack *stack, int64_t n) {
    while (stack->n > 1) {
        merge(s, &stack->nodes[stack->n - 2], &stack->nodes[stack->n - 1], n);
        stack->n--;
    }
    return &stack->nodes[0];
}

/* ---- A rank's leaves ------------------------------------------------------------------------- */

void iter__sums_begin(engine_sums *s) {
    s->stack.n = 0;
    s->next = s->first;
    for (int32_t t = 0; t < s->n_tables; t++) {
        sum_table *table = &s->tables[t];
        table->n_free = 0;
        while (table->n_free < MAX_NODES + 2 && table->pool[table->n_free].ids) {
            table->free[table->n_free] = table->n_free;
            table->n_free++;
        }
    }
}

static table_rows rows_of(const engine_gradient *leaf, int32_t g) {
    table_rows rows = {.buffer = -1};
    if (!leaf) return rows;
    rows.ids = (int32_t *)(uintptr_t)leaf[g].ids;
    rows.values = (char *)(uintptr_t)leaf[g].values;
    rows.n = leaf[g].n_rows;
    rows.ld = leaf[g].ld;
    return rows;
}

/* Writes the leaf's dense gradients to a slot, or adds them to it. */
static void put_numbers(const engine_sums *s, const engine_gradient *leaf, bool adds, char *slot) {
    for (int32_t g = 0; g < s->n_gradients; g++) {
        const int64_t n = s->shapes[g].n;
        char *to = slot + (size_t)s->at[g] * s->size;
        if (adds)
            add(s->real, n, leaf ? leaf[g].values : NULL, to);
        else if (leaf && n > 0)
            memcpy(to, leaf[g].values, (size_t)n * s->size);
        else
            memset(to, 0, (size_t)n * s->size);
    }
}

void iter__sums_add(engine_sums *s, const engine_gradient *leaf) {
    sum_stack *stack = &s->stack;
    sum_node *top = stack->n > 0 ? &stack->nodes[stack->n - 1] : NULL;
    sum_node node = {.first = s->next++};
    const bool joins = top && are_siblings(top, &node);
    if (!joins) {
        node.numbers = s->slots + (size_t)(stack->n * s->n_numbers) * s->size;
        top = &stack->nodes[stack->n++];
        *top = node;
        for (int32_t t = 0; t < s->n_tables; t++)
            top->tables[t] = take_buffer(&s->tables[t]);
    }
    put_numbers(s, leaf, joins, top->numbers);
    for (int32_t t = 0; t < s->n_tables; t++) {
        const table_rows rows = rows_of(leaf, s->tables[t].gradient);
        merge_rows(s, &s->tables[t], &top->tables[t], &rows);
    }
    if (!joins) return;
    top->level++;
    settle(s, stack, s->n_numbers);
}

/* ---- Across ranks: dense --------------------------------------------------------------------- */

/* Sends each rank its part of node t, and receives the own part of every rank's node t, behind
 * those of the nodes before; `seen` counts received nodes. */
static iter_status exchange_numbers(engine_sums *s, uint32_t t, uint32_t *seen, iter_error *err) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    uint64_t *at = s->lists, *bytes = at + ranks, *in_at = bytes + ranks, *in_bytes = in_at + ranks;
    const bool has = (int32_t)t < s->stack.n;
    const uint64_t own =
        (uint64_t)(part_of(s, s->n_numbers, rank + 1) - part_of(s, s->n_numbers, rank)) * s->size;
    for (uint32_t i = 0; i < ranks; i++) {
        const int64_t from = part_of(s, s->n_numbers, i), to = part_of(s, s->n_numbers, i + 1);
        uint32_t first;
        const bool other_has = t < nodes_of_rank(s, i, NULL, &first);
        at[i] = (uint64_t)from * s->size;
        bytes[i] = has ? (uint64_t)(to - from) * s->size : 0;
        in_at[i] = *seen * own;
        in_bytes[i] = other_has ? own : 0;
        *seen += other_has;
    }
    const engine_blocks send = {has ? s->stack.nodes[t].numbers : s->slots, at, bytes};
    const engine_blocks receive = {s->received, in_at, in_bytes};
    return iter__comm_exchange(s->comm, &send, &receive, err);
}

static iter_status gather_numbers(engine_sums *s, iter_error *err) {
    uint64_t *at = s->lists, *bytes = at + s->comm->ranks;
    for (uint32_t i = 0; i < s->comm->ranks; i++) {
        at[i] = (uint64_t)part_of(s, s->n_numbers, i) * s->size;
        bytes[i] = (uint64_t)part_of(s, s->n_numbers, i + 1) * s->size - at[i];
    }
    const engine_blocks all = {s->total, at, bytes};
    return iter__comm_gather(s->comm, &all, err);
}

/* ---- Across ranks: rows ---------------------------------------------------------------------- */

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
static iter_status gather_counts(engine_sums *s, sum_table *t, int32_t k, iter_error *err) {
    const uint32_t ranks = s->comm->ranks;
    uint64_t *at = s->lists, *bytes = at + ranks;
    const size_t row = (size_t)s->max_nodes * ranks * sizeof(*t->counts);
    memset(counts_at(s, t, s->comm->rank, 0), 0, row);
    for (int32_t i = 0; i < s->stack.n; i++) {
        const table_rows *rows = &s->stack.nodes[i].tables[k];
        uint32_t *counts = counts_at(s, t, s->comm->rank, (uint32_t)i);
        for (uint32_t r = 0; r < ranks; r++)
            counts[r] = (uint32_t)(row_at(rows, part_of(s, t->table_rows, r + 1)) -
                                   row_at(rows, part_of(s, t->table_rows, r)));
    }
    for (uint32_t r = 0; r < ranks; r++) {
        at[r] = r * row;
        bytes[r] = row;
    }
    const engine_blocks all = {t->counts, at, bytes};
    return iter__comm_gather(s->comm, &all, err);
}

/* Sends node i's rows to their owners. Received ones begin at row `seen`; ids, then values. */
static iter_status exchange_rows(engine_sums *s, sum_table *t, int32_t k, uint32_t i, int64_t *seen,
                                 iter_error *err) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    uint64_t *at = s->lists, *bytes = at + ranks, *in_at = bytes + ranks, *in_bytes = in_at + ranks;
    const table_rows *own = (int32_t)i < s->stack.n ? &s->stack.nodes[i].tables[k] : &t->total;
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
        ENGINE_TRY(iter__comm_exchange(s->comm, &send, &receive, err));
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
    ENGINE_TRY(iter__comm_gather(s->comm, &counts, err));
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
        ENGINE_TRY(iter__comm_gather(s->comm, &all, err));
    }
    return ITER_OK;
}

/* ---- Across ranks: the tree ------------------------------------------------------------------ */

/* Node i of rank r as it was received: its place among all, and its rows. The messages of round i
 * hold node i of each rank that has one. */
static void received_node(const engine_sums *s, uint32_t r, uint32_t i, sum_node *out) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    const int64_t own = part_of(s, s->n_numbers, rank + 1) - part_of(s, s->n_numbers, rank);
    int64_t place = 0, rows[MAX_TABLES] = {0};
    for (uint32_t round = 0; round <= i; round++)
        for (uint32_t q = 0; q < (round < i ? ranks : r); q++) {
            uint32_t first;
            place += round < nodes_of_rank(s, q, NULL, &first);
            for (int32_t t = 0; t < s->n_tables; t++)
                rows[t] += counts_at(s, &s->tables[t], q, round)[rank];
        }
    out->numbers = s->received + (size_t)(place * own) * s->size;
    for (int32_t t = 0; t < s->n_tables; t++) {
        const sum_table *table = &s->tables[t];
        out->tables[t] = (table_rows){.ids = table->received.ids + rows[t],
                                      .values = table->received.values +
                                                (size_t)(rows[t] * table->units) * s->size,
                                      .n = counts_at(s, table, r, i)[rank],
                                      .ld = table->units,
                                      .buffer = -1};
    }
}

/* Adds the owned part of all nodes in the tree's order. */
static sum_node *add_received(engine_sums *s) {
    const uint32_t rank = s->comm->rank;
    const int64_t own = part_of(s, s->n_numbers, rank + 1) - part_of(s, s->n_numbers, rank);
    iter__sums_begin(s); /* all buffers are free again: their rows were sent */
    for (uint32_t r = 0; r < s->comm->ranks; r++) {
        uint32_t levels[MAX_NODES], first;
        const uint32_t n = nodes_of_rank(s, r, levels, &first);
        for (uint32_t i = 0; i < n; i++) {
            sum_node *node = &s->stack.nodes[s->stack.n++];
            node->level = levels[i];
            node->first = first;
            first += 1u << levels[i];
            received_node(s, r, i, node);
            settle(s, &s->stack, own);
        }
    }
    return fold(s, &s->stack, own);
}

static iter_status exchange(engine_sums *s, iter_error *err) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < s->max_nodes && s->n_numbers > 0; i++)
        ENGINE_TRY(exchange_numbers(s, i, &seen, err));
    for (int32_t k = 0; k < s->n_tables; k++) {
        sum_table *t = &s->tables[k];
        int64_t rows = 0;
        ENGINE_TRY(gather_counts(s, t, k, err));
        for (uint32_t i = 0; i < s->max_nodes; i++)
            ENGINE_TRY(exchange_rows(s, t, k, i, &rows, err));
    }
    return ITER_OK;
}

static void scale_node(const engine_sums *s, double factor, int64_t n, sum_node *node) {
    if (factor == 1) return;
    scale(s->real, n, factor, node->numbers);
    for (int32_t k = 0; k < s->n_tables; k++)
        for (int64_t i = 0; i < node->tables[k].n; i++)
            scale(s->real, s->tables[k].units, factor,
                  node->tables[k].values + (size_t)(i * node->tables[k].ld) * s->size);
}

static void describe(const engine_sums *s, const char *numbers, const table_rows *const tables[],
                     engine_gradient *out) {
    memcpy(out, s->shapes, (size_t)s->n_gradients * sizeof(*out));
    for (int32_t g = 0; g < s->n_gradients; g++)
        if (out[g].n > 0) out[g].values = numbers + (size_t)s->at[g] * s->size;
    for (int32_t k = 0; k < s->n_tables; k++) {
        engine_gradient *gradient = &out[s->tables[k].gradient];
        gradient->ids = tables[k]->ids;
        gradient->values = tables[k]->values;
        gradient->n_rows = tables[k]->n;
        gradient->ld = tables[k]->ld;
    }
}

iter_status iter__sums_finish(engine_sums *s, double factor, engine_gradient *out,
                              iter_error *err) {
    const table_rows *tables[MAX_TABLES];
    if (s->comm->ranks == 1) {
        sum_node *root = fold(s, &s->stack, s->n_numbers);
        scale_node(s, factor, s->n_numbers, root);
        for (int32_t k = 0; k < s->n_tables; k++)
            tables[k] = &root->tables[k];
        describe(s, root->numbers, tables, out);
        return ITER_OK;
    }
    ENGINE_TRY(exchange(s, err));
    const int64_t from = part_of(s, s->n_numbers, s->comm->rank);
    const int64_t n = part_of(s, s->n_numbers, s->comm->rank + 1) - from;
    sum_node *own = add_received(s);
    scale_node(s, factor, n, own);
    if (n > 0) memcpy(s->total + (size_t)from * s->size, own->numbers, (size_t)n * s->size);
    if (s->n_numbers > 0) ENGINE_TRY(gather_numbers(s, err));
    for (int32_t k = 0; k < s->n_tables; k++) {
        ENGINE_TRY(gather_rows(s, &s->tables[k], &own->tables[k], err));
        tables[k] = &s->tables[k].total;
    }
    describe(s, s->total, tables, out);
    return ITER_OK;
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

/* The most nodes on the stack while n leaves from `first` on are added. */
static uint32_t deepest(uint32_t first, uint32_t n) {
    uint32_t most = 0;
    for (uint32_t k = 1; k <= n; k++) {
        const uint32_t nodes = nodes_of(first, k, NULL);
        if (nodes > most) most = nodes;
    }
    return most;
}

/* The pool holds the rows of each node on the stack, and one buffer to merge into. */
static bool take_table(engine_sums *s, sum_table *t) {
    const uint32_t ranks = s->comm->ranks;
    const int64_t all = t->most * s->n_leaves;
    const int64_t n = all < t->table_rows ? all : t->table_rows;
    const uint32_t received = ranks > 1 ? deepest(0, s->n_leaves) : 0;
    const uint32_t depth = (uint32_t)s->n_slots > received ? (uint32_t)s->n_slots : received;
    bool ok = true;
    for (uint32_t i = 0; ok && i <= depth; i++) {
        ok = take_rows(s, t, n, &t->pool[i]);
        t->pool[i].buffer = (int32_t)i;
    }
    if (!ok || ranks == 1) return ok;
    return take_rows(s, t, all, &t->received) && take_rows(s, t, n, &t->total) &&
           take(s, &t->counts, (size_t)ranks * s->max_nodes * ranks, sizeof(*t->counts)) &&
           take(s, &t->totals, ranks, sizeof(*t->totals));
}

static bool take_all(engine_sums *s) {
    const uint32_t ranks = s->comm->ranks, rank = s->comm->rank;
    const int64_t own = part_of(s, s->n_numbers, rank + 1) - part_of(s, s->n_numbers, rank);
    const size_t n = (size_t)s->n_numbers;
    uint32_t n_nodes = 0, first;
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t of_rank = nodes_of_rank(s, i, NULL, &first);
        n_nodes += of_rank;
        if (of_rank > s->max_nodes) s->max_nodes = of_rank;
    }
    s->n_slots = (int32_t)deepest(s->first, s->n_own);
    bool ok = take(s, &s->slots, (size_t)s->n_slots * n, s->size) &&
              take(s, &s->lists, 4 * (size_t)ranks, sizeof(*s->lists));
    if (ok && ranks > 1)
        ok = take(s, &s->received, (size_t)n_nodes * (size_t)own, s->size) &&
             take(s, &s->total, n, s->size);
    for (int32_t k = 0; ok && k < s->n_tables; k++)
        ok = take_table(s, &s->tables[k]);
    return ok;
}

static iter_status read_shapes(engine_sums *s, const engine_gradient *shapes, int32_t n,
                               iter_error *err) {
    memcpy(s->shapes, shapes, (size_t)n * sizeof(*shapes));
    s->n_gradients = n;
    for (int32_t g = 0; g < n; g++) {
        s->at[g] = s->n_numbers;
        s->n_numbers += (shapes[g].n + LINE - 1) / LINE * LINE;
        if (shapes[g].table_rows == 0) continue;
        if (s->n_tables == MAX_TABLES)
            return iter__engine_fail(err, ITER_EUNSUPPORTED, "more than %d tables", MAX_TABLES);
        s->tables[s->n_tables++] = (sum_table){.gradient = g,
                                               .table_rows = shapes[g].table_rows,
                                               .units = shapes[g].units,
                                               .most = shapes[g].most};
    }
    return ITER_OK;
}

iter_status iter__sums_create(iter_communicator *comm, uint32_t n_leaves, iter_dtype real,
                              const engine_gradient *shapes, int32_t n, engine_sums **out,
                              iter_error *err) {
    *out = NULL;
    if (n_leaves < comm->ranks)
        return iter__engine_fail(err, ITER_EINVAL, "%u micro-batches are too few for %u ranks",
                                 n_leaves, comm->ranks);
    engine_sums *s = iter__engine_alloc(1, sizeof(*s));
    if (!s) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    s->comm = comm;
    s->real = real;
    s->size = iter_dtype_bytes(real);
    s->n_leaves = n_leaves;
    s->n_own = iter__sums_share(n_leaves, comm->rank, comm->ranks, &s->first);
    iter_status status = read_shapes(s, shapes, n, err);
    if (status >= 0 && !take_all(s))
        status = iter__engine_fail(err, ITER_ENOMEM, "no memory for the sums of gradients");
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
    for (int32_t k = 0; k < s->n_tables; k++) {
        sum_table *t = &s->tables[k];
        for (int32_t i = 0; i < MAX_NODES + 2; i++)
            free_rows(&t->pool[i]);
        free_rows(&t->received);
        free_rows(&t->total);
        iter__engine_free(t->counts);
        iter__engine_free(t->totals);
    }
    iter__engine_free(s->slots);
    iter__engine_free(s->received);
    iter__engine_free(s->total);
    iter__engine_free(s->lists);
    iter__engine_free(s);
}

uint64_t iter__sums_bytes(const engine_sums *s) {
    return s->n_bytes + sizeof(*s);
}
