/*
 * bench_options.h - the command line of iterbench, read by one table.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include <iter/loader.h>

/** Which commands know an option. */
typedef enum bench_command {
    BENCH_RUN = 1,
    BENCH_LIST = 2,
    BENCH_PLAN = 4,
    BENCH_LIMITS = 8,
    BENCH_COMPARE = 16,
    BENCH_GENERATE = 32,
    BENCH_SERVE = 64,
    BENCH_VERSUS = 128,
    BENCH_DOCTOR = 256,
    BENCH_REPORT = 1024
} bench_command;

typedef enum bench_loader { BENCH_BOTH = 0, BENCH_NDARRAY = 1, BENCH_DATALOADER = 2 } bench_loader;
typedef enum bench_cache_want {
    BENCH_CACHE_ASIS = 0,
    BENCH_CACHE_HOT = 1,
    BENCH_CACHE_COLD = 2
} bench_cache_want;
typedef enum bench_limit {
    BENCH_LIMIT_NONE = 0,
    BENCH_LIMIT_ORDERED = 1,
    BENCH_LIMIT_CONVERT = 2
} bench_limit;

typedef enum bench_model {
    BENCH_MODEL_NONE = 0,
    BENCH_MODEL_CNN = 1,
    BENCH_MODEL_GRU = 2,
    BENCH_MODEL_MLP = 3
} bench_model;

typedef enum bench_consumer {
    BENCH_CONSUMER_TOUCH = 0, /* reads one byte of every cache line of every tensor */
    BENCH_CONSUMER_NONE = 1   /* gives the batch back as it came */
} bench_consumer;

#define BENCH_WORDS_MAX 4
#define BENCH_TEXTS_MAX 16

/** The values of an option that may be given several times. */
typedef struct bench_texts {
    int n;
    const char *at[BENCH_TEXTS_MAX];
} bench_texts;

/** What was asked for; pointers are into argv. */
typedef struct bench_options {
    int32_t loader; /* bench_loader */
    const char *data;
    const char *chain;
    bench_texts plugins; /* shared objects to load */
    uint64_t batch;
    int64_t workers;
    int32_t source, shuffle, last_batch, on_error; /* the library's enums */
    const char *sampler;
    uint64_t prefetch, ranks, seed, memory, max_sample_bytes, max_failures;
    bool o_direct;
    bool ragged; /* rows of different lengths are delivered as they are */
    bool has_start;
    uint64_t start_epoch, start_sample;
    int32_t cache;   /* bench_cache_want */
    uint64_t epochs; /* 0 = by time */
    double seconds;  /* 0 = not given */
    const char *json;
    const char *html;     /* where the report goes */
    const char *failures; /* where the list of failed samples goes */
    bool verbose;         /* every figure, not the five lines */
    bool hash;
    const char *dump;
    uint64_t batches;
    int32_t limit;    /* bench_limit, of serve */
    bool decode;      /* of limits: photos, against libjpeg-turbo itself */
    int32_t consumer; /* bench_consumer */
    int32_t model;    /* bench_model */
    int32_t
        device; /* 0 = cpu, else ITER_DEVICE(n): batches go to that GPU, and are trained there */
    int32_t finish, resident;      /* the library's enums; with a GPU */
    int32_t precision, algorithms; /* of a trainer on a GPU, the engine's enums */
    int32_t sweep;                 /* 1 = over loader settings */
    uint64_t max_held; /* set by programs: batches held at once; 0 = the library's default */
    uint64_t threads;  /* of the trainer; 0 = cores less workers */
    double compute_ms; /* of an emulated accelerator, a batch; 0 = none */
    int32_t wants;     /* the layout it wants: 0 = any, 1 = nchw, 2 = nhwc */
    const char *plant; /* a bottleneck to plant: KIND[:FACTOR] */
    const char *trace; /* a second of both as Chrome/Perfetto events */
    bool prove;        /* apply the first change and measure again */
    uint64_t stall_ms; /* say where a batch is stuck that does not come for so long; 0 = never */
    uint64_t turns;    /* set by programs: times that a layout is turned; 0 = once */
    bool cold_slices; /* set by programs: files are dropped from the page cache before each slice */
    bool only_reads;  /* set by programs: the loader reads and makes nothing */
    const iter_registry *registry;     /* set by programs: where formats and stages are looked up */
    const iter_source_ops *source_ops; /* set by programs: bytes come from here */
    iter_dataset *dataset;             /* set by programs: opened already; `data` names it */
    const char *a, *b;
    uint64_t pairs; /* kept pairs wanted */
    double slice_s; /* of versus; 0 = as measure.h has it */
    uint64_t n;     /* of generate: records a file, or photos; 0 = the default */
    const char *words[BENCH_WORDS_MAX];
    int n_words; /* arguments that are no options */
} bench_options;

/**
 * Reads argv[first..argc) into `out`.
 *
 * Errors  EINVAL with one line that says which argument and what is wrong with it, and which known
 *         word is near. An option that stands twice is wrong, unless it is a list (--plugin).
 */
iter_status bench_options_parse(int argc, char **argv, int first, bench_command command,
                                bench_options *out, iter_error *err);

/** Checks what only holds for a run: data given, things that exclude one another. */
iter_status bench_options_check(const bench_options *options, bench_command command,
                                iter_error *err);

/** A registry with the tables of all --plugin files; the caller destroys it. Errors: as
 * iter_plugin_load(), ENOMEM. */
iter_status bench_registry_create(const bench_options *options, iter_registry **out,
                                  iter_error *err);

/** Whether the run is taken apart (a verdict), instead of only measured. */
bool bench_options_diagnose(const bench_options *options);

/** The same run with its batches in host memory. */
bench_options bench_options_on_host(const bench_options *options);

/** The library's options for one rank. */
iter_loader_options bench_loader_options(const bench_options *options, uint32_t rank);

/** Opens --data under --memory, with the run's own formats. */
iter_status bench_dataset_open(const bench_options *options, iter_dataset **out, iter_error *err);

/** Words as they stand on the command line. */
const char *bench_model_text(int32_t model);
/** "cpu", "cuda:0". */
const char *bench_device_text(int32_t device, char out[16]);
const char *bench_finish_text(int32_t finish);
const char *bench_resident_text(int32_t resident);
const char *bench_precision_text(int32_t precision);
const char *bench_algorithms_text(int32_t algorithms);
const char *bench_source_text(int32_t source);
const char *bench_shuffle_text(int32_t shuffle);
const char *bench_last_batch_text(int32_t last_batch);
const char *bench_on_error_text(int32_t on_error);

/** Writes what `iterbench --help` (BENCH_RUN) or `iterbench COMMAND --help` prints. */
void bench_options_help(bench_command command, FILE *out);

#endif
