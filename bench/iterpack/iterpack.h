/* iterpack.h - what the parts of iterpack share: exit codes, errors, lists, records. */
#ifndef BENCH_ITERPACK_H
#define BENCH_ITERPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes. */
enum { PACK_DONE = 0, PACK_FAILED = 1, PACK_USAGE = 2, PACK_INTERRUPTED = 130 };

/* "iterpack: " and the message to stderr; returns PACK_FAILED. */
int pack_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same with ": " and strerror(errno). */
int pack_fail_os(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a command line that cannot be; returns PACK_USAGE. */
int pack_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Or the program ends. */
void *pack_memory(void *block, size_t n, size_t size);
char *pack_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

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

typedef struct pack_item {
    uint64_t id;
    const char *path; /* as the list has it */
    uint32_t first_label;
} pack_item;

/* An .lst file: "id TAB label [TAB label ...] TAB path" a line. */
typedef struct pack_list {
    char *text;
    pack_item *items;
    float *labels; /* [n * n_labels] */
    uint64_t n;
    uint32_t n_labels;
    uint64_t hash; /* of its bytes */
} pack_list;

int pack_list_load(const char *path, pack_list *out);
void pack_list_free(pack_list *list);

/* ---- RecordIO -------------------------------------------------------------------------------- */

#define PACK_HEADER_BYTES 24u

/* What a record's payload begins with. */
typedef struct pack_header {
    uint32_t flag;
    float label;
    uint64_t id, id2;
} pack_header;

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
int pack_writer_add(pack_writer *writer, const pack_header *header, const float *labels,
                    const void *content, size_t n_content);
int pack_writer_text(pack_writer *writer, const char *text, size_t n);
/* Everything to the disk. */
int pack_writer_sync(pack_writer *writer);
void pack_writer_close(pack_writer *writer);

/* A file read record by record. */
typedef struct pack_reader {
    int fd;
    const char *path; /* borrowed */
    uint64_t bytes;   /* of the file */
    uint64_t offset;  /* of the present record */
    uint64_t next;    /* of the next one */
    uint32_t n_pieces;
    uint8_t *payload; /* the present record's */
    size_t n, capacity;
    uint8_t *buffer;
    uint64_t buffer_at;
    size_t buffer_n;
} pack_reader;

int pack_reader_open(pack_reader *reader, const char *path);
/* The next record; *out_more false at the file's end. PACK_FAILED with `reason` filled where it is
 * damaged. */
int pack_reader_next(pack_reader *reader, bool *out_more, char *reason, size_t capacity);
void pack_reader_close(pack_reader *reader);

/* Header and labels of a payload; where the content begins, or 0 where it is none. */
size_t pack_header_read(const uint8_t *payload, size_t n, pack_header *out);

/* What a content is by its first bytes. */
typedef enum pack_content {
    PACK_JPEG,
    PACK_PNG,
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
