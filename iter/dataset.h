/*
 * dataset.h - where samples come from: files in known formats, arrays in memory, the user's own
 * code.
 */
#ifndef ITER_DATASET_H
#define ITER_DATASET_H

#include <iter/ops.h>
#include <iter/registry.h>

ITER_BEGIN_DECLS

typedef struct iter_dataset iter_dataset;

/**
 * Opens a dataset by its name: "format:path?key=value&key=value", e.g.
 * "cifar10:data/cifar-10-batches-bin?split=train". docs/grammar.md has the grammar; `iterbench
 * list` has every format with its options.
 *
 *   registry  the caller's own formats; NULL = built-ins alone
 *
 * Ownership  *out belongs to the caller, until iter_dataset_unref().
 * Errors     EINVAL (spec, with the column), EIO, EFORMAT (file and reason), EUNSUPPORTED, ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_open(const char *spec,
                                                      const iter_registry *registry,
                                                      iter_dataset **out, iter_error *err);

/** Options of iter_dataset_open_with(). */
typedef struct iter_dataset_options {
    size_t struct_size; /* sizeof(iter_dataset_options); ITER_DATASET_OPTIONS_INIT sets it */
    const iter_registry *registry; /* the caller's own formats; NULL = built-ins alone */
    /* Bytes that opening may hold at any time: lists of files, indices, vocabularies, unpacked
     * rows. 0 = the memory that is free now, on the machine and in the process's control group. It
     * counts what built-in formats allocate, but not what a caller's own format gets from malloc().
     * What the open dataset holds also counts in each loader's memory.limit. */
    uint64_t memory_limit;
} iter_dataset_options;

#define ITER_DATASET_OPTIONS_INIT \
    { sizeof(iter_dataset_options), NULL, 0 }

/**
 * iter_dataset_open() with options; `options` NULL = the defaults.
 *
 * Errors     as iter_dataset_open(); ENOMEM if the dataset does not fit into memory_limit, with the
 *            bytes that its file needs.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_open_with(const char *spec,
                                                           const iter_dataset_options *options,
                                                           iter_dataset **out, iter_error *err);

/**
 * Makes a dataset of the caller's own code. `ops` and `user` are borrowed until the last reference
 * is dropped; then ops->close(user) runs once. If this call fails, close() does not run.
 *
 * Errors     EINVAL (a required member missing, invalid fields), the error of describe(), ENOMEM.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_create(const iter_dataset_ops *ops, void *user,
                                                        iter_dataset **out, iter_error *err);

/** One source of a mix. */
typedef struct iter_mix_source {
    const char *name;      /* unique; NULL = the dataset's own */
    iter_dataset *dataset; /* its reference stays the caller's */
    /* its share of the draws, relative to the others'; either all are above 0 or none is */
    double weight;
} iter_mix_source;

/**
 * Several datasets as one: the samples of the first, then those of the second, and so on. All must
 * have the same fields (names, roles, types and shapes; a variable field gets the largest
 * capacity), and a known number of samples. As a spec:
 * "mix:{web=0.7 tokens:a.idx?length=1024; code=0.3 tokens:b.idx?length=1024}".
 *
 * With weights, a loader without a sampler of its own draws by them (`mix` in <iter/sampler.h>):
 * shuffled, if options.shuffle asks for it, or each source as it is stored. Without weights it is a
 * union, and each sample comes once an epoch, by any sampler.
 *
 * Ownership  the mix holds a reference to each dataset. *out belongs to the caller.
 * Errors     EINVAL (fields that differ, by name; weights; two sources of one name), EUNSUPPORTED
 *            (a stream; images of any size beside sources that read no files), ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_mix_create(const iter_mix_source *sources,
                                                    int32_t n_sources, iter_dataset **out,
                                                    iter_error *err);

/** How documents are packed into rows. */
typedef struct iter_pack_options {
    int64_t length;   /* inputs of a row */
    int64_t group;    /* documents that are packed together; 0 = 4,096 */
    int64_t pad;      /* id in the rest of a row */
    int64_t seed;     /* of the dealing into groups */
    int32_t too_long; /* documents longer than a row: 0 = cut into several, 1 = an error */
    bool label, segments, positions, mask, cu_seqlens; /* fields of a row beside `data` */
} iter_pack_options;

#define ITER_PACK_OPTIONS_INIT \
    { 1024, 4096, 0, 0, 0, 1, 1, 1, 0, 0 }

/**
 * Rows of several documents each, planned by their lengths. A row has
 *
 *     data        [length], the documents' ids, then options.pad
 *     label       i32 [length], the next token of the same document, -100 where there is none
 *     segments    i32 [length], 1, 2, ... for the row's documents, 0 after the last
 *     positions   i32 [length], the place of each token in its document's part of the row
 *     mask        u8 [length], 1 where a target counts
 *     cu_seqlens  i32 [variable], where each document begins, and where the last one ends
 *
 * Documents are the samples of `documents`; their tokens are its first field of integers of varying
 * length, and its length() must be exact. With targets, a document of n tokens takes n - 1 places.
 * One that is longer than a row is cut into whole rows and a rest, so that each of its tokens but
 * the first is a target once in an epoch. Each epoch has other rows, always as many. As a spec:
 * "pack:{tokens:set.idx?documents=whole}?length=2048".
 *
 * Ownership  the rows hold a reference to the documents. *out belongs to the caller.
 * Errors     EINVAL (no such field, no lengths, a document too long), EUNSUPPORTED (a stream, more
 *            than 2^32 - 2 documents), EFORMAT (no document has a target), ENOMEM.
 * Threads    any.
 */
ITER_API ITER_NODISCARD iter_status iter_pack_create(iter_dataset *documents,
                                                     const iter_pack_options *options,
                                                     iter_dataset **out, iter_error *err);

/** One named array: row i is at data + i * stride_bytes. */
typedef struct iter_array {
    const char *name; /* NULL = "data" / "label", with MXNet's numbering if there are several */
    iter_role role;
    iter_desc desc;   /* of the whole array: [n, ...] */
    const void *data; /* borrowed */
    /* bytes from row to row; 0 = dense; less than a row: rows overlap, as sliding windows do */
    size_t stride_bytes;
} iter_array;

/** Adds, drops a reference. Any thread. unref(NULL) is ignored. */
ITER_API iter_dataset *iter_dataset_ref(iter_dataset *dataset);
ITER_API void iter_dataset_unref(iter_dataset *dataset);

/** Fields, extents, files and class names of the dataset; valid as long as the dataset. */
ITER_API const iter_description *iter_dataset_describe(const iter_dataset *dataset);

/** The spec that it was opened with, or the name of the user's ops, or "arrays". */
ITER_API const char *iter_dataset_name(const iter_dataset *dataset);

/* ---- One sample ------------------------------------------------------------------------------ */

/** One sample, or one field of it, in memory of its own. */
typedef struct iter_sample iter_sample;

/**
 * Reads and decodes sample `index` without a loader: no chain, no batch. An image has its own size,
 * a variable field its own length.
 *
 *   field   name of the field wanted; NULL = all fields. With a name, only the bytes of this field
 *           are read, and only its decoder runs: a label costs no decoding of pixels. get() always
 *           makes all fields; those not wanted are dropped.
 *
 * A reader and a decoder are made for this one sample, so it is for looking at samples, not for
 * training. get() draws from random numbers of seed 0, epoch 0, position `index`. If the dataset
 * has start() and stop(), they are called around get(), in this thread.
 *
 * Returns    OK, *out is the caller's (iter_sample_free()) and outlives the dataset.
 * Errors     EINVAL (index or field out of range), EUNSUPPORTED (a stream; a codec that this build
 *            lacks), ENOMEM, EIO, EFORMAT and the error of get() or a decoder: the message names
 *            the sample, its file and offset. ESTATE (called by the dataset's own get()).
 * Threads    any number at once. If the dataset's get() may not run twice at once, this call waits
 *            for its turn, without a limit.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_read(iter_dataset *dataset, uint64_t index,
                                                      const char *field, iter_sample **out,
                                                      iter_error *err);

/** Called while a cache is filled: `kept` of the set's `bytes` are in it. False = stop. */
typedef bool iter_fetch_progress(void *user, uint64_t kept, uint64_t bytes);

/**
 * Fills the disk cache of a set at URLs (docs/datasets.md, key `cache`) with what it lacks, before
 * anything reads. What other processes fetch meanwhile is waited for. After an error or a kill, the
 * next call goes on where this one was.
 *
 *   progress  called in this thread, first with what is kept already; NULL = none
 *
 * Errors     EUNSUPPORTED (no file of the set has a cache), EIO (URL, bytes and reason; the cache
 *            is full; an object without an ETag), ECANCELED (progress() said so), ENOMEM.
 * Threads    any; blocks, and drives up to 64 requests from this thread.
 */
ITER_API ITER_NODISCARD iter_status iter_dataset_fetch(iter_dataset *dataset,
                                                       iter_fetch_progress *progress, void *user,
                                                       iter_error *err);

/** Number of fields: 1 if one was asked for. They have the dataset's order. */
ITER_API int32_t iter_sample_n_fields(const iter_sample *sample);

/** Name and row of field i, or NULL if i is not less than iter_sample_n_fields(). Rows are dense,
 * 64-byte aligned, without batch dimension: u8 [427, 640, 3] "HWC". Valid until
 * iter_sample_free(). */
ITER_API const char *iter_sample_name(const iter_sample *sample, int32_t i);
ITER_API const iter_tensor *iter_sample_tensor(const iter_sample *sample, int32_t i);

/** The first warning of a decoder that went on, or "". */
ITER_API const char *iter_sample_warning(const iter_sample *sample);

/** NULL is ignored. */
ITER_API void iter_sample_free(iter_sample *sample);

ITER_END_DECLS

#endif
