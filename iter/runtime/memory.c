/*
 * memory.c - how much memory this process may still take: what the machine has, and what its control
 * groups leave. A container's limit is far below the machine's, and whoever passes it is killed.
 *
 * Each group on the way to the root may have a limit. Its usage counts the page cache too; of that,
 * what is not in use (inactive_file) goes when memory is asked for, so it counts as free, as `docker
 * stats` and the kubelet count it. Source: Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst of Linux.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/runtime/memory.h"

#define PATH_MAX_HERE 1024

/* Where a hierarchy keeps its numbers. */
typedef struct group_names {
    const char *limit, *usage, *inactive;
} group_names;

static const group_names version_2 = {"memory.max", "memory.current", "inactive_file "};
static const group_names version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file "};

/* The number behind `prefix` at the start of a line of the file; false = there is none ("max"). */
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

/* What this group leaves, if that is less than `least`. */
static uint64_t left_in(const char *folder, const group_names *names, uint64_t least) {
    unsigned long long limit, usage, inactive = 0;
    if (!number_at(folder, names->limit, "", &limit) ||
        !number_at(folder, names->usage, "", &usage))
        return least;
    number_at(folder, "memory.stat", names->inactive, &inactive);
    usage -= inactive < usage ? inactive : usage;
    const uint64_t left = usage < limit ? limit - usage : 0;
    return left < least ? left : least;
}

/* The group `path` below `root` and all above it. A container may see its own group as the root, and
 * yet be told the path that the machine has: then the folders in between are not there. */
static uint64_t left_on_the_way(const char *root, const char *path, const group_names *names,
                                uint64_t least) {
    char folder[PATH_MAX_HERE];
    const int n = snprintf(folder, sizeof(folder), "%s%s", root, path);
    if (n < 0 || n >= (int)sizeof(folder)) return left_in(root, names, least);
    const size_t root_length = strlen(root);
    for (size_t length = (size_t)n; length > root_length; folder[length] = '\0') {
        least = left_in(folder, names, least);
        while (length > root_length && folder[length] != '/')
            length--;
    }
    return left_in(root, names, least);
}

static uint64_t left_in_groups(const char *proc, const char *groups, uint64_t least) {
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
            least = left_on_the_way(groups, group, &version_2, least);
        } else if (strcmp(controllers, "memory") == 0) {
            snprintf(path, sizeof(path), "%s/memory", groups);
            least = left_on_the_way(path, group, &version_1, least);
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
    return left_in_groups(proc, groups, free_bytes);
}
