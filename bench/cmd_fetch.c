/* cmd_fetch.c - `iterbench fetch`: fills the disk cache of a set at URLs before anything reads. */
#include <stdbool.h>
#include <stdio.h>

#include "bench/common/bench_stop.h"
#include "bench/common/bench_util.h"
#include "bench/common/progress.h"
#include "bench/iterbench.h"

#define MB 1e6

typedef struct fetched {
    progress line;
    uint64_t first, kept, bytes; /* in the cache before, now, and of the set */
    bool begun;
} fetched;

static bool show(void *user, uint64_t kept, uint64_t bytes) {
    fetched *f = user;
    if (!f->begun) f->first = kept;
    f->begun = true;
    f->kept = kept;
    f->bytes = bytes;
    progress_show(&f->line, "fetch", "%.1f of %.1f MB", (double)kept / MB, (double)bytes / MB);
    return !bench_stopped();
}

int cmd_fetch(const bench_options *options) {
    iter_error err;
    iter_dataset *dataset;
    bench_stop_install();
    if (bench_dataset_open(options, &dataset, &err) < 0)
        return bench_stop_status(bench_say(BENCH_FAILED, &err));
    fetched f = {.line = progress_begin(0, 0)};
    const double began = (double)bench_now_ns() * 1e-9;
    const iter_status status = iter_dataset_fetch(dataset, show, &f, &err);
    const double seconds = (double)bench_now_ns() * 1e-9 - began;
    progress_end(&f.line);
    iter_dataset_unref(dataset);
    if (f.begun)
        printf("fetch     %.1f of %.1f MB are in the cache; %.1f MB came now, in %.2f s\n",
               (double)f.kept / MB, (double)f.bytes / MB, (double)(f.kept - f.first) / MB, seconds);
    return bench_stop_status(status < 0 ? bench_say(BENCH_FAILED, &err) : BENCH_DONE);
}
