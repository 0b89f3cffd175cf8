/* bench_util.h - clocks, memory, one-line errors and hints for iterbench. */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

/** A text from outside (names of files, data sets, labels), escaped for printing. Lives as long as
 * the block that it is used in. */
#define BENCH_SHOWN(text) iter_text_escape(text, (char[1024]){0}, 1024)

/** Writes a formatted message into `err` (NULL is legal) and returns `status`. */
iter_status bench_fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define BENCH_HINT 80 /* bytes of a hint */

/** Adds a name to a list that is separated by '|'. A name that does not fit is left out. */
void bench_names_add(char *names, size_t capacity, const char *name);

/** Writes "; did you mean 'PREFIXname'?" with the nearest of `names` ("a|b|c"), or "" if none is
 * near. Returns `out`. */
const char *bench_hint(const char *wanted, const char *names, const char *prefix,
                       char out[BENCH_HINT]);

/** Monotonic time in nanoseconds, and in seconds. */
uint64_t bench_now_ns(void);
double bench_now(void);

/** Does `turns` turns of arithmetic whose result is not used. */
void bench_spin(uint64_t turns);

/** CPU time of this process, all threads, user and system, in nanoseconds. */
uint64_t bench_cpu_ns(void);

/** Largest resident size of this process so far, in bytes. */
uint64_t bench_peak_rss(void);

/** Sleeps for at least `seconds`. */
void bench_sleep(double seconds);

/** Zeroed memory, in huge pages if the system has them; NULL if there is no memory. `bytes` may be
 * 0. */
void *bench_map(size_t bytes);
void bench_unmap(void *memory, size_t bytes);

#endif
