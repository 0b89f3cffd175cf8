/*
 * cpu_tied.c - the loss of a language model: cross entropy of h W^T + b at each step that has a
 * target, where W is the weight of the embedding.
 *
 *     logits = h W^T + b     d = (softmax(logits) - [target]) / targets
 *     dh = d W               dW += d^T h               db += sum of rows of d
 *
 * Steps without a target are left out from the beginning, so padding costs nothing here. The others
 * are done in slices: a slice's logits become their own gradient, which goes into dh, dW and db at
 * once. So no array has a number for each step and class.
 *
 * In the first half of a slice threads take steps, in the second half classes. So a sum over steps
 * is made by one thread, in order, and the bits do not depend on the number of threads, as far as
 * oneDNN's products do not.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/cpu_parallel.h"
#include "engine/engine_error.h"

#define LOGITS_MAX ((int64_t)1 << 21) /* of a slice: 8 MiB */
#define STEPS_MIN  16                 /* of a slice, for each thread */
#define LINE       16

typedef struct tied_node {
    cpu_node node;
    const cpu_node *embedding; /* its param 0 is the weight */
    int64_t batch, steps, units, classes;
    int64_t slice;    /* steps of a slice */
    int64_t *places;  /* [batch * steps] step * batch + row of each target */
    int32_t *targets; /* [batch * steps] */
    double *losses;   /* [batch * steps] */
    uint8_t *hits;    /* [batch * steps] the target has the largest logit */
    float *states;    /* [slice, units] */
    float *d_states;  /* [slice, units] */
    float *logits;    /* [slice, classes] */
    /* Of this run: */
    int64_t n, at, size; /* targets; the slice's first one; its targets */
    double share;        /* of one target in the mean */
    bool learns;
    atomic_bool failed; /* relaxed, because the end of a parallel region orders it */
} tied_node;

static void fail_part(tied_node *d) {
    atomic_store_explicit(&d->failed, true, memory_order_relaxed);
}

static int64_t target_at(const iter_tensor *label, int64_t row, int64_t step) {
    const int64_t at = row * label->strides[0] + step * label->strides[1];
    return label->desc.dtype == ITER_I64 ? ((const int64_t *)label->data)[at]
                                         : ((const int32_t *)label->data)[at];
}

static void list_targets(tied_node *d, const engine_batch *batch) {
    d->n = 0;
    for (int64_t row = 0; row < batch->n_rows; row++)
        for (int64_t step = 0; step < d->steps && batch->counts[row]; step++) {
            const int64_t target = target_at(batch->label, row, step);
            if (target == ENGINE_NO_TARGET) continue;
            d->places[d->n] = step * d->batch + row;
            d->targets[d->n++] = (int32_t)target;
        }
}

/* Loss of target i of the slice; turns its logits into their gradient. */
static void softmax(tied_node *d, int64_t i) {
    const cpu_kernels *kernels = d->node.shared->kernels;
    float *x = d->logits + i * d->classes, most;
    const int32_t target = d->targets[d->at + i];
    kernels->add(d->classes, d->node.params[0].weight, x);
    const float logit = x[target];
    int32_t before = 0; /* classes before the target with a smaller logit */
    while (before < target && x[before] < logit)
        before++;
    const double sum = kernels->exp_sum(d->classes, x, &most);
    d->losses[d->at + i] = log(sum) + (double)most - (double)logit;
    d->hits[d->at + i] = logit == most && before == target;
    if (!d->learns) return;
    const float factor = (float)(d->share / sum);
    for (int64_t k = 0; k < d->classes; k++)
        x[k] *= factor;
    x[target] -= (float)d->share;
}

/* A thread's steps of the slice: logits, losses and the states' gradients. */
static void steps_part(void *user, uint32_t t, uint32_t threads) {
    tied_node *d = user;
    const int64_t from = iter__cpu_part(d->size, t, threads), u = d->units, v = d->classes;
    const int64_t n = iter__cpu_part(d->size, t + 1, threads) - from;
    const float *weight = d->embedding->params[0].weight;
    const cpu_place *in = d->node.in;
    const int64_t *places = d->places + d->at;
    if (n == 0) return;
    for (int64_t i = from; i < from + n; i++)
        memcpy(d->states + i * u, in->values + places[i] * u, (size_t)u * sizeof(float));
    if (!iter__dnn_sgemm(false, true, n, v, u, d->states + from * u, u, weight, u, 0,
                         d->logits + from * v, v)) {
        fail_part(d);
        return;
    }
    for (int64_t i = from; i < from + n; i++)
        softmax(d, i);
    if (!d->learns) return;
    if (!iter__dnn_sgemm(false, false, n, u, v, d->logits + from * v, v, weight, u, 0,
                         d->d_states + from * u, u))
        fail_part(d);
    for (int64_t i = from; i < from + n; i++)
        memcpy(in->gradient + places[i] * u, d->d_states + i * u, (size_t)u * sizeof(float));
}

/* A thread's classes: what the slice adds to the gradients of weight and bias. */
static void classes_part(void *user, uint32_t t, uint32_t threads) {
    tied_node *d = user;
    const int64_t lines = (d->classes + LINE - 1) / LINE,
                  from = LINE * iter__cpu_part(lines, t, threads);
    int64_t n = LINE * iter__cpu_part(lines, t + 1, threads) - from;
    if (n > d->classes - from) n = d->classes - from;
    if (n <= 0) return;
    float *bias = d->node.params[0].gradient + from;
    if (!iter__dnn_sgemm(true, false, n, d->units, d->size, d->logits + from, d->classes, d->states,
                         d->units, 1, d->embedding->params[0].gradient + from * d->units, d->units))
        fail_part(d);
    for (int64_t i = 0; i < d->size; i++)
        d->node.shared->kernels->add(n, d->logits + i * d->classes + from, bias);
}

static void clear_gradients(tied_node *d) {
    const cpu_param *weight = &d->embedding->params[0], *bias = &d->node.params[0];
    memset(d->node.in->gradient, 0, (size_t)d->node.in->n_elements * sizeof(float));
    memset(weight->gradient, 0, (size_t)weight->n_elements * sizeof(float));
    memset(bias->gradient, 0, (size_t)bias->n_elements * sizeof(float));
}

static iter_status forward(cpu_node *node, const cpu_run *run, iter_error *err) {
    tied_node *d = (tied_node *)node;
    const uint32_t threads = node->shared->threads;
    d->learns = run->what != ENGINE_RUN_FORWARD;
    d->share = run->batch->n_counted > 0 ? 1 / (double)run->batch->n_counted : 0;
    atomic_store_explicit(&d->failed, false, memory_order_relaxed);
    list_targets(d, run->batch);
    if (d->learns) clear_gradients(d);
    run->out->loss_sum = 0;
    run->out->n_correct = 0;
    for (d->at = 0; d->at < d->n; d->at += d->size) {
        d->size = d->n - d->at < d->slice ? d->n - d->at : d->slice;
        iter__cpu_parallel(threads, steps_part, d);
        if (d->learns) iter__cpu_parallel(threads, classes_part, d);
        if (atomic_load_explicit(&d->failed, memory_order_relaxed))
            return iter__engine_fail(err, ITER_ENOMEM,
                                     "oneDNN has no memory for a product of matrices");
    }
    for (int64_t i = 0; i < d->n; i++) {
        run->out->loss_sum += d->losses[i];
        run->out->n_correct += d->hits[i];
    }
    return ITER_OK;
}

static iter_status backward(cpu_node *node, const cpu_run *run, iter_error *err) {
    (void)node, (void)run, (void)err; /* forward() has done it */
    return ITER_OK;
}

static void text(const cpu_node *node, int32_t layer, char *out, size_t capacity) {
    (void)layer;
    snprintf(out, capacity, "sgemm, %lld steps at a time",
             (long long)((const tied_node *)node)->slice);
}

static const cpu_node_ops ops = {.forward = forward, .backward = backward, .text = text};

iter_status iter__node_tied(cpu_planner *planner, int32_t first, cpu_place *in, cpu_place **out,
                            int32_t *n_layers, iter_error *err) {
    const cpu_shared *shared = iter__plan_shared(planner);
    const engine_layer *layer = &shared->net->layers[first];
    const int64_t batch = shared->net->batch, classes = shared->net->n_classes;
    const size_t n = (size_t)(batch * layer->in.dims[0]);
    cpu_node *node;
    *n_layers = 1;
    *out = in;
    ENGINE_TRY(iter__plan_node(planner, sizeof(tied_node), &ops, first, 1, in, in, &node, err));
    tied_node *d = (tied_node *)node;
    d->embedding = iter__plan_first(planner);
    d->batch = batch;
    d->steps = layer->in.dims[0];
    d->units = layer->in.dims[1];
    d->classes = classes;
    d->slice = LOGITS_MAX / classes;
    if (d->slice < STEPS_MIN * (int64_t)shared->threads) d->slice = STEPS_MIN * shared->threads;
    if (d->slice > (int64_t)n) d->slice = (int64_t)n;
    iter__plan_memory(planner, &d->places, n * sizeof(*d->places));
    iter__plan_memory(planner, &d->targets, n * sizeof(*d->targets));
    iter__plan_memory(planner, &d->losses, n * sizeof(*d->losses));
    iter__plan_memory(planner, &d->hits, n);
    const size_t state_bytes = (size_t)(d->slice * d->units) * sizeof(float);
    iter__plan_memory(planner, &d->states, state_bytes);
    iter__plan_memory(planner, &d->d_states, state_bytes);
    iter__plan_memory(planner, &d->logits, (size_t)(d->slice * classes) * sizeof(float));
    iter__plan_param(planner, node, layer->first_param, classes, true);
    return ITER_OK;
}
