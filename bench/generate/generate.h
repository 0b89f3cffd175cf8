/* generate.h - what `iterbench generate` can make, and what its makers share. */
#ifndef GENERATE_H
#define GENERATE_H

#include "bench/common/bench_options.h"

/** The next number of a stream: splitmix64 (Steele, Lea, Flood 2014). */
uint64_t generate_random(uint64_t *state);

/** Writes all of it. Errors: EIO naming `path`. */
iter_status generate_write(int file, const void *bytes, size_t size, const char *path,
                           iter_error *err);

/**
 * A set in the binary format of CIFAR-10.
 *
 *   options  n records a file, 0 = 10000; seed
 *
 * Errors  EINVAL (a file exists already), EIO, ENOMEM.
 */
iter_status generate_cifar(const bench_options *options, const char *folder, iter_error *err);

/**
 * JPEGs in ten folders, one a class: about 400 x 533, as large as photos of that size are.
 *
 *   options    n photos in all, 0 = 300; seed
 *   out_bytes  of all of them
 *
 * Errors  EUNSUPPORTED (this build has no libjpeg), EINVAL (a file exists already), EIO, ENOMEM.
 */
iter_status generate_photos(const bench_options *options, const char *folder, uint64_t *out_bytes,
                            iter_error *err);

#endif
