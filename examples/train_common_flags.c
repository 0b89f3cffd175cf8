/*
 * train_common_flags.c - the command line of the training programs: one row per option, used by
 * both the parser and --help. Values are given as --name VALUE or --name=VALUE. If an argument is
 * not fully understood the program ends: a run that guesses would train something else than was
 * asked for.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "train_common.h"

typedef enum flag_kind { TEXT, COUNT, CHOICE, MODEL, LAYOUT, WORKERS, DEVICE, FLAG } flag_kind;

typedef struct flag_row {
    const char *name;
    flag_kind kind;
    size_t offset;
    const char *value; /* of a CHOICE the allowed words; else the name of the value in the help */
    uint64_t min, max; /* for COUNT */
    const char *help;
} flag_row;

#define AT(field) offsetof(train_options, field)

static const flag_row rows[] = {
    {"data", TEXT, AT(data), "SPEC", 0, 0,
     "training split, as format:path?split=train; the test split of the same path evaluates. "
     "Without it: the real set in $ITER_DATA or ./data, else a generated one"},
    {"test", TEXT, AT(test), "SPEC", 0, 0, "test split, if it is not the same path's"},
    {"loader", CHOICE, AT(loader), "dataloader|ndarray", 0, 0,
     "samples read as they are needed, or all of them held as arrays"},
    {"model", MODEL, AT(model), NULL, 0, 0, "the network"},
    {"network", TEXT, AT(network), "LAYERS", 0, 0, "layers in their text form, instead of --model"},
    {"epochs", COUNT, AT(epochs), "N", 1, 100000, "number of epochs"},
    {"batch", COUNT, AT(batch), "N", 1, 1 << 20, "samples per step, over all ranks"},
    {"ranks", CHOICE, AT(ranks), "auto|one", 0, 0,
     "train with the processes that mpirun or srun started (auto), or each for itself"},
    {"micro-batches", COUNT, AT(micro_batches), "N", 1, 4096,
     "equal parts of a batch whose gradients are summed in a fixed order: the same bits for any "
     "number of ranks (ranks, rounded up to a power of two; with --resume the checkpoint's)"},
    {"bucket-bytes", COUNT, AT(bucket_bytes), "N", 1, UINT64_MAX,
     "with several ranks: gradients are summed in pieces of at least so many bytes, while the "
     "layers before theirs go backward (1 MiB)"},
    {"timeout", COUNT, AT(timeout), "SECONDS", 1, 1 << 20,
     "with several ranks: how long one waits for the others (300)"},
    {"workers", WORKERS, AT(workers), "N|auto", 0, ITER_STATS_WORKERS,
     "threads that make batches (0: the training thread makes them between steps)"},
    {"threads", COUNT, AT(threads), "N", 1, 1024, "threads that train (cores minus workers)"},
    {"seed", COUNT, AT(seed), "N", 0, UINT64_MAX, "seed of weights, dropout and order (0)"},
    {"backend", TEXT, AT(backend), "NAME", 0, 0,
     "backend: cpu, cuda, reference, reference-f64 (cuda with --device cuda, else cpu)"},
    {"device", DEVICE, AT(device), "cpu|cuda|cuda:N", 0, 64, "where batches go (cpu)"},
    {"precision", CHOICE, AT(precision), "f32|tf32|f16|bf16", 0, 0,
     "with --device cuda: arithmetic"},
    {"algorithms", CHOICE, AT(algorithms), "deterministic|tuned|fast", 0, 0,
     "with --device cuda: repeatable bit for bit, the fastest of these, or the fastest of all"},
    {"resident", CHOICE, AT(resident), "no|auto|yes", 0, 0,
     "with --device cuda: keep the whole set on the GPU"},
    {"finish", CHOICE, AT(finish), "auto|host|device", 0, 0,
     "with --device cuda: where images become numbers (auto: the plan decides)"},
    {"layout", LAYOUT, AT(layout), NULL, 0, 0,
     "order of the batches' dimensions (the model's own)"},
    {"checkpoint", TEXT, AT(checkpoint), "DIR", 0, 0,
     "save there after every epoch and at the end"},
    {"resume", FLAG, AT(resume), NULL, 0, 0, "continue from --checkpoint's file if it exists"},
    {"limit-steps", COUNT, AT(limit_steps), "N", 1, UINT64_MAX, "stop after so many steps"},
    {"json", TEXT, AT(json), "FILE|-", 0, 0, "write the results; -: to stdout, the rest to stderr"},
    {"help", FLAG, AT(help), NULL, 0, 0, "this text"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

/* Index of a word in "a|b|c", or -1. */
static int32_t find_word(const char *words, const char *text) {
    char word[32];
    for (int32_t i = 0; *train_word(words, i, word) != '\0'; i++)
        if (strcmp(word, text) == 0) return i;
    return -1;
}

static bool read_count(const char *text, const flag_row *row, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out >= row->min &&
           *out <= row->max;
}

static bool read_device(const char *text, const flag_row *row, int32_t *out) {
    uint64_t number = 0;
    *out = 0;
    if (strcmp(text, "cpu") == 0) return true;
    if (strncmp(text, "cuda", 4) != 0) return false;
    if (text[4] != '\0' && (text[4] != ':' || !read_count(text + 5, row, &number))) return false;
    *out = ITER_DEVICE((int32_t)number);
    return true;
}

/* The words that a row's value may be, for messages and help. */
static const char *words_of(const flag_row *row, const train_program *program, char out[64]) {
    if (row->kind == LAYOUT) return program->layouts;
    if (row->kind != MODEL) return row->value;
    out[0] = '\0';
    for (int i = 0; program->models[i].name != NULL; i++)
        snprintf(out + strlen(out), 64 - strlen(out), "%s%s", i > 0 ? "|" : "",
                 program->models[i].name);
    return out;
}

/* What a row's value must be, for messages. */
static const char *wants_of(const flag_row *row, const train_program *program, char out[64]) {
    if (row->kind == WORKERS)
        snprintf(out, 64, "auto or a number from 0 to %" PRIu64, row->max);
    else if (row->kind != COUNT)
        return words_of(row, program, out);
    else if (row->max == UINT64_MAX)
        snprintf(out, 64, "an integer from %" PRIu64 " on", row->min);
    else
        snprintf(out, 64, "a number from %" PRIu64 " to %" PRIu64, row->min, row->max);
    return out;
}

static bool store(const flag_row *row, const train_program *program, const char *text,
                  train_options *out) {
    char *at = (char *)out + row->offset, words[64];
    uint64_t number = 0;
    bool known = true;
    switch (row->kind) {
    case TEXT: *(const char **)at = text; return text[0] != '\0';
    case FLAG: *(bool *)at = true; return true;
    case COUNT: return read_count(text, row, (uint64_t *)at);
    case WORKERS:
        if (strcmp(text, "auto") == 0)
            out->workers = ITER_WORKERS_AUTO;
        else if ((known = read_count(text, row, &number)))
            out->workers = (int64_t)number;
        return known;
    case DEVICE:
        out->any_device = strcmp(text, "cuda") == 0;
        return read_device(text, row, (int32_t *)at);
    case CHOICE:
    case MODEL:
    case LAYOUT:
        *(int32_t *)at = find_word(words_of(row, program, words), text);
        return *(int32_t *)at >= 0;
    }
    return false;
}

static const flag_row *find_row(const char *name, size_t length) {
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

/* ---- Public ---------------------------------------------------------------------------------- */

const char *train_choices(const char *flag) {
    const flag_row *row = find_row(flag, strlen(flag));
    return row != NULL && row->kind == CHOICE ? row->value : NULL;
}

const char *train_word(const char *words, int32_t i, char out[32]) {
    out[0] = '\0';
    for (; words != NULL && i > 0; i--) {
        words = strchr(words, '|');
        if (words != NULL) words++;
    }
    if (words != NULL) snprintf(out, 32, "%.*s", (int)strcspn(words, "|"), words);
    return out;
}

static uint64_t batch_of(const train_program *program) {
    return program->batch != 0 ? program->batch : 64;
}

iter_status train_flags(int argc, char **argv, const train_program *program, train_options *out,
                        iter_error *err) {
    *out = (train_options){.batch = batch_of(program), .epochs = program->epochs, .layout = -1};
    for (int i = 1; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        const size_t length = strcspn(name, "=");
        const flag_row *row = find_row(name, length);
        if (row == NULL) return train_fail(err, ITER_EINVAL, "unknown argument '%s'", argv[i]);
        const char *value = name[length] == '=' ? name + length + 1 : NULL;
        char words[64];
        const char *wants = wants_of(row, program, words);
        if (row->kind == FLAG && value != NULL)
            return train_fail(err, ITER_EINVAL, "--%s takes no value", row->name);
        if (row->kind != FLAG && value == NULL) {
            if (++i == argc)
                return train_fail(err, ITER_EINVAL, "--%s: expected %s", row->name, wants);
            value = argv[i];
        }
        if (!store(row, program, value, out))
            return train_fail(err, ITER_EINVAL, "--%s: expected %s, got '%s'", row->name, wants,
                              value);
    }
    if (out->device == 0 &&
        (out->precision != 0 || out->algorithms != 0 || out->resident != 0 || out->finish != 0))
        return train_fail(err, ITER_EINVAL,
                          "--precision, --algorithms, --resident and --finish need --device cuda");
    if (out->device != 0 && out->backend == NULL) out->backend = "cuda";
    if (out->resume && out->checkpoint == NULL)
        return train_fail(err, ITER_EINVAL, "--resume needs --checkpoint");
    return ITER_OK;
}

void train_help(const train_program *program, FILE *out) {
    fprintf(out, "usage: %s [options]      %s\n\n", program->name, program->about);
    for (size_t i = 0; i < N_ROWS; i++) {
        char left[80], words[64];
        const char *value = words_of(&rows[i], program, words);
        snprintf(left, sizeof(left), "--%s %s", rows[i].name, value != NULL ? value : "");
        fprintf(out, "  %-30s %s", left, rows[i].help);
        if (rows[i].offset == AT(epochs)) fprintf(out, " (%u)", program->epochs);
        if (rows[i].offset == AT(batch)) fprintf(out, " (%" PRIu64 ")", batch_of(program));
        fputc('\n', out);
    }
    fputs("\nCtrl-C finishes the step, saves and prints the table; another one, at least a second "
          "later, ends the program at once.\n"
          "exit status: 0 done, 1 failed, 2 usage, 130 interrupted\n",
          out);
}
