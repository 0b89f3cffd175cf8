/*
 * bench_option_rows.c - every command and option of iterbench: name, kind, field, bounds, the
 * commands that know it, and one line of help.
 */
#include "bench/common/bench_option_rows.h"

#include <assert.h>

#define DEVICES_MAX 64
#define AT(field)   offsetof(bench_options, field)
#define MEASURES    (BENCH_RUN | BENCH_PLAN | BENCH_LIMITS | BENCH_SERVE)
#define LOADS       (MEASURES | BENCH_VERIFY)
#define RUNS        (BENCH_RUN | BENCH_SERVE)

const option_row bench_option_rows[] = {
    {"loader", CHOICE, AT(loader), "ndarray|dataloader", 1, 0, 0, RUNS | BENCH_PLAN,
     "which loader to use; without it a run measures both in turns"},
    {"data", TEXT, AT(data), "SPEC", 0, 0, 0, LOADS | BENCH_DOCTOR | BENCH_FETCH,
     "dataset, as format:path?key=value"},
    {"chain", TEXT, AT(chain), "STAGES", 0, 0, 0, LOADS, "what happens to a sample (nothing)"},
    {"plugin", TEXTS, AT(plugins), "FILE", 0, 0, 0,
     LOADS | BENCH_LIST | BENCH_DOCTOR | BENCH_COMPARE | BENCH_REPORT | BENCH_GENERATE |
         BENCH_VERSUS | BENCH_FETCH,
     "load formats, stages, samplers and decoders from this shared object; may be given several "
     "times"},
    {"batch", COUNT, AT(batch), "N", 0, 1, UINT32_MAX, LOADS, "samples a batch and rank (64)"},
    {"workers", WORKERS, AT(workers), "N", 0, 0, 64, LOADS,
     "threads that make batches, or auto (0: in the caller's thread)"},
    {"source", CHOICE, AT(source), "auto|memory|ring|pread|null", 0, 0, 0, LOADS,
     "where bytes come from (auto)"},
    {"shuffle", CHOICE, AT(shuffle), "none|full|once|block|batch", 0, 0, 0, LOADS,
     "order of the samples (full)"},
    {"sampler", TEXT, AT(sampler), "NAME:KEY=VALUE", 0, 0, 0, LOADS, "used instead of --shuffle"},
    {"last-batch", CHOICE, AT(last_batch), "keep|pad|discard|roll_over", 1, 0, 0, LOADS,
     "what happens to a short last batch (keep)"},
    {"prefetch", COUNT, AT(prefetch), "N", 0, 1, 4096, LOADS,
     "batches made ahead (as many as keep the workers busy)"},
    {"ranks", RANKS, AT(ranks), "N|auto", 0, 1, 4096, RUNS | BENCH_PLAN | BENCH_VERIFY,
     "ranks in this process; auto: under mpirun or srun a run's processes are the ranks, and "
     "--batch "
     "is that of all of them (auto)"},
    {"stall-ms", COUNT, AT(stall_ms), "MS", 0, 1, UINT32_MAX, RUNS,
     "if a batch takes longer than this, report on stderr where it is stuck (never)"},
    {"on-error", CHOICE, AT(on_error), "fail|replace|blank", 0, 0, 0, MEASURES,
     "what happens to a failed sample (fail)"},
    {"max-failures", COUNT, AT(max_failures), "N", 0, 1, UINT32_MAX, RUNS,
     "failed samples before the run fails (no limit)"},
    {"failures", TEXT, AT(failures), "FILE", 0, 0, 0, BENCH_RUN | BENCH_LIMITS | BENCH_VERIFY,
     "write the failed samples, one a line, even if the run fails (limits: with --decode)"},
    {"ragged", FLAG, AT(ragged), NULL, 0, 0, 0, BENCH_SERVE,
     "deliver rows of different lengths as they are; no stage needs to pad them"},
    {"o-direct", FLAG, AT(o_direct), NULL, 0, 0, 0, LOADS, "reads bypass the page cache"},
    {"start", START, AT(start_epoch), "EPOCH:SAMPLE", 0, 0, 0, RUNS, "position to start at"},
    {"cache", CHOICE, AT(cache), "asis|hot|cold", 0, 0, 0, RUNS | BENCH_LIMITS,
     "page cache before the run (asis)"},
    {"epochs", COUNT, AT(epochs), "N", 0, 1, UINT32_MAX, BENCH_RUN | BENCH_VERIFY,
     "run this many epochs (verify: 1)"},
    {"seconds", REAL, AT(seconds), "S", 0, 0, 0, BENCH_RUN | BENCH_LIMITS,
     "run this long (3 without --epochs; with a consumer 10; limits: with --decode, 12)"},
    {"seed", COUNT, AT(seed), "N", 0, 0, UINT64_MAX, LOADS | BENCH_GENERATE,
     "order and augmentation depend on it alone (0)"},
    {"memory", SIZE, AT(memory), "BYTES", 0, 1, UINT64_MAX, LOADS | BENCH_FETCH,
     "budget of a loader, e.g. 32MiB; k, M, G, KiB, MiB, GiB may follow (half of free memory)"},
    {"max-sample-bytes", SIZE, AT(max_sample_bytes), "BYTES", 0, 1, UINT64_MAX, LOADS,
     "largest sample read or decoded, e.g. 64MiB; a larger one fails (256MiB; decoded pixels at "
     "most a 16th of --memory)"},
    {"json", TEXT, AT(json), "FILE|-", 0, 0, 0,
     BENCH_RUN | BENCH_LIMITS | BENCH_VERSUS | BENCH_DOCTOR | BENCH_VERIFY,
     "write the results as JSON; - is stdout, and nothing else goes there"},
    {"html", TEXT, AT(html), "FILE", 0, 0, 0, BENCH_RUN | BENCH_LIMITS,
     "write the results as a report: one HTML file that needs no other"},
    {"verbose", FLAG, AT(verbose), NULL, 0, 0, 0, BENCH_RUN,
     "print every figure; docs/iterbench.md explains the rows"},
    {"consumer", CHOICE, AT(consumer), "touch|none", 0, 0, 0, RUNS,
     "touch reads a byte of every cache line of a batch, none reads nothing (touch)"},
    {"model", CHOICE, AT(model), "none|cnn|gru|mlp", 0, 0, 0, RUNS,
     "train this network on the batches, and measure what feeding it costs (none)"},
    {"device", DEVICE, AT(device), "cpu|cuda|cuda:N", 0, 0, DEVICES_MAX, MEASURES,
     "where batches go, and where the model trains (cpu)"},
    {"finish", CHOICE, AT(finish), "auto|host|device", 0, 0, 0, MEASURES,
     "with --device cuda: where rows of images are converted and normalised (auto: as the plan "
     "weighs)"},
    {"resident", CHOICE, AT(resident), "no|auto|yes", 0, 0, 0, MEASURES,
     "with --device cuda: keep the whole set on the GPU (no)"},
    {"precision", CHOICE, AT(precision), "f32|tf32|f16|bf16", 0, 0, 0, RUNS,
     "with --device cuda and --model: the numbers it computes with (f32)"},
    {"algorithms", CHOICE, AT(algorithms), "deterministic|tuned|fast", 0, 0, 0, RUNS,
     "with --device cuda and --model: the same bits in every run, the fastest of these as "
     "measured, or the fastest of all (deterministic)"},
    {"threads", COUNT, AT(threads), "N", 0, 1, 1024, RUNS,
     "threads of the trainer (cores less workers, at least 1)"},
    {"compute-ms", REAL, AT(compute_ms), "MS", 0, 0, 0, BENCH_RUN,
     "instead of --model: an accelerator that takes this long over a batch, emulated by sleeping"},
    {"wants", CHOICE, AT(wants), "nchw|nhwc", 1, 0, 0, BENCH_RUN,
     "with --compute-ms: the layout it wants; other batches are turned first (any)"},
    {"prove", FLAG, AT(prove), NULL, 0, 0, 0, BENCH_RUN,
     "make the first change that the verdict proposes, and measure what it gains"},
    {"trace", TEXT, AT(trace), "FILE", 0, 0, 0, BENCH_RUN,
     "with --model or --compute-ms: a second of the run as Perfetto events"},
    {"plant", TEXT, AT(plant), "KIND[:FACTOR]", 0, 0, 0, BENCH_RUN,
     "plant a bottleneck to test the verdict: slow-disk, slow-decode, slow-transform, slow-worker, "
     "few-workers, one-at-a-time, small-prefetch, slow-consumer, layout, tiny-batch, "
     "oversubscribed, slow-remote, throttled, slow-rank"},
    {"restart", TEXT, AT(restart), "AT:RANKS|none", 0, 0, 0, BENCH_VERIFY,
     "save after AT batches of all ranks, and go on with RANKS ranks (drawn by the seed)"},
    {"promise", CHOICE, AT(promise), "auto|once|at-most-once|draws", 0, 0, 0, BENCH_VERIFY,
     "how often a sample must come in an epoch; draws: as with one rank (auto: by the sampler)"},
    {"plant", TEXT, AT(fault), "repeat|lose|change", 0, 0, 0, BENCH_VERIFY,
     "count a batch twice, lose it or change it, to test the counting"},
    {"sweep", CHOICE, AT(sweep), "loader", 1, 0, 0, BENCH_RUN,
     "with --model: compare every setting of the loader"},
    {"hash", FLAG, AT(hash), NULL, 0, 0, 0, BENCH_RUN,
     "hash every row delivered (one epoch, unless --epochs)"},
    {"dump", TEXT, AT(dump), "DIR", 0, 0, 0, BENCH_RUN, "write the first batches as .npy files"},
    {"batches", COUNT, AT(batches), "N", 0, 1, UINT32_MAX, BENCH_RUN,
     "with --dump: how many batches"},
    {"limit", CHOICE, AT(limit), "ordered|convert|shuffled", 1, 0, 0, BENCH_SERVE,
     "serve this straight loop instead of a loader"},
    {"decode", FLAG, AT(decode), NULL, 0, 0, 0, BENCH_LIMITS,
     "photos: one core's loader beside a bare decode of the same parts by libjpeg-turbo and libpng "
     "(without --chain: random-resized-crop:size=224 | random-flip | normalize | to:f32,nchw)"},
    {"a", TEXT, AT(a), "COMMAND", 0, 0, 0, BENCH_VERSUS, "first program"},
    {"b", TEXT, AT(b), "COMMAND", 0, 0, 0, BENCH_VERSUS, "second program"},
    {"pairs", COUNT, AT(pairs), "N", 0, 6, 1000, BENCH_RUN | BENCH_VERSUS | BENCH_LIMITS,
     "pairs of slices to keep, at least 6 (15)"},
    {"slice", REAL, AT(slice_s), "S", 0, 0, 0, BENCH_VERSUS,
     "length of a slice in seconds, at most 2 (0.25)"},
    {"starts", COUNT, AT(starts), "N", 0, 1, 100, BENCH_VERSUS,
     "how often both programs are started, for an equal part of the pairs (3): two starts of one "
     "program may differ"},
    {"n", COUNT, AT(n), "N", 0, 1, 10000000, BENCH_GENERATE,
     "cifar10: records a file (10000); photos: how many (300)"},
};
const size_t bench_n_option_rows = sizeof(bench_option_rows) / sizeof(bench_option_rows[0]);

const bench_command_row bench_command_rows[] = {
    {BENCH_RUN, "", "--data SPEC [options]", "measure a loader, or both in turns"},
    {BENCH_LIST, "list", "[NAME]",
     "formats, keys of URLs, stages, samplers and sources; NAME alone in full"},
    {BENCH_PLAN, "plan", "--data SPEC [options]", "how a loader would do the work"},
    {BENCH_FETCH, "fetch", "--data SPEC?cache=DIR", "fill the cache of a set at URLs"},
    {BENCH_LIMITS, "limits", "--data SPEC [options]", "the best rates that this machine allows"},
    {BENCH_COMPARE, "compare", "A.json B.json", "compare two results"},
    {BENCH_REPORT, "report", "RESULT.json OUT.html", "draw a result as an HTML page"},
    {BENCH_DOCTOR, "doctor", "[--data SPEC]", "check this machine, and what each lack costs"},
    {BENCH_GENERATE, "generate", "cifar10|photos DIR", "make data, for machines that have none"},
    {BENCH_SERVE, "serve", "--data SPEC [options]",
     "answer 'run N' on stdin by 'samples seconds' on stdout"},
    {BENCH_VERIFY, "verify", "--data SPEC [options]",
     "prove that each row comes as often as promised"},
    {BENCH_VERSUS, "versus", "--a COMMAND --b COMMAND", "compare two programs, in turns"},
};
const size_t bench_n_command_rows = sizeof(bench_command_rows) / sizeof(bench_command_rows[0]);

const bench_command_row *bench_command_of(bench_command command) {
    size_t i = 0;
    while (bench_command_rows[i].command != command) {
        i++;
        assert(i < bench_n_command_rows);
    }
    return &bench_command_rows[i];
}
