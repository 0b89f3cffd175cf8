/* generate.h - the sets that `iterbench generate` can make, and code that their makers share. */
#ifndef GENERATE_H
#define GENERATE_H

#include "bench/common/bench_options.h"

/** The next number of a stream: splitmix64 (Steele, Lea, Flood 2014). */
uint64_t generate_random(uint64_t *state);

/** Writes all bytes. Errors: EIO naming `path`. */
iter_status generate_write(int file, const void *bytes, size_t size, const char *path,
                           iter_error *err);

/**
 * A set in the binary format of CIFAR-10.
 *
 *   options  n records per file, 0 = 10000; seed
 *
 * Errors  EINVAL (a file exists already), EIO, ENOMEM.
 */
iter_status generate_cifar(const bench_options *options, const char *folder, iter_error *err);

/**
 * JPEGs in ten folders, one for each class: about 400 x 533 pixels, with as many bytes as photos of
 * that size have.
 *
 *   options    n photos in all, 0 = 300; seed
 *   out_bytes  sum over all photos
 *
 * Errors  EUNSUPPORTED (this build has no libjpeg), EINVAL (a file exists already), EIO, ENOMEM.
 */
iter_status generate_photos(const bench_options *options, const char *folder, uint64_t *out_bytes,
                            iter_error *err);

#endif
