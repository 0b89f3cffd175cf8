/*
 * stall.c - finds what holds up the batch that next() waits for.
 *
 * Workers store what they do (activity.h). The batch waits for the worker that has been at one of
 * its rows for the longest time, or for a read. A read is blamed only while a thread waits in the
 * source, or while no worker is at work. Else it may have completed long ago, and no thread reaped
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/time.h"
#include "iter/observe/activity.h"
#include "iter/runtime/loader_state.h"

#define NOW(member) atomic_load_explicit(&(member), memory_order_relaxed)

/* What may hold up a batch: a worker, or a read (worker -1). */
typedef struct suspect {
    int32_t worker;
    int32_t stage; /* -1 = there is none */
    uint64_t sample;
    int64_t since_ns;
    const char *path; /* the file of the sample or of the read; NULL = none */
    uint64_t offset, bytes;
} suspect;

/* The file of the sample that a worker has stored; NULL = none. */
static const char *path_of(const iter_loader *loader, const iter__activity *activity) {
    const iter_description *desc = &loader->dataset->desc;
    const unsigned long long object = NOW(activity->object);
    return NOW(activity->index) != ITER_UNKNOWN && object < desc->n_files ? desc->files[object].path
                                                                          : NULL;
}

/* The worker that has worked for the longest time on the batch in `slot` (from 1; 0 = on any), in
 * `stage` (-1 = in any stage that is work). */
static suspect oldest_worker(const iter_loader *loader, int slot, int32_t stage) {
    suspect out = {.worker = -1, .stage = -1};
    for (int32_t i = 0; i < iter__n_workers_all(loader); i++) {
        const iter__activity *activity = &loader->workers.all[i].activity;
        const int32_t in = NOW(activity->stage);
        if (in < ACTIVITY_OPEN || (stage >= 0 && in != stage)) continue;
        if (slot && NOW(activity->slot) != slot) continue;
        const int64_t since = NOW(activity->since_ns);
        if (out.stage >= 0 && since >= out.since_ns) continue;
        out = (suspect){.worker = i,
                        .stage = in,
                        .sample = NOW(activity->index),
                        .since_ns = since,
                        .path = path_of(loader, activity),
                        .offset = NOW(activity->offset)};
    }
    return out;
}

/* The read in flight that a WAITING chunk waits for. loader.lock held: no chunk is issued anew. */
static suspect read_of(iter_loader *loader, const iter__chunk *chunk) {
    const int32_t n_extents = loader->dataset->desc.n_extents;
    iter__chunk_read framed;
    const iter__chunk_read *r = NULL;
    int64_t since = chunk->issued_ns;
    if (loader->reading.frames) {
        if (iter__frames_awaited(loader, chunk, &framed, &since)) r = &framed;
    } else {
        const iter__chunk_read *reads = chunk->batch->reads + (size_t)chunk->first * n_extents;
        for (uint32_t i = 0; i < chunk->n_reads && !r; i++) {
            if (!NOW(reads[i].completed)) r = &reads[i];
        }
    }
    if (!r) return (suspect){.worker = -1, .stage = -1};
    return (suspect){.worker = -1,
                     .stage = ACTIVITY_READ,
                     .sample = r->sample,
                     .since_ns = since,
                     .path = loader->dataset->desc.files[r->read.object].path,
                     .offset = r->read.offset,
                     .bytes = r->read.size};
}

/* The oldest read of a batch. loader.lock held. */
static suspect oldest_read(iter_loader *loader, const iter_batch *batch) {
    suspect out = {.worker = -1, .stage = -1};
    for (uint32_t c = 0; c < atomic_load(&batch->n_chunks); c++) {
        const iter__chunk *chunk = &batch->chunks[c];
        /* acquire: the reads are complete before the chunk is WAITING. */
        if (atomic_load_explicit(&chunk->state, memory_order_acquire) != CHUNK_WAITING) continue;
        const suspect one = read_of(loader, chunk);
        if (one.stage >= 0 && (out.stage < 0 || one.since_ns < out.since_ns)) out = one;
    }
    return out;
}

/* What holds up the head of the queue. loader.lock held. */
static suspect blame(iter_loader *loader, const iter_batch *head) {
    const suspect none = {.worker = -1, .stage = -1};
    const suspect on_it = head ? oldest_worker(loader, (int)head->slot + 1, -1) : none;
    const suspect read = head ? oldest_read(loader, head) : none;
    if (atomic_load(&loader->reading.has_reader) && read.stage >= 0)
        return on_it.stage >= 0 && on_it.since_ns < read.since_ns ? on_it : read;
    if (on_it.stage >= 0) return on_it;
    if (!head) { /* it is not even opened */
        const suspect opener = oldest_worker(loader, 0, ACTIVITY_OPEN);
        if (opener.stage >= 0) return opener;
    }
    /* All work on later batches, or one keeps the others out of get(). */
    const suspect other = oldest_worker(loader, 0, -1);
    return other.stage >= 0 ? other : read;
}

/* Which batch next() waits for. */
static void name_batch(iter_loader *loader, const iter_batch *head, iter_stall *out) {
    out->batch = ITER_UNKNOWN;
    iter__span span;
    out->epoch = loader->consumer.position.epoch;
    if (head) {
        out->epoch = head->info.epoch;
        out->batch = head->info.number;
    } else if (loader->sampling.order->by_position &&
               iter__cut_batch(&loader->cut, &loader->consumer.position, &span)) {
        out->batch = span.number;
    } else if (!loader->consumer.moved) {
        out->batch = loader->consumer.number;
    }
}

/* no_slot: a GPU reads all slots. */
static void write_message(const iter_loader *loader, const suspect *who, bool no_slot,
                          iter_stall *out) {
    char batch[64] = "no batch is", where[160] = "", sample[48] = "", at[128], place[48];
    if (out->batch != ITER_UNKNOWN)
        snprintf(batch, sizeof(batch), "batch %llu of epoch %u is not",
                 (unsigned long long)out->batch, out->epoch);
    const double waited = (double)out->waited_ns * 1e-6, since = (double)out->since_ns * 1e-6;
    if (out->sample != ITER_UNKNOWN)
        snprintf(sample, sizeof(sample), ", sample %llu%s", (unsigned long long)out->sample,
                 strcmp(out->stage, "get") == 0 ? " and on" : ""); /* get() makes several */
    iter__path_shown(at, sizeof(at), out->file);
    if (who->stage < 0 && no_slot) {
        snprintf(out->message, sizeof(out->message),
                 "%s ready after %.0f ms: no slot is free, streams of the GPU still read batches "
                 "that were released",
                 batch, waited);
    } else if (who->stage < 0 && loader->workers.n == 0) {
        snprintf(out->message, sizeof(out->message),
                 "%s ready after %.0f ms: without workers next() makes it; call again to go on",
                 batch, waited);
    } else if (who->stage < 0) {
        snprintf(out->message, sizeof(out->message),
                 "%s ready after %.0f ms: no worker is at it, %d wait or idle", batch, waited,
                 loader->workers.n);
    } else if (who->worker < 0) {
        snprintf(out->message, sizeof(out->message),
                 "%s ready after %.0f ms: a read of %s (offset %llu, %llu bytes%s and on) has been "
                 "in flight for %.0f ms",
                 batch, waited, at, (unsigned long long)out->offset, (unsigned long long)who->bytes,
                 sample, since);
    } else {
        if (at[0])
            snprintf(where, sizeof(where), " (%s:%llu)", at, (unsigned long long)out->offset);
        snprintf(place, sizeof(place), loader->workers.n ? "worker %d" : "the caller's thread",
                 who->worker);
        snprintf(out->message, sizeof(out->message),
                 "%s ready after %.0f ms: %s is in %s (%.64s)%s%s, for %.0f ms", batch, waited,
                 place, out->stage, loader->dataset->name, sample, where, since);
    }
}

void iter__stall_find(iter_loader *loader, int64_t waited_ns, iter_stall *out) {
    const int64_t now = iter__now_ns();
    const iter_batch *head = loader->queue.count ? iter__queue_at(loader, 0)->batch : NULL;
    const suspect who = blame(loader, head);
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    out->waited_ns = waited_ns > 0 ? (uint64_t)waited_ns : 0;
    out->worker = who.worker;
    out->sample = ITER_UNKNOWN;
    name_batch(loader, head, out);
    if (who.stage >= 0) {
        memcpy(out->stage, loader->workers.stages[who.stage], sizeof(out->stage));
        out->sample = who.sample;
        out->since_ns = now > who.since_ns ? (uint64_t)(now - who.since_ns) : 0;
    }
    if (who.path) {
        iter__path_shown(out->file, sizeof(out->file), who.path);
        out->offset = who.offset;
    }
    const bool no_slot =
        !loader->queue.free_list && (loader->device.n_released > 0 || loader->device.awaited);
    write_message(loader, &who, no_slot, out);
    iter__escape_in_place(out->message, sizeof(out->message));
}
