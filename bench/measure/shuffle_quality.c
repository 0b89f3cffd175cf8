/*
 * shuffle_quality.c - how well one epoch was mixed.
 *
 * Three figures find three faults: displacement finds samples that stay near their place (a shuffle
 * buffer that is too small), adjacency finds blocks that travel together, class runs find traces of
 * the order of the files. Each figure comes with its value for a uniform permutation.
 */
#include "bench/measure/shuffle_quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/bench_row.h"
#include "bench/common/bench_util.h"

#define NOT_SEEN  UINT32_MAX
#define CLASS_MAX 4096u

/* The first label that is one integer per row. */
static int32_t label_field(const iter_loader *loader) {
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++) {
        const iter_batch_field *field = iter_loader_field(loader, i);
        if (field->role == ITER_LABEL && field->desc.n_dims == 1 && field->desc.dtype >= ITER_U8 &&
            field->desc.dtype <= ITER_I64)
            return i;
    }
    return -1;
}

static uint32_t class_of(const bench_row *row) {
    uint64_t value = 0;
    /* little-endian; on other machines class numbers differ, but equal ones stay equal */
    memcpy(&value, row->data, row->element_bytes);
    return (uint32_t)(value ^ value >> 32);
}

iter_status shuffle_quality_open(shuffle_quality *out, iter_loader *loader, iter_error *err) {
    *out = (shuffle_quality){.label = -1};
    uint64_t n = iter_loader_n_samples(loader);
    if (n == ITER_UNKNOWN || n < 2 || n > SHUFFLE_QUALITY_MAX) return ITER_OK;
    uint64_t consumed;
    iter_loader_position(loader, &out->epoch, &consumed);
    out->label = label_field(loader);
    out->index = malloc(n * sizeof(out->index[0]));
    out->classes = calloc(n, sizeof(out->classes[0]));
    if (out->index == NULL || out->classes == NULL) {
        shuffle_quality_close(out);
        return bench_fail(err, ITER_ENOMEM, "no memory for the order of %llu samples",
                          (unsigned long long)n);
    }
    memset(out->index, 0xff, n * sizeof(out->index[0]));
    out->n = n;
    return ITER_OK;
}

void shuffle_quality_close(shuffle_quality *quality) {
    free(quality->index);
    free(quality->classes);
    *quality = (shuffle_quality){.label = -1};
}

void shuffle_quality_note(shuffle_quality *quality, const iter_batch *batch, uint32_t n_rows) {
    if (n_rows == 0 || quality->seen == quality->n) return;
    const uint64_t *index = iter_batch_index(batch);
    const uint64_t *position = iter_batch_position(batch);
    const uint32_t *epoch = iter_batch_row_epoch(batch);
    const iter_tensor *labels =
        quality->label >= 0 ? iter_batch_tensor(batch, quality->label) : NULL;
    if (labels != NULL && labels->data == NULL) { /* they are only on a GPU */
        quality->label = -1;
        labels = NULL;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        uint64_t p = position[i];
        if (epoch[i] != quality->epoch || p >= quality->n || quality->index[p] != NOT_SEEN)
            continue;
        quality->index[p] = (uint32_t)index[i];
        if (labels != NULL) {
            bench_row row = bench_row_at(labels, i, NULL);
            quality->classes[p] = class_of(&row);
        }
        quality->seen++;
    }
}

/* Mean run of equal classes, and its value in random order of the same classes: expected runs = 1 +
 * (m - 1) P(neighbours differ). */
static void class_runs(const shuffle_quality *quality, uint64_t first, uint64_t end,
                       shuffle_figures *out) {
    uint64_t counts[CLASS_MAX] = {0};
    uint64_t m = end - first, runs = 1;
    out->class_run = out->class_run_ideal = NAN;
    for (uint64_t p = first; p < end; p++) {
        if (quality->classes[p] >= CLASS_MAX) return;
        counts[quality->classes[p]]++;
        runs += p > first && quality->classes[p] != quality->classes[p - 1];
    }
    double same = 0, pairs = (double)m * (double)(m - 1);
    for (uint32_t c = 0; c < CLASS_MAX; c++)
        same += (double)counts[c] * (double)(counts[c] > 0 ? counts[c] - 1 : 0) / pairs;
    out->class_run = (double)m / (double)runs;
    out->class_run_ideal = (double)m / (1 + (double)(m - 1) * (1 - same));
}

bool shuffle_quality_figures(const shuffle_quality *quality, shuffle_figures *out) {
    uint64_t first = 0;
    while (first < quality->n && quality->index[first] == NOT_SEEN)
        first++;
    uint64_t end = first;
    while (end < quality->n && quality->index[end] != NOT_SEEN)
        end++;
    if (end - first < 2) return false;
    double n = (double)quality->n, m = (double)(end - first), moved = 0, uniform = 0;
    uint64_t together = 0;
    for (uint64_t p = first; p < end; p++) {
        double i = quality->index[p], x = (double)p;
        moved += fabs(i - x);
        /* Mean |i - p| over all samples i, for this p. */
        uniform += (x * (x + 1) + (n - 1 - x) * (n - x)) / (2 * n);
        if (p > first)
            together += llabs((long long)quality->index[p] - (long long)quality->index[p - 1]) == 1;
    }
    *out = (shuffle_figures){.share = m / n,
                             .displacement = moved / m / n,
                             .displacement_ideal = uniform / m / n,
                             .adjacency = (double)together / (m - 1),
                             .adjacency_ideal = 2 / n,
                             .class_run = NAN,
                             .class_run_ideal = NAN};
    if (quality->label >= 0) class_runs(quality, first, end, out);
    return true;
}
