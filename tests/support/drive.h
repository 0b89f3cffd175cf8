/*
 * drive.h - drives loaders for tests: a CIFAR set on disk that says itself what each row must be, and a hash of everything delivered.
 */
#ifndef TESTS_SUPPORT_DRIVE_H
#define TESTS_SUPPORT_DRIVE_H

#include <iter/iter.h>

/* A folder with a training set of n records (five files, the first four alike) as make_cifar() writes them; open it by its spec. */
void drive_cifar(char folder[512], uint32_t n);
iter_dataset *drive_open(const char *folder);

/* The sum over rows of FNV-1a-64 of (epoch, position, field, row bytes), padding rows left out: equal however rows are cut into batches. */
uint64_t drive_hash(const iter_batch *batch);

/* The same of the tensors on the device, where that is the fake one: its memory is the host's. Behind iter_batch_synchronize(). */
uint64_t drive_hash_device(const iter_batch *batch);

/* Rows of a batch of that set without a chain: each must be what its index says. Returns rows that are not. */
uint32_t drive_wrong_rows(const iter_batch *batch);

/* Runs `epochs` epochs from where the loader stands; returns the sum of hashes. Ends the program on an error. */
uint64_t drive_run(iter_loader *loader, uint32_t epochs);

/* A loader, or the end of the program with its message. */
iter_loader *drive_loader(iter_dataset *dataset, iter_chain *chain, const iter_loader_options *opt);

/* The chain, or the end of the program. */
iter_chain *drive_chain(const char *text);

#endif
