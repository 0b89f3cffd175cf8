/* progress.c - see progress.h. */
#include "bench/common/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bench/common/bench_util.h"

#define EVERY_S 0.1

progress progress_begin(double least_s, double most_s) {
    return (progress){bench_now(), 0, least_s, most_s, -1};
}

/* "3.2 of 10 s", or "12.0 of at most 15 s" once the least is over. */
static void write_time(const progress *p, double elapsed, char *out, size_t capacity) {
    if (p->most <= 0)
        snprintf(out, capacity, "%.1f s", elapsed);
    else if (elapsed < p->least || p->most <= p->least)
        snprintf(out, capacity, "%.1f of %.0f s", elapsed, p->least);
    else
        snprintf(out, capacity, "%.1f of at most %.0f s", elapsed, p->most);
}

/* Columns to use. If a line were longer than the terminal, the next one could not erase it. */
static int columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

void progress_show(progress *p, const char *what, const char *detail, ...) {
    const double now = bench_now();
    char time[64], more[256], line[400];
    if (now - p->shown < EVERY_S || !isatty(STDERR_FILENO)) return;
    p->shown = now;
    write_time(p, p->measured >= 0 ? p->measured : now - p->began, time, sizeof(time));
    va_list args;
    va_start(args, detail);
    vsnprintf(more, sizeof(more), detail, args);
    va_end(args);
    snprintf(line, sizeof(line), "%s   %s   %s", what, time, more);
    fprintf(stderr, "\r\033[K%.*s", columns(), BENCH_SHOWN(line));
    fflush(stderr);
}

void progress_end(progress *p) {
    if (p->shown > 0) fputs("\r\033[K", stderr);
    p->shown = 0;
}
