/*
 * train_common_report.c - what a run shows while it trains, and its report.
 *
 * The share of waiting is the cost of feeding that the trainer sees: the part of an epoch's time
 * spent in iter_loader_next(). With workers it is the part of the loader's work that they could not
 * hide; without workers it is all of that work.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train_common.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* ---- While it trains ------------------------------------------------------------------------- */

void train_progress(FILE *out, const train_options *options, uint32_t epoch, uint64_t step,
                    uint64_t n_steps, const iter_result *so_far, double left) {
    static double shown; /* when the last line was shown */
    const bool terminal = isatty(fileno(out)) != 0;
    const double time = now();
    if (shown == 0) shown = terminal ? 0 : time;
    if (time - shown < (terminal ? 0.1 : 10.0)) return;
    shown = time;
    const double n = so_far->n_rows > 0 ? (double)so_far->n_rows : 1;
    char bar[24] = "";
    const int filled = n_steps > 0 ? (int)(20 * step / n_steps) : 0;
    for (int i = 0; terminal && i < 20; i++)
        bar[i] = i < filled ? '#' : '.';
    fprintf(out,
            "%sepoch %u/%" PRIu64 " %s%s%s%" PRIu64 "/%" PRIu64
            "  %.0f/s  loss %.4f  accuracy %.3f  waiting %.1f %%  %d:%02d left%s",
            terminal ? "\r" : "", epoch, options->epochs, terminal ? "[" : "", bar,
            terminal ? "] " : "", step, n_steps, share((double)so_far->n_rows, so_far->seconds),
            so_far->loss, (double)so_far->n_correct / n,
            100 * share(so_far->wait_seconds, so_far->seconds), (int)(left / 60), (int)left % 60,
            terminal ? "\033[K" : "\n");
    fflush(out);
}

static void put_accuracy(FILE *out, double value) {
    if (isnan(value))
        fprintf(out, "  %8s", "-");
    else
        fprintf(out, "  %8.4f", value);
}

void train_epoch_line(FILE *out, const train_options *options, const train_row *row) {
    fprintf(out, "%sepoch %u/%" PRIu64 ": loss %.4f, train accuracy %.4f, test accuracy ",
            isatty(fileno(out)) != 0 ? "\r\033[K" : "", row->epoch, options->epochs, row->loss,
            row->train_accuracy);
    if (isnan(row->test_accuracy))
        fputs("not measured", out);
    else
        fprintf(out, "%.4f", row->test_accuracy);
    if (!isnan(row->test_loss)) fprintf(out, ", test loss %.4f", row->test_loss);
    fprintf(out, ", %.1f s, %.1f %% of them waiting\n", row->seconds, 100 * row->wait_share);
    fflush(out);
}

/* ---- At the end ------------------------------------------------------------------------------ */

static void put_layout(FILE *out, const train_summary *sum) {
    const iter_trainer_info *trainer = &sum->trainer;
    if (trainer->n_converted == 0) return;
    fprintf(out,
            "layout: %" PRIu64 " batches were converted (%s), which took %.2f s, %.1f %% of "
            "the time\n",
            trainer->n_converted, trainer->convert_text, trainer->convert_seconds,
            100 * share(trainer->convert_seconds, sum->seconds));
}

/* Share of the time in which training did not wait for a batch. */
static double utilisation(const train_summary *sum) {
    return 1 - share(sum->wait_seconds, sum->seconds);
}

static const char *device_name(const train_options *options, char out[16]) {
    snprintf(out, 16, options->device == 0 ? "cpu" : "cuda:%u",
             (unsigned)(options->device - ITER_DEVICE(0)) % 1000);
    return out;
}

static void put_device(FILE *out, const train_summary *sum) {
    const train_options *options = sum->options;
    char device[16], precision[32], resident[32];
    if (options->device == 0) return;
    fprintf(out, "%s: %s, %s, resident %s; %.1f MB went there\n", device_name(options, device),
            sum->loader.device,
            train_word(train_choices("precision"), options->precision, precision),
            train_word(train_choices("resident"), options->resident, resident),
            (double)sum->loader.copied_bytes * 1e-6);
}

void train_table(FILE *out, const train_summary *sum, const train_row *rows, size_t n) {
    fprintf(out, "\nepoch   seconds   %9s      loss     train      test   waiting\n",
            sum->program->tokens ? "tokens/s" : "samples/s");
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%5u  %8.2f  %10.0f  %8.4f", rows[i].epoch, rows[i].seconds,
                share((double)rows[i].n_rows, rows[i].seconds), rows[i].loss);
        put_accuracy(out, rows[i].train_accuracy);
        put_accuracy(out, rows[i].test_accuracy);
        fprintf(out, "  %6.2f %%\n", 100 * rows[i].wait_share);
    }
    fprintf(out, "\n%s, %u thread%s; %s, %d worker%s\n", sum->trainer.backend, sum->trainer.threads,
            sum->trainer.threads == 1 ? "" : "s",
            sum->options->loader == 1 ? "NDArrayIter" : "DataLoader", sum->loader.n_workers,
            sum->loader.n_workers == 1 ? "" : "s");
    put_device(out, sum);
    if (sum->trainer.ranks > 1)
        fprintf(out, "%u ranks, %u micro-batches; rank 0 spent %.2f s, %.2f %%, with the others\n",
                sum->trainer.ranks, sum->trainer.micro_batches, sum->trainer.communicate_seconds,
                100 * share(sum->trainer.communicate_seconds, sum->seconds));
    fprintf(out, "cost of feeding: %.2f s of %.2f s, %.2f %%, were spent waiting for batches\n",
            sum->wait_seconds, sum->seconds, 100 * share(sum->wait_seconds, sum->seconds));
    fprintf(out, "utilisation: %.2f %% of the time there was a batch to train on\n",
            100 * utilisation(sum));
    put_layout(out, sum);
    if (sum->checkpoint_error[0] != '\0')
        fprintf(out, "the last checkpoint was NOT saved: %s\n", sum->checkpoint_error);
    if (sum->stopped != NULL) fprintf(out, "stopped early: %s\n", sum->stopped);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_text(FILE *out, const char *key, const char *text) {
    fprintf(out, "  \"%s\": \"", key);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputs("\",\n", out);
}

static const char *word_of(const char *flag, int32_t choice, char out[32]) {
    return train_word(train_choices(flag), choice, out);
}

/* Writes null if the value is not a number. */
static void put_number(FILE *out, const char *key, double value, const char *end) {
    if (isfinite(value))
        fprintf(out, "\"%s\": %.9g%s", key, value, end);
    else
        fprintf(out, "\"%s\": null%s", key, end);
}

static void put_buckets(FILE *out, const train_summary *sum) {
    fputs("\"buckets\": [", out);
    for (uint32_t i = 0; i < sum->n_buckets && i < 64; i++) {
        fprintf(out, "%s{\"bytes\": %" PRIu64 ", ", i > 0 ? ", " : "", sum->buckets[i].bytes);
        put_number(out, "lead_seconds", sum->buckets[i].lead_seconds, "}");
    }
    fputs("],\n  ", out);
}

static void put_json(FILE *out, const train_summary *sum, const train_row *rows, size_t n) {
    const train_options *options = sum->options;
    char device[16], word[32];
    fputs("{\n", out);
    put_text(out, "program", sum->program->name);
    put_text(out, "model",
             options->network != NULL ? options->network
                                      : sum->program->models[options->model].name);
    put_text(out, "data", sum->data);
    put_text(out, "loader", options->loader == 1 ? "ndarray" : "dataloader");
    put_text(out, "backend", sum->trainer.backend);
    put_text(out, "layout", sum->layout);
    put_text(out, "device", device_name(options, device));
    put_text(out, "device_name", sum->loader.device);
    put_text(out, "precision", word_of("precision", options->precision, word));
    put_text(out, "algorithms", word_of("algorithms", options->algorithms, word));
    put_text(out, "resident", word_of("resident", options->resident, word));
    put_text(out, "finish", word_of("finish", options->finish, word));
    put_text(out, "stopped", sum->stopped != NULL ? sum->stopped : "");
    put_text(out, "checkpoint_error", sum->checkpoint_error);
    fprintf(out,
            "  \"batch\": %" PRIu64
            ",\n  \"workers\": %d,\n  \"threads\": %u,\n  \"seed\": %" PRIu64
            ",\n  \"steps\": %" PRIu64 ",\n  \"converted_batches\": %" PRIu64 ",\n  ",
            options->batch, sum->loader.n_workers, sum->trainer.threads, options->seed,
            sum->trainer.n_steps, sum->trainer.n_converted);
    fprintf(out, "\"ranks\": %u,\n  \"micro_batches\": %u,\n  ", sum->trainer.ranks,
            sum->trainer.micro_batches);
    put_number(out, "communicate_seconds", sum->trainer.communicate_seconds, ",\n  ");
    put_number(out, "sum_seconds", sum->trainer.sum_seconds, ",\n  ");
    put_buckets(out, sum);
    put_number(out, "convert_seconds", sum->trainer.convert_seconds, ",\n  ");
    put_number(out, "seconds", sum->seconds, ",\n  ");
    put_number(out, "wait_share", share(sum->wait_seconds, sum->seconds), ",\n  ");
    put_number(out, "utilisation", utilisation(sum), ",\n  ");
    fprintf(out, "\"copied_bytes\": %" PRIu64 ",\n  ", sum->loader.copied_bytes);
    fputs("\"epochs\": [", out);
    double test_accuracy = NAN;
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s\n    {\"epoch\": %u, ", i > 0 ? "," : "", rows[i].epoch);
        fprintf(out, "\"rows\": %" PRIu64 ", ", rows[i].n_rows);
        put_number(out, "seconds", rows[i].seconds, ", ");
        put_number(out, "loss", rows[i].loss, ", ");
        put_number(out, "train_accuracy", rows[i].train_accuracy, ", ");
        put_number(out, "test_accuracy", rows[i].test_accuracy, ", ");
        put_number(out, "test_loss", rows[i].test_loss, ", ");
        put_number(out, "wait_share", rows[i].wait_share, "}");
        test_accuracy = rows[i].test_accuracy;
    }
    fprintf(out, "%s],\n  ", n > 0 ? "\n  " : "");
    put_number(out, "test_accuracy", test_accuracy, "\n}\n");
}

iter_status train_json(FILE *out, const train_summary *sum, const train_row *rows, size_t n,
                       iter_error *err) {
    struct stat info;
    const int fd = fileno(out);
    bool good =
        fstat(fd, &info) == 0 && (!S_ISREG(info.st_mode) || out == stdout || ftruncate(fd, 0) == 0);
    if (good) put_json(out, sum, rows, n);
    good = good && fflush(out) == 0 && !ferror(out);
    if (out != stdout && fclose(out) != 0) good = false;
    return good ? ITER_OK
                : train_fail(err, ITER_EIO, "%.300s: %s", sum->options->json, strerror(errno));
}
