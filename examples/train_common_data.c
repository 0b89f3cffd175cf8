/*
 * train_common_data.c - finds the samples, and opens loaders for them.
 *
 * A spec names a dataset: "cifar10:data/cifar-10-batches-bin?split=train". For NDArrayIter the
 * whole set is first read into arrays through a plain DataLoader. Fields keep their stored type, so
 * an image takes 3 KB and becomes floats only in the batch.
 */
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train_common.h"

iter_status train_fail(iter_error *err, iter_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return status;
}

/* ---- Specs ----------------------------------------------------------------------------------- */

/* Writes format:"path"?split=SPLIT, with the path quoted for the grammar. Returns false if it does
 * not fit. */
static bool make_spec(const char *format, const char *path, const char *split,
                      char out[TRAIN_PATH_MAX]) {
    int n = snprintf(out, TRAIN_PATH_MAX, "%s:\"", format);
    for (; *path != '\0' && n < TRAIN_PATH_MAX - 40; path++) {
        if (*path == '"' || *path == '\\') out[n++] = '\\';
        out[n++] = *path;
    }
    snprintf(out + n, (size_t)(TRAIN_PATH_MAX - n), "\"?split=%s", split);
    return *path == '\0';
}

/* Arrays are separate files: "train" in a name becomes "test". */
static bool make_test_files(const char *train, char out[TRAIN_PATH_MAX]) {
    size_t n = 0;
    const char *at = train;
    while (*at != '\0' && n < TRAIN_PATH_MAX - 8) {
        const bool found = strncmp(at, "train", 5) == 0;
        n += (size_t)snprintf(out + n, TRAIN_PATH_MAX - n, "%.*s", found ? 4 : 1,
                              found ? "test" : at);
        at += found ? 5 : 1;
    }
    return *at == '\0';
}

/* Makes the spec of the test split: the value of `split` becomes "test", and is added if missing.
 * Synthetic samples have no splits; they get another seed. */
static bool make_test_spec(const char *train, char out[TRAIN_PATH_MAX]) {
    if (strncmp(train, "npy:", 4) == 0) return make_test_files(train, out);
    const bool synthetic = strncmp(train, "synthetic:", 10) == 0;
    const char *key = synthetic ? "seed=" : "split=", *value = synthetic ? "4711" : "test";
    const char *options = strrchr(train, '?'), *at = options;
    while (at != NULL && (at = strstr(at + 1, key)) != NULL)
        if (at[-1] == '?' || at[-1] == '&') break;
    int n;
    if (at != NULL)
        n = snprintf(out, TRAIN_PATH_MAX, "%.*s%s%s%s", (int)(at - train), train, key, value,
                     at + strcspn(at, "&"));
    else
        n = snprintf(out, TRAIN_PATH_MAX, "%s%c%s%s", train, options != NULL ? '&' : '?', key,
                     value);
    return n < TRAIN_PATH_MAX;
}

/* Writes the program's spec for a split of a folder. Returns false if it does not fit, or if the
 * path cannot stand between quotes. */
static bool make_own_spec(const train_program *program, const char *path, const char *split,
                          char out[TRAIN_PATH_MAX]) {
    const char *format = program->spec, *first = strstr(format, "%s");
    const char *second = strstr(first + 2, "%s");
    const int n = snprintf(out, TRAIN_PATH_MAX, "%.*s%s%.*s%s%s", (int)(first - format), format,
                           path, (int)(second - first - 2), first + 2, split, second + 2);
    return n < TRAIN_PATH_MAX && strpbrk(path, "\"\\") == NULL;
}

/* Both splits of a folder. */
static bool make_specs(const train_program *program, const char *path, char train[TRAIN_PATH_MAX],
                       char test[TRAIN_PATH_MAX]) {
    if (program->spec != NULL)
        return make_own_spec(program, path, "train", train) &&
               make_own_spec(program, path, "test", test);
    return make_spec(program->format, path, "train", train) && make_test_spec(train, test);
}

/* Generates a set in a new folder, whose path is stored in out. */
static iter_status generate(const train_program *program, char out[TRAIN_PATH_MAX],
                            iter_error *err) {
    const char *parent = getenv("TMPDIR");
    snprintf(out, TRAIN_PATH_MAX, "%.4000s/iter-XXXXXX",
             parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    if (mkdtemp(out) == NULL) {
        out[0] = '\0';
        return train_fail(err, ITER_EIO, "cannot make a folder for a generated set: %s",
                          strerror(errno));
    }
    if (program->generate(out)) return ITER_OK;
    return train_fail(err, ITER_EIO, "%.300s: cannot generate a set: %s", out, strerror(errno));
}

/* Finds the first of $ITER_DATA/name and ./data/name that exists; "" = neither does.
 * scripts/find_data.sh follows the same rule. Returns false if a path is too long. */
static bool find_folder(const char *name, char out[TRAIN_PATH_MAX]) {
    const char *roots[] = {getenv("ITER_DATA"), "data"};
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        if (roots[i] == NULL || roots[i][0] == '\0') continue;
        if (snprintf(out, TRAIN_PATH_MAX, "%s/%s", roots[i], name) >= TRAIN_PATH_MAX) return false;
        if (access(out, F_OK) == 0) return true;
    }
    out[0] = '\0';
    return true;
}

iter_status train_find_data(const train_program *program, const train_options *options,
                            char train[TRAIN_PATH_MAX], char test[TRAIN_PATH_MAX],
                            char generated[TRAIN_PATH_MAX], iter_error *err) {
    char path[TRAIN_PATH_MAX];
    bool fits = true;
    generated[0] = '\0';
    test[0] = '\0';
    if (options->data != NULL) {
        fits = snprintf(train, TRAIN_PATH_MAX, "%s", options->data) < TRAIN_PATH_MAX;
        if (fits && options->test == NULL && program->spec == NULL)
            fits = make_test_spec(train, test);
    } else if (!find_folder(program->folder, path)) {
        fits = false;
    } else if (path[0] != '\0') {
        fits = make_specs(program, path, train, test);
    } else {
        iter_status s = generate(program, generated, err);
        if (s < 0) return s;
        fits = make_specs(program, generated, train, test);
    }
    if (options->test != NULL)
        fits = fits && snprintf(test, TRAIN_PATH_MAX, "%s", options->test) < TRAIN_PATH_MAX;
    return fits ? ITER_OK : train_fail(err, ITER_EINVAL, "the path of the data is too long");
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void train_remove_data(const char *generated) {
    if (generated[0] != '\0') nftw(generated, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- Arrays for NDArrayIter ------------------------------------------------------------------ */

typedef struct arrays {
    int32_t n;
    uint64_t n_rows;
    char names[ITER_MAX_FIELDS][ITER_NAME_MAX];
    iter_array list[ITER_MAX_FIELDS];
    uint8_t *values[ITER_MAX_FIELDS];
} arrays;

static void free_arrays(void *user) {
    arrays *a = user;
    for (int32_t i = 0; i < a->n; i++)
        free(a->values[i]);
    free(a);
}

/* Makes one array of n_rows rows per field. */
static iter_status make_arrays(const iter_loader *loader, uint64_t n_rows, arrays *out,
                               iter_error *err) {
    out->n_rows = n_rows;
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++) {
        const iter_batch_field *field = iter_loader_field(loader, i);
        iter_array *array = &out->list[i];
        if (field->desc.n_dims > 1 && field->desc.dims[1] == ITER_VARIABLE)
            return train_fail(err, ITER_EINVAL,
                              "rows of '%s' differ in length, so they cannot be an array",
                              field->name);
        snprintf(out->names[i], ITER_NAME_MAX, "%s", field->name);
        *array = (iter_array){.name = out->names[i], .role = field->role, .desc = field->desc};
        array->desc.dims[0] = (int64_t)n_rows;
        array->data = out->values[i] = malloc(iter_desc_bytes(&array->desc));
        out->n = i + 1;
        if (array->data == NULL) return train_fail(err, ITER_ENOMEM, "no memory for the arrays");
    }
    return ITER_OK;
}

/* Copies all batches, in order. A loader without a chain delivers dense data. */
static iter_status fill_arrays(iter_loader *loader, arrays *out, iter_error *err) {
    iter_batch *batch;
    iter_status s;
    uint64_t at = 0;
    while ((s = iter_loader_next(loader, &batch, err)) == ITER_OK) {
        const uint32_t n = iter_batch_describe(batch).n_rows;
        for (int32_t i = 0; i < out->n && at + n <= out->n_rows; i++) {
            const size_t row_bytes = iter_desc_bytes(&out->list[i].desc) / out->n_rows;
            memcpy(out->values[i] + at * row_bytes, iter_batch_tensor(batch, i)->data,
                   n * row_bytes);
        }
        at += n;
        iter_batch_unref(batch);
    }
    if (s == ITER_END && at != out->n_rows)
        return train_fail(err, ITER_EFORMAT, "the set ended early");
    return s < 0 ? s : ITER_OK;
}

static iter_status open_arrays(iter_dataset *dataset, iter_chain *chain, iter_loader_options *opt,
                               iter_loader **out, iter_error *err) {
    const uint64_t n = iter_dataset_describe(dataset)->n_samples;
    arrays *a = calloc(1, sizeof(*a));
    if (a == NULL) return train_fail(err, ITER_ENOMEM, "no memory for the arrays");
    iter_loader *plain;
    iter_loader_options in_order = ITER_LOADER_OPTIONS_INIT;
    in_order.batch_size = 256;
    iter_status s = iter_dataloader_create(dataset, NULL, &in_order, &plain, err);
    if (s == ITER_OK) {
        s = make_arrays(plain, n, a, err);
        if (s == ITER_OK) s = fill_arrays(plain, a, err);
        iter_loader_unref(plain);
    }
    opt->arrays.release = free_arrays; /* called when loader and batches no longer need them */
    opt->arrays.user = a;
    if (s == ITER_OK) s = iter_ndarray_create(a->list, a->n, chain, opt, out, err);
    if (s < 0) free_arrays(a);
    return s;
}

/* ---- Loaders --------------------------------------------------------------------------------- */

iter_status train_open_loader(const train_options *options, const iter_communicator *comm,
                              const char *spec, iter_chain *chain, bool training, iter_loader **out,
                              iter_error *err) {
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    opt.rank = iter_communicator_rank(comm);
    opt.ranks = iter_communicator_ranks(comm);
    opt.global_batch = (uint32_t)options->batch;
    opt.micro_batches = (uint32_t)train_micro_batches(options, opt.ranks);
    opt.workers = (int32_t)options->workers;
    opt.seed = options->seed;
    /* For training, whole batches in a new order each epoch, as published. For the test, every
     * sample once. */
    opt.shuffle = training ? ITER_SHUFFLE_FULL : ITER_SHUFFLE_NONE;
    opt.last_batch = training ? ITER_LAST_DISCARD : ITER_LAST_KEEP;
    if (options->device != 0) {
        opt.memory.kind = ITER_MEMORY_DEVICE;
        opt.memory.device = options->device;
        opt.memory.finish = options->finish;
        opt.memory.resident = options->resident;
    }
    iter_dataset *dataset;
    iter_status s = iter_dataset_open(spec, NULL, &dataset, err);
    if (s < 0) return s;
    const uint64_t n = iter_dataset_describe(dataset)->n_samples;
    if (n == ITER_UNKNOWN)
        s = train_fail(err, ITER_EINVAL, "%.300s: is a stream; expected a set of known length",
                       spec);
    else if (training && n < options->batch)
        s = train_fail(err, ITER_EINVAL, "%.300s: has %llu samples, a batch needs %llu", spec,
                       (unsigned long long)n, (unsigned long long)options->batch);
    else if (options->loader == 1)
        s = open_arrays(dataset, chain, &opt, out, err);
    else
        s = iter_dataloader_create(dataset, chain, &opt, out, err);
    iter_dataset_unref(dataset);
    return s;
}
