/* test_checkpoint.c - a run that was saved and loaded continues bit for bit. If a checkpoint does
 * not fit it is refused, and nothing has changed. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine_memory.h"
#include "engine/safetensors.h"
#include "engine/trainer.h"
#include "tests/support/make_data.h"

TestSuite(checkpoint, .timeout = 200);

#define N     22 /* samples; batches of 4, the last one of 2 */
#define MODEL "conv2d:3,kernel=3 | relu | dropout:0.3 | flatten | dense:4 | softmax-cross-entropy"
#define ADAM  "adam:lr=0.01,step=1,factor=0.5"
#define MOST  4096 /* numbers in all weights and moments of a model here, at most */

static char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];

static void make(void) {
    make_folder(folder);
    make_path(path, folder, "checkpoint.safetensors");
}

static void drop(void) {
    make_folder_gone(folder);
    /* abort(): a failed assertion here would not fail the test */
    if (iter__engine_live() != 0) abort();
}

/* ---- A small run ----------------------------------------------------------------------------- */

typedef struct setup {
    const char *model, *optimizer, *backend;
    uint64_t seed;
    int64_t side;    /* of an image */
    float first;     /* value of the first pixel: another set */
    uint32_t n_rows; /* of the set */
} setup;

static setup usual(void) {
    return (setup){MODEL, ADAM, "reference", 7, 6, 0, N};
}

typedef struct small_run {
    iter_model *model;
    iter_loader *loader;
    iter_trainer *trainer;
    float *pixels;
    int32_t *labels;
} small_run;

static void run_begin(small_run *r, const setup *s) {
    iter_error err = {0};
    const int64_t row = 2 * s->side * s->side;
    r->pixels = malloc((size_t)(s->n_rows * row) * sizeof(float));
    r->labels = malloc(s->n_rows * sizeof(int32_t));
    cr_assert(r->pixels && r->labels);
    for (int64_t i = 0; i < s->n_rows * row; i++)
        r->pixels[i] = (float)((i * 7919 + i / row * 13) % 97) / 97 - 0.5f;
    r->pixels[0] = s->first;
    for (uint32_t i = 0; i < s->n_rows; i++)
        r->labels[i] = (int32_t)(i % 4);
    const iter_array arrays[] = {{.role = ITER_DATA,
                                  .desc = {.dtype = ITER_F32,
                                           .n_dims = 4,
                                           .dims = {s->n_rows, 2, s->side, s->side},
                                           .layout = "NCHW"},
                                  .data = r->pixels},
                                 {.role = ITER_LABEL,
                                  .desc = {.dtype = ITER_I32, .n_dims = 1, .dims = {s->n_rows}},
                                  .data = r->labels}};
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.batch_size = 4;
    opt.shuffle = ITER_SHUFFLE_FULL;
    opt.last_batch = ITER_LAST_KEEP;
    opt.seed = 3;
    cr_assert_eq(iter_ndarray_create(arrays, 2, NULL, &opt, &r->loader, &err), 0, "%s",
                 err.message);
    cr_assert_eq(iter_model_parse(s->model, &r->model, &err), 0, "%s", err.message);
    iter_trainer_options train = ITER_TRAINER_OPTIONS_INIT;
    train.backend = s->backend;
    train.optimizer = s->optimizer;
    train.seed = s->seed;
    train.threads = 1;
    cr_assert_eq(iter_trainer_create(r->model, r->loader, &train, &r->trainer, &err), 0, "%s",
                 err.message);
}

static void run_end(small_run *r) {
    iter_trainer_destroy(r->trainer);
    iter_loader_unref(r->loader);
    iter_model_unref(r->model);
    free(r->pixels);
    free(r->labels);
}

/* Runs n steps, over as many epochs as they take; adds up the losses in order. */
static double run_steps(small_run *r, int n) {
    double sum = 0;
    iter_error err = {0};
    for (int i = 0; i < n;) {
        iter_batch *batch;
        iter_result result;
        const iter_status s = iter_loader_next(r->loader, &batch, &err);
        cr_assert_geq(s, 0, "%s", err.message);
        if (s == ITER_END) {
            cr_assert_eq(iter_loader_reset(r->loader, &err), 0);
            continue;
        }
        cr_assert_eq(iter_trainer_step(r->trainer, batch, &result, &err), 0, "%s", err.message);
        sum = sum * 1.25 + result.loss;
        iter_batch_unref(batch);
        i++;
    }
    return sum;
}

/* Everything that a trainer is: weights, moments, steps; and its loader's place. */
typedef struct state {
    uint64_t n_bytes, n_steps, seed, samples;
    uint32_t epoch;
    uint8_t values[MOST * 8];
} state;

static void state_of(const small_run *r, state *out) {
    memset(out, 0, sizeof(*out));
    const engine_optimizer *optimizer = &r->trainer->optimizer;
    const size_t real = iter_dtype_bytes(r->trainer->ops->real);
    for (int32_t i = 0; i < iter_trainer_n_params(r->trainer); i++)
        for (int32_t k = 0; k <= iter__optimizer_n_moments(optimizer); k++) {
            const iter_value kind = k == 0   ? ITER_VALUE_WEIGHT
                                    : k == 1 ? ITER_VALUE_MOMENT
                                             : ITER_VALUE_MOMENT2;
            const size_t n =
                (size_t)iter_desc_elements(&iter_trainer_param(r->trainer, i)->desc) * real;
            cr_assert_leq(out->n_bytes + n, sizeof(out->values));
            cr_assert_eq(iter_trainer_get(r->trainer, i, kind, out->values + out->n_bytes, n, NULL),
                         0);
            out->n_bytes += n;
        }
    out->n_steps = iter_trainer_describe(r->trainer).n_steps;
    out->seed = r->trainer->seed;
    iter_loader_position(r->loader, &out->epoch, &out->samples);
}

static bool same(const state *a, const state *b) {
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void save(small_run *r, bool with_loader) {
    iter_error err = {0};
    cr_assert_eq(iter_trainer_save(r->trainer, with_loader ? r->loader : NULL, path, &err), 0, "%s",
                 err.message);
}

/* ---- Resuming -------------------------------------------------------------------------------- */

static void expect_goes_on(const setup *s, int before, int after) {
    static state whole, resumed;
    small_run a, b;
    iter_error err = {0};
    run_begin(&a, s);
    run_steps(&a, before);
    save(&a, true);
    const double due = run_steps(&a, after);
    state_of(&a, &whole);
    run_end(&a);

    run_begin(&b, s);
    run_steps(&b, 3); /* its own past is forgotten */
    cr_assert_eq(iter_trainer_load(b.trainer, b.loader, path, &err), 0, "%s", err.message);
    cr_assert_eq(iter_trainer_describe(b.trainer).n_steps, (uint64_t)before);
    cr_expect_eq(run_steps(&b, after), due, "%s %s %d + %d", s->backend, s->optimizer, before,
                 after);
    state_of(&b, &resumed);
    cr_expect(same(&whole, &resumed), "%s %s %d + %d", s->backend, s->optimizer, before, after);
    run_end(&b);
}

Test(checkpoint, resumed_is_bit_for_bit_uninterrupted, .init = make, .fini = drop) {
    static const char *const optimizers[] = {"sgd:lr=0.05",
                                             "sgd:lr=0.05,momentum=0.9,weight-decay=0.01", ADAM,
                                             "sgd:lr=0.05,momentum=0.9,step=1,factor=0.1"};
    for (const char *const *backend = iter_engine_backends(); *backend != NULL; backend++)
        for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
            /* it needs a GPU, and has tests of its own */
            if (strcmp(*backend, "cuda") == 0) continue;
            setup s = usual();
            s.backend = *backend;
            s.optimizer = optimizers[i];
            expect_goes_on(&s, 4, 5);  /* within an epoch, and into the next one */
            expect_goes_on(&s, 6, 7);  /* from an epoch's very end */
            expect_goes_on(&s, 0, 1);  /* from the beginning */
            expect_goes_on(&s, 15, 2); /* from the third one */
        }
}

Test(checkpoint, other_layers_go_on_too, .init = make, .fini = drop) {
    for (const char *const *backend = iter_engine_backends(); *backend != NULL; backend++) {
        if (strcmp(*backend, "cuda") == 0) continue; /* it needs a GPU, and has tests of its own */
        setup s = usual();
        s.backend = *backend;
        s.model = "flatten | dense:6 | tanh | dropout:0.5 | dense:4 | softmax-cross-entropy";
        expect_goes_on(&s, 3, 4);
    }
}

Test(checkpoint, the_file_holds_what_it_should, .init = make, .fini = drop) {
    const setup s = usual();
    small_run r;
    run_begin(&r, &s);
    run_steps(&r, 2);
    save(&r, true);
    engine_tensor_file *file;
    iter_error err = {0};
    cr_assert_eq(iter__safetensors_open(path, &file, &err), 0, "%s", err.message);
    cr_expect_eq(iter__safetensors_count(file), 4 * 3 + 1);
    const int32_t at = iter__safetensors_find(file, "conv2d0.weight");
    cr_assert_geq(at, 0);
    const engine_tensor *t = iter__safetensors_tensor(file, at);
    cr_expect_eq(t->dtype, ITER_F32);
    cr_expect(t->n_dims == 4 && t->dims[0] == 3 && t->dims[1] == 2 && t->dims[2] == 3);
    float stored[54], held[54];
    cr_assert_eq(iter__safetensors_read(file, at, stored, &err), 0);
    cr_assert_eq(iter_trainer_get(r.trainer, 0, ITER_VALUE_WEIGHT, held, sizeof(held), &err), 0);
    cr_expect_arr_eq(stored, held, sizeof(held));
    cr_expect_geq(iter__safetensors_find(file, "dense0.bias.moment2"), 0);
    const int32_t position = iter__safetensors_find(file, "loader.position");
    cr_expect_geq(position, 0);
    cr_expect_eq(iter__safetensors_tensor(file, position)->dtype, ITER_U8);
    cr_expect_str_eq(iter__safetensors_text(file, "iter.checkpoint"), "1");
    cr_expect_str_eq(iter__safetensors_text(file, "iter.model"), iter_model_text(r.model));
    cr_expect_str_eq(iter__safetensors_text(file, "iter.seed"), "7");
    cr_expect_str_eq(iter__safetensors_text(file, "iter.steps"), "2");
    cr_expect_str_eq(iter__safetensors_text(file, "iter.real"), "f32");
    iter__safetensors_close(file);
    run_end(&r);
}

/* ---- What does not fit ----------------------------------------------------------------------- */

/* Loading the file into this run must fail with `want`, and leave the run as it was, its next steps
 * included. */
static void expect_refused(const setup *s, bool with_loader, iter_status want, const char *part) {
    static state before, after;
    small_run r;
    iter_error err = {0};
    run_begin(&r, s);
    run_steps(&r, 5);
    state_of(&r, &before);
    const iter_status got = iter_trainer_load(r.trainer, with_loader ? r.loader : NULL, path, &err);
    cr_expect_eq(got, want, "%s: got %d \"%s\"", part, got, err.message);
    cr_expect_eq(err.status, want);
    cr_expect(strstr(err.message, part), "no \"%s\" in \"%s\"", part, err.message);
    state_of(&r, &after);
    cr_expect(same(&before, &after), "%s: something has changed", part);
    run_steps(&r, 3);
    run_end(&r);
}

Test(checkpoint, what_does_not_fit_is_named_and_changes_nothing, .init = make, .fini = drop) {
    setup s = usual();
    small_run r;
    run_begin(&r, &s);
    run_steps(&r, 2);
    save(&r, true);
    s.model = "conv2d:3,kernel=3 | relu | dropout:0.2 | flatten | dense:4 | softmax-cross-entropy";
    expect_refused(&s, true, ITER_EINVAL, "another model: \"...| dropout");
    s = usual();
    s.optimizer = "adam:lr=0.02,step=1,factor=0.5";
    expect_refused(&s, true, ITER_EINVAL, "another optimiser");
    s.optimizer = "sgd:lr=0.01";
    expect_refused(&s, true, ITER_EINVAL, "another optimiser");
    s = usual();
    s.backend = "reference-f64";
    expect_refused(&s, true, ITER_EINVAL, "another element type");
    s = usual();
    s.side = 5;
    expect_refused(&s, true, ITER_EINVAL, "'dense0.weight' is f32 [4, 48] there, f32 [4, 27] here");
    s = usual();
    s.seed = 8;
    expect_refused(&s, true, ITER_EINVAL, "saved with seed 7, this trainer has 8");
    s = usual();
    s.n_rows = 20; /* the weights fit, but the loader refuses: they are set back */
    expect_refused(&s, true, ITER_EINVAL, "");
    s = usual();
    save(&r, false);
    expect_refused(&s, true, ITER_EINVAL, "without a loader's position");
    iter_error err = {0};
    cr_expect_eq(iter_trainer_load(r.trainer, NULL, path, &err), ITER_OK, "%s", err.message);
    cr_expect_eq(iter_trainer_save(r.trainer, NULL, "", &err), ITER_EINVAL);
    cr_expect_eq(unlink(path), 0);
    expect_refused(&s, true, ITER_EIO, "No such file");
    run_end(&r);
}

/* Copies the checkpoint with one text of its metadata changed (NULL = left out). */
static iter_status copy_values(void *user, int32_t i, void *out, iter_error *err) {
    return iter__safetensors_read(user, i, out, err);
}

static void rewrite(const char *key, const char *value, const char *without) {
    engine_tensor_file *file;
    engine_tensor tensors[64];
    engine_text texts[16];
    int32_t n = 0, n_texts = 0;
    char copy[MAKE_PATH_MAX];
    iter_error err = {0};
    cr_assert_eq(iter__safetensors_open(path, &file, &err), 0, "%s", err.message);
    for (int32_t i = 0; i < iter__safetensors_count(file); i++)
        tensors[n++] = *iter__safetensors_tensor(file, i);
    /* only the last can be left out */
    if (without != NULL) cr_assert_str_eq(tensors[--n].name, without);
    for (int32_t i = 0; i < iter__safetensors_n_texts(file); i++) {
        texts[n_texts] = iter__safetensors_entry(file, i);
        if (key != NULL && strcmp(texts[n_texts].key, key) == 0) texts[n_texts].value = value;
        n_texts += texts[n_texts].value != NULL;
    }
    make_path(copy, folder, "copy");
    cr_assert_eq(iter__safetensors_write(copy, tensors, n, texts, n_texts, copy_values, file, &err),
                 0, "%s", err.message);
    iter__safetensors_close(file);
    cr_assert_eq(rename(copy, path), 0);
}

Test(checkpoint, other_files_are_no_checkpoints, .init = make, .fini = drop) {
    static const struct {
        const char *key, *value;
        iter_status status;
        const char *part;
    } cases[] = {
        {"iter.checkpoint", "2", ITER_EFORMAT, "version '2', this build reads 1"},
        {"iter.checkpoint", NULL, ITER_EFORMAT, "not a checkpoint of a trainer"},
        {"iter.model", NULL, ITER_EFORMAT, "has no 'iter.model'"},
        {"iter.seed", NULL, ITER_EFORMAT, "has no 'iter.seed'"},
        {"iter.seed", "seven", ITER_EFORMAT, "'iter.seed' is not a number: 'seven'"},
        {"iter.seed", "-7", ITER_EFORMAT, "not a number"},
        {"iter.steps", "18446744073709551616", ITER_EFORMAT, "not a number"},
        {"iter.steps", "", ITER_EFORMAT, "not a number"},
    };
    const setup s = usual();
    small_run r;
    run_begin(&r, &s);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        save(&r, true);
        rewrite(cases[i].key, cases[i].value, NULL);
        expect_refused(&s, true, cases[i].status, cases[i].part);
    }
    save(&r, false);
    rewrite(NULL, NULL, "dense0.bias.moment2");
    expect_refused(&s, false, ITER_EFORMAT, "'dense0.bias.moment2' is missing");
    run_end(&r);
}

static size_t slurp(uint8_t *out, size_t capacity) {
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    const size_t n = fread(out, 1, capacity, file);
    cr_assert(n < capacity);
    (void)fclose(file);
    return n;
}

/* Every truncation is refused. If a bit of the header is flipped, the file is refused or loads with
 * the same values. */
Test(checkpoint, damaged_files_change_nothing, .init = make, .fini = drop) {
    static uint8_t bytes[65536], damaged[65536];
    static state before, after;
    const setup s = usual();
    small_run r;
    iter_error err = {0};
    run_begin(&r, &s);
    run_steps(&r, 3);
    save(&r, true);
    const size_t n = slurp(bytes, sizeof(bytes)), begin = 8 + bytes[0] + 256u * bytes[1];
    run_steps(&r, 2);
    state_of(&r, &before);
    for (size_t k = 0; k < n; k += k < begin + 8 ? 7 : 311) {
        make_file(folder, "checkpoint.safetensors", bytes, k);
        cr_assert_eq(iter_trainer_load(r.trainer, r.loader, path, &err), ITER_EFORMAT, "%zu", k);
        cr_assert(strstr(err.message, "checkpoint.safetensors"), "%s", err.message);
    }
    for (size_t k = 0; k < begin; k++) {
        memcpy(damaged, bytes, n);
        damaged[k] ^= (uint8_t)(1 << k % 7);
        make_file(folder, "checkpoint.safetensors", damaged, n);
        const iter_status got = iter_trainer_load(r.trainer, r.loader, path, &err);
        if (got == ITER_OK) { /* a blank changed, or the number of steps */
            make_file(folder, "checkpoint.safetensors", bytes, n);
            cr_assert_eq(iter_trainer_load(r.trainer, r.loader, path, &err), 0);
            run_steps(&r, 2);
        } else {
            cr_assert(got == ITER_EFORMAT || got == ITER_EINVAL, "%zu: %d", k, got);
        }
        state_of(&r, &after);
        cr_assert(same(&before, &after), "byte %zu: something has changed", k);
    }
    /* The last bytes belong to the position. If the loader finds it damaged, everything is
     * undone. */
    int n_refused = 0;
    for (size_t k = n - 8; k < n; k++) {
        memcpy(damaged, bytes, n);
        damaged[k] ^= 0x55;
        make_file(folder, "checkpoint.safetensors", damaged, n);
        n_refused += iter_trainer_load(r.trainer, r.loader, path, &err) < 0;
        state_of(&r, &after);
        if (n_refused > 0) cr_assert(same(&before, &after), "byte %zu: something has changed", k);
    }
    cr_expect_gt(n_refused, 0);
    run_end(&r);
}

Test(checkpoint, every_allocation_may_fail, .init = make, .fini = drop) {
    static state before, after;
    const setup s = usual();
    small_run r;
    run_begin(&r, &s);
    run_steps(&r, 3);
    save(&r, true);
    run_steps(&r, 2);
    state_of(&r, &before);
    const long live = iter__engine_live();
    for (long i = 0;; i++) {
        iter_error err = {0};
        iter__engine_fail_after = i;
        const iter_status got = iter_trainer_load(r.trainer, r.loader, path, &err);
        iter__engine_fail_after = -1;
        cr_assert_eq(iter__engine_live(), live);
        if (got == ITER_OK) {
            cr_assert_geq(i, 6);
            break;
        }
        cr_assert_eq(got, ITER_ENOMEM, "%ld: %d", i, got);
        cr_assert_neq(err.message[0], '\0');
        state_of(&r, &after);
        cr_assert(same(&before, &after), "%ld: something has changed", i);
    }
    for (long i = 0;; i++) {
        iter_error err = {0};
        iter__engine_fail_after = i;
        const iter_status got = iter_trainer_save(r.trainer, r.loader, path, &err);
        iter__engine_fail_after = -1;
        cr_assert_eq(iter__engine_live(), live);
        if (got == ITER_OK) break;
        cr_assert_eq(got, ITER_ENOMEM, "%ld: %d", i, got);
        cr_assert_neq(err.message[0], '\0');
    }
    run_end(&r);
}
