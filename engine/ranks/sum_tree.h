/*
 * sum_tree.h - the fixed tree in which the leaves of a sum are added.
 *
 * A sum of floats depends on its order. Here neighbours are added first: node (level, first)
 * covers the leaves [first, first + 2^level), and its halves are siblings. If the number of leaves
 * is no power of two, what is left over at the end is added from the right. So the bits are the
 * same however many ranks share the leaves.
 */
#ifndef ENGINE_RANKS_SUM_TREE_H
#define ENGINE_RANKS_SUM_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/tensor.h>

#define TREE_MAX_NODES 64 /* of any range of leaves */
#define TREE_LINE      16 /* numbers; gradients and parts begin at cache lines */

/* The leaves [*out_first, *out_first + result) of n that are the rank's. */
uint32_t iter__tree_share(uint32_t n_leaves, uint32_t rank, uint32_t ranks, uint32_t *out_first);

/* The nodes that the leaves [first, first + n) complete, from the left; levels[] may be NULL. */
uint32_t iter__tree_nodes(uint32_t first, uint32_t n, uint32_t levels[TREE_MAX_NODES]);

/* The nodes that the rank's share of n leaves completes; the first one begins at *out_first. */
uint32_t iter__tree_rank_nodes(uint32_t n_leaves, uint32_t rank, uint32_t ranks,
                               uint32_t levels[TREE_MAX_NODES], uint32_t *out_first);
/* The most that any rank has. */
uint32_t iter__tree_most_nodes(uint32_t n_leaves, uint32_t ranks);

/* The most nodes that are complete at the same time while n leaves from `first` on are added. */
uint32_t iter__tree_deepest(uint32_t first, uint32_t n);

/* Whether a node and its right neighbour, which has `level`, are the two halves of another. */
bool iter__tree_siblings(uint32_t left_level, uint32_t left_first, uint32_t level);

/* The first of n numbers, or rows, that rank r owns; r = ranks: n. */
int64_t iter__tree_part(int64_t n, uint32_t r, uint32_t ranks);

/* to += from, n numbers; NULL = zeros: adding them turns -0 into 0, on any rank. */
void iter__tree_add(iter_dtype real, int64_t n, const void *from, void *to);
void iter__tree_scale(iter_dtype real, int64_t n, double factor, void *to);

/* The sum of n leaves that are single numbers. */
double iter__tree_sum(const double *numbers, uint32_t n);

#endif
