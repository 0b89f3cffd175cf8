/*
 * bytes.c - how a loader gets its bytes: from all files loaded into memory, or from a source that
 * is read as needed. Decided when the loader is created.
 *
 * AUTO loads the set if it fits the limit beside everything else; otherwise it reads through a
 * ring. Ranks on one machine share one copy in shared memory. Without a given limit, each rank
 * counts its part of the copy. Under a given limit each counts all of it, so that the limit holds
 * even if the memory cannot be shared.
 *
 * If a ring is unavailable, or files cannot be loaded, the next best way is taken and noted as a
 * fallback.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/machine.h"
#include "iter/runtime/loader_state.h"
#include "iter/spec/registry.h"

#define SOURCE_DEPTH 256

/* ---- Source ---------------------------------------------------------------------------------- */

static const iter_source_ops *source_named(const char *name) {
    for (int i = 0; iter_builtin_source(i); i++) {
        if (strcmp(iter_builtin_source(i)->base.name, name) == 0) return iter_builtin_source(i);
    }
    return NULL;
}

static iter_status open_source(iter_loader *loader, const iter_source_ops *ops,
                               const iter_source_config *config, iter_error *err) {
    char fallback[160] = "";
    loader->reading.state = iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1);
    if (!loader->reading.state)
        return iter__fail(err, ITER_ENOMEM, "source %s: out of memory", ops->base.name);
    const iter_status status =
        ops->open(loader->reading.state, config, fallback, sizeof(fallback), err);
    if (status < 0) {
        iter__free(loader->reading.state);
        loader->reading.state = NULL;
        return iter__error_settle(err, status, ops->base.name);
    }
    if (fallback[0]) iter__fallback(loader, fallback);
    loader->reading.ops = ops;
    loader->reading.is_open = true;
    loader->reading.async = ops->submit != NULL;
    return ITER_OK;
}

/* Opens the caller's own source; else the ring, if wanted; else pread. Notes a missing ring. */
static iter_status open_ring_or_pread(iter_loader *loader, const iter_source_config *config,
                                      bool want_ring, iter_error *err) {
    if (loader->opt.reading.ops) {
        ITER_TRY(iter__source_check(loader->opt.reading.ops, err));
        return open_source(loader, loader->opt.reading.ops, config, err);
    }
    if (iter__dataset_is_remote(loader->dataset)) {
        const iter_source_ops *remote =
            source_named(iter__dataset_is_cached(loader->dataset) ? "cached" : "remote");
        if (remote) return open_source(loader, remote, config, err);
        return iter__fail(err, ITER_EUNSUPPORTED, "this build reads no URLs");
    }
    const iter_source_ops *ring = source_named("ring");
    if (want_ring && !ring)
        iter__fallback(loader, "ring: this build has no io_uring; reading with pread");
    if (want_ring && ring) {
        iter_error why = {.status = ITER_OK};
        const iter_status status = open_source(loader, ring, config, &why);
        if (status != ITER_EUNSUPPORTED) {
            if (status < 0 && err) *err = why;
            return status;
        }
        char text[160];
        snprintf(text, sizeof(text), "ring: %.110s; reading with pread", why.message);
        iter__fallback(loader, text);
    }
    return open_source(loader, source_named("pread"), config, err);
}

static void close_source(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    iter__pool_free(reading);
    if (reading->is_open) reading->ops->close(reading->state);
    iter__free(reading->state);
    reading->state = NULL;
    reading->ops = NULL;
    reading->is_open = reading->async = false;
}

static iter_source_config config_of(const iter_loader *loader) {
    return (iter_source_config){.files = loader->dataset->desc.files,
                                .n_files = loader->dataset->desc.n_files,
                                .depth = SOURCE_DEPTH,
                                .o_direct = loader->opt.reading.o_direct};
}

/* The same for large reads. If the files are cold they bypass the page cache: that halves the
 * time. */
static iter_status open_for_large(iter_loader *loader, iter_source_config *config, bool want_ring,
                                  iter_error *err) {
    ITER_TRY(open_ring_or_pread(loader, config, want_ring, err));
    if (config->o_direct || iter__dataset_is_remote(loader->dataset) ||
        !iter__dataset_is_cold(loader->dataset, loader->reading.ops, loader->reading.state))
        return ITER_OK;
    close_source(loader);
    config->o_direct = 1;
    return open_ring_or_pread(loader, config, want_ring, err);
}

/* ---- Plan ------------------------------------------------------------------------------------ */

iter_status iter__loader_plan(iter_loader *loader, iter_error *err) {
    ITER_TRY(iter__plan_create(&loader->plan, loader->dataset, loader->loaded.resident,
                               loader->chain, loader->opt.batch_size, loader->opt.collate != NULL,
                               err));
    return loader->slots.kind == ITER_MEMORY_DEVICE ? iter__device_rows_plan(loader, err) : ITER_OK;
}

/* ---- In memory ------------------------------------------------------------------------------- */

/* Changes the plan to loaded data. Rows that lie as arrays become resident and need no bytes. */
static void use_preload(iter_loader *loader) {
    const iter__preload *preload = &loader->dataset->preload;
    loader->loaded.preload = preload;
    if (preload->object_base) return;
    for (int32_t i = 0; i < loader->plan.n_fields; i++) {
        iter__field_plan *field = &loader->plan.fields[i];
        if (field->from != ITER_ROW_BYTES) continue;
        field->from = ITER_ROW_RESIDENT;
        loader->loaded.resident[field->in] = preload->rows[field->in];
    }
    loader->plan.needs_bytes = false;
}

static iter_status load(iter_loader *loader, iter__share_wish *share, iter_error *err) {
    iter_dataset *dataset = loader->dataset;
    iter_source_config config = config_of(loader);
    ITER_TRY(open_for_large(loader, &config, true, err));
    bool now;
    const iter_status status = iter__dataset_preload(dataset, loader->reading.ops,
                                                     loader->reading.state, share, &now, err);
    if (status == ITER_OK && share->why.status < 0) {
        char text[160];
        snprintf(text, sizeof(text), "share: %.150s", share->why.message);
        iter__fallback(loader, text);
    }
    if (status == ITER_OK) use_preload(loader);
    for (int i = 0; now && i < ITER_PATH_COUNT; i++) {
        atomic_store(&loader->reading.path_bytes[i], dataset->preload.path_bytes[i]);
    }
    close_source(loader);
    return status;
}

/* Bytes that loading all files takes, staging included, when `share` processes have one copy. 0 =
 * another loader has loaded them already. */
static uint64_t load_bytes(iter_dataset *dataset, uint32_t share) {
    const uint64_t files = iter__dataset_bytes(dataset) / share;
    if (iter__dataset_is_preloaded(dataset)) return 0;
    if (files > ITER_UNKNOWN - ITER_PRELOAD_STAGING) return ITER_UNKNOWN;
    return files + (files < ITER_PRELOAD_STAGING ? files : ITER_PRELOAD_STAGING);
}

/* Whether processes of this machine share one copy. Not if the caller has its own source: it may
 * read other bytes, so the files do not identify them. */
static bool wants_share(const iter_loader *loader) {
    const iter_loader_options *opt = &loader->opt;
    return loader->loaded.local_ranks > 1 && opt->memory.share == ITER_SHARE_AUTO &&
           !opt->reading.ops && (opt->local_ranks || opt->ranks > 1);
}

/* Whether files that could not be loaded are read as needed instead. A sample that cannot be read
 * then fails alone. */
static bool does_without(const iter_loader_options *opt, iter_status loaded) {
    if (opt->reading.source != ITER_SOURCE_MEMORY)
        return loaded == ITER_EIO || loaded == ITER_ENOMEM;
    return loaded == ITER_EIO && opt->faults.on_error != ITER_ON_ERROR_FAIL;
}

/* Loads all files if the source is MEMORY, or AUTO and they fit; then sets *out_loaded. */
static iter_status load_if_wanted(iter_loader *loader, const iter__layout_in *like,
                                  bool *out_loaded, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    iter__layout_in in = *like;
    iter__layout layout;
    iter_error why = {.status = ITER_OK};
    *out_loaded = false;
    if (opt->reading.source != ITER_SOURCE_MEMORY && opt->reading.source != ITER_SOURCE_AUTO)
        return ITER_OK;
    in.bytes = BYTES_LOADED;
    in.loaded_bytes = load_bytes(loader->dataset, 1);
    iter_status fits = iter__layout_create(&in, &layout, &why);
    iter__share_wish share = {.wanted = wants_share(loader), .alone_fits = fits == ITER_OK};
    if (fits == ITER_ENOMEM && share.wanted && !opt->memory.limit) {
        in.loaded_bytes = load_bytes(loader->dataset, loader->loaded.local_ranks);
        fits = iter__layout_create(&in, &layout, &why);
    }
    if (fits < 0 && opt->reading.source == ITER_SOURCE_AUTO && fits == ITER_ENOMEM) return ITER_OK;
    const iter_status loaded = fits < 0 ? fits : load(loader, &share, &why);
    *out_loaded = loaded == ITER_OK;
    if (loaded == ITER_OK) return ITER_OK;
    if (fits < 0 || !does_without(opt, loaded)) {
        if (err) *err = why;
        return loaded;
    }
    char text[160];
    snprintf(text, sizeof(text), "memory: %.120s; reading as needed", why.message);
    iter__fallback(loader, text);
    return ITER_OK;
}

/* If rows are costly to make and fit into memory, makes them once and plans again, over arrays. */
static iter_status keep_rows(iter_loader *loader, const iter__layout_in *like, iter_error *err) {
    iter_dataset *dataset = loader->dataset;
    if (!dataset->format || !dataset->format->get || !iter__description_keeps(&dataset->desc))
        return ITER_OK;
    if (loader->once || loader->plan.has_set) return ITER_OK;
    iter__layout_in in = *like;
    iter__layout layout;
    in.loaded_bytes =
        iter__dataset_is_preloaded(dataset) ? 0 : iter__description_kept_bytes(&dataset->desc);
    if (in.loaded_bytes && iter__layout_create(&in, &layout, NULL) < 0) return ITER_OK;
    bool now;
    iter__share_wish share = {.wanted = false};
    ITER_TRY(iter__dataset_preload(dataset, NULL, NULL, &share, &now, err));
    loader->loaded.preload = &dataset->preload;
    memcpy(loader->loaded.resident, dataset->preload.rows, sizeof(loader->loaded.resident));
    iter__plan_free(&loader->plan);
    return iter__loader_plan(loader, err);
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* What the layout depends on, except how bytes come. */
static void begin_layout(const iter_loader *loader, iter__layout_in *out) {
    const iter_loader_options *opt = &loader->opt;
    const iter_dataset *dataset = loader->dataset;
    const uint64_t free_bytes = opt->memory.limit ? 0
                                                  : iter__memory_free("/proc", "/sys/fs/cgroup") /
                                                        2 / loader->loaded.local_ranks;
    const bool asks = opt->reading.source != ITER_SOURCE_NULL && !opt->reading.ops;
    *out = (iter__layout_in){
        .opt = opt,
        .desc = &dataset->desc,
        .plan = &loader->plan,
        .limit = opt->memory.limit ? opt->memory.limit : free_bytes,
        .n_rows = loader->cut.n,
        .order_bytes = loader->sampling.bytes,
        .is_stream = loader->sampling.order->is_stream,
        .is_ordered = loader->sampling.locality.in_order != 0,
        /* without bytes there is nothing to read ahead */
        .block_rows = opt->reading.source == ITER_SOURCE_NULL ? 0 : loader->sampling.locality.block,
        .block_buffer = loader->sampling.locality.group,
        .is_remote = asks && iter__dataset_is_remote(dataset),
        .is_cached = asks && iter__dataset_is_cached(dataset),
        .can_try = opt->reading.ops
                       ? opt->reading.ops->try_read != NULL
                       : !iter__dataset_is_remote(dataset) || iter__dataset_is_cached(dataset),
        .one_at_a_time = loader->plan.needs_get && dataset->serial};
}

iter_status iter__bytes_choose(iter_loader *loader, iter__layout_in *out, iter_error *err) {
    const int32_t wish = loader->opt.reading.source;
    loader->loaded.local_ranks = iter__local_ranks(loader->opt.local_ranks, loader->opt.ranks);
    begin_layout(loader, out);
    loader->reading.source = ITER_SOURCE_MEMORY;
    if (!loader->plan.needs_bytes) return keep_rows(loader, out, err);
    bool loaded;
    ITER_TRY(load_if_wanted(loader, out, &loaded, err));
    out->bytes = !loaded ? BYTES_READ : loader->plan.needs_bytes ? BYTES_LOADED : BYTES_NONE;
    if (!loaded)
        loader->reading.source =
            wish == ITER_SOURCE_AUTO || wish == ITER_SOURCE_MEMORY ? ITER_SOURCE_RING : wish;
    if (!loaded && wish != ITER_SOURCE_NULL && !loader->opt.reading.ops &&
        iter__dataset_is_remote(loader->dataset))
        loader->reading.source = ITER_SOURCE_REMOTE;
    return ITER_OK;
}

/* ---- Reading as needed ----------------------------------------------------------------------- */

static iter_status make_arena(iter_loader *loader, iter_error *err) {
    iter__reading *reading = &loader->reading;
    reading->arena_bytes = loader->layout.arena_bytes;
    reading->n_regions = loader->layout.n_regions;
    reading->arena = iter__map(reading->arena_bytes);
    reading->regions = iter__alloc(reading->n_regions, sizeof(*reading->regions));
    if (reading->arena && reading->regions) return ITER_OK;
    return iter__fail(err, ITER_ENOMEM, "no memory for an arena of %zu bytes",
                      reading->arena_bytes);
}

static const iter__reading_calls reading_calls = {
    .make_rows = iter__rows_make,
    .end_chunks = iter__chunk_done,
    .sample_at = iter__sampler_index,
};

iter_status iter__bytes_open(iter_loader *loader, iter_error *err) {
    iter__reading *reading = &loader->reading;
    reading->calls = &reading_calls;
    const iter__layout *layout = &loader->layout;
    ITER_TRY(make_arena(loader, err));
    iter_source_config config = config_of(loader);
    config.arena = reading->arena;
    config.arena_bytes = reading->arena_bytes;
    config.buffer_bytes = layout->source_bytes;
    const bool want_ring = loader->reading.source != ITER_SOURCE_PREAD;
    if (loader->reading.source == ITER_SOURCE_NULL) {
        ITER_TRY(open_source(loader, source_named("null"), &config, err));
    } else if (layout->frames.n) {
        ITER_TRY(open_for_large(loader, &config, want_ring, err));
    } else {
        ITER_TRY(open_ring_or_pread(loader, &config, want_ring, err));
    }
    if (!reading->async && loader->reading.source != ITER_SOURCE_NULL) {
        ITER_TRY(iter__pool_create(loader, SOURCE_DEPTH, err));
        loader->reading.source = ITER_SOURCE_PREAD;
    }
    ITER_TRY(iter__frames_create(loader, err));
    const bool can_try = reading->ops->try_read && !loader->opt.reading.o_direct &&
                         (!reading->frames || layout->hot_bytes);
    atomic_store(&reading->misses, can_try || !reading->async ? 0 : INT32_MAX);
    return ITER_OK;
}

void iter__bytes_close(iter_loader *loader) {
    iter__reading *reading = &loader->reading;
    if (reading->ops) close_source(loader);
    iter__unmap(reading->arena, reading->arena_bytes);
    iter__free(reading->regions);
    iter__free(reading->frames);
    reading->arena = NULL;
    reading->regions = NULL;
    reading->frames = NULL;
}
