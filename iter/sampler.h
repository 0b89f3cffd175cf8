/*
 * sampler.h - the order of samples: the built-in samplers and their options.
 *
 * By name, in the options of a loader:
 *
 *     opt.sampler.spec = "block:block=512,buffer=8";
 *
 * Or with a table and a struct of options:
 *
 *     iter_block_options block = ITER_BLOCK_OPTIONS_INIT;
 *     block.block = 512; block.buffer = 8;
 *     opt.sampler.ops = iter_registry_sampler(NULL, "block"); opt.sampler.options = &block;
 *
 * | name        | order                                                         | form       |
 * | ----------- | ------------------------------------------------------------- | ---------- |
 * | sequential  | as stored; the only one for streams                           | pure       |
 * | shuffle     | a new permutation of all samples every epoch                  | pure       |
 * | once        | one permutation, that of `shuffle` in epoch 0, in every epoch | pure       |
 * | block       | blocks of neighbours in random order, `buffer` blocks mixed   | pure       |
 * | batch       | units of consecutive rows in random order                     | pure       |
 * | replacement | independent draws: a sample may come twice, or not at all     | pure       |
 * | weighted    | independent draws, a sample as often as its weight says       | pure       |
 * | stride      | every step-th sample, from one that each epoch draws          | pure       |
 * | balanced    | every class equally often, each in an order of its own        | pure       |
 * | repeat      | random, samples of some labels several times, or not at all   | pure       |
 * | mix         | sources of a mix by weights, each in an order of its own      | pure       |
 * | bucket      | batches of samples of similar length, in random order         | sequential |
 * | token-budget| batches of as many samples as fit a number of tokens          | sequential |
 *
 * Each order depends on the seed, the epoch and the position alone. A pure sampler can be asked for
 * any position directly, so restoring costs nothing.
 */
#ifndef ITER_SAMPLER_H
#define ITER_SAMPLER_H

#include <stdbool.h>

#include <iter/ops.h>

ITER_BEGIN_DECLS

/**
 * Blocks of `block` consecutive samples in random order. `buffer` blocks that follow one another in
 * that order are a group, and the rows of a group are mixed. All rows of a group come before any of
 * the next, so at most `buffer` blocks are read at a time. The dataset's last block may be shorter
 * and takes part like the others. block * buffer must be less than 2^32.
 */
typedef struct iter_block_options {
    int64_t block;  /* samples in a block; 0 = ITER_BLOCK_SAMPLES */
    int64_t buffer; /* blocks mixed with one another; 0 = ITER_BLOCK_BUFFER, 1 = none */
} iter_block_options;

#define ITER_BLOCK_SAMPLES 256
#define ITER_BLOCK_BUFFER  16
#define ITER_BLOCK_OPTIONS_INIT \
    { ITER_BLOCK_SAMPLES, ITER_BLOCK_BUFFER }

/**
 * Units of `unit` consecutive samples in random order; rows inside a unit stay as stored. The
 * dataset's last unit may be shorter and takes part like the others. After it, batches and units no
 * longer begin at the same rows, and last_batch = discard may leave out different rows each epoch.
 */
typedef struct iter_batch_order_options {
    int64_t unit; /* samples a unit; 0 = the loader's batch_size, whatever the number of ranks */
} iter_batch_order_options;

#define ITER_BATCH_ORDER_OPTIONS_INIT \
    { 0 }

/** Draws with replacement. */
typedef struct iter_replacement_options {
    int64_t samples; /* draws an epoch; 0 = as many as there are samples */
} iter_replacement_options;

#define ITER_REPLACEMENT_OPTIONS_INIT \
    { 0 }

/**
 * Draws with replacement, by weights. They need not add up to 1. A sample of weight 0 never comes.
 * The sampler takes 8 bytes a sample (12 more while the loader is created), and a draw takes the
 * same time for any number of samples below 2^32.
 */
typedef struct iter_weighted_options {
    /* a .npy file of one dimension with a weight for each sample, integers, f32 or f64; read when
     * the loader is created */
    const char *file;
    int64_t samples; /* draws an epoch; 0 = as many as there are samples */
} iter_weighted_options;

#define ITER_WEIGHTED_OPTIONS_INIT \
    { 0, 0 }

/**
 * Every class equally often. A class is a label that samples have. C draws in a row, from a
 * multiple of C on, have each of the C classes once, in random order; draws are counted over all
 * ranks and epochs. Each class has an order and passes of its own: all its samples come before any
 * of them comes again, in a new order, however the loader's epochs fall. So samples of a rare class
 * come often, and a large class takes several epochs.
 *
 * Labels are asked for when the loader is created: they must be integers, one a sample. If they are
 * neither in memory nor in the format's index, every sample's label is read. The sampler takes 4 to
 * 6 bytes a sample and about 250 bytes a class; 4 more a sample while the loader is created.
 */
typedef struct iter_balanced_options {
    /* draws an epoch; 0 = as many as there are samples, rounded down to a multiple of C */
    int64_t samples;
    /* labels are 0 to classes - 1, and each must have samples, or the loader is refused; 0 = the
     * labels that there are */
    int64_t classes;
    const char *field; /* with the labels; NULL = the first one with that role */
} iter_balanced_options;

#define ITER_BALANCED_OPTIONS_INIT \
    { 0, 0, 0 }

/**
 * All samples in random order, those of some labels several times an epoch: "3=10 7=0" has each
 * sample of label 3 ten times, none of label 7, and all others `others` times. The times are spread
 * over the epoch at random. As text the counts may be given as options: `repeat:3=10,7=0`.
 *
 * Labels are asked for as by `balanced`. The sampler takes 4 bytes a sample and 24 a class; 4 more
 * a sample while the loader is created.
 */
typedef struct iter_repeat_options {
    const char *counts; /* LABEL=COUNT, separated by blanks, ',' or ';'; NULL = none */
    int64_t others;     /* count of all other labels */
    const char *field;  /* with the labels; NULL = the first one with that role */
} iter_repeat_options;

#define ITER_REPEAT_OPTIONS_INIT \
    { 0, 1, 0 }

/**
 * Every step-th sample in random order, from one that each epoch draws in 0..step - 1. So an epoch
 * has n / step of n samples. Over windows that begin at every token (`tokens:` with stride=1), with
 * the windows' length as step, it cuts the stream at other places in each epoch.
 */
typedef struct iter_stride_options {
    int64_t step; /* at least 1 */
} iter_stride_options;

#define ITER_STRIDE_OPTIONS_INIT \
    { 1 }

/**
 * Draws from the sources of a mix by their weights, or by their sizes if they have none. The order
 * of sources is as even as it can be: after any number of draws, each source has had its exact
 * share of them, rounded down or up. Each source has an order and epochs of its own: all its
 * samples come before any of them comes again, however the loader's epochs fall.
 *
 * Shares are exact if weights are ratios of whole numbers that add up to at most 2^20, else they
 * are rounded to multiples of 2^-48, and those below 2^-20 are raised to that. The order is planned
 * in blocks of 8,192 draws or, with shares below 2^-13, as many as the smallest needs for one; a
 * jump plans one block. The sampler takes 14 bytes a draw of a block, and at most 9 KiB a source.
 *
 * `changes` sets weights from a draw on; draws are counted over all ranks and epochs. Sources that
 * it does not name keep their weight. From there each source's count is exact again, and each goes
 * on in its order: nothing is lost, nothing comes twice. A saved position has the weights that came
 * before it, so a change may be added behind it: save, make a loader with the change, restore. It
 * refuses a loader whose weights before the position differ.
 */
typedef struct iter_mix_options {
    int64_t samples;     /* draws an epoch; 0 = as many as all sources have samples */
    bool shuffle;        /* false = each source as it is stored */
    const char *changes; /* "2M web=0.5 code=0.5; 4M web=0"; NULL = none */
} iter_mix_options;

#define ITER_MIX_OPTIONS_INIT \
    { 0, 1, 0 }

/**
 * Batches of samples of similar length, so that padding them costs little. Bucket i holds the
 * lengths above bound i - 1 and up to bound i; longer samples have a bucket of their own. A batch
 * has samples of one bucket; a bucket's last batch may be shorter. The dataset must know lengths
 * before reading (imdb gives a review's bytes, which grow with its ids). The sampler takes 6 bytes
 * a sample (8 more while the loader is created) and three passes over all lengths.
 */
typedef struct iter_bucket_options {
    iter_option_list buckets; /* upper bounds, ascending; none = by n_buckets */
    int64_t n_buckets;        /* equally filled, if equal lengths allow it; 0 = 16 */
    bool shuffle;             /* samples and batches; false = as stored, bucket by bucket */
    bool drop;                /* leave a bucket's last batch out if it is shorter */
} iter_bucket_options;

#define ITER_BUCKET_OPTIONS_INIT \
    { {0, {0}}, 0, 1, 0 }

/**
 * Batches of as many samples as fit `tokens` tokens, and at most batch_size x ranks. So batches
 * differ in size; they do not depend on how many ranks share them. A rank's part of one has a row
 * more than its share at most, and none with `multiple` = ranks. The epoch's samples are taken in
 * windows; each is sorted by length and cut, and its batches come in random order; a window's last
 * batch takes what is left. The dataset must know lengths before reading; for exact budgets they
 * must be exact. A sample above the budget is an error when the loader is created, which asks for
 * all lengths once. The sampler takes 28 bytes a sample of a window.
 */
typedef struct iter_token_budget_options {
    int64_t tokens;   /* of a batch, all ranks together; required */
    int32_t cost;     /* 0 = rows x longest row, as padded batches take; 1 = the sum of lengths */
    int64_t multiple; /* a batch has a multiple of so many rows, unless fewer fit */
    int64_t window;   /* samples that are sorted together; 0 = 4,096 */
    bool shuffle;     /* samples and batches; false = as stored, window by window */
} iter_token_budget_options;

#define ITER_TOKEN_BUDGET_OPTIONS_INIT \
    { 0, 0, 1, 0, 1 }

ITER_END_DECLS

#endif
