/*
 * doctor.h - checks of this machine, item by item: its state, what that costs, how to improve it.
 */
#ifndef BENCH_DOCTOR_H
#define BENCH_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/common/bench_options.h"

#define DOCTOR_ITEMS_MAX 32

typedef enum doctor_state {
    DOCTOR_OK,
    DOCTOR_NOTE, /* good to know; nothing to improve, or not on this machine */
    DOCTOR_COSTS /* makes loading slower, or its figures worse */
} doctor_state;

typedef struct doctor_item {
    const char *item;
    doctor_state state;
    char value[320], costs[320], mend[320]; /* costs and mend may be "" */
} doctor_item;

/** Measured rates; NaN = not measured. */
typedef struct doctor_rates {
    double copy_one, copy_all;           /* bytes a second by memcpy, one core and all cores */
    double page_cache;                   /* bytes a second by pread of cached pages */
    double disk_sequential, disk_random; /* bytes a second past the page cache */
    double gpu_copy;                     /* bytes a second from page-locked memory to a GPU */
    double clock_ns;                     /* of one reading of the clock */
    double witness_spread;               /* (p90 - p10) / median of the same loop over a second */
    /* share of CPU time that the host took during the measurement */
    double steal_share;
} doctor_rates;

typedef struct doctor {
    const bench_options *options;
    const iter_file *files; /* of --data */
    uint64_t n_files;       /* 0 = no --data, or it reads no files */
    doctor_item items[DOCTOR_ITEMS_MAX];
    int n_items;
    doctor_rates rates;
} doctor;

/** Appends an item with its value. Its cost and remedy may be set later, or stay "". */
doctor_item *doctor_add(doctor *d, const char *item, doctor_state state, const char *value, ...)
    __attribute__((format(printf, 4, 5)));
void doctor_costs(doctor_item *item, const char *text, ...) __attribute__((format(printf, 2, 3)));
void doctor_mend(doctor_item *item, const char *text, ...) __attribute__((format(printf, 2, 3)));

/** First line of a small file, without trailing blanks; false if it cannot be read. */
bool doctor_line(const char *path, char *out, size_t capacity);
/** "KEY: number" or "KEY number" of a file like /proc/meminfo; false if the key is missing. */
bool doctor_number(const char *path, const char *key, unsigned long long *out);

/** Cores, and bytes of memory, that the control groups allow; INFINITY = no limit. `groups` is
 * /proc/self/cgroup, `root` where cgroups are mounted, /sys/fs/cgroup. */
double doctor_cpu_limit(const char *groups, const char *root);
double doctor_memory_limit(const char *groups, const char *root);

/** CPU, cores, memory, as the system reports them. */
void doctor_machine(doctor *d);
/** The first GPU and the link to it; takes half a second if there is one. */
void doctor_gpu(doctor *d);
/** Clock, copies, steadiness, measured in about two seconds. */
void doctor_speed(doctor *d);
/** io_uring, limits, and the fallbacks of a loader. */
void doctor_reading(doctor *d);
/** The disk of the dataset, or of the current folder; about five seconds. */
void doctor_disk(doctor *d);

#endif
