/*
 * bench_stop.h - ^C: the first one ends the measuring, and the results so far are printed; the
 * second one ends the program. Before anything is measured, while a set is opened, say, the first
 * one does.
 */
#ifndef BENCH_STOP_H
#define BENCH_STOP_H

#include <stdbool.h>

/** From the first call of bench_stopped() on, the first SIGINT or SIGTERM is noted. A signal that
 * the parent process ignored stays ignored. */
void bench_stop_install(void);

/** Whether a signal has come. Any thread may call it. */
bool bench_stopped(void);

/** The program's exit status: 128 + the signal if one has come, else `status`. */
int bench_stop_status(int status);

#endif
