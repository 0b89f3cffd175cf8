/*
 * doctor_container.c - how much of the machine the control groups leave to this process.
 *
 * A limit holds for all groups below it, so the smallest on the way up to the root counts. Both
 * versions of cgroups are read. A container may see its own group as the root while its path is the
 * one outside; so folders that do not exist are skipped.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/doctor/doctor.h"

/* The process's folder under `root`: the line of `groups` with `controller` ("" = version 2). */
static bool group_folder(const char *groups, const char *controller, const char *root, char *out,
                         size_t capacity) {
    char line[512];
    FILE *file = fopen(groups, "re");
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        char *list = strchr(line, ':'), *path = list != NULL ? strchr(list + 1, ':') : NULL;
        if (path == NULL) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = strcmp(list + 1, controller) == 0;
        if (found) snprintf(out, capacity, "%s%s", root, path);
    }
    if (file != NULL) fclose(file);
    return found;
}

/* The smallest answer of `ask` for the group and all groups above it; INFINITY = no limit. Version
 * 1 has a tree for each controller, in a folder of its name. */
static double smallest_limit(const char *groups, const char *root, const char *controller,
                             double (*ask)(const char *folder)) {
    char top[512], folder[1024];
    double least = INFINITY;
    snprintf(top, sizeof(top), "%s%s%s", root, controller[0] != '\0' ? "/" : "", controller);
    if (!group_folder(groups, controller, top, folder, sizeof(folder))) return least;
    for (;;) {
        least = fmin(least, ask(folder));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < strlen(top)) return least;
        *slash = '\0';
    }
}

static bool group_line(const char *folder, const char *name, char *out, size_t capacity) {
    char path[1200];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return doctor_line(path, out, capacity);
}

static double cpu_of_2(const char *folder) {
    char line[128];
    double quota, period;
    if (!group_line(folder, "cpu.max", line, sizeof(line)) ||
        sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0)
        return INFINITY;
    return quota / period;
}

static double cpu_of_1(const char *folder) {
    char quota[64], period[64];
    if (!group_line(folder, "cpu.cfs_quota_us", quota, sizeof(quota)) ||
        !group_line(folder, "cpu.cfs_period_us", period, sizeof(period)) || atof(quota) <= 0 ||
        atof(period) <= 0)
        return INFINITY;
    return atof(quota) / atof(period);
}

static double memory_of(const char *folder, const char *name) {
    char line[64];
    if (!group_line(folder, name, line, sizeof(line)) || line[0] < '0' || line[0] > '9')
        return INFINITY;
    const double bytes = atof(line);
    return bytes < 9e18 ? bytes : INFINITY; /* version 1 writes 2^63 less a page for no limit */
}

static double memory_of_2(const char *folder) {
    return memory_of(folder, "memory.max");
}

static double memory_of_1(const char *folder) {
    return memory_of(folder, "memory.limit_in_bytes");
}

/* ---- Public ---------------------------------------------------------------------------------- */

double doctor_cpu_limit(const char *groups, const char *root) {
    double least = smallest_limit(groups, root, "", cpu_of_2);
    least = fmin(least, smallest_limit(groups, root, "cpu", cpu_of_1));
    return fmin(least, smallest_limit(groups, root, "cpu,cpuacct", cpu_of_1));
}

double doctor_memory_limit(const char *groups, const char *root) {
    return fmin(smallest_limit(groups, root, "", memory_of_2),
                smallest_limit(groups, root, "memory", memory_of_1));
}
