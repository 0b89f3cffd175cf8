/*
 * cpu_loss.c - the losses, and the gradients with which the backward pass begins.
 *
 * Threads take rows. The rows' losses are added up afterwards in order, so the sum does not depend
 * on the number of threads. Rows that do not count, and rows that a short batch lacks, get a
 * gradient of zero.
 */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"

typedef struct work {
    const cpu_shared *shared;
    const engine_batch *batch;
    engine_kind kind;
    const float *outputs;
    float *gradient;
    double *losses; /* [rows] */
    int64_t n;
} work;

static int64_t class_of(const iter_tensor *label, int64_t row) {
    const int64_t at = row * label->strides[0];
    switch (label->desc.dtype) {
    case ITER_U8: return ((const uint8_t *)label->data)[at];
    case ITER_I32: return ((const int32_t *)label->data)[at];
    default: return ((const int64_t *)label->data)[at];
    }
}

static double value_of(const iter_tensor *label, int64_t row, int64_t feature) {
    const int64_t at =
        row * label->strides[0] + (label->desc.n_dims > 1 ? feature * label->strides[1] : 0);
    return label->desc.dtype == ITER_F32 ? (double)((const float *)label->data)[at]
                                         : ((const double *)label->data)[at];
}

/* -log softmax(x)[label]; gradient (softmax(x) - [label]) / rows that count. */
static double cross_entropy(const float *x, int64_t n, int64_t label, double share,
                            float *gradient) {
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > most) most = x[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - most);
    for (int64_t i = 0; gradient && i < n; i++)
        gradient[i] = (float)(share * (exp(x[i] - most) / sum - (i == label)));
    return log(sum) + most - x[label];
}

/* Mean over features of the squared difference, halved for L2. */
static double squares(const work *w, int64_t row, float *gradient) {
    const double half = w->kind == ENGINE_L2 ? 0.5 : 1, n = (double)w->n;
    const double share = 2 * half / (n * (double)w->batch->n_counted);
    double sum = 0;
    for (int64_t i = 0; i < w->n; i++) {
        const double d = w->outputs[row * w->n + i] - value_of(w->batch->label, row, i);
        sum += d * d;
        if (gradient) gradient[i] = (float)(share * d);
    }
    return half * sum / n;
}

static void rows_part(void *user, uint32_t t, uint32_t threads) {
    const work *w = user;
    const engine_batch *b = w->batch;
    const int64_t rows = w->shared->net->batch, end = iter__cpu_part(rows, t + 1, threads);
    for (int64_t i = iter__cpu_part(rows, t, threads); i < end; i++) {
        float *gradient = w->gradient ? w->gradient + i * w->n : NULL;
        w->losses[i] = 0;
        if (i >= b->n_rows || !b->counts[i]) {
            if (gradient) memset(gradient, 0, (size_t)w->n * sizeof(float));
        } else if (w->kind == ENGINE_SOFTMAX_CROSS_ENTROPY) {
            w->losses[i] = cross_entropy(w->outputs + i * w->n, w->n, class_of(b->label, i),
                                         1 / (double)b->n_counted, gradient);
        } else {
            w->losses[i] = squares(w, i, gradient);
        }
    }
}

static int64_t n_correct(const work *w) {
    int64_t n = 0;
    for (int64_t i = 0; i < w->batch->n_rows; i++) {
        const float *x = w->outputs + i * w->n;
        int64_t largest = 0;
        if (!w->batch->counts[i]) continue;
        for (int64_t j = 1; j < w->n; j++)
            if (x[j] > x[largest]) largest = j;
        n += largest == class_of(w->batch->label, i);
    }
    return n;
}

void iter__cpu_loss(const cpu_shared *shared, const cpu_run *run, const float *outputs,
                    float *gradient, double *rows) {
    const engine_net *net = shared->net;
    work w = {shared, run->batch,    net->layers[net->n_layers - 1].kind, outputs, gradient,
              rows,   net->n_outputs};
    iter__cpu_parallel(iter__cpu_worth(net->batch * w.n, shared->threads), rows_part, &w);
    run->out->loss_sum = 0;
    for (int64_t i = 0; i < run->batch->n_rows; i++)
        run->out->loss_sum += rows[i];
    run->out->n_correct = w.kind == ENGINE_SOFTMAX_CROSS_ENTROPY ? n_correct(&w) : 0;
}
