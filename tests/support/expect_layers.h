/* expect_layers.h - for plain programs: two backends' results of a case are close enough. */
#ifndef TESTS_SUPPORT_EXPECT_LAYERS_H
#define TESTS_SUPPORT_EXPECT_LAYERS_H

#include "tests/support/expect.h"
#include "tests/support/layer_case.h"

static inline int expect_by(layer_measure measure, const layer_result *got,
                            const layer_result *want, double most, const char *how) {
    const char *name;
    const double apart = layer_result_distance(got, want, measure, &name);
    int ok = EXPECT(apart <= most) && EXPECT_EQ(got->outcome.n_correct, want->outcome.n_correct);
    if (!ok)
        fprintf(stderr, "  %s, %s: %s is apart by %.3g, may be %.3g\n", want->test->spec.model, how,
                name, apart, most);
    return ok;
}

static inline int expect_near(const layer_result *got, const layer_result *want, double most,
                              const char *how) {
    return expect_by(layer_distance, got, want, most, how);
}

#endif
