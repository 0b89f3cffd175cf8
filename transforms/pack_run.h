/* pack_run.h - one sample through one pass. */
#ifndef ITER_TRANSFORMS_PACK_RUN_H
#define ITER_TRANSFORMS_PACK_RUN_H

#include "transforms/pack_fold.h"

/*
 * Converts one sample. `fold` holds its geometry, NULL where the pass has none.
 *
 *   line     room for one row of source pixels, pack_line_bytes(pass)
 *   next_in  NULL, or the next sample's source
 */
void iter__pass_run(const pack_pass *pass, const struct iter_fold *fold, const void *in, void *out,
                    void *line, const void *next_in);

size_t iter__pass_line_bytes(const pack_pass *pass);

#endif
