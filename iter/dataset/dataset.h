/* dataset.h - a dataset as the runtime reads it: a format, the user's own ops, or arrays. */
#ifndef ITER_DATASET_DATASET_H
#define ITER_DATASET_DATASET_H

#include <pthread.h>
#include <stdatomic.h>

#include <iter/dataset.h>

#include "iter/core/get_rows.h"
#include "iter/reading/shared.h"
#include "iter/remote/client.h"

/* Memory that holds every row of one field. */
typedef struct iter__resident {
    const uint8_t *base; /* NULL = not resident */
    size_t stride;
} iter__resident;

/* All of a dataset in memory, as rows or as files. The first loader that needs it makes it; all
 * loaders of the dataset use it; it is freed with the dataset. */
typedef struct iter__preload {
    uint8_t *memory;
    size_t bytes;
    iter__shared shared;   /* open = `memory` is a part of it */
    uint64_t *object_base; /* [n_files] offset of each file in memory; NULL = use `rows` */
    iter__resident rows[ITER_MAX_FIELDS];
    double seconds;
    uint64_t path_bytes[ITER_PATH_COUNT];
} iter__preload;

/* How the bytes of a sample become rows. A dataset has one way, a mix one for each source, unless
 * sources decode alike. */
typedef struct iter__decoding {
    const iter_decoder_ops *decoders[ITER_MAX_FIELDS]; /* NULL = the row as it is stored */
    const void *shared;
} iter__decoding;

/* An integer scalar as u64; negative ones become huge. */
uint64_t iter__scalar_value(const uint8_t *at, iter_dtype dtype);

extern const iter_format_ops iter__format_pack;
/* Makes the state of packed rows (zero before). It holds a reference. After an error it is
 * closed. */
iter_status iter__pack_build(void *state, iter_dataset *documents, const iter_pack_options *options,
                             iter_description *out, iter_error *err);
void iter__pack_adopt(void *state); /* for iter__dataset_adopt(): makes new locks */

/* mix.c. All ways to decode samples of the mix that has this state; the number of one sample's. */
extern const iter_format_ops iter__format_mix;
const iter__decoding *iter__mix_decodings(const void *state, uint32_t *out_n);
uint32_t iter__mix_decoding(const void *state, uint64_t index);

struct iter_dataset {
    atomic_uint refs;
    char *name;
    iter_description desc;
    iter__resident resident[ITER_MAX_FIELDS];
    iter__decoding decoding;         /* that of a dataset with one */
    const iter__decoding *decodings; /* [n_decodings]: all ways; `decoding`, if it is one */
    uint32_t n_decodings;

    /* Either a format, with its state and options: */
    const iter_format_ops *format;
    void *state, *options;
    iter__remote *remote; /* by which the format opened URLs, or NULL */
    /* or the user's ops: */
    const iter_dataset_ops *ops;
    void *user;
    bool serial; /* get() runs in one thread at a time */
    /* or arrays; this is their copy, or NULL: */
    void *owned;
    size_t owned_bytes;
    void (*release)(void *user);
    void *release_user;

    /* Held during next() and rewind(), and during get() if `serial`. Error-checking: a thread that
     * takes it twice gets EDEADLK. */
    pthread_mutex_t one_at_a_time;
    pthread_mutex_t preload_lock; /* held while `preload` is made; it is const afterwards */
    atomic_int process;           /* pid that the locks belong to; 0 = a thread makes new ones */
    iter__preload preload;
    atomic_bool is_preloaded; /* set last: a child of a fork() in between makes its own `preload` */
};

/* Makes new locks in a child of fork(), because a thread of the parent may have held them at the
 * fork. Must be called before a process uses a lock of the dataset for the first time. */
void iter__dataset_adopt(iter_dataset *dataset);

/* A dataset over arrays, by the rules of iter_ndarray_create(). */
iter_status iter__dataset_arrays(const iter_array *arrays, int32_t n_arrays, bool copy,
                                 iter_dataset **out, iter_error *err);

/* Turns what get() returned into a status: above 0 is EINVAL, because its rows were not written. */
iter_status iter__dataset_got(iter_status status, iter_error *err);

/* Whether it is [any, any, C], an image of any size. */
bool iter__is_any_size(const iter_desc *desc);

/* The number of the way to decode sample `index`. */
static inline uint32_t iter__dataset_decoding(const iter_dataset *dataset, uint64_t index) {
    return dataset->n_decodings == 1 ? 0 : iter__mix_decoding(dataset->state, index);
}

/* Asks the format where sample `index` lies. False if the answer is impossible: a file that does
 * not exist, or more bytes than max_extent_bytes. Like any callback it may block, so no lock may be
 * held. */
bool iter__dataset_locate(const iter_dataset *dataset, uint64_t index,
                          iter_extent out[ITER_MAX_EXTENTS]);
/* Writes what comes after a file's name in a message about a sample: ":4711", the offset of its
 * bytes, or ", line 17" if the format says so. Asks the format, which may block. */
void iter__dataset_place(const iter_dataset *dataset, uint64_t index, uint64_t offset, char *out,
                         size_t capacity);
/* Fails with EINVAL and a message about such an answer. */
iter_status iter__dataset_mislocated(const iter_dataset *dataset, uint64_t index, iter_error *err);

/* Whether any of its files is a URL. */
bool iter__dataset_is_remote(const iter_dataset *dataset);

/* Whether what is read of it is kept in a folder of this machine. */
bool iter__dataset_is_cached(const iter_dataset *dataset);

/* Bytes of all files; ITER_UNKNOWN if a size is unknown or the sum overflows. */
uint64_t iter__dataset_bytes(const iter_dataset *dataset);

/* Memory that preloading needs for a while, beside the memory that it fills. */
#define ITER_PRELOAD_STAGING ((uint64_t)32 << 20)

/* Whether the processes of this machine share one copy of preloaded files. */
typedef struct iter__share_wish {
    bool wanted;
    bool alone_fits; /* when sharing fails, it may make a copy of its own */
    iter_error why;  /* why it is not shared; ITER_OK = it is, or was not wanted */
} iter__share_wish;

/* preload.c. Reads every file into memory, unless that was done already; *out_now = this call did
 * it. `source` must be open over the dataset's files. NULL = calls get() for every row instead;
 * such rows are never shared. Blocks until all is read; other loaders of the dataset wait for
 * it. */
iter_status iter__dataset_preload(iter_dataset *dataset, const iter_source_ops *source, void *state,
                                  iter__share_wish *share, bool *out_now, iter_error *err);

void iter__preload_free(iter__preload *made);

/* Bytes of preloaded data that one of `local_ranks` processes counts in its memory limit. */
uint64_t iter__preload_cost(const iter__preload *made, uint32_t local_ranks);

/* Whether a loader has preloaded it already. */
bool iter__dataset_is_preloaded(iter_dataset *dataset);

/* Whether rows that get() makes are kept: the format asks for it (keep_rows) and all have a fixed
 * size. And the bytes that takes; ITER_UNKNOWN = too many. */
bool iter__description_keeps(const iter_description *desc);
uint64_t iter__description_kept_bytes(const iter_description *desc);

/* Whether its files are large and most of them are not in the page cache, by a few reads that do
 * not block. */
bool iter__dataset_is_cold(const iter_dataset *dataset, const iter_source_ops *source, void *state);

/* labels.c. Writes integer labels to out[n]: those of samples subset[first + i], or of samples
 * first + i if subset is NULL. `field` NULL = the first field with the role of a label. Errors:
 * EINVAL (no such field, or not one integer a sample), those of reading; the message names the
 * sample. Threads: any number at once; it starts up to three while samples are read. */
iter_status iter__dataset_labels(iter_dataset *dataset, const char *field, const uint64_t *subset,
                                 uint64_t first, uint64_t n, int64_t *out, iter_error *err);

/* The bits of a sample's number in what get() is asked for. */
static inline uint64_t iter__index_mask(const iter_dataset *dataset) {
    return dataset->desc.by_epoch ? ITER_INDEX_MAX : UINT64_MAX;
}

/* Length of sample `index` in elements, or -1. `dataset` is a void pointer as samplers pass it. */
int64_t iter__dataset_length(const void *dataset, uint64_t index);
bool iter__dataset_has_length(const iter_dataset *dataset);

#endif
