/*
 * train_common.c - one run: open, resume, train and evaluate epoch by epoch, save, report.
 *
 * A checkpoint is one file in the folder of --checkpoint. It is replaced after every epoch, when a
 * run is interrupted, and at the end. It includes the position within the epoch, so a resumed run
 * continues where the last one stopped, with the very next batch. Only the losses and counts of the
 * first part of that epoch are not saved.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train_common.h"

typedef struct run {
    const train_program *program;
    train_options options;
    train_summary summary;
    FILE *out;  /* for people */
    FILE *json; /* NULL = not requested */
    char train_spec[TRAIN_PATH_MAX], test_spec[TRAIN_PATH_MAX], generated[TRAIN_PATH_MAX];
    char checkpoint[TRAIN_PATH_MAX];
    char layout[32];
    iter_communicator *comm;
    iter_model *model;
    iter_chain *chain;
    iter_loader *train, *test;
    iter_trainer *trainer;
    uint64_t n_steps;     /* of this run */
    uint64_t epoch_first; /* the epoch's step at which this run began it */
    uint64_t epoch_steps; /* steps of a whole epoch */
    uint32_t epoch;       /* counted from 0 */
    int signal;           /* what interrupts this run, on all ranks; 0 = nothing */
    train_row *rows;
    size_t n_rows;
} run;

static volatile sig_atomic_t interrupted;
static volatile double interrupted_at;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The first signal asks the run to end; a later one ends it at once. A signal within a second after
 * the first counts as the same one, because timeout(1) signals both the program and its group. */
static void on_signal(int number) {
    if (interrupted != 0 && now() - interrupted_at > 1) _exit(128 + number);
    if (interrupted == 0) interrupted_at = now();
    interrupted = number;
}

/* Ignores SIGXFSZ: if a quota is full, write() fails instead of ending the program. */
static void set_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

/* While they wait for work, OpenMP's threads spin and take the cores from the loader's workers. The
 * variable that prevents this is read when the program is loaded, so the program runs itself
 * again. */
static void wait_passively(char **argv) {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 0); /* ITER_ALGORITHMS_DETERMINISTIC */
    if (getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv("/proc/self/exe", argv);
}

/* ---- Open ------------------------------------------------------------------------------------ */

static iter_status open_model(run *r, iter_error *err) {
    const char *text =
        r->options.network != NULL ? r->options.network : r->program->models[r->options.model].text;
    iter_status s = iter_model_parse(text, &r->model, err);
    if (s < 0) return s;
    /* Uses the layout that the model needs no conversion for, unless the user chose another one. */
    const char *layouts = r->program->layouts;
    int32_t layout = r->options.layout;
    if (layout < 0) {
        char second[32];
        train_word(layouts, 1, second);
        const char *wanted = iter_model_layout(r->model, r->options.backend, r->options.precision);
        layout = strcmp(wanted, second) == 0 ? 1 : 0;
    }
    train_word(layouts, layout, r->layout);
    return iter_chain_parse(r->program->chains[layout], NULL, &r->chain, err);
}

static iter_status open_trainer(run *r, iter_error *err) {
    iter_trainer_options opt = ITER_TRAINER_OPTIONS_INIT;
    opt.backend = r->options.backend;
    opt.optimizer = r->program->optimizer;
    opt.threads = (uint32_t)r->options.threads; /* 0: cores minus workers */
    opt.seed = r->options.seed;
    opt.precision = r->options.precision;
    opt.algorithms = r->options.algorithms;
    opt.device = r->options.device;
    opt.communicator = r->comm;
    opt.bucket_bytes = r->options.bucket_bytes;
    return iter_trainer_create(r->model, r->train, &opt, &r->trainer, err);
}

/* Opens the outputs before training, so that a bad path fails early; makes the folder of
 * checkpoints. */
static iter_status open_outputs(run *r, iter_error *err) {
    const char *folder = r->options.checkpoint, *json = r->options.json;
    if (json != NULL && r->json == NULL && iter_communicator_rank(r->comm) == 0) {
        const int fd = open(json, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        /* the old content stays until the new results are ready */
        if (fd >= 0) r->json = fdopen(fd, "w");
        if (r->json == NULL) return train_fail(err, ITER_EIO, "%.300s: %s", json, strerror(errno));
    }
    if (folder == NULL) return ITER_OK;
    if (snprintf(r->checkpoint, sizeof(r->checkpoint), "%s/%s.safetensors", folder,
                 r->program->name) >= (int)sizeof(r->checkpoint))
        return train_fail(err, ITER_EINVAL, "--checkpoint: the path is too long");
    char inside[TRAIN_PATH_MAX + 2];
    snprintf(inside, sizeof(inside), "%s/.", folder);
    if ((mkdir(folder, 0755) < 0 && errno != EEXIST) || access(inside, W_OK | X_OK) < 0)
        return train_fail(err, ITER_EIO, "%.300s: cannot be used as the folder for checkpoints: %s",
                          folder, strerror(errno));
    return ITER_OK;
}

/* Looks for the checkpoint before anything is planned, because the run's micro-batches are the
 * checkpoint's unless the user chose others. */
static iter_status find_checkpoint(run *r, iter_error *err) {
    iter_checkpoint_info info;
    int least, most;
    if (!r->options.resume) return ITER_OK;
    const bool is_new = access(r->checkpoint, F_OK) < 0 && errno == ENOENT;
    iter_status s = train_most(r->comm, is_new, &least, &most, err);
    if (s < 0) return s;
    if (least != most)
        return train_fail(err, ITER_EIO, "%.300s: %s on this rank, but not on all of them",
                          r->checkpoint, is_new ? "does not exist" : "exists");
    if (is_new) {
        fprintf(r->out, "%s: does not exist yet, so the run starts from the beginning\n",
                r->checkpoint);
        r->options.resume = false;
        return ITER_OK;
    }
    s = iter_checkpoint_read(r->checkpoint, &info, err);
    if (s >= 0 && r->options.micro_batches == 0 && info.micro_batches > 1)
        r->options.micro_batches = info.micro_batches;
    return s;
}

static iter_status resume(run *r, iter_error *err) {
    if (!r->options.resume) return ITER_OK;
    iter_status s = iter_trainer_load(r->trainer, r->train, r->checkpoint, err);
    if (s < 0) return s;
    uint32_t epoch;
    uint64_t samples;
    iter_loader_position(r->train, &epoch, &samples);
    fprintf(r->out, "resumed from %s: epoch %u, sample %" PRIu64 ", after %" PRIu64 " steps\n",
            r->checkpoint, epoch + 1, samples, iter_trainer_describe(r->trainer).n_steps);
    return ITER_OK;
}

/* What a rank can do without the others. */
static iter_status open_own(run *r, iter_error *err) {
    r->rows = calloc(r->options.epochs, sizeof(*r->rows));
    if (r->rows == NULL) return train_fail(err, ITER_ENOMEM, "no memory for the table");
    iter_status s = train_agree(r->comm, open_outputs(r, err), err);
    if (s == ITER_OK) s = find_checkpoint(r, err);
    if (s == ITER_OK) s = open_model(r, err);
    if (s == ITER_OK)
        s = train_find_data(r->program, &r->options, r->train_spec, r->test_spec, r->generated,
                            err);
    if (s < 0) return s;
    fprintf(r->out, "%s", r->train_spec);
    if (r->generated[0] != '\0')
        fprintf(r->out, ": generated, neither $ITER_DATA nor ./data has %s", r->program->folder);
    fprintf(r->out, "\n");
    s = train_open_loader(&r->options, r->comm, r->train_spec, r->chain, true, &r->train, err);
    if (s == ITER_OK && r->test_spec[0] != '\0')
        s = train_open_loader(&r->options, r->comm, r->test_spec, r->chain, false, &r->test, err);
    return s;
}

static iter_status open_run(run *r, iter_error *err) {
    iter_status s = train_agree(r->comm, open_own(r, err), err);
    if (s == ITER_OK) s = open_trainer(r, err);
    if (s < 0) return s;
    fprintf(r->out, "%s", iter_trainer_plan_text(r->trainer));
    fflush(r->out);
    return resume(r, err);
}

static void close_run(run *r) {
    iter_trainer_destroy(r->trainer);
    iter_loader_unref(r->train);
    iter_loader_unref(r->test);
    iter_chain_unref(r->chain);
    iter_model_unref(r->model);
    train_remove_data(r->generated);
    if (r->json != NULL && r->json != stdout) fclose(r->json);
    if (r->out != NULL && r->out != stdout && r->out != stderr) fclose(r->out);
    free(r->rows);
}

/* ---- Train ----------------------------------------------------------------------------------- */

/* Reports a failed save but continues: the last good checkpoint still exists. */
static void save(run *r) {
    iter_error err;
    if (r->options.checkpoint == NULL) return;
    char *said = r->summary.checkpoint_error;
    const bool good = iter_trainer_save(r->trainer, r->train, r->checkpoint, &err) == ITER_OK;
    snprintf(said, sizeof(r->summary.checkpoint_error), "%s", good ? "" : err.message);
    if (!good && iter_communicator_rank(r->comm) == 0)
        fprintf(stderr, "%s: not saved: %s; training goes on\n", r->program->name, err.message);
}

/* Called after every step: shows progress, and returns whether to continue. */
static bool look(void *user, const iter_result *so_far) {
    run *r = user;
    r->n_steps++;
    const uint64_t step = r->epoch_first + so_far->n_steps;
    const double one = so_far->seconds / (double)so_far->n_steps;
    double left = (double)(r->options.epochs - r->epoch) * (double)r->epoch_steps - (double)step;
    if (r->options.limit_steps > 0 && left > (double)(r->options.limit_steps - r->n_steps))
        left = (double)(r->options.limit_steps - r->n_steps);
    train_progress(r->out, &r->options, r->epoch + 1, step, r->epoch_steps, so_far, left * one);
    return interrupted == 0 && r->n_steps != r->options.limit_steps;
}

/* A signal that one rank got interrupts all. */
static iter_status notice_signals(run *r, iter_error *err) {
    int least;
    return train_most(r->comm, interrupted, &least, &r->signal, err);
}

/* Evaluates the test split batch by batch, so that it can be interrupted. */
static iter_status evaluate(run *r, train_row *out, iter_error *err) {
    iter_batch *batch;
    iter_status s;
    uint64_t n = 0, n_correct = 0;
    double loss = 0;
    out->test_accuracy = out->test_loss = NAN;
    if (r->test == NULL) return ITER_OK;
    while ((s = iter_loader_next(r->test, &batch, err)) == ITER_OK) {
        iter_result result;
        s = iter_trainer_test(r->trainer, batch, &result, err);
        iter_batch_unref(batch);
        if (s >= 0) s = notice_signals(r, err);
        if (s < 0 || r->signal != 0) break;
        n += result.n_rows;
        n_correct += result.n_correct;
        loss += result.loss * (double)result.n_rows;
    }
    if (s < 0 || r->signal != 0) return s;
    if (n > 0) {
        out->test_accuracy = (double)n_correct / (double)n;
        out->test_loss = loss / (double)n;
    }
    return iter_loader_reset(r->test, err);
}

static void begin_epoch(run *r) {
    uint64_t samples;
    iter_loader_position(r->train, &r->epoch, &samples);
    r->epoch_steps = iter_loader_n_batches(r->train);
    r->epoch_first = samples / r->options.batch;
}

/* Runs one epoch or the rest of it, and adds a row to the table. Returns END if the run must
 * stop. */
static iter_status one_epoch(run *r, iter_error *err) {
    iter_result result = {0};
    const iter_status end = iter_trainer_epoch(r->trainer, r->train, look, r, &result, err);
    if (end < 0) return end;
    /* it was resumed at the end of the epoch */
    if (result.n_steps == 0) return iter_loader_reset(r->train, err);
    train_row *row = &r->rows[r->n_rows++];
    const double n = result.n_rows > 0 ? (double)result.n_rows : 1;
    *row = (train_row){r->epoch + 1,
                       result.n_rows,
                       result.seconds,
                       result.loss,
                       (double)result.n_correct / n,
                       result.seconds > 0 ? result.wait_seconds / result.seconds : 0,
                       NAN,
                       NAN};
    r->summary.seconds += result.seconds;
    r->summary.wait_seconds += result.wait_seconds;
    iter_status s = notice_signals(r, err);
    if (s >= 0 && end == ITER_OK) s = iter_loader_reset(r->train, err);
    /* save at once: the user waits for the program to end */
    if (s >= 0 && r->signal != 0) save(r);
    if (s >= 0 && r->signal == 0) {
        s = evaluate(r, row, err);
        if (s >= 0) save(r);
    }
    if (s < 0) return s;
    train_epoch_line(r->out, &r->options, row);
    if (r->signal != 0)
        r->summary.stopped = r->signal == SIGINT ? "SIGINT" : "SIGTERM";
    else if (r->n_steps == r->options.limit_steps)
        r->summary.stopped = "--limit-steps";
    return r->summary.stopped != NULL ? ITER_END : ITER_OK;
}

static iter_status train(run *r, iter_error *err) {
    iter_status s = ITER_OK;
    for (begin_epoch(r); s == ITER_OK && r->epoch < r->options.epochs; begin_epoch(r))
        s = one_epoch(r, err);
    if (s == ITER_OK && r->n_rows == 0) {
        train_row *row = &r->rows[r->n_rows++];
        *row = (train_row){.epoch = r->epoch, .loss = NAN, .train_accuracy = NAN};
        fprintf(r->out, "all %" PRIu64 " epochs are done\n", r->options.epochs);
        s = evaluate(r, row, err);
    }
    return s;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static iter_status report(run *r, iter_error *err) {
    train_summary *sum = &r->summary;
    sum->loader.struct_size = sizeof(sum->loader);
    iter_status s = iter_loader_stats_read(r->train, &sum->loader, err);
    if (s < 0) return s;
    sum->program = r->program;
    sum->options = &r->options;
    sum->data = r->train_spec;
    sum->layout = r->layout;
    sum->trainer = iter_trainer_describe(r->trainer);
    sum->n_buckets = iter_trainer_buckets(r->trainer, sum->buckets, 64);
    if (r->n_rows > 0) train_table(r->out, sum, r->rows, r->n_rows);
    FILE *json = r->json;
    r->json = NULL; /* it will be closed */
    return json != NULL ? train_json(json, sum, r->rows, r->n_rows, err) : ITER_OK;
}

/* Rank 0 speaks for all ranks. With --json -, results go to stdout and the rest to stderr. */
static iter_status open_streams(run *r, iter_error *err) {
    const bool speaks = iter_communicator_rank(r->comm) == 0;
    if (speaks && r->options.json != NULL && strcmp(r->options.json, "-") == 0) r->json = stdout;
    r->out = r->json == stdout ? stderr : stdout;
    if (speaks) return ITER_OK;
    r->out = fopen("/dev/null", "w");
    return r->out != NULL ? ITER_OK : train_fail(err, ITER_EIO, "/dev/null: %s", strerror(errno));
}

int train_main(int argc, char **argv, const train_program *program) {
    iter_error err = {ITER_OK, ""};
    wait_passively(argv);
    run *r = calloc(1, sizeof(*r));
    if (r == NULL) return 1;
    r->program = program;
    if (train_flags(argc, argv, program, &r->options, &err) < 0) {
        fprintf(stderr, "%s: %s (--help)\n", program->name, err.message);
        free(r);
        return 2;
    }
    if (r->options.help) {
        train_help(program, stdout);
        free(r);
        return 0;
    }
    set_signals();
    iter_status s = train_join(&r->options, &r->comm, &err);
    if (s >= 0) s = open_streams(r, &err);
    if (s >= 0) s = open_run(r, &err);
    const bool opened = s >= 0;
    if (opened) s = train(r, &err);
    if (s < 0) {
        if (r->out) fflush(r->out);
        const bool behind_progress = opened && isatty(fileno(r->out)) != 0;
        fprintf(stderr, "%s%s: %s\n", behind_progress ? "\n" : "", program->name, err.message);
    }
    const bool failed = s < 0;
    if (opened && report(r, &err) < 0) {
        fprintf(stderr, "%s: %s\n", program->name, err.message);
        s = ITER_EIO;
    }
    if (r->summary.checkpoint_error[0] != '\0') s = ITER_EIO;
    const int exit_status = s < 0 ? 1 : r->signal != 0 ? 130 : 0;
    iter_communicator *comm = r->comm;
    close_run(r);
    free(r);
    train_leave(comm, failed);
    return exit_status;
}
