/*
 * checkpoint.c - saves a trainer's state to a file, and restores it.
 *
 * The file is a safetensors file, so that other tools can open it. Each parameter is stored under
 * its name in canonical form, its moments as "NAME.moment" and "NAME.moment2", the loader's
 * position as the bytes "loader.position". What cannot be a tensor is text in the metadata:
 *
 *     iter.checkpoint  version of this layout: 1
 *     iter.model       iter_model_text()
 *     iter.optimizer   the optimiser as text
 *     iter.real        "f32", "f64": element type of the backend
 *     iter.seed        decimal; determines initial weights and dropout
 *     iter.micro_batches  decimal; parts of a global batch whose gradients are summed, 1 = none
 *     iter.steps       decimal; steps so far, on which dropout and Adam's correction depend
 *
 * Random numbers need no further state: they are counted by step, row and element, never drawn in
 * sequence. Loading reads and checks everything before it changes anything. It then swaps the
 * values of the trainer with those in memory, tensor by tensor. If something fails on the way (for
 * example the loader rejects the position), swapping again restores the old values.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/safetensors.h"
#include "engine/trainer.h"

#define VERSION     "1"
#define POSITION    "loader.position"
#define MAX_TENSORS (3 * ENGINE_MAX_PARAMS + 1)

static const iter_value kinds[] = {ITER_VALUE_WEIGHT, ITER_VALUE_MOMENT, ITER_VALUE_MOMENT2};
static const char *const suffixes[] = {"", ".moment", ".moment2"};

/* What a checkpoint of this trainer consists of. Tensor i is value i % n_kinds of parameter i /
 * n_kinds; if there is a position, it comes last. */
typedef struct contents {
    iter_trainer *trainer;
    int32_t n_kinds;
    int32_t n_values; /* tensors of the trainer */
    int32_t n_tensors;
    engine_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][96];
    uint8_t *position;
    size_t position_bytes;
} contents;

typedef struct numbers {
    uint64_t seed, n_steps;
    uint64_t micro_batches;
} numbers;

/* Values read from a file: those of tensor i start at block + at[i]. */
typedef struct loaded {
    uint8_t *block, *scratch; /* scratch: the largest tensor's size */
    uint64_t at[MAX_TENSORS];
} loaded;

static contents *contents_make(iter_trainer *trainer, iter_error *err) {
    contents *c = iter__engine_alloc(1, sizeof(*c));
    if (c == NULL) {
        iter__engine_fail(err, ITER_ENOMEM, "no memory for a checkpoint");
        return NULL;
    }
    c->trainer = trainer;
    c->n_kinds = 1 + iter__optimizer_n_moments(&trainer->optimizer);
    c->n_values = c->n_tensors = trainer->net.n_params * c->n_kinds;
    for (int32_t i = 0; i < c->n_values; i++) {
        const iter_param *param = &trainer->net.params[i / c->n_kinds].public;
        engine_tensor *tensor = &c->tensors[i];
        snprintf(c->names[i], sizeof(c->names[i]), "%s%s", param->name, suffixes[i % c->n_kinds]);
        tensor->name = c->names[i];
        tensor->dtype = trainer->ops->real;
        tensor->n_dims = param->desc.n_dims;
        memcpy(tensor->dims, param->desc.dims, sizeof(tensor->dims));
        tensor->bytes = (uint64_t)trainer->net.params[i / c->n_kinds].n_elements *
                        iter_dtype_bytes(trainer->ops->real);
    }
    return c;
}

static void contents_free(contents *c) {
    if (c == NULL) return;
    iter__engine_free(c->position);
    iter__engine_free(c);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static iter_status add_position(contents *c, iter_loader *loader, iter_error *err) {
    size_t bytes = 0;
    iter_status s = iter_loader_save(loader, NULL, 0, &bytes, err);
    if (s < 0) return s;
    c->position = iter__engine_alloc(bytes > 0 ? bytes : 1, 1);
    if (c->position == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "no memory for the loader's position");
    s = iter_loader_save(loader, c->position, bytes, &c->position_bytes, err);
    c->tensors[c->n_tensors++] = (engine_tensor){
        .name = POSITION, .dtype = ITER_U8, .n_dims = 1, .dims = {(int64_t)c->position_bytes}};
    return s;
}

static iter_status give_values(void *user, int32_t i, void *out, iter_error *err) {
    const contents *c = user;
    if (i < c->n_values)
        return c->trainer->ops->get(c->trainer->state, i / c->n_kinds, kinds[i % c->n_kinds], out,
                                    err);
    memcpy(out, c->position, c->position_bytes);
    return ITER_OK;
}

static iter_status save(iter_trainer *trainer, iter_loader *loader, const char *path,
                        iter_error *err) {
    contents *c = contents_make(trainer, err);
    if (c == NULL) return ITER_ENOMEM;
    char optimizer[512], seed[24], steps[24], parts[24];
    iter__optimizer_text(&trainer->optimizer, optimizer, sizeof(optimizer));
    snprintf(seed, sizeof(seed), "%" PRIu64, trainer->seed);
    snprintf(steps, sizeof(steps), "%" PRIu64, trainer->n_steps);
    snprintf(parts, sizeof(parts), "%u", trainer->job != NULL ? trainer->job->n_leaves : 1);
    const engine_text texts[] = {
        {"iter.checkpoint", VERSION},  {"iter.model", iter_model_text(trainer->model)},
        {"iter.optimizer", optimizer}, {"iter.real", iter_dtype_text(trainer->ops->real)},
        {"iter.seed", seed},           {"iter.steps", steps},
        {"iter.micro_batches", parts},
    };
    iter_status s = loader != NULL ? add_position(c, loader, err) : ITER_OK;
    if (s == ITER_OK)
        s = iter__safetensors_write(path, c->tensors, c->n_tensors, texts,
                                    (int32_t)(sizeof(texts) / sizeof(texts[0])), give_values, c,
                                    err);
    contents_free(c);
    return s;
}

/* Ranks have the same values, so one of them writes; all return the same. */
iter_status iter_trainer_save(iter_trainer *trainer, iter_loader *loader, const char *path,
                              iter_error *err) {
    if (trainer == NULL || path == NULL || path[0] == '\0')
        return iter__engine_fail(err, ITER_EINVAL, "a trainer and a path are needed");
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    if (trainer->job == NULL) return save(trainer, loader, path, err);
    iter_error own = {ITER_OK, ""};
    iter_status s = ITER_OK;
    if (trainer->job->comm->rank == 0) s = save(trainer, loader, path, &own);
    s = iter__job_agree(trainer->job, s, NULL, "", &own);
    if (s < 0 && err != NULL) *err = own;
    return s;
}

/* ---- Loading: does it fit? ------------------------------------------------------------------- */

static iter_status get_text(const engine_tensor_file *file, const char *path, const char *key,
                            const char **out, iter_error *err) {
    *out = iter__safetensors_text(file, key);
    if (*out != NULL) return ITER_OK;
    return iter__engine_fail(err, ITER_EFORMAT,
                             "%.300s: is not a checkpoint of a trainer: its metadata has no '%s'",
                             path, key);
}

static iter_status get_number(const engine_tensor_file *file, const char *path, const char *key,
                              uint64_t *out, iter_error *err) {
    const char *text;
    iter_status s = get_text(file, path, key, &text, err);
    if (s < 0) return s;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return iter__engine_fail(err, ITER_EFORMAT, "%.300s: '%s' is not a number: '%.40s'", path,
                                 key, text);
    return ITER_OK;
}

/* A file from before there were micro-batches has none. */
static iter_status get_parts(const engine_tensor_file *file, const char *path, uint64_t *out,
                             iter_error *err) {
    *out = 1;
    if (iter__safetensors_text(file, "iter.micro_batches") == NULL) return ITER_OK;
    return get_number(file, path, "iter.micro_batches", out, err);
}

/* The metadata `key` must equal what this trainer has. Because models are long, the message begins
 * with the first layer that differs. */
static iter_status check_text(const engine_tensor_file *file, const char *path, const char *key,
                              const char *what, const char *ours, iter_error *err) {
    const char *text;
    iter_status s = get_text(file, path, key, &text, err);
    if (s < 0 || strcmp(text, ours) == 0) return s;
    size_t at = 0, part = 0;
    for (; text[at] != '\0' && text[at] == ours[at]; at++)
        if (text[at] == '|') part = at;
    return iter__engine_fail(
        err, ITER_EINVAL, "%.150s: saved with another %s: \"%s%.120s\" there, \"%s%.120s\" here",
        path, what, part > 0 ? "..." : "", text + part, part > 0 ? "..." : "", ours + part);
}

/* Dropout depends on the seed: with another one, training would not continue as before. */
static iter_status check_seed(const iter_trainer *trainer, const char *path, uint64_t seed,
                              iter_error *err) {
    for (int32_t i = 0; seed != trainer->seed && i < trainer->net.n_layers; i++)
        if (trainer->net.layers[i].kind == ENGINE_DROPOUT)
            return iter__engine_fail(err, ITER_EINVAL,
                                     "%.300s: saved with seed %" PRIu64
                                     ", this trainer has %" PRIu64
                                     ", and its dropout depends on it",
                                     path, seed, trainer->seed);
    return ITER_OK;
}

static iter_status check_texts(const iter_trainer *trainer, const engine_tensor_file *file,
                               const char *path, numbers *out, iter_error *err) {
    const char *version;
    iter_status s = get_text(file, path, "iter.checkpoint", &version, err);
    if (s < 0) return s;
    if (strcmp(version, VERSION) != 0)
        return iter__engine_fail(err, ITER_EFORMAT,
                                 "%.300s: a checkpoint of version '%.40s', this build reads %s",
                                 path, version, VERSION);
    char optimizer[512];
    iter__optimizer_text(&trainer->optimizer, optimizer, sizeof(optimizer));
    s = check_text(file, path, "iter.model", "model", iter_model_text(trainer->model), err);
    if (s == ITER_OK) s = check_text(file, path, "iter.optimizer", "optimiser", optimizer, err);
    if (s == ITER_OK)
        s = check_text(file, path, "iter.real", "element type", iter_dtype_text(trainer->ops->real),
                       err);
    if (s == ITER_OK) s = get_number(file, path, "iter.seed", &out->seed, err);
    if (s == ITER_OK) s = get_number(file, path, "iter.steps", &out->n_steps, err);
    if (s == ITER_OK) s = get_parts(file, path, &out->micro_batches, err);
    return s == ITER_OK ? check_seed(trainer, path, out->seed, err) : s;
}

static const char *shape_text(const engine_tensor *tensor, char *out, size_t capacity) {
    iter_desc desc = {.dtype = tensor->dtype, .n_dims = tensor->n_dims};
    memcpy(desc.dims, tensor->dims, sizeof(desc.dims));
    return iter_desc_text(&desc, out, capacity);
}

/* Finds tensor `want` in the file; type and shape must be the same. */
static iter_status find_tensor(const engine_tensor_file *file, const char *path,
                               const engine_tensor *want, int32_t *out, iter_error *err) {
    *out = iter__safetensors_find(file, want->name);
    if (*out < 0)
        return iter__engine_fail(err, ITER_EFORMAT, "%.300s: tensor '%s' is missing", path,
                                 want->name);
    const engine_tensor *there = iter__safetensors_tensor(file, *out);
    if (there->dtype == want->dtype && there->n_dims == want->n_dims &&
        memcmp(there->dims, want->dims, sizeof(int64_t) * (size_t)want->n_dims) == 0)
        return ITER_OK;
    char a[100], b[100];
    return iter__engine_fail(err, ITER_EINVAL,
                             "%.200s: '%s' is %s there, %s here: saved from batches of another "
                             "shape",
                             path, want->name, shape_text(there, a, sizeof(a)),
                             shape_text(want, b, sizeof(b)));
}

/* ---- Loading: values ------------------------------------------------------------------------- */

static iter_status read_position(contents *c, const engine_tensor_file *file, const char *path,
                                 iter_error *err) {
    int32_t i = iter__safetensors_find(file, POSITION);
    if (i < 0)
        return iter__engine_fail(err, ITER_EINVAL, "%.300s: was saved without a loader's position",
                                 path);
    const engine_tensor *tensor = iter__safetensors_tensor(file, i);
    if (tensor->dtype != ITER_U8 || tensor->n_dims != 1)
        return iter__engine_fail(err, ITER_EFORMAT, "%.300s: '%s' is not a row of bytes", path,
                                 POSITION);
    c->position_bytes = (size_t)tensor->bytes;
    c->position = iter__engine_alloc(c->position_bytes > 0 ? c->position_bytes : 1, 1);
    if (c->position == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory for the loader's position",
                                 path);
    return iter__safetensors_read(file, i, c->position, err);
}

static iter_status read_values(const contents *c, const engine_tensor_file *file, const char *path,
                               loaded *out, iter_error *err) {
    uint64_t bytes = 0, most = 0;
    int32_t place[MAX_TENSORS];
    for (int32_t i = 0; i < c->n_values; i++) {
        iter_status s = find_tensor(file, path, &c->tensors[i], &place[i], err);
        if (s < 0) return s;
        out->at[i] = bytes;
        bytes += (c->tensors[i].bytes + 63) / 64 * 64;
        if (c->tensors[i].bytes > most) most = c->tensors[i].bytes;
    }
    out->block = iter__engine_alloc(bytes > 0 ? bytes : 1, 1);
    out->scratch = iter__engine_alloc(most > 0 ? most : 1, 1);
    if (out->block == NULL || out->scratch == NULL)
        return iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory for its %" PRIu64 " bytes",
                                 path, bytes);
    iter_status s = ITER_OK;
    for (int32_t i = 0; s == ITER_OK && i < c->n_values; i++)
        s = iter__safetensors_read(file, place[i], out->block + out->at[i], err);
    return s;
}

/* Swaps the values of the first n tensors in memory with those of the trainer. Returns how many
 * were swapped; fewer than n only after an error. */
static int32_t exchange(const contents *c, loaded *values, int32_t n, iter_error *err) {
    const engine_backend_ops *ops = c->trainer->ops;
    for (int32_t i = 0; i < n; i++) {
        int32_t param = i / c->n_kinds;
        iter_value kind = kinds[i % c->n_kinds];
        uint8_t *theirs = values->block + values->at[i];
        if (ops->get(c->trainer->state, param, kind, values->scratch, err) < 0) return i;
        if (ops->set(c->trainer->state, param, kind, theirs, err) < 0) {
            /* Restores what the failed call may have changed. */
            (void)ops->set(c->trainer->state, param, kind, values->scratch, NULL);
            return i;
        }
        memcpy(theirs, values->scratch, c->tensors[i].bytes);
    }
    return n;
}

static iter_status put(contents *c, loaded *values, const numbers *saved, iter_loader *loader,
                       const char *path, iter_error *err) {
    iter_error why = {ITER_OK, ""};
    int32_t n = exchange(c, values, c->n_values, &why);
    iter_status s = n < c->n_values ? why.status : ITER_OK;
    if (s == ITER_OK && loader != NULL)
        s = iter_loader_restore(loader, c->position, c->position_bytes, &why);
    if (s < 0) {
        (void)exchange(c, values, n, NULL);
        return iter__engine_fail(err, s, "%.200s: %s", path, why.message);
    }
    c->trainer->seed = saved->seed;
    c->trainer->n_steps = saved->n_steps;
    c->trainer->has_gradient = false;
    return ITER_OK;
}

/* What all ranks must have read. */
static uint64_t bits_of(const contents *c, const loaded *values, const numbers *saved) {
    uint64_t bits = iter__claim_bits(0, saved, sizeof(*saved));
    for (int32_t i = 0; i < c->n_values; i++)
        bits = iter__claim_bits(bits, values->block + values->at[i], c->tensors[i].bytes);
    return iter__claim_bits(bits, c->position, c->position_bytes);
}

/* Ranks change nothing before all of them have read the same. */
static iter_status agree(iter_trainer *trainer, iter_status s, const uint64_t *bits,
                         const char *path, iter_error *err) {
    iter_error own = {ITER_OK, ""};
    char what[400];
    if (trainer->job == NULL) return s;
    if (s < 0 && err != NULL) own = *err;
    snprintf(what, sizeof(what), "%.300s: what was read", path);
    s = iter__job_agree(trainer->job, s, bits, what, &own);
    if (s < 0 && err != NULL) *err = own;
    return s;
}

iter_status iter_checkpoint_read(const char *path, iter_checkpoint_info *out, iter_error *err) {
    engine_tensor_file *file = NULL;
    uint64_t parts = 1;
    if (path == NULL || path[0] == '\0' || out == NULL)
        return iter__engine_fail(err, ITER_EINVAL, "a path is needed, and out");
    *out = (iter_checkpoint_info){.micro_batches = 1};
    ENGINE_TRY(iter__safetensors_open(path, &file, err));
    iter_status s = get_number(file, path, "iter.seed", &out->seed, err);
    if (s == ITER_OK) s = get_number(file, path, "iter.steps", &out->n_steps, err);
    if (s == ITER_OK) s = get_parts(file, path, &parts, err);
    out->micro_batches = parts < UINT32_MAX ? (uint32_t)parts : UINT32_MAX;
    iter__safetensors_close(file);
    return s;
}

iter_status iter_trainer_load(iter_trainer *trainer, iter_loader *loader, const char *path,
                              iter_error *err) {
    if (trainer == NULL || path == NULL || path[0] == '\0')
        return iter__engine_fail(err, ITER_EINVAL, "a trainer and a path are needed");
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    engine_tensor_file *file = NULL;
    numbers saved = {0, 0, 0};
    uint64_t bits = 0;
    loaded *values = iter__engine_alloc(1, sizeof(*values));
    contents *c = contents_make(trainer, err);
    iter_status s = ITER_OK;
    if (values == NULL || c == NULL)
        s = iter__engine_fail(err, ITER_ENOMEM, "%.300s: no memory to read it", path);
    if (s == ITER_OK) s = iter__safetensors_open(path, &file, err);
    if (s == ITER_OK) s = check_texts(trainer, file, path, &saved, err);
    if (s == ITER_OK && loader != NULL) s = read_position(c, file, path, err);
    if (s == ITER_OK) s = read_values(c, file, path, values, err);
    if (s == ITER_OK && trainer->job != NULL) bits = bits_of(c, values, &saved);
    s = agree(trainer, s, &bits, path, err);
    if (s == ITER_OK) {
        s = put(c, values, &saved, loader, path, err);
        s = agree(trainer, s, NULL, path, err);
    }
    iter__safetensors_close(file);
    contents_free(c);
    if (values != NULL) {
        iter__engine_free(values->block);
        iter__engine_free(values->scratch);
    }
    iter__engine_free(values);
    return s;
}
