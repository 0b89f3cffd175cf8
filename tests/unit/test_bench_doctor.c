/* test_bench_doctor.c - bench/doctor/doctor_container.c: limits from trees of control groups as
 * Linux presents them. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/doctor/doctor.h"

TestSuite(bench_doctor, .timeout = 60);

static char root[64], groups[80];

static void begin(void) {
    snprintf(root, sizeof(root), "/tmp/iter-doctor-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    snprintf(groups, sizeof(groups), "%s/groups", root);
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    if (system(command) != 0) abort();
}

/* Writes a file under the root; makes its folders. */
static void put(const char *path, const char *text) {
    char name[256];
    snprintf(name, sizeof(name), "%s/%s", root, path);
    for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(name, 0700);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(bench_doctor, version_2_the_smallest_on_the_way_up, .init = begin, .fini = end) {
    put("groups", "0::/pod/box\n");
    put("pod/cpu.max", "150000 100000\n");
    put("pod/box/cpu.max", "max 100000\n");
    put("pod/memory.max", "max\n");
    put("pod/box/memory.max", "1073741824\n");
    cr_assert_float_eq(doctor_cpu_limit(groups, root), 1.5, 1e-9);
    cr_assert_float_eq(doctor_memory_limit(groups, root), 1073741824.0, 0.5);
}

Test(bench_doctor, version_2_in_a_container_that_is_its_own_root, .init = begin, .fini = end) {
    put("groups", "0::/\n");
    put("cpu.max", "50000 100000\n");
    cr_assert_float_eq(doctor_cpu_limit(groups, root), 0.5, 1e-9);
    cr_assert(isinf(doctor_memory_limit(groups, root)));
}

Test(bench_doctor, version_1_has_a_tree_for_each_controller, .init = begin, .fini = end) {
    put("groups", "4:memory:/docker/abc\n2:cpuacct:/\n1:cpu:/docker/abc\n0::/\n");
    put("cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put("cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    put("cpu/cpu.cfs_quota_us", "400000\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_float_eq(doctor_cpu_limit(groups, root), 4, 1e-9);
    cr_assert(isinf(doctor_memory_limit(groups, root)));
    /* As a container sees it: the path is the host's, the files are at the root. */
    put("memory/memory.limit_in_bytes", "536870912\n");
    put("groups", "4:memory:/elsewhere/abc\n1:cpu,cpuacct:/elsewhere/abc\n");
    put("cpu,cpuacct/cpu.cfs_quota_us", "25000\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_assert_float_eq(doctor_cpu_limit(groups, root), 0.25, 1e-9);
    cr_assert_float_eq(doctor_memory_limit(groups, root), 536870912.0, 0.5);
}

Test(bench_doctor, no_groups_no_limits, .init = begin, .fini = end) {
    cr_assert(isinf(doctor_cpu_limit(groups, root)));
    put("groups", "nonsense\n0::/none\n");
    cr_assert(isinf(doctor_cpu_limit(groups, root)));
    cr_assert(isinf(doctor_memory_limit(groups, root)));
}
