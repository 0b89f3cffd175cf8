/*
 * bench_stop.c - see bench_stop.h.
 *
 * A program that signals both a process and its group, as timeout does, sends two signals at once.
 * Signals within 0.2 s therefore count as one.
 */
#include "bench/common/bench_stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/common/bench_util.h"

#define ONE_NS 200000000u

static volatile sig_atomic_t stopped_by;
static atomic_uint_least64_t stopped_at; /* lock-free, so a handler may use them */
static atomic_bool is_watched;           /* bench_stopped() was called */

static void on_signal(int number) {
    const uint64_t now = bench_now_ns();
    if (stopped_by == 0 && atomic_load(&is_watched)) {
        atomic_store(&stopped_at, now);
        stopped_by = number;
    } else if (stopped_by == 0 || now - atomic_load(&stopped_at) > ONE_NS) {
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* delivered when the handler returns */
    }
}

void bench_stop_install(void) {
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_flags = SA_RESTART}, before; /* blocked calls are restarted */
    action.sa_handler = on_signal;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &action, NULL);
}

bool bench_stopped(void) {
    if (!atomic_load_explicit(&is_watched, memory_order_relaxed)) atomic_store(&is_watched, true);
    return stopped_by != 0;
}

int bench_stop_status(int status) {
    return stopped_by != 0 ? 128 + stopped_by : status;
}
