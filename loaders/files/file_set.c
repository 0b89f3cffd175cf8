/*
 * file_set.c - see file_set.h.
 *
 * Names are stored one after the other in blocks: a million allocations for a million files would
 * cost more than looking at the files.
 */
#include "loaders/files/file_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/remote/client.h"
#include "iter/remote/url.h"

#define BLOCK_BYTES ((size_t)1 << 18)

struct iter__text_block {
    iter__text_block *before;
    size_t used, capacity;
    char text[];
};

static char *take(iter__file_set *set, size_t n) {
    iter__text_block *block = set->blocks;
    if (!block || block->capacity - block->used < n) {
        const size_t capacity = iter__max_size(n, BLOCK_BYTES);
        block = iter__alloc(1, sizeof(*block) + capacity);
        if (!block) return NULL;
        block->before = set->blocks;
        block->capacity = capacity;
        set->blocks = block;
    }
    char *text = block->text + block->used;
    block->used += n;
    return text;
}

static char *join(iter__file_set *set, const char *folder, const char *name) {
    const size_t n_name = strlen(name);
    size_t n_folder = name[0] == '/' || iter__url_is(name) ? 0 : strlen(folder);
    const bool slash = n_folder > 0 && folder[n_folder - 1] != '/';
    char *text = take(set, n_folder + slash + n_name + 1);
    if (!text) return NULL;
    memcpy(text, folder, n_folder);
    if (slash) text[n_folder++] = '/';
    memcpy(text + n_folder, name, n_name + 1);
    return text;
}

char *iter__file_set_text(iter__file_set *set, const char *folder, const char *name) {
    if (!iter__url_is(name)) return join(set, folder, name);
    char *hidden = iter__remote_hide(iter__remote_of(name), name);
    char *text = hidden ? join(set, folder, hidden) : NULL;
    iter__free(hidden);
    return text;
}

iter_status iter__file_set_add(iter__file_set *set, const char *path, uint64_t bytes,
                               iter_error *err) {
    if (set->n == set->capacity) {
        const uint64_t capacity = set->capacity ? 2 * set->capacity : 1024;
        iter_file *files = iter__realloc(set->files, (size_t)capacity * sizeof(*files));
        if (!files) return iter__fail(err, ITER_ENOMEM, "%s: no memory for one more file", path);
        set->files = files;
        set->capacity = capacity;
    }
    set->files[set->n++] = iter__file_entry(path, bytes);
    if (bytes > set->largest) set->largest = bytes;
    return ITER_OK;
}

#define UNSEEN  UINT64_MAX /* as the bytes of a file, until all were looked at */
#define MISSING (UINT64_MAX - 1)
#define NO_FILE (UINT64_MAX - 2)

iter_status iter__file_set_add_unseen(iter__file_set *set, const char *path, iter_error *err) {
    const uint64_t largest = set->largest;
    ITER_TRY(iter__file_set_add(set, path, UNSEEN, err));
    set->largest = largest;
    set->n_unseen++;
    return ITER_OK;
}

static iter_status look_at(void *user, uint64_t i, iter_error *err) {
    iter_file *file = &((iter__file_set *)user)->files[i];
    iter__entry found;
    (void)err;
    if (file->bytes != UNSEEN) return ITER_OK;
    iter__path_look(file->path, &found);
    file->bytes = found.kind == ITER_ENTRY_FILE ? found.bytes : found.reason ? MISSING : NO_FILE;
    return ITER_OK;
}

iter_status iter__file_set_look(iter__file_set *set, iter_error *err) {
    uint64_t first = 0;
    if (set->n_unseen == 0) return ITER_OK;
    while (set->files[first].bytes != UNSEEN)
        first++;
    ITER_TRY(iter__files_each(set->files[first].path, set->n, UINT32_MAX, look_at, set, err));
    for (uint64_t i = first; i < set->n; i++) {
        iter_file *file = &set->files[i];
        const uint64_t bytes = file->bytes;
        if (bytes >= NO_FILE) {
            set->n_missing++;
            file->bytes = 1;
            if (bytes == NO_FILE) file->path = iter__file_set_text(set, file->path, "");
            if (!file->path) return iter__fail(err, ITER_ENOMEM, "no memory for names of files");
        }
        set->largest = iter__max_u64(set->largest, file->bytes);
    }
    set->n_unseen = 0;
    return ITER_OK;
}

/* A FIFO or a device must not be opened: that might block or act on the device. So its name gets a
 * slash at the end, which only a folder may have: its read fails with ENOTDIR, a folder's with
 * EISDIR. */
iter_status iter__file_set_add_found(iter__file_set *set, const char *path,
                                     const iter__entry *found, iter_error *err) {
    if (found->kind == ITER_ENTRY_FILE) return iter__file_set_add(set, path, found->bytes, err);
    set->n_missing++;
    if (found->reason == 0) path = iter__file_set_text(set, path, "");
    if (!path) return iter__fail(err, ITER_ENOMEM, "no memory for the names of files");
    return iter__file_set_add(set, path, 1, err);
}

iter_status iter__file_set_check(const iter__file_set *set, const char *of, const char *said,
                                 iter_error *err) {
    iter__entry first;
    char text[128];
    if (set->n == 0 || set->n_missing < set->n) return ITER_OK;
    iter__path_look(set->files[0].path, &first);
    return iter__fail(err, ITER_EIO, "%s: none of its %" PRIu64 " files can be found: %s: %s%s", of,
                      set->n, set->files[0].path,
                      iter__os_error(first.reason ? first.reason : ENOENT, text, sizeof(text)),
                      said);
}

/* By the folder, then by the name: files in a folder come before those of its subfolders. */
static int by_folder_and_name(const void *a, const void *b) {
    const char *p = ((const iter_file *)a)->path, *q = ((const iter_file *)b)->path;
    while (*p && *p == *q)
        p++, q++;
    const char *p_slash = strrchr(p, '/'), *q_slash = strrchr(q, '/');
    /* Up to here both are equal. A folder that ends here, or ended before, is a prefix of the other
     * one. */
    const int p_goes_on = !p_slash ? 0 : p_slash == p ? 1 : 2;
    const int q_goes_on = !q_slash ? 0 : q_slash == q ? 1 : 2;
    if (p_goes_on != q_goes_on) return p_goes_on - q_goes_on;
    return (unsigned char)*p - (unsigned char)*q;
}

void iter__file_set_sort(iter__file_set *set, uint64_t first) {
    /* Lists of S3 mostly are sorted, and a sort takes memory for as many files again. */
    uint64_t i = first + 1;
    while (i < set->n && by_folder_and_name(&set->files[i - 1], &set->files[i]) <= 0)
        i++;
    if (i < set->n)
        qsort(set->files + first, (size_t)(set->n - first), sizeof(*set->files),
              by_folder_and_name);
}

uint64_t iter__file_set_bytes(const iter__file_set *set) {
    uint64_t bytes = set->capacity * sizeof(*set->files);
    for (const iter__text_block *block = set->blocks; block; block = block->before)
        bytes += sizeof(*block) + block->capacity;
    return bytes;
}

void iter__file_set_free(iter__file_set *set) {
    iter__free(set->files);
    for (iter__text_block *block = set->blocks, *before; block; block = before) {
        before = block->before;
        iter__free(block);
    }
    memset(set, 0, sizeof(*set));
}
