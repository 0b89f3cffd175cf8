/* sum_tree.c - see sum_tree.h. */
#include "engine/ranks/sum_tree.h"

#include <stddef.h>

/* ---- Leaves and nodes ------------------------------------------------------------------------ */

uint32_t iter__tree_share(uint32_t n_leaves, uint32_t rank, uint32_t ranks, uint32_t *out_first) {
    const uint32_t first = (uint32_t)((uint64_t)rank * n_leaves / ranks);
    *out_first = first;
    return (uint32_t)(((uint64_t)rank + 1) * n_leaves / ranks) - first;
}

uint32_t iter__tree_nodes(uint32_t first, uint32_t n, uint32_t levels[TREE_MAX_NODES]) {
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

uint32_t iter__tree_rank_nodes(uint32_t n_leaves, uint32_t rank, uint32_t ranks,
                               uint32_t levels[TREE_MAX_NODES], uint32_t *out_first) {
    const uint32_t n = iter__tree_share(n_leaves, rank, ranks, out_first);
    return iter__tree_nodes(*out_first, n, levels);
}

uint32_t iter__tree_most_nodes(uint32_t n_leaves, uint32_t ranks) {
    uint32_t most = 0, first;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint32_t n = iter__tree_rank_nodes(n_leaves, rank, ranks, NULL, &first);
        if (n > most) most = n;
    }
    return most;
}

uint32_t iter__tree_deepest(uint32_t first, uint32_t n) {
    uint32_t most = 0;
    for (uint32_t k = 1; k <= n; k++) {
        const uint32_t nodes = iter__tree_nodes(first, k, NULL);
        if (nodes > most) most = nodes;
    }
    return most;
}

bool iter__tree_siblings(uint32_t left_level, uint32_t left_first, uint32_t level) {
    return left_level == level && left_first % (2u << level) == 0;
}

int64_t iter__tree_part(int64_t n, uint32_t r, uint32_t ranks) {
    const int64_t lines = (n + TREE_LINE - 1) / TREE_LINE;
    const int64_t at = TREE_LINE * (int64_t)((uint64_t)lines * r / ranks);
    return at < n ? at : n;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void add_f32(int64_t n, const float *from, float *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += from ? from[i] : 0.0f;
}

static void add_f64(int64_t n, const double *from, double *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += from ? from[i] : 0.0;
}

void iter__tree_add(iter_dtype real, int64_t n, const void *from, void *to) {
    if (real == ITER_F64)
        add_f64(n, from, to);
    else
        add_f32(n, from, to);
}

void iter__tree_scale(iter_dtype real, int64_t n, double factor, void *to) {
    for (int64_t i = 0; i < n; i++)
        if (real == ITER_F64)
            ((double *)to)[i] *= factor;
        else
            ((float *)to)[i] = (float)(((float *)to)[i] * factor);
}

double iter__tree_sum(const double *numbers, uint32_t n) {
    if (n == 0) return 0;
    if (n == 1) return numbers[0];
    uint32_t half = 1;
    while (half < n - half)
        half *= 2;
    return iter__tree_sum(numbers, half) + iter__tree_sum(numbers + half, n - half);
}
