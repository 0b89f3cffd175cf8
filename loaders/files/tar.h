/*
 * tar.h - the members of a tar archive, one after the other, in a file or in memory.
 *
 * ustar, GNU and pax: long names of all three, sizes in octal and in base 256; pax headers of any
 * size.
 *
 * Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar manual,
 * "Basic Tar Format".
 */
#ifndef ITER_LOADERS_FILES_TAR_H
#define ITER_LOADERS_FILES_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <iter/status.h>

#define ITER_TAR_BLOCK    512u
#define ITER_TAR_NAME_MAX 4096

/* Reads bytes of an archive: up to n <= 8192 bytes at `offset`, fewer only at the end, valid until
 * the next call. */
typedef iter_status iter__tar_bytes(void *user, uint64_t offset, size_t n, const uint8_t **out,
                                    size_t *out_n, iter_error *err);

typedef struct iter__tar {
    iter__tar_bytes *bytes_at;
    void *user;
    const uint8_t *memory; /* of iter__tar_open_memory() */
    uint64_t total;        /* bytes of the archive */
    uint64_t next;         /* where the next member's first header is, or the archive's end */
    /* the current member */
    uint64_t start;  /* of its first header */
    uint64_t offset; /* of its data */
    uint64_t size;
    bool regular;                 /* a file, not a folder or link */
    char link;                    /* '1' = a hard link, '2' = a symbolic one, '\0' = none */
    char target[101];             /* of a link, as much as its header holds */
    char name[ITER_TAR_NAME_MAX]; /* "" = the archive's end */
} iter__tar;

void iter__tar_open(iter__tar *tar, iter__tar_bytes *bytes_at, void *user, uint64_t total);

/* The same for memory[size] that holds a part of an archive, from a member's first header on;
 * borrowed. */
void iter__tar_open_memory(iter__tar *tar, const uint8_t *memory, size_t size);

/* Moves to the next member; ITER_END at the archive's end (two zero blocks, one, or none). Errors:
 * EFORMAT (with the offset: a damaged header, data that end early), EUNSUPPORTED (sparse files),
 * those of bytes_at. */
iter_status iter__tar_next(iter__tar *tar, iter_error *err);

/* A member's name as WebDataset reads it: its first *out_key bytes are the sample's key, folders
 * included; the text after the first dot of the file's name is the field. NULL if it belongs to no
 * sample: no dot, or meta data of the archive, "__x__" or in a folder of such a name. */
const char *iter__tar_field(const char *name, size_t *out_key);

#endif
