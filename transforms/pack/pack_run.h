/* pack_run.h - one sample through one pass. */
#ifndef ITER_TRANSFORMS_PACK_PACK_RUN_H
#define ITER_TRANSFORMS_PACK_PACK_RUN_H

#include "transforms/pack/pack_fold.h"

/*
 * Converts one sample. `fold` holds its geometry, NULL for a pass without one.
 *
 *   line     scratch of iter__pass_line_bytes(pass) bytes
 *   next_in  NULL, or the next sample's source
 */
void iter__pass_run(const pack_pass *pass, const struct iter_fold *fold, const void *in, void *out,
                    void *line, const void *next_in);

/* Converts n samples, at base + index[i] * stride, to rows one after the other. false = not by this
 * pass, which has geometry or a table. */
bool iter__pass_rows(const pack_pass *pass, const uint8_t *base, size_t stride,
                     const uint64_t *index, uint32_t n, uint8_t *out);

/* The same in bands, from the top down: converts source rows [first, end). The last band also fills
 * pads and cutouts. Only if iter__pass_has_bands(), and the fold has the pass's sizes and no
 * tables. */
bool iter__pass_has_bands(const pack_pass *pass);
void iter__pass_band(const pack_pass *pass, const struct iter_fold *fold, const void *in, void *out,
                     void *line, int64_t first, int64_t end);

size_t iter__pass_line_bytes(const pack_pass *pass);

/* Bytes of the next source that the caller prefetches before it composes the geometry of a random
 * pass: as many lines as a core tracks misses. */
#define ITER__EARLY_LINES 12
static inline size_t iter__pass_early_bytes(const pack_pass *pass) {
    const size_t most = (size_t)ITER__EARLY_LINES * 64;
    return !pass->is_random ? 0 : pass->in_bytes < most ? pass->in_bytes : most;
}

#endif
