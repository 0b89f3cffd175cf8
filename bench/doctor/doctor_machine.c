/*
 * doctor_machine.c - what the system reports: processor, cores, memory, limits of the container,
 * and settings that matter to loaders and trainers.
 */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <iter/convert.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"

#define GIB ((double)((uint64_t)1 << 30))

/* ---- Processor ------------------------------------------------------------------------------- */

static const char *best_level(void) {
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "avx512";
    if (__builtin_cpu_supports("avx2")) return "avx2";
    return "generic";
#else
    return iter_cpu_level();
#endif
}

static void add_cpu(doctor *d) {
    const bench_machine m = bench_machine_here();
    const char *has = best_level(), *uses = m.isa, *wish = getenv("ITER_CPU");
    const bool same = strcmp(has, uses) == 0;
    doctor_item *item = doctor_add(d, "cpu", same ? DOCTOR_OK : DOCTOR_COSTS,
                                   "%s; it has %s, in use is %s", m.cpu, has, uses);
    if (same) return;
    doctor_costs(item, "conversion and the trainer's own kernels work with narrower registers");
    if (wish != NULL) doctor_mend(item, "unset ITER_CPU (it is %s)", wish);
}

static void add_cores(doctor *d) {
    const int allowed = bench_machine_here().cores;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const double quota = doctor_cpu_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    const bool short_ = quota < allowed;
    const bool note = allowed < online || allowed == 1;
    char limit[64] = "no limit by a container";
    if (isfinite(quota)) snprintf(limit, sizeof(limit), "a container's limit of %.3g", quota);
    doctor_item *item = doctor_add(d, "cores",
                                   short_ ? DOCTOR_COSTS
                                   : note ? DOCTOR_NOTE
                                          : DOCTOR_OK,
                                   "%ld online, %d allowed, %s", online, allowed, limit);
    if (short_) {
        doctor_costs(item,
                     "if more than %.3g cores' worth of threads run, all are stopped for a part of "
                     "every period, also the one that makes the next batch",
                     quota);
        doctor_mend(item, "workers and trainer threads together at most %d; or a higher limit",
                    quota < 1 ? 1 : (int)quota);
    } else if (allowed == 1) {
        doctor_costs(item, "workers cannot run beside the trainer");
        doctor_mend(item, "workers 0: batches are then made in the trainer's thread");
    } else if (allowed < online) {
        doctor_costs(item, "the affinity mask keeps this process off %ld cores", online - allowed);
        doctor_mend(item, "taskset -c 0-%ld, unless other programs need them", online - 1);
    }
}

static void add_smt(doctor *d) {
    char line[16];
    if (!doctor_line("/sys/devices/system/cpu/smt/active", line, sizeof(line))) {
        doctor_add(d, "smt", DOCTOR_OK, "not told");
        return;
    }
    if (strcmp(line, "1") != 0) {
        doctor_add(d, "smt", DOCTOR_OK,
                   "off: each core is a whole one, as far as this system reports");
        return;
    }
    doctor_item *item =
        doctor_add(d, "smt", DOCTOR_NOTE, "on: pairs of these cores share a physical core");
    doctor_costs(item, "two threads on one physical core do less than two cores' work");
    doctor_mend(item, "count cores by lscpu -e=core when choosing workers and threads");
}

static void add_numa(doctor *d) {
    DIR *folder = opendir("/sys/devices/system/node");
    int nodes = 0;
    const struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        nodes += strncmp(entry->d_name, "node", 4) == 0 && entry->d_name[4] >= '0' &&
                 entry->d_name[4] <= '9';
    if (folder != NULL) closedir(folder);
    doctor_item *item = doctor_add(d, "numa", nodes > 1 ? DOCTOR_NOTE : DOCTOR_OK, "%d node%s",
                                   nodes > 0 ? nodes : 1, nodes > 1 ? "s" : "");
    if (nodes < 2) return;
    doctor_costs(item, "a batch made on one node and read on another comes over the link");
    doctor_mend(item, "numactl --cpunodebind=0 --membind=0, one process a node");
}

static void add_governor(doctor *d) {
    char line[64];
    if (!doctor_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof(line))) {
        doctor_add(d, "frequency", DOCTOR_OK, "governor unknown, as on virtual machines");
        return;
    }
    const bool fast = strcmp(line, "performance") == 0;
    doctor_item *item =
        doctor_add(d, "frequency", fast ? DOCTOR_OK : DOCTOR_NOTE, "governor %s", line);
    if (fast) return;
    doctor_costs(item, "idle cores start slowly: short batches take longer, rates vary");
    doctor_mend(item, "cpupower frequency-set -g performance, while measuring");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void add_memory(doctor *d) {
    unsigned long long total = 0, available = 0, swap = 0, swap_free = 0;
    (void)doctor_number("/proc/meminfo", "MemTotal", &total);
    (void)doctor_number("/proc/meminfo", "MemAvailable", &available);
    (void)doctor_number("/proc/meminfo", "SwapTotal", &swap);
    (void)doctor_number("/proc/meminfo", "SwapFree", &swap_free);
    const double limit = doctor_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup"),
                 free_ = (double)available * 1024;
    const bool swapped = swap > swap_free;
    char text[64] = "no limit by a container";
    if (isfinite(limit))
        snprintf(text, sizeof(text), "a container's limit of %.1f GiB", limit / GIB);
    doctor_item *item = doctor_add(d, "memory", swapped ? DOCTOR_COSTS : DOCTOR_OK,
                                   "%.1f GiB, %.1f available, %s%s", (double)total * 1024 / GIB,
                                   free_ / GIB, text, swapped ? ", some of it swapped out" : "");
    if (swapped) {
        doctor_costs(item, "arrays and slots that were swapped out come back page by page");
        doctor_mend(item, "swapoff -a, if memory has room for it");
    }
}

static void add_huge_pages(doctor *d) {
    char line[128], *begin = NULL, *end = NULL;
    unsigned long long explicit_ = 0;
    (void)doctor_number("/proc/meminfo", "HugePages_Total", &explicit_);
    if (doctor_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line))) {
        begin = strchr(line, '[');
        end = begin != NULL ? strchr(begin, ']') : NULL;
    }
    if (end != NULL) *end = '\0';
    const char *mode = end != NULL ? begin + 1 : "not told";
    const bool good = strcmp(mode, "always") == 0 || strcmp(mode, "madvise") == 0;
    doctor_item *item =
        doctor_add(d, "huge pages", good ? DOCTOR_OK : DOCTOR_COSTS,
                   "transparent ones: %s; %llu explicit ones, which are not used", mode, explicit_);
    if (good) return;
    doctor_costs(item, "shuffled rows out of large arrays miss the TLB, a page walk each");
    doctor_mend(item, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void add_slack(doctor *d) {
    const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    doctor_add(d, "timer slack", DOCTOR_OK,
               "%d ns: sleeps may end so much later; waiting for batches does not sleep by time",
               slack);
}

static void add_openmp(doctor *d) {
    const char *policy = getenv("OMP_WAIT_POLICY"), *threads = getenv("OMP_NUM_THREADS");
    const bool passive = policy != NULL && strcmp(policy, "passive") == 0;
    doctor_item *item = doctor_add(
        d, "openmp", passive ? DOCTOR_OK : DOCTOR_NOTE, "OMP_WAIT_POLICY %s, OMP_NUM_THREADS %s",
        policy != NULL ? policy : "not set", threads != NULL ? threads : "not set");
    if (passive) return;
    doctor_costs(item,
                 "a trainer's team that spins while it waits takes the cores from the workers "
                 "and from a second team");
    doctor_mend(item, "export OMP_WAIT_POLICY=passive before the trainer starts; iterbench --model "
                      "does so by itself");
}

/* ---- Public ---------------------------------------------------------------------------------- */

void doctor_machine(doctor *d) {
    add_cpu(d);
    add_cores(d);
    add_smt(d);
    add_numa(d);
    add_governor(d);
    add_memory(d);
    add_huge_pages(d);
    add_slack(d);
    add_openmp(d);
}
