/*
 * buckets.c - see buckets.h.
 *
 * A slot holds a node that is complete so far, in the flat form; node i of the rank is in slot i.
 * With leaf k the slots [0, before) become the slots [0, after): either the leaf is a new node, or
 * it joins the last slot, and whatever it completes is added up from the right. That is done for
 * each gradient on its own, so a bucket can be ready before the leaf has ended.
 *
 * The thread and the caller share n_ready, n_done, the status and `stops`, under the lock. Numbers
 * of a ready bucket belong to the thread until the bucket is done.
 */
#include "engine/ranks/buckets.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/ranks/sum_tree.h"

#define BUCKET_BYTES (UINT64_C(1) << 20)

typedef struct bucket {
    int64_t from, to; /* numbers of the flat form */
    int32_t first;    /* its gradients are [first, end) */
    int32_t end;
    int64_t received; /* where the nodes of all ranks lie in `received` */
    double ready_at;  /* in this step */
    double lead;      /* seconds from then to the end of the last leaf, over all steps */
} bucket;

struct engine_buckets {
    engine_sum_memory memory; /* of the three below */
    iter_communicator *comm;
    iter_dtype real;
    size_t size; /* of a number */
    uint32_t n_leaves, first, n_own;
    uint32_t max_nodes; /* of any rank */
    int32_t n_gradients;
    int64_t length[ENGINE_MAX_PARAMS]; /* 0 = a table, which is not ours */
    int64_t at[ENGINE_MAX_PARAMS + 1];
    int32_t n_buckets;
    bucket buckets[ENGINE_MAX_PARAMS]; /* the last gradients first */
    char *slots;                       /* [slots, at[n_gradients]] */
    char *received;                    /* of each bucket: [nodes of all ranks, own part] */
    char *total;                       /* [at[n_gradients]] */
    uint64_t *lists;                   /* [4, ranks] */
    uint64_t n_bytes, n_steps;
    /* Of this step: */
    uint32_t leaf;               /* the current one, from 0 */
    bool has[ENGINE_MAX_PARAMS]; /* what the leaf has */
    int32_t n_ready, n_done;     /* buckets */
    iter_status status;          /* of the first bucket that failed; no later one travels */
    iter_error error;
    /* The thread: */
    bool is_threaded, stops;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static char *at_number(const engine_buckets *b, char *base, int64_t number) {
    return base + (size_t)number * b->size;
}

static char *slot_at(const engine_buckets *b, uint32_t slot, int64_t number) {
    return at_number(b, b->slots, (int64_t)slot * b->at[b->n_gradients] + number);
}

static void add_numbers(const engine_buckets *b, int64_t n, const void *from, void *to) {
    b->memory.ops->add(b->memory.state, b->real, n, from, to);
}

/* ---- A rank's leaves ------------------------------------------------------------------------- */

void iter__buckets_begin(engine_buckets *b) {
    b->leaf = 0;
    memset(b->has, 0, sizeof(b->has));
    if (b->is_threaded) pthread_mutex_lock(&b->lock);
    b->n_ready = b->n_done = 0;
    if (b->is_threaded) pthread_mutex_unlock(&b->lock);
}

static bool is_ready(const engine_buckets *b, const bucket *k) {
    for (int32_t g = k->first; g < k->end; g++)
        if (!b->has[g] && b->length[g] > 0) return false;
    return true;
}

/* Buckets become ready in their order, because all ranks must send them in the same one. */
static void count_ready(engine_buckets *b) {
    int32_t n = b->n_ready; /* only this thread writes it */
    while (n < b->n_buckets && is_ready(b, &b->buckets[n]))
        n++;
    if (n == b->n_ready) return;
    for (int32_t k = b->n_ready; k < n; k++)
        b->buckets[k].ready_at = seconds_now();
    if (b->is_threaded) pthread_mutex_lock(&b->lock);
    b->n_ready = n;
    if (b->is_threaded) {
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

void iter__buckets_add(engine_buckets *b, int32_t g, const void *values) {
    const engine_sum_memory *m = &b->memory;
    const int64_t n = b->length[g], at = b->at[g];
    const uint32_t before = iter__tree_nodes(b->first, b->leaf, NULL);
    const uint32_t after = iter__tree_nodes(b->first, b->leaf + 1, NULL);
    if (n == 0 || b->has[g]) return;
    if (after <= before)
        add_numbers(b, n, values, slot_at(b, before - 1, at));
    else if (values)
        m->ops->copy(m->state, slot_at(b, before, at), values, (size_t)n * b->size);
    else
        m->ops->zero(m->state, slot_at(b, before, at), (size_t)n * b->size);
    for (uint32_t i = before; i-- > after;)
        add_numbers(b, n, slot_at(b, i, at), slot_at(b, i - 1, at));
    b->has[g] = true;
    if (b->leaf + 1 == b->n_own) count_ready(b);
}

void iter__buckets_end_leaf(engine_buckets *b) {
    b->leaf++;
    if (b->leaf < b->n_own) memset(b->has, 0, sizeof(b->has));
    if (b->leaf < b->n_own) return;
    b->n_steps++;
    for (int32_t k = 0; k < b->n_buckets; k++)
        b->buckets[k].lead += seconds_now() - b->buckets[k].ready_at;
}

/* ---- Across ranks ---------------------------------------------------------------------------- */

static int64_t part_of(const engine_buckets *b, const bucket *k, uint32_t r) {
    return k->from + iter__tree_part(k->to - k->from, r, b->comm->ranks);
}

static int64_t own_numbers(const engine_buckets *b, const bucket *k) {
    return part_of(b, k, b->comm->rank + 1) - part_of(b, k, b->comm->rank);
}

/* Sends each rank its part of node t, and receives the own part of every rank's node t behind those
 * of the nodes before; `seen` counts received nodes. */
static iter_status exchange_node(engine_buckets *b, const bucket *k, uint32_t t, uint32_t lane,
                                 uint32_t *seen, iter_error *err) {
    const uint32_t ranks = b->comm->ranks;
    uint64_t *at = b->lists, *bytes = at + ranks, *in_at = bytes + ranks, *in_bytes = in_at + ranks;
    const uint64_t own = (uint64_t)own_numbers(b, k) * b->size;
    uint32_t first;
    const bool has = t < iter__tree_rank_nodes(b->n_leaves, b->comm->rank, ranks, NULL, &first);
    for (uint32_t i = 0; i < ranks; i++) {
        const int64_t from = part_of(b, k, i), to = part_of(b, k, i + 1);
        const bool other_has = t < iter__tree_rank_nodes(b->n_leaves, i, ranks, NULL, &first);
        at[i] = (uint64_t)from * b->size;
        bytes[i] = has ? (uint64_t)(to - from) * b->size : 0;
        in_at[i] = *seen * own;
        in_bytes[i] = other_has ? own : 0;
        *seen += other_has;
    }
    const engine_blocks send = {has ? slot_at(b, t, 0) : b->slots, at, bytes};
    const engine_blocks receive = {at_number(b, b->received, k->received), in_at, in_bytes};
    return iter__comm_exchange(b->comm, lane, &send, &receive, err);
}

typedef struct node {
    uint32_t level, first;
    char *numbers;
} node;

/* Adds the two nodes on top of the stack. */
static void join(const engine_buckets *b, node *left, int64_t n) {
    add_numbers(b, n, left[1].numbers, left[0].numbers);
    left->level++;
}

/* Adds the own part of all nodes, in the tree's order. Received ones lie by rounds: node i of each
 * rank that has one. */
static const char *add_received(engine_buckets *b, const bucket *k) {
    const int64_t n = own_numbers(b, k);
    const uint32_t ranks = b->comm->ranks;
    uint32_t levels[TREE_MAX_NODES], first;
    int64_t at[TREE_MAX_NODES + 1] = {0}; /* the place of the next node of each round */
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t i = iter__tree_rank_nodes(b->n_leaves, r, ranks, NULL, &first); i > 0; i--)
            at[i]++;
    for (uint32_t i = 0; i < b->max_nodes; i++)
        at[i + 1] += at[i];
    node stack[TREE_MAX_NODES];
    int32_t top = -1;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t n_nodes = iter__tree_rank_nodes(b->n_leaves, r, ranks, levels, &first);
        for (uint32_t i = 0; i < n_nodes; i++) {
            char *numbers = at_number(b, b->received, k->received + at[i]++ * n);
            stack[++top] = (node){levels[i], first, numbers};
            first += 1u << levels[i];
            while (top > 0 && iter__tree_siblings(stack[top - 1].level, stack[top - 1].first,
                                                  stack[top].level))
                join(b, &stack[--top], n);
        }
    }
    while (top > 0)
        join(b, &stack[--top], n);
    return stack[0].numbers;
}

static iter_status gather_total(engine_buckets *b, const bucket *k, uint32_t lane,
                                iter_error *err) {
    uint64_t *at = b->lists, *bytes = at + b->comm->ranks;
    for (uint32_t i = 0; i < b->comm->ranks; i++) {
        at[i] = (uint64_t)part_of(b, k, i) * b->size;
        bytes[i] = (uint64_t)part_of(b, k, i + 1) * b->size - at[i];
    }
    const engine_blocks all = {b->total, at, bytes};
    return iter__comm_gather(b->comm, lane, &all, err);
}

static iter_status travel(engine_buckets *b, const bucket *k, uint32_t lane, iter_error *err) {
    uint32_t seen = 0;
    for (uint32_t t = 0; t < b->max_nodes; t++)
        ENGINE_TRY(exchange_node(b, k, t, lane, &seen, err));
    const char *own = add_received(b, k);
    b->memory.ops->copy(b->memory.state, at_number(b, b->total, part_of(b, k, b->comm->rank)), own,
                        (size_t)own_numbers(b, k) * b->size);
    return gather_total(b, k, lane, err);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void *send_buckets(void *user) {
    engine_buckets *b = user;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->stops && (b->n_done == b->n_ready || b->status < 0))
            pthread_cond_wait(&b->changed, &b->lock);
        if (b->stops) break;
        const bucket *k = &b->buckets[b->n_done];
        pthread_mutex_unlock(&b->lock);
        iter_error error = {ITER_OK, ""};
        const iter_status status = travel(b, k, ENGINE_LANE_SUMS, &error);
        pthread_mutex_lock(&b->lock);
        b->n_done++;
        b->status = status;
        if (status < 0) b->error = error;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static iter_status start_thread(engine_buckets *b, iter_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&b->thread, NULL, send_buckets, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    b->is_threaded = failed == 0;
    if (!failed) return ITER_OK;
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    return iter__engine_fail(err, ITER_ENOMEM, "no thread for the sums of gradients: %s",
                             strerror(failed));
}

static void stop_thread(engine_buckets *b) {
    if (!b->is_threaded) return;
    pthread_mutex_lock(&b->lock);
    b->stops = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
}

static iter_status await_thread(engine_buckets *b, iter_error *err) {
    pthread_mutex_lock(&b->lock);
    while (b->n_done < b->n_buckets && b->status >= 0)
        pthread_cond_wait(&b->changed, &b->lock);
    const iter_status status = b->status;
    pthread_mutex_unlock(&b->lock);
    if (status < 0 && err) *err = b->error;
    return status;
}

void iter__buckets_drop(engine_buckets *b) {
    if (b->is_threaded) await_thread(b, NULL);
}

iter_status iter__buckets_finish(engine_buckets *b, char **out, iter_error *err) {
    *out = b->comm->ranks > 1 ? b->total : b->slots;
    if (b->is_threaded) return await_thread(b, err);
    if (b->comm->ranks == 1)
        for (uint32_t i = iter__tree_nodes(b->first, b->n_own, NULL); i-- > 1;)
            add_numbers(b, b->at[b->n_gradients], slot_at(b, i, 0), slot_at(b, i - 1, 0));
    for (int32_t k = 0; k < b->n_buckets && b->comm->ranks > 1; k++)
        ENGINE_TRY(travel(b, &b->buckets[k], ENGINE_LANE_CALLER, err));
    return ITER_OK;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void read_shapes(engine_buckets *b, const engine_gradient *shapes, int32_t n) {
    b->n_gradients = n;
    for (int32_t g = 0; g < n; g++) {
        b->length[g] = shapes[g].n;
        b->at[g + 1] = b->at[g] + (shapes[g].n + TREE_LINE - 1) / TREE_LINE * TREE_LINE;
    }
}

static void make_buckets(engine_buckets *b, uint64_t bytes) {
    int32_t end = b->n_gradients;
    for (int32_t g = b->n_gradients - 1; g >= 0; g--) {
        const int64_t n = b->at[end] - b->at[g];
        if (n == 0 || (g > 0 && (uint64_t)n * b->size < bytes)) continue;
        b->buckets[b->n_buckets++] =
            (bucket){.from = b->at[g], .to = b->at[end], .first = g, .end = end};
        end = g;
    }
}

static bool take(engine_buckets *b, char **out, size_t n) {
    *out = b->memory.ops->take(b->memory.state, (n > 0 ? n : 1) * b->size);
    if (*out) b->n_bytes += n * b->size;
    return *out != NULL;
}

static bool take_all(engine_buckets *b) {
    const uint32_t ranks = b->comm->ranks;
    const size_t n = (size_t)b->at[b->n_gradients];
    int64_t n_nodes = 0, n_received = 0;
    uint32_t first;
    b->max_nodes = iter__tree_most_nodes(b->n_leaves, ranks);
    for (uint32_t i = 0; i < ranks; i++)
        n_nodes += iter__tree_rank_nodes(b->n_leaves, i, ranks, NULL, &first);
    for (int32_t k = 0; k < b->n_buckets; k++) {
        b->buckets[k].received = n_received;
        n_received += n_nodes * own_numbers(b, &b->buckets[k]);
    }
    if (!take(b, &b->slots, iter__tree_deepest(b->first, b->n_own) * n)) return false;
    if (ranks == 1) return true;
    b->lists = iter__engine_alloc(4 * (size_t)ranks, sizeof(*b->lists));
    b->n_bytes += 4 * (size_t)ranks * sizeof(*b->lists);
    return b->lists && take(b, &b->received, (size_t)n_received) && take(b, &b->total, n);
}

iter_status iter__buckets_create(const engine_sum_memory *memory, uint32_t n_leaves,
                                 iter_dtype real, const engine_gradient *shapes, int32_t n,
                                 uint64_t bucket_bytes, engine_buckets **out, iter_error *err) {
    *out = NULL;
    engine_buckets *b = iter__engine_alloc(1, sizeof(*b));
    if (!b) return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
    iter_communicator *comm = memory->comm;
    b->memory = *memory;
    b->comm = comm;
    b->real = real;
    b->size = iter_dtype_bytes(real);
    b->n_leaves = n_leaves;
    b->n_own = iter__tree_share(n_leaves, comm->rank, comm->ranks, &b->first);
    read_shapes(b, shapes, n);
    make_buckets(b, bucket_bytes ? bucket_bytes : BUCKET_BYTES);
    iter_status status = ITER_OK;
    if (!take_all(b))
        status = iter__engine_fail(err, ITER_ENOMEM, "no memory for the sums of gradients");
    /* A single bucket is ready when the leaf ends: a thread would gain nothing. */
    if (status >= 0 && comm->ranks > 1 && comm->lanes > ENGINE_LANE_SUMS && b->n_buckets > 1)
        status = start_thread(b, err);
    if (status < 0) {
        iter__buckets_destroy(b);
        return status;
    }
    *out = b;
    return ITER_OK;
}

void iter__buckets_destroy(engine_buckets *b) {
    if (!b) return;
    stop_thread(b);
    b->memory.ops->give_back(b->memory.state, b->slots);
    b->memory.ops->give_back(b->memory.state, b->received);
    b->memory.ops->give_back(b->memory.state, b->total);
    iter__engine_free(b->lists);
    iter__engine_free(b);
}

uint64_t iter__buckets_bytes(const engine_buckets *b) {
    return sizeof(*b) + b->n_bytes;
}

uint32_t iter__buckets_stats(const engine_buckets *b, iter_bucket_stats *out, uint32_t capacity) {
    for (uint32_t k = 0; k < (uint32_t)b->n_buckets && k < capacity; k++) {
        const bucket *from = &b->buckets[k];
        out[k].bytes = (uint64_t)(from->to - from->from) * b->size;
        out[k].lead_seconds = from->lead;
    }
    return (uint32_t)b->n_buckets;
}

int64_t iter__buckets_at(const engine_buckets *b, int32_t g) {
    return b->at[g];
}
