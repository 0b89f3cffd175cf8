/* rounds.c - see rounds.h. */
#include "bench/measure/rounds.h"

#include "bench/common/progress.h"
#include <math.h>

#define MIN_ROUNDS   8
#define LEAST_ROUNDS 6    /* with fewer there is no interval */
#define SLICE_S      0.25 /* at most; at least SLICE_MIN_S */
#define SLICE_MIN_S  0.02

typedef struct shown {
    progress line;
    const char *what;
} shown;

static void after_round(void *user, uint32_t n_kept, uint32_t n_dropped) {
    shown *s = user;
    progress_show(&s->line, s->what, "rounds: %u kept, %u dropped", n_kept, n_dropped);
}

iter_status rounds_measure(const char *what, const measure_side *sides, int n, double seconds,
                           double max_seconds, measure_rounds *out, bool *out_steady,
                           iter_error *err) {
    measure_options opt = MEASURE_OPTIONS_INIT;
    opt.slice_s = fmin(SLICE_S, fmax(seconds / (n * MIN_ROUNDS), SLICE_MIN_S));
    opt.warm_batches = 2;
    opt.min_pairs = MIN_ROUNDS;
    opt.min_s = seconds;
    opt.max_s = fmax(max_seconds, 3);
    opt.after_pair = after_round;
    shown user = {progress_begin(seconds, opt.max_s), what};
    after_round(&user, 0, 0);
    opt.after_user = &user;
    opt.least_rounds = LEAST_ROUNDS;
    iter_status s = measure_sides(sides, n, &opt, out, err);
    *out_steady = out->steady;
    progress_end(&user.line);
    return s;
}
