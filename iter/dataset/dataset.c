/*
 * dataset.c - creates datasets from formats (by name), from the user's ops and from arrays.
 *
 * A dataset is read-only after it was created, except for its locks and the files that it holds in
 * memory (preload.c). Arrays without a name get one after MXNet's rule: a single one is "data" or
 * "label" (MXNet: "softmax_label"); several are "_0_data", "_1_data", ...
 */
#include "iter/dataset/dataset.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "iter/core/machine.h"
#include "iter/dataset/mix.h"
#include "iter/remote/fetch.h"
#include "iter/remote/secrets.h"
#include "iter/remote/url.h"
#include "iter/spec/grammar.h"
#include "iter/spec/options.h"
#include "iter/spec/suggest.h"

/* Error-checking: a get() that reads its own dataset gets an error instead of a deadlock. */
static void init_locks(iter_dataset *dataset) {
    pthread_mutexattr_t checked;
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&dataset->one_at_a_time, &checked);
    pthread_mutexattr_destroy(&checked);
    pthread_mutex_init(&dataset->preload_lock, NULL);
}

static iter_dataset *dataset_new(const char *name) {
    iter_dataset *dataset = iter__alloc(1, sizeof(*dataset));
    if (!dataset) return NULL;
    dataset->name = iter__secrets_mask(name);
    if (!dataset->name) {
        iter__free(dataset);
        return NULL;
    }
    atomic_init(&dataset->refs, 1);
    atomic_init(&dataset->process, (int)getpid());
    init_locks(dataset);
    return dataset;
}

void iter__dataset_adopt(iter_dataset *dataset) {
    const int here = (int)getpid();
    int owner = atomic_load(&dataset->process);
    while (owner != here) { /* 0: another thread of this process makes them */
        if (owner != 0 && atomic_compare_exchange_strong(&dataset->process, &owner, 0)) {
            init_locks(dataset);
            if (dataset->format && dataset->format->open == iter__format_mix.open)
                iter__mix_adopt(dataset->state);
            if (dataset->format == &iter__format_pack) iter__pack_adopt(dataset->state);
            atomic_store(&dataset->process, here);
        }
        owner = atomic_load(&dataset->process);
    }
}

void iter__preload_free(iter__preload *made) {
    if (made->shared.memory)
        iter__shared_close(&made->shared);
    else
        iter__unmap(made->memory, made->bytes);
    iter__free(made->object_base);
}

static void dataset_free(iter_dataset *dataset) {
    if (dataset->format) {
        if (dataset->options) iter__options_free(&dataset->format->base, dataset->options);
        iter__free(dataset->options);
        iter__free(dataset->state);
    }
    iter__remote_unref(dataset->remote);
    iter__preload_free(&dataset->preload);
    iter__unmap(dataset->owned, dataset->owned_bytes);
    pthread_mutex_destroy(&dataset->one_at_a_time);
    pthread_mutex_destroy(&dataset->preload_lock);
    iter__free(dataset->name);
    iter__free(dataset);
}

bool iter__is_any_size(const iter_desc *desc) {
    return desc->n_dims == 3 && desc->dims[0] == ITER_VARIABLE && desc->dims[1] == ITER_VARIABLE;
}

bool iter__dataset_is_remote(const iter_dataset *dataset) {
    for (uint64_t i = 0; i < dataset->desc.n_files; i++)
        if (iter__url_is(dataset->desc.files[i].path)) return true;
    return false;
}

bool iter__dataset_is_cached(const iter_dataset *dataset) {
    for (uint64_t i = 0; i < dataset->desc.n_files; i++)
        if (iter__remote_has_cache(dataset->desc.files[i].place)) return true;
    return false;
}

/* ---- What every description must obey -------------------------------------------------------- */

/* Images of any size need an image decoder; rows of a fixed size need decode(). */
static iter_status check_decoder(const iter_field *field, bool any_size, iter_error *err) {
    const iter_decoder_ops *ops = field->decoder;
    if (any_size && (!ops || !ops->header || !ops->decode_image))
        return iter__fail(err, ITER_EINVAL,
                          "field '%s' has images of any size, but no image decoder", field->name);
    if (any_size && (field->desc.dtype != ITER_U8 || strcmp(field->desc.layout, "HWC") != 0))
        return iter__fail(err, ITER_EINVAL,
                          "field '%s' has images of any size; they must be u8 \"HWC\"",
                          field->name);
    if (!any_size && ops && !ops->decode)
        return iter__fail(err, ITER_EINVAL,
                          "field '%s' has a fixed size, but its decoder has no decode()",
                          field->name);
    return ITER_OK;
}

static iter_status check_field(const iter_description *desc, int32_t f, bool needs_place,
                               iter_error *err) {
    const iter_field *field = &desc->fields[f];
    if (!field->name[0] || !memchr(field->name, 0, sizeof(field->name))) {
        return iter__fail(err, ITER_EINVAL, "field %d has no name", f);
    }
    for (int32_t i = 0; i < f; i++) {
        if (strcmp(desc->fields[i].name, field->name) == 0) {
            return iter__fail(err, ITER_EINVAL, "two fields are called '%s'", field->name);
        }
    }
    const iter_desc *shape = &field->desc;
    if (iter_dtype_bytes(shape->dtype) == 0 || shape->n_dims < 0 ||
        shape->n_dims > ITER_MAX_DIMS - 1) {
        return iter__fail(err, ITER_EINVAL,
                          "field '%s': dtype %d with %d dimensions is not supported", field->name,
                          (int)shape->dtype, shape->n_dims);
    }
    const bool any_size = iter__is_any_size(shape);
    ITER_TRY(check_decoder(field, any_size, err));
    for (int32_t d = any_size ? 2 : 0; d < shape->n_dims; d++) {
        const bool variable = d == 0 && shape->dims[0] == ITER_VARIABLE;
        const int64_t size = variable ? shape->capacity : shape->dims[d];
        if (size < (variable ? 1 : 0) || size > INT32_MAX) {
            return iter__fail(err, ITER_EINVAL, "field '%s': dimension %d is %lld", field->name, d,
                              (long long)size);
        }
    }
    if (iter_desc_bytes(shape) > INT64_MAX / 2) {
        return iter__fail(err, ITER_EINVAL, "field '%s': too large", field->name);
    }
    if (needs_place && field->extent != ITER_FROM_INDEX &&
        (field->extent < 0 || field->extent >= desc->n_extents)) {
        return iter__fail(err, ITER_EINVAL, "field '%s' lies in extent %d of %d", field->name,
                          field->extent, desc->n_extents);
    }
    return ITER_OK;
}

static iter_status check_description(const iter_description *desc, bool needs_place,
                                     iter_error *err) {
    if (desc->n_fields < 1 || desc->n_fields > ITER_MAX_FIELDS) {
        return iter__fail(err, ITER_EINVAL, "%d fields; expected 1 to %d", desc->n_fields,
                          ITER_MAX_FIELDS);
    }
    if (desc->n_extents < 0 || desc->n_extents > ITER_MAX_EXTENTS) {
        return iter__fail(err, ITER_EINVAL, "%d extents per sample; expected 0 to %d",
                          desc->n_extents, ITER_MAX_EXTENTS);
    }
    if (desc->n_samples != ITER_UNKNOWN && desc->n_samples > INT64_MAX) {
        return iter__fail(err, ITER_EINVAL, "%llu samples are too many",
                          (unsigned long long)desc->n_samples);
    }
    if (desc->by_epoch && (desc->n_samples > ITER_INDEX_MAX || desc->n_extents > 0 || needs_place))
        return iter__fail(err, ITER_EINVAL,
                          "by_epoch is for get(), without extents, and at most 2^40 - 1 samples");
    for (int32_t f = 0; f < desc->n_fields; f++)
        ITER_TRY(check_field(desc, f, needs_place, err));
    return ITER_OK;
}

iter_status iter__dataset_got(iter_status status, iter_error *err) {
    if (status <= 0) return status;
    return iter__fail(err, ITER_EINVAL, "get() answered \"%s\"", iter_status_text(status));
}

/* Sets how its samples are decoded, once it is described. */
static void set_decoding(iter_dataset *dataset) {
    iter__decoding *way = &dataset->decoding;
    for (int32_t f = 0; f < dataset->desc.n_fields; f++)
        way->decoders[f] = dataset->desc.fields[f].decoder;
    way->shared = dataset->desc.shared;
    dataset->decodings = way;
    dataset->n_decodings = 1;
}

/* The same for a mix, which also chooses its table. */
static void set_mix(iter_dataset *dataset) {
    dataset->format = iter__mix_table(dataset->state);
    dataset->decodings = iter__mix_decodings(dataset->state, &dataset->n_decodings);
}

/* ---- Formats --------------------------------------------------------------------------------- */

/* Checks the members of a table that the description requires. */
static iter_status check_members(const iter_format_ops *ops, const iter_description *desc,
                                 iter_error *err) {
    if (desc->n_extents > 0 && !ops->locate)
        return iter__fail(err, ITER_EINVAL, "%s: %d extents a sample, and the table has no locate",
                          ops->base.name, desc->n_extents);
    for (int32_t f = 0; f < desc->n_fields; f++) {
        if (desc->fields[f].extent == ITER_FROM_INDEX && !ops->index_row && !ops->resident &&
            !ops->get)
            return iter__fail(
                err, ITER_EINVAL,
                "%s: field '%s' comes from the index, and the table has no index_row, "
                "resident or get",
                ops->base.name, desc->fields[f].name);
    }
    return ITER_OK;
}

static uint64_t free_memory(void) {
    return iter__memory_free("/proc", "/sys/fs/cgroup");
}

/* The format's error; if the limit was the cause, with the limit and what would do. */
static iter_status open_failed(const iter_format_ops *ops, const iter__account *account,
                               bool limit_given, iter_status status, iter_error *err) {
    status = iter__error_settle(err, status, ops->base.name);
    if (status != ITER_ENOMEM || !account->wanted) return status;
    return iter__fail_in(err, status, "%s: %s of %llu bytes is too small, %llu or more would do",
                         ops->base.name, limit_given ? "memory_limit" : "the free memory",
                         (unsigned long long)account->limit, (unsigned long long)account->wanted);
}

/* Measures what open() allocates, so that no format can forget to count it. */
static iter_status open_measured(iter_dataset *dataset, const iter_format_ops *ops,
                                 const char *path, uint64_t limit, iter_error *err) {
    iter__account account = {.limit = limit, .find_limit = free_memory};
    iter__account_open(&account);
    iter__remote **before = iter__remote_enter(&dataset->remote);
    const iter_status status =
        ops->open(dataset->state, path, dataset->options, &dataset->desc, err);
    (void)iter__remote_enter(before);
    iter__remote_opened(dataset->remote);
    iter__account_close(&account);
    if (status < 0) return open_failed(ops, &account, limit != 0, status, err);
    if (dataset->desc.index_bytes < account.held) dataset->desc.index_bytes = account.held;
    return ITER_OK;
}

/* Takes the keys of files elsewhere out of the call, and makes the client that has them, if there
 * are any or the path is a URL. *out_key: the first of them, NULL = none. */
static iter_status make_remote(iter_dataset *dataset, const iter_ops *ops, iter__grammar_call *call,
                               const char **out_key, iter_error *err) {
    const iter_ops *table = iter__remote_table();
    iter__grammar_call keys = {.name = call->name, .column = call->column};
    int n = 0;
    for (int i = 0; i < call->n_args; i++) {
        const iter__grammar_arg *arg = &call->args[i];
        const bool is_key = table && arg->key && !iter__options_find(ops, arg->key, 0) &&
                            iter__options_find(table, arg->key, 0);
        if (is_key)
            keys.args[keys.n_args++] = *arg;
        else
            call->args[n++] = *arg;
    }
    call->n_args = n;
    *out_key = keys.n_args ? keys.args[0].key : NULL;
    if (keys.n_args == 0 && !iter__url_is(call->path)) return ITER_OK;
    if (!table) return iter__remote_create(NULL, &dataset->remote, err);
    iter__remote_options options;
    iter_status status = iter__grammar_apply(&keys, table, &options, NULL, err);
    if (status == ITER_OK) {
        status = iter__remote_create(&options, &dataset->remote, err);
        iter__options_free(table, &options);
    }
    return status;
}

/* A key that has no effect is an error, as one that is unknown. */
static iter_status check_key(const iter_dataset *dataset, const char *key,
                             const iter__grammar_call *call, iter_error *err) {
    if (!key || iter__remote_was_used(dataset->remote)) return ITER_OK;
    return iter__fail(err, ITER_EINVAL, "%s: '%s' is a key of URLs, and %s", call->name, key,
                      call->path[0] == '{' ? "belongs inside the braces, with the set that has them"
                                           : "the set has none");
}

/* The path without secrets. Braces after a '?' are expanded first, so they stay. */
static char *hidden_path(iter_dataset *dataset, const char *path) {
    const char *query = iter__url_is(path) ? strchr(path, '?') : NULL;
    const bool plain = iter__url_is(path) && (!query || !strchr(query, '{'));
    return plain ? iter__remote_hide(dataset->remote, path) : iter__strdup(path);
}

static iter_status open_format(iter_dataset *dataset, const iter_format_ops *ops,
                               const iter_dataset_options *opt, const iter__grammar_call *call,
                               iter_error *err) {
    dataset->format = ops;
    dataset->options = iter__alloc(1, ops->base.options_size ? ops->base.options_size : 1);
    dataset->state = iter__alloc(1, ops->base.state_size ? ops->base.state_size : 1);
    if (!dataset->options || !dataset->state)
        return iter__fail(err, ITER_ENOMEM, "%s: out of memory", call->name);
    iter__grammar_call rest = *call;
    const bool has_sources = ops == &iter__format_mix || ops == &iter__format_pack;
    if (strstr(call->path, "://") && !has_sources) rest.url_keys = iter__remote_table();
    const char *url_key;
    ITER_TRY(make_remote(dataset, &ops->base, &rest, &url_key, err));
    ITER_TRY(iter__grammar_apply(&rest, &ops->base, dataset->options, NULL, err));
    iter_error own; /* callbacks always get one */
    if (!err) err = &own;
    iter__error_clear(err);
    dataset->desc.registry = opt->registry;
    char *path = hidden_path(dataset, call->path);
    if (!path) return iter__fail(err, ITER_ENOMEM, "%s: out of memory", call->name);
    iter_status status = open_measured(dataset, ops, path, opt->memory_limit, err);
    iter__free(path);
    dataset->desc.registry = NULL; /* it may die before the dataset */
    if (status < 0) return status;
    status = check_key(dataset, url_key, call, err);
    if (status < 0) {
        ops->close(dataset->state);
        return status;
    }

    set_decoding(dataset);
    if (ops == &iter__format_mix) {
        set_mix(dataset);
        ops = dataset->format;
    }
    status = check_description(&dataset->desc, !ops->get && !ops->resident, err);
    if (status == ITER_OK) status = check_members(ops, &dataset->desc, err);
    if (status == ITER_OK && ops->resident) {
        for (int32_t f = 0; f < dataset->desc.n_fields && status == ITER_OK; f++) {
            const void *base = NULL;
            status = ops->resident(dataset->state, f, &base, &dataset->resident[f].stride);
            dataset->resident[f].base = base;
        }
    }
    if (status < 0) ops->close(dataset->state);
    return status;
}

/* A spec that begins with a URL, as if no format were needed. What follows '?' may be secret. */
static iter_status fail_format_missing(const char *spec, iter_error *err) {
    char *shown = iter__secrets_mask(spec);
    if (!shown) return iter__fail(err, ITER_ENOMEM, "dataset: out of memory");
    const iter_status status =
        iter__fail(err, ITER_EINVAL,
                   "dataset: %.*s: a format's name comes first, as in tar:%s (`iterbench list` "
                   "names the formats)",
                   (int)iter__min_size(strcspn(shown, "?"), 200), shown,
                   iter__url_is_s3(spec) ? "s3://bucket/x.tar" : "https://host/x.tar");
    iter__free(shown);
    return status;
}

static bool begins_with_url(const char *spec, const iter_registry *registry) {
    char scheme[8] = "";
    snprintf(scheme, sizeof(scheme), "%.*s", (int)strcspn(spec, ":"), spec);
    return iter__url_is(spec) && !iter_registry_format(registry, scheme);
}

iter_status iter_dataset_open_with(const char *spec, const iter_dataset_options *options,
                                   iter_dataset **out, iter_error *err) {
    *out = NULL;
    iter_dataset_options opt;
    ITER_TRY(iter__options_copy(&opt, sizeof(opt), options, sizeof(size_t), err));
    const iter_registry *registry = opt.registry;
    if (!spec) return iter__fail(err, ITER_EINVAL, "dataset: no spec");
    if (begins_with_url(spec, registry)) return fail_format_missing(spec, err);
    iter__grammar_call call;
    char *text = NULL;
    iter_dataset *dataset = NULL;
    ITER_TRY(iter__grammar_dataset(spec, &call, &text, err));

    iter_status status = ITER_OK;
    const iter_format_ops *ops = iter_registry_format(registry, call.name);
    if (!ops) {
        char hint[ITER_HINT_MAX];
        status = iter__fail(err, ITER_EINVAL,
                            "dataset: no format is called '%s' (`iterbench list` names them)%s",
                            call.name, iter__hint_format(registry, call.name, hint));
        goto done;
    }
    dataset = dataset_new(spec);
    if (!dataset) {
        status = iter__fail(err, ITER_ENOMEM, "dataset: out of memory");
        goto done;
    }
    status = open_format(dataset, ops, &opt, &call, err);
    if (status < 0) {
        dataset_free(dataset);
    } else {
        *out = dataset;
    }
done:
    iter__free(text);
    return status;
}

iter_status iter_dataset_open(const char *spec, const iter_registry *registry, iter_dataset **out,
                              iter_error *err) {
    iter_dataset_options options = ITER_DATASET_OPTIONS_INIT;
    options.registry = registry;
    return iter_dataset_open_with(spec, &options, out, err);
}

/* ---- Datasets over others -------------------------------------------------------------------- */

/* Starts a dataset of a format that is built by a call instead of a spec. */
static iter_dataset *begin_made(const iter_format_ops *ops, iter_error *err) {
    iter_dataset *dataset = dataset_new(ops->base.name);
    if (dataset) dataset->state = iter__alloc(1, ops->base.state_size);
    if (dataset && dataset->state) return dataset;
    if (dataset) dataset_free(dataset);
    iter__fail(err, ITER_ENOMEM, "%s: out of memory", ops->base.name);
    return NULL;
}

/* Finishes it; status: how it was built. Frees it after an error. */
static iter_status end_made(iter_dataset *dataset, const iter_format_ops *ops, iter_status status,
                            iter_dataset **out, iter_error *err) {
    if (status == ITER_OK) {
        dataset->format = ops;
        set_decoding(dataset);
        if (ops == &iter__format_mix) set_mix(dataset);
        status = check_description(&dataset->desc, !dataset->format->get, err);
        if (status < 0) ops->close(dataset->state);
    }
    if (status < 0) {
        dataset->format = NULL;
        iter__free(dataset->state);
        dataset_free(dataset);
        return iter__fail_in(err, status, "%s", ops->base.name);
    }
    *out = dataset;
    return ITER_OK;
}

iter_status iter_mix_create(const iter_mix_source *sources, int32_t n_sources, iter_dataset **out,
                            iter_error *err) {
    *out = NULL;
    iter_dataset *dataset = begin_made(&iter__format_mix, err);
    if (!dataset) return ITER_ENOMEM;
    const iter_status status =
        iter__mix_build(dataset->state, sources, n_sources, &dataset->desc, err);
    return end_made(dataset, &iter__format_mix, status, out, err);
}

iter_status iter_pack_create(iter_dataset *documents, const iter_pack_options *options,
                             iter_dataset **out, iter_error *err) {
    *out = NULL;
    if (!documents) return iter__fail(err, ITER_EINVAL, "pack: no documents");
    iter_dataset *dataset = begin_made(&iter__format_pack, err);
    if (!dataset) return ITER_ENOMEM;
    const iter_status status =
        iter__pack_build(dataset->state, documents, options, &dataset->desc, err);
    return end_made(dataset, &iter__format_pack, status, out, err);
}

/* ---- The user's ops -------------------------------------------------------------------------- */

iter_status iter_dataset_create(const iter_dataset_ops *ops, void *user, iter_dataset **out,
                                iter_error *err) {
    *out = NULL;
    if (!ops || ops->struct_size < sizeof(*ops) || !ops->describe || (!ops->get && !ops->next)) {
        return iter__fail(err, ITER_EINVAL,
                          "dataset: ops need struct_size, describe, and get or next");
    }
    if (ops->parallel != 0 && ops->parallel != 1)
        return iter__fail(err, ITER_EINVAL, "dataset: parallel is %d; expected 0 or 1",
                          ops->parallel);
    if (!ops->start != !ops->stop)
        return iter__fail(err, ITER_EINVAL, "dataset: start and stop must be set together");
    iter_dataset *dataset = dataset_new(ops->name ? ops->name : "dataset");
    if (!dataset) return iter__fail(err, ITER_ENOMEM, "dataset: out of memory");
    iter_error own; /* callbacks always get one */
    if (!err) err = &own;
    iter__error_clear(err);
    iter_status status = ops->describe(user, &dataset->desc, err);
    if (status < 0) status = iter__fail_in(err, status, "%s: describe", dataset->name);
    if (status >= 0) status = check_description(&dataset->desc, false, err);
    if (status >= 0 && dataset->desc.n_samples == ITER_UNKNOWN && !ops->next) {
        status = iter__fail(err, ITER_EINVAL, "dataset: an unknown number of samples needs next()");
    }
    if (status >= 0 && dataset->desc.n_samples != ITER_UNKNOWN && !ops->get) {
        status = iter__fail(err, ITER_EINVAL,
                            "dataset: next() is for streams; n_samples must be ITER_UNKNOWN");
    }
    if (status < 0) {
        dataset_free(dataset);
        return status;
    }
    set_decoding(dataset);
    dataset->ops = ops;
    dataset->serial = !ops->start && !ops->parallel;
    dataset->user = user;
    *out = dataset;
    return ITER_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static void name_array(const iter_array *arrays, int32_t n_arrays, int32_t i,
                       char out[ITER_NAME_MAX]) {
    const char *base = arrays[i].role == ITER_LABEL ? "label" : "data";
    int32_t same = 0, place = 0;
    for (int32_t j = 0; j < n_arrays; j++) {
        if (arrays[j].role != arrays[i].role) continue;
        if (j < i) place++;
        same++;
    }
    if (arrays[i].name) {
        snprintf(out, ITER_NAME_MAX, "%s", arrays[i].name);
    } else if (same == 1) {
        snprintf(out, ITER_NAME_MAX, "%s", base);
    } else {
        snprintf(out, ITER_NAME_MAX, "_%d_%s", place, base);
    }
}

static iter_status describe_array(iter_dataset *dataset, const iter_array *arrays, int32_t n_arrays,
                                  int32_t i, iter_error *err) {
    const iter_array *array = &arrays[i];
    iter_field *field = &dataset->desc.fields[i];
    name_array(arrays, n_arrays, i, field->name);
    if (array->desc.n_dims < 1 || array->desc.n_dims > ITER_MAX_DIMS || array->desc.dims[0] < 0) {
        return iter__fail(err, ITER_EINVAL,
                          "ndarray: '%s' has no valid first dimension to iterate over",
                          field->name);
    }
    if (array->desc.dims[0] != arrays[0].desc.dims[0]) {
        return iter__fail(
            err, ITER_EINVAL,
            "ndarray: '%s' has %lld rows, '%s' has %lld; all arrays must have the same number",
            field->name, (long long)array->desc.dims[0], dataset->desc.fields[0].name,
            (long long)arrays[0].desc.dims[0]);
    }
    if (!array->data && array->desc.dims[0] > 0) {
        return iter__fail(err, ITER_EINVAL, "ndarray: '%s' has no data", field->name);
    }
    field->role = array->role;
    field->extent = ITER_FROM_INDEX;
    field->desc = array->desc;
    field->desc.n_dims--;
    field->desc.capacity = 0;
    memmove(field->desc.dims, field->desc.dims + 1, sizeof(int64_t) * (ITER_MAX_DIMS - 1));
    if (field->desc.layout[0])
        memmove(field->desc.layout, field->desc.layout + 1, sizeof(field->desc.layout) - 1);
    const size_t dense = iter_desc_bytes(&field->desc);
    dataset->resident[i].base = array->data;
    dataset->resident[i].stride = array->stride_bytes ? array->stride_bytes : dense;
    return ITER_OK;
}

/* Copies all arrays into one mapping: rows dense, each array at a multiple of 64 bytes. */
static iter_status copy_arrays(iter_dataset *dataset, iter_error *err) {
    const uint64_t n = dataset->desc.n_samples;
    size_t total = 0;
    for (int32_t f = 0; f < dataset->desc.n_fields; f++) {
        total += iter__align_up_size(iter_desc_bytes(&dataset->desc.fields[f].desc) * n, 64);
    }
    if (total == 0) return ITER_OK;
    dataset->owned = iter__map(total);
    dataset->owned_bytes = total;
    if (!dataset->owned)
        return iter__fail(err, ITER_ENOMEM, "ndarray: no memory for a copy of %zu bytes", total);
    uint8_t *to = dataset->owned;
    for (int32_t f = 0; f < dataset->desc.n_fields; f++) {
        const size_t row = iter_desc_bytes(&dataset->desc.fields[f].desc);
        iter__resident *resident = &dataset->resident[f];
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * row, resident->base + i * resident->stride, row);
        *resident = (iter__resident){to, row};
        to += iter__align_up_size(row * n, 64);
    }
    return ITER_OK;
}

iter_status iter__dataset_arrays(const iter_array *arrays, int32_t n_arrays, bool copy,
                                 iter_dataset **out, iter_error *err) {
    *out = NULL;
    if (!arrays || n_arrays < 1) return iter__fail(err, ITER_EINVAL, "ndarray: no array");
    if (n_arrays > ITER_MAX_FIELDS) {
        return iter__fail(err, ITER_EINVAL, "ndarray: %d arrays; expected at most %d", n_arrays,
                          ITER_MAX_FIELDS);
    }
    iter_dataset *dataset = dataset_new("arrays");
    if (!dataset) return iter__fail(err, ITER_ENOMEM, "ndarray: out of memory");
    dataset->desc.n_fields = n_arrays;
    dataset->desc.split = "";
    dataset->desc.n_samples = (uint64_t)(arrays[0].desc.n_dims > 0 ? arrays[0].desc.dims[0] : 0);
    uint64_t identity = iter__fnv1a_text(ITER_FNV_START, "arrays");
    iter_status status = ITER_OK;
    for (int32_t i = 0; i < n_arrays && status == ITER_OK; i++) {
        status = describe_array(dataset, arrays, n_arrays, i, err);
        identity = iter__fnv1a_text(identity, dataset->desc.fields[i].name);
        identity = iter__fnv1a_u64(identity, iter_desc_bytes(&dataset->desc.fields[i].desc));
    }
    dataset->desc.identity = iter__fnv1a_u64(identity, dataset->desc.n_samples);
    if (status == ITER_OK) status = check_description(&dataset->desc, true, err);
    if (status == ITER_OK && copy) status = copy_arrays(dataset, err);
    set_decoding(dataset);
    if (status < 0) {
        dataset_free(dataset);
        return status;
    }
    *out = dataset;
    return ITER_OK;
}

/* ---- Shared by all --------------------------------------------------------------------------- */

iter_dataset *iter_dataset_ref(iter_dataset *dataset) {
    atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

void iter_dataset_unref(iter_dataset *dataset) {
    if (!dataset) return;
    /* acq_rel: the thread that frees sees everything that the other holders did. */
    if (atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1) return;
    if (dataset->format) dataset->format->close(dataset->state);
    if (dataset->ops && dataset->ops->close) dataset->ops->close(dataset->user);
    if (dataset->release) dataset->release(dataset->release_user);
    dataset_free(dataset);
}

static bool no_progress(void *user, uint64_t kept, uint64_t bytes) {
    (void)user, (void)kept, (void)bytes;
    return true;
}

iter_status iter_dataset_fetch(iter_dataset *dataset, iter_fetch_progress *progress, void *user,
                               iter_error *err) {
    return iter__remote_fetch(dataset->desc.files, dataset->desc.n_files,
                              progress ? progress : no_progress, user, err);
}

const iter_description *iter_dataset_describe(const iter_dataset *dataset) {
    return &dataset->desc;
}

const char *iter_dataset_name(const iter_dataset *dataset) {
    return dataset->name;
}

bool iter__dataset_locate(const iter_dataset *dataset, uint64_t index,
                          iter_extent out[ITER_MAX_EXTENTS]) {
    const iter_description *desc = &dataset->desc;
    dataset->format->locate(dataset->state, index, out);
    for (int32_t e = 0; e < desc->n_extents; e++) {
        if (out[e].object >= desc->n_files || out[e].size > desc->max_extent_bytes[e]) return false;
        if (out[e].offset > INT64_MAX || out[e].size > INT64_MAX - out[e].offset) return false;
    }
    return true;
}

void iter__dataset_place(const iter_dataset *dataset, uint64_t index, uint64_t offset, char *out,
                         size_t capacity) {
    char place[48] = "";
    if (dataset->format && dataset->format->place)
        dataset->format->place(dataset->state, index, place, sizeof(place));
    if (place[0])
        snprintf(out, capacity, ", %s", place);
    else
        snprintf(out, capacity, ":%llu", (unsigned long long)offset);
}

iter_status iter__dataset_mislocated(const iter_dataset *dataset, uint64_t index, iter_error *err) {
    return iter__fail(err, ITER_EINVAL,
                      "%s: sample %llu cannot lie where its format says (no such file, too many or "
                      "too few bytes, or past the file's end)",
                      dataset->name, (unsigned long long)index);
}

uint64_t iter__dataset_bytes(const iter_dataset *dataset) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < dataset->desc.n_files; i++) {
        const uint64_t bytes = dataset->desc.files[i].bytes;
        if (bytes == ITER_UNKNOWN || total + bytes < total) return ITER_UNKNOWN;
        total += bytes;
    }
    return total;
}

bool iter__dataset_has_length(const iter_dataset *dataset) {
    return dataset->format ? dataset->format->length != NULL : dataset->ops && dataset->ops->length;
}

int64_t iter__dataset_length(const void *user, uint64_t index) {
    const iter_dataset *dataset = user;
    if (dataset->format && dataset->format->length)
        return dataset->format->length(dataset->state, index);
    if (dataset->ops && dataset->ops->length) return dataset->ops->length(dataset->user, index);
    return -1;
}

uint64_t iter__scalar_value(const uint8_t *at, iter_dtype dtype) {
    switch (dtype) {
    case ITER_U8: return *at;
    case ITER_I8: return (uint64_t)(int8_t)*at;
    case ITER_U16: {
        uint16_t v;
        memcpy(&v, at, 2);
        return v;
    }
    case ITER_I16: {
        int16_t v;
        memcpy(&v, at, 2);
        return (uint64_t)v;
    }
    case ITER_U32: {
        uint32_t v;
        memcpy(&v, at, 4);
        return v;
    }
    case ITER_I32: {
        int32_t v;
        memcpy(&v, at, 4);
        return (uint64_t)v;
    }
    case ITER_U64:
    case ITER_I64: {
        uint64_t v;
        memcpy(&v, at, 8);
        return v;
    }
    default: return 0;
    }
}
