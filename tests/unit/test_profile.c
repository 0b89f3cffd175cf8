/*
 * test_profile.c - the profiler: what is recorded and what is not, numbers of the table against
 * sorted lists, and a trace that is JSON however the program ends. The tests know names and
 * numbers; tests/support/json_valid.c checks the JSON.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "iter/profile/profiler.h"
#include "tests/support/drive.h"
#include "tests/support/json_valid.h"
#include "tests/support/make_data.h"
#include "tests/support/profile_drive.h"

TestSuite(profile, .timeout = 120);

enum { SEEN_MAX = 4096 };

typedef struct seen {
    int n;
    iter_profile_event events[SEEN_MAX];
    char tracks[SEEN_MAX][64];
} seen;

static seen all;

static void see(void *user, const iter_profile_event *event) {
    seen *s = user;
    cr_assert_lt(s->n, SEEN_MAX);
    s->events[s->n] = *event;
    snprintf(s->tracks[s->n], sizeof(s->tracks[0]), "%s", event->track_name);
    if (s->n) cr_assert_geq(event->start_ns, s->events[s->n - 1].start_ns, "not in order of start");
    s->n++;
}

static void look(void) {
    iter_error err;
    all.n = 0;
    cr_assert_eq(iter_profile_each(see, &all, &err), ITER_OK, "%s", err.message);
}

static int count_of(const char *name) {
    int n = 0;
    for (int i = 0; i < all.n; i++)
        n += strcmp(all.events[i].name, name) == 0;
    return n;
}

static const iter_profile_event *first_of(const char *name) {
    for (int i = 0; i < all.n; i++) {
        if (strcmp(all.events[i].name, name) == 0) return &all.events[i];
    }
    cr_assert(false, "no event is called %s", name);
    return NULL;
}

static char *table_text(int32_t sort_by, int32_t ascending, int32_t reset, int32_t format) {
    static char text[65536];
    size_t n;
    iter_error err;
    cr_assert_eq(
        iter_profile_table(sort_by, ascending, reset, format, text, sizeof(text), &n, &err),
        ITER_OK, "%s", err.message);
    cr_assert_eq(n, strlen(text) + 1);
    return text;
}

/* A number from a row of the table's JSON; each row is a line. */
static double number_of(const char *text, const char *name, const char *key) {
    char wanted[128];
    snprintf(wanted, sizeof(wanted), "\"name\":\"%s\"", name);
    const char *row = strstr(text, wanted);
    cr_assert(row, "no row is called %s in %s", name, text);
    snprintf(wanted, sizeof(wanted), "\"%s\":", key);
    const char *at = strstr(row, wanted);
    cr_assert(at);
    return strtod(at + strlen(wanted), NULL);
}

/* ---- What is recorded ------------------------------------------------------------------------ */

Test(profile, scopes_nest) {
    profile_scope("before"); /* not started yet */
    profile_start("", 0, 0);
    cr_assert_eq(iter_profile_is_on(), 1);
    iter_profile_scope_begin("outer");
    iter_profile_scope_begin("inner");
    iter_profile_instant("moment");
    iter_profile_scope_end();
    profile_scope("second");
    iter_profile_scope_end();
    iter_profile_scope_end(); /* one too many does nothing */
    profile_scope("after");
    look();
    cr_assert_eq(all.n, 5);
    cr_assert_str_eq(all.events[0].name, "outer");
    cr_assert_str_eq(all.events[1].name, "inner");
    const iter_profile_event *outer = first_of("outer");
    const char *const inside[] = {"inner", "moment", "second"};
    for (int i = 0; i < 3; i++) {
        const iter_profile_event *e = first_of(inside[i]);
        cr_assert_geq(e->start_ns, outer->start_ns);
        cr_assert_leq(e->start_ns + e->duration_ns, outer->start_ns + outer->duration_ns);
        cr_assert_eq(e->track, outer->track);
        cr_assert_str_eq(e->category, "user");
        cr_assert_eq(e->loader, 0);
    }
    cr_assert_eq(first_of("moment")->type, ITER_PROFILE_INSTANT);
    cr_assert_geq(first_of("after")->start_ns, outer->start_ns + outer->duration_ns);
    profile_stop();
    profile_scope("late");
    look();
    cr_assert_eq(all.n, 5, "events stay after stop, and none come");
    iter_profile_clear();
    iter_error err;
    cr_assert_eq(iter_profile_each(see, &all, &err), ITER_ESTATE);
}

Test(profile, deep_scopes) {
    profile_start("", 0, 0);
    for (int i = 0; i < 100; i++)
        iter_profile_scope_begin("deep");
    for (int i = 0; i < 100; i++)
        iter_profile_scope_end();
    profile_scope("flat");
    look();
    cr_assert_eq(count_of("deep"), ITER_PROFILE_DEPTH, "inner ones are left out");
    cr_assert_eq(count_of("flat"), 1);
    iter_profile_clear();
}

Test(profile, pause_resume) {
    profile_start("", 0, 0);
    iter_profile_scope_begin("open");
    iter_profile_pause();
    cr_assert_eq(iter_profile_is_on(), 0);
    profile_scope("unseen"); /* not recorded, and must not close "open" */
    iter_profile_scope_begin("half");
    iter_profile_counter_set("unset", 5);
    iter_profile_resume();
    iter_profile_scope_end(); /* "half" began during the pause */
    profile_scope("seen");
    iter_profile_scope_end();
    iter_profile_pause();
    iter_profile_scope_begin("outside");
    iter_profile_resume();
    profile_scope("within");
    iter_profile_scope_end();
    look();
    cr_assert_eq(all.n, 3);
    cr_assert_eq(count_of("open"), 1);
    cr_assert_eq(count_of("seen"), 1);
    cr_assert_eq(count_of("within"), 1);
    iter_profile_clear();
    iter_profile_resume(); /* there is no session to resume */
    cr_assert_eq(iter_profile_is_on(), 0);
}

Test(profile, scopes_do_not_outlive_their_session) {
    profile_start("", 0, 0);
    iter_profile_scope_begin("old");
    iter_profile_clear();
    profile_start("", 0, 0);
    iter_profile_scope_end();
    look();
    cr_assert_eq(all.n, 0);
    iter_profile_clear();
}

Test(profile, counters) {
    profile_start("", 0, 0);
    iter_profile_counter_set("queue", 3);
    iter_profile_counter_add("queue", 4);
    iter_profile_counter_add("queue", -10);
    look();
    cr_assert_eq(all.n, 3);
    const int64_t want[] = {3, 7, -3};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(all.events[i].value, want[i]);
        cr_assert_eq(all.events[i].type, ITER_PROFILE_COUNTER);
        cr_assert_str_eq(all.events[i].category, "counter");
    }
    const char *text = table_text(ITER_PROFILE_BY_TOTAL, 0, 0, ITER_PROFILE_JSON);
    cr_assert_eq(number_of(text, "queue", "min"), -3);
    cr_assert_eq(number_of(text, "queue", "max"), 7);
    cr_assert_float_eq(number_of(text, "queue", "mean"), 7.0 / 3, 0.06);
    cr_assert(strstr(text, "\"total\":null"));
    iter_profile_clear();
}

Test(profile, memory) {
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    iter_error err;
    opt.filename = "";
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_OK);
    const long long before = iter__alloc_held(ITER_ALLOC_HOST).now;
    void *block = iter__alloc(1000, 1000);
    cr_assert_eq(iter__alloc_held(ITER_ALLOC_HOST).now, before + 1000000);
    cr_assert_eq(iter_profile_dump(&err), ITER_OK);
    iter__free(block);
    cr_assert_eq(iter__alloc_held(ITER_ALLOC_HOST).now, before);
    cr_assert_eq(iter_profile_dump(&err), ITER_OK);
    iter__alloc_book(ITER_ALLOC_DEVICE, 4096);
    cr_assert_eq(iter_profile_dump(&err), ITER_OK);
    look();
    cr_assert_eq(count_of("host"), 4);
    cr_assert_eq(count_of("device"), 1);
    cr_assert_eq(count_of("pinned"), 0);
    cr_assert_eq(all.events[1].value, before + 1000000);
    cr_assert_eq(all.events[2].value, before);
    cr_assert_geq(all.events[2].duration_ns, (uint64_t)before + 1000000, "the peak stays");
    cr_assert_eq(first_of("device")->value, 4096);
    iter__alloc_book(ITER_ALLOC_DEVICE, -4096);
    iter_profile_clear();
}

Test(profile, overflow_is_counted) {
    enum { RING = 64, N = 1000, KEPT = RING - 1 };
    profile_start("", RING, 0);
    for (int i = 0; i < N; i++)
        iter_profile_counter_set("n", i);
    look();
    cr_assert_eq(all.n, KEPT);
    for (int i = 0; i < KEPT; i++)
        cr_assert_eq(all.events[i].value, N - KEPT + i, "the newest are kept");
    cr_assert_eq(iter_profile_dropped(), N - KEPT);
    const char *text = table_text(ITER_PROFILE_BY_TOTAL, 0, 0, ITER_PROFILE_JSON);
    cr_assert_eq(number_of(text, "n", "count"), (double)N, "the table has them all");
    cr_assert(strstr(text, "{\"dropped\":937,"));
    iter_profile_clear();
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    profile_start(make_path(path, folder, "trace.json"), RING, -1);
    for (int i = 0; i < N; i++)
        iter_profile_counter_set("n", i);
    profile_stop();
    cr_assert_eq(iter_profile_dropped(), N - KEPT);
    cr_assert(json_file_valid(path, &trace));
    cr_assert_eq(json_count(trace, "\"cat\":\"counter\""), KEPT);
    cr_assert(strstr(trace, "\"dropped_events\":937}"));
    free(trace);
    iter_profile_clear();
    make_folder_gone(folder);
}

/* ---- Table ----------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void put_span(uint32_t name, int64_t ns) {
    iter__profile_put(&(iter__profile_record){
        .name = name, .type = ITER_PROFILE_SPAN, .start_ns = 1000, .duration_ns = ns});
}

static void check_against_naive(const char *name, int64_t *values, int n) {
    const uint32_t number = iter__profile_name(CATEGORY_USER, name);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        put_span(number, values[i]);
        total += values[i];
    }
    qsort(values, (size_t)n, sizeof(*values), ascending);
    const double p50 = (double)values[(n + 1) / 2 - 1];
    const double p99 = (double)values[(n * 99 + 99) / 100 - 1];
    const char *text = table_text(ITER_PROFILE_BY_TOTAL, 0, 0, ITER_PROFILE_JSON);
    cr_assert(json_valid(text, strlen(text)), "%s", text);
    cr_assert_eq(number_of(text, name, "count"), n);
    cr_assert_eq(number_of(text, name, "total"), (double)total);
    cr_assert_eq(number_of(text, name, "min"), (double)values[0]);
    cr_assert_eq(number_of(text, name, "max"), (double)values[n - 1]);
    cr_assert_float_eq(number_of(text, name, "mean"), (double)total / n, 0.06);
    const double got50 = number_of(text, name, "p50"), got99 = number_of(text, name, "p99");
    cr_assert_leq(fabs(got50 - p50), p50 / 64 + 0.5, "%s: p50 %g, not %g", name, got50, p50);
    cr_assert_leq(fabs(got99 - p99), p99 / 64 + 0.5, "%s: p99 %g, not %g", name, got99, p99);
}

Test(profile, table_against_naive) {
    enum { N = 10007 };
    static int64_t values[N];
    profile_start("", 64, 0);
    uint64_t state = 1;
    for (int i = 0; i < N; i++) { /* over nine decades */
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (int64_t)exp((double)(state >> 40) / (1 << 24) * log(1e9));
    }
    check_against_naive("wide", values, N);
    for (int i = 0; i < 100; i++)
        values[i] = i;
    check_against_naive("exact", values, 100);
    values[0] = 123456789;
    check_against_naive("one", values, 1);
    values[0] = 0;
    values[1] = (int64_t)1 << 44; /* beyond the last bucket: minimum and maximum are exact */
    const uint32_t huge = iter__profile_name(CATEGORY_USER, "huge");
    put_span(huge, values[0]);
    put_span(huge, values[1] * 4);
    const char *text = table_text(ITER_PROFILE_BY_TOTAL, 0, 0, ITER_PROFILE_JSON);
    cr_assert_eq(number_of(text, "huge", "max"), (double)(values[1] * 4));
    iter_profile_clear();
}

/* Three names occur in the text in this order. */
static bool in_order(const char *text, const char *a, const char *b, const char *c) {
    const char *x = strstr(text, a), *y = strstr(text, b), *z = strstr(text, c);
    return x && y && z && x < y && y < z;
}

Test(profile, table_sorts_and_resets) {
    iter_error err;
    size_t n;
    char few[16];
    cr_assert_eq(iter_profile_table(0, 0, 0, 0, few, sizeof(few), &n, &err), ITER_ESTATE);
    profile_start("", 0, 0);
    const uint32_t a = iter__profile_name(CATEGORY_USER, "aaa");
    const uint32_t b = iter__profile_name(CATEGORY_USER, "bbb");
    const uint32_t c = iter__profile_name(CATEGORY_USER, "ccc");
    for (int i = 0; i < 3; i++)
        put_span(a, 10); /* count 3, total 30, mean 10 */
    for (int i = 0; i < 2; i++)
        put_span(b, 100); /* count 2, total 200, mean 100 */
    put_span(c, 50);      /* count 1, total 50 */
    cr_assert(in_order(table_text(ITER_PROFILE_BY_TOTAL, 0, 0, 0), "bbb", "ccc", "aaa"));
    cr_assert(in_order(table_text(ITER_PROFILE_BY_TOTAL, 1, 0, 0), "aaa", "ccc", "bbb"));
    cr_assert(in_order(table_text(ITER_PROFILE_BY_COUNT, 0, 0, 0), "aaa", "bbb", "ccc"));
    cr_assert(in_order(table_text(ITER_PROFILE_BY_COUNT, 1, 0, 0), "ccc", "bbb", "aaa"));
    cr_assert(in_order(table_text(ITER_PROFILE_BY_MEAN, 0, 0, 0), "bbb", "ccc", "aaa"));
    cr_assert(in_order(table_text(ITER_PROFILE_BY_NAME, 1, 0, 1), "aaa", "bbb", "ccc"));
    cr_assert_eq(iter_profile_table(99, 0, 0, 0, NULL, 0, &n, &err), ITER_EINVAL);
    cr_assert_eq(iter_profile_table(0, 0, 0, 9, NULL, 0, &n, &err), ITER_EINVAL);
    cr_assert_eq(iter_profile_table(0, 0, 1, 0, NULL, 0, &n, &err), ITER_OK);
    cr_assert_eq(iter_profile_table(0, 0, 1, 0, few, sizeof(few), &n, &err), ITER_EINVAL);
    const char *text = table_text(ITER_PROFILE_BY_TOTAL, 0, 1, ITER_PROFILE_JSON);
    cr_assert_eq(number_of(text, "aaa", "count"), 3, "what did not fit was not reset");
    put_span(b, 7);
    text = table_text(ITER_PROFILE_BY_TOTAL, 0, 0, ITER_PROFILE_JSON);
    cr_assert(!strstr(text, "aaa"));
    cr_assert_eq(number_of(text, "bbb", "count"), 1);
    cr_assert_eq(number_of(text, "bbb", "min"), 7);
    cr_assert_eq(number_of(text, "bbb", "max"), 7);
    iter_profile_clear();
}

Test(profile, without_aggregate) {
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    iter_error err;
    size_t n;
    opt.filename = "";
    opt.no_aggregate = 1;
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_OK);
    profile_scope("x");
    look();
    cr_assert_eq(count_of("x"), 1);
    cr_assert_eq(iter_profile_table(0, 0, 0, 0, NULL, 0, &n, &err), ITER_ESTATE);
    iter_profile_clear();
}

/* ---- States ---------------------------------------------------------------------------------- */

static iter_status status_inside[4];

static void call_control(void *user, const iter_profile_event *event) {
    (void)user;
    (void)event;
    iter_error err;
    size_t n;
    status_inside[0] = iter_profile_start(NULL, &err);
    status_inside[1] = iter_profile_stop(&err);
    status_inside[2] = iter_profile_each(call_control, NULL, &err);
    status_inside[3] = iter_profile_table(0, 0, 0, 0, NULL, 0, &n, &err);
    iter_profile_clear();
    profile_scope("a name that is new in a callback");
}

Test(profile, states) {
    iter_error err;
    cr_assert_eq(iter_profile_stop(&err), ITER_ESTATE);
    cr_assert_eq(iter_profile_dump(&err), ITER_ESTATE);
    iter_profile_pause();
    iter_profile_clear();
    cr_assert_eq(iter_profile_dropped(), 0);
    profile_start("", 0, 0);
    cr_assert_eq(iter_profile_start(NULL, &err), ITER_ESTATE);
    cr_assert(strstr(err.message, "runs already"));
    profile_scope("x");
    cr_assert_eq(iter_profile_each(call_control, NULL, &err), ITER_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(status_inside[i], ITER_ESTATE);
    cr_assert_eq(status_inside[3], ITER_OK);
    cr_assert_eq(iter_profile_is_on(), 1, "clear() in a callback does nothing");
    cr_assert_eq(iter_profile_each(NULL, NULL, &err), ITER_EINVAL);
    profile_stop();
    profile_stop();
    cr_assert_eq(iter_profile_dump(&err), ITER_OK);
    profile_start("", 0, 0); /* a stopped session can be replaced */
    look();
    cr_assert_eq(all.n, 0);
    iter_profile_clear();
}

Test(profile, options) {
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    iter_error err;
    opt.struct_size = 3;
    cr_assert_lt(iter_profile_start(&opt, &err), 0);
    opt.struct_size = sizeof(opt);
    opt.dump_period_ms = -2;
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_EINVAL);
    opt.dump_period_ms = 0;
    opt.filename = "/nowhere/at/all/trace.json";
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_EIO);
    cr_assert(strstr(err.message, "nowhere"));
    opt.filename = "/dev/null";
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_EINVAL);
    opt.filename = "/tmp";
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_EINVAL);
    cr_assert_eq(iter_profile_is_on(), 0);
    cr_assert_eq(iter_profile_dump(&err), ITER_ESTATE, "a start that failed leaves nothing");
}

/* ---- Names ----------------------------------------------------------------------------------- */

Test(profile, trace_is_json_whatever_the_names) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    profile_start(make_path(path, folder, "odd \"name\".json"), 0, -1);
    iter_error err;
    cr_assert(json_file_valid(path, NULL), "an empty trace is one too");
    profile_scope("a \"quoted\\\" name\n\twith\x01 control");
    profile_scope("\xc3\xa4\xf0\x9f\x98\x80");  /* UTF-8 */
    profile_scope("\xff\xfe\xc3(\xed\xa0\x80"); /* not UTF-8 */
    char longer[200];
    for (int i = 0; i < 40; i++)
        memcpy(longer + (size_t)i * 2, "\xc3\xa9", 2); /* by bytes, this cuts within a character */
    longer[80] = 0;
    profile_scope(longer);
    profile_scope("");
    iter_profile_instant("moment");
    iter_profile_counter_set("depth", -4);
    cr_assert_eq(iter_profile_dump(&err), ITER_OK);
    cr_assert(json_file_valid(path, &trace), "%s", trace);
    cr_assert(strstr(trace, "a \\\"quoted\\\\\\\" name\\u000a\\u0009with\\u0001 control"));
    cr_assert(strstr(trace, "\"name\":\"\xc3\xa4\xf0\x9f\x98\x80\""));
    cr_assert(strstr(trace, "\"name\":\"??\?(??\?\""));
    cr_assert(strstr(trace, "\"ph\":\"i\""));
    cr_assert(strstr(trace, "\"args\":{\"value\":-4}"));
    free(trace);
    const char *text = table_text(0, 0, 0, ITER_PROFILE_JSON);
    cr_assert(json_valid(text, strlen(text)), "%s", text);
    iter_profile_clear();
    make_folder_gone(folder);
}

Test(profile, names_are_bounded) {
    profile_start("", 0, 0);
    for (int i = 0; i < 600; i++) {
        char name[32];
        snprintf(name, sizeof(name), "name %d", i);
        profile_scope(name);
    }
    profile_scope("name 7");
    look();
    cr_assert_eq(all.n, 601);
    cr_assert_eq(count_of("(other)"), 600 - (ITER_PROFILE_NAMES - PROFILE_FIXED));
    cr_assert_eq(count_of("name 7"), 2);
    iter_profile_clear();
}

/* ---- Loaders --------------------------------------------------------------------------------- */

static void check_batch(int b, uint32_t n_chunks, uint32_t n_rows) {
    int n_open = 0, n_batch = 0, n_next = 0, n_held = 0;
    int64_t rows = 0;
    uint64_t end_of_batch = 0, end_of_next = 0, held_from = 0;
    for (int i = 0; i < all.n; i++) {
        const iter_profile_event *e = &all.events[i];
        if (!e->loader || strcmp(e->category, "wait") == 0) continue;
        if (e->epoch != 0 || e->batch != (uint64_t)b) continue;
        n_open += strcmp(e->name, "open") == 0;
        n_held += strcmp(e->name, "held") == 0;
        if (strcmp(e->category, "stage") == 0) {
            rows += e->value;
            cr_assert_lt(e->chunk, n_chunks);
            cr_assert_str_eq(e->name, "normalize");
        }
        if (strcmp(e->name, "batch") == 0) {
            n_batch++;
            end_of_batch = e->start_ns + e->duration_ns;
            cr_assert_eq(e->chunk, n_chunks);
        }
        if (strcmp(e->name, "next") == 0) {
            n_next++;
            end_of_next = e->start_ns + e->duration_ns;
            cr_assert_eq(e->value, n_rows);
        }
        if (strcmp(e->name, "held") == 0) held_from = e->start_ns;
    }
    cr_assert_eq(n_open, 1, "batch %d: %d opened", b, n_open);
    cr_assert_eq(n_batch, 1);
    cr_assert_eq(n_next, 1);
    cr_assert_eq(n_held, 1);
    cr_assert_eq(rows, n_rows, "batch %d: %d rows made", b, (int)rows);
    cr_assert_geq(end_of_next, end_of_batch);
    cr_assert_eq(held_from, end_of_next);
}

static void run_loader(const char *folder, int32_t source, int32_t workers, const char *path) {
    enum { N = 200, BATCH = 40 };
    iter_error err;
    profile_start(path, 0, 0);
    iter_dataset *data = drive_open(folder);
    iter_chain *chain = drive_chain("normalize:mean=0.5;0.5;0.5,std=0.2;0.2;0.2 | to:f32,nchw");
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = BATCH;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.reading.source = source;
    opt.workers = workers;
    opt.memory.limit = 64 << 20;
    iter_loader *loader = drive_loader(data, chain, &opt);
    iter_batch *batch;
    while (iter_loader_next(loader, &batch, &err) == ITER_OK)
        iter_batch_unref(batch);
    iter_loader_unref(loader);
    iter_chain_unref(chain);
    iter_dataset_unref(data);
    profile_stop();
    look();
    cr_assert_eq(iter_profile_dropped(), 0);
    for (int b = 0; b < N / BATCH; b++)
        check_batch(b, 1, BATCH);
    const iter_profile_event *stage = first_of("normalize"), *next = first_of("next");
    cr_assert_eq(stage->track == next->track, workers == 0);
    if (workers > 0) {
        char name[64];
        const char *track = all.tracks[stage - all.events];
        snprintf(name, sizeof(name), "loader %u worker ", (unsigned)stage->loader);
        cr_assert_eq(strncmp(track, name, strlen(name)), 0, "%s", track);
    }
}

/* The event around `at` is of this phase and has this id. */
static bool is_arrow(const char *line, char phase, const char *id, size_t id_bytes) {
    const char *end = strchr(line, '\n'), *found = strstr(line, "\"id\":");
    return line[7] == phase && found && (!end || found < end) && strncmp(found, id, id_bytes) == 0;
}

/* Every arrow that arrives has left, exactly once. */
static void check_arrows(const char *trace) {
    int n = 0;
    for (const char *at = strstr(trace, "{\"ph\":\"f\""); at;
         at = strstr(at + 1, "{\"ph\":\"f\"")) {
        const char *id = strstr(at, "\"id\":");
        const size_t id_bytes = strcspn(id, ",") + 1;
        int n_left = 0;
        for (const char *line = trace; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, "{\"ph\":\"", 7) == 0) n_left += is_arrow(line, 's', id, id_bytes);
        }
        cr_assert_eq(n_left, 1, "%.100s left %d times", at, n_left);
        n++;
    }
    cr_assert_geq(n, 5);
}

static void check_trace(const char *path) {
    char *trace;
    cr_assert(json_file_valid(path, &trace), "%s", trace);
    check_arrows(trace);
    cr_assert_eq(json_count(trace, "\"ph\":\"b\""), json_count(trace, "\"ph\":\"e\""));
    cr_assert_eq(json_count(trace, ", consumer\"}}"), 1);
    free(trace);
}

Test(profile, loaders) {
    char folder[MAKE_PATH_MAX], out[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    drive_cifar(folder, 200);
    make_folder(out);
    make_path(path, out, "trace.json");
    static const int32_t sources[] = {ITER_SOURCE_MEMORY, ITER_SOURCE_RING, ITER_SOURCE_PREAD};
    for (int s = 0; s < 3; s++) {
        for (int32_t workers = 0; workers < 3; workers++) {
            run_loader(folder, sources[s], workers, path);
            check_trace(path);
            iter_profile_clear();
            cr_assert(json_file_valid(path, NULL));
        }
    }
    make_folder_gone(out);
    make_folder_gone(folder);
}

/* Reads past the page cache are queued: the trace shows their way. */
Test(profile, reads) {
    char folder[MAKE_PATH_MAX];
    iter_error err;
    drive_cifar(folder, 200);
    profile_start("", 0, 0);
    iter_dataset *data = drive_open(folder);
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 40;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.reading.source = ITER_SOURCE_PREAD;
    opt.reading.o_direct = 1;
    opt.workers = 1;
    opt.memory.limit = 64 << 20;
    iter_loader *loader;
    const iter_status made = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    if (made < 0) cr_skip("no direct reads here: %s", err.message);
    iter_batch *batch;
    while (iter_loader_next(loader, &batch, &err) == ITER_OK)
        iter_batch_unref(batch);
    iter_loader_unref(loader);
    look();
    cr_assert_gt(count_of("issue"), 0);
    cr_assert_gt(count_of("read"), 0);
    int64_t issued = 0;
    for (int i = 0; i < all.n; i++) {
        const iter_profile_event *e = &all.events[i];
        if (e->epoch == 0 && strcmp(e->name, "issue") == 0) issued += e->value;
        if (strcmp(e->name, "read") == 0) cr_assert_eq(e->type, ITER_PROFILE_ASYNC);
        cr_assert(strcmp(e->category, "stage") != 0 || strcmp(e->name, "copy") == 0, "%s", e->name);
    }
    cr_assert_eq(issued, 200 * 3073);
    iter_profile_clear();
    iter_dataset_unref(data);
    make_folder_gone(folder);
}
