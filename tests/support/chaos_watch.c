/* chaos_watch.c - see chaos_watch.h. */
#include "tests/support/chaos_watch.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/bounded.h"

/* ---- Counts ---------------------------------------------------------------------------------- */

atomic_ullong chaos_counts[CHAOS_N_EVENTS];

static const char *const event_names[] = {
#define X(name) #name,
    CHAOS_EVENTS(X)
#undef X
};

void chaos_print_counts(void) {
    for (int i = 0; i < CHAOS_N_EVENTS; i++)
        printf(" %s %llu", event_names[i], (unsigned long long)atomic_load(&chaos_counts[i]));
}

/* ---- What threads do ------------------------------------------------------------------------- */

chaos_slot chaos_slots[CHAOS_SLOTS];
static _Thread_local chaos_slot *mine;

void chaos_use_slot(chaos_slot *slot) {
    mine = slot;
}

void chaos_doing(const char *what) {
    if (!mine) return;
    atomic_store(&mine->since, bounded_seconds());
    atomic_store(&mine->what, what);
}

/* ---- The watchdog ---------------------------------------------------------------------------- */

static pthread_t watchdog;
static atomic_bool over;

static void print_file(const char *path) {
    char text[256];
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof(text), file))
        fprintf(stderr, " %.*s", (int)strcspn(text, "\n"), text);
    if (file) fclose(file);
}

static void print_threads(void) {
    static const char *const what[] = {"comm", "wchan", "syscall"};
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        fprintf(stderr, "  thread %.16s:", task->d_name);
        for (int i = 0; i < 3; i++) {
            char path[320];
            snprintf(path, sizeof(path), "/proc/self/task/%s/%s", task->d_name, what[i]);
            print_file(path);
        }
        fprintf(stderr, "\n");
    }
    if (tasks) closedir(tasks);
}

static bool is_late(chaos_slot *slot, double now) {
    return atomic_load(&slot->what) && now - atomic_load(&slot->since) > CHAOS_PATIENCE;
}

static void tell(void (*report)(void), double now) {
    fprintf(stderr, "HANG: a call takes longer than %.0f s\n", CHAOS_PATIENCE);
    for (int i = 0; i < CHAOS_SLOTS; i++) {
        const char *what = atomic_load(&chaos_slots[i].what);
        if (!what) continue;
        fprintf(stderr, "  %s: %s, for %.1f s\n", chaos_slots[i].name, what,
                now - atomic_load(&chaos_slots[i].since));
    }
    report();
    print_threads();
    if (getenv("ITER_CHAOS_STAY")) pause();
    abort();
}

static void *watch(void *report) {
    while (!atomic_load(&over)) {
        bounded_sleep(0.05);
        const double now = bounded_seconds();
        for (int i = 0; i < CHAOS_SLOTS; i++) {
            if (is_late(&chaos_slots[i], now)) tell(*(void (**)(void))report, now);
        }
    }
    return NULL;
}

void chaos_watch_start(void (*report)(void)) {
    static void (*kept)(void);
    kept = report;
    if (pthread_create(&watchdog, NULL, watch, &kept) != 0) abort();
}

void chaos_watch_stop(void) {
    atomic_store(&over, true);
    pthread_join(watchdog, NULL);
}
