/*
 * bench_stop.h - ^C: the first one ends the measuring, and what was measured until then is said; the
 * second one ends the program.
 */
#ifndef BENCH_STOP_H
#define BENCH_STOP_H

#include <stdbool.h>

/** From now on the first SIGINT or SIGTERM is noted; where a parent had them ignored, they stay so. */
void bench_stop_install(void);

/** Whether one has come. Any thread. */
bool bench_stopped(void);

/** The program's exit status: 128 + the signal where one has come, else `status`. */
int bench_stop_status(int status);

#endif
