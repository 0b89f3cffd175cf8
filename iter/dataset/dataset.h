/* dataset.h - a dataset as the runtime reads it: a format, the user's own ops, or arrays. */
#ifndef ITER_DATASET_DATASET_H
#define ITER_DATASET_DATASET_H

#include <pthread.h>
#include <stdatomic.h>

#include <iter/dataset.h>

#include "iter/core/get_rows.h"
#include "iter/reading/shared.h"

/* Memory that holds every row of one field. */
typedef struct iter__resident {
    const uint8_t *base; /* NULL = not resident */
    size_t stride;
} iter__resident;

/* All of a dataset in memory, as rows or as files; made by the first loader that wants it, shared
 * by all, gone with the dataset. */
typedef struct iter__preload {
    uint8_t *memory;
    size_t bytes;
    iter__shared shared;   /* `memory` is in it, if that is open */
    uint64_t *object_base; /* [n_files] offset of each file in memory; NULL = rows lie as arrays: */
    iter__resident rows[ITER_MAX_FIELDS];
    double seconds;
    uint64_t path_bytes[ITER_PATH_COUNT];
} iter__preload;

/* An integer scalar as u64; negative ones become huge. rows.c */
uint64_t iter__scalar_value(const uint8_t *at, iter_dtype dtype);

struct iter_dataset {
    atomic_uint refs;
    char *name;
    iter_description desc;
    iter__resident resident[ITER_MAX_FIELDS];

    const iter_format_ops *format; /* a format, with its state and options ... */
    void *state, *options;
    const iter_dataset_ops *ops; /* ... or the user's own ... */
    void *user;
    bool serial; /* get() is called by one worker at a time */
    void *owned; /* ... or arrays: the copy, if one was asked for */
    size_t owned_bytes;
    void (*release)(void *user);
    void *release_user;

    /* serialises get() where ops has no start(), and next(); refuses to be taken twice by a thread */
    pthread_mutex_t one_at_a_time;
    pthread_mutex_t preload_lock; /* guards preload */
    atomic_int process;           /* whose locks these are: a child of fork() makes its own */
    iter__preload preload;
    atomic_bool is_preloaded; /* set when preload is whole: a fork() may come in between */
};

/* To be called before a lock of the dataset is used in a process that may be a child of the one that
 * made it: a thread of the parent may have held it at the fork. */
void iter__dataset_adopt(iter_dataset *dataset);

/* A dataset over arrays, by the rules of iter_ndarray_create(). */
iter_status iter__dataset_arrays(const iter_array *arrays, int32_t n_arrays, bool copy,
                                 iter_dataset **out, iter_error *err);

/* What a get() answered: a status above 0 is EINVAL, because its rows were not written. */
iter_status iter__dataset_got(iter_status status, iter_error *err);

/* Whether it is [any, any, C], an image of any size. picture.c */
bool iter__is_any_size(const iter_desc *desc);

/* Where sample `index` lies, as its format says; false if that cannot be: a file that is not there, or
 * more bytes than the format said at most. May hang as any callback: not under a lock. */
bool iter__dataset_locate(const iter_dataset *dataset, uint64_t index,
                          iter_extent out[ITER_MAX_EXTENTS]);
/* EINVAL that says so. */
iter_status iter__dataset_mislocated(const iter_dataset *dataset, uint64_t index, iter_error *err);

/* Bytes of all files, saturating; 0 where there are none. */
uint64_t iter__dataset_bytes(const iter_dataset *dataset);

/* Memory that preloading takes for the while beside what it fills. */
#define ITER_PRELOAD_STAGING ((uint64_t)32 << 20)

/* One copy for the processes of this machine. */
typedef struct iter__share_wish {
    bool wanted;
    bool alone_fits; /* a copy of its own may be made if it cannot be shared */
    iter_error why;  /* why it is not shared; status ITER_OK = it is, or was not to be */
} iter__share_wish;

/* Reads every file into memory unless that is done already; *out_now: it was done by this call.
 * `source` is open over the dataset's files. Rows that get() makes are never shared. */
iter_status iter__dataset_preload(iter_dataset *dataset, const iter_source_ops *source, void *state,
                                  iter__share_wish *share, bool *out_now, iter_error *err);

void iter__preload_free(iter__preload *made);

/* What preloaded data count in the limit of one of `local_ranks` processes. */
uint64_t iter__preload_cost(const iter__preload *made, uint32_t local_ranks);

/* Whether a loader has preloaded it already. */
bool iter__dataset_is_preloaded(iter_dataset *dataset);

/* Whether rows made from their index are to be kept (keep_rows, and all of a fixed size), and what
 * that takes; ITER_UNKNOWN = too much. */
bool iter__description_keeps(const iter_description *desc);
uint64_t iter__description_kept_bytes(const iter_description *desc);

/* Whether most of its files, all large, are not in the page cache, by a few reads that do not
 * block. */
bool iter__dataset_is_cold(const iter_dataset *dataset, const iter_source_ops *source, void *state);

/* Length of sample `index` in elements, or -1; the form samplers want. */
int64_t iter__dataset_length(const void *dataset, uint64_t index);
bool iter__dataset_has_length(const iter_dataset *dataset);

#endif
