/*
 * test_profile_ends.c - how the profiler ends: killed, exited, forked, out of memory; and threads
 * that come and go. tests/support/json_valid.c checks the JSON.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
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

TestSuite(profile_ends, .timeout = 120);

/* A callback that ignores its event. */
static void see(void *user, const iter_profile_event *event) {
    *(int *)user += event->name != NULL;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void pause_ms(int64_t ms) {
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static bool holds(const char *path, const char *part) {
    size_t n;
    char *text = json_read(path, &n);
    const bool found = text && strstr(text, part);
    free(text);
    return found;
}

/* A child that records all the time until it is killed, or ends itself once some events were
 * written: if the machine is busy, the writer's first turn comes late. */
static pid_t busy_child(const char *path, bool ends_itself) {
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child) return child;
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    opt.filename = path;
    opt.dump_period_ms = 1;
    if (iter_profile_start(&opt, NULL) < 0) _exit(3);
    for (int i = 0;; i++) {
        profile_scope("busy");
        iter_profile_counter_add("turns", 1);
        if (ends_itself && i > 0 && i % 50000 == 0 && holds(path, "\"name\":\"busy\"")) _exit(4);
    }
}

Test(profile_ends, killed) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    make_path(path, folder, "trace.json");
    for (int round = 0; round < 25; round++) {
        const pid_t child = busy_child(path, false);
        int status;
        while (!holds(path, "\"name\":\"busy\""))
            pause_ms(1);
        pause_ms(round * 7 % 40);
        kill(child, SIGKILL);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFSIGNALED(status));
        cr_assert(json_file_valid(path, &trace), "round %d", round);
        cr_assert_gt(json_count(trace, "\"name\":\"busy\""), 0, "round %d", round);
        free(trace);
        unlink(path);
    }
    make_folder_gone(folder);
}

Test(profile_ends, left_by_exit) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    make_path(path, folder, "trace.json");
    int status;
    const pid_t child = busy_child(path, true);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    cr_assert(json_file_valid(path, &trace));
    cr_assert_gt(json_count(trace, "\"name\":\"busy\""), 0);
    free(trace);
    make_folder_gone(folder);
}

Test(profile_ends, forked_children_write_nothing) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], other[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    profile_start(make_path(path, folder, "parent.json"), 0, -1);
    make_path(other, folder, "child.json");
    iter_error err;
    profile_scope("parent");
    const pid_t child = fork();
    if (child == 0) {
        const bool off = !iter_profile_is_on() && iter_profile_dump(&err) == ITER_ESTATE;
        profile_scope("lost");
        iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
        opt.filename = other;
        if (!off || iter_profile_start(&opt, &err) < 0) _exit(3);
        profile_scope("child");
        if (iter_profile_stop(&err) < 0) _exit(4);
        iter_profile_clear();
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    cr_assert(json_file_valid(other, &trace));
    cr_assert_eq(json_count(trace, "\"name\":\"child\""), 1);
    cr_assert_eq(json_count(trace, "\"name\":\"parent\""), 0);
    cr_assert_eq(json_count(trace, "\"name\":\"lost\""), 0);
    free(trace);
    profile_scope("parent");
    profile_stop();
    cr_assert(json_file_valid(path, &trace));
    cr_assert_eq(json_count(trace, "\"name\":\"parent\""), 2);
    cr_assert_eq(json_count(trace, "\"name\":\"child\""), 0);
    free(trace);
    iter_profile_clear();
    char next[MAKE_PATH_MAX + 8];
    snprintf(next, sizeof(next), "%s.next", path);
    cr_assert_lt(access(next, F_OK), 0, "the second file goes");
    make_folder_gone(folder);
}

/* ---- Several processes ----------------------------------------------------------------------- */

static void expect_path(const char *pattern, int64_t rank, const char *path) {
    char out[64];
    cr_assert(iter__profile_path(pattern, rank, 77, out, sizeof(out)), "%s", pattern);
    cr_expect_str_eq(out, path);
}

Test(profile_ends, names_of_traces) {
    char out[12];
    expect_path("a/profile.json", -1, "a/profile.json");
    expect_path("a/profile.json", 3, "a/profile.rank3.json");
    expect_path("a.b/profile", 0, "a.b/profile.rank0");
    expect_path("a/.profile", 1, "a/.profile.rank1");
    expect_path("t-%p.json", 3, "t-77.json");
    expect_path("t-%r.json", 3, "t-3.json");
    expect_path("t-%r.json", -1, "t-0.json");
    expect_path("100%%.json", 3, "100%.rank3.json");
    expect_path("50%x%", -1, "50%x%");
    expect_path("", 3, "");
    cr_expect(!iter__profile_path("123456789.12", -1, 1, out, sizeof(out)));
    cr_expect(!iter__profile_path("12345.json", 1, 1, out, sizeof(out)));
    cr_expect(iter__profile_path("12345.789.1", -1, 1, out, sizeof(out)));
    cr_expect(iter__profile_path_insert("x/t.json", "5", out, sizeof(out)));
    cr_expect_str_eq(out, "x/t.5.json");
}

/* A process with ITER_PROFILE that makes a loader, and then waits for a byte. */
static pid_t profiled_child(const char *path, uint32_t rank, uint32_t ranks, int go, int say) {
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child) return child;
    char folder[512], byte = 0;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    setenv("ITER_PROFILE", path, 1);
    opt.rank = rank;
    opt.ranks = ranks;
    opt.memory.share = ITER_SHARE_NO;
    drive_cifar(folder, 200);
    iter_dataset *data = drive_open(folder);
    iter_loader *loader = drive_loader(data, NULL, &opt);
    if (iter_loader_stats_read(loader, &stats, NULL) < 0) _exit(3);
    int n = 0;
    for (int i = 0; i < stats.n_fallbacks; i++)
        n += strncmp(stats.fallbacks[i], "ITER_PROFILE", strlen("ITER_PROFILE")) == 0;
    if (write(say, &n, sizeof(n)) != sizeof(n) || read(go, &byte, 1) != 1) _exit(4);
    drive_run(loader, 1);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    iter_profile_clear();
    make_folder_gone(folder);
    _exit(0);
}

/* Three at once; returns how many reported that their file has another name. */
static int three_children(const char *path, uint32_t ranks) {
    pid_t children[3];
    int go[2], say[2], noted = 0, n;
    cr_assert(pipe(go) == 0 && pipe(say) == 0);
    for (uint32_t i = 0; i < 3; i++)
        children[i] = profiled_child(path, ranks ? i : 0, ranks, go[0], say[1]);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(read(say[0], &n, sizeof(n)), sizeof(n));
        noted += n;
    }
    cr_assert_eq(write(go[1], "123", 3), 3);
    for (int i = 0, status; i < 3; i++) {
        cr_assert_eq(waitpid(children[i], &status, 0), children[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
    }
    return noted;
}

/* Counts the traces in the folder; each must be whole and of one process. */
static int whole_traces(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        char path[MAKE_PATH_MAX], *trace;
        if (e->d_name[0] == '.') continue;
        cr_assert(json_file_valid(make_path(path, folder, e->d_name), &trace), "%s", path);
        cr_expect_eq(json_count(trace, "\"name\":\"process_name\""), 1, "%s", path);
        cr_expect_gt(json_count(trace, "\"name\":\"next\""), 0, "%s", path);
        free(trace);
        n++;
    }
    closedir(dir);
    return n;
}

Test(profile_ends, processes_do_not_write_one_file) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    for (int round = 0; round < 4; round++) {
        make_folder(folder);
        cr_expect_eq(three_children(make_path(path, folder, "t.json"), 0), 2, "two were renamed");
        cr_expect_eq(whole_traces(folder), 3);
        make_folder_gone(folder);
    }
    make_folder(folder);
    cr_expect_eq(three_children(make_path(path, folder, "t.json"), 3), 0);
    cr_expect_eq(whole_traces(folder), 3);
    cr_expect_eq(access(make_path(path, folder, "t.rank2.json"), F_OK), 0);
    make_folder_gone(folder);
    make_folder(folder);
    cr_expect_eq(three_children(make_path(path, folder, "t-%p.json"), 0), 0);
    cr_expect_eq(whole_traces(folder), 3);
    make_folder_gone(folder);
}

Test(profile_ends, a_file_that_another_process_writes) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    iter_error err;
    make_folder(folder);
    make_path(path, folder, "trace.json");
    const pid_t child = busy_child(path, false);
    while (!holds(path, "\"name\":\"busy\""))
        pause_ms(1);
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    opt.filename = path;
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_EIO);
    cr_expect(strstr(err.message, "another process writes it"), "%s", err.message);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_OK, "%s", err.message);
    iter_profile_clear();
    make_folder_gone(folder);
}

/* ---- Allocations ----------------------------------------------------------------------------- */

/* A whole life of the profiler. */
static iter_status whole_life(const char *path, iter_error *err) {
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    size_t n;
    int n_seen = 0;
    char text[4096];
    opt.filename = path;
    opt.dump_period_ms = -1;
    iter_status s = iter_profile_start(&opt, err);
    profile_scope("walk");
    iter_profile_counter_set("walk", 1);
    iter_status later = s;
    if (s == ITER_OK) later = iter_profile_each(see, &n_seen, err);
    if (later == ITER_OK) later = iter_profile_table(0, 0, 0, 0, text, sizeof(text), &n, err);
    if (s == ITER_OK && later == ITER_OK) later = iter_profile_stop(err);
    iter_profile_clear();
    return later;
}

Test(profile_ends, every_allocation_fails_once) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    iter_error err = {.status = ITER_OK};
    make_folder(folder);
    make_path(path, folder, "trace.json");
    cr_assert_eq(whole_life(path, &err), ITER_OK, "%s", err.message);
    const long live = iter__alloc_live(), before = iter__alloc_count();
    cr_assert_eq(whole_life(path, &err), ITER_OK);
    const long n = iter__alloc_count() - before;
    cr_assert_gt(n, 5);
    int n_refused = 0;
    for (long i = 0; i < n; i++) {
        err = (iter_error){.status = ITER_OK};
        iter__alloc_fail_after = i;
        const iter_status s = whole_life(path, &err);
        const bool happened = iter__alloc_fail_after < 0;
        iter__alloc_fail_after = -1;
        cr_assert(happened, "allocation %ld of %ld was not asked for", i, n);
        cr_assert_eq(iter__alloc_live(), live, "blocks leak after allocation %ld", i);
        cr_assert(s == ITER_OK || s == ITER_ENOMEM, "allocation %ld: %s", i, err.message);
        n_refused += s == ITER_ENOMEM;
        if (s == ITER_ENOMEM) cr_assert_gt(strlen(err.message), 0);
        cr_assert(access(path, F_OK) < 0 || json_file_valid(path, NULL));
    }
    cr_assert_geq(n_refused, 4);
    make_folder_gone(folder);
}

static void *one_event(void *arg) {
    iter_profile_instant("once");
    return arg;
}

/* When threads end, their rings are reused. */
Test(profile_ends, rings_are_given_back) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], *trace;
    make_folder(folder);
    profile_start(make_path(path, folder, "trace.json"), 64, -1);
    iter_error err;
    iter_profile_instant("once");
    pthread_t thread;
    long live = 0;
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(pthread_create(&thread, NULL, one_event, NULL), 0);
        pthread_join(thread, NULL);
        if (i % 2) cr_assert_eq(iter_profile_dump(&err), ITER_OK);
        if (i == 20) live = iter__alloc_live();
    }
    cr_assert_eq(iter__alloc_live(), live);
    cr_assert_eq(iter_profile_dropped(), 0);
    profile_stop();
    cr_assert(json_file_valid(path, &trace));
    cr_assert_eq(json_count(trace, "\"name\":\"once\""), 301);
    cr_assert_eq(json_count(trace, "\"thread_name\""), 301, "each thread has a track of its own");
    free(trace);
    iter_profile_clear();
    make_folder_gone(folder);
}
