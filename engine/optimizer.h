/* optimizer.h - the update of weights from gradients: options from text, and the rate of an
 * epoch. */
#ifndef ENGINE_OPTIMIZER_H
#define ENGINE_OPTIMIZER_H

#include <iter/engine.h>

typedef enum engine_optimizer_kind { ENGINE_SGD, ENGINE_ADAM } engine_optimizer_kind;

/*
 * SGD   m = momentum * m - lr * (g + weight_decay * w);  w = w + m   (MXNet's SGDMomKernel; no m
 *       if momentum is 0)
 * Adam  g += weight_decay * w;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;
 *       w -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon), t = step + 1
 *       (Kingma & Ba 2015, the form before their last remark, as MXNet and Keras)
 * Weight decay applies to weights, not to biases.
 */
typedef struct engine_optimizer {
    engine_optimizer_kind kind;
    double lr, momentum, beta1, beta2, epsilon, weight_decay;
    int64_t step_epochs; /* 0 = a constant rate */
    double factor;
} engine_optimizer;

/* Parses "sgd:lr=0.01"; NULL means the same. Errors: EINVAL with column, ENOMEM. */
iter_status iter__optimizer_parse(const char *text, engine_optimizer *out, iter_error *err);

/* Writes the text that parses back to the same optimiser; for checkpoints. */
void iter__optimizer_text(const engine_optimizer *optimizer, char *out, size_t capacity);

/* lr * factor^(epoch / step_epochs). */
double iter__optimizer_rate(const engine_optimizer *optimizer, uint64_t epoch);

/* Number of moments kept per weight: 0, 1 or 2. */
int32_t iter__optimizer_n_moments(const engine_optimizer *optimizer);

#endif
