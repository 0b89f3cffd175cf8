/* bench_help.c - prints `iterbench --help` and `iterbench COMMAND --help`. */
#include <string.h>

#include "bench/common/bench_option_rows.h"
#include "bench/common/page.h"

#define USAGE_COLUMNS  46
#define OPTION_COLUMNS 30

static void write_usage(const page *p, const bench_command_row *row) {
    char line[96];
    snprintf(line, sizeof(line), "  iterbench %s%s%s", row->name, row->name[0] != '\0' ? " " : "",
             row->arguments);
    page_row(p, USAGE_COLUMNS, line, PAGE_PLAIN, "%s", row->help);
}

static void write_option(const page *p, const option_row *row) {
    char left[96];
    snprintf(left, sizeof(left), "  --%s%s%s", row->name, row->value != NULL ? " " : "",
             row->value != NULL ? row->value : "");
    page_row(p, OPTION_COLUMNS, left, PAGE_PLAIN, "%s", row->help);
}

static void write_commands(const page *p) {
    fputs("iterbench: measures loaders of training data, and finds what limits a run\n\nusage:\n",
          p->out);
    for (size_t i = 0; i < bench_n_command_rows; i++)
        write_usage(p, &bench_command_rows[i]);
    page_row(p, USAGE_COLUMNS, "  iterbench COMMAND --help", PAGE_PLAIN,
             "the options of one command");
    fputs("  iterbench --help | --version\n\n", p->out);
    page_text(p, 0, PAGE_PLAIN, "options of a run; defaults are in brackets:");
}

void bench_options_help(bench_command command, FILE *out) {
    const page p = page_of(out);
    if (command == BENCH_RUN) {
        write_commands(&p);
    } else {
        fputs("usage:\n", out);
        write_usage(&p, bench_command_of(command));
        fputs("\noptions; defaults are in brackets:\n", out);
    }
    for (size_t i = 0; i < bench_n_option_rows; i++)
        if (bench_option_rows[i].commands & command) write_option(&p, &bench_option_rows[i]);
    fputc('\n', out);
    page_text(
        &p, 0, PAGE_PLAIN,
        "exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted by ^C, 143 terminated");
}
