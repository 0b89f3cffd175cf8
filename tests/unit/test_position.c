/*
 * test_position.c - save and restore: what follows a restored position is what followed the saved
 * one, for any batch size and number of ranks that it is legal for. If a position is illegal,
 * foreign or damaged, it is refused with the reason.
 *
 * The reference is the order itself, from a loader that was never interrupted and delivers one row
 * at a time.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <iter/iter.h>

#include "tests/support/own_dataset.h"

TestSuite(position, .timeout = 120);

enum { N = 23, EPOCHS = 3 };

typedef struct blob {
    char bytes[1024];
    size_t size;
} blob;

static int32_t numbers[70000];

static iter_array numbers_array(int64_t n) {
    for (int i = 0; i < 70000; i++)
        numbers[i] = i;
    return (iter_array){
        .role = ITER_DATA, .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {n}}, .data = numbers};
}

static iter_loader_options options(const char *sampler, uint32_t batch_size, int32_t last_batch) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = batch_size;
    opt.last_batch = last_batch;
    opt.sampler.spec = sampler;
    opt.seed = 5;
    opt.memory.limit = 64 << 20;
    return opt;
}

static iter_loader *make_n(int64_t n, iter_chain *chain, const iter_loader_options *opt) {
    const iter_array array = numbers_array(n);
    iter_error err;
    iter_loader *loader;
    cr_assert_eq(iter_ndarray_create(&array, 1, chain, opt, &loader, &err), ITER_OK, "%s",
                 err.message);
    return loader;
}

static iter_loader *make(const iter_loader_options *opt) {
    return make_n(N, NULL, opt);
}

static blob save(iter_loader *loader) {
    blob out;
    iter_error err;
    cr_assert_eq(iter_loader_save(loader, out.bytes, sizeof(out.bytes), &out.size, &err), ITER_OK,
                 "%s", err.message);
    return out;
}

static void restore(iter_loader *loader, const blob *at) {
    iter_error err;
    cr_assert_eq(iter_loader_restore(loader, at->bytes, at->size, &err), ITER_OK, "%s",
                 err.message);
}

static void refuse(iter_loader *loader, const blob *at, iter_status want, const char *part) {
    iter_error err = {.status = ITER_OK};
    const iter_status s = iter_loader_restore(loader, at->bytes, at->size, &err);
    cr_assert_eq(s, want, "got %s: %s", iter_status_text(s), err.message);
    cr_assert_eq(err.status, want);
    cr_assert(strstr(err.message, part), "\"%s\" does not say \"%s\"", err.message, part);
}

static iter_status next(iter_loader *loader, iter_batch **out) {
    iter_error err;
    const iter_status s = iter_loader_next(loader, out, &err);
    cr_assert_geq(s, 0, "%s", err.message);
    return s;
}

/* ---- The order, one row at a time ------------------------------------------------------------ */

static void read_order(const iter_loader_options *like, uint64_t order[EPOCHS + 1][N]) {
    iter_loader_options opt = *like;
    opt.batch_size = 1;
    opt.last_batch = ITER_LAST_KEEP;
    opt.rank = opt.ranks = 0;
    iter_loader *loader = make(&opt);
    for (int e = 0; e <= EPOCHS; e++) {
        iter_batch *batch;
        for (int i = 0; next(loader, &batch) == ITER_OK; i++) {
            order[e][i] = iter_batch_index(batch)[0];
            iter_batch_unref(batch);
        }
        cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
    }
    iter_loader_unref(loader);
}

/* Each of `loaders` is at (epoch, sample): their batches together must be the order from there to
 * the epoch's end, and then the whole next epoch. */
static void follow(iter_loader **loaders, uint32_t ranks, uint32_t epoch, uint64_t sample,
                   uint64_t order[EPOCHS + 1][N]) {
    for (uint32_t e = epoch; e <= epoch + 1 && e <= EPOCHS; e++) {
        uint64_t at = e == epoch ? sample : 0;
        for (;;) {
            uint32_t n_ok = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                iter_batch *batch;
                if (next(loaders[r], &batch) == ITER_END) continue;
                n_ok++;
                const iter_batch_info info = iter_batch_describe(batch);
                const int32_t *rows = iter_batch_tensor(batch, 0)->data;
                cr_assert_eq(info.epoch, e);
                for (uint32_t i = 0; i < info.n_rows; i++, at++) {
                    cr_assert_eq(iter_batch_position(batch)[i], at);
                    cr_assert_eq(iter_batch_index(batch)[i], order[e][at]);
                    cr_assert_eq(rows[i], (int32_t)order[e][at]);
                }
                iter_batch_unref(batch);
            }
            cr_assert(n_ok == 0 || n_ok == ranks, "ranks out of step");
            if (n_ok == 0) break;
        }
        cr_assert_eq(at, N);
        for (uint32_t r = 0; r < ranks; r++)
            cr_assert_eq(iter_loader_reset(loaders[r], NULL), ITER_OK);
    }
}

static void restore_elsewhere(const iter_loader_options *like, const blob *at, uint32_t epoch,
                              uint64_t sample, bool ended, uint64_t order[EPOCHS + 1][N]) {
    static const uint32_t shapes[][2] = {{1, 1}, {4, 1}, {5, 1}, {8, 1}, {2, 2}, {2, 3}, {64, 1}};
    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        const uint32_t ranks = shapes[k][1], global = shapes[k][0] * ranks;
        iter_loader *loaders[3];
        for (uint32_t r = 0; r < ranks; r++) {
            iter_loader_options opt = *like;
            opt.batch_size = shapes[k][0];
            opt.rank = r;
            opt.ranks = ranks;
            opt.workers = (int32_t)(k % 3);
            loaders[r] = make(&opt);
            iter_batch *batch;
            if (k & 1) { /* not a fresh one */
                cr_assert_eq(next(loaders[r], &batch), ITER_OK);
                iter_batch_unref(batch);
            }
            if (!ended && sample % global != 0) {
                char nearest[64];
                const uint64_t below = sample / global * global, above = below + global;
                snprintf(nearest, sizeof(nearest), "nearest is %llu",
                         (unsigned long long)(above <= N && above - sample < sample - below
                                                  ? above
                                                  : below));
                refuse(loaders[r], at, ITER_EINVAL, nearest);
                continue;
            }
            restore(loaders[r], at);
            uint32_t e;
            uint64_t s;
            iter_loader_position(loaders[r], &e, &s);
            cr_assert(e == epoch && s == sample);
        }
        if (ended || sample % global == 0) follow(loaders, ranks, epoch, ended ? N : sample, order);
        for (uint32_t r = 0; r < ranks; r++)
            iter_loader_unref(loaders[r]);
    }
}

static void every_position(const char *sampler) {
    static uint64_t order[EPOCHS + 1][N];
    const iter_loader_options opt = options(sampler, 4, ITER_LAST_KEEP);
    read_order(&opt, order);
    iter_loader *loader = make(&opt);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        for (uint64_t sample = 0;;) {
            const blob at = save(loader);
            restore_elsewhere(&opt, &at, e, sample, sample == N, order);
            iter_batch *batch;
            if (next(loader, &batch) == ITER_END) break;
            sample = sample + 4 < N ? sample + 4 : N;
            iter_batch_unref(batch);
        }
        const blob at = save(loader); /* END came */
        restore_elsewhere(&opt, &at, e, N, true, order);
        cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
    }
    iter_loader_unref(loader);
}

Test(position, sequential) {
    every_position("sequential");
}
Test(position, shuffle) {
    every_position("shuffle");
}
Test(position, once) {
    every_position("once");
}
Test(position, block) {
    every_position("block:block=4,buffer=2");
}
Test(position, batch_level) {
    every_position("batch:unit=3");
}
Test(position, replacement) {
    every_position("replacement");
}

/* ---- Anything that changes the order binds the position -------------------------------------- */

/* Delivers the samples in runs of batch_size, the last run first, though no option shows that. */
typedef struct turned {
    uint64_t n, unit;
} turned;

static iter_status turned_open(void *state, const void *options,
                               const iter_sampler_context *context, iter_error *err) {
    (void)options, (void)err;
    *(turned *)state = (turned){context->n_samples, context->batch_size};
    return ITER_OK;
}

static uint64_t turned_length(const void *state) {
    return ((const turned *)state)->n;
}

static void turned_index(void *state, uint32_t epoch, uint64_t position, uint32_t n,
                         uint64_t *out) {
    const turned *t = state;
    (void)epoch;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t first = (position + i) / t->unit * t->unit,
                       last = first + t->unit < t->n ? first + t->unit : t->n;
        out[i] = last - 1 - (position + i - first);
    }
}

static const iter_sampler_ops turned_ops = {.base = {.struct_size = sizeof(iter_sampler_ops),
                                                     .name = "turned",
                                                     .state_size = sizeof(turned)},
                                            .open = turned_open,
                                            .length = turned_length,
                                            .index = turned_index};

typedef struct ordered {
    const char *sampler; /* NULL = turned_ops */
    uint32_t batch_size, block, buffer;
    int32_t shuffle;
} ordered;

static iter_loader *make_ordered(const ordered *how) {
    iter_loader_options opt = options(how->sampler, how->batch_size, ITER_LAST_KEEP);
    opt.shuffle = how->shuffle;
    opt.sampler.block = how->block;
    opt.sampler.buffer_blocks = how->buffer;
    if (how->shuffle < 0) {
        opt.shuffle = 0;
        opt.sampler.ops = &turned_ops;
    }
    return make_n(96, NULL, &opt);
}

/* The rest of the epoch, as a set: how often each sample came. */
static void count_rest(iter_loader *loader, int seen[96]) {
    iter_batch *batch;
    while (next(loader, &batch) == ITER_OK) {
        for (uint32_t r = 0; r < iter_batch_describe(batch).n_rows; r++)
            seen[iter_batch_index(batch)[r]]++;
        iter_batch_unref(batch);
    }
}

/* One loader saves in mid-epoch, another restores: it refuses, or both together deliver one epoch
 * of the first. */
Test(position, another_order_is_refused) {
    static const ordered all[] = {
        {"sequential", 8, 0, 0, 0},
        {"shuffle", 8, 0, 0, 0},
        {"shuffle", 16, 0, 0, 0},
        {"once", 8, 0, 0, 0},
        {"batch", 8, 0, 0, 0},
        {"batch", 16, 0, 0, 0},
        {"batch:unit=8", 16, 0, 0, 0},
        {"batch:unit=16", 8, 0, 0, 0},
        {"block", 8, 0, 0, 0},
        {"block:block=16", 8, 0, 0, 0},
        {"block:block=16,buffer=2", 8, 0, 0, 0},
        {"block:block=8,buffer=2", 16, 0, 0, 0},
        {"replacement", 8, 0, 0, 0},
        {"replacement:samples=80", 16, 0, 0, 0},
        {NULL, 8, 0, 0, ITER_SHUFFLE_BATCH},
        {NULL, 16, 0, 0, ITER_SHUFFLE_BATCH},
        {NULL, 8, 16, 0, ITER_SHUFFLE_BATCH},
        {NULL, 8, 16, 2, ITER_SHUFFLE_BLOCK},
        {NULL, 16, 8, 2, ITER_SHUFFLE_BLOCK},
        {NULL, 8, 0, 0, -1},
        {NULL, 16, 0, 0, -1},
    };
    const size_t n = sizeof(all) / sizeof(all[0]);
    size_t n_accepted = 0;
    for (size_t from = 0; from < n; from++) {
        iter_loader *first = make_ordered(&all[from]);
        int whole[96] = {0};
        count_rest(first, whole);
        cr_assert_eq(iter_loader_seek(first, 0, 0, NULL), ITER_OK);
        iter_batch *batch;
        int begun[96] = {0};
        for (uint32_t k = 0; k < 32 / all[from].batch_size; k++) {
            cr_assert_eq(next(first, &batch), ITER_OK);
            for (uint32_t r = 0; r < all[from].batch_size; r++)
                begun[iter_batch_index(batch)[r]]++;
            iter_batch_unref(batch);
        }
        const blob at = save(first);
        iter_loader_unref(first);
        for (size_t to = 0; to < n; to++) {
            iter_loader *second = make_ordered(&all[to]);
            iter_error err;
            if (iter_loader_restore(second, at.bytes, at.size, &err) == ITER_OK) {
                int seen[96];
                memcpy(seen, begun, sizeof(seen));
                count_rest(second, seen);
                cr_assert_arr_eq(seen, whole, sizeof(seen), "case %zu restored by case %zu", from,
                                 to);
                n_accepted++;
            }
            iter_loader_unref(second);
        }
    }
    cr_assert_geq(n_accepted, n); /* each loader accepts its own positions */
}

/* If `unit` defaults to batch_size, the position is bound to the resulting number. */
Test(position, a_default_is_resolved) {
    const ordered saving = {"batch", 16, 0, 0, 0}, same = {"batch:unit=16", 8, 0, 0, 0},
                  other = {"batch", 8, 0, 0, 0};
    iter_loader *first = make_ordered(&saving), *second = make_ordered(&same),
                *third = make_ordered(&other);
    const blob at = save(first);
    restore(second, &at);
    refuse(third, &at, ITER_EINVAL, "another sampler");
    iter_loader_unref(first);
    iter_loader_unref(second);
    iter_loader_unref(third);
}

/* ---- roll_over: the position is t alone ------------------------------------------------------ */

/* Collects (row epoch, position) of `count` batches, over END and reset. */
static void collect(iter_loader *loader, int count, uint64_t *out) {
    int at = 0;
    for (int b = 0; b < count;) {
        iter_batch *batch;
        if (next(loader, &batch) == ITER_END) {
            cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
            continue;
        }
        for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++) {
            out[at++] =
                (uint64_t)iter_batch_row_epoch(batch)[i] * N + iter_batch_position(batch)[i];
            cr_assert_eq(((const int32_t *)iter_batch_tensor(batch, 0)->data)[i],
                         (int32_t)iter_batch_index(batch)[i]);
        }
        iter_batch_unref(batch);
        b++;
    }
}

Test(position, roll_over) {
    const iter_loader_options opt = options("shuffle", 4, ITER_LAST_ROLL_OVER);
    iter_loader *loader = make(&opt);
    uint64_t t = 0, rows[64];
    for (int step = 0; step < 40; step++) {
        const blob at = save(loader);
        for (uint32_t other = 1; other <= 64; other *= 2) {
            iter_loader_options second = opt;
            second.batch_size = other;
            iter_loader *copy = make(&second);
            if (t % other) {
                refuse(copy, &at, ITER_EINVAL, "nearest is ");
            } else {
                restore(copy, &at);
                const int n = other > 8 ? 1 : 8 / (int)other;
                collect(copy, n, rows);
                for (uint32_t i = 0; i < (uint32_t)n * other; i++)
                    cr_assert_eq(rows[i], t + i);
            }
            iter_loader_unref(copy);
        }
        iter_batch *batch;
        if (next(loader, &batch) == ITER_END) {
            cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
            continue;
        }
        t += 4;
        iter_batch_unref(batch);
    }
    cr_assert_gt(t, 3 * N);
    iter_loader_unref(loader);
}

/* ---- Ended positions ------------------------------------------------------------------------- */

Test(position, ended_elsewhere) {
    const int32_t modes[] = {ITER_LAST_KEEP, ITER_LAST_PAD, ITER_LAST_DISCARD};
    for (int from = 0; from < 3; from++) {
        for (int answered = 0; answered < 2; answered++) {
            const iter_loader_options opt = options("shuffle", 4, modes[from]);
            iter_loader *loader = make(&opt);
            iter_batch *batch;
            const uint64_t n = iter_loader_n_batches(loader);
            for (uint64_t b = 0; b < n; b++) {
                cr_assert_eq(next(loader, &batch), ITER_OK);
                iter_batch_unref(batch);
            }
            if (answered) cr_assert_eq(next(loader, &batch), ITER_END);
            const blob at = save(loader);
            iter_loader_unref(loader);
            for (int to = 0; to < 3; to++) {
                for (uint32_t size = 1; size < 30; size += 4) {
                    const iter_loader_options second = options("shuffle", size, modes[to]);
                    loader = make(&second);
                    restore(loader, &at);
                    for (int i = 0; i < 2 * (int)(size & 1 ? size % 3 : 1); i++)
                        cr_assert_eq(next(loader, &batch), ITER_END);
                    /* with or without calling next() first */
                    cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
                    uint32_t e;
                    uint64_t s;
                    iter_loader_position(loader, &e, &s);
                    cr_assert(e == 1 && s == 0);
                    const bool any = modes[to] != ITER_LAST_DISCARD || size <= N;
                    cr_assert_eq(next(loader, &batch), any ? ITER_OK : ITER_END);
                    if (any) {
                        cr_assert_eq(iter_batch_describe(batch).epoch, 1);
                        cr_assert_eq(iter_batch_describe(batch).number, 0);
                        iter_batch_unref(batch);
                    }
                    iter_loader_unref(loader);
                }
            }
        }
    }
}

/* ---- reset() and held batches, around restore() ---------------------------------------------- */

Test(position, reset_after_restore) {
    const iter_loader_options opt = options("shuffle", 4, ITER_LAST_KEEP);
    iter_loader *loader = make(&opt);
    const blob start = save(loader);
    iter_batch *batch;
    cr_assert_eq(next(loader, &batch), ITER_OK);
    const blob middle = save(loader);
    int32_t before[4];
    memcpy(before, iter_batch_tensor(batch, 0)->data, sizeof(before));
    uint32_t e;
    uint64_t s;
    restore(loader, &start);
    /* no batch of the epoch was taken: does nothing */
    cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
    iter_loader_position(loader, &e, &s);
    cr_assert(e == 0 && s == 0, "epoch %u, sample %llu", e, (unsigned long long)s);
    restore(loader, &middle);
    cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK); /* drops the rest of the epoch */
    iter_loader_position(loader, &e, &s);
    cr_assert(e == 1 && s == 0);
    cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
    iter_loader_position(loader, &e, &s);
    cr_assert(e == 1 && s == 0);
    /* held all the time */
    cr_assert_eq(memcmp(before, iter_batch_tensor(batch, 0)->data, sizeof(before)), 0);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

Test(position, beyond_the_last_epoch) {
    iter_loader_options opt = options("shuffle", 4, ITER_LAST_KEEP);
    iter_loader *loader = make(&opt);
    cr_assert_eq(iter_loader_seek(loader, 5, 8, NULL), ITER_OK);
    const blob at = save(loader);
    iter_loader_unref(loader);
    opt.epochs = 5;
    loader = make(&opt);
    restore(loader, &at);
    iter_batch *batch;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(next(loader, &batch), ITER_END);
        cr_assert_eq(iter_loader_reset(loader, NULL), ITER_END);
    }
    cr_assert_eq(iter_loader_seek(loader, 4, 20, NULL), ITER_OK); /* and back */
    cr_assert_eq(next(loader, &batch), ITER_OK);
    iter_batch_unref(batch);
    cr_assert_eq(next(loader, &batch), ITER_END);
    cr_assert_eq(iter_loader_reset(loader, NULL), ITER_END);
    iter_loader_unref(loader);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

Test(position, says_what_differs) {
    const iter_loader_options opt = options("shuffle", 4, ITER_LAST_KEEP);
    iter_loader *loader = make(&opt), *other;
    const blob at = save(loader);

    other = make_n(N + 1, NULL, &opt);
    refuse(other, &at, ITER_EINVAL, "another dataset");
    iter_loader_unref(other);

    iter_chain *chain;
    cr_assert_eq(iter_chain_parse("to:f32", NULL, &chain, NULL), ITER_OK);
    other = make_n(N, chain, &opt);
    refuse(other, &at, ITER_EINVAL, "another chain");
    iter_loader_unref(other);
    iter_chain_unref(chain);

    iter_loader_options second = opt;
    second.sampler.spec = "once";
    other = make(&second);
    refuse(other, &at, ITER_EINVAL, "another sampler");
    iter_loader_unref(other);

    second = opt;
    second.seed++;
    other = make(&second);
    refuse(other, &at, ITER_EINVAL, "another seed");
    iter_loader_unref(other);

    second = opt;
    second.last_batch = ITER_LAST_ROLL_OVER;
    other = make(&second);
    refuse(other, &at, ITER_EINVAL, "roll_over");
    iter_loader_unref(other);

    uint64_t few[N];
    for (int i = 0; i < N; i++)
        few[i] = (uint64_t)i;
    second = opt;
    second.sampler.subset = few;
    second.sampler.n_subset = N;
    other = make(&second);
    refuse(other, &at, ITER_EINVAL, "another sampler");
    iter_loader_unref(other);

    second = opt; /* these may differ */
    second.workers = 2;
    second.prefetch = 7;
    second.max_held = 3;
    second.batch_size = 7;
    second.last_batch = ITER_LAST_DISCARD;
    other = make(&second);
    restore(other, &at);
    iter_loader_unref(other);
    iter_loader_unref(loader);
}

Test(position, damaged) {
    const iter_loader_options opt = options("shuffle", 4, ITER_LAST_KEEP);
    iter_loader *loader = make(&opt);
    iter_batch *batch;
    cr_assert_eq(next(loader, &batch), ITER_OK);
    iter_batch_unref(batch);
    const blob at = save(loader);
    for (size_t i = 0; i < at.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            blob bad = at;
            bad.bytes[i] = (char)(bad.bytes[i] ^ 1 << bit);
            refuse(loader, &bad, ITER_EFORMAT, "restore: ");
        }
    }
    for (size_t size = 0; size < at.size + 20; size++) {
        blob bad = at;
        memset(bad.bytes + at.size, 0, 20);
        bad.size = size;
        if (size != at.size) refuse(loader, &bad, ITER_EFORMAT, "restore: ");
    }
    iter_error err;
    cr_assert_eq(iter_loader_restore(loader, NULL, 0, &err), ITER_EFORMAT);
    cr_assert_eq(iter_loader_restore(loader, NULL, 500, &err), ITER_EFORMAT);
    size_t size = 7;
    cr_assert_eq(iter_loader_save(loader, NULL, 0, &size, &err), ITER_OK);
    cr_assert_eq(size, at.size);
    char small[8];
    cr_assert_eq(iter_loader_save(loader, small, sizeof(small), &size, &err), ITER_EINVAL);
    cr_assert_eq(size, at.size);
    uint32_t e; /* refused positions change nothing */
    uint64_t s;
    iter_loader_position(loader, &e, &s);
    cr_assert(e == 0 && s == 4);
    cr_assert_eq(next(loader, &batch), ITER_OK);
    cr_assert_eq(iter_batch_position(batch)[0], 4);
    iter_batch_unref(batch);
    iter_loader_unref(loader);
}

/* ---- seek ------------------------------------------------------------------------------------ */

Test(position, seek) {
    static uint64_t order[EPOCHS + 1][N];
    const iter_loader_options opt = options("shuffle", 4, ITER_LAST_KEEP);
    read_order(&opt, order);
    iter_loader *loader = make(&opt);
    for (uint32_t e = 0; e < EPOCHS; e++) {
        for (uint64_t s = 0; s <= N + 4; s++) {
            iter_error err;
            const iter_status got = iter_loader_seek(loader, e, s, &err);
            if (s <= N && s % 4 == 0) {
                cr_assert_eq(got, ITER_OK, "%s", err.message);
                follow(&loader, 1, e, s, order);
            } else {
                cr_assert_eq(got, ITER_EINVAL);
                cr_assert(strstr(err.message, "nearest is "), "%s", err.message);
            }
        }
    }
    iter_loader_unref(loader);
    const iter_loader_options rolling = options("shuffle", 4, ITER_LAST_ROLL_OVER);
    loader = make(&rolling);
    for (uint32_t e = 0; e < 8; e++) {
        for (uint64_t s = 0; s < N; s++) {
            iter_error err;
            const uint64_t t = e * N + s;
            cr_assert_eq(iter_loader_seek(loader, e, s, &err), t % 4 ? ITER_EINVAL : ITER_OK, "%s",
                         err.message);
            uint64_t rows[4];
            if (t % 4) continue;
            collect(loader, 1, rows);
            for (int i = 0; i < 4; i++)
                cr_assert_eq(rows[i], t + (uint64_t)i);
        }
    }
    iter_loader_unref(loader);
}

/* ---- Far away -------------------------------------------------------------------------------- */

static double ms_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

Test(position, far) {
    const int32_t modes[] = {ITER_LAST_KEEP, ITER_LAST_ROLL_OVER};
    for (int m = 0; m < 2; m++) {
        iter_loader_options opt = options("shuffle", 32, modes[m]);
        iter_loader *loader = make_n(60000, NULL, &opt);
        iter_error err;
        cr_assert_eq(iter_loader_seek(loader, 1000000, 60000 - 32, &err), ITER_OK, "%s",
                     err.message);
        const blob at = save(loader);
        iter_batch *batch;
        uint64_t want[32];
        cr_assert_eq(next(loader, &batch), ITER_OK);
        memcpy(want, iter_batch_index(batch), sizeof(want));
        cr_assert_eq(iter_batch_describe(batch).epoch, 1000000);
        cr_assert_eq(iter_batch_describe(batch).number, 1874);
        iter_batch_unref(batch);
        iter_loader_unref(loader);
        opt.workers = 1;
        loader = make_n(60000, NULL, &opt);
        double best = 1e9;
        for (int i = 0; i < 20; i++) {
            const double start = ms_now();
            restore(loader, &at);
            const double took = ms_now() - start;
            if (took < best) best = took;
            cr_assert_eq(next(loader, &batch), ITER_OK);
            cr_assert_eq(memcmp(want, iter_batch_index(batch), sizeof(want)), 0);
            iter_batch_unref(batch);
            cr_assert_eq(next(loader, &batch), ITER_END);
        }
        /* a loop over the epochs would take seconds */
        cr_assert_lt(best, 20.0, "restoring takes %.3f ms", best);
        cr_assert_eq(iter_loader_reset(loader, &err), ITER_OK);
        cr_assert_eq(next(loader, &batch), ITER_OK);
        cr_assert_eq(iter_batch_describe(batch).epoch, 1000001);
        iter_batch_unref(batch);
        iter_loader_unref(loader);
    }
}

/* ---- Samplers that draw batch after batch ---------------------------------------------------- */

static int64_t length(const void *user, uint64_t index) {
    (void)user;
    return (int64_t)(index % 5) + 1;
}

/* Takes one batch, or END and resets, and appends it as text. */
static void describe_step(iter_loader *loader, char *out) {
    iter_batch *batch;
    if (next(loader, &batch) == ITER_END) {
        strcat(out, "END ");
        cr_assert_eq(iter_loader_reset(loader, NULL), ITER_OK);
        return;
    }
    for (uint32_t i = 0; i < iter_batch_describe(batch).n_rows; i++)
        sprintf(out + strlen(out), "%llu ", (unsigned long long)iter_batch_index(batch)[i]);
    sprintf(out + strlen(out), "(%llu) ", (unsigned long long)iter_batch_describe(batch).number);
    iter_batch_unref(batch);
}

enum { STEPS = 40, FURTHER = 30 }; /* of 17 batches and an END an epoch */

static iter_sampler_ops forgetful; /* bucket, without save and restore */

static void sequential_sampler(bool forgets) {
    forgetful = *iter_registry_sampler(NULL, "bucket");
    forgetful.save = NULL;
    forgetful.restore = NULL;
    static iter_dataset_ops ops;
    ops = own_ops;
    ops.length = length;
    own_dataset own = {.n = 57, .variable = true};
    iter_dataset *data = own_open(&own, &ops);
    iter_chain *chain;
    cr_assert_eq(iter_chain_parse("pad-batch", NULL, &chain, NULL), ITER_OK);
    iter_loader_options opt = options(forgets ? NULL : "bucket:buckets=1;3;4", 4, ITER_LAST_KEEP);
    if (forgets) opt.sampler.ops = &forgetful;
    iter_loader *loader, *copy;
    cr_assert_eq(iter_dataloader_create(data, chain, &opt, &loader, NULL), ITER_OK);
    static char all[16384], got[16384]; /* `all`: the run of a loader that is never interrupted */
    size_t from[STEPS + FURTHER + 1];
    all[0] = 0;
    cr_assert_eq(iter_dataloader_create(data, chain, &opt, &copy, NULL), ITER_OK);
    for (int step = 0; step < STEPS + FURTHER; step++) {
        from[step] = strlen(all);
        describe_step(copy, all);
    }
    iter_loader_unref(copy);
    for (int step = 0; step < STEPS; step++) {
        const blob at = save(loader);
        iter_loader_options second = opt;
        second.workers = step % 3;
        cr_assert_eq(iter_dataloader_create(data, chain, &second, &copy, NULL), ITER_OK);
        restore(copy, &at);
        const blob again = save(copy);
        cr_assert(again.size == at.size && memcmp(again.bytes, at.bytes, at.size) == 0);
        got[0] = 0;
        for (int i = 0; i < FURTHER; i++)
            describe_step(copy, got);
        cr_assert_eq(strncmp(all + from[step], got, strlen(got)), 0,
                     "step %d: %.60s ... instead of %.60s ...", step, got, all + from[step]);
        iter_loader_stats stats = {.struct_size = sizeof(stats)};
        cr_assert_eq(iter_loader_stats_read(copy, &stats, NULL), ITER_OK);
        if (step == 2) cr_assert_eq(stats.n_fallbacks > 0, forgets, "%s", stats.fallbacks[0]);
        iter_loader_unref(copy);
        got[0] = 0;
        describe_step(loader, got);
        if (step != 2) continue;
        second.batch_size = 8;
        cr_assert_eq(iter_dataloader_create(data, chain, &second, &copy, NULL), ITER_OK);
        refuse(copy, &at, ITER_EINVAL, "same batch_size");
        iter_loader_unref(copy);
    }
    uint32_t e;
    uint64_t s;
    iter_loader_position(loader, &e, &s);
    cr_assert_geq(e, 1);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
}

Test(position, bucket) {
    sequential_sampler(false);
}
Test(position, replayed) {
    sequential_sampler(true);
}
