/*
 * upload.h - writes an object of S3, from its first byte to its last.
 *
 * An object is there as a whole or not at all: until close() has succeeded, readers see what was
 * there before. If the process is killed before, parts that were sent stay in the bucket, unseen,
 * until its lifecycle rule for incomplete uploads removes them.
 */
#ifndef ITER_REMOTE_UPLOAD_H
#define ITER_REMOTE_UPLOAD_H

#include "iter/remote/client.h"

#define ITER_PART_BYTES     ((size_t)8 << 20) /* by default */
#define ITER_PART_LEAST     ((size_t)5 << 20) /* what S3 takes, but for the last part */
#define ITER_PART_BYTES_MAX ((size_t)1 << 30)

typedef struct iter__upload_options {
    size_t part_bytes; /* of the first parts; 0 = ITER_PART_BYTES */
    /* Asked now and then, by any thread, until close() returns: true ends the work with ECANCELED.
     * NULL = never. */
    bool (*is_over)(void *over);
    void *over;
} iter__upload_options;

typedef struct iter__upload iter__upload;

/* Bytes of a part but the last; `first_bytes` are those of the first, `number` counts from 1. S3
 * takes 10,000 parts. */
size_t iter__upload_part_bytes(size_t first_bytes, uint32_t number);

/* Whether an object may be written to `url`. Errors: EUNSUPPORTED (it is not s3://; a build without
 * URLs), EINVAL (it names no object). Asks no server. */
iter_status iter__upload_check(const char *url, iter_error *err);

/* Sends nothing so far. `url` is copied; `options` NULL = the defaults. One thread writes. Errors:
 * those of iter__upload_check(), EINVAL (part_bytes), EUNSUPPORTED (a client without signatures),
 * ENOMEM. */
iter_status iter__upload_open(iter__remote *remote, const char *url,
                              const iter__upload_options *options, iter__upload **out,
                              iter_error *err);

/* The next n bytes, which are copied. Blocks while as many parts are in flight as may be. Errors:
 * EIO (URL, part, reason, number of tries; larger than 5 TiB), ECANCELED, ENOMEM. After an error
 * only close() is left. */
iter_status iter__upload_write(iter__upload *upload, const void *bytes, size_t n, iter_error *err);

/* No bytes follow: sends the rest of the parts, and waits for all. What is smaller than a part
 * waits for close(). Errors: those of write(). */
iter_status iter__upload_finish(iter__upload *upload, iter_error *err);

/* Ends and frees the upload. `status` is that of the writing: if it is an error, the upload is
 * aborted, and `status` is returned. Else the object is there after it. Errors: those of write();
 * the upload is aborted then. If it cannot be aborted, the message in `err` says so, before what it
 * had. NULL is ignored. */
iter_status iter__upload_close(iter__upload *upload, iter_status status, iter_error *err);

#endif
