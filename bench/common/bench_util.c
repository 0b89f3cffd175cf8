/*
 * bench_util.c - clocks, memory, one-line errors and hints for iterbench.
 *
 * Big arrays are mapped with MADV_HUGEPAGE, because a shuffled gather over small pages measures the
 * TLB.
 */
#include "bench/common/bench_util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define HUGE_BYTES ((size_t)2 << 20)

static size_t mapped_bytes(size_t bytes) {
    return (bytes / HUGE_BYTES + 1) * HUGE_BYTES;
}

iter_status bench_fail(iter_error *err, iter_status status, const char *format, ...) {
    if (err != NULL) {
        char text[sizeof(err->message)]; /* arguments may point into err */
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        iter_text_escape(text, err->message, sizeof(err->message));
    }
    return status;
}

void bench_names_add(char *names, size_t capacity, const char *name) {
    const size_t used = strlen(names), bar = used > 0;
    if (strlen(name) + bar < capacity - used)
        snprintf(names + used, capacity - used, "%s%s", bar ? "|" : "", name);
}

const char *bench_hint(const char *wanted, const char *names, const char *prefix,
                       char out[BENCH_HINT]) {
    char nearest[48];
    iter_text_nearest(wanted, names, nearest, sizeof(nearest));
    out[0] = '\0';
    if (nearest[0] != '\0') snprintf(out, BENCH_HINT, "; did you mean '%s%s'?", prefix, nearest);
    return out;
}

uint64_t bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double bench_now(void) {
    return (double)bench_now_ns() * 1e-9;
}

uint64_t bench_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_peak_rss(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024u;
}

void bench_sleep(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) < 0 && errno == EINTR) {
    }
}

void *bench_map(size_t bytes) {
    size_t size = mapped_bytes(bytes);
    /* One huge page more, so that the first byte can be aligned to a huge page. */
    uint8_t *raw =
        mmap(NULL, size + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t skip = (HUGE_BYTES - (uintptr_t)raw % HUGE_BYTES) % HUGE_BYTES;
    if (skip > 0) munmap(raw, skip);
    if (skip < HUGE_BYTES) munmap(raw + skip + size, HUGE_BYTES - skip);
    madvise(raw + skip, size, MADV_HUGEPAGE);
    return raw + skip;
}

void bench_unmap(void *memory, size_t bytes) {
    if (memory != NULL) munmap(memory, mapped_bytes(bytes));
}

void bench_spin(uint64_t turns) {
    volatile uint64_t sink;
    uint64_t x = 88172645463325252u;
    for (uint64_t i = 0; i < turns; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
    (void)sink;
}
