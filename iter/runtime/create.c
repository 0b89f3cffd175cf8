/*
 * create.c - the constructors: from options to cut, sampler, plan, source, slots and threads, under
 * one memory limit.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/machine.h"
#include "iter/observe/activity.h"
#include "iter/observe/diagnose_hook.h"
#include "iter/profile/profiler.h"
#include "iter/runtime/loader_state.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"
#include "iter/spec/registry.h"
#include "iter/spec/suggest.h"
#include <iter/sampler.h>

#define WORKERS_MAX   ITER_STATS_WORKERS
#define DEFAULT_GRACE 5000
#define THREADS_MAX   256 /* that read a blocking source */

/* ---- Options --------------------------------------------------------------------------------- */

static iter_status check_choice(const char *name, int32_t value, int32_t max, iter_error *err) {
    if (value >= 0 && value <= max) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "options: %s is %d; expected 0 to %d", name, value, max);
}

/* Fills in batch_size and global_batch, each from the other. */
static iter_status check_batch(iter_loader_options *opt, iter_error *err) {
    if (opt->micro_batches && opt->micro_batches < opt->ranks)
        return iter__fail(err, ITER_EINVAL,
                          "options: micro_batches is %u; expected at least ranks, which is %u",
                          opt->micro_batches, opt->ranks);
    const uint32_t asked = opt->batch_size;
    if (opt->batch_size == 0) opt->batch_size = 32;
    const uint64_t global =
        opt->global_batch ? opt->global_batch : (uint64_t)opt->batch_size * opt->ranks;
    const uint64_t share = iter__cut_largest_share(global, opt->ranks, opt->micro_batches);
    if (global > UINT32_MAX)
        return iter__fail(err, ITER_EINVAL, "options: batch_size x ranks is too large");
    if (opt->global_batch && asked && asked != share)
        return iter__fail(
            err, ITER_EINVAL,
            "options: batch_size is %u, but of global_batch %u a rank has up to %llu; "
            "leave one of them out",
            asked, opt->global_batch, (unsigned long long)share);
    if (share > 1u << 24)
        return iter__fail(err, ITER_EINVAL,
                          "options: batch_size is %llu; expected at most 16777216",
                          (unsigned long long)share);
    opt->global_batch = (uint32_t)global;
    opt->batch_size = (uint32_t)share;
    return ITER_OK;
}

static iter_status check_options(iter_loader *loader, int32_t default_last_batch, iter_error *err) {
    iter_loader_options *opt = &loader->opt;
    ITER_TRY(check_choice("shuffle", opt->shuffle, ITER_SHUFFLE_REPLACEMENT, err));
    ITER_TRY(check_choice("last_batch", opt->last_batch, ITER_LAST_ROLL_OVER, err));
    ITER_TRY(check_choice("on_error", opt->faults.on_error, ITER_ON_ERROR_BLANK, err));
    ITER_TRY(check_choice("source", opt->reading.source, ITER_SOURCE_NULL, err));
    ITER_TRY(check_choice("share", opt->memory.share, ITER_SHARE_NO, err));
    ITER_TRY(check_choice("lookahead", opt->lookahead, ITER_LOOKAHEAD_EPOCH, err));
    ITER_TRY(check_choice("memory", opt->memory.kind, ITER_MEMORY_DEVICE, err));
    ITER_TRY(check_choice("views", opt->views, ITER_VIEWS_NO, err));
    ITER_TRY(check_choice("only_reads", opt->reading.only_reads, 1, err));
    ITER_TRY(check_choice("device", opt->memory.device, INT32_MAX, err));
    ITER_TRY(check_choice("finish", opt->memory.finish, ITER_FINISH_DEVICE, err));
    ITER_TRY(check_choice("resident", opt->memory.resident, ITER_RESIDENT_YES, err));
    if (opt->max_held == 0) opt->max_held = 2;
    if (opt->prefetch > 4096 || opt->max_held > 4096) {
        return iter__fail(err, ITER_EINVAL,
                          "options: prefetch is %u and max_held %u; expected at most 4096 each",
                          opt->prefetch, opt->max_held);
    }
    if (opt->reading.threads > THREADS_MAX) {
        return iter__fail(err, ITER_EINVAL, "options: reading.threads is %u; expected at most %d",
                          opt->reading.threads, THREADS_MAX);
    }
    if (opt->ranks == 0) opt->ranks = 1;
    if (opt->rank >= opt->ranks)
        return iter__fail(err, ITER_EINVAL,
                          "options: rank is %u; it must be less than ranks, which is %u", opt->rank,
                          opt->ranks);
    ITER_TRY(check_batch(opt, err));
    if (opt->workers < ITER_WORKERS_AUTO || opt->workers > WORKERS_MAX) {
        return iter__fail(err, ITER_EINVAL,
                          "options: workers is %d; expected 0 to %d or ITER_WORKERS_AUTO",
                          opt->workers, WORKERS_MAX);
    }
    loader->workers.is_auto = opt->workers == ITER_WORKERS_AUTO;
    if (loader->workers.is_auto) {
        const uint32_t cores = iter__cores_share((uint32_t)iter_cores(),
                                                 iter__local_ranks(opt->local_ranks, opt->ranks));
        opt->workers = (int32_t)iter__min_u32(cores, WORKERS_MAX);
    }
    if (opt->faults.grace_ms == 0) opt->faults.grace_ms = DEFAULT_GRACE;
    if (opt->faults.timeout_ms < 0 || opt->faults.grace_ms < 0 || opt->watch.stall_ms < 0)
        return iter__fail(err, ITER_EINVAL,
                          "options: timeout_ms, grace_ms and stall_ms must not be negative");
    if (opt->faults.timeout_ms > ITER_LONGEST_MS) opt->faults.timeout_ms = ITER_LONGEST_MS;
    if (opt->faults.grace_ms > ITER_LONGEST_MS) opt->faults.grace_ms = ITER_LONGEST_MS;
    loader->ending.grace_ms = opt->faults.grace_ms;
    if (opt->watch.stall_ms > ITER_LONGEST_MS) opt->watch.stall_ms = ITER_LONGEST_MS;
    if (opt->last_batch == ITER_LAST_DEFAULT) opt->last_batch = default_last_batch;
    if (!opt->sampler.subset != !opt->sampler.n_subset)
        return iter__fail(err, ITER_EINVAL, "options: subset and n_subset must be set together");
    loader->workers.n = opt->workers;
    return ITER_OK;
}

/* ---- Sampler --------------------------------------------------------------------------------- */

static const char *const shuffle_names[] = {"sequential", "shuffle", "once",
                                            "block",      "batch",   "replacement"};

/* Whether its dataset has parts with weights, and all of it is used. */
static bool has_weights(const iter_loader *loader) {
    const iter_description *desc = &loader->dataset->desc;
    return desc->parts && desc->parts[0].weight > 0 && !loader->opt.sampler.subset;
}

/* The sampler and its options, from any of the three ways to ask: shuffle, spec or ops. */
static iter_status sampler_options(iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    iter__grammar_call call;
    char *text = NULL, named[96];
    const char *spec = opt->sampler.spec;
    if (!spec && !opt->sampler.ops && has_weights(loader)) {
        if (opt->shuffle > ITER_SHUFFLE_FULL)
            return iter__fail(err, ITER_EINVAL,
                              "options: a mix with weights is shuffled or not; other orders need a "
                              "mix without weights, or a sampler by name");
        spec = opt->shuffle == ITER_SHUFFLE_NONE ? "mix:shuffle=no" : "mix";
    } else if (!spec && !opt->sampler.ops) {
        const char *name = shuffle_names[opt->shuffle];
        snprintf(named, sizeof(named), "%s", name);
        if (opt->shuffle == ITER_SHUFFLE_BLOCK) {
            snprintf(named, sizeof(named), "block:block=%u,buffer=%u", opt->sampler.block,
                     opt->sampler.buffer_blocks);
        } else if (opt->shuffle == ITER_SHUFFLE_BATCH) {
            snprintf(named, sizeof(named), "batch:unit=%u",
                     opt->sampler.block ? opt->sampler.block : opt->batch_size);
        }
        spec = named;
    }
    if (spec) {
        const char *cursor = spec;
        ITER_TRY(iter__grammar_stage(spec, &cursor, &call, &text, err));
        if (cursor) { /* a '|', and whatever follows it */
            iter__free(text);
            return iter__fail(err, ITER_EINVAL,
                              "sampler: column %zu: expected one sampler, got '|'",
                              (size_t)(cursor - spec));
        }
        loader->sampling.ops = iter_registry_sampler(opt->sampler.registry, call.name);
        if (!loader->sampling.ops) {
            char hint[ITER_HINT_MAX];
            const iter_status status =
                iter__fail(err, ITER_EINVAL, "sampler: no sampler is called '%s'%s", call.name,
                           iter__hint_sampler(opt->sampler.registry, call.name, hint));
            iter__free(text);
            return status;
        }
    } else {
        ITER_TRY(iter__sampler_check(opt->sampler.ops, err));
        loader->sampling.ops = opt->sampler.ops;
    }
    const iter_ops *base = &loader->sampling.ops->base;
    loader->sampling.options = iter__alloc(1, base->options_size ? base->options_size : 1);
    loader->sampling.state = iter__alloc(1, base->state_size ? base->state_size : 1);
    iter_status status = ITER_OK;
    if (!loader->sampling.options || !loader->sampling.state) {
        status = iter__fail(err, ITER_ENOMEM, "sampler: out of memory");
    } else if (spec) {
        status = iter__grammar_apply(&call, base, loader->sampling.options, NULL, err);
    } else if (opt->sampler.options) {
        status = iter__options_dup(base, loader->sampling.options, opt->sampler.options, err);
    } else {
        iter__options_defaults(base, loader->sampling.options);
    }
    iter__free(text);
    return status;
}

/* Hashes a few rows at the start, in the middle and at the end of two epochs. This also tells
 * samplers apart whose order depends on something that their options do not show. */
static uint64_t probe_order(iter_loader *loader, uint64_t id) {
    enum { ROWS = 16, PLACES = 3, EPOCHS = 2 };
    const uint64_t n = loader->cut.n;
    if (!loader->sampling.ops->index || n == ITER_UNKNOWN) return id;
    const uint32_t rows = n < ROWS ? (uint32_t)n : ROWS;
    for (uint32_t epoch = 0; epoch < EPOCHS && rows; epoch++) {
        for (uint64_t place = 0; place < PLACES; place++) {
            uint64_t indices[ROWS];
            loader->sampling.ops->index(loader->sampling.state, epoch,
                                        (n - rows) / (PLACES - 1) * place, rows, indices);
            id = iter__fnv1a(id, indices, rows * sizeof(indices[0]));
        }
    }
    return iter__fnv1a_u64(id, n);
}

static iter_status identify_sampler(iter_loader *loader, iter_error *err) {
    const iter_ops *base = &loader->sampling.ops->base;
    const int length = iter__options_text(base, loader->sampling.options, ',', NULL, 0);
    char *text = iter__alloc(1, (size_t)length + 1);
    if (!text) return iter__fail(err, ITER_ENOMEM, "sampler: out of memory");
    iter__options_text(base, loader->sampling.options, ',', text, (size_t)length + 1);
    uint64_t id = iter__fnv1a_text(iter__fnv1a_text(ITER_FNV_START, base->name), text);
    iter__free(text);
    for (uint64_t i = 0; i < loader->opt.sampler.n_subset; i++)
        id = iter__fnv1a_u64(id, loader->sampling.subset[i]);
    if (loader->sampling.ops->history) /* position.c asks it */
        loader->sampling.id = iter__fnv1a_text(ITER_FNV_START, base->name);
    else
        loader->sampling.id = probe_order(loader, id);
    return ITER_OK;
}

/* What the sampler says about its order. Blocks are ignored if a number is 0, or if the rows of a
 * group do not fit 32 bits. */
static void find_locality(iter_loader *loader) {
    iter_locality *out = &loader->sampling.locality;
    const iter_sampler_ops *ops = loader->sampling.ops;
    if (ops->locality && ops->index) ops->locality(loader->sampling.state, out);
    uint64_t rows;
    if (out->block == 0 || out->group == 0 ||
        __builtin_mul_overflow(out->block, out->group, &rows) || rows > UINT32_MAX)
        out->block = out->group = 0;
}

static int64_t subset_length(const void *user, uint64_t index) {
    const iter_loader *loader = user;
    return iter__dataset_length(loader->dataset,
                                loader->sampling.subset ? loader->sampling.subset[index] : index);
}

static iter_status sampler_labels(const void *user, const char *field, uint64_t first, uint64_t n,
                                  int64_t *out, iter_error *err) {
    const iter_loader *loader = user;
    return iter__dataset_labels(loader->dataset, field, loader->sampling.subset, first, n, out,
                                err);
}

static iter_status copy_subset(iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    if (!opt->sampler.subset) return ITER_OK;
    const uint64_t n = loader->dataset->desc.n_samples;
    loader->sampling.subset = iter__alloc(opt->sampler.n_subset, sizeof(*loader->sampling.subset));
    if (!loader->sampling.subset) return iter__fail(err, ITER_ENOMEM, "subset: out of memory");
    memcpy(loader->sampling.subset, opt->sampler.subset,
           opt->sampler.n_subset * sizeof(*loader->sampling.subset));
    for (uint64_t i = 0; i < opt->sampler.n_subset; i++) {
        if (loader->sampling.subset[i] < n) continue;
        return iter__fail(err, ITER_EINVAL,
                          "subset: entry %llu is sample %llu, but there are only %llu",
                          (unsigned long long)i, (unsigned long long)loader->sampling.subset[i],
                          (unsigned long long)n);
    }
    return ITER_OK;
}

static iter_status refuse_for_unknown(const iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    const char *what = opt->last_batch == ITER_LAST_PAD || opt->last_batch == ITER_LAST_ROLL_OVER
                           ? "last_batch pad or roll_over"
                       : opt->ranks > 1                                ? "ranks > 1"
                       : opt->sampler.subset                           ? "a subset"
                       : opt->faults.on_error == ITER_ON_ERROR_REPLACE ? "on_error replace"
                       : loader->sampling.ops->index && opt->shuffle != ITER_SHUFFLE_NONE
                           ? "shuffling"
                           : NULL;
    if (!what) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "options: %s needs a known number of samples, but that of %s is unknown",
                      what, loader->dataset->name);
}

/* Opens the sampler and measures what it allocates: its tables count in memory.limit, as the
 * dataset's index does. */
static iter_status open_sampler(iter_loader *loader, const iter_sampler_context *context,
                                iter_error *err) {
    const iter_sampler_ops *ops = loader->sampling.ops;
    const uint64_t limit = loader->opt.memory.limit, index = loader->dataset->desc.index_bytes;
    iter__account account = {.limit = !limit ? 0 : limit > index ? limit - index : 1};
    iter__account_open(&account);
    iter_status status = ops->open(loader->sampling.state, loader->sampling.options, context, err);
    iter__account_close(&account);
    loader->sampling.bytes = account.held;
    loader->sampling.is_open = status >= 0;
    if (status >= 0) return ITER_OK;
    if (status == ITER_ENOMEM && account.wanted)
        status = iter__fail_in(
            err, status, "memory.limit of %llu bytes is too small, %llu or more would do",
            (unsigned long long)limit, (unsigned long long)(account.wanted + index));
    return iter__fail_in(err, status, "sampler %s", ops->base.name);
}

static iter_status make_cut(iter_loader *loader, iter_error *err) {
    const iter_loader_options *opt = &loader->opt;
    loader->cut = (iter__cut){.n = ITER_UNKNOWN,
                              .global = opt->global_batch,
                              .micro_batches = opt->micro_batches,
                              .rank = opt->rank,
                              .ranks = opt->ranks,
                              .last_batch = opt->last_batch};
    ITER_TRY(copy_subset(loader, err));
    ITER_TRY(sampler_options(loader, err));
    const bool stream = loader->dataset->desc.n_samples == ITER_UNKNOWN;
    loader->sampling.order = iter__order_of(loader->sampling.ops, stream);
    if (stream) ITER_TRY(refuse_for_unknown(loader, err));
    const bool lengths = iter__dataset_has_length(loader->dataset);
    const iter_part *parts = loader->sampling.subset ? NULL : loader->dataset->desc.parts;
    const iter_sampler_context context = {.n_samples = loader->sampling.subset
                                                           ? opt->sampler.n_subset
                                                           : loader->dataset->desc.n_samples,
                                          .seed = opt->seed,
                                          .batch_size = opt->batch_size,
                                          .ranks = opt->ranks,
                                          .length = lengths ? subset_length : NULL,
                                          .length_user = loader,
                                          .parts = parts,
                                          .n_parts = parts ? loader->dataset->desc.n_parts : 0,
                                          .labels = stream ? NULL : sampler_labels,
                                          .labels_user = loader};
    const iter_sampler_ops *ops = loader->sampling.ops;
    if (!ops->index && (uint64_t)opt->batch_size * opt->ranks != opt->global_batch)
        return iter__fail(
            err, ITER_EINVAL,
            "options: a global batch of %u rows is not the same for %u ranks; sampler "
            "%s needs that",
            opt->global_batch, opt->ranks, ops->base.name);
    if (ops->resolve) ops->resolve(loader->sampling.options, &context);
    ITER_TRY(open_sampler(loader, &context, err));
    find_locality(loader);
    if (ops->index) {
        loader->cut.n = ops->length(loader->sampling.state);
    } else {
        loader->opener.drawn = iter__alloc(loader->cut.global, sizeof(*loader->opener.drawn));
        if (!loader->opener.drawn) return iter__fail(err, ITER_ENOMEM, "sampler: out of memory");
        if (opt->faults.on_error == ITER_ON_ERROR_REPLACE) {
            return iter__fail(err, ITER_EINVAL,
                              "options: on_error replace needs a sampler with index(); %s has none",
                              ops->base.name);
        }
        loader->cut.last_batch = ITER_LAST_KEEP; /* whatever the sampler draws is a batch */
    }
    return identify_sampler(loader, err);
}

/* ---- Plan ------------------------------------------------------------------------------------ */

/* Uploads the resident set that rows come from. If that fails and the set is optional, plans
 * without one. */
static iter_status make_set(iter_loader *loader, iter_error *err) {
    iter_error why = {.status = ITER_OK};
    char text[160];
    if (!loader->plan.has_set) return ITER_OK;
    const iter_status status = iter__resident_upload(loader, iter__loader_once, &why);
    if (status == ITER_OK) return ITER_OK;
    if (loader->opt.memory.resident == ITER_RESIDENT_YES) {
        if (err) *err = why;
        return iter__fail_in(err, status, "resident");
    }
    snprintf(text, sizeof(text), "resident: %.120s; batches are copied", why.message);
    iter__fallback(loader, text);
    loader->device.set.is_off = true;
    iter__plan_free(&loader->plan);
    return iter__loader_plan(loader, err);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Adds lines on the layout and its memory to the plan's text. */
static iter_status note_layout(iter_loader *loader, iter__layout_in *in, iter_error *err) {
    char text[1024];
    in->loaded_bytes = loader->loaded.preload
                           ? iter__preload_cost(loader->loaded.preload, loader->loaded.local_ranks)
                           : 0;
    in->one_copy_for = loader->loaded.preload && loader->loaded.preload->shared.memory
                           ? loader->loaded.local_ranks
                           : 1;
    iter__layout_text(in, &loader->layout, text, sizeof(text));
    ITER_TRY(iter__plan_note(&loader->plan, text, err));
    if (loader->loaded.views)
        ITER_TRY(iter__plan_note(
            &loader->plan, "views: batches whose rows follow one another are not copied\n", err));
    const char *left_out = loader->dataset->desc.left_out;
    if (!left_out) return ITER_OK;
    snprintf(text, sizeof(text), "left out: %.900s\n", left_out);
    return iter__plan_note(&loader->plan, text, err);
}

/* ITER_WORKERS_AUTO is none where a batch costs no more than its hand-over. A view is made in half
 * a microsecond. A copy on one core: with a worker, CIFAR-10 in memory has 0.81 of the rate without
 * (bench/results/rows-2026-11-28/rows.md), and if the consumer only waits for a GPU, the worker
 * saves it no more than that. Rows that are converted cost several times as much. */
static iter_status choose_workers(iter_loader *loader, iter_error *err) {
    const bool views = loader->loaded.views && loader->sampling.locality.in_order;
    const bool copies = loader->workers.n == 1 && loader->loaded.all_stored && !loader->opt.collate;
    if (!loader->workers.is_auto || !(views || copies)) return ITER_OK;
    loader->opt.workers = loader->workers.n = 0;
    return iter__plan_note(
        &loader->plan,
        views ? "workers: none, because batches are views\n"
              : "workers: none, because rows are only copied and there is one core\n",
        err);
}

static iter_status make_memory(iter_loader *loader, iter_error *err) {
    iter__layout_in in;
    ITER_TRY(iter__bytes_choose(loader, &in, err));
    iter__stored_rows_find(loader);
    ITER_TRY(choose_workers(loader, err));
    ITER_TRY(iter__layout_create(&in, &loader->layout, err));
    ITER_TRY(note_layout(loader, &in, err));
    if (in.bytes == BYTES_READ) ITER_TRY(iter__bytes_open(loader, err));
    loader->queue.entries =
        iter__alloc(loader->layout.queue_capacity, sizeof(*loader->queue.entries));
    loader->failures.list = iter__alloc(ITER_FAILURES_MAX, sizeof(*loader->failures.list));
    if (!loader->queue.entries || !loader->failures.list)
        return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    ITER_TRY(iter__batches_create(loader, err));
    return iter__workers_create(loader, err);
}

/* ---- Constructors ---------------------------------------------------------------------------- */

static iter_status init_locks(iter_loader *loader, iter_error *err) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_mutex_init(&loader->reading.lock, NULL);
    pthread_mutex_init(&loader->opener.sampler_lock, NULL);
    pthread_cond_init(&loader->ending.left, &monotonic);
    pthread_mutex_init(&loader->watch.lock, NULL);
    pthread_cond_init(&loader->watch.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    /* fork() wipes this page in the child, which then reads 0 and refuses every call. */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *alive = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (alive == MAP_FAILED) return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    madvise(alive, page, MADV_WIPEONFORK);
    loader->alive = alive;
    *loader->alive = 1;
    return ITER_OK;
}

/* The profiler's name for making chunks: reading, get(), decoding, or else the first step. */
static uint32_t leading_stage(const iter_loader *loader) {
    const iter__plan *plan = &loader->plan;
    int32_t stage = loader->opt.reading.only_reads ? ACTIVITY_READ
                    : plan->needs_get              ? ACTIVITY_GET
                                                   : -1;
    for (int32_t f = 0; stage < 0 && f < plan->n_fields; f++) {
        const iter__field_plan *field = &plan->fields[f];
        if (field->lengths_of >= 0) continue;
        if (field->from == ITER_ROW_DECODE) stage = ACTIVITY_DECODE;
        if (field->from == ITER_ROW_INDEX) stage = ACTIVITY_GET;
        if (stage < 0 && field->n_steps > 0) stage = field->steps[0].activity;
    }
    return iter__profile_name(CATEGORY_STAGE, stage < 0 ? "copy" : loader->workers.stages[stage]);
}

static iter_status set_up(iter_loader *loader, int32_t default_last_batch, iter_error *err) {
    ITER_TRY(init_locks(loader, err));
    ITER_TRY(check_options(loader, default_last_batch, err));
    ITER_TRY(iter__device_slots_open(loader, err));
    ITER_TRY(make_cut(loader, err));
    memcpy(loader->loaded.resident, loader->dataset->resident, sizeof(loader->loaded.resident));
    ITER_TRY(iter__loader_plan(loader, err));
    ITER_TRY(make_set(loader, err));
    ITER_TRY(iter__parts_create(loader, err));
    loader->sampling.get_key = iter_rng_key(loader->opt.seed, "get", 0);
    loader->sampling.replace_key = iter_rng_key(loader->opt.seed, "replace", 0);
    ITER_TRY(make_memory(loader, err));
    ITER_TRY(iter__stages_create(loader, err));
    loader->workers.stage_name = leading_stage(loader);
    loader->opener.at = loader->consumer.position = iter__cut_epoch(&loader->cut, 0);
    ITER_TRY(loader->workers.n == 0 ? iter__worker_begin(&loader->workers.all[0], err)
                                    : iter__workers_run(loader, err));
    return iter__watch_start(loader, err);
}

static iter_status make(iter_dataset *dataset, iter_chain *chain,
                        const iter_loader_options *options, int32_t default_last_batch, bool once,
                        iter_loader **out, iter_error *err) {
    iter_loader_options opt;
    iter_error own; /* callbacks always get one */
    if (!err) err = &own;
    iter__error_clear(err);
    ITER_TRY(iter__options_copy(&opt, sizeof(opt), options, sizeof(size_t), err));
    iter_loader *loader = iter__alloc(1, sizeof(*loader));
    if (!loader) return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    loader->opt = opt;
    loader->once = once;
    atomic_init(&loader->refs, 1);
    atomic_init(&loader->holds, 1);
    loader->number = iter__profile_loader_number();
    char why[160];
    iter__profile_autostart(opt.ranks > 1 ? (int64_t)opt.rank : -1, why, sizeof(why));
    if (why[0]) iter__fallback(loader, why);
    loader->dataset = iter_dataset_ref(dataset);
    iter__dataset_adopt(dataset);
    if (chain) {
        loader->chain = iter_chain_ref(chain);
        iter__chain_freeze(chain);
    }
    const iter_status status = set_up(loader, default_last_batch, err);
    if (status < 0) {
        iter_loader_unref(loader);
        return status;
    }
    iter__profile_memory();
    if (!once) iter__diagnose_autostart(loader);
    *out = loader;
    return ITER_OK;
}

iter_status iter_dataloader_create(iter_dataset *dataset, iter_chain *chain,
                                   const iter_loader_options *options, iter_loader **out,
                                   iter_error *err) {
    *out = NULL;
    if (!dataset) return iter__fail(err, ITER_EINVAL, "dataloader: no dataset");
    return make(dataset, chain, options, ITER_LAST_KEEP, false, out, err);
}

iter_status iter__loader_once(iter_dataset *dataset, const iter_loader_options *options,
                              iter_loader **out, iter_error *err) {
    *out = NULL;
    return make(dataset, NULL, options, ITER_LAST_KEEP, true, out, err);
}

iter_status iter_ndarray_create(const iter_array *arrays, int32_t n_arrays, iter_chain *chain,
                                const iter_loader_options *options, iter_loader **out,
                                iter_error *err) {
    *out = NULL;
    iter_loader_options opt;
    ITER_TRY(iter__options_copy(&opt, sizeof(opt), options, sizeof(size_t), err));
    iter_dataset *dataset;
    ITER_TRY(iter__dataset_arrays(arrays, n_arrays, opt.arrays.copy != 0, &dataset, err));
    const iter_status status = make(dataset, chain, options, ITER_LAST_PAD, false, out, err);
    if (status == ITER_OK) { /* else the caller keeps its arrays, and release() does not run */
        dataset->release = opt.arrays.release;
        dataset->release_user = opt.arrays.user;
    }
    iter_dataset_unref(dataset);
    return status;
}
