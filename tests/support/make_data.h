/*
 * make_data.h - small files in the formats that libiter reads, right or broken on purpose, and
 * formats opened by their tables.
 *
 * If something cannot be made, the program ends with a message: a test cannot go on without it.
 */
#ifndef TESTS_SUPPORT_MAKE_DATA_H
#define TESTS_SUPPORT_MAKE_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <iter/ops.h>

#define MAKE_PATH_MAX 512

/* Makes a new empty folder under $TMPDIR or /tmp and writes its name to out; and removes a folder
 * with all that it contains. */
void make_folder(char out[MAKE_PATH_MAX]);
void make_folder_gone(const char *folder);

/* Writes "folder/name" to out; returns out. */
char *make_path(char out[MAKE_PATH_MAX], const char *folder, const char *name);

/* Makes a file of these bytes; a gzipped one; a folder in the folder. */
void make_file(const char *folder, const char *name, const void *bytes, size_t n);
void make_gzip(const char *folder, const char *name, const void *bytes, size_t n);
void make_subfolder(const char *folder, const char *name);

/* Byte j of the pixels of record i in a file that make_cifar() wrote; the record's label is i %
 * n_classes. */
uint8_t make_pixel(uint32_t i, uint32_t j);

/* Writes n records in CIFAR's binary format: n_label_bytes is 1 (label i % 10) or 2 (coarse i % 20,
 * fine i % 100). `first` is i of the first record. */
void make_cifar(const char *folder, const char *name, uint32_t first, uint32_t n,
                uint32_t n_label_bytes);

/* Writes an IDX header into out (at least 36 bytes); returns its length. */
size_t make_idx_header(uint8_t *out, unsigned code, unsigned n_dims, const uint32_t *dims);

/* Writes the header of a .npy file, version 1.0, with this dictionary text; returns its length.
 * `out` must have at least 64 + 2 * length bytes. */
size_t make_npy_header(uint8_t *out, const char *dictionary);

/* ---- formats by their tables ----------------------------------------------------------------- */

typedef struct opened {
    const iter_format_ops *ops;
    void *state, *options;
    iter_description desc;
} opened;

/* Options: "key=value&key=value", or NULL. On an error everything is released, and out->state is
 * NULL. */
iter_status format_open(const iter_format_ops *ops, const char *path, const char *options,
                        opened *out, iter_error *err);
void format_close(opened *format);

/* Reads extent `e` of a sample by plain reads; returns the number of bytes read, at most
 * capacity. */
size_t format_read(const opened *format, uint64_t index, int e, void *out, size_t capacity);

/* Checks what must hold of every description, and of the first `most` samples. Returns NULL, or
 * what is wrong. */
const char *format_fault(const opened *format, uint64_t most);

/* NAME.bin and NAME.idx as Megatron writes them: n documents of u16 tokens, one after another. */
void make_megatron(const char *folder, const char *name, const uint16_t *tokens,
                   const uint32_t *lengths, uint32_t n);

#endif
