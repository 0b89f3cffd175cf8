/*
 * test_machine.c - free memory and cores under control groups, by trees of files as the kernel
 * presents them. The numbers are Linux's rules (admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst)
 * worked out by hand.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "iter/core/machine.h"

static char root[64], proc[80], groups[80];

static void put(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

static void set_up(void) {
    snprintf(root, sizeof(root), "/tmp/iter-memory-XXXXXX");
    cr_assert(mkdtemp(root));
    snprintf(proc, sizeof(proc), "%s/proc", root);
    snprintf(groups, sizeof(groups), "%s/groups", root);
    put("proc/meminfo", "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n");
}

static void tear_down(void) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(machine, .init = set_up, .fini = tear_down);

static unsigned long long left(void) {
    return iter__memory_free(proc, groups);
}

Test(machine, without_groups_what_the_machine_has) {
    cr_assert_eq(left(), 1000 * 1024);
    put("proc/self/cgroup", "0::/\n");
    cr_assert_eq(left(), 1000 * 1024, "a root without limits");
}

Test(machine, version_2) {
    put("proc/self/cgroup", "1:name=systemd:/x\n0::/pod/box\n");
    put("groups/pod/box/memory.max", "max\n");
    put("groups/pod/box/memory.current", "1000\n");
    cr_assert_eq(left(), 1000 * 1024, "no limit");
    put("groups/pod/box/memory.max", "500000\n");
    put("groups/pod/box/memory.current", "300000\n");
    cr_assert_eq(left(), 200000);
    put("groups/pod/box/memory.stat", "anon 100\ninactive_file 50000\nactive_file 7\n");
    cr_assert_eq(left(), 250000, "page cache that is not in use goes");
    put("groups/pod/memory.max", "400000\n");
    put("groups/pod/memory.current", "350000\n");
    cr_assert_eq(left(), 50000, "the group above has less");
    put("groups/pod/box/memory.current", "600000\n");
    put("groups/pod/box/memory.stat", "inactive_file 0\n");
    cr_assert_eq(left(), 0, "over the limit");
}

Test(machine, version_1) {
    put("proc/self/cgroup", "4:memory:/box\n0::/\n");
    put("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("groups/memory/memory.usage_in_bytes", "700000\n");
    cr_assert_eq(left(), 1000 * 1024, "that number is none");
    put("groups/memory/box/memory.limit_in_bytes", "90000\n");
    put("groups/memory/box/memory.usage_in_bytes", "50000\n");
    put("groups/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 20000\n");
    cr_assert_eq(left(), 60000);
}

Test(machine, a_container_that_is_told_the_path_of_the_machine) {
    put("proc/self/cgroup", "0::/kubepods/pod1/abc\n");
    put("groups/memory.max", "64000\n");
    put("groups/memory.current", "4000\n");
    cr_assert_eq(left(), 60000);
}

/* ---- Cores ----------------------------------------------------------------------------------- */

static uint32_t cores(void) {
    return iter__cores(proc, groups);
}

/* The test machine may have only one core, for which all limits below are the same. */
Test(machine, cores_of_version_2) {
    const uint32_t all = cores();
    cr_assert_geq(all, 1);
    put("proc/self/cgroup", "0::/pod/box\n");
    put("groups/pod/box/cpu.max", "max 100000\n");
    cr_assert_eq(cores(), all, "no limit");
    put("groups/pod/box/cpu.max", "50000 100000\n");
    cr_assert_eq(cores(), 1, "half a core is one");
    put("groups/pod/box/cpu.max", "100000000 100000\n");
    cr_assert_eq(cores(), all, "more than there are");
    put("groups/pod/cpu.max", "100000 100000\n");
    cr_assert_eq(cores(), 1, "a group above has less");
    put("groups/pod/cpu.max", "150000 100000\n");
    cr_assert_eq(cores(), all < 2 ? all : 2, "one and a half are two");
}

Test(machine, cores_of_version_1) {
    const uint32_t all = cores();
    put("proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n");
    put("groups/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
    put("groups/cpu/docker/x/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(cores(), all, "no limit");
    put("groups/cpu/docker/x/cpu.cfs_quota_us", "20000\n");
    cr_assert_eq(cores(), 1);
}

static void *narrow(void *arg) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    for (int i = 0, n = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set) && n++) CPU_CLR(i, &set);
    }
    sched_setaffinity(0, sizeof(set), &set); /* of this thread alone */
    *(uint32_t *)arg = cores();
    return NULL;
}

Test(machine, cores_of_the_affinity) {
    pthread_t thread;
    uint32_t n = 0;
    cr_assert_eq(pthread_create(&thread, NULL, narrow, &n), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(n, 1);
}

/* "" = not set. */
static uint32_t ranks_by(const char *name, const char *value, uint32_t ranks) {
    setenv(name, value, 1);
    if (!value[0]) unsetenv(name);
    const uint32_t n = iter__local_ranks(0, ranks);
    unsetenv(name);
    return n;
}

/* By the manuals of torchrun, Open MPI, MPICH, MVAPICH and Slurm. */
Test(machine, local_ranks_of_the_launcher) {
    cr_expect_eq(iter__local_ranks(0, 0), 1);
    cr_expect_eq(iter__local_ranks(0, 1), 1);
    cr_expect_eq(iter__local_ranks(0, 8), 8);
    cr_expect_eq(iter__local_ranks(3, 8), 3);
    cr_expect_eq(iter__local_ranks(9, 8), 8);
    cr_expect_eq(iter__local_ranks(4, 0), 4, "jobs of their own on one machine");
    cr_expect_eq(ranks_by("LOCAL_WORLD_SIZE", "4", 16), 4);
    cr_expect_eq(ranks_by("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 16), 4);
    cr_expect_eq(ranks_by("MPI_LOCALNRANKS", "2", 16), 2);
    cr_expect_eq(ranks_by("MV2_COMM_WORLD_LOCAL_SIZE", "2", 16), 2);
    cr_expect_eq(ranks_by("SLURM_STEP_TASKS_PER_NODE", "4(x2),3", 11), 4);
    cr_expect_eq(ranks_by("LOCAL_WORLD_SIZE", "4", 2), 2, "this run has fewer");
    cr_expect_eq(ranks_by("LOCAL_WORLD_SIZE", "4", 0), 4, "the launcher has four that are alone");
    for (const char *const *bad = (const char *const[]){"", "0", "-3", "many", "99999999999", NULL};
         *bad; bad++)
        cr_expect_eq(ranks_by("LOCAL_WORLD_SIZE", *bad, 8), 8, "%s", *bad);
}
