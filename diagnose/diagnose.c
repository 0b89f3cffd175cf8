/*
 * diagnose.c - watches a loop: cuts its time into slices, and asks the judge.
 *
 * Of a loader of ours, the observer's thread reads the counters at most 20 times a second and cuts
 * a slice when half a second is over and a batch was delivered. A slice ends with a next(), so what
 * comes after the loop's last batch belongs to none. Another's loader has no thread: the loop's own
 * calls cut the slices.
 */
#include "diagnose/diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "diagnose/diagnose_util.h"
#include "diagnose/run_queue.h"

#define LOOK_S     0.005 /* mean time between looks at the workers */
#define CHECK_NS   50000000
#define READ_S     0.25 /* a slice that a reading may cut short */
#define FEW_SLICES 6    /* with fewer, a reading cuts shorter ones */
#define LEAST_S    0.02
#define SHORTEST_S 1e-4 /* of the first slice */
#define SET_SHARE  0.25 /* of the memory that is free, for a set that could be kept */

_Static_assert((int)LIMIT_LOADER == (int)ITER_LIMIT_LOADER &&
                   (int)LIMIT_TURN == (int)ITER_LIMIT_TURN &&
                   (int)LIMIT_CPU == (int)ITER_LIMIT_CPU &&
                   (int)LIMIT_WORKERS == (int)ITER_LIMIT_WORKERS,
               "the public limits are the judge's");

/* ---- Slices ---------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double between(uint64_t before, uint64_t now) {
    return now > before ? (double)(now - before) * 1e-9 : 0;
}

static passive_slice slice_of(const counters *a, const counters *b) {
    passive_slice s;
    memset(&s, 0, sizeof(s));
    s.wall_s = between(a->last_ns, b->last_ns);
    s.next_s = fmin(between(a->next_ns, b->next_ns), s.wall_s);
    s.device_s = between(a->device_ns, b->device_ns);
    s.samples = (double)(b->samples - a->samples);
    s.batches = (double)(b->batches - a->batches);
    s.cpu_s = between(a->cpu_ns, b->cpu_ns);
    return s;
}

/* Ends a slice of at least `least_s` seconds. stats: of a loader of ours, else NULL. d->lock
 * held. */
static void cut(iter_diagnose *d, const counters *now, const iter_loader_stats *stats,
                double least_s) {
    passive_slice slice = slice_of(&d->mark, now);
    if (now->batches == d->mark.batches || slice.wall_s < least_s) return;
    if (stats != NULL) {
        observer_cut(d->observer, stats, &slice.seen);
    } else {
        run_queue queue;
        run_queue_read(&queue);
        slice.seen.delay_s =
            run_queue_between(&d->queue, &queue, d->thread, &slice.seen.own_delay_s);
        d->queue = queue;
    }
    passive_add(&d->run, &slice);
    d->mark = *now;
}

/* Reads the loader's counters. The first call only sets the mark, unless the loop was over before
 * a look; then all of it is one slice. d->lock held. */
static void look_at_loader(iter_diagnose *d, double least_s, bool is_last) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(d->loader, &stats, NULL) < 0) return;
    const counters now = {stats.next_calls,     stats.batches,      stats.samples, stats.next_ns,
                          stats.device_wait_ns, stats.next_last_ns, cpu_ns()};
    if (!d->began && now.calls > d->mark.calls) {
        d->began = true;
        if (is_last && d->mark.calls == 0)
            d->mark.last_ns = stats.next_first_ns;
        else
            d->mark = now;
        observer_on(d->observer);
    }
    if (d->began) cut(d, &now, &stats, least_s);
}

static void tick(void *user) {
    iter_diagnose *d = user;
    const uint64_t now = diagnose_now_ns();
    pthread_mutex_lock(&d->lock);
    const bool due = !d->began || between(d->mark.last_ns, now) >= d->run.slice_s;
    if (due && now - d->checked_ns >= (d->began ? CHECK_NS : CHECK_NS / 10)) {
        d->checked_ns = now;
        look_at_loader(d, d->run.slice_s, false);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- Another's loader ------------------------------------------------------------------------ */

void iter_diagnose_next_begin(iter_diagnose *d) {
    if (d->loader != NULL) return;
    pthread_mutex_lock(&d->lock);
    d->asked_ns = diagnose_now_ns();
    pthread_mutex_unlock(&d->lock);
}

void iter_diagnose_next_end(iter_diagnose *d, uint64_t n_samples) {
    if (d->loader != NULL) return;
    pthread_mutex_lock(&d->lock);
    counters *own = &d->own;
    if (d->asked_ns != 0) {
        own->last_ns = diagnose_now_ns();
        own->next_ns += own->last_ns - d->asked_ns;
        own->calls++;
        own->batches += n_samples > 0;
        own->samples += n_samples;
        d->asked_ns = 0;
        const bool due = between(d->mark.last_ns, own->last_ns) >= d->run.slice_s;
        if (!d->began || due) {
            own->cpu_ns = cpu_ns();
            d->thread = (long)syscall(SYS_gettid);
        }
        if (d->began && due) cut(d, own, NULL, d->run.slice_s);
        if (!d->began) {
            d->began = true;
            d->mark = *own;
            run_queue_read(&d->queue);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static iter_status copy_options(const iter_diagnose_options *options, iter_diagnose_options *out,
                                iter_error *err) {
    memset(out, 0, sizeof(*out));
    if (options == NULL) return ITER_OK;
    const size_t size = options->struct_size;
    if (size < sizeof(size) || size > sizeof(*out))
        return diagnose_fail(err, ITER_EINVAL, "diagnose: struct_size is %zu; expected %zu", size,
                             sizeof(*out));
    memcpy(out, options, size);
    if (out->workers < -1 || out->knows_workers < 0 || out->knows_workers > 1)
        return diagnose_fail(err, ITER_EINVAL,
                             "diagnose: workers is %d and knows_workers %d; expected at least -1, "
                             "and 0 or 1",
                             out->workers, out->knows_workers);
    return ITER_OK;
}

static iter_status make(const iter_diagnose_options *options, const char *name, iter_diagnose **out,
                        iter_error *err) {
    iter_diagnose_options opt;
    *out = NULL;
    iter_status s = copy_options(options, &opt, err);
    if (s < 0) return s;
    iter_diagnose *d = calloc(1, sizeof(*d));
    if (d == NULL) return diagnose_fail(err, ITER_ENOMEM, "diagnose: out of memory");
    pthread_mutex_init(&d->lock, NULL);
    d->process = getpid();
    d->run.slice_s = PASSIVE_SLICE_S;
    d->workers = opt.knows_workers ? opt.workers : -1;
    d->batch = opt.batch_size;
    snprintf(d->name, sizeof(d->name), "%s", opt.name != NULL ? opt.name : name);
    *out = d;
    return ITER_OK;
}

static void destroy(iter_diagnose *d) {
    pthread_mutex_destroy(&d->lock);
    free(d);
}

iter_status iter_diagnose_start_loop(const iter_diagnose_options *options, iter_diagnose **out,
                                     iter_error *err) {
    return make(options, "the loader", out, err);
}

iter_status diagnose_start(iter_loader *loader, const iter_diagnose_options *options, bool borrows,
                           iter_diagnose **out, iter_error *err) {
    const observer_options how = {.look_s = LOOK_S, .tick = tick};
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    iter_diagnose *d;
    *out = NULL;
    iter_status s = iter_loader_stats_read(loader, &stats, err);
    if (s < 0) return s;
    s = make(options, iter_dataset_name(iter_loader_dataset(loader)), &d, err);
    if (s < 0) return s;
    d->loader = loader;
    d->workers = stats.n_workers;
    d->mark.calls = stats.next_calls;
    d->mark.cpu_ns = cpu_ns();
    observer_options mine = how;
    mine.user = d;
    pthread_mutex_lock(&d->lock); /* a tick waits until the observer is known */
    s = observer_start(loader, &mine, &d->observer, err);
    pthread_mutex_unlock(&d->lock);
    if (s < 0) {
        destroy(d);
        return s;
    }
    d->holds_loader = !borrows;
    if (d->holds_loader) iter_loader_ref(loader);
    *out = d;
    return ITER_OK;
}

iter_status iter_diagnose_start(iter_loader *loader, const iter_diagnose_options *options,
                                iter_diagnose **out, iter_error *err) {
    return diagnose_start(loader, options, false, out, err);
}

void iter_diagnose_stop(iter_diagnose *d) {
    if (d == NULL) return;
    if (d->process != getpid()) return; /* a child of fork(): its thread is not here */
    observer_stop(d->observer);
    if (d->holds_loader) iter_loader_unref(d->loader);
    destroy(d);
}

/* ---- Judging --------------------------------------------------------------------------------- */

/* Size of the dataset's files if a quarter of the free memory would hold them; else 0. */
static double bytes_to_keep(const iter_loader_options *opt, const iter_description *desc) {
    double bytes = 0;
    for (uint64_t i = 0; i < desc->n_files; i++) {
        if (desc->files[i].bytes == ITER_UNKNOWN) return 0;
        bytes += (double)desc->files[i].bytes;
    }
    const double free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const bool limited = opt->memory.limit > 0 && bytes > 0.5 * (double)opt->memory.limit;
    return opt->reading.ops != NULL || limited || bytes > SET_SHARE * free_bytes ? 0 : bytes;
}

static void facts_of_loader(iter_diagnose *d, passive_facts *out) {
    static const char *const sources[] = {"auto", "memory", "ring", "pread", "null"};
    iter_loader_options opt = {.struct_size = sizeof(opt)};
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_options_read(d->loader, &opt, NULL) < 0 ||
        iter_loader_stats_read(d->loader, &stats, NULL) < 0)
        return;
    out->is_loader = true;
    out->prefetch = (uint64_t)stats.prefetch;
    out->batch = opt.batch_size;
    out->epoch = iter_loader_n_samples(d->loader);
    if (out->epoch != ITER_UNKNOWN) out->epoch /= iter_loader_share_of(d->loader).ranks;
    out->in_order = strcmp(opt.sampler.ops->base.name, "sequential") == 0;
    out->takes_device = stats.device_bytes > 0;
    const bool known = stats.source >= 0 && stats.source < 5;
    snprintf(out->source, sizeof(out->source), "%s", known ? sources[stats.source] : "?");
    if (stats.source == ITER_SOURCE_RING || stats.source == ITER_SOURCE_PREAD)
        out->set_bytes = bytes_to_keep(&opt, iter_dataset_describe(iter_loader_dataset(d->loader)));
}

void diagnose_judge(iter_diagnose *d, evidence *out_evidence, verdict *out_verdict) {
    passive_facts facts = {.workers = d->workers, .cores = iter_cores(), .batch = d->batch};
    memset(out_evidence, 0, sizeof(*out_evidence));
    if (d->loader != NULL) facts_of_loader(d, &facts);
    pthread_mutex_lock(&d->lock);
    const double least_s = d->run.n == 0 ? SHORTEST_S : d->run.n < FEW_SLICES ? LEAST_S : READ_S;
    if (d->loader != NULL) {
        look_at_loader(d, least_s, true);
        observer_read(d->observer, out_evidence);
    } else if (d->began && d->own.batches > d->mark.batches) {
        d->own.cpu_ns = cpu_ns();
        cut(d, &d->own, NULL, least_s);
    }
    passive_evidence(&d->run, &facts, out_evidence);
    pthread_mutex_unlock(&d->lock);
    memset(out_verdict, 0, sizeof(*out_verdict));
    if (out_evidence->rounds == 0) {
        snprintf(
            out_verdict->says, sizeof(out_verdict->says),
            "Nothing can be told: the loop has hardly taken two batches while it was watched.");
        memcpy(out_verdict->text, out_verdict->says, sizeof(out_verdict->says));
        return;
    }
    *out_verdict = verdict_make(out_evidence);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void fill_change(const evidence *e, const verdict_change *from, iter_diagnose_change *to) {
    const evidence_change *change = &e->changes[from->of];
    const size_t equals = strcspn(from->advice, "=");
    snprintf(to->option, sizeof(to->option), "%.*s", (int)equals, from->advice);
    snprintf(to->from, sizeof(to->from), "%.63s", change->from);
    snprintf(to->to, sizeof(to->to), "%.63s", change->to);
    snprintf(to->advice, sizeof(to->advice), "%.159s", from->advice);
    snprintf(to->text, sizeof(to->text), "%.479s", from->text);
    to->gain = from->gain;
    to->expected = from->expected;
    to->next = (int32_t)from->next;
}

static void fill(const passive_run *run, const evidence *e, const verdict *v, iter_diagnosis *out) {
    const passive_slice sum = passive_sum(run);
    memset(out, 0, sizeof(*out));
    out->limit = (int32_t)v->limit;
    out->is_sure = v->high;
    snprintf(out->limit_text, sizeof(out->limit_text), "%s", verdict_limit_text(v->limit));
    snprintf(out->stage, sizeof(out->stage), "%s", v->stage);
    out->share = v->share;
    out->seconds = sum.wall_s;
    out->batches = (uint64_t)sum.batches;
    out->samples = (uint64_t)sum.samples;
    out->n_slices = e->rounds;
    out->wait_share = e->wait_share;
    out->rate = e->rate[EVIDENCE_BOTH].median;
    out->consumer_rate = e->rate[EVIDENCE_CONSUMER].median;
    out->loader_rate = e->rate[EVIDENCE_LOADER].median;
    out->no_core_share = e->consumer_runnable;
    out->cores_used = sum.wall_s > 0 ? sum.cpu_s / sum.wall_s : NAN;
    out->n_changes = v->n_changes;
    for (int i = 0; i < v->n_changes; i++)
        fill_change(e, &v->changes[i], &out->changes[i]);
    memcpy(out->says, v->says, sizeof(out->says));
    memcpy(out->text, v->text, sizeof(out->text));
}

iter_status iter_diagnose_read(iter_diagnose *d, iter_diagnosis *out, iter_error *err) {
    const size_t size = out != NULL ? out->struct_size : 0;
    if (size < sizeof(size) || size > sizeof(*out))
        return diagnose_fail(err, ITER_EINVAL, "diagnose: struct_size is %zu; expected %zu", size,
                             sizeof(*out));
    struct {
        evidence e;
        verdict v;
        iter_diagnosis all;
        passive_run run;
    } *work = malloc(sizeof(*work));
    if (work == NULL) return diagnose_fail(err, ITER_ENOMEM, "diagnose: out of memory");
    diagnose_judge(d, &work->e, &work->v);
    pthread_mutex_lock(&d->lock);
    work->run = d->run;
    pthread_mutex_unlock(&d->lock);
    fill(&work->run, &work->e, &work->v, &work->all);
    work->all.struct_size = size;
    memcpy(out, &work->all, size);
    free(work);
    return ITER_OK;
}

const char *iter_limit_text(int32_t limit) {
    return limit >= 0 && limit <= (int32_t)LIMIT_LOADER ? verdict_limit_text((verdict_limit)limit)
                                                        : "?";
}
