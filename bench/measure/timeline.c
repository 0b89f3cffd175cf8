/*
 * timeline.c - the lives of the median and the slowest batch, from the profiler's events.
 *
 * A batch lives from the start of its first `open` to the end of its `next`. Its lanes are the
 * consumer's thread and each thread that worked on it. A lane shows everything that the thread did
 * in that time, for this batch or for others, since a batch is often late because its worker was
 * busy elsewhere. Reads overlap one another and belong to no thread, so they have a lane of their
 * own.
 */
#include "bench/measure/timeline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_util.h"

#define TRACKS 512 /* further threads are left out */

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct life {
    uint32_t epoch;
    uint64_t batch;
    uint64_t open_ns, end_ns;
    int32_t consumer; /* track */
} life;

typedef struct recording {
    iter_profile_event *events;
    size_t n, capacity;
    struct track_name {
        int32_t track;
        char *text;
    } * names;
    size_t n_names;
    bool out_of_memory;
} recording;

/* ---- Recorded events ------------------------------------------------------------------------- */

static iter_status no_memory(iter_error *err) {
    return bench_fail(err, ITER_ENOMEM, "timeline: no memory");
}

/* Keeps the name as long as the recording lives; "" if there is no memory. */
static const char *keep_name(recording *r, const iter_profile_event *event) {
    for (size_t i = 0; i < r->n_names; i++)
        if (r->names[i].track == event->track) return r->names[i].text;
    struct track_name *grown = realloc(r->names, (r->n_names + 1) * sizeof(*grown));
    char *text = strdup(event->track_name != NULL ? event->track_name : "");
    if (grown != NULL) r->names = grown;
    if (grown == NULL || text == NULL) {
        free(text);
        r->out_of_memory = true;
        return "";
    }
    r->names[r->n_names++] = (struct track_name){event->track, text};
    return text;
}

static void record(void *user, const iter_profile_event *event) {
    recording *r = user;
    if (event->type == ITER_PROFILE_COUNTER || event->type == ITER_PROFILE_INSTANT) return;
    if (r->n == r->capacity) {
        size_t capacity = r->capacity > 0 ? 2 * r->capacity : 4096;
        iter_profile_event *grown = realloc(r->events, capacity * sizeof(*grown));
        if (grown == NULL) {
            r->out_of_memory = true;
            return;
        }
        r->events = grown;
        r->capacity = capacity;
    }
    r->events[r->n] = *event;
    r->events[r->n++].track_name = keep_name(r, event);
}

static bool is_event(const iter_profile_event *e, const char *category, const char *name) {
    return strcmp(e->category, category) == 0 && (name == NULL || strcmp(e->name, name) == 0);
}

static uint64_t end_of(const iter_profile_event *e) {
    return e->start_ns + e->duration_ns;
}

/* ---- Which batches --------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
    if (x->batch != y->batch) return x->batch < y->batch ? -1 : 1;
    return x->open_ns < y->open_ns ? -1 : x->open_ns > y->open_ns;
}

static int compare_lengths(const void *a, const void *b) {
    const life *x = a, *y = b;
    uint64_t left = x->end_ns - x->open_ns, right = y->end_ns - y->open_ns;
    return left < right ? -1 : left > right ? 1 : compare_keys(a, b);
}

static uint64_t busiest_loader(const iter_profile_event *events, size_t n) {
    struct {
        uint64_t loader;
        size_t count;
    } seen[64] = {{0, 0}}; /* further loaders do not count */
    size_t n_seen = 0, best = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_event(&events[i], "loader", "next")) continue;
        size_t k = 0;
        while (k < n_seen && seen[k].loader != events[i].loader)
            k++;
        if (k == sizeof(seen) / sizeof(seen[0])) continue;
        n_seen += k == n_seen;
        seen[k].loader = events[i].loader;
        if (++seen[k].count > seen[best].count) best = k;
    }
    return seen[best].loader;
}

/* Batches that were opened, each once, in order of their numbers. */
static size_t find_opened(const iter_profile_event *events, size_t n, uint64_t loader, life *out) {
    size_t found = 0, kept = 0;
    for (size_t i = 0; i < n; i++)
        if (events[i].loader == loader && is_event(&events[i], "loader", "open"))
            out[found++] = (life){events[i].epoch, events[i].batch, events[i].start_ns, 0, 0};
    qsort(out, found, sizeof(*out), compare_keys);
    for (size_t i = 0; i < found; i++)
        if (kept == 0 || out[kept - 1].epoch != out[i].epoch || out[kept - 1].batch != out[i].batch)
            out[kept++] = out[i];
    return kept;
}

static life *find_life(life *lives, size_t n, const iter_profile_event *e) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        life *l = &lives[middle];
        if (l->epoch == e->epoch && l->batch == e->batch) return l;
        if (l->epoch < e->epoch || (l->epoch == e->epoch && l->batch < e->batch))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Batches whose whole life was recorded, the shortest first. */
static size_t find_lives(const iter_profile_event *events, size_t n, uint64_t loader, life *out) {
    size_t opened = find_opened(events, n, loader, out), kept = 0;
    for (size_t i = 0; i < n; i++) {
        const iter_profile_event *e = &events[i];
        if (e->loader != loader || !is_event(e, "loader", "next")) continue;
        life *l = find_life(out, opened, e);
        if (l == NULL || end_of(e) <= l->open_ns) continue;
        l->end_ns = end_of(e);
        l->consumer = e->track;
    }
    for (size_t i = 0; i < opened; i++)
        if (out[i].end_ns > 0) out[kept++] = out[i];
    qsort(out, kept, sizeof(*out), compare_lengths);
    return kept;
}

/* ---- Their spans ----------------------------------------------------------------------------- */

typedef struct spans {
    const life *life;
    timeline_span *at;
    size_t n, capacity;
} spans;

static bool add_span(spans *s, const char *track, const char *stage, uint64_t start, uint64_t end) {
    const life *l = s->life;
    start = start > l->open_ns ? start : l->open_ns;
    end = end < l->end_ns ? end : l->end_ns;
    if (end <= start) return true;
    if (s->n == s->capacity) {
        size_t capacity = s->capacity > 0 ? 2 * s->capacity : 64;
        timeline_span *grown = realloc(s->at, capacity * sizeof(*grown));
        if (grown == NULL) return false;
        s->at = grown;
        s->capacity = capacity;
    }
    timeline_span *span = &s->at[s->n++];
    size_t bytes = strnlen(track, sizeof(span->track) - 1);
    memcpy(span->track, track, bytes);
    span->track[bytes] = '\0';
    span->stage = stage;
    span->start_ns = start - l->open_ns;
    span->ns = end - start;
    return true;
}

static bool of_life(const iter_profile_event *e, const life *l) {
    return e->epoch == l->epoch && e->batch == l->batch && !is_event(e, "wait", NULL) &&
           !is_event(e, "user", NULL);
}

/* Whether the thread worked on the batch. */
static bool takes_part(const iter_profile_event *events, size_t n, uint64_t loader, const life *l,
                       int32_t track) {
    if (track == l->consumer) return true;
    for (size_t i = 0; i < n; i++)
        if (events[i].track == track && events[i].loader == loader && of_life(&events[i], l) &&
            events[i].type == ITER_PROFILE_SPAN)
            return true;
    return false;
}

static const char *stage_of(const iter_profile_event *e, const life *l, uint64_t loader) {
    if (is_event(e, "wait", NULL) || is_event(e, "user", NULL) || is_event(e, "loader", "next"))
        return e->name;
    return e->loader == loader && of_life(e, l) ? e->name : "other batch";
}

/* Adds what the consumer did between two calls of next(). */
static bool add_consumer(const iter_profile_event *events, size_t n, uint64_t loader, spans *s) {
    uint64_t from = 0;
    for (size_t i = 0; i < n; i++) {
        const iter_profile_event *e = &events[i];
        if (e->loader != loader || !is_event(e, "loader", "next")) continue;
        if (from > 0 && !add_span(s, "consumer", "consumer", from, e->start_ns)) return false;
        from = end_of(e);
    }
    return true;
}

/* "worker 0" of "loader 1 worker 0", as all lanes belong to one loader. */
static const char *short_name(const char *name) {
    const char *worker = strncmp(name, "loader ", 7) == 0 ? strstr(name, " worker ") : NULL;
    return worker != NULL ? worker + 1 : name;
}

static bool add_threads(const iter_profile_event *events, size_t n, uint64_t loader, spans *s) {
    const life *l = s->life;
    int8_t part[TRACKS] = {0}; /* 1 = the thread takes part, -1 = it does not */
    for (size_t i = 0; i < n; i++) {
        const iter_profile_event *e = &events[i];
        if (end_of(e) <= l->open_ns || e->start_ns >= l->end_ns) continue;
        if (e->type == ITER_PROFILE_ASYNC) {
            if (e->loader == loader && of_life(e, l) && is_event(e, "read", NULL) &&
                !add_span(s, "reads", e->name, e->start_ns, end_of(e)))
                return false;
            continue;
        }
        if (e->track < 0 || e->track >= TRACKS) continue;
        if (part[e->track] == 0)
            part[e->track] = takes_part(events, n, loader, l, e->track) ? 1 : -1;
        const char *track = e->track == l->consumer ? "consumer" : short_name(e->track_name);
        if (part[e->track] > 0 &&
            !add_span(s, track, stage_of(e, l, loader), e->start_ns, end_of(e)))
            return false;
    }
    return true;
}

static int compare_starts(const void *a, const void *b) {
    const timeline_span *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static int compare_spans(const void *a, const void *b) {
    const timeline_span *x = a, *y = b;
    return x->ns > y->ns ? -1 : x->ns < y->ns ? 1 : compare_starts(a, b);
}

static bool add_batch(const iter_profile_event *events, size_t n, uint64_t loader, const life *l,
                      const char *kind, timeline *out) {
    spans s = {.life = l};
    bool good = add_consumer(events, n, loader, &s) && add_threads(events, n, loader, &s);
    if (s.n > TIMELINE_SPANS_MAX) {
        qsort(s.at, s.n, sizeof(*s.at), compare_spans);
        s.n = TIMELINE_SPANS_MAX;
    }
    if (s.n > 0) qsort(s.at, s.n, sizeof(*s.at), compare_starts);
    out->batches[out->n_batches++] =
        (timeline_batch){kind, l->epoch, l->batch, l->end_ns - l->open_ns, s.at, s.n};
    return good;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status timeline_of_events(const iter_profile_event *events, size_t n, uint64_t loader,
                               timeline *out, iter_error *err) {
    *out = (timeline){.n_batches = 0};
    if (n == 0) return ITER_OK;
    if (loader == 0) loader = busiest_loader(events, n);
    life *lives = malloc(n * sizeof(*lives));
    if (lives == NULL) return no_memory(err);
    size_t found = find_lives(events, n, loader, lives);
    bool good = true;
    if (found > 0) good = add_batch(events, n, loader, &lives[found - 1], "slowest", out);
    if (found > 1 && good)
        good = add_batch(events, n, loader, &lives[(found - 1) / 2], "median", out);
    free(lives);
    return good ? ITER_OK : no_memory(err);
}

iter_status timeline_collect(uint64_t loader, timeline *out, iter_error *err) {
    *out = (timeline){.n_batches = 0};
    recording r = {.n = 0};
    iter_status s = iter_profile_each(record, &r, err);
    if (s == ITER_OK && r.out_of_memory) s = no_memory(err);
    if (s == ITER_OK) s = timeline_of_events(r.events, r.n, loader, out, err);
    for (size_t i = 0; i < r.n_names; i++)
        free(r.names[i].text);
    free(r.names);
    free(r.events);
    return s;
}

void timeline_write_json(json_writer *w, const timeline *t) {
    json_begin(w, "timeline", '[');
    for (int i = 0; i < t->n_batches; i++) {
        const timeline_batch *b = &t->batches[i];
        json_begin(w, NULL, '{');
        json_text(w, "kind", b->kind);
        json_count(w, "epoch", b->epoch);
        json_count(w, "batch", b->batch);
        json_count(w, "ns", b->ns);
        json_begin(w, "spans", '[');
        for (size_t k = 0; k < b->n_spans; k++) {
            json_begin(w, NULL, '{');
            json_text(w, "track", b->spans[k].track);
            json_text(w, "stage", b->spans[k].stage);
            json_count(w, "start_ns", b->spans[k].start_ns);
            json_count(w, "ns", b->spans[k].ns);
            json_end(w);
        }
        json_end(w);
        json_end(w);
    }
    json_end(w);
}

void timeline_free(timeline *t) {
    for (int i = 0; i < t->n_batches; i++)
        free(t->batches[i].spans);
    *t = (timeline){.n_batches = 0};
}
