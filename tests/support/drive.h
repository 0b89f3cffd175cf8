/*
 * drive.h - drives loaders for tests: a CIFAR set on disk whose records tell what each row must be,
 * and a hash of everything delivered.
 */
#ifndef TESTS_SUPPORT_DRIVE_H
#define TESTS_SUPPORT_DRIVE_H

#include <iter/iter.h>

/* Numbers of workers for which everything must come out alike. ThreadSanitizer, under which a test
 * takes ten times as long, sees nothing new in few threads. */
#ifdef __SANITIZE_THREAD__
#define DRIVE_WORKERS \
    { 2, 8 }
#else
#define DRIVE_WORKERS \
    { 0, 1, 2, 8 }
#endif

/* Makes a folder with a training set of n records (five files, the first four of equal size) as
 * make_cifar() writes them. Open it by its spec. */
void drive_cifar(char folder[512], uint32_t n);
iter_dataset *drive_open(const char *folder);

/* The sum over rows of FNV-1a-64 of (epoch, position, field, row bytes), without padding rows. It
 * is the same however rows are cut into batches. */
uint64_t drive_hash(const iter_batch *batch);

/* The same for the tensors on the device. Works only with the fake driver, whose memory is the
 * host's. Call it after iter_batch_synchronize(). */
uint64_t drive_hash_device(const iter_batch *batch);

/* Checks a batch of that set, loaded without a chain: each row must be what its index says. Returns
 * the number of rows that are not. */
uint32_t drive_wrong_rows(const iter_batch *batch);

/* Runs `epochs` epochs from the loader's place; returns the sum of hashes. Ends the program on an
 * error. */
uint64_t drive_run(iter_loader *loader, uint32_t epochs);

/* Two epochs, by a new loader for each batch, which goes on where the one before saved; returns the
 * sum of hashes. */
uint64_t drive_run_resuming(iter_dataset *data, iter_chain *chain, const iter_loader_options *opt);

/* Two epochs of each of `ranks` ranks, one after another; returns the sum of hashes. */
uint64_t drive_run_ranks(iter_dataset *data, iter_chain *chain, iter_loader_options opt,
                         uint32_t ranks);

/* Makes a loader, or ends the program with the error's message. */
iter_loader *drive_loader(iter_dataset *dataset, iter_chain *chain, const iter_loader_options *opt);

/* Makes a chain, or ends the program. */
iter_chain *drive_chain(const char *text);

#endif
