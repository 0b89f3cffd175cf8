/*
 * profile_path.c - the name of a trace, so that each process of a run writes a file of its own.
 */
#include <stdio.h>
#include <string.h>

#include "iter/profile/profiler.h"

/* Where the name's ending begins: at the last '.' of its last part, unless that '.' begins the
 * part. */
static size_t ending_of(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return dot && dot != base ? (size_t)(dot - path) : strlen(path);
}

bool iter__profile_path_insert(const char *path, const char *word, char *out, size_t capacity) {
    const size_t at = ending_of(path);
    const int n = snprintf(out, capacity, "%.*s.%s%s", (int)at, path, word, path + at);
    return n >= 0 && (size_t)n < capacity;
}

bool iter__profile_path(const char *pattern, int64_t rank, int64_t process, char *out,
                        size_t capacity) {
    bool says_which = false;
    size_t n = 0;
    char word[32];
    if (capacity == 0) return false;
    for (const char *p = pattern; *p; p++) {
        snprintf(word, sizeof(word), "%c", *p);
        if (p[0] == '%' && (p[1] == 'p' || p[1] == 'r' || p[1] == '%')) {
            p++;
            says_which |= *p != '%';
            if (*p == 'p') snprintf(word, sizeof(word), "%lld", (long long)process);
            if (*p == 'r') snprintf(word, sizeof(word), "%lld", (long long)(rank < 0 ? 0 : rank));
        }
        const size_t length = strlen(word);
        if (length >= capacity - n) return false;
        memcpy(out + n, word, length);
        n += length;
    }
    out[n] = '\0';
    if (says_which || rank < 0 || n == 0) return true;
    const size_t at = ending_of(out);
    const int added = snprintf(word, sizeof(word), ".rank%lld", (long long)rank);
    if (n + (size_t)added >= capacity) return false;
    memmove(out + at + added, out + at, n - at + 1);
    memcpy(out + at, word, (size_t)added);
    return true;
}
