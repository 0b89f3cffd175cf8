/* statistics.c - copies the counters for the caller, and the list of failures. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "iter/core/error.h"
#include "iter/core/machine.h"
#include "iter/remote/client.h"
#include "iter/runtime/loader_state.h"

/* Up to here the struct is as it was first published. */
#define STATS_LEAST offsetof(iter_loader_stats, next_calls)

#define LOAD(counter) ((uint64_t)atomic_load_explicit(&(counter), memory_order_relaxed))

/* How long a thread has been runnable without a core: the second number of its schedstat. Called
 * without loader.lock, because it makes three system calls. */
static uint64_t run_delay(int tid) {
    char path[64], text[96];
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    char *second;
    (void)strtoull(text, &second, 10);
    return strtoull(second, NULL, 10);
}

/* tids: the kernel's numbers of the threads; 0 = none. loader.lock held. */
static void read_workers(iter_loader *loader, iter_loader_stats *out,
                         int tids[ITER_STATS_WORKERS]) {
    out->n_workers = loader->workers.n;
    const int32_t n = iter__n_workers_all(loader);
    for (int32_t i = 0; i < n; i++) {
        const iter__worker *worker = &loader->workers.all[i];
        iter_worker_stats *stats = &out->workers[i];
        stats->busy_ns = LOAD(worker->busy_ns);
        stats->wait_bytes_ns = LOAD(worker->wait_bytes_ns);
        stats->wait_slot_ns = LOAD(worker->wait_slot_ns);
        stats->chunks = LOAD(worker->chunks);
        stats->bytes = LOAD(worker->bytes);
        tids[i] = worker->running ? (int)LOAD(worker->tid) : 0;
        struct timespec cpu;
        if (worker->running && worker->cpu_clock && clock_gettime(worker->cpu_clock, &cpu) == 0) {
            stats->cpu_ns = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
        }
    }
}

static void read_answers(const iter_dataset *dataset, iter_loader_stats *out) {
    const iter_description *desc = dataset ? iter_dataset_describe(dataset) : NULL;
    iter__remote_counts counts;
    if (!desc || desc->n_files == 0 || !desc->files[0].place) return;
    iter__remote_counts_read(desc->files[0].place, &counts);
    out->answers = counts.answers;
    out->answers_throttled = counts.throttled;
    out->answers_again = counts.again;
    out->answer_bytes = counts.bytes;
    out->answer_first_ns = counts.first_ns;
    out->answer_ns = counts.ns;
    out->connections = (int32_t)counts.connections;
}

static void read_all(iter_loader *loader, iter_loader_stats *out) {
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    out->batches = LOAD(loader->stats.n_batches);
    out->samples = LOAD(loader->stats.n_samples);
    out->bytes = LOAD(loader->stats.n_bytes);
    for (int i = 0; i < ITER_PATH_COUNT; i++)
        out->path_bytes[i] = LOAD(loader->reading.path_bytes[i]);
    out->next_wait_ns = LOAD(loader->stats.next_wait_ns);
    out->open_ns = LOAD(loader->stats.open_ns);
    out->read_ns = LOAD(loader->stats.read_ns);
    out->transform_ns = LOAD(loader->stats.transform_ns);
    out->batch_ns = LOAD(loader->stats.batch_ns);
    out->retried_reads = LOAD(loader->reading.retried);
    out->slot_bytes = loader->slots.bytes;
    out->arena_bytes = loader->reading.arena_bytes;
    out->scratch_bytes =
        iter__worker_bytes(&loader->plan, &loader->layout) * (size_t)iter__n_workers_all(loader) +
        atomic_load_explicit(&loader->stats.picture_bytes, memory_order_relaxed);
    out->n_warnings = LOAD(loader->stats.n_warnings);
    if (loader->loaded.preload) {
        out->preload_bytes = loader->loaded.preload->bytes;
        out->preload_s = loader->loaded.preload->seconds;
    }
    out->source = loader->reading.source;
    if (loader->device.handle)
        snprintf(out->device, sizeof(out->device), "%s", iter__device_text(loader->device.handle));
    out->pinned_bytes = loader->device.pinned ? loader->slots.bytes : 0;
    out->device_bytes = loader->device.twin_bytes + loader->device.set.bytes;
    out->n_copies = LOAD(loader->device.n_copies);
    out->copied_bytes = LOAD(loader->device.copied_bytes);
    out->device_wait_ns = LOAD(loader->device.wait_ns);
    out->next_calls = LOAD(loader->stats.next_calls);
    out->next_ns = LOAD(loader->stats.next_ns);
    out->next_first_ns = LOAD(loader->stats.next_first_ns);
    out->next_last_ns = LOAD(loader->stats.next_last_ns);
    out->next_tid = (int32_t)LOAD(loader->stats.next_tid);
    out->prefetch = (int32_t)loader->layout.prefetch;
    read_answers(loader->dataset, out);
    int tids[ITER_STATS_WORKERS] = {0};
    pthread_mutex_lock(&loader->lock);
    read_workers(loader, out, tids);
    out->n_failures = loader->failures.n;
    memcpy(out->warning_text, loader->stats.warning_text, sizeof(out->warning_text));
    out->n_fallbacks = loader->stats.n_fallbacks;
    memcpy(out->fallbacks, loader->stats.fallbacks, sizeof(out->fallbacks));
    pthread_mutex_unlock(&loader->lock);
    for (int32_t i = 0; i < loader->workers.n; i++)
        out->workers[i].run_delay_ns = tids[i] ? run_delay(tids[i]) : 0;
    pthread_mutex_lock(&loader->watch.lock);
    out->n_stalls = loader->watch.n_stalls;
    memcpy(out->stall_text, loader->watch.text, sizeof(out->stall_text));
    pthread_mutex_unlock(&loader->watch.lock);
}

iter_status iter_loader_stats_read(iter_loader *loader, iter_loader_stats *out, iter_error *err) {
    const size_t size = out ? out->struct_size : 0;
    if (size < STATS_LEAST || size > sizeof(*out)) {
        return iter__fail(err, ITER_EINVAL, "stats: struct_size is %zu; expected %zu", size,
                          sizeof(*out));
    }
    if (iter__is_orphan(loader)) return iter__fail(err, ITER_ESTATE, "loader: made before fork()");
    if (size == sizeof(*out)) {
        read_all(loader, out);
        return ITER_OK;
    }
    iter_loader_stats all; /* the caller knows the first members alone */
    read_all(loader, &all);
    memcpy(out, &all, size);
    out->struct_size = size;
    return ITER_OK;
}

size_t iter_loader_failures(iter_loader *loader, iter_failure *out, size_t capacity) {
    iter__facts_lock(loader);
    const size_t n = loader->failures.n_kept;
    if (out) memcpy(out, loader->failures.list, (n < capacity ? n : capacity) * sizeof(*out));
    iter__facts_unlock(loader);
    return n;
}

/* ---- What a loader is made of ---------------------------------------------------------------- */

iter_dataset *iter_loader_dataset(const iter_loader *loader) {
    return loader->dataset;
}

iter_chain *iter_loader_chain(const iter_loader *loader) {
    return loader->chain;
}

iter_status iter_loader_options_read(const iter_loader *loader, iter_loader_options *out,
                                     iter_error *err) {
    const size_t size = out ? out->struct_size : 0;
    iter_loader_options all = loader->opt;
    if (size < sizeof(size) || size > sizeof(all)) {
        return iter__fail(err, ITER_EINVAL, "options: struct_size is %zu; expected %zu", size,
                          sizeof(all));
    }
    /* What the caller passed may be gone: the loader has copies. */
    all.sampler.spec = NULL;
    all.sampler.registry = NULL;
    all.sampler.ops = loader->sampling.ops;
    all.sampler.options = loader->sampling.options;
    all.sampler.subset = loader->sampling.subset;
    memcpy(out, &all, size);
    out->struct_size = size;
    return ITER_OK;
}

int32_t iter_cores(void) {
    const uint32_t cores = iter__cores("/proc", "/sys/fs/cgroup");
    return cores > INT32_MAX ? INT32_MAX : (int32_t)cores;
}
