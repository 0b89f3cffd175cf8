/*
 * machine.c - how much memory and how many cores this process may still use: the machine's, and
 * less if its control groups have limits. A container's limits are far below the machine's: a
 * process that uses more memory is killed, and one that runs on more cores is throttled.
 *
 * Each group up to the root may have a limit. Its usage includes the page cache. The part of it
 * that is not in use (inactive_file) is evicted if memory is needed, so it counts as free, as in
 * `docker stats` and the kubelet. Source: Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst of Linux.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/machine.h"

#define PATH_MAX_HERE 1024

/* Names of the files where a hierarchy keeps its numbers. */
typedef struct group_names {
    const char *limit, *usage, *inactive; /* bytes */
    const char *cpu;                      /* version 2: "quota period"; version 1: the quota */
    const char *period;                   /* version 1: of its own */
} group_names;

static const group_names version_2 = {"memory.max", "memory.current", "inactive_file ", "cpu.max",
                                      NULL};
static const group_names version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file ", "cpu.cfs_quota_us",
                                      "cpu.cfs_period_us"};

/* The smaller of `least` and what one group leaves. */
typedef uint64_t look(const char *folder, const group_names *names, uint64_t least);

/* The number after `prefix` at the start of a line of the file; false = there is none ("max"). */
static bool number_in(const char *path, const char *prefix, unsigned long long *out) {
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;
    const size_t skip = strlen(prefix);
    while (file && !found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, prefix, skip) != 0) continue;
        char *end;
        *out = strtoull(line + skip, &end, 10);
        found = end != line + skip;
    }
    if (file) fclose(file);
    return found;
}

static bool number_at(const char *folder, const char *name, const char *prefix,
                      unsigned long long *out) {
    char path[PATH_MAX_HERE + 64];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof(path) && number_in(path, prefix, out);
}

static uint64_t memory_in(const char *folder, const group_names *names, uint64_t least) {
    unsigned long long limit, usage, inactive = 0;
    if (!number_at(folder, names->limit, "", &limit) ||
        !number_at(folder, names->usage, "", &usage))
        return least;
    number_at(folder, "memory.stat", names->inactive, &inactive);
    usage -= inactive < usage ? inactive : usage;
    const uint64_t left = usage < limit ? limit - usage : 0;
    return left < least ? left : least;
}

/* Cores that the group grants: microseconds of CPU time in a period. */
static uint64_t cores_in(const char *folder, const group_names *names, uint64_t least) {
    unsigned long long quota, period = 0;
    if (!number_at(folder, names->cpu, "", &quota)) return least; /* "max" */
    if (names->period) {
        if (!number_at(folder, names->period, "", &period)) return least;
    } else {
        char text[32]; /* the period is the second number of the line */
        snprintf(text, sizeof(text), "%llu ", quota);
        if (!number_at(folder, names->cpu, text, &period)) return least;
    }
    if (quota == 0 || period == 0 || quota > INT64_MAX) return least; /* -1: no limit */
    const uint64_t cores = (quota + period - 1) / period;
    return cores < least ? cores : least;
}

/* The least that the group `path` below `root` and all groups above it leave. A container may see
 * its own group as the root, but get the machine's path of it: then the folders in between do not
 * exist. */
static uint64_t left_on_the_way(const char *root, const char *path, look *at,
                                const group_names *names, uint64_t least) {
    char folder[PATH_MAX_HERE];
    const int n = snprintf(folder, sizeof(folder), "%s%s", root, path);
    if (n < 0 || n >= (int)sizeof(folder)) return at(root, names, least);
    const size_t root_length = strlen(root);
    for (size_t length = (size_t)n; length > root_length; folder[length] = '\0') {
        least = at(folder, names, least);
        while (length > root_length && folder[length] != '/')
            length--;
    }
    return at(root, names, least);
}

/* Whether a comma-separated list has this word. */
static bool has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
    }
    return false;
}

/* The same for the controller "memory" or "cpu". */
static uint64_t left_in_groups(const char *proc, const char *groups, const char *controller,
                               look *at, uint64_t least) {
    char path[PATH_MAX_HERE], line[PATH_MAX_HERE];
    snprintf(path, sizeof(path), "%s/self/cgroup", proc);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        if (strcmp(group, "/") == 0) group++;
        controllers++;
        if (!controllers[0]) {
            least = left_on_the_way(groups, group, at, &version_2, least);
        } else if (has_word(controllers, controller)) {
            snprintf(path, sizeof(path), "%s/%s", groups, controller);
            least = left_on_the_way(path, group, at, &version_1, least);
        }
    }
    if (file) fclose(file);
    return least;
}

uint64_t iter__memory_free(const char *proc, const char *groups) {
    char path[PATH_MAX_HERE];
    unsigned long long kib;
    uint64_t free_bytes = (uint64_t)1 << 30;
    const long pages = sysconf(_SC_AVPHYS_PAGES);
    snprintf(path, sizeof(path), "%s/meminfo", proc);
    if (number_in(path, "MemAvailable:", &kib))
        free_bytes = kib * 1024;
    else if (pages > 0)
        free_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return left_in_groups(proc, groups, "memory", memory_in, free_bytes);
}

/* Cores of the affinity mask, however many the machine has; 0 = not known. */
static uint32_t cores_by_affinity(void) {
    for (int n = 1024; n <= 1 << 20; n *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        if (!set) return 0;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        const int count = known ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (known) return (uint32_t)count;
    }
    return 0;
}

uint32_t iter__cores(const char *proc, const char *groups) {
    uint64_t cores = cores_by_affinity();
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores == 0) cores = online > 0 ? (uint64_t)online : 1;
    cores = left_in_groups(proc, groups, "cpu", cores_in, cores);
    return cores < 1 ? 1 : (uint32_t)cores;
}

uint32_t iter__cores_share(uint32_t cores, uint32_t local_ranks) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const bool bound = online > 0 && cores_by_affinity() < (uint64_t)online;
    if (bound || local_ranks <= 1) return cores;
    return cores > local_ranks ? cores / local_ranks : 1;
}
