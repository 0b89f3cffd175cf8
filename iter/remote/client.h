/*
 * client.h - files elsewhere as formats see them: look, list, read a range.
 *
 * A client has what all its requests share: the options of a dataset's spec, credentials, versions
 * of objects that were seen, and idle handles with their connections. A dataset that is opened with
 * a URL has one; a thread that opens files finds it by iter__remote_current().
 *
 * Every call below may be made by any number of threads, and blocks until it has its answer: it
 * tries again after 429, 5xx, resets, short bodies and stalls, until the client's deadline.
 */
#ifndef ITER_REMOTE_CLIENT_H
#define ITER_REMOTE_CLIENT_H

#include <stdbool.h>

#include <iter/ops.h>

typedef struct iter__remote iter__remote;

/* Keys that every dataset's spec may have. */
typedef struct iter__remote_options {
    const char *endpoint; /* NULL = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's */
    const char *region;   /* NULL = AWS_REGION, AWS_DEFAULT_REGION, the profile's, or us-east-1 */
    const char *profile;  /* NULL = AWS_PROFILE, or "default" */
    int32_t path_style;   /* 0 = if an endpoint is given, 1 = yes, 2 = no */
    bool anonymous;
    int64_t connections; /* the most requests in flight of one loader */
    double deadline;     /* seconds in which a request is tried again */
    const char *cache;   /* a folder for blocks that were read; NULL = none */
    int64_t cache_size;  /* bytes that it may have; 0 = what is free, less a tenth */
} iter__remote_options;

/* The rows of the keys, as a table of options alone. NULL = this build reads no URLs. */
const iter_ops *iter__remote_table(void);

/* `options` NULL = the defaults. Errors: EINVAL, ENOMEM, EUNSUPPORTED (this build). */
iter_status iter__remote_create(const iter__remote_options *options, iter__remote **out,
                                iter_error *err);
iter__remote *iter__remote_ref(iter__remote *remote);
void iter__remote_unref(iter__remote *remote); /* NULL is ignored */

/* Whether it keeps what it reads in a folder. */
bool iter__remote_has_cache(const iter__remote *remote);

/* Writes a hash of the object's URL and the ETag that was seen. False = none was seen. NULL is
 * allowed. */
bool iter__remote_identity(iter__remote *remote, const char *url, uint64_t out[2]);

/* Sets the place of the client that files are opened with in this thread; returns the one before.
 * A client is made there when the first URL is met. */
iter__remote **iter__remote_enter(iter__remote **place);

/* That client if `path` is a URL, else NULL: what iter_file.place gets. NULL also if there is none.
 */
iter__remote *iter__remote_of(const char *path);

/* Whether iter__remote_of() ever gave it. NULL: no. */
bool iter__remote_was_used(const iter__remote *remote);

/* A URL as a set names it, without what may be secret (iter__free): see secrets.h. `remote` knows
 * the rest; NULL = the URL is copied. NULL = no memory. Any thread. */
char *iter__remote_hide(iter__remote *remote, const char *url);

/* What its requests for ranges took so far, all added. */
typedef struct iter__remote_counts {
    uint64_t answers, throttled, again; /* all; 429 or 503; those that had to be asked again */
    uint64_t bytes;
    uint64_t first_ns, ns; /* until the first byte came; until the last */
    uint32_t connections;  /* the most in flight that its options allow */
} iter__remote_counts;

/* Any thread. `remote` NULL = zeros. */
void iter__remote_counts_read(iter__remote *remote, iter__remote_counts *out);

/* Takes a reference to `place`, or makes a client with the defaults if it is NULL. */
iter_status iter__remote_take(iter__remote *place, iter__remote **out, iter_error *err);

/* One turn of iter__remote_each(). */
typedef iter_status iter__remote_task(void *user, uint64_t i, iter_error *err);

/* Calls task(user, i) for each i < n, the lowest first, in this thread and others that open files
 * with this client, too: `most` at a time, and no more than its connections. After an error no
 * further turn begins. Returns when all that began are done, with the error of the lowest i. */
iter_status iter__remote_each(iter__remote *remote, uint64_t n, uint32_t most,
                              iter__remote_task *task, void *user, iter_error *err);

/* The dataset is open: what was kept for its opening is forgotten. NULL is ignored. */
void iter__remote_opened(iter__remote *remote);

typedef struct iter__remote_info {
    uint64_t bytes;
    uint64_t version; /* a hash of its ETag, or of its time if it has none */
    bool is_folder;
    bool is_missing; /* the server said so; else, after an error, something may be there */
} iter__remote_info;

/* What is at `url`. Until iter__remote_opened() it is asked for once. Errors: EIO (nothing; not
 * allowed; no answer until the deadline). */
iter_status iter__remote_look(iter__remote *remote, const char *url, iter__remote_info *out,
                              iter_error *err);

/* Looks at many, until iter__remote_opened(): a look at one of them then has its answer, or its
 * error. NULL does nothing. */
void iter__remote_look_ahead(iter__remote *remote, const char *const *urls, uint64_t n);

/* The same for an object that a list has just named. */
void iter__remote_saw(iter__remote *remote, const char *url, uint64_t bytes);

/* One name in a folder, without the folder's. */
typedef iter_status iter__remote_visit(void *user, const char *name, bool is_folder, uint64_t bytes,
                                       iter_error *err);

/* Calls `visit` for each name in the folder `url`, in the order of their bytes. Errors:
 * EUNSUPPORTED (https has no lists), EIO, those of visit(). */
iter_status iter__remote_list(iter__remote *remote, const char *url, iter__remote_visit *visit,
                              void *user, iter_error *err);

/* Lists many folders, until iter__remote_opened() or the next call: a list of one of them then
 * takes its names from here. NULL does nothing. */
void iter__remote_list_ahead(iter__remote *remote, const char *const *urls, uint64_t n);

/* Reads n bytes at `offset`; *out_done < n only at the object's end. Errors: EIO. */
iter_status iter__remote_read(iter__remote *remote, const char *url, uint64_t offset, void *out,
                              size_t n, size_t *out_done, iter_error *err);

/* An object that is read in small pieces, from one place or many. It keeps the last part that it
 * read, and reads ahead, more at each time, as long as the reads go on where that part ends. What
 * it reads is kept in the cache. Any number of threads. */
typedef struct iter__remote_file iter__remote_file;

/* Errors: those of iter__remote_look(); EIO if it is a folder. `url` is borrowed until close. */
iter_status iter__remote_file_open(iter__remote *remote, const char *url, iter__remote_file **out,
                                   iter__remote_info *out_info, iter_error *err);
iter_status iter__remote_file_read(iter__remote_file *file, uint64_t offset, void *out, size_t n,
                                   size_t *out_done, iter_error *err);
void iter__remote_file_close(iter__remote_file *file);

/* What the opening of a dataset found out about an object, kept in the cache's folder; `what` tells
 * such files of one object apart. Returns a handle for reading; -1 = nothing is kept. */
int iter__remote_kept_open(iter__remote *remote, const char *url, uint64_t what,
                           uint64_t *out_bytes);

/* Keeps such a file, of about `bytes` bytes. *out_fd is to be written to from its beginning. NULL =
 * it cannot be kept now: there is no cache or no room, the object has no ETag, or another process
 * writes it. */
typedef struct iter__remote_keeping iter__remote_keeping;
iter__remote_keeping *iter__remote_keep_begin(iter__remote *remote, const char *url, uint64_t what,
                                              uint64_t bytes, int *out_fd);

/* Ends it. If it is complete, it replaces one that was kept before; else it is dropped. */
void iter__remote_keep_end(iter__remote_keeping *keeping, bool is_complete);

#endif
