/* iterpack.h - shared by the parts of iterpack: exit codes, output, lists, records. */
#ifndef ITERPACK_H
#define ITERPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "loaders/files/record.h"
#include "loaders/files/window.h"
#include "loaders/formats/image_list.h"

/* Exit codes. */
enum { PACK_DONE = 0, PACK_FAILED = 1, PACK_USAGE = 2, PACK_INTERRUPTED = 130 };

/* Prints "iterpack: " and the message to stderr, as one line. Here and below, control characters in
 * names of files are escaped. Returns PACK_FAILED. */
int pack_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with ": " and strerror(errno). */
int pack_fail_os(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for an invalid command line; returns PACK_USAGE. */
int pack_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "iterpack: warning: " and the message to stderr. */
void pack_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a line to stdout. main() checks that all lines were written. */
void pack_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Allocates memory. If there is none, the program ends. */
void *pack_memory(void *block, size_t n, size_t size);
char *pack_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The folder of a file or URL, as a path that can be opened: "a/" of "a/b", "." of "b". The caller
 * frees it. */
char *pack_folder_of(const char *path);
/* Syncs the folder of a file, so that renames in it survive a crash. */
int pack_sync_folder(const char *path);

/* ---- options --------------------------------------------------------------------------------- */

/* One option of a command. */
typedef struct pack_option {
    const char *name;
    enum { PACK_FLAG, PACK_TEXT, PACK_NUMBER } type;
    void *value; /* bool, const char *, int64_t */
    int64_t min, max;
} pack_option;

/* Takes the options from argv[n_args]: at most 64 rows, each given at most once. Other arguments
 * are words, at most n_words. Returns PACK_DONE or PACK_USAGE. */
int pack_options(int n_args, char **args, const pack_option *rows, const char **words, int n_words,
                 int *out_n_words);

/* ---- lists ----------------------------------------------------------------------------------- */

/* An .lst file, "id TAB label [TAB label ...] TAB path" per line, as the library reads it. */
typedef struct pack_list {
    iter__list list;
    float *labels; /* [n * n_labels] */
    uint64_t n;
    uint32_t n_labels;
} pack_list;

int pack_list_load(const char *path, pack_list *out);
void pack_list_free(pack_list *list);

static inline uint64_t pack_list_id(const pack_list *list, uint64_t item) {
    return list->list.ids[item];
}

/* The path as the list has it. */
static inline const char *pack_list_path(const pack_list *list, uint64_t item) {
    return list->list.files.files[item].path;
}

/* Warns if an id occurs more than once: MXNet's readers find only one record by it. `what` names
 * the place that has the ids. */
void pack_warn_twice(const char *what, const uint64_t *ids, uint64_t n);

/* ---- RecordIO -------------------------------------------------------------------------------- */

/* A file or an object that grows by records, with its own buffer. */
typedef struct pack_writer {
    int fd; /* -1 of an object */
    char *path;
    iter__new_file object; /* at a URL */
    uint64_t offset;       /* of the next record */
    uint8_t *buffer;
    size_t used;
    bool failed; /* a write failed, so the file's content is unknown */
} pack_writer;

/* Opens or creates `path` (takes ownership) to continue at `offset`; bytes after it are cut off. */
int pack_writer_open(pack_writer *writer, char *path, uint64_t offset);
/* Adds one record, split into parts as MXNet's writer does it. */
int pack_writer_add(pack_writer *writer, const iter__record_header *header, const float *labels,
                    const void *content, size_t n_content);
int pack_writer_text(pack_writer *writer, const char *text, size_t n);
/* Syncs everything to the disk. */
int pack_writer_sync(pack_writer *writer);
void pack_writer_close(pack_writer *writer);

/* The same for an object at `url` (takes ownership), from its first byte. No reader sees it before
 * pack_writer_publish(). Where it is interrupted, these and the functions above return
 * PACK_INTERRUPTED, without a message. */
int pack_writer_open_url(pack_writer *writer, char *url,
                         const struct iter__upload_options *options);
/* Sends all that was written. */
int pack_writer_finish(pack_writer *writer);
/* If `status` is PACK_DONE, the object is there after it; else it is dropped. Returns `status`, or
 * why it failed. Does nothing if there is no object. */
int pack_writer_publish(pack_writer *writer, int status);

/* A file read record by record. */
typedef struct pack_reader {
    iter__window window; /* if closed, buffer is NULL */
    uint64_t offset;     /* of the present record */
    uint64_t next;       /* of the next one */
    /* The current record, valid until the next one is read. */
    uint32_t n_pieces;
    bool filled; /* its pieces are padded with zeros */
    bool has_header;
    iter__record_header header;
    float *labels;          /* [header.flag], or the header's one */
    uint32_t n_labels;      /* 1 if header.flag is 0 */
    const uint8_t *content; /* after header and labels; everything if there are none */
    size_t n_content;
    struct pack_room {
        void *data;
        size_t bytes;
    } bytes, joined, label_room;
} pack_reader;

int pack_reader_open(pack_reader *reader, const char *path);
/* Reads the next record; *out_more is false at the file's end. If the record is damaged, returns
 * PACK_FAILED with the reason in `err`. */
int pack_reader_next(pack_reader *reader, bool *out_more, iter_error *err);
void pack_reader_close(pack_reader *reader);

/* The kind of a content, by its first bytes. */
typedef enum pack_content {
    PACK_JPEG,
    PACK_PNG,
    PACK_WEBP,
    PACK_EMPTY,
    PACK_OTHER,
    PACK_CONTENTS
} pack_content;

pack_content pack_content_of(const uint8_t *bytes, size_t n);

/* "x.idx" for "x.rec". */
char *pack_idx_path(const char *rec);

/* The lines of an .idx file: keys and offsets. */
typedef struct pack_index {
    uint64_t *keys, *offsets;
    uint64_t n;
    bool torn; /* the last line is incomplete and left out */
} pack_index;

int pack_index_load(const char *path, pack_index *out);
void pack_index_free(pack_index *index);

/* ---- commands -------------------------------------------------------------------------------- */

int pack_cmd_list(int n_args, char **args);
int pack_cmd_pack(int n_args, char **args);
int pack_cmd_verify(int n_args, char **args);
int pack_cmd_info(int n_args, char **args);

#endif
