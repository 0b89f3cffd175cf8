/*
 * activity.c - what each worker does just now, for sampling profilers, timeouts and the watchdog.
 *
 * A worker stores the number of its stage, the sample and, for slow steps, the time: relaxed and
 * without a wakeup, so observers have to poll. Stages are numbered when the loader is created: some
 * fixed ones, then one for each step of the plan. If a row needs only one pass, the stage is stored
 * once for the rows of a chunk, because a store per row would cost a noticeable part of the row's
 * work.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define NOW(member) atomic_load_explicit(&(member), memory_order_relaxed)

_Thread_local const iter_loader *iter__in_callback_of;

static const char *const fixed_names[ACTIVITY_FIXED] = {
    [ACTIVITY_IDLE] = "idle",
    [ACTIVITY_WAIT_BYTES] = "wait-bytes",
    [ACTIVITY_WAIT_SLOT] = "wait-slot",
    [ACTIVITY_WAIT_TURN] = "wait-turn",
    [ACTIVITY_OPEN] = "open",
    [ACTIVITY_READ] = "read",
    [ACTIVITY_GET] = "get",
    [ACTIVITY_DECODE] = "decode",
    [ACTIVITY_BATCH] = "batch",
};

/* ---- Recording ------------------------------------------------------------------------------- */

void iter__activity_row(iter__worker *worker, int32_t stage, const iter_batch *batch,
                        uint32_t row) {
    const iter_loader *loader = worker->loader;
    iter__activity *activity = &worker->activity;
    if (loader->plan.needs_bytes) {
        const size_t at = (size_t)row * (size_t)loader->dataset->desc.n_extents;
        atomic_store_explicit(&activity->offset, batch->extents[at].offset, memory_order_relaxed);
        atomic_store_explicit(&activity->object, batch->extents[at].object, memory_order_relaxed);
    }
    iter__activity_begins(worker, stage, batch->index[row]);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int32_t name_stage(iter_loader *loader, const char *name, uint32_t occurrence) {
    char *to = loader->workers.stages[loader->workers.n_stages];
    if (occurrence) {
        snprintf(to, ITER_NAME_MAX, "%.24s#%u", name, occurrence + 1);
    } else {
        snprintf(to, ITER_NAME_MAX, "%s", name);
    }
    return loader->workers.n_stages++;
}

iter_status iter__stages_create(iter_loader *loader, iter_error *err) {
    iter__plan *plan = &loader->plan;
    size_t n = ACTIVITY_FIXED + 1;
    for (int32_t f = 0; f < plan->n_fields; f++)
        n += (size_t)plan->fields[f].n_steps;
    loader->workers.stages = iter__alloc(n, sizeof(*loader->workers.stages));
    if (!loader->workers.stages) return iter__fail(err, ITER_ENOMEM, "loader: out of memory");
    for (int32_t i = 0; i < ACTIVITY_FIXED; i++)
        name_stage(loader, fixed_names[i], 0);
    int32_t copy = -1;
    for (int32_t f = 0; f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            if (plan->fields[f].steps[s].stage) continue;
            if (copy < 0) copy = name_stage(loader, "copy", 0);
            plan->fields[f].steps[s].activity = copy;
        }
    }
    for (int32_t f = 0; f < plan->n_fields; f++) {
        for (int32_t s = 0; s < plan->fields[f].n_steps; s++) {
            iter__step *step = &plan->fields[f].steps[s];
            if (step->stage)
                step->activity =
                    name_stage(loader, step->stage->ops->base.name, step->stage->occurrence);
        }
    }
    return ITER_OK;
}

/* ---- Places in files ------------------------------------------------------------------------- */

void iter__path_shown(char *out, size_t capacity, const char *path) {
    const size_t length = strlen(path);
    const bool fits = length < capacity;
    const size_t n = fits ? length : capacity - 4;
    if (!fits) memcpy(out, "...", 3);
    memcpy(out + (fits ? 0 : 3), path + length - n, n + 1);
    iter__escape_in_place(out, capacity);
}

bool iter__where(const iter_loader *loader, uint64_t index, char *file, size_t capacity,
                 uint64_t *out_offset) {
    const iter_description *desc = &loader->dataset->desc;
    *out_offset = 0;
    file[0] = 0;
    if (!loader->dataset->format || !desc->n_extents || index >= desc->n_samples) return false;
    iter_extent all[ITER_MAX_EXTENTS];
    if (!iter__dataset_locate(loader->dataset, index, all)) return false;
    iter__path_shown(file, capacity, desc->files[all[0].object].path);
    *out_offset = all[0].offset;
    return true;
}

/* ---- Public ---------------------------------------------------------------------------------- */

int32_t iter_loader_n_stages(const iter_loader *loader) {
    return loader->workers.n_stages;
}

const char *iter_loader_stage_name(const iter_loader *loader, int32_t id) {
    return id >= 0 && id < loader->workers.n_stages ? loader->workers.stages[id] : NULL;
}

int32_t iter_loader_stage_now(const iter_loader *loader, int32_t worker) {
    if (worker < 0 || worker >= iter__n_workers_all(loader)) return -1;
    return NOW(loader->workers.all[worker].activity.stage);
}

int32_t iter_loader_activity(const iter_loader *loader, iter_activity_info *out, int32_t capacity) {
    const int32_t n = iter__n_workers_all(loader);
    const int64_t now = iter__now_ns();
    for (int32_t i = 0; i < n && i < capacity; i++) {
        const iter__activity *activity = &loader->workers.all[i].activity;
        const int64_t since = NOW(activity->since_ns);
        iter_activity_info *info = &out[i];
        memset(info, 0, sizeof(*info));
        info->worker = i;
        memcpy(info->stage, loader->workers.stages[NOW(activity->stage)], sizeof(info->stage));
        info->sample = NOW(activity->index);
        info->since_ns = since && now > since ? (uint64_t)(now - since) : 0;
        iter__where(loader, info->sample, info->file, sizeof(info->file), &info->offset);
    }
    return n;
}
