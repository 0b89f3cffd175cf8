/* chaos_case.c - see chaos_case.h. */
#include "tests/support/chaos_case.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/drive.h"
#include "tests/support/expect.h"

/* ---- Hashes ---------------------------------------------------------------------------------- */

static uint64_t fnv(uint64_t hash, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (; n >= 8; n -= 8, p += 8) { /* eight at a time: batches are hashed more than once */
        uint64_t word;
        memcpy(&word, p, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    for (; n; n--)
        hash = (hash ^ *p++) * 0x100000001b3u;
    return hash;
}

/* Hashes element by element if the tensor is not dense. */
static uint64_t hash_strided(uint64_t hash, const iter_tensor *t, int32_t dim, int64_t offset) {
    const size_t bytes = iter_dtype_bytes(t->desc.dtype);
    if (dim == t->desc.n_dims)
        return fnv(hash, (const uint8_t *)t->data + (size_t)offset * bytes, bytes);
    for (int64_t i = 0; i < t->desc.dims[dim]; i++)
        hash = hash_strided(hash, t, dim + 1, offset + i * t->strides[dim]);
    return hash;
}

static uint64_t hash_tensor(uint64_t hash, const iter_tensor *t) {
    hash = fnv(hash, &t->desc.dtype, sizeof(t->desc.dtype));
    hash = fnv(hash, t->desc.dims, (size_t)t->desc.n_dims * sizeof(t->desc.dims[0]));
    const iter_tensor dense = iter_tensor_dense(&t->desc, t->data);
    const size_t n = (size_t)t->desc.n_dims * sizeof(t->strides[0]);
    if (memcmp(dense.strides, t->strides, n) != 0) return hash_strided(hash, t, 0, 0);
    return fnv(hash, t->data, iter_desc_bytes(&t->desc));
}

uint64_t chaos_hash(const iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    const uint64_t numbers[] = {info.epoch,       info.number,  info.n_rows,  info.pad,
                                info.first_valid, info.n_valid, info.n_failed};
    uint64_t hash = fnv(0xcbf29ce484222325u, numbers, sizeof(numbers));
    hash = fnv(hash, iter_batch_index(batch), info.n_rows * sizeof(uint64_t));
    hash = fnv(hash, iter_batch_position(batch), info.n_rows * sizeof(uint64_t));
    hash = fnv(hash, iter_batch_row_epoch(batch), info.n_rows * sizeof(uint32_t));
    hash = fnv(hash, iter_batch_valid(batch), info.n_rows);
    for (int32_t f = 0; iter_batch_tensor(batch, f); f++) {
        const int32_t *lengths = iter_batch_lengths(batch, f);
        if (lengths) hash = fnv(hash, lengths, info.n_rows * sizeof(*lengths));
        if (info.n_rows) hash = hash_tensor(hash, iter_batch_tensor(batch, f));
    }
    return hash;
}

uint64_t chaos_hash_error(const iter_error *err) {
    return fnv(0xcbf29ce484222325u, err->message, strlen(err->message));
}

/* ---- A setting ------------------------------------------------------------------------------- */

/* Half of the settings use a part of the samples, in an order of their own. */
static void draw_subset(chaos_case *c, uint64_t n, uint64_t *rng) {
    if (n == ITER_UNKNOWN || chaos_draw(rng, 2)) return;
    const uint64_t most = n < c->set->most_rows ? n : c->set->most_rows;
    c->opt.sampler.n_subset = 1 + chaos_draw(rng, (uint32_t)most);
    c->subset = calloc(c->opt.sampler.n_subset, sizeof(*c->subset));
    if (!c->subset) abort();
    for (uint64_t i = 0; i < c->opt.sampler.n_subset; i++)
        c->subset[i] = chaos_draw(rng, (uint32_t)n);
    c->opt.sampler.subset = c->subset;
}

static void draw_sampler(chaos_case *c, uint64_t *rng) {
    static const char *const named[] = {"block:block=32,buffer=3", "batch:unit=5",
                                        "replacement:samples=150", "once", "shuffle"};
    c->by_position = true;
    if (c->set->has_lengths && chaos_draw(rng, 2)) {
        c->by_position = false;
        snprintf(c->sampler, sizeof(c->sampler), "bucket:n-buckets=%u,shuffle=%u,drop=%u",
                 1 + chaos_draw(rng, 6), chaos_draw(rng, 2), chaos_draw(rng, 2));
    } else if (chaos_draw(rng, 3) == 0) {
        snprintf(c->sampler, sizeof(c->sampler), "%s", named[chaos_draw(rng, 5)]);
    } else {
        c->opt.shuffle = (int32_t)chaos_draw(rng, 6);
        c->opt.sampler.block = 1 + chaos_draw(rng, 40);
        c->opt.sampler.buffer_blocks = 1 + chaos_draw(rng, 5);
    }
}

static void draw_shapes(chaos_case *c, uint64_t *rng) {
    const uint32_t batch = 1 + chaos_draw(rng, c->set->photos ? 12 : 40);
    const bool stream = c->set->how == CHAOS_STREAM;
    const uint32_t ranks = stream || chaos_draw(rng, 2) ? 1 : 2 + chaos_draw(rng, 3);
    c->shapes[0] = (chaos_shape){.batch_size = batch, .ranks = ranks};
    c->shapes[1] = c->shapes[2] = c->shapes[0];
    if (!stream) { /* two shapes of the same global batch, and one with another */
        c->shapes[1] = (chaos_shape){.batch_size = ranks > 1 ? batch * ranks : batch, .ranks = 1};
        c->shapes[2] = (chaos_shape){.batch_size = batch % 2 ? batch * 2 : batch / 2,
                                     .ranks = 1 + chaos_draw(rng, 3)};
    }
    for (int s = 0; s < CHAOS_SHAPES; s++)
        c->shapes[s].rank = chaos_draw(rng, c->shapes[s].ranks);
}

void chaos_case_draw(chaos_case *out, const chaos_set *sets, uint32_t n_sets, uint64_t *rng) {
    memset(out, 0, sizeof(*out));
    pthread_mutex_init(&out->lock, NULL);
    out->set = &sets[chaos_draw(rng, n_sets)];
    iter_loader_options *opt = &out->opt;
    *opt = (iter_loader_options)ITER_LOADER_OPTIONS_INIT;
    uint32_t n_chains = 0;
    while (out->set->chains[n_chains])
        n_chains++;
    out->chain_text = out->set->chains[chaos_draw(rng, n_chains)];
    if (out->chain_text[0]) out->chain = drive_chain(out->chain_text);
    opt->seed = chaos_draw(rng, 1000);
    /* if it were in memory, memory_limit would decide which samples fail */
    opt->reading.max_sample_bytes = 16 << 20;
    iter_dataset *data = chaos_set_open(out->set, false);
    const uint64_t n = data ? iter_dataset_describe(data)->n_samples : 157;
    iter_dataset_unref(data);
    if (out->set->how == CHAOS_STREAM) {
        opt->last_batch = ITER_LAST_KEEP;
    } else {
        draw_subset(out, n, rng);
        draw_sampler(out, rng);
        opt->last_batch = 1 + (int32_t)chaos_draw(rng, 4);
        opt->faults.on_error = (int32_t)chaos_draw(rng, 3);
        if (!out->by_position && opt->faults.on_error == ITER_ON_ERROR_REPLACE)
            opt->faults.on_error = ITER_ON_ERROR_BLANK;
        out->zeros = out->set->plain && chaos_draw(rng, 10) == 0;
    }
    out->rolls = out->by_position && opt->last_batch == ITER_LAST_ROLL_OVER;
    draw_shapes(out, rng);
}

void chaos_case_free(chaos_case *c) {
    iter_chain_unref(c->chain);
    free(c->subset);
    pthread_mutex_destroy(&c->lock);
}

void chaos_case_print(const chaos_case *c, FILE *file) {
    fprintf(file,
            "  setting: %s %s, chain \"%s\", sampler \"%s\", shuffle %d, block %u, buffer %u\n",
            c->set->name, c->set->spec, c->chain_text, c->sampler, c->opt.shuffle,
            c->opt.sampler.block, c->opt.sampler.buffer_blocks);
    fprintf(file, "  seed %llu, last_batch %d, on_error %d, subset of %llu%s; shapes",
            (unsigned long long)c->opt.seed, c->opt.last_batch, c->opt.faults.on_error,
            (unsigned long long)c->opt.sampler.n_subset, c->zeros ? ", source null" : "");
    for (int s = 0; s < CHAOS_SHAPES; s++)
        fprintf(file, " %ux(%u of %u)", c->shapes[s].batch_size, c->shapes[s].rank,
                c->shapes[s].ranks);
    fprintf(file, "\n");
}

/* ---- A plain run ----------------------------------------------------------------------------- */

/* Checks what needs no other run to compare with. */
static void check_plain(const chaos_case *c, const iter_batch *batch) {
    const iter_batch_info info = iter_batch_describe(batch);
    EXPECT(info.first_valid + info.n_valid <= info.n_rows);
    EXPECT(info.n_rows == info.n_valid + info.pad);
    if (!c->chain && c->set->says_itself && !c->zeros) EXPECT_EQ(drive_wrong_rows(batch), 0);
    if (!c->chain && c->set->how == CHAOS_OWN)
        EXPECT_EQ(chaos_own_wrong_rows(batch, c->opt.seed), 0);
    const bool in_order = !c->sampler[0] && c->opt.shuffle == ITER_SHUFFLE_NONE;
    for (uint32_t i = 0; i < info.n_rows && in_order; i++) {
        const uint64_t at = iter_batch_position(batch)[i];
        if (iter_batch_valid(batch)[i] && c->opt.faults.on_error != ITER_ON_ERROR_REPLACE)
            EXPECT_EQ(iter_batch_index(batch)[i], c->subset ? c->subset[at] : at);
    }
}

static void plain_epoch(chaos_case *c, iter_loader *loader, uint32_t most, chaos_epoch *out,
                        void (*beat)(void)) {
    for (;;) {
        iter_error err = {.status = ITER_OK};
        iter_batch *batch;
        if (beat) beat();
        const iter_status s = iter_loader_next(loader, &batch, &err);
        out->whole = s == ITER_END;
        if (s == ITER_END || out->n == most) {
            iter_batch_unref(batch);
            return;
        }
        chaos_batch *b = &out->batches[out->n++];
        b->status = s;
        b->hash = s == ITER_OK ? chaos_hash(batch) : chaos_hash_error(&err);
        if (s == ITER_OK) check_plain(c, batch);
        if (s < 0 && !(c->set->fails && c->opt.faults.on_error == ITER_ON_ERROR_FAIL))
            EXPECT_OK(s, &err);
        iter_loader_position(loader, &b->after_epoch, &b->after_sample);
        iter_batch_unref(batch);
        c->n_plain++;
    }
}

static void plain_run(chaos_case *c, chaos_shape *shape, void (*beat)(void)) {
    iter_error err;
    iter_loader *loader;
    iter_loader_options opt = c->opt;
    opt.batch_size = shape->batch_size;
    opt.rank = shape->rank;
    opt.ranks = shape->ranks;
    opt.local_ranks = 1;
    opt.sampler.spec = c->sampler[0] ? c->sampler : NULL;
    opt.reading.source = c->zeros ? ITER_SOURCE_NULL : ITER_SOURCE_PREAD;
    opt.prefetch = 1;
    iter_dataset *data = chaos_set_open(c->set, false);
    if (!EXPECT_OK(chaos_set_loader(c->set, data, c->chain, &opt, &loader, &err), &err)) exit(1);
    uint32_t most = c->set->most_rows / shape->batch_size + 1;
    if (most > CHAOS_MOST) most = CHAOS_MOST;
    for (uint32_t e = 0; e < CHAOS_EPOCHS; e++) {
        plain_epoch(c, loader, most, &shape->epochs[e], beat);
        EXPECT_OK(iter_loader_reset(loader, &err), &err);
    }
    const uint64_t n = iter_loader_n_samples(loader);
    EXPECT(c->n_samples == 0 || c->n_samples == n); /* shapes differ only in how the epoch is cut */
    if (c->n_samples == 0) c->n_samples = n;
    iter_loader_unref(loader);
    iter_dataset_unref(data);
}

const chaos_shape *chaos_case_expect(chaos_case *c, uint32_t shape, void (*beat)(void)) {
    pthread_mutex_lock(&c->lock);
    if (!c->shapes[shape].known) plain_run(c, &c->shapes[shape], beat);
    c->shapes[shape].known = true;
    pthread_mutex_unlock(&c->lock);
    return &c->shapes[shape];
}

bool chaos_case_sample_of(const chaos_case *c, const chaos_shape *shape, uint32_t epoch,
                          uint32_t number, uint64_t *out) {
    const uint64_t global = (uint64_t)shape->batch_size * shape->ranks;
    *out = number * global;
    if (!c->rolls) return c->by_position || number == 0;
    const uint64_t begin = epoch * c->n_samples; /* the epoch's first batch may begin before it */
    const uint64_t at = (begin / global + number) * global;
    *out = at - begin;
    return at >= begin;
}

bool chaos_case_failed(void) {
    return EXPECT_DONE();
}
