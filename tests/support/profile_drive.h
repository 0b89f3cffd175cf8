/* profile_drive.h - sessions of the profiler, for Criterion tests: any failure ends the test. */
#ifndef TESTS_SUPPORT_PROFILE_DRIVE_H
#define TESTS_SUPPORT_PROFILE_DRIVE_H

#include <criterion/criterion.h>

#include <iter/profile.h>

/* Without memory counters; path "" = write nothing, period_ms 0 = the default. */
static inline void profile_start(const char *path, uint32_t events, int64_t period_ms) {
    iter_error err;
    iter_profile_options opt = ITER_PROFILE_OPTIONS_INIT;
    opt.filename = path;
    opt.events_per_thread = events;
    opt.dump_period_ms = period_ms;
    opt.no_memory = 1;
    cr_assert_eq(iter_profile_start(&opt, &err), ITER_OK, "%s", err.message);
}

static inline void profile_stop(void) {
    iter_error err;
    cr_assert_eq(iter_profile_stop(&err), ITER_OK, "%s", err.message);
}

static inline void profile_scope(const char *name) {
    iter_profile_scope_begin(name);
    iter_profile_scope_end();
}

#endif
