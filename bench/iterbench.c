/*
 * iterbench.c - finds the bottleneck in front of a trainer: main() and dispatch.
 */
#include "iterbench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/version.h>

#include "bench_util.h"

static const struct {
    const char *name;
    bench_command command;
    int (*run)(const bench_options *options);
    bool loads; /* needs --data, and what belongs to it */
} commands[] = {
    {"list", BENCH_LIST, cmd_list, false},
    {"plan", BENCH_PLAN, cmd_plan, true},
    {"limits", BENCH_LIMITS, cmd_limits, true},
    {"compare", BENCH_COMPARE, cmd_compare, false},
    {"report", BENCH_REPORT, cmd_report, false},
    {"doctor", BENCH_DOCTOR, cmd_doctor, false},
    {"generate", BENCH_GENERATE, cmd_generate, false},
    {"serve", BENCH_SERVE, cmd_serve, true},
    {"versus", BENCH_VERSUS, cmd_versus, false},
};

static int dispatch(int argc, char **argv, int first, bench_command command,
                    int (*run)(const bench_options *), bool loads) {
    bench_options options;
    iter_error err;
    iter_status s = bench_options_parse(argc, argv, first, command, &options, &err);
    if (s == ITER_OK && loads) s = bench_options_check(&options, command, &err);
    if (s < 0) return bench_say(BENCH_USAGE, &err);
    s = bench_path_check(options.json, &err);
    if (s == ITER_OK) s = bench_path_check(options.html, &err);
    if (s == ITER_OK) s = bench_path_check(options.trace, &err);
    if (s == ITER_OK) s = bench_path_check(options.failures, &err);
    return s < 0 ? bench_say(BENCH_FAILED, &err) : run(&options);
}

/* An OpenMP team that spins while it waits takes the cores from the loader (and from a second team:
 * 137 parallel regions a second instead of 7,691 on two cores). The runtime reads this variable when
 * it is loaded, that is before main(): so the program starts itself once more. */
static void wait_passively(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--model", 7) == 0 && getenv("OMP_WAIT_POLICY") == NULL &&
            setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
            execv("/proc/self/exe", argv); /* where it cannot, it goes on as it is */
}

int main(int argc, char **argv) {
    wait_passively(argc, argv);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            bench_options_help(stdout);
            return BENCH_DONE;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("iterbench %s\n", iter_version());
            return BENCH_DONE;
        }
    }
    if (argc < 2 || argv[1][0] == '-') return dispatch(argc, argv, 1, BENCH_RUN, cmd_run, true);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return dispatch(argc, argv, 2, commands[i].command, commands[i].run, commands[i].loads);
    iter_error err;
    bench_fail(&err, ITER_EINVAL, "unknown command '%s'", argv[1]);
    return bench_say(BENCH_USAGE, &err);
}
