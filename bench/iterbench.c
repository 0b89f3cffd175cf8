/*
 * iterbench.c - finds the bottleneck in front of a trainer: main() and dispatch.
 */
#include "bench/iterbench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/version.h>

#include "bench/common/bench_option_rows.h"
#include "bench/common/bench_util.h"

static const struct {
    bench_command command;
    int (*run)(const bench_options *options);
    bool loads; /* needs --data and its options */
} commands[] = {
    {BENCH_RUN, cmd_run, true},          {BENCH_LIST, cmd_list, false},
    {BENCH_PLAN, cmd_plan, true},        {BENCH_LIMITS, cmd_limits, true},
    {BENCH_COMPARE, cmd_compare, false}, {BENCH_REPORT, cmd_report, false},
    {BENCH_DOCTOR, cmd_doctor, false},   {BENCH_GENERATE, cmd_generate, false},
    {BENCH_SERVE, cmd_serve, true},      {BENCH_VERSUS, cmd_versus, false},
    {BENCH_VERIFY, cmd_verify, true},    {BENCH_FETCH, cmd_fetch, true},
};

/* NULL if there is no such command. */
static const bench_command_row *find_command(const char *name) {
    for (size_t i = 0; i < bench_n_command_rows; i++)
        if (strcmp(bench_command_rows[i].name, name) == 0) return &bench_command_rows[i];
    return NULL;
}

static int unknown_command(const char *name) {
    iter_error err;
    char names[512] = "", hint[BENCH_HINT];
    for (size_t i = 0; i < bench_n_command_rows; i++)
        bench_names_add(names, sizeof(names), bench_command_rows[i].name);
    bench_fail(&err, ITER_EINVAL, "unknown command '%s'%s", name,
               bench_hint(name, names, "", hint));
    return bench_say(BENCH_USAGE, &err);
}

static int dispatch(int argc, char **argv, int first, bench_command command) {
    bench_options options;
    iter_registry *registry = NULL;
    iter_error err;
    size_t i = 0;
    while (commands[i].command != command)
        i++;
    iter_status s = bench_options_parse(argc, argv, first, command, &options, &err);
    if (s == ITER_OK && commands[i].loads) s = bench_options_check(&options, command, &err);
    if (s < 0) return bench_say(BENCH_USAGE, &err);
    s = bench_path_check(options.json, &err);
    if (s == ITER_OK) s = bench_path_check(options.html, &err);
    if (s == ITER_OK) s = bench_path_check(options.trace, &err);
    if (s == ITER_OK) s = bench_path_check(options.failures, &err);
    if (s == ITER_OK && options.plugins.n > 0) s = bench_registry_create(&options, &registry, &err);
    if (s < 0) return bench_say(BENCH_FAILED, &err);
    options.registry = registry;
    const int status = commands[i].run(&options);
    iter_registry_destroy(registry);
    return status;
}

/* If the disk is full or the pipe closed, that shows only when the last bytes are written. */
static int check_output(int status) {
    iter_error err;
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (status != BENCH_DONE) return status;
    bench_fail(&err, ITER_EIO, "standard output: %s",
               errno != 0 ? strerror(errno) : "cannot be written");
    return bench_say(BENCH_FAILED, &err);
}

/* If an OpenMP team spins while it waits, it takes the cores from the loader (and from a second
 * team: 137 parallel regions a second instead of 7,691 on two cores). The runtime reads this
 * variable when it is loaded, before main(): so the program starts itself once more. */
static void wait_passively(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--model", 7) == 0 && getenv("OMP_WAIT_POLICY") == NULL &&
            setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
            execv("/proc/self/exe", argv); /* if that fails, the run goes on without it */
}

int main(int argc, char **argv) {
    wait_passively(argc, argv);
    const bool named = argc > 1 && argv[1][0] != '-';
    const bench_command_row *row = find_command(named ? argv[1] : "");
    if (row == NULL) return unknown_command(argv[1]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            bench_options_help(row->command, stdout);
            return check_output(BENCH_DONE);
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("iterbench %s\n", iter_version());
            return check_output(BENCH_DONE);
        }
    }
    return check_output(dispatch(argc, argv, named ? 2 : 1, row->command));
}
