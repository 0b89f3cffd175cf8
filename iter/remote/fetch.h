/* fetch.h - fills a cache before anything reads. */
#ifndef ITER_REMOTE_FETCH_H
#define ITER_REMOTE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include <iter/ops.h>

/* `kept` of `bytes` are in the cache; false = stop. */
typedef bool iter__fetch_progress(void *user, uint64_t kept, uint64_t bytes);

/* Fetches what is missing of the files whose clients have a cache. Blocks, and drives many requests
 * from this thread. Errors: EUNSUPPORTED (no file has a cache; a build without URLs), EIO (URL and
 * reason; the cache is full; an object without an ETag), ECANCELED (progress() said so), ENOMEM.
 * What was fetched before an error stays. */
iter_status iter__remote_fetch(const iter_file *files, uint64_t n_files,
                               iter__fetch_progress *progress, void *user, iter_error *err);

#endif
