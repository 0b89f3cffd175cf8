/*
 * yardstick.c - prepares the straight loops of limits.c for the work of a loader, and times them.
 *
 * The work must be the loader's own: the same rows in, the same kernel, slots of the same size and
 * number as the loader used. Only chains of value and layout stages have such a loop (normalize,
 * scale, cast, to). For other chains `convert` and `ordered` are left out, which is better than
 * figures of other work. Coefficients are folded as the planner folds them.
 */
#include "bench/limits/yardstick.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/common/bench_cache.h"
#include "bench/common/bench_util.h"

#define LOAD_MAX_BYTES ((uint64_t)256 << 20)
#define READ_MAX_BYTES ((int64_t)512 << 20)
#define READ_MAX_S     1.0
#define READ_BYTES     ((size_t)1 << 20)
#define COPY_LEAST     ((size_t)64 << 20)
#define COPY_MOST      ((size_t)256 << 20)
#define COPY_TIMES     5
#define SLICE_S        0.05
#define SLICES_WANTED  5
#define CHANNELS_MAX   ITER_OPTION_LIST_MAX
#define STAGE_TEXT_MAX 512

/* ---- Chain ----------------------------------------------------------------------------------- */

/* x * scale[c] + bias[c]: the stages read so far. */
typedef struct affine {
    int32_t n;
    double scale[CHANNELS_MAX], bias[CHANNELS_MAX];
    iter_dtype dtype; /* type of the values at this stage */
    bool any;
} affine;

static const iter_transform_ops *transform_named(const char *name, size_t length) {
    for (int i = 0;; i++) {
        const iter_transform_ops *ops = iter_builtin_transform(i);
        if (ops == NULL ||
            (strlen(ops->base.name) == length && memcmp(ops->base.name, name, length) == 0))
            return ops;
    }
}

/* The value of `key` in "a,b,key=value", or the positional argument `place` (1, 2, ...), or
 * NULL. */
static const char *argument(const char *arguments, const char *key, int place, size_t *out_length) {
    size_t key_length = strlen(key);
    for (const char *at = arguments; *at != '\0';) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ",");
        const char *equals = memchr(at, '=', length);
        bool named = equals != NULL && (size_t)(equals - at) == key_length &&
                     memcmp(at, key, key_length) == 0;
        if (named || (equals == NULL && --place == 0)) {
            const char *value = named ? equals + 1 : at;
            *out_length = (size_t)(at + length - value);
            return value;
        }
        at += length;
        at += *at == ',';
    }
    return NULL;
}

static int32_t numbers(const char *arguments, const char *key, int place, double *out) {
    size_t length;
    const char *text = argument(arguments, key, place, &length);
    int32_t n = 0;
    for (const char *end = text != NULL ? text + length : NULL; text < end && n < CHANNELS_MAX;) {
        char *after;
        out[n] = strtod(text, &after);
        if (after == text) break;
        n++;
        text = after + (*after == ';');
        if (*after != ';') break;
    }
    return n;
}

static bool widen(affine *a, int32_t n) {
    if (n <= 1 || n == a->n) return true;
    if (a->n != 1) return false;
    for (int32_t c = 1; c < n; c++) {
        a->scale[c] = a->scale[0];
        a->bias[c] = a->bias[0];
    }
    a->n = n;
    return true;
}

/* The values become x * factor[c] + offset[c]. A single number applies to all channels. */
static bool push(affine *a, int32_t n_factor, const double *factor, int32_t n_offset,
                 const double *offset) {
    if (!widen(a, n_factor) || !widen(a, n_offset)) return false;
    for (int32_t c = 0; c < a->n; c++) {
        double f = factor[n_factor > 1 ? c : 0], o = offset[n_offset > 1 ? c : 0];
        a->scale[c] *= f;
        a->bias[c] = a->bias[c] * f + o;
    }
    a->any = true;
    return true;
}

static bool push_normalize(affine *a, const char *arguments) {
    double mean[CHANNELS_MAX] = {0}, deviation[CHANNELS_MAX] = {1}, zero = 0, one = 1;
    int32_t n_mean = numbers(arguments, "mean", 1, mean);
    int32_t n_deviation = numbers(arguments, "std", 2, deviation);
    double to_unit = 1.0 / 255;
    if (a->dtype == ITER_U8 && !push(a, 1, &to_unit, 1, &zero)) return false;
    for (int32_t c = 0; c < n_mean; c++)
        mean[c] = -mean[c];
    for (int32_t c = 0; c < n_deviation; c++)
        deviation[c] = 1 / deviation[c];
    a->dtype = ITER_F32;
    return push(a, 1, &one, n_mean, mean) && push(a, n_deviation, deviation, 1, &zero);
}

static bool push_scale(affine *a, const char *arguments) {
    double factor[CHANNELS_MAX] = {1}, offset[CHANNELS_MAX] = {0};
    int32_t n_factor = numbers(arguments, "factor", 1, factor);
    int32_t n_offset = numbers(arguments, "bias", 2, offset);
    return push(a, n_factor, factor, n_offset, offset);
}

/* cast and to: later stages work on another type. */
static bool push_type(affine *a, const char *arguments) {
    size_t length;
    char name[16];
    const char *text = argument(arguments, "dtype", 1, &length);
    if (text == NULL || length >= sizeof(name)) return text == NULL;
    memcpy(name, text, length);
    name[length] = '\0';
    iter_dtype dtype = iter_dtype_parse(name);
    if (dtype != ITER_DTYPE_NONE) a->dtype = dtype;
    return true;
}

/* Reads one stage, "name" or "name:arguments", into the field's affine. False if it has no straight
 * loop. */
static bool read_stage(char *stage, const char *field, bool first_of_role, iter_role role,
                       affine *out) {
    stage += strspn(stage, " ");
    size_t length = strcspn(stage, ": "), wanted_length;
    const char *arguments = stage[length] == ':' ? stage + length + 1 : "";
    const iter_transform_ops *ops = transform_named(stage, length);
    const char *wanted = argument(arguments, "field", -1, &wanted_length);
    if (ops == NULL || strchr(arguments, '"') != NULL || strchr(arguments, '\'') != NULL)
        return false;
    bool ours = wanted != NULL
                    ? strlen(field) == wanted_length && memcmp(field, wanted, wanted_length) == 0
                    : first_of_role && ops->role == (int32_t)role;
    if (!ours) return true;
    stage[length] = '\0';
    if (strcmp(stage, "normalize") == 0) return push_normalize(out, arguments);
    if (strcmp(stage, "scale") == 0) return push_scale(out, arguments);
    if (strcmp(stage, "cast") == 0) return push_type(out, arguments);
    return strcmp(stage, "to") == 0 && push_type(out, arguments);
}

static bool read_chain(const char *text, const char *field, bool first_of_role, iter_role role,
                       affine *out) {
    char stage[STAGE_TEXT_MAX];
    while (*text != '\0') {
        size_t length = strcspn(text, "|");
        if (length >= sizeof(stage)) return false;
        memcpy(stage, text, length);
        stage[length] = '\0';
        if (!read_stage(stage, field, first_of_role, role, out)) return false;
        text += length;
        text += *text == '|';
    }
    return true;
}

/* ---- Preparation ----------------------------------------------------------------------------- */

static iter_desc row_of(const iter_desc *desc) {
    iter_desc row = *desc;
    int32_t batch = 0;
    const char *letter = strchr(desc->layout, 'N');
    if (letter != NULL) batch = (int32_t)(letter - desc->layout);
    for (int32_t i = batch; i + 1 < desc->n_dims; i++)
        row.dims[i] = desc->dims[i + 1];
    row.n_dims--;
    row.dims[row.n_dims] = 0;
    row.capacity = 0;
    if (letter != NULL)
        memmove(row.layout + batch, row.layout + batch + 1, strlen(row.layout + batch));
    return row;
}

static bool same_rows(const iter_desc *a, const iter_desc *b) {
    return a->dtype == b->dtype && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof(a->dims[0])) == 0 &&
           strcmp(a->layout, b->layout) == 0;
}

static const iter_array *array_named(const bench_arrays *arrays, const char *name, int32_t *out_i,
                                     bool *out_first) {
    *out_first = true;
    for (int32_t i = 0; i < arrays->n_arrays; i++) {
        if (strcmp(arrays->arrays[i].name, name) == 0) {
            *out_i = i;
            for (int32_t k = 0; k < i; k++)
                *out_first &= arrays->arrays[k].role != arrays->arrays[i].role;
            return &arrays->arrays[i];
        }
    }
    return NULL;
}

static bool no_loop(yardstick *y, const char *field, const char *reason) {
    snprintf(y->why, sizeof(y->why), "field '%.31s': %.200s", field, reason);
    return false;
}

static bool prepare_field(yardstick *y, const char *chain, const iter_batch_field *field) {
    int32_t place = 0;
    bool first;
    const iter_array *array = array_named(y->arrays, field->name, &place, &first);
    if (array == NULL) return no_loop(y, field->name, "is not stored in the set");
    iter_desc in = row_of(&array->desc), out = row_of(&field->desc);
    affine a = {.n = 1, .scale = {1}, .dtype = in.dtype};
    if (out.n_dims > 0 && out.dims[0] == ITER_VARIABLE)
        return no_loop(y, field->name, "has no fixed size");
    if (!read_chain(chain, field->name, first, array->role, &a))
        return no_loop(y, field->name, "the chain does more than values and layout");
    limits_field *f = &y->work.fields[y->work.n_fields];
    *f = (limits_field){.source = array->data,
                        .in_bytes = y->arrays->bytes[place] / y->arrays->n_rows,
                        .out_bytes = iter_desc_bytes(&out),
                        .slot_offset = y->slot_bytes};
    if (a.any || !same_rows(&in, &out)) {
        iter_convert_options opt = ITER_CONVERT_OPTIONS_INIT;
        iter_error err;
        opt.scale = a.any ? a.scale : NULL;
        opt.bias = a.any ? a.bias : NULL;
        opt.n_channels = a.any ? a.n : 0;
        if (iter_convert_prepare(&in, &out, &opt, &y->converts[y->work.n_fields], &err) < 0)
            return no_loop(y, field->name, err.message);
        f->convert = y->converts[y->work.n_fields];
    }
    y->slot_bytes += (f->out_bytes * y->work.batch + 63) / 64 * 64;
    y->work.n_fields++;
    return true;
}

static iter_status prepare(yardstick *y, const char *chain, const iter_loader *loader,
                           uint32_t n_slots, iter_error *err) {
    int32_t n = iter_loader_n_fields(loader);
    y->works = n <= LIMITS_FIELDS_MAX;
    if (!y->works) snprintf(y->why, sizeof(y->why), "%d fields", n);
    for (int32_t i = 0; y->works && i < n; i++)
        y->works = prepare_field(y, chain, iter_loader_field(loader, i));
    if (!y->works) return ITER_OK;
    y->work.n_slots = n_slots < 64 ? n_slots : 64;
    for (uint32_t i = 0; i < y->work.n_slots; i++) {
        y->slots[i] = bench_map(y->slot_bytes);
        if (y->slots[i] == NULL)
            return bench_fail(err, ITER_ENOMEM, "no memory for %u slots of %zu bytes",
                              y->work.n_slots, y->slot_bytes);
        memset(y->slots[i], 0, y->slot_bytes);
    }
    y->work.slots = y->slots;
    return ITER_OK;
}

/* A random order of the rows, drawn once. */
static iter_status shuffle_rows(yardstick *y, const bench_options *options, iter_error *err) {
    const uint32_t n = (uint32_t)y->work.n_rows;
    if (n != y->work.n_rows)
        return bench_fail(err, ITER_EUNSUPPORTED, "--limit shuffled takes at most %u rows",
                          UINT32_MAX);
    y->order = malloc(n * sizeof(*y->order));
    if (y->order == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for an order of %u rows", n);
    for (uint32_t i = 0; i < n; i++)
        y->order[i] = i;
    iter_rng rng = iter_rng_at(iter_rng_key(options->seed, "rows", 0), 0, 0);
    for (uint32_t i = n; i > 1; i--) { /* Fisher and Yates */
        const uint32_t j = (uint32_t)iter_rng_below(&rng, i), row = y->order[j];
        y->order[j] = y->order[i - 1];
        y->order[i - 1] = row;
    }
    y->work.order = y->order;
    return ITER_OK;
}

static iter_status find_photos(const bench_options *options, bool *out, iter_error *err) {
    iter_dataset *dataset;
    iter_status s = bench_dataset_open(options, &dataset, err);
    if (s < 0) return s;
    *out = photo_yard_fits(iter_dataset_describe(dataset));
    iter_dataset_unref(dataset);
    return ITER_OK;
}

static uint64_t photos_to_note(const bench_options *options) {
    if (!options->decode) return YARDSTICK_PHOTOS;
    if (options->seconds <= 0) return YARDSTICK_PHOTOS_DECODE;
    return (uint64_t)fmin(fmax(options->seconds * YARDSTICK_PHOTOS_A_S, YARDSTICK_PHOTOS),
                          YARDSTICK_PHOTOS_DECODE);
}

/* If photos are unavailable for the loops, the run does not fail either. */
static void open_photos(yardstick *y, const bench_options *options, const iter_loader *loader,
                        uint32_t n_slots) {
    iter_error reason;
    iter_status s =
        photo_yard_open(&y->photos, options, loader, n_slots, photos_to_note(options), &reason);
    if (s < 0) snprintf(y->photos.why, sizeof(y->photos.why), "%.255s", reason.message);
    snprintf(y->why, sizeof(y->why), "%s", y->photos.why);
}

iter_status yardstick_open(yardstick *out, const bench_options *options, const bench_arrays *arrays,
                           const iter_loader *loader, uint32_t n_slots, iter_error *err) {
    memset(out, 0, sizeof(*out));
    out->arrays = arrays;
    if (arrays == NULL) {
        iter_status found = find_photos(options, &out->has_photos, err);
        if (found < 0) return found;
    }
    if (out->has_photos) {
        open_photos(out, options, loader, n_slots);
        return ITER_OK;
    }
    if (arrays == NULL) {
        /* If a set cannot be loaded, it has no straight loop; the run does not fail. */
        bench_options plain = *options;
        iter_error reason;
        plain.on_error = ITER_ON_ERROR_BLANK;
        if (bench_arrays_load(&plain, LOAD_MAX_BYTES, &out->own, &reason) < 0) {
            snprintf(out->why, sizeof(out->why), "%.255s", reason.message);
            return ITER_OK;
        }
        out->arrays = &out->own;
    }
    out->work.n_rows = out->arrays->n_rows;
    out->work.batch = (uint32_t)options->batch;
    iter_chain *chain = NULL;
    if (options->chain != NULL) {
        iter_status s = iter_chain_parse(options->chain, options->registry, &chain, err);
        if (s < 0) return s;
    }
    iter_status s = prepare(out, chain != NULL ? iter_chain_text(chain) : "", loader, n_slots, err);
    iter_chain_unref(chain);
    if (s == ITER_OK && out->works && options->limit == BENCH_LIMIT_SHUFFLED)
        s = shuffle_rows(out, options, err);
    return s;
}

void yardstick_close(yardstick *y) {
    for (int i = 0; i < LIMITS_FIELDS_MAX; i++)
        iter_convert_destroy(y->converts[i]);
    for (int i = 0; i < 64; i++)
        bench_unmap(y->slots[i], y->slot_bytes);
    bench_arrays_free(&y->own);
    free(y->order);
    photo_yard_close(&y->photos);
    memset(y, 0, sizeof(*y));
}

/* ---- Slices ---------------------------------------------------------------------------------- */

static double run_loop(yardstick *y, bench_limit limit, uint64_t n_batches) {
    double start = bench_now();
    if (limit == BENCH_LIMIT_CONVERT)
        limits_convert(&y->work, n_batches, &y->turn);
    else
        limits_ordered(&y->work, n_batches, &y->cursor, &y->turn);
    return bench_now() - start;
}

/* As many batches as fit into `seconds` by the rate so far. A size taken from one short run would
 * follow the scheduler's whims. */
static void slice_of(yardstick *y, bench_limit limit, double seconds, uint64_t *samples,
                     double *spent) {
    uint64_t n = 1;
    double took = run_loop(y, limit, n);
    while (*samples == 0 && took < seconds / 4) {
        n *= 2;
        took = run_loop(y, limit, n);
    }
    if (*samples > 0) n = (uint64_t)(seconds * (double)*samples / *spent / y->work.batch) + 1;
    *spent += run_loop(y, limit, n);
    *samples += n * y->work.batch;
}

void yardstick_slice(yardstick *y, double seconds) {
    if (y->has_photos) photo_yard_slice(&y->photos, seconds);
    if (!y->works) return;
    slice_of(y, BENCH_LIMIT_ORDERED, seconds, &y->ordered_samples, &y->ordered_s);
    slice_of(y, BENCH_LIMIT_CONVERT, seconds, &y->convert_samples, &y->convert_s);
}

static iter_status run_served(void *user, uint64_t n, uint64_t *out_samples, double *out_seconds,
                              iter_error *err) {
    yardstick *y = user;
    (void)err;
    *out_seconds = run_loop(y, y->served, n);
    *out_samples = n * y->work.batch;
    return ITER_OK;
}

measure_side yardstick_side(yardstick *y, bench_limit limit) {
    y->served = limit;
    return (measure_side){"straight loop", run_served, NULL, y, NULL};
}

/* ---- Copy and read --------------------------------------------------------------------------- */

/* A number in folder/index<i>/name, "3" or "32768K"; -1 if there is none. */
static double number_in(const char *folder, int i, const char *name) {
    char path[256], unit = ' ';
    double number = -1;
    snprintf(path, sizeof(path), "%s/index%d/%s", folder, i, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    if (fscanf(file, "%lf%c", &number, &unit) < 1) number = -1;
    fclose(file);
    return number * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1.0);
}

double yardstick_cache_in(const char *folder) {
    double level = 0, bytes = 0;
    for (int i = 0; number_in(folder, i, "level") > 0; i++) {
        const double own = number_in(folder, i, "level"), size = number_in(folder, i, "size");
        if (own < level || size <= 0) continue;
        level = own;
        bytes = size;
    }
    return bytes;
}

/* In virtual machines the C library may say what all of the host's caches hold together, because it
 * asks the processor; the kernel knows the guest's. */
double yardstick_cache_bytes(void) {
    const double kernels = yardstick_cache_in("/sys/devices/system/cpu/cpu0/cache");
    if (kernels > 0) return kernels;
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (double)bytes : 0;
}

static iter_status measure_copy(double *out, iter_error *err) {
    size_t bytes = (size_t)yardstick_cache_bytes() * 2;
    bytes = bytes < COPY_LEAST ? COPY_LEAST : bytes > COPY_MOST ? COPY_MOST : bytes;
    uint8_t *from = bench_map(bytes), *to = bench_map(bytes);
    iter_status s = ITER_OK;
    if (from == NULL || to == NULL) {
        s = bench_fail(err, ITER_ENOMEM, "no memory for two buffers of %zu bytes", bytes);
    } else {
        double rates[COPY_TIMES];
        memset(from, 1, bytes);
        memset(to, 2, bytes);
        for (int i = 0; i < COPY_TIMES; i++) {
            double start = bench_now();
            limits_copy(to, from, bytes);
            rates[i] = (double)bytes / (bench_now() - start);
        }
        *out = measure_median(rates, COPY_TIMES).median;
    }
    bench_unmap(from, bytes);
    bench_unmap(to, bytes);
    return s;
}

static iter_status read_files(const iter_description *set, double *out, iter_error *err) {
    uint8_t *buffer = bench_map(READ_BYTES);
    if (buffer == NULL)
        return bench_fail(err, ITER_ENOMEM, "no memory for a buffer of %zu bytes", READ_BYTES);
    double start = bench_now();
    int64_t total = 0;
    iter_status s = ITER_OK;
    for (uint64_t i = 0; i < set->n_files && total < READ_MAX_BYTES; i++) {
        int file = open(set->files[i].path, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue; /* a run reports samples that fail */
        int64_t n = limits_read(file, buffer, READ_BYTES);
        if (n < 0) s = bench_fail(err, ITER_EIO, "%s: %s", set->files[i].path, strerror(errno));
        close(file);
        if (s < 0 || bench_now() - start > READ_MAX_S) break;
        total += n;
    }
    if (total > 0) *out = (double)total / (bench_now() - start);
    bench_unmap(buffer, READ_BYTES);
    return s;
}

static iter_status measure_read(const bench_options *options, double *out, iter_error *err) {
    iter_dataset *dataset;
    if (options->source == ITER_SOURCE_NULL) return ITER_OK;
    iter_status s = bench_dataset_open(options, &dataset, err);
    if (s < 0) return s;
    const iter_description *set = iter_dataset_describe(dataset);
    if (options->cache == BENCH_CACHE_COLD) s = bench_cache_drop(set, err);
    if (s == ITER_OK) s = read_files(set, out, err);
    iter_dataset_unref(dataset);
    return s;
}

static void photo_rates(photo_yard *photos, yardstick_rates *out) {
    while (photos->why[0] == '\0' && photos->decode_s < SLICES_WANTED * SLICE_S)
        photo_yard_slice(photos, SLICE_S);
    if (photos->why[0] != '\0') return;
    out->decode_codecs = photo_yard_codecs(photos);
    out->decode_samples_per_s = (double)photos->n_decoded / photos->decode_s;
    out->convert_samples_per_s = (double)photos->n_stored / photos->store_s;
}

iter_status yardstick_rates_of(yardstick *y, const bench_options *options, yardstick_rates *out,
                               iter_error *err) {
    *out = (yardstick_rates){.copy_bytes_per_s = NAN,
                             .convert_samples_per_s = NAN,
                             .ordered_samples_per_s = NAN,
                             .read_bytes_per_s = NAN,
                             .decode_samples_per_s = NAN,
                             .cache_bytes = yardstick_cache_bytes()};
    if (y->has_photos) photo_rates(&y->photos, out);
    if (y->works) {
        for (int i = 0; i < SLICES_WANTED && y->ordered_s < SLICES_WANTED * SLICE_S; i++)
            yardstick_slice(y, SLICE_S);
        out->ordered_samples_per_s = (double)y->ordered_samples / y->ordered_s;
        out->convert_samples_per_s = (double)y->convert_samples / y->convert_s;
        for (int32_t i = 0; i < y->work.n_fields; i++) {
            out->in_bytes += (double)y->work.fields[i].in_bytes;
            out->out_bytes += (double)y->work.fields[i].out_bytes;
        }
        out->array_bytes = out->in_bytes * (double)y->work.n_rows;
    }
    iter_status s = measure_copy(&out->copy_bytes_per_s, err);
    return s == ITER_OK ? measure_read(options, &out->read_bytes_per_s, err) : s;
}
