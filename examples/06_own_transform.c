/* 06_own_transform.c - your own stage, "noise", used like the built-in ones: one row of a table
 * defines, checks and documents its option. */
#include <iter/iter.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct noise_options {
    double amount;
} noise_options;
static const noise_options defaults = {0.1};
static const iter_option rows[] = {
    {"amount", "added to every number, at most", ITER_OPTION_DOUBLE,
     offsetof(noise_options, amount), 0, 10, NULL, 1}, /* from 0 to 10; its name may be left out */
    {NULL, NULL, ITER_OPTION_BOOL, 0, 0, 0, NULL, 0},
};

/* Called once: returns the output's description for that of the input, or an error. */
static iter_status plan(const void *options, const iter_desc *in, iter_desc *out,
                        size_t *out_scratch, iter_error *err) {
    (void)options;
    if (in->dtype != ITER_F32) {
        *err = (iter_error){ITER_EINVAL, "wants f32: put to:f32 before it"};
        return ITER_EINVAL;
    }
    *out = *in;
    *out_scratch = 0;
    return ITER_OK;
}

/* Called for every sample, by any worker. Use no random numbers but those of `rng`: they depend
 * only on seed, epoch and position, so a sample gets the same noise whichever worker makes it. */
static iter_status apply(void *state, const void *options, const iter_tensor *in, iter_tensor *out,
                         iter_rng *rng, void *scratch, iter_error *err) {
    (void)state, (void)scratch, (void)err;
    const float amount = (float)((const noise_options *)options)->amount;
    const float *from = in->data;
    float *to = out->data;
    for (int64_t i = 0; i < iter_desc_elements(&in->desc); i++)
        to[i] = from[i] + amount * (2 * iter_rng_uniform(rng) - 1);
    return ITER_OK;
}

static const iter_transform_ops noise = {
    .base = {sizeof(noise), "noise", "adds uniform noise", rows, &defaults, sizeof(defaults), 0},
    .plan = plan,
    .apply = apply,
};

int main(int argc, char **argv) {
    iter_error err;
    iter_registry *registry = NULL;
    iter_dataset *data = NULL;
    iter_chain *chain = NULL;
    iter_loader *loader = NULL;
    iter_batch *batch;
    const char *spec = argc > 1 ? argv[1] : "synthetic:mnist";
    iter_status s;
    if ((s = iter_registry_create(&registry, &err)) == ITER_OK &&
        (s = iter_registry_add_transform(registry, &noise, &err)) == ITER_OK &&
        (s = iter_dataset_open(spec, NULL, &data, &err)) == ITER_OK &&
        (s = iter_chain_parse("scale:0 | to:f32 | noise:0.5", registry, &chain, &err)) == ITER_OK &&
        (s = iter_dataloader_create(data, chain, NULL, &loader, &err)) == ITER_OK &&
        (s = iter_loader_next(loader, &batch, &err)) == ITER_OK) {
        const iter_tensor *x = iter_batch_tensor(batch, 0);
        double most = 0, n = (double)iter_desc_elements(&x->desc);
        for (int64_t i = 0; i < (int64_t)n; i++)
            if (((float *)x->data)[i] > most) most = ((float *)x->data)[i];
        printf("%g numbers, the largest %.3f\n", n, most);
        iter_batch_unref(batch);
    }
    if (s < 0) fprintf(stderr, "%s\n", err.message);
    iter_loader_unref(loader), iter_chain_unref(chain), iter_dataset_unref(data);
    iter_registry_destroy(registry);
    return s < 0;
}
