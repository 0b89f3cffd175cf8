/* optimizer.c - optimisers from text and back; optimizer.h has the formulas. */
#include "engine/optimizer.h"

#include <math.h>
#include <stdio.h>

#include <iter/stages.h>

#include "engine/engine_error.h"
#include "engine/layer_tables.h"

typedef struct parse_result {
    engine_optimizer optimizer;
    int32_t n;
} parse_result;

static iter_status take(void *user, const iter_ops *ops, const void *options, iter_error *err) {
    parse_result *result = user;
    if (result->n++ > 0)
        return iter__engine_fail(err, ITER_EINVAL, "%s: one optimizer is expected, without '|'",
                                 ops->name);
    result->optimizer = *(const engine_optimizer *)options;
    const engine_optimizer *o = &result->optimizer;
    if (o->kind == ENGINE_ADAM && (o->beta1 >= 1 || o->beta2 >= 1))
        return iter__engine_fail(err, ITER_EINVAL, "adam: beta1 and beta2 must be less than 1");
    if (o->kind == ENGINE_SGD && o->momentum >= 1)
        return iter__engine_fail(err, ITER_EINVAL, "sgd: momentum must be less than 1");
    return ITER_OK;
}

iter_status iter__optimizer_parse(const char *text, engine_optimizer *out, iter_error *err) {
    parse_result result = {.n = 0};
    iter_status status =
        iter_stages_parse(text ? text : "sgd:lr=0.01", "optimizer", iter__optimizer_tables,
                          ENGINE_N_OPTIMIZERS, take, &result, err);
    if (status >= 0 && result.n == 0)
        status = iter__engine_fail(err, ITER_EINVAL, "none is named: sgd or adam");
    if (status < 0) return iter__engine_fail_in(err, status, "optimizer");
    *out = result.optimizer;
    return ITER_OK;
}

void iter__optimizer_text(const engine_optimizer *optimizer, char *out, size_t capacity) {
    iter_stage_text(iter__optimizer_tables[optimizer->kind], optimizer, out, capacity);
}

double iter__optimizer_rate(const engine_optimizer *optimizer, uint64_t epoch) {
    if (optimizer->step_epochs <= 0) return optimizer->lr;
    return optimizer->lr *
           pow(optimizer->factor, (double)(epoch / (uint64_t)optimizer->step_epochs));
}

int32_t iter__optimizer_n_moments(const engine_optimizer *optimizer) {
    if (optimizer->kind == ENGINE_ADAM) return 2;
    return optimizer->momentum > 0 ? 1 : 0;
}
