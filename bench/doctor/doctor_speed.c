/*
 * doctor_speed.c - measures clock, memory and steadiness, in about two seconds.
 *
 * The witness is the one of measure.c: the same loop again and again for a second. If its time
 * varies, something else uses the cores, or the host gives them to other guests (steal).
 */
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_machine.h"
#include "bench/common/bench_util.h"
#include "bench/doctor/doctor.h"
#include "bench/limits/limits.h"
#include "bench/measure/measure.h"

#define CLOCK_READS   20000
#define CLOCK_PARTS   10
#define CLOCK_SLOW_NS 100.0
#define COPY_BYTES    ((size_t)64 << 20)
#define COPY_S        0.3
#define CORES_MAX     256
#define WITNESS_S     1.0
#define WITNESSES_MAX 4096
#define STEADY        0.05 /* the tolerance of comparisons for the witness */

/* ---- Clock ----------------------------------------------------------------------------------- */

static void add_clock(doctor *d) {
    char source[64] = "unknown";
    (void)doctor_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                      sizeof(source));
    d->rates.clock_ns = INFINITY;
    /* take the fastest: the others were disturbed */
    for (int part = 0; part < CLOCK_PARTS; part++) {
        const uint64_t start = bench_now_ns();
        volatile uint64_t last = 0;
        for (int i = 0; i < CLOCK_READS; i++)
            last = bench_now_ns();
        d->rates.clock_ns = fmin(d->rates.clock_ns, (double)(last - start) / CLOCK_READS);
    }
    const bool slow = d->rates.clock_ns > CLOCK_SLOW_NS;
    doctor_item *item = doctor_add(d, "clock", slow ? DOCTOR_COSTS : DOCTOR_OK,
                                   "%s, %.0f ns a reading", source, d->rates.clock_ns);
    if (!slow) return;
    doctor_costs(item, "the counters read it several times a batch");
    doctor_mend(item, "clocksource=tsc on the kernel's command line, if its TSC is stable");
}

/* ---- Copies ---------------------------------------------------------------------------------- */

typedef struct copier {
    pthread_t thread;
    sem_t *ready, *go;
    size_t bytes;
    double rate; /* 0 = no memory */
} copier;

static void *copy(void *user) {
    copier *c = user;
    uint8_t *from = bench_map(c->bytes), *to = bench_map(c->bytes);
    const bool good = from != NULL && to != NULL;
    if (good) {
        memset(from, 1, c->bytes);
        memset(to, 2, c->bytes);
    }
    sem_post(c->ready);
    while (sem_wait(c->go) != 0) {
    }
    const double start = bench_now();
    double took = 0, bytes = 0;
    while (good && took < COPY_S) {
        limits_copy(to, from, c->bytes);
        bytes += (double)c->bytes;
        took = bench_now() - start;
    }
    c->rate = took > 0 ? bytes / took : 0;
    bench_unmap(from, c->bytes);
    bench_unmap(to, c->bytes);
    return NULL;
}

/* Bytes a second of n threads together, all at once; NaN = no memory, or no threads. */
static double copy_rate(int n, size_t bytes) {
    copier copiers[CORES_MAX];
    sem_t ready, go;
    int started = 0;
    double sum = 0;
    sem_init(&ready, 0, 0);
    sem_init(&go, 0, 0);
    while (started < n) {
        copiers[started] = (copier){.ready = &ready, .go = &go, .bytes = bytes};
        if (pthread_create(&copiers[started].thread, NULL, copy, &copiers[started]) != 0) break;
        started++;
    }
    for (int i = 0; i < started; i++)
        while (sem_wait(&ready) != 0) {
        }
    for (int i = 0; i < started; i++)
        sem_post(&go);
    for (int i = 0; i < started; i++) {
        pthread_join(copiers[i].thread, NULL);
        sum = copiers[i].rate > 0 ? sum + copiers[i].rate : NAN;
    }
    sem_destroy(&ready);
    sem_destroy(&go);
    return started == n ? sum : NAN;
}

static void add_copies(doctor *d) {
    const int cores = bench_machine_here().cores, n = cores < CORES_MAX ? cores : CORES_MAX;
    unsigned long long available = 0;
    (void)doctor_number("/proc/meminfo", "MemAvailable", &available);
    size_t bytes = COPY_BYTES; /* all buffers: at most a quarter of free memory */
    while (bytes > ((size_t)1 << 20) && 2 * bytes * (size_t)n > available * 1024 / 4)
        bytes /= 2;
    d->rates.copy_one = copy_rate(1, bytes);
    d->rates.copy_all = n > 1 ? copy_rate(n, bytes) : d->rates.copy_one;
    if (isnan(d->rates.copy_one) || isnan(d->rates.copy_all)) {
        doctor_add(d, "copying", DOCTOR_NOTE, "not measured: no memory for %d buffers of %zu MiB",
                   2 * n, bytes >> 20);
        return;
    }
    const double gain = d->rates.copy_all / d->rates.copy_one;
    const bool bound = n > 1 && gain < 0.6 * n;
    doctor_item *item = doctor_add(d, "copying", bound ? DOCTOR_NOTE : DOCTOR_OK,
                                   "%.2f GB/s by one core, %.2f by %d", d->rates.copy_one * 1e-9,
                                   d->rates.copy_all * 1e-9, n);
    if (!bound) return;
    doctor_costs(item, "%.1f cores use all of the memory's bandwidth: more workers wait for it",
                 gain);
    doctor_mend(item, "fewer bytes a sample: u8 to the trainer, f16, smaller images");
}

/* ---- Steadiness ------------------------------------------------------------------------------ */

/* CPU time of all cores since boot, and the part that the host took, in ticks. */
static bool read_steal(double *out_total, double *out_steal) {
    char line[256];
    unsigned long long t[8] = {0};
    if (!doctor_line("/proc/stat", line, sizeof(line)) ||
        sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) != 8)
        return false;
    *out_total = 0;
    for (int i = 0; i < 8; i++)
        *out_total += (double)t[i];
    *out_steal = (double)t[7];
    return true;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* (p90 - p10) / median of the witness over a second; *out_off: share of it beyond STEADY. */
static double witness_spread(double *out_off) {
    static const double low = 0.1, high = 0.9;
    double *took = malloc(WITNESSES_MAX * sizeof(*took));
    int n = 0, off = 0;
    if (took == NULL) return NAN;
    for (const double start = bench_now(); n < WITNESSES_MAX && bench_now() - start < WITNESS_S;)
        took[n++] = measure_witness();
    qsort(took, (size_t)n, sizeof(*took), by_value);
    const double median = took[n / 2];
    for (int i = 0; i < n; i++)
        off += fabs(took[i] / median - 1) > STEADY;
    const double spread = (took[(int)(high * (n - 1))] - took[(int)(low * (n - 1))]) / median;
    *out_off = (double)off / n;
    free(took);
    return spread;
}

static void add_steadiness(doctor *d) {
    double total = 0, steal = 0, total_after = 0, steal_after = 0, off = 0;
    char load[64] = "";
    (void)doctor_line("/proc/loadavg", load, sizeof(load));
    load[strcspn(load, " ")] = '\0';
    const bool told = read_steal(&total, &steal);
    d->rates.witness_spread = witness_spread(&off);
    if (told && read_steal(&total_after, &steal_after) && total_after > total)
        d->rates.steal_share = (steal_after - steal) / (total_after - total);
    const bool steady = d->rates.witness_spread <= STEADY;
    doctor_item *item =
        doctor_add(d, "steadiness", steady ? DOCTOR_OK : DOCTOR_COSTS,
                   "a fixed loop varied by %.1f %% over a second, %.0f %% of its runs beyond 5 %%; "
                   "load %s",
                   100 * d->rates.witness_spread, 100 * off, load);
    if (!steady) {
        doctor_costs(item, "if it varies by more than 5 %%, rounds of a comparison are dropped: "
                           "runs take longer, intervals are wider");
        doctor_mend(item, "stop what else runs here; on a shared host, measure again later");
    }
    if (!told) {
        doctor_add(d, "steal", DOCTOR_OK, "not told");
        return;
    }
    const bool stolen = d->rates.steal_share > 0.02;
    item = doctor_add(d, "steal", stolen ? DOCTOR_COSTS : DOCTOR_OK,
                      "%.1f %% of the CPU time just now, %.1f %% since it was started",
                      100 * d->rates.steal_share, total > 0 ? 100 * steal / total : 0);
    if (!stolen) return;
    doctor_costs(item,
                 "the host gives this machine's cores to others: every rate falls and varies");
    doctor_mend(item, "a machine with cores of its own");
}

/* ---- Public ---------------------------------------------------------------------------------- */

void doctor_speed(doctor *d) {
    add_clock(d);
    add_copies(d);
    add_steadiness(d);
}
