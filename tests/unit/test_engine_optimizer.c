/*
 * test_engine_optimizer.c - optimisers from text, their text, rates by epoch, and refusals.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_memory.h"
#include "engine/optimizer.h"
#include "iter/core/alloc.h"

static void no_leak(void) {
    if (iter__alloc_live() != 0 || iter__engine_live() != 0) abort();
}

TestSuite(engine_optimizer, .fini = no_leak, .timeout = 30);

static engine_optimizer parsed(const char *text) {
    engine_optimizer o;
    iter_error err = {0};
    cr_assert_eq(iter__optimizer_parse(text, &o, &err), ITER_OK, "%s: %s", text, err.message);
    return o;
}

Test(engine_optimizer, says_what_was_said) {
    engine_optimizer o = parsed("sgd:lr=0.5,momentum=0.9,weight-decay=1e-4,step=3,factor=0.5");
    cr_expect(o.kind == ENGINE_SGD && o.lr == 0.5 && o.momentum == 0.9 && o.weight_decay == 1e-4 &&
              o.step_epochs == 3 && o.factor == 0.5);
    o = parsed("adam:lr=0.002,beta1=0.8,beta2=0.99,epsilon=1e-7,weight-decay=0.01");
    cr_expect(o.kind == ENGINE_ADAM && o.lr == 0.002 && o.beta1 == 0.8 && o.beta2 == 0.99 &&
              o.epsilon == 1e-7 && o.weight_decay == 0.01);
}

/* The defaults of engine.h: plain SGD, and Adam by Kingma & Ba. */
Test(engine_optimizer, defaults) {
    engine_optimizer o = parsed(NULL);
    cr_expect(o.kind == ENGINE_SGD && o.lr == 0.01 && o.momentum == 0 && o.weight_decay == 0 &&
              o.step_epochs == 0);
    o = parsed("adam");
    cr_expect(o.lr == 0.001 && o.beta1 == 0.9 && o.beta2 == 0.999 && o.epsilon == 1e-8);
    cr_expect_eq(parsed("sgd:0.25").lr, 0.25);
}

Test(engine_optimizer, moments) {
    engine_optimizer o = parsed("sgd");
    cr_expect_eq(iter__optimizer_n_moments(&o), 0);
    o = parsed("sgd:momentum=0.9");
    cr_expect_eq(iter__optimizer_n_moments(&o), 1);
    o = parsed("adam");
    cr_expect_eq(iter__optimizer_n_moments(&o), 2);
}

Test(engine_optimizer, the_rate_follows_the_epoch) {
    engine_optimizer o = parsed("sgd:lr=0.5,step=3,factor=0.5");
    static const double rates[] = {0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
    for (uint64_t e = 0; e < 7; e++)
        cr_expect_eq(iter__optimizer_rate(&o, e), rates[e], "epoch %d", (int)e);
    o = parsed("adam:lr=0.003");
    cr_expect_eq(iter__optimizer_rate(&o, 1000000), 0.003);
}

Test(engine_optimizer, text_reads_back) {
    static const char *const texts[] = {
        "sgd",
        "sgd:lr=0.1,momentum=0.9",
        "sgd:weight-decay=0.0005,step=30,factor=0.2",
        "adam",
        "adam:lr=0.30000000000000004,beta1=0.8,beta2=0.9,epsilon=1e-7",
        "adam:weight-decay=0.1,step=2",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[256];
        const engine_optimizer o = parsed(texts[i]);
        iter__optimizer_text(&o, text, sizeof(text));
        cr_expect_str_eq(text, texts[i]);
        const engine_optimizer back = parsed(text);
        cr_expect(back.kind == o.kind && back.lr == o.lr && back.momentum == o.momentum &&
                  back.beta1 == o.beta1 && back.beta2 == o.beta2 && back.epsilon == o.epsilon &&
                  back.weight_decay == o.weight_decay && back.step_epochs == o.step_epochs &&
                  back.factor == o.factor);
    }
}

Test(engine_optimizer, refusals_say_where) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "optimizer: none is named"},
        {"rmsprop", "optimizer: column 1: no optimizer is called 'rmsprop'; there are sgd, adam"},
        {"sgd:lr=fast", "optimizer: column 5: sgd: lr is 'fast', it must be a number"},
        {"sgd:lr=-1", "sgd: lr is -1, it may be 0 to"},
        {"sgd:momentum=1", "sgd: momentum must be less than 1"},
        {"sgd:momentum=1.5", "sgd: momentum is 1.5, it may be 0 to 1"},
        {"sgd:beta1=0.9", "sgd: unknown option 'beta1'; it has lr, momentum, weight-decay, step"},
        {"adam:beta2=1", "adam: beta1 and beta2 must be less than 1"},
        {"adam:lr=nan", "adam: lr is 'nan', it must be a number"},
        {"adam:momentum=0.9", "adam: unknown option 'momentum'"},
        {"sgd | adam", "column 7: adam: one optimizer is expected, without '|'"},
        {"sgd:step=-1", "sgd: step is -1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        engine_optimizer o;
        iter_error err = {0};
        cr_expect_eq(iter__optimizer_parse(cases[i].text, &o, &err), ITER_EINVAL, "%s",
                     cases[i].text);
        cr_expect(strstr(err.message, cases[i].says), "'%s' gives '%s'", cases[i].text,
                  err.message);
    }
}

Test(engine_optimizer, every_failed_allocation_is_told) {
    for (long n = 0;; n++) {
        engine_optimizer o;
        iter_error err = {0};
        iter__alloc_fail_after = n;
        const iter_status status = iter__optimizer_parse("adam:lr=0.1", &o, &err);
        const bool failed = iter__alloc_fail_after == -1;
        iter__alloc_fail_after = -1;
        if (!failed) {
            cr_expect_geq(n, 2);
            break;
        }
        cr_assert_eq(status, ITER_ENOMEM);
        cr_expect(strstr(err.message, "memory"), "%s", err.message);
    }
}
