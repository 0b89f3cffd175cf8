/*
 * budget.c - what a loader takes, against one memory limit; and what is said where it does not fit.
 *
 * Where no limit was given, what depends on the samples (pictures, the index) does not count: it
 * would fill any limit. Where one was, a picture is at most a share of it unless max_sample_bytes
 * says more, so the smallest limit that would do is not the sum of what is counted.
 */
#include <stdio.h>

#include "iter/core/error.h"
#include "iter/runtime/runtime.h"

#define PICTURE_SHARE  16 /* of a memory limit that was given: one picture, unless told otherwise */
#define DECODER_BYTES  ((uint64_t)2 << 20) /* of an image decoder, beside one picture */
#define PICTURE_MOST   ((uint64_t)1 << 50) /* no sum of these overflows */
#define DEFAULT_SAMPLE ((uint64_t)256 << 20)
#define SAMPLE_WORTH   ((uint64_t)1 << 20) /* a smaller max_sample_bytes is no advice */

void iter__budget_pictures(iter_loader *loader) {
    iter_loader_options *opt = &loader->opt;
    loader->picture_max = opt->max_sample_bytes ? opt->max_sample_bytes : DEFAULT_SAMPLE;
    loader->picture_share = !opt->max_sample_bytes && opt->memory_limit &&
                            opt->memory_limit / PICTURE_SHARE < loader->picture_max;
    if (loader->picture_share) loader->picture_max = opt->memory_limit / PICTURE_SHARE;
    if (loader->picture_max > PICTURE_MOST) loader->picture_max = PICTURE_MOST;
    loader->decoder_max = loader->picture_max + DECODER_BYTES;
    if (opt->max_sample_bytes == 0) opt->max_sample_bytes = DEFAULT_SAMPLE;
}

/* Image decoders that a worker has. */
static uint64_t n_image_decoders(const iter_loader *loader) {
    uint64_t n = 0;
    for (int32_t f = 0; f < loader->plan.n_fields; f++) {
        const iter_field_plan *field = &loader->plan.fields[f];
        n += field->lengths_of < 0 && field->any_size && field->from == ITER_ROW_DECODE;
    }
    return n;
}

/* The most that a worker takes for pictures, and their decoders. */
static uint64_t picture_bytes(const iter_loader *loader) {
    return (uint64_t)loader->plan.n_growing * loader->picture_max +
           n_image_decoders(loader) * loader->decoder_max;
}

/* A sample that takes another one's place is read into memory of its own. */
static uint64_t replacement_bytes(const iter_loader *loader) {
    const bool reads = loader->plan.needs_bytes && !loader->preload;
    if (loader->opt.on_error != ITER_ON_ERROR_REPLACE || !reads) return 0;
    return iter__io_chunk_bytes(loader, 1);
}

/* Of one worker. What depends on the samples counts where a limit was given: it would fill any
 * other. */
static uint64_t scratch_bytes(const iter_loader *loader) {
    if (!loader->opt.memory_limit) return iter__worker_bytes(loader);
    return iter__worker_bytes(loader) + picture_bytes(loader) + replacement_bytes(loader);
}

/* What is there already, or is little beside any limit but one that was given. */
static uint64_t index_bytes(const iter_loader *loader) {
    if (!loader->opt.memory_limit) return 0;
    return loader->dataset->desc.index_bytes + loader->opt.n_subset * sizeof(*loader->subset);
}

static uint64_t books_bytes(iter_loader *loader) {
    return loader->opt.memory_limit ? iter__books_bytes(loader) : 0;
}

uint64_t iter__budget_fixed(iter_loader *loader) {
    const uint64_t threads = (uint64_t)(loader->n_workers > 0 ? loader->n_workers : 1);
    return (uint64_t)loader->plan.slot_bytes * loader->n_slots + scratch_bytes(loader) * threads +
           index_bytes(loader) + books_bytes(loader);
}

/* How often a limit that was given holds max_sample_bytes, for pictures and their decoders. */
static uint64_t n_pictures(const iter_loader *loader) {
    const uint64_t threads = (uint64_t)(loader->n_workers > 0 ? loader->n_workers : 1);
    if (!loader->opt.memory_limit) return 0;
    return threads * ((uint64_t)loader->plan.n_growing + n_image_decoders(loader));
}

/* The smallest limit for n pictures and `rest` bytes. A picture that is a share of the limit grows
 * with it, x = rest + n x / PICTURE_SHARE, up to DEFAULT_SAMPLE. */
static uint64_t least_limit(const iter_loader *loader, uint64_t n, uint64_t rest) {
    if (!loader->picture_share) return rest + n * loader->picture_max;
    const uint64_t most = rest + n * DEFAULT_SAMPLE;
    if (n >= PICTURE_SHARE || rest > PICTURE_MOST) return most;
    const uint64_t least = rest * PICTURE_SHARE / (PICTURE_SHARE - n) + 1;
    return least / PICTURE_SHARE <= DEFAULT_SAMPLE ? least : most;
}

uint64_t iter__budget_preload(iter_dataset *dataset) {
    const uint64_t files = iter__dataset_bytes(dataset);
    if (iter__dataset_is_preloaded(dataset)) return 0;
    if (files > ITER_UNKNOWN - ITER_PRELOAD_STAGING) return ITER_UNKNOWN;
    return files + (files < ITER_PRELOAD_STAGING ? files : ITER_PRELOAD_STAGING);
}

iter_status iter__budget_too_small(iter_loader *loader, uint64_t limit, const char *what,
                                   uint64_t bytes, iter_error *err) {
    const uint64_t n = n_pictures(loader);
    const uint64_t rest = iter__budget_fixed(loader) - n * loader->picture_max + bytes;
    const uint64_t room = n && rest < limit ? (limit - rest) / n : 0;
    char pictures[96] = "";
    if (bytes == ITER_UNKNOWN)
        return iter__fail(err, ITER_ENOMEM, "source memory: nobody knows how large %s of %s are",
                          what, loader->dataset->name);
    if (room >= SAMPLE_WORTH) {
        snprintf(pictures, sizeof(pictures), ", or this one with max_sample_bytes of %llu",
                 (unsigned long long)room);
    }
    return iter__fail(
        err, ITER_ENOMEM,
        "%s of %llu bytes is too small, %llu would do%s: it holds %u slots of %zu bytes "
        "(less by batch_size or prefetch), %d x %llu bytes of scratch (less by workers%s), an "
        "index of %llu bytes, books of %llu bytes, and %s of %llu bytes",
        loader->opt.memory_limit ? "memory_limit" : "half of the free memory",
        (unsigned long long)limit, (unsigned long long)least_limit(loader, n, rest), pictures,
        loader->n_slots, loader->plan.slot_bytes, loader->n_workers > 0 ? loader->n_workers : 1,
        (unsigned long long)scratch_bytes(loader), n ? " or max_sample_bytes" : "",
        (unsigned long long)index_bytes(loader), (unsigned long long)books_bytes(loader), what,
        (unsigned long long)bytes);
}

iter_status iter__budget_refuse(iter_loader *loader, uint64_t limit, iter_error *err) {
    const int32_t wish = loader->opt.source;
    const bool direct = wish == ITER_SOURCE_DIRECT && loader->plan.direct;
    uint64_t bytes = 0;
    if (wish == ITER_SOURCE_MEMORY && loader->plan.needs_bytes)
        bytes = iter__budget_preload(loader->dataset);
    else if (loader->plan.needs_bytes && !direct)
        bytes = 2 * iter__io_chunk_bytes(loader, 1);
    return iter__budget_too_small(loader, limit, wish == ITER_SOURCE_MEMORY ? "files" : "an arena",
                                  bytes, err);
}

iter_status iter__budget_note(iter_loader *loader, iter_error *err) {
    const int32_t threads = loader->n_workers > 0 ? loader->n_workers : 1;
    char line[512], pictures[160] = "";
    if (loader->plan.n_growing)
        snprintf(pictures, sizeof(pictures), ", pictures up to %d x (%d x %zu + decoder %llu)",
                 threads, loader->plan.n_growing, loader->picture_max,
                 (unsigned long long)(n_image_decoders(loader) * loader->decoder_max));
    const uint64_t limit = loader->opt.memory_limit;
    const int n = snprintf(
        line, sizeof(line),
        "memory slots %u x %zu, arena %zu, files %zu, scratch %d x %zu%s, index %llu bytes",
        loader->n_slots, loader->plan.slot_bytes, loader->io.arena_bytes,
        loader->preload ? loader->preload->bytes : 0, threads, iter__worker_bytes(loader), pictures,
        (unsigned long long)loader->dataset->desc.index_bytes);
    if (limit)
        snprintf(line + n, sizeof(line) - (size_t)n, "; at most %llu\n", (unsigned long long)limit);
    else
        snprintf(line + n, sizeof(line) - (size_t)n, "; no limit was given\n");
    return iter__plan_note(&loader->plan, line, err);
}
