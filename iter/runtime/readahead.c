/*
 * readahead.c - tells the kernel which parts of the files a block shuffle will want next.
 *
 * Rows of a block shuffle lie scattered over a group of blocks, a few MiB wide: read one by one
 * from a cold disk they are small random reads. But the sampler answers for any position, so what
 * is wanted a group from now is known: its windows are advised in large pieces, the device reads
 * them in order, and the small reads then hit the page cache without blocking. Each window is
 * advised once while it is in use.
 */
#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

#define WINDOW_SHIFT 18                   /* 256 KiB */
#define WINDOWS      1024                 /* remembered, by hash */
#define AHEAD_BYTES  ((uint64_t)32 << 20) /* page cache that read-ahead may fill */
#define STEP         64

iter_status iter__ahead_make(iter_loader *loader, iter_error *err) {
    iter_io *io = &loader->io;
    const iter_description *desc = &loader->dataset->desc;
    const bool wanted = loader->opt.shuffle == ITER_SHUFFLE_BLOCK && !loader->opt.sampler &&
                        !loader->opt.sampler_ops;
    if (!wanted || !io->ops->advise || loader->opt.o_direct || loader->subset || loader->cut.n == 0)
        return ITER_OK;
    uint64_t sample = 1;
    for (int32_t e = 0; e < desc->n_extents; e++)
        sample += desc->max_extent_bytes[e];
    const uint64_t group = (uint64_t)(loader->opt.block ? loader->opt.block : 256) *
                           (loader->opt.buffer_blocks ? loader->opt.buffer_blocks : 16);
    const uint64_t fit = AHEAD_BYTES / sample;
    io->ahead_windows = iter__alloc(WINDOWS, sizeof(*io->ahead_windows));
    if (!io->ahead_windows) return iter__fail(err, ITER_ENOMEM, "read-ahead: out of memory");
    io->ahead_rows = group < fit ? group : fit;
    return ITER_OK;
}

static void advise_row(iter_loader *loader, uint64_t index) {
    iter_io *io = &loader->io;
    const iter_dataset *dataset = loader->dataset;
    iter_extent extents[ITER_MAX_EXTENTS];
    dataset->format->locate(dataset->state, index, extents);
    for (int32_t e = 0; e < dataset->desc.n_extents; e++) {
        const uint64_t last = extents[e].offset + extents[e].size - (extents[e].size > 0);
        for (uint64_t w = extents[e].offset >> WINDOW_SHIFT; w <= last >> WINDOW_SHIFT; w++) {
            const uint64_t id = (extents[e].object << 40 | w) + 1;
            uint64_t *seen = &io->ahead_windows[id * 0x9e3779b97f4a7c15u >> 54];
            if (*seen == id) continue;
            *seen = id;
            io->ops->advise(io->state, extents[e].object, w << WINDOW_SHIFT,
                            (uint64_t)1 << WINDOW_SHIFT);
        }
    }
}

/* Row of the endless sequence that the opener is at. loader.lock held. */
static uint64_t opener_row(const iter_loader *loader) {
    const bool rolls = loader->cut.last_batch == ITER_LAST_ROLL_OVER;
    return loader->opener.sample + (rolls ? 0 : (uint64_t)loader->opener.epoch * loader->cut.n);
}

void iter__ahead_advance(iter_loader *loader) {
    iter_io *io = &loader->io;
    bool expected = false;
    if (!io->ahead_rows || !atomic_compare_exchange_strong(&io->advising, &expected, true)) return;
    for (;;) {
        uint64_t indices[STEP];
        pthread_mutex_lock(&loader->lock);
        const uint64_t at = opener_row(loader), until = at + io->ahead_rows;
        uint64_t from = atomic_load_explicit(&io->ahead_until, memory_order_relaxed);
        if (from < at || from > until + STEP) from = at; /* the loader went somewhere else */
        const uint64_t position = from % loader->cut.n, epoch = from / loader->cut.n;
        uint64_t n = from < until ? until - from : 0;
        if (n > STEP) n = STEP;
        if (n > loader->cut.n - position) n = loader->cut.n - position;
        const bool past = epoch > UINT32_MAX || (loader->opt.epochs && epoch >= loader->opt.epochs);
        if (past || loader->stopping) n = 0;
        if (n)
            loader->sampler->index(loader->sampler_state, (uint32_t)epoch, position, (uint32_t)n,
                                   indices);
        pthread_mutex_unlock(&loader->lock);
        if (n == 0) break;
        for (uint64_t i = 0; i < n; i++)
            advise_row(loader, indices[i]);
        atomic_store_explicit(&io->ahead_until, from + n, memory_order_relaxed);
    }
    atomic_store(&io->advising, false);
}
