/*
 * automatic.c - ITER_DIAGNOSE: watches every loader of a program, and reports each when it ends, or
 * when the program does.
 *
 * The list of watches is process state, because no caller holds them. A loader that is in the list
 * lives: libiter calls the hook before the loader's threads stop. In a child of fork() the list is
 * the parent's, and nothing is reported from there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/diagnose.h"

#define LEAST_BATCHES 20

typedef struct watched {
    iter_loader *loader;
    iter_diagnose *d;
    struct watched *next;
} watched;

static struct {
    pthread_mutex_t lock; /* guards all below */
    watched *first;
    bool is_set_up; /* the handlers are registered */
    int n_reports;
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Reports --------------------------------------------------------------------------------- */

/* FILE.html, FILE.2.html, FILE.rank1.html, FILE.rank1.2.html. */
static void name_file(const char *path, const iter_loader *loader, int number, char *out,
                      size_t capacity) {
    iter_loader_options opt = {.struct_size = sizeof(opt)};
    char rank[24] = "", count[16] = "";
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    if (dot == NULL || (slash != NULL && dot < slash)) dot = path + strlen(path);
    if (iter_loader_options_read(loader, &opt, NULL) == ITER_OK && opt.ranks > 1)
        snprintf(rank, sizeof(rank), ".rank%u", opt.rank);
    if (number > 1) snprintf(count, sizeof(count), ".%d", number);
    snprintf(out, capacity, "%.*s%s%s%s", (int)(dot - path), path, rank, count, dot);
}

static void report_file(const watched *w, const char *path, const iter_diagnosis *v) {
    char file[4096];
    iter_error err;
    name_file(path, w->loader, ++list.n_reports, file, sizeof(file));
    if (iter_diagnose_html(w->d, file, &err) < 0)
        fprintf(stderr, "libiter: no verdict was written: %s\n", err.message);
    else
        fprintf(stderr, "libiter: verdict on %s (limit: %s) in %s\n", w->d->name, v->limit_text,
                file);
}

static void report_text(const watched *w, const iter_diagnosis *v) {
    fprintf(stderr, "libiter: verdict on %s, %.1f s watched: %s\n", w->d->name, v->seconds,
            v->text);
    for (int i = 0; i < v->n_changes; i++)
        fprintf(stderr, "libiter:   change %d: %s\n", i + 1, v->changes[i].text);
}

/* list.lock held. */
static void report(const watched *w) {
    const char *asked = secure_getenv("ITER_DIAGNOSE");
    iter_diagnosis v = {.struct_size = sizeof(v)};
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (asked == NULL || iter_loader_stats_read(w->loader, &stats, NULL) < 0 ||
        stats.batches < LEAST_BATCHES || iter_diagnose_read(w->d, &v, NULL) < 0)
        return;
    if (strcmp(asked, "1") == 0)
        report_text(w, &v);
    else
        report_file(w, asked, &v);
}

/* ---- The list -------------------------------------------------------------------------------- */

static void at_exit(void) {
    pthread_mutex_lock(&list.lock);
    while (list.first != NULL) {
        watched *w = list.first;
        list.first = w->next;
        report(w);
        iter_diagnose_stop(w->d);
        free(w);
    }
    pthread_mutex_unlock(&list.lock);
}

/* The parent's watches have no threads here, and another thread may have held the lock. */
static void in_child(void) {
    pthread_mutex_init(&list.lock, NULL);
    list.first = NULL;
}

static void begin(iter_loader *loader) {
    watched *w = calloc(1, sizeof(*w));
    if (w == NULL || diagnose_start(loader, NULL, true, &w->d, NULL) < 0) {
        free(w);
        return;
    }
    w->loader = loader;
    pthread_mutex_lock(&list.lock);
    if (!list.is_set_up)
        list.is_set_up = atexit(at_exit) == 0 && pthread_atfork(NULL, NULL, in_child) == 0;
    w->next = list.first;
    list.first = w;
    pthread_mutex_unlock(&list.lock);
}

static void end(iter_loader *loader) {
    pthread_mutex_lock(&list.lock);
    watched **at = &list.first;
    while (*at != NULL && (*at)->loader != loader)
        at = &(*at)->next;
    watched *w = *at;
    if (w != NULL) {
        *at = w->next;
        report(w);
        iter_diagnose_stop(w->d);
        free(w);
    }
    pthread_mutex_unlock(&list.lock);
}

void iter_diagnose_hook(iter_loader *loader, int32_t ends) {
    if (ends)
        end(loader);
    else
        begin(loader);
}
