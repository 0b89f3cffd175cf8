/*
 * position.c - save, restore, seek. A position is (epoch, samples consumed by all ranks).
 *
 * If the sampler is pure, going anywhere costs the same. A sequential sampler without a saved state
 * draws again from the epoch's beginning; a stream is read again.
 *
 * The blob, little-endian: "ITERPOS1", then the fields of struct saved, then the sampler's own
 * bytes, then FNV-1a-64 of all that. A position is valid only for the dataset, chain, sampler, seed
 * and roll_over that it was saved with. Each has its own hash, so a refusal names the one that
 * differs. Sequential samplers also need the same size of the global batch.
 */
#include <stdio.h>
#include <string.h>

#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/runtime/loader_state.h"

enum { ID_DATASET, ID_CHAIN, ID_SAMPLER, ID_SEED, ID_ROLL_OVER, ID_COUNT };

static const char *const id_names[ID_COUNT] = {"dataset", "chain", "sampler", "seed",
                                               "last_batch (roll_over or not)"};

/* The order of comparison. The sampler's hash comes last, because it also changes with the seed and
 * the dataset. */
static const int refusals[ID_COUNT] = {ID_DATASET, ID_CHAIN, ID_SEED, ID_ROLL_OVER, ID_SAMPLER};

typedef struct saved {
    char magic[8];
    uint64_t ids[ID_COUNT];
    uint64_t sample;       /* of the epoch; under roll_over t */
    uint64_t global_batch; /* G of the saving loader */
    uint64_t number;       /* batches taken in the epoch */
    uint32_t epoch;
    uint32_t ended;
    uint32_t sampler_bytes;
    uint32_t reserved;
} saved;

static const char magic[8] = {'I', 'T', 'E', 'R', 'P', 'O', 'S', '1'};

uint64_t iter__dataset_id(const iter_loader *loader) {
    const iter_description *desc = &loader->dataset->desc;
    uint64_t id = iter__fnv1a_u64(iter__fnv1a_u64(ITER_FNV_START, desc->identity), desc->n_samples);
    for (int32_t f = 0; f < desc->n_fields; f++) {
        const iter_field *field = &desc->fields[f];
        id = iter__fnv1a_text(id, field->name);
        id = iter__fnv1a_u64(id, (uint64_t)field->desc.dtype);
        for (int32_t d = 0; d < field->desc.n_dims; d++)
            id = iter__fnv1a_u64(id, (uint64_t)field->desc.dims[d]);
    }
    return id;
}

uint64_t iter__chain_id(const iter_loader *loader) {
    return iter__fnv1a_text(ITER_FNV_START, loader->chain ? iter_chain_text(loader->chain) : "");
}

/* At a place: position is t under roll_over. */
static void identify(const iter_loader *loader, uint32_t epoch, uint64_t position,
                     uint64_t ids[ID_COUNT]) {
    const iter_sampler_ops *sampler = loader->sampling.ops;
    ids[ID_DATASET] = iter__dataset_id(loader);
    ids[ID_CHAIN] = iter__chain_id(loader);
    ids[ID_SAMPLER] = loader->sampling.id;
    if (sampler->history) {
        const bool rolls = loader->cut.last_batch == ITER_LAST_ROLL_OVER;
        const uint64_t past = sampler->history(loader->sampling.state, rolls ? 0 : epoch, position);
        ids[ID_SAMPLER] = iter__fnv1a_u64(ids[ID_SAMPLER], past);
    }
    ids[ID_SEED] = loader->opt.seed;
    ids[ID_ROLL_OVER] = loader->cut.last_batch == ITER_LAST_ROLL_OVER;
}

/* ---- Save ------------------------------------------------------------------------------------ */

static iter_status save_locked(iter_loader *loader, uint8_t *out, size_t capacity, size_t *out_size,
                               iter_error *err) {
    const size_t size = sizeof(saved) + loader->consumer.sampler_at_bytes + sizeof(uint64_t);
    *out_size = size;
    if (!out && capacity == 0) return ITER_OK;
    if (!out || capacity < size) {
        return iter__fail(err, ITER_EINVAL, "save: expected room for %zu bytes, got %zu", size,
                          capacity);
    }
    saved s = {.sample = loader->consumer.position.sample,
               .global_batch = loader->cut.global,
               .number = loader->consumer.number,
               .epoch = loader->consumer.position.epoch,
               .ended = loader->consumer.position.ended || loader->consumer.ended,
               .sampler_bytes = (uint32_t)loader->consumer.sampler_at_bytes};
    memcpy(s.magic, magic, sizeof(magic));
    identify(loader, s.epoch, s.sample, s.ids);
    memcpy(out, &s, sizeof(s));
    memcpy(out + sizeof(s), loader->consumer.sampler_at, loader->consumer.sampler_at_bytes);
    const uint64_t sum = iter__fnv1a(ITER_FNV_START, out, size - sizeof(sum));
    memcpy(out + size - sizeof(sum), &sum, sizeof(sum));
    return ITER_OK;
}

iter_status iter_loader_save(iter_loader *loader, void *out, size_t capacity, size_t *out_size,
                             iter_error *err) {
    *out_size = 0;
    ITER_TRY(iter__check_alive(loader, err)); /* also after a cancel: preemption saves then */
    pthread_mutex_lock(&loader->lock);
    const iter_status status = save_locked(loader, out, capacity, out_size, err);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* ---- Restore --------------------------------------------------------------------------------- */

static iter_status parse(const uint8_t *bytes, size_t size, saved *out, iter_error *err) {
    if (!bytes || size < sizeof(saved) + sizeof(uint64_t)) {
        return iter__fail(err, ITER_EFORMAT, "restore: %zu bytes are too few for a position", size);
    }
    memcpy(out, bytes, sizeof(*out));
    if (memcmp(out->magic, magic, sizeof(magic)) != 0) {
        return iter__fail(err, ITER_EFORMAT, "restore: these bytes are not a saved position");
    }
    if (out->sampler_bytes > ITER_SAMPLER_BLOB ||
        size != sizeof(saved) + out->sampler_bytes + sizeof(uint64_t)) {
        return iter__fail(
            err, ITER_EFORMAT,
            "restore: the position is damaged (its header does not fit its %zu bytes)", size);
    }
    uint64_t sum;
    memcpy(&sum, bytes + size - sizeof(sum), sizeof(sum));
    if (sum != iter__fnv1a(ITER_FNV_START, bytes, size - sizeof(sum)) || out->ended > 1) {
        return iter__fail(err, ITER_EFORMAT,
                          "restore: the position is damaged (its checksum is wrong)");
    }
    if (out->reserved != 0)
        return iter__fail(err, ITER_EFORMAT, "restore: the position is of a later version");
    return ITER_OK;
}

/* Checks that the position was saved with the same data, and finds its place in this loader. */
static iter_status find_place(iter_loader *loader, const saved *s, iter__cursor *out,
                              iter_error *err) {
    uint64_t ids[ID_COUNT];
    identify(loader, s->epoch, s->sample, ids);
    for (int k = 0; k < ID_COUNT; k++) {
        const int i = refusals[k];
        if (ids[i] == s->ids[i]) continue;
        return iter__fail(err, ITER_EINVAL, "restore: the position was saved with another %s",
                          id_names[i]);
    }
    return iter__cut_place(&loader->cut, s->epoch, s->sample, s->ended, out, err);
}

iter_status iter_loader_restore(iter_loader *loader, const void *bytes, size_t size,
                                iter_error *err) {
    saved s;
    ITER_TRY(iter__check_call(loader, err));
    ITER_TRY(parse(bytes, size, &s, err));
    iter__place place = {.number = s.number,
                         .global_batch = s.global_batch,
                         .state = (const uint8_t *)bytes + sizeof(s),
                         .state_bytes = s.sampler_bytes};
    ITER_TRY(find_place(loader, &s, &place.at, err));
    return loader->sampling.order->restore(loader, &place, err);
}

/* ---- Seek ------------------------------------------------------------------------------------ */

static iter_status seek_locked(iter_loader *loader, uint32_t epoch, uint64_t sample,
                               iter_error *err) {
    if (!loader->sampling.order->by_position && sample != 0) {
        return iter__fail(err, ITER_EINVAL, "seek: %s can only go to an epoch's beginning",
                          loader->sampling.order->is_stream ? "a stream"
                                                            : loader->sampling.ops->base.name);
    }
    iter__cursor cursor;
    uint64_t at = sample;
    if (loader->cut.last_batch == ITER_LAST_ROLL_OVER) {
        uint64_t before;
        if (__builtin_mul_overflow(epoch, loader->cut.n, &before) ||
            __builtin_add_overflow(at, before, &at)) {
            return iter__fail(err, ITER_EINVAL, "seek: epoch %u is out of reach: %llu samples each",
                              epoch, (unsigned long long)loader->cut.n);
        }
    }
    ITER_TRY(iter__cut_place(&loader->cut, epoch, at, false, &cursor, err));
    iter__loader_go(loader, &cursor, 0);
    return ITER_OK;
}

iter_status iter_loader_seek(iter_loader *loader, uint32_t epoch, uint64_t sample,
                             iter_error *err) {
    ITER_TRY(iter__check_call(loader, err));
    pthread_mutex_lock(&loader->lock);
    const iter_status status = seek_locked(loader, epoch, sample, err);
    pthread_mutex_unlock(&loader->lock);
    return status;
}
