/*
 * diagnose.h - a verdict for a training loop: what limits it, by how much, what to change. This is
 * a library of its own, iter::diagnose; <iter/iter.h> does not include it.
 *
 *     iter_diagnose *d;
 *     if (iter_diagnose_start(loader, NULL, &d, &err) < 0) die(err.message);
 *     train(loader);                       // the loop stays as it is
 *     iter_diagnosis v = ITER_DIAGNOSIS_INIT;
 *     if (iter_diagnose_read(d, &v, &err) == ITER_OK) print(v.text);
 *     iter_diagnose_stop(d);
 *
 * Or without a line of code: ITER_DIAGNOSE=1 ./train prints the verdict of each loader at its end,
 * and ITER_DIAGNOSE=FILE.html writes the report (see iter_diagnose_hook()).
 *
 * The watch is passive. It changes nothing and stops nothing: the time outside next() is the
 * consumer's; a thread of its own looks at the workers' stages 200 times a second; the kernel
 * counts CPU time and waits for a core. So the rate of the loop is measured, and so is the time
 * that it waits; the rates of loader and consumer alone are derived, and the gain of a change comes
 * from a model. iter_diagnose_prove() measures: afterwards, the loader alone.
 */
#ifndef ITER_DIAGNOSE_H
#define ITER_DIAGNOSE_H

#include <iter/loader.h>

ITER_BEGIN_DECLS

/** A watch of one loop. */
typedef struct iter_diagnose iter_diagnose;

/** What limits a loop. */
typedef enum iter_limit {
    ITER_LIMIT_NONE = 0,      /* no bottleneck that can be told */
    ITER_LIMIT_CONSUMER = 1,  /* the loop itself */
    ITER_LIMIT_READ = 2,      /* the loader reads */
    ITER_LIMIT_DECODE = 3,    /* decoding, get(), or copying rows */
    ITER_LIMIT_TRANSFORM = 4, /* the chain */
    ITER_LIMIT_WORKER = 5,    /* one worker is slow */
    ITER_LIMIT_WORKERS = 6,   /* there are too few of them, or none */
    ITER_LIMIT_PREFETCH = 7,  /* batches come unevenly, and too few are made ahead */
    ITER_LIMIT_LAYOUT = 8,    /* not found by a passive watch */
    ITER_LIMIT_BATCH = 9,     /* the batch is too small */
    ITER_LIMIT_CPU = 10,      /* loader and consumer take the cores from one another */
    ITER_LIMIT_COPY = 11,     /* the link to the GPU; not found by a passive watch */
    ITER_LIMIT_TURN = 12,     /* the dataset lets in one worker at a time */
    ITER_LIMIT_LOADER = 13    /* the loader; the inside of another's loader is unknown */
} iter_limit;

/** Options of a watch. Zero in any member means its default. */
typedef struct iter_diagnose_options {
    size_t struct_size; /* sizeof(iter_diagnose_options); ITER_DIAGNOSE_OPTIONS_INIT sets it */
    /* for texts and the report, copied; NULL = the dataset's name, or "the loader" */
    const char *name;
    /* iter_diagnose_start_loop() only: workers of that loader, as far as the caller knows; 0 = it
     * works in the loop's own thread, -1 = not known. The default 0 is -1 unless `knows_workers`
     * is 1. */
    int32_t workers, knows_workers;
    uint64_t batch_size; /* iter_diagnose_start_loop() only; 0 = the mean of n_samples */
} iter_diagnose_options;

#ifdef __cplusplus
static inline iter_diagnose_options iter_diagnose_options_init() {
    iter_diagnose_options options = iter_diagnose_options();
    options.struct_size = sizeof(options);
    return options;
}
#define ITER_DIAGNOSE_OPTIONS_INIT iter_diagnose_options_init()
#else
#define ITER_DIAGNOSE_OPTIONS_INIT \
    { .struct_size = sizeof(iter_diagnose_options) }
#endif

/** A change that the verdict proposes. Its gain is the model's, so it is "about". */
typedef struct iter_diagnose_change {
    char option[32]; /* the loader's option: "workers", "prefetch", "batch_size", "source" */
    char from[64], to[64];
    char advice[160]; /* the change as one writes it: "workers=2" */
    char text[480];   /* one line: the change, its gain, and what limits the loop then */
    double gain;      /* rate with it / rate without - 1 */
    double expected;  /* samples/s */
    int32_t next;     /* iter_limit after it */
} iter_diagnose_change;

#define ITER_DIAGNOSE_CHANGES 3

/** A verdict. Rates are samples a second; a figure that was not measured is NaN. Later versions add
 * members at the end. */
typedef struct iter_diagnosis {
    size_t struct_size;  /* sizeof(iter_diagnosis); ITER_DIAGNOSIS_INIT sets it */
    int32_t limit;       /* iter_limit */
    int32_t is_sure;     /* 1 = high confidence: the intervals exclude the second cause; 0 = low */
    char limit_text[16]; /* "consumer", "decode", ... */
    char stage[64];      /* where in the loader: "decode", "random-crop", "worker 1, blur"; or "" */
    /* part of the loop's time that the limit costs, 0 to 1; of a consumer that is the limit, its
     * own part */
    double share;
    double seconds;            /* from the end of the first next() to the end of the last */
    uint64_t batches, samples; /* delivered in that time */
    uint32_t n_slices;         /* of about half a second or more, from which intervals come */
    double wait_share;         /* part of the time that the loop spends in next() */
    double rate;               /* of the loop */
    double consumer_rate;      /* of the loop if next() took no time */
    double loader_rate;        /* of the loader if the loop took no time */
    /* part of the time that a thread of the loop was ready to run but had no core */
    double no_core_share;
    double cores_used; /* CPU seconds of the whole process for each second */
    int32_t n_changes;
    iter_diagnose_change changes[ITER_DIAGNOSE_CHANGES]; /* best first */
    char says[768];                                      /* the limit, in one or two sentences */
    char text[2048]; /* `says`, its evidence, and how sure it is; without a newline */
} iter_diagnosis;

#ifdef __cplusplus
static inline iter_diagnosis iter_diagnosis_init() {
    iter_diagnosis out = iter_diagnosis();
    out.struct_size = sizeof(out);
    return out;
}
#define ITER_DIAGNOSIS_INIT iter_diagnosis_init()
#else
#define ITER_DIAGNOSIS_INIT \
    { .struct_size = sizeof(iter_diagnosis) }
#endif

/** What a change gave when it was tried. Ratios are rate with it / rate without; low and high are
 * the ends of the 95 % interval, NaN if there were too few slices. */
typedef struct iter_diagnose_proof {
    size_t struct_size; /* sizeof(iter_diagnose_proof); ITER_DIAGNOSE_PROOF_INIT sets it */
    char advice[160];   /* the change: "workers=2"; "" = the verdict proposes none */
    uint32_t n_slices;
    double loader_rate;                     /* samples/s of the loader alone, as it is */
    double loader, loader_low, loader_high; /* of the loader alone: measured */
    double loop, loop_low, loop_high;       /* of the loop: the model's, from that measurement */
    char text[480];                         /* one line */
} iter_diagnose_proof;

#ifdef __cplusplus
static inline iter_diagnose_proof iter_diagnose_proof_init() {
    iter_diagnose_proof out = iter_diagnose_proof();
    out.struct_size = sizeof(out);
    return out;
}
#define ITER_DIAGNOSE_PROOF_INIT iter_diagnose_proof_init()
#else
#define ITER_DIAGNOSE_PROOF_INIT \
    { .struct_size = sizeof(iter_diagnose_proof) }
#endif

/**
 * Starts to watch a loader's loop. What happened before is not counted, nor is the first next(),
 * which waits for the pipeline to fill.
 *
 *   options  NULL = all defaults
 *
 * Ownership  takes a reference to the loader: its threads run until iter_diagnose_stop(), or
 *            iter_loader_stop(). *out belongs to the caller; it is NULL on failure.
 * Errors     EINVAL (options), ENOMEM, ESTATE (after fork).
 * Threads    any. One thread of its own looks at the loader; the loop pays nothing for it but the
 *            core's time, at most 1 %.
 */
ITER_API ITER_NODISCARD iter_status iter_diagnose_start(iter_loader *loader,
                                                        const iter_diagnose_options *options,
                                                        iter_diagnose **out, iter_error *err);

/**
 * Starts to watch a loop over any other loader. The loop says when it asks for a batch and when it
 * has one:
 *
 *     for (;;) {
 *         iter_diagnose_next_begin(d);
 *         const bool more = their_next(&batch);
 *         iter_diagnose_next_end(d, more ? batch.n_samples : 0);
 *         if (!more) break;
 *         train(&batch);
 *     }
 *
 * The verdict then says whether the loader limits the loop, and by how much: ITER_LIMIT_LOADER,
 * ITER_LIMIT_WORKERS (if options say that it has none), ITER_LIMIT_CPU, ITER_LIMIT_CONSUMER or
 * ITER_LIMIT_NONE. Nothing is known of its inside. There is no thread.
 *
 * Errors     EINVAL (options), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_diagnose_start_loop(const iter_diagnose_options *options,
                                                             iter_diagnose **out, iter_error *err);

/** The loop asks for a batch, and has it (n_samples > 0), or there is none (0: an epoch's end).
 * Calls from several threads count as one consumer's; an end without a begin counts nothing. They
 * do nothing for a watch that iter_diagnose_start() made. About 50 ns each. */
ITER_API void iter_diagnose_next_begin(iter_diagnose *d);
ITER_API void iter_diagnose_next_end(iter_diagnose *d, uint64_t n_samples);

/**
 * The verdict so far.
 *
 * After less than three seconds, or six slices, the confidence is low, and the text tells so.
 * Before the second batch limit is ITER_LIMIT_NONE and the text tells that nothing was seen.
 *
 * Errors     EINVAL (struct_size), ENOMEM.
 * Threads    any, at any time, also while the loop runs. It makes some system calls.
 */
ITER_API ITER_NODISCARD iter_status iter_diagnose_read(iter_diagnose *d, iter_diagnosis *out,
                                                       iter_error *err);

/**
 * Measures what the first proposed change gives: two more loaders over the same dataset and chain,
 * one with the change, take turns in short slices without a consumer. Call it after the loop: it
 * needs the cores, the memory of two more loaders, and `seconds` of time, after which it returns.
 *
 *   seconds  0 = 2
 *
 * Returns    OK; out->advice is "" if the verdict proposes no change that can be tried.
 * Errors     EINVAL (struct_size, seconds), EUNSUPPORTED (the dataset is a stream, or the loader is
 *            another's), and those of iter_dataloader_create() and iter_loader_next().
 * Threads    one at a time.
 */
ITER_API ITER_NODISCARD iter_status iter_diagnose_prove(iter_diagnose *d, double seconds,
                                                        iter_diagnose_proof *out, iter_error *err);

/** Writes the verdict, with the proof if there was one, as an HTML report: one file that draws
 * itself and needs no network. An existing file is replaced. Errors: EIO with path and reason,
 * ENOMEM. */
ITER_API ITER_NODISCARD iter_status iter_diagnose_html(iter_diagnose *d, const char *path,
                                                       iter_error *err);

/** Ends the watch and frees it; drops its reference to the loader. NULL is ignored. No other call
 * on `d` may run or follow. */
ITER_API void iter_diagnose_stop(iter_diagnose *d);

/** "none", "consumer", "read", ...; "?" if there is no such limit. */
ITER_API const char *iter_limit_text(int32_t limit);

/**
 * What ITER_DIAGNOSE does. libiter calls it when a loader was created (ends 0), and before its
 * threads stop (ends 1), if the environment has ITER_DIAGNOSE:
 *
 *   ITER_DIAGNOSE=1          a paragraph on standard error for each loader that delivered at least
 *                            20 batches, when its last reference is dropped or the program exits
 *   ITER_DIAGNOSE=FILE.html  the report, and one line on standard error that names it. A second
 *                            loader's report is FILE.2.html; with ranks, FILE.rank1.html.
 *   ITER_DIAGNOSE=0, or ""   nothing
 *
 * libiter does not contain the judge. It finds this function if the program is linked with
 * iter::diagnose (a static build needs that), else in libiter_diagnose.so beside libiter.so, else
 * where the system looks for libraries. If it finds none, the loader's statistics note it as a
 * fallback. Programs need not call it.
 */
ITER_API void iter_diagnose_hook(iter_loader *loader, int32_t ends);

ITER_END_DECLS

#endif
