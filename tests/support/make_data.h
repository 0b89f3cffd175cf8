/*
 * make_data.h - small files in the formats that libiter reads, right or broken on purpose, and formats opened by their tables.
 *
 * What cannot be made ends the program with a message: a test cannot go on without it.
 */
#ifndef TESTS_SUPPORT_MAKE_DATA_H
#define TESTS_SUPPORT_MAKE_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <iter/ops.h>

#define MAKE_PATH_MAX 512

/* A new empty folder (under $TMPDIR, or /tmp) with its name in out; and away with it and all that is in it. */
void make_folder(char out[MAKE_PATH_MAX]);
void make_folder_gone(const char *folder);

/* "folder/name" in out; returns out. */
char *make_path(char out[MAKE_PATH_MAX], const char *folder, const char *name);

/* A file of these bytes; the same gzipped; a folder in the folder. */
void make_file(const char *folder, const char *name, const void *bytes, size_t n);
void make_gzip(const char *folder, const char *name, const void *bytes, size_t n);
void make_subfolder(const char *folder, const char *name);

/* Byte j of the pixels of record i of a file that make_cifar() wrote; its label is i % n_classes. */
uint8_t make_pixel(uint32_t i, uint32_t j);

/* n records in CIFAR's binary format: n_label_bytes 1 (label i % 10) or 2 (coarse i % 20, fine i % 100). `first` = i of the first record. */
void make_cifar(const char *folder, const char *name, uint32_t first, uint32_t n,
                uint32_t n_label_bytes);

/* Writes an IDX header into out (at least 36 bytes); returns its length. */
size_t make_idx_header(uint8_t *out, unsigned code, unsigned n_dims, const uint32_t *dims);

/* The bytes of a .npy file's header, version 1.0, for this dictionary text; returns its length. out has at least 64 + 2 * length bytes. */
size_t make_npy_header(uint8_t *out, const char *dictionary);

/* ---- formats by their tables ------------------------------------------------------------------------------- */

typedef struct opened {
    const iter_format_ops *ops;
    void *state, *options;
    iter_description desc;
} opened;

/* options: "key=value&key=value", or NULL. On an error everything is released, and out->state is NULL. */
iter_status format_open(const iter_format_ops *ops, const char *path, const char *options,
                        opened *out, iter_error *err);
void format_close(opened *format);

/* Reads extent `e` of a sample by plain reads; returns the bytes got, at most capacity. */
size_t format_read(const opened *format, uint64_t index, int e, void *out, size_t capacity);

/* What must hold of every description; answers NULL, or what is wrong. Looks at every sample up to `most`. */
const char *format_fault(const opened *format, uint64_t most);

#endif
