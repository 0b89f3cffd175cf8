/*
 * profile_table.c - the sums of all threads as a table, for people and as JSON; and all events in
 * the order of time, for tools.
 *
 * Each thread keeps sums in cells of its own (profile_ring.c); they are added up here. A cell of an
 * older generation was not touched since the last reset, so it does not count.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/thread.h"
#include "iter/core/time.h"
#include "iter/profile/profiler.h"

#define RELAXED  memory_order_relaxed
#define NS_OF_MS 1e-6

/* One name's sums over all threads. */
typedef struct table_row {
    uint32_t name;
    iter__profile_category category;
    uint64_t count;
    int64_t total, min, max, p50, p99;
    double mean;
} table_row;

typedef struct table {
    int32_t n;
    table_row rows[ITER_PROFILE_NAMES];
    uint64_t buckets[ITER_PROFILE_BUCKETS]; /* of the row being added up */
    uint64_t dropped;
} table;

/* Text that is cut at `capacity`; `n` counts all of it. */
typedef struct text {
    char *out;
    size_t capacity, n;
} text;

/* ---- Adding up ------------------------------------------------------------------------------- */

static void add_cell(table *t, table_row *row, const iter__profile_cell *cell) {
    row->count += atomic_load_explicit(&cell->count, RELAXED);
    row->total += atomic_load_explicit(&cell->total, RELAXED);
    const int64_t min = atomic_load_explicit(&cell->min, RELAXED);
    const int64_t max = atomic_load_explicit(&cell->max, RELAXED);
    if (min < row->min) row->min = min;
    if (max > row->max) row->max = max;
    for (uint32_t i = 0; i < ITER_PROFILE_BUCKETS; i++)
        t->buckets[i] += atomic_load_explicit(&cell->buckets[i], RELAXED);
}

/* The value that `share` of all values do not exceed, by nearest rank. */
static int64_t percentile(const table *t, const table_row *row, double share) {
    uint64_t n = 0, seen = 0;
    for (uint32_t i = 0; i < ITER_PROFILE_BUCKETS; i++)
        n += t->buckets[i];
    uint64_t rank = (uint64_t)(share * (double)n);
    if ((double)rank < share * (double)n) rank++;
    if (rank == 0) rank = 1;
    uint32_t bucket = 0;
    for (; bucket < ITER_PROFILE_BUCKETS; bucket++) {
        seen += t->buckets[bucket];
        if (seen >= rank) break;
    }
    const int64_t middle = iter__profile_bucket_middle(bucket);
    return middle < row->min ? row->min : middle > row->max ? row->max : middle;
}

static void add_up(table *t, iter__profile_session *session) {
    const uint32_t generation = atomic_load_explicit(&session->generation, RELAXED);
    for (uint32_t name = 0; name < ITER_PROFILE_NAMES; name++) {
        table_row row = {.name = name, .min = INT64_MAX, .max = INT64_MIN};
        memset(t->buckets, 0, sizeof(t->buckets));
        for (iter__profile_ring *ring = session->rings; ring; ring = ring->next) {
            /* acquire, both: this thread sees the whole cell, and the zeros of its generation. */
            const iter__profile_cell *cell =
                atomic_load_explicit(&ring->cells[name], memory_order_acquire);
            if (cell && atomic_load_explicit(&cell->generation, memory_order_acquire) == generation)
                add_cell(t, &row, cell);
        }
        if (row.count == 0) continue;
        row.category = iter__profile_name_category(name);
        row.mean = (double)row.total / (double)row.count;
        row.p50 = percentile(t, &row, 0.5);
        row.p99 = percentile(t, &row, 0.99);
        t->rows[t->n++] = row;
    }
    t->dropped = iter__profile_overwritten(session) + atomic_load_explicit(&session->lost, RELAXED);
}

/* Whether the values are nanoseconds. */
static bool is_time(const table_row *row) {
    return row->category != CATEGORY_MEMORY && row->category != CATEGORY_COUNTER;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static int compare(const table_row *a, const table_row *b, int32_t by) {
#define BY(member) return a->member < b->member ? -1 : a->member > b->member
    switch (by) {
    case ITER_PROFILE_BY_TOTAL:
        if (!is_time(a)) BY(mean);
        BY(total);
    case ITER_PROFILE_BY_MEAN: BY(mean);
    case ITER_PROFILE_BY_MIN: BY(min);
    case ITER_PROFILE_BY_MAX: BY(max);
    case ITER_PROFILE_BY_COUNT: BY(count);
    case ITER_PROFILE_BY_P50: BY(p50);
    case ITER_PROFILE_BY_P99: BY(p99);
    default: return strcmp(iter__profile_name_text(a->name), iter__profile_name_text(b->name));
    }
#undef BY
}

/* Sorts by the category's name, then by `by`, then by name. By insertion: there are few rows, and
 * qsort() could not pass `by` on. */
static void sort_rows(table *t, int32_t by, bool ascending) {
    for (int32_t i = 1; i < t->n; i++) {
        const table_row row = t->rows[i];
        int32_t at = i;
        for (; at > 0; at--) {
            const table_row *other = &t->rows[at - 1];
            int order = strcmp(iter__profile_category_text(other->category),
                               iter__profile_category_text(row.category));
            if (order == 0) order = compare(other, &row, by) * (ascending ? 1 : -1);
            if (order == 0) order = compare(other, &row, ITER_PROFILE_BY_NAME);
            if (order <= 0) break;
            t->rows[at] = t->rows[at - 1];
        }
        t->rows[at] = row;
    }
}

/* ---- Text ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void add(text *to, const char *format, ...) {
    va_list args;
    const bool fits = to->n < to->capacity;
    va_start(args, format);
    const int n =
        vsnprintf(fits ? to->out + to->n : NULL, fits ? to->capacity - to->n : 0, format, args);
    va_end(args);
    if (n > 0) to->n += (size_t)n;
}

static void add_quoted(text *to, const char *name) {
    add(to, "\"");
    for (; *name; name++) {
        const unsigned char c = (unsigned char)*name;
        if (c < 0x20 || c == 0x7f) {
            add(to, "\\u%04x", c);
        } else {
            add(to, c == '"' || c == '\\' ? "\\%c" : "%c", c);
        }
    }
    add(to, "\"");
}

static void add_milliseconds(text *to, double ns) {
    add(to, " %14.4f", ns * NS_OF_MS);
}

static void write_table(text *to, const table *t) {
    add(to, "Profile Statistics:\n"
            "\tTimes are in ms, memory in bytes; percentiles are within 1.6 %%.\n");
    for (int32_t i = 0; i < t->n; i++) {
        const table_row *row = &t->rows[i];
        if (i == 0 || row->category != t->rows[i - 1].category) {
            const char *category = iter__profile_category_text(row->category);
            add(to, "\n%s\n=================\n", category);
            add(to, "%-25s %14s %14s %14s %14s %14s %14s %14s\n", "Name", "Count", "Total", "Min",
                "Mean", "P50", "P99", "Max");
        }
        add(to, "%-25s %14llu", iter__profile_name_text(row->name), (unsigned long long)row->count);
        if (is_time(row)) {
            add_milliseconds(to, (double)row->total);
            add_milliseconds(to, (double)row->min);
            add_milliseconds(to, row->mean);
            add_milliseconds(to, (double)row->p50);
            add_milliseconds(to, (double)row->p99);
            add_milliseconds(to, (double)row->max);
        } else {
            add(to, " %14s %14lld %14.1f %14lld %14lld %14lld", "-", (long long)row->min, row->mean,
                (long long)row->p50, (long long)row->p99, (long long)row->max);
        }
        add(to, "\n");
    }
    add(to, "\n%llu events dropped\n", (unsigned long long)t->dropped);
}

/* Writes numbers as integers, and the mean in tenths: no locale's decimal point can get in. */
static void write_json(text *to, const table *t) {
    add(to, "{\"dropped\":%llu,\"rows\":[", (unsigned long long)t->dropped);
    for (int32_t i = 0; i < t->n; i++) {
        const table_row *row = &t->rows[i];
        const char *unit = row->category == CATEGORY_MEMORY ? "bytes" : is_time(row) ? "ns" : "";
        const double tenths = row->mean * 10 + (row->mean < 0 ? -0.5 : 0.5);
        const long long mean = (long long)tenths;
        add(to, "%s\n{\"category\":\"%s\",\"name\":", i ? "," : "",
            iter__profile_category_text(row->category));
        add_quoted(to, iter__profile_name_text(row->name));
        add(to, ",\"unit\":\"%s\",\"count\":%llu,\"total\":", unit, (unsigned long long)row->count);
        if (is_time(row)) {
            add(to, "%lld", (long long)row->total);
        } else {
            add(to, "null");
        }
        add(to, ",\"min\":%lld,\"mean\":%s%lld.%lld", (long long)row->min, mean < 0 ? "-" : "",
            llabs(mean) / 10, llabs(mean) % 10);
        add(to, ",\"p50\":%lld,\"p99\":%lld,\"max\":%lld}", (long long)row->p50,
            (long long)row->p99, (long long)row->max);
    }
    add(to, "\n]}\n");
}

/* ---- Table ----------------------------------------------------------------------------------- */

static iter_status make_table(iter__profile_session *session, table *t, int32_t sort_by,
                              int32_t ascending, int32_t format, text *to, iter_error *err) {
    if (!session || !session->aggregates)
        return iter__fail(err, ITER_ESTATE, "profile: %s",
                          session ? "it was started with no_aggregate" : "it was never started");
    add_up(t, session);
    sort_rows(t, sort_by, ascending != 0);
    if (format == ITER_PROFILE_JSON) {
        write_json(to, t);
    } else {
        write_table(to, t);
    }
    if (!to->out || to->n < to->capacity) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "profile: the table needs %zu bytes, got %zu", to->n + 1,
                      to->capacity);
}

iter_status iter_profile_table(int32_t sort_by, int32_t ascending, int32_t reset, int32_t format,
                               char *out, size_t capacity, size_t *out_size, iter_error *err) {
    text to = {.out = out, .capacity = out ? capacity : 0};
    *out_size = 0;
    if (sort_by < 0 || sort_by > ITER_PROFILE_BY_NAME || format < 0 || format > ITER_PROFILE_JSON)
        return iter__fail(err, ITER_EINVAL,
                          "profile: sort_by is %d, expected 0 to %d; format is %d, expected 0 or 1",
                          sort_by, ITER_PROFILE_BY_NAME, format);
    table *t = iter__alloc(1, sizeof(*t));
    if (!t) return iter__fail(err, ITER_ENOMEM, "profile: no memory for a table");
    iter__profile_session *session = iter__profile_lock();
    const iter_status status = make_table(session, t, sort_by, ascending, format, &to, err);
    if (status == ITER_OK && out && reset)
        atomic_fetch_add_explicit(&session->generation, 1, RELAXED);
    if (to.n) *out_size = to.n + 1;
    iter__profile_unlock();
    iter__free(t);
    return status;
}

/* ---- Events ---------------------------------------------------------------------------------- */

typedef struct found_event {
    iter__profile_record record;
    int32_t track, ring; /* ring: number of its name */
} found_event;

/* A copy of all events, because callbacks run without the lock. */
typedef struct found {
    found_event *events;
    uint64_t n, capacity;
    char (*names)[ITER_PROFILE_TRACK]; /* of the rings' tracks */
} found;

static int by_start(const void *a, const void *b) {
    const found_event *x = a, *y = b;
    if (x->record.start_ns != y->record.start_ns)
        return x->record.start_ns < y->record.start_ns ? -1 : 1;
    if (x->record.duration_ns != y->record.duration_ns) /* the outer one first */
        return x->record.duration_ns > y->record.duration_ns ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

/* The oldest event that a ring still holds. */
static uint64_t oldest(const iter__profile_ring *ring, uint64_t head) {
    const uint64_t held = ring->n_events - 1;
    return head - ring->first > held ? head - held : ring->first;
}

static void take_ring(found *out, iter__profile_ring *ring, int32_t n) {
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    memcpy(out->names[n], ring->name, sizeof(ring->name));
    for (uint64_t at = oldest(ring, head); at < head && out->n < out->capacity; at++) {
        found_event *event = &out->events[out->n];
        event->track = ring->track;
        event->ring = n;
        out->n += iter__profile_ring_get(ring, at, &event->record);
    }
}

/* With the lock held. */
static iter_status take_all(iter__profile_session *session, found *out, iter_error *err) {
    if (!session) return iter__fail(err, ITER_ESTATE, "profile: it was never started");
    for (iter__profile_ring *ring = session->rings; ring; ring = ring->next) {
        const uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        out->capacity += head - oldest(ring, head);
    }
    out->events = iter__alloc(out->capacity + 1, sizeof(*out->events));
    out->names = iter__alloc(session->n_rings + 1, sizeof(*out->names));
    if (!out->events || !out->names)
        return iter__fail(err, ITER_ENOMEM, "profile: no memory for %llu events",
                          (unsigned long long)out->capacity);
    int32_t n = 0;
    for (iter__profile_ring *ring = session->rings; ring; ring = ring->next)
        take_ring(out, ring, n++);
    return ITER_OK;
}

iter_status iter_profile_each(void (*callback)(void *user, const iter_profile_event *event),
                              void *user, iter_error *err) {
    if (!callback) return iter__fail(err, ITER_EINVAL, "profile: no callback");
    if (!iter__profile_control_lock(err)) return ITER_ESTATE;
    found all = {.n = 0};
    iter__profile_session *session = iter__profile_lock();
    const iter_status status = take_all(session, &all, err);
    iter__profile_unlock();
    if (status == ITER_OK) qsort(all.events, all.n, sizeof(*all.events), by_start);
    iter__profile_thread_calls_back(true);
    for (uint64_t i = 0; status == ITER_OK && i < all.n; i++) {
        const iter__profile_record *r = &all.events[i].record;
        const iter_profile_event event = {
            .name = iter__profile_name_text(r->name),
            .category = iter__profile_category_text(iter__profile_name_category(r->name)),
            .type = r->type,
            .track = all.events[i].track,
            .track_name = all.names[all.events[i].ring],
            .start_ns = (uint64_t)r->start_ns,
            .duration_ns = (uint64_t)r->duration_ns,
            .loader = r->loader,
            .batch = r->batch,
            .epoch = r->epoch,
            .chunk = r->chunk,
            .serial = r->serial,
            .value = r->value};
        callback(user, &event);
    }
    iter__profile_thread_calls_back(false);
    iter__free(all.events);
    iter__free(all.names);
    iter__profile_control_unlock();
    return status;
}
