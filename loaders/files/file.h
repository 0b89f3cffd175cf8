/*
 * file.h - files as formats read them during open: listed, checked, read whole, or read from the
 * beginning, gzip or not; and the few files that are written.
 *
 * A path is one of the file system, or a URL (<iter/remote/client.h>). To s3:// a file is written
 * only if the caller says so, with options of the upload.
 *
 * Every message names the file and the reason. Short reads and EINTR are continued inside.
 */
#ifndef ITER_LOADERS_FILES_FILE_H
#define ITER_LOADERS_FILES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/ops.h>

/* The last part of a path; never NULL. */
const char *iter__path_base(const char *path);

/* "folder/name" (iter__free), or `name` alone if it is absolute or `folder` is "". NULL without
 * memory. */
char *iter__path_join(const char *folder, const char *name);

bool iter__path_exists(const char *path);
bool iter__path_is_folder(const char *path);

/* Whether it certainly does not exist; if that cannot be told, the error says why. */
iter_status iter__path_is_missing(const char *path, bool *out, iter_error *err);

typedef enum iter__entry_kind {
    ITER_ENTRY_FILE,
    ITER_ENTRY_FOLDER,
    ITER_ENTRY_OTHER /* a FIFO, a device; a link that leads nowhere */
} iter__entry_kind;

/* A name in a folder. A link counts as what it leads to. */
typedef struct iter__entry {
    const char *name; /* borrowed for the call */
    iter__entry_kind kind;
    uint64_t bytes; /* of a file */
    int32_t reason; /* why it is OTHER: an errno; 0 = it is no regular file */
} iter__entry;

/* An error ends the list. */
typedef iter_status iter__folder_visit(void *user, const iter__entry *entry, iter_error *err);

/* What is at `path`; as its name, the path. */
void iter__path_look(const char *path, iter__entry *out);

/* Calls `visit` for each name in a folder that does not begin with a dot, in any order. Errors: EIO
 * (it cannot be read), EUNSUPPORTED (https has no lists), those of visit(). */
iter_status iter__folder_list(const char *folder, iter__folder_visit *visit, void *user,
                              iter_error *err);

/* One turn of iter__files_each(). */
typedef iter_status iter__files_task(void *user, uint64_t i, iter_error *err);

/* Calls task(user, i) for each i < n, for n files of which `path` is one. If it is a URL, up to
 * `most` turns run at a time, in threads; else one after the other. The error is that of the lowest
 * i that failed, and those above it may not have run. */
iter_status iter__files_each(const char *path, uint64_t n, uint32_t most, iter__files_task *task,
                             void *user, iter_error *err);

/* As many scans of files at a time, because each holds parts of its file. */
#define ITER_FILES_SCANS 16

/* The path as a dataset's file. */
iter_file iter__file_entry(const char *path, uint64_t bytes);

/* Checks that `path` is a regular file that may be read. *out_bytes is its size. Errors: EIO
 * (missing, a directory, not a regular file, no permission). */
iter_status iter__file_check(const char *path, uint64_t *out_bytes, iter_error *err);

/* A file that is open for reading. */
typedef struct iter__data_file {
    const char *path; /* borrowed */
    uint64_t bytes;   /* when it was opened, as is the next */
    int64_t mtime_ns; /* since 1970; of a URL, a number that changes with its ETag */
    int fd;           /* -1 of a URL */
    struct iter__remote_file *remote;
} iter__data_file;

/* Checks the file as iter__file_check() does, and leaves it open. */
iter_status iter__file_open(const char *path, iter__data_file *out, iter_error *err);
void iter__file_close(const iter__data_file *file);

/* Up to n bytes at `offset`; *out_done < n only at the file's end. Any number of threads. Errors:
 * EIO. */
iter_status iter__file_read_at(const iter__data_file *file, uint64_t offset, void *out, size_t n,
                               size_t *out_done, iter_error *err);

/* Says that reads will be small and far apart, so that none reads ahead. */
void iter__file_jumps(const iter__data_file *file);

/* The whole file and a NUL after it, in *out (iter__free); *out_bytes without the NUL. Errors: EIO,
 * EFORMAT (larger than limit_bytes), ENOMEM. */
iter_status iter__file_load(const char *path, uint64_t limit_bytes, char **out, size_t *out_bytes,
                            iter_error *err);

/* A file read from its beginning; if it begins as gzip does (RFC 1952), it is inflated. */
typedef struct iter__input iter__input;

/* Errors: EIO, ENOMEM. `path` is borrowed until close. */
iter_status iter__input_open(const char *path, iter__input **out, iter_error *err);

/* The next n bytes; *out_done < n only at the end. Errors: EIO, EFORMAT (gzip data that is corrupt
 * or ends early), ENOMEM. */
iter_status iter__input_read(iter__input *input, void *out, size_t n, size_t *out_done,
                             iter_error *err);

bool iter__input_is_gzip(const iter__input *input);

/* The most bytes that the file can give: its size, or for gzip the most that deflate can make of
 * it. */
uint64_t iter__input_most_bytes(const iter__input *input);

/* NULL is ignored. */
void iter__input_close(iter__input *input);

struct iter__upload_options;

/* A file that is written under another name, hidden and in the same folder, and renamed when it is
 * complete. So a reader sees either the old file or the new one, whatever else writes at the same
 * time. If the process is killed before, ".NAME.PID-N.tmp" stays. An object of S3 is uploaded
 * (<iter/remote/upload.h>), with the same promise. */
typedef struct iter__new_file {
    const char *path; /* borrowed */
    char *other;
    int fd;
    struct iter__upload *upload; /* of an object; `other` is NULL, fd -1 */
} iter__new_file;

/* `upload` NULL = a path of the file system alone. A URL is written by this thread's client, or by
 * one of its own. Errors: EIO (the folder cannot be written to), ENOMEM, those of
 * iter__upload_open(). On an error there is nothing to close. */
iter_status iter__new_file_open(iter__new_file *file, const char *path,
                                const struct iter__upload_options *upload, iter_error *err);

/* The next n bytes. Errors: EIO, those of iter__upload_write(). */
iter_status iter__new_file_write(const iter__new_file *file, const void *bytes, size_t n,
                                 iter_error *err);

/* No bytes follow: syncs the file, or sends the rest of an upload's parts, so that little can fail
 * in close(), which else does it. Errors: those of write(). */
iter_status iter__new_file_finish(const iter__new_file *file, iter_error *err);

/* Ends the file. `status` is that of the writing: if it is an error, the file is dropped, and
 * `status` is returned. Else the file is synced and renamed. Errors: EIO, those of
 * iter__upload_close(); the file is dropped then. */
iter_status iter__new_file_close(iter__new_file *file, iter_status status, iter_error *err);

#endif
