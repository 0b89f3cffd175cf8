/*
 * train_common.h - shared by train_mnist, train_cifar, train_imdb and train_lm: flags, data, the
 * run, the report. Each program is a network, its settings and a line of data.
 *
 *     train_common.c         the run: open, resume, train, evaluate, save
 *     train_common_data.c    finds the samples, and makes arrays of them
 *     train_common_files.c   makes a small set in the real set's format, if the real one is missing
 *     train_common_flags.c   the command line
 *     train_common_ranks.c   several processes that train together
 *     train_common_report.c  progress, table, JSON
 */
#ifndef TRAIN_COMMON_H
#define TRAIN_COMMON_H

#include <stdbool.h>
#include <stdio.h>

#include <iter/engine.h>
#include <iter/iter.h>
#include <iter/ranks.h>

#define TRAIN_PATH_MAX 4096

/** A network and how it is trained; `models[i].text` is what iter_model_parse() reads. */
typedef struct train_program {
    const char *name, *about;
    struct {
        const char *name, *text;
    } models[3]; /* the first is the default; the list ends with a NULL name */
    const char *optimizer;
    uint32_t epochs;
    uint64_t batch;     /* 0 = 64 */
    const char *format; /* "cifar10" */
    /* Instead of a format: the spec, with the folder and the split for its two %s. Splits are then
     * separate files, so that --data alone has no test split. NULL = none. */
    const char *spec;
    bool tokens;         /* rows that count are tokens */
    const char *folder;  /* folder of the real set, below $ITER_DATA or ./data */
    const char *layouts; /* values of --layout: "nchw|nhwc" */
    /* The chain for each layout, in the same order. */
    const char *chains[2];
    /* Writes the generated set into an empty folder; returns false, with errno set, if it
     * cannot. */
    bool (*generate)(const char *folder);
} train_program;

/** The command line. */
typedef struct train_options {
    int32_t loader;        /* 0 dataloader, 1 ndarray */
    int32_t model, layout; /* indices into the program's lists; layout -1 = the model's own */
    /* 0 = cpu, else ITER_DEVICE(n): batches go to that GPU, which also trains. */
    int32_t device;
    int32_t finish, resident, precision, algorithms; /* the libraries' enums; for a GPU only */
    bool any_device;                                 /* --device cuda, without a number */
    int32_t ranks;                                   /* 0 = as the launcher says, 1 = no others */
    int64_t workers;
    uint64_t micro_batches; /* 0 = ranks, rounded up to a power of two */
    uint64_t bucket_bytes;  /* 0 = the trainer's */
    uint64_t timeout;       /* seconds to wait for other ranks; 0 = the library's */
    uint64_t epochs, batch, seed, threads, limit_steps;
    const char *data, *test, *network, *backend, *checkpoint, *json;
    bool resume, help;
} train_options;

/** One finished or interrupted epoch. */
typedef struct train_row {
    uint32_t epoch; /* counted from 1 */
    uint64_t n_rows;
    double seconds, loss, train_accuracy, wait_share;
    double test_accuracy, test_loss; /* NAN if it was not evaluated */
} train_row;

/** What the report contains besides the rows. */
typedef struct train_summary {
    const train_program *program;
    const train_options *options;
    const char *data; /* the spec that was opened */
    const char *layout;
    const char *stopped;        /* why the run ended early, or NULL */
    char checkpoint_error[512]; /* of the last save, or "" */
    iter_trainer_info trainer;
    iter_bucket_stats buckets[64];
    uint32_t n_buckets;       /* of which the first 64 are known */
    iter_loader_stats loader; /* of the training split */
    double seconds, wait_seconds;
} train_summary;

/** Does all of main(); returns the exit status: 0 done, 1 failed, 2 usage, 130 interrupted. */
int train_main(int argc, char **argv, const train_program *program);

/* ---- Flags ----------------------------------------------------------------------------------- */

/** Reads the command line; an error names the argument. */
iter_status train_flags(int argc, char **argv, const train_program *program, train_options *out,
                        iter_error *err);
void train_help(const train_program *program, FILE *out);

/** The values of a flag that is a choice, "f32|tf32|f16"; NULL for any other flag. */
const char *train_choices(const char *flag);

/** The i-th word of "a|b" in out[32], or "". */
const char *train_word(const char *words, int32_t i, char out[32]);

/* ---- Data ------------------------------------------------------------------------------------ */

/** Finds the specs of the two splits, test "" = none: --data and --test if given; else the real set
 * in $ITER_DATA or ./data; else a set that is generated into a new folder, whose name is stored in
 * generated[] ("" = none). */
iter_status train_find_data(const train_program *program, const train_options *options,
                            char train[TRAIN_PATH_MAX], char test[TRAIN_PATH_MAX],
                            char generated[TRAIN_PATH_MAX], iter_error *err);

/** Opens a loader of the kind that the options name, of this rank's share. */
iter_status train_open_loader(const train_options *options, const iter_communicator *comm,
                              const char *spec, iter_chain *chain, bool training, iter_loader **out,
                              iter_error *err);

/** Removes the generated folder. */
void train_remove_data(const char *generated);

/** Write small sets in the formats of the real ones; their classes can be learned. */
bool train_generate_cifar(const char *folder);
bool train_generate_mnist(const char *folder);
bool train_generate_imdb(const char *folder);
bool train_generate_documents(const char *folder);

/* ---- Several ranks --------------------------------------------------------------------------- */

/** Finds the other ranks; with --device cuda, the GPU is that of the local rank. */
iter_status train_join(train_options *options, iter_communicator **out, iter_error *err);

/** Called by all ranks: returns the error of the first one that has one, with its number. */
iter_status train_agree(iter_communicator *comm, iter_status status, iter_error *err);

/** Called by all ranks: the least and the largest value of all. */
iter_status train_most(iter_communicator *comm, int value, int *out_least, int *out_most,
                       iter_error *err);

/** Closes the communicator; a rank that failed ends all others. */
void train_leave(iter_communicator *comm, bool failed);

/** --micro-batches, or its default; 0 = none. */
uint64_t train_micro_batches(const train_options *options, uint32_t ranks);

/* ---- Report ---------------------------------------------------------------------------------- */

/** Shows progress: on a terminal one line, rewritten; else a line every ten seconds. `left` =
 * seconds until the end of training. */
void train_progress(FILE *out, const train_options *options, uint32_t epoch, uint64_t step,
                    uint64_t n_steps, const iter_result *so_far, double left);
void train_epoch_line(FILE *out, const train_options *options, const train_row *row);
void train_table(FILE *out, const train_summary *summary, const train_row *rows, size_t n);
/** Writes the results to `out` and closes it. If `out` is a file, replaces its content. */
iter_status train_json(FILE *out, const train_summary *summary, const train_row *rows, size_t n,
                       iter_error *err);

/** Formats a message into err as printf would; returns the status. */
iter_status train_fail(iter_error *err, iter_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
