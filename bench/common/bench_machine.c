/* bench_machine.c - describes the machine of a result: /proc/cpuinfo, uname, and the cores that the
 * affinity mask leaves. */
#include "bench/common/bench_machine.h"

#include <sched.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <iter/convert.h>
#include <iter/version.h>

#ifndef ITERBENCH_GIT
#define ITERBENCH_GIT "unknown"
#endif

static void read_model(char *out, size_t capacity) {
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, capacity, "unknown");
    if (file == NULL) return;
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL) continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, capacity, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    fclose(file);
}

bench_machine bench_machine_here(void) {
    bench_machine m = {.isa = iter_cpu_level()};
    struct utsname name;
    cpu_set_t set;
    read_model(m.cpu, sizeof(m.cpu));
    m.cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                           : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&name) == 0)
        snprintf(m.kernel, sizeof(m.kernel), "%.40s %.80s", name.sysname, name.release);
    m.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    return m;
}

const char *bench_git(void) {
    return ITERBENCH_GIT;
}

void bench_machine_json(json_writer *w) {
    bench_machine m = bench_machine_here();
    json_text(w, "version", iter_version());
    json_text(w, "git", bench_git());
    json_begin(w, "machine", '{');
    json_text(w, "cpu", m.cpu);
    json_integer(w, "cores", m.cores);
    json_text(w, "isa", m.isa);
    json_text(w, "kernel", m.kernel);
    json_count(w, "memory_bytes", m.memory_bytes);
    json_end(w);
}
