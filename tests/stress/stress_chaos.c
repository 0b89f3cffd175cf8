/*
 * stress_chaos.c - chaos: loaders run in all possible ways while threads and signals interfere.
 * Each batch must be what a plain run delivers.
 *
 *     stress_chaos [seconds [seed [first round [rounds]]]]
 *
 * A round draws a setting (chaos_case.h), which decides what batches contain. A few actors, each a
 * consumer with a random loader, take, hold and release batches, and move about. Each has a pest: a
 * thread that makes all calls that any thread may make, sends signals, cancels and stops. A
 * releaser drops batches late, in another order. In half of the runs the pest moves nothing, so the
 * actor knows which batch must come next, or END. In the others a batch must be right for the place
 * that it names.
 *
 * A watchdog ends the program if a call takes longer than a minute. If ITER_DATA is set, real data
 * are used, too. Long runs: ITER_DATA=... build/tsan/tests/stress_chaos 1800 1. If a round fails, a
 * line says how to run it again.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "tests/support/bounded.h"
#include "tests/support/chaos_run.h"
#include "tests/support/chaos_watch.h"
#include "tests/support/expect.h"
#include "tests/support/source_fault.h"

#define ACTORS_MAX 3
#define BLOBS      24
#define HELD_MAX   12
#define LATE_MAX   64

/* ---- Types ----------------------------------------------------------------------------------- */

/* Where a loader is: after batch `taken` - 1 of the epoch. */
typedef struct place {
    bool known, ended;
    uint32_t epoch, taken;
} place;

typedef struct blob {
    uint8_t bytes[640];
    size_t size;
    uint32_t shape;
    place at;
} blob;

typedef struct held {
    iter_batch *batch;
    uint64_t hash;
    chaos_run *run;
} held;

typedef struct actor {
    chaos_slot *slot, *pest_slot;
    pthread_t thread;
    uint64_t rng, pest_rng;
    uint32_t steps;
    pthread_mutex_t lock;
    chaos_run *run; /* changed under the lock */
    place at;
    held held[HELD_MAX];
    uint32_t n_held;
    atomic_bool over;
} actor;

/* A round. */
static chaos_case setting;
static actor actors[ACTORS_MAX];
static struct {
    pthread_mutex_t lock;
    blob all[BLOBS];
    uint32_t n;
} blobs = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct {
    pthread_mutex_t lock;
    held all[LATE_MAX];
    uint32_t n;
    atomic_bool over;
} late = {.lock = PTHREAD_MUTEX_INITIALIZER};
static uint64_t round_seed, round_number;

static bool failed(void) {
    return EXPECT_DONE() || chaos_case_failed() || chaos_run_failed();
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The actor's run, for another thread; takes a reference on its loader. */
static chaos_run *run_borrow(actor *a) {
    pthread_mutex_lock(&a->lock);
    chaos_run *r = a->run;
    if (r) {
        atomic_fetch_add(&r->refs, 1);
        iter_loader_ref(r->loader);
    }
    pthread_mutex_unlock(&a->lock);
    return r;
}

static void run_return(chaos_run *r) {
    iter_loader_unref(r->loader);
    chaos_run_drop(r);
}

static void start_run(actor *a) {
    chaos_run *run = chaos_run_start(&setting, &a->rng);
    if (!run) {
        a->steps = 0;
        return;
    }
    a->at = (place){.known = run->exact};
    pthread_mutex_lock(&a->lock);
    a->run = run;
    pthread_mutex_unlock(&a->lock);
    chaos_run_is_mine(run);
}

static void end_run(actor *a) {
    chaos_run *r = a->run;
    if (!r) return;
    chaos_run_is_mine(NULL);
    pthread_mutex_lock(&a->lock);
    a->run = NULL;
    pthread_mutex_unlock(&a->lock);
    chaos_doing("unref");
    run_return(r);
    chaos_doing("-");
}

/* ---- Batches in use -------------------------------------------------------------------------- */

static void give_back(held *h) {
    EXPECT(chaos_hash(h->batch) == h->hash); /* no thread wrote to it */
    iter_batch_unref(h->batch);
    atomic_fetch_sub(&h->run->n_out, 1);
    chaos_run_drop(h->run);
}

static bool give_late(const held *h) {
    pthread_mutex_lock(&late.lock);
    const bool fits = late.n < LATE_MAX;
    if (fits) late.all[late.n++] = *h;
    pthread_mutex_unlock(&late.lock);
    return fits;
}

static void *release_late(void *arg) {
    uint64_t rng = round_seed ^ 0x5555;
    chaos_use_slot(arg);
    for (;;) {
        const bool last = atomic_load(&late.over);
        chaos_doing(NULL);
        if (!last && chaos_draw(&rng, 4) == 0) bounded_sleep(chaos_draw(&rng, 1000) * 1e-6);
        pthread_mutex_lock(&late.lock);
        held h = {0};
        if (late.n) {
            const uint32_t i = chaos_draw(&rng, late.n);
            h = late.all[i];
            late.all[i] = late.all[--late.n];
        }
        pthread_mutex_unlock(&late.lock);
        if (!h.batch && last) return NULL;
        if (!h.batch) {
            bounded_sleep(1e-4);
            continue;
        }
        chaos_doing("late release");
        give_back(&h);
        CHAOS_COUNT(late_release);
    }
}

static void release_one(actor *a) {
    if (a->n_held == 0) return;
    const uint32_t i = chaos_draw(&a->rng, a->n_held);
    const held h = a->held[i];
    a->held[i] = a->held[--a->n_held];
    if (h.run != a->run) CHAOS_COUNT(outlived);
    held other = h;
    switch (chaos_draw(&a->rng, 4)) {
    case 0:
        if (give_late(&h)) return;
        break;
    case 1: /* a second reference, dropped in another thread, first or last */
        other.batch = iter_batch_ref(h.batch);
        atomic_fetch_add(&h.run->refs, 1);
        atomic_fetch_add(&h.run->n_out, 1);
        if (!give_late(&other)) give_back(&other);
        break;
    default: break;
    }
    CHAOS_COUNT(release);
    give_back(&other);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static const chaos_epoch *epoch_of(const chaos_run *r, uint32_t epoch) {
    return epoch < CHAOS_EPOCHS ? &setting.shapes[r->shape].epochs[epoch] : NULL;
}

/* Whether the next batch is unknown. */
static bool is_beyond(const actor *a) {
    const chaos_epoch *epoch = epoch_of(a->run, a->at.epoch);
    if (!a->at.known || a->at.ended) return false;
    return !epoch || (a->at.taken >= epoch->n && !epoch->whole);
}

static void check_batch(actor *a, iter_batch *batch, uint64_t hash) {
    chaos_run *r = a->run;
    const iter_batch_info info = iter_batch_describe(batch);
    if (r->exact && a->at.known) {
        EXPECT(!a->at.ended);
        EXPECT_EQ(info.epoch, a->at.epoch);
        EXPECT_EQ(info.number, a->at.taken);
    }
    a->at = (place){.known = r->exact, .epoch = info.epoch, .taken = (uint32_t)info.number + 1};
    const chaos_epoch *epoch = epoch_of(r, info.epoch);
    if (!epoch || info.number >= epoch->n) {
        EXPECT(!epoch || !epoch->whole); /* the batch exists */
        CHAOS_COUNT(unknown);
        return;
    }
    const chaos_batch *want = &epoch->batches[info.number];
    CHAOS_COUNT(compared);
    if (!EXPECT(want->status == ITER_OK && want->hash == hash))
        fprintf(stderr, "batch %llu of epoch %u is not that of the plain run\n",
                (unsigned long long)info.number, info.epoch);
    if (!r->exact) return;
    uint32_t at;
    uint64_t sample;
    iter_loader_position(r->loader, &at, &sample);
    EXPECT_EQ(at, want->after_epoch);
    EXPECT_EQ(sample, want->after_sample);
}

static void took(actor *a, iter_batch *batch) {
    chaos_run *r = a->run;
    const uint64_t hash = chaos_hash(batch);
    uint32_t own = 0;
    for (uint32_t i = 0; i < a->n_held; i++)
        own += a->held[i].run == r;
    EXPECT(own < r->opt.max_held);
    for (int32_t f = 0; !iter_batch_is_view(batch) && iter_batch_tensor(batch, f); f++)
        EXPECT_EQ((uintptr_t)iter_batch_tensor(batch, f)->data % 64, 0);
    check_batch(a, batch, hash);
    atomic_fetch_add(&r->n_out, 1);
    atomic_fetch_add(&r->refs, 1);
    if (a->n_held == HELD_MAX) release_one(a);
    a->held[a->n_held++] = (held){batch, hash, r};
    if (chaos_draw(&a->rng, 3)) release_one(a);
}

static void took_end(actor *a) {
    const chaos_epoch *epoch = epoch_of(a->run, a->at.epoch);
    CHAOS_COUNT(end);
    if (!a->run->exact) return;
    if (a->at.known && !a->at.ended && epoch) EXPECT(epoch->whole && a->at.taken == epoch->n);
    uint32_t at;
    uint64_t sample;
    iter_loader_position(a->run->loader, &at, &sample);
    if (a->at.known) EXPECT_EQ(at, a->at.epoch);
    epoch = epoch_of(a->run, at);
    a->at = (place){.known = true, .ended = true, .epoch = at, .taken = epoch ? epoch->n : 1};
}

/* next() failed: as in the plain run, or for a reason of its own. */
static void took_failure(actor *a, iter_status s, const iter_error *err, int64_t timeout_ms,
                         uint32_t out_before) {
    chaos_run *r = a->run;
    if (s == ITER_ECANCELED) {
        EXPECT(atomic_load(&r->dead));
        CHAOS_COUNT(canceled);
    } else if (s == ITER_ETIMEDOUT) {
        EXPECT(timeout_ms > 0);
        CHAOS_COUNT(timed_out);
    } else if (s == ITER_ESTATE) {
        if (!EXPECT(out_before >= r->opt.max_held)) fprintf(stderr, "%s\n", err->message);
        CHAOS_COUNT(all_held);
        if (a->n_held == 0) bounded_sleep(2e-4); /* other threads will release some */
        release_one(a);
    } else {
        CHAOS_COUNT(failed_batches);
        if (!EXPECT(setting.set->fails && setting.opt.faults.on_error == ITER_ON_ERROR_FAIL))
            fprintf(stderr, "next: %s\n", err->message);
        const chaos_epoch *epoch = epoch_of(r, a->at.epoch);
        if (!r->exact || !a->at.known || !epoch) return;
        if (!EXPECT(!a->at.ended && a->at.taken < epoch->n)) return;
        const chaos_batch *want = &epoch->batches[a->at.taken++];
        EXPECT_EQ(s, want->status);
        if (!EXPECT(chaos_hash_error(err) == want->hash)) fprintf(stderr, "%s\n", err->message);
    }
}

static void take(actor *a) {
    chaos_run *r = a->run;
    iter_error err = {.status = ITER_OK};
    iter_batch *batch;
    static const int64_t within[] = {0, 0, 1, 3, 20, -1};
    int64_t timeout_ms = r->opt.faults.timeout_ms ? r->opt.faults.timeout_ms : -1;
    const uint32_t out_before = atomic_load(&r->n_out);
    iter_status s;
    chaos_doing("next");
    if (chaos_draw(&a->rng, 3)) {
        s = iter_loader_next(r->loader, &batch, &err);
        CHAOS_COUNT(next);
    } else {
        timeout_ms = within[chaos_draw(&a->rng, 6)];
        s = iter_loader_next_within(r->loader, timeout_ms, &batch, &err);
        CHAOS_COUNT(next_within);
    }
    chaos_doing("-");
    EXPECT((s == ITER_OK) == (batch != NULL));
    if (s == ITER_OK) {
        took(a, batch);
    } else if (s == ITER_END) {
        took_end(a);
    } else if (s == ITER_AGAIN) {
        EXPECT_EQ(timeout_ms, 0);
        CHAOS_COUNT(again);
    } else {
        took_failure(a, s, &err, timeout_ms, out_before);
    }
}

/* ---- Moving ---------------------------------------------------------------------------------- */

/* Returns OK, or ECANCELED if a thread had canceled. */
static bool moved(chaos_run *r, iter_status s, const iter_error *err) {
    if (s == ITER_ECANCELED) {
        EXPECT(atomic_load(&r->dead));
        CHAOS_COUNT(canceled);
        return false;
    }
    return EXPECT_OK(s, err);
}

static void reset(actor *a) {
    iter_error err;
    place *at = &a->at;
    chaos_doing("reset");
    const iter_status s = iter_loader_reset(a->run->loader, &err);
    CHAOS_COUNT(reset);
    if (!moved(a->run, s, &err)) return;
    if (!at->known || (!at->ended && at->taken == 0)) return; /* before the first next() */
    *at = (place){.known = a->run->exact, .epoch = at->epoch + 1};
}

static void seek(actor *a) {
    iter_error err;
    const chaos_shape *shape = &setting.shapes[a->run->shape];
    place to = {.known = a->run->exact, .epoch = chaos_draw(&a->rng, CHAOS_EPOCHS)};
    const uint32_t n = shape->epochs[to.epoch].n;
    uint64_t sample;
    to.taken = n ? chaos_draw(&a->rng, n) : 0;
    if (!chaos_case_sample_of(&setting, shape, to.epoch, to.taken, &sample)) {
        to.epoch = to.taken = 0;
        sample = 0;
    }
    chaos_doing("seek");
    const iter_status s = iter_loader_seek(a->run->loader, to.epoch, sample, &err);
    CHAOS_COUNT(seek);
    if (setting.rolls && to.epoch) to.known = false; /* an epoch may lack a first batch */
    if (moved(a->run, s, &err)) a->at = to;
}

static void seek_refused(actor *a) {
    iter_error err;
    const chaos_run *r = a->run;
    if (!setting.by_position || (uint64_t)r->opt.batch_size * r->opt.ranks == 1) return;
    chaos_doing("seek, refused");
    const iter_status s = iter_loader_seek(r->loader, 0, 1, &err);
    if (s == ITER_ECANCELED) return;
    EXPECT_ERROR(s, ITER_EINVAL, &err, "nearest");
    CHAOS_COUNT(seek_refused);
}

static void keep_blob(const blob *b) {
    pthread_mutex_lock(&blobs.lock);
    const uint32_t i = blobs.n < BLOBS ? blobs.n : (uint32_t)(b->bytes[b->size - 1] % BLOBS);
    blobs.all[i] = *b;
    if (blobs.n < BLOBS) blobs.n++;
    pthread_mutex_unlock(&blobs.lock);
}

static void save(chaos_run *r, const place *at) {
    iter_error err;
    blob b = {.shape = r->shape, .at = *at};
    size_t asked = 0;
    EXPECT_OK(iter_loader_save(r->loader, NULL, 0, &asked, &err), &err);
    if (!EXPECT_OK(iter_loader_save(r->loader, b.bytes, sizeof(b.bytes), &b.size, &err), &err))
        return;
    EXPECT(asked > 0);
    const chaos_epoch *epoch = epoch_of(r, at->epoch);
    if (setting.by_position && epoch && epoch->whole && epoch->n && at->taken == epoch->n)
        b.at.ended = true;
    keep_blob(&b);
    CHAOS_COUNT(save);
}

/* The place of a loader of shape `to` after it restored `b`. Returns false if it must refuse. */
static bool lands(const blob *b, uint32_t to, place *out) {
    const chaos_shape *old = &setting.shapes[b->shape], *new = &setting.shapes[to];
    const uint64_t global = (uint64_t) new->batch_size *new->ranks;
    const uint64_t sample = (uint64_t)b->at.taken * old->batch_size * old->ranks;
    *out = b->at;
    if ((uint64_t)old->batch_size * old->ranks == global) return true;
    if (b->at.ended) return true; /* END is next for any size */
    if (!setting.by_position || sample % global != 0) return false;
    out->taken = (uint32_t)(sample / global);
    return true;
}

static void restore(actor *a) {
    iter_error err;
    chaos_run *r = a->run;
    place to;
    pthread_mutex_lock(&blobs.lock);
    const uint32_t n = blobs.n;
    const blob b = n ? blobs.all[chaos_draw(&a->rng, n)] : (blob){.size = 0};
    pthread_mutex_unlock(&blobs.lock);
    if (b.size == 0) return;
    const bool elastic = setting.shapes[b.shape].batch_size * setting.shapes[b.shape].ranks !=
                         r->opt.batch_size * r->opt.ranks;
    const bool legal = lands(&b, r->shape, &to);
    const bool certain = !elastic || (b.at.known && !setting.rolls);
    chaos_doing("restore");
    const iter_status s = iter_loader_restore(r->loader, b.bytes, b.size, &err);
    chaos_doing("-");
    CHAOS_COUNT(restore);
    if (s == ITER_ETIMEDOUT && !setting.by_position && r->opt.faults.timeout_ms) return;
    if (s == ITER_EINVAL && elastic && (!legal || !certain)) {
        CHAOS_COUNT(restore_refused);
        return;
    }
    if (!moved(r, s, &err)) return;
    if (certain) EXPECT(legal);
    if (elastic) CHAOS_COUNT(restore_elastic);
    to.known = b.at.known && certain && r->exact;
    a->at = to;
}

/* ---- The pest: what any thread may do -------------------------------------------------------- */

static void look(chaos_run *r, uint64_t *rng) {
    iter_error err;
    uint32_t epoch;
    uint64_t sample;
    static const iter_failure nothing;
    iter_failure failures[4] = {nothing};
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_activity_info activity[9];
    switch (chaos_draw(rng, 4)) {
    case 0:
        EXPECT_OK(iter_loader_stats_read(r->loader, &stats, &err), &err);
        if (!setting.set->fails) EXPECT_EQ(stats.n_failures, 0);
        EXPECT_EQ(stats.n_workers, r->opt.workers);
        for (int32_t i = 0; i < stats.n_fallbacks; i++) {
            if (strncmp(stats.fallbacks[i], "ring:", 5) == 0) CHAOS_COUNT(no_ring);
        }
        CHAOS_COUNT(stats);
        break;
    case 1:
        EXPECT_EQ(iter_loader_activity(r->loader, activity, 9),
                  r->opt.workers ? r->opt.workers : 1);
        EXPECT(iter_loader_stage_now(r->loader, 0) < iter_loader_n_stages(r->loader));
        CHAOS_COUNT(activity);
        break;
    case 2:
        if (iter_loader_failures(r->loader, failures, 4) > 0) {
            EXPECT(setting.set->fails);
            EXPECT(failures[0].message[0] && failures[0].status < 0);
        }
        CHAOS_COUNT(failures);
        break;
    default:
        iter_loader_position(r->loader, &epoch, &sample);
        EXPECT(iter_loader_n_samples(r->loader) == setting.n_samples);
        EXPECT((iter_loader_n_batches(r->loader) == ITER_UNKNOWN) == !setting.by_position);
    }
}

static void read_a_sample(chaos_run *r, uint64_t *rng) {
    iter_error err;
    iter_sample *sample;
    if (!r->data || setting.set->how == CHAOS_STREAM || setting.set->photos) return;
    const uint64_t n = iter_dataset_describe(r->data)->n_samples;
    const iter_status s =
        iter_dataset_read(r->data, chaos_draw(rng, (uint32_t)n), NULL, &sample, &err);
    if (!(setting.set->fails && s == ITER_EFORMAT)) EXPECT_OK(s, &err);
    iter_sample_free(sample);
    CHAOS_COUNT(read_sample);
}

/* Ends the loader for its consumer. */
static void kill_run(actor *a, chaos_run *r, uint32_t how) {
    iter_error err;
    if (how == 0) {
        pthread_kill(a->thread, SIGUSR2); /* cancels in the signal handler */
        return;
    }
    atomic_store(&r->dead, true);
    if (how == 1) {
        iter_loader_cancel(r->loader);
        CHAOS_COUNT(cancel);
    } else {
        EXPECT_OK(iter_loader_stop(r->loader, &err), &err);
        CHAOS_COUNT(stop);
    }
}

/* Moves another thread's loader. */
static void push_about(chaos_run *r, uint64_t *rng) {
    iter_error err;
    iter_status s;
    const uint32_t what = chaos_draw(rng, 3);
    if (what == 0) {
        s = iter_loader_reset(r->loader, &err);
        CHAOS_COUNT(reset);
    } else if (what == 1) {
        s = iter_loader_seek(r->loader, 0, 0, &err);
        CHAOS_COUNT(seek);
    } else {
        pthread_mutex_lock(&blobs.lock);
        const blob b = blobs.n ? blobs.all[chaos_draw(rng, blobs.n)] : (blob){.size = 0};
        pthread_mutex_unlock(&blobs.lock);
        if (b.size == 0) return;
        s = iter_loader_restore(r->loader, b.bytes, b.size, &err);
        CHAOS_COUNT(restore);
        if (s == ITER_EINVAL && b.shape != r->shape) return;
        if (s == ITER_ETIMEDOUT && !setting.by_position && r->opt.faults.timeout_ms) return;
    }
    moved(r, s, &err);
}

static void profile(uint64_t *rng) {
    iter_error err;
    const iter_profile_options nowhere = {
        .struct_size = sizeof(nowhere), .filename = "", .events_per_thread = 64};
    const iter_status s =
        chaos_draw(rng, 2) ? iter_profile_start(&nowhere, &err) : iter_profile_stop(&err);
    if (s != ITER_ESTATE) EXPECT_OK(s, &err); /* it already runs, or does not run */
    CHAOS_COUNT(profile);
}

static void pest_once(actor *a, chaos_run *r, uint64_t *rng) {
    static const place unknown;
    const uint32_t what = chaos_draw(rng, 100);
    if (what < 40) {
        chaos_doing("pest: looking");
        look(r, rng);
    } else if (what < 55) {
        chaos_doing("pest: save");
        save(r, &unknown);
    } else if (what < 75) {
        pthread_kill(a->thread, SIGUSR1);
    } else if (what < 80) {
        chaos_doing("pest: reading a sample");
        read_a_sample(r, rng);
    } else if (what < 81) {
        chaos_doing("pest: ending");
        kill_run(a, r, chaos_draw(rng, 3));
    } else if (what < 82) {
        chaos_doing("pest: profile");
        profile(rng);
    } else if (!r->exact) {
        chaos_doing("pest: moving");
        push_about(r, rng);
    }
}

static void *pester(void *arg) {
    actor *a = arg;
    chaos_use_slot(a->pest_slot);
    while (!atomic_load(&a->over)) {
        chaos_doing(NULL);
        bounded_sleep(chaos_draw(&a->pest_rng, 2000) * 1e-6);
        chaos_run *r = run_borrow(a);
        if (!r) continue;
        pest_once(a, r, &a->pest_rng);
        chaos_doing("pest: unref");
        run_return(r);
    }
    chaos_doing(NULL);
    return NULL;
}

/* ---- Actors ---------------------------------------------------------------------------------- */

static void act_once(actor *a) {
    const uint32_t what = chaos_draw(&a->rng, 100);
    if (atomic_load(&a->run->dead) && what < 50) {
        save(a->run, &a->at); /* as a program does that must exit */
        end_run(a);
        start_run(a);
        if (a->run) restore(a);
    } else if (is_beyond(a) || (a->at.ended && what < 50 && a->at.epoch + 1 >= CHAOS_EPOCHS)) {
        seek(a);
    } else if (a->at.ended && what < 50) {
        reset(a);
    } else if (what < 78) {
        take(a);
    } else if (what < 80) {
        reset(a);
    } else if (what < 83) {
        seek(a);
    } else if (what < 84) {
        seek_refused(a);
    } else if (what < 88) {
        save(a->run, a->run->exact ? &a->at : &(place){.known = false});
    } else if (what < 91) {
        restore(a);
    } else if (what < 95) {
        release_one(a);
    } else if (what < 97) {
        look(a->run, &a->rng);
    } else if (what < 98) {
        kill_run(a, a->run, chaos_draw(&a->rng, 3));
    } else {
        end_run(a);
        start_run(a);
        if (a->run && chaos_draw(&a->rng, 2)) restore(a);
    }
}

static void print_actor(const actor *a) {
    if (!a->run) return;
    fprintf(stderr, "  %s: at epoch %u after %u%s%s; ", a->slot->name, a->at.epoch, a->at.taken,
            a->at.ended ? " (ended)" : "", a->at.known ? "" : " (unknown)");
    chaos_run_print(a->run);
}

static void *act(void *arg) {
    actor *a = arg;
    pthread_t pest;
    chaos_use_slot(a->slot);
    a->thread = pthread_self();
    if (pthread_create(&pest, NULL, pester, a) != 0) abort();
    start_run(a);
    for (uint32_t i = 0; i < a->steps && !failed(); i++) {
        chaos_doing("-");
        act_once(a);
    }
    if (failed()) print_actor(a);
    end_run(a);
    while (a->n_held)
        release_one(a);
    chaos_doing(NULL);
    atomic_store(&a->over, true);
    pthread_join(pest, NULL);
    return NULL;
}

/* ---- The watchdog's report ------------------------------------------------------------------- */

static void print_activity(actor *a) {
    iter_activity_info now[16];
    if (pthread_mutex_trylock(&a->lock) != 0) return;
    print_actor(a);
    const int32_t n = a->run ? iter_loader_activity(a->run->loader, now, 16) : 0;
    for (int32_t i = 0; i < n && i < 16; i++)
        fprintf(stderr, "    worker %d: %s, sample %lld, %s:%llu, for %.1f s\n", i, now[i].stage,
                (long long)now[i].sample, now[i].file, (unsigned long long)now[i].offset,
                1e-9 * (double)now[i].since_ns);
    pthread_mutex_unlock(&a->lock);
}

static void print_round(void) {
    fprintf(stderr, "round %llu; again by: stress_chaos 0 %llu %llu 1\n",
            (unsigned long long)round_number, (unsigned long long)round_seed,
            (unsigned long long)round_number);
    chaos_case_print(&setting, stderr);
}

/* For a failed assertion of the library, say. printf() is not safe here, but the program ends
 * anyway. */
static void report_abort(int number) {
    (void)number;
    signal(SIGABRT, SIG_DFL);
    print_round();
    abort();
}

static void report_hang(void) {
    print_round();
    for (int i = 0; i < ACTORS_MAX; i++)
        print_activity(&actors[i]);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void one_round(const chaos_set *sets, uint32_t n_sets) {
    uint64_t rng = (round_seed * 1000003 + round_number) * 0x9e3779b97f4a7c15u + 1;
    const source_fault_plan plan = {.inner = iter_builtin_source(0),
                                    .seed = round_number,
                                    .lost = 20,
                                    .interrupted = 30,
                                    .queue_full = 30,
                                    .try_again = 100,
                                    .idle_waits = 100,
                                    .delay_ns = 50000,
                                    .reorder = true};
    source_fault_set(&plan);
    pthread_t releaser, threads[ACTORS_MAX];
    chaos_case_draw(&setting, sets, n_sets, &rng);
    chaos_case_expect(&setting, 0, NULL);
    blobs.n = late.n = 0;
    atomic_store(&late.over, false);
    const uint32_t n = 1 + chaos_draw(&rng, ACTORS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        actor *a = &actors[i];
        a->rng = rng + 77 * i;
        a->pest_rng = rng + 77 * i + 33;
        a->steps = 20 + chaos_draw(&rng, 150);
        a->at = (place){.known = true};
        atomic_store(&a->over, false);
        if (pthread_create(&threads[i], NULL, act, a) != 0) abort();
    }
    if (pthread_create(&releaser, NULL, release_late, &chaos_slots[2 * ACTORS_MAX]) != 0) abort();
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&late.over, true);
    pthread_join(releaser, NULL);
    if (failed()) print_round();
}

static void set_up(void) {
    chaos_handle_signals();
    signal(SIGABRT, report_abort);
    for (int i = 0; i < ACTORS_MAX; i++) {
        pthread_mutex_init(&actors[i].lock, NULL);
        actors[i].slot = &chaos_slots[2 * i];
        actors[i].pest_slot = &chaos_slots[2 * i + 1];
        snprintf(chaos_slots[2 * i].name, sizeof(chaos_slots[0].name), "actor %d", i);
        snprintf(chaos_slots[2 * i + 1].name, sizeof(chaos_slots[0].name), "pest %d", i);
    }
    snprintf(chaos_slots[2 * ACTORS_MAX].name, sizeof(chaos_slots[0].name), "releaser");
}

/* Interrupts calls of the test's threads some 400 times a second. */
static void start_signals(bool on) {
    const struct itimerval often = {.it_interval = {.tv_usec = 2700}, .it_value = {.tv_usec = 1}},
                           never = {.it_value = {.tv_usec = 0}};
    setitimer(ITIMER_REAL, on ? &often : &never, NULL);
}

static void report(uint64_t rounds, uint64_t n_plain) {
    printf("%llu rounds, each a setting; %llu batches of plain runs; events:",
           (unsigned long long)rounds, (unsigned long long)n_plain);
    chaos_print_counts();
    printf("; %llu batches compared, %s\n",
           (unsigned long long)atomic_load(&chaos_counts[CHAOS_EV_compared]),
           failed() ? "FAILED" : "all as the plain runs'");
}

static uint64_t argument(int argc, char **argv, int i, uint64_t without) {
    return argc > i ? strtoull(argv[i], NULL, 10) : without;
}

int main(int argc, char **argv) {
    static chaos_set sets[CHAOS_SETS_MAX];
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 3;
    const uint64_t first = argument(argc, argv, 3, 0), n = argument(argc, argv, 4, UINT64_MAX);
    round_seed = argument(argc, argv, 2, 1);
    printf("seed %llu, %.0f s\n", (unsigned long long)round_seed, seconds);
    fflush(stdout);
    set_up();
    const uint32_t n_sets = chaos_sets_make(sets);
    chaos_watch_start(report_hang);
    start_signals(true);
    const double end = bounded_seconds() + seconds;
    double told = bounded_seconds();
    uint64_t rounds = 0, n_plain = 0;
    while (rounds < n && !failed() && (seconds <= 0 || bounded_seconds() < end)) {
        round_number = first + rounds++;
        one_round(sets, n_sets);
        n_plain += setting.n_plain;
        chaos_case_free(&setting);
        if (bounded_seconds() < told + 60) continue;
        told = bounded_seconds();
        fprintf(stderr, "%llu rounds so far\n", (unsigned long long)rounds);
    }
    start_signals(false);
    chaos_watch_stop();
    iter_status stopped = iter_profile_stop(NULL);
    (void)stopped; /* it may not run any more */
    iter_profile_clear();
    chaos_sets_gone(sets, n_sets);
    EXPECT_EQ(chaos_arrays_unreleased(), 0);
    if (!failed()) EXPECT_EQ(iter__alloc_live(), 0);
    report(rounds, n_plain);
    return failed();
}
