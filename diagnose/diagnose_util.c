/* diagnose_util.c - see diagnose_util.h. */
#include "diagnose/diagnose_util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

iter_status diagnose_fail(iter_error *err, iter_status status, const char *format, ...) {
    if (err == NULL) return status;
    char text[sizeof(err->message)]; /* arguments may point into err */
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    iter_text_escape(text, err->message, sizeof(err->message));
    return status;
}

uint64_t diagnose_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void diagnose_sleep(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}
