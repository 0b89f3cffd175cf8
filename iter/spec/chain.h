/* chain.h - a chain as the planner reads it. */
#ifndef ITER_SPEC_CHAIN_H
#define ITER_SPEC_CHAIN_H

#include <iter/chain.h>

typedef struct iter__stage {
    const iter_transform_ops *ops;
    void *options;             /* ops->base.options_size bytes, owned by the chain */
    char field[ITER_NAME_MAX]; /* "" = the first field of ops->role */
    uint32_t occurrence;       /* 0 for the first stage of this name, 1 for the second, ... */
    int32_t column;            /* of its name in a parsed chain; 0 = added by a call */
} iter__stage;

int32_t iter__chain_n_stages(const iter_chain *chain); /* chain NULL = 0 */
const iter__stage *iter__chain_stage(const iter_chain *chain, int32_t i);
void iter__chain_freeze(iter_chain *chain); /* from now on adding a stage fails with ESTATE */

#endif
