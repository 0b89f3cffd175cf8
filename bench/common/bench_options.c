/*
 * bench_options.c - the command line of iterbench.
 *
 * bench_option_rows.c has one row for each option. If an argument has no row, or a value is not
 * understood completely, the program ends with status 2: a benchmark that guesses does not measure
 * what it was asked to. The message names the nearest known word.
 */
#include "bench/common/bench_option_rows.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <iter/plugin.h>

#include "bench/common/bench_util.h"

#define OPTIONS_MAX 96

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *const sources[] = {"auto", "memory", "ring", "pread", "null", "remote"};
static const char *const shuffles[] = {"none", "full", "once", "block", "batch", "replacement"};
static const char *const last_batches[] = {"default", "keep", "pad", "discard", "roll_over"};
static const char *const finishes[] = {"auto", "host", "device"};
static const char *const residents[] = {"no", "auto", "yes"};
static const char *const precisions[] = {"f32", "tf32", "f16", "bf16"};
static const char *const algorithms[] = {"deterministic", "tuned", "fast"};
static const char *const models[] = {"none", "cnn", "gru", "mlp"};
static const char *const on_errors[] = {"fail", "replace", "blank"};

/* ---- Values ---------------------------------------------------------------------------------- */

static bool read_count(const char *text, const char **out_end, uint64_t *out) {
    if (text[0] < '0' || text[0] > '9') return false;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    *out_end = end;
    return errno == 0;
}

/* The units are those of specs, and B. */
static bool read_size(const char *text, uint64_t *out) {
    static const struct {
        const char *text;
        uint64_t bytes;
    } units[] = {{"", 1},           {"B", 1},         {"k", 1000},      {"M", 1000000},
                 {"G", 1000000000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    const char *end;
    if (!read_count(text, &end, out)) return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].text) == 0) {
            if (*out > UINT64_MAX / units[i].bytes) return false;
            *out *= units[i].bytes;
            return true;
        }
    return false;
}

static bool read_choice(const char *text, const char *words, int32_t *out) {
    size_t size = strlen(text);
    for (int32_t i = 0;; i++) {
        size_t length = strcspn(words, "|");
        if (length == size && size > 0 && memcmp(words, text, size) == 0) {
            *out = i;
            return true;
        }
        if (words[length] == '\0') return false;
        words += length + 1;
    }
}

static bool read_start(const char *text, bench_options *out) {
    const char *end;
    out->has_start = true;
    return read_count(text, &end, &out->start_epoch) && *end == ':' &&
           out->start_epoch <= UINT32_MAX && read_count(end + 1, &end, &out->start_sample) &&
           *end == '\0';
}

static bool read_real(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out > 0;
}

static bool read_device(const char *text, uint64_t most, int32_t *out) {
    uint64_t number = 0;
    const char *end = "";
    if (strcmp(text, "cpu") == 0) {
        *out = 0;
        return true;
    }
    if (strncmp(text, "cuda", 4) != 0) return false;
    if (text[4] != '\0' && (text[4] != ':' || !read_count(text + 5, &end, &number))) return false;
    *out = ITER_DEVICE((int32_t)number);
    return *end == '\0' && number < most;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool add_text(bench_texts *texts, const char *text) {
    if (texts->n == BENCH_TEXTS_MAX) return false;
    texts->at[texts->n++] = text;
    return true;
}

static bool store(const option_row *row, const char *text, bench_options *out) {
    char *at = (char *)out + row->offset;
    uint64_t number = 0;
    int32_t choice = 0;
    const char *end;
    switch (row->kind) {
    case TEXT: *(const char **)at = text; return true;
    case TEXTS: return add_text((bench_texts *)(void *)at, text);
    case FLAG: *(bool *)at = true; return true;
    case REAL: return read_real(text, (double *)at);
    case START: return read_start(text, out);
    case DEVICE:
        out->any_device = strcmp(text, "cuda") == 0;
        return read_device(text, row->max, (int32_t *)at);
    case CHOICE:
        if (!read_choice(text, row->value, &choice)) return false;
        *(int32_t *)at = choice + row->base;
        return true;
    case WORKERS:
        if (strcmp(text, "auto") == 0) {
            *(int64_t *)at = ITER_WORKERS_AUTO;
            return true;
        }
        if (!read_count(text, &end, &number) || *end != '\0' || number > row->max) return false;
        *(int64_t *)at = (int64_t)number;
        return true;
    case RANKS:
        out->any_ranks = strcmp(text, "auto") == 0;
        if (out->any_ranks) return true;
        if (!read_count(text, &end, &number) || *end != '\0') return false;
        break;
    case COUNT:
        if (!read_count(text, &end, &number) || *end != '\0') return false;
        break;
    case SIZE:
        if (!read_size(text, &number)) return false;
        break;
    }
    *(uint64_t *)at = number;
    return number >= row->min && number <= row->max;
}

static const option_row *find(const char *name, size_t length, bench_command command) {
    for (size_t i = 0; i < bench_n_option_rows; i++)
        if ((bench_option_rows[i].commands & command) != 0 &&
            strlen(bench_option_rows[i].name) == length &&
            memcmp(bench_option_rows[i].name, name, length) == 0)
            return &bench_option_rows[i];
    return NULL;
}

static iter_status fail_value(const option_row *row, const char *text, iter_error *err) {
    const unsigned long long least = row->min, most = row->max;
    const bool or_auto = row->kind == WORKERS || row->kind == RANKS;
    const char *words = row->kind == CHOICE || row->kind == DEVICE ? row->value
                        : or_auto                                  ? "auto"
                                                                   : "";
    char range[96] = "", hint[BENCH_HINT];
    if (row->kind == TEXTS)
        return bench_fail(err, ITER_EINVAL, "--%s is given more than %d times", row->name,
                          BENCH_TEXTS_MAX);
    if (row->kind == SIZE)
        snprintf(range, sizeof(range), "%s (k, M, G, KiB, MiB or GiB may follow)",
                 least > 0 ? " above 0" : "");
    else if (or_auto || (row->kind == COUNT && row->max < UINT32_MAX))
        snprintf(range, sizeof(range), " from %llu to %llu", least, most);
    else if (row->kind == COUNT && least > 0)
        snprintf(range, sizeof(range), " of at least %llu", least);
    return bench_fail(err, ITER_EINVAL, "--%s wants %s%s%s, not '%s'%s", row->name, row->value,
                      range, or_auto ? " or auto" : "", text, bench_hint(text, words, "", hint));
}

/* The commands' names, separated by commas. */
static const char *command_names(unsigned which, char text[128]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < bench_n_command_rows && used < 128; i++)
        if (which & bench_command_rows[i].command)
            used += (size_t)snprintf(
                text + used, 128 - used, "%s%s", used ? ", " : "",
                bench_command_rows[i].name[0] != '\0' ? bench_command_rows[i].name : "a run");
    return text;
}

/* Fails for an option that this command does not know: it belongs to another command, or is
 * misspelled. */
static iter_status unknown(const char *name, size_t length, bench_command command,
                           iter_error *err) {
    char names[4096] = "", text[64], hint[BENCH_HINT];
    const option_row *row = find(name, length, ~0u);
    if (row != NULL)
        return bench_fail(err, ITER_EINVAL, "unknown argument '--%s' here: it belongs to %s",
                          row->name, command_names(row->commands, names));
    for (size_t i = 0; i < bench_n_option_rows; i++)
        if (bench_option_rows[i].commands & command)
            bench_names_add(names, sizeof(names), bench_option_rows[i].name);
    snprintf(text, sizeof(text), "%.*s", (int)length, name);
    return bench_fail(err, ITER_EINVAL, "unknown argument '--%.*s'%s", (int)length, name,
                      bench_hint(text, names, "--", hint));
}

/* ---- Public ---------------------------------------------------------------------------------- */

iter_status bench_options_parse(int argc, char **argv, int first, bench_command command,
                                bench_options *out, iter_error *err) {
    *out = (bench_options){.batch = 64,
                           .ranks = 1,
                           .any_ranks = true,
                           .shuffle = ITER_SHUFFLE_FULL,
                           .last_batch = ITER_LAST_KEEP,
                           .pairs = 15,
                           .starts = 3};
    bool given[OPTIONS_MAX] = {false};
    assert(bench_n_option_rows <= OPTIONS_MAX);
    for (int i = first; i < argc; i++) {
        const char *text = argv[i];
        if (strncmp(text, "--", 2) != 0) {
            if (text[0] == '-' || out->n_words == BENCH_WORDS_MAX)
                return bench_fail(err, ITER_EINVAL, "unknown argument '%s'", text);
            out->words[out->n_words++] = text;
            continue;
        }
        const char *name = text + 2;
        size_t length = strcspn(name, "=");
        const option_row *row = find(name, length, command);
        if (row == NULL) return unknown(name, length, command, err);
        if (given[row - bench_option_rows] && row->kind != TEXTS)
            return bench_fail(err, ITER_EINVAL, "--%s is given twice", row->name);
        given[row - bench_option_rows] = true;
        const char *value = name[length] == '=' ? name + length + 1 : NULL;
        if (row->kind == FLAG && value != NULL)
            return bench_fail(err, ITER_EINVAL, "--%s takes no value", row->name);
        if (row->kind != FLAG && value == NULL) {
            if (++i == argc)
                return bench_fail(err, ITER_EINVAL, "--%s wants %s", row->name, row->value);
            value = argv[i];
        }
        if (!store(row, value, out)) return fail_value(row, value, err);
    }
    return ITER_OK;
}

static iter_status check_device(const bench_options *options, iter_error *err) {
    if (options->device == 0 && (options->finish != 0 || options->resident != 0))
        return bench_fail(err, ITER_EINVAL, "--finish and --resident belong to --device cuda");
    if ((options->device == 0 || options->model == BENCH_MODEL_NONE) &&
        (options->precision != 0 || options->algorithms != 0))
        return bench_fail(err, ITER_EINVAL,
                          "--precision and --algorithms belong to --device cuda with --model");
    if (options->device != 0 && (options->wants != 0 || options->dump != NULL))
        return bench_fail(err, ITER_EINVAL,
                          "--wants and --dump look at rows in host memory: --device cpu");
    return ITER_OK;
}

const char *bench_data_text(const bench_options *options) {
    static char text[8192];
    return options->data != NULL ? iter_text_mask(options->data, text, sizeof(text)) : NULL;
}

iter_status bench_options_check(const bench_options *options, bench_command command,
                                iter_error *err) {
    if (options->n_words > 0)
        return bench_fail(err, ITER_EINVAL, "unknown argument '%s'", options->words[0]);
    if (options->data == NULL) return bench_fail(err, ITER_EINVAL, "--data is missing");
    if (command == BENCH_SERVE && options->loader == BENCH_BOTH &&
        options->limit == BENCH_LIMIT_NONE && options->model == BENCH_MODEL_NONE)
        return bench_fail(err, ITER_EINVAL, "serve wants --loader, --limit or --model");
    if (options->model != BENCH_MODEL_NONE &&
        (options->hash || options->dump != NULL || options->epochs > 0 || options->ranks > 1 ||
         options->limit != BENCH_LIMIT_NONE || options->has_start))
        return bench_fail(err, ITER_EINVAL,
                          "--model is measured by time and one rank: no --hash, --dump, --epochs, "
                          "--ranks, --start or --limit beside it");
    if (options->model == BENCH_MODEL_NONE && (options->threads > 0 || options->sweep != 0))
        return bench_fail(err, ITER_EINVAL, "--threads and --sweep belong to --model");
    if (options->compute_ms > 0 && options->model != BENCH_MODEL_NONE)
        return bench_fail(err, ITER_EINVAL, "--compute-ms and --model exclude one another");
    if (options->wants != 0 && options->compute_ms <= 0)
        return bench_fail(err, ITER_EINVAL, "--wants belongs to --compute-ms");
    if (bench_options_diagnose(options) && options->model == BENCH_MODEL_NONE &&
        (options->hash || options->dump != NULL || options->epochs > 0 || options->ranks > 1 ||
         options->has_start))
        return bench_fail(err, ITER_EINVAL,
                          "--compute-ms, --plant and --prove are measured by time and one rank: no "
                          "--hash, --dump, --epochs, --ranks or --start beside them");
    if (options->failures != NULL &&
        (options->dump != NULL || options->sweep != 0 || bench_options_diagnose(options)))
        return bench_fail(err, ITER_EINVAL,
                          "--failures belongs to a plain run: no --model, --compute-ms, --plant, "
                          "--prove, --trace, --sweep or --dump beside it");
    if (options->decode && (options->workers != 0 || options->device != 0))
        return bench_fail(err, ITER_EINVAL,
                          "--decode is about one core: no --workers or --device beside it");
    if (command == BENCH_LIMITS && !options->decode && options->seconds > 0)
        return bench_fail(err, ITER_EINVAL, "limits: --seconds belongs to --decode");
    if (command == BENCH_LIMITS && !options->decode && options->failures != NULL)
        return bench_fail(err, ITER_EINVAL, "limits: --failures belongs to --decode");
    if (check_device(options, err) < 0) return ITER_EINVAL;
    if (options->epochs > 0 && options->seconds > 0)
        return bench_fail(err, ITER_EINVAL, "--epochs and --seconds exclude one another");
    if (options->hash && options->seconds > 0)
        return bench_fail(err, ITER_EINVAL, "--hash wants whole epochs: no --seconds beside it");
    if ((options->dump != NULL) != (options->batches > 0))
        return bench_fail(err, ITER_EINVAL, "--dump and --batches belong together");
    if (options->dump != NULL && (options->hash || options->epochs > 0 || options->seconds > 0 ||
                                  options->json != NULL || options->html != NULL))
        return bench_fail(
            err, ITER_EINVAL,
            "--dump runs alone: no --hash, --epochs, --seconds, --json or --html beside it");
    return ITER_OK;
}

iter_status bench_registry_create(const bench_options *options, iter_registry **out,
                                  iter_error *err) {
    iter_status s = iter_registry_create(out, err);
    for (int i = 0; s == ITER_OK && i < options->plugins.n; i++)
        s = iter_plugin_load(options->plugins.at[i], *out, err);
    if (s == ITER_OK) return ITER_OK;
    iter_registry_destroy(*out);
    *out = NULL;
    return s;
}

bool bench_options_diagnose(const bench_options *options) {
    return options->sweep == 0 &&
           (options->model != BENCH_MODEL_NONE || options->compute_ms > 0 ||
            options->plant != NULL || options->prove || options->trace != NULL);
}

/* Called by the loader's watchdog. */
static void say_stall(void *user, const iter_stall *stall) {
    (void)user;
    fprintf(stderr, "iterbench: %s\n", BENCH_SHOWN(stall->message));
}

/* Leaves rows in place, each with its length beside it. */
static iter_status leave_rows(void *user, iter_batch_view *fields, int32_t n_fields,
                              iter_error *err) {
    (void)user, (void)fields, (void)n_fields, (void)err;
    return ITER_OK;
}

iter_loader_options bench_loader_options(const bench_options *options, uint32_t rank) {
    iter_loader_options out = ITER_LOADER_OPTIONS_INIT;
    out.batch_size = (uint32_t)options->batch;
    out.workers = (int32_t)options->workers;
    out.prefetch = (uint32_t)options->prefetch;
    out.max_held = (uint32_t)options->max_held;
    out.rank = rank;
    out.ranks = (uint32_t)options->ranks;
    out.memory.share = ITER_SHARE_NO; /* all ranks are in this process and use one dataset */
    if (options->job != NULL) {
        out.batch_size = 0;
        out.global_batch = (uint32_t)options->batch;
        out.rank = options->job->rank;
        out.ranks = options->job->ranks;
        out.local_ranks = options->job->local_ranks;
        out.memory.share = ITER_SHARE_AUTO;
    }
    out.seed = options->seed;
    out.shuffle = options->shuffle;
    out.last_batch = options->last_batch;
    out.faults.on_error = options->on_error;
    out.faults.max_failures = (uint32_t)options->max_failures;
    out.reading.source = options->source;
    out.reading.o_direct = options->o_direct ? 1 : 0;
    out.memory.limit = options->memory;
    out.reading.max_sample_bytes = options->max_sample_bytes;
    out.sampler.spec = options->sampler;
    out.sampler.registry = options->registry;
    out.reading.ops = options->source_ops;
    out.reading.only_reads = options->only_reads ? 1 : 0;
    out.collate = options->ragged ? leave_rows : NULL;
    out.watch.stall_ms = (int64_t)options->stall_ms;
    out.watch.on_stall = options->stall_ms > 0 ? say_stall : NULL;
    if (options->device == 0) return out;
    out.memory.kind = ITER_MEMORY_DEVICE;
    out.memory.device = options->device;
    out.memory.finish = options->finish;
    out.memory.resident = options->resident;
    return out;
}

iter_status bench_dataset_open(const bench_options *options, iter_dataset **out, iter_error *err) {
    iter_dataset_options opt = ITER_DATASET_OPTIONS_INIT;
    opt.registry = options->registry;
    opt.memory_limit = options->memory;
    return iter_dataset_open_with(options->data, &opt, out, err);
}

bench_options bench_options_on_host(const bench_options *options) {
    bench_options out = *options;
    out.device = 0;
    return out;
}

const char *bench_model_text(int32_t model) {
    return model >= 0 && model < 4 ? models[model] : "unknown";
}
const char *bench_device_text(int32_t device, char out[16]) {
    if (device == 0)
        snprintf(out, 16, "cpu");
    else
        snprintf(out, 16, "cuda:%u", (unsigned)(device - ITER_DEVICE(0)) % 1000);
    return out;
}
const char *bench_finish_text(int32_t finish) {
    return finish >= 0 && finish < 3 ? finishes[finish] : "unknown";
}
const char *bench_resident_text(int32_t resident) {
    return resident >= 0 && resident < 3 ? residents[resident] : "unknown";
}
const char *bench_precision_text(int32_t precision) {
    return precision >= 0 && precision < 4 ? precisions[precision] : "unknown";
}
const char *bench_algorithms_text(int32_t algorithm) {
    return algorithm >= 0 && algorithm < 3 ? algorithms[algorithm] : "unknown";
}
const char *bench_source_text(int32_t source) {
    return source >= 0 && source <= ITER_SOURCE_REMOTE ? sources[source] : "unknown";
}
const char *bench_shuffle_text(int32_t shuffle) {
    return shuffle >= 0 && shuffle < 6 ? shuffles[shuffle] : "unknown";
}
const char *bench_last_batch_text(int32_t last_batch) {
    return last_batch >= 0 && last_batch < 5 ? last_batches[last_batch] : "unknown";
}
const char *bench_on_error_text(int32_t on_error) {
    return on_error >= 0 && on_error < 3 ? on_errors[on_error] : "unknown";
}
