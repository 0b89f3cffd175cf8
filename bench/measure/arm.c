/*
 * arm.c - one loader under measurement.
 *
 * The consumer is the same for every loader: it takes a batch, reads one byte of every cache line
 * of every tensor, and gives the batch back. If batches go to a GPU, it waits until the batch has
 * arrived there instead. With --consumer none it does neither. The clock is read twice per batch
 * (before and after next), which costs some 70 ns beside tens of microseconds.
 */
#include "bench/measure/arm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_row.h"
#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/measure/gpu_link.h"

#define WARM_MAX_S 0.15

/* ---- Arrays ---------------------------------------------------------------------------------- */

static bool varies(const iter_desc *desc) {
    return desc->n_dims > 0 && desc->dims[0] == ITER_VARIABLE;
}

bool bench_rows_vary(const iter_description *set) {
    for (int32_t i = 0; i < set->n_fields; i++)
        if (varies(&set->fields[i].desc)) return true;
    return false;
}

static iter_status check_fixed(const iter_description *set, iter_error *err) {
    if (set->n_samples == ITER_UNKNOWN)
        return bench_fail(err, ITER_EUNSUPPORTED,
                          "arrays need a set of known length; this one is a stream");
    for (int32_t i = 0; i < set->n_fields; i++) {
        if (varies(&set->fields[i].desc))
            return bench_fail(err, ITER_EUNSUPPORTED,
                              "arrays need samples of one size, and field '%s' varies: use "
                              "--loader dataloader",
                              set->fields[i].name);
    }
    return ITER_OK;
}

/* Maps arrays for the fields of `loader`, n rows each. */
static iter_status arrays_map(bench_arrays *out, const iter_loader *loader, uint64_t n,
                              iter_error *err) {
    out->n_rows = n;
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++) {
        const iter_batch_field *field = iter_loader_field(loader, i);
        iter_array *array = &out->arrays[i];
        array->name = strdup(field->name);
        array->role = field->role;
        array->desc = field->desc;
        array->desc.dims[0] = (int64_t)n;
        out->bytes[i] = iter_desc_bytes(&array->desc);
        array->data = bench_map(out->bytes[i]);
        out->n_arrays = i + 1;
        if (array->data == NULL || array->name == NULL)
            return bench_fail(err, ITER_ENOMEM, "no memory for field '%s' as one array: %zu bytes",
                              field->name, out->bytes[i]);
    }
    return ITER_OK;
}

static iter_status arrays_fill(bench_arrays *out, iter_loader *loader, iter_error *err) {
    uint64_t at = 0;
    while (at < out->n_rows) {
        iter_batch *batch;
        iter_status s = iter_loader_next(loader, &batch, err);
        if (s < 0) return s;
        if (s != ITER_OK)
            return bench_fail(err, ITER_EFORMAT, "the set ended after %llu of %llu samples",
                              (unsigned long long)at, (unsigned long long)out->n_rows);
        uint64_t n = iter_batch_describe(batch).n_rows;
        if (n > out->n_rows - at) n = out->n_rows - at;
        for (int32_t f = 0; f < out->n_arrays; f++) {
            size_t row_bytes = out->bytes[f] / out->n_rows;
            uint8_t *to = (uint8_t *)(uintptr_t)out->arrays[f].data + at * row_bytes;
            const iter_tensor *tensor = iter_batch_tensor(batch, f);
            for (uint64_t i = 0; i < n; i++) {
                bench_row row = bench_row_at(tensor, (int64_t)i, NULL);
                bench_row_copy(&row, to + i * row_bytes);
            }
        }
        at += n;
        iter_batch_unref(batch);
    }
    return ITER_OK;
}

/* A reference for the caller: opened for this run, or shared by several arms. */
static iter_status arm_dataset(const bench_options *options, iter_dataset **out, iter_error *err) {
    if (options->dataset == NULL) return bench_dataset_open(options, out, err);
    *out = iter_dataset_ref(options->dataset);
    return ITER_OK;
}

static iter_status arrays_read(const bench_options *options, iter_dataset *dataset,
                               uint64_t max_bytes, bench_arrays *out, iter_error *err) {
    const iter_description *set = iter_dataset_describe(dataset);
    iter_status s = check_fixed(set, err);
    if (s < 0) return s;
    uint64_t row_bytes = 0, n = set->n_samples;
    for (int32_t i = 0; i < set->n_fields; i++)
        row_bytes += iter_desc_bytes(&set->fields[i].desc);
    if (row_bytes > 0 && n > max_bytes / row_bytes) n = max_bytes / row_bytes;
    if (n == 0) return bench_fail(err, ITER_EUNSUPPORTED, "no samples for the arrays");
    bench_options plain = bench_options_on_host(options);
    plain.ranks = 1;
    plain.workers = ITER_WORKERS_AUTO;
    plain.shuffle = ITER_SHUFFLE_NONE;
    plain.sampler = NULL;
    plain.last_batch = ITER_LAST_KEEP;
    plain.max_failures = 0;
    iter_loader_options opt = bench_loader_options(&plain, 0);
    iter_loader *loader;
    s = iter_dataloader_create(dataset, NULL, &opt, &loader, err);
    if (s < 0) return s;
    s = arrays_map(out, loader, n, err);
    if (s == ITER_OK) s = arrays_fill(out, loader, err);
    iter_loader_unref(loader);
    return s;
}

iter_status bench_arrays_load(const bench_options *options, uint64_t max_bytes, bench_arrays *out,
                              iter_error *err) {
    *out = (bench_arrays){0};
    double start = bench_now();
    iter_dataset *dataset;
    iter_status s = arm_dataset(options, &dataset, err);
    if (s < 0) return s;
    s = arrays_read(options, dataset, max_bytes, out, err);
    iter_dataset_unref(dataset);
    if (s < 0) bench_arrays_free(out);
    out->load_s = bench_now() - start;
    return s;
}

void bench_arrays_free(bench_arrays *arrays) {
    for (int32_t i = 0; i < arrays->n_arrays; i++) {
        bench_unmap((void *)(uintptr_t)arrays->arrays[i].data, arrays->bytes[i]);
        free((void *)(uintptr_t)arrays->arrays[i].name);
    }
    *arrays = (bench_arrays){0};
}

/* ---- Open and close -------------------------------------------------------------------------- */

static iter_status open_loader(bench_arm *arm, const bench_arrays *arrays, uint32_t rank,
                               iter_error *err) {
    iter_loader_options opt = bench_loader_options(arm->options, rank);
    iter_loader **out = &arm->loaders[rank];
    iter_status s;
    if (arrays != NULL) {
        opt.reading.source = ITER_SOURCE_AUTO; /* the arrays are the source */
        opt.reading.o_direct = 0;
        s = iter_ndarray_create(arrays->arrays, arrays->n_arrays, arm->chain, &opt, out, err);
    } else {
        s = iter_dataloader_create(arm->dataset, arm->chain, &opt, out, err);
    }
    if (s == ITER_OK && arm->options->has_start)
        s = iter_loader_seek(*out, (uint32_t)arm->options->start_epoch, arm->options->start_sample,
                             err);
    return s;
}

iter_status arm_open(const bench_options *options, const bench_arrays *arrays, bench_arm *out,
                     iter_error *err) {
    memset(out, 0, sizeof(*out));
    out->name = arrays != NULL ? "ndarray" : "dataloader";
    out->options = options;
    out->restore_ms = NAN;
    out->opened_at = bench_now();
    iter_status s = ITER_OK;
    out->loaders = calloc(options->ranks, sizeof(iter_loader *));
    if (out->loaders == NULL)
        s = bench_fail(err, ITER_ENOMEM, "no memory for %llu ranks",
                       (unsigned long long)options->ranks);
    if (s == ITER_OK && arrays == NULL) s = arm_dataset(options, &out->dataset, err);
    if (s == ITER_OK && options->chain != NULL)
        s = iter_chain_parse(options->chain, options->registry, &out->chain, err);
    for (uint32_t rank = 0; s == ITER_OK && rank < options->ranks; rank++)
        s = open_loader(out, arrays, rank, err);
    if (s == ITER_OK && options->device != 0 && options->hash)
        s = gpu_link_open(options->device, &out->link, err);
    out->open_s = bench_now() - out->opened_at;
    if (s < 0) arm_close(out);
    return s;
}

void arm_close(bench_arm *arm) {
    gpu_link_close(arm->link);
    arm->link = NULL;
    for (uint32_t rank = 0; arm->loaders != NULL && rank < arm->options->ranks; rank++)
        iter_loader_unref(arm->loaders[rank]);
    free(arm->loaders);
    arm->loaders = NULL;
    iter_chain_unref(arm->chain);
    arm->chain = NULL;
    iter_dataset_unref(arm->dataset);
    arm->dataset = NULL;
}

/* ---- Run ------------------------------------------------------------------------------------- */

/* Rows that are samples. Padding is at the end and does not count. */
static uint32_t own_rows(const bench_arm *arm, const iter_batch_info *info) {
    return arm->options->last_batch == ITER_LAST_PAD ? info->first_valid + info->n_valid
                                                     : info->n_rows;
}

/* Touches rows of different lengths, each up to its own length. */
static void touch_ragged(const iter_tensor *tensor, const int32_t *lengths, uint32_t n_rows) {
    for (uint32_t i = 0; i < n_rows; i++) {
        iter_tensor one = *tensor;
        const bench_row row = bench_row_at(tensor, i, lengths);
        one.data = (void *)(uintptr_t)row.data;
        one.desc.dims[0] = 1;
        one.desc.dims[1] = row.dims[0];
        bench_tensor_touch(&one);
    }
}

/* The consumer that computes nothing: reads a byte of every cache line, or waits until the batch
 * has arrived on its GPU. */
static iter_status touch(bench_arm *arm, iter_batch *batch, int32_t n_fields, iter_error *err) {
    if (arm->options->consumer == BENCH_CONSUMER_NONE) return ITER_OK;
    if (arm->options->device != 0) {
        const uint64_t start = bench_now_ns();
        iter_status s = iter_batch_synchronize(batch, err);
        arm->arrive_ns += bench_now_ns() - start;
        return s;
    }
    for (int32_t f = 0; f < n_fields; f++) {
        const int32_t *lengths = iter_batch_lengths(batch, f);
        if (lengths != NULL && arm->options->ragged)
            touch_ragged(iter_batch_tensor(batch, f), lengths, iter_batch_describe(batch).n_rows);
        else
            bench_tensor_touch(iter_batch_tensor(batch, f));
    }
    return ITER_OK;
}

static iter_status hash(bench_arm *arm, iter_batch *batch, int32_t n_fields, uint32_t n_rows,
                        iter_error *err) {
    iter_tensor tensors[ITER_MAX_FIELDS];
    if (arm->link == NULL) return bench_hash_batch(arm->hash, batch, n_fields, n_rows, err);
    iter_status s = gpu_link_fetch(arm->link, batch, n_fields, tensors, err);
    return s == ITER_OK ? bench_hash_tensors(arm->hash, batch, tensors, n_fields, n_rows, err) : s;
}

static iter_status consume(bench_arm *arm, iter_batch *batch, uint64_t *samples, uint64_t *bytes,
                           iter_error *err) {
    iter_batch_info info = iter_batch_describe(batch);
    int32_t n_fields = iter_loader_n_fields(arm->loaders[0]);
    uint32_t n_rows = own_rows(arm, &info);
    for (int32_t f = 0; f < n_fields; f++) {
        const iter_tensor *device = iter_batch_device_tensor(batch, f);
        *bytes +=
            iter_desc_bytes(device != NULL ? &device->desc : &iter_batch_tensor(batch, f)->desc);
    }
    iter_status s = arm->take != NULL ? arm->take(arm->take_user, batch, err)
                                      : touch(arm, batch, n_fields, err);
    if (s < 0) return s;
    *samples += n_rows;
    arm->slots_seen |= (uint64_t)1 << (info.slot & 63u);
    if (arm->quality != NULL) shuffle_quality_note(arm->quality, batch, n_rows);
    return arm->hash != NULL ? hash(arm, batch, n_fields, n_rows, err) : ITER_OK;
}

/* Called when all ranks are at their epoch's end. */
static iter_status end_epoch(bench_arm *arm, iter_error *err) {
    arm->epochs++;
    if (arm->empty_epoch && arm->options->epochs == 0)
        return bench_fail(err, ITER_EINVAL, "an epoch of this run has no batches");
    arm->empty_epoch = true;
    if (arm->options->epochs > 0 && arm->epochs == arm->options->epochs) return ITER_END;
    for (uint32_t rank = 0; rank < arm->options->ranks; rank++) {
        iter_status s = iter_loader_reset(arm->loaders[rank], err);
        if (s != ITER_OK) return s;
    }
    return ITER_OK;
}

static bool finished(const bench_arm *arm) {
    return arm->options->epochs > 0 && arm->epochs >= arm->options->epochs;
}

/* Adds the loaders' counters to the arm's; `sign` is -1 before a slice, 1 after it. */
static void count(bench_arm *arm, uint64_t sign) {
    iter_loader_stats stats;
    if (arm_stats(arm, &stats, NULL) < 0) return;
    arm->wait_ns += sign * stats.next_wait_ns;
    arm->copies += sign * stats.n_copies;
    arm->copied_bytes += sign * stats.copied_bytes;
}

iter_status arm_run(bench_arm *arm, uint64_t n_batches, bool timed, uint64_t *out_samples,
                    double *out_seconds, iter_error *err) {
    uint64_t samples = 0, bytes = 0, taken = 0;
    const uint64_t arrive_ns = arm->arrive_ns;
    if (timed) count(arm, (uint64_t)-1);
    uint64_t cpu = bench_cpu_ns(), start = bench_now_ns(), before = start;
    iter_status s = ITER_OK;
    while (taken < n_batches && !finished(arm) && !bench_stopped()) {
        iter_batch *batch;
        s = iter_loader_next(arm->loaders[arm->turn], &batch, err);
        if (s == ITER_OK) {
            if (timed) histogram_add(&arm->next_ns, bench_now_ns() - before);
            s = consume(arm, batch, &samples, &bytes, err);
            iter_batch_unref(batch);
            arm->empty_epoch = false;
            taken++;
        }
        if (s < 0) break;
        arm->turn = (arm->turn + 1) % (uint32_t)arm->options->ranks;
        if (s == ITER_END && arm->turn == 0) s = end_epoch(arm, err);
        if (s < 0) break;
        before = bench_now_ns();
    }
    if (s >= 0 && arm->settle != NULL) {
        const iter_status settled = arm->settle(arm->take_user, err);
        if (settled < 0) s = settled;
    }
    *out_samples = samples;
    *out_seconds = (double)(bench_now_ns() - start) * 1e-9;
    if (timed) {
        arm->samples += samples;
        arm->bytes += bytes;
        arm->batches += taken;
        arm->seconds += *out_seconds;
        arm->cpu_ns += bench_cpu_ns() - cpu;
        count(arm, 1);
    } else {
        arm->arrive_ns = arrive_ns;
    }
    return s < 0 ? s : ITER_OK;
}

static iter_status side_run(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                            iter_error *err) {
    return arm_run(user, n, true, out_samples, out_seconds, err);
}

/* Uses up batches that were made ahead, unless that takes longer than a good part of a slice. */
static iter_status side_warm(void *user, uint64_t n, iter_error *err) {
    bench_arm *arm = user;
    const double until = bench_now() + WARM_MAX_S;
    const uint64_t ahead = (arm->options->prefetch > 0 ? arm->options->prefetch : 2) + 3;
    iter_status s = ITER_OK;
    if (arm->options->cold_slices && arm->dataset != NULL) /* the last slice has read them */
        s = bench_cache_drop(iter_dataset_describe(arm->dataset), err);
    for (uint64_t i = 0; s == ITER_OK && (i < n || (i < ahead && bench_now() < until)); i++) {
        uint64_t samples;
        double seconds;
        s = arm_run(arm, 1, false, &samples, &seconds, err);
    }
    return s;
}

/* Whether no worker has anything left to do. */
static bool side_rests(void *user) {
    const bench_arm *arm = user;
    for (uint32_t rank = 0; rank < arm->options->ranks; rank++) {
        const iter_loader *loader = arm->loaders[rank];
        int32_t stage;
        for (int32_t w = 0; (stage = iter_loader_stage_now(loader, w)) >= 0; w++) {
            const char *name = iter_loader_stage_name(loader, stage);
            if (strcmp(name, "wait-slot") != 0 && strcmp(name, "idle") != 0) return false;
        }
    }
    return true;
}

measure_side arm_side(bench_arm *arm) {
    return (measure_side){arm->name, side_run, side_warm, arm, side_rests};
}

iter_status arm_first_batch(bench_arm *arm, bool timed, iter_error *err) {
    uint64_t samples;
    double seconds;
    iter_status s = arm_run(arm, 1, timed, &samples, &seconds, err);
    arm->first_batch_s = bench_now() - arm->opened_at;
    return s;
}

/* ---- Inspecting ------------------------------------------------------------------------------ */

void arm_measure_restore(bench_arm *arm) {
    iter_loader *loader = arm->loaders[0];
    uint64_t n = iter_loader_n_samples(loader), consumed;
    uint64_t global = arm->options->batch * arm->options->ranks;
    uint32_t epoch;
    uint8_t saved[1024];
    size_t size;
    iter_loader_position(loader, &epoch, &consumed);
    if (n == ITER_UNKNOWN || n == 0 || arm->options->last_batch == ITER_LAST_ROLL_OVER ||
        (arm->options->last_batch == ITER_LAST_DISCARD && n < global))
        return;
    uint64_t last = arm->options->last_batch == ITER_LAST_DISCARD ? (n / global - 1) * global
                                                                  : (n - 1) / global * global;
    if (iter_loader_seek(loader, epoch, last, NULL) < 0 ||
        iter_loader_save(loader, saved, sizeof(saved), &size, NULL) < 0)
        return;
    double start = bench_now();
    if (iter_loader_restore(loader, saved, size, NULL) == ITER_OK)
        arm->restore_ms = (bench_now() - start) * 1e3;
}

static void add_stats(iter_loader_stats *sum, const iter_loader_stats *one) {
    sum->batches += one->batches;
    sum->samples += one->samples;
    sum->bytes += one->bytes;
    for (int i = 0; i < ITER_PATH_COUNT; i++)
        sum->path_bytes[i] += one->path_bytes[i];
    sum->next_wait_ns += one->next_wait_ns;
    sum->open_ns += one->open_ns;
    sum->read_ns += one->read_ns;
    sum->transform_ns += one->transform_ns;
    sum->batch_ns += one->batch_ns;
    sum->n_failures += one->n_failures;
    sum->retried_reads += one->retried_reads;
    sum->slot_bytes += one->slot_bytes;
    sum->arena_bytes += one->arena_bytes;
    sum->scratch_bytes += one->scratch_bytes;
    sum->preload_bytes += one->preload_bytes;
    sum->preload_s += one->preload_s;
    sum->pinned_bytes += one->pinned_bytes;
    sum->device_bytes += one->device_bytes;
    sum->n_copies += one->n_copies;
    sum->copied_bytes += one->copied_bytes;
    sum->device_wait_ns += one->device_wait_ns;
}

iter_status arm_stats(const bench_arm *arm, iter_loader_stats *out, iter_error *err) {
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    iter_status s = iter_loader_stats_read(arm->loaders[0], out, err);
    for (uint32_t rank = 1; s == ITER_OK && rank < arm->options->ranks; rank++) {
        iter_loader_stats one = {.struct_size = sizeof(one)};
        s = iter_loader_stats_read(arm->loaders[rank], &one, err);
        add_stats(out, &one);
    }
    return s;
}

size_t arm_failures(const bench_arm *arm, iter_failure *out, size_t capacity) {
    size_t n = 0;
    for (uint32_t rank = 0; rank < arm->options->ranks; rank++) {
        const size_t there = iter_loader_failures(arm->loaders[rank], out + n, capacity - n);
        n += there < capacity - n ? there : capacity - n;
    }
    return n;
}

uint32_t arm_n_slots(const bench_arm *arm) {
    uint32_t n = (uint32_t)__builtin_popcountll(arm->slots_seen);
    return n > 0 ? n : 1;
}
