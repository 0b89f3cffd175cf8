/* pack_state.h - a pack as create() makes it, for pack.c and pack_program.c. */
#ifndef ITER_TRANSFORMS_PACK_PACK_STATE_H
#define ITER_TRANSFORMS_PACK_PACK_STATE_H

#include "iter/spec/pack.h"
#include "transforms/pack/pack_run.h"

#define PACK_MAX_PASSES 8 /* more than any sensible chain needs */

struct iter__pack {
    pack_pass passes[PACK_MAX_PASSES];
    int32_t n_passes;
    int32_t n_stages;
    const iter__stage **stages; /* [n_stages], borrowed tables and options */
    uint64_t *keys;             /* [n_stages] */
    iter__cpu level;
    /* scratch: line, tables, two buffers between passes */
    size_t line_bytes, table_bytes, between_bytes;
};

/* Composes this sample's geometry in a fold from iter__fold_start(). */
void iter__pack_fold(const iter__pack *pack, const pack_pass *pass, const iter__pack_sample *sample,
                     iter_fold *fold);

/* iter__pack_ops.program and .row */
bool iter__pack_program_make(const iter__pack *pack, iter__pack_program *out, char *why,
                             size_t capacity);
void iter__pack_row_make(const iter__pack *pack, const iter__pack_sample *sample, void *scratch,
                         iter__pack_row *out);

#endif
