/*
 * bench_options.h - the command line of iterbench.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include <iter/loader.h>
#include <iter/ranks.h>

/** The commands; an option names those that know it. */
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
    BENCH_REPORT = 1024,
    BENCH_VERIFY = 2048,
    BENCH_FETCH = 4096
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
    BENCH_LIMIT_CONVERT = 2,
    BENCH_LIMIT_SHUFFLED = 3
} bench_limit;

typedef enum bench_model {
    BENCH_MODEL_NONE = 0,
    BENCH_MODEL_CNN = 1,
    BENCH_MODEL_GRU = 2,
    BENCH_MODEL_MLP = 3
} bench_model;

typedef enum bench_consumer {
    BENCH_CONSUMER_TOUCH = 0, /* reads one byte of every cache line of every tensor */
    BENCH_CONSUMER_NONE = 1   /* gives the batch back untouched */
} bench_consumer;

#define BENCH_WORDS_MAX 4
#define BENCH_TEXTS_MAX 16

/** The values of an option that may be given several times. */
typedef struct bench_texts {
    int n;
    const char *at[BENCH_TEXTS_MAX];
} bench_texts;

/** What the command line asked for. Pointers are into argv. */
typedef struct bench_options {
    int32_t loader; /* bench_loader */
    const char *data;
    const char *chain;
    bench_texts plugins; /* shared objects to load */
    uint64_t batch;
    int64_t workers;
    int32_t source, shuffle, last_batch, on_error; /* the library's enums */
    const char *sampler;
    uint64_t prefetch, seed, memory, max_sample_bytes, max_failures;
    uint64_t ranks; /* loaders in this process; 1 with `job` */
    bool any_ranks; /* --ranks auto: as the launcher says */
    /* set by programs: this process is one rank of several, and `batch` is that of all of them;
     * NULL = it is alone */
    const iter_ranks *job;
    bool o_direct;
    bool ragged; /* rows of different lengths are delivered without padding */
    bool has_start;
    uint64_t start_epoch, start_sample;
    int32_t cache;   /* bench_cache_want */
    uint64_t epochs; /* 0 = by time */
    double seconds;  /* 0 = not given */
    const char *json;
    const char *html;     /* file of the report */
    const char *failures; /* file of the list of failed samples */
    bool verbose;         /* print every figure, not five lines */
    bool hash;
    const char *dump;
    uint64_t batches;
    int32_t limit;    /* bench_limit, of serve */
    bool decode;      /* of limits: photos, compared with libjpeg-turbo itself */
    int32_t consumer; /* bench_consumer */
    int32_t model;    /* bench_model */
    /* 0 = cpu, else ITER_DEVICE(n): batches go to that GPU, and the model is trained on it */
    int32_t device;
    bool any_device;               /* "cuda", without a number */
    int32_t finish, resident;      /* the library's enums; for a GPU */
    int32_t precision, algorithms; /* the engine's enums; for a trainer on a GPU */
    int32_t sweep;                 /* 1 = over loader settings */
    uint64_t max_held;   /* set by programs: batches held at once; 0 = the library's default */
    uint64_t threads;    /* of the trainer; 0 = cores less workers */
    double compute_ms;   /* of an emulated accelerator, per batch; 0 = none */
    int32_t wants;       /* the layout that it wants: 0 = any, 1 = nchw, 2 = nhwc */
    const char *restart; /* of verify: "AT:RANKS", "AT" or "none"; NULL = drawn */
    int32_t promise;     /* of verify: verify_promise */
    const char *fault;   /* of verify: a fault to plant */
    const char *plant;   /* a bottleneck to plant: KIND[:FACTOR] */
    const char *trace;   /* file for a second of both as Chrome/Perfetto events */
    bool prove;          /* apply the first change and measure again */
    uint64_t stall_ms;   /* report a batch that is stuck for so long; 0 = never */
    uint64_t turns;      /* set by programs: how often a layout is turned; 0 = once */
    /* set by programs: files are dropped from the page cache before each slice */
    bool cold_slices;
    bool only_reads;                   /* set by programs: the loader reads and decodes nothing */
    const iter_registry *registry;     /* set by programs: registry of formats and stages */
    const iter_source_ops *source_ops; /* set by programs: source of the bytes */
    iter_dataset *dataset;             /* set by programs: opened already; `data` names it */
    const char *a, *b;
    uint64_t pairs; /* kept pairs wanted */
    double slice_s; /* of versus; 0 = the default of measure.h */
    uint64_t starts;
    uint64_t n; /* of generate: records per file, or photos; 0 = the default */
    const char *words[BENCH_WORDS_MAX];
    int n_words; /* arguments that are not options */
} bench_options;

/**
 * Reads argv[first..argc) into `out`.
 *
 * Errors  EINVAL, with one line that names the argument, its fault, and the nearest known word. An
 *         option that is given twice is a fault, unless it is a list (--plugin).
 */
iter_status bench_options_parse(int argc, char **argv, int first, bench_command command,
                                bench_options *out, iter_error *err);

/** Checks what must hold for a run: a data set is given, and no two options exclude each other. */
iter_status bench_options_check(const bench_options *options, bench_command command,
                                iter_error *err);

/** Creates a registry with the tables of all --plugin files; the caller destroys it. Errors: those
 * of iter_plugin_load(), ENOMEM. */
iter_status bench_registry_create(const bench_options *options, iter_registry **out,
                                  iter_error *err);

/** Whether the run is diagnosed (it gets a verdict) instead of only measured. */
bool bench_options_diagnose(const bench_options *options);

/** The same run with its batches in host memory. */
bench_options bench_options_on_host(const bench_options *options);

/** The library's options for one rank. */
iter_loader_options bench_loader_options(const bench_options *options, uint32_t rank);

/** --data by iter_text_mask(), as it may be printed; NULL without it. In one static place for all
 * calls, so for one thread. */
const char *bench_data_text(const bench_options *options);

/** Opens --data under --memory, with the run's own formats. */
iter_status bench_dataset_open(const bench_options *options, iter_dataset **out, iter_error *err);

/** Values as words of the command line. */
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

/** Prints `iterbench --help` (BENCH_RUN) or `iterbench COMMAND --help`. */
void bench_options_help(bench_command command, FILE *out);

#endif
