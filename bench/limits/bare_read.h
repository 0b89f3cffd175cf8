/*
 * bare_read.h - straight reading loops: the speed of the machine without a loader. No loader
 * object, no lock, no counter.
 *
 * Each function opens its files, reads and closes them, and returns the bytes and seconds of
 * exactly that. Buffers are allocated and touched before the clock starts. Nothing is cached
 * between calls.
 */
#ifndef BENCH_BARE_READ_H
#define BENCH_BARE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

typedef struct bare_read_options {
    bool ring;      /* an io_uring with `depth` reads in flight; else pread, one after another */
    bool direct;    /* O_DIRECT; records must then lie on 4 KiB edges */
    uint32_t depth; /* 0 = 32 */
    size_t block_bytes; /* of one read of bare_read_files(), a multiple of 4096; 0 = 1 MiB */
    /* Gets every piece that was read, in any order; NULL = pieces are dropped. `number` is its
     * place in the list, for bare_read_files() the number of the file. */
    void (*each)(void *user, size_t number, const uint8_t *bytes, size_t n);
    void *user;
} bare_read_options;

typedef struct bare_read_result {
    uint64_t bytes, reads;
    double seconds;
} bare_read_result;

/** One record of bare_read_records(). */
typedef struct bare_record {
    uint32_t file;
    uint32_t bytes;
    uint64_t offset;
} bare_record;

/** Whether this build and this machine have io_uring. */
bool bare_read_has_ring(void);

/** Whole files, in order, block by block. Errors: EIO, ENOMEM, EUNSUPPORTED (no io_uring). */
iter_status bare_read_files(const char *const *paths, size_t n_paths,
                            const bare_read_options *options, bare_read_result *out,
                            iter_error *err);

/** Records at given places, in the given order, by preadv2 or the ring. Files are opened once. */
iter_status bare_read_records(const char *const *paths, size_t n_paths, const bare_record *records,
                              size_t n_records, const bare_read_options *options,
                              bare_read_result *out, iter_error *err);

/** Many files: open, read, close, one after another in one thread, or chained in the ring.
 * `bytes`[n_paths] are their sizes (a shorter file is an error). If it is NULL, each file is read
 * once, with up to max_bytes. */
iter_status bare_read_many(const char *const *paths, size_t n_paths, const uint64_t *bytes,
                           size_t max_bytes, const bare_read_options *options,
                           bare_read_result *out, iter_error *err);

#endif
