/*
 * doctor.h - what this machine gives, item by item: what it is, what that costs, how to mend it.
 */
#ifndef BENCH_DOCTOR_H
#define BENCH_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/common/bench_options.h"

#define DOCTOR_ITEMS_MAX 32

typedef enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE, /* good to know; nothing to mend, or not on this machine */
    DOCTOR_COSTS /* makes loading slower, or its figures worse */
} doctor_state;

typedef struct doctor_item {
    const char *item;
    doctor_state state;
    char value[320], costs[320], mend[320]; /* costs and mend may be "" */
} doctor_item;

/** Measured; NaN = not measured. */
typedef struct doctor_rates {
    double copy_one, copy_all;           /* bytes a second by memcpy, one core and all of them */
    double page_cache;                   /* bytes a second by pread, what was read before */
    double disk_sequential, disk_random; /* bytes a second past the page cache */
    double gpu_copy;                     /* bytes a second from page-locked memory to a GPU */
    double clock_ns;                     /* of one reading of the clock */
    double witness_spread;               /* (p90 - p10) / median of the same loop over a second */
    double steal_share;                  /* of CPU time that others took meanwhile */
} doctor_rates;

typedef struct doctor {
    const bench_options *options;
    const iter_file *files; /* of --data */
    uint64_t n_files;       /* 0 = no --data, or none that reads files */
    doctor_item items[DOCTOR_ITEMS_MAX];
    int n_items;
    doctor_rates rates;
} doctor;

/** Appends an item with its value; what it costs and how to mend it follow, or stay "". */
doctor_item *doctor_add(doctor *d, const char *item, doctor_state state, const char *value, ...)
    __attribute__((format(printf, 4, 5)));
void doctor_costs(doctor_item *item, const char *text, ...) __attribute__((format(printf, 2, 3)));
void doctor_mend(doctor_item *item, const char *text, ...) __attribute__((format(printf, 2, 3)));

/** First line of a small file, without blanks at its end; false where it cannot be read. */
bool doctor_line(const char *path, char *out, size_t capacity);
/** "KEY: number" or "KEY number" of a file like /proc/meminfo; false where it has none. */
bool doctor_number(const char *path, const char *key, unsigned long long *out);

/** Cores, and bytes of memory, that the control groups allow; INFINITY = no limit. `groups` is
 * /proc/self/cgroup, `root` where cgroups are mounted, /sys/fs/cgroup. */
double doctor_cpu_limit(const char *groups, const char *root);
double doctor_memory_limit(const char *groups, const char *root);

/** CPU, cores, memory: what the system says. */
void doctor_machine(doctor *d);
/** The first GPU, and the way there; half a second where there is one. */
void doctor_gpu(doctor *d);
/** Clock, copies, steadiness: what is measured, in about two seconds. */
void doctor_speed(doctor *d);
/** io_uring, limits, and what a loader falls back to. */
void doctor_reading(doctor *d);
/** The disk under the dataset, or under the present folder; about five seconds. */
void doctor_disk(doctor *d);

#endif
