/* 05_own_dataset.c - samples from your own code, written straight into the batch, by any number of
 * workers. */
#include <iter/iter.h>
#include <stdio.h>
#include <string.h>

#define N 1000

/* Describes a sample: an f32 vector of 4, and a class. */
static iter_status describe(void *user, iter_description *out, iter_error *err) {
    (void)user, (void)err;
    out->n_samples = N;
    out->n_fields = 2;
    out->fields[0] =
        (iter_field){.name = "data", .desc = {.dtype = ITER_F32, .n_dims = 1, .dims = {4}}};
    out->fields[1] = (iter_field){.name = "label", .role = ITER_LABEL, .desc = {.dtype = ITER_I32}};
    return ITER_OK;
}

/* Makes n samples. Several workers call it, each with a state of its own. Here there is no state,
 * so start() and stop() are not needed. */
static iter_status get(void *user, void *state, uint32_t n, const uint64_t *indices,
                       const iter_tensor *rows, iter_rng *rng, iter_error *err) {
    (void)user, (void)state, (void)err;
    for (uint32_t i = 0; i < n; i++) {
        float *x = (float *)rows[0].data + i * rows[0].strides[0];
        /* noise from seed, epoch and position */
        for (int j = 0; j < 4; j++)
            x[j] = (float)indices[i] + iter_rng_uniform(&rng[i]);
        ((int32_t *)rows[1].data)[i * rows[1].strides[0]] = (int32_t)(indices[i] % 10);
    }
    return ITER_OK;
}

static iter_status start(void *user, void **out_state, iter_error *err) {
    (void)user, (void)err;
    *out_state = NULL;
    return ITER_OK;
}

static void stop(void *user, void *state) {
    (void)user, (void)state;
}

static const iter_dataset_ops ops = {.struct_size = sizeof(ops),
                                     .name = "vectors",
                                     .describe = describe,
                                     .start = start,
                                     .stop = stop,
                                     .get = get};

int main(void) {
    iter_error err;
    iter_dataset *data = NULL;
    iter_loader *loader = NULL;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 32, opt.shuffle = ITER_SHUFFLE_FULL, opt.workers = 2;
    iter_status s = iter_dataset_create(&ops, NULL, &data, &err);
    if (s == ITER_OK) s = iter_dataloader_create(data, NULL, &opt, &loader, &err);
    for (int epoch = 0; epoch < 2 && s >= 0; epoch++) {
        iter_batch *batch;
        double sum = 0;
        uint32_t n = 0;
        while ((s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
            const iter_tensor *x = iter_batch_find(batch, "data");
            for (int64_t i = 0; i < iter_desc_elements(&x->desc); i++)
                sum += ((const float *)x->data)[i];
            n += iter_batch_describe(batch).n_rows;
            iter_batch_unref(batch);
        }
        printf("epoch %d: %u samples, mean %.3f\n", epoch, n, sum / (4.0 * n));
        if (s >= 0) s = iter_loader_reset(loader, &err);
    }
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(loader);
    iter_dataset_unref(data);
    return s < 0;
}
