/* bench_help.c - what `iterbench --help` and `iterbench COMMAND --help` print. */
#include <string.h>

#include "bench_option_rows.h"
#include "page.h"

#define OPTION_COLUMNS 30

static void write_usage(const page *p, const bench_command_row *row) {
    char line[96];
    snprintf(line, sizeof(line), "  iterbench %s%s%s", row->name, row->name[0] != '\0' ? " " : "",
             row->arguments);
    page_row(p, 46, line, PAGE_PLAIN, "%s", row->help);
}

static void write_option(const page *p, const option_row *row) {
    char left[96];
    snprintf(left, sizeof(left), "  --%s%s%s", row->name, row->value != NULL ? " " : "",
             row->value != NULL ? row->value : "");
    page_row(p, OPTION_COLUMNS, left, PAGE_PLAIN, "%s", row->help);
}

static void write_commands(const page *p) {
    fputs("usage:\n", p->out);
    for (size_t i = 0; i < bench_n_command_rows; i++)
        write_usage(p, &bench_command_rows[i]);
    fputs("  iterbench COMMAND --help                    the options of one command\n"
          "  iterbench --help | --version\n"
          "\noptions of a run; in brackets is what holds without the option:\n",
          p->out);
}

void bench_options_help(bench_command command, FILE *out) {
    const page p = page_of(out);
    if (command == BENCH_RUN) {
        write_commands(&p);
    } else {
        fputs("usage:\n", out);
        write_usage(&p, bench_command_of(command));
        fputs("\noptions; in brackets is what holds without the option:\n", out);
    }
    for (size_t i = 0; i < bench_n_option_rows; i++)
        if (bench_option_rows[i].commands & command) write_option(&p, &bench_option_rows[i]);
    fputs("\nexit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted by ^C, 143 terminated\n",
          out);
}
