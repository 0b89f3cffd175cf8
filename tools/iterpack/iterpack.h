/* iterpack.h - what the parts of iterpack share: exit codes, what is printed, lists, records. */
#ifndef BENCH_ITERPACK_H
#define BENCH_ITERPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "loaders/image_list.h"
#include "loaders/record.h"
#include "loaders/window.h"

/* Exit codes. */
enum { PACK_DONE = 0, PACK_FAILED = 1, PACK_USAGE = 2, PACK_INTERRUPTED = 130 };

/* "iterpack: " and the message to stderr, as one line: control characters in names of files come
 * escaped, here and below. Returns PACK_FAILED. */
int pack_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with ": " and strerror(errno). */
int pack_fail_os(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a command line that cannot be; returns PACK_USAGE. */
int pack_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "iterpack: warning: " and the message to stderr. */
void pack_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line to stdout. main() finds out whether all of them were written. */
void pack_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Or the program ends. */
void *pack_memory(void *block, size_t n, size_t size);
char *pack_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The folder of a file, as a path that can be opened: "a/" of "a/b", "." of "b". The caller frees
 * it. */
char *pack_folder_of(const char *path);
/* The folder's entries to the disk, so that renamed files stay renamed. */
int pack_sync_folder(const char *path);

/* ---- options --------------------------------------------------------------------------------- */

/* A row of a command's options. */
typedef struct pack_option {
    const char *name;
    enum { PACK_FLAG, PACK_TEXT, PACK_NUMBER } type;
    void *value; /* bool, const char *, int64_t */
    int64_t min, max;
} pack_option;

/* Takes the options off argv[n_args], each of at most 64 rows once; others are words, at most n_words of
 * them. Returns PACK_DONE or PACK_USAGE. */
int pack_options(int n_args, char **args, const pack_option *rows, const char **words, int n_words,
                 int *out_n_words);

/* ---- lists ----------------------------------------------------------------------------------- */

/* An .lst file, "id TAB label [TAB label ...] TAB path" a line, as the library reads it. */
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

/* As the list has it. */
static inline const char *pack_list_path(const pack_list *list, uint64_t item) {
    return list->list.files.files[item].path;
}

/* Warns if an id stands more than once: MXNet's readers find one record by it. `what` has them. */
void pack_warn_twice(const char *what, const uint64_t *ids, uint64_t n);

/* ---- RecordIO -------------------------------------------------------------------------------- */

/* A file that grows by records; its own buffer. */
typedef struct pack_writer {
    int fd;
    char *path;
    uint64_t offset; /* of the next record */
    uint8_t *buffer;
    size_t used;
    bool failed; /* a write did: it is no longer known what is in the file */
} pack_writer;

/* Opens or makes `path` (taken) to go on at `offset`; what lies behind is cut off. */
int pack_writer_open(pack_writer *writer, char *path, uint64_t offset);
/* One record: the parts one behind the other, as MXNet's writer would have it. */
int pack_writer_add(pack_writer *writer, const iter__record_header *header, const float *labels,
                    const void *content, size_t n_content);
int pack_writer_text(pack_writer *writer, const char *text, size_t n);
/* Everything to the disk. */
int pack_writer_sync(pack_writer *writer);
void pack_writer_close(pack_writer *writer);

/* A file read record by record. */
typedef struct pack_reader {
    iter__window window; /* closed: buffer NULL */
    uint64_t offset;     /* of the present record */
    uint64_t next;       /* of the next one */
    /* the present record, valid until the next one is read */
    uint32_t n_pieces;
    bool filled; /* its pieces are filled up with zeros */
    bool has_header;
    iter__record_header header;
    float *labels;          /* [header.flag], or the header's one */
    uint32_t n_labels;      /* 1 if header.flag is 0 */
    const uint8_t *content; /* behind header and labels; all of it if there are none */
    size_t n_content;
    struct pack_room {
        void *data;
        size_t bytes;
    } bytes, joined, label_room;
} pack_reader;

int pack_reader_open(pack_reader *reader, const char *path);
/* The next record; *out_more false at the file's end. PACK_FAILED with the reason in `err` if it is
 * damaged. */
int pack_reader_next(pack_reader *reader, bool *out_more, iter_error *err);
void pack_reader_close(pack_reader *reader);

/* What a content is by its first bytes. */
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
    bool torn; /* the last line has no end: it is left out */
} pack_index;

int pack_index_load(const char *path, pack_index *out);
void pack_index_free(pack_index *index);

/* ---- commands -------------------------------------------------------------------------------- */

int pack_cmd_list(int n_args, char **args);
int pack_cmd_pack(int n_args, char **args);
int pack_cmd_verify(int n_args, char **args);
int pack_cmd_info(int n_args, char **args);

#endif
