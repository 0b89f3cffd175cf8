/* span_set.c - see span_set.h. */
#include "loaders/formats/span_set.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/core/hash.h"
#include "loaders/files/file.h"

iter_status iter__span_set_open(iter__span_set *set, const char *path, const char *ending,
                                iter_error *err) {
    ITER_TRY(iter__paths_expand(path, ending, &set->paths, err));
    set->files = iter__alloc((size_t)set->paths.n, sizeof(*set->files));
    set->first = iter__alloc((size_t)set->paths.n + 1, sizeof(*set->first));
    if (!set->files || !set->first)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its files", path);
    for (uint64_t f = 0; f < set->paths.n; f++) {
        uint64_t bytes;
        ITER_TRY(iter__file_check(set->paths.names[f], &bytes, err));
        set->files[f] = iter__file_entry(set->paths.names[f], bytes);
    }
    return ITER_OK;
}

iter_status iter__span_set_reserve(iter__span_set *set, uint64_t n, iter_error *err) {
    if (set->capacity - set->n >= n) return ITER_OK;
    uint64_t capacity = set->capacity + set->capacity / 2;
    if (capacity < set->n + n) capacity = set->n + n < 1024 ? 1024 : set->n + n;
    uint64_t *offsets = capacity > SIZE_MAX / sizeof(*offsets)
                            ? NULL
                            : iter__realloc(set->offsets, (size_t)capacity * sizeof(*offsets));
    if (!offsets) {
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its index",
                          set->files[set->n_done].path);
    }
    set->offsets = offsets;
    set->capacity = capacity;
    return ITER_OK;
}

iter_status iter__span_set_add(iter__span_set *set, uint64_t offset, iter_error *err) {
    ITER_TRY(iter__span_set_reserve(set, 1, err));
    set->offsets[set->n++] = offset;
    return ITER_OK;
}

iter_status iter__span_set_end(iter__span_set *set, uint64_t end, iter_error *err) {
    ITER_TRY(iter__span_set_reserve(set, 1, err));
    set->offsets[set->n] = end;
    for (uint64_t i = set->first[set->n_done] + set->n_done; i < set->n; i++) {
        const uint64_t bytes = set->offsets[i + 1] - set->offsets[i];
        if (bytes > set->largest) set->largest = bytes;
    }
    set->n++;
    set->n_done++;
    set->first[set->n_done] = set->n - set->n_done;
    return ITER_OK;
}

/* A file of the set, as a set of its own. */
typedef struct part {
    iter__span_set set;
    uint64_t first[2];
} part;

typedef struct parts {
    const iter__span_set *set;
    part *parts;
    iter__span_set_fill *fill;
    void *user;
} parts;

static iter_status fill_part(void *user, uint64_t f, iter_error *err) {
    const parts *p = user;
    part *one = &p->parts[f];
    one->set.files = p->set->files + f;
    one->set.first = one->first;
    return p->fill(p->user, &one->set, f, err);
}

/* Appends a part that was filled. */
static iter_status append(iter__span_set *set, const iter__span_set *from, iter_error *err) {
    ITER_TRY(iter__span_set_reserve(set, from->n, err));
    memcpy(set->offsets + set->n, from->offsets, (size_t)from->n * sizeof(*from->offsets));
    set->n += from->n;
    set->n_done++;
    set->first[set->n_done] = set->n - set->n_done;
    if (from->largest > set->largest) set->largest = from->largest;
    return ITER_OK;
}

static iter_status fill_parts(iter__span_set *set, iter__span_set_fill *fill, void *user,
                              iter_error *err) {
    const uint64_t n = set->paths.n;
    parts p = {.set = set, .fill = fill, .user = user};
    p.parts = iter__alloc((size_t)n, sizeof(*p.parts));
    if (!p.parts)
        return iter__fail(err, ITER_ENOMEM, "%s: no memory for its index", set->files[0].path);
    iter_status status =
        iter__files_each(set->files[0].path, n, ITER_FILES_SCANS, fill_part, &p, err);
    for (uint64_t f = 0; f < n; f++) {
        if (status == ITER_OK) status = append(set, &p.parts[f].set, err);
        iter__free(p.parts[f].set.offsets);
    }
    iter__free(p.parts);
    return status;
}

iter_status iter__span_set_fill_all(iter__span_set *set, iter__span_set_fill *fill, void *user,
                                    iter_error *err) {
    if (set->paths.n > 1 && set->files[0].place) return fill_parts(set, fill, user, err);
    for (uint64_t f = 0; f < set->paths.n; f++)
        ITER_TRY(fill(user, set, f, err));
    return ITER_OK;
}

void iter__span_set_trim(iter__span_set *set) {
    if (set->n == set->capacity) return;
    uint64_t *offsets = iter__realloc(set->offsets, (size_t)set->n * sizeof(*offsets));
    if (!offsets) return; /* then the room stays */
    set->offsets = offsets;
    set->capacity = set->n;
}

uint64_t iter__span_set_count(const iter__span_set *set) {
    return set->n - set->n_done;
}

iter_extent iter__span_set_locate(const iter__span_set *set, uint64_t index) {
    uint64_t f = 0, end = set->n_done; /* first[f] <= index < first[end] */
    while (end - f > 1) {
        const uint64_t middle = f + (end - f) / 2;
        if (set->first[middle] <= index) {
            f = middle;
        } else {
            end = middle;
        }
    }
    const uint64_t *at = set->offsets + index + f; /* each earlier file adds its end */
    return (iter_extent){.object = f, .offset = at[0], .size = at[1] - at[0]};
}

uint64_t iter__span_set_identity(const iter__span_set *set, uint64_t hash) {
    for (uint64_t f = 0; f < set->n_done; f++) {
        hash = iter__fnv1a_text(hash, iter__path_base(set->files[f].path));
        hash = iter__fnv1a_u64(hash, set->files[f].bytes);
    }
    return iter__fnv1a_u64(hash, iter__span_set_count(set));
}

/* Bytes held. */
static uint64_t bytes_of(const iter__span_set *set) {
    uint64_t bytes = set->capacity * sizeof(*set->offsets) + set->paths.capacity * sizeof(char *) +
                     set->paths.n * (sizeof(*set->files) + sizeof(*set->first));
    for (uint64_t f = 0; f < set->paths.n; f++)
        bytes += strlen(set->paths.names[f]) + 1;
    return bytes;
}

void iter__span_set_describe(const iter__span_set *set, iter_description *out) {
    out->n_samples = iter__span_set_count(set);
    out->n_extents = 1;
    out->max_extent_bytes[0] = set->largest;
    out->files = set->files;
    out->n_files = set->paths.n;
    out->split = "";
    out->index_bytes = bytes_of(set);
}

void iter__span_set_free(iter__span_set *set) {
    iter__paths_free(&set->paths);
    iter__free(set->files);
    iter__free(set->first);
    iter__free(set->offsets);
    memset(set, 0, sizeof(*set));
}
