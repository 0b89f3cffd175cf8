/*
 * resident.h - how much memory this process has and had, for tests of memory limits.
 *
 * Each case runs in a process of its own (run_alone()), so the process's peak is the case's.
 */
#ifndef TESTS_SUPPORT_RESIDENT_H
#define TESTS_SUPPORT_RESIDENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Resident memory says nothing under a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_IS_KNOWN 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RESIDENT_IS_KNOWN 0
#endif
#endif
#ifndef RESIDENT_IS_KNOWN
#define RESIDENT_IS_KNOWN 1
#endif

/* Bytes by their name in /proc/self/status: "VmRSS:" is now, "VmHWM:" the peak. */
static inline size_t resident(const char *name) {
    char line[128];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0) kib = strtoul(line + strlen(name), NULL, 10);
    if (file) fclose(file);
    return kib << 10;
}

/* Runs this program again with these three arguments; returns its wait status. */
static inline int run_alone(const char *a, const char *b, const char *c) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "alone", a, b, c, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    return status;
}

#endif
