/*
 * trainer.c - creates, reads and changes trainers; trainer_run.c runs batches.
 *
 * iter_trainer_create() allocates everything that a step needs: the net, the backend with its
 * memory, and a few buffers of our own. The initial weights are a function of (seed, name),
 * whatever the backend.
 */
#include "engine/trainer.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <iter/ranks.h>
#include <iter/version.h>

#include "engine/engine_error.h"
#include "engine/engine_memory.h"
#include "engine/model.h"

#define TEXT_MAX 128

/* A text that is written line by line; what does not fit is cut. */
typedef struct text_block {
    char *at;
    size_t left;
} text_block;

static iter_status no_memory(iter_error *err) {
    return iter__engine_fail(err, ITER_ENOMEM, "out of memory");
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Copies the part of the options that the caller's version has. Bytes unknown to us must be
 * zero. */
static iter_status copy_options(const iter_trainer_options *from, iter_trainer_options *out,
                                iter_error *err) {
    *out = (iter_trainer_options)ITER_TRAINER_OPTIONS_INIT;
    if (!from) return ITER_OK;
    const size_t size = from->struct_size, known = sizeof(*out);
    if (size < sizeof(size) || size > known + 65536)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "trainer: struct_size is %zu; begin with the _INIT macro", size);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)from)[i])
            return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                     "trainer: byte %zu of the options is set, which this version "
                                     "does not know",
                                     i);
    memcpy(out, from, size < known ? size : known);
    return ITER_OK;
}

static uint32_t n_cores(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (uint32_t)n;
}

/* If the process may use all cores, and other ranks run here, too, it takes its share. */
static uint32_t own_cores(void) {
    iter_ranks told;
    const uint32_t cores = n_cores();
    if (iter_ranks_read(&told, NULL) < 0 || told.local_ranks < 2) return cores;
    if ((long)cores < sysconf(_SC_NPROCESSORS_ONLN)) return cores;
    return cores > told.local_ranks ? cores / told.local_ranks : 1;
}

/* One thread per core, minus the loader's workers. */
static uint32_t default_threads(iter_loader *loader) {
    iter_loader_stats stats = {.struct_size = sizeof(stats)};
    if (iter_loader_stats_read(loader, &stats, NULL) < 0 || stats.n_workers < 0)
        stats.n_workers = 0;
    const uint32_t cores = own_cores(), workers = (uint32_t)stats.n_workers;
    const uint32_t left = cores > workers ? cores - workers : 1;
    return left < ENGINE_MAX_THREADS ? left : ENGINE_MAX_THREADS;
}

static int32_t first_field(const iter_loader *loader, iter_role role) {
    for (int32_t i = 0; i < iter_loader_n_fields(loader); i++)
        if (iter_loader_field(loader, i)->role == role) return i;
    return -1;
}

/* Finds the field of segments, one for each id or step of the data. */
static iter_status find_segments(iter_trainer *trainer, const iter_loader *loader,
                                 iter_error *err) {
    const engine_net *net = &trainer->net;
    char text[TEXT_MAX];
    int32_t i = 0;
    while (i < iter_loader_n_fields(loader) &&
           strcmp(iter_loader_field(loader, i)->name, ENGINE_SEGMENTS) != 0)
        i++;
    if (i == iter_loader_n_fields(loader))
        return iter__engine_fail(err, ITER_EINVAL,
                                 "gru: segments=yes, but the loader has no field '%s', as packed "
                                 "rows have",
                                 ENGINE_SEGMENTS);
    const iter_desc *desc = &iter_loader_field(loader, i)->desc;
    trainer->segments_field = i;
    if (desc->dtype == ITER_I32 && desc->n_dims == 2 && desc->dims[0] == trainer->batch &&
        desc->dims[1] == net->input.dims[0])
        return ITER_OK;
    return iter__engine_fail(
        err, ITER_EINVAL, "%s: expects i32 [%lld, %lld], as the data has rows and steps, got %s",
        ENGINE_SEGMENTS, (long long)trainer->batch, (long long)net->input.dims[0],
        iter_desc_text(desc, text, sizeof(text)));
}

/* Rows of the largest micro-batch. */
static int64_t leaf_rows(const engine_job *job) {
    return (job->global_batch + job->n_leaves - 1) / job->n_leaves;
}

static iter_status plan_net(iter_trainer *trainer, const iter_loader *loader, iter_error *err) {
    trainer->data_field = first_field(loader, ITER_DATA);
    trainer->label_field = first_field(loader, ITER_LABEL);
    if (trainer->data_field < 0 || trainer->label_field < 0)
        return iter__engine_fail(err, ITER_EINVAL, "the loader has no field of %s",
                                 trainer->data_field < 0 ? "data" : "labels");
    const iter_batch_field *data = iter_loader_field(loader, trainer->data_field);
    const iter_batch_field *label = iter_loader_field(loader, trainer->label_field);
    memcpy(trainer->data_name, data->name, sizeof(data->name));
    memcpy(trainer->label_name, label->name, sizeof(label->name));
    iter_desc data_desc = data->desc, label_desc = label->desc;
    trainer->batch = label_desc.dims[0];
    if (trainer->job)
        data_desc.dims[iter__net_batch_dim(&data_desc)] = label_desc.dims[0] =
            leaf_rows(trainer->job);
    ENGINE_TRY(
        iter__net_plan(trainer->model, &data_desc, &label_desc, trainer->seed, &trainer->net, err));
    return trainer->net.segments ? find_segments(trainer, loader, err) : ITER_OK;
}

static iter_status make_buffers(iter_trainer *trainer, iter_error *err) {
    const engine_net *net = &trainer->net;
    const size_t rows = (size_t)trainer->batch, label_bytes = iter_desc_bytes(&net->label);
    /* checked by the net */
    const size_t n_outputs =
        trainer->ops->real == ITER_F64 ? (size_t)(net->batch * net->n_outputs) : 0;
    trainer->counts = iter__engine_alloc(rows, 1);
    trainer->blank_label = iter__engine_alloc(label_bytes, 1);
    if (n_outputs) trainer->outputs = iter__engine_alloc(n_outputs, sizeof(double));
    if (!trainer->counts || !trainer->blank_label || (n_outputs && !trainer->outputs))
        return no_memory(err);
    trainer->n_bytes = sizeof(*trainer) + rows + label_bytes + n_outputs * sizeof(double);
    if (!trainer->ops->collect) return ITER_OK;
    trainer->pending = iter__engine_alloc(ENGINE_MAX_PENDING, sizeof(*trainer->pending));
    trainer->pending_indices =
        iter__engine_alloc(ENGINE_MAX_PENDING * rows, sizeof(*trainer->pending_indices));
    if (!trainer->pending || !trainer->pending_indices) return no_memory(err);
    trainer->n_bytes += ENGINE_MAX_PENDING * (sizeof(*trainer->pending) + rows * sizeof(uint64_t));
    return ITER_OK;
}

static iter_status check_device_options(const iter_trainer_options *opt,
                                        const engine_backend_ops *ops, iter_error *err) {
    if (opt->precision < 0 || opt->precision > ITER_PRECISION_BF16 || opt->algorithms < 0 ||
        opt->algorithms > ITER_ALGORITHMS_FAST || opt->device < 0)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "unknown precision %d, algorithms %d or device %d", opt->precision,
                                 opt->algorithms, opt->device);
    if (ops->on_device || (!opt->precision && !opt->algorithms && !opt->device)) return ITER_OK;
    return iter__engine_fail(
        err, ITER_EUNSUPPORTED,
        "backend %s: precision, algorithms and device are for the cuda backend", ops->name);
}

static iter_status make_backend(iter_trainer *trainer, const iter_trainer_options *opt,
                                iter_error *err) {
    const engine_backend_config config = {
        .net = &trainer->net,
        .optimizer = &trainer->optimizer,
        .threads = trainer->threads,
        .keep_input_gradient = trainer->keep_input_gradient,
        .sums_with = trainer->job ? trainer->job->comm : NULL,
        .precision = opt->precision,
        .algorithms = opt->algorithms,
        .device = opt->device,
    };
    void *state = iter__engine_alloc(1, trainer->ops->state_size);
    if (!state) return no_memory(err);
    const iter_status status = trainer->ops->create(state, &config, err);
    if (status < 0) {
        iter__engine_free(state);
        return iter__engine_fail_in(err, status, "backend %s", trainer->ops->name);
    }
    trainer->state = state;
    return ITER_OK;
}

/* Initialises weights by seed and name, and passes them to the backend in its own element type. */
static iter_status make_weights(iter_trainer *trainer, iter_error *err) {
    const engine_net *net = &trainer->net;
    int64_t most = 1;
    for (int32_t i = 0; i < net->n_params; i++)
        if (net->params[i].n_elements > most) most = net->params[i].n_elements;
    const bool wide = trainer->ops->real == ITER_F64;
    float *values = iter__engine_alloc((size_t)most, sizeof(*values));
    double *doubles = wide ? iter__engine_alloc((size_t)most, sizeof(*doubles)) : NULL;
    iter_status status = values && (!wide || doubles) ? ITER_OK : no_memory(err);
    for (int32_t i = 0; i < net->n_params && status >= 0; i++) {
        iter__param_init(&net->params[i], trainer->seed, values);
        for (int64_t j = 0; wide && j < net->params[i].n_elements; j++)
            doubles[j] = values[j];
        status = trainer->ops->set(trainer->state, i, ITER_VALUE_WEIGHT,
                                   wide ? (const void *)doubles : values, err);
    }
    iter__engine_free(values);
    iter__engine_free(doubles);
    return status;
}

/* ---- The plan as text ------------------------------------------------------------------------ */

static void put(text_block *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_block *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    const size_t taken = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left - 1;
    text->at += taken;
    text->left -= taken;
}

static char *shape_text(const engine_shape *shape, iter_dtype dtype, char out[TEXT_MAX]) {
    iter_desc desc = {.dtype = dtype, .n_dims = shape->n_dims};
    memcpy(desc.dims, shape->dims, sizeof(shape->dims));
    return iter_desc_text(&desc, out, TEXT_MAX);
}

/* "conv2d0: f32 [3, 32, 32] -> f32 [50, 32, 32], 1400 weights; jit:avx512" */
static void put_layer(text_block *text, const iter_trainer *trainer, int32_t i) {
    const engine_net *net = &trainer->net;
    const engine_layer *layer = &net->layers[i];
    char in[TEXT_MAX], out[TEXT_MAX], how[TEXT_MAX] = "";
    int64_t n = 0;
    for (int32_t p = layer->first_param; p < layer->first_param + layer->n_params; p++)
        n += net->params[p].n_elements;
    shape_text(&layer->in, i == 0 ? net->data.dtype : ITER_F32, in);
    shape_text(&layer->out, ITER_F32, out);
    if (iter__kind_is_loss(layer->kind))
        put(text, "%s: %s and label %s", layer->name, in,
            iter_desc_text(&net->label, out, TEXT_MAX));
    else
        put(text, "%s: %s -> %s", layer->name, in, out);
    if (n) put(text, ", %lld weights", (long long)n);
    trainer->ops->layer_text(trainer->state, i, how, sizeof(how));
    put(text, "%s%s\n", how[0] ? "; " : "", how);
}

static uint64_t n_weights(const engine_net *net) {
    uint64_t n = 0;
    for (int32_t i = 0; i < net->n_params; i++)
        n += (uint64_t)net->params[i].n_elements;
    return n;
}

static iter_status write_plan_text(iter_trainer *trainer, iter_error *err) {
    const engine_net *net = &trainer->net;
    const size_t capacity = (size_t)(net->n_layers + 2) * 4 * TEXT_MAX;
    trainer->plan_text = iter__engine_alloc(capacity, 1);
    if (!trainer->plan_text) return no_memory(err);
    text_block text = {trainer->plan_text, capacity};
    char line[2 * TEXT_MAX];
    put(&text, "data: %s\n", iter_desc_text(&net->data, line, sizeof(line)));
    for (int32_t i = 0; i < net->n_layers; i++)
        put_layer(&text, trainer, i);
    const iter_trainer_info info = iter_trainer_describe(trainer);
    iter__optimizer_text(&trainer->optimizer, line, sizeof(line));
    put(&text, "%llu weights, %s; %s, %u thread%s, %llu bytes\n",
        (unsigned long long)info.n_weights, line, info.backend, info.threads,
        info.threads == 1 ? "" : "s", (unsigned long long)info.n_bytes);
    if (trainer->job)
        put(&text,
            "rank %u of %u; gradients are sums over %u micro-batches of at most %lld rows%s\n",
            info.rank, info.ranks, info.micro_batches, (long long)net->batch,
            trainer->job->sum_text);
    return ITER_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Checks what iter_trainer_get() and iter_trainer_set() ask for: it must exist and have this
 * size. */
static iter_status check_value(const iter_trainer *trainer, int32_t param, iter_value value,
                               bool for_set, size_t bytes, iter_error *err) {
    const engine_net *net = &trainer->net;
    const bool of_input = value == ITER_VALUE_INPUT_GRADIENT && !for_set;
    if (!of_input && (param < 0 || param >= net->n_params))
        return iter__engine_fail(err, ITER_EINVAL,
                                 "trainer: there is no parameter %d, the net has %d", (int)param,
                                 (int)net->n_params);
    const int32_t n_moments = iter__optimizer_n_moments(&trainer->optimizer);
    if ((value == ITER_VALUE_MOMENT && n_moments < 1) ||
        (value == ITER_VALUE_MOMENT2 && n_moments < 2))
        return iter__engine_fail(err, ITER_EINVAL, "trainer: this optimizer keeps %d moment%s",
                                 (int)n_moments, n_moments == 1 ? "" : "s");
    const bool gradient = value == ITER_VALUE_GRADIENT || value == ITER_VALUE_INPUT_GRADIENT;
    if ((int)value < 0 || value > ITER_VALUE_INPUT_GRADIENT || (for_set && gradient))
        return iter__engine_fail(err, ITER_EINVAL, "trainer: value %d cannot be %s", (int)value,
                                 for_set ? "set" : "read");
    if (of_input && !trainer->keep_input_gradient)
        return iter__engine_fail(err, ITER_EINVAL,
                                 "trainer: keep_input_gradient was not asked for");
    if (gradient && trainer->job)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "trainer: gradients of several ranks or micro-batches cannot be "
                                 "read");
    if (gradient && !trainer->has_gradient)
        return iter__engine_fail(err, ITER_ESTATE, "trainer: no step has been taken yet");
    const int64_t n =
        of_input ? net->batch * iter__shape_elements(&net->input) : net->params[param].n_elements;
    const size_t wanted = (size_t)n * iter_dtype_bytes(trainer->ops->real);
    if (bytes == wanted) return ITER_OK;
    return iter__engine_fail(
        err, ITER_EINVAL, "trainer: %s: expected %zu bytes, got %zu",
        of_input ? "the gradient of the input" : net->params[param].public.name, wanted, bytes);
}

/* ---- Several ranks --------------------------------------------------------------------------- */

static iter_status make_job(iter_trainer *trainer, const iter_loader *loader,
                            iter_communicator *comm, iter_error *err) {
    const iter_loader_share share = iter_loader_share_of(loader);
    const uint32_t ranks = iter_communicator_ranks(comm), rank = iter_communicator_rank(comm);
    if (comm && (share.ranks != ranks || share.rank != rank))
        return iter__engine_fail(err, ITER_EINVAL,
                                 "the loader is rank %u of %u, the communicator's rank is %u of %u",
                                 share.rank, share.ranks, rank, ranks);
    if (ranks == 1 && share.micro_batches < 2) return ITER_OK;
    if (!comm && share.ranks > 1) return ITER_OK; /* it trains alone, on its share */
    return iter__job_create(comm, share.micro_batches, share.global_batch, &trainer->job, err);
}

static iter_status make_sums(iter_trainer *trainer, uint64_t bucket_bytes, iter_error *err) {
    engine_job *job = trainer->job;
    engine_gradient shapes[ENGINE_MAX_PARAMS];
    if (!trainer->ops->gradients)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "backend %s: cannot train with several ranks or micro-batches yet",
                                 trainer->ops->name);
    if (trainer->keep_input_gradient)
        return iter__engine_fail(err, ITER_EUNSUPPORTED,
                                 "keep_input_gradient: not with several ranks or micro-batches");
    int32_t n;
    engine_sum_memory memory = iter__host_memory(job->comm);
    if (trainer->ops->sum_memory)
        ENGINE_TRY(trainer->ops->sum_memory(trainer->state, &memory, err));
    memcpy(job->sum_text, memory.text, sizeof(job->sum_text));
    ENGINE_TRY(trainer->ops->gradients(trainer->state, shapes, &n, err));
    return iter__sums_create(&memory, job->n_leaves, trainer->ops->real, shapes, n, bucket_bytes,
                             &job->sums, err);
}

/* Adds a claim whose value is a number. */
static void claim_number(engine_claim *out, const char *name, uint64_t number, const char *format) {
    char text[32];
    snprintf(text, sizeof(text), format, (unsigned long long)number);
    iter__claim(out, name, text);
}

/* What ranks must have in common: program, net, data. */
static iter_status compare_ranks(iter_trainer *trainer, iter_loader *loader, iter_error *err) {
    engine_claim claims[ENGINE_MAX_CLAIMS];
    const iter_trainer_info info = iter_trainer_describe(trainer);
    const iter_loader_share share = iter_loader_share_of(loader);
    char text[2 * TEXT_MAX];
    uint64_t sample;
    uint32_t epoch;
    int32_t n = 0;
    iter__claim(&claims[n++], "version", ITER_VERSION_STRING);
    iter__claim_file(&claims[n++], "build of the trainer", (void (*)(void))iter_trainer_create);
    iter__claim_file(&claims[n++], "build of the library", (void (*)(void))iter_loader_next);
    iter__claim(&claims[n++], "backend", info.backend);
    iter__claim(&claims[n++], "model", iter_model_text(trainer->model));
    iter__optimizer_text(&trainer->optimizer, text, sizeof(text));
    iter__claim(&claims[n++], "optimizer", text);
    claim_number(&claims[n++], "seed", trainer->seed, "%llu");
    claim_number(&claims[n++], "number of threads", trainer->threads, "%llu");
    snprintf(text, sizeof(text), "%u, global batch %lld", trainer->job->n_leaves,
             (long long)trainer->job->global_batch);
    iter__claim(&claims[n++], "number of micro-batches", text);
    iter__claim(&claims[n++], "form of data",
                iter_desc_text(&trainer->net.data, text, sizeof(text)));
    iter__claim(&claims[n++], "form of labels",
                iter_desc_text(&trainer->net.label, text, sizeof(text)));
    claim_number(&claims[n++], "number of batches", iter_loader_n_batches(loader), "%llu");
    claim_number(&claims[n++], "dataset", share.dataset, "%016llx");
    claim_number(&claims[n++], "chain", share.chain, "%016llx");
    claim_number(&claims[n++], "seed of the loader", share.seed, "%llu");
    claim_number(&claims[n++], "order of samples", share.sampler, "%016llx");
    iter_loader_position(loader, &epoch, &sample);
    snprintf(text, sizeof(text), "epoch %u, sample %llu", epoch, (unsigned long long)sample);
    iter__claim(&claims[n++], "position", text);
    return iter__job_compare(trainer->job, claims, n, err);
}

/* The last part of create(). Even a rank that failed comes here, because the others wait. */
static iter_status join_job(iter_trainer *trainer, iter_loader *loader, uint64_t bucket_bytes,
                            iter_status status, iter_error *err) {
    iter_error own = {ITER_OK, ""};
    if (!trainer->job) return status;
    if (status < 0 && err) own = *err;
    status = iter__job_agree(trainer->job, status, NULL, "", &own);
    if (status >= 0) {
        status = make_sums(trainer, bucket_bytes, &own);
        status = iter__job_agree(trainer->job, status, NULL, "", &own);
    }
    if (status >= 0) status = compare_ranks(trainer, loader, &own);
    if (status < 0 && err) *err = own;
    return status;
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status iter_trainer_create(iter_model *model, iter_loader *loader,
                                const iter_trainer_options *options, iter_trainer **out,
                                iter_error *err) {
    if (!out) return iter__engine_fail(err, ITER_EINVAL, "trainer: out is NULL");
    *out = NULL;
    if (!model || !loader)
        return iter__engine_fail(err, ITER_EINVAL, "trainer: model or loader is NULL");
    iter_trainer_options opt;
    ENGINE_TRY(copy_options(options, &opt, err));
    if (opt.threads > ENGINE_MAX_THREADS)
        return iter__engine_fail(err, ITER_EINVAL, "trainer: %u threads, at most %d", opt.threads,
                                 ENGINE_MAX_THREADS);
    iter_trainer *trainer = iter__engine_alloc(1, sizeof(*trainer));
    if (!trainer) return iter__engine_fail(err, ITER_ENOMEM, "trainer: out of memory");
    trainer->model = iter_model_ref(model);
    trainer->seed = opt.seed;
    trainer->threads = opt.threads ? opt.threads : default_threads(loader);
    trainer->keep_input_gradient = opt.keep_input_gradient != 0;
    iter_status status = make_job(trainer, loader, opt.communicator, err);
    if (status >= 0) status = iter__backend_find(opt.backend, &trainer->ops, err);
    if (status >= 0) status = check_device_options(&opt, trainer->ops, err);
    if (status >= 0) status = iter__optimizer_parse(opt.optimizer, &trainer->optimizer, err);
    if (status >= 0) {
        iter__model_freeze(model);
        status = plan_net(trainer, loader, err);
    }
    if (status >= 0 && trainer->keep_input_gradient && trainer->net.input.ids)
        status = iter__engine_fail(err, ITER_EINVAL, "token ids have no gradient to keep");
    if (status >= 0) status = make_buffers(trainer, err);
    if (status >= 0) status = make_backend(trainer, &opt, err);
    if (status >= 0) status = make_weights(trainer, err);
    status = join_job(trainer, loader, opt.bucket_bytes, status, err);
    if (status >= 0) status = write_plan_text(trainer, err);
    if (status < 0) {
        iter_trainer_destroy(trainer);
        return iter__engine_fail_in(err, status, "trainer");
    }
    *out = trainer;
    return ITER_OK;
}

void iter_trainer_destroy(iter_trainer *trainer) {
    if (!trainer) return;
    iter__job_destroy(trainer->job);
    if (trainer->state) trainer->ops->destroy(trainer->state);
    iter__engine_free(trainer->state);
    iter__engine_free(trainer->counts);
    iter__engine_free(trainer->blank_label);
    iter__engine_free(trainer->outputs);
    iter__engine_free(trainer->pending);
    iter__engine_free(trainer->pending_indices);
    iter__engine_free(trainer->plan_text);
    iter_model_unref(trainer->model);
    iter__engine_free(trainer);
}

const char *iter_model_layout(const iter_model *model, const char *backend, int32_t precision) {
    const engine_backend_ops *ops;
    engine_net net;
    if (!model || iter__model_n_layers(model) == 0) return "";
    if (iter__backend_find(backend, &ops, NULL) < 0) return "";
    iter__net_layers(model, &net);
    return ops->layout(&net, precision);
}

int32_t iter_trainer_n_params(const iter_trainer *trainer) {
    return trainer->net.n_params;
}

const iter_param *iter_trainer_param(const iter_trainer *trainer, int32_t i) {
    return i >= 0 && i < trainer->net.n_params ? &trainer->net.params[i].public : NULL;
}

iter_status iter_trainer_get(iter_trainer *trainer, int32_t param, iter_value value, void *out,
                             size_t bytes, iter_error *err) {
    if (!trainer || !out) return iter__engine_fail(err, ITER_EINVAL, "trainer or out is NULL");
    ENGINE_TRY(check_value(trainer, param, value, false, bytes, err));
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    return trainer->ops->get(trainer->state, param, value, out, err);
}

iter_status iter_trainer_set(iter_trainer *trainer, int32_t param, iter_value value,
                             const void *from, size_t bytes, iter_error *err) {
    if (!trainer || !from) return iter__engine_fail(err, ITER_EINVAL, "trainer or from is NULL");
    ENGINE_TRY(check_value(trainer, param, value, true, bytes, err));
    ENGINE_TRY(iter__trainer_settle(trainer, err));
    return trainer->ops->set(trainer->state, param, value, from, err);
}

iter_trainer_info iter_trainer_describe(const iter_trainer *trainer) {
    engine_backend_info of = {.n_bytes = 0};
    trainer->ops->describe(trainer->state, &of);
    iter_trainer_info info = {
        .threads = trainer->threads,
        .n_weights = n_weights(&trainer->net),
        .n_bytes = trainer->n_bytes + of.n_bytes,
        .n_steps = trainer->n_steps,
        .n_converted = of.n_converted,
        .convert_seconds = of.convert_seconds,
        .n_graph_runs = of.n_graph_runs,
        .n_call_runs = of.n_call_runs,
        .ranks = 1,
        .micro_batches = 1,
        .communicate_seconds = trainer->job_seconds,
        .sum_seconds = trainer->job_sum_seconds,
    };
    const engine_job *job = trainer->job;
    if (job) {
        info.n_bytes += iter__job_bytes(job);
        info.rank = job->comm->rank;
        info.ranks = job->comm->ranks;
        info.micro_batches = job->n_leaves;
        info.slowest_seconds = job->slowest_seconds;
    }
    snprintf(info.backend, sizeof(info.backend), "%s%s%.128s", trainer->ops->name,
             of.text[0] ? ": " : "", of.text);
    memcpy(info.convert_text, of.convert_text, sizeof(info.convert_text));
    return info;
}

uint32_t iter_trainer_ranks(const iter_trainer *trainer, iter_rank_stats *out, uint32_t capacity) {
    const engine_job *job = trainer->job;
    if (!job) return 0;
    for (uint32_t i = 0; i < job->comm->ranks && i < capacity; i++)
        out[i] = job->stats[i];
    return job->comm->ranks;
}

uint32_t iter_trainer_buckets(const iter_trainer *trainer, iter_bucket_stats *out,
                              uint32_t capacity) {
    return trainer->job ? iter__sums_buckets(trainer->job->sums, out, capacity) : 0;
}

const char *iter_trainer_plan_text(const iter_trainer *trainer) {
    return trainer->plan_text;
}
