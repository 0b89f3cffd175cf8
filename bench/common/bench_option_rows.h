/*
 * bench_option_rows.h - the tables of the command line: one row for each command and each option.
 *
 * Parser, checks and help all read these rows.
 */
#ifndef BENCH_OPTION_ROWS_H
#define BENCH_OPTION_ROWS_H

#include <stddef.h>

#include "bench/common/bench_options.h"

typedef enum option_kind {
    TEXT,
    TEXTS, /* may be given several times */
    COUNT,
    SIZE,
    REAL,
    CHOICE,
    FLAG,
    WORKERS,
    RANKS,
    START,
    DEVICE
} option_kind;

typedef struct option_row {
    const char *name;
    option_kind kind;
    size_t offset;     /* where the value goes in bench_options */
    const char *value; /* CHOICE: the words; else the name of the value in the help */
    int32_t base;      /* CHOICE: number of the first word */
    uint64_t min, max; /* COUNT and SIZE */
    unsigned commands; /* bench_command bits: the commands that know it */
    const char *help;
} option_row;

extern const option_row bench_option_rows[];
extern const size_t bench_n_option_rows;

typedef struct bench_command_row {
    bench_command command;
    const char *name;      /* "" = no command: a run */
    const char *arguments; /* what follows it */
    const char *help;
} bench_command_row;

extern const bench_command_row bench_command_rows[];
extern const size_t bench_n_command_rows;

/** The row of a command; every command has one. */
const bench_command_row *bench_command_of(bench_command command);

#endif
