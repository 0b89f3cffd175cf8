/*
 * slot_set.h - a set of small numbers that finds its next member at once: a bit for each number,
 * 64 to a word, above that a bit for each word that is not zero, and so on.
 */
#ifndef ITER_CORE_SLOT_SET_H
#define ITER_CORE_SLOT_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "iter/core/alloc.h"

#define ITER_SLOT_LEVELS 4 /* numbers below 64^4 */
#define ITER_SLOT_NONE   UINT32_MAX

typedef struct iter__slot_set {
    uint64_t *words[ITER_SLOT_LEVELS];
} iter__slot_set;

static inline void iter__slot_set_free(iter__slot_set *set) {
    for (int level = 0; level < ITER_SLOT_LEVELS; level++) {
        iter__free(set->words[level]);
        set->words[level] = NULL;
    }
}

/* An empty set of numbers 0..n - 1, n <= 64^4. False = no memory. */
static inline bool iter__slot_set_make(iter__slot_set *set, uint32_t n) {
    bool made = true;
    uint32_t words = n / 64 + 1;
    for (int level = 0; level < ITER_SLOT_LEVELS; level++, words = words / 64 + 1) {
        set->words[level] = (uint64_t *)iter__alloc(words, sizeof(uint64_t));
        made = made && set->words[level];
    }
    if (!made) iter__slot_set_free(set);
    return made;
}

static inline void iter__slot_set_add(iter__slot_set *set, uint32_t number) {
    for (int level = 0; level < ITER_SLOT_LEVELS; level++, number /= 64)
        set->words[level][number / 64] |= UINT64_C(1) << number % 64;
}

static inline void iter__slot_set_remove(iter__slot_set *set, uint32_t number) {
    for (int level = 0; level < ITER_SLOT_LEVELS; level++, number /= 64)
        if (set->words[level][number / 64] &= ~(UINT64_C(1) << number % 64)) return;
}

/* The smallest member that is at least `from` <= n; ITER_SLOT_NONE = there is none. */
static inline uint32_t iter__slot_set_next(const iter__slot_set *set, uint32_t from) {
    for (int level = 0; level < ITER_SLOT_LEVELS; level++) {
        const uint64_t rest = set->words[level][from / 64] >> from % 64;
        if (rest) {
            uint32_t found = from + (uint32_t)__builtin_ctzll(rest);
            while (level-- > 0)
                found = found * 64 + (uint32_t)__builtin_ctzll(set->words[level][found]);
            return found;
        }
        from = from / 64 + 1; /* the words after this one */
    }
    return ITER_SLOT_NONE;
}

#endif
