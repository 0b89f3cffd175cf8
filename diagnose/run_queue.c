/* run_queue.c - reads /proc/self/task: comm tells whose thread it is, the second number of
 * schedstat is the wait. Linux counts it if it was built with CONFIG_SCHED_INFO; else it stays
 * 0. */
#include "diagnose/run_queue.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Threads of loaders are called iter-..., or iter and the loader's number: iter0-w1. */
static bool is_consumer(const char *task) {
    char path[64], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    if (fgets(name, sizeof(name), file) == NULL) name[0] = '\0';
    fclose(file);
    const bool ours =
        strncmp(name, "iter", 4) == 0 && (name[4] == '-' || isdigit((unsigned char)name[4]));
    return !ours && strncmp(name, "iou-", 4) != 0;
}

static uint64_t delay_of(const char *task) {
    char path[64];
    unsigned long long ran, waited = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", task);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2) waited = 0;
    fclose(file);
    return waited;
}

void run_queue_read(run_queue *out) {
    DIR *tasks = opendir("/proc/self/task");
    out->n = 0;
    for (struct dirent *d;
         tasks != NULL && out->n < RUN_QUEUE_THREADS && (d = readdir(tasks)) != NULL;) {
        if (d->d_name[0] == '.' || !is_consumer(d->d_name)) continue;
        out->threads[out->n].id = atol(d->d_name);
        out->threads[out->n++].ns = delay_of(d->d_name);
    }
    if (tasks != NULL) closedir(tasks);
}

double run_queue_between(const run_queue *before, const run_queue *now, long own, double *out_own) {
    double most = 0;
    if (out_own != NULL) *out_own = 0;
    for (int i = 0; i < now->n; i++)
        for (int k = 0; k < before->n; k++) {
            if (before->threads[k].id != now->threads[i].id ||
                now->threads[i].ns <= before->threads[k].ns)
                continue;
            const double s = (double)(now->threads[i].ns - before->threads[k].ns) * 1e-9;
            most = fmax(most, s);
            if (out_own != NULL && now->threads[i].id == own) *out_own = s;
        }
    return most;
}
